"""What nobody stated is listed with an answer by its effect, checked by asking for each alone."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetcube import Sweep, explain
from fleetcube.analysis.assumptions import ASSUMED, LEAST, MOST, assumed, lines, of_ratio
from fleetcube.catalog import kind, record
from fleetcube.catalog.assumptions import assumptions
from fleetcube.grid.errors import InputError
from fleetcube.grid.run.evaluation import is_known
from fleetcube.grid.spec import values
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.reasons import OUT_OF_MEMORY
from fleetcube.tables.table_notes import remarks

from ..draws import generator, scaled

JOB: dict[str, Any] = dict(model="llama-3-70b", node="dgx-h100", fabric="infiniband-ndr")
JOB |= dict(n_gpus=2048, tensor_parallel=8, pipeline_parallel=4, recompute="selective")
STATED = {
    "node": ("dgx-a100", "dgx-h100", "dgx-b200"),
    "model": ("llama-3-8b", "llama-3-70b", "mixtral-8x7b"),
    "n_gpus": (64, 512, 2048, 8192),
    "software": ("megatron-lm", None),
    "node_pool": ("closed", None),
    "spare_nodes": (2, None, None),
    "checkpoint_mode": ("async", None),
    "storage": ("reference-100gbs", None, None),
    "precision": ("fp8", None, None),
    "zero_stage": (1, 3, None),
    "sequence_length": (8192, None),
    "expert_load_imbalance": (1.5, None, None),
    "compute_model": ("mfu", None, None),
    "pipeline_parallel": (1, 4, 8, None),
    "context_parallel": (2, None, None),
    "expert_parallel": (8, None),
    "virtual_stages": (2, None, None),
    "pipeline_schedule": ("dualpipev", "zb_v", None, None, None),
    "data_parallel_overlap": (0.5, None, None),
    "hybrid_sharding": (True, None, None, None),
}
OUTPUTS = ("job_time", "goodput", "memory_per_gpu", "step_time", "cluster_mtbf", "energy")


def drawn(seed: int) -> tuple[dict[str, Any], list[str]]:
    draw = generator(seed)
    scenario: dict[str, Any] = {"fabric": "infiniband-ndr", "tensor_parallel": 8}
    for name, choices in STATED.items():
        choice = choices[draw.integers(len(choices))]
        scenario |= {} if choice is None else {name: choice}
    outputs = draw.choice(OUTPUTS, size=draw.integers(1, 4), replace=False).tolist()
    return scenario, outputs


def typed(name: str, text: str) -> dict[str, Any]:
    """What a line says, as a user types it: "closed, spare_nodes 8" of node_pool."""
    if "=" in text:
        return dict([text.split("=")])
    pairs = [part.partition(" ")[::2] for part in f"{name} {text}".split(", ")]
    of_text = {"true": True, "false": False, "infinite": "inf"}
    numbers = {name: str(each) for name, each in pairs}
    rows = {n: PHYSICS.inputs[n].choices for n in numbers if values.is_option(PHYSICS, n)}
    choices = {(n, str(choice).lower()): choice for n, row in rows.items() for choice in row}
    return {n: choices.get((n, v), of_text.get(v, v)) for n, v in numbers.items()}


def alone(scenario: dict[str, Any], changes: Any, output: str) -> float:
    return float(Sweep({**scenario, **changes}, {}, [output]).evaluate()[output])


def check(scenario: dict[str, Any], outputs: list[str]) -> int:
    """Each effect by a sweep of its own; how many were compared."""
    if not is_known(scenario, {}, outputs):  # FP8 on an A100
        return 0
    found, compared = assumed(scenario, outputs), 0
    assert [each.effect for each in found] == sorted((e.effect for e in found), reverse=True)
    for each in found:
        assert each.name not in scenario or scenario[each.name] in assumptions()[each.name].among
        before = alone(scenario, {}, each.output)
        assert each.answer == pytest.approx(before, rel=1e-12)
        entry, effects = assumptions()[each.name], []
        tables = [dict(table) for _, table in entry.values]
        tables += [{each.name: other} for other in entry.among]
        for factor in entry.factors:
            base = Sweep(scenario, {}, [each.output])._plan("numpy").cases[0].leaves[each.name]
            tables.append({each.name: float(np.ravel(base)[0]) * factor})
        for table in tables:
            try:
                effects.append(alone(scenario, table, each.output))
            except InputError:
                continue
        moving = [v for v in effects if abs(v / before - 1) > 1e-12]
        shown = [v for v in each.others.values() if abs(v / before - 1) > 1e-12]
        assert len(shown) <= len(moving)
        for value in shown:
            assert any(math.isclose(value, own, rel_tol=1e-9) for own in moving), (
                each,
                value,
                moving,
            )
            compared += 1
        for text, value in each.others.items():
            change = typed(each.name, text.removesuffix(" (cannot run)"))
            assert alone(scenario, change, each.output) == pytest.approx(value, rel=2e-3)
        largest = max((abs(math.log(v / before)) for v in each.others.values()), default=0.0)
        assert each.effect == pytest.approx(largest, abs=1e-12)
    return compared


@pytest.mark.slow
@pytest.mark.fuzz
def test_effects_are_those_of_each_alone() -> None:
    compared = sum(check(*drawn(seed)) for seed in range(scaled(15, 80)))
    assert compared > 125


def test_the_pool_of_nodes_is_named_with_what_a_closed_one_gives() -> None:
    scenario = {**JOB, "training_tokens": 15e12}
    first, *rest = assumed(scenario, ["job_time"])
    assert (first.name, first.value, first.source) == ("node_pool", "open", "default")
    closed = {"node_pool": "closed"}
    assert first.others["closed"] == pytest.approx(alone(scenario, closed, "job_time"), rel=1e-12)
    eight = alone(scenario, {**closed, "spare_nodes": 8}, "job_time")
    assert first.others["closed, spare_nodes 8"] == pytest.approx(eight, rel=1e-12)
    assert "training_tokens" not in {each.name for each in rest}


def test_what_is_stated_or_named_by_a_record_is_not_assumed() -> None:
    names = {each.name for each in assumed(JOB, ["job_time"])}
    assert {"node_pool", "gpu_mttf", "checkpoint_write_bandwidth", "training_tokens"} <= names
    more = {"node_pool": "closed", "reliability": "rsc-1", "checkpoint_write_bandwidth": 1e11}
    found = assumed({**JOB, **more}, ["job_time"])
    fewer = {each.name for each in found if each.source != "stated"}
    assert {each.name for each in found} - fewer == {"node_pool"}  # of closed ones there are two
    assert not fewer & {"node_pool", "gpu_mttf", "checkpoint_write_bandwidth"}
    assert {"repair_time", "spare_nodes"} & fewer


V3 = {"model": "deepseek-v3", "n_gpus": 2048, "fabric": "infiniband-ndr", "expert_parallel": 8}
V3 |= {"pipeline_parallel": 16}


@pytest.mark.parametrize(
    ("model", "node", "offered"),
    [
        ("deepseek-v3", "dgx-h100", ["fp8", "fp8_blockwise"]),
        ("deepseek-v3", "dgx-b200", ["fp8", "fp8_blockwise", "nvfp4"]),
        ("deepseek-v3", "dgx-a100", []),
        ("nemotron-h-56b", "dgx-h100", ["fp8", "fp8_blockwise"]),
        ("llama-3-70b", "dgx-h100", ["fp8", "fp8_blockwise"]),
    ],
)
def test_a_faster_precision_is_named_where_the_gpu_has_one(
    model: str, node: str, offered: list[str]
) -> None:
    """What was trained in which is of the reports: arXiv:2412.19437, 3.3, and arXiv:2504.03624."""
    job = {**V3, "model": model, "node": node}
    job |= {} if model == "deepseek-v3" else {"expert_parallel": 1, "pipeline_parallel": 2}
    found = {each.name: each for each in assumed(job, ["job_time"])}
    if not offered:
        assert "precision" not in found
        return
    row = found["precision"]
    assert sorted(text.removesuffix(" (cannot run)") for text in row.others) == offered
    for text, value in row.others.items():
        precision = {"precision": text.removesuffix(" (cannot run)")}
        assert value == pytest.approx(alone(job, precision, "job_time"), rel=1e-12)
    reported = {"deepseek-v3": "fp8_blockwise", "nemotron-h-56b": "fp8"}.get(model)
    trained = f"; {model} was trained in {reported}" if reported else ""
    shown = [line for line in lines(job, ["job_time"]) if line.startswith("  precision ")]
    assert row.decides
    assert shown[0].startswith(f"  precision bf16 (default{trained}): job_time ")
    stated = {each.name for each in assumed({**job, "precision": "fp8"}, ["job_time"])}
    assert "precision" not in stated
    assert {"fp8_scaling", "quantised_parameters"} & stated
    assert not {"fp8_scaling", "quantised_parameters"} & {*found}


def test_a_choice_that_has_no_place_is_not_named() -> None:
    of_stages, of_sequences = {"virtual_stages", "loss_split_layers"}, {"context_parallel_type"}
    for job, named in (
        ({**JOB, "pipeline_parallel": 1}, set()),
        (JOB, of_stages),
        ({**JOB, "context_parallel": 2}, of_stages | of_sequences),
    ):
        found = {each.name for each in assumed(job, ["job_time", "memory_per_gpu"])}
        assert found & (of_stages | of_sequences) == named


MIX = {**V3, "node": "dgx-h100", "expert_parallel": 64, "global_batch_size": 15360}
MIX |= {"precision": "fp8_blockwise", "recompute": "mla_up_proj"}


def test_a_schedule_is_named_where_there_are_stages_and_infers_what_it_hides() -> None:
    """One that pairs passes hides experts' traffic, by a share that is inferred for it alone."""
    row = next(e for e in assumed(MIX, ["job_time"]) if e.name == "pipeline_schedule")
    assert row.decides
    assert [*row.others] == ["dualpipe", "dualpipev", "zb_v"], "combined_1f1b needs several chunks"
    for schedule, value in row.others.items():
        found = alone(MIX, {"pipeline_schedule": schedule}, "job_time")
        assert value == pytest.approx(found, rel=1e-12)
    shared = {"pipeline_schedule": "dualpipe", "expert_parallel_overlap": 0.0}
    assert row.others["dualpipe"] < 0.9 * alone(MIX, shared, "job_time")
    one = {**MIX, "pipeline_parallel": 1}
    stages = {"pipeline_schedule", "pipeline_sends", "rank_order"}
    assert not stages & {each.name for each in assumed(one, ["job_time"])}
    of_megatron = assumed({**MIX, "software": "megatron-lm"}, ["job_time"])
    assert not any(each.others for each in of_megatron if each.name == "pipeline_schedule")


