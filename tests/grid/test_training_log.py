"""Training logs as frameworks print them, and the median of their steps."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fleetcube import InputError
from fleetcube.calibration.logged import step_of
from fleetcube.formats.training_log import (
    FORMATS,
    LONGEST,
    Format,
    Step,
    TrainingLog,
    is_training_log,
    parse_training_log,
)

from ..draws import generator
from .common import refused

GPUS, BATCH, LENGTH = 64, 512, 4096


# The frameworks' own format strings, at the places that FORMATS names
def megatron(k: int, t: float) -> str:
    return (
        f" [2026-01-02 03:04:05.678901] iteration {k:8d}/{5000:8d} | consumed samples: {k:12d} |"
        f" elapsed time per iteration (ms): {1000 * t:.1f} |"
        f" throughput per GPU (TFLOP/s/GPU): {400 / t:.1f} | learning rate: 1.000000E-05 |"
        f" global batch size: {BATCH:5d} | lm loss: 7.100000E+00 |"
    )


def bridge(k: int, t: float) -> str:
    line = megatron(k, t).replace(f" throughput per GPU (TFLOP/s/GPU): {400 / t:.1f} |", "")
    return f"Step Time : {t:.2f}s GPU utilization: {400 / t:.1f}MODEL_TFLOP/s/GPU\n{line}"


def maxtext(k: int, t: float) -> str:
    return (
        f"I0317 10:00:13.658 metric_logger.py:181] completed step: {k}, seconds: {t:.3f}, "
        f"TFLOP/s/device: {400 / t:.3f}, Tokens/s/device: {BATCH * LENGTH / GPUS / t:.3f}, "
        "total_weights: 2097152, loss: 7.100"
    )


def nemo(k: int, t: float) -> str:
    return (
        f"[default0]:Training epoch 0, iteration {k}/4999 | lr: 1e-05 | global_batch_size: {BATCH} "
        f"| global_step: {k} | reduced_train_loss: 7.1 | train_step_timing in s: {t:.4g}"
    )


def titan(k: int, t: float) -> str:
    tps = BATCH * LENGTH / GPUS / t
    return (
        f"[rank0]:[titan] 2026-01-02 03:04:05,678 - root - INFO - \x1b[31mstep: {k:2}  "
        f"\x1b[32mloss:  7.1000  \x1b[33mgrad_norm:  1.0000  \x1b[36mmemory: 47.20GiB(59.70%)  "
        f"\x1b[34mtps: {round(tps):,}  \x1b[36mtflops: {400 / t:,.2f}  \x1b[35mmfu: 34.10%\x1b[39m"
        f"\n[titan] - root - INFO - \x1b[33mvalidate step: {k:2}  loss:  7.1000  memory: "
        "47.20GiB(59.70%)  tps: 1"
    )


def deepspeed(k: int, t: float) -> str:
    return (
        f"[2026-01-02 03:04:05,678] [INFO] [logging.py:96:log_dist] [Rank 0] step={k}, skipped=0\n"
        f"[2026-01-02 03:04:05,678] [INFO] [timer.py:260:stop] epoch=0/micro_step={4 * k}/"
        f"global_step={k}, RunningAvgSamplesPerSec=1.0, CurrSamplesPerSec={BATCH / t}, "
        "MemAllocated=4.32GB, MaxMemAllocated=38.49GB"
    )


def pipeline(k: int, t: float) -> str:
    return f"steps: {k} loss: 7.1000 iter time (s): {t:0.3f} samples/sec: {BATCH / t:0.3f}"


PRINTS = dict(zip(FORMATS, (megatron, maxtext, nemo, titan, deepspeed, pipeline), strict=True))
PRINTS[replace(FORMATS[0], framework="Megatron-Bridge")] = bridge
TIMES = [30.0, 4.0, *[2.0, 2.01, 1.99, 2.0] * 10, 9.0, *[2.0] * 4]
SCENARIO = {"global_batch_size": BATCH, "n_gpus": GPUS, "sequence_length": LENGTH}


@pytest.mark.parametrize("form", [*PRINTS], ids=lambda form: f"{form.framework} {form.mark}")
def test_steps_of_each_framework(form: Format) -> None:
    show = PRINTS[form]
    text = "\r\n".join(f"{show(k, t)}\nother words" for k, t in enumerate(TIMES, 1))
    log = parse_training_log(text)
    assert log.framework == form.framework
    assert is_training_log(text)
    assert [step.number for step in log.steps] == [*range(3, 43), *range(44, 48)]
    seconds, inputs = step_of(log, SCENARIO)
    assert seconds == pytest.approx(2.0, rel=2e-3)
    assert inputs == ({"global_batch_size": BATCH} if log.batch else {})
    assert sum(log.left_out.values()) == 3
    assert log.left_out["of warm-up"] == 2
    assert "left out: 2 of warm-up, 1 of 47 over 0.035 times the median" in log.summary_lines()[1]
    if show in (megatron, nemo, bridge):
        assert log.batch == BATCH
        with pytest.raises(InputError, match="batch is 512, the spec's global_batch_size = 256"):
            step_of(log, {"global_batch_size": 256})
    if show in (megatron, bridge, maxtext, titan):
        assert log.flops == pytest.approx(200)
    if show in (titan, deepspeed):
        refused("state global_batch_size", lambda: step_of(log, {}))


def test_lines_of_dllogger() -> None:
    """The example of NVIDIA's recipes: a step of 25.1 s, among hyperparameters and others."""
    head = 'DLLL {"timestamp": "1727461.9", "type": "LOG", "step": "PARAMETER", "data": {"lr": 1}}'
    data = '"global_step": %d%s, "train_backward_timing in s": 4.8e-05, "grad_norm": 8.8, '
    line = 'DLLL {"elapsedtime": "1645.1", "type": "LOG", "step": %d, "data": {' + data
    line += '"train_step_timing in s": %r, "epoch": 0}}'
    rows = [(k, 60.0 if k == 1 else 25.115550994873047) for k in range(1, 20)]
    text = [line % (k, k, ".0" * (k % 2), t) for k, t in rows]
    log = parse_training_log("\n".join([head, *text]))
    assert log.framework == "NeMo"
    assert [step.number for step in log.steps] == [*range(2, 20)]
    assert log.time == pytest.approx(25.1, abs=0.05)


