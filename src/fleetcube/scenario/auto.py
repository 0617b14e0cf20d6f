"""`calibration = "auto"`: coefficients inferred from a scenario's GPU, software and layers.

They vary along the same axes as these; the error factor also along sizes outside published steps.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from fleetcube.catalog import AUTO, CatalogError, Record, is_path, kind, pooled, record
from fleetcube.catalog.entry import CLUSTER, SHAPE
from fleetcube.grid.errors import InputError
from fleetcube.grid.spec.axes import PHASE
from fleetcube.grid.spec.axis import Array, Axis, phase_keys
from fleetcube.kernels import elementary
from fleetcube.kernels.calculus.phased_formulas import in_phase
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import OF_JOB
from fleetcube.scenario import patterns

_PEAKS = {"16 bits": "peak_flops_bf16", "8 bits": "peak_flops_fp8", "4 bits": "peak_flops_fp4"}
_LAYERS = ("experts", "mixture_of_experts", "linear_layers", "linear_attention")
TOLD_BY = (
    *("gpu", "node", "model", "software", "precision", "attention_kernel", "peak_flops_fp16"),
    *(*_PEAKS.values(), *_LAYERS),
)
TELLING_JOBS = ("model", *CLUSTER, *SHAPE)
STEP_FACTOR = OF_JOB["step_time"]
TELLING = frozenset({*TOLD_BY, *TELLING_JOBS})
_PRODUCTS, FACTOR = "peak_flops_fp16", "error_factor"
OWN = frozenset({"calibration", "compute_model", "flops_efficiency", "compute_time", "step_time"})
_NEEDED = (  # one of each set: inputs of the roofline without a default
    *({"layers"}, {"hidden_size"}, {"hbm_bandwidth"}),
    {_PEAKS["16 bits"], _PRODUCTS},
)
_WEIGHTS = {"layers": 8, "GPU": 4, "software": 2, "precision": 1}
SOFTWARE = "software"  # the kind of labels that only auto reads
_MOST_SAID = 4  # differences from the calibration's steps listed in a remark
MOST = 4096  # combinations of GPU, software and layers along axes
_MOST_WIDE = 1 << 20  # error factors along axes of sizes; beyond, those of the widest point


@dataclass(frozen=True)
class Found:
    """Result of auto: inputs and options over the axes named next to them, their records, remarks.
    `per_decade`: what each decade outside the published sizes adds to the log error factor."""

    rows: Mapping[str, tuple[tuple[str, ...], Array]]
    records: Mapping[str, Record]
    remarks: tuple[str, ...]
    per_decade: tuple[tuple[str, ...], Array]


def find(
    axes: Sequence[Axis],
    labels: Mapping[str, str],
    constants: Mapping[str, float],
    options: Mapping[str, Any],
    free: Collection[str] = (),
) -> Found:
    """Coefficients of every combination of GPU, software, layers and precision. Raises InputError.
    Values that axes and constants set for inputs in `free` are ignored."""
    axes = [without(axis, free) for axis in axes]
    constants = {name: value for name, value in constants.items() if name not in free}
    posterior = _posterior()
    telling_axes = [axis for axis in axes if telling(axis)]
    shape = tuple(axis.size for axis in telling_axes)
    if math.prod(shape) > MOST:
        several = ", ".join(axis.name for axis in telling_axes)
        raise InputError(
            f'calibration = "auto" is found for each of {math.prod(shape):,} combinations of '
            f'{several}; at most {MOST:,} are allowed: sweep fewer, or give calibration = "none"'
        )
    said = {**labels, **constants, **options}
    known: dict[pooled.Cell, Mapping[str, Any]] = {}
    made: list[Mapping[str, Any]] = []
    for place in itertools.product(*map(range, shape)):
        point = dict(said)
        for axis, k in zip(telling_axes, place, strict=True):
            point |= at(axis, k)
        cell = cell_of(point)
        if cell not in known:
            known[cell] = _coefficients(cell).values
        made.append(known[cell])
    inputs = [n for n in dict.fromkeys(n for one in made for n in one) if n != FACTOR]
    found = {n: np.array([one.get(n, math.nan) for one in made]).reshape(shape) for n in inputs}
    factors = np.array([one[FACTOR] for one in made]).reshape(shape)
    wide, far = _widened(posterior, axes, telling_axes, said, factors, free)
    remarks = [f"calibration auto: {_coefficients(cell).title}" for cell in [*known][:3]]
    if len(known) > len(remarks):
        remarks.append(f"calibration auto: and {len(known) - len(remarks)} more such cells")
    names = tuple(axis.name for axis in telling_axes)
    rows = {name: compressed(names, row) for name, row in found.items()}
    return Found(
        {**rows, FACTOR: compressed(*wide)},
        {_label(cell): _coefficients(cell) for cell in known},
        (*remarks, *far),
        compressed(names, elementary.log(factors) * posterior.widening),
    )


def is_default(axes: Sequence[Axis], labels: Mapping[str, str], stated: Collection[str]) -> bool:
    """Whether auto applies although no calibration is named. It needs a GPU by name and a model of
    known shape, and a scenario that does not determine compute time by a calibration, a share of
    peak, a compute model, or that time itself."""
    names = {*labels, *stated}
    if names & OWN or not names & {"gpu", "node"}:
        return False
    sheets = []
    for what in ("gpu", "node", "model"):
        along = next((axis.records[what] for axis in axes if what in axis.records), None)
        found = along or ([labels[what]] if what in labels else [])
        sheets.append(
            [patterns.spelled_out(_with_gpu(what, label), {}).keys() for label in {*found}]
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
    those of its interval, where all sizes within the published range count as one."""
    found = {}
    posterior = _posterior()
    for name, column in numbers.items():
        if name in TOLD_BY or (sizes and name in posterior.content["ranges"]):
            if name not in TOLD_BY:
                low = posterior.content["ranges"][name][0]
                column = np.where(posterior.beyond(name, column) == 0, low, column)
            distinct, codes = np.unique(column, return_inverse=True)
            found[name] = np.where(np.isnan(column), -1, codes), distinct
    return found


