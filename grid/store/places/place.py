"""Where a cube lies, behind the few operations that writing, reading and checking one need."""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import InputError
from ..journal import JOURNAL, LOCK, MOST_SEALED, ROOT, check_size
from .durable import (
    UNFINISHED,
    exchange,
    inside,
    link,
    one_writer,
    sync_folder,
    sync_folders,
    write_file,
)

if TYPE_CHECKING:
    from ..sealed import SealedStore

LARGEST = 1 << 28  # bytes of a file of a cube, but for its journal


class Log(Protocol):
    """A journal to which lines are added; what is synced survives."""

    seconds: float  # from one sync to the next

    def append(self, line: bytes) -> None:
        """Add a line."""

    def sync(self) -> None:
        """Make what was added survive."""

    def close(self) -> None:
        """End it."""


class Place(Protocol):
    """The files of a cube by their names in it, such as "job_time/c/0/1"; can be pickled.

    What cannot be done raises an OSError, and a ConnectionError where that says nothing about the
    files.
    """

    in_sight: bool  # whether readers look here while it is written
    writers: int  # blocks under way for each thread: all but one of them wait

    def read(self, name: str, size: int | None = None) -> bytes:
        """A file. Raises FileNotFoundError where there is none.

        One that has not the size that is given is not read; OtherSizeError is raised.
        """

    def write(self, name: str, data: Any) -> None:
        """Write a file whole or not at all; it survives from then on."""

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""

    def names(self, under: str = "") -> set[str] | None:
        """All files whose names begin so, up to a "/"; None where they cannot be listed."""

    def keep(self, names: set[str]) -> None:
        """Remove all other files, the root first: what is left never reads as a cube."""

    def log(self) -> Log:
        """Add to the journal, which is there."""

    def exists(self) -> bool:
        """Whether anything but an unfinished cube is here."""

    def above(self) -> "Iterable[Place]":
        """The places that this one lies in."""

    def unfinished(self) -> "Place":
        """Where the cube of this place is built; the same place where nothing can be renamed."""

    def check(self) -> None:
        """Refuse a place that cannot be written."""

    def room(self) -> float:
        """Bytes that can be written here; infinite where nothing says."""

    def one_writer(self) -> AbstractContextManager[None]:
        """Hold the lock of an unfinished cube; a second writer is refused."""

    def take(self, other: "Place", names: Iterable[str]) -> None:
        """Have these files of the cube that is built anew here."""

    def finish(self, whole: "Place") -> None:
        """Give a complete cube its name; what bore it goes. The lock is held."""

    def discard(self) -> None:
        """Remove what is left of an unfinished cube; the lock is held."""

    def telling(self) -> AbstractContextManager[None]:
        """Turn errors of the store, if it has its own, into one line, as a ConnectionError."""

    def source(self, files: dict[str, bytes]) -> "SealedStore":
        """What Zarr opens: the cube as it is now; `files` are those beside the chunks."""


def place_of(target: str | os.PathLike[str]) -> Place:
    """The place that a path or a URL names. Raises InputError."""
    text = os.fspath(target)
    if "://" not in text:
        return Folder(Path(target))
    if text.startswith("icechunk"):
        from .icechunk import Icechunk

        return Icechunk(text)
    from .objects import Objects

    return Objects(text)


@dataclass(frozen=True)
class Folder:
    """A folder; a cube is built in NAME.partial, which gets the name at the end."""

    path: Path
    in_sight = True  # plain readers open what is in NAME.partial, too
    writers = 2

    def __str__(self) -> str:
        return str(self.path)

    def read(self, name: str, size: int | None = None) -> bytes:
        path = self.path / name
        held = path.stat()
        if not stat.S_ISREG(held.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        check_size(held.st_size, size)
        most = MOST_SEALED if name == JOURNAL else LARGEST
        if held.st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
        return path.read_bytes()

    def write(self, name: str, data: Any) -> None:
        write_file(self.path, name, data)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), inside(self.path, name) as (folder, last):
            os.unlink(last, dir_fd=folder)

    def names(self, under: str = "") -> set[str]:
        found: set[str] = set()
        left = [under.rstrip("/")]
        while left:
            inner = left.pop()
            with contextlib.suppress(OSError), os.scandir(self.path / inner) as entries:
                for entry in entries:
                    name = f"{inner}/{entry.name}" if inner else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        left.append(name)
                    elif entry.is_file():  # a pipe would be waited for
                        found.add(name)
        return found

    def keep(self, names: set[str]) -> None:
        for name in sorted(self.names() - names, key=lambda name: name != ROOT):
            self.delete(name)
        for base, _, _ in os.walk(self.path, topdown=False):
            if Path(base) != self.path and not any(Path(base).iterdir()):
                os.rmdir(base)

    def log(self) -> "_File":
        return _File(self.path)

    def exists(self) -> bool:
        return self.path.exists()

    def above(self) -> "Iterable[Folder]":
        return map(Folder, self.path.absolute().parents)

    def unfinished(self) -> "Folder":
        return Folder(self.path.with_name(self.path.name + UNFINISHED))

    def check(self) -> None:
        if not self.path.name:
            raise InputError(f"{str(self)!r} names no cube; write for example cubes/sweep.zarr")
        if self.path.is_symlink():  # cubes change places by their names
            target = str(self.path.resolve())
            raise InputError(f"{str(self)!r} is a link to {target!r}; write to that")
        parent = next((above for above in self.path.absolute().parents if above.exists()), None)
        if parent is None or not parent.is_dir() or not os.access(parent, os.W_OK):
            raise InputError(f"cannot write into {str(parent)!r}; choose a folder that is writable")

        partial = self.unfinished().path
        if partial.is_symlink() or (partial.exists() and not partial.is_dir()):
            raise InputError(f"{str(partial)!r} is not an unfinished cube; move it away")

    def room(self) -> float:
        parent = next(above for above in self.path.absolute().parents if above.exists())
        return shutil.disk_usage(parent).free

    def one_writer(self, lock: str = LOCK) -> AbstractContextManager[None]:
        return one_writer(self.path, lock)

    def take(self, other: Place, names: Iterable[str]) -> None:
        assert isinstance(other, Folder)
        for name in names:
            link(other.path / name, self.path, name)

    def finish(self, whole: Place) -> None:
        assert isinstance(whole, Folder)
        sync_folders(self.path)
        if whole.exists():
            exchange(self.path, whole.path)
            sync_folder(whole.path.parent)
            self.discard()
        else:
            os.rename(self.path, whole.path)
            sync_folder(whole.path.parent)
        whole.delete(LOCK)

    def discard(self) -> None:
        self.delete(ROOT)
        shutil.rmtree(self.path)

    def telling(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def source(self, files: dict[str, bytes]) -> "SealedStore":
        from zarr.storage import LocalStore

        from ..sealed import SealedStore

        return SealedStore(LocalStore(self.path, read_only=True), self, files)


class _File:
    """A file on the disk to which lines are added."""

    seconds = 1.0

    def __init__(self, path: Path) -> None:
        with inside(path, JOURNAL) as (folder, last):
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
            self._handle = os.open(last, flags, dir_fd=folder)

    def append(self, line: bytes) -> None:
        if os.write(self._handle, line) != len(line):  # the torn line is never read
            raise OSError(28, "No space left on device")

    def sync(self) -> None:
        os.fsync(self._handle)

    def close(self) -> None:
        os.close(self._handle)
