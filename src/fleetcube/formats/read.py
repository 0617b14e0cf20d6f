"""Read a spec from any supported file: a spec, a model's config.json, or a framework's file."""

import contextlib
import itertools
import json
import math
import re
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from fleetcube.catalog import KINDS, CatalogError, record
from fleetcube.catalog.files import expanded
from fleetcube.catalog.huggingface import COUNTS
from fleetcube.grid.errors import InputError, OpenError, nearest
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.distributions import is_distribution
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.scenario import patterns, spec_file
from fleetcube.scenario.along_axes import values_at
from fleetcube.scenario.bounded import read_bytes

from .field_table import NOTHING, REPLICA, Job, listed, values_of, whole

OUTPUTS = ("step_time", "mfu", "memory_per_gpu", "job_time")  # of a file that names none
_LARGEST = 1 << 20  # bytes of a file
_GIVE = "a spec, a config.json, or a framework's file"
_MOST_READ = 256  # times that a file is read, for values of axes
_ANY = (1, 2, 64)  # stand for all values of an input without a known one
_EXAMPLE = "example:"
_BLOCKS = re.compile(r"""^[^#\n]*\bCUDA_LAUNCH_BLOCKING\s*[=:]\s*["']?(?!0\b|["'\s;&])\S""", re.M)
_ENDINGS = (".toml", ".sh", ".yaml", ".yml", ".json")


