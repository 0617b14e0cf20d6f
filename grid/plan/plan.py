"""The plan: which formulas, over which dimensions, as tables or in kernels.

Every quantity is evaluated on the grid of its own dimensions. Options select formulas; an axis
that varies an option cuts the sweep into *cases*, each with formulas of its own. The choice between
table and kernel is fixed for the whole sweep, so that block shape never changes a value.
"""

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...kernels.calculus.derivatives import Derivative, Differentiator, derivative, is_quantity
from ...kernels.engines.numba import ROW
from ...kernels.graph import formulas as graph
from ...kernels.graph.formulas import Function, MissingInputError, parameters
from ...kernels.inputs import INPUTS
from ...kernels.roles import LAYOUT, REASON
from ..errors import InputError, nearest
from ..spec.axes import Array, Axis
from ..spec.scenario import Problem, choose
from .grid import Case, Grid, by_dims

ENGINES = ("auto", "numpy", "numba", "jax")
MOST_CASES = 4096
MOST_TABLE = 1 << 20  # points of the largest table kept for the whole sweep
MOST_TABLES = 1 << 24  # points of all tables of NumPy's
TABLE_SHARE = 256  # a table is at most this part of the largest output
SECONDS_PER_POINT = 10e-9  # of one quantity in NumPy, measured
COMPILE_WORTH = 0.3  # seconds of NumPy above which a sweep compiles, or, if it is more,
COMPILE_EACH = 10e-3  # seconds of NumPy for each formula that would be compiled
# Relative costs of reading a point along a row, of repeating one there, and of starting a row
READ_COST, REPEAT_COST, ROW_COST = 1.0, 10.0, 100.0
LONGEST_AXES = 6  # axes considered for a row


