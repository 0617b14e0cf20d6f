"""Laws in functions that others compile by numba.

numba calls `init` before it compiles anything in a process, whatever that is; so nothing is made
here until a function to be compiled names a law.
"""

import inspect
import types
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core import types as kinds
from numba.core.registry import cpu_target
from numba.extending import overload, typeof_impl

from ... import kernels
from ..graph.bind import Binding

_HOMES = frozenset(f"{kernels.__name__}.{name}" for name in kernels.LAWS)
_OPTIONS = {"error_model": "numpy"}  # x / 0 is infinite, as in arrays, and not an error
_known: set[Callable[..., Any]] = set()


def init() -> None:
    """Let numba ask what a plain function is."""
    typeof_impl.register(types.FunctionType)(_declare)


def _declare(function: types.FunctionType, context: Any) -> None:
    """Declare a law when it is first named; numba then looks it up by itself."""
    public = function.__module__ in _HOMES and not function.__name__.startswith("_")
    if public and function not in _known:
        _known.add(function)
        overload(function, jit_options=_OPTIONS)(_chooser(function))
        cpu_target.typing_context.refresh()


def _chooser(law: types.FunctionType) -> Callable[..., Any]:
    """What numba asks for the code of a law, given the types of its operands."""
    scalar = _BINDING.bind(law).py_func
    signature = inspect.signature(scalar)

    def implementation(*given: Any, **named: Any) -> Any:
        operands = list(signature.bind(*given, **named).arguments.values())
        numbers = [kind.dtype if isinstance(kind, kinds.Array) else kind for kind in operands]
        if not all(isinstance(kind, kinds.Number | kinds.Boolean) for kind in numbers):
            return None
        if numbers == operands:
            return scalar
        # one loop over all operands; another for each set of types, lest its first fit the others
        scope = {"loop": numba.vectorize(scalar)}
        listed = ", ".join(signature.parameters)
        return eval(f"lambda {listed}: loop({listed})", scope)

    implementation.__signature__ = signature  # type: ignore[attr-defined]
    return implementation


class _Compiled(Binding):
    """Formulas as functions that numba compiles when they are called."""

    def _copy(self, function: types.FunctionType) -> Any:
        return numba.njit(**_OPTIONS)(super()._copy(function))


@numba.njit
def _choose(condition: Any, if_true: Any, if_false: Any) -> Any:
    return if_true if condition else if_false


_BINDING = _Compiled(np, _choose)
