"""Time of feed-forward blocks: dense, routed experts, shared experts, token permutation."""

import numpy as np

from ...alternatives import alternative, family, row
from ...laws.layer import training_gemm_time
from ...ops import where
from ..model.layer_kinds import KINDS
from .expert_traffic import expert_message


def dense_ffn_time(
    microbatch_tokens,
    hidden_size,
    ffn_hidden_size,
    ffn_matrices,
    tensor_parallel,
    operand_bytes_per_element,
    bytes_per_element,
    peak_flops,
    gemm_efficiency,
    gemm_half_depth,
    reached_hbm_bandwidth,
):
    """GEMM time of one dense feed-forward block.

    GEMM(T, (1 or 2) f / t, h) + GEMM(T, h, f / t)

    Returns: [s] mean time of a pass, forward or for a gradient
    Source: Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3; Shazeer 2020 (gates)
    """
    width = ffn_hidden_size / tensor_parallel
    wide = (ffn_matrices - 1) * width
    on_gpu = (
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_depth,
        reached_hbm_bandwidth,
    )
    entering = training_gemm_time(microbatch_tokens, wide, hidden_size, *on_gpu)
    leaving = training_gemm_time(microbatch_tokens, hidden_size, width, *on_gpu)
    return entering + leaving


@alternative("routed_visits_per_token", expert_capacity="unlimited")
def unlimited_routed_visits_per_token(
    experts_per_token, expert_load_imbalance, experts, expert_parallel
):
    """Routed-expert visits per token on the busiest rank of the expert-parallel group.

    k x imbalance, at most min(k e, E): every token at all experts of one rank, or k times

    Returns: [1] visits of one token
    Range: a single rank has the mean load, for any imbalance
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 2.2 (k for a balanced load);
        Gale et al. 2023 (MegaBlocks), arXiv:2211.15841, section 2 (the busiest expert's load)
    """
    most = np.minimum(experts_per_token * expert_parallel, experts)
    return np.minimum(experts_per_token * expert_load_imbalance, most)


@alternative("routed_visits_per_token", expert_capacity="padded")
def padded_routed_visits_per_token(experts_per_token, capacity_factor):
    """Routed-expert visits per token on the busiest rank: buffers are padded to capacity.

    k x capacity factor

    Range: padding is sent, too, as in GShard and in Megatron-Core's all-to-all dispatcher
    Source: Fedus et al. 2022 (Switch Transformers), arXiv:2101.03961, section 2.2, eq. 3; Lepikhin
        et al. 2020 (GShard), arXiv:2006.16668, section 2.2
    """
    return experts_per_token * capacity_factor


@alternative("routed_visits_per_token", expert_capacity="dropped")
def dropped_routed_visits_per_token(
    experts_per_token, expert_load_imbalance, capacity_factor, experts, expert_parallel
):
    """Routed-expert visits per token on the busiest rank: those above capacity are dropped.

    k x min(imbalance, capacity factor), at most min(k e, E)

    Range: all experts of a rank have the rank's imbalance; an upper bound if some are less loaded
    Source: Fedus et al. 2022 (Switch Transformers), arXiv:2101.03961, section 2.2, eq. 3; Megatron-
        LM, --moe-expert-capacity-factor
    """
    most = np.minimum(experts_per_token * expert_parallel, experts)
    below_capacity = experts_per_token * np.minimum(expert_load_imbalance, capacity_factor)
    return np.minimum(below_capacity, most)


def tokens_per_expert(microbatch_tokens, routed_visits_per_token, expert_parallel, experts):
    """Tokens per expert of the busiest rank from one micro-batch of its group.

    T k e / E

    Returns: [1] tokens
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 2.2 (balanced load)
    """
    return microbatch_tokens * routed_visits_per_token * expert_parallel / experts


