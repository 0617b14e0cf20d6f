"""Published measurements become public inputs, or are excluded with a reason; none is lost."""

import csv
import json
import math
from collections import ChainMap, Counter, defaultdict
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetcube import Settings, Sweep
from fleetcube.catalog import KINDS
from fleetcube.grid.errors import InputError
from fleetcube.grid.measured.predict import evaluate
from fleetcube.grid.measured.published import calibration as record_calibration
from fleetcube.grid.measured.published import hardware
from fleetcube.grid.measured.published import tables as record_tables
from fleetcube.grid.measured.records import read_records
from fleetcube.grid.measured.row import LeftOut, Row
from fleetcube.grid.measured.validate import validate
from fleetcube.kernels.inputs import INPUTS

from .common import JUNK, Patch, cases, refused, written

A100 = {"gpu": "a100-sxm-80gb", "gpus_per_node": 8, "fabric": "infiniband-hdr", "precision": "fp16"}
A100 |= {"compute_model": "roofline", "attention_kernel": "standard"}


def case(group: str, *rows: tuple[Any, ...], **record: Any) -> tuple[str, Any, list[Any]]:
    """A record of a group, and its expected rows: the measurement, then inputs."""
    read = [(dict(ChainMap(*reversed(given))), measured) for measured, *given in rows]
    return group, record, read


