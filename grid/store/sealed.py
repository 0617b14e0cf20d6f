"""The store from which Zarr reads a complete cube: as it was opened, or not at all."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.storage import LocalStore, WrapperStore

from .names import GROUP
from .reader import Reader


class SealedStore(WrapperStore[Store]):
    """The files of a `Reader`, by Zarr's names."""

    def __init__(self, store: Store, reader: Reader) -> None:
        super().__init__(store)
        self.inner, self.reader = store, reader

    def with_read_only(self, read_only: bool = False) -> "SealedStore":
        """The same cube, which is never written through this store."""
        return SealedStore(self.inner.with_read_only(read_only), self.reader)

    def __reduce__(self) -> Any:
        return SealedStore, (self.inner, Reader(self.reader.place, self.reader.files))

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read one file. Raises InputError for a chunk that is not the cube's."""
        reader = self.reader
        if byte_range is None and key in reader.files:
            return prototype.buffer.from_bytes(reader.chunk(key))
        if key not in reader.sums:
            return None
        if byte_range is not None:
            raise NotImplementedError("chunks are read whole, or they cannot be checked")
        if isinstance(self.inner, LocalStore):
            return prototype.buffer.from_bytes(await asyncio.to_thread(reader.chunk, key))
        value: Buffer | None = None
        with contextlib.suppress(FileNotFoundError), reader.place.wrapping_errors():
            value = await self.inner.get(key, prototype)
        data = None if value is None else value.to_bytes()
        await asyncio.to_thread(reader.sound, key, data)  # which may read, to tell why
        return value

    async def exists(self, key: str) -> bool:
        return key in self.reader.files or await self.inner.exists(key)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The arrays of the cube, or the contents of a group, without our record. Zarr 3.1 cannot
        list nested groups under `python -O`, and no reader needs our record."""
        under = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
        files = self.reader.files
        for name in {n[len(under) :].split("/")[0] for n in files if n.startswith(under)}:
            if name != GROUP:
                yield name
