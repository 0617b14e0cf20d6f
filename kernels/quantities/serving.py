"""Serving: weights, keys and values, the roofline of prefill and decoding, replicas, price.

A replica is one tensor-parallel group. Requests come in batches that are prefilled together and
decoded together. Times are bounds: peak rates, no traffic between the GPUs, no waiting.
"""

from typing import Any

import numpy as np

from ..alternatives import alternative
from ..ops import where


def weights_bytes(parameters: Any, bytes_per_element: Any) -> Any:
    """Bytes of the model's weights.

    N e

    Parameters: parameters [1], bytes_per_element [B]
    Returns: [B] weights of one replica
    Source: by definition; Fleet Foundations, the single-accelerator roofline (16.1 GB for 8B)
    Example:
        >>> weights_bytes(8.03e9, 2) / 1e9
        16.06
    """
    return parameters * bytes_per_element


@alternative("decode_weights_bytes", mixture_of_experts=False)
def dense_decode_weights_bytes(weights_bytes: Any) -> Any:
    """Bytes of weights that one decode step reads: all of them, once for the whole batch.

    N e

    Parameters: weights_bytes [B]
    Returns: [B] weights read
    Source: Pope et al. 2022, arXiv:2211.05102, section 2
    """
    return 1.0 * weights_bytes


@alternative("decode_weights_bytes", mixture_of_experts=True)
def expert_decode_weights_bytes(
    parameters: Any,
    expert_layers: Any,
    experts: Any,
    experts_per_token: Any,
    expert_parameters: Any,
    serving_batch_size: Any,
    bytes_per_element: Any,
) -> Any:
    """Bytes of weights that one decode step reads: all but the experts that nobody visits.

    (N - l_e E (1 - k/E)^b x parameters of an expert) e: tokens choose experts evenly and apart; the
    active parameters for a batch of one

    Parameters: parameters [1], expert_layers [1], experts [1], experts_per_token [1],
        expert_parameters [1], serving_batch_size [1], bytes_per_element [B]
    Returns: [B] weights read
    Source: Jiang et al. 2024 (Mixtral), arXiv:2401.04088, section 2.1 (k of E experts a token);
        chance that none of b tokens visits one
    """
    some_left = experts_per_token < experts
    share = where(some_left, experts_per_token / experts, 0.5)
    idle = where(some_left, np.exp(serving_batch_size * np.log1p(-share)), 0.0)
    return (parameters - expert_layers * experts * idle * expert_parameters) * bytes_per_element


def kv_elements_per_layer(kv_heads: Any, head_size: Any) -> Any:
    """Numbers that one layer keeps of each token: keys and values.

    2 a_kv h / a; a model with latent attention states its own

    Parameters: kv_heads [1], head_size [1]
    Returns: [1] elements
    Source: Ainslie et al. 2023, arXiv:2305.13245, section 2.2; latent attention: DeepSeek-AI 2024,
        arXiv:2405.04434, section 2.1
    Example:
        >>> kv_elements_per_layer(8, 128)
        2048
    """
    return 2 * kv_heads * head_size


def kv_cache_bytes_per_token(
    layers: Any, kv_elements_per_layer: Any, kv_bytes_per_element: Any
) -> Any:
    """Bytes of keys and values that each token of a sequence occupies.

    l x elements x bytes

    Parameters: layers [1], kv_elements_per_layer [1], kv_bytes_per_element [B]
    Returns: [B] cache of one token
    Source: Kwon et al. 2023 (vLLM), arXiv:2309.06180, section 3
    Example:
        >>> kv_cache_bytes_per_token(40, 2 * 5120, 2) / 1024
        800.0
    """
    return layers * kv_elements_per_layer * kv_bytes_per_element


