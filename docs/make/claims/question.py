"""Communication or reliability? A sweep answers, and the tutorial's own numbers."""

import tomllib
from functools import cache
from typing import Any

import numpy as np

import fleetcube
from fleetcube import Settings

from ..text import ROOT
from . import tutorial
from .claim import get

EXAMPLE = ROOT / "examples" / "scaling-and-reliability.toml"
SIZES = [64, 256, 1024, 4096, 16384]
FAILING = ["10_000 h", "50_000 h"]
STORED = ["10 GB/s", "100 GB/s", "1 TB/s"]
LAYOUTS = {"labels": ["1 stage", "8 stages"], "pipeline_parallel": [1, 8]}
SHARES = ["communication_overhead", "reliability_overhead", "reliability_to_communication_ratio"]


@cache
def swept(fine: bool = False) -> Any:
    """The example's job on InfiniBand NDR: ratios over size x failures x storage x layout."""
    scenario = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))["scenario"]
    sizes: Any = {"geomspace": [SIZES[0], SIZES[-1]], "num": 2049} if fine else SIZES
    axes = {
        "n_gpus": sizes,
        "gpu_mttf": FAILING,
        "checkpoint_write_bandwidth": STORED,
        "layout": LAYOUTS,
    }
    scenario["fabric"] = "infiniband-ndr"
    return fleetcube.Sweep(scenario, axes, SHARES).evaluate(settings=Settings("numpy"))


def crossover(sizes: Any, ratios: Any) -> float:
    """The size beyond which a ratio stays above 1, between the sizes; infinite if there is none."""
    below = np.flatnonzero(~(ratios > 1))
    if below.size == 0:
        return float(sizes[0])
    k = int(below[-1])
    if k + 1 == len(sizes):
        return float("inf")
    (x0, x1), (y0, y1) = np.log(sizes[k : k + 2]), np.log(ratios[k : k + 2])
    return float(np.exp(x0 - y0 * (x1 - x0) / (y1 - y0)))


def crossovers() -> Any:
    """That size for every failure rate, storage and layout."""
    ratios = swept(fine=True)[SHARES[-1]].transpose(..., "n_gpus")
    sizes = np.apply_along_axis(lambda row: crossover(ratios.n_gpus.values, row), -1, ratios.values)
    return ratios.isel(n_gpus=0, drop=True).copy(data=sizes)


def tutorial_rows() -> list[dict[str, float]]:
    """Hours of 30 days: as printed, as its rules give, and placed and charged consistently."""
    columns = {
        "packed": tutorial.packed_hours(),
        "mixed": tutorial.mixed_hours(),
        "placed": tutorial.placed_hours(),
        "consistent": tutorial.consistent_hours(),
        "with restarts": tutorial.consistent_hours(recovers=True),
    }
    return [
        {"n_gpus": n, **{name: float(row[k]) for name, row in columns.items()}}
        for k, n in enumerate(tutorial.COMPARED)
    ]


@cache
def tutorial_crossover(bandwidth: str) -> float:
    """Where reliability costs the tutorial's job more, if checkpoints are written at that rate."""
    sizes = np.geomspace(64, 1e6, 4001)
    lost = 1 - get(
        "goodput",
        n_gpus=sizes,
        goodput_model="exact",
        **{
            **tutorial.LLAMA,
            "checkpoint_write_bandwidth": bandwidth,
            "checkpoint_read_bandwidth": bandwidth,
        },
    )
    return crossover(sizes, lost * tutorial.MONTH / tutorial.placed_hours(sizes))
