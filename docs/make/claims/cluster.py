"""The design of a 100,000-GPU training cluster: a model of 10^12 parameters on 12,500 nodes."""

from typing import Any

import fleetcube
from fleetcube.kernels.laws.collectives import double_binary_tree_all_reduce_time

from .claim import (
    DAY,
    HOUR,
    Claim,
    Document,
    Verdict,
    cited,
    convention,
    evidence,
    get,
    origin,
    other,
    own,
    plain,
    record,
)

TRILLION = {"parameters": 1e12}
LAYOUT: dict[str, Any] = {
    "n_gpus": 99_968,
    "tensor_parallel": 8,
    "pipeline_parallel": 16,
    "layers": 128,
    "hidden_size": 25_600,
    "sequence_length": 8192,
    "global_batch_size": 512,
    "gpu": "h100-sxm",
    "fabric": "infiniband-ndr",
    **TRILLION,
}
HEALTHY: dict[str, Any] = {
    "n_gpus": 100_000,
    "peak_flops": "1 PFLOP/s",
    "flops_efficiency": 0.4,
    "kernel_flops_per_token": 6e12,  # 6 N, as the design counts
    "recompute_flops_factor": 1.0,
    "training_tokens": 15e12,
    **TRILLION,
}


def ratio(gpu: str, fabric: str) -> float:
    """NVLink over one port of the fabric, one direction of each."""
    inside = record("gpu", gpu, "intra_node_bandwidth")
    return inside / record("fabric", fabric, "inter_node_bandwidth")


def peak(n_gpus: float = 1e5) -> float:
    return n_gpus * float(get("peak_flops", gpu="h100-sxm"))


def tokens_per_second() -> float:
    cube = fleetcube.evaluate(["tokens_per_step", "compute_time"], **HEALTHY)
    return float(cube.tokens_per_step / cube.compute_time)


def compute_days() -> float:
    cube = fleetcube.evaluate(["compute_time", "training_steps"], **HEALTHY)
    return float(cube.compute_time * cube.training_steps) / DAY


def state_bytes(stage: int) -> float:
    """Bytes of training state of one parameter on each of 64 data-parallel ranks."""
    names = ["weights_memory", "gradients_memory", "optimizer_memory"]
    cube = fleetcube.evaluate(names, parameters=1e9, n_gpus=64, zero_stage=stage)
    return sum(float(cube[name]) for name in names) / 1e9


def bubble(name: str, **layout: Any) -> float:
    inputs = {**LAYOUT, "sequence_parallel": True, "recompute": "full", **layout}
    return float(get(name, **inputs))


def recovering(model: str) -> float:
    return 100 * float(
        get("recovery_overhead", recovery_time="20 min", cluster_mtbf="2 h", goodput_model=model)
    )


