"""The generated part of docs/accuracy.md: errors by group, peers, and exclusions."""

import csv
import functools
import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fleetcube.calibration.measurements import read_records
from fleetcube.calibration.validate import Accuracy, Validation, validate

from . import products
from .text import DOCS, between, table
from .training import CATALOG

PAGE = DOCS / "accuracy.md"
PICTURE = PAGE.with_suffix(".png")
# Errors of steps under the fit before this one, to the laws before decision 81
BEFORE = Path(__file__).with_name("before.csv")
_WORSE = 0.5  # points
A100 = {  # groups, and the calibrations fitted to them
    "sc21_table1": "megatron-a100-fp16",
    "korthikanti_table5": "megatron-a100-fp16",
    "vtrain_multi": "deepspeed-a100-fp16",
    "bloom_prequel": "jean-zay-a100-fp16",
    "mosaic": "fsdp-a100-bf16",
}
_HELD_OUT = (
    "Rows held out: each was predicted with coefficients fitted to the others, leaving out one "
    "published table at a time if a calibration has several, else every fifth row in turn. The "
    "factor is that of `step_time_low` and `step_time_high`; covered is the share of held-out rows "
    "within the factor that the other rows give."
)
_MEMORY = (
    "No coefficient of memory is fitted. `megatron_llama2` was first compared when all formulas "
    "stood, with dropout as in that tool's example: 90 of 100 of its values are within a factor of "
    "{:.3f}, from which `memory_error_factor` is rounded up; the other tables were at hand while "
    "the formulas were written. All state what a framework allocated, without `reserved_memory`, "
    "but torchtitan, which prints what PyTorch's allocator held: blocks of freed logits count. Of "
    "its rows, 405B with plain 1F1B (12 and 13 % short) lack a fact: its authors measured 10 GiB "
    "more there than interleaved, which keeps more micro-batches on the stage with the loss; 70B "
    "without asynchronous tensor parallelism (8 %) holds whole inputs of products, 2 GiB each. "
    "`megatron_llama2` is short by 3.9 points of its 4.9 for SwiGLU, which Megatron-LM did not "
    "fuse before November 2023: `activation_input_bytes = 3` states it."
)
_SERVING = (
    "No coefficient of serving is fitted: 0.8 of a GPU's peak and of its memory's bandwidth, as in "
    "the roofline of training, and 5 us to start an all-reduce. 90 of 100 rows, with those of "
    "latency below, are within the factor from which `serving_error_factor` is rounded up; most "
    "rates are predicted too high, as scheduling, sampling and slow kernels are not counted. Of "
    "TensorRT-LLM 1.0, the sequences at once are not printed: what `largest_serving_batch` lets "
    "in, at most 2,048. Two published runs held more than that (Llama 2 7B on an A100 with 60, "
    "MLPerf's Llama 2 70B on an H200 with 806, of mean length) and are not compared."
)
_ELSEWHERE = (
    "Mean errors on the A100 tables under calibrations fitted to other tables (in brackets: to the "
    "same), as for a user who has not measured:"
)


@dataclass(frozen=True)
class Peer:
    """The error that another tool's authors report for their predictions, in per cent."""

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
    return validate(*read_records())


def page() -> str:
    sources = dict.fromkeys((row.group, row.source) for row in read_records()[0])
    whole = between(PAGE, "measured", tables(own(), sources))
    whole = between(whole, "worse", worse(own()))
    whole = between(whole, "products", products.text())
    return between(whole, "products on a B200", products.on_b200())


def tables(validation: Validation, sources: Iterable[tuple[str, str]]) -> str:
    """All tables that follow from the measurements: errors, peers, sources, exclusions."""
    parts = [
        f"{len(validation.rows):,} measurements are compared; {len(validation.left_out):,} records "
        "are left out, with the reasons below.",
        f"![Measured over predicted values]({PICTURE.name})",
    ]
    for of in dict.fromkeys(group.of for group in validation.groups):
        parts += [f"### `{of}`", _errors([group for group in validation.groups if group.of == of])]
        if of == "step_time":
            parts += [_HELD_OUT, held_out(), _ELSEWHERE, elsewhere()]
        if of == "output_tokens_per_second":
            parts.append(_SERVING)
        if of == "memory_per_gpu" and not math.isnan(memory_factor(validation)):
            parts.append(_MEMORY.format(memory_factor(validation)))
    groups = {group.group for group in validation.groups}
    peers = [f"- {p.tool} on {p.group}: {p.mean} %: {p.about}" for p in PEERS if p.group in groups]
    if peers:
        parts += ["What others report of their own predictions:", "\n".join(peers)]
    listed = [f"- {group}: {source}" for group, source in sources if group in groups]
    parts += ["### Sources", "\n".join(listed), "### Left out", _left_out(validation)]
    return "\n\n".join(parts)


