"""Predict measured rows by the sweeps that a user would write."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube.catalog import KINDS, CatalogError, record
from fleetcube.grid.errors import InputError
from fleetcube.grid.progress import expected
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec import values
from fleetcube.grid.spec.problem import resolve
from fleetcube.kernels.physics.graph import PHYSICS

from .row import LeftOut, Row

STEP, ALL_REDUCE = "step_time", "all_reduce_time"
_IDEAL, _COUNTED = ("ideal_compute_time", "tokens_per_step"), {"flops_counting": "parameters"}
_NO_LIMIT = 1e15  # [B/s], of links that a message does not cross, or that do not slow it down

Question = tuple[tuple[str, ...], Mapping[str, Any]]  # outputs, and the inputs to predict them at


@dataclass(frozen=True)
class Compared:
    """One measured value and its prediction, in the base unit; NaN where unknown. `low` and `high`
    are the ends of the interval. For a step, `ideal_time` is its time [s] with every GPU at its
    peak and 6 N D FLOP, `tokens_per_gpu` its tokens over the number of GPUs."""

    id: str
    group: str
    of: str
    measured: float
    predicted: float
    low: float = math.nan
    high: float = math.nan
    ideal_time: float = math.nan
    tokens_per_gpu: float = math.nan

    @property
    def error(self) -> float:
        """Predicted over measured, minus one."""
        return self.predicted / self.measured - 1


def predict(rows: Sequence[Row]) -> tuple[list[Compared], list[LeftOut]]:
    """Rows with their predictions, and those without one, with the reason."""
    questions: list[Question] = []
    predicted, reasons = [], {}
    for k, row in enumerate(rows):
        try:
            if not 0 < row.measured < math.inf:
                raise InputError(f"measured {row.of} = {row.measured:g} is not a positive number")
            questions.append(_question(row))
            predicted.append(k)
        except (InputError, CatalogError) as error:
            reasons[k] = str(error)
    answers = dict(zip(predicted, evaluate(questions), strict=True))
    steps = [k for k in predicted if rows[k].of == STEP and not isinstance(answers[k], str)]
    ideal_questions = [(_IDEAL, {**rows[k].inputs, **_COUNTED}) for k in steps]
    ideals = dict(zip(steps, evaluate(ideal_questions), strict=True))
    compared = []
    for k, answer in answers.items():
        if isinstance(answer, str):
            reasons[k] = answer
        elif not 0 < answer[0] < math.inf:
            reasons[k] = f"the predicted {rows[k].of} is {answer[0]:g}"
        else:
            compared.append(_compared(rows[k], answer, ideals.get(k, "")))
    return compared, [LeftOut(rows[k].id, rows[k].group, reasons[k]) for k in sorted(reasons)]


def _compared(row: Row, answer: tuple[float, ...], ideal: tuple[float, ...] | str) -> Compared:
    predicted, *ends = answer
    low, high = ends if ends and ends[0] < ends[1] else (math.nan, math.nan)
    time, tokens = (math.nan, math.nan) if isinstance(ideal, str) else ideal
    n_gpus = (
        values.number(PHYSICS, "n_gpus", row.inputs["n_gpus"])
        if "n_gpus" in row.inputs
        else math.nan
    )
    return Compared(
        row.id, row.group, row.of, row.measured, predicted, low, high, time, tokens / n_gpus
    )


def _question(row: Row) -> Question:
    """The output to compare with a row, and the ends of its interval if the model has one."""
    if row.of == ALL_REDUCE:
        return ("data_parallel_all_reduce_time",), _alone(row.inputs)
    ends = (f"{row.of}_low", f"{row.of}_high")
    return (row.of, *(ends if PHYSICS.quantities.keys() >= {*ends} else ())), row.inputs


def _alone(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """An all-reduce of `ranks` over `nodes` as the only message of a data-parallel group. A
    calibration between nodes includes the links inside, which then add no further limit."""
    needed = ("message_bytes", "ranks", "nodes")
    missing = [name for name in needed if name not in inputs]
    if missing:
        raise InputError(f"{missing[0]} is missing; an all-reduce needs {', '.join(needed)}")
    others = {name: value for name, value in inputs.items() if name not in needed}
    ranks, nodes = (_count(name, inputs[name]) for name in ("ranks", "nodes"))
    fitted = record("calibration", others["calibration"]).values if "calibration" in others else {}
    links = {"intra_node_bandwidth": "inside a node", "inter_node_bandwidth": "between nodes"}
    idle, crossed = links if nodes > 1 else reversed(links)
    if idle in fitted and crossed not in {*fitted, *others}:
        raise InputError(
            f"calibration = {others['calibration']!r} was not fitted {links[crossed]}; name another"
        )
    if crossed in fitted or (nodes == 1 and "fabric" not in others):
        others.setdefault(idle, fitted.get(idle, _NO_LIMIT))
    return {
        **others,
        "bucket_message": inputs["message_bytes"],
        "gradient_ranks": ranks,
        "data_parallel_ranks_per_node": ranks / nodes,
    }


def _count(name: str, value: Any) -> float:
    try:
        return values.number(PHYSICS, "n_gpus", value)
    except InputError as error:
        raise InputError(str(error).replace("n_gpus", name)) from None


def evaluate(questions: Sequence[Question]) -> list[tuple[float, ...] | str]:
    """Outputs of every question in base units, or why there are none; like ones share a sweep."""
    done = expected(len(questions), "predictions")
    alike: defaultdict[Any, list[int]] = defaultdict(list)
    answers: dict[int, tuple[float, ...] | str] = {}
    for k, (outputs, inputs) in enumerate(questions):
        try:
            resolve(inputs, {})
            alike[outputs, frozenset(inputs)].append(k)
        except InputError as error:
            answers[k] = str(error)
            done(1)
    for (outputs, names), members in alike.items():
        choices = sorted(n for n in names if n in KINDS or values.is_option(PHYSICS, n))
        chosen = {k: [str(questions[k][1][n]) for n in choices] for k in members}
        # Sorted: each run of equal choices is one set of formulas
        members.sort(key=chosen.__getitem__)
        table = [questions[k][1] for k in members]
        answers.update(zip(members, _sweep(outputs, table), strict=True))
        done(len(members))
    return [answers[k] for k in range(len(questions))]


def _sweep(outputs: tuple[str, ...], table: list[Mapping[str, Any]]) -> list[Any]:
    """All rows in one sweep; if one is unusable, each half separately, down to that row."""
    alone = len(table) == 1
    moving = {name: [row[name] for row in table] for name in table[0]}
    axes = {} if alone else {"row": {**moving, "labels": [f"{k}" for k in range(len(table))]}}
    try:
        cube = Evaluation(table[0] if alone else {}, axes, outputs).evaluate(
            settings=Settings("numpy")
        )
    except (InputError, CatalogError) as error:
        if alone:
            return [str(error)]
        half = len(table) // 2
        return [*_sweep(outputs, table[:half]), *_sweep(outputs, table[half:])]
    columns = [np.broadcast_to(cube[name].values, len(table)) for name in outputs]
    return list(zip(*(column.tolist() for column in columns), strict=True))