@alternative("expert_ffn_time", linear_attention=False)
def plain_expert_ffn_time(
    tokens_per_expert,
    expert_tensor_parallel,
    tensor_parallel,
    hidden_size,
    expert_ffn_hidden_size,
    ffn_matrices,
    operand_bytes_per_element,
    bytes_per_element,
    peak_flops,
    gemm_efficiency,
    gemm_half_depth,
    reached_hbm_bandwidth,
):
    """GEMM time of one routed expert on one GPU.

    GEMM(T_e, (1 or 2) f_e / t_e, w) + GEMM(T_e, w, f_e / t_e), w its input width; with t_e < t, on
    t_e / t of the tokens

    Returns: [s] mean time of a pass, forward or for a gradient
    Source: Gale et al. 2023 (MegaBlocks), arXiv:2211.15841, section 3
    """
    return dense_ffn_time(
        tokens_per_expert * (expert_tensor_parallel / tensor_parallel),
        hidden_size,
        expert_ffn_hidden_size,
        ffn_matrices,
        expert_tensor_parallel,
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_depth,
        reached_hbm_bandwidth,
    )


family(
    {"plain_expert_ffn_time": "latent_expert_ffn_time", "hidden_size": "expert_input_width"},
    plain_expert_ffn_time,
    linear_attention=KINDS,
)


def latent_projection_time(
    microbatch_tokens,
    hidden_size,
    expert_input_width,
    operand_bytes_per_element,
    bytes_per_element,
    peak_flops,
    gemm_efficiency,
    gemm_half_depth,
    reached_hbm_bandwidth,
):
    """GEMM time of projecting tokens down before routed experts and up after them.

    GEMM(T, w, h) + GEMM(T, h, w) if w < h; else 0

    Returns: [s] mean time of a pass, forward or for a gradient
    Source: Megatron-LM, --moe-latent-size (megatron/training/training.py, moe_layer_flops)
    """
    on_gpu = (
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_depth,
        reached_hbm_bandwidth,
    )
    down = training_gemm_time(microbatch_tokens, expert_input_width, hidden_size, *on_gpu)
    up = training_gemm_time(microbatch_tokens, hidden_size, expert_input_width, *on_gpu)
    return where(expert_input_width < hidden_size, down + up, 0.0)


def separate_expert_start_time(expert_launch_time):
    """Time to start the products of one routed expert, one after the other.

    2 launches: one into the expert, one out of it

    Returns: [s] mean time of a pass, forward or for a gradient
    Range: a library that takes all experts in one kernel starts once: expert_launch_time = 0;
        where graphs replay them, a start is counted alike
    Source: TransformerEngine, transformer_engine/common/gemm/cublaslt_gemm.cu (a product at a time
        in nvte_multi_tensor_gemm); its issue 2053: 13.5 us each by PyTorch on a Xeon; XLA,
        xla/service/gpu/model/matmul_interpolator_data.h: 5 us alone on an H100
    """
    return 2 * expert_launch_time


row(
    "expert_start_time",
    "separate_expert_start_time",
    "kernels that fuse grouped products write MXFP8",
    summary="Time to start the products of one routed expert.",
    returns="[s] mean time of a pass, forward or for a gradient",
    source="TransformerEngine, transformer_engine/pytorch/ops/fused/forward_grouped_mlp.py",
    precision=("bf16", "fp16", "fp8", "fp8_blockwise", "mxfp4", "nvfp4"),
)
row("expert_start_time", "mxfp8_expert_start_time", precision="mxfp8")
row(
    "mxfp8_expert_start_time",
    "separate_expert_start_time",
    summary="Time to start the products of one routed expert in MXFP8.",
    returns="[s] mean time of a pass",
    grouped_products="separate",
)
row(
    "mxfp8_expert_start_time",
    0.0,
    "one kernel for all experts of a GPU",
    source="TransformerEngine, transformer_engine/pytorch/ops/fused/forward_grouped_mlp.py",
    grouped_products="fused",
)


@alternative("routed_ffn_time", linear_attention=False)
def routed_ffn_time(experts, expert_parallel, expert_ffn_time, expert_start_time):
    """Time of the products of one layer's routed experts on one GPU.

    E / e x (time of one expert + its start)

    Returns: [s] mean time of a pass, forward or for a gradient
    Source: Gale et al. 2023 (MegaBlocks), arXiv:2211.15841, section 3
    """
    return experts / expert_parallel * (expert_ffn_time + expert_start_time)


