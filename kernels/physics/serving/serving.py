"""Inference serving: KV cache, prefill, decode."""

import numpy as np

from ...alternatives import alternative, family, row
from ...laws.collectives import direct_all_reduce_time, ring_all_reduce_time
from ...ops import where
from ..compute.work import (
    full_layer_span,
    windowed_attention_span,
    windowed_causal_attention_span,
    windowed_layer_span,
)
from ..model.layer_kinds import KINDS

row(
    "kv_bytes_per_element",
    "bytes_per_element",
    summary="Size of a key or value in the cache.",
    returns="[B] size",
    source="vLLM, --kv-cache-dtype auto: the model's own format",
    kv_cache_precision="bf16",
)
row(
    "kv_bytes_per_element",
    1.0,
    "scales of whole tensors",
    source="vLLM, --kv-cache-dtype fp8; TensorRT-LLM, --fp8_kv_cache (the rows of its tables)",
    kv_cache_precision="fp8",
)


@alternative("linear_state_bytes", linear_attention=KINDS, off=0.0)
def recurrent_linear_state_bytes(
    linear_layers,
    linear_inner_width,
    linear_state_size,
    linear_convolution_width,
    linear_convolution_size,
    bytes_per_element,
):
    """Recurrent state that linear-attention layers keep per sequence, independent of its length.

    l_s (N H P + channels (k - 1)) x bytes, whatever the KV cache keeps

    Returns: [B] state of one sequence
    Range: twice as much where states are kept in FP32: SGLang's default, and vLLM's of Kimi Delta
        Attention and of models whose file asks for it
    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 3.4.1 (a state for each head), and
        the last inputs of the convolution; vLLM, --mamba-cache-dtype auto
    """
    window = linear_convolution_width * (linear_convolution_size - 1)
    state = linear_state_size * linear_inner_width + window
    return linear_layers * state * bytes_per_element


def weights_bytes(parameters, serving_weight_bytes):
    """Size of the model's weights.

    N x bytes

    Returns: [B] weights of one replica
    Source: by definition; Fleet Foundations, the single-accelerator roofline (16.1 GB for 8B)
    """
    return parameters * serving_weight_bytes


row(
    "attention_ranks",
    "tensor_parallel",
    summary="GPUs of a replica that share out a request's attention and the token embedding.",
    returns="[1] GPUs",
    source="Pope et al. 2022, arXiv:2211.05102, section 3.1",
    data_parallel_attention=False,
)
row(
    "attention_ranks",
    1.0,
    "each GPU serves requests of its own",
    source="DeepSeek-AI 2024, arXiv:2412.19437, section 3.4",
    data_parallel_attention=True,
)


def serving_weights_memory(
    weights_bytes,
    attention_layers,
    attention_parameters_per_layer,
    linear_layers,
    linear_parameters_per_layer,
    query_latent_size,
    kv_elements_per_layer,
    vocab_size,
    hidden_size,
    served_matrix_bytes,
    bytes_per_element,
    attention_ranks,
    kv_head_ranks,
    tensor_parallel,
):
    """Weight memory of one GPU while serving.

    weights / t + ((l_a A + l_s S) q + V h e) (1 / r - 1 / t) + l_a h q (w_q (1 - 1 / r) + c (1 /
    r_kv - 1 / r)), r ranks of mixers and embedding: projections to the w_q of a latent query are
    copied, to the c cached numbers of a token as these are

    Returns: [B] weights
    Range: routers, norms, keys' groups and vectors of layers with states are on each GPU: 0.2 GB
        more for DeepSeek-V3. vLLM copies dense layers, shared experts and head, too, where r < t
    Source: Pope et al. 2022, arXiv:2211.05102, section 3.1; DeepSeek-AI 2024, arXiv:2412.19437,
        section 3.4; vLLM, vllm/model_executor/layers/linear.py (QKVParallelLinear) and models/
        deepseek_v2.py (fused_qkv_a_proj); SGLang, python/sglang/srt/models/deepseek_v2.py and
        qwen3_next.py (get_attention_tp_size)
    """
    mixers = attention_layers * attention_parameters_per_layer
    mixers = (mixers + linear_layers * linear_parameters_per_layer) * served_matrix_bytes
    replicated = mixers + vocab_size * hidden_size * bytes_per_element
    copied = query_latent_size * (1 - 1 / attention_ranks)
    copied = copied + kv_elements_per_layer * (1 / kv_head_ranks - 1 / attention_ranks)
    copies = attention_layers * hidden_size * copied * served_matrix_bytes
    replicated = replicated * (1 / attention_ranks - 1 / tensor_parallel)
    return weights_bytes / tensor_parallel + replicated + copies


