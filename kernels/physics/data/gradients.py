"""Traffic of data parallelism: gradients and sharded weights."""

import numpy as np

from ...alternatives import alternative, family, row, same_as
from ...laws.stages import most_stage_parameters
from ...laws.topology import flat_bandwidth, flat_latency, group_ranks_per_node
from ...ops import where
from ..pipeline.stage_layers import largest_stage_parameters
from ..precision.formats import lora_updated_weight_bytes


def expert_gradient_ranks(gradient_ranks, tensor_parallel, expert_tensor_parallel, expert_parallel):
    """Ranks that hold the same routed experts and reduce their gradients.

    max(1, d c t / (t_e e))

    Returns: [1] ranks
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (experts over data ranks)
    """
    folded = tensor_parallel / expert_tensor_parallel
    return np.maximum(gradient_ranks * folded / expert_parallel, 1.0)


@alternative("expert_gradient_stride", rank_order="tp-cp-ep-dp-pp")
def inner_expert_gradient_stride(expert_tensor_parallel, expert_parallel):
    """GPUs between ranks that hold the same routed experts.

    t_e e

    Returns: [1] GPUs
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (tensor, context, expert, data)
    """
    return expert_tensor_parallel * expert_parallel


@alternative("expert_gradient_stride", rank_order="tp-cp-ep-pp-dp")
def outer_expert_gradient_stride(expert_tensor_parallel, expert_parallel, pipeline_parallel):
    """t_e e p

    Source: Megatron-LM, megatron/core/parallel_state.py (the generator of experts' ranks)
    """
    return expert_tensor_parallel * expert_parallel * pipeline_parallel


@alternative("expert_gradient_ranks_per_node", scale_up_domain=False)
@same_as(group_ranks_per_node)
def node_expert_gradient_ranks_per_node(
    gpus_per_node, expert_gradient_stride, expert_gradient_ranks
):
    """Ranks on each node that hold the same routed experts.

    clip(gpus per node / stride, 1, ranks)

    Returns: [1] ranks on one node
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (tensor, context, expert, data)
    """


@same_as(flat_bandwidth)
def expert_gradient_bandwidth(
    expert_gradient_ranks, expert_gradient_ranks_per_node, intra_node_bandwidth, data_rail_bandwidth
):
    """Bandwidth of one rank of a group that reduces the gradients of routed experts.

    intra-node in one node, else min(intra-node, ranks on the node x rail)

    Returns: [B/s] bandwidth per rank
    Source: NCCL 2.30, channels over several NICs
    """


@alternative("routed_reduction_share", mixture_of_experts=True, off=0.0)
def ring_routed_reduction_share(
    expert_parallel, expert_tensor_parallel, tensor_parallel, gradient_ranks
):
    """Factor from routed experts' parameters to the gradient-reduction traffic of one rank.

    (n - f) / (n - 1) / f, f = e t_e / t: a ring of n / f ranks over a ring of all n = d c

    Returns: [1] share of a stage's routed parameters
    Source: Patarasuk & Yuan 2009, JPDC 69(2), theorem 1, for rings of n / e and of n ranks
    """
    several = gradient_ranks > 1
    folded = expert_parallel * (expert_tensor_parallel / tensor_parallel)
    others = np.maximum(gradient_ranks - folded, 0.0)
    share = where(several, others / where(several, gradient_ranks - 1, 1.0), 0.0)
    return share / folded


def mean_reduced_expert_parameters(
    routed_parameters,
    routed_reduction_share,
    tensor_parallel,
    pipeline_parallel,
    parameter_copies,
):
    """Routed experts' parameters of one rank, weighted by reduction traffic, on the mean stage.

    N_routed / (t p) x share; dualpipe counts both stages

    Returns: [1] parameters
    Source: Patarasuk & Yuan 2009, JPDC 69(2), theorem 1, for rings of n / e and of n ranks
    """
    stage = routed_parameters / (tensor_parallel * pipeline_parallel)
    return parameter_copies * stage * routed_reduction_share


row(
    "reduced_expert_parameters",
    "mean_reduced_expert_parameters",
    source=("Patarasuk & Yuan 2009, JPDC 69(2), theorem 1, for rings of n / e and of n ranks"),
    holds="stages alike: right for one stage, a bound from below for several",
    stage_split=False,
)


def reduced_layer_parameters(routed_layer_parameters, routed_reduction_share):
    """Parameters of a layer's routed experts, weighted by gradient-reduction traffic.

    N_routed of a layer x share

    Returns: [1] parameters
    Source: by definition of the share
    """
    return routed_layer_parameters * routed_reduction_share


