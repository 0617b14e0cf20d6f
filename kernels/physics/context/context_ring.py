"""Context-parallel traffic of ring attention: keys and values passed around a ring."""

import numpy as np

from ...alternatives import alternative, same_as
from ...laws.collectives import point_to_point_time
from ...laws.topology import group_ranks_per_node
from ...ops import where
from ..network.inputs import SWITCHED


@alternative("context_message", linear_attention=False)
def context_message(microbatch_tokens, kv_heads, head_size, tensor_parallel, bytes_per_element):
    """Bytes of one rank's keys and values per layer and micro-batch.

    2 (s / c) b (h / a) max(a_kv / t, 1) e: tensor ranks beyond the number of KV heads hold copies

    Returns: [B] message
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3
    """
    width = np.maximum(kv_heads / tensor_parallel, 1.0) * head_size
    return 2 * microbatch_tokens * width * bytes_per_element


@alternative("context_ranks_per_node", scale_up_domain=False)
@same_as(group_ranks_per_node)
def node_context_ranks_per_node(gpus_per_node, tensor_parallel, context_parallel):
    """Ranks of one context-parallel group on each node.

    clip(gpus per node / t, 1, c)

    Returns: [1] ranks on one node
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (tensor, then context)
    """


@alternative("context_send_time", all_reduce=SWITCHED)
def context_send_time(
    context_message,
    context_parallel,
    context_ranks_per_node,
    intra_node_latency,
    intra_node_bandwidth,
    inter_node_latency,
    context_rail_bandwidth,
):
    """Time to pass keys and values to the next rank, over the slowest hop of the ring.

    a + M / B

    Returns: [s] time of one exchange
    Source: Hockney 1994; Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3
    """
    inside = context_ranks_per_node >= context_parallel
    latency = where(inside, intra_node_latency, inter_node_latency)
    bandwidth = where(inside, intra_node_bandwidth, context_rail_bandwidth)
    return point_to_point_time(context_message, latency, bandwidth)


def context_exchanges_per_layer(context_parallel, attention_recompute_passes):
    """Ring exchanges per layer and micro-batch: once round forward, twice as much backward.

    (3 + passes) (c - 1), forward passes of attention that are repeated

    Returns: [1] exchanges
    Range: an upper bound in layers with an `attention_window`: ranks further apart than a window
        need none of each other's keys and values
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3 (backward also passes the
        gradients of keys and values)
    """
    return (3 + attention_recompute_passes) * (context_parallel - 1)


@alternative("context_parallel_time", context_parallel_type="p2p")
def context_parallel_time(
    context_exchanges_per_layer, layers, pipeline_parallel, num_microbatches, context_send_time
):
    """Context-parallel traffic time of one step on each stage.

    exchanges per layer x l / p x m x t

    Returns: [s] context-parallel traffic of one step
    Range: keys and values go all the way round, even if a window needs only those of nearby ranks:
        an upper bound for windows shorter than (1 - 2 / c) s
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3
    """
    per_microbatch = context_exchanges_per_layer * layers / pipeline_parallel
    return per_microbatch * num_microbatches * context_send_time
