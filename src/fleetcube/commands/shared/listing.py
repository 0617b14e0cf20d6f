"""Commands grouped by purpose, as listed by `fleetcube --help`."""

from collections import UserDict
from importlib import import_module
from typing import Any

import click

LISTING = {
    "Evaluate": {
        "init": "Write a commented first spec.",
        "run": "Evaluate a spec: print a table, or write a cube.",
        "compare": "Compare two specs: what differs, and because of what.",
        "simulate": "Simulate the failures of a spec's jobs.",
        "uncertainty": "Compute quantiles from distributions of inputs.",
        "record": "Run your launch script; write what it would launch.",
    },
    "Ask": {
        "plan": "Find the best layouts of a job, and their results.",
        "solve": "Find the value of an input that meets a target.",
        "best": "Find the best points of axes, or values in ranges.",
        "reduce": "Find means, sums, extremes or quantiles over axes.",
        "scaling-limit": "Find where adding GPUs stops helping, and why.",
        "sensitivity": "Rank the inputs that matter at a point.",
        "dominant-inputs": "Find the input that matters most at each point.",
        "global-sensitivity": "Rank inputs by the variance they explain together.",
        "explain": "Explain a name: formula, unit, default, source.",
        "schema": "Print the JSON Schema of specs, for editors.",
        "catalog": "List GPUs, nodes, fabrics, models, with sources.",
    },
    "Look": {
        "show": "Describe a cube.",
        "slice": "Cut a cube: print a table, or write a file.",
        "plot": "Draw a cube.",
        "explore": "View a cube or a spec in a browser.",
    },
    "Trust": {
        "diagnose": "Explain a measured step, and what to change.",
        "validate": "Compare predictions with published measurements.",
        "probe": "Write a script that times a job's kernels on your GPUs.",
        "calibrate": "Fit the model to your own measurements.",
        "calibrations": "Rank the calibrations that a spec may take.",
        "verify": "Check a cube's files, and recompute some values.",
    },
}


SYNONYMS = {  # words that are not commands -> commands that a user means by them
    "init": ("new", "start", "create", "template"),
    "run": ("train", "evaluate", "eval", "sweep", "predict", "estimate"),
    "plan": ("train", "layout", "recommend", "advise", "size", "tune", "search"),
    "compare": ("diff", "versus", "vs"),
    "simulate": ("failures", "montecarlo"),
    "uncertainty": ("interval", "intervals", "quantiles"),
    "solve": ("find", "goal", "seek"),
    "best": ("optimize", "minimize", "maximize", "search", "argmin", "argmax", "top", "pareto"),
    "record": ("capture", "trace", "dry-run"),
    "reduce": ("mean", "quantile", "sum", "count"),
    "scaling-limit": ("wall", "limit", "scaling"),
    "sensitivity": ("levers", "rank", "tornado"),
    "global-sensitivity": ("sobol", "morris", "variance"),
    "dominant-inputs": ("dominance", "map"),
    "explain": ("help", "define", "glossary", "doc", "docs", "what"),
    "catalog": ("list", "gpus", "models", "fabrics", "ls"),
    "show": ("info", "describe", "inspect", "head"),
    "slice": ("cut", "select", "export", "csv", "query"),
    "plot": ("draw", "chart", "graph", "picture"),
    "explore": ("serve", "view", "ui", "browse", "web"),
    "diagnose": ("why", "slow", "profile", "bottleneck"),
    "validate": ("check", "test", "accuracy"),
    "probe": ("benchmark", "microbenchmark", "kernels"),
    "calibrate": ("fit", "measure"),
    "verify": ("check", "fsck", "checksum"),
}


_MODULES = {"dominant-inputs": "sensitivity", "global-sensitivity": "sensitivity"}


class Commands(UserDict[str, Any]):
    """The commands by name; the module of one is imported when it is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command | None = self.data[name]
        if command is None:
            module = _MODULES.get(name, name.replace("-", "_"))
            values = vars(import_module(f"fleetcube.commands.{module}")).values()
            commands = (each for each in values if isinstance(each, click.Command))
            self.data[name] = command = next(each for each in commands if each.name == name)
        return command


COMMANDS = Commands({name: None for rows in LISTING.values() for name in rows})


class Listed(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The named command, or InputError with those that may be meant."""
        from fleetcube.grid.errors import InputError, nearest

        name = args[0]
        if name.startswith("-") or name in self.commands:
            return super().resolve_command(ctx, args)
        fits = [command for command, words in SYNONYMS.items() if name.lower() in words]
        fits += {".toml": ["run"], ".zarr": ["show"]}.get(name[-5:], [])
        if fits:
            means = " or ".join(f"`fleetcube {command}`" for command in fits)
            raise InputError(f"no such command {name!r}; try {means}")
        near = nearest(name, self.commands, "see `fleetcube --help`")
        raise InputError(f"no such command {name!r}; {near}")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, rows in LISTING.items():
            with formatter.section(section):
                formatter.write_dl(list(rows.items()))
