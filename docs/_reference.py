"""Write the reference: quantities and laws by topic, inputs, units, commands, Python and the rest.

A Sphinx extension: the pages are written into docs/reference/ (which git ignores) before each
build, and rewritten only where they have changed. Nothing in them is typed by hand.
"""

import ast
import functools
import importlib
import inspect
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

import fleetcube
from docs import checks
from docs._formulas import symbol, typeset
from docs.symbols import elsewhere, symbols
from fleetcube import laws
from fleetcube.analysis.simulated_step import Pass
from fleetcube.catalog import KINDS, kind
from fleetcube.catalog.units import spelling
from fleetcube.cli import cli
from fleetcube.functions.function import Gradient
from fleetcube.kernels import declare
from fleetcube.kernels.alternatives import is_row, source_of
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.graph.formulas import Quantity
from fleetcube.kernels.physics import inputs
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.presentation.explain import bounds, default_of, feeds, topics
from fleetcube.scenario.citations import cited, references

HERE = Path(__file__).parents[1]
FOLDER = Path(__file__).parent / "reference"
# Modules of laws, by the topic that they are on the page of
LAWS_OF = {
    "network": ("collectives", "topology"),
    "failures": ("reliability", "repair", "statistics"),
    "learning": ("learning",),
    "checkpoints": ("checkpoint", "checkpoint_tiers"),
    "compute": ("layer", "roofline"),
    "pipeline": ("pipeline", "stages"),
    "data": ("reduce_scatter",),
    "torus": ("torus",),
    "step": ("stragglers",),
    "run": ("scaling",),
    "cost": ("ownership",),
}


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_object_type("name", "name")
    app.connect("builder-inited", lambda _: write())
    app.connect("doctree-read", _found)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _found(app: Any, _: Any) -> None:
    """Let the site's search find an entry by any part of its name or of a choice within it."""
    folder, _, page = app.env.docname.rpartition("/")
    if folder != "reference":
        return
    if page in topics():
        made = topics()[page]
        found = {quantity.name: quantity.name for quantity in made} | {
            f"{quantity.name} where {quantity.option} is {choice}": quantity.name
            for quantity in made
            for choice in quantity.formulas
            if isinstance(choice, str)
        }
    elif page == "inputs":
        found = {name: name for name in inputs.INPUTS}
    else:
        return
    for title, name in found.items():
        location = app.env.docname
        app.env.get_domain("std").note_object("name", title, _target(name), location=location)


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


def index() -> Iterable[str]:
    """What the reference holds."""
    yield from ("# Reference", "", "All of it is written from the code.", "")
    listed = [name for name in PAGES if name != "index" and name not in topics()]
    yield from ("```{toctree}", ":maxdepth: 1", "", *listed)
    yield "```"


def quantities() -> Iterable[str]:
    """The topics of quantities, and all their names."""
    yield from ("# Quantities and laws", "")
    count = len(PHYSICS.quantities)
    yield f"{count} quantities. Each is an output by its name, and an input where it is given"
    yield "instead of computed. Its [derivatives](../gradients.md) are outputs, too. Units are SI;"
    yield "a plain number has the unit -. An entry has the formula in the symbols of its source,"
    yield "the code that is run, and what it needs; `fleetcube explain NAME` prints it. With them"
    yield "are the laws as functions, and the independent checks ([all of them](../laws.md))."
    for topic, made in topics().items():
        yield from ("", f"## [{topic.capitalize()}]({topic}.md)")
        yield from _names(quantity.name for quantity in made)
    yield from ("", "```{toctree}", ":hidden:", "", *topics(), "```")


def of_topic(topic: str) -> Iterable[str]:
    """The quantities, laws and checks of a topic."""
    made = topics()[topic]
    yield f"# {topic.capitalize()}"
    yield from _names(quantity.name for quantity in made)
    yield from ("", "## Quantities")
    for quantity in made:
        yield from _quantity(quantity)
    for module in LAWS_OF.get(topic, ()):
        yield from _laws(module)
    if any(checks.topic_of(check) == topic for check in checks.CHECKS):
        yield from ("", "## Checks", "")
        yield "What each compares, and the largest difference: relative, if not said."
    for check in checks.CHECKS:
        if checks.topic_of(check) == topic:
            yield from ("", f"({checks.target(check)})=", "")
            about = f"{check.by}, difference {checks.difference(check)}"
            yield f"`{checks.name_of(check)}` ({about}): {_plain(check.source)}."
            yield f"At {_plain(check.points)}."


