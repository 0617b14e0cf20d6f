"""Layouts of pipelines, as Megatron-LM writes them, against stages counted by hand."""

from typing import Any

import pytest

import fleetcube
from fleetcube.grid.spec.patterns import stages

JOB: dict[str, Any] = {"model": "deepseek-v3", "n_gpus": 2048, "gpu": "h800-sxm"}


@pytest.mark.parametrize(
    ("layout", "chunks", "first", "middle", "last"),
    [
        ("Ett|(tttt|)*14tttmL", 1, 2, 4, 3),
        ("Et*2|(t*4|)*14tttmL", 1, 2, 4, 3),
        ("E|(tttt,|)*15t|L", 1, 0, 4, 0),
        ("Ettt|tt|tt|tt|tt|ttL", 2, 5, 4, 4),
        ("EttL", 1, 2, 0, 2),
    ],
)
def test_a_layout_is_counted(layout: str, chunks: int, first: int, middle: int, last: int) -> None:
    made = stages(layout, chunks)
    spelled = layout.replace("t*4", "tttt").replace("t*2", "tt").replace(",", "")
    pieces = spelled.replace("(tttt|)*14", "tttt|" * 14).replace("(tttt|)*15", "tttt|" * 15)
    assert made["layers"] == pieces.count("t")
    assert made["pipeline_parallel"] == (pieces.count("|") + 1) // chunks
    told = {"first_stage_layers": first, "middle_stage_layers": middle, "last_stage_layers": last}
    assert {name: made[name] for name in told if name in made} == {
        name: value for name, value in told.items() if name in made
    }
    assert made.get("prediction_layers", 0) == pieces.count("m")


def test_a_layout_sets_the_split_of_a_job() -> None:
    names = ["stage_layers", "infeasible_reason", "held_layers"]
    asked = {**JOB, "expert_parallel": 64, "global_batch_size": 15360, "hbm_capacity": float("inf")}
    got = fleetcube.evaluate(
        names, **asked, pipeline_layout="Ett|(tttt|)*14tttmL", pipeline_stage=[1, 2, 15, 16]
    )
    assert got.stage_layers.values.tolist() == [2, 4, 4, 4]
    assert got.held_layers == 62
    assert (got.infeasible_reason == 0).all()
    short = fleetcube.evaluate(names, **asked, pipeline_layout="Ett|(ttt|)*14ttttL")
    meanings = short.infeasible_reason.attrs["flag_meanings"].split()
    assert meanings[int(short.infeasible_reason)] == "layers_not_divisible"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pipeline_layout": "tt|L"}, "does not begin with E"),
        ({"pipeline_layout": 3}, "does not begin with E"),
        ({"pipeline_layout": "Ett|tE|ttL"}, "does not end with L"),
        ({"pipeline_layout": "(t*9999" * 9}, "does not"),
        ({"pipeline_layout": "Et|m|tL"}, "has 'm' between the ends"),
        ({"pipeline_layout": "Et|t|tL", "virtual_stages": 2}, "3 pieces, not a multiple"),
        ({"pipeline_layout": "Et|tL", "virtual_stages": [1, 2]}, "virtual_stages as one whole"),
        ({"pipeline_layout": "Et|tL", "pipeline_parallel": 4}, "does not add up"),
    ],
)
def test_what_is_no_layout_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(fleetcube.InputError, match=message):
        fleetcube.evaluate("infeasible_reason", **JOB, **given)
