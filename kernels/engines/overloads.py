"""Laws inside functions that users compile with numba.

numba calls `init` before it compiles anything at all in a process, so nothing is made, and little
is imported, until a compiled function names a law.
"""

import inspect
import types
from collections.abc import Callable
from typing import Any

from numba import types as kinds
from numba.core.registry import cpu_target
from numba.extending import overload, typeof_impl

from .. import laws

_HOME = f"{laws.__name__}."
_declared: set[types.FunctionType] = set()


def init() -> None:
    """Register a hook for the numba type of plain functions."""
    typeof_impl.register(types.FunctionType)(_declare)


def _declare(function: types.FunctionType, context: Any) -> None:
    """Declare a law when it is first named; numba then looks it up by itself."""
    home = function.__module__ or ""  # made functions have none
    public = home.startswith(_HOME) and not function.__name__.startswith("_")
    if public and function not in _declared:
        _declared.add(function)
        # x / 0 is infinite, as in arrays, and not an error
        overload(function, jit_options={"error_model": "numpy"})(_chooser(function))
        cpu_target.typing_context.refresh()


def _chooser(law: types.FunctionType) -> Callable[..., Any]:
    """The function that gives numba the code of a law for the types of its operands."""
    of_numbers, of_arrays = _numba_functions(law)
    signature = inspect.signature(of_numbers)

    def implementation(*given: Any, **named: Any) -> Any:
        operands = list(signature.bind(*given, **named).arguments.values())
        numbers = [kind.dtype if isinstance(kind, kinds.Array) else kind for kind in operands]
        if not all(isinstance(kind, kinds.Number | kinds.Boolean) for kind in numbers):
            return None
        return of_numbers if numbers == operands else of_arrays

    implementation.__signature__ = signature  # type: ignore[attr-defined]
    return implementation


def _numba_functions(law: types.FunctionType) -> tuple[types.FunctionType, types.FunctionType]:
    """A law of numbers, as straight-line code, and the same of arrays.

    Both are self-contained, unlike the engine's kernels: code compiled with `cache=True` is loaded
    from disk before fleetcube has made anything.
    """
    import numba
    import numpy as np

    from ..graph.formulas import parameters
    from ..graph.trace import LOOPS
    from .intrinsics import SCOPE
    from .program import Program
    from .scalar import source

    names = parameters(law)
    listed = ", ".join(names)
    code = source(Program(names, (law.__name__,), ((law.__name__, law),), ()))
    scope: dict[str, Any] = {**SCOPE, "np": np, **{name: getattr(np, name) for name in LOOPS}}
    exec(f"{code}\ndef over({listed}): return loop({listed})", scope)
    vectorize: Any = numba.vectorize
    scope["loop"] = vectorize(scope["kernel"])
    return scope["kernel"], scope["over"]