def test_an_inferred_share_is_named_with_none_and_all_and_said_once() -> None:
    """A paired schedule's share of experts' traffic, and that of gradients, by typing each."""
    job = {**MIX, "pipeline_schedule": "dualpipe", "software": "megatron-bridge"}
    job |= {"inter_node_bandwidth": "40 GB/s"}
    rows = {each.name: each for each in assumed(job, ["job_time"])}
    row = rows["expert_parallel_overlap"]
    assert (row.source, row.decides) == ("calibration auto", True)
    hidden = alone(job, {"expert_parallel_overlap": 1.0}, "job_time")
    assert row.others == {"1": pytest.approx(hidden, rel=1e-12)}
    assert "attention_kernel" not in rows, "chosen by auto, which no recipe of today would change"
    waits = {**JOB, "software": "fsdp", "zero_stage": 3, "inter_node_bandwidth": "6 GB/s"}
    waits |= {"tensor_parallel": 1, "pipeline_parallel": 1}
    line = next(e for e in assumed(waits, ["step_time"]) if e.name == "data_parallel_overlap")
    assert line.decides
    attrs = Sweep(waits, {}, ["step_time"]).evaluate().attrs
    for shown, count in (("", 1), (f"heading\n  {line}", 0)):
        left = remarks({**attrs, ASSUMED: shown})
        assert sum("data_parallel_overlap is inferred" in each for each in left) == count
    given = {**waits, "data_parallel_overlap": 0.4}
    assert "data_parallel_overlap" not in {each.name for each in assumed(given, ["job_time"])}


