"""NumPy's own loops for exp, log and the like, called from compiled kernels.

They are vectorised, which the mathematics library that LLVM would call is not: 1 against 10 to 20
ns a value. And a kernel that calls them has NumPy's bits. Their addresses are in `PyUFuncObject`,
a public structure of NumPy's C interface.
"""

import ctypes
import functools
from typing import Any

import numpy as np

from ..graph.trace import LOOPS


class _UFunc(ctypes.Structure):
    """The head of `PyUFuncObject` (numpy/ufuncobject.h)."""

    _fields_ = (
        ("ob_base", ctypes.c_char * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved1", ctypes.c_int),
        ("name", ctypes.c_char_p),
    )


@functools.cache
def addresses() -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each of `LOOPS`, where its float64 loop is and where the loop's own data are."""
    return np.array([_address(name) for name in LOOPS], np.int64)


def _address(name: str) -> tuple[int, int]:
    function = getattr(np, name)
    head = _UFunc.from_address(id(function))
    # two fields that Python also shows: if they differ, the layout is another, and so are addresses
    if (head.name, head.ntypes) != (name.encode(), function.ntypes):
        raise RuntimeError(
            f"NumPy {np.__version__} keeps its loops elsewhere; evaluate with engine = 'numpy'"
        )
    which = function.types.index("d->d")
    return head.functions[which] or 0, (head.data[which] or 0) if head.data else 0
