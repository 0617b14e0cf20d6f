"""Interval arithmetic: bounds of formulas over boxes of points.

Formulas run on ranges as on arrays. The bounded number is the one that engines compute, not the
exact one: rounded sums, products, quotients and square roots are monotonic in their operands as the
exact ones are (IEEE 754), so the ends of a range are computed by the points' operations, without a
margin. Functions of the mathematics library (`exp`, `log` and the like) guarantee an error, not
monotonicity: their ends move out by more than that error, unless both are one number. A range whose
ends are equal is the value of every point.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import elementary
from ..graph.bind import Binding
from ..graph.trace import LOOPS

Array = Any  # one value for each box, or a single one for all

MARGIN = 2.0**-48  # relative: 16 units in the last place, where NumPy's loops guarantee 4
TINY = 1e-320  # the same for subnormal numbers
LARGE = 1.79e308  # largest value of a point where another in the box overflows


class Range:
    """Least and greatest value in each box, NaN aside; `nan` says where some may be NaN."""

    __array_ufunc__ = None  # else NumPy's arrays would apply operators to each element
    __slots__ = ("high", "low", "nan", "positive")

    def __init__(self, low: Array, high: Array, nan: Array = False) -> None:
        self.low, self.high, self.nan = low, high, nan
        self.positive = bool(np.all(low >= 0))

    def __neg__(self) -> "Range":
        return Range(-self.high, -self.low, self.nan)

    def __add__(self, other: Any) -> "Range":
        b = as_range(other)
        low, high, nan = self.low + b.low, self.high + b.high, self.nan | b.nan
        if not _finite(low, high):
            nan = nan | ((self.high == np.inf) & (b.low == -np.inf))
            nan = nan | ((self.low == -np.inf) & (b.high == np.inf))
            low, high = np.where(low == low, low, -np.inf), np.where(high == high, high, np.inf)
        return Range(low, high, nan)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Range":
        return self + -as_range(other)

    def __rsub__(self, other: Any) -> "Range":
        return -self + as_range(other)

    def __mul__(self, other: Any) -> "Range":
        a, b = self, as_range(other)
        if a.positive and b.positive:
            low, high = a.low * b.low, a.high * b.high
        elif a is b:
            least = np.where((a.low <= 0) & (a.high >= 0), 0.0, np.inf)
            ends = a.low * a.low, a.high * a.high
            low, high = np.minimum(least, np.minimum(*ends)), np.maximum(*ends)
        else:
            low, high = _hull(a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
        nan = a.nan | b.nan
        if not _finite(low, high):  # zero times infinity is NaN; with finite numbers it is zero
            nan = nan | (_has_zero(a) & _has_infinity(b)) | (_has_zero(b) & _has_infinity(a))
            corners = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
            low, high = _hull(*(np.where(end == end, end, 0.0) for end in corners))
        return Range(low, high, nan)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Range":
        return _ratio(self, as_range(other))

    def __rtruediv__(self, other: Any) -> "Range":
        return _ratio(as_range(other), self)

    def __lt__(self, other: Any) -> Any:
        b = as_range(other)
        return _test(self, "<", b, self.low < b.high, self.high >= b.low)

    def __le__(self, other: Any) -> Any:
        b = as_range(other)
        return _test(self, "<=", b, self.low <= b.high, self.high > b.low)

    def __gt__(self, other: Any) -> Any:
        return as_range(other) < self

    def __ge__(self, other: Any) -> Any:
        return as_range(other) <= self

    def __eq__(self, other: object) -> Any:
        b = as_range(other)
        if self is b:
            return Test(np.True_, self.nan)
        meet = (self.low <= b.high) & (b.low <= self.high)
        one = (self.low == self.high) & (b.low == b.high) & (self.low == b.low)
        return _test(self, "==", b, meet, np.logical_not(one))

    def __ne__(self, other: object) -> Any:
        return (self == other).opposite()

    __hash__ = object.__hash__


class Test:
    """Whether a condition may hold, and fail, in each box; all comparisons in `parts` must hold."""

    __array_ufunc__ = None

    def __init__(self, holds: Array, fails: Array, parts: tuple[Any, ...] = ()) -> None:
        self.holds, self.fails, self.parts = holds, fails, parts

    def opposite(self) -> "Test":
        return Test(self.fails, self.holds)

    def __and__(self, other: Any) -> "Test":
        b = _as_test(other)
        return Test(self.holds & b.holds, self.fails | b.fails, self.parts + b.parts)

    __rand__ = __and__

    def __or__(self, other: Any) -> "Test":
        b = _as_test(other)
        return Test(self.holds | b.holds, self.fails & b.fails)

    __ror__ = __or__


def as_range(value: Any) -> Range:
    """A range; of a number, that number alone."""
    if isinstance(value, Range):
        return value
    if isinstance(value, Test):  # true and false count as numbers
        low, high = np.where(value.fails, 0.0, 1.0), np.where(value.holds, 1.0, 0.0)
        return Range(np.minimum(low, high), np.maximum(low, high))
    number = np.float64(value)
    if number != number:
        return Range(np.float64(-np.inf), np.float64(np.inf), np.True_)
    return Range(number, number)


def _as_test(value: Any) -> Test:
    return value if isinstance(value, Test) else Test(np.bool_(value), np.bool_(not value))


def _test(a: Range, sign: str, b: Range, holds: Array, fails: Array) -> Test:
    return Test(holds, fails | a.nan | b.nan, ((a, sign, b),))  # with NaN no comparison holds


def _finite(low: Array, high: Array) -> bool:
    return bool(np.isfinite(low).all() and np.isfinite(high).all())


def _has_zero(a: Range) -> Array:
    return (a.low <= 0) & (a.high >= 0)


def _has_infinity(a: Range) -> Array:
    return (a.low == -np.inf) | (a.high == np.inf)


def _hull(*ends: Array) -> tuple[Array, Array]:
    low, high = ends[0], ends[0]
    for end in ends[1:]:
        low, high = np.minimum(low, end), np.maximum(high, end)
    return low, high


def _ratio(a: Range, b: Range) -> Range:
    nan = a.nan | b.nan
    if b.positive and np.all(b.low > 0):
        if a.positive:
            low, high = a.low / b.high, a.high / b.low
        else:
            low = a.low / np.where(a.low < 0, b.low, b.high)
            high = a.high / np.where(a.high < 0, b.high, b.low)
        if _finite(low, high):
            return Range(low, high, nan)
    zero = _has_zero(b)  # of either sign: the ratio may be as well
    ends = (a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high)
    low, high = _hull(*(np.where(end == end, end, 0.0) for end in ends))
    both = _has_infinity(a) & _has_infinity(b)  # NaN, and finite operands give any ratio
    low = np.where(
        zero | (both & (a.low < 0) | both & (b.low < 0)), -np.inf, np.where(both, 0.0, low)
    )
    high = np.where(zero | both, np.inf, high)
    return Range(low, high, nan | both | (zero & _has_zero(a)))


class Library:
    """`np` and `where` for ranges."""

    def __init__(self) -> None:
        self.binding = Binding(self, where)

    def __getattr__(self, name: str) -> Any:
        plain, rule = getattr(np, name), _RULES.get(name)
        if rule is None:
            return plain  # a constant; NumPy refuses a range

        def ranged(*values: Any) -> Any:
            if not any(isinstance(value, Range) for value in values):
                return plain(*values)
            return rule(*map(as_range, values))

        return ranged


def where(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Choose ranges; both where the condition may hold or fail."""
    test = _as_test(condition)
    if not np.any(test.fails):
        return if_true
    if not np.any(test.holds):
        return if_false
    if all(isinstance(value, Test | bool | np.bool_) for value in (if_true, if_false)):
        yes, no = _as_test(if_true), _as_test(if_false)
        holds = (test.holds & yes.holds) | (test.fails & no.holds)
        return Test(holds, (test.holds & yes.fails) | (test.fails & no.fails))
    a, b = as_range(if_true), as_range(if_false)
    chosen, other = a, b
    for x, sign, y in test.parts:
        if x is chosen or y is chosen:
            a = _where_holds(a, x is chosen, sign, y if x is chosen else x)
        if len(test.parts) == 1 and (x is other or y is other):
            b = _where_fails(b, x is other, sign, y if x is other else x)
    low = np.minimum(np.where(test.holds, a.low, np.inf), np.where(test.fails, b.low, np.inf))
    high = np.maximum(np.where(test.holds, a.high, -np.inf), np.where(test.fails, b.high, -np.inf))
    return Range(low, high, (test.holds & a.nan) | (test.fails & b.nan))


