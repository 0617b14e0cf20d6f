"""Compare two scenarios: outputs that change, by how much, and because of which term."""

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fleetcube.catalog import KINDS, FileLabel, record
from fleetcube.grid.errors import InputError, nearest
from fleetcube.grid.plan.labels import plain
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.result import Result, Variable, stacked
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec import graphs, values
from fleetcube.grid.spec.axes import PHASE, make_axis
from fleetcube.grid.spec.axis import Axis
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import SIZES
from fleetcube.scenario import dates, hardware, patterns, phases, user_records
from fleetcube.scenario.auto import JOB_INPUTS
from fleetcube.tables.tables import meanings

from .assumptions import LEAST, SHARE, of_ratio
from .content import content_of
from .extrapolation import with_remarks
from .layouts import DEGREES, LAYOUT, WHOLE, best_layouts, inputs_of, text
from .ratio import Ratio, between, side
from .sensitivity import check_levers, cut
from .terms import DECOMPOSED, USUAL, quantities, term_names, terms

MOST_CHANGES = 8  # up to which every combination is evaluated
SMALLEST = 1e-12  # relative to the whole: terms smaller than this everywhere are left out
SIDES = ("a", "b")


@dataclass(frozen=True)
class Change:
    """A scenario entry that differs, and its effect on a quantity.

    `alone` is the quantity of A with only this changed, over that of A; `last` is that of B over
    that of B with only this left as in A; `factor` is the Shapley share, the geometric mean over
    all orders of changing: all factors multiply to B / A. NaN where a scenario cannot be evaluated.
    """

    name: str
    a: Any
    b: Any
    alone: Any
    last: Any
    factor: Any


@dataclass(frozen=True)
class Comparison:
    """Two scenarios, at a point or over common axes.

    `values` has each output over `scenario` (a, b) and the axes, and, for each decomposed quantity,
    `<name>_terms` over `<name>_term` as well. `changes` are the effects on `of` of the entries that
    differ; `inputs` are the numbers behind labels and defaults that differ: name, value in A, value
    in B. `layouts` are those that were searched if a side has none. `ratios` are intervals of B / A
    at a point, where known; `assumed` is what nobody stated and moves B / A. `attributes` are those
    of each side's evaluation.
    """

    values: Result
    of: str
    points: tuple[str, str]
    infeasible: tuple[str, str]
    changes: tuple[Change, ...]
    inputs: tuple[tuple[str, float, float], ...]
    attributes: tuple[Mapping[str, Any], Mapping[str, Any]]
    layouts: tuple[str, str] = ("", "")
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()


def compare(
    a: Evaluation,
    b: Evaluation,
    *,
    of: str | None = None,
    at: Mapping[str, Any] | None = None,
    over: Sequence[str] = (),
) -> Comparison:
    """Compare two sweeps. Raises InputError.

    `of` is the quantity whose change is attributed to inputs: job_time, or the first output of
    both. `at` gives values of inputs, and of axes that only one has; other axes are cut in the
    middle, except those of `over`, which both have with the same points. The terms of step_time
    (s), job_time (s) and job_cost (USD) add up to the whole, as do their differences. At a point,
    a side without a degree of parallelism gets its fastest layout, which is then compared.
    """
    _check_axes(a, b, at or {}, over)
    cuts = []
    for sweep in (a, b):  # at those entries of `at` that it has
        inputs = {*sweep._sizes, *values.known_names(sweep.graph)}
        place = {name: value for name, value in (at or {}).items() if name in inputs}
        cuts.append(cut(sweep, place, over))
    axes = {name: _axis(a, name) for name in over}
    sides = [_with_layout(_flat(sweep, over), over) for sweep, _ in cuts]
    flat, layouts = (sides[0][0], sides[1][0]), (sides[0][1], sides[1][1])
    outputs = a.spec["outputs"], b.spec["outputs"]
    pair = tuple(Evaluation(flat[k], axes, outputs[k]) for k in range(2))
    names = _outputs(pair)
    of = _choose_quantity(of, names, pair)
    names = list(dict.fromkeys([*names, of]))
    both, reasons, (on_a, on_b) = _values(pair, names)
    entries = dict.fromkeys([*flat[0], *flat[1]])
    differing = [n for n in entries if _comparable(flat[0].get(n)) != _comparable(flat[1].get(n))]
    remarks = _shared(pair[0], flat, differing, names)
    changes = _changes(flat, differing, axes, of, _both_finite(both[of]))
    moved = _inputs(pair, names, differing)
    points = cuts[0][1], cuts[1][1]
    attributes = with_remarks({**on_a}, remarks), with_remarks({**on_b}, remarks)
    at_a_point = differing and not over and not any(reasons)
    ratios = between(side(flat[0], names), side(flat[1], names)) if at_a_point else {}
    has_interval = of in ratios and 0 < ratios[of].low < ratios[of].high
    least = SHARE * math.log(ratios[of].high / ratios[of].low) if has_interval else LEAST
    assumed = tuple(of_ratio(*flat, of, least)) if at_a_point and a.graph.application else ()
    return Comparison(
        both, of, points, reasons, changes, moved, attributes, layouts, ratios, assumed
    )


