"""Random draws of tests: fixed in the suite, different and more in `make fuzz`."""

import os
from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

SEED = int(os.environ.get("FLEETCUBE_FUZZ", 0))  # 0: the suite
TIMES = 20 if SEED else 1


def load() -> None:
    """Set Hypothesis's defaults for the suite or `make fuzz`; neither depends on time."""
    settings.register_profile(
        "fleetcube",
        derandomize=not SEED,
        max_examples=scaled(20, 100),
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("fleetcube")
    # It would draw constants from the source of imported modules
    older = not hasattr(providers, "_local_constants")
    none: Any = defaultdict(set) if older else providers._local_constants
    providers._get_local_constants = lambda: none  # type: ignore


def scaled(examples: int, times: int = 20) -> int:
    """This many examples in the suite, `times` as many in `make fuzz`."""
    return examples * times if SEED else examples


def generator(seed: int) -> np.random.Generator:
    """A seeded generator for the suite; different in each `make fuzz`."""
    return np.random.default_rng([seed, SEED] if SEED else seed)
