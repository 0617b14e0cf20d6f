"""Offloading to the host: activations between two passes, optimizer states and their update."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, row
from ...ops import where
from ...reasons import REASONS as REASONS


def host_update_time(
    optimizer_parameters,
    n_gpus,
    gpus_per_node,
    host_state_bytes,
    host_gradient_bytes,
    updated_weight_bytes,
    host_memory_bandwidth,
    host_memory_efficiency,
):
    """Time of one update of the optimizer on the host, whose memory all GPUs of a node share.

    N_o x GPUs of the node x (2 state + gradient + weight) / (efficiency x B_host): states read and
    written, gradients read, weights written

    Returns: [s] update of one step
    Range: one pass of all cores over nodes full of one stage; share of the memory reached: 0.39 to
        0.53 on two Xeon 8168, 0.56 on a Grace. Casts that read weights again make it 34 bytes for
        30, gradients scaled before (DeepSpeed) 42; unbound threads, or Adam operation by operation,
        2 to 6 times as long. A job in part of a rack: state the node by the tray. Muon: up to 16 %
        short on the fullest stage, as state is the model's mean (20 % with drives)
    Source: DeepSpeed, csrc/includes/cpu_adam.h; Ren et al. 2021 (ZeRO-Offload), arXiv:2101.06840,
        table 4; Lian et al. 2025 (SuperOffload), arXiv:2509.21271
    """
    each = 2 * host_state_bytes + host_gradient_bytes + updated_weight_bytes
    updated = np.minimum(n_gpus, gpus_per_node) * optimizer_parameters
    return updated * each / (host_memory_efficiency * host_memory_bandwidth)


@alternative("optimizer_offload_time", offload=("cpu", "nvme"), off=0.0)
def host_optimizer_offload_time(
    optimizer_parameters,
    host_gradient_bytes,
    updated_weight_bytes,
    offload_bandwidth,
    host_update_time,
    optimizer_offload_overlap,
    drive_state_time,
):
    """Time per step that a GPU waits for the host: it gets gradients, updates, sends weights back.

    largest + (1 - overlap) x (N_o gradient / B + update + N_o weight / B - largest) + drives, the
    largest of these three

    Returns: [s] wait of one step
    Range: overlap after the last pass, tensor by tensor, of which there are many; transfers take
        memory of the host, too: at most a fifth of the update. From above where gradients leave
        during the backward pass (DeepSpeed) or the update runs during passes (ZenFlow,
        SuperOffload); sums of micro-batches that DeepSpeed keeps with the host are not counted
    Source: Ren et al. 2021 (ZeRO-Offload), arXiv:2101.06840, section 4.1; Megatron-LM,
        megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py
    """
    out = optimizer_parameters * host_gradient_bytes / offload_bandwidth
    back = optimizer_parameters * updated_weight_bytes / offload_bandwidth
    largest = np.maximum(np.maximum(out, back), host_update_time)
    rest = out + back + host_update_time - largest
    return largest + (1 - optimizer_offload_overlap) * rest + drive_state_time


@alternative("drive_state_time", offload="nvme")
def nvme_drive_state_time(optimizer_parameters, updated_state_bytes, nvme_bandwidth):
    """Time per step in which optimizer states are read from drives and written.

    2 N_o state / B_nvme

    Returns: [s] traffic of one step
    Range: gradients pass by the host; an FP32 copy in the state goes to drives and back, as
        DeepSpeed swaps it
    Source: Rajbhandari et al. 2021 (ZeRO-Infinity), arXiv:2104.07857, section 4.1
    """
    return 2 * optimizer_parameters * updated_state_bytes / nvme_bandwidth


row("drive_state_time", 0.0, offload=(False, "cpu"))
row(
    "offloaded_activations_per_layer",
    0.0,
    "they stay on the GPU",
    activation_offload=False,
    source="Rajbhandari et al. 2021 (ZeRO-Infinity), arXiv:2104.07857, section 5.1",
)


@alternative("offloaded_activations_per_layer", activation_offload="layers")
def whole_offloaded_activations_per_layer(offloaded_layers, layers, activation_memory_per_layer):
    """Activations of one layer and micro-batch that the host keeps, mean over layers.

    min(n, l) / l x activations of a layer

    Returns: [B] activations of one layer
    Source: Megatron-LM, --cpu-offloading-num-layers (TransformerEngine,
        transformer_engine/pytorch/cpu_offload.py)
    """
    return np.minimum(offloaded_layers, layers) / layers * activation_memory_per_layer


row(
    "offloaded_activations_per_layer",
    "moved_activations_per_layer",
    "what modules move",
    activation_offload="modules",
)


@alternative("moved_activations_per_layer", recompute="products")
def tensor_moved_activations_per_layer(
    offload_attn_norm,
    layer_input_bytes,
    microbatch_tokens,
    offload_core_attn,
    keep_qkv_proj,
    attention_inputs_per_token,
    offload_attn_proj,
    keep_context,
    attention_output_per_token,
    offload_mlp_norm,
    keep_out_proj,
    ffn_block_input_per_token,
    offload_moe_act,
    keep_mlpwi,
    activation_inputs_per_token,
):
    """of what is kept: a layer's input (attn_norm), queries, keys and values (core_attn),
    attention's output (attn_proj), the sum after it (mlp_norm), inputs of activation functions

    Source: JAX, save_and_offload_only_these_names; MaxText, src/maxtext/utils/maxtext_utils.py
    """
    heads = offload_core_attn * keep_qkv_proj * attention_inputs_per_token
    heads = heads + offload_attn_proj * keep_context * attention_output_per_token
    sums = offload_mlp_norm * keep_out_proj * ffn_block_input_per_token
    inside = offload_moe_act * keep_mlpwi * activation_inputs_per_token
    return offload_attn_norm * layer_input_bytes + microbatch_tokens * (heads + sums + inside)


@alternative(
    "moved_activations_per_layer",
    recompute=(False, "selective", "modules", "alternate_products", "full"),
)
def module_moved_activations_per_layer(
    moved_mixer_activations, moved_ffn_activations, pipeline_parallel, stage_chunks, layers
):
    """Activations of one layer and micro-batch that modules move to the host, mean over layers.

    those of each module; the last layer of a piece moves nothing

    Returns: [B] activations of one layer
    Range: pieces of equal size
    Source: Megatron-LM, megatron/core/pipeline_parallel/fine_grained_activation_offload.py (the
        last group of each name stays)
    """
    moving = np.maximum(1 - pipeline_parallel * stage_chunks / layers, 0.0)
    return moving * (moved_mixer_activations + moved_ffn_activations)


@alternative("moved_mixer_activations", latent_attention=False)
def grouped_moved_mixer_activations(
    microbatch_tokens,
    offload_qkv_linear,
    layer_input_bytes,
    mixer_norm_output_per_token,
    offload_core_attn,
    attention_inputs_per_token,
    offload_attn_proj,
    attention_output_per_token,
):
    """Activations of a layer's attention that go to the host, of one micro-batch.

    qkv_linear: input of the norm that is fused to it, and its output; core_attn: queries, keys,
    values; attn_proj: output of attention

    Returns: [B] activations of one layer
    Source: Megatron-LM, --offload-modules (megatron/core/transformer/attention.py)
    """
    projections = offload_qkv_linear * mixer_norm_output_per_token
    heads = offload_core_attn * attention_inputs_per_token
    heads = heads + offload_attn_proj * attention_output_per_token
    return offload_qkv_linear * layer_input_bytes + microbatch_tokens * (projections + heads)


@alternative("moved_mixer_activations", latent_attention=True)
def latent_moved_mixer_activations(
    microbatch_tokens,
    offload_attn_norm,
    layer_input_bytes,
    offload_qkv_linear,
    recompute_layernorm,
    mixer_norm_output_per_token,
    latents_per_token,
    offload_core_attn,
    recompute_mla_up_proj,
    attention_inputs_per_token,
    offload_attn_proj,
    attention_output_per_token,
):
    """attn_norm: its input; qkv_linear: output of the norm and latents; core_attn: queries, keys,
    values; attn_proj: output of attention; without what runs again

    Source: Megatron-LM, --offload-modules (megatron/core/transformer/multi_latent_attention.py)
    """
    projections = (1 - recompute_layernorm) * mixer_norm_output_per_token + latents_per_token
    heads = offload_core_attn * (1 - recompute_mla_up_proj) * attention_inputs_per_token
    heads = heads + offload_attn_proj * attention_output_per_token
    tokens = microbatch_tokens * (offload_qkv_linear * projections + heads)
    return offload_attn_norm * layer_input_bytes + tokens


@alternative("moved_ffn_activations", mixture_of_experts=True, off=0.0)
def expert_moved_ffn_activations(
    offload_mlp_norm,
    layer_input_bytes,
    expert_layers,
    layers,
    microbatch_tokens,
    recompute_moe,
    offload_expert_fc1,
    expert_copies_per_token,
    offload_moe_act,
    routed_ffn_activations_per_token,
    expert_activation_output_per_token,
):
    """Activations of a layer's experts that go to the host, of one micro-batch, mean over layers.

    mlp_norm: its input; expert_fc1: copies of tokens; moe_act: inputs of the activation functions;
    without what runs again

    Returns: [B] activations of one layer
    Range: without scales of 32 or 16, Megatron-LM moves copies in 16 bits, which count as they are
        kept
    Source: Megatron-LM, --offload-modules (megatron/core/transformer/moe/experts.py)
    """
    inside = routed_ffn_activations_per_token - expert_copies_per_token
    inside = offload_moe_act * (inside - expert_activation_output_per_token)
    experts = (1 - recompute_moe) * (offload_expert_fc1 * expert_copies_per_token + inside)
    inputs = offload_mlp_norm * layer_input_bytes * expert_layers / layers
    return inputs + microbatch_tokens * experts


def resident_activations_per_layer(activation_memory_per_layer, offloaded_activations_per_layer):
    """Activations of one layer and micro-batch that stay on the GPU, mean over layers.

    all that are kept - those that the host keeps

    Returns: [B] activations of one layer
    Range: what is on its way is on the GPU, too: up to two layers of one micro-batch more
    Source: Rajbhandari et al. 2021 (ZeRO-Infinity), arXiv:2104.07857, section 5.1
    """
    return activation_memory_per_layer - offloaded_activations_per_layer


def host_activation_memory(
    layers, pipeline_parallel, microbatches_in_flight, offloaded_activations_per_layer
):
    """Activations of one GPU of the first stage that its host keeps.

    l / p x micro-batches in flight x those of a layer

    Returns: [B] memory of the host
    Source: Megatron-LM, megatron/core/pipeline_parallel/fine_grained_activation_offload.py
        (OffloadTensorPool)
    """
    kept_layers = layers / pipeline_parallel * microbatches_in_flight
    return kept_layers * offloaded_activations_per_layer


@alternative("activation_offload_time", activation_offload=("layers", "modules"), off=0.0)
def moved_activation_offload_time(
    offloaded_activations_per_layer, layers, pipeline_parallel, num_microbatches, offload_bandwidth
):
    """Time per step of activations' way to the host; their way back takes as long.

    moved of a layer x l / p x m / B

    Returns: [s] transfers of one step, in one direction
    Source: Rajbhandari et al. 2021 (ZeRO-Infinity), arXiv:2104.07857, section 5.1
    """
    moved = offloaded_activations_per_layer * layers / pipeline_parallel
    return moved * num_microbatches / offload_bandwidth


row(
    "activation_offload_reason",
    "module_offload_reason",
    "modules keep their tensors where nothing else frees them",
    activation_offload="modules",
)
row("module_offload_reason", 0.0, recompute=(False, "selective", "modules", "products"))
row(
    "module_offload_reason",
    reasons.ACTIVATION_OFFLOAD_DOES_NOT_FIT,
    "what runs again is not kept, and cannot be moved",
    summary="Why tensors of modules cannot go to the host: what else decides which are kept.",
    returns="[flag] reason\nFlags: REASONS",
    source="Megatron-LM, docs/user-guide/features/fine_grained_activation_offloading.md (combined "
    "with recomputation of modules)",
    recompute=("full", "alternate_products"),
)


@alternative("activation_offload_reason", activation_offload="layers", off=0.0)
def layers_activation_offload_reason(
    pipeline_parallel, matrix_recompute_passes, attention_recompute_passes, offloaded_layers, layers
):
    """Why layers' activations cannot go to the host: several stages, or anything runs again.

    p = 1, nothing recomputed, at most l - 1 layers

    Returns: [flag] reason
    Flags: REASONS
    Source: Megatron-LM, megatron/core/transformer/transformer_config.py (cpu_offloading)
    """
    again = matrix_recompute_passes + attention_recompute_passes
    fits = (pipeline_parallel <= 1) & (again == 0) & (offloaded_layers < layers)
    operands = pipeline_parallel + again + offloaded_layers + layers
    reason = where(fits, 0.0, reasons.ACTIVATION_OFFLOAD_DOES_NOT_FIT)
    return where(operands == operands, reason, np.nan)
