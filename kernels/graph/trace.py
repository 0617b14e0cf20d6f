"""Run formulas on symbolic values to list the operations that they compute.

Formulas are branch-free, so one run shows every operation. Equal operations are recorded once,
across formulas.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import elementary
from .bind import Binding
from .formulas import Function, parameters

LOOPS = tuple(elementary.FUNCTIONS)  # slow: one loop each
LIGHT = tuple(sorted((*elementary.INSTRUCTIONS, "maximum", "minimum")))


@dataclass(frozen=True)
class Operation:
    """One elementary operation: a Python expression over names, or a function of `LOOPS`."""

    text: str
    reads: tuple[str, ...]
    loop: str = ""
    flag: bool = False  # true or false, not a number


class Trace:
    """Operations in the order in which they are first needed, by name."""

    def __init__(self) -> None:
        self.operations: dict[str, Operation] = {}
        self._values: dict[Operation, Value] = {}

    def run(self, formula: Function, arguments: Sequence[Any]) -> Any:
        """The result of a formula for these values: a value of this trace, or a number."""
        with np.errstate(all="ignore"):
            return _binding().bind(formula)(*arguments)

    def record(
        self, template: str, values: Sequence[Any], loop: str = "", flag: bool = False
    ) -> "Value":
        """The value of an operation; `template` has a pair of braces for each operand."""
        text = template.format(*map(written, values))
        reads = tuple(dict.fromkeys(v.name for v in values if isinstance(v, Value)))
        operation = Operation(text, reads, loop, flag)
        if operation not in self._values:
            value = Value(self, f"k{len(self.operations)}", flag)
            self._values[operation] = value
            self.operations[value.name] = operation
        return self._values[operation]


def _both(template: str, flag: bool = False) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator of two operands, and the same with the operands exchanged."""

    def straight(self: "Value", other: Any) -> Any:
        return self.trace.record(template, (self, other), flag=flag)

    def reflected(self: "Value", other: Any) -> Any:
        return self.trace.record(template, (other, self), flag=flag)

    return straight, reflected


class Value:
    __array_ufunc__ = None  # so that a NumPy number on the left defers to this class

    def __init__(self, trace: Trace, name: str, flag: bool = False) -> None:
        self.trace, self.name, self.flag = trace, name, flag

    __add__, __radd__ = _both("({} + {})")
    __sub__, __rsub__ = _both("({} - {})")
    __mul__, __rmul__ = _both("({} * {})")
    __truediv__, __rtruediv__ = _both("({} / {})")
    __and__, __rand__ = _both("({} & {})", flag=True)
    __or__, __ror__ = _both("({} | {})", flag=True)
    __lt__, __gt__ = _both("({} < {})", flag=True)
    __le__, __ge__ = _both("({} <= {})", flag=True)
    __eq__, _ = _both("({} == {})", flag=True)
    __ne__, _ = _both("({} != {})", flag=True)
    __hash__ = object.__hash__

    def __neg__(self) -> Any:
        return self.trace.record("(-{})", (self,))

    def __bool__(self) -> bool:
        raise TypeError("a formula must not branch on a value; use where, and & or | of conditions")


def written(value: Any) -> str:
    """An operand in the source of a kernel."""
    if isinstance(value, Value):
        return value.name
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    text = repr(float(value))
    return f"np.{text}" if text in ("inf", "nan") else f"({text.replace('inf', 'np.inf')})"


def where(condition: Any, if_true: Any, if_false: Any) -> Any:
    if not isinstance(condition, Value):
        return if_true if condition else if_false
    flag = all(isinstance(v, bool) or getattr(v, "flag", False) for v in (if_true, if_false))
    return condition.trace.record("select({}, {}, {})", (condition, if_true, if_false), flag=flag)


class _Numpy:
    """The replacement of `np`: records functions of values, and leaves numbers to NumPy."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(elementary.numpy, name)
        if name not in (*LOOPS, *LIGHT):
            return function

        def traced(*values: Any) -> Any:
            trace = next((v.trace for v in values if isinstance(v, Value)), None)
            if trace is None:
                return function(*values)
            template = f"{name}({', '.join(['{}'] * len(values))})"
            if len(values) == 2:  # libraries and processors differ in which of -0 and 0 is larger
                template = f"({template} + (0.0))"
            return trace.record(template, values, loop=name if name in LOOPS else "")

        return traced


@functools.cache
def _binding() -> Binding:
    return Binding(_Numpy(), where)


@functools.cache
def is_heavy(formula: Function) -> bool:
    trace = Trace()
    trace.run(formula, [Value(trace, name) for name in parameters(formula)])
    return any(operation.loop for operation in trace.operations.values())
