"""Links that several kinds of traffic share: how long each is busy, and what sharing adds."""

from typing import Any

import numpy as np

from ..alternatives import alternative, renaming, same_as
from ..ops import where
from ..topology import busy_time


def tensor_fabric_time(
    tensor_parallel_time: Any,
    saved_input_gather_time: Any,
    tensor_parallel_exchange_time: Any,
    tensor_parallel_gather_time: Any,
    activation_message: Any,
    tensor_parallel: Any,
    tensor_parallel_ranks_per_node: Any,
    tensor_rail_bandwidth: Any,
) -> Any:
    """Time of one step in which a GPU's rail carries tensor-parallel traffic.

    (2 exchanges + saved inputs gathered) x M (1 / g - 1 / n) / B_e, at most the traffic's time

    Parameters: tensor_parallel_time [s], saved_input_gather_time [s],
        tensor_parallel_exchange_time [s], tensor_parallel_gather_time [s],
        activation_message [B], tensor_parallel [1], tensor_parallel_ranks_per_node [1],
        tensor_rail_bandwidth [B/s]
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
    tensor_parallel_time: Any,
    saved_input_gather_time: Any,
    tensor_parallel_exchange_time: Any,
    tensor_parallel_gather_time: Any,
    activation_message: Any,
    tensor_parallel_ranks_per_node: Any,
    intra_node_bandwidth: Any,
) -> Any:
    """Time of one step in which a GPU's link inside its node carries tensor-parallel traffic.

    (2 exchanges + saved inputs gathered) x M (1 - 1 / g) / B_i, at most the traffic's time

    Parameters: tensor_parallel_time [s], saved_input_gather_time [s],
        tensor_parallel_exchange_time [s], tensor_parallel_gather_time [s],
        activation_message [B], tensor_parallel_ranks_per_node [1], intra_node_bandwidth [B/s]
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
    context_parallel_time: Any,
    context_send_time: Any,
    context_message: Any,
    context_parallel: Any,
    context_ranks_per_node: Any,
    context_rail_bandwidth: Any,
) -> Any:
    """Time of one step in which a GPU's rail carries context-parallel traffic.

    exchanges x M / B_e where the ring leaves the node: the GPU whose next rank is elsewhere

    Parameters: context_parallel_time [s], context_send_time [s], context_message [B],
        context_parallel [1], context_ranks_per_node [1], context_rail_bandwidth [B/s]
    Returns: [s] time of one step
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3
    """
    across = where(context_ranks_per_node < context_parallel, context_message, 0.0)
    return busy_time(context_parallel_time, context_send_time, across, context_rail_bandwidth)


@alternative("context_node_time", context_parallel_type="p2p")
def context_node_time(
    context_parallel_time: Any,
    context_send_time: Any,
    context_message: Any,
    context_ranks_per_node: Any,
    intra_node_bandwidth: Any,
) -> Any:
    """Time of one step in which a GPU's link inside its node carries context-parallel traffic.

    exchanges x M / B_i: the GPU whose next rank is on its node

    Parameters: context_parallel_time [s], context_send_time [s], context_message [B],
        context_ranks_per_node [1], intra_node_bandwidth [B/s]
    Returns: [s] time of one step
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3
    """
    inside = where(context_ranks_per_node > 1, context_message, 0.0)
    return busy_time(context_parallel_time, context_send_time, inside, intra_node_bandwidth)


@alternative("expert_fabric_time", mixture_of_experts=False)
def no_expert_fabric_time() -> Any:
    """Time of one step in which a GPU's rail carries expert-parallel traffic: none.

    0

    Parameters: none
    Returns: [s] time of one step
    Source: by definition
    """
    return 0.0


@alternative("expert_fabric_time", mixture_of_experts=True)
@same_as(busy_time)
def routed_expert_fabric_time(*operands: Any) -> Any:
    """Time of one step in which a GPU's rail carries expert-parallel traffic.

    all-to-alls x bytes / B

    Parameters: expert_parallel_time [s], expert_all_to_all_time [s], expert_fabric_bytes [B],
        expert_rail_bandwidth [B/s]
    Returns: [s] time of one step
    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks
    """


def pipeline_fabric_time(
    pipeline_parallel_time: Any,
    pipeline_send_time: Any,
    pipeline_gather_time: Any,
    pipeline_message: Any,
    pipeline_parallel: Any,
    pipeline_ranks_per_node: Any,
    pipeline_rail_bandwidth: Any,
) -> Any:
    """Time of one step in which a GPU's rail carries sends between pipeline stages.

    sends x M / B_e where stages are on several nodes; gathers of parts are not counted

    Parameters: pipeline_parallel_time [s], pipeline_send_time [s], pipeline_gather_time [s],
        pipeline_message [B], pipeline_parallel [1], pipeline_ranks_per_node [1],
        pipeline_rail_bandwidth [B/s]
    Returns: [s] time of one step
    Source: Narayanan et al. 2021 (SC21), section 3.2
    """
    sent = where(pipeline_ranks_per_node < pipeline_parallel, pipeline_message, 0.0)
    one = pipeline_send_time + pipeline_gather_time
    return busy_time(pipeline_parallel_time, one, sent, pipeline_rail_bandwidth)


