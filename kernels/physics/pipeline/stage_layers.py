"""Layers and parameters of each pipeline stage."""

import numpy as np

from ...alternatives import alternative, row
from ...laws.stages import most_stage_parameters
from ...ops import where


def first_stage_layers(layers, pipeline_parallel, embedding_split_layers, loss_split_layers):
    """Default layers of the first pipeline stage: the most even split.

    floor(u / p) - embedding, u = l + embedding + loss; plus 1 if all but one stage have one more

    Returns: [1] layers
    Source: Grattafiori et al. 2024 (Llama 3), arXiv:2407.21783, section 3.3.2 (126 layers: one less
        on the first and on the last); Megatron-LM, --account-for-embedding-in-pipeline-split
    """
    units = layers + embedding_split_layers + loss_split_layers
    each = np.floor(units / pipeline_parallel)
    more = where(units - pipeline_parallel * each > pipeline_parallel - 2, 1.0, 0.0)
    return where(pipeline_parallel > 1, each + more - embedding_split_layers, layers)


def last_stage_layers(layers, pipeline_parallel, first_stage_layers, loss_split_layers):
    """Default layers of the last pipeline stage, which is the smallest.

    floor((l - l_first + loss) / (p - 1)) - loss

    Returns: [1] layers
    Source: Grattafiori et al. 2024 (Llama 3), arXiv:2407.21783, section 3.3.2; Megatron-LM,
        --account-for-loss-in-pipeline-split
    """
    others = np.maximum(pipeline_parallel - 1, 1.0)
    each = np.floor((layers - first_stage_layers + loss_split_layers) / others)
    return where(pipeline_parallel > 1, each - loss_split_layers, layers)


def middle_stage_layers(layers, pipeline_parallel, first_stage_layers, last_stage_layers):
    """Layers of the second pipeline stage, the maximum of all middle stages.

    ceil((l - l_first - l_last) / (p - 2)); 0 if there is none

    Returns: [1] layers
    Range: stages with one extra layer come first: an upper bound for memory and for waits of stages
    Source: Megatron-LM, --decoder-first-pipeline-num-layers (the rest is shared evenly)
    """
    between = np.maximum(pipeline_parallel - 2, 1.0)
    rest = layers - first_stage_layers - last_stage_layers
    return where(pipeline_parallel > 2, np.ceil(rest / between), 0.0)


def held_layers(layers, prediction_layers):
    """Layers over all pipeline stages, including those of multi-token prediction.

    l + D

    Returns: [1] layers
    Source: by definition
    """
    return layers + prediction_layers


def first_stage_held_layers(
    first_stage_layers, last_stage_layers, prediction_layers, logits_at_last, parameter_copies
):
    """Layers that the first stage holds per pipeline direction, mean of both directions.

    l_first, + D for multi-token prediction where the model's last piece comes back to it; in
    dualpipe, whose other direction ends there, (l_first + l_last + D) / 2

    Returns: [1] layers
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 (both ends fed, stages mirrored)
    """
    first = first_stage_layers + (1 - logits_at_last) * prediction_layers
    other = last_stage_layers + logits_at_last * prediction_layers
    return first + (parameter_copies - 1) / 2 * (other - first)


def last_stage_held_layers(
    last_stage_layers, prediction_layers, logits_at_last, first_stage_layers, parameter_copies
):
    """Layers that the last stage holds per pipeline direction, mean of both directions.

    l_last + D, D for multi-token prediction where the stage yields logits; in dualpipe (l_first +
    l_last + D) / 2

    Returns: [1] layers
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 (both ends fed, stages mirrored)
    """
    last = last_stage_layers + logits_at_last * prediction_layers
    return last + (parameter_copies - 1) / 2 * (first_stage_layers - last)


@alternative("leading_dense_layers", mixture_of_experts=True, off=0.0)
def some_leading_dense_layers(dense_layers, linear_layers):
    """Dense layers before the first expert layer.

    dense layers of the model; 0 if layers of several kinds alternate

    Returns: [1] layers
    Range: with `linear_layers` every layer of a stage counts as the mean layer
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 4.2 (dense layers come first)
    """
    return where(linear_layers > 0, 0.0, 1.0 * dense_layers)


def leading_held_dense_layers(leading_dense_layers, parameter_copies):
    """Leading dense layers per pipeline direction, mean of both directions.

    all of them; half in dualpipe, whose other direction ends there

    Returns: [1] layers
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 (both ends fed, stages mirrored)
    """
    return leading_dense_layers / parameter_copies


def end_table_parameters(vocab_size, hidden_size):
    """Parameters of one embedding table, held by an end of the pipeline.

    V h

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2
    """
    return vocab_size * hidden_size


row(
    "dense_layer_parameters",
    0.0,
    summary=(
        "Parameters of a dense layer beyond what all layers have alike: none, they are alike."
    ),
    returns="[1] parameters",
    mixture_of_experts=False,
)
row(
    "dense_layer_parameters",
    "ffn_parameters_per_layer",
    "2 h f, 3 h f with a gate",
    source="DeepSeek-AI 2024, arXiv:2412.19437, section 4.2",
    mixture_of_experts=True,
)


