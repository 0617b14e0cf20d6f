"""Stored cubes: plain Zarr v3, every output with its own dimensions, either complete or absent.

A cube in a folder is built in NAME.partial and renamed once every block is on disk. Objects cannot
be renamed: there a cube is built in place, and its root, without which readers do not see a cube,
is written last. Finished parts survive a failure, a kill and a power loss.
"""

import contextlib
import functools
import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...kernels import log
from ...kernels.graph.roles import REASON
from ..datasets import load_accessor
from ..errors import InputError, check_count, shown
from ..plan import memory
from ..plan.fingerprint import difference
from ..plan.plan import Plan
from ..spec.graphs import graph_of
from . import journal
from .append import check_grows, fitting, stored_record
from .chunks import Stored
from .layout import LAYOUT, known_layout
from .names import GROUP, JOURNAL, LOCK, PLAN, RECORD, ROOT, SEAL
from .places.address import place_of
from .places.durable import REPLACED
from .places.place import Folder, Place
from .writer import Writer, in_units

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
    """Evaluate a plan into a cube at a place, where it appears once complete."""
    modes = {"--overwrite": overwrite, "--resume": resume, "--append": append}
    chosen = [mode for mode, on in modes.items() if on]
    if len(chosen) > 1 and (append or not resume):
        raise InputError(f"{' and '.join(chosen)} exclude each other; choose one")
    continues = resume or append
    place.recover()
    layout = layout_of(place) if continues else None
    if layout is not None and layout < LAYOUT and not overwrite:
        raise InputError(
            f"{str(place)!r} was written by an older fleetcube, in layout {layout}, and is only "
            "read; choose another name or use --overwrite"
        )
    if not resume or layout is None:  # a sound cube needs no writing
        place.check()
    partial = place.unfinished()
    _check_place(place, partial, overwrite, continues)
    if continues and not overwrite and (names := added(place)):
        raise InputError(
            f"{str(place)!r} holds {names}, which another program added and a run would lose; "
            "choose another name, or keep a copy and use --overwrite"
        )
    shapes = None if chunks or not continues else _stored_shapes(plan, place, partial)
    writer = Writer(plan, spec, dtype, chunks, shapes)
    if append and is_cube(place):
        check_grows(place, stored_record(place), open_cube(str(place)), writer)
    elif append and not is_ours(partial):
        raise InputError(f"there is no cube {str(place)!r} to append to; leave --append out")
    if resume and place.exists():
        # a replacement in progress is continued, whatever cube it replaces
        replaces = partial != place and not _differs(partial, writer)
        if not (replaces or overwrite):
            _check_same(place, writer)
        if not _differs(place, writer):
            if not damage(place):
                log.info("%s: complete and sound, nothing to write", place)
                if partial != place and partial.exists():  # left by a run killed after the exchange
                    with partial.one_writer():
                        partial.discard()
                return
            place.check()
    _check_room(place, partial, writer, append, resume)
    option = "--append" if append else "--resume"
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
            f"{error}; what is finished is kept, and `run {option}` continues it"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"cannot write {str(place)!r}: {reason}; {kept(partial, option)}") from error
    except KeyboardInterrupt as stopped:
        raise type(stopped)(kept(partial, option)) from None


def _check_room(place: Place, partial: Place, writer: Writer, append: bool, resume: bool) -> None:
    """Refuse a cube that would not fit on the disk, estimated from how some chunks compress."""
    free, free_files, unit = place.room()
    dense, files = writer.size(unit, sampled=False)
    if dense <= free and files <= free_files:
        return
    blocks = journal.read_journal(partial)  # finished blocks are not written again
    if append or (resume and not _differs(place, writer)):
        blocks = journal.read_journal(place) | blocks
    sizes = [size for block in blocks.values() for _, size, _ in block.files]
    free, free_files = free + sum(in_units(n, unit) for n in sizes), free_files + len(sizes)
    if (likely := writer.size(unit, sampled=True)[0]) > free:
        raise InputError(
            f"the cube takes about {memory.human(likely)} and {memory.human(free)} of disk are "
            "free; shorten an axis, ask for fewer outputs, or use larger chunks or float32"
        )
    if files > free_files:
        raise InputError(
            f"the cube takes {files:,.0f} files and folders, and the disk has room for "
            f"{free_files:,.0f}; use larger chunks"
        )


