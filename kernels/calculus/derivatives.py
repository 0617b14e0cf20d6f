"""Derivatives as quantities: formulas of derivatives, made from the formulas of quantities.

`d_Y_d_X` is the exact derivative of a quantity Y with respect to an input X, `dln_Y_dln_X` its
elasticity. `delta_Y_delta_X` is the slope between the valid whole numbers on both sides of X, and
`deltaln_Y_deltaln_X` that of the logarithms. All engines evaluate them like any quantity.

Partial derivatives are the formula itself, run on dual numbers. They are chained backwards from Y,
once for all inputs, among the quantities with Y's dimensions; where dimensions become fewer, the
derivatives of the smaller quantity are made in the same way on its smaller grid, which keeps the
large grid's memory small.
"""

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..graph.docstrings import Doc
from ..graph.formulas import Function, Graph, Quantity, UnknownNameError, parameters
from .built import Chain, Renamed, partial
from .phased_formulas import in_phase, phase_of, without_phase
from .slopes import (
    difference,
    doubled,
    elasticity,
    first_valid,
    halved,
    log_difference,
    next_whole,
    previous_whole,
)
from .smooth import followed

KINDS = ("d", "dln", "delta", "deltaln")
_NAME = re.compile(rf"({'|'.join(KINDS)})_(\w+?)_\1_(\w+)")
SOURCE = "the chain rule, on the formulas of the quantity"


# Names


@dataclass(frozen=True)
class Derivative:
    name: str
    kind: str
    output: str
    wrt: str
    unit: str = ""  # of the quantity over that of the input; 1 for elasticities
    option: None = None

    @property
    def doc(self) -> Doc:
        meaning = {
            "d": f"Derivative of {self.output} with respect to {self.wrt}",
            "dln": f"Elasticity of {self.output}: relative change over that of {self.wrt}",
            "delta": f"Slope of {self.output} between the whole {self.wrt} below and above",
            "deltaln": f"Relative change of {self.output} over that of {self.wrt}, between the "
            "whole numbers below and above",
        }[self.kind]
        return Doc(f"{meaning}.", self.name, {}, self.unit, "", {}, "", SOURCE, "")


def name_of(kind: str, output: str, wrt: str) -> str:
    return f"{kind}_{output}_{kind}_{wrt}"


@functools.lru_cache(1 << 14)
def derivative(graph: Graph, name: str) -> Derivative | None:
    """The derivative that a name of the form d_Y_d_X means; None for other names."""
    match = _NAME.fullmatch(name)
    if match is None or not _is_number(graph, match.group(2)):
        return None
    kind, output, wrt = match.groups()
    plain = without_phase(wrt)
    if row := graph.inputs.get(plain):
        slope = row.kind == "real" and not kind.startswith("delta")
        fits = slope or row.kind == "count"
    else:
        fits = _is_number(graph, plain) and plain != output
    if not fits:
        return None
    above, below = graph.quantities[output].unit, unit_of(graph, wrt)
    return Derivative(
        name, kind, output, wrt, _ratio(above, below) if kind in ("d", "delta") else "1"
    )


def _ratio(above: str, below: str) -> str:
    """The unit of a quotient."""
    if above == below:
        return "1"
    if below == "1":
        return above
    return f"{above}/({below})" if "/" in below else f"{above}/{below}"


def _is_number(graph: Graph, name: str) -> bool:
    """Whether a name is a quantity, and no code."""
    quantity = graph.get(name)
    return quantity is not None and quantity.unit != "flag"


def quantity(graph: Graph, name: str) -> Quantity | Derivative:
    """The quantity of a name, derivatives among them. Raises UnknownNameError."""
    match = graph.get(name) or derivative(graph, name)
    if match is None:
        raise UnknownNameError(f"{name!r} is not a quantity")
    return match


def is_quantity(graph: Graph, name: str) -> bool:
    return graph.get(name) is not None or derivative(graph, name) is not None


