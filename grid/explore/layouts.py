"""The best layouts at the point shown, compared with the present one."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...kernels.roles import REASON
from ..ask.layouts import (
    ALWAYS,
    BESIDE,
    LAYOUT,
    OPEN,
    WHOLE,
    best_layouts,
    in_command,
    layout_at,
    point,
    searched,
    text,
)
from ..errors import InputError
from ..live.report import Question, report
from ..plots.picture import words
from ..run.evaluation import Evaluation
from ..run.settings import Settings
from ..show.tables import meanings, scale
from ..spec.axes import make_axes

if TYPE_CHECKING:
    import xarray

    from ..sweep import Sweep

TOP = 5


@dataclass(frozen=True)
class Found:
    sweep: "Sweep"  # the point, without a layout
    layouts: "xarray.Dataset"
    present: Mapping[str, Any]  # the layout there
    held: Mapping[str, Any]  # stated layout inputs, not searched
    now: Evaluation  # the present layout's evaluation
    seconds: float

    def as_json(self) -> dict[str, Any]:
        found = self.layouts
        names = [name for name in BESIDE if name in found]
        now = self.now.with_outputs([*names, REASON]).evaluate(settings=Settings("numpy"))
        why = meanings(now[REASON].attrs, now[REASON].values.reshape(1))[0]
        columns = {}
        for name in names:
            numbers = [now[name].item(), *found[name].values.tolist()]
            factor, unit = scale(str(found[name].attrs["units"]), numbers[1:2], name)
            columns[name] = [value / factor for value in numbers], unit
        rows: list[dict[str, Any]] = [{"layout": text(layout_at(self.now)), "take": None}]
        for k in range(found.sizes["rank"]):
            if found[names[0]].values[k] == found[names[0]].values[k]:
                layout = {name: found[name].values[k] for name in self.present}
                whole = {**self.held, **layout}
                take = {f"set.{name}": in_command(value) for name, value in whole.items()}
                rows.append({"layout": str(found[WHOLE].values[k]), "take": take})
        reason = found[REASON]
        return {
            "columns": [
                {"title": words(name), "unit": unit, "values": [f"{v:.4g}" for v in numbers]}
                for name, (numbers, unit) in columns.items()
            ],
            "rows": rows,
            "infeasible": "" if now[REASON].item() == 0 else why,
            "none": meanings(reason.attrs, reason.values.reshape(1))[0] if reason.item() else "",
            "said": searched(found),
            "seconds": self.seconds,
        }

    def report(self, source: str, point: str) -> str:
        return report(Question(self.sweep, ALWAYS[0]), self.layouts, source, point)


def search(sweep: "Sweep", at: Mapping[str, int]) -> Found:
    """The layouts with the shortest time at a point, for any layout stated by the spec."""
    started = time.perf_counter()
    scenario = point(sweep, at)
    bare = sweep.replace(
        scenario={name: value for name, value in scenario.items() if name not in OPEN}, axes={}
    ).with_outputs([ALWAYS[0]])
    found = best_layouts(bare, ALWAYS[0], "min", LAYOUT, (), (), TOP, Settings())
    now = Evaluation(scenario, {}, [ALWAYS[0]])
    open_ = found.attrs["fleetcube_open"].split()
    rest = [name for name in OPEN if name in scenario and name not in open_]
    present, held = layout_at(now, open_), layout_at(bare, rest)
    return Found(bare, found, present, held, now, time.perf_counter() - started)


def without(axes: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Axes without some inputs; axes left without any are dropped."""
    for name in names:
        axes = _without(axes, name)
    return dict(axes)


def _without(axes: Mapping[str, Any], name: str) -> dict[str, Any]:
    left: dict[str, Any] = {}
    for own, axis in axes.items():
        if own == name:
            continue
        if isinstance(axis, Mapping) and name in axis:
            axis = {key: row for key, row in axis.items() if key != name}
            if not axis.keys() - {"labels"}:
                continue
        elif name in make_axes({own: axis})[own].inputs:
            raise InputError(f"{name} is set by the label {own}; choose another label")
        left[own] = axis
    return left
