"""Check a cube: every file against its checksum, and samples by recomputing them."""

import json
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zarr

from ..errors import InputError
from ..plan.execute import evaluate_block
from ..plan.fingerprint import asked, difference
from ..plan.written import as_it_was, restored
from ..progress import expected
from ..run.evaluation import Evaluation
from .cube import (
    added,
    check_sealed,
    damage,
    is_ours,
    layout_of,
    open_cube,
    reading,
    sealed_files,
    spec_of,
)
from .journal import read_journal, read_record
from .layout import LAYOUT, repeats
from .names import PLAN, ROOT
from .places.address import place_of
from .places.place import Place
from .sealed import SealedStore
from .writer import Writer

_SPEC = ("scenario", "axes", "outputs")  # entries of a record that repeat the spec
_REWRITE = "its bytes are as sealed: write it again with --overwrite"
TOLERANCE = {"float64": 1e-12, "float32": 1.2e-7, "int8": 0.0}  # relative


@dataclass
class Report:
    """Result of `verify`: a sound cube has no problems."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    chunks: int = 0
    samples: int = 0
    advice: str = "`run --resume` of its sweep repairs it"


def verify(path: str | os.PathLike[str], samples: int = 16, seed: int = 0) -> Report:
    """Check a cube. Raises InputError if there is none.

    Every chunk is compared with its size and crc32c, every other file with its sha256; missing and
    foreign files are found, and labels compared with those of the spec. Then the spec is
    reevaluated, with NumPy, at `samples` points of every variable, to 1e-12 (float32: to its last
    bit), and the files other than chunks must be what would be written now. If formulas, catalog or
    version differ, this is noted and neither is compared.
    """
    place = place_of(path)
    if str(place).endswith(".partial"):
        raise InputError(f"{str(place)!r} is not complete; `run --resume` finishes it")
    if not is_ours(place) and not place.exists():
        raise InputError(f"there is no cube {str(place)!r}; name a place that `run` wrote to")
    check_sealed(place)
    layout = layout_of(place)
    report = Report()
    report.chunks = sum(len(block.files) for block in read_journal(place).values())
    report.problems = damage(place, expected(report.chunks, "chunks"))
    if names := added(place):
        report.advice = (
            f"another program added {names}; `open_cube(CUBE, verify=False)` reads it as it is"
        )
    if not report.problems:
        _compare(place, layout or 0, samples, seed, report)
    return report


def _compare(place: Place, layout: int, samples: int, seed: int, report: Report) -> None:
    """Compare a cube whose bytes are sound with its own spec."""
    cube = open_cube(str(place))
    with reading(place):
        files = sealed_files(place)
        store = SealedStore(place.source(), place, files)
        group = zarr.open_group(store, mode="r", use_consolidated=False)
        spec = spec_of(cube.attrs)
        if not repeats(files):
            report.problems.append(f"{ROOT} does not repeat the metadata of the arrays")
            report.advice = _REWRITE
            return
        record = read_record(place, PLAN) or {}
        engine, infeasible, dtype = (record[name] for name in ("engine", "infeasible", "dtype"))
        mask = infeasible == "exclude"
        chunks = {
            name.removeprefix("chunks."): tuple(sizes)
            for name, sizes in record.items()
            if name.startswith("chunks.")
        }
    with reading(place):
        said = asked(spec)
        try:
            axes = restored(spec["axes"], cube)
        except InputError:
            raise
        except ValueError as error:
            report.problems.append(str(error))
            report.advice = _REWRITE
            return
        try:
            spec = {**spec, "axes": axes}
            sweep = Evaluation(as_it_was(spec), axes, spec["outputs"])
            writer = Writer(sweep._plan(engine, mask), spec, dtype, {}, chunks)
        except InputError as error:
            report.notes.append(f"no samples: the cube's spec is now refused ({error})")
            return
        others = [
            f"the labels {name!r} are not those of its spec"
            for name, (_, labels, _) in writer.coordinates().items()
            if name not in cube.coords or not _same(cube[name].values, labels)
        ]
    own = [
        {name: value for name, value in entries.items() if name.split(".")[0] in _SPEC}
        for entries in (record, writer.fingerprint)
    ]
    if layout == 0:  # its record has the spec as written, and tables in another order
        own = [json.loads(json.dumps(entries, sort_keys=True)) for entries in (own[0], said)]
    if (other := difference(*own)) is not None:
        report.problems.append(f"its spec is not that of its record: {other}")
        report.advice = _REWRITE
        return
    changed = difference(record, writer.fingerprint)
    if layout < LAYOUT:
        report.notes.append(f"no samples: the cube is of an older fleetcube, in layout {layout}")
        return
    if changed is not None:
        report.notes.append(f"no samples: since the cube was written, this changed: {changed}")
        return
    report.problems += others
    with reading(place):
        written = writer.files
    report.problems += [
        f"{name} is not what its spec gives"
        for name in sorted(written.keys() | files.keys())
        if name.endswith(ROOT) and files.get(name) != written.get(name)
    ]
    if report.problems:
        report.advice = _REWRITE
        return
    plan = sweep._plan("numpy", mask)
    random = np.random.default_rng(seed)
    for name in plan.outputs:
        dims = plan.out_dims[name]
        with reading(place):
            array: Any = group[name]
            tolerance = TOLERANCE[str(array.dtype)]
        for _ in range(samples if dims else 1):
            at = {dim: int(random.integers(plan.sizes[dim])) for dim in dims}
            out = np.empty((1,) * len(dims), np.int8 if tolerance == 0 else np.float64)
            region = {dim: slice(k, k + 1) for dim, k in at.items()}
            evaluate_block(plan, dims, region, {name: out}, 1)
            expected = out.reshape(-1)[0].astype(array.dtype)
            with reading(place):
                cell = array[tuple(at[dim] for dim in plan.user_dims(name)) or ...]
                value = np.asarray(cell, float).item()
            report.samples += 1
            if not np.isclose(value, expected, rtol=tolerance, atol=0, equal_nan=True):
                where = ", ".join(f"{dim} {k}" for dim, k in at.items()) or "the one point"
                report.problems.append(f"{name} at {where} is {value!r}, computed {expected!r}")
                report.advice = _REWRITE


def _same(stored: Any, labels: Any) -> bool:
    """Whether labels are equal; numbers may differ in the last digits between libraries."""
    stored, labels = np.asarray(stored), np.asarray(labels)
    if stored.shape != labels.shape or stored.dtype.kind not in "iufb" or labels.dtype.kind == "O":
        return bool(stored.tolist() == labels.tolist())
    return bool(np.allclose(stored, labels, rtol=1e-12, atol=0, equal_nan=True))
