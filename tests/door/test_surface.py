"""The public surface against two lists: names, signatures, commands and options, which do not
change by accident; inputs, their choices and quantities, of which none is lost."""

import difflib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import fleetcube
from fleetcube import accessor
from fleetcube.cli import cli
from fleetcube.functions.function import Function
from fleetcube.kernels.physics.graph import PHYSICS

LIST = Path(__file__).parents[1] / "data" / "surface.txt"
NAMES = LIST.with_name("names.txt")
CLASSES = (
    *(fleetcube.Settings, fleetcube.Sweep, Function),
    *(accessor.DatasetAccessor, accessor.DataArrayAccessor, accessor.Pictures),
)


def signature(name: str, of: Any) -> str:
    """A name with its parameters, without annotations, which type checkers hold."""
    parts, before = [], inspect.Parameter.POSITIONAL_ONLY
    for each in inspect.signature(of).parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind == each.KEYWORD_ONLY != before:
            parts.append("*")
        before = each.kind
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        parts.append(stars + each.name + "=" * (each.default is not each.empty))
    return f"{name}({', '.join(parts)})"


def surface() -> Iterator[str]:
    """A line for each public name."""
    for name in fleetcube.__all__:
        own = getattr(fleetcube, name)
        plain = inspect.ismodule(own) or (isinstance(own, type) and issubclass(own, Exception))
        yield name if plain else signature(name, own)
    for one in CLASSES:
        for name, own in inspect.getmembers(one):
            if name.startswith("_") or (isinstance(own, type) and issubclass(own, Exception)):
                continue
            yield (
                signature(f"{one.__name__}.{name}", own)
                if callable(own)
                else (f"{one.__name__}.{name}")
            )
    for name, command in sorted(cli.commands.items()):
        options = (max(p.opts, key=len) for p in command.params if isinstance(p, click.Option))
        yield " ".join([f"fleetcube {name}", *sorted(options)])


def test_the_surface_is_the_list() -> None:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    changes = [line for line in difflib.ndiff(lines, [*surface()]) if line[0] in "-+"]
    assert not changes, "\n".join(
        [
            "public names, commands or options changed; if that is meant, write the list anew",
            "(`python -m tests.door.test_surface`) and enter it in CHANGELOG.md:",
            *changes,
        ]
    )


def names() -> Iterator[str]:
    """A line for each input, each of its choices, and each quantity."""
    for name, row in sorted(PHYSICS.inputs.items()):
        yield f"{name} [{row.unit}]"
        yield from (f"{name} = {choice}" for choice in row.choices)
    yield from (f"{name} [{made.unit}]" for name, made in sorted(PHYSICS.quantities.items()))


def test_no_name_that_was_released_is_gone() -> None:
    """docs/releases.md promises it; one that goes is deprecated first."""
    assert {*NAMES.read_text(encoding="utf-8").splitlines()} - {*names()} == set()


if __name__ == "__main__":
    for path, lines in ((LIST, surface()), (NAMES, names())):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sys.stdout.write(LIST.read_text(encoding="utf-8"))
