"""The best layout of every point: each input that the spec leaves open takes a few likely values.

All combinations are evaluated in one pass, those that cannot be run are left out, and the best ones
are evaluated again, with everything that a planner asks of them. The best is exact over the
candidates; nothing is said of layouts beyond these.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels.graph import formulas as graph
from ...kernels.inputs import INPUTS
from ...kernels.roles import NEAR, REASON, SPLIT
from ..errors import InputError, nearest, shown
from ..plan.labels import attributes
from ..run.evaluation import Evaluation
from ..run.settings import Settings
from ..show.tables import meanings, numbers, scale
from ..spec import phases, values
from ..spec.axes import Array, make_axes
from .gradient import check_quantity, derivative_of, reached, uncounted
from .interval import interval
from .wall import TIMED

if TYPE_CHECKING:
    import xarray

MOST = 1 << 24  # combinations tried, of points and layouts
MOST_POINTS = 1000
CANDIDATE, RANK = "candidate", "rank"
LAYOUT = (
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "expert_parallel",
    "virtual_stages",
    "micro_batch_size",
    "recompute",
    "zero_stage",
    "sequence_parallel",
)
_STAGES = 64  # of a pipeline, at most
_CONTEXT = 4096  # tokens that each rank of a sequence keeps at least
SHOWN = (  # of the best layout, where the scenario tells what they need
    "job_time",
    "step_time",
    "mfu",
    "model_flops_per_gpu",
    "memory_per_gpu",
    "memory_margin",
    NEAR,
    "goodput",
    "useful_compute_share",
    "expected_failures",
    "checkpoint_interval",
    "energy",
    "facility_power",
    "gpu_hours",
    "job_cost",
)
LOSSES = ("compute", *TIMED)
_SHARES = {"compute": ("compute_inefficiency_overhead",), **TIMED}
_LEVERS = 5
# Not a planner's to pull: what is predicted of software, and the job itself
_NO_LEVERS = frozenset({"model", "calibration"})
_MEMORY, _MARGIN = "memory_per_gpu", "memory_margin"


def best_layouts(
    spec: Mapping[str, Any],
    of: str = "job_time",
    opened: Mapping[str, Sequence[Any] | None] | Sequence[str] = (),
    top: int = 1,
    engine: str = "auto",
) -> "xarray.Dataset":
    """The best layouts at every point; see `Sweep.best_layouts`."""
    check_quantity(of)
    if isinstance(top, bool) or not isinstance(top, int) or not 1 <= top <= 100:
        raise InputError(f"top = {shown(top)} is not a number of layouts; give one from 1 to 100")
    asked = dict(opened) if isinstance(opened, Mapping) else dict.fromkeys(opened)
    scenario, axes = _whole(spec)
    choices = _candidates(scenario, axes, of, asked)
    for name in choices:
        scenario.pop(name, None)
        axes.pop(name, None)
    points = {name: axis.size for name, axis in make_axes(axes).items()}
    if math.prod(points.values()) > MOST_POINTS:
        raise InputError(
            f"the spec has {math.prod(points.values()):,} points; at most {MOST_POINTS:,} are "
            "planned at once: choose values of its axes (axis=value)"
        )
    tried = _Tried(scenario, axes, choices, of, tuple(points.values()), engine)
    best = tried.best(top)
    found = _described(scenario, axes, tried, best, of, engine)
    count = ("feasible layouts among those tried", {"units": "1"})
    attrs = {**found.attrs, **uncounted(tried.sweep.plan("numpy"), list(asked))}
    attrs["fleetcube_layouts_tried"] = tried.size
    attrs["fleetcube_open"] = " ".join(choices)
    places = tuple(points)
    made: dict[str, Any] = {
        "feasible_layouts": (places, tried.feasible, {"long_name": count[0], **count[1]})
    }
    if REASON in tried.outputs:
        about = attributes(tried.sweep.plan("numpy"), REASON)
        made["commonest_reason"] = (
            places,
            tried.commonest,
            {**about, "long_name": "why most layouts that cannot be run cannot"},
        )
        made["least_memory_margin"] = (
            places,
            tried.margin(scenario, axes),
            {"units": "1", "long_name": "largest memory_margin of those that only lack memory"},
        )
        made["without_memory_limit"] = (
            places,
            tried.unlimited,
            {**attributes(tried.sweep.plan("numpy"), of), "long_name": f"best {of} in any memory"},
        )
    return found.assign(made).assign_attrs(attrs)


# What is tried


def _whole(spec: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A scenario and axes, those of a job in one piece. Raises InputError."""
    known = phases.names(spec["scenario"])
    if known or phases.NAME in spec["axes"]:
        first = f"{phases.NAME}={known[0]}" if known else "leave the axis out"
        raise InputError(f"each phase of a job has its own best layout; plan one: {first}")
    for name in (CANDIDATE, RANK):
        if name in spec["axes"]:
            raise InputError(f"axis {name!r} has a name that plans use; give it another")
    return dict(spec["scenario"]), dict(spec["axes"])


