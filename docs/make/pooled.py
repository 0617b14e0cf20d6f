"""The pooled fit of all published steps: the catalog's posterior and its accuracy.

`python -m docs.make.pooled` refits, prints errors on held-out rows by what was held out, and writes
them into docs/accuracy.md and docs/calibrate.md, and the posterior into catalog/data/pooled.json.
Its matrices are small: `OPENBLAS_NUM_THREADS=1` is faster, many times so on a busy machine.
"""

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import stdtrit

from fleetcube.calibration.predict import evaluate
from fleetcube.calibration.row import Row
from fleetcube.catalog import kind, record
from fleetcube.catalog.pooled import NORMAL, STEP, STUDENT, seal, sustained
from fleetcube.catalog.vendors import vendor as vendor_of
from fleetcube.grid.spec import values
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.scenario.hardware import DOMAIN, NODE

from . import given as given_steps
from .given import Fold, elsewhere, given, grouped, pairs_of, ratios, smallest
from .hierarchy import (
    COEFFICIENTS,
    JOB,
    LAWS,
    Coefficient,
    Effect,
    Pooled,
    Posterior,
    Predicted,
    Steps,
    at,
)
from .labels import CONTAINER, STACK_BY_GROUP
from .text import DOCS, ROOT, between
from .text import table as table_text
from .training import APART, NOT_FITTED, _labels, labelled

Array = np.ndarray[Any, Any]
CATALOG = ROOT / "catalog" / "data" / "pooled.json"
# The same run as another record, or without the data to derive a step's time
_SAME = ("mlperf_gpt3/034", "palm_table3/001")
_GENERATIONS = {
    "a100": "ampere",
    "h100": "hopper",
    "h800": "hopper",
    "h200": "hopper",
    "gh200": "hopper",
    "h20": "hopper",
    "b200": "blackwell",
    "gb200": "blackwell",
    "b300": "blackwell",
    "gb300": "blackwell",
    **dict.fromkeys(("mi300x", "mi325x", "mi350x", "mi355x"), "cdna"),
}
_BITS = {"fp16": "16 bits", "bf16": "16 bits", "nvfp4": "4 bits"}
# Largest measured shares of peak of matrix products of any shape, at 16 and 8 bits
# (github.com/stas00/ml-engineering, compute/accelerator/README.md)
_PRODUCTS = {
    "a100": (0.869, math.nan),
    "h100": (0.803, 0.709),
    "h800": (0.803, 0.709),
    "b200": (0.776, 0.763),
    "gb200": (0.729, 0.723),
    "b300": (0.786, 0.745),
    "gb300": (0.786, 0.745),  # that of B300, the same chip
    "gaudi-2": (0.969, 0.955),
    # at 16 bits, found by the same search: github.com/mag-/gpu_benchmark, README; at 8 assumed
    "mi300x": (0.580, 0.580),
    # github.com/HazyResearch/HipKittens (commit f09e968), analysis/bf16_gemm and fp8_gemm, the best
    # of hipBLASLt, AITER and its own; at 8 bits on MI325X assumed; MI350X: those of MI355X
    "mi325x": (0.601, 0.601),
    "mi350x": (0.644, 0.676),
    "mi355x": (0.644, 0.676),
}
_OTHER_PRODUCTS, _TPU_PRODUCTS = 0.8, 0.95  # without published values
# Shares of peak of attention kernels in the limit of long sequences (attention_core_time).
# FlashAttention-2: 225 of 312 TFLOP/s on an A100 (Dao 2023, arXiv:2307.08691, section 4.1); on an
# H100 35 %, or 1 / 2 to 2 / 3 of its successor, which reaches 740 of 989 TFLOP/s (Shah et al. 2024,
# arXiv:2407.08608, abstract). cuDNN 9.22 71 % on GB200, 82 % on GB300, whose exponentials are twice
# as fast (cudnn-frontend, benchmark/sdpa_benchmark_training/results, causal); on B200 71 % by
# FlashAttention-4 (its paper of 2026, abstract). On an MI355X 50 % by AITER, causal, 16,384 tokens
# (HipKittens, analysis/attn/fwd)
_FLASH_2 = {"ampere": 0.77, "hopper": 0.43, "blackwell": 0.43, "cdna": 0.53}  # last two assumed
# On a TPU v6e 36 % by splash attention, of 8,192 tokens and heads of 128, which fill half of a unit
_FLASH_3 = {
    **{"ampere": 0.77, "hopper": 0.75, "blackwell": 0.71, "cdna": 0.53, "tpu": 0.83},
    **dict.fromkeys(("b300", "gb300"), 0.82),
}
_OTHER_ATTENTION = 0.75  # assumed
_WITH_FLASH_2 = ("fsdp", "fms-fsdp", "torchtitan", "torchtitan-eager", "deepspeed", "jean-zay")
CEILINGS: Mapping[str, Any] = {
    "gemm, 16 bits": {name: share for name, (share, _) in _PRODUCTS.items()},
    "gemm, 8 and 4 bits": {n: share for n, (_, share) in _PRODUCTS.items() if share == share},
    "gemm, others": {"tpu": _TPU_PRODUCTS, "other": _OTHER_PRODUCTS},
    "attention, FlashAttention-2": _FLASH_2,
    "attention, later kernels": _FLASH_3,
    "attention, others": {"other": _OTHER_ATTENTION},
}
_PEAK = 989e12  # FLOP/s, at which trends are 0: 16 bits on an H100
_WATTS_PER_FLOP = 700 / _PEAK  # W s, likewise
_SIZES = ("n_gpus", "sequence_length", "micro_batch_size", "global_batch_size")
_MODEL_SIZES = ("layers", "hidden_size")
_SHAPE = ("model", "layers", "hidden_size", "attention_heads", "ffn_hidden_size", "experts")
_NEVER = "never fitted"
_KERNELS = (
    "left out",
    "steps",
    "rates of its kernels unknown",
    "of products known",
    "of attention, too",
)
A_CELL, A_JOB, _PARTS = "a cell", "a job", 10
A_VENDOR, LAYERS = "a vendor", "a kind of layers"
# Kinds of layers whose rows widen an interval by themselves, where as many were left out: of all
# rows most are dense, and 90 % of all may be 75 % of these
WIDENED, FEWEST = ("experts", "hybrid"), 20
# Logarithm of predicted over measured of published steps that are no rows: Qwen3-Next, whose layers
# are gated delta networks (docs/frozen.md)
_FROZEN_LAYERS = (math.log(2.745 / 5.8),)
# Of fabrics left out one by one, 84 % of the rows between nodes are inside, 69 % of those that the
# network decides; at this power of the factor 92 and 88 % (docs/calibrate.md)
_FABRIC_EXPONENT = 1.3


