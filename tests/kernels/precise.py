"""Formulas in 80 digits: mpmath numbers that divide by zero as floats do, and slopes by steps.

No dual numbers here: a slope is a difference over a step of 1e-20 of the value, which is below the
resolution of floats.
"""

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np

from fleetcube.kernels.graph.bind import Binding
from fleetcube.kernels.graph.formulas import parameters

DIGITS = 80
STEP = mpmath.mpf("1e-20")


class Number:
    """An mpmath number with the infinities of IEEE 754, and the float64 of the same operations.

    The float decides comparisons and rounding to whole numbers, so the derivative is taken on its
    side of every step and kink.
    """

    def __init__(self, value: Any, shadow: Any = None) -> None:
        self.value = mpmath.mpf(value)
        self.shadow = np.float64(self.value if shadow is None else shadow)

    def __add__(self, other: Any) -> "Number":
        other = number(other)
        return Number(self.value + other.value, self.shadow + other.shadow)

    def __sub__(self, other: Any) -> "Number":
        other = number(other)
        return Number(self.value - other.value, self.shadow - other.shadow)

    def __mul__(self, other: Any) -> "Number":
        other = number(other)
        return Number(self.value * other.value, self.shadow * other.shadow)

    def __truediv__(self, other: Any) -> "Number":
        other = number(other)
        return Number(_divided(self.value, other.value), self.shadow / other.shadow)

    def __rsub__(self, other: Any) -> "Number":
        return number(other) - self

    def __rtruediv__(self, other: Any) -> "Number":
        return number(other) / self

    def __neg__(self) -> "Number":
        return Number(-self.value, -self.shadow)

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other: Any) -> bool:
        return bool(self.shadow < number(other).shadow)

    def __le__(self, other: Any) -> bool:
        return bool(self.shadow <= number(other).shadow)

    def __gt__(self, other: Any) -> bool:
        return bool(self.shadow > number(other).shadow)

    def __ge__(self, other: Any) -> bool:
        return bool(self.shadow >= number(other).shadow)

    def __eq__(self, other: object) -> bool:
        return bool(self.shadow == number(other).shadow)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def number(value: Any) -> Number:
    return value if isinstance(value, Number) else Number(value)


def _divided(above: Any, below: Any) -> Any:
    if below != 0:
        return above / below
    return mpmath.nan if above == 0 or mpmath.isnan(above) else mpmath.inf * mpmath.sign(above)


def _real(name: str, function: Callable[[Any], Any] | None = None) -> Callable[[Any], Number]:
    """A function of a number; NaN where it leaves the real line."""
    precise, rounded = function or getattr(mpmath, name), getattr(np, name)

    def applied(value: Any) -> Number:
        found = precise(number(value).value)
        found = mpmath.nan if isinstance(found, mpmath.mpc) else found
        return Number(found, rounded(number(value).shadow))

    return applied


def _abs(value: Any) -> Number:
    return number(value) if number(value) >= 0 else -number(value)


def _maximum(one: Any, other: Any) -> Number:
    one, other = number(one), number(other)
    return other if one < other or np.isnan(other.shadow) else one


# The stand-ins for `np` and `where`
NUMPY = SimpleNamespace(
    inf=float("inf"),
    nan=float("nan"),
    abs=_abs,
    ceil=lambda value: Number(np.ceil(number(value).shadow)),
    exp=_real("exp"),
    expm1=_real("expm1"),
    floor=lambda value: Number(np.floor(number(value).shadow)),
    log=_real("log"),
    log1p=_real("log1p"),
    log2=_real("log2", lambda value: mpmath.log(value) / mpmath.log(2)),
    maximum=_maximum,
    minimum=lambda one, other: -_maximum(-number(one), -number(other)),
    sqrt=_real("sqrt"),
)
BINDING = Binding(NUMPY, lambda condition, if_true, if_false: if_true if condition else if_false)


def value(formula: Callable[..., Any], arguments: list[Any]) -> Any:
    with mpmath.workdps(DIGITS), np.errstate(all="ignore"):
        return number(BINDING.bind(formula)(*[Number(argument) for argument in arguments])).value


def slopes(formula: Callable[..., Any], arguments: list[Any], k: int) -> tuple[Any, Any]:
    """Slopes below and above along the k-th argument: floats feel the step only from 0."""
    with mpmath.workdps(DIGITS):
        here = mpmath.mpf(arguments[k])
        step = STEP * (abs(here) if here else 1)

        def at(change: Any) -> Any:
            return value(formula, [*arguments[:k], here + change, *arguments[k + 1 :]])

        above = (at(step) - at(0)) / step
        return above if here else (at(0) - at(-step)) / step, above


class Graph:
    """The values of a graph's formulas in 80 digits, and their slopes along an input."""

    def __init__(
        self, formulas: Mapping[str, Callable[..., Any]], leaves: Mapping[str, float]
    ) -> None:
        self.formulas = formulas
        given = {name: Number(leaf) for name, leaf in leaves.items()}
        self.values = self._evaluate(formulas, given)

    def _evaluate(self, names: Iterable[str], given: Mapping[str, Number]) -> dict[str, Number]:
        values = dict(given)
        with mpmath.workdps(DIGITS), np.errstate(all="ignore"):
            for name in names:
                formula = self.formulas[name]
                values[name] = number(
                    BINDING.bind(formula)(*[values[p] for p in parameters(formula)])
                )
        return values

    def slopes(self, wrt: str, share: Any = STEP) -> dict[str, Any]:
        """Slopes of every quantity that depends on an input; at 0, those above."""
        reached = {wrt: None}
        for name, formula in self.formulas.items():
            if not reached.keys().isdisjoint(parameters(formula)):
                reached[name] = None
        names = list(reached)[1:]
        with mpmath.workdps(DIGITS):
            here = self.values[wrt].value
            step = share * (abs(here) if here else 1)
            high = self._evaluate(names, {**self.values, wrt: Number(here + step)})
            return {name: (high[name].value - self.values[name].value) / step for name in names}
