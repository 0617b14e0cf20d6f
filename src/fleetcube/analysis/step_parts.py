"""The parts of one step of a job: nested parts that add up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.result import Result
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings

from .terms import given

if TYPE_CHECKING:
    pass

STEP = "step_time"
RATIO = "step_time_ratio"  # of its parts to the computed ones, all alike
STOPS = "slow_node_stop_time"
SERIAL = "serial_time_per_step"  # an input
REST = "below_peak"  # of computing: kernels below peak, and recomputation
_WITHIN = {
    STEP: (
        *("compute_time", "straggler_time", "bubble_time", "exposed_communication_time"),
        *("optimizer_time", SERIAL, STOPS),
    ),
    "compute_time": ("ideal_compute_time", REST),
    "exposed_communication_time": (
        *("exposed_layer_communication_time", "exposed_pipeline_parallel_time"),
        *("exposed_data_parallel_time", "offload_time", "contention_time"),
        *("processor_contention_time", "exposed_site_parallel_time"),
    ),
    "exposed_layer_communication_time": (
        *("exposed_tensor_parallel_time", "exposed_context_parallel_time"),
        "exposed_expert_parallel_time",
    ),
}
_PARTS = tuple(
    dict.fromkeys(
        name
        for parts in ((STEP,), *_WITHIN.values())
        for name in parts
        if name not in (REST, SERIAL)
    )
)
NAMES = (*_PARTS, RATIO)
_AS_THEY_ARE = (STEP, STOPS, "ideal_compute_time")  # not times the ratio
_ROUNDING = 1e-9  # relative to a step


@dataclass(frozen=True)
class Part:
    """One part of a step: its quantity, its time, and its own parts."""

    name: str
    seconds: float
    parts: tuple["Part", ...] = ()


def values_of(scenario: Mapping[str, Any], axes: Mapping[str, Any]) -> Result:
    """The values of a scenario that `step_parts` needs, over its axes."""
    sweep = Evaluation(scenario, axes, list(NAMES))
    cube = sweep._result(Settings("numpy"))
    return cube if SERIAL in cube.coords else cube.assign({SERIAL: given(sweep, cube, SERIAL)})


def step_parts(point: Mapping[str, Any] | Any) -> Part:
    """A step as nested parts at a point of `values_of`; each is the sum of its parts, none is 0."""
    ratio = point.get(RATIO, 1.0)
    point = {**{name: point[name] for name in (*_PARTS, SERIAL)}, RATIO: ratio}
    for name in point:
        if np.ndim(point[name]):
            axes = ", ".join(map(str, getattr(point[name], "dims", ()))) or "its axes"
            raise InputError(f"{name} has several values; cut {axes} to one point (axis=value)")
    times = {
        name: float(point[name]) * (1.0 if name in _AS_THEY_ARE else float(ratio))
        for name in (*_PARTS, SERIAL)
    }
    times[REST] = times["compute_time"] - times["ideal_compute_time"]
    whole = times[STEP]
    if not np.isfinite(whole):
        raise InputError(f"{STEP} is {whole} there; choose a point that can be run")
    if abs(_sum(times, STEP) - whole) > _ROUNDING * whole:
        raise InputError(
            f"{STEP} is not the sum of its parts there: it is given, or not as computed; leave it "
            f"out, or evaluate {RATIO}, too"
        )
    return _part(times, STEP)


def _sum(times: Mapping[str, float], name: str) -> float:
    return sum(times[part] for part in _WITHIN[name])


def _part(times: Mapping[str, float], name: str) -> Part:
    """A part with its own parts, unless it is given or has only one."""
    inside: Sequence[str] = _WITHIN.get(name, ())
    parts = [part for part in inside if times[part] != 0]
    added = bool(parts) and abs(_sum(times, name) - times[name]) <= _ROUNDING * times[STEP]
    if not added or any(times[part] < 0 for part in parts):
        parts = []
    return Part(name, times[name], tuple(_part(times, part) for part in parts))
