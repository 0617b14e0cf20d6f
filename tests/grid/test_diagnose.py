"""A measured step that is impossible, causes by what is known of them, counts of operations."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import fleetcube
from fleetcube import Sweep
from fleetcube.analysis.diagnose import _counting, _impossible
from fleetcube.catalog import pooled
from fleetcube.cli import cli
from fleetcube.scenario import auto
from fleetcube.scenario.reading import stated_inputs

from ..draws import generator, scaled
from .common import cases, on_h100

JOB = {
    **{"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 512},
    **{"tensor_parallel": 8, "pipeline_parallel": 4, "global_batch_size": 1024},
    **{"sequence_parallel": True, "compute_model": "roofline", "calibration": "none"},
}
ROOT = Path(__file__).parents[2]
SPEC = 'outputs = ["step_time"]\n[scenario]\nmodel = "llama-3-70b"\nnode = "dgx-h100"\n'


def said(*words: str) -> str:
    done = CliRunner().invoke(cli, [*words])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.mark.slow  # layouts are searched
def test_an_impossible_step_is_said_to_be_and_nothing_is_built_on_it() -> None:
    """32 layers of 4,096 at 32,768 tokens on 8 A100: by hand, of 6 N D and half of the attention,
    run once more in the forward pass, 19.2 s at peak."""
    job = {"layers": 32, "hidden_size": 4096, "attention_heads": 32, "vocab_size": 50304}
    job |= {"node": "dgx-a100", "n_gpus": 8, "sequence_length": 32768, "global_batch_size": 16}
    job |= {"precision": "bf16", "software": "deepspeed", "tensor_parallel": 4, "zero_stage": 1}
    sweep = Sweep({**job, "micro_batch_size": 1, "recompute": "full"}, {}, ["step_time"])
    tokens = 16 * 32768
    layer, attention = 24 * 4096**2 * 32, 2 * 32768 * 4096 * 32  # of a forward pass, of a token
    peak = 8 * 312e12 / tokens
    again = 4 * layer + (2 + 2.5) * attention + 6 * 4096 * 50304  # scores of flash: 2.5 backward
    assert again / peak > 16.128
    found = fleetcube.diagnose(sweep, step_time="16.128 s")
    assert found.impossible.startswith("its operations at the peak of its GPUs would take 19.2")
    for name in ("n_gpus 8", "global_batch_size 16", "recompute full", "precision bf16"):
        assert name in found.impossible
    assert (found.parts, found.causes, found.changes, found.best) == ((), (), (), None)
    kernels = fleetcube.diagnose(sweep, step_time="22 s")  # 69 % of 0.869 and 0.72 of the peak
    assert "highest rates known" in kernels.impossible
    assert not kernels.causes
    assert not fleetcube.diagnose(sweep, step_time="33 s").impossible


@pytest.mark.slow  # layouts are searched
def test_traffic_alone_makes_a_step_impossible() -> None:
    """8 B parameters in BF16 twice over a link of 1 GB/s take 32 s, whatever hides them."""
    slow = {"model": "llama-3-8b", "gpu": "h100-sxm", "n_gpus": 16, "gpus_per_node": 1}
    slow |= {"inter_node_bandwidth": "1 GB/s", "global_batch_size": 64}
    slow |= {"calibration": "none", "zero_stage": 1, "sequence_length": 8192}
    found = fleetcube.diagnose(Sweep(slow, {}, ["step_time"]), step_time="25 s")
    assert found.impossible.startswith("data_parallel_time at the bandwidths stated")


def test_kernels_without_starts_make_no_step_impossible() -> None:
    """128 experts of a GPU in one kernel, launched by a graph: neither 256 starts nor a host."""
    job = on_h100("qwen-3-30b-a3b", n_gpus=8, global_batch_size=64, sequence_length=512)
    fused = {"expert_launch_time": 0, "cuda_graphs": True, "gemm_half_depth": 0}
    step = fleetcube.evaluate(["step_time"], **job, **fused)["step_time"].item()
    assert not _impossible(job, step, 0.01 * step)


def test_edges_of_attention_make_no_step_impossible() -> None:
    """Another kernel may have cheaper ones than cuDNN, of which they are known."""
    job = {"layers": 24, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 50304}
    job |= {"node": "dgx-h100", "n_gpus": 8, "global_batch_size": 64, "sequence_length": 512}
    job |= {"calibration": "auto", "software": "megatron-lm", "micro_batch_size": 8}
    kernels = {"gemm_efficiency": 0.803, "attention_efficiency": 0.75, "memory_efficiency": 1}
    kernels |= {"gemm_half_depth": 0, "layer_overhead_time": 0, "cuda_graphs": True}
    kernels |= {"kernel_key_share": 1, "straggler_slowdown": 0, "step_time_jitter": 0}
    step = fleetcube.evaluate(["compute_time"], **job, **kernels)["compute_time"].item()
    assert not _impossible(job, step, 0.01 * step)


def test_drawn_steps_are_impossible_only_above_the_peak_or_its_kernels() -> None:
    draw = generator(58)
    for _ in range(scaled(8)):
        job = on_h100(str(draw.choice(["llama-3-8b", "llama-2-13b"])), n_gpus=64)
        job |= {"global_batch_size": 256, "calibration": str(draw.choice(["auto", "none"]))}
        job |= {"tensor_parallel": int(draw.choice([1, 2, 8]))}
        values = fleetcube.evaluate(["step_time", "hfu"], **job)
        step, hfu = values["step_time"].item(), values["hfu"].item()
        fast = _impossible(job, step * hfu * draw.uniform(0.3, 0.99), hfu * step)
        assert fast.startswith("its operations at the peak")
        assert not _impossible(job, step * draw.uniform(0.99, 9), hfu * step)


@pytest.mark.slow  # layouts are searched
def test_causes_are_ranked_by_the_deviations_that_they_need() -> None:
    """Of auto's coefficients in its own deviations, by the posterior's matrix."""
    job = {
        name: value for name, value in JOB.items() if name not in ("calibration", "compute_model")
    }
    sweep = Sweep(job, {}, ["step_time"])
    step = sweep.evaluate()["step_time"].item()
    found = fleetcube.diagnose(sweep, step_time=1.2 * step)
    rank = [cause.deviations for cause in found.causes]
    assert rank == sorted(rank)
    (gemm,) = (cause for cause in found.causes if cause.name == "gemm_efficiency")
    posterior, cell = pooled.posterior(), auto.posterior_cell(stated_inputs(job))
    ceiling = posterior.ceilings(cell)["gemm"]
    root = posterior.coefficients_of(cell)[1][list(posterior.coefficients).index("gemm_efficiency")]
    odds = [share / (ceiling - share) for share in (gemm.now, gemm.needed)]
    assert gemm.deviations == pytest.approx(np.log(odds[0] / odds[1]) / np.sqrt(root @ root))


@cases(
    "way, times",
    ("1 x flops_counting = transformer", 1.0),
    ("2 x flops_counting = transformer_causal", 2.0),
    ("no usual count", 7.0),
    ("", 1.0),
)
def test_a_count_that_is_not_ours_is_asked_about(way: str, times: float) -> None:
    """A source that counts attention whole, or twice all: by hand at 32,768 tokens."""
    long = {**JOB, "sequence_length": 32768, "global_batch_size": 256}
    ours, whole = (
        fleetcube.evaluate(["mfu"], **long, flops_counting=counting)
        for counting in ("transformer_causal", "transformer")
    )
    printed = (whole if way.endswith("transformer") else ours)["mfu"].item() * times
    said = _counting(long, "model_flops_per_gpu", ours["mfu"].item(), printed)
    assert (way in said) if way else not said
    assert not _counting(long, "tokens_per_second", ours["mfu"].item(), printed)


@pytest.mark.slow  # layouts are searched
@cases(
    "changed, reason",
    ("sequence_length=131072", "out_of_memory"),
    ("micro_batch_size=3", "batch_not_divisible"),
    ("pipeline_parallel=3", "gpus_not_divisible"),
)
def test_why_a_job_cannot_run_is_a_word_of_the_list(
    changed: str, reason: str, tmp_path: Path
) -> None:
    """Not a character of the list, as "this cannot run: ," had it."""
    spec = tmp_path / "job.toml"
    spec.write_text(f'{SPEC}fabric = "infiniband-ndr"\nn_gpus = 512\n', encoding="utf-8")
    words = ("tensor_parallel=8", "global_batch_size=1024", "calibration=none", "step_time=400s")
    text = said("diagnose", str(spec), *words, changed)
    (found,) = re.findall(r"this cannot run: (\w*)", text)
    assert found == reason


@pytest.mark.slow  # layouts are searched
def test_a_log_that_counts_attention_whole_is_asked_about(tmp_path: Path) -> None:
    spec, log = tmp_path / "job.toml", tmp_path / "train.log"
    spec.write_text(f'{SPEC}fabric = "infiniband-ndr"\nn_gpus = 512\n', encoding="utf-8")
    words = ("tensor_parallel=8", "pipeline_parallel=4", "global_batch_size=256")
    words += ("sequence_length=32768", "calibration=none")
    job = {**JOB, "global_batch_size": 256, "sequence_length": 32768}
    whole = fleetcube.evaluate(["model_flops_per_step"], **job, flops_counting="transformer")
    rate = whole["model_flops_per_step"].item() / 512 / 60 / 1e12
    for times in (1, 0.5):
        line = (
            " iteration {}/ 100 | elapsed time per iteration (ms): 60000.0 | "
            f"throughput per GPU (TFLOP/s/GPU): {times * rate:.1f} | global batch size: 256 |\n"
        )
        log.write_text("".join(line.format(k) for k in range(1, 9)), encoding="utf-8")
        text = said("diagnose", str(spec), str(log), *words)
        assert "how were operations counted?" in text
        assert f"like {times:g} x flops_counting = transformer" in text


def test_no_change_brings_more_than_the_peak() -> None:
    """A measured step far below the prediction: a ratio of predictions would give an MFU of 30."""
    job = {"model": "llama-3-70b", "node": "dgx-h100", "n_gpus": 1024, "tensor_parallel": 8}
    job |= {"pipeline_parallel": 4, "global_batch_size": 1024, "micro_batch_size": 1000}
    found = fleetcube.diagnose(Sweep(job, {}, "step_time"), step_time="9 s")
    assert not found.impossible
    changes = [*found.changes, *([found.best] if found.best else [])]
    assert all(found.mfu / change.step_ratio <= 1 for change in changes)


@pytest.mark.slow  # layouts are searched
def test_selectors_reach_the_model_of_a_script(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "pretrain-llama-3-70b.sh").read_text(encoding="utf-8")
    path = tmp_path / "launch.sh"
    path.write_text(re.sub("    --vocab-size 128256\n", "", text), encoding="utf-8")
    given = ("node=dgx-h100", "fabric=infiniband-ndr", "vocab_size=128256")
    assert "GB" in said("diagnose", str(path), *given, "step_time=28s").splitlines()[-1]


@pytest.mark.slow  # layouts are searched
def test_missing_overlap_flags_are_named_with_what_they_hide(tmp_path: Path) -> None:
    flags = "--overlap-grad-reduce --overlap-param-gather"
    text = (ROOT / "examples" / "pretrain-llama-3-70b.sh").read_text(encoding="utf-8")
    (tmp_path / "both.sh").write_text(text, encoding="utf-8")
    (tmp_path / "none.sh").write_text(text.replace(flags, ""), encoding="utf-8")
    given = ("node=dgx-h100", "fabric=infiniband-ndr")
    told = said("diagnose", str(tmp_path / "none.sh"), *given, "step_time=28s")
    assert "the script lacks --overlap-grad-reduce and --overlap-param-gather, which would" in told
    none, both = (
        Sweep.from_file(tmp_path / f"{name}.sh", node="dgx-h100", fabric="infiniband-ndr")
        for name in ("none", "both")
    )
    steps = [float(s.with_outputs(["step_time"]).evaluate()["step_time"]) for s in (none, both)]
    hidden = steps[0] - steps[1]
    assert f"hide {hidden * 1e3:.4g} ms of a step ({hidden / steps[0]:.1%})" in told
    assert "256 GPUs: MFU 0.271 (torchtitan/018:vanilla), of fewer GPUs, agrees" in told
    assert "lacks" not in said("diagnose", str(tmp_path / "both.sh"), *given, "step_time=28s")
