"""Where adding GPUs stops helping: each size evaluated separately, and results by hand."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fleetcube import Settings, Sweep
from fleetcube.analysis.wall import LOST, wall
from fleetcube.cli import cli
from fleetcube.grid.errors import InputError
from fleetcube.presentation.pictures.wall_picture import wall_picture

from .common import cases, on_h100, ratios, refused

JOB = on_h100("llama-3-70b", calibration="none", tensor_parallel=8, pipeline_parallel=8)
JOB |= {"global_batch_size": 2048, "gpu_mttf": "50_000 h", "checkpoint_write_bandwidth": "100 GB/s"}
JOB |= {"gpu_hour_price": 2.5}
SHARES = {"network": "communication_overhead", "bubble": "bubble_overhead"}
SHARES |= {"stragglers": "straggler_overhead", "failures": "reliability_overhead"}
OUTPUTS = ["job_time", "job_cost", "facility_power", *SHARES.values()]


def of(scenario: dict[str, Any], between: Any = None, **how: Any) -> Any:
    return Sweep(scenario, {"n_gpus": [64]}, ["job_time"]).scaling_limit(
        between, settings=Settings("numpy"), **how
    )


def one_by_one(scenario: dict[str, Any], sizes: Any) -> list[dict[str, float]]:
    rows = []
    for size in sizes:
        found = Sweep({**scenario, "n_gpus": float(size)}, {}, OUTPUTS).evaluate(
            settings=Settings("numpy")
        )
        rows.append({str(name): float(found[name]) for name in found.variables})
    return rows


def starts(found: Any) -> dict[str, float]:
    """Size at which each limit starts to bind."""
    pairs = zip(found["limit"].values, found["binds_from"].values, strict=True)
    return {str(name): float(at) for name, at in pairs if np.isfinite(at)}


@pytest.mark.parametrize("more", [{}, {"gpu_mttf": "5_000 h"}, {"straggler_slowdown": 0.02}])
def test_a_scan_is_what_each_size_gives_by_itself(more: dict[str, Any]) -> None:
    job = {**JOB, **more}
    found = of(job, where="facility_power <= 10 MW", day_price=300_000)
    sizes = found["n_gpus"].values
    rows = one_by_one(job, sizes)
    times = np.array([row["job_time"] for row in rows])
    assert [row["infeasible_reason"] for row in rows] == [0] * len(rows)
    assert (found["job_time"].values == times).all()
    assert np.allclose(found["speedup"], times[0] / times, rtol=1e-12)
    bound: dict[str, float] = {}
    for k in range(1, len(rows)):
        before, after = rows[k - 1], rows[k]
        was, spent = sizes[k - 1] * times[k - 1], sizes[k] * times[k]
        parts = {limit: spent * after[of] - was * before[of] for limit, of in SHARES.items()}
        for limit, part in parts.items():
            lost = float(found["lost"][k, LOST.index(limit)])
            assert lost == pytest.approx(part / was, abs=1e-12)
        gain = times[k - 1] / times[k]
        assert gain == pytest.approx(2 / (1 + float(found["lost"][k].sum())), rel=1e-12)
        if gain < 1.9:
            bound.setdefault(max(parts, key=lambda limit: parts[limit]), sizes[k])
        if after["facility_power"] > 10e6:
            bound.setdefault("facility_power", sizes[k])
        days = (before["job_time"] - after["job_time"]) / 86400
        if after["job_cost"] - before["job_cost"] > 300_000 * days:
            bound.setdefault("price", sizes[k])
    assert starts(found) == bound
    assert len(bound) > 2


def test_gains_have_the_interval_of_their_two_times() -> None:
    auto = {name: value for name, value in JOB.items() if name != "calibration"}
    job = {**auto, "software": "megatron-bridge"}
    axes = {"n_gpus": [64], "straggler_slowdown": [0.02]}
    found = Sweep(job, axes, ["job_time"]).scaling_limit([512, 2048], settings=Settings("numpy"))
    job["straggler_slowdown"] = 0.02
    for k, size in ((1, 1024), (2, 2048)):
        known = ratios({**job, "n_gpus": size // 2}, {**job, "n_gpus": size}, ["job_time"])
        gain = found.isel(n_gpus=k)
        ends = float(gain["doubling_gain_low"]), float(gain["doubling_gain_high"])
        assert ends == pytest.approx((1 / known["job_time"].high, 1 / known["job_time"].low))
        assert ends[0] < float(gain["doubling_gain"]) < ends[1]
    assert np.isnan(found["doubling_gain_low"][0])
    assert "doubling_gain_low" in of(JOB)  # no posterior, no interval
    assert np.isnan(of(JOB)["doubling_gain_low"]).all()


def test_the_fastest_is_that_of_every_multiple_of_the_replica() -> None:
    job = {**JOB, "global_batch_size": 1536, "gpu_mttf": "2_000 h"}
    found = of(job)
    near = np.arange(64.0, 2**17, 64)
    times = Sweep(job, {"n_gpus": near}, ["job_time"]).evaluate(settings=Settings("numpy"))
    least = np.where(times["infeasible_reason"] == 0, times["job_time"], np.inf)
    assert float(found["fastest_gpus"]) == near[least.argmin()]
    assert float(found["fastest_time"]) == least.min()
    at = Sweep({**job, "n_gpus": near[least.argmin()]}, {}, ["sync_wall_gpus"]).evaluate(
        settings=Settings("numpy")
    )
    assert float(found["sync_wall_gpus"]) == float(at["sync_wall_gpus"])
    said = [
        of({**job, "step_time_jitter": x}).attrs.get("fleetcube_remarks", "") for x in (0.02, 0)
    ]
    assert ["sync_wall_gpus, a closed form" in lines for lines in said] == [True, False]


def test_the_fastest_is_found_beyond_the_doublings_that_divide() -> None:
    """1,152 = 2^7 x 9 sequences: 9,216 GPUs hold one replica of 8 for each, 2,048 divide none."""
    job = on_h100("llama-3-8b", calibration="none", tensor_parallel=4, pipeline_parallel=2)
    job |= {"global_batch_size": 1152, "recompute": "full"}
    found = of(job)
    sizes = 8.0 * np.array([k for k in range(1, 1153) if 1152 % k == 0])
    times = Sweep(job, {"n_gpus": sizes}, ["job_time"]).evaluate(settings=Settings("numpy"))
    assert (times["infeasible_reason"] == 0).all()
    assert float(found["fastest_gpus"]) == sizes[times["job_time"].values.argmin()] == 9216
    assert "batch" not in starts(found)


def test_bubbles_bind_where_the_pipeline_says() -> None:
    """T is proportional to m + p - 1 where only bubbles cost (Narayanan et al. 2021)."""
    fast = dict.fromkeys(("inter_node_bandwidth", "intra_node_bandwidth"), "1e9 GB/s")
    found = of({**JOB, **fast, "cluster_mtbf": "1e12 h", "vocab_size": 1}, [64, 2**17])
    m = 2048 * 64 / found["n_gpus"].values
    gains = (m[:-1] + 7) / (m[1:] + 7)
    assert np.allclose(found["doubling_gain"][1:], gains, rtol=0.01)
    assert starts(found)["bubble"] == float(found["n_gpus"][1:][gains < 1.9][0])


def test_the_batch_ends_where_it_runs_out() -> None:
    found = of({**JOB, "pipeline_parallel": 1, "hbm_capacity": "1 TB"})
    assert starts(found)["batch"] == 2 * 8 * 2048, "one sequence on each replica, and no more"
    assert found["why"].sel(limit="batch").item() == "batch_smaller_than_data_parallel"
    assert found["n_gpus"].values[-1] == 2 * 8 * 2048
    assert math.isnan(found["speedup"].values[-1])
    stages = of({**JOB, "virtual_stages": 5})
    assert stages["why"].sel(limit="batch").item() == "fewer_microbatches_than_stages"


def test_a_batch_that_grows_is_charged_for_its_tokens() -> None:
    job = {**JOB, "batch_quality": "critical", "critical_batch_tokens": 5e7}
    job["training_tokens"] = 1e12
    found = of(job, [512, 8192], batch_grows=True)
    sizes = found["n_gpus"].values
    assert (found["global_batch_size"].values == 4 * sizes).all()
    at = {"n_gpus": 2048.0, "global_batch_size": 8192}
    alone = Sweep({**job, **at}, {}, ["job_time", "tokens_to_target"]).evaluate(
        settings=Settings("numpy")
    )
    assert float(found["job_time"].sel(n_gpus=2048)) == float(alone["job_time"])
    tokens = found["tokens_to_target"].values
    spent = sizes * found["job_time"].values
    extra = (tokens[1:] - tokens[:-1]) / tokens[1:] * spent[1:] / spent[:-1]
    assert np.allclose(found["lost"].sel(loss="batch")[1:], extra, rtol=1e-12)
    gains = found["doubling_gain"].values[1:]
    assert np.allclose(gains, 2 / (1 + found["lost"].values[1:].sum(axis=1)), rtol=1e-12)
    assert starts(found)["batch"] == sizes[1:][gains < 1.9][0]
    assert "fleetcube_uncounted" not in found.attrs
    plain = of({**JOB}, [512, 8192], batch_grows=True)
    assert "quality is not counted" in plain.attrs["fleetcube_uncounted"]
    assert "batch" not in starts(plain)


def test_one_size_has_nothing_before_it(tmp_path: Path) -> None:
    found = of(JOB, [1024, 1024])
    assert (found.sizes["n_gpus"], found["speedup"].item()) == (1, 1)
    assert np.isnan(found["doubling_gain"].values).all()
    assert (starts(found), float(found["fastest_gpus"])) == ({}, 1024)
    wall_picture(found, tmp_path / "one.png")


def test_phases_count_together_and_one_by_one() -> None:
    early = {"name": "early", "training_tokens": 1e11, "global_batch_size": 1024}
    late = {"name": "late", "training_tokens": 1e12, "pipeline_parallel": 4}
    job = {**JOB, "phase": [early, late]}
    found = of(job)
    for size, time in zip(found["n_gpus"].values, found["job_time"].values, strict=True):
        whole = Sweep({**job, "n_gpus": size}, {}, ["job_time"]).evaluate(
            settings=Settings("numpy")
        )
        assert float(whole["job_time"]) == time
    gains = found["doubling_gain"].values[1:]
    ideal = 2 / (1 + found["lost"].values[1:].sum(axis=1))
    assert np.allclose(gains, ideal, rtol=1e-12, equal_nan=True)
    assert found["n_gpus"].values[0] % 64 == 0, "whole replicas of both"
    assert "sync_wall_gpus" not in found
    ready = of({**job, "phase": [early, {**late, "transition_time": "300 d"}]})
    ideal = 2 / (1 + ready["lost"].values[1:].sum(axis=1))
    assert np.allclose(ready["doubling_gain"].values[1:], ideal, rtol=1e-12, equal_nan=True)
    assert starts(ready)["transitions"] < starts(ready).get("failures", math.inf)
    refused("ask for a phase", of, job, batch_grows=True)
    own = {**JOB, "phase": [{**early, "n_gpus": 512}, late]}
    refused("phases set n_gpus", wall, {"scenario": own, "axes": {}})


@cases(
    "how, said",
    ({"between": [1, 63]}, "holds no multiple of 64 GPUs"),
    ({"between": [512, 128]}, "holds no multiple"),
    ({"between": "128"}, "is not a range"),
    ({"between": [64, math.inf]}, "n_gpus"),
    ({"where": "facility_power <= 3 m"}, "facility_power"),
    ({"where": "facility_power = 3 MW"}, "is an equation"),
    ({"where": "facility_power <= 1 W"}, "no size that can run keeps to"),
    ({"day_price": 0}, "above 0"),
    ({"day_price": "x"}, "job_cost"),
)
def test_bad_input_is_one_line(how: dict[str, Any], said: str) -> None:
    refused(said, of, JOB, **how)


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(InputError, match="out_of_memory at the first"):
        of({**JOB, "pipeline_parallel": 1, "hbm_capacity": "10 GB"}, [8, 64])
    refused("one replica takes more", of, {**JOB, "pipeline_parallel": 2**20})
    with pytest.raises(InputError, match="gpu_mttf has several values"):
        Sweep({**JOB, "n_gpus": 64}, {"gpu_mttf": ["1 h", "2 h"]}, ["job_time"]).scaling_limit()
    with pytest.raises(InputError, match="gpu_hour_price is missing"):
        of({key: value for key, value in JOB.items() if key != "gpu_hour_price"}, day_price=1)


@pytest.mark.slow
def test_the_command_prints_draws_and_writes_json(tmp_path: Path) -> None:
    picture = tmp_path / "wall.png"
    words = ["scaling-limit", "examples/h100.toml", "gpu_mttf=50000h", "pipeline_parallel=8"]
    done = CliRunner().invoke(cli, [*words, "-o", str(picture)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "limit" in done.output
    assert "fastest: " in done.output
    assert picture.stat().st_size > 10_000
    done = CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False)
    held = json.loads(done.stdout)
    assert held["data_vars"]["fastest_gpus"]["data"] > 0
    assert held["data_vars"]["doubling_gain"]["data"][0] is None


def test_a_loss_that_slows_a_job_binds_before_it_ends_it() -> None:
    found = of({**JOB, "goodput_model": "first_order", "gpu_mttf": "300 h"})
    held = found["doubling_gain"].values < 1.9
    assert found["why"].sel(limit="failures").item().startswith("doubling gave")
    assert starts(found)["failures"] == found["n_gpus"].values[held][0]


def test_each_size_gets_the_best_layout_of_what_is_open() -> None:
    """As each size planned by itself: 2,048 sequences over 32,768 / (8 x 16) replicas are 8, too
    few for 16 stages, and 16 with two context ranks."""
    path = Path(__file__).parents[2] / "examples" / "llama-3-405b.toml"
    sizes = [16384, 32768]
    open_ = Sweep.from_file(path).scaling_limit(sizes, search="layout")
    planned = Sweep.from_file(path).replace(axes={"n_gpus": sizes}).best(search="layout")
    assert open_["job_time"].values.tolist() == planned["job_time"].values.tolist()
    assert open_["layout"].values.tolist() == planned["whole_layout"].values.tolist()
    assert all("TP8 PP16 VPP4 CP2 " in layout for layout in open_["layout"].values)
    assert open_["fastest_gpus"] == 32768
    assert Sweep.from_file(path).scaling_limit(sizes)["infeasible_reason"].values[1] > 0
    done = CliRunner().invoke(
        cli, ["scaling-limit", str(path), "--between", "16384:32768"], catch_exceptions=False
    )
    assert "fastest: 32,768 GPUs" in done.output


def test_the_picture_starts_four_sizes_before_the_first_limit_and_names_layouts() -> None:
    found = of(JOB)
    sizes, names = found["n_gpus"].values, {}
    layouts = [f"TP8 PP{k + 1} MBS1 ZeRO-1" for k in range(sizes.size)]
    for name, start in starts(found).items():
        names[start] = f"{names[start]}, {name}" if start in names else name
    upper, lower = wall_picture(found.assign(layout=("n_gpus", layouts)), None).axes
    drawn = upper.lines[0].get_xdata()
    assert drawn.tolist() == sizes[sizes >= min(names) / 16].tolist()
    assert len(drawn) < sizes.size
    ticks = [tick.get_text().replace("\n", " ") for tick in lower.get_xticklabels()]
    assert ticks == [f"{n:,} {own}" for n, own in zip(sizes, layouts, strict=True)][-len(drawn) :]
    assert [text.get_text().strip() for text in upper.texts] == [names[k] for k in sorted(names)]
