"""Optimizer states that live on the host or on its drives."""

from ..alternatives import alternative


@alternative("offload_time", offload="none")
def no_offload_time():
    """Time of one step's traffic to the host: none.

    0

    Returns: [s] traffic of one step
    Source: by definition
    """
    return 0.0


@alternative("offload_time", offload="cpu")
def cpu_offload_time(
    optimizer_parameters, gradient_bytes_per_element, bytes_per_element, offload_bandwidth
):
    """Time of one step's traffic to the host: gradients go, updated weights come back.

    N_o (gradient + weight) / B

    Source: Ren et al. 2021 (ZeRO-Offload), arXiv:2101.06840, section 3.2
    """
    moved = optimizer_parameters * (gradient_bytes_per_element + bytes_per_element)
    return moved / offload_bandwidth


@alternative("offload_time", offload="nvme")
def nvme_offload_time(
    optimizer_parameters,
    gradient_bytes_per_element,
    bytes_per_element,
    offload_bandwidth,
    optimizer_state_bytes,
    nvme_bandwidth,
):
    """Time of one step's traffic to host and drives: optimizer states are read and written.

    N_o (gradient + weight) / B + 2 N_o state / B_nvme

    Source: Rajbhandari et al. 2021 (ZeRO-Infinity), arXiv:2104.07857, section 4.1
    """
    to_host = gradient_bytes_per_element + bytes_per_element
    to_drives = 2 * optimizer_state_bytes
    return optimizer_parameters * (to_host / offload_bandwidth + to_drives / nvme_bandwidth)
