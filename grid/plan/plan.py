"""The plan of a sweep: which formulas, over which dimensions, as tables or in kernels.

Every quantity is evaluated on the grid of its own dimensions. `Plan.__init__` lists the steps, each
a function of the results before it: `cases` (formulas), `dims`, `order` (of memory), `masking`,
`engine` (and tables).
"""

from collections.abc import Mapping, Sequence

from ...kernels.calculus.derivatives import derivative, is_quantity
from ...kernels.graph import formulas as graph
from ...kernels.graph.formulas import parameters
from ...kernels.inputs import INPUTS
from ...kernels.roles import REASON
from ..errors import InputError, nearest
from ..spec.scenario import Problem
from .cases import Choice, Formulas, choices, formulas_of, leaves
from .dims import depending, differentiated, find_dims, option_of, ordered
from .engine import check_engine, largest_table, pick_engine
from .grid import Case, Grid, by_dims
from .masking import layout_dependent, out_dims
from .order import fastest_order


class Plan(Grid):
    """What to evaluate, and how. Built once for a sweep; tables are kept in it.

    `free` are inputs whose values at every point come with each evaluation of the plan.
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
        check_outputs(outputs, problem)
        check_engine(engine)
        self.problem, self.mask, self.outputs = problem, mask_infeasible, list(outputs)
        chosen = choices(problem, free)
        formulas, dims = _formulas_and_dims(problem, chosen, outputs, free)
        # Before a reason is added: the order must not depend on whether a layout can be judged
        self.axes = fastest_order(problem.axes, chosen[0].runs, dims, formulas, outputs)
        self.layout_dependent = layout_dependent(formulas, outputs)
        if self.layout_dependent and REASON not in outputs:
            try:
                formulas, dims = _formulas_and_dims(problem, chosen, [*outputs, REASON], free)
                self.outputs.append(REASON)
            except InputError as error:  # the layout is not known well enough
                if mask_infeasible:
                    raise InputError(f"mask_infeasible cannot judge the layout: {error}") from None
        given = leaves(problem, chosen, self.axes, free)
        self.cases = [
            Case(choice.runs, row, values)
            for choice, row, values in zip(chosen, formulas, given, strict=True)
        ]
        self.sizes = {axis.name: axis.size for axis in self.axes}
        self.dims = ordered(dims, self.axes)
        masked = self.layout_dependent if mask_infeasible else ()
        self.out_dims = out_dims(self.axes, dims, self.outputs, masked)
        self.full = max(map(self.size, self.outputs))
        points = [self.size(name) for name in {name for row in formulas for name in row}]
        self.engine = pick_engine(engine, points, self.full)
        self.most_table = largest_table(self.engine, formulas, self.full)
        self.moving = depending(formulas, on=free)

    def groups(self) -> dict[tuple[str, ...], list[str]]:
        """Outputs by their dimensions, which are in the order of memory."""
        return by_dims(self.outputs, self.out_dims)

    def user_dims(self, name: str) -> tuple[str, ...]:
        """Dimensions of an output in the order in which the axes were written."""
        return tuple(axis.name for axis in self.problem.axes if axis.name in self.out_dims[name])

    def cases_of(self, dims: tuple[str, ...]) -> list[Case]:
        """One case for each combination of runs along the given dimensions.

        Any will do: what has none of the other dimensions is the same in all of them.
        """
        first: dict[tuple[int, ...], Case] = {}
        for case in self.cases:
            key = tuple(case.runs[dim].start for dim in dims if dim in case.runs)
            first.setdefault(key, case)
        return list(first.values())

    def unused(self) -> list[str]:
        """Inputs that the scenario sets and that no formula in use reads."""
        used = set(self.outputs)
        for case in self.cases:
            for name, formula in case.formulas.items():
                used |= {*parameters(formula), option_of(name) or name}
        used |= {by for name in used & INPUTS.keys() for by in INPUTS[name].implied_by}
        return sorted(self.problem.stated - used)

    def is_table(self, name: str) -> bool:
        """Whether a quantity is evaluated once for the whole sweep, with NumPy."""
        return self.size(name) <= self.most_table and name not in self.moving


def _formulas_and_dims(
    problem: Problem, chosen: Sequence[Choice], outputs: Sequence[str], free: Sequence[str]
) -> tuple[list[Formulas], Mapping[str, set[str]]]:
    """Formulas of every case, and the dimensions of every name; derivatives need both first."""
    formulas = formulas_of(problem, chosen, outputs)
    dims = find_dims(problem.axes, chosen, formulas, free)
    if wanted := [slope for name in outputs if (slope := derivative(name))]:
        formulas = differentiated(formulas, dims, wanted)
        dims = find_dims(problem.axes, chosen, formulas, free)
    return formulas, dims


def check_outputs(outputs: Sequence[str], problem: Problem) -> None:
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
            raise InputError(f"outputs: {name!r} appears twice; remove one")
        for axis in problem.axes:
            if name == axis.name:
                raise InputError(f"outputs: {name!r} is an axis; remove it from outputs")