def read_weights_memory(
    serving_weights_memory,
    embedding_tables,
    vocab_size,
    hidden_size,
    bytes_per_element,
    attention_ranks,
):
    """Weight memory of one GPU that a pass reads whole: without an embedding apart from the head.

    weights - (tables - 1) V h e / ranks: a token looks up one row

    Returns: [B] weights
    Range: learned positions, up to 0.7 % of GPT-2's weights, count as read
    Source: vLLM, vllm/model_executor/layers/vocab_parallel_embedding.py
    """
    unread = np.maximum(embedding_tables - 1, 0.0) * vocab_size * hidden_size
    return serving_weights_memory - unread * bytes_per_element / attention_ranks


row(
    "decode_weights_bytes",
    "read_weights_memory",
    "all, once for the whole batch",
    summary="Weight bytes that one decode step reads on each GPU.",
    returns="[B] weights read",
    source="Pope et al. 2022, arXiv:2211.05102, section 2",
    mixture_of_experts=False,
)


@alternative("decode_weights_bytes", mixture_of_experts=True)
def expert_decode_weights_bytes(
    read_weights_memory,
    parameters,
    active_parameters,
    looked_up_parameters,
    embedding_tables,
    vocab_size,
    hidden_size,
    experts,
    experts_per_token,
    serving_batch_size,
    served_matrix_bytes,
    tensor_parallel,
):
    """weights - N_skipped (1 - k/E)^(b - 1) q / t: without the experts that no token is routed to,
    by uniform, independent routing; N_skipped = N - N_active, without an embedding apart from the
    head that N_active leaves out

    Range: mean over GPUs; with uneven routing, the GPU with the most-visited experts reads more
    Source: Jiang et al. 2024 (Mixtral), arXiv:2401.04088, section 2.1 (k of E experts a token);
        chance that none of b tokens visits one
    """
    some_left = experts_per_token < experts
    share = where(some_left, experts_per_token / experts, 0.5)
    idle = where(some_left, np.exp((serving_batch_size - 1) * np.log1p(-share)), 0.0)
    left_out = (embedding_tables - 1) * vocab_size * hidden_size - looked_up_parameters
    skipped = parameters - active_parameters - np.maximum(left_out, 0.0)
    return read_weights_memory - skipped * idle * served_matrix_bytes / tensor_parallel


def kv_cache_bytes_per_token(attention_layers, kv_elements_per_layer, kv_bytes_per_element):
    """KV-cache bytes per token.

    l_a x elements x bytes

    Returns: [B] cache of one token
    Source: Kwon et al. 2023 (vLLM), arXiv:2309.06180, section 3; Waleffe et al. 2024,
        arXiv:2406.07887, section 3.3 (attention layers alone have one)
    Example:
        >>> kv_cache_bytes_per_token(40, 2 * 5120, 2) / 1024
        800.0
    """
    return attention_layers * kv_elements_per_layer * kv_bytes_per_element


@alternative("cached_tokens", sliding_window=False)
def full_cached_tokens(prompt_tokens, output_tokens):
    """Tokens of a request in the KV cache when it ends, mean over layers.

    prompt + output

    Returns: [1] tokens
    Source: Kwon et al. 2023 (vLLM), arXiv:2309.06180, section 3
    """
    return prompt_tokens + output_tokens


@alternative("cached_tokens", sliding_window=True)
def windowed_cached_tokens(
    prompt_tokens, output_tokens, attention_window, windowed_layers, attention_layers, layers
):
    """l_a / l n - l_w / l (n - min(w, n)), n = prompt + output: windowed layers cache at most w
    tokens; only l_a layers attend

    Range: tokens beyond the window are overwritten at once; paged caches keep up to a block more
    Source: Jiang et al. 2023 (Mistral 7B), arXiv:2310.06825, section 2 (rolling buffer)
    """
    tokens = prompt_tokens + output_tokens
    return windowed_attention_span(
        tokens, attention_window, windowed_layers, attention_layers, layers
    )


