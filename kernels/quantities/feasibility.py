"""Which points cannot be run as they stand."""

import numpy as np

from ..alternatives import alternative
from ..inputs import SWITCHED
from ..ops import where

# Flags of all these formulas. Published cubes hold the numbers: add new reasons at the end
REASONS = """
    0 feasible, 1 not_a_whole_number, 2 group_larger_than_cluster, 3 gpus_not_divisible,
    4 batch_smaller_than_data_parallel, 5 batch_not_divisible, 6 layers_not_divisible,
    7 heads_not_divisible, 8 sequence_not_divisible, 9 experts_not_divisible,
    10 out_of_memory, 11 interval_below_flush_time, 12 fewer_microbatches_than_stages,
    13 microbatch_group_does_not_fit, 14 interleaved_on_one_stage, 15 makes_no_progress,
    16 dual_pipeline_does_not_fit, 17 passes_do_not_overlap,
    18 replicas_not_divisible_into_sharding_groups, 19 experts_do_not_fold_over_ranks,
    20 routing_nodes_hold_too_few_experts, 21 expert_nodes_not_whole,
    22 replicas_not_divisible_over_sites, 23 more_fragments_than_inner_steps,
    24 torus_does_not_hold_the_groups, 25 slice_larger_than_pod,
    26 layers_do_not_add_up, 27 heads_not_divisible_over_context,
    28 stage_without_layers, 29 stages_of_training_do_not_fit, 30 domain_not_whole_nodes,
    31 pod_smaller_than_what_it_holds, 32 checkpoint_tier_too_small, 33 tiers_out_of_order
"""


@alternative("interleaving_reason", pipeline_scheduler="megatron")
def megatron_interleaving_reason(pipeline_parallel, num_microbatches, microbatch_group_size):
    """Why a scheduler cannot run an interleaved pipeline; 0 where it can.

    m >= p; N whole, from p to m; m mod N = 0 or at least p

    Returns: [flag] reason
    Flags: REASONS
    Source: Megatron-LM, megatron/core/pipeline_parallel/schedules.py
        (forward_backward_pipelining_with_interleaving)
    """
    rest = num_microbatches - microbatch_group_size * np.floor(
        num_microbatches / microbatch_group_size
    )
    fits = _whole(microbatch_group_size) & (microbatch_group_size >= pipeline_parallel)
    fits = fits & (microbatch_group_size <= num_microbatches)
    fits = fits & ((rest == 0) | (rest >= pipeline_parallel))
    reason = where(fits, 0.0, 13.0)
    return where(num_microbatches < pipeline_parallel, 12.0, reason)


@alternative("interleaving_reason", pipeline_scheduler="pytorch")
def pytorch_interleaving_reason(pipeline_parallel, num_microbatches, microbatch_group_size):
    """N = m / max(1, floor(m / p)) whole: no other groups are formed

    Source: PyTorch pipelining, torch/distributed/pipelining/schedules.py (ScheduleInterleaved1F1B)
    """
    rounds = np.maximum(1.0, np.floor(num_microbatches / pipeline_parallel))
    fits = _whole(microbatch_group_size) & (microbatch_group_size * rounds == num_microbatches)
    return where(fits, 0.0, 13.0)


@alternative("schedule_reason", pipeline_schedule=("gpipe", "zb_h1", "zb_v"))
def free_schedule_reason():
    """0: these run any number of micro-batches

    Source: Huang et al. 2019 (GPipe), section 2.3; Qi et al. 2023 (zero bubble), arXiv:2401.10241
    """
    return 0.0


