"""Traffic of all kinds of parallelism on a torus network."""

import numpy as np

from ...alternatives import alternative, family, row, same_as
from ...laws.collectives import point_to_point_time
from ...laws.torus import (
    neighbour_links,
    torus_all_to_all_time,
    torus_bandwidth,
    torus_hops,
    torus_load,
    torus_reduce_scatter_time,
    torus_ways,
)
from ...ops import where


def torus_z(scale_up_gpus, torus_x, torus_y):
    """Chips along the third dimension of a torus; 1 if it has two.

    chips of the node, or of the scale-up domain of several hosts, / (x y)

    Returns: [1] chips
    Source: by definition of a box of chips
    """
    return scale_up_gpus / (torus_x * torus_y)


def torus_link_bandwidth(intra_node_bandwidth, torus_dimensions):
    """Bandwidth of one torus link, per direction.

    B / (2 dimensions): two links per chip and dimension

    Returns: [B/s] bandwidth of one link
    Source: Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2 (six links of a chip)
    """
    return intra_node_bandwidth / (2 * torus_dimensions)


@same_as(torus_ways)
def torus_x_ways(torus_x, torus_y, torus_z, torus_ring_multiple, torus_dimensions):
    """Directions in which a chip sends along x: 2 on a ring, 1 at the end of a line.

    2 if x is a multiple of r, and in three dimensions y and z are, too; else 1

    Returns: [1] directions
    Source: Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2; Austin et al. 2025 (How to
        Scale Your Model), part 2
    """


@same_as(torus_ways)
def torus_y_ways(torus_y, torus_x, torus_z, torus_ring_multiple, torus_dimensions):
    """Directions in which a chip sends along y: 2 on a ring, 1 at the end of a line.

    2 if y is a multiple of r, and in three dimensions x and z are, too; else 1

    Returns: [1] directions
    Source: Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2; Austin et al. 2025 (How to
        Scale Your Model), part 2
    """


@same_as(torus_ways)
def torus_z_ways(torus_z, torus_x, torus_y, torus_ring_multiple, torus_dimensions):
    """Directions in which a chip sends along z: 2 on a ring, 1 at the end of a line.

    2 if z is a multiple of r, and in three dimensions x and y are, too; else 1

    Returns: [1] directions
    Source: Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2; Austin et al. 2025 (How to
        Scale Your Model), part 2
    """


row(
    "torus_twist",
    0.0,
    summary="Whether a torus is twisted: 1 or 0.",
    returns="[1] 1 where it is",
    twisted_torus=False,
)
row("torus_twist", 1.0, twisted_torus=True)


def tensor_torus_bandwidth(
    tensor_parallel_ranks_per_node,
    torus_x,
    torus_y,
    torus_z,
    torus_x_ways,
    torus_y_ways,
    torus_z_ways,
    torus_link_bandwidth,
):
    """Torus bandwidth of the ranks of a tensor-parallel group.

    all links of the dimensions that the group lies along

    Returns: [B/s] bandwidth per rank
    Source: Austin et al. 2025 (How to Scale Your Model), part 3
    """
    return torus_bandwidth(
        tensor_parallel_ranks_per_node,
        1.0,
        torus_x,
        torus_y,
        torus_z,
        torus_x_ways,
        torus_y_ways,
        torus_z_ways,
        torus_link_bandwidth,
    )


def tensor_torus_hops(
    tensor_parallel_ranks_per_node,
    torus_x,
    torus_y,
    torus_z,
    torus_x_ways,
    torus_y_ways,
    torus_z_ways,
):
    """Links between the ranks of a tensor-parallel group that are farthest apart in the torus.

    half of each ring, all of each line

    Returns: [1] links
    Source: Austin et al. 2025 (How to Scale Your Model), part 3
    """
    return torus_hops(
        tensor_parallel_ranks_per_node,
        1.0,
        torus_x,
        torus_y,
        torus_z,
        torus_x_ways,
        torus_y_ways,
        torus_z_ways,
    )


@same_as(torus_bandwidth)
def data_torus_bandwidth(
    data_parallel_ranks_per_node,
    tensor_parallel,
    torus_x,
    torus_y,
    torus_z,
    torus_x_ways,
    torus_y_ways,
    torus_z_ways,
    torus_link_bandwidth,
):
    """Torus bandwidth of the ranks of a data-parallel group.

    all links of the dimensions that the group lies along

    Returns: [B/s] bandwidth per rank
    Source: Austin et al. 2025 (How to Scale Your Model), part 3
    """