def pipeline_node_time(
    pipeline_parallel_time: Any,
    pipeline_send_time: Any,
    pipeline_gather_time: Any,
    pipeline_message: Any,
    pipeline_parallel: Any,
    pipeline_ranks_per_node: Any,
    intra_node_bandwidth: Any,
) -> Any:
    """Time of one step in which a GPU's link inside its node carries sends between pipeline stages.

    sends x M / B_i where all stages are on one node; gathers of parts are not counted

    Parameters: pipeline_parallel_time [s], pipeline_send_time [s], pipeline_gather_time [s],
        pipeline_message [B], pipeline_parallel [1], pipeline_ranks_per_node [1],
        intra_node_bandwidth [B/s]
    Returns: [s] time of one step
    Source: Narayanan et al. 2021 (SC21), section 3.2
    """
    sent = where(pipeline_ranks_per_node >= pipeline_parallel, pipeline_message, 0.0)
    one = pipeline_send_time + pipeline_gather_time
    return busy_time(pipeline_parallel_time, one, sent, intra_node_bandwidth)


@alternative("data_fabric_share", mixture_of_experts=False)
def dense_data_fabric_share(data_parallel_ranks_per_node: Any, gradient_ranks: Any) -> Any:
    """Bytes that a GPU sends on its rail for each that goes through its data-parallel group.

    1 / g - 1 / n

    Parameters: data_parallel_ranks_per_node [1], gradient_ranks [1]
    Returns: [1] bytes over bytes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    return 1 / data_parallel_ranks_per_node - 1 / gradient_ranks


@alternative("data_fabric_share", mixture_of_experts=True)
def expert_data_fabric_share(
    data_parallel_ranks_per_node: Any,
    gradient_ranks: Any,
    expert_gradient_ranks: Any,
    expert_gradient_ranks_per_node: Any,
    reduced_parameters: Any,
    reduced_expert_parameters: Any,
) -> Any:
    """Bytes that a GPU sends on its rail for each that goes through its data-parallel group.

    (1 - x) (1 / g - 1 / n) + x (1 / g_e - 1 / n_e) (1 - 1 / n) / (1 - 1 / n_e), x the share of
    routed experts, counted as if in a ring of all n ranks

    Parameters: data_parallel_ranks_per_node [1], gradient_ranks [1], expert_gradient_ranks [1],
        expert_gradient_ranks_per_node [1], reduced_parameters [1], reduced_expert_parameters [1]
    Returns: [1] bytes over bytes
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
def dense_data_node_share(data_parallel_ranks_per_node: Any) -> Any:
    """Bytes that a GPU sends inside its node for each that goes through its data-parallel group.

    1 - 1 / g

    Parameters: data_parallel_ranks_per_node [1]
    Returns: [1] bytes over bytes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    return 1 - 1 / data_parallel_ranks_per_node


@alternative("data_node_share", mixture_of_experts=True)
def expert_data_node_share(
    data_parallel_ranks_per_node: Any,
    gradient_ranks: Any,
    expert_gradient_ranks: Any,
    expert_gradient_ranks_per_node: Any,
    reduced_parameters: Any,
    reduced_expert_parameters: Any,
) -> Any:
    """Bytes that a GPU sends inside its node for each that goes through its data-parallel group.

    (1 - x) (1 - 1 / g) + x (1 - 1 / g_e) (1 - 1 / n) / (1 - 1 / n_e), x the share of routed
    experts, counted as if in a ring of all n ranks

    Parameters: data_parallel_ranks_per_node [1], gradient_ranks [1], expert_gradient_ranks [1],
        expert_gradient_ranks_per_node [1], reduced_parameters [1], reduced_expert_parameters [1]
    Returns: [1] bytes over bytes
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
    data_parallel_time: Any,
    data_parallel_bytes: Any,
    data_fabric_share: Any,
    data_rail_bandwidth: Any,
) -> Any:
    """Time of one step in which a GPU's rail carries data-parallel traffic.

    bytes x share / B, at most the traffic's time

    Parameters: data_parallel_time [s], data_parallel_bytes [B], data_fabric_share [1],
        data_rail_bandwidth [B/s]
    Returns: [s] time of one step
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    return np.minimum(
        data_parallel_time, data_parallel_bytes * data_fabric_share / data_rail_bandwidth
    )


@alternative("data_fabric_time", hybrid_sharding=True)
def hybrid_data_fabric_time(
    data_parallel_time: Any,
    data_parallel_bytes: Any,
    data_fabric_share: Any,
    data_rail_bandwidth: Any,
    replica_bytes: Any,
    replica_fabric_share: Any,
    replica_rail_bandwidth: Any,
) -> Any:
    """Time of one step in which a GPU's rail carries data-parallel traffic.

    bytes x share / B of a sharding group and of its replicas, at most the traffic's time

    Parameters: data_parallel_time [s], data_parallel_bytes [B], data_fabric_share [1],
        data_rail_bandwidth [B/s], replica_bytes [B], replica_fabric_share [1],
        replica_rail_bandwidth [B/s]
    Returns: [s] time of one step
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    group = data_parallel_bytes * data_fabric_share / data_rail_bandwidth
    replicas = replica_bytes * replica_fabric_share / replica_rail_bandwidth
    return np.minimum(data_parallel_time, group + replicas)