row("prompt_cached_tokens", "prompt_tokens", sliding_window=False)
family(
    {
        "attention_span": "prompt_cached_tokens",
        "sequence_length": "prompt_tokens",
        "Keys per query before masking, limited to": "Tokens of a prompt in the KV cache, at most",
        "keys of one query": "tokens, mean over layers",
    },
    windowed_attention_span,
)


def request_kv_cache(
    cached_tokens, layers, kv_elements_per_layer, kv_bytes_per_element, linear_state_bytes
):
    """KV cache and recurrent states of one request when it ends: prompt and output.

    cached tokens (mean over layers) x l x elements x bytes + states

    Returns: [B] cache of one request
    Source: Kwon et al. 2023 (vLLM), arXiv:2309.06180, section 3; Waleffe et al. 2024,
        arXiv:2406.07887, section 3.3 (states)
    """
    cache_bytes = cached_tokens * layers * kv_elements_per_layer * kv_bytes_per_element
    return cache_bytes + linear_state_bytes


@alternative("kv_head_ranks", latent_attention=False)
def shared_kv_head_ranks(attention_ranks, kv_heads):
    """GPUs over which the KV heads of a token are split.

    min(ranks, a_kv): with more ranks than KV heads, the cache is replicated

    Returns: [1] ranks
    Range: heads / ranks or ranks / heads whole; otherwise the fullest keeps up to two heads more
    Source: Pope et al. 2022, arXiv:2211.05102, section 3.3 (one head of keys and values is on
        every chip)
    Example:
        >>> int(shared_kv_head_ranks(16, 8))
        8
    """
    return np.minimum(attention_ranks, kv_heads)


row(
    "kv_head_ranks",
    1.0,
    ("all heads read the one latent vector of a token, so every rank keeps it"),
    source="DeepSeek-AI 2024, arXiv:2405.04434, section 2.1",
    latent_attention=True,
)


def largest_serving_batch(
    hbm_capacity,
    reserved_memory,
    serving_weights_memory,
    request_kv_cache,
    linear_state_bytes,
    kv_head_ranks,
    attention_ranks,
    tensor_parallel,
):
    """Requests whose KV cache and states fit on a replica; 0 if the weights do not fit.

    floor(t / r (capacity - reserved - weights of a GPU) / (cache / ranks of its heads + states /
    r)), r ranks of a request's attention

    Returns: [1] requests at once
    Range: activations and buffers are in `reserved_memory`; every request reserves its final size;
        r < t: in whole rounds of t / r, else the GPU with one request more needs its cache, too
    Source: Kwon et al. 2023 (vLLM), arXiv:2309.06180, section 1 (weights, cache, the rest); vLLM,
        vllm/model_executor/layers/mamba/mamba_utils.py (heads of states over all ranks)
    """
    room = np.maximum(hbm_capacity - reserved_memory - serving_weights_memory, 0.0)
    request_bytes = (request_kv_cache - linear_state_bytes) / kv_head_ranks
    request_bytes = request_bytes + linear_state_bytes / attention_ranks
    return np.floor(room * (tensor_parallel / attention_ranks) / request_bytes)


def serving_memory_reason(serving_batch_size, largest_serving_batch):
    """Why the batch does not fit on a replica; 0 if it fits.

    b <= largest batch; NaN where either is undefined

    Returns: [flag] reason
    Flags: 0 fits, 1 batch_too_large, 2 no_request_fits
    Source: by definition
    """
    over = where(largest_serving_batch < 1, 2.0, 1.0)
    operands = serving_batch_size + largest_serving_batch
    reason = where(serving_batch_size > largest_serving_batch, over, 0.0)
    return where(operands == operands, reason, np.nan)


