"""What is computed: laws, the graph of quantities, and the engines that evaluate it.

Laws (`collectives`, `pipeline`, `reliability`, `checkpoint`, ...) are plain helper formulas.
Quantities (`physics/`) are the functions that the graph reads: name = quantity, parameters = what
it needs. Nothing here knows xarray, Zarr, Dask, the catalog or the grid.
"""

# Modules of laws; `fleetcube.laws` has them
LAWS = (
    *("checkpoint", "checkpoint_tiers", "collectives", "layer", "learning", "ownership"),
    *("pipeline", "reduce_scatter", "reliability", "repair", "roofline", "scaling", "stages"),
    *("statistics", "stragglers", "topology", "torus"),
)