@alternative("routed_ffn_time", linear_attention=KINDS)
def latent_routed_ffn_time(
    experts, expert_parallel, expert_ffn_time, expert_start_time, latent_projection_time
):
    """E / e x (time of one expert + its start) + time of the down and up projections

    Source: Megatron-LM, --moe-latent-size (megatron/training/training.py, moe_layer_flops); Gale
        et al. 2023 (MegaBlocks), arXiv:2211.15841, section 3
    """
    return (
        experts / expert_parallel * (expert_ffn_time + expert_start_time) + latent_projection_time
    )


def shared_ffn_time(
    microbatch_tokens,
    shared_experts,
    hidden_size,
    expert_ffn_hidden_size,
    ffn_matrices,
    tensor_parallel,
    operand_bytes_per_element,
    bytes_per_element,
    peak_flops,
    gemm_efficiency,
    gemm_half_depth,
    reached_hbm_bandwidth,
):
    """GEMM time of one layer's shared experts, which every token visits.

    E_shared x (GEMM(T, (1 or 2) f_e / t, h) + GEMM(T, h, f_e / t))

    Returns: [s] mean time of a pass, forward or for a gradient
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2
    """
    one = dense_ffn_time(
        microbatch_tokens,
        hidden_size,
        expert_ffn_hidden_size,
        ffn_matrices,
        tensor_parallel,
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_depth,
        reached_hbm_bandwidth,
    )
    return shared_experts * one


@alternative("sorted_copies_per_token", expert_dispatch="per_expert")
def per_expert_sorted_copies_per_token(
    routed_visits_per_token, experts, expert_parallel, expert_token_ranks
):
    """Token copies read and written to sort tokens by expert, before or after the experts.

    1 + k, plus 2 k w if a rank has several experts: copied in rank order, sorted by expert on
    arrival, when the w GPUs of an expert have shared theirs

    Returns: [1] copies read and written
    Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py
        (MoEAlltoAllTokenDispatcher)
    """
    again = where(experts > expert_parallel, 2 * expert_token_ranks, 0.0)
    return 1 + routed_visits_per_token * (1 + again)


@alternative("sorted_copies_per_token", expert_dispatch=("per_node", "all_gather"))
def per_node_sorted_copies_per_token(
    routed_visits_per_token, experts_per_token, rank_visits_per_token, expert_token_ranks
):
    """w (ranks visited + k) x load: one copy arrives per rank, or is picked there, and one is made
    per expert, on each of its w GPUs

    Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py (the flex dispatcher
        permutes what DeepEP has received)
    """
    copies = routed_visits_per_token * (1 + rank_visits_per_token / experts_per_token)
    return expert_token_ranks * copies


def token_permutation_time(
    microbatch_tokens,
    expert_input_width,
    residual_ranks,
    sorted_copies_per_token,
    dispatch_bytes_per_element,
    combine_bytes_per_element,
    reached_hbm_bandwidth,
    expert_layers,
    layers,
):
    """Memory-bound time to sort one layer's tokens by expert and back, mean over layers.

    T w / t_s x copies x (dispatch + combine) / BW x l_e / l, w the experts' input width

    Returns: [s] time of one pass
    Source: Gale et al. 2023 (MegaBlocks), arXiv:2211.15841, section 5.2 (permutation kernels);
        SimuMax, simumax/core/transformer/moe_module.py (bytes of each)
    """
    tokens = microbatch_tokens * expert_input_width / residual_ranks * expert_layers / layers
    element = dispatch_bytes_per_element + combine_bytes_per_element
    return tokens * sorted_copies_per_token * element / reached_hbm_bandwidth


def router_time(
    microbatch_tokens,
    hidden_size,
    bytes_per_element,
    experts,
    residual_ranks,
    reached_hbm_bandwidth,
    expert_layers,
    layers,
):
    """Memory-bound time of one layer's router, mean over layers.

    T / t_s (e h + 32 E) / BW x l_e / l: tokens read; scores in FP32 written by the product, read
    and written by the score function, read to choose experts, and their map and weights written,
    then read to sort tokens

    Returns: [s] time of one pass
    Source: Megatron-LM, megatron/core/transformer/moe/router.py and moe_utils.py
        (topk_routing_with_score_function)
    """
    moved = bytes_per_element * hidden_size + 32 * experts
    tokens = microbatch_tokens / residual_ranks * expert_layers / layers
    return tokens * moved / reached_hbm_bandwidth


