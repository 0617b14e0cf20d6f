"""Published measurements are public inputs, or left out with a reason; none is lost."""

import csv
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.make import labels
from fleetcube import Settings, Sweep
from fleetcube.calibration import measurements
from fleetcube.calibration.measurements import read_records
from fleetcube.calibration.predict import evaluate
from fleetcube.calibration.row import Row
from fleetcube.calibration.validate import validate
from fleetcube.catalog import KINDS, kind, record
from fleetcube.kernels.physics.inputs import INPUTS

from .common import JUNK, Patch, cases, refused, written

GIB = 2**30
Inputs = Mapping[str, Any]


def tokens(inputs: Inputs) -> float:
    """Tokens of a step, from the row alone."""
    length = (
        inputs.get("sequence_length") or record("model", inputs["model"]).values["sequence_length"]
    )
    return float(inputs["global_batch_size"] * length)


def ring_bytes(inputs: Inputs) -> float:
    """Bytes that an all-reduce of n ranks sends through each link of a ring: 2 (n - 1) / n."""
    return float(inputs["message_bytes"] * 2 * (inputs["ranks"] - 1) / inputs["ranks"])


# What a source prints, by the name in `printed` and the end of the id -> output, and its value in
# the base unit by hand
PRINTED: Mapping[str, tuple[str, str, Callable[[float, Inputs], float]]] = {
    "iteration_time_s": ("", "step_time", lambda x, _: x),
    "iteration_time_ms": ("", "step_time", lambda x, _: x / 1e3),
    "step_time_s": ("", "step_time", lambda x, _: x),
    "train_step_time_s": ("", "step_time", lambda x, _: x),
    "samples_per_s": ("", "step_time", lambda x, i: i["global_batch_size"] / x),
    "megatron_iteration_time_s": ("", "step_time", lambda x, _: x),
    "iter_s_full_recompute": (":full", "step_time", lambda x, _: x),
    "iter_s_seqpar_selective": (":selective", "step_time", lambda x, _: x),
    "combined_ms": ("", "step_time", lambda x, _: x / 1e3),
    "tokens_per_s_per_gpu": ("", "step_time", lambda x, i: tokens(i) / i["n_gpus"] / x),
    "tokens_per_s": ("", "step_time", lambda x, i: tokens(i) / x),
    "throughput_logged": ("", "step_time", lambda x, i: tokens(i) / x),
    "tps_vanilla_tp": (":vanilla", "step_time", lambda x, i: tokens(i) / i["n_gpus"] / x),
    "tps_async_tp": (":async", "step_time", lambda x, i: tokens(i) / i["n_gpus"] / x),
    # days for 300e9 tokens
    "ideal_days_1024": ("", "step_time", lambda x, i: x * 86400 * tokens(i) / 300e9),
    # thousands of GPU hours for 1e12 tokens
    "gpu_hours_per_T_tokens_k": (
        "",
        "step_time",
        lambda x, i: x * 3.6e6 / i["n_gpus"] * tokens(i) / 1e12,
    ),
    "time_us_oop": ("", "all_reduce_time", lambda x, _: x / 1e6),
    "measured_ms": ("", "all_reduce_time", lambda x, _: x / 1e3),
    "single_node_ms": ("single node", "all_reduce_time", lambda x, _: x / 1e3),
    "busbw_default_GBps": (":default", "all_reduce_time", lambda x, i: ring_bytes(i) / x / 1e9),
    "busbw_ring_GBps": (":ring", "all_reduce_time", lambda x, i: ring_bytes(i) / x / 1e9),
    "mem_gib": ("", "memory_per_gpu", lambda x, _: x * GIB),
    "mem_share": ("", "memory_per_gpu", lambda x, _: x * 178.35 * GIB),  # of a B200
    "mem_alloc_gib": ("", "memory_per_gpu", lambda x, _: x * GIB),
    "tau_opt_min": ("", "exact_interval", lambda x, _: x * 60),
    "ckpt_1T_TB": ("", "checkpoint_size", lambda x, _: x * 1e12),
    "gpu_hours_h100_m": ("", "gpu_hours", lambda x, _: x * 1e6),
}


