"""Link sharing between kinds of traffic: busy time and contention."""

import numpy as np

from ...alternatives import alternative, family, row
from ..experts.expert_links import INSIDE_A_NODE
from ..network.inputs import SWITCHED


def fabric_busy_time(
    tensor_fabric_time,
    context_fabric_time,
    expert_fabric_time,
    pipeline_fabric_time,
    data_fabric_time,
):
    """Time per step in which a GPU's rail is busy, a lower bound of the step time.

    tensor + context + expert + pipeline + data, each bytes over bandwidth

    Returns: [s] time of one step
    Range: minimum bytes of any algorithm: a lower bound for flat rings and trees
    Source: Hockney 1994, Parallel Computing 20(3): bytes over bandwidth; latency occupies no link
    """
    layers = tensor_fabric_time + context_fabric_time + expert_fabric_time
    return layers + pipeline_fabric_time + data_fabric_time


family(INSIDE_A_NODE, fabric_busy_time)


def traffic_window(
    compute_time,
    layer_compute_time,
    regather_window,
    tensor_parallel_overlap,
    context_ring_window,
    expert_overlap_share,
    data_parallel_overlap,
    weight_gather_overlap,
    gradient_window,
    weight_window,
    exposed_layer_communication_time,
    launch_wait_time,
):
    """Compute time per step that can hide traffic of layers and of data parallelism.

    the largest window of any kind of traffic: a ring's of the slowest rank, another's at most all
    compute; tensor-parallel traffic's is a share of the GPU's own time, and all of its waits for
    its host

    Returns: [s] time of one step
    Range: an upper bound if kinds of traffic hide behind different parts of compute
    Source: Wang et al. 2023 (ASPLOS), section 2
    """
    busy = np.maximum(0.0, layer_compute_time - launch_wait_time - regather_window)
    tensor = regather_window + tensor_parallel_overlap * busy + launch_wait_time
    experts = expert_overlap_share * layer_compute_time
    share = compute_time / (compute_time + exposed_layer_communication_time)  # of data's window
    data = data_parallel_overlap * (gradient_window + weight_window)
    data = (data + (weight_gather_overlap - data_parallel_overlap) * weight_window) * share
    window = np.minimum(compute_time, np.maximum(np.maximum(tensor, experts), data))
    return np.maximum(window, context_ring_window)


@alternative("contention_time", link_sharing=True, off=0.0)
def shared_contention_time(
    compute_time,
    traffic_window,
    exposed_layer_communication_time,
    exposed_data_parallel_time,
    awaited_pipeline_time,
    exposed_pipeline_parallel_time,
    straggler_time,
    bubble_time,
    node_network_busy_time,
    fabric_busy_time,
    pipeline_node_time,
    pipeline_fabric_time,
):
    """Time per step of waits because hidden traffic shares links.

    max over both tiers of max(0, busy - window - waits): a link carries traffic of layers and of
    data parallelism during its window and while the step waits for any of it; all traffic, sends
    between stages included, must fit into the whole step

    Returns: [s] time of one step
    Range: exact if all overlaps are 1, for two kinds of traffic on one link, and for any number
        with one overlap; else, and after tensor traffic that hides in part, a lower bound, as if a
        link could use every wait; an upper bound if kinds hide behind different parts of compute
    Source: by definition: a link carries one byte at a time; Wang et al. 2023 (ASPLOS), section 2
    """
    waits = exposed_layer_communication_time + exposed_data_parallel_time
    node = node_network_busy_time - pipeline_node_time
    fabric = fabric_busy_time - pipeline_fabric_time
    late = np.maximum(node, fabric) - (traffic_window + waits)
    late = late + (awaited_pipeline_time - exposed_pipeline_parallel_time)
    step = compute_time + straggler_time + bubble_time + waits + exposed_pipeline_parallel_time
    sends = np.maximum(node_network_busy_time, fabric_busy_time) - step
    return np.maximum(0.0, np.maximum(late, sends))


row(
    "held_processor_share",
    "communication_processor_share",
    summary="Share of a GPU's processors that collectives hold.",
    returns="[1] share",
    source="DeepSeek-AI 2024, arXiv:2412.19437, section 3.5.1",
    all_reduce=SWITCHED,
)
row(
    "held_processor_share",
    0.0,
    "links of a torus move data on their own",
    source="Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2",
    all_reduce="torus",
)
row("processor_contention_time", 0.0, "an efficiency holds it", compute_model="mfu")


@alternative("processor_contention_time", compute_model="roofline")
def held_processor_contention_time(
    held_processor_share,
    tensor_parallel_time,
    context_parallel_time,
    expert_parallel_time,
    data_parallel_time,
    exposed_layer_communication_time,
    exposed_data_parallel_time,
    contention_time,
):
    """Time per step by which compute is slower because collectives hold some processors.

    share x hidden traffic: while x seconds of traffic are hidden, compute does (1 - share) x; a
    step that waits for shared links hides nothing

    Returns: [s] time of one step
    Range: traffic inside layers and of data parallelism; an upper bound for parts of compute that
        are bound by memory, and for traffic within launch_wait_time
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.5.1 (20 of 132 processors)
    """
    layers = tensor_parallel_time + context_parallel_time + expert_parallel_time
    exposed = exposed_layer_communication_time + exposed_data_parallel_time + contention_time
    return held_processor_share * np.maximum(layers + data_parallel_time - exposed, 0.0)
