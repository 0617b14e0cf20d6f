"""Cubes in Icechunk repositories, where every complete version stays readable.

A cube is written on the branch `unfinished`, finished blocks and their journal in one commit. When
it is complete, the branch `main` and a tag are set to it, so readers never see partial cubes.
"""

import contextlib
import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from zarr.buffer import default_buffer_prototype

from ...errors import InputError, imported
from ..names import GROUP, RECORD, ROOT, check_size
from .objects import Hosted, Objects, Parts
from .place import Folder, Place
from .wait import wait

COMMIT_SECONDS = 20.0  # between commits, during which all writing stops
MAIN, UNFINISHED = "main", "unfinished"
_LOCK = "fleetcube.lock"
_OBJECT = re.compile(r"\b(chunks|manifests|snapshots|transactions)/[0-9A-Z]{20}\b")
# Icechunk stores only arrays: a file of the record is an array of its bytes in one chunk
_BYTES = (
    b'{"zarr_format":3,"node_type":"array","shape":[%d],"data_type":"uint8","fill_value":0,'
    b'"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[%d]}},'
    b'"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},'
    b'"codecs":[{"name":"bytes"}],"dimension_names":["byte"],"attributes":{}}'
)


class Icechunk(Hosted):
    """A branch of a repository: icechunk:///folder or icechunk+s3://bucket/prefix."""

    in_sight = False

    def __init__(self, url: str, branch: str = MAIN) -> None:
        self.url, self.branch = url.rstrip("/"), branch
        self.given = (self.url, branch)
        parts = urlsplit(self.url)
        self.base: Folder | Objects
        if parts.scheme == "icechunk":
            self.base = Folder(Path(parts.netloc + parts.path))
        elif parts.scheme == "icechunk+s3":
            self.base = Objects(self.url.removeprefix("icechunk+"))
        else:
            raise InputError(
                f"{url!r} begins with {parts.scheme}://; use icechunk:///folder or "
                "icechunk+s3://bucket/prefix"
            )
        self.writers = self.base.writers
        self._repository: Any = None
        self._session: Any = None
        self._gate = _Gate()

    @contextlib.contextmanager
    def wrapping_errors(self) -> Iterator[None]:
        """Turn Icechunk's errors into a one-line ConnectionError."""
        icechunk = self._icechunk()
        try:
            yield
        except icechunk.ConflictError as error:
            raise ConnectionError(f"{self.url!r} was written by another process") from error
        except icechunk.IcechunkError as error:
            first = str(error).strip().partition("\n")[0].removeprefix("x ")
            if first.startswith("node not found"):
                raise FileNotFoundError(first) from None
            if first.startswith("object ") and "not found" in first:
                lost = _OBJECT.search(str(error))
                if lost and lost[1] == "chunks":  # the block is recomputed
                    raise FileNotFoundError(lost[0]) from None
                lost_name = lost[0] if lost else "an object"
                raise ConnectionError(
                    f"{self.url!r} is damaged ({lost_name} is missing); "
                    "write the cube to another place"
                ) from error
            raise ConnectionError(f"{self.url!r}: {first}; try again") from error

    def _icechunk(self) -> Any:
        os.environ.setdefault("ICECHUNK_LOG", "error")
        return imported("icechunk", f"{self.url!r} needs")

    def _open(self, create: bool = False) -> Any:
        if self._repository is None:
            icechunk = self._icechunk()
            if isinstance(self.base, Objects):
                self.base.sizes(_LOCK)  # reports a wrong bucket or endpoint in one line
                endpoint = os.environ.get("AWS_ENDPOINT_URL_S3", os.environ.get("AWS_ENDPOINT_URL"))
                storage = icechunk.s3_storage(
                    bucket=self.base.bucket,
                    prefix=self.base.prefix,
                    region=os.environ.get("AWS_REGION", os.environ.get("AWS_DEFAULT_REGION")),
                    endpoint_url=endpoint,
                    allow_http=os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true"),
                    force_path_style=endpoint is not None,
                    from_env=True,
                )
            elif create or self.base.path.is_dir():  # Icechunk would create it
                storage = icechunk.local_filesystem_storage(str(self.base.path))
            else:
                return None
            with self.wrapping_errors():
                if icechunk.Repository.exists(storage):
                    self._repository = icechunk.Repository.open(storage)
                elif "repo" in (self.base.sizes() or ()):  # of the second format
                    raise InputError(
                        f"{self.url!r} is a repository that Icechunk {icechunk.__version__} does "
                        "not know; use Icechunk 2 (Python 3.12 or newer)"
                    )
                elif create:
                    self._repository = icechunk.Repository.create(storage)
        return self._repository

    def _reading(self) -> Any:
        """The branch's session; None without such a branch."""
        repository = self._open()
        if self._session is None and repository is not None:
            with self.wrapping_errors():
                if self.branch in repository.list_branches():
                    self._session = repository.readonly_session(self.branch)
        return self._session

    def read(self, name: str, size: int | None = None) -> bytes:
        array = _array(name)
        data = self._get(f"{array}/c/0" if array else name)
        if data is None and array and self._get(f"{array}/{ROOT}") == _BYTES % (0, 1):
            data = b""  # an empty file has no chunk
        if data is None:
            raise FileNotFoundError(name)
        check_size(len(data), size)
        return data

    def _get(self, key: str) -> bytes | None:
        session = self._reading()
        with self.wrapping_errors():
            buffer = session and wait(session.store.get(key, default_buffer_prototype()))
        return bytes(buffer.to_bytes()) if buffer else None

    def _holds(self, key: str) -> bool:
        session = self._reading()
        with self.wrapping_errors():
            return session is not None and bool(wait(session.store.exists(key)))

    def write(self, name: str, data: Any) -> None:
        files = {name: bytes(data)}
        if array := _array(name):
            size = len(data)
            files = {f"{array}/{ROOT}": _BYTES % (size, size or 1), f"{array}/c/0": bytes(data)}
        with self._gate.open(), self.wrapping_errors():
            if array:
                self.delete(name)  # otherwise the chunk of a longer one may remain
            for key, part in files.items():
                if part:
                    buffer = default_buffer_prototype().buffer.from_bytes(part)
                    wait(self._session.store.set(key, buffer))

    def delete(self, name: str) -> None:
        key = f"{array}/{ROOT}" if (array := _array(name)) else name
        if self._holds(key):
            with self.wrapping_errors():
                wait(self._session.store.delete(key))

    def sizes(self, under: str = "") -> dict[str, int | None]:
        if self._session is not None and self._session.read_only:
            self._session = None  # another process may have written meanwhile
        session = self._reading()
        if session is None:
            return {}

        async def keys() -> list[str]:
            return [key async for key in session.store.list()]

        with self.wrapping_errors():
            names = {name for key in wait(keys()) if (name := _file(key))}
        return {name: None for name in names if name.startswith(under)}

    def remove(self, names: set[str]) -> None:
        if names >= self.sizes().keys():
            self._start_over()
            return
        for name in names:
            self.delete(name)

    def _start_over(self) -> None:
        """Reset the branch `unfinished` to the repository's first, empty snapshot."""
        with self.wrapping_errors():
            *_, first = self._repository.ancestry(branch=MAIN)
            if UNFINISHED in self._repository.list_branches():
                self._repository.reset_branch(UNFINISHED, first.id)
            else:
                self._repository.create_branch(UNFINISHED, first.id)
            self._session = self._repository.writable_session(UNFINISHED)

    def log(self, plan: bytes) -> Parts:
        return Parts(self, plan, COMMIT_SECONDS, "{}", self.commit)  # together with its blocks

    def commit(self, message: str) -> str:
        """Make everything written durable; return the name of the snapshot."""
        # closed, since writes to the session being replaced would be lost
        with self._gate.closed(), self.wrapping_errors():
            snapshot = str(self._session.commit(message))
            self._session = self._repository.writable_session(UNFINISHED)
        return snapshot

    def exists(self, names: Collection[str] | None) -> bool:
        if self._open() is None:
            return bool({*(self.base.sizes() or ())} - {_LOCK})
        return bool(names) or (self.branch == UNFINISHED and self._reading() is not None)

    def above(self) -> Iterable[Place]:
        return self.base.above()

    def unfinished(self) -> "Icechunk":
        return Icechunk(self.url, UNFINISHED)

    def check(self) -> None:
        self._icechunk()
        self.base.check()

    def room(self) -> tuple[float, float, int]:
        return self.base.room()

    @contextlib.contextmanager
    def one_writer(self) -> Iterator[None]:
        self._open(create=True)  # before the lock: Icechunk creates only in an empty place
        # on a local disk, concurrent commits of several processes would be lost
        with self.base.one_writer(_LOCK):
            self._session = None
            with self.wrapping_errors():
                begun = UNFINISHED in self._repository.list_branches()
                if begun:
                    self._session = self._repository.writable_session(UNFINISHED)
            if not begun:
                self._start_over()
            try:
                yield
            finally:
                self._session = None

    def take(self, other: Place, names: Iterable[str]) -> None:
        for name in names:
            array = f"{name.partition('/')[0]}/{ROOT}"
            if not self._holds(array):  # Icechunk keeps no chunk without its array
                self.write(array, other.read(array))
            self.write(name, other.read(name))

    def finish(self, whole: Place) -> tuple[()]:
        snapshot = self.commit("a complete cube")
        with self.wrapping_errors():
            self._repository.create_tag(f"cube-{snapshot}", snapshot)
            self._repository.reset_branch(MAIN, snapshot)
        self.discard(whole)
        self.base.delete(_LOCK)
        return ()

    def discard(self, whole: Place) -> None:
        with self.wrapping_errors():
            self._repository.delete_branch(UNFINISHED)

    def source(self) -> Any:
        return self._reading().store


def _array(name: str) -> str | None:
    """The array that stores a file of the record; None for files that Zarr knows."""
    file = name.removeprefix(f"{RECORD}/")
    return None if file in (name, ROOT) else f"{GROUP}/{file.replace('/', '-')}"


def _file(key: str) -> str | None:
    """The file that Icechunk stores under a key; None for chunks of the record's arrays."""
    array, _, rest = key.removeprefix(f"{GROUP}/").partition("/")
    if not key.startswith(f"{GROUP}/") or not rest or key == f"{RECORD}/{ROOT}":
        return key
    return f"{RECORD}/{array.replace('-', '/')}" if rest == ROOT else None


class _Gate:
    """Admits many concurrent writers, and none during a commit."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        with self._changed:
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        with self._changed:  # held throughout, so that nobody enters
            self._changed.wait_for(lambda: self._inside == 0)
            yield
