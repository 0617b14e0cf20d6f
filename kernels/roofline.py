"""The roofline: what compute and memory allow."""

from typing import Any

import numpy as np


def roofline_flops(arithmetic_intensity: Any, peak_flops: Any, memory_bandwidth: Any) -> Any:
    """Attainable rate of a kernel with a given arithmetic intensity.

    min(peak, intensity x bandwidth)

    Parameters:
        arithmetic_intensity [FLOP/B]: operations per byte moved
        peak_flops [FLOP/s]: rate of the arithmetic units
        memory_bandwidth [B/s]: rate of the memory
    Returns: [FLOP/s] attainable rate
    Source: Williams, Waterman & Patterson 2009, CACM 52(4)
    Example:
        >>> float(roofline_flops(1.0, 989e12, 3.35e12)) / 1e12
        3.35
    """
    return np.minimum(peak_flops, arithmetic_intensity * memory_bandwidth)
