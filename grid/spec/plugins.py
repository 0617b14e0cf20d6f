"""Plugins of a scenario: code of others that a person has named, never a file."""

import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...catalog import KINDS
from ...catalog.units import UnitError, parse
from ...kernels.calculus.derivatives import derivative
from ...kernels.calculus.phases import without_phase
from ...kernels.graph import plugins
from ...kernels.graph.docstrings import read
from ...kernels.graph.formulas import Graph
from ...kernels.graph.plugins import Plugin, PluginError
from ...kernels.physics.graph import PHYSICS
from ...kernels.physics.roles import TEXTS
from ..errors import InputError, check_texts

NAME = "plugins"
ABOUT = "modules whose formulas this scenario uses; a file cannot have them imported, only you"


def with_plugins(scenario: Mapping[str, Any], names: Any = ()) -> Mapping[str, Any]:
    """A scenario with the plugins of `names`, which are imported, each with the hash of its code.
    Raises InputError, also for plugins of the scenario that nobody imported."""
    written = ",".join(check_texts(NAME, names)).split(",")
    added = _each(plugins.imported, filter(None, written))  # before the scenario's are sought
    pinned = dict.fromkeys(each.pinned for each in (*graph_of(scenario).plugins, *added))
    return {**scenario, NAME: list(pinned)} if pinned else scenario


def graph_of(scenario: Mapping[str, Any]) -> Graph:
    """The physics with the plugins of a scenario, which are imported already. Raises InputError."""
    if not isinstance(scenario, Mapping) or NAME not in scenario:
        return PHYSICS
    found = _each(plugins.plugin, check_texts(NAME, scenario[NAME]))
    all(map(_check, found))
    try:
        return plugins.extended(PHYSICS, found)
    except PluginError as error:
        raise InputError(str(error)) from None


def graph_at(attrs: Mapping[str, Any]) -> Graph:
    """The graph of a result, by its attributes; the physics where a plugin is not imported."""
    text = str(attrs.get("fleetcube_spec", ""))
    if f'"{NAME}"' not in text:
        return PHYSICS
    with contextlib.suppress(InputError, ValueError, KeyError, TypeError):
        return graph_of(json.loads(text)["scenario"])
    return PHYSICS


def _each(find: Callable[[str], Plugin], names: Iterable[str]) -> tuple[Plugin, ...]:
    try:
        return tuple(map(find, names))
    except PluginError as error:
        raise InputError(str(error)) from None


@functools.cache
def _check(own: Plugin) -> bool:
    """Refuse a plugin's names of other things, and units that are none."""
    for name, formula in own.formulas.items():
        unit = read(formula).unit
        means = name in (*KINDS, *TEXTS) or derivative(PHYSICS, name) or without_phase(name) != name
        if means or not name.isidentifier():
            raise InputError(f"plugin {own.name}: {name} is no name for a quantity; rename it")
        try:
            unit == "flag" or parse(f"1 {unit}" if unit != "1" else "1", unit, name)
        except UnitError as error:
            raise InputError(f"plugin {own.name}: {name} Returns: {error}") from None
    return True


def remarks(own: Iterable[Plugin]) -> list[str]:
    """Whose formulas stand for which quantities, a line each."""
    return [f"plugin {each.pinned} has its own {', '.join(each.formulas)}" for each in own]
