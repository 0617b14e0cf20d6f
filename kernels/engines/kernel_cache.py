"""Compiled kernels on disk. They are machine code: only what this user wrote is loaded, and only as
it was written. A damaged or refused cache costs the time to compile again, never a run."""

import contextlib
import hashlib
import json
import os
import platform
import stat
import sys
import threading
import types
import warnings
from pathlib import Path
from typing import Any

SUMS = "sums.json"  # sha256 of what numba wrote, by file
_SHARED = "FLEETCUBE_SHARED_CACHE"
_warned = threading.Event()


def jitted(source: str, scope: dict[str, Any], signature: Any, options: dict[str, Any]) -> Any:
    """The compiled function `kernel` of a source, even where the cache cannot be used."""
    import numba

    kernel = None
    try:
        folder = folder_of(f"{sorted(options.items())}\n{source}")
        if folder is not None:
            kernel = numba.njit(cache=True, **options)(function(folder, source, scope))
            kernel.compile(signature)
            seal(folder)
            return kernel
    except Exception as error:
        warn(f"{type(error).__name__}: {error}")
        if kernel is not None and kernel.signatures:  # compiled, but not written
            return kernel
    scope = dict(scope)
    exec(compile(source, "<fleetcube kernel>", "exec"), scope)
    kernel = numba.njit(**options)(scope["kernel"])
    kernel.compile(signature)
    return kernel


def folder_of(source: str) -> Path | None:
    """Folder named by a hash of all that machine code depends on; None where it cannot be made."""
    import llvmlite
    import numba
    import numpy as np
    from platformdirs import user_cache_path

    features = llvmlite.binding.get_host_cpu_features().flatten()
    parts = (
        source,
        f"{numba.__version__} {llvmlite.__version__} {np.__version__} {sys.version}",
        f"{platform.machine()} {llvmlite.binding.get_host_cpu_name()} {features}",
        Path(__file__).with_name("intrinsics.py").read_text(encoding="utf-8"),
    )
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    root = os.environ.get("FLEETCUBE_CACHE")
    base = Path(root) if root else user_cache_path("fleetcube")
    try:
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = base / "kernels" / digest
        for each in (base, base / "kernels", folder, folder / "__pycache__"):
            each.mkdir(exist_ok=True, mode=0o700)
            _check_ours(each)
    except OSError as error:
        warn(str(error))
        return None
    return folder


def _check_ours(path: Path) -> None:
    """Raise PermissionError for a folder that another user owns or may write to."""
    status = path.lstat()  # of a link itself, which may lead anywhere
    owned = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if stat.S_ISLNK(status.st_mode) or not owned or (others and os.name == "posix"):
        if os.environ.get(_SHARED) == "1":
            return
        raise PermissionError(
            f"others may write to {str(path)!r}; remove it or name another in FLEETCUBE_CACHE, or "
            f"set {_SHARED}=1 if you trust everyone who may"
        )


def warn(reason: str) -> None:
    """Warn once in a process that kernels are not kept."""
    if not _warned.is_set():
        _warned.set()
        warnings.warn(f"compiled kernels are not kept ({reason})", RuntimeWarning, stacklevel=2)


def function(folder: Path, source: str, scope: dict[str, Any]) -> Any:
    """The function `kernel` of a source, in a file by which numba recognises it."""
    path = folder / "kernel.py"
    text = source.encode()
    with contextlib.suppress(OSError):
        if path.is_symlink() or not path.is_file() or path.read_bytes() != text:
            write(path, text)
    _discard_altered(folder)
    module = types.ModuleType(f"fleetcube_kernel_{folder.name}")
    module.__file__ = str(path)
    module.__dict__.update(scope)
    sys.modules[module.__name__] = module  # numba imports it by name when it reads its cache
    # from the text: the file may have been changed since it was compared
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module.__dict__["kernel"]


def seal(folder: Path) -> None:
    """Record what numba wrote, so that it is loaded unaltered or not at all."""
    sums = _sums(folder)
    if sums != _recorded_sums(folder):
        write(folder / SUMS, json.dumps(sums).encode())


def _discard_altered(folder: Path) -> None:
    """Remove machine code that is not as it was sealed, before numba can load it."""
    with contextlib.suppress(OSError):
        if _sums(folder) == _recorded_sums(folder):
            return
    for file in _compiled(folder):
        with contextlib.suppress(OSError):
            file.unlink()


def _recorded_sums(folder: Path) -> Any:
    try:
        return json.loads((folder / SUMS).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}


def _sums(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in _compiled(folder)}


def _compiled(folder: Path) -> list[Path]:
    return sorted((folder / "__pycache__").glob("*.nb[ic]"))


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
