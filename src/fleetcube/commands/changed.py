"""Read the spec that a command is given, with the values that selectors change."""

from collections.abc import Sequence
from typing import Any

import click


def changed(path: str, selectors: Sequence[str] = (), outputs: Sequence[str] = ()) -> Any:
    """A sweep of a spec's file, with other values and outputs; remarks go to standard error."""
    from fleetcube.grid.selectors import narrow
    from fleetcube.grid.spec import read_spec
    from fleetcube.grid.sweep import Sweep

    spec, notes = narrow(read_spec(path), selectors)
    for note in notes:
        click.echo(note, err=True)
    return Sweep(spec["scenario"], spec["axes"], list(outputs) or spec["outputs"])
