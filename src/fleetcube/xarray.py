"""`import fleetcube.xarray` adds `.fleetcube` to every xarray Dataset and DataArray.

Those made or opened by fleetcube have it anyway.
"""

from fleetcube.accessor import DataArrayAccessor as DataArrayAccessor
from fleetcube.accessor import DatasetAccessor as DatasetAccessor