@alternative("schedule_reason", pipeline_schedule=("1f1b", "interleaved"))
def interleaved_schedule_reason(pipeline_parallel, stage_chunks, interleaving_reason):
    """Why a pipeline's schedule cannot be run; 0 where it can.

    0 with one chunk on a stage; with several, p > 1 and the scheduler's reason

    Returns: [flag] reason
    Flags: REASONS
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    reason = where(pipeline_parallel > 1, interleaving_reason, 14.0)
    return where(stage_chunks > 1, reason, 0.0)


@alternative("schedule_reason", pipeline_schedule="combined_1f1b")
def combined_schedule_reason(
    pipeline_parallel,
    num_microbatches,
    stage_chunks,
    microbatch_group_size,
    matrix_recompute_passes,
    expert_parallel,
):
    """several chunks on a stage where there are several stages, nothing but attention computed
    again, e > 1; and Megatron-Core's reason with several chunks

    Source: Megatron-LM, megatron/core/transformer/transformer_config.py
        (overlap_moe_expert_parallel_comm)
    """
    reason = interleaved_schedule_reason(
        pipeline_parallel,
        stage_chunks,
        megatron_interleaving_reason(pipeline_parallel, num_microbatches, microbatch_group_size),
    )
    runs = (stage_chunks > 1) | (pipeline_parallel <= 1)
    runs = runs & (matrix_recompute_passes == 0) & (expert_parallel > 1)
    return where(runs, reason, 17.0)


@alternative("schedule_reason", pipeline_schedule="dualpipe")
def dualpipe_schedule_reason(pipeline_parallel, num_microbatches):
    """p and m even, m >= 2 p

    Source: dualpipe/dualpipe.py of github.com/deepseek-ai/DualPipe (DeepSeek-AI 2024,
        arXiv:2412.19437)
    """
    fits = _whole(pipeline_parallel / 2) & _whole(num_microbatches / 2)
    return where(fits & (num_microbatches >= 2 * pipeline_parallel), 0.0, 16.0)


@alternative("schedule_reason", pipeline_schedule="dualpipev")
def dualpipev_schedule_reason(pipeline_parallel, num_microbatches):
    """m >= 2 p

    Source: dualpipe/dualpipev.py of github.com/deepseek-ai/DualPipe (DeepSeek-AI 2024,
        arXiv:2412.19437); PyTorch pipelining, torch/distributed/pipelining/schedules.py
    """
    return where(num_microbatches >= 2 * pipeline_parallel, 0.0, 16.0)


@alternative("stage_reason", stage_split="whole_layers")
def whole_stage_reason(
    layers,
    pipeline_parallel,
    stage_chunks,
    prediction_layers,
    first_stage_layers,
    middle_stage_layers,
    last_stage_layers,
):
    """whole layers, the stages' together those of the model (6); a layer for each of the p v pieces
    but the first and the last, which hold the embedding and the logits (28): v on each stage
    between the ends, 2 v - 2 at the ends

    Source: Megatron-LM, --pipeline-model-parallel-layout (any split of whole layers; E and L may
        stand alone); Grattafiori et al. 2024 (Llama 3), arXiv:2407.21783, section 3.3.2 (126 layers
        in 128 pieces)
    """
    between = np.maximum(pipeline_parallel - 2, 0.0)
    rest = layers - first_stage_layers - last_stage_layers
    rest = where(pipeline_parallel > 1, rest, layers - first_stage_layers)
    held = (rest <= middle_stage_layers * between) & (middle_stage_layers <= rest)
    fits = where(between > 0, held, rest == 0) & (first_stage_layers >= 0)
    fits = fits & (last_stage_layers >= 0) & _whole(layers) & _whole(prediction_layers)
    fits = fits & _whole(first_stage_layers) & _whole(last_stage_layers)
    fits = fits & _whole(middle_stage_layers)
    # the second stage has most of those between: the others need theirs, too
    others = np.maximum(between - 1, 0.0) * stage_chunks
    bare = where(between > 0, rest - middle_stage_layers < others, False)
    bare = bare | ((between > 0) & (middle_stage_layers < stage_chunks))
    bare = bare | (layers - where(between > 0, rest, 0.0) < 2 * stage_chunks - 2)
    reason = where(fits, where(bare, 28.0, 0.0), 6.0)
    known = layers + pipeline_parallel + stage_chunks + prediction_layers
    known = known + first_stage_layers + middle_stage_layers + last_stage_layers
    return where(known == known, reason, np.nan)


@alternative("stage_reason", stage_split="alike")
def even_stage_reason(layers, pipeline_parallel, stage_chunks):
    """Why layers cannot be split over a pipeline's stages; 0 where they can.

    l / (p v) whole (6): all stages alike

    Returns: [flag] reason
    Flags: REASONS
    Source: Narayanan et al. 2021 (SC21), section 3
    """
    each = layers / (pipeline_parallel * stage_chunks)
    return where(each == each, where(_whole(each), 0.0, 6.0), np.nan)


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
    """Why a layout cannot be laid out, the gravest reason first; 0 where it can.

    Formulas stay defined at such points (a continuous relaxation); this flag marks them.

    Returns: [flag] reason
    Flags: REASONS
    Source: constraints of Megatron-LM's layout (Narayanan et al. 2021, section 3)
    """
    group = tensor_parallel * pipeline_parallel * context_parallel
    replicas = n_gpus / group
    slices = replicas * micro_batch_size
    reason = where(_whole(sequence_length / sequence_parts), schedule_reason, 8.0)
    reason = where(_whole(attention_heads / tensor_parallel), reason, 7.0)
    reason = where(stage_reason == 0, reason, stage_reason)
    reason = where(_whole(global_batch_size / slices), reason, 5.0)
    reason = where(global_batch_size < slices, 4.0, reason)
    reason = where(_whole(replicas), reason, 3.0)
    reason = where(group > n_gpus, 2.0, reason)
    counts = _whole(n_gpus) & _whole(tensor_parallel) & _whole(pipeline_parallel)
    counts = counts & _whole(context_parallel) & _whole(stage_chunks)
    counts = counts & _whole(global_batch_size) & _whole(micro_batch_size)
    reason = where(counts, reason, 1.0)
    known = n_gpus + group + stage_chunks + global_batch_size + stage_reason + attention_heads
    known = known + micro_batch_size + sequence_length
    return where(known == known, reason, np.nan)


@alternative("dispatch_reason", all_reduce=SWITCHED)
def switched_dispatch_reason(expert_dispatch_reason):
    """Why tokens cannot be sent to their experts; 0 where they can.

    that of the way in which switches carry them

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return 1.0 * expert_dispatch_reason


