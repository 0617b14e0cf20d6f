"""Read what stands where a spec may: a spec, a model's config.json, or a file of a framework."""

import json
import warnings
from collections.abc import Collection, Mapping
from importlib import resources
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ...kernels.physics.inputs import INPUTS
from ..errors import InputError, nearest
from ..spec import file
from ..spec.bounded import read_bytes
from . import (
    deepspeed,
    maxtext,
    megatron_bridge,
    megatron_lm,
    megatron_yaml,
    nemo,
    primus,
    torchtitan,
)
from .table import Job, listed, whole

# Asked in this order whether a text is theirs
FORMATS: tuple[Any, ...] = (
    *(primus, megatron_yaml, megatron_bridge, nemo, torchtitan, maxtext),
    *(deepspeed, megatron_lm),
)
OUTPUTS = ("step_time", "mfu", "memory_per_gpu", "job_time")  # of a file that names none
_LARGEST = 1 << 20  # bytes of a file
_GIVE = "a spec, a config.json, or a framework's file"
_VOCABULARY, _GPUS = "vocab_size", "n_gpus"
_EXAMPLE = "example:"
_ENDINGS = (".toml", ".sh", ".yaml", ".yml", ".json")


def read_spec(path: str | PathLike[str], given: Collection[str] = ()) -> dict[str, Any]:
    """The tables of a spec, whatever says them; what is not understood is a warning.

    `given` are inputs that are stated elsewhere, which the file may leave open. Raises InputError.
    """
    name = located(fspath(path))
    if (Path(name) / "config.json").is_file() or Path(name).suffix == ".json":
        model = _model(name)
        if model is not None:
            return model
    text = file.text_of(name)
    if _is_spec(text, name):
        return file.tables_of(text, name)
    job = _job_of(text, name)
    if job.unknown or job.remarks:
        warnings.warn(summary(job), stacklevel=1)  # once, whoever asks
    return spec_of(job, given)


def located(name: str) -> str:
    """A path; that of an example that is installed, for example:NAME."""
    if not name.startswith(_EXAMPLE):
        return name
    folder = resources.files("fleetcube.examples")
    files = {Path(each.name).stem: each for each in folder.iterdir() if each.name[:1].islower()}
    label = name.removeprefix(_EXAMPLE)
    if label not in files:
        raise InputError(f"{name!r} is no example; {nearest(label, files, listed(sorted(files)))}")
    return str(files[label])


def is_file(name: str) -> bool:
    """Whether a word names a file that may stand for a spec."""
    told = name.startswith(_EXAMPLE) or Path(name).suffix in _ENDINGS
    return told or ("." in name and Path(name).exists()) or Path(name).is_dir()


def job_at(path: str) -> Job | None:
    """The job of a framework's file; None for a spec or a config.json. Raises InputError."""
    place = located(path)
    if not Path(place).is_file():
        return None
    if Path(place).suffix == ".json" and _model(place) is not None:
        return None
    text = file.text_of(place)
    return None if _is_spec(text, place) else _job_of(text, path)


def read_job(path: str) -> Job:
    """What a framework's file says, field by field. Raises InputError."""
    return _job_of(file.text_of(located(path)), path)


def _is_spec(text: str, path: str) -> bool:
    """Whether a text is a spec: by its tables, or by its name where it is no framework's."""
    return file.has_tables(text) or (
        Path(path).suffix == ".toml" and not torchtitan.is_own(text, path)
    )


def _job_of(text: str, path: str) -> Job:
    if len(text) > _LARGEST:
        raise InputError(f"{path!r} has more than {_LARGEST:,} letters; give one job's file")
    for of in FORMATS:
        if of.is_own(text, path):
            job: Job = of.read(text, path)
            return job
    known = ", ".join(dict.fromkeys(of.of().framework for of in FORMATS))
    raise InputError(f"{path!r} is of no kind that is read; give a spec, or a file of {known}")


def spec_of(job: Job, given: Collection[str] = ()) -> dict[str, Any]:
    """The spec of a framework's file. Raises InputError where it leaves an input open."""
    scenario = {"software": job.table.software, **job.scenario}
    if isinstance(scenario.get("model"), Mapping) or ("model" not in given and job.config):
        told = job.config or scenario["model"]
        config: dict[str, Any] = {"model_type": job.table.software, **told}
        length = scenario.get("sequence_length")
        config |= {"sequence_length": length} if length else {}
        if _VOCABULARY in given:
            config.setdefault(_VOCABULARY, 1)  # the one given counts
        scenario["model"] = config
    open_ = {name: why for name, why in job.asked.items() if name not in given}
    gpus = _number(given.get(_GPUS)) if isinstance(given, Mapping) else None
    for name, share in job.of_gpus.items():
        if name not in given and gpus is not None:
            scenario[name] = whole(gpus * share)
        elif name not in given and _GPUS in given:
            open_[name] = f"it is {share:g} times {_GPUS}, which is no one number"
    if "model" in given:
        open_.pop(_VOCABULARY, None)
    if open_:
        name, why = next(iter(open_.items()))
        more = f" (and {listed([*open_][1:])})" if len(open_) > 1 else ""
        raise InputError(f"{job.path!r} leaves {name} open: {why}; give {name}=...{more}")
    scenario = {name: _with_unit(name, value) for name, value in scenario.items()}
    return {"outputs": [*OUTPUTS], "scenario": scenario, "axes": {}}


def _with_unit(name: str, value: Any) -> Any:
    """A number of a field with its unit, which the file does not name."""
    unit = INPUTS[name].unit if name in INPUTS else "1"
    return f"{value!r} {unit}" if isinstance(value, int | float) and unit != "1" else value


def _number(said: Any) -> float | None:
    """A positive number that is stated; None for several or none."""
    try:
        number = float(said)
    except (TypeError, ValueError):
        return None
    return number if 0 < number < 1e30 else None


def summary(job: Job) -> str:
    """What was read of a file, in one line."""
    parts = [f"{job.path}: {job.table.framework}, {len(job.read)} fields read"]
    parts += [f"{len(job.ignored)} change nothing"] if job.ignored else []
    parts += [f"not understood: {listed(job.unknown)}"] if job.unknown else []
    return "; ".join([", ".join(parts[:2]), *parts[2:], *job.remarks])


def told(job: Job) -> list[str]:
    """All fields of a file, with what they became, line by line."""
    groups = {
        f"Read from {job.path} ({job.table.framework}, {job.table.version})": job.read,
        "Change nothing that is computed": job.ignored,
        "Not understood, not counted": job.unknown,
        "Left open": job.asked,
    }
    lines: list[str] = []
    for title, rows in groups.items():
        width = max(map(len, rows), default=0)
        lines += ["", title] if rows else []
        lines += [f"  {name:{min(width, 40)}}  {why}" for name, why in sorted(rows.items())]
    return [*lines[1:], *(f"note: {remark}" for remark in job.remarks)]


def _model(path: str) -> dict[str, Any] | None:
    """A spec of a model alone, where a folder or a JSON file holds a config.json."""
    if Path(path).suffix == ".json":
        data = read_bytes(path, _LARGEST, _GIVE, "give a config.json")
        try:
            table = json.loads(data)
        except (ValueError, RecursionError):
            return {"outputs": [*OUTPUTS], "scenario": {"model": path}, "axes": {}}  # refused there
        if not isinstance(table, dict) or not {"model_type", "architectures"} & table.keys():
            return None
    scenario = {"model": str(Path(path).absolute())}
    return {"outputs": [*OUTPUTS], "scenario": scenario, "axes": {}}
