"""Derivatives as quantities: from formulas to the formulas of their derivatives.

`d_Y_d_X` is the exact derivative of a quantity Y with respect to an input X, `dln_Y_dln_X` its
elasticity. `delta_Y_delta_X` is the slope between the valid whole numbers on both sides of X, and
`deltaln_Y_deltaln_X` that of the logarithms. They are evaluated by all engines, like any quantity.

A formula's partial derivatives are the formula itself, run on dual numbers. Over the graph they are
chained backwards from Y, once for all inputs, among the quantities that have Y's own dimensions;
where the dimensions become fewer, the derivatives of the smaller quantity are made in the same way
on its own, smaller grid. So the chain runs backwards where grids are large and values are many, and
the large grid holds no more than it must.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import dual
from .bind import Binding, Made
from .docstrings import Doc
from .graph import Function, Quantity, UnknownNameError, load, parameters
from .inputs import INPUTS
from .ops import where
from .trace import Trace, Value

KINDS = ("d", "dln", "delta", "deltaln")
_NAME = re.compile(rf"({'|'.join(KINDS)})_(\w+?)_\1_(\w+)")
REASON = "expert_layout_reason"  # why a layout cannot be laid out: 0 at a valid neighbour
SOURCE = "the chain rule, on the formulas of the quantity"


# Names


@dataclass(frozen=True)
class Derivative:
    """A quantity that is the derivative of another one."""

    name: str
    kind: str
    of: str
    wrt: str
    option: None = None

    @property
    def unit(self) -> str:
        """Unit of the quantity over that of the input; 1 for elasticities."""
        above, below = load()[self.of].unit, unit_of(self.wrt)
        if self.kind in ("dln", "deltaln") or above == below:
            return "1"
        if below == "1":
            return above
        return f"{above}/({below})" if "/" in below else f"{above}/{below}"

    @property
    def doc(self) -> Doc:
        """Unit and meaning."""
        said = {
            "d": f"Derivative of {self.of} with respect to {self.wrt}",
            "dln": f"Elasticity of {self.of}: relative change over that of {self.wrt}",
            "delta": f"Slope of {self.of} between the whole {self.wrt} below and above",
            "deltaln": f"Relative change of {self.of} over that of {self.wrt}, between the whole "
            "numbers below and above",
        }[self.kind]
        return Doc(f"{said}.", self.name, {}, self.unit, "", {}, SOURCE, "")


def name_of(kind: str, of: str, wrt: str) -> str:
    """The name of a derivative."""
    return f"{kind}_{of}_{kind}_{wrt}"


@functools.cache
def derivative(name: str) -> Derivative | None:
    """What a name of the form d_Y_d_X means; None for other names."""
    match = _NAME.fullmatch(name)
    if match is None or match.group(2) not in load() or load()[match.group(2)].unit == "flag":
        return None
    wrt = match.group(3)
    if wrt in INPUTS:
        known = INPUTS[wrt].kind == "count" or (
            INPUTS[wrt].kind == "real" and not match.group(1).startswith("delta")
        )
    else:
        known = wrt in load() and load()[wrt].unit != "flag" and wrt != match.group(2)
    return Derivative(name, match.group(1), match.group(2), wrt) if known else None


def quantity(name: str) -> Quantity | Derivative:
    """The quantity of a name, derivatives among them. Raises UnknownNameError."""
    found = load().get(name) or derivative(name)
    if found is None:
        raise UnknownNameError(f"{name!r} is not a quantity")
    return found


def is_quantity(name: str) -> bool:
    """Whether a name is that of a quantity or of a derivative."""
    return name in load() or derivative(name) is not None


def unit_of(name: str) -> str:
    """Base unit of an input, a quantity or a derivative."""
    return INPUTS[name].unit if name in INPUTS else quantity(name).unit


def reaches(formulas: Mapping[str, Function], outputs: Iterable[str]) -> frozenset[str]:
    """The names that some outputs depend on, and do not ignore: whose changes reach them."""
    found = set(outputs)
    for name in reversed(list(formulas)):
        if name in found:
            formula = formulas[name]
            found |= {p for p in parameters(formula) if partial(formula, p) != 0.0}
    return frozenset(found)


# Formulas made from others


@dataclass(frozen=True, repr=False)
class Partial(Made):
    """A formula's derivative with respect to one parameter, the others fixed.

    `parameters` are those of the formula's that it depends on.
    """

    formula: Function
    wrt: str
    parameters: tuple[str, ...]

    @property
    def sources(self) -> tuple[Function, ...]:  # type: ignore[override]
        """The formula."""
        return (self.formula,)

    def bound(self, binding: Binding) -> Callable[..., Any]:
        """The formula on dual numbers; what does not matter is undefined."""
        duals = dual.library(binding)
        formula = duals.binding.bind(self.formula)
        names, wrt = parameters(self.formula), self.wrt
        positions = {name: k for k, name in enumerate(self.parameters)}

        def partial(*values: Any) -> Any:
            operands = [
                dual.Dual(
                    duals,
                    values[positions[name]] if name in positions else np.float64(np.nan),
                    1.0 if name == wrt else None,
                )
                for name in names
            ]
            tangent = dual.tangent_of(formula(*operands))
            return 0.0 if tangent is None else tangent

        return partial


@dataclass(frozen=True, repr=False)
class Chain(Made):
    """A sum of products: how a change goes along several ways.

    Nothing goes on from a factor of 0, were the other one infinite.
    """

    terms: tuple[tuple[str | float, str | float], ...]

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names among the factors."""
        named = (factor for term in self.terms for factor in term if isinstance(factor, str))
        return tuple(dict.fromkeys(named))

    def bound(self, binding: Binding) -> Callable[..., Any]:
        """The sum."""
        choose = binding.choose

        def product(one: Any, other: Any) -> Any:
            if isinstance(one, float) or isinstance(other, float):
                constant, factor = (one, other) if isinstance(one, float) else (other, one)
                return factor if constant == 1.0 else constant * factor
            return choose((one == 0) | (other == 0), 0.0, one * other)

        def chain(*values: Any) -> Any:
            held = dict(zip(self.parameters, values, strict=True))
            total: Any = None
            for term in self.terms:
                one, other = (held[f] if isinstance(f, str) else f for f in term)
                added = product(one, other)
                total = added if total is None else total + added
            return 0.0 if total is None else total

        return chain


