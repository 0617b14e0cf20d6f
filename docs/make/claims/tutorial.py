"""The tutorial "Reliability at scale" of mlsysim: a 70B model on 8 to 1,024 H100 GPUs."""

from typing import Any

import numpy as np

import fleetcube
from fleetcube.kernels.laws.collectives import point_to_point_time, ring_all_reduce_time
from fleetcube.kernels.laws.roofline import iron_law_time

from .claim import DAY, HOUR, Claim, Document, Verdict, convention, get, origin, own, plain

SIZES = [8, 32, 64, 128, 256, 512, 1024]
COMPARED = [64, 256, 512, 1024]
MONTH = 720.0  # hours in 30 days
SUPPLIES: dict[str, Any] = {"series_psus_per_node": 2}  # the tutorial counts both as needed
LLAMA: dict[str, Any] = {
    "model": "llama-3-70b",
    "node": "dgx-h100",
    "fabric": "infiniband-ndr",
    "storage": "nvme-7gbs",  # 14 B x 70.6e9 at 7 GB/s: the 141.2 s that it charges
    "tensor_parallel": 8,
    **SUPPLIES,
}


def weights() -> float:
    return float(get("weights_bytes", model="llama-3-70b"))


def compute_seconds() -> float:
    """mlsysim's step: the weights three times over 64 GB/s, 0.3 ms a layer, 10 us."""
    return float(iron_law_time(3 * weights(), 64e9, 0.0, 1.0, 1.0, 80 * 300e-6 + 10e-6))


def tensor_seconds() -> float:
    """mlsysim's tensor traffic: an eighth of the weights over both directions of NVLink."""
    return float(point_to_point_time(weights() / 8, 0.0, 900e9))


def packed_traffic(n_gpus: int) -> float:
    """mlsysim's gradients: 8 replicas in a node that one replica fills, and whole shards beyond."""
    groups, message = n_gpus / 64, weights() / 8
    inside = ring_all_reduce_time(message, 8, 0.5e-6, 900e9) * (2 if groups > 1 else 1)
    return float(tensor_seconds() + inside + ring_all_reduce_time(message, groups, 5e-6, 50e9))


def packed_hours() -> Any:
    step = compute_seconds()
    waits = np.array([packed_traffic(n) for n in COMPARED])
    return MONTH * waits / (step + waits)


def placed_hours(n_gpus: Any = COMPARED) -> Any:
    """Gradients in a ring over the nodes, each GPU on its own rail: 30 days' waiting in hours."""
    return MONTH * get(
        "communication_fraction",
        n_gpus=n_gpus,
        compute_time=compute_seconds(),
        exposed_tensor_parallel_time=0,
        all_reduce="ring",
        inter_node_latency=0,
        **LLAMA,
    )


def _lost(n_gpus: int, recovers: bool = False, **inputs: Any) -> float:
    names = ["checkpoint_overhead", "rework_overhead", "recovery_overhead"]
    lost = fleetcube.evaluate(names, n_gpus=n_gpus, goodput_model="first_order", **LLAMA, **inputs)
    return MONTH * sum(float(lost[name]) for name in names[: 3 if recovers else 2])


def mixed_hours() -> Any:
    """Checkpoints and rework where the interval is for a write of 60 s, and 141.2 s are charged."""
    intervals = get("young_interval", n_gpus=COMPARED, checkpoint_stall_time=60, **SUPPLIES)
    pairs = zip(COMPARED, intervals, strict=True)
    return np.array([_lost(n, checkpoint_interval=float(tau)) for n, tau in pairs])


def consistent_hours(recovers: bool = False) -> Any:
    """The same with Young's interval for the write that is charged."""
    return np.array([_lost(n, recovers, checkpoint_policy="young") for n in COMPARED])


def _mtbf(n_gpus: Any, **inputs: Any) -> Any:
    return get("cluster_mtbf", HOUR, n_gpus=n_gpus, **inputs)


def _table(name: str, scale: float = 1.0, **inputs: Any) -> Any:
    return get(name, scale, n_gpus=SIZES, **SUPPLIES, **inputs)


def _same_reliability() -> float:
    """GPUs of 100,000 h that fail as often as 512 of 50,000 h."""
    better = _mtbf(1, gpu_mttf="100_000 h", **SUPPLIES)
    return float(better / _mtbf(512, **SUPPLIES))


def _best_interval() -> float:
    """The interval, of 751 from 0.5 to 8 h, that loses least: exercise 2."""
    hours = np.linspace(0.5, 8, 751)
    kept = get(
        "goodput",
        n_gpus=512,
        checkpoint_stall_time=60,
        recovery_time=0,
        checkpoint_policy="fixed",
        goodput_model="first_order",
        fixed_checkpoint_interval=hours * HOUR,
        **SUPPLIES,
    )
    return float(hours[np.argmax(kept)])


