"""Vega-Lite specifications: structure and data. Rendered ones are checked by eye."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fleetcube import Settings
from fleetcube.cli import cli
from fleetcube.grid.errors import InputError
from fleetcube.kernels.physics.roles import LOSSES
from fleetcube.presentation.pictures.kinds import ROOFLINE, losses_boxes, with_flips
from fleetcube.presentation.pictures.picture import point_labels
from fleetcube.presentation.pictures.vega import box_spec, pareto_spec, roofline_spec, vega_lite
from fleetcube.sweep import Sweep
from fleetcube.tables.theme import PARTS

JOB = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr", "tensor_parallel": 8}
AXES = {"n_gpus": [32, 64, 200_000], "gpu_mttf": ["10_000 h", "20_000 h"], "micro_batch_size": [1]}


@pytest.fixture(scope="module")
def cube() -> Any:
    return Sweep(JOB, AXES, ["job_time", "goodput"]).evaluate(settings=Settings("numpy"))


def check(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Check a specification of layers with inline data; returns the data."""
    assert spec["$schema"] == "https://vega.github.io/schema/vega-lite/v6.json"
    rows = spec["data"]["values"]
    assert rows
    assert len({frozenset(row) for row in rows}) == 1
    assert spec["description"]
    for layer in spec["layer"]:
        mark = layer["mark"] if isinstance(layer["mark"], str) else layer["mark"]["type"]
        assert mark in ("line", "point", "area", "rect", "bar")
        made = {step["as"] for step in layer["transform"] if "as" in step}
        for channel in layer["encoding"].values():
            for each in channel if isinstance(channel, list) else [channel]:
                assert ("field" in each) != ("value" in each)
                assert each.get("field") in {None, *rows[0], *made}
                assert each.get("type") in (None, "quantitative", "nominal", "ordinal")
    assert json.loads(json.dumps(spec, allow_nan=False)) == spec
    return list(rows)


def test_curves_have_their_points_in_the_units_of_their_headings(cube: Any) -> None:
    rows = check(cube.fleetcube.plot.vega_lite("n_gpus", of="job_time", title="Mine", size="8x4"))
    assert len(rows) == 6
    for row in rows:
        hours = float(row["gpu_mttf"].replace(",", ""))
        point = cube.sel(n_gpus=row["n_gpus"], gpu_mttf=3600 * hours).squeeze()
        assert row["job_time"] == pytest.approx(float(point["job_time"]) / 86400)
        assert row["can_run"] == (int(point["infeasible_reason"]) == 0)
    assert {row["can_run"] for row in rows} == {True, False}
    spec = vega_lite(cube, "job_time", "n_gpus")
    assert spec["title"]["subtitle"][-1].startswith("2 of 6 points infeasible: hollow")
    line = spec["layer"][0]["encoding"]
    assert (line["x"]["title"], line["x"]["scale"]["type"]) == ("GPUs", "log")
    assert line["y"]["title"] == "job time [d]"


def test_near_points_have_labels_of_their_own_and_axes_no_name_of_a_column(cube: Any) -> None:
    near = cube.assign_coords(n_gpus=[50_000.0, 50_000.01, 50_000.02])
    assert point_labels(near["n_gpus"]) == ["50,000", "50,000.01", "50,000.02"]
    for name in ("can_run", "job_time_low", "gpu_mttf_from"):
        with pytest.raises(InputError, match=f"axis '{name}' has the name of a column"):
            vega_lite(cube.rename(n_gpus=name), "job_time", name, "gpu_mttf")


def test_cells_of_a_map_meet_half_way(cube: Any) -> None:
    rows = check(vega_lite(cube, "goodput", "n_gpus", "gpu_mttf"))
    ends = sorted({(row["n_gpus"], row["n_gpus_from"], row["n_gpus_to"]) for row in rows})
    assert ends[0][2] == pytest.approx(np.sqrt(32 * 64))
    assert [low for _, low, _ in ends[1:]] == [high for _, _, high in ends[:-1]]