def kept(partial: Place, option: str) -> str:
    """What a run that ended early left, and how to continue it."""
    count = len(journal.read_journal(partial))
    if not count and not partial.names():
        return "nothing was kept"
    return f"{count} finished blocks are kept in {str(partial)!r}; `run {option}` continues it"


def parse_chunks(text: str | None) -> dict[str, Any] | None:
    """Read "axis=size,axis=size"."""
    if text is None:
        return None
    pairs = [pair.partition("=") for pair in text.split(",")]
    return {
        axis: int(size) if size.isdecimal() and size.isascii() else size for axis, _, size in pairs
    }


def check_chunks(plan: Plan, chunks: Mapping[str, Any] | None) -> dict[str, int]:
    """Chunk sizes by axis, as requested. Raises InputError."""
    if not isinstance(chunks or {}, Mapping):
        raise InputError(f"chunks = {shown(chunks)} is not sizes by axis; give {{axis: size}}")
    for axis in chunks or {}:
        if axis not in plan.sizes:
            raise InputError(
                f"chunks: {axis!r} is not an axis; choose from {', '.join(plan.sizes)}"
            )
    return {axis: check_count(f"chunks: {axis}", size) for axis, size in (chunks or {}).items()}


def _check_place(place: Place, partial: Place, overwrite: bool, resume: bool) -> None:
    if place.exists() and not (overwrite or resume):
        raise InputError(f"{str(place)!r} exists; choose another name or use --overwrite")
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
    """Whether a place has no record, or one of another cube."""
    old = journal.read_record(place, PLAN)
    return old is None or difference(old, writer.fingerprint) is not None


def _check_same(place: Place, writer: Writer) -> None:
    old = journal.read_record(place, PLAN)
    if old is None:
        check_sealed(place)
        raise InputError(
            f"the record in {str(place)!r} is damaged, so it cannot be continued; "
            "use --overwrite to write it again"
        )
    changed = difference(old, writer.fingerprint)
    if changed is not None:
        raise InputError(
            f"{str(place)!r} cannot be continued, because this changed: {changed}; "
            "restore that, choose another name or use --overwrite"
            + (" (--append adds labels at the end of an axis)" if "axes." in changed else "")
        )


def _prepare(
    place: Place, partial: Place, writer: Writer, overwrite: bool, resume: bool, append: bool
) -> None:
    """Prepare an unfinished cube for `Writer.run`; the caller holds its lock."""
    continues = resume or append
    # checked again under the lock: another run may have finished meanwhile
    if place.exists() and not (overwrite or continues):
        raise InputError(f"{str(place)!r} exists; choose another name or use --overwrite")
    begun = not isinstance(journal.read_file(partial, PLAN), str)
    if begun and not (overwrite or continues):
        raise InputError(
            f"{str(partial)!r} exists: a run was stopped there; "
            "--resume continues it, --overwrite starts over"
        )
    complete = place.exists()
    # no blocks are taken from another cube; `check_grows` has compared one to append to
    borrows = complete and continues and (append or not _differs(place, writer))
    if borrows and place == partial:
        _borrow(place, partial, writer)
        return
    partial.delete(ROOT)  # from a run killed between the root and the rename
    differs = _differs(partial, writer)
    # the replaced cube, if the run was killed after the exchange
    left = complete and journal.read_seal(partial) is not None
    if begun and continues and not (differs and (left or overwrite)):
        _check_same(partial, writer)
    else:
        partial.delete(PLAN)  # by name, since a listing may lag
        partial.keep({LOCK})
    if borrows:
        _borrow(place, partial, writer)


