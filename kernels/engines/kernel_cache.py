"""Compiled kernels on disk: machine code, loaded only from unchanged files that this user wrote. A
damaged or refused cache costs the time to compile again, never a run."""

import contextlib
import hashlib
import os
import stat
import threading
import warnings
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

from ..elementary import FUNCTIONS

_SHARED = "FLEETCUBE_SHARED_CACHE"
_SUM = hashlib.sha256().digest_size  # bytes at the head of a file
_warned = threading.Event()


def cached_code(text: str, compile_code: Callable[[], bytes]) -> tuple[bytes, bool]:
    """Machine code that depends on a text, this machine and these libraries; whether it was read
    from disk, where it is stored otherwise."""
    path = code = None
    with _warned_once():
        path = path_of(text)
        code = read(path)
    if code is not None:
        return code, True
    code = compile_code()
    if path is not None:
        with _warned_once():
            write(path, hashlib.sha256(code).digest() + code)
    return code, False


def lowered(source: str) -> tuple[bytes, bool]:
    """Machine code of a source that `lowering` can read; whether it was kept."""

    def compile_code() -> bytes:
        from . import lowering, machine_code

        return machine_code.compiled(lowering.lowered(source))

    return cached_code(source, compile_code)


@contextlib.contextmanager
def _warned_once() -> Iterator[None]:
    """Continue without the cache where it cannot be used; warns once per process."""
    try:
        yield
    except OSError as error:
        if not _warned.is_set():
            _warned.set()
            reason = f"compiled kernels are not kept ({error})"
            warnings.warn(reason, RuntimeWarning, stacklevel=4)


def path_of(text: str) -> Path:
    """The file of a kernel, named by a hash of all that machine code depends on."""
    from importlib.metadata import version

    from platformdirs import user_cache_path

    from . import machine_code

    package = files(__package__)
    parts = (
        text,
        *(f"llvmlite {version('llvmlite')}", repr(machine_code.processor())),
        *(package.joinpath(f"{n}.py").read_text("utf-8") for n in ("lowering", "machine_code")),
        *FUNCTIONS,  # called by their index
    )
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    root = os.environ.get("FLEETCUBE_CACHE")
    base = Path(root) if root else user_cache_path("fleetcube")
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = base / "kernels"
    for each in (base, folder):
        each.mkdir(exist_ok=True, mode=0o700)
        _check_ours(each, each.lstat())  # of a link itself, which may point anywhere
    return folder / f"{digest}.kernel"


def _check_ours(path: Path, status: os.stat_result) -> None:
    """Raise PermissionError for what another user owns or may write to."""
    owned = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if stat.S_ISLNK(status.st_mode) or not owned or (others and os.name == "posix"):
        if os.environ.get(_SHARED) == "1":
            return
        raise PermissionError(
            f"others may write to {str(path)!r}; remove it or name another in FLEETCUBE_CACHE, or "
            f"set {_SHARED}=1 if you trust everyone who may"
        )


def read(path: Path) -> bytes | None:
    """A file's content after its checksum; None if it is missing or damaged."""
    with (
        contextlib.suppress(FileNotFoundError),
        open(path, "rb", opener=_without_waiting) as file,
    ):
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            _check_ours(path, status)
            data = file.read()
            if hashlib.sha256(data[_SUM:]).digest() == data[:_SUM]:
                return data[_SUM:]
    return None


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without following links, and without waiting for a pipe's writer."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # before the rename: a crash must not leave it empty
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
