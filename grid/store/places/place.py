"""Storage of a cube: the few operations needed to write, read and check one."""

import contextlib
import errno
import math
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import InputError, check_path
from ..names import JOURNAL, LOCK, MOST_SEALED, RECORD, ROOT, SEAL, check_size, rank
from .durable import (
    REPLACED,
    UNFINISHED,
    Group,
    check_system,
    exchange,
    group_commit,
    inside,
    link,
    move,
    one_writer,
    replace,
    restore,
    sync_folder,
    sync_folders,
    write_file,
)

if TYPE_CHECKING:
    from zarr.abc.store import Store

LARGEST = 1 << 28  # bytes of any file of a cube except its journal


class Log(Protocol):
    """An append-only journal; synced lines are durable."""

    seconds: float  # between syncs

    def append(self, line: bytes) -> None:
        """Add a line."""

    def sync(self) -> None:
        """Make the added lines survive."""

    def close(self) -> None:
        """End it."""


class Place(Protocol):
    """The files of a cube by their names in it, such as "job_time/c/0/1"; picklable. Failures raise
    OSError, or ConnectionError if they do not concern the files."""

    in_sight: bool  # whether readers see it while it is written
    writers: int  # concurrent blocks per thread: all but one wait for the disk or the network

    @property
    def path(self) -> Path | None:
        """The folder, if it is one of this machine."""

    def read(self, name: str, size: int | None = None) -> bytes:
        """Read a file; OtherSizeError unless of the given size, FileNotFoundError if absent."""

    def write(self, name: str, data: Any) -> None:
        """Write a file atomically; it is durable on return."""

    def group_commit(self) -> Group:
        """Write files in turn; they are durable at the end, and may appear only then."""

    def delete(self, name: str) -> None:
        """Remove a file, if it exists."""

    def sizes(self, under: str = "") -> dict[str, int | None] | None:
        """All files under a prefix that ends with "/", with their sizes where the list has them, -1
        for what cannot be read, such as a pipe; None if they cannot be listed."""

    def remove(self, names: set[str]) -> None:
        """Remove files in the order of `rank`, and folders that are empty then."""

    def log(self, plan: bytes) -> Log:
        """Open the existing journal of a plan for appending."""

    def exists(self, names: Collection[str] | None) -> bool:
        """Whether this has anything but an unfinished cube, if it has these names and no root."""

    def above(self) -> "Iterable[Place]":
        """The places that contain this one and seem to have a cube."""

    def unfinished(self) -> "Place":
        """Where the cube of this place is built; the same place if nothing can be renamed."""

    def check(self) -> None:
        """Refuse a place that cannot be written."""

    def room(self) -> tuple[float, float, int]:
        """Bytes and files that can be written here, infinite if no limit is known, and of how many
        bytes a file takes whole multiples."""

    def one_writer(self) -> AbstractContextManager[None]:
        """Hold the lock of an unfinished cube; a second writer is refused."""

    def take(self, other: "Place", names: Iterable[str]) -> None:
        """Link or copy files of another place into the cube being built here."""

    def recover(self) -> None:
        """Clean up after a run that was killed during `finish`."""

    def finish(self, whole: "Place") -> "Iterable[Place]":
        """Give a complete cube its name; places of what had it before. The lock is held."""

    def replaced(self) -> "Iterable[Place]":
        """Places of cubes that a killed run has replaced by this one."""

    def discard(self, whole: "Place") -> None:
        """Move what is left into a cube, and remove the folder; the lock is held."""

    def source(self) -> "Store":
        """The store from which Zarr reads the files, unchecked."""