def telling(axis: Axis) -> str:
    """An input along an axis that auto depends on; empty if there is none."""
    return next((name for name in axis.inputs if name in TOLD_BY), "")


def point_values(
    said: Mapping[str, Any], axis: Axis | None = None, k: int = 0
) -> tuple[dict[str, Any], Record, str]:
    """What auto sets at one point of an axis: values, their record, and a remark."""
    cell = cell_of({**said, **(at(axis, k) if axis else {})})
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
    if entry.label not in kind("calibration") or "compute_model" not in entry.values:
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


def nearest(own: pooled.Cell) -> list[str]:
    """How the nearest published steps differ from a scenario."""
    found = []
    for name in _posterior().cells:
        software, layers, gpu, precision = name.split(", ")
        found.append(differences(pooled.Cell(software, layers, gpu, precision, "", 1.0, 1.0), own))
    return min(found, key=weight)


def weight(differing: Sequence[str]) -> int:
    """Weight of differences: layers most, then GPU, software, precision."""
    return sum(_WEIGHTS[text.partition(" ")[0]] for text in differing)


def differences(fitted: pooled.Cell, own: pooled.Cell) -> list[str]:
    """How a calibration's steps differ from a scenario."""
    pairs = {
        "precision": (fitted.precision, own.precision),
        "GPU": (fitted.gpu, own.gpu),
        "software": (pooled.label_of(fitted.software), pooled.label_of(own.software)),
        "layers": (fitted.layers.replace("experts", "moe"), own.layers.replace("experts", "moe")),
    }
    if "hybrid" in (fitted.layers, own.layers) and fitted.layers != "dense" != own.layers:
        del pairs["layers"]  # mixtures of experts both
    return [f"{what} {a} instead of {b}" for what, (a, b) in pairs.items() if a and b and a != b]


def doubt(
    label: str, axes: Sequence[Axis], said: Mapping[str, Any], explicit: Collection[str]
) -> str:
    """A remark on a calibration to steps unlike the sweep's; else empty. Each axis is scanned with
    the others at their first points. `explicit` inputs are set by the scenario or an axis."""
    sets = record("calibration", label).values.keys()
    if sets and not OWN & {*sets, *explicit}:
        return (
            f"calibration {label} is of the network alone, and flops_efficiency is a guess; "
            "give it, or calibrate to step times as well"
        )
    fitted = fitted_to(label)
    if fitted is None:
        return ""
    along = [axis for axis in axes if telling(axis)]
    first = dict(said)
    for axis in along:
        first |= at(axis, 0)
    points = [
        first,
        *(first | at(axis, k) for axis in along for k in range(1, min(axis.size, MOST))),
    ]
    other: dict[str, None] = {}
    for point in points:
        with contextlib.suppress(InputError):  # no GPU is known
            other |= dict.fromkeys(differences(fitted, cell_of(point)))
    if not other:
        return ""
    return (
        f"calibration {label} was fitted to other steps ({', '.join([*other][:_MOST_SAID])}"
        f"{', ...' if len(other) > _MOST_SAID else ''}); "
        "`fleetcube calibrations SPEC` lists closer ones"
    )