def _candidates(
    scenario: Mapping[str, Any],
    axes: Mapping[str, Any],
    of: str,
    asked: Mapping[str, Sequence[Any] | None],
) -> dict[str, list[Any]]:
    """Values of each input that the spec leaves open, or that is opened by name."""
    stated = {*scenario, *axes, *(n for axis in make_axes(axes).values() for n in axis.inputs)}
    if "pipeline_layout" in stated:
        stated |= {*SPLIT.values()}
    for name in asked:
        if name not in INPUTS:
            raise InputError(f"{name!r} is not an input to open; {nearest(name, INPUTS)}")
        owner = next((a for a, x in make_axes(axes).items() if name in x.inputs and a != name), "")
        if owner:
            raise InputError(f"{name} is set by the axis {owner!r}; it cannot be opened as well")
    free = [name for name in LAYOUT if name not in stated]
    names = list(dict.fromkeys([*free, *asked]))
    kept = {name: value for name, value in scenario.items() if name not in names}
    kept |= {name: own[0] for name, own in asked.items() if own}
    places = {name: axis for name, axis in axes.items() if name not in names}
    # several stages, so that what only a pipeline reads is felt
    stages = {"pipeline_parallel": 2} if "pipeline_parallel" in free else {}
    sweep = Evaluation({**kept, **stages}, places, [of])
    plan = sweep.plan("numpy")
    felt = reached(plan, [of])
    most = {
        name: max(float(np.nanmax(case.leaves[name])) for case in plan.cases if name in case.leaves)
        for name in ("gpus_per_domain", "gpus_per_node", "sequence_length", "layers", "experts")
        if any(name in case.leaves for case in plan.cases)
    }
    made: dict[str, list[Any]] = {}
    for name in names:
        row = INPUTS[name]
        own = asked.get(name)
        if own is not None:
            tried = [
                values.option(name, v) if row.kind == "option" else values.number(name, v)
                for v in own
            ]
        elif row.kind == "option":
            tried = _choices(name, kept, places, of)
        elif name in LAYOUT:
            tried = [float(v) for v in _counts(name, most)]
        else:
            raise InputError(f"{name} has no candidates of its own; list them: {name}=value,value")
        if len(tried) > 1 and row.kind != "option" and name not in felt:
            if name in asked:
                raise InputError(f"{of} does not depend on {name}; do not open it")
            tried = []
        if tried:
            made[name] = tried
    return made


