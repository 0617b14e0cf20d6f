"""Hybrid sharding: reductions between sharding groups, over ranks with the same shard."""

from ...alternatives import alternative, family, row, same_as
from ...laws.topology import flat_bandwidth, flat_latency, group_ranks_per_node
from ..tensor import tensor_all_reduce as activations

row(
    "gradient_reductions",
    "num_microbatches",
    summary="Times a step that ZeRO-2 and 3 reduce the gradients within a group.",
    returns="[1] reductions of one step",
    source=("Rajbhandari et al. 2020 (ZeRO), section 7.1 (reduced as they become available)"),
    gradient_sync=("microbatch", "two_hop"),
)
row(
    "gradient_reductions",
    1.0,
    "they are added up unsharded until the last micro-batch",
    source=(
        "PyTorch fully_shard (set_requires_gradient_sync); Zhao et al. 2023 (PyTorch "
        "FSDP), arXiv:2304.11277, section 3.3.4 (accumulation without communication)"
    ),
    gradient_sync="step",
)


@alternative("gathers_per_reduction", reshard_after_forward=True)
def repeated_gathers_per_reduction(num_microbatches, gradient_reductions):
    """Weight gathers of ZeRO-3 per gradient reduction.

    2 m / s: for both passes of each micro-batch

    Returns: [1] gathers over reductions
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.2.2
    """
    return 2 * num_microbatches / gradient_reductions


row(
    "gathers_per_reduction",
    1.0,
    "they stay until gradients are reduced",
    source=("PyTorch fully_shard (reshard_after_forward=False; set_reshard_after_backward)"),
    reshard_after_forward=False,
)
row(
    "replica_reductions",
    1.0,
    summary=("Times a step that sharding groups reduce their gradients with each other."),
    returns="[1] reductions of one step",
    source="Rajbhandari et al. 2020 (ZeRO), section 7.1",
    zero_stage=(0, 1),
)
row(
    "replica_reductions",
    "shard_reductions",
    "as gradient_sync says",
    source="Zhang et al. 2022 (MiCS), arXiv:2205.00119, section 3.4",
    zero_stage=(2, 3),
)
row(
    "shard_reductions",
    "num_microbatches",
    summary=("Times a step that sharding groups reduce shards of gradients with each other."),
    returns="[1] reductions of one step",
    source=("Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.2 (hybrid sharding)"),
    gradient_sync="microbatch",
)
row(
    "shard_reductions",
    1.0,
    "at the boundary of gradient accumulation",
    source=(
        "Zhang et al. 2022 (MiCS), arXiv:2205.00119, section 3.4 (2-hop gradient "
        "synchronization); PyTorch fully_shard (set_requires_all_reduce)"
    ),
    gradient_sync=("two_hop", "step"),
)


def shard_replicas(site_gradient_ranks, gradient_ranks):
    """Sharding groups of one site that hold the same weights.

    d / d_s

    Returns: [1] groups
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.2 (W / F)
    """
    return site_gradient_ranks / gradient_ranks


@alternative("replica_parameters", stage_split=False)
def even_replica_parameters(
    parameters, tensor_parallel, pipeline_parallel, gradient_ranks, parameter_copies
):
    """Parameters of a shard whose gradients a rank reduces with other sharding groups.

    N / (t p n), also for routed experts: as many in a smaller group; dualpipe counts both stages

    Returns: [1] parameters
    Range: identical stages: exact for one stage, a lower bound for several
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.2
    """
    return parameter_copies * parameters / (tensor_parallel * pipeline_parallel * gradient_ranks)


@alternative("replica_parameters", stage_split="whole_layers")
def staged_replica_parameters(
    largest_stage_parameters, tensor_parallel, gradient_ranks, parameter_copies
):
    """(N_stage + N_routed) / (t n) of the largest stage

    Range: upper bound of a step's wait, same as `reduced_parameters`
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.2; Narayanan et al. 2021
        (SC21), section 3.3
    """
    return parameter_copies * largest_stage_parameters / (tensor_parallel * gradient_ranks)


