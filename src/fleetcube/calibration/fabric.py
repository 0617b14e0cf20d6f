"""All-reduce times on an unmeasured fabric: the law of measured ones, applied to its data sheet.

t = a + W + c sqrt(a W): a start-up a, and the traffic W at a share of the data sheet's bandwidth.
With c = 2 it is the least time of a message cut into the best number of pieces, (sqrt(a) +
sqrt(W))^2, as of a pipelined chain (Sanders, Speck & Traeff 2009, section 2). It is the law of
`fit` with g sqrt(M) = c sqrt(a W), so a calibration can hold it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube.catalog import record
from fleetcube.grid.errors import InputError
from fleetcube.grid.spec.axis import Array

from .fit import law
from .nccl import factor

# Start-up of one node, and of one hop inside it, of NCCL's trees in short messages: baseLatencies
# and hwLatencies of NCCL 2.30 src/graph/tuning.cc, protocol LL
_BASE, _HOP = 6.8e-6, 0.6e-6
_ALIKE = 8  # ranks of a domain beyond which in-switch sums got no faster


@dataclass(frozen=True)
class Shares:
    """Parameters common to measured fabrics. Fitted by docs/make/all_reduces.py.

    `alone` and `per_hop` multiply NCCL's start-up inside a node, and the fabric's latency; `cloud`
    is that latency [s] if the data sheet has none. `ring`, `reducing` and `nic` are shares of
    the data sheet's bandwidth. `startup_spread` and `wire_spread` are standard deviations of the
    logarithms over fabrics, `noise` that of times about the law.
    """

    alone: float
    per_hop: float
    cloud: float
    ring: float
    reducing: float
    nic: float
    startup_spread: float
    wire_spread: float
    noise: float
    widening: float  # of 90 % intervals, as fabrics held out of the fit needed


# docs.make.fabrics.shares() of the published curves, compared by a test
MEASURED = Shares(
    alone=2.78718,
    per_hop=1.46574,
    cloud=4.48274e-05,
    ring=0.792588,
    reducing=0.699109,
    nic=0.987276,
    startup_spread=0.36702,
    wire_spread=0.1486,
    noise=0.08,
    widening=1.99285,
)
_INSIDE, _ACROSS = 1.0, 2.0  # c inside one domain, and between domains


@dataclass(frozen=True)
class Sheet:
    """Data sheet of a group: ranks, domains (nodes, or racks of one NVLink), bandwidths [B/s].
    `node` and `nic` are per GPU and direction; `reducing`: the domain's switches sum; `latency` [s]
    is the fabric's, None if not published."""

    ranks: int
    domains: int
    node: float
    nic: float
    reducing: bool
    latency: float | None

    @property
    def per_domain(self) -> float:
        return self.ranks / self.domains

    @property
    def mixed(self) -> float:
        """c of the law: pieces are pipelined between domains, and less so inside one."""
        return _INSIDE if self.domains == 1 else _ACROSS

    @property
    def ring_seconds(self) -> float:
        """Seconds per byte of a ring inside the domains, at full bandwidth."""
        return factor("all_reduce", self.ranks) / self.node

    @property
    def reducing_seconds(self) -> float:
        """Seconds per byte of in-switch sums in a domain (see collectives.nvls_all_reduce_time).
        Beyond _ALIKE ranks no faster than at _ALIKE, as observed in racks of 72."""
        size = self.per_domain
        share = factor("all_reduce", self.ranks) / factor("all_reduce", _ALIKE)
        return max((size + 1) / size, share * (_ALIKE + 1) / _ALIKE) / self.node

    @property
    def nic_seconds(self) -> float:
        """Seconds per byte between domains: each of two sends M, of more 2 (n - 1) / n M."""
        crossed = 1.0 if self.domains == 2 else factor("all_reduce", self.ranks)
        return crossed / (self.nic * self.per_domain)

    @property
    def inside(self) -> bool:
        """True if links inside domains are slower, by the data sheet, than those between them."""
        seconds = self.reducing_seconds if self.reducing else self.ring_seconds
        return self.domains == 1 or seconds >= self.nic_seconds

    def startup(self, shares: Shares) -> float:
        """Time of an empty all-reduce [s]: trees inside the domains, and between them."""
        inside = _BASE + 2 * _HOP * (self.per_domain - 1)
        if self.domains == 1:
            return shares.alone * inside
        hop = shares.cloud if self.latency is None else self.latency
        return inside + 2 * math.log2(self.domains) * shares.per_hop * hop

    def seconds_per_byte(self, shares: Shares) -> float:
        """Seconds per byte of the slowest links that the best algorithm uses."""
        inside = self.ring_seconds / shares.ring
        if self.reducing:
            inside = min(inside, self.reducing_seconds / shares.reducing)
        across = self.nic_seconds / shares.nic if self.domains > 1 else 0.0
        return max(inside, across)