@dataclass(frozen=True, repr=False)
class Renamed(Made):
    """A formula whose parameters go by other names."""

    formula: Function
    parameters: tuple[str, ...]

    @property
    def sources(self) -> tuple[Function, ...]:  # type: ignore[override]
        """The formula."""
        return (self.formula,)

    def bound(self, binding: Binding) -> Callable[..., Any]:
        """The formula."""
        return binding.bind(self.formula)  # type: ignore[no-any-return]


@functools.cache
def partial(formula: Function, wrt: str) -> Partial | float:
    """A formula's derivative with respect to a parameter; a number where it is one."""
    trace = Trace()
    names = parameters(formula)
    made = Partial(formula, wrt, names)
    with np.errstate(all="ignore"):
        result = trace.run(made, [Value(trace, name) for name in names])
    if not isinstance(result, Value):
        return float(result)
    found: set[str] = set()
    front = [result.name]
    while front:
        name = front.pop()
        if name not in found:
            found.add(name)
            if name in trace.operations:
                front.extend(trace.operations[name].reads)
    return Partial(formula, wrt, tuple(name for name in names if name in found))


# The formulas of derivatives


def elasticity(derivative: Any, value: Any, result: Any) -> Any:
    """Relative change of a result over the relative change of an input.

    d ln y / d ln x = x / y dy / dx; 0 where y does not change with x

    Parameters:
        derivative [any]: dy / dx
        value [any]: x
        result [any]: y
    Returns: [1] elasticity
    Source: by definition
    """
    changes = derivative != 0
    return where(changes, where(changes, value, 0.0) * derivative / result, 0.0)


def difference(low: Any, high: Any, below: Any, above: Any) -> Any:
    """Slope between two points.

    (y(b) - y(a)) / (b - a); 0 where a and b are one

    Parameters:
        low [any]: a
        high [any]: b
        below [any]: y(a)
        above [any]: y(b)
    Returns: [any] slope
    Source: by definition
    """
    apart = high > low
    return where(apart, (above - below) / where(apart, high - low, 1.0), 0.0)


def log_difference(low: Any, high: Any, below: Any, above: Any) -> Any:
    """Slope between two points of logarithms.

    ln(y(b) / y(a)) / ln(b / a); 0 where a and b are one, or where y does not change

    Parameters:
        low [any]: a
        high [any]: b
        below [any]: y(a)
        above [any]: y(b)
    Returns: [1] slope
    Source: by definition
    """
    changes = (high > low) & (above != below)
    ratio = where(changes, above / where(changes, below, 1.0), 1.0)
    return where(changes, np.log(ratio) / np.log(where(changes, high / low, 2.0)), 0.0)


GROUP = ("tensor_parallel", "pipeline_parallel", "context_parallel")