@same_as(torus_hops)
def data_torus_hops(
    data_parallel_ranks_per_node,
    tensor_parallel,
    torus_x,
    torus_y,
    torus_z,
    torus_x_ways,
    torus_y_ways,
    torus_z_ways,
):
    """Links between the ranks of a data-parallel group that are farthest apart in the torus.

    half of each ring, all of each line

    Returns: [1] links
    Source: Austin et al. 2025 (How to Scale Your Model), part 3
    """


family(
    {
        "data_torus_bandwidth": "replica_torus_bandwidth",
        "data_torus_hops": "replica_torus_hops",
        "of a data-parallel group": "that hold the same shard",
        "that the group lies along": "that they lie along",
        "one rank that hold": "one rank among those that hold",
        "data_parallel_ranks_per_node": "replica_ranks_per_node",
        "tensor_parallel": "replica_stride",
    },
    data_torus_bandwidth,
    data_torus_hops,
)
family(
    {
        "data_torus_bandwidth": "context_torus_bandwidth",
        "data_torus_hops": "context_torus_hops",
        "data-parallel": "context-parallel",
        "data_parallel_ranks_per_node": "context_ranks_per_node",
    },
    data_torus_bandwidth,
    data_torus_hops,
)


family(
    {
        "data_torus_hops": "head_torus_hops",
        "of a data-parallel group": "that share out heads",
        "that are farthest": "and are farthest",
        "data_parallel_ranks_per_node": "head_sharing_ranks_per_node",
    },
    data_torus_hops,
)


@same_as(torus_load)
def head_torus_load(
    head_sharing_ranks_per_node,
    tensor_parallel,
    torus_x,
    torus_y,
    torus_z,
    torus_x_ways,
    torus_y_ways,
    torus_z_ways,
    torus_twist,
):
    """Bytes through the busiest link per byte that ranks exchange to share out heads.

    d s / 8 on the longest ring, d s / 4 on a line

    Returns: [1] bytes over bytes
    Range: a twist helps only groups that fill the torus
    Source: Austin et al. 2025 (How to Scale Your Model), part 3 (AllToAll); Jouppi et al. 2023 (TPU
        v4), arXiv:2304.01433, section 2 (twisted)
    """


family(
    {
        "data_torus_hops": "expert_torus_hops",
        "a data-parallel": "an expert-parallel",
        "head_torus_load": "expert_torus_load",
        "that ranks exchange to share out heads": "that a rank exchanges with its experts' group",
        "data_parallel_ranks_per_node": "expert_ranks_per_node",
        "head_sharing_ranks_per_node": "expert_ranks_per_node",
        "tensor_parallel": "expert_tensor_parallel",
    },
    data_torus_hops,
    head_torus_load,
)


def expert_gradient_torus_bandwidth(
    expert_gradient_ranks_per_node,
    tensor_parallel,
    expert_parallel,
    torus_x,
    torus_y,
    torus_z,
    torus_x_ways,
    torus_y_ways,
    torus_z_ways,
    torus_link_bandwidth,
):
    """Torus bandwidth of one rank of a group that reduces gradients of experts.

    all links of the dimensions that the group lies along: its neighbours are t e chips apart

    Returns: [B/s] bandwidth per rank
    Source: Austin et al. 2025 (How to Scale Your Model), part 3
    """
    return torus_bandwidth(
        expert_gradient_ranks_per_node,
        tensor_parallel * expert_parallel,
        torus_x,
        torus_y,
        torus_z,
        torus_x_ways,
        torus_y_ways,
        torus_z_ways,
        torus_link_bandwidth,
    )


@alternative("gradient_torus_bandwidth", mixture_of_experts=True, off="data_torus_bandwidth")
def mixed_gradient_torus_bandwidth(
    data_torus_bandwidth,
    expert_gradient_torus_bandwidth,
    data_parallel_ranks_per_node,
    data_node_share,
    reduced_parameters,
    reduced_expert_parameters,
):
    """Torus bandwidth of one rank for gradient reduction.

    1 / (dense share / B + share of routed experts / B_e) of the bytes sent: neighbours of expert
    groups are e times as far apart

    Returns: [B/s] bandwidth per rank
    Range: no extra latency for experts
    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); Austin et al. 2025 (How to Scale Your Model), part 3
    """
    alone = 1 - 1 / data_parallel_ranks_per_node
    dense = 1 - reduced_expert_parameters / reduced_parameters
    several = alone > 0
    routed = np.maximum(data_node_share / where(several, alone, 1.0) - dense, 0.0)
    seconds = dense / data_torus_bandwidth + routed / expert_gradient_torus_bandwidth
    return 1 / where(several, seconds, 1 / data_torus_bandwidth)


