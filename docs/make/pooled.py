"""The pooled fit of all published steps: the catalog's posterior, and how well it predicts.

`python -m docs.make.pooled` refits and writes catalog/data/pooled.json; `--splits` prints how rows
are predicted that a fit has not seen, by what was left out.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from fleetcube.catalog import kind, record
from fleetcube.grid.measured.pooled import Coefficient, Pooled, Posterior, Steps
from fleetcube.grid.measured.predict import evaluate
from fleetcube.grid.measured.published.calibration import _STACKS
from fleetcube.grid.measured.records import Row, read_records

from .text import ROOT
from .training import NOT_FITTED, _labels

Array = np.ndarray[Any, Any]
CATALOG = ROOT / "catalog" / "data" / "pooled.json"
# The same run as another record, or without what a step's time follows from
_SAME = ("mlperf_gpt3/034", "palm_table3/001")
_GENERATIONS = {
    "a100": "ampere",
    "h100": "hopper",
    "h800": "hopper",
    "b200": "blackwell",
    "gb200": "blackwell",
    "b300": "blackwell",
    "gb300": "blackwell",
}
_BITS = {"fp16": "16 bits", "bf16": "16 bits", "fp4": "4 bits"}
QUANTILE = 1.8  # standard deviations of 90 of 100 rows: Student's t of about 8 degrees


def gpu(row: Row) -> str:
    """The GPU without its form and memory: a100, gb200, tpu-v5p."""
    node = record("node", row.inputs["node"]).values if "node" in row.inputs else {}
    words = str(row.inputs.get("gpu", node.get("gpu"))).split("-")
    return "-".join(words[: 2 if words[0] in ("tpu", "gaudi") else 1])


def generation(row: Row) -> str:
    """The GPU's generation: ampere, blackwell, tpu."""
    return _GENERATIONS.get(gpu(row), gpu(row).partition("-")[0])


def software(row: Row) -> str:
    """What trained."""
    name = _STACKS.get(row.group, row.group.partition("_")[0])
    eager = str(row.inputs.get("calibration", "")).startswith(f"{name}-eager")
    return f"{name}-eager" if eager else name


def layers(row: Row) -> str:
    """Dense, mixtures of experts, or those with a state beside them."""
    model = kind("model").get(str(row.inputs.get("model")))
    known = model.values if model else row.inputs
    if not (known.get("mixture_of_experts") or known.get("experts")):
        return "dense"
    return "hybrid" if known.get("linear_layers") else "experts"


def precision(row: Row) -> str:
    """Bits of the products."""
    return _BITS.get(str(row.inputs["precision"]), "8 bits")


def release(row: Row) -> str | None:
    """The release of the kernels of experts, where two are known."""
    return "26-06" if str(row.inputs.get("calibration", "")).endswith("26-06") else None


def cell(row: Row) -> str:
    """All of them."""
    parts = (software(row), layers(row), gpu(row), precision(row), release(row))
    return ", ".join(part for part in parts if part)


LEVELS: Mapping[str, Callable[[Row], str | None]] = {
    "layers": layers,
    "precision": precision,
    "generation": generation,
    "gpu": gpu,
    "software": software,
    "release": release,
    "cell": cell,
}


@cache
def rows() -> tuple[tuple[Row, ...], Array]:
    """All measured steps, and which of them are fitted."""
    every = [r for r in read_records(None, calibrated=_labels())[0] if r.of == "step_time"]
    every = [row for row in every if row.id not in _SAME]
    return tuple(every), np.array([not {r.group, r.id} & {*NOT_FITTED} for r in every])


def model(of: Sequence[Row], coefficients: Sequence[Coefficient] | None = None) -> Pooled:
    """The pooled model of rows."""
    steps = Steps(of, coefficients) if coefficients else Steps(of)
    groups = {level: [group(row) for row in of] for level, group in LEVELS.items()}
    return Pooled(steps, groups, [software(row) for row in of])


def splits(of: Sequence[Row], fitted: Array) -> Iterator[tuple[str, list[tuple[Array, Array]]]]:
    """What is left out, and for each part of it the rows fitted and those predicted."""

    def without(label: Callable[[Row], str]) -> list[tuple[Array, Array]]:
        labels = np.array([label(row) for row in of])
        parts = dict.fromkeys(labels[fitted])
        return [(fitted & (labels != part), fitted & (labels == part)) for part in parts]

    yield "a generation", without(generation)
    yield "a GPU", without(gpu)
    yield "software on a GPU", without(lambda row: f"{software(row)} on {gpu(row)}")
    yield "software", without(software)
    sizes = np.array([int(row.inputs["n_gpus"]) for row in of])
    yield (
        "more than 256 GPUs; at least 1,024",
        [(fitted & (sizes <= 256), fitted & (sizes >= 1024))],
    )
    count: dict[str, int] = {}
    fifth = np.array([count.setdefault(cell(r), -1) for r in of])
    for k, row in enumerate(of):
        count[cell(row)] += 1
        fifth[k] = count[cell(row)] % 5
    yield "every fifth row", [(fitted & (fifth != k), fitted & (fifth == k)) for k in range(5)]
    yield "never fitted", [(fitted, ~fitted)]


