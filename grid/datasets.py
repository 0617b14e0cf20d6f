"""`.fleetcube` of the Datasets made here: loaded from above, where all that it offers is known."""

from collections.abc import Callable

_loaders: list[Callable[[], object]] = []


def load_with(loader: Callable[[], object]) -> None:
    """Hand down what loads the accessor; the package does, before any Dataset is made."""
    _loaders.append(loader)


def load_accessor() -> None:
    """Give xarray's classes their `.fleetcube`; whoever makes or opens a Dataset calls it."""
    for loader in _loaders:
        loader()
