"""The commands grouped by purpose, as `fleetcube --help` lists them."""

import click

LISTING = {
    "Evaluate": {
        "run": "Evaluate a spec: print a table, or write a cube.",
        "compare": "Compare two specs: what differs, and because of what.",
        "simulate": "Simulate the failures of a spec's jobs.",
        "uncertainty": "Compute quantiles of outputs from distributions of inputs.",
    },
    "Ask": {
        "plan": "Find the best layouts of a job, and what to expect of them.",
        "solve": "Find the value of an input at which an output meets a target.",
        "optimize": "Find the best values of several inputs, under conditions.",
        "reduce": "Find extremes, means, quantiles or fronts over axes of a spec.",
        "wall": "Find where adding GPUs stops helping, and why.",
        "sensitivity": "Rank the inputs that matter, at a point or over a cube.",
        "explain": "Explain a name: formula, unit, default, source.",
        "schema": "Print the JSON Schema of specs, for editors.",
        "catalog": "List GPUs, nodes, fabrics, models and more, with sources.",
    },
    "Look": {
        "show": "Describe a cube.",
        "slice": "Cut a cube: print a table, or write a file.",
        "plot": "Draw a cube.",
        "explore": "View a cube or a spec in a browser.",
    },
    "Trust": {
        "validate": "Compare predictions with published measurements.",
        "calibrate": "Fit the model to your own measurements.",
        "calibrations": "Rank the calibrations that a spec may take.",
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
