"""How well the ratio of two answers is known, of a pair or along the axes of a sweep.

Two predictions from one posterior share most of what is wrong with them: coefficients move both
alike, and so does the factor of a job. What is left is how unlike they depend on coefficients, and
the noise of each. Where both run one program, and only what it runs on differs, it is one noise: it
scales the difference, and does not decide which is faster. Such pairs are drawn, as hidden traffic
makes their difference anything but linear.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube.catalog import AUTO, FileLabel, pooled, record
from fleetcube.catalog.entry import CLUSTER
from fleetcube.grid.errors import InputError, check_texts, nearest
from fleetcube.grid.plan import memory
from fleetcube.grid.result import Variable, along
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.kernels.calculus.derivatives import name_of
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import CABLING, ERRORS, OF_JOB, RATIOS_OF_PARTS
from fleetcube.scenario import auto, phases
from fleetcube.scenario.along_axes import values_along
from fleetcube.scenario.hardware import EXPONENT, NETWORK, WIDER
from fleetcube.scenario.reading import stated_inputs
from fleetcube.tables.selectors import point_of, position
from fleetcube.tables.tables import BELOW

from .gradient import reached
from .interval import SIDES, end_of
from .sensitivity import BOUGHT
from .uncertainty import DRAW, asked_of

((_STEP, _FACTOR),) = OF_JOB.items()
# Stated, they say where in its interval the step is, or how wide that is
_STATED = {_FACTOR, *ERRORS[_STEP]}
_TELLING = auto.DECIDING | auto.COMPUTE | _STATED  # of jobs, and of what sets their coefficients
_EQUAL = 1e-12  # relative difference that is rounding
_MOST = math.log(100)  # of half an interval that says something
_ERFC = np.vectorize(math.erfc, otypes=[float])
_DRAWS = 512  # of the coefficients, half of them opposite to the others
_MOST_DRAWN = 1 << 22  # values; beyond, all differences are taken as linear


@dataclass(frozen=True)
class Ratio:
    """Ends of the 90 % interval of B / A, and the probability that B is below A; or arrays."""

    low: Any
    high: Any
    below: Any


@dataclass(frozen=True)
class Side:
    """Outputs of a scenario, and derivatives of their logarithms: by coefficients, [coefficient],
    and by the logarithm of the step's factor; over axes, where it has some. `job` is what the
    factor belongs to; `is_measured` whether it is known; `unmeasured` are groups that no step is
    of, and the deviation that each adds to its logarithm. `step` is the time of one, `program` what
    runs it besides the job, and `place` tells programs along axes apart. `drawn` gives outputs at
    draws of the coefficients, [draw] first, the same for all sides of a cell; none of many points.
    """

    source: str
    cell: pooled.Cell
    job: Any
    is_measured: bool
    unmeasured: Mapping[tuple[str, str], Array]
    noise: float
    program: Mapping[str, Any]
    place: Array
    drawn: Callable[[], Mapping[str, Array]]
    step: Array
    values: Mapping[str, Array]
    slopes: Mapping[str, Array]
    by_factor: Mapping[str, Array]


def side(scenario: Mapping[str, Any], names: Sequence[str], axes: Any = None) -> Side | None:
    """A scenario, for ratios of its outputs to those of others; None where they are not known. Its
    axes leave job, software, GPU, layers and precision as they are."""
    try:
        return _side(scenario, names, axes or {})
    except InputError:  # a derivative is not known
        return None


def between(
    first: Side | None, second: Side | None, region: tuple[slice, ...] = ()
) -> dict[str, Ratio]:
    """Ratios of the outputs of the second scenario to those of the first, or of a region of its
    axes, where both have auto's coefficients, or those of one file of own steps, and the output
    depends on them; NaN at other points. None of shares of a step, as the posterior does not know
    which part is wrong."""
    if first is None or second is None or first.source != second.source:
        return {}
    posterior = pooled.posterior()
    roots = [root for _, root in posterior.together([first.cell, second.cell])]
    if first.source != AUTO:
        roots = [_root(first.source)] * 2
    groups = {group: width[region] for group, width in first.unmeasured.items()}, second.unmeasured
    step_ratio = abs(np.log(second.step / first.step[region]))
    one_program = (first.place[region] == second.place) & (first.program == second.program)
    one_program &= first.job == second.job
    same = one_program | ((step_ratio == 0) & (first.job == second.job))  # one noise
    drawn = [each.drawn() if one_program.any() else {} for each in (first, second)]
    ratios = {}
    for name in first.values:
        values = first.values[name][region], second.values[name]
        factors = first.by_factor[name][region], second.by_factor[name]
        moved = np.tensordot(roots[0].T, first.slopes[name][:, *region], 1)
        distance = np.linalg.norm(moved - np.tensordot(roots[1].T, second.slopes[name], 1), axis=0)
        unknown = factors[0] * (not first.is_measured), factors[1] * (not second.is_measured)
        of_jobs = abs(np.subtract(*unknown)) if first.job == second.job else np.hypot(*unknown)
        deviation = np.hypot(distance, of_jobs * posterior.job_spread)
        for group in {**groups[0], **groups[1]}:  # what both are of cancels
            spreads = (
                widths.get(group, 0.0) * factor
                for widths, factor in zip(groups, unknown, strict=True)
            )
            deviation = np.hypot(deviation, np.subtract(*spreads))
        noise = np.hypot(factors[0] * first.noise, factors[1] * second.noise)
        shared = np.hypot(np.subtract(*factors), factors[1] * step_ratio) * first.noise
        noise = np.where(same, np.minimum(shared, noise), noise) / math.sqrt(2)
        half = np.hypot(pooled.NORMAL * deviation, pooled.STUDENTS * noise)
        usable = ((half > 0) | same) & (half < _MOST)
        for value, factor in zip(values, factors, strict=True):
            # without a factor, it is not of a training step: the posterior knows nothing of it
            usable &= (value > 0) & (value < math.inf) & (factor != 0)
        if usable.any():
            half = np.where(usable, half, math.nan)
            ratio = np.where(usable, values[1], math.nan) / np.where(usable, values[0], 1.0)
            distance = np.where(abs(ratio - 1) < _EQUAL, 0.0, np.log(ratio))
            with np.errstate(divide="ignore", invalid="ignore"):  # certain, or NaN of equal values
                below = _ERFC(distance * pooled.NORMAL / half / math.sqrt(2)) / 2
            ends = np.log(ratio) + np.multiply.outer((-1, 1), half)
            if name in drawn[0]:
                logs = np.log(drawn[1][name] / drawn[0][name][:, *region])
                is_drawn = one_program & usable & (step_ratio > 0)
                drawn_ends = _ends_of_draws(logs, np.log(ratio), pooled.STUDENTS * noise)
                ends = np.where(is_drawn, drawn_ends, ends)
                below = np.where(is_drawn, (logs < 0).mean(axis=0), below)[()]
            low, high = np.exp(ends)
            ratios[name] = Ratio(low, high, below)
    return ratios


def _ends_of_draws(logs: Array, middle: Array, noise: Array) -> Array:
    """Ends of an interval around its middle, from draws and half the interval of a noise."""
    ranked = np.sort(logs, axis=0)  # np.quantile loads numpy.ma
    first = round(0.05 * (len(ranked) - 1))
    low, high = ranked[first] - middle, ranked[-1 - first] - middle
    sides = -np.hypot(np.minimum(low, 0), noise), np.hypot(np.maximum(high, 0), noise)
    return np.asarray(middle + np.stack(sides))


def base_of(sweep: Evaluation, relative_to: Any) -> dict[str, int]:
    """Where on its axes the base of ratios is. Of an axis without a value, its first point."""
    if not isinstance(relative_to, Mapping):
        texts = check_texts("relative_to", relative_to)
        relative_to = dict(text.partition("=")[::2] for text in texts)
    axes = make_axes(sweep.graph, sweep.spec["axes"])
    for name in relative_to:
        if name not in axes:
            hint = nearest(str(name), axes, f"choose from {', '.join(axes) or 'none'}")
            raise InputError(f"relative_to: {name!r} is not an axis; {hint}")
    return {name: position(sweep.graph, axes[name], value) for name, value in relative_to.items()}


def relative(sweep: Evaluation, of: Any, values: Any, base: Mapping[str, int]) -> dict[str, Any]:
    """Ratios of outputs to those at a base, which lies at one point of some axes and moves along
    the others, with their intervals, and the probability that each output is below that there."""
    names = [n for n in asked_of(sweep._plan("numpy"), of) if {*base} & {*values[n].dims}]
    over_grid = _over_grid(sweep, names, base)
    axes = make_axes(sweep.graph, sweep.spec["axes"])
    base_point = point_of(
        sweep.graph, {name: axes[name].cut(np.array([k])) for name, k in base.items()}
    )
    ratios: dict[str, Any] = {}
    for name in names:
        numerator, label = values[name], f"{name}_ratio"
        ratio = numerator / numerator.isel(base)
        about = {
            "units": "1",
            "long_name": f"{numerator.attrs['long_name']}, over that at {base_point}",
        }
        ratios[label] = ratio = Variable(numerator.dims, ratio.values, about)
        if name in over_grid:
            rows = over_grid[name].isel({dim: 0 for dim in axes if dim not in numerator.dims})
            turned = along(rows, ("", *numerator.dims))
            *pair, below = (Variable(numerator.dims, part) for part in turned)
            for k, end in enumerate(SIDES):
                ratios[f"{label}_{end}"] = end_of(label, ratio, pair, k, end)
            about = {
                "units": "1",
                "long_name": f"probability that it is below that at {base_point}",
            }
            ratios[f"{name}{BELOW}"] = numerator.dims, below.where(ratio.notnull()).values, about
    return ratios


def _over_grid(sweep: Evaluation, names: Sequence[str], base: Mapping[str, int]) -> dict[str, Any]:
    """Ends and probability of the ratio of each point of a sweep to its base; NaN at the base. Axes
    along which jobs, or what sets their coefficients, may differ are taken point by point."""
    axes = make_axes(sweep.graph, sweep.spec["axes"])
    telling_axes = [axis for axis in axes.values() if not _TELLING.isdisjoint(axis.inputs)]
    rest = {name: axis for name, axis in axes.items() if _TELLING.isdisjoint(axis.inputs)}
    sizes = {axis.name: axis.size for axis in (*telling_axes, *rest.values())}
    memory.check(8 * len(pooled.posterior().coefficients) * len(names) * math.prod(sizes.values()))
    region = tuple(slice(base[n], base[n] + 1) if n in base else slice(None) for n in sizes)
    sides = {}
    for place in np.ndindex(*(axis.size for axis in telling_axes)):
        scenario = {**sweep.spec["scenario"], **values_along(telling_axes, place)}
        sides[place] = side(scenario, names, rest)
    ratios: dict[str, Array] = {}
    for place, compared in sides.items():
        base_side = sides[
            tuple(base.get(axis.name, k) for axis, k in zip(telling_axes, place, strict=True))
        ]
        for name, ratio in between(base_side, compared, region[len(telling_axes) :]).items():
            rows = ratios.setdefault(name, np.full((3, *sizes.values()), math.nan))
            rows[:, *place] = ratio.low, ratio.high, ratio.below
    for rows in ratios.values():
        rows[:, *region] = math.nan
    return {name: Variable(["", *sizes], rows) for name, rows in ratios.items()}


def _job(stated: Mapping[str, Any]) -> dict[str, Any]:
    """What the factor of a job belongs to: the model's shape, and the cluster by what its records
    say but for how it is cabled, so that a label alone tells no two jobs apart."""
    job = auto.job_of(stated)
    for kind in (kind for kind in CLUSTER if kind in job):
        label = stated[kind] if isinstance(stated[kind], FileLabel) else job[kind]
        sheet = record(kind, label).values
        job[kind] = {name: value for name, value in sheet.items() if name not in CABLING}
    return job


def _is_of_program(name: str) -> bool:
    """Whether an input is what runs on a cluster, and on how many GPUs, rather than the cluster."""
    row = INPUTS.get(without_phase(name))
    if row is None:
        return False
    return row.changed_by not in BOUGHT or (row.changed_by == "hardware" and row.kind == "count")


def _root(label: str) -> Array:
    """A root of the covariance of a file's coefficients."""
    entry = record("calibration", label)
    deviations = np.array([*entry.standard_errors.values()])
    below = np.zeros((len(deviations), len(deviations)))
    for k, row in enumerate(entry.correlations):
        below[k, :k] = row
    sizes, axes = np.linalg.eigh(below + below.T + np.eye(len(deviations)))
    return np.asarray(deviations[:, None] * axes * np.sqrt(np.maximum(sizes, 0)))


