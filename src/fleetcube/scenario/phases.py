"""Phases of a job, as an axis of the inputs that change; its points are added up."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError, nearest, shown
from fleetcube.grid.spec import graphs, values
from fleetcube.grid.spec.axes import PHASE, are_tables, make_axis
from fleetcube.grid.spec.axis import Axis, phase_keys
from fleetcube.kernels.calculus.phased_formulas import in_phase, key_of, phase_of, without_phase
from fleetcube.kernels.declare import OFF
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.kernels.physics.roles import BEFORE, IN_STEPS, PHASED, REPAIR, SUMS
from fleetcube.scenario import dates, patterns, policies

NAME = PHASE
EARLIER = BEFORE[0]
EVERY = "all"  # selects every phase
MOST = 64  # phases of a job, all of whose formulas are evaluated together
ABOUT = "parts of the job, one after the other; each states what it does not share with others"


def split_phases(scenario: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """A scenario without phases, and the phases, including its entries for one (`n_gpus__main`)."""
    shared = dict(scenario)
    tables = shared.pop(NAME, None)
    entries = {name: shared.pop(name) for name in scenario if _is_of_phase(name)}
    if not entries:
        return shared, tables
    if not are_tables(tables) or not all(isinstance(table, Mapping) for table in tables):
        raise InputError(f"{next(iter(entries))} is of a phase, and there is none; add [[phase]]")
    copies = [dict(table) for table in tables]
    place = {key_of(str(t.get("name", f"phase {k}")), k - 1): t for k, t in enumerate(copies, 1)}
    for name, value in entries.items():
        place[_phase_key(name, place)][without_phase(name)] = value
    return shared, copies


def _is_of_phase(name: Any) -> bool:
    return isinstance(name, str) and bool(phase_of(name))


def _phase_key(name: str, keys: Collection[str]) -> str:
    if (key := phase_of(name)) not in keys:
        plain = without_phase(name)
        one = [in_phase(plain, key) for key in keys]
        raise InputError(f"{name} is of no phase; {nearest(name, one, 'its phases are others')}")
    return key


def with_phases(
    scenario: Mapping[str, Any], axes: Mapping[str, Any], free: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """A scenario without phases, axes including one of phases, and whether phases are added up. If
    an axis `phase` names some, they are a dimension instead. Raises InputError."""
    shared, tables = split_phases(scenario)
    graph = graphs.graph_of(scenario)
    swept = [name for key, spec in axes.items() if key != NAME for name in _inputs(key, spec)]
    sought = list(filter(_is_of_phase, [*free, *swept]))
    if sought and (tables is None or NAME in axes):
        raise InputError(
            f"{sought[0]} is of a phase of a whole job; ask for {without_phase(sought[0])} where "
            "there is one phase"
        )
    each = make_axis(graph, NAME, axes[NAME]) if NAME in axes else None
    if each and each.inputs:
        if tables is not None:
            raise InputError("phase is a table of the scenario and of axes; keep one")
        return shared, dict(axes), False
    if tables is None:
        if each:
            raise InputError("axis 'phase' names phases, and the scenario has none; add [[phase]]")
        return shared, dict(axes), False
    phases = _checked(graph, shared, tables)
    by_key = dict(zip([key_of(name, k) for k, name in enumerate(phases)], phases, strict=True))
    for name in sought:  # a value that replaces those of the axis, or values tried
        if (plain := without_phase(name)) == PHASED and PHASED in shared:
            raise InputError(f"{name} varies, and [scenario] sets {PHASED}; leave it out")
        phases[by_key[_phase_key(name, by_key)]].setdefault(plain, 1.0)
    axis = _axis(graph, shared, phases)
    if each is None:
        if summed := sorted(SUMS.intersection({*shared, *axes}) - {PHASED}):
            raise InputError(f"{summed[0]} adds up over phases; give it in each of them")
        return shared, {NAME: axis, **axes}, True
    labels = axis.labels.tolist()
    chosen = np.array([labels.index(checked(name, labels)) for name in each.labels.tolist()])
    return shared, {**axes, NAME: with_tokens_before(graph, axis, shared).cut(chosen)}, False


def single_phase(scenario: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The scenario of a single phase. Raises InputError."""
    shared, tables = split_phases(scenario)
    graph = graphs.graph_of(scenario)
    phases = _checked(graph, shared, tables)
    k = list(phases).index(checked(name, list(phases)))
    earlier = [entries[PHASED] for entries in list(phases.values())[:k]]
    before = values.number(graph, EARLIER, shared.get(EARLIER, 0))
    before += sum(values.number(graph, PHASED, entries) for entries in earlier)
    if k:  # it starts where earlier phases end
        shared = {key: value for key, value in shared.items() if key != dates.NAME}
    return {**shared, **phases[name], **({EARLIER: before} if k else {})}


