"""The step time of a training log, at the inputs of a scenario."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from fleetcube.formats import training_log as logs
from fleetcube.formats.training_log import TrainingLog
from fleetcube.grid.errors import InputError
from fleetcube.grid.spec import values
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.scenario.bounded import read_text

from .predict import evaluate

_BATCH, _GPUS, _TOKENS = "global_batch_size", "n_gpus", "tokens_per_step"


def training_logs(paths: Sequence[str]) -> dict[str, TrainingLog]:
    """Training logs among some files; pipes, which can be read once, are skipped."""
    by_path = {}
    for path in paths:
        if os.path.isfile(path):
            text = read_text(path, logs.LARGEST, "records", "give fewer records")
            if logs.is_training_log(text):
                by_path[path] = logs.parse_training_log(text, path)
    return by_path


def step_of(log: TrainingLog, scenario: Mapping[str, Any]) -> tuple[float, dict[str, Any]]:
    """Seconds of the median step, and the inputs found in the log. Raises InputError."""
    inputs = {} if log.batch is None else {_BATCH: log.batch}
    if log.batch is not None and _BATCH in scenario:
        stated = values.number(PHYSICS, _BATCH, scenario[_BATCH])
        if stated != log.batch:
            raise InputError(
                f"the log's global batch is {log.batch:.0f}, the spec's {_BATCH} = {stated:.0f}; "
                "give the spec of this job"
            )
    if log.per == logs.STEP:
        return log.time, inputs
    needed = (_BATCH,) if log.per == logs.SAMPLE else (_BATCH, _GPUS)
    missing = [name for name in needed if name not in scenario]
    if missing:
        raise InputError(
            f"the log prints rates per {log.per}; state {' and '.join(missing)} in the spec"
        )
    if log.per == logs.SAMPLE:
        return log.time * values.number(PHYSICS, _BATCH, scenario[_BATCH]), inputs
    (tokens,) = evaluate([((_TOKENS,), scenario)])
    if isinstance(tokens, str):
        raise InputError(tokens)
    return log.time * tokens[0] / values.number(PHYSICS, _GPUS, scenario[_GPUS]), inputs
