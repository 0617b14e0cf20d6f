"""Layers, parameters and memory of one pipeline stage.

Parameters:
    stage [1]: stage, counted from 1
    stages [1]: stages of the pipeline
    layers [1]: layers of the model
    first [1]: layers of the first stage
    middle [1]: layers of the second stage
    last [1]: layers of the last stage
    leading [1]: dense layers in front of the expert layers
    common [1]: parameters of every layer
    dense [1]: further parameters of a dense layer
    sparse [1]: further parameters of an expert layer
    first_tables [1]: parameters of the first stage's embedding tables
    last_tables [1]: the same of the last of several stages
    depth [1]: its limit in the schedule, whatever the number of micro-batches
    slope [1]: decrease of that limit from one stage to the next
"""

from typing import Any

from ..ops import np, where


def layers_of_stage(stage, stages, layers, first, middle, last) -> Any:
    """Layers of one pipeline stage; middle stages with one layer more come first.

    l_first, l_middle or l_middle - 1, l_last; l in one stage. Where middle stages differ by more
    than one layer, l_middle for all of them: an upper bound

    Returns: [1] layers; NaN beyond the last stage
    Source: Megatron-LM, --decoder-first-pipeline-num-layers (the rest is shared evenly)
    Example:
        >>> [float(layers_of_stage(s, 5, 12, 2, 3, 2)) for s in (1, 2, 3, 4, 5)]
        [2.0, 3.0, 3.0, 2.0, 2.0]
    """
    larger = _larger(stages, layers, first, middle, last)
    fewer = where((larger > 0.5) & (stage - 1 > larger + 0.5), 1.0, 0.0)
    between = where(stage < stages, middle - fewer, last)
    alone = where(stages > 1, first, layers)
    return where(stage <= stages, where(stage > 1, between, alone), np.nan)


def layers_before_stage(stage, stages, layers, first, middle, last) -> Any:
    """Layers of all stages before one.

    0, l_first + (s - 2) l_middle - earlier middle stages with one layer less, l - l_last

    Returns: [1] layers
    Source: Megatron-LM, --decoder-first-pipeline-num-layers (the rest is shared evenly)
    Example:
        >>> [float(layers_before_stage(s, 5, 12, 2, 3, 2)) for s in (1, 2, 3, 4, 5)]
        [0.0, 2.0, 5.0, 8.0, 10.0]
    """
    larger = _larger(stages, layers, first, middle, last)
    fewer = where(larger > 0.5, np.maximum(stage - 2 - larger, 0.0), 0.0)
    between = where(stage < stages, first + (stage - 2) * middle - fewer, layers - last)
    return where(stage > 1, between, 0.0)


def dense_layers_of_stage(stage, stages, layers, first, middle, last, leading) -> Any:
    """Dense layers of one pipeline stage, where dense layers precede expert layers.

    min(max(leading - layers before the stage, 0), layers of the stage)

    Returns: [1] layers
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 4.2 (dense layers come first)
    Example:
        >>> [float(dense_layers_of_stage(s, 4, 8, 2, 2, 2, 3)) for s in (1, 2, 3)]
        [2.0, 1.0, 0.0]
    """
    stage_layers = layers_of_stage(stage, stages, layers, first, middle, last)
    before = layers_before_stage(stage, stages, layers, first, middle, last)
    return np.minimum(np.maximum(leading - before, 0.0), stage_layers)


def _larger(stages, layers, first, middle, last) -> Any:
    """Number of middle stages with as many layers as the second stage."""
    between = np.maximum(stages - 2, 1.0)
    return layers - first - last - (middle - 1) * between


def stage_of_one_way(stage, stages, copies) -> Any:
    """A stage; with both ends fed, the earlier of the two stages that a GPU holds.

    s; min(s, p + 1 - s) with two copies

    Parameters: copies [1]: directions through the pipeline, 1 or 2
    Returns: [1] stage
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 (stages mirrored)
    Example:
        >>> [float(stage_of_one_way(s, 4, 2)) for s in (1, 2, 3, 4)]
        [1.0, 2.0, 2.0, 1.0]
    """
    return where(copies > 1, np.minimum(stage, stages + 1 - stage), stage)


def stage_parameters(
    stage,
    stages,
    layers,
    first,
    middle,
    last,
    leading,
    common,
    dense,
    sparse,
    first_tables,
    last_tables,
) -> Any:
    """Parameters of one pipeline stage; each end holds an embedding table, tied or not.

    n common + d dense + (n - d) sparse + tables at the ends; n layers, d of them dense

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2; DeepSeek-AI 2024, arXiv:2412.19437, section 4.2
        (dense layers come first); Shoeybi et al. 2019, arXiv:1909.08053, section 5.1 (a tied table
        on both ends)
    Example:
        >>> ends = [stage_parameters(s, 4, 8, 2, 2, 2, 0, 10, 0, 0, 7, 7) for s in (1, 2, 4)]
        >>> [float(parameters) for parameters in ends]
        [27.0, 20.0, 27.0]
    """
    split = (stage, stages, layers, first, middle, last)
    stage_layers, blocks = layers_of_stage(*split), dense_layers_of_stage(*split, leading)
    end = where(stage > 1, where(stage < stages, 0.0, last_tables), first_tables)
    return stage_layers * common + blocks * dense + (stage_layers - blocks) * sparse + end


