"""Stored cubes: plain Zarr v3, every output with its own dimensions, complete or not there.

A cube in a folder is built in NAME.partial and gets its name only when every block is on the disk.
Among objects nothing can be renamed: there a cube is built in its place, and no reader takes it for
one before its root, which is written last. What is finished survives a failure, a kill and a loss
of power.
"""

import contextlib
import functools
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...kernels.roles import REASON
from ..errors import InputError
from ..plan import memory
from ..plan.fingerprint import difference
from ..plan.labels import dtype_of
from ..plan.plan import Plan
from .append import check_grows, fitting, held_record
from .chunks import Stored
from .journal import (
    LOCK,
    PLAN,
    RECORD,
    ROOT,
    SEAL,
    damaged_chunks,
    damaged_files,
    read_file,
    read_files,
    read_journal,
    read_record,
    read_seal,
    write_journal,
    write_record,
)
from .places.place import Place, place_of
from .writer import Writer

if TYPE_CHECKING:
    import xarray

    from ..run.cluster import Cluster


def store(
    plan: Plan,
    spec: Mapping[str, Any],
    place: Place,
    *,
    overwrite: bool,
    resume: bool,
    append: bool,
    dtype: str,
    chunks: Mapping[str, int],
    threads: int,
    cluster: "Cluster | None" = None,
) -> None:
    """Evaluate a plan into a cube at a place, where it appears when it is complete."""
    modes = {"--overwrite": overwrite, "--resume": resume, "--append": append}
    said = [mode for mode, on in modes.items() if on]
    if len(said) > 1 and (append or not resume):
        raise InputError(f"{' and '.join(said)} exclude each other; say one of them")
    if not (resume and is_cube(place)):  # which may be sound, and need no writing
        place.check()
    partial = place.unfinished()
    goes_on = resume or append
    _check_place(place, partial, overwrite, goes_on)
    held = None if chunks or not goes_on else _held_chunks(plan, place, partial)
    writer = Writer(plan, spec, dtype, chunks, held)
    if append and is_cube(place):
        check_grows(place, held_record(place), writer)
    elif append and not is_ours(partial):
        raise InputError(f"there is no cube {str(place)!r} to append to; leave --append out")
    if resume and place.exists():
        # what was begun in the place of another cube goes on, whatever that one is
        replaces = partial != place and not _differs(partial, writer)
        if not (replaces or overwrite):
            _check_same(place, writer)
        if not _differs(place, writer):
            if not damage(place):
                if partial != place and partial.exists():  # what an exchange left
                    with partial.one_writer():
                        partial.discard()
                return
            place.check()
    _check_room(place, partial, writer, append, resume)
    again = "--append" if append else "--resume"
    elsewhere = None
    if cluster is not None:
        from .remote import reached, written

        elsewhere = functools.partial(written, cluster, reached(cluster, partial))
    try:
        with partial.one_writer():
            _prepare(place, partial, writer, overwrite, resume, append)
            writer.run(partial, threads, elsewhere)
            partial.finish(place)
    except ConnectionError as error:
        raise OSError(
            f"{error}; what is finished is kept, and `run {again}` continues it"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"cannot write {str(place)!r}: {reason}; {kept(partial, again)}") from error
    except KeyboardInterrupt as stopped:
        raise type(stopped)(kept(partial, again)) from None


def _check_room(place: Place, partial: Place, writer: Writer, append: bool, resume: bool) -> None:
    """Refuse a cube that does not fit, as compressed: some of its chunks are made to know."""
    plan, free = writer.plan, place.room()
    dense = sum(
        math.prod(plan.shape(plan.out_dims[name])) * dtype_of(name, writer.dtype).itemsize
        for name in plan.outputs
    )
    if dense <= free:
        return
    there = read_journal(partial)  # what is there is not written again
    if append or (resume and not _differs(place, writer)):
        there = read_journal(place) | there
    free += sum(size for block in there.values() for _, size, _ in block.files)
    likely = writer.likely_size()
    if likely > free:
        raise InputError(
            f"the cube takes about {memory.human(likely)} and {memory.human(free)} of disk are "
            "free; shorten an axis, ask for fewer outputs, or use float32"
        )


