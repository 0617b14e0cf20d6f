"""Idle time of pipeline schedules.

Parameters:
    pipeline_parallel [1]: stages p
    num_microbatches [1]: micro-batches m of one step
    virtual_stages [1]: model chunks v on each stage
"""

from typing import Any

from ..ops import np


def bubble_ratio(pipeline_parallel, num_microbatches, virtual_stages) -> Any:
    """Idle time over useful time of a GPipe, 1F1B or interleaved schedule.

    ((v - 1) max(0, p - m) + p - 1) / (v m); (p - 1) / (v m) from m = p on

    Returns: [1] bubble time over ideal time
    Range: interleaved groups of p micro-batches or more, the last one too, or fewer micro-batches
        than stages; a lower bound elsewhere
    Source: Narayanan et al. 2021 (SC21), section 2.2; Huang et al. 2019; m < p by playing the
        schedule out
    Example:
        >>> float(bubble_ratio(4, 12, 1))
        0.25
    """
    return _idle_slots(pipeline_parallel, num_microbatches, virtual_stages) / (
        virtual_stages * num_microbatches
    )


def bubble_fraction(pipeline_parallel, num_microbatches, virtual_stages) -> Any:
    """Idle time over total time of a GPipe, 1F1B or interleaved schedule.

    i / (v m + i), i = (v - 1) max(0, p - m) + p - 1

    Returns: [1] bubble time over the time of the pipeline
    Range: as of bubble_ratio
    Source: Huang et al. 2019 (GPipe), section 2.3; Narayanan et al. 2021 (SC21), section 2.2
    Example:
        >>> float(bubble_fraction(16, 1, 1))
        0.9375
    """
    idle = _idle_slots(pipeline_parallel, num_microbatches, virtual_stages)
    return idle / (virtual_stages * num_microbatches + idle)


def _idle_slots(pipeline_parallel, num_microbatches, virtual_stages) -> Any:
    """Passes of one chunk (forward and backward) for which a stage waits.

    (v - 1) max(0, p - m) + p - 1: with m < p, each chunk but the last waits for p - m more

    Returns: [1] passes
    Source: Narayanan et al. 2021 (SC21), section 2.2; m < p by playing the schedule out
    """
    before = pipeline_parallel - 1
    missing = np.maximum(0.0, np.minimum(pipeline_parallel - num_microbatches, before))
    return (virtual_stages - 1) * missing + before


def dual_idle_passes(stages, recompute_flops_factor) -> Any:
    """Idle time of DualPipe's step, in forward passes of a stage.

    (q - 1) (B + W) + max(0, (q - 1) B - q F), F = W = 1, B = 3 f - 2: 2 (q - 1), with full
    recompute 4 q - 5; DeepSeek-AI's (q - 1) (F&B + B + W - 3 W) is a pass more where B is longer

    Parameters:
        stages [1]: half the stages q of the model
        recompute_flops_factor [1]: operations done over those done once, f
    Returns: [1] passes
    Range: twice as many micro-batches as stages or more; passes of one stage at a time, whether
        two overlap or not
    Source: DeepSeek-AI 2024, arXiv:2412.19437, table 2; by playing the authors' schedule out
    Example:
        >>> float(dual_idle_passes(8, 1.0)), float(dual_idle_passes(8, 4 / 3))
        (14.0, 27.0)
    """
    before = np.maximum(stages - 1, 0.0)
    gradient = 3 * recompute_flops_factor - 2
    return before * (gradient + 1) + np.maximum(0.0, before * gradient - stages)
