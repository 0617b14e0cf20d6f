"""Statements of a kernel in LLVM's language; test_engines.py holds whole kernels to NumPy."""

from ctypes import c_int64
from typing import Any

import numpy as np
import pytest

from fleetcube.kernels.engines import machine_code
from fleetcube.kernels.engines.lowering import lowered

HEAD = "def kernel(into: float64s, given: float64s, size: word):\n"


def run(body: str, given: Any, count: int) -> Any:
    """What a kernel of some statements writes, called for `count` rows."""
    source = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    call = machine_code.load(machine_code.compiled(lowered(source)), *[c_int64] * 3).call
    into, given = np.full(8, -1.0), np.array(given, dtype=float)
    call(into.ctypes.data, given.ctypes.data, count)
    return into.tolist()


def test_loops_count_and_choices_of_whole_numbers_are_taken() -> None:
    body = """at = size - size
for row in range(0, size, 2):
    into[row] = given[at]
    at += 1
    if at == 2:
        at = 0"""
    assert run(body, [5, 6], 7) == [5, -1, 6, -1, 5, -1, 6, -1]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("maximum(x, y)", max),
        ("minimum(x, y)", min),
        ("select(x < y, x / y, x - y)", lambda x, y: x / y if x < y else x - y),
        ("float64(select((x <= y) & (x != y), True, x == y))", lambda x, y: float(x <= y)),
        ("(-abs(x)) * floor(y) + ceil(y)", lambda x, y: -abs(x) * (y // 1) - (-y // 1)),
        ("two_to(exponent(y)) * significand(y)", lambda x, y: y),
    ],
)
def test_operations_are_those_of_python(text: str, wanted: Any) -> None:
    for x, y in [(1.5, 2.25), (2.25, 1.5), (-3.0, 0.5), (2.0, 2.0)]:
        assert run(f"x = given[0]\ny = given[1]\ninto[0] = {text}", [x, y], 1)[0] == wanted(x, y)


def test_nan_is_kept_by_the_larger_and_the_smaller() -> None:
    for text in ("maximum(x, 1.0)", "minimum(x, 1.0)", "maximum(1.0, x)", "minimum(1.0, x)"):
        assert np.isnan(run(f"x = given[0]\ninto[0] = {text}", [np.nan], 1)[0])


@pytest.mark.parametrize("text", ["x ** 2.0", "[x]", "x if x else 1.0"])
def test_other_statements_are_refused(text: str) -> None:
    with pytest.raises((NotImplementedError, KeyError)):
        lowered(f"{HEAD}    x = given[0]\n    into[0] = {text}\n")
