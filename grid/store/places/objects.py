"""Cubes on object stores: s3://, gs://, az://, memory://, and http(s):// to read.

A put is atomic, and nothing can be renamed. So a cube is built in place, in an order that misleads
no reader: chunks and the record, the seal, the arrays' metadata, and the root last. A repair or an
overwrite removes the root first, then that metadata.
"""

import contextlib
import itertools
import json
import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from ....kernels import log
from ...errors import InputError, imported
from ..names import LOCK, PARTS, RECORD, ROOT, check_size, part_of, rank
from .durable import Group

RENEW_SECONDS = 15.0  # between renewals of a lock
STALE_SECONDS = 60.0  # age beyond which a lock that was not renewed no longer counts
BATCH_SECONDS = 5.0  # of finished blocks per journal object: each object costs a request
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_memory: dict[str, Any] = {}  # stores by URL, shared in a process


class Hosted:
    """A place at a URL, where files are written one by one and nothing is renamed; picklable."""

    path = None
    given: tuple[str, ...]  # what it is made of
    write: Callable[[str, Any], None]

    def __reduce__(self) -> Any:
        return type(self), self.given

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hosted) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self.given)

    def __str__(self) -> str:
        return self.given[0]

    def group_commit(self) -> Group:
        return contextlib.nullcontext(self.write)

    def recover(self) -> None:
        pass

    def replaced(self) -> tuple[()]:
        return ()


