"""exp, log and similar functions by arithmetic alone: the same bits on every processor.

NumPy and the C library choose code, and with it last bits, by the processor's features. Sums,
products, quotients and bit shifts are the same everywhere, and so are values made of them. Each
function is written once, over a library's operations: NumPy's for arrays, Python's for a number,
those of a trace for kernels.

All are within two units in the last place, over all of float64 (tests/kernels/test_elementary.py).
"""

import functools
import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

CHUNK = 1 << 12  # points of NumPy's temporaries: 32 kB each reuse memory just freed
FEW = 16  # smaller arrays are faster number by number

LOG2_E = 1.4426950408889634
LN2_HIGH = 0x162E42FEFA3 / 2**41  # ln 2 to 41 bits: its multiples up to 1075 are exact
LN2_LOW = 2.8235290563031577e-13  # ln 2 less LN2_HIGH
ROUND = 1.5 * 2**52  # added and taken away: the nearest whole number
LEAST = 2.0**-1022  # of normal numbers
RAISED = 2.0**52 + 1023  # whose bits end in 1023, as the exponent is kept
EXP = tuple(1 / math.factorial(n) for n in range(2, 15))  # (e^r - 1 - r) / r^2, |r| < 0.35
LOG = tuple(2 / (2 * n + 1) for n in range(1, 12))  # ln((1 + s) / (1 - s)) / s - 2, over s^2


def _exp(library: Any, x: Any) -> Any:
    """e^x = 2^k e^r, k whole and |r| < 0.35; 2^k in two steps, as it may be out of range."""
    x = library.minimum(library.maximum(x, -746.0), 710.0)  # 0 and infinite beyond
    k, rise = _reduced(x)
    half = _rounded(0.5 * k)
    return (1.0 + rise) * library.two_to(half) * library.two_to(k - half)


def _expm1(library: Any, x: Any) -> Any:
    """e^x - 1 = 2^k (e^r - 1) + (2^k - 1), twice the half of it: 2^1024 is out of range."""
    x = library.minimum(library.maximum(x, -50.0), 710.0)  # -1 and infinite beyond
    k, rise = _reduced(x)
    half = library.two_to(k - 1.0)
    return 2.0 * (rise * half - (0.5 - half))


def _log(library: Any, x: Any) -> Any:
    """ln x = k ln 2 + ln(1 + f), x = 2^k (1 + f)."""
    k, f = _split(library, x)
    square, rest = _log_of(f)
    value = k * LN2_HIGH - ((square - (rest + k * LN2_LOW)) - f)
    return _of_log(library, x, value)


def _log1p(library: Any, x: Any) -> Any:
    """ln(1 + x), corrected for the rounding of 1 + x."""
    above = 1.0 + x
    lost = (x - (above - 1.0)) / library.maximum(above, LEAST)
    value = _log(library, above) + library.where((x > -1.0) & (x < 2.0**53), lost, 0.0)
    return library.where(x == 0.0, x, value)  # -0 of -0


def _log2(library: Any, x: Any) -> Any:
    """log2 x = k + ln(1 + f) / ln 2, x = 2^k (1 + f)."""
    k, f = _split(library, x)
    square, rest = _log_of(f)
    return _of_log(library, x, k + (f - (square - rest)) * LOG2_E)


def _rounded(x: Any) -> Any:
    return (x + ROUND) - ROUND


def _reduced(x: Any) -> tuple[Any, Any]:
    """The whole k nearest to x / ln 2, and e^r - 1, r = x - k ln 2."""
    k = _rounded(x * LOG2_E)
    high, low = x - k * LN2_HIGH, k * LN2_LOW
    r = high - low
    return k, high - (low - r * r * _series(r, EXP))


def _split(library: Any, x: Any) -> tuple[Any, Any]:
    """k and f of x = 2^k (1 + f), 1 + f between the roots of 1/2 and 2."""
    below = x < LEAST
    normal = library.where(below, x * 2.0**54, x)
    k = library.exponent(normal) - library.where(below, 54.0, 0.0)
    of_one = library.significand(normal)
    large = of_one > math.sqrt(2)
    return library.where(large, k + 1.0, k), library.where(large, 0.5 * of_one, of_one) - 1.0