def with_tokens_before(graph: Graph, axis: Axis, shared: Mapping[str, Any]) -> Axis:
    """An axis of phases with the tokens trained before each."""
    tokens = axis.numbers[PHASED]
    before = values.number(graph, EARLIER, shared.get(EARLIER, 0)) + np.cumsum(tokens) - tokens
    return replace(axis, numbers={**axis.numbers, EARLIER: before})


def names(scenario: Mapping[str, Any]) -> list[str]:
    """The names of a scenario's phases, in order; empty if it has none."""
    shared, tables = split_phases(scenario)
    graph = graphs.graph_of(scenario)
    return [] if tables is None else list(_checked(graph, shared, tables))


def stated_names(scenario: Mapping[str, Any]) -> frozenset[str]:
    shared, tables = split_phases(scenario)
    graph = graphs.graph_of(scenario)
    if tables is None:
        return frozenset()
    return frozenset(key for entries in _checked(graph, shared, tables).values() for key in entries)


def checked(name: Any, candidates: Sequence[str]) -> str:
    """The phase name, checked. Raises InputError."""
    if name not in candidates:
        hint = nearest(str(name), candidates, f"its phases are {', '.join(candidates)}")
        raise InputError(f"phase {shown(name)} is none of this job; {hint}")
    return str(name)


def _checked(graph: Graph, shared: Mapping[str, Any], tables: Any) -> dict[str, dict[str, Any]]:
    """The entries of each phase, by its name."""
    if not isinstance(tables, Sequence) or isinstance(tables, str) or not tables:
        raise InputError(f"phase = {shown(tables)} is not a list of tables; write [[phase]]")
    if len(tables) > MOST:
        raise InputError(f"{len(tables)} phases are more than {MOST}; join those that are alike")
    phases: dict[str, dict[str, Any]] = {}
    for k, table in enumerate(tables, 1):
        if not isinstance(table, Mapping):
            raise InputError(f"phase {k} = {shown(table)} is not a table; write [[phase]]")
        entries = dict(table)
        name = entries.pop("name", f"phase {k}")
        if not isinstance(name, str) or not name.isprintable() or not name or "," in name:
            raise InputError(
                f"phase {k}: name = {shown(name)} is not a printable text without commas"
            )
        if name in phases:
            raise InputError(f"two phases are called {name!r}; give one another name")
        if EARLIER in entries:
            raise InputError(
                f"phase {name!r}: {EARLIER} are those of phases before it; give those before the "
                "first in [scenario]"
            )
        for key, value in entries.items():
            values.check_name(graph, key)
            if value is None:  # it would hide the value in [scenario]
                off = f"; {OFF}" if values.is_option(graph, key) else ""
                raise InputError(f"phase {name!r}: {key} = None is no value; leave it out{off}")
            if isinstance(value, Mapping):
                raise InputError(
                    f"phase {name!r}: {key} is a table; give distributions in [scenario]"
                )
        if PHASED not in entries:
            raise InputError(f"phase {name!r} has no {PHASED}; give them")
        phases[name] = entries
    ends = [key_of(name, k) for k, name in enumerate(phases)]
    if len(set(ends)) < len(ends):
        same = next(k for k, end in enumerate(ends) if end in ends[:k])
        raise InputError(
            f"phase {list(phases)[same]!r} and another are both {ends[same]!r} in letters and "
            "digits; give it another name"
        )
    if EVERY in phases:
        raise InputError(f"phase = {EVERY} selects every phase; give phase {EVERY!r} a name")
    _check_total(graph, shared, phases)
    return phases


def _inputs(name: str, spec: Any) -> tuple[str, ...]:
    if isinstance(spec, Axis):
        return spec.inputs
    return (name, *spec) if isinstance(spec, Mapping) else (name,)


def _check_total(
    graph: Graph, shared: Mapping[str, Any], phases: Mapping[str, Mapping[str, Any]]
) -> None:
    """Compare a total stated by the scenario with the sum over its phases."""
    if PHASED in shared:
        total = sum(values.number(graph, PHASED, entries[PHASED]) for entries in phases.values())
        stated_total = values.number(graph, PHASED, shared[PHASED])
        if not np.isclose(total, stated_total, rtol=1e-6, atol=0):
            raise InputError(
                f"{PHASED} of the phases add up to {total:.6g}, and [scenario] has "
                f"{stated_total:.6g}; leave one out, or mend it"
            )


