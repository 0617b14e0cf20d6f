"""Bandwidth, link occupancy and network tiers of data-parallel groups."""

import numpy as np

from ...alternatives import alternative, family, same_as
from ...laws.topology import crossed_tier, flat_bandwidth, tiered_bandwidth
from ...ops import where
from ..context.context_links import switched_context_rail_bandwidth
from ..experts.expert_links import INSIDE_A_NODE, switched_expert_rail_bandwidth
from ..network.network_tiers import IN_DOMAINS
from ..network.network_tiers import TIERS as TIERS
from ..tensor.tensor_links import _reducing
from .gradients import (
    inner_data_parallel_ranks_per_node,
    node_expert_gradient_ranks_per_node,
    outer_data_parallel_ranks_per_node,
)

family(
    {
        "context_rail_bandwidth": "data_rail_bandwidth",
        "context-parallel": "data-parallel",
        "tensor_parallel": "data_spread",
        "context_parallel": "gradient_ranks",
        "t c GPUs": "its ranks x spread",
    },
    switched_context_rail_bandwidth,
)
family(
    {
        "expert_rail_bandwidth": "replica_rail_bandwidth",
        "expert-parallel traffic": "traffic between sharding groups",
        "expert_tensor_parallel": "replica_stride",
        "expert_parallel": "shard_replicas",
        "a group (t_e e GPUs)": "the groups (stride x replicas)",
        "is under": "are under",
    },
    switched_expert_rail_bandwidth,
)


@alternative("data_parallel_bandwidth", mixture_of_experts=False)
@same_as(flat_bandwidth)
def dense_data_parallel_bandwidth(
    gradient_ranks, data_parallel_ranks_per_node, intra_node_bandwidth, data_rail_bandwidth
):
    """Bandwidth of one rank of a data-parallel group in a flat algorithm.

    intra-node in one node, else min(intra-node, ranks on the node x rail)

    Returns: [B/s] bandwidth per rank
    Source: NCCL 2.30, channels over several NICs
    """


@alternative("data_parallel_bandwidth", mixture_of_experts=True)
def expert_data_parallel_bandwidth(
    gradient_ranks,
    data_parallel_ranks_per_node,
    intra_node_bandwidth,
    data_rail_bandwidth,
    reduced_parameters,
    reduced_expert_parameters,
    expert_gradient_bandwidth,
):
    """1 / ((1 - x) / B + x / B_e), x the share of routed experts, whose groups use fewer rails

    Range: bytes of a ring; no extra latency for experts
    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); NCCL 2.30, channels over several NICs
    """
    share = reduced_expert_parameters / reduced_parameters
    dense = flat_bandwidth(
        gradient_ranks, data_parallel_ranks_per_node, intra_node_bandwidth, data_rail_bandwidth
    )
    return 1 / ((1 - share) / dense + share / expert_gradient_bandwidth)


@alternative("gradient_node_bandwidth", mixture_of_experts=True, off="intra_node_bandwidth")
def expert_gradient_node_bandwidth(
    intra_node_bandwidth, data_parallel_ranks_per_node, data_node_share
):
    """Effective bandwidth of one rank of a data-parallel group inside its node, level by level.

    B (1 - 1 / g) / (share of bytes sent inside the node): experts send a smaller share there

    Returns: [B/s] bandwidth per rank
    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    alone = 1 - 1 / data_parallel_ranks_per_node
    return intra_node_bandwidth * _ratio(alone, data_node_share)


@alternative("gradient_rail_bandwidth", mixture_of_experts=True, off="data_rail_bandwidth")
def expert_gradient_rail_bandwidth(
    data_rail_bandwidth, data_parallel_ranks_per_node, gradient_ranks, data_fabric_share
):
    """Effective bandwidth of one rank of a data-parallel group between nodes, level by level.

    B (1 / g - 1 / n) / (share of bytes sent on the rail): experts send a larger share there

    Returns: [B/s] bandwidth per rank
    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    alone = 1 / data_parallel_ranks_per_node - 1 / gradient_ranks
    return data_rail_bandwidth * _ratio(alone, data_fabric_share)


def _ratio(alone, together):
    """Bytes sent for dense weights alone over bytes sent with experts; 1 if there are none."""
    sent = (alone > 0) & (together > 0)
    return where(sent, alone / where(sent, together, 1.0), 1.0)