def _links(label: Any, cell: Any) -> tuple[list[tuple[str, int, float]], int, float]:
    """Inputs with their coefficients' places and derivatives, the number of these, and noise."""
    if label != AUTO:
        entry = record("calibration", label)
        errors = entry.standard_errors
        return [(name, place, 1.0) for place, name in enumerate(errors)], len(errors), entry.noise
    posterior = pooled.posterior()
    means, _ = posterior.coefficients_of(cell)
    settings = posterior.settings(cell)
    links = [(one.input, one.place, float(one.value(means[one.place])[1])) for one in settings]
    return links, len(means), posterior.noise(cell.software)


def _places(axes: Mapping[str, Axis]) -> Array:
    """Numbers that tell programs apart over axes."""
    sizes = [a.size if any(map(_is_of_program, a.inputs)) else 1 for a in axes.values()]
    place = np.arange(math.prod(sizes)).reshape(sizes)
    return np.broadcast_to(place, [axis.size for axis in axes.values()])


def _over(axes: Mapping[str, Axis], output: Any) -> Array:
    return np.broadcast_to(along(output, axes), [axis.size for axis in axes.values()])


def _drawn(
    cell: pooled.Cell, scenario: Mapping[str, Any], axes: Mapping[str, Axis], names: Sequence[str]
) -> Mapping[str, Array]:
    """Outputs at draws of the coefficients that a scenario does not state, [draw] first."""
    posterior = pooled.posterior()
    means, root = posterior.coefficients_of(cell)
    half = np.random.default_rng(0).standard_normal((root.shape[1], _DRAWS // 2))
    x = means[:, None] + np.einsum("ke,ed->kd", root, np.hstack([half, -half]))
    stated = {*scenario, *(name for axis in axes.values() for name in axis.inputs)}
    settings = (one for one in posterior.settings(cell) if one.input not in stated)
    columns = {one.input: one.value(x[one.place])[0] for one in settings}
    draws = {DRAW: Axis(DRAW, np.arange(_DRAWS), columns)}
    values = Evaluation(scenario, {**axes, **draws}, names)._result(Settings("numpy"))
    return {name: _over({**draws, **axes}, values[name]) for name in names}


def _unmeasured(
    cell: pooled.Cell,
    scenario: Mapping[str, Any],
    fabric: str,
    power: float,
    axes: Mapping[str, Axis],
) -> Mapping[tuple[str, str], Array]:
    """Groups that no fitted step is of, such a fabric among them where jobs need it, and deviations
    over axes."""
    posterior = pooled.posterior()
    sizes = [axis.size for axis in axes.values()]
    groups = {group: np.full(sizes, width) for group, width in posterior.unmeasured(cell).items()}
    if power == 1:
        return groups
    given = {**scenario, auto.FACTOR: 2.0, EXPONENT: power}
    needs_it = Evaluation(given, axes, [WIDER])._result(Settings("numpy"))[WIDER] > 2
    width = math.log(posterior.values(cell)[auto.FACTOR]) / pooled.NORMAL
    further = _over(axes, needs_it) * (width * math.sqrt(power * power - 1))
    return {**groups, (NETWORK, fabric): further}


def _side(
    scenario: Mapping[str, Any], names: Sequence[str], axes: Mapping[str, Axis]
) -> Side | None:
    """The derivatives at a scenario; None if its coefficients are of another source."""
    label = scenario.get("calibration", AUTO)
    entry = record("calibration", label)
    if (auto.COMPUTE | _STATED) & {*scenario} - {"calibration"} or phases.names(scenario):
        return None
    if label != AUTO and not entry.correlations:
        return None
    inputs_stated = stated_inputs(scenario)
    cell = auto.posterior_cell(inputs_stated)
    links, count, noise = _links(label, cell)
    stated = {*scenario, *(name for axis in axes.values() for name in axis.inputs)}
    links = [link for link in links if link[0] not in stated]
    inputs = [*(name for name, *_ in links), _FACTOR]
    measured = auto.measured_job(label, inputs_stated)
    factor = measured[_FACTOR] if measured else 1.0
    given = {_FACTOR: factor, **scenario}
    plan = Evaluation(given, axes, names)._plan("numpy")
    used = {one.kind: one.label for one in plan.problem.records}  # nodes' own network, too
    network = {name: label for name, label in used.items() if name == NETWORK}
    felt = {name: reached(plan, [name]) for name in names}
    derivatives = {
        (name, wrt): name_of("d", name, wrt)
        for name in names
        if felt[name].isdisjoint(RATIOS_OF_PARTS)
        for wrt in felt[name].intersection(inputs)
    }
    sweep = Evaluation(given, axes, [*dict.fromkeys([*names, _STEP, *derivatives.values()])])
    cube = sweep._result(Settings("numpy"))
    sizes = [axis.size for axis in axes.values()]

    def slope(name: str, wrt: str) -> Any:
        derivative = derivatives.get((name, wrt))
        return _over(axes, cube[derivative] / cube[name]) if derivative else np.zeros(sizes)

    slopes = {}
    for name in names:
        slopes[name] = np.zeros((count, *sizes))
        for wrt, place, link in links:
            slopes[name][place] = slope(name, wrt) * link
    power = plan.problem.constants.get(EXPONENT, 1.0)
    drawn = functools.cache(functools.partial(_drawn, cell, given, axes, names))
    is_auto = label == AUTO and _DRAWS * math.prod(sizes) * len(names) <= _MOST_DRAWN
    return Side(
        label,
        cell,
        measured or (_job({**network, **inputs_stated}), cell.name),
        bool(measured),
        _unmeasured(cell, given, network.get(NETWORK, ""), power, axes),
        noise,
        {name: value for name, value in inputs_stated.items() if _is_of_program(name)},
        _places(axes),
        drawn if is_auto else dict,
        _over(axes, cube[_STEP]),
        {name: _over(axes, cube[name]) for name in names},
        slopes,
        {name: slope(name, _FACTOR) * given[_FACTOR] for name in names},
    )
