"""Comparison with calculon line by line: agreements, differences, and which tool is right."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from fleetcube.calibration.measurements import read_records
from fleetcube.calibration.validate import validate

from .peers import calculon as peer
from .tables import Table

CHECKOUT = "CALCULON"
MISSING = f"Skipped: {CHECKOUT} must be the path of a checkout of its repository."
COLUMNS = {
    "quantity": "quantity",
    "exact": "agree to 1e-6",
    "close": "to 1e-2",
    "median": "median ratio",
    "largest": "furthest ratio",
    "unexplained": "unexplained",
    "difference": "difference",
    "points": "where",
    "share": "at most",
    "right": "right",
    "why": "why",
}
TOLERANCE = 1e-6


def run(quick: bool) -> Table:
    """The table; only a note without a checkout or if the peer cannot be run."""
    title = "Beside calculon, line by line"
    checkout = os.environ.get(CHECKOUT)
    if checkout is None:
        return Table(title, COLUMNS, [], (MISSING,), failed=True)
    points = peer.draw(40 if quick else 400)
    try:
        theirs = peer.theirs(points, Path(checkout).resolve())
    except (RuntimeError, ValueError) as error:
        return Table(title, COLUMNS, [], (f"Skipped: {error}",), failed=True)
    cases = list(map(peer.Case, points, peer.ours(points), theirs))
    rows = [row for line in peer.LINES for row in judge(line, cases)]
    explained: set[str] = set()
    for row in rows:
        if row.get("why") in explained:
            row["why"] = "as above"
        elif "why" in row:
            explained.add(row["why"])
    notes = (
        f"{len(cases)} random configurations (GPT-like models; tensor, pipeline and data "
        "parallelism, chunks, recompute, sequence parallelism, scattered sends, ZeRO-1), one "
        "machine without latency for both. Ratios are calculon's number over fleetcube's. A "
        "difference is a formula of the configuration; a line is explained where all of its "
        "differences together leave less than 1e-6 of the larger number. At most: the largest "
        "share of the larger number that a difference makes.",
    )
    return Table(title, COLUMNS, rows, notes, failed=any(row.get("unexplained") for row in rows))


PUBLISHED = "korthikanti_table5"
MODELS = ("megatron-22B", "gpt3-175B", "turing-530B", "megatron-1T")
MODES = {"full": "full", "selective": "seqsel"}  # fleetcube's names of rows, calculon's of files
TIMES = {
    "model": "model",
    "recompute": "recompute",
    "measured": "measured, s",
    "theirs": "calculon, s",
    "theirs_off": "off, %",
    "ours": "fleetcube, s",
    "ours_off": "off, %",
}


def published(quick: bool) -> Table:
    """Step times of a published table by both tools, each with its A100 efficiencies."""
    title = "Beside calculon, on measured steps"
    folder = os.environ.get(CHECKOUT)
    if folder is None:
        return Table(title, TIMES, [], (MISSING,), failed=True)
    checkout = Path(folder).resolve()

    def read(path: str) -> Any:
        return json.loads((checkout / path).read_text(encoding="utf-8"))

    points = [(k, model, mode) for k, model in enumerate(MODELS) for mode in MODES]
    try:
        configurations = [
            (
                read(f"models/{model}.json"),
                read(f"validation/seqsel/tab5/{model}_{MODES[mode]}.json"),
            )
            for _, model, mode in points
        ]
        theirs = peer.ask(checkout, read("systems/a100_80g.json"), configurations)
    except (OSError, RuntimeError, ValueError) as error:
        return Table(title, TIMES, [], (f"Skipped: {error}",), failed=True)
    records, left = read_records()
    ours = {
        row.id: row for row in validate([r for r in records if r.group == PUBLISHED], left).rows
    }
    rows = []
    for (k, model, mode), other in zip(points, theirs, strict=True):
        row = ours[f"{PUBLISHED}/{k:03}:{mode}"]
        rows.append(
            {
                "model": model,
                "recompute": mode,
                "measured": row.measured,
                "theirs": other["total_time"],
                "theirs_off": 100 * (other["total_time"] / row.measured - 1),
                "ours": row.predicted,
                "ours_off": 100 * row.error,
            }
        )
    means = [sum(abs(row[key]) for row in rows) / len(rows) for key in ("theirs_off", "ours_off")]
    note = (
        "Korthikanti et al. 2022, table 5, which calculon's authors validate on. Both tools have "
        "efficiencies of an A100 that were fitted to measurements, fleetcube's to this table among "
        f"others. Mean of the errors' sizes: calculon {means[0]:.2f} %, fleetcube {means[1]:.2f} %."
    )
    return Table(title, TIMES, rows, (note,))


def judge(line: peer.Line, cases: Sequence[peer.Case]) -> Iterator[dict[str, Any]]:
    """The rows of one quantity: the agreement of the tools, then each difference found."""
    pairs = [(line.ours(case), line.theirs(case)) for case in cases]
    off = [abs(b - a) / max(abs(a), abs(b)) if a != b else 0.0 for a, b in pairs]
    ratios = [b / a for a, b in pairs if a and b]
    head = {
        "quantity": line.quantity,
        "exact": sum(deviation <= TOLERANCE for deviation in off),
        "close": sum(deviation <= 1e-2 for deviation in off),
        "median": median(ratios),
        "largest": max(ratios, key=lambda ratio: max(ratio, 1 / ratio)),
        "unexplained": sum(line.left(case) > TOLERANCE for case in cases),
    }
    differences = []
    for difference in line.differences:
        amounts = [
            abs(difference.amount(case)) / max(abs(a), abs(b))
            for case, (a, b) in zip(cases, pairs, strict=True)
            if a or b
        ]
        met = [amount for amount in amounts if amount > 1e-12]
        if met:
            differences.append(
                {
                    "difference": difference.name,
                    "points": len(met),
                    "share": max(met),
                    "right": difference.right,
                    "why": difference.why,
                }
            )
    first, *rest = differences or [{}]
    yield head | first
    yield from rest