@alternative("tensor_parallel_gather_time", all_reduce="torus")
@same_as(torus_reduce_scatter_time)
def torus_tensor_parallel_gather_time(
    tensor_message,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    tensor_torus_hops,
    intra_node_latency,
    tensor_torus_bandwidth,
    inter_node_latency,
    tensor_rail_bandwidth,
):
    """on a torus, all dimensions at once: h a + (1 - 1 / g) M / B + (k - 1) (a_e + M / (g k B_e))

    Source: Austin et al. 2025 (How to Scale Your Model), part 3
    """


@alternative("tensor_parallel_all_reduce_time", all_reduce="torus")
def torus_tensor_parallel_all_reduce_time(
    activation_message,
    tensor_parallel,
    tensor_parallel_ranks_per_node,
    tensor_torus_hops,
    intra_node_latency,
    tensor_torus_bandwidth,
    inter_node_latency,
    tensor_rail_bandwidth,
):
    """on a torus, two halves: 2 (h a + (1 - 1 / g) M / B + (k - 1) (a_e + M / (g k B_e)))

    Source: Austin et al. 2025 (How to Scale Your Model), part 3
    """
    return 2 * torus_reduce_scatter_time(
        activation_message,
        tensor_parallel,
        tensor_parallel_ranks_per_node,
        tensor_torus_hops,
        intra_node_latency,
        tensor_torus_bandwidth,
        inter_node_latency,
        tensor_rail_bandwidth,
    )


family(
    {
        "tensor_parallel_all_reduce_time": "data_parallel_all_reduce_time",
        "tensor-parallel": "data-parallel",
        "activation_message": "bucket_message",
        "tensor_parallel": "gradient_ranks",
        "tensor_parallel_ranks_per_node": "data_parallel_ranks_per_node",
        "tensor_torus_hops": "data_torus_hops",
        "tensor_torus_bandwidth": "gradient_torus_bandwidth",
        "tensor_rail_bandwidth": "gradient_rail_bandwidth",
    },
    torus_tensor_parallel_all_reduce_time,
)
family(
    {
        "tensor_parallel_all_reduce_time": "replica_all_reduce_time",
        "in a tensor-parallel group": "between sharding groups",
        "activation_message": "replica_message",
        "tensor_parallel": "shard_replicas",
        "tensor_parallel_ranks_per_node": "replica_ranks_per_node",
        "tensor_torus_hops": "replica_torus_hops",
        "tensor_torus_bandwidth": "replica_torus_bandwidth",
        "tensor_rail_bandwidth": "replica_rail_bandwidth",
    },
    torus_tensor_parallel_all_reduce_time,
)


@alternative("gradient_reduce_scatter_time", all_reduce="torus")
def torus_gradient_reduce_scatter_time(
    gradient_buckets,
    bucket_message,
    gradient_ranks,
    data_parallel_ranks_per_node,
    data_torus_hops,
    intra_node_latency,
    gradient_torus_bandwidth,
    inter_node_latency,
    gradient_rail_bandwidth,
):
    """on a torus: buckets x (h a + (1 - 1 / g) M / B + (k - 1) (a_e + M / (g k B_e)))

    Source: Austin et al. 2025 (How to Scale Your Model), part 3
    """
    return gradient_buckets * torus_reduce_scatter_time(
        bucket_message,
        gradient_ranks,
        data_parallel_ranks_per_node,
        data_torus_hops,
        intra_node_latency,
        gradient_torus_bandwidth,
        inter_node_latency,
        gradient_rail_bandwidth,
    )


family(
    {
        "gradient_reduce_scatter_time": "weight_all_gather_time",
        "bucket_message": "gathered_message",
        "reduce the gradients and leave each data-parallel rank its share": (
            "gather the weights from the data-parallel ranks that hold them"
        ),
    },
    torus_gradient_reduce_scatter_time,
)


@alternative("context_send_time", all_reduce="torus")
def torus_context_send_time(
    context_message,
    context_parallel,
    context_ranks_per_node,
    tensor_parallel,
    torus_x,
    torus_y,
    intra_node_latency,
    torus_link_bandwidth,
    inter_node_latency,
    context_rail_bandwidth,
):
    """h a + h M / b on a torus, where h groups share each link; a_e + M / B_e between tori

    Range: one ring direction; a group on a line is a folded ring, whose far half is two links apart
    """
    links = neighbour_links(tensor_parallel, torus_x, torus_y)
    inside = context_ranks_per_node >= context_parallel
    latency = where(inside, links * intra_node_latency, inter_node_latency)
    bandwidth = where(inside, torus_link_bandwidth / links, context_rail_bandwidth)
    return point_to_point_time(context_message, latency, bandwidth)