class Objects(Hosted):
    """A prefix of an object store, where a cube is built in place. Credentials and endpoint come
    from the store's usual environment variables."""

    in_sight = True
    writers = 4

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.given = (self.url,)
        parts = urlsplit(self.url)
        self.scheme, self.bucket, self.prefix = parts.scheme, parts.netloc, parts.path.strip("/")
        if self.scheme not in (*_CREDENTIALS, "memory", "http", "https"):
            raise InputError(
                f"{url!r} begins with {self.scheme}://; use s3://, gs://, az://, icechunk://, "
                "icechunk+s3://, or http(s):// to read"
            )
        if not self.bucket or not (self.prefix or self.scheme == "memory"):
            raise InputError(f"{url!r} names no cube; write for example s3://bucket/cubes/a.zarr")
        self._lease: _Lease | None = None

    @cached_property
    def client(self) -> Any:
        """The obstore store rooted at this prefix."""
        store = imported("obstore.store", f"{self.url!r} needs")
        if self.scheme == "memory":
            return _memory.setdefault(self.url, store.MemoryStore())
        retries: Any = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
        options: Any = {"client_options": {"allow_http": True}} if self.scheme == "http" else {}
        with self.wrapping_errors():
            return store.from_url(self.url, retry_config=retries, **options)

    @contextlib.contextmanager
    def wrapping_errors(self) -> Iterator[None]:
        """Turn the store's errors into a one-line ConnectionError."""
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as error:
            if any(word in str(error) for word in _NO_BUCKET):
                raise ConnectionError(self._message(error)) from None
            raise
        except BaseError as error:
            raise ConnectionError(self._message(error)) from error

    def _message(self, error: Exception) -> str:
        from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

        text = str(error)
        first = text.partition("\n")[0][:300]
        names = _CREDENTIALS.get(self.scheme, "its credentials")
        if any(word in text for word in _NO_BUCKET):
            reason = f"there is no bucket {self.bucket!r}; create it, or name another"
        elif isinstance(error, PermissionDeniedError | UnauthenticatedError):
            reason = f"access was refused ({first}); check {names} and what they may do"
        elif "api/token" in text or "Account must be" in text or "credential" in text.lower():
            reason = f"no credentials were found; set {names}"
        elif "BadScheme" in text:
            reason = "its endpoint is plain http; set AWS_ALLOW_HTTP=true"
        elif "HTTP error" in text:
            reason = f"there is no answer ({first}); check the endpoint and the network"
        else:
            reason = f"{first}; try again"
        return f"{self.url!r}: {reason}"

    def read(self, name: str, size: int | None = None) -> bytes:
        client = self.client
        with self.wrapping_errors():
            response = client.get(name)
            check_size(response.meta["size"], size)
            return bytes(response.bytes())

    def write(self, name: str, data: Any) -> None:
        client = self.client
        if self._lease is not None:
            self._lease.check()  # a put cannot be undone if another writer took over
        with self.wrapping_errors():
            client.put(name, data, use_multipart=False)

    def delete(self, name: str) -> None:
        client = self.client
        with self.wrapping_errors(), contextlib.suppress(FileNotFoundError):
            client.delete(name)

    def sizes(self, under: str = "") -> dict[str, int | None] | None:
        if self.scheme in ("http", "https"):
            return None
        return {item["path"]: item["size"] for batch in self._list(under) for item in batch}

    def _list(self, under: str) -> Iterator[Any]:
        client = self.client
        with self.wrapping_errors():
            yield from client.list(under.rstrip("/") or None)

    def remove(self, names: set[str]) -> None:
        client = self.client
        with self.wrapping_errors():
            for _, batch in itertools.groupby(sorted(names, key=lambda n: (rank(n), n)), rank):
                client.delete([*batch])

    def log(self, plan: bytes) -> "Parts":
        return Parts(self, plan, BATCH_SECONDS, f"{uuid.uuid4().hex[:8]}-{{:06d}}")

    def exists(self, names: Collection[str] | None) -> bool:
        return bool(names) and not any(name.startswith(f"{RECORD}/") for name in names or ())

    def above(self) -> "Iterator[Objects]":
        parts = self.prefix.split("/")
        for count in range(len(parts) - 1, 0, -1):
            above = Objects(f"{self.scheme}://{self.bucket}/{'/'.join(parts[:count])}")
            with contextlib.suppress(FileNotFoundError, ConnectionError):  # or not readable by us
                above.read(ROOT)
                yield above

    def unfinished(self) -> "Objects":
        return self

    def check(self) -> None:
        if self.scheme in ("http", "https"):
            raise InputError(f"{self.url!r} can only be read; write to a folder or to s3://")

    def room(self) -> tuple[float, float, int]:
        return math.inf, math.inf, 1  # a store states no limit

    @contextlib.contextmanager
    def one_writer(self, lock: str = LOCK) -> Iterator[None]:
        lease = _Lease(self, lock)
        self._lease = lease
        try:
            yield
        finally:
            self._lease = None
            lease.release()

    def take(self, other: Any, names: Iterable[str]) -> None:
        raise NotImplementedError  # a cube is built in its place

    def finish(self, whole: Any) -> tuple[()]:
        return ()  # the root was written last

    def discard(self, whole: Any) -> None:
        raise NotImplementedError  # nothing is replaced but in its place

    def source(self) -> Any:
        from zarr.storage import ObjectStore

        return ObjectStore(self.client, read_only=True)


@dataclass
class Parts:
    """A plan's journal in parts named by their number, where files cannot be appended to."""

    place: Hosted
    plan: bytes
    seconds: float
    name: str  # with a field for the number
    commit: Callable[[str], Any] = lambda message: None
    lines: list[bytes] = field(default_factory=list)
    count: int = 0

    def append(self, line: bytes) -> None:
        self.lines.append(line)

    def sync(self) -> None:
        if self.lines:
            part = part_of(self.plan, self.lines)
            self.place.write(PARTS + self.name.format(self.count), part)
            self.commit(f"{len(self.lines)} blocks")
            self.count += 1
            self.lines.clear()

    def close(self) -> None:
        pass


