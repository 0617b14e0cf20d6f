"""Reduce-scatters and all-gathers of activations in tensor-parallel groups."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...laws.collectives import fitted_all_reduce_time, reduce_scatter_time
from ...laws.reduce_scatter import (
    auto_reduce_scatter_time,
    hierarchical_logarithmic_reduce_scatter_time,
    hierarchical_reduce_scatter_time,
    nvls_reduce_scatter_time,
)
from ...ops import where


@alternative("tensor_parallel_gather_time", all_reduce="ring")
@same_as(reduce_scatter_time)
def ring_tensor_parallel_gather_time(
    tensor_message, tensor_parallel, tensor_parallel_latency, tensor_parallel_bandwidth
):
    """(n - 1) (a + M / (n B)): a ring

    Source: Patarasuk & Yuan 2009, JPDC 69(2)
    """


@alternative(
    "tensor_parallel_gather_time",
    all_reduce=("tree", "double_binary_tree", "recursive_halving_doubling"),
)
def logarithmic_tensor_parallel_gather_time(
    tensor_message,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    intra_node_latency,
    intra_node_bandwidth,
    inter_node_latency,
    tensor_rail_bandwidth,
):
    """trees: ceil(log2 g) a_i + (g - 1) / g M / B_i + ceil(log2 k) a_e + (k - 1) / k M / (g B_e):
    near ranks first

    Source: Jeaugey 2025 (PAT), arXiv:2506.20252; Thakur et al. 2005, IJHPCA 19(1)
    """
    return hierarchical_logarithmic_reduce_scatter_time(
        tensor_message,
        tensor_parallel / tensor_parallel_ranks_per_node,
        tensor_parallel_ranks_per_node,
        intra_node_latency,
        intra_node_bandwidth,
        inter_node_latency,
        tensor_rail_bandwidth,
    )


@alternative("tensor_parallel_gather_time", all_reduce=("hierarchical", "in_network"))
def hierarchical_tensor_parallel_gather_time(
    tensor_message,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    intra_node_latency,
    intra_node_bandwidth,
    inter_node_latency,
    tensor_rail_bandwidth,
):
    """by levels: (g - 1) (a_i + M / (g B_i)) + (k - 1) (a_e + M / (g k B_e)); in-network reduction
    saves nothing for separate halves

    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    return hierarchical_reduce_scatter_time(
        tensor_message,
        tensor_parallel / tensor_parallel_ranks_per_node,
        tensor_parallel_ranks_per_node,
        intra_node_latency,
        intra_node_bandwidth,
        inter_node_latency,
        tensor_rail_bandwidth,
    )


@alternative("tensor_parallel_gather_time", all_reduce="fitted")
def fitted_tensor_parallel_gather_time(
    tensor_message,
    tensor_parallel,
    tensor_parallel_latency,
    tensor_parallel_bandwidth,
    sqrt_coefficient,
):
    """(a + 2 (n - 1) / n M / B + g sqrt(M)) / 2: half the fit

    Source: nccl-tests, doc/PERFORMANCE.md; see collectives.fitted_all_reduce_time
    """
    whole = fitted_all_reduce_time(
        tensor_message,
        tensor_parallel,
        tensor_parallel_latency,
        tensor_parallel_bandwidth,
        sqrt_coefficient,
    )
    return whole / 2


@alternative("tensor_parallel_switch_gather_time", node_reduction=False)
def no_tensor_parallel_switch_gather_time():
    """Time of one all-gather through a node's switch: none supports it.

    infinite

    Returns: [s] time of one all-gather
    Source: by definition
    """
    return np.inf


@alternative("tensor_parallel_switch_gather_time", node_reduction=True)
def nvls_tensor_parallel_switch_gather_time(
    tensor_message,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    intra_node_latency,
    intra_node_bandwidth,
):
    """Time of one all-gather through a node's switch; infinite for a group on several nodes.

    a_i + M / B_i: the switch saves hops, not bytes

    Source: NCCL 2.30 src/transport/nvls.cc
    """
    time = nvls_reduce_scatter_time(
        tensor_message, tensor_parallel, intra_node_latency, intra_node_bandwidth
    )
    return where(tensor_parallel_ranks_per_node < tensor_parallel, np.inf, time)


@alternative("tensor_parallel_gather_time", all_reduce="auto")
def auto_tensor_parallel_gather_time(
    tensor_message,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    tensor_parallel_bandwidth,
    intra_node_latency,
    inter_node_latency,
    tensor_parallel_switch_gather_time,
):
    """Time of one all-gather in a tensor-parallel group, or of one reduce-scatter: the fastest.

    NCCL's: min((k - 1) a_e + (n - k) a_i + (n - 1) / n M / B, the node's switch), logarithmic if a
    node holds one rank

    Returns: [s] time of one all-gather
    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time; Jeaugey 2025 (PAT),
        arXiv:2506.20252
    """
    rings = auto_reduce_scatter_time(
        tensor_message,
        tensor_parallel,
        tensor_parallel_ranks_per_node,
        tensor_parallel_bandwidth,
        intra_node_latency,
        inter_node_latency,
    )
    return np.minimum(rings, tensor_parallel_switch_gather_time)


row(
    "tensor_parallel_exchange_time",
    "tensor_parallel_all_reduce_time",
    source="Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3",
    sequence_parallel=False,
)


@alternative("tensor_parallel_exchange_time", sequence_parallel=True)
def sequence_tensor_parallel_exchange_time(tensor_parallel_gather_time):
    """Time to reduce one activation over a tensor-parallel group: reduce-scatter, all-gather.

    2 t

    Returns: [s] time of one exchange
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2
    """
    return 2 * tensor_parallel_gather_time
