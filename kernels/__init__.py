"""What is computed: laws, the graph of quantities, and the engines that evaluate it.

Laws (`collectives`, `pipeline`, `reliability`, `checkpoint`, ...) are plain helper formulas.
Quantities (`quantities/`) are the functions the graph reads: name = quantity, parameters = what
it needs. Nothing here knows xarray, Zarr, Dask, the catalog or the grid.
"""

from . import checkpoint as checkpoint
from . import collectives as collectives
from . import pipeline as pipeline
from . import reliability as reliability
from . import roofline as roofline
from . import topology as topology
