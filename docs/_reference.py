"""Write the reference: quantities, inputs, catalog, commands and Python names, from the code.

A Sphinx extension: the pages are written into docs/reference/ (which git ignores) before each
build, and rewritten only where they have changed. Nothing in them is typed by hand.
"""

import ast
import inspect
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

import fleetcube
from docs._formulas import typeset
from fleetcube import kernels
from fleetcube.catalog import KINDS, kind
from fleetcube.cli import cli
from fleetcube.grid.explain import bounds, default_of, feeds, topics
from fleetcube.grid.plan.citations import cited, references
from fleetcube.kernels import declare, inputs
from fleetcube.kernels.alternatives import source_of
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.graph.formulas import Quantity, load, units

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
    """Write every page that is not there as it should be, and remove all others."""
    folder.mkdir(exist_ok=True)
    pages = {f"{name}.{'rst' if name in IN_RST else 'md'}": page for name, page in PAGES.items()}
    for left in {*folder.glob("*.md"), *folder.glob("*.rst")} - {folder / name for name in pages}:
        left.unlink()
    for name, page in pages.items():
        path, text = folder / name, "\n".join(page()) + "\n"
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
    for topic, made in topics().items():
        yield from ("", f"## {topic.capitalize()}")
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
        maths, *remarks = doc.maths.split("\n\n")
        yield from ("", typeset(maths), "")
        for remark in remarks:
            yield from (_plain(" ".join(remark.split())), "")
        yield from ("```python", *_body(formula), "```", "")
        if needed := units(formula):
            yield from ("| needs | unit | default | what it is |", "| --- | --- | --- | --- |")
        for name, unit in needed.items():
            yield f"| {_link(name)} | {_unit(unit)} | {_default(name)} | {_plain(_meaning(name))} |"
        yield ""
        if doc.flags:
            yield f"- flags: {', '.join(f'{code} `{name}`' for code, name in doc.flags.items())}"
        if doc.range:
            yield f"- holds: {_plain(doc.range)}"
        works = ", ".join(f"[{key}](#ref-{key})" for key in cited(doc.source)[0])
        yield f"- source: {_plain(doc.source)}{f' ({works})' if works else ''}"
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
    yield "states itself stands above its labels. Any may be an axis. Kinds say who can change it:"
    who = ", ".join(declare.CHANGERS[:-1])
    yield f"{who}; `model` is what is trained, and how laws predict it."
    for heading, rows in inputs.BY_TOPIC.items():
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
            yield f"- kind: {row.changed_by}"
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
    """The public names, in reStructuredText: autodoc fills them in."""
    yield from (*_title("Python", "="), "")
    yield "Everything public is in ``fleetcube`` itself. Bad input raises"
    yield ":py:obj:`fleetcube.InputError` (a ``ValueError``) of one line: the value, the rule and"
    yield "what to do. Times, rates and sizes are numbers in SI base units, or text with a unit"
    yield '(``"400 Gbit/s"``).'
    public = {name: getattr(fleetcube, name) for name in fleetcube.__all__}
    yield from ("", *_title("Functions", "-"), "", ".. currentmodule:: fleetcube", "")
    for name, made in public.items():
        if inspect.isfunction(made):
            yield from (f".. autofunction:: fleetcube.{name}", "")
    for name, made in public.items():
        if inspect.isclass(made):
            yield from (*_title(name, "-"), "", f".. autoclass:: fleetcube.{name}", "")
            for member in _members(made) if not issubclass(made, Exception) else ():
                kind = "method" if callable(getattr(made, member)) else "property"
                yield f"   .. auto{kind}:: fleetcube.{name}.{member}"
            yield ""
    yield from (*_title("The catalog", "-"), "", ".. currentmodule:: fleetcube.catalog", "")
    for name in ("kind", "record", "editions"):
        yield from (f".. autofunction:: fleetcube.catalog.{name}", "")
    for name, way in (("Record", "class"), ("CatalogError", "exception")):
        yield from (f".. auto{way}:: fleetcube.catalog.{name}", "")


def laws() -> Iterable[str]:
    """The laws that can be called, by module."""
    yield from (*_title("Laws as functions", "="), "")
    yield "The formulas behind the :doc:`quantities <quantities>`, to be called alone: plain"
    yield "functions of numbers and NumPy arrays, in SI units. So"
    yield "``fleetcube.kernels.checkpoint.young_interval(30.0, 86_400.0)`` is the time between"
    yield "checkpoints of 30 seconds where failures are a day apart. :doc:`Laws <../laws>` has the"
    yield "independent check of each."
    for name in kernels.LAWS:
        module = getattr(kernels, name)
        yield from (
            "",
            *_title(name.capitalize().replace("_", " "), "-"),
            "",
            f".. automodule:: {module.__name__}",
            "",
        )
        for law, made in vars(module).items():
            own = inspect.isfunction(made) and made.__module__ == module.__name__
            if own and not law.startswith("_"):
                yield from (f".. autofunction:: {module.__name__}.{law}", "")


