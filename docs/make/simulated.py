"""Closed forms of goodput against the Monte Carlo at random scenarios: docs/simulated.md."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

import fleetcube
from fleetcube import Settings

from .text import DOCS, filled, table

PAGE = DOCS / "simulated.md"
Array = np.ndarray
TRIALS = 200
WITHIN = 2.576  # standard errors: a 99 % interval
FLEET: dict[str, Any] = {
    "model": "llama-3-70b",
    "node": "dgx-h100",
    "fabric": "infiniband-ndr",
    "calibration": "none",
    "sparing": "hot",
    "recovery_model": "kinds",
    "corruption_detection": "late",
}
DRAWN: dict[str, Any] = {
    "n_gpus": {"geomspace": [256, 65536], "round": True},
    "gpu_mttf": {"geomspace": ["10_000 h", "200_000 h"]},
    "software_mttf": {"geomspace": ["5_000 h", "100_000 h"]},
    "in_process_share": [0.0, 0.2, 0.4],
    "in_job_share": [0.0, 0.3],
    "requeue_share": [0.0, 0.1, 0.2],
    "requeue_time": {"geomspace": ["5 min", "2 h"]},
    "detection_time": {"geomspace": ["10 s", "10 min"]},
    "reinit_time": {"geomspace": ["30 s", "15 min"]},
    "provision_time": {"geomspace": ["1 min", "2 h"]},
    "spare_nodes": [0, 1, 4, 16],
    "repair_time": {"geomspace": ["1 h", "1 d"]},
    "node_pool": ["open", "open", "closed", "closed_idle_safe"],
    "checkpoint_policy": ["young", "daly", "exact", "fixed"],
    "fixed_checkpoint_interval": {"geomspace": ["2 min", "2 h"]},
    "checkpoint_write_bandwidth": {"geomspace": ["2 GB/s", "1 TB/s"]},
    "silent_corruption_mttf": [1e30, "500_000 h", "5_000_000 h"],
    "corruption_latency": ["0 s", "1 h", "6 h"],
}
# One tier, whose checkpoints may be unreadable, and several
HALVES: tuple[dict[str, Any], ...] = (
    {
        "checkpoint_mode": ["sync", "async", "in_memory"],
        "corruption_probability": [0.0, 0.0, 0.02, 0.1],
    },
    {
        "checkpoint_mode": ["tiered"],
        "memory_tier_survival": [0.0, 0.5, 0.8],
        "drive_tier_survival": [0.0, 0.95],
        "tier_stall_share": [0.0, 0.5, 1.0],
        "memory_tier": ["peer", "host"],
    },
)
HALF = 512  # scenarios of each


# Reasons for a gap, of which the first that holds counts, with the law's Range
REASONS: dict[str, str] = {
    "late corruption in a closed pool": "`hidden_wait_time`: how soon a pool forgets that it was "
    "whole is interpolated, and corruptions are taken to be few among the failures",
    "a closed pool": "`whole_cluster_probability`: the share is within 0.13 r^2 of that of nodes "
    "that fail one by one, r = repair time over a node's lifetime",
    "spares of an open pool": "`wait_for_node`: whether a spare is at hand is drawn anew at "
    "each failure",
    "late corruption, flushes": "`unsafe_time`: a corruption leaves the snapshot under way "
    "readable, whose flush is counted as lost",
    "kinds of failures in tiers": "`tiered_delay`: copies under way, and recoveries of several "
    "kinds, count as one recovery time",
    "none of these": "exact, where failures come at random",
}


@cache
def scenarios() -> list[dict[str, Any]]:
    """Records of random scenarios, with closed-form and simulated results."""
    rows = []
    for seed, half in enumerate(HALVES):
        drawn = {**DRAWN, **half}
        axis = {"design": "sobol", "num": HALF, "seed": seed, **drawn}
        grid: dict[str, Any] = {**FLEET, "scenario": axis}
        exact = fleetcube.evaluate(["goodput", "cluster_mtbf"], settings=Settings("numpy"), **grid)
        found = fleetcube.simulate(trials=TRIALS, **grid)
        for k in range(HALF):
            row = {name: exact[name].values[k] for name in drawn}
            row |= {name: float(exact[name][k]) for name in exact.data_vars}
            row |= {"error": float(found.goodput_error[k]), "simulated": float(found.goodput[k])}
            row["gap"] = row["goodput"] - row["simulated"]
            rows.append({**row, "reason": reason(row)})
    return rows


def reason(row: dict[str, Any]) -> str:
    """The property of a scenario for which the closed form is not exact."""
    late = row["silent_corruption_mttf"] < 1e20
    tiered = row["checkpoint_mode"] == "tiered"
    names = iter(REASONS)
    for holds in (
        late and row["corruption_latency"] > 0 and row["node_pool"] != "open",
        row["node_pool"] != "open",
        row["spare_nodes"] > 0,
        late and (row["checkpoint_mode"] == "async" or (tiered and row["tier_stall_share"] < 1)),
        tiered,
    ):
        name = next(names)
        if holds:
            return name
    return next(names)


def _shares(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Scenarios, those inside the interval, and quantiles of the gap."""
    played = [row for row in rows if np.isfinite(row["gap"])]
    gaps = np.array([abs(row["gap"]) for row in played])
    inside = np.mean([abs(row["gap"]) <= WITHIN * row["error"] for row in played])
    quantiles = [f"{np.quantile(gaps, share):.4f}" for share in (0.5, 0.95, 1.0)]
    return [f"{len(played)}", f"{inside:.1%}".replace("%", " %"), *quantiles]


