"""Simulate failing jobs: map a scenario to the Monte Carlo and its statistics to a Dataset."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fleetcube.functions.arguments import scenario_and_axes
from fleetcube.grid.errors import InputError
from fleetcube.grid.plan import memory
from fleetcube.grid.plan.grid import Case
from fleetcube.grid.plan.labels import coordinates, flags, origin
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.progress import expected
from fleetcube.grid.result import Result
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings, check_settings
from fleetcube.grid.spec.axis import Array
from fleetcube.grid.spec.graphs import graph_of
from fleetcube.grid.spec.problem import Problem, resolve
from fleetcube.grid.spec.values import check_threads
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import ENDING, UNPLAYED
from fleetcube.scenario import phases
from fleetcube.tables.tables import check_rows, check_variables

from .extrapolation import with_remarks

if TYPE_CHECKING:
    import xarray

MOST_TRIALS = 10_000_000
BYTES_PER_POINT = 1300  # of parameters and statistics, measured
LONG = 100  # times the longer of MTBF and repair time: start and end effects are then negligible

# Names that the graph and the Monte Carlo share; those missing from the graph are left out
FLUSH = "unsafe_time"  # from the end of a stall until the checkpoint is safe
# Spares are simulated: recovery_time must include all of provision_time
FIXED = {"sparing": False}
_KINDS = ("in_process", "in_job", "requeue")  # of failures; each has a share and a recovery time
_INPUTS = (
    *("failure_shape", "spare_nodes", "repair_time", "repair_spread", "corruption_probability"),
)

_TIERED = (  # graph quantities of the tiers
    *(
        f"{tier}_tier_{kind}_time"
        for kind in ("stall", "flush")
        for tier in ("memory", "drive", "storage")
    ),
    *("memory_tier_share", "drive_tier_share", "drive_multiple", "storage_multiple"),
    *("memory_tier_restore_time", "drive_copy_time", "checkpoint_size", "read_bandwidth"),
    *("checkpoint_restore_time", "storage_copy_loss_share"),
)
_AGE = {  # parameters of the Monte Carlo -> inputs
    "age": "fleet_age",
    "burn_in": "burn_in_excess",
    "burn_in_time": "burn_in_time",
    "wear_age": "wear_out_age",
    "wear_shape": "wear_out_shape",
}
# Graph quantities, and those that a feature needs besides
_QUANTITIES = (
    *("cluster_mtbf", "checkpoint_interval", "checkpoint_stall_time", "recovery_time"),
    "node_provision_time",
)
_FEATURE_QUANTITIES = {
    "kinds": tuple(f"{kind}_recovery_time" for kind in (*_KINDS, "node_swap")),
    "late": ("lost_work_time",),
    "flush": (FLUSH,),
    "closed": ("whole_cluster_probability", "nodes"),
    "tiered": _TIERED,
    "ages": ("aging_factor", "goodput"),
    "crews": ("spare_left_probability",),
    "added_up": ("training_steps", "step_time"),
    "elastic": (
        *("elastic_capacity", "growth_stop_time", "num_microbatches", "data_parallel", "nodes"),
    ),
    "groups": ("node_failure_rate", "nodes"),
    "ready": ("transition_wait",),
}
_FEATURE_INPUTS = {
    "kinds": tuple(f"{kind}_share" for kind in _KINDS),
    "late": ("corruption_latency", "silent_corruption_mttf", "n_gpus"),
    "ages": (*_AGE.values(), "aging_window"),
    "crews": ("repair_crews",),
    "groups": ("correlated_failure_fraction", "failure_domain_nodes"),
}

_POOLS = {"open": 0.0, "closed": 1.0, "closed_idle_safe": 2.0}  # as in the Monte Carlo
_GROWTHS = {"free": 0.0, "stop": 1.0, "next_failure": 2.0, "restart": 3.0}  # the same

_SHARE = "share of the simulated wall time "
_ENDS = (
    ("in_process", "by an in-process restart"),
    ("in_job", "by an in-job restart"),
    ("node_swap", "by a node swap"),
    ("requeue", "in the queue"),
)
_PLACES = (("memory", "memory"), ("drive", "local drives"), ("storage", "remote storage"))
# Unit and meaning of the statistics; `NAME_error` is the standard error of NAME
MEANING = {
    "goodput": ("1", _SHARE + "that makes progress"),
    "checkpoint_overhead": ("1", _SHARE + "that training waits for checkpoints"),
    "rework_overhead": ("1", _SHARE + "that repeats work lost to failures"),
    "recovery_overhead": ("1", _SHARE + "spent recovering from failures"),
    "failures": ("1", "failures of one job, mean"),
    "spare_shortage": ("1", "share of the failures that found no free spare"),
    "whole_cluster_probability": ("1", _SHARE + "in which the job does not wait for a repair"),
    "wall_time": ("s", "wall time of the simulated job, mean"),
    "wall_time_p95": ("s", "wall time within which 95 of 100 simulated jobs are done"),
    "work": ("s", "useful time of the simulated job"),
}
WITHOUT_ERROR = ("wall_time_p95", "work")
# Of elastic jobs
OF_SIZE = {"elastic_capacity": ("1", "speed between failures over that of the whole job")}
# Additional ones, with recovery_model = kinds and with checkpoint_mode = tiered
OF_KINDS = {
    f"{kind}_failures": ("1", f"failures of one job that end {how}, mean") for kind, how in _ENDS
}
OF_KINDS |= {
    f"{kind}_recovery_overhead": ("1", _SHARE + f"spent recovering {how}, without waits")
    for kind, how in _ENDS
}
OF_TIERS = {
    f"{tier}_tier_restarts": ("1", f"restarts of one job from {where}, mean")
    for tier, where in _PLACES
}
OF_TIERS |= {
    f"{tier}_tier_rework": ("1", _SHARE + f"that repeats work lost to restarts from {where}")
    for tier, where in _PLACES
}
VARIABLES = (
    *MEANING,
    *(f"{name}_error" for name in MEANING if name not in WITHOUT_ERROR),
    "outcome",
)
VERDICTS = {"done": 0, "too_many_failures": 1, "undefined": 2}


def simulate(
    *,
    trials: int = 1000,
    seed: int = 0,
    failures_during_recovery: bool = True,
    settings: Settings | None = None,
    **inputs: Any,
) -> "xarray.Dataset":
    """Simulate a failing job, at a point or over a grid: a Monte Carlo of the failure process.

    It checks the closed forms behind `goodput` and `elastic_capacity`, and covers what they cannot:
    non-exponential failures (failure_shape), exhausted spares (spare_nodes, repair_time,
    provision_time, node_pool), and the distribution of the wall time.

    Args:
        trials: jobs simulated at every point.
        seed: of the random numbers; the same seed gives the same bits, whatever the number of
            threads and the other points.
        failures_during_recovery: the time to the next failure runs from the last failure, so that
            one may strike during recovery, which then restarts (Daly 2006); else it runs from the
            end of the recovery.
        settings: threads and progress.
        **inputs: as for `evaluate`. `job_duration`, if given, is the useful time that the job
            needs; else the job is so long that its start and end do not matter. A given
            `recovery_time` covers the whole recovery: nothing is added without a spare.

    A failure costs the work since the last safe checkpoint, and one node, which returns after
    `repair_time`, with a `repair_spread` a log-normal time of that mean; recovery waits for
    `provision_time` if no spare is free, or for a repair if `node_pool` is closed. With
    `repair_crews` so many nodes are repaired at a time. Each of several nodes that fail together
    (correlated_failure_fraction) takes a spare. All nodes work at the start. `failure_shape` is the
    Weibull shape of the time between the job's failures, `cluster_mtbf` its mean.

    With `recovery_model = "kinds"` each failure is of a kind drawn by the shares, and a restart
    keeps its node; with `corruption_latency` silent corruption is found that much later, and the
    work since then counts as rework.

    With `checkpoint_mode = "tiered"` memory, drives or storage survive a failure, drawn by their
    shares, and the work since the last checkpoint that is safe there is lost; each tier has its own
    stalls, flushes and restores. With `fleet_aging = "on"` and an aging_window the failure rate
    follows the hardware's age; without job_duration the job lasts as long as the window. A job in
    phases is simulated phase by phase, each for its own training steps, and the times of its phases
    add up. Its transition_time is part of wall_time, but not of the time of which shares are taken.
    With `job_end = "unsaved"` a job of a job_duration, or a phase, ends without the save after its
    last step, which all others have.

    With `elastic = "shrink"` the job waits for no node: it goes on with the replicas that are whole
    (with `elastic_packing`, with as many as its nodes make), each with more micro-batches, until
    repaired nodes are taken back as `elastic_growth` says. Failures strike the nodes that are
    there; those of idle nodes cost the job nothing, and those of switches cost it no node. The
    shares are those of a job at whatever speed: wall_time is work / (goodput elastic_capacity).
    Tiers, unreadable checkpoints and corruption that is found late are refused with it.

    Returns a Dataset: goodput, checkpoint_overhead, rework_overhead and recovery_overhead, which
    add up to 1, failures, spare_shortage, whole_cluster_probability, wall_time, their standard
    errors (`goodput_error`, ...), wall_time_p95, work, and `outcome`, which marks points that were
    given up and are NaN: a million node failures before the end (of elastic jobs also ten million
    events), or an interval of 0 between checkpoints that cost time, or of an elastic job. With
    kinds also the failures and recovery of each
    (`in_process_failures`, `in_process_recovery_overhead`, ...), with tiers the restarts from each
    and their rework (`memory_tier_restarts`, `memory_tier_rework`, ...), of elastic jobs
    elastic_capacity, with errors.
    Raises InputError (a ValueError) with a one-line message for unusable arguments.

    Example:
        >>> import fleetcube
        >>> jobs = fleetcube.simulate(cluster_mtbf="4 h", checkpoint_stall_time=30,
        ...     recovery_time=600, failure_shape=[0.7, 1.0])
        >>> jobs.goodput.dims
        ('failure_shape',)
    """
    asked = check_settings(settings, Settings())
    with asked._watched():
        return simulate_spec(
            *scenario_and_axes(inputs),
            trials=trials,
            seed=seed,
            threads=asked.threads,
            failures_during_recovery=failures_during_recovery,
        )


def simulate_spec(
    scenario: Mapping[str, Any],
    axes: Mapping[str, Any],
    *,
    trials: int = 1000,
    seed: int = 0,
    threads: int | None = None,
    failures_during_recovery: bool = True,
    printed: bool = False,
    wanted: Sequence[str] = (),
) -> "xarray.Dataset":
    """`simulate` for a scenario and axes as in a spec file. Before simulating, `printed` refuses a
    grid too large to print, and `wanted` unknown variables."""
    _check(trials, seed, failures_during_recovery)
    threads = check_threads(threads)
    shared, all_axes, added_up = phases.with_phases(scenario, axes)
    if added_up:
        all_axes[phases.NAME] = phases.with_tokens_before(
            graph_of(scenario), all_axes[phases.NAME], shared
        )
    problem = resolve(shared, all_axes)
    tiered = "tiered" in _chosen(problem, "checkpoint_mode")
    further = dict(OF_KINDS) if "kinds" in _chosen(problem, "recovery_model") else {}
    further |= OF_TIERS if tiered else {}
    detailed = bool(further)
    further |= OF_SIZE if "shrink" in _chosen(problem, "elastic") else {}
    check_variables(wanted, (*VARIABLES, *further, *(f"{name}_error" for name in further)))
    plan, dims, points = _points(problem, failures_during_recovery, added_up)
    parts = plan.sizes[phases.NAME] if added_up else 1
    if printed:
        check_rows({dim: plan.sizes[dim] for dim in dims}, "shorten an axis")
    from fleetcube.kernels import monte_carlo  # numba: only where something is simulated

    columns = np.stack([points[name].reshape(-1) for name in monte_carlo.PARAMETERS], axis=1)
    done = expected(len(columns) * trials, "jobs")
    rows, verdicts = monte_carlo.run(columns, trials, seed, threads, done, parts, detailed)
    shape = tuple(plan.sizes[dim] for dim in dims)
    # Copied: a view of a column would keep all of `rows` alive
    statistics = {
        name: rows[:, k].reshape(shape).copy()
        for k, name in enumerate(monte_carlo.STATISTICS)
        if name.removesuffix("_error") in {*MEANING, *further}
    }
    several = points["drive_every"].reshape(*shape, parts).any(axis=-1)
    for k, name in enumerate(monte_carlo.DETAILS):
        if name in further:
            simulated = several if name in OF_TIERS else np.True_
            for column, statistic in enumerate(
                (name, f"{name}_error"), len(monte_carlo.STATISTICS) + 2 * k
            ):
                statistics[statistic] = np.where(simulated, rows[:, column].reshape(shape), np.nan)
    statistics["work"] = points["work"].reshape(*shape, parts).sum(axis=-1)
    for name in ("wall_time", "wall_time_p95"):
        statistics[name] += points["ready"].reshape(*shape, parts).sum(axis=-1)
    settings = {
        "trials": trials,
        "seed": str(seed),
        "failures_during_recovery": str(failures_during_recovery).lower(),
    }
    spec = {"scenario": scenario, "axes": axes, "simulate": settings}
    return _dataset(plan, dims, statistics, verdicts.reshape(shape), spec)


def by_kind_and_tier(
    outcome: "xarray.Dataset", scenario: Mapping[str, Any], axes: Mapping[str, Any]
) -> list["xarray.Dataset"]:
    """Tables of a simulation's results by kind of failure and by tier, where there are any. Each
    time lost stands next to its closed form, except for a job of several phases."""
    import xarray

    tables = []
    for dim, meanings, count, lost in (
        ("kind", OF_KINDS, "failures", "recovery_overhead"),
        ("tier", OF_TIERS, "tier_restarts", "tier_rework"),
    ):
        names = [name for name in meanings if name.endswith(lost) and name in outcome]
        if not names:
            continue
        parts = [name.removesuffix(f"_{lost}") for name in names]
        played = {
            count.removeprefix("tier_"): [f"{part}_{count}" for part in parts],
            count.removeprefix("tier_") + "_error": [f"{part}_{count}_error" for part in parts],
            "time_lost": names,
            "time_lost_error": [f"{name}_error" for name in names],
        }
        columns = {
            column: xarray.concat([outcome[name] for name in sources], dim, combine_attrs="drop")
            for column, sources in played.items()
        }
        if not phases.names(scenario):
            exact = Evaluation(scenario, axes, names).evaluate(settings=Settings("numpy"))
            closed = xarray.concat([exact[name] for name in names], dim, combine_attrs="drop")
            columns["closed_form"] = closed.reset_coords(drop=True)
        table = xarray.Dataset(columns).assign_coords({dim: parts})
        tables.append(table.transpose(*outcome["goodput"].dims, dim, ...))
    return tables


def _check(trials: Any, seed: Any, during: Any) -> None:
    whole = isinstance(trials, int) and not isinstance(trials, bool)
    if not whole or not 2 <= trials <= MOST_TRIALS:
        raise InputError(
            f"trials = {trials!r} is not a whole number from 2 to {MOST_TRIALS:,}; give one"
        )
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 64:
        raise InputError(f"seed = {seed!r} is not a whole number from 0 to 2^64 - 1; give one")
    if not isinstance(during, bool):
        raise InputError(f"failures_during_recovery = {during!r} is not usable; give True or False")


# Map graph names to Monte Carlo parameters; only this code knows both


def _points(
    problem: Problem, failures_during_recovery: bool, added_up: bool = False
) -> tuple[Plan, tuple[str, ...], dict[str, Array]]:
    """The plan, the dimensions, and the parameters of every point, each over all dimensions. If
    phases are added up, their axis comes last and is not among the dimensions."""
    problem = _simulated(problem)
    features = _features(problem, added_up)
    quantities = list(dict.fromkeys([*_QUANTITIES, *_needed(_FEATURE_QUANTITIES, features)]))
    axes = {axis.name for axis in problem.axes}
    plan = Plan(problem, [name for name in quantities if name not in axes] or ["goodput"], "numpy")
    names = [*quantities, *_INPUTS, *_needed(_FEATURE_INPUTS, features)]
    if all("job_duration" in case.leaves for case in plan.cases):
        names.append("job_duration")
    used = {dim for name in names for dim in plan.dims[name]}
    used |= {phases.NAME} if added_up else set()
    used |= {axis.name for axis in problem.axes if features.ends and ENDING in axis.options}
    ageless = None
    if features.ages:  # without the hardware's share of the failures
        steady_problem = replace(problem, constants={**problem.constants, "aging_factor": 0.0})
        ageless = Plan(steady_problem, list(plan.outputs), "numpy")
    _check_memory(plan, used)
    points: dict[str, Array] = {}
    for case in plan.cases:
        values = {name: plan.table(case, name) for name in names}
        values |= _of_case(case, values, features)
        if ageless and case.options["fleet_aging"] == "on":
            steady = next(each for each in ageless.cases if each.runs == case.runs)
            values |= _of_ages(values, ageless.table(steady, "cluster_mtbf"))
        ready = values.get("transition_wait", np.zeros(()))
        _fill(plan, case, used, {**_parameters(values), "ready": ready}, points)
    points["fails_in_recovery"] = np.full_like(points["mtbf"], float(failures_during_recovery))
    summed = (phases.NAME,) if added_up else ()
    dims = tuple(axis.name for axis in problem.axes if axis.name in used - {*summed})
    order = [k for k, axis in enumerate(plan.axes) if axis.name not in used]
    order += [[axis.name for axis in plan.axes].index(dim) for dim in (*dims, *summed)]
    return plan, dims, {name: array.transpose(order) for name, array in points.items()}


class Features(NamedTuple):
    """Parts of the model that a problem has, at all or some of its points."""

    kinds: bool
    late: bool
    flush: bool
    closed: bool
    tiered: bool
    ages: bool
    crews: bool
    added_up: bool
    elastic: bool
    groups: bool
    ready: bool
    ends: bool


def _features(problem: Problem, added_up: bool) -> Features:
    closed = _chosen(problem, "node_pool") != {"open"}
    elastic = "shrink" in _chosen(problem, "elastic")
    spared = closed or elastic or problem.gives("spare_nodes")
    groups = elastic or problem.most_together({"correlated_failure_fraction"}) > 0
    begins = added_up or problem.gives("job_duration")  # else start and end do not matter
    return Features(
        kinds="kinds" in _chosen(problem, "recovery_model"),
        late="late" in _chosen(problem, "corruption_detection"),
        flush=FLUSH in problem.graph.quantities,
        closed=closed,
        tiered="tiered" in _chosen(problem, "checkpoint_mode"),
        ages="on" in _chosen(problem, "fleet_aging"),
        crews="crews" in _chosen(problem, "repair_shop"),
        added_up=added_up,
        elastic=elastic,
        groups=groups and spared and not problem.gives("cluster_mtbf"),
        ready=begins and _chosen(problem, "transitions") != {False},
        ends=begins and _chosen(problem, ENDING) != {False},
    )


def _needed(names: Mapping[str, Iterable[str]], features: Features) -> list[str]:
    """Names that the features of a problem need."""
    return [name for feature, row in names.items() if getattr(features, feature) for name in row]


def _of_case(case: Case, values: Mapping[str, Array], features: Features) -> dict[str, Array]:
    """Parameters of a case that follow its options."""
    options, values = case.options, dict(values)
    if "recovery_time" in case.leaves:  # given: it includes provisioning
        values["node_provision_time"] = np.zeros(())
    values["pool"] = np.array(_POOLS[options["node_pool"]])
    if options["recovery_model"] == "kinds":
        values["recovery_time"] = values["node_swap_recovery_time"]
        for kind in _KINDS:
            values[kind] = values[f"{kind}_share"]
            values[f"{kind}_recovery"] = values[f"{kind}_recovery_time"]
    if options["repair_shop"] == "crews":
        values["crews"] = values["repair_crews"]
    if options["elastic"]:
        values |= _of_size(options, values)
    if features.groups and options["mtbf_model"] == "components":
        values |= _of_groups(values, bool(options["elastic"]))
    if options["corruption_detection"] == "late":
        rate = values["n_gpus"] / values["silent_corruption_mttf"]
        values["silent"] = np.where(rate > 0, values["cluster_mtbf"], 0.0) * rate
        values["latency"] = values["corruption_latency"]
    if options["checkpoint_mode"] == "tiered":
        values |= _of_tiers(values)
        values["copies_kept"] = np.array(float(options["tier_copies"] == "kept"))
    if features.added_up and "job_duration" not in values:
        values["job_duration"] = values["training_steps"] * values["step_time"]
    if features.ends and options[ENDING] == "saved":  # even if nothing else is
        interval = values["checkpoint_interval"]
        last = np.where(interval < np.inf, interval, values.get("job_duration", interval))
        values["checkpoint_interval"] = last
    if features.ends:
        values["unsaved"] = np.array(float(options[ENDING] == "unsaved"))
    return values


def _of_groups(values: Mapping[str, Array], elastic: bool) -> dict[str, Array]:
    """Parameters of failures that take several nodes."""
    group = np.minimum(values["failure_domain_nodes"], np.maximum(values["nodes"], 1.0))
    share = values["correlated_failure_fraction"] * values["node_failure_rate"]
    events, mtbf = share / np.maximum(group, 1.0), values["cluster_mtbf"]
    group = np.where((share > 0) & (group > 1), group, 0.0)
    grouped = np.where(group > 0, events, 0.0) * np.where(share > 0, mtbf, 0.0)
    groups = {"group": group, "group_share": grouped}
    if elastic:
        rate = values["node_failure_rate"] - share + events
        nodeless = 1 - rate * np.where(rate > 0, mtbf, 0.0)
        groups["nodeless"] = np.where((nodeless > 1e-9) & (mtbf < np.inf), nodeless, 0.0)
    return groups


def _of_tiers(values: Mapping[str, Array]) -> dict[str, Array]:
    usual = values["checkpoint_restore_time"]  # already contained in the recovery time
    tiers = {
        FLUSH: values["memory_tier_flush_time"],
        "memory_share": values["memory_tier_share"],
        "drive_share": values["drive_tier_share"],
        "drive_flush": values["drive_tier_flush_time"],
        "storage_flush": values["storage_tier_flush_time"],
        "memory_restore": values["memory_tier_restore_time"] - usual,
        "drive_restore": values["drive_copy_time"] - usual,
        "storage_restore": values["checkpoint_size"] / values["read_bandwidth"] - usual,
        "drive_every": values["drive_multiple"],
        "storage_every": values["storage_multiple"],
    }
    for tier in ("memory", "drive", "storage"):
        tiers[f"{tier}_stall"] = values[f"{tier}_tier_stall_time"]
    return tiers


def _of_ages(values: Mapping[str, Array], steady_mtbf: Array) -> dict[str, Array]:
    """Parameters of failures whose rate follows the hardware's age; all 0 without a window."""
    mtbf, factor = values["cluster_mtbf"], values["aging_factor"]
    steady = np.where(mtbf < np.inf, mtbf, 0.0) / steady_mtbf
    ageing = np.where(values["aging_window"] > 0, 1 - steady, 0.0) / factor
    ageing = np.where((ageing > 1e-12) & (mtbf < np.inf), ageing, 0.0)
    changing = ageing > 0
    ages = {name: np.where(changing, values[source], 0.0) for name, source in _AGE.items()}
    if "job_duration" not in values:
        window = values["aging_window"] * values["goodput"]
        usual = _long_job(**_parameters(values, of_job=False))
        ages["job_duration"] = np.where(changing & (window > 0), window, usual)
    return {**ages, "steady": np.where(changing, steady, 0.0), "ageing": ageing}