def replica(tensor_parallel: Any, pipeline_parallel: Any, context_parallel: Any) -> Any:
    """GPUs of one replica: the step from one valid cluster to the next.

    t p c

    Parameters: tensor_parallel [1], pipeline_parallel [1], context_parallel [1]
    Returns: [1] GPUs
    Source: Narayanan et al. 2021 (SC21), section 3.1
    """
    return tensor_parallel * pipeline_parallel * context_parallel


def previous_whole(value: Any, step: Any, least: Any) -> Any:
    """The next smaller multiple of a step; the value itself where that is too small.

    Parameters:
        value [1]: any number
        step [1]: distance of the valid numbers
        least [1]: smallest valid number
    Returns: [1] the number
    Source: by definition
    """
    smaller = (np.ceil(value / step) - 1) * step
    return where(smaller >= least, smaller, value)


def next_whole(value: Any, step: Any) -> Any:
    """The next larger multiple of a step.

    Parameters:
        value [1]: any number
        step [1]: distance of the valid numbers
    Returns: [1] the number
    Source: by definition
    """
    return (np.floor(value / step) + 1) * step


def halved(value: Any, least: Any) -> Any:
    """Half of a number; the number itself where that is too small.

    Parameters:
        value [1]: any number
        least [1]: smallest valid number
    Returns: [1] the number
    Source: by definition
    """
    return where(0.5 * value >= least, 0.5 * value, value)


def doubled(value: Any) -> Any:
    """Twice a number.

    Parameters:
        value [1]: any number
    Returns: [1] the number
    Source: by definition
    """
    return 2 * value


def first_valid(
    value: Any, near: Any, far: Any, reason: Any, near_reason: Any, far_reason: Any
) -> Any:
    """The first of two candidates that can be laid out; the value itself where neither can.

    Of a value that cannot be laid out either, the nearer candidate.

    Parameters:
        value [1]: the number now
        near [1]: nearer candidate
        far [1]: farther candidate
        reason [flag]: why the number now cannot be laid out; 0 where it can
        near_reason [flag]: the same of the nearer candidate
        far_reason [flag]: the same of the farther one
    Returns: [1] the number
    Source: by definition
    """
    found = where(near_reason == 0, near, where(far_reason == 0, far, value))
    return where(reason == 0, found, near)


Terms = list[tuple[str | float, str | float]]