def published() -> list[dict[str, str]]:
    """All lines of the published tables, as they stand."""
    lines = []
    for path in measurements.published_tables():
        text = path.read_text(encoding="utf-8").splitlines()
        lines += list(csv.DictReader(line for line in text if not line.startswith("#")))
    return lines


def test_measured_values_are_those_that_the_sources_print() -> None:
    rows = {(row.id, row.of): row for row in read_records()[0]}
    checked: Counter[str] = Counter()
    for line in published():
        row = rows.get((line["id"], line["of"])) if line.get("measured") else None
        figures = dict(
            part.split(" = ", 1) for part in (line.get("printed") or "").split("; ") if part
        )
        for name, text in figures.items():
            end, of, value = PRINTED.get(name, ("", "", None))
            if row is None or value is None or of != row.of or text == "null":
                continue
            variant = row.id.partition(":")[2]
            if end.strip(":") != (variant if end or variant else ""):
                continue
            expected = value(float(text), row.inputs)
            if (
                row.group == "mlperf_gpt3"
                and name != "step_time_s"
                and figures["step_time_s"] != "null"
            ):
                continue  # the time of the step without evaluation counts
            assert row.measured == pytest.approx(expected, rel=1e-3), (row.id, name)
            checked[row.of] += 1
    assert checked["step_time"] > 600
    assert checked["all_reduce_time"] > 120
    assert checked["memory_per_gpu"] > 40


def test_a_misprinted_row_of_bridge_runs_as_the_same_run_of_other_containers() -> None:
    rows = {row.id: row for row in read_records()[0]}
    printed, before = (rows[f"megatron_bridge/{number}"] for number in (166, 202))
    assert printed.inputs == before.inputs
    assert "misprints" in " ".join(printed.notes)


# Jobs that ran but do not fit here: frozen weights in FP8


def test_every_published_job_fits_where_it_ran() -> None:
    rows = [row for row in read_records()[0] if row.of == "step_time"]
    reasons = evaluate([(("infeasible_reason",), row.inputs) for row in rows])
    refused = {row.id for row, why in zip(rows, reasons, strict=True) if list(why) != [0.0]}
    assert refused == set()


def test_formats_of_bridge_are_those_that_the_gpus_have() -> None:
    rows = [row for row in read_records()[0] if row.group == "megatron_bridge"]
    formats = {(row.inputs["node"], row.inputs["precision"]) for row in rows}
    assert {node for node, form in formats if form == "mxfp8"} == {
        *("dgx-b200", "dgx-b300", "gb200-nvl72", "gb300-nvl72")
    }


def test_a_run_listed_again_is_that_of_the_round_before() -> None:
    rows = {row.id: row for row in read_records()[0] if row.group == "mlperf_gpt3"}
    first, again = rows["mlperf_gpt3/024"], rows["mlperf_gpt3/034"]
    assert (first.inputs, first.measured) == (again.inputs, again.measured)


COUNTS = {"bloom_176b": 1, "bloom_prequel": 43, "daly2006": 3, "deepseek_v3": 3}
COUNTS |= {"korthikanti_table4": 5, "korthikanti_table5": 9, "llama3_table4": 2}
COUNTS |= {"megascale_fig9": 3, "megascale_table2": 8, "maxtext_tpu": 31, "megatron_bridge": 184}
COUNTS |= {"meta_rsc": 5, "mlperf_gpt3": 14, "mlperf_gpt3_gaudi": 5, "mosaic": 144}
COUNTS |= {"nccl_algo_by_ranks": 23, "nccl_allreduce": 106, "nccl_worked_example": 2}
COUNTS |= {"nemo_longseq": 17, "opt_175b": 2, "sc21_misc": 1, "palm_540b": 1, "palm_table3": 1}
COUNTS |= {"sc21_table1": 10, "simumax_b200": 29, "torchtitan": 37, "training_cost": 1}
COUNTS |= {"mlperf_llama31_405b": 14, "nemo_summary": 6}
COUNTS |= {"vtrain_multi": 73, "mlperf51": 21, "fms_fsdp": 6, "maxtext_v6e": 16, "maxtext_v5p": 1}
COUNTS |= {"tensorrt_llm": 32, "tensorrt_llm_1": 64, "nvidia_nim": 8, "mlperf_inference": 1}
COUNTS |= {"vllm": 4, "llm_benchmark": 4}
SERVING = (
    "tensorrt_llm",
    "tensorrt_llm_1",
    "nvidia_nim",
    "mlperf_inference",
    "vllm",
    "llm_benchmark",
)


