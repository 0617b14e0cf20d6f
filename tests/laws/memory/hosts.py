"""An optimizer that lives with the host: its update played array by array, and published times."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import fleetcube

from ... import formulas
from ...draws import generator, scaled
from ..check import Pairs, check

NAMES = ("optimizer_offload_time", "host_update_time", "optimizer_time")
SIZES = {"bf16": np.uint16, "fp32": np.float32}
STORED = "bf16", "bf16_and_fp32", "fp32", "bf16_and_fp32"  # by the stage of ZeRO
PIECE = 64  # parameters of a played piece


@dataclass
class Memory:
    """What passes between a processor and its memory, counted array by array."""

    passed: int = 0

    def read(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        self.passed += array.nbytes
        return array.astype(np.float32)

    def write(self, place: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
        self.passed += place.nbytes
        place[:] = values.astype(place.dtype)


def adam(moment: str) -> tuple[float, float, float]:
    """Bytes of a parameter that one step passes: in the host's memory, out of the GPU, and back."""
    memory, one = Memory(), np.ones(PIECE)
    master, gradient = one.astype(np.float32), one.astype(np.float32)  # cast by the GPU
    first, second, weights = (one.astype(SIZES[kind]) for kind in (moment, moment, "bf16"))
    g, m, v, p = (memory.read(array) for array in (gradient, first, second, master))
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    p = p - 0.01 * m / (np.sqrt(v) + 1e-8)
    for place, result in ((first, m), (second, v), (master, p), (weights, p)):
        memory.write(place, result)
    return memory.passed / PIECE, gradient.nbytes / PIECE, weights.nbytes / PIECE


def drawn(draw: np.random.Generator, rows: int) -> dict[str, np.ndarray[Any, Any]]:
    """Jobs on parts of a node and on many, of nodes of 1 to 72 GPUs."""
    node = draw.choice([1, 4, 8, 16, 72], rows)
    tensor = np.minimum(2 ** draw.integers(0, 4, rows), 2 ** np.floor(np.log2(node)).astype(int))
    replicas = np.where(draw.random(rows) < 0.3, 1, node * draw.choice([1, 2, 16], rows))
    return {
        "gpus_per_node": node,
        "tensor_parallel": tensor,
        "n_gpus": tensor * replicas,
        "parameters": draw.choice([1.35e9, 8e9, 70e9, 405e9], rows),
        "host_memory_bandwidth": draw.uniform(130e9, 20e12, rows),
        "host_memory_efficiency": draw.uniform(0.05, 1.0, rows),
        "offload_bandwidth": draw.uniform(10e9, 250e9, rows),
        "nvme_bandwidth": draw.uniform(1e9, 10e9, rows),
    }


def node_times(job: dict[str, float], stage: int, moment: str) -> tuple[float, ...]:
    """Seconds out, of the update and back, of a node whose ranks are played one by one, and those
    of a rank's drives."""
    in_memory, out, back = adam(moment)
    ranks = int(job["n_gpus"])
    held = job["parameters"] / job["tensor_parallel"]
    shard = held / (ranks / job["tensor_parallel"]) if stage else held
    passed = 0.0
    for rank in range(ranks):
        if rank // int(job["gpus_per_node"]) == 0:  # seated on the first host
            passed += shard * in_memory
    update = passed / (job["host_memory_bandwidth"] * job["host_memory_efficiency"])
    ways = [shard * each / job["offload_bandwidth"] for each in (out, back)]
    states = 4 + 2 * SIZES[moment](0).nbytes
    states += 4 * (STORED[stage] == "bf16_and_fp32")  # a copy that waits with them
    drives = shard * states / job["nvme_bandwidth"]
    return ways[0], update, ways[1], drives


