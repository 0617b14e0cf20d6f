"""Work of one step and the time to compute it."""

from typing import Any

from ..alternatives import alternative
from ..roofline import roofline_flops


def tokens_per_step(global_batch_size: Any, sequence_length: Any) -> Any:
    """Tokens that one optimizer step consumes.

    B s

    Parameters: global_batch_size [1], sequence_length [1]
    Returns: [1] tokens of one step
    Source: by definition of the global batch (Narayanan et al. 2021, section 5.1)
    Example:
        >>> tokens_per_step(512, 8192)
        4194304
    """
    return global_batch_size * sequence_length


@alternative("active_matrix_parameters", mixture_of_experts=False)
def dense_active_matrix_parameters(
    layers: Any, attention_parameters_per_layer: Any, ffn_parameters: Any
) -> Any:
    """Weights of the layers' matrices that each token is multiplied with.

    l x attention + feed-forward

    Parameters: layers [1], attention_parameters_per_layer [1], ffn_parameters [1]
    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2 (12 l h^2)
    """
    return layers * attention_parameters_per_layer + ffn_parameters


@alternative("active_matrix_parameters", mixture_of_experts=True)
def expert_active_matrix_parameters(
    layers: Any, attention_parameters_per_layer: Any, ffn_parameters: Any, skipped_parameters: Any
) -> Any:
    """Weights of the layers' matrices that each token is multiplied with.

    l x attention + feed-forward - N_skipped

    Parameters: layers [1], attention_parameters_per_layer [1], ffn_parameters [1],
        skipped_parameters [1]
    Returns: [1] parameters
    Source: Jiang et al. 2024 (Mixtral), arXiv:2401.04088, section 2.1
    """
    return layers * attention_parameters_per_layer + ffn_parameters - skipped_parameters


@alternative("model_flops_per_token", flops_counting="parameters")
def parameters_model_flops_per_token(active_parameters: Any) -> Any:
    """Operations that one token needs, forward and backward, nothing recomputed: the estimate.

    6 N_active

    Parameters: active_parameters [1]
    Returns: [FLOP] model operations of one token
    Source: Kaplan et al. 2020, arXiv:2001.08361, section 2.1
    """
    return 6 * active_parameters


@alternative("model_flops_per_token", flops_counting="transformer")
def transformer_model_flops_per_token(
    active_matrix_parameters: Any,
    layers: Any,
    sequence_length: Any,
    attention_heads: Any,
    head_size: Any,
    vocab_size: Any,
    hidden_size: Any,
) -> Any:
    """Operations that one token needs, forward and backward, nothing recomputed: by matrix.

    6 N_matrices + 12 l s a (h / a) + 6 V h; 72 l h^2 (1 + s / (6 h) + V / (12 l h)) for a GPT

    Parameters: active_matrix_parameters [1], layers [1], sequence_length [1], attention_heads [1],
        head_size [1], vocab_size [1], hidden_size [1]
    Returns: [FLOP] model operations of one token
    Source: Narayanan et al. 2021 (SC21), appendix; Korthikanti et al. 2022, arXiv:2205.05198, eq. 7
    """
    scores = 12 * layers * sequence_length * attention_heads * head_size
    return 6 * active_matrix_parameters + scores + 6 * vocab_size * hidden_size


@alternative("model_flops_per_token", flops_counting="transformer_causal")
def causal_model_flops_per_token(
    active_matrix_parameters: Any,
    layers: Any,
    sequence_length: Any,
    attention_heads: Any,
    head_size: Any,
    vocab_size: Any,
    hidden_size: Any,
) -> Any:
    """Operations that one token needs, forward and backward, nothing recomputed or masked.

    6 N_matrices + 6 l s a (h / a) + 6 V h: a causal mask leaves half of the scores

    Parameters: active_matrix_parameters [1], layers [1], sequence_length [1], attention_heads [1],
        head_size [1], vocab_size [1], hidden_size [1]
    Returns: [FLOP] model operations of one token
    Source: Dao 2023 (FlashAttention-2), arXiv:2307.08691, section 4.1 (half of the operations)
    """
    scores = 6 * layers * sequence_length * attention_heads * head_size
    return 6 * active_matrix_parameters + scores + 6 * vocab_size * hidden_size


