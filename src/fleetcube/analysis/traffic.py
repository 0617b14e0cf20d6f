"""Which traffic of a job crosses which tier of its network."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError

KINDS = ("tensor", "context", "expert", "data", "pipeline")
_SIZES = ("scale_up_gpus", "leaf_gpus", "pod_gpus", "site_gpus")
_RATES = ("scale_up_bandwidth", "leaf_bandwidth", "rail_bandwidth", "pod_bandwidth")
NAMES = (
    *("job_gpus", *_SIZES, *_RATES),
    *(f"{kind}_parallel_tier" for kind in KINDS),
    *(f"{kind}_parallel_time" for kind in KINDS),
)
TIMES = ("step_time", "step_time_low", "step_time_high")
SITES = ("site_link_bandwidth", "site_parallel_time")


@dataclass(frozen=True)
class Tier:
    """One level of the network: how many GPUs it joins, and each GPU's bandwidth into it."""

    name: str
    gpus: float
    bandwidth: float


@dataclass(frozen=True)
class Crossing:
    """One kind of traffic: the highest tier that it crosses, and its time in a step."""

    kind: str
    tier: int  # index in the list of tiers; -1 if none
    seconds: float


def names_of(spec: Mapping[str, Any]) -> list[str]:
    """The quantities that `crossings` needs from a spec."""
    given = {**spec.get("scenario", {}), **spec.get("axes", {})}
    return [*NAMES, *(SITES if "site_bandwidth" in given else ())]


def crossings(point: Mapping[str, Any] | Any) -> tuple[list[Tier], list[Crossing]]:
    """The tiers of a job's network, from the node up, and the traffic that crosses them. `point`
    has NAMES at one point, and SITES if there are several sites."""
    for name in NAMES:
        if np.ndim(point[name]):
            raise InputError(f"{name} has several values; cut its axes to one point (axis=value)")
    sizes = [float(point[name]) for name in _SIZES]
    rates = [float(point[name]) for name in _RATES]
    (node, leaf, pod, site), job = sizes, float(point["job_gpus"])
    levels = [Tier("node", node, rates[0]), Tier("leaf switch", leaf, rates[1])]
    levels += [Tier("pod" if pod < site else "fabric", pod, rates[2])]
    levels += [Tier("between pods", site, rates[3])]
    # tiers above leaf switches that contain the whole job carry nothing
    present = [True, node < min(leaf, site), node < pod and leaf < site, pod < site]
    used = [place for place, exists in enumerate(present) if exists]
    traffic = []
    for kind in KINDS:
        tier = int(point[f"{kind}_parallel_tier"]) - 1
        # a missing tier is replaced by the next higher one
        place = next((n for n, k in enumerate(used) if k >= tier), len(used) - 1)
        seconds = float(point[f"{kind}_parallel_time"])
        traffic.append(Crossing(kind, place if tier >= 0 else -1, seconds))
    tiers = [levels[place] for place in used]
    if SITES[0] in point and job > site:
        rate = float(point[SITES[0]]) / site
        tiers.append(Tier("between sites", job, rate))
        seconds = float(point[SITES[1]])
        traffic.append(Crossing("sites", len(tiers) - 1, seconds))
    return tiers, traffic


def duration(seconds: float, digits: int) -> str:
    """A time of a step in seconds or milliseconds."""
    return f"{seconds:.{digits}g} s" if seconds >= 0.1 else f"{seconds * 1e3:.{digits}g} ms"
