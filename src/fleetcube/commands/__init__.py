"""Commands that answer questions about a spec or a cluster, one module each."""

import click

from fleetcube.commands.calibrate import calibrate
from fleetcube.commands.optimize import optimize
from fleetcube.commands.solve import solve

COMMANDS: tuple[click.Command, ...] = (calibrate, optimize, solve)
