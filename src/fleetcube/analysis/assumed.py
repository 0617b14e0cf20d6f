"""Unstated inputs that decide an answer: from a model's record, defaults, or software."""

from collections.abc import Collection

import numpy as np

from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.values import unit_of
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.roles import DECIDING
from fleetcube.scenario import framework
from fleetcube.tables.tables import label, numbers, scale

ASSUMED = "fleetcube_assumed"  # the attribute that holds the line


def assumed(sweep: Evaluation, output: str, layout: Collection[str]) -> str:
    """Inputs that an output reads and a spec leaves open, with values and sources, in one line;
    without those of the layout. Empty if there are none."""
    plan = sweep.with_outputs([output])._plan("numpy")
    axes = make_axes(plan.graph, sweep.spec["axes"]).values()
    stated = {*layout, *sweep.spec["scenario"], *(name for axis in axes for name in axis.inputs)}
    read = frozenset[str]().union(*plan.structure.read)
    parts: dict[str, list[str]] = {}
    for name in (name for name in DECIDING if name in read and name not in stated):
        used = {float(v) for case in plan.cases for v in np.ravel(case.leaves.get(name, []))}
        by = [record for record in plan.problem.records if name in record.values]
        if not used or any(record.kind != "model" for record in by):
            continue  # storage is named for its bandwidth
        value = _shown(name, used.pop()) if len(used) == 1 else "of each"
        parts.setdefault("models" if len(by) > 1 else by[0].label if by else "default", []).append(
            f"{name} {value}"
        )
    for record in (each for each in plan.problem.records if each.kind == framework.KIND):
        for name, choice in record.values.get("own", {}).items():
            if name not in stated:
                parts.setdefault(record.label, []).append(f"{name} {label(choice)}")
    text = "; ".join(f"{', '.join(row)} ({source})" for source, row in parts.items())
    return f"assumed: {text}" if text else ""


def _shown(name: str, value: float) -> str:
    if value >= 1e12 and unit_of(PHYSICS, name) == "1":
        return f"{value / 1e12:g}T"
    factor, unit = scale(unit_of(PHYSICS, name), [value], name)
    return f"{numbers([value / factor])[0]} {unit}".rstrip()
