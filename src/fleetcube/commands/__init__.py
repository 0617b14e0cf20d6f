"""Commands that answer questions about a spec or a cluster, one module each."""

import click

from .optimize import optimize
from .solve import solve

COMMANDS: tuple[click.Command, ...] = (optimize, solve)