def first_sparse_stage(stages, first, middle, leading) -> Any:
    """First stage after stage 1 without leading dense layers, or the last stage.

    2 + ceil((leading - l_first) / l_middle), from 2 to p

    Returns: [1] stage, counted from 1
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 4.2 (dense layers come first)
    Example:
        >>> [float(first_sparse_stage(16, 3, 4, leading)) for leading in (0, 3, 4, 8)]
        [2.0, 2.0, 3.0, 4.0]
    """
    beyond = np.maximum(leading - first, 0.0)
    return np.minimum(2 + np.ceil(beyond / np.maximum(middle, 1.0)), stages)


def most_stage_parameters(
    stages, layers, first, middle, last, leading, common, dense, sparse, first_tables, last_tables
) -> Any:
    """Parameters of the largest stage: an end, the second or the first without dense layers.

    max of stage_parameters over these

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2
    Example:
        >>> float(most_stage_parameters(4, 10, 2, 3, 2, 0, 10, 0, 0, 7, 7))
        30.0
    """
    split = (stages, layers, first, middle, last)
    each = (leading, common, dense, sparse, first_tables, last_tables)
    ends = np.maximum(stage_parameters(1.0, *split, *each), stage_parameters(stages, *split, *each))
    sparse_stage = first_sparse_stage(stages, first, middle, leading)
    between = np.maximum(
        stage_parameters(np.minimum(2.0, stages), *split, *each),
        stage_parameters(sparse_stage, *split, *each),
    )
    return np.maximum(ends, between)


def microbatches_of_stage(first, depth, slope, stage) -> Any:
    """Micro-batches whose activations one stage holds at once.

    min(first, depth - slope (s - 1))

    Parameters: first [1]: micro-batches that the first stage holds
    Returns: [1] micro-batches
    Source: Narayanan et al. 2021 (SC21), section 2.2; Korthikanti et al. 2022, section 4.2.3
    Example:
        >>> [float(microbatches_of_stage(3, 4, 1, s)) for s in (1, 2, 3, 4)]
        [3.0, 3.0, 2.0, 1.0]
    """
    return np.minimum(first, depth - slope * (stage - 1))


def kept_microbatches(flying, may_fly, ratio) -> Any:
    """Peak number of micro-batches whose activations a stage keeps, where its chunks differ.

    max(ratio x flying, min(flying, ratio x may_fly)): few micro-batches are all kept

    Parameters:
        flying [1]: micro-batches that the stage would hold if its chunks were alike
        may_fly [1]: the limit of the schedule, whatever the number of micro-batches
        ratio [1]: what it keeps over what it would if chunks were alike and micro-batches many
    Returns: [1] micro-batches
    Range: an upper bound where micro-batches are fewer than the stage might hold
    Source: Narayanan et al. 2021 (SC21), section 2.2
    Example:
        >>> [float(kept_microbatches(8, depth, 0.75)) for depth in (8, 10, 12)]
        [6.0, 7.5, 8.0]
    """
    return np.maximum(ratio * flying, np.minimum(flying, ratio * may_fly))


def stage_memory(
    stage,
    stages,
    layers,
    first,
    middle,
    last,
    leading,
    common,
    dense,
    sparse,
    routed,
    first_tables,
    last_tables,
    shared_bytes,
    routed_bytes,
    flying,
    depth,
    slope,
    ratio,
    activation,
    first_logits,
    last_logits,
) -> Any:
    """Stage-dependent memory of one GPU: model states, activations and logits.

    shared parameters x bytes + routed parameters x bytes + layers x micro-batches in flight x
    activations of a layer + logits at the ends

    Parameters:
        sparse [1]: further parameters of an expert layer, without routed experts
        routed [1]: parameters of a layer's routed experts
        shared_bytes [B]: bytes that one GPU keeps of a parameter
        routed_bytes [B]: bytes that one GPU keeps of a routed expert's parameter
        flying [1]: micro-batches that the first stage holds
        ratio [1]: what the stage keeps over what it would if its chunks were alike
        activation [B]: activations of one layer and micro-batch
        first_logits [B]: logits of one micro-batch that the first stage of several keeps
        last_logits [B]: the same of the last stage
    Returns: [B] memory
    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.2.3 and 4.3
    Example:
        >>> split = (1, 1, 4, 4, 4, 4, 0)  # all in one stage
        >>> float(stage_memory(*split, 10, 0, 0, 0, 7, 7, 2, 0, 1, 1, 1, 1, 5, 3, 3))
        117.0
    """
    split = (stage, stages, layers, first, middle, last)
    shared = stage_parameters(*split, leading, common, dense, sparse, first_tables, last_tables)
    experts = stage_parameters(*split, leading, 0.0, 0.0, routed, 0.0, 0.0)
    flying_in_stage = microbatches_of_stage(flying, depth, slope, stage)
    activations = layers_of_stage(*split) * kept_microbatches(
        flying_in_stage, depth - slope * (stage - 1), ratio
    )
    states = shared * shared_bytes + experts * routed_bytes
    before = where(stage > 1, 0.0, first_logits)
    logits = where(stage < stages, before, last_logits)
    return states + activations * activation + logits
