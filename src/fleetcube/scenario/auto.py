"""`calibration = "auto"`: coefficients inferred from a scenario's GPU, software and layers.

They vary along the same axes as these; the error factor also along sizes outside published steps.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from fleetcube.catalog import AUTO, CatalogError, Record, is_path, pooled, record
from fleetcube.catalog import kind as catalog_kind
from fleetcube.catalog.entry import CLUSTER, SHAPE
from fleetcube.catalog.vendors import vendor
from fleetcube.grid.errors import InputError
from fleetcube.grid.spec.axes import PHASE
from fleetcube.grid.spec.axis import Array, Axis, phase_keys
from fleetcube.kernels import elementary
from fleetcube.kernels.calculus.phased_formulas import in_phase
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import OF_JOB, PAIRED_SCHEDULES
from fleetcube.scenario import patterns
from fleetcube.scenario.along_axes import values_along, values_at

_PEAKS = {"16 bits": "peak_flops_bf16", "8 bits": "peak_flops_fp8", "4 bits": "peak_flops_fp4"}
POWER = "gpu_tdp"
_LAYERS = ("experts", "mixture_of_experts", "linear_layers", "linear_attention")
_GROUPED, _SCHEDULE = "grouped_products", "pipeline_schedule"
CELL_INPUTS = (
    *("gpu", "node", "model", "software", "precision", "attention_kernel", "peak_flops_fp16"),
    *(_GROUPED, _SCHEDULE),
    *(*_PEAKS.values(), POWER, *_LAYERS),
)
JOB_INPUTS = ("model", *CLUSTER, *SHAPE)
STEP_FACTOR = OF_JOB["step_time"]
DECIDING = frozenset({*CELL_INPUTS, *JOB_INPUTS})
_PRODUCTS, FACTOR = "peak_flops_fp16", "error_factor"
COMPUTE = frozenset(
    {"calibration", "compute_model", "flops_efficiency", "compute_time", "step_time"}
)
_NEEDED = (  # one of each set: inputs of the roofline without a default
    *({"layers"}, {"hidden_size"}, {"hbm_bandwidth"}),
    {_PEAKS["16 bits"], _PRODUCTS},
)
_WEIGHTS = {"layers": 8, "GPU": 4, "software": 2, "precision": 1}
SOFTWARE = "software"  # the kind of labels that only auto reads
_MOST_LISTED = 4  # differences from the calibration's steps listed in a remark
_FUSING = ("", "bridge", "megatron", "nemo")  # software that calls TransformerEngine
_OPEN_PRODUCTS = (
    'calibration auto: grouped_products = "separate" is assumed; with "fused" '
    "(TransformerEngine's grouped MLP, in Megatron-Bridge from 0.5), graphs and hidden traffic, "
    "steps of six published pairs were 18 to 35 % shorter"
)
MOST = 4096  # combinations of GPU, software and layers along axes
_MOST_WIDE = 1 << 20  # error factors along axes of sizes; beyond, those of the widest point


@dataclass(frozen=True)
class Inferred:
    """Result of auto: inputs and options over the axes named next to them, their records, remarks.
    `per_decade`: increase of the log error factor per decade outside the published sizes."""

    rows: Mapping[str, tuple[tuple[str, ...], Array]]
    records: Mapping[str, Record]
    remarks: tuple[str, ...]
    per_decade: tuple[tuple[str, ...], Array]


def infer(
    axes: Sequence[Axis],
    labels: Mapping[str, str],
    constants: Mapping[str, float],
    options: Mapping[str, Any],
    free: Collection[str] = (),
) -> Inferred:
    """Coefficients of every combination of GPU, software, layers and precision. Raises InputError.
    Values that axes and constants set for inputs in `free` are ignored."""
    axes = [without(axis, free) for axis in axes]
    constants = {name: value for name, value in constants.items() if name not in free}
    posterior = _posterior()
    telling_axes = [axis for axis in axes if input_auto_depends_on(axis)]
    shape = tuple(axis.size for axis in telling_axes)
    if math.prod(shape) > MOST:
        several = ", ".join(axis.name for axis in telling_axes)
        raise InputError(
            f'calibration = "auto" is found for each of {math.prod(shape):,} combinations of '
            f'{several}; at most {MOST:,} are allowed: sweep fewer, or give calibration = "none"'
        )
    stated = {**labels, **constants, **options}
    by_cell: dict[pooled.Cell, Mapping[str, Any]] = {}
    points: list[Mapping[str, Any]] = []
    leaves_open = False
    for place in itertools.product(*map(range, shape)):
        point = {**stated, **values_along(telling_axes, place)}
        cell = posterior_cell(point)
        if cell not in by_cell:
            by_cell[cell] = _coefficients(cell).values
        points.append(by_cell[cell])
        leaves_open |= _leaves_products_open(point, cell)
    inputs = [n for n in dict.fromkeys(n for one in points for n in one) if n != FACTOR]
    arrays = {n: np.array([one.get(n, math.nan) for one in points]).reshape(shape) for n in inputs}
    factors = np.array([one[FACTOR] for one in points]).reshape(shape)
    wide, far = _widen_factors(posterior, axes, telling_axes, stated, factors, free)
    # First those that no fitted GPU is like
    cells = sorted(by_cell, key=lambda cell: -max(posterior.beyond_gpus(cell).values(), default=0))
    remarks = [f"calibration auto: {_coefficients(cell).title}" for cell in cells[:3]]
    if len(by_cell) > len(remarks):
        remarks.append(f"calibration auto: and {len(by_cell) - len(remarks)} more such cells")
    remarks += [_OPEN_PRODUCTS] * leaves_open
    names = tuple(axis.name for axis in telling_axes)
    rows = {name: compressed(names, row) for name, row in arrays.items()}
    return Inferred(
        {**rows, FACTOR: compressed(*wide)},
        {_label(cell): _coefficients(cell) for cell in by_cell},
        (*remarks, *far),
        compressed(names, elementary.log(factors) * posterior.widening),
    )


def _leaves_products_open(point: Mapping[str, Any], cell: pooled.Cell) -> bool:
    """Whether a point's experts could run TransformerEngine's fused products, and it is silent."""
    runs = point.get("precision") == "mxfp8" and cell.layers != "dense"
    runs &= _posterior().generation(cell.gpu) == "blackwell" and cell.software in _FUSING
    return runs and _GROUPED not in point


def is_default(axes: Sequence[Axis], labels: Mapping[str, str], stated: Collection[str]) -> bool:
    """True if auto applies without a named calibration: a GPU is named, the model's shape is given,
    and neither a calibration, a share of peak, a compute model nor a time sets compute time."""
    names = {*labels, *stated}
    if names & COMPUTE or not names & {"gpu", "node"}:
        return False
    sheets = []
    for kind in ("gpu", "node", "model"):
        along = next((axis.records[kind] for axis in axes if kind in axis.records), None)
        named = along or ([labels[kind]] if kind in labels else [])
        sheets.append(
            [patterns.spelled_out(_with_gpu(kind, label), {}).keys() for label in {*named}]
        )
    return all(
        names & some or any(row and all(some & sheet for sheet in row) for row in sheets)
        for some in _NEEDED
    )


def without(axis: Axis, free: Collection[str]) -> Axis:
    """An axis without the inputs that are solved for, whose values are ignored."""
    rows = {name: row for name, row in axis.numbers.items() if name not in free}
    return axis if len(rows) == len(axis.numbers) else replace(axis, numbers=rows)


def check_inferred(count: int, names: Collection[str]) -> None:
    """Refuse more combinations of rows than are inferred one by one."""
    if count > MOST:
        raise InputError(
            f'calibration = "auto" is found for each of {count:,} combinations of '
            f"{', '.join(names)} in the rows; at most {MOST:,} are allowed: give "
            'fewer rows, or calibration = "none"'
        )


def inferring_columns(numbers: Mapping[str, Array], sizes: bool) -> dict[str, tuple[Array, Array]]:
    """Columns that auto depends on, as codes (-1: none) and distinct values. With `sizes` also
    those of its interval, where all sizes within the published range count as the largest."""
    columns = {}
    posterior = _posterior()
    for name, column in numbers.items():
        if name in CELL_INPUTS or (sizes and name in posterior.content["ranges"]):
            if name not in CELL_INPUTS:
                inside = posterior.beyond(name, column) == 0
                column = np.where(inside, column.max(initial=0, where=inside), column)
            distinct, codes = np.unique(column, return_inverse=True)
            columns[name] = np.where(np.isnan(column), -1, codes), distinct
    return columns


def input_auto_depends_on(axis: Axis) -> str:
    """An input along an axis that auto depends on; empty if there is none."""
    return next((name for name in axis.inputs if name in CELL_INPUTS), "")


def point_values(
    stated: Mapping[str, Any], axis: Axis | None = None, k: int = 0
) -> tuple[dict[str, Any], Record, str]:
    """Values that auto sets at one point of an axis, their record, and a remark."""
    cell = posterior_cell({**stated, **(values_at(axis, k) if axis else {})})
    entry = _coefficients(cell)
    return dict(entry.values), entry, f"calibration auto: {entry.title}"


def fitted_to(label: str) -> pooled.Cell | None:
    """The cell of a calibration to steps, by its label or file; None for any other."""
    entry = record("calibration", label)
    if is_path("calibration", label):
        match entry.steps_of.split(", "):
            case [software, layers, gpu, precision]:
                return pooled.Cell(software, layers, gpu, precision, "", 1.0, 1.0)
        return None
    if entry.label not in catalog_kind("calibration") or "compute_model" not in entry.values:
        return None
    words, posterior = entry.label.split("-"), _posterior()
    place = next((k for k, word in enumerate(words) if word in posterior.content["gpus"]), None)
    if place is None:
        return None
    before = [word for word in words[:place] if word != "moe"]
    name = "-".join(word for word in before if word != "node")
    precision = next(
        (word for word in words[place + 1 :] if word in INPUTS["precision"].choices), ""
    )
    layers = "experts" if "moe" in words else "dense"
    bits = posterior.bits(precision) if precision else ""
    kernel = str(entry.values.get("attention_kernel", ""))
    return pooled.Cell(name, layers, words[place], bits, kernel, 1.0, 1.0)


def nearest(cell: pooled.Cell) -> list[str]:
    """Differences between a scenario and the nearest published steps."""
    rows = []
    for name in _posterior().cells:
        software, layers, gpu, precision = name.split(", ")
        rows.append(differences(pooled.Cell(software, layers, gpu, precision, "", 1.0, 1.0), cell))
    return min(rows, key=weight)


def weight(differing: Sequence[str]) -> int:
    """Weight of differences: layers most, then GPU, software, precision."""
    return sum(_WEIGHTS[text.partition(" ")[0]] for text in differing)


def differences(fitted: pooled.Cell, cell: pooled.Cell) -> list[str]:
    """Differences between a calibration's steps and a scenario."""
    pairs = {
        "precision": (fitted.precision, cell.precision),
        "GPU": (fitted.gpu, cell.gpu),
        "software": (pooled.label_of(fitted.software), pooled.label_of(cell.software)),
        "layers": (fitted.layers.replace("experts", "moe"), cell.layers.replace("experts", "moe")),
    }
    if "hybrid" in (fitted.layers, cell.layers) and fitted.layers != "dense" != cell.layers:
        del pairs["layers"]  # mixtures of experts both
    return [f"{name} {a} instead of {b}" for name, (a, b) in pairs.items() if a and b and a != b]


