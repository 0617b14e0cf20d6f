"""What a plugin is made of: `@quantity` above plain formulas, with this `np` and `where`."""

from fleetcube.kernels.graph.plugins import quantity as quantity
from fleetcube.kernels.ops import np as np
from fleetcube.kernels.ops import where as where

__all__ = ["np", "quantity", "where"]
