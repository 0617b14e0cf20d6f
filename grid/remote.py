"""Blocks of a cube that Dask workers write; their client alone counts and seals them."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cluster import Cluster
from .durable import DurableStore
from .journal import PLAN, Block
from .plan import Plan, Region
from .writer import Writer, open_array


def written(
    cluster: Cluster, writer: Writer, partial: Path, tasks: list[tuple[tuple[str, ...], Region]]
) -> Iterator[Block]:
    """Blocks as workers finish them; a worker thread holds one block at a time."""
    asked = tuple(writer.asked.items())
    work = _Write(str(partial.absolute()), writer.dtype, asked)
    for _, pairs in cluster.runs(work, tasks):
        for _, block in pairs:
            yield block


@dataclass(frozen=True)
class _Write:
    """Evaluate a block and write its chunks into an unfinished cube."""

    partial: str
    dtype: str
    chunks: tuple[tuple[str, int], ...]

    def __call__(self, plan: Plan, task: tuple[tuple[str, ...], Region]) -> Block:
        writer, store, arrays = _opened(plan, self)
        store.check()
        return writer.write(store, arrays, *task)


class _Joined(DurableStore):
    """An unfinished cube that another process keeps: nothing is written once it has ended."""

    def check(self) -> None:
        """Raise FileNotFoundError where the run has ended."""
        if not (self.root / PLAN).exists():
            raise FileNotFoundError(f"the run that wrote {str(self.root)!r} has ended")

    def _write(self, key: str, value: Any) -> None:
        self.check()
        super()._write(key, value)


@functools.lru_cache(maxsize=4)
def _opened(plan: Plan, work: _Write) -> tuple[Writer, _Joined, dict[str, Any]]:
    writer = Writer(plan, {}, work.dtype, dict(work.chunks))
    store = _Joined(Path(work.partial))
    return writer, store, {name: open_array(store, name) for name in plan.outputs}