def _counts(name: str, most: Mapping[str, float]) -> list[int]:
    """Likely values of a count of the layout, from what the model and the cluster allow."""
    layers = int(most.get("layers", 1))
    ends = {
        "tensor_parallel": min(most.get("gpus_per_node", 8), 8),
        "context_parallel": min(16, most.get("sequence_length", 0) // _CONTEXT),
        "expert_parallel": min(64, most.get("experts", 1)),
        "virtual_stages": min(8, layers),
        "micro_batch_size": 8,
    }
    if name == "pipeline_parallel":
        return sorted({*_powers(min(_STAGES, layers)), *_divisors(layers, _STAGES)})
    return _powers(ends[name])


def _powers(last: float) -> list[int]:
    return [1 << k for k in range(max(1, int(last)).bit_length())]


def _divisors(of: int, last: int) -> list[int]:
    return [n for n in range(1, min(of, last) + 1) if of % n == 0]


def _choices(name: str, scenario: Mapping[str, Any], axes: Mapping[str, Any], of: str) -> list[Any]:
    """The choices of an option for which the scenario tells all that is needed."""
    usable = []
    for choice in INPUTS[name].choices:
        try:
            Evaluation({**scenario, name: choice}, axes, [of])
        except InputError:
            continue
        usable.append(choice)
    return usable


class _Tried:
    """All layouts at every point: an output, and why some cannot be run."""

    def __init__(
        self,
        scenario: Mapping[str, Any],
        axes: Mapping[str, Any],
        choices: Mapping[str, Sequence[Any]],
        of: str,
        shape: tuple[int, ...],
        engine: str,
    ) -> None:
        self.of, self.shape = of, shape
        numbers = {n: v for n, v in choices.items() if INPUTS[n].kind != "option"}
        self.rows = list(_rows(numbers, scenario, axes))
        self.names = list(numbers)
        self.options = {n: list(v) for n, v in choices.items() if n not in numbers}
        self.size = len(self.rows) * math.prod(map(len, self.options.values()))
        if self.size * math.prod(shape) > MOST:
            raise InputError(
                f"{self.size:,} layouts at {math.prod(shape):,} points are more than {MOST:,}; "
                "state some of them (name=value), or plan fewer points (axis=value)"
            )
        table = _table(CANDIDATE, self.names, self.rows)
        self.axes = {**axes, **self.options, **table}
        self.sweep = Evaluation(scenario, self.axes, [of])
        self.outputs = self.sweep.plan("numpy").outputs
        found = self.sweep.evaluate("numpy" if engine == "auto" else engine)
        self.dims = [*axes, *self.options, *table]
        times = self._spread(found[of])
        self.reasons = (
            self._spread(found[REASON])
            if REASON in found.coords
            else np.zeros(times.shape, np.int8)
        )
        self.times = np.where(self.reasons == 0, times, np.inf)
        self.times[np.isnan(self.times)] = np.inf
        self.feasible = np.isfinite(self.times).sum(axis=-1).reshape(shape)
        memory = np.where((self.reasons == 0) | (self.reasons == 10), times, np.inf)
        self.unlimited = np.fmin.reduce(memory, axis=-1).reshape(shape)
        self.unlimited = np.where(np.isinf(self.unlimited), np.nan, self.unlimited)

    def _spread(self, own: Any) -> Array:
        """An output at every point (rows) and layout (columns)."""
        sizes = self.sweep.sizes
        full = own.expand_dims({d: sizes[d] for d in self.dims if d not in own.dims})
        return np.asarray(full.transpose(*self.dims).values.reshape(math.prod(self.shape), -1))

    @property
    def commonest(self) -> Array:
        """The reason that most layouts fail by at every point."""
        most = np.zeros(len(self.reasons), np.int8)
        for k, row in enumerate(self.reasons):
            bad = row[row != 0]
            if bad.size:
                codes, counts = np.unique(bad, return_counts=True)
                most[k] = codes[counts.argmax()]
        return most.reshape(self.shape)

    def margin(self, scenario: Mapping[str, Any], axes: Mapping[str, Any]) -> Array:
        """The largest margin of memory where nothing fits and some only lack memory."""
        none = np.isinf(self.times).all(axis=1)
        margin = np.full(len(none), np.nan)
        if (self.reasons[none] == 10).any():
            found = Evaluation(scenario, self.axes, [_MARGIN]).evaluate("numpy")
            free = np.where(self.reasons == 10, self._spread(found[_MARGIN]), np.nan)
            margin = np.where(none, np.fmax.reduce(free, axis=1), np.nan)
        return margin.reshape(self.shape)

    def best(self, top: int) -> Array:
        """The first layouts of every point by rank; -1 where there is none."""
        found = np.full((len(self.times), top), -1)
        for k, row in enumerate(self.times):
            # of equal ones the first: what changes nothing is no other answer
            times, first = np.unique(row, return_index=True)
            there = first[np.isfinite(times)][:top]
            found[k, : there.size] = there
        return found

    def layout(self, k: int) -> dict[str, Any]:
        """The inputs of a layout by its number."""
        *ways, row = np.unravel_index(k, (*map(len, self.options.values()), len(self.rows)))
        chosen = {n: each[way] for (n, each), way in zip(self.options.items(), ways, strict=True)}
        both = {**dict(zip(self.names, self.rows[row], strict=True)), **chosen}
        return {n: both[n] for n in (*LAYOUT, *both) if n in both}


def _rows(
    numbers: Mapping[str, Sequence[float]], scenario: Mapping[str, Any], axes: Mapping[str, Any]
) -> Iterator[tuple[float, ...]]:
    """Combinations of numbers, without those that no cluster of the spec can hold."""
    stated = {n: v for n, v in scenario.items() if n in LAYOUT or n == "n_gpus"}
    sizes = [values.number("n_gpus", stated["n_gpus"])] if "n_gpus" in stated else []
    for axis in make_axes(axes).values():
        if "n_gpus" in axis.numbers:
            sizes = axis.numbers["n_gpus"].tolist()
    if "n_gpus" in numbers:
        sizes = list(numbers["n_gpus"])
    for row in itertools.product(*numbers.values()):
        at = dict(zip(numbers, row, strict=True))
        group = math.prod(
            at.get(n, 1.0) for n in ("tensor_parallel", "pipeline_parallel", "context_parallel")
        )
        stages = at.get("pipeline_parallel", 2.0)
        if sizes and all(size % group for size in sizes):
            continue
        if stages == 1 and at.get("virtual_stages", 1.0) > 1:
            continue
        yield row


def _table(name: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """An axis of layouts; none where nothing is open."""
    if not names:
        return {}
    columns = {n: [row[k] for row in rows] for k, n in enumerate(names)}
    return {name: {"labels": [f"{k}" for k in range(len(rows))], **columns}}


# What is told of the best


def _is_known(scenario: Mapping[str, Any], axes: Mapping[str, Any], name: str) -> bool:
    try:
        Evaluation(scenario, axes, [name])
    except InputError:
        return False
    return True


def _described(
    scenario: Mapping[str, Any],
    axes: Mapping[str, Any],
    tried: _Tried,
    best: Array,
    of: str,
    engine: str,
) -> "xarray.Dataset":
    """The best layouts as `run` evaluates them: outputs, ends of intervals, losses, levers."""
    import xarray

    places = sorted({*best[best >= 0].tolist()}) or [0]
    layouts = [tried.layout(k) for k in places]
    names = list(layouts[0])
    again = {**axes, **_table(CANDIDATE, names, [[*one.values()] for one in layouts])}
    first = {**scenario, **layouts[0]}
    shares = [n for own in _SHARES.values() for n in own]
    wanted = dict.fromkeys([of, *SHOWN, *shares])
    outputs = [n for n in wanted if n in graph.load() and _is_known(first, axes, n)]
    sweep = Evaluation(scenario, again, outputs)
    settings = Settings("numpy" if engine == "auto" else engine)
    told = [n for n in dict.fromkeys([of, "job_time", _MEMORY]) if n in outputs]
    found = sweep.evaluate(settings.engine)
    ends = interval(sweep, told, settings)
    found = found.assign({n: v for n, v in ends.data_vars.items() if n not in found})
    plan = sweep.plan("numpy")
    # by whole-numbered layouts there is no slope; of those told by the model none is a lever
    levers = [
        n
        for n in INPUTS
        if n in reached(plan, [of])
        and INPUTS[n].kind == "real"
        and INPUTS[n].labels not in _NO_LEVERS
    ]
    named = {n: derivative_of(of, n, elasticity=True).name for n in levers}
    slopes = Evaluation(scenario, again, list(named.values())).evaluate(settings.engine)
    nowhere = best < 0
    index = np.where(nowhere, 0, np.searchsorted(places, np.where(nowhere, places[0], best)))
    dims = (*axes, RANK)
    shape = (*tried.shape, best.shape[1])

    def at_best(own: Any) -> Array:
        sizes = sweep.sizes
        full = own.expand_dims({d: sizes[d] for d in sizes if d not in own.dims})
        rows = full.transpose(*axes, *(d for d in sizes if d not in axes)).values
        rows = rows.reshape(len(best), -1)
        cells = np.take_along_axis(rows, index if rows.shape[1] > 1 else 0 * index, axis=1)
        masked = np.where(nowhere, np.nan, cells) if cells.dtype.kind == "f" else cells
        return np.asarray(masked).reshape(shape)

    made: dict[str, Any] = {}
    for name in names:
        column = np.array([one[name] for one in layouts], dtype=object)[index]
        about = {"long_name": INPUTS[name].description}
        if INPUTS[name].kind == "option":
            texts = np.where(nowhere, "", np.vectorize(_word, otypes=[object])(column)).astype(str)
            made[name] = (dims, texts.reshape(shape), about)
        else:
            cells = np.where(nowhere, np.nan, column.astype(float)).reshape(shape)
            made[name] = (dims, cells, {**about, "units": INPUTS[name].unit})
    for name in found.data_vars:
        if name not in shares:
            made[str(name)] = (dims, at_best(found[name]), found[name].attrs)
    if all(name in outputs for name in shares):
        lost = [sum(at_best(found[n]) for n in own) for own in _SHARES.values()]
        about = {"units": "1", "long_name": "share of the wall time"}
        made["lost"] = ((*dims, "loss"), np.stack(lost, axis=-1), about)
    size = np.stack([at_best(slopes[n]) for n in named.values()], axis=-1)
    made["elasticity"] = (
        (*dims, "input"),
        size,
        {"units": "1", "long_name": f"relative change of {of} over that of the input"},
    )
    coords: dict[str, Any] = {
        name: (name, axis.labels, {}) for name, axis in make_axes(axes).items()
    }
    coords |= {RANK: np.arange(1, best.shape[1] + 1), "input": levers}
    if "lost" in made:
        coords["loss"] = list(LOSSES)
    return xarray.Dataset(made, coords, {**found.attrs, "fleetcube_of": of})


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# In words


@dataclass(frozen=True)
class Lever:
    """An input and its elasticity."""

    name: str
    elasticity: float


def levers_of(point: "xarray.Dataset", most: int = _LEVERS) -> list[Lever]:
    """The inputs that move the output most at one point, largest first; none of no effect."""
    sizes = np.nan_to_num(point["elasticity"].values)
    rank = np.argsort(-np.abs(sizes), kind="stable")[:most]
    names = point["input"].values
    return [Lever(str(names[k]), float(sizes[k])) for k in rank if abs(sizes[k]) >= 5e-4]


def limits_of(point: "xarray.Dataset", most: int = 3) -> list[tuple[str, float]]:
    """The largest losses of one point, as shares of the wall time."""
    if "lost" not in point:
        return []
    pairs = zip(point["loss"].values.tolist(), point["lost"].values.tolist(), strict=True)
    rank = sorted(pairs, key=lambda pair: -pair[1])
    return [(name, share) for name, share in rank[:most] if share >= 5e-4]


def is_known(point: "xarray.Dataset") -> bool:
    """Whether a layout was found at one point."""
    return bool(np.isfinite(point[point.attrs["fleetcube_of"]].values))


def why_none(point: "xarray.Dataset") -> str:
    """Why no layout can be run at one point, in words."""
    if "commonest_reason" not in point:
        return "none: undefined at every layout tried"
    margin = float(point["least_memory_margin"])
    if math.isfinite(margin):
        return f"none fits in memory: the nearest takes {1 - margin:.2f} times a GPU's"
    reason = meanings(point["commonest_reason"].attrs, point["commonest_reason"].values[None])[0]
    return f"none can be run: most fail by {reason}"


_SHORT = {
    "tensor_parallel": "tp",
    "pipeline_parallel": "pp",
    "context_parallel": "cp",
    "expert_parallel": "ep",
    "virtual_stages": "vp",
    "micro_batch_size": "mb",
    "zero_stage": "z",
}
_ROWS = {
    "job_time": "job time",
    "step_time": "step time",
    "mfu": "MFU",
    "model_flops_per_gpu": "model FLOP/s per GPU",
    "memory_per_gpu": "memory per GPU",
    "goodput": "goodput",
    "expected_failures": "interruptions",
    "checkpoint_interval": "checkpoint every",
    "energy": "energy",
    "facility_power": "facility power",
    "gpu_hours": "GPU hours",
    "job_cost": "cost",
}


def layout_of(point: "xarray.Dataset") -> dict[str, str]:
    """The inputs that were searched over, at one point and rank."""
    made = {}
    for name in point.attrs["fleetcube_open"].split():
        cell = point[name].values
        made[name] = str(cell) if cell.dtype.kind == "U" else f"{float(cell):,.10g}"
    return made


def brief(layout: Mapping[str, str]) -> str:
    """A layout in a few signs: tp8 pp4 full z1 sp; what is not shared is left out."""
    words = []
    for name, text in layout.items():
        if name in _SHORT:
            if text != "1" or name == "zero_stage":
                words.append(f"{_SHORT[name]}{text}")
        elif name == "sequence_parallel":
            words += ["sp"] if text == "true" else []
        elif name == "recompute":
            words += [text] if text != "none" else []
        else:
            words.append(text if INPUTS[name].kind == "option" else f"{name}={text}")
    return " ".join(words) or "as stated"


def rows_of(point: "xarray.Dataset") -> list[tuple[str, str]]:
    """What is told of one point and rank: names and values with units and intervals."""
    rows = []
    for name in dict.fromkeys([point.attrs["fleetcube_of"], *_ROWS]):
        if name not in point:
            continue
        value = float(point[name])
        factor, unit = scale(str(point[name].attrs.get("units", "1")), [value], name)
        if name in ("mfu", "goodput"):
            text = f"{value:.1%}"
        else:
            text = f"{numbers([value / factor])[0]} {unit}".rstrip()
        ends = [point.get(f"{name}_{side}") for side in ("low", "high")]
        if name == _MEMORY and NEAR in point and math.isfinite(float(point[_MARGIN])):
            most = value / (1 - float(point[_MARGIN]))
            if math.isfinite(most):
                text += f" of {numbers([most / factor])[0]}"
                text += ", near the limit" if point[NEAR].values == 1 else ""
        if all(end is not None and np.isfinite(end.values) for end in ends):
            low, high = numbers([float(end) / factor for end in ends])
            text += f"  (90 %: {low} to {high})"
        rows.append((_ROWS.get(name, name), text))
    limits = ", ".join(f"{name} {share:.0%}" for name, share in limits_of(point))
    if limits:
        rows.append(("limits, of the time", limits))
    if gain := memory_gain(point):
        rows.append(("memory", f"with more of it, {point.attrs['fleetcube_of']} {gain:.1%} less"))
    for k, lever in enumerate(levers_of(point)):
        text = f"{lever.name} +1 %: {lever.elasticity:+.2f} %"
        rows.append(("levers" if k == 0 else "", text))
    return rows


def _three(value: float) -> str:
    """A number of three digits, or more before the point."""
    return f"{value:,.{max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0}f}"


def memory_gain(point: "xarray.Dataset") -> float:
    """The share of the output that layouts which only lack memory would save; 0 where none."""
    if "without_memory_limit" not in point:
        return 0.0
    best, free = (float(point[n]) for n in (point.attrs["fleetcube_of"], "without_memory_limit"))
    gain = 1 - free / best if best > 0 else 0.0
    return gain if gain >= 5e-4 else 0.0


def foot(found: "xarray.Dataset") -> str:
    """How many layouts were tried, and over what."""
    tried = found.attrs["fleetcube_layouts_tried"]
    counts = found["feasible_layouts"].values
    some = f"{counts.min():,}" + (f" to {counts.max():,}" if counts.min() < counts.max() else "")
    each = " at each point" if counts.size > 1 else ""
    names = found.attrs["fleetcube_open"].replace(" ", ", ") or "nothing: the spec states all"
    return f"tried {tried:,} layouts{each}, {some} feasible; open: {names}"


def points_of(found: "xarray.Dataset") -> Iterator[tuple[dict[str, str], "xarray.Dataset"]]:
    """Every point with its labels in words; ranks stay."""
    dims = [str(dim) for dim in found["feasible_layouts"].dims]
    for place in np.ndindex(*(found.sizes[dim] for dim in dims)):
        at = dict(zip(dims, place, strict=True))
        point = found.isel(at)
        words = {}
        for dim in dims:
            cell = found[dim].values[at[dim]]
            factor, unit = (
                scale(values.unit_of(dim), [cell], dim)
                if cell.dtype.kind == "f" and values.is_known(dim)
                else (1.0, "")
            )
            text = str(cell) if cell.dtype.kind != "f" else numbers([cell / factor])[0]
            words[dim] = f"{text} {unit}".rstrip()
        yield words, point


def summary(
    points: Sequence[tuple[dict[str, str], "xarray.Dataset"]],
) -> tuple[list[str], list[list[str]]]:
    """A table with a row for each point and rank: headings, and cells as text."""
    of = points[0][1].attrs["fleetcube_of"]
    unit, known = str(points[0][1][of].attrs.get("units", "1")), []
    kept = [at.isel({RANK: k}) for _, at in points for k in range(at.sizes[RANK])]
    known = [float(at[of]) for at in kept if is_known(at)]
    factor, unit = scale(unit, known or [1.0], of)
    ranks = points[0][1].sizes[RANK] > 1
    axes = [name for name in points[0][0] if len(points) > 1]
    ended = f"{of}_low" in points[0][1]
    heads = [*axes, *(["#"] if ranks else []), "best layout", f"{of} [{unit}]"]
    heads += (["90 %"] if ended else []) + ["MFU", "limit"]
    rows = []
    for words, at in points:
        for k in range(at.sizes[RANK]):
            best = at.isel({RANK: k})
            cells = [words[name] for name in axes] + ([f"{k + 1}"] if ranks else [])
            if not is_known(best):
                if k == 0:
                    left = why_none(best)
                    rest = ["-"] * (len(heads) - len(cells) - 1)
                    rows.append([*cells, left, *rest])
                continue
            cells += [brief(layout_of(best)), numbers([float(best[of]) / factor])[0]]
            if ended:
                ends = [float(best[f"{of}_{side}"]) / factor for side in ("low", "high")]
                cells.append(" to ".join(map(_three, ends)) if np.isfinite(ends).all() else "-")
            cells.append(f"{float(best['mfu']):.1%}" if "mfu" in best else "-")
            limits = limits_of(best, 1)
            cells.append(limits[0][0] if limits else "-")
            rows.append(cells)
    return heads, rows