@alternative("context_gather_step_time", all_reduce="torus")
def torus_context_gather_step_time(
    context_message,
    context_parallel,
    context_ranks_per_node,
    context_torus_hops,
    intra_node_latency,
    context_torus_bandwidth,
    inter_node_latency,
    context_rail_bandwidth,
):
    """(h a + (1 - 1 / g) c M / B + (k - 1) (a_e + c M / (g k B_e))) / (c - 1)

    Source: Austin et al. 2025 (How to Scale Your Model), part 3
    """
    whole = torus_reduce_scatter_time(
        context_parallel * context_message,
        context_parallel,
        context_ranks_per_node,
        context_torus_hops,
        intra_node_latency,
        context_torus_bandwidth,
        inter_node_latency,
        context_rail_bandwidth,
    )
    several = context_parallel > 1
    return whole / where(several, context_parallel - 1, 1.0)


@alternative("head_exchange_time", all_reduce="torus")
def torus_head_exchange_time(
    head_message,
    head_sharing_ranks,
    head_sharing_ranks_per_node,
    head_torus_hops,
    head_torus_load,
    intra_node_latency,
    torus_link_bandwidth,
    inter_node_latency,
    context_rail_bandwidth,
):
    """four all-to-alls on a torus, which together move M

    Source: Austin et al. 2025 (How to Scale Your Model), part 3 (AllToAll); Jacobs et al. 2023
        (DeepSpeed-Ulysses), arXiv:2309.14509, section 3.2
    """
    group = (head_sharing_ranks, head_sharing_ranks_per_node, head_torus_hops, head_torus_load)
    links = (intra_node_latency, torus_link_bandwidth, inter_node_latency, context_rail_bandwidth)
    one = torus_all_to_all_time(head_message, *group, *links)
    return one + 3 * torus_all_to_all_time(0.0, *group, *links)


@alternative("head_ring_send_time", all_reduce="torus")
def torus_head_ring_send_time(
    head_ring_message,
    context_parallel,
    context_ranks_per_node,
    tensor_parallel,
    head_sharing_ranks,
    torus_x,
    torus_y,
    intra_node_latency,
    torus_link_bandwidth,
    inter_node_latency,
    context_rail_bandwidth,
):
    """h a + h M / b on a torus, where h groups share each link; a_e + M / B_e between tori

    Range: one ring direction; a group on a line is a folded ring, whose far half is two links apart
    Source: Hockney 1994; Fang & Zhao 2024 (USP), arXiv:2405.07719, section 3.3
    """
    links = neighbour_links(tensor_parallel * head_sharing_ranks, torus_x, torus_y)
    inside = context_ranks_per_node >= context_parallel
    latency = where(inside, links * intra_node_latency, inter_node_latency)
    bandwidth = where(inside, torus_link_bandwidth / links, context_rail_bandwidth)
    return point_to_point_time(head_ring_message, latency, bandwidth)


@alternative("pipeline_send_time", all_reduce="torus")
def torus_pipeline_send_time(
    pipeline_message,
    pipeline_parallel,
    pipeline_ranks_per_node,
    n_gpus,
    torus_x,
    torus_y,
    intra_node_latency,
    torus_link_bandwidth,
    inter_node_latency,
    pipeline_rail_bandwidth,
):
    """Time to send one activation or gradient to the next stage.

    h a + h M / b on a torus, where h groups share each link; a_e + M / B_e between tori
    """
    links = neighbour_links(n_gpus / pipeline_parallel, torus_x, torus_y)
    inside = pipeline_ranks_per_node >= pipeline_parallel
    latency = where(inside, links * intra_node_latency, inter_node_latency)
    bandwidth = where(inside, torus_link_bandwidth / links, pipeline_rail_bandwidth)
    return point_to_point_time(pipeline_message, latency, bandwidth)


@alternative("expert_all_to_all_time", all_reduce="torus")
@same_as(torus_all_to_all_time)
def torus_expert_all_to_all_time(
    expert_message,
    expert_parallel,
    expert_ranks_per_node,
    expert_torus_hops,
    expert_torus_load,
    intra_node_latency,
    torus_link_bandwidth,
    inter_node_latency,
    expert_rail_bandwidth,
):
    """Time of one all-to-all in an expert-parallel group.

    h a + (n - g) a_e + max(d s M g / (8 n b) on the longest ring, twice it on a line, M (n - g) /
    (n B_e))

    Returns: [s] time of one all-to-all
    Range: a twist helps only groups that fill the torus
    Source: Austin et al. 2025 (How to Scale Your Model), part 3 (AllToAll); Jouppi et al. 2023 (TPU
        v4), arXiv:2304.01433, section 2 (twisted)
    """
