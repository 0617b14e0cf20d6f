"""Operations of a step, and the rate at which one GPU executes them."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...laws.roofline import roofline_flops

_RATE = "[FLOP/s] peak"
row(
    "kernel_peak_flops",
    "sixteen_bit_kernel_peak_flops",
    summary="Dense peak of one GPU over all operations of a step.",
    returns=_RATE,
    precision=("bf16", "fp16"),
)
row(
    "sixteen_bit_kernel_peak_flops",
    "peak_flops",
    summary="Dense peak of one GPU over a step with matrices in 16 bits.",
    returns=_RATE,
    attention_kernel="standard",
)
row("sixteen_bit_kernel_peak_flops", "flash_kernel_peak_flops", attention_kernel="flash")
row(
    "flash_kernel_peak_flops",
    "peak_flops",
    summary="Dense peak of one GPU over a step with matrices in 16 bits and a fused kernel.",
    returns=_RATE,
    attention_precision=False,
)
row("flash_kernel_peak_flops", "mixed_kernel_peak_flops", attention_precision="fp8")
row(
    "kernel_peak_flops",
    "mixed_kernel_peak_flops",
    precision=("fp8", "fp8_blockwise", "mxfp8", "mxfp4", "nvfp4"),
)


def mixed_kernel_peak_flops(
    layer_matrix_flops_per_token,
    matrix_recompute_passes,
    matrix_passes,
    attention_flops_per_token,
    attention_recompute_passes,
    attention_backward_ratio,
    attention_backward_time_ratio,
    logits_flops_per_token,
    peak_flops,
    kernel_attention_peak_flops,
    logits_peak_flops,
):
    """Dense peak of one GPU over all operations of a step, each kind at its own peak.

    (M + A + L) / (M / P + A' / P_attention + L / P_logits), recomputation included; A' counts the
    backward pass by its time over that of a forward pass, A by its operations

    Returns: [FLOP/s] peak
    Source: Amdahl 1967, AFIPS 30 (each part at its own rate); DeepSeek-AI 2024, arXiv:2412.19437,
        section 3.3.1 (which part is in few bits)
    """
    passes = (1 + attention_backward_ratio + attention_recompute_passes) / 3
    timed = (1 + attention_backward_time_ratio + attention_recompute_passes) / 3
    matrices = layer_matrix_flops_per_token * (1 + matrix_recompute_passes / matrix_passes)
    attention = attention_flops_per_token * timed
    least = matrices / peak_flops + attention / kernel_attention_peak_flops
    least = least + logits_flops_per_token / logits_peak_flops
    done = matrices + attention_flops_per_token * passes + logits_flops_per_token
    return done / least


row(
    "weight_passes",
    3.0,
    "forward, gradient of inputs, gradient of weights",
    summary="Products with a weight of the model, forward and backward.",
    returns="[1] passes",
    source="Kaplan et al. 2020, arXiv:2001.08361, section 2.1",
    lora=False,
)
row("weight_passes", 2.0, "frozen", source="Hu et al. 2022 (LoRA), arXiv:2106.09685", lora=True)


@alternative("matrix_passes", lora=True, off="weight_passes")
def lora_matrix_passes(weight_passes, trained_share, layer_matrix_share):
    """Products with a layer's matrices and adapters, forward and backward, over those forward.

    2 + 3 N_lora / N_matrices

    Returns: [1] passes
    Range: overlap windows, bubbles and what is computed twice take a forward pass for a third of
        a step, as without adapters; experts that a token does not visit have their share
    Source: Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.2
    """
    return weight_passes + 3 * trained_share / layer_matrix_share


def layer_matrix_flops_per_token(
    active_matrix_parameters, matrix_passes, linear_layers, linear_state_flops_per_token
):
    """Operations per token in the layers' matrices, forward and backward, without recomputation.

    2 x passes x N_matrices + 3 l_s x those around a state, each with two backward products; 6
    N_matrices without states or frozen weights: a multiply-add per weight and pass

    Returns: [FLOP] operations of one token
    Range: with precisions of 8 bits or less, states run at the rate of the matrices (compute_model
        = mfu); they are about 1 to 4 % of the operations
    Source: Kaplan et al. 2020, arXiv:2001.08361, section 2.1; Dao & Gu 2024 (Mamba-2),
        arXiv:2405.21060, section 6
    """
    states = 3 * linear_layers * linear_state_flops_per_token
    return 2 * matrix_passes * active_matrix_parameters + states


def logits_flops_per_token(vocab_size, hidden_size, weight_passes):
    """Operations per token in the logits product, forward and backward.

    2 x passes x V h, 6 V h unless weights are frozen

    Returns: [FLOP] operations of one token
    Source: Narayanan et al. 2021 (SC21), appendix (6 B s h V)
    """
    return 2 * weight_passes * vocab_size * hidden_size


row(
    "attention_span",
    "sequence_length",
    source="Narayanan et al. 2021 (SC21), appendix (every query with every key)",
    sliding_window=False,
)


@alternative("attention_span", sliding_window=True)
def windowed_attention_span(
    sequence_length, attention_window, windowed_layers, attention_layers, layers
):
    """Keys per query before masking, limited to a window in some layers.

    l_a / l s - l_w / l (s - min(w, s)), mean over layers, l_a of which have attention

    Returns: [1] keys of one query
    Source: Jiang et al. 2023 (Mistral 7B), arXiv:2310.06825, section 2
    """
    width = np.minimum(attention_window, sequence_length)
    attending = np.minimum(attention_layers / layers, 1.0)
    share = np.minimum(windowed_layers / layers, attending)
    return attending * sequence_length - share * (sequence_length - width)


@alternative("full_layer_span", document_mask=False)
def full_layer_span(sequence_length):
    """Keys per query under the mask of a layer without a window, mean over the sequence.

    s / 2: all before it

    Returns: [1] keys of one query
    Range: half a key below (s + 1) / 2, which counts the query's own key in full
    Source: Dao 2023 (FlashAttention-2), arXiv:2307.08691, section 4.1 (half of the operations)
    """
    return sequence_length / 2


@alternative("full_layer_span", document_mask=True)
def document_full_layer_span(sequence_length, document_length):
    """d (1 - (1 - e^(-s / d)) d / s), d the mean document: those before it in its document

    Range: documents of exponential length, one after the other, cut where a sequence ends: half a
        key below the count, as without documents. Of lognormal lengths, say half the mean over
        tokens, sum L^2 / (2 sum L): exact for s >> d and s << d, but 63 % too many at s = 16 d with
        a deviation of 1.5 in ln L; the plain mean gives 55 % too few there
    Source: Feller 1968, chapter XI (how far back a renewal lies, here the end of a document);
        Grattafiori et al. 2024, arXiv:2407.21783, section 3.2 (mask between documents)
    """
    ending = -np.expm1(-(sequence_length / document_length))
    return document_length * (1 - ending * document_length / sequence_length)


@alternative("windowed_layer_span", document_mask=False)
def windowed_layer_span(sequence_length, attention_window):
    """Keys per query under the mask of a layer with a window, mean over the sequence.

    w (1 - w / (2 s)), w at most s: the first w queries see fewer keys than the window

    Returns: [1] keys of one query
    Range: below the exact w - w (w - 1) / (2 s) by w / (2 s), at most half a key
    Source: Jiang et al. 2023 (Mistral 7B), arXiv:2310.06825, section 2; mean over the triangle and
        the band under the mask
    """
    width = np.minimum(attention_window, sequence_length)
    return width * (1 - width / (2 * sequence_length))


@alternative("windowed_layer_span", document_mask=True)
def document_windowed_layer_span(sequence_length, attention_window, document_length):
    """d (1 - (d (1 - e^(-w / d)) + (s - w) e^(-w / d)) / s), w at most s

    Range: documents of exponential length; see `full_layer_span`
    Source: Feller 1968, chapter XI, as `full_layer_span`, under the band of Jiang et al. 2023
        (Mistral 7B), arXiv:2310.06825, section 2
    """
    width = np.minimum(attention_window, sequence_length)
    ending = -np.expm1(-(width / document_length))
    through = (sequence_length - width) * (1 - ending)
    return document_length * (1 - (document_length * ending + through) / sequence_length)


row(
    "causal_attention_span",
    "full_layer_span",
    summary="Keys per query under a causal mask, mean over sequence and layers.",
    returns="[1] keys of one query",
    source="Dao 2023 (FlashAttention-2), arXiv:2307.08691, section 4.1",
    sliding_window=False,
)


@alternative("causal_attention_span", sliding_window=True)
def windowed_causal_attention_span(
    full_layer_span, windowed_layer_span, windowed_layers, attention_layers, layers
):
    """(l_a - l_w) / l x keys without a window + l_w / l x keys in a window; l_a of l layers have
    attention

    Source: Jiang et al. 2023 (Mistral 7B), arXiv:2310.06825, section 2
    """
    attending = np.minimum(attention_layers / layers, 1.0)
    share = np.minimum(windowed_layers / layers, attending)
    return attending * full_layer_span - share * (full_layer_span - windowed_layer_span)


def windowed_layers(attention_layers):
    """Layers with windowed attention: all attention layers, unless the model alternates.

    l_w = l_a

    Returns: [1] layers
    Source: Jiang et al. 2023 (Mistral 7B), arXiv:2310.06825, section 2
    """
    return 1.0 * attention_layers


row(
    "kernel_attention_span",
    "sequence_length",
    source="Dao et al. 2022 (FlashAttention), arXiv:2205.14135, algorithm 0",
    holds=(
        "in every layer, also in those that keep a state: a bound from above with `linear_layers`"
    ),
    attention_kernel="standard",
)
row(
    "kernel_attention_span",
    "causal_attention_span",
    "those that the mask of causes, windows and documents leaves",
    summary=("Keys that the kernel multiplies each query with: masked blocks are skipped."),
    returns="[1] keys of one query",
    source="Dao 2023 (FlashAttention-2), arXiv:2307.08691, section 3.1",
    holds=(
        "for sequences, windows and documents of many blocks; blocks on the mask's edge are done "
        "whole"
    ),
    attention_kernel="flash",
)


def attention_flops_per_token(layers, kernel_attention_span, attention_heads, head_size):
    """Operations per token in the products of the attention kernel, without recomputation.

    12 l x keys x a (h / a): two products forward, four backward

    Returns: [FLOP] operations of one token
    Source: Narayanan et al. 2021 (SC21), appendix (12 B s^2 h in a layer); Dao 2023
        (FlashAttention-2), arXiv:2307.08691, section 4.1 (half of them under a causal mask)
    """
    return 12 * layers * kernel_attention_span * attention_heads * head_size


def kernel_flops_per_token(
    layer_matrix_flops_per_token,
    attention_flops_per_token,
    logits_flops_per_token,
    prediction_flops_per_token,
):
    """Operations that kernels execute per token, forward and backward, without recomputation.

    matrices + attention + logits + multi-token prediction

    Returns: [FLOP] operations of one token
    Source: Narayanan et al. 2021 (SC21), appendix
    """
    once = layer_matrix_flops_per_token + attention_flops_per_token + logits_flops_per_token
    return once + prediction_flops_per_token


def kernel_flops_per_step(kernel_flops_per_token, tokens_per_step):
    """Operations that kernels execute per step, forward and backward, without recomputation.

    operations of a token x B s

    Returns: [FLOP] operations of one step
    Source: Narayanan et al. 2021 (SC21), appendix
    """
    return kernel_flops_per_token * tokens_per_step


@alternative("model_flops_per_token", flops_counting="parameters")
def parameters_model_flops_per_token(active_parameters):
    """6 N_active

    Range: counts look-ups and omits attention; exceeds the executed operations if 6 x non-matmul
        parameters exceed attention's operations, or weights are frozen (lora)
    Source: Kaplan et al. 2020, arXiv:2001.08361, section 2.1
    """
    return 6 * active_parameters


@alternative("model_flops_per_token", flops_counting="transformer")
def transformer_model_flops_per_token(
    layer_matrix_flops_per_token,
    logits_flops_per_token,
    layers,
    attention_span,
    attention_heads,
    head_size,
):
    """matrices and full attention: 6 N_matrices + 12 l s a (h / a) + 6 V h; 72 l h^2 (1 + s / (6 h)
    + V / (12 l h)) for a GPT; windows shorten s

    Range: counts twice the attention of a kernel that skips causally masked blocks
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B; Narayanan et al. 2021
        (SC21), appendix; Korthikanti et al. 2022, arXiv:2205.05198, eq. 7
    """
    scores = 12 * layers * attention_span * attention_heads * head_size
    return layer_matrix_flops_per_token + scores + logits_flops_per_token


@alternative("model_flops_per_token", flops_counting="transformer_causal")
def causal_model_flops_per_token(
    layer_matrix_flops_per_token,
    logits_flops_per_token,
    layers,
    causal_attention_span,
    attention_heads,
    head_size,
):
    """Model operations per token as papers report them, without causally masked attention.

    6 N_matrices + 6 l s a (h / a) + 6 V h; windows and masks of documents shorten s

    Returns: [FLOP] model operations of one token
    Source: Dao 2023 (FlashAttention-2), arXiv:2307.08691, section 4.1 (half of the operations)
    """
    scores = 12 * layers * causal_attention_span * attention_heads * head_size
    return layer_matrix_flops_per_token + scores + logits_flops_per_token


def model_flops_per_step(model_flops_per_token, tokens_per_step):
    """Model operations per step, by the convention of flops_counting.

    operations of a token x B s

    Returns: [FLOP] model operations of one step
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B
    Example:
        >>> model_flops_per_step(6e12, 6.67e6) / 1e18
        40.02
    """
    return model_flops_per_token * tokens_per_step


def recompute_flops_factor(
    layer_matrix_flops_per_token,
    matrix_recompute_passes,
    matrix_passes,
    attention_flops_per_token,
    attention_recompute_passes,
    attention_backward_ratio,
    linear_layers,
    state_recompute_flops_per_token,
    kernel_flops_per_token,
):
    """Executed operations over operations without recomputation.

    1 + (passes x matrices + (passes + r - 2) x attention + 3 l_s x states) / (3 x operations of a
    token); a flash kernel's backward pass always recomputes scores (r = 2.5 of heads as wide in
    keys as in values); frozen matrices 3 / 2 as much

    Returns: [1] operations over operations
    Source: Narayanan et al. 2021 (SC21), eq. 3 (96 against 72 B s l h^2); Korthikanti et al. 2022,
        arXiv:2205.05198, section 5; Dao 2023 (FlashAttention-2), arXiv:2307.08691, section 4.1
    """
    attention = attention_recompute_passes + attention_backward_ratio - 2
    again = matrix_recompute_passes * layer_matrix_flops_per_token * (3 / matrix_passes)
    again = again + attention * attention_flops_per_token
    again = again + 3 * linear_layers * state_recompute_flops_per_token
    return 1 + again / (3 * kernel_flops_per_token)


def ideal_compute_time(model_flops_per_step, n_gpus, peak_flops):
    """Time of one step if every GPU ran the model operations at peak.

    F / (n P)

    Returns: [s] ideal time of one step
    Range: above the minimum step time if flops_counting counts more operations than kernels execute
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B (the 100 % of MFU)
    """
    return model_flops_per_step / (n_gpus * peak_flops)


@alternative("compute_time", compute_model="mfu")
def mfu_compute_time(
    kernel_flops_per_step, recompute_flops_factor, n_gpus, kernel_peak_flops, flops_efficiency
):
    """Compute time of one step, without bubble, communication and stragglers.

    executed operations / (n P x efficiency), P = kernel_peak_flops

    Returns: [s] compute time of one step
    Source: Narayanan et al. 2021 (SC21), section 5.1 (8 T P / (n X), written per step)
    """
    done = kernel_flops_per_step * recompute_flops_factor
    return done / (n_gpus * kernel_peak_flops * flops_efficiency)


@alternative("compute_time", compute_model="roofline")
def roofline_compute_time(
    num_microbatches, layers, pipeline_parallel, layer_time, logits_time, prediction_time
):
    """m (l x layer + embedding and logits + multi-token prediction) / p: mean over stages

    Source: Narayanan et al. 2021 (SC21), appendix, on the roofline of Williams et al. 2009
    """
    whole = layers * layer_time + logits_time + prediction_time
    return num_microbatches * whole / pipeline_parallel


def arithmetic_intensity(microbatch_tokens, bytes_per_element):
    """Operations per byte of weights read, for the tokens of one pass.

    2 T / e: each weight is read once, for one multiply-add per token

    Returns: [FLOP/B] intensity; one token in BF16 (decoding) gives 1
    Source: Williams et al. 2009, CACM 52(4); Fleet Foundations, the single-accelerator roofline
    Example:
        >>> arithmetic_intensity(1, 2)
        1.0
    """
    return 2 * microbatch_tokens / bytes_per_element


def ridge_point(peak_flops, hbm_bandwidth):
    """Arithmetic intensity at which a GPU turns from memory-bound to compute-bound.

    P / BW

    Returns: [FLOP/B] intensity at the ridge
    Source: Williams et al. 2009, CACM 52(4); Fleet Foundations eq. 4
    Example:
        >>> round(ridge_point(989e12, 3.35e12), 1)
        295.2
    """
    return peak_flops / hbm_bandwidth


@same_as(roofline_flops)
def attainable_flops(arithmetic_intensity, peak_flops, hbm_bandwidth):
    """Attainable rate of one GPU under the roofline.

    min(P, I BW)

    Returns: [FLOP/s] attainable rate
    Source: Williams et al. 2009, CACM 52(4); Fleet Foundations eq. 3
    """
