"""The commands grouped by purpose, as `fleetcube --help` lists them."""

import click

LISTING = {
    "Evaluate": {
        "run": "Evaluate a spec: print a table, or write a cube.",
        "compare": "What changes from one spec to another, and why.",
        "simulate": "Simulate the failures of a spec's jobs.",
        "uncertainty": "Quantiles of outputs, from distributions of inputs.",
    },
    "Ask": {
        "solve": "The value of an input at which an output meets a target.",
        "optimize": "The best values of several inputs, under conditions.",
        "sensitivity": "Which inputs matter, at a point or over a cube.",
        "explain": "What a name means: formula, unit, default, source.",
        "catalog": "GPUs, nodes, fabrics, models and more, with sources.",
    },
    "Look": {
        "show": "What a cube holds.",
        "slice": "Cut a cube: print a table, or write a file.",
        "plot": "Draw a cube.",
        "explore": "Look at a cube or a spec in a browser.",
    },
    "Trust": {
        "validate": "Compare predictions with published measurements.",
        "calibrate": "Fit the model to your own measurements.",
        "verify": "Check a cube's files, and recompute some values.",
    },
}


class Listed(click.Group):
    """A group of commands listed by purpose."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list."""
        for section, rows in LISTING.items():
            with formatter.section(section):
                formatter.write_dl(list(rows.items()))
