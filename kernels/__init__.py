"""The computation: laws, the graph of quantities, and the engines that evaluate it.

Laws (`laws/`: `collectives`, `pipeline`, `reliability`, ...) are plain helper formulas.
Quantities (`physics/`) are the functions that the graph reads: name = quantity, parameters = what
it needs. Nothing here knows xarray, Zarr, Dask, the catalog or the grid.
"""
