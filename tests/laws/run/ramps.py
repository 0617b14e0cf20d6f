"""Runs in stages, step by step: growing batches and longer sequences."""

from typing import Any

import fleetcube

from ...evaluated import values
from ..check import Pairs, check

# Tokens of the run and of its ramp, sequences at first and later, tokens of a sequence
RAMPS = (
    (14.8e12, 469e9, 3072, 15360, 4096),  # DeepSeek-V3
    (300e9, 12e9, 16, 1600, 2048),  # GPT-3 175B: 32K to 3.2M tokens
    (1e12, 1e11, 2000, 1000, 4096),  # a batch that shrinks
)
STEPPED = ((15.6e12, 2.87e12, 1024, 2048, 8192),)  # Llama 3 405B: 8M, then 16M tokens
EACH, REST = 2e-4, 1.7  # time of a sequence, and fixed time of a step


def run(tokens: float, ramp: float, first: int, last: int, length: int) -> dict[str, Any]:
    return {
        "training_tokens": tokens,
        "ramp_tokens": ramp,
        "ramp_start_batch_size": first,
        "global_batch_size": last,
        "sequence_length": length,
        "goodput": 0.8,
        "availability": 1.0,
        "compute_time": EACH * last * 0.75,
        "straggler_time": EACH * last * 0.05,
        "exposed_layer_communication_time": EACH * last * 0.2,
        "step_time": EACH * last + REST,
        "attention_time": 0.0,
        "bubble_ratio": 0.25,
    }


@check(
    "linear_ramp_steps staged_job_time staged_mean_step_time batch_independent_time "
    "extra_ramp_steps",
    by="simulator",
    source="runs played step by step, the batch set by the tokens seen so far",
    tolerance=1e-3,
)
def growing_batches() -> Pairs:
    """DeepSeek-V3 (3,072 to 15,360 in 469B tokens), GPT-3 (32K to 3.2M in 12B), one that shrinks"""
    for tokens, ramp, first, last, length in RAMPS:
        seen = clock = 0.0
        steps = 0
        while seen < ramp:
            batch = first + (last - first) * seen / ramp
            seen += batch * length
            clock += EACH * batch + REST
            steps += 1
        clock += (tokens - seen) / (last * length) * (EACH * last + REST)
        got = values(["ramp_steps", "job_time"], **run(tokens, ramp, first, last, length))
        yield got["ramp_steps"], steps - (seen - ramp) / (last * length)
        yield got["job_time"], clock / 0.8


@check(
    "availability_after_transition transition_share mean_step_time",
    by="derivation",
    source="wall times added up by hand: steps over goodput and availability, and what goes before",
)
def made_ready() -> Pairs:
    """1,000 steps of 10 s at a goodput of 0.8 and an availability of 0.5, after 0 s, 1 h, 100 h"""
    for ready in (0.0, 3600.0, 360000.0):
        given = {"training_steps": 1e3, "step_time": 10.0, "goodput": 0.8}
        given |= {"steady_availability": 0.5, "transition_time": ready}
        got = values(["job_time", "availability", "transition_share"], **given)
        clock = ready + 25_000
        yield got["job_time"], clock
        yield got["availability"], 12_500 / clock
        yield got["transition_share"], ready / clock


@check(
    "stepped_ramp_steps staged_job_time staged_mean_step_time",
    by="simulator",
    source="runs played step by step, the batch set by the tokens seen so far",
    tolerance=1e-5,
)
def doubled_batches() -> Pairs:
    """Llama 3 405B: 8M tokens a step for 2.87T tokens, then 16M"""
    for tokens, ramp, first, last, length in STEPPED:
        early = late = 0
        seen = 0.0
        while seen < ramp:
            seen, early = seen + first * length, early + 1
        while seen < tokens:
            seen, late = seen + last * length, late + 1
        clock = early * (EACH * first + REST) + late * (EACH * last + REST)
        given = run(tokens, ramp, first, last, length) | {"batch_ramp": "step"}
        got = values(["ramp_steps", "job_time"], **given)
        yield got["ramp_steps"], early
        yield got["job_time"], clock / 0.8