@alternative("dispatch_reason", all_reduce="torus")
def torus_dispatch_reason():
    """0: a torus has no nodes to visit once, a copy for each expert goes along its links

    Source: Austin et al. 2025 (How to Scale Your Model), part 3 (AllToAll)
    """
    return 0.0


@alternative("expert_dispatch_reason", expert_dispatch="per_expert")
def per_expert_dispatch_reason():
    """Why tokens cannot be sent to their experts; 0 where they can.

    0: a copy for each expert goes anywhere

    Returns: [flag] reason
    Flags: REASONS
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1
    """
    return 0.0


@alternative("expert_dispatch_reason", expert_dispatch="per_node")
def per_node_dispatch_reason(experts, experts_per_token, expert_nodes, open_nodes):
    """nodes of the group whole, and nodes that a token may visit; they hold k experts: E M / N >= k

    Source: DeepEP, deep_ep/buffer.py (ranks in whole nodes); DeepSeek-AI 2024, arXiv:2412.19437,
        section 2.1.2 (k experts on at most M nodes)
    """
    holds = experts * open_nodes >= experts_per_token * expert_nodes
    whole = _whole(expert_nodes) & _whole(open_nodes)
    return where(whole, where(holds, 0.0, 20.0), 21.0)


@alternative("expert_fold_reason", rank_order="tp-cp-ep-dp-pp")
def outer_expert_fold_reason(expert_tensor_parallel, tensor_parallel, residual_ranks):
    """Why experts cannot be folded over ranks that share layers; 0 where they can.

    t_e = t, or tensor ranks hold tokens of their own: sequence parallelism

    Returns: [flag] reason
    Flags: REASONS
    Source: Megatron-LM, megatron/training/arguments.py (experts with tensor parallelism need
        sequence parallelism)
    """
    apart = (expert_tensor_parallel != tensor_parallel) & (residual_ranks < tensor_parallel)
    return where(apart, 19.0, 0.0)


