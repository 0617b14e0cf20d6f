"""Routed experts that work on a narrower copy of each token, beside layers of several kinds."""

from typing import Any

from ..alternatives import alternative
from ..layer import gemm_time
from ..ops import where
from .expert_traffic import expert_message
from .feed_forward import routed_ffn_time
from .layer_kinds import KINDS
from .model import expert_parameters


def expert_input_width(hidden_size: Any) -> Any:
    """Width of the tokens that routed experts work on: the residual stream's, unless stated.

    h

    Parameters: hidden_size [1]
    Returns: [1] width
    Source: Fedus et al. 2022, arXiv:2101.03961, section 2.1
    """
    return 1.0 * hidden_size


@alternative("expert_parameters", linear_attention=KINDS)
def latent_expert_parameters(
    expert_input_width: Any, expert_ffn_hidden_size: Any, ffn_matrices: Any
) -> Any:
    """Weights of one routed expert.

    2 w f_e, 3 w f_e with a gate

    Parameters: expert_input_width [1], expert_ffn_hidden_size [1], ffn_matrices [1]
    Returns: [1] parameters
    Source: Megatron-LM, --moe-latent-size (megatron/training/training.py, moe_layer_flops)
    """
    return expert_parameters(expert_input_width, expert_ffn_hidden_size, ffn_matrices)


@alternative("latent_parameters", mixture_of_experts=False)
def no_latent_parameters() -> Any:
    """Weights around routed experts of another width than the model's: there are none.

    0

    Parameters: none
    Returns: [1] parameters
    Source: by definition
    """
    return 0.0


@alternative("latent_parameters", mixture_of_experts=True)
def expert_latent_parameters(
    expert_layers: Any,
    shared_experts: Any,
    ffn_matrices: Any,
    expert_ffn_hidden_size: Any,
    hidden_size: Any,
    expert_input_width: Any,
) -> Any:
    """Weights around routed experts of another width than the model's.

    l_e (E_shared (2 or 3) f_e (h - w) + 2 h w where w < h): shared experts work on whole tokens;
    every layer makes tokens narrower for the routed ones, and their results as wide again

    Parameters: expert_layers [1], shared_experts [1], ffn_matrices [1],
        expert_ffn_hidden_size [1], hidden_size [1], expert_input_width [1]
    Returns: [1] parameters
    Source: Megatron-LM, --moe-latent-size (megatron/training/training.py, moe_layer_flops)
    """
    wider = shared_experts * ffn_matrices * expert_ffn_hidden_size
    wider = wider * (hidden_size - expert_input_width)
    narrower = expert_input_width < hidden_size
    both_ways = where(narrower, 2 * hidden_size * expert_input_width, 0.0)
    return expert_layers * (wider + both_ways)


@alternative("routed_ffn_time", linear_attention=KINDS)
def latent_routed_ffn_time(
    tokens_per_expert: Any,
    experts: Any,
    expert_parallel: Any,
    expert_input_width: Any,
    expert_ffn_hidden_size: Any,
    ffn_matrices: Any,
    expert_tensor_parallel: Any,
    tensor_parallel: Any,
    operand_bytes_per_element: Any,
    bytes_per_element: Any,
    peak_flops: Any,
    gemm_efficiency: Any,
    gemm_half_size: Any,
    reached_hbm_bandwidth: Any,
    microbatch_tokens: Any,
    hidden_size: Any,
) -> Any:
    """Time of the products of one layer's routed experts on one GPU, each on its own tokens.

    E / e x (GEMM(T_e, (1 or 2) f_e / t_e, w) + GEMM(T_e, w, f_e / t_e)), with t_e / t of the tokens
    where the tensor ranks of an expert are fewer, and where w < h GEMM(T, w, h) + GEMM(T, h, w)

    Parameters: tokens_per_expert [1], experts [1], expert_parallel [1], expert_input_width [1],
        expert_ffn_hidden_size [1], ffn_matrices [1], expert_tensor_parallel [1],
        tensor_parallel [1], operand_bytes_per_element [B], bytes_per_element [B],
        peak_flops [FLOP/s], gemm_efficiency [1], gemm_half_size [1], reached_hbm_bandwidth [B/s],
        microbatch_tokens [1], hidden_size [1]
    Returns: [s] time of one forward pass
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
    activation_message: Any,
    expert_input_width: Any,
    hidden_size: Any,
    residual_ranks: Any,
    routed_visits_per_token: Any,
    expert_bytes_share: Any,
) -> Any:
    """Bytes that one rank sends to experts for one layer and micro-batch, the mean of both ways.

    (s / c) b w k e: what travels is as wide as what experts read; k those of the busiest rank

    Parameters: activation_message [B], expert_input_width [1], hidden_size [1],
        residual_ranks [1], routed_visits_per_token [1], expert_bytes_share [1]
    Returns: [B] message
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1; Megatron-LM,
        --moe-latent-size
    """
    narrow = activation_message * expert_input_width / hidden_size
    return expert_message(narrow, residual_ranks, routed_visits_per_token, expert_bytes_share)