def played(
    count: int, overlap: float, offload: str
) -> Iterator[tuple[dict[str, float], dict[str, float], tuple[float, ...]]]:
    """What ours gives for drawn jobs, and the parts of the played step."""
    draw = generator(58)
    cases = [(stage, moment) for stage in (0, 1, 2, 3) for moment in SIZES]
    for stage, moment in cases:
        rows = drawn(draw, scaled(count) // len(cases))
        scenario = {
            **{"offload": offload, "optimizer_offload_overlap": overlap, "zero_stage": stage},
            **{"moment_bytes": SIZES[moment](0).nbytes, "precision": "bf16", "stage_split": False},
            "gradient_storage": STORED[stage],
        }
        found = fleetcube.evaluate_table(rows, list(NAMES), scenario=scenario)
        for k in range(len(rows["n_gpus"])):
            job = {name: float(row[k]) for name, row in rows.items()}
            ours = {name: float(np.asarray(found[name])[k]) for name in NAMES}
            yield ours, job, node_times(job, stage, moment)


@check(
    "host_update_time host_optimizer_offload_time "
    "nvme_drive_state_time host_gradient_bytes_lora_false master_gradient_bytes",
    by="simulator",
    source="Adam on arrays, every read and write counted, for each rank of a host, which gets one "
    "gradient whatever the GPU keeps; DeepSpeed, deepspeed/runtime/swap_tensor/"
    "partitioned_optimizer_swapper.py (gradients among states on drives)",
)
def offloaded() -> Pairs:
    """2,400 drawn jobs: nodes of 1 to 72 GPUs in part and in full, ZeRO-0 to 3, moments in 16 and
    32 bits, to the host and to drives"""
    for offload, count in (("cpu", 1600), ("nvme", 800)):
        for ours, _, (out, update, back, drives) in played(count, 0.0, offload):
            yield ours["host_update_time"], update
            clock = out + update + back
            if offload == "nvme":
                clock += drives  # read
                clock += drives  # written
            yield ours["optimizer_offload_time"], clock
            yield ours["optimizer_time"], 0  # compute_model = mfu


@check(
    "host_optimizer_offload_time",
    by="simulator",
    source="500 tensors, each out, updated and back in turn; three queues",
    tolerance=5e-3,
)
def tensor_by_tensor() -> Pairs:
    """80 of 800 drawn jobs whose gradients leave and weights come back beside the update"""
    tensors = 500
    for number, (ours, _, (out, update, back, _)) in enumerate(played(800, 1.0, "cpu")):
        if number % 10:
            continue
        queues = [0.0, 0.0, 0.0]
        for _ in range(tensors):
            ready = 0.0
            for queue, whole in enumerate((out, update, back)):
                ready = queues[queue] = max(queues[queue], ready) + whole / tensors
        yield ours["optimizer_offload_time"], queues[-1]


@check(
    "host_update_time",
    by="table",
    source="Ren et al. 2021 (ZeRO-Offload), tables 2 and 4: CPU-Adam on a DGX-2, weights sent in "
    "16 bits; two Xeon 8168 with six channels of DDR4-2666",
    tolerance=0.17,
)
def zero_offload() -> Pairs:
    """1, 2, 4, 8 and 10 billion parameters: 0.22, 0.51, 1.03, 2.41 and 2.57 s"""
    bandwidth = 2 * 6 * 8 * 2.666e9
    for billions, seconds in ((1, 0.22), (2, 0.51), (4, 1.03), (8, 2.41), (10, 2.57)):
        yield formulas.host_update_time(billions * 1e9, 1, 16, 12, 4, 2, bandwidth, 0.46), seconds


@check(
    "host_update_time",
    by="table",
    source="Lian et al. 2025 (SuperOffload), CPU-Adam on the Grace of a GH200, of 512 GB/s",
    tolerance=0.03,
)
def superoffload() -> Pairs:
    """1, 2, 4 and 8 billion parameters: 0.098, 0.198, 0.393 and 0.769 s; no weights in 16 bits"""
    for billions, seconds in ((1, 0.098), (2, 0.198), (4, 0.393), (8, 0.769)):
        yield formulas.host_update_time(billions * 1e9, 1, 1, 12, 4, 0, 512e9, 0.56), seconds


@check(
    "roofline_optimizer_time",
    by="derivation",
    source="what a GPU reads and writes if its optimizer runs elsewhere",
)
def without_states() -> Pairs:
    """gradients of 2 and 4 bytes: read for their norm, scaled, read to leave, set to 0"""
    for storage, size in (("bf16", 2), ("fp32", 4)):
        given: dict[str, Any] = {"parameters": 8e9, "n_gpus": 8, "zero_stage": 1}
        given |= {"gradient_storage": storage, "hbm_bandwidth": 3e12, "memory_efficiency": 0.5}
        given |= {"compute_model": "roofline", "optimizer": "adam"}
        touched = [size, size, size, size, size, 2]  # norm, scale twice, leave, zero; weights
        for offload in ("cpu", "nvme"):
            ours = fleetcube.evaluate("optimizer_time", **given, offload=offload)
            yield float(ours), 1e9 * math.fsum(touched) / 1.5e12
