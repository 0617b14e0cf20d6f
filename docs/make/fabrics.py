"""Coefficients shared by measured fabrics, and their errors on held-out fabrics."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from fleetcube.calibration.fabric import MEASURED, Shares, Sheet, Unmeasured, sheet_of

from .all_reduces import Curve, curves
from .text import table

OTHERS = Path(__file__).with_suffix(".csv")  # only sizes 4^k where a source has more
SMALL = 1 << 22  # bytes: only curves with messages this small determine a start-up
_LEAST = 1 << 17  # bytes: smaller messages of aws-p6-b200-4-nodes have one digit
_HUBER = 0.1
_NOISE = 0.08  # least scatter of times about the law: its misfit of whole curves
_QUANTILE = 1.645

# Fabric (a cluster stays whole), node and fabric of the catalog, GB/s of a GPU's NIC if other
_SYSTEMS: dict[str, tuple[str, str, str, float | None]] = {
    "aws-p4de-2-nodes": ("aws-p4de", "dgx-a100", "efa-p4d", None),
    "aws-p5-2-nodes": ("aws-p5", "aws-p5", "efa-p5", None),
    "aws-p6-b200-1-node": ("aws-p6-b200", "aws-p6-b200", "efa-p6-b200", None),
    "aws-p6-b200-4-nodes": ("aws-p6-b200", "aws-p6-b200", "efa-p6-b200", None),
    "coreweave-h100-8-nodes": ("coreweave-h100", "dgx-h100", "infiniband-ndr", None),
    "gb200-nvl72-1-rack": ("coreweave-gb200", "gb200-nvl72", "infiniband-ndr", None),
    "gb200-2-racks": ("coreweave-gb200", "gb200-nvl72", "infiniband-ndr", None),
    "gb200-20-racks": ("coreweave-gb200", "gb200-nvl72", "infiniband-ndr", None),
    "a100-sxm-1-node": ("a100-node", "dgx-a100", "infiniband-hdr", None),
    "azure-nd-a100-v4-1-node": ("a100-node", "dgx-a100", "infiniband-hdr", None),
    "dgx-h100-1-node": ("h100-node", "dgx-h100", "infiniband-ndr", None),
    "azure-nd-h100-v5-1-node": ("h100-node", "dgx-h100", "infiniband-ndr", None),
    "azure-nd-h200-v5-1-node": ("h100-node", "dgx-h200", "infiniband-ndr", None),
    "gcp-a3-mega-2-nodes": ("gcp-a3-mega", "gcp-a3-mega", "gcp-tcpxo", None),
    "gcp-a4-2-nodes": ("gcp-a4", "dgx-b200", "roce-400g", None),
    "crusoe-a100-2-nodes": ("crusoe-a100", "dgx-a100", "infiniband-hdr", None),
    "dell-h100-2-nodes": ("dell-h100", "dgx-h100", "infiniband-ndr", None),
    "dell-h100-4-nodes": ("dell-h100", "dgx-h100", "infiniband-ndr", None),
    "oci-a100-2-nodes": ("oci-a100", "dgx-a100", "roce-100g", 25.0),
    "oci-gb200-2-racks": ("oci-gb200", "gb200-nvl72", "roce-400g", None),
    "nebius-h100-2-nodes": ("nebius-h100", "dgx-h100", "infiniband-ndr", None),
    "nebius-h200-2-nodes": ("nebius-h200", "dgx-h200", "infiniband-ndr", None),
    "together-h100-2-nodes": ("together-h100", "dgx-h100", "infiniband-ndr", None),
}


@dataclass(frozen=True)
class System:
    """A published curve with its data sheet, and the law's start-up and traffic fitted to it.

    `sizes` [B] and `times` [s] are in and out of place; `startup` [s], `wire` [s/B] of this curve.
    """

    name: str
    fabric: str
    sheet: Sheet
    sizes: Any
    times: Any
    startup: float
    wire: float

    @property
    def tells_startup(self) -> bool:
        return float(self.sizes.min()) <= SMALL


def _system(name: str, curve: Curve) -> System:
    fabric, node, network, nic = _SYSTEMS[name]
    sheet = sheet_of(node, network, curve.ranks, curve.ranks // curve.gpus_per_node)
    if nic is not None:
        sheet = replace(sheet, nic=nic * 1e9)
    least = _LEAST if name == "aws-p6-b200-4-nodes" else 0
    points = [(m, t * 1e-6) for m, *ts in curve.rows for t in ts if t and m >= least]
    sizes, times = np.array(points, dtype=float).T

    def misses(logs: Any) -> Any:
        startup, wire = np.exp(logs[0]), np.exp(logs[1]) * sizes
        mixed = sheet.mixed * np.sqrt(startup * wire)
        return np.log((startup + wire + mixed) / times)

    start = [math.log(times.min()), math.log((times / sizes).min())]
    startup, wire = np.exp(least_squares(misses, start, loss="soft_l1", f_scale=_HUBER).x)
    return System(name, fabric, sheet, sizes, times, float(startup), float(wire))


@cache
def systems() -> tuple[System, ...]:
    every = curves() | curves(OTHERS)
    return tuple(_system(name, every[name]) for name in _SYSTEMS)


def fitted(train: Sequence[System]) -> Shares:
    """Shared coefficients: medians over fabrics of the log mean over each one's curves."""
    unit = Shares(1, 1, 1, 1, 1, 1, 0, 0, 0, 0)

    def median(of: Callable[[System], float], among: Iterable[System]) -> float:
        by_fabric: dict[str, list[float]] = {}
        for system in among:
            by_fabric.setdefault(system.fabric, []).append(math.log(of(system)))
        return math.exp(np.median([np.mean(logs) for logs in by_fabric.values()]))

    def hop(system: System) -> float:
        """Latency of a hop between domains [s]: the start-up less its part inside them."""
        inside = system.sheet.startup(replace(unit, per_hop=0.0))
        rest = max(system.startup - inside, 0.1 * system.startup)
        return rest / (2 * math.log2(system.sheet.domains))

    across = [x for x in train if x.sheet.domains > 1]
    small = [x for x in train if x.tells_startup]
    rings = [x for x in train if not x.sheet.reducing and x.sheet.inside]
    sums = [x for x in train if x.sheet.reducing and x.sheet.inside]
    stated = [x for x in small if x.sheet.domains > 1 and x.sheet.latency]
    shares = replace(
        unit,
        alone=median(
            lambda x: x.startup / x.sheet.startup(unit), [x for x in small if x.sheet.domains == 1]
        ),
        per_hop=median(lambda x: hop(x) / (x.sheet.latency or math.nan), stated),
        ring=min(median(lambda x: x.sheet.ring_seconds / x.wire, rings), 1.0),
        reducing=min(median(lambda x: x.sheet.reducing_seconds / x.wire, sums), 1.0),
    )
    unstated = [x for x in small if x.sheet.domains > 1 and x.sheet.latency is None]
    shares = replace(shares, cloud=median(hop, unstated) / shares.per_hop)
    crossed = [x for x in across if not x.sheet.inside]
    shares = replace(shares, nic=min(median(lambda x: x.sheet.nic_seconds / x.wire, crossed), 1.0))
    starts = [math.log(x.startup / x.sheet.startup(shares)) for x in train if x.tells_startup]
    wires = [math.log(x.wire / x.sheet.seconds_per_byte(shares)) for x in train]
    return replace(
        shares,
        startup_spread=float(np.sqrt(np.mean(np.square(starts)))),
        wire_spread=float(np.sqrt(np.mean(np.square(wires)))),
        noise=_NOISE,
        widening=_QUANTILE,
    )


