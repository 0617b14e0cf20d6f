"""Read a command's spec, with the values that selectors change."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from fleetcube.commands.shared.say import say, say_each
from fleetcube.grid.errors import InputError
from fleetcube.kernels.physics.roles import MEMORY


def changed_spec(
    path: str, selectors: Sequence[str], without: Collection[str] = ()
) -> dict[str, Any]:
    """Read a spec with other values and without some axes; remarks go to standard error."""
    from fleetcube.formats.read import job_at, layout_of, read_spec
    from fleetcube.tables.selectors import narrow, pairs

    given = {**dict.fromkeys(without), **pairs(selectors)}  # the unknown has no one value
    if (job := job_at(path, given)) is not None:
        say(layout_of(job), err=True)
    spec, notes = narrow(read_spec(path, given), selectors, without)
    say_each(notes)
    return spec


def traffic(path: str, selectors: Sequence[str]) -> Any:
    """Data for a picture and a table of the tiers of a spec's network, at one point of it. It
    includes step time and memory with their intervals, if everything they need is given."""
    from fleetcube.analysis.traffic import TIMES, names_of
    from fleetcube.grid.run.settings import Settings
    from fleetcube.sweep import Printed

    def values(spec: dict[str, Any]) -> Any:
        names = names_of(spec)
        try:
            sweep = Printed(spec["scenario"], spec["axes"], [*names, *TIMES, *MEMORY])
        except InputError:  # a network may be described without compute
            sweep = Printed(spec["scenario"], spec["axes"], names)
        return sweep.evaluate(settings=Settings("numpy"))

    return _at_one_point(path, selectors, values)


def step(path: str, selectors: Sequence[str]) -> Any:
    """Data for a picture of one step of a spec, at one point of it."""
    from fleetcube.analysis.step_parts import values_of

    return _at_one_point(path, selectors, lambda spec: values_of(spec["scenario"], spec["axes"]))


def _values(spec: dict[str, Any], outputs: Sequence[str]) -> Any:
    from fleetcube.grid.run.settings import Settings
    from fleetcube.sweep import Printed

    return Printed(spec["scenario"], spec["axes"], outputs).evaluate(settings=Settings("numpy"))


def _at_one_point(path: str, selectors: Sequence[str], values_of: Callable[..., Any]) -> Any:
    """Values of a spec where selectors cut its axes; other selectors change the spec."""
    from fleetcube.formats.read import read_spec
    from fleetcube.tables.selectors import pairs, select

    axes = read_spec(path, pairs(selectors))["axes"]
    cuts = [each for each in selectors if each.partition("=")[0] in axes]
    values = values_of(changed_spec(path, [each for each in selectors if each not in cuts]))
    point, notes = select(values, [cut for cut in cuts if cut.partition("=")[0] in values.dims])
    say_each(notes)
    return point


def point_of(path: str, selectors: Sequence[str]) -> dict[str, Any]:
    """The scenario of a spec at one point of its axes, with other values that selectors give."""
    from fleetcube.formats.read import read_spec
    from fleetcube.grid.spec.axes import make_axes
    from fleetcube.grid.spec.graphs import graph_of
    from fleetcube.scenario.along_axes import values_along
    from fleetcube.tables.selectors import pairs, position

    given = pairs(selectors)
    cuts = given.keys() & read_spec(path, given)["axes"].keys()
    spec = changed_spec(path, [each for each in selectors if each.partition("=")[0] not in cuts])
    graph, scenario = graph_of(spec["scenario"]), dict(spec["scenario"])
    axes = make_axes(graph, spec["axes"])
    if several := [n for n, axis in axes.items() if axis.size > 1 and n not in cuts]:
        raise InputError(f"an account is of one point; cut the axes: {', '.join(several)}=value")
    places = [position(graph, axis, given.get(name)) for name, axis in axes.items()]
    return scenario | values_along(axes.values(), places)


def by_phase(path: str, selectors: Sequence[str], outputs: Sequence[str]) -> Any:
    """Values of a spec at one point, separately for each phase of the job."""
    from fleetcube.formats.read import read_spec
    from fleetcube.scenario import phases
    from fleetcube.scenario.phases import EVERY
    from fleetcube.tables.selectors import pairs

    if not phases.names(read_spec(path, pairs(selectors))["scenario"]):
        raise InputError(f"{path!r} has no phases; add [[phase]] tables")
    spec = changed_spec(path, [*selectors, f"{phases.NAME}={EVERY}"])
    return _values(spec, outputs)


def changed(
    path: str,
    selectors: Sequence[str] = (),
    outputs: Sequence[str] = (),
    otherwise: Sequence[str] = (),
) -> Any:
    """The sweep of a spec with changed values and outputs; `otherwise` are its default outputs."""
    from fleetcube.sweep import Printed

    spec = changed_spec(path, selectors)
    chosen = list(outputs) or spec["outputs"] or list(otherwise)
    if not chosen:
        raise InputError(f'{path!r} names no outputs; add to its top: outputs = ["job_time"]')
    return Printed(spec["scenario"], spec["axes"], chosen)


def changed_and_cut(
    path: str, selectors: Sequence[str], outputs: Sequence[str]
) -> tuple[Any, dict[str, Any]]:
    """The sweep of a spec, and the point that selectors name; without axes they change the spec."""
    from fleetcube.formats.read import read_spec
    from fleetcube.tables.selectors import pairs

    point = pairs(selectors)
    if read_spec(path, point)["axes"]:
        return changed(path, (), outputs), point
    return changed(path, selectors, outputs), {}


def with_ends(cut: Any, variables: Sequence[str], *, asked: bool) -> Any:
    """A cut of a cube with intervals; a note gives the reason for missing ones unless `asked`."""
    from fleetcube.analysis.reevaluate import with_interval

    try:
        return with_interval(cut, variables or None)
    except InputError as error:
        if asked:
            raise
        say(f"no intervals: {error}", err=True)
        return cut


def assumed_of(cut: Any) -> list[str]:
    """What nobody stated and decides a cut of a cube; nothing of one by another version."""
    from fleetcube.analysis.assumptions import at_last, running
    from fleetcube.analysis.reevaluate import sweep_of
    from fleetcube.grid.plan.labels import own_version

    if cut.attrs.get("fleetcube_version") != own_version():
        return []
    try:
        sweep = sweep_of(cut)
        shown = [name for name in sweep.spec["outputs"] if name in cut.data_vars]
        return at_last(sweep.with_outputs(shown), running(cut)) if shown else []
    except InputError:  # such as a cut at values between the cube's points
        return []
