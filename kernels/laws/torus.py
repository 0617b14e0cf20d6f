"""Collectives on a torus of chips, linked to their neighbours along x, y and z, without switches.

Groups of ranks are laid out along x first, then y, then z. A group with neighbours `stride` chips
apart covers, in each dimension, `torus_extent` chips that are `torus_step` links apart.

Parameters:
    size [1]: chips d along the dimension
    ranks [1]: ranks n of the group
    stride [1]: chips s between neighbours of the group (product of the inner group sizes)
    inside [1]: chips p of one layer of the dimension: product of the sizes before it
    x [1]: chips along x
    y [1]: chips along y
    z [1]: chips along z
    x_ways [1]: 2 where x is a ring, 1 where it is a line
    y_ways [1]: 2 where y is a ring, 1 where it is a line
    z_ways [1]: 2 where z is a ring, 1 where it is a line
    link_bandwidth [B/s]: rate of one link in one direction
    message_bytes [B]: buffer M of one rank
    ranks_per_slice [1]: ranks g of the group in each torus
    hops [1]: links h between the ranks of one torus that are farthest apart
    link_latency [s]: fixed cost of one link
    outer_latency [s]: fixed cost of one hop between tori
    outer_bandwidth [B/s]: rate of one rank between tori
"""

from typing import Any

from ..ops import np, where
from .collectives import reduce_scatter_time


def torus_ways(size, second, third, ring_multiple, dimensions) -> Any:
    """Directions in which a chip sends along one dimension: 2 on a ring, 1 at the end of a line.

    2 where the size is a multiple of r, and, with links in three dimensions, all sizes are; else 1

    Parameters:
        second [1]: chips along another dimension
        third [1]: chips along the other dimension
        ring_multiple [1]: sizes that close into rings are multiples r of this
        dimensions [1]: dimensions in which a chip has links
    Returns: [1] directions
    Source: Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2 (cubes of 4 x 4 x 4 chips);
        Austin et al. 2025 (How to Scale Your Model), part 2 (rings at multiples of 4, or at 16)
    Example:
        >>> float(torus_ways(8, 4, 4, 4, 3)), float(torus_ways(8, 8, 1, 4, 3))
        (2.0, 1.0)
        >>> float(torus_ways(16, 8, 1, 16, 2)), float(torus_ways(8, 16, 1, 16, 2))
        (2.0, 1.0)
    """
    rings, others = size / ring_multiple, (second / ring_multiple, third / ring_multiple)
    cubes = (np.floor(others[0]) == others[0]) & (np.floor(others[1]) == others[1])
    return where((np.floor(rings) == rings) & ((dimensions < 3) | cubes), 2.0, 1.0)


def torus_extent(ranks, stride, inside, size) -> Any:
    """Ranks of a group along one dimension of a torus.

    min(s n, d p) / max(s, p), from 1 to the size d; p chips lie inside the dimension

    Returns: [1] ranks along the dimension
    Range: groups that fill a box: else `infeasible_reason` is torus_does_not_hold_the_groups
    Source: by definition of a box of chips
    Example:
        >>> float(torus_extent(32, 4, 1, 8)), float(torus_extent(32, 4, 8, 16))
        (2.0, 16.0)
    """
    last = np.minimum(stride * ranks, inside * size)
    return np.minimum(np.maximum(last / np.maximum(stride, inside), 1.0), size)


def torus_step(stride, inside, size) -> Any:
    """Links between neighbours of a group along one dimension; as many groups share each link.

    s / p, from 1 to the size d

    Returns: [1] links
    Source: by definition of a box of chips
    Example:
        >>> float(torus_step(4, 1, 8)), float(torus_step(4, 8, 16))
        (4.0, 1.0)
    """
    return np.minimum(np.maximum(stride / inside, 1.0), size)


def _bandwidth_along(ranks, stride, inside, size, ways, link_bandwidth) -> Any:
    """Contribution of one dimension to a group's bandwidth; 0 with one rank along it."""
    extent = torus_extent(ranks, stride, inside, size)
    step = torus_step(stride, inside, size)
    used = where(extent * step >= size, ways, 1.0)  # part of a ring is a line
    return where(extent > 1, used / step, 0.0) * link_bandwidth


