"""One point of a program as straight-line source, for Python's interpreter or numba.

The operations and their order are those of the engines, so values are NumPy's to the last bit.
"""

import ast
import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import elementary
from ..graph.trace import LIGHT, LOOPS, written
from . import kernel_cache
from .program import Program

if TYPE_CHECKING:  # imports numba
    from .machine_code import Loaded

CALLS = 2000  # of a function, which take as long as its compilation


def source(program: Program) -> str:
    """Source of `kernel(*inputs)`: a number or a tuple; flags are int8, -1 where undefined."""
    trace, results = program.trace()
    lines = [f"    {name} = float64({name})" for name in program.inputs]
    for name, operation in trace.operations.items():
        lines.append(f"    {name} = {operation.text}")
    texts = []
    for name, result in zip(program.outputs, results, strict=True):
        value = written(result)
        flag = f"int8(select({value} != {value}, -1.0, {value}))"
        texts.append(flag if name in program.flags else f"float64({value})")
    head = f"def kernel({', '.join(program.inputs)}):"
    answer = f"({', '.join(texts)})" if len(texts) > 1 else texts[0]
    return "\n".join([head, *lines, f"    return {answer}", ""])


class _Inlined(ast.NodeTransformer):
    """Replaces `select` by an expression, and constants by NumPy's: plain floats raise on x / 0."""

    def __init__(self) -> None:
        self.constants: dict[str, np.float64] = {}

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, float):
            return node
        name = f"c{len(self.constants)}"
        self.constants[name] = np.float64(node.value)
        return ast.Name(name, ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "select":
            return ast.IfExp(*node.args)
        return node


@functools.lru_cache(maxsize=256)
def interpreted(program: Program) -> Callable[..., Any]:
    """One point as Python evaluates it, on NumPy's numbers."""
    inlined = _Inlined()
    tree = ast.fix_missing_locations(inlined.visit(ast.parse(source(program))))
    scope: dict[str, Any] = {
        **{name: getattr(elementary.numpy, name) for name in (*LOOPS, *LIGHT)},
        **{"abs": abs, "float64": np.float64, "int8": np.int8, "np": np},
        **inlined.constants,
    }
    exec(compile(tree, "<fleetcube point>", "exec"), scope)
    kernel = scope["kernel"]

    def point(*values: Any) -> Any:
        with np.errstate(all="ignore"):
            return kernel(*values)

    return point


class Compiling:
    """One point, interpreted until a kernel is compiled in the background, to the same bits."""

    def __init__(self, program: Program) -> None:
        self._program, self._interpreted = program, interpreted(program)
        self._left = CALLS
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *values: float) -> Any:
        if self._compiled is not None:
            return self._compiled(*values)
        self._left -= 1
        if self._left <= 0:
            self._left = CALLS // 10  # then it looks again
            self._compile()
        return self._interpreted(*values)

    def _compile(self) -> None:
        from . import numba as numba_engine

        given = np.zeros(len(self._program.inputs))
        job = self._program.job([given[k : k + 1] for k in range(given.size)], (1,))
        numba_engine.compile_behind(job)
        fill, free, outs = numba_engine.filling(job), threading.Lock(), list(job.outs.values())
        if fill is None:
            return

        def point(*values: float) -> Any:
            if not free.acquire(blocking=False):  # by another thread, or one lost in a fork
                return self._interpreted(*values)
            try:
                given[:] = values
                fill()
                results = [out[0] for out in outs]
            finally:
                free.release()
            return tuple(results) if len(results) > 1 else results[0]

        self._compiled = point


@functools.lru_cache(maxsize=256)
def compiled(program: Program) -> "Loaded":
    """One point as numba compiles it; machine code is cached on disk like that of kernels."""
    from numba.core import types

    from . import intrinsics, point_code

    text, scope = source(program), {"np": np, **intrinsics.SCOPE}
    if any(f" {name}(" in text for name in LOOPS):
        scope |= intrinsics.called()
    signature = (types.float64,) * len(program.inputs)
    code, _ = kernel_cache.cached_code(
        f"{signature}\n{text}\n{point_code.made_by()}",
        lambda: point_code.compiled(text, scope, signature),
    )
    return point_code.load(code)