CLAIMS = (
    Claim(
        "0.1",
        "512 GPUs of 50,000 h each: cluster MTBF",
        Verdict.ITSELF,
        (
            plain("~97", "h", lambda: _mtbf(512, nics_per_node=0), right="97.7"),
            own("in its table", "~97", "h", lambda: _mtbf(512, **SUPPLIES), right="67.0"),
        ),
        "The text counts GPUs alone, the table network cards and power supplies too.",
    ),
    Claim(
        "0.2",
        "Cluster MTBF of 8 to 1,024 GPUs; 8 GPUs, 8 cards, 2 supplies a node",
        Verdict.REPRODUCES,
        (
            plain(
                "4285.7 1071.4 535.7 267.9 133.9 67.0 33.5",
                "h",
                lambda: _table("cluster_mtbf", HOUR),
            ),
        ),
    ),
    Claim(
        "0.3",
        "Failures in 30 days",
        Verdict.REPRODUCES,
        (
            plain(
                "0.2 0.7 1.3 2.7 5.4 10.8 21.5",
                "",
                lambda: _table("expected_failures", job_duration="30 d"),
            ),
        ),
    ),
    Claim(
        "0.4",
        "Best interval for checkpoints of 60 s",
        Verdict.REPRODUCES,
        (
            plain(
                "12.0 6.0 4.2 3.0 2.1 1.5 1.1",
                "h",
                lambda: _table("young_interval", HOUR, checkpoint_stall_time=60),
            ),
        ),
    ),
    Claim(
        "0.5",
        "8 GPUs: a step of 6642.8 ms and 19.61 ms of traffic scale at 99.7 %",
        Verdict.REPRODUCES,
        (
            plain("6642.8", "ms", lambda: 1e3 * compute_seconds(), label="step"),
            plain(
                "99.7",
                "%",
                lambda: (
                    100
                    * get(
                        "scaling_efficiency",
                        n_gpus=8,
                        compute_time=compute_seconds(),
                        exposed_communication_time=tensor_seconds(),
                        **LLAMA,
                    )
                ),
            ),
        ),
    ),
    Claim(
        "0.6",
        "8 GPUs: tensor traffic of a step",
        Verdict.WRONG,
        (
            plain(
                "19.61",
                "ms",
                lambda: get(
                    "tensor_parallel_time",
                    1e-3,
                    n_gpus=8,
                    global_batch_size=1,
                    all_reduce="ring",
                    **LLAMA,
                ),
                # (4 x 80 + embedding and head) x 14 x (3.4 us + 8192 x 8192 x 2 B / 8 / 450 GB/s)
                right="183.46",
                label="one sequence of 8,192 tokens",
            ),
            origin("weights / 8 / 900 GB/s", "19.61", "ms", lambda: 1e3 * tensor_seconds()),
        ),
        "It moves weights, once, at the bandwidth of both directions; tensor parallelism moves "
        "activations, four times a layer, and grows with the tokens.",
    ),
    Claim(
        "0.7",
        "Communication in 30 days on 64, 256, 512, 1,024 GPUs",
        Verdict.WRONG,
        (
            plain(
                "5.8 61.3 69.2 73.1", "h", placed_hours, right="61.3 67.2 68.2 68.7", label="placed"
            ),
            origin("8 replicas packed in a node", "5.8 61.3 69.2 73.1", "h", packed_hours),
        ),
        "It packs eight replicas into a node that one fills, sends whole shards between nodes, and "
        "counts the traffic inside twice: at 64 GPUs it is ten times too low.",
    ),
    Claim(
        "0.8",
        "Checkpoints and rework in 30 days; ratio to communication",
        Verdict.ITSELF,
        (
            plain("9.5 19.0 26.9 38.1", "h", mixed_hours),
            plain("1.6 0.3 0.4 0.5", "", lambda: mixed_hours() / packed_hours(), label="ratio"),
            own(
                "interval for the 141.2 s charged",
                "9.5 19.0 26.9 38.1",
                "h",
                consistent_hours,
                right="8.7 17.4 24.6 34.9",
            ),
        ),
        "The interval is the best one for a write of 60 s, but each write is charged 141.2 s.",
    ),
    Claim(
        "0.9",
        "Restarts cost nothing: 1,024 GPUs, 30 days",
        Verdict.WRONG,
        (
            plain(
                "0.0",
                "h",
                lambda: (
                    MONTH
                    * get("recovery_overhead", n_gpus=1024, goodput_model="first_order", **LLAMA)
                ),
                right="3.2",  # 21.504 x (30 + 30 + 300 + 141.2 + 30) s
                label="detect, drain, replace, restore, start",
            ),
        ),
        "Noticing a failure, replacing the node and reading the checkpoint is left out.",
    ),
    Claim(
        "0.10",
        "Reliability costs more than communication, 10-30 % of the time, at 512 GPUs and more",
        Verdict.WRONG,
        (
            plain(
                "10-30",
                "%",
                lambda: 100 * consistent_hours(recovers=True)[-1] / MONTH,
                right="5.3",
                label="1,024 GPUs, restarts counted",
            ),
            plain(
                ">1 >1",
                "",
                lambda: (consistent_hours() / placed_hours())[2:],
                right="0.36 0.51",
                label="ratio to communication, 512 and 1,024",
            ),
            own("in its table", "10-30", "%", lambda: 100 * mixed_hours()[-1] / MONTH, right="5.3"),
        ),
        "Its own table says 0.4 and 0.5; only the 64-GPU row says otherwise, and that is the error "
        "of 0.7.",
    ),
    Claim(
        "0.11",
        "From 512 GPUs on something fails every day",
        Verdict.WRONG,
        (
            plain(
                "~1 ~1",
                "d",
                lambda: get("cluster_mtbf", DAY, n_gpus=[512, 1024], **SUPPLIES),
                right="2.8 1.4",
                label="512, 1,024",
            ),
        ),
        "Its table has 67.0 h and 33.5 h.",
    ),
    Claim(
        "0.12",
        "1,024 GPUs fail every 20 to 50 h",
        Verdict.REPRODUCES,
        (plain("20-50", "h", lambda: _mtbf(1024, **SUPPLIES), right="33.5"),),
    ),
    Claim(
        "0.13",
        "5 % serial work caps 1,024 GPUs at a speed-up of 20",
        Verdict.REPRODUCES,
        (
            plain(
                "~20",
                "",
                lambda: get("amdahl_speedup", serial_fraction=0.05, n_gpus=1024),
                right="19.64",
            ),
        ),
    ),
    Claim(
        "0.14",
        "Pipeline bubbles shrink as 1 / stages: 16 stages over 8",
        Verdict.WRONG,
        (
            plain(
                "0.5",
                "",
                lambda: np.divide(
                    *get("bubble_fraction", pipeline_parallel=[16, 8], num_microbatches=64)
                ),
                right="1.93",  # 15/79 over 7/71
                label="64 micro-batches",
            ),
        ),
        "Bubbles grow with the stages and shrink with the micro-batches.",
    ),
    Claim(
        "0.15",
        "Exercises 1 to 3, printed without answers; the self-check's node",
        Verdict.REPRODUCES,
        (
            plain("4285.7", "h", lambda: get("node_mttf", HOUR, **SUPPLIES), label="node MTTF"),
            plain(
                "", "h", lambda: _mtbf(2048, **SUPPLIES), "16.7", "exercise 1, MTBF of 2,048 GPUs"
            ),
            plain(
                "",
                "",
                lambda: get("expected_failures", n_gpus=2048, job_duration="30 d", **SUPPLIES),
                "43.0",
                "exercise 1, failures in 30 days",
            ),
            plain("", "h", _best_interval, "1.49", "exercise 2, best of 0.5 to 8 h at 512 GPUs"),
            plain(
                "",
                "h",
                lambda: _mtbf(1024, gpu_mttf="100_000 h", **SUPPLIES),
                "51.0",
                "exercise 3, MTBF of 1,024 GPUs of 100,000 h",
            ),
            plain(
                "", "GPUs", _same_reliability, "779", "exercise 3, as reliable as 512 of 50,000 h"
            ),
        ),
    ),
    Claim(
        "0.16",
        "The component list of a DGX H100: MTBF of 8 and 1,024 GPUs",
        Verdict.CONVENTION,
        (
            plain(
                "4285.7 33.5",
                "h",
                lambda: get("cluster_mtbf", HOUR, node="dgx-h100", n_gpus=[8, 1024]),
                right="4687.5 36.6",
                label="node = dgx-h100",
            ),
            convention(
                "series_psus_per_node = 2",
                "4285.7 33.5",
                "h",
                lambda: get("cluster_mtbf", HOUR, node="dgx-h100", n_gpus=[8, 1024], **SUPPLIES),
            ),
        ),
        "The supplies of a DGX H100 are redundant, and mlsysim 0.3.0 no longer counts them.",
    ),
)


DOCUMENT = Document(
    "Reliability at scale",
    "tutorial of mlsysim: Llama 3 70B on 8 to 1,024 H100 GPUs, communication against checkpoints",
    CLAIMS,
)