def _both_finite(both: Variable) -> Variable:
    """Where both scenarios have a value."""
    return Variable(both.dims[1:], ~np.isnan(both.values).any(axis=0))


def _shared(
    a: Evaluation, flat: Sequence[Mapping[str, Any]], differing: Sequence[str], names: Sequence[str]
) -> list[str]:
    """Remarks on inputs in use that both state alike for different GPUs or nodes."""
    kinds = [(kind, row[kind]) for row in flat for kind in differing if kind in {*KINDS} & {*row}]
    alike = {n: flat[0][n] for n in DEGREES if flat[0].get(n, 1) != 1 and n not in differing}
    other_layouts = not {*DEGREES} & {*differing} and {*JOB_INPUTS, *SIZES} & {*differing}
    notes = hardware.shared(kinds, {*flat[0]} & {*flat[1]} - {*differing})
    read = a.with_outputs(names)._plan("numpy").structure.used
    lines = [line for name, line in notes.items() if name in read]
    if alike and other_layouts and any(name.endswith(("_time", "_cost")) for name in names):
        lines.append(
            f"both run in {text(alike)}, which may be the best of neither: fleetcube plan compares "
            "each at its best"
        )
    networks = [
        row[hardware.NETWORK]
        for row in flat
        if hardware.NETWORK in row and hardware.NETWORK in differing
    ]
    sheets = [record(hardware.NETWORK, name).values for name in networks]
    every = {name for sheet in sheets for name in sheet}
    unlike = [name for name in every if sheets[0].get(name) != sheets[-1].get(name)]
    if unlike and all(name.endswith("_latency") for name in unlike):
        lines.append(
            f"{' and '.join(networks)} differ in {', '.join(unlike)} alone; state what else does: "
            "oversubscription=1,2 rail_optimized=true,false inter_node_bandwidth=..."
        )
    return lines


def _check_axes(
    a: Evaluation, b: Evaluation, place: Mapping[str, Any], over: Sequence[str]
) -> None:
    choices = [*a._sizes, *b._sizes, *values.known_names(a.graph)]
    for name in place:
        if name not in choices:
            raise InputError(f"{name!r} is not an input or an axis; {nearest(name, choices)}")
    both = [name for name in a._sizes if name in b._sizes]
    for name in over:
        if name not in both:
            raise InputError(
                f"{name!r} is not an axis of both specs; choose from {', '.join(both) or 'none'}"
            )
        if name in place:
            raise InputError(f"{name} is both cut at {place[name]} and kept whole; choose one")
        if content_of(_axis(a, name)) != content_of(_axis(b, name)):
            raise InputError(f"the specs have different points along {name}; give both the same")


def _axis(sweep: Evaluation, name: str) -> Axis:
    return make_axis(sweep.graph, name, sweep.spec["axes"][name])


def _outputs(pair: Sequence[Evaluation]) -> list[str]:
    """Numeric outputs of both specs, and decomposed quantities that both can compute."""
    plans = [sweep._plan("numpy") for sweep in pair]
    shared = [name for name in plans[0].outputs if name in plans[1].outputs and name != REASON]
    numbers = [name for name in shared if values.unit_of(pair[0].graph, name) != "flag"]
    specs = [sweep.spec for sweep in pair]
    more = [n for n in DECOMPOSED if all(is_known(s["scenario"], s["axes"], [n]) for s in specs)]
    return list(dict.fromkeys([*more, *numbers]))


def _choose_quantity(quantity: str | None, names: Sequence[str], pair: Sequence[Evaluation]) -> str:
    if quantity is None:
        if not names:
            raise InputError("the specs share no numeric output; give both the same one")
        return USUAL if USUAL in names else names[0]
    for sweep in pair:
        plan = sweep.with_outputs([quantity])._plan("numpy")
        if values.unit_of(plan.graph, plan.outputs[0]) == "flag":
            raise InputError(f"{quantity} is a flag; name a numeric output")
    return quantity


