"""Read what stands where a spec may: a spec, a model's config.json, or a file of a framework."""

import json
import warnings
from collections.abc import Collection
from importlib import resources
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ..errors import InputError, nearest
from ..spec import file
from ..spec.bounded import read_bytes
from . import megatron_lm, shell
from .table import Job, listed

FORMATS: tuple[Any, ...] = (megatron_lm,)  # asked in this order whether a text is theirs
OUTPUTS = ("step_time", "mfu", "memory_per_gpu", "job_time")  # of a file that names none
_GIVE = "a spec, a config.json, or a framework's file"
_VOCABULARY = "vocab_size"
_EXAMPLE = "example:"


def read_spec(path: str | PathLike[str], given: Collection[str] = ()) -> dict[str, Any]:
    """The tables of a spec, whatever says them; what is not understood is a warning.

    `given` are inputs that are stated elsewhere, which the file may leave open. Raises InputError.
    """
    name = located(fspath(path))
    if (Path(name) / "config.json").is_file() or Path(name).suffix == ".json":
        model = _model(name)
        if model is not None:
            return model
    elif Path(name).suffix == ".toml":
        return file.read_spec(name)
    job = read_job(name)
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
    return (
        name.startswith(_EXAMPLE)
        or name.endswith(".toml")
        or ("." in name and Path(name).is_file())
        or Path(name).is_dir()
    )


def is_of_framework(path: str) -> bool:
    """Whether a file is neither a spec nor a model's config.json."""
    return Path(path).is_file() and Path(path).suffix not in (".toml", ".json")


def read_job(path: str) -> Job:
    """What a framework's file says, field by field. Raises InputError."""
    data = read_bytes(path, shell.LARGEST, _GIVE, "give one job's file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path!r} is not text; give {_GIVE}") from None
    for of in FORMATS:
        if of.is_own(text, path):
            job: Job = of.read(text, path)
            return job
    known = ", ".join(of.of().framework for of in FORMATS)
    raise InputError(f"{path!r} is of no kind that is read; give a spec, or a file of {known}")


def spec_of(job: Job, given: Collection[str] = ()) -> dict[str, Any]:
    """The spec of a framework's file. Raises InputError where it leaves an input open."""
    scenario = {"software": job.table.software, **job.scenario}
    if "model" not in given and job.config:
        config: dict[str, Any] = {"model_type": job.table.software, **job.config}
        length = scenario.get("sequence_length")
        config |= {"sequence_length": length} if length else {}
        if _VOCABULARY in given:
            config.setdefault(_VOCABULARY, 1)  # the one given counts
        scenario["model"] = config
    open_ = {name: why for name, why in job.asked.items() if name not in given}
    if "model" in given:
        open_.pop(_VOCABULARY, None)
    if open_:
        name, why = next(iter(open_.items()))
        more = f" (and {listed([*open_][1:])})" if len(open_) > 1 else ""
        raise InputError(f"{job.path!r} leaves {name} open: {why}; give {name}=...{more}")
    return {"outputs": [*OUTPUTS], "scenario": scenario, "axes": {}}


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
        data = read_bytes(path, shell.LARGEST, _GIVE, "give a config.json")
        try:
            table = json.loads(data)
        except (ValueError, RecursionError):
            return {"outputs": [*OUTPUTS], "scenario": {"model": path}, "axes": {}}  # refused there
        if not isinstance(table, dict) or not {"model_type", "architectures"} & table.keys():
            return None
    scenario = {"model": str(Path(path).absolute())}
    return {"outputs": [*OUTPUTS], "scenario": scenario, "axes": {}}
