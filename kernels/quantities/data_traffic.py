"""Traffic of data parallelism: gradients, and the weights that ZeRO shards."""

from typing import Any

import numpy as np

from ..alternatives import alternative
from ..collectives import (
    all_gather_time,
    auto_all_reduce_time,
    double_binary_tree_all_reduce_time,
    hierarchical_all_reduce_time,
    reduce_scatter_time,
    ring_all_reduce_time,
    tree_all_reduce_time,
)
from ..topology import flat_bandwidth, flat_latency, group_ranks_per_node


def data_parallel_ranks_per_node(
    gpus_per_node: Any, data_parallel: Any, tensor_parallel: Any, context_parallel: Any
) -> Any:
    """Ranks of one data-parallel group on each node.

    clip(gpus per node / (t c), 1, group size)

    Parameters: gpus_per_node [1], data_parallel [1], tensor_parallel [1], context_parallel [1]
    Returns: [1] ranks on one node
    Source: Megatron-LM rank order (Narayanan et al. 2021, section 3)
    """
    return group_ranks_per_node(gpus_per_node, tensor_parallel * context_parallel, data_parallel)


def data_parallel_bandwidth(
    data_parallel: Any,
    data_parallel_ranks_per_node: Any,
    intra_node_bandwidth: Any,
    rail_bandwidth: Any,
) -> Any:
    """Bandwidth of one rank of a data-parallel group in a flat algorithm.

    intra-node in one node, else min(intra-node, ranks on the node x rail)

    Parameters: data_parallel [1], data_parallel_ranks_per_node [1], intra_node_bandwidth [B/s],
        rail_bandwidth [B/s]
    Returns: [B/s] bandwidth per rank
    Source: NCCL 2.30, channels over several NICs
    """
    return flat_bandwidth(
        data_parallel, data_parallel_ranks_per_node, intra_node_bandwidth, rail_bandwidth
    )


def data_parallel_latency(
    data_parallel: Any,
    data_parallel_ranks_per_node: Any,
    intra_node_latency: Any,
    inter_node_latency: Any,
) -> Any:
    """Latency of one hop of a data-parallel group in a flat algorithm.

    intra-node in one node, else inter-node

    Parameters: data_parallel [1], data_parallel_ranks_per_node [1], intra_node_latency [s],
        inter_node_latency [s]
    Returns: [s] latency of one hop
    Source: Hockney 1994, Parallel Computing 20(3); a ring steps at its slowest link
    """
    return flat_latency(
        data_parallel, data_parallel_ranks_per_node, intra_node_latency, inter_node_latency
    )


def gradient_message(
    parameters: Any,
    tensor_parallel: Any,
    pipeline_parallel: Any,
    gradient_bytes_per_element: Any,
) -> Any:
    """Bytes of the gradients of one rank's shard of the model.

    N / (t p) x bytes

    Parameters: parameters [1], tensor_parallel [1], pipeline_parallel [1],
        gradient_bytes_per_element [B]
    Returns: [B] message
    Source: Narayanan et al. 2021 (SC21), section 3.3
    Example:
        >>> gradient_message(1e12, 8, 16, 2) / 1e9
        15.625
    """
    return parameters / (tensor_parallel * pipeline_parallel) * gradient_bytes_per_element


def weight_message(
    parameters: Any, tensor_parallel: Any, pipeline_parallel: Any, bytes_per_element: Any
) -> Any:
    """Bytes of the weights of one rank's shard of the model.

    N / (t p) x bytes

    Parameters: parameters [1], tensor_parallel [1], pipeline_parallel [1], bytes_per_element [B]
    Returns: [B] message
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 7
    """
    return parameters / (tensor_parallel * pipeline_parallel) * bytes_per_element


