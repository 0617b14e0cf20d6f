"""Commands that answer questions about a spec or a cluster, one module each."""

import click

from fleetcube.commands.calibrate import calibrate

COMMANDS: tuple[click.Command, ...] = (calibrate,)
