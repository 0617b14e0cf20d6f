"""Evaluate quantities at a point or over a grid, with inputs as keyword arguments."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from .spec.arguments import scenario_and_axes
from .sweep import Sweep

if TYPE_CHECKING:
    import xarray


@overload
def evaluate(
    outputs: str, *, engine: str = ..., mask_infeasible: bool = ..., **inputs: Any
) -> "xarray.DataArray": ...


@overload
def evaluate(
    outputs: Sequence[str], *, engine: str = ..., mask_infeasible: bool = ..., **inputs: Any
) -> "xarray.Dataset": ...


def evaluate(
    outputs: str | Sequence[str],
    *,
    engine: str = "auto",
    mask_infeasible: bool = False,
    **inputs: Any,
) -> "xarray.Dataset | xarray.DataArray":
    """Evaluate quantities at a point or over a grid.

    Args:
        outputs: one name, or a list of names; see `fleetcube explain`.
        engine: "auto", "numpy", "numba" or "jax".
        mask_infeasible: NaN where `infeasible_reason` is not 0.
        **inputs: numbers in SI base units, text with units ("400 Gbit/s"), catalog labels
            (gpu="h100-sxm"), or sequences, 1-D arrays or 1-D DataArrays, which become axes of a
            grid. DataArrays that share a dimension move along it together; `table` takes rows.

    Returns a Dataset, or a DataArray for one name. Unset inputs take their documented defaults.
    Raises InputError (a ValueError) with a one-line message for unusable arguments.

    Example:
        >>> import fleetcube
        >>> mtbf = fleetcube.evaluate("cluster_mtbf", n_gpus=1024, series_psus_per_node=2)
        >>> round(float(mtbf) / 3600, 1)
        33.5
    """
    scenario, axes = scenario_and_axes(inputs)
    names = [outputs] if isinstance(outputs, str) else outputs
    result = Sweep(scenario, axes, names).evaluate(engine, mask_infeasible=mask_infeasible)
    return result[outputs] if isinstance(outputs, str) else result
