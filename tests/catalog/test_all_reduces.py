"""Published curves are fitted as promised, and the catalog and docs contain those fits."""

import pytest

import fleetcube
from docs.make.all_reduces import _SYSTEMS, RECORDS, curves, records
from docs.make.calibrate import PAGE, page
from docs.make.training import CATALOG
from fleetcube.catalog import record

CURVES = curves()


def test_all_curves_are_there() -> None:
    assert len(CURVES) == 9
    assert sum(len(curve.rows) for curve in CURVES.values()) == 108


@pytest.mark.parametrize("system", CURVES)
def test_the_law_fits_every_published_curve(system: str) -> None:
    fit = CURVES[system].fit()
    assert fit.dropped == {}
    assert fit.median_error <= 0.07


def test_the_docs_hold_the_errors() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.make docs/calibrate.md`"


def test_the_catalog_holds_the_fits() -> None:
    assert CATALOG.read_text(encoding="utf-8").startswith(records() + "\n")


@pytest.mark.parametrize("label", RECORDS)
def test_a_label_computes_the_published_times(label: str) -> None:
    # The ranks of the curve as one data-parallel group, one bucket of gradients of each size.
    curve = CURVES[_SYSTEMS[label]]
    node = "dgx-b200" if "b200" in label else "dgx-h100"
    node = "gb200-nvl72" if "gb200" in label else node
    rows = [row for row in curve.rows if row[0] >= 1 << 20]
    cube = fleetcube.evaluate(
        "data_parallel_all_reduce_time",
        model="llama-3-8b",
        node=node,
        fabric="infiniband-ndr",
        n_gpus=curve.ranks,
        calibration=label,
        intra_node_bandwidth=record("calibration", label).values.get("intra_node_bandwidth", 1e15),
        bucket_bytes=[float(size) for size, *_ in rows],
    )
    assert cube.sizes["bucket_bytes"] == len(rows)
    errors = [abs(float(time) * 1e6 / row[1] - 1) for time, row in zip(cube, rows, strict=True)]
    assert sorted(errors)[len(errors) // 2] < 0.12
