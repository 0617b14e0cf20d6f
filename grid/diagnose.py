"""Is a measured step what its job should reach, what would explain it, and what would mend it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..catalog import CatalogError
from ..kernels.inputs import INPUTS
from ..kernels.roles import REASON
from .ask.interval import interval
from .ask.layouts import (
    LAYOUT,
    OPEN,
    WHOLE,
    best_layouts,
    freed,
    inputs_of,
    point,
    unsearched,
)
from .ask.sensitivity import frozen
from .ask.step_parts import Part, step_parts, values_of
from .errors import InputError, nearest
from .measured.predict import evaluate as predicted
from .measured.records import read_records
from .measured.row import Row
from .run.evaluation import Evaluation
from .run.settings import Settings
from .show.html import record_html
from .spec import auto, values
from .spec.scenario import said_by
from .sweep import Sweep

STEP, MFU = "step_time", "mfu"
# What may be measured of a step: of twice the time, half of these
RATES = (MFU, "hfu", "model_flops_per_gpu", "tokens_per_second")
# Inputs that slow a step when they are worse than assumed, from the usual cause to the rare
SUSPECTS = (
    *("flops_efficiency", "gemm_efficiency", "attention_efficiency", "memory_efficiency"),
    *("layer_overhead_time", "straggler_slowdown", "expert_load_imbalance", "network_efficiency"),
    *("intra_node_bandwidth", "inter_node_bandwidth", "tensor_parallel_overlap"),
    *("data_parallel_overlap", "expert_parallel_overlap", "serial_time_per_step"),
)
_SLOWER = ("straggler_slowdown", "expert_load_imbalance")  # more of them is worse, as of times
_TRIED = 257  # values of a suspect between now and its bound
_LEAST = "ideal_compute_time"  # which nothing changes
_FURTHEST = 30.0  # times worse, where an input has no bound
_FELT = 5e-3  # of a step, above which a change is worth a line
_FEWEST_PARTS = 1e-3  # of a step, below which a part is not named


@dataclass(frozen=True)
class Cause:
    """What, alone, would explain a measured step: its value now, and the one it would need."""

    name: str
    now: float
    needed: float


@dataclass(frozen=True)
class Change:
    """Other inputs of the layout: what they give as a share of the step, and the memory."""

    inputs: Mapping[str, Any]
    step_ratio: float
    memory: float


@dataclass(frozen=True)
class Published:
    """A published run near to a job."""

    id: str
    source: str
    model: str
    n_gpus: float
    parameters: float
    mfu: float


@dataclass(frozen=True)
class Diagnosis:
    """A measured step beside what is predicted [s], causes, and changes, the best first."""

    measured: float
    predicted: float
    low: float
    high: float
    mfu: float  # measured
    parts: tuple[Cause, ...]
    causes: tuple[Cause, ...]
    changes: tuple[Change, ...]
    best: Change | None
    best_layout: str
    memory: float
    memory_limit: float
    published: tuple[Published, ...]
    reason: float  # why the job cannot run; 0 where it can

    def _repr_html_(self) -> str:
        return record_html(self)

    @property
    def inside(self) -> bool:
        """Whether the measured step is inside the predicted interval."""
        return self.low <= self.measured <= self.high


def diagnose(sweep: Sweep, **measured: Any) -> Diagnosis:
    """Compare one measured value of a step with its job's prediction.

    Args:
        sweep: a scenario of one point.
        measured: `step_time`, or one of `mfu`, `hfu`, `model_flops_per_gpu`,
            `tokens_per_second`; in base units or with a unit.

    Raises InputError.
    """
    name, value = _one(measured)
    _check_point(sweep)
    scenario = point(sweep)
    outputs = dict.fromkeys([STEP, MFU, name, "memory_per_gpu", "memory_margin", REASON])
    told = interval(Evaluation(scenario, {}, [*outputs]), None, Settings("numpy"))
    step = told[STEP].item()
    if not 0 < step < math.inf:
        raise InputError(f"{STEP} is {step:g} here; change the scenario")
    time = value if name == STEP else step * told[name].item() / value
    layout, best = _best(scenario, step)
    return Diagnosis(
        measured=time,
        predicted=step,
        low=told[f"{STEP}_low"].item() if f"{STEP}_low" in told else math.nan,
        high=told[f"{STEP}_high"].item() if f"{STEP}_high" in told else math.nan,
        mfu=told[MFU].item() * step / time,
        parts=_parts(scenario, time - step),
        causes=_causes(scenario, time, step),
        changes=_changes(scenario, step),
        best=best,
        best_layout=layout,
        memory=told["memory_per_gpu"].item(),
        memory_limit=told["memory_per_gpu"].item() / (1 - told["memory_margin"].item()),
        published=_published(scenario),
        reason=told[REASON].item(),
    )


def _check_point(sweep: Sweep) -> None:
    """Refuse several steps."""
    plan = sweep.with_outputs([STEP])._plan("numpy")
    for axis in (dim for dim in plan.out_dims[STEP] if plan.sizes[dim] > 1):
        raise InputError(f"{axis} has {plan.sizes[axis]} values; say at which it was measured")


def _one(measured: Mapping[str, Any]) -> tuple[str, float]:
    """The measured quantity, in its base unit."""
    known = (STEP, *RATES)
    if len(measured) != 1:
        raise InputError(f"give one measured value: {', '.join(known)}")
    ((name, given),) = measured.items()
    if name not in known:
        raise InputError(f"{name} is not measured of a step; {nearest(name, known, known[0])}")
    value = values.number(name, given)
    if not 0 < value < math.inf or (name in RATES[:2] and value > 1):
        raise InputError(f"{name} = {given} is no measured value; give it above 0, shares up to 1")
    return name, value


def _parts(scenario: Mapping[str, Any], gap: float) -> tuple[Cause, ...]:
    """The smallest parts of the step, and what each would take if it alone made the gap."""
    whole = step_parts(values_of(scenario, {}))
    rows = [
        Cause(part.name, part.seconds, part.seconds + gap)
        for part in _leaves(whole)
        if part.seconds > _FEWEST_PARTS * whole.seconds and part.name != _LEAST
    ]
    return tuple(sorted((each for each in rows if each.needed > 0), key=lambda each: -each.now))


def _leaves(part: Part) -> list[Part]:
    return [leaf for each in part.parts for leaf in _leaves(each)] if part.parts else [part]


def _causes(scenario: Mapping[str, Any], time: float, step: float) -> tuple[Cause, ...]:
    """Values of single inputs at which the step takes the measured time."""
    plan = Evaluation(scenario, {}, [STEP])._plan("numpy")
    numbers = frozen(plan)[1]
    used = {name for case in plan.cases for name in case.leaves}
    found = []
    for name in SUSPECTS:
        if name not in used or name not in numbers:
            continue
        now = numbers[name]
        row = _range(name, now, worse=time > step)
        if not len(row):
            continue
        times = _steps(scenario, name, row)
        same = math.isclose(times[0], step, rel_tol=1e-9)  # else it chooses other formulas
        k = _crossing(times, time) if same else None
        if k is not None:
            fine = np.linspace(row[k], row[k + 1], _TRIED)
            found.append(Cause(name, now, _between(fine, _steps(scenario, name, fine), time)))
    return tuple(found)


def _steps(scenario: Mapping[str, Any], name: str, row: Any) -> Any:
    """Times of a step at values of an input."""
    own = {key: value for key, value in scenario.items() if key != name}
    swept = Evaluation(own, {name: row.tolist()}, [STEP]).evaluate(settings=Settings("numpy"))
    return np.broadcast_to(swept[STEP].values, row.shape)


def _range(name: str, now: float, worse: bool) -> np.ndarray[Any, Any]:
    """Values of an input from now to where it is worst, or best."""
    row, lasts = INPUTS[name], INPUTS[name].unit == "s"
    if (lasts or name in _SLOWER) == worse:
        end = min(row.high, max(now * _FURTHEST, _FURTHEST if lasts else 4.0))
    else:
        end = max(row.low, now / _FURTHEST)
    return np.linspace(now, end, _TRIED) if end != now else np.array([])


def _crossing(times: Any, time: float) -> int | None:
    """After which of some values the step first takes a time; None where it never does."""
    ahead = np.sign(times - time)
    change = np.flatnonzero(ahead[1:] * ahead[:-1] <= 0)
    return int(change[0]) if len(change) and np.isfinite(times).all() else None


def _between(row: Any, times: Any, time: float) -> float:
    """The value at which the step takes a time, on a line between its neighbours."""
    k = _crossing(times, time) or 0
    share = (time - times[k]) / (times[k + 1] - times[k]) if times[k + 1] != times[k] else 0.0
    return float(row[k] + share * (row[k + 1] - row[k]))


def _changes(scenario: Mapping[str, Any], step: float, most: int = 3) -> tuple[Change, ...]:
    """The changes of one input of the layout that bring most, of those that run."""
    found = []
    for name in OPEN:
        free = {key: value for key, value in scenario.items() if key != name}
        try:
            best = best_layouts(
                Evaluation(free, {}, [STEP]), STEP, "min", name, (), (), 1, Settings()
            )
        except (InputError, CatalogError):  # nothing to choose
            continue
        change = _change(best, step)
        if change is not None and change.step_ratio < 1 - _FELT:
            found.append(change)
    return tuple(sorted(found, key=lambda change: change.step_ratio)[:most])


def _best(scenario: Mapping[str, Any], step: float) -> tuple[str, Change | None]:
    """The best layout of all."""
    best = best_layouts(freed(scenario, STEP), STEP, "min", LAYOUT, (), (), 1, Settings())
    change = _change(best, step)
    if change is None:
        return "", None
    whole = replace(change, inputs={**unsearched(scenario, STEP), **change.inputs})
    return str(best[WHOLE].values.reshape(-1)[0]), whole


def _change(best: Any, step: float) -> Change | None:
    own = best.isel(rank=0).squeeze(drop=True)
    if own[REASON].item() or not own[STEP].notnull().item():
        return None
    return Change(inputs_of(own), own[STEP].item() / step, own["memory_per_gpu"].item())


def _published(scenario: Mapping[str, Any], most: int = 3) -> tuple[Published, ...]:
    """Published steps on the same GPU, the nearest in size and number of GPUs."""
    rows = [row for row in read_records()[0] if row.of == STEP and "n_gpus" in row.inputs]
    alike = [row for row in rows if _kind(row.inputs) == _kind(scenario)]
    mine, *sizes = _sizes([scenario, *(row.inputs for row in alike)])

    def distance(pair: tuple[Row, float]) -> float:
        row, size = pair
        more, precisions = _gpus(row.inputs) / _gpus(scenario), (row.inputs, scenario)
        narrow = len({str(each.get("precision", "bf16")) for each in precisions}) > 1
        return abs(math.log(size / mine)) + abs(math.log(more)) / 4 + narrow

    known = [pair for pair in zip(alike, sizes, strict=True) if pair[1] > 0 and mine > 0]
    chosen = sorted(known, key=distance)[:most]
    ideal = predicted([((MFU, STEP), row.inputs) for row, _ in chosen])
    return tuple(
        Published(
            row.id,
            row.source,
            str(row.inputs.get("model", "")),
            _gpus(row.inputs),
            size,
            told[0] * told[1] / row.measured,
        )
        for (row, size), told in zip(chosen, ideal, strict=True)
        if not isinstance(told, str)
    )


def _kind(inputs: Mapping[str, Any]) -> tuple[str, bool]:
    """GPU, and whether layers have experts."""
    cell = auto.cell_of(said_by(inputs))
    return cell.gpu, cell.layers != "dense"


def _gpus(inputs: Mapping[str, Any]) -> float:
    return values.number("n_gpus", inputs["n_gpus"])


def _sizes(all_inputs: Sequence[Mapping[str, Any]]) -> list[float]:
    told = predicted([(("parameters",), inputs) for inputs in all_inputs])
    return [0.0 if isinstance(each, str) else each[0] for each in told]
