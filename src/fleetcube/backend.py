"""The xarray backend `engine="fleetcube"`."""

from os import PathLike
from pathlib import Path
from typing import Any

import xarray
from xarray.backends import BackendEntrypoint

from fleetcube.catalog.files import parse_toml, read_some
from fleetcube.grid.errors import InputError
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.values import DType
from fleetcube.grid.store.cube import open_cube
from fleetcube.scenario.spec_file import LARGEST
from fleetcube.sweep import Sweep

from . import accessor as accessor  # registers `.fleetcube`


class Backend(BackendEntrypoint):
    """`xarray.open_dataset("sweep.toml", engine="fleetcube")`, or of a Sweep, or of a stored cube.

    Sweeps take `settings` and `dtype`, as `Sweep.virtual` does; a stored cube is opened by
    `open_cube`.
    """

    description = "Compute slices of a fleetcube sweep from its TOML spec"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "dtype", "settings")

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: Any = None,
        dtype: DType = "float64",
        settings: Settings | None = None,
    ) -> xarray.Dataset:
        """Open a spec, a Sweep or a stored cube, without evaluating anything."""
        source = filename_or_obj
        if not isinstance(source, str | PathLike | Sweep):
            raise InputError(f"{type(source).__name__} is not a sweep; give a TOML file or a Sweep")
        if not isinstance(source, Sweep) and (
            "://" in str(source) or Path(source).expanduser().is_dir()
        ):
            cube = open_cube(source)
        else:
            sweep = source if isinstance(source, Sweep) else Sweep.from_file(source)
            cube = sweep.virtual(dtype=dtype, settings=settings)
        drop = [drop_variables] if isinstance(drop_variables, str) else drop_variables or []
        return cube.drop_vars(drop, errors="ignore")

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether this is a TOML file with `outputs`."""
        if not isinstance(filename_or_obj, str | PathLike):
            return False
        path = Path(filename_or_obj)
        try:
            data = read_some(path, LARGEST) if path.suffix == ".toml" else b""
            return len(data) <= LARGEST and "outputs" in parse_toml(data.decode("utf-8-sig"))
        except (OSError, ValueError):
            return False