@alternative("expert_fold_reason", rank_order="tp-cp-ep-pp-dp")
def inner_expert_fold_reason(
    expert_tensor_parallel,
    tensor_parallel,
    residual_ranks,
    context_parallel,
    expert_parallel,
    pipeline_parallel,
):
    """as where stages lie outside; with several stages t_e e = t c: as many replicas of experts

    Source: Megatron-LM, megatron/core/parallel_state.py (initialize_model_parallel: unless stages
        are outermost, replicas of experts and of attention are as many)
    """
    folded = expert_tensor_parallel * expert_parallel != tensor_parallel * context_parallel
    reason = outer_expert_fold_reason(expert_tensor_parallel, tensor_parallel, residual_ranks)
    return where((pipeline_parallel > 1) & folded, 19.0, reason)


@alternative("expert_layout_reason", mixture_of_experts=False)
def dense_expert_layout_reason(layout_reason, expert_parallel):
    """Why a layout cannot be laid out: a dense model has no experts to share.

    the layout's reason; expert parallelism above 1 has nothing to share; undefined inputs give NaN

    Returns: [flag] reason
    Flags: REASONS
    Source: constraints of Megatron-LM's layout (megatron/core/parallel_state.py)
    """
    alone = where(expert_parallel > 1, 9.0, 0.0)
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
    """Why a layout cannot be laid out: experts divide over their group, and it over replicas.

    the layout's reason; E / e and d c t / (t_e e) whole; no more dense layers than layers, and no
    more experts of a token than experts; the reason of experts folded over other ranks; of dispatch
    """
    ranks = gradient_ranks / parameter_copies  # a mirrored stage sees other micro-batches
    ranks = ranks * (tensor_parallel / expert_tensor_parallel)
    divides = _whole(experts / expert_parallel) & _whole(ranks / expert_parallel)
    divides = divides & _whole(expert_parallel) & _whole(expert_tensor_parallel)
    divides = divides & (expert_layers >= 0) & (experts_per_token <= experts)
    divides = divides & _whole(experts) & _whole(experts_per_token)
    placed = where(expert_fold_reason == 0, dispatch_reason, expert_fold_reason)
    known = experts + experts_per_token + expert_parallel + expert_layers
    shared = where(known == known, where(divides, placed, 9.0), np.nan)
    return where(layout_reason == 0, shared, layout_reason)


@alternative("sharding_reason", hybrid_sharding=False)
def whole_sharding_reason():
    """Why replicas cannot form sharding groups; 0 where they can.

    0: all of them are one

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return 0.0


@alternative("sharding_reason", hybrid_sharding=True)
def hybrid_sharding_reason(shard_replicas, data_parallel_shard):
    """d_s whole, and d / d_s, the replicas of a site

    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (parallel_dims.py: dp_replicate x
        dp_shard x cp x tp x pp = world size); Megatron-LM, megatron/core/parallel_state.py
        (num_distributed_optimizer_instances divides the data-parallel size)
    """
    reason = where(_whole(shard_replicas) & _whole(data_parallel_shard), 0.0, 18.0)
    return where(shard_replicas == shard_replicas, reason, np.nan)


@alternative("domain_reason", scale_up_domain=False)
def no_domain_reason():
    """Why nodes cannot form scale-up domains; 0 where they can.

    0: a node is all there is

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return 0.0


@alternative("domain_reason", scale_up_domain=True)
def whole_domain_reason(gpus_per_domain, gpus_per_node):
    """GPUs of a domain over those of a node whole

    Source: by definition (a domain is a switch behind whole nodes)
    """
    nodes = gpus_per_domain / gpus_per_node
    whole = _whole(nodes) & _whole(gpus_per_domain)
    return where(nodes == nodes, where(whole, 0.0, 30.0), np.nan)


@alternative("tier_reason", network_tiers=False)
def no_tier_reason():
    """Why tiers of a network do not hold each other; 0 where they do.

    0: leaf switches are all there is

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return 0.0


@alternative("tier_reason", network_tiers=True)
def nested_tier_reason(gpus_per_pod, scale_up_gpus, leaf_gpus):
    """a pod holds a node, or a scale-up domain, and what one leaf switch joins

    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (a pod is leaf switches and a layer above)
    """
    holds = gpus_per_pod >= np.maximum(scale_up_gpus, leaf_gpus)
    known = gpus_per_pod + scale_up_gpus + leaf_gpus
    return where(known == known, where(holds, 0.0, 31.0), np.nan)


@alternative("training_stages_reason", training_stages="one")
def one_training_stage_reason():
    """Why stages of training do not fit into a run; 0 where they do.

    0: there is one

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return 0.0


