"""Working memory of the layer that is being computed."""

import numpy as np

from ...alternatives import alternative, row
from ...ops import where
from ..context.context_ways import TO_HEADS


@alternative("layer_parameters", mixture_of_experts=False)
def dense_layer_parameters(
    attention_parameters_per_layer, ffn_parameters_per_layer, tensor_parallel
):
    """Weights of one layer that one GPU computes with.

    (attention + feed-forward) / t

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2 (12 h^2)
    """
    return (attention_parameters_per_layer + ffn_parameters_per_layer) / tensor_parallel


@alternative("layer_parameters", mixture_of_experts=True)
def expert_layer_parameters(
    attention_parameters_per_layer,
    experts,
    expert_parallel,
    shared_experts,
    expert_parameters,
    expert_tensor_parallel,
    tensor_parallel,
):
    """Weights of one expert layer that one GPU computes with.

    (attention + (E / e x t / t_e + E_shared) x parameters of an expert) / t

    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1
    """
    local_experts = (
        experts / expert_parallel * (tensor_parallel / expert_tensor_parallel) + shared_experts
    )
    return (attention_parameters_per_layer + local_experts * expert_parameters) / tensor_parallel


row(
    "gradient_buffer_parameters",
    "layer_parameters",
    "(attention + feed-forward) / t",
    source="Narayanan et al. 2021 (SC21), eq. 2 (12 h^2)",
    mixture_of_experts=False,
)


@alternative("gradient_buffer_parameters", mixture_of_experts=True)
def expert_gradient_buffer_parameters(
    attention_parameters_per_layer,
    shared_experts,
    expert_parameters,
    expert_tensor_parallel,
    tensor_parallel,
):
    """Weights of a layer's matrices of distinct shape, one routed expert representing all.

    (attention + (t / t_e + E_shared) x parameters of an expert) / t

    Returns: [1] parameters
    Source: Gale et al. 2023 (MegaBlocks), arXiv:2211.15841, section 3 (experts of one shape)
    """
    matrices = tensor_parallel / expert_tensor_parallel + shared_experts
    different = attention_parameters_per_layer + matrices * expert_parameters
    return different / tensor_parallel


row(
    "gradient_buffer_memory",
    0.0,
    "they are written where they stay",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1",
    gradient_storage=(False, "bf16", "bf16_and_fp32"),
)


@alternative("gradient_buffer_memory", gradient_storage="fp32")
def fp32_gradient_buffer_memory(gradient_buffer_parameters, updated_weight_bytes):
    """Memory of buffers for new gradients, in the format of the weights.

    e per parameter: gradients accumulate in FP32, but the backward pass returns one in the format
    of the weight, in one buffer per matrix shape

    Returns: [B] buffers
    Source: Megatron-LM, fused accumulation of gradients (the buffers are Transformer Engine's
        dummy gradients, one for each shape and format)
    """
    return gradient_buffer_parameters * updated_weight_bytes


row(
    "layer_state_memory",
    "gradient_buffer_memory",
    "buffers of new gradients",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.1",
    zero_stage=(0, 1),
)


@alternative("layer_state_memory", zero_stage=2)
def sharded_gradient_layer_state_memory(layer_parameters, updated_weight_bytes):
    """Memory of the current layer's gathered weights and unreduced gradients.

    e per parameter of the layer: unreduced gradients

    Returns: [B] weights and gradients
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.2
    """
    return layer_parameters * updated_weight_bytes


@alternative("layer_state_memory", zero_stage=3)
def sharded_layer_state_memory(gathered_weights_memory, layer_parameters, updated_weight_bytes):
    """whole weights as they are gathered, and e per parameter of the layer for unreduced gradients

    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.1 (one unit unsharded)
    """
    return gathered_weights_memory + layer_parameters * updated_weight_bytes


@alternative("gathered_weights_memory", reshard_after_forward=True)
def resharded_gathered_weights_memory(
    layer_parameters,
    layer_weight_bytes,
    gathered_tables,
    stage_tables,
    table_memory,
):
    """Weights that ZeRO-3 holds gathered, at most.

    bytes x those of the layer at work + tables V h e / t, at most those of the stage

    Returns: [B] weights
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.1 (one unit unsharded);
        PyTorch, torch/distributed/fsdp/_fully_shard/_fsdp_state.py (the root does not reshard)
    """
    tables = np.minimum(gathered_tables, stage_tables) * table_memory
    return layer_parameters * layer_weight_bytes + tables


def table_memory(vocab_size, hidden_size, bytes_per_element, tensor_parallel):
    """Memory of a whole table, of the embedding or the head, on one tensor rank.

    V h e / t

    Returns: [B] weights
    Source: Narayanan et al. 2021 (SC21), eq. 2
    """
    return vocab_size * hidden_size * bytes_per_element / tensor_parallel


@alternative("stage_tables", stage_split=False)
def even_stage_tables(pipeline_parallel, first_stage_tables, embedding_tables, parameter_copies):
    """Tables of embedding and head that a GPU of the stage computes with.

    those of the first of several stages, else of the model

    Returns: [1] tables
    Source: Megatron-LM, initialize_embedding_word (a tied table on both ends)
    """
    first = parameter_copies * first_stage_tables
    return where(pipeline_parallel > 1, first, embedding_tables)


@alternative("stage_tables", stage_split="whole_layers")
def staged_stage_tables(
    nearer_stage,
    pipeline_parallel,
    first_stage_tables,
    last_stage_tables,
    embedding_tables,
    parameter_copies,
):
    """those of an end stage, 0 between; of one stage, the model's"""
    later = where(nearer_stage < pipeline_parallel, 0.0, last_stage_tables)
    several = parameter_copies * where(nearer_stage > 1, later, first_stage_tables)
    return where(pipeline_parallel > 1, several, embedding_tables)