def kept(partial: Place, again: str) -> str:
    """What a run that ended early left, and what to do."""
    count = len(read_journal(partial))
    if not count and not partial.names():
        return "nothing was kept"
    return f"{count} finished blocks are kept in {str(partial)!r}; `run {again}` continues it"


def parse_chunks(text: str | None) -> dict[str, Any] | None:
    """Read "axis=size,axis=size"."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    return {
        axis: int(size) if size.isdecimal() and size.isascii() else size for axis, _, size in pairs
    }


def check_chunks(plan: Plan, chunks: Mapping[str, Any] | None) -> dict[str, int]:
    """Chunk sizes by axis, as asked for. Raises InputError."""
    for axis, size in (chunks or {}).items():
        if axis not in plan.sizes:
            raise InputError(
                f"chunks: {axis!r} is not an axis; choose from {', '.join(plan.sizes)}"
            )
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError(f"chunks: {axis} = {size!r} is not a whole number above 0; give one")
    return dict(chunks or {})


def _check_place(place: Place, partial: Place, overwrite: bool, resume: bool) -> None:
    if place.exists() and not (overwrite or resume):
        raise InputError(f"{str(place)!r} exists; choose another name or say --overwrite")
    if place.exists() and not is_ours(place):
        raise InputError(
            f"{str(place)!r} is not a cube and is not overwritten; choose another name"
        )
    if partial.names() and not is_ours(partial):
        raise InputError(f"{str(partial)!r} is not an unfinished cube; move it away")
    inside = next((above for above in place.above() if is_ours(above)), None)
    if inside is not None:
        raise InputError(
            f"{str(place)!r} lies in the cube {str(inside)!r}; choose a place beside it"
        )


def _differs(place: Place, writer: Writer) -> bool:
    """Whether a place holds no record, or one of another cube."""
    old = read_record(place, PLAN)
    return old is None or difference(old, writer.fingerprint) is not None


def _check_same(place: Place, writer: Writer) -> None:
    """Refuse to continue what was begun otherwise."""
    old = read_record(place, PLAN)
    if old is None:
        raise InputError(
            f"the record in {str(place)!r} is damaged, so that it cannot be continued; "
            "say --overwrite to write it anew"
        )
    changed = difference(old, writer.fingerprint)
    if changed is not None:
        raise InputError(
            f"{str(place)!r} cannot be continued, for this changed: {changed}; "
            "restore that, choose another name or say --overwrite"
            + (" (--append adds labels at the end of an axis)" if "axes." in changed else "")
        )


def _prepare(
    place: Place, partial: Place, writer: Writer, overwrite: bool, resume: bool, append: bool
) -> None:
    """Bring an unfinished cube into the state from which `run` goes on; its lock is held."""
    goes_on = resume or append
    if place.exists() and not (overwrite or goes_on):
        raise InputError(f"{str(place)!r} exists; choose another name or say --overwrite")
    begun = not isinstance(read_file(partial, PLAN), str)
    if begun and not (overwrite or goes_on):
        raise InputError(
            f"{str(partial)!r} exists: a run was stopped there; "
            "--resume continues it, --overwrite starts anew"
        )
    whole = place.exists()
    # of another cube nothing is taken; what may be appended to was compared before
    borrows = whole and goes_on and (append or not _differs(place, writer))
    if borrows and place == partial:
        _borrow(place, partial, writer)
        return
    partial.delete(ROOT)  # killed between the root and the rename
    differs = _differs(partial, writer)
    left = whole and read_seal(partial) is not None  # by an exchange, if it is another
    if begun and goes_on and not (differs and (left or overwrite)):
        _check_same(partial, writer)
    else:
        partial.delete(PLAN)  # by its name, for a list may lag behind
        partial.keep({LOCK})
    if borrows:
        _borrow(place, partial, writer)


def _borrow(place: Place, partial: Place, writer: Writer) -> None:
    """Take the sound blocks of a damaged or a smaller cube into an unfinished one."""
    held = read_journal(partial) if partial != place else {}
    sound = {key: block for key, block in fitting(place, writer).items() if key not in held}
    for key in damaged_chunks(place, sound.values()):
        del sound[key]
    if partial == place:
        partial.delete(ROOT)
    else:
        for block in sound.values():
            partial.take(place, [name for name, _, _ in block.files])
    # killed between the two, the next run finds out which blocks fit
    write_record(partial, PLAN, writer.fingerprint)
    write_journal(partial, {**held, **sound}.values())


def _held_chunks(plan: Plan, place: Place, partial: Place) -> dict[str, tuple[int, ...]]:
    """Chunk shapes of the cube that goes on, where its outputs are those of the plan."""
    held = read_record(partial, PLAN) or read_record(place, PLAN) or {}
    found = {name: held.get(f"chunks.{name}") for name in plan.outputs}
    same = all(
        isinstance(shape, list)
        and len(shape) == len(plan.user_dims(name))
        and all(isinstance(size, int) and size > 0 for size in shape)
        for name, shape in found.items()
    )
    return {name: tuple(shape or ()) for name, shape in found.items()} if same else {}


def is_ours(place: Place) -> bool:
    """Whether a place holds a cube of ours, whole, damaged or unfinished."""
    return bool(place.names(f"{RECORD}/")) or is_cube(place)


def is_cube(place: Place) -> bool:
    """Whether a place holds a cube that fleetcube wrote."""
    data = read_file(place, ROOT)
    try:
        meta = json.loads(data) if isinstance(data, bytes) else None
    except (ValueError, RecursionError):
        return False
    held = meta.get("attributes") if isinstance(meta, dict) else None
    return isinstance(held, dict) and "fleetcube_spec" in held


def size_of(place: Place) -> int:
    """Bytes of a complete cube, as its record has them."""
    sealed = read_seal(place) or {}
    chunks = sum(size for block in read_journal(place).values() for _, size, _ in block.files)
    return chunks + sum(size for size, _ in sealed.values())


def damage(place: Place, done: Callable[[int], None] = lambda chunks: None) -> list[str]:
    """What is wrong with the files of a cube: one line for each. `done` counts chunks."""
    sealed = read_seal(place)
    if sealed is None:
        return [f"{SEAL} is missing or damaged"]
    files = read_files(place, sealed)
    found = [f"{name} {wrong}" for name, wrong in damaged_files(files, sealed).items()]
    blocks = read_journal(place)
    for key, bad in damaged_chunks(place, blocks.values(), done).items():
        found += [f"{name} {wrong} (block {blocks[key]})" for name, wrong in bad.items()]
    known = {name for block in blocks.values() for name, _, _ in block.files}
    extra = (place.names() or set()) - known - sealed.keys() - {SEAL, LOCK}
    return found + [f"{name} does not belong to the cube" for name in sorted(extra)]


def sealed_files(place: Place) -> dict[str, bytes]:
    """The files beside the chunks; a cube is refused that is not as it was sealed."""
    while True:
        sealed = read_seal(place)
        if sealed is None:
            raise InputError(
                f"{str(place)!r} is damaged: it has no seal; `run --resume` of its sweep mends it"
            )
        try:
            return _as_sealed(place, sealed)
        except InputError:
            if read_seal(place) == sealed:
                raise  # no other cube came in its place meanwhile


def _as_sealed(place: Place, sealed: Mapping[str, tuple[int, str]]) -> dict[str, bytes]:
    files = read_files(place, sealed)
    held = {name: data for name, data in files.items() if isinstance(data, bytes)}
    _check_whole(place, held)
    for name, wrong in damaged_files(files, sealed).items():
        raise InputError(
            f"{f'{place}/{name}'!r} is damaged: it {wrong}; `run --resume` of its sweep mends it"
        )
    return held


def _check_whole(place: Place, files: Mapping[str, bytes]) -> None:
    """Refuse a cube that lacks a chunk: Zarr would read it back as fill values, without a word."""
    names = place.names()
    if names is None:
        return
    found = Counter(tuple(name.split("/", 2)[:2]) for name in names)
    for name, data in files.items():
        array, _, last = name.rpartition("/")
        if last != ROOT or not array or array.startswith("."):
            continue
        try:
            count = math.prod(Stored.of(json.loads(data)).counts)
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
            continue  # it does not match its checksum, or is refused when it is read
        if found[array, "c"] != count:
            raise InputError(
                f"{f'{place}/{array}'!r} is damaged: {found[array, 'c']} of its "
                f"{count} chunks are there; `run --resume` of its sweep mends it"
            )


def open_cube(path: str | os.PathLike[str], *, chunks: Any = None) -> "xarray.Dataset":
    """Open a cube lazily: values are read where they are sliced.

    Args:
        path: the cube's folder, or the URL of one on an object store.
        chunks: None for plain lazy indexing (fastest for slices), or Dask chunks as in
            `xarray.open_zarr` ({} for the stored ones).

    Raises InputError where there is no complete cube.
    """
    import xarray

    place = place_of(path)
    check_complete(place)
    files = sealed_files(place)
    with reading(place):
        source = place.source(files)
        source.check()
        cube: xarray.Dataset = xarray.open_zarr(source, consolidated=False, chunks=chunks)
        foreign = set(map(str, cube.dims)) - set(spec_of(cube.attrs)["axes"])
        if foreign:
            raise ValueError(f"its spec has no axis {min(foreign)!r}")
        dict(json.loads(cube.attrs.get("fleetcube_medians", "{}")))
        for name, variable in cube.variables.items():
            _check_attributes(str(name), variable.attrs)
        return in_order(cube)


def _check_attributes(name: str, attrs: Mapping[Any, Any]) -> None:
    """Raise ValueError where the attributes of a variable are not as they are written."""
    said = [attrs.get(key, "") for key in ("units", "long_name", "convention", "flag_meanings")]
    codes = attrs.get("flag_values", [])
    flags = codes if isinstance(codes, list) else [codes]
    if not all(isinstance(text, str) for text in said) or not all(
        isinstance(code, int) for code in flags
    ):
        raise ValueError(f"the attributes of {name} are not text and codes")
    if len(said[-1].split()) != len(flags) or (name == REASON and not flags):
        raise ValueError(f"{name} has not one meaning for each code")


@contextlib.contextmanager
def reading(place: Place) -> Iterator[None]:
    """Say in one line that a cube is damaged where what is in it is not as it is written."""
    try:
        yield
    except (ConnectionError, InputError, MemoryError):
        raise
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(f"{str(place)!r} is damaged ({said}); run its sweep again") from error


def spec_of(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """The spec that a cube's attributes state. Raises ValueError, or RecursionError."""
    held = attrs.get("fleetcube_spec")
    spec = json.loads(held) if isinstance(held, str) else None
    if not isinstance(spec, dict) or not {"outputs", "scenario", "axes"} <= spec.keys():
        raise ValueError("fleetcube_spec is no spec")
    if not isinstance(spec["axes"], dict):
        raise ValueError("the axes of fleetcube_spec are no table")
    return spec


