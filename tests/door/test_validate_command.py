"""`fleetcube validate`: the table, its JSON and its picture."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fleetcube.calibration import measurements
from fleetcube.calibration.row import LeftOut, Row
from fleetcube.cli import cli
from fleetcube.grid.errors import InputError

JOB: dict[str, Any] = {
    "parameters": 1e9,
    "layers": 10,
    "hidden_size": 2048,
    "kernel_flops_per_token": 6e9,
    "recompute_flops_factor": 1.0,
    "fabric": "infiniband-hdr",
    "sequence_length": 1000,
    "gpu": "a100-sxm-80gb",
    "n_gpus": 1,
}
ONCE = 6e9 * 1000 / 312e12 / 0.5  # [s] for one sequence at half the peak
REDUCED = {"message_bytes": 8, "ranks": 16, "nodes": 2, "calibration": "aws-p5"}
# sequences, measured in times of ONCE, share of the peak: predicted 8, 20 and 80 of ONCE
STEPS = ((8, 10, 0.5), (16, 16, 0.4), (32, 160, 0.2))
ROWS = [
    *(
        Row(
            f"s/{n}",
            "a_group_of_long_name_23",
            "",
            JOB | {"global_batch_size": n, "flops_efficiency": share},
            "step_time",
            measured * ONCE,
        )
        for n, measured, share in STEPS
    ),
    Row("r/1", "reduced", "", REDUCED, "all_reduce_time", 70e-6),
]
LEFT = [LeftOut(f"x/{k}", "other", "no shape") for k in range(2)] + [LeftOut("y", "reduced", "TPU")]


@pytest.fixture(autouse=True)
def _own_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "read_records", lambda path=None: ([*ROWS], [*LEFT]))


def told(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["validate", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_the_table_has_a_row_for_each_group_and_fits_a_terminal() -> None:
    lines = told().splitlines()
    assert max(map(len, lines)) <= 80
    # errors -20 %, 25 %, -50 %; shares of the peak 0.4, 0.5, 0.1: dummy 0, 25 %, -75 %;
    # measured rates 0.8, 1, 0.2 beside 1, 0.8, 0.4: two of three ranks swapped
    numbers = ["3", "31.7", "25.0", "50.0", "-15.0", "0.500", "33.3", "-"]
    assert ["a_group_of_long_name_23", *numbers] in [line.split() for line in lines]
    assert "4 measurements compared, 3 records left out" in lines
    assert [line for line in lines if "no shape" in line] == ["    2  no shape"]
    assert "x/0" not in "".join(lines)


def test_records_left_out_are_listed_when_asked_for() -> None:
    lines = told("--left-out").splitlines()
    at = lines.index("    2  no shape")
    assert [line.strip() for line in lines[at + 1 : at + 3]] == ["x/0", "x/1"]


def test_the_json_holds_groups_rows_and_what_was_left_out() -> None:
    found = json.loads(told("--json"), parse_constant=lambda text: pytest.fail(text))
    assert list(found) == ["groups", "rows", "left_out"]
    steps, reduced = found["groups"]
    assert list(steps) == [
        "group",
        "of",
        "n",
        "mean_percent",
        "median_percent",
        "max_percent",
        "bias_percent",
        "rank_correlation",
        "coverage",
        "dummy_mean_percent",
        "dummy_median_percent",
    ]
    assert steps["mean_percent"] == pytest.approx(95 / 3)
    assert reduced["rank_correlation"] is None
    assert reduced["dummy_mean_percent"] is None
    row = found["rows"][0]
    assert list(row) == [
        "id",
        "group",
        "of",
        "measured",
        "predicted",
        "low",
        "high",
        "error_percent",
    ]
    assert row["predicted"] == pytest.approx(8 * ONCE)
    assert row["error_percent"] == pytest.approx(-20)
    assert found["left_out"][0] == {"id": "x/0", "group": "other", "reason": "no shape"}
    assert len(found["left_out"]) == 3


def test_groups_are_chosen() -> None:
    found = json.loads(told("--json", "--group", "reduced"))
    assert [group["group"] for group in found["groups"]] == ["reduced"]
    assert [record["id"] for record in found["left_out"]] == ["y"]
    assert math.isclose(found["rows"][0]["measured"], 70e-6)


def test_an_unknown_group_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'reduced'"):
        told("--group", "reduce")


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    told("--plot", str(tmp_path / "accuracy.png"))
    assert (tmp_path / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ending"):
        told("--plot", str(tmp_path / "accuracy.txt"))


def test_a_file_of_records_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    # Daly 2006: 117 min of checkpoints of 5 min, at a failure a day
    daly = {"cluster_mtbf": "24 h", "checkpoint_stall_time": "5 min"}
    held = [
        {"id": "d/1", "inputs": daly, "measured": {"exact_interval": "117 min"}},
        {"id": "d/2", "inputs": daly},
    ]
    path = tmp_path / "measurements.json"
    path.write_text(json.dumps(held), encoding="utf-8")
    found = json.loads(told("--records", str(path), "--json"))
    assert [row["id"] for row in found["rows"]] == ["d/1"]
    assert found["rows"][0]["predicted"] == pytest.approx(117 * 60, rel=0.005)
    assert [record["id"] for record in found["left_out"]] == ["d/2"]


def test_a_published_table_is_read_like_a_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    path = Path(__file__).parents[2] / "catalog" / "data" / "measured" / "meta_rsc.csv"
    published = json.loads(told("--group", "meta_rsc", "--json"))
    assert published["rows"]
    assert json.loads(told("--records", str(path), "--json")) == published
    twice = json.loads(told("--records", str(path), "--records", str(path), "--json"))
    assert twice["rows"] == published["rows"]
    assert any("its id appears twice" in record["reason"] for record in twice["left_out"])


def test_a_spec_gives_what_the_records_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    spec, rows = tmp_path / "job.toml", tmp_path / "steps.csv"
    stated = "".join(f"{name} = {json.dumps(value)}\n" for name, value in JOB.items())
    spec.write_text(f"outputs = ['step_time']\n[scenario]\n{stated}flops_efficiency = 0.25\n")
    rows.write_text("global_batch_size,flops_efficiency,step_time\n8,0.5,1\n16,,1\n")
    found = json.loads(told("--records", str(rows), "--spec", str(spec), "--json"))["rows"]
    assert [row["predicted"] for row in found] == pytest.approx([8 * ONCE, 32 * ONCE])
    with pytest.raises(InputError, match="--records"):
        told("--spec", str(spec))


def test_rows_are_beside_their_predictions_with_their_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    spec, rows = tmp_path / "job.toml", tmp_path / "facts.csv"
    stated = "".join(f"{name} = {json.dumps(value)}\n" for name, value in JOB.items())
    # 90 % of steps are within a factor of 1.25, and so is what follows from the step's time
    more = "flops_efficiency = 0.5\nerror_factor = 1.25\nglobal_batch_size = 8\n"
    spec.write_text(f"outputs = ['step_time']\n[scenario]\n{stated}{more}")
    measured = f"a,a report,a middle,{10 * ONCE},{800 / ONCE},\nb,,,{8 * ONCE},,1\n"
    rows.write_text(f"id,source,note,step_time,tokens_per_second,hbm_capacity [GB]\n{measured}")
    lines = told("--records", str(rows), "--spec", str(spec), "--rows").splitlines()
    assert max(map(len, lines)) <= 80
    found = [line.split() for line in lines]
    assert [(row[:2], row[-4:]) for row in found if row[-2:-1] == ["to"]] == [
        (["a", "step_time"], ["0.80", "(0.64", "to", "1.00)"]),
        (["a", "tokens_per_second"], ["1.25", "(1.00", "to", "1.56)"]),
        (["b", "step_time"], ["1.00", "(0.80", "to", "1.25)"]),
    ]
    assert lines[-4:] == [
        "cannot run here, out_of_memory: b (20.4 of 1.0 GB)",
        "a: a report; a middle",
        "b: no source",
        "3 measurements compared, 0 records left out",
    ]


def test_rows_near_the_capacity_may_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    spec, rows = tmp_path / "job.toml", tmp_path / "near.csv"
    stated = "".join(f"{name} = {json.dumps(value)}\n" for name, value in JOB.items())
    more = "flops_efficiency = 0.5\nglobal_batch_size = 8\n"
    spec.write_text(f"outputs = ['step_time']\n[scenario]\n{stated}{more}")
    # 20.4 GB are needed, within a factor of 1.07
    measured = "".join(f"{name},{8 * ONCE},{size}\n" for name, size in (("a", 20), ("b", 21)))
    rows.write_text(f"id,step_time,hbm_capacity [GB]\n{measured}c,{8 * ONCE},19\nd,{8 * ONCE},22\n")
    said = " ".join(told("--records", str(rows), "--spec", str(spec), "--rows").split())
    assert "may not fit here, within the error of the memory model: " in said
    assert "a (20.4 of 20.0 GB), b (20.4 of 21.0 GB)" in said
    assert "cannot run here, out_of_memory: c (20.4 of 19.0 GB)" in said
    assert "d (" not in said


def test_a_file_that_holds_no_records_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    (tmp_path / "measurements.json").write_text("{", encoding="utf-8")
    for name in ("measurements.json", "missing.json"):
        with pytest.raises(InputError, match=name):
            told("--records", str(tmp_path / name))
