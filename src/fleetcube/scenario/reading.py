"""Read a scenario of the physics: its phases, texts and labels, as the engine's problem."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fleetcube.catalog import AUTO, NONE, record
from fleetcube.grid.errors import InputError
from fleetcube.grid.spec import graphs, values
from fleetcube.grid.spec.axes import is_coupled, make_axes
from fleetcube.grid.spec.axis import Axis, phase_keys
from fleetcube.grid.spec.distributions import Distribution, distribution
from fleetcube.grid.spec.problem import Problem, Stated, owners, stated_values
from fleetcube.kernels.calculus.phased_formulas import in_phase
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.kernels.physics.roles import ERRORS, GROWING, MEASURED, SHARES
from fleetcube.scenario import auto, dates, framework, hardware, patterns, phases, user_records
from fleetcube.scenario.counts import check_counts
from fleetcube.scenario.policies import conversions
from fleetcube.scenario.precedence import Merged, Request, merged, voided_totals
from fleetcube.scenario.token_batches import in_sequences


def resolve(
    graph: Graph, scenario: Mapping[str, Any], axes: Mapping[str, Any], free: Collection[str]
) -> Problem:
    """The problem of a scenario of the physics, whose labels set inputs. Raises InputError.
    Explicit values precede labels, calibration gpu, and gpu node."""
    dates.start_of(scenario)
    scenario, axes = user_records.add_user_records(scenario, axes)
    scenario, axes, added_up = phases.with_phases(scenario, axes, free)
    scenario, swept, batches = in_sequences(scenario, [*make_axes(graph, axes).values()], free)
    owner = owners(swept, added_up)
    models = [label for axis in swept for label in axis.records.get("model", ())]
    stated = _stated(graph, patterns.spelled_out(scenario, owner, models), owner)
    constants, options, labels, distributions = stated
    explicit = frozenset({*constants, *options, *owner})
    _check_measured(labels, swept, explicit)
    by_default = auto.is_default(swept, labels, explicit.union(free))
    if by_default:
        labels["calibration"] = AUTO
    idle = _idle(labels, swept)
    swept, cards, notes = hardware.node_networks(swept, labels, explicit)
    labels |= cards
    request = Request(graph, tuple(swept), labels, constants, options, explicit, free)
    torus = hardware.in_slices(swept, labels, constants, explicit, free)
    notes |= voided_totals(request) | dict(torus.notes) | conversions(scenario) | batches
    new = hardware.new_networks(swept, labels, explicit, options)
    resolved = merged(request, {**torus.rows, **new.rows})
    counted = hardware.whole_units([*resolved.axes.values()], resolved.constants, free, new.notes)
    job = resolved.axes[phases.NAME] if added_up else None
    tables, phased = phases.split_by_phase(resolved.tables, job)
    _check_sought(job, free)
    problem = Problem(
        graph,
        constants={
            **resolved.constants,
            **{name: row.item() for name, (_, row) in counted.rows.items()},
        },
        options=resolved.options,
        axes=tuple(axis for axis in resolved.axes.values() if axis is not job),
        records=tuple(resolved.records.values()),
        stated=frozenset({*constants, *options}) | idle,
        distributions=distributions | _uncertain(request),
        tables=tables,
        phases=job,
        phased=phased,
        remarks=tuple(dict.fromkeys(resolved.remarks)),
        inferred=resolved.inferred,
        notes={**notes, **_notes(resolved, counted)},
        by_value=hardware.COUNTED if torus.rows or counted.rows else frozenset(),
        per_decade=resolved.per_decade,
        implied={"calibration": AUTO} if by_default else {},
    )
    _check(problem, explicit)
    check_counts(problem, free)
    return problem


def stated_inputs(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario's own labels, options, and numbers in base units."""
    shared, *_ = in_sequences(phases.split_phases(scenario)[0], ())
    shared = patterns.spelled_out(shared, {})
    stated = _stated(graphs.graph_of(scenario), shared)
    return {**stated.labels, **stated.constants, **stated.options}


