"""Stored cubes: plain Zarr v3, every output with its own dimensions, either complete or absent.

A cube in a folder is built in NAME.partial and renamed once every block is on disk. Objects cannot
be renamed: there a cube is built in place, and its root, without which readers do not see a cube,
is written last. Finished parts survive a failure, a kill and a power loss.
"""

import contextlib
import functools
import json
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ...kernels import log
from ...kernels.graph.roles import REASON
from ..datasets import load_accessor
from ..errors import InputError, check_count, shown
from ..plan import memory
from ..plan.fingerprint import difference
from ..plan.labels import FILL, with_missing
from ..plan.plan import Plan
from ..result import Result
from ..spec.graphs import graph_of
from . import journal
from .append import check_grows, fitting, stored_plan
from .chunks import Compressor
from .examine import Contents, check_added, check_complete, check_files, examine
from .guests import Attributes, ours
from .journal import Block
from .names import GUESTS, LOCK, PLAN, RECORD, ROOT, SEAL
from .places.address import place_of
from .places.place import Place
from .reader import Reader, stored
from .writer import Writer, in_units

if TYPE_CHECKING:
    import xarray

    from ..run.cluster import Cluster


Cube = TypeVar("Cube", bound=Any)  # a Dataset or a Result


class Mode(NamedTuple):
    """Whether a run may overwrite, resume or append to a cube at its place, and remove what others
    put into it (`force`)."""

    overwrite: bool
    resume: bool
    append: bool
    force: bool

    @property
    def continues(self) -> bool:
        return self.resume or self.append


def contents_for_run(place: Place, mode: Mode) -> tuple[Contents, Contents]:
    """The contents of a place and of its unfinished cube, to which a run may do what its mode says.
    Raises InputError."""
    options = ("--overwrite", "--resume", "--append")
    chosen = [option for option, on in zip(options, mode[:3], strict=True) if on]
    if len(chosen) > 1 and (mode.append or not mode.resume):
        raise InputError(f"{' and '.join(chosen)} exclude each other; choose one")
    if mode.force and not mode.overwrite:
        raise InputError("--force is of --overwrite; add that, or leave --force out")
    place.recover()
    for replaced in place.replaced():
        _discard(replaced, place)
    if not mode.resume:
        place.check()
    contents = examine(place)
    layout = contents.layout if mode.continues else None
    if mode.resume and layout is None:  # a sound cube needs no writing
        place.check()
    partial = place.unfinished()
    begun = contents if partial == place else examine(partial)
    _check_place(contents, begun, mode)
    _check_guests(contents, mode)
    return contents, begun


def engine_of(contents: Contents, begun: Contents, mode: Mode) -> str:
    """The engine that computed the cube to continue, if there is one; else "auto"."""
    plan = begun.plan or contents.plan if mode.continues and not mode.overwrite else None
    return str((plan or {}).get("engine", "auto"))


def store(
    plan: Plan,
    spec: Mapping[str, Any],
    contents: Contents,
    begun: Contents,
    mode: Mode,
    *,
    dtype: str,
    chunks: Mapping[str, int],
    compressor: Compressor,
    threads: int,
    cluster: "Cluster | None" = None,
) -> None:
    """Evaluate a plan into a cube at the place whose contents these are, where it appears once
    complete."""
    place, partial = contents.place, begun.place
    shapes = None if chunks or not mode.continues else _stored_shapes(plan, contents, begun)
    writer = Writer(plan, spec, dtype, chunks, shapes, compressor)
    if mode.append and contents.exists:
        stored_plan(contents, "nothing can be appended")
        contents = as_sealed(contents)
        check_grows(contents, opened(contents), writer)
    elif mode.append and not begun.is_ours:
        raise InputError(f"there is no cube {str(place)!r} to append to; leave --append out")
    elif mode.resume and contents.exists and _is_whole(contents, begun, writer, mode):
        return
    _check_room(contents, begun, writer, mode)
    del contents, begun  # whose journals may be large
    _write(place, partial, writer, mode, threads, cluster)


