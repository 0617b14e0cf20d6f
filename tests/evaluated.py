"""Quantities of one scenario as plain numbers."""

from collections.abc import Iterable
from typing import Any

import fleetcube


def value(name: str, **scenario: Any) -> float:
    return float(fleetcube.evaluate(name, **scenario))


def values(names: Iterable[str], **scenario: Any) -> dict[str, float]:
    names = list(names)
    got = fleetcube.evaluate(names, **scenario)
    return {name: float(got[name]) for name in names}


def computed(scenario: dict[str, Any], *names: str) -> list[float]:
    return list(values(names, **scenario).values())