def _borrow(place: Place, partial: Place, writer: Writer) -> None:
    """Take the sound blocks of a damaged or smaller cube into an unfinished one."""
    own = journal.read_journal(partial) if partial != place else {}
    sound = {key: block for key, block in fitting(place, writer).items() if key not in own}
    for key in journal.damaged_chunks(place, sound.values()):
        del sound[key]
    if partial == place:
        partial.delete(ROOT)  # first: without its root, an unfinished cube is not read
    else:
        for block in sound.values():
            partial.take(place, [name for name, _, _ in block.files])
    # if killed between the two writes, the next run checks again which blocks fit
    journal.write_record(partial, PLAN, writer.fingerprint)
    journal.write_journal(partial, {**own, **sound}.values())


def _stored_shapes(plan: Plan, place: Place, partial: Place) -> dict[str, tuple[int, ...]]:
    """Chunk shapes of the cube to continue, if it has the plan's outputs."""
    record = journal.read_record(partial, PLAN) or journal.read_record(place, PLAN) or {}
    shapes = {name: record.get(f"chunks.{name}") for name in plan.outputs}
    same = all(
        isinstance(shape, list)
        and len(shape) == len(plan.user_dims(name))
        and all(isinstance(size, int) and size > 0 for size in shape)
        for name, shape in shapes.items()
    )
    return {name: tuple(shape or ()) for name, shape in shapes.items()} if same else {}


def is_ours(place: Place) -> bool:
    """Whether a place has a fleetcube cube: complete, damaged or unfinished."""
    return bool(place.names(f"{RECORD}/")) or is_cube(place)


def is_cube(place: Place) -> bool:
    """Whether a place has a cube that fleetcube wrote."""
    return _attributes(place) is not None


def _attributes(place: Place) -> dict[str, Any] | None:
    """The attributes of a cube's root; None if there is no cube."""
    data = journal.read_file(place, ROOT)
    try:
        meta = json.loads(data) if isinstance(data, bytes) else None
    except (ValueError, RecursionError):
        return None
    attributes = meta.get("attributes") if isinstance(meta, dict) else None
    ours = isinstance(attributes, dict) and "fleetcube_spec" in attributes
    return attributes if ours else None


def layout_of(place: Place) -> int | None:
    """A cube's layout, None if there is none; a layout newer than ours is refused."""
    attributes = _attributes(place)
    return None if attributes is None else known_layout(place, attributes)


def check_sealed(place: Place) -> None:
    """Refuse a cube without our record, such as a copy made by xarray. Raises InputError."""
    if all(journal.read_file(place, name) == "is missing" for name in (SEAL, JOURNAL, PLAN)):
        raise InputError(
            f"{str(place)!r} is not sealed by fleetcube, so nothing in it can be checked; if "
            f"another program copied it, {_as_it_is(place)}"
        )


def added(place: Place) -> str:
    """Arrays that another program added to a cube, such as xarray with mode="a"."""
    sealed, end = journal.read_seal(place), f"/{ROOT}"
    names = (place.names() or set()) - sealed.keys() if sealed else set()
    arrays = (name.removesuffix(end) for name in names if name.endswith(end))
    return ", ".join(sorted(repr(name) for name in arrays if not name.startswith(f"{GROUP}/")))


def _as_it_is(place: Place) -> str:
    """How to read what another program copied or changed."""
    return f"`open_cube({str(place)!r}, verify=False)` or plain xarray reads it as it is"


def size_of(place: Place) -> int:
    """Bytes of a complete cube, according to its record."""
    sealed = journal.read_seal(place) or {}
    chunks = sum(
        size for block in journal.read_journal(place).values() for _, size, _ in block.files
    )
    return chunks + sum(size for size, _ in sealed.values())