def test_what_cannot_run_is_named_for_its_memory_alone() -> None:
    for each in assumed({**JOB, "zero_stage": 1}, ["job_time", "memory_per_gpu"]):
        stopped = [text for text in each.others if text.endswith(" (cannot run)")]
        assert each.output == "memory_per_gpu" or not stopped
        for text in stopped:
            change = typed(each.name, text.removesuffix(" (cannot run)"))
            reason = Sweep({**JOB, "zero_stage": 1, **change}, {}, ["job_time"]).evaluate()
            assert reason["infeasible_reason"] == OUT_OF_MEMORY


def test_a_choice_that_a_software_has_not_is_not_named() -> None:
    has = {**dict.fromkeys(("torchtitan", "torchtitan-eager", "fsdp"), True), "megatron-lm": False}
    for software, named in {**has, "nemo": False, "maxtext": False}.items():
        found = {each.name for each in assumed({**JOB, "software": software}, ["memory_per_gpu"])}
        assert ("compile" in found) == named, software
    assert "compile" in {each.name for each in assumed(JOB, ["memory_per_gpu"])}
    for entry in assumptions().values():
        assert {*entry.software} <= {*kind("software")}


def test_formats_of_frozen_weights_are_named_with_adapters_alone() -> None:
    outputs = ["memory_per_gpu", "step_time"]
    for job, named in ((JOB, False), ({**JOB, "lora": True}, True)):
        found = {each.name for each in assumed({**job, "precision": "fp8"}, outputs)}
        assert ({"frozen_weights", "lora_matrices"} <= found) == named


