"""Embedding, logits and multi-token prediction, at the ends of the model."""

from ...alternatives import alternative, row
from ...laws.layer import training_gemm_time

row(
    "embedding_share",
    0.0,
    "it takes no operations",
    source="Narayanan et al. 2021 (SC21), appendix (the input embedding is not counted)",
    compute_model="mfu",
)


@alternative("embedding_share", compute_model="roofline")
def roofline_embedding_share(
    microbatch_tokens,
    hidden_size,
    bytes_per_element,
    reached_hbm_bandwidth,
    layers,
    layer_time,
    logits_time,
    prediction_time,
):
    """Embedding's share of compute time: rows are read, written and their gradients accumulated.

    4 T h e / BW / (l x layer + embedding and logits + multi-token prediction)

    Returns: [1] share of compute time
    Source: Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3
    """
    moved = 4 * microbatch_tokens * hidden_size * bytes_per_element
    return moved / reached_hbm_bandwidth / (layers * layer_time + logits_time + prediction_time)


@alternative("logits_share", compute_model="mfu")
def mfu_logits_share(
    logits_flops_per_token,
    prediction_flops_per_token,
    kernel_flops_per_token,
    recompute_flops_factor,
):
    """Share of compute on the last stage alone: logits, loss, multi-token prediction.

    (6 V h + prediction) / (operations of a token x recompute factor)

    Returns: [1] share of compute time
    Source: Narayanan et al. 2021 (SC21), appendix (6 B s h V)
    """
    ends = logits_flops_per_token + prediction_flops_per_token
    return ends / (kernel_flops_per_token * recompute_flops_factor)


@alternative("logits_share", compute_model="roofline")
def roofline_logits_share(layers, layer_time, logits_time, prediction_time, embedding_share):
    """(embedding, logits, prediction) / (l x layer + the same) - share of the embedding

    Source: Narayanan et al. 2021 (SC21), appendix (6 B s h V), on a roofline
    """
    ends = logits_time + prediction_time
    return ends / (layers * layer_time + ends) - embedding_share


def layer_compute_time(compute_time, embedding_share, logits_share):
    """Compute time of one step in layers, which alone can hide their traffic.

    compute x (1 - embedding - logits, loss and multi-token prediction)

    Returns: [s] compute time of one step
    Source: Narayanan et al. 2021 (SC21), appendix (6 B s h V)
    """
    return compute_time * (1 - embedding_share - logits_share)


@alternative("prediction_flops_per_token", multi_token_prediction=True, off=0.0)
def some_prediction_flops_per_token(
    prediction_layers,
    layer_matrix_flops_per_token,
    attention_flops_per_token,
    layers,
    hidden_size,
    logits_flops_per_token,
):
    """Operations per token in multi-token prediction modules, forward and backward.

    D ((matrices + attention) / l + 12 h^2 + logits): layer, projection from 2 h to h, logits

    Returns: [FLOP] operations of one token
    Range: the module's layer is the model's mean layer
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.2
    """
    layer = (layer_matrix_flops_per_token + attention_flops_per_token) / layers
    projection = 12 * hidden_size * hidden_size
    return prediction_layers * (layer + projection + logits_flops_per_token)


@alternative("prediction_time", multi_token_prediction=True, off=0.0)
def some_prediction_time(
    prediction_layers,
    layer_time,
    logits_time,
    microbatch_tokens,
    hidden_size,
    tensor_parallel,
    operand_bytes_per_element,
    bytes_per_element,
    peak_flops,
    gemm_efficiency,
    gemm_half_depth,
    reached_hbm_bandwidth,
):
    """Time of multi-token prediction for one micro-batch, forward and backward.

    D (layer + 3 GEMM(T, h / t, 2 h) + embedding and logits)

    Returns: [s] time for one micro-batch
    Range: communication of the module's layer is not counted
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.2
    """
    projection = training_gemm_time(
        microbatch_tokens,
        hidden_size / tensor_parallel,
        2 * hidden_size,
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_depth,
        reached_hbm_bandwidth,
    )
    return prediction_layers * (layer_time + 3 * projection + logits_time)