# One shortened record of each group, its expected rows, and seconds by hand.
CASES = [
    case(
        "sc21_table1",
        (
            *(13.0, A100, {"layers": 60, "hidden_size": 10240, "ffn_hidden_size": 40960}),
            {"attention_heads": 80, "n_gpus": 1024, "global_batch_size": 1792},
            {"micro_batch_size": 2, "virtual_stages": 3, "inter_node_bandwidth": 25e9},
            {"recompute": "full", "zero_stage": 0},
        ),
        model={"layers": 60, "hidden": 10240, "heads": 80, "vocab": 51200, "seq": 2048},
        system={"gpus": 1024, "fabric": "8x200Gb HDR IB/node, NVLink3"},
        parallel={"tp": 8, "pp": 4, "dp": 32, "gbs": 1792},
        measured={"tflops_per_gpu": 140.0},
        derived={"iteration_time_s": 13.0},
    ),
    case(
        "korthikanti_table5",
        (18.13, A100, {"recompute": "full", "virtual_stages": 3}),
        (13.75, {"recompute": "selective", "sequence_parallel": True, "n_gpus": 64}),
        model={"layers": 96, "hidden": 12288, "heads": 96, "vocab": 51200, "seq": 2048},
        system={"gpus": 64},
        parallel={"tp": 8, "pp": 8, "dp": 1, "gbs": 64, "mbs": 1, "vp": 3},
        measured={"iter_s_full_recompute": 18.13, "iter_s_seqpar_selective": 13.75},
    ),
    case(
        "vtrain_multi",
        (3.5665, A100, {"inter_node_bandwidth": 12.5e9, "recompute": "full", "zero_stage": 1}),
        model={"layers": 30, "hidden": 3072, "heads": 32, "seq": 2048},
        system={"accel": "A100-80GB (8/node, 4x200Gb HDR)", "gpus": 64},
        parallel={"tp": 1, "dp": 64, "pp": 1, "mbs": 8, "gbs": 512},
        measured={"iteration_time_s": 3.5665},
    ),
    # 72 whole layers on 12 stages: 12 72 14400^2 + 250880 14400 = 182.8e9
    case(
        "bloom_prequel",
        (
            *(172.4, A100, {"layers": 72, "vocab_size": 250880, "attention_heads": 64}),
            {"inter_node_bandwidth": 6.25e9, "zero_stage": 1},
        ),
        model={"size": "183B", "hidden": 14400, "layers": 80, "heads": None, "seq": 2048},
        system={"accel": "A100-80GB", "gpus": 384, "fabric": "4x OmniPath 100Gb/node"},
        parallel={"dp": 4, "tp": 8, "pp": 12, "mbs": 1, "gbs": 2048},
        measured={"iteration_time_s": 172.4, "tflops_per_gpu_hw": 90.0},
    ),
    # 256 x 2048 / (64 x 2048)
    case(
        "mosaic",
        (
            4.0,
            {"gpu": "a100-sxm-40gb", "layers": 32, "hidden_size": 4096},
            {"vocab_size": 50368, "inter_node_bandwidth": 25e9, "zero_stage": 3},
            {"recompute": "full", "attention_kernel": "flash", "precision": "bf16"},
        ),
        where="line 9; A100 40GB with 1600 Gbps node-node interconnect (RoCE)",
        model={"name": "MPT-7b", "params": 6658859008, "seq": 2048},
        system={"accel": "a100_40gb", "gpus": 64},
        parallel=dict(sharding="FULL_SHARD", mbs=4, gbs=256, precision="amp_bf16", act_ckpt=True),
        measured={"tokens_per_s_per_gpu": 2048.0},
    ),
    # 4096 x 4096 / (256 x 6553.6)
    case(
        "megatron_bridge",
        (
            *(10.0, {"model": "deepseek-v3", "node": "gb300-nvl72", "fabric": "infiniband-xdr"}),
            *(
                {"precision": "mxfp8", "expert_parallel": 32, "virtual_stages": 8},
                {"zero_stage": 1},
            ),
        ),
        where="26.06 NeMo Container; Pre-Training Performance",
        model={"name": "DeepSeekV3", "seq": 4096},
        system={"accel": "DGX-GB300", "gpus": 256},
        parallel=dict(precision="MXFP8", gbs=4096, mbs=1, tp=1, pp=2, cp=1, vp=8, ep=32, fsdp=None),
        measured={"tokens_per_s_per_gpu": 6553.6},
    ),
    case(
        "mlperf_gpt3",
        (6.0, {"node": "dgx-h100", "precision": "fp8", "sequence_parallel": True}),
        model={"layers": 96, "hidden": 12288, "heads": 96, "vocab": 51200, "seq": 2048},
        system={"accel": "H100-SXM", "gpus": 1536},
        parallel={
            **{"tp": 4, "pp": 8, "cp": 1, "vp": 4, "mbs": 2, "dp": 48, "precision": "FP8"},
            **{"gbs": 3072, "dist_optimizer": True, "sequence_parallel": True},
        },
        measured={"step_time_s": None, "throughput_logged": 1048576.0},
    ),
    case(
        "simumax_b200",
        (1.5, {"layers": 4, "kv_heads": 16, "global_batch_size": 128, "node": "dgx-b200"}),
        model={"name": "llama3_405b", "layers": 4, "seq": 4096},
        system={"accel": "B200-SXM", "gpus": 8},
        parallel={"tp": 2, "pp": 1, "dp": 4, "ep": 1, "cp": 1, "microbatches": 32, "mbs": 1},
        measured={"iteration_time_ms": 1500.0},
    ),
    # 256 x 8192 / (512 x 128)
    case(
        "torchtitan",
        (
            32.0,
            {"model": "llama-3-405b", "hbm_capacity": 96e9, "hbm_bandwidth": 2.4e12},
            {"inter_node_bandwidth": 50e9, "micro_batch_size": 4.0, "virtual_stages": 2},
            {"tensor_parallel_overlap": 1.0, "precision": "fp8"},
        ),
        where="llama3_h100_202412 Table 5",
        model={"name": "Llama3.1 405B"},
        system={"accel": "H100 96GB HBM2e 2.4TB/s, 500W limit, 400Gb/s/GPU", "gpus": 512},
        parallel={
            **{"fsdp": 8, "tp": 8, "pp": 8, "mbs": 32, "gbs": 256, "recompute": "full"},
            **{"seq": 8192, "variant": "interleaved 1F1B float8"},
        },
        measured={"tokens_per_s_per_gpu": 128},
    ),
    # 96 x 8192 / (64 x 4096)
    case(
        "torchtitan",
        (3.0, {"global_batch_size": 96, "recompute": "alternate_products", "precision": "bf16"}),
        (2.0, {"tensor_parallel_overlap": 1.0}),
        where="asyncTP 2025-06",
        model={"name": "Llama3 8B"},
        system={"accel": "H100 96GB HBM2e 2.4TB/s, 500W limit, 400Gb/s/GPU", "gpus": 64},
        parallel={"tp": 8, "fsdp": 8, "precision": "bf16"},
        measured={"tps_vanilla_tp": 4096, "tps_async_tp": 6144},
    ),
    case(
        "nccl_allreduce",
        (69.12e-6, {"message_bytes": 8, "ranks": 16, "nodes": 2, "calibration": "aws-p5"}),
        system={"name": "2x p5.48xlarge (16xH100, 3200Gb/s EFA/node)", "ranks": 16},
        measured={"bytes": 8, "time_us_oop": 69.12, "busbw_GBps": 0.0},
    ),
    # 1.5 x 2^30 / 402.653184e9
    case(
        "nccl_algo_by_ranks",
        (0.004, {"intra_node_bandwidth": 450e9, "ranks": 4}),
        (1.5 * 2**30 / 400e9, {"all_reduce": "ring"}),
        system={"name": "8xH200", "ranks": 4, "nodes": 1, "scaleup_GBps": 450},
        measured={"bytes": 2**30, "busbw_default_GBps": 402.653184, "busbw_ring_GBps": 400},
    ),
    case(
        "nccl_worked_example",
        (0.02205, {"nodes": 4, "calibration": "aws-p6-b200"}),
        (0.01015, {"nodes": 1, "ranks": 8, "calibration": "b200-nvlink-node"}),
        system={"name": "4x P6-B200", "ranks": 32, "nodes": 4},
        measured={"bytes": 4294967296, "measured_ms": 22.05, "single_node_ms": 10.15},
    ),
    case(
        "daly2006",
        (7020.0, {"cluster_mtbf": 86400.0, "checkpoint_stall_time": 300.0}),
        inputs={"M_min": 1440, "delta_min": 5},
        measured={"tau_opt_min": 117},
    ),
    case(
        "meta_rsc",
        (6480.0, {"n_gpus": 16384, "reliability": "rsc-1"}),
        measured={"mttf_16384gpu_h_projected": 1.8},
    ),
    case(
        "meta_rsc",
        (0.7, {"n_gpus": 16000, "fixed_checkpoint_interval": 3600.0, "restart_time": 300.0}),
        measured={"ettr_16000gpu_60min_ckpt": 0.7},
    ),
    # 2^21 tokens in whole sequences of 124 replicas: 8 each
    # 96 B s l h^2 (1 + s / 6h + V / 16 l h) / (992 x 147e12)
    case(
        "opt_175b",
        (
            96 * 992 * 2048 * 96 * 12288**2 * 1.0304395 / (992 * 147e12),
            A100,
            {"layers": 96, "tensor_parallel": 8, "global_batch_size": 992},
            {"micro_batch_size": 8, "zero_stage": 3, "recompute": "full"},
        ),
        system={"gpus": 992},
        measured={"tflops_per_gpu": 147},
    ),
    # 300e9 tokens in steps of 1024 x 2048: 143,051 of them
    case(
        "opt_175b",
        (33 * 86400 / 143051.15, {"global_batch_size": 1024}),
        system={"gpus": 1024},
        measured={"ideal_days_1024": 33},
    ),
    # 72 B s l h^2 (1 + s / 6h + V / 12 l h), the batch that of the GPUs
    case(
        "megascale_fig9",
        (
            72 * 2048 * 105 * 20480**2 * 1.0191468 / (0.492 * 312e12),
            {"layers": 105, "pipeline_parallel": 35, "virtual_stages": 3},
            {"global_batch_size": 2240, "fabric": "megascale"},
        ),
        system={"gpus": 2240},
        measured={"megatron_mfu_pct": 49.2},
    ),
    case(
        "megascale_table2",
        (40.0, {"attention_heads": 128, "virtual_stages": 6, "global_batch_size": 768}),
        model={"name": "175B"},
        system={"gpus": 256},
        parallel={"gbs": 768},
        measured={"megatron_iteration_time_s": 40.0},
    ),
    case(
        "korthikanti_table4",
        (0.0203, {"layers": 1, "logits_time": 0.0, "recompute": "selective", "n_gpus": 8}),
        measured={"experiment": "selective+sequence", "combined_ms": 20.3},
    ),
    # 6 (405e9 + 126 x 16384 x 8192) 2048 x 8192 / (8192 x 430e12)
    case(
        "llama3_table4",
        (12.05801, {"model": "llama-3-405b", "virtual_stages": 8, "n_gpus": 8192}),
        model={"seq": 8192},
        system={"gpus": 8192},
        parallel={"gbs": 2048},
        measured={"tflops_per_gpu": 430},
    ),
    case(
        "training_cost",
        (30.84e6, {"n_gpus": 16384, "training_tokens": 15.6e12, "global_batch_size": 2048}),
        model={"name": "Llama 3.1 405B", "tokens_t": 15.6},
        measured={"gpu_hours_h100_m": 30.84},
    ),
    case(
        "sc21_misc",
        (13.8e12, {"model": "megatron-1t", "checkpoint_bytes_per_parameter": 14.0}),
        measured={"ckpt_1T_TB": 13.8},
    ),
    # 6 (32 (4 h^2 + 3 h 11008) + V h) + 12 32 s h = 52.53e9 for a token
    case(
        "nemo_longseq",
        (
            512 * 8192 * 52.5270e9 / (8 * 730e12),
            {"model": "llama-2-7b", "precision": "fp8", "pipeline_parallel": 2},
        ),
        model={"name": "Llama2-7B FP8", "seq": 8192},
        system={"accel": "H100", "gpus": 8},
        parallel={"tp": 1, "pp": 2, "dp": 4, "cp": 1, "gbs": 512},
        measured={"tflops_per_gpu_with_cp": 730},
    ),
    # 3.7 days for a trillion tokens
    case(
        "deepseek_v3",
        (
            15360 * 4096 * 180e3 * 3600 / 1e12 / 2048,
            {"model": "deepseek-v3", "node": "h800-8gpu", "pipeline_parallel": 16},
            {"expert_parallel": 64, "global_batch_size": 15360, "routing_nodes": 4},
            {"precision": "fp8_blockwise"},
        ),
        system={"accel": "H800", "gpus": 2048},
        measured={"tokens_t": 14.8, "gpu_hours_per_T_tokens_k": 180},
    ),
]


