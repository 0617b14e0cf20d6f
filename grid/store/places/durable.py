"""Durable writing: files are synced before they count, one writer, atomic exchange of names."""

import contextlib
import ctypes
import errno
import importlib.util
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ....kernels.engines.job import pool
from ...errors import InputError

UNFINISHED = ".partial"  # suffix of the folder in which a cube is built
TEMPORARY = ".fleetcube-tmp"  # suffix of files being written
REPLACED = ".fleetcube/replaced"  # in a cube: the one whose name it takes
SYNCS = 8  # files synced at once: a file system commits them together
WAITING = 64  # files of a group that may wait, with two handles each: a larger group is cut
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
Group = AbstractContextManager[Callable[[str, Any], None]]  # gives what writes a file by its name


def check_system() -> None:
    """Refuse to write where folders have no handles: links and other runs could interfere."""
    if os.open not in os.supports_dir_fd or importlib.util.find_spec("fcntl") is None:
        raise InputError(
            "this system cannot lock a folder that is written (Windows); write the cube to an "
            "object store (s3://...), or under Linux (WSL); reading cubes works"
        )


def sync_folder(folder: Path | str) -> None:
    """Make the names in a folder survive a power loss."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folders(folder: Path) -> None:
    """Make all names in a folder and its subfolders survive a power loss."""
    pool(SYNCS).each(sync_folder, [base for base, _, _ in os.walk(folder)])


@contextlib.contextmanager
def inside(base: Path, name: str, make: bool = False) -> Iterator[tuple[int, str]]:
    """A handle on the folder of a file, by its name in a cube, and the last part of the name. No
    link is followed, not even at an unfinished cube itself, so nothing outside is touched."""
    # by handles: in a path, a folder could become a link after it was checked
    *folders, last = name.split("/")
    if make and not base.is_dir():
        base.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDONLY | os.O_DIRECTORY
    handle = os.open(base, flags | (os.O_NOFOLLOW if base.suffix == UNFINISHED else 0))
    try:
        for folder in folders:
            above = handle
            try:
                handle = os.open(folder, flags | os.O_NOFOLLOW, dir_fd=above)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=above)
                handle = os.open(folder, flags | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
        yield handle, last
    except NotADirectoryError as error:
        raise OSError(errno.ELOOP, "a link lies where a folder should; remove it", name) from error
    finally:
        os.close(handle)


def write_file(base: Path, name: str, data: Any) -> None:
    """Write a file atomically, synced."""
    with group_commit(base) as write:
        write(name, data)


@contextlib.contextmanager
def group_commit(base: Path) -> Iterator[Callable[[str, Any], None]]:
    """Write files that get their names, in turn, once all of them are synced. The names are synced
    with the cube: a lost one is redone."""
    waiting: list[tuple[Any, int, str, str]] = []  # file, folder, its name until then, and after
    with contextlib.ExitStack() as opened:

        def write(name: str, data: Any) -> None:
            folder, last = opened.enter_context(inside(base, name, make=True))
            # one per thread, since others write next to it
            temporary = f"{last}.{os.getpid()}.{threading.get_ident()}{TEMPORARY}"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            handle = os.open(temporary, flags, 0o666, dir_fd=folder)
            file = opened.enter_context(os.fdopen(handle, "wb"))
            waiting.append((file, folder, temporary, last))
            file.write(data)
            file.flush()
            if len(waiting) == WAITING:
                commit()

        def commit() -> None:
            pool(SYNCS).each(lambda entry: os.fsync(entry[0].fileno()), waiting)
            # after the syncs: a power loss must not leave a name without the bytes
            for _, folder, temporary, last in waiting:
                os.replace(temporary, last, src_dir_fd=folder, dst_dir_fd=folder)
            waiting.clear()
            opened.close()

        try:
            yield write
            commit()
        except BaseException:
            for _, folder, temporary, _ in waiting:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
            raise


@contextlib.contextmanager
def one_writer(partial: Path, lock: str) -> Iterator[None]:
    """Hold a lock in an unfinished cube, creating its folder; a second writer is refused."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    while True:
        try:
            with inside(partial, lock, make=True) as (folder, last):
                if partial.suffix == UNFINISHED:
                    _check_ours(partial, folder)
                handle = os.open(last, flags, 0o644, dir_fd=folder)
                try:
                    other = os.open(last, flags, 0o644, dir_fd=folder)
                except BaseException:
                    os.close(handle)
                    raise
        except FileNotFoundError:  # another writer finished and renamed the folder meanwhile
            continue
        try:
            _lock(handle, other, partial)
        except BlockingIOError:
            holder = os.pread(handle, 200, 0).decode("utf-8", "replace").strip() or "another"
            os.close(handle)
            raise InputError(
                f"{str(partial)!r} is being written by process {holder}; wait for it, or stop it"
            ) from None
        except BaseException:
            os.close(handle)
            raise
        # the locked file may have been renamed or removed since it was opened
        try:
            if os.path.samestat(os.fstat(handle), os.stat(partial / lock)):
                break
        except FileNotFoundError:
            pass
        os.close(handle)
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, other: int, partial: Path) -> None:
    """Lock a file that is open twice; refused if the lock does not exclude the second handle."""
    import fcntl  # missing on some systems, where readers do without it

    # flock, not lockf: a POSIX lock would admit the second handle, and end when that closes
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.fstat(other)):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                raise OSError(errno.ENOLCK, "a second lock is granted as well as the first")
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
            raise
        raise InputError(
            f"the file system of {str(partial)!r} does not lock files ({error.strerror}), so "
            "two runs could write one cube; mount it with locks (Lustre: -o flock; NFS: without "
            "nolock), or write to a local disk or an object store, and copy the cube"
        ) from None
    finally:
        os.close(other)


