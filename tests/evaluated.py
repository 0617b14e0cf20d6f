"""Quantities of one scenario as plain numbers."""

from collections.abc import Iterable
from typing import Any

import fleetcube

# No exchanges around the embedding and the logits: what is compared are layers
ENDS = dict.fromkeys(("embedding_exchange_time", "logits_exchange_time"), 0.0)
ENDS["hidden_logits_exchange_time"] = 0.0


def value(name: str, **scenario: Any) -> float:
    return float(fleetcube.evaluate(name, **scenario))


def values(names: Iterable[str], **scenario: Any) -> dict[str, float]:
    names = list(names)
    got = fleetcube.evaluate(names, **scenario)
    return {name: float(got[name]) for name in names}


def computed(scenario: dict[str, Any], *names: str) -> list[float]:
    return list(values(names, **scenario).values())