def _axis(graph: Graph, shared: Mapping[str, Any], phases: Mapping[str, dict[str, Any]]) -> Axis:
    """An axis of everything that any phase sets; other phases use the shared values."""
    spelled = {name: _spelled(shared, entries) for name, entries in phases.items()}
    _check_policies(shared, phases)
    keys = dict.fromkeys(key for entries in spelled.values() for key in entries)
    common = patterns.spelled_out(shared, {**dict.fromkeys(keys, NAME)})
    numbers: dict[str, Any] = {}
    options: dict[str, tuple[Any, ...]] = {}
    records: dict[str, tuple[str, ...]] = {}
    for key in keys:
        row = [entries.get(key, common.get(key)) for entries in spelled.values()]
        if isinstance(common.get(key), Mapping):
            raise InputError(f"{key} is a distribution, and phases set it; keep one")
        if key in graph.roles.labels:
            if None in row:
                lacking = next(name for name, value in zip(spelled, row, strict=True) if not value)
                raise InputError(f"phase {lacking!r} names no {key}; name one in [scenario], too")
            records |= make_axis(graph, NAME, {key: row, "labels": list(spelled)}).records
        elif values.is_option(graph, key):
            options[key] = tuple(None if v is None else values.option(graph, key, v) for v in row)
        else:
            numbers[key] = np.array(
                [np.nan if v is None else values.number(graph, key, v) for v in row]
            )
    return Axis(NAME, np.array(list(spelled)), numbers, options, records)


def _spelled(shared: Mapping[str, Any], entries: dict[str, Any]) -> dict[str, Any]:
    """The entries of a phase, with patterns as counts."""
    entries = {
        name: value
        for key, text in entries.items()
        for name, value in (policies.spelled(key, text) or {key: text}).items()
    }
    texts = entries.keys() & {patterns.NAME, patterns.LAYOUT, patterns.RECOMPUTED}
    if not texts:
        return entries
    before = {key: value for key, value in shared.items() if key not in texts}
    spelled = patterns.spelled_out({**before, **entries}, {})
    return {key: value for key, value in spelled.items() if key in entries or key not in before}


def _check_policies(
    shared: Mapping[str, Any],
    phases: Mapping[str, Mapping[str, Any]],
) -> None:
    """Refuse intervals and repairs that phases state in several ways: an axis has one."""
    for key in (REPAIR, *IN_STEPS):
        ways = {frozenset(policies.spelled(key, each.get(key))) for each in phases.values()}
        stated = any(key in each for each in phases.values())
        if stated and (len(ways) > 1 or policies.spelled(key, shared.get(key))):
            raise InputError(
                f"{key} is a time in one phase and in steps, or by percentiles, in another; state "
                "it in one way in each [[phase]], or in [scenario] alone"
            )


def implied_rows(axis: Axis) -> dict[str, tuple[Any, ...]]:
    """Options that some phase leaves to be implied."""
    return {name: row for name, row in axis.options.items() if None in row}


def left_open(axis: Axis) -> list[str]:
    """Inputs that some points of an axis leave to labels."""
    return [*axis.unset, *implied_rows(axis)]


def fill_open_points(axis: Axis, name: str, values: Sequence[Any]) -> Axis:
    """An axis with `values` filled in wherever an input has none."""
    if name in axis.options:
        pairs = zip(axis.options[name], values, strict=True)
        row = tuple(other if value is None else value for value, other in pairs)
        return replace(axis, options={**axis.options, name: row})
    numbers = axis.numbers[name]
    others = np.array([np.nan if value is None else value for value in values], float)
    return replace(
        axis, numbers={**axis.numbers, name: np.where(np.isnan(numbers), others, numbers)}
    )


def split_by_phase(
    tables: Mapping[str, tuple[tuple[str, ...], Any]], phases: Axis | None
) -> tuple[dict[str, tuple[tuple[str, ...], Any]], frozenset[str]]:
    """Tables split along the dimension of phases, and the plain names of the split ones."""
    split: dict[str, tuple[tuple[str, ...], Any]] = {}
    phased = set()
    for name, (along, row) in tables.items():
        if phases is None or NAME not in along:
            split[name] = along, row
            continue
        phased.add(name)
        rest = tuple(dim for dim in along if dim != NAME)
        for k, key in enumerate(phase_keys(phases)):
            split[in_phase(name, key)] = rest, np.take(row, k, axis=along.index(NAME))
    return split, frozenset(phased)
