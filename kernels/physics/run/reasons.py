"""Why a run makes no progress, or its training stages do not fit."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, row
from ...ops import where
from ...reasons import REASONS as REASONS
from ...reasons import is_whole

row("training_stages_reason", 0.0, "there is one", training_stages=False)


@alternative("training_stages_reason", training_stages="several")
def several_training_stages_reason(
    ramp_tokens,
    ramp_start_batch_size,
    long_context_tokens,
    tokens_to_target,
    global_batch_size,
    micro_batch_size,
    data_parallel,
):
    """Why stages of training do not fit into a run; 0 if they do.

    ramp tokens + long-sequence tokens <= tokens of the run (29); a ramp starts at no larger batch
    than it ends with (29), and with whole micro-batches per replica (4, 5)

    Returns: [flag] reason
    Flags: REASONS
    Source: Megatron-LM, megatron/core/num_microbatches_calculator.py (RampupBatchsize: the start
        is a multiple of micro-batch x data-parallel size, and not above the batch)
    """
    slices = micro_batch_size * data_parallel
    starts = where(is_whole(ramp_start_batch_size / slices), 0.0, reasons.BATCH_NOT_DIVISIBLE)
    starts = where(ramp_start_batch_size < slices, reasons.BATCH_SMALLER_THAN_DATA_PARALLEL, starts)
    starts = where(
        ramp_start_batch_size > global_batch_size, reasons.STAGES_OF_TRAINING_DO_NOT_FIT, starts
    )
    starts = where(ramp_tokens > 0, starts, 0.0)
    fits = ramp_tokens + long_context_tokens <= tokens_to_target
    operands = tokens_to_target + slices + global_batch_size
    return where(
        operands == operands, where(fits, starts, reasons.STAGES_OF_TRAINING_DO_NOT_FIT), np.nan
    )


row(
    "goodput_reason",
    0.0,
    "the exact model leaves a share, however small",
    source="Daly 2006, FGCS 22(3), eq. 13",
    holds=("where that share is below 1e-308 goodput is 0, and what is divided by it infinite"),
    goodput_model="exact",
)


@alternative("goodput_reason", goodput_model="first_order")
def first_order_goodput_reason(checkpoint_overhead, rework_overhead, recovery_overhead):
    """checkpoints + rework + recovery < 1

    Range: the exact model may have a goodput where the first-order model has none
    Source: Young 1974, CACM 17(9), with a recovery term
    """
    return _progress_reason(1 - (checkpoint_overhead + rework_overhead + recovery_overhead))


@alternative("goodput_reason", goodput_model="additive")
def additive_goodput_reason(
    checkpoint_overhead,
    rework_overhead,
    recovery_overhead,
    bubble_budget,
    maintenance_budget,
    cluster_uptime,
):
    """Why goodput leaves no progress; 0 if it leaves some.

    checkpoints + rework + recovery + u (bubbles + maintenance) < 1

    Returns: [flag] reason
    Flags: REASONS
    Source: Fleet Foundations table 8
    """
    lost = checkpoint_overhead + rework_overhead + recovery_overhead
    return _progress_reason(1 - (lost + cluster_uptime * (bubble_budget + maintenance_budget)))


@alternative("progress_reason", elastic="shrink", off="goodput_reason")
def shrinking_progress_reason(goodput_reason, elastic_capacity):
    """Why a job makes no progress; 0 if it makes some.

    reason of goodput; some replicas run

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return where(goodput_reason == 0, _progress_reason(elastic_capacity), goodput_reason)


def _progress_reason(share):
    """Why a job makes no progress, from the useful share of the time."""
    left = share > 1e-12  # beyond the rounding of shares that add up to 1
    return where(share == share, where(left, 0.0, reasons.MAKES_NO_PROGRESS), np.nan)
