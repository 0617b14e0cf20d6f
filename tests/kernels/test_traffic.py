"""All-reduces by name and as measured; `tests/laws/network` plays the traffic of a step."""

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

from ..evaluated import value

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


# Buckets, compression, ZeRO


def ring(message: float, ranks: int, latency: float, bandwidth: float) -> float:
    """A reduce-scatter or an all-gather, hop by hop."""
    return math.fsum(latency + message / ranks / bandwidth for _ in range(ranks - 1))


# Experts


def test_a_dense_model_has_no_expert_traffic() -> None:
    got = fleetcube.evaluate(["expert_parallel_time", "exposed_expert_parallel_time"])
    assert got.expert_parallel_time == got.exposed_expert_parallel_time == 0