def worse(validation: Validation) -> str:
    """How many steps the last fit made better and worse, and each that is worse."""
    with BEFORE.open(encoding="utf-8", newline="") as file:
        before = {row["id"]: float(row["error_percent"]) for row in csv.DictReader(file)}
    steps = [row for row in validation.rows if row.of == "step_time" and row.id in before]
    pairs = {row.id: (before[row.id], 100 * (row.predicted / row.measured - 1)) for row in steps}
    grown = {name: abs(now) - abs(then) for name, (then, now) in pairs.items()}
    means = [sum(abs(pair[k]) for pair in pairs.values()) / len(pairs) for k in (0, 1)]
    listed = sorted((name for name in pairs if grown[name] >= _WORSE), key=lambda n: -grown[n])
    better = sum(points <= -_WORSE for points in grown.values())
    rows = [(name, *(f"{error:+.1f} %" for error in pairs[name])) for name in listed]
    return (
        f"The {len(pairs)} steps compared before and after are {means[1]:.1f} % off for "
        f"{means[0]:.1f}; {better} are better by at least {_WORSE} points, {len(listed)} worse:\n\n"
        + table(("step", "error before", "error now"), rows, " rr")
    )


def memory_factor(validation: Validation) -> float:
    """The factor that covers 90 of 100 values of the table of memory that was held out."""
    rows = [row for row in validation.rows if row.group == "megatron_llama2"]
    errors = sorted(abs(math.log(row.predicted / row.measured)) for row in rows)
    return math.exp(errors[math.ceil(0.9 * len(errors)) - 1]) if errors else math.nan


def held_out() -> str:
    records = tomllib.loads(CATALOG.read_text(encoding="utf-8"))
    head = ["calibration", "n", "fitted, mean", "median", "held out", "mean", "median", "largest"]
    rows = []
    for label, values in records.items():
        fit = values.get("fit", {})  # superseded records keep only their values
        if "held_out" in fit:
            names = ("held_out_mean_error", "held_out_median_error", "held_out_max_error")
            fitted = [f"{100 * fit[name]:.1f} %" for name in ("mean_error", "median_error")]
            errors = [f"{100 * fit[name]:.1f} %" for name in names]
            covered = f"{fit['held_out_coverage']:.0%}"
            factor = f"{values['error_factor']:.2f}"
            rows.append(
                [f"`{label}`", str(fit["rows"]), *fitted, fit["held_out"], *errors, factor, covered]
            )
    return table([*head, "factor", "covered"], rows)


@functools.cache
def elsewhere() -> str:
    """Errors on the A100's tables under the calibrations of other tables."""
    rows = [
        row
        for row in read_records()[0]
        if row.of == "step_time" and row.group in A100 and row.inputs
    ]
    lines = []
    for group, own in A100.items():
        mine = [row for row in rows if row.group == group and "a100" in str(row.inputs)]
        cells = []
        for label in dict.fromkeys(A100.values()):
            moved = [replace(row, inputs={**row.inputs, "calibration": label}) for row in mine]
            error = validate(moved).groups[0].mean_percent
            cells.append(f"({error:.1f} %)" if label == own else f"{error:.1f} %")
        lines.append([group, str(len(mine)), *cells])
    return table(["group", "n", *(f"`{label}`" for label in dict.fromkeys(A100.values()))], lines)


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
    columns = [k for k in range(len(head)) if {row[k] for row in rows} - {"", "-"}]
    return table([head[k] for k in columns], [[row[k] for k in columns] for row in rows])


def _shown(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None or math.isnan(value) else format(value, form) + unit


def _left_out(validation: Validation) -> str:
    counts = Counter((record.group, record.reason) for record in validation.left_out)
    rows = [
        [group, str(count), reason.replace("|", "\\|")]
        for (group, reason), count in sorted(counts.items())
    ]
    return table(["group", "records", "reason"], rows) if rows else "Nothing."