@alternative("gathered_weights_memory", reshard_after_forward=False)
def held_gathered_weights_memory(held_parameters, model_weight_bytes):
    """bytes x all that the GPU computes with, next to its share

    Source: PyTorch fully_shard (reshard_after_forward=False; set_reshard_after_backward)
    """
    return held_parameters * model_weight_bytes


def ffn_gradients_memory(
    microbatch_tokens,
    ffn_input_width,
    residual_ranks,
    ffn_matrices,
    active_ffn_width,
    tensor_parallel,
    bytes_per_element,
    ffn_layers,
    layers,
    linear_activations_per_token,
):
    """Memory of the gradients of a layer's widest activations: feed-forward or state.

    T max(e (w / t_s + (2 or 3) f l / (l_f t)), those of a state): input of the block, input and
    output of the activation function; f is the mean over layers

    Returns: [B] gradients of activations
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.1 (as large as the activations)
    """
    of_block = active_ffn_width * where(ffn_layers > 0, layers / ffn_layers, 0.0)
    width = ffn_input_width / residual_ranks + ffn_matrices * of_block / tensor_parallel
    ffn = microbatch_tokens * bytes_per_element * width
    return np.maximum(ffn, microbatch_tokens * linear_activations_per_token)


row(
    "layer_activation_memory",
    "ffn_gradients_memory",
    "gradients of its widest activations",
    source="Chen et al. 2016, arXiv:1604.06174, section 3",
    recompute=False,
)


@alternative("layer_activation_memory", recompute="selective")
def selective_layer_activation_memory(
    ffn_gradients_memory, microbatch_tokens, score_activations_per_token
):
    """Memory of the current layer beyond kept activations.

    max(gradients of its widest activations, recomputed scores)

    Returns: [B] activations and their gradients
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 5
    """
    return np.maximum(ffn_gradients_memory, microbatch_tokens * score_activations_per_token)


@alternative("layer_activation_memory", recompute="modules")
def module_layer_activation_memory(
    ffn_gradients_memory,
    microbatch_tokens,
    freed_ffn_activations_per_token,
    freed_mixer_activations_per_token,
    attention_inputs_per_token,
    attention_output_per_token,
    recompute_core_attn,
    score_activations_per_token,
):
    """max(recomputed activations and gradients of feed-forward, those of attention)

    Range: what feed-forward kept is gone when attention runs backward, which is not counted: an
        upper bound where attention needs more
    Source: Megatron-LM, megatron/core/tensor_parallel/random.py (CheckpointWithoutOutput); the
        blocks of a layer run backward one after the other
    """
    ffn = ffn_gradients_memory + microbatch_tokens * freed_ffn_activations_per_token
    scores = recompute_core_attn * score_activations_per_token
    gradients = attention_inputs_per_token + attention_output_per_token
    mixer = freed_mixer_activations_per_token + gradients + scores
    return np.maximum(ffn, microbatch_tokens * mixer)


@alternative("layer_activation_memory", recompute=("alternate_products", "products"))
def product_layer_activation_memory(
    ffn_gradients_memory, whole_layer_activation_memory, resident_activations_per_layer
):
    """all of a layer that is not kept here + gradients of its widest activations

    Range: alternate_products: less sums of 1 to 3 h a token, which it keeps as well
    Source: Chen et al. 2016, arXiv:1604.06174, section 3 (one segment at a time)
    """
    return ffn_gradients_memory + whole_layer_activation_memory - resident_activations_per_layer


@alternative("layer_activation_memory", recompute="full")
def full_layer_activation_memory(
    ffn_gradients_memory, recomputed_unit_layers, whole_layer_activation_memory
):
    """all recomputed activations of a unit of layers + gradients of its widest activations

    Source: Chen et al. 2016, arXiv:1604.06174, section 3 (one segment at a time)
    """
    return recomputed_unit_layers * whole_layer_activation_memory + ffn_gradients_memory


def working_memory(layer_state_memory, layer_tensor_memory):
    """Memory that one layer needs only during its backward pass.

    weights and gradients + activations and their gradients

    Returns: [B] memory
    Range: one layer at a time; prefetched weights of the next layer come on top
    Source: Chen et al. 2016, arXiv:1604.06174, section 3; Zhao et al. 2023 (PyTorch FSDP),
        arXiv:2304.11277, section 3.2.1
    """
    return layer_state_memory + layer_tensor_memory


row(
    "layer_tensor_memory",
    "layer_activation_memory",
    summary="Memory of the activations and gradients of one layer's backward pass, and of buffers.",
    returns="[B] activations and their gradients",
    source="Chen et al. 2016, arXiv:1604.06174, section 3",
    context_parallel_type="p2p",
)


@alternative("layer_tensor_memory", context_parallel_type="all_gather")
def gathered_layer_tensor_memory(layer_activation_memory, context_message, context_parallel):
    """activations and their gradients + 2 c M: keys and values of the whole sequence, and their
    gradients before the reduce-scatter

    Source: Grattafiori et al. 2024, arXiv:2407.21783, section 3.3.2
    """
    whole = where(context_parallel > 1, 2 * context_parallel * context_message, 0.0)
    return layer_activation_memory + whole


@alternative("layer_tensor_memory", context_parallel_type=TO_HEADS)
def head_layer_tensor_memory(layer_activation_memory, head_message, head_sharing_ranks):
    """activations and their gradients + M, the all-to-all receive buffer

    Range: with more ranks than KV heads, copies kept until the backward pass come on top
    Source: Jacobs et al. 2023 (DeepSpeed-Ulysses), arXiv:2309.14509, section 3.2
    """
    arrived = where(head_sharing_ranks > 1, head_message, 0.0)
    return layer_activation_memory + arrived
