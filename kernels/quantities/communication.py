"""Traffic of tensor, pipeline and data parallelism, on the tier that each group rides."""

from typing import Any

import numpy as np

from ..alternatives import alternative
from ..collectives import (
    all_gather_time,
    auto_all_reduce_time,
    double_binary_tree_all_reduce_time,
    hierarchical_all_reduce_time,
    point_to_point_time,
    reduce_scatter_time,
    ring_all_reduce_time,
    tree_all_reduce_time,
)
from ..ops import where
from ..topology import flat_bandwidth, flat_latency, group_ranks_per_node


def rail_bandwidth(inter_node_bandwidth: Any, oversubscription: Any) -> Any:
    """Bandwidth between nodes that one GPU can count on, per direction.

    B / oversubscription

    Parameters: inter_node_bandwidth [B/s], oversubscription [1]
    Returns: [B/s] bandwidth of one rail under load
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree)
    """
    return inter_node_bandwidth / oversubscription


def activation_message(
    micro_batch_size: Any,
    sequence_length: Any,
    context_parallel: Any,
    hidden_size: Any,
    bytes_per_element: Any,
) -> Any:
    """Bytes of one layer's activation of one micro-batch: what tensor-parallel ranks reduce.

    (s / c) b h e

    Parameters: micro_batch_size [1], sequence_length [1], context_parallel [1], hidden_size [1],
        bytes_per_element [B]
    Returns: [B] message
    Source: Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3
    """
    tokens = micro_batch_size * sequence_length / context_parallel
    return tokens * hidden_size * bytes_per_element


def tensor_parallel_ranks_per_node(gpus_per_node: Any, tensor_parallel: Any) -> Any:
    """Ranks of one tensor-parallel group on each node.

    clip(gpus per node, 1, group size)

    Parameters: gpus_per_node [1], tensor_parallel [1]
    Returns: [1] ranks on one node
    Source: Megatron-LM rank order (Narayanan et al. 2021, section 3)
    """
    return group_ranks_per_node(gpus_per_node, 1.0, tensor_parallel)


def tensor_parallel_bandwidth(
    tensor_parallel: Any, tensor_parallel_ranks_per_node: Any, intra_node_bandwidth: Any, rail_bandwidth: Any
) -> Any:
    """Bandwidth of one rank of a tensor-parallel group in a flat algorithm.

    intra-node in one node, else min(intra-node, ranks on the node x rail)

    Parameters: tensor_parallel [1], tensor_parallel_ranks_per_node [1], intra_node_bandwidth [B/s],
        rail_bandwidth [B/s]
    Returns: [B/s] bandwidth per rank
    Source: NCCL channels over several NICs; see topology.flat_bandwidth
    """
    return flat_bandwidth(tensor_parallel, tensor_parallel_ranks_per_node, intra_node_bandwidth, rail_bandwidth)


def tensor_parallel_latency(
    tensor_parallel: Any, tensor_parallel_ranks_per_node: Any, intra_node_latency: Any, inter_node_latency: Any
) -> Any:
    """Latency of one hop of a tensor-parallel group in a flat algorithm.

    intra-node in one node, else inter-node

    Parameters: tensor_parallel [1], tensor_parallel_ranks_per_node [1], intra_node_latency [s],
        inter_node_latency [s]
    Returns: [s] latency of one hop
    Source: a ring steps at its slowest link; see topology.flat_latency
    """
    return flat_latency(tensor_parallel, tensor_parallel_ranks_per_node, intra_node_latency, inter_node_latency)


@alternative("tensor_parallel_all_reduce_time", all_reduce="ring")
def ring_tensor_parallel_all_reduce_time(
    activation_message: Any, tensor_parallel: Any, tensor_parallel_latency: Any, tensor_parallel_bandwidth: Any
) -> Any:
    """Time of one all-reduce in a tensor-parallel group: a ring.

    2 (n - 1) (a + M / (n B))

    Parameters: activation_message [B], tensor_parallel [1], tensor_parallel_latency [s],
        tensor_parallel_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Patarasuk & Yuan 2009, JPDC 69(2)
    """
    return ring_all_reduce_time(
        activation_message, tensor_parallel, tensor_parallel_latency, tensor_parallel_bandwidth
    )


