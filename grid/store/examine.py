"""The contents of a place, read once: opening, checking, resuming and appending decide from this.
It is read again where that is the point: under the lock, as another run may have finished, and
where files differ from the seal, as another cube may have replaced theirs."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...kernels.engines.job import pool
from ..errors import InputError
from ..plan.fingerprint import difference
from . import journal
from .chunks import Stored, is_whole
from .guests import CHUNK, Attributes, listed, ours, separated, with_added
from .journal import READERS, WRITTEN
from .layout_version import known_layout
from .names import JOURNAL, PARTS, PLAN, RECORD, ROOT, SEAL, digest, part_of
from .places.durable import REPLACED
from .places.place import Place


@dataclass(frozen=True)
class Contents:
    """The contents of a place when examined: a cube, the start of one, something else, nothing.
    `sizes` are those of all files, or of the record's; None where a store cannot list them."""

    place: Place
    sizes: Mapping[str, int | None] | None
    exists: bool  # whether it has anything but an unfinished cube
    head: Mapping[str, bytes | OSError]  # the root and the record
    parts: Mapping[str, bytes]  # of an unfinished cube's journal

    def __str__(self) -> str:
        return str(self.place)

    def record(self, name: str) -> bytes | None:
        """A file of the record; None if it is missing. Raises OSError if it cannot be read."""
        data = self.head[name]
        if isinstance(data, bytes):
            return data
        if isinstance(data, journal.MISSING):
            return None
        raise data

    @cached_property
    def names(self) -> set[str] | None:
        """The names of the files that are listed."""
        return None if self.sizes is None else {*self.sizes}

    @cached_property
    def attributes(self) -> dict[str, Any] | None:
        """The attributes of a cube's root; None if fleetcube wrote no cube here."""
        data = self.head[ROOT]
        try:
            meta = json.loads(data) if isinstance(data, bytes) else None
        except (ValueError, RecursionError):
            return None
        attributes = meta.get("attributes") if isinstance(meta, dict) else None
        ours = isinstance(attributes, dict) and "fleetcube_spec" in attributes
        return attributes if ours else None

    @cached_property
    def arrays(self) -> set[str]:
        """Names of the cube's arrays, according to its record."""
        files = {name for block in self.blocks.values() for name, _, _ in block.files}
        chunked = {key.removeprefix("chunks.") for key in self.plan or () if key[:7] == "chunks."}
        return chunked | {n.partition("/")[0] for n in files | (self.sealed or {}).keys()}

    @property
    def others(self) -> set[str]:
        """Files that others put into a complete cube."""
        names = {name for name in self.names or () if not name.startswith(f"{REPLACED}/")}
        return names - ours(names, self.arrays, whole=True)

    @property
    def guests(self) -> str:
        """What others put into a complete cube, in words."""
        return ", ".join(listed(self.others, self.arrays, self.added))

    @property
    def is_ours(self) -> bool:
        """Whether this is a fleetcube cube: complete, damaged or unfinished."""
        return self.attributes is not None or any(
            name.startswith(f"{RECORD}/") for name in self.names or ()
        )

    @property
    def layout(self) -> int | None:
        """A cube's layout, None if there is none; a layout newer than ours is refused."""
        return None if self.attributes is None else known_layout(self.place, self.attributes)

    @cached_property
    def plan(self) -> dict[str, Any] | None:
        """Everything that the cube's bytes depend on; None if it is missing or damaged."""
        return journal.parsed(self.record(PLAN))

    @cached_property
    def sealed(self) -> dict[str, tuple[int, str]] | None:
        """Size and sha256 of the files other than chunks; None without a sound seal."""
        return journal.sealed_sums(self.record(SEAL))

    @cached_property
    def blocks(self) -> dict[Any, journal.Block]:
        """The finished blocks of a complete or unfinished cube; damaged lines are skipped."""
        blocks = journal.blocks_of(self.record(JOURNAL) or b"")
        plan = self.record(PLAN)
        for _, part in sorted(self.parts.items()):
            if plan is not None and part.startswith(part_of(plan)):
                blocks |= journal.blocks_of(part)
        return blocks

    @cached_property
    def files(self) -> dict[str, bytes | OSError]:
        """The files in the seal: `head` as it was read, the others read when first asked for."""
        others = [name for name in self.sums if name not in self.head]
        read = pool(READERS).map(lambda name: journal.attempt(self.place, name), others)
        return {**self.head, **dict(zip(others, read, strict=True))}

    @cached_property
    def sums(self) -> dict[str, tuple[int, str]]:
        """The seal; without a sound one the metadata, whose sums nobody has."""
        if self.sealed is not None:
            return self.sealed
        arrays = self.arrays | _repeated_arrays(self.head[ROOT])
        return dict.fromkeys([*(f"{name}/{ROOT}" for name in sorted(arrays)), ROOT], (0, ""))

    @cached_property
    def _separated(self) -> tuple[dict[str, bytes | OSError], Attributes]:
        return separated(self.files, self.sums)

    @cached_property
    def added(self) -> Attributes:
        """Attributes that others added, by file: nothing is read where the metadata have the sizes
        that were sealed."""
        metas = {name: size for name, (size, _) in self.sums.items() if name.endswith(ROOT)}
        return {} if metas.items() <= (self.sizes or {}).items() else self._separated[1]

    @property
    def file_bytes(self) -> dict[str, bytes]:
        """The files in the seal that can be read, without what others added to them."""
        files = ((name, self._separated[0][name]) for name in self.sealed or {})
        return {name: data for name, data in files if isinstance(data, bytes)}

    @property
    def shown(self) -> dict[str, bytes]:
        """The same, with those added attributes that change no number."""
        return with_added(self.file_bytes, self.added, shown=True)

    @cached_property
    def wrong(self) -> dict[str, str]:
        """Files that differ from the seal, and what is wrong with each."""
        sealed = self.sealed or {}
        wrong = journal.damaged_files(self._separated[0], sealed)
        sums = {sha256 for _, sha256 in sealed.values()}
        for name in wrong:
            data = self.files[name]
            if isinstance(data, bytes) and digest(data) not in sums and _is_anothers(name, data):
                wrong[name] = WRITTEN
        return wrong

    def differs(self, fingerprint: Mapping[str, Any]) -> bool:
        """Whether this has no record, or one of another cube."""
        return self.plan is None or difference(self.plan, fingerprint) is not None

    @property
    def added_arrays(self) -> str:
        """Arrays and groups that another program added, such as xarray with mode="a"."""
        names = (self.names or set()) - self.sealed.keys() if self.sealed else set()
        parts = (name.split("/") for name in names if name.endswith(f"/{ROOT}"))
        return ", ".join(sorted(repr(part[0]) for part in parts if len(part) == 2))


