"""The graph of a scenario: the physics, or formulas of others that a person has named, no file."""

import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from ...catalog.units import UnitError, parse
from ...kernels.calculus.derivatives import derivative
from ...kernels.calculus.phased_formulas import without_phase
from ...kernels.declare import Input
from ...kernels.graph import modules
from ...kernels.graph.formulas import Graph
from ...kernels.graph.modules import FormulaModule, GraphError, graph_from
from ...kernels.physics.graph import PHYSICS
from ..errors import InputError, shown
from . import values

NAME = "graph"
ABOUT = "modules whose formulas this scenario uses; a file cannot have them imported, only you"


def with_graph(scenario: Mapping[str, Any], graph: Any = ()) -> Mapping[str, Any]:
    """A scenario with the modules of a graph, which are imported, each with the hash of its code.
    Raises InputError, also for modules of the scenario that nobody imported."""
    written = ",".join(_names(graph)).split(",")
    added = _each(modules.imported, filter(None, written))  # before the scenario's are sought
    pinned = dict.fromkeys(each.pinned for each in (*graph_of(scenario).extensions, *added))
    return {**scenario, NAME: list(pinned)} if pinned else scenario


def _names(graph: Any) -> list[str]:
    """The names of a graph's modules, given as texts, modules or a graph."""
    if isinstance(graph, Graph):
        return [each.pinned for each in graph.extensions]
    parts = graph if isinstance(graph, list | tuple) else [] if graph is None else [graph]
    names = [each.__name__ if isinstance(each, ModuleType) else each for each in parts]
    for each in names:
        if not isinstance(each, str):
            raise InputError(
                f"graph = {shown(each)} is no module and no name of one; write its formulas into "
                "a file NAME.py, and give NAME"
            )
    return names


def graph_of(scenario: Mapping[str, Any]) -> Graph:
    """The graph of a scenario, whose modules are imported already. Raises InputError."""
    if not isinstance(scenario, Mapping) or NAME not in scenario:
        return PHYSICS
    added_modules = _each(modules.loaded, _names(scenario[NAME]))
    try:
        graph = graph_from(PHYSICS, added_modules)
    except GraphError as error:
        raise InputError(str(error)) from None
    _check(graph)
    return graph


def graph_at(attrs: Mapping[str, Any]) -> Graph:
    """The graph of a result, by its attributes; the physics where a module is not imported."""
    text = str(attrs.get("fleetcube_spec", ""))
    if f'"{NAME}"' not in text:
        return PHYSICS
    with contextlib.suppress(InputError, ValueError, KeyError, TypeError):
        return graph_of(json.loads(text)["scenario"])
    return PHYSICS


def _each(find: Callable[[str], FormulaModule], names: Iterable[str]) -> tuple[FormulaModule, ...]:
    try:
        return tuple(map(find, names))
    except GraphError as error:
        raise InputError(str(error)) from None


@functools.cache
def _check(graph: Graph) -> None:
    """Refuse names of other things, and units that are none, in modules of others."""
    for module in graph.extensions:
        rows = {name: (f"{name} in INPUTS", row.unit) for name, row in module.inputs.items()}
        rows |= {n: (f"{n} Returns", each.unit) for n, each in module.quantities.items()}
        for name, (where, unit) in rows.items():
            reserved = name in (*graph.roles.labels, *graph.roles.texts, NAME)
            if reserved or derivative(graph, name) or without_phase(name) != name:
                raise InputError(f"graph {module.name}: {name} is no name here; rename it")
            try:
                unit == "flag" or parse(f"1 {unit}" if unit != "1" else "1", unit, name)
            except UnitError as error:
                raise InputError(f"graph {module.name}: {where}: {error}") from None
        for name, row in module.inputs.items():
            _check_default(graph, name, row)


def _check_default(graph: Graph, name: str, row: Input) -> None:
    """Refuse the default of an input that a scenario could not give."""
    try:
        if row.kind == "option":
            values.option(graph, name, row.default)
        elif isinstance(row.default, str):
            raise InputError(f"{name} = {row.default!r} is a text; write a number in {row.unit}")
        elif row.default is not None:
            values.number(graph, name, row.default)
    except InputError as error:
        raise InputError(f"graph {graph.name}: INPUTS: {error}") from None


def remarks(graph: Graph) -> list[str]:
    """Whose formulas stand for which quantities, a line each."""
    added = [each for each in graph.extensions if not each.inputs]
    return [f"graph {each.pinned} has its own {', '.join(each.quantities)}" for each in added]
