"""fleetcube: a sweep engine for the physics of large-scale AI training."""

import importlib
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleetcube import catalog as catalog
    from fleetcube import grid as grid
    from fleetcube import kernels as kernels
    from fleetcube.grid.citations import citations as citations
    from fleetcube.grid.cube import open_cube as open_cube
    from fleetcube.grid.errors import InputError as InputError
    from fleetcube.grid.evaluate import evaluate as evaluate
    from fleetcube.grid.explain import explain as explain
    from fleetcube.grid.lookup import interp as interp
    from fleetcube.grid.progress import watching as watching
    from fleetcube.grid.schedule import simulate_schedule as simulate_schedule
    from fleetcube.grid.simulate import simulate as simulate
    from fleetcube.grid.solve import solve as solve
    from fleetcube.grid.sweep import Sweep as Sweep

__all__ = [
    "InputError",
    "Sweep",
    "catalog",
    "citations",
    "evaluate",
    "explain",
    "interp",
    "kernels",
    "open_cube",
    "simulate",
    "simulate_schedule",
    "solve",
    "watching",
]
__version__ = _version("fleetcube")

# Imported when first used, so that `import fleetcube` stays fast.
_HOME = {
    "InputError": "fleetcube.grid.errors",
    "Sweep": "fleetcube.grid.sweep",
    "citations": "fleetcube.grid.citations",
    "evaluate": "fleetcube.grid.evaluate",
    "explain": "fleetcube.grid.explain",
    "interp": "fleetcube.grid.lookup",
    "open_cube": "fleetcube.grid.cube",
    "simulate": "fleetcube.grid.simulate",
    "simulate_schedule": "fleetcube.grid.schedule",
    "solve": "fleetcube.grid.solve",
    "watching": "fleetcube.grid.progress",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in ("catalog", "grid", "kernels"):
        return importlib.import_module(f"fleetcube.{name}")
    raise AttributeError(f"module 'fleetcube' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
