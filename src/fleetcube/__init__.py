"""fleetcube: a sweep engine for the physics of large-scale AI training."""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from fleetcube.grid import datasets as _datasets

if TYPE_CHECKING:
    from fleetcube import catalog as catalog
    from fleetcube import laws as laws
    from fleetcube.analysis.diagnose import diagnose as diagnose
    from fleetcube.analysis.simulate import simulate as simulate
    from fleetcube.formats.write import export as export
    from fleetcube.functions.evaluate import evaluate as evaluate
    from fleetcube.functions.function import function as function
    from fleetcube.grid.errors import InputError as InputError
    from fleetcube.grid.run.settings import Settings as Settings
    from fleetcube.grid.store.cube import open_cube as open_cube
    from fleetcube.presentation.explain import explain as explain
    from fleetcube.rows.evaluate_table import evaluate_table as evaluate_table
    from fleetcube.scenario.citations import citations as citations
    from fleetcube.schedules.schedule import simulate_schedule as simulate_schedule
    from fleetcube.sweep import Sweep as Sweep
    from fleetcube.tables.lookup import interp as interp

    __version__: str

# Imported on first use, so that `import fleetcube` stays fast.
_HOME = {
    "InputError": "fleetcube.grid.errors",
    "Settings": "fleetcube.grid.run.settings",
    "Sweep": "fleetcube.sweep",
    "citations": "fleetcube.scenario.citations",
    "diagnose": "fleetcube.analysis.diagnose",
    "evaluate": "fleetcube.functions.evaluate",
    "evaluate_table": "fleetcube.rows.evaluate_table",
    "explain": "fleetcube.presentation.explain",
    "export": "fleetcube.formats.write",
    "function": "fleetcube.functions.function",
    "interp": "fleetcube.tables.lookup",
    "open_cube": "fleetcube.grid.store.cube",
    "simulate": "fleetcube.analysis.simulate",
    "simulate_schedule": "fleetcube.schedules.schedule",
}
__all__ = sorted([*_HOME, "catalog", "laws"])


def _load_accessor() -> None:
    from fleetcube import accessor  # noqa: F401  which registers it


_datasets.loaders.append(_load_accessor)
if "xarray" in sys.modules:  # else on the first Dataset or `import fleetcube.xarray`
    _load_accessor()


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in ("catalog", "laws"):
        return importlib.import_module(f"fleetcube.{name}")
    if name == "__version__":  # reading it takes ten times as long as importing the package
        from importlib.metadata import version

        return version("fleetcube")
    raise AttributeError(f"module 'fleetcube' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
