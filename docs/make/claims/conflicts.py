"""Ten points on which the documents disagree: each reading is a name or an option here."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import blog, cluster, estimator, estimator_failures, foundations, tutorial
from .claim import HOUR, Figure, get, plain, record
from .cluster import LAYOUT, ratio

TUTORIAL, GUIDE = tutorial.DOCUMENT.name, estimator.DOCUMENT.name
DESIGN, APPENDIX = cluster.DOCUMENT.name, foundations.DOCUMENT.name
DOCUMENTS = (
    tutorial.DOCUMENT,
    estimator.DOCUMENT,
    cluster.DOCUMENT,
    foundations.DOCUMENT,
    blog.DOCUMENT,
)


@dataclass(frozen=True)
class Stand:
    """One reading: whose it is, the names that express it here, and its result."""

    who: str
    names: str  # quantities, inputs or options, separated by blanks; "name=value" for a choice
    figure: Figure


@dataclass(frozen=True)
class Conflict:
    title: str
    stands: tuple[Stand, ...]
    settled: str


def _gives(value: str, unit: str, compute: Any, label: str = "") -> Figure:
    return plain("", unit, compute, value, label)


def _stages(name: str, **inputs: Any) -> Any:
    return get(name, pipeline_parallel=16, num_microbatches=64, **inputs)


def _fleet(n_gpus: float, **inputs: Any) -> Any:
    return get("cluster_mtbf", HOUR, n_gpus=n_gpus, nics_per_node=0, **inputs)


def _losses(name: str, **inputs: Any) -> Any:
    """Checkpoints of 30 s, recoveries of 10 min, Young's interval; MTBF of a day and of 15 min."""
    return 100 * get(
        name,
        checkpoint_stall_time=30,
        recovery_time=600,
        cluster_mtbf=["24 h", "15 min"],
        checkpoint_policy="young",
        **inputs,
    )


def _ring(latency: Any, megabytes: float) -> Any:
    return 1e3 * get(
        "data_parallel_all_reduce_time",
        parameters=megabytes * 1e6 / 2,
        n_gpus=256,
        gpus_per_node=1,
        all_reduce="ring",
        inter_node_bandwidth=50e9,
        intra_node_bandwidth=450e9,
        inter_node_latency=latency,
    )