def cell_of(said: Mapping[str, Any]) -> pooled.Cell:
    """The cell of a scenario: explicit values, then its labels', then defaults."""
    posterior = _posterior()
    sheets: list[Mapping[str, Any]] = [said]
    node = _values("node", said)
    label = said.get("gpu", node.get("gpu"))
    if "gpu" in said:
        sheets.append(_values("gpu", said))
    sheets.append(node)
    if isinstance(node.get("gpu"), str):
        sheets.append(record("gpu", node["gpu"]).values)
    sheets.append(_values("model", said))

    def value(name: str) -> Any:
        return next((sheet[name] for sheet in sheets if name in sheet), None)

    precision = posterior.bits(str(said.get("precision", INPUTS["precision"].default)))
    peak_16 = value(_PEAKS["16 bits"]) or value(_PRODUCTS)
    if not peak_16:
        raise InputError(
            f'calibration = "auto" needs a GPU and has none; give gpu, node or {_PEAKS["16 bits"]}'
        )
    experts = value("mixture_of_experts") or (value("experts") or 0) > 1
    states = bool(value("linear_layers")) and value("linear_attention") is not False
    software = record("software", said["software"]).values["steps_as"] if "software" in said else ""
    return pooled.Cell(
        software=str(software),
        layers="hybrid" if states and experts else "experts" if experts else "dense",
        gpu=posterior.family(str(label)) if label else "",
        precision=precision,
        kernel=str(said.get("attention_kernel", "")),
        peak_16=float(peak_16),
        peak=float(value(_PEAKS[precision]) or peak_16),
        node_link=float(value("intra_node_bandwidth") or 0.0),
    )


def job_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """The labels of a scenario's cluster, without editions, and the shape of its model."""
    sheet = {**_values("model", said), **said}
    labels = {name: str(said[name]).partition("@")[0] for name in CLUSTER if name in said}
    return labels | {name: float(sheet[name]) for name in SHAPE if name in sheet}


