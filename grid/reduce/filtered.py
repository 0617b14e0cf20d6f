"""Conditions on reduced points: values are NaN where unmet or infeasible."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ...kernels.graph.roles import REASON
from ..plan.plan import Plan
from ..plan.tiles import Region, extent
from ..run import stream
from ..spec.axis import Array


class Condition(Protocol):
    """An output, a relation ("<=" or ">="), and a number or another output."""

    @property
    def of(self) -> str: ...
    @property
    def relation(self) -> str: ...
    @property
    def level(self) -> float | str: ...
    @property
    def outputs(self) -> list[str]:
        """Outputs in the condition."""


class FilteredRoom:
    """Outputs of a block, as in `stream.Room`, NaN at points excluded by conditions. If the plan
    masks, infeasible points are NaN in all outputs. Arrays are over the axes of all outputs,
    conditions and reasons. If only some are `blanked`, the others have values everywhere."""

    def __init__(
        self,
        plan: Plan,
        names: Sequence[str],
        where: Sequence[Condition],
        blanked: Sequence[str] | None = None,
    ) -> None:
        self.names, self._where = list(names), tuple(where)
        self._blanked = names if blanked is None else blanked
        self._judged = plan.mask and REASON in plan.outputs
        read = {*names, *(name for each in where for name in each.outputs)}
        self._rooms = stream.Rooms(plan, read | ({REASON} if self._judged else set()))
        self.dims, self.most = self._rooms.dims, self._rooms.most

    def evaluate(self, plan: Plan, dims: Sequence[str], region: Region) -> dict[str, Array]:
        """The outputs over a region, all of its shape."""
        outs = self._rooms.evaluate(plan, dims, region)
        shape = extent(region, dims, dims)
        good: Any = np.True_
        if self._judged and not all(name in plan.layout_dependent for name in self._blanked):
            good = outs[REASON] == 0
        for each in self._where:
            good = good & met(each, outs)
        lost = ~np.asarray(good)
        values = {name: np.broadcast_to(outs[name], shape) for name in self.names}
        for name in self._blanked:
            out = outs[name] if outs[name].shape == shape else values[name].astype(float)
            values[name] = out if out.dtype == float else out.astype(float)
            np.copyto(values[name], np.nan, where=lost)
        return values

    def on_device(self, *_: Any) -> None:
        """Nothing is left on a device."""


def met(condition: Condition, outs: Mapping[str, Any]) -> Any:
    """Where a condition holds, of arrays or ranges."""
    level = outs[condition.level] if isinstance(condition.level, str) else condition.level
    value = outs[condition.of]
    return value <= level if condition.relation == "<=" else value >= level
