"""Traffic of tensor parallelism: two all-reduces in each pass through a layer."""

from typing import Any

import numpy as np

from ..alternatives import alternative
from ..topology import flat_bandwidth, flat_latency, group_ranks_per_node


def activation_message(microbatch_tokens: Any, hidden_size: Any, bytes_per_element: Any) -> Any:
    """Bytes of one layer's activation of one micro-batch: what tensor-parallel ranks reduce.

    (s / c) b h e

    Parameters: microbatch_tokens [1], hidden_size [1], bytes_per_element [B]
    Returns: [B] message
    Source: Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3
    """
    return microbatch_tokens * hidden_size * bytes_per_element


def tensor_parallel_ranks_per_node(gpus_per_node: Any, tensor_parallel: Any) -> Any:
    """Ranks of one tensor-parallel group on each node.

    clip(gpus per node, 1, group size)

    Parameters: gpus_per_node [1], tensor_parallel [1]
    Returns: [1] ranks on one node
    Source: Megatron-LM rank order (Narayanan et al. 2021, section 3)
    """
    return group_ranks_per_node(gpus_per_node, 1.0, tensor_parallel)


def tensor_parallel_bandwidth(
    tensor_parallel: Any,
    tensor_parallel_ranks_per_node: Any,
    intra_node_bandwidth: Any,
    rail_bandwidth: Any,
) -> Any:
    """Bandwidth of one rank of a tensor-parallel group in a flat algorithm.

    intra-node in one node, else min(intra-node, ranks on the node x rail)

    Parameters: tensor_parallel [1], tensor_parallel_ranks_per_node [1], intra_node_bandwidth [B/s],
        rail_bandwidth [B/s]
    Returns: [B/s] bandwidth per rank
    Source: NCCL 2.30, channels over several NICs
    """
    return flat_bandwidth(
        tensor_parallel, tensor_parallel_ranks_per_node, intra_node_bandwidth, rail_bandwidth
    )


def tensor_parallel_latency(
    tensor_parallel: Any,
    tensor_parallel_ranks_per_node: Any,
    intra_node_latency: Any,
    inter_node_latency: Any,
) -> Any:
    """Latency of one hop of a tensor-parallel group in a flat algorithm.

    intra-node in one node, else inter-node

    Parameters: tensor_parallel [1], tensor_parallel_ranks_per_node [1], intra_node_latency [s],
        inter_node_latency [s]
    Returns: [s] latency of one hop
    Source: Hockney 1994, Parallel Computing 20(3); a ring steps at its slowest link
    """
    return flat_latency(
        tensor_parallel, tensor_parallel_ranks_per_node, intra_node_latency, inter_node_latency
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


@alternative("tensor_parallel_all_reduces_per_layer", recompute=("selective", "core_attention"))
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
    """All-reduces of each layer and micro-batch: two each forward, backward and repeated.

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
