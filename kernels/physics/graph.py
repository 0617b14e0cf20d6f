"""The physics of large training jobs as a graph."""

from ..graph.formulas import Graph
from ..graph.roles import Roles
from . import MODULES, roles
from .inputs import INPUTS

PHYSICS = Graph(
    "fleetcube",
    INPUTS,
    tuple(f"{__package__}.{module}" for module in MODULES),
    Roles(**{role: getattr(roles, role.upper()) for role in Roles.__dataclass_fields__}),
    application="fleetcube.application",
)
