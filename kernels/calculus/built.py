"""Formulas made from formulas: partial derivatives, sums of products, renamings."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph.bind import Binding, BuiltFormula
from ..graph.formulas import Function, parameters
from ..graph.trace import Trace, Value
from . import dual


@dataclass(frozen=True, repr=False)
class Partial(BuiltFormula):
    """A formula's partial derivative; `parameters` are those of the formula that it depends on."""

    formula: Function
    wrt: str
    parameters: tuple[str, ...]

    @property
    def sources(self) -> tuple[Function, ...]:  # type: ignore[override]
        return (self.formula,)

    def bound(self, binding: Binding) -> Callable[..., Any]:
        """The formula on dual numbers; parameters without effect are NaN."""
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
class Chain(BuiltFormula):
    """A sum of products, over paths of the chain rule; 0 times infinity is 0."""

    terms: tuple[tuple[str | float, str | float], ...]

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        named = (factor for term in self.terms for factor in term if isinstance(factor, str))
        return tuple(dict.fromkeys(named))

    def bound(self, binding: Binding) -> Callable[..., Any]:
        def chain(*values: Any) -> Any:
            factors = dict(zip(self.parameters, values, strict=True))
            total: Any = None
            for term in self.terms:
                one, other = (factors[f] if isinstance(f, str) else f for f in term)
                added = dual.product(binding, one, other)
                total = added if total is None else total + added
            return 0.0 if total is None else total

        return chain


@dataclass(frozen=True, repr=False)
class Renamed(BuiltFormula):
    formula: Function
    parameters: tuple[str, ...]

    @property
    def sources(self) -> tuple[Function, ...]:  # type: ignore[override]
        return (self.formula,)

    def bound(self, binding: Binding) -> Callable[..., Any]:
        return binding.bind(self.formula)  # type: ignore[no-any-return]


@functools.cache
def partial(formula: Function, wrt: str) -> Partial | float:
    """A formula's derivative with respect to a parameter; a number where it is constant."""
    names = parameters(formula)
    if isinstance(formula, Renamed) and len({*names}) == len(names):  # traced once for all phases
        plain = parameters(formula.formula)
        slope = partial(formula.formula, plain[names.index(wrt)])
        if isinstance(slope, float):
            return slope
        its = dict(zip(plain, names, strict=True))
        return Partial(formula, wrt, tuple(its[name] for name in slope.parameters))
    trace = Trace()
    derivative = Partial(formula, wrt, names)
    with np.errstate(all="ignore"):
        result = trace.run(derivative, [Value(trace, name) for name in names])
    if not isinstance(result, Value):
        return float(result)
    read: set[str] = set()
    front = [result.name]
    while front:
        name = front.pop()
        if name not in read:
            read.add(name)
            if name in trace.operations:
                front.extend(trace.operations[name].reads)
    return Partial(formula, wrt, tuple(name for name in names if name in read))
