"""Compare a measured step with its prediction, explain it, and suggest changes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fleetcube.calibration.measurements import read_records
from fleetcube.calibration.predict import evaluate as predicted
from fleetcube.calibration.row import Row
from fleetcube.catalog import CatalogError, pooled
from fleetcube.grid.errors import InputError, nearest
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec import values
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.scenario import auto
from fleetcube.scenario.along_axes import point
from fleetcube.scenario.reading import stated_inputs
from fleetcube.tables.html import record_html
from fleetcube.tables.tables import meanings

from .interval import interval
from .layouts import (
    LAYOUT,
    OPEN,
    WHOLE,
    best_layouts,
    freed,
    in_command,
    inputs_of,
    unsearched,
)
from .sensitivity import frozen
from .solve.solve import solve_spec
from .step_parts import Part, step_parts, values_of
from .targets import Target

STEP, MFU = "step_time", "mfu"
# Rates that may be measured: half as high if a step takes twice the time
RATES = (MFU, "hfu", "model_flops_per_gpu", "tokens_per_second")
# Inputs that slow a step when they are worse than assumed
SUSPECTS = (
    *("flops_efficiency", "gemm_efficiency", "attention_efficiency", "memory_efficiency"),
    *("layer_overhead_time", "straggler_slowdown", "expert_load_imbalance", "network_efficiency"),
    *("intra_node_bandwidth", "inter_node_bandwidth", "tensor_parallel_overlap"),
    *("data_parallel_overlap", "expert_parallel_overlap", "serial_time_per_step"),
)
_FURTHER = ("gemm_half_depth", "expert_launch_time", "layer_host_time")  # fastest, not named
_ALL = Settings("numpy", "include")
# Assumed deviations: of inputs that auto did not infer, of added times, of a step without interval
_ASSUMED, _ADDED, _PART = 0.5, 0.1, 0.2
_COUNTING, _COUNTED = "flops_counting", (MFU, "model_flops_per_gpu")
_ALIKE = 0.03  # of a count of operations or a shortest time, below which two are the same
_TRAFFIC = tuple(f"{kind}_parallel_time" for kind in ("tensor", "context", "expert", "data"))
_LEAST = "ideal_compute_time"  # which nothing changes
_OVERLAPS = ("data_parallel_overlap", "weight_gather_overlap")
_FELT = 5e-3  # of a step, above which a change is worth a line
_FEWEST_PARTS = 1e-3  # of a step, below which a part is not named


@dataclass(frozen=True)
class Cause:
    """An input that alone would explain a step: its value, the one needed, how unlikely."""

    name: str
    now: float
    needed: float
    deviations: float  # between the two, in those of the input


@dataclass(frozen=True)
class Change:
    """Other inputs of the layout: the step with them as a share of now, and the memory."""

    inputs: Mapping[str, Any]
    step_ratio: float
    memory: float


@dataclass(frozen=True)
class Published:
    """A published run near to a job. `agrees`: it has fewer GPUs, and its MFU differs from the
    measured one by no more than the interval of the prediction."""

    id: str
    source: str
    model: str
    n_gpus: float
    parameters: float
    mfu: float
    agrees: bool


@dataclass(frozen=True)
class Diagnosis:
    """A measured step compared with its prediction [s], with causes and changes if possible."""

    measured: float
    predicted: float
    low: float
    high: float
    mfu: float  # measured
    memory: float
    memory_limit: float
    hidden: float  # of the step, if the calibration's overlap replaced one stated as 0 [s]
    published: tuple[Published, ...]
    reason: str  # why the job cannot run; empty where it can
    impossible: str  # why no such step is; empty where one may be
    counting: str  # a question on how operations were counted; empty if that is clear
    parts: tuple[Cause, ...] = ()
    causes: tuple[Cause, ...] = ()
    changes: tuple[Change, ...] = ()
    best: Change | None = None
    best_layout: str = ""

    def _repr_html_(self) -> str:
        return record_html(self)

    @property
    def inside(self) -> bool:
        """True if the measured step is inside the predicted interval."""
        return self.low <= self.measured <= self.high

    def possible(self, change: Change) -> bool:
        """True if a change that helps the measured step as the predicted one stays below peak."""
        return self.mfu / change.step_ratio <= 1


def diagnose(sweep: Evaluation, **measured: Any) -> Diagnosis:
    """Compare one measured value of a step with its job's prediction.

    Args:
        sweep: a scenario of one point.
        measured: `step_time`, or one of `mfu`, `hfu`, `model_flops_per_gpu`,
            `tokens_per_second`; in base units or with a unit. `step_time` with one of the rates
            also tells how its source counts operations.

    Raises InputError.
    """
    name, rate, given = _measured(measured)
    _check_point(sweep)
    scenario = point(sweep)
    names = [STEP, MFU, "hfu", rate, "memory_per_gpu", "memory_margin", REASON]
    cube = interval(Evaluation(scenario, {}, [*dict.fromkeys(names)]), None, Settings("numpy"))
    now = {name: cube[name].item() for name in cube.variables}
    step = now[STEP]
    if not 0 < step < math.inf:
        raise InputError(f"{STEP} is {step:g} here; change the scenario")
    time = given[STEP] if name == STEP else step * now[name] / given[name]
    why = meanings(cube[REASON].attrs, np.atleast_1d(now[REASON]))[0] if now[REASON] > 0 else ""
    printed = now[MFU] * (given[rate] / now[rate]) * (time / step)
    low, high = (now.get(f"{STEP}_{side}", math.nan) for side in ("low", "high"))
    width = math.log(high / step) / pooled.NORMAL if high > step else _PART
    hiding = {n: v for n, v in scenario.items() if n not in _OVERLAPS or v != 0}
    diagnosis = Diagnosis(
        measured=time,
        predicted=step,
        low=low,
        high=high,
        mfu=now[MFU] * step / time,
        memory=now["memory_per_gpu"],
        memory_limit=now["memory_per_gpu"] / (1 - now["memory_margin"]),
        hidden=step - Evaluation(hiding, {}, [STEP])._result(_ALL)[STEP].item(),
        published=_published(scenario, now[MFU] * step / time, width * pooled.NORMAL),
        reason=why,
        impossible=_impossible(scenario, time, now["hfu"] * step),
        counting=_counting(scenario, rate, now[MFU], printed),
    )
    if diagnosis.impossible:
        return diagnosis
    layout, best = _best(scenario, step)
    changes = _changes(scenario, step)
    if best is not None and not diagnosis.possible(best):
        layout, best = "", None
    return replace(
        diagnosis,
        parts=_parts(scenario, time - step, width),
        causes=_causes(scenario, time, step),
        changes=tuple(change for change in changes if diagnosis.possible(change)),
        best=best,
        best_layout=layout,
    )


def _check_point(sweep: Evaluation) -> None:
    """Refuse several steps."""
    plan = sweep.with_outputs([STEP])._plan("numpy")
    for axis in (dim for dim in plan.out_dims[STEP] if plan.sizes[dim] > 1):
        raise InputError(f"{axis} has {plan.sizes[axis]} values; give the measured one")


def _measured(measured: Mapping[str, Any]) -> tuple[str, str, dict[str, float]]:
    """Name of the measured value, the rate printed with it (or itself), and both in base units."""
    names, rows = (STEP, *RATES), {}
    if len(measured) != 1 and {*measured} not in ({STEP, each} for each in _COUNTED):
        raise InputError(f"give one measured value: {', '.join(names)}")
    for name, given in measured.items():
        if name not in names:
            raise InputError(f"{name} is not measured of a step; {nearest(name, names, names[0])}")
        rows[name] = values.number(PHYSICS, name, given)
        if not 0 < rows[name] < math.inf or (name in RATES[:2] and rows[name] > 1):
            text = f"{name} = {given} is no measured value"
            raise InputError(f"{text}; give it above 0, shares up to 1")
    rate = next((name for name in rows if name != STEP), STEP)
    return STEP if STEP in rows else rate, rate, rows


def _impossible(scenario: Mapping[str, Any], time: float, at_peak: float) -> str:
    """Why a step cannot take a time, and likely errors; `at_peak`: its operations' time at peak."""
    plan = Evaluation(scenario, {}, ["compute_time", *_TRAFFIC])._plan("numpy")
    options, numbers = plan.cases[0].options, frozen(plan)[1]
    cell = auto.posterior_cell(stated_inputs(scenario))
    rows = [INPUTS[n] for n in (*SUSPECTS, *_FURTHER) if n in plan.structure.used]
    best = {row.name: row.high if row.high == 1 else row.low for row in rows if row.unit != "B/s"}
    rates = {f"{k}_efficiency": share for k, share in pooled.posterior().ceilings(cell).items()}
    rates |= {"flops_efficiency": max(rates.values()), "intra_node_bandwidth": cell.node_link}
    rates |= {"kernel_key_share": 1.0}  # edges are known of one library's kernels alone
    best |= {name: rate for name, rate in rates.items() if rate and name in plan.structure.used}
    fast = Evaluation({**scenario, **best}, {}, plan.outputs)._result(_ALL)
    shortest = {"its operations at the peak of its GPUs": at_peak}
    shortest["its kernels at the highest rates known"] = fast["compute_time"].item()
    shortest |= {f"{name} at the bandwidths stated": fast[name].item() for name in _TRAFFIC}
    over = {cause: least / time - _ALIKE * (least != at_peak) for cause, least in shortest.items()}
    if not (cause := next((cause for cause, times in over.items() if times > 1), "")):
        return ""
    times = shortest[cause] / time
    work = {"n_gpus": times, "global_batch_size": 1 / times}
    stated = [f"{n} {in_command(options[n])}" for n in ("recompute", "precision")]
    stated += [f"{n} {numbers[n]:,.0f} (alone: {numbers[n] * k:,.1f})" for n, k in work.items()]
    return (
        f"{cause} would take {shortest[cause]:.4g} s; not as it ran, or not as measured, is one of "
        f"{', '.join(stated)}, sequence, model, GPU, links and the measured value"
    )


