"""Published training steps, efficiencies fitted to them, and held-out errors."""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fleetcube.calibration.calibration_file import about_fit, text
from fleetcube.calibration.measurements import read_records
from fleetcube.calibration.row import Row
from fleetcube.calibration.steps import (
    StepFit,
    Table,
    _check_fit,
    _Model,
    _precisions,
    _search,
    _start,
    fit_steps,
)
from fleetcube.catalog import NONE
from fleetcube.catalog import pooled as posteriors
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.scenario.auto import posterior_cell

from . import all_reduces
from .labels import STACK_BY_GROUP, calibration_for
from .text import ROOT

Array = np.ndarray[Any, Any]
CATALOG = ROOT / "catalog" / "data" / "calibration.toml"
DATE = "2026-11-30"  # of the fits
MANY = 20  # rows that suffice for a separate error factor
FEWEST = 2  # rows that suffice for a separate calibration
PARTS = 5  # parts held out in turn if all rows have one source; rows of a source that counts as one
NOTHING = 1e-6  # of the start: smaller fitted values become 0
# Relative standard deviations of the priors around _START
PRIORS = {
    "gemm_efficiency": 0.5,
    "gemm_half_depth": 1.0,
    "attention_efficiency": 1.0,
    "memory_efficiency": 0.5,
    "layer_overhead_time": 3.0,
    "layer_host_time": 0.3,
    "intra_node_bandwidth": 0.5,
    "network_efficiency": 0.5,
    "data_parallel_overlap": 3.0,
    "expert_parallel_overlap": 3.0,
}
FIT = tuple(PRIORS)
# From a half depth of 200 the nine mixtures on H100 in FP8 end 11.7 % off, from 100 1.4 %
_START: dict[str, Any] = {
    "compute_model": "roofline",
    "gemm_efficiency": 0.7,
    "gemm_half_depth": 100.0,
    "memory_efficiency": 0.8,
    "layer_host_time": 3.4e-3,
    "network_efficiency": 0.8,
    "data_parallel_overlap": 0.1,
    "expert_parallel_overlap": 0.1,
}
_STANDARD = {"attention_kernel": "standard", "attention_efficiency": 0.2}
_FLASH = {"attention_kernel": "flash", "attention_efficiency": 0.4}
_NVLINK = {"a100": 240e9, "h100": 380e9, "h200": 380e9}  # B/s, as measured
_NVLINK_5 = 700e9  # of later generations
STACKS = {
    "megatron": "Megatron-LM",
    "deepspeed": "Megatron-DeepSpeed",
    "fsdp": "PyTorch FSDP (llm-foundry)",
    "torchtitan": "torchtitan, compiled",
    "torchtitan-eager": "torchtitan, not compiled",
    "bridge": "Megatron-Bridge, dense models",
    "bridge-moe": "Megatron-Bridge, mixtures of experts",
    "nemo": "NeMo, long sequences",
    "deepspeed-node": "Megatron-DeepSpeed, small models on one node",
    "jean-zay": "Megatron-DeepSpeed on Jean Zay",
    "simumax": "Megatron-LM as measured for SimuMax, dense models",
    "simumax-moe": "Megatron-LM as measured for SimuMax, mixtures of experts",
}
REPOSITORIES = {
    "NVIDIA-NeMo/Megatron-Bridge": "https://github.com/NVIDIA-NeMo/Megatron-Bridge",
    "NVIDIA/NeMo": "https://github.com/NVIDIA-NeMo/NeMo",
    "mosaicml/llm-foundry": "https://github.com/mosaicml/llm-foundry",
    "pytorch/torchtitan": "https://github.com/pytorch/torchtitan",
    "MooreThreads/SimuMax": "https://github.com/MooreThreads/SimuMax",
    "vTrain": "https://github.com/VIA-Research/vTrain",
    "bigscience tr11-176B-ml": "https://github.com/bigscience-workshop/bigscience",
    "MLCommons ": "https://github.com/mlcommons",
}
_OLD = ("megatron", "deepspeed", "deepspeed-node", "jean-zay")  # before FlashAttention
GENERATIONS = ("a100", "h100", "h200", "b200", "gb200", "b300", "gb300")