def replica_bytes(replica_reductions: Any, gradient_buckets: Any, replica_message: Any) -> Any:
    """Bytes that go between sharding groups in one step, each half of an all-reduce counted.

    2 x reductions x buckets x M

    Parameters: replica_reductions [1], gradient_buckets [1], replica_message [B]
    Returns: [B] bytes
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.2
    """
    return 2 * replica_reductions * gradient_buckets * replica_message


def replica_fabric_share(replica_ranks_per_node: Any, shard_replicas: Any) -> Any:
    """Bytes that a GPU sends on its rail for each that goes between sharding groups.

    1 / g - 1 / n

    Parameters: replica_ranks_per_node [1], shard_replicas [1]
    Returns: [1] bytes over bytes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    return 1 / replica_ranks_per_node - 1 / shard_replicas


def replica_node_share(replica_ranks_per_node: Any) -> Any:
    """Bytes that a GPU sends inside its node for each that goes between sharding groups.

    1 - 1 / g

    Parameters: replica_ranks_per_node [1]
    Returns: [1] bytes over bytes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    return 1 - 1 / replica_ranks_per_node


def fabric_busy_time(
    tensor_fabric_time: Any,
    context_fabric_time: Any,
    expert_fabric_time: Any,
    pipeline_fabric_time: Any,
    data_fabric_time: Any,
) -> Any:
    """Time of one step in which a GPU's rail is busy: no step is shorter.

    tensor + context + expert + pipeline + data: bytes over bandwidth

    Parameters: tensor_fabric_time [s], context_fabric_time [s], expert_fabric_time [s],
        pipeline_fabric_time [s], data_fabric_time [s]
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
    data_parallel_time: Any,
    data_parallel_bytes: Any,
    data_node_share: Any,
    replica_bytes: Any,
    replica_node_share: Any,
    intra_node_bandwidth: Any,
) -> Any:
    """Time of one step in which a GPU's link inside its node carries data-parallel traffic.

    (bytes x share of a sharding group + of its replicas) / B, at most the traffic's time

    Parameters: data_parallel_time [s], data_parallel_bytes [B], data_node_share [1],
        replica_bytes [B], replica_node_share [1], intra_node_bandwidth [B/s]
    Returns: [s] time of one step
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (what each level moves)
    """
    moved = data_parallel_bytes * data_node_share + replica_bytes * replica_node_share
    return np.minimum(data_parallel_time, moved / intra_node_bandwidth)


@alternative("contention_time", link_sharing=False)
def no_contention_time() -> Any:
    """Time that a step waits because hidden traffic shares links: not counted.

    0

    Parameters: none
    Returns: [s] time of one step
    Source: by definition
    """
    return 0.0


@alternative("contention_time", link_sharing=True)
def shared_contention_time(
    compute_time: Any,
    regather_window: Any,
    tensor_parallel_overlap: Any,
    context_parallel_overlap: Any,
    expert_overlap_share: Any,
    data_parallel_overlap: Any,
    weight_gather_overlap: Any,
    gradient_window: Any,
    weight_window: Any,
    exposed_layer_communication_time: Any,
    exposed_data_parallel_time: Any,
    awaited_pipeline_time: Any,
    exposed_pipeline_parallel_time: Any,
    straggler_time: Any,
    bubble_time: Any,
    node_network_busy_time: Any,
    fabric_busy_time: Any,
    pipeline_node_time: Any,
    pipeline_fabric_time: Any,
) -> Any:
    """Time that a step waits because hidden traffic shares links.

    max over both tiers of max(0, busy - window - waits): a link carries layers' and data's traffic
    behind the largest window, at most compute, and while the step waits for any of it; and all
    traffic, sends between stages included, in the whole step

    Parameters: compute_time [s], regather_window [s], tensor_parallel_overlap [1],
        context_parallel_overlap [1], expert_overlap_share [1], data_parallel_overlap [1],
        weight_gather_overlap [1], gradient_window [s], weight_window [s],
        exposed_layer_communication_time [s], exposed_data_parallel_time [s],
        awaited_pipeline_time [s],
        exposed_pipeline_parallel_time [s], straggler_time [s], bubble_time [s],
        node_network_busy_time [s], fabric_busy_time [s], pipeline_node_time [s],
        pipeline_fabric_time [s]
    Returns: [s] time of one step
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
