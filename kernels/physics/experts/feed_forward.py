"""Time of feed-forward blocks, dense and of routed experts."""

import numpy as np

from ...alternatives import alternative, family, row
from ...layer import gemm_time
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
    gemm_half_size,
    reached_hbm_bandwidth,
):
    """Time of the products of one dense feed-forward block.

    GEMM(T, (1 or 2) f / t, h) + GEMM(T, h, f / t)

    Returns: [s] time of one forward pass
    Source: Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3; Shazeer 2020 (gates)
    """
    width = ffn_hidden_size / tensor_parallel
    wide = (ffn_matrices - 1) * width
    on_gpu = (
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_size,
        reached_hbm_bandwidth,
    )
    entering = gemm_time(microbatch_tokens, wide, hidden_size, *on_gpu)
    leaving = gemm_time(microbatch_tokens, hidden_size, width, *on_gpu)
    return entering + leaving


@alternative("routed_visits_per_token", expert_capacity="unlimited")
def unlimited_routed_visits_per_token(
    experts_per_token, expert_load_imbalance, experts, expert_parallel
):
    """Visits of routed experts, for each token, on the busiest rank of their group.

    k x imbalance, and no more than min(k e, E): every token at all experts of one rank, or k times

    Returns: [1] visits of one token
    Range: a rank alone has the mean load, whatever the imbalance
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 2.2 (k for a balanced load);
        Gale et al. 2023 (MegaBlocks), arXiv:2211.15841, section 2 (the busiest expert's load)
    """
    most = np.minimum(experts_per_token * expert_parallel, experts)
    return np.minimum(experts_per_token * expert_load_imbalance, most)


@alternative("routed_visits_per_token", expert_capacity="padded")
def padded_routed_visits_per_token(experts_per_token, capacity_factor):
    """Visits of routed experts, for each token, on the busiest rank: all buffers are filled up.

    k x capacity factor

    Range: padding travels, too, as in GShard and in Megatron-Core's all-to-all dispatcher
    Source: Fedus et al. 2022 (Switch Transformers), arXiv:2101.03961, section 2.2, eq. 3; Lepikhin
        et al. 2020 (GShard), arXiv:2006.16668, section 2.2
    """
    return experts_per_token * capacity_factor


@alternative("routed_visits_per_token", expert_capacity="dropped")
def dropped_routed_visits_per_token(
    experts_per_token, expert_load_imbalance, capacity_factor, experts, expert_parallel
):
    """Visits of routed experts, for each token, on the busiest rank: those above are left out.

    k x min(imbalance, capacity factor), and no more than min(k e, E)

    Range: the imbalance of ranks is that of each rank's experts; a bound from above where some of
        them are idler
    Source: Fedus et al. 2022 (Switch Transformers), arXiv:2101.03961, section 2.2, eq. 3; Megatron-
        LM, --moe-expert-capacity-factor
    """
    most = np.minimum(experts_per_token * expert_parallel, experts)
    kept = experts_per_token * np.minimum(expert_load_imbalance, capacity_factor)
    return np.minimum(kept, most)


def tokens_per_expert(microbatch_tokens, routed_visits_per_token, expert_parallel, experts):
    """Tokens that each expert of the busiest rank gets from one micro-batch of its group.

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
    gemm_half_size,
    reached_hbm_bandwidth,
):
    """Time of the products of one routed expert on one GPU, on its own tokens.

    GEMM(T_e, (1 or 2) f_e / t_e, w) + GEMM(T_e, w, f_e / t_e), w the width of what it reads; t_e /
    t of the tokens where the tensor ranks of an expert are fewer

    Returns: [s] time of one forward pass
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
        gemm_half_size,
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
    gemm_half_size,
    reached_hbm_bandwidth,
):
    """Time of the products that make tokens narrower before routed experts, and wide again.

    GEMM(T, w, h) + GEMM(T, h, w) where w < h; else 0

    Returns: [s] time of one forward pass
    Source: Megatron-LM, --moe-latent-size (megatron/training/training.py, moe_layer_flops)
    """
    on_gpu = (
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_size,
        reached_hbm_bandwidth,
    )
    down = gemm_time(microbatch_tokens, expert_input_width, hidden_size, *on_gpu)
    up = gemm_time(microbatch_tokens, hidden_size, expert_input_width, *on_gpu)
    return where(expert_input_width < hidden_size, down + up, 0.0)


