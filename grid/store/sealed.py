"""The store from which Zarr reads a complete cube: as it was opened, or not at all."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from functools import cached_property
from typing import Any

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.storage import LocalStore, WrapperStore

from ..errors import ChangedError, InputError
from .chunks import Stored, is_sound
from .journal import blocks_of
from .names import GROUP, JOURNAL, ROOT


class SealedStore(WrapperStore[Store]):
    """A complete cube as it was when opened; everything but the chunks is in memory. A chunk must
    have the size and crc32c of the journal at that time: a lost one, or one of a cube written
    meanwhile, is a one-line error."""

    def __init__(self, store: Store, place: Any, files: dict[str, bytes]) -> None:
        super().__init__(store)
        self.inner, self.place, self.files = store, place, files

    def with_read_only(self, read_only: bool = False) -> "SealedStore":
        """The same cube, which is never written through this store."""
        return SealedStore(self.inner.with_read_only(read_only), self.place, self.files)

    def __reduce__(self) -> Any:
        return SealedStore, (self.inner, self.place, self.files)

    @cached_property
    def sums(self) -> dict[str, tuple[int, int]]:
        """Size and crc32c of every chunk."""
        blocks = blocks_of(self.files[JOURNAL]).values()
        return {name: (size, crc) for block in blocks for name, size, crc in block.files}

    @cached_property
    def arrays(self) -> dict[str, Stored]:
        """The metadata of every array. Raises ValueError, KeyError or TypeError for what fleetcube
        never writes."""
        metas = {name: name.rpartition("/")[0] for name in self.files if name.endswith(f"/{ROOT}")}
        return {
            array: Stored.from_metadata(json.loads(self.files[name]))
            for name, array in metas.items()
            if not array.startswith(GROUP)
        }

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read one file. Raises ChangedError for a chunk that is not the cube's."""
        if byte_range is None and key in self.files:
            self._check(key, self.files[key])
            return prototype.buffer.from_bytes(self.files[key])
        if key not in self.sums:
            return None
        if byte_range is not None:
            raise NotImplementedError("chunks are read whole, or they cannot be checked")
        size, crc = self.sums[key]
        value: Buffer | None
        if isinstance(self.inner, LocalStore):
            value = await asyncio.to_thread(self._on_disk, key, size, prototype)
        else:
            value = None
            with contextlib.suppress(FileNotFoundError), self.place.wrapping_errors():
                value = await self.inner.get(key, prototype)
        if value is None:
            raise self._foreign(key, "is missing")
        # Zarr also compares the checksum, but cannot name the file
        if not is_sound(value.to_bytes(), size, crc):
            raise self._foreign(key, "has changed since the cube was opened")
        self._check(key, value.as_numpy_array())
        return value

    def _check(self, key: str, data: Any) -> None:
        """Refuse a chunk that would expand to the wrong number of values."""
        array, _, rest = key.partition("/")
        if rest.partition("/")[0] == "c" and (wrong := self.arrays[array].wrong(data)):
            raise InputError(f"{f'{self.place}/{key}'!r} is damaged: it {wrong}; do not use it")

    def _on_disk(self, key: str, size: int, prototype: BufferPrototype) -> Buffer | None:
        """A chunk's file; not read if it is now a pipe, a device or of another size."""
        try:
            return prototype.buffer.from_bytes(self.place.read(key, size))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._foreign(key, f"cannot be read ({error.strerror or error})") from None

    def _foreign(self, key: str, wrong: str) -> ChangedError:
        return ChangedError(
            f"{f'{self.place}/{key}'!r} {wrong}: it was overwritten or damaged; open the cube "
            "again; `fleetcube verify CUBE` reports the damage, `run --resume` repairs it"
        )

    async def exists(self, key: str) -> bool:
        return key in self.files or await self.inner.exists(key)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The arrays of the cube, or the contents of a group, without our record. Zarr 3.1 cannot
        list nested groups under `python -O`, and no reader needs our record."""
        under = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
        for name in {n[len(under) :].split("/")[0] for n in self.files if n.startswith(under)}:
            if name != GROUP:
                yield name
