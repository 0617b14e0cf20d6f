"""The roofline: what compute and memory allow.

Parameters:
    arithmetic_intensity [FLOP/B]: operations per byte moved through memory
    peak_flops [FLOP/s]: rate R of the arithmetic units
    memory_bandwidth [B/s]: rate of the memory
"""

from typing import Any

from ..ops import np


def roofline_flops(arithmetic_intensity, peak_flops, memory_bandwidth) -> Any:
    """Attainable rate of a kernel with a given arithmetic intensity.

    min(peak, intensity x bandwidth)

    Returns: [FLOP/s] attainable rate
    Source: Williams, Waterman & Patterson 2009, CACM 52(4)
    Example:
        >>> float(roofline_flops(1.0, 989e12, 3.35e12)) / 1e12
        3.35
    """
    return np.minimum(peak_flops, arithmetic_intensity * memory_bandwidth)


def network_roofline_flops(
    arithmetic_intensity, peak_flops, memory_bandwidth, network_intensity, network_bandwidth
) -> Any:
    """Attainable rate under three ceilings: arithmetic, memory, network.

    min(peak, intensity x memory bandwidth, network intensity x network bandwidth)

    Parameters:
        network_intensity [FLOP/B]: operations per byte sent to other GPUs (infinite: none sent)
        network_bandwidth [B/s]: rate of the network, per GPU and direction
    Returns: [FLOP/s] attainable rate
    Source: Williams, Waterman & Patterson 2009, CACM 52(4); Fleet Foundations, foundations recap
        (the network as a third ceiling)
    Example:
        >>> float(network_roofline_flops(300.0, 989e12, 3.35e12, 1e4, 50e9)) / 1e12
        500.0
    """
    inside = roofline_flops(arithmetic_intensity, peak_flops, memory_bandwidth)
    return np.minimum(inside, network_intensity * network_bandwidth)


def iron_law_time(data_bytes, bandwidth, operations, peak_flops, efficiency, latency) -> Any:
    """Time of a task whose data movement, arithmetic and waiting do not overlap.

    T = D / BW + O / (R eta) + L

    Parameters:
        data_bytes [B]: bytes D to move
        bandwidth [B/s]: rate BW at which they move
        operations [FLOP]: operations O to do
        efficiency [1]: share eta of it that is reached
        latency [s]: fixed time L
    Returns: [s] time
    Source: Fleet Foundations, foundations recap (the iron law)
    Example:
        >>> iron_law_time(2e9, 1e9, 3e12, 4e12, 0.5, 0.25)
        3.75
    """
    return data_bytes / bandwidth + operations / (peak_flops * efficiency) + latency