@alternative("tensor_parallel_all_reduce_time", all_reduce="tree")
def tree_tensor_parallel_all_reduce_time(
    activation_message: Any, tensor_parallel: Any, tensor_parallel_latency: Any, tensor_parallel_bandwidth: Any
) -> Any:
    """Time of one all-reduce in a tensor-parallel group: one tree.

    2 ceil(log2 n) (a + M / B)

    Parameters: activation_message [B], tensor_parallel [1], tensor_parallel_latency [s],
        tensor_parallel_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Thakur et al. 2005, IJHPCA 19(1)
    """
    return tree_all_reduce_time(
        activation_message, tensor_parallel, tensor_parallel_latency, tensor_parallel_bandwidth
    )


@alternative("tensor_parallel_all_reduce_time", all_reduce="double_binary_tree")
def double_binary_tree_tensor_parallel_all_reduce_time(
    activation_message: Any, tensor_parallel: Any, tensor_parallel_latency: Any, tensor_parallel_bandwidth: Any
) -> Any:
    """Time of one all-reduce in a tensor-parallel group: two trees.

    2 ceil(log2 n) a + 2 M / B

    Parameters: activation_message [B], tensor_parallel [1], tensor_parallel_latency [s],
        tensor_parallel_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Sanders et al. 2009, Parallel Computing 35(12)
    """
    return double_binary_tree_all_reduce_time(
        activation_message, tensor_parallel, tensor_parallel_latency, tensor_parallel_bandwidth
    )