def _laws(module: str) -> Iterable[str]:
    """The laws of a module, as functions."""
    made = getattr(laws, module)
    yield from ("", f"## Laws: {module}", "", f"`from fleetcube.laws import {module}`:")
    yield "plain functions of numbers and arrays, in SI units."
    yield from ("", "```{eval-rst}", ".. currentmodule:: fleetcube", "")
    for law in _own(made):
        yield from (f".. autofunction:: fleetcube.laws.{module}.{law}", "")
    yield "```"


def _own(module: Any) -> list[str]:
    """The names of the laws of a module."""
    return [
        name
        for name, made in vars(module).items()
        if inspect.isfunction(made)
        and made.__module__ == module.__name__
        and not name.startswith("_")
    ]


def _quantity(quantity: Quantity) -> Iterable[str]:
    unit = "flag" if quantity.doc.flags else quantity.unit
    yield from _heading(quantity.name, unit)
    choices: dict[Callable[..., Any], list[Any]] = {}
    for choice in inputs.INPUTS[quantity.option].choices if quantity.option else (None,):
        choices.setdefault(quantity.formulas[choice], []).append(choice)
    for formula, values in choices.items():
        doc = read(formula)
        yield from ("", _plain(doc.summary))
        if quantity.option:
            usual = inputs.INPUTS[quantity.option].default
            chosen = (_codes([value]) + " (default)" * (value == usual) for value in values)
            yield from ("", f"Where {_link(quantity.option)} is {', '.join(chosen)}:")
        maths, *remarks = doc.maths.split("\n\n")
        yield from ("", typeset(maths), "")
        for remark in remarks:
            yield from (_plain(" ".join(remark.split())), "")
        yield from ("```python", *_body(formula), "```", "")
        standing = symbols(formula)
        if needed := PHYSICS.units(formula):
            yield "| needs | symbol | unit | default | what it is |"
            yield "| --- | --- | --- | --- | --- |"
        for name, unit in needed.items():
            about = (_symbol(standing.get(name, "")), _unit(unit), _default(name))
            yield f"| {_link(name)} | {' | '.join(about)} | {_plain(_meaning(name))} |"
        yield ""
        if others := elsewhere(formula):
            said = (f"{_symbol(s)}: {_words(meaning)}" for s, meaning in others.items())
            yield f"- symbols: {'; '.join(said)}"
        if doc.flags:
            yield f"- flags: {', '.join(f'{code} `{name}`' for code, name in doc.flags.items())}"
        if doc.range:
            yield f"- holds: {_plain(doc.range)}"
        works = ", ".join(f"[{key}](#ref-{key})" for key in cited(doc.source)[0])
        yield f"- source: {_plain(doc.source)}{f' ({works})' if works else ''}"
        if held := [
            f"[{checks.name_of(c)}](#{checks.target(c)})" for c in checks.checks_of(formula)
        ]:
            yield f"- checked by: {', '.join(held)}"
    yield from ("", f"Feeds: {_links(feeds(quantity.name)) or 'nothing, it is a result'}.")


def _body(formula: Callable[..., Any]) -> list[str]:
    """The code of a formula: its lines below the docstring, and the law that it calls."""
    source = textwrap.dedent(source_of(formula))
    first, *called = ast.parse(source).body
    if is_row(formula):
        return [f"return {name}" for name in inspect.signature(formula).parameters] or _code(
            source, first, ""
        )
    lines = _code(source, first, "")
    for law in called:
        lines += ["", "", *_code(source, law, formula.__globals__["__name__"])]
    return lines


def _code(source: str, made: ast.stmt, home: str) -> list[str]:
    """A function without its docstring; without its signature, too, if it is of no module."""
    assert isinstance(made, ast.FunctionDef)
    lines, first = source.splitlines(), made.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    start = first.end_lineno if documented else first.lineno - 1
    body = lines[start : made.end_lineno]
    if not home:
        return textwrap.dedent("\n".join(body)).strip().splitlines()
    about = f"# {home.partition('.')[2].replace('.', '/')}.py"
    return [about, *lines[made.lineno - 1 : first.lineno - 1], *body]


