"""Commands grouped by purpose, as listed by `fleetcube --help`."""

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


MEANT = {  # words that are not commands -> commands that do what they say
    "run": ("train", "evaluate", "eval", "sweep", "predict", "estimate"),
    "plan": ("train", "layout", "recommend", "advise", "size", "tune", "search"),
    "compare": ("diff", "versus", "vs"),
    "simulate": ("failures", "montecarlo"),
    "uncertainty": ("interval", "intervals", "quantiles"),
    "solve": ("find", "goal", "seek"),
    "optimize": ("minimize", "maximize", "best", "search"),
    "reduce": ("argmin", "argmax", "top", "pareto", "mean", "quantile", "best"),
    "wall": ("limit", "scaling"),
    "sensitivity": ("levers", "rank", "tornado", "sobol"),
    "explain": ("help", "define", "glossary", "doc", "docs", "what"),
    "catalog": ("list", "gpus", "models", "fabrics", "ls"),
    "show": ("info", "describe", "inspect", "head"),
    "slice": ("cut", "select", "export", "csv", "query"),
    "plot": ("draw", "chart", "graph", "picture"),
    "explore": ("serve", "view", "ui", "browse", "web"),
    "validate": ("check", "test", "accuracy"),
    "calibrate": ("fit", "measure"),
    "verify": ("check", "fsck", "checksum"),
}


def refusal(error: click.UsageError) -> str:
    """A refused usage in one line: what is wrong, and the next action."""
    from fleetcube.grid.errors import nearest

    context = error.ctx
    see = f"see `{context.command_path} --help`" if context else "see `fleetcube --help`"
    if isinstance(error, click.NoSuchOption) and context:
        options = [name for own in context.command.get_params(context) for name in own.opts]
        return f"no such option {error.option_name}; {nearest(error.option_name, options, see)}"
    return f"{' '.join(error.format_message().split()).rstrip('.')}; {see}"


class Listed(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The named command, or InputError with those that may be meant."""
        from fleetcube.grid.errors import InputError, nearest

        name = args[0]
        if name.startswith("-") or self.get_command(ctx, name):
            return super().resolve_command(ctx, args)
        fits = [known for known, words in MEANT.items() if name.lower() in words]
        fits += {".toml": ["run"], ".zarr": ["show"]}.get(name[-5:], [])
        if fits:
            means = " or ".join(f"`fleetcube {known}`" for known in fits)
            raise InputError(f"no such command {name!r}; try {means}")
        near = nearest(name, self.commands, "see `fleetcube --help`")
        raise InputError(f"no such command {name!r}; {near}")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, rows in LISTING.items():
            with formatter.section(section):
                formatter.write_dl(list(rows.items()))