@alternative("data_parallel_all_reduce_time", all_reduce="ring")
def ring_data_parallel_all_reduce_time(
    gradient_message: Any,
    data_parallel: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: a ring.

    2 (n - 1) (a + M / (n B))

    Parameters: gradient_message [B], data_parallel [1], data_parallel_latency [s],
        data_parallel_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Patarasuk & Yuan 2009, JPDC 69(2)
    """
    return ring_all_reduce_time(
        gradient_message, data_parallel, data_parallel_latency, data_parallel_bandwidth
    )


@alternative("data_parallel_all_reduce_time", all_reduce="tree")
def tree_data_parallel_all_reduce_time(
    gradient_message: Any,
    data_parallel: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: one tree.

    2 ceil(log2 n) (a + M / B)

    Parameters: gradient_message [B], data_parallel [1], data_parallel_latency [s],
        data_parallel_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Thakur et al. 2005, IJHPCA 19(1)
    """
    return tree_all_reduce_time(
        gradient_message, data_parallel, data_parallel_latency, data_parallel_bandwidth
    )


@alternative("data_parallel_all_reduce_time", all_reduce="double_binary_tree")
def double_binary_tree_data_parallel_all_reduce_time(
    gradient_message: Any,
    data_parallel: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: two trees.

    2 ceil(log2 n) a + 2 M / B

    Parameters: gradient_message [B], data_parallel [1], data_parallel_latency [s],
        data_parallel_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Sanders et al. 2009, Parallel Computing 35(12)
    """
    return double_binary_tree_all_reduce_time(
        gradient_message, data_parallel, data_parallel_latency, data_parallel_bandwidth
    )


@alternative("data_parallel_all_reduce_time", all_reduce=("hierarchical", "recursive_halving_doubling", "in_network", "fitted"))
def hierarchical_data_parallel_all_reduce_time(
    gradient_message: Any,
    data_parallel: Any,
    data_parallel_ranks_per_node: Any,
    intra_node_latency: Any,
    intra_node_bandwidth: Any,
    inter_node_latency: Any,
    rail_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: in each node, then between nodes.

    2 (g - 1) (a_i + M / (g B_i)) + 2 (k - 1) (a_e + M / (g k B_e))

    Parameters: gradient_message [B], data_parallel [1],
        data_parallel_ranks_per_node [1], intra_node_latency [s], intra_node_bandwidth [B/s],
        inter_node_latency [s], rail_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    return hierarchical_all_reduce_time(
        gradient_message,
        data_parallel / data_parallel_ranks_per_node,
        data_parallel_ranks_per_node,
        intra_node_latency,
        intra_node_bandwidth,
        inter_node_latency,
        rail_bandwidth,
    )


@alternative("data_parallel_all_reduce_time", all_reduce="auto")
def auto_data_parallel_all_reduce_time(
    gradient_message: Any,
    data_parallel: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
    data_parallel_ranks_per_node: Any,
    intra_node_latency: Any,
    intra_node_bandwidth: Any,
    inter_node_latency: Any,
    rail_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: the cheapest that a library would offer.

    min(ring, double binary tree, hierarchical)

    Parameters: gradient_message [B], data_parallel [1], data_parallel_latency [s],
        data_parallel_bandwidth [B/s], data_parallel_ranks_per_node [1], intra_node_latency [s],
        intra_node_bandwidth [B/s], inter_node_latency [s], rail_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time
    """
    return auto_all_reduce_time(
        gradient_message,
        data_parallel,
        data_parallel_latency,
        data_parallel_bandwidth,
        data_parallel_ranks_per_node,
        intra_node_latency,
        intra_node_bandwidth,
        inter_node_latency,
        rail_bandwidth,
    )


def gradient_reduce_scatter_time(
    gradient_message: Any,
    data_parallel: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
) -> Any:
    """Time to reduce the gradients and leave each data-parallel rank its share.

    (d - 1) (a + M / (d B))

    Parameters: gradient_message [B], data_parallel [1], data_parallel_latency [s],
        data_parallel_bandwidth [B/s]
    Returns: [s] time of one reduce-scatter
    Source: Rajbhandari et al. 2020 (ZeRO), section 7
    """
    return reduce_scatter_time(
        gradient_message, data_parallel, data_parallel_latency, data_parallel_bandwidth
    )


def weight_all_gather_time(
    weight_message: Any,
    data_parallel: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
) -> Any:
    """Time to gather the weights from the data-parallel ranks that hold them.

    (d - 1) (a + M / (d B))

    Parameters: weight_message [B], data_parallel [1], data_parallel_latency [s],
        data_parallel_bandwidth [B/s]
    Returns: [s] time of one all-gather
    Source: Rajbhandari et al. 2020 (ZeRO), section 7
    """
    return all_gather_time(
        weight_message, data_parallel, data_parallel_latency, data_parallel_bandwidth
    )


@alternative("data_parallel_time", zero_stage=(0, 1))
def replicated_data_parallel_time(data_parallel_all_reduce_time: Any) -> Any:
    """Time of one step's gradient traffic: one all-reduce, or its two halves around the update.

    t, once per step whatever the number of micro-batches

    Parameters: data_parallel_all_reduce_time [s]
    Returns: [s] data-parallel traffic of one step
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.1
    """
    return 1.0 * data_parallel_all_reduce_time


@alternative("data_parallel_time", zero_stage=2)
def sharded_gradient_data_parallel_time(
    num_microbatches: Any, gradient_reduce_scatter_time: Any, weight_all_gather_time: Any
) -> Any:
    """Time of one step's traffic when gradients are sharded as they appear.

    m x reduce-scatter + all-gather

    Parameters: num_microbatches [1], gradient_reduce_scatter_time [s], weight_all_gather_time [s]
    Returns: [s] data-parallel traffic of one step
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.1
    """
    return num_microbatches * gradient_reduce_scatter_time + weight_all_gather_time


@alternative("data_parallel_time", zero_stage=3)
def sharded_weight_data_parallel_time(
    num_microbatches: Any, gradient_reduce_scatter_time: Any, weight_all_gather_time: Any
) -> Any:
    """Time of one step's traffic when weights are gathered where they are used.

    m x (2 all-gathers + reduce-scatter)

    Parameters: num_microbatches [1], gradient_reduce_scatter_time [s], weight_all_gather_time [s]
    Returns: [s] data-parallel traffic of one step
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.2.2
    """
    return num_microbatches * (gradient_reduce_scatter_time + 2 * weight_all_gather_time)


def exposed_data_parallel_time(
    data_parallel_time: Any, data_parallel_overlap: Any, gradient_window: Any
) -> Any:
    """Time that a step waits for data-parallel traffic.

    max(0, traffic - overlap x window)

    Parameters: data_parallel_time [s], data_parallel_overlap [1], gradient_window [s]
    Returns: [s] exposed traffic of one step
    Source: Li et al. 2020 (PyTorch DDP), VLDB 13(12), section 3.2.3
    """
    return np.maximum(0.0, data_parallel_time - data_parallel_overlap * gradient_window)
