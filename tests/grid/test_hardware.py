"""What hardware comes in: slices, whole nodes and racks, a node's network cards, its power."""

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import fleetcube
from fleetcube import catalog
from fleetcube.cli import cli
from fleetcube.scenario import hardware
from fleetcube.scenario.hardware import slices

from ..draws import generator
from .common import refused

JOB = {"model": "llama-3-8b", "gpu": "h100-sxm", "n_gpus": 8, "global_batch_size": 64}
# Google Cloud TPU documentation, v5p and v6e, and the tables of XPK and AXLearn
# (axlearn/experiments/aot_compilation.py), in chips
PUBLISHED = {
    "tpu-v5p": "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x4x12 4x8x8 4x4x20 4x8x12 8x8x8 4x12x12 "
    "8x8x12 8x12x12 8x12x16 4x20x20 12x12x12 12x16x16 12x16x24 12x12x36 12x20x24 4x28x52 16x16x24",
    "tpu-7x": "4x20x76 12x24x24 16x16x32 16x20x28 16x24x24",
    "tpu-v6e": "1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16",
}


def command(*words: str, job: Any = None, tmp: Path) -> str:
    spec = tmp / "job.toml"
    rows = (f"{name} = {value!r}" for name, value in {**JOB, **(job or {})}.items())
    spec.write_text("\n".join(["[scenario]", *rows]))
    ran = CliRunner().invoke(cli, [words[0], str(spec), *words[1:]], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return " ".join(ran.output.split())


def test_the_shape_of_each_size_is_the_published_one() -> None:
    for chip, shapes in PUBLISHED.items():
        sheet = catalog.record("gpu", chip).values
        for text in shapes.split():
            shape = [*map(int, text.split("x")), 1][:3]
            found = slices(sheet["slice_shapes"], sheet["largest_slice"], float(math.prod(shape)))
            assert found == (*shape, 1), (chip, text)


def test_no_box_of_whole_cubes_is_more_like_a_cube_than_the_one_taken() -> None:
    sheet = catalog.record("gpu", "tpu-v5p").values
    sides = range(1, 97)
    boxes: dict[int, list[int]] = {}
    for x, y in itertools.combinations_with_replacement(sides, 2):
        for z in range(y, 96 // (x * y) + 1):
            boxes.setdefault(x * y * z, []).append(x + y + z)
    for cubes in range(1, 97):
        found = slices(sheet["slice_shapes"], sheet["largest_slice"], 64.0 * cubes)
        assert (None if found is None else sum(found[:3]) / 4) == min(boxes[cubes])
    assert slices(sheet["slice_shapes"], sheet["largest_slice"], 12288.0) == (16, 16, 24, 2)
    for none in (96.0, 100.0, 6208.0, 64.5):
        assert slices(sheet["slice_shapes"], sheet["largest_slice"], none) is None


def test_slices_of_many_chips_are_found_among_the_published_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fewest equal slices, as trying each number of them in turn finds; with few tries."""
    draw = generator(43)
    for chip in ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x"):
        sheet = catalog.record("gpu", chip).values
        kind = sheet["slice_shapes"], sheet["largest_slice"]
        sizes = {n for n in range(1, int(kind[1]) + 1) if hardware._published_shapes(kind[0], n)}
        for chips in draw.integers(1, 40 * kind[1], 50).tolist():
            chips = chips // 64 * 64 or chips
            fewest = -(-chips // int(kind[1]))
            ways = [1] if fewest == 1 else range(fewest, 4 * fewest)
            number = next((k for k in ways if chips % k == 0 and chips // k in sizes), None)
            found = slices(*kind, float(chips))
            assert (found and found[3]) == number, (chip, chips)
            assert number is None or math.prod(found) == chips
        tries = itertools.count()

        def counted(one: Any, other: Any, tries: Any = tries) -> tuple[Any, Any]:
            assert next(tries) < 10_000
            return divmod(one, other)

        monkeypatch.setattr(hardware, "divmod", counted, raising=False)
        assert slices(*kind, 1e9 + 1) is None
        assert slices(*kind, 2.0**53 - 1) is None
        monkeypatch.undo()


def test_a_pod_is_the_torus_that_a_scenario_may_state_instead(tmp_path: Path) -> None:
    job = {"gpu": "tpu-7x", "n_gpus": 9216, "global_batch_size": 9216, "zero_stage": 3}
    stated = {"torus_x": 16, "torus_y": 24, "gpus_per_domain": 9216, "gpus_per_node": 4}
    network = {"fabric": "tpu-dcn-7x"}
    own = fleetcube.evaluate("job_time", **{**JOB, **job})
    assert own == fleetcube.evaluate("job_time", **{**JOB, **job, **stated, **network})
    ring = {**stated, "torus_x": 1, "torus_y": 1}
    assert own < fleetcube.evaluate("job_time", **{**JOB, **job, **ring, **network})
    said = command("run", "-v", "step_time", job=job, tmp=tmp_path)
    assert "torus by default: 16 x 24 x 24, the published slice most like a cube" in said
    rows = fleetcube.evaluate_table(
        {"n_gpus": [9216, 4096]}, ["step_time", "torus_z"], scenario={**JOB, **job, **network}
    )
    several = fleetcube.evaluate(
        ["step_time", "torus_z"], **{**JOB, **job, **network, "n_gpus": [9216, 4096]}
    )
    np.testing.assert_array_equal(rows["torus_z"], [24, 16])
    for name in ("step_time", "torus_z"):
        np.testing.assert_array_equal(rows[name], several[name])


def test_chips_beside_gpus_are_what_each_is_alone() -> None:
    job = {"model": "llama-3-8b", "fabric": "infiniband-ndr", "global_batch_size": 4096}
    names = ["step_time", "cluster_mtbf", "infeasible_reason"]
    nodes = ["dgx-h100", "gb200-nvl72", "gb200-nvl72-tray", "tpu-v5p-pod"]
    for kind, labels in (("gpu", ["h100-sxm", "tpu-7x", "tpu-v6e"]), ("node", nodes)):
        for sizes in ([1024], [256, 4096]):
            several = fleetcube.evaluate(names, **job, **{kind: labels, "n_gpus": sizes})
            for label, n in itertools.product(labels, sizes):
                alone = fleetcube.evaluate(names, **job, **{kind: label, "n_gpus": n})
                for name in names:
                    found = several[name].sel({kind: label, "n_gpus": n})
                    assert found == pytest.approx(alone[name].item(), rel=1e-12), (label, n, name)


def test_chips_of_no_slice_are_told_the_nearest_that_are(tmp_path: Path) -> None:
    job = {"gpu": "tpu-7x", "n_gpus": 9000}
    said = command("run", "-v", "step_time", job=job, tmp=tmp_path)
    assert "9,000 chips are no published slice: 8,960 or 9,024 are" in said
    assert "torus_does_not_hold_the_groups" in command(
        "run", "-v", "step_time", job={**job, "global_batch_size": 9000}, tmp=tmp_path
    )
    sweep = fleetcube.Sweep({**JOB, **job}, {}, ["job_time"])
    refused("9,000 chips .*: 8,960 or 9,024 are; give n_gpus", sweep.best, search="layout")
    open_ = fleetcube.Sweep({**JOB, **job, "fabric": "tpu-dcn-7x"}, {}, ["job_time"])
    refused("chips come in slices", open_.solve, "n_gpus", {"job_time": "9 d"})


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"node": "dgx-h100", "n_gpus": 7843}, "7,843 GPUs take 981 nodes of 8: 5 are idle"),
        ({"node": "gb200-nvl72", "n_gpus": 1024}, "at least 15 nodes of 72: at least 56 are idle"),
        ({"node": "gb200-nvl72-tray", "n_gpus": 1024}, "15 racks or slices of 72: at least 56"),
        ({"node": "dgx-h100", "n_gpus": 7840}, ""),
    ],
)
def test_nodes_and_racks_in_part_are_said(job: Any, words: str) -> None:
    job = {name: value for name, value in {**JOB, **job}.items() if name != "gpu"}
    found = fleetcube.Sweep(job, {}, ["job_time"]).evaluate()
    shown = str(found.attrs.get("fleetcube_remarks", ""))
    assert (words in shown) if words else ("idle" not in shown)


def test_power_of_gpus_alone_is_marked(tmp_path: Path) -> None:
    words = "power is of GPUs alone, without the rest of their nodes"
    assert words in command("run", "-v", "facility_power", job={"gpu": "gb300"}, tmp=tmp_path)
    assert words in command("run", "node=aws-p5", "-v", "facility_power", tmp=tmp_path)
    assert words not in command("run", "node=dgx-h100", "-v", "facility_power", tmp=tmp_path)
    assert words not in command("run", "-v", "job_time", tmp=tmp_path)
    for node in catalog.kind("node").values():  # all that state power state that of all parts
        if "node_power" in node.values:
            sheet = catalog.record("gpu", node.values["gpu"]).values
            assert node.values["node_power"] > node.values["gpus_per_node"] * sheet["gpu_tdp"]


def test_a_rate_of_gpus_says_what_is_added_by_default(tmp_path: Path) -> None:
    job = {"node": "dgx-h100", "n_gpus": 2000}
    asked = ("run", "-v", "cluster_mtbf")
    alone = command(*asked, job={**job, "gpu_mttf": "108000 h"}, tmp=tmp_path)
    assert "31.4" in alone  # 1 / (2000 / 108000 + 2000 / 150000)
    assert "gpu_mttf is given alone, and other parts fail, too, by default: nic_mttf =" in alone
    partly = {**job, "gpu_mttf": "108000 h", "psu_mttf": "90000 h"}
    assert "gpu_mttf is given, and other parts" in command(*asked, job=partly, tmp=tmp_path)
    measured = command(*asked, job={**job, "interruption_mttf": "108000 h"}, tmp=tmp_path)
    assert re.search(r"\b54\b", measured)  # 108000 / 2000
    assert "by default: nic_mttf" not in measured


def test_one_node_needs_no_fabric_and_a_cluster_takes_its_cards(tmp_path: Path) -> None:
    said = command("plan", "sequence_length=2048", tmp=tmp_path)
    assert "best layout" in said
    assert "more GPUs than 8 need a fabric" in said
    assert "no fabric is given: the job fits in one node" in said
    outputs = ["job_time", "goodput", "memory_per_gpu"]
    for fabric in ("infiniband-xdr", "ethernet-10g"):  # no byte leaves the node
        for name, value in fleetcube.evaluate(outputs, **JOB).items():
            assert value == fleetcube.evaluate(name, **JOB, fabric=fabric)
    job = {**JOB, "n_gpus": 64, "node": "dgx-h100"}
    assert fleetcube.evaluate("job_time", **job) == fleetcube.evaluate(
        "job_time", **job, fabric="infiniband-ndr"
    )
    taken = "no fabric is given: infiniband-ndr, as the network cards of dgx-h100 are"
    assert taken in command("run", "n_gpus=64", "node=dgx-h100", "-v", "job_time", tmp=tmp_path)
    several = "give .*, or a fabric: infiniband-ndr, roce-400g, ... \\(fleetcube catalog fabric\\)"
    refused(several, fleetcube.evaluate, "job_time", **{**JOB, "n_gpus": 64})
    refused(several, fleetcube.evaluate, "job_time", **{**JOB, "n_gpus": [8, 64]})
    refused(several, fleetcube.evaluate_table, {"n_gpus": [8, 64]}, ["job_time"], scenario=JOB)


@pytest.mark.parametrize(
    ("gpu", "share", "copies"),
    [
        *(("tpu-v5p", 1.0, 1), ("tpu-v6e", 0.5, 1), ("tpu-7x", 0.5, 1)),
        *(("mi300x", 1.0, 1), ("mi355x", 1.0, 2), ("h100-sxm", 1.0, 2), ("gb200", 1.0, 1)),
    ],
)
def test_heads_of_128_fill_half_of_the_units_of_late_tpus_and_some_gpus_transpose_weights(
    gpu: str, share: float, copies: int
) -> None:
    job = {**JOB, "gpu": gpu, "precision": "fp8"}
    names = ["attention_peak_flops", "logits_peak_flops", "quantised_weight_bytes"]
    found = fleetcube.evaluate(names, **job)
    assert float(found["attention_peak_flops"] / found["logits_peak_flops"]) == share
    assert float(found["quantised_weight_bytes"]) == copies


@pytest.mark.parametrize("node", ["gb200-nvl72", "gb300-nvl72"])
def test_a_rack_scale_node_is_one_rack_counted_whole_or_by_the_tray(node: str) -> None:
    for label, each in ((node, 1), (f"{node}-tray", 18)):
        found = fleetcube.evaluate(["racks", "nodes_per_rack"], node=label, n_gpus=9216)
        assert (found.racks, found.nodes_per_rack) == (128, each)
    mixed = fleetcube.evaluate("racks", node=[node, "dgx-h100"], n_gpus=9216)
    assert list(mixed.values) == [128, 192]  # six of 10.2 kW in 70


def test_a_node_that_no_rack_feeds_is_remarked(tmp_path: Path) -> None:
    words = "nodes_per_rack is 0: a node needs more than rack_power"
    job = {"node": "gb300-nvl72", "n_gpus": 9216}
    assert words not in command("run", "-v", "racks", job=job, tmp=tmp_path)
    said = command("run", "-v", "racks", job={**job, "rack_power": "70 kW"}, tmp=tmp_path)
    assert words in said
    assert "256" in said


def test_hosts_of_nodes_share_their_memory() -> None:
    job = {"parameters": 8e9, "zero_stage": 1, "offload": "cpu", "n_gpus": 1152}
    whole, by_tray, own = (
        fleetcube.evaluate("host_update_time", **job, node=node)
        for node in ("gb200-nvl72", "gb200-nvl72-tray", "dgx-h100")
    )
    assert whole == pytest.approx(by_tray)
    assert own == pytest.approx(8e9 / 1152 * 8 * 30 / (0.46 * 614.4e9))
