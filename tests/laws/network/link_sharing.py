"""Links shared by several kinds of traffic, simulated or counted link by link."""

import itertools
import random
from typing import Any

import numpy as np

import fleetcube
from fleetcube import Settings

from ...evaluated import ENDS, values
from ..check import Pairs, check


def _share_a_link(compute: float, kinds: list[tuple[float, float]]) -> float:
    """Time after compute until a link has carried all kinds (seconds, window).

    Each kind's bytes are available when its window opens; windows end together; the link never
    idles while bytes wait.
    """
    clock, left = 0.0, 0.0
    for opens, seconds in sorted((compute - window, busy) for busy, window in kinds):
        left = max(0.0, left - (opens - clock)) + seconds
        clock = opens
    return max(0.0, clock + left - compute)


def _played_step(compute: float, kinds: dict[str, tuple[str, float, float]]) -> float:
    """Compute and waits, for kinds (tier, seconds, overlap) in the order in which layers need them.

    A kind on another tier than the one before hides behind the step up to then, a ring of context,
    which comes first, behind attention. Tensor ranks cut a share of their products, and send the
    traffic of these meanwhile, that of others afterwards.
    """

    def windows(kind: str, behind: float) -> list[tuple[float, float]]:
        _, seconds, overlap = kinds[kind]
        if kind == "tensor":
            return [(overlap * seconds, overlap * behind), ((1 - overlap) * seconds, 0.0)]
        return [(seconds, overlap * behind)]

    tiers = {tier for tier, _, _ in kinds.values()}
    if len(tiers) == 1:
        return compute + _share_a_link(
            compute, [w for kind in kinds for w in windows(kind, compute)]
        )
    step = compute
    for kind in kinds:
        step += _share_a_link(step, windows(kind, step))
    return step


KINDS = ("context", "tensor", "expert", "data")


@check(
    "shared_contention_time traffic_window exposed_tensor_parallel_time "
    "routed_exposed_expert_parallel_time",
    by="simulator",
    source="a link that carries one byte at a time, kinds of traffic coming as windows open",
)
def kinds_that_share_a_link() -> Pairs:
    """Two kinds on one tier or two, or four with one window on one tier; 600 cases"""
    rng = random.Random(3)
    cases, played = [], []
    for case in range(600):
        compute, same = rng.uniform(1, 10), rng.random()
        four, apart = case % 3 == 1, case % 3 == 2
        two = rng.sample(KINDS, 2)
        several = [kind for kind in KINDS if four or kind in two]
        tiers = rng.sample(["node", "fabric"], 2)
        kinds = {
            kind: (tiers[apart and place], rng.uniform(0, 1.5) * compute, rng.random())
            for place, kind in enumerate(several)
        }
        if four:
            kinds = {kind: (tier, busy, same) for kind, (tier, busy, _) in kinds.items()}
        elif "tensor" in kinds and "context" not in kinds and not apart:  # see parts_before_others
            kinds["tensor"] = (*kinds["tensor"][:2], 1.0)
        cases.append((compute, kinds))
        played.append(_played_step(compute, kinds))
    yield _steps(cases), np.array(played)


@check(
    "shared_contention_time traffic_window exposed_tensor_parallel_time "
    "routed_exposed_expert_parallel_time",
    by="simulator",
    source="as of kinds_that_share_a_link, of which the laws are a lower bound here",
)
def parts_before_others() -> Pairs:
    """A part of tensor traffic hidden, then one other kind on its tier; 400 cases, never above"""
    rng = random.Random(5)
    cases = []
    for case in range(400):
        kinds = {
            kind: ("node", rng.uniform(0, 15), rng.random())
            for kind in ("tensor", ("expert", "data")[case % 2])
        }
        cases.append((rng.uniform(1, 10), kinds))
    played = np.array([_played_step(compute, kinds) for compute, kinds in cases])
    steps = _steps(cases)
    yield np.maximum(steps, played), played
    yield np.minimum(steps, 0.97 * played), 0.97 * played  # nor far below


@check(
    "shared_contention_time",
    "traffic_window",
    by="derivation",
    source="a list: compute, and each tier one after the other, whichever takes longest",
)
def kinds_that_hide_whole() -> Pairs:
    """Two or three kinds, each on either tier, all overlaps 1; 200 cases"""
    rng = random.Random(4)
    cases, longest = [], []
    whole = [kind for kind in KINDS if kind != "context"]  # which hides behind attention alone
    for _ in range(200):
        compute = rng.uniform(1, 10)
        kinds = {
            kind: (rng.choice(["node", "fabric"]), rng.uniform(0, 1.5) * compute, 1.0)
            for kind in rng.sample(whole, rng.randint(2, 3))
        }
        lists = [[t for on, t, _ in kinds.values() if on == tier] for tier in ("node", "fabric")]
        cases.append((compute, kinds))
        longest.append(max(compute, *map(sum, lists)))
    yield _steps(cases), np.array(longest)