def test_what_moves_nothing_that_was_asked_is_silent() -> None:
    found = {each.name for each in assumed(JOB, ["step_time"])}
    assert not found & {"node_pool", "provision_time", "gpu_mttf", "training_tokens"}


def test_nothing_moves_what_is_infinite() -> None:
    few = {"contract_nodes": 2, "delivery_time": "30 d"}
    assert {each.output for each in assumed({**JOB, **few}, ["completion_time"])} <= {"job_time"}


def test_a_choice_that_is_refused_leaves_the_others() -> None:
    scenario = {**JOB, "spare_nodes": 3}  # closed with 8 spares changes what is stated
    rows = {each.name: each for each in assumed(scenario, ["job_time"])}
    assert [*rows["node_pool"].others] == ["closed", "closed, repair_time 3 d"]


def test_the_lines_are_few_and_stand_beside_answers(tmp_path: Path) -> None:
    axes = {"n_gpus": [1024, 2048]}
    found = Sweep(JOB, axes, ["job_time"]).prediction_interval().attrs[ASSUMED].splitlines()
    assert found[0] == "assumed at n_gpus 2,048, what moves the answer most first:"
    assert 3 <= len(found) <= MOST + 3  # a heading, one that decides nothing, and the others' names
    assert any(line.startswith("  node_pool open (default): job_time ") for line in found)
    assert any(line.startswith("  provision_time 5 min (default)") for line in found)


def test_whatever_decides_is_named_and_what_decides_nothing_takes_no_place() -> None:
    outputs = ["job_time", "memory_per_gpu"]
    heading, *rows = lines(JOB, outputs, ["zero_stage"])
    assert heading == "assumed in this layout, what moves the answer most first:"
    others = next(row for row in rows if row.startswith("  and "))
    count, _, names = others.removeprefix("  and ").partition(" more: ")
    shown = [row.split()[0] for row in rows[: rows.index(others)]]
    deciding = [each.name for each in assumed(JOB, outputs, ["zero_stage"]) if each.decides]
    assert len(deciding) > MOST
    assert len({*shown} & {*deciding}) == MOST
    assert {*shown, *names.split(", ")} == {*deciding, "provision_time"}
    assert int(count) == len(deciding) - MOST


def test_a_closed_pool_names_what_decides_its_waits() -> None:
    """256 nodes that fail once a day are whole (1 + r)^-256 of the time without spares if idle ones
    fail, too (r = 3 d over 256 d), and 1 / (1 + 3) if they do not."""
    scenario = {**JOB, "node_pool": "closed", "repair_time": "3 d"}
    scenario |= {"node_mttf": "1 of 256 nodes a day", "training_tokens": 15e12}
    spares: dict[str, Any]
    for spares, first in (({}, ["spare_nodes"]), ({"spare_nodes": 0}, [])):
        shown = lines({**scenario, **spares}, ["job_time"])[1:]
        first += ["elastic", "node_pool"]
        assert [line.split()[0] for line in shown][: len(first)] == first
        safe = next(line for line in shown if line.split()[0] == "node_pool")
        assert safe.startswith("  node_pool closed (stated): job_time ")
        assert safe.endswith(" if closed_idle_safe")
        whole = {**scenario, "spare_nodes": 0}
        for pool, share in (("closed", (1 + 3 / 256) ** -256), ("closed_idle_safe", 0.25)):
            found = alone({**whole, "node_pool": pool}, {}, "whole_cluster_probability")
            assert found == pytest.approx(share, rel=1e-4)
    assert "elastic" not in {each.name for each in assumed(JOB, ["job_time"])}


@pytest.mark.parametrize("name", assumptions())
def test_the_table_holds_other_values_that_can_be_read(name: str) -> None:
    entry = assumptions()[name]
    assert name in PHYSICS.inputs or name in PHYSICS.quantities
    assert len(entry.source) > 10
    assert entry.values or entry.factors
    for _, table in entry.values:
        for key, value in table.items():
            if values.is_option(PHYSICS, key):
                assert value in PHYSICS.inputs[key].choices
            else:
                values.number(PHYSICS, key, value)


