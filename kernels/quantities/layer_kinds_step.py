"""Layers of several kinds: times, traffic, memory and serving, the mean over layers."""

import numpy as np

from ..alternatives import alternative
from ..ops import where
from .activations import matrix_activations_per_token
from .context_traffic import context_message
from .layer_compute import attention_projection_time, elementwise_time
from .layer_kinds import KINDS
from .tensor_traffic import shared_layer_exchange_time
from .working_memory import ffn_gradients_memory

# Times on the roofline


def linear_projection_time(
    microbatch_tokens,
    hidden_size,
    linear_parameters_per_layer,
    linear_inner_width,
    tensor_parallel,
    operand_bytes_per_element,
    bytes_per_element,
    peak_flops,
    gemm_efficiency,
    gemm_half_size,
    reached_hbm_bandwidth,
):
    """Time of the products with the weights of a mixer with a state.

    GEMM(T, W / t, h) + GEMM(T, h, H P / t); W = weights / h - H P

    Returns: [s] time of one forward pass
    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 8.1 (tensor parallelism)
    """
    return attention_projection_time(
        microbatch_tokens,
        hidden_size,
        linear_parameters_per_layer,
        linear_inner_width,  # of one head
        1.0,
        tensor_parallel,
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_size,
        reached_hbm_bandwidth,
    )


def linear_state_time(
    microbatch_tokens,
    linear_state_flops_per_token,
    attention_peak_flops,
    attention_efficiency,
    linear_inner_width,
    linear_key_width,
    linear_convolution_width,
    linear_state_size,
    linear_chunk_size,
    tensor_parallel,
    bytes_per_element,
    reached_hbm_bandwidth,
):
    """Time around a layer's state: convolution, chunks and gated norm; operations or memory.

    T / t x max(operations / (share P), (e (7 H P + 2 G N + 2 channels) + 16 N H P / Q) / BW):
    inputs and keys are read and outputs written, gate, outputs and norm pass once more, states of
    each chunk are written, passed on and read in FP32

    Returns: [s] time of one forward pass
    Source: Williams et al. 2009, CACM 52(4); Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 6
        (steps of the algorithm)
    """
    flops = linear_state_flops_per_token / (attention_efficiency * attention_peak_flops)
    width = 7 * linear_inner_width + 2 * linear_key_width + 2 * linear_convolution_width
    states = 16 * linear_state_size * linear_inner_width / linear_chunk_size
    moved = (bytes_per_element * width + states) / reached_hbm_bandwidth
    return microbatch_tokens / tensor_parallel * np.maximum(flops, moved)


@alternative("layer_matrix_time", linear_attention=KINDS)
def mixed_layer_matrix_time(
    attention_layers,
    attention_projection_time,
    linear_layers,
    linear_projection_time,
    linear_state_time,
    layers,
    ffn_time,
    elementwise_time,
):
    """Time of a layer's forward pass without the attention products, the mean over layers.

    (l_a x projections + l_s x (projections + state)) / l + feed-forward + norms, residuals and
    activations

    Source: NVIDIA 2025 (Nemotron-H), arXiv:2504.03624, section 2.1 (layers of three kinds)
    """
    attending = attention_layers * attention_projection_time
    keeping = linear_layers * (linear_projection_time + linear_state_time)
    return (attending + keeping) / layers + ffn_time + elementwise_time


@alternative("elementwise_time", linear_attention=KINDS)
def mixed_elementwise_time(
    microbatch_tokens,
    hidden_size,
    mixer_and_ffn_blocks,
    layers,
    residual_ranks,
    ffn_matrices,
    active_ffn_width,
    tensor_parallel,
    bytes_per_element,
    reached_hbm_bandwidth,
):
    """Time of a layer's norms, residuals and activation functions, the mean over layers.

    T e (5 h blocks / (l t_s) + (2 or 3) f / t) / BW: a norm and a residual for each block
    """
    return elementwise_time(
        microbatch_tokens,
        hidden_size * mixer_and_ffn_blocks / (2 * layers),
        residual_ranks,
        ffn_matrices,
        active_ffn_width,
        tensor_parallel,
        bytes_per_element,
        reached_hbm_bandwidth,
    )