row(
    "result_bias_bytes",
    0.0,
    "XLA adds them where it reads results",
    summary="Bytes moved to add its bias to an element of an expert's result, mean of both passes.",
    returns="[B] bytes of an element",
    source="Snider & Liang 2023, arXiv:2301.13062, section III (XLA's fusion of operations)",
    whole_program=True,
)


row("result_bias_bytes", "eager_bias_bytes", whole_program=False)


@alternative("eager_bias_bytes", expert_dispatch=("per_expert", "all_gather"))
def eager_bias_bytes(bytes_per_element):
    """Bytes moved to add its bias to an element of an expert's result, mean of both passes.

    7 e: forward, bias x weight of the expert, added, joined (6 e); backward, gradients of the
    bias, of the weight, and of the result, joined (8 e)

    Returns: [B] bytes of an element
    Range: of eager PyTorch, expert by expert, with weights in the format of activations; a router
        in FP32 makes them those of the flex dispatcher; up to half of it may stay in caches
    Source: Megatron-LM, megatron/core/transformer/moe/experts.py (TEGroupedMLP)
    """
    return 7 * bytes_per_element


@alternative("eager_bias_bytes", expert_dispatch="per_node")
def float_eager_bias_bytes(bytes_per_element):
    """28 + 3 e, with weights in FP32: forward, bias x weight, added, joined and cast (24 + 2 e);
    backward, the same gradients, and the result's cast twice (32 + 4 e)

    Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py (the flex dispatcher's
        weights are FP32)
    """
    return 28 + 3 * bytes_per_element


row(
    "separate_bias_bytes",
    "result_bias_bytes",
    "only kernels that write MXFP8 add them",
    summary="Bytes moved to add biases to experts' results outside of products, of an element.",
    returns="[B] bytes of an element, mean of both passes",
    source="Megatron-LM, megatron/core/transformer/moe/experts.py (TEGroupedMLP)",
    precision=("bf16", "fp16", "fp8", "fp8_blockwise", "mxfp4", "nvfp4"),
)
row("separate_bias_bytes", "mxfp8_separate_bias_bytes", precision="mxfp8")
row(
    "mxfp8_separate_bias_bytes",
    "result_bias_bytes",
    summary="Bytes moved to add biases to experts' results in MXFP8 outside of products.",
    returns="[B] bytes of an element, mean of both passes",
    grouped_products="separate",
)
row(
    "mxfp8_separate_bias_bytes",
    0.0,
    "the product adds them",
    holds="their gradient reads results once more: 1 B, mean of both passes, in 16 bits",
    source="Megatron-LM, megatron/core/transformer/moe/experts.py (TEGroupedMLP, scale_bias)",
    grouped_products="fused",
)


@alternative("expert_bias_time", expert_biases=True, off=0.0)
def separate_expert_bias_time(
    microbatch_tokens,
    expert_input_width,
    residual_ranks,
    routed_visits_per_token,
    expert_token_ranks,
    separate_bias_bytes,
    reached_hbm_bandwidth,
    expert_layers,
    layers,
):
    """Memory-bound time to add biases to experts' results, mean over layers.

    T w / t_s x visits x bytes / BW x l_e / l, w the width of results

    Returns: [s] mean time of a pass
    Range: of results only; the entering products add their biases themselves (but in NVFP4 and
        with scales of blocks, whose gradients read them once more); a pass that runs again is a
        forward pass, which moves up to a sixth less; Megatron-LM runs no biases with several
        tensor ranks of an expert
    Source: Williams et al. 2009, CACM 52(4); Megatron-LM,
        megatron/core/transformer/moe/experts.py (TEGroupedMLP)
    """
    tokens = microbatch_tokens / residual_ranks * expert_layers / layers
    results = tokens * routed_visits_per_token * expert_token_ranks * expert_input_width
    return results * separate_bias_bytes / reached_hbm_bandwidth


@alternative("routing_time", mixture_of_experts=True, off=0.0)
def expert_routing_time(router_time, token_permutation_time, expert_bias_time):
    """Time of one layer to choose experts, sort tokens by them, and back, with biases of results.

    router + permutation + biases; mean over layers

    Returns: [s] time of one pass
    Source: Megatron-LM, megatron/core/transformer/moe/moe_layer.py
    """
    return router_time + token_permutation_time + expert_bias_time