def _of_size(options: Mapping[str, Any], values: Mapping[str, Array]) -> dict[str, Array]:
    """Parameters of an elastic job, which waits for no node."""
    growth, interval = options["elastic_growth"], values["checkpoint_interval"]
    stop = values["growth_stop_time"]
    if growth == "restart":  # the work that is done again is played
        saves = interval < np.inf
        stop = np.maximum(np.where(saves, stop, 0.0) - np.where(saves, interval, 0.0) / 2, 0.0)
    return {
        "replica_nodes": np.maximum(values["nodes"] / values["data_parallel"], 1.0),
        "packing": np.array(float(options["elastic_packing"])),
        "growth": np.array(_GROWTHS[growth]),
        "growth_stop": stop,
        "rounds": values["num_microbatches"],
        "pool": np.array(_POOLS["open"]),
        "node_provision_time": np.zeros(()),
    }


def _check_memory(plan: Plan, used: Iterable[str]) -> None:
    """Refuse a grid whose parameters and statistics do not fit in memory."""
    points = math.prod(plan.sizes[dim] for dim in used)
    if points * BYTES_PER_POINT > 0.9 * memory.available():
        raise InputError(
            f"simulating {points:,} points takes {memory.human(points * BYTES_PER_POINT)} and "
            f"{memory.human(memory.available())} of memory are free; shorten an axis"
        )