def read(tmp_path: Path, *records: Any) -> tuple[list[Row], list[LeftOut]]:
    return read_records(written(tmp_path / "records.json", json.dumps(records)))


def named(group: str, record: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": f"{group}/000", "group": group, "source": "a paper", **record}


@pytest.mark.parametrize(("group", "record", "expected"), CASES, ids=[case[0] for case in CASES])
def test_records_read_as_by_hand(group: str, record: Any, expected: Any, tmp_path: Path) -> None:
    rows, left_out = read(tmp_path, named(group, record))
    assert not left_out
    assert len(rows) == len(expected)
    for row, (inputs, measured) in zip(rows, expected, strict=True):
        assert {name: row.inputs.get(name) for name in inputs} == inputs
        assert (row.measured, row.group) == (pytest.approx(measured, rel=1e-4), group)
        assert row.source == "a paper"
    assert len({row.id for row in rows}) == len(rows)


@cases(
    "group, section, values, reason",
    ("sc21_table1", "model", {"layers": 25}, "no published micro-batch"),
    ("bloom_prequel", "model", {"size": "300B"}, "is not that of its layers"),
    ("bloom_prequel", "measured", {"tflops_per_gpu_hw": 300.0}, "times what the step"),
    ("mosaic", "model", {"params": 1e9}, "model.params = 1e+09 is not that of"),
    ("mosaic", "model", {"name": "MPT-9b"}, "'MPT-9b' has no published shape"),
    ("megatron_bridge", "model", {"name": "DeepSeekV4 Flash"}, "no shape in the catalog"),
    ("mlperf_gpt3", "system", {"gpus": None}, "system.gpus is missing"),
    ("mlperf_gpt3", "system", {"accel": "cloud-tpu-v5p-1024-maxtext"}, "products are INT8"),
    ("mlperf_gpt3", "system", {"accel": "HLS-Gaudi2-N32-PT"}, "'a paper' has no published"),
    ("opt_175b", "measured", {"tflops_per_gpu": None}, "neither a rate of a GPU nor days"),
    ("megascale_fig9", "system", {"gpus": 240}, "no replica of the published layout"),
    ("korthikanti_table4", "measured", {"experiment": "guess"}, "is not one of"),
    ("llama3_table4", "model", {"seq": 131072}, "is not stated"),
    ("training_cost", "model", {"name": "Llama 3 8B"}, "has no published layout"),
    ("mlperf_gpt3", "parallel", {"dp": 47}, "is not system.gpus"),
    ("vtrain_multi", "parallel", {"tp": 128}, "more than system.gpus"),
    ("vtrain_multi", "measured", {"iteration_time_s": "fast"}, "is not a number"),
    ("nccl_allreduce", "measured", {"time_us_oop": -1}, "not a finite number above 0"),
)
def test_an_unpredicted_record_says_why(
    group: str, section: str, values: Any, reason: str, tmp_path: Path
) -> None:
    record = named(group, next(case[1] for case in CASES if case[0] == group))
    rows, (left_out,) = read(tmp_path, record | {section: record[section] | values})
    assert not rows
    assert reason in left_out.reason
    assert left_out.id == record["id"]


def test_gpt_3_on_gaudi_runs_as_its_commands_say(tmp_path: Path) -> None:
    mlperf = next(case[1] for case in CASES if case[0] == "mlperf_gpt3")
    record = named("mlperf_gpt3", mlperf | {"system": {"accel": "HLS-Gaudi2-N128-PT"}})
    record |= {"source": "MLCommons training_results_v4.0", "parallel": {"gbs": 2048}}
    (row,), left_out = read(tmp_path, record)
    assert not left_out
    assert row.group == "mlperf_gpt3_gaudi"  # nothing is fitted to it: a separate group
    expected = {"n_gpus": 1024, "tensor_parallel": 8, "pipeline_parallel": 8, "precision": "fp8"}
    expected |= {"micro_batch_size": 2, "global_batch_size": 2048, "recompute": "selective"}
    assert {name: row.inputs.get(name) for name in expected} == expected
    assert row.measured == pytest.approx(4.0)  # 2048 x 2048 / 1048576
    record |= {
        "source": "MLCommons training_results_v3.1",
        "system": {"accel": "HLS-Gaudi2-N48-PT"},
    }
    (row,), _ = read(tmp_path, record)  # accumulates 128 micro-batches, by its log: 2048 / (2 x 8)
    assert row.inputs["n_gpus"] / 8 / row.inputs["pipeline_parallel"] == 8


def test_a_misprinted_row_of_bridge_runs_as_the_same_run_of_other_containers() -> None:
    rows = {row.id: row for row in read_records()[0]}
    printed, before = (rows[f"megatron_bridge/{number}"] for number in (166, 202))
    assert printed.inputs == before.inputs
    assert "misprints" in " ".join(printed.notes)


def test_a_recipe_of_bridge_is_read(tmp_path: Path) -> None:
    bridge = next(case[1] for case in CASES if case[0] == "megatron_bridge")
    parallel = bridge["parallel"] | {"recompute": "mla_up_proj+moe_act", "optimizer_bytes": 8}
    parallel |= {"offloaded_layers": 20, "offload_modules": "moe_act", "data_parallel_shard": 64}
    parallel |= {"layout": "Et*4|(t*4|)*14tmL"}
    record = named("megatron_bridge", bridge | {"parallel": parallel}) | {"config": "V2 of v0.4.2"}
    (row,), left_out = read(tmp_path, record)
    assert not left_out
    expected = {"recompute": "modules", "recompute_mla_up_proj": 1, "recompute_moe_act": 1}
    expected |= {"activation_offload": "layers", "offloaded_layers": 20, "offload_moe_act": 1}
    expected |= {"optimizer_bytes_per_parameter": 8, "data_parallel_shard": 64, "zero_stage": 3}
    # pieces 0, 2, ... 14 of 4 layers are the first stage's; the rest, 1 and a module the last's
    expected |= {"first_stage_layers": 32, "last_stage_layers": 29, "prediction_layers": 1}
    assert {name: row.inputs.get(name) for name in expected} == expected
    assert not any("recomputation" in note for note in row.notes)


def test_every_published_job_fits_where_it_ran() -> None:
    rows = [row for row in read_records()[0] if row.of == "step_time"]
    reasons = evaluate([(("infeasible_reason",), row.inputs) for row in rows])
    assert {row.id: why for row, why in zip(rows, reasons, strict=True) if list(why) != [0.0]} == {}


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


def test_batches_of_the_chronicle_are_those_of_its_headings() -> None:
    rows = {row.id: row for row in read_records()[0] if row.group == "bloom_prequel"}
    for name in ("bloom_prequel/045", "bloom_prequel/046"):
        assert rows[name].inputs["global_batch_size"] == 512


@pytest.mark.parametrize("kind", ["SFT", "LoRA"])
def test_fine_tuning_is_left_out(kind: str, tmp_path: Path) -> None:
    bridge = named("megatron_bridge", next(c[1] for c in CASES if c[0] == "megatron_bridge"))
    _, (left_out,) = read(tmp_path, bridge | {"where": f"26.06 NeMo Container; {kind} Performance"})
    assert kind in left_out.reason


def test_a_second_record_of_an_id_is_left_out(tmp_path: Path) -> None:
    record = named(CASES[0][0], CASES[0][1])
    rows, left_out = read(tmp_path, record, record)
    assert (len(rows), [held.reason for held in left_out]) == (1, ["its id appears twice"])


COUNTS = {"bloom_176b": 1, "bloom_prequel": 92, "daly2006": 3, "deepseek_v3": 3}
COUNTS |= {"korthikanti_table4": 5, "korthikanti_table5": 9, "llama3_table4": 2}
COUNTS |= {"megascale_fig9": 3, "megascale_table2": 8, "maxtext_tpu": 31, "megatron_bridge": 185}
COUNTS |= {"meta_rsc": 5, "mlperf_gpt3": 14, "mlperf_gpt3_gaudi": 5, "mosaic": 144}
COUNTS |= {"nccl_algo_by_ranks": 23, "nccl_allreduce": 106, "nccl_worked_example": 2}
COUNTS |= {"nemo_longseq": 17, "opt_175b": 2, "sc21_misc": 1, "palm_540b": 1, "palm_table3": 1}
COUNTS |= {"sc21_table1": 10, "simumax_b200": 29, "torchtitan": 37, "training_cost": 1}
COUNTS |= {"mlperf_llama31_405b": 14, "nemo_summary": 6}
COUNTS |= {"vtrain_multi": 73}
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


def test_the_own_tables_give_rows_for_every_group_and_lose_no_record() -> None:
    rows, left_out = read_records()
    assert not [x for x in left_out if x.reason.endswith("has no reader")], (
        "write its reader in grid/measured/published/, or say why there is none in records.py"
    )
    memory = ("memory", "parameter", "activation", "optimizer", "state")
    assert Counter(row.group for row in rows if not row.of.startswith(memory)) == COUNTS
    written, ids = 0, set()
    for path in record_tables.own_tables():
        text = path.read_text(encoding="utf-8").splitlines()
        table = list(csv.DictReader(line for line in text if not line.startswith("# ")))
        written += len(table)
        ids |= {row["id"] for row in table if "id" in row}
    told = {row.id.partition(":")[0] for row in rows} | {held.id for held in left_out}
    assert len(told) == written
    assert ids <= told
    assert all(held.reason for held in left_out)


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


VTRAIN = (
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,"
    "tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n"
    "2,16,8,1024,16,24,1024,1,1,2,372.160408\n"
)


def test_the_table_of_vtrain_is_read(tmp_path: Path) -> None:
    (row,), left_out = read_records(written(tmp_path / "single.csv", VTRAIN))
    assert not left_out
    assert (row.id, row.measured) == ("vtrain_single/line-2", pytest.approx(0.372160408))
    expected = {"n_gpus": 2, "global_batch_size": 16, "micro_batch_size": 8, "hidden_size": 1024}
    expected |= {"pipeline_parallel": 2, "layers": 24, "sequence_length": 1024}
    assert {name: row.inputs[name] for name in expected} == expected


def test_a_csv_of_dotted_keys_says_what_the_json_says(tmp_path: Path) -> None:
    path = written(
        tmp_path / "ours.csv",
        "# group = vtrain_multi\n# model.seq = 2048\n"
        "id,model.layers,model.hidden,model.heads,system.gpus,parallel.gbs,measured.iteration_time_s\n"
        "a,30,3072,32,64,512,3.5\nb,30,,32,64,512,3.5\n",
    )
    (row,), (left_out,) = read_records(path)
    record = {"model": {"layers": 30, "hidden": 3072, "heads": 32, "seq": 2048}}
    record |= {"system": {"gpus": 64}, "parallel": {"gbs": 512}}
    record |= {"measured": {"iteration_time_s": 3.5}}
    (same,), _ = read(tmp_path, {"id": "a", "group": "vtrain_multi", **record})
    assert (row, left_out) == (same, LeftOut("b", "vtrain_multi", "model.hidden is missing"))


@cases(
    "content, match",
    (b"", "not a table of records"),
    (b"a,b\n1,2\n", "not a table of records"),
    (b"\xff\xfe\x00", "not UTF-8"),
    (b'{"a": 1}', "not a list of records"),
    (b"[1, 2", "not JSON"),
    (b"[" * 100_000, "not JSON"),
    (b"[" + b"9" * 10_000 + b"]", "not JSON"),
    (b"id,group,group\na,b,c\n", "the same column twice"),
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
    path = written(tmp_path / "records.json", "[1, 2, 3]")
    monkeypatch.setattr(record_tables, "MOST", 2)
    refused("more than 2 records", read_records, path)
    monkeypatch.setattr(record_tables, "LARGEST", 8)
    refused("more than 8 bytes", read_records, path)
    monkeypatch.undo()
    lines = [f"# k{k} = 1\n" for k in range(101)]
    for count, ends in ((100, nullcontext()), (101, pytest.raises(InputError, match="100 '# key"))):
        path.write_text("".join(lines[:count]) + "id,group\na,b\n", encoding="utf-8")
        with ends:
            read_records(path)


SPOILED = st.sampled_from(CASES).flatmap(
    lambda case: st.fixed_dictionaries(
        {
            "id": st.just(f"{case[0]}/0") | st.none() | st.integers(),
            "group": st.just(case[0]),
            **{
                section: st.fixed_dictionaries(
                    {name: st.just(value) | JUNK for name, value in held.items()}
                )
                if isinstance(held, dict)
                else st.just(held) | JUNK
                for section, held in case[1].items()
            },
        }
    )
)


@pytest.mark.slow
@given(records=st.lists(SPOILED | JUNK, min_size=1, max_size=4))
def test_junk_is_left_out(records: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = written(tmp_path_factory.mktemp("junk") / "records.json", json.dumps(records))
    rows, left_out = read_records(path)
    told = {row.id.partition(":")[0] for row in rows} | {held.id for held in left_out}
    assert len(told) + sum("appears twice" in held.reason for held in left_out) == len(records)
    for held in left_out:
        assert held.reason
        assert "\n" not in held.reason
    for row in rows:
        assert 0 < row.measured < float("inf")


@cases(
    "kind, text, expected",
    ("bandwidth", "4x OmniPath 100Gb/node", 6.25e9),
    ("bandwidth", "8x200Gb HDR IB/node, NVLink3", 25e9),
    ("bandwidth", "A100-80GB (8/node, 4x200Gb HDR=800Gb/s per node in vTrain config)", 12.5e9),
    ("bandwidth", "A100 40GB with 1600 Gbps node-node interconnect (RoCE)", 25e9),
    ("bandwidth", "H100 96GB HBM2e 2.4TB/s, 500W limit, 400Gb/s/GPU", 50e9),
    ("bandwidth", "H100 80GB BF16", None),
    ("gpu", "a100_40gb", "a100-sxm-40gb"),
    ("gpu", "h100_80gb", "h100-sxm"),
    ("system", "DGX-GB200", ("gb200-nvl72", "infiniband-ndr")),
    ("system", "DGX-B300", ("dgx-b300", "infiniband-xdr")),
    ("model", "Qwen3_235B_a22B", "qwen-3-235b-a22b"),
    ("model", "Llama3.1 405B", "llama-3-405b"),
    ("precision", "MXFP8", "mxfp8"),
    ("precision", "FP8_MX", "mxfp8"),
    ("precision", "FP8-SC", "fp8_blockwise"),
    ("precision", "FP8-CS", "fp8"),
    ("precision", "amp_fp8", "fp8"),
    ("precision", "NVFP4", "nvfp4"),
    ("precision", "amp_bf16", "bf16"),
    ("precision", "float8 tensorwise", "fp8"),
)
def test_hardware_and_models_are_found_in_text(kind: str, text: str, expected: Any) -> None:
    assert getattr(hardware, f"{kind}_of")(text) == expected


BRIDGE = {"group": "megatron_bridge", "where": "26.02.01 NeMo Container; Pre-Training Performance"}
GB200 = {"node": "gb200-nvl72", "precision": "fp8"}


def test_the_most_specific_calibration_comes_first() -> None:
    experts = list(record_calibration.candidates(BRIDGE, {**GB200, "model": "deepseek-v3"}))
    moe = [f"bridge-moe-gb200{end}" for end in ("-fp8-26-04", "-fp8", "")]
    dense = [name.replace("-moe", "") for name in moe]
    nearby = [name.replace("gb200", "b200") for name in (*moe[:2], *dense[:2])]
    assert experts == [*moe, *dense, *nearby, "megatron-gb200"]
    scales = list(record_calibration.candidates(BRIDGE, {**GB200, "precision": "mxfp8"}))
    assert scales[:3] == ["bridge-gb200-mxfp8", "bridge-gb200-fp8", "bridge-gb200"]
    later = {**BRIDGE, "where": "26.08 NeMo Container"}
    dense = list(record_calibration.candidates(later, {**GB200, "model": "llama-3-70b"}))
    assert dense[0] == "bridge-gb200-fp8"  # releases matter only with experts
    eager = {"group": "torchtitan", "parallel": {"variant": "FSDP"}}
    assert next(record_calibration.candidates(eager, {"node": "dgx-h100"})) == (
        "torchtitan-eager-h100"
    )
    assert not list(record_calibration.candidates({"group": "meta_rsc"}, GB200))


def test_a_run_takes_the_first_calibration_that_is_known() -> None:
    asked = []

    def known(label: str) -> bool:
        asked.append(label)
        return label == "bridge-gb200"

    assert record_calibration.calibration_for(BRIDGE, GB200, known) == "bridge-gb200"
    assert asked[-1] == "bridge-gb200"
    assert record_calibration.calibration_for(BRIDGE, {"gpu": "t4"}, known) is None
