"""Tiers above the node: leaf switches, rails, pods; what each group's traffic has of them."""

from typing import Any

from ..alternatives import alternative, renaming, same_as
from ..inputs import SWITCHED
from ..ops import np, where
from ..topology import (
    crossed_tier,
    crossing_bandwidth,
    group_ranks_per_node,
    tiered_all_to_all_bandwidth,
    tiered_bandwidth,
)
from .context_traffic import node_context_ranks_per_node
from .data_traffic import (
    inner_data_parallel_ranks_per_node,
    outer_data_parallel_ranks_per_node,
)
from .expert_traffic import node_expert_gradient_ranks_per_node, node_expert_ranks_per_node
from .pipeline_traffic import node_pipeline_ranks_per_node
from .tensor_traffic import node_tensor_parallel_ranks_per_node

# What a tier's number means in the flags below
TIERS = "0 none, 1 node, 2 leaf_switch, 3 pod, 4 between_pods"


@alternative("leaf_gpus", rail_optimized=False)
def shared_leaf_gpus(gpus_per_switch):
    """GPUs that reach each other through one leaf switch.

    those behind it

    Returns: [1] GPUs
    Source: by definition
    """
    return 1.0 * gpus_per_switch


@alternative("leaf_gpus", rail_optimized=True)
def rail_leaf_gpus(gpus_per_switch, gpus_per_node):
    """GPUs that reach each other through one leaf switch, each along its rail.

    GPUs behind one switch x GPUs per node: a switch serves one GPU of each of its nodes, and what
    is meant for another rail changes rails inside the node

    Range: libraries that change rails inside the node (NCCL's PXN); without it all-to-alls leave
        the leaf
    Source: Wang et al. 2024 (rail-only), arXiv:2307.12169, section 2; Qian et al. 2024 (Alibaba
        HPN), SIGCOMM, section 4
    """
    return gpus_per_switch * gpus_per_node


def leaf_bandwidth(rail_bandwidth, oversubscription):
    """Bandwidth per direction of one GPU's rail below its leaf switch.

    that out of the leaf x oversubscription

    Returns: [B/s] bandwidth of one rail
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree)
    """
    return rail_bandwidth * oversubscription


def pod_bandwidth(rail_bandwidth, pod_oversubscription):
    """Bandwidth per direction that one GPU has out of its pod where all send.

    that out of the leaf / oversubscription of pods

    Returns: [B/s] bandwidth of one rail
    Source: Grattafiori et al. 2024 (Llama 3), arXiv:2407.21783, section 3.3.1 (1:7 between pods)
    """
    return rail_bandwidth / pod_oversubscription


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
    """bytes out of the node over the time that they take below leaf switches, in pods, between pods

    Range: as in topology.tiered_bandwidth
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


def _in_tier(tier: str, gpus: str, words: str) -> Any:
    """The twin of a formula of data-parallel ranks on a node, for a tier above."""
    return renaming(
        __name__,
        {
            "data_parallel_ranks_per_node": f"data_parallel_ranks_per_{tier}",
            "scale_up_gpus": gpus,
            "gpus per node": f"gpus {words}",
            "on each node": words,
            "on one node, or in one scale-up domain": words,
            "divide the node; else the mean over nodes": "divide the tier; else the mean",
            "on one node": words,
        },
    )


_below_leaf = _in_tier("leaf", "leaf_gpus", "below one leaf switch")
_in_pod = _in_tier("pod", "gpus_per_pod", "in one pod")
inner_data_parallel_ranks_per_leaf = _below_leaf(inner_data_parallel_ranks_per_node)
outer_data_parallel_ranks_per_leaf = _below_leaf(outer_data_parallel_ranks_per_node)
inner_data_parallel_ranks_per_pod = _in_pod(inner_data_parallel_ranks_per_node)
outer_data_parallel_ranks_per_pod = _in_pod(outer_data_parallel_ranks_per_node)


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
    """bytes out of the node over the time that they take below leaf switches, in pods, between pods

    Range: as in topology.tiered_bandwidth; of the group of dense weights where there are experts
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
    """bytes out of the node over the time that they take below leaf switches, in pods, between pods

    Range: as in topology.tiered_bandwidth
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


@alternative("expert_rail_bandwidth", network_tiers=True)
def tiered_expert_rail_bandwidth(
    expert_parallel,
    expert_stride,
    expert_ranks_per_node,
    leaf_gpus,
    gpus_per_pod,
    leaf_bandwidth,
    rail_bandwidth,
    pod_bandwidth,
):
    """bytes out of the node over the longest time that a tier takes for its share of them

    Range: as in topology.tiered_all_to_all_bandwidth
    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on several networks
    """
    below = np.maximum(
        group_ranks_per_node(leaf_gpus, expert_stride, expert_parallel), expert_ranks_per_node
    )
    return tiered_all_to_all_bandwidth(
        expert_parallel,
        expert_ranks_per_node,
        below,
        np.maximum(group_ranks_per_node(gpus_per_pod, expert_stride, expert_parallel), below),
        leaf_bandwidth,
        rail_bandwidth,
        pod_bandwidth,
    )


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
    """that of the slowest send to the next rank: out of a leaf switch, or of a pod

    Range: as in topology.crossing_bandwidth
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


