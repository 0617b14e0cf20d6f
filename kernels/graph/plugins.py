"""Formulas of others' modules, which only those sweeps use that name their plugin."""

import functools
import hashlib
import importlib
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any

from .docstrings import read
from .formulas import Function, Graph, parameters
from .readable import PLAIN, frozen, sources
from .trace import Trace, Value, written

GROUP = "fleetcube.plugins"  # entry points: NAME = "MODULE"
_LONG = 16  # hexadecimal digits of a hash that are stated
_MARK = "__replaces__"  # of a registered formula: what it replaces, or an empty text


class PluginError(ValueError):
    """A plugin that is missing, another than asked for, or unusable; the message is one line."""


@dataclass(frozen=True)
class Plugin:
    """The formulas of a module by quantity, and a hash of their code."""

    name: str
    digest: str
    formulas: Mapping[str, Function] = field(repr=False, compare=False)
    replaced: frozenset[str] = field(default=frozenset(), repr=False, compare=False)

    @property
    def pinned(self) -> str:
        """Name and hash, which always name these exact formulas."""
        return f"{self.name}@{self.digest}"

    def __reduce__(self) -> tuple[Any, ...]:
        return imported, (self.pinned,)


def quantity(function: Any = None, *, replaces: str = "") -> Any:
    """Register a formula: of a new quantity, its own name, or in place of one of fleetcube's.

    It is a plain function as those of fleetcube: parameters are the names that it needs, the
    docstring has the sections Returns, with the unit, and Source. Only sweeps use it whose scenario
    names the module in `plugins`.
    """

    def register(formula: Function) -> Function:
        setattr(formula, _MARK, replaces)
        return formula

    return register(function) if function else register


def imported(name: str) -> Plugin:
    """A plugin by the name of a module or an entry point; its code is imported. Raises PluginError,
    also where `name@hash` is of other code."""
    plain = name.partition("@")[0]
    module = _module(plain)
    try:
        importlib.import_module(module)
    except Exception as error:
        gone = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        advice = "install it, or put its folder on PYTHONPATH" if gone else "mend it"
        said = f"{type(error).__name__}: {error}; {advice}"
        raise PluginError(f"the plugin {plain!r} cannot be imported: {said}") from None
    return plugin(name)


def plugin(name: str) -> Plugin:
    """A plugin whose module was imported already. Raises PluginError."""
    plain, _, digest = name.partition("@")
    module = _module(plain)
    which = f"the plugin {plain!r}{f' with hash {digest}' if digest else ''}"
    if module not in sys.modules:
        raise PluginError(
            f"{which} is missing; it is code, which only you may name: --plugin {plain}, "
            f"plugins={plain!r} or import it"
        )
    rows = [
        (getattr(formula, _MARK), formula)
        for home in [*sys.modules]
        if f"{home}.".startswith(f"{module}.")
        for formula in dict.fromkeys(filter(inspect.isfunction, vars(sys.modules[home]).values()))
        if formula.__module__ == home and hasattr(formula, _MARK)
    ]
    formulas = {replaces or formula.__name__: formula for replaces, formula in rows}
    if len(formulas) < len(rows):
        raise PluginError(f"the plugin {plain!r} has two formulas of one quantity; leave one out")
    if not formulas:
        raise PluginError(f"the module {module!r} is no plugin; register formulas by @quantity")
    replaced = frozenset(replaces for replaces, _ in rows)
    found = Plugin(plain, *_kept(plain, formulas), replaced)
    if digest and found.digest != digest:
        raise PluginError(
            f"{which} is missing: here it has {found.digest}, other formulas; install that version"
        )
    return found


@functools.cache
def _module(name: str) -> str:
    """The module of a plugin: that of an entry point, else of this name."""
    points = {point.value for point in entry_points(group=GROUP, name=name)} or {name}
    if len(points) > 1 or not all(part.isidentifier() for part in min(points).split(".")):
        raise PluginError(f"{name!r} is no module and no plugin of one package; name one of them")
    return points.pop()


_frozen: dict[tuple[Any, ...], tuple[str, dict[str, Function]]] = {}


def _kept(name: str, formulas: Mapping[str, Function]) -> tuple[str, dict[str, Function]]:
    """Hash and formulas, with the numbers that they read now. Raises PluginError."""
    texts: list[str] = []
    for quantity, formula in sorted(formulas.items()):
        texts.append(quantity)
        try:
            for text, read_now in sources(formula):
                plain = (f"{n} = {v!r}" for n, v in read_now.items() if type(v) in PLAIN)
                texts += [text, *plain]
        except ValueError as error:
            raise PluginError(f"plugin {name}: {formula.__name__} {error}") from None
    key = name, tuple(formulas.values()), tuple(texts)
    if key not in _frozen:
        copies: dict[Any, Any] = {}
        now = {quantity: frozen(formula, copies) for quantity, formula in formulas.items()}
        _frozen[key] = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_LONG], now
    return _frozen[key]


@functools.cache
def extended(graph: Graph, plugins: tuple[Plugin, ...]) -> Graph:
    """A graph with the formulas of plugins, beside its own or in place of them. Raises PluginError
    for formulas that do not fit."""
    owner: dict[str, str] = {}
    for each in plugins:
        for name, formula in each.formulas.items():
            _check(graph, each, name, formula)
            if owner.setdefault(name, each.name) != each.name:
                both = f"the plugins {owner[name]} and {each.name}"
                raise PluginError(f"{name} is of {both}; name one of them")
    return replace(graph, plugins=plugins) if plugins else graph


def _check(graph: Graph, plugin: Plugin, quantity: str, formula: Function) -> None:
    where = f"plugin {plugin.name}: {formula.__name__}"
    ours, known = graph.get(quantity), {*graph.quantities, *plugin.formulas}
    replaces = quantity in plugin.replaced
    if not replaces and (ours is not None or quantity in graph.inputs):
        raise PluginError(
            f"{where} is a name of {graph.name}; rename it, or write "
            f"@quantity(replaces={quantity!r})"
        )
    if replaces and ours is None:
        raise PluginError(f"{where} replaces {quantity!r}, which is no quantity; name one")
    for name in parameters(formula):
        row = graph.inputs.get(name)
        if (row is None and name not in known) or (row and row.kind == "option"):
            rule = "is an option" if row else "is neither an input nor a quantity"
            raise PluginError(f"{where} needs {name!r}, which {rule}; name numbers it needs")
    try:
        doc = read(formula)
    except ValueError as error:
        raise PluginError(f"{where}: {error}; add it") from None
    if ours is not None and doc.unit != ours.unit:
        raise PluginError(f"{where} is in {doc.unit}, and {quantity} in {ours.unit}; convert it")
    trace = Trace()
    try:
        written(trace.run(formula, [Value(trace, name) for name in parameters(formula)]))
    except Exception as error:
        raise PluginError(
            f"{where} cannot be traced ({error}); use + - * /, and np and where of "
            "fleetcube.plugins"
        ) from None
