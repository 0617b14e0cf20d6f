"""The physics of large training jobs as a graph."""

from ..graph.formulas import Graph
from ..graph.roles import Roles
from . import MODULES, roles
from .inputs import INPUTS

PHYSICS = Graph(
    "fleetcube",
    INPUTS,
    tuple(f"{__package__}.{module}" for module in MODULES),
    Roles(
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
        labels=roles.LABELS,
        texts=roles.TEXTS,
        synonyms=roles.CHOSEN,
    ),
    application="fleetcube.application",
)
