"""The graph of quantities, read from the functions of the vocabulary's modules."""

import functools
import importlib
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import vocabulary
from ..alternatives import docstring, is_twin
from .bind import Made
from .docstrings import Doc, read

Function = Callable[..., Any]


@dataclass(frozen=True)
class Quantity:
    """One name of the graph: a formula, or alternatives chosen by an option."""

    name: str
    option: str | None
    formulas: Mapping[Any, Function] = field(repr=False)

    def formula(self, options: Mapping[str, Any]) -> Function:
        return self.formulas[options[self.option] if self.option else None]

    @property
    def default(self) -> Function:
        inputs = vocabulary.PHYSICS.inputs
        return self.formulas[inputs[self.option].default if self.option else None]

    @property
    def stated(self) -> Function:
        """The formula whose docstring says what the quantity is: the default's, or the first."""
        formulas = (self.default, *self.formulas.values())
        return next((f for f in formulas if "\nReturns:" in docstring(f)), self.default)

    @property
    def doc(self) -> Doc:
        """Unit, meaning and source, as the formula of the default states them."""
        return read(self.default)

    @property
    def unit(self) -> str:
        """Unit; "flag" for a code with named values."""
        return self.doc.unit


class UnknownNameError(ValueError):
    """A name that is neither an input nor a quantity."""


class MissingInputError(ValueError):
    """A quantity needs an input that has no default and is not given."""


plugged: dict[str, Quantity] = {}  # new quantities of the plugins that this process imported


def known(name: str) -> Quantity | None:
    """What a name means: a quantity of fleetcube, else of an imported plugin. Which formulas are
    used, only `select` says."""
    return load().get(name) or plugged.get(name)


@functools.cache
def load(*plugins: Any) -> dict[str, Quantity]:
    """Every quantity by name, with those of plugins. Raises ValueError where names collide; `make
    quick` checks more."""
    if plugins:
        rows = [row for plugin in plugins for row in plugin.formulas.items()]
        return {**load(), **{name: Quantity(name, None, {None: own}) for name, own in rows}}
    formulas: dict[str, tuple[str | None, dict[Any, Function]]] = {}
    for module_name in vocabulary.PHYSICS.modules:
        module = importlib.import_module(module_name)
        for name, function in sorted(vars(module).items()):
            here = inspect.isfunction(function) and function.__module__ == module.__name__
            if here and not name.startswith("_"):
                _register(formulas, function)
    graph = {name: Quantity(name, option, choices) for name, (option, choices) in formulas.items()}
    for quantity in graph.values():
        if len(several := {*quantity.formulas.values()}) > 1:
            stated = quantity.stated
            for formula in several - {stated}:
                own: Any = formula
                own.__stated__ = stated  # supplies what its own docstring leaves out
    read.cache_clear()  # docstrings read earlier had nothing to inherit
    return graph


def _register(
    formulas: dict[str, tuple[str | None, dict[Any, Function]]], function: Function
) -> None:
    quantity, option, choices = getattr(
        function, "__alternative__", (function.__name__, None, (None,))
    )
    known_option, known = formulas.setdefault(quantity, (option, {}))
    if known_option != option or any(choice in known for choice in choices):
        raise ValueError(f"{quantity} is defined twice: rename {function.__name__}")
    known.update(dict.fromkeys(choices, function))


@functools.cache
def parameters(function: Function) -> tuple[str, ...]:
    if isinstance(function, Made):
        return function.parameters
    if is_twin(function):
        return tuple(inspect.signature(function).parameters)
    code = function.__code__  # ten times as fast
    return code.co_varnames[: code.co_argcount]


def units(function: Function) -> dict[str, str]:
    """Units of a formula's parameters, from their declarations."""
    inputs, graph = vocabulary.PHYSICS.inputs, {**plugged, **load()}
    return {
        name: inputs[name].unit if name in inputs else graph[name].unit
        for name in parameters(function)
    }


def select(
    outputs: Iterable[str],
    options: Mapping[str, Any],
    given: Iterable[str],
    plugins: Iterable[Any] = (),
) -> dict[str, Function]:
    """Formulas needed for the outputs, each after what it needs.

    The search stops at `given` names. Options choose among alternatives, and formulas of plugins
    come before them. Raises MissingInputError for a needed input that is not given.
    """
    graph, inputs, given = load(*plugins), vocabulary.PHYSICS.inputs, frozenset(given)
    order: dict[str, Function] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in given or name in order:
            return
        if plugins and name in path:
            raise UnknownNameError(f"{name!r} needs itself, via {' -> '.join(path)}")
        if name not in graph:
            if name not in inputs:
                raise UnknownNameError(f"{name!r} is neither an input nor a quantity")
            wanted = path[0] if path else name
            heard = logging.getLogger("fleetcube").isEnabledFor(logging.INFO)
            via = f" (via {' -> '.join(path[1:])})" if heard and len(path) > 1 else ""
            row = inputs[name]
            own = row.part_of if row.part_of in path else f"{name} ({row.description})"
            see = f"fleetcube catalog {row.labels.partition(' ')[0].rstrip(':')}"
            hint = f", or a {row.labels} ({see})" if row.labels else ""
            raise MissingInputError(f"{name} is missing: {wanted} needs it{via}; give {own}{hint}")
        formula = graph[name].formula(options)
        for parameter in parameters(formula):
            visit(parameter, (*path, name))
        order[name] = formula

    for output in outputs:
        visit(output, ())
    return order
