"""Plugins of a scenario: code of others that a person has named, never a file."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...catalog import KINDS
from ...catalog.units import UnitError, parse
from ...kernels.calculus.derivatives import derivative
from ...kernels.calculus.phases import without_phase
from ...kernels.graph import plugins
from ...kernels.graph.docstrings import read
from ...kernels.graph.formulas import load, plugged
from ...kernels.graph.plugins import Plugin, PluginError
from ...kernels.roles import TEXTS
from ..errors import InputError, check_texts

NAME = "plugins"
ABOUT = "modules whose formulas this scenario uses; a file cannot have them imported, only you"


def with_plugins(scenario: Mapping[str, Any], names: Any = ()) -> Mapping[str, Any]:
    """A scenario with the plugins of `names`, which are imported, each with the hash of its code.
    Raises InputError, also for plugins of the scenario that nobody imported."""
    written = ",".join(check_texts(NAME, names)).split(",")
    added = _each(plugins.imported, filter(None, written))  # before the scenario's are sought
    pinned = dict.fromkeys(each.pinned for each in (*named(scenario), *added))
    return {**scenario, NAME: list(pinned)} if pinned else scenario


def named(scenario: Mapping[str, Any]) -> tuple[Plugin, ...]:
    """The plugins of a scenario, which are imported already. Raises InputError."""
    if not isinstance(scenario, Mapping) or NAME not in scenario:
        return ()
    found = _each(plugins.plugin, check_texts(NAME, scenario[NAME]))
    owner: dict[str, str] = {}
    for each in filter(_check, found):
        for name in each.formulas:
            if owner.setdefault(name, each.name) != each.name:
                both = f"the plugins {owner[name]} and {each.name}"
                raise InputError(f"{name} is of {both}; name one of them")
    return found


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
        means = name in (*KINDS, *TEXTS) or derivative(name) or without_phase(name) != name
        if means or not name.isidentifier():
            raise InputError(f"plugin {own.name}: {name} is no name for a quantity; rename it")
        try:
            unit == "flag" or parse(f"1 {unit}" if unit != "1" else "1", unit, name)
        except UnitError as error:
            raise InputError(f"plugin {own.name}: {name} Returns: {error}") from None
    return True


def check_names(names: Iterable[str], own: Iterable[Plugin]) -> None:
    """Refuse quantities of plugins that are imported, and not named here."""
    known = load(*own)
    for written in names if plugged else ():
        slope = derivative(written)
        for name in (slope.of, slope.wrt) if slope else (written,):
            plain = without_phase(name)
            if plain in plugged and plain not in known:
                home = plugged[plain].default.__module__
                raise InputError(f"{name} is of the plugin {home!r}; add plugins = {home!r}")


def remarks(own: Iterable[Plugin]) -> list[str]:
    """Whose formulas stand for which quantities, a line each."""
    return [f"plugin {each.pinned} has its own {', '.join(each.formulas)}" for each in own]