@dataclass(frozen=True)
class Unmeasured:
    """The all-reduce law of a fabric without measurements, with its interval."""

    sheet: Sheet
    shares: Shares = MEASURED

    @property
    def values(self) -> dict[str, float]:
        """Coefficients of `fit.law`: latency [s], bandwidth [B/s], sqrt_coefficient [s/B^0.5]."""
        startup, wire = self.sheet.startup(self.shares), self.sheet.seconds_per_byte(self.shares)
        return {
            "latency": startup,
            "bandwidth": factor("all_reduce", self.sheet.ranks) / wire,
            "sqrt_coefficient": self.sheet.mixed * math.sqrt(startup * wire),
        }

    def times(self, sizes: Any) -> Array:
        return law(sizes, factor("all_reduce", self.sheet.ranks), self.values)

    def spread(self, sizes: Any) -> Array:
        """Standard deviation of the log times: from start-up, traffic and the law's noise."""
        message, values = np.asarray(sizes, dtype=float), self.values
        half = values["sqrt_coefficient"] * np.sqrt(message) / 2
        times = self.times(message)
        startup, wire = (values["latency"] + half) / times, 1 - (values["latency"] + half) / times
        variance = (self.shares.startup_spread * startup) ** 2 + (
            self.shares.wire_spread * wire
        ) ** 2
        return np.asarray(np.sqrt(variance + self.shares.noise**2))

    def interval(self, sizes: Any) -> tuple[Array, Array]:
        """Ends of the 90 % interval of the times [s]."""
        times = self.times(sizes)
        width = np.exp(self.shares.widening * self.spread(sizes))
        return times / width, times * width

    def calibration(self) -> dict[str, Any]:
        """Calibration inputs for scenarios with groups like this one."""
        scope = "intra" if self.sheet.domains == 1 else "inter"
        share = 1.0 if scope == "intra" else self.sheet.per_domain
        values = self.values
        return {
            "all_reduce": "fitted",
            f"{scope}_node_latency": values["latency"],
            f"{scope}_node_bandwidth": values["bandwidth"] / share,
            "sqrt_coefficient": values["sqrt_coefficient"],
            "network_efficiency": 1.0,  # the bandwidth is already the achieved one
        }


def sheet_of(node: str, fabric: str, ranks: int, nodes: int = 1) -> Sheet:
    """The data sheet of `ranks` GPUs over `nodes` nodes (or racks of one NVLink), by labels. Raises
    InputError for ranks that do not fill the nodes equally, CatalogError for labels."""
    if not (isinstance(nodes, int) and nodes >= 1):
        raise InputError(f"nodes = {nodes!r} is not a whole number from 1; give how many there are")
    if not (isinstance(ranks, int) and ranks >= 2 and ranks % nodes == 0):
        raise InputError(
            f"ranks = {ranks!r} is not a whole number from 2 that nodes = {nodes} divides; "
            "give the GPUs of the group"
        )
    machine, network = record("node", node).values, record("fabric", fabric).values
    link: dict[str, Any] = {**record("gpu", str(machine["gpu"])).values, **machine}
    return Sheet(
        ranks,
        nodes,
        link["intra_node_bandwidth"],
        network["inter_node_bandwidth"],
        bool(link.get("node_reduction", False)),
        network.get("inter_node_latency"),
    )


def unmeasured(node: str, fabric: str, ranks: int, nodes: int = 1) -> Unmeasured:
    """The all-reduce of `ranks` GPUs over `nodes` nodes (or racks) by labels of the catalog."""
    return Unmeasured(sheet_of(node, fabric, ranks, nodes))