def _parameters(values: Mapping[str, Array], of_job: bool = True) -> dict[str, Array]:
    from fleetcube.kernels.monte_carlo import PARAMETERS

    recovery = values["recovery_time"] - values["node_provision_time"]
    parameters = {name: values.get(name, np.zeros(())) for name in PARAMETERS} | {
        "mtbf": values["cluster_mtbf"],
        "shape": values["failure_shape"],
        "interval": values["checkpoint_interval"],
        "stall": values["checkpoint_stall_time"],
        "flush": values.get(FLUSH, np.zeros(())),
        "recovery": np.maximum(recovery, 0.0),
        "provision": values["node_provision_time"],
        "spares": values["spare_nodes"],
        "repair": values["repair_time"],
        "repair_spread": values["repair_spread"],
        "corruption": values["corruption_probability"],
        "nodes": values.get("nodes", np.ones(())),
    }
    if of_job:
        parameters["work"] = values.get("job_duration", _long_job(**parameters))
    return parameters


def _long_job(
    mtbf: Array,
    interval: Array,
    spares: Array,
    repair: Array,
    pool: Array,
    drive_every: Array,
    storage_every: Array,
    crews: Array,
    replica_nodes: Array,
    repair_spread: Array,
    **_: Array,
) -> Array:
    """Useful time of a job whose start and end do not matter, in whole intervals of all tiers."""
    interval = interval * np.maximum(drive_every, 1.0) * np.maximum(storage_every, 1.0)
    fails, writes = np.isfinite(mtbf), np.isfinite(interval) & (interval > 0)
    interval = np.where(writes, interval, 1.0)  # no checkpoints: no division by inf, 0 or NaN
    turns = np.where(crews > 0, 1 + spares / np.maximum(crews, 1.0), 1.0)  # until all are repaired
    turns = turns * np.exp(repair_spread * repair_spread)  # the mean repair that is under way
    longest = np.maximum(
        np.where(fails, mtbf, interval),
        np.where((spares > 0) | (pool > 0) | (replica_nodes > 0), repair * turns, 0.0),
    )
    work: Array = np.ceil(LONG * longest / interval) * interval
    return work