@check(
    "long_context_extra_time staged_job_time staged_mean_step_time",
    by="simulator",
    source="pairs of queries and keys of every sequence of a step, at each length of two stages",
)
def longer_sequences() -> Pairs:
    """DeepSeek-V3's stages: 1,000 steps at 32K, 1,000 at 128K, 63M tokens a step, two models"""
    tokens, short = 14.8e12, 4096
    batch = 15360 * short
    pair = 3e-13  # time of one query with one key, all layers, forward and backward
    for compute_model, edges in (("mfu", 0), ("roofline", 560)):
        early = batch // short * short * (short / 2 + edges) * pair
        extra = 0.0
        for length in (32768, 131072):
            late = batch // length * length * (length / 2 + edges) * pair
            extra += 1000 * (late - early) * (1 + 0.25)  # all wait for the longer micro-batch
        given = run(tokens, 0.0, 15360, 15360, short) | {"attention_time": early}
        given |= {"long_context_tokens": 2000 * batch, "long_context_length": (32768 + 131072) / 2}
        given |= {"compute_model": compute_model, "layers": 61, "hidden_size": 7168}
        got = values(["job_time"], **given)
        whole = tokens / batch * given["step_time"]
        yield got["job_time"], (whole + extra) / 0.8


@check(
    "step_time_ratio step_time_in_interval step_time_low_of_shifted step_time_high_of_shifted "
    "batch_independent_time_of_shifted long_context_extra_time_of_shifted",
    by="simulator",
    source="a run played step by step on clocks that are 1.2 times slower, 1.3 times faster, 0.8 "
    "of what was computed: half way up an interval of x 1.44, at the lower end of one of x 1.3, as "
    "measured, and half way up from there",
    tolerance=1e-3,
)
def other_clocks() -> Pairs:
    """GPT-3's ramp (32K to 3.2M in 12B), then 1,000 steps of sequences twice as long"""
    tokens, ramp, first, last, length = RAMPS[1]
    attention = 0.2
    clocks = ((1.2, 1.0, 0.5, 1.44), (1 / 1.3, 1.0, -1.0, 1.3))
    for tick, own, place, factor in (*clocks, (0.8, 0.8, 0.0, 1.1), (0.96, 0.8, 0.5, 1.44)):
        each, rest, pairs = EACH * tick, REST * tick, attention * tick
        seen = clock = 0.0
        while seen < ramp:
            batch = first + (last - first) * seen / ramp
            seen += batch * length
            clock += each * batch + rest
        clock += (tokens - seen) / (last * length) * (each * last + rest)
        clock += 1000 * pairs * (1 + 0.25)  # half of them again, and every stage waits
        given = run(tokens, ramp, first, last, length) | {"attention_time": attention}
        given |= {"long_context_tokens": 1000 * last * length, "long_context_length": 2 * length}
        del given["step_time"]
        given |= {"bubble_time": REST, "optimizer_time": 0.0}
        given["exposed_communication_time"] = given["exposed_layer_communication_time"]
        given |= {"step_time_error": place, "error_factor": factor, "step_time_factor": own}
        got = values(["job_time", "step_time", "step_time_low", "step_time_high"], **given)
        yield got["job_time"], clock / 0.8
        yield got["step_time"], each * last + rest
        yield got["step_time_low"] * factor, own * (EACH * last + REST)
        yield got["step_time_high"] / factor, own * (EACH * last + REST)


@check(
    "several_training_stages_reason",
    by="simulator",
    source="micro-batches handed to replicas at every size of a growing batch, tokens laid side by "
    "side",
)
def stages_in_a_run() -> Pairs:
    """8 replicas with 1 and 2 sequences each; ramps from 4 to 96 sequences, runs of 10 tokens"""
    for micro in (1, 2):
        for start in (4, 8, 12, 16, 48, 64, 96):
            for ramp, late in ((0, 0), (4, 6), (4, 7), (11, 0), (0, 11)):
                line = [0] * ramp + [1] * (10 - ramp - late) + [2] * late
                rest = start
                while rest >= 8 * micro:
                    rest -= 8 * micro  # one micro-batch for each replica
                expected = 0
                if ramp and rest:
                    expected = 4 if rest == start else 5
                if (ramp and start > 64) or len(line) > 10:
                    expected = 29
                job = {"n_gpus": 8, "global_batch_size": 64, "micro_batch_size": micro}
                job |= {"training_tokens": 10, "ramp_tokens": ramp, "long_context_tokens": late}
                stages = {"ramp_start_batch_size": start, "training_stages": "several"}
                yield fleetcube.evaluate("training_stages_reason", **job, **stages), expected
