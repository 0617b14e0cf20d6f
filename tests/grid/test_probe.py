"""Kernels timed on a user's own GPUs: the script that is written, and what its times say."""

import json
import os
import random
import subprocess
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fleetcube import InputError, evaluate
from fleetcube.calibration.probe import Probe, fit_probe, parse_probe, script, sizes_of
from fleetcube.calibration.update import at_rates
from fleetcube.catalog import pooled, record
from fleetcube.scenario import auto
from fleetcube.scenario.reading import stated_inputs

from ..door.command import fleetcube

JOB = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 64}
JOB |= {"tensor_parallel": 2, "software": "megatron-bridge"}
SPEC = "[scenario]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in JOB.items())
RATES = {"product": 700e12, "attention": 600e12, "memory": 3e12, "links": 450e9}


class Played:
    """Kernels that take a known time on a clock of their own; two GPUs, one 1.2 times slower."""

    attentions = ("cudnn", "flash")
    rank, ranks, name, gpu = 0, 2, "played 1", "NVIDIA H100 80GB HBM3"

    def __init__(self, slow: Mapping[str, float]) -> None:
        self.now, self.slow, self.runs = 0.0, slow, 0

    def _run(self, what: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.runs += 1
            self.now += seconds * self.slow.get(what, 1.0)

        return run

    def wait(self, made: Any) -> None:
        self.now += 1e-9

    def every(self, value: float) -> list[float]:
        return [value, 1.2 * value]

    def product(self, m: int, n: int, k: int, precision: str) -> Callable[[], None]:
        return self._run("product", 2 * m * n * k / RATES["product"])

    def attention(self, kernel: str, heads: int, length: int, width: int) -> Callable[[], None]:
        seconds = 4 * heads * length**2 * width / RATES["attention"]
        return self._run(*(("attention", seconds) if kernel == "cudnn" else ("", 2 * seconds)))

    def memory(self, elements: int) -> Callable[[], None]:
        return self._run("memory", 6 * elements / RATES["memory"])

    def link(self, name: str, elements: int) -> Callable[[], None]:
        return self._run("links", 2 * elements / RATES["links"])

    def layer(self, sequences: int, length: int, size: Any) -> Callable[[], None]:
        def fails() -> None:
            raise RuntimeError("no such kernel")

        return fails


def played(scenario: Mapping[str, Any], **slow: float) -> Probe:
    """What the script of a job writes where kernels take known times."""
    module = types.ModuleType("written")
    exec(compile(script(scenario), "probe.py", "exec"), vars(module))
    kernels = Played(slow)
    clock = types.SimpleNamespace(perf_counter=lambda: kernels.now)
    vars(module)["time"] = clock
    rows = module.measure(kernels, module.SIZES, 0.5)
    about = {"format": "fleetcube probe 1", "framework": kernels.name, "gpu": kernels.gpu}
    return parse_probe(json.dumps({**about, "rows": rows}), "probe.json")


def test_the_script_times_what_kernels_take(capsys: pytest.CaptureFixture[str]) -> None:
    probe = played(JOB)
    assert {row["what"] for row in probe.rows} == {
        *("product", "attention", "memory", "all_reduce", "all_to_all")
    }
    for row in probe.rows:
        if row["what"] == "product":
            exact = 2 * row["m"] * row["n"] * row["k"] / RATES["product"]
            assert row["seconds"] == pytest.approx(1.1 * exact, rel=1e-3)  # the median of two
            assert row["slowest"] == pytest.approx(1.2 * exact, rel=1e-3)
    assert "left out layer" in capsys.readouterr().out


@pytest.mark.parametrize("model", ["llama-3-8b", "llama-3-70b", "gpt-3-175b", "mixtral-8x7b"])
def test_products_are_all_of_a_layers(model: str) -> None:
    """6 operations a parameter and token, by the model's own count of its active parameters."""
    for t in (1, 4):
        job = JOB | {"model": model, "tensor_parallel": t}
        sheet = record("model", model).values
        experts = bool(sheet.get("experts"))
        if experts:
            job |= {"expert_parallel": 4}
        sizes = sizes_of(job)
        flops = sum(2 * p["count"] * p["m"] * p["n"] * p["k"] for p in sizes["products"])
        total = sheet["active_parameters" if experts else "parameters"]
        tables = sheet["vocab_size"] * sheet["hidden_size"] * (1 if "gpt" in model else 2)
        tokens = sheet["sequence_length"]
        own = 6 * (total - tables) / sheet["layers"] * tokens / t
        assert flops == pytest.approx(own, rel=0.015)  # routers, norms and biases are not products


def test_a_known_slow_down_is_found() -> None:
    plain, slow = (fit_probe(played(JOB, product=f, links=f**2), JOB) for f in (1.0, 1.25))
    for name, factor in (("gemm_efficiency", 1.25), ("intra_node_bandwidth", 1.25**2)):
        assert plain.kernels[name] / slow.kernels[name] == pytest.approx(factor, rel=1e-3)
        assert plain.values[name] / slow.values[name] == pytest.approx(factor, rel=1e-3)
    for name in ("attention_efficiency", "memory_efficiency"):
        assert plain.values[name] == pytest.approx(slow.values[name], rel=1e-6)
    assert any("1.09 times as long as the others" in note for note in plain.notes)


def test_what_a_probe_cannot_say_is_left_as_it_is() -> None:
    """A coefficient that the spec states, products of another number format, unfused attention."""
    stated = fit_probe(played(JOB), JOB | {"gemm_efficiency": 0.7, "software": "megatron-lm"})
    assert "gemm_efficiency" not in {*stated.kernels, *stated.values}
    assert any("left so: gemm_efficiency" in note for note in stated.notes)
    rows = [dict(row) for row in played(JOB).rows]
    for row in rows:
        row |= {"precision": "fp8"} if row["what"] == "product" else {}
        row |= {"kernel": "xla"} if row["what"] == "attention" else {}
    other = fit_probe(Probe("played", "h100", tuple(rows)), JOB)
    assert {*other.kernels} == {"memory_efficiency", "intra_node_bandwidth"}
    assert any("gemm_efficiency, attention_efficiency" in note for note in other.notes)


def test_rates_beyond_a_data_sheet_are_another_gpus() -> None:
    assert fit_probe(played(JOB), JOB).doubt is None
    for what, factor in (("product", 0.5), ("attention", 0.4), ("memory", 0.7), ("product", 5.0)):
        doubt = fit_probe(played(JOB, **{what: factor}), JOB).doubt
        assert doubt is not None
        assert "times the rate of the scenario's GPU" in doubt


def test_a_share_ends_at_one_and_steps_are_fitted_there() -> None:
    job = JOB | {"hbm_bandwidth": "3 TB/s"}
    found = fit_probe(played(job, memory=0.93), job)
    low, high = found.intervals["memory_efficiency"]
    assert low <= found.values["memory_efficiency"] <= high <= 1
    (one,) = (s for s in pooled.posterior().settings(found.cell) if s.input == "memory_efficiency")
    (capped,) = at_rates([one], {"memory_efficiency": 1.5})
    assert [float(x) for x in capped.value(5.0)] == [1.0, 0.0]
    assert capped.value(-5.0)[0] == pytest.approx(1.5 * one.value(-5.0)[0])


def test_kernels_as_published_change_nothing() -> None:
    """A GPU whose kernels reach the published shares has auto's coefficients."""
    posterior, cell = pooled.posterior(), auto.posterior_cell(stated_inputs(JOB))
    ceilings = posterior.ceilings(cell)
    large = {"m": 8192, "n": 8192, "k": 8192, "count": 1, "precision": "bf16"}
    attention = {"heads": 8, "length": 16384, "width": 128, "kernel": "cudnn"}
    seconds = {
        "product": 2 * 8192**3 / (ceilings["gemm"] * cell.peak_16),
        "attention": 4 * 8 * 16384**2 * 128 / (ceilings["attention"] * cell.peak_16),
    }
    rows = [
        {"what": what, **size, "seconds": seconds[what], "slowest": seconds[what]}
        for what, size in (("product", large), ("attention", attention))
    ]
    found = fit_probe(Probe("played", "h100", tuple(rows)), JOB)
    for name, value in posterior.values(cell).items():
        if name in found.values:
            assert found.values[name] == pytest.approx(value, rel=1e-9), name
    assert any("as published: intra_node_bandwidth" in n for n in found.notes)


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(SPEC)
    made = fleetcube("probe", "job.toml", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "wrote probe.py" in made.stdout
    assert fleetcube("probe", "job.toml", folder=tmp_path).returncode == 2  # exists
    (tmp_path / "several.toml").write_text(SPEC + "[axes]\ntensor_parallel = [2, 4]\n")
    several = fleetcube("probe", "several.toml", "-o", "b.py", folder=tmp_path)
    assert "a probe is of one job; state tensor_parallel in [scenario]" in several.stderr
    for factor in (1.0, 1.25):
        probe = played(JOB, product=factor)
        content = {"format": "fleetcube probe 1", "framework": "x", "gpu": "h100"}
        content["rows"] = list(probe.rows)  # type: ignore[assignment]
        (tmp_path / "probe.json").write_text(json.dumps(content))
        name = f"kernels-{factor}.toml"
        done = fleetcube(
            *("calibrate", "probe.json", "--spec", "job.toml", "-o", name), folder=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert "matrix products" in done.stdout
    times = [
        float(evaluate("compute_time", **JOB, calibration=str(tmp_path / f"kernels-{f}.toml")))
        for f in (1.0, 1.25)
    ]
    assert 1.1 < times[1] / times[0] < 1.25
    # Steps are fitted beside them, and the new file has them, too
    step = float(evaluate("step_time", **JOB, calibration=str(tmp_path / "kernels-1.25.toml")))
    (tmp_path / "steps.csv").write_text(f"n_gpus,step_time\n64,{step}\n")
    spec = SPEC + 'calibration = "kernels-1.25.toml"\n'
    (tmp_path / "with.toml").write_text(spec)
    done = fleetcube(
        *("calibrate", "steps.csv", "--spec", "with.toml", "-o", "both.toml"), folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    both = record("calibration", str(tmp_path / "both.toml"))
    assert both.kernels == record("calibration", str(tmp_path / "kernels-1.25.toml")).kernels
    assert both.values["jobs"][0]["step_time_factor"] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.slow
def test_the_script_runs_on_jax(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(script(JOB))
    how = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "probe.py", "--framework", "jax", "--small", "--seconds", "0.01"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, **how}, check=True)
    probe = parse_probe((tmp_path / "probe.json").read_text(), "probe.json")
    kinds = {"product", "attention", "memory", "all_reduce", "all_to_all", "layer"}
    assert {row["what"] for row in probe.rows} == kinds
    assert {row["ranks"] for row in probe.rows if "ranks" in row} == {4}
    doubt = fit_probe(probe, JOB).doubt  # small products on a processor are no H100's
    assert "was the probe run on that GPU" in str(doubt)


def test_what_is_no_probe_is_refused_in_one_line() -> None:
    whole = json.dumps(
        {"format": "fleetcube probe 1", "framework": "x", "gpu": "y"}
        | {"rows": list(played(JOB).rows)[:4]}
    )
    draw = random.Random(4)
    for _ in range(300):
        text, k = list(whole), draw.randrange(len(whole))
        text[k : k + draw.randrange(9)] = draw.choice(["", "-", "1e400", "null", "[[", '"', "0"])
        said = ""
        try:
            parse_probe("".join(text), "probe.json")
        except InputError as error:
            said = str(error)
        assert not said or ("probe.json" in said and "\n" not in said)