def mismatch(
    label: str, axes: Sequence[Axis], stated: Mapping[str, Any], explicit: Collection[str]
) -> str:
    """A remark on a calibration to steps unlike the sweep's; else empty. Each axis is scanned with
    the others at their first points. `explicit` inputs are set by the scenario or an axis."""
    sets = record("calibration", label).values.keys()
    if sets and not COMPUTE & {*sets, *explicit}:
        return (
            f"calibration {label} is of the network alone, and flops_efficiency is a guess; "
            "give it, or calibrate to step times as well"
        )
    fitted = fitted_to(label)
    if fitted is None:
        return ""
    along = [axis for axis in axes if input_auto_depends_on(axis)]
    first = dict(stated)
    for axis in along:
        first |= values_at(axis, 0)
    points = [
        first,
        *(first | values_at(axis, k) for axis in along for k in range(1, min(axis.size, MOST))),
    ]
    other: dict[str, None] = {}
    for point in points:
        with contextlib.suppress(InputError):  # no GPU is known
            other |= dict.fromkeys(differences(fitted, posterior_cell(point)))
    if not other:
        return ""
    return (
        f"calibration {label} was fitted to other steps ({', '.join([*other][:_MOST_LISTED])}"
        f"{', ...' if len(other) > _MOST_LISTED else ''}); "
        "`fleetcube calibrations SPEC` lists closer ones"
    )


