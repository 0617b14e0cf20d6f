"""Primus's YAML: the model's file and changes to it, as arguments of Megatron-LM."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fleetcube.grid.errors import InputError
from fleetcube.scenario.bounded import read_bytes

from . import torchtitan
from .field_table import NOTHING, Job, catalog_label, table
from .megatron_aliases import renamed_job
from .trees import LARGEST, flat, parsed

NAME = "megatron-lm"
format_table = partial(table, "primus")
_TRAINERS = ("megatron", torchtitan.NAME)
_DEFAULT = re.compile(r"\$\{(\w+):([^${}]*)\}")
# Defaults of a trainer of torchtitan: primus/configs/modules/torchtitan/pre_trainer.yaml
_OF_TORCHTITAN = {"activation_checkpoint.mode": "none", "compile.enable": True}
_BASE = "language_model.yaml"  # defaults of models
_MOST_ABOVE, _MOST_FILES = 8, 16  # folders above a file, and files that it extends


def recognizes(text: str) -> bool:
    """Whether a text has a trainer of Primus."""
    return bool(re.search(r"^ +(pre|sft|post)_trainer:", text, re.M)) and "overrides:" in text


def read(text: str, path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of a YAML. Raises InputError."""
    trainer = _trainer(parsed(_DEFAULT.sub(r"\2", text), path, "yaml"), path)
    changes = trainer.get("overrides")
    changed = flat(changes) if isinstance(changes, Mapping) else {}
    names = [str(trainer.get(name)) for name in ("config", "model")]
    if trainer["framework"] == torchtitan.NAME:
        model = _repository_fields(path, "primus/configs/models/torchtitan", names[1])
        fields = {**_OF_TORCHTITAN, **model, **changed}
        return _with_model(partial(torchtitan.job_from, fields, path), names[1], given, False)
    kinds = zip(("modules", "models", "models"), [*names, _BASE], strict=True)
    settings, model, base = (
        _repository_fields(path, f"primus/configs/{folder}/megatron", name)
        for folder, name in kinds
    )
    usual, now = {**settings, **base}, {**settings, **model, **changed}
    dashed = {name.replace("_", "-") for name, value in changed.items() if value is not None}
    other = bool(dashed & {*format_table().model, "multi-latent-attention"})
    job = _with_model(partial(renamed_job, now, path, format_table()), names[1], given, other)
    if "model" in job.open_inputs:
        job.open_inputs["model"] = f"its file {names[1][:60]} is not in its repository"
    for name in [name for name in job.unknown if usual.get(name) == now.get(name)]:
        del job.unknown[name]  # the default
    return job


def _with_model(
    read: Callable[[Mapping[str, Any]], Job], name: str, given: Mapping[str, Any], other: bool
) -> Job:
    """A job, with the catalog's record of its model if the model's file is missing; `other`: its
    fields change that model."""
    job, name = read(given), name.removesuffix(".yaml")
    label = format_table().models.get(name) or catalog_label(name)
    other = other or any(field.startswith("model.") for field in job.unknown)
    if "model" in job.open_inputs and label is not None and not other:
        job = read({**given, "model": label})
        job.read["model"] = f"model = {label}"
    return job


def _trainer(tree: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The trainer of a file. Raises InputError."""
    modules = tree.get("modules")
    trainers = modules.values() if isinstance(modules, Mapping) else ()
    for trainer in trainers:
        if isinstance(trainer, Mapping) and trainer.get("framework") in _TRAINERS:
            return trainer
    some = " or ".join(_TRAINERS)
    raise InputError(f"{path!r} has no trainer with framework: {some}; give one that has")


def _repository_fields(path: str, folder: str, name: str) -> dict[str, Any]:
    """Fields of a file of Primus's repository, where the one that is read lies in it, and of those
    that it extends; no others are opened."""
    above = Path(path).absolute().parents[:_MOST_ABOVE]
    rows: list[dict[str, Any]] = []
    left, opened = [name], set[str]()
    while left and len(opened) < _MOST_FILES:
        name = left.pop(0)
        plain = name not in opened and re.fullmatch(r"[\w.+-]{1,100}\.yaml", name)
        places = [each / folder / name for each in above] if plain else []
        opened.add(name)
        for file in [place for place in places if place.is_file()][:1]:
            data = read_bytes(str(file), LARGEST, "a file of Primus", "give one job's file")
            text = _DEFAULT.sub(r"\2", data.decode(errors="replace"))
            tree = parsed(text, str(file), "yaml")
            more = tree.pop("extends", None) or tree.pop("bases", None)
            left += map(str, reversed(more[:_MOST_FILES] if isinstance(more, list) else []))
            rows.insert(0, flat(tree))
    return {key: value for row in rows for key, value in row.items()}
