"""Why a pipeline schedule cannot run."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, row
from ...ops import where
from ...reasons import REASONS as REASONS
from ...reasons import is_whole


@alternative("interleaving_reason", pipeline_scheduler="megatron")
def megatron_interleaving_reason(pipeline_parallel, num_microbatches, microbatch_group_size):
    """Why a scheduler cannot run an interleaved pipeline; 0 if it can.

    m >= p; N whole, from p to m; m mod N = 0 or at least p

    Returns: [flag] reason
    Flags: REASONS
    Source: Megatron-LM, megatron/core/pipeline_parallel/schedules.py
        (forward_backward_pipelining_with_interleaving)
    """
    rest = num_microbatches - microbatch_group_size * np.floor(
        num_microbatches / microbatch_group_size
    )
    fits = is_whole(microbatch_group_size) & (microbatch_group_size >= pipeline_parallel)
    fits = fits & (microbatch_group_size <= num_microbatches)
    fits = fits & ((rest == 0) | (rest >= pipeline_parallel))
    reason = where(fits, 0.0, reasons.MICROBATCH_GROUP_DOES_NOT_FIT)
    return where(
        num_microbatches < pipeline_parallel, reasons.FEWER_MICROBATCHES_THAN_STAGES, reason
    )


@alternative("interleaving_reason", pipeline_scheduler="pytorch")
def pytorch_interleaving_reason(pipeline_parallel, num_microbatches, microbatch_group_size):
    """N = m / max(1, floor(m / p)) whole: the only group size

    Source: PyTorch pipelining, torch/distributed/pipelining/schedules.py (ScheduleInterleaved1F1B)
    """
    rounds = np.maximum(1.0, np.floor(num_microbatches / pipeline_parallel))
    fits = is_whole(microbatch_group_size) & (microbatch_group_size * rounds == num_microbatches)
    return where(fits, 0.0, reasons.MICROBATCH_GROUP_DOES_NOT_FIT)


row(
    "schedule_reason",
    0.0,
    "these run any number of micro-batches",
    source=(
        "Huang et al. 2019 (GPipe), section 2.3; Qi et al. 2023 (zero bubble), arXiv:2401.10241"
    ),
    pipeline_schedule=("gpipe", "zb_h1", "zb_v"),
)


@alternative("schedule_reason", pipeline_schedule=("1f1b", "interleaved"))
def interleaved_schedule_reason(pipeline_parallel, stage_chunks, interleaving_reason):
    """Why a pipeline schedule cannot run; 0 if it can.

    0 with one chunk per stage; with several, p > 1 and the scheduler's reason

    Returns: [flag] reason
    Flags: REASONS
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    reason = where(pipeline_parallel > 1, interleaving_reason, reasons.INTERLEAVED_ON_ONE_STAGE)
    return where(stage_chunks > 1, reason, 0.0)


@alternative("schedule_reason", pipeline_schedule="combined_1f1b")
def combined_schedule_reason(
    pipeline_parallel,
    num_microbatches,
    stage_chunks,
    microbatch_group_size,
    expert_recompute_passes,
    expert_parallel,
):
    """several chunks per stage if p > 1, routed experts not recomputed, e > 1; and Megatron-Core's
    reason with several chunks

    Source: Megatron-LM, megatron/core/transformer/transformer_config.py
        (overlap_moe_expert_parallel_comm)
    """
    reason = interleaved_schedule_reason(
        pipeline_parallel,
        stage_chunks,
        megatron_interleaving_reason(pipeline_parallel, num_microbatches, microbatch_group_size),
    )
    runs = (stage_chunks > 1) | (pipeline_parallel <= 1)
    runs = runs & (expert_recompute_passes == 0) & (expert_parallel > 1)
    return where(runs, reason, reasons.PASSES_DO_NOT_OVERLAP)


@alternative("schedule_reason", pipeline_schedule="dualpipe")
def dualpipe_schedule_reason(pipeline_parallel, num_microbatches):
    """p and m even, m >= 2 p

    Source: dualpipe/dualpipe.py of github.com/deepseek-ai/DualPipe (DeepSeek-AI 2024,
        arXiv:2412.19437)
    """
    fits = is_whole(pipeline_parallel / 2) & is_whole(num_microbatches / 2)
    return where(
        fits & (num_microbatches >= 2 * pipeline_parallel), 0.0, reasons.DUAL_PIPELINE_DOES_NOT_FIT
    )


@alternative("schedule_reason", pipeline_schedule="dualpipev")
def dualpipev_schedule_reason(pipeline_parallel, num_microbatches):
    """m >= 2 p

    Source: dualpipe/dualpipev.py of github.com/deepseek-ai/DualPipe (DeepSeek-AI 2024,
        arXiv:2412.19437); PyTorch pipelining, torch/distributed/pipelining/schedules.py
    """
    return where(num_microbatches >= 2 * pipeline_parallel, 0.0, reasons.DUAL_PIPELINE_DOES_NOT_FIT)


@alternative("stage_reason", stage_split="whole_layers")
def whole_stage_reason(
    layers,
    pipeline_parallel,
    stage_chunks,
    prediction_layers,
    first_stage_layers,
    middle_stage_layers,
    last_stage_layers,
):
    """whole layers that add up to the model's (6); a layer for each of the p v pieces but the first
    and last, with embedding and logits (28): v per middle stage, 2 v - 2 on both end stages

    Source: Megatron-LM, --pipeline-model-parallel-layout (any split of whole layers; E and L may
        stand alone); Grattafiori et al. 2024 (Llama 3), arXiv:2407.21783, section 3.3.2 (126 layers
        in 128 pieces)
    """
    between = np.maximum(pipeline_parallel - 2, 0.0)
    rest = layers - first_stage_layers - last_stage_layers
    rest = where(pipeline_parallel > 1, rest, layers - first_stage_layers)
    rest_fits = (rest <= middle_stage_layers * between) & (middle_stage_layers <= rest)
    fits = where(between > 0, rest_fits, rest == 0) & (first_stage_layers >= 0)
    fits = fits & (last_stage_layers >= 0) & is_whole(layers) & is_whole(prediction_layers)
    fits = fits & is_whole(first_stage_layers) & is_whole(last_stage_layers)
    fits = fits & is_whole(middle_stage_layers)
    # the second stage has the most layers of the middle stages; the others need theirs, too
    others = np.maximum(between - 1, 0.0) * stage_chunks
    bare = where(between > 0, rest - middle_stage_layers < others, False)
    bare = bare | ((between > 0) & (middle_stage_layers < stage_chunks))
    bare = bare | (layers - where(between > 0, rest, 0.0) < 2 * stage_chunks - 2)
    reason = where(
        fits, where(bare, reasons.STAGE_WITHOUT_LAYERS, 0.0), reasons.LAYERS_NOT_DIVISIBLE
    )
    operands = layers + pipeline_parallel + stage_chunks + prediction_layers
    operands = operands + first_stage_layers + middle_stage_layers + last_stage_layers
    return where(operands == operands, reason, np.nan)


@alternative("stage_reason", stage_split=False)
def even_stage_reason(layers, pipeline_parallel, stage_chunks):
    """Why layers cannot be split over pipeline stages; 0 if they can.

    l / (p v) whole (6): identical stages

    Returns: [flag] reason
    Flags: REASONS
    Source: Narayanan et al. 2021 (SC21), section 3
    """
    each = layers / (pipeline_parallel * stage_chunks)
    return where(each == each, where(is_whole(each), 0.0, reasons.LAYERS_NOT_DIVISIBLE), np.nan)
