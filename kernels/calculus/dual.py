"""Dual numbers over any array library: values with their derivatives.

A formula that runs on duals gives its value and exact derivative: forward-mode differentiation by
operator overloading. `where` drops the tangent of the branch not taken, which may be undefined.

At a kink the derivative is that of one branch, so that derivatives of one point add up and chain:
in `where` the branch taken, in `maximum` and `minimum` the first argument, in `abs` the positive
side. `floor` and `ceil` are flat. The infinite slope of a square root at 0 is given as 0.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from ..graph.bind import Binding

# The change of a value per change of the input; None if it does not change.
Tangent = Any


class Dual:
    """A value, its tangent, and the array library that both belong to."""

    __array_ufunc__ = None  # else NumPy's arrays would apply operators to each element

    def __init__(self, library: "Library", value: Any, tangent: Tangent = None) -> None:
        self.library, self.value, self.tangent = library, value, tangent

    def _make(self, value: Any, tangent: Tangent) -> "Dual":
        return Dual(self.library, value, tangent)

    def __add__(self, other: Any) -> "Dual":
        return self._make(self.value + value_of(other), _sum(self.tangent, tangent_of(other)))

    def __radd__(self, other: Any) -> "Dual":
        return self._make(other + self.value, self.tangent)

    def __sub__(self, other: Any) -> "Dual":
        change = _sum(self.tangent, _negative(tangent_of(other)))
        return self._make(self.value - value_of(other), change)

    def __rsub__(self, other: Any) -> "Dual":
        return self._make(other - self.value, _negative(self.tangent))

    def __mul__(self, other: Any) -> "Dual":
        factor = value_of(other)
        mine = _scaled(self.tangent, factor)
        theirs = _scaled(tangent_of(other), self.value)
        return self._make(self.value * factor, _sum(mine, theirs))

    def __rmul__(self, other: Any) -> "Dual":
        return self._make(other * self.value, _scaled(self.tangent, other))

    def __truediv__(self, other: Any) -> "Dual":
        divisor = value_of(other)
        ratio = self.value / divisor
        change = _sum(self.tangent, _negative(_scaled(tangent_of(other), ratio)))
        return self._make(ratio, None if change is None else change / divisor)

    def __rtruediv__(self, other: Any) -> "Dual":
        return self._make(other, None) / self

    def __neg__(self) -> "Dual":
        return self._make(-self.value, _negative(self.tangent))

    def __lt__(self, other: Any) -> Any:
        return self.value < value_of(other)

    def __le__(self, other: Any) -> Any:
        return self.value <= value_of(other)

    def __gt__(self, other: Any) -> Any:
        return self.value > value_of(other)

    def __ge__(self, other: Any) -> Any:
        return self.value >= value_of(other)

    def __eq__(self, other: object) -> Any:
        return self.value == value_of(other)

    def __ne__(self, other: object) -> Any:
        return self.value != value_of(other)

    __hash__ = object.__hash__


def value_of(value: Any) -> Any:
    return value.value if isinstance(value, Dual) else value


def tangent_of(value: Any) -> Tangent:
    """The tangent of a dual; anything else does not change."""
    return value.tangent if isinstance(value, Dual) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, Dual | float | int) and not isinstance(value, bool)


def _is_one(value: Any) -> bool:
    return isinstance(value, float) and value == 1.0


def _sum(one: Tangent, other: Tangent) -> Tangent:
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _or_zero(tangent: Tangent) -> Any:
    return 0.0 if tangent is None else tangent


def _negative(tangent: Tangent) -> Tangent:
    return None if tangent is None else -tangent


def _scaled(tangent: Tangent, factor: Any) -> Tangent:
    if tangent is None or _is_one(factor):
        return tangent
    return factor if _is_one(tangent) else tangent * factor


class Library:
    """`np` and `where` for duals over an array library's own."""

    def __init__(self, binding: Binding) -> None:
        self.below, self.numpy, self.choose = binding, binding.numpy, binding.choose
        self.binding = Binding(self, self.where)

    def __getattr__(self, name: str) -> Any:
        rule = _RULES.get(name)
        if rule is None:
            return getattr(self.numpy, name)  # a constant; NumPy refuses a dual

        def dual(*values: Any) -> Any:
            if not any(isinstance(value, Dual) for value in values):
                return getattr(self.numpy, name)(*values)
            plain = [value_of(value) for value in values]
            result = getattr(self.numpy, name)(*plain)
            tangents = [tangent_of(value) for value in values]
            if all(tangent is None for tangent in tangents):
                return Dual(self, result)
            return Dual(self, result, rule(self, plain, tangents, result))

        return dual

    def where(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        condition = value_of(condition)
        tangents = [tangent_of(value) for value in (if_true, if_false)]
        value = self.choose(condition, value_of(if_true), value_of(if_false))
        if not all(_is_number(choice) for choice in (if_true, if_false)):
            return value  # true or false
        return Dual(self, value, self.either(condition, *tangents))

    def either(self, condition: Any, if_true: Tangent, if_false: Tangent) -> Tangent:
        if if_true is None and if_false is None:
            return None
        return self.choose(condition, _or_zero(if_true), _or_zero(if_false))


def product(binding: Binding, one: Any, other: Any) -> Any:
    """A product, with its tangent, that is 0 where a factor is, even if the other is infinite."""
    library = binding.numpy
    if isinstance(library, Library):
        pairs = ((tangent_of(one), value_of(other)), (tangent_of(other), value_of(one)))
        changes = [product(library.below, *pair) for pair in pairs if pair[0] is not None]
        value = product(library.below, value_of(one), value_of(other))
        return Dual(library, value, functools.reduce(_sum, changes, None))
    if isinstance(one, float) or isinstance(other, float):
        constant, factor = (one, other) if isinstance(one, float) else (other, one)
        return factor if constant == 1.0 else constant * factor
    return binding.choose((one == 0) | (other == 0), 0.0, one * other)


def _flat(library: Library, values: Any, tangents: Any, result: Any) -> Tangent:
    return None


def _abs(library: Library, values: Any, tangents: Any, result: Any) -> Tangent:
    return library.choose(values[0] < 0, -tangents[0], tangents[0])


def _larger(library: Library, values: Any, tangents: Any, result: Any) -> Tangent:
    return library.either(values[0] >= values[1], *tangents)


def _smaller(library: Library, values: Any, tangents: Any, result: Any) -> Tangent:
    return library.either(values[0] <= values[1], *tangents)


def _sqrt(library: Library, values: Any, tangents: Any, result: Any) -> Tangent:
    rises = result > 0
    slope = 0.5 / library.choose(rises, result, 1.0)
    return library.choose(rises, _scaled(tangents[0], slope), 0.0)


def _exp(library: Library, values: Any, tangents: Any, result: Any) -> Tangent:
    return _decayed(library, tangents[0], result)


def _expm1(library: Library, values: Any, tangents: Any, result: Any) -> Tangent:
    return _decayed(library, tangents[0], library.numpy.exp(values[0]))


def _decayed(library: Library, tangent: Tangent, slope: Any) -> Tangent:
    """A tangent times an exponential: 0 where that is 0, even if the tangent is infinite."""
    return library.choose(slope == 0, 0.0, _scaled(tangent, slope))


def _log(library: Library, values: Any, tangents: Any, result: Any) -> Tangent:
    return tangents[0] / values[0]


def _log1p(library: Library, values: Any, tangents: Any, result: Any) -> Tangent:
    return tangents[0] / (1.0 + values[0])


def _log2(library: Library, values: Any, tangents: Any, result: Any) -> Tangent:
    return tangents[0] / (math.log(2) * values[0])


Rule = Callable[[Library, Any, Any, Any], Tangent]
_RULES: dict[str, Rule] = {
    "abs": _abs,
    "ceil": _flat,
    "exp": _exp,
    "expm1": _expm1,
    "floor": _flat,
    "log": _log,
    "log1p": _log1p,
    "log2": _log2,
    "maximum": _larger,
    "minimum": _smaller,
    "sqrt": _sqrt,
}


@functools.cache
def library(binding: Binding) -> Library:
    return Library(binding)