def gpu(row: Row) -> str:
    """The GPU without its form and memory: a100, gb200, tpu-v5p."""
    node = record("node", row.inputs["node"]).values if "node" in row.inputs else {}
    words = str(row.inputs.get("gpu", node.get("gpu"))).split("-")
    return "-".join(words[: 2 if words[0] in ("tpu", "gaudi") else 1])


def generation(row: Row) -> str:
    return _GENERATIONS.get(gpu(row), gpu(row).partition("-")[0])


def vendor(row: Row) -> str:
    """The GPU's vendor: NVIDIA, Google."""
    node = record("node", row.inputs["node"]).values if "node" in row.inputs else {}
    return vendor_of(record("gpu", str(row.inputs.get("gpu", node.get("gpu")))))


def software(row: Row) -> str:
    stated = record("software", row.inputs["software"]).values if "software" in row.inputs else {}
    name = STACK_BY_GROUP.get(row.group, stated.get("steps_as", row.group.partition("_")[0]))
    eager = str(row.inputs.get("calibration", "")).startswith(f"{name}-eager")
    return f"{name}-eager" if eager else name


def layers(row: Row) -> str:
    """Kind of layers: dense, mixture of experts, or with state layers."""
    model = kind("model").get(str(row.inputs.get("model")))
    known = model.values if model else row.inputs
    if not (known.get("mixture_of_experts") or known.get("experts")):
        return "dense"
    return "hybrid" if known.get("linear_layers") else "experts"


def states(row: Row) -> str:
    """Kind of layers with a state; empty without such."""
    model = kind("model").get(str(row.inputs.get("model")))
    return str((model.values if model else row.inputs).get("linear_attention", ""))


def precision(row: Row) -> str:
    """Bits of the products."""
    return _BITS.get(str(row.inputs["precision"]), "8 bits")


def experts(row: Row) -> str | None:
    """The software for mixtures of experts, whose kernels differ more; else None."""
    return None if layers(row) == "dense" else f"{software(row)}, {layers(row)}"


def job_anywhere(row: Row) -> str:
    """One model on one kind of cluster, whoever published it."""
    where = row.inputs.get("node", row.inputs.get("gpu"))
    shape = [str(row.inputs[name]) for name in _SHAPE if name in row.inputs]
    return ", ".join((software(row), str(where), precision(row), *shape))


def job(row: Row) -> str:
    """One model on one cluster."""
    return f"{table(row)}, {job_anywhere(row)}"


