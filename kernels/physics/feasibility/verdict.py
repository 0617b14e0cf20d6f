"""Feasibility: whether a job can run, and if not, the gravest reason."""

import numpy as np

from ... import reasons
from ...alternatives import alternative
from ...ops import where
from ...reasons import REASONS as REASONS
from ...reasons import is_whole


def layout_reason(
    n_gpus,
    tensor_parallel,
    pipeline_parallel,
    context_parallel,
    stage_chunks,
    global_batch_size,
    micro_batch_size,
    attention_heads,
    sequence_length,
    sequence_parts,
    stage_reason,
    schedule_reason,
):
    """Gravest reason why a layout is invalid; 0 if it is valid.

    Formulas stay defined at invalid points (a continuous relaxation); this flag marks them.

    Returns: [flag] reason
    Flags: REASONS
    Source: constraints of Megatron-LM's layout (Narayanan et al. 2021, section 3)
    """
    group = tensor_parallel * pipeline_parallel * context_parallel
    replicas = n_gpus / group
    slices = replicas * micro_batch_size
    reason = where(
        is_whole(sequence_length / sequence_parts), schedule_reason, reasons.SEQUENCE_NOT_DIVISIBLE
    )
    reason = where(is_whole(attention_heads / tensor_parallel), reason, reasons.HEADS_NOT_DIVISIBLE)
    reason = where(stage_reason == 0, reason, stage_reason)
    reason = where(is_whole(global_batch_size / slices), reason, reasons.BATCH_NOT_DIVISIBLE)
    reason = where(global_batch_size < slices, reasons.BATCH_SMALLER_THAN_DATA_PARALLEL, reason)
    reason = where(is_whole(replicas), reason, reasons.GPUS_NOT_DIVISIBLE)
    reason = where(group > n_gpus, reasons.GROUP_LARGER_THAN_CLUSTER, reason)
    counts = is_whole(n_gpus) & is_whole(tensor_parallel) & is_whole(pipeline_parallel)
    counts = counts & is_whole(context_parallel) & is_whole(stage_chunks)
    counts = counts & is_whole(global_batch_size) & is_whole(micro_batch_size)
    reason = where(counts, reason, reasons.NOT_A_WHOLE_NUMBER)
    operands = n_gpus + group + stage_chunks + global_batch_size + stage_reason + attention_heads
    operands = operands + micro_batch_size + sequence_length
    return where(operands == operands, reason, np.nan)


@alternative("expert_layout_reason", mixture_of_experts=False)
def dense_expert_layout_reason(layout_reason, expert_parallel):
    """Why a layout is invalid: a dense model has no experts to shard.

    reason of the layout; expert parallelism above 1 has no experts; undefined inputs give NaN

    Returns: [flag] reason
    Flags: REASONS
    Source: constraints of Megatron-LM's layout (megatron/core/parallel_state.py)
    """
    alone = where(expert_parallel > 1, reasons.EXPERTS_NOT_DIVISIBLE, 0.0)
    alone = where(expert_parallel == expert_parallel, alone, np.nan)
    return where(layout_reason == 0, alone, layout_reason)


@alternative("expert_layout_reason", mixture_of_experts=True)
def routed_expert_layout_reason(
    layout_reason,
    experts,
    experts_per_token,
    expert_parallel,
    expert_tensor_parallel,
    tensor_parallel,
    gradient_ranks,
    expert_layers,
    parameter_copies,
    dispatch_reason,
    expert_fold_reason,
):
    """reason of the layout; E / e and d c t / (t_e e) whole, so that experts divide over their
    group and groups over replicas; at most as many dense layers as layers, and k <= E; reason of
    experts folded over other ranks; reason of dispatch
    """
    ranks = gradient_ranks / parameter_copies  # a mirrored stage sees other micro-batches
    ranks = ranks * (tensor_parallel / expert_tensor_parallel)
    divides = is_whole(experts / expert_parallel) & is_whole(ranks / expert_parallel)
    divides = divides & is_whole(expert_parallel) & is_whole(expert_tensor_parallel)
    divides = divides & (expert_layers >= 0) & (experts_per_token <= experts)
    divides = divides & is_whole(experts) & is_whole(experts_per_token)
    placed = where(expert_fold_reason == 0, dispatch_reason, expert_fold_reason)
    operands = experts + experts_per_token + expert_parallel + expert_layers
    shared = where(
        operands == operands, where(divides, placed, reasons.EXPERTS_NOT_DIVISIBLE), np.nan
    )
    return where(layout_reason == 0, shared, layout_reason)


