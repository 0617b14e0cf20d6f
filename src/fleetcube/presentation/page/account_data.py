"""What a page needs to account for its numbers: formulas, units, meanings and sources."""

import base64
import json
import math
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from fleetcube.analysis.account_tree import Row, row_of, uncertain, values_of
from fleetcube.grid.plan.plan import Plan
from fleetcube.kernels.graph.formulas import Function, parameters
from fleetcube.kernels.physics.roles import CHECKS, COUNTING
from fleetcube.tables.tables import scale


def packed_account(
    choices: Sequence[tuple[Plan, Mapping[str, float]]],
    data: Mapping[str, Any],
    chosen: Collection[str],
) -> str:
    """The formulas of a page's programs and its inputs, as compressed JSON. `choices` are plans
    with the values of their inputs, `data` is the script's input, choices set the inputs `chosen`.
    """
    outputs = [
        each["name"]
        for k, each in enumerate(data["outputs"])
        if not each["hidden"] or k in data["losses"]
    ]
    rows: dict[tuple[str, Function], tuple[int, Row]] = {}
    programs: dict[int, list[int]] = {}
    inputs: dict[str, dict[str, Any]] = {}
    for k, ((plan, given), program) in enumerate(zip(choices, data["programs"], strict=True)):
        formulas = _needed(plan, outputs)
        if program not in programs:
            values = values_of(plan)
            for name, formula in formulas.items():
                if (name, formula) not in rows:
                    row = row_of(plan, name, values[name], 0.0, {})
                    rows[name, formula] = len(rows), row
            programs[program] = [rows[key][0] for key in formulas.items()]
        for name in {n for f in formulas.values() for n in parameters(f)} - formulas.keys():
            row = row_of(plan, name, given[name], 0.0, None)
            entry = inputs.setdefault(name, {**_input(row), "from": [""] * len(choices)})
            entry["from"][k] = "this choice" if name in chosen else row.origin
    for entry in inputs.values():
        origins = {*entry["from"]} - {""}
        entry["from"] = entry["from"] if len(origins) > 1 else [*origins]
    facts = {
        "formulas": [_formula(row) for _, row in rows.values()],
        "programs": [programs[program] for program in sorted(programs)],
        "inputs": {name: inputs[name] for name in sorted(inputs)},
        "records": _sources(plan for plan, _ in choices),
        "checks": CHECKS.get(choices[0][0].cases[0].options.get(COUNTING, ""), {}),
        "uncertain": {name: uncertain(choices[0][0], name) for name in outputs},
    }
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _needed(plan: Plan, outputs: Sequence[str]) -> dict[str, Function]:
    """The formulas that outputs depend on, in order."""
    formulas, needed = plan.cases[0].formulas, {*outputs}
    for name in reversed([*formulas]):
        needed |= {*parameters(formulas[name])} if name in needed else set()
    return {name: formula for name, formula in formulas.items() if name in needed}


def _formula(row: Row) -> list[Any]:
    """Its name, factor, unit, meaning, source, text and steps, and its docstring's if these are
    long."""
    assert row.expression
    facts: list[Any] = [row.name, *_scale(row), row.meaning, row.origin, row.expression.text]
    return facts if row.expression.is_short else [*facts, row.expression.texts, row.maths]


def _input(row: Row) -> dict[str, Any]:
    factor, unit = _scale(row)
    value = row.value if math.isfinite(row.value) else str(row.value)  # as JSON has none
    return {"value": value, "factor": factor, "unit": unit, "about": row.meaning}


def _scale(row: Row) -> tuple[float, str]:
    return scale(row.unit, [row.value], row.name) if row.unit != "flag" else (1.0, "")


def _sources(plans: Iterable[Plan]) -> dict[str, str]:
    """The sources of records, by the origin that `row_of` gives for what they set."""
    records = {f"{each.kind} {each.label}": each for plan in plans for each in plan.problem.records}
    return {
        origin: ", ".join(filter(None, (record.source, record.date)))
        for origin, record in records.items()
    }
