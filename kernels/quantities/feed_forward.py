"""Feed-forward blocks of one micro-batch on one GPU: dense, routed and shared experts."""

from typing import Any

from ..alternatives import alternative
from ..layer import gemm_time


def dense_ffn_time(
    microbatch_tokens: Any,
    hidden_size: Any,
    ffn_hidden_size: Any,
    ffn_matrices: Any,
    tensor_parallel: Any,
    operand_bytes_per_element: Any,
    bytes_per_element: Any,
    peak_flops: Any,
    gemm_efficiency: Any,
    gemm_half_size: Any,
    reached_hbm_bandwidth: Any,
) -> Any:
    """Time of the products of one dense feed-forward block.

    GEMM(T, (1 or 2) f / t, h) + GEMM(T, h, f / t)

    Parameters: microbatch_tokens [1], hidden_size [1], ffn_hidden_size [1], ffn_matrices [1],
        tensor_parallel [1], operand_bytes_per_element [B], bytes_per_element [B],
        peak_flops [FLOP/s], gemm_efficiency [1], gemm_half_size [1], reached_hbm_bandwidth [B/s]
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


def tokens_per_expert(
    microbatch_tokens: Any, experts_per_token: Any, expert_parallel: Any, experts: Any
) -> Any:
    """Tokens that each expert gets from one micro-batch of its group, shared out evenly.

    T k e / E

    Parameters: microbatch_tokens [1], experts_per_token [1], expert_parallel [1], experts [1]
    Returns: [1] tokens
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 2.2 (balanced load)
    """
    return microbatch_tokens * experts_per_token * expert_parallel / experts


def routed_ffn_time(
    tokens_per_expert: Any,
    experts: Any,
    expert_parallel: Any,
    hidden_size: Any,
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
) -> Any:
    """Time of the products of one layer's routed experts on one GPU, each on its own tokens.

    E / e x (GEMM(T_e, (1 or 2) f_e / t_e, h) + GEMM(T_e, h, f_e / t_e)), with t_e / t of the tokens
    where the tensor ranks of an expert are fewer

    Parameters: tokens_per_expert [1], experts [1], expert_parallel [1], hidden_size [1],
        expert_ffn_hidden_size [1], ffn_matrices [1], expert_tensor_parallel [1],
        tensor_parallel [1], operand_bytes_per_element [B], bytes_per_element [B],
        peak_flops [FLOP/s], gemm_efficiency [1], gemm_half_size [1], reached_hbm_bandwidth [B/s]
    Returns: [s] time of one forward pass
    Source: Gale et al. 2023 (MegaBlocks), arXiv:2211.15841, section 3
    """
    one = dense_ffn_time(
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
    return experts / expert_parallel * one


def shared_ffn_time(
    microbatch_tokens: Any,
    shared_experts: Any,
    hidden_size: Any,
    expert_ffn_hidden_size: Any,
    ffn_matrices: Any,
    tensor_parallel: Any,
    operand_bytes_per_element: Any,
    bytes_per_element: Any,
    peak_flops: Any,
    gemm_efficiency: Any,
    gemm_half_size: Any,
    reached_hbm_bandwidth: Any,
) -> Any:
    """Time of the products of one layer's shared experts, which every token visits.

    E_shared x (GEMM(T, (1 or 2) f_e / t, h) + GEMM(T, h, f_e / t))

    Parameters: microbatch_tokens [1], shared_experts [1], hidden_size [1],
        expert_ffn_hidden_size [1], ffn_matrices [1], tensor_parallel [1],
        operand_bytes_per_element [B], bytes_per_element [B], peak_flops [FLOP/s],
        gemm_efficiency [1], gemm_half_size [1], reached_hbm_bandwidth [B/s]
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


@alternative("ffn_time", mixture_of_experts=False)
def dense_model_ffn_time(dense_ffn_time: Any) -> Any:
    """Time of the feed-forward products of a layer.

    that of a dense block

    Parameters: dense_ffn_time [s]
    Returns: [s] time of one forward pass
    Source: Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3
    """
    return 1.0 * dense_ffn_time


@alternative("ffn_time", mixture_of_experts=True)
def expert_model_ffn_time(
    dense_layers: Any,
    dense_ffn_time: Any,
    expert_layers: Any,
    routed_ffn_time: Any,
    shared_ffn_time: Any,
    layers: Any,
) -> Any:
    """Time of the feed-forward products of a layer, the mean over dense and expert layers.

    (dense x block + l_e x (routed + shared)) / l

    Parameters: dense_layers [1], dense_ffn_time [s], expert_layers [1], routed_ffn_time [s],
        shared_ffn_time [s], layers [1]
    Returns: [s] time of one forward pass
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2
    """
    experts = expert_layers * (routed_ffn_time + shared_ffn_time)
    return (dense_layers * dense_ffn_time + experts) / layers


@alternative("active_ffn_width", mixture_of_experts=False)
def dense_active_ffn_width(ffn_hidden_size: Any) -> Any:
    """Width of feed-forward activations that each token has in a layer.

    f

    Parameters: ffn_hidden_size [1]
    Returns: [1] width
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.3
    """
    return 1.0 * ffn_hidden_size


@alternative("active_ffn_width", mixture_of_experts=True)
def expert_active_ffn_width(
    dense_layers: Any,
    ffn_hidden_size: Any,
    expert_layers: Any,
    experts_per_token: Any,
    shared_experts: Any,
    expert_ffn_hidden_size: Any,
    layers: Any,
) -> Any:
    """Width of feed-forward activations that each token has in a layer, the mean over layers.

    (dense x f + l_e (k + E_shared) f_e) / l

    Parameters: dense_layers [1], ffn_hidden_size [1], expert_layers [1], experts_per_token [1],
        shared_experts [1], expert_ffn_hidden_size [1], layers [1]
    Returns: [1] width
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2
    """
    visited = (experts_per_token + shared_experts) * expert_ffn_hidden_size
    return (dense_layers * ffn_hidden_size + expert_layers * visited) / layers
