"""Routed experts that work on a narrower copy of each token, beside layers of several kinds."""

from ..alternatives import alternative
from ..layer import gemm_time
from ..ops import where
from .expert_traffic import expert_message
from .feed_forward import routed_ffn_time
from .layer_kinds import KINDS
from .model import expert_parameters


def expert_input_width(hidden_size):
    """Width of the tokens that routed experts work on: the residual stream's, unless stated.

    h

    Returns: [1] width
    Source: Fedus et al. 2022, arXiv:2101.03961, section 2.1
    """
    return 1.0 * hidden_size


@alternative("expert_parameters", linear_attention=KINDS)
def latent_expert_parameters(expert_input_width, expert_ffn_hidden_size, ffn_matrices):
    """Weights of one routed expert.

    2 w f_e, 3 w f_e with a gate

    Source: Megatron-LM, --moe-latent-size (megatron/training/training.py, moe_layer_flops)
    """
    return expert_parameters(expert_input_width, expert_ffn_hidden_size, ffn_matrices)


@alternative("latent_parameters", mixture_of_experts=False)
def no_latent_parameters():
    """Weights around routed experts of another width than the model's: there are none.

    0

    Returns: [1] parameters
    Source: by definition
    """
    return 0.0


@alternative("latent_parameters", mixture_of_experts=True)
def expert_latent_parameters(
    expert_layers,
    shared_experts,
    ffn_matrices,
    expert_ffn_hidden_size,
    hidden_size,
    expert_input_width,
):
    """Weights around routed experts of another width than the model's.

    l_e (E_shared (2 or 3) f_e (h - w) + 2 h w where w < h): shared experts work on whole tokens;
    every layer makes tokens narrower for the routed ones, and their results as wide again

    Source: Megatron-LM, --moe-latent-size (megatron/training/training.py, moe_layer_flops)
    """
    wider = shared_experts * ffn_matrices * expert_ffn_hidden_size
    wider = wider * (hidden_size - expert_input_width)
    narrower = expert_input_width < hidden_size
    both_ways = where(narrower, 2 * hidden_size * expert_input_width, 0.0)
    return expert_layers * (wider + both_ways)


@alternative("routed_ffn_time", linear_attention=KINDS)
def latent_routed_ffn_time(
    tokens_per_expert,
    experts,
    expert_parallel,
    expert_input_width,
    expert_ffn_hidden_size,
    ffn_matrices,
    expert_tensor_parallel,
    tensor_parallel,
    operand_bytes_per_element,
    bytes_per_element,
    peak_flops,
    gemm_efficiency,
    gemm_half_size,
    reached_hbm_bandwidth,
    microbatch_tokens,
    hidden_size,
):
    """E / e x (GEMM(T_e, (1 or 2) f_e / t_e, w) + GEMM(T_e, w, f_e / t_e)), with t_e / t of the
    tokens where the tensor ranks of an expert are fewer, and where w < h GEMM(T, w, h) + GEMM(T, h,
    w)

    Source: Megatron-LM, --moe-latent-size (megatron/training/training.py, moe_layer_flops); Gale
        et al. 2023 (MegaBlocks), arXiv:2211.15841, section 3
    """
    on_gpu = (
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_size,
        reached_hbm_bandwidth,
    )
    routed = routed_ffn_time(
        tokens_per_expert,
        experts,
        expert_parallel,
        expert_input_width,
        expert_ffn_hidden_size,
        ffn_matrices,
        expert_tensor_parallel,
        tensor_parallel,
        *on_gpu,
    )
    down = gemm_time(microbatch_tokens, expert_input_width, hidden_size, *on_gpu)
    up = gemm_time(microbatch_tokens, hidden_size, expert_input_width, *on_gpu)
    return routed + where(expert_input_width < hidden_size, down + up, 0.0)


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