CONFLICTS = (
    Conflict(
        "Pipeline bubble",
        (
            Stand(GUIDE, "bubble_ratio", _gives("0.2344", "", lambda: _stages("bubble_ratio"))),
            Stand(
                DESIGN, "bubble_fraction", _gives("0.1899", "", lambda: _stages("bubble_fraction"))
            ),
            Stand(
                f"{DESIGN} (interleaved)",
                "virtual_stages",
                # 15 / (2 x 64 + 15)
                _gives(
                    "0.1049", "", lambda: _stages("bubble_fraction", virtual_stages=2), "2 chunks"
                ),
            ),
        ),
        "Both are right (16 stages, 64 micro-batches): idle over working time, and over the whole "
        "step. Fraction = ratio / (1 + ratio).",
    ),
    Conflict(
        "Bytes a parameter",
        (
            Stand(
                APPENDIX,
                "checkpoint_bytes_per_parameter gradient_storage=false",
                _gives("14", "TB", lambda: get("checkpoint_size", 1e12, parameters=1e12), "1T"),
            ),
            Stand(
                DESIGN,
                "gradient_storage=bf16",
                _gives("16", "B", lambda: get("state_bytes_per_parameter")),
            ),
            Stand(
                "Megatron-LM",
                "gradient_storage=fp32 gradient_storage=bf16_and_fp32",
                _gives(
                    "18 20",
                    "B",
                    lambda: get(
                        "state_bytes_per_parameter", gradient_storage=["fp32", "bf16_and_fp32"]
                    ),
                ),
            ),
        ),
        "A checkpoint holds 14 bytes; memory holds the gradients too, in one format or two.",
    ),
    Conflict(
        "Failures of a fleet",
        (
            Stand(
                DESIGN,
                "node_mttf",
                _gives(
                    "4.0", "h", lambda: _fleet(1e5, node_mttf="50_000 h"), "100,000 GPUs, its node"
                ),
            ),
            Stand(APPENDIX, "gpu_mttf", _gives("0.50", "h", lambda: _fleet(1e5), "100,000 GPUs")),
            Stand(
                GUIDE,
                "gpu_mttf",
                _gives(
                    "210", "h", lambda: _fleet(1e4, gpu_mttf="2_100_000 h"), "10,000 GPUs of 2.1 Mh"
                ),
            ),
            Stand(
                "Llama 3 405B run",
                "cluster_mtbf",
                _gives(
                    "0.51 5.07",
                    "h",
                    lambda: [
                        get("cluster_mtbf", HOUR, n_gpus=n, reliability="llama-3-405b-run")
                        for n in (1e5, 1e4)
                    ],
                    "100,000, 10,000 GPUs",
                ),
            ),
        ),
        "Rates are given for a GPU or for a node, never mixed; field data say 30,000-50,000 h of "
        "all causes for a GPU, so about 5 h at 10,000 GPUs and half an hour at 100,000.",
    ),
    Conflict(
        "NVLink over InfiniBand",
        (
            Stand(
                f"{GUIDE} (7-14)",
                "intra_node_bandwidth inter_node_bandwidth",
                _gives(
                    "9 18",
                    "x",
                    lambda: [
                        ratio("h100-sxm", "infiniband-ndr"),
                        ratio("b200-sxm", "infiniband-ndr"),
                    ],
                    "H100, B200 / NDR",
                ),
            ),
            Stand(
                f"{DESIGN} (25), {APPENDIX} (9)",
                "intra_node_bandwidth inter_node_bandwidth",
                _gives("9", "x", lambda: ratio("h100-sxm", "infiniband-ndr"), "H100 / NDR"),
            ),
        ),
        "Every bandwidth here is of one direction: 450 GB/s for NVLink 4, 50 GB/s for NDR.",
    ),
    Conflict(
        "What Young's interval is computed from",
        (
            Stand(
                f"{TUTORIAL} (60 s, then 141.2 s)",
                "checkpoint_stall_time",
                _gives(
                    "1.06 1.62",
                    "h",
                    lambda: get(
                        "young_interval",
                        HOUR,
                        n_gpus=1024,
                        checkpoint_stall_time=[60, 141.2],
                        **tutorial.SUPPLIES,
                    ),
                    "1,024 GPUs",
                ),
            ),
            Stand(
                f"{GUIDE} (30 s, then a flush of 5.12 s)",
                "checkpoint_mode=async checkpoint_stall_time minimum_checkpoint_interval",
                _gives(
                    "0.0041 5.12",
                    "s",
                    lambda: [
                        estimator_failures.asynchronous("checkpoint_stall_time"),
                        estimator_failures.asynchronous("minimum_checkpoint_interval"),
                    ],
                    "stall, least interval",
                ),
            ),
        ),
        "The interval follows from the time that training stops; the flush only bounds it from "
        "below.",
    ),
    Conflict(
        "How losses combine",
        (
            Stand(
                APPENDIX,
                "goodput_model=additive",
                _gives("77", "% kept", lambda: 100 * get("goodput", goodput_model="additive")),
            ),
            Stand(
                f"{TUTORIAL}, {GUIDE}",
                "goodput_model=first_order first_order_waste",
                _gives(
                    "3.33 92.5", "% lost", lambda: _losses("first_order_waste"), "MTBF 24 h, 15 min"
                ),
            ),
            Stand(
                "Daly 2006",
                "goodput_model=exact expected_slowdown",
                _gives(
                    "3.40 155.3",
                    "% more time",
                    lambda: _losses("expected_slowdown") - 100,
                    "MTBF 24 h, 15 min",
                ),
            ),
        ),
        "All three are offered and exact is the default. First order agrees within 0.2 points "
        "below 5 %, and is far off where failures crowd.",
    ),
    Conflict(
        "Communication or reliability",
        (
            Stand(
                f"{TUTORIAL} (reliability), {GUIDE} (both), {DESIGN} (the network)",
                "reliability_to_communication_ratio dominant_overhead",
                _gives(
                    "0.36 0.51",
                    "",
                    lambda: (tutorial.consistent_hours() / tutorial.placed_hours())[2:],
                    "the tutorial's job on 512, 1,024 GPUs",
                ),
            ),
        ),
        "It depends on size, failure rate and storage: see the sweep above.",
    ),
    Conflict(
        "Bandwidths of an H100",
        (
            Stand(
                f"{DESIGN}, {APPENDIX} (3.35 TB/s), {GUIDE} (2 TB/s)",
                "hbm_bandwidth",
                _gives("3.35", "TB/s", lambda: record("gpu", "h100-sxm", "hbm_bandwidth") / 1e12),
            ),
            Stand(
                f"{TUTORIAL}, {DESIGN}, {APPENDIX} (900 GB/s)",
                "intra_node_bandwidth",
                _gives(
                    "450", "GB/s", lambda: record("gpu", "h100-sxm", "intra_node_bandwidth") / 1e9
                ),
            ),
        ),
        "2 TB/s is an A100; 900 GB/s is both directions of NVLink and half of it sends.",
    ),
    Conflict(
        "Replicas and batch",
        (
            Stand(
                f"{DESIGN} (781 replicas, 512 sequences)",
                "infeasible_reason feasible",
                _gives(
                    "batch_smaller_than_data_parallel",
                    "",
                    lambda: get("infeasible_reason", **LAYOUT),
                ),
            ),
        ),
        "Points that cannot run are evaluated, marked with a reason, and hidden by "
        '`Settings(infeasible="exclude")`.',
    ),
    Conflict(
        "Latency",
        (
            Stand(
                APPENDIX,
                "inter_node_latency",
                _gives(
                    "560.4 2.59",
                    "ms",
                    lambda: np.array([_ring("5 us", 14_000), _ring("5 us", 1)]),
                    "ring of 256, 14 GB and 1 MB",
                ),
            ),
            Stand(
                f"{GUIDE} (left open), {TUTORIAL} (in the code only)",
                "inter_node_latency",
                _gives(
                    "557.8 0.04",
                    "ms",
                    lambda: np.array([_ring(0, 14_000), _ring(0, 1)]),
                    "the same without latency",
                ),
            ),
        ),
        "5 us for InfiniBand by default, 0 is allowed: it does not matter for gigabytes and is "
        "everything for a megabyte.",
    ),
)