def test_every_line_of_the_tables_is_a_row_or_left_out_with_a_reason() -> None:
    rows, left_out = read_records()
    memory = ("memory", "parameter", "activation", "optimizer", "state")
    assert Counter(row.group for row in rows if not row.of.startswith(memory)) == COUNTS
    assert len(rows) + len(left_out) == len(published())
    assert all(held.reason for held in left_out)
    assert all(row.source for row in rows)


def test_the_error_factor_of_serving_is_that_of_the_published_rates() -> None:
    # no formula of serving has a coefficient that was fitted to them
    rows = [row for row in read_records()[0] if row.group in SERVING]
    compared = validate(rows).rows
    assert len(compared) == len(rows)
    errors = [abs(math.log(row.predicted / row.measured)) for row in compared]
    factor = math.exp(np.quantile(errors, 0.9, method="higher"))
    assert factor <= INPUTS["serving_error_factor"].default < factor + 0.1


@pytest.mark.slow
def test_every_step_and_every_interval_of_the_own_tables_can_be_predicted() -> None:
    parts = defaultdict(list)
    for row in read_records()[0]:
        fixed = {
            name: value
            for name, value in row.inputs.items()
            if name in KINDS or (name in INPUTS and INPUTS[name].kind == "option")
        }
        if row.of not in ("all_reduce_time",):
            moving = tuple(sorted(row.inputs.keys() - fixed.keys()))
            parts[row.of, json.dumps(fixed, sort_keys=True), moving].append(row)
    for (of, fixed_text, moving), rows in parts.items():
        axis: dict[str, Any] = {name: [row.inputs[name] for row in rows] for name in moving}
        sweep = Sweep(
            json.loads(fixed_text), {"row": {**axis, "labels": [r.id for r in rows]}}, [of]
        )
        predicted = sweep.evaluate(settings=Settings("numpy"))[of].values
        assert np.isfinite(predicted).all(), (of, rows[0].id)
        assert (predicted > 0).all(), (of, rows[0].id)


def test_chunks_of_table_1_hold_the_layers_that_its_script_gives_them() -> None:
    rows = [row.inputs for row in read_records()[0] if row.group == "sc21_table1"]
    chunks = {  # --num-layers-per-virtual-pipeline-stage, where the script has it
        i["layers"]: i["layers"] / (i["pipeline_parallel"] * i["virtual_stages"])
        for i in rows
        if i["virtual_stages"] > 1
    }
    assert chunks == {60: 5, 80: 5, 96: 3, 105: 1}
    assert all(i["global_batch_size"] % i["micro_batch_size"] == 0 for i in rows)


