"""Operations and time of linear-attention layers, which keep a state."""

import numpy as np

from ...alternatives import alternative
from ..model.layer_kinds import KINDS
from .layer_time import attention_projection_time


@alternative("linear_state_flops_per_token", linear_attention="mamba2", off=0.0)
def mamba2_state_flops_per_token(
    linear_inner_width, linear_key_width, linear_state_size, linear_chunk_size
):
    """Forward operations per token around a layer's state, in chunks of Q tokens.

    2 Q (G N + H P / 2) + 4 N H P: C by B in a chunk, unmasked; the result by the inputs, masked;
    the state after a chunk, and the contribution of earlier states to its outputs

    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 6 (block decomposition; the mask
        leaves half of the diagonal blocks)
    """
    inside = linear_chunk_size * (2 * linear_key_width + linear_inner_width)
    return inside + 4 * linear_state_size * linear_inner_width


@alternative("linear_state_flops_per_token", linear_attention=("gated_deltanet", "kimi_delta"))
def delta_state_flops_per_token(
    linear_heads, linear_head_size, linear_state_size, linear_chunk_size
):
    """Forward operations per token around a layer's state, in chunks of C tokens.

    H (C (6 N + 4 P + C / 3) + 6 N P): keys by keys, their triangular inverse by keys and by values,
    queries by keys, the result by values; state by keys and by queries, and its update

    Returns: [FLOP] operations of one token
    Range: masked blocks are multiplied in full, as kernels for short chunks do
    Source: Yang et al. 2024 (Gated DeltaNet), arXiv:2412.06464, section 3.3; Yang et al. 2024
        (DeltaNet), arXiv:2406.06484, section 3.2 (WY representation in chunks)
    """
    products = 6 * linear_state_size + 4 * linear_head_size + linear_chunk_size / 3
    state = 6 * linear_state_size * linear_head_size
    return linear_heads * (linear_chunk_size * products + state)