@alternative("tensor_parallel_all_reduce_time", all_reduce="hierarchical")
def hierarchical_tensor_parallel_all_reduce_time(
    activation_message: Any,
    tensor_parallel: Any,
    tensor_parallel_ranks_per_node: Any,
    intra_node_latency: Any,
    intra_node_bandwidth: Any,
    inter_node_latency: Any,
    rail_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a tensor-parallel group: in each node, then between nodes.

    2 (g - 1) (a_i + M / (g B_i)) + 2 (k - 1) (a_e + M / (g k B_e))

    Parameters: activation_message [B], tensor_parallel [1],
        tensor_parallel_ranks_per_node [1], intra_node_latency [s], intra_node_bandwidth [B/s],
        inter_node_latency [s], rail_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    return hierarchical_all_reduce_time(
        activation_message,
        tensor_parallel / tensor_parallel_ranks_per_node,
        tensor_parallel_ranks_per_node,
        intra_node_latency,
        intra_node_bandwidth,
        inter_node_latency,
        rail_bandwidth,
    )


@alternative("tensor_parallel_all_reduce_time", all_reduce="auto")
def auto_tensor_parallel_all_reduce_time(
    activation_message: Any,
    tensor_parallel: Any,
    tensor_parallel_latency: Any,
    tensor_parallel_bandwidth: Any,
    tensor_parallel_ranks_per_node: Any,
    intra_node_latency: Any,
    intra_node_bandwidth: Any,
    inter_node_latency: Any,
    rail_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a tensor-parallel group: the cheapest that a library would offer.

    min(ring, double binary tree, hierarchical)

    Parameters: activation_message [B], tensor_parallel [1], tensor_parallel_latency [s],
        tensor_parallel_bandwidth [B/s], tensor_parallel_ranks_per_node [1], intra_node_latency [s],
        intra_node_bandwidth [B/s], inter_node_latency [s], rail_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time
    """
    return auto_all_reduce_time(
        activation_message,
        tensor_parallel,
        tensor_parallel_latency,
        tensor_parallel_bandwidth,
        tensor_parallel_ranks_per_node,
        intra_node_latency,
        intra_node_bandwidth,
        inter_node_latency,
        rail_bandwidth,
    )


@alternative("tensor_parallel_all_reduces_per_layer", recompute="none")
def none_recompute_all_reduces_per_layer() -> Any:
    """All-reduces of each layer and micro-batch: two forward, two backward.

    4

    Parameters: none
    Returns: [1] all-reduces
    Source: Shoeybi et al. 2019, section 3; Narayanan et al. 2021 (SC21), section 3.2
    """
    return 4.0


@alternative("tensor_parallel_all_reduces_per_layer", recompute="selective")
def selective_recompute_all_reduces_per_layer() -> Any:
    """All-reduces of each layer and micro-batch: two forward, two backward; attention needs none.

    4

    Parameters: none
    Returns: [1] all-reduces
    Source: Shoeybi et al. 2019, section 3; Narayanan et al. 2021 (SC21), section 3.2
    """
    return 4.0


@alternative("tensor_parallel_all_reduces_per_layer", recompute="full")
def full_recompute_all_reduces_per_layer() -> Any:
    """All-reduces of each layer and micro-batch: two forward, two backward, two when the forward pass is repeated.

    6

    Parameters: none
    Returns: [1] all-reduces
    Source: Shoeybi et al. 2019, section 3; Narayanan et al. 2021 (SC21), section 3.2
    """
    return 6.0


def tensor_parallel_time(
    tensor_parallel_all_reduces_per_layer: Any,
    layers: Any,
    pipeline_parallel: Any,
    num_microbatches: Any,
    tensor_parallel_all_reduce_time: Any,
) -> Any:
    """Time of one step's tensor-parallel traffic on each stage.

    all-reduces per layer x l / p x m x t; with sequence parallelism the same bytes travel as
    reduce-scatter and all-gather

    Parameters: tensor_parallel_all_reduces_per_layer [1], layers [1], pipeline_parallel [1],
        num_microbatches [1], tensor_parallel_all_reduce_time [s]
    Returns: [s] tensor-parallel traffic of one step
    Source: Narayanan et al. 2021 (SC21), section 3.2; Korthikanti et al. 2022, section 4.2.2
    """
    per_microbatch = tensor_parallel_all_reduces_per_layer * layers / pipeline_parallel
    return per_microbatch * num_microbatches * tensor_parallel_all_reduce_time


def exposed_tensor_parallel_time(
    tensor_parallel_time: Any, tensor_parallel_overlap: Any, compute_time: Any
) -> Any:
    """Time that a step waits for tensor-parallel traffic.

    max(0, traffic - overlap x compute)

    Parameters: tensor_parallel_time [s], tensor_parallel_overlap [1], compute_time [s]
    Returns: [s] exposed traffic of one step
    Source: by definition of exposed communication; Wang et al. 2023 (ASPLOS), section 2
    """
    return np.maximum(0.0, tensor_parallel_time - tensor_parallel_overlap * compute_time)


@alternative("pipeline_message", sequence_parallel=False)
def whole_pipeline_message(activation_message: Any) -> Any:
    """Bytes that one rank sends over a stage boundary for one micro-batch, in one direction.

    (s / c) b h e

    Parameters: activation_message [B]
    Returns: [B] message
    Source: Narayanan et al. 2021 (SC21), section 3.2
    """
    return 1.0 * activation_message


@alternative("pipeline_message", sequence_parallel=True)
def sharded_pipeline_message(activation_message: Any, tensor_parallel: Any) -> Any:
    """Bytes that one rank sends over a stage boundary for one micro-batch, in one direction.

    (s / c) b h e / t

    Parameters: activation_message [B], tensor_parallel [1]
    Returns: [B] message
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2
    """
    return activation_message / tensor_parallel


def pipeline_ranks_per_node(
    gpus_per_node: Any,
    pipeline_parallel: Any,
    tensor_parallel: Any,
    context_parallel: Any,
    data_parallel: Any,
) -> Any:
    """Stages of one pipeline on each node: stages are the outermost groups.

    clip(gpus per node / (t c d), 1, p)

    Parameters: gpus_per_node [1], pipeline_parallel [1], tensor_parallel [1],
        context_parallel [1], data_parallel [1]
    Returns: [1] stages on one node
    Source: Megatron-LM rank order (Narayanan et al. 2021, section 3)
    """
    stride = tensor_parallel * context_parallel * data_parallel
    return group_ranks_per_node(gpus_per_node, stride, pipeline_parallel)


def pipeline_send_time(
    pipeline_message: Any,
    pipeline_parallel: Any,
    pipeline_ranks_per_node: Any,
    intra_node_latency: Any,
    intra_node_bandwidth: Any,
    inter_node_latency: Any,
    rail_bandwidth: Any,
) -> Any:
    """Time to send one activation or gradient to the next stage; each rank has its own rail.

    a + M / B

    Parameters: pipeline_message [B], pipeline_parallel [1], pipeline_ranks_per_node [1],
        intra_node_latency [s], intra_node_bandwidth [B/s], inter_node_latency [s],
        rail_bandwidth [B/s]
    Returns: [s] time of one send
    Source: Hockney 1994; Narayanan et al. 2021 (SC21), section 3.2
    """
    inside = pipeline_ranks_per_node >= pipeline_parallel
    latency = where(inside, intra_node_latency, inter_node_latency)
    bandwidth = where(inside, intra_node_bandwidth, rail_bandwidth)
    return point_to_point_time(pipeline_message, latency, bandwidth)


def pipeline_parallel_time(
    pipeline_parallel: Any, virtual_stages: Any, num_microbatches: Any, pipeline_send_time: Any
) -> Any:
    """Time of one step's traffic between pipeline stages: an activation on, a gradient back.

    2 v m (a + M / B); nothing for one stage

    Parameters: pipeline_parallel [1], virtual_stages [1], num_microbatches [1],
        pipeline_send_time [s]
    Returns: [s] pipeline traffic of one step
    Source: Narayanan et al. 2021 (SC21), sections 2.2 and 3.2
    """
    sends = where(pipeline_parallel > 1, 2 * virtual_stages * num_microbatches, 0.0)
    return sends * pipeline_send_time


def data_parallel_ranks_per_node(gpus_per_node: Any, data_parallel: Any, tensor_parallel: Any, context_parallel: Any) -> Any:
    """Ranks of one data-parallel group on each node.

    clip(gpus per node / (t c), 1, group size)

    Parameters: gpus_per_node [1], data_parallel [1], tensor_parallel [1], context_parallel [1]
    Returns: [1] ranks on one node
    Source: Megatron-LM rank order (Narayanan et al. 2021, section 3)
    """
    return group_ranks_per_node(gpus_per_node, tensor_parallel * context_parallel, data_parallel)


def data_parallel_bandwidth(
    data_parallel: Any, data_parallel_ranks_per_node: Any, intra_node_bandwidth: Any, rail_bandwidth: Any
) -> Any:
    """Bandwidth of one rank of a data-parallel group in a flat algorithm.

    intra-node in one node, else min(intra-node, ranks on the node x rail)

    Parameters: data_parallel [1], data_parallel_ranks_per_node [1], intra_node_bandwidth [B/s],
        rail_bandwidth [B/s]
    Returns: [B/s] bandwidth per rank
    Source: NCCL channels over several NICs; see topology.flat_bandwidth
    """
    return flat_bandwidth(data_parallel, data_parallel_ranks_per_node, intra_node_bandwidth, rail_bandwidth)


def data_parallel_latency(
    data_parallel: Any, data_parallel_ranks_per_node: Any, intra_node_latency: Any, inter_node_latency: Any
) -> Any:
    """Latency of one hop of a data-parallel group in a flat algorithm.

    intra-node in one node, else inter-node

    Parameters: data_parallel [1], data_parallel_ranks_per_node [1], intra_node_latency [s],
        inter_node_latency [s]
    Returns: [s] latency of one hop
    Source: a ring steps at its slowest link; see topology.flat_latency
    """
    return flat_latency(data_parallel, data_parallel_ranks_per_node, intra_node_latency, inter_node_latency)


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
    gradient_message: Any, data_parallel: Any, data_parallel_latency: Any, data_parallel_bandwidth: Any
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
    gradient_message: Any, data_parallel: Any, data_parallel_latency: Any, data_parallel_bandwidth: Any
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
    gradient_message: Any, data_parallel: Any, data_parallel_latency: Any, data_parallel_bandwidth: Any
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


@alternative("data_parallel_all_reduce_time", all_reduce="hierarchical")
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


def communication_time(
    tensor_parallel_time: Any, pipeline_parallel_time: Any, data_parallel_time: Any
) -> Any:
    """Communication of one step on one GPU, hidden or not.

    tensor + pipeline + data

    Parameters: tensor_parallel_time [s], pipeline_parallel_time [s], data_parallel_time [s]
    Returns: [s] communication of one step
    Source: sum of the exclusive parts; Narayanan et al. 2021 (SC21), section 3
    """
    return tensor_parallel_time + pipeline_parallel_time + data_parallel_time


def exposed_communication_time(
    exposed_tensor_parallel_time: Any,
    pipeline_parallel_time: Any,
    exposed_data_parallel_time: Any,
) -> Any:
    """Communication of one step that computing does not hide.

    exposed tensor + pipeline + exposed data

    Parameters: exposed_tensor_parallel_time [s], pipeline_parallel_time [s],
        exposed_data_parallel_time [s]
    Returns: [s] exposed communication of one step
    Source: by definition of exposed communication; Wang et al. 2023 (ASPLOS), section 2
    """
    return exposed_tensor_parallel_time + pipeline_parallel_time + exposed_data_parallel_time
