"""Properties of any job: better hardware is no slower, and parts add up to the whole."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetcube.kernels.engines import numpy as numpy_engine
from fleetcube.kernels.graph import formulas as graph
from fleetcube.kernels.physics import roles
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.memory.inputs import MODULES as OFFLOADED

from ..draws import scaled

Arrays = dict[str, np.ndarray[Any, Any]]

POINTS = 300  # of each choice of options
ROUNDING = 1e-9
# Counts that give feasible layouts, and many infeasible ones
SIZES: dict[str, Any] = {
    "n_gpus": 2.0 ** np.arange(3, 16), "gpus_per_node": [4, 8, 72], "nics_per_node": [1, 8],
    "layers": [32, 64], "hidden_size": [4096, 8192], "attention_heads": [32, 64],
    "kv_heads": [8, 32], "tensor_parallel": [1, 2, 8, 16], "pipeline_parallel": [1, 2, 8],
    "context_parallel": [1, 1, 2, 4], "expert_parallel": [1, 1, 2, 8],
    "virtual_stages": [1, 1, 2, 4], "global_batch_size": [512, 1024, 4096],
    "micro_batch_size": [1, 2], "experts": [8, 64], "linear_heads": [32, 64],
    "repair_crews": [1, 8], "torus_x": [2, 4], "torus_y": [2, 4],
    "sequence_length": [2048, 4096, 131072], "document_length": [300, 5000],
    "latent_kv_elements": [576, 1024], "latent_weights": [1e8, 187e6],
    "checkpoint_steps": [1, 20, 200], "drive_tier_steps": [20, 200], "storage_tier_steps": [500],
    "kept_checkpoints": [1, 5], "contract_nodes": [8, 5000],
}  # fmt: skip
# Centres of inputs without a finite default above zero
SPREAD = {
    "peak_flops": 1e15, "hbm_bandwidth": 3e12, "hbm_capacity": 1e13, "intra_node_bandwidth": 4e11,
    "inter_node_bandwidth": 5e10, "inter_node_latency": 5e-6, "fixed_checkpoint_interval": 1800.0,
    "per_node_storage_bandwidth": 1e10, "bucket_bytes": 1e8, "sqrt_coefficient": 1e-9,
    "_mttf": 1e9, "_time": 0.01, "_jitter": 0.05, "_slowdown": 0.05, "": 1.0,
}  # fmt: skip
# Increasing these is no slower, increasing those no faster; patterns also cover future inputs
FASTER = ("_bandwidth", "_capacity", "_mttf", "_mtbf", "_overlap", "_efficiency", "spare_nodes")
SLOWER = (
    *("_latency", "_slowdown", "_jitter", "_time", "_per_step", "_probability", "_budget"),
    *("oversubscription", "maintenance_fraction", "checkpoint_bytes_per_parameter"),
)
TIMES = ["step_time", "job_time"]
GRAPH = PHYSICS.quantities
OPTIONS = {name: row.choices for name, row in INPUTS.items() if row.kind == "option"}
CHOICES = st.fixed_dictionaries(
    {name: st.sampled_from(choices) for name, choices in OPTIONS.items()}
    | {"mfu_scope": st.just("step")}
    # Multiples of tiers are rounded near the best: with a faster tier they may round to worse ones
    | {"checkpoint_mode": st.sampled_from([c for c in OPTIONS["checkpoint_mode"] if c != "tiered"])}
    # Where failures are rarer, nodes wait longer for the next one, and checkpoints are further
    # apart, so that a return that saves nothing costs more
    | {"elastic_growth": st.sampled_from(["free", "stop"])}
    # A longer interval may end with the job, where a shorter one has another save
    | {"job_end": st.just(False)}
    # Repairs drawn here may exceed a node's life, which is outside the range of crews
    | {"repair_shop": st.just("unlimited")}
)
SEEDS = st.integers(0, 2**32 - 1)


def around(name: str) -> float:
    default = INPUTS[name].default
    if default is not None and 0 < default < np.inf:
        return float(default)
    return next(size for part, size in SPREAD.items() if part in name)


def points(seed: int) -> Arrays:
    """A value of every input at every point; the ends of its range among them."""
    rng, found = np.random.default_rng(seed), {}
    for name, row in INPUTS.items():
        if row.kind == "option":
            continue
        if name in SIZES:
            drawn = rng.choice(np.asarray(SIZES[name], float), POINTS)
        elif row.kind == "count":
            drawn = row.default + (row.low == 0) * rng.choice([0.0, 1.0, 3.0], POINTS)
        elif row.high <= 1:
            drawn = np.clip(rng.uniform(-0.2, 1.2, POINTS), 1e-3 * row.positive, row.high)
        else:
            drawn = np.clip(around(name) * np.exp(rng.uniform(-4, 4, POINTS)), row.low, row.high)
            drawn *= row.positive | (rng.random(POINTS) < 0.7)
            drawn[(rng.random(POINTS) < 0.3) & row.may_be_infinite] = np.inf
        found[name] = drawn
    # fewer bits are never slower
    for fewer, more_bits in (("fp8", "bf16"), ("fp4", "fp8")):
        least = found[f"peak_flops_{more_bits}"]
        found[f"peak_flops_{fewer}"] = np.maximum(found[f"peak_flops_{fewer}"], least)
    for shares in roles.SHARES:  # the rest is a share, too
        whole = np.maximum(sum(found[name] for name in shares), 1.0)
        found |= {name: found[name] / whole for name in shares}
    return found


def values(names: list[str], options: dict[str, Any], leaves: Arrays) -> Arrays:
    formulas = PHYSICS.select([*names, "infeasible_reason"], options, leaves)
    found = numpy_engine.evaluate(formulas, leaves)
    every = {**leaves, **{name: np.broadcast_to(found[name], POINTS) for name in formulas}}
    return {**every, "feasible": every["infeasible_reason"] == 0}


def more(name: str, here: Any, share: Any) -> Any:
    """More of an input: up to tenfold, or up to its bound."""
    row = INPUTS[name]
    if row.kind == "count":
        return here + 1
    if np.isfinite(row.high):
        return here + (row.high - here) * share
    return here * (1 + 9 * share * share) + (here == 0) * around(name) * share


def changed(here: Arrays, formulas: Mapping[str, graph.Function], name: str, value: Any) -> Arrays:
    """Values with one input changed: quantities that depend on it are recomputed."""
    moved = {name}
    for of, formula in formulas.items():
        if not moved.isdisjoint(graph.parameters(formula)):
            moved.add(of)
    again = {of: formula for of, formula in formulas.items() if of in moved}
    found = {**here, name: value, **numpy_engine.evaluate(again, {**here, name: value})}
    return {**found, "feasible": found["infeasible_reason"] == 0}


@pytest.mark.slow
@given(CHOICES, SEEDS)
@settings(max_examples=scaled(15, 80))
def test_more_of_a_good_thing_is_no_slower(options: dict[str, Any], seed: int) -> None:
    leaves, share = points(seed), np.random.default_rng(seed + 1).random(POINTS)
    if options["checkpoint_mode"] == "in_memory":
        # What is faster copies more often, and so holds nothing from before a corruption
        leaves["corruption_latency"] = np.zeros(POINTS)
    here = values(TIMES, options, leaves)
    # Unequal stages wait for the mean stage's traffic, whose window counts logits, too
    near = 5e-2 if options["stage_split"] == "whole_layers" else ROUNDING
    if (options["goodput_model"], options["corruption_detection"]) == ("additive", "late"):
        near = max(near, 1e-3)  # budgets count a late corruption's cost, not the waits it hides
    formulas = PHYSICS.select([*TIMES, "infeasible_reason"], options, leaves)
    for name in leaves:
        better = name.endswith(FASTER) or name.startswith("peak_flops")
        if not better and not name.endswith(SLOWER):
            continue
        there = changed(here, formulas, name, more(name, leaves[name], share))
        good, bad = (there, here) if better else (here, there)
        assert not (bad["feasible"] & ~good["feasible"]).any(), name
        for time in TIMES:
            worse = good[time] > bad[time] * (1 + near)
            assert not (worse & bad["feasible"]).any(), (name, time)


# (option, choice, choices that are no faster, under these options)
BETTER: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = [
    ("fsdp_prefetch", True, (False,), {}),
    ("node_reduction", True, (False,), {"all_reduce": "auto"}),
    (  # of all-reduces: for their halves NCCL, which "auto" follows, has no trees
        *("all_reduce", "auto", ("ring", "tree", "double_binary_tree")),
        {"sequence_parallel": False, "distribute_saved_activations": False, "zero_stage": 0},
    ),
    ("jitter_model", False, ("normal", "gumbel"), {}),
    ("checkpoint_corruption", False, (True,), {}),
    (  # corrupt checkpoints cost whole intervals, which the exact policy leaves out
        *("checkpoint_policy", "exact", ("daly", "young", "fixed")),
        {"goodput_model": "exact", "checkpoint_corruption": False},
    ),
]


@pytest.mark.slow
@given(CHOICES, SEEDS)
@settings(max_examples=scaled(20))
def test_the_better_option_is_no_slower(options: dict[str, Any], seed: int) -> None:
    leaves = points(seed)
    for option, best, others, under in BETTER:
        good = values(TIMES, {**options, **under, option: best}, leaves)
        for choice in others:
            bad = values(TIMES, {**options, **under, option: choice}, leaves)
            both = good["feasible"] & bad["feasible"]
            for time in TIMES:
                worse = both & (good[time] > bad[time] * (1 + ROUNDING))
                assert not worse.any(), (option, choice, time)


# (option, choices that store less than False does, under these options)
SPARING: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    # what runs again is not moved to the host; ops' sums before a reduce-scatter may be larger
    (
        *("recompute", ("selective", "modules", "alternate_products", "products", "full")),
        {"activation_offload": False, "sequence_parallel": False},
    ),
    ("activation_offload", ("layers", "modules"), {"recompute": False}),
    ("offload", ("cpu", "nvme"), {}),
]
KEPT = ["step_time", "memory_per_gpu", "working_memory"]


def cheaper(more: Arrays, less: Arrays, near: Any) -> np.ndarray[Any, Any]:
    """Where storing less is faster, or needs more memory beside that of the layer at work."""
    # Where passes back are split, stages idle for a share of compute, which is less where some of
    # it runs twice; traffic in layers is counted at the same share, and does not all run twice
    near = np.maximum(near, more["bubble_ratio"] - less["bubble_ratio"])
    kept, left = (found["memory_per_gpu"] - found["working_memory"] for found in (more, less))
    faster = less["step_time"] < more["step_time"] * (1 - near)
    wrong: np.ndarray[Any, Any] = faster | (left > kept * (1 + ROUNDING))
    return wrong & more["feasible"] & less["feasible"]


@pytest.mark.slow
@given(CHOICES, SEEDS)
@settings(max_examples=scaled(20))
def test_storing_less_is_no_faster_and_takes_no_more_memory(
    options: dict[str, Any], seed: int
) -> None:
    leaves = points(seed)
    # Nothing hidden: the same compute may hide several kinds of traffic. One stage: the fullest,
    # whose optimizer counts, may be another
    leaves |= {name: np.zeros(POINTS) for name in leaves if name.endswith("_overlap")}
    leaves["pipeline_stage"] = np.ones(POINTS)
    near = 5e-2 if options["stage_split"] == "whole_layers" else ROUNDING
    for option, choices, under in SPARING:
        more = values(KEPT, {**options, **under, option: False}, leaves)
        for choice in choices:
            less = values(KEPT, {**options, **under, option: choice}, leaves)
            assert not cheaper(more, less, near).any(), (option, choice)
    for option, _, under in SPARING[:2]:
        under = {**options, **under, option: "modules"}
        formulas = PHYSICS.select([*KEPT, "infeasible_reason"], under, leaves)
        for name in roles.MODULES if option == "recompute" else OFFLOADED:
            here = values(KEPT, under, {**leaves, name: np.zeros(POINTS)})
            there = changed(here, formulas, name, leaves[name])
            assert not cheaper(here, there, near).any(), name


def parts(name: str, options: dict[str, Any]) -> tuple[str, ...]:
    return graph.parameters(GRAPH[name].formula(options))


SHARES = ("_probability", "_availability", "_overhead", "_fraction", "_share", "mfu", "hfu")
OF_PEAK = ("mfu", "compute_inefficiency_overhead", "useful_compute_share")
NO_SHARE = ("expert_bytes_share",)  # a ratio


@pytest.mark.slow
@given(CHOICES, SEEDS)
@settings(max_examples=scaled(15, 80))
def test_parts_add_up_and_shares_are_shares(options: dict[str, Any], seed: int) -> None:
    names = [name for name in GRAPH if GRAPH[name].unit != "flag"]
    options = {**options, "shifted_step_time": False}  # an error of the whole has no parts
    found = values(names, options, points(seed))
    feasible, step, goodput = found["feasible"], found["step_time"], found["goodput"]
    for whole in ("step_time", "exposed_communication_time"):
        total = sum(found[part] for part in parts(whole, options) if part != "slow_node_stops")
        total = total * (1 + found["slow_node_stops"]) if whole == "step_time" else total
        np.testing.assert_allclose(found[whole][feasible], total[feasible], ROUNDING)
    wholes = ("exposed_communication_time", "communication_time")
    path = {"compute_time", *(part for whole in wholes for part in parts(whole, options))}
    links = {name for name in names if name.endswith("busy_time") and options["link_sharing"]}
    for part in path | links:
        assert (found[part] <= step * (1 + ROUNDING))[feasible].all(), part
    assert (step[feasible] > 0).all()
    assert np.isfinite(step[feasible]).all()

    lost = sum(found[f"{part}_overhead"] for part in ("checkpoint", "rework", "recovery"))
    if options["goodput_model"] == "additive":
        budgets = found["bubble_budget"] + found["maintenance_budget"]
        lost = lost + found["cluster_uptime"] * budgets
    # sums of budgets or of first-order losses may leave nothing, nor may failures or repairs
    stuck = ~(goodput * found["availability"] > 1e-200)
    np.testing.assert_allclose((goodput + lost)[feasible & ~stuck], 1, ROUNDING)
    assert np.isfinite(found["job_time"][feasible & ~stuck]).all()
    # the other conventions count work that kernels skip: masked attention, look-ups
    counted = options["flops_counting"] != "transformer_causal"
    assert counted or (found["mfu"] <= found["hfu"] * (1 + ROUNDING))[feasible].all()
    for name in names:
        if name.endswith(SHARES) and name not in NO_SHARE and GRAPH[name].unit == "1":
            within = (found[name] > -ROUNDING) & (found[name] < 1 + ROUNDING)
            beyond = counted and name in OF_PEAK
            assert (within | stuck | ~feasible | beyond).all(), name
