"""Is a measured step what its job should reach, what would explain it, and what would mend it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..catalog import CatalogError, pooled
from ..kernels.inputs import INPUTS
from ..kernels.roles import REASON
from .ask.interval import interval
from .ask.layouts import (
    LAYOUT,
    OPEN,
    WHOLE,
    best_layouts,
    freed,
    in_command,
    inputs_of,
    point,
    unsearched,
)
from .ask.runs import Target
from .ask.sensitivity import frozen
from .ask.solve.solve import solve_spec
from .ask.step_parts import Part, step_parts, values_of
from .errors import InputError, nearest
from .measured.predict import evaluate as predicted
from .measured.records import read_records
from .measured.row import Row
from .run.evaluation import Evaluation
from .run.settings import Settings
from .show.html import record_html
from .show.tables import meanings
from .spec import auto, values
from .spec.scenario import said_by
from .sweep import Sweep

STEP, MFU = "step_time", "mfu"
# What may be measured of a step: of twice the time, half of these
RATES = (MFU, "hfu", "model_flops_per_gpu", "tokens_per_second")
# Inputs that slow a step when they are worse than assumed
SUSPECTS = (
    *("flops_efficiency", "gemm_efficiency", "attention_efficiency", "memory_efficiency"),
    *("layer_overhead_time", "straggler_slowdown", "expert_load_imbalance", "network_efficiency"),
    *("intra_node_bandwidth", "inter_node_bandwidth", "tensor_parallel_overlap"),
    *("data_parallel_overlap", "expert_parallel_overlap", "serial_time_per_step"),
)
_ALL = Settings("numpy", "include")
_SLOWER = ("straggler_slowdown", "expert_load_imbalance")  # more of them is worse, as of times
# Assumed deviations of inputs that auto did not find, in logarithms; and of those that are 0, of
# what they add to one or to the step; and of a part of a step without an interval
_ASSUMED, _ADDED, _PART = 0.5, 0.1, 0.2
_CHOSEN, _GPUS, _BATCH = ("recompute", "precision"), "n_gpus", "global_batch_size"
_COUNTS = {
    "attention counted under its mask": "transformer_causal",
    "attention counted whole": "transformer",
    "6 N D, attention left out": "parameters",
}
_TIMES = {"": 1.0, ", twice": 2.0, ", half": 0.5}
_SLACK = 0.02  # of the shortest time, for what is measured of kernels
_ALIKE = 0.03  # of a count of operations, below which two are the same
_TRAFFIC = tuple(f"{kind}_parallel_time" for kind in ("tensor", "context", "expert", "data"))
_LEAST = "ideal_compute_time"  # which nothing changes
_FURTHEST = 30.0  # times worse, where an input has no bound
_FELT = 5e-3  # of a step, above which a change is worth a line
_FEWEST_PARTS = 1e-3  # of a step, below which a part is not named


@dataclass(frozen=True)
class Cause:
    """What, alone, would explain a measured step: its value now, the one it would need, and how
    many deviations of what is known of it lie between."""

    name: str
    now: float
    needed: float
    deviations: float


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
    """A measured step beside what is predicted [s]; causes, the likeliest first, and changes, the
    best first: none of a step that is impossible, and why it is."""

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
    reason: str  # why the job cannot run; empty where it can
    impossible: str  # why no such step is; empty where one may be
    counting: str  # what is to ask about how operations were counted; empty where all is clear

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
            `tokens_per_second`; in base units or with a unit. `step_time` with one of the rates
            also tells how its source counts operations.

    Raises InputError.
    """
    name, value, rate = _one(measured)
    _check_point(sweep)
    scenario = point(sweep)
    outputs = dict.fromkeys(
        [STEP, MFU, "hfu", name, rate, "memory_per_gpu", "memory_margin", REASON]
    )
    told = interval(Evaluation(scenario, {}, [*outputs]), None, Settings("numpy"))
    step = told[STEP].item()
    if not 0 < step < math.inf:
        raise InputError(f"{STEP} is {step:g} here; change the scenario")
    time = value if name == STEP else step * told[name].item() / value
    low, high = (
        told[end].item() if end in told else math.nan for end in (f"{STEP}_low", f"{STEP}_high")
    )
    ratio = values.number(rate, measured[rate]) / told[rate].item() * time / step
    width = math.log(high / step) / pooled.NORMAL if high > step else _PART
    impossible = _impossible(scenario, time, told["hfu"].item() * step)
    layout, best = ("", None) if impossible else _best(scenario, step)
    return Diagnosis(
        measured=time,
        predicted=step,
        low=low,
        high=high,
        mfu=told[MFU].item() * step / time,
        parts=() if impossible else _parts(scenario, time - step, width),
        causes=() if impossible else _causes(scenario, time, step),
        changes=() if impossible else _changes(scenario, step),
        best=best,
        best_layout=layout,
        memory=told["memory_per_gpu"].item(),
        memory_limit=told["memory_per_gpu"].item() / (1 - told["memory_margin"].item()),
        published=_published(scenario),
        reason=meanings(told[REASON].attrs, told[REASON].values.reshape(1))[0]
        if told[REASON].item() > 0
        else "",
        impossible=impossible,
        counting=_counting(scenario, rate, ratio if rate != name else math.nan)
        if rate in RATES[:3]
        else "",
    )


