"""Pipeline stages: the layers of each, what only the ends hold, the slowest and the fullest."""

import numpy as np

from ..alternatives import alternative, same_as
from ..layer import gemm_time
from ..ops import where
from ..stages import first_sparse_stage, layers_of_stage, stage_memory, stage_of_one_way
from ..stages import stage_parameters as parameters_of_stage


def first_stage_layers(layers, pipeline_parallel, embedding_split_layers, loss_split_layers):
    """Layers of the first pipeline stage, where they are not stated: the most even split.

    floor(u / p) - embedding, u = l + embedding + loss, and one more where all but one stage have it

    Returns: [1] layers
    Source: Grattafiori et al. 2024 (Llama 3), arXiv:2407.21783, section 3.3.2 (126 layers: one
        less on the first and on the last); Megatron-LM,
        --account-for-embedding-in-pipeline-split
    """
    units = layers + embedding_split_layers + loss_split_layers
    each = np.floor(units / pipeline_parallel)
    more = where(units - pipeline_parallel * each > pipeline_parallel - 2, 1.0, 0.0)
    return where(pipeline_parallel > 1, each + more - embedding_split_layers, layers)


def last_stage_layers(layers, pipeline_parallel, first_stage_layers, loss_split_layers):
    """Layers of the last pipeline stage, where they are not stated: it is the smallest.

    floor((l - l_first + loss) / (p - 1)) - loss

    Returns: [1] layers
    Source: Grattafiori et al. 2024 (Llama 3), arXiv:2407.21783, section 3.3.2; Megatron-LM,
        --account-for-loss-in-pipeline-split
    """
    others = np.maximum(pipeline_parallel - 1, 1.0)
    each = np.floor((layers - first_stage_layers + loss_split_layers) / others)
    return where(pipeline_parallel > 1, each - loss_split_layers, layers)


def middle_stage_layers(layers, pipeline_parallel, first_stage_layers, last_stage_layers):
    """Layers of the second pipeline stage: no stage between the first and the last has more.

    ceil((l - l_first - l_last) / (p - 2)); 0 where there is none

    Returns: [1] layers
    Range: stages with one layer more come first: a bound from above for memory, and for the time
        that stages wait
    Source: Megatron-LM, --decoder-first-pipeline-num-layers (the rest is shared evenly)
    """
    between = np.maximum(pipeline_parallel - 2, 1.0)
    rest = layers - first_stage_layers - last_stage_layers
    return where(pipeline_parallel > 2, np.ceil(rest / between), 0.0)


