"""The step time of a training log, at the inputs of a scenario."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..formats.training_log import (
    LARGEST,
    SAMPLE,
    STEP,
    TrainingLog,
    is_training_log,
    parse_training_log,
)
from ..spec import values
from ..spec.bounded import read_text
from .predict import STEP as STEP_TIME
from .predict import evaluate
from .row import Row
from .steps import Table

_BATCH, _GPUS, _TOKENS = "global_batch_size", "n_gpus", "tokens_per_step"


def table_of(log: TrainingLog, scenario: Mapping[str, Any]) -> Table:
    """One row to fit to: the median step. Raises InputError."""
    seconds, inputs = _step(log, scenario)
    return Table({name: [value] for name, value in inputs.items()}, [seconds], [1])


def row_of(path: str, log: TrainingLog, scenario: Mapping[str, Any]) -> Row:
    """One row to compare with: the median step. Raises InputError."""
    seconds, inputs = _step(log, scenario)
    name, group = Path(path).name, Path(path).stem
    return Row(name, group, "", {**scenario, **inputs}, STEP_TIME, seconds, tuple(log.said()))


def training_logs(paths: Sequence[str]) -> dict[str, TrainingLog]:
    """Those of some files that are training logs; pipes, read once, are not looked into."""
    found = {}
    for path in paths:
        if os.path.isfile(path):
            text = read_text(path, LARGEST, "records", "give fewer records")
            if is_training_log(text):
                found[path] = parse_training_log(text, path)
    return found


def _step(log: TrainingLog, scenario: Mapping[str, Any]) -> tuple[float, dict[str, Any]]:
    """Seconds of the median step, and the inputs that the log states."""
    inputs = {} if log.batch is None else {_BATCH: log.batch}
    if log.batch is not None and _BATCH in scenario:
        stated = values.number(_BATCH, scenario[_BATCH])
        if stated != log.batch:
            raise InputError(
                f"the log's global batch is {log.batch:.0f}, the spec's {_BATCH} = {stated:.0f}; "
                "give the spec of this job"
            )
    if log.per == STEP:
        return log.time, inputs
    needed = (_BATCH,) if log.per == SAMPLE else (_BATCH, _GPUS)
    missing = [name for name in needed if name not in scenario]
    if missing:
        raise InputError(
            f"the log prints rates per {log.per}; state {' and '.join(missing)} in the spec"
        )
    if log.per == SAMPLE:
        return log.time * values.number(_BATCH, scenario[_BATCH]), inputs
    (tokens,) = evaluate([((_TOKENS,), scenario)])
    if isinstance(tokens, str):
        raise InputError(tokens)
    return log.time * tokens[0] / values.number(_GPUS, scenario[_GPUS]), inputs
