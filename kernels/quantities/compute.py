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


def model_flops_per_step(active_parameters: Any, tokens_per_step: Any) -> Any:
    """Operations that one step needs, forward and backward, nothing recomputed.

    6 N_active D

    Parameters: active_parameters [1], tokens_per_step [1]
    Returns: [FLOP] model operations of one step
    Source: Kaplan et al. 2020, arXiv:2001.08361, section 2.1
    Example:
        >>> model_flops_per_step(1e12, 6.67e6) / 1e18
        40.02
    """
    return 6 * active_parameters * tokens_per_step


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
    layers: Any, hidden_size: Any, sequence_length: Any, active_parameters: Any
) -> Any:
    """Hardware over model operations when the attention matrices are computed twice.

    1 + 4 l s h / (6 N_active): one more forward pass of the two attention products, per token

    Parameters: layers [1], hidden_size [1], sequence_length [1], active_parameters [1]
    Returns: [1] hardware over model operations
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 5 (what is recomputed); Narayanan et
        al. 2021, appendix (4 B s^2 h operations of the two products in a layer's forward pass)
    """
    attention = 4 * layers * sequence_length * hidden_size
    return 1 + attention / (6 * active_parameters)


@alternative("recompute_flops_factor", recompute="full")
def full_recompute_flops_factor() -> Any:
    """Hardware over model operations when each layer's forward pass is computed twice.

    (1 + 1 + 2) / (1 + 2) = 4/3

    Parameters: none
    Returns: [1] hardware over model operations
    Source: Narayanan et al. 2021 (SC21), eq. 3 (96 against 72 B s l h^2)
    """
    return 4 / 3


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
def roofline_compute_time(ideal_compute_time: Any) -> Any:
    """Placeholder.

    x

    Parameters: ideal_compute_time [s]
    Returns: [s] compute time of one step
    Source: by definition
    """
    return 1.0 * ideal_compute_time


def arithmetic_intensity(
    micro_batch_size: Any, sequence_length: Any, context_parallel: Any, bytes_per_element: Any
) -> Any:
    """Operations per byte of weights read, for the tokens that one pass sees.

    2 (b s / cp) / e: each weight is read once and used in one multiply-add per token

    Parameters: micro_batch_size [1], sequence_length [1], context_parallel [1],
        bytes_per_element [B]
    Returns: [FLOP/B] intensity; one token in BF16 (decoding) gives 1
    Source: Williams et al. 2009, CACM 52(4); Fleet Foundations, the single-accelerator roofline
    Example:
        >>> arithmetic_intensity(1, 1, 1, 2)
        1.0
    """
    return 2 * micro_batch_size * sequence_length / (context_parallel * bytes_per_element)


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
