"""Gradients of job_time at every point of a grid, and a grid of solved equations."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from fleetcube.analysis.gradient import continuous, derivative_of
from fleetcube.analysis.solve.solve import Solver, solve_spec
from fleetcube.analysis.targets import read_target
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.axes import coupled_axis
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.sweep import Sweep

from .measure import interleave, ratio, say
from .peers.contenders import dense_jax
from .tables import Row, Table

OUTPUT = "job_time"
AT_MOST = 4.0  # JAX evaluations, or fills of the gradients
MOST_EVALUATIONS = 30.0
STEP = 1e-6  # relative step of central differences
COLUMNS = {
    "grid": "grid",
    "points": "points",
    "inputs": "inputs",
    "contender": "way",
    "seconds": "seconds",
    "of_limit": "of the limit",
    "met": "met",
    "error": "median error",
}
SOLVE_COLUMNS = {
    "sought": "sought",
    "points": "points",
    "solved": "solved",
    "seconds": "seconds",
    "evaluation": "evaluation s",
    "evaluations": "evaluations' time",
    "at_most": "at most",
    "met": "met",
    "residual": "largest residual",
}
SCENARIO = {"model": "llama-3-70b", "node": "dgx-h100", "tensor_parallel": 8, "calibration": "none"}


def run(quick: bool = False) -> Table:
    points = 10_000 if quick else 1_000_000
    grids = {"three axes": factored(points), "every point drawn": drawn(points)}
    rows = [row for name, sweep in grids.items() for row in compare(name, sweep, 3 if quick else 5)]
    notes = (
        "The derivatives of job_time with respect to every continuous input that it depends on, at "
        "every point. The limit is 4 times JAX's evaluation of job_time with every input an array "
        "of the grid, and a fill of the gradient arrays. Where every point is drawn, 18 inputs "
        "vary independently along one axis: points share nothing. JAX's own reverse mode is "
        "`jax.vjp` of the same formulas on arrays of the grid. Central differences evaluate the "
        f"sweep twice for each input, {STEP:g} apart; their error is the median deviation from the "
        "exact derivatives, which are tested to 1e-12. Kernels are compiled before the clock "
        "starts.",
    )
    return Table("Gradients", COLUMNS, rows, notes)


def factored(points: int) -> Sweep:
    size = round(points ** (1 / 3))
    axes = {
        "n_gpus": np.geomspace(64, 16384, size),
        "gpu_mttf": np.geomspace(2e7, 1e9, size),
        "inter_node_bandwidth": np.geomspace(1e10, 1e11, size),
    }
    return Sweep(SCENARIO, axes, [OUTPUT])


def drawn(points: int) -> Sweep:
    random = np.random.default_rng(0)
    values = {
        "inter_node_bandwidth": 5e10,
        "intra_node_bandwidth": 4e11,
        "peak_flops_bf16": 1e15,
        "data_parallel_overlap": 0.5,
    }
    names = (
        *values,
        *("gpu_mttf", "nic_mttf", "psu_mttf", "detection_time", "drain_time", "provision_time"),
        *("reinit_time", "checkpoint_write_bandwidth", "checkpoint_read_bandwidth"),
        *("checkpoint_bytes_per_parameter", "flops_efficiency", "inter_node_latency"),
        "intra_node_latency",
    )
    inputs = {
        name: values.get(name, INPUTS[name].default) * random.uniform(0.7, 1.3, points)
        for name in names
    }
    inputs["n_gpus"] = np.exp(random.uniform(np.log(64), np.log(16384), points))
    return Sweep(
        SCENARIO, {"point": coupled_axis(PHYSICS, "point", np.arange(points), inputs)}, [OUTPUT]
    )


def compare(name: str, sweep: Sweep, rounds: int) -> list[Row]:
    """Rows for JAX's evaluation, a fill, each engine's gradient, JAX's, and finite differences."""
    say(f"gradients: {name}")
    inputs = continuous(sweep._plan(), [OUTPUT])
    shape = tuple(sweep._sizes.values())
    arrays = np.empty((len(inputs), *shape))
    evaluate, reverse = dense_jax(sweep, OUTPUT, inputs)
    slopes = [derivative_of(sweep.graph, OUTPUT, name, elasticity=False).name for name in inputs]
    exact = {engine: sweep.with_outputs(slopes) for engine in ("auto", "jax")}
    results = {
        engine: derivatives.evaluate(settings=Settings(engine))
        for engine, derivatives in exact.items()
    }
    differences, error = _differences(sweep, inputs, results["auto"])
    contenders: dict[str, Callable[[], object]] = {
        "JAX, job_time alone": evaluate,
        "fill of the gradient arrays": lambda: arrays.fill(1.0),
        f"fleetcube, {exact['auto']._plan().engine}": lambda: exact["auto"].evaluate(
            out=results["auto"]
        ),
        "fleetcube, jax": lambda: exact["jax"].evaluate(
            out=results["jax"], settings=Settings("jax")
        ),
        "JAX's own reverse mode": reverse,
    }
    for contender in contenders.values():
        contender()
    times = interleave(contenders, rounds)
    times["central differences"] = [differences]
    alone, fill = times["JAX, job_time alone"], times["fill of the gradient arrays"]
    limit = [AT_MOST * alone_s + fill_s for alone_s, fill_s in zip(alone, fill, strict=True)]
    rows: list[Row] = []
    for contender, seconds in times.items():
        row: dict[str, Any] = {
            "grid": name,
            "points": sweep.points,
            "inputs": len(inputs),
            "contender": contender,
            "seconds": median(seconds),
        }
        if contender not in ("JAX, job_time alone", "fill of the gradient arrays"):
            full = [median(seconds)] * rounds if len(seconds) < rounds else seconds
            row["of_limit"] = ratio(full, limit)
            row["met"] = row["of_limit"] <= 1
        if contender == "central differences":
            row["error"] = error
        rows.append(row)
    return rows


