"""Mixture of experts in whole scenarios: switch domains, edge cases, options without effect."""

from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube import Settings, Sweep

from .common import cases

JOB: dict[str, Any] = {"model": "deepseek-v3", "fabric": "infiniband-ndr", "n_gpus": 512}
JOB |= {"pipeline_parallel": 1, "precision": "fp8_blockwise", "global_batch_size": 4096}
JOB |= {"expert_parallel": 64, "compute_model": "roofline"}
DISPATCH = ["per_expert", "per_node"]


def test_experts_of_one_domain_never_leave_it() -> None:
    # 64 ranks on one rack of 72, on 8 nodes of 8; by bandwidth alone
    names = ["expert_fabric_bytes", "expert_nodes", "expert_all_to_all_time"]
    nodes = {"node": ["gb200-nvl72", "dgx-b200"], "expert_dispatch": DISPATCH}
    job = {**JOB, "n_gpus": 576, "intra_node_latency": 0, "inter_node_latency": 0}
    found = Sweep(job, nodes, names).evaluate(settings=Settings("numpy"))
    rack, box = found.sel(node="gb200-nvl72"), found.sel(node="dgx-b200")
    assert (rack.expert_fabric_bytes == 0).all()
    assert (set(rack.expert_nodes.values.flat), set(box.expert_nodes.values.flat)) == ({1}, {8})
    assert (box.expert_all_to_all_time > 11 * rack.expert_all_to_all_time).all()


def test_a_node_of_one_rank_and_one_expert_a_token_leave_nothing_to_spread() -> None:
    alone = {"node": "dgx-b200", "gpus_per_node": 1, "experts_per_token": 1}
    axes = {"expert_dispatch": DISPATCH}
    found = Sweep({**JOB, **alone}, axes, ["expert_fabric_bytes", "expert_node_bytes"]).evaluate()
    np.testing.assert_allclose(*found.expert_fabric_bytes.values, rtol=1e-4)
    assert (found.expert_node_bytes == 0).all()


@pytest.mark.parametrize("dispatch", DISPATCH)
def test_experts_at_home_and_links_without_end_take_no_time(dispatch: str) -> None:
    job = {**JOB, "node": "dgx-b200", "expert_dispatch": dispatch}
    assert fleetcube.evaluate("expert_all_to_all_time", **{**job, "expert_parallel": 1}) == 0
    fast = {"intra_node_bandwidth": 1e30, "inter_node_bandwidth": 1e30}
    fast |= {"intra_node_latency": 0, "inter_node_latency": 0}
    assert fleetcube.evaluate("expert_all_to_all_time", **job, **fast) < 1e-15


@cases(
    "given, told",
    ({"routing_nodes": 4, "expert_load_imbalance": 1.2}, ""),
    ({"expert_load_imbalance": 1.2, "capacity_factor": 2}, "expert_load_imbalance"),
    ({"expert_capacity": "dropped", "expert_load_imbalance": 2, "capacity_factor": 2}, ""),
    ({"expert_capacity": "padded", "expert_load_imbalance": 2}, "expert_load_imbalance"),
    ({"expert_capacity": "unlimited", "capacity_factor": 2}, "capacity_factor"),
    ({"expert_dispatch": "per_expert", "routing_nodes": 4}, "routing_nodes"),
    ({"model": "llama-3-70b", "routing_nodes": 4, "expert_parallel": 1}, "routing_nodes"),
    ({"torus_x": 4, "expert_dispatch": "per_node"}, ""),
    ({"torus_x": 4, "routing_nodes": 4}, ""),
    ({"grouped_products": "fused"}, "grouped_products"),  # MXFP8's kernel
    ({"grouped_products": "fused", "precision": "mxfp8"}, ""),
    (
        {
            "grouped_products": "fused",
            "precision": "mxfp8",
            "model": "llama-3-70b",
            "expert_parallel": 1,
        },
        "grouped_products",
    ),
    ({"attention_precision": "fp8"}, ""),
    ({"attention_precision": "fp8", "attention_kernel": "standard"}, "attention_precision"),
)
def test_what_another_option_makes_meaningless_is_told(given: dict[str, Any], told: str) -> None:
    found = Sweep({**JOB, "node": "dgx-b200", **given}, {}, ["step_time"]).evaluate(
        settings=Settings("numpy")
    )
    assert found.attrs.get("fleetcube_unused", "") == told
