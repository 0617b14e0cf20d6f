"""Blocks of a cube written by Dask workers; only their client journals and seals them."""

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..plan.plan import Plan
from ..run.cluster import Cluster
from .chunks import Compressor
from .journal import Block
from .names import PLAN
from .places.durable import TEMPORARY
from .places.place import Folder, Place
from .writer import Task, Writer


def reached(cluster: Cluster, place: Place) -> Place:
    """A place as the workers reach it; one that they cannot reach is refused."""
    if place.path is not None:
        parents = place.path.absolute().parents
        folder = next(folder for folder in parents if folder.exists())
        cluster.check_folder(folder / f".{uuid.uuid4().hex}{TEMPORARY}")
        return Folder(place.path.absolute())
    if str(place).startswith(("memory:", "icechunk")):
        raise InputError(
            f"Dask workers cannot write into {str(place)!r}; name a folder or a URL that begins "
            "with s3://, gs:// or az://, or leave dask out"
        )
    return place


def written(cluster: Cluster, place: Place, writer: Writer, tasks: list[Task]) -> Iterator[Block]:
    """Blocks as workers finish them; a worker thread keeps one block in memory at a time."""
    sizes = tuple(writer.axis_chunks.items()), tuple(writer.shapes.items())
    work = _Write(place, writer.dtype, *sizes, writer.compressor)
    for _, pairs in cluster.runs(work, tasks):
        for _, block in pairs:
            yield block


@dataclass(frozen=True)
class _Write:
    """Evaluate a block and write its chunks into an unfinished cube."""

    place: Place
    dtype: str
    chunks: tuple[tuple[str, int], ...]
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    compressor: Compressor

    def __call__(self, plan: Plan, task: Task) -> Block:
        writer, place = _opened(plan, self)
        place.check()
        return writer.write(place, *task)


class _Joined:
    """An unfinished cube of another process; nothing is written after that process has ended."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def check(self) -> None:
        """Raise FileNotFoundError if the run has ended."""
        try:
            self.place.read(PLAN)
        except FileNotFoundError:
            raise FileNotFoundError(f"the run that wrote {str(self.place)!r} has ended") from None

    @contextlib.contextmanager
    def group_commit(self) -> Iterator[Callable[[str, Any], None]]:
        with self.place.group_commit() as write:

            def checked(name: str, data: Any) -> None:
                self.check()  # again: the run may have ended during evaluation
                write(name, data)

            yield checked


@functools.lru_cache(maxsize=4)
def _opened(plan: Plan, work: _Write) -> tuple[Writer, _Joined]:
    writer = Writer(plan, {}, work.dtype, dict(work.chunks), dict(work.shapes), work.compressor)
    return writer, _Joined(work.place)