def posterior_cell(stated: Mapping[str, Any]) -> pooled.Cell:
    """The cell of a scenario: explicit values, then its labels', then defaults."""
    posterior = _posterior()
    sheets: list[Mapping[str, Any]] = [stated]
    node = _values("node", stated)
    label = stated.get("gpu", node.get("gpu"))
    if "gpu" in stated:
        sheets.append(_values("gpu", stated))
    sheets.append(node)
    if "gpu" not in stated and label:  # a GPU in another's node has nothing of that one
        sheets.append(record("gpu", label).values)
    sheets.append(_values("model", stated))

    def value(name: str) -> Any:
        return next((sheet[name] for sheet in sheets if name in sheet), None)

    number_format = str(stated.get("precision", INPUTS["precision"].default))
    precision = posterior.bits(number_format)
    peak_16 = value(_PEAKS["16 bits"]) or value(_PRODUCTS)
    if not peak_16:
        raise InputError(
            f'calibration = "auto" needs a GPU and has none; give gpu, node or {_PEAKS["16 bits"]}'
        )
    power = stated.get(POWER, record("gpu", label).values.get(POWER) if label else None)
    experts = value("mixture_of_experts") or (value("experts") or 0) > 1
    linear = value("linear_attention")
    states = bool(value("linear_layers")) and linear is not False
    software = (
        record("software", stated["software"]).values["steps_as"] if "software" in stated else ""
    )
    return pooled.Cell(
        software=str(software),
        layers="hybrid" if states and experts else "experts" if experts else "dense",
        gpu=posterior.family(str(label)) if label else "",
        precision=precision,
        kernel=str(stated.get("attention_kernel", "")),
        peak_16=float(peak_16),
        peak=float(value(_PEAKS[precision]) or peak_16),
        node_link=float(value("intra_node_bandwidth") or 0.0),
        watts_per_flop=float(power or 0.0) / float(peak_16),
        hides_experts=not experts
        or str(label).startswith("tpu")
        or stated.get(_SCHEDULE) in PAIRED_SCHEDULES,
        vendor=vendor(record("gpu", label)) if label else "",
        states=str(linear or INPUTS["linear_attention"].implied) if states else "",
        new_format="" if number_format in posterior.content["precisions"] else number_format,
    )