def _stated(graph: Graph, scenario: Mapping[str, Any], swept: Collection[str] = ()) -> Stated:
    """The values of a scenario that are inputs of formulas."""
    others = (dates.NAME, user_records.NAME)
    return stated_values(graph, {n: v for n, v in scenario.items() if n not in others}, swept)


def _idle(labels: Mapping[str, str], axes: Sequence[Axis]) -> frozenset[str]:
    """Labels that count as stated, since no calibration reads them."""
    named = [labels["calibration"]] if "calibration" in labels else []
    named += [label for axis in axes for label in axis.records.get("calibration", ())]
    asks = any(label == AUTO or "jobs" in record("calibration", label).values for label in named)
    return frozenset() if asks else frozenset(labels.keys() & {auto.SOFTWARE})


def _uncertain(request: Request) -> dict[str, Distribution]:
    """Distributions in the records of labels."""
    return {
        name: distribution(request.graph, name, value)
        for kind, label in request.labels.items()
        for name, value in record(kind, label).values.items()
        if isinstance(value, Mapping)
        and name not in request.explicit
        and values.is_known(request.graph, name)
    }


def _notes(resolved: Merged, counted: hardware.Derived) -> dict[str, str]:
    """Remarks by input, shown if the input is read."""
    request, axes = resolved.request, [*resolved.axes.values()]
    notes: dict[str, str] = {}
    if hardware.CHIPS in request.free or hardware.CHIPS in counted.notes:
        notes |= hardware.trays(axes, request.labels)
    notes |= hardware.nodes(axes, resolved.constants, request.explicit)
    kinds = ((kind, label) for a in axes for kind, row in a.records.items() for label in row)
    numbers = {name: row.item() for name, (_, row) in counted.rows.items()}
    single = {**resolved.constants, **numbers, **resolved.options}
    return {
        **notes,
        **counted.notes,
        **hardware.shared(kinds, {*request.constants, *request.options}),
        **framework.notes(resolved.records.values(), single, axes),
    }


def _check_measured(
    labels: Mapping[str, str], axes: Sequence[Axis], explicit: Collection[str]
) -> None:
    """Refuse a rate of all causes together with that of one."""
    given = {*labels, *explicit}.union(*(axis.records for axis in axes))
    for whole, parts in MEASURED.items():
        whole_labels = {kind for kind in labels if whole in record(kind, labels[kind]).values}
        if whole in given and (counted := sorted(parts & given - whole_labels)):
            raise InputError(
                f"{whole} is of all causes, and {counted[0]} would count some again; keep one"
            )


def _check_sought(job: Axis | None, free: Collection[str]) -> None:
    if job and (sought := sorted({*job.inputs}.intersection(free))):
        raise InputError(
            f"{sought[0]} is set by phases of the job; ask for it in one, as "
            f"{in_phase(sought[0], phase_keys(job)[0])}"
        )


def _check(problem: Problem, explicit: Collection[str]) -> None:
    """Refuse values that no job has together."""
    for upper, lower in GROWING.items():
        least, given = problem.constants.get(lower, 0.0), problem.constants.get(upper, 0.0)
        if 0 < given < least:
            raise InputError(
                f"{upper} = {given:g} must be at least {lower} = {least:g}, or 0 for no such tier; "
                "give a larger value"
            )
    for shares in SHARES:
        if (most := problem.most_together(shares)) > 1 + 1e-9:
            raise InputError(
                f"{', '.join(sorted(shares))} are up to {most:g} together, and shares of one whole "
                "are 1 at most; lower one, or put those that vary together on one axis"
            )
    for error, factor in ERRORS.values():
        if error in explicit and not problem.may_exceed(factor):
            raise InputError(
                f"{error} is given, and {factor} is 1: no interval is known; name a calibration "
                f"that sets {factor}, or give it above 1"
            )


def result_scenario(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario of a result's spec; one older than inferred calibrations gets "none"."""
    scenario, axes = spec["scenario"], spec["axes"]
    stated = {*scenario, *axes, *phases.stated_names(scenario)}.union(
        *(entry for entry in axes.values() if is_coupled(entry))
    )
    return dict(scenario) if "calibration" in stated else {**scenario, "calibration": NONE}
