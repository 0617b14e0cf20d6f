"""Catalog records: one TOML file per kind, one table per label; strict about unit, source and date.

Published records are not edited. A correction takes over the label with `edition = 2`, and the old
values stay as ["label@1"], where old scenarios find them.
"""

import functools
import hashlib
import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any

from . import huggingface
from .entry import (
    ABOUT,
    FITTED,
    FROM_FILES,
    KINDS,
    LABEL,
    CatalogError,
    Record,
    checked,
    labelled,
    of_table,
)
from .spelling import hint, near
from .user_records import LARGEST_FILE, FileLabel, opened, packaged, text_of, toml_of

CONFIGURED = "model"  # the kind whose records may also be Hugging Face's config.json
AUTO = "auto"  # the calibration inferred from the scenario
NONE = "none"  # no calibration, not even auto
_HEAD = re.compile(rf'^\["?{LABEL.pattern}"?\]', re.MULTILINE)  # where a record begins


_AUTO = Record(
    FITTED,
    AUTO,
    1,
    "found from the scenario's GPU, precision, software and layers",
    "the posterior of all published steps, catalog/data/pooled.json",
    "2026-11-27",
    "its values are those that fleetcube run reports",
    MappingProxyType({"compute_model": "roofline"}),
)
_NONE = Record(
    FITTED,
    NONE,
    1,
    "efficiencies as the scenario states them, or their start values",
    "by definition",
    "2026-11-27",
    "keeps auto from being found where a scenario names no calibration",
    MappingProxyType({}),
)
_INFERRED_OR_NONE = {AUTO: _AUTO, NONE: _NONE}


def kind(name: str) -> Mapping[str, Record]:
    """Current records of a kind, by label. Raises CatalogError for an unknown kind."""
    return _current(_checked_kind(name))


def editions(name: str) -> Mapping[str, Record]:
    """All records of a kind, including superseded ones, by label@edition."""
    return _load(_checked_kind(name))


def record(kind_name: str, label: Any) -> Record:
    """The record of a label or label@edition, or of a file: of FROM_FILES, or a model's
    config.json, which may also be a folder that has one, or the JSON text itself.

    Raises CatalogError, with the nearest label, for an unknown one.
    """
    if kind_name == FITTED and isinstance(label, str) and label in _INFERRED_OR_NONE:
        return _INFERRED_OR_NONE[label]
    if isinstance(label, FileLabel):
        return label.record
    if is_path(kind_name, label):
        return _file(kind_name, label)
    if kind_name == CONFIGURED and isinstance(label, str) and label.startswith("{"):
        named = f"config-{hashlib.sha256(label.encode(errors='replace')).hexdigest()[:8]}.json"
        return _configured(f"{kind_name} {named!r}", named, label)
    current = kind(kind_name)
    if isinstance(label, str) and label in current:
        return current[label]
    every = editions(kind_name)
    if isinstance(label, str) and label in every:
        return every[label]
    if (entry := from_packages(kind_name).get(str(label))) is not None:
        return linked(entry, _packaged())
    choices = list(every if "@" in str(label) else current)
    some = ", ".join(list(current)[:5]) + (
        f", ... (`fleetcube catalog {kind_name}` lists all)" if len(current) > 5 else ""
    )
    advice = _elsewhere(kind_name, label) or hint(
        near(str(label), choices, 0.4), f"choose one of {some}"
    )
    shown = repr(label) if len(repr(label)) <= 60 else f"{repr(label)[:57]}..."
    raise CatalogError(f"{kind_name} = {shown} is not in the catalog; {advice}")


def _elsewhere(kind_name: str, label: Any) -> str:
    """A note on other kinds that have the label; empty if there are none."""
    word = str(label).lower()
    kinds = [name for name in KINDS if word in _current(name) and name != kind_name]
    return f"it is a {' and a '.join(kinds)} (fleetcube catalog {kinds[0]} {word})" if kinds else ""


def is_path(kind_name: str, label: Any) -> bool:
    """Whether a record of FROM_FILES or a model is given as a path; of a model also as a folder."""
    if not isinstance(label, str) or kind_name not in (*FROM_FILES, CONFIGURED):
        return False
    if kind_name in FROM_FILES:
        return label.endswith(".toml")
    return not label.startswith("{") and (label.endswith(".json") or "/" in label)


def from_packages(kind_name: str) -> dict[str, Record]:
    """Records of a kind in installed packages, by label. Raises CatalogError for a bad package."""
    return {
        label: entry.record for (kind, label), entry in _packaged().items() if kind == kind_name
    }


@functools.cache
def _packaged() -> dict[tuple[str, str], FileLabel]:
    return own_labels(packaged())


def own_labels(paths: Iterable[str]) -> dict[tuple[str, str], FileLabel]:
    """Labels of the records in some files, by kind and label. Raises CatalogError."""
    labels: dict[tuple[str, str], FileLabel] = {}
    for file in map(opened, paths):
        for (kind_name, label), entry in file.records.items():
            which = kind_name, label
            replaced = _current(kind_name).get(label)
            if kind_name == FITTED and label in _INFERRED_OR_NONE:
                raise CatalogError(f"{kind_name} {label!r} of {file} is fleetcube's; rename it")
            if which in labels:
                first = labels[which].record.origin
                raise CatalogError(f"{kind_name} {label!r} is in {first} and in {file}; rename one")
            if (replaced is not None) != (which in file.replacing):
                conflict = (
                    f"also of the catalog ({replaced.title})" if replaced else "not of the catalog"
                )
                advice = "rename it, or write replaces = true" if replaced else "leave out replaces"
                raise CatalogError(f"{kind_name} {label!r} of {file} is {conflict}; {advice}")
            labels[which] = FileLabel.from_record(label, entry)
    return labels


