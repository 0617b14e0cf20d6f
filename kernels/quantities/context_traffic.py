"""Traffic of context parallelism: keys and values go round the ranks that share a sequence."""

from typing import Any

import numpy as np

from ..alternatives import alternative, same_as
from ..collectives import point_to_point_time
from ..inputs import SWITCHED
from ..ops import where
from ..topology import group_ranks_per_node


@alternative("context_message", linear_attention="none")
def context_message(
    microbatch_tokens: Any,
    kv_heads: Any,
    head_size: Any,
    tensor_parallel: Any,
    bytes_per_element: Any,
) -> Any:
    """Bytes of one rank's keys and values of one layer and micro-batch.

    2 (s / c) b (h / a) max(a_kv / t, 1) e: beyond the heads, tensor ranks hold copies

    Parameters: microbatch_tokens [1], kv_heads [1], head_size [1], tensor_parallel [1],
        bytes_per_element [B]
    Returns: [B] message
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3
    """
    width = np.maximum(kv_heads / tensor_parallel, 1.0) * head_size
    return 2 * microbatch_tokens * width * bytes_per_element


@alternative("context_ranks_per_node", scale_up_domain=False)
@same_as(group_ranks_per_node)
def node_context_ranks_per_node(*operands: Any) -> Any:
    """Ranks of one context-parallel group on each node.

    clip(gpus per node / t, 1, c)

    Parameters: gpus_per_node [1], tensor_parallel [1], context_parallel [1]
    Returns: [1] ranks on one node
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (tensor, then context)
    """


@alternative("context_send_time", all_reduce=SWITCHED)
def context_send_time(
    context_message: Any,
    context_parallel: Any,
    context_ranks_per_node: Any,
    intra_node_latency: Any,
    intra_node_bandwidth: Any,
    inter_node_latency: Any,
    context_rail_bandwidth: Any,
) -> Any:
    """Time to pass keys and values to the next rank; the slowest hop of the ring sets the pace.

    a + M / B

    Parameters: context_message [B], context_parallel [1], context_ranks_per_node [1],
        intra_node_latency [s], intra_node_bandwidth [B/s], inter_node_latency [s],
        context_rail_bandwidth [B/s]
    Returns: [s] time of one exchange
    Source: Hockney 1994; Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3
    """
    inside = context_ranks_per_node >= context_parallel
    latency = where(inside, intra_node_latency, inter_node_latency)
    bandwidth = where(inside, intra_node_bandwidth, context_rail_bandwidth)
    return point_to_point_time(context_message, latency, bandwidth)


@alternative("context_exchanges_per_layer", recompute=("none", "selective"))
def kept_context_exchanges_per_layer(context_parallel: Any) -> Any:
    """Exchanges of each layer and micro-batch: once round forward, twice as much backward.

    3 (c - 1)

    Parameters: context_parallel [1]
    Returns: [1] exchanges
    Range: a bound from above in layers with an `attention_window`: ranks that lie further apart
        than a window need no keys and values of each other
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3 (backward also passes the
        gradients of keys and values)
    """
    return 3 * (context_parallel - 1)


@alternative("context_exchanges_per_layer", recompute=("core_attention", "full"))
def repeated_context_exchanges_per_layer(context_parallel: Any) -> Any:
    """Exchanges of each layer and micro-batch: twice round forward, twice as much backward.

    4 (c - 1)

    Parameters: context_parallel [1]
    Returns: [1] exchanges
    Range: a bound from above in layers with an `attention_window`: ranks that lie further apart
        than a window need no keys and values of each other
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3, with forward repeated
    """
    return 4 * (context_parallel - 1)


@alternative("context_parallel_time", context_parallel_type="p2p")
def context_parallel_time(
    context_exchanges_per_layer: Any,
    layers: Any,
    pipeline_parallel: Any,
    num_microbatches: Any,
    context_send_time: Any,
) -> Any:
    """Time of one step's context-parallel traffic on each stage.

    exchanges per layer x l / p x m x t

    Parameters: context_exchanges_per_layer [1], layers [1], pipeline_parallel [1],
        num_microbatches [1], context_send_time [s]
    Returns: [s] context-parallel traffic of one step
    Range: keys and values go all the way round, also where a window needs those of near ranks
        only: a bound from above for windows shorter than (1 - 2 / c) s
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3
    """
    per_microbatch = context_exchanges_per_layer * layers / pipeline_parallel
    return per_microbatch * num_microbatches * context_send_time


@alternative("exposed_context_parallel_time", context_parallel_type="p2p")
def exposed_context_parallel_time(
    context_parallel_time: Any,
    context_parallel_overlap: Any,
    compute_time: Any,
    exposed_tensor_parallel_time: Any,
) -> Any:
    """Time that a step waits for context-parallel traffic.

    max(0, traffic - overlap x (compute + waits for tensor-parallel traffic))

    Parameters: context_parallel_time [s], context_parallel_overlap [1], compute_time [s],
        exposed_tensor_parallel_time [s]
    Returns: [s] exposed traffic of one step
    Range: on links of its own; what the same link carries at a time is in contention_time
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3 (overlap with blocks)
    """
    window = context_parallel_overlap * (compute_time + exposed_tensor_parallel_time)
    return np.maximum(0.0, context_parallel_time - window)
