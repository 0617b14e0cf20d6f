"""Write the reference: quantities, inputs, catalog, commands and Python names, from the code.

A Sphinx extension: the pages are written into docs/reference/ (which git ignores) before each
build, and rewritten only where they have changed. Nothing in them is typed by hand.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

import fleetcube
from fleetcube.catalog import KINDS, kind
from fleetcube.cli import cli
from fleetcube.grid.explain import bounds, default_of, feeds, modules
from fleetcube.kernels import inputs
from fleetcube.kernels.alternatives import source_of
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.graph.formulas import Quantity, load

FOLDER = Path(__file__).parent / "reference"


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_object_type("name", "name")
    app.connect("builder-inited", lambda _: write())
    app.connect("doctree-read", _found)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _found(app: Any, _: Any) -> None:
    """Let the site's search find an entry by any part of its name or of a choice within it."""
    page = app.env.docname
    if page == "reference/quantities":
        found = {name: name for name in load()} | {
            f"{name} where {quantity.option} is {choice}": name
            for name, quantity in load().items()
            for choice in quantity.formulas
            if isinstance(choice, str)
        }
    elif page == "reference/inputs":
        found = {name: name for name in inputs.INPUTS}
    else:
        return
    for title, name in found.items():
        app.env.get_domain("std").note_object("name", title, _target(name), location=page)


def write(folder: Path = FOLDER) -> None:
    """Write every page that is not there as it should be."""
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        path, text = folder / f"{name}.md", "\n".join(page()) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def quantities() -> Iterable[str]:
    """All quantities, by module."""
    yield from ("# Quantities", "")
    yield f"{len(load())} quantities. Each is an output by its name, and an input where it is given"
    yield "instead of computed. Its [derivatives](../gradients.md) are outputs, too. Units are SI;"
    yield "a plain number has the unit -. The law stands first, in the symbols of its source; below"
    yield "is the code that is run, in the names of what it needs. `fleetcube explain NAME` prints"
    yield "an entry and the way to it."
    for module, made in modules().items():
        yield from ("", f"## {module.replace('_', ' ').capitalize()}")
        yield from _names(quantity.name for quantity in made)
        for quantity in made:
            yield from _quantity(quantity)


def _quantity(quantity: Quantity) -> Iterable[str]:
    unit = "flag" if quantity.doc.flags else quantity.unit
    yield from _heading(quantity.name, unit)
    choices: dict[Callable[..., Any], list[Any]] = {}
    for choice in inputs.INPUTS[quantity.option].choices if quantity.option else (None,):
        choices.setdefault(quantity.formulas[choice], []).append(choice)
    for formula, values in choices.items():
        doc = read(formula)
        yield from ("", doc.summary)
        if quantity.option:
            usual = inputs.INPUTS[quantity.option].default
            chosen = (_codes([value]) + " (default)" * (value == usual) for value in values)
            yield from ("", f"Where {_link(quantity.option)} is {', '.join(chosen)}:")
        yield from ("", "```text", *doc.maths.splitlines(), "```")
        yield from ("```python", *_body(formula), "```", "")
        if doc.flags:
            yield f"- flags: {', '.join(f'{code} `{name}`' for code, name in doc.flags.items())}"
        needs = (f"{_link(name)} {_known(name, unit)}" for name, unit in doc.parameters.items())
        yield f"- needs: {', '.join(needs) or 'nothing'}"
        if doc.range:
            yield f"- holds: {_plain(doc.range)}"
        yield f"- source: {_plain(doc.source)}"
    yield from ("", f"Feeds: {_links(feeds(quantity.name)) or 'nothing, it is a result'}.")


def _body(formula: Callable[..., Any]) -> list[str]:
    """The code of a formula: its lines below the docstring."""
    source = textwrap.dedent(source_of(formula))
    made = ast.parse(source).body[0]
    assert isinstance(made, ast.FunctionDef)
    below = source.splitlines()[made.body[0].end_lineno :]
    return textwrap.dedent("\n".join(below)).strip().splitlines()


def all_inputs() -> Iterable[str]:
    """All inputs, under the headings of their table."""
    yield from ("# Inputs", "")
    yield f"{len(inputs.INPUTS)} inputs. Numbers are in the unit named; text may carry another"
    yield '(`"400 Gbit/s"`). A [catalog](catalog.md) label sets several at once; what a scenario'
    yield "states itself stands above its labels. Any may be an axis."
    for heading, rows in inputs.groups().items():
        yield from ("", f"## {heading}")
        yield from _names(row.name for row in rows)
        for row in rows:
            yield from _heading(row.name, row.unit if row.kind != "option" else "option")
            yield from ("", f"{_plain(row.description[0].upper() + row.description[1:])}.", "")
            yield f"- default: {default_of(row) or 'none, it is required'}"
            if row.choices:
                yield f"- choices: {_codes(row.choices)}"
            else:
                yield f"- bounds: {bounds(row)}"
            if row.implied_by:
                yield f"- implied: `{row.implied}` where {_links(row.implied_by)} is given"
            labels = [name for name, names in KINDS.items() if row.name in names]
            if labels:
                yield f"- set by labels of: {', '.join(labels)}"
            fed = "chooses" if row.kind == "option" else "feeds"
            yield f"- {fed}: {_links(feeds(row.name)) or 'nothing'}"


