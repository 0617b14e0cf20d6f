"""Bandwidth, link occupancy and network tiers of sends between pipeline stages."""

from ...alternatives import alternative, family, same_as
from ...laws.topology import busy_time, crossed_tier, rail_under_switches
from ...ops import where
from ..context.context_links import _sending
from ..network.network_tiers import IN_DOMAINS
from ..network.network_tiers import TIERS as TIERS
from .pipeline_traffic import node_pipeline_ranks_per_node


@alternative("pipeline_rail_bandwidth", network_tiers=False)
@same_as(rail_under_switches)
def switched_pipeline_rail_bandwidth(
    pipeline_span, gpus_per_switch, rail_bandwidth, oversubscription
):
    """Bandwidth per direction and GPU between nodes for pipeline traffic.

    bandwidth without oversubscription if pipelines (all GPUs, or t c p) are under one leaf switch

    Returns: [B/s] bandwidth of one rail under load
    Range: for groups over several switches a lower bound, as if all traffic left the switch (a ring
        over neighbouring nodes crosses less); no rail-optimised placement
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree); Megatron-LM
        rank order, megatron/core/parallel_state.py
    """


def pipeline_fabric_time(
    pipeline_parallel_time,
    pipeline_send_time,
    pipeline_gather_time,
    pipeline_message,
    pipeline_parallel,
    pipeline_ranks_per_node,
    pipeline_rail_bandwidth,
):
    """Time per step in which a GPU's rail carries sends between pipeline stages.

    sends x M / B_e for a GPU whose next stage is on another node; gathers of parts not counted

    Returns: [s] time of one step
    Source: Narayanan et al. 2021 (SC21), section 3.2
    """
    sent = where(pipeline_ranks_per_node < pipeline_parallel, pipeline_message, 0.0)
    one = pipeline_send_time + pipeline_gather_time
    return busy_time(pipeline_parallel_time, one, sent, pipeline_rail_bandwidth)


def pipeline_node_time(
    pipeline_parallel_time,
    pipeline_send_time,
    pipeline_gather_time,
    pipeline_message,
    pipeline_ranks_per_node,
    intra_node_bandwidth,
):
    """Time per step in which a GPU's link inside its node carries sends between pipeline stages.

    sends x M / B_i for a GPU whose next stage is on its node; gathers of parts not counted

    Returns: [s] time of one step
    Source: Narayanan et al. 2021 (SC21), section 3.2
    """
    sent = where(pipeline_ranks_per_node > 1, pipeline_message, 0.0)
    one = pipeline_send_time + pipeline_gather_time
    return busy_time(pipeline_parallel_time, one, sent, intra_node_bandwidth)


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
    """bandwidth of the slowest send to the next stage, a stride away: out of a leaf switch or pod

    Range: same as topology.crossing_bandwidth
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


family(
    {**IN_DOMAINS, "node_pipeline_ranks_per_node": "domain_pipeline_ranks_per_node"},
    node_pipeline_ranks_per_node,
    scale_up_domain=True,
)


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
