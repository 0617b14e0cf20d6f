"""Published training steps, the efficiencies fitted to them, and their errors where held out."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fleetcube.grid.calibration_file import about_fit, text
from fleetcube.grid.records import Row, read_records
from fleetcube.grid.step_times import StepFit, Table, calibrate_steps, held_out_errors

Array = np.ndarray[Any, Any]
DATE = "2026-11-21"  # of the fits
FEWEST = 2  # rows of a calibration of its own
PARTS = 5  # left out in turn where all rows have one source; rows of a source of weight
# What is known beforehand: values of a well-run kernel and network, and relative deviations.
PRIORS = {
    "gemm_efficiency": 0.5,
    "gemm_half_size": 2.0,
    "attention_efficiency": 1.0,
    "memory_efficiency": 0.5,
    "layer_overhead_time": 3.0,
    "intra_node_bandwidth": 0.5,
    "network_efficiency": 0.5,
    "data_parallel_overlap": 3.0,
    "expert_parallel_overlap": 3.0,
}
FIT = tuple(PRIORS)
_START: dict[str, Any] = {
    "compute_model": "roofline",
    "gemm_efficiency": 0.7,
    "gemm_half_size": 80.0,
    "memory_efficiency": 0.8,
    "network_efficiency": 0.8,
    "data_parallel_overlap": 0.1,
    "expert_parallel_overlap": 0.1,
}
_STANDARD = {"attention_kernel": "standard", "attention_efficiency": 0.2}
_FLASH = {"attention_kernel": "flash", "attention_efficiency": 0.4}
_NVLINK = {"a100": 240e9, "h100": 380e9}  # reached; later generations:
_NVLINK_5 = 700e9
STACKS = {
    "megatron": "Megatron-LM",
    "deepspeed": "Megatron-DeepSpeed",
    "fsdp": "PyTorch FSDP (llm-foundry)",
    "torchtitan": "torchtitan, compiled",
    "torchtitan-eager": "torchtitan, not compiled",
    "bridge": "Megatron-Bridge, dense models",
    "bridge-moe": "Megatron-Bridge, mixtures of experts",
    "nemo": "NeMo, long sequences",
    "jean-zay": "Megatron-DeepSpeed on Jean Zay",
    "simumax": "Megatron-LM as measured for SimuMax, dense models",
    "simumax-moe": "Megatron-LM as measured for SimuMax, mixtures of experts",
}
GENERATIONS = ("a100", "h100", "b200", "gb200", "b300", "gb300")


@dataclass(frozen=True)
class Set:
    """The rows behind one calibration."""

    label: str
    rows: tuple[Row, ...]

    @property
    def stack(self) -> str:
        """The software, the first words of the label."""
        return self.label.rpartition(f"-{self.generation}")[0]

    @property
    def generation(self) -> str:
        """The GPU's."""
        return next(word for word in self.label.split("-") if word in GENERATIONS)

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the rows were published."""
        return tuple(dict.fromkeys(row.source for row in self.rows))

    @property
    def parts(self) -> list[Any]:
        """Which rows are left out together: those of one table, or every fifth."""
        groups = [row.group for row in self.rows]
        if len(set(groups)) > 1 and min(map(groups.count, groups)) >= PARTS:
            return groups
        return [k % PARTS for k in range(len(self.rows))]

    @property
    def start(self) -> dict[str, Any]:
        """Where the fit begins, and what it keeps to."""
        old = self.stack in ("megatron", "deepspeed", "jean-zay") and self.generation == "a100"
        overhead = 1e-3 if old else 3e-4
        link = _NVLINK.get(self.generation, _NVLINK_5)
        common = _START | (_STANDARD if old else _FLASH)
        return common | {"layer_overhead_time": overhead, "intra_node_bandwidth": link}

    @property
    def table(self) -> Table:
        """The rows as a table of inputs."""
        own = ("calibration", *self.start)
        names = dict.fromkeys(n for row in self.rows for n in row.inputs if n not in own)
        inputs = {name: [row.inputs.get(name) for row in self.rows] for name in names}
        return Table(inputs, [row.measured for row in self.rows], list(range(len(self.rows))))

    @cache  # noqa: B019
    def fit(self) -> StepFit:
        """The efficiencies of all rows."""
        return calibrate_steps(self.table, self.start, FIT, priors=PRIORS)

    @cache  # noqa: B019
    def errors(self) -> Array:
        """Logarithms of predicted over measured, each row held out with its part."""
        return held_out_errors(self.table, self.start, self.parts, FIT, priors=PRIORS)


def _labels() -> Callable[[str], bool]:
    """The labels worth a calibration: those most specific ones that have enough rows."""
    counts: Counter[str] = Counter()
    read_records(calibrated=lambda label: bool(counts.update([label])) or True)
    return lambda label: counts[label] >= FEWEST or label.count("-") == 1


@cache
def sets() -> dict[str, Set]:
    """The rows of each calibration."""
    rows, _ = read_records(calibrated=_labels())
    of: dict[str, list[Row]] = {}
    for row in rows:
        if row.of == "step_time" and "calibration" in row.inputs:
            of.setdefault(str(row.inputs["calibration"]), []).append(row)
    return {label: Set(label, tuple(of[label])) for label in sorted(of) if len(of[label]) > 1}


def error_factor(errors: Sequence[float]) -> float:
    """The factor that 90 of 100 further rows stay within, by those held out."""
    sizes = np.sort(np.abs(np.asarray(errors)))
    place = math.ceil(0.9 * (len(sizes) + 1))
    return float(np.exp(sizes[min(place, len(sizes)) - 1]))


def factor_of(label: str) -> float:
    """Of a label; of its whole stack where its rows are few."""
    own = sets()[label]
    if len(own.rows) >= 20:
        return error_factor(own.errors())
    alike = [other for other in sets().values() if other.stack == own.stack]
    return error_factor(np.concatenate([other.errors() for other in alike]))


def record(label: str) -> str:
    """The catalog's record of a label."""
    own = sets()[label]
    fit = own.fit()
    held_out = np.abs(np.expm1(own.errors()))
    values = {**fit.values, "error_factor": factor_of(label)}
    values |= {name: own.start[name] for name in ("compute_model", "attention_kernel")}
    about = {
        "title": f"{STACKS[own.stack]} on {own.generation.upper()} GPUs{_ends(own)}",
        "source": f"fitted to {'; '.join(own.sources)}",
        "date": DATE,
        "note": f"{fit.rows} steps, median error {100 * fit.median_error:.1f} %, "
        f"{100 * float(np.median(held_out)):.1f} % where held out",
    }
    told = about_fit(fit) | {
        "held_out_mean_error": float(f"{held_out.mean():.3g}"),
        "held_out_median_error": float(f"{np.median(held_out):.3g}"),
    }
    return text(about, values, fit.standard_errors, told, label)


def _ends(own: Set) -> str:
    """Precision and release, in words."""
    words = own.label.rpartition(f"{own.generation}")[2].strip("-").split("-")
    release = {
        ("26", "04"): ", containers 26.02 and 26.04",
        ("26", "06"): ", containers from 26.06",
    }
    said = f" in {words[0].upper()}" if words[0] else ""
    return said + release.get(tuple(words[-2:]), "")
