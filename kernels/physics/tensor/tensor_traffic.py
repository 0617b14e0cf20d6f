"""Tensor-parallel traffic: count, time, and compute that hides it."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...laws.layer import gemm_time
from ...laws.topology import flat_bandwidth, flat_latency, group_ranks_per_node
from ...ops import where


@alternative("tensor_parallel_ranks_per_node", scale_up_domain=False)
def node_tensor_parallel_ranks_per_node(gpus_per_node, tensor_parallel):
    """Ranks of one tensor-parallel group on each node.

    clip(gpus per node, 1, group size)

    Returns: [1] ranks on one node
    Source: Megatron-LM rank order (Narayanan et al. 2021, section 3)
    """
    return group_ranks_per_node(gpus_per_node, 1.0, tensor_parallel)


@same_as(flat_bandwidth)
def tensor_parallel_bandwidth(
    tensor_parallel, tensor_parallel_ranks_per_node, intra_node_bandwidth, tensor_rail_bandwidth
):
    """Bandwidth of one rank of a tensor-parallel group in a flat algorithm.

    intra-node in one node, else min(intra-node, ranks on the node x rail)

    Returns: [B/s] bandwidth per rank
    Source: NCCL 2.30, channels over several NICs
    """


@same_as(flat_latency)
def tensor_parallel_latency(
    tensor_parallel, tensor_parallel_ranks_per_node, intra_node_latency, inter_node_latency
):
    """Hop latency of a tensor-parallel group in a flat algorithm.

    intra-node in one node, else inter-node

    Returns: [s] latency of one hop
    Source: Hockney 1994, Parallel Computing 20(3); a ring steps at its slowest link
    """


def tensor_parallel_all_reduces_per_layer(recomputed_exchanges_per_layer):
    """All-reduces per layer and micro-batch: two forward, two backward, and repeated ones.

    4 + repeated: none in attention itself

    Returns: [1] all-reduces
    Source: Shoeybi et al. 2019, section 3; Narayanan et al. 2021 (SC21), section 3.2
    """
    return 4 + recomputed_exchanges_per_layer


row("tensor_message", "activation_message", sequence_parallel=False)


@alternative("tensor_message", sequence_parallel=True)
def sequence_tensor_message(
    activation_message,
    tensor_parallel_all_reduces_per_layer,
    bytes_per_element,
    operand_bytes_per_element,
    two_way_bytes_per_element,
):
    """Bytes of an activation as tensor-parallel ranks reduce or gather it, mean over a layer.

    M (A (e + q) + 2 w) / ((2 A + 2) e): A reduce-scatters in 16 bits, gathers of A inputs as
    operands and of 2 output gradients for both products

    Returns: [B] message
    Range: right in sum for a layer; a gather of an input sends less, one for two products more
    Source: TransformerEngine, transformer_engine/pytorch/module/base.py (grad_output_preprocess)
        and layernorm_linear.py (set_quantizer_usage_for_wgrad_all_gather)
    """
    exchanges = tensor_parallel_all_reduces_per_layer
    bytes_ = exchanges * (bytes_per_element + operand_bytes_per_element)
    bytes_ = bytes_ + 2 * two_way_bytes_per_element
    return activation_message * bytes_ / ((2 * exchanges + 2) * bytes_per_element)


@alternative("distributed_input_gathers", distribute_saved_activations=True, off=0.0)
def split_distributed_input_gathers(tensor_parallel, residual_ranks):
    """All-gathers of a layer's saved input, which tensor ranks keep in parts.

    1; 0 with sequence parallelism, which uses the parts directly

    Returns: [1] all-gathers
    Source: Megatron-LM, --distribute-saved-activations (megatron/core/tensor_parallel/random.py)
    """
    return where(tensor_parallel > residual_ranks, 1.0, 0.0)


row(
    "saved_input_gather_time",
    0.0,
    recompute=(False, "selective", "modules", "alternate_products", "products"),
)


@alternative("saved_input_gather_time", recompute="full")
def full_recompute_saved_input_gather_time(
    distributed_input_gathers,
    saved_inputs_per_layer,
    layers,
    pipeline_parallel,
    num_microbatches,
    tensor_parallel_gather_time,
):
    """Time per step to all-gather layers' saved inputs before recomputation.

    gathers x inputs per layer x l / p x m x t

    Returns: [s] traffic of one step
    Source: Megatron-LM, --distribute-saved-activations (megatron/core/tensor_parallel/random.py)
    """
    passes = saved_inputs_per_layer * layers / pipeline_parallel * num_microbatches
    return distributed_input_gathers * passes * tensor_parallel_gather_time


@alternative("qkv_input_gradient_time", compute_model="mfu")
def mfu_qkv_input_gradient_time(
    microbatch_tokens,
    attention_parameters_per_layer,
    attention_heads,
    head_size,
    hidden_size,
    tensor_parallel,
    peak_flops,
    flops_efficiency,
):
    """Time of the product for the input gradient of attention, per micro-batch.

    2 T (attention weights - h a (h / a)) / (t P efficiency): weights of queries, keys and values

    Returns: [s] time of one product
    Source: Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3
    """
    weights = attention_parameters_per_layer - hidden_size * attention_heads * head_size
    flops = 2 * microbatch_tokens * weights / tensor_parallel
    return flops / (peak_flops * flops_efficiency)


@alternative("qkv_input_gradient_time", compute_model="roofline")
def roofline_qkv_input_gradient_time(
    microbatch_tokens,
    attention_parameters_per_layer,
    attention_heads,
    head_size,
    hidden_size,
    tensor_parallel,
    operand_bytes_per_element,
    bytes_per_element,
    peak_flops,
    gemm_efficiency,
    gemm_half_depth,
    reached_hbm_bandwidth,
):
    """GEMM(T, h, W_qkv / t) alone, which sums over the weights' columns"""
    width = attention_parameters_per_layer / hidden_size - attention_heads * head_size
    return gemm_time(
        microbatch_tokens,
        hidden_size,
        width / tensor_parallel,
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_depth,
        reached_hbm_bandwidth,
    )