def all_inputs() -> Iterable[str]:
    """All inputs, under the headings of their table."""
    yield from ("# Inputs", "")
    yield f"{len(inputs.INPUTS)} inputs. Numbers are in the unit named; text may carry another"
    yield '(`"400 Gbit/s"`). A [catalog](catalog.md) label sets several at once; what a scenario'
    yield "states itself stands above its labels. Any may be an axis. Kinds say who can change it:"
    who = ", ".join(declare.CHANGERS[:-1])
    yield f"{who}; `model` is what is trained, and how laws predict it."
    for heading, rows in inputs.BY_TOPIC.items():
        yield from ("", f"## {heading.capitalize()}")
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


def units_page() -> Iterable[str]:
    """The units that values may be written in."""
    yield from ("# Units", "")
    yield "Values are in the base units of this table. Text may carry any other unit of the same"
    yield 'kind: `"400 Gbit/s"`, `"50_000 h"`. Underscores or commas separate thousands. Plain'
    yield "numbers may end in %, k, M, B or T, as may money before its unit; `$2.50/h` is"
    yield "`2.5 USD/h`. Plain numbers have the unit `1`, which the reference shows as -."
    yield from (
        "",
        "| base unit | for example | inputs | quantities |",
        "| --- | --- | --- | --- |",
    )
    rows = list(inputs.INPUTS.values())
    for base in dict.fromkeys(
        [row.unit for row in rows] + [q.unit for q in PHYSICS.quantities.values()]
    ):
        if base != "flag":
            taken = sum(row.unit == base for row in rows)
            given = sum(quantity.unit == base for quantity in PHYSICS.quantities.values())
            yield f"| `{base}` | {_plain(spelling(base))} | {taken} | {given} |"
    defined = (HERE / "catalog" / "units.txt").read_text(encoding="utf-8").splitlines()
    lines = [[part.strip() for part in line.split("=")] for line in defined if "=" in line]
    yield from ("", "## Names", "", "| unit | is | also |", "| --- | --- | --- |")
    for name, is_, *others in lines:
        if not name.endswith("-"):
            yield f"| {_plain(name)} | {_plain(is_)} | {_plain(', '.join(others))} |"
    yield from ("", "## Prefixes", "", "| prefix | is | also |", "| --- | --- | --- |")
    for name, is_, *others in lines:
        if name.endswith("-"):
            yield f"| {name} | {is_} | {', '.join(others)} |"
    yield from ("", "## In Python", "", "Attributes of a result name the unit of each variable;")
    yield "`cube.fleetcube.to_units(...)` gives others, `.to_timedelta()` times of NumPy"
    yield "([units and xarray](../howto/units-and-xarray.md))."


def python() -> Iterable[str]:
    """The public names, in reStructuredText: autodoc fills them in."""
    yield from (*_title("Python", "="), "")
    yield "Everything public is in ``fleetcube`` itself. Bad input raises"
    yield ":py:obj:`fleetcube.InputError` (a ``ValueError``) of one line: the value, the rule and"
    yield "what to do. Times, rates and sizes are numbers in SI base units, or text with a unit"
    yield '(``"400 Gbit/s"``; :doc:`units`).'
    public = {name: getattr(fleetcube, name) for name in fleetcube.__all__}
    yield from ("", *_title("Functions", "-"), "", ".. currentmodule:: fleetcube", "")
    for name, made in public.items():
        if inspect.isfunction(made):
            yield from (f".. autofunction:: fleetcube.{name}", "")
    for name, made in public.items():
        if inspect.isclass(made):
            yield from (*_title(name, "-"), "")
            yield from _class(f"fleetcube.{name}", made, members=made is fleetcube.Sweep)
    for title, said, classes in RETURNED:
        yield from (*_title(title, "-"), "", said, "")
        for path in classes:
            made = _imported(path)
            yield from _class(path, made, members=made not in (Gradient, Pass))
    yield from (*_title("The catalog", "-"), "", ".. currentmodule:: fleetcube.catalog", "")
    for name in ("kind", "record", "editions"):
        yield from (f".. autofunction:: fleetcube.catalog.{name}", "")
    for name, way in (("Record", "class"), ("CatalogError", "exception")):
        yield from (f".. auto{way}:: fleetcube.catalog.{name}", "")
    yield from (*_title("Graphs", "-"), "", ".. currentmodule:: fleetcube.graph", "")
    yield "Formulas of your own, with this module's ``np`` and ``where``"
    yield "(:doc:`../start/my-accelerator-my-schedule`)."
    yield from ("", ".. autofunction:: fleetcube.graph.quantity", "")
    yield from (*_title("Laws", "-"), "")
    yield "``from fleetcube.laws import checkpoint``: plain functions of numbers and arrays, in SI"
    yield "units. ``checkpoint.young_interval(30.0, 86_400.0)`` is the time between checkpoints of"
    yield "30 seconds where failures are a day apart. Each is on the page of its topic."
    yield ""
    for topic, modules in LAWS_OF.items():
        for module in modules:
            names = (
                f":py:obj:`{law} <fleetcube.laws.{module}.{law}>`"
                for law in _own(getattr(laws, module))
            )
            yield f"- ``{module}`` (:doc:`{topic}`): {', '.join(names)}"
    yield ""


