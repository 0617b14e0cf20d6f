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


def gemm_rate_share(rows, columns, depth, largest, half_depth) -> Any:
    """Share of peak that a matrix product reaches, smooth in its size.

    largest x m n / (m n + 2,500 s) x k / (k + s): sums of s elements, or a result of 2,500 s, lose
    half of the rate

    Parameters:
        largest [1]: share that a large product reaches
        half_depth [1]: depth s at which half of the rate is lost
    Returns: [1] share of peak
    Source: Hockney & Jesshope 1988, Parallel Computers 2 (half-performance length), of the depth
        and of the result that fills the GPU; 2,500: XLA,
        xla/service/gpu/model/matmul_interpolator_data.h
    Example:
        >>> round(gemm_rate_share(250, 1000, 100, 0.8, 100), 6)
        0.2
    """
    # half area over half depth, of the law that fits XLA's table of 143 products on an H100 best:
    # 493,000 and 198 (docs/make/products.py)
    area = rows * columns
    filled = area / (area + 2500.0 * half_depth)
    return largest * filled * (depth / (depth + half_depth))


def gemm_time(
    rows,
    columns,
    depth,
    operand_bytes,
    result_bytes,
    peak_flops,
    largest,
    half_depth,
    memory_bandwidth,
) -> Any:
    """Time of one matrix product: its operations or its operands, whichever takes longer.

    max(2 m n k / (share P), ((m k + k n) e + m n r) / BW)

    Parameters:
        operand_bytes [B]: size e of an element that is multiplied
        result_bytes [B]: size r of an element of the result
        peak_flops [FLOP/s]: peak of the GPU
        largest [1]: share of peak that a large product reaches
        half_depth [1]: depth at which half of that rate is lost
        memory_bandwidth [B/s]: bandwidth that the memory reaches
    Returns: [s] time
    Source: Williams et al. 2009, CACM 52(4)
    Example:
        >>> float(gemm_time(1024, 1024, 1024, 2, 2, 2.0**31, 1.0, 0.0, 1e15))
        1.0
    """
    moved = (rows * depth + depth * columns) * operand_bytes + rows * columns * result_bytes
    share = gemm_rate_share(rows, columns, depth, largest, half_depth)
    compute = gemm_flops(rows, columns, depth) / (share * peak_flops)
    return np.maximum(compute, moved / memory_bandwidth)


def training_gemm_time(
    rows,
    columns,
    depth,
    operand_bytes,
    result_bytes,
    peak_flops,
    largest,
    half_depth,
    memory_bandwidth,
) -> Any:
    """Mean time of a matrix product and of the two that make its gradients.

    (GEMM(m, n, k) + GEMM(m, k, n) + GEMM(k, n, m)) / 3: the gradient of inputs sums over columns,
    that of weights over rows

    Parameters:
        operand_bytes [B]: size e of an element of the operands
        result_bytes [B]: size r of an element of the result
        peak_flops [FLOP/s]: peak of the GPU
        largest [1]: share of peak that a large product reaches
        half_depth [1]: depth at which half of that rate is lost
        memory_bandwidth [B/s]: bandwidth that the memory reaches
    Returns: [s] time
    Range: widths from 512, half depths up to 500: one of the three alone takes 0.2 to 2.3 times as
        long; both products of a block forward, as where it runs again, differ by 49 % at most with
        64 to 256 rows, by 21 % from a thousand, 6 % of dense blocks with half depths up to 200
    Source: Narayanan et al. 2021 (SC21), appendix (the backward pass has two products for one)
    Example:
        >>> float(training_gemm_time(1024, 1024, 1024, 2, 2, 2.0**31, 1.0, 0.0, 1e15))
        1.0
    """
    on_gpu = (operand_bytes, result_bytes, peak_flops, largest, half_depth, memory_bandwidth)
    forward = gemm_time(rows, columns, depth, *on_gpu)
    inputs = gemm_time(rows, depth, columns, *on_gpu)
    return (forward + inputs + gemm_time(depth, columns, rows, *on_gpu)) / 3