def model_flops_per_step(model_flops_per_token: Any, tokens_per_step: Any) -> Any:
    """Operations that one step needs, forward and backward, nothing recomputed.

    operations of a token x B s; 6 N_active D by default

    Parameters: model_flops_per_token [FLOP], tokens_per_step [1]
    Returns: [FLOP] model operations of one step
    Source: Kaplan et al. 2020, arXiv:2001.08361, section 2.1
    Example:
        >>> model_flops_per_step(6e12, 6.67e6) / 1e18
        40.02
    """
    return model_flops_per_token * tokens_per_step


@alternative("layer_flops_share", flops_counting="parameters")
def parameters_layer_flops_share() -> Any:
    """Share of the model's operations that is in its layers: taken as all of them.

    1

    Parameters: none
    Returns: [1] share
    Source: Narayanan et al. 2021 (SC21), section 5.1 (8 T P operations with recompute)
    """
    return 1.0


@alternative("layer_flops_share", flops_counting=("transformer", "transformer_causal"))
def transformer_layer_flops_share(
    model_flops_per_token: Any, vocab_size: Any, hidden_size: Any
) -> Any:
    """Share of the model's operations that is in its layers: all but the logits.

    1 - 6 V h / operations of a token

    Parameters: model_flops_per_token [FLOP], vocab_size [1], hidden_size [1]
    Returns: [1] share
    Source: Narayanan et al. 2021 (SC21), eq. 3 (V / (16 l h): logits are not computed again)
    """
    return 1 - 6 * vocab_size * hidden_size / model_flops_per_token


@alternative("recompute_flops_factor", recompute="none")
def no_recompute_flops_factor() -> Any:
    """Hardware over model operations when every activation is kept.

    1

    Parameters: none
    Returns: [1] hardware over model operations
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 5
    """
    return 1.0


@alternative("recompute_flops_factor", recompute="selective")
def selective_recompute_flops_factor(
    layers: Any,
    attention_heads: Any,
    head_size: Any,
    sequence_length: Any,
    model_flops_per_token: Any,
) -> Any:
    """Hardware over model operations when the attention matrices are computed twice.

    1 + 4 l s a (h / a) / operations of a token: one more forward pass of the two products (the
    published HFUs of Korthikanti et al. 2022 count 12)

    Parameters: layers [1], attention_heads [1], head_size [1], sequence_length [1],
        model_flops_per_token [FLOP]
    Returns: [1] hardware over model operations
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 5 (what is recomputed); Narayanan et
        al. 2021, appendix (4 B s^2 h operations of the two products in a layer's forward pass)
    """
    attention = 4 * layers * sequence_length * (attention_heads * head_size)
    return 1 + attention / model_flops_per_token


@alternative("recompute_flops_factor", recompute="full")
def full_recompute_flops_factor(layer_flops_share: Any) -> Any:
    """Hardware over model operations when each layer's forward pass is computed twice.

    1 + layers' share / 3; 4/3 where that is all

    Parameters: layer_flops_share [1]
    Returns: [1] hardware over model operations
    Source: Narayanan et al. 2021 (SC21), eq. 3 (96 against 72 B s l h^2)
    """
    return 1 + layer_flops_share / 3


@alternative("peak_flops", precision="bf16")
def bf16_peak_flops(peak_flops_bf16: Any) -> Any:
    """Dense peak of one GPU in the format of the run.

    peak_flops_bf16

    Parameters: peak_flops_bf16 [FLOP/s]
    Returns: [FLOP/s] peak
    Source: stated by the scenario
    """
    return 1.0 * peak_flops_bf16


@alternative("peak_flops", precision="fp16")
def fp16_peak_flops(peak_flops_fp16: Any) -> Any:
    """Dense peak of one GPU in the format of the run.

    peak_flops_fp16

    Parameters: peak_flops_fp16 [FLOP/s]
    Returns: [FLOP/s] peak
    Source: stated by the scenario
    """
    return 1.0 * peak_flops_fp16