def linked(entry: Record, labels: Mapping[tuple[str, str], FileLabel]) -> Record:
    """A record whose own labels (a node's gpu, its fabric) carry the records of `labels`. Raises
    CatalogError where nothing has such a label."""
    record_values = {n: labels.get((n, v), v) for n, v in entry.values.items() if n in KINDS}
    for kind_name, label in record_values.items():
        try:
            record(kind_name, label)
        except CatalogError as error:
            raise CatalogError(f"{entry.kind} {entry.label!r}: {error}") from None
    carried = [
        label.record.origin for label in record_values.values() if isinstance(label, FileLabel)
    ]
    if not carried:
        return entry
    values = MappingProxyType({**entry.values, **record_values})
    return replace(entry, values=values, origin=entry.origin or carried[0])


def json_label(config: Mapping[str, Any]) -> str:
    """A model's configuration as the text that `record` reads. Raises CatalogError."""
    try:
        return json.dumps(config, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise CatalogError(f"{CONFIGURED} is not JSON: {error}; give its config.json") from None


def _file(kind_name: str, path: str) -> Record:
    """The record in a user's file: the table of an entry, without a label, or a config.json."""
    where = f"{kind_name} {path!r}"
    inside = kind_name == CONFIGURED and os.path.isdir(path)
    text = text_of(where, os.path.join(path, "config.json") if inside else path)
    if kind_name == CONFIGURED:
        return _configured(where, path, text)
    return of_table(kind_name, where, path, 1, toml_of(where, text))


@functools.lru_cache(32)
def _configured(where: str, label: str, text: str) -> Record:
    """The record of a model from the text of its config.json."""
    if len(text) > LARGEST_FILE:
        raise CatalogError(f"{where} has more than {LARGEST_FILE:,} letters; give a config.json")
    try:
        table = huggingface.read(text)
    except ValueError as error:
        raise CatalogError(f"{where}: {error}") from None
    about = {name: table.pop(name) for name in ABOUT}
    values = {name: checked(where, name, value) for name, value in table.items()}
    return Record(CONFIGURED, label, 1, **about, values=MappingProxyType(values))


def _checked_kind(name: str) -> str:
    if name not in KINDS:
        labels = [f"{other} {label}" for other in KINDS for label in _current(other)]
        likely = near(str(name), KINDS) or near(str(name), labels, 0.9)
        advice = _elsewhere(name, name) or hint(likely, f"choose one of {', '.join(KINDS)}")
        raise CatalogError(f"there is no catalog kind {name!r}; {advice}")
    return name


class _Named(Mapping[str, Record]):
    """Records by name, each read when it is first asked for."""

    def __init__(self, names: Iterable[str], read: Callable[[str], Record]) -> None:
        self._names, self._read = dict.fromkeys(names), functools.cache(read)

    def __getitem__(self, name: str) -> Record:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@functools.cache
def _load(kind_name: str) -> Mapping[str, Record]:
    """All records of a kind by label@edition; a test reads the files as `read` does, whole."""
    text = file_of(kind_name).read_text(encoding="utf-8")
    heads = list(_HEAD.finditer(text))
    older = Counter(head[1] for head in heads if head[2])
    parts = {
        f"{head[1]}@{head[2] or older[head[1]] + 1}": text[head.start() : end]
        for head, end in zip(heads, [*(h.start() for h in heads[1:]), len(text)], strict=True)
    }

    def one(name: str) -> Record:
        ((key, table),) = tomllib.loads(parts[name]).items()
        return labelled(kind_name, key, table)

    return _Named(parts, one)


def file_of(kind_name: str) -> Traversable:
    return files(__package__).joinpath("data", f"{kind_name}.toml")


@functools.cache
def _current(kind_name: str) -> Mapping[str, Record]:
    every, latest = _load(kind_name), dict[str, str]()
    for name in every:
        label, _, edition = name.partition("@")
        if label not in latest or int(edition) > int(latest[label].partition("@")[2]):
            latest[label] = name
    return _Named(latest, lambda label: every[latest[label]])


def read(kind_name: str, text: str) -> Mapping[str, Record]:
    """Parse the records of one kind, by label@edition.

    Raises CatalogError if a record lacks a unit, source or date, has an unknown key, or editions
    are not numbered 1, 2, ... with the last one under the plain label.
    """
    records: dict[str, Record] = {}
    current: dict[str, int] = {}
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"{kind_name}.toml is not TOML: {error}; fix that line") from None
    for key, table in tables.items():
        entry = labelled(kind_name, key, table)
        if entry.name in records:
            raise CatalogError(f"{kind_name} {key!r}: edition {entry.edition} appears twice")
        records[entry.name] = entry
        if key == entry.label:
            current[key] = entry.edition
    for entry in records.values():
        if entry.edition > current.get(entry.label, 0):
            raise CatalogError(
                f"{kind_name} {entry.name!r} supersedes [{entry.label}]; write the latest edition "
                f"as [{entry.label}] with edition = {entry.edition}"
            )
    for label, edition in current.items():
        for number in range(1, edition):
            if f"{label}@{number}" not in records:
                raise CatalogError(
                    f"{kind_name} {label!r} is edition {edition}; "
                    f'keep edition {number} as ["{label}@{number}"]'
                )
    return MappingProxyType(records)