def _counting(scenario: Mapping[str, Any], rate: str, mfu: float, printed: float) -> str:
    """A question if a printed rate is another share of peak than by our count."""
    if rate not in _COUNTED or abs(printed / mfu - 1) <= _ALIKE:
        return ""
    ways, free = INPUTS[_COUNTING].choices, {n: v for n, v in scenario.items() if n != _COUNTING}
    cube = Evaluation(free, {_COUNTING: [*ways]}, [MFU, "hfu"])._result(_ALL)
    rows = [(f"{_COUNTING} = {way}", cube[MFU].values[k]) for k, way in enumerate(ways)]
    rows.append(("recomputation as well", float(cube["hfu"].max())))
    tried = {f"{k:g} x {way}": k * count for k in (1, 2, 0.5) for way, count in rows}
    like = " or ".join(text for text, count in tried.items() if abs(printed / count - 1) <= _ALIKE)
    asked = f"how were operations counted? {rate} is {printed / mfu:.3g} times ours, like "
    return asked + (like or "no usual count: an input may not be as it ran")


def _parts(scenario: Mapping[str, Any], gap: float, deviation: float) -> tuple[Cause, ...]:
    """The smallest parts of the step, and the time of each if it alone caused the gap."""
    whole = step_parts(values_of(scenario, {}))
    rows = [
        Cause(part.name, now, now + gap, _deviations(now, now + gap, deviation))
        for part in _leaves(whole)
        if (now := part.seconds) > max(_FEWEST_PARTS * whole.seconds, -gap) and part.name != _LEAST
    ]
    return tuple(sorted(rows, key=lambda each: each.deviations))


