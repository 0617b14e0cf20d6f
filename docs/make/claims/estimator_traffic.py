"""The guide of the AI job completion estimator: gradients, collectives, bubbles, scaling."""

from typing import Any

import numpy as np

import fleetcube
from fleetcube.kernels.laws.collectives import (
    all_to_all_time,
    double_binary_tree_all_reduce_time,
    nvls_all_reduce_time,
    ring_all_reduce_time,
    ring_tree_crossover_bytes,
)

from .claim import Claim, Verdict, cited, convention, evidence, get, origin, plain, record

GPT3 = {"parameters": 175e9}
TRAFFIC: dict[str, Any] = {
    "model": "llama-3-70b",
    "node": "dgx-h100",
    "fabric": "infiniband-ndr",
    "tensor_parallel": 8,
}


def gradients(bytes_each: float) -> float:
    return float(get("gradient_message", gradient_bytes_per_element=bytes_each, **GPT3))


def sent(bytes_each: float) -> float:
    """Bytes that each of 1,024 GPUs sends to exchange whole gradients."""
    return float(
        get("gradient_bytes_sent", n_gpus=1024, gradient_bytes_per_element=bytes_each, **GPT3)
    )


def exchange(bytes_each: float, **layout: Any) -> float:
    """Time of that exchange at 400 Gbit/s for each GPU."""
    return float(
        get(
            "data_parallel_all_reduce_time",
            n_gpus=1024,
            gpus_per_node=1,
            intra_node_bandwidth=450e9,
            inter_node_bandwidth=50e9,
            inter_node_latency=0,
            all_reduce="ring",
            gradient_bytes_per_element=bytes_each,
            **GPT3,
            **layout,
        )
    )


def bubble(name: str, micro_batches: float = 64, **inputs: Any) -> Any:
    return get(name, pipeline_parallel=16, num_microbatches=micro_batches, **inputs)


def _bubble_of_runs() -> float:
    """Share of the time idle in a run of 10,000 steps over that in one of 500."""
    tokens = get("tokens_per_step")
    cube = fleetcube.evaluate(
        ["bubble_overhead", "training_steps"],
        n_gpus=1024,
        pipeline_parallel=16,
        num_microbatches=64,
        model="gpt-3-175b",
        gpu="h100-sxm",
        fabric="infiniband-ndr",
        training_tokens=[500 * float(tokens), 10_000 * float(tokens)],
    )
    assert float(cube.training_steps[1]) > float(cube.training_steps[0])
    short, long = np.broadcast_to(cube.bubble_overhead, 2)
    return float(long / short)


def _hidden_and_its_ratio() -> tuple[float, float]:
    """Gradient traffic that is hidden whole: what is exposed, and the guide's overlap ratio."""
    cube = fleetcube.evaluate(
        ["exposed_data_parallel_time", "data_parallel_time", "step_time"],
        n_gpus=64,
        data_parallel_overlap=1,
        calibration="none",
        **TRAFFIC,
    )
    hidden = cube.exposed_data_parallel_time - cube.data_parallel_time
    return float(cube.exposed_data_parallel_time), float(hidden / cube.step_time)


def _speed_up(**grown: Any) -> float:
    """Job time on 512 GPUs over that on 1,024."""
    few = get("job_time", n_gpus=512, global_batch_size=1024, **TRAFFIC)
    many = get("job_time", n_gpus=1024, **{"global_batch_size": 1024, **grown}, **TRAFFIC)
    return float(few / many)


def _nvlink() -> Any:
    labels = ("h100-sxm", "b200-sxm")
    return np.array([record("gpu", label, "intra_node_bandwidth") for label in labels])


def _tree_is_for_small() -> str:
    """Whether a double tree beats a ring of 1,024 below the crossover, and loses above it."""
    size = ring_tree_crossover_bytes(1024, 5e-6, 50e9)
    wins = [
        double_binary_tree_all_reduce_time(scale * size, 1024, 5e-6, 50e9)
        < ring_all_reduce_time(scale * size, 1024, 5e-6, 50e9)
        for scale in (0.5, 2)
    ]
    return "yes" if wins == [True, False] else "no"


def _mfu_of_a_node() -> float:
    return float(get("mfu", n_gpus=8, recompute=False, flops_counting="parameters", **TRAFFIC))


