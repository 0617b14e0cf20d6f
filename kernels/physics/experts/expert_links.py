"""Bandwidth, link occupancy and network tiers of expert-parallel groups."""

import numpy as np

from ...alternatives import alternative, family, same_as
from ...laws.topology import (
    busy_time,
    crossed_tier,
    group_ranks_per_node,
    rail_under_switches,
    tiered_all_to_all_bandwidth,
)
from ..network.network_tiers import IN_DOMAINS
from ..network.network_tiers import TIERS as TIERS
from .expert_traffic import node_expert_ranks_per_node


@alternative("expert_rail_bandwidth", network_tiers=False)
def switched_expert_rail_bandwidth(
    expert_tensor_parallel, expert_parallel, gpus_per_switch, rail_bandwidth, oversubscription
):
    """Bandwidth per direction and GPU between nodes for expert-parallel traffic.

    bandwidth without oversubscription if a group (t_e e GPUs) is under one leaf switch

    Returns: [B/s] bandwidth of one rail under load
    Range: for groups over several switches a lower bound, as if all traffic left the switch (a ring
        over neighbouring nodes crosses less); no rail-optimised placement
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree); Megatron-LM
        rank order, megatron/core/parallel_state.py
    """
    return rail_under_switches(
        expert_tensor_parallel * expert_parallel, gpus_per_switch, rail_bandwidth, oversubscription
    )


@alternative("expert_fabric_time", mixture_of_experts=False)
def no_expert_fabric_time():
    """Time per step in which a GPU's rail carries expert-parallel traffic: none.

    0

    Returns: [s] time of one step
    Source: by definition
    """
    return 0.0


@alternative("expert_fabric_time", mixture_of_experts=True)
@same_as(busy_time)
def routed_expert_fabric_time(
    expert_parallel_time, expert_all_to_all_time, expert_fabric_bytes, expert_rail_bandwidth
):
    """all-to-alls x bytes / B

    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks
    """


INSIDE_A_NODE = {
    "a GPU's rail": "a GPU's link inside its node",
    "tensor_fabric_time": "tensor_node_time",
    "context_fabric_time": "context_node_time",
    "expert_fabric_time": "expert_node_time",
    "expert_fabric_bytes": "expert_node_bytes",
    "expert_rail_bandwidth": "intra_node_bandwidth",
    "pipeline_fabric_time": "pipeline_node_time",
    "data_fabric_time": "data_node_time",
    "data_fabric_share": "data_node_share",
    "data_rail_bandwidth": "intra_node_bandwidth",
    "fabric_busy_time": "node_network_busy_time",
}  # new words for a formula of a rail


family(INSIDE_A_NODE, no_expert_fabric_time, routed_expert_fabric_time)


@alternative("expert_rail_bandwidth", network_tiers=True)
def tiered_expert_rail_bandwidth(
    expert_parallel,
    expert_tensor_parallel,
    expert_ranks_per_node,
    leaf_gpus,
    gpus_per_pod,
    leaf_bandwidth,
    rail_bandwidth,
    pod_bandwidth,
):
    """bytes out of the node over the longest time that a tier takes for its share of them

    Range: same as topology.tiered_all_to_all_bandwidth
    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on several networks
    """
    below = np.maximum(
        group_ranks_per_node(leaf_gpus, expert_tensor_parallel, expert_parallel),
        expert_ranks_per_node,
    )
    return tiered_all_to_all_bandwidth(
        expert_parallel,
        expert_ranks_per_node,
        below,
        np.maximum(
            group_ranks_per_node(gpus_per_pod, expert_tensor_parallel, expert_parallel), below
        ),
        leaf_bandwidth,
        rail_bandwidth,
        pod_bandwidth,
    )


family(
    {**IN_DOMAINS, "node_expert_ranks_per_node": "domain_expert_ranks_per_node"},
    node_expert_ranks_per_node,
    scale_up_domain=True,
)


@same_as(crossed_tier)
def expert_parallel_tier(
    expert_parallel, expert_tensor_parallel, scale_up_gpus, leaf_gpus, gpus_per_pod, site_gpus
):
    """Highest tier that expert-parallel traffic crosses.

    the smallest tier that holds all groups of t_e e GPUs

    Returns: [flag] tier
    Flags: TIERS
    Source: Megatron-LM rank order, megatron/core/parallel_state.py
    """
