"""Pipeline schedules: bubble, micro-batches in flight, passes that overlap."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...laws.pipeline import bubble_ratio as idle_over_ideal
from ...laws.pipeline import dual_idle_passes
from ...ops import where
from ..layout.layout import PLAIN

LEVEL = ("gpipe", "zb_h1", "zb_v", "dualpipe", "dualpipev")  # equally many in flight on all stages


row(
    "microbatches_in_flight",
    "num_microbatches",
    source="Huang et al. 2019 (GPipe), arXiv:1811.06965, section 2.3",
    pipeline_schedule="gpipe",
)


@alternative("microbatches_in_flight", pipeline_schedule=("1f1b", "interleaved", "combined_1f1b"))
def one_forward_one_backward_microbatches_in_flight(
    pipeline_parallel, num_microbatches, virtual_stages, microbatch_group_size
):
    """Micro-batches in flight on the first stage, in units of the whole stage's activations.

    min(m, p); min(m, ((v - 1) N + 2 (p - 1) + 1) / v) with v > 1 chunks on a stage

    Returns: [1] micro-batches
    Range: passes of combined_1f1b that overlap count as one: the first fills while the other
        empties, layer by layer, one more of which is not counted
    Source: Narayanan et al. 2021 (SC21), section 2.2; Korthikanti et al. 2022, section 4.2.3 (N =
        p); Megatron-LM, megatron/core/pipeline_parallel/schedules.py (warm-up of groups of N)
    """
    chunks = (virtual_stages - 1) * microbatch_group_size + 2 * pipeline_parallel - 1
    most = where(virtual_stages > 1, chunks / virtual_stages, pipeline_parallel)
    return np.minimum(num_microbatches, most)


@alternative("microbatches_in_flight", pipeline_schedule=("zb_h1", "zb_v"))
def zero_bubble_microbatches_in_flight(pipeline_parallel, num_microbatches):
    """Micro-batches in flight on one stage: as many as with 1F1B.

    min(m, p)

    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 2.2; Qi et al. 2024,
        arXiv:2405.15362, section 3 (V-shaped schedule)
    """
    return np.minimum(num_microbatches, pipeline_parallel)


row(
    "schedule_depth",
    "microbatches_in_flight",
    "as many as it holds",
    source=(
        "Huang et al. 2019 (GPipe), arXiv:1811.06965, section 2.3; Qi et al. 2023 (zero "
        "bubble), arXiv:2401.10241, section 2.2"
    ),
    pipeline_schedule=LEVEL,
)


@alternative("schedule_depth", pipeline_schedule=("1f1b", "interleaved", "combined_1f1b"))
def one_forward_one_backward_schedule_depth(
    pipeline_parallel, virtual_stages, microbatch_group_size
):
    """Maximum micro-batches in flight on the first stage, for unlimited micro-batches.

    p; ((v - 1) N + 2 (p - 1) + 1) / v with v > 1 chunks on a stage

    Returns: [1] micro-batches
    Source: Narayanan et al. 2021 (SC21), section 2.2; Korthikanti et al. 2022, section 4.2.3
    """
    return one_forward_one_backward_microbatches_in_flight(
        pipeline_parallel, np.inf, virtual_stages, microbatch_group_size
    )


@alternative("bubble_ratio", pipeline_schedule=("dualpipe", "dualpipev"))
def dual_bubble_ratio(pipeline_parallel, num_microbatches, stage_chunks, recompute_flops_factor):
    """bidirectional: idle passes of q = v p / 2 stages / (3 f v m), v = 2 pieces (dualpipev) or 1

    Range: even numbers of stages and micro-batches (dualpipe), at least 2 p micro-batches:
        elsewhere the reason dual_pipeline_does_not_fit
    Source: DeepSeek-AI 2024, arXiv:2412.19437, table 2; dualpipe/dualpipe.py and dualpipev.py of
        github.com/deepseek-ai/DualPipe, by playing them out
    """
    idle = dual_idle_passes(stage_chunks * pipeline_parallel / 2, recompute_flops_factor)
    return idle / (3 * recompute_flops_factor * stage_chunks * num_microbatches)


@alternative("microbatches_in_flight", pipeline_schedule=("dualpipe", "dualpipev"))
def dual_microbatches_in_flight(pipeline_parallel, stage_chunks):
    """Micro-batches in flight on one stage, in units of the whole stage's activations.

    p + 1 / v: those of both directions, and one more while its pass overlaps a backward pass

    Range: same as dual_bubble_ratio
    Source: DeepSeek-AI 2024, arXiv:2412.19437, table 2 (PP + 1)
    """
    return pipeline_parallel + 1 / stage_chunks


@alternative("asynchronous_pipeline_sends", pipeline_schedule="combined_1f1b")
def combined_asynchronous_pipeline_sends(pipeline_parallel, num_microbatches, stage_chunks):
    """v (m + p) + p - 4: each pair of passes waits for neighbours' latest sends

    Range: sends shorter than a chunk's passes; exact for m > p in groups of p micro-batches and
        passes that take as long overlapped as apart, else an upper bound
    Source: Megatron-LM, megatron/core/pipeline_parallel/combined_1f1b.py; by playing the schedule
        out
    """
    sends = stage_chunks * (num_microbatches + pipeline_parallel) + pipeline_parallel - 4
    return where(pipeline_parallel > 1, sends, 0.0)


@alternative("asynchronous_pipeline_sends", pipeline_schedule=("dualpipe", "dualpipev"))
def dual_asynchronous_pipeline_sends(pipeline_parallel, num_microbatches, stage_chunks):
    """2 v (m - floor(m / p)) + max(1.5 v p - v - 5, -1): pairs of passes wait for neighbours' sends

    Range: sends shorter than a weight gradient; upper bound, exact with recompute if p divides m
    Source: dualpipe/dualpipe.py and dualpipev.py of github.com/deepseek-ai/DualPipe (DeepSeek-AI
        2024, arXiv:2412.19437), by playing them out
    """
    rounds = np.floor(num_microbatches / pipeline_parallel)
    ends = np.maximum(1.5 * stage_chunks * pipeline_parallel - stage_chunks - 5, -1.0)
    sends = 2 * stage_chunks * (num_microbatches - rounds) + ends
    return where(pipeline_parallel > 1, sends, 0.0)


row(
    "logits_at_first",
    0.0,
    "the last one does",
    summary="Whether the first stage of several yields logits, too.",
    returns="[1] 1 or 0",
    source="Narayanan et al. 2021 (SC21), section 2.2",
    pipeline_schedule=("gpipe", "1f1b", "interleaved", "combined_1f1b", "zb_h1"),
)
row(
    "logits_at_first",
    1.0,
    "the model's last piece comes back to it, or runs there the other way",
    source=(
        "Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 6; DeepSeek-AI 2024, "
        "arXiv:2412.19437, section 3.2.3 (embedding and output head on one rank)"
    ),
    pipeline_schedule=("zb_v", "dualpipe", "dualpipev"),
)
row(
    "logits_at_last",
    0.0,
    "the pipeline turns there",
    source="Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 6",
    pipeline_schedule=("zb_v", "dualpipev"),
)
row(
    "logits_at_last",
    1.0,
    summary="Whether the last of several stages yields logits.",
    returns="[1] 1 or 0",
    source="Narayanan et al. 2021 (SC21), section 2.2",
    pipeline_schedule=("gpipe", "1f1b", "interleaved", "combined_1f1b", "zb_h1", "dualpipe"),
)
row(
    "first_stage_kept_ratio",
    1.0,
    "a pipeline_layout whose pieces differ sets it",
    source="Narayanan et al. 2021 (SC21), section 2.2",
    holds=("pieces of a stage that differ by no more than the most even split makes them"),
    pipeline_schedule=PLAIN,
)


@alternative("first_stage_kept_ratio", pipeline_schedule="dualpipe")
def mirrored_first_stage_kept_ratio(
    pipeline_parallel, first_stage_layers, last_stage_layers, prediction_layers
):
    """Activations that the first stage keeps, relative to equal pieces.

    (p l_first + l_last) / ((p + 1) (l_first + l_last) / 2): p micro-batches one way, 1 the other

    Returns: [1] ratio
    Source: dualpipe/dualpipe.py of github.com/deepseek-ai/DualPipe (DeepSeek-AI 2024,
        arXiv:2412.19437, table 2: p + 1 in all)
    """
    p, other = pipeline_parallel, last_stage_layers + prediction_layers
    both = (p + 1) / 2 * (first_stage_layers + other)
    return where(both > 0, (p * first_stage_layers + other) / where(both > 0, both, 1.0), 1.0)


@alternative("bubble_ratio", pipeline_schedule=("gpipe", "1f1b", "interleaved", "combined_1f1b"))
@same_as(idle_over_ideal)
def flushed_bubble_ratio(pipeline_parallel, num_microbatches, stage_chunks):
    """Pipeline bubble over ideal compute time.

    ((v - 1) max(0, p - m) + p - 1) / (v m); (p - 1) / (v m) from m = p on

    Returns: [1] bubble over ideal time
    Range: what a scheduler supports (PyTorch also m < p); a lower bound for points refused with
        microbatch_group_does_not_fit
    Source: Narayanan et al. 2021 (SC21), section 2.2; m < p by playing the schedule out
    """


@alternative("bubble_ratio", pipeline_schedule="zb_h1")
def zb_h1_bubble_ratio(pipeline_parallel, num_microbatches, recompute_flops_factor):
    """weight gradients fill part of 1F1B's bubble: ((p - 1) (F + B) - (min(m, p) - 1) W) / (m (F +
    B + W)), F = W = 1, B = 3 f - 2; for m >= p (p - 1) / (3 m), with full recompute (p - 1) / (2 m)

    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 2.3; m < p and recompute by
        playing the schedule out
    """
    passes = 3 * recompute_flops_factor
    filled = np.minimum(num_microbatches, pipeline_parallel) - 1
    return ((pipeline_parallel - 1) * (passes - 1) - filled) / (num_microbatches * passes)


@alternative("bubble_ratio", pipeline_schedule="zb_v")
def zb_v_bubble_ratio(folded_idle_passes, num_microbatches, recompute_flops_factor):
    """two pieces per stage: idle / (2 m (F + B + W)), in forward passes of a piece; F + B + W = 3 f

    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 6
    """
    return folded_idle_passes / (6 * num_microbatches * recompute_flops_factor)


@alternative("folded_idle_passes", pipeline_flush=True)
def flushed_folded_idle_passes(pipeline_parallel, num_microbatches, recompute_flops_factor):
    """Idle time per step of a folded pipeline, in forward passes of a piece; each step is flushed.

    max((p - 1) B, (p - 1) (F + B + W) - 2 (m - 1) W, 2 (p - 1) (F + B) - W - 2 (m - 1) (F + W)),
    F = W = 1, B = 3 f - 2: from m = p on p - 1, with full recompute 2 (p - 1)

    Returns: [1] passes
    Range: exact for f = 1 and f = 4/3; up to two passes more between them
    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 6; by playing the authors'
        schedule out
    """
    before, passes = pipeline_parallel - 1, 3 * recompute_flops_factor
    more = 2 * (num_microbatches - 1)
    idle = np.maximum(before * (passes - 2), before * passes - more)
    return np.maximum(idle, 2 * before * (passes - 1) - 1 - 2 * more)


@alternative("folded_idle_passes", pipeline_flush=False)
def bypassed_folded_idle_passes(pipeline_parallel, num_microbatches, recompute_flops_factor):
    """Idle time per step of a folded pipeline, in forward passes of a piece; steps overlap.

    max(0, (2 p - 3) (B - F), 2 p - 1 - m, 2 (p - 1) (F + B) - W - 2 (m - 1) (F + W)), F = W = 1,
    B = 3 f - 2: 0 from m = 2 p - 1 on, with full recompute 2 p - 3 from m = p on

    Range: exact for f = 1 and f = 4/3; within two passes between them
    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, sections 4 and 6; by playing the
        authors' schedule out
    """
    before, passes = pipeline_parallel - 1, 3 * recompute_flops_factor
    idle = np.maximum(0.0, (2 * pipeline_parallel - 3) * (passes - 3))
    idle = np.maximum(idle, 2 * pipeline_parallel - 1 - num_microbatches)
    return np.maximum(idle, 2 * before * (passes - 1) - 1 - 4 * (num_microbatches - 1))


def bubble_fraction(bubble_ratio):
    """Pipeline bubble over total time.

    r / (1 + r); (p - 1) / (v m + p - 1) for 1F1B

    Returns: [1] bubble over total time
    Range: identical stages; the extra wait of unequal stages is only in bubble_time
    Source: Huang et al. 2019 (GPipe), section 2.3
    """
    return bubble_ratio / (1 + bubble_ratio)
