"""The pipeline stage that needs the most memory."""

import numpy as np

from ...alternatives import alternative, family, row, same_as
from ...laws.stages import (
    dense_layers_of_stage,
    first_sparse_stage,
    layers_of_stage,
    stage_memory,
    stage_of_one_way,
)
from ...ops import where


@same_as(layers_of_stage)
def stage_layers(
    pipeline_stage,
    pipeline_parallel,
    held_layers,
    first_stage_held_layers,
    middle_stage_layers,
    last_stage_held_layers,
):
    """Layers of a pipeline stage; middle stages with an extra layer come first.

    l_first, l_middle or l_middle - 1, l_last

    Returns: [1] layers; NaN beyond the last stage
    Source: Megatron-LM, --decoder-first-pipeline-num-layers (the rest is shared evenly)
    """


@same_as(stage_of_one_way)
def nearer_stage(pipeline_stage, pipeline_parallel, parameter_copies):
    """The given stage; in dualpipe, the one nearer to the first of the two that its GPUs hold.

    s; min(s, p + 1 - s) in dualpipe

    Returns: [1] stage
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 (stages mirrored)
    """


family({"pipeline_stage": "nearer_stage", "stage_layers": "nearer_stage_layers"}, stage_layers)


@same_as(dense_layers_of_stage)
def stage_dense_layers(
    nearer_stage,
    pipeline_parallel,
    held_layers,
    first_stage_held_layers,
    middle_stage_layers,
    last_stage_held_layers,
    leading_held_dense_layers,
):
    """Dense layers of a pipeline stage, per pipeline direction.

    leading dense layers - those of earlier stages

    Returns: [1] layers
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 4.2 (dense layers come first)
    """


def stage_table_parameters(
    nearer_stage, pipeline_parallel, first_stage_table_parameters, last_stage_table_parameters
):
    """Embedding parameters on a pipeline stage, per pipeline direction.

    those of an end stage; 0 for middle stages

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2
    """
    later = where(nearer_stage < pipeline_parallel, 0.0, last_stage_table_parameters)
    return where(nearer_stage > 1, later, first_stage_table_parameters)


def stage_shared_parameters(
    nearer_stage_layers,
    stage_dense_layers,
    common_layer_parameters,
    dense_layer_parameters,
    expert_layer_parameters,
    stage_table_parameters,
    parameter_copies,
):
    """Parameters of a stage without routed experts; an end stage holds an embedding table.

    copies x (layers x common + dense layers x block + others x (shared experts, router) + ends V h)

    Returns: [1] parameters
    Range: dualpipe: for middle stages, the larger of the two directions counts twice
    Source: Narayanan et al. 2021 (SC21), eq. 2; DeepSeek-AI 2024, arXiv:2412.19437, section 4.2
    """
    experts = (nearer_stage_layers - stage_dense_layers) * expert_layer_parameters
    dense = nearer_stage_layers * common_layer_parameters
    dense = dense + stage_dense_layers * dense_layer_parameters
    return parameter_copies * (dense + experts + stage_table_parameters)


def stage_routed_parameters(
    nearer_stage_layers, stage_dense_layers, routed_layer_parameters, parameter_copies
):
    """Parameters of all routed experts of a stage.

    copies x (layers - dense layers) E x parameters of an expert

    Returns: [1] parameters
    Source: Fedus et al. 2022, arXiv:2101.03961, section 2.1; DeepSeek-AI 2024, arXiv:2412.19437,
        section 4.2 (dense layers come first)
    """
    once = (nearer_stage_layers - stage_dense_layers) * routed_layer_parameters
    return parameter_copies * once


def fullest_stage(
    pipeline_parallel,
    held_layers,
    first_stage_held_layers,
    middle_stage_layers,
    last_stage_held_layers,
    leading_held_dense_layers,
    common_layer_parameters,
    dense_layer_parameters,
    expert_layer_parameters,
    routed_layer_parameters,
    first_stage_table_parameters,
    last_stage_table_parameters,
    shared_state_bytes,
    routed_state_bytes,
    microbatches_in_flight,
    schedule_depth,
    schedule_slope,
    resident_activations_per_layer,
    microbatch_logits,
    logits_at_first,
    logits_at_last,
    parameter_copies,
    first_stage_kept_ratio,
    middle_stage_kept_ratio,
    last_stage_kept_ratio,
):
    """Pipeline stage whose GPUs need the most memory, counted from 1.

    the first (embedding, most micro-batches in flight), the second (most layers), the first without
    dense layers, or the last (logits): no other stage can need more

    Returns: [1] stage
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.3 and 4.3 (first stage; what the
        last keeps)
    """
    split = (held_layers, first_stage_held_layers, middle_stage_layers, last_stage_held_layers)
    layers = (leading_held_dense_layers, common_layer_parameters, dense_layer_parameters)
    experts = (expert_layer_parameters, routed_layer_parameters)
    tables = (first_stage_table_parameters, last_stage_table_parameters)
    state_bytes = (shared_state_bytes, routed_state_bytes)
    in_flight = (microbatches_in_flight, schedule_depth, schedule_slope)
    states = (*layers, *experts, *tables, *state_bytes, *in_flight)
    last_logits = where(pipeline_parallel > 1, logits_at_last, 1.0) * microbatch_logits
    ends = (logits_at_first * microbatch_logits, last_logits)
    ratios = (first_stage_kept_ratio, middle_stage_kept_ratio, last_stage_kept_ratio)
    at_first, between, at_last = (
        (*states, ratio, resident_activations_per_layer, *ends) for ratio in ratios
    )
    stages = pipeline_parallel
    sparse = first_sparse_stage(
        stages,
        first_stage_held_layers,
        middle_stage_layers,
        leading_held_dense_layers,
    )
    first = stage_memory(np.minimum(1.0, stages), stages, *split, *at_first)
    second = stage_memory(np.minimum(2.0, stages), stages, *split, *between)
    third = stage_memory(sparse, stages, *split, *between)
    last = stage_memory(stages, stages, *split, *at_last)
    last = where(parameter_copies > 1, first, last)  # both directions end there
    fullest = where(second > first, np.minimum(2.0, stages), 1.0)
    most = np.maximum(first, second)
    fullest = where(third > most, sparse, fullest)
    return where(last > np.maximum(most, third), stages, fullest)


