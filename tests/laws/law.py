"""The laws: every formula that needs an independent check, recognised by its code.

No check is needed by a formula without content of its own:

- it is 0 or 1, an option that is off, or a constant by definition;
- it passes on one name: `return 1.0 * x`;
- it is one law, called with the formula's own names: that law's check covers it;
- its source is a definition or the scenario, and it is a sum of names, or one product or quotient
  of two.

All other formulas are laws.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleetcube import kernels
from fleetcube.kernels import laws, physics
from fleetcube.kernels.alternatives import is_row
from fleetcube.kernels.graph.docstrings import Doc, read
from fleetcube.kernels.graph.formulas import parameters
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.scenario.citations import SELF_EVIDENT

Function = Callable[..., Any]
MODULES = [
    importlib.import_module(f"{package.__name__}.{module.name}")
    for package in (kernels, laws)
    for module in pkgutil.iter_modules(package.__path__)
    if module.name not in ("ops", "physics", "reasons", "roles")  # test_derivatives covers the step
]
OF_KERNELS = [
    function
    for module in MODULES
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__
    and not name.startswith("_")
    and re.search(r"^Source:", inspect.getdoc(function) or "", re.MULTILINE)
]
OF_GRAPH = dict.fromkeys(
    f for quantity in PHYSICS.quantities.values() for f in quantity.formulas.values()
)


@dataclass(frozen=True)
class Law:
    """A formula of kernels/ and, where it needs no check, why not."""

    name: str
    topic: str
    doc: Doc
    why_none: str

    @property
    def formula(self) -> str:
        """The formula as the docstring states it, without explanations."""
        return " ".join(self.doc.maths.partition("\n\n")[0].split())


def why_none(function: Function) -> str:
    """Why a formula needs no check of its own; empty: it is a law."""
    if law := getattr(function, "__law__", None):
        return f"is `{law.__name__}`"
    if is_row(function):
        return "passed on" if parameters(function) else "a constant"
    made = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(made, ast.FunctionDef)
    defined = read(function).source.startswith(SELF_EVIDENT)
    match made.body[1:]:
        case [ast.Return(ast.Constant(value))] if defined or value in (0, 1):
            return "a constant"
        case [ast.Return(ast.Attribute(ast.Name("np"), "inf"))] if defined:
            return "a constant"
        case [ast.Return(ast.BinOp(ast.Constant(1.0), ast.Mult(), ast.Name()))]:
            return "passed on"
        case [ast.Return(ast.Call(ast.Name(called), arguments))] if all(
            isinstance(argument, ast.Name) for argument in arguments
        ):
            law = function.__globals__[called]
            return f"is `{law.__name__}`" if law in OF_KERNELS else ""
        case [ast.Return(value)] if defined and _adds_or_relates(value):
            return "a definition"
    return ""


def _adds_or_relates(value: ast.expr | None) -> bool:
    """Whether an expression is a sum of names, or one product or quotient of two."""
    match value:
        case ast.BinOp(left, ast.Add() | ast.Sub(), right):
            return all(isinstance(x, ast.Name) or _is_sum(x) for x in (left, right))
        case ast.BinOp(ast.Name() | ast.Constant(), ast.Mult() | ast.Div(), ast.Name()):
            return True
    return False


def _is_sum(value: ast.expr) -> bool:
    return isinstance(value, ast.BinOp) and (
        isinstance(value.op, ast.Add | ast.Sub) and _adds_or_relates(value)
    )


def _laws() -> dict[str, Law]:
    functions = [*OF_KERNELS, *OF_GRAPH]
    needing = Counter(function.__name__ for function in functions if not why_none(function))
    laws: dict[str, Law] = {}
    for function in functions:
        name, (*_, room, module) = function.__name__, function.__module__.split(".")
        topic = room if room in physics.TOPICS else module
        if needing[name] > 1 or name in laws:
            name = f"{module}.{name}"
        laws[name] = Law(name, topic, read(function), why_none(function))
    return laws


LAWS = _laws()