@alternative("decode_context", sliding_window=False)
def full_decode_context(prompt_tokens, output_tokens):
    """Context length that the mean decode step reads per sequence.

    prompt + max(output - 2, 0) / 2: prefill yields the first token, output - 1 decode steps the
    rest, each with a context one token longer

    Returns: [1] tokens
    Source: Pope et al. 2022, arXiv:2211.05102, section 2
    Example:
        >>> float(full_decode_context(100, 4))
        101.0
    """
    return prompt_tokens + np.maximum(output_tokens - 2, 0.0) / 2


@alternative("decode_context", sliding_window=True)
def windowed_decode_context(
    prompt_tokens, output_tokens, attention_window, windowed_layers, attention_layers, layers
):
    """Context length that the mean decode step reads per sequence, mean over layers.

    with n = max(output - 1, 1) steps: prompt + (n - 1) / 2, and in windowed layers the mean of
    min(prompt + j, w - 1), j = 0 .. n - 1: (k (prompt + (k - 1) / 2) + (n - k) (w - 1)) / n, where
    k = clip(w - 1 - prompt, 0, n) steps see the whole context; 0 in layers without attention

    Source: Jiang et al. 2023 (Mistral 7B), arXiv:2310.06825, section 2
    """
    steps = np.maximum(output_tokens - 1, 1.0)
    full = prompt_tokens + (steps - 1) / 2
    width = np.minimum(attention_window - 1, prompt_tokens + steps)
    growing = np.maximum(np.minimum(width - prompt_tokens, steps), 0.0)
    tokens_read = growing * (prompt_tokens + (growing - 1) / 2) + (steps - growing) * width
    attending = np.minimum(attention_layers / layers, 1.0)
    share = np.minimum(windowed_layers / layers, attending)
    return attending * full - share * (full - tokens_read / steps)


def decode_bytes(
    decode_weights_bytes,
    serving_batch_size,
    decode_context,
    layers,
    kv_elements_per_layer,
    kv_bytes_per_element,
    linear_state_bytes,
    kv_head_ranks,
    attention_ranks,
    tensor_parallel,
):
    """Bytes that the mean decode step moves on each GPU: weights, KV cache and states.

    weights + requests x (context (mean over layers) x l x elements x bytes / ranks of its heads + 2
    x states / r), r ranks of a request's attention: states are read and written; requests: b, or
    ceil(b r / t) where r < t, as all wait for the fullest GPU

    Returns: [B] bytes of one step on one GPU
    Source: Pope et al. 2022, arXiv:2211.05102, sections 2 and 3.3; Dao & Gu 2024 (Mamba-2),
        arXiv:2405.21060, section 8.1 (heads over tensor ranks)
    """
    cache_bytes = (
        decode_context * layers * kv_elements_per_layer * kv_bytes_per_element / kv_head_ranks
    )
    local_requests = np.ceil(serving_batch_size * (attention_ranks / tensor_parallel))
    requests = where(attention_ranks < tensor_parallel, local_requests, serving_batch_size)
    return decode_weights_bytes + requests * (
        cache_bytes + 2 * linear_state_bytes / attention_ranks
    )


def decode_attention_flops(layers, attention_heads, head_size, serving_batch_size, decode_context):
    """Attention operations of a replica's mean decode step.

    4 b l a (h / a) context

    Returns: [FLOP] operations
    Range: minimum operations; attention on latent vectors as stored takes up to four times as many
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B; Pope et al. 2022,
        arXiv:2211.05102, section 2
    """
    return 4 * serving_batch_size * layers * attention_heads * head_size * decode_context


row(
    "serving_rail_bandwidth",
    np.nan,
    "unknown: a group that leaves its node has no time",
    summary="Bandwidth per GPU between the nodes of a replica.",
    returns="[B/s] bandwidth of one rail",
    serving_fabric=False,
)
row("serving_rail_bandwidth", "tensor_rail_bandwidth", serving_fabric=True)


