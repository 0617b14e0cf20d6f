"""All-reduces of fabrics without measurements: the law, its shares, its errors on others."""

import math

import numpy as np
import pytest

import fleetcube
from docs.make.fabrics import covered, left_out, shares, systems
from fleetcube.calibration.fabric import MEASURED, Shares, Sheet, Unmeasured, unmeasured
from fleetcube.catalog import CatalogError, record

from .common import cases, on_h100, refused

EXACT = Shares(1, 1, 20e-6, 1, 1, 1, 0, 0, 0, 0)  # the data sheet itself


def test_the_shares_are_those_of_the_published_curves() -> None:
    found = vars(shares())
    assert vars(MEASURED) == {name: pytest.approx(found[name], rel=1e-4) for name in found}
    assert max(MEASURED.ring, MEASURED.reducing, MEASURED.nic) <= 1  # none above its data sheet


def test_a_message_is_cut_into_the_best_pieces_between_nodes() -> None:
    # Two nodes of 8: 1 GB once over 8 x 25 GB/s; 6.8 + 7 x 1.2 us inside, 2 x 10 us between
    law = Unmeasured(Sheet(16, 2, 300e9, 25e9, False, 10e-6), EXACT)
    startup, wire = 35.2e-6, 1e9 * 1.875 / 300e9  # the ring inside, slower than 1 / 200 s
    assert float(law.times(1e9)) == pytest.approx((math.sqrt(startup) + math.sqrt(wire)) ** 2)
    # Four nodes: a ring crosses 2 x 31 / 32 times, and log2(4) = 2 levels; no latency is stated
    wider = Unmeasured(Sheet(32, 4, 300e9, 25e9, False, None), EXACT).values
    assert wider["bandwidth"] == pytest.approx(200e9)
    assert wider["latency"] == pytest.approx(15.2e-6 + 4 * 20e-6)


def test_sums_in_switches() -> None:
    eight = Unmeasured(Sheet(8, 1, 450e9, 50e9, True, None), EXACT).values
    assert eight["bandwidth"] == pytest.approx(450e9 * 14 / 9)  # M (n + 1) / n at 450 GB/s
    rack = Unmeasured(Sheet(72, 1, 450e9, 50e9, True, None), EXACT).values
    assert rack["bandwidth"] == pytest.approx(eight["bandwidth"])


@cases(
    "node, fabric, ranks, nodes, size, busbw",
    # published by stas00/ml-engineering, and among no curve of docs/make
    ("dgx-h200", "infiniband-ndr", 5, 1, 1 << 33, 414.2e9),
    ("dgx-h200", "infiniband-ndr", 8, 1, 1 << 33, 473.1e9),
    ("dgx-b200", "infiniband-ndr", 6, 1, 1 << 33, 778.2e9),
    ("dgx-b200", "infiniband-ndr", 8, 1, 1 << 33, 838.0e9),
    ("aws-p5en", "efa-p5en", 32, 4, 1 << 32, 364.87e9),
)
def test_other_published_bandwidths(
    node: str, fabric: str, ranks: int, nodes: int, size: int, busbw: float
) -> None:
    law = unmeasured(node, fabric, ranks, nodes)
    seconds = 2 * (ranks - 1) / ranks * size / busbw
    low, high = law.interval(size)
    assert low < seconds < high
    assert float(law.times(size)) == pytest.approx(seconds, rel=0.2)


def test_fabrics_left_out() -> None:
    logs = np.abs(np.concatenate([miss.logs for miss in left_out()]))
    large = np.concatenate([system.sizes >= 1 << 28 for system in systems()])
    assert len({system.fabric for system in systems()}) == 16
    assert np.median(np.expm1(logs)) < 0.14
    assert np.median(np.expm1(logs[large])) < 0.08
    assert 0.8 < covered() < 0.95


def test_it_is_a_calibration() -> None:
    law = unmeasured("dgx-h100", "infiniband-ndr", 512, 64)
    given = on_h100(n_gpus=512, bucket_message=[1e6, 1e9], calibration="none", **law.calibration())
    cube = fleetcube.evaluate("data_parallel_all_reduce_time", **given)
    assert cube.values == pytest.approx(law.times([1e6, 1e9]))
    inside = unmeasured("dgx-h100", "infiniband-ndr", 8)
    assert inside.calibration()["intra_node_bandwidth"] == inside.values["bandwidth"]


def test_bad_groups_are_refused() -> None:
    refused(r"ranks = 12 .* nodes = 8 divides", unmeasured, "dgx-h100", "infiniband-ndr", 12, 8)
    refused("nodes = 0 is not a whole number", unmeasured, "dgx-h100", "infiniband-ndr", 8, 0)
    with pytest.raises(CatalogError, match="infiniband-ndr"):
        unmeasured("dgx-h100", "infiniband-ndrr", 16, 2)
    assert "inter_node_latency" not in record("fabric", "efa-p5").values  # hence `cloud`