@dataclass(frozen=True)
class Miss:
    """A held-out system: logarithms of predicted over measured times, and their spread."""

    system: System
    logs: Any
    spread: Any

    @property
    def sizes(self) -> Any:
        return self.system.sizes


@cache
def left_out() -> tuple[Miss, ...]:
    misses = []
    for fabric in dict.fromkeys(x.fabric for x in systems()):
        shares = fitted([x for x in systems() if x.fabric != fabric])
        for system in (x for x in systems() if x.fabric == fabric):
            law = Unmeasured(system.sheet, shares)
            logs = np.log(law.times(system.sizes) / system.times)
            misses.append(Miss(system, logs, law.spread(system.sizes)))
    return tuple(misses)


def widening(misses: Sequence[Miss]) -> float:
    """Multiple of spreads that covers 90 % of the times, fabrics weighted equally (conformal)."""
    sizes = {
        f: sum(len(x.logs) for x in misses if x.system.fabric == f)
        for f in {x.system.fabric for x in misses}
    }
    ratios = np.concatenate([np.abs(x.logs) / x.spread for x in misses])
    weights = np.concatenate([np.full(len(x.logs), 1 / sizes[x.system.fabric]) for x in misses])
    order = np.argsort(ratios)
    share = np.cumsum(weights[order]) / weights.sum()
    return float(ratios[order][np.searchsorted(share, 0.9)])


def covered() -> float:
    """Share of the times inside intervals widened as the other fabrics needed."""
    inside: list[Any] = []
    for miss in left_out():
        others = [x for x in left_out() if x.system.fabric != miss.system.fabric]
        inside.append(np.abs(miss.logs) <= widening(others) * miss.spread)
    return float(np.concatenate(inside).mean())


def shares() -> Shares:
    every = replace(fitted(systems()), widening=widening(left_out()))
    return Shares(*(float(f"{value:.6g}") for value in vars(every).values()))


_RANGES = {
    "under 64 KiB": (0, 1 << 16),
    "64 KiB to 16 MiB": (1 << 16, 1 << 24),
    "16 to 256 MiB": (1 << 24, 1 << 28),
    "256 MiB and more": (1 << 28, 1 << 60),
}


def _row(name: str, chosen: Sequence[tuple[Miss, Any]]) -> list[str]:
    """A row of the page's table, for the chosen times of systems."""
    logs = np.concatenate([miss.logs[keep] for miss, keep in chosen])
    spread = np.concatenate([miss.spread[keep] for miss, keep in chosen])
    sizes = 100 * np.abs(np.expm1(logs))
    inside = np.abs(logs) <= MEASURED.widening * spread
    return [
        name,
        str(len(logs)),
        f"{sizes.mean():.1f} %",
        f"{np.median(sizes):.1f} %",
        f"x {np.exp(np.quantile(np.abs(logs), 0.9)):.2f}",
        f"{100 * inside.mean():.0f} %",
        f"x {np.exp(np.median(MEASURED.widening * spread)):.2f}",
    ]


def section() -> str:
    """The table of docs/calibrate.md: held-out fabrics, by size and by system."""
    misses = left_out()
    every = [(miss, miss.sizes >= 0) for miss in misses]
    rows = [_row("all", every)]
    for name, (low, high) in _RANGES.items():
        rows.append(_row(name, [(x, (x.sizes >= low) & (x.sizes < high)) for x in misses]))
    rows += [_row(miss.system.name, [(miss, keep)]) for miss, keep in every]
    head = ["left out", "times", "mean", "median", "90 % within", "inside", "half the interval"]
    return table(head, rows)