@pytest.mark.parametrize("label", ["rsc-1", "rsc-2"])
def test_rates_named_by_a_record_are_those_of_the_record(label: str) -> None:
    (table,) = (t for text, t in assumptions()["gpu_mttf"].values if text == f"reliability={label}")
    kept = record("reliability", label).values
    for name, value in table.items():
        assert values.number(PHYSICS, name, value) == values.number(PHYSICS, name, kept[name])


def test_the_lines_are_of_the_last_point_that_can_run() -> None:
    found = Sweep(JOB, {"n_gpus": [1024, 2048, 2049]}, ["job_time"]).prediction_interval()
    assert found["infeasible_reason"].values.tolist()[:2] == [0, 0]
    assert found["infeasible_reason"].values[2] > 0
    assert found.attrs[ASSUMED].startswith("assumed at n_gpus 2,048, ")


def test_a_much_narrower_software_is_named_with_its_answer() -> None:
    """The same scenario with it gives the numbers of the line; a narrow one has none."""
    job = {**JOB, "model": "mixtral-8x7b", "pipeline_parallel": 1, "expert_parallel": 8}
    job |= {"tensor_parallel": 1, "software": "megatron-lm", "node": "dgx-b200", "n_gpus": 128}

    def answer(**more: Any) -> tuple[str, float, float]:
        found = Sweep({**job, **more}, {}, ["job_time"]).prediction_interval()
        line = found.attrs[ASSUMED].splitlines()[-1]
        days = float(found["job_time"]) / 86400
        return line, days, float(found["job_time_high"] / found["job_time_low"])

    line, days, width = answer()
    other, narrow_days, narrow = answer(software="megatron-bridge")
    assert width > narrow**1.5
    assert line.startswith("surer with software=megatron-bridge in this layout: job_time ")
    assert [float(text.split(" d")[0]) for text in line.split("job_time ")[1].split("for ")] == (
        pytest.approx([narrow_days, days], rel=1e-3)
    )
    assert "surer" not in other
    # rows of software have layouts of their own
    rows = Sweep(
        {n: value for n, value in job.items() if n != "software"},
        {"software": ["megatron-bridge", "megatron-lm"]},
        ["job_time"],
    ).prediction_interval()
    assert "surer" not in rows.attrs[ASSUMED]


def test_a_plan_without_software_names_what_can_run_its_layout() -> None:
    job = {n: value for n, value in JOB.items() if n != "software"}
    job |= {"zero_stage": 2, "recompute": "full"}
    last = lines(job, ["job_time"], ["zero_stage"])[-1]
    named = [label for label in kind("software") if label in last]
    assert last.startswith("software not stated: the interval is of this layout, which ")
    assert named == ["torchtitan", "torchtitan-eager"], "the others have no ZeRO-2"
    assert not any("not stated" in row for row in lines(job, ["job_time"])), "no plan"
    assert not any(
        "not stated" in row
        for row in lines(job | {"software": "nemo"}, ["job_time"], ["zero_stage"])
    )


def test_what_moves_the_ratio_of_two_is_found_by_asking_for_both() -> None:
    other = {**JOB, "n_gpus": 256, "pipeline_parallel": 1, "recompute": "full"}
    _, *rows = of_ratio(JOB, other, "job_time", LEAST)
    ratio = alone(other, {}, "job_time") / alone(JOB, {}, "job_time")
    assert rows, "node_pool at least: one job has eight times as many failures"
    (row,) = (row for row in rows if row.startswith("  node_pool open: B / A times "))
    closed = {"node_pool": "closed"}
    both = alone(other, closed, "job_time") / alone(JOB, closed, "job_time")
    assert f"times {both / ratio:.4g} if closed" in row
    assert not any(row.startswith("  training_tokens") for row in rows), "both alike"
    assert of_ratio(JOB, JOB, "job_time", LEAST) == []


def test_sources_of_other_values_are_shown() -> None:
    found = Sweep(JOB, {}, ["job_time"]).prediction_interval()
    sources = found.attrs[f"{ASSUMED}_sources"].splitlines()
    assert any(line.startswith("node_pool: docs/howto/size-a-spare-pool.md") for line in sources)
    assert "amcompute.com" in explain("repair_time")
    assert "10 min" in explain("detection_time")
    page = Sweep(JOB, {}, ["job_time"]).to_html()
    assert "<small>Source: docs/howto/size-a-spare-pool.md" in page