def fabric(row: Row) -> str:
    """The fabric between nodes; empty inside one node, rack or slice."""
    node = record("node", row.inputs["node"]).values if "node" in row.inputs else {}
    joined = (row.inputs.get(name, node.get(name, 0)) for name in (NODE, DOMAIN))
    return str(row.inputs["fabric"]) if row.inputs["n_gpus"] > max(joined) else ""


def run(row: Row) -> str:
    """The job with one release of its software."""
    container = CONTAINER.search(row.where)
    return f"{job(row)}, {container[0] if container else ''}"


def table(row: Row) -> str:
    """The published table: one cluster, or one round of runs."""
    return f"{row.group}: {row.source}"


def cell(row: Row) -> str:
    """The cell: all of these together."""
    return ", ".join((software(row), layers(row), gpu(row), precision(row)))


def _sheet(row: Row, name: str) -> float | None:
    """A value of the row's GPU or node, as stated or by the data sheet."""
    node = record("node", row.inputs["node"]).values if "node" in row.inputs else {}
    sheet = record("gpu", str(row.inputs.get("gpu", node.get("gpu")))).values
    value = row.inputs.get(name, node.get(name, sheet.get(name)))
    return None if value is None else values.number(PHYSICS, name, value)


def _peak(row: Row, bits: str) -> float:
    names = {"4 bits": "peak_flops_fp4", "8 bits": "peak_flops_fp8"}
    found = _sheet(row, names.get(bits, "peak_flops_bf16"))
    if found is None:
        raise ValueError(f"{row.id}: no peak at {bits}")
    return found


def unpowered(row: Row) -> str | None:
    """The GPU if its power is unknown."""
    return None if _sheet(row, "gpu_tdp") else gpu(row)


def _watts_per_flop(row: Row) -> float:
    """W s, the GPU's power over its peak at 16 bits; an H100's where its power is unknown."""
    power = _sheet(row, "gpu_tdp")
    return power / _peak(row, "16 bits") if power else _WATTS_PER_FLOP


def facts(of: Sequence[Row]) -> dict[str, Array]:
    """Values that coefficients are shares of, and trends, at each row."""

    def products(row: Row) -> float:
        other = _TPU_PRODUCTS if generation(row) == "tpu" else _OTHER_PRODUCTS
        return _PRODUCTS.get(gpu(row), (other, other))[precision(row) != "16 bits"]

    def attention(row: Row) -> float:
        ceilings = _FLASH_2 if software(row) in _WITH_FLASH_2 else _FLASH_3
        return ceilings.get(gpu(row), ceilings.get(generation(row), _OTHER_ATTENTION))

    power = np.log([_watts_per_flop(row) / _WATTS_PER_FLOP for row in of])
    peaks = np.array([_peak(row, precision(row)) for row in of])
    return {
        "gemm": np.array([products(row) for row in of]),
        "attention": np.array([attention(row) for row in of]),
        "node_link": np.array([_sheet(row, "intra_node_bandwidth") or 0.0 for row in of]),
        "power": power,
        "rate": np.log(peaks * sustained(power) / _PEAK),
    }


LEVELS: Mapping[str, Callable[[Row], str | None]] = {
    "layers": layers,
    "precision": precision,
    "generation": generation,
    "gpu": gpu,
    "unknown power": unpowered,
    "software": software,
    "experts": experts,
    "table": table,
    "cell": cell,
    JOB: job,
}


@cache
def rows() -> tuple[tuple[Row, ...], Array]:
    """All measured steps, and which of them are fitted."""
    every = [row for row in labelled(_labels()) if row.of == "step_time"]
    every = [row for row in every if row.id not in _SAME]
    return tuple(every), np.array([not {r.group, r.id} & {*NOT_FITTED} for r in every])


def model(of: Sequence[Row], coefficients: Sequence[Coefficient] | None = None) -> Pooled:
    steps = Steps(of, facts(of), coefficients or COEFFICIENTS)
    groups = {level: [group(row) for row in of] for level, group in LEVELS.items()}
    return Pooled(steps, groups, [software(row) for row in of])


