"""The fabric that a group can count on, and all communication of a step."""

from typing import Any


def rail_bandwidth(inter_node_bandwidth: Any, oversubscription: Any) -> Any:
    """Bandwidth between nodes that one GPU can count on, per direction.

    B / oversubscription

    Parameters: inter_node_bandwidth [B/s], oversubscription [1]
    Returns: [B/s] bandwidth of one rail under load
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree)
    """
    return inter_node_bandwidth / oversubscription


def communication_time(
    tensor_parallel_time: Any, pipeline_parallel_time: Any, data_parallel_time: Any
) -> Any:
    """Communication of one step on one GPU, hidden or not.

    tensor + pipeline + data

    Parameters: tensor_parallel_time [s], pipeline_parallel_time [s], data_parallel_time [s]
    Returns: [s] communication of one step
    Source: sum of the exclusive parts; Narayanan et al. 2021 (SC21), section 3
    """
    return tensor_parallel_time + pipeline_parallel_time + data_parallel_time


def exposed_communication_time(
    exposed_tensor_parallel_time: Any,
    pipeline_parallel_time: Any,
    exposed_data_parallel_time: Any,
) -> Any:
    """Communication of one step that computing does not hide.

    exposed tensor + pipeline + exposed data

    Parameters: exposed_tensor_parallel_time [s], pipeline_parallel_time [s],
        exposed_data_parallel_time [s]
    Returns: [s] exposed communication of one step
    Source: by definition of exposed communication; Wang et al. 2023 (ASPLOS), section 2
    """
    return exposed_tensor_parallel_time + pipeline_parallel_time + exposed_data_parallel_time