@alternative("decode_exchange_time", serving_traffic=True, off=0.0)
def tensor_decode_exchange_time(
    serving_batch_size,
    hidden_size,
    bytes_per_element,
    mixer_and_ffn_blocks,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    direct_exchange_start,
    intra_node_bandwidth,
    inter_node_latency,
    serving_rail_bandwidth,
):
    """Time of the all-reduces of a decode step.

    (blocks + 1) all-reduce(M), M the tokens' activations in 16 bits, of each mixer, feed-forward
    block and the token embedding: one or two shots inside a node; beyond it the faster of two
    shots, with a ring of M / g on each of g rails between them, and one, then a ring of M

    Returns: [s] traffic, which nothing hides
    Range: NaN for several nodes without a fabric. An upper bound for data-parallel attention, which
        gathers and scatters once a layer, for blocks in parallel (Falcon) and for long messages
        that switches sum. Gathering the logits, b V e / B, is not counted
    Source: Pope et al. 2022, arXiv:2211.05102, section 3.1; vLLM, csrc/custom_all_reduce.cuh and
        vllm/model_executor/layers/vocab_parallel_embedding.py
    """
    message = serving_batch_size * hidden_size * bytes_per_element
    g = tensor_parallel_ranks_per_node
    inside = direct_all_reduce_time(message, g, direct_exchange_start, intra_node_bandwidth)
    nodes = where(g < tensor_parallel, tensor_parallel / g, 2.0)
    links = nodes, inter_node_latency, serving_rail_bandwidth
    one = direct_exchange_start + (g - 1) * message / intra_node_bandwidth
    two = 2 * (direct_exchange_start + (g - 1) / g * message / intra_node_bandwidth)
    one = where(g > 1, one, 0.0) + ring_all_reduce_time(message, *links)
    two = where(g > 1, two, 0.0) + ring_all_reduce_time(message / g, *links)
    once = where(g < tensor_parallel, np.minimum(one, two), inside)
    return (mixer_and_ffn_blocks + 1) * once


family(
    {
        "decode_exchange_time": "prefill_exchange_time",
        "serving_batch_size": "prefill_tokens",
        "decode step": "batch's prefill",
    },
    tensor_decode_exchange_time,
)
row("prefill_exchange_time", 0.0, serving_traffic=False)
row("prompt_exchange_time", 0.0, serving_traffic=False)


@alternative("serving_time_ratio", shifted_serving_time=True, off=1.0)
def serving_time_in_interval(serving_time_error, serving_error_factor):
    """Time of serving over its prediction, at a position within the error interval.

    f^e

    Returns: [1] time over the predicted one
    Source: by definition; interval: Vovk et al. 2005, Algorithmic Learning in a Random World,
        section 2.2 (conformal prediction), of logarithms
    """
    return np.exp(serving_time_error * np.log(serving_error_factor))


def decode_step_time(
    decode_bytes,
    decode_weights_bytes,
    serving_batch_size,
    active_matrix_parameters,
    vocab_size,
    hidden_size,
    decode_attention_flops,
    tensor_parallel,
    reached_hbm_bandwidth,
    peak_flops,
    logits_peak_flops,
    attention_peak_flops,
    gemm_efficiency,
    decode_exchange_time,
    serving_time_ratio,
):
    """Time of one decode step of a replica: one more token for each sequence of its batch.

    (max(weights / BW, 2 b (N_matrices / P + V h / P_logits) / t) + max(cache / BW, attention / (t
    P_attention)) + all-reduces) x ratio, with P and BW as kernels reach them

    Returns: [s] time of one decode step
    Range: `serving_memory_reason` shows whether the batch fits; scheduling and sampling are not
        counted; without tensor_parallel no all-reduces are. All matrices as one kernel: up to 10 %
        short where some are read, others multiplied, as a mixture's beyond some 300 sequences
    Source: Williams et al. 2009, CACM 52(4), kernel by kernel; Pope et al. 2022, arXiv:2211.05102,
        section 2; Fleet Foundations, the single-accelerator roofline (decoding); attention keeps
        its own format: DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.1
    Example:
        >>> weights, peak = 2 * 8.03e9, 989e12
        >>> work = 1, 8.03e9, 0, 0, 0
        >>> step = decode_step_time(weights, weights, *work, 1, 3.35e12, peak, peak, peak, 1, 0, 1)
        >>> round(1 / float(step), 1)
        208.6
    """
    rate = tensor_parallel * gemm_efficiency
    products = active_matrix_parameters / peak_flops + vocab_size * hidden_size / logits_peak_flops
    products = 2 * serving_batch_size * products / rate
    matrices = np.maximum(decode_weights_bytes / reached_hbm_bandwidth, products)
    cache = (decode_bytes - decode_weights_bytes) / reached_hbm_bandwidth
    scores = decode_attention_flops / (rate * attention_peak_flops)
    return (matrices + np.maximum(cache, scores) + decode_exchange_time) * serving_time_ratio


