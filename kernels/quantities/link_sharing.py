"""Links that several kinds of traffic share: how long each is busy, and what sharing adds."""

import numpy as np

from ..alternatives import alternative, renaming, same_as
from ..ops import where
from ..topology import busy_time


def tensor_fabric_time(
    tensor_parallel_time,
    saved_input_gather_time,
    tensor_parallel_exchange_time,
    tensor_parallel_gather_time,
    activation_message,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    tensor_rail_bandwidth,
):
    """Time of one step in which a GPU's rail carries tensor-parallel traffic.

    (2 exchanges + saved inputs gathered) x M (1 / g - 1 / n) / B_e, at most the traffic's time

    Returns: [s] time of one step
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    moved = activation_message * (1 / tensor_parallel_ranks_per_node - 1 / tensor_parallel)
    exchanges = tensor_parallel_time - saved_input_gather_time
    return busy_time(
        exchanges, tensor_parallel_exchange_time, 2 * moved, tensor_rail_bandwidth
    ) + busy_time(
        saved_input_gather_time, tensor_parallel_gather_time, moved, tensor_rail_bandwidth
    )


def tensor_node_time(
    tensor_parallel_time,
    saved_input_gather_time,
    tensor_parallel_exchange_time,
    tensor_parallel_gather_time,
    activation_message,
    tensor_parallel_ranks_per_node,
    intra_node_bandwidth,
):
    """Time of one step in which a GPU's link inside its node carries tensor-parallel traffic.

    (2 exchanges + saved inputs gathered) x M (1 - 1 / g) / B_i, at most the traffic's time

    Returns: [s] time of one step
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    moved = activation_message * (1 - 1 / tensor_parallel_ranks_per_node)
    exchanges = tensor_parallel_time - saved_input_gather_time
    return busy_time(
        exchanges, tensor_parallel_exchange_time, 2 * moved, intra_node_bandwidth
    ) + busy_time(saved_input_gather_time, tensor_parallel_gather_time, moved, intra_node_bandwidth)


@alternative("context_fabric_time", context_parallel_type="p2p")
def context_fabric_time(
    context_parallel_time,
    context_send_time,
    context_message,
    context_parallel,
    context_ranks_per_node,
    context_rail_bandwidth,
):
    """Time of one step in which a GPU's rail carries context-parallel traffic.

    exchanges x M / B_e where the ring leaves the node: the GPU whose next rank is elsewhere

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
    """Time of one step in which a GPU's link inside its node carries context-parallel traffic.

    exchanges x M / B_i: the GPU whose next rank is on its node

    Returns: [s] time of one step
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3
    """
    inside = where(context_ranks_per_node > 1, context_message, 0.0)
    return busy_time(context_parallel_time, context_send_time, inside, intra_node_bandwidth)


@alternative("expert_fabric_time", mixture_of_experts=False)
def no_expert_fabric_time():
    """Time of one step in which a GPU's rail carries expert-parallel traffic: none.

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
    """Time of one step in which a GPU's rail carries expert-parallel traffic.

    all-to-alls x bytes / B

    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks
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
    """Time of one step in which a GPU's rail carries sends between pipeline stages.

    sends x M / B_e where stages are on several nodes; gathers of parts are not counted

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
    pipeline_parallel,
    pipeline_ranks_per_node,
    intra_node_bandwidth,
):
    """Time of one step in which a GPU's link inside its node carries sends between pipeline stages.

    sends x M / B_i where all stages are on one node; gathers of parts are not counted

    Returns: [s] time of one step
    Source: Narayanan et al. 2021 (SC21), section 3.2
    """
    sent = where(pipeline_ranks_per_node >= pipeline_parallel, pipeline_message, 0.0)
    one = pipeline_send_time + pipeline_gather_time
    return busy_time(pipeline_parallel_time, one, sent, intra_node_bandwidth)


@alternative("data_fabric_share", mixture_of_experts=False)
def dense_data_fabric_share(data_parallel_ranks_per_node, gradient_ranks):
    """Bytes that a GPU sends on its rail for each that goes through its data-parallel group.

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
    routed experts, counted as if in a ring of all n ranks

    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    share = reduced_expert_parameters / reduced_parameters
    several = expert_gradient_ranks > 1
    own = 1 - 1 / where(several, expert_gradient_ranks, 2.0)
    routed = where(
        several,
        (1 / expert_gradient_ranks_per_node - 1 / expert_gradient_ranks)
        * (1 - 1 / gradient_ranks)
        / own,
        0.0,
    )
    return (1 - share) * (1 / data_parallel_ranks_per_node - 1 / gradient_ranks) + share * routed


@alternative("data_node_share", mixture_of_experts=False)
def dense_data_node_share(data_parallel_ranks_per_node):
    """Bytes that a GPU sends inside its node for each that goes through its data-parallel group.

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
    experts, counted as if in a ring of all n ranks

    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    share = reduced_expert_parameters / reduced_parameters
    several = expert_gradient_ranks > 1
    own = 1 - 1 / where(several, expert_gradient_ranks, 2.0)
    routed = where(
        several, (1 - 1 / expert_gradient_ranks_per_node) * (1 - 1 / gradient_ranks) / own, 0.0
    )
    return (1 - share) * (1 - 1 / data_parallel_ranks_per_node) + share * routed