CLAIMS = (
    Claim(
        "2.1",
        "100,000 H100: nodes, peak, and 40 % of it",
        Verdict.REPRODUCES,
        (
            plain("12,500", "nodes", lambda: get("nodes", n_gpus=1e5)),
            plain("~100 ~40", "EFLOP/s", lambda: [peak() / 1e18, 0.4 * peak() / 1e18], "98.9 39.6"),
        ),
    ),
    Claim(
        "2.2",
        "NVLink is 25 times as fast as InfiniBand NDR",
        Verdict.WRONG,
        (
            plain(
                "~25",
                "x",
                lambda: ratio("h100-sxm", "infiniband-ndr"),
                right="9",
                label="one direction of each",
            ),
            plain(
                "~25",
                "x",
                lambda: 2 * ratio("h100-sxm", "infiniband-ndr"),
                right="18",
                label="both directions over one",
            ),
        ),
        "Its own table has 900 GB/s and 400 Gbit/s.",
    ),
    Claim(
        "2.3",
        "Training state: bytes a parameter; of 1T and 175B parameters",
        Verdict.REPRODUCES,
        (
            plain("16", "B", lambda: get("state_bytes_per_parameter")),
            plain(
                "16 2.8",
                "TB",
                lambda: [get("state_bytes_per_parameter") * size for size in (1.0, 0.175)],
            ),
        ),
    ),
    Claim(
        "2.4",
        "Checkpoint of 1T parameters",
        Verdict.OTHERS,
        (
            other(
                "Fleet Foundations, 14 B a parameter",
                "16",
                "TB",
                lambda: get("checkpoint_size", 1e12, **TRILLION),
                right="14",
            ),
            convention(
                "checkpoint_bytes_per_parameter = 16",
                "16",
                "TB",
                lambda: get("checkpoint_size", 1e12, checkpoint_bytes_per_parameter=16, **TRILLION),
            ),
        ),
        "Gradients are in memory but not in a checkpoint.",
    ),
    Claim(
        "2.5",
        "GPUs of 80 GB that hold the state of 1T parameters",
        Verdict.REPRODUCES,
        (
            plain(
                "200", "GPUs", lambda: get("min_gpus_for_state", hbm_capacity="80 GB", **TRILLION)
            ),
        ),
    ),
    Claim(
        "2.6",
        "1T parameters at 40 %: tokens a second, a day; 15T tokens take",
        Verdict.REPRODUCES,
        (
            plain("6.7", "million", lambda: tokens_per_second() / 1e6),
            plain("576", "billion", lambda: DAY * tokens_per_second() / 1e9),
            plain("26", "d", compute_days),
            plain(
                "",
                "d",
                lambda: compute_days() / get("goodput", goodput_model="additive"),
                "33.8",
                "with the 77 % of Fleet Foundations",
            ),
        ),
    ),
    Claim(
        "2.7",
        "Global batch of 512 sequences of 8k tokens; a step takes",
        Verdict.REPRODUCES,
        (
            plain("4", "million", lambda: get("tokens_per_step", 1e6, **LAYOUT), label="tokens"),
            plain(
                "",
                "s",
                lambda: get("tokens_per_step", **LAYOUT) / tokens_per_second(),
                "0.63",
                "a step at that rate",
            ),
        ),
    ),
    Claim(
        "2.8",
        "Layout TP 8 x PP 16 x DP 781 = 99,968 GPUs, with 512 sequences",
        Verdict.ITSELF,
        (
            plain("781", "replicas", lambda: get("data_parallel", **LAYOUT)),
            own(
                "least batch of these replicas",
                "512",
                "sequences",
                lambda: get("data_parallel", **LAYOUT),
                right="781",
            ),
            own(
                "infeasible_reason",
                "feasible",
                "",
                lambda: get("infeasible_reason", **LAYOUT),
                right="batch_smaller_than_data_parallel",
            ),
            plain(
                "",
                "%",
                lambda: 100 * bubble("bubble_fraction", global_batch_size=781),
                "93.75",
                "bubble with a sequence for each",
            ),
            plain(
                "",
                "million tokens",
                lambda: bubble("tokens_per_step", global_batch_size=64 * 781) / 1e6,
                "409",
                "batch for 64 micro-batches, a bubble of 19 %",
            ),
        ),
        "781 replicas cannot share 512 sequences, and with one each 15/16 of the pipeline is idle.",
    ),
    Claim(
        "2.9",
        "Data parallelism sends 2 bytes a parameter each step",
        Verdict.CONVENTION,
        (
            plain(
                "2",
                "B",
                lambda: get("gradient_bytes_sent", **LAYOUT) / (1e12 / 128),
                right="3.99",
                label="sent by a GPU for each of its parameters",
            ),
            convention(
                "gradient_message",
                "2",
                "B",
                lambda: get("gradient_message", **LAYOUT) / (1e12 / 128),
            ),
            plain("", "GB", lambda: get("gradient_bytes_sent", 1e9, **LAYOUT), "31.2", "by a GPU"),
            plain(
                "",
                "s",
                lambda: get(
                    "data_parallel_all_reduce_time",
                    all_reduce="ring",
                    inter_node_latency=0,
                    **LAYOUT,
                ),
                "0.62",
                "at 50 GB/s",
            ),
        ),
        "It is the payload; a ring sends it almost twice, which takes as long as the step of 2.7.",
    ),
    Claim(
        "2.10",
        "50,000 h a node, 100,000 nodes: fleet MTBF",
        Verdict.WRONG,
        (
            plain(
                "0.5",
                "h",
                lambda: get("cluster_mtbf", HOUR, n_gpus=100_000, node_mttf="50_000 h"),
                right="4.0",
            ),
            origin(
                "50,000 h a GPU",
                "0.5",
                "h",
                lambda: get("cluster_mtbf", HOUR, n_gpus=100_000, nics_per_node=0),
            ),
            evidence(
                "rate of the Llama 3 405B run",
                "0.5",
                "h",
                lambda: get("cluster_mtbf", HOUR, n_gpus=100_000, reliability="llama-3-405b-run"),
                right="0.51",
            ),
        ),
        "There are 12,500 nodes; the number is right for 50,000 h a GPU, and in the field.",
    ),
    Claim(
        "2.11",
        "Bubble (S - 1) / (M + S - 1): 16 stages, 64 micro-batches",
        Verdict.REPRODUCES,
        (
            plain(
                "0.1899",
                "",
                lambda: get("bubble_fraction", pipeline_parallel=16, num_microbatches=64),
            ),
        ),
    ),
    Claim(
        "2.12",
        "20 minutes of recovery every 2 hours",
        Verdict.CONVENTION,
        (
            plain(
                "17",
                "%",
                lambda: recovering("exact"),
                right="15.4",  # 1 - exp(-1/6)
                label="failures strike while recovering too",
            ),
            convention("goodput_model = first_order", "17", "%", lambda: recovering("first_order")),
        ),
        "20/120 is the first order; 20/140 = 14.3 % if the 2 hours are time between recoveries.",
    ),
    Claim(
        "2.13",
        "A ring sends 2 (N - 1)/N of the data; a tree takes log N hops",
        Verdict.REPRODUCES,
        (
            plain(
                "1.998",
                "",
                lambda: (
                    get("gradient_bytes_sent", n_gpus=1024, **TRILLION)
                    / get("gradient_message", **TRILLION)
                ),
                label="1,024 GPUs",
            ),
            plain(
                "2",
                "x",
                lambda: (
                    double_binary_tree_all_reduce_time(0.0, 1024, 5e-6, 50e9)
                    / double_binary_tree_all_reduce_time(0.0, 32, 5e-6, 50e9)
                ),
                label="hops of 1,024 GPUs over those of 32",
            ),
        ),
    ),
    Claim(
        "2.14",
        "Writing 16 TB in one stream takes hours",
        Verdict.REPRODUCES,
        (
            plain(
                ">1",
                "h",
                lambda: get(
                    "checkpoint_write_time",
                    HOUR,
                    checkpoint_size="16 TB",
                    checkpoint_write_bandwidth="2 GB/s",
                ),
                right="2.2",
                label="at 2 GB/s",
            ),
        ),
    ),
    Claim(
        "2.15",
        "Tensor parallelism up to 8, what NVLink joins",
        Verdict.REPRODUCES,
        (
            plain(
                "8",
                "GPUs",
                lambda: get("tensor_parallel_ranks_per_node", node="dgx-h100", tensor_parallel=72),
                label="dgx-h100",
            ),
            plain(
                "",
                "GPUs",
                lambda: get(
                    "tensor_parallel_ranks_per_node", node="gb200-nvl72", tensor_parallel=72
                ),
                "72",
                "gb200-nvl72",
            ),
        ),
    ),
    Claim(
        "2.16",
        "MFU of 35-55 % at 10,000-100,000 GPUs",
        Verdict.REPRODUCES,
        (
            evidence(
                "Llama 3 405B, 380-430 TFLOP/s of 989",
                "35-55 35-55 35-55",
                "%",
                lambda: [100 * rate * 1e12 / peak(1) for rate in (380, 400, 430)],
                right="38.4 40.4 43.5",
            ),
            evidence("MegaScale, 12,288 GPUs", "~55", "%", cited(55.2), right="55.2"),
        ),
        "Llama 3, arXiv:2407.21783, table 4; Jiang et al. 2024 (MegaScale), arXiv:2402.15627.",
    ),
    Claim(
        "2.17",
        "ZeRO memory falls linearly with the data-parallel ranks: bytes a parameter on 64",
        Verdict.CONVENTION,
        (
            plain(
                "0.25 0.25",
                "B",
                lambda: [state_bytes(1), state_bytes(2)],
                right="4.19 2.22",  # 4 + 12/64, 2 + 14/64
                label="zero_stage = 1, 2",
            ),
            convention("zero_stage = 3", "0.25", "B", lambda: state_bytes(3)),
        ),
        "Only stage 3 shards everything: 4 + 12/d, 2 + 14/d, 16/d.",
    ),
)

DOCUMENT = Document(
    "100,000-GPU training cluster",
    "design of a cluster for models of 10^11 to 10^12 parameters",
    CLAIMS,
)
