"""All-reduces of activations in tensor-parallel groups."""

import numpy as np

from ...alternatives import alternative, same_as
from ...laws.collectives import (
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


@alternative("tensor_parallel_all_reduce_time", all_reduce="ring")
@same_as(ring_all_reduce_time)
def ring_tensor_parallel_all_reduce_time(
    activation_message, tensor_parallel, tensor_parallel_latency, tensor_parallel_bandwidth
):
    """2 (n - 1) (a + M / (n B)): a ring

    Source: Patarasuk & Yuan 2009, JPDC 69(2)
    """


@alternative("tensor_parallel_all_reduce_time", all_reduce="tree")
@same_as(tree_all_reduce_time)
def tree_tensor_parallel_all_reduce_time(
    activation_message, tensor_parallel, tensor_parallel_latency, tensor_parallel_bandwidth
):
    """2 ceil(log2 n) (a + M / B): one tree

    Source: Thakur et al. 2005, IJHPCA 19(1)
    """


@alternative("tensor_parallel_all_reduce_time", all_reduce="double_binary_tree")
@same_as(double_binary_tree_all_reduce_time)
def double_binary_tree_tensor_parallel_all_reduce_time(
    activation_message, tensor_parallel, tensor_parallel_latency, tensor_parallel_bandwidth
):
    """2 ceil(log2 n) a + 2 M / B: two trees

    Source: Sanders et al. 2009, Parallel Computing 35(12)
    """


@alternative("tensor_parallel_all_reduce_time", all_reduce="hierarchical")
def hierarchical_tensor_parallel_all_reduce_time(
    activation_message,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    intra_node_latency,
    intra_node_bandwidth,
    inter_node_latency,
    tensor_rail_bandwidth,
):
    """2 (g - 1) (a_i + M / (g B_i)) + 2 (k - 1) (a_e + M / (g k B_e)): inside, then between nodes

    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    return hierarchical_all_reduce_time(
        activation_message,
        tensor_parallel / tensor_parallel_ranks_per_node,
        tensor_parallel_ranks_per_node,
        intra_node_latency,
        intra_node_bandwidth,
        inter_node_latency,
        tensor_rail_bandwidth,
    )


@alternative("tensor_parallel_all_reduce_time", all_reduce="recursive_halving_doubling")
@same_as(recursive_halving_doubling_all_reduce_time)
def recursive_halving_doubling_tensor_parallel_all_reduce_time(
    activation_message, tensor_parallel, tensor_parallel_latency, tensor_parallel_bandwidth
):
    """2 log2(n) a + 2 (n - 1) / n M / B: recursive halving and doubling

    Source: Thakur et al. 2005, IJHPCA 19(1), section 4.5
    """


@alternative("tensor_parallel_all_reduce_time", all_reduce="fitted")
@same_as(fitted_all_reduce_time)
def fitted_tensor_parallel_all_reduce_time(
    activation_message,
    tensor_parallel,
    tensor_parallel_latency,
    tensor_parallel_bandwidth,
    sqrt_coefficient,
):
    """a + 2 (n - 1) / n M / B + g sqrt(M): the law fitted to measured curves

    Source: nccl-tests, doc/PERFORMANCE.md; see collectives.fitted_all_reduce_time
    """


@alternative("tensor_parallel_all_reduce_time", all_reduce="in_network")
def in_network_tensor_parallel_all_reduce_time(
    activation_message,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    intra_node_latency,
    intra_node_bandwidth,
    inter_node_latency,
    tensor_rail_bandwidth,
):
    """2 a_i + M (g + 1) / (g B_i) + 2 a_e + M / (g B_e): switches reduce

    Source: Graham et al. 2016 (SHARP), COMHPC; NCCL 2.30 src/transport/nvls.cc
    """
    return in_network_all_reduce_time(
        activation_message,
        tensor_parallel / tensor_parallel_ranks_per_node,
        tensor_parallel_ranks_per_node,
        intra_node_latency,
        intra_node_bandwidth,
        inter_node_latency,
        tensor_rail_bandwidth,
    )


@alternative("tensor_parallel_in_node_time", node_reduction=False)
@same_as(ring_all_reduce_time)
def ring_tensor_parallel_in_node_time(
    activation_message, tensor_parallel_ranks_per_node, intra_node_latency, intra_node_bandwidth
):
    """Time of an all-reduce's reduce-scatter and all-gather inside the nodes.

    2 (g - 1) (a_i + M / (g B_i))

    Returns: [s] time inside the nodes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3
    """


@alternative("tensor_parallel_in_node_time", node_reduction=True)
def nvls_tensor_parallel_in_node_time(
    activation_message, tensor_parallel_ranks_per_node, intra_node_latency, intra_node_bandwidth
):
    """min(2 (g - 1) (a_i + M / (g B_i)), 2 a_i + M (g + 1) / (g B_i)): ring or NVLink switch

    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time, src/transport/nvls.cc
    """
    return np.minimum(
        ring_all_reduce_time(
            activation_message,
            tensor_parallel_ranks_per_node,
            intra_node_latency,
            intra_node_bandwidth,
        ),
        nvls_all_reduce_time(
            activation_message,
            tensor_parallel_ranks_per_node,
            intra_node_latency,
            intra_node_bandwidth,
        ),
    )


@alternative("tensor_parallel_between_nodes_time", fabric_reduction=False)
def ring_tensor_parallel_between_nodes_time(
    activation_message,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    inter_node_latency,
    tensor_rail_bandwidth,
):
    """Time of an all-reduce's part between nodes: a ring per rail, each with a share of the buffer.

    2 (k - 1) (a_e + M / (g k B_e))

    Returns: [s] time between nodes
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    return ring_all_reduce_time(
        activation_message / tensor_parallel_ranks_per_node,
        tensor_parallel / tensor_parallel_ranks_per_node,
        inter_node_latency,
        tensor_rail_bandwidth,
    )


@alternative("tensor_parallel_between_nodes_time", fabric_reduction=True)
def switch_tensor_parallel_between_nodes_time(
    activation_message,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    inter_node_latency,
    tensor_rail_bandwidth,
):
    """ring or fabric per rail: min(2 (k - 1) (a_e + M / (g k B_e)), 2 a_e + M / (g B_e)); k = 1: 0

    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time; Graham et al. 2016
        (SHARP), COMHPC
    """
    share = activation_message / tensor_parallel_ranks_per_node
    nodes = tensor_parallel / tensor_parallel_ranks_per_node
    return np.minimum(
        ring_all_reduce_time(share, nodes, inter_node_latency, tensor_rail_bandwidth),
        switch_all_reduce_time(share, nodes, inter_node_latency, tensor_rail_bandwidth),
    )


@alternative("tensor_parallel_all_reduce_time", all_reduce="auto")
def auto_tensor_parallel_all_reduce_time(
    activation_message,
    tensor_parallel,
    tensor_parallel_latency,
    tensor_parallel_bandwidth,
    tensor_parallel_in_node_time,
    tensor_parallel_between_nodes_time,
):
    """Time of one all-reduce in a tensor-parallel group: the fastest that a library would choose.

    min(ring, double binary tree, level by level)

    Returns: [s] time of one all-reduce
    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time
    """
    return auto_all_reduce_time(
        activation_message,
        tensor_parallel,
        tensor_parallel_latency,
        tensor_parallel_bandwidth,
        tensor_parallel_in_node_time + tensor_parallel_between_nodes_time,
    )