def test_what_a_log_says_of_its_lines() -> None:
    lines = [megatron(k, 2.0) for k in range(10, 200, 10)]
    ramp = [megatron(k, 1.0).replace(f"size: {BATCH:5d}", "size:   256") for k in range(1, 9)]
    again = [megatron(k, 3.0) for k in (180, 190)]  # the job began anew from a checkpoint
    log = parse_training_log("\n".join([*ramp, *lines, *again, megatron(200, 2.0)]))
    assert log.time == 2.0
    assert log.left_out["of another global batch"] == len(ramp)
    assert log.notes == (
        "each time is the mean of 10 steps, as printed",
        "2 lines repeat a step, which counts once, as first printed",
    )


def test_what_starts_too_fast_is_warm_up() -> None:
    """MaxText's guide to its logs: the second step prints what starting it took."""
    printed = [44.923, 0.319, 5.658, 5.669, 5.668, 5.668, 5.667]
    log = parse_training_log("\n".join(maxtext(k, t) for k, t in enumerate(printed)))
    assert log.time == 5.668
    assert log.left_out["of warm-up"] == 2


@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_the_standard_error_is_that_of_repeated_logs(memory: float) -> None:
    """Of independent steps it is 1.2533 s / sqrt(n); neighbours that are alike widen it."""
    random, size, medians, errors = generator(5), 900, [], []
    for _ in range(150):
        noise = random.normal(0, 0.01, size)
        for k in range(1, size):
            noise[k] += memory * noise[k - 1]
        steps = tuple(Step(k, 1 + x) for k, x in enumerate(noise.tolist()))
        log = TrainingLog("", "step", steps, {}, ())
        medians.append(log.time)
        errors.append(log.standard_error or math.nan)
    assert np.mean(errors) == pytest.approx(np.std(medians), rel=0.15)
    if not memory:
        assert np.mean(errors) == pytest.approx(0.012533 / size**0.5, rel=0.1)


WANDB = '"Step","run - perf/step_time_seconds","run - perf/step_time_seconds__MIN"\n'
CLOCK = "Wall time,Step,Value\n" + "".join(f"{1.7e9 + 20 * k},{10 * k},7.1\n" for k in range(9))
EXPORTS = {
    "wandb.csv": WANDB + "".join(f'"{k}","2.5","2.4"\n' for k in range(9)) + '"9","",""\n',
    "run-.-tag-iteration-time.csv": CLOCK.replace(",7.1", ",2.5"),
    "run-.-tag-lm_loss.csv": CLOCK,
}


@pytest.mark.parametrize(("name", "seconds"), [*zip(EXPORTS, (2.5, 2.5, 2.0), strict=True)])
def test_exported_charts(name: str, seconds: float) -> None:
    log = parse_training_log(EXPORTS[name], f"a/{name}")
    assert is_training_log(EXPORTS[name])
    assert log.time == pytest.approx(seconds)


def test_other_text_is_none() -> None:
    for text in ("", "nothing", "step_time,n_gpus\n1,2\n", "elapsed time per iteration (ms): x"):
        assert not is_training_log(text)
    refused("no line is a step of Megatron-LM, MaxText", lambda: parse_training_log("nothing"))
    twice = WANDB.replace("__MIN", "").replace('","run - perf', '","other - perf', 1)
    refused("several runs", lambda: parse_training_log(f"{twice}1,2,3\n"))
    long = "x" * LONGEST + megatron(1, 2.0)
    assert not is_training_log(long)


def test_at_least_half_of_the_steps_are_kept() -> None:
    """Half are within one median absolute deviation."""
    random = generator(6)
    for size in range(1, 40):
        times = random.lognormal(2, 3, size).tolist()
        log = parse_training_log("\n".join(map(pipeline, range(size), times)))
        printed = log.steps, sum(log.left_out.values())
        assert 2 * len(printed[0]) >= len(printed[0]) + printed[1]
        assert (log.standard_error is None) == (len(log.steps) < 4)