def splits(of: Sequence[Row], fitted: Array) -> Iterator[tuple[str, list[tuple[Array, Array]]]]:
    """Kinds of hold-outs, and for each of their parts the fitted and the predicted rows."""

    def without(label: Callable[[Row], str]) -> list[tuple[Array, Array]]:
        labels = np.array([label(row) for row in of])
        parts = dict.fromkeys(labels[fitted])
        return [(fitted & (labels != part), fitted & (labels == part)) for part in parts]

    def groups(label: Callable[[Row], str]) -> list[tuple[Array, Array]]:
        """Groups of at most half of the rows, those of which none is fitted, too."""
        labels = np.array([label(row) for row in of])
        parts = [labels == part for part in dict.fromkeys(labels)]
        few = [part for part in parts if 2 * (fitted & part).sum() <= fitted.sum()]
        return [(fitted & ~part, fitted & part if (fitted & part).any() else part) for part in few]

    yield A_VENDOR, groups(vendor)
    yield LAYERS, groups(layers)
    yield "a generation", without(generation)
    yield "a GPU", without(gpu)
    yield "software on a GPU", without(lambda row: f"{software(row)} on {gpu(row)}")
    yield "one software", without(software)
    sizes = np.array([int(row.inputs["n_gpus"]) for row in of])
    yield (
        "more than 256 GPUs; at least 1,024",
        [(fitted & (sizes <= 256), fitted & (sizes >= 1024))],
    )
    yield A_CELL, without(cell)
    jobs = [*dict.fromkeys(job_anywhere(row) for row in of)]
    part = np.array([jobs.index(job_anywhere(row)) % _PARTS for row in of])
    yield A_JOB, [(fitted & (part != k), fitted & (part == k)) for k in range(_PARTS)]
    yield _NEVER, [(fitted, ~fitted & np.array([row.id not in APART for row in of]))]


def shares(of: Sequence[Row]) -> Array:
    """Logarithms of the time of 6 N D at peak over the measured one."""
    counted = {"flops_counting": "parameters"}
    questions = [
        (
            ("ideal_compute_time",),
            {n: v for n, v in {**row.inputs, **counted}.items() if n != "calibration"},
        )
        for row in of
    ]
    answers = evaluate(questions)
    return np.array([math.log(float(a[0]) / r.measured) for a, r in zip(answers, of, strict=True)])


def described(errors: Array) -> str:
    """Mean, median, the factor that covers 90 of 100 rows, and bias."""
    relative = np.abs(np.expm1(errors))
    factor = math.exp(_conformal(np.abs(errors)))
    bias = math.expm1(float(np.median(errors)))
    return (
        f"{len(errors)} | {100 * relative.mean():.1f} % | {100 * float(np.median(relative)):.1f} % "
        f"| {factor:.2f} | {100 * bias:+.1f} %"
    )


@dataclass(frozen=True)
class Unseen:
    """Held-out rows: indices, parts and predictions."""

    rows: Array
    parts: Array
    errors: Array
    deviations: Array  # of coefficients and noise together
    typical: Array  # the same by the slopes of like rows
    dummy: Array

    @property
    def ratios(self) -> Array:
        """Errors over their expected deviations."""
        return np.asarray(np.abs(self.errors) / self.deviations)

    @property
    def factor(self) -> float:
        """Deviations that cover 90 of 100 rows."""
        return _conformal(self.ratios)

    @property
    def covered(self) -> float:
        """Share of rows inside the factor that follows from the other parts, or other rows."""
        return float(np.mean(self.ratios <= self._from_others(self.ratios)))

    def spread(self, further: Sequence[float] = ()) -> float:
        """Standard deviation around 0 of the parts' errors, each part's the median of its rows,
        and of `further` ones; of the normal with the 90 % interval of Student's t that so few
        give."""
        medians = [np.median(self.errors[self.parts == part]) for part in {*self.parts.tolist()}]
        errors = [*medians, *further]
        few = float(stdtrit(len(errors), 0.95)) / NORMAL
        return few * math.sqrt(np.mean(np.square(errors)))

    def widened(self, spread: float) -> "Unseen":
        """The same with the spread of such parts in the deviations."""
        half = NORMAL * spread
        wider = (np.hypot(each, half) for each in (self.deviations, self.typical))
        return replace(self, **dict(zip(("deviations", "typical"), wider, strict=True)))

    def as_auto(self, kinds: Array) -> "Unseen":
        """The same with the deviations of calibration "auto": by like rows, never narrower than
        rows of other parts needed, all of them and those of the same one of `kinds` [row]."""
        sizes = np.abs(self.errors) / self.typical
        widths = self.typical * np.maximum(1.0, self._from_others(sizes))
        for kind_of in WIDENED:
            alike = kinds[self.rows] == kind_of
            if alike.sum() >= FEWEST:
                needed = only(self, kinds == kind_of)._from_others(sizes[alike])
                widths[alike] = np.maximum(widths[alike], self.typical[alike] * needed)
        return replace(self, deviations=widths)

    def _from_others(self, sizes: Array) -> Array:
        """For each row, the 90 % quantile of sizes in other parts, or other rows."""
        parts = self.parts if len(set(self.parts)) > 1 else np.arange(len(self.parts))
        found = np.empty(len(parts))
        for part in set(parts):
            found[parts == part] = _conformal(sizes[parts != part])
        return found


