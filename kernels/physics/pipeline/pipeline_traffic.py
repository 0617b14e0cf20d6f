"""Pipeline-parallel traffic: activations and gradients sent between stages."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...laws.collectives import all_gather_time, point_to_point_time
from ...laws.topology import group_ranks_per_node
from ...ops import where
from ..network.inputs import SWITCHED

row(
    "microbatch_group_size",
    "pipeline_parallel",
    source=(
        "Megatron-LM, megatron/core/model_parallel_config.py "
        "(microbatch_group_size_per_vp_stage); Narayanan et al. 2021 (SC21), section "
        "2.2"
    ),
    pipeline_scheduler="megatron",
)


@alternative("microbatch_group_size", pipeline_scheduler="pytorch")
def pytorch_microbatch_group_size(pipeline_parallel, num_microbatches):
    """Micro-batches that an interleaved schedule runs through a chunk before it switches chunks.

    m / max(1, floor(m / p))

    Returns: [1] micro-batches
    Source: PyTorch pipelining, torch/distributed/pipelining/schedules.py (ScheduleInterleaved1F1B)
    """
    return num_microbatches / np.maximum(1.0, np.floor(num_microbatches / pipeline_parallel))


@alternative("pipeline_message", scatter_gather=False)
def whole_pipeline_message(activation_message, residual_ranks):
    """Bytes that one rank sends across a stage boundary per micro-batch and direction.

    (s / c) b h e, split over tensor ranks with sequence parallelism

    Returns: [B] message
    Source: Narayanan et al. 2021 (SC21), section 3.2; Korthikanti et al. 2022, arXiv:2205.05198,
        section 4.2.2
    """
    return activation_message / residual_ranks


@alternative("pipeline_message", scatter_gather=True)
def scattered_pipeline_message(activation_message, tensor_parallel):
    """(s / c) b h e / t: each tensor rank sends one part of the replicated activation

    Source: Narayanan et al. 2021 (SC21), section 4.1
    """
    return activation_message / tensor_parallel


@alternative("pipeline_gather_time", scatter_gather=True, off=0.0)
def scattered_pipeline_gather_time(
    activation_message,
    residual_ranks,
    tensor_parallel,
    tensor_parallel_latency,
    tensor_parallel_bandwidth,
):
    """Time to all-gather a received activation from its parts on the tensor ranks.

    all-gather of the message over t; 0 with sequence parallelism, which uses the parts directly

    Returns: [s] time of one receipt
    Source: Narayanan et al. 2021 (SC21), section 4.1
    """
    ranks = tensor_parallel / residual_ranks
    return all_gather_time(
        activation_message, ranks, tensor_parallel_latency, tensor_parallel_bandwidth
    )


@alternative("pipeline_stride", rank_order="tp-cp-ep-dp-pp")
def outer_pipeline_stride(tensor_parallel, site_gradient_ranks, parameter_copies):
    """Rank stride between neighbouring stages of a pipeline: stages are the outermost groups.

    t c d of one site

    Returns: [1] GPUs
    Source: Megatron-LM rank order (Narayanan et al. 2021, section 3)
    """
    return tensor_parallel * site_gradient_ranks / parameter_copies


@alternative("pipeline_stride", rank_order="tp-cp-ep-pp-dp")
def inner_pipeline_stride(tensor_parallel, context_parallel):
    """t c: only replicas lie outside the stages

    Source: Megatron-LM, --use-tp-pp-dp-mapping (megatron/core/parallel_state.py)
    """
    return tensor_parallel * context_parallel


row(
    "pipeline_span",
    "n_gpus",
    "the whole job's",
    source="Megatron-LM rank order (Narayanan et al. 2021, section 3)",
    rank_order="tp-cp-ep-dp-pp",
)


@alternative("pipeline_span", rank_order="tp-cp-ep-pp-dp")
def inner_pipeline_span(pipeline_stride, pipeline_parallel):
    """GPUs that one pipeline spans: only replicas lie outside it.

    t c p

    Returns: [1] GPUs
    Source: Megatron-LM, --use-tp-pp-dp-mapping (megatron/core/parallel_state.py)
    """
    return pipeline_stride * pipeline_parallel


@alternative("pipeline_ranks_per_node", scale_up_domain=False)
@same_as(group_ranks_per_node)
def node_pipeline_ranks_per_node(gpus_per_node, pipeline_stride, pipeline_parallel):
    """Stages of one pipeline on each node.

    clip(gpus per node / stride, 1, p)

    Returns: [1] stages on one node
    Source: Megatron-LM rank order (Narayanan et al. 2021, section 3)
    """


@alternative("pipeline_send_time", all_reduce=SWITCHED)
def pipeline_send_time(
    pipeline_message,
    pipeline_parallel,
    pipeline_ranks_per_node,
    intra_node_latency,
    intra_node_bandwidth,
    inter_node_latency,
    pipeline_rail_bandwidth,
):
    """Time to send one activation or gradient to the next stage, each rank on its own rail.

    a + M / B

    Returns: [s] time of one send
    Source: Hockney 1994; Narayanan et al. 2021 (SC21), section 3.2
    """
    inside = pipeline_ranks_per_node >= pipeline_parallel
    latency = where(inside, intra_node_latency, inter_node_latency)
    bandwidth = where(inside, intra_node_bandwidth, pipeline_rail_bandwidth)
    return point_to_point_time(pipeline_message, latency, bandwidth)


def pipeline_parallel_time(
    pipeline_parallel, stage_chunks, num_microbatches, pipeline_send_time, pipeline_gather_time
):
    """Pipeline-parallel traffic time of one step: activations forward, gradients back.

    2 v m (a + M / B + gather), v pieces per stage; (2 v - 1) m for p = 2 (one-way ends), 0 for p =
    1

    Returns: [s] pipeline traffic of one step
    Range: busiest stage; an upper bound for zb_v and dualpipev on two stages, which send 2 m
    Source: Narayanan et al. 2021 (SC21), sections 2.2, 3.2 and 4.1
    """
    inner = 2 * stage_chunks * num_microbatches
    sends = where(pipeline_parallel > 2, inner, inner - num_microbatches)
    sends = where(pipeline_parallel > 1, sends, 0.0)
    return sends * (pipeline_send_time + pipeline_gather_time)


@alternative("blocking_pipeline_sends", pipeline_schedule="gpipe")
def gpipe_blocking_pipeline_sends(pipeline_parallel, num_microbatches):
    """2 (m + p - 2)

    Source: Huang et al. 2019 (GPipe), section 2.3; by playing the schedule out
    """
    return where(pipeline_parallel > 1, 2 * (num_microbatches + pipeline_parallel - 2), 0.0)


@alternative("blocking_pipeline_sends", pipeline_schedule=("1f1b", "interleaved", "combined_1f1b"))
def one_forward_one_backward_blocking_pipeline_sends(
    pipeline_parallel, num_microbatches, stage_chunks
):
    """Sends on the critical path of one step, if stages block while they send.

    2 (m + p - 2) - min(1, m - 1), and m + 1 for two stages, each of which sends one way; with v > 1
    chunks, 2 (v m + i - 1), i = (v - 1) max(0, p - m) + p - 1

    Returns: [1] sends
    Range: exact for v = 1 and for m = 1; an upper bound for v > 1, as the bubble hides some
    Source: Megatron-LM, megatron/core/pipeline_parallel/schedules.py (send_forward_recv_backward
        waits for both); by playing the schedule out
    """
    ends = np.maximum(0.0, np.minimum(1.0, num_microbatches - 1))
    alone = 2 * (num_microbatches + pipeline_parallel - 2) - ends
    alone = where(pipeline_parallel > 2, alone, num_microbatches + 1)
    missing = np.maximum(0.0, pipeline_parallel - num_microbatches)
    waits = (stage_chunks - 1) * missing + pipeline_parallel - 2
    sends = where(stage_chunks > 1, 2 * (stage_chunks * num_microbatches + waits), alone)
    return where(pipeline_parallel > 1, sends, 0.0)


@alternative(
    "blocking_pipeline_sends", pipeline_schedule=("zb_h1", "zb_v", "dualpipe", "dualpipev")
)
def zero_bubble_blocking_pipeline_sends(pipeline_parallel, num_microbatches, stage_chunks):
    """2 v (m + p - 2), v pieces on each stage

    Range: an upper bound: weight gradients hide some, as do dualpipe's two directions mutually
    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 2; by playing the schedules out
    """
    sends = 2 * stage_chunks * (num_microbatches + pipeline_parallel - 2)
    return where(pipeline_parallel > 1, sends, 0.0)


@alternative("asynchronous_pipeline_sends", pipeline_schedule="gpipe")
def gpipe_asynchronous_pipeline_sends(pipeline_parallel):
    """2 (p - 1): sends of the first micro-batch going down and of the last coming back up

    Range: sends shorter than a pass; beyond, the link is the bottleneck
    Source: Huang et al. 2019 (GPipe), section 2.3; by playing the schedule out
    """
    return 2.0 * (pipeline_parallel - 1)


@alternative("asynchronous_pipeline_sends", pipeline_schedule=("1f1b", "interleaved"))
def one_forward_one_backward_asynchronous_pipeline_sends(
    pipeline_parallel, num_microbatches, stage_chunks
):
    """Sends on the critical path of one step, if stages compute while they send.

    2 (p - 1) (q + 1) + 2 max(0, r - 1), m - 1 = q p + r: a stage's next pass waits for the return
    of its last send; with v > 1 chunks 2 (v p - 1), of one micro-batch: the others have a pass of
    slack

    Returns: [1] sends
    Range: sends shorter than a chunk's passes; with v > 1 exact for groups of p micro-batches, an
        upper bound for larger groups, whose chunks have more slack
    Source: Narayanan et al. 2021 (SC21), section 2.2; by playing the schedule out
    """
    depth = pipeline_parallel - 1
    rounds = np.floor((num_microbatches - 1) / pipeline_parallel)
    rest = num_microbatches - 2 - rounds * pipeline_parallel
    alone = 2 * depth * (rounds + 1) + 2 * np.maximum(0.0, rest)
    several = 2 * (stage_chunks * pipeline_parallel - 1)
    sends = where(stage_chunks > 1, several, alone)
    return where(pipeline_parallel > 1, sends, 0.0)


@alternative("asynchronous_pipeline_sends", pipeline_schedule=("zb_h1", "zb_v"))
def zero_bubble_asynchronous_pipeline_sends(pipeline_parallel, stage_chunks):
    """(2 + 2 v) (p - 1), v pieces on each stage

    Range: sends shorter than a weight gradient; an upper bound
    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, sections 2 and 6; by playing the
        schedules out
    """
    return (2 + 2 * stage_chunks) * (pipeline_parallel - 1)


@alternative("awaited_pipeline_sends", pipeline_sends="auto")
def usual_awaited_pipeline_sends(
    stage_chunks, blocking_pipeline_sends, asynchronous_pipeline_sends, parameter_copies
):
    """Sends between pipeline stages on the critical path of a step.

    blocking if stages hold one piece of the model, asynchronous if they hold several

    Returns: [1] sends
    Source: Megatron-LM, megatron/training/arguments.py (overlap_p2p_comm, off without interleaving)
    """
    return where(
        stage_chunks * parameter_copies > 1, asynchronous_pipeline_sends, blocking_pipeline_sends
    )


row("awaited_pipeline_sends", "blocking_pipeline_sends", pipeline_sends="blocking")
row("awaited_pipeline_sends", "asynchronous_pipeline_sends", pipeline_sends="asynchronous")


def awaited_pipeline_time(awaited_pipeline_sends, pipeline_send_time, pipeline_gather_time):
    """Time of the sends between stages on the critical path of a step.

    awaited sends x (a + M / B + gather)

    Returns: [s] time of one step
    Source: Narayanan et al. 2021 (SC21), section 2.2; by playing the schedules out
    """
    return awaited_pipeline_sends * (pipeline_send_time + pipeline_gather_time)
