"""Appending to a cube: an axis gets more labels after those it has; what is there is kept."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..plan.fingerprint import difference
from .journal import PLAN, Block, read_journal, read_record
from .places.place import Place
from .writer import Writer

if TYPE_CHECKING:
    import xarray

_MAY_JOIN = ("catalog.", "formula.", "default.")  # what new labels bring


def held_record(place: Place) -> dict[str, Any]:
    """What a complete cube was written from. Raises InputError where it cannot be told."""
    held = read_record(place, PLAN)
    if held is None:
        raise InputError(
            f"the record in {str(place)!r} is damaged, so that nothing can be appended; "
            "say --overwrite to write it anew"
        )
    return held


def engine_of(place: Place) -> str:
    """The engine that computed a complete cube: the one that goes on; else "auto"."""
    return str((read_record(place, PLAN) or {"engine": "auto"})["engine"])


def check_grows(place: Place, record: Mapping[str, Any], writer: Writer) -> None:
    """Refuse a sweep that is not that of a cube with labels added at the end of its axes."""
    from .cube import open_cube

    new, before = writer.fingerprint, open_cube(str(place))
    if all(record[part] == new[part] for part in ("outputs", "axes")):
        _check_dimensions(place, before, writer)
    axes = {f"axes.{name}" for name in new["axes"]} if record["axes"] == new["axes"] else set()
    old = {name: value for name, value in record.items() if name not in axes}
    now = {
        name: value
        for name, value in new.items()
        if name not in axes and (name in record or not name.startswith(_MAY_JOIN))
    }
    changed = difference(old, now)
    if changed is not None:
        raise InputError(
            f"nothing can be appended to {str(place)!r}, for this changed: {changed}; "
            "only labels at the end of an axis may be added"
        )
    _check_labels(place, before, writer)


def _check_dimensions(place: Place, before: "xarray.Dataset", writer: Writer) -> None:
    for name in writer.plan.outputs:
        own, had = writer.plan.user_dims(name), before[name].dims
        if had != own:
            raise InputError(
                f"nothing can be appended to {str(place)!r}: with the new labels {name} depends "
                f"on {', '.join(own)}, and before on {', '.join(map(str, had))}; "
                "choose another name"
            )


def _check_labels(place: Place, before: "xarray.Dataset", writer: Writer) -> None:
    after = writer.coordinates()
    for name, (_, labels, _) in after.items():
        had = np.asarray(before[name].values)
        kept = np.asarray(labels)[: had.size]
        if had.size > len(labels):
            raise InputError(f"{name} has {had.size} labels in {str(place)!r}; keep them all")
        for k, (was, now) in enumerate(zip(had.tolist(), kept.tolist(), strict=True)):
            if was != now:
                raise InputError(
                    f"label {k + 1} of {name} is {_told(was)} in {str(place)!r} and now "
                    f"{_told(now)}; "
                    "keep the labels that are there and add new ones after them"
                )


def _told(label: Any) -> str:
    return f"{label:.17g}" if isinstance(label, float) else repr(label)


def fitting(place: Place, writer: Writer) -> dict[Any, Block]:
    """Blocks of a cube that are blocks of a larger one, as the larger one names them."""
    held = {
        file: (size, crc, sorted((dim, cut.start, cut.stop) for dim, cut in block.region.items()))
        for block in read_journal(place).values()
        for file, size, crc in block.files
    }
    found: dict[Any, Block] = {}
    for due in writer.due():
        region = sorted((dim, cut.start, cut.stop) for dim, cut in due.region.items())
        files = [(name, *held[name][:2]) for name, _, _ in due.files if name in held]
        if len(files) == len(due.files) and all(held[name][2] == region for name, _, _ in files):
            block = Block(due.dims, due.start, due.stop, tuple(files))
            found[block.key] = block
    return found
