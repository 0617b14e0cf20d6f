"""The fabric that a group can count on, and all communication of a step."""

from ..alternatives import alternative, renaming, same_as
from ..topology import rail_under_switches


def rail_bandwidth(inter_node_bandwidth, oversubscription, network_efficiency):
    """Bandwidth per direction that one GPU can count on for traffic that leaves its leaf switch.

    efficiency x B / oversubscription

    Returns: [B/s] bandwidth of one rail under load
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree)
    """
    return network_efficiency * inter_node_bandwidth / oversubscription


@alternative("tensor_rail_bandwidth", network_tiers=False)
@same_as(rail_under_switches)
def switched_tensor_rail_bandwidth(
    tensor_parallel, gpus_per_switch, rail_bandwidth, oversubscription
):
    """Bandwidth between nodes that one GPU has for tensor-parallel traffic, per direction.

    that without oversubscription where a group (t GPUs) is under one leaf switch

    Returns: [B/s] bandwidth of one rail under load
    Range: groups over several switches: a lower bound, as if all they send left the switch (a ring
        over neighbouring nodes crosses less); no rail-optimised placement is assumed
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree); Megatron-LM
        rank order, megatron/core/parallel_state.py
    """


@alternative("context_rail_bandwidth", network_tiers=False)
def switched_context_rail_bandwidth(
    tensor_parallel, context_parallel, gpus_per_switch, rail_bandwidth, oversubscription
):
    """Bandwidth between nodes that one GPU has for context-parallel traffic, per direction.

    that without oversubscription where a group (t c GPUs) is under one leaf switch

    Returns: [B/s] bandwidth of one rail under load
    Range: groups over several switches: a lower bound, as if all they send left the switch (a ring
        over neighbouring nodes crosses less); no rail-optimised placement is assumed
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree); Megatron-LM
        rank order, megatron/core/parallel_state.py
    """
    return rail_under_switches(
        tensor_parallel * context_parallel, gpus_per_switch, rail_bandwidth, oversubscription
    )


switched_data_rail_bandwidth = renaming(
    __name__,
    {
        "context_rail_bandwidth": "data_rail_bandwidth",
        "context-parallel": "data-parallel",
        "tensor_parallel": "data_spread",
        "context_parallel": "gradient_ranks",
        "t c GPUs": "its ranks x spread",
    },
)(switched_context_rail_bandwidth)


@alternative("expert_rail_bandwidth", network_tiers=False)
def switched_expert_rail_bandwidth(
    expert_stride, expert_parallel, gpus_per_switch, rail_bandwidth, oversubscription
):
    """Bandwidth between nodes that one GPU has for expert-parallel traffic, per direction.

    that without oversubscription where a group (stride x e GPUs) is under one leaf switch

    Returns: [B/s] bandwidth of one rail under load
    Range: groups over several switches: a lower bound, as if all they send left the switch (a ring
        over neighbouring nodes crosses less); no rail-optimised placement is assumed
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree); Megatron-LM
        rank order, megatron/core/parallel_state.py
    """
    return rail_under_switches(
        expert_stride * expert_parallel, gpus_per_switch, rail_bandwidth, oversubscription
    )


switched_replica_rail_bandwidth = renaming(
    __name__,
    {
        "expert_rail_bandwidth": "replica_rail_bandwidth",
        "expert-parallel traffic": "traffic between sharding groups",
        "expert_stride": "replica_stride",
        "expert_parallel": "shard_replicas",
        "a group (stride x e GPUs)": "the groups (stride x replicas)",
        "is under": "are under",
    },
)(switched_expert_rail_bandwidth)


@alternative("pipeline_rail_bandwidth", network_tiers=False)
@same_as(rail_under_switches)
def switched_pipeline_rail_bandwidth(
    pipeline_span, gpus_per_switch, rail_bandwidth, oversubscription
):
    """Bandwidth between nodes that one GPU has for pipeline traffic, per direction.

    that without oversubscription where pipelines (the whole job, unless replicas are farther apart)
    are under one leaf switch

    Returns: [B/s] bandwidth of one rail under load
    Range: groups over several switches: a lower bound, as if all they send left the switch (a ring
        over neighbouring nodes crosses less); no rail-optimised placement is assumed
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree); Megatron-LM
        rank order, megatron/core/parallel_state.py
    """


@alternative("communication_time", multi_site=False)
def one_site_communication_time(
    tensor_parallel_time,
    context_parallel_time,
    expert_parallel_time,
    pipeline_parallel_time,
    data_parallel_time,
    offload_time,
):
    """Communication of one step on one GPU, hidden or not.

    tensor + context + expert + pipeline + data + offload

    Returns: [s] communication of one step
    Source: sum of the exclusive parts; Narayanan et al. 2021 (SC21), section 3
    """
    layers = tensor_parallel_time + context_parallel_time + expert_parallel_time
    return layers + pipeline_parallel_time + data_parallel_time + offload_time


def exposed_layer_communication_time(
    exposed_tensor_parallel_time, exposed_context_parallel_time, exposed_expert_parallel_time
):
    """Communication inside the layers of one step that computing does not hide.

    exposed tensor + exposed context + exposed expert

    Returns: [s] exposed communication of one step
    Source: by definition of exposed communication; Wang et al. 2023 (ASPLOS), section 2
    """
    return (
        exposed_tensor_parallel_time + exposed_context_parallel_time + exposed_expert_parallel_time
    )


@alternative("exposed_communication_time", multi_site=False)
def one_site_exposed_communication_time(
    exposed_layer_communication_time,
    exposed_pipeline_parallel_time,
    exposed_data_parallel_time,
    offload_time,
    contention_time,
):
    """Communication of one step that computing does not hide.

    exposed in layers + exposed pipeline + exposed data + offload + contention

    Returns: [s] exposed communication of one step
    Source: by definition of exposed communication; Wang et al. 2023 (ASPLOS), section 2
    """
    exposed = exposed_layer_communication_time + exposed_pipeline_parallel_time
    return exposed + exposed_data_parallel_time + offload_time + contention_time
