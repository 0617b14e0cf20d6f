"""The generated part of docs/accuracy.md: errors by group, peers, and what is left out."""

import functools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetcube.grid.records import read_records
from fleetcube.grid.validate import Accuracy, Validation, validate

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
PICTURE = PAGE.with_suffix(".png")
_BEGIN, _END = "<!-- measured -->\n", "<!-- end -->\n"


@dataclass(frozen=True)
class Peer:
    """What another tool's authors report of their own predictions, in per cent."""

    group: str
    tool: str
    mean: float
    about: str


PEERS = (
    Peer(
        "korthikanti_table5",
        "calculon",
        3.65,
        "8 points, at most 8.87 %; Isaev et al. 2023 (SC23), and validation.py of "
        "https://github.com/calculon-ai/calculon",
    ),
    Peer(
        "vtrain_multi",
        "vTrain",
        14.73,
        "all of its points on several nodes; Bang et al. 2024 (MICRO), arXiv:2312.12391",
    ),
    Peer(
        "simumax_b200",
        "SimuMax",
        5.19,
        "29 points, median 5.57 %, at most 11.66 %; the errors that docs/b200 of "
        "https://github.com/MooreThreads/SimuMax prints for version 1.2",
    ),
)


@functools.cache
def own() -> Validation:
    """The validation on the project's own tables."""
    return validate(*read_records())


def page() -> str:
    """docs/accuracy.md as it should be."""
    held = PAGE.read_text(encoding="utf-8")
    head, _, rest = held.partition(_BEGIN)
    sources = dict.fromkeys((row.group, row.source) for row in read_records()[0])
    return head + _BEGIN + tables(own(), sources) + _END + rest.partition(_END)[2]


def tables(found: Validation, sources: Iterable[tuple[str, str]]) -> str:
    """All that follows from the measurements: errors, peers, sources, what is left out."""
    parts = [
        f"{len(found.rows):,} measurements are compared; {len(found.left_out):,} records are left "
        "out, with the reasons below.",
        f"![Measured over predicted values]({PICTURE.name})",
    ]
    for of in dict.fromkeys(group.of for group in found.groups):
        parts += [f"### `{of}`", _errors([group for group in found.groups if group.of == of])]
    groups = {group.group for group in found.groups}
    peers = [f"- {p.tool} on {p.group}: {p.mean} %: {p.about}" for p in PEERS if p.group in groups]
    if peers:
        parts += ["What others report of their own predictions:", "\n".join(peers)]
    told = [f"- {group}: {source}" for group, source in sources if group in groups]
    parts += ["### Sources", "\n".join(told), "### Left out", _left_out(found)]
    return "\n\n".join(parts) + "\n"


def _errors(groups: Sequence[Accuracy]) -> str:
    head = ["group", "n", "mean", "median", "largest", "bias", "rank", "covered"]
    head += ["dummy, mean", "dummy, median", "others, mean"]
    rows = []
    for group in groups:
        errors = (group.mean_percent, group.median_percent, group.max_percent, group.bias_percent)
        peers = [f"{p.tool} {p.mean} %" for p in PEERS if p.group == group.group]
        rows.append(
            [
                group.group,
                str(group.n),
                *(_shown(value, "z.1f", " %") for value in errors),
                _shown(group.rank_correlation, ".3f"),
                _shown(group.coverage, ".0%"),
                _shown(group.dummy_mean_percent, "z.1f", " %"),
                _shown(group.dummy_median_percent, "z.1f", " %"),
                ", ".join(peers) if group.of == "step_time" else "",
            ]
        )
    told = [k for k in range(len(head)) if {row[k] for row in rows} - {"", "-"}]
    return _table([head[k] for k in told], [[row[k] for k in told] for row in rows])


def _shown(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None or math.isnan(value) else format(value, form) + unit


def _left_out(found: Validation) -> str:
    counts = Counter((record.group, record.reason) for record in found.left_out)
    rows = [
        [group, str(count), reason.replace("|", "\\|")]
        for (group, reason), count in sorted(counts.items())
    ]
    return _table(["group", "records", "reason"], rows) if rows else "Nothing."


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rules = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rules, *rows])
