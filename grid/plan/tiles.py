"""Cut a grid into blocks."""

import itertools
import math
from collections.abc import Iterator, Mapping

from .grid import Region


def blocks(sizes: Mapping[str, int], most: int) -> Iterator[Region]:
    """Regions of at most `most` points where the axes allow it, leading axes cut first."""
    shape = list(sizes.values())
    steps = []
    for k, size in enumerate(shape):
        inner = math.prod(shape[k + 1 :])
        steps.append(min(size, max(1, most // max(inner, 1))))
    return cells(sizes, steps)


def cells(sizes: Mapping[str, int], steps: list[int] | tuple[int, ...]) -> Iterator[Region]:
    """Regions of a regular grid of chunks, the last of each axis cut short."""
    cuts = [
        [slice(start, min(start + step, size)) for start in range(0, size, step)]
        for size, step in zip(sizes.values(), steps, strict=True)
    ]
    for combination in itertools.product(*cuts):
        yield dict(zip(sizes, combination, strict=True))


def chunk_shape(shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Near-isotropic chunk of at most `most` points: the longest side is halved until it fits."""
    chunk = list(shape)
    while math.prod(chunk) > most:
        longest = max(range(len(chunk)), key=lambda k: chunk[k])
        chunk[longest] = -(-chunk[longest] // 2)
    return tuple(chunk)