def _steps(cases: list[tuple[float, dict[str, tuple[str, float, float]]]]) -> Any:
    """Compute and all waits, by the laws: each kind (tier, seconds on it, overlap).

    What a ring of context waits for is played in `context.rings_behind_attention`; here it is the
    traffic that its window does not hide.
    """
    idle = [*KINDS, "pipeline"]
    names = [f"{kind}_{tier}_time" for kind in idle for tier in ("parallel", "node", "fabric")]
    names += ["compute_time", "layer_compute_time"]
    names += ["context_ring_window", "exposed_context_parallel_time"]
    names += [f"{kind}_parallel_overlap" for kind in KINDS if kind != "context"]
    given = {name: [0.0] * len(cases) for name in names}
    for case, (compute, kinds) in enumerate(cases):
        given["compute_time"][case] = given["layer_compute_time"][case] = compute
        for kind, (tier, busy, overlap) in kinds.items():
            given[f"{kind}_parallel_time"][case] = given[f"{kind}_{tier}_time"][case] = busy
            if kind == "context":
                window = given["context_ring_window"][case] = overlap * compute
                given["exposed_context_parallel_time"][case] = max(0.0, busy - window)
            else:
                given[f"{kind}_parallel_overlap"][case] = overlap
    scenario = {
        "mixture_of_experts": True, "link_sharing": True, "num_microbatches": 1,
        "recompute_flops_factor": 1e18,  # nothing but a backward pass
        "zero_stage": 0, "regather_time": 0.0, "awaited_pipeline_time": 0.0, "straggler_time": 0.0,
        "bubble_time": 0.0, **ENDS,
    }  # fmt: skip
    waits = ["exposed_layer_communication_time", "exposed_data_parallel_time", "contention_time"]
    steps = fleetcube.Sweep(scenario, {"case": given}, waits).evaluate(settings=Settings("numpy"))
    return np.array(given["compute_time"]) + sum(steps[name].values for name in waits)