@alternative("embedding_share", compute_model="mfu")
def mfu_embedding_share():
    """Share of computing that looks tokens up: it takes no operations.

    0

    Returns: [1] share of compute time
    Source: Narayanan et al. 2021 (SC21), appendix (the input embedding is not counted)
    """
    return 0.0


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
    """Share of computing that looks tokens up: rows are read, written and their gradients added.

    4 T h e / BW / (l x layer + embedding and logits + multi-token prediction)

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
    """Share of computing that the last stage does alone: logits, loss, multi-token prediction.

    (6 V h + prediction) / (operations of a token x those done over those done once)

    Returns: [1] share of compute time
    Source: Narayanan et al. 2021 (SC21), appendix (6 B s h V)
    """
    own = logits_flops_per_token + prediction_flops_per_token
    return own / (kernel_flops_per_token * recompute_flops_factor)


@alternative("logits_share", compute_model="roofline")
def roofline_logits_share(layers, layer_time, logits_time, prediction_time, embedding_share):
    """(embedding, logits, prediction) / (l x layer + the same) - that of the embedding

    Source: Narayanan et al. 2021 (SC21), appendix (6 B s h V), on a roofline
    """
    own = logits_time + prediction_time
    return own / (layers * layer_time + own) - embedding_share


@alternative("stage_imbalance_time", stage_split="alike")
def no_stage_imbalance_time():
    """Time of one step by which the slowest stage works longer than the mean stage: all are alike.

    0

    Returns: [s] time of one step
    Source: by definition
    """
    return 0.0


@alternative("stage_imbalance_time", stage_split="whole_layers")
def slowest_stage_imbalance_time(
    compute_time,
    straggler_time,
    exposed_layer_communication_time,
    embedding_share,
    logits_share,
    layers,
    pipeline_parallel,
    first_stage_layers,
    middle_stage_layers,
    last_stage_layers,
    logits_at_first,
    logits_at_last,
    parameter_copies,
):
    """Time of one step by which the slowest stage works longer than the mean stage.

    max of first, middle and last, not below 0: layers (l_stage p / l - 1), layers = C (1 -
    embedding - logits) + traffic of the mean stage, + what the stage has of embedding and logits,
    less the mean. Logits at the first stage where a pipeline comes back to it; in dualpipe either
    end has half of both ends' layers, of the embedding and of the logits

    Range: layers alike, or mixed alike on every stage; traffic hidden in each layer is that of the
        mean stage, whose compute counts logits: faster GPUs may seem up to 0.5 % slower
    Source: Narayanan et al. 2021 (SC21), section 2.2 (a pipeline runs at its slowest stage)
    """
    computing = compute_time + straggler_time
    embedding, logits = embedding_share * computing, logits_share * computing
    in_layers = computing * (1 - embedding_share - logits_share) + exposed_layer_communication_time
    share = pipeline_parallel / layers
    at_end = pipeline_parallel / (logits_at_first + logits_at_last)
    other_way = (parameter_copies - 1) / 2
    less = other_way * (last_stage_layers - first_stage_layers)
    looked_up = pipeline_parallel * (1 - other_way)
    first = in_layers * ((first_stage_layers + less) * share - 1) + embedding * (looked_up - 1)
    first = first + logits * (logits_at_first * at_end - 1)
    middle = in_layers * (middle_stage_layers * share - 1) - embedding - logits
    last = in_layers * ((last_stage_layers - less) * share - 1)
    last = last + embedding * (pipeline_parallel * other_way - 1)
    last = last + logits * (logits_at_last * at_end - 1)
    more = np.maximum(np.maximum(first, middle), np.maximum(last, 0.0))
    return where(pipeline_parallel > 1, more, 0.0)


def slowest_stage_time(
    compute_time, straggler_time, exposed_layer_communication_time, stage_imbalance_time
):
    """Time of one step in which the slowest stage computes and waits for its layers' traffic.

    that of the mean stage + imbalance

    Returns: [s] time of one step
    Source: by definition
    """
    return compute_time + straggler_time + exposed_layer_communication_time + stage_imbalance_time


def stage_imbalance(
    stage_imbalance_time, compute_time, straggler_time, exposed_layer_communication_time
):
    """Work of the slowest stage beyond that of the mean stage, over the latter.

    slowest / mean - 1

    Returns: [1] share
    Source: by definition
    """
    mean = compute_time + straggler_time + exposed_layer_communication_time
    return stage_imbalance_time / mean


# Multi-token prediction


@alternative("prediction_flops_per_token", multi_token_prediction=False)
def no_prediction_flops_per_token():
    """Operations of one token in modules of multi-token prediction: there are none.

    0

    Returns: [FLOP] operations of one token
    Source: by definition
    """
    return 0.0


@alternative("prediction_flops_per_token", multi_token_prediction=True)
def some_prediction_flops_per_token(
    prediction_layers,
    layer_matrix_flops_per_token,
    attention_flops_per_token,
    layers,
    hidden_size,
    logits_flops_per_token,
):
    """Operations of one token in modules of multi-token prediction, forward and backward.

    D ((matrices + attention) / l + 12 h^2 + logits): a layer, a projection of 2 h to h, the logits

    Range: a layer like the mean of the model's
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.2
    """
    layer = (layer_matrix_flops_per_token + attention_flops_per_token) / layers
    projection = 12 * hidden_size * hidden_size
    return prediction_layers * (layer + projection + logits_flops_per_token)


@alternative("prediction_time", multi_token_prediction=False)
def no_prediction_time():
    """Time of multi-token prediction for one micro-batch: there is none.

    0

    Returns: [s] time for one micro-batch
    Source: by definition
    """
    return 0.0


@alternative("prediction_time", multi_token_prediction=True)
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
    gemm_half_size,
    reached_hbm_bandwidth,
):
    """Time of multi-token prediction for one micro-batch, forward and backward.

    D (layer + 3 GEMM(T, h / t, 2 h) + embedding and logits)

    Range: traffic of the module's layer is not counted
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.2
    """
    projection = gemm_time(
        microbatch_tokens,
        hidden_size / tensor_parallel,
        2 * hidden_size,
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_size,
        reached_hbm_bandwidth,
    )
    return prediction_layers * (layer_time + 3 * projection + logits_time)


def held_layers(layers, prediction_layers):
    """Layers that a pipeline's stages hold, those of multi-token prediction too.

    l + D

    Returns: [1] layers
    Source: by definition
    """
    return layers + prediction_layers


def first_stage_held_layers(
    first_stage_layers, last_stage_layers, prediction_layers, parameter_copies
):
    """Layers that GPUs of the first stage hold of each way through the pipeline, the mean of both.

    l_first; in dualpipe, whose other way ends there, (l_first + l_last + D) / 2

    Returns: [1] layers
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 (both ends fed, stages mirrored)
    """
    other = last_stage_layers + prediction_layers
    return first_stage_layers + (parameter_copies - 1) / 2 * (other - first_stage_layers)


def last_stage_held_layers(
    last_stage_layers, prediction_layers, first_stage_layers, parameter_copies
):
    """Layers that GPUs of the last stage hold of each way through the pipeline, the mean of both.

    l_last + D, those of multi-token prediction too; in dualpipe (l_first + l_last + D) / 2

    Returns: [1] layers
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 (both ends fed, stages mirrored)
    """
    own = last_stage_layers + prediction_layers
    return own + (parameter_copies - 1) / 2 * (first_stage_layers - own)


# Parameters


@same_as(layers_of_stage)
def stage_layers(
    pipeline_stage,
    pipeline_parallel,
    held_layers,
    first_stage_held_layers,
    middle_stage_layers,
    last_stage_held_layers,
):
    """Layers of a pipeline stage; stages between with one layer more come first.

    l_first, l_middle or l_middle - 1, l_last

    Returns: [1] layers; NaN beyond the last stage
    Source: Megatron-LM, --decoder-first-pipeline-num-layers (the rest is shared evenly)
    """


@alternative("leading_dense_layers", mixture_of_experts=False)
def no_leading_dense_layers():
    """Dense layers in front of those with experts: a dense model makes no difference.

    0

    Returns: [1] layers
    Source: by definition
    """
    return 0.0


@alternative("leading_dense_layers", mixture_of_experts=True)
def some_leading_dense_layers(dense_layers, linear_layers):
    """Dense layers in front of those with experts.

    those of the model; none in front where layers of several kinds alternate

    Range: with `linear_layers` every layer of a stage counts as the mean layer
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 4.2 (dense layers come first)
    """
    return where(linear_layers > 0, 0.0, 1.0 * dense_layers)


def end_table_parameters(vocab_size, hidden_size):
    """Parameters of one table of embeddings, which an end of a pipeline holds.

    V h

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2
    """
    return vocab_size * hidden_size


@alternative("dense_layer_parameters", mixture_of_experts=False)
def no_dense_layer_parameters():
    """Parameters of a dense layer beyond what all layers have alike: none, they are alike.

    0

    Returns: [1] parameters
    Source: by definition
    """
    return 0.0


@alternative("dense_layer_parameters", mixture_of_experts=True)
def mixed_dense_layer_parameters(ffn_parameters_per_layer):
    """Parameters of a dense layer beyond what all layers have alike: its feed-forward block.

    2 h f, 3 h f with a gate

    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 4.2
    """
    return 1.0 * ffn_parameters_per_layer


@alternative("expert_layer_parameters", mixture_of_experts=False)
def no_expert_layer_parameters():
    """Parameters of a layer of experts beyond what all layers have alike, routed ones aside.

    0

    Returns: [1] parameters
    Source: by definition
    """
    return 0.0


@alternative("expert_layer_parameters", mixture_of_experts=True)
def mixed_expert_layer_parameters(
    shared_experts,
    expert_parameters,
    hidden_size,
    experts,
    expert_layers,
    layers,
    leading_dense_layers,
):
    """(E_shared x expert + h E) l_e / (l - dense layers): shared experts and the router, the mean
    over layers behind the dense ones

    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2
    """
    each = shared_experts * expert_parameters + hidden_size * experts
    return each * (expert_layers / np.maximum(layers - leading_dense_layers, 1.0))


@alternative("routed_layer_parameters", mixture_of_experts=False)
def no_routed_layer_parameters():
    """Parameters of a layer's routed experts.

    0

    Returns: [1] parameters
    Source: by definition
    """
    return 0.0


@alternative("routed_layer_parameters", mixture_of_experts=True)
def mixed_routed_layer_parameters(
    experts, expert_parameters, expert_layers, layers, leading_dense_layers
):
    """Parameters of a layer's routed experts, the mean over layers behind the dense ones.

    E x parameters of an expert x l_e / (l - dense layers): where not every layer has experts

    Source: Fedus et al. 2022, arXiv:2101.03961, section 2.1
    """
    behind = np.maximum(layers - leading_dense_layers, 1.0)
    return experts * expert_parameters * (expert_layers / behind)


def common_layer_parameters(
    parameters,
    embedding_tables,
    end_table_parameters,
    layers,
    leading_dense_layers,
    dense_layer_parameters,
    expert_layer_parameters,
    routed_layer_parameters,
):
    """Parameters that each layer has, dense or of experts: what the others leave.

    (N - tables V h - dense blocks - l_e (shared experts, router, routed experts)) / l; not below 0

    Returns: [1] parameters
    Range: learned positions and the last norm, a millionth of most models, count with the layers
    Source: Narayanan et al. 2021 (SC21), eq. 2
    """
    experts = (layers - leading_dense_layers) * (expert_layer_parameters + routed_layer_parameters)
    mixed = leading_dense_layers * dense_layer_parameters + experts
    left = parameters - embedding_tables * end_table_parameters - mixed
    return np.maximum(left, 0.0) / layers


def first_stage_tables(logits_at_first, parameter_copies):
    """Tables of embeddings that the first of several stages holds, of each stage that it holds.

    1, and one more where it yields logits; tied tables, too, one for each

    Returns: [1] tables
    Source: Megatron-LM, initialize_embedding_word (a tied table on both ends); DeepSeek-AI 2024,
        arXiv:2412.19437, section 3.2.3
    """
    return (1 + logits_at_first) / parameter_copies


def last_stage_tables(logits_at_last, parameter_copies):
    """Tables of embeddings that the last of several stages holds, of each stage that it holds.

    1 where it yields logits, and that of the first stage where it holds that, too

    Returns: [1] tables
    Source: Megatron-LM, initialize_embedding_word (a tied table on both ends); DeepSeek-AI 2024,
        arXiv:2412.19437, section 3.2.3
    """
    return (logits_at_last + parameter_copies - 1) / parameter_copies


def stage_shared_parameters(
    pipeline_stage,
    pipeline_parallel,
    held_layers,
    first_stage_held_layers,
    middle_stage_layers,
    last_stage_held_layers,
    leading_dense_layers,
    common_layer_parameters,
    dense_layer_parameters,
    expert_layer_parameters,
    embedding_tables,
    first_stage_tables,
    last_stage_tables,
    end_table_parameters,
    parameter_copies,
):
    """Parameters of a stage, its routed experts aside; an end holds a table of embeddings.

    copies x (layers x common + dense layers x dense block + others x (shared experts and router) +
    ends V h)

    Returns: [1] parameters
    Range: dualpipe: of stages between the ends, the larger of both ways counts twice
    Source: Narayanan et al. 2021 (SC21), eq. 2; DeepSeek-AI 2024, arXiv:2412.19437, section 4.2
    """
    once = parameters_of_stage(
        stage_of_one_way(pipeline_stage, pipeline_parallel, parameter_copies),
        pipeline_parallel,
        held_layers,
        first_stage_held_layers,
        middle_stage_layers,
        last_stage_held_layers,
        leading_dense_layers / parameter_copies,  # in dualpipe the other way ends there
        common_layer_parameters,
        dense_layer_parameters,
        expert_layer_parameters,
        embedding_tables,
        first_stage_tables,
        last_stage_tables,
        end_table_parameters,
    )
    return parameter_copies * once


def stage_routed_parameters(
    pipeline_stage,
    pipeline_parallel,
    held_layers,
    first_stage_held_layers,
    middle_stage_layers,
    last_stage_held_layers,
    leading_dense_layers,
    routed_layer_parameters,
    parameter_copies,
):
    """Parameters of a stage's routed experts, all of them.

    copies x (layers - dense layers) E x parameters of an expert

    Returns: [1] parameters
    Source: Fedus et al. 2022, arXiv:2101.03961, section 2.1; DeepSeek-AI 2024, arXiv:2412.19437,
        section 4.2 (dense layers come first)
    """
    once = parameters_of_stage(
        stage_of_one_way(pipeline_stage, pipeline_parallel, parameter_copies),
        pipeline_parallel,
        held_layers,
        first_stage_held_layers,
        middle_stage_layers,
        last_stage_held_layers,
        leading_dense_layers / parameter_copies,  # in dualpipe the other way ends there
        0.0,
        0.0,
        routed_layer_parameters,
        0.0,
        0.0,
        0.0,
        0.0,
    )
    return parameter_copies * once


# Memory


def fullest_stage(
    pipeline_parallel,
    held_layers,
    first_stage_held_layers,
    middle_stage_layers,
    last_stage_held_layers,
    leading_dense_layers,
    common_layer_parameters,
    dense_layer_parameters,
    expert_layer_parameters,
    routed_layer_parameters,
    embedding_tables,
    first_stage_tables,
    last_stage_tables,
    end_table_parameters,
    tensor_parallel,
    expert_tensor_parallel,
    expert_parallel,
    gradient_ranks,
    held_state_bytes,
    sharded_state_bytes,
    microbatches_in_flight,
    schedule_depth,
    schedule_slope,
    activation_memory_per_layer,
    microbatch_tokens,
    vocab_size,
    logits_at_first,
    logits_at_last,
    parameter_copies,
    first_stage_kept_ratio,
    middle_stage_kept_ratio,
    last_stage_kept_ratio,
):
    """Pipeline stage whose GPUs need most memory, counted from 1.

    the first (embedding, most micro-batches in flight), the second (most layers), the first without
    dense layers or the last (logits): no other can need more

    Returns: [1] stage
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.3 and 4.3 (first stage; what the
        last keeps)
    """
    split = (held_layers, first_stage_held_layers, middle_stage_layers, last_stage_held_layers)
    held = parameter_copies * held_state_bytes / tensor_parallel
    sharded = parameter_copies * sharded_state_bytes / (tensor_parallel * gradient_ranks)
    logits = 4 * microbatch_tokens * vocab_size / tensor_parallel
    states = (
        leading_dense_layers / parameter_copies,  # in dualpipe the other way ends there
        common_layer_parameters,
        dense_layer_parameters,
        expert_layer_parameters,
        routed_layer_parameters,
        embedding_tables,
        first_stage_tables,
        last_stage_tables,
        end_table_parameters,
        held + sharded,
        held / expert_parallel * (tensor_parallel / expert_tensor_parallel) + sharded,
        microbatches_in_flight,
        schedule_depth,
        schedule_slope,
    )
    ends = (logits_at_first * logits, where(pipeline_parallel > 1, logits_at_last, 1.0) * logits)
    ratios = (first_stage_kept_ratio, middle_stage_kept_ratio, last_stage_kept_ratio)
    at_first, between, at_last = (
        (*states, ratio, activation_memory_per_layer, *ends) for ratio in ratios
    )
    stages = pipeline_parallel
    sparse = first_sparse_stage(
        stages,
        first_stage_held_layers,
        middle_stage_layers,
        leading_dense_layers / parameter_copies,
    )
    first = stage_memory(np.minimum(1.0, stages), stages, *split, *at_first)
    second = stage_memory(np.minimum(2.0, stages), stages, *split, *between)
    third = stage_memory(sparse, stages, *split, *between)
    last = stage_memory(stages, stages, *split, *at_last)
    last = where(parameter_copies > 1, first, last)  # both ways end there
    fullest = where(second > first, np.minimum(2.0, stages), 1.0)
    most = np.maximum(first, second)
    fullest = where(third > most, sparse, fullest)
    return where(last > np.maximum(most, third), stages, fullest)


def pipeline_stage(fullest_stage):
    """Pipeline stage whose memory is told, counted from 1: the fullest, unless it is given.

    that which needs most

    Returns: [1] stage
    Source: by definition
    """
    return 1.0 * fullest_stage


@alternative("held_state_bytes", zero_stage=0)
def replicated_held_state_bytes(bytes_per_element, gradient_storage_bytes, kept_optimizer_bytes):
    """weight + gradients + optimizer states

    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5
    """
    return bytes_per_element + gradient_storage_bytes + kept_optimizer_bytes


@alternative("held_state_bytes", zero_stage=1)
def gradients_held_state_bytes(bytes_per_element, gradient_storage_bytes):
    """Bytes of a parameter's states that each data-parallel rank holds.

    weight + gradients

    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.1
    """
    return bytes_per_element + gradient_storage_bytes


@alternative("held_state_bytes", zero_stage=2)
def weights_held_state_bytes(bytes_per_element, unsharded_gradient_bytes):
    """weight + gradients until they are reduced

    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.2
    """
    return bytes_per_element + unsharded_gradient_bytes


@alternative("held_state_bytes", zero_stage=3)
def gathered_held_state_bytes(unsharded_gradient_bytes, gathered_weight_bytes):
    """gradients until they are reduced + weights that stay gathered: none, unless stated

    Range: weights that stay gathered without the share of them that is held besides; it is only
        used to tell which stage is the fullest
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.3
    """
    return unsharded_gradient_bytes + gathered_weight_bytes


@alternative("unsharded_gradient_bytes", gradient_sync=("microbatch", "two_hop"))
def no_unsharded_gradient_bytes():
    """Bytes of a parameter's gradients that each rank adds up under ZeRO-2 and 3, unsharded.

    0

    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.2
    """
    return 0.0


@alternative("unsharded_gradient_bytes", gradient_sync="step")
def step_unsharded_gradient_bytes(gradient_storage_bytes):
    """all that are kept

    Source: PyTorch fully_shard (set_requires_gradient_sync)
    """
    return 1.0 * gradient_storage_bytes


@alternative("gathered_weight_bytes", reshard_after_forward=True)
def no_gathered_weight_bytes():
    """Bytes of a weight that stays gathered between the passes.

    0

    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.3
    """
    return 0.0


@alternative("gathered_weight_bytes", reshard_after_forward=False)
def kept_gathered_weight_bytes(bytes_per_element):
    """all

    Source: PyTorch fully_shard (reshard_after_forward=False)
    """
    return 1.0 * bytes_per_element


def sharded_state_bytes(
    bytes_per_element, gradient_storage_bytes, kept_optimizer_bytes, held_state_bytes
):
    """Bytes of a parameter's states that data-parallel ranks share out.

    weight + gradients + optimizer states - what each rank holds

    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5
    """
    return bytes_per_element + gradient_storage_bytes + kept_optimizer_bytes - held_state_bytes
