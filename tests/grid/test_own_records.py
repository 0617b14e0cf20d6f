"""Records by public names: read as by hand, written and read back bit for bit."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from fleetcube.grid.measured import cells, own
from fleetcube.grid.measured.records import read_records
from fleetcube.grid.measured.row import LeftOut, Row
from fleetcube.grid.measured.validate import validate

from .common import Patch, cases, refused, written


def read(folder: Path, content: Any, name: str = "mine.csv") -> tuple[list[Row], list[LeftOut]]:
    text = content if isinstance(content, str) else json.dumps(content)
    return read_records(written(folder / name, text))


@pytest.fixture(scope="module")
def published() -> list[Row]:
    return read_records()[0]


@pytest.mark.parametrize("ending", own.ENDINGS)
def test_published_rows_are_read_again(ending: str, published: list[Row], tmp_path: Path) -> None:
    again, left_out = read(tmp_path, own.text_of(published, ending), f"rows{ending}")
    assert left_out == []
    assert again == [  # a CSV holds the notes as one
        Row(*(x.id, x.group, x.source, y.inputs, x.of, x.measured, y.notes))
        for x, y in zip(published, again, strict=True)
    ]
    assert [row.inputs for row in again] == [row.inputs for row in published]
    assert ["; ".join(row.notes) for row in again] == ["; ".join(row.notes) for row in published]


@pytest.mark.slow
def test_published_rows_read_again_are_alike_to_the_bit(published: Any, tmp_path: Path) -> None:
    again, _ = read(tmp_path, own.text_of(published, ".csv"))
    found = validate([*published, *again])
    assert found.left_out == ()
    rows = list(map(repr, found.rows))  # NaN is not itself
    assert len(published) > 800
    assert rows[: len(published)] == rows[len(published) :]


JOB = {"model": "llama-3-8b", "n_gpus": 64.0, "precision": "fp8", "sequence_parallel": True}
READ = [
    (
        "outputs as headings, units in headings and cells",
        "model, n_gpus, precision, sequence_parallel, step_time [ms], memory_per_gpu, id, note\n"
        "llama-3-8b, 64, FP8, TRUE, 1980, 41 GB, first, by hand\n"
        "llama-3-8b, 64, fp8, true, , 40 GB, ,\n",
        [("step_time", 1.98), ("memory_per_gpu", 41e9), ("memory_per_gpu", 40e9)],
    ),
    (
        "what a layout is computed to have is stated, not measured",
        "model, n_gpus, precision, sequence_parallel, expert_tensor_parallel, data_parallel,"
        "step_time\n"
        "llama-3-8b, 64, fp8, true, 1, 8, 2 s\n",
        [("step_time", 2.0)],
    ),
    (
        "of and measured: an output among the inputs is given",
        "# of my cluster\n"
        "of,measured [%],model,n_gpus,precision,sequence_parallel,layer_time [us]\n"
        "mfu,41,llama-3-8b,64,fp8,true,70\nmfu,0.5,llama-3-8b,64,fp8,true,\n",
        [("mfu", 0.41), ("mfu", 0.005)],
    ),
    (
        "semicolons and decimal commas",
        "tokens_per_second_per_gpu;model;n_gpus;precision;sequence_parallel\n"
        "1000,5;llama-3-8b;64;fp8;true\n",
        [("tokens_per_second", 64032.0)],
    ),
    ("flat objects", [{**JOB, "step_time": "1980 ms"}], [("step_time", 1.98)]),
    (
        "nested objects, in an object",
        {"records": [{"inputs": JOB, "measured": {"step_time": 2, "mfu": "41 %"}}]},
        [("step_time", 2.0), ("mfu", 0.41)],
    ),
    ("an object with of", [{"inputs": JOB, "of": "mfu", "measured": 0.4}], [("mfu", 0.4)]),
]


@cases("content, expected", *(case[1:] for case in READ))
def test_a_file_is_read_as_by_hand(content: Any, expected: Any, tmp_path: Path) -> None:
    rows, left_out = read(tmp_path, content)
    assert (left_out, [row.of for row in rows]) == ([], [of for of, _ in expected])
    assert [row.measured for row in rows] == pytest.approx([value for _, value in expected])
    for row in rows:
        assert {name: row.inputs[name] for name in JOB} == JOB
        assert row.inputs.keys() - JOB.keys() <= {
            "layer_time",
            "expert_tensor_parallel",
            "data_parallel",
        }
        assert row.group == "mine"
        assert row.id == "first" or row.id.startswith(f"{tmp_path / 'mine.csv'}:")
        assert row.notes == (("by hand",) if row.id == "first" else ())


def test_any_group_is_read_and_a_published_one_is_no_other(tmp_path: Path) -> None:
    groups = ["my cluster", "mosaic", "llama3_table5"]
    told = {"source": "us", "inputs": JOB, "measured": {"step_time": 2}}
    rows, left_out = read(tmp_path, [{"id": group, "group": group, **told} for group in groups])
    assert (left_out, [row.group for row in rows]) == ([], groups)
    assert {row.source for row in rows} == {"us"}


def test_all_reduces_are_read(tmp_path: Path) -> None:
    text = "message_bytes [MiB], ranks, nodes, calibration, all_reduce_time [us]\n8,16,2,aws-p5,400"
    (row,), _ = read(tmp_path, text)
    assert row.inputs == dict(message_bytes=2.0**23, ranks=16, nodes=2, calibration="aws-p5")
    assert row.measured == pytest.approx(400e-6)
    assert validate([row]).left_out == ()


def test_several_files_are_one_set_of_records(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        read(tmp_path / folder, f"id,step_time,mfu,n_gpus\n{folder},1,0.5,8\n,2,,8\n")
    rows, left_out = read_records([tmp_path / "a" / "mine.csv", tmp_path / "b" / "mine.csv"])
    assert left_out == []
    assert len({(row.id, row.of) for row in rows}) == len(rows) == 6
    rows, left_out = read_records([tmp_path / "a" / "mine.csv"] * 2)
    assert len(rows) == 3
    assert all("its id appears twice" in held.reason for held in left_out)
    assert len(left_out) == 3


LEFT_OUT = [
    ({"n_gpu": 8, "step_time": 1}, "'n_gpu' is not an input; did you mean 'n_gpus'?"),
    ({"gpu": "h100-sxx", "step_time": 1}, "did you mean 'h100-sxm'?"),
    ({"recompute": "fulls", "step_time": 1}, "did you mean 'full'?"),
    ({"n_gpus": "8 parsec", "step_time": 1}, "parsec"),
    ({"n_gpus": [8], "step_time": 1}, "n_gpus = [8] is not a plain number"),
    ({"n_gpus": math.nan, "step_time": 1}, "not finite"),
    ({"n_gpus": 10**400, "step_time": 1}, "n_gpus"),
    ({"ranks": 8, "step_time": 1}, "'ranks' is not an input"),
    ({"inputs": 7, "step_time": 1}, "inputs = 7 is not an object"),
    ({"inputs": {"n_gpus": 8}, "n_gpus": 8, "step_time": 1}, "'n_gpus' appears twice"),
    ({"inputs": {"step_time": 2}, "measured": {"step_time": 1}}, "both given and measured"),
    ({"n_gpus": 8, "step_time": 0}, "step_time = 0 is not finite and above 0"),
    ({"n_gpus": 8, "step_time": "soon"}, "step_time"),
    ({"n_gpus": 8, "step_time": None}, "nothing in it is measured"),
    ({"n_gpus": 8, "mfu": 41}, "mfu is a share, not above 1: write 35 % or 0.35"),
    ({"n_gpus": 8, "of": "step_tim", "measured": 1}, "did you mean 'step_time'?"),
    ({"n_gpus": 8, "of": {}, "measured": 1}, "of = {} names no output"),
    ({"n_gpus": 8, "of": "step_time"}, "measured has no value of step_time"),
    ({"n_gpus": 8, "step_time": 1, "measured": 1}, "measured = 1 is of no output"),
    ({"tokens_per_second_per_gpu": 1}, "state n_gpus"),
    ({f"k{k}": 1 for k in range(1001)} | {"step_time": 1}, "more than 1,000 values"),
]


def test_what_cannot_be_read_is_left_out_in_one_line_each(tmp_path: Path) -> None:
    good = {"n_gpus": 8, "step_time": 1}
    rows, left_out = read(tmp_path, [*(entry for entry, _ in LEFT_OUT), good])
    assert [row.inputs for row in rows] == [{"n_gpus": 8}]
    for held, (entry, reason) in zip(left_out, LEFT_OUT, strict=True):
        assert reason in held.reason, str(entry)[:200]
        assert "\n" not in held.reason
        assert len(held.reason) < 500


def test_rows_of_a_csv_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    rows, left_out = read(tmp_path, "step_time,n_gpus,my date\n1,8,\n1,8,May\n1,8,,7\n,8,\n1\n")
    assert [dict(row.inputs) for row in rows] == [{"n_gpus": 8}, {}]
    reasons = ("'my date' is not an input", "7.0 has no heading", "nothing in it is measured")
    for held, reason, place in zip(left_out, reasons, (2, 3, 4), strict=True):
        assert reason in held.reason
        assert held.id.endswith(f"mine.csv:{place}")


@cases(
    "text, match",
    ("step_time,n_gpus\n", "has no rows"),
    ("step_time,n_gpus,n_gpus\n1,2,3\n", "'n_gpus' appears twice"),
    ('step_time,n_gpus\n1,"' + "x" * 200_000 + '"\n', "is not CSV"),
    ("time,n_gpus\n1,2\n", "name what was measured"),
)
def test_a_file_of_another_kind_is_one_line(text: str, match: str, tmp_path: Path) -> None:
    refused(match, read, tmp_path, text)


def test_files_have_limits(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(cells, "MOST_ROWS", 2)
    assert len(read(tmp_path, "step_time,n_gpus\n1,2\n1,2\n")[0]) == 2
    refused("more than 2 rows", read, tmp_path, "step_time,n_gpus\n1,2\n1,2\n1,2\n")


def test_texts_do_not_become_formulas_or_other_cells(tmp_path: Path) -> None:
    row = Row("=1+1", '@a,"b"\n#c', "'-x", {"n_gpus": 8}, "step_time", 0.1, ("#; a", "\ud800"))
    text = own.text_of([row], ".csv")
    assert "'=1+1" in text
    (again,), _ = read(tmp_path, text)
    assert (again.id, again.group, again.source) == (row.id, row.group, row.source)
    assert again.notes == ("#; a; ?",)
    (again,), _ = read(tmp_path, own.text_of([row], ".json"), "rows.json")
    assert (again.id, again.group, again.source) == (row.id, row.group, row.source)