def _check_point(sweep: Sweep) -> None:
    """Refuse several steps."""
    plan = sweep.with_outputs([STEP])._plan("numpy")
    for axis in (dim for dim in plan.out_dims[STEP] if plan.sizes[dim] > 1):
        raise InputError(f"{axis} has {plan.sizes[axis]} values; say at which it was measured")


def _one(measured: Mapping[str, Any]) -> tuple[str, float, str]:
    """The measured quantity, in its base unit, and the rate that was printed, or it again."""
    known = (STEP, *RATES)
    if not measured or len(measured) > 1 + (STEP in measured):
        raise InputError(f"give one measured value: {', '.join(known)}")
    for name, given in measured.items():
        if name not in known:
            raise InputError(f"{name} is not measured of a step; {nearest(name, known, known[0])}")
        value = values.number(name, given)
        if not 0 < value < math.inf or (name in RATES[:2] and value > 1):
            raise InputError(
                f"{name} = {given} is no measured value; give it above 0, shares up to 1"
            )
    rate = next((name for name in measured if name != STEP), STEP)
    name = STEP if STEP in measured else rate
    return name, values.number(name, measured[name]), rate


def _impossible(scenario: Mapping[str, Any], time: float, at_peak: float) -> str:
    """Why a step cannot take so short a time, and what cannot be as stated; empty if it can.
    `at_peak` is the time of all operations at peak."""
    plan = Evaluation(scenario, {}, ["compute_time", *_TRAFFIC])._plan("numpy")
    (case,), numbers, cell = plan.cases, frozen(plan)[1], auto.cell_of(said_by(scenario))
    ceilings = pooled.posterior().ceilings(cell)
    rates = {f"{what}_efficiency": share for what, share in ceilings.items()}
    whole = {} if case.options["compute_model"] == "roofline" else {"flops_efficiency": 1.0}
    rows = [INPUTS[name] for name in (*SUSPECTS[1:], "gemm_half_size", *whole) if name in numbers]
    ends = {row.name: row.high if row.high == 1 else row.low for row in rows if row.unit != "B/s"}
    best = {**ends, **{name: rates[name] for name in rates if name in ends}, **whole}
    if cell.node_link and "intra_node_bandwidth" in numbers:
        best["intra_node_bandwidth"] = cell.node_link
    fast = Evaluation({**scenario, **best}, {}, plan.outputs).evaluate(settings=_ALL)
    busy = {name: fast[name].item() for name in _TRAFFIC}
    longest = max(busy, key=lambda name: busy[name])
    shortest = {
        "its operations, at the peak of its GPUs": at_peak,
        "its kernels, at the highest rates known,": fast["compute_time"].item(),
        f"its traffic alone, {longest},": busy[longest],
    }
    what = next((what for what, t in shortest.items() if time < t * (1 - _SLACK)), "")
    if not what:
        return ""
    times = shortest[what] / time
    stated = [f"{n} {in_command(case.options[n])}" for n in _CHOSEN if n in case.options]
    stated.append(f"{_GPUS} {numbers[_GPUS]:,.0f} (alone: {numbers[_GPUS] * times:,.1f} or more)")
    stated.append(
        f"{_BATCH} {numbers[_BATCH]:,.0f} (alone: {numbers[_BATCH] / times:,.1f} or fewer)"
    )
    return (
        f"{what} would take {times:.3g} times the {time:.4g} s measured; one of these is not as it "
        f"ran: {', '.join(stated)}, the sequence, the model, the GPU or its links, or the measurement"
    )


