"""Cost of the job, by rent or by ownership."""

from ...alternatives import alternative


def gpu_hours(allocated_gpus, job_time):
    """GPU-hours of the run, idle and lost ones included.

    GPUs x wall time

    Returns: [h] time of one GPU
    Source: by definition; DeepSeek-AI 2024, arXiv:2412.19437, table 1
    Example:
        >>> round(gpu_hours(2048, 56.72 * 86400) / 1e6, 3)
        2.788
    """
    return allocated_gpus * job_time / 3600


@alternative("gpu_cost", pricing="rented")
def rented_gpu_cost(gpu_hours, gpu_hour_price):
    """Price of the run's GPU-hours; where they are rented, their electricity is inside.

    GPU-hours x price

    Returns: [USD] price
    Source: DeepSeek-AI 2024, arXiv:2412.19437, table 1
    Example:
        >>> rented_gpu_cost(2.788e6, 2)
        5576000.0
    """
    return gpu_hours * gpu_hour_price


def electricity_cost(energy, electricity_price):
    """Price of the run's electricity alone; the cost of a run, rented or owned, contains it.

    energy x price

    Returns: [USD] price
    Source: by definition; Fleet Foundations, the energy hierarchy at scale (PUE multiplies it)
    """
    return energy * electricity_price


def job_cost(gpu_cost):
    """Price of the run, on GPUs that are rented or owned (`pricing`).

    GPU-hours x price

    Returns: [USD] price
    Source: DeepSeek-AI 2024, arXiv:2412.19437, table 1
    """
    return 1.0 * gpu_cost


def cost_per_million_tokens(job_cost, training_tokens):
    """Price of the run for each million tokens that it trains on.

    cost / D x 10^6

    Returns: [USD] price of 10^6 tokens
    Range: of the tokens stated; `tokens_to_target` has those that a large batch adds
    Source: by definition
    """
    return job_cost / training_tokens * 1e6
