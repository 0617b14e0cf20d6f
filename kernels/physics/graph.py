"""The physics of large training jobs as a graph."""

from .. import physics, roles
from ..graph.formulas import Graph
from ..graph.roles import Roles
from ..inputs import INPUTS

PHYSICS = Graph(
    "fleetcube",
    INPUTS,
    tuple(f"{physics.__name__}.{module}" for module in physics.MODULES),
    Roles(
        reason=roles.REASON,
        near=roles.NEAR,
        layout_reason=roles.LAYOUT_REASON,
        layout=roles.LAYOUT,
        limits=roles.LIMITS,
        steps=roles.STEPS,
        counts=roles.COUNTS,
        positive=roles.POSITIVE,
        sums=roles.SUMS,
        means=roles.MEANS,
        largest=roles.LARGEST,
        least=roles.LEAST,
        first=roles.FIRST,
        of_wholes=roles.OF_WHOLES,
        before=roles.BEFORE,
        phased=roles.PHASED,
    ),
)
