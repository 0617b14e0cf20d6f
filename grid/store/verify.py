"""Check a cube: every file against its checksum, and samples by recomputing them."""

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError
from ..plan.execute import evaluate_block
from ..plan.fingerprint import difference
from ..plan.plan import Plan
from ..plan.written import restored, result_scenario
from ..progress import expected
from ..result import Result
from ..run.evaluation import Evaluation
from .cube import as_sealed, damage, opened, reading, spec_of
from .examine import Contents, check_added, check_sealed, examine
from .layout_version import repeats
from .names import ROOT
from .places.address import place_of
from .reader import Reader
from .writer import Writer

SINGLE, FLOAT32_PAGE = "jax-float32", "docs/float32.md"
_SPEC = ("scenario", "axes", "outputs")  # entries of a record that repeat the spec
_REWRITE = "its bytes are as sealed: write it again with --overwrite"
TOLERANCE = {"float64": 1e-12, "float32": 1.2e-7, "int8": 0.0}  # relative


@dataclass
class Report:
    """Result of `verify`: a sound cube has no problems."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    guests: str = ""  # what others put into the cube, which every run keeps
    changed: bool = False  # whether another program wrote what no run replaces
    chunks: int = 0
    samples: int = 0
    advice: str = "`run --resume` of its sweep repairs it"


def verify(path: str | os.PathLike[str], samples: int = 16, seed: int = 0) -> Report:
    """Check a cube. Raises InputError if there is none.

    Every chunk is compared with its size and crc32c, every other file with its sha256; missing and
    foreign files are found, and labels compared with those of the spec. Then the spec is
    reevaluated, with NumPy, at `samples` points of every variable, to 1e-12 (float32: to its last
    bit; not where float32 computed it), and the files other than chunks must be what would be
    written now. If formulas, catalog or version differ, this is noted and neither is compared.
    """
    place = place_of(path)
    if str(place).endswith(".partial"):
        raise InputError(f"{str(place)!r} is not complete; `run --resume` finishes it")
    contents = examine(place)
    if not contents.is_ours and not contents.exists:
        raise InputError(f"there is no cube {str(place)!r}; name a place that `run` wrote to")
    check_sealed(contents)
    _ = contents.layout  # refused if newer than ours
    report = Report()
    report.chunks = sum(len(block.files) for block in contents.blocks.values())
    wrong = damage(contents, expected(report.chunks, "chunks"))
    report.problems = [f"{name} {what}" for name, what in wrong.items()]
    report.guests = contents.guests
    try:
        check_added(contents, wrong)
    except InputError as error:
        report.advice, report.changed = str(error), True
        report.problems = report.problems or [f"{contents.added_arrays} is not of the cube"]
    if not report.problems:
        _compare(as_sealed(contents), samples, seed, report)
    return report


def _compare(contents: Contents, samples: int, seed: int, report: Report) -> None:
    """Compare a cube whose bytes are sound with its own spec."""
    cube = opened(contents)
    again = _planned_again(contents, cube, report)
    if again is not None:
        plan, writer = again
        with reading(contents.place):
            written, files = writer.files, contents.file_bytes
            report.problems += [
                f"the labels {name!r} are not those of its spec"
                for name, (_, labels, _) in writer.coordinates().items()
                if name not in cube.coords or not _same(cube[name].values, labels)
            ]
        report.problems += [
            f"{name} is not what its spec gives"
            for name in sorted(written.keys() | files.keys())
            if name.endswith(ROOT) and files.get(name) != written.get(name)
        ]
        if plan.engine == SINGLE:
            report.notes.append(f"no samples: {SINGLE} has digits of its own ({FLOAT32_PAGE})")
        elif not report.problems:
            _compare_samples(contents, plan, samples, seed, report)
    if report.problems:
        report.advice = _REWRITE


def _planned_again(contents: Contents, cube: Result, report: Report) -> tuple[Plan, Writer] | None:
    """The plan of a cube's spec, and what would write it now; None where that cannot be
    compared, as the report then states."""
    with reading(contents.place):
        spec, record = spec_of(cube.attrs), contents.plan or {}
        if not repeats(contents.file_bytes):
            report.problems.append(f"{ROOT} does not repeat the metadata of the arrays")
            return None
        engine, infeasible, dtype = (record[name] for name in ("engine", "infeasible", "dtype"))
        mask = infeasible == "exclude"
        chunks = {
            name.removeprefix("chunks."): tuple(sizes)
            for name, sizes in record.items()
            if name.startswith("chunks.")
        }
        try:
            axes = restored(spec["axes"], cube)
        except InputError:
            raise
        except ValueError as error:
            report.problems.append(str(error))
            return None
        try:
            sweep = Evaluation(result_scenario({**spec, "axes": axes}), axes, spec["outputs"])
            plan, given = sweep._plan(engine, mask), {**spec, "axes": axes}
            writer = Writer(plan, given, dtype, {}, chunks, record.get("compressor", "lz4"))
        except InputError as error:
            report.notes.append(f"no samples: the cube's spec is now refused ({error})")
            return None
    entries = [
        {name: value for name, value in each.items() if name.split(".")[0] in _SPEC}
        for each in (record, writer.fingerprint)
    ]
    if (other := difference(*entries)) is not None:
        report.problems.append(f"its spec is not that of its record: {other}")
    elif (changed := difference(record, writer.fingerprint)) is not None:
        report.notes.append(f"no samples: since the cube was written, this changed: {changed}")
    else:
        return plan, writer
    return None


def _compare_samples(
    contents: Contents, plan: Plan, samples: int, seed: int, report: Report
) -> None:
    """Compare values at random points of every variable with those computed by NumPy."""
    reader = Reader(contents.place, contents.file_bytes)
    random = np.random.default_rng(seed)
    plan = plan.with_engine("numpy")
    for name in plan.outputs:
        dims = plan.out_dims[name]
        with reading(contents.place):
            dtype = reader.arrays[name].dtype
            tolerance = TOLERANCE[str(dtype)]
        for _ in range(samples if dims else 1):
            point = {dim: int(random.integers(plan.sizes[dim])) for dim in dims}
            out = np.empty((1,) * len(dims), np.int8 if tolerance == 0 else np.float64)
            region = {dim: slice(k, k + 1) for dim, k in point.items()}
            evaluate_block(plan, dims, region, {name: out}, 1)
            computed = out.reshape(-1)[0].astype(dtype)
            with reading(contents.place):
                value = float(reader.values(name, [point[dim] for dim in plan.user_dims(name)]))
            report.samples += 1
            if not np.isclose(value, computed, rtol=tolerance, atol=0, equal_nan=True):
                where = ", ".join(f"{dim} {k}" for dim, k in point.items()) or "the one point"
                report.problems.append(f"{name} at {where} is {value!r}, computed {computed!r}")


def _same(stored: Any, labels: Any) -> bool:
    """Whether labels are equal; numbers may differ in the last digits between libraries."""
    stored, labels = np.asarray(stored), np.asarray(labels)
    if stored.shape != labels.shape or stored.dtype.kind not in "iufb" or labels.dtype.kind == "O":
        return bool(stored.tolist() == labels.tolist())
    return bool(np.allclose(stored, labels, rtol=1e-12, atol=0, equal_nan=True))