def _counting(scenario: Mapping[str, Any], rate: str, ratio: float) -> str:
    """What to ask about a rate as printed, `ratio` times ours at its time; NaN without a time."""
    ways = [{}, *({"flops_counting": way} for way in _COUNTS.values())]
    own, *others = predicted([((MFU, "hfu"), {**scenario, **way}) for way in ways])
    counts = {said: found[0] / own[0] for said, found in zip(_COUNTS, others, strict=True)}
    counts = {**counts, "recomputation counted, too": own[1] / own[0]}
    apart = {said: count for said, count in counts.items() if abs(count - 1) > _ALIKE}
    asked = "how does its source count operations?"
    if math.isnan(ratio):
        told = [f"{said}: {count:.3g} times as many" for said, count in apart.items()]
        return f"{asked} {', '.join(told)}" if told and "flops_counting" not in scenario else ""
    if abs(ratio - 1) <= _ALIKE:
        return ""
    apart = {
        said + more: n * count
        for more, n in _TIMES.items()
        for said, count in {"": 1.0, **apart}.items()
    }
    like = [said for said, count in apart.items() if abs(ratio / count - 1) <= _ALIKE]
    why = f"like {' or '.join(like)}" if like else "like no usual count: is an input not as it ran?"
    return f"{asked} {rate} as printed is {ratio:.3g} times ours at this step, {why}"


def _parts(scenario: Mapping[str, Any], gap: float, deviation: float) -> tuple[Cause, ...]:
    """The smallest parts of the step, and what each would take if it alone made the gap."""
    whole = step_parts(values_of(scenario, {}))
    rows = [
        Cause(part.name, now, now + gap, _apart(now, now + gap, deviation))
        for part in _leaves(whole)
        if (now := part.seconds) > max(_FEWEST_PARTS * whole.seconds, -gap) and part.name != _LEAST
    ]
    return tuple(sorted(rows, key=lambda each: each.deviations))


def _leaves(part: Part) -> list[Part]:
    return [leaf for each in part.parts for leaf in _leaves(each)] if part.parts else [part]


def _apart(now: float, needed: float, deviation: float, is_share: bool = False) -> float:
    """Deviations between two values, in log odds of a share, else in logarithms."""
    ends = np.clip([now, needed], 1e-9, 1 - 1e-9 if is_share else math.inf)
    places = np.log(ends) - (np.log1p(-ends) if is_share else 0.0)
    return float(abs(places[1] - places[0])) / deviation


def _causes(scenario: Mapping[str, Any], time: float, step: float) -> tuple[Cause, ...]:
    """Values of single inputs at which the step takes the measured time, the likeliest first: the
    fewest deviations from what auto found, or as assumed of others."""
    plan = Evaluation(scenario, {}, [STEP])._plan("numpy")
    numbers = frozen(plan)[1]
    known: dict[str, tuple[float, float, bool]] = {}
    if plan.problem.found:
        posterior, cell = pooled.posterior(), auto.cell_of(said_by(scenario))
        deviations = np.linalg.norm(posterior.at(cell)[1], axis=1)
        for one in posterior.settings(cell):
            known[one.input] = one.scale, float(deviations[one.place]), one.is_share
    found = []
    for name in SUSPECTS:
        if name not in plan.cases[0].leaves or name not in numbers:
            continue
        now = numbers[name]
        ends = _range(name, now, worse=time > step)
        spec = {"scenario": {**scenario, name: now}, "axes": {}, "outputs": [STEP]}
        same = Evaluation(spec["scenario"], {}, [STEP]).evaluate(settings=_ALL)[STEP].item()
        if ends is None or not math.isclose(same, step, rel_tol=1e-9):
            continue  # stated, it chooses other formulas
        try:
            solved = solve_spec(spec, name, Target(STEP, "=", time), ends, False, _ALL)
        except InputError:  # nothing depends on it
            continue
        needed = solved[name].item()
        if math.isfinite(needed):
            scale, deviation, is_share = known.get(name, (1.0, _ASSUMED, INPUTS[name].high == 1))
            row = now / scale, needed / scale
            if now == 0:
                base = step if INPUTS[name].unit == "s" else 1.0
                row, deviation, is_share = (base, base + needed), _ADDED, False
            found.append(Cause(name, now, needed, _apart(*row, deviation, is_share)))
    return tuple(sorted(found, key=lambda each: each.deviations))


def _range(name: str, now: float, worse: bool) -> tuple[float, float] | None:
    """The least and the largest value of an input between now and where it is worst, or best."""
    row, lasts = INPUTS[name], INPUTS[name].unit == "s"
    if (lasts or name in _SLOWER) == worse:
        end = min(row.high, max(now * _FURTHEST, _FURTHEST if lasts else 4.0))
    else:
        end = max(row.low, now / _FURTHEST)
    return (min(now, end), max(now, end)) if end != now else None


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