def measured_job(label: str, said: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The job of a calibration that a scenario is of, if any: of its labels, its shape, and the
    software, layers, GPU and precision of its steps. What is not stated of a shape may be any."""
    jobs = record("calibration", label).values.get("jobs", ())
    if not jobs:
        return None
    fitted, own = fitted_to(label), job_of(said)
    if fitted and differences(fitted, cell_of(said)):
        return None

    def is_same(job: Mapping[str, Any]) -> bool:
        labels = all(own.get(name) == job[name] for name in CLUSTER if name in job)
        return labels and all(own.get(n, job[n]) == job[n] for n in SHAPE if n in job)

    return next((job for job in jobs if is_same(job)), None)


def factors_of_job(
    label: str,
    axes: Sequence[Axis],
    said: Mapping[str, Any],
    explicit: Collection[str],
    free: Collection[str],
) -> tuple[Mapping[str, tuple[tuple[str, ...], Array]], list[str]]:
    """A calibration's factor of its own jobs' steps, and its error factor, along the axes, and a
    remark; none where it has no jobs or the factor is stated. What is sought tells no job."""
    values = record("calibration", label).values
    if "jobs" not in values or STEP_FACTOR in {*explicit, *free}:
        return {}, []
    along = [axis for axis in axes if not {*axis.inputs}.isdisjoint(TELLING)]
    shape = tuple(axis.size for axis in along)
    jobs = []
    for place in itertools.product(*map(range, shape)):
        point = dict(said)
        for axis, k in zip(along, place, strict=True):
            point |= at(axis, k)
        jobs.append(None if TELLING & {*free} else measured_job(label, point))
    names = tuple(axis.name for axis in along)
    other = {STEP_FACTOR: 1.0, FACTOR: values[FACTOR]}
    rows = {
        name: compressed(names, np.array([(job or other)[name] for job in jobs]).reshape(shape))
        for name in other
    }
    known = sorted({f"{job[STEP_FACTOR]:.3g}" for job in jobs if job})
    if not known:
        return rows, [
            f"not a job of {label}: its coefficients alone, with the interval of another job"
        ]
    some = "; other jobs have its coefficients alone" if None in jobs else ""
    return rows, [
        f"calibration {label}: steps of this job, {', '.join(known)} times what its coefficients "
        f"give{some}"
    ]


def check_jobs_alone(axis: Axis, axes: Sequence[Axis]) -> None:
    """Refuse calibrations of jobs along an axis if what tells the job varies along another."""
    labels = axis.records["calibration"]
    if not any("jobs" in record("calibration", label).values for label in labels):
        return
    for other in axes:
        if other is not axis and (told := sorted(TELLING & {*other.inputs})):
            raise InputError(
                f"calibrations of own jobs along {axis.name!r} depend on {told[0]}, which varies "
                f"along {other.name!r}; sweep one of them"
            )


def compressed(names: Sequence[str], array: Array) -> tuple[tuple[str, ...], Array]:
    """An array without the axes along which it is constant."""
    kept: list[str] = []
    for name in names:
        first = np.take(array, [0], axis=len(kept))
        if array.shape[len(kept)] > 1 and not _equal(array, first):
            kept.append(name)
        else:
            array = first.squeeze(len(kept))
    return tuple(kept), array


def _equal(array: Array, first: Array) -> bool:
    same = array == first
    if array.dtype.kind == "f":
        same |= np.isnan(array) & np.isnan(first)
    return bool(same.all())


def measured() -> Mapping[str, Sequence[float]]:
    """[min, max] of each size over the published steps."""
    ranges: Mapping[str, Sequence[float]] = _posterior().content["ranges"]
    return ranges


def _posterior() -> pooled.Posterior:
    try:
        return pooled.posterior()
    except CatalogError as error:
        raise InputError(str(error)) from None


def at(axis: Axis, k: int) -> dict[str, Any]:
    """What an axis sets at one of its points; NaN and None are left to other sources."""
    rows: Iterator[tuple[str, Any]] = itertools.chain(
        axis.numbers.items(), axis.options.items(), axis.records.items()
    )
    return {name: row[k] for name, row in rows if row[k] is not None and row[k] == row[k]}


def _values(kind: str, said: Mapping[str, Any]) -> Mapping[str, Any]:
    return record(kind, said[kind]).values if kind in said else {}


def _widened(
    posterior: pooled.Posterior,
    axes: Sequence[Axis],
    along: Sequence[Axis],
    said: Mapping[str, Any],
    factors: Array,
    free: Collection[str],
) -> tuple[tuple[tuple[str, ...], Array], list[str]]:
    """Error factors, widened outside the published sizes, and remarks that say why."""
    names = [axis.name for axis in along]
    logs, remarks = elementary.log(factors), []
    decades: Array = np.zeros(factors.shape)
    for name in (name for name in posterior.content["ranges"] if name not in free):
        axis, given = _sizes(name, axes, said)
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


def _sizes(name: str, axes: Sequence[Axis], said: Mapping[str, Any]) -> tuple[Axis | None, Array]:
    """Values of an input, and their axis; empty if nothing sets it."""
    axis = next((axis for axis in axes if name in axis.numbers), None)
    if axis is not None:
        row = axis.numbers[name]
        if np.isnan(row).any():  # labels set points left open
            other, given = _on_sheets(name, axes, said)
            if other is not axis and len(given):
                given = given[[int(np.argmax(beyond(name, given)))]]
            row = np.where(np.isnan(row), given if len(given) else np.nan, row)
        return axis, _tried(name, axis, axes, row) if axis.name == PHASE else row
    if name in said:
        return None, np.array([said[name]], dtype=float)
    return _on_sheets(name, axes, said)


def _tried(name: str, job: Axis, axes: Sequence[Axis], row: Array) -> Array:
    """The phases' values of an input; for a phase's own axis the value farthest outside."""
    own = [in_phase(name, key) for key in phase_keys(job)]
    tried = {key: axis.numbers[key] for axis in axes for key in own if key in axis.numbers}
    farthest = {key: values[int(np.argmax(beyond(name, values)))] for key, values in tried.items()}
    return np.array([farthest.get(key, value) for key, value in zip(own, row, strict=True)])


def _on_sheets(
    name: str, axes: Sequence[Axis], said: Mapping[str, Any]
) -> tuple[Axis | None, Array]:
    """Values of an input that labels set, and the axis of those labels."""
    for what in ("gpu", "node", "model"):
        axis = next((axis for axis in axes if what in axis.records), None)
        labels = axis.records[what] if axis else [said[what]] if what in said else []
        sheets = [_with_gpu(what, label) for label in labels]
        if sheets and all(name in sheet for sheet in sheets):
            return axis, np.array([sheet[name] for sheet in sheets])
    return None, np.array([])


def _with_gpu(what: str, label: str) -> Mapping[str, Any]:
    """What a label sets; for a node also what its GPU sets."""
    own = record(what, label).values
    gpu = own.get("gpu")
    return {**record("gpu", gpu).values, **own} if isinstance(gpu, str) else own


def _label(cell: pooled.Cell) -> str:
    return f"{AUTO} ({cell.name}, {cell.kernel}, {cell.peak:g}, {cell.node_link:g})"


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