def torus_bandwidth(ranks, stride, x, y, z, x_ways, y_ways, z_ways, link_bandwidth) -> Any:
    """Bandwidth of a chip in a gather or reduction that uses all its links at once.

    B = b (w_x / s_x + w_y / s_y + w_z / s_z) over dimensions with ranks of the group: w directions,
    1 on part of a ring; s links between neighbours, which s groups share

    Parameters: ranks [1]: ranks of the group in one torus
    Returns: [B/s] bandwidth per chip; of one link where the group is one rank
    Range: groups that fill a box, and buffers of many pieces that cross the dimensions in different
        orders; an upper bound for one piece
    Source: Austin et al. 2025 (How to Scale Your Model), part 3 (AllGather over several axes);
        Sack & Gropp 2015, Collective algorithms for multiported torus networks, TOPC 1(2)
    Example:
        >>> float(torus_bandwidth(4096, 1, 16, 16, 16, 2, 2, 2, 50e9))
        300000000000.0
        >>> float(torus_bandwidth(4, 1, 16, 16, 1, 2, 2, 1, 50e9))
        50000000000.0
    """
    along_x = _bandwidth_along(ranks, stride, 1.0, x, x_ways, link_bandwidth)
    along_y = _bandwidth_along(ranks, stride, x, y, y_ways, link_bandwidth)
    along_z = _bandwidth_along(ranks, stride, x * y, z, z_ways, link_bandwidth)
    total = along_x + (along_y + along_z)
    return where(total > 0, total, link_bandwidth)


def _hops_along(ranks, stride, inside, size, ways) -> Any:
    """Links to the farthest rank of a group in one dimension."""
    extent = torus_extent(ranks, stride, inside, size)
    step = torus_step(stride, inside, size)
    ring = extent * step >= size
    return step * where(ring & (ways > 1), extent / 2, extent - 1) * where(extent > 1, 1.0, 0.0)


def torus_hops(ranks, stride, x, y, z, x_ways, y_ways, z_ways) -> Any:
    """Links between the ranks of a group that are farthest apart.

    sum of s n / 2 over rings and s (n - 1) over lines: n ranks, s links apart

    Parameters: ranks [1]: ranks of the group in one torus
    Returns: [1] links
    Range: even rings; half a link too many for odd ones
    Source: Austin et al. 2025 (How to Scale Your Model), part 3 (latency of an AllGather)
    Example:
        >>> float(torus_hops(4096, 1, 16, 16, 16, 2, 2, 2))
        24.0
        >>> float(torus_hops(4, 1, 4, 4, 1, 1, 1, 1))
        3.0
    """
    along_x = _hops_along(ranks, stride, 1.0, x, x_ways)
    along_y = _hops_along(ranks, stride, x, y, y_ways)
    along_z = _hops_along(ranks, stride, x * y, z, z_ways)
    return along_x + (along_y + along_z)


def torus_reduce_scatter_time(
    message_bytes,
    ranks,
    ranks_per_slice,
    hops,
    link_latency,
    bandwidth,
    outer_latency,
    outer_bandwidth,
) -> Any:
    """Time of a reduce-scatter in each torus, then a ring reduce-scatter between tori per rank.

    t = h a + (1 - 1 / g) M / B + (k - 1) (a_e + M / (g k B_e)), k = n / g tori; an all-gather takes
    as long

    Parameters: bandwidth [B/s]: rate of one rank over its links in the torus
    Returns: [s] time of the collective
    Range: groups with equally many ranks in each torus
    Source: Austin et al. 2025 (How to Scale Your Model), part 3 (AllGather over several axes);
        Jia et al. 2018, arXiv:1807.11205, section 4.3 (level by level)
    Example:
        >>> float(torus_reduce_scatter_time(8e9, 8, 8, 4, 0.0, 1e9, 0.0, 1e9))
        7.0
    """
    inside = hops * link_latency + (1 - 1 / ranks_per_slice) * message_bytes / bandwidth
    return inside + reduce_scatter_time(
        message_bytes / ranks_per_slice, ranks / ranks_per_slice, outer_latency, outer_bandwidth
    )