@alternative("training_stages_reason", training_stages="several")
def several_training_stages_reason(
    ramp_tokens,
    ramp_start_batch_size,
    long_context_tokens,
    tokens_to_target,
    global_batch_size,
    micro_batch_size,
    data_parallel,
):
    """tokens of the ramp and of long sequences are among those of the run (29); a ramp starts with
    no larger batch than it ends with (29), and with whole micro-batches for each replica (4, 5)

    Source: Megatron-LM, megatron/core/num_microbatches_calculator.py (RampupBatchsize: the start
        is a multiple of micro-batch x data-parallel size, and not above the batch)
    """
    slices = micro_batch_size * data_parallel
    starts = where(_whole(ramp_start_batch_size / slices), 0.0, 5.0)
    starts = where(ramp_start_batch_size < slices, 4.0, starts)
    starts = where(ramp_start_batch_size > global_batch_size, 29.0, starts)
    starts = where(ramp_tokens > 0, starts, 0.0)
    fits = ramp_tokens + long_context_tokens <= tokens_to_target
    known = tokens_to_target + slices + global_batch_size
    return where(known == known, where(fits, starts, 29.0), np.nan)


def arrangement_reason(
    expert_layout_reason,
    head_reason,
    layer_kinds_reason,
    domain_reason,
    tier_reason,
    site_reason,
    sharding_reason,
    torus_reason,
    training_stages_reason,
):
    """Why a job's groups cannot be laid out, the gravest reason first; 0 where they can.

    those of the layout, of heads shared out, of kinds of layers, of sites, of domains, of tiers, of
    sharding groups, of a torus, of the stages of training

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    inside = where(torus_reason == 0, training_stages_reason, torus_reason)
    inside = where(sharding_reason == 0, inside, sharding_reason)
    inside = where(tier_reason == 0, inside, tier_reason)
    inside = where(domain_reason == 0, inside, domain_reason)
    inside = where(site_reason == 0, inside, site_reason)
    inside = where(layer_kinds_reason == 0, inside, layer_kinds_reason)
    inside = where(head_reason == 0, inside, head_reason)
    return where(expert_layout_reason == 0, inside, expert_layout_reason)


def capacity_reason(arrangement_reason, memory_per_gpu, memory_error_factor, hbm_capacity):
    """Why a layout cannot be run, memory counted: refused where the model's error cannot save it.

    the layout's reason; memory needed / error factor <= capacity; NaN where either is undefined

    Returns: [flag] reason
    Flags: REASONS
    Range: within the error factor of the capacity either may be true: `near_memory_limit`
    Source: by definition
    """
    full = where(memory_per_gpu / memory_error_factor > hbm_capacity, 10.0, 0.0)
    known = memory_per_gpu + hbm_capacity
    full = where(known == known, full, np.nan)
    return where(arrangement_reason == 0, full, arrangement_reason)


@alternative("torus_reason", all_reduce=SWITCHED)
def switched_torus_reason():
    """Why a torus cannot hold a job; 0 where it can.

    0: switches connect all

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return 0.0


@alternative("torus_order_reason", rank_order="tp-cp-ep-dp-pp")
def outer_torus_order_reason(expert_tensor_parallel, tensor_parallel):
    """Why groups in their order do not lie along a torus; 0 where they do.

    t_e = t: experts that are folded over other ranks fill no box of their own

    Returns: [flag] reason
    Flags: REASONS
    Source: Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2 (slices of a pod); JAX,
        jax.experimental.mesh_utils.create_device_mesh (axes of a mesh along those of a torus)
    """
    return where(expert_tensor_parallel == tensor_parallel, 0.0, 24.0)


@alternative("torus_order_reason", rank_order="tp-cp-ep-pp-dp")
def inner_torus_order_reason(
    expert_tensor_parallel, tensor_parallel, context_parallel, expert_parallel, pipeline_parallel
):
    """t_e = t, p = 1, and c = 1 or e = 1, where ranks lie as in the other order: replicas on both
    sides of pipeline stages, or of experts folded over a sequence, are not counted along a torus
    """
    alike = (expert_tensor_parallel == tensor_parallel) & (pipeline_parallel == 1)
    alike = alike & ((context_parallel == 1) | (expert_parallel == 1))
    return where(alike, 0.0, 24.0)


