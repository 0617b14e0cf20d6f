"""Labels of records in a spec: of the catalog, of files, and of the files in `catalog`."""

import fnmatch
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fleetcube.catalog import (
    CONFIGURED,
    KINDS,
    CatalogError,
    FileLabel,
    is_path,
    json_label,
    linked,
    opened,
    own_labels,
    record,
)
from fleetcube.catalog import kind as catalog_kind
from fleetcube.grid.errors import InputError, check_texts
from fleetcube.grid.spec.axis import Axis
from fleetcube.kernels.physics.roles import ORDERED_BY

NAME = "catalog"
ABOUT = "files of your own records, one table [KIND.LABEL] each, whose labels this scenario may use"


def add_user_records(
    scenario: Mapping[str, Any], axes: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A scenario and axes whose labels of own records carry these, and so mean the same anywhere.
    Raises InputError."""
    if not isinstance(scenario, Mapping):
        return scenario, axes
    try:
        files = [opened(path) for path in check_texts(NAME, scenario.get(NAME))]
        labels = own_labels(files)

        def carried(kind: str, label: str) -> str:
            target = labels.get((kind, label), label)
            carries = isinstance(target, FileLabel) or is_path(kind, label)
            if not carries and not (labels and kind == "node"):  # whose parts may be replaced
                return label
            merged = linked(entry := record(kind, target), labels)
            return FileLabel.from_record(label, merged) if carries or merged is not entry else label

        scenario, axes = _with_labels(scenario, carried), _with_labels(axes, carried)
    except CatalogError as error:
        raise InputError(str(error)) from None
    return {**scenario, **({NAME: files} if files else {})}, axes


def family(kind: str, pattern: str, scenario: Mapping[str, Any]) -> list[str]:
    """Labels, also of the scenario's files, that a pattern names: llama-3-*; models by size."""
    labelled = own_labels([opened(path) for path in check_texts(NAME, scenario.get(NAME))])
    records = dict(catalog_kind(kind))
    records |= {n: one.record for (k, n), one in labelled.items() if k == kind}
    if not (labels := fnmatch.filter(records, pattern)):
        raise InputError(f"no {kind} is called {pattern!r}; see `fleetcube catalog {kind}`")
    return sorted(
        labels, key=lambda label: records[label].values.get(ORDERED_BY.get(kind, ""), 0.0)
    )


def record_names(kind: str, labels: Iterable[Any]) -> list[str]:
    """The names of catalog records, with their editions. Raises InputError."""
    try:
        return [record(kind, label).name for label in labels]
    except CatalogError as error:
        raise InputError(str(error)) from None


def label_of(kind: str, entry: Any) -> Any:
    """The label for a model's file or configuration; other tables unchanged. Raises InputError."""
    if kind != CONFIGURED:
        return entry
    if isinstance(entry, os.PathLike):
        return os.fspath(entry)
    try:
        return entry if "values" in entry else json_label(entry)
    except CatalogError as error:
        raise InputError(str(error)) from None


def located(spec: Any, folder: Path) -> Any:
    """A spec, or a part of one, with files of records resolved against a folder."""

    def resolve_record_path(kind: str, label: str) -> str:
        return str(folder.absolute() / label) if kind == NAME or is_path(kind, label) else label

    return _with_labels(spec, resolve_record_path)


def _with_labels(spec: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """A spec, or a part of one, with `change` applied to kinds and labels, and to paths."""
    if isinstance(spec, int | float):  # most of a long axis
        return spec
    if isinstance(spec, str):
        return change(key, spec) if key in (*KINDS, NAME) else spec
    if isinstance(spec, Mapping):
        inside = key in KINDS  # calibration = {values = [...]}
        if inside and "values" not in spec:
            return spec  # a model's configuration
        return {n: _with_labels(part, change, key if inside else n) for n, part in spec.items()}
    if key in KINDS and isinstance(spec, np.ndarray):
        spec = spec.tolist()
    if isinstance(spec, list | tuple):
        return type(spec)(_with_labels(part, change, key) for part in spec)
    if isinstance(spec, Axis):
        return replace(spec, records=_with_labels(spec.records, change))
    return spec