def decode_tokens_per_second(serving_batch_size, decode_step_time, serving_memory_reason):
    """Decode throughput of a replica, over all sequences of its batch.

    b / step; 0 if the batch does not fit

    Returns: [1/s] tokens per second of one replica
    Source: Fleet Foundations, the single-accelerator roofline (208.6 for 8B on an H100)
    """
    return where(serving_memory_reason > 0, 0.0, serving_batch_size / decode_step_time)


def prompt_positions(prompt_tokens):
    """Tokens of a prompt that are read.

    max(prompt, 1): an empty prompt still has a start token

    Returns: [1] tokens
    Source: by definition
    """
    return np.maximum(prompt_tokens, 1.0)


family(
    {
        "full_layer_span": "prompt_attention_span",
        "sequence_length": "prompt_positions",
        "under the mask of a layer without a window, mean over the sequence": "of a prompt, mean",
    },
    full_layer_span,
    sliding_window=False,
)


@alternative("prompt_attention_span", sliding_window=True)
def windowed_prompt_attention_span(
    prompt_positions, attention_window, windowed_layers, attention_layers, layers
):
    """Keys that each query of a prompt attends to, mean over the prompt and the layers.

    same formula as `causal_attention_span`

    Source: Jiang et al. 2023 (Mistral 7B), arXiv:2310.06825, section 2
    """
    spans = (
        full_layer_span(prompt_positions),
        windowed_layer_span(prompt_positions, attention_window),
    )
    return windowed_causal_attention_span(*spans, windowed_layers, attention_layers, layers)


def prefill_tokens(serving_batch_size, prompt_positions):
    """Tokens of a batch's prompts.

    b s

    Returns: [1] tokens
    Source: by definition
    """
    return serving_batch_size * prompt_positions


def prompt_attention_flops_per_token(
    layers,
    attention_heads,
    head_size,
    prompt_attention_span,
    linear_layers,
    linear_state_flops_per_token,
):
    """Operations per token of a prompt in attention and around states.

    4 l a (h / a) keys + l_s x operations around a state

    Returns: [FLOP] operations of one token
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B; Dao 2023
        (FlashAttention-2), arXiv:2307.08691, section 4.1 (a causal mask halves attention)
    """
    attention = 4 * layers * attention_heads * head_size * prompt_attention_span
    return attention + linear_layers * linear_state_flops_per_token


def prompt_flops_per_token(
    active_matrix_parameters,
    vocab_size,
    hidden_size,
    prompt_positions,
    prompt_attention_flops_per_token,
):
    """Operations per token of a prompt: matrices of layers, logits and causal attention.

    2 N_matrices + 2 V h / s + attention: logits of its last token alone

    Returns: [FLOP] operations of one token
    Range: log-probabilities of prompts take logits of all tokens, 2 V h; no prefix caching
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B; vLLM,
        vllm/v1/worker/gpu_model_runner.py (logits_indices)
    """
    logits = 2 * vocab_size * hidden_size / prompt_positions
    return 2 * active_matrix_parameters + logits + prompt_attention_flops_per_token


