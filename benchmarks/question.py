"""The timed questions, at any size."""

from collections.abc import Sequence
from typing import Any

from fleetcube.sweep import Sweep

AXES = (
    "n_gpus",
    "gpu_mttf",
    "checkpoint_write_bandwidth",
    "inter_node_bandwidth",
    "pipeline_parallel",
)
OUTPUTS = ("job_time", "communication_overhead", "reliability_to_communication_ratio")
UNEVEN = (32, 64, 64, 32, 8)  # 33.6 million points
EVEN = (32, 32, 32, 32, 32)  # as many, with axes of equal length
BILLION = (32, 128, 128, 64, 32)  # 1.07 billion points

PEER_OUTPUTS = (
    "step_time",
    "communication_fraction",
    "cluster_mtbf",
    "checkpoint_interval",
    "goodput",
    "job_time",
)


def full(
    sizes: Sequence[int], order: Sequence[str] = AXES, outputs: Sequence[str] | None = None
) -> Sweep:
    """Llama 3 70B on DGX H100 nodes over five numeric axes, which all OUTPUTS have."""
    gpus, mttf, storage, fabric, stages = sizes
    axes: dict[str, Any] = {
        "n_gpus": {"geomspace": [64, 16384], "num": gpus, "round": True},
        "gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": mttf},
        "checkpoint_write_bandwidth": {"geomspace": ["10 GB/s", "1 TB/s"], "num": storage},
        "inter_node_bandwidth": {"geomspace": ["25 GB/s", "200 GB/s"], "num": fabric},
        "pipeline_parallel": list(range(1, stages + 1)),
    }
    scenario = {
        "model": "llama-3-70b",
        "node": "dgx-h100",
        "tensor_parallel": 8,
        "calibration": "none",
    }
    return Sweep(scenario, {name: axes[name] for name in order}, list(outputs or OUTPUTS))


def fleet(storage: int, mttf: int, tokens: float = 15e12) -> Sweep:
    """The peers' question: 108 clusters, fabrics and layouts x `storage` x GPU `mttf` points."""
    return Sweep(
        {
            "model": "llama-3-70b",
            "node": "dgx-h100",
            "calibration": "none",
            "tensor_parallel": 8,
            "global_batch_size": 2048,
            "sequence_length": 8192,
            "training_tokens": tokens,
            "checkpoint_policy": "young",
        },
        {
            "n_gpus": [2**k for k in range(6, 15)],
            "pipeline_parallel": [1, 2, 4, 8],
            "fabric": ["infiniband-hdr", "infiniband-ndr", "infiniband-xdr"],
            "checkpoint_write_bandwidth": {"geomspace": ["30 GB/s", "1 TB/s"], "num": storage},
            "gpu_mttf": {"geomspace": ["10_000 h", "100_000 h"], "num": mttf},
        },
        list(PEER_OUTPUTS),
    )
