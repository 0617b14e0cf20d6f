"""What gives the Datasets of xarray their `.fleetcube`: it is above all who make one."""

from collections.abc import Callable

loaders: list[Callable[[], object]] = []  # `fleetcube` itself puts one here when it is imported


def load_accessor() -> None:
    """Register `.fleetcube`; whoever makes or opens a Dataset calls this."""
    for load in loaders:
        load()
