"""Append to a cube: axes gain labels at their ends, and finished blocks are kept."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import InputError
from ..plan.fingerprint import difference
from ..result import Result
from .examine import Contents, check_sealed
from .journal import Block
from .places.place import Place
from .writer import Writer

_MAY_JOIN = ("catalog.", "formula.", "default.")  # entries that new labels add


def stored_plan(contents: Contents, cannot: str) -> dict[str, Any]:
    """The record of a cube; a damaged one is refused, stating what cannot be done."""
    if contents.plan is None:
        check_sealed(contents)
        raise InputError(
            f"the record in {str(contents)!r} is damaged, so {cannot}; "
            "use --overwrite to write it again"
        )
    return contents.plan


def check_grows(contents: Contents, before: Result, writer: Writer) -> None:
    """Refuse a sweep that does more than add labels at the end of a cube's axes."""
    place, record, new = contents.place, contents.plan or {}, writer.fingerprint
    if all(record[key] == new[key] for key in ("outputs", "axes")):
        _check_dimensions(place, before, writer)
    axes = {f"axes.{name}" for name in new["axes"]} if record["axes"] == new["axes"] else set()
    axes.add("numbers")  # auto's depend on the labels; previous ones are compared one by one
    old = {name: value for name, value in record.items() if name not in axes}
    now = {
        name: value
        for name, value in new.items()
        if name not in axes and (name in record or not name.startswith(_MAY_JOIN))
    }
    changed = difference(old, now)
    if changed is not None:
        raise InputError(
            f"nothing can be appended to {str(place)!r}, because this changed: {changed}; "
            "only labels at the end of an axis may be added"
        )
    _check_labels(place, before, writer)


def _check_dimensions(place: Place, before: Result, writer: Writer) -> None:
    for name in writer.plan.outputs:
        new, old = writer.plan.user_dims(name), before[name].dims
        if old != new:
            raise InputError(
                f"nothing can be appended to {str(place)!r}: with the new labels {name} depends "
                f"on {', '.join(new)}, before on {', '.join(map(str, old))}; "
                "choose another name"
            )


def _check_labels(place: Place, before: Result, writer: Writer) -> None:
    after = writer.coordinates()
    for name, (dims, labels, _) in after.items():
        if name not in before.coords:
            raise InputError(
                f"nothing can be appended to {str(place)!r}: with the new labels {name} varies "
                f"along {dims}, before along nothing; choose another name, or give {name}"
            )
        stored = np.asarray(before[name].values)
        first_labels = np.asarray(labels)[: stored.size]
        if stored.size > len(labels):
            raise InputError(f"{name} has {stored.size} labels in {str(place)!r}; keep them all")
        for k, (was, now) in enumerate(zip(stored.tolist(), first_labels.tolist(), strict=True)):
            if was != now:
                raise InputError(
                    f"label {k + 1} of {name} is {_exact(was)} in {str(place)!r} and now "
                    f"{_exact(now)}; keep the old labels and add new ones after them"
                )


def _exact(label: Any) -> str:
    """A label as text: 17 digits distinguish any two numbers."""
    return f"{label:.17g}" if isinstance(label, float) else repr(label)


def fitting(stored_blocks: Iterable[Block], writer: Writer) -> dict[Any, Block]:
    """Blocks of a cube that are also blocks of a larger one, with the larger one's names."""
    stored = {
        file: (size, crc, sorted((dim, cut.start, cut.stop) for dim, cut in block.region.items()))
        for block in stored_blocks
        for file, size, crc in block.files
    }
    blocks: dict[Any, Block] = {}
    for due in writer.due():
        region = sorted((dim, cut.start, cut.stop) for dim, cut in due.region.items())
        files = [(name, *stored[name][:2]) for name, _, _ in due.files if name in stored]
        if len(files) == len(due.files) and all(stored[name][2] == region for name, _, _ in files):
            block = Block(due.dims, due.start, due.stop, tuple(files))
            blocks[block.key] = block
    return blocks
