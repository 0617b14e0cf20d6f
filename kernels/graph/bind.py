"""Bind formulas to another array library by rebuilding them with other globals.

A formula is a plain function whose globals hold `np`, `where` and other functions of this package.
Binding copies it, recursively, with replacements in the globals. A formula made from others
(`BuiltFormula`) defines its own bound function.
"""

import types
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import elementary, ops
from ..ops import where

PACKAGE = __package__.rpartition(".")[0]  # of all formulas, of laws and quantities


def belongs(function: types.FunctionType, caller: types.FunctionType) -> bool:
    """Whether a function is of this package, or of the one that its caller, a formula, is of."""
    home, package = (f.__module__.partition(".")[0] for f in (function, caller))
    return function.__module__.startswith(PACKAGE) or (home == package and package != "fleetcube")


class Binding:
    """Formulas bound to one array library: `numpy` and `choose` replace `np` and `where`."""

    def __init__(self, numpy: Any, choose: Callable[..., Any]) -> None:
        self.numpy, self.choose = numpy, choose
        self._replacements = dict.fromkeys((id(np), id(ops.np)), numpy) | {id(where): choose}
        self._bound: dict[Callable[..., Any], Any] = {}

    def bind(self, function: Callable[..., Any]) -> Any:
        """The function, bound; functions it calls are bound with it."""
        if function not in self._bound:
            if isinstance(function, BuiltFormula):
                self._bound[function] = function.bound(self)
            else:
                assert isinstance(function, types.FunctionType)
                self._bound[function] = self._copy(function)
        return self._bound[function]

    def _copy(self, function: types.FunctionType) -> types.FunctionType:
        names = function.__code__.co_names
        scope = {
            name: self._replace(function.__globals__[name], function)
            for name in names
            if name in function.__globals__
        }
        scope["__name__"] = function.__module__
        scope["__builtins__"] = function.__globals__["__builtins__"]  # imports look it up
        copy = types.FunctionType(
            function.__code__, scope, function.__name__, function.__defaults__
        )
        copy.__module__ = function.__module__
        return copy

    def _replace(self, value: Any, caller: types.FunctionType) -> Any:
        if id(value) in self._replacements:
            return self._replacements[id(value)]
        if isinstance(value, types.FunctionType) and belongs(value, caller):
            return self.bind(value)
        return value


class BuiltFormula(ABC):
    """A formula made from other formulas (`sources`); those made alike are equal."""

    parameters: tuple[str, ...]
    sources: tuple[Callable[..., Any], ...] = ()

    @property
    def __name__(self) -> str:
        return self.__class__.__qualname__

    def __repr__(self) -> str:
        fields = [f"{key}={_written(value)}" for key, value in self.__dict__.items()]
        return f"{self.__name__}({', '.join(fields)})"

    @abstractmethod
    def bound(self, binding: Binding) -> Callable[..., Any]:
        """The function from the parameters' values to the result, bound to an array library."""

    def __call__(self, *values: Any) -> Any:
        return NUMPY.bind(self)(*values)


def _written(value: Any) -> str:
    """Text of a made formula's part, without addresses: the same in any process."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value))})"
    return str(getattr(value, "__name__", value))


NUMPY = Binding(elementary.numpy, np.where)


def definitions(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """The function, or the functions that it is made from."""
    if not isinstance(function, BuiltFormula):
        return [function]
    return list(
        dict.fromkeys(
            definition for source in function.sources for definition in definitions(source)
        )
    )


def dependencies(function: Callable[..., Any]) -> list[types.FunctionType]:
    """The function and every function of its package that it calls, for hashing their code."""
    functions: dict[int, types.FunctionType] = {}

    def visit(current: Any) -> None:
        if isinstance(current, BuiltFormula):
            for source in current.sources:
                visit(source)
        if isinstance(current, types.FunctionType) and id(current) not in functions:
            functions[id(current)] = current
            for name in current.__code__.co_names:
                called = current.__globals__.get(name)
                if isinstance(called, types.FunctionType) and belongs(called, current):
                    visit(called)

    visit(function)
    return list(functions.values())
