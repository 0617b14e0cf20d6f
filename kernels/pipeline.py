"""Idle time of pipeline schedules."""

from typing import Any


def bubble_ratio(pipeline_parallel: Any, num_microbatches: Any, virtual_stages: Any) -> Any:
    """Idle time over useful time of a GPipe, 1F1B or interleaved schedule.

    (p - 1) / (v m)

    Parameters:
        pipeline_parallel [1]: stages p
        num_microbatches [1]: micro-batches m of one step
        virtual_stages [1]: model chunks v on each stage
    Returns: [1] bubble time over ideal time
    Source: Narayanan et al. 2021 (SC21), section 2.2; Huang et al. 2019
    Example:
        >>> bubble_ratio(4, 12, 1)
        0.25
    """
    return (pipeline_parallel - 1) / (virtual_stages * num_microbatches)


def bubble_fraction(pipeline_parallel: Any, num_microbatches: Any, virtual_stages: Any) -> Any:
    """Idle time over total time of a GPipe, 1F1B or interleaved schedule.

    (p - 1) / (v m + p - 1)

    Parameters:
        pipeline_parallel [1]: stages p
        num_microbatches [1]: micro-batches m of one step
        virtual_stages [1]: model chunks v on each stage
    Returns: [1] bubble time over the time of the pipeline
    Source: Huang et al. 2019 (GPipe), section 2.3; Narayanan et al. 2021 (SC21), section 2.2
    Example:
        >>> bubble_fraction(16, 1, 1)
        0.9375
    """
    bubbles = pipeline_parallel - 1
    return bubbles / (virtual_stages * num_microbatches + bubbles)
