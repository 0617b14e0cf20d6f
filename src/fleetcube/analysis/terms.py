"""Step time, job time and job cost broken down into terms that add up to the whole."""

from collections.abc import Mapping, Sequence

from fleetcube.grid.result import Result, Variable, stacked
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.kernels.graph.formulas import parameters
from fleetcube.kernels.physics.inputs import INPUTS

DECOMPOSED = ("step_time", "job_time", "job_cost")
USUAL = "job_time"  # compared if no quantity is named
UNAVAILABLE = "unavailable"
OTHER = "other_losses"  # budgets of additive goodput, or all losses of a given goodput
# Quantities that are the sum of their parameters
_SUMS = ("step_time", "exposed_communication_time", "exposed_layer_communication_time")
_SHIFT = "step_time_ratio"
_TIMES = {"slow_node_stops": "slow_node_stop_time"}  # of parameters that are shares of the sum
_LOSSES = ("checkpoint_overhead", "rework_overhead", "recovery_overhead")
# Quantities that must be computed, not given, for the decomposition
_WAY = {
    "step_time": ("step_time",),
    "job_time": ("job_time", "attempted_steps"),
    "job_cost": ("job_cost", "gpu_cost", "gpu_hours", "job_time", "attempted_steps"),
}


def term_names(pair: Sequence[Evaluation], quantity: str) -> list[str]:
    """The terms of a quantity; empty if it is given."""
    if not all(_computed(pair, quantity, name) for name in _WAY[quantity]):
        return []
    step = _expand_term(pair, "step_time")
    if quantity == "step_time":
        return step
    return [*step, *(_LOSSES if _computed(pair, quantity, "goodput") else ()), OTHER, UNAVAILABLE]


def _expand_term(pair: Sequence[Evaluation], name: str) -> list[str]:
    if name not in _SUMS or not _computed(pair, "step_time", name):
        return [name]
    plans = [sweep.with_outputs(["step_time"])._plan("numpy") for sweep in pair]
    used = [case.formulas[name] for plan in plans for case in plan.cases]
    parts = dict.fromkeys(part for formula in used for part in parameters(formula))
    parts.pop(_SHIFT, None)
    return [term for part in parts for term in _expand_term(pair, _TIMES.get(part, part))]


def quantities(terms: Mapping[str, Sequence[str]]) -> list[str]:
    """Quantities to evaluate for the terms."""
    listed = [term for row in terms.values() for term in row]
    whole = ["job_goodput", "availability"] if OTHER in listed else []
    whole += [_SHIFT] if len(listed) > 1 else []
    return [name for name in [*listed, *whole] if name not in (*INPUTS, OTHER, UNAVAILABLE)]


def terms(sweep: Evaluation, cube: Result, quantity: str, names: Sequence[str]) -> Variable:
    """The terms of a quantity of one scenario, which add up to it."""
    step = {
        name: cube[name] if name in cube else given(sweep, cube, name)
        for name in names
        if name not in (*_LOSSES, OTHER, UNAVAILABLE)
    }
    if quantity != "step_time" or len(step) > 1:  # parts that are not as computed are wrong alike
        scaled = (n for n in step if n not in ("step_time", *_TIMES.values()))
        step |= {name: step[name] * cube[_SHIFT] for name in scaled}
    if quantity == "step_time":
        values = step
    else:
        # Steps take this share of the wall time; losses and downtime take the rest
        share = cube["job_goodput"] * cube["availability"] / cube["step_time"]
        shares = {name: term * share for name, term in step.items()}
        shares |= _shares(cube, [name for name in _LOSSES if name in names])
        values = {name: cube[quantity] * shares[name] for name in names}
    about = {"units": cube[quantity].attrs["units"], "long_name": f"terms of {quantity}"}
    return stacked(f"{quantity}_term", [*values.values()], about)


def _shares(cube: Result, losses: Sequence[str]) -> dict[str, Variable]:
    """Shares of the wall time not spent in steps; with those of steps they add up to one."""
    up = cube["availability"]
    shares = {name: up * cube[name] for name in losses}
    lost = up * (1 - cube["job_goodput"])
    return {**shares, OTHER: lost - sum(shares.values()), UNAVAILABLE: 1 - up}


def given(sweep: Evaluation, cube: Result, name: str) -> Variable:
    """The value of an input, along its axis if it has one."""
    if name in cube.coords:
        return cube.coords[name]
    constants = sweep._plan("numpy").problem.constants
    return Variable((), float(constants.get(name, INPUTS[name].default)))


def _computed(pair: Sequence[Evaluation], quantity: str, name: str) -> bool:
    """True if both compute `name`, which `quantity` needs, at every point: it is not given."""
    plans = [sweep.with_outputs([quantity])._plan("numpy") for sweep in pair]
    return all(name in case.formulas for plan in plans for case in plan.cases)
