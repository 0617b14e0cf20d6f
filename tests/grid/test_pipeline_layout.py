"""Pipeline layouts in Megatron-LM's notation, against stages counted by hand."""

from typing import Any

import pytest

import fleetcube
from fleetcube import Sweep
from fleetcube.scenario.patterns import stages

from .common import cases

JOB: dict[str, Any] = {"model": "deepseek-v3", "n_gpus": 2048, "gpu": "h800-sxm"}


@cases(
    "layout, chunks, first, middle, last",
    ("Ett|(tttt|)*14tttmL", 1, 2, 4, 3),
    ("Et*2|(t*4|)*14tttmL", 1, 2, 4, 3),
    ("E|(tttt,|)*15t|L", 1, 0, 4, 0),
    ("Ettt|tt|tt|tt|tt|ttL", 2, 5, 4, 4),
    ("EttL", 1, 2, 0, 2),
    ("Et*3|(tt|)*29,m|L", 2, 5, 4, 2),  # Megatron-LM's own of DeepSeek-V3, 2 x 16 pieces
    ("Ettt|ttt|ttt|ttmL", 1, 3, 3, 2),
)
def test_a_layout_is_counted(layout: str, chunks: int, first: int, middle: int, last: int) -> None:
    made = stages(layout, chunks)
    spelled = layout.replace("t*4", "tttt").replace("t*2", "tt").replace(",", "")
    pieces = spelled.replace("(tttt|)*14", "tttt|" * 14).replace("(tttt|)*15", "tttt|" * 15)
    pieces = pieces.replace("t*3", "ttt").replace("(tt|)*29m", "tt|" * 29 + "m")
    assert made["layers"] == pieces.count("t")
    assert made["pipeline_parallel"] == (pieces.count("|") + 1) // chunks
    told = {"first_stage_layers": first, "middle_stage_layers": middle, "last_stage_layers": last}
    assert {n: made[n] for n in told if n in made} == {n: v for n, v in told.items() if n in made}
    assert made.get("prediction_layers", 0) == pieces.count("m")


def test_a_layout_sets_the_split_of_a_job() -> None:
    names = ["stage_layers", "infeasible_reason", "held_layers"]
    asked = {**JOB, "expert_parallel": 64, "global_batch_size": 15360, "hbm_capacity": float("inf")}
    asked |= {"pipeline_layout": "Ett|(tttt|)*14tttmL", "pipeline_stage": [1, 2, 15, 16]}
    got = fleetcube.evaluate(names, **asked)
    assert (got.stage_layers.values.tolist(), got.held_layers) == ([2, 4, 4, 4], 62)
    assert (got.infeasible_reason == 0).all()


def test_pieces_that_come_back_are_folded() -> None:
    """8 layers in the first chunk, one in each other: folded with the first stage or the third."""
    assert stages("E" + "t" * 8 + "|t|t|t|t|tL", 2)["first_stage_layers"] == 9
    made = stages("E" + "t" * 4 + "|t|t|t|t|ttL", 2, folded=True)
    assert [made[f"{place}_stage_layers"] for place in ("first", "middle", "last")] == [6, 2, 2]
    job = {"hidden_size": 4096, "attention_heads": 32, "n_gpus": 12, "global_batch_size": 60}
    for schedule, first in (("zb_v", 6), ("dualpipev", 6)):
        layout = {"pipeline_layout": "Etttt|t|t|t|t|ttL", "pipeline_schedule": schedule}
        assert fleetcube.evaluate("stage_layers", **job, **layout, pipeline_stage=1) == first


def test_models_of_an_axis_hold_the_layers_of_a_layout() -> None:
    job = {"node": "dgx-h100", "n_gpus": 64, "pipeline_layout": "E|(tttt|)*8L"}
    with pytest.raises(fleetcube.InputError, match="has 32 layers t, llama-3-70b has 80"):
        Sweep(job, {"model": ["llama-3-8b", "llama-3-70b"]}, ["step_time"])


def test_stages_between_that_differ_are_bounded() -> None:
    """The second stage holds 8 layers; peak memory is that of 8 on each middle stage."""
    job = {"hidden_size": 4096, "attention_heads": 32, "n_gpus": 60, "global_batch_size": 60}
    uneven = fleetcube.evaluate("memory_per_gpu", **job, pipeline_layout="Et|t*8|t|t|tL")
    full = fleetcube.evaluate("memory_per_gpu", **job, pipeline_layout="Et|(t*8|)*3tL")
    assert full <= uneven <= 1.002 * full


@pytest.mark.parametrize("group", [None, 4, 6])
@pytest.mark.parametrize("layout", ["Et|t|ttt|ttL", "E||t|tt|ttt|tttL", "Ettt|ttt||t|t|tL"])
def test_unequal_pieces_are_never_told_to_keep_too_little(layout: str, group: int | None) -> None:
    """Against passes counted in Megatron-LM's order, in groups of micro-batches of any size."""
    sizes = [piece.count("t") for piece in layout.split("|")]
    p, v, m = len(sizes) // 2, 2, 24
    n = group or p
    most = []
    for stage in range(p):
        order = [(k, c) for k in range(0, m, n) for c in range(v) for _ in range(n)]
        forward = [sizes[stage + c * p] for _, c in order]
        backward = [sizes[stage + (v - 1 - c) * p] for _, c in order]
        ahead = (v - 1) * n + 2 * (p - stage - 1)
        done = range(len(forward))
        most.append(max(sum(forward[: i + 1]) - sum(backward[: max(i - ahead, 0)]) for i in done))
    job: dict[str, Any] = dict(hidden_size=1024, attention_heads=8, n_gpus=p, logits_memory=0)
    job |= {"global_batch_size": m, "activation_memory_per_layer": 1.0, "virtual_stages": v}
    job |= {"microbatch_group_size": group} if group else {}
    job |= {"pipeline_layout": layout, "pipeline_stage": list(range(1, p + 1))}
    got = fleetcube.evaluate("activation_memory", **job).values
    assert (got[[0, -1]] >= [most[0] - 1e-9, most[-1] - 1e-9]).all()
    assert max(got) >= max(most) - 1e-9
    if not group:
        assert got[[0, -1]] == pytest.approx([most[0], most[-1]])


@cases(
    "given, message",
    ({"pipeline_layout": "tt|L"}, "does not begin with E"),
    ({"pipeline_layout": 3}, "is not one text"),
    ({"pipeline_layout": ["EtL"]}, "is one text of the scenario"),
    ({"pipeline_layout": "Ett|tE|ttL"}, "does not end with L"),
    ({"pipeline_layout": "(t*9999" * 9}, "does not"),
    ({"pipeline_layout": "Et|m|tL"}, "has 'm' between the ends"),
    ({"pipeline_layout": "Et|E|tL"}, "does not end with L"),
    ({"pipeline_layout": "Et|m|mL"}, "in one piece"),
    ({"pipeline_layout": "Ett|(ttt|)*14ttttL"}, "has 48 layers t, deepseek-v3 has 61"),
    ({"pipeline_layout": "Et|tL", "virtual_stages": 1.5}, "as a whole number"),
    ({"pipeline_layout": "Et|t|tL", "virtual_stages": 2}, "3 pieces, not a multiple"),
    ({"pipeline_layout": "Et|tL", "virtual_stages": [1, 2]}, "holds for one virtual_stages"),
    ({"pipeline_layout": "E|t*60tL", "pipeline_parallel": 4}, "does not add up"),
)
def test_what_is_no_layout_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(fleetcube.InputError, match=message):
        fleetcube.evaluate("infeasible_reason", **JOB, **given)
