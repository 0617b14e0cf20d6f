"""Formulas as one pure function of a few inputs; the rest is folded into constants."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..calculus.derivatives import Derivative, Differentiator, name_of
from ..declare import Input
from ..graph.bind import Binding, BuiltFormula
from ..graph.formulas import NO_GRAPH, Function, parameters
from ..graph.trace import Trace, Value
from .job import Array, Job
from .numpy import evaluate


@dataclass(frozen=True, repr=False)
class Inside(BuiltFormula):
    """A value, NaN beyond an input's bounds, as traced and compiled functions cannot raise."""

    output: str
    rows: tuple[Input, ...]

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.output, *(row.name for row in self.rows))

    def bound(self, binding: Binding) -> Any:

        def inside(value: Any, *inputs: Any) -> Any:
            valid: Any = True
            for row, given in zip(self.rows, inputs, strict=True):
                above = given > 0 if row.positive and row.low <= 0 else given >= row.low
                finite = row.high == math.inf and not row.may_be_infinite
                below = given < math.inf if finite else given <= row.high
                valid = valid & above & below
            return binding.choose(valid, value, math.nan)

        return inside


@dataclass(frozen=True)
class Program:
    """A computation of some outputs from some inputs.

    `formulas` are those that depend on an input, each after what it needs; `constants` are their
    other operands, and outputs that depend on no input. `bounds` are the rows of inputs with
    bounds, `flags` the outputs that are codes.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    formulas: tuple[tuple[str, Function], ...]
    constants: tuple[tuple[str, float], ...]
    bounds: tuple[Input, ...] = ()
    flags: frozenset[str] = frozenset()

    def derivatives(self, wrt: Sequence[str], extra: Sequence[str] = ()) -> "Program":
        """The program whose outputs are `extra` and d_<output>_d_<input>, output by output."""
        formulas = dict(self.formulas)
        wanted = [
            Derivative(name_of("d", output, name), "d", output, name)
            for output in self.outputs
            for name in wrt
        ]
        names = [slope.name for slope in wanted]
        return fold(
            dict.fromkeys([*extra, *names]),
            {**formulas, **differentiated(formulas, wanted)},
            dict(self.constants),
            self.inputs,
            self.bounds,
            self.flags.intersection(extra),
        )

    def guarded(self) -> list[tuple[str, Function]]:
        """For each output, the formula that gives NaN where an input is out of bounds."""
        return [(f"guarded_{name}", Inside(name, self.bounds)) for name in self.outputs]

    def job(self, given: Sequence[Array], shape: tuple[int, ...]) -> Job:
        """The outputs for arrays of the inputs that broadcast to a shape."""
        ones, guarded = (1,) * len(shape), self.guarded()
        operands = {name: np.array(value).reshape(ones) for name, value in self.constants}
        for name, array in zip(self.inputs, given, strict=True):
            operands[name] = array.reshape(ones[array.ndim :] + array.shape)
        outs = {
            name: np.empty(shape, np.int8 if output in self.flags else np.float64)
            for output, (name, _) in zip(self.outputs, guarded, strict=True)
        }
        return Job(dict([*self.formulas, *guarded]), operands, outs)

    def trace(self) -> tuple[Trace, list[Any]]:
        """The operations on the inputs, equal ones once, and the guarded outputs."""
        trace = Trace()
        values: dict[str, Any] = {name: np.float64(value) for name, value in self.constants}
        values |= {name: Value(trace, name) for name in self.inputs}
        for name, formula in (*self.formulas, *self.guarded()):
            values[name] = trace.run(formula, [values[p] for p in parameters(formula)])
        return trace, [values[f"guarded_{name}"] for name in self.outputs]


def fold(
    outputs: Iterable[str],
    formulas: Mapping[str, Function],
    given: Mapping[str, float],
    inputs: Iterable[str],
    bounds: Iterable[Input] = (),
    flags: Iterable[str] = (),
) -> Program:
    """The program of some outputs; what does not depend on an input is computed here."""
    outputs, inputs = tuple(outputs), tuple(inputs)
    needed = set(outputs)
    for name in reversed(list(formulas)):
        if name in needed:
            needed |= set(parameters(formulas[name]))
    moving = set(inputs)
    still: dict[str, Function] = {}
    used: dict[str, Function] = {}
    for name, formula in formulas.items():
        if name in needed and name not in moving and name not in given:
            if moving.intersection(parameters(formula)):
                moving.add(name)
                used[name] = formula
            else:
                still[name] = formula
    arrays = {name: np.array(value) for name, value in given.items()}
    values = {**given, **{name: float(v) for name, v in evaluate(still, arrays).items()}}
    read = {*outputs, *(p for formula in used.values() for p in parameters(formula))}
    constants = tuple((name, values[name]) for name in values if name in read - moving)
    steps = tuple(used.items())
    return Program(inputs, outputs, steps, constants, tuple(bounds), frozenset(flags))


def differentiated(
    formulas: Mapping[str, Function], wanted: Iterable[Derivative]
) -> dict[str, Function]:
    """The formulas of derivatives at a point, where no name has dimensions."""
    names = {*formulas, *(p for formula in formulas.values() for p in parameters(formula))}
    return Differentiator(NO_GRAPH, formulas, dict.fromkeys(names, ())).add(wanted)
