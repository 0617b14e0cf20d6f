"""The graph of quantities, read from the functions of the vocabulary's modules."""

import functools
import importlib
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import vocabulary
from ..alternatives import docstring
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


@functools.cache
def load() -> dict[str, Quantity]:
    """Every quantity by name. Raises ValueError where names collide or the graph has a cycle."""
    formulas: dict[str, tuple[str | None, dict[Any, Function]]] = {}
    for module_name in vocabulary.PHYSICS.modules:
        module = importlib.import_module(module_name)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                _register(formulas, function)
    graph = {name: Quantity(name, option, choices) for name, (option, choices) in formulas.items()}
    _check(graph)
    for quantity in graph.values():
        stated = quantity.stated
        for formula in {*quantity.formulas.values()} - {stated}:
            own: Any = formula
            own.__stated__ = stated  # supplies what the formula's own docstring leaves out
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


def _check(graph: Mapping[str, Quantity]) -> None:
    inputs = vocabulary.PHYSICS.inputs
    for quantity in graph.values():
        if quantity.name in inputs:
            raise ValueError(f"{quantity.name} is both an input and a quantity: rename one")
        if quantity.option:
            _check_choices(quantity, quantity.option)
        for function in quantity.formulas.values():
            for parameter in parameters(function):
                if parameter not in graph and parameter not in inputs:
                    raise ValueError(
                        f"{function.__name__} needs {parameter}, which nothing defines: "
                        "write its formula, or declare it in the inputs.py of its topic"
                    )
    done: set[str] = set()
    for name in graph:
        _find_cycle(graph, name, [], done)


def _check_choices(quantity: Quantity, option: str) -> None:
    row, name = vocabulary.PHYSICS.inputs.get(option), quantity.name
    if row is None or row.kind != "option":
        raise ValueError(
            f"{name} is chosen by {option}, which is not an option: declare it in inputs.py"
        )
    for choice in (*row.choices, *quantity.formulas):
        if choice not in quantity.formulas:
            raise ValueError(f"{name} has no formula where {option} = {choice}: write one")
        if choice not in row.choices:
            raise ValueError(
                f"{name} has a formula where {option} = {choice}, which is not a choice: "
                "add it to its option in inputs.py"
            )


def _find_cycle(graph: Mapping[str, Quantity], name: str, path: list[str], done: set[str]) -> None:
    if name in path:
        cycle = " -> ".join([*path[path.index(name) :], name])
        raise ValueError(f"the quantities form a cycle: {cycle}")
    if name in done or name not in graph:
        return
    for function in graph[name].formulas.values():
        for parameter in parameters(function):
            _find_cycle(graph, parameter, [*path, name], done)
    done.add(name)


@functools.cache
def parameters(function: Function) -> tuple[str, ...]:
    if isinstance(function, Made):
        return function.parameters
    return tuple(inspect.signature(function).parameters)


def units(function: Function) -> dict[str, str]:
    """Units of a formula's parameters, from their declarations."""
    graph, inputs = load(), vocabulary.PHYSICS.inputs
    return {
        name: inputs[name].unit if name in inputs else graph[name].unit
        for name in parameters(function)
    }


def select(
    outputs: Iterable[str], options: Mapping[str, Any], given: Iterable[str]
) -> dict[str, Function]:
    """Formulas needed for the outputs, each after what it needs.

    The search stops at `given` names. Options choose among alternatives. Raises MissingInputError
    for a needed input that is not given.
    """
    graph, inputs, given = load(), vocabulary.PHYSICS.inputs, frozenset(given)
    order: dict[str, Function] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in given or name in order:
            return
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