def request_kv_cache(prompt_tokens: Any, output_tokens: Any, kv_cache_bytes_per_token: Any) -> Any:
    """Keys and values of one request at its end: the prompt and the answer.

    (prompt + output) x bytes per token

    Parameters: prompt_tokens [1], output_tokens [1], kv_cache_bytes_per_token [B]
    Returns: [B] cache of one request
    Source: Kwon et al. 2023 (vLLM), arXiv:2309.06180, section 3
    """
    return (prompt_tokens + output_tokens) * kv_cache_bytes_per_token


def kv_cache_memory(serving_batch_size: Any, request_kv_cache: Any) -> Any:
    """Keys and values of a whole batch at its end: what a replica must have room for.

    b x cache of one request

    Parameters: serving_batch_size [1], request_kv_cache [B]
    Returns: [B] cache of one replica
    Source: Kwon et al. 2023 (vLLM), arXiv:2309.06180, section 3
    """
    return serving_batch_size * request_kv_cache


def largest_serving_batch(
    tensor_parallel: Any,
    hbm_capacity: Any,
    reserved_memory: Any,
    weights_bytes: Any,
    request_kv_cache: Any,
) -> Any:
    """Requests that a replica has room for beside the weights; 0 where those do not fit.

    floor((t (capacity - reserved) - weights) / cache of one request)

    Parameters: tensor_parallel [1], hbm_capacity [B], reserved_memory [B], weights_bytes [B],
        request_kv_cache [B]
    Returns: [1] requests at once
    Source: Kwon et al. 2023 (vLLM), arXiv:2309.06180, section 1 (weights, cache, the rest)
    """
    room = tensor_parallel * (hbm_capacity - reserved_memory) - weights_bytes
    return np.floor(np.maximum(room, 0.0) / request_kv_cache)


def decode_bytes(
    decode_weights_bytes: Any,
    serving_batch_size: Any,
    prompt_tokens: Any,
    output_tokens: Any,
    kv_cache_bytes_per_token: Any,
) -> Any:
    """Bytes that the mean decode step reads: weights, and the keys and values so far.

    weights + b (prompt + (output - 1) / 2) x bytes per token

    Parameters: decode_weights_bytes [B], serving_batch_size [1], prompt_tokens [1],
        output_tokens [1], kv_cache_bytes_per_token [B]
    Returns: [B] bytes of one step of one replica
    Source: Pope et al. 2022, arXiv:2211.05102, section 2
    """
    context = prompt_tokens + (output_tokens - 1) / 2
    return decode_weights_bytes + serving_batch_size * context * kv_cache_bytes_per_token


def decode_step_time(
    decode_bytes: Any,
    active_parameters: Any,
    serving_batch_size: Any,
    tensor_parallel: Any,
    hbm_bandwidth: Any,
    peak_flops: Any,
) -> Any:
    """Time in which a replica adds one token to each sequence of its batch.

    max(bytes / (t BW), 2 N_active b / (t P))

    Parameters: decode_bytes [B], active_parameters [1], serving_batch_size [1],
        tensor_parallel [1], hbm_bandwidth [B/s], peak_flops [FLOP/s]
    Returns: [s] least time of one decode step
    Source: Williams et al. 2009, CACM 52(4); Fleet Foundations, the single-accelerator roofline
        (decoding); Pope et al. 2022, arXiv:2211.05102, section 2
    Example:
        >>> round(1 / float(decode_step_time(16.06e9, 8.03e9, 1, 1, 3.35e12, 989e12)), 1)
        208.6
    """
    memory = decode_bytes / (tensor_parallel * hbm_bandwidth)
    compute = 2 * active_parameters * serving_batch_size / (tensor_parallel * peak_flops)
    return np.maximum(memory, compute)


def decode_tokens_per_second(serving_batch_size: Any, decode_step_time: Any) -> Any:
    """Tokens that a replica generates while it decodes, over all sequences of its batch.

    b / step

    Parameters: serving_batch_size [1], decode_step_time [s]
    Returns: [1/s] tokens per second of one replica
    Source: Fleet Foundations, the single-accelerator roofline (208.6 for 8B on an H100)
    """
    return serving_batch_size / decode_step_time


