"""Give the same functions to another array library: rebuild them with other globals.

A formula is a plain function whose globals hold `np`, `where` and other functions of this package.
Binding makes a copy whose globals hold the replacements, recursively. Nothing is parsed or edited.
"""

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .ops import where

PACKAGE = __package__


class Binding:
    """Formulas bound to one array library.

    `numpy` and `choose` stand in for `np` and `where`; `wrap` is applied to every function made
    (the identity for JAX and for traces).
    """

    def __init__(
        self,
        numpy: Any,
        choose: Callable[..., Any],
        wrap: Callable[[types.FunctionType], Any],
    ) -> None:
        self._replacements = {id(np): numpy, id(where): choose}
        self._wrap = wrap
        self._bound: dict[int, Any] = {}

    def bind(self, function: Callable[..., Any]) -> Any:
        """The function, bound; functions it calls are bound with it."""
        assert isinstance(function, types.FunctionType)
        if id(function) not in self._bound:
            names = function.__code__.co_names
            scope = {
                name: self._replace(function.__globals__[name])
                for name in names
                if name in function.__globals__
            }
            scope["__name__"] = function.__module__
            copy = types.FunctionType(
                function.__code__, scope, function.__name__, function.__defaults__
            )
            copy.__module__ = function.__module__
            self._bound[id(function)] = self._wrap(copy)
        return self._bound[id(function)]

    def _replace(self, value: Any) -> Any:
        if id(value) in self._replacements:
            return self._replacements[id(value)]
        if isinstance(value, types.FunctionType) and value.__module__.startswith(PACKAGE):
            return self.bind(value)
        return value


def dependencies(function: Callable[..., Any]) -> list[types.FunctionType]:
    """The function and every function of this package that it calls, for hashing their code."""
    found: dict[int, types.FunctionType] = {}

    def visit(current: Any) -> None:
        if isinstance(current, types.FunctionType) and current.__module__.startswith(PACKAGE):
            if id(current) in found:
                return
            found[id(current)] = current
            for name in current.__code__.co_names:
                visit(current.__globals__.get(name))

    visit(function)
    return list(found.values())
