"""A sweep for SALib: a problem to draw samples from, and a model of those samples."""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.plan.labels import attributes
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.run.stream import check_output
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.distributions import Distribution
from fleetcube.grid.spec.values import is_whole
from fleetcube.kernels.graph.roles import REASON
from fleetcube.tables.tables import meanings

from .sensitivity import cut, frozen, outputs_at


def salib(sweep: Evaluation, output: str) -> tuple[dict[str, Any], Callable[[Any], Array]]:
    """A `problem` for SALib, and the output at samples of it; see `Sweep.to_salib`."""
    plan = sweep.with_outputs([output])._plan("numpy")
    check_output(plan, output)
    laws = plan.problem.distributions
    entries = sweep.spec["axes"]
    axes = make_axes(plan.graph, entries)
    ranges = {name: _axis(axis, entries[name]) for name, axis in axes.items()}
    listed = {n: axis.numbers[n] for n, axis in axes.items() if not _is_range(entries[n])}
    ranges |= {name: _distribution(name, distribution) for name, distribution in laws.items()}
    if not ranges:
        raise InputError("the sweep has no axis and no distribution; give one to vary")
    problem = {
        "num_vars": len(ranges),
        "names": list(ranges),
        "bounds": [bounds for _, bounds in ranges.values()],
        "dists": [kind for kind, _ in ranges.values()],
        "outputs": [output],
    }
    point, _ = cut(sweep.with_outputs([output]), {})
    frozen_plan = point._plan("numpy")
    frozen_problem, _ = frozen(frozen_plan)

    def model(samples: Any) -> Array:
        points = np.asarray(samples, float)
        if points.ndim != 2 or points.shape[1] != len(ranges):
            raise InputError(
                f"samples have the shape {points.shape}; give (samples, {len(ranges)})"
            )
        columns = dict(zip(ranges, points.T, strict=True))
        for name, column in columns.items():
            if name in listed:
                last = listed[name].size - 1
                columns[name] = listed[name][np.clip(column, 0, last).astype(int)]
            elif is_whole(plan.graph, name):
                columns[name] = np.rint(column)
        if REASON in frozen_plan.outputs:
            codes = outputs_at(frozen_problem, columns, REASON, Settings())
            _warn_of(codes[codes > 0], codes.size, attributes(frozen_plan, REASON), output)
        return outputs_at(frozen_problem, columns, output, Settings())

    return problem, model


def _warn_of(wrong: Array, samples: int, about: dict[str, Any], output: str) -> None:
    """Count the samples that cannot run, by reason."""
    if counts := Counter(meanings(about, wrong)).most_common():
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in counts)
        warnings.warn(
            f"{wrong.size:,} of {samples:,} samples cannot run ({reasons}); {output} is there what "
            "it would be if they could: list values that can run, or leave these samples out",
            stacklevel=3,
        )


def _axis(axis: Axis, entry: Any) -> tuple[str, list[float]]:
    """Uniform between the ends of a linspace, in logarithms of a geomspace; places in a list."""
    if axis.inputs != (axis.name,) or not axis.numbers or axis.size < 2:
        raise InputError(
            f"axis {axis.name!r} does not list numbers of one input; put one of its values into "
            "the scenario"
        )
    points = axis.numbers[axis.name]
    if not _is_range(entry):
        return "unif", [0.0, float(axis.size)]
    return "logunif" if "geomspace" in entry else "unif", [float(points.min()), float(points.max())]


def _is_range(entry: Any) -> bool:
    return isinstance(entry, Mapping) and not {"linspace", "geomspace"}.isdisjoint(entry)


def _distribution(name: str, distribution: Distribution) -> tuple[str, list[float]]:
    first, last = distribution.values[0], distribution.values[-1]
    if distribution.kind == "uniform":
        return "unif", [first, last]
    if distribution.kind == "lognormal":
        return "lognorm", [math.log(first), distribution.deviation]
    if distribution.kind == "normal":
        # SALib's truncnorm needs finite bounds; 40 deviations are as good as none
        far = 40 * last
        ends = [max(distribution.low, first - far), min(distribution.high, first + far)]
        return "truncnorm", [*ends, first, last]
    raise InputError(
        f"{name} has the distribution {distribution.kind}, which SALib lacks; give another"
    )
