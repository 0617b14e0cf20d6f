"""Registration of `.fleetcube` on xarray's Datasets, for all modules that make one."""

from collections.abc import Callable

loaders: list[Callable[[], object]] = []  # filled by `fleetcube` itself on import


def load_accessor() -> None:
    """Register `.fleetcube`; called wherever a Dataset is made or opened."""
    for load in loaders:
        load()
