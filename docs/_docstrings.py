"""Docstrings on the site: units of laws as tables, everything else by autodoc and napoleon.

A Sphinx extension. Its functions turn lines into lines, without Sphinx.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import fleetcube
from docs import checks
from docs._formulas import typeset
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.physics import inputs
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.scenario.citations import cited

_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_SENTENCE = re.compile(r"(?<=\.) (?=(?:Returns|Raises) )")
_PROMISE = re.compile(r"Returns (.*)|Raises (?:an? )?(\w+),? ?(.*)")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx, before napoleon."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _process(app: Any, what: str, name: str, made: Any, _: Any, lines: list[str]) -> None:
    is_law = what == "function" and name.startswith("fleetcube.laws.")
    lines[:] = list(law(made)) if is_law else public(lines)
    if is_law:  # its types are Any: the table has the units
        app.env.current_document.autodoc_annotations.pop(name, None)


def law(function: Callable[..., Any]) -> Iterable[str]:
    """The docstring of a law: formula, parameters with units, result, range, source, example."""
    doc = read(function)
    maths, *remarks = doc.maths.split("\n\n")
    yield from (doc.summary, "", ".. raw:: html", "", f"   {typeset(maths)}")
    for remark in remarks:
        yield from ("", *_linked(remark.splitlines()))
    yield from ("", ".. list-table::", "   :header-rows: 1", "   :class: parameters", "")
    rows = [
        (f"``{name}``", unit, doc.meanings.get(name, "")) for name, unit in doc.parameters.items()
    ]
    for row in [("parameter", "unit", "what it is"), *rows, ("returns", doc.unit, doc.returns)]:
        name, unit, meaning = row
        unit = "\\-" if unit == "1" else _escaped(unit)  # a bare dash would begin a list
        yield from (f"   * - {name}", f"     - {unit}", f"     - {_escaped(meaning)}")
    yield ""
    if doc.range:
        yield f":Holds: {_escaped(doc.range)}"
    keys = ", ".join(f":ref:`{key} <ref-{key}>`" for key in cited(doc.source)[0])
    yield f":Source: {_escaped(doc.source)}{f' [{keys}]' if keys else ''}"
    if held := [
        f":ref:`{checks.name_of(c)} <{checks.target(c)}>`" for c in checks.checks_of(function)
    ]:
        yield f":Checked by: {', '.join(held)}"
    if doc.example:
        yield from ("", *(line.strip() for line in doc.example.strip().splitlines()))
    yield ""


def public(lines: Iterable[str]) -> list[str]:
    """A public docstring, in the order that a page has: prose, arguments, promises, example.

    What a paragraph says that is returned or raised becomes a field, as arguments do.
    """
    prose: list[str] = []
    arguments: list[str] = []
    promises: list[str] = []
    example: list[str] = []
    for block in re.split(r"\n\n(?=\S)", "\n".join(_linked(lines)).strip("\n")):
        if block.startswith("Args:"):
            arguments += [*block.splitlines(), ""]
        elif block.startswith("Example:"):
            example += [*block.splitlines(), ""]
        elif block.startswith((" ", "-", "*", ">>>")):  # kept as it is laid out
            prose += [*block.splitlines(), ""]
        else:
            for sentence in _SENTENCE.split(" ".join(block.split())):
                promise = _PROMISE.fullmatch(sentence)
                if promise is None:
                    prose += [sentence, ""]
                elif promise[1]:
                    promises.append(f":returns: {_capital(promise[1])}")
                else:
                    promises.append(f":raises {promise[2]}: {promise[3]}")
    return [*prose, *arguments, *promises, *([""] if promises else []), *example]


def _linked(lines: Iterable[str]) -> list[str]:
    """Names between backquotes as links where they have an entry, all else as code."""
    sweep = vars(fleetcube.Sweep).keys() | vars(fleetcube.Sweep.__base__).keys()

    def role(match: re.Match[str]) -> str:
        name = match[1]
        if (
            name.removeprefix("Sweep.") in sweep
            or name.removeprefix("fleetcube.") in fleetcube.__all__
        ):
            own = name in sweep
            return f":py:obj:`{name} <fleetcube.Sweep.{name}>`" if own else f":py:obj:`{name}`"
        if name in PHYSICS.quantities or name in inputs.INPUTS:
            return f":name:`{name}`"
        return f"``{name}``"

    return [_CODE.sub(role, line) for line in lines]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _escaped(text: str) -> str:
    """Text in which nothing is read as reStructuredText."""
    return re.sub(r"([\\*`|_<>])", r"\\\1", text)