@dataclass(frozen=True)
class Set:
    label: str
    rows: tuple[Row, ...]

    @property
    def stack(self) -> str:
        """The software, the first words of the label."""
        return self.label.rpartition(f"-{self.generation}")[0]

    @property
    def generation(self) -> str:
        return next(word for word in self.label.split("-") if word in GENERATIONS)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.source for row in self.rows))

    @property
    def parts(self) -> list[Any]:
        """For each row, its hold-out part: its table, or every fifth row."""
        groups = [row.group for row in self.rows]
        if len(set(groups)) > 1 and min(map(groups.count, groups)) >= PARTS:
            return groups
        return [k % PARTS for k in range(len(self.rows))]

    @property
    def start(self) -> dict[str, Any]:
        """Start of the fit, and fixed values."""
        old = self.stack in _OLD and self.generation == "a100"
        overhead = 1e-3 if old else 3e-4
        link = _NVLINK.get(self.generation, _NVLINK_5)
        common = _START | (_STANDARD if old else _FLASH)
        return common | {"layer_overhead_time": overhead, "intra_node_bandwidth": link}

    @property
    def most(self) -> dict[str, float]:
        """Upper bounds of coefficients: the link's data sheet, the rate of kernels alone."""
        kernel = self.start["attention_kernel"]
        inputs = {**self.rows[0].inputs, "attention_kernel": kernel}
        cell = replace(posterior_cell(inputs), software=self.stack)
        shares = posteriors.posterior().ceilings(cell)
        return {
            "gemm_efficiency": shares["gemm"],
            "intra_node_bandwidth": cell.node_link,
            "attention_efficiency": shares["attention"] if kernel == "flash" else 1.0,
        }

    @property
    def table(self) -> Table:
        own = ("calibration", *self.start)
        names = dict.fromkeys(n for row in self.rows for n in row.inputs if n not in own)
        inputs = {name: [row.inputs.get(name) for row in self.rows] for name in names}
        return Table(inputs, [row.measured for row in self.rows], list(range(len(self.rows))))

    @cache  # noqa: B019
    def fit(self) -> StepFit:
        return fit_steps(self.table, self.start, FIT, priors=PRIORS, most=self.most)

    @property
    def without_effect(self) -> set[str]:
        """Coefficients that a record leaves out: the input's default, or the link's data sheet,
        gives the same steps. A slope of 0 is not enough: an overlap may hide all there is."""
        fit = self.fit()
        model = _Model(self.table, self.start, FIT, fit.of, self.most)
        found = np.array([fit.values[name] for name in FIT])
        steps, same = model.predict(found), set()
        for k, name in enumerate(FIT):
            other = found.copy()
            sheet = self.most if name == "intra_node_bandwidth" else {}
            other[k] = sheet.get(name, INPUTS[name].default)
            if np.array_equal(model.predict(other), steps):
                same.add(name)
        return same

    @cache  # noqa: B019
    def errors(self) -> Array:
        """Logarithms of predicted over measured, each row held out with its part."""
        return held_out_errors(
            self.table, self.start, self.parts, FIT, priors=PRIORS, most=self.most
        )


def held_out_errors(
    table: Table,
    scenario: Mapping[str, Any],
    parts: Sequence[Any],
    fit: Sequence[str] = ("flops_efficiency",),
    of: str = "step_time",
    priors: Mapping[str, float] | None = None,
    most: Mapping[str, float] | None = None,
) -> Array:
    """Logarithms of computed over measured, each row fitted without its part of `parts`."""
    _check_fit(fit, table)
    precisions = _precisions(fit, scenario, priors or {})
    start = np.array([_start(name, scenario) for name in fit])
    errors = np.full(len(table.measured), np.nan)
    of_line = {line: k for k, line in enumerate(table.lines)}
    for group in dict.fromkeys(parts):
        others = _rows_of(table, [k for k, own in enumerate(parts) if own != group])
        x = _search(_Model(others, scenario, fit, of, most), start, precisions)
        held_out = _Model(
            _rows_of(table, [k for k, own in enumerate(parts) if own == group]), scenario, fit, of
        )
        for line, error in zip(held_out.lines, held_out.residuals(x), strict=True):
            errors[of_line[line]] = error
    return errors