@alternative("expert_layer_parameters", mixture_of_experts=True, off=0.0)
def mixed_expert_layer_parameters(
    shared_experts,
    expert_parameters,
    hidden_size,
    experts,
    expert_layers,
    layers,
    leading_dense_layers,
):
    """Parameters of an expert layer beyond those common to all layers, without routed experts.

    (E_shared x expert + h E) l_e / (l - dense layers): shared experts and router, mean over layers
    after the dense ones

    Returns: [1] parameters
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2
    """
    each = shared_experts * expert_parameters + hidden_size * experts
    return each * (expert_layers / np.maximum(layers - leading_dense_layers, 1.0))


@alternative("routed_layer_parameters", mixture_of_experts=True, off=0.0)
def mixed_routed_layer_parameters(
    experts, expert_parameters, expert_layers, layers, leading_dense_layers
):
    """Parameters of a layer's routed experts, mean over layers after the dense ones.

    E x parameters of an expert x l_e / (l - dense layers), as not every layer may have experts

    Returns: [1] parameters
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
    """Parameters common to every layer, dense or of experts: the remainder of the model's.

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
    """Embedding tables on the first of several stages, per pipeline direction.

    1, and one more if it yields logits, even for tied tables

    Returns: [1] tables
    Source: Megatron-LM, initialize_embedding_word (a tied table on both ends); DeepSeek-AI 2024,
        arXiv:2412.19437, section 3.2.3
    """
    return (1 + logits_at_first) / parameter_copies


@alternative("last_stage_tables", multi_token_prediction=False)
def plain_last_stage_tables(logits_at_last, parameter_copies):
    """Embedding tables on the last of several stages, per pipeline direction.

    1 if it yields logits, and that of the first stage if it holds that stage, too

    Returns: [1] tables
    Source: Megatron-LM, initialize_embedding_word (a tied table on both ends); DeepSeek-AI 2024,
        arXiv:2412.19437, section 3.2.3
    """
    return (logits_at_last + parameter_copies - 1) / parameter_copies


@alternative("last_stage_tables", multi_token_prediction=True)
def predicting_last_stage_tables(logits_at_last, parameter_copies, prediction_layers):
    """1 if it yields logits, one that modules of multi-token prediction read, even for tied tables,
    and that of the first stage if it holds that stage, too

    Range: where a layout puts the modules on a middle stage, they and their table count on the
        last, and as layers there: from 13 % below the fullest stage to 70 % above, median 20 %
    Source: Megatron-LM, megatron/core/models/gpt/gpt_model.py (an embedding where mtp_process; the
        output layer has its own where the stage has no input); DeepSeek-AI 2024, arXiv:2412.19437,
        section 3.2.3 (shared where both ends are on one rank)
    """
    read = np.minimum(prediction_layers, 1.0) * logits_at_last * (2 - parameter_copies)
    return (logits_at_last + parameter_copies - 1) / parameter_copies + read


@alternative("projection_parameters", multi_token_prediction=True, off=0.0)
def some_projection_parameters(prediction_layers, hidden_size):
    """Parameters of the projections of multi-token prediction, from 2 h to h.

    2 D h^2

    Returns: [1] parameters
    Range: the norms in front, 2 h each, are not counted
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.2; Megatron-LM,
        megatron/core/transformer/multi_token_prediction.py (eh_proj)
    """
    return 2 * prediction_layers * hidden_size * hidden_size


def first_stage_table_parameters(
    pipeline_parallel,
    first_stage_tables,
    embedding_tables,
    end_table_parameters,
    projection_parameters,
    logits_at_last,
    parameter_copies,
):
    """Parameters on the first stage besides layers, per pipeline direction: embedding tables.

    tables x V h; all tables of the model for a single stage, and projections of multi-token
    prediction, as where the model's last piece comes back to it; half of these in dualpipe

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2; Megatron-LM, initialize_embedding_word
    """
    tables = where(pipeline_parallel > 1, first_stage_tables, embedding_tables)
    some = 1 - logits_at_last / parameter_copies
    projections = where(pipeline_parallel > 1, some, 1.0)
    return tables * end_table_parameters + projections * projection_parameters


def last_stage_table_parameters(
    last_stage_tables,
    end_table_parameters,
    projection_parameters,
    logits_at_last,
    parameter_copies,
):
    """Parameters on the last of several stages besides layers, per pipeline direction.

    tables x V h + projections of multi-token prediction, if it yields logits; half of these in
    dualpipe

    Returns: [1] parameters
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.2 (the modules follow the last layer)
    """
    projections = logits_at_last / parameter_copies
    return last_stage_tables * end_table_parameters + projections * projection_parameters


def largest_stage_parameters(
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
):
    """Parameters of the largest pipeline stage, per pipeline direction.

    max over the first, second and last stage, and the first stage without dense layers

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), section 3.3
    """
    return most_stage_parameters(
        pipeline_parallel,
        held_layers,
        first_stage_held_layers,
        middle_stage_layers,
        last_stage_held_layers,
        leading_held_dense_layers,
        common_layer_parameters,
        dense_layer_parameters,
        expert_layer_parameters + routed_layer_parameters,
        first_stage_table_parameters,
        last_stage_table_parameters,
    )
