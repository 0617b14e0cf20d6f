"""`fleetcube schema`: the JSON Schema of specs, for editors."""

import json

import click

from fleetcube.commands.shared.say import say


@click.command()
def schema() -> None:
    """Print the JSON Schema of specs, with which editors complete and check them.

    An editor takes it by a comment in the first line of a spec: #:schema ./fleetcube.schema.json

    \b
    Example:
      fleetcube schema > fleetcube.schema.json
    """
    from fleetcube.scenario.schema import schema

    say(json.dumps(schema(), indent=1))
