"""Bandwidth, link occupancy and network tiers of context-parallel groups."""

import numpy as np

from ...alternatives import alternative, family, same_as
from ...laws.topology import busy_time, crossed_tier, crossing_bandwidth, rail_under_switches
from ...ops import where
from ..network.network_tiers import IN_DOMAINS
from ..network.network_tiers import TIERS as TIERS
from .context_ring import node_context_ranks_per_node


@alternative("context_rail_bandwidth", network_tiers=False)
def switched_context_rail_bandwidth(
    tensor_parallel, context_parallel, gpus_per_switch, rail_bandwidth, oversubscription
):
    """Bandwidth per direction and GPU between nodes for context-parallel traffic.

    bandwidth without oversubscription if a group (t c GPUs) is under one leaf switch

    Returns: [B/s] bandwidth of one rail under load
    Range: for groups over several switches a lower bound, as if all traffic left the switch (a ring
        over neighbouring nodes crosses less); no rail-optimised placement
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree); Megatron-LM
        rank order, megatron/core/parallel_state.py
    """
    return rail_under_switches(
        tensor_parallel * context_parallel, gpus_per_switch, rail_bandwidth, oversubscription
    )


@alternative("context_fabric_time", context_parallel_type="p2p")
def context_fabric_time(
    context_parallel_time,
    context_send_time,
    context_message,
    context_parallel,
    context_ranks_per_node,
    context_rail_bandwidth,
):
    """Time per step in which a GPU's rail carries context-parallel traffic.

    exchanges x M / B_e if the ring leaves the node, for the GPU whose next rank is on another node

    Returns: [s] time of one step
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3
    """
    across = where(context_ranks_per_node < context_parallel, context_message, 0.0)
    return busy_time(context_parallel_time, context_send_time, across, context_rail_bandwidth)


@alternative("context_node_time", context_parallel_type="p2p")
def context_node_time(
    context_parallel_time,
    context_send_time,
    context_message,
    context_ranks_per_node,
    intra_node_bandwidth,
):
    """Time per step in which a GPU's link inside its node carries context-parallel traffic.

    exchanges x M / B_i, for a GPU whose next rank is on its node

    Returns: [s] time of one step
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3
    """
    inside = where(context_ranks_per_node > 1, context_message, 0.0)
    return busy_time(context_parallel_time, context_send_time, inside, intra_node_bandwidth)


@alternative("context_rail_bandwidth", network_tiers=True)
def tiered_context_rail_bandwidth(
    context_parallel,
    tensor_parallel,
    leaf_gpus,
    gpus_per_pod,
    leaf_bandwidth,
    rail_bandwidth,
    pod_bandwidth,
):
    """bandwidth of the slowest send to the next rank: out of a leaf switch, or of a pod

    Range: same as topology.crossing_bandwidth
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree)
    """
    return _sending(
        context_parallel,
        tensor_parallel,
        leaf_gpus,
        gpus_per_pod,
        leaf_bandwidth,
        rail_bandwidth,
        pod_bandwidth,
    )


def _sending(
    ranks, stride, leaf_gpus, gpus_per_pod, leaf_bandwidth, fabric_bandwidth, pod_bandwidth
):
    """Bandwidth of sends to the next rank, limited by the slowest tier that any of them leaves."""
    return np.minimum(
        crossing_bandwidth(ranks, stride, leaf_gpus, leaf_bandwidth, fabric_bandwidth),
        crossing_bandwidth(ranks, stride, gpus_per_pod, leaf_bandwidth, pod_bandwidth),
    )


family(
    {**IN_DOMAINS, "node_context_ranks_per_node": "domain_context_ranks_per_node"},
    node_context_ranks_per_node,
    scale_up_domain=True,
)


@same_as(crossed_tier)
def context_parallel_tier(
    context_parallel, tensor_parallel, scale_up_gpus, leaf_gpus, gpus_per_pod, site_gpus
):
    """Highest tier that context-parallel traffic crosses.

    the smallest tier that holds all groups of t c GPUs

    Returns: [flag] tier
    Flags: TIERS
    Source: Megatron-LM rank order, megatron/core/parallel_state.py
    """