@dataclass(frozen=True)
class Folder:
    """A folder; a cube is built in NAME.partial, which is renamed at the end."""

    path: Path
    in_sight = True  # plain readers also open arrays in NAME.partial
    writers = 2

    def __str__(self) -> str:
        return str(self.path)

    def read(self, name: str, size: int | None = None) -> bytes:
        path = self.path / name
        status = path.stat()  # before opening: a pipe would block, a device never end
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        check_size(status.st_size, size)
        most = MOST_SEALED if name == JOURNAL else LARGEST
        if status.st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
        return path.read_bytes()

    def write(self, name: str, data: Any) -> None:
        write_file(self.path, name, data)

    def group_commit(self) -> Group:
        return group_commit(self.path)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), inside(self.path, name) as (folder, last):
            os.unlink(last, dir_fd=folder)

    def sizes(self, under: str = "") -> dict[str, int | None]:
        files: dict[str, int | None] = {}
        folders = [under.rstrip("/")]
        while folders:
            inner = folders.pop()
            with contextlib.suppress(OSError), os.scandir(self.path / inner) as entries:
                for entry in entries:
                    name = f"{inner}/{entry.name}" if inner else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(name)
                    elif not entry.is_file():  # reading a pipe would block
                        files[name] = -1
                    else:  # of chunks it would take a request each from a network
                        files[name] = entry.stat().st_size if entry.name == ROOT else None
        return files

    def remove(self, names: set[str]) -> None:
        for name in sorted(names, key=rank):
            self.delete(name)
        folders = {str(folder) for name in names for folder in Path(name).parents} - {"."}
        for folder in sorted(folders, key=len, reverse=True):  # inner ones first
            with contextlib.suppress(OSError):
                os.rmdir(self.path / folder)

    def log(self, plan: bytes) -> "_File":
        return _File(self.path)

    def exists(self, names: Collection[str] | None = None) -> bool:
        return self.path.exists()

    def above(self) -> "Iterator[Folder]":
        for folder in self.path.absolute().parents:
            if any(os.path.lexists(folder / name) for name in (ROOT, RECORD)):
                yield Folder(folder)

    def unfinished(self) -> "Folder":
        return Folder(self.path.with_name(self.path.name + UNFINISHED))

    def check(self) -> None:
        check_system()
        if not self.path.name:
            raise InputError(f"{str(self)!r} names no cube; write for example cubes/sweep.zarr")
        if self.path.suffix.lower() == ".zip":
            raise InputError(f"{str(self)!r}: a cube is a folder; leave .zip out, and zip it after")
        if self.path.suffix == UNFINISHED:
            raise InputError(f"{str(self)!r} ends as unfinished cubes do; leave {UNFINISHED} out")
        if self.path.is_symlink():  # an exchange of names would replace the link, not the cube
            target = str(self.path.resolve())
            raise InputError(f"{str(self)!r} is a link to {target!r}; write to that")
        parent = next((above for above in self.path.absolute().parents if above.exists()), None)
        if parent is None or not parent.is_dir() or not os.access(parent, os.W_OK):
            raise InputError(f"cannot write into {str(parent)!r}; choose a folder that is writable")

        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise InputError(f"{str(self)!r} is read-only; choose another name, or chmod u+w it")
        partial = self.unfinished().path
        check_path(partial)
        if partial.is_symlink() or (partial.exists() and not partial.is_dir()):
            raise InputError(f"{str(partial)!r} is not an unfinished cube; move it away")

    def room(self) -> tuple[float, float, int]:
        parent = next(above for above in self.path.absolute().parents if above.exists())
        if not hasattr(os, "statvfs"):  # Windows
            return shutil.disk_usage(parent).free, math.inf, 1
        disk = os.statvfs(parent)
        files = disk.f_favail if disk.f_files else math.inf  # some keep no table of files
        return disk.f_bavail * disk.f_frsize, files, disk.f_frsize

    @contextlib.contextmanager
    def one_writer(self, lock: str = LOCK) -> Iterator[None]:
        with one_writer(self.path, lock):
            if self.path.suffix == UNFINISHED:
                restore(self.path, self.path.with_suffix(""))
            yield

    def take(self, other: Place, names: Iterable[str]) -> None:
        assert isinstance(other, Folder)
        for name in names:
            link(other.path / name, self.path, name)

    def recover(self) -> None:
        if not self.path.exists() and os.path.lexists(self.unfinished().path / REPLACED):
            with self.unfinished().one_writer():  # which restores it
                pass

    def finish(self, whole: Place) -> "list[Folder]":
        assert isinstance(whole, Folder)
        sync_folders(self.path)  # before the rename: no complete cube lacks a name of its files
        exchanged = False
        if not whole.exists():
            os.rename(self.path, whole.path)
        elif not (exchanged := exchange(self.path, whole.path)):
            replace(self.path, whole.path)
        sync_folder(whole.path.parent)
        return [self] * exchanged + whole.replaced()

    def replaced(self) -> "list[Folder]":
        path = self.path / REPLACED
        linked = path.is_symlink() or path.parent.is_symlink()
        return [Folder(path)] if path.is_dir() and not linked else []

    def discard(self, whole: Place) -> None:
        assert isinstance(whole, Folder)
        move(self.path, whole.path, {SEAL, LOCK})
        self.remove({SEAL, LOCK})
        with contextlib.suppress(OSError):  # files that NFS readers have open stay
            os.rmdir(self.path)

    def source(self) -> "Store":
        from zarr.storage import LocalStore

        return LocalStore(self.path, read_only=True)


class _File:
    seconds = 1.0

    def __init__(self, path: Path) -> None:
        with inside(path, JOURNAL) as (folder, last):
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
            self._handle = os.open(last, flags, dir_fd=folder)

    def append(self, line: bytes) -> None:
        if os.write(self._handle, line) != len(line):  # a torn line fails its checksum when read
            raise OSError(errno.ENOSPC, "No space left on device")

    def sync(self) -> None:
        os.fsync(self._handle)

    def close(self) -> None:
        os.close(self._handle)
