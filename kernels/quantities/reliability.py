"""How often the cluster fails."""

from typing import Any

from ..reliability import failure_probability as probability_of_failure


def node_mttf(
    gpus_per_node: Any,
    gpu_mttf: Any,
    nics_per_node: Any,
    nic_mttf: Any,
    series_psus_per_node: Any,
    psu_mttf: Any,
    cables_per_node: Any,
    cable_mttf: Any,
    host_mttf: Any,
) -> Any:
    """Mean time to failure of one node: any of its parts stops it.

    1 / sum(n_i / MTTF_i)

    Parameters: gpus_per_node [1], gpu_mttf [s], nics_per_node [1], nic_mttf [s],
        series_psus_per_node [1], psu_mttf [s], cables_per_node [1], cable_mttf [s], host_mttf [s]
    Returns: [s] mean time to failure of one node
    Source: series system of exponential parts (Barlow & Proschan 1975, ch. 3)
    Example:
        >>> round(node_mttf(8, 5e4, 8, 1.5e5, 2, 1e5, 0, float("inf"), float("inf")), 1)
        4285.7
    """
    rate = gpus_per_node / gpu_mttf + nics_per_node / nic_mttf + series_psus_per_node / psu_mttf
    return 1 / (rate + cables_per_node / cable_mttf + 1 / host_mttf)


def cluster_mtbf(node_mttf: Any, n_gpus: Any, gpus_per_node: Any) -> Any:
    """Mean time between failures of the whole cluster.

    M = MTTF_node g / n

    Parameters: node_mttf [s], n_gpus [1], gpus_per_node [1]
    Returns: [s] mean time between failures of the cluster
    Source: Fleet Foundations eq. 1
    Example:
        >>> round(cluster_mtbf(4285.714, 1024, 8), 1)
        33.5
    """
    return node_mttf * gpus_per_node / n_gpus


def job_duration(job_time: Any) -> Any:
    """Time over which failures are counted, where the scenario does not state it: the whole job.

    T = job_time

    Parameters: job_time [s]
    Returns: [s] duration
    Source: by definition
    """
    return 1.0 * job_time


def expected_failures(job_duration: Any, cluster_mtbf: Any) -> Any:
    """Failures to expect over a duration.

    T / M

    Parameters: job_duration [s], cluster_mtbf [s]
    Returns: [1] number of failures
    Source: renewal of exponential lifetimes (Barlow & Proschan 1975, ch. 3)
    Example:
        >>> round(expected_failures(720, 33.482), 1)
        21.5
    """
    return job_duration / cluster_mtbf


def failure_probability(job_duration: Any, cluster_mtbf: Any) -> Any:
    """Probability of at least one failure over a duration.

    1 - exp(-T / M)

    Parameters: job_duration [s], cluster_mtbf [s]
    Returns: [1] probability
    Source: exponential lifetimes; Fleet Foundations table 6
    """
    return probability_of_failure(job_duration, cluster_mtbf)