@alternative("torus_reason", all_reduce="torus")
def ring_torus_reason(
    n_gpus,
    scale_up_gpus,
    largest_slice,
    torus_x,
    torus_y,
    torus_z,
    torus_dimensions,
    torus_twist,
    tensor_parallel,
    context_parallel,
    expert_parallel,
    gradient_ranks,
    site_gradient_ranks,
    torus_order_reason,
):
    """the job is whole tori, each no larger than a pod allows; t, t c, t c e and t c d chips, and
    those of a sharding group, fill a box: each of them divides x, x y and the torus, or is a
    multiple; 1 to 3 dimensions, and one chip along those in which a chip has no links; in two, no
    side longer than that of a square pod; twisted tori are n x n x 2n or n x 2n x 2n, n from 4; the
    reason of the groups' order

    Source: Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2 (slices of a pod); Google Cloud
        TPU documentation, v5e and v6e (slices of a pod of 16 x 16); JAX,
        jax.experimental.mesh_utils.create_device_mesh (axes of a mesh along those of a torus)
    """
    sequence = tensor_parallel * context_parallel
    group, replicas = tensor_parallel * gradient_ranks, tensor_parallel * site_gradient_ranks
    boxes = _fills(tensor_parallel, torus_x, torus_y, scale_up_gpus)
    boxes = boxes & _fills(sequence, torus_x, torus_y, scale_up_gpus)
    boxes = boxes & _fills(sequence * expert_parallel, torus_x, torus_y, scale_up_gpus)
    boxes = boxes & _fills(group, torus_x, torus_y, scale_up_gpus)
    boxes = boxes & _fills(replicas, torus_x, torus_y, scale_up_gpus)
    tori = n_gpus / scale_up_gpus
    whole = (np.floor(torus_x) == torus_x) & (np.floor(torus_y) == torus_y)
    whole = whole & (np.floor(torus_z) == torus_z) & (np.floor(tori) == tori)
    linked = (torus_dimensions == 3) | ((torus_dimensions == 2) & (torus_z == 1))
    whole = whole & (linked | ((torus_dimensions == 1) & (torus_y == 1) & (torus_z == 1)))
    short = np.minimum(np.minimum(torus_x, torus_y), torus_z)
    twice = (_once_or_twice(torus_x, short) & _once_or_twice(torus_y, short)) & (short >= 4)
    twice = twice & _once_or_twice(torus_z, short) & (scale_up_gpus > short * short * short)
    twice = twice & (scale_up_gpus < 8 * short * short * short)
    order = where(torus_order_reason == 0, 0.0, 24.0)
    reason = where(whole & boxes & ((torus_twist == 0) | twice), order, 24.0)
    side = np.maximum(torus_x, torus_y)
    beyond = (torus_dimensions == 2) & (side * side > largest_slice)
    reason = where((scale_up_gpus > largest_slice) | beyond, 25.0, reason)
    known = n_gpus + scale_up_gpus + torus_x + torus_y + sequence + expert_parallel
    return where(known == known, reason, np.nan)


@alternative("goodput_reason", goodput_model="exact")
def exact_goodput_reason():
    """Why a job makes no progress by its goodput; 0 where it makes some.

    0: the exact model leaves a share, however small

    Returns: [flag] reason
    Flags: REASONS
    Range: where that share is below 1e-308 goodput is 0, and what is divided by it infinite
    Source: Daly 2006, FGCS 22(3), eq. 13
    """
    return 0.0


@alternative("goodput_reason", goodput_model="first_order")
def first_order_goodput_reason(checkpoint_overhead, rework_overhead, recovery_overhead):
    """checkpoints + rework + recovery < 1

    Range: the exact model may have a goodput where the first order has none
    Source: Young 1974, CACM 17(9), with a recovery term
    """
    return _progress_reason(1 - (checkpoint_overhead + rework_overhead + recovery_overhead))


