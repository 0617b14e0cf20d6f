"""Multi-site training: traffic between sites and cost of their outages."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, row
from ...laws.collectives import ring_all_reduce_time
from ...ops import where
from ...reasons import REASONS as REASONS
from ..checkpoints.elastic import one_site_availability
from ..memory.gpu_memory import one_site_memory_per_gpu
from ..step.step import one_site_communication_time, one_site_exposed_communication_time


@alternative("site_gradient_ranks", multi_site=True)
def several_site_gradient_ranks(data_parallel, context_parallel, parameter_copies, sites):
    """d c / S, doubled in dualpipe: each site shards optimizer states, gradients and weights itself

    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.2 (hybrid sharding:
        shards in a group, copies between groups)
    """
    return data_parallel * context_parallel * parameter_copies / sites


@alternative("site_message", site_sync="every_step")
def gradient_site_message(parameters, gradient_wire_bytes, gradient_compression):
    """Bytes that one site sends in an exchange: gradients of the whole model.

    N x bytes / compression

    Returns: [B] message of all GPUs of one site
    Range: without modules of multi-token prediction, 1.7 % of DeepSeek-V3
    Source: Douillard et al. 2023 (DiLoCo), arXiv:2311.08105, section 2 (data parallelism, H = 1)
    """
    return parameters * gradient_wire_bytes / gradient_compression


@alternative("site_message", site_sync="local_steps")
def outer_site_message(parameters, outer_bytes_per_element):
    """Bytes that one site sends in an exchange: change of all weights since the last one.

    N x bytes

    Source: Douillard et al. 2023 (DiLoCo), arXiv:2311.08105, algorithm 1; Douillard et al. 2025
        (Streaming DiLoCo), arXiv:2501.18512 (4-bit outer gradients)
    """
    return parameters * outer_bytes_per_element


def site_link_bandwidth(site_bandwidth, n_gpus, sites, rail_bandwidth):
    """Bandwidth per direction between a site and the others.

    min(W, n / S x rail): at most what its GPUs can send

    Returns: [B/s] bandwidth of one site
    Source: by definition: the narrower of two links in line
    """
    return np.minimum(site_bandwidth, n_gpus / sites * rail_bandwidth)


def site_exchange_time(site_message, model_fragments, sites, site_latency, site_link_bandwidth):
    """Time of one exchange of the whole model between sites.

    P x 2 (S - 1) (a + M / (P S W)): a ring of sites per fragment, each GPU with its part

    Returns: [s] time of one exchange of all fragments
    Range: dedicated links; two sites could save one of the two latencies
    Source: Patarasuk & Yuan 2009, JPDC 69(2), theorem 1; Douillard et al. 2025 (Streaming DiLoCo),
        arXiv:2501.18512 (fragments)
    """
    fragment = site_message / model_fragments
    return model_fragments * ring_all_reduce_time(
        fragment, sites, site_latency, site_link_bandwidth
    )


row(
    "steps_per_site_exchange",
    1.0,
    summary="Steps for each exchange of the whole model between sites.",
    returns="[1] steps",
    site_sync="every_step",
)
row(
    "steps_per_site_exchange",
    "inner_steps",
    source="Douillard et al. 2023 (DiLoCo), arXiv:2311.08105, algorithm 1",
    site_sync="local_steps",
)


@alternative("site_parallel_time", multi_site=True, off=0.0)
def several_site_parallel_time(site_exchange_time, steps_per_site_exchange):
    """Traffic time between sites, per step.

    time of one exchange / H

    Returns: [s] mean traffic of one step
    Source: Douillard et al. 2023 (DiLoCo), arXiv:2311.08105, section 2
    """
    return site_exchange_time / steps_per_site_exchange


row(
    "site_window",
    "gradient_window",
    "that of gradients: backward passes",
    summary="Time of a step behind which traffic between sites can hide.",
    returns="[s] window of one step",
    source="Li et al. 2020 (PyTorch DDP), VLDB 13(12), section 3.2.3",
    site_sync="every_step",
)
row(
    "site_window",
    "compute_time",
    "its compute: sites go on while the last exchange is under way",
    source=(
        "Douillard et al. 2025 (Streaming DiLoCo), arXiv:2501.18512 (overlap); Kale et "
        "al. 2025 (eager updates), arXiv:2502.12996"
    ),
    holds=(
        "updates that arrive late are merged late, up to H steps at an overlap of 1; "
        "what that costs belongs into `tokens_factor`"
    ),
    site_sync="local_steps",
)


@alternative("exposed_site_parallel_time", multi_site=True, off=0.0)
def several_site_exposed_parallel_time(site_parallel_time, site_overlap, site_window):
    """Mean exposed traffic between sites per step.

    max(0, traffic - overlap x window)

    Returns: [s] exposed traffic of one step
    Range: links between sites are separate from links inside
    Source: by definition of exposed communication; Wang et al. 2023 (ASPLOS), section 2
    """
    return np.maximum(0.0, site_parallel_time - site_overlap * site_window)


@alternative("communication_time", multi_site=True)
def several_site_communication_time(
    tensor_parallel_time,
    context_parallel_time,
    expert_parallel_time,
    pipeline_parallel_time,
    data_parallel_time,
    offload_time,
    site_parallel_time,
):
    """traffic inside a site + between sites"""
    inside = one_site_communication_time(
        tensor_parallel_time,
        context_parallel_time,
        expert_parallel_time,
        pipeline_parallel_time,
        data_parallel_time,
        offload_time,
    )
    return inside + site_parallel_time


@alternative("exposed_communication_time", multi_site=True)
def several_site_exposed_communication_time(
    exposed_layer_communication_time,
    exposed_pipeline_parallel_time,
    exposed_data_parallel_time,
    offload_time,
    contention_time,
    processor_contention_time,
    exposed_site_parallel_time,
):
    """exposed inside a site + exposed between sites"""
    inside = one_site_exposed_communication_time(
        exposed_layer_communication_time,
        exposed_pipeline_parallel_time,
        exposed_data_parallel_time,
        offload_time,
        contention_time,
        processor_contention_time,
    )
    return inside + exposed_site_parallel_time


row("outer_state_memory", 0.0, site_sync="every_step")


@alternative("outer_state_memory", site_sync="local_steps")
def local_outer_state_memory(optimizer_parameters, outer_state_bytes, sites):
    """Memory of one GPU's shard of the outer optimizer, sharded like the inner one.

    N_o x bytes; 0 for one site

    Returns: [B] memory
    Range: outer states on the GPU (if on the host, outer_state_bytes = 0), ignored by fullest_stage
    Source: Douillard et al. 2023 (DiLoCo), arXiv:2311.08105, algorithm 1 (weights agreed on, and
        Nesterov momentum)
    """
    return where(sites > 1, optimizer_parameters * outer_state_bytes, 0.0)


@alternative("memory_per_gpu", multi_site=True)
def several_site_memory_per_gpu(
    weights_memory,
    gradients_memory,
    optimizer_memory,
    activation_memory,
    transient_memory,
    reserved_memory,
    outer_state_memory,
):
    """memory on one site + shard of the outer optimizer

    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3; Douillard et al. 2023
        (DiLoCo), arXiv:2311.08105, algorithm 1
    """
    inner = one_site_memory_per_gpu(
        weights_memory,
        gradients_memory,
        optimizer_memory,
        activation_memory,
        transient_memory,
        reserved_memory,
    )
    return inner + outer_state_memory


row("site_tokens_factor", 1.0, site_sync="every_step")


@alternative("site_tokens_factor", site_sync="local_steps")
def local_site_tokens_factor(tokens_factor, sites):
    """Tokens of the run over those of a one-site run with the same loss, as stated.

    tokens factor; 1 for one site

    Returns: [1] tokens over tokens
    Range: stated, not predicted: published runs have up to 8 sites and 1e10 parameters
    Source: Douillard et al. 2023 (DiLoCo), arXiv:2311.08105, table 2, and Charles et al. 2025,
        arXiv:2503.09799 (losses with and without local steps)
    """
    return where(sites > 1, tokens_factor, 1.0)


@alternative("training_steps", multi_site=True)
def several_site_training_steps(tokens_to_target, tokens_per_step, site_tokens_factor):
    """Optimizer steps of the run.

    D x tokens factor / (B s)
    """
    return tokens_to_target * site_tokens_factor / tokens_per_step


row(
    "running_sites",
    "awaited_sites_uptime",
    "as often as all are up",
    summary=("Share of the sites that work for the job, on average: it waits until all are up."),
    returns="[1] share",
    elastic=False,
)
row("running_sites", "site_uptime", elastic="shrink")


@alternative("steady_availability", multi_site=True)
def several_site_availability(maintenance_fraction, elastic_capacity, running_sites):
    """availability of one site x share of running sites

    Range: sites fail independently of nodes
    """
    return one_site_availability(maintenance_fraction, elastic_capacity) * running_sites


row("site_sync_reason", 0.0, site_sync="every_step")


@alternative("site_sync_reason", site_sync="local_steps")
def local_site_sync_reason(inner_steps, model_fragments):
    """Why the exchange between sites is impossible as stated; 0 if it is possible.

    H and P whole; P <= H: at most one fragment per step

    Returns: [flag] reason
    Flags: REASONS
    Source: Douillard et al. 2025 (Streaming DiLoCo), arXiv:2501.18512, algorithm 2
    """
    reason = where(model_fragments <= inner_steps, 0.0, reasons.MORE_FRAGMENTS_THAN_INNER_STEPS)
    whole = (np.floor(inner_steps) == inner_steps) & (np.floor(model_fragments) == model_fragments)
    reason = where(whole, reason, reasons.NOT_A_WHOLE_NUMBER)
    operands = inner_steps + model_fragments
    return where(operands == operands, reason, np.nan)


row("site_reason", 0.0, "it is on one", multi_site=False)


@alternative("site_reason", multi_site=True)
def several_site_reason(
    n_gpus, tensor_parallel, pipeline_parallel, context_parallel, sites, site_sync_reason
):
    """Why a job cannot be split over sites; 0 if it can.

    sites whole, and replicas / sites whole: no replica spans a slow link

    Returns: [flag] reason
    Flags: REASONS
    Source: Douillard et al. 2023 (DiLoCo), arXiv:2311.08105, section 2 (a replica on each site)
    """
    share = n_gpus / (tensor_parallel * pipeline_parallel * context_parallel) / sites
    reason = where(
        np.floor(share) == share, site_sync_reason, reasons.REPLICAS_NOT_DIVISIBLE_OVER_SITES
    )
    reason = where(np.floor(sites) == sites, reason, reasons.NOT_A_WHOLE_NUMBER)
    operands = share + sites
    return where(operands == operands, reason, np.nan)
