"""Results kept by what they were made from, a few at a time."""

import contextlib
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """The results used last, at most `most` of them; results are shared and must not be changed.

    For any number of threads, without a lock, which a fork could leave held: each step is one
    operation of a dict, and where two threads miss, both make the result.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._made: dict[Hashable, T] = {}

    def get(self, key: Hashable) -> T | None:
        """What was kept under an equal key, if it still is."""
        made = self._made.pop(key, None)
        if made is not None:
            self._made[key] = made  # at the end: what was used last goes last
        return made

    def keep(self, key: Hashable, made: T) -> None:
        """Keep a result, and forget those that were not used for longest."""
        self._made[key] = made
        while len(self._made) > self.most:
            with contextlib.suppress(KeyError, RuntimeError):  # another thread was faster
                del self._made[next(iter(self._made))]