def _values(
    pair: Sequence[Evaluation], names: Sequence[str]
) -> tuple[Result, tuple[str, str], tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Outputs and terms of both, why or how often each is infeasible, and attributes."""
    by_quantity = {name: term_names(pair, name) for name in DECOMPOSED if name in names}
    sides: list[dict[str, Any]] = []
    attributes: list[Mapping[str, Any]] = []
    reasons: list[Any] = []
    for sweep in pair:
        wanted = [name for name in [*names, *quantities(by_quantity)] if name not in sweep._sizes]
        cube = sweep.with_outputs(list(dict.fromkeys(wanted)))._result(Settings("numpy"))
        attributes.append(cube.attrs)
        side = {name: cube[name] for name in names}
        for name, row in by_quantity.items():
            if row:
                side[f"{name}_terms"] = terms(sweep, cube, name, row)
        sides.append(side)
        reasons.append(cube.coords.get(REASON))
    joined = {
        name: stacked("scenario", [side[name] for side in sides], one.attrs)
        for name, one in sides[0].items()
    }
    shared = {name: cube.coords[name] for name in pair[0]._sizes if name in cube.coords}
    labels: dict[str, Any] = {**dict([*shared.items()][:1]), "scenario": [*SIDES], **shared}
    labels |= {f"{name}_term": row for name, row in by_quantity.items() if row}
    both = _without_zeros(
        Result(joined, labels), [name for name, row in by_quantity.items() if row]
    )
    return *_runnable(both, reasons), (attributes[0], attributes[1])


def _runnable(both: Result, reasons: Sequence[Any]) -> tuple[Result, tuple[str, str]]:
    """Mask points infeasible in either with NaN, and give why or how often each is."""
    causes = (_infeasible(reasons[0]), _infeasible(reasons[1]))
    runs = [r == 0 for r in reasons if r is not None and r.ndim]
    if not runs:
        return both, causes
    good = functools.reduce(operator.and_, runs)
    if not good.any():
        raise InputError(
            f"no point is feasible in both: infeasible are {causes[0] or 'none'} of A and "
            f"{causes[1] or 'none'} of B; choose other axes, or one point"
        )
    return both.assign({name: row.where(good) for name, row in both.data_vars.items()}), causes


def _infeasible(reason: Variable | None) -> str:
    """Why a point is infeasible, or how many points of a grid are."""
    if reason is None:
        return ""
    if reason.ndim:
        count = int((reason != 0).sum())
        return f"{count:,} of {reason.size:,} layouts" if count else ""
    return meanings(reason.attrs, np.atleast_1d(reason))[0] if reason else ""


def _without_zeros(both: Result, decomposed: Sequence[str]) -> Result:
    for quantity in decomposed:
        dim = f"{quantity}_term"
        sizes = abs(both[f"{quantity}_terms"]) > SMALLEST * abs(both[quantity])
        others = tuple(k for k, other in enumerate(sizes.dims) if other != dim)
        both = both.isel({dim: np.flatnonzero(sizes.values.any(axis=others))})
    return both


def _flat(sweep: Evaluation, over: Sequence[str]) -> dict[str, Any]:
    """A scenario's entries at a point, including its axes' values; numbers in base units."""
    spec: Any = sweep.spec
    omitted = (dates.NAME, user_records.NAME)  # own labels carry their records
    stated = {name: value for name, value in spec["scenario"].items() if name not in omitted}
    entries = {name: _entry(sweep.graph, name, value) for name, value in stated.items()}
    for name in spec["axes"]:
        if name in over:
            for key in _axis(sweep, name).inputs:
                entries.pop(key, None)
            continue
        axis = _axis(sweep, name)
        numbers = {key: float(row[0]) for key, row in axis.numbers.items()}
        entries |= {key: value for key, value in numbers.items() if not math.isnan(value)}
        entries |= {key: row[0] for key, row in {**axis.options, **axis.records}.items()}
    return entries


def _with_layout(entries: dict[str, Any], over: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Entries without a layout get the fastest one, with its description."""
    stated = over or entries.keys() & {*DEGREES, patterns.LAYOUT} or phases.names(entries)
    if stated or not is_known(entries, {}, [USUAL]):
        return entries, ""
    try:
        point = Evaluation(entries, {}, [USUAL])
        best = best_layouts(point, USUAL, "min", LAYOUT, (), (), 1, Settings())
    except InputError:  # no layout depends on the scenario, or too many do
        return entries, ""
    layout = str(best[WHOLE].item())
    return ({**entries, **inputs_of(best)}, layout) if layout else (entries, "")


def _entry(graph: Graph, name: str, value: Any) -> Any:
    words = {*graph.roles.labels, *graph.roles.texts, PHASE, graphs.NAME}
    if isinstance(value, Mapping) or name in words:
        return value
    is_option = values.is_option(graph, name)
    return patterns.choice(name, value) if is_option else values.number(graph, name, value)


def _comparable(value: Any) -> Any:
    """An entry, and the record of an own label: the same label may mean another in each."""
    if not isinstance(value, FileLabel):
        return value
    return value, value.record.digest, [*map(_comparable, value.record.values.values())]


def _changes(
    flat: tuple[dict[str, Any], dict[str, Any]],
    names: Sequence[str],
    axes: Mapping[str, Any],
    quantity: str,
    good: Variable,
) -> tuple[Change, ...]:
    """The effect on a quantity of each entry that differs, where both scenarios are `good`."""
    count = len(names)
    bits, full = [1 << k for k in range(count)], (1 << count) - 1
    few = {0, full, *bits, *(full ^ bit for bit in bits)}  # none, each alone, all but each, all
    masks = range(full + 1) if count <= MOST_CHANGES else sorted(few)

    def value(mask: int) -> Any:
        """The quantity of A with some entries as in B; NaN if that is not a valid scenario."""
        changed = {name for name, bit in zip(names, bits, strict=True) if mask & bit}
        entries = {n: entry for n, entry in flat[0].items() if n not in changed}
        entries |= {n: entry for n, entry in flat[1].items() if n in changed}
        try:
            cube = Evaluation(entries, axes, [quantity])._result(Settings("numpy"))
        except InputError:
            return np.nan
        return cube[quantity]

    with np.errstate(all="ignore"):
        # `good` becomes 1, or NaN where it is false
        by_mask = {mask: value(mask) * good.where(good) for mask in masks}
        changes = []
        for bit, name in zip(bits, names, strict=True):
            alone, last = by_mask[bit] / by_mask[0], by_mask[full] / by_mask[full ^ bit]
            factor = _shapley(by_mask, bit, count) if count <= MOST_CHANGES else np.nan
            a, b = (_plain(side.get(name)) for side in flat)
            if a == b:  # one label, of two files
                homes = (getattr(side[name], "record", None) for side in flat)
                a, b = (f"{a} ({home.origin if home else 'fleetcube'})" for home in homes)
            changes.append(Change(name, a, b, alone, last, factor))
    return tuple(changes)


def _shapley(by_mask: Mapping[int, Any], bit: int, count: int) -> Any:
    """The factor by which a change multiplies a quantity, averaged over all orders of changing."""
    logs = 0.0
    for mask, before in by_mask.items():
        if not mask & bit:
            # Orders in which exactly the changes of this mask come first
            size = mask.bit_count()
            orders = math.factorial(size) * math.factorial(count - size - 1)
            logs = logs + orders / math.factorial(count) * np.log(by_mask[mask | bit] / before)
    return np.exp(logs)


def _plain(value: Any) -> Any:
    """An entry of a scenario in JSON's types; None if the scenario lacks it."""
    return value if value is None or isinstance(value, bool | float | str) else plain(value)


def _inputs(
    pair: Sequence[Evaluation], outputs: Sequence[str], stated: Sequence[str]
) -> tuple[tuple[str, float, float], ...]:
    """Numbers in use that differ because labels or defaults, not scenarios, set them."""
    used: dict[str, None] = {}
    plans: list[Plan] = [sweep.with_outputs(outputs)._plan("numpy") for sweep in pair]
    for plan in plans:
        for name in outputs:
            used |= dict.fromkeys(check_levers(plan, name, None))
    differing = []
    for name in used:
        sides = [case.leaves.get(name) for case in (plan.cases[0] for plan in plans)]
        numbers = [math.nan if leaf is None else float(leaf.flat[0]) for leaf in sides]
        single = all(leaf is None or leaf.size == 1 for leaf in sides)
        if name not in stated and single and numbers[0] != numbers[1]:
            differing.append((name, numbers[0], numbers[1]))
    return tuple(differing)