def catalog() -> Iterable[str]:
    """All kinds of the catalog, and their labels."""
    yield from ("# Catalog", "")
    yield "`fleetcube catalog KIND LABEL` prints the values of a label with its source. A corrected"
    yield "record is a new edition: `LABEL@1` is the first one for ever."
    for name, sets in KINDS.items():
        yield from ("", f"## {name}", "", "Sets, where a record knows it: " + _links(sets) + ".")
        yield from ("", "| label | what | as of |", "| --- | --- | --- |")
        for record in kind(name).values():
            yield f"| `{record.label}` | {_plain(record.title)} | {record.date} |"


def commands() -> Iterable[str]:
    """The help of every command."""
    yield from ("# Commands", "")
    yield from _help(cli, "fleetcube")
    for name, command in sorted(cli.commands.items()):
        yield from ("", f"## fleetcube {name}", "", *_help(command, f"fleetcube {name}"))


def _help(command: click.Command, name: str) -> Iterable[str]:
    context = click.Context(command, info_name=name, terminal_width=100)
    return ("```text", *command.get_help(context).splitlines(), "```")


def python() -> Iterable[str]:
    """The public names, with their docstrings."""
    yield from ("# Python", "")
    yield "Everything public is in `fleetcube` itself. Bad input raises `InputError` (a"
    yield "`ValueError`) of one line: the value, the rule and what to do."
    for name in fleetcube.__all__:
        made = getattr(fleetcube, name)
        if inspect.ismodule(made):
            continue
        yield from _name(f"fleetcube.{name}", made, "##")
        if inspect.isclass(made) and not issubclass(made, Exception):
            for method, member in sorted(inspect.getmembers(made)):
                if not method.startswith("_"):
                    yield from _name(f"{name}.{method}", member, "###")


def _name(name: str, made: Any, level: str) -> Iterable[str]:
    yield from ("", f"{level} {name}", "")
    target = made.fget if isinstance(made, property) else made
    if callable(target) and not isinstance(made, property):
        yield from ("```python", f"{name.rpartition('.')[2]}{_signature(target)}", "```", "")
    yield from ("```text", *(inspect.getdoc(target) or "").splitlines(), "```")


def _signature(function: Callable[..., Any]) -> str:
    """A signature, one parameter on a line where it is long."""
    signature = inspect.signature(function)
    kept = [p for p in signature.parameters.values() if p.name != "self"]
    text = _annotated(signature.replace(parameters=kept))
    if len(text) <= 80:
        return text
    lines, keywords = [], False
    for parameter in kept:
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            lines.append("*")
        lines.append(_annotated(parameter))
    end = text.rpartition(")")[2]
    return "\n".join(["(", *(f"    {line}," for line in lines), f"){end}"])


def _annotated(made: Any) -> str:
    """A signature or parameter with the types as they are written in the code."""
    text = re.sub(r"(: |-> )'([^']+)'", r"\1\2", str(made))
    return text.replace("collections.abc.", "").replace("typing.", "")


# Words


def _heading(name: str, unit: str) -> Iterable[str]:
    return ("", f"({_target(name)})=", f"### {name} [{_unit(unit)}]")


def _names(names: Iterable[str]) -> Iterable[str]:
    """The names below a heading, as links."""
    return ("", "```{container} names", _links(names), "```")


def _unit(unit: str) -> str:
    return "-" if unit == "1" else unit


def _known(name: str, unit: str) -> str:
    """The unit of what a formula needs, and its default if it has one."""
    row = inputs.INPUTS.get(name)
    default = default_of(row) if row else ""
    return f"[{_unit(unit)}]{f' (default {default})' * bool(default)}"


def _target(name: str) -> str:
    return f"name-{name.replace('_', '-')}"


def _link(name: str) -> str:
    """A name as a link, where it has an entry."""
    known = name in load() or name in inputs.INPUTS
    return f"[`{name}`](#{_target(name)})" if known else f"`{name}`"


def _links(names: Iterable[str]) -> str:
    return ", ".join(map(_link, names))


def _codes(values: Iterable[Any]) -> str:
    return ", ".join(f"`{str(v).lower() if isinstance(v, bool) else v}`" for v in values)


def _plain(text: str) -> str:
    """Text in which nothing is read as Markdown."""
    for mark in "\\`*_[]<|$":
        text = text.replace(mark, f"\\{mark}")
    return text


PAGES: dict[str, Callable[[], Iterable[str]]] = {
    "quantities": quantities,
    "inputs": all_inputs,
    "catalog": catalog,
    "commands": commands,
    "python": python,
}
