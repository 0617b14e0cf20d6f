"""fleetcube: a sweep engine for the physics of large-scale AI training."""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from fleetcube.grid import datasets as _datasets

if TYPE_CHECKING:
    from fleetcube import catalog as catalog
    from fleetcube import grid as grid
    from fleetcube import kernels as kernels
    from fleetcube.grid.ask.simulate import simulate as simulate
    from fleetcube.grid.ask.solve.solve import solve as solve
    from fleetcube.grid.errors import InputError as InputError
    from fleetcube.grid.evaluate import evaluate as evaluate
    from fleetcube.grid.explain import explain as explain
    from fleetcube.grid.function import function as function
    from fleetcube.grid.plan.citations import citations as citations
    from fleetcube.grid.progress import watching as watching
    from fleetcube.grid.read.lookup import interp as interp
    from fleetcube.grid.rows.table import table as table
    from fleetcube.grid.schedules.schedule import simulate_schedule as simulate_schedule
    from fleetcube.grid.store.cube import open_cube as open_cube
    from fleetcube.grid.sweep import Sweep as Sweep

    __version__: str

# Imported on first use, so that `import fleetcube` stays fast.
_HOME = {
    "InputError": "fleetcube.grid.errors",
    "Sweep": "fleetcube.grid.sweep",
    "citations": "fleetcube.grid.plan.citations",
    "evaluate": "fleetcube.grid.evaluate",
    "explain": "fleetcube.grid.explain",
    "function": "fleetcube.grid.function",
    "interp": "fleetcube.grid.read.lookup",
    "open_cube": "fleetcube.grid.store.cube",
    "simulate": "fleetcube.grid.ask.simulate",
    "simulate_schedule": "fleetcube.grid.schedules.schedule",
    "solve": "fleetcube.grid.ask.solve.solve",
    "table": "fleetcube.grid.rows.table",
    "watching": "fleetcube.grid.progress",
}
__all__ = [
    "InputError",
    "Sweep",
    "catalog",
    "citations",
    "evaluate",
    "explain",
    "function",
    "interp",
    "kernels",
    "open_cube",
    "simulate",
    "simulate_schedule",
    "solve",
    "table",
    "watching",
]


def _load_accessor() -> None:
    from fleetcube.grid import accessor  # noqa: F401  which registers it


_datasets.loaders.append(_load_accessor)
if "xarray" in sys.modules:  # else on the first Dataset or `import fleetcube.xarray`
    _load_accessor()


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in ("catalog", "grid", "kernels"):
        return importlib.import_module(f"fleetcube.{name}")
    if name == "__version__":  # reading it takes ten times as long as importing the package
        from importlib.metadata import version

        return version("fleetcube")
    raise AttributeError(f"module 'fleetcube' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