def _leaves(part: Part) -> list[Part]:
    return [leaf for each in part.parts for leaf in _leaves(each)] if part.parts else [part]


def _deviations(now: float, needed: float, deviation: float, is_share: bool = False) -> float:
    """Deviations between two values, in log odds of a share, else in logarithms."""
    ends = np.clip([now, needed], 1e-9, 1 - 1e-9 if is_share else math.inf)
    return float(abs(np.diff(np.log(ends / (1 - ends) if is_share else ends))[0])) / deviation


def _causes(scenario: Mapping[str, Any], time: float, step: float) -> tuple[Cause, ...]:
    """Values of single inputs at which the step takes the measured time, the likeliest first."""
    plan = Evaluation(scenario, {}, [STEP])._plan("numpy")
    numbers = frozen(plan)[1]
    widths: dict[str, tuple[float, float, bool]] = {}
    if plan.problem.inferred:
        posterior, cell = pooled.posterior(), auto.posterior_cell(stated_inputs(scenario))
        deviations = np.linalg.norm(posterior.coefficients_of(cell)[1], axis=1).tolist()
        widths = {
            s.input: (s.scale, deviations[s.place], s.is_share) for s in posterior.settings(cell)
        }
    causes = []
    for name in (name for name in SUSPECTS if name in plan.structure.used):
        spec = {"scenario": scenario, "axes": {}, "outputs": [STEP]}
        needed = solve_spec(spec, name, Target(STEP, "=", time, "s"), None, False, _ALL)[
            name
        ].item()
        if math.isfinite(needed):
            now, row = numbers[name], INPUTS[name]
            assumed = (1.0, _ASSUMED, row.high == 1) if now else (1.0, _ADDED, False)
            scale, width, is_share = widths.get(name, assumed)
            base = 0.0 if now else step if row.unit == "s" else 1.0
            distance = _deviations((base + now) / scale, (base + needed) / scale, width, is_share)
            causes.append(Cause(name, now, needed, distance))
    return tuple(sorted(causes, key=lambda each: each.deviations))