@alternative("peak_flops", precision="fp8")
def fp8_peak_flops(peak_flops_fp8: Any) -> Any:
    """Dense peak of one GPU in the format of the run.

    peak_flops_fp8

    Parameters: peak_flops_fp8 [FLOP/s]
    Returns: [FLOP/s] peak
    Source: stated by the scenario
    """
    return 1.0 * peak_flops_fp8


@alternative("peak_flops", precision="fp4")
def fp4_peak_flops(peak_flops_fp4: Any) -> Any:
    """Dense peak of one GPU in the format of the run.

    peak_flops_fp4

    Parameters: peak_flops_fp4 [FLOP/s]
    Returns: [FLOP/s] peak
    Source: stated by the scenario
    """
    return 1.0 * peak_flops_fp4


def ideal_compute_time(model_flops_per_step: Any, n_gpus: Any, peak_flops: Any) -> Any:
    """Time of one step if every GPU ran at its peak.

    F / (n P)

    Parameters: model_flops_per_step [FLOP], n_gpus [1], peak_flops [FLOP/s]
    Returns: [s] ideal time of one step
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B (the 100 % of MFU)
    """
    return model_flops_per_step / (n_gpus * peak_flops)


@alternative("compute_time", compute_model="mfu")
def mfu_compute_time(
    ideal_compute_time: Any, recompute_flops_factor: Any, flops_efficiency: Any
) -> Any:
    """Time of one step in which GPUs compute; no bubble, no communication, no straggler.

    F / (n P) x (hardware / model operations) / efficiency

    Parameters: ideal_compute_time [s], recompute_flops_factor [1], flops_efficiency [1]
    Returns: [s] compute time of one step
    Source: Narayanan et al. 2021 (SC21), section 5.1 (8 T P / (n X), written per step)
    """
    return ideal_compute_time * recompute_flops_factor / flops_efficiency


@alternative("compute_time", compute_model="roofline")
def roofline_compute_time(
    num_microbatches: Any, layers: Any, pipeline_parallel: Any, layer_time: Any, logits_time: Any
) -> Any:
    """Time of one step in which GPUs compute; no bubble, no communication, no straggler.

    m (l x layer + embedding and logits) / p: the stages share the work evenly

    Parameters: num_microbatches [1], layers [1], pipeline_parallel [1], layer_time [s],
        logits_time [s]
    Returns: [s] compute time of one step
    Source: Narayanan et al. 2021 (SC21), appendix, on the roofline of Williams et al. 2009
    """
    return num_microbatches * (layers * layer_time + logits_time) / pipeline_parallel


def arithmetic_intensity(microbatch_tokens: Any, bytes_per_element: Any) -> Any:
    """Operations per byte of weights read, for the tokens that one pass sees.

    2 T / e: each weight is read once and used in one multiply-add per token

    Parameters: microbatch_tokens [1], bytes_per_element [B]
    Returns: [FLOP/B] intensity; one token in BF16 (decoding) gives 1
    Source: Williams et al. 2009, CACM 52(4); Fleet Foundations, the single-accelerator roofline
    Example:
        >>> arithmetic_intensity(1, 2)
        1.0
    """
    return 2 * microbatch_tokens / bytes_per_element


def ridge_point(peak_flops: Any, hbm_bandwidth: Any) -> Any:
    """Arithmetic intensity at which a GPU turns from memory-bound to compute-bound.

    P / BW

    Parameters: peak_flops [FLOP/s], hbm_bandwidth [B/s]
    Returns: [FLOP/B] intensity at the ridge
    Source: Williams et al. 2009, CACM 52(4); Fleet Foundations eq. 4
    Example:
        >>> round(ridge_point(989e12, 3.35e12), 1)
        295.2
    """
    return peak_flops / hbm_bandwidth


def attainable_flops(arithmetic_intensity: Any, peak_flops: Any, hbm_bandwidth: Any) -> Any:
    """Rate that the roofline of one GPU allows.

    min(P, I BW)

    Parameters: arithmetic_intensity [FLOP/B], peak_flops [FLOP/s], hbm_bandwidth [B/s]
    Returns: [FLOP/s] attainable rate
    Source: Williams et al. 2009, CACM 52(4); Fleet Foundations eq. 3
    """
    return roofline_flops(arithmetic_intensity, peak_flops, hbm_bandwidth)
