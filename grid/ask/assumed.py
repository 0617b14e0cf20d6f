"""What decides an answer and is not stated: of a model's record, by default, of software's own."""

from collections.abc import Collection

import numpy as np

from ...kernels.roles import DECIDING
from ..run.evaluation import Evaluation
from ..show.tables import label, numbers, scale
from ..spec import framework
from ..spec.axes import make_axes
from ..spec.values import unit_of

ASSUMED = "fleetcube_assumed"  # the attribute that holds the line
_MODEL = "model"


def assumed(sweep: Evaluation, of: str, layout: Collection[str]) -> str:
    """Inputs that an output reads and a spec leaves open, with values and sources, in one line;
    without those of the layout. Empty if there are none."""
    plan = sweep.with_outputs([of])._plan("numpy")
    axes = make_axes(sweep.spec["axes"]).values()
    stated = {*layout, *sweep.spec["scenario"], *(name for axis in axes for name in axis.inputs)}
    records = plan.problem.records
    parts: dict[str, list[str]] = {}
    for name in (name for name in DECIDING if name not in stated):
        leaves = [
            case.leaves[name].ravel()
            for case, read in zip(plan.cases, plan.structure.read, strict=True)
            if name in read and name in case.leaves
        ]
        by = [record for record in records if name in record.values]
        if not leaves or any(record.kind != _MODEL for record in by):
            continue  # storage is named for its bandwidth
        known = np.concatenate(leaves)
        ends = dict.fromkeys(_shown(name, float(end)) for end in (known.min(), known.max()))
        source = by[0].label if len(by) == 1 else "each model" if by else "default"
        parts.setdefault(source, []).append(f"{name} {' to '.join(ends)}")
    for record in (each for each in records if each.kind == framework.KIND):
        for name, value in record.values.get("own", {}).items():
            if name not in stated:
                parts.setdefault(record.label, []).append(f"{name} {label(value)}")
    said = "; ".join(f"{', '.join(row)} ({source})" for source, row in parts.items())
    return f"assumed: {said}" if said else ""


def _shown(name: str, value: float) -> str:
    if value >= 1e9 and unit_of(name) == "1":
        return f"{value / 1e12:g}T" if value >= 1e12 else f"{value / 1e9:g}B"
    factor, unit = scale(unit_of(name), [value], name)
    return f"{numbers([value / factor])[0]} {unit}".rstrip()