def _check_ours(partial: Path, folder: int) -> None:
    """Refuse a folder of another user, who could plant links and files in it."""
    probe = f"{os.getpid()}.{threading.get_ident()}{TEMPORARY}"
    with contextlib.suppress(FileNotFoundError):  # of a killed run: in containers, ids repeat
        os.unlink(probe, dir_fd=folder)
    handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    try:
        us = os.fstat(handle).st_uid  # as the file system maps our id
    finally:
        os.close(handle)
        os.unlink(probe, dir_fd=folder)
    if us != os.stat(partial).st_uid or us != os.fstat(folder).st_uid:
        raise InputError(
            f"{str(partial)!r} belongs to another user; move it away, or choose another name"
        )


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders' names atomically; False if the system cannot (NFS, macOS)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    names = (os.fsencode(one), os.fsencode(other))
    if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        raise OSError(code, os.strerror(code), str(other))
    return False


def replace(new: Path, old: Path) -> None:
    """Give a new cube the name of an older one, which moves into it; the name is briefly free. A
    name next to the two might be the user's, and would survive a kill unnoticed."""
    try:
        with inside(new, REPLACED, make=True) as (folder, last):
            os.rename(old, last, dst_dir_fd=folder)
        os.rename(new, old)
    except BaseException:
        restore(new, old)
        raise


def restore(new: Path, old: Path) -> None:
    """Give an older cube its name back if `replace` was interrupted; the lock is held."""
    if not os.path.lexists(new / REPLACED):
        return
    if os.path.lexists(old):  # it has been rewritten since
        return
    with inside(new, REPLACED) as (folder, last):
        os.rename(last, old, src_dir_fd=folder)
    sync_folder(old.parent)


def move(old: Path, new: Path, but: set[str], under: str = "") -> None:
    """Move all files of a folder but some into another, where nothing has their names."""
    for entry in [*os.scandir(old / under)]:
        name = f"{under}{entry.name}"
        if name in but:
            continue
        if not os.path.lexists(new / name):
            with contextlib.suppress(OSError):  # what cannot be moved stays
                os.rename(old / name, new / name)
                sync_folder(new / under)
        elif entry.is_dir(follow_symlinks=False) and not (new / name).is_symlink():
            move(old, new, but, f"{name}/")
            with contextlib.suppress(OSError):
                os.rmdir(old / name)


def link(source: Path, base: Path, name: str) -> None:
    """Link a file into a cube, or copy it if the file system has no hard links."""
    with inside(base, name, make=True) as (folder, last):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(last, dir_fd=folder)
        try:
            if not source.is_symlink():
                os.link(source, last, dst_dir_fd=folder)
                return
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP, errno.EMLINK):
                raise
    write_file(base, name, source.read_bytes())