def test_flags_are_meanings_with_the_colours_of_pictures(cube: Any) -> None:
    reasons = cube["infeasible_reason"].broadcast_like(cube["job_time"])
    held = cube.assign_coords(infeasible_reason=reasons)
    spec = vega_lite(held, "infeasible_reason", "n_gpus", "gpu_mttf")
    check(spec)
    scale = spec["layer"][1]["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True))["feasible"] == PARTS[-1]
    assert len(scale["domain"]) == 2


def test_intervals_are_bands_and_ratios_have_none() -> None:
    axes = {"n_gpus": [32, 64], "gpu_mttf": ["10_000 h", "20_000 h"]}
    held = Sweep(JOB, {**axes, "step_time_error": [-1, 0, 1]}, ["job_time"]).evaluate(
        settings=Settings("numpy")
    )
    spec = vega_lite(held, "job_time", "n_gpus")
    rows = check(spec)
    assert spec["layer"][0]["mark"]["type"] == "area"
    assert all(row["job_time_low"] < row["job_time"] < row["job_time_high"] for row in rows)
    ratios = check(vega_lite(held, "job_time", "n_gpus", best="min"))
    assert min(row["job_time"] for row in ratios) == 1
    assert not any("low" in name for name in ratios[0])


def test_the_command_writes_a_spec_of_curves_and_maps(tmp_path: Path, capsys: Any) -> None:
    stored = Sweep(JOB, AXES, ["job_time"]).to_zarr(tmp_path / "cube.zarr")
    target = tmp_path / "picture.json"
    words = ["plot", str(stored), "-v", "job_time", "-x", "n_gpus", "-o", str(target)]
    cli.main([*words, "micro_batch_size=1", "--title", "Mine"], standalone_mode=False)
    spec = json.loads(target.read_text(encoding="utf-8"))
    check(spec)
    assert spec["title"]["text"] == "Mine"
    assert "points infeasible" in capsys.readouterr().err


def test_more_points_than_a_spec_holds_are_refused() -> None:
    axes = {"n_gpus": {"arange": [8, 24_016, 8]}, "micro_batch_size": [1, 2, 4, 8, 16, 32, 64]}
    held = Sweep(JOB, axes, ["goodput", "job_time"]).evaluate(settings=Settings("numpy"))
    with pytest.raises(InputError, match=r"21,007 points there, more than the 20,000 of a spec"):
        vega_lite(held, "job_time", "n_gpus")


PHASED: list[dict[str, str]] = [
    {"name": name, "training_tokens": "1T"} for name in ("first", "last")
]
PHASED[1]["transition_time"] = "1 d"


@pytest.fixture(scope="module")
def spec_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("boxes")
    tables = {"scenario": {**JOB, "n_gpus": 64, "calibration": "none"}}
    for name, phases in (("one", []), ("phased", PHASED)):
        lines = ['outputs = ["job_time", "goodput"]']
        for head, table in [*tables.items(), *(("[phase]", each) for each in phases)]:
            lines += [f"[{head}]", *(f"{key} = {json.dumps(v)}" for key, v in table.items())]
        (folder / f"{name}.toml").write_text("\n".join(lines))
    return folder


def drawn(folder: Path, *command: str) -> dict[str, Any]:
    target = folder / "drawn.json"
    ran = CliRunner().invoke(cli, [*command, str(target)])
    assert ran.exit_code == 0, ran.output
    spec: dict[str, Any] = json.loads(target.read_text())
    check(spec)
    return spec


def test_losses_are_bars_that_end_at_one(cube: Any) -> None:
    held = (
        Sweep(JOB, AXES, [*LOSSES, "job_time"])
        .evaluate(settings=Settings("numpy"))
        .isel(gpu_mttf=0)
    )
    rows = check(box_spec(losses_boxes(held, "n_gpus")))
    assert list(dict.fromkeys(row["at"] for row in rows)) == ["32", "64", "200,000"]
    for label in ("32", "64", "200,000"):
        own = [row for row in rows if row["at"] == label]
        assert (own[0]["from"], own[-1]["until"]) == (0, pytest.approx(1))
        for below, above in pairwise(own):
            assert below["until"] == above["from"]
    by_part = {row["part"]: row["until"] - row["from"] for row in rows if row["at"] == "64"}
    share = float(held["communication_overhead"].sel(n_gpus=64).squeeze())
    assert by_part["communication"] == pytest.approx(share)
    assert {row["part"] for row in rows if row["at"] == "200,000"} == {"cannot run"}


def test_a_step_a_timeline_and_a_tornado_are_boxes(spec_files: Path) -> None:
    one = str(spec_files / "one.toml")
    step = drawn(spec_files, "plot", one, "--kind", "step", "--title", "Mine", "-o")
    assert step["title"]["text"] == "Mine"
    whole, *parts = step["data"]["values"]
    assert whole["part"] == "step"
    top = [row["until"] - row["from"] for row in parts if row["depth"] == "1"]
    assert sum(top) == pytest.approx(whole["until"])
    phased = str(spec_files / "phased.toml")
    rows = drawn(spec_files, "plot", phased, "--kind", "timeline", "-o")["data"]["values"]
    ready = [row for row in rows if row["part"] == "making ready"]
    assert [(row["phase"], round(row["until"] - row["from"], 6)) for row in ready] == [("last", 1)]
    asked = ["sensitivity", one, "--of", "job_time", "--wrt", "gpu_mttf"]
    asked += ["--wrt", "n_gpus", "--tornado"]
    bars = drawn(spec_files, *asked)["data"]["values"]
    assert bars[0]["input"] == "GPU MTTF"
    assert {row["change"].split()[0] for row in bars} == {"inputs", "whole"}
    assert bars[-1]["input"] == "GPUs"
    for row in bars:
        faster = row["until"] < row["from"]
        assert row["part"] == ("worse: higher job time", "better: lower job time")[faster]
    asked = ["sensitivity", one, "--of", "goodput", "--wrt", "pue", "--tornado"]
    ran = CliRunner().invoke(cli, [*asked, str(spec_files / "none.json")])
    assert "has nothing to draw" in str(ran.exception)
    assert len({row["from"] for row in bars}) == 1


def test_flips_and_walls_are_specified(spec_files: Path) -> None:
    held = Sweep(JOB, AXES, [*LOSSES]).evaluate(settings=Settings("numpy"))
    spec = vega_lite(with_flips(held), "largest_loss", "n_gpus", "gpu_mttf")
    words = {name.removesuffix("_overhead") for name in LOSSES} | {"no value"}
    assert {row["largest_loss"] for row in check(spec)} <= words
    wall = drawn(
        spec_files, "scaling-limit", str(spec_files / "one.toml"), "--search", "none", "-o"
    )
    assert wall["title"]["text"].startswith("Fastest with")
    assert any(line.startswith("batch from") for line in wall["title"]["subtitle"])


def test_rooflines_and_fronts_have_the_points_of_their_pictures() -> None:
    names = [*ROOFLINE, "job_time", "goodput"]
    held = Sweep(JOB, {"n_gpus": [32, 64, 128]}, names).evaluate(settings=Settings("numpy"))
    rows = check(roofline_spec(held, "n_gpus"))
    reached = {row["point"]: row["rate"] for row in rows if row["what"] == "reached"}
    for gpus in (32, 64, 128):
        point = held.sel(n_gpus=gpus)
        assert reached[str(gpus)] == pytest.approx(float(point.mfu * point.peak_flops) / 1e12)
    roof = [(row["intensity"], row["rate"]) for row in rows if row["what"] == "roof"]
    assert len(roof) == 3  # one GPU has one, of two straight lines
    assert roof[0][1] / roof[0][0] == pytest.approx(roof[1][1] / roof[1][0])
    assert roof[1][1] == roof[2][1] == float(held.peak_flops) / 1e12
    for best, kept in ((("min", "max"), {"32", "64", "128"}), (("max", "max"), {"32"})):
        rows = check(pareto_spec(held, "job_time", "goodput", best, "n_gpus"))
        front = [row for row in rows if row["place"] >= 0]
        assert ({row["point"] for row in front}, len(rows)) == (kept, 3 + len(front))
        assert [row["place"] for row in front] == [*range(len(front))]


def test_tiers_are_cells_of_the_traffic_that_crosses_them(spec_files: Path) -> None:
    one = str(spec_files / "one.toml")
    rows = drawn(spec_files, "plot", one, "--kind", "topology", "-o")["data"]["values"]
    crossed = [(row["traffic"], row["tier"].split(":")[0]) for row in rows]
    assert [tier for kind, tier in crossed if kind == "tensor"] == ["node"]
    assert len([tier for kind, tier in crossed if kind == "data"]) > 1
