"""One optimizer step: the pipeline, the bubble, what communication is not hidden, the total."""

from typing import Any

import numpy as np

from ..alternatives import alternative
from ..ops import where
from ..pipeline import bubble_fraction as idle_over_total
from ..pipeline import bubble_ratio as idle_over_ideal


def data_parallel(
    n_gpus: Any, tensor_parallel: Any, pipeline_parallel: Any, context_parallel: Any
) -> Any:
    """Replicas of the model; undefined where the cluster holds less than one.

    d = n / (t p c), for d >= 1

    Parameters: n_gpus [1], tensor_parallel [1], pipeline_parallel [1], context_parallel [1]
    Returns: [1] data-parallel size; NaN where one replica takes more than the cluster
    Source: Narayanan et al. 2021 (SC21), section 3.1
    Example:
        >>> float(data_parallel(99968, 8, 16, 1))
        781.0
    """
    replicas = n_gpus / (tensor_parallel * pipeline_parallel * context_parallel)
    return where(replicas >= 1, replicas, np.nan)


def num_microbatches(global_batch_size: Any, data_parallel: Any, micro_batch_size: Any) -> Any:
    """Micro-batches that each replica runs through its pipeline in one step.

    m = B / (d b)

    Parameters: global_batch_size [1], data_parallel [1], micro_batch_size [1]
    Returns: [1] micro-batches of one step
    Source: Narayanan et al. 2021 (SC21), section 3.1
    """
    return global_batch_size / (data_parallel * micro_batch_size)


def bubble_ratio(pipeline_parallel: Any, num_microbatches: Any, virtual_stages: Any) -> Any:
    """Pipeline idle time over useful time.

    (p - 1) / (v m)

    Parameters: pipeline_parallel [1], num_microbatches [1], virtual_stages [1]
    Returns: [1] bubble over ideal time
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    return idle_over_ideal(pipeline_parallel, num_microbatches, virtual_stages)


def bubble_fraction(pipeline_parallel: Any, num_microbatches: Any, virtual_stages: Any) -> Any:
    """Pipeline idle time over total time.

    (p - 1) / (v m + p - 1)

    Parameters: pipeline_parallel [1], num_microbatches [1], virtual_stages [1]
    Returns: [1] bubble over total time
    Source: Huang et al. 2019 (GPipe), section 2.3
    """
    return idle_over_total(pipeline_parallel, num_microbatches, virtual_stages)


def straggler_time(compute_time: Any, straggler_slowdown: Any) -> Any:
    """Time for which a step waits for its slowest rank.

    compute time x slowdown

    Parameters: compute_time [s], straggler_slowdown [1]
    Returns: [s] wait of one step
    Source: Jiang et al. 2024 (MegaScale), section 5 (a step waits for its slowest rank)
    """
    return compute_time * straggler_slowdown


def bubble_time(
    bubble_ratio: Any,
    compute_time: Any,
    straggler_time: Any,
    exposed_tensor_parallel_time: Any,
) -> Any:
    """Time of one step in which pipeline stages idle; their work includes tensor traffic.

    (p - 1) / (v m) x (compute + straggler + exposed tensor traffic)

    Parameters: bubble_ratio [1], compute_time [s], straggler_time [s],
        exposed_tensor_parallel_time [s]
    Returns: [s] bubble of one step
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    return bubble_ratio * (compute_time + straggler_time + exposed_tensor_parallel_time)


def step_time(
    compute_time: Any,
    straggler_time: Any,
    bubble_time: Any,
    exposed_communication_time: Any,
) -> Any:
    """Time of one optimizer step.

    compute + straggler + bubble + exposed communication

    Parameters: compute_time [s], straggler_time [s], bubble_time [s],
        exposed_communication_time [s]
    Returns: [s] time of one step
    Source: sum of the exclusive parts of a step (Jiang et al. 2024, MegaScale, section 2)
    """
    return compute_time + straggler_time + bubble_time + exposed_communication_time


def tokens_per_second(tokens_per_step: Any, step_time: Any) -> Any:
    """Training throughput while the cluster is up.

    B s / t

    Parameters: tokens_per_step [1], step_time [s]
    Returns: [1/s] tokens per second
    Source: by definition
    """
    return tokens_per_step / step_time


def mfu(ideal_compute_time: Any, step_time: Any) -> Any:
    """Model FLOPs utilisation.

    F / (n P t)

    Parameters: ideal_compute_time [s], step_time [s]
    Returns: [1] share of peak that does model operations
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B
    """
    return ideal_compute_time / step_time


def scaling_efficiency(compute_time: Any, step_time: Any) -> Any:
    """Share of a step in which GPUs compute.

    compute / step

    Parameters: compute_time [s], step_time [s]
    Returns: [1] compute time over step time
    Source: by definition; Fleet Foundations table 5 gives rules of thumb
    """
    return compute_time / step_time


def communication_fraction(exposed_communication_time: Any, step_time: Any) -> Any:
    """Share of a step that waits for communication.

    exposed communication / step

    Parameters: exposed_communication_time [s], step_time [s]
    Returns: [1] share of the step
    Source: by definition
    """
    return exposed_communication_time / step_time


def raw_communication_fraction(communication_time: Any, step_time: Any) -> Any:
    """Communication of a step over its time, hidden parts counted: it can exceed 1.

    communication / step

    Parameters: communication_time [s], step_time [s]
    Returns: [1] communication over step time
    Source: by definition
    """
    return communication_time / step_time


@alternative("gradient_window", zero_stage=(0, 1, 2))
def last_backward_window(
    compute_time: Any, recompute_flops_factor: Any, num_microbatches: Any
) -> Any:
    """Time behind which gradient traffic can hide: the last micro-batch's backward pass.

    compute / m x (1 - 1 / (3 f)): all but the forward pass, a third of the model operations

    Parameters: compute_time [s], recompute_flops_factor [1], num_microbatches [1]
    Returns: [s] window
    Source: Li et al. 2020 (PyTorch DDP), VLDB 13(12), section 3.2.3
    """
    return compute_time / num_microbatches * (1 - 1 / (3 * recompute_flops_factor))


@alternative("gradient_window", zero_stage=3)
def every_backward_window(compute_time: Any, recompute_flops_factor: Any) -> Any:
    """Time behind which sharded traffic can hide: each micro-batch's backward pass.

    compute x (1 - 1 / (3 f)): all but the forward pass, a third of the model operations

    Parameters: compute_time [s], recompute_flops_factor [1]
    Returns: [s] window
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.3
    """
    return compute_time * (1 - 1 / (3 * recompute_flops_factor))
