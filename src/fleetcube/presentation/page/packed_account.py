"""What a page needs to account for its numbers: formulas, units, meanings and sources."""

import base64
import json
import math
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fleetcube.analysis.account_tree import Row, row_of, uncertain, values_of
from fleetcube.grid.plan.plan import Plan
from fleetcube.kernels.graph.formulas import Function, parameters
from fleetcube.kernels.physics.roles import CHECKS
from fleetcube.tables.tables import scale


def packed_account(
    plans: Sequence[Plan],
    programs: Sequence[int],
    outputs: Sequence[str],
    chosen: Collection[str],
) -> str:
    """The formulas of each program of a page and its inputs, as compressed JSON. `plans` and
    `programs` are those of the choices, and `chosen` the inputs that these set."""
    rows: dict[tuple[str, Function], Row] = {}
    by_program: dict[int, list[int]] = {}
    inputs: dict[str, dict[str, Any]] = {}
    for plan, program in zip(plans, programs, strict=True):
        values, formulas = values_of(plan), _needed(plan, outputs)
        for name, formula in formulas.items():
            if (name, formula) not in rows:
                rows[name, formula] = row_of(plan, name, values[name], 0.0, {})
        keys = [*rows]
        by_program[program] = [keys.index(key) for key in formulas.items()]
        for name in sorted({n for f in formulas.values() for n in parameters(f)} - {*formulas}):
            row = row_of(plan, name, values[name], 0.0, None)
            origin = "this choice" if name in chosen else row.origin
            inputs.setdefault(name, {**_input(row), "from": []})["from"].append(origin)
    for entry in inputs.values():
        entry["from"] = entry["from"] if len({*entry["from"]}) > 1 else entry["from"][:1]
    facts = {
        "formulas": [*map(_formula, rows.values())],
        "programs": [by_program[program] for program in sorted(by_program)],
        "inputs": inputs,
        "records": _sources(plans, {each for entry in inputs.values() for each in entry["from"]}),
        "checks": CHECKS,
        "uncertain": {name: uncertain(plans[0], name) for name in outputs},
    }
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _needed(plan: Plan, outputs: Sequence[str]) -> dict[str, Function]:
    """The formulas that outputs depend on, in order."""
    formulas, needed = plan.cases[0].formulas, {*outputs}
    for name in reversed(formulas):
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


def _sources(plans: Sequence[Plan], origins: Collection[str]) -> dict[str, str]:
    """The sources of records, by the origin that `row_of` gives for what they set."""
    records: Mapping[str, Any] = {
        f"{record.kind} {record.label}": record for plan in plans for record in plan.problem.records
    }
    return {
        origin: ", ".join(filter(None, (record.source, record.date)))
        for origin, record in records.items()
        if origin in origins
    }