def _changes(scenario: Mapping[str, Any], step: float, most: int = 3) -> tuple[Change, ...]:
    """The feasible changes of one layout input that save most."""
    changes = []
    for name in OPEN:
        free = {key: value for key, value in scenario.items() if key != name}
        try:
            sweep = Evaluation(free, {}, [STEP])
            best = best_layouts(sweep, STEP, "min", name, (), (), 1, Settings())
        except (InputError, CatalogError):  # nothing to choose
            continue
        change = _change(best, step)
        if change is not None and change.step_ratio < 1 - _FELT:
            changes.append(change)
    return tuple(sorted(changes, key=lambda change: change.step_ratio)[:most])


def _best(scenario: Mapping[str, Any], step: float) -> tuple[str, Change | None]:
    """The best layout of all."""
    best = best_layouts(freed(scenario, STEP), STEP, "min", LAYOUT, (), (), 1, Settings())
    change = _change(best, step)
    if change is None:
        return "", None
    whole = replace(change, inputs={**unsearched(scenario, STEP), **change.inputs})
    return str(best[WHOLE].values.reshape(-1)[0]), whole


def _change(best: Any, step: float) -> Change | None:
    layout = best.isel(dict.fromkeys(best.dims, 0))
    if layout[REASON].item() or not layout[STEP].notnull().item():
        return None
    return Change(inputs_of(layout), layout[STEP].item() / step, layout["memory_per_gpu"].item())


def _published(
    scenario: Mapping[str, Any], mfu: float, width: float, most: int = 3
) -> tuple[Published, ...]:
    """Published steps on the same GPU, the nearest in size and number of GPUs, also of those with
    fewer GPUs. They agree within the `width` of a logarithm of `mfu`."""
    rows = [row for row in read_records()[0] if row.of == STEP and "n_gpus" in row.inputs]
    alike = [row for row in rows if _kind(row.inputs) == _kind(scenario)]
    mine, *sizes = _sizes([scenario, *(row.inputs for row in alike)])

    def distance(pair: tuple[Row, float]) -> float:
        row, size = pair
        more, precisions = _gpus(row.inputs) / _gpus(scenario), (row.inputs, scenario)
        narrow = len({str(each.get("precision", "bf16")) for each in precisions}) > 1
        return abs(math.log(size / mine)) + abs(math.log(more)) / 4 + narrow

    comparable = [pair for pair in zip(alike, sizes, strict=True) if pair[1] > 0 and mine > 0]
    ranked, gpus = sorted(comparable, key=distance), _gpus(scenario)
    fewer = [pair for pair in ranked[most:] if _gpus(pair[0].inputs) < gpus]
    chosen = [*ranked[:most], *fewer[:most]]
    ideal = predicted([((MFU, STEP), row.inputs) for row, _ in chosen])
    runs = []
    for (row, size), ours in zip(chosen, ideal, strict=True):
        if not isinstance(ours, str):
            count, theirs = _gpus(row.inputs), ours[0] * ours[1] / row.measured
            agrees = count < gpus and abs(math.log(theirs / mfu)) <= width
            model = str(row.inputs.get("model", ""))
            runs.append(Published(row.id, row.source, model, count, size, theirs, agrees))
    return tuple(runs)


def _kind(inputs: Mapping[str, Any]) -> tuple[str, bool]:
    """GPU, and whether layers have experts."""
    cell = auto.posterior_cell(stated_inputs(inputs))
    return cell.gpu, cell.layers != "dense"


def _gpus(inputs: Mapping[str, Any]) -> float:
    return values.number(PHYSICS, "n_gpus", inputs["n_gpus"])


def _sizes(all_inputs: Sequence[Mapping[str, Any]]) -> list[float]:
    counts = predicted([(("parameters",), inputs) for inputs in all_inputs])
    return [0.0 if isinstance(each, str) else each[0] for each in counts]