@alternative("goodput_reason", goodput_model="additive")
def additive_goodput_reason(
    checkpoint_overhead,
    rework_overhead,
    recovery_overhead,
    bubble_budget,
    maintenance_budget,
    cluster_uptime,
):
    """checkpoints + rework + recovery + u (bubbles + maintenance) < 1

    Source: Fleet Foundations table 8
    """
    lost = checkpoint_overhead + rework_overhead + recovery_overhead
    return _progress_reason(1 - (lost + cluster_uptime * (bubble_budget + maintenance_budget)))


@alternative("progress_reason", elastic="off")
def rigid_progress_reason(goodput_reason):
    """Why a job makes no progress; 0 where it makes some.

    that of its goodput

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return 1.0 * goodput_reason


@alternative("progress_reason", elastic="shrink")
def shrinking_progress_reason(goodput_reason, elastic_capacity):
    """that of its goodput; some replicas run"""
    return where(goodput_reason == 0, _progress_reason(elastic_capacity), goodput_reason)


@alternative("infeasible_reason", checkpoint_mode="sync")
def sync_infeasible_reason(capacity_reason, progress_reason):
    """Why a job cannot be run as it stands, the gravest reason first; 0 where it can.

    the reason of layout and memory; it makes progress

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return where(capacity_reason == 0, progress_reason, capacity_reason)


@alternative("infeasible_reason", checkpoint_mode=("async", "in_memory"))
def flushed_infeasible_reason(
    capacity_reason, progress_reason, checkpoint_interval, checkpoint_flush_time
):
    """the reason of layout and memory; checkpoints follow each other no faster than they are
    flushed; it makes progress

    Source: Mohan et al. 2021 (CheckFreq), FAST, section 4 (one checkpoint in flight)
    """
    early = where(checkpoint_interval < checkpoint_flush_time, 11.0, progress_reason)
    known = checkpoint_interval + checkpoint_flush_time
    early = where(known == known, early, np.nan)
    return where(capacity_reason == 0, early, capacity_reason)


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
):
    """the reason of layout and memory; drives survive what memory does; tiers hold what is written;
    no tier's checkpoints follow each other faster than they are flushed; it makes progress

    Source: Moody et al. 2010, SC10; Mohan et al. 2021 (CheckFreq), FAST, section 4
    """
    early = where(checkpoint_interval < checkpoint_flush_time, 11.0, progress_reason)
    small = (memory_tier_survival > 0) & (memory_tier_bytes > checkpoint_memory_capacity)
    driven = drive_tier_survival > memory_tier_survival
    small = small | (driven & (drive_tier_bytes > checkpoint_drive_capacity))
    early = where(small, 32.0, early)
    beaten = (drive_tier_survival > 0) & (drive_tier_survival < memory_tier_survival)
    early = where(beaten, 33.0, early)
    known = checkpoint_interval + checkpoint_flush_time + memory_tier_bytes
    early = where(known == known, early, np.nan)
    return where(capacity_reason == 0, early, capacity_reason)


def feasible(infeasible_reason):
    """Whether a job can be run as it stands.

    reason = 0

    Returns: [flag] verdict
    Flags: 0 no, 1 yes
    Source: by definition
    """
    known = infeasible_reason == infeasible_reason
    return where(known, where(infeasible_reason == 0, 1.0, 0.0), np.nan)


def _whole(value):
    """Whether a value is a whole number.

    floor(x) = x

    Parameters:
        value [1]: any number
    Returns: [1] true or false
    Source: by definition
    """
    return np.floor(value) == value


def _once_or_twice(size, short):
    """Whether a size is another, or twice as much."""
    return (size == short) | (size == 2 * short)


def _fills(chips, x, y, torus):
    """Whether groups of neighbouring chips are boxes of a torus."""
    return _divides(chips, x) & _divides(chips, x * y) & _divides(chips, torus)


def _divides(one, other):
    """Whether one of two numbers divides the other."""
    up, down = one / other, other / one
    return (np.floor(up) == up) | (np.floor(down) == down)


def _progress_reason(share):
    """Why a job makes no progress, by the share of the time that is left for it."""
    left = share > 1e-12  # beyond the rounding of shares that add up to 1
    return where(share == share, where(left, 0.0, 15.0), np.nan)
