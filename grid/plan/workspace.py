"""Memory reused by each thread: fresh pages cost more than computing into them."""

import math
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..spec.axis import Array


class Workspace:
    """Arrays that are valid until the same thread's next call. Pickled empty."""

    def __init__(self) -> None:
        self._local = threading.local()

    def __reduce__(self) -> Any:
        return Workspace, ()

    def arrays(self, shape: tuple[int, ...], dtypes: Iterable[Any]) -> list[Array]:
        """One uninitialized array of a shape for each dtype."""
        memory: list[Array] = self._local.__dict__.setdefault("memory", [])
        arrays = []
        for k, dtype in enumerate(dtypes):
            size = math.prod(shape) * np.dtype(dtype).itemsize
            if k == len(memory):
                memory.append(np.empty(size, np.uint8))
            elif memory[k].size < size:
                memory[k] = np.empty(size, np.uint8)
            arrays.append(memory[k][:size].view(dtype).reshape(shape))
        return arrays
