"""The graph of a model: its inputs and the quantities that plain functions compute from them."""

import functools
import importlib
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..alternatives import docstring, is_twin
from ..declare import Input
from .bind import BuiltFormula
from .docstrings import Doc, read
from .roles import Roles

Function = Callable[..., Any]


@dataclass(frozen=True)
class Quantity:
    """One name of the graph: a formula, or alternatives chosen by an option, whose default is
    `usual`."""

    name: str
    option: str | None
    formulas: Mapping[Any, Function] = field(repr=False)
    usual: Any = None

    def formula(self, options: Mapping[str, Any]) -> Function:
        return self.formulas[options[self.option] if self.option else None]

    @property
    def default(self) -> Function:
        return self.formulas[self.usual]

    @property
    def stated(self) -> Function:
        """The formula whose docstring defines the quantity: the default's, or the first."""
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


@dataclass(frozen=True, eq=False)
class Graph:
    """A model: inputs, and modules of plain functions, each the formula of the quantity of its
    name, whose parameters are inputs and other quantities.

    `roles` names the quantities that engines treat in a way of their own. `extensions` are modules
    of others, whose formulas add to those of `modules`, or replace them. `application`
    is a module that reads scenarios of this graph (`resolve`) and remarks on its plans (`remarks`).
    Graphs of the same content are equal. Modules are imported when they are first needed.
    """

    name: str
    inputs: Mapping[str, Input] = field(repr=False)
    modules: tuple[str, ...] = field(repr=False)
    roles: Roles = field(default_factory=Roles, repr=False)
    extensions: tuple[Any, ...] = ()
    application: str = field(default="", repr=False)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Graph) and self._content == other._content)

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.name, self.modules, self.extensions))

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def _content(self) -> tuple[Any, ...]:
        return self.name, self.modules, self.extensions, self.inputs, self.roles

    @functools.cached_property
    def quantities(self) -> Mapping[str, Quantity]:
        """Every quantity by name. Raises ValueError where names collide."""
        by_name = dict(_quantities(self.modules, tuple(self.options.items())))
        for module in self.extensions:
            by_name |= module.quantities
        return by_name

    @functools.cached_property
    def options(self) -> Mapping[str, Any]:
        """The default of every option."""
        return {n: row.default for n, row in self.inputs.items() if row.kind == "option"}

    def get(self, name: str) -> Quantity | None:
        return self.quantities.get(name)

    def units(self, function: Function) -> dict[str, str]:
        """Units of a formula's parameters, from their declarations."""
        return {
            name: self.inputs[name].unit if name in self.inputs else self.quantities[name].unit
            for name in parameters(function)
        }

    def select(
        self, outputs: Iterable[str], options: Mapping[str, Any], given: Iterable[str]
    ) -> dict[str, Function]:
        """Formulas needed for the outputs, each after what it needs.

        The search stops at `given` names. Options choose among alternatives. Raises
        MissingInputError for needed inputs that are not given.
        """
        reached, order = set(given), dict[str, Function]()
        missing: dict[str, tuple[str, ...]] = {}
        quantities = self.quantities

        def visit(name: str, path: tuple[str, ...]) -> None:
            if self.extensions and name in path:
                raise UnknownNameError(f"{name!r} needs itself, via {' -> '.join(path)}")
            if name not in quantities:
                if name not in self.inputs:
                    raise UnknownNameError(f"{name!r} is neither an input nor a quantity")
                missing.setdefault(name, path)
                return
            formula = quantities[name].formula(options)
            for parameter in parameters(formula):
                if parameter not in reached:
                    visit(parameter, (*path, name))
            order[name] = formula
            reached.add(name)

        for output in outputs:
            if output not in reached:
                visit(output, ())
        if missing:
            raise MissingInputError(self._without(missing))
        return order

    def _without(self, missing: Mapping[str, tuple[str, ...]]) -> str:
        """Which inputs on the way from an output have no value: the first, and what else to give,
        once for those of one record."""
        name, path = next(iter(missing.items()))
        row, *others = (self.inputs[each] for each in missing)
        wanted = path[0] if path else name
        heard = logging.getLogger("fleetcube").isEnabledFor(logging.INFO)
        via = f" (via {' -> '.join(path[1:])})" if heard and len(path) > 1 else ""
        give = row.part_of if row.part_of in path else f"{name} ({row.description})"
        see = f"fleetcube catalog {row.labels.partition(' ')[0].rstrip(':')}"
        hint = f", or a {row.labels} ({see})" if row.labels else ""
        parts = [f"a {r.labels.partition(':')[0]}" if r.labels else r.name for r in others]
        more = [part for part in dict.fromkeys(parts) if part not in hint]
        also = f"; also give {', '.join(more)}" if more else ""
        return f"{name} is missing: {wanted} needs it{via}; give {give}{hint}{also}"


NO_GRAPH = Graph("none", {}, ())


@functools.cache
def _quantities(
    modules: tuple[str, ...], options: tuple[tuple[str, Any], ...]
) -> Mapping[str, Quantity]:
    """The quantities of modules, whose public functions are the formulas."""
    homes = map(importlib.import_module, modules)
    functions = [
        function
        for module in homes
        for name, function in sorted(vars(module).items())
        if inspect.isfunction(function) and function.__module__ == module.__name__
        if not name.startswith("_")
    ]
    return gathered(functions, dict(options))


def gathered(functions: Iterable[Function], options: Mapping[str, Any]) -> dict[str, Quantity]:
    """The quantities whose formulas are these functions; `options` are the defaults of options.
    Raises ValueError where two are of one name."""
    formulas: dict[str, tuple[str | None, dict[Any, Function]]] = {}
    for function in functions:
        _register(formulas, function)
    quantities = {
        name: Quantity(name, option, choices, options.get(option) if option else None)
        for name, (option, choices) in formulas.items()
    }
    for quantity in quantities.values():
        if len(several := {*quantity.formulas.values()}) > 1:
            stated = quantity.stated
            for formula in several - {stated}:
                alternative: Any = formula
                alternative.__stated__ = stated  # supplies what its own docstring leaves out
    read.cache_clear()  # docstrings read earlier had nothing to inherit
    return quantities


def _register(
    formulas: dict[str, tuple[str | None, dict[Any, Function]]], function: Function
) -> None:
    quantity, option, choices = getattr(
        function, "__alternative__", (function.__name__, None, (None,))
    )
    known_option, formulas_by_choice = formulas.setdefault(quantity, (option, {}))
    if known_option != option or any(choice in formulas_by_choice for choice in choices):
        raise ValueError(f"{quantity} is defined twice: rename {function.__name__}")
    formulas_by_choice.update(dict.fromkeys(choices, function))


@functools.cache
def parameters(function: Function) -> tuple[str, ...]:
    if isinstance(function, BuiltFormula):
        return function.parameters
    if is_twin(function):
        return tuple(inspect.signature(function).parameters)
    code = function.__code__  # ten times as fast
    return code.co_varnames[: code.co_argcount]
