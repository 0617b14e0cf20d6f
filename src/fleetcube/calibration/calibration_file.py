"""Calibration files: a fit as a record that a spec can name."""

import datetime
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fleetcube.catalog import KINDS
from fleetcube.catalog.entry import unit
from fleetcube.grid.errors import InputError, check_path
from fleetcube.grid.store.places.durable import sync_folder, write_file
from fleetcube.kernels.declare import written
from fleetcube.tables.tables import scale

from .fit import UNITS, CollectiveFit, Fit
from .steps import StepFit
from .update import Update


def all_reduce_values(
    fit: CollectiveFit, scope: str, gpus_per_node: int
) -> tuple[dict[str, Any], dict[str, float]]:
    """The inputs set by a fitted all-reduce, and their standard errors. Between nodes, the
    bandwidth of the law is that of a whole node, as the rings of a node's GPUs share its links; the
    input is that of one GPU. Raises InputError for other collectives."""
    if fit.collective != "all_reduce":
        raise InputError(
            f"a calibration describes all-reduces, not {fit.collective}; "
            "give a log of all_reduce_perf"
        )
    if not math.isfinite(fit.values["bandwidth"]):
        raise InputError(
            "the log does not determine the bandwidth, which a calibration needs; "
            "measure larger messages (-e 8G)"
        )
    names = {"latency": f"{scope}_node_latency", "bandwidth": f"{scope}_node_bandwidth"}
    names["sqrt_coefficient"] = "sqrt_coefficient"
    divisors = {"bandwidth": gpus_per_node if scope == "inter" else 1}
    values: dict[str, Any] = {"all_reduce": "fitted"}
    values |= {names[name]: fit.values[name] / divisors.get(name, 1) for name in names}
    errors = {
        names[name]: fit.standard_errors[name] / divisors.get(name, 1)
        for name in names
        if math.isfinite(fit.standard_errors[name])
    }
    return values, errors


def step_values(fit: StepFit) -> dict[str, Any]:
    """Values set by a fit of steps: the inputs fitted, their conditions, and the interval."""
    values: dict[str, Any] = dict(fit.values)
    if isinstance(fit, Update):
        values |= {**fit.carried, **fit.choices}
    if fit.error_factor is not None:
        values["error_factor"] = _up(fit.error_factor)
    return values


def jobs_of(fit: StepFit) -> list[dict[str, Any]]:
    """Properties that the steps of each job share in addition to the values, as in a file."""
    jobs = fit.jobs if isinstance(fit, Update) else ()
    return [
        {
            **job.of,
            "step_time_factor": _rounded(job.factor, 6),
            "error_factor": _up(job.error_factor),
        }
        for job in jobs
    ]


def _up(factor: float) -> float:
    return math.ceil(1000 * factor) / 1000


def about_fit(fit: Fit) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if isinstance(fit, CollectiveFit):
        about |= {"collective": fit.collective, "ranks": fit.ranks}
        about |= {"smallest_message": f"{fit.sizes.min():.0f} B"}
        about |= {"largest_message": f"{fit.sizes.max():.0f} B"}
    about |= {"rows": fit.rows, "rows_dropped": sum(fit.dropped.values())}
    about |= {
        "median_error": _rounded(fit.median_error, 3),
        "max_error": _rounded(fit.max_error, 3),
    }
    if isinstance(fit, Update):
        about |= {"published_steps": fit.digest[:16], "steps_of": fit.cell.name}
        about |= {"noise": _rounded(fit.noise, 3), "correlations": _below_diagonal(fit)}
        if fit.kernels:
            about["kernels"] = {name: _rounded(one, 4) for name, one in fit.kernels.items()}
    return about | ({"at_bound": list(fit.at_bound)} if fit.at_bound else {})


def _below_diagonal(fit: Update) -> list[list[float]]:
    """Correlations in the order of a file's standard errors."""
    names = [*fit.standard_errors]
    order = [names.index(name) for name in sorted(names, key=_order)]
    cells = fit.correlations[np.ix_(order, order)]
    return [[_rounded(float(cell), 3) for cell in row[:k]] for k, row in enumerate(cells)]


def text(
    about: Mapping[str, str],
    values: Mapping[str, Any],
    errors: Mapping[str, float],
    fit: Mapping[str, Any],
    label: str = "",
    jobs: Sequence[Mapping[str, Any]] = (),
) -> str:
    """A calibration as TOML: a file, or the record of a label."""
    prefix = f"{label}." if label else ""
    lines = [f"[{label}]"] if label else []
    lines += [f"{name} = {quoted(value)}" for name, value in about.items()]
    lines += [f"{name} = {_written(name, values[name], 6)}" for name in sorted(values, key=_order)]
    for job in jobs:
        texts = {n: quoted(v) if isinstance(v, str) else f"{v:.12g}" for n, v in job.items()}
        lines += ["", "[[jobs]]", *(f"{name} = {value}" for name, value in texts.items())]
    lines += ["", f"[{prefix}standard_errors]"]
    lines += [f"{name} = {_written(name, errors[name], 3)}" for name in sorted(errors, key=_order)]
    lines += ["", f"[{prefix}fit]"]
    for name, value in fit.items():
        shown = json.dumps(value) if isinstance(value, list) else value
        if isinstance(value, dict):
            shown = f"{{ {', '.join(f'{n} = {v}' for n, v in value.items())} }}"
        lines.append(f"{name} = {quoted(value) if isinstance(value, str) else shown}")
    return "\n".join(lines) + "\n"


def units(name: str) -> str:
    """Base unit of a fitted coefficient of the law or of an input."""
    return UNITS[name] if name in UNITS else str(unit(name))


def _order(name: str) -> int:
    return KINDS["calibration"].index(name)


def _written(name: str, value: Any, digits: int) -> str:
    """A value in a record's notation: a number with its unit, or a choice."""
    base = unit(name)
    if not isinstance(base, str):
        return quoted(value) if isinstance(value, str) else written(value)
    if base == "1":
        return str(_rounded(value, digits))
    factor, shown = scale(base, value, name)
    return quoted(f"{_rounded(value / factor, digits)} {shown}")


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def quoted(text: str) -> str:
    """A string literal valid in both TOML and JSON."""
    # "replace" for lone surrogates; TOML, unlike JSON, requires DEL escaped
    encodable = text.encode("utf-8", "replace").decode()
    return json.dumps(encodable, ensure_ascii=False).replace("\x7f", "\\u007f")


def check_target(path: Path, overwrite: bool, endings: Sequence[str] = (".toml",)) -> None:
    """Refuse a path to which no calibration file, or none with these endings, can be written."""
    if path.suffix not in endings:
        raise InputError(f"{str(path)!r} does not end in {' or '.join(endings)}; change its ending")
    check_path(path)
    if path.exists() and not (overwrite and path.is_file()):
        raise InputError(f"{str(path)!r} exists; choose another name, or --overwrite")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}; make it first")
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write into {str(folder)!r}; choose another folder")


def write(path: Path, content: str) -> None:
    """Write a file atomically. Raises OSError."""
    write_file(path.absolute().parent, path.name, content.encode())
    sync_folder(path.absolute().parent)  # the file is synced, its name in the folder not yet


def about_file(fit: Fit, log: str, subject: str) -> dict[str, str]:
    """Title, source, date and note of a file written by the command."""
    today = datetime.date.today().isoformat()
    return {
        "title": f"{subject}, from {Path(log).name}",
        "source": f"fleetcube calibrate {log}",
        "date": today,
        "note": f"fitted to {fit.rows} measurements, median error {100 * fit.median_error:.2g} %",
    }
