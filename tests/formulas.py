"""Every formula of the physics by name, from any module: `formulas.job_time(...)`."""

import importlib
from typing import Any

from fleetcube.kernels import physics

_MODULES = [importlib.import_module(f"{physics.__name__}.{name}") for name in physics.MODULES]


def __getattr__(name: str) -> Any:
    for module in _MODULES:
        found = vars(module).get(name)
        if found is not None and getattr(found, "__module__", "").startswith(physics.__name__):
            return found
    raise AttributeError(f"no formula is called {name}")