def _class(path: str, made: type, members: bool) -> Iterable[str]:
    """A class, and its members: those of its bases first."""
    yield from (f".. autoclass:: {path}", "")
    for member in _members(made) if members else ():
        found = getattr(made, member, None)
        way = "method" if callable(found) else "property" if found is not None else "attribute"
        yield f"   .. auto{way}:: {path}.{member}"
    yield ""


def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def bibliography() -> Iterable[str]:
    """Every work that a formula cites, and what cites it."""
    yield from ("# Bibliography", "")
    yield f"{len(references())} works on which formulas rest. `fleetcube.citations(result)` gives"
    yield "those behind a result as BibTeX, with the catalog records."
    by: dict[str, dict[str, None]] = {}
    for quantity in PHYSICS.quantities.values():
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
    found = dict.fromkeys(
        name for base in bases for name in (*vars(base).get("__annotations__", ()), *vars(base))
    )
    return [name for name in found if not name.startswith("_")]


def _title(text: str, under: str) -> tuple[str, str]:
    return (text, under * len(text))


# Words


def _symbol(text: str) -> str:
    """A symbol, set as in formulas."""
    return f"<i>{symbol(text)}</i>" if text else ""


def _words(meaning: str) -> str:
    """What a symbol means: a name as a link, or words."""
    known = set(PHYSICS.quantities) | set(inputs.INPUTS)
    return re.sub(r"\w+", lambda m: _link(m[0]) if m[0] in known and "_" in m[0] else m[0], meaning)


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
    return row.description if row else PHYSICS.quantities[name].doc.summary.rstrip(".")


def _target(name: str) -> str:
    return f"name-{name.replace('_', '-')}"


def _link(name: str) -> str:
    """A name as a link, where it has an entry."""
    known = name in PHYSICS.quantities or name in inputs.INPUTS
    return f"[`{name}`](#{_target(name)})" if known else f"`{name}`"


def _links(names: Iterable[str]) -> str:
    return ", ".join(map(_link, names))


def _codes(values: Iterable[Any]) -> str:
    return ", ".join(f"`{declare.written(value)}`" for value in values)


def _plain(text: str) -> str:
    """Text in which nothing is read as Markdown but names between backquotes, which are links."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _escaped(text)
    return "".join(_link(part) if k % 2 else _escaped(part) for k, part in enumerate(parts))


def _escaped(text: str) -> str:
    for mark in "\\`*_[]<|$":
        text = text.replace(mark, f"\\{mark}")
    return text


PAGES: dict[str, Callable[[], Iterable[str]]] = {
    "index": index,
    "quantities": quantities,
    "inputs": all_inputs,
    "units": units_page,
    "python": python,
    "commands": commands,
    "catalog": catalog,
    "bibliography": bibliography,
    **{topic: functools.partial(of_topic, topic) for topic in topics()},
}
IN_RST = ("python",)  # for autodoc
# What functions and results are, beyond the public names
RETURNED = (
    (
        "What function returns",
        "A ``Function``, as ``fleetcube.function`` makes it, and that of its derivatives.",
        ("fleetcube.functions.function.Function", "fleetcube.functions.function.Gradient"),
    ),
    (
        "What simulate_schedule returns",
        "A ``PlayedSchedule`` of passes.",
        ("fleetcube.schedules.schedule.PlayedSchedule", "fleetcube.analysis.simulated_step.Pass"),
    ),
    (
        "cube.fleetcube",
        "Datasets that fleetcube makes or opens have ``.fleetcube``, as have their arrays. "
        "``import fleetcube.xarray`` gives it to all of xarray.",
        (
            "fleetcube.xarray.DatasetAccessor",
            "fleetcube.xarray.DataArrayAccessor",
            "fleetcube.accessor.Pictures",
        ),
    ),
)
_VENUES = ("journal", "booktitle", "publisher", "institution", "howpublished")
_ACCENTS = {"'": "\u0301", '"': "\u0308"}
