"""Stages of one run: batch-size ramp, long sequences at the end."""

import numpy as np

from ...alternatives import alternative
from ...ops import where


@alternative("ramp_steps", batch_ramp="linear")
def linear_ramp_steps(ramp_tokens, ramp_start_batch_size, global_batch_size, sequence_length):
    """Steps of a batch-size ramp that is linear in tokens.

    R / s x ln(B / B_0) / (B - B_0)

    Returns: [1] steps
    Range: a batch that grows at every step; increments add up to half an increment's steps
    Source: Brown et al. 2020, arXiv:2005.14165, appendix B (linear in tokens); Megatron-LM,
        --rampup-batch-size
    """
    more = global_batch_size / ramp_start_batch_size - 1
    grows = np.abs(more) > 1e-6
    mean = where(grows, np.log1p(more) / where(grows, more, 1.0), 1.0)
    return ramp_tokens / (sequence_length * ramp_start_batch_size) * mean


@alternative("ramp_steps", batch_ramp="step")
def stepped_ramp_steps(ramp_tokens, ramp_start_batch_size, sequence_length):
    """Steps at the smaller batch size, before a single increase.

    R / (s B_0)

    Source: Grattafiori et al. 2024, arXiv:2407.21783, section 3.4.1 (the batch is doubled)
    """
    return ramp_tokens / (sequence_length * ramp_start_batch_size)


def extra_ramp_steps(ramp_steps, ramp_tokens, tokens_per_step):
    """Steps that a batch-size ramp adds to a run.

    ramp steps - R / (B s)

    Returns: [1] steps
    Source: by definition (Brown et al. 2020, arXiv:2005.14165, appendix B)
    """
    return ramp_steps - ramp_tokens / tokens_per_step


@alternative("batch_independent_time", shifted_step_time=False)
def batch_independent_time(
    step_time, compute_time, straggler_time, exposed_layer_communication_time, slow_node_stops
):
    """Part of the step time independent of the batch size: bubble, gradients, optimizer.

    step - (compute + straggler + exposed traffic of layers) x (1 + stops)

    Returns: [s] time of one step
    Range: schedules with a bubble of p - 1 micro-batches; an upper bound with fewer micro-batches
        than stages, or with ZeRO traffic at each micro-batch
    Source: Narayanan et al. 2021 (SC21), section 2.2 (the bubble of a batch of any size)
    """
    growing = compute_time + straggler_time + exposed_layer_communication_time
    return step_time - growing * (1 + slow_node_stops)


@alternative("batch_independent_time", shifted_step_time=True)
def batch_independent_time_of_shifted(
    step_time,
    compute_time,
    straggler_time,
    exposed_layer_communication_time,
    slow_node_stops,
    step_time_ratio,
):
    """Part of the step time independent of the batch size, for a step shifted within its error.

    step - c f^e x (compute + straggler + exposed traffic of layers) x (1 + stops): all parts scaled

    Range: same as without a shift
    """
    growing = compute_time + straggler_time + exposed_layer_communication_time
    return step_time - growing * (1 + slow_node_stops) * step_time_ratio


@alternative("long_context_extra_time", shifted_step_time=False)
def long_context_extra_time(
    attention_time, attention_key_share, long_context_length, sequence_length, bubble_ratio
):
    """Extra attention time of a step with longer sequences and as many tokens.

    attention x share that grows with keys x (s_long / s - 1) x (1 + bubble ratio)

    Returns: [s] time of one step
    Range: full attention, with operations per token linear in sequence length; traffic, layout and
        tokens per step as in the rest of the run. For several stages, `long_context_length` is the
        mean over their tokens. An upper bound with an `attention_window` or a `document_mask`
    Source: Grattafiori et al. 2024, arXiv:2407.21783, sections 3.4.2 (six stages) and table 4
        (16M tokens a step at 8K and at 128K); Narayanan et al. 2021 (SC21), appendix
    """
    longer = attention_key_share * (long_context_length / sequence_length - 1)
    return attention_time * longer * (1 + bubble_ratio)


@alternative("long_context_extra_time", shifted_step_time=True)
def long_context_extra_time_of_shifted(
    attention_time,
    attention_key_share,
    long_context_length,
    sequence_length,
    bubble_ratio,
    step_time_ratio,
):
    """Extra attention time of a step with longer sequences, for a step shifted within its error.

    c f^e x attention x share that grows with keys x (s_long / s - 1) x (1 + bubble ratio): all
    parts scale alike

    Range: same as without a shift
    """
    longer = attention_key_share * (long_context_length / sequence_length - 1)
    return attention_time * longer * (1 + bubble_ratio) * step_time_ratio


@alternative("mean_step_time", training_stages="several")
def staged_mean_step_time(
    step_time,
    training_steps,
    extra_ramp_steps,
    batch_independent_time,
    long_context_tokens,
    tokens_per_step,
    long_context_extra_time,
):
    """Mean step time over a run with a batch-size ramp and a long-sequence stage.

    step time + (extra steps x batch-independent time + D_long / (B s) x extra time) / steps

    Range: failure losses as for full-batch steps; `training_tokens` include tokens of both stages
    Source: Brown et al. 2020, arXiv:2005.14165, appendix B; DeepSeek-AI 2024, arXiv:2412.19437,
        sections 4.2 and 4.3 (batch ramp, then two stages of longer context)
    """
    ramp = extra_ramp_steps * batch_independent_time
    late = long_context_tokens / tokens_per_step * long_context_extra_time
    return step_time + (ramp + late) / training_steps


@alternative("job_time", training_stages="several")
def staged_job_time(attempted_steps, mean_step_time):
    """Wall time of a run with a batch-size ramp and a long-sequence stage.

    steps x mean step time / (goodput x availability)
    """
    return attempted_steps * mean_step_time
