"""`np` and `where` of the laws, for NumPy's arrays and those of other libraries."""

import sys
from collections.abc import Callable
from typing import Any

import numpy

from . import elementary

# Checked first and by plain lookups: anything else takes longer than a small law on a number
_NUMPYS = frozenset({bool, float, int, numpy.bool_, numpy.float64, numpy.int64, numpy.ndarray})


class _Numpy:
    """NumPy (which dispatches to Dask, xarray, pint) with `elementary`, or an operand's library."""

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
            condition = numpy.asarray(condition)  # Dask turns a plain bool into a single chunk
        if library is numpy:
            for operand in operands:  # xarray overrides NumPy's ufuncs, but no other functions
                if hasattr(operand, "__array_ufunc__") > hasattr(operand, "__array_function__"):
                    home = sys.modules[type(operand).__module__.partition(".")[0]]
                    library = home if hasattr(home, "where") else library
        return library.where(condition, if_true, if_false)


def _on_any(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function of one or two operands, in the library of any operand."""

    def of_one(x: Any) -> Any:
        return function(x) if type(x) in _NUMPYS else getattr(_library((x,)), name)(x)

    def of_two(x: Any, y: Any) -> Any:
        if type(x) in _NUMPYS and type(y) in _NUMPYS:
            return function(x, y)
        return getattr(_library((x, y)), name)(x, y)

    return of_two if name in ("maximum", "minimum") else of_one


def _library(operands: tuple[Any, ...]) -> Any:
    """The first library other than NumPy that an operand names; else NumPy."""
    for operand in operands:
        if hasattr(operand, "__array_namespace__"):
            library = operand.__array_namespace__()
            if library is not numpy:
                return library
    return numpy


np: Any = _Numpy()


# Both values are computed, so formulas also guard a divisor that may be 0 in the one not chosen:
# plain Python numbers raise ZeroDivisionError and other libraries' derivatives become NaN.
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