class Differentiator:
    """Adds derivatives to the formulas of one case.

    `formulas` in order, and `dims`, the dimensions of every name; `made` collects new formulas, in
    order.
    """

    def __init__(
        self, formulas: Mapping[str, Function], dims: Mapping[str, tuple[str, ...]]
    ) -> None:
        self.formulas, self.dims = formulas, dims
        self.made: dict[str, Function] = {}
        self._order = {name: k for k, name in enumerate(formulas)}
        self._totals: dict[tuple[str, frozenset[str]], dict[str, str | float]] = {}
        self._reached: dict[frozenset[str], frozenset[str]] = {}

    def add(self, wanted: Iterable[Derivative]) -> dict[str, Function]:
        """The formulas of the derivatives that are wanted."""
        wanted = list(wanted)
        exact: dict[str, dict[str, None]] = {}
        for one in wanted:
            if one.kind in ("d", "dln"):
                exact.setdefault(one.of, {})[one.wrt] = None
        for of, inputs in exact.items():
            self._totals_of(of, frozenset(inputs))
        for one in wanted:
            if one.kind in ("d", "dln"):
                self._exact(one, frozenset(exact[one.of]))
            else:
                self._between(one)
        return self.made

    def _exact(self, one: Derivative, inputs: frozenset[str]) -> None:
        total = self._totals_of(one.of, inputs).get(one.wrt, 0.0)
        name = name_of("d", one.of, one.wrt)
        if name not in self.made:
            self.made[name] = Chain(((total, 1.0),) if total != 0.0 else ())
        if one.kind == "dln" and total == 0.0:
            self.made[one.name] = Chain(())
        elif one.kind == "dln":
            self.made[one.name] = Renamed(elasticity, (name, one.wrt, one.of))

    def _reaching(self, inputs: frozenset[str]) -> frozenset[str]:
        """The names that any of some inputs has an effect on, the inputs among them."""
        if inputs not in self._reached:
            found = set(inputs)
            for name, formula in self.formulas.items():
                if found.intersection(parameters(formula)):
                    found.add(name)
            self._reached[inputs] = frozenset(found)
        return self._reached[inputs]

    def _totals_of(self, of: str, inputs: frozenset[str]) -> dict[str, str | float]:
        """Names (or values) of a quantity's derivatives with respect to inputs it depends on."""
        if of not in self.formulas:
            return {of: 1.0} if of in inputs else {}
        if (of, inputs) in self._totals:
            return self._totals[of, inputs]
        reaching = self._reaching(inputs)
        ways: dict[str, Terms] = {}
        if of in reaching:
            ways[of] = [(1.0, 1.0)]
        ends: dict[str, Terms] = {}
        while ways:
            name = max(ways, key=self._order.__getitem__)
            weight = self._weight(of, name, inputs, ways.pop(name))
            for parameter in parameters(self.formulas[name]):
                slope = self._slope(name, parameter) if parameter in reaching else 0.0
                if slope == 0.0:
                    continue
                inside = parameter in self.formulas and self.dims[parameter] == self.dims[of]
                (ways if inside else ends).setdefault(parameter, []).append((weight, slope))
        sums: dict[str, Terms] = {}
        for name, terms in ends.items():
            smaller = self._totals_of(name, inputs)
            if smaller:
                weight = self._weight(of, name, inputs, terms)
                for wrt, slope in smaller.items():
                    sums.setdefault(wrt, []).append((weight, slope))
        totals = {wrt: self._sum(name_of("d", of, wrt), terms) for wrt, terms in sums.items()}
        self._totals[of, inputs] = totals
        return totals

    def _weight(self, of: str, name: str, inputs: frozenset[str], terms: Terms) -> str | float:
        """How much the quantity `of` changes with another one, through some ways."""
        return self._sum(f"weight_of_{name}_in_{of}", terms)

    def _sum(self, name: str, terms: Terms) -> str | float:
        """The name of a sum of products, or what it is equal to."""
        if len(terms) == 1:
            one, other = terms[0]
            if one == 1.0 or other == 1.0:
                return other if one == 1.0 else one
        numbers = [
            one * other
            for one, other in terms
            if isinstance(one, float) and isinstance(other, float)
        ]
        if len(numbers) == len(terms):
            return sum(numbers)
        while name in self.made and self.made[name] != Chain(tuple(terms)):
            name += "_"
        self.made[name] = Chain(tuple(terms))
        return name

    def _slope(self, name: str, parameter: str) -> str | float:
        """The partial derivative of a formula: its name, or its value."""
        made = partial(self.formulas[name], parameter)
        if isinstance(made, float):
            return made
        self.made[f"slope_of_{name}_along_{parameter}"] = made
        return f"slope_of_{name}_along_{parameter}"

    # Differences between whole numbers

    def _between(self, one: Derivative) -> None:
        """The slope between the valid whole numbers on both sides."""
        if one.of not in self._reaching(frozenset([one.wrt])):
            self.made[one.name] = Chain(())
            return
        sides = self._neighbours(one.wrt)
        ends = [self._moved(one.of, one.wrt, side) for side in sides]
        slope = difference if one.kind == "delta" else log_difference
        self.made[one.name] = Renamed(slope, (*sides, *ends))

    def _neighbours(self, wrt: str) -> tuple[str, str]:
        """Names of the nearest valid whole numbers below and above an input."""
        below, above = names = (f"{wrt}_below", f"{wrt}_above")
        if below not in self.made:
            least, step = f"{wrt}_least", f"{wrt}_step"
            self.made[least] = Chain(((INPUTS[wrt].low, 1.0),))
            self.made[step] = Renamed(replica, GROUP) if wrt == "n_gpus" else Chain(((1.0, 1.0),))
            self._valid(wrt, below, (previous_whole, halved), ((wrt, step, least), (wrt, least)))
            self._valid(wrt, above, (next_whole, doubled), ((wrt, step), (wrt,)))
        return names

    def _valid(
        self,
        wrt: str,
        name: str,
        candidates: tuple[Function, Function],
        operands: tuple[tuple[str, ...], tuple[str, ...]],
    ) -> None:
        """The nearer of two candidates if it is valid, else the farther one."""
        near, far = Renamed(candidates[0], operands[0]), Renamed(candidates[1], operands[1])
        if REASON not in self._reaching(frozenset([wrt])):  # whatever it is, it can be laid out
            self.made[name] = near
            return
        self.made[f"{name}_near"], self.made[f"{name}_far"] = near, far
        reasons = [self._moved(REASON, wrt, f"{name}_{which}") for which in ("near", "far")]
        self.made[name] = Renamed(
            first_valid, (wrt, f"{name}_near", f"{name}_far", REASON, *reasons)
        )

    def _moved(self, of: str, wrt: str, to: str) -> str:
        """The name of a quantity where an input has another value."""
        if of == wrt:
            return to
        if of not in self._reaching(frozenset([wrt])):
            return of
        name = f"{of}_at_{to}"
        if name not in self.made:
            operands = tuple(self._moved(p, wrt, to) for p in parameters(self.formulas[of]))
            self.made[name] = Renamed(self.formulas[of], operands)
        return name
