"""Traffic of data parallelism: gradients, and the weights that ZeRO shards."""

from typing import Any

import numpy as np

from ..alternatives import alternative, same_as
from ..collectives import ring_tree_crossover_bytes
from ..stages import most_stage_parameters
from ..topology import flat_latency, group_ranks_per_node


@alternative("gradient_ranks", multi_site=False)
def one_site_gradient_ranks(
    data_parallel: Any, context_parallel: Any, parameter_copies: Any
) -> Any:
    """Ranks that hold the same weights and add up their gradients.

    d c: replicas, and the ranks that share each sequence; twice as many in dualpipe

    Parameters: data_parallel [1], context_parallel [1], parameter_copies [1]
    Returns: [1] ranks
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (the "dp-cp" group)
    """
    return data_parallel * context_parallel * parameter_copies


@alternative("data_parallel_ranks_per_node", scale_up_domain=False)
@same_as(group_ranks_per_node)
def node_data_parallel_ranks_per_node(*operands: Any) -> Any:
    """Ranks of one data-parallel group on each node.

    clip(gpus per node / t, 1, group size)

    Parameters: gpus_per_node [1], tensor_parallel [1], gradient_ranks [1]
    Returns: [1] ranks on one node
    Source: Megatron-LM rank order (Narayanan et al. 2021, section 3)
    """


@same_as(flat_latency)
def data_parallel_latency(*operands: Any) -> Any:
    """Latency of one hop of a data-parallel group in a flat algorithm.

    intra-node in one node, else inter-node

    Parameters: gradient_ranks [1], data_parallel_ranks_per_node [1], intra_node_latency [s],
        inter_node_latency [s]
    Returns: [s] latency of one hop
    Source: Hockney 1994, Parallel Computing 20(3); a ring steps at its slowest link
    """


@alternative("mean_reduced_parameters", mixture_of_experts=False)
def dense_mean_reduced_parameters(local_parameters: Any, parameter_copies: Any) -> Any:
    """Parameters of one rank whose gradients its data-parallel group adds up, on the mean stage.

    N / (t p), of both stages in dualpipe

    Parameters: local_parameters [1], parameter_copies [1]
    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), section 3.3
    """
    return parameter_copies * local_parameters


@alternative("mean_reduced_parameters", mixture_of_experts=True)
def expert_mean_reduced_parameters(
    parameters: Any,
    routed_parameters: Any,
    tensor_parallel: Any,
    pipeline_parallel: Any,
    mean_reduced_expert_parameters: Any,
    parameter_copies: Any,
) -> Any:
    """Parameters of one rank whose gradients its data-parallel group adds up, on the mean stage.

    (N - N_routed) / (t p) + routed experts by what their smaller groups move

    Parameters: parameters [1], routed_parameters [1], tensor_parallel [1], pipeline_parallel [1],
        mean_reduced_expert_parameters [1], parameter_copies [1]
    Returns: [1] parameters
    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1
    """
    dense = (parameters - routed_parameters) / (tensor_parallel * pipeline_parallel)
    return parameter_copies * dense + mean_reduced_expert_parameters


@alternative("reduced_parameters", stage_split="alike")
def even_reduced_parameters(mean_reduced_parameters: Any) -> Any:
    """Parameters of one rank whose gradients its data-parallel group adds up, on the largest stage.

    those of the mean stage

    Parameters: mean_reduced_parameters [1]
    Returns: [1] parameters
    Range: stages alike: right for one stage, a bound from below for several
    Source: Narayanan et al. 2021 (SC21), section 3.3
    """
    return 1.0 * mean_reduced_parameters


