"""A sweep for SALib: a problem to draw samples from, and a model of those samples."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.run.stream import check_output
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.distributions import Distribution
from fleetcube.grid.spec.values import is_whole

from .sensitivity import cut, frozen, outputs_at


def salib(sweep: Evaluation, output: str) -> tuple[dict[str, Any], Callable[[Any], Array]]:
    """A `problem` for SALib, and the output at samples of it; see `Sweep.to_salib`."""
    plan = sweep.with_outputs([output])._plan("numpy")
    check_output(plan, output)
    laws = plan.problem.distributions
    ranges = {name: _axis(axis) for name, axis in make_axes(plan.graph, sweep.spec["axes"]).items()}
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
    frozen_problem, _ = frozen(point._plan("numpy"))

    def model(samples: Any) -> Array:
        points = np.asarray(samples, float)
        if points.ndim != 2 or points.shape[1] != len(ranges):
            raise InputError(
                f"samples have the shape {points.shape}; give (samples, {len(ranges)})"
            )
        columns = {
            name: np.rint(column) if is_whole(plan.graph, name) else column
            for name, column in zip(ranges, points.T, strict=True)
        }
        return outputs_at(frozen_problem, columns, output, Settings())

    return problem, model


def _axis(axis: Axis) -> tuple[str, list[float]]:
    """Uniform between the ends of an axis, in logarithms if its values are geometric."""
    if axis.inputs != (axis.name,) or not axis.numbers or axis.size < 2:
        raise InputError(
            f"axis {axis.name!r} is not a range of numbers; put one of its values into the scenario"
        )
    points = np.sort(axis.numbers[axis.name])
    if not np.isfinite(points[-1]):
        raise InputError(f"axis {axis.name!r} is not finite; give finite values")
    # SALib draws logarithms, which 0 lacks
    ratios = points[1:] / points[:-1] if points[0] > 0 else np.zeros(1)
    even = axis.size > 2 and points[0] > 0 and np.allclose(ratios, ratios[0], rtol=1e-6, atol=0)
    return "logunif" if even else "unif", [float(points[0]), float(points[-1])]


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
