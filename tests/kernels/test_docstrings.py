"""Docstrings are data: names, units and sources in them agree with the code."""

import doctest
import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fleetcube import kernels
from fleetcube.catalog.units import UnitError, factor
from fleetcube.kernels import laws
from fleetcube.kernels.alternatives import is_row, is_twin
from fleetcube.kernels.graph import formulas as graph
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from ..table import each

Function = Callable[..., Any]

LAWS = {
    f"{module.name}.{name}": function
    for module in pkgutil.iter_modules(laws.__path__)
    for name, function in inspect.getmembers(
        importlib.import_module(f"{laws.__name__}.{module.name}"), inspect.isfunction
    )
    if function.__module__ == f"{laws.__name__}.{module.name}" and not name.startswith("_")
}
GRAPH = PHYSICS.quantities
FORMULAS = {
    function.__name__: function
    for quantity in GRAPH.values()
    for function in quantity.formulas.values()
}
DOCUMENTED = [
    *(pytest.param(function, id=name) for name, function in LAWS.items()),
    *(pytest.param(function, id=name) for name, function in FORMULAS.items()),
]
MODULES = [module.name for module in pkgutil.walk_packages(kernels.__path__, "fleetcube.kernels.")]


def check_unit(unit: str) -> None:
    """Values can be written in the unit, and are stored as written (SI base)."""
    if unit in ("1", "flag"):  # a plain number, a code with named values
        return
    try:
        scale = factor(unit, unit)
    except UnitError:
        scale = math.nan
    assert scale == 1.0, f"catalog/units.txt does not define {unit!r}; add what is missing"


@each("function", LAWS.values(), ids=list(LAWS))
def test_docstring_names_the_parameters_of_the_signature(function: Function) -> None:
    listed, taken = read(function).parameters, inspect.signature(function).parameters
    assert tuple(listed) == tuple(taken), "Parameters: lists each of them, as in `n [1]: workers`"


@each("function", DOCUMENTED)
def test_docstring_is_complete(function: Function) -> None:
    doc = read(function)
    assert doc.summary.endswith(".")
    assert doc.maths, "the formula is missing between the summary and Parameters:"
    assert doc.returns, "Returns: [unit] lacks what it counts: GPUs, of a step"
    assert len(doc.source) > 10, "Source: names a work, or says by definition"


@each("function", DOCUMENTED)
def test_every_unit_parses(function: Function) -> None:
    doc = read(function)
    for unit in doc.parameters.values():
        check_unit(unit)
    if doc.unit == "flag":
        assert list(doc.flags) == sorted(doc.flags)
    else:
        check_unit(doc.unit)


@each("function", FORMULAS.values(), ids=list(FORMULAS))
def test_a_docstring_says_nothing_that_the_graph_knows(function: Function) -> None:
    own = said(function)
    assert "Parameters" not in own, "units stand where quantities and inputs are declared"
    stated = getattr(function, "__stated__", None)
    if stated and not is_twin(function) and not is_row(function):
        both = own.keys() & said(stated).keys() & {"Returns", "Flags", "Source"}
        assert not [name for name in both if own[name] == said(stated)[name]], "leave it out"


def said(function: Function) -> dict[str, str]:
    found = re.findall(
        r"^(\w+):((?:.*\n?)(?: .*\n?)*)", inspect.getdoc(function) or "", re.MULTILINE
    )
    return {name: " ".join(text.split()) for name, text in found}


@each("quantity", GRAPH.values(), ids=GRAPH)
def test_alternatives_share_one_unit(quantity: graph.Quantity) -> None:
    assert len({read(function).unit for function in quantity.formulas.values()}) == 1


@each("quantity", GRAPH.values(), ids=GRAPH)
def test_every_choice_of_an_option_has_a_formula(quantity: graph.Quantity) -> None:
    choices = INPUTS[quantity.option].choices if quantity.option else (None,)
    assert set(quantity.formulas) == set(choices)


@each("name", INPUTS)
def test_every_input_is_used(name: str) -> None:
    read_by_formulas = {p for function in FORMULAS.values() for p in graph.parameters(function)}
    chosen = {quantity.option for quantity in GRAPH.values()}
    used = chosen if INPUTS[name].kind == "option" else read_by_formulas
    assert name in used, "no formula needs it"


@each("row", INPUTS.values(), ids=INPUTS)
def test_inputs_are_stated_in_base_units_within_bounds(row: Any) -> None:
    assert row.description
    check_unit(row.unit)
    if row.kind == "option":
        assert row.default in row.choices
    elif row.default is not None:
        assert row.low <= row.default <= row.high


def test_a_docstring_without_a_source_is_refused() -> None:
    def law(x: float) -> float:
        """A law.

        Parameters: x [1]
        Returns: [1] x
        """
        return x

    with pytest.raises(ValueError, match="law has no section 'Source'"):
        read(law)


def test_a_result_without_a_unit_is_refused() -> None:
    def law(x: float) -> float:
        """A law.

        Parameters: x [1]
        Returns: x
        Source: none
        """
        return x

    with pytest.raises(ValueError, match="law states no unit of its result"):
        read(law)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_most_laws_show_an_example() -> None:
    # Sources print worked examples for most laws, not for all.
    shown = [name for name, function in LAWS.items() if read(function).example]
    assert len(shown) > 0.7 * len(LAWS)


def test_what_stands_behind_the_colon_of_a_summary_is_not_inherited() -> None:
    """It belongs to one formula: masked blocks are skipped by one kernel, and not by the other."""
    flash, standard = (
        read(PHYSICS.quantities["kernel_attention_span"].formulas[kernel])
        for kernel in ("flash", "standard")
    )
    assert flash.summary == f"{standard.summary.rstrip('.')}: masked blocks are skipped."
    for quantity in PHYSICS.quantities.values():
        for formula in quantity.formulas.values():
            if hasattr(formula, "__stated__") and not graph.docstring(formula).startswith(
                read(formula).summary
            ):
                assert ": " not in read(formula).summary


def test_a_row_says_its_value_beside_why() -> None:
    capacity = PHYSICS.quantities["elastic_capacity"].formulas[False]
    assert read(capacity).maths == "1: the job waits until it is whole again"
    for quantity in PHYSICS.quantities.values():
        for formula in quantity.formulas.values():
            if is_row(formula) and not graph.parameters(formula):
                value, _, why = read(formula).maths.partition(": ")
                assert value == f"{formula():g}"
                assert not why.startswith(value)


def test_what_was_read_before_the_graph_is_read_again() -> None:
    """Such a formula has every section, and would keep its maths as a summary."""
    formula: Any = PHYSICS.quantities["cluster_mtbf"].formulas["empirical"]
    found = read(formula)
    del formula.__stated__
    read.cache_clear()
    assert read(formula).summary != found.summary
    assert (
        replace(PHYSICS, modules=(*PHYSICS.modules, "fleetcube.kernels.physics")).quantities
        == PHYSICS.quantities
    )
    assert read(formula) == found