def _is_whole(contents: Contents, begun: Contents, writer: Writer, mode: Mode) -> bool:
    """Whether the cube to resume is complete and sound; one of another sweep is refused."""
    # a replacement in progress is continued, whatever cube it replaces
    replaces = begun is not contents and not begun.differs(writer.fingerprint)
    if not (replaces or mode.overwrite):
        _check_same(contents, writer)
    if contents.differs(writer.fingerprint):
        return False
    problems = damage(contents)
    if not mode.overwrite:
        check_added(contents, problems)
    if problems:
        contents.place.check()
        return False
    log.info("%s: complete and sound, nothing to write", contents)
    if begun is not contents and begun.exists:  # left by a run killed after the exchange
        with begun.place.one_writer():
            _discard(begun.place, contents.place, begun.arrays | writer.arrays)
    return True


def _write(
    place: Place, partial: Place, writer: Writer, mode: Mode, threads: int, cluster: Any
) -> None:
    """Build a cube in its unfinished place, and give it its name."""
    option, elsewhere = "--append" if mode.append else "--resume", None
    if cluster is not None:
        from .remote import reached, written

        elsewhere = functools.partial(written, cluster, reached(cluster, partial))
    try:
        with partial.one_writer():
            for replaced in partial.replaced():
                _discard(replaced, partial)
            # examined again: another run may have finished, and where a cube is rewritten in its
            # place, others have added to it; of another place that is asked at the end
            begun = examine(partial)
            contents = begun if partial == place else examine(place, f"{RECORD}/")
            if contents is begun:
                _check_guests(contents, mode)
            sums, arrays = contents.sums if contents.exists else {}, contents.arrays | writer.arrays
            added = functools.partial(_added, place, partial, mode, sums)
            prepared = _prepare(contents, begun, writer, mode)
            del contents, begun  # whose journals may be large
            writer.run(partial, *prepared, threads, elsewhere, added)
            for replaced in partial.finish(place):
                _discard(replaced, place, arrays, mode.force)
            if place != partial and place.path is not None:
                place.delete(LOCK)  # at the end: without it a second writer could enter
    except ConnectionError as error:
        raise OSError(
            f"{error}; what is finished is kept, and `run {option}` continues it"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            f"cannot write {str(place)!r}: {reason}; {_how_to_continue(partial, option)}"
        ) from error
    except KeyboardInterrupt as stopped:
        raise type(stopped)(_how_to_continue(partial, option)) from None


def _added(
    place: Place, partial: Place, mode: Mode, sums: Mapping[str, tuple[int, str]]
) -> Attributes:
    """Attributes that others added to the cube that is replaced or rewritten, which had files of
    these sizes and sums."""
    if mode.force:
        return {}
    if place == partial:
        data = journal.attempt(place, GUESTS)
        added = journal.parsed(data if isinstance(data, bytes) else None) or {}
        return {
            name: attributes for name, attributes in added.items() if isinstance(attributes, dict)
        }
    if not sums:
        return {}
    # listed again: others may add attributes until the end
    seal = {SEAL: journal.record_bytes({"files": sums})}
    return Contents(place, place.sizes(), True, seal, {}).added


def _discard(old: Place, whole: Place, arrays: Collection[str] = (), force: bool = False) -> None:
    """Remove a cube that another has replaced, by default with the arrays of its record; what
    others put into it moves into that."""
    for replaced in old.replaced():
        _discard(replaced, old)
    if old.path is not None:  # others drop theirs whole
        arrays, names = arrays or examine(old, f"{RECORD}/").arrays, {*(old.sizes() or ())}
        old.remove((names if force else ours(names, arrays, whole=True)) - {SEAL, LOCK})
    old.discard(whole)


def _check_guests(contents: Contents, mode: Mode) -> None:
    """Refuse to overwrite a cube into which others put something."""
    if mode.overwrite and not mode.force and contents.exists and (guests := contents.guests):
        raise InputError(
            f"{str(contents)!r} also holds what fleetcube did not write ({guests[:300]}); move "
            "that away, choose another name, or add --force, which removes it"
        )