class Plan(Grid):
    """What to evaluate, and how. Built once for a sweep; tables are kept in it.

    `free` are inputs whose values at every point are said when the plan is evaluated.
    """

    def __init__(
        self,
        problem: Problem,
        outputs: Sequence[str],
        engine: str,
        mask_infeasible: bool = False,
        free: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.problem, self.mask, self.free = problem, mask_infeasible, free
        _check_outputs(outputs, problem)
        if engine not in ENGINES:
            raise InputError(f"engine = {engine!r} is unknown; choose one of {', '.join(ENGINES)}")
        self.compiles = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
        if engine == "numba" and not self.compiles:
            raise InputError("engine = 'numba' needs a compiler; unset NUMBA_DISABLE_JIT")
        self._selected: dict[Any, Mapping[str, Function]] = {}
        split = {axis.name: _runs(axis) for axis in problem.axes}
        self._split = {name: runs for name, runs in split.items() if len(runs) > 1}
        self._set_axes(outputs, problem.axes)
        self._set_axes(outputs, self._fastest_order(outputs))
        self.outputs = list(outputs)
        self.layout_dependent = self._find_layout_dependent()
        if self.layout_dependent and REASON not in self.outputs:
            self._add_reason()
        self.out_dims = self._find_out_dims()
        self.full = max(self.size(name) for name in self.outputs)
        self.engine = self._pick(engine)
        self.most_table = 0 if self.engine == "jax" else min(MOST_TABLE, self.full // TABLE_SHARE)
        if self.engine == "numpy":
            formulas = max(len(case.formulas) for case in self.cases)
            self.most_table = min(MOST_TABLE, MOST_TABLES // max(1, formulas))
        self.moving = self._find_moving()

    # Shapes

    def groups(self) -> dict[tuple[str, ...], list[str]]:
        """Outputs by their dimensions, which are in the order of memory."""
        return by_dims(self.outputs, self.out_dims)

    def user_dims(self, name: str) -> tuple[str, ...]:
        """Dimensions of an output in the order in which the axes were written."""
        return tuple(axis.name for axis in self.problem.axes if axis.name in self.out_dims[name])

    def cases_of(self, dims: tuple[str, ...]) -> list[Case]:
        """One case for each combination of runs along the given dimensions."""
        found: dict[tuple[int, ...], Case] = {}
        for case in self.cases:
            key = tuple(case.runs[dim].start for dim in dims if dim in case.runs)
            found.setdefault(key, case)
        return list(found.values())

    def unused(self) -> list[str]:
        """Inputs that the scenario sets and that no formula in use reads."""
        used = set(self.outputs)
        for case in self.cases:
            for name, formula in case.formulas.items():
                used |= {*parameters(formula), _option_of(name) or name}
        used |= {by for name in used & INPUTS.keys() for by in INPUTS[name].implied_by}
        return sorted(self.problem.stated - used)

    # Building

    def _set_axes(self, outputs: Sequence[str], numeric: Sequence[Axis]) -> None:
        """Fix the order of memory: axes that cut the sweep into cases, then the others as given."""
        ordered = [axis for axis in self.problem.axes if axis.name in self._split]
        ordered += [axis for axis in numeric if axis.name not in self._split]
        self.axes = tuple(ordered)
        self.sizes = {axis.name: axis.size for axis in self.axes}
        self._set_cases(outputs)

    def _set_cases(self, outputs: Sequence[str]) -> None:
        """Find the formulas of every case, and everyone's dimensions; then add derivatives."""
        self.cases = self._make_cases(outputs)
        self.dims = self._find_dims()
        wanted = [found for name in outputs if (found := derivative(name))]
        if wanted:
            known: dict[int, Mapping[str, Function]] = {}
            for case in self.cases:
                if id(case.formulas) not in known:
                    known[id(case.formulas)] = self._with_derivatives(case.formulas, wanted)
            self.cases = [replace(case, formulas=known[id(case.formulas)]) for case in self.cases]
            self.dims = self._find_dims()

    def _with_derivatives(
        self, formulas: Mapping[str, Function], wanted: Sequence[Derivative]
    ) -> Mapping[str, Function]:
        for one in wanted:
            if one.wrt in formulas:
                raise InputError(
                    f"outputs: {one.name} needs a given {one.wrt}, which is computed from "
                    f"{', '.join(parameters(formulas[one.wrt]))}; give it, or name an input"
                )
        return {**formulas, **Differentiator(formulas, self.dims).add(wanted)}

    def _fastest_order(self, outputs: Sequence[str]) -> list[Axis]:
        """Axes in the order that evaluates fastest, in whatever order they were written.

        The last axes make the rows that kernels walk. What varies along a row is read at every
        point, and repeated in memory along the row's other axes; what does not is read once a row.
        Rows that read the same tables follow each other, so that the tables stay in the cache.
        """
        numeric = [axis for axis in self.axes if axis.name not in self._split]
        numeric.sort(key=lambda axis: (axis.size, axis.name))
        full = max((self.dims[name] for name in outputs), key=lambda d: math.prod(self.shape(d)))
        points = math.prod(self.shape(full))
        read = {
            frozenset(self.dims[parameter]): None
            for case in self.cases
            for name, formula in case.formulas.items()
            if self.dims[name] == full
            for parameter in parameters(formula)
            if 0 < len(self.dims[parameter]) < len(full)
        }

        def cost(row: tuple[Axis, ...]) -> float:
            inside = {axis.name for axis in row}
            length = math.prod(axis.size for axis in row)
            total = ROW_COST * points / length
            for dims in read:
                if inside & dims:
                    rows = math.prod(self.sizes[dim] for dim in dims - inside)
                    total += READ_COST * points + REPEAT_COST * rows * length
            return total

        row = min(_rows([axis for axis in numeric if axis.name in full]), key=cost, default=())
        inside = {axis.name for axis in row}
        varying = {dim for dims in read if inside & dims for dim in dims}
        outer = [axis for axis in numeric if axis.name not in inside]
        return [*sorted(outer, key=lambda axis: axis.name not in varying), *row]

    def _make_cases(self, outputs: Sequence[str]) -> list[Case]:
        count = math.prod(len(runs) for runs in self._split.values())
        if count > MOST_CASES:
            raise InputError(
                f"the option and label axes combine to {count:,} sets of formulas; "
                f"at most {MOST_CASES:,} are allowed: sweep fewer options at once"
            )
        cases = []
        for runs in itertools.product(*self._split.values()):
            chosen = dict(zip(self._split, runs, strict=True))
            cases.append(self._make_case(chosen, outputs))
        return cases

    def _make_case(self, runs: Mapping[str, slice], outputs: Iterable[str]) -> Case:
        options = dict(self.problem.options)
        defaults: dict[str, Array] = {
            name: np.full((1,) * len(self.axes), float(row.default))
            for name, row in INPUTS.items()
            if row.kind != "option" and row.default is not None
        }
        leaves: dict[str, Array] = {}
        for name, value in self.problem.constants.items():
            leaves[name] = np.full((1,) * len(self.axes), value)
        for position, axis in enumerate(self.axes):
            run = runs.get(axis.name, slice(0, axis.size))
            options.update({name: row[run.start] for name, row in axis.options.items()})
            for name, row in axis.numbers.items():
                part = row[run]
                if np.isnan(part).any():  # unset by these labels: as if not given
                    continue
                shape = [1] * len(self.axes)
                shape[position] = len(part)
                leaves[name] = part.reshape(shape)
        for name in self.free:
            leaves[name] = np.full((1,) * len(self.axes), np.nan)
        options = choose(options, leaves)
        leaves = {**defaults, **leaves}
        named = ((name, derivative(name)) for name in outputs)
        needed = tuple(dict.fromkeys(found.of if found else name for name, found in named))
        try:
            formulas = self._select(needed, options, frozenset(leaves))
        except MissingInputError as error:
            where = [
                f"{a.name} = {a.labels[runs[a.name].start]}" for a in self.axes if a.name in runs
            ]
            raise InputError(f"{error}{f' (at {where[0]})' if where else ''}") from None
        return Case(runs, formulas, leaves)

    def _select(
        self, outputs: tuple[str, ...], options: Mapping[str, Any], given: frozenset[str]
    ) -> Mapping[str, Function]:
        """Formulas of a case; cases that choose alike share them."""
        key = (outputs, tuple(options.items()), given)
        if key not in self._selected:
            self._selected[key] = graph.select(outputs, options, given)
        return self._selected[key]

    def _find_dims(self) -> dict[str, tuple[str, ...]]:
        """Dimensions of every name, the union over all cases."""
        found: dict[str, set[str]] = {}
        unset = {
            axis.name: {name for name, row in axis.numbers.items() if np.isnan(row).any()}
            for axis in self.axes
        }
        for case in self.cases:
            for name, leaf in case.leaves.items():
                dims = {
                    axis.name
                    for axis, size in zip(self.axes, leaf.shape, strict=True)
                    if name in axis.numbers and (size > 1 or axis.name in case.runs)
                }
                found.setdefault(name, set()).update(dims)
            for name in case.formulas:
                option = _option_of(name)
                found.setdefault(name, set()).update(
                    axis.name
                    for axis in self.axes
                    if axis.name in self._split
                    and (option in axis.options or name in unset[axis.name])
                )
        for split in self._split:
            for name in self._made_differently(split):
                found[name].add(split)
        for axis in self.axes:  # a swept input keeps its dimension, also when it has one value
            for name in axis.numbers:
                found.setdefault(name, set()).add(axis.name)
        for name in self.free:
            found[name] = set(self.sizes)
        known = -1
        while known != (known := sum(map(len, found.values()))):  # cases feed each other
            for case in self.cases:
                for name, formula in case.formulas.items():
                    for parameter in parameters(formula):
                        found[name] |= found[parameter]
        return {
            name: tuple(axis.name for axis in self.axes if axis.name in dims)
            for name, dims in found.items()
        }

    def _find_moving(self) -> frozenset[str]:
        """Names that depend on the free inputs."""
        moving = set(self.free)
        for case in self.cases:
            for name, formula in case.formulas.items():
                if moving.intersection(parameters(formula)):
                    moving.add(name)
        return frozenset(moving)

    def _made_differently(self, axis: str) -> set[str]:
        """Derivatives whose formulas an axis changes, the others that cut the sweep fixed."""
        found: set[str] = set()
        first: dict[tuple[int, ...], dict[str, Function]] = {}
        for case in self.cases:
            made = case.formulas.keys() - graph.load().keys()
            if made:
                known = first.setdefault(
                    tuple(run.start for name, run in case.runs.items() if name != axis), {}
                )
                found |= {
                    name
                    for name in made
                    if known.setdefault(name, case.formulas[name]) != case.formulas[name]
                }
        return found

    def _find_layout_dependent(self) -> list[str]:
        """Outputs that the layout of the job affects: those that infeasible_reason is for."""
        touched: set[str] = set()
        for case in self.cases:
            for name, formula in case.formulas.items():
                if name in LAYOUT or touched & set(parameters(formula)):
                    touched.add(name)
        asked = {name: found.of if (found := derivative(name)) else name for name in self.outputs}
        return [name for name, of in asked.items() if of in touched]

    def _add_reason(self) -> None:
        try:
            self._set_cases([*self.outputs, REASON])
        except InputError as error:
            if self.mask:
                raise InputError(f"mask_infeasible cannot judge the layout: {error}") from None
            return  # the layout is not known well enough to judge it
        self.outputs.append(REASON)

    def _find_out_dims(self) -> dict[str, tuple[str, ...]]:
        """Dimensions of outputs; masking spreads an output over those of infeasible_reason."""
        spread = set(self.dims[REASON]) if self.mask and REASON in self.outputs else set()
        return {
            name: tuple(
                axis.name
                for axis in self.axes
                if axis.name in self.dims[name]
                or (name in self.layout_dependent and axis.name in spread)
            )
            for name in self.outputs
        }

    def _pick(self, engine: str) -> str:
        if engine != "auto":
            return engine
        if not self.compiles:
            return "numpy"
        names = {name for case in self.cases for name in case.formulas}
        seconds = sum(self.size(name) for name in names) * SECONDS_PER_POINT
        compiled = sum(self.size(name) * TABLE_SHARE > self.full for name in names)
        return "numpy" if seconds < max(COMPILE_WORTH, COMPILE_EACH * compiled) else "numba"

    # Values

    def is_table(self, name: str) -> bool:
        """Whether a quantity is evaluated once for the whole sweep, with NumPy."""
        return self.size(name) <= self.most_table and name not in self.moving


def _rows(axes: Sequence[Axis]) -> Iterator[tuple[Axis, ...]]:
    """Sets of the longest axes that make a row of ROW points, with no axis that it can spare."""
    longest = axes[-LONGEST_AXES:]
    for count in range(1, len(longest) + 1):
        for row in itertools.combinations(longest, count):
            length = math.prod(axis.size for axis in row)
            if length // row[0].size < ROW and (length >= ROW or count == len(longest)):
                yield row


def _check_outputs(outputs: Sequence[str], problem: Problem) -> None:
    if isinstance(outputs, str) or not isinstance(outputs, Sequence) or not outputs:
        raise InputError(
            f"outputs = {outputs!r} is not a list of names; name at least one quantity"
        )
    for name in outputs:
        if not isinstance(name, str):
            raise InputError(f"outputs: {name!r} is not a name; write it as text")
        if name in INPUTS:
            raise InputError(f"outputs: {name!r} is an input; name a quantity that depends on it")
        if not is_quantity(name):
            raise InputError(f"outputs: {name!r} is not a quantity; {nearest(name, graph.load())}")
        if list(outputs).count(name) > 1:
            raise InputError(f"outputs: {name!r} stands twice; remove one")
        for axis in problem.axes:
            if name == axis.name:
                raise InputError(f"outputs: {name!r} is an axis; remove it from outputs")


def _option_of(name: str) -> str | None:
    """The option that chooses between the formulas of a quantity."""
    return graph.load()[name].option if name in graph.load() else None


def _runs(axis: Axis) -> list[slice]:
    """Stretches of an axis over which formulas and given inputs stay the same."""
    unset = [np.isnan(row) for row in axis.numbers.values() if np.isnan(row).any()]
    if not axis.options and not unset:
        return [slice(0, axis.size)]
    keys = [
        (*(row[k] for row in axis.options.values()), *(bool(mask[k]) for mask in unset))
        for k in range(axis.size)
    ]
    starts = [k for k in range(axis.size) if k == 0 or keys[k] != keys[k - 1]]
    return [slice(a, b) for a, b in itertools.pairwise([*starts, axis.size])]