def _fill(
    plan: Plan, case: Case, used: set[str], values: Mapping[str, Array], points: dict[str, Array]
) -> None:
    """Write a case's values into its region of the grid of the used dimensions."""
    shape = tuple(axis.size if axis.name in used else 1 for axis in plan.axes)
    region = tuple(
        case.runs.get(axis.name, slice(None)) if axis.name in used else slice(None)
        for axis in plan.axes
    )
    for name, value in values.items():
        points.setdefault(name, np.empty(shape))[region] = value


def _simulated(problem: Problem) -> Problem:
    """The problem with the options fixed whose effects the Monte Carlo simulates itself."""
    for name in {"whole_cluster_probability", "cluster_uptime", "elastic_capacity"} & (
        problem.constants.keys() | {axis.name for axis in problem.axes}
    ):
        raise InputError(f"{name} is given, but it is what a simulation computes; remove it")
    unreadable = problem.most_together({"corruption_probability"}) > 0
    tiered = "tiered" in _chosen(problem, "checkpoint_mode")
    late = "late" in _chosen(problem, "corruption_detection")
    elastic = "shrink" in _chosen(problem, "elastic")
    spread = problem.most_together({"repair_spread"}) > 0
    for feature, asked, other_feature, other in (
        ("corruption_probability", unreadable, "tiers of checkpoints", tiered),
        ("corruption_probability", unreadable, "elastic = 'shrink'", elastic),
        ("late detection of corruption", late, "elastic = 'shrink'", elastic),
        ("tiers of checkpoints", tiered, "elastic = 'shrink'", elastic),
        ("repair_spread", spread, "elastic = 'shrink'", elastic),
    ):
        if asked and other:
            raise InputError(f"{feature} cannot be simulated with {other_feature}; remove one")
    kinds = "kinds" in _chosen(problem, "recovery_model")
    if kinds and problem.gives("recovery_time"):
        raise InputError(
            "recovery_time is given, and recovery_model = 'kinds' plays the time of each kind; "
            "remove one of them"
        )
    fixed = {name: choice for name, choice in FIXED.items() if name in INPUTS}
    axes = [
        replace(axis, options={k: row for k, row in axis.options.items() if k not in fixed})
        for axis in problem.axes
    ]
    return replace(problem, options={**problem.options, **fixed}, axes=tuple(axes))