@alternative("reduced_expert_parameters", stage_split="whole_layers")
def staged_reduced_expert_parameters(
    pipeline_parallel,
    held_layers,
    first_stage_held_layers,
    middle_stage_layers,
    last_stage_held_layers,
    leading_held_dense_layers,
    reduced_layer_parameters,
    tensor_parallel,
    parameter_copies,
):
    """Routed experts' parameters of one rank, weighted by gradient-reduction traffic.

    N_routed of the stage with the most x share / t

    Returns: [1] parameters
    Source: Patarasuk & Yuan 2009, JPDC 69(2), theorem 1, for rings of n / e and of n ranks
    """
    split = (held_layers, first_stage_held_layers, middle_stage_layers, last_stage_held_layers)
    layers = (leading_held_dense_layers, 0.0, 0.0, reduced_layer_parameters)
    largest = most_stage_parameters(pipeline_parallel, *split, *layers, 0.0, 0.0)
    return parameter_copies * largest / tensor_parallel


row(
    "gradient_ranks",
    "site_gradient_ranks",
    "all of a site",
    source=('Megatron-LM rank order, megatron/core/parallel_state.py (the "dp-cp" group)'),
    hybrid_sharding=False,
)


@alternative("gradient_ranks", hybrid_sharding=True)
def shard_gradient_ranks(data_parallel_shard, context_parallel, parameter_copies):
    """Ranks of one group that reduces gradients and shards states.

    d_s c: replicas of a sharding group x context-parallel ranks; doubled in dualpipe

    Returns: [1] ranks
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511, section 2.1.1 (HSDP);
        Megatron-LM, megatron/core/parallel_state.py (num_distributed_optimizer_instances)
    """
    return data_parallel_shard * context_parallel * parameter_copies


@alternative("data_parallel_ranks_per_node", rank_order="tp-cp-ep-dp-pp")
@same_as(group_ranks_per_node)
def inner_data_parallel_ranks_per_node(scale_up_gpus, tensor_parallel, gradient_ranks):
    """Ranks of one data-parallel group on each node.

    clip(gpus per node / t, 1, group size)

    Returns: [1] ranks on one node, or in one scale-up domain
    Source: Megatron-LM rank order (Narayanan et al. 2021, section 3)
    """


@alternative("data_parallel_ranks_per_node", rank_order="tp-cp-ep-pp-dp")
def outer_data_parallel_ranks_per_node(
    scale_up_gpus, tensor_parallel, context_parallel, pipeline_parallel, gradient_ranks
):
    """clip(gpus per node / t, 1, c) x clip(gpus per node / (t c p), 1, n / c): pipeline stages lie
    between replicas

    Range: strides that divide the node; else the mean over nodes. In dualpipe a lower bound: both
        stages with the same weights may be on one node
    Source: Megatron-LM, --use-tp-pp-dp-mapping (megatron/core/parallel_state.py)
    """
    near = group_ranks_per_node(scale_up_gpus, tensor_parallel, context_parallel)
    stride = tensor_parallel * context_parallel * pipeline_parallel
    return near * group_ranks_per_node(scale_up_gpus, stride, gradient_ranks / context_parallel)


row(
    "data_spread",
    "tensor_parallel",
    source="Megatron-LM rank order (Narayanan et al. 2021, section 3)",
    rank_order="tp-cp-ep-dp-pp",
)


@alternative("data_spread", rank_order="tp-cp-ep-pp-dp")
def outer_data_spread(tensor_parallel, context_parallel, pipeline_parallel, gradient_ranks):
    """GPUs per rank over the extent of a data-parallel group.

    t p; t for a group within one replica

    Returns: [1] GPUs
    Range: an upper bound with dualpipe, by up to a factor of 2
    Source: Megatron-LM, --use-tp-pp-dp-mapping (megatron/core/parallel_state.py)
    """
    return tensor_parallel * where(gradient_ranks > context_parallel, pipeline_parallel, 1.0)


@same_as(flat_latency)
def data_parallel_latency(
    gradient_ranks, data_parallel_ranks_per_node, intra_node_latency, inter_node_latency
):
    """Hop latency of a data-parallel group in a flat algorithm.

    intra-node in one node, else inter-node

    Returns: [s] latency of one hop
    Source: Hockney 1994, Parallel Computing 20(3); a ring steps at its slowest link
    """


@alternative("mean_reduced_parameters", mixture_of_experts=False)
def dense_mean_reduced_parameters(local_parameters, parameter_copies):
    """Parameters of one rank whose gradients its data-parallel group reduces, on the mean stage.

    N / (t p); dualpipe counts both stages

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), section 3.3
    """
    return parameter_copies * local_parameters


