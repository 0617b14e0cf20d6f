"""Which parameters a formula's result follows smoothly: those whose partial derivative is not zero
everywhere. A formula is run once on sets of names, many times faster than its derivatives."""

import functools
from typing import Any

from .. import elementary
from ..graph.bind import Binding
from ..graph.formulas import Function, parameters


def _joined(*values: Any) -> "_Names":
    """The value of a smooth operation: it follows what any operand follows."""
    return _Names(*(value.names for value in values if isinstance(value, _Names)))


def _flat(*_: Any) -> "_Names":
    """The value of a comparison, or of an operation that goes in steps."""
    return _Names()


class _Names:
    """A value, as the names that it follows."""

    __array_ufunc__ = None  # so that a NumPy number on the left defers to this class

    def __init__(self, *names: frozenset[str]) -> None:
        self.names = frozenset[str]().union(*names)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _joined
    __truediv__ = __rtruediv__ = __neg__ = _joined
    __lt__ = __le__ = __gt__ = __ge__ = __and__ = __rand__ = __or__ = __ror__ = _flat
    __eq__ = __ne__ = _flat  # type: ignore[assignment]
    __hash__ = object.__hash__


class _Numpy:
    """The replacement of `np`."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(elementary.numpy, name)
        if not callable(function):
            return function
        rule = _flat if name in ("ceil", "floor") else _joined

        def followed(*values: Any) -> Any:
            return (rule if any(isinstance(v, _Names) for v in values) else function)(*values)

        return followed


def _where(condition: Any, if_true: Any, if_false: Any) -> Any:
    if not isinstance(condition, _Names):
        return if_true if condition else if_false
    return _joined(if_true, if_false)


_BINDING = Binding(_Numpy(), _where)


@functools.cache
def followed(formula: Function) -> frozenset[str]:
    """The parameters of a formula that its result follows smoothly."""
    result = _BINDING.bind(formula)(*(_Names(frozenset([name])) for name in parameters(formula)))
    return result.names if isinstance(result, _Names) else frozenset()