@alternative("linear_state_flops_per_token", linear_attention="lightning")
def lightning_state_flops_per_token(
    linear_heads, linear_head_size, linear_state_size, linear_chunk_size
):
    """Forward operations per token around a layer's state, in blocks of B tokens.

    H (2 B (N + P) + 4 N P): queries by keys in a block, the result by values; state's output and
    update

    Range: masked blocks are multiplied in full
    Source: Qin et al. 2024 (Lightning Attention-2), arXiv:2401.04658, algorithm 1; MiniMax 2025
        (MiniMax-01), arXiv:2501.08313, section 2.2.1
    """
    inside = 2 * linear_chunk_size * (linear_state_size + linear_head_size)
    return linear_heads * (inside + 4 * linear_state_size * linear_head_size)


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
    gemm_half_depth,
    reached_hbm_bandwidth,
):
    """GEMM time of the projections of a mixer with a state.

    GEMM(T, W / t, h) + GEMM(T, h, H P / t); W = weights / h - H P

    Returns: [s] mean time of a pass, forward or for a gradient
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
        gemm_half_depth,
        reached_hbm_bandwidth,
    )


@alternative(
    "state_kernel_flops", linear_attention=(False, "mamba2", "gated_deltanet", "kimi_delta")
)
def triton_state_kernel_flops(attention_peak_flops):
    """Rate of the kernels around a layer's state.

    min(0.08 P, 80 TFLOP/s)

    Returns: [FLOP/s] rate
    Range: forward passes of Mamba-2 in Triton on an H100, 4,096 to 16,384 tokens: 77 to 82 TFLOP/s;
        22 and 45 of 1,024 and 2,048, 68 to 75 of more; of Kimi Delta Attention 55 on an H200, 70 on
        GB200 and GB300; fused kernels are up to 1.8 times as fast; assumed of backward passes, of
        other chips, TPUs among them, and that a higher peak brings no more
    Source: vLLM, github.com/vllm-project/vllm/pull/27299 (128 heads of 64, states of 128, chunks of
        256); cuLA, github.com/inclusionAI/cuLA, BENCHMARK_H200.md and its likes
    """
    return np.minimum(0.08 * attention_peak_flops, 80e12)


@alternative("state_kernel_flops", linear_attention="lightning")
def lightning_state_kernel_flops(attention_peak_flops):
    """0.14 P: kernels with blocks of 64 tokens, in operations of those of 256 that are counted

    Range: forward passes in Triton on GB200 and GB300, 64 heads of 128; assumed of other chips
    Source: cuLA, github.com/inclusionAI/cuLA, BENCHMARK_GB200.md and BENCHMARK_GB300.md
    """
    return 0.14 * attention_peak_flops


def linear_state_time(
    microbatch_tokens,
    linear_state_flops_per_token,
    state_kernel_flops,
    linear_inner_width,
    linear_key_width,
    linear_convolution_width,
    linear_state_size,
    linear_chunk_size,
    tensor_parallel,
    bytes_per_element,
    reached_hbm_bandwidth,
):
    """Roofline time around a layer's state: convolution, chunks and gated norm.

    T / t x (max(operations / rate, (e (2 H P + 2 G N) + 16 N H P / Q) / BW) + e (5 H P +
    2 channels) / BW): kernels of chunks read inputs and keys, write outputs, and write, pass on and
    read states in FP32; convolution, gate and norm pass once more

    Returns: [s] time of one forward pass
    Source: Williams et al. 2009, CACM 52(4); Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 6
        (steps of the algorithm)
    """
    width = 2 * (linear_inner_width + linear_key_width)
    states = 16 * linear_state_size * linear_inner_width / linear_chunk_size
    moved = (bytes_per_element * width + states) / reached_hbm_bandwidth
    chunks = np.maximum(linear_state_flops_per_token / state_kernel_flops, moved)
    around = bytes_per_element * (5 * linear_inner_width + 2 * linear_convolution_width)
    return microbatch_tokens / tensor_parallel * (chunks + around / reached_hbm_bandwidth)


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
    """Mean time of a layer's pass, of three, without the attention products, mean over layers.

    (l_a x projections + l_s x (projections + state)) / l + feed-forward + norms, residuals and
    activations

    Source: NVIDIA 2025 (Nemotron-H), arXiv:2504.03624, section 2.1 (layers of three kinds)
    """
    attending = attention_layers * attention_projection_time
    keeping = linear_layers * (linear_projection_time + linear_state_time)
    return (attending + keeping) / layers + ffn_time + elementwise_time


@alternative("state_recompute_flops_per_token", linear_attention="mamba2", off=0.0)
def mamba2_state_recompute_flops_per_token(
    linear_state_flops_per_token, linear_state_size, linear_inner_width
):
    """forward - 2 N H P: C by B and the states again, gradients of outputs by inputs once more; not
    the outputs of earlier states

    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, and its kernel in
        mamba_ssm/ops/triton/ssd_combined.py (_mamba_chunk_scan_combined_bwd)
    """
    return linear_state_flops_per_token - 2 * linear_state_size * linear_inner_width


@alternative("state_recompute_flops_per_token", linear_attention="lightning")
def lightning_state_recompute_flops_per_token(
    linear_heads, linear_state_size, linear_chunk_size, linear_head_size
):
    """2 H N (B + P): queries by keys, and the states

    Source: Qin et al. 2024 (Lightning Attention-2), arXiv:2401.04658, and its kernel in
        lightning_attn/ops/triton/lightning_attn2.py (_bwd_intra_kernel)
    """
    return 2 * linear_heads * linear_state_size * (linear_chunk_size + linear_head_size)


@alternative("state_recompute_flops_per_token", linear_attention="kimi_delta")
def kimi_state_recompute_flops_per_token(
    linear_heads, linear_state_size, linear_chunk_size, linear_head_size
):
    """H (C (2 N + 2 P + 10 C / 3) + 4 N P): as Gated DeltaNet, but both products with keys are kept

    Source: Kimi Team 2025 (Kimi Linear), arXiv:2510.26692, and its kernel in
        fla/ops/kda/chunk_bwd.py (chunk_kda_bwd)
    """
    products = 2 * (linear_state_size + linear_head_size) + 10 / 3 * linear_chunk_size
    states = 4 * linear_state_size * linear_head_size
    return linear_heads * (linear_chunk_size * products + states)


@alternative("state_recompute_flops_per_token", linear_attention="gated_deltanet")
def delta_state_recompute_flops_per_token(
    linear_heads, linear_state_size, linear_chunk_size, linear_head_size
):
    """Operations per token around a state in the backward pass beyond two products per forward one.

    H (C (6 N + 2 P + 10 C / 3) + 4 N P): keys and queries by keys, the inverse by keys and by
    values, both products of the state again; the gradient of the triangular inverse is two full
    products

    Returns: [FLOP] operations of one token
    Source: Yang et al. 2024 (Gated DeltaNet), arXiv:2412.06464, and its kernel in
        fla/ops/gated_delta_rule/chunk.py (chunk_gated_delta_rule_bwd)
    """
    state_flops = kimi_state_recompute_flops_per_token(
        linear_heads, linear_state_size, linear_chunk_size, linear_head_size
    )
    return state_flops + 4 * linear_heads * linear_chunk_size * linear_state_size


@alternative("state_recompute_time", linear_attention=KINDS, off=0.0)
def mixed_state_recompute_time(
    microbatch_tokens,
    state_recompute_flops_per_token,
    state_kernel_flops,
    linear_inner_width,
    linear_key_width,
    linear_convolution_width,
    linear_state_size,
    linear_chunk_size,
    tensor_parallel,
    bytes_per_element,
    reached_hbm_bandwidth,
    linear_layers,
    layers,
):
    """Time that a layer's backward pass spends on repeating work around states, mean over layers.

    l_s / l T / t x (max(operations / rate, (e (H P + 2 G N) + 12 N H P / Q) / BW) + 2 e channels /
    BW): outputs of the convolution read, states of each chunk written, passed on; the convolution
    again

    Returns: [s] time for one micro-batch
    Range: kernels that keep what `linear_activations_per_token` counts; those without a fused
        convolution keep its outputs
    Source: Williams et al. 2009, CACM 52(4); Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, and its
        kernel in mamba_ssm/ops/triton/ssd_combined.py
    """
    width = linear_inner_width + 2 * linear_key_width
    states = 12 * linear_state_size * linear_inner_width / linear_chunk_size
    moved = (bytes_per_element * width + states) / reached_hbm_bandwidth
    chunks = np.maximum(state_recompute_flops_per_token / state_kernel_flops, moved)
    convolution = 2 * bytes_per_element * linear_convolution_width / reached_hbm_bandwidth
    again = microbatch_tokens / tensor_parallel * (chunks + convolution)
    return linear_layers / layers * again