def _check_room(contents: Contents, begun: Contents, writer: Writer, mode: Mode) -> None:
    """Refuse a cube that would not fit on the disk, estimated from how some chunks compress."""
    free, free_files, unit = contents.place.room()
    dense, files = writer.size(unit, sampled=False)
    if dense <= free and files <= free_files:
        return
    blocks = begun.blocks  # finished blocks are not written again
    if mode.append or (mode.resume and not contents.differs(writer.fingerprint)):
        blocks = contents.blocks | blocks
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


def _how_to_continue(partial: Place, option: str) -> str:
    """Name the blocks that a run finished before it ended early, and the command to continue."""
    left = examine(partial)
    if not left.blocks and not left.names:
        return "nothing was kept"
    count = len(left.blocks)
    return f"{count} finished blocks are kept in {str(partial)!r}; `run {option}` continues it"


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


def _check_place(contents: Contents, begun: Contents, mode: Mode) -> None:
    if contents.exists and not (mode.overwrite or mode.continues):
        raise InputError(f"{str(contents)!r} exists; choose another name or use --overwrite")
    if contents.exists and not contents.is_ours:
        raise InputError(
            f"{str(contents)!r} is not a cube and is not overwritten; choose another name"
        )
    if begun.names and not begun.is_ours:
        raise InputError(f"{str(begun)!r} is not an unfinished cube; move it away")
    above = (examine(above, f"{RECORD}/") for above in contents.place.above())
    if inside := next((cube for cube in above if cube.is_ours), None):
        raise InputError(
            f"{str(contents)!r} lies in the cube {str(inside)!r}; choose a place outside of it"
        )


def _check_same(contents: Contents, writer: Writer) -> None:
    changed = difference(stored_plan(contents, "it cannot be continued"), writer.fingerprint)
    if changed is not None:
        raise InputError(
            f"{str(contents)!r} cannot be continued, because this changed: {changed}; "
            "restore that, choose another name or use --overwrite"
            + (" (--append adds labels at the end of an axis)" if "axes." in changed else "")
        )


def _prepare(
    contents: Contents, begun: Contents, writer: Writer, mode: Mode
) -> tuple[bytes, dict[Any, Block]]:
    """Prepare an unfinished cube; its plan and sound blocks. The caller holds its lock, under
    which both places were examined."""
    place, partial = contents.place, begun.place
    names = (begun.names or set()) - {ROOT}  # which is removed by itself, and first
    if contents.exists and not (mode.overwrite or mode.continues):
        raise InputError(f"{str(place)!r} exists; choose another name or use --overwrite")
    planned = isinstance(begun.head[PLAN], bytes)
    if planned and not (mode.overwrite or mode.continues):
        raise InputError(
            f"{str(partial)!r} exists: a run was stopped there; "
            "--resume continues it, --overwrite starts over"
        )
    # no blocks are taken from another cube; `check_grows` has compared one to append to
    same = mode.append or not contents.differs(writer.fingerprint)
    borrows = contents.exists and mode.continues and same
    if borrows and partial == place:
        return _borrow(contents, begun, writer, {})
    partial.delete(ROOT)  # from a run killed between the root and the rename
    # the replaced cube, if the run was killed after the exchange
    left = contents.exists and begun.sealed is not None
    differs = begun.differs(writer.fingerprint)
    if planned and mode.continues and not (differs and (left or mode.overwrite)):
        _check_same(begun, writer)
        plan, blocks = begun.record(PLAN) or b"", writer.sound(begun)
        writer.sweep(partial, blocks.values(), begun.parts, names)
        journal.write_journal(partial, blocks.values(), begun.parts)
    else:
        partial.delete(PLAN)  # by name, since a listing may lag
        spared = {LOCK} if mode.force else {LOCK, GUESTS}
        removable = names if mode.force and partial == place else ours(names, begun.arrays)
        partial.remove((removable if partial.in_sight else names) - spared)
        plan, blocks = journal.record_bytes(writer.fingerprint), {}
        # the journal first: an old one that a listing hid must not count for this plan
        journal.write_journal(partial, ())
        partial.write(PLAN, plan)
    return _borrow(contents, begun, writer, blocks) if borrows else (plan, blocks)