def _differences(sweep: Sweep, inputs: Sequence[str], exact: Any) -> tuple[float, float]:
    """Seconds of central differences by evaluating the sweep, and their median error."""
    problem = sweep._plan().problem
    errors, seconds = [], 0.0
    for name in inputs:
        ends = []
        for sign in (1, -1):
            near, step = moved(sweep, problem, name, sign)
            if near is None:
                break
            near.evaluate()
            start = time.perf_counter()
            ends.append((near.evaluate()[OUTPUT], step))
            seconds += time.perf_counter() - start
        if len(ends) == 2:
            slope = (ends[0][0] - ends[1][0]) / (ends[0][1] - ends[1][1])
            true = exact[f"d_{OUTPUT}_d_{name}"]
            errors.append(np.abs(slope / true.where(true != 0) - 1).values.ravel())
    every = np.concatenate(errors)
    return seconds, float(np.nanmedian(every))


def moved(sweep: Sweep, problem: Any, name: str, sign: int) -> tuple[Sweep | None, Any]:
    """The sweep with a perturbed input, and the step; None if that is impossible."""
    import xarray

    factor = 1 + sign * STEP
    axes: dict[str, Any] = dict(sweep.spec["axes"])
    for axis in problem.axes:
        if name in axis.numbers:
            moved = {**axis.numbers, name: axis.numbers[name] * factor}
            row = axis.numbers[name] * (factor - 1)
            step = xarray.DataArray(row, {axis.name: axis.labels}, axis.name)
            axes[axis.name] = type(axis)(axis.name, axis.labels, moved)
            return Sweep(sweep.spec["scenario"], axes, [OUTPUT]), step  # type: ignore[arg-type]
    value = problem.constants.get(name, INPUTS[name].default)
    if value is None or not np.isfinite(value):
        return None, None
    off = value * (factor - 1) if value else sign * STEP
    if not INPUTS[name].low <= value + off <= INPUTS[name].high:
        return None, None
    scenario = {**sweep.spec["scenario"], name: value + off}  # type: ignore[dict-item]
    return Sweep(scenario, axes, [OUTPUT]), off


def run_solving(quick: bool = False) -> Table:
    points = 10_000 if quick else 1_000_000
    questions = (
        ("flops_efficiency", "job_time = 90 d"),
        ("n_gpus", "job_time = 60 d"),
        ("gpu_mttf", "goodput = 0.95"),
    )
    rows = [solving(points, *question, rounds=3 if quick else 5) for question in questions]
    notes = (
        "An evaluation is one of the target's output at as many points, with one value of the "
        "sought input for each point, on the same engine; of formulas that do not depend on that "
        "input, tables are kept in both. Points without a solution in the range take as long.",
    )
    return Table("Solving", SOLVE_COLUMNS, rows, notes)


def solving(points: int, for_: str, target: str, rounds: int) -> Row:
    say(f"solving: {for_} at {target}")
    size = round(points ** (1 / 3))
    scenario: dict[str, Any] = {**SCENARIO, "n_gpus": 4096}
    axes: dict[str, Any] = {
        "checkpoint_write_bandwidth": np.geomspace(1e10, 1e12, size),
        "gpu_mttf": np.geomspace(2e7, 1e9, size),
        "inter_node_bandwidth": np.geomspace(2e10, 1e11, size),
    }
    if for_ == "gpu_mttf":  # goodput does not depend on the fabric
        del axes["gpu_mttf"], axes["inter_node_bandwidth"]
        axes["provision_time"] = np.geomspace(60, 3600, size)
        axes["n_gpus"] = np.geomspace(1024, 16384, size)
        scenario["inter_node_bandwidth"] = "50 GB/s"
    sweep = Sweep(scenario, axes, [OUTPUT])
    aim = read_target(sweep.graph, target)
    search = Solver(sweep._plan().problem, for_, aim, None, "auto")
    dims = tuple(search.plan.sizes)
    tile = search.plan.whole(dims)
    guess = np.full(search.plan.shape(dims), float(search.grid[len(search.grid) // 2]))
    contenders: dict[str, Callable[[], object]] = {
        "evaluation": lambda: search.evaluate(tile, guess, aim.outputs, 2),
        "solve": lambda: solve_spec(sweep.spec, for_, aim, None, False, Settings(threads=2)),
    }
    answer: Any = contenders["solve"]()
    contenders["evaluation"]()
    seconds = interleave(contenders, rounds)
    times = ratio(seconds["solve"], seconds["evaluation"])
    level = aim.level
    return {
        "sought": f"{for_} at {target}",
        "points": int(answer[for_].size),
        "solved": int((answer["unsolved_reason"] == 0).sum()),
        "seconds": median(seconds["solve"]),
        "evaluation": median(seconds["evaluation"]),
        "evaluations": times,
        "at_most": MOST_EVALUATIONS,
        "met": times <= MOST_EVALUATIONS,
        "residual": float(np.abs(answer[aim.of] / level - 1).max()),
    }
