"""What laws are written in: NumPy over whatever arrays they are given, and a choice."""

import sys
from collections.abc import Callable
from typing import Any

import numpy

from . import elementary

# Told apart first, and by plain steps: all else takes longer than a small law on a number
_NUMPYS = frozenset({bool, float, int, numpy.bool_, numpy.float64, numpy.int64, numpy.ndarray})


class _Numpy:
    """NumPy with exp and its like from `elementary`, or the library that an operand names.

    Arrays of Dask, xarray and pint need no more: NumPy hands functions over to them.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by inspect and copy
            raise AttributeError(name)
        value = getattr(elementary.numpy, name)
        value = _on_any(name, value) if callable(value) else value
        setattr(self, name, value)  # made once
        return value

    def where(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        """`numpy.where`, in the library of any of the three."""
        if type(condition) in _NUMPYS and type(if_true) in _NUMPYS and type(if_false) in _NUMPYS:
            return numpy.where(condition, if_true, if_false)
        operands = (condition, if_true, if_false)
        library = _library(operands)
        if library is numpy and numpy.isscalar(condition):
            condition = numpy.asarray(condition)  # of a plain bool, Dask makes one chunk
        if library is numpy:
            for operand in operands:  # xarray takes ufuncs from NumPy, and no other functions
                if hasattr(operand, "__array_ufunc__") > hasattr(operand, "__array_function__"):
                    home = sys.modules[type(operand).__module__.partition(".")[0]]
                    library = home if hasattr(home, "where") else library
        return library.where(condition, if_true, if_false)


def _on_any(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy, of one operand or of two, in the library of any operand."""

    def of_one(x: Any) -> Any:
        return function(x) if type(x) in _NUMPYS else getattr(_library((x,)), name)(x)

    def of_two(x: Any, y: Any) -> Any:
        if type(x) in _NUMPYS and type(y) in _NUMPYS:
            return function(x, y)
        return getattr(_library((x, y)), name)(x, y)

    return of_one if getattr(function, "nin", 1) == 1 else of_two


def _library(operands: tuple[Any, ...]) -> Any:
    """The first library that an operand names, but NumPy itself."""
    for operand in operands:
        if hasattr(operand, "__array_namespace__"):
            library = operand.__array_namespace__()
            if library is not numpy:
                return library
    return numpy


np: Any = _Numpy()


# Both values are computed: where a divisor may be 0 in the one not chosen, formulas guard it, too,
# for plain Python numbers raise ZeroDivisionError and other libraries' derivatives become NaN.
def where(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Choose elementwise; engines replace it (`np.where` on scalars builds arrays in numba).

    Parameters:
        condition [1]: where true, take the first value
        if_true [any]: value where the condition holds
        if_false [any]: value elsewhere
    Returns: [any] the chosen values
    Source: by definition
    """
    return np.where(condition, if_true, if_false)