CLAIMS = (
    Claim(
        "1.1",
        "175 billion parameters: FP16 gradients of a step",
        Verdict.WRONG,
        (
            plain("~700", "GB", lambda: gradients(2) / 1e9, right="350"),
            origin("FP32", "~700", "GB", lambda: gradients(4) / 1e9),
        ),
        "FP16 takes two bytes each; 700 GB is FP32.",
    ),
    Claim(
        "1.2",
        "A ring of 1,024 GPUs: each sends and receives, for these gradients",
        Verdict.WRONG,
        (
            plain("1.37", "GB", lambda: sent(4) / 1e9, right="1398.6", label="of its 700 GB"),
            plain("1.37", "GB", lambda: sent(2) / 1e9, right="699.3", label="of 350 GB"),
            origin("2 M / n", "1.37", "GB", lambda: 2 * gradients(4) / 1024 / 1e9),
        ),
        "2 (n - 1)/n x M was divided by n once more: a thousand times too little.",
    ),
    Claim(
        "1.3",
        "27 ms for that exchange at 400 Gbit/s",
        Verdict.WRONG,
        (
            plain("0.027", "s", lambda: exchange(4), right="28.0", label="of 700 GB"),
            plain("0.027", "s", lambda: exchange(2), right="14.0", label="of 350 GB"),
            plain(
                "",
                "s",
                lambda: exchange(2, tensor_parallel=8, pipeline_parallel=16),
                "0.096",  # 2 x 7/8 x 350 GB / 128 / 50 GB/s
                "of a shard, 8 tensor x 16 pipeline ranks",
            ),
        ),
        "It follows from 1.2; real jobs share the model out first.",
    ),
    Claim(
        "1.4",
        "Pipeline bubble (P - 1) / M: 16 stages, 64 micro-batches",
        Verdict.CONVENTION,
        (
            plain(
                "0.2344", "", lambda: bubble("bubble_fraction"), right="0.1899", label="of the step"
            ),
            convention("bubble_ratio", "0.2344", "", lambda: bubble("bubble_ratio")),
        ),
        "It is the idle time over the working time; as a share of the step see 2.11.",
    ),
    Claim(
        "1.5",
        "Bubbles amortise: under 0.1 % in 10,000 steps, 3 % in 500 with 16 stages",
        Verdict.WRONG,
        (
            plain("<0.033", "", _bubble_of_runs, right="1.0", label="share in 10,000 over in 500"),
            origin(
                "500 taken for micro-batches", "3", "%", lambda: 100 * bubble("bubble_ratio", 500)
            ),
        ),
        "The bubble comes back in every step, whatever their number.",
    ),
    Claim(
        "1.10",
        "Ring all-reduce 2 (P - 1) (a + N / (P b)): 8 GPUs, 8 GB, 1 ms, 50 GB/s",
        Verdict.REPRODUCES,
        (plain("0.294", "s", lambda: ring_all_reduce_time(8e9, 8, 1e-3, 50e9)),),
    ),
    Claim(
        "1.11",
        "NVLink of H100 and B200 over a 400 Gbit/s link",
        Verdict.WRONG,
        (
            plain(
                "7 14",
                "x",
                lambda: _nvlink() / record("fabric", "infiniband-ndr", "inter_node_bandwidth"),
                right="9 18",
                label="one direction of each",
            ),
            origin(
                "both directions over both of PCIe 5 x16",
                "7 14",
                "x",
                lambda: 2 * _nvlink() / 128e9,
            ),
        ),
        "7 and 14 are the ratios to PCIe 5; a 400 Gbit/s link has 50 GB/s.",
    ),
    Claim(
        "1.12",
        "NVLink SHARP divides what each GPU sends by the size of the domain, 8",
        Verdict.WRONG,
        (
            plain(
                "8",
                "x",
                lambda: (
                    ring_all_reduce_time(8e9, 8, 0.0, 450e9)
                    / nvls_all_reduce_time(8e9, 8, 0.0, 450e9)
                ),
                right="1.56",  # 2 (n - 1) / (n + 1)
            ),
            evidence(
                "measured: 8 H200, 8 B200",
                "8 8",
                "x",
                cited([480.0 / 367.2, 838.0 / 682.2]),
                right="1.31 1.23",
            ),
        ),
        "Each GPU still sends its buffer once and reads its share, 2 (n - 1)/(n + 1) less than a "
        "ring. Measured: bus bandwidth by default over that of a ring (ml-engineering, network).",
    ),
    Claim(
        "1.13",
        "All-reduce of 175 billion gradients in a node at 600 GB/s takes under 1 ms",
        Verdict.WRONG,
        (
            plain(
                "<1 <1",
                "ms",
                lambda: [
                    1e3 * double_binary_tree_all_reduce_time(gradients(size), 8, 0.0, 600e9)
                    for size in (2, 4)
                ],
                right="1,167 2,333",
                label="its 2 M / B; FP16, FP32",
            ),
        ),
        "Its own formula gives seconds.",
    ),
    Claim(
        "1.14",
        "NCCL chooses among Ring for large, Tree for medium, Direct for small messages",
        Verdict.WRONG,
        (
            plain(
                "yes",
                "",
                _tree_is_for_small,
                label="tree wins below, ring above a crossover",
            ),
            plain("3", "", cited(7), right="7", label="algorithms of NCCL 2.30"),
        ),
        "NCCL 2.30 (src/graph/tuning.cc) has Tree, Ring, CollNetDirect, CollNetChain, NVLS, "
        "NVLSTree and PAT, each with LL, LL128 or Simple; none is called Direct or SIM.",
    ),
    Claim(
        "1.29",
        "Overlap ratio (T_async - T_blocking) / T_step: negative means network-bound",
        Verdict.WRONG,
        (
            plain(
                ">0",
                "",
                lambda: _hidden_and_its_ratio()[1],
                right="<0",
                label="of traffic that is hidden whole",
            ),
            plain("", "s", lambda: _hidden_and_its_ratio()[0], "0.00", "exposed of it"),
        ),
        "Overlap never adds time, so the ratio is never positive; what counts is "
        "exposed = max(0, traffic - overlap x window).",
    ),
    Claim(
        "1.30",
        "Dense models hit the sync wall at 512-2,048 GPUs on 400G",
        Verdict.UNSUPPORTED,
        (
            evidence(
                "sync_wall_gpus, Llama 3 70B, 2,048 sequences",
                "512-2048",
                "GPUs",
                lambda: get("sync_wall_gpus", n_gpus=1024, global_batch_size=2048, **TRAFFIC),
                right=">16384",
            ),
            evidence(
                "in use: MegaScale, Llama 3",
                "512-2048 512-2048",
                "GPUs",
                cited([12_288, 16_384]),
                right="12,288 16,384",
            ),
        ),
        "No model or measurement is given; runs of 12,288 and 16,384 GPUs had 55 % and 38-43 % MFU "
        "(Jiang et al. 2024; Llama 3, arXiv:2407.21783).",
    ),
    Claim(
        "1.31",
        "All-to-all grows with the square of the GPUs: twice the GPUs, four times",
        Verdict.CONVENTION,
        (
            plain(
                "~4",
                "x",
                lambda: all_to_all_time(1e9, 128, 0.0, 50e9) / all_to_all_time(1e9, 64, 0.0, 50e9),
                right="1.01",
                label="bytes of each GPU, 64 to 128",
            ),
            plain(
                "~4",
                "x",
                lambda: (
                    all_to_all_time(0.0, 128, 1e-6, 50e9) / all_to_all_time(0.0, 64, 1e-6, 50e9)
                ),
                right="2.02",
                label="messages of each GPU",
            ),
            convention(
                "messages of all GPUs",
                "~4",
                "x",
                lambda: (
                    2 * all_to_all_time(0.0, 128, 1e-6, 50e9) / all_to_all_time(0.0, 64, 1e-6, 50e9)
                ),
                right="4.03",
            ),
        ),
        "Only the count of all messages is quadratic; the time of each GPU is not.",
    ),
    Claim(
        "1.32",
        "Speed-up can be super-linear, since larger clusters allow larger batches",
        Verdict.UNSUPPORTED,
        (
            evidence(
                "twice the GPUs, same batch",
                ">2",
                "x",
                _speed_up,
                right="<2",
            ),
            evidence(
                "twice the GPUs, twice the batch, same tokens",
                ">2",
                "x",
                lambda: _speed_up(global_batch_size=2048),
                right="<2",
            ),
        ),
        "A step gains nothing of the sort; a batch that needs fewer tokens is a matter of "
        "convergence, for which the guide gives no figure.",
    ),
    Claim(
        "1.33",
        "Utilisation under 70 % means communication-bound, over 85 % compute-bound",
        Verdict.CONVENTION,
        (
            plain(
                "compute_bound",
                "",
                lambda: get("utilization_reading", utilization_efficiency=_mfu_of_a_node()),
                right="communication_bound",
                label="read as MFU, one node that hardly waits",
            ),
            convention(
                "least over expected time, 69 % and 86 %",
                "communication_bound compute_bound",
                "",
                lambda: get("utilization_reading", utilization_efficiency=[0.69, 0.86]),
            ),
        ),
        "It holds for ideal over actual time (utilization_efficiency), not for MFU.",
    ),
)
