"""Compiled kernels on the disk. They are machine code: only what this user wrote, and as it was
written, is loaded; whatever is wrong with them costs the time to compile anew, never a run."""

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
_said = threading.Event()


def folder_of(source: str) -> Path | None:
    """Folder named by a hash of all that machine code depends on; None where there can be none."""
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
        say(str(error))
        return None
    return folder


def _check_ours(path: Path) -> None:
    """Raise PermissionError for what another user owns or may write."""
    held = path.lstat()
    owned = not hasattr(os, "geteuid") or held.st_uid == os.geteuid()
    others = held.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if stat.S_ISLNK(held.st_mode) or not owned or (others and os.name == "posix"):
        if os.environ.get(_SHARED) == "1":
            return
        raise PermissionError(
            f"others may write {str(path)!r}; remove it or name another in FLEETCUBE_CACHE, or set "
            f"{_SHARED}=1 where all who may are trusted"
        )


def say(what: str) -> None:
    """Tell once in a process that kernels are not kept."""
    if not _said.is_set():
        _said.set()
        warnings.warn(f"compiled kernels are not kept ({what})", RuntimeWarning, stacklevel=2)


def function(folder: Path, source: str, scope: dict[str, Any]) -> Any:
    """The function `kernel` of a source, in a file by which numba knows it again."""
    path = folder / "kernel.py"
    text = source.encode()
    with contextlib.suppress(OSError):
        if path.is_symlink() or not path.is_file() or path.read_bytes() != text:
            write(path, text)
    _discard_what_is_unsound(folder)
    module = types.ModuleType(f"fleetcube_kernel_{folder.name}")
    module.__file__ = str(path)
    module.__dict__.update(scope)
    sys.modules[module.__name__] = module  # numba imports it by name when it reads its cache
    exec(compile(source, str(path), "exec"), module.__dict__)  # not what the file may hold
    return module.__dict__["kernel"]


def seal(folder: Path) -> None:
    """Remember what numba wrote, so that it is loaded as it is or not at all."""
    found = _sums(folder)
    if found != _said_sums(folder):
        write(folder / SUMS, json.dumps(found).encode())


def _discard_what_is_unsound(folder: Path) -> None:
    with contextlib.suppress(OSError):
        if _sums(folder) == _said_sums(folder):
            return
    for file in _compiled(folder):
        with contextlib.suppress(OSError):
            file.unlink()


def _said_sums(folder: Path) -> Any:
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
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
