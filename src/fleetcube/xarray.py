"""`import fleetcube.xarray` adds `.fleetcube` to every xarray Dataset and DataArray.

Those made or opened by fleetcube have it anyway.
"""

from fleetcube.grid.accessor import DataArrayAccessor as DataArrayAccessor
from fleetcube.grid.accessor import DatasetAccessor as DatasetAccessor