@alternative("ffn_input_gradient_time", compute_model="mfu")
def mfu_ffn_input_gradient_time(
    microbatch_tokens,
    ffn_hidden_size,
    ffn_matrices,
    hidden_size,
    tensor_parallel,
    peak_flops,
    flops_efficiency,
):
    """Time of the product for the input gradient of a feed-forward block.

    2 T h (1 or 2) f / (t P efficiency)

    Returns: [s] time of one product
    Source: Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3
    """
    width = (ffn_matrices - 1) * ffn_hidden_size / tensor_parallel
    return 2 * microbatch_tokens * hidden_size * width / (peak_flops * flops_efficiency)


@alternative("ffn_input_gradient_time", compute_model="roofline")
def roofline_ffn_input_gradient_time(
    microbatch_tokens,
    ffn_hidden_size,
    ffn_matrices,
    hidden_size,
    tensor_parallel,
    operand_bytes_per_element,
    bytes_per_element,
    peak_flops,
    gemm_efficiency,
    gemm_half_depth,
    reached_hbm_bandwidth,
):
    """GEMM(T, h, (1 or 2) f / t) alone, which sums over the weights' columns"""
    return gemm_time(
        microbatch_tokens,
        hidden_size,
        (ffn_matrices - 1) * ffn_hidden_size / tensor_parallel,
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_depth,
        reached_hbm_bandwidth,
    )


row(
    "ffn_regathers_per_layer",
    1.0,
    mixture_of_experts=False,
    source="Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2",
)


@alternative("ffn_regathers_per_layer", mixture_of_experts=True)
def expert_ffn_regathers_per_layer(dense_layers, layers):
    """Feed-forward inputs that sequence parallelism gathers again, per layer.

    dense layers / l: experts keep the tokens sent to them

    Returns: [1] gathers
    Source: Gale et al. 2023 (MegaBlocks), arXiv:2211.15841 (tokens are permuted into copies);
        Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2
    """
    return dense_layers / layers