def _borrow(
    contents: Contents, begun: Contents, writer: Writer, blocks: dict[Any, Block]
) -> tuple[bytes, dict[Any, Block]]:
    """Take the sound blocks of a damaged or smaller cube into an unfinished one."""
    partial = begun.place
    damaged = journal.damaged_chunks(contents.place, contents.blocks.values())
    check_added(contents, {n: wrong for bad in damaged.values() for n, wrong in bad.items()})
    sound = [block for key, block in contents.blocks.items() if key not in damaged]
    fits = {key: b for key, b in fitting(sound, writer).items() if key not in blocks}
    plan, blocks = journal.record_bytes(writer.fingerprint), blocks | fits
    if begun is contents:
        partial.delete(GUESTS)
        if contents.added:
            partial.write(GUESTS, journal.record_bytes(contents.added))
        partial.delete(ROOT)  # first: without its root, an unfinished cube is not read
        parts = begun.parts
    else:
        for block in fits.values():
            partial.take(contents.place, [name for name, _, _ in block.files])
        parts = {}
    # if killed between the two writes, the next run checks again which blocks fit
    partial.write(PLAN, plan)
    journal.write_journal(partial, blocks.values(), parts)
    if begun is contents:
        writer.sweep(partial, blocks.values(), (), (begun.names or set()) - {ROOT})
    return plan, blocks


def _stored_shapes(plan: Plan, contents: Contents, begun: Contents) -> dict[str, tuple[int, ...]]:
    """Chunk shapes of the cube to continue, if it has the plan's outputs."""
    record = begun.plan or contents.plan or {}
    shapes = {name: record.get(f"chunks.{name}") for name in plan.outputs}
    same = all(
        isinstance(shape, list)
        and len(shape) == len(plan.user_dims(name))
        and all(isinstance(size, int) and size > 0 for size in shape)
        for name, shape in shapes.items()
    )
    return {name: tuple(shape or ()) for name, shape in shapes.items()} if same else {}


def size_of(place: Place) -> int:
    """Bytes of a complete cube, according to its record."""
    contents = examine(place, f"{RECORD}/")
    chunks = sum(size for block in contents.blocks.values() for _, size, _ in block.files)
    return chunks + sum(size for size, _ in (contents.sealed or {}).values())


def damage(contents: Contents, done: Callable[[int], None] = lambda n: None) -> dict[str, str]:
    """What is wrong with a cube's files, by name. `done` counts chunks."""
    sealed, blocks = contents.sealed, contents.blocks
    if sealed is None:
        return {SEAL: "is missing or damaged"}
    problems = {**contents.wrong}
    for key, bad in journal.damaged_chunks(contents.place, blocks.values(), done).items():
        problems |= {name: f"{wrong} (block {blocks[key]})" for name, wrong in bad.items()}
    chunks = {name for block in blocks.values() for name, _, _ in block.files}
    if contents.names is not None:  # readers do not follow the link of a folder
        behind = chunks - contents.names - problems.keys()
        problems |= dict.fromkeys(sorted(behind), "lies behind a link")
    extra = (contents.names or set()) - chunks - sealed.keys() - {SEAL, LOCK, GUESTS}
    extra = ours(extra, contents.arrays, whole=True)
    return problems | dict.fromkeys(sorted(extra), "does not belong to the cube")


def as_sealed(contents: Contents) -> Contents:
    """The same, of a complete cube whose files other than chunks are as sealed. Raises InputError
    for a cube that differs from its seal, unless another cube replaced it meanwhile."""
    check_complete(contents)
    while True:
        try:
            check_files(contents)
            return contents
        except InputError:
            # examined again: files of another cube, which replaced this one meanwhile, differ
            again = examine(contents.place)
            if again.sealed == contents.sealed:
                raise
            contents = again


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
    place = place_of(path)
    if not verify:
        return _unverified(place, chunks)
    import xarray

    from .sealed import SealedStore

    load_accessor()  # so that the cube has `.fleetcube`
    contents = as_sealed(examine(place))
    with reading(place):
        reader = Reader(place, contents.shown)
        _ = reader.arrays
        source = SealedStore(place.source(), reader)
        cube: xarray.Dataset = xarray.open_zarr(source, consolidated=False, chunks=chunks)
        return with_missing((contents.plan or {}).get("infeasible") == "exclude", _checked(cube))