def only(found: Unseen, chosen: Array) -> Unseen:
    of_chosen = chosen[found.rows]
    return Unseen(*(getattr(found, each.name)[of_chosen] for each in fields(found)))


def _conformal(sizes: Array) -> float:
    """The size below which 90 of 100 new ones lie (Vovk et al. 2005)."""
    place = min(math.ceil(0.9 * (len(sizes) + 1)), len(sizes)) - 1
    return float(np.sort(sizes)[place])


def unseen(
    pooled: Pooled, of: Sequence[Row], fitted: Array
) -> tuple[Posterior, Predicted, dict[str, Unseen], dict[str, dict[int, Fold]]]:
    """The posterior of all rows, its predictions, predictions of held-out parts, and by kind of
    part the fit without each row.

    Each fit has the same start and no data of its part, and neither do the slopes of like rows.
    """
    parts = [(name, *part) for name, own in splits(of, fitted) for part in own]
    posteriors = pooled.fits(np.array([fitted] + [train for _, train, _ in parts]))
    predictions = pooled.predictions(posteriors)
    simple = shares(of)
    columns: dict[str, list[tuple[Array, ...]]] = {}
    folds: dict[str, dict[int, Fold]] = {}
    own = zip(parts, posteriors[1:], predictions[1:], strict=True)
    for (name, train, test), posterior, found in own:
        moments = moments_of(of, found.slopes, train)
        fitted_rows = [of[k] for k in np.flatnonzero(train)]
        seen = {n: {group(row) for row in fitted_rows} for n, group in LEVELS.items()}
        fold = Fold(pooled, posterior, found)
        folds.setdefault(name, {}).update(dict.fromkeys(np.flatnonzero(test).tolist(), fold))
        columns.setdefault(name, []).append(
            (
                np.flatnonzero(test),
                np.full(test.sum(), len(columns.get(name, ()))),
                found.errors[test],
                found.width()[test],
                np.array(
                    [
                        like_rows(pooled, posterior, of, k, moments, seen)
                        for k in np.flatnonzero(test)
                    ]
                ),
                simple[test] - np.median(simple[train]),
            )
        )
    joined = {
        name: Unseen(*(np.concatenate(column) for column in zip(*found, strict=True)))
        for name, found in columns.items()
    }
    return posteriors[0], predictions[0], joined, folds


