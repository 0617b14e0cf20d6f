"""Traffic of a step: algorithms by name, placement, buckets, ZeRO, experts, context, offload."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube.kernels.laws.collectives import (
    double_binary_tree_all_reduce_time,
    fitted_all_reduce_time,
    hierarchical_all_reduce_time,
    in_network_all_reduce_time,
    recursive_halving_doubling_all_reduce_time,
    ring_all_reduce_time,
    tree_all_reduce_time,
)

from ..evaluated import ENDS, value

# All-reduces

CLUSTER: dict[str, Any] = {
    "n_gpus": 64, "tensor_parallel": 1, "gradient_message": 1e6, "weight_message": 1e6,
    "intra_node_bandwidth": 450e9, "intra_node_latency": 1e-6, "inter_node_bandwidth": 50e9,
    "inter_node_latency": 5e-6,
}  # fmt: skip


@pytest.mark.parametrize("message", [1e4, 1e6, 1e9])
@pytest.mark.parametrize("node_reduction", [False, True])
@pytest.mark.parametrize("fabric_reduction", [False, True])
@pytest.mark.parametrize(("group", "other"), [("data", "tensor"), ("tensor", "data")])
def test_auto_offers_what_the_switches_can(
    message: float, node_reduction: bool, fabric_reduction: bool, group: str, other: str
) -> None:
    offers = {}
    link = (64, 5e-6, 400e9)
    offers["ring"] = ring_all_reduce_time(message, *link)
    offers["trees"] = double_binary_tree_all_reduce_time(message, *link)
    inside = [ring_all_reduce_time(message, 8, 1e-6, 450e9)]
    if node_reduction:
        inside.append(2e-6 + message * 9 / 8 / 450e9)
    if fabric_reduction:
        between = 2 * 5e-6 + message / 8 / 50e9
    else:
        between = ring_all_reduce_time(message / 8, 8, 5e-6, 50e9)
    offers["levels"] = min(inside) + between
    sizes = {"bucket_message": message, "activation_message": message}
    layout = {"tensor_parallel": 64} if group == "tensor" else {"tensor_parallel": 1}
    got = fleetcube.evaluate(
        f"{group}_parallel_all_reduce_time",
        **{**CLUSTER, **sizes, **layout},
        node_reduction=node_reduction,
        fabric_reduction=fabric_reduction,
    )
    assert float(got) == pytest.approx(min(offers.values()), rel=1e-13)


@pytest.mark.parametrize("group", ["data", "tensor"])
def test_algorithms_chosen_by_name(group: str) -> None:
    message, flat = 1e6, (64, 5e-6, 400e9)
    levels = (8, 8, 1e-6, 450e9, 5e-6, 50e9)
    expected = {
        "ring": ring_all_reduce_time(message, *flat),
        "tree": tree_all_reduce_time(message, *flat),
        "double_binary_tree": double_binary_tree_all_reduce_time(message, *flat),
        "recursive_halving_doubling": recursive_halving_doubling_all_reduce_time(message, *flat),
        "hierarchical": hierarchical_all_reduce_time(message, *levels),
        "in_network": in_network_all_reduce_time(message, *levels),
        "fitted": fitted_all_reduce_time(message, *flat, 3e-8),
    }
    got = fleetcube.evaluate(
        f"{group}_parallel_all_reduce_time",
        all_reduce=list(expected),
        sqrt_coefficient=3e-8,
        bucket_message=message,
        activation_message=message,
        **{**CLUSTER, "tensor_parallel": 64 if group == "tensor" else 1},
    )
    assert len(set(got.values)) == len(expected)
    np.testing.assert_allclose(got, list(expected.values()), rtol=1e-14)


def test_measured_all_reduces_across_nodes_use_every_rail() -> None:
    # 4 GiB on 32 GPUs, 4 nodes of 8 B200 with 8 x 50 GB/s: 22.05 ms (same source); one rail would
    # take 166 ms. 16 GiB on 16 H100 (AWS p5): 66.1 ms, 487 GB/s of bus bandwidth; a ring on
    # 8 rails 400, so that prediction is 22 % too slow where NVLink and rails work at once.
    def predicted(message: float, nodes: int, nvlink: float, reduces: bool) -> float:
        return value(
            "data_parallel_all_reduce_time",
            **{**CLUSTER, "n_gpus": 8 * nodes, "intra_node_bandwidth": nvlink},
            node_reduction=reduces,
            bucket_message=message,
        )

    assert predicted(2**32, 4, 900e9, False) == pytest.approx(22.05e-3, rel=0.07)
    assert 1 < predicted(2**34, 2, 450e9, True) / 66.1e-3 < 1.25


# Placement: every rank in Megatron-LM's order (tensor, context, data with experts inside, pipeline)

LAYOUTS: list[tuple[int, ...]] = [
    # tensor, context, data, pipeline, expert
    (1, 1, 16, 1, 8), (2, 1, 16, 2, 4), (4, 1, 8, 2, 4), (8, 1, 4, 2, 2), (1, 1, 32, 1, 2),
    (1, 2, 16, 1, 2), (1, 2, 16, 1, 8), (2, 4, 4, 2, 4), (1, 8, 4, 2, 2), (1, 4, 8, 1, 4),
    (1, 1, 2, 2, 1), (1, 1, 4, 1, 4), (2, 2, 2, 4, 1),
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_groups_lie_on_nodes_as_the_rank_order_puts_them(layout: tuple[int, ...]) -> None:
    tensor, context, data, stages, expert = layout
    seat = {}  # coordinates of each rank
    order = itertools.product(range(stages), range(data), range(context), range(tensor))
    for gpu, (p, d, c, t) in enumerate(order):
        seat[t, c, d, p] = gpu

    def here(group: list[int]) -> float:
        """Members on the first node of 8."""
        return sum(gpu < 8 for gpu in group)

    folded = [seat[0, c, d, 0] for d in range(data) for c in range(context)]  # experts take context
    groups = {
        "tensor_parallel": [seat[t, 0, 0, 0] for t in range(tensor)],
        "context": [seat[0, c, 0, 0] for c in range(context)],
        "data_parallel": [seat[0, c, d, 0] for c in range(context) for d in range(data)],
        "expert": folded[:expert],
        "pipeline": [seat[0, 0, 0, p] for p in range(stages)],
        "expert_gradient": folded[::expert],
    }
    names = {f"{name}_ranks_per_node": max(here(group), 1) for name, group in groups.items()}
    names["gradient_ranks"] = len(groups["data_parallel"])
    names["expert_gradient_ranks"] = len(groups["expert_gradient"])
    given = {"n_gpus": math.prod(layout[:4]), "tensor_parallel": tensor}
    given |= {"context_parallel": context, "pipeline_parallel": stages, "expert_parallel": expert}
    got = fleetcube.evaluate(list(names), **given)
    assert {name: float(got[name]) for name in names} == names


@pytest.mark.parametrize("kind", ["context", "pipeline"])
@pytest.mark.parametrize("spans_nodes", [False, True])
def test_the_slowest_hop_sets_the_pace(kind: str, spans_nodes: bool) -> None:
    got = value(
        f"{kind}_send_time",
        n_gpus=64,
        intra_node_latency=1.0,
        inter_node_latency=10.0,
        intra_node_bandwidth=4.0,
        rail_bandwidth=0.5,
        **{
            f"{kind}_message": 8.0,
            f"{kind}_parallel": 4,
            f"{kind}_ranks_per_node": 2 if spans_nodes else 4,
        },
    )
    assert got == (10 + 8 / 0.5 if spans_nodes else 1 + 8 / 4)


# Buckets, compression, ZeRO

LINK: dict[str, Any] = {
    "gradient_ranks": 16, "data_parallel_latency": 3.0, "data_parallel_bandwidth": 2.0,
    "all_reduce": "ring",
}  # fmt: skip


def ring(message: float, ranks: int, latency: float, bandwidth: float) -> float:
    """A reduce-scatter or an all-gather, hop by hop."""
    return math.fsum(latency + message / ranks / bandwidth for _ in range(ranks - 1))


@pytest.mark.parametrize("zero_stage", [0, 1])
@pytest.mark.parametrize("bucket", [3.0, 7.0, 10.0, 99.0, 100.0, 101.0, math.inf])
def test_buckets_are_cut_off_until_nothing_is_left(bucket: float, zero_stage: int) -> None:
    left, count = 100.0, 0
    while left > 0:
        left, count = left - bucket, count + 1
    given = {"gradient_message": 100.0, "weight_message": 100.0, "bucket_bytes": bucket}
    given |= {"zero_stage": zero_stage, **LINK}
    got = fleetcube.evaluate(["gradient_buckets", "data_parallel_time"], **given)
    assert got.gradient_buckets == count
    # latency once per bucket, bytes once in total
    whole = 2 * ring(100.0, 16, 3.0, 2.0)
    assert float(got.data_parallel_time) == pytest.approx(whole + (count - 1) * 30 * 3.0)


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
@pytest.mark.parametrize("bucket", [25.0, math.inf])
@pytest.mark.parametrize("compression", [1.0, 4.0])
def test_zero_reduces_gradients_and_gathers_weights(
    zero_stage: int, bucket: float, compression: float
) -> None:
    # 100 parameters of a rank in 4 units; FP32 gradients, BF16 weights, 5 micro-batches. Only
    # gradients are compressed. They are cut into buckets, under ZeRO-3 each unit by itself;
    # weights travel in the same pieces.
    gradients, weights = 400.0 / compression, 200.0
    units = 4 if zero_stage == 3 else 1
    buckets = units * max(1, math.ceil(gradients / units / bucket))
    scatter = sum(ring(gradients / buckets, 16, 3.0, 2.0) for _ in range(buckets))
    gather = sum(ring(weights / buckets, 16, 3.0, 2.0) for _ in range(buckets))
    expected = {
        0: 2 * scatter, 1: scatter + gather,  # FP32 gradients there, BF16 weights back
        2: 5 * scatter + gather, 3: 5 * (scatter + 2 * gather),
    }  # fmt: skip
    given = {"zero_stage": zero_stage, "reduced_parameters": 100, "gradient_bytes_per_element": 4}
    given |= {"bytes_per_element": 2, "gradient_compression": compression, "bucket_bytes": bucket}
    given |= {"num_microbatches": 5, "fsdp_units": 4, **LINK}
    got = value("data_parallel_time", **given)
    assert got == pytest.approx(expected[zero_stage], rel=1e-12)


# Experts

MOE: dict[str, Any] = {
    "mixture_of_experts": True, "parameters": 47e9, "routed_parameters": 45e9,
    "intra_node_bandwidth": 450e9, "inter_node_bandwidth": 50e9, "intra_node_latency": 0.0,
    "inter_node_latency": 0.0, "all_reduce": "ring", "bytes_per_element": 2,
    "gradient_bytes_per_element": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("ranks", "expert", "tensor"),
    [(64, 1, 1), (64, 2, 1), (64, 8, 1), (64, 8, 8), (64, 64, 1), (8, 4, 1), (1, 1, 1), (16, 4, 2)],
)
def test_two_rings_add_up_dense_weights_and_experts(ranks: int, expert: int, tensor: int) -> None:
    # Dense weights on all ranks, experts on every e-th; a ring uses the rails of its ranks on a
    # node (8 GPUs, adjacent tensor ranks).
    def link(members: int, stride: int) -> float:
        here = max(sum(i * stride < 8 for i in range(members)), 1)
        return 450e9 if here == members else min(450e9, here * 50e9)

    dense, routed = 2e9 / tensor * 2, 45e9 / expert / tensor * 2
    time = 2 * ring(dense, ranks, 0.0, link(ranks, tensor))
    others = ranks // expert
    time += 2 * ring(routed, others, 0.0, link(others, tensor * expert))
    given = {"n_gpus": ranks * tensor, "tensor_parallel": tensor, "expert_parallel": expert, **MOE}
    got = value("data_parallel_time", **given)
    assert got == pytest.approx(time, rel=1e-12)


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
def test_experts_slow_every_stage_of_zero(zero_stage: int) -> None:
    # 8 experts on 8 GPUs of each of 8 nodes: dense weights use 8 rails, experts 1.
    given = {"n_gpus": 64, "expert_parallel": 8, "zero_stage": zero_stage, "num_microbatches": 3}
    given |= {"fsdp_units": 1, **MOE}
    times = fleetcube.evaluate("data_parallel_time", **given)
    passes = {0: 2, 1: 2, 2: 3 + 1, 3: 3 * 3}[zero_stage]
    one = ring(4e9, 64, 0.0, 400e9) + ring(90e9 / 8, 8, 0.0, 50e9)
    assert float(times) == pytest.approx(passes * one, rel=1e-12)


def test_a_dense_model_has_no_expert_traffic() -> None:
    got = fleetcube.evaluate(["expert_parallel_time", "exposed_expert_parallel_time"])
    assert got.expert_parallel_time == got.exposed_expert_parallel_time == 0


# Context


# Pipeline


# Offload


# Overlap

LAYERS = ("tensor", "context", "expert")


@pytest.mark.parametrize("kind", ["tensor", "context", "expert"])
@pytest.mark.parametrize(
    ("traffic", "overlap", "left"),
    [(5.0, 0.0, 5.0), (5.0, 0.25, 2.5), (5.0, 0.5, 0.0), (5.0, 1.0, 0.0), (0.0, 1.0, 0.0)],
)
def test_compute_hides_its_share(kind: str, traffic: float, overlap: float, left: float) -> None:
    got = value(
        f"exposed_{kind}_parallel_time",
        mixture_of_experts=True,
        layer_compute_time=10.0,
        regather_time=0.0,
        **ENDS,
        **{f"{other}_parallel_time": traffic if other == kind else 0.0 for other in LAYERS},
        **{f"{kind}_parallel_overlap": overlap},
    )
    assert got == left