@alternative("mean_reduced_parameters", mixture_of_experts=True)
def expert_mean_reduced_parameters(
    parameters,
    routed_parameters,
    tensor_parallel,
    pipeline_parallel,
    mean_reduced_expert_parameters,
    parameter_copies,
):
    """(N - N_routed) / (t p) + routed experts, weighted by the traffic of their smaller groups

    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1
    """
    dense = (parameters - routed_parameters) / (tensor_parallel * pipeline_parallel)
    return parameter_copies * dense + mean_reduced_expert_parameters


row(
    "reduced_parameters",
    "mean_reduced_parameters",
    source="Narayanan et al. 2021 (SC21), section 3.3",
    holds="stages alike: right for one stage, a bound from below for several",
    stage_split=False,
)


family(
    {
        "largest_stage_parameters": "reduced_stage_parameters",
        "routed_layer_parameters": "reduced_layer_parameters",
        "of the largest pipeline stage": "of the largest stage by what adding up gradients moves",
    },
    largest_stage_parameters,
)


@alternative("reduced_parameters", stage_split="whole_layers")
def staged_reduced_parameters(reduced_stage_parameters, tensor_parallel, parameter_copies):
    """Parameters of one rank whose gradients its data-parallel group reduces, on the largest stage.

    max over the first, second and last stage of (N_stage + N_routed x share) / t, the share being
    the traffic of the routed experts' smaller groups

    Returns: [1] parameters
    Range: upper bound of a step's wait: the last stage's traffic may end after the first stage's
        last pass
    Source: Narayanan et al. 2021 (SC21), section 3.3; Rajbhandari et al. 2022 (DeepSpeed-MoE),
        arXiv:2201.05596, section 5.1
    """
    return parameter_copies * reduced_stage_parameters / tensor_parallel


row("gradient_wire_bytes", "gradient_bytes_per_element", lora=False)
family(
    {
        "updated_weight_bytes": "gradient_wire_bytes",
        "bytes_per_element": "gradient_bytes_per_element",
        "trained weights": "gradients on the wire",
    },
    lora_updated_weight_bytes,
)


def gradient_message(reduced_parameters, gradient_wire_bytes, gradient_compression):
    """Gradient bytes that one rank contributes to its data-parallel group's reduction.

    N / (t p) x bytes / compression

    Returns: [B] message
    Source: Narayanan et al. 2021 (SC21), section 3.3; Lin et al. 2018, arXiv:1712.01887 (sparse
        gradients)
    Example:
        >>> gradient_message(1e12 / (8 * 16), 2, 1) / 1e9
        15.625
    """
    return reduced_parameters * gradient_wire_bytes / gradient_compression


row("frozen_wire_bytes", 0.0, "each rank holds all", zero_stage=(0, 1, 2))
row(
    "frozen_wire_bytes",
    "frozen_weight_bytes",
    summary="Bytes on the wire of a frozen weight that data-parallel ranks gather.",
    returns="[B] bytes of one parameter",
    source="PyTorch fully_shard (frozen parameters are sharded and gathered as others)",
    zero_stage=3,
)


@alternative("weight_wire_bytes", lora=True, off="weight_bytes_on_wire")
def lora_weight_wire_bytes(frozen_wire_bytes, trained_share, weight_bytes_on_wire):
    """Bytes of weights that data-parallel ranks gather for each parameter of the model.

    frozen + share of adapters x trained

    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 7; Hu et al. 2022 (LoRA),
        arXiv:2106.09685, section 4.2
    """
    return frozen_wire_bytes + trained_share * weight_bytes_on_wire


def weight_message(reduced_parameters, weight_wire_bytes):
    """Weight bytes that one rank's data-parallel group gathers.

    N / (t p) x bytes

    Returns: [B] message
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 7
    """
    return reduced_parameters * weight_wire_bytes


@alternative("exchanged_message", zero_stage=0)
def reduced_exchanged_message(gradient_message):
    """2 M: both halves of the gradient all-reduce"""
    return 2 * gradient_message


@alternative("exchanged_message", zero_stage=(1, 2, 3))
def sharded_exchanged_message(gradient_message, weight_message):
    """Bytes of one exchange in a data-parallel group, each half of an all-reduce counted.

    gradients reduce-scattered + weights gathered

    Returns: [B] bytes
    Range: ZeRO-1, or one micro-batch; ZeRO-2 and 3 exchange at every micro-batch: a lower bound
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.1
    """
    return gradient_message + weight_message


row(
    "data_parallel_bytes",
    "exchanged_message",
    "2 M, or gradients there and weights back",
    source="Rajbhandari et al. 2020 (ZeRO), section 7",
    zero_stage=(0, 1),
)