def shares(of: Sequence[Row]) -> Array:
    """Logarithms of the time at peak over the measured one, 6 N D counted."""
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
    """Mean, median, the factor of 90 of 100 rows, and bias."""
    relative, sizes = np.abs(np.expm1(errors)), np.sort(np.abs(errors))
    factor = math.exp(sizes[min(math.ceil(0.9 * (len(sizes) + 1)), len(sizes)) - 1])
    bias = math.expm1(float(np.median(errors)))
    return (
        f"{len(errors)} | {100 * relative.mean():.1f} % | {100 * float(np.median(relative)):.1f} % "
        f"| {factor:.2f} | {100 * bias:+.1f} %"
    )


def table(pooled: Pooled, of: Sequence[Row], fitted: Array, posterior: Posterior) -> Iterator[str]:
    """Errors on what a fit has not seen; each fit starts at the posterior of all, without them."""
    simple = shares(of)
    experts = np.array([layers(row) != "dense" for row in of])
    yield "| left out | rows | mean | median | 90 % | bias | covered | dummy |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    seen = pooled.predict(posterior)
    yield f"| nothing | {described(seen.errors[fitted])} | | |"
    for name, parts in splits(of, fitted):
        errors, inside, dummy, is_moe = [], [], [], []
        for train, test in parts:
            own = posterior if name == "never fitted" else pooled.fit(train, posterior, 4)
            found = pooled.predict(own)
            width = QUANTILE * np.hypot(found.deviations, found.noise)
            errors.append(found.errors[test])
            inside.append(np.abs(found.errors)[test] <= width[test])
            dummy.append(simple[test] - np.median(simple[train]))
            is_moe.append(experts[test])
        e, moe = np.concatenate(errors), np.concatenate(is_moe)
        yield (
            f"| {name} | {described(e)} | {100 * np.concatenate(inside).mean():.0f} % "
            f"| {100 * np.abs(np.expm1(np.concatenate(dummy))).mean():.1f} % |"
        )
        if moe.any() and not moe.all():
            yield f"| - its mixtures of experts | {described(e[moe])} | | |"


def posterior_text(pooled: Pooled, posterior: Posterior, of: Sequence[Row]) -> str:
    """The posterior as a catalog file."""

    def short(value: float) -> float:
        return float(f"{value:.4g}")

    def span(name: str) -> list[float]:
        found = [float(row.inputs[name]) for row in of if name in row.inputs]
        return [min(found), max(found)]

    deviations = np.sqrt(np.diag(posterior.covariance))
    content = {
        "rows": len(of),
        "ranges": {
            name: span(name)
            for name in ("n_gpus", "sequence_length", "micro_batch_size", "global_batch_size")
        },
        "precisions": sorted({str(row.inputs["precision"]) for row in of}),
        "coefficients": {
            c.name: {"input": c.input, "start": c.start, "share": c.is_share}
            for c in pooled.steps.coefficients
        },
        "noise": {name: short(value) for name, value in posterior.noise.items()},
        "spreads": [[*key, short(value)] for key, value in posterior.spreads.items()],
        "effects": [
            [e.coefficient, e.level, e.group, short(mean), short(deviation)]
            for e, mean, deviation in zip(
                posterior.effects, posterior.means, deviations, strict=True
            )
        ],
    }
    return json.dumps(content, indent=1) + "\n"


def main() -> None:
    """Refit; write the catalog, or print the table of splits."""
    parser = argparse.ArgumentParser(prog="python -m docs.make.pooled", description=__doc__)
    parser.add_argument("--splits", action="store_true")
    chosen = parser.parse_args()
    begun = time.monotonic()
    of, fitted = rows()
    pooled = model(of)
    posterior = pooled.fit(fitted)
    print(f"{fitted.sum()} rows fitted in {time.monotonic() - begun:.0f} s", flush=True)
    if chosen.splits:
        for line in table(pooled, of, fitted, posterior):
            print(line, flush=True)
        return
    used = [row for row, is_fitted in zip(of, fitted, strict=True) if is_fitted]
    CATALOG.write_text(posterior_text(pooled, posterior, used), encoding="utf-8")


if __name__ == "__main__":
    main()