@alternative("reduced_parameters", stage_split="whole_layers")
def staged_reduced_parameters(
    pipeline_parallel: Any,
    held_layers: Any,
    first_stage_layers: Any,
    middle_stage_layers: Any,
    last_stage_held_layers: Any,
    leading_dense_layers: Any,
    common_layer_parameters: Any,
    dense_layer_parameters: Any,
    expert_layer_parameters: Any,
    routed_layer_parameters: Any,
    routed_reduction_share: Any,
    embedding_tables: Any,
    first_stage_tables: Any,
    last_stage_tables: Any,
    end_table_parameters: Any,
    tensor_parallel: Any,
    parameter_copies: Any,
) -> Any:
    """Parameters of one rank whose gradients its data-parallel group adds up, on the largest stage.

    max over the first, second and last stage of (N_stage + N_routed x share) / t, the share by what
    smaller groups of routed experts move

    Parameters: pipeline_parallel [1], held_layers [1], first_stage_layers [1],
        middle_stage_layers [1], last_stage_held_layers [1], leading_dense_layers [1],
        common_layer_parameters [1],
        dense_layer_parameters [1], expert_layer_parameters [1], routed_layer_parameters [1],
        routed_reduction_share [1], embedding_tables [1], first_stage_tables [1],
        last_stage_tables [1], end_table_parameters [1], tensor_parallel [1], parameter_copies [1]
    Returns: [1] parameters
    Range: a bound from above for the time that a step waits: the last stage's traffic may end
        behind the first stage's last pass
    Source: Narayanan et al. 2021 (SC21), section 3.3; Rajbhandari et al. 2022 (DeepSpeed-MoE),
        arXiv:2201.05596, section 5.1
    """
    largest = most_stage_parameters(
        pipeline_parallel,
        held_layers,
        first_stage_layers,
        middle_stage_layers,
        last_stage_held_layers,
        leading_dense_layers,
        common_layer_parameters,
        dense_layer_parameters,
        expert_layer_parameters + routed_layer_parameters * routed_reduction_share,
        embedding_tables,
        first_stage_tables,
        last_stage_tables,
        end_table_parameters,
    )
    return parameter_copies * largest / tensor_parallel


def gradient_message(
    reduced_parameters: Any, gradient_bytes_per_element: Any, gradient_compression: Any
) -> Any:
    """Bytes of the gradients that one rank sends into its data-parallel group.

    N / (t p) x bytes / compression

    Parameters: reduced_parameters [1], gradient_bytes_per_element [B], gradient_compression [1]
    Returns: [B] message
    Source: Narayanan et al. 2021 (SC21), section 3.3; Lin et al. 2018, arXiv:1712.01887 (sparse
        gradients)
    Example:
        >>> gradient_message(1e12 / (8 * 16), 2, 1) / 1e9
        15.625
    """
    return reduced_parameters * gradient_bytes_per_element / gradient_compression


def weight_message(reduced_parameters: Any, weight_bytes_on_wire: Any) -> Any:
    """Bytes of the weights that one rank's data-parallel group gathers.

    N / (t p) x bytes

    Parameters: reduced_parameters [1], weight_bytes_on_wire [B]
    Returns: [B] message
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 7
    """
    return reduced_parameters * weight_bytes_on_wire


@alternative("exchanged_message", zero_stage=0)
def reduced_exchanged_message(gradient_message: Any) -> Any:
    """Bytes that go through a data-parallel group once a step, each half of an all-reduce counted.

    2 M: gradients there and back

    Parameters: gradient_message [B]
    Returns: [B] bytes
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.1
    """
    return 2 * gradient_message


@alternative("exchanged_message", zero_stage=(1, 2, 3))
def sharded_exchanged_message(gradient_message: Any, weight_message: Any) -> Any:
    """Bytes that go through a data-parallel group once a step, each half of an all-reduce counted.

    gradients there, weights back

    Parameters: gradient_message [B], weight_message [B]
    Returns: [B] bytes
    Range: ZeRO-1, or one micro-batch; ZeRO-2 and 3 exchange at every one: a lower bound
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.1
    """
    return gradient_message + weight_message


@alternative("data_parallel_bytes", zero_stage=(0, 1))
def whole_step_data_parallel_bytes(exchanged_message: Any) -> Any:
    """Bytes that go through a data-parallel group in one step, each half of an all-reduce counted.

    2 M, or gradients there and weights back

    Parameters: exchanged_message [B]
    Returns: [B] bytes
    Source: Rajbhandari et al. 2020 (ZeRO), section 7
    """
    return 1.0 * exchanged_message


@alternative("data_parallel_bytes", zero_stage=2)
def sharded_gradient_data_parallel_bytes(
    num_microbatches: Any, gradient_message: Any, weight_message: Any
) -> Any:
    """Bytes that go through a data-parallel group in one step, each half of an all-reduce counted.

    m M_gradients + M_weights

    Parameters: num_microbatches [1], gradient_message [B], weight_message [B]
    Returns: [B] bytes
    Source: Rajbhandari et al. 2020 (ZeRO), section 7
    """
    return num_microbatches * gradient_message + weight_message


@alternative("data_parallel_bytes", zero_stage=3)
def sharded_weight_data_parallel_bytes(
    num_microbatches: Any, gradient_message: Any, weight_message: Any
) -> Any:
    """Bytes that go through a data-parallel group in one step, each half of an all-reduce counted.

    m (M_gradients + 2 M_weights)

    Parameters: num_microbatches [1], gradient_message [B], weight_message [B]
    Returns: [B] bytes
    Source: Rajbhandari et al. 2020 (ZeRO), section 7
    """
    return num_microbatches * (gradient_message + 2 * weight_message)


