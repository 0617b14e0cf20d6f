"""Pipelines whose passes overlap: combined 1F1B, DualPipe and DualPipeV.

What they share with other schedules is an alternative beside those; here is what is theirs alone.
"""

import numpy as np

from ..alternatives import alternative
from ..ops import where
from ..pipeline import dual_idle_passes
from .expert_traffic import routed_exposed_expert_parallel_time

PLAIN = ("gpipe", "1f1b", "interleaved", "combined_1f1b", "zb_h1", "zb_v", "dualpipev")


@alternative("parameter_copies", pipeline_schedule=PLAIN)
def single_parameter_copies():
    """Stages of one pipeline whose weights each GPU holds.

    1

    Returns: [1] copies
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    return 1.0


@alternative("parameter_copies", pipeline_schedule="dualpipe")
def mirrored_parameter_copies():
    """Stages of one pipeline whose weights each GPU holds: its own, and one of the other way.

    2: stage s also holds stage p - 1 - s, and both add up the gradients of both

    Range: ZeRO-0 and 1; with 2 and 3 gradient traffic is a bound from above, twice as long: of each
        micro-batch as if both stages exchanged
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 and table 2 (parameters: 2 times)
    """
    return 2.0


@alternative("bubble_ratio", pipeline_schedule=("dualpipe", "dualpipev"))
def dual_bubble_ratio(pipeline_parallel, num_microbatches, stage_chunks, recompute_flops_factor):
    """Pipeline idle time over useful time: micro-batches run both ways through the stages.

    idle passes of q = v p / 2 stages / (3 f v m), v pieces on each stage (2 in dualpipev)

    Range: even stages and micro-batches (dualpipe), at least 2 p of these: elsewhere the reason
        dual_pipeline_does_not_fit
    Source: DeepSeek-AI 2024, arXiv:2412.19437, table 2; dualpipe/dualpipe.py and dualpipev.py of
        github.com/deepseek-ai/DualPipe, by playing them out
    """
    idle = dual_idle_passes(stage_chunks * pipeline_parallel / 2, recompute_flops_factor)
    return idle / (3 * recompute_flops_factor * stage_chunks * num_microbatches)


@alternative("microbatches_in_flight", pipeline_schedule=("dualpipe", "dualpipev"))
def dual_microbatches_in_flight(pipeline_parallel, stage_chunks):
    """Micro-batches whose activations one stage holds at once, in those of a whole stage.

    p + 1 / v: all that run both ways, and one more while its pass overlaps with a backward pass

    Range: as of dual_bubble_ratio
    Source: DeepSeek-AI 2024, arXiv:2412.19437, table 2 (PP + 1)
    """
    return pipeline_parallel + 1 / stage_chunks


@alternative("microbatches_in_flight", pipeline_schedule="combined_1f1b")
def combined_microbatches_in_flight(
    pipeline_parallel, num_microbatches, stage_chunks, microbatch_group_size
):
    """min(m, ((v - 1) N + 2 p) / v): one forward pass more is ahead than in interleaved 1F1B

    Source: Megatron-LM, megatron/core/pipeline_parallel/schedules.py (get_pp_rank_microbatches)
    """
    chunks = (stage_chunks - 1) * microbatch_group_size + 2 * pipeline_parallel
    return np.minimum(num_microbatches, chunks / stage_chunks)


@alternative("asynchronous_pipeline_sends", pipeline_schedule="combined_1f1b")
def combined_asynchronous_pipeline_sends(pipeline_parallel, num_microbatches, stage_chunks):
    """v (m + p) + p - 4: each pair of passes needs what neighbours have just sent

    Range: sends shorter than a chunk's passes; exact for groups of p micro-batches out of more and
        passes that together take as long as apart, a bound from above else
    Source: Megatron-LM, megatron/core/pipeline_parallel/combined_1f1b.py; by playing the schedule
        out
    """
    sends = stage_chunks * (num_microbatches + pipeline_parallel) + pipeline_parallel - 4
    return where(pipeline_parallel > 1, sends, 0.0)


@alternative("asynchronous_pipeline_sends", pipeline_schedule=("dualpipe", "dualpipev"))
def dual_asynchronous_pipeline_sends(pipeline_parallel, num_microbatches, stage_chunks):
    """2 v m (1 - 1 / p) + v p - 1: pairs of passes need what neighbours have just sent

    Range: sends shorter than a weight gradient; a bound from above, near for many micro-batches
    Source: dualpipe/dualpipe.py and dualpipev.py of github.com/deepseek-ai/DualPipe (DeepSeek-AI
        2024, arXiv:2412.19437), by playing them out
    """
    inner = 2 * stage_chunks * num_microbatches * (1 - 1 / pipeline_parallel)
    sends = inner + stage_chunks * pipeline_parallel - 1
    return where(pipeline_parallel > 1, sends, 0.0)


@alternative(
    "unpaired_expert_time",
    pipeline_schedule=("gpipe", "1f1b", "interleaved", "zb_h1", "zb_v"),
)
def no_unpaired_expert_time():
    """Time that a step waits for expert traffic of passes beside which no other runs.

    0: what hides traffic is in each pass

    Returns: [s] exposed traffic of one step
    Source: by definition
    """
    return 0.0


@alternative("unpaired_expert_time", pipeline_schedule="combined_1f1b")
def combined_unpaired_expert_time(
    expert_parallel_time,
    expert_overlap_share,
    compute_time,
    exposed_tensor_parallel_time,
    exposed_context_parallel_time,
    expert_all_to_alls_per_layer,
    recompute_flops_factor,
    pipeline_parallel,
    num_microbatches,
    stage_chunks,
    microbatch_group_size,
):
    """(g hidden + (p - 1) max(0, backward - exposed - forward compute)) / (v m + p - 1): of as many
    slots, g = (v - 1) N + p have a forward pass alone and as many a backward pass; where a
    backward pass takes longer than a pair, p - 1 pairs wait for one

    Returns: [s] exposed traffic of one step, without what bubble_time adds in proportion
    Range: what Megatron-Core runs: elsewhere the reason passes_do_not_overlap; with fewer than
        2 p - 1 micro-batches a bound from above, by 2 % of a step at most; with
        shared_expert_overlap, which Megatron-Core does not combine, a bound from above
    Source: Megatron-LM, megatron/core/pipeline_parallel/combined_1f1b.py, by playing it out
    """
    window = compute_time + exposed_tensor_parallel_time + exposed_context_parallel_time
    exposed = routed_exposed_expert_parallel_time(
        expert_parallel_time,
        expert_overlap_share,
        compute_time,
        exposed_tensor_parallel_time,
        exposed_context_parallel_time,
        0.0,
    )
    backward = expert_parallel_time * (1 - 2 / expert_all_to_alls_per_layer)
    longer = np.maximum(0.0, backward - exposed - window / (3 * recompute_flops_factor))
    alone = (stage_chunks - 1) * microbatch_group_size + pipeline_parallel
    waits = alone * (expert_parallel_time - exposed) + (pipeline_parallel - 1) * longer
    return waits / (stage_chunks * num_microbatches + pipeline_parallel - 1)


@alternative("unpaired_expert_time", pipeline_schedule=("dualpipe", "dualpipev"))
def dual_unpaired_expert_time(
    expert_parallel_time,
    expert_overlap_share,
    compute_time,
    exposed_tensor_parallel_time,
    exposed_context_parallel_time,
    expert_all_to_alls_per_layer,
    recompute_flops_factor,
    pipeline_parallel,
    num_microbatches,
    stage_chunks,
    bubble_ratio,
):
    """(e + (3 q A_f + (2 q + 1) A_b - (q + 2) e + c + (2 q - 2) max(0, A_b - e - F)) / (v m)) /
    (1 + bubble) - e, c = max(0, (q - 1) (B + A_b) - q (F + A_f)) - max(0, (q - 1) B - q F): traffic
    A_f and A_b of forward and backward passes, e of it exposed in pairs; forward passes F, input
    gradients B; q = v p / 2

    Returns: [s] exposed traffic of one step, without what bubble_time adds in proportion
    Range: as of dual_bubble_ratio; a bound from below, by 1 % of a step at most, where traffic is
        as long as compute or longer; with shared_expert_overlap a bound from above: lone passes
        hide traffic, too
    Source: dualpipe/dualpipe.py and dualpipev.py of github.com/deepseek-ai/DualPipe (DeepSeek-AI
        2024, arXiv:2412.19437), by playing them out
    """
    window = compute_time + exposed_tensor_parallel_time + exposed_context_parallel_time
    exposed = routed_exposed_expert_parallel_time(
        expert_parallel_time,
        expert_overlap_share,
        compute_time,
        exposed_tensor_parallel_time,
        exposed_context_parallel_time,
        0.0,
    )
    there = 2 * expert_parallel_time / expert_all_to_alls_per_layer
    back = expert_parallel_time - there
    stages = np.maximum(stage_chunks * pipeline_parallel / 2, 1.0)
    before = stages - 1
    forward = window / (3 * recompute_flops_factor)
    gradient = forward * (3 * recompute_flops_factor - 2)
    crossing = np.maximum(0.0, before * (gradient + back) - stages * (forward + there))
    crossing = crossing - np.maximum(0.0, before * gradient - stages * forward)
    alone = 3 * stages * there + (2 * stages + 1) * back - (stages + 2) * exposed
    longer = 2 * before * np.maximum(0.0, back - exposed - forward)
    waits = exposed + (alone + crossing + longer) / (stage_chunks * num_microbatches)
    return waits / (1 + bubble_ratio) - exposed


@alternative("schedule_depth", pipeline_schedule="combined_1f1b")
def combined_schedule_depth(pipeline_parallel, stage_chunks, microbatch_group_size):
    """((v - 1) N + 2 p) / v

    Source: Megatron-LM, megatron/core/pipeline_parallel/schedules.py (get_pp_rank_microbatches)
    """
    return combined_microbatches_in_flight(
        pipeline_parallel, np.inf, stage_chunks, microbatch_group_size
    )


@alternative(
    "logits_at_first", pipeline_schedule=("gpipe", "1f1b", "interleaved", "combined_1f1b", "zb_h1")
)
def far_logits_at_first():
    """Whether the first stage of several yields logits, too.

    0: the last one does

    Returns: [1] 1 or 0
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    return 0.0


