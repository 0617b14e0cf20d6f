"""Times of the operations of a transformer layer on one GPU.

Parameters:
    rows [1]: rows m of the result
    columns [1]: columns n of the result
    depth [1]: length k of the sums
"""

from typing import Any

from ..ops import np


def gemm_flops(rows, columns, depth) -> Any:
    """Operations of one matrix product.

    2 m n k

    Returns: [FLOP] operations
    Source: Golub & Van Loan 2013, section 1.1
    Example:
        >>> gemm_flops(2, 3, 4)
        48
    """
    return 2 * rows * columns * depth


def newton_schulz_flops(rows, columns) -> Any:
    """Operations that make a matrix orthogonal, as Muon does.

    5 (4 m^2 n + 2 m^3), m the shorter side: five times X X^T, its square, and their sum with X

    Parameters:
        rows [1]: rows of the matrix
        columns [1]: columns of the matrix
    Returns: [FLOP] operations
    Source: Jordan et al. 2024 (Muon), https://kellerjordan.github.io/posts/muon/
    Example:
        >>> int(newton_schulz_flops(2, 3))
        320
    """
    m, n = np.minimum(rows, columns), np.maximum(rows, columns)
    return 5 * (2 * gemm_flops(m, m, n) + gemm_flops(m, m, m))


def gemm_rate_share(rows, columns, depth, largest, half_size) -> Any:
    """Share of peak that a matrix product reaches, smooth in its size.

    largest x m / (m + s) x n / (n + s) x k / (k + s): a side of s loses half of the rate

    Parameters:
        largest [1]: share that a large product reaches
        half_size [1]: side s at which half of the rate is lost
    Returns: [1] share of peak
    Source: Hockney & Jesshope 1988, Parallel Computers 2 (half-performance length), each side
    Example:
        >>> round(gemm_rate_share(128, 384, 384, 0.8, 128), 6)
        0.225
    """
    filled = rows / (rows + half_size) * (columns / (columns + half_size))
    return largest * filled * (depth / (depth + half_size))


def gemm_time(
    rows,
    columns,
    depth,
    operand_bytes,
    result_bytes,
    peak_flops,
    largest,
    half_size,
    memory_bandwidth,
) -> Any:
    """Time of one matrix product: its operations or its operands, whichever takes longer.

    max(2 m n k / (share P), ((m k + k n) e + m n r) / BW)

    Parameters:
        operand_bytes [B]: size e of an element that is multiplied
        result_bytes [B]: size r of an element of the result
        peak_flops [FLOP/s]: peak of the GPU
        largest [1]: share of peak that a large product reaches
        half_size [1]: side at which half of that rate is lost
        memory_bandwidth [B/s]: bandwidth that the memory reaches
    Returns: [s] time
    Source: Williams et al. 2009, CACM 52(4)
    Example:
        >>> float(gemm_time(1024, 1024, 1024, 2, 2, 2.0**31, 1.0, 0.0, 1e15))
        1.0
    """
    moved = (rows * depth + depth * columns) * operand_bytes + rows * columns * result_bytes
    share = gemm_rate_share(rows, columns, depth, largest, half_size)
    compute = gemm_flops(rows, columns, depth) / (share * peak_flops)
    return np.maximum(compute, moved / memory_bandwidth)
