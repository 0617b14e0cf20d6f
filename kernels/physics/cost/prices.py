"""Cost of the job on rented or owned GPUs."""

from ...alternatives import alternative


def gpu_hours(allocated_gpus, job_time):
    """GPU-hours of the run, including idle and lost ones.

    GPUs x wall time

    Returns: [h] time of one GPU
    Source: by definition; DeepSeek-AI 2024, arXiv:2412.19437, table 1
    Example:
        >>> round(gpu_hours(2048, 56.72 * 86400) / 1e6, 3)
        2.788
    """
    return allocated_gpus * job_time / 3600


@alternative("gpu_cost", pricing=("rented", "take_or_pay"))
def rented_gpu_cost(gpu_hours, gpu_hour_price):
    """Cost of the run's GPU-hours; rent includes electricity.

    GPU-hours x price

    Returns: [USD] cost
    Source: DeepSeek-AI 2024, arXiv:2412.19437, table 1
    Example:
        >>> rented_gpu_cost(2.788e6, 2)
        5576000.0
    """
    return gpu_hours * gpu_hour_price


def electricity_cost(energy, electricity_price):
    """Cost of the run's electricity, already included in the cost of a rented or owned run.

    energy x price

    Returns: [USD] cost
    Source: by definition; Fleet Foundations, the energy hierarchy at scale (PUE multiplies it)
    """
    return energy * electricity_price


@alternative("job_cost", pricing=("rented", "owned"))
def job_cost(gpu_cost):
    """Cost of the run, on rented or owned GPUs (`pricing`).

    GPU-hours x price

    Returns: [USD] cost
    Source: DeepSeek-AI 2024, arXiv:2412.19437, table 1
    """
    return 1.0 * gpu_cost


def cost_per_million_tokens(job_cost, training_tokens):
    """Cost of the run per million training tokens.

    cost / D x 10^6

    Returns: [USD] cost of 10^6 tokens
    Range: stated tokens, without those that a large batch adds (`tokens_to_target`)
    Source: by definition
    """
    return job_cost / training_tokens * 1e6