def _rows_of(table: Table, rows: Sequence[int]) -> Table:
    return Table(
        {name: [cells[k] for k in rows] for name, cells in table.inputs.items()},
        [table.measured[k] for k in rows],
        [table.lines[k] for k in rows],
    )


# Unlike what users run: experts of Megatron-Bridge's releases of 2025, whose kernels the later ones
# replaced; and one job on MI300X at half of its kernels' rate, which alone in its generation would
# set the trend of peaks. Compared, neither fitted nor counted among the runs never fitted
APART = (
    *(f"torchtitan/{k}" for k in range(121, 125)),
    *(f"megatron_bridge/{k}" for k in (307, 308, 313, 316, 322, 324, 325, 330, 331, 356)),
)
# Groups and records that are not fitted, so that their errors are those of predictions: runs of
# others, with some assumed facts, and those read after the fits
NOT_FITTED = (
    "opt_175b",
    "megascale_fig9",
    "megascale_table2",
    "korthikanti_table4",
    "mlperf_gpt3_gaudi",
    "mlperf_gpt3/034",  # the same run as 024
    *(f"maxtext_v6e/{name}" for name in ("8b-8", "8b-256", "70b-32", "70b-128", "70b-256")),
    *(f"maxtext_v6e/{name}" for name in ("405b-512", "llama2-70b-256", "mixtral8x7b-256")),
    *APART,
)
FURTHER: list[Path] = []  # tables of others that the project does not contain


def labelled(known: Callable[[str], bool], path: Path | None = None) -> list[Row]:
    """Measured rows; those of software that is fitted with the calibrations that are known."""
    return [
        replace(row, inputs={**row.inputs, "calibration": calibration_for(row, known)})
        if row.group in STACK_BY_GROUP
        else row
        for row in read_records(path)[0]
    ]


def _rows(known: Callable[[str], bool]) -> list[Row]:
    return [
        row
        for path in (None, *FURTHER)
        for row in labelled(known, path)
        if not {row.group, row.id} & {*NOT_FITTED}
    ]


def _labels() -> Callable[[str], bool]:
    """Labels with a calibration: those with enough rows, and the widest."""
    counts: Counter[str] = Counter()
    _rows(lambda label: bool(counts.update([label])) or True)
    return lambda label: counts[label] >= FEWEST or label.count("-") == 1


@cache
def sets() -> dict[str, Set]:
    of: dict[str, list[Row]] = {}
    for row in _rows(_labels()):
        if row.of == "step_time" and row.inputs.get("calibration", NONE) not in (NONE, "auto"):
            of.setdefault(str(row.inputs["calibration"]), []).append(row)
    return {label: Set(label, tuple(of[label])) for label in sorted(of) if len(of[label]) > 1}


def error_factor(errors: Sequence[float]) -> float:
    """The factor that covers 90 of 100 new rows, by the held-out ones."""
    sizes = np.sort(np.abs(np.asarray(errors)))
    place = math.ceil(0.9 * (len(sizes) + 1))
    return float(np.exp(sizes[min(place, len(sizes)) - 1]))


def pooled(label: str) -> tuple[Array, list[Any]]:
    """Held-out errors and parts of a label, or of its whole stack if rows are few."""
    own, every = sets()[label], sets().values()
    alike = [own] if len(own.rows) >= MANY else [o for o in every if o.stack == own.stack]
    if sum(len(other.rows) for other in alike) < PARTS:
        alike = [o for o in every if o.stack.partition("-")[0] == own.stack.partition("-")[0]]
    parts = [(other.label, part) for other in alike for part in other.parts]
    return np.concatenate([other.errors() for other in alike]), parts


def coverage(errors: Array, parts: Sequence[Any]) -> float:
    """Share of rows within the factor from the errors of the other parts."""
    if len(set(parts)) < 2:
        return math.nan
    inside = 0
    for group in set(parts):
        mine = np.array([own == group for own in parts])
        inside += int((np.abs(errors[mine]) <= math.log(error_factor(errors[~mine]))).sum())
    return inside / len(parts)


