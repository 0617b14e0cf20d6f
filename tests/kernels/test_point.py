"""Formulas at points that are alike: those of each alone, to the bit."""

from typing import Any

import numpy as np

from fleetcube.kernels.engines.numpy import Point
from fleetcube.kernels.ops import where


def inverse(x: Any) -> Any:
    return 1 / x


def sign(inverse: Any, y: Any) -> Any:
    return where(inverse > 0, y, -y)


def test_points_alike_have_the_bits_of_each_alone() -> None:
    """0 and -0 are equal numbers and have other inverses; NaN equals nothing."""
    point, cached = Point({"inverse": inverse, "sign": sign}), dict[Any, Any]()
    assert point.operands == ("x", "y")
    for x in (0.0, -0.0, float("nan"), 2.0, 0.0):
        for y in (1.0, -0.0):
            given = {"x": np.float64(x), "y": np.float64(y)}
            alone = point([given[name] for name in point.operands])
            alike = point.alike(given.__getitem__, cached)
            assert [*alike] == ["inverse", "sign"]
            for name, value in alike.items():
                assert value.tobytes() == alone[name].tobytes()
    evaluated = [key for key in cached if isinstance(key, tuple)]
    assert sum(len(key) == 2 for key in evaluated) == 4, "an inverse of each x, once"
