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
from ...kernels.roles import REASON, SPLIT
from ..errors import InputError, nearest, shown
from ..plan.labels import attributes
from ..run.evaluation import Evaluation
from ..run.settings import Settings
from ..show.tables import meanings
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
    "goodput",
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
        order = np.argsort(self.times, axis=1, kind="stable")[:, :top]
        there = np.take_along_axis(self.times, order, axis=1)
        found = np.full((len(self.times), top), -1)
        found[:, : order.shape[1]] = np.where(np.isfinite(there), order, -1)
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

    numbers = sorted({*best[best >= 0].tolist()}) or [0]
    layouts = [tried.layout(k) for k in numbers]
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
    index = np.where(nowhere, 0, np.searchsorted(numbers, np.where(nowhere, numbers[0], best)))
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
        return "no layout: undefined at every one tried"
    reason = meanings(point["commonest_reason"].attrs, point["commonest_reason"].values[None])[0]
    text = f"no layout can be run: most fail by {reason}"
    margin = float(point["least_memory_margin"])
    if math.isfinite(margin):
        text += f"; the nearest needs {-margin:.0%} more memory than a GPU has"
    return text