def read_spec(path: str | PathLike[str], given: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """Read a spec from any supported file; unknown keys become warnings.

    `given` are the user's inputs, which override those of the file. Raises InputError.
    """
    name = spec_path(fspath(path))
    if (Path(name) / "config.json").is_file() or Path(name).suffix == ".json":
        model = _model(name)
        if model is not None:
            return model
    text = spec_file.text_of(name)
    if _is_spec(text, name):
        return spec_file.tables_of(text, name)
    job = _job_of(text, name, given)
    if job.unknown or job.uncounted or job.remarks:
        warnings.warn(summary(job), stacklevel=1)  # once, whoever asks
    return spec_of(job)


def spec_path(name: str) -> str:
    """A path; for example:NAME the path of that installed example."""
    if not name.startswith(_EXAMPLE):
        return expanded(name)
    folder = resources.files("fleetcube.examples")
    files = {Path(each.name).stem: each for each in folder.iterdir() if each.name[:1].islower()}
    label = name.removeprefix(_EXAMPLE)
    if label not in files:
        raise InputError(f"{name!r} is no example; {nearest(label, files, listed(sorted(files)))}")
    return str(files[label])


def is_file(name: str) -> bool:
    """Whether a word names a file that commands read as a spec."""
    if name.startswith(_EXAMPLE) or Path(name).suffix in _ENDINGS:
        return True
    return ("." in name and Path(name).exists()) or Path(name).is_dir()


def job_at(path: str, given: Mapping[str, Any] = NOTHING) -> Job | None:
    """The job of a framework's file; None for a spec or a config.json. Raises InputError."""
    place = spec_path(path)
    if not Path(place).is_file():
        return None
    if Path(place).suffix == ".json" and _model(place) is not None:
        return None
    text = spec_file.text_of(place)
    return None if _is_spec(text, place) else _job_of(text, path, given)


def read_job(path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """Read a framework's file, field by field. Raises InputError."""
    return _job_of(spec_file.text_of(spec_path(path)), path, given)


def _is_spec(text: str, path: str) -> bool:
    """Whether a text is a spec: by its tables, or by its name if it is no framework's."""
    if spec_file.has_tables(text) or Path(path).suffix != ".toml":
        return spec_file.has_tables(text)
    from . import torchtitan

    return not torchtitan.recognizes(text)


def _readers() -> tuple[Any, ...]:
    """Of each framework's files, in the order in which they are tried; a spec needs none."""
    from . import deepspeed, maxtext, megatron_bridge, megatron_lm, nemo, primus, torchtitan

    return (primus, megatron_bridge, nemo, torchtitan, maxtext, deepspeed, megatron_lm)


def _job_of(text: str, path: str, given: Mapping[str, Any]) -> Job:
    if len(text) > _LARGEST:
        raise InputError(f"{path!r} has more than {_LARGEST:,} letters; give one job's file")
    for reader in _readers():
        if reader.recognizes(text):
            job = _joined(partial(reader.read, text, path), given, path)
            if _BLOCKS.search(text):
                why = "CUDA_LAUNCH_BLOCKING: the host waits for each kernel, which is not counted"
                job.remarks.append(why)
            return job
    frameworks = ", ".join(reader.format_table().framework for reader in _readers())
    raise InputError(
        f"{path!r} is no file that fleetcube reads; give a spec, or a file of {frameworks}"
    )


def _joined(read: Callable[[Mapping[str, Any]], Job], given: Mapping[str, Any], path: str) -> Job:
    """The job of a file and its user's values. An input that follows from inputs with several
    values, or with unknown ones, is left open unless it is the same for all. Raises InputError."""
    rows = _stated(given)
    stated = {name: row[0] for name, row in rows.items() if len(row) == 1}
    job: Job = read(stated)
    names = {*job.scenario, *job.open_inputs, *COUNTS, "n_gpus", "model", "gated_ffn"}
    several = {name: row for name, row in rows.items() if len(row) > 1 and name in names}
    for name, row in several.items():  # what follows from numbers grows or falls with them
        if len(row) > 2 and all(isinstance(each, int | float) for each in row):
            several[name] = [min(row), max(row)]
    if math.prod(map(len, several.values())) > _MOST_READ:
        raise InputError(
            f"{path!r} is read for each value of {listed(several)}, which are too many; give fewer"
        )
    points = [zip(several, point, strict=True) for point in itertools.product(*several.values())]
    jobs = [read({**stated, **dict(point)}) for point in points] if several else [job]
    job = jobs[0]
    for name in dict.fromkeys(name for each in jobs for name in _follows(each)):
        if len({repr(_follows(each).get(name)) for each in jobs}) > 1:
            why = f"it follows from {listed(several)}, which has no one value"
            job.open_inputs.setdefault(name, why)
    job.open_inputs = {name: why for name, why in job.open_inputs.items() if name not in rows}
    job.given = {**given}
    return job


def _follows(job: Job) -> dict[str, Any]:
    """Inputs of a job that the user does not state, with those of its model and the open ones."""
    model = values_of(job.scenario.get("model"))
    if job.config and "model" not in job.given:
        with contextlib.suppress(InputError, CatalogError):
            model = values_of(_config_of(job, job.config))
    inputs = {**model, **job.scenario, **job.open_inputs}
    if inputs.get("pipeline_schedule") == "interleaved":
        del inputs["pipeline_schedule"]  # as 1F1B is with several chunks
    return {name: each for name, each in inputs.items() if name not in {*job.given, "model"}}


def _stated(given: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The user's values by input: one, or all of an axis, which may set several inputs."""
    rows: dict[str, list[Any]] = {}
    for name, entry in given.items():
        if isinstance(entry, Mapping) and not is_distribution(entry) and name not in KINDS:
            for axis in make_axes(PHYSICS, {name: entry}).values():
                points = [values_at(axis, k) for k in range(axis.size)]
                rows |= {key: _values_of(key, [each[key] for each in points]) for key in points[0]}
        else:
            rows[name] = _values_of(name, entry)
    return rows


def _values_of(name: str, entry: Any) -> list[Any]:
    """Stated values of an input, in base units; `_ANY` if none is known."""
    if isinstance(entry, str) and "," in entry and name != patterns.LAYOUT:
        entry = entry.split(",")
    entry = entry.values if hasattr(entry, "dims") else entry
    row = [*entry] if isinstance(entry, list | tuple) or getattr(entry, "ndim", 0) == 1 else [entry]
    if name in KINDS or name == patterns.LAYOUT or not values.is_known(PHYSICS, name):
        return row
    try:
        if values.is_option(PHYSICS, name):
            return [values.option(PHYSICS, name, each) for each in row]
        plain = (each.item() if hasattr(each, "item") else each for each in row)
        return [whole(values.number(PHYSICS, name, each)) for each in plain]
    except InputError:  # a distribution, or a value that is refused later
        return row if values.is_option(PHYSICS, name) else [*_ANY]


def _config_of(job: Job, config: Mapping[str, Any]) -> dict[str, Any]:
    """A model's fields as a config.json that names its framework and its sequences."""
    length = job.scenario.get("sequence_length")
    sequence = {"sequence_length": length} if length else {}
    return {"model_type": job.table.software, **config, **sequence}


def spec_of(job: Job) -> dict[str, Any]:
    """The spec of a framework's file. Raises InputError where it leaves an input open."""
    scenario = {"software": job.table.software, **job.scenario}
    if isinstance(scenario.get("model"), Mapping) or ("model" not in job.given and job.config):
        scenario["model"] = _config_of(job, job.config or scenario["model"])
    if job.open_inputs:
        name, why = next(iter(job.open_inputs.items()))
        more = f" (and {listed([*job.open_inputs][1:])})" if len(job.open_inputs) > 1 else ""
        raise OpenError(f"{job.path!r} leaves {name} open: {why}; give {name}=...{more}")
    scenario = {name: value for name, value in scenario.items() if name not in job.given}
    for name, value in scenario.items():
        is_number = isinstance(value, int | float) and not values.is_option(PHYSICS, name)
        if is_number and (unit := values.unit_of(PHYSICS, name)) != "1":
            scenario[name] = f"{value!r} {unit}"
    return {"outputs": [*OUTPUTS], "scenario": scenario, "axes": {}}


_SHOWN = (*REPLICA, "expert_parallel", "virtual_stages")


def _usual_length(model: Any) -> Any:
    """Tokens of a sequence in a model's record, the default of its scenario."""
    with contextlib.suppress(CatalogError):
        return record("model", model).values.get("sequence_length", "?")
    return "?"


def layout_of(job: Job) -> str:
    """The GPUs, the layout and the batch that a file and its user state, in one line."""
    rows = {name: [entry] for name, entry in job.scenario.items()} | _stated(job.given)
    rows |= {name: ["?"] for name in job.given if job.given[name] is None}
    rows |= {name: ["?"] for name in job.open_inputs}
    if "sequence_length" not in rows and "model" in rows:
        rows["sequence_length"] = list(dict.fromkeys(map(_usual_length, rows["model"])))

    def text(name: str) -> str:
        row = rows.get(name, ["?"])
        return ",".join(f"{whole(n):,}" if isinstance(n, int | float) else str(n) for n in row)

    def one(name: str, usual: float = math.nan) -> float:
        row = rows.get(name, [usual])
        return row[0] if len(row) == 1 and isinstance(row[0], int | float) else math.nan

    gpus, each = one("n_gpus"), one("gpus_per_node")
    replicas = gpus / math.prod(one(name, 1) for name in REPLICA)
    several = [name for name in _SHOWN if rows.get(name, [1]) != [1] or name in REPLICA[:2]]
    shown = [f"{name[0].upper()}P{text(name)}" for name in several]
    shown += [f"DP{whole(replicas):,}"] if replicas == replicas else []
    nodes = f" in {whole(gpus / each):,} nodes of {each:,}" if gpus / each > 1 else ""
    plural = "s" * (one("global_batch_size") != 1)
    batch = f"{text('global_batch_size')} sequence{plural} of {text('sequence_length')}"
    micro = f" in micro-batches of {text('micro_batch_size')}"
    cluster = f"{text('n_gpus')} GPU{'s' * (gpus != 1)}{nodes}"
    return f"{job.path}: {cluster}; {' '.join(shown)}; {batch}{micro}"


def summary(job: Job) -> str:
    """Summary of a file that was read, in one line."""
    parts = [f"{job.path}: {job.table.framework}, {len(job.read)} fields read"]
    parts += [f"{len(job.ignored)} change nothing"] if job.ignored else []
    parts += [f"known and not counted: {listed(job.uncounted)}"] if job.uncounted else []
    parts += [f"not understood: {listed(map(job.with_likely, job.unknown))}"] if job.unknown else []
    return "; ".join([", ".join(parts[:2]), *parts[2:], *job.remarks])


def field_report(job: Job) -> list[str]:
    """All fields of a file with their fate, line by line."""
    groups = {
        f"Read from {job.path} ({job.table.framework}, {job.table.version})": job.read,
        "Change nothing that is computed": job.ignored,
        "Known and not counted, with what they change": job.uncounted,
        "Not understood, not counted": job.unknown,
        "Left open": job.open_inputs,
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