def page() -> str:
    rows = scenarios()
    given_up = [row for row in rows if not np.isfinite(row["gap"])]
    played = [row for row in rows if np.isfinite(row["gap"])]
    head = ("scenarios", "inside 99 %", "median gap", "95 %", "largest")
    whole = _shares(rows)
    introduction = filled(
        f"{len(rows):,} scenarios are drawn, by a Sobol sequence, over cluster sizes, lifetimes, "
        "kinds of failures, recovery times, intervals and their policies, tiers of checkpoints, "
        "spares and corruption that is found late. Each is computed by the closed forms of goodput "
        f"and simulated, {TRIALS} jobs of a hundred failures and more ([`simulate`]"
        "(command-line.md)). The gap is goodput less that of the Monte Carlo, and inside is what "
        f"is within {WITHIN} of its standard errors, as 99 of 100 are where both agree. "
        f"{whole[1]} are; the median gap is {whole[2]}, and 95 of 100 are below {whole[3]}."
    )
    lost = filled(
        f"{len(given_up)} scenarios were given up after a million failures; the largest goodput "
        f"that the closed forms have for one of them is "
        f"{max((row['goodput'] for row in given_up), default=0.0):.2g}. Many scenarios are far "
        "from any real cluster: the interval does not hide a gap there, and the tables show it."
    )
    by_reason = [
        [name, *_shares(group), said]
        for name, said in REASONS.items()
        if (group := [row for row in played if row["reason"] == name])
    ]
    by_option = [
        [f"`{name}`", _shown(value), *_shares([row for row in played if row.get(name) == value])]
        for name in (
            *("checkpoint_mode", "checkpoint_policy", "node_pool", "spare_nodes"),
            *("corruption_latency", "corruption_probability", "memory_tier_survival"),
            *("drive_tier_survival", "tier_stall_share"),
        )
        for value in sorted({row[name] for row in played if name in row})
    ]
    worst = sorted(played, key=lambda row: -abs(row["gap"]))[:12]
    cells = [
        [
            f"{row['n_gpus']:,.0f}",
            f"{row['cluster_mtbf'] / 3600:.2f}",
            row["checkpoint_mode"],
            f"{row['provision_time'] / 60:.0f}",
            f"{row['goodput']:.4f}",
            f"{row['simulated']:.4f} ± {WITHIN * row['error']:.4f}",
            row["reason"],
        ]
        for row in worst
    ]
    columns = (
        "GPUs",
        "MTBF, h",
        "checkpoints",
        "provision, min",
        "closed form",
        "simulated",
        "why",
    )
    parts = [
        "# Closed forms and simulated jobs",
        introduction,
        lost,
        "## By what the closed form leaves out",
        filled(
            "Each scenario counts under the first that holds for it. The last column is the Range "
            "of the law in the [reference](reference/quantities.md)."
        ),
        table(("set", *head, "Range"), by_reason, " rrrrr"),
        "## By option",
        table(("option", "value", *head), by_option, "  rrrrr"),
        "## The largest gaps",
        table(columns, cells, "rr rrr"),
        filled("`python -m docs.make docs/simulated.md` writes this page, in about a minute."),
    ]
    return "\n\n".join(parts) + "\n"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"
