"""Evaluate quantities at a point or over a grid, with inputs as keyword arguments."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings

from .arguments import scenario_and_axes, stacked

if TYPE_CHECKING:
    import xarray


@overload
def evaluate(
    outputs: str, *, settings: Settings | None = ..., **inputs: Any
) -> "xarray.DataArray": ...


@overload
def evaluate(
    outputs: Sequence[str], *, settings: Settings | None = ..., **inputs: Any
) -> "xarray.Dataset": ...


def evaluate(
    outputs: str | Sequence[str], *, settings: Settings | None = None, **inputs: Any
) -> "xarray.Dataset | xarray.DataArray":
    """Evaluate quantities at a point or over a grid.

    Args:
        outputs: one name, or a list of names; see `fleetcube explain`.
        settings: engine, threads and the like.
        **inputs: numbers in SI base units, text with units ("400 Gbit/s"), catalog labels
            (gpu="h100-sxm"; a model may be Hugging Face's config.json: its path, its folder or a
            mapping), durations (pandas.Timedelta), or sequences, 1-D arrays or DataArrays,
            which become axes of a grid. DataArrays that share a dimension move along it together;
            `evaluate_table` takes rows.

    Returns a Dataset, or a DataArray for one name. Unset inputs take their documented defaults.
    Raises InputError (a ValueError) with a one-line message for unusable arguments.

    Example:
        >>> import fleetcube
        >>> mtbf = fleetcube.evaluate("cluster_mtbf", n_gpus=1024, series_psus_per_node=2)
        >>> round(float(mtbf) / 3600, 1)
        33.5
    """
    flat, unstacked = stacked(inputs)
    scenario, axes = scenario_and_axes(flat)
    result = unstacked(Evaluation(scenario, axes, outputs).evaluate(settings=settings))
    return result[outputs] if isinstance(outputs, str) else result