@alternative("data_fabric_time", hybrid_sharding=False)
def whole_data_fabric_time(
    data_parallel_time, data_parallel_bytes, data_fabric_share, data_rail_bandwidth
):
    """Time of one step in which a GPU's rail carries data-parallel traffic.

    bytes x share / B, at most the traffic's time

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
    """bytes x share / B of a sharding group and of its replicas, at most the traffic's time"""
    group = data_parallel_bytes * data_fabric_share / data_rail_bandwidth
    replicas = replica_bytes * replica_fabric_share / replica_rail_bandwidth
    return np.minimum(data_parallel_time, group + replicas)


def replica_bytes(replica_reductions, gradient_buckets, replica_message):
    """Bytes that go between sharding groups in one step, each half of an all-reduce counted.

    2 x reductions x buckets x M

    Returns: [B] bytes
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.2
    """
    return 2 * replica_reductions * gradient_buckets * replica_message


def replica_fabric_share(replica_ranks_per_node, shard_replicas):
    """Bytes that a GPU sends on its rail for each that goes between sharding groups.

    1 / g - 1 / n

    Returns: [1] bytes over bytes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    return 1 / replica_ranks_per_node - 1 / shard_replicas


def replica_node_share(replica_ranks_per_node):
    """Bytes that a GPU sends inside its node for each that goes between sharding groups.

    1 - 1 / g

    Returns: [1] bytes over bytes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    return 1 - 1 / replica_ranks_per_node


def fabric_busy_time(
    tensor_fabric_time,
    context_fabric_time,
    expert_fabric_time,
    pipeline_fabric_time,
    data_fabric_time,
):
    """Time of one step in which a GPU's rail is busy: no step is shorter.

    tensor + context + expert + pipeline + data: bytes over bandwidth

    Returns: [s] time of one step
    Range: by bytes that every algorithm moves: a lower bound for flat rings and trees
    Source: Hockney 1994, Parallel Computing 20(3): bytes over bandwidth; latency occupies no link
    """
    layers = tensor_fabric_time + context_fabric_time + expert_fabric_time
    return layers + pipeline_fabric_time + data_fabric_time


_inside_a_node = renaming(
    __name__,
    {
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
    },
)

no_expert_node_time = _inside_a_node(no_expert_fabric_time)
routed_expert_node_time = _inside_a_node(routed_expert_fabric_time)
whole_data_node_time = _inside_a_node(whole_data_fabric_time)
node_network_busy_time = _inside_a_node(fabric_busy_time)


@alternative("data_node_time", hybrid_sharding=True)
def hybrid_data_node_time(
    data_parallel_time,
    data_parallel_bytes,
    data_node_share,
    replica_bytes,
    replica_node_share,
    intra_node_bandwidth,
):
    """(bytes x share of a sharding group + of its replicas) / B, at most the traffic's time"""
    moved = data_parallel_bytes * data_node_share + replica_bytes * replica_node_share
    return np.minimum(data_parallel_time, moved / intra_node_bandwidth)


@alternative("contention_time", link_sharing=False)
def no_contention_time():
    """Time that a step waits because hidden traffic shares links: not counted.

    0

    Returns: [s] time of one step
    Source: by definition
    """
    return 0.0


@alternative("contention_time", link_sharing=True)
def shared_contention_time(
    compute_time,
    regather_window,
    tensor_parallel_overlap,
    context_parallel_overlap,
    expert_overlap_share,
    data_parallel_overlap,
    weight_gather_overlap,
    gradient_window,
    weight_window,
    exposed_layer_communication_time,
    exposed_data_parallel_time,
    awaited_pipeline_time,
    exposed_pipeline_parallel_time,
    straggler_time,
    bubble_time,
    node_network_busy_time,
    fabric_busy_time,
    pipeline_node_time,
    pipeline_fabric_time,
):
    """Time that a step waits because hidden traffic shares links.

    max over both tiers of max(0, busy - window - waits): a link carries layers' and data's traffic
    behind the largest window, at most compute, and while the step waits for any of it; and all
    traffic, sends between stages included, in the whole step

    Range: exact where all overlaps are 1, for two kinds of traffic on one link, and for any number
        with one overlap; else a lower bound, as if a link could use every wait; an upper bound
        where kinds hide behind different parts of compute
    Source: by definition: a link carries one byte at a time; Wang et al. 2023 (ASPLOS), section 2
    """
    waits = exposed_layer_communication_time + exposed_data_parallel_time
    tensor = tensor_parallel_overlap * np.maximum(0.0, compute_time - regather_window)
    layers = np.maximum(context_parallel_overlap, expert_overlap_share) * compute_time
    share = compute_time / (compute_time + exposed_layer_communication_time)  # of data's window
    data = data_parallel_overlap * (gradient_window + weight_window)
    data = (data + (weight_gather_overlap - data_parallel_overlap) * weight_window) * share
    window = np.maximum(np.maximum(regather_window + tensor, layers), data)
    node = node_network_busy_time - pipeline_node_time
    fabric = fabric_busy_time - pipeline_fabric_time
    late = np.maximum(node, fabric) - (np.minimum(compute_time, window) + waits)
    late = late + (awaited_pipeline_time - exposed_pipeline_parallel_time)
    step = compute_time + straggler_time + bubble_time + waits + exposed_pipeline_parallel_time
    sends = np.maximum(node_network_busy_time, fabric_busy_time) - step
    return np.maximum(0.0, np.maximum(late, sends))
