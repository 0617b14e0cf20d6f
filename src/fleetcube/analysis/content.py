"""The content of a problem as a key: equal keys give bitwise equal results."""

import hashlib
from collections.abc import Hashable
from typing import Any

import numpy as np

from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.problem import Problem


def content(problem: Problem) -> Hashable:
    """A key of everything in a problem, independent of notation. Numbers are compared by bits, so
    that 0.0 is not -0.0, and NaN equals itself."""
    return (
        _numbers(problem.constants),
        tuple(sorted(problem.options.items())),
        tuple(map(content_of, problem.axes)),
        content_of(problem.phases) if problem.phases else None,
        tuple(
            (record.kind, record.name, record.digest, record.title, record.source, record.date)
            for record in problem.records
        ),
        problem.stated,
        problem.graph,
        tuple(problem.implied.items()),  # recorded in results
        tuple((n, names, _bits(row)) for n, (names, row) in sorted(problem.tables.items())),
        tuple(sorted((name, repr(law)) for name, law in problem.distributions.items())),
    )


def content_of(axis: Axis) -> Hashable:
    """All that an axis sets, comparable by ==."""
    return (
        axis.name,
        _bits(axis.labels),
        tuple((name, _bits(row)) for name, row in sorted(axis.numbers.items())),
        tuple(sorted(axis.options.items())),
        tuple(sorted(axis.records.items())),
    )


def _numbers(table: Any) -> Hashable:
    return tuple(sorted((name, repr(float(value))) for name, value in table.items()))


def _bits(array: Array) -> Hashable:
    """Text unchanged, of any allocated length; a digest of numbers, which may be millions."""
    if array.dtype.kind == "U":
        return tuple(array.tolist())
    return array.dtype.str, hashlib.sha256(np.ascontiguousarray(array).data).digest()