def record(label: str) -> str:
    own = sets()[label]
    fit = own.fit()
    held_out = np.abs(np.expm1(own.errors()))
    errors, parts = pooled(label)
    fitted = [name for name in FIT if name not in own.without_effect]
    values = {
        name: float(f"{fit.values[name]:.4g}")
        if fit.values[name] > NOTHING * own.start[name]
        else 0.0
        for name in fitted
    }
    deviations = {name: fit.standard_errors[name] for name in fitted}
    values["error_factor"] = math.ceil(1000 * error_factor(errors)) / 1000
    choices = {name: own.start[name] for name in ("compute_model", "attention_kernel")}
    by_table = len(set(own.parts)) == len({row.group for row in own.rows}) > 1
    about = {
        "title": f"{STACKS[own.stack]} on {own.generation.upper()} GPUs{_ends(own)}",
        "source": f"fitted to {'; '.join(map(located, own.sources))}",
        "date": DATE,
        "note": f"{fit.rows} steps on {_gpus(own.rows)} GPUs, median error "
        f"{100 * fit.median_error:.1f} %, {100 * float(np.median(held_out)):.1f} % where held out",
    }
    about_the_fit = about_fit(fit) | {
        "mean_error": _short(fit.errors.mean()),
        "held_out": "a published table at a time" if by_table else "every fifth row in turn",
        "held_out_mean_error": _short(held_out.mean()),
        "held_out_median_error": _short(np.median(held_out)),
        "held_out_max_error": _short(held_out.max()),
        "held_out_coverage": _short(coverage(errors, parts)),
        "groups": list(dict.fromkeys(row.group for row in own.rows)),
    }
    return text(about, values | choices, deviations, about_the_fit, label)


def located(source: str) -> str:
    for start, address in REPOSITORIES.items():
        if source.startswith(start):
            rest = re.sub(r" ?\((MIT|Apache-2.0|MICRO24)\) ?", "", source.removeprefix(start))
            return f"{address}, {rest.strip()}".rstrip(", ")
    return re.sub(r"arXiv:([0-9.]+)", r"https://arxiv.org/abs/\1", source)


def catalog() -> str:
    present = CATALOG.read_text(encoding="utf-8")
    return f"{all_reduces.records()}\n{records(present)}"


def records(present: str) -> str:
    """The records of all labels; those without available rows do not change.

    A fit with other values becomes the record's next edition; the old edition keeps its values.
    """
    blocks = re.split(r"\n(?=\[\"?[a-z0-9-]+(?:@[0-9]+)?\"?\]\n)", present)
    kept = {block.partition("]")[0].strip('["'): block.rstrip("\n") + "\n" for block in blocks}
    kept = {name: block for name, block in kept.items() if name.startswith(tuple(STACKS))}
    for label in sets():
        old, new = kept.get(label, ""), record(label)
        edition = tomllib.loads(old).get(label, {}).get("edition", 1)
        if old and _values(old, label) != _values(new, label):
            superseded = old.partition(f"\n[{label}.")[0].replace(f"edition = {edition}\n", "")
            kept[f"{label}@{edition}"] = superseded.replace(f"[{label}]", f'["{label}@{edition}"]')
            edition += 1
        line = f"edition = {edition}\n" if edition > 1 else ""
        kept[label] = re.sub(r"^(note = .*\n)", rf"\g<1>{line}", new, count=1, flags=re.MULTILINE)
    return "\n".join(kept[name] for name in sorted(kept))


def _values(block: str, label: str) -> dict[str, Any]:
    """Inputs that a record sets, without description and fit."""
    words = ("title", "source", "date", "note", "edition", "standard_errors", "fit")
    return {name: v for name, v in tomllib.loads(block)[label].items() if name not in words}


def _short(value: Any) -> float:
    return float(f"{float(value):.3g}")


def _gpus(rows: Sequence[Row]) -> str:
    counts = [int(row.inputs["n_gpus"]) for row in rows]
    return f"{min(counts):,} to {max(counts):,}" if min(counts) < max(counts) else f"{counts[0]:,}"


def _ends(own: Set) -> str:
    precision, _, fused = own.label.rpartition(own.generation)[2].strip("-").partition("-")
    return (f" in {precision.upper()}" if precision else "") + ", products fused" * bool(fused)