def arrangement_reason(
    expert_layout_reason,
    head_reason,
    layer_kinds_reason,
    width_reason,
    domain_reason,
    tier_reason,
    site_reason,
    sharding_reason,
    torus_reason,
    activation_offload_reason,
    product_recompute_reason,
    training_stages_reason,
    site_room_reason,
    contract_reason,
):
    """Gravest reason why the arrangement of a job's groups is invalid; 0 if it is valid.

    reasons of layout, head sharing, kinds of layers, widths, sites, domains, tiers, sharding
    groups, torus, offload and recomputation, stages of training, room of a site, nodes of a
    contract, in this order

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    inside = where(site_room_reason == 0, contract_reason, site_room_reason)
    inside = where(training_stages_reason == 0, inside, training_stages_reason)
    inside = where(product_recompute_reason == 0, inside, product_recompute_reason)
    inside = where(activation_offload_reason == 0, inside, activation_offload_reason)
    inside = where(torus_reason == 0, inside, torus_reason)
    inside = where(sharding_reason == 0, inside, sharding_reason)
    inside = where(tier_reason == 0, inside, tier_reason)
    inside = where(domain_reason == 0, inside, domain_reason)
    inside = where(site_reason == 0, inside, site_reason)
    inside = where(width_reason == 0, inside, width_reason)
    inside = where(layer_kinds_reason == 0, inside, layer_kinds_reason)
    inside = where(head_reason == 0, inside, head_reason)
    return where(expert_layout_reason == 0, inside, expert_layout_reason)


def capacity_reason(arrangement_reason, memory_per_gpu, memory_limit):
    """Why a layout cannot run, memory included: refused above the memory limit.

    reason of the layout; memory needed <= limit; NaN if either is undefined

    Returns: [flag] reason
    Flags: REASONS
    Range: within the error factor of the capacity, either verdict may be true: `near_memory_limit`
    Source: by definition
    """
    full = where(memory_per_gpu > memory_limit, reasons.OUT_OF_MEMORY, 0.0)
    operands = memory_per_gpu + memory_limit
    full = where(operands == operands, full, np.nan)
    return where(arrangement_reason == 0, full, arrangement_reason)


@alternative("infeasible_reason", checkpoint_mode="sync")
def sync_infeasible_reason(capacity_reason, progress_reason):
    """Gravest reason why a job cannot run; 0 if it can.

    reason of layout and memory; reason of progress

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return where(capacity_reason == 0, progress_reason, capacity_reason)


@alternative("infeasible_reason", checkpoint_mode="async")
def flushed_infeasible_reason(
    capacity_reason, progress_reason, checkpoint_interval, checkpoint_flush_time
):
    """reason of layout and memory; checkpoint interval >= flush time; reason of progress

    Source: Mohan et al. 2021 (CheckFreq), FAST, section 4 (one checkpoint in flight)
    """
    early = where(
        checkpoint_interval < checkpoint_flush_time,
        reasons.INTERVAL_BELOW_FLUSH_TIME,
        progress_reason,
    )
    operands = checkpoint_interval + checkpoint_flush_time
    early = where(operands == operands, early, np.nan)
    return where(capacity_reason == 0, early, capacity_reason)


@alternative("infeasible_reason", checkpoint_mode="in_memory")
def in_memory_infeasible_reason(
    capacity_reason,
    progress_reason,
    checkpoint_interval,
    checkpoint_flush_time,
    undetected_time,
    silent_corruption_mttf,
):
    """reason of layout and memory; checkpoint interval >= flush time; memory, which holds one
    safe checkpoint, has one from before a corruption found late: D <= interval + flush; reason of
    progress

    Source: Wang et al. 2023, Gemini, SOSP; Mohan et al. 2021 (CheckFreq), FAST, section 4
    """
    oldest = checkpoint_interval + checkpoint_flush_time
    lost = (silent_corruption_mttf < np.inf) & (undetected_time > oldest)
    left = where(lost, reasons.NO_CHECKPOINT_BEFORE_CORRUPTION, progress_reason)
    return flushed_infeasible_reason(
        capacity_reason, left, checkpoint_interval, checkpoint_flush_time
    )


@alternative("infeasible_reason", checkpoint_mode="tiered")
def tiered_infeasible_reason(
    capacity_reason,
    progress_reason,
    checkpoint_interval,
    checkpoint_flush_time,
    memory_tier_survival,
    drive_tier_survival,
    memory_tier_bytes,
    drive_tier_bytes,
    checkpoint_memory_capacity,
    checkpoint_drive_capacity,
    least_stated_interval,
):
    """reason of layout and memory; drives survive at least what memory does, and have no
    shorter interval; tiers have capacity for their checkpoints; checkpoint
    interval >= flush time; reason of progress

    Source: Moody et al. 2010, SC10; Mohan et al. 2021 (CheckFreq), FAST, section 4
    """
    early = where(
        checkpoint_interval < checkpoint_flush_time,
        reasons.INTERVAL_BELOW_FLUSH_TIME,
        progress_reason,
    )
    small = (memory_tier_survival > 0) & (memory_tier_bytes > checkpoint_memory_capacity)
    driven = drive_tier_survival > memory_tier_survival
    small = small | (driven & (drive_tier_bytes > checkpoint_drive_capacity))
    early = where(small, reasons.CHECKPOINT_TIER_TOO_SMALL, early)
    beaten = (drive_tier_survival > 0) & (drive_tier_survival < memory_tier_survival)
    beaten = beaten | (least_stated_interval < checkpoint_interval * (1 - 1e-9))
    early = where(beaten, reasons.TIERS_OUT_OF_ORDER, early)
    operands = checkpoint_interval + checkpoint_flush_time + memory_tier_bytes
    early = where(operands == operands, early, np.nan)
    return where(capacity_reason == 0, early, capacity_reason)


def feasible(infeasible_reason):
    """Whether a job can run.

    reason = 0

    Returns: [flag] verdict
    Flags: 0 no, 1 yes
    Source: by definition
    """
    decided = infeasible_reason == infeasible_reason
    return where(decided, where(infeasible_reason == 0, 1.0, 0.0), np.nan)