def with_own_rows(
    of: Sequence[Row], folds: Mapping[str, Mapping[int, Fold]]
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Tables of jobs predicted from some of their own steps, by what was left out, and of ratios of
    two steps, whose cell was left out."""
    sizes = np.array([int(row.inputs["n_gpus"]) for row in of])
    runs, jobs, cells = ([*map(label, of)] for label in (run, job_anywhere, cell))
    places = [table(row) + str(row.inputs.get("node", row.inputs.get("gpu"))) for row in of]

    def here(a: int, b: int) -> bool:
        return cells[a] == cells[b] and places[a] == places[b] and jobs[a] != jobs[b]

    def there(a: int, b: int) -> bool:
        return cells[a] == cells[b] and places[a] != places[b] and jobs[a] != jobs[b]

    lines = []
    for left_out, held in ((name, folds[name]) for name in (A_CELL, A_JOB)):
        rows = sorted(held)
        of_run = grouped(runs, rows)
        kinds = [(f"{n} of its steps", pairs_of(of_run, n), True) for n in (1, 2, 3, 6)]
        kinds.append(("its smallest cluster's", smallest(of_run, sizes), True))
        if left_out == A_CELL:  # the others are not in the fit either
            kinds.append(("another job on its cluster", elsewhere(rows, here), False))
            kinds.append(("the same cell elsewhere", elsewhere(rows, there), False))
        for name, pairs, is_job in kinds:
            found = given(pairs, held.__getitem__, is_job)
            lines.append((name, left_out, *found.cells()))
    rows = sorted(folds[A_CELL])
    two = (
        ("one job", pairs_of(grouped(runs, rows), 1), True),
        ("two jobs on a cluster", elsewhere(rows, here), False),
    )
    fold_of = folds[A_CELL].__getitem__
    return lines, [(name, *ratios(pairs, fold_of, is_job)) for name, pairs, is_job in two]


def of_kernels(of: Sequence[Row], folds: Mapping[str, Mapping[int, Fold]]) -> list[tuple[str, ...]]:
    """Errors of steps on GPUs left out whose kernels alone were published: without these rates,
    with those of matrix products, and with those of attention, too."""
    known, others = facts(of), np.full(len(of), _OTHER_PRODUCTS)
    unknown = {"gemm": others, "attention": np.full(len(of), _OTHER_ATTENTION)}
    ways = [known | unknown, known | {"attention": unknown["attention"]}, known]
    steps = [Steps(of, way, COEFFICIENTS) for way in ways]
    found = []
    for name in ("a generation", "a GPU"):
        rows = [k for k in sorted(folds[name]) if gpu(of[k]) in _PRODUCTS]
        errors = np.empty((len(ways), len(of)))
        for fold in {id(one): one for one in folds[name].values()}.values():
            own = fold.pooled.values(np.where(fold.laws, fold.posterior.means, 0.0))
            mine = [k for k in rows if folds[name][k] is fold]
            errors[:, mine] = [way.errors(own)[mine] for way in steps]
        shares = np.abs(np.expm1(errors[:, rows])).mean(axis=1)
        found.append((name, str(len(rows)), *(f"{100 * share:.1f} %" for share in shares)))
    return found


def like_rows(
    pooled: Pooled,
    posterior: Posterior,
    of: Sequence[Row],
    k: int,
    moments: Mapping[str, Any],
    seen: Mapping[str, set[str | None]],
) -> float:
    """Half of the 90 % interval of a row's logarithm from the catalog, by like rows.

    `seen` are the groups of fitted rows by level; the fit has not seen other groups.
    """
    row = of[k]
    groups = {level: group(row) for level, group in LEVELS.items() if level != "table"}
    groups = {n: g if g is None or g in seen[n] else "" for n, g in groups.items()}
    trends = {name: float(pooled.steps.facts[name][k]) for name in ("power", "rate")}
    covariance = at(posterior, groups, trends)[1]
    slopes = moments.get(f"{layers(row)}, {kernel(row)}", moments["dense, flash"])
    variance = np.sum(covariance * slopes)
    variance += posterior.spreads[STEP, JOB] ** 2
    noise = posterior.noise[software(row)]
    return math.hypot(NORMAL * math.sqrt(variance), STUDENT * noise)


_WORDS = {"- dense": "dense", "- with experts": "experts", "- with experts and states": "hybrid"}
HEADING = (
    "| left out | rows | mean | median | 90 % | bias | covered | factor | covered by it | dummy |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def lines(name: str, found: Unseen, kinds: Array) -> Iterator[str]:
    """Errors on held-out rows, and those of mixtures of experts, without and with states, only."""
    dummy = 100 * np.abs(np.expm1(found.dummy)).mean()
    inside = 100 * (found.ratios <= 1).mean()
    yield (
        f"| {name} | {described(found.errors)} | {inside:.0f} % | {found.factor:.2f} "
        f"| {100 * found.covered:.0f} % | {dummy:.1f} % |"
    )
    for words, kind_of in _WORDS.items():
        alike = only(found, kinds == kind_of)
        if kind_of in WIDENED and len(alike.rows):
            inside = 100 * (alike.ratios <= 1).mean()
            yield f"| {words} | {described(alike.errors)} | {inside:.0f} % | | | |"


def insides(name: str, found: Unseen, kinds: Array) -> Iterator[tuple[str, ...]]:
    """Cells of the table of auto's intervals: rows, the share inside, the median half; of all rows
    and by kind of layers."""
    widened = found.as_auto(kinds)
    of_kinds = {words: only(widened, kinds == kind_of) for words, kind_of in _WORDS.items()}
    for words, part in {name: widened, **of_kinds}.items():
        if len(part.rows):
            inside, half = np.mean(part.ratios <= 1), np.exp(np.median(part.deviations))
            yield words, str(len(part.rows)), f"{100 * inside:.0f} %", f"x {half:.2f}"


def with_layers(splits: Mapping[str, Unseen], kinds: Array) -> dict[str, Unseen]:
    """The splits, and those of each kind of layers that widens, "a GPU, experts"."""
    every = ((f"{n}, {k}", only(part, kinds == k)) for n, part in splits.items() for k in WIDENED)
    return {**splits, **{name: part for name, part in every if len(part.rows) >= FEWEST}}


def short(value: float) -> float:
    return float(f"{value:.4g}")


def posterior_text(
    pooled: Pooled,
    posterior: Posterior,
    of: Sequence[Row],
    moments: Mapping[str, Array],
    splits: Mapping[str, Unseen],
    spreads: Mapping[str, float],
) -> str:
    """The posterior as a catalog file.

    `fabrics`: those between nodes of fitted rows. `unmeasured`: of a vendor and of a kind of layers
    with a state, the groups that are fitted, and the deviation that leaving out such groups shows,
    `spreads` of the splits; of a fabric, the power of the factor that leaving out fabrics shows.
    `factor`: the widths of the posterior that covered 90 of 100 held-out rows. `slopes`: see
    moments_of. `cholesky` [effect][effect]: L of the effects' correlations L L'. `ceilings`: shares
    of peak that coefficients multiply.
    """

    kept = np.array([effect.coefficient != STEP for effect in posterior.effects])
    effects = [effect for effect, own in zip(posterior.effects, kept, strict=True) if own]
    covariance = posterior.covariance[np.ix_(kept, kept)]
    deviations = np.sqrt(np.diag(covariance))
    factors = np.linalg.cholesky(covariance / np.outer(deviations, deviations))
    content: dict[str, Any] = {
        "rows": len(of),
        **about(of),
        "slopes": {
            name: [[short(float(x)) for x in line] for line in own] for name, own in moments.items()
        },
        "precisions": sorted({str(row.inputs["precision"]) for row in of}),
        "fabrics": sorted({fabric(row) for row in of} - {""}),
        "gpus": dict(sorted(Counter(gpu(row) for row in of).items())),
        "software": dict(sorted(Counter(software(row) for row in of).items())),
        "unseen": {
            name: {
                "rows": len(found.errors),
                "mean": short(np.abs(np.expm1(found.errors)).mean()),
                "median": short(float(np.median(np.abs(np.expm1(found.errors))))),
                "factor": short(found.factor),
                "typical": short(_conformal(np.abs(found.errors) / found.typical)),
            }
            for name, found in splits.items()
        },
        "unmeasured": {
            kind: {"fitted": sorted({group(row) for row in of} - {""}), "spread": short(spread)}
            for kind, group, spread in (
                ("vendor", vendor, spreads[A_VENDOR]),
                ("states", states, spreads[LAYERS]),
            )
        }
        | {"fabric": {"exponent": _FABRIC_EXPONENT}},
        "ceilings": CEILINGS,
        "coefficients": {
            c.name: {"input": c.input, "of": c.of, "start": c.start, "share": c.is_share}
            for c in LAWS
        },
        "noise": {name: short(value) for name, value in posterior.noise.items()},
        "spreads": [[*key, short(value)] for key, value in posterior.spreads.items()],
        "effects": [
            [e.coefficient, e.level, e.group, short(mean), short(deviation)]
            for e, mean, deviation in zip(effects, posterior.means[kept], deviations, strict=True)
        ],
        "cholesky": [[round(float(x), 4) for x in row[: k + 1]] for k, row in enumerate(factors)],
    }
    return text_of(sealed(content))


def about(of: Sequence[Row]) -> dict[str, Any]:
    """Data for a scenario's groups and trends, and its distance from the rows.

    `cells`: rows of each, and the attention kernel of most of them. `peaks`: FLOP/s of the GPUs, by
    bits of the products. `watts`: their power over their peak at 16 bits, W s; `watts_per_flop`
    where its trend is 0.
    """
    cells: dict[str, Counter[str]] = {}
    for row in of:
        name = ", ".join((software(row), layers(row), gpu(row), precision(row)))
        cells.setdefault(name, Counter())[kernel(row)] += 1

    def span(name: str) -> list[float]:
        models = [kind("model")[row.inputs["model"]].values for row in of if "model" in row.inputs]
        sheets = [*(row.inputs for row in of), *(models if name in _MODEL_SIZES else ())]
        found = [values.number(PHYSICS, name, sheet[name]) for sheet in sheets if name in sheet]
        return [min(found), max(found)]

    bandwidths = [float(_sheet(row, "hbm_bandwidth") or math.nan) for row in of]
    peaks: dict[str, list[float]] = {}
    for row in of:
        for bits in {"16 bits", precision(row)}:
            peaks.setdefault(bits, []).append(_peak(row, bits))
    watts = [_watts_per_flop(row) for row in of]
    return {
        "ranges": {
            **{name: span(name) for name in (*_SIZES, *_MODEL_SIZES)},
            "hbm_bandwidth": [min(bandwidths), max(bandwidths)],
        },
        "peaks": {bits: [min(found), max(found)] for bits, found in sorted(peaks.items())},
        "peak": _PEAK,
        "watts_per_flop": _WATTS_PER_FLOP,
        "watts": [min(watts), max(watts)],
        "generations": _GENERATIONS,
        "bits": _BITS,
        "flash_attention_2": list(_WITH_FLASH_2),
        "trends": {c.name: list(c.trends) for c in LAWS},
        "cells": {n: [sum(c.values()), c.most_common(1)[0][0]] for n, c in sorted(cells.items())},
    }


def kernel(row: Row) -> str:
    return str(row.inputs.get("attention_kernel", "flash"))


def moments_of(of: Sequence[Row], slopes: Array, train: Array) -> dict[str, Array]:
    """The mean of s s' over fitted rows by kind of layers and attention kernel.

    s are derivatives of the log step time by coefficients before their links, [coefficient] of
    `slopes` [coefficient, row].
    """
    kinds = np.array([f"{layers(row)}, {kernel(row)}" for row in of])
    return {
        name: own @ own.T / own.shape[1]
        for name in sorted(set(kinds[train]))
        for own in [slopes[: len(LAWS), train & (kinds == name)]]
    }


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a catalog file with its hash, which reveals edits."""
    return {**content, "sha256": seal(content)}


def text_of(content: Mapping[str, Any]) -> str:
    """JSON with one line for each entry of a list or table."""
    parts = []
    for name, value in content.items():
        if isinstance(value, dict):
            inner = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            parts.append(f"{json.dumps(name)}: {{\n" + ",\n".join(inner) + "\n }")
        elif isinstance(value, list) and value and isinstance(value[0], list):
            inner = [f"  {json.dumps(v, separators=(',', ':'))}" for v in value]
            parts.append(f"{json.dumps(name)}: [\n" + ",\n".join(inner) + "\n ]")
        else:
            parts.append(f"{json.dumps(name)}: {json.dumps(value)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def in_catalog(pooled: Pooled) -> Posterior:
    """The catalog's posterior, which knows no cluster's or job's own factor."""
    content = json.loads(CATALOG.read_text(encoding="utf-8"))
    effects = tuple(Effect(*entry[:3]) for entry in content["effects"])
    of_steps = pooled.effects[len(effects) :]
    if pooled.effects[: len(effects)] != effects or {e.coefficient for e in of_steps} != {STEP}:
        raise ValueError("catalog/data/pooled.json is out of date: run python -m docs.make.pooled")
    spreads = {(name, level): value for name, level, value in content["spreads"]}
    factors = np.diag([1.0] * len(effects) + [spreads[STEP, e.level] for e in of_steps])
    for k, row in enumerate(content["cholesky"]):
        factors[k, : k + 1] = row
    deviations = [entry[4] for entry in content["effects"]]
    factors[: len(effects)] *= np.array(deviations)[:, None]
    return Posterior(
        pooled.effects,
        np.array([*(entry[3] for entry in content["effects"]), *(0.0 for _ in of_steps)]),
        factors @ factors.T,
        spreads,
        content["noise"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.make.pooled", description=__doc__)
    parser.parse_args()
    begun = time.monotonic()
    of, fitted = rows()
    pooled = model(of)
    posterior, seen, found, folds = unseen(pooled, of, fitted)
    own_rows, of_two = with_own_rows(of, folds)
    spreads = {A_VENDOR: found[A_VENDOR].spread(), LAYERS: found[LAYERS].spread(_FROZEN_LAYERS)}
    found |= {name: found[name].widened(spread) for name, spread in spreads.items()}
    kinds = np.array([layers(row) for row in of])
    whole = [HEADING, f"| nothing, in sample | {described(seen.errors[fitted])} | | | | |"]
    whole += [line for name, part in found.items() for line in lines(name, part, kinds)]
    intervals = [line for name, part in found.items() for line in insides(name, part, kinds)]
    head = ("left out", "rows", "inside", "half the interval, median")
    for page, mark, text in (
        ("accuracy.md", "left out of the pooled model", "\n".join(whole)),
        ("calibrate.md", "left out of auto", table_text(head, intervals)),
        ("calibrate.md", "from some of its own", table_text(given_steps.HEADING, own_rows)),
        ("calibrate.md", "kernels of a new GPU", table_text(_KERNELS, of_kernels(of, folds))),
        ("uncertainty.md", "ratios of two steps", table_text(given_steps.RATIOS, of_two)),
    ):
        (DOCS / page).write_text(between(DOCS / page, mark, text), encoding="utf-8")
        print(text)
    used = [row for row, is_fitted in zip(of, fitted, strict=True) if is_fitted]
    moments = moments_of(of, seen.slopes, fitted)
    by_layers = with_layers(found, kinds)
    text = posterior_text(pooled, posterior, used, moments, by_layers, spreads)
    CATALOG.write_text(text, encoding="utf-8")
    print(f"{CATALOG} in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