row(
    "ffn_time",
    "dense_ffn_time",
    source="Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3",
    mixture_of_experts=False,
)


@alternative("ffn_time", mixture_of_experts=True)
def expert_model_ffn_time(
    dense_layers, dense_ffn_time, expert_layers, routed_ffn_time, shared_ffn_time, layers
):
    """Feed-forward GEMM time of a layer, mean over dense and expert layers.

    (dense x block + l_e x (routed + shared)) / l

    Returns: [s] mean time of a pass, forward or for a gradient
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2
    """
    experts = expert_layers * (routed_ffn_time + shared_ffn_time)
    return (dense_layers * dense_ffn_time + experts) / layers


row(
    "active_ffn_width",
    "ffn_hidden_size",
    source="Vaswani et al. 2017, arXiv:1706.03762, section 3.3",
    mixture_of_experts=False,
)


@alternative("active_ffn_width", mixture_of_experts=True)
def expert_active_ffn_width(
    dense_layers,
    ffn_hidden_size,
    expert_layers,
    routed_visits_per_token,
    shared_experts,
    expert_ffn_hidden_size,
    layers,
):
    """Feed-forward activation width per token and layer, mean over layers.

    (dense x f + l_e (k + E_shared) f_e) / l

    Returns: [1] width
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2
    """
    visited = (routed_visits_per_token + shared_experts) * expert_ffn_hidden_size
    return (dense_layers * ffn_hidden_size + expert_layers * visited) / layers


row(
    "separate_ffn_width",
    "active_ffn_width",
    summary="Feed-forward width per token and layer that passes through memory between products.",
    returns="[1] width",
    mixture_of_experts=False,
)
row("separate_ffn_width", "expert_separate_ffn_width", mixture_of_experts=True)
row(
    "expert_separate_ffn_width",
    "active_ffn_width",
    "kernels that fuse grouped products write MXFP8",
    summary="Width of a mixture's feed-forward blocks that passes through memory between products.",
    returns="[1] width",
    source="TransformerEngine, transformer_engine/pytorch/ops/fused/forward_grouped_mlp.py",
    precision=("bf16", "fp16", "fp8", "fp8_blockwise", "mxfp4", "nvfp4"),
)
row("expert_separate_ffn_width", "mxfp8_separate_ffn_width", precision="mxfp8")
row(
    "mxfp8_separate_ffn_width",
    "active_ffn_width",
    summary="Width of a mixture's feed-forward blocks in MXFP8 that passes through memory.",
    returns="[1] width",
    grouped_products="separate",
)


row(
    "mxfp8_separate_ffn_width",
    "unrouted_ffn_width",
    "grouped product, SwiGLU and cast to MXFP8 are one kernel, likewise backward",
    source="TransformerEngine, transformer_engine/pytorch/ops/fused/forward_grouped_mlp.py",
    grouped_products="fused",
)
row("unrouted_ffn_width", "active_ffn_width", mixture_of_experts=False)


@alternative("unrouted_ffn_width", mixture_of_experts=True)
def expert_unrouted_ffn_width(
    active_ffn_width, routed_visits_per_token, expert_ffn_hidden_size, expert_layers, layers
):
    """Feed-forward width per token and layer without routed experts, mean over layers.

    active width - l_e k f_e / l: dense blocks and shared experts

    Returns: [1] width
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2
    """
    routed = expert_layers * routed_visits_per_token * expert_ffn_hidden_size
    return active_ffn_width - routed / layers


@alternative("expert_message", linear_attention=KINDS)
def latent_expert_message(
    activation_message,
    expert_input_width,
    hidden_size,
    residual_ranks,
    routed_visits_per_token,
    expert_bytes_share,
):
    """(s / c) b w k e: tokens are sent at the experts' input width; k of the busiest rank

    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1; Megatron-LM,
        --moe-latent-size
    """
    narrow = activation_message * expert_input_width / hidden_size
    return expert_message(narrow, residual_ranks, routed_visits_per_token, expert_bytes_share)
