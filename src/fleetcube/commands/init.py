"""`fleetcube init`: write a commented first spec."""

from pathlib import Path
from typing import Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.say import say
from fleetcube.grid.errors import InputError


@click.command()
@click.argument("path", type=click.Path())
@click.argument("selectors", nargs=-1, shell_complete=complete.selectors)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def init(path: str, selectors: tuple[str, ...], overwrite: bool) -> None:
    """Write a starter spec: what is known about the job, and the assumptions for the rest.

    SELECTORS are the known values: name=value, or a file that has them (a config.json, a launch
    script, an example:NAME).

    \b
    Example:
      fleetcube init first.toml model=llama-3-70b node=dgx-h100 n_gpus=512
      fleetcube init second.toml config.json node=dgx-h100 n_gpus=512
    """
    from fleetcube.calibration.calibration_file import check_target, write
    from fleetcube.commands.shared.changed import changed_spec
    from fleetcube.presentation.init_spec import starter_spec
    from fleetcube.tables.selectors import narrow

    check_target(Path(path), overwrite)
    files = [text for text in selectors if "=" not in text]
    stated = [text for text in selectors if "=" in text]
    if len(files) > 1:
        raise InputError(f"{files[1]!r} is a second file; give one, and name=value")
    empty: dict[str, Any] = {"outputs": [], "scenario": {}, "axes": {}}
    spec = changed_spec(files[0], stated) if files else narrow(empty, stated)[0]
    write(Path(path), starter_spec(spec, path))
    say(f"wrote {path}")