def prefill_time(
    read_weights_memory,
    vocab_size,
    hidden_size,
    bytes_per_element,
    embedding_tables,
    attention_ranks,
    routed_parameters,
    skipped_parameters,
    served_matrix_bytes,
    prefill_tokens,
    active_matrix_parameters,
    prompt_flops_per_token,
    prompt_attention_flops_per_token,
    tensor_parallel,
    reached_hbm_bandwidth,
    peak_flops,
    logits_peak_flops,
    attention_peak_flops,
    gemm_efficiency,
    prefill_exchange_time,
    serving_time_ratio,
):
    """Prefill time of a batch's prompts on one replica.

    (sum of max(weights / BW, operations / (t P)) over visited experts, other matrices and logits +
    attention / (t P_attention) + all-reduces) x ratio, with P and BW as kernels reach them

    Returns: [s] time of all prompts
    Range: prompts packed into one pass, without prefix caching or decode steps between; mixers as
        one kernel with other matrices: up to a third short for short prompts where attention is
        apart, 4 % with copied heads. Fewer prompts than GPUs with attention apart: too short
    Source: Williams et al. 2009, CACM 52(4), kernel by kernel; Pope et al. 2022, arXiv:2211.05102,
        section 2; logits, attention in 16 bits: DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.1
    """
    bandwidth, rate = reached_hbm_bandwidth, tensor_parallel * gemm_efficiency / prefill_tokens
    some = skipped_parameters > 0
    left = where(some, skipped_parameters, 1.0) / where(some, routed_parameters, 1.0)  # 1 - k/E
    visited = where(some, 1 - np.exp(prefill_tokens * np.log(left)), 1.0)
    routed = routed_parameters * served_matrix_bytes / tensor_parallel
    chosen = routed_parameters - skipped_parameters
    experts = np.maximum(routed * visited / bandwidth, 2 * chosen / (rate * peak_flops))
    ranks = where(embedding_tables > 1, tensor_parallel, attention_ranks)
    head = vocab_size * hidden_size * bytes_per_element / ranks
    others = 2 * (active_matrix_parameters - chosen) / (rate * peak_flops)
    others = np.maximum((read_weights_memory - head - routed) / bandwidth, others)
    logits = prompt_flops_per_token - prompt_attention_flops_per_token
    logits = (logits - 2 * active_matrix_parameters) / (rate * logits_peak_flops)
    scores = prompt_attention_flops_per_token / (rate * attention_peak_flops)
    time = experts + others + np.maximum(head / bandwidth, logits) + scores
    return (time + prefill_exchange_time) * serving_time_ratio


# a request's prompt is read alone: Yu et al. 2022 (Orca), section 4
family(
    {
        "prefill_time": "time_to_first_token",
        "prefill_exchange_time": "prompt_exchange_time",
        "decode_exchange_time": "prompt_exchange_time",
        "prefill_tokens": "prompt_positions",
        "serving_batch_size": "prompt_positions",
        "Prefill time of a batch's prompts on one replica": "Time from a request to its first "
        "output token, without queueing: its prompt is read alone",
        "all prompts": "one prompt",
        "prompts packed into one pass, without": "without",
        "decode step": "prompt that is read alone",
    },
    prefill_time,
    tensor_decode_exchange_time,
)


@alternative("kv_transfer_time", disaggregated_prefill=True, off=0.0)
def disaggregated_kv_transfer_time(
    prompt_cached_tokens,
    layers,
    kv_elements_per_layer,
    kv_bytes_per_element,
    kv_head_ranks,
    linear_state_bytes,
    attention_ranks,
    rail_bandwidth,
):
    """Time to send a prompt's KV cache and states from the GPUs that read it to those that answer.

    (cached tokens (mean over layers) x l x elements x bytes / ranks of a token's heads + states /
    ranks) / B: each GPU that answers reads all that it keeps

    Returns: [s] time of one request
    Range: as many GPUs read as answer; an upper bound where layers are sent as they are done
    Source: Zhong et al. 2024 (DistServe), arXiv:2401.09670, section 3.3; vLLM,
        vllm/distributed/kv_transfer/kv_connector/utils.py (get_target_remote_ranks)
    """
    cache_bytes = prompt_cached_tokens * layers * kv_elements_per_layer * kv_bytes_per_element
    return (cache_bytes / kv_head_ranks + linear_state_bytes / attention_ranks) / rail_bandwidth


@alternative("time_per_output_token", disaggregated_prefill=False)
def shared_time_per_output_token(
    decode_step_time, prefill_time, serving_batch_size, output_tokens, serving_memory_reason
):
    """Mean time from one output token of a request to the next.

    step + prefill of the b - 1 others / (output - 1): each stops for the prompts that join
    meanwhile; infinite if the batch does not fit

    Returns: [s] time of one token
    Source: Yu et al. 2022 (Orca), OSDI, section 4 (requests join between iterations)
    """
    others = prefill_time * (serving_batch_size - 1) / serving_batch_size
    time = decode_step_time + others / np.maximum(output_tokens - 1, 1.0)
    return where(serving_memory_reason > 0, np.inf, time)