@alternative("data_parallel_bytes", zero_stage=2)
def sharded_gradient_data_parallel_bytes(gradient_reductions, gradient_message, weight_message):
    """Data-parallel bytes of one step, each half of an all-reduce counted.

    m M_gradients + M_weights, m reductions

    Returns: [B] bytes
    Source: Rajbhandari et al. 2020 (ZeRO), section 7
    """
    return gradient_reductions * gradient_message + weight_message


@alternative("data_parallel_bytes", zero_stage=3)
def sharded_weight_data_parallel_bytes(
    gradient_reductions, gathers_per_reduction, gradient_message, weight_message
):
    """m (M_gradients + g M_weights), m reductions, g gathers for each: 2 unless weights are kept"""
    return gradient_reductions * (gradient_message + gathers_per_reduction * weight_message)


def fsdp_units(layers, pipeline_parallel):
    """FSDP units of one stage, each gathered as a whole by ZeRO-3: its layers, unless stated.

    l / p

    Returns: [1] units
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.1 (units; one for each
        transformer block in section 5)
    """
    return layers / pipeline_parallel


@alternative("gradient_buckets", zero_stage=(0, 1, 2))
def whole_gradient_buckets(gradient_message, bucket_bytes):
    """Buckets in which gradients are reduced and sharded weights gathered.

    max(1, ceil(M / bucket))

    Returns: [1] buckets
    Source: Li et al. 2020 (PyTorch DDP), VLDB 13(12), section 3.2.2
    Example:
        >>> float(whole_gradient_buckets(7e8, 25e6)), float(whole_gradient_buckets(7e8, np.inf))
        (28.0, 1.0)
    """
    return np.maximum(1.0, np.ceil(gradient_message / bucket_bytes))


@alternative("gradient_buckets", zero_stage=3)
def unit_gradient_buckets(gradient_message, bucket_bytes, fsdp_units):
    """U max(1, ceil(M / (U bucket))): no bucket spans two units

    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.1
    """
    unit = gradient_message / fsdp_units
    return fsdp_units * np.maximum(1.0, np.ceil(unit / bucket_bytes))


def bucket_message(gradient_message, gradient_buckets):
    """Size of one gradient bucket.

    M / buckets

    Returns: [B] message
    Source: Li et al. 2020 (PyTorch DDP), VLDB 13(12), section 3.2.2
    """
    return gradient_message / gradient_buckets


def gathered_message(weight_message, gradient_buckets):
    """Weight bytes of one all-gather.

    M / buckets

    Returns: [B] message
    Source: Megatron-LM, --overlap-param-gather (weights in the buckets of their gradients)
    """
    return weight_message / gradient_buckets


@alternative("data_parallel_time", zero_stage=0)
def replicated_data_parallel_time(
    gradient_buckets, data_parallel_all_reduce_time, replica_reduce_time
):
    """Data-parallel traffic time of one step: gradient all-reduces.

    buckets x t + reduction between sharding groups; once per step for any number of micro-batches
    """
    return gradient_buckets * data_parallel_all_reduce_time + replica_reduce_time


@alternative("data_parallel_time", zero_stage=1)
def sharded_optimizer_data_parallel_time(
    gradient_reduce_scatter_time, replica_reduce_time, weight_all_gather_time
):
    """Data-parallel traffic time of one step: gradients before a sharded update, weights after it.

    reduce-scatter + reduction between sharding groups + all-gather, each with its own message size

    Returns: [s] data-parallel traffic of one step
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.1
    """
    return gradient_reduce_scatter_time + replica_reduce_time + weight_all_gather_time


@alternative("data_parallel_time", zero_stage=2)
def sharded_gradient_data_parallel_time(
    gradient_reductions, gradient_reduce_scatter_time, replica_reduce_time, weight_all_gather_time
):
    """Data-parallel traffic time of one step when gradients are sharded as they are computed.

    reductions x reduce-scatter + reduction between sharding groups + all-gather
    """
    reduced = gradient_reductions * gradient_reduce_scatter_time + replica_reduce_time
    return reduced + weight_all_gather_time


@alternative("data_parallel_time", zero_stage=3)
def sharded_weight_data_parallel_time(
    gradient_reductions,
    gathers_per_reduction,
    gradient_reduce_scatter_time,
    replica_reduce_time,
    weight_all_gather_time,
):
    """Data-parallel traffic time of one step when weights are gathered just before use.

    reductions x (reduce-scatter + gathers for each x all-gather) + reduction between sharding
    groups; m reductions and 2 gathers, unless stated

    Source: Rajbhandari et al. 2020 (ZeRO), section 7.2.2
    """
    once = gradient_reduce_scatter_time + gathers_per_reduction * weight_all_gather_time
    return gradient_reductions * once + replica_reduce_time