# Traffic


@alternative("shared_layer_exchange_time", linear_attention=KINDS)
def mixed_shared_layer_exchange_time(
    tensor_parallel_all_reduces_per_layer,
    mixer_and_ffn_blocks,
    pipeline_parallel,
    num_microbatches,
    tensor_parallel_exchange_time,
    saved_input_gather_time,
    regather_time,
):
    """all-reduces per layer x blocks / (2 p) x m x t + inputs gathered: one in each pass through a
    block

    Range: inputs that sequence parallelism gathers again are counted for every layer, a bound from
        above where layers hold a feed-forward block alone
    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 8.1 (one all-reduce in a mixer);
        Narayanan et al. 2021 (SC21), section 3.2
    """
    return shared_layer_exchange_time(
        tensor_parallel_all_reduces_per_layer,
        mixer_and_ffn_blocks / 2,
        pipeline_parallel,
        num_microbatches,
        tensor_parallel_exchange_time,
        saved_input_gather_time,
        regather_time,
    )


def linear_state_message(micro_batch_size, linear_inner_width, linear_state_size, tensor_parallel):
    """Bytes of a layer's state that a context-parallel rank hands on.

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
    """Bytes that one rank hands on for one layer and micro-batch, the mean over layers.

    l_a / l x keys and values + l_s / l x a state

    Range: states go once round backward, not twice as keys, values and their gradients do, and
        layers that hold a feed-forward block alone exchange nothing: a bound from above
    Source: Sun et al. 2024 (LASP), arXiv:2404.02882, section 2.2; Liu et al. 2023 (ring
        attention), arXiv:2310.01889, section 3
    """
    shape = (microbatch_tokens, kv_heads, head_size, tensor_parallel, bytes_per_element)
    keys_and_values = attention_layers * context_message(*shape)
    return (keys_and_values + linear_layers * linear_state_message) / layers


# Memory


@alternative("residual_activations_per_token", linear_attention=KINDS)
def mixed_residual_activations_per_token(
    hidden_size,
    ffn_input_width,
    bytes_per_element,
    dropout_mask_bytes,
    residual_ranks,
    mixer_and_ffn_blocks,
    layers,
    expert_input_width,
):
    """Bytes of a layer's activations that only sequence parallelism shares, the mean over layers.

    ((2 e + m) h blocks / l + e (w - h) w_e / h) / t_s: inputs of a norm and of what follows for
    each block, and copies of tokens for experts
    """
    block = (2 * bytes_per_element + dropout_mask_bytes) * hidden_size
    copies = bytes_per_element * (ffn_input_width / hidden_size - 1) * expert_input_width
    return (block * mixer_and_ffn_blocks / layers + copies) / residual_ranks


def linear_activations_per_token(
    linear_parameters_per_layer, hidden_size, linear_inner_width, tensor_parallel, bytes_per_element
):
    """Bytes of the activations of a mixer with a state, of one token: shared by tensor ranks.

    e (W + H P) / t, W = weights / h - H P: what goes into the convolution and its gate, the output
    of the state and the input of the output projection; states are computed again backward

    Returns: [B] activations of one token in one layer
    Range: of a fused kernel, as that of Mamba-2; without one, outputs of the convolution come on
        top
    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 6, and its kernel in
        mamba_ssm/ops/triton/ssd_combined.py (MambaSplitConv1dScanCombinedFn: what forward saves)
    """
    projected = linear_parameters_per_layer / hidden_size - linear_inner_width
    return bytes_per_element * (projected + 2 * linear_inner_width) / tensor_parallel


@alternative("matrix_activations_per_token", linear_attention=KINDS)
def mixed_matrix_activations_per_token(
    attention_layers,
    linear_layers,
    layers,
    linear_activations_per_token,
    attention_heads,
    kv_heads,
    head_size,
    ffn_matrices,
    active_ffn_width,
    tensor_parallel,
    bytes_per_element,
):
    """Bytes of a layer's activations around its matrices, the mean over layers.

    l_a / l x those of attention + l_s / l x those of a state + e (2 or 3) f / t

    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.1; Dao & Gu 2024
        (Mamba-2), arXiv:2405.21060, section 8.1
    """
    shared = (tensor_parallel, bytes_per_element)
    attention = matrix_activations_per_token(
        attention_heads, kv_heads, head_size, 0.0, 0.0, *shared
    )
    mixers = attention_layers * attention + linear_layers * linear_activations_per_token
    ffn = bytes_per_element * ffn_matrices * active_ffn_width / tensor_parallel
    return mixers / layers + ffn


@alternative("ffn_gradients_memory", linear_attention=KINDS)
def mixed_ffn_gradients_memory(
    microbatch_tokens,
    ffn_input_width,
    residual_ranks,
    ffn_matrices,
    active_ffn_width,
    tensor_parallel,
    bytes_per_element,
    ffn_layers,
    layers,
    linear_activations_per_token,
):
    """Memory of the gradients of the widest activations of a layer: feed-forward or a state's.

    T max(e (w / t_s + (2 or 3) f l / (l_f t)), those of a state); f is the mean over layers
    """
    ffn = ffn_gradients_memory(
        microbatch_tokens,
        ffn_input_width,
        residual_ranks,
        ffn_matrices,
        active_ffn_width * where(ffn_layers > 0, layers / ffn_layers, 0.0),
        tensor_parallel,
        bytes_per_element,
    )
    return np.maximum(ffn, microbatch_tokens * linear_activations_per_token)


# Serving


def linear_state_bytes(
    linear_layers,
    linear_inner_width,
    linear_state_size,
    linear_convolution_width,
    linear_convolution_size,
    kv_bytes_per_element,
):
    """Bytes that layers with a state keep of a sequence, however long it is.

    l_s (N H P + channels (k - 1)) x bytes

    Returns: [B] states of one sequence
    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 3.4.1 (a state for each head), and
        the last inputs of the convolution
    """
    window = linear_convolution_width * (linear_convolution_size - 1)
    state = linear_state_size * linear_inner_width + window
    return linear_layers * state * kv_bytes_per_element


@alternative("kv_cache_bytes_per_token", linear_attention=KINDS)
def mixed_kv_cache_bytes_per_token(attention_layers, kv_elements_per_layer, kv_bytes_per_element):
    """l_a x elements x bytes

    Source: Waleffe et al. 2024, arXiv:2406.07887, section 3.3 (attention layers alone have one)
    """
    return attention_layers * kv_elements_per_layer * kv_bytes_per_element


@alternative("request_kv_cache", linear_attention=KINDS)
def mixed_request_kv_cache(
    cached_tokens, layers, kv_elements_per_layer, kv_bytes_per_element, linear_state_bytes
):
    """Keys, values and states of one request at its end.

    tokens kept, the mean over layers, x l x elements x bytes + states

    Source: Waleffe et al. 2024, arXiv:2406.07887, section 3.3; Kwon et al. 2023 (vLLM),
        arXiv:2309.06180, section 3
    """
    return (
        cached_tokens * layers * kv_elements_per_layer * kv_bytes_per_element + linear_state_bytes
    )


@alternative("decode_bytes", linear_attention=KINDS)
def mixed_decode_bytes(
    decode_weights_bytes,
    serving_batch_size,
    decode_context,
    layers,
    kv_elements_per_layer,
    kv_bytes_per_element,
    kv_cache_ranks,
    linear_state_bytes,
    tensor_parallel,
):
    """Bytes that the mean decode step moves on each GPU: weights, keys, values and states.

    weights + b x (context, the mean over layers, x l x elements x bytes / cache ranks
    + 2 x states / t): states are read and written

    Source: Pope et al. 2022, arXiv:2211.05102, sections 2 and 3.3; Dao & Gu 2024 (Mamba-2),
        arXiv:2405.21060, section 8.1 (heads over tensor ranks)
    """
    kept = decode_context * layers * kv_elements_per_layer * kv_bytes_per_element / kv_cache_ranks
    states = 2 * linear_state_bytes / tensor_parallel
    return decode_weights_bytes + serving_batch_size * (kept + states)
