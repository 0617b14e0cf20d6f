"""Shell completion: choices of options, and names and labels, loaded only when needed."""

import tomllib
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module, resources
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


class OneOf(click.Choice[str]):
    """One of a few words; a wrong one is refused in one line, like all bad input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.choices:
            return str(value)
        from fleetcube.grid.errors import InputError, nearest, shown

        option = param.opts[-1] if param else "it"
        some = ", ".join(self.choices)
        hint = nearest(str(value), self.choices, "choose one")
        raise InputError(f"{option} {shown(value)} is not one of {some}; {hint}")


def engine(command: Any) -> Any:
    choice = OneOf(("auto", "numpy", "numba", "jax", "jax-float32"))
    return click.option("--engine", type=choice, default="auto", help="[auto: by size]")(command)


def infeasible(default: str) -> Callable[[_Command], _Command]:
    """The option for points that cannot run, the same for every command."""
    return click.option(
        "--infeasible",
        type=OneOf(("exclude", "mark", "include")),
        default=default,
        help=f"How to treat points that cannot run.  [{default}]",
    )


def _beginning(names: Callable[[], Iterable[str]]) -> Complete:
    return lambda ctx, param, begun: [name for name in names() if name.startswith(begun)]


def _names(module: str, table: str) -> Iterable[str]:
    """The names in a module's table, imported only when needed."""
    names: Iterable[str] = getattr(import_module(f"fleetcube.{module}"), table)
    return names


def _of_physics(*tables: str) -> list[str]:
    """Names of inputs and quantities of the physics."""
    from fleetcube.kernels.physics.graph import PHYSICS

    return [name for table in tables for name in getattr(PHYSICS, table)]


def labels(kind: str) -> list[str]:
    """Current labels of a catalog kind, read from its file alone, in a tenth of a second."""
    # not fleetcube.catalog.kind, which reads all units and takes a second
    if kind not in _kinds():
        return []
    text = resources.files("fleetcube.catalog").joinpath("data", f"{kind}.toml").read_text("utf-8")
    return [label for label in tomllib.loads(text) if "@" not in label]


_kinds = partial(_names, "catalog", "KINDS")
frameworks = _beginning(partial(_names, "formats.write", "WRITERS"))
collectives = _beginning(partial(_names, "calibration.nccl", "FACTORS"))
quantities = _beginning(partial(_of_physics, "quantities"))
inputs = _beginning(partial(_of_physics, "inputs"))
kinds = _beginning(_kinds)
both = _beginning(partial(_of_physics, "inputs", "quantities"))
any_name = _beginning(lambda: [*_of_physics("inputs", "quantities"), *_kinds()])


def labels_of_kind(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    """Labels of the previously typed kind."""
    return [label for label in labels(ctx.params.get("kind") or "") if label.startswith(begun)]


def ranges(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    """Inputs as name=, to be followed by a range."""
    return [f"{name}=" for name in inputs(ctx, param, begun)]


def selectors(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    """Inputs and kinds as name=; after it the choices of an option, the labels of a kind."""
    from fleetcube.kernels.physics.graph import PHYSICS

    name, equals, value = begun.partition("=")
    words = [*(ctx.params.get("selectors") or ())]
    # bash splits words at =: gpu=h1 arrives as gpu, = and h1, and h1 is completed alone
    split = not equals and words and (words[-1] == "=" or words[-1] in {*PHYSICS.inputs, *_kinds()})
    if split:
        name, value = next(word for word in reversed(words) if word != "="), begun
    elif not equals:
        return [f"{name}=" for name in [*_kinds(), *PHYSICS.inputs] if name.startswith(begun)]
    row = PHYSICS.inputs.get(name)
    candidates = labels(name) or [str(choice).lower() for choice in (row and row.choices) or ()]
    before = "" if split else f"{name}="
    return [f"{before}{each}" for each in candidates if each.startswith(value)]


def _spec_path(ctx: click.Context, param: click.Parameter, path: str | None) -> str | None:
    """Refuse an input's value in the place of a spec."""
    if path and "=" in path and path.partition("=")[0].isidentifier() and not Path(path).exists():
        from fleetcube.grid.errors import InputError

        raise InputError(
            f"{path!r} is no spec, which comes first; write one: `fleetcube init job.toml {path} "
            f"...`, then `{ctx.command_path} job.toml`"
        )
    return path


def spec(name: str = "spec", **how: Any) -> Callable[[_Command], _Command]:
    """The argument of a command that takes a spec."""
    return click.argument(name, type=click.Path(), callback=_spec_path, **how)


def spec_and_selectors(command: _Command) -> _Command:
    """The arguments of a command that analyses a spec."""
    after = click.argument("selectors", nargs=-1, shell_complete=selectors)(command)
    return spec()(after)


def variables(help_text: str) -> Callable[[_Command], _Command]:
    return click.option(
        "-v", "--variable", multiple=True, shell_complete=quantities, help=help_text
    )
