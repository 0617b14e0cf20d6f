"""Calibrations applicable to a job, the nearest measured steps first."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetcube.catalog import AUTO, kind
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.problem import resolve
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.scenario import auto
from fleetcube.scenario.along_axes import values_at
from fleetcube.scenario.reading import stated_inputs

_KIND = "calibration"
_TIMES = ("step_time", "step_time_low", "step_time_high")


@dataclass(frozen=True)
class Candidate:
    """A calibration, its prediction [s], and how its steps differ from the job's."""

    label: str
    step_time: float
    low: float
    high: float
    differs: tuple[str, ...]
    why: str

    @property
    def distance(self) -> int:
        """0 if its steps had the same layers, GPU, software and precision."""
        return auto.weight(self.differs)

    @property
    def nearness(self) -> str:
        """The distance in words."""
        places = (("same", 0), ("near", 3), ("far", 7), ("other kind", math.inf))
        return next(word for word, most in places if self.distance <= most)


def calibrations(scenario: Mapping[str, Any], axes: Mapping[str, Any]) -> list[Candidate]:
    """Calibrations of the catalog for a job, auto first, then by similarity of their steps. The
    scenario's own calibration is ignored; axes are cut in the middle. Raises InputError."""
    stated = {name: value for name, value in scenario.items() if name != _KIND}
    for axis in make_axes(
        PHYSICS, {name: row for name, row in axes.items() if name != _KIND}
    ).values():
        stated |= values_at(axis, axis.size // 2)
    stated.pop(_KIND, None)
    job = auto.posterior_cell(stated_inputs(stated))
    fitted = {label: cell for label in kind(_KIND) if (cell := auto.fitted_to(label))}
    cube = Evaluation(stated, {_KIND: [AUTO, *fitted]}, _TIMES).evaluate(settings=Settings("numpy"))
    remarks = resolve({**stated, _KIND: AUTO}, {}).remarks
    candidates = []
    for k, label in enumerate([AUTO, *fitted]):
        middle, low, high = (float(cube[name].values[k]) for name in _TIMES)
        near = auto.differences(fitted[label], job) if label in fitted else auto.nearest(job)
        differs = tuple(near)
        why = "; ".join(text.removeprefix("calibration auto: ") for text in remarks)
        if label in fitted:
            title = kind(_KIND)[label].title
            why = f"{title}; other {', '.join(differs)}" if differs else title
        candidates.append(Candidate(label, middle, low, high, differs, why))
    return sorted(candidates, key=lambda each: (each.label != AUTO, each.distance))