@alternative("pipeline_rail_bandwidth", network_tiers=True)
def tiered_pipeline_rail_bandwidth(
    pipeline_parallel,
    pipeline_stride,
    leaf_gpus,
    gpus_per_pod,
    leaf_bandwidth,
    rail_bandwidth,
    pod_bandwidth,
):
    """that of the slowest send to the next stage, a stride away: out of a leaf switch, or of a pod

    Range: as in topology.crossing_bandwidth
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree)
    """
    return _sending(
        pipeline_parallel,
        pipeline_stride,
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
    """Bandwidth of a collective that adds up or gathers tier by tier."""
    below = np.maximum(group_ranks_per_node(leaf_gpus, stride, ranks), ranks_per_node)
    in_pod = np.maximum(group_ranks_per_node(gpus_per_pod, stride, ranks), below)
    return tiered_bandwidth(
        ranks, ranks_per_node, below, in_pod, leaf_bandwidth, fabric_bandwidth, pod_bandwidth
    )


def _sending(
    ranks, stride, leaf_gpus, gpus_per_pod, leaf_bandwidth, fabric_bandwidth, pod_bandwidth
):
    """Bandwidth of sends to the next rank, by the slowest tier that any of them leaves."""
    return np.minimum(
        crossing_bandwidth(ranks, stride, leaf_gpus, leaf_bandwidth, fabric_bandwidth),
        crossing_bandwidth(ranks, stride, gpus_per_pod, leaf_bandwidth, pod_bandwidth),
    )


def _in_domains(formula):
    """The twin of a formula of ranks on a node, for scale-up domains of several nodes."""
    names = {
        "gpus_per_node": "scale_up_gpus",
        "gpus per node": "gpus in use per domain",
        "on each node": "in each scale-up domain",
        "on one node": "in one domain",
        formula.__name__: formula.__name__.replace("node_", "domain_", 1),
    }
    twin = renaming(__name__, names)(formula)
    return alternative(formula.__alternative__[0], scale_up_domain=True)(twin)


domain_tensor_parallel_ranks_per_node = _in_domains(node_tensor_parallel_ranks_per_node)
domain_context_ranks_per_node = _in_domains(node_context_ranks_per_node)
domain_expert_ranks_per_node = _in_domains(node_expert_ranks_per_node)
domain_expert_gradient_ranks_per_node = _in_domains(node_expert_gradient_ranks_per_node)
domain_pipeline_ranks_per_node = _in_domains(node_pipeline_ranks_per_node)


@alternative("scale_up_gpus", scale_up_domain=False)
def node_scale_up_gpus(gpus_per_node):
    """GPUs that reach each other without the network between nodes.

    those of a node

    Returns: [1] GPUs
    Source: by definition
    """
    return 1.0 * gpus_per_node


@alternative("scale_up_gpus", scale_up_domain=True)
def domain_scale_up_gpus(seated_domain_gpus):
    """those of a scale-up domain that the job uses"""
    return 1.0 * seated_domain_gpus


@alternative("seated_domain_gpus", all_reduce=SWITCHED)
def switched_seated_domain_gpus(
    gpus_per_domain, tensor_parallel, context_parallel, expert_parallel, expert_stride
):
    """GPUs of one scale-up domain that a job uses: whole groups, or equal parts of a group.

    floor(D / g) g for groups of g = max(t c, e x stride) GPUs up to D; g / ceil(g / D) of larger
    ones

    Returns: [1] GPUs
    Range: a scheduler that seats groups of tensor, context and expert ranks so, and leaves the
        rest of a domain to others (`idle_domain_gpus`); one that fills domains to the last GPU
        lets some groups straddle two of them
    Source: by definition; as Slurm's topology/block seats segments, and Megatron-Bridge's recipes
        use 64 of a rack's 72 GPUs for 64 expert ranks
    """
    group = np.maximum(tensor_parallel * context_parallel, expert_parallel * expert_stride)
    whole = np.floor(gpus_per_domain / group) * group
    return where(group > gpus_per_domain, group / np.ceil(group / gpus_per_domain), whole)


@alternative("seated_domain_gpus", all_reduce="torus")
def torus_seated_domain_gpus(gpus_per_domain):
    """GPUs of one scale-up domain that a job uses: a torus is used whole.

    D

    Source: Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2 (slices of a pod)
    """
    return 1.0 * gpus_per_domain


@alternative("idle_domain_gpus", scale_up_domain=False)
def no_idle_domain_gpus():
    """GPUs of a job's scale-up domains that it leaves idle: a node is all there is.

    0

    Returns: [1] GPUs
    Source: by definition
    """
    return 0.0


@alternative("idle_domain_gpus", scale_up_domain=True)
def idle_domain_gpus(n_gpus, gpus_per_domain, scale_up_gpus):
    """GPUs of a job's scale-up domains that it leaves idle, where groups do not divide a domain.

    domains in use x GPUs left in each: ceil(n / used) (D - used)

    Range: neither power nor price counts them
    """
    return np.ceil(n_gpus / scale_up_gpus) * (gpus_per_domain - scale_up_gpus)


def scale_up_bandwidth(intra_node_bandwidth):
    """Bandwidth per direction of one GPU inside its node, or scale-up domain.

    that of the node

    Returns: [B/s] bandwidth of one GPU
    Source: by definition
    """
    return 1.0 * intra_node_bandwidth


def job_gpus(n_gpus):
    """GPUs of the job on all sites.

    n

    Returns: [1] GPUs
    Source: by definition
    """
    return 1.0 * n_gpus


def site_gpus(n_gpus, sites):
    """GPUs of the job on one site.

    n / S

    Returns: [1] GPUs
    Source: by definition
    """
    return n_gpus / sites


def pod_gpus(gpus_per_pod, site_gpus):
    """GPUs of the job in one pod.

    min(P, n / S)

    Returns: [1] GPUs
    Source: by definition
    """
    return np.minimum(gpus_per_pod, site_gpus)


def tensor_parallel_tier(tensor_parallel, scale_up_gpus, leaf_gpus, gpus_per_pod, site_gpus):
    """Highest tier that tensor-parallel traffic crosses.

    the smallest tier that holds all groups of t GPUs

    Returns: [flag] tier
    Flags: TIERS
    Source: Megatron-LM rank order, megatron/core/parallel_state.py
    """
    return crossed_tier(tensor_parallel, 1.0, scale_up_gpus, leaf_gpus, gpus_per_pod, site_gpus)


@same_as(crossed_tier)
def context_parallel_tier(
    context_parallel, tensor_parallel, scale_up_gpus, leaf_gpus, gpus_per_pod, site_gpus
):
    """Highest tier that context-parallel traffic crosses.

    the smallest tier that holds all groups of t c GPUs

    Returns: [flag] tier
    Flags: 0 none, 1 node, 2 leaf_switch, 3 pod, 4 between_pods
    Source: Megatron-LM rank order, megatron/core/parallel_state.py
    """


whole_data_parallel_tier = alternative("data_parallel_tier", hybrid_sharding=False)(
    renaming(
        __name__,
        {
            "context_parallel_tier": "whole_data_parallel_tier",
            "context-parallel": "data-parallel",
            "tensor_parallel": "data_spread",
            "context_parallel": "gradient_ranks",
            "t c GPUs": "ranks x spread GPUs, those of one site",
        },
    )(context_parallel_tier)
)


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
    """the higher one of that in sharding groups and of that between them"""
    tiers = (scale_up_gpus, leaf_gpus, gpus_per_pod, site_gpus)
    return np.maximum(
        crossed_tier(gradient_ranks, data_spread, *tiers),
        crossed_tier(shard_replicas, replica_stride, *tiers),
    )


@same_as(crossed_tier)
def expert_parallel_tier(
    expert_parallel, expert_stride, scale_up_gpus, leaf_gpus, gpus_per_pod, site_gpus
):
    """Highest tier that expert-parallel traffic crosses.

    the smallest tier that holds all groups of e x stride GPUs

    Returns: [flag] tier
    Flags: TIERS
    Source: Megatron-LM rank order, megatron/core/parallel_state.py
    """


@same_as(crossed_tier)
def pipeline_parallel_tier(
    pipeline_parallel, pipeline_stride, scale_up_gpus, leaf_gpus, gpus_per_pod, site_gpus
):
    """Highest tier that traffic between pipeline stages crosses.

    the smallest tier that holds all groups of p x stride GPUs, those of one site

    Returns: [flag] tier
    Flags: TIERS
    Source: Megatron-LM rank order, megatron/core/parallel_state.py
    """