@alternative("data_fabric_share", mixture_of_experts=False)
def dense_data_fabric_share(data_parallel_ranks_per_node, gradient_ranks):
    """Bytes that a GPU sends on its rail per byte of its data-parallel group's traffic.

    1 / g - 1 / n

    Returns: [1] bytes over bytes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    return 1 / data_parallel_ranks_per_node - 1 / gradient_ranks


@alternative("data_fabric_share", mixture_of_experts=True)
def expert_data_fabric_share(
    data_parallel_ranks_per_node,
    gradient_ranks,
    expert_gradient_ranks,
    expert_gradient_ranks_per_node,
    reduced_parameters,
    reduced_expert_parameters,
):
    """(1 - x) (1 / g - 1 / n) + x (1 / g_e - 1 / n_e) (1 - 1 / n) / (1 - 1 / n_e), x the share of
    routed experts, counted as in a ring of all n ranks

    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    share = reduced_expert_parameters / reduced_parameters
    several = expert_gradient_ranks > 1
    expert_share = 1 - 1 / where(several, expert_gradient_ranks, 2.0)
    routed = where(
        several,
        (1 / expert_gradient_ranks_per_node - 1 / expert_gradient_ranks)
        * (1 - 1 / gradient_ranks)
        / expert_share,
        0.0,
    )
    return (1 - share) * (1 / data_parallel_ranks_per_node - 1 / gradient_ranks) + share * routed


@alternative("data_node_share", mixture_of_experts=False)
def dense_data_node_share(data_parallel_ranks_per_node):
    """Bytes that a GPU sends inside its node per byte of its data-parallel group's traffic.

    1 - 1 / g

    Returns: [1] bytes over bytes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    return 1 - 1 / data_parallel_ranks_per_node


@alternative("data_node_share", mixture_of_experts=True)
def expert_data_node_share(
    data_parallel_ranks_per_node,
    gradient_ranks,
    expert_gradient_ranks,
    expert_gradient_ranks_per_node,
    reduced_parameters,
    reduced_expert_parameters,
):
    """(1 - x) (1 - 1 / g) + x (1 - 1 / g_e) (1 - 1 / n) / (1 - 1 / n_e), x the share of routed
    experts, counted as in a ring of all n ranks

    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    share = reduced_expert_parameters / reduced_parameters
    several = expert_gradient_ranks > 1
    expert_share = 1 - 1 / where(several, expert_gradient_ranks, 2.0)
    routed = where(
        several,
        (1 - 1 / expert_gradient_ranks_per_node) * (1 - 1 / gradient_ranks) / expert_share,
        0.0,
    )
    return (1 - share) * (1 - 1 / data_parallel_ranks_per_node) + share * routed


@alternative("data_fabric_time", hybrid_sharding=False)
def whole_data_fabric_time(
    data_parallel_time, data_parallel_bytes, data_fabric_share, data_rail_bandwidth
):
    """Time per step in which a GPU's rail carries data-parallel traffic.

    bytes x share / B, at most the traffic time

    Returns: [s] time of one step
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    return np.minimum(
        data_parallel_time, data_parallel_bytes * data_fabric_share / data_rail_bandwidth
    )


@alternative("data_fabric_time", hybrid_sharding=True)
def hybrid_data_fabric_time(
    data_parallel_time,
    data_parallel_bytes,
    data_fabric_share,
    data_rail_bandwidth,
    replica_bytes,
    replica_fabric_share,
    replica_rail_bandwidth,
):
    """bytes x share / B of a sharding group + of its replicas, at most the traffic time"""
    group = data_parallel_bytes * data_fabric_share / data_rail_bandwidth
    replicas = replica_bytes * replica_fabric_share / replica_rail_bandwidth
    return np.minimum(data_parallel_time, group + replicas)


def replica_bytes(replica_reductions, gradient_buckets, replica_message):
    """Bytes reduced between sharding groups in one step, each half of an all-reduce counted.

    2 x reductions x buckets x M

    Returns: [B] bytes
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.2
    """
    return 2 * replica_reductions * gradient_buckets * replica_message


def replica_fabric_share(replica_ranks_per_node, shard_replicas):
    """Bytes that a GPU sends on its rail per byte of traffic between sharding groups.

    1 / g - 1 / n

    Returns: [1] bytes over bytes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    return 1 / replica_ranks_per_node - 1 / shard_replicas