@cases(
    "content, match",
    (b"", "not a table of records"),
    (b"a,b\n1,2\n", "not a table of records"),
    (b"\xff\xfe\x00", "not UTF-8"),
    (b'{"a": 1}', "not a list of records"),
    (b"[1, 2", "not JSON"),
    (b"[" * 100_000, "not JSON"),
    (b"[" + b"9" * 10_000 + b"]", "not JSON"),
    (b"step_time,group,group\n1,b,c\n", "appears twice"),
    ids=["empty", "other table", "binary", "object", "cut off", "deep", "long number", "twice"],
)
def test_a_file_of_another_kind_is_one_line(content: bytes, match: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    refused(match, read_records, path)


@pytest.mark.parametrize("path", ["not-there.json", "\0", "."])
def test_a_file_that_cannot_be_read_is_one_line(path: str) -> None:
    refused("give records", read_records, path)


def test_files_have_limits(tmp_path: Path, monkeypatch: Patch) -> None:
    path = written(tmp_path / "measurements.json", "[1, 2, 3]")
    monkeypatch.setattr(measurements, "MOST", 2)
    refused("more than 2 records", read_records, path)
    monkeypatch.setattr(measurements, "LARGEST", 8)
    refused("more than 8 bytes", read_records, path)


def test_a_second_record_of_an_id_is_left_out(tmp_path: Path) -> None:
    row = {"id": "a", "model": "llama-3-8b", "n_gpus": 8, "step_time": "3 s"}
    rows, left_out = read_records(written(tmp_path / "measurements.json", json.dumps([row, row])))
    assert len(rows) == 1
    assert [held.reason for held in left_out] == ["step_time: its id appears twice"]


PLAIN = {
    "id": "a",
    "group": "mine",
    "model": "llama-3-8b",
    "n_gpus": 8,
    "measured": {"step_time": 3},
}
SPOILED = st.fixed_dictionaries({name: st.just(value) | JUNK for name, value in PLAIN.items()})


@pytest.mark.slow
@given(drawn=st.lists(SPOILED | JUNK, min_size=1, max_size=4))
def test_junk_is_left_out(drawn: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = written(tmp_path_factory.mktemp("junk") / "measurements.json", json.dumps(drawn))
    rows, left_out = read_records(path)
    assert len(rows) + len(left_out) >= len(drawn)
    for held in left_out:
        assert held.reason
        assert "\n" not in held.reason
    for row in rows:
        assert 0 < row.measured < float("inf")


GB200 = {"node": "gb200-nvl72", "precision": "fp8"}
CONTAINER = "26.02.01 NeMo Container; Pre-Training Performance"


def run(
    inputs: Inputs, group: str = "megatron_bridge", where: str = CONTAINER, note: str = ""
) -> Row:
    return Row("a", group, "a paper", inputs, "step_time", 1.0, (note,), where)


def test_the_most_specific_calibration_comes_first() -> None:
    experts = list(labels.candidates(run({**GB200, "model": "deepseek-v3"})))
    moe = [f"bridge-moe-gb200{end}" for end in ("-fp8", "")]
    dense = [name.replace("-moe", "") for name in moe]
    nearby = [name.replace("gb200", "b200") for name in (moe[0], dense[0])]
    assert experts == [*moe, *dense, *nearby, "megatron-gb200"]
    scales = list(labels.candidates(run({**GB200, "precision": "mxfp8"})))
    assert scales[:3] == ["bridge-gb200-mxfp8", "bridge-gb200-fp8", "bridge-gb200"]
    fused = run({**GB200, "precision": "mxfp8", "grouped_products": "fused"})
    assert next(labels.candidates(fused)) == "bridge-gb200-mxfp8-fused"
    eager = run({"node": "dgx-h100"}, "torchtitan", "", "eager: PyTorch without its compiler")
    assert next(labels.candidates(eager)) == "torchtitan-eager-h100"
    assert not list(labels.candidates(run(GB200, "meta_rsc")))


def test_a_run_takes_the_first_calibration_that_is_known() -> None:
    asked = []

    def known(label: str) -> bool:
        asked.append(label)
        return label == "bridge-gb200"

    assert labels.calibration_for(run(GB200), known) == "bridge-gb200"
    assert asked[-1] == "bridge-gb200"
    assert labels.calibration_for(run({"gpu": "t4"}), known) == "none"


def test_the_tables_have_the_labels_of_the_catalog() -> None:
    def known(label: str) -> bool:
        return label in kind("calibration")

    for row in read_records()[0]:
        if row.group in labels.STACK_BY_GROUP and row.of == "step_time":
            assert row.inputs["calibration"] == labels.calibration_for(row, known), row.id