def _repeated_arrays(root: bytes | OSError) -> set[str]:
    """Arrays that a root's metadata repeat; none if it is damaged."""
    try:
        return {*json.loads(root)["consolidated_metadata"]["metadata"]}  # type: ignore[arg-type]
    except (ValueError, TypeError, LookupError, RecursionError):
        return set()


def _is_anothers(name: str, data: bytes) -> bool:
    """Whether another program wrote an array's metadata, in its way, or a chunk, with its checksum.
    A root is only harmed: whoever wrote it, it is written again with what others added."""
    if not name.endswith(ROOT):
        return is_whole(data)
    try:
        return name != ROOT and json.dumps(json.loads(data)).encode() != data
    except (ValueError, RecursionError):
        return False


def examine(place: Place, under: str = "") -> Contents:
    """Read the contents of a place; `under` restricts the list of names to those of the record."""
    # the seal first: files of a cube that replaces this one meanwhile do not match it
    head = {SEAL: journal.attempt(place, SEAL)}
    sizes = place.sizes(under)
    parts = sorted(name for name in sizes or () if name.startswith(PARTS))
    others = (ROOT, PLAN, JOURNAL, *parts)
    read = pool(READERS).map(lambda name: journal.attempt(place, name), others)
    head |= zip(others, read, strict=True)
    exists = isinstance(head[ROOT], bytes) or place.exists(sizes)
    lines = {name: data for name in parts if isinstance(data := head.pop(name), bytes)}
    return Contents(place, sizes, exists, head, lines)