def replica_message(
    replica_parameters, gradient_wire_bytes, gradient_compression, gradient_buckets
):
    """Size of one bucket of the gradient shard that a rank reduces with other sharding groups.

    N_shard x bytes / compression / buckets

    Returns: [B] message
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.2
    """
    return replica_parameters * gradient_wire_bytes / gradient_compression / gradient_buckets


@alternative("replica_stride", rank_order="tp-cp-ep-dp-pp")
def inner_replica_stride(tensor_parallel, context_parallel, data_parallel_shard):
    """Rank stride between holders of the same shard: sharding groups lie inside their replicas.

    t c d_s

    Returns: [1] GPUs
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (parallel_dims.py: dp_replicate
        outside dp_shard)
    """
    return tensor_parallel * context_parallel * data_parallel_shard


@alternative("replica_stride", rank_order="tp-cp-ep-pp-dp")
def outer_replica_stride(tensor_parallel, context_parallel, data_parallel_shard, pipeline_parallel):
    """t c p d_s

    Source: Megatron-LM, --use-tp-pp-dp-mapping (megatron/core/parallel_state.py)
    """
    return tensor_parallel * context_parallel * data_parallel_shard * pipeline_parallel


@same_as(group_ranks_per_node)
def replica_ranks_per_node(scale_up_gpus, replica_stride, shard_replicas):
    """Ranks of a node that hold the same shard.

    clip(gpus per node / stride, 1, replicas)

    Returns: [1] ranks on one node, or in one scale-up domain
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (parallel_dims.py: dp_replicate
        outside dp_shard)
    """


@same_as(flat_latency)
def replica_latency(shard_replicas, replica_ranks_per_node, intra_node_latency, inter_node_latency):
    """Hop latency between sharding groups in a flat algorithm.

    intra-node in one node, else inter-node

    Returns: [s] latency of one hop
    Source: Hockney 1994, Parallel Computing 20(3); a ring steps at its slowest link
    """


@same_as(flat_bandwidth)
def replica_bandwidth(
    shard_replicas, replica_ranks_per_node, intra_node_bandwidth, replica_rail_bandwidth
):
    """Bandwidth of one rank between sharding groups in a flat algorithm.

    intra-node in one node, else min(intra-node, ranks on the node x rail)

    Returns: [B/s] bandwidth per rank
    Source: NCCL 2.30, channels over several NICs
    """


family(
    {
        "tensor_parallel_all_reduce_time": "replica_all_reduce_time",
        "tensor_parallel_in_node_time": "replica_in_node_time",
        "tensor_parallel_between_nodes_time": "replica_between_nodes_time",
        "in a tensor-parallel group": "between sharding groups",
        "activation_message": "replica_message",
        "tensor_parallel": "shard_replicas",
        "tensor_parallel_ranks_per_node": "replica_ranks_per_node",
        "tensor_parallel_latency": "replica_latency",
        "tensor_parallel_bandwidth": "replica_bandwidth",
        "tensor_rail_bandwidth": "replica_rail_bandwidth",
    },
    activations.ring_tensor_parallel_all_reduce_time,
    activations.tree_tensor_parallel_all_reduce_time,
    activations.double_binary_tree_tensor_parallel_all_reduce_time,
    activations.hierarchical_tensor_parallel_all_reduce_time,
    activations.recursive_halving_doubling_tensor_parallel_all_reduce_time,
    activations.fitted_tensor_parallel_all_reduce_time,
    activations.in_network_tensor_parallel_all_reduce_time,
    activations.ring_tensor_parallel_in_node_time,
    activations.nvls_tensor_parallel_in_node_time,
    activations.ring_tensor_parallel_between_nodes_time,
    activations.switch_tensor_parallel_between_nodes_time,
    activations.auto_tensor_parallel_all_reduce_time,
)


@alternative("replica_reduce_time", hybrid_sharding=True, off=0.0)
def hybrid_replica_reduce_time(replica_reductions, gradient_buckets, replica_all_reduce_time):
    """Time per step of all-reduces between sharding groups.

    reductions x buckets x t

    Returns: [s] time of one step
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.2
    """
    return replica_reductions * gradient_buckets * replica_all_reduce_time
