"""Outputs that depend on the layout of the job, and their dimensions if masked."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ...kernels.calculus.derivatives import derivative
from ...kernels.graph.formulas import Graph
from ...kernels.graph.roles import REASON
from ..spec.axis import Axis
from .cases import Formulas
from .dims import depending


def layout_dependent(
    graph: Graph, formulas: Iterable[Formulas], outputs: Iterable[str]
) -> list[str]:
    """Outputs affected by the job's layout, which infeasible_reason checks; not that itself."""
    touched = depending(formulas, computed=graph.roles.layout)
    sources = {
        name: slope.output if (slope := derivative(graph, name)) else name for name in outputs
    }
    return [name for name, names in sources.items() if names in touched and name != REASON]


def out_dims(
    axes: Sequence[Axis],
    dims: Mapping[str, Collection[str]],
    outputs: Sequence[str],
    masked: Collection[str],
) -> dict[str, tuple[str, ...]]:
    """Dimensions of outputs; masking spreads an output over those of infeasible_reason."""
    spread = dims[REASON] if masked and REASON in outputs else ()
    return {
        name: tuple(
            axis.name
            for axis in axes
            if axis.name in dims[name] or (name in masked and axis.name in spread)
        )
        for name in outputs
    }
