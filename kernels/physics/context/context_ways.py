"""Context parallelism by collectives: Ulysses all-to-alls over heads, all-gathered keys/values."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, row
from ...laws.collectives import point_to_point_time, two_level_all_to_all_time
from ...laws.topology import flat_bandwidth, flat_latency
from ...ops import where
from ...reasons import REASONS as REASONS
from ...reasons import is_whole
from ..model.layer_kinds import KINDS
from ..network.inputs import SWITCHED
from .context_ring import context_message


def linear_state_message(micro_batch_size, linear_inner_width, linear_state_size, tensor_parallel):
    """Bytes of a layer's recurrent state that a context-parallel rank passes on.

    4 b N H P / t, in FP32

    Returns: [B] message
    Source: Sun et al. 2024 (LASP), arXiv:2404.02882, section 2.2; Dao & Gu 2024 (Mamba-2),
        arXiv:2405.21060, section 8.2 (states are passed from rank to rank)
    """
    return 4 * micro_batch_size * linear_state_size * linear_inner_width / tensor_parallel


@alternative("context_message", linear_attention=KINDS)
def mixed_context_message(
    attention_layers,
    linear_layers,
    layers,
    linear_state_message,
    microbatch_tokens,
    kv_heads,
    head_size,
    tensor_parallel,
    bytes_per_element,
):
    """Bytes that one rank passes on per layer and micro-batch, mean over layers.

    l_a / l x keys and values + l_s / l x state

    Range: an upper bound: states go round once backward, not twice as keys, values and their
        gradients do, and layers with only a feed-forward block exchange nothing
    Source: Sun et al. 2024 (LASP), arXiv:2404.02882, section 2.2; Liu et al. 2023 (ring
        attention), arXiv:2310.01889, section 3
    """
    shape = (microbatch_tokens, kv_heads, head_size, tensor_parallel, bytes_per_element)
    keys_and_values = attention_layers * context_message(*shape)
    return (keys_and_values + linear_layers * linear_state_message) / layers


TO_HEADS = ("a2a", "a2a+p2p")  # attention's heads are shared out while it works


row(
    "head_sharing_ranks",
    1.0,
    summary=("Ranks that share out the heads of attention, each with the tokens of all: none do."),
    returns="[1] ranks",
    source="Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3",
    context_parallel_type=("p2p", "all_gather"),
)
row(
    "head_sharing_ranks",
    "context_parallel",
    source="Jacobs et al. 2023 (DeepSpeed-Ulysses), arXiv:2309.14509, section 3.1",
    context_parallel_type="a2a",
)
row(
    "head_sharing_ranks",
    "context_ranks_per_node",
    "ranks on a node",
    source=("Fang & Zhao 2024 (USP), arXiv:2405.07719, section 3.3 (all-to-alls inside a node)"),
    context_parallel_type="a2a+p2p",
)


def head_sharing_ranks_per_node(context_ranks_per_node, head_sharing_ranks):
    """Ranks of one node that split attention heads among them.

    min(context ranks on a node, u)

    Returns: [1] ranks
    Source: Fang & Zhao 2024 (USP), arXiv:2405.07719, section 3.3 (the ranks that share out heads
        are next to each other)
    """
    return np.minimum(context_ranks_per_node, head_sharing_ranks)


def context_passes(attention_recompute_passes):
    """Passes through attention per layer and micro-batch: forward, those repeated, and backward.

    2 + repeated

    Returns: [1] passes
    Source: Jacobs et al. 2023 (DeepSpeed-Ulysses), arXiv:2309.14509, section 3.2
    """
    return 2 + attention_recompute_passes


@alternative("head_message", linear_attention=False)
def attention_head_message(
    microbatch_tokens,
    attention_heads,
    kv_heads,
    head_size,
    tensor_parallel,
    head_sharing_ranks,
    bytes_per_element,
):
    """Bytes of one rank that the all-to-alls over heads move in one pass through a layer.

    T (h / a) (2 a / t + 2 max(a_kv / t, u)) e: queries and outputs, and keys and values, with at
    least one KV head per rank

    Returns: [B] message
    Source: Jacobs et al. 2023 (DeepSpeed-Ulysses), arXiv:2309.14509, section 3.2 (four tensors);
        Fang & Zhao 2024 (USP), arXiv:2405.07719, section 3.1 (heads of keys and values)
    """
    heads = attention_heads + np.maximum(kv_heads, head_sharing_ranks * tensor_parallel)
    return 2 * microbatch_tokens * head_size * heads / tensor_parallel * bytes_per_element


@alternative("head_message", linear_attention=KINDS)
def mixed_head_message(
    attention_layers,
    linear_layers,
    layers,
    microbatch_tokens,
    attention_heads,
    kv_heads,
    head_size,
    tensor_parallel,
    head_sharing_ranks,
    bytes_per_element,
    linear_parameters_per_layer,
    hidden_size,
):
    """Bytes of one rank that the all-to-alls over heads move in one pass, mean over layers.

    l_a / l x queries, keys, values and outputs + l_s / l x T W e / t, W = weights / h: all
    projections and the output of a mixer with a state

    Range: copies of key groups, where there are fewer groups than ranks, come on top
    Source: Jacobs et al. 2023 (DeepSpeed-Ulysses), arXiv:2309.14509, section 3.2; Megatron-LM,
        megatron/core/ssm/mamba_context_parallel.py
    """
    attention = attention_head_message(
        microbatch_tokens,
        attention_heads,
        kv_heads,
        head_size,
        tensor_parallel,
        head_sharing_ranks,
        bytes_per_element,
    )
    width = linear_parameters_per_layer / hidden_size / tensor_parallel
    states = microbatch_tokens * width * bytes_per_element
    return (attention_layers * attention + linear_layers * states) / layers


@alternative("head_exchange_time", all_reduce=SWITCHED)
def head_exchange_time(
    head_message,
    head_sharing_ranks,
    head_sharing_ranks_per_node,
    intra_node_latency,
    inter_node_latency,
    intra_node_bandwidth,
    context_rail_bandwidth,
):
    """Time of the all-to-alls that switch from tokens to heads and back, per pass through a layer.

    4 (u - 1) a + max(M (k - 1) / (u B_i), M (u - k) / (u B_e)): four all-to-alls

    Returns: [s] time of one pass
    Source: Jacobs et al. 2023 (DeepSpeed-Ulysses), arXiv:2309.14509, section 3.2; Thakur et al.
        2005, IJHPCA 19(1) (pairwise exchange), on two networks
    """
    near = head_sharing_ranks_per_node
    latency = flat_latency(head_sharing_ranks, near, intra_node_latency, inter_node_latency)
    bandwidths = (intra_node_bandwidth, context_rail_bandwidth)
    one = two_level_all_to_all_time(head_message, head_sharing_ranks, near, latency, *bandwidths)
    return one + 3 * (head_sharing_ranks - 1) * latency


row("context_collective_time", 0.0, context_parallel_type="p2p")


@alternative("context_gather_step_time", all_reduce=SWITCHED)
def switched_context_gather_step_time(
    context_message,
    context_parallel,
    context_ranks_per_node,
    intra_node_latency,
    inter_node_latency,
    intra_node_bandwidth,
    context_rail_bandwidth,
):
    """Time of one of the c - 1 steps of the all-gather of a layer's keys and values.

    a + M / B, B over all rails of a node

    Returns: [s] time of one step
    Source: Grattafiori et al. 2024, arXiv:2407.21783, section 3.3.2 (keys and
        values all-gathered, then attention)
    """
    ranks = (context_parallel, context_ranks_per_node)
    latency = flat_latency(*ranks, intra_node_latency, inter_node_latency)
    bandwidth = flat_bandwidth(*ranks, intra_node_bandwidth, context_rail_bandwidth)
    return point_to_point_time(context_message, latency, bandwidth)


@alternative("context_collective_time", context_parallel_type="all_gather")
def gathered_context_collective_time(
    context_exchanges_per_layer,
    layers,
    pipeline_parallel,
    num_microbatches,
    context_gather_step_time,
):
    """Time of one step's context-parallel collectives, which cannot be hidden.

    (3 or 4) l / p x m x (c - 1) t: keys and values all-gathered forward and backward, their
    gradients reduce-scattered

    Returns: [s] traffic of one step
    Range: keys and values of the whole sequence are gathered, even if a window needs only those of
        nearby ranks, as in Transformer Engine
    Source: Grattafiori et al. 2024, arXiv:2407.21783, section 3.3.2 (keys and
        values all-gathered, then attention)
    """
    per_microbatch = context_exchanges_per_layer * layers / pipeline_parallel
    return per_microbatch * num_microbatches * context_gather_step_time


@alternative("context_collective_time", context_parallel_type=TO_HEADS)
def head_context_collective_time(
    context_passes, layers, pipeline_parallel, num_microbatches, head_exchange_time
):
    """(2 or 3) l / p x m x t: all-to-alls before attention and after it

    Source: Jacobs et al. 2023 (DeepSpeed-Ulysses), arXiv:2309.14509, section 3.2
    """
    per_microbatch = context_passes * layers / pipeline_parallel
    return per_microbatch * num_microbatches * head_exchange_time


row(
    "context_parallel_time",
    "context_collective_time",
    source="Grattafiori et al. 2024, arXiv:2407.21783, section 3.3.2",
    context_parallel_type="all_gather",
)


def head_ring_message(
    microbatch_tokens, kv_heads, head_size, tensor_parallel, head_sharing_ranks, bytes_per_element
):
    """Bytes of one rank's keys and values after the switch to heads: more tokens, fewer heads.

    2 T (h / a) max(a_kv / t, u) e

    Returns: [B] message
    Source: Fang & Zhao 2024 (USP), arXiv:2405.07719, section 3.3
    """
    heads = np.maximum(kv_heads / tensor_parallel, head_sharing_ranks)
    return 2 * microbatch_tokens * head_size * heads * bytes_per_element


def head_ring_exchanges(context_passes, context_parallel, head_sharing_ranks):
    """Ring exchanges per layer and micro-batch across groups of head-sharing ranks.

    (3 or 4) (c / u - 1)

    Returns: [1] exchanges
    Range: an upper bound in models with states, passed on in their own layers but counted for all
    Source: Fang & Zhao 2024 (USP), arXiv:2405.07719, section 3.3; Liu et al. 2023 (ring
        attention), arXiv:2310.01889, section 3
    """
    return (context_passes + 1) * (context_parallel / head_sharing_ranks - 1)


@alternative("head_ring_send_time", all_reduce=SWITCHED)
def switched_head_ring_send_time(
    head_ring_message,
    context_parallel,
    context_ranks_per_node,
    intra_node_latency,
    intra_node_bandwidth,
    inter_node_latency,
    context_rail_bandwidth,
):
    """Time of one exchange of keys and values on the ring across groups of head-sharing ranks.

    a + M / B

    Returns: [s] time of one exchange
    Source: Fang & Zhao 2024 (USP), arXiv:2405.07719, section 3.3
    """
    inside = context_ranks_per_node >= context_parallel
    latency = where(inside, intra_node_latency, inter_node_latency)
    bandwidth = where(inside, intra_node_bandwidth, context_rail_bandwidth)
    return point_to_point_time(head_ring_message, latency, bandwidth)


@alternative("context_parallel_time", context_parallel_type=TO_HEADS)
def head_context_parallel_time(
    context_collective_time,
    head_ring_exchanges,
    layers,
    pipeline_parallel,
    num_microbatches,
    head_ring_send_time,
):
    """all-to-alls + ring exchanges x l / p x m x t

    Source: Fang & Zhao 2024 (USP), arXiv:2405.07719, section 3.3
    """
    per_microbatch = head_ring_exchanges * layers / pipeline_parallel
    return context_collective_time + per_microbatch * num_microbatches * head_ring_send_time


@alternative("context_fabric_time", context_parallel_type="all_gather")
def gathered_context_fabric_time(
    context_exchanges_per_layer,
    layers,
    pipeline_parallel,
    num_microbatches,
    context_message,
    context_parallel,
    context_ranks_per_node,
    context_rail_bandwidth,
):
    """exchanges x l / p x m x M / (k B_e) if the group leaves the node

    Source: NCCL 2.30, rings over several cards of a node
    """
    across = where(context_ranks_per_node < context_parallel, context_message, 0.0)
    per_microbatch = context_exchanges_per_layer * layers / pipeline_parallel
    moved = per_microbatch * num_microbatches * across / context_ranks_per_node
    return moved / context_rail_bandwidth


@alternative("context_node_time", context_parallel_type="all_gather")
def gathered_context_node_time(
    context_exchanges_per_layer,
    layers,
    pipeline_parallel,
    num_microbatches,
    context_message,
    context_ranks_per_node,
    intra_node_bandwidth,
):
    """exchanges x l / p x m x M / B_i

    Source: NCCL 2.30, rings over several cards of a node
    """
    inside = where(context_ranks_per_node > 1, context_message, 0.0)
    per_microbatch = context_exchanges_per_layer * layers / pipeline_parallel
    return per_microbatch * num_microbatches * inside / intra_node_bandwidth


@alternative("context_fabric_time", context_parallel_type=TO_HEADS)
def head_context_fabric_time(
    context_passes,
    head_message,
    head_sharing_ranks,
    head_ring_exchanges,
    head_ring_message,
    layers,
    pipeline_parallel,
    num_microbatches,
    context_parallel,
    context_ranks_per_node,
    context_rail_bandwidth,
):
    """l / p x m x (passes x M (u - k) / u + ring exchanges x M_ring) / B_e; ring if between nodes

    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks; Fang & Zhao 2024
        (USP), arXiv:2405.07719, section 3.3
    """
    far = np.maximum(head_sharing_ranks - context_ranks_per_node, 0.0)
    heads = context_passes * head_message * (far / head_sharing_ranks)
    leaves = context_ranks_per_node < context_parallel
    ring = where(leaves, head_ring_exchanges * head_ring_message, 0.0)
    moved = layers / pipeline_parallel * num_microbatches * (heads + ring)
    return moved / context_rail_bandwidth


@alternative("context_node_time", context_parallel_type=TO_HEADS)
def head_context_node_time(
    context_passes,
    head_message,
    head_sharing_ranks,
    head_ring_exchanges,
    head_ring_message,
    layers,
    pipeline_parallel,
    num_microbatches,
    context_ranks_per_node,
    intra_node_bandwidth,
):
    """l / p x m x (passes x M (k - 1) / u + ring exchanges x M_ring) / B_i; ring term if two of its
    ranks share a node

    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks; Fang & Zhao 2024
        (USP), arXiv:2405.07719, section 3.3
    """
    near = np.minimum(context_ranks_per_node, head_sharing_ranks)
    heads = context_passes * head_message * (near - 1) / head_sharing_ranks
    shared = context_ranks_per_node > head_sharing_ranks
    ring = where(shared, head_ring_exchanges * head_ring_message, 0.0)
    moved = layers / pipeline_parallel * num_microbatches * (heads + ring)
    return moved / intra_node_bandwidth


row(
    "head_reason",
    0.0,
    "they do not",
    source="Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3",
    context_parallel_type=("p2p", "all_gather"),
)


@alternative("head_reason", context_parallel_type=TO_HEADS)
def shared_head_reason(attention_heads, tensor_parallel, context_parallel, head_sharing_ranks):
    """Why attention heads cannot be split over context ranks; 0 if they can.

    a / (t u) and c / u whole

    Returns: [flag] reason
    Flags: REASONS
    Source: Jacobs et al. 2023 (DeepSpeed-Ulysses), arXiv:2309.14509, section 3.1 (no more ranks
        than heads); Megatron-LM, megatron/core/transformer/transformer_config.py (cp_comm_type)
    """
    divides = is_whole(attention_heads / (tensor_parallel * head_sharing_ranks))
    divides = divides & is_whole(context_parallel / head_sharing_ranks)
    return where(divides, 0.0, reasons.HEADS_NOT_DIVISIBLE_OVER_CONTEXT)


@alternative("sequence_parts", context_balance="zigzag")
def paired_sequence_parts(context_parallel):
    """Chunks into which a sequence is cut: an early and a late one per context rank.

    2 c; 1 for c = 1

    Returns: [1] chunks
    Source: Megatron-LM, megatron/core/utils.py (get_batch_on_this_cp_rank: 2 x context-parallel
        size chunks)
    """
    return where(context_parallel > 1, 2.0 * context_parallel, 1.0)


row(
    "sequence_parts",
    "context_parallel",
    source="Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3",
    context_balance="contiguous",
)
row(
    "sequence_parts",
    "context_parallel",
    "documents are padded until they can be cut into 2 c",
    source="TransformerEngine, transformer_engine/common/fused_attn/context_parallel.cu (thd)",
    context_balance="documents",
)
