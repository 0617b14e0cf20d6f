"""Reduce-scatters of gradients and all-gathers of weights."""

from ...alternatives import alternative, family
from ...laws.collectives import fitted_all_reduce_time, reduce_scatter_time
from ...laws.reduce_scatter import (
    auto_reduce_scatter_time,
    hierarchical_logarithmic_reduce_scatter_time,
    hierarchical_reduce_scatter_time,
)


@alternative("gradient_reduce_scatter_time", all_reduce="ring")
def ring_gradient_reduce_scatter_time(
    gradient_buckets, bucket_message, gradient_ranks, data_parallel_latency, data_parallel_bandwidth
):
    """a ring: buckets x (n - 1) (a + M / (n B))

    Source: Patarasuk & Yuan 2009, JPDC 69(2); Li et al. 2020 (PyTorch DDP), section 3.2.2
    """
    return gradient_buckets * reduce_scatter_time(
        bucket_message, gradient_ranks, data_parallel_latency, data_parallel_bandwidth
    )


@alternative(
    "gradient_reduce_scatter_time",
    all_reduce=("tree", "double_binary_tree", "recursive_halving_doubling"),
)
def logarithmic_gradient_reduce_scatter_time(
    gradient_buckets,
    bucket_message,
    gradient_ranks,
    data_parallel_ranks_per_node,
    intra_node_latency,
    gradient_node_bandwidth,
    inter_node_latency,
    gradient_rail_bandwidth,
):
    """trees, near ranks first: buckets x (ceil(log2 g) a_i + (g - 1) / g M / B_i
    + ceil(log2 k) a_e + (k - 1) / k M / (g B_e))

    Source: Jeaugey 2025 (PAT), arXiv:2506.20252; Thakur et al. 2005, IJHPCA 19(1)
    """
    return gradient_buckets * hierarchical_logarithmic_reduce_scatter_time(
        bucket_message,
        gradient_ranks / data_parallel_ranks_per_node,
        data_parallel_ranks_per_node,
        intra_node_latency,
        gradient_node_bandwidth,
        inter_node_latency,
        gradient_rail_bandwidth,
    )


@alternative("gradient_reduce_scatter_time", all_reduce=("hierarchical", "in_network"))
def hierarchical_gradient_reduce_scatter_time(
    gradient_buckets,
    bucket_message,
    gradient_ranks,
    data_parallel_ranks_per_node,
    intra_node_latency,
    gradient_node_bandwidth,
    inter_node_latency,
    gradient_rail_bandwidth,
):
    """by levels: buckets x ((g - 1) (a_i + M / (g B_i)) + (k - 1) (a_e + M / (g k B_e)));
    in-network reduction saves nothing for separate halves

    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    return gradient_buckets * hierarchical_reduce_scatter_time(
        bucket_message,
        gradient_ranks / data_parallel_ranks_per_node,
        data_parallel_ranks_per_node,
        intra_node_latency,
        gradient_node_bandwidth,
        inter_node_latency,
        gradient_rail_bandwidth,
    )


@alternative("gradient_reduce_scatter_time", all_reduce="fitted")
def fitted_gradient_reduce_scatter_time(
    gradient_buckets,
    bucket_message,
    gradient_ranks,
    data_parallel_latency,
    data_parallel_bandwidth,
    sqrt_coefficient,
):
    """half the fitted law: buckets x (a + 2 (n - 1) / n M / B + g sqrt(M)) / 2

    Source: nccl-tests, doc/PERFORMANCE.md; see collectives.fitted_all_reduce_time
    """
    return (
        gradient_buckets
        * fitted_all_reduce_time(
            bucket_message,
            gradient_ranks,
            data_parallel_latency,
            data_parallel_bandwidth,
            sqrt_coefficient,
        )
        / 2
    )


@alternative("gradient_reduce_scatter_time", all_reduce="auto")
def auto_gradient_reduce_scatter_time(
    gradient_buckets,
    bucket_message,
    gradient_ranks,
    data_parallel_ranks_per_node,
    data_parallel_bandwidth,
    intra_node_latency,
    inter_node_latency,
):
    """Time to reduce the gradients and leave each data-parallel rank its share.

    NCCL's: buckets x ((k - 1) a_e + (n - k) a_i + (n - 1) / n M / B), rings through k nodes;
    logarithmic if a node holds one rank

    Returns: [s] time of all buckets
    Range: an upper bound, by n - 2 hops per bucket, for one node with in-switch reduction
    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time; Jeaugey 2025 (PAT),
        arXiv:2506.20252
    """
    return gradient_buckets * auto_reduce_scatter_time(
        bucket_message,
        gradient_ranks,
        data_parallel_ranks_per_node,
        data_parallel_bandwidth,
        intra_node_latency,
        inter_node_latency,
    )


family(
    {
        "gradient_reduce_scatter_time": "weight_all_gather_time",
        "bucket_message": "gathered_message",
        "reduce the gradients and leave each data-parallel rank its share": (
            "gather the weights from the data-parallel ranks that hold them"
        ),
    },
    ring_gradient_reduce_scatter_time,
    logarithmic_gradient_reduce_scatter_time,
    hierarchical_gradient_reduce_scatter_time,
    fitted_gradient_reduce_scatter_time,
    auto_gradient_reduce_scatter_time,
)