def _log_of(f: Any) -> tuple[Any, Any]:
    """f^2 / 2, and ln(1 + f) - (f - f^2 / 2)."""
    s = f / (2.0 + f)
    square, over = 0.5 * f * f, s * s
    return square, s * (square + over * _series(over, LOG))


def _of_log(library: Any, x: Any, value: Any) -> Any:
    """A logarithm's value where it is finite, else -infinity, infinity or NaN."""
    edge = library.where(x == 0.0, -math.inf, library.where(x > 0.0, math.inf, math.nan))
    return library.where((x > 0.0) & (x < math.inf), value, edge)


def _series(x: Any, coefficients: Sequence[float]) -> Any:
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    function.__name__[1:]: function for function in (_exp, _expm1, _log, _log1p, _log2)
}
# Functions of one number that processors have, by LLVM's names
INSTRUCTIONS = {"abs": "fabs", "ceil": "ceil", "floor": "floor", "sqrt": "sqrt"}
# Where functions are NaN below a number, or have no value below one: both numbers
BOUNDS = {
    **dict.fromkeys(("log", "log2", "sqrt"), (0.0, -math.inf)),
    **{"log1p": (-1.0, -math.inf), "exp": (-math.inf, 0.0), "expm1": (-math.inf, -1.0)},
}


def _bits(x: Any) -> Any:
    return x.view(np.uint64)


WIDTH = 52  # bits of the fraction; above it, the exponent plus 1023
TWO_TO_52, ONE, FRACTION = 0x433 << WIDTH, 0x3FF << WIDTH, (1 << WIDTH) - 1  # bits of numbers
_WIDTH, _TWO_TO_52, _ONE, _FRACTION = map(np.uint64, (WIDTH, TWO_TO_52, ONE, FRACTION))

ARRAYS = SimpleNamespace(
    minimum=np.minimum,
    maximum=np.maximum,
    where=np.where,
    two_to=lambda k: (_bits(k + RAISED) << _WIDTH).view(np.float64),
    exponent=lambda x: (_bits(x) >> _WIDTH | _TWO_TO_52).view(np.float64) - RAISED,
    significand=lambda x: (_bits(x) & _FRACTION | _ONE).view(np.float64),
)
NUMBERS = SimpleNamespace(
    minimum=lambda x, y: x if x != x or x <= y else y,
    maximum=lambda x, y: x if x != x or x >= y else y,
    where=lambda condition, one, other: one if condition else other,
    two_to=lambda k: math.ldexp(1.0, int(k)) if k == k else math.nan,
    exponent=lambda x: math.frexp(x)[1] - 1.0,
    significand=lambda x: 2.0 * math.frexp(abs(x))[0],
)


class Numpy:
    """NumPy, but for the functions of this module."""

    def __getattr__(self, name: str) -> Any:
        value = functools.partial(_on_any, name) if name in FUNCTIONS else getattr(np, name)
        if name in ("maximum", "minimum"):
            value = functools.partial(_without_negative_zero, value)
        setattr(self, name, value)  # made once
        return value


def _without_negative_zero(function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """The function's values, 0 for -0: which of the two is larger depends on the processor."""
    values = function(x, y)
    if isinstance(values, np.floating | np.ndarray) and values.dtype.kind == "f":
        values += 0.0
    return values


def _on_any(name: str, x: Any) -> Any:
    """The function of a number or an array in float64; NumPy's of an array of another precision."""
    function = FUNCTIONS[name]
    if not isinstance(x, np.ndarray):
        return np.float64(function(NUMBERS, float(x)))
    if x.dtype != np.float64 and x.dtype.kind not in "biu":
        return getattr(np, name)(x)
    flat = np.ascontiguousarray(x, np.float64).reshape(-1)
    out = np.empty_like(flat)
    if flat.size < FEW:
        out[:] = [function(NUMBERS, value) for value in flat.tolist()]
    else:
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, CHUNK):
                out[start : start + CHUNK] = function(ARRAYS, flat[start : start + CHUNK])
    return out.reshape(x.shape)


numpy: Any = Numpy()
exp, log = numpy.exp, numpy.log