def prefill_time(
    weights_bytes: Any,
    active_parameters: Any,
    serving_batch_size: Any,
    prompt_tokens: Any,
    tensor_parallel: Any,
    hbm_bandwidth: Any,
    peak_flops: Any,
) -> Any:
    """Time in which a replica reads the prompts of a batch; nothing without a prompt.

    max(2 N_active b prompt / (t P), weights / (t BW)): attention is not counted

    Parameters: weights_bytes [B], active_parameters [1], serving_batch_size [1],
        prompt_tokens [1], tensor_parallel [1], hbm_bandwidth [B/s], peak_flops [FLOP/s]
    Returns: [s] least time of one prefill
    Source: Pope et al. 2022, arXiv:2211.05102, section 2; Williams et al. 2009, CACM 52(4)
    """
    tokens = serving_batch_size * prompt_tokens
    compute = 2 * active_parameters * tokens / (tensor_parallel * peak_flops)
    memory = weights_bytes / (tensor_parallel * hbm_bandwidth)
    return where(prompt_tokens > 0, np.maximum(compute, memory), 0.0 * compute)


def time_to_first_token(prefill_time: Any) -> Any:
    """Time from a request to the first token of its answer, where nobody waits in line.

    the prefill, whose last position gives the first token

    Parameters: prefill_time [s]
    Returns: [s] time to first token
    Source: Pope et al. 2022, arXiv:2211.05102, section 2 (prefill, then decoding)
    """
    return 1.0 * prefill_time


def request_latency(time_to_first_token: Any, output_tokens: Any, decode_step_time: Any) -> Any:
    """Time from a request to the end of its answer.

    first token + output tokens x decode step

    Parameters: time_to_first_token [s], output_tokens [1], decode_step_time [s]
    Returns: [s] latency of one request
    Source: Pope et al. 2022, arXiv:2211.05102, section 2
    """
    return time_to_first_token + output_tokens * decode_step_time


def concurrent_requests(request_rate: Any, request_latency: Any) -> Any:
    """Requests that are in service at a time, on average.

    L = lambda W

    Parameters: request_rate [1/s], request_latency [s]
    Returns: [1] requests at once
    Source: Little 1961, Operations Research 9(3); Fleet Foundations, foundations recap
    Example:
        >>> concurrent_requests(100, 2.5)
        250.0
    """
    return request_rate * request_latency


def serving_replicas(concurrent_requests: Any, serving_batch_size: Any) -> Any:
    """Replicas that the requests keep busy, if every batch is full.

    L / b

    Parameters: concurrent_requests [1], serving_batch_size [1]
    Returns: [1] replicas, not rounded
    Source: Little 1961, Operations Research 9(3); Fleet Foundations, foundations recap
    """
    return concurrent_requests / serving_batch_size


def serving_gpus(serving_replicas: Any, tensor_parallel: Any) -> Any:
    """GPUs of as many whole replicas as the requests need.

    ceil(replicas) t

    Parameters: serving_replicas [1], tensor_parallel [1]
    Returns: [1] GPUs
    Source: Little 1961, Operations Research 9(3); Fleet Foundations, foundations recap
    """
    return np.ceil(serving_replicas) * tensor_parallel


def serving_cost_per_million_tokens(
    tensor_parallel: Any,
    gpu_hour_price: Any,
    request_latency: Any,
    serving_batch_size: Any,
    output_tokens: Any,
) -> Any:
    """Price of a million generated tokens on rented GPUs that are never idle.

    t x price x latency / (b x output) x 10^6: a batch holds its replica from prompt to answer

    Parameters: tensor_parallel [1], gpu_hour_price [USD/h], request_latency [s],
        serving_batch_size [1], output_tokens [1]
    Returns: [USD] price of 10^6 output tokens
    Source: by definition
    """
    replica_hours = tensor_parallel * request_latency / 3600
    return replica_hours * gpu_hour_price / (serving_batch_size * output_tokens) * 1e6