def fsdp_units(layers: Any, pipeline_parallel: Any) -> Any:
    """Units whose weights ZeRO-3 gathers at a time, on one stage: layers, unless stated.

    l / p

    Parameters: layers [1], pipeline_parallel [1]
    Returns: [1] units
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.1 (units; one for each
        transformer block in section 5)
    """
    return layers / pipeline_parallel


@alternative("gradient_buckets", zero_stage=(0, 1, 2))
def whole_gradient_buckets(gradient_message: Any, bucket_bytes: Any) -> Any:
    """Pieces in which gradients are sent, and sharded weights gathered.

    max(1, ceil(M / bucket))

    Parameters: gradient_message [B], bucket_bytes [B]
    Returns: [1] buckets
    Source: Li et al. 2020 (PyTorch DDP), VLDB 13(12), section 3.2.2
    Example:
        >>> float(whole_gradient_buckets(7e8, 25e6)), float(whole_gradient_buckets(7e8, np.inf))
        (28.0, 1.0)
    """
    return np.maximum(1.0, np.ceil(gradient_message / bucket_bytes))


@alternative("gradient_buckets", zero_stage=3)
def unit_gradient_buckets(gradient_message: Any, bucket_bytes: Any, fsdp_units: Any) -> Any:
    """Pieces in which gradients are sent, and sharded weights gathered: each unit in its own.

    U max(1, ceil(M / (U bucket)))

    Parameters: gradient_message [B], bucket_bytes [B], fsdp_units [1]
    Returns: [1] buckets
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.1
    """
    unit = gradient_message / fsdp_units
    return fsdp_units * np.maximum(1.0, np.ceil(unit / bucket_bytes))


def bucket_message(gradient_message: Any, gradient_buckets: Any) -> Any:
    """Bytes of one bucket of gradients.

    M / buckets

    Parameters: gradient_message [B], gradient_buckets [1]
    Returns: [B] message
    Source: Li et al. 2020 (PyTorch DDP), VLDB 13(12), section 3.2.2
    """
    return gradient_message / gradient_buckets


def gathered_message(weight_message: Any, gradient_buckets: Any) -> Any:
    """Bytes of the weights gathered at a time.

    M / buckets

    Parameters: weight_message [B], gradient_buckets [1]
    Returns: [B] message
    Source: Megatron-LM, --overlap-param-gather (weights in the buckets of their gradients)
    """
    return weight_message / gradient_buckets


@same_as(ring_tree_crossover_bytes)
def ring_tree_crossover(*operands: Any) -> Any:
    """Gradient message below which two binary trees beat the ring.

    n (n - 1 - ceil(log2 n)) a B

    Parameters: gradient_ranks [1], data_parallel_latency [s], data_parallel_bandwidth [B/s]
    Returns: [B] size at which both take the same time
    Source: Patarasuk & Yuan 2009, theorem 1, set equal to Sanders et al. 2009, section 4
    """


@alternative("data_parallel_time", zero_stage=0)
def replicated_data_parallel_time(gradient_buckets: Any, data_parallel_all_reduce_time: Any) -> Any:
    """Time of one step's gradient traffic: all-reduces.

    buckets x t, once per step whatever the number of micro-batches

    Parameters: gradient_buckets [1], data_parallel_all_reduce_time [s]
    Returns: [s] data-parallel traffic of one step
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.1
    """
    return gradient_buckets * data_parallel_all_reduce_time


@alternative("data_parallel_time", zero_stage=1)
def sharded_optimizer_data_parallel_time(
    gradient_reduce_scatter_time: Any, weight_all_gather_time: Any
) -> Any:
    """Time of one step's traffic around a sharded update: gradients before it, weights after it.

    reduce-scatter + all-gather, each with the bytes of what it moves

    Parameters: gradient_reduce_scatter_time [s], weight_all_gather_time [s]
    Returns: [s] data-parallel traffic of one step
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.1
    """
    return gradient_reduce_scatter_time + weight_all_gather_time


@alternative("data_parallel_time", zero_stage=2)
def sharded_gradient_data_parallel_time(
    num_microbatches: Any,
    gradient_reduce_scatter_time: Any,
    weight_all_gather_time: Any,
) -> Any:
    """Time of one step's traffic when gradients are sharded as they appear.

    m x reduce-scatter + all-gather

    Parameters: num_microbatches [1], gradient_reduce_scatter_time [s], weight_all_gather_time [s]
    Returns: [s] data-parallel traffic of one step
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.1
    """
    return num_microbatches * gradient_reduce_scatter_time + weight_all_gather_time


