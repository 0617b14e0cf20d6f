"""Scenarios of training jobs: what the engine asks the application of the physics' graph."""

from fleetcube.grid.spec.scenario import resolve_labels as resolve
from fleetcube.scenario.remarks import defaults, remarks

__all__ = ["defaults", "remarks", "resolve"]