def _chosen(problem: Problem, name: str) -> set[Any]:
    """Every choice of an option in a problem, including one that an input implies."""
    row = INPUTS[name]
    implied = any(problem.gives(each) for each in row.implied_by)
    chosen = {problem.options.get(name, row.implied if implied else row.default)}
    for axis in problem.axes:
        chosen |= set(axis.options.get(name, ()))
    return chosen


def _dataset(
    plan: Plan,
    dims: tuple[str, ...],
    statistics: Mapping[str, Array],
    verdicts: Array,
    spec: Mapping[str, Any],
) -> "xarray.Dataset":
    variables: dict[str, Any] = {
        name: (dims, array, _attributes(name)) for name, array in statistics.items()
    }
    codes = flags({code: name for name, code in VERDICTS.items()})
    about = {"long_name": "whether the point was simulated to its end", **codes}
    variables["outcome"] = (dims, verdicts, about)
    attributes = {**origin(plan, spec), "fleetcube_engine": "monte carlo"}
    left_out = [remark for n, remark in UNPLAYED.items() if plan.problem.most_together({n}) > 0]
    attributes = with_remarks(attributes, left_out)
    return Result(variables, coordinates(plan, dims), attributes).to_xarray()


def _attributes(name: str) -> dict[str, str]:
    statistic = name.removesuffix("_error")
    unit, meaning = {**MEANING, **OF_KINDS, **OF_TIERS, **OF_SIZE}[statistic]
    return {
        "units": unit,
        "long_name": meaning if statistic == name else f"standard error: {meaning}",
    }