@alternative("regather_time", sequence_parallel=True, off=0.0)
def sequence_regather_time(
    ffn_regathers_per_layer,
    layers,
    pipeline_parallel,
    num_microbatches,
    tensor_parallel_gather_time,
):
    """Time per step to gather layers' inputs again for weight gradients.

    (1 + feed-forward gathers) x l / p x m x t

    Returns: [s] traffic of one step
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2 (an extra all-gather backward,
        overlapped with the gradient of the input)
    """
    passes = layers / pipeline_parallel * num_microbatches
    return (1 + ffn_regathers_per_layer) * passes * tensor_parallel_gather_time


@alternative("regather_window", sequence_parallel=True, off=0.0)
def sequence_regather_window(
    ffn_regathers_per_layer,
    layers,
    pipeline_parallel,
    num_microbatches,
    qkv_input_gradient_time,
    ffn_input_gradient_time,
):
    """Time of the products that can hide the repeated gathers of layers' inputs.

    l / p x m x (QKV product + feed-forward gathers x its product)

    Returns: [s] window
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2
    """
    products = qkv_input_gradient_time + ffn_regathers_per_layer * ffn_input_gradient_time
    return layers / pipeline_parallel * num_microbatches * products


@alternative("hidden_regather_time", sequence_parallel=True, off=0.0)
def sequence_hidden_regather_time(
    ffn_regathers_per_layer,
    layers,
    pipeline_parallel,
    num_microbatches,
    tensor_parallel_gather_time,
    qkv_input_gradient_time,
    ffn_input_gradient_time,
):
    """Part of the repeated gathers of layers' inputs that products of the same layer hide.

    l / p x m x (min(t, QKV product) + feed-forward gathers x min(t, its product))

    Returns: [s] hidden traffic of one step
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2
    """
    attention = np.minimum(tensor_parallel_gather_time, qkv_input_gradient_time)
    ffn = ffn_regathers_per_layer * np.minimum(tensor_parallel_gather_time, ffn_input_gradient_time)
    return layers / pipeline_parallel * num_microbatches * (attention + ffn)


row(
    "tensor_parallel_time",
    "shared_layer_exchange_time",
    source="Narayanan et al. 2021 (SC21), section 3.2",
    mixture_of_experts=False,
)


@alternative("token_gather_time", mixture_of_experts=True, off=0.0)
def expert_token_gather_time(
    pipeline_parallel,
    num_microbatches,
    expert_layers,
    residual_ranks,
    tensor_parallel,
    expert_all_to_alls_per_layer,
    expert_gather_time,
):
    """Time per step in which the GPUs of an expert gather its tokens, or reduce its results.

    all-to-alls x l_e / p x m x t with sequence parallelism: after each to the experts, and before
    each back

    Returns: [s] traffic of one step
    Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py
    """
    layer_passes = expert_layers / pipeline_parallel * num_microbatches
    gathers = where(residual_ranks < tensor_parallel, 0.0, expert_all_to_alls_per_layer)
    return layer_passes * gathers * expert_gather_time


@alternative("tensor_parallel_time", mixture_of_experts=True)
def expert_tensor_parallel_time(
    shared_layer_exchange_time,
    expert_recompute_passes,
    pipeline_parallel,
    num_microbatches,
    tensor_parallel_exchange_time,
    expert_layers,
    shared_experts,
    residual_ranks,
    tensor_parallel,
    token_gather_time,
):
    """Tensor-parallel traffic time of one step on each stage.

    same as a dense model without sequence parallelism. With it, expert layers exchange around
    attention alone, unless they have shared experts, and the GPUs of an expert gather its tokens

    Returns: [s] tensor-parallel traffic of one step
    Range: ring gathers of tokens, for any all_reduce. Megatron-LM trains experts with tensor
        parallelism only under sequence parallelism
    Source: Narayanan et al. 2021 (SC21), section 3.2; Megatron-LM,
        megatron/core/transformer/moe/token_dispatcher.py
    """
    spared = where(residual_ranks < tensor_parallel, 0.0, 1.0)
    layer_passes = expert_layers / pipeline_parallel * num_microbatches
    left_out = where(shared_experts > 0, 0.0, spared) * (2 + expert_recompute_passes)
    fewer = layer_passes * left_out * tensor_parallel_exchange_time
    return shared_layer_exchange_time - fewer + token_gather_time


