"""Primus's YAML: the model's file and what changes of it, as arguments of Megatron-LM."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleetcube.catalog.records import kind
from fleetcube.grid.errors import InputError
from fleetcube.grid.spec.bounded import read_bytes

from . import torchtitan
from .renamed import Renamed, job, renamed
from .table import NOTHING, Job
from .trees import LARGEST, flat, parsed

NAME = "megatron-lm"
_TRAINERS = ("megatron", torchtitan.NAME)
_DEFAULT = re.compile(r"\$\{(\w+):([^${}]*)\}")
# What a trainer of torchtitan is by default: primus/configs/modules/torchtitan/pre_trainer.yaml
_OF_TORCHTITAN = {"activation_checkpoint.mode": "none", "compile.enable": True}
_BASE = "language_model.yaml"  # what models are by default
_MOST_ABOVE, _MOST_FILES = 8, 16  # folders above a file, and files that it extends


def of() -> Renamed:
    return renamed("primus")


def is_own(text: str, path: str) -> bool:
    """Whether a text has a trainer of Primus."""
    del path
    return bool(re.search(r"^ +(pre|sft|post)_trainer:", text, re.M)) and "overrides:" in text


def read(text: str, path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of a YAML. Raises InputError."""
    trainer = _trainer(parsed(_DEFAULT.sub(r"\2", text), path, "yaml"), path)
    changes = trainer.get("overrides")
    said = {} if not isinstance(changes, Mapping) else flat(changes)
    names = [str(trainer.get(name)) for name in ("config", "model")]
    if trainer["framework"] == torchtitan.NAME:
        return _of_torchtitan(said, names[1], path, given)
    kinds = zip(("modules", "models", "models"), [*names, _BASE], strict=True)
    settings, model, base = (
        _beside(path, f"primus/configs/{folder}/megatron", name) for folder, name in kinds
    )
    usual, now = {**settings, **base}, {**settings, **model, **said}
    made = job(now, path, of(), given)
    label = _label(names[1].removesuffix(".yaml"))
    if "model" in made.asked:
        if label is None or _dashed(said) & {*of().model, "multi-latent-attention"}:
            made.asked["model"] = f"its file {names[1][:60]} is not beside it"
        else:
            made = _with_model(job(now, path, of(), {**given, "model": label}), label)
    for name in [name for name in made.unknown if usual.get(name) == now.get(name)]:
        del made.unknown[name]  # as it is by default
    return made


def _with_model(made: Job, label: str) -> Job:
    made.read["model"] = f"model = {label}"
    return made


def _of_torchtitan(said: Mapping[str, Any], name: str, path: str, given: Mapping[str, Any]) -> Job:
    """The job of torchtitan's fields; the model's by its file, or by the catalog."""
    own = _beside(path, "primus/configs/models/torchtitan", name)
    fields = {**_OF_TORCHTITAN, **own, **said}
    made = torchtitan.made(fields, path, given)
    label = _label(name.removesuffix(".yaml"))
    changed = any(name.startswith("model.") for name in made.unknown)
    if "model" in made.asked and label is not None and not changed:
        made = _with_model(torchtitan.made(fields, path, {**given, "model": label}), label)
    return made


def _label(name: str) -> str | None:
    """The catalog's record of a model's file: of the same letters and digits, or by the table."""

    def plain(text: str) -> str:
        return re.sub(r"_v0\.1$|\W|_", "", text.lower())

    same = (label for label in kind("model") if plain(label) == plain(name))
    return of().models.get(name) or next(same, None)


def _dashed(said: Mapping[str, Any]) -> set[str]:
    return {name.replace("_", "-") for name, value in said.items() if value is not None}


def _trainer(tree: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The trainer of a file. Raises InputError."""
    modules = tree.get("modules")
    trainers = modules.values() if isinstance(modules, Mapping) else ()
    for trainer in trainers:
        if isinstance(trainer, Mapping) and trainer.get("framework") in _TRAINERS:
            return trainer
    some = " or ".join(_TRAINERS)
    raise InputError(f"{path!r} has no trainer with framework: {some}; give one that has")


def _beside(path: str, folder: str, name: str) -> dict[str, Any]:
    """Fields of a file of Primus's repository, where the one that is read lies in it, and of those
    that it extends; no others are opened."""
    above = Path(path).absolute().parents[:_MOST_ABOVE]
    rows: list[dict[str, Any]] = []
    left, seen = [name], set[str]()
    while left and len(seen) < _MOST_FILES:
        name = left.pop(0)
        plain = name not in seen and re.fullmatch(r"[\w.+-]{1,100}\.yaml", name)
        places = [each / folder / name for each in above] if plain else []
        seen.add(name)
        for file in [place for place in places if place.is_file()][:1]:
            data = read_bytes(str(file), LARGEST, "a file of Primus", "give one job's file")
            text = _DEFAULT.sub(r"\2", data.decode(errors="replace"))
            tree = parsed(text, str(file), "yaml")
            more = tree.pop("extends", None) or tree.pop("bases", None)
            left += map(str, reversed(more[:_MOST_FILES] if isinstance(more, list) else []))
            rows.insert(0, flat(tree))
    return {key: value for row in rows for key, value in row.items()}