@alternative("logits_at_first", pipeline_schedule=("zb_v", "dualpipe", "dualpipev"))
def folded_logits_at_first():
    """1: the model's last piece comes back to it, or runs there the other way

    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 6; DeepSeek-AI 2024,
        arXiv:2412.19437, section 3.2.3 (embedding and output head on one rank)
    """
    return 1.0


@alternative("logits_at_last", pipeline_schedule=("zb_v", "dualpipev"))
def folded_logits_at_last():
    """0: the pipeline turns there

    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 6
    """
    return 0.0


@alternative(
    "logits_at_last",
    pipeline_schedule=("gpipe", "1f1b", "interleaved", "combined_1f1b", "zb_h1", "dualpipe"),
)
def far_logits_at_last():
    """Whether the last of several stages yields logits.

    1

    Returns: [1] 1 or 0
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    return 1.0


@alternative("first_stage_kept_ratio", pipeline_schedule=PLAIN)
def plain_first_stage_kept_ratio():
    """Activations that the first stage keeps over those of pieces that are alike.

    1; a pipeline_layout whose pieces differ sets it

    Returns: [1] ratio
    Range: pieces of a stage that differ by no more than the most even split makes them
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    return 1.0


@alternative("first_stage_kept_ratio", pipeline_schedule="dualpipe")
def mirrored_first_stage_kept_ratio(
    pipeline_parallel, first_stage_layers, last_stage_layers, prediction_layers
):
    """(p l_first + l_last) / ((p + 1) (l_first + l_last) / 2): p micro-batches of its own way, one
    of the other

    Source: dualpipe/dualpipe.py of github.com/deepseek-ai/DualPipe (DeepSeek-AI 2024,
        arXiv:2412.19437, table 2: p + 1 in all)
    """
    p, other = pipeline_parallel, last_stage_layers + prediction_layers
    both = (p + 1) / 2 * (first_stage_layers + other)
    return where(both > 0, (p * first_stage_layers + other) / where(both > 0, both, 1.0), 1.0)