def shared_layer_exchange_time(
    tensor_parallel_all_reduces_per_layer,
    mixer_and_ffn_blocks,
    pipeline_parallel,
    num_microbatches,
    tensor_parallel_exchange_time,
    saved_input_gather_time,
    regather_time,
    embedding_exchange_time,
    logits_exchange_time,
):
    """Tensor-parallel traffic time of one step, if experts used the layer's tensor-parallel group.

    all-reduces per layer x blocks / (2 p) x m x t + input gathers + embedding and logits; with
    sequence parallelism, an all-reduce is a reduce-scatter and an all-gather

    Returns: [s] tensor-parallel traffic of one step
    Range: repeated gathers with sequence parallelism are counted for every layer, an upper bound if
        some layers have only a feed-forward block
    Source: Narayanan et al. 2021 (SC21), section 3.2; Korthikanti et al. 2022, section 4.2.2; Dao &
        Gu 2024 (Mamba-2), arXiv:2405.21060, section 8.1 (one all-reduce in a mixer)
    """
    per_microbatch = tensor_parallel_all_reduces_per_layer * mixer_and_ffn_blocks / 2
    exchanges = per_microbatch / pipeline_parallel * num_microbatches
    inputs = saved_input_gather_time + regather_time
    ends = embedding_exchange_time + logits_exchange_time
    return exchanges * tensor_parallel_exchange_time + inputs + ends


def embedding_exchange_time(num_microbatches, pipeline_parallel, tensor_parallel_exchange_time):
    """Time per step to sum the embedding rows that tensor ranks look up, mean over stages.

    m / p x t: forward; with sequence parallelism scattered there and gathered backward

    Returns: [s] traffic of one step
    Source: Megatron-LM, megatron/core/tensor_parallel/layers.py (VocabParallelEmbedding)
    """
    return num_microbatches / pipeline_parallel * tensor_parallel_exchange_time


def logits_exchange_time(
    embedding_exchange_time,
    prediction_layers,
    residual_ranks,
    tensor_parallel,
    num_microbatches,
    pipeline_parallel,
    tensor_parallel_latency,
):
    """Time per step of exchanges around the logits and their loss, mean over stages.

    (1 + 2 D + S (1 + D) / 2) E + m / p (1 + D) 6 a log2 t: input gradients are summed as a look-up
    in the embedding is, E, which each of D modules of multi-token prediction repeats; S = 1 with
    sequence parallelism, which gathers inputs before that; three all-reduces for the loss

    Returns: [s] traffic of one step
    Range: an all-reduce of the loss, 4 bytes a token, takes its start-ups
    Source: Megatron-LM, megatron/core/tensor_parallel/layers.py (ColumnParallelLinear) and
        cross_entropy.py
    """
    split = where(residual_ranks < tensor_parallel, 0.0, 1.0)
    losses = 1 + prediction_layers
    exchanges = losses * (1 + split / 2) + prediction_layers
    sums = num_microbatches / pipeline_parallel * losses * 6 * tensor_parallel_latency
    return exchanges * embedding_exchange_time + sums * np.log2(tensor_parallel)


def hidden_logits_exchange_time(
    embedding_exchange_time,
    prediction_layers,
    residual_ranks,
    tensor_parallel,
    logits_share,
    compute_time,
):
    """Part of the exchanges around the logits that their backward products hide, mean over stages.

    min((1 + D) E, (1 + S) L / 3): sums of input gradients behind the gradient of weights, a third
    of the logits' time; of halves, the gather for it behind the gradient of inputs

    Returns: [s] hidden traffic of one step
    Range: frozen weights (lora) hide nothing; modules' layers count as logits
    Source: Megatron-LM, megatron/core/tensor_parallel/layers.py
        (LinearWithGradAccumulationAndAsyncCommunication)
    """
    split = where(residual_ranks < tensor_parallel, 0.0, 1.0)
    products = (1 + split) * logits_share * compute_time / 3
    return np.minimum((1 + prediction_layers) * embedding_exchange_time, products)
