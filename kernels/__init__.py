"""What is computed: laws, the graph of quantities, and the engines that evaluate it.

Laws (`collectives`, `pipeline`, `reliability`, `checkpoint`, ...) are plain helper formulas.
Quantities (`physics/`) are the functions that the graph reads: name = quantity, parameters = what
it needs. Nothing here knows xarray, Zarr, Dask, the catalog or the grid.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import checkpoint as checkpoint
    from . import checkpoint_tiers as checkpoint_tiers
    from . import collectives as collectives
    from . import layer as layer
    from . import learning as learning
    from . import pipeline as pipeline
    from . import reduce_scatter as reduce_scatter
    from . import reliability as reliability
    from . import repair as repair
    from . import roofline as roofline
    from . import scaling as scaling
    from . import statistics as statistics
    from . import stragglers as stragglers
    from . import topology as topology
    from . import torus as torus

# Modules of laws, imported when first used: numba loads this package wherever it compiles
LAWS = (
    *("checkpoint", "checkpoint_tiers", "collectives", "layer", "learning", "ownership"),
    *("pipeline", "reduce_scatter", "reliability", "repair", "roofline", "scaling", "stages"),
    *("statistics", "stragglers", "topology", "torus"),
)


def __getattr__(name: str) -> Any:
    if name in LAWS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *LAWS]
