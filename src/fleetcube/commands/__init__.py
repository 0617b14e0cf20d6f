"""Commands that answer questions about a spec or a cluster, one module each."""

import click

from fleetcube.commands.sensitivity import sensitivity
from fleetcube.commands.uncertainty import uncertainty

COMMANDS: tuple[click.Command, ...] = (sensitivity, uncertainty)
