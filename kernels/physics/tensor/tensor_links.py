"""Bandwidth, link occupancy and network tiers of tensor-parallel groups."""

import numpy as np

from ...alternatives import alternative, family, same_as
from ...laws.topology import (
    busy_time,
    crossed_tier,
    group_ranks_per_node,
    rail_under_switches,
    tiered_bandwidth,
)
from ..network.network_tiers import IN_DOMAINS
from ..network.network_tiers import TIERS as TIERS
from .tensor_traffic import node_tensor_parallel_ranks_per_node


@alternative("tensor_rail_bandwidth", network_tiers=False)
@same_as(rail_under_switches)
def switched_tensor_rail_bandwidth(
    tensor_parallel, gpus_per_switch, rail_bandwidth, oversubscription
):
    """Bandwidth per direction and GPU between nodes for tensor-parallel traffic.

    bandwidth without oversubscription if a group (t GPUs) is under one leaf switch

    Returns: [B/s] bandwidth of one rail under load
    Range: for groups over several switches a lower bound, as if all traffic left the switch (a ring
        over neighbouring nodes crosses less); no rail-optimised placement
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree); Megatron-LM
        rank order, megatron/core/parallel_state.py
    """


def tensor_fabric_time(
    tensor_parallel_time,
    saved_input_gather_time,
    token_gather_time,
    hidden_logits_exchange_time,
    tensor_parallel_exchange_time,
    tensor_parallel_gather_time,
    tensor_message,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    tensor_rail_bandwidth,
):
    """Time per step in which a GPU's rail carries tensor-parallel traffic.

    (2 exchanges + saved-input gathers) x M (1 / g - 1 / n) / B_e, at most the traffic time

    Returns: [s] time of one step
    Range: GPUs of an expert on one node: their gathers stay inside it. Exchanges that the logits'
        products hide are left out: no traffic of layers runs then
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    moved = tensor_message * (1 / tensor_parallel_ranks_per_node - 1 / tensor_parallel)
    others = saved_input_gather_time + token_gather_time + hidden_logits_exchange_time
    exchanges = tensor_parallel_time - others
    return busy_time(
        exchanges, tensor_parallel_exchange_time, 2 * moved, tensor_rail_bandwidth
    ) + busy_time(
        saved_input_gather_time, tensor_parallel_gather_time, moved, tensor_rail_bandwidth
    )


def tensor_node_time(
    tensor_parallel_time,
    saved_input_gather_time,
    token_gather_time,
    hidden_logits_exchange_time,
    tensor_parallel_exchange_time,
    tensor_parallel_gather_time,
    tensor_message,
    tensor_parallel_ranks_per_node,
    intra_node_bandwidth,
):
    """Time per step in which a GPU's link inside its node carries tensor-parallel traffic.

    (2 exchanges + saved-input gathers) x M (1 - 1 / g) / B_i, at most the traffic time, + gathers
    of tokens for experts

    Returns: [s] time of one step
    Range: GPUs of an expert on one node, latencies of their gathers included; without exchanges
        that the logits' products hide
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    moved = tensor_message * (1 - 1 / tensor_parallel_ranks_per_node)
    others = saved_input_gather_time + token_gather_time + hidden_logits_exchange_time
    exchanges = tensor_parallel_time - others
    passed = busy_time(exchanges, tensor_parallel_exchange_time, 2 * moved, intra_node_bandwidth)
    saved = busy_time(
        saved_input_gather_time, tensor_parallel_gather_time, moved, intra_node_bandwidth
    )
    return passed + saved + token_gather_time


@alternative("tensor_rail_bandwidth", network_tiers=True)
def tiered_tensor_rail_bandwidth(
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    leaf_gpus,
    gpus_per_pod,
    leaf_bandwidth,
    rail_bandwidth,
    pod_bandwidth,
):
    """bytes out of the node over their time below leaf switches, in pods and between pods

    Range: same as topology.tiered_bandwidth
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3, level by level
    """
    return _reducing(
        tensor_parallel,
        1.0,
        tensor_parallel_ranks_per_node,
        leaf_gpus,
        gpus_per_pod,
        leaf_bandwidth,
        rail_bandwidth,
        pod_bandwidth,
    )


def _reducing(
    ranks,
    stride,
    ranks_per_node,
    leaf_gpus,
    gpus_per_pod,
    leaf_bandwidth,
    fabric_bandwidth,
    pod_bandwidth,
):
    """Bandwidth of a collective that reduces or gathers tier by tier."""
    below = np.maximum(group_ranks_per_node(leaf_gpus, stride, ranks), ranks_per_node)
    in_pod = np.maximum(group_ranks_per_node(gpus_per_pod, stride, ranks), below)
    return tiered_bandwidth(
        ranks, ranks_per_node, below, in_pod, leaf_bandwidth, fabric_bandwidth, pod_bandwidth
    )


family(
    {**IN_DOMAINS, "node_tensor_parallel_ranks_per_node": "domain_tensor_parallel_ranks_per_node"},
    node_tensor_parallel_ranks_per_node,
    scale_up_domain=True,
)


def tensor_parallel_tier(tensor_parallel, scale_up_gpus, leaf_gpus, gpus_per_pod, site_gpus):
    """Highest tier that tensor-parallel traffic crosses.

    the smallest tier that holds all groups of t GPUs

    Returns: [flag] tier
    Flags: TIERS
    Source: Megatron-LM rank order, megatron/core/parallel_state.py
    """
    return crossed_tier(tensor_parallel, 1.0, scale_up_gpus, leaf_gpus, gpus_per_pod, site_gpus)
