"""Scenarios of training jobs: what the engine asks the application of the physics' graph."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

from fleetcube.grid.spec import auto
from fleetcube.grid.spec.scenario import resolve_labels as resolve
from fleetcube.kernels.physics.roles import WHOLES
from fleetcube.scenario.remarks import defaults, remarks, unstated

__all__ = ["AFFECTING", "CODE", "defaults", "read_spec", "remarks", "resolve", "unstated"]

# Inputs that affect others where they are given: they void totals, or imply no calibration
AFFECTING = auto.OWN.union(*WHOLES.values())
# Modules whose code determines values of scenarios, or what results say
CODE = (
    *("kernels.physics.graph", "kernels.physics.roles", "kernels.physics.failures.roles"),
    *("kernels.physics.learning.roles", "kernels.physics.model.roles", "kernels.physics.run.roles"),
    "scenario.remarks",
)


def read_spec(path: str | PathLike[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a spec, a model's config.json or a framework's file."""
    from fleetcube.formats.read import read_spec  # every framework's reader, and yaml

    return read_spec(path, inputs)
