"""The dimensions of every name: the only axes over which a quantity is evaluated."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from ...kernels.calculus.derivatives import Derivative, Differentiator
from ...kernels.calculus.phased_formulas import phase_of, without_phase
from ...kernels.graph.formulas import Function, Graph, parameters
from ..errors import InputError
from ..spec.axis import Axis
from .cases import Choice, Formulas, distinct

Dims = Mapping[str, Collection[str]]


def find_dims(
    graph: Graph,
    axes: Sequence[Axis],
    choices: Sequence[Choice],
    formulas: Sequence[Formulas],
    free: Sequence[str],
    tables: Mapping[str, Sequence[str]],
) -> dict[str, set[str]]:
    """Axes along which each name varies, in any case. A name computed in one case may be given in
    another, and has the same shape in both. A formula inherits its operands' axes, across cases."""
    dims: dict[str, set[str]] = {name: set() for choice in choices for name in choice.given}
    cutting = [axis for axis in axes if axis.name in choices[0].runs]
    read = [(name, parameters(formula)) for name, formula in distinct(formulas)]
    for name in dict(read):
        dims.setdefault(name, set()).update(a.name for a in cutting if _switches(graph, a, name))
    for axis in cutting:
        for name in _made_differently(graph, axis.name, choices, formulas):
            dims[name].add(axis.name)
    for axis in axes:  # a swept input keeps its dimension, even with one value
        for name in axis.numbers:
            dims.setdefault(name, set()).add(axis.name)
    for name, names in tables.items():
        dims.setdefault(name, set()).update(names)
    for name in free:
        dims[name] = {axis.name for axis in axes}
    count = -1
    while count != (count := sum(map(len, dims.values()))):  # cases affect each other
        for name, operands in read:
            dims[name].update(*[dims[operand] for operand in operands])
    return dims


def ordered(dims: Dims, axes: Sequence[Axis]) -> dict[str, tuple[str, ...]]:
    names = [axis.name for axis in axes]
    return {
        name: tuple(axis for axis in names if axis in varying) for name, varying in dims.items()
    }


def differentiated(
    graph: Graph,
    formulas: Sequence[Formulas],
    dims: Dims,
    wanted: Iterable[Derivative],
    phased: Collection[str] = (),
) -> list[Formulas]:
    """Formulas of every case with those of derivatives, which depend on dimensions. A chain ends at
    a quantity with fewer dimensions: the rest of it is a table."""
    wanted = list(wanted)
    extended: dict[int, Formulas] = {}  # by identity, so that cases keep sharing formulas
    for row in formulas:
        if id(row) not in extended:
            for slope in wanted:
                if slope.wrt in phased:
                    one = next(n for n in dims if n != slope.wrt and without_phase(n) == slope.wrt)
                    raise InputError(
                        f"outputs: {slope.name}: phases set {slope.wrt}; ask for it in one, "
                        f"as {one}"
                    )
                if phase_of(slope.wrt) and slope.wrt not in dims:
                    raise InputError(
                        f"outputs: {slope.name}: no phase sets {slope.wrt}; state it, or ask for "
                        f"{without_phase(slope.wrt)} of the whole job"
                    )
                if slope.wrt in row:
                    raise InputError(
                        f"outputs: {slope.name} needs a given {slope.wrt}, which is computed from "
                        f"{', '.join(parameters(row[slope.wrt]))}; give it, or name an input"
                    )
            extended[id(row)] = {**row, **Differentiator(graph, row, dims).add(wanted)}
    return [extended[id(row)] for row in formulas]


def depending(
    formulas: Iterable[Formulas], on: Iterable[str] = (), computed: Collection[str] = ()
) -> frozenset[str]:
    """Names that depend on `on`, or on names in `computed` that a formula computes."""
    names, formulas = set(on), [*formulas] if on or computed else []
    start = {name for name, _ in distinct(formulas) if without_phase(name) in computed}
    for row in formulas:
        for name, formula in row.items():
            if name in start or not names.isdisjoint(parameters(formula)):
                names.add(name)
    return frozenset(names)


def option_of(graph: Graph, name: str) -> str | None:
    """The option that selects among a quantity's formulas, in any phase."""
    quantity = graph.get(without_phase(name))
    return quantity.option if quantity else None


def _switches(graph: Graph, axis: Axis, name: str) -> bool:
    """Whether an axis selects a quantity's formula, or between computing it and giving it."""
    option = option_of(graph, name)
    implying = graph.inputs[option].implied_by if option else ()
    rows = [axis.numbers[each] for each in (name, *implying) if each in axis.numbers]
    return option in axis.options or any(bool(np.isnan(row).any()) for row in rows)


def _made_differently(
    graph: Graph, axis: str, choices: Sequence[Choice], formulas: Sequence[Formulas]
) -> set[str]:
    """Derivatives whose formulas an axis changes, other cutting axes fixed: no option shows it."""
    names: set[str] = set()
    first: dict[tuple[int, ...], dict[str, Function]] = {}
    without_quantity = {
        name for name, _ in distinct(formulas) if not graph.get(without_phase(name))
    }
    for choice, row in zip(choices, formulas, strict=True):
        if derived := without_quantity & row.keys():
            others = tuple(run.start for name, run in choice.runs.items() if name != axis)
            first_formulas = first.setdefault(others, {})
            names |= {
                name for name in derived if first_formulas.setdefault(name, row[name]) != row[name]
            }
    return names
