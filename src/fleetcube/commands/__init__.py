"""Commands that answer questions about a spec or a cluster, one module each."""

import click

COMMANDS: tuple[click.Command, ...] = ()
