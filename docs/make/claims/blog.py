"""The blog "Why Training on 1,000 GPUs Is Harder Than You Think"."""

import math
from typing import Any

from fleetcube.kernels.laws.collectives import hierarchical_all_reduce_time, ring_all_reduce_time

from .claim import DAY, Claim, Document, Verdict, cited, convention, evidence, get, plain

SMALL: dict[str, Any] = {
    "model": "llama-2-7b",
    "node": "dgx-h100",
    "fabric": "infiniband-ndr",
    "training_tokens": 2e12,
}


def _rails(nodes: float) -> float:
    """All-reduce of 1 GB on H100 nodes with a rail of 50 GB/s for each GPU."""
    return float(hierarchical_all_reduce_time(1e9, nodes, 8, 0.0, 450e9, 0.0, 50e9))


def _gpu_days() -> float:
    return float(get("gpu_hours", 24, n_gpus=8, **SMALL))


def _speed_up() -> float:
    few, many = get("job_time", n_gpus=[8, 1024], **SMALL)
    return float(few / many)


CLAIMS = (
    Claim(
        "4.1",
        "A node fails with 1 %: that one of 128 does",
        Verdict.REPRODUCES,
        (
            plain(
                "72.37",
                "%",
                lambda: (
                    100
                    * get(
                        "failure_probability",
                        n_gpus=1024,
                        node_mttf=-DAY / math.log(0.99),
                        job_duration="1 d",
                    )
                ),
            ),
        ),
    ),
    Claim(
        "4.2",
        "A ring all-reduce of 128 nodes is at least 7 times as slow as of one",
        Verdict.CONVENTION,
        (
            plain(
                "7",
                "x",
                lambda: _rails(128) / _rails(1),
                right="2.28",  # 1 + (127/128 / 50) / (7 / 450)
                label="H100, a rail of 50 GB/s for each GPU",
            ),
            convention(
                "A100, one card of 50 GB/s for a node",
                "7",
                "x",
                lambda: (
                    ring_all_reduce_time(1e9, 1024, 0.0, 50e9)
                    / ring_all_reduce_time(1e9, 8, 0.0, 300e9)
                ),
            ),
            plain(
                "",
                "x",
                cited(5747.05 / 2597.739),
                "2.2",
                "measured, 4 nodes of 8 B200 over one, 1 GiB",
            ),
        ),
        "Nodes with a rail for each GPU lose far less (measured: ml-engineering, network).",
    ),
    Claim(
        "4.3",
        "torchelastic came with PyTorch 1.10",
        Verdict.WRONG,
        (plain("1.10", "", cited("1.9"), right="1.9"),),
        "TorchElastic has been part of PyTorch since 1.9 (pytorch.org/elastic).",
    ),
    Claim(
        "4.4",
        "A thousand GPUs pay only beyond 8,192 GPU-days",
        Verdict.UNSUPPORTED,
        (
            plain(
                "8192",
                "GPU-days",
                lambda: get("gpu_hours", 24, n_gpus=1024, job_time="8 d"),
                label="8 days of 1,024",
            ),
            plain("", "GPU-days", _gpu_days, "<8192", "a smaller job, 7B parameters and 2T tokens"),
            plain("", "x", _speed_up, ">64", "its speed-up on 1,024 GPUs over 8"),
            evidence(
                "it gains from them",
                "no",
                "",
                lambda: "yes" if _speed_up() > 64 else "no",
                right="yes",
            ),
        ),
        "A rule of thumb without a source; smaller jobs still finish far sooner on 1,024 GPUs.",
    ),
    Claim(
        "4.5",
        "A thousand GPUs are more than a hundred times eight",
        Verdict.REPRODUCES,
        (plain(">100", "x", lambda: get("nodes", n_gpus=1024), right="128"),),
    ),
)

DOCUMENT = Document(
    "1000-GPU training",
    'blog, "Why Training on 1,000 GPUs Is Harder Than You Think"',
    CLAIMS,
)