class _Lease:
    """The lock of a cube: an object created only if absent, and renewed while held. Every write is
    conditional on the version last seen, so that one of two writers fails. A writer that could not
    renew it in time stops writing."""

    def __init__(self, place: Objects, name: str) -> None:
        self._place, self._name = place, name
        self._count = 0
        self._who = {"process": os.getpid(), "host": socket.gethostname(), "run": uuid.uuid4().hex}
        self._written: dict[str, str] | None = (
            None  # the version last written, in the store's terms
        )
        self._bare = False  # whether the store wants tags without quotes
        self._lost = ""
        self._prove()
        self._take()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise ConnectionError once the lock is lost."""
        if not self._lost and time.monotonic() - self._renewed > STALE_SECONDS:
            self._lost = f"it could not be renewed for {STALE_SECONDS:.0f} s"
        if self._lost:
            raise ConnectionError(f"{str(self._place)!r}: the lock was lost ({self._lost})")

    def release(self) -> None:
        """Stop renewing, and remove the lock if it is still ours."""
        self._ended.set()
        self._thread.join()
        if not self._lost:
            with contextlib.suppress(OSError):  # what is left goes stale
                self._place.delete(self._name)

    def _write(self, mode: Any) -> bool:
        """Write the lock if a condition holds; return whether it did."""
        began = time.monotonic()  # before the request: the store's clock starts later
        self._count += 1
        body = json.dumps({**self._who, "count": self._count}).encode()
        meta = self._try(self._name, body, mode)
        if meta is None:
            return False
        self._written, self._renewed = self._version(meta), began
        return True

    def _try(self, name: str, body: bytes, mode: Any) -> Any:
        """Write an object if a condition holds; return its metadata, or None."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        client = self._place.client
        with self._place.wrapping_errors():
            try:
                return client.put(name, body, mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                with contextlib.suppress(FileNotFoundError):
                    response = client.get(name)
                    # ours after all: the first answer was lost, and the client retried
                    if bytes(response.bytes()) == body:
                        return response.meta
        return None

    def _version(self, meta: Any) -> dict[str, str]:
        """A version of an object, as used in a condition."""
        version = {key: meta[key] for key in ("e_tag", "version") if meta.get(key)}
        return {**version, "e_tag": version["e_tag"].strip('"')} if self._bare else version

    def _prove(self) -> None:
        """Refuse a store without conditional writes, or one that accepts but ignores conditions."""
        name, lacks = f"{self._name}-{self._who['run']}", ""
        try:
            first = self._try(name, b"1", "create")
            if first is None or self._try(name, b"2", "create") is not None:
                lacks = "it ignores If-None-Match"
            else:
                then = self._try(name, b"3", self._version(first))
                if then is None:
                    self._bare = True  # Ceph 16 wants the tag without its quotes
                    then = self._try(name, b"3", self._version(first))
                if then is None or self._try(name, b"4", self._version(first)) is not None:
                    lacks = "it ignores If-Match"
        except ConnectionError as error:
            if "NotImplemented" not in str(error.__cause__).replace(" ", ""):
                raise
            lacks = "it has not implemented them"
        self._place.delete(name)
        if lacks:
            raise InputError(
                f"{str(self._place)!r}: this store has no conditional writes ({lacks}), without "
                "which two runs may write one cube; write to a folder, and copy it there"
            )

    def _look(self) -> tuple[dict[str, Any], dict[str, Any], float]:
        """The lock's holder, its version, and the seconds since it was renewed."""
        with self._place.wrapping_errors():
            response = self._place.client.get(self._name)
            body, meta = bytes(response.bytes()), response.meta
        try:
            holder = dict(json.loads(body))
        except (ValueError, TypeError):
            holder = {}
        return holder, meta, (datetime.now(UTC) - meta["last_modified"]).total_seconds()

    def _take(self) -> None:
        while not self._write("create"):
            with contextlib.suppress(FileNotFoundError):  # released meanwhile
                holder, meta, age = self._look()
                if age > STALE_SECONDS and self._write(self._version(meta)):
                    return
                raise InputError(
                    f"{str(self._place)!r} is being written by process "
                    f"{holder.get('process', 'unknown')} on {holder.get('host', 'another host')}, "
                    f"which renewed its lock {max(age, 0):.0f} s ago; wait for it, or stop it: "
                    f"a lock counts for {STALE_SECONDS:.0f} s after its last renewal"
                )

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            # a failed request is retried; `check` limits for how long
            try:
                if not self._write(self._written):
                    self._lost = "another writer took it"
                    return
            except OSError as error:
                log.warning("%s: its lock was not renewed, trying again: %s", self._place, error)
