"""Formulas in 80 digits: mpmath numbers that divide by zero as floats do, and slopes by steps.

Nothing here knows dual numbers: a slope is a difference over a step of 1e-20 of the value.
"""

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import mpmath

from fleetcube.kernels.bind import Binding
from fleetcube.kernels.graph import parameters

DIGITS = 80
STEP = mpmath.mpf("1e-20")


class Number:
    """An mpmath number with the infinities of IEEE 754."""

    def __init__(self, value: Any) -> None:
        self.value = mpmath.mpf(value)

    def __add__(self, other: Any) -> "Number":
        return Number(self.value + plain(other))

    def __sub__(self, other: Any) -> "Number":
        return Number(self.value - plain(other))

    def __rsub__(self, other: Any) -> "Number":
        return Number(plain(other) - self.value)

    def __mul__(self, other: Any) -> "Number":
        return Number(self.value * plain(other))

    def __truediv__(self, other: Any) -> "Number":
        return Number(_divided(self.value, plain(other)))

    def __rtruediv__(self, other: Any) -> "Number":
        return Number(_divided(plain(other), self.value))

    def __neg__(self) -> "Number":
        return Number(-self.value)

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < plain(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.value <= plain(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > plain(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.value >= plain(other))

    def __eq__(self, other: object) -> bool:
        return bool(self.value == plain(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def plain(value: Any) -> Any:
    """The mpmath number, of a Number or a float."""
    return value.value if isinstance(value, Number) else mpmath.mpf(value)


def _divided(above: Any, below: Any) -> Any:
    if below != 0:
        return above / below
    return mpmath.nan if above == 0 or mpmath.isnan(above) else mpmath.inf * mpmath.sign(above)


def _real(function: Callable[[Any], Any]) -> Callable[[Any], Number]:
    """A function of a number: not a number where it leaves the real line."""

    def applied(value: Any) -> Number:
        found = function(plain(value))
        return Number(mpmath.nan if isinstance(found, mpmath.mpc) else found)

    return applied


def _extreme(pick: Callable[..., Any]) -> Callable[[Any, Any], Number]:
    return lambda one, other: Number(pick(plain(one), plain(other)))


# The stand-ins for `np` and `where`
NUMPY = SimpleNamespace(
    inf=float("inf"),
    nan=float("nan"),
    abs=_real(abs),
    ceil=_real(mpmath.ceil),
    exp=_real(mpmath.exp),
    expm1=_real(mpmath.expm1),
    floor=_real(mpmath.floor),
    log=_real(mpmath.log),
    log1p=_real(mpmath.log1p),
    log2=_real(lambda value: mpmath.log(value) / mpmath.log(2)),
    maximum=_extreme(max),
    minimum=_extreme(min),
    sqrt=_real(mpmath.sqrt),
)
BINDING = Binding(NUMPY, lambda condition, if_true, if_false: if_true if condition else if_false)


def value(formula: Callable[..., Any], arguments: list[Any]) -> Any:
    """A formula's value in 80 digits."""
    with mpmath.workdps(DIGITS):
        return plain(BINDING.bind(formula)(*[Number(argument) for argument in arguments]))


def slopes(formula: Callable[..., Any], arguments: list[Any], k: int) -> tuple[Any, Any]:
    """Slopes below and above along the k-th argument."""
    with mpmath.workdps(DIGITS):
        here = mpmath.mpf(arguments[k])
        step = STEP * (abs(here) if here else 1)
        ends = [
            value(formula, [*arguments[:k], here + s, *arguments[k + 1 :]])
            for s in (-step, 0, step)
        ]
        return (ends[1] - ends[0]) / step, (ends[2] - ends[1]) / step


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
        with mpmath.workdps(DIGITS):
            for name in names:
                formula = self.formulas[name]
                found = BINDING.bind(formula)(*[values[p] for p in parameters(formula)])
                values[name] = found if isinstance(found, Number) else Number(found)
        return values

    def slopes(self, wrt: str, share: Any = STEP) -> dict[str, tuple[Any, Any]]:
        """Slopes below and above of every quantity that an input has an effect on."""
        reached = {wrt: None}
        for name, formula in self.formulas.items():
            if not reached.keys().isdisjoint(parameters(formula)):
                reached[name] = None
        names = list(reached)[1:]
        with mpmath.workdps(DIGITS):
            here = self.values[wrt].value
            step = share * (abs(here) if here else 1)
            low = self._evaluate(names, {**self.values, wrt: Number(here - step)})
            high = self._evaluate(names, {**self.values, wrt: Number(here + step)})
            return {
                name: (
                    (self.values[name].value - low[name].value) / step,
                    (high[name].value - self.values[name].value) / step,
                )
                for name in names
            }
