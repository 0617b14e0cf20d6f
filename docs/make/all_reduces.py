"""Published all-reduce curves, their fits, and the generated catalog records and docs."""

import csv
from dataclasses import dataclass
from pathlib import Path

from fleetcube.calibration.calibration_file import about_fit, all_reduce_values, text
from fleetcube.calibration.fit import CollectiveFit, fit_collective
from fleetcube.calibration.nccl import measured, parse_log

from .text import DOCS, table

PAGE = DOCS / "calibrate.md"
CURVES = Path(__file__).with_suffix(".csv")
DATE = "2026-11-21"  # of the fits
# Labels of the catalog: title, scope, date.
RECORDS = {
    "aws-p4de": ("All-reduce of 2 AWS p4de nodes, 16 A100 80 GB", "inter", DATE),
    "aws-p5": ("All-reduce of 2 AWS p5 nodes, 16 H100", "inter", DATE),
    "aws-p6-b200": ("All-reduce of 4 AWS P6-B200 nodes, 32 B200", "inter", DATE),
    "coreweave-h100-sharp": ("All-reduce of 8 CoreWeave nodes, 64 H100, with SHARP", "inter", DATE),
    "coreweave-gb200-2-racks": ("All-reduce of 2 CoreWeave racks, 144 GB200", "inter", DATE),
    "coreweave-gb200": ("All-reduce of 20 CoreWeave racks, 1,440 GB200", "inter", DATE),
    "gb200-nvl72-rack": ("All-reduce in a rack of 72 GB200", "intra", DATE),
    "a100-nvlink-node": ("All-reduce in a node of 8 A100 SXM", "intra", DATE),
    "b200-nvlink-node": ("All-reduce in an AWS P6-B200 node of 8 B200", "intra", DATE),
}
_SYSTEMS = {
    "aws-p4de": "aws-p4de-2-nodes",
    "aws-p5": "aws-p5-2-nodes",
    "aws-p6-b200": "aws-p6-b200-4-nodes",
    "coreweave-h100-sharp": "coreweave-h100-8-nodes",
    "coreweave-gb200-2-racks": "gb200-2-racks",
    "coreweave-gb200": "gb200-20-racks",
    "gb200-nvl72-rack": "gb200-nvl72-1-rack",
    "a100-nvlink-node": "a100-sxm-1-node",
    "b200-nvlink-node": "aws-p6-b200-1-node",
}


@dataclass(frozen=True)
class Curve:
    """One published table: sizes [B] and times [us] out of place and, if given, in place."""

    system: str
    ranks: int
    gpus_per_node: int
    source: str
    where: str
    rows: tuple[tuple[int, float | None, float | None], ...]

    @property
    def log(self) -> str:
        share = 2 * (self.ranks - 1) / self.ranks
        lines = ["# Collective test starting: all_reduce_perf"]
        for size, *times in self.rows:
            cells = [f"{size:12d}  {size // 4:12d}     float     sum      -1"]
            for time in times:
                if time is not None:
                    bandwidth = size / time / 1e3
                    cells.append(f"{time:9.2f} {bandwidth:7.2f} {bandwidth * share:7.2f}      0")
            lines.append(" ".join(cells))
        return "\n".join(lines)

    def fit(self) -> CollectiveFit:
        return fit_collective(measured(parse_log(self.log), self.ranks))


def curves(path: Path = CURVES) -> dict[str, Curve]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    by_system = {}
    for system in dict.fromkeys(row["system"] for row in rows):
        own = [row for row in rows if row["system"] == system]
        by_system[system] = Curve(
            system,
            int(own[0]["ranks"]),
            int(own[0]["gpus_per_node"]),
            own[0]["source"],
            own[0]["where"],
            tuple(
                (
                    int(row["bytes"]),
                    float(row["out_of_place_us"]) if row["out_of_place_us"] else None,
                    float(row["in_place_us"]) if row["in_place_us"] else None,
                )
                for row in own
            ),
        )
    return by_system


def records() -> str:
    entries = [
        "# Calibrations. Of published all-reduces: t = a + 2 (n - 1) / n M / B + g sqrt(M);",
        "# between nodes, B is one GPU's share of its node. Of published training steps:",
        "# efficiencies under compute_model = roofline, for software, GPU and precision.",
        "# Written by `python -m docs.make`.",
    ]
    every = curves()
    for label, (title, scope, date) in RECORDS.items():
        curve = every[_SYSTEMS[label]]
        fit = curve.fit()
        values, errors = all_reduce_values(fit, scope, curve.gpus_per_node)
        about = {
            "title": title,
            "source": f"fitted by fleetcube calibrate to {curve.source}, {curve.where}",
            "date": date,
            "note": f"{fit.rows} times on {curve.ranks} ranks, median error "
            f"{100 * fit.median_error:.1f} %",
        }
        entries += ["", text(about, values, errors, about_fit(fit), label).rstrip("\n")]
    return "\n".join(entries) + "\n"


def section() -> str:
    """The table of docs/calibrate.md: the errors of the law on every published curve."""
    rows = []
    for curve in curves().values():
        fit = curve.fit()
        counts = str(curve.ranks), str(fit.rows)
        values = (
            f"{_measured(fit, 'latency', 1e6, 0)} us",
            f"{_measured(fit, 'bandwidth', 1e-9, 0)} GB/s",
            _measured(fit, "sqrt_coefficient", 1e9, 1),
        )
        errors = f"{100 * fit.median_error:.1f} %", f"{100 * fit.max_error:.0f} %"
        rows.append([curve.system, *counts, *values, *errors])
    head = ["system", "ranks", "times", "a", "B", "g", "median error", "largest"]
    return table(head, rows)


def _measured(fit: CollectiveFit, name: str, scale: float, digits: int) -> str:
    value, error = fit.values[name] * scale, fit.standard_errors[name] * scale
    return f"{value:.{digits}f} ± {error:.{digits}f}"
