"""Traffic between pipeline stages."""

from typing import Any

from ..alternatives import alternative
from ..collectives import all_gather_time, point_to_point_time
from ..ops import where
from ..topology import group_ranks_per_node


@alternative("stage_chunks", pipeline_schedule=("gpipe", "zb_h1"))
def single_stage_chunks() -> Any:
    """Pieces of the model on each pipeline stage.

    1: these schedules are not interleaved

    Parameters: none
    Returns: [1] pieces
    Source: Huang et al. 2019 (GPipe), section 2.3; Qi et al. 2023 (zero bubble), arXiv:2401.10241
    """
    return 1.0


@alternative("stage_chunks", pipeline_schedule=("1f1b", "interleaved"))
def interleaved_stage_chunks(virtual_stages: Any) -> Any:
    """Pieces of the model on each pipeline stage.

    v

    Parameters: virtual_stages [1]
    Returns: [1] pieces
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    return 1.0 * virtual_stages


@alternative("stage_chunks", pipeline_schedule="zb_v")
def folded_stage_chunks() -> Any:
    """Pieces of the model on each pipeline stage: the pipeline runs down and back up.

    2

    Parameters: none
    Returns: [1] pieces
    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 6
    """
    return 2.0


@alternative("pipeline_message", scatter_gather=False)
def whole_pipeline_message(activation_message: Any, residual_ranks: Any) -> Any:
    """Bytes that one rank sends over a stage boundary for one micro-batch, in one direction.

    (s / c) b h e, shared over tensor ranks with sequence parallelism

    Parameters: activation_message [B], residual_ranks [1]
    Returns: [B] message
    Source: Narayanan et al. 2021 (SC21), section 3.2; Korthikanti et al. 2022, arXiv:2205.05198,
        section 4.2.2
    """
    return activation_message / residual_ranks


@alternative("pipeline_message", scatter_gather=True)
def scattered_pipeline_message(activation_message: Any, tensor_parallel: Any) -> Any:
    """Bytes that one rank sends over a stage boundary for one micro-batch, in one direction.

    (s / c) b h e / t: each tensor rank sends its part of what all of them hold

    Parameters: activation_message [B], tensor_parallel [1]
    Returns: [B] message
    Source: Narayanan et al. 2021 (SC21), section 4.1
    """
    return activation_message / tensor_parallel


@alternative("pipeline_gather_time", scatter_gather=False)
def no_pipeline_gather_time() -> Any:
    """Time to put a received activation together again: it arrives as it is used.

    0

    Parameters: none
    Returns: [s] time of one receipt
    Source: Narayanan et al. 2021 (SC21), section 4.1
    """
    return 0.0


@alternative("pipeline_gather_time", scatter_gather=True)
def scattered_pipeline_gather_time(
    activation_message: Any,
    residual_ranks: Any,
    tensor_parallel: Any,
    tensor_parallel_latency: Any,
    tensor_parallel_bandwidth: Any,
) -> Any:
    """Time to put a received activation together again from its parts on the tensor ranks.

    all-gather of the message over t; none with sequence parallelism, where parts are used as such

    Parameters: activation_message [B], residual_ranks [1], tensor_parallel [1],
        tensor_parallel_latency [s], tensor_parallel_bandwidth [B/s]
    Returns: [s] time of one receipt
    Source: Narayanan et al. 2021 (SC21), section 4.1
    """
    ranks = tensor_parallel / residual_ranks
    return all_gather_time(
        activation_message, ranks, tensor_parallel_latency, tensor_parallel_bandwidth
    )


def pipeline_ranks_per_node(
    gpus_per_node: Any,
    pipeline_parallel: Any,
    tensor_parallel: Any,
    context_parallel: Any,
    data_parallel: Any,
) -> Any:
    """Stages of one pipeline on each node: stages are the outermost groups.

    clip(gpus per node / (t c d), 1, p)

    Parameters: gpus_per_node [1], pipeline_parallel [1], tensor_parallel [1],
        context_parallel [1], data_parallel [1]
    Returns: [1] stages on one node
    Source: Megatron-LM rank order (Narayanan et al. 2021, section 3)
    """
    stride = tensor_parallel * context_parallel * data_parallel
    return group_ranks_per_node(gpus_per_node, stride, pipeline_parallel)


def pipeline_send_time(
    pipeline_message: Any,
    pipeline_parallel: Any,
    pipeline_ranks_per_node: Any,
    intra_node_latency: Any,
    intra_node_bandwidth: Any,
    inter_node_latency: Any,
    pipeline_rail_bandwidth: Any,
) -> Any:
    """Time to send one activation or gradient to the next stage; each rank has its own rail.

    a + M / B

    Parameters: pipeline_message [B], pipeline_parallel [1], pipeline_ranks_per_node [1],
        intra_node_latency [s], intra_node_bandwidth [B/s], inter_node_latency [s],
        pipeline_rail_bandwidth [B/s]
    Returns: [s] time of one send
    Source: Hockney 1994; Narayanan et al. 2021 (SC21), section 3.2
    """
    inside = pipeline_ranks_per_node >= pipeline_parallel
    latency = where(inside, intra_node_latency, inter_node_latency)
    bandwidth = where(inside, intra_node_bandwidth, pipeline_rail_bandwidth)
    return point_to_point_time(pipeline_message, latency, bandwidth)


def pipeline_parallel_time(
    pipeline_parallel: Any,
    stage_chunks: Any,
    num_microbatches: Any,
    pipeline_send_time: Any,
    pipeline_gather_time: Any,
) -> Any:
    """Time of one step's traffic between pipeline stages: an activation on, a gradient back.

    2 v m (a + M / B + gather), v pieces on each stage; nothing for one stage

    Parameters: pipeline_parallel [1], stage_chunks [1], num_microbatches [1],
        pipeline_send_time [s], pipeline_gather_time [s]
    Returns: [s] pipeline traffic of one step
    Source: Narayanan et al. 2021 (SC21), sections 2.2, 3.2 and 4.1
    """
    sends = where(pipeline_parallel > 1, 2 * stage_chunks * num_microbatches, 0.0)
    return sends * (pipeline_send_time + pipeline_gather_time)