def check_sealed(contents: Contents) -> None:
    """Refuse a cube without our record, such as a copy made by xarray. Raises InputError."""
    if all(isinstance(contents.head[name], journal.MISSING) for name in (SEAL, JOURNAL, PLAN)):
        raise InputError(
            f"{str(contents)!r} is not sealed by fleetcube, so nothing in it can be checked; if "
            f"another program copied it, {_as_it_is(contents)}"
        )


def _as_it_is(contents: Contents) -> str:
    """How to read what another program copied or changed."""
    zipped = str(contents).lower().endswith(".zip")
    plain = "; unpack it for all else" if zipped else " or plain xarray reads it as it is"
    return f"`open_cube({str(contents)!r}, verify=False)`{plain}"


def check_complete(contents: Contents, copied: bool = False) -> None:
    """Refuse all but a complete cube, or a copy of one, stating what it is instead. Raises
    InputError."""
    if str(contents).endswith(".partial"):
        raise InputError(f"{str(contents)!r} is not complete; `run --resume` finishes it")
    if contents.layout is not None or (copied and contents.exists):
        return
    if contents.exists:
        check_sealed(contents)
        raise InputError(
            f"{str(contents)!r} is damaged: it has no sound {ROOT}; `run --resume` of its sweep "
            "repairs it"
        )
    partial = contents.place.unfinished()
    begun = contents if partial == contents.place else examine(partial, f"{RECORD}/")
    hint = "its run has not finished" if begun.exists or begun.is_ours else "run the sweep first"
    raise InputError(f"there is no cube {str(contents)!r}; {hint}")


def check_files(contents: Contents) -> None:
    """Refuse a cube that differs from its seal. Raises InputError."""
    repair = "`run --resume` of its sweep repairs it"
    if contents.sealed is None:
        check_sealed(contents)
        raise InputError(f"{str(contents)!r} is damaged: it has no seal; {repair}")
    check_added(contents, contents.wrong)
    _check_chunks(contents)
    for name, wrong in contents.wrong.items():
        if name.endswith(ROOT):
            repair += f"; if another program changed it, {_as_it_is(contents)}"
        raise InputError(f"{f'{contents}/{name}'!r} is damaged: it {wrong}; {repair}")


def check_added(contents: Contents, wrong: Mapping[str, str]) -> None:
    """Refuse a cube to which another program added arrays, or where it wrote others' files, by what
    is wrong with them. Raises InputError."""
    written = [name for name, what in wrong.items() if what.startswith(WRITTEN)]
    added = contents.added_arrays
    if written or added:
        what, again = f"added {added}", "--overwrite --force"
        if not added:
            what, again = f"wrote {written[0]!r}", "--overwrite"
        raise InputError(
            f"{str(contents)!r} is no longer as fleetcube sealed it: another program {what}, which "
            f"no run replaces; {_as_it_is(contents)}, and `run {again}` writes it again"
        )


def _check_chunks(contents: Contents) -> None:
    """Refuse a cube that lacks a chunk: Zarr would silently read fill values."""
    if contents.sizes is None:
        return
    files = (name for name, size in contents.sizes.items() if size != -1)
    present = Counter(chunk[1] for name in files if (chunk := CHUNK.fullmatch(name)))
    for name, data in contents.file_bytes.items():
        array, _, last = name.rpartition("/")
        if last != ROOT or not array or array.startswith("."):
            continue
        try:
            count = math.prod(Stored.from_metadata(json.loads(data)).counts)
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
            continue  # its checksum fails next, or Zarr's store refuses it
        if present[array] != count:
            raise InputError(
                f"{f'{contents}/{array}'!r} is damaged: {present[array]} of its "
                f"{count} chunks are there; `run --resume` of its sweep repairs it"
            )