@alternative("data_parallel_time", zero_stage=3)
def sharded_weight_data_parallel_time(
    num_microbatches: Any,
    gradient_reduce_scatter_time: Any,
    weight_all_gather_time: Any,
) -> Any:
    """Time of one step's traffic when weights are gathered where they are used.

    m x (2 all-gathers + reduce-scatter)

    Parameters: num_microbatches [1], gradient_reduce_scatter_time [s], weight_all_gather_time [s]
    Returns: [s] data-parallel traffic of one step
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.2.2
    """
    return num_microbatches * (gradient_reduce_scatter_time + 2 * weight_all_gather_time)


@alternative("exposed_data_parallel_time", zero_stage=0)
def replicated_exposed_data_parallel_time(
    data_parallel_time: Any, data_parallel_overlap: Any, gradient_window: Any
) -> Any:
    """Time that a step waits for data-parallel traffic.

    max(0, traffic - overlap x backward window)

    Parameters: data_parallel_time [s], data_parallel_overlap [1], gradient_window [s]
    Returns: [s] exposed traffic of one step
    Source: Li et al. 2020 (PyTorch DDP), VLDB 13(12), section 3.2.3
    """
    return np.maximum(0.0, data_parallel_time - data_parallel_overlap * gradient_window)


@alternative("exposed_data_parallel_time", zero_stage=(1, 2))
def sharded_exposed_data_parallel_time(
    data_parallel_time: Any,
    weight_all_gather_time: Any,
    data_parallel_overlap: Any,
    gradient_window: Any,
    weight_window: Any,
) -> Any:
    """Time that a step waits for data-parallel traffic: gradients backward, weights forward.

    max(0, reduce-scatters - overlap x backward window)
    + max(0, all-gather - overlap x forward window)

    Parameters: data_parallel_time [s], weight_all_gather_time [s],
        data_parallel_overlap [1], gradient_window [s], weight_window [s]
    Returns: [s] exposed traffic of one step
    Source: Li et al. 2020 (PyTorch DDP), VLDB 13(12), section 3.2.3; Megatron-LM,
        --overlap-grad-reduce and --overlap-param-gather
    """
    before = data_parallel_time - weight_all_gather_time - data_parallel_overlap * gradient_window
    after = weight_all_gather_time - data_parallel_overlap * weight_window
    return np.maximum(0.0, before) + np.maximum(0.0, after)


@alternative("exposed_data_parallel_time", zero_stage=3)
def unit_exposed_data_parallel_time(
    num_microbatches: Any,
    fsdp_units: Any,
    weight_all_gather_time: Any,
    gradient_reduce_scatter_time: Any,
    data_parallel_overlap: Any,
    fsdp_forward_window: Any,
    fsdp_backward_window: Any,
) -> Any:
    """Time that a step waits for data-parallel traffic, unit by unit, one gathered ahead.

    m (A + U [A - o f]+ + [A - o b]+ + (U - 2) [A + R - o b]+ + [R - o b]+ + R): gathers A and
    reduce-scatters R of each of U units beside its passes f and b. The first gather and the last
    reduce-scatter have nothing beside them; backward, all passes but the first and the last
    stand beside both a gather and a reduce-scatter

    Parameters: num_microbatches [1], fsdp_units [1], weight_all_gather_time [s],
        gradient_reduce_scatter_time [s], data_parallel_overlap [1],
        fsdp_forward_window [s], fsdp_backward_window [s]
    Returns: [s] exposed traffic of one step
    Range: units alike; those of a model with a large embedding wait longer for it
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, sections 3.3.1 and 3.3.2
    """
    passes = num_microbatches * fsdp_units
    gather = weight_all_gather_time / fsdp_units
    scatter = gradient_reduce_scatter_time / fsdp_units
    forward = data_parallel_overlap * fsdp_forward_window / passes
    backward = data_parallel_overlap * fsdp_backward_window / passes
    ends = np.minimum(fsdp_units, 1.0) * (gather + scatter)
    early = fsdp_units * np.maximum(0.0, gather - forward)
    edges = np.maximum(0.0, gather - backward) + np.maximum(0.0, scatter - backward)
    late = np.maximum(0.0, np.minimum(fsdp_units - 1, 1.0)) * edges
    both = np.maximum(0.0, fsdp_units - 2) * np.maximum(0.0, gather + scatter - backward)
    return num_microbatches * (ends + early + late + both)