@alternative("routed_ffn_time", linear_attention=False)
def routed_ffn_time(experts, expert_parallel, expert_ffn_time):
    """Time of the products of one layer's routed experts on one GPU, each on its own tokens.

    E / e x that of one expert

    Returns: [s] time of one forward pass
    Source: Gale et al. 2023 (MegaBlocks), arXiv:2211.15841, section 3
    """
    return experts / expert_parallel * expert_ffn_time


@alternative("routed_ffn_time", linear_attention=KINDS)
def latent_routed_ffn_time(experts, expert_parallel, expert_ffn_time, latent_projection_time):
    """E / e x that of one expert + that of making tokens narrower for them, and wide again

    Source: Megatron-LM, --moe-latent-size (megatron/training/training.py, moe_layer_flops); Gale
        et al. 2023 (MegaBlocks), arXiv:2211.15841, section 3
    """
    return experts / expert_parallel * expert_ffn_time + latent_projection_time


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
    gemm_half_size,
    reached_hbm_bandwidth,
):
    """Time of the products of one layer's shared experts, which every token visits.

    E_shared x (GEMM(T, (1 or 2) f_e / t, h) + GEMM(T, h, f_e / t))

    Returns: [s] time of one forward pass
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
        gemm_half_size,
        reached_hbm_bandwidth,
    )
    return shared_experts * one


@alternative("sorted_copies_per_token", expert_dispatch="per_expert")
def per_expert_sorted_copies_per_token(routed_visits_per_token, experts, expert_parallel):
    """Copies of a token read and written to sort tokens by expert, before the experts or after.

    1 + k, and 2 k more where a rank has several experts: tokens are copied in the order of ranks,
    and what has come is sorted by expert

    Returns: [1] copies read and written
    Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py
        (MoEAlltoAllTokenDispatcher)
    """
    again = where(experts > expert_parallel, 2.0, 0.0)
    return 1 + routed_visits_per_token * (1 + again)


@alternative("sorted_copies_per_token", expert_dispatch="per_node")
def per_node_sorted_copies_per_token(
    routed_visits_per_token, experts_per_token, rank_visits_per_token
):
    """(ranks visited + k) x load: one copy for each rank has come, one for each expert is made

    Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py (the flex dispatcher
        permutes what DeepEP has received)
    """
    return routed_visits_per_token * (1 + rank_visits_per_token / experts_per_token)


@alternative("token_permutation_time", mixture_of_experts=True, off=0.0)
def routed_token_permutation_time(
    microbatch_tokens,
    hidden_size,
    residual_ranks,
    sorted_copies_per_token,
    dispatch_bytes_per_element,
    combine_bytes_per_element,
    reached_hbm_bandwidth,
    expert_layers,
    layers,
):
    """Time to sort one layer's tokens by expert and back: bound by memory; the mean over layers.

    T h / t_s x copies x (dispatch + combine) / BW x l_e / l

    Returns: [s] time of one pass
    Source: Gale et al. 2023 (MegaBlocks), arXiv:2211.15841, section 5.2 (permutation kernels);
        SimuMax, simumax/core/transformer/moe_module.py (bytes of each)
    """
    tokens = microbatch_tokens * hidden_size / residual_ranks * expert_layers / layers
    element = dispatch_bytes_per_element + combine_bytes_per_element
    return tokens * sorted_copies_per_token * element / reached_hbm_bandwidth


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
    """Time of the feed-forward products of a layer, the mean over dense and expert layers.

    (dense x block + l_e x (routed + shared)) / l

    Returns: [s] time of one forward pass
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
    """Width of feed-forward activations that each token has in a layer, the mean over layers.

    (dense x f + l_e (k + E_shared) f_e) / l

    Returns: [1] width
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2
    """
    visited = (routed_visits_per_token + shared_experts) * expert_ffn_hidden_size
    return (dense_layers * ffn_hidden_size + expert_layers * visited) / layers


@alternative("expert_message", linear_attention=KINDS)
def latent_expert_message(
    activation_message,
    expert_input_width,
    hidden_size,
    residual_ranks,
    routed_visits_per_token,
    expert_bytes_share,
):
    """(s / c) b w k e: what travels is as wide as what experts read; k those of the busiest rank

    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1; Megatron-LM,
        --moe-latent-size
    """
    narrow = activation_message * expert_input_width / hidden_size
    return expert_message(narrow, residual_ranks, routed_visits_per_token, expert_bytes_share)