def replica_node_share(replica_ranks_per_node):
    """Bytes that a GPU sends inside its node per byte of traffic between sharding groups.

    1 - 1 / g

    Returns: [1] bytes over bytes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    return 1 - 1 / replica_ranks_per_node


family(INSIDE_A_NODE, whole_data_fabric_time)


@alternative("data_node_time", hybrid_sharding=True)
def hybrid_data_node_time(
    data_parallel_time,
    data_parallel_bytes,
    data_node_share,
    replica_bytes,
    replica_node_share,
    intra_node_bandwidth,
):
    """(bytes x share of a sharding group + of its replicas) / B, at most the traffic time"""
    moved = data_parallel_bytes * data_node_share + replica_bytes * replica_node_share
    return np.minimum(data_parallel_time, moved / intra_node_bandwidth)


for _tier, _gpus, _words in (
    ("leaf", "leaf_gpus", "below one leaf switch"),
    ("pod", "gpus_per_pod", "in one pod"),
):
    family(
        {
            "data_parallel_ranks_per_node": f"data_parallel_ranks_per_{_tier}",
            "scale_up_gpus": _gpus,
            "gpus per node": f"gpus {_words}",
            "on each node": _words,
            "on one node, or in one scale-up domain": _words,
            "divide the node; else the mean over nodes": "divide the tier; else the mean",
            "on one node": _words,
        },
        inner_data_parallel_ranks_per_node,
        outer_data_parallel_ranks_per_node,
    )


@alternative("data_rail_bandwidth", network_tiers=True)
def tiered_data_rail_bandwidth(
    gradient_ranks,
    data_parallel_ranks_per_node,
    data_parallel_ranks_per_leaf,
    data_parallel_ranks_per_pod,
    leaf_bandwidth,
    rail_bandwidth,
    pod_bandwidth,
):
    """bytes out of the node over their time below leaf switches, in pods and between pods

    Range: same as topology.tiered_bandwidth; with experts, for the group of dense weights
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3, level by level
    """
    below = np.maximum(data_parallel_ranks_per_leaf, data_parallel_ranks_per_node)
    return tiered_bandwidth(
        gradient_ranks,
        data_parallel_ranks_per_node,
        below,
        np.maximum(data_parallel_ranks_per_pod, below),
        leaf_bandwidth,
        rail_bandwidth,
        pod_bandwidth,
    )


@alternative("replica_rail_bandwidth", network_tiers=True)
def tiered_replica_rail_bandwidth(
    shard_replicas,
    replica_stride,
    replica_ranks_per_node,
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
        shard_replicas,
        replica_stride,
        replica_ranks_per_node,
        leaf_gpus,
        gpus_per_pod,
        leaf_bandwidth,
        rail_bandwidth,
        pod_bandwidth,
    )


family(
    {**IN_DOMAINS, "node_expert_gradient_ranks_per_node": "domain_expert_gradient_ranks_per_node"},
    node_expert_gradient_ranks_per_node,
    scale_up_domain=True,
)


@alternative("data_parallel_tier", hybrid_sharding=False)
@same_as(crossed_tier)
def whole_data_parallel_tier(
    gradient_ranks, data_spread, scale_up_gpus, leaf_gpus, gpus_per_pod, site_gpus
):
    """Highest tier that data-parallel traffic crosses.

    the smallest tier that holds all groups of ranks x spread GPUs, those of one site

    Returns: [flag] tier
    Flags: TIERS
    Source: Megatron-LM rank order, megatron/core/parallel_state.py
    """


@alternative("data_parallel_tier", hybrid_sharding=True)
def hybrid_data_parallel_tier(
    gradient_ranks,
    data_spread,
    shard_replicas,
    replica_stride,
    scale_up_gpus,
    leaf_gpus,
    gpus_per_pod,
    site_gpus,
):
    """the higher of the tiers crossed within and between sharding groups"""
    tiers = (scale_up_gpus, leaf_gpus, gpus_per_pod, site_gpus)
    return np.maximum(
        crossed_tier(gradient_ranks, data_spread, *tiers),
        crossed_tier(shard_replicas, replica_stride, *tiers),
    )