def bibliography() -> Iterable[str]:
    """Every work that a formula cites, and what cites it."""
    yield from ("# Bibliography", "")
    yield f"{len(references())} works on which formulas rest. `fleetcube.citations(result)` gives"
    yield "those behind a result as BibTeX, with the catalog records."
    by: dict[str, dict[str, None]] = {}
    for quantity in load().values():
        for formula in quantity.formulas.values():
            for key in cited(read(formula).source)[0]:
                by.setdefault(key, {})[quantity.name] = None
    for key, entry in references().items():
        yield from (
            "",
            f"(ref-{key})=",
            f"## {key}",
            "",
            f"{_plain(_work(entry))} {_where(entry)}",
        )
        if key in by:
            yield from ("", f"Cited by: {_links(by[key])}.")


def _work(entry: Mapping[str, str]) -> str:
    """A work in one line: who, when, what, where."""
    names = entry.get("author", "").split(" and ")
    who = ", ".join(" ".join(reversed(name.split(", "))) for name in names if name)
    venue = next((entry[f] for f in _VENUES if f in entry), "")
    volume = entry.get("volume", "") + (f"({entry['number']})" if "number" in entry else "")
    pages = entry.get("pages", "")
    parts = [who, entry.get("year", ""), entry["title"], f"{venue} {volume}".strip(), pages]
    return _from_tex(f"{'. '.join(part.rstrip('.') for part in parts if part)}.")


def _where(entry: Mapping[str, str]) -> str:
    """Links to a work."""
    links = []
    if "doi" in entry:
        links.append(f"[doi:{entry['doi']}](<https://doi.org/{entry['doi']}>)")
    if "eprint" in entry:
        links.append(f"[arXiv:{entry['eprint']}](https://arxiv.org/abs/{entry['eprint']})")
    if "url" in entry:
        links.append(f"<{entry['url']}>")
    return " ".join(links)


def _from_tex(text: str) -> str:
    """What BibTeX writes, as plain text."""
    text = re.sub(r"\{\\(['\"])(\w)\}", lambda m: m[2] + _ACCENTS[m[1]], text)
    text = (
        text.replace("$\\lambda$", "\u03bb").replace("\\lambda", "\u03bb").replace("--", "\u2013")
    )
    return unicodedata.normalize("NFC", re.sub(r"\\(?=[&%$#_])|[{}]", "", text))


def _members(made: type) -> list[str]:
    """Public members of a class, those of its bases first, in the order of the code."""
    bases = [base for base in reversed(made.__mro__) if base.__module__.startswith("fleetcube")]
    found = dict.fromkeys(name for base in bases for name in vars(base))
    return [name for name in found if not name.startswith("_")]


def _title(text: str, under: str) -> tuple[str, str]:
    return (text, under * len(text))


# Words


def _heading(name: str, unit: str) -> Iterable[str]:
    return ("", f"({_target(name)})=", f"### {name} [{_unit(unit)}]")


def _names(names: Iterable[str]) -> Iterable[str]:
    """The names below a heading, as links."""
    return ("", "```{container} names", _links(names), "```")


def _unit(unit: str) -> str:
    return "-" if unit == "1" else unit


def _default(name: str) -> str:
    """The default of what a formula needs; what is computed says so."""
    row = inputs.INPUTS.get(name)
    return _plain(default_of(row) or "required") if row else "computed"


def _meaning(name: str) -> str:
    row = inputs.INPUTS.get(name)
    return row.description if row else load()[name].doc.summary.rstrip(".")


def _target(name: str) -> str:
    return f"name-{name.replace('_', '-')}"


def _link(name: str) -> str:
    """A name as a link, where it has an entry."""
    known = name in load() or name in inputs.INPUTS
    return f"[`{name}`](#{_target(name)})" if known else f"`{name}`"


def _links(names: Iterable[str]) -> str:
    return ", ".join(map(_link, names))


def _codes(values: Iterable[Any]) -> str:
    return ", ".join(f"`{declare.written(value)}`" for value in values)


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
    "laws": laws,
    "bibliography": bibliography,
}
IN_RST = ("python", "laws")  # for autodoc
_VENUES = ("journal", "booktitle", "publisher", "institution", "howpublished")
_ACCENTS = {"'": "\u0301", '"': "\u0308"}
