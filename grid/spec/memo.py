"""A small cache of results by their inputs."""

import contextlib
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """The most recently used results, at most `most`; results are shared and must not be changed.
    For any number of threads, without a lock, which a fork could leave held: each step is one dict
    operation, and if two threads miss, both compute the result."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._values: dict[Hashable, T] = {}

    def get(self, key: Hashable) -> T | None:
        """The result cached under an equal key, if any."""
        value = self._values.pop(key, None)
        if value is not None:
            self._values[key] = value  # at the end: most recently used last
        return value

    def keep(self, key: Hashable, value: T) -> None:
        """Cache a result, and drop the least recently used ones."""
        self._values[key] = value
        while len(self._values) > self.most:
            with contextlib.suppress(KeyError, RuntimeError):  # another thread was faster
                del self._values[next(iter(self._values))]