def job_of(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The labels of a scenario's cluster, without editions, and the shape of its model."""
    sheet = {**_values("model", stated), **stated}
    labels = {name: str(stated[name]).partition("@")[0] for name in CLUSTER if name in stated}
    return labels | {name: float(sheet[name]) for name in SHAPE if name in sheet}


def measured_job(label: str, stated: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The calibration's job that a scenario describes, if any: same labels, shape, and software,
    layers, GPU and precision of its steps. Sizes that the scenario leaves open match any."""
    jobs = record("calibration", label).values.get("jobs", ())
    if not jobs:
        return None
    fitted, scenario_job = fitted_to(label), job_of(stated)
    if fitted and differences(fitted, posterior_cell(stated)):
        return None

    def is_same(job: Mapping[str, Any]) -> bool:
        labels = all(scenario_job.get(name) == job[name] for name in CLUSTER if name in job)
        return labels and all(scenario_job.get(n, job[n]) == job[n] for n in SHAPE if n in job)

    return next((job for job in jobs if is_same(job)), None)


def factors_of_job(
    label: str,
    axes: Sequence[Axis],
    stated: Mapping[str, Any],
    explicit: Collection[str],
    free: Collection[str],
) -> tuple[Mapping[str, tuple[tuple[str, ...], Array]], list[str]]:
    """A calibration's factor of its own jobs' steps and its error factor along the axes, with a
    remark. Empty if it has no jobs or the factor is stated; free inputs identify no job."""
    values = record("calibration", label).values
    if "jobs" not in values or STEP_FACTOR in {*explicit, *free}:
        return {}, []
    along = [axis for axis in axes if not {*axis.inputs}.isdisjoint(DECIDING)]
    shape = tuple(axis.size for axis in along)
    jobs = []
    for place in itertools.product(*map(range, shape)):
        point = {**stated, **values_along(along, place)}
        jobs.append(None if DECIDING & {*free} else measured_job(label, point))
    names = tuple(axis.name for axis in along)
    other = {STEP_FACTOR: 1.0, FACTOR: values[FACTOR]}
    rows = {
        name: compressed(names, np.array([(job or other)[name] for job in jobs]).reshape(shape))
        for name in other
    }
    factors = sorted({f"{job[STEP_FACTOR]:.3g}" for job in jobs if job})
    if not factors:
        return rows, [
            f"not a job of {label}: its coefficients alone, with the interval of another job"
        ]
    some = "; other jobs have its coefficients alone" if None in jobs else ""
    return rows, [
        f"calibration {label}: steps of this job, {', '.join(factors)} times what its coefficients "
        f"give{some}"
    ]


def check_jobs_alone(axis: Axis, axes: Sequence[Axis]) -> None:
    """Refuse calibrations of jobs along an axis if inputs that identify the job vary elsewhere."""
    labels = axis.records["calibration"]
    if not any("jobs" in record("calibration", label).values for label in labels):
        return
    for other in axes:
        if other is not axis and (varying := sorted(DECIDING & {*other.inputs})):
            raise InputError(
                f"calibrations of own jobs along {axis.name!r} depend on {varying[0]}, which "
                f"varies along {other.name!r}; sweep one of them"
            )


def compressed(names: Sequence[str], array: Array) -> tuple[tuple[str, ...], Array]:
    """An array without the axes along which it is constant."""
    varying: list[str] = []
    for name in names:
        first = np.take(array, [0], axis=len(varying))
        if array.shape[len(varying)] > 1 and not _equal(array, first):
            varying.append(name)
        else:
            array = first.squeeze(len(varying))
    return tuple(varying), array


def _equal(array: Array, first: Array) -> bool:
    same = array == first
    if array.dtype.kind == "f":
        same |= np.isnan(array) & np.isnan(first)
    return bool(same.all())


def measured() -> Mapping[str, Sequence[float]]:
    """[min, max] of each size over the published steps."""
    ranges: Mapping[str, Sequence[float]] = _posterior().content["ranges"]
    return ranges


def fabric_exponent(label: str) -> float:
    """Power of the error factor between nodes: above 1 for a fabric that no published step ran
    on."""
    fabric, content = label.partition("@")[0], _posterior().content
    is_known = not fabric or fabric in content["fabrics"]
    return 1.0 if is_known else float(content["unmeasured"]["fabric"]["exponent"])


def _posterior() -> pooled.Posterior:
    try:
        return pooled.posterior()
    except CatalogError as error:
        raise InputError(str(error)) from None


def _values(kind: str, stated: Mapping[str, Any]) -> Mapping[str, Any]:
    return record(kind, stated[kind]).values if kind in stated else {}


def _widen_factors(
    posterior: pooled.Posterior,
    axes: Sequence[Axis],
    along: Sequence[Axis],
    stated: Mapping[str, Any],
    factors: Array,
    free: Collection[str],
) -> tuple[tuple[tuple[str, ...], Array], list[str]]:
    """Error factors, widened outside the published sizes, and remarks that explain it."""
    names = [axis.name for axis in along]
    logs, remarks = elementary.log(factors), []
    decades: Array = np.zeros(factors.shape)
    for name in (name for name in posterior.content["ranges"] if name not in free):
        axis, given = _sizes(name, axes, stated)
        far = beyond(name, given)
        if not far.any():
            continue
        remarks += outside(name, given)
        if axis is None:
            decades = decades + far[0]
        elif axis.name in names:
            shape = [1] * decades.ndim
            shape[names.index(axis.name)] = axis.size
            decades = decades + far.reshape(shape)
        elif decades.size * axis.size <= _MOST_WIDE:
            decades = decades[..., None] + far
            logs = logs[..., None]
            names.append(axis.name)
        else:
            decades = decades + far.max()
    return (tuple(names), elementary.exp(logs * (1 + posterior.widening * decades))), remarks


def span(name: str) -> tuple[float, float] | None:
    """[min, max] of a size over the published steps; None for any other input."""
    ends = _posterior().content["ranges"].get(name)
    return None if ends is None else (float(ends[0]), float(ends[1]))


def beyond(name: str, given: Array) -> Array:
    """Decades by which sizes lie outside the published ones."""
    decades = _posterior().beyond(name, given)
    return decades if np.isfinite(decades).all() else np.nan_to_num(decades)  # which is slow


def outside(name: str, given: Array) -> list[str]:
    """A remark on the value of a size farthest outside the published range, if any."""
    ends = span(name)
    if ends is None or not (far := beyond(name, given)).any():
        return []
    low, high = ends
    worst = float(given[int(np.argmax(far))])
    return [
        f"calibration auto: {name} = {worst:,.12g} is outside the published steps "
        f"({low:,.12g} to {high:,.12g}): the interval is wider there"
    ]


def _sizes(name: str, axes: Sequence[Axis], stated: Mapping[str, Any]) -> tuple[Axis | None, Array]:
    """Values of an input, and their axis; empty if nothing sets it."""
    axis = next((axis for axis in axes if name in axis.numbers), None)
    if axis is not None:
        row = axis.numbers[name]
        if np.isnan(row).any():  # labels set points left open
            other, given = _on_sheets(name, axes, stated)
            if other is not axis and len(given):
                given = given[[int(np.argmax(beyond(name, given)))]]
            row = np.where(np.isnan(row), given if len(given) else np.nan, row)
        return axis, _phase_values(name, axis, axes, row) if axis.name == PHASE else row
    if name in stated:
        return None, np.array([stated[name]], dtype=float)
    return _on_sheets(name, axes, stated)


def _phase_values(name: str, job: Axis, axes: Sequence[Axis], row: Array) -> Array:
    """The phases' values of an input; for a phase's own axis the value farthest outside."""
    inputs = [in_phase(name, key) for key in phase_keys(job)]
    tried = {key: axis.numbers[key] for axis in axes for key in inputs if key in axis.numbers}
    farthest = {key: values[int(np.argmax(beyond(name, values)))] for key, values in tried.items()}
    return np.array([farthest.get(key, value) for key, value in zip(inputs, row, strict=True)])


def _on_sheets(
    name: str, axes: Sequence[Axis], stated: Mapping[str, Any]
) -> tuple[Axis | None, Array]:
    """Values of an input that labels set, and the axis of those labels."""
    for kind in ("gpu", "node", "model"):
        axis = next((axis for axis in axes if kind in axis.records), None)
        labels = axis.records[kind] if axis else [stated[kind]] if kind in stated else []
        sheets = [_with_gpu(kind, label) for label in labels]
        if sheets and all(name in sheet for sheet in sheets):
            return axis, np.array([sheet[name] for sheet in sheets])
    return None, np.array([])


def _with_gpu(kind: str, label: str) -> Mapping[str, Any]:
    """Values of a label; for a node also those of its GPU."""
    sheet = record(kind, label).values
    gpu = sheet.get("gpu")
    return {**record("gpu", gpu).values, **sheet} if isinstance(gpu, str) else sheet


def _label(cell: pooled.Cell) -> str:
    sheet = f"{cell.peak:g}, {cell.watts_per_flop:g}, {cell.node_link:g}, {cell.hides_experts}"
    kinds = "".join(f", {name}" for name in (cell.states, cell.new_format) if name)
    return f"{AUTO} ({cell.name}, {cell.kernel}, {sheet}{kinds})"


@functools.lru_cache(MOST)
def _coefficients(cell: pooled.Cell) -> Record:
    """The posterior's expectation for a cell, as a calibration."""
    posterior = _posterior()
    entry = record("calibration", AUTO)
    return Record(
        entry.kind,
        f"{AUTO} ({cell.name})",
        entry.edition,
        posterior.provenance(cell),
        f"{entry.source} ({posterior.digest[:16]})",
        entry.date,
        entry.note,
        MappingProxyType(posterior.values(cell)),
    )
