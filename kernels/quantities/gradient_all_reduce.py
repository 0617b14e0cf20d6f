"""All-reduces of gradients: one formula for each algorithm, and the cheapest of them."""

from typing import Any

import numpy as np

from ..alternatives import alternative
from ..collectives import (
    auto_all_reduce_time,
    double_binary_tree_all_reduce_time,
    fitted_all_reduce_time,
    hierarchical_all_reduce_time,
    in_network_all_reduce_time,
    nvls_all_reduce_time,
    recursive_halving_doubling_all_reduce_time,
    ring_all_reduce_time,
    switch_all_reduce_time,
    tree_all_reduce_time,
)


@alternative("data_parallel_all_reduce_time", all_reduce="ring")
def ring_data_parallel_all_reduce_time(
    bucket_message: Any,
    gradient_ranks: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: a ring.

    2 (n - 1) (a + M / (n B))

    Parameters: bucket_message [B], gradient_ranks [1], data_parallel_latency [s],
        data_parallel_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Patarasuk & Yuan 2009, JPDC 69(2)
    """
    return ring_all_reduce_time(
        bucket_message, gradient_ranks, data_parallel_latency, data_parallel_bandwidth
    )


@alternative("data_parallel_all_reduce_time", all_reduce="tree")
def tree_data_parallel_all_reduce_time(
    bucket_message: Any,
    gradient_ranks: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: one tree.

    2 ceil(log2 n) (a + M / B)

    Parameters: bucket_message [B], gradient_ranks [1], data_parallel_latency [s],
        data_parallel_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Thakur et al. 2005, IJHPCA 19(1)
    """
    return tree_all_reduce_time(
        bucket_message, gradient_ranks, data_parallel_latency, data_parallel_bandwidth
    )


@alternative("data_parallel_all_reduce_time", all_reduce="double_binary_tree")
def double_binary_tree_data_parallel_all_reduce_time(
    bucket_message: Any,
    gradient_ranks: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: two trees.

    2 ceil(log2 n) a + 2 M / B

    Parameters: bucket_message [B], gradient_ranks [1], data_parallel_latency [s],
        data_parallel_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Sanders et al. 2009, Parallel Computing 35(12)
    """
    return double_binary_tree_all_reduce_time(
        bucket_message, gradient_ranks, data_parallel_latency, data_parallel_bandwidth
    )


@alternative("data_parallel_all_reduce_time", all_reduce="hierarchical")
def hierarchical_data_parallel_all_reduce_time(
    bucket_message: Any,
    gradient_ranks: Any,
    data_parallel_ranks_per_node: Any,
    intra_node_latency: Any,
    gradient_node_bandwidth: Any,
    inter_node_latency: Any,
    gradient_rail_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: in each node, then between nodes.

    2 (g - 1) (a_i + M / (g B_i)) + 2 (k - 1) (a_e + M / (g k B_e))

    Parameters: bucket_message [B], gradient_ranks [1], data_parallel_ranks_per_node [1],
        intra_node_latency [s], gradient_node_bandwidth [B/s], inter_node_latency [s],
        gradient_rail_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    return hierarchical_all_reduce_time(
        bucket_message,
        gradient_ranks / data_parallel_ranks_per_node,
        data_parallel_ranks_per_node,
        intra_node_latency,
        gradient_node_bandwidth,
        inter_node_latency,
        gradient_rail_bandwidth,
    )


@alternative("data_parallel_all_reduce_time", all_reduce="recursive_halving_doubling")
def recursive_halving_doubling_data_parallel_all_reduce_time(
    bucket_message: Any,
    gradient_ranks: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: recursive halving and doubling.

    2 log2(n) a + 2 (n - 1) / n M / B

    Parameters: bucket_message [B], gradient_ranks [1], data_parallel_latency [s],
        data_parallel_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Thakur et al. 2005, IJHPCA 19(1), section 4.5
    """
    return recursive_halving_doubling_all_reduce_time(
        bucket_message, gradient_ranks, data_parallel_latency, data_parallel_bandwidth
    )


@alternative("data_parallel_all_reduce_time", all_reduce="fitted")
def fitted_data_parallel_all_reduce_time(
    bucket_message: Any,
    gradient_ranks: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
    sqrt_coefficient: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: the law fitted to measured curves.

    a + 2 (n - 1) / n M / B + g sqrt(M)

    Parameters: bucket_message [B], gradient_ranks [1], data_parallel_latency [s],
        data_parallel_bandwidth [B/s], sqrt_coefficient [s/B^0.5]
    Returns: [s] time of one all-reduce
    Source: nccl-tests, doc/PERFORMANCE.md; see collectives.fitted_all_reduce_time
    """
    return fitted_all_reduce_time(
        bucket_message,
        gradient_ranks,
        data_parallel_latency,
        data_parallel_bandwidth,
        sqrt_coefficient,
    )


@alternative("data_parallel_all_reduce_time", all_reduce="in_network")
def in_network_data_parallel_all_reduce_time(
    bucket_message: Any,
    gradient_ranks: Any,
    data_parallel_ranks_per_node: Any,
    intra_node_latency: Any,
    gradient_node_bandwidth: Any,
    inter_node_latency: Any,
    gradient_rail_bandwidth: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: the switches add up.

    2 a_i + M (g + 1) / (g B_i) + 2 a_e + M / (g B_e)

    Parameters: bucket_message [B], gradient_ranks [1], data_parallel_ranks_per_node [1],
        intra_node_latency [s], gradient_node_bandwidth [B/s], inter_node_latency [s],
        gradient_rail_bandwidth [B/s]
    Returns: [s] time of one all-reduce
    Source: Graham et al. 2016 (SHARP), COMHPC; NCCL 2.30 src/transport/nvls.cc
    """
    return in_network_all_reduce_time(
        bucket_message,
        gradient_ranks / data_parallel_ranks_per_node,
        data_parallel_ranks_per_node,
        intra_node_latency,
        gradient_node_bandwidth,
        inter_node_latency,
        gradient_rail_bandwidth,
    )


@alternative("data_parallel_in_node_time", node_reduction=False)
def ring_data_parallel_in_node_time(
    bucket_message: Any,
    data_parallel_ranks_per_node: Any,
    intra_node_latency: Any,
    gradient_node_bandwidth: Any,
) -> Any:
    """Time of the part of an all-reduce inside the nodes: a reduce-scatter and an all-gather.

    2 (g - 1) (a_i + M / (g B_i))

    Parameters: bucket_message [B], data_parallel_ranks_per_node [1],
        intra_node_latency [s], gradient_node_bandwidth [B/s]
    Returns: [s] time inside the nodes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    return ring_all_reduce_time(
        bucket_message, data_parallel_ranks_per_node, intra_node_latency, gradient_node_bandwidth
    )


@alternative("data_parallel_in_node_time", node_reduction=True)
def nvls_data_parallel_in_node_time(
    bucket_message: Any,
    data_parallel_ranks_per_node: Any,
    intra_node_latency: Any,
    gradient_node_bandwidth: Any,
) -> Any:
    """Time of the part of an all-reduce inside the nodes: the cheaper of ring and NVLink switch.

    min(2 (g - 1) (a_i + M / (g B_i)), 2 a_i + M (g + 1) / (g B_i))

    Parameters: bucket_message [B], data_parallel_ranks_per_node [1],
        intra_node_latency [s], gradient_node_bandwidth [B/s]
    Returns: [s] time inside the nodes
    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time, src/transport/nvls.cc
    """
    return np.minimum(
        ring_all_reduce_time(
            bucket_message,
            data_parallel_ranks_per_node,
            intra_node_latency,
            gradient_node_bandwidth,
        ),
        nvls_all_reduce_time(
            bucket_message,
            data_parallel_ranks_per_node,
            intra_node_latency,
            gradient_node_bandwidth,
        ),
    )


@alternative("data_parallel_between_nodes_time", fabric_reduction=False)
def ring_data_parallel_between_nodes_time(
    bucket_message: Any,
    gradient_ranks: Any,
    data_parallel_ranks_per_node: Any,
    inter_node_latency: Any,
    gradient_rail_bandwidth: Any,
) -> Any:
    """Time of the part of an all-reduce between nodes: a ring per rail, of a share of the buffer.

    2 (k - 1) (a_e + M / (g k B_e))

    Parameters: bucket_message [B], gradient_ranks [1], data_parallel_ranks_per_node [1],
        inter_node_latency [s], gradient_rail_bandwidth [B/s]
    Returns: [s] time between nodes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    return ring_all_reduce_time(
        bucket_message / data_parallel_ranks_per_node,
        gradient_ranks / data_parallel_ranks_per_node,
        inter_node_latency,
        gradient_rail_bandwidth,
    )


@alternative("data_parallel_between_nodes_time", fabric_reduction=True)
def switch_data_parallel_between_nodes_time(
    bucket_message: Any,
    gradient_ranks: Any,
    data_parallel_ranks_per_node: Any,
    inter_node_latency: Any,
    gradient_rail_bandwidth: Any,
) -> Any:
    """Time of the part of an all-reduce between nodes: the cheaper of ring and fabric, per rail.

    min(2 (k - 1) (a_e + M / (g k B_e)), 2 a_e + M / (g B_e)); nothing in one node

    Parameters: bucket_message [B], gradient_ranks [1], data_parallel_ranks_per_node [1],
        inter_node_latency [s], gradient_rail_bandwidth [B/s]
    Returns: [s] time between nodes
    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time; Graham et al. 2016
        (SHARP), COMHPC
    """
    share = bucket_message / data_parallel_ranks_per_node
    nodes = gradient_ranks / data_parallel_ranks_per_node
    return np.minimum(
        ring_all_reduce_time(share, nodes, inter_node_latency, gradient_rail_bandwidth),
        switch_all_reduce_time(share, nodes, inter_node_latency, gradient_rail_bandwidth),
    )


@alternative("data_parallel_all_reduce_time", all_reduce="auto")
def auto_data_parallel_all_reduce_time(
    bucket_message: Any,
    gradient_ranks: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
    data_parallel_in_node_time: Any,
    data_parallel_between_nodes_time: Any,
) -> Any:
    """Time of one all-reduce in a data-parallel group: the cheapest that a library would offer.

    min(ring, double binary tree, level by level)

    Parameters: bucket_message [B], gradient_ranks [1], data_parallel_latency [s],
        data_parallel_bandwidth [B/s], data_parallel_in_node_time [s],
        data_parallel_between_nodes_time [s]
    Returns: [s] time of one all-reduce
    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time
    """
    return auto_all_reduce_time(
        bucket_message,
        gradient_ranks,
        data_parallel_latency,
        data_parallel_bandwidth,
        data_parallel_in_node_time + data_parallel_between_nodes_time,
    )
