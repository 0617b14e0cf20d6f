"""What a solution rests on: what keeps it from meeting its target first, and what is assumed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fleetcube.analysis.assumptions import at_last, last_true
from fleetcube.analysis.nearest import nearest
from fleetcube.analysis.sensitivity import frozen
from fleetcube.analysis.targets import Target, whole_unit
from fleetcube.formats.field_table import REPLICA
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec import values
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.roles import STEPS
from fleetcube.scenario.along_axes import point
from fleetcube.tables.tables import with_unit

from .solve import solve_spec

_FAR = 0.01  # relative difference of two values above which they differ


def basis(
    spec: Mapping[str, Any],
    unknown: str,
    target: Target,
    between: Sequence[Any] | None,
    solved: Any,
    runs: bool,
) -> list[str]:
    """Lines on the last solution: if all must run, what bound it; and the inputs nobody stated."""
    if not (answered := solved.notnull()).any():
        return []
    value = solved.values[answered.values][-1].item()
    axes = {name: axis for name, axis in spec["axes"].items() if name != unknown}
    sweep = Evaluation({**spec["scenario"], unknown: value}, axes, target.outputs)
    scenario = point(sweep, last_true(answered))
    bounds = _bound(scenario, unknown, target, between) if runs and sweep.graph.application else ""
    return [*filter(None, [bounds]), *at_last(sweep, answered)]


def _bound(
    scenario: Mapping[str, Any], unknown: str, target: Target, between: Sequence[Any] | None
) -> str:
    """Why not the value that meets the target first, and what would let that run; empty if it is
    the solution."""
    free = {name: value for name, value in scenario.items() if name != unknown}
    spec = {"scenario": free, "axes": {}, "outputs": target.outputs}
    how = Settings("numpy", "include")
    first = solve_spec(spec, unknown, target, between, None, how)[unknown].item()
    value = scenario[unknown]
    if values.is_whole(PHYSICS, unknown) and math.isfinite(first):
        problem, numbers = frozen(Evaluation(scenario, {}, [target.of])._plan("numpy"))
        replica = math.prod(int(numbers.get(name, 1)) for name in REPLICA)
        unit = math.lcm(whole_unit(problem, unknown), replica if unknown in STEPS else 1)
        first = unit * (math.floor if value < first else math.ceil)(first / unit)
    if not abs(value - first) > _FAR * first:
        return ""
    shown = with_unit(first, values.unit_of(PHYSICS, unknown), unknown)
    why = nearest({**scenario, unknown: first}, target.of, fixed=unknown)
    text = f"bound by what can run, not by the target, which {unknown} {shown} meets: {why}"
    return text if why else ""