def damage(place: Place, done: Callable[[int], None] = lambda chunks: None) -> list[str]:
    """Problems of a cube's files, one line each. `done` counts chunks."""
    sealed = journal.read_seal(place)
    if sealed is None:
        return [f"{SEAL} is missing or damaged"]
    files = journal.read_files(place, sealed)
    problems = [f"{name} {wrong}" for name, wrong in journal.damaged_files(files, sealed).items()]
    blocks = journal.read_journal(place)
    for key, bad in journal.damaged_chunks(place, blocks.values(), done).items():
        problems += [f"{name} {wrong} (block {blocks[key]})" for name, wrong in bad.items()]
    known = {name for block in blocks.values() for name, _, _ in block.files}
    extra = (place.names() or set()) - known - sealed.keys() - {SEAL, LOCK}
    extra = {name for name in extra if not name.startswith(f"{REPLACED}/")}
    return problems + [f"{name} does not belong to the cube" for name in sorted(extra)]


def sealed_files(place: Place) -> dict[str, bytes]:
    """The files other than chunks; a cube that differs from its seal is refused."""
    while True:
        sealed = journal.read_seal(place)
        if sealed is None:
            check_sealed(place)
            raise InputError(
                f"{str(place)!r} is damaged: it has no seal; `run --resume` of its sweep repairs it"
            )
        try:
            return _as_sealed(place, sealed)
        except InputError:
            if journal.read_seal(place) == sealed:
                raise  # damaged: no other cube replaced it meanwhile


def _as_sealed(place: Place, sealed: Mapping[str, tuple[int, str]]) -> dict[str, bytes]:
    files = journal.read_files(place, sealed)
    contents = {name: data for name, data in files.items() if isinstance(data, bytes)}
    _check_whole(place, contents)
    for name, wrong in journal.damaged_files(files, sealed).items():
        if names := added(place):
            raise InputError(
                f"{str(place)!r} is no longer as fleetcube sealed it: another program added "
                f"{names}; {_as_it_is(place)}"
            )
        repair = "`run --resume` of its sweep repairs it"
        if name.endswith(ROOT):
            repair += f"; if another program changed it, {_as_it_is(place)}"
        raise InputError(f"{f'{place}/{name}'!r} is damaged: it {wrong}; {repair}")
    return contents


def _check_whole(place: Place, files: Mapping[str, bytes]) -> None:
    """Refuse a cube that lacks a chunk: Zarr would silently read fill values."""
    names = place.names()
    if names is None:
        return
    present = Counter(tuple(name.split("/", 2)[:2]) for name in names)
    for name, data in files.items():
        array, _, last = name.rpartition("/")
        if last != ROOT or not array or array.startswith("."):
            continue
        try:
            count = math.prod(Stored.of(json.loads(data)).counts)
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
            continue  # its checksum fails next, or Zarr's store refuses it
        if present[array, "c"] != count:
            raise InputError(
                f"{f'{place}/{array}'!r} is damaged: {present[array, 'c']} of its "
                f"{count} chunks are there; `run --resume` of its sweep repairs it"
            )


def open_cube(
    path: str | os.PathLike[str], *, chunks: Any = None, verify: bool = True
) -> "xarray.Dataset":
    """Open a cube lazily: values are read where they are sliced.

    Args:
        path: the cube's folder, or its URL on an object store.
        chunks: None for plain lazy indexing (fastest for slices), or Dask chunks as in
            `xarray.open_zarr` ({} for the stored ones).
        verify: False opens what another program copied (also a NetCDF file) or changed, unchecked,
            as xarray reads it.

    Raises InputError where there is no complete cube.
    """
    import xarray

    from .sealed import SealedStore

    load_accessor()  # so that the cube has `.fleetcube`
    place = place_of(path)
    if not verify:
        return _unverified(place, chunks)
    check_complete(place)
    files = sealed_files(place)
    with reading(place):
        source = SealedStore(place.source(), place, files)
        source.check()
        cube: xarray.Dataset = xarray.open_zarr(source, consolidated=False, chunks=chunks)
        spec = spec_of(cube.attrs)
        try:
            graph_of(spec["scenario"])
        except InputError as error:
            warnings.warn(f"what is stored can be read, and not computed: {error}", stacklevel=2)
        foreign = set(map(str, cube.dims)) - set(spec["axes"])
        if foreign:
            raise ValueError(f"its spec has no axis {min(foreign)!r}")
        for key in ("fleetcube_medians", "fleetcube_defaults"):
            dict(json.loads(cube.attrs.get(key, "{}")))
        for name, variable in cube.variables.items():
            _check_attributes(str(name), variable.attrs)
        return in_order(cube)