def check_complete(place: Place) -> None:
    """Refuse what is no complete cube, and say what it is. Raises InputError."""
    if str(place).endswith(".partial"):
        raise InputError(f"{str(place)!r} is not complete; `run --resume` finishes it")
    if is_cube(place):
        return
    if not place.exists():
        partial = place.unfinished()
        begun = partial.exists() or is_ours(partial)
        hint = "its run has not finished" if begun else "run the sweep first"
        raise InputError(f"there is no cube {str(place)!r}; {hint}")
    raise InputError(f"{str(place)!r} is not a cube that fleetcube wrote; choose another")


def in_order(cube: "xarray.Dataset") -> "xarray.Dataset":
    """Outputs and axes in the order of the spec, the rest by name: arrays arrive in any order."""
    import xarray

    spec = spec_of(cube.attrs)
    outputs, axes = (
        {name: held.variables[name] for name in sorted(held, key=_ranks(named))}
        for held, named in ((cube.data_vars, spec["outputs"]), (cube.coords, spec["axes"]))
    )
    return xarray.Dataset(outputs, axes, cube.attrs)


def _ranks(names: Iterable[str]) -> Callable[[Any], tuple[int, str]]:
    places = {name: k for k, name in enumerate(names)}
    return lambda name: (places.get(name, len(places)), name)