def stored_cube(path: str) -> Result:
    """The same for tables, without Zarr and xarray."""
    return opened(as_sealed(examine(place_of(path))))


def opened(contents: Contents) -> Result:
    """A complete cube, lazily. Raises InputError for contents that fleetcube never writes."""
    with reading(contents.place):
        return _checked(stored(contents))


def _checked(cube: Cube) -> Cube:
    """A cube in order. Raises ValueError for contents that fleetcube never writes."""
    spec = spec_of(cube.attrs)
    try:
        graph_of(spec["scenario"])
    except InputError as error:
        warnings.warn(f"what is stored can be read, and not computed: {error}", stacklevel=3)
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
    import zarr.storage

    load_accessor()
    contents = examine(place, f"{RECORD}/")
    check_complete(contents, copied=True)
    with reading(place, "is no copy of a cube ({}); open it with xarray"):
        file = place.path if place.path is not None and place.path.is_file() else None
        zipped = file is not None and file.suffix.lower() == ".zip"
        if file is not None and not zipped:
            read: Any = functools.partial(xarray.open_dataset, file, chunks=chunks)
        else:
            source = zarr.storage.ZipStore(str(file), mode="r") if zipped else place.source()
            how: Any = {"consolidated": None if contents.names is None else False}
            read = functools.partial(xarray.open_zarr, source, chunks=chunks, **how)
        flags = [name for name, row in read().variables.items() if "flag_values" in row.attrs]
        # -1 stays a code
        cube: xarray.Dataset = in_order(read(mask_and_scale=dict.fromkeys(flags, False)))
        for name in flags:
            cube[name].encoding |= {FILL: cube[name].attrs.pop(FILL, None)}
        return cube


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
def reading(place: Place, problem: str = "is damaged ({}); run its sweep again") -> Iterator[None]:
    """Report any error raised by a cube's contents as damage, in one line."""
    try:
        yield
    except (ConnectionError, InputError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(f"{str(place)!r} {problem.format(reason)}") from error


def spec_of(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """The spec in a cube's attributes. Raises ValueError, or RecursionError."""
    text = attrs.get("fleetcube_spec")
    spec = json.loads(text) if isinstance(text, str) else None
    if not isinstance(spec, dict) or not {"outputs", "scenario", "axes"} <= spec.keys():
        raise ValueError("fleetcube_spec is not a spec")
    if not isinstance(spec["axes"], dict):
        raise ValueError("the axes of fleetcube_spec are not a table")
    return spec


def _as_results(variable: Any) -> Any:
    """A variable as results in memory have it: codes of flags in their type, texts of fixed width,
    which np.save, records and plots need."""
    if "flag_values" in variable.attrs:
        codes = np.atleast_1d(variable.attrs["flag_values"])
        variable.attrs["flag_values"] = codes.astype(variable.dtype)
    texts = np.asarray(variable.values if variable.dtype.kind in {"O", "T"} else None, object)
    if all(isinstance(text, str) for text in texts.flat):
        return variable.dims, texts.astype(str), variable.attrs
    return variable


def in_order(cube: Cube) -> Cube:
    """Outputs and axes in the spec's order, the rest by name: arrays arrive in any order."""
    spec = spec_of(cube.attrs)
    outputs, axes = (
        {
            name: _as_results(cube.variables[name])
            for name in (*filter(group.__contains__, order), *sorted(map(str, group)))
        }
        for group, order in ((cube.data_vars, spec["outputs"]), (cube.coords, spec["axes"]))
    )
    ordered: Cube = type(cube)(outputs, axes, cube.attrs)
    return ordered