def _unverified(place: Place, chunks: Any) -> "xarray.Dataset":
    """A cube as xarray reads it, unchecked."""
    import xarray

    _layout_there(place)
    try:
        if isinstance(place, Folder) and place.path.is_file():
            cube = xarray.open_dataset(place.path, chunks=chunks)
        else:
            listed = place.names(f"{RECORD}/") is not None
            cube = xarray.open_zarr(
                place.source(), chunks=chunks, consolidated=False if listed else None
            )
        return in_order(cube)
    except (ConnectionError, InputError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(
            f"{str(place)!r} is no copy of a cube ({reason}); open it with xarray"
        ) from error


def _check_attributes(name: str, attrs: Mapping[Any, Any]) -> None:
    """Raise ValueError for variable attributes that fleetcube never writes."""
    texts = [attrs.get(key, "") for key in ("units", "long_name", "convention", "flag_meanings")]
    codes = attrs.get("flag_values", [])
    flags = codes if isinstance(codes, list) else [codes]
    if not all(isinstance(text, str) for text in texts) or not all(
        isinstance(code, int) for code in flags
    ):
        raise ValueError(f"the attributes of {name} are not text and codes")
    if len(texts[-1].split()) != len(flags) or (name == REASON and not flags):
        raise ValueError(f"{name} has not one meaning for each code")


@contextlib.contextmanager
def reading(place: Place) -> Iterator[None]:
    """Report any error raised by a cube's contents as damage, in one line."""
    try:
        yield
    except (ConnectionError, InputError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(f"{str(place)!r} is damaged ({reason}); run its sweep again") from error


def spec_of(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """The spec in a cube's attributes. Raises ValueError, or RecursionError."""
    text = attrs.get("fleetcube_spec")
    spec = json.loads(text) if isinstance(text, str) else None
    if not isinstance(spec, dict) or not {"outputs", "scenario", "axes"} <= spec.keys():
        raise ValueError("fleetcube_spec is not a spec")
    if not isinstance(spec["axes"], dict):
        raise ValueError("the axes of fleetcube_spec are not a table")
    return spec


def check_complete(place: Place) -> None:
    """Refuse all but a complete cube, stating what it is instead. Raises InputError."""
    if _layout_there(place) is None:
        check_sealed(place)
        raise InputError(
            f"{str(place)!r} is damaged: it has no sound {ROOT}; `run --resume` of its sweep "
            "repairs it"
        )


def _layout_there(place: Place) -> int | None:
    """The layout of a cube; an unfinished or missing one is refused. Raises InputError."""
    if str(place).endswith(".partial"):
        raise InputError(f"{str(place)!r} is not complete; `run --resume` finishes it")
    layout = layout_of(place)
    if layout is None and not place.exists():
        partial = place.unfinished()
        begun = partial.exists() or is_ours(partial)
        hint = "its run has not finished" if begun else "run the sweep first"
        raise InputError(f"there is no cube {str(place)!r}; {hint}")
    return layout


def in_order(cube: "xarray.Dataset") -> "xarray.Dataset":
    """Outputs and axes in the spec's order, the rest by name: arrays arrive in any order."""
    import xarray

    spec = spec_of(cube.attrs)
    outputs, axes = (
        {name: group.variables[name] for name in sorted(group, key=_ranks(order))}
        for group, order in ((cube.data_vars, spec["outputs"]), (cube.coords, spec["axes"]))
    )
    return xarray.Dataset(outputs, axes, cube.attrs)


def _ranks(names: Iterable[str]) -> Callable[[Any], tuple[int, str]]:
    places = {name: k for k, name in enumerate(names)}
    return lambda name: (places.get(name, len(places)), name)