def _where_holds(a: Range, first: bool, sign: str, other: Range) -> Range:
    """One operand of a comparison, the first or second, where it holds."""
    low, high = a.low, a.high
    if sign == "==":
        low, high = np.maximum(low, other.low), np.minimum(high, other.high)
    elif first:
        high = np.minimum(high, other.high if sign == "<=" else np.nextafter(other.high, -np.inf))
    else:
        low = np.maximum(low, other.low if sign == "<=" else np.nextafter(other.low, np.inf))
    return _refined(low, high, False)


def _where_fails(b: Range, first: bool, sign: str, other: Range) -> Range:
    """One operand of a comparison, the first or second, where it fails."""
    low, high = b.low, b.high
    if sign == "==":
        one = other.low == other.high
        low = np.where(one & (low == other.low), np.nextafter(low, np.inf), low)
        high = np.where(one & (high == other.low), np.nextafter(high, -np.inf), high)
    elif not np.any(b.nan | other.nan):  # with NaN a comparison fails, whatever the numbers
        if first:
            low = np.maximum(low, other.low if sign == "<" else np.nextafter(other.low, np.inf))
        else:
            end = other.high if sign == "<" else np.nextafter(other.high, -np.inf)
            high = np.minimum(high, end)
    return _refined(low, high, b.nan)