@check(
    "tensor_fabric_time tensor_node_time context_fabric_time context_node_time "
    "routed_expert_fabric_time routed_expert_node_time per_expert_fabric_bytes "
    "per_expert_node_bytes pipeline_fabric_time pipeline_node_time whole_data_fabric_time "
    "whole_data_node_time dense_data_fabric_share dense_data_node_share expert_data_fabric_share "
    "expert_data_node_share data_parallel_bytes_zero_stage_0 sharded_gradient_data_parallel_bytes "
    "sharded_weight_data_parallel_bytes fabric_busy_time node_network_busy_time busy_time",
    by="derivation",
    source="bytes of every operation of a step counted link by link, in the node and on one rail",
)
def bytes_on_links() -> Pairs:
    """512 GPUs on nodes of 8: six layouts with experts, context and ZeRO-0 to 3"""
    layouts = (
        # tensor, context, stages, experts' group, ZeRO stage
        (8, 1, 4, 8, 3), (4, 2, 2, 4, 2), (2, 1, 1, 8, 1), (1, 1, 2, 8, 0), (16, 1, 1, 2, 1),
        (1, 4, 1, 16, 3),
    )  # fmt: skip
    tokens, hidden, visited, layers, micro, ffn = 4096, 2048, 2, 8, 6, 4096
    near, rail = 450e9, 50e9
    for tensor, context, stages, group, stage in layouts:
        ranks = 512 // (tensor * stages)  # of a data-parallel group, context ranks included
        here = {"node": 0.0, "rail": 0.0}

        def spread(members: int, stride: int) -> int:
            return min(members, max(1, 8 // stride))

        def halves(count: float, message: float, members: int, on: int, here: Any = here) -> None:
            """Halves of all-reduces: in the node, then between nodes on one rail for each rank."""
            here["node"] += count * message * (on - 1) / on / near
            nodes = members / on
            here["rail"] += count * (message / on) * (nodes - 1) / nodes / rail

        passes = layers // stages * micro
        activation = tokens // context * hidden * 2
        halves(8 * passes, activation, tensor, spread(tensor, 1))
        ends = ["look-up summed", "gradient of the logits' inputs summed"]
        halves(2 * len(ends) * micro / stages, activation, tensor, spread(tensor, 1))
        if context > 1:
            keys = 2 * (tokens // context) * (hidden // tensor) * 2
            exchanges = 3 * (context - 1) * passes
            on = spread(context, tensor)
            here["node"] += exchanges * keys / near if on > 1 else 0
            here["rail"] += exchanges * keys / rail if on < context else 0
        on = spread(group, tensor)
        sent = activation * visited / group  # to each rank of the group
        here["node"] += 4 * passes * sent * (on - 1) / near
        here["rail"] += 4 * passes * sent * (group - on) / rail
        if stages > 1:
            # a middle stage sends activations on and gradients back, an end stage one of them
            here["rail"] += (2 if stages > 2 else 1) * micro * activation / rail
        routed = layers * 16 * 2 * hidden * ffn
        parts = [
            (1e9 / (tensor * stages), ranks, spread(ranks, tensor)),
            (
                routed / group / (tensor * stages),
                ranks // group,
                spread(ranks // group, tensor * group),
            ),
        ]
        for size, members, on in parts:
            count = {0: (2, 0), 1: (1, 1), 2: (micro, 1), 3: (micro, 2 * micro)}[stage]
            halves(count[0], 4 * size, members, on)
            halves(count[1], 2 * size, members, on)
        given = {"n_gpus": 512, "tensor_parallel": tensor}
        given |= {"context_parallel": context, "pipeline_parallel": stages, "stage_split": False}
        given |= {"expert_parallel": group, "zero_stage": stage, "parameters": 1e9 + routed}
        given |= {"experts": 16, "experts_per_token": visited, "expert_ffn_hidden_size": ffn}
        given |= {"hidden_size": hidden, "attention_heads": 16, "layers": layers}
        given |= {"sequence_length": tokens, "num_microbatches": micro}
        given |= {"gradient_bytes_per_element": 4, "all_reduce": "hierarchical"}
        given |= {"intra_node_bandwidth": near, "inter_node_bandwidth": rail}
        given |= {"intra_node_latency": 1e-6, "inter_node_latency": 5e-6}
        # Nothing hides exchanges of the logits; start-ups of the loss move nothing
        given |= {"hidden_logits_exchange_time": 0.0, "tensor_parallel_latency": 0.0}
        got = values(["node_network_busy_time", "fabric_busy_time"], **given)
        yield got["node_network_busy_time"], here["node"]
        yield got["fabric_busy_time"], here["rail"]


@check(
    "tensor_fabric_time tensor_node_time",
    by="derivation",
    source="bytes of every gather and reduce-scatter of a layer's passes counted link by link",
)
def halves_on_links() -> Pairs:
    """2 to 16 tensor ranks on nodes of 8: whole, sequence-parallel, again, parts, a sum hidden"""
    near, rail, message = 450e9, 50e9, 4096 * 2048 * 2
    blocks = ("attention", "feed-forward")
    for tensor, sequence, full, kept, hidden in itertools.product((2, 8, 16), *[(False, True)] * 4):
        passes = ["forward"] + ["again"] * full + ["backward"]
        halves = [half for _ in passes for _ in blocks for half in ("gather", "scatter")]
        halves += ["gather"] * (len(blocks) if sequence else full and kept)
        halves += ["look-up summed", "gathered backward"]
        halves += [] if hidden else ["gradient of logits' inputs", "the same"]
        halves += ["logits' inputs"] * sequence
        here = min(tensor, 8)
        node = sum((here - 1) / here * message / near for _ in halves)
        fabric = sum((1 / here - 1 / tensor) * message / rail for _ in halves)
        given = {"all_reduce": "hierarchical", "tensor_parallel": tensor}
        given |= {"n_gpus": tensor, "gpus_per_node": 8, "sequence_parallel": sequence}
        given |= {"recompute": "full" if full else False, "distribute_saved_activations": kept}
        given |= {"activation_message": message, "layers": 1, "num_microbatches": 1}
        given |= {"intra_node_bandwidth": near, "inter_node_bandwidth": rail}
        given |= {"intra_node_latency": 1e-6, "inter_node_latency": 5e-6}
        given |= {"tensor_parallel_latency": 0.0}  # of the loss, whose start-ups move nothing
        (whole,) = values(["tensor_parallel_exchange_time"], **given).values()
        given |= {"hidden_logits_exchange_time": hidden * whole}
        got = values(["tensor_node_time", "tensor_fabric_time"], **given)
        yield got["tensor_node_time"], node
        yield got["tensor_fabric_time"], fabric
