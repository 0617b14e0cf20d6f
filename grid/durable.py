"""Writing that survives: files synced before they count, one writer, names exchanged at once."""

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import InputError

TEMPORARY = ".fleetcube-tmp"  # ends the names of files that are being written
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folders(folder: Path) -> None:
    """Make all names in a folder and in those under it survive a loss of power."""
    for base, _, _ in os.walk(folder):
        sync_folder(Path(base))


def make_folder(folder: Path) -> None:
    """Make a folder and those above it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)


def write_file(path: Path, data: Any) -> None:
    """Write a file whole or not at all, synced to the disk; its name is not synced."""
    make_folder(path.parent)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}{TEMPORARY}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@contextlib.contextmanager
def one_writer(partial: Path, lock: Path) -> Iterator[None]:
    """Hold a lock in an unfinished cube; a second writer is refused. Makes the folder."""
    while True:
        make_folder(lock.parent)
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:  # sealed by another writer meanwhile
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 200, 0).decode("utf-8", "replace").strip() or "another"
            os.close(handle)
            raise InputError(
                f"{str(partial)!r} is being written by process {holder}; wait for it, or stop it"
            ) from None
        except BaseException:
            os.close(handle)
            raise
        try:
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
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


def exchange(one: Path, other: Path) -> None:
    """Give two folders each other's name, at once where the system can."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = (os.fsencode(one), os.fsencode(other))
    if hasattr(libc, "renameat2"):
        if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise OSError(code, os.strerror(code), str(other))
    between = other.with_name(other.name + ".old")
    os.rename(other, between)
    os.rename(one, other)
    os.rename(between, one)


def link(source: Path, target: Path) -> None:
    """A second name for a file, or a copy where the file system has no hard links."""
    make_folder(target.parent)
    try:
        os.link(source, target)
    except FileExistsError:
        target.unlink()
        link(source, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        shutil.copyfile(source, target)
