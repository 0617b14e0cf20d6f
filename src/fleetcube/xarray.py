"""`import fleetcube.xarray` gives every Dataset and DataArray of xarray its `.fleetcube`.

Those that fleetcube made or opened have it without.
"""

from fleetcube.grid.accessor import DataArrayAccessor as DataArrayAccessor
from fleetcube.grid.accessor import DatasetAccessor as DatasetAccessor