def pipeline_stage(fullest_stage):
    """Pipeline stage whose memory is reported, counted from 1: the fullest, unless given.

    fullest stage

    Returns: [1] stage
    Source: by definition
    """
    return 1.0 * fullest_stage


@alternative("held_state_bytes", zero_stage=0)
def replicated_held_state_bytes(kept_weight_bytes, kept_gradient_bytes, kept_optimizer_bytes):
    """weight + gradients + optimizer states

    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5
    """
    return kept_weight_bytes + kept_gradient_bytes + kept_optimizer_bytes


@alternative("held_state_bytes", zero_stage=1)
def gradients_held_state_bytes(kept_weight_bytes, kept_gradient_bytes):
    """State bytes per parameter that every data-parallel rank holds, unsharded.

    weight + gradients

    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.1
    """
    return kept_weight_bytes + kept_gradient_bytes


@alternative("held_state_bytes", zero_stage=2)
def weights_held_state_bytes(kept_weight_bytes, unsharded_gradient_bytes):
    """weight + unreduced gradients

    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.2
    """
    return kept_weight_bytes + unsharded_gradient_bytes


@alternative("held_state_bytes", zero_stage=3)
def gathered_held_state_bytes(unsharded_gradient_bytes, gathered_weight_bytes):
    """unreduced gradients + weights that stay gathered: none, unless stated

    Range: omits the own shard of weights that stay gathered; used only to find the fullest stage
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.3
    """
    return unsharded_gradient_bytes + gathered_weight_bytes


row(
    "unsharded_gradient_bytes",
    0.0,
    summary=(
        "Bytes of a parameter's gradients that each rank adds up under ZeRO-2 and 3, unsharded."
    ),
    returns="[B] bytes of one parameter",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.2",
    gradient_sync=("microbatch", "two_hop"),
)


@alternative("unsharded_gradient_bytes", gradient_sync="step")
def summed_unsharded_gradient_bytes(kept_gradient_bytes, num_microbatches):
    """all that are kept; with one micro-batch none wait to be reduced: 0

    Source: PyTorch fully_shard (set_requires_gradient_sync)
    """
    return where(num_microbatches > 1, kept_gradient_bytes, 0.0)


row(
    "gathered_weight_bytes",
    0.0,
    summary="Bytes of a weight that stays gathered between the passes.",
    returns="[B] bytes of one parameter",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.3",
    reshard_after_forward=True,
)
row(
    "gathered_weight_bytes",
    "model_weight_bytes",
    source="PyTorch fully_shard (reshard_after_forward=False)",
    reshard_after_forward=False,
)


def sharded_state_bytes(
    kept_weight_bytes, kept_gradient_bytes, kept_optimizer_bytes, held_state_bytes
):
    """State bytes per parameter that are sharded over data-parallel ranks.

    weight + gradients + optimizer states - unsharded bytes

    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5
    """
    return kept_weight_bytes + kept_gradient_bytes + kept_optimizer_bytes - held_state_bytes


def shared_state_bytes(
    parameter_copies, held_state_bytes, sharded_state_bytes, tensor_parallel, gradient_ranks
):
    """State bytes on one GPU per parameter of its stage, without routed experts.

    copies x (held / t + sharded / (t n))

    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5
    """
    state = parameter_copies * held_state_bytes / tensor_parallel
    return state + parameter_copies * sharded_state_bytes / (tensor_parallel * gradient_ranks)


def routed_state_bytes(
    parameter_copies,
    held_state_bytes,
    sharded_state_bytes,
    tensor_parallel,
    gradient_ranks,
    expert_parallel,
    expert_tensor_parallel,
):
    """State bytes on one GPU per parameter of its stage's routed experts.

    copies x (held / (t_e e) + sharded / (t n)): sharded as far as others, in smaller groups

    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1
    """
    state = parameter_copies * held_state_bytes / tensor_parallel
    state = state / expert_parallel * (tensor_parallel / expert_tensor_parallel)
    return state + parameter_copies * sharded_state_bytes / (tensor_parallel * gradient_ranks)