@alternative("time_per_output_token", disaggregated_prefill=True)
def disaggregated_time_per_output_token(decode_step_time, serving_memory_reason):
    """step: no prompt stops it; infinite if the batch does not fit

    Source: Zhong et al. 2024 (DistServe), arXiv:2401.09670, section 3
    """
    return where(serving_memory_reason > 0, np.inf, decode_step_time)


def request_latency(time_to_first_token, kv_transfer_time, output_tokens, time_per_output_token):
    """Time from a request to its last output token.

    first token + KV transfer + (output tokens - 1) x time per token

    Returns: [s] latency of one request
    Range: steps are alike enough that their mean serves; no queue
    Source: Pope et al. 2022, arXiv:2211.05102, section 2
    Example:
        >>> request_latency(0.5, 0, 1, 0.1)
        0.5
    """
    return time_to_first_token + kv_transfer_time + (output_tokens - 1) * time_per_output_token


def output_tokens_per_second(
    serving_batch_size, output_tokens, prefill_time, decode_step_time, serving_memory_reason
):
    """Output tokens per second of the GPUs of one replica that are never idle.

    b output / (prefill of b prompts + (output - 1) steps), whether the same GPUs do both or not;
    0 if the batch does not fit

    Returns: [1/s] tokens per second
    Source: Yu et al. 2022 (Orca), OSDI, section 4 (a request that ends makes room for the next)
    """
    round_ = prefill_time + (output_tokens - 1) * decode_step_time
    return where(serving_memory_reason > 0, 0.0, serving_batch_size * output_tokens / round_)


def concurrent_requests(request_rate, request_latency):
    """Mean number of requests in service (Little's law).

    L = lambda W

    Returns: [1] requests at once
    Source: Little 1961, Operations Research 9(3); Fleet Foundations, foundations recap
    Example:
        >>> concurrent_requests(100, 2.5)
        250.0
    """
    return request_rate * request_latency


def serving_replicas(request_rate, output_tokens, output_tokens_per_second, serving_memory_reason):
    """Replicas needed for the request rate, if every batch is full.

    rate x output / tokens per second of a replica; infinite if the batch does not fit on one

    Returns: [1] replicas, not rounded
    Range: `serving_memory_reason` = 0
    Source: by definition; Fleet Foundations, foundations recap
    """
    rate = where(serving_memory_reason > 0, 1.0, output_tokens_per_second)
    return where(serving_memory_reason > 0, np.inf, request_rate * output_tokens / rate)


@alternative("serving_gpus", disaggregated_prefill=False)
def serving_gpus(serving_replicas, tensor_parallel):
    """GPUs needed for the request rate, in whole replicas.

    ceil(replicas) t

    Returns: [1] GPUs
    Source: Little 1961, Operations Research 9(3); Fleet Foundations, foundations recap
    """
    return np.ceil(serving_replicas) * tensor_parallel


@alternative("serving_gpus", disaggregated_prefill=True)
def disaggregated_serving_gpus(
    serving_replicas, tensor_parallel, prefill_time, output_tokens, decode_step_time
):
    """(ceil(replicas that read prompts) + ceil(replicas that decode)) t

    Source: Zhong et al. 2024 (DistServe), arXiv:2401.09670, section 4 (each phase scales alone)
    """
    share = prefill_time / (prefill_time + (output_tokens - 1) * decode_step_time)
    reading = np.ceil(serving_replicas * share)
    return (reading + np.ceil(serving_replicas * (1 - share))) * tensor_parallel


def serving_cost_per_million_tokens(
    tensor_parallel, gpu_hour_price, output_tokens_per_second, serving_memory_reason
):
    """Cost of a million output tokens on rented GPUs that are never idle.

    t x price / tokens per second x 10^6; infinite if the batch does not fit on a replica

    Returns: [USD] cost of 10^6 output tokens
    Range: `serving_memory_reason` = 0
    Source: by definition
    """
    rate = where(serving_memory_reason > 0, 1.0, output_tokens_per_second)
    price = tensor_parallel * gpu_hour_price / 3600 / rate * 1e6
    return where(serving_memory_reason > 0, np.inf, price)