def _load_along(ranks, stride, inside, size, ways) -> Any:
    """Bytes through a dimension's busiest link per byte that a rank exchanges."""
    extent = torus_extent(ranks, stride, inside, size)
    step = torus_step(stride, inside, size)
    ring = (extent * step >= size) & (ways > 1)
    return step * where(extent > 1, where(ring, extent / 8, extent / 4), 0.0)


def twisted_load(x, y, z) -> Any:
    """Bytes through each link of a twisted torus per byte that a chip exchanges with all others.

    mean distance / 6: (7/8 n - 1 / 4n) / 6 for n x n x 2n, (35/32 n - 1 / 4n) / 6 for n x 2n x 2n

    Returns: [1] bytes over bytes
    Range: these shapes, others are torus_does_not_hold_the_groups; equal load on all links is a
        lower bound: published gains over the plain torus are 0.93 and 0.94 of the computed ones
    Source: Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2; the means are ours, counted
    Example:
        >>> round(float(twisted_load(4, 4, 8)), 4), round(float(twisted_load(4, 8, 8)), 4)
        (0.5729, 0.7188)
    """
    size = np.minimum(np.minimum(x, y), z)
    far = where(x * y * z < 3 * size * size * size, 0.875, 1.09375) * size
    return (far - 0.25 / size) / 6


def torus_load(ranks, stride, x, y, z, x_ways, y_ways, z_ways, twist) -> Any:
    """Bytes through the busiest link per byte that a rank exchanges with all of its group.

    max over dimensions of s n / 8 (ring of n ranks, s links apart) or s n / 4 (line), which is half
    of what is sent over each bisection

    Parameters:
        ranks [1]: ranks of the group in one torus
        twist [1]: 1 where the torus is twisted, else 0
    Returns: [1] bytes over bytes
    Range: even rings and lines; for odd sizes d, d^2 / (d^2 - 1) of the load; a twist helps only
        groups that fill the torus
    Source: Austin et al. 2025 (How to Scale Your Model), part 3 (AllToAll)
    Example:
        >>> float(torus_load(8, 1, 8, 1, 1, 2, 1, 1, 0))
        1.0
    """
    load_x = _load_along(ranks, stride, 1.0, x, x_ways)
    load_y = _load_along(ranks, stride, x, y, y_ways)
    load_z = _load_along(ranks, stride, x * y, z, z_ways)
    busiest = np.maximum(np.maximum(load_x, load_y), load_z)
    fills = (twist > 0) & (ranks >= x * y * z)
    return where(fills, twisted_load(x, y, z), busiest)


def torus_all_to_all_time(
    message_bytes,
    ranks,
    ranks_per_slice,
    hops,
    load,
    link_latency,
    link_bandwidth,
    outer_latency,
    outer_bandwidth,
) -> Any:
    """Time of an all-to-all (1/n of a buffer to every other rank) along shortest paths.

    t = h a + (n - g) a_e + max(L M g / (n b), M (n - g) / (n B_e)), inside tori and between them

    Parameters:
        load [1]: bytes L through the busiest link per byte that a rank exchanges in its torus
    Returns: [s] time of the collective
    Range: as `torus_load`
    Source: Austin et al. 2025 (How to Scale Your Model), part 3 (AllToAll)
    Example:
        >>> float(torus_all_to_all_time(8e9, 8, 8, 4, 1, 0, 1e9, 0, 1e9))
        8.0
    """
    share = message_bytes / ranks
    inside = share * ranks_per_slice * load / link_bandwidth
    across = share * (ranks - ranks_per_slice) / outer_bandwidth
    messages = (ranks - ranks_per_slice) * outer_latency
    return hops * link_latency + messages + np.maximum(inside, across)


def neighbour_links(stride, x, y) -> Any:
    """Links between neighbours of a group; as many groups share each link.

    s within x, s / x within y, s / (x y) beyond

    Returns: [1] links
    Range: neighbours in one dimension; on a line, a ring is folded: its far half is two links apart
    Source: by definition of a box of chips
    Example:
        >>> float(neighbour_links(4, 8, 8)), float(neighbour_links(16, 8, 8))
        (4.0, 2.0)
    """
    beyond = where(stride < x * y, stride / x, stride / (x * y))
    return where(stride < x, stride, beyond)
