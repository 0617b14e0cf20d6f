"""What the run costs, by the GPU-hour: rented, or owned (see ownership).

Either holds its electricity, so that the electricity of a run is never added to it.
"""

from typing import Any

from ..alternatives import alternative


def gpu_hours(allocated_gpus: Any, job_time: Any) -> Any:
    """GPU-hours of the run, idle and lost ones included.

    GPUs x wall time

    Parameters: allocated_gpus [1], job_time [s]
    Returns: [h] time of one GPU
    Source: by definition; DeepSeek-AI 2024, arXiv:2412.19437, table 1
    Example:
        >>> round(gpu_hours(2048, 56.72 * 86400) / 1e6, 3)
        2.788
    """
    return allocated_gpus * job_time / 3600


@alternative("gpu_cost", pricing="rented")
def rented_gpu_cost(gpu_hours: Any, gpu_hour_price: Any) -> Any:
    """Price of the run's GPU-hours; where they are rented, their electricity is inside.

    GPU-hours x price

    Parameters: gpu_hours [h], gpu_hour_price [USD/h]
    Returns: [USD] price
    Source: DeepSeek-AI 2024, arXiv:2412.19437, table 1
    Example:
        >>> rented_gpu_cost(2.788e6, 2)
        5576000.0
    """
    return gpu_hours * gpu_hour_price


def electricity_cost(energy: Any, electricity_price: Any) -> Any:
    """Price of the run's electricity alone; the cost of a run, rented or owned, contains it.

    energy x price

    Parameters: energy [J], electricity_price [USD/J]
    Returns: [USD] price
    Source: by definition; Fleet Foundations, the energy hierarchy at scale (PUE multiplies it)
    """
    return energy * electricity_price


def job_cost(gpu_cost: Any) -> Any:
    """Price of the run, on GPUs that are rented or owned (`pricing`).

    GPU-hours x price

    Parameters: gpu_cost [USD]
    Returns: [USD] price
    Source: DeepSeek-AI 2024, arXiv:2412.19437, table 1
    """
    return 1.0 * gpu_cost


def cost_per_million_tokens(job_cost: Any, training_tokens: Any) -> Any:
    """Price of the run for each million tokens that it trains on.

    cost / D x 10^6

    Parameters: job_cost [USD], training_tokens [1]
    Returns: [USD] price of 10^6 tokens
    Range: of the tokens stated; `tokens_to_target` has those that a large batch adds
    Source: by definition
    """
    return job_cost / training_tokens * 1e6