def unit_of(graph: Graph, name: str) -> str:
    plain = without_phase(name)
    if row := graph.inputs.get(plain):
        return row.unit
    return quantity(graph, plain if graph.get(plain) else name).unit


def reaches(formulas: Mapping[str, Function], outputs: Iterable[str]) -> frozenset[str]:
    """The names on which some outputs depend."""
    names = set(outputs)
    for name in reversed(list(formulas)):
        if name in names:
            names |= followed(formulas[name])
    return frozenset(names)


Terms = list[tuple[str | float, str | float]]


class Differentiator:
    """Adds derivatives to the ordered formulas of one case; `derived` collects the new formulas."""

    def __init__(
        self,
        graph: Graph,
        formulas: Mapping[str, Function],
        dims: Mapping[str, Collection[str]],
    ) -> None:
        self.graph, self.formulas, self.dims = graph, formulas, dims
        self.derived: dict[str, Function] = {}
        self._order = {name: k for k, name in enumerate(formulas)}
        self._totals: dict[tuple[str, frozenset[str]], dict[str, str | float]] = {}
        self._reached: dict[frozenset[str], frozenset[str]] = {}

    def add(self, wanted: Iterable[Derivative]) -> dict[str, Function]:
        """The formulas of the derivatives wanted, and those they need."""
        wanted = list(wanted)
        exact: dict[str, dict[str, None]] = {}
        for slope in wanted:
            if slope.kind in ("d", "dln"):
                exact.setdefault(slope.output, {})[slope.wrt] = None
        for quantity_name, inputs in exact.items():
            self._totals_of(quantity_name, frozenset(inputs))
        for slope in wanted:
            if slope.kind in ("d", "dln"):
                self._exact(slope, frozenset(exact[slope.output]))
            else:
                self._between(slope)
        return self.derived

    def _exact(self, slope: Derivative, inputs: frozenset[str]) -> None:
        total = self._totals_of(slope.output, inputs).get(slope.wrt, 0.0)
        name = name_of("d", slope.output, slope.wrt)
        if name not in self.derived:
            self.derived[name] = Chain(((total, 1.0),) if total != 0.0 else ())
        if slope.kind == "dln" and total == 0.0:
            self.derived[slope.name] = Chain(())
        elif slope.kind == "dln":
            self.derived[slope.name] = Renamed(elasticity, (name, slope.wrt, slope.output))

    def _reaching(self, inputs: frozenset[str]) -> frozenset[str]:
        """The names that depend on any of some inputs, the inputs included."""
        if inputs not in self._reached:
            names = set(inputs)
            for name, formula in self.formulas.items():
                if names.intersection(parameters(formula)):
                    names.add(name)
            self._reached[inputs] = frozenset(names)
        return self._reached[inputs]

    def _totals_of(self, output: str, inputs: frozenset[str]) -> dict[str, str | float]:
        """Names (or values) of a quantity's derivatives with respect to inputs it depends on."""
        if output not in self.formulas:
            return {output: 1.0} if output in inputs else {}
        if (output, inputs) in self._totals:
            return self._totals[output, inputs]
        reaching = self._reaching(inputs)
        paths: dict[str, Terms] = {}
        if output in reaching:
            paths[output] = [(1.0, 1.0)]
        ends: dict[str, Terms] = {}
        while paths:
            # last in order first: all paths that lead to it are then summed
            name = max(paths, key=self._order.__getitem__)
            weight = self._weight(output, name, inputs, paths.pop(name))
            for parameter in parameters(self.formulas[name]):
                slope = self._slope(name, parameter) if parameter in reaching else 0.0
                if slope == 0.0:
                    continue
                inside = parameter in self.formulas and self.dims[parameter] == self.dims[output]
                (paths if inside else ends).setdefault(parameter, []).append((weight, slope))
        sums: dict[str, Terms] = {}
        for name, terms in ends.items():
            smaller = self._totals_of(name, inputs)
            if smaller:
                weight = self._weight(output, name, inputs, terms)
                for wrt, slope in smaller.items():
                    sums.setdefault(wrt, []).append((weight, slope))
        totals = {wrt: self._sum(name_of("d", output, wrt), terms) for wrt, terms in sums.items()}
        self._totals[output, inputs] = totals
        return totals

    def _weight(self, output: str, name: str, inputs: frozenset[str], terms: Terms) -> str | float:
        """Derivative of the quantity `of` with respect to another, along some paths."""
        return self._sum(f"weight_of_{name}_in_{output}", terms)

    def _sum(self, name: str, terms: Terms) -> str | float:
        """The name of a sum of products, or its value where that is known."""
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
        while name in self.derived and self.derived[name] != Chain(tuple(terms)):
            name += "_"
        self.derived[name] = Chain(tuple(terms))
        return name

    def _slope(self, name: str, parameter: str) -> str | float:
        """The partial derivative of a formula: its name, or its value."""
        slope = partial(self.formulas[name], parameter)
        if isinstance(slope, float):
            return slope
        self.derived[f"slope_of_{name}_along_{parameter}"] = slope
        return f"slope_of_{name}_along_{parameter}"

    # Differences between whole numbers

    def _between(self, slope: Derivative) -> None:
        if slope.output not in self._reaching(frozenset([slope.wrt])):
            self.derived[slope.name] = Chain(())
            return
        sides = self._neighbours(slope.wrt)
        ends = [self._moved(slope.output, slope.wrt, side) for side in sides]
        formula = difference if slope.kind == "delta" else log_difference
        self.derived[slope.name] = Renamed(formula, (*sides, *ends))

    def _neighbours(self, wrt: str) -> tuple[str, str]:
        """Names of the nearest valid whole numbers below and above an input."""
        below, above = names = (f"{wrt}_below", f"{wrt}_above")
        if below not in self.derived:
            least, step = f"{wrt}_least", f"{wrt}_step"
            plain, steps = without_phase(wrt), self.graph.roles.steps
            row = self.graph.inputs.get(plain)  # a stated quantity has none
            low = row.low if row else self.graph.roles.counts.get(plain, 0.0)
            self.derived[least] = Chain(((low, 1.0),))
            self.derived[step] = Chain(((1.0, 1.0),))
            if plain in steps:
                formula = steps[plain][0]
                operands = tuple(self._in_phase_of(wrt, name) for name in parameters(formula))
                self.derived[step] = formula if wrt == plain else Renamed(formula, operands)
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
        # no value of the input affects the layout
        reason = self._in_phase_of(wrt, self.graph.roles.layout_reason)
        if reason not in self._reaching(frozenset([wrt])):
            self.derived[name] = near
            return
        self.derived[f"{name}_near"], self.derived[f"{name}_far"] = near, far
        reasons = [self._moved(reason, wrt, f"{name}_{which}") for which in ("near", "far")]
        self.derived[name] = Renamed(
            first_valid, (wrt, f"{name}_near", f"{name}_far", reason, *reasons)
        )

    def _in_phase_of(self, wrt: str, name: str) -> str:
        """A name in the phase of an input, if it has its own value there."""
        phase_name = in_phase(name, phase_of(wrt))
        return phase_name if phase_name in self.formulas or phase_name in self.dims else name

    def _moved(self, output: str, wrt: str, to: str) -> str:
        """The name of a quantity evaluated with another value of an input."""
        if output == wrt:
            return to
        if output not in self._reaching(frozenset([wrt])):
            return output
        name = f"{output}_at_{to}"
        if name not in self.derived:
            operands = tuple(self._moved(p, wrt, to) for p in parameters(self.formulas[output]))
            self.derived[name] = Renamed(self.formulas[output], operands)
        return name