def _refined(low: Array, high: Array, nan: Array) -> Range:
    """A range; where it is empty its ends do not matter, but are kept in order."""
    return Range(np.minimum(low, high), np.maximum(low, high), nan)


def _abs(a: Range) -> Range:
    low = np.where(_has_zero(a), 0.0, np.minimum(np.abs(a.low), np.abs(a.high)))
    return Range(low, np.maximum(np.abs(a.low), np.abs(a.high)), a.nan)


def _larger(a: Range, b: Range) -> Range:
    return Range(np.maximum(a.low, b.low), np.maximum(a.high, b.high), a.nan | b.nan)


def _smaller(a: Range, b: Range) -> Range:
    return Range(np.minimum(a.low, b.low), np.minimum(a.high, b.high), a.nan | b.nan)


def _rising(name: str) -> Callable[..., Range]:
    """The rule of an increasing function: NaN below its domain, and never below a floor."""
    function = getattr(elementary.numpy, name)
    least, floor = elementary.BOUNDS.get(name, (-np.inf, -np.inf))

    def rule(a: Range) -> Range:
        low, high = function(np.maximum(a.low, least)), function(np.maximum(a.high, least))
        if name in LOOPS:
            loose = (a.low != a.high) & np.isfinite(low)
            low = np.where(loose, np.maximum(low - np.abs(low) * MARGIN - TINY, floor), low)
            low = np.where((a.low != a.high) & (low == np.inf), LARGE, low)
            loose = (a.low != a.high) & np.isfinite(high)
            high = np.where(loose, high + np.abs(high) * MARGIN + TINY, high)
        return Range(low, high, a.nan | (a.low < least))

    return rule


_RULES: dict[str, Callable[..., Range]] = {
    **{name: _rising(name) for name in (*elementary.INSTRUCTIONS, *LOOPS)},
    **{"abs": _abs, "maximum": _larger, "minimum": _smaller},
}


@functools.cache
def library() -> Library:
    """The library of ranges, and with `binding` the formulas bound to it."""
    return Library()
