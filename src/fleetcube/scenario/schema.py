"""A JSON Schema of specs, generated from the inputs, the quantities and the catalog.

Editors complete and check with it. It checks less than the program: units and labels only by their
form, and nothing that depends on two values.
"""

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fleetcube.catalog import AUTO, CONFIGURED, FROM_FILES, KINDS, NONE, kind
from fleetcube.catalog.units import spelling
from fleetcube.grid.spec import graphs
from fleetcube.grid.spec.axes import PHASE
from fleetcube.grid.spec.designs import DESIGNS
from fleetcube.grid.spec.distributions import KINDS as DISTRIBUTIONS
from fleetcube.grid.spec.values import is_option, is_whole, known_names, row_of, unit_of
from fleetcube.kernels.calculus import derivatives
from fleetcube.kernels.declare import Input
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import PHASED
from fleetcube.scenario import dates, phases, user_records
from fleetcube.scenario.patterns import ABOUT, NAME, RECOMPUTE_WORDS, RECOMPUTED

Schema = dict[str, Any]
# Draft 7: supported by TOML editors
DRAFT = "http://json-schema.org/draft-07/schema#"
_NUMBER = r"[+-]?(inf(inite)?|([0-9][0-9_,]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][+-]?[0-9]+)?)"
_DERIVED = rf"^({'|'.join(derivatives.KINDS)})_\w+_({'|'.join(derivatives.KINDS)})_\w+$"
_PART = r"[A-Za-z\u00b5\u03bc]+(\^[2-9])?"
_UNIT = rf"(1\s*/\s*)?{_PART}(\s*[*/]\s*{_PART})*(\^0\.5)?"


@functools.cache
def schema() -> Schema:
    names = _given()
    values = {name: _value(name) for name in names}
    # many inputs take the same values: each kind of value is spelled out once
    kinds: dict[str, str] = {}
    refs = {
        name: kinds.setdefault(json.dumps(value), f"value{len(kinds) + 1}")
        for name, value in values.items()
    }
    about = {name: {"description": _about(name), **_default(name)} for name in names}
    varied = {name: {**about[name], "allOf": [_ref(f"axis.{refs[name]}")]} for name in names}
    derived = {"type": "string", "pattern": _DERIVED}
    outputs = {"type": "array", "minItems": 1, "uniqueItems": True, "items": _ref("output")}
    axes = {
        "type": "object",
        "description": "what varies, each along a dimension of its own",
        "properties": {**varied, NAME: {**_LIST, "items": _PATTERN}, PHASE: _NAMES},
        "propertyNames": {"pattern": r"^[^\W0-9]\w*$"},
        "additionalProperties": _ref("together"),
    }
    stated: Schema = {name: _ref(refs[name]) for name in names}  # short: editors read it often
    stated |= {"name": {"type": "string", "minLength": 1}, NAME: _PATTERN}
    parts = {
        "outputs": {"description": "quantities to compute", **outputs},
        "scenario": _table(
            {name: {**about[name], **_scenario(name, refs[name])} for name in names}
            | {NAME: _PATTERN, dates.NAME: _DATE}
            | {m.NAME: {**_TEXTS, "description": m.ABOUT} for m in (user_records, graphs)}
        ),
        "axes": axes,
        PHASE: {**_LIST, "description": phases.ABOUT, "items": _table(stated, PHASED)},
    }
    return {
        "$schema": DRAFT,
        "title": "fleetcube spec",
        "description": "Outputs, a scenario and the axes along which it varies",
        **_table(parts),
        "definitions": {
            "output": {"anyOf": [{"enum": list(PHYSICS.quantities)}, derived]},
            **_SHARED,
            "together": _together(refs),
            **{refs[name]: value for name, value in values.items()},
            **{f"list.{refs[name]}": {**_LIST, "items": _ref(refs[name])} for name in names},
            **{f"axis.{refs[name]}": _axis(name, refs[name]) for name in names},
            **{f"range.{refs[name]}": _range(name, refs[name]) for name in names},
        },
    }


def _given() -> list[str]:
    """Names that a scenario may set: all but results that are codes."""
    return [
        name
        for name in known_names(PHYSICS)
        if name not in PHYSICS.quantities or PHYSICS.quantities[name].unit != "flag"
    ]


def _is_named(name: str) -> bool:
    return name in KINDS or is_option(PHYSICS, name)


def _ref(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def _table(properties: Mapping[str, Any], *required: str) -> Schema:
    table = {"type": "object", "additionalProperties": False, "properties": dict(properties)}
    return {**table, "required": list(required)} if required else table


_LIST: Schema = {"type": "array", "minItems": 1}
_PAIR: Schema = {"type": "array", "minItems": 2, "maxItems": 2}
_PATTERN: Schema = {"type": "string", "pattern": r"^[MG*E|-]+$", "description": ABOUT}
_DATE: Schema = {
    "type": "string",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "description": dates.ABOUT,
}
_TEXTS: Schema = {"anyOf": [{"type": "string"}, {**_LIST, "items": {"type": "string"}}]}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_NAMES: Schema = {
    "description": "phases of the scenario, told apart",
    "anyOf": [
        {**_LIST, "items": {"type": "string", "minLength": 1}},
        {"$ref": "#/definitions/together"},
    ],
}
_TEXT: Schema = {"type": "string"}
_ROUND: Schema = {"type": "boolean", "description": "round to whole numbers"}
_ENDS = [{"required": [space], "properties": {space: _PAIR}} for space in ("linspace", "geomspace")]
_SHARED: Schema = {
    "distribution": {
        "anyOf": [
            _table({law: _LIST if law == "empirical" else _PAIR}, law)
            for law in DISTRIBUTIONS
            if law != "events"
        ]
        + [_table({"events": {"type": "number", "minimum": 0}, "hours": _TEXT}, "events", "hours")]
    },
    "sample": _table({"empirical": _LIST}, "empirical"),
    # valid combinations of keys in a table that generates values
    "generator": {
        "oneOf": [
            {"required": ["values"]},
            *({**form, "required": [*form["required"], "num"]} for form in _ENDS),
            {
                "required": ["arange"],
                "properties": {"arange": {**_PAIR, "maxItems": 3}, "num": False},
            },
        ]
    },
    "ends": {"oneOf": _ENDS},
}


def _row(name: str) -> Input:
    """An input, or a given quantity."""
    return INPUTS.get(name) or replace(row_of(PHYSICS, name), unit=unit_of(PHYSICS, name))


def _about(name: str) -> str:
    if name in KINDS:
        return f"a {name} of the catalog"
    row = _row(name)
    about = row.description or PHYSICS.quantities[name].doc.summary.rstrip(".")
    if is_option(PHYSICS, name) or row.unit == "1":
        return about
    return f"{about} (a number in {row.unit}, or {spelling(row.unit)})"


def _default(name: str) -> Schema:
    default = None if name in KINDS else _row(name).default
    return {} if default in (None, math.inf) else {"default": default}


def _value(name: str) -> Schema:
    if name in KINDS:
        labels: list[Schema] = [{"enum": list(kind(name))}]
        labels.append({"type": "string", "pattern": "^[^@]+@[0-9]+$"})  # an earlier edition
        if name == "calibration":
            labels.append({"enum": [AUTO, NONE]})
        if name in FROM_FILES:
            labels.append({"type": "string", "pattern": r"\.toml$"})
        if name == CONFIGURED:
            labels += [{"type": "string", "pattern": r"\.json$|/|^\{"}, {"type": "object"}]
        return {"anyOf": labels}
    row = _row(name)
    if is_option(PHYSICS, name):
        choices: list[Schema] = [{"const": choice} for choice in row.choices]
        if name == RECOMPUTED:
            words = [f"({'|'.join(words)})" for words in RECOMPUTE_WORDS.values()]
            choices += [{"type": "string", "pattern": rf"^{w}(\+{w})*$"} for w in words]
        return {"anyOf": choices}
    return {"anyOf": [_bounds(row), {"type": "string", "pattern": _text(row.unit)}]}


def _bounds(row: Input) -> Schema:
    low: Schema = {"minimum": row.low}
    if row.positive and row.low <= 0:
        low = {"exclusiveMinimum": 0}
    return {"type": "number", **low, **({"maximum": row.high} if math.isfinite(row.high) else {})}


def _text(unit: str) -> str:
    """Pattern of a number with a unit."""
    if unit == "1":
        return rf"^\s*{_NUMBER}\s*(%|[kKMBT]?( *tokens?)?)\s*$"
    if unit.startswith("USD"):
        return rf"^\s*\$?\s*{_NUMBER}\s*([kKMBT](?![A-Za-z]))?\s*(/?\s*{_UNIT})?\s*$"
    policy = r"|[0-9][^ ]* (of|in) .+|median .+" if unit == "s" else ""
    return rf"^\s*([+-]?inf(inite)?|{_NUMBER}\s*{_UNIT}{policy})\s*$"


def _scenario(name: str, value: str) -> Schema:
    """A value, or a distribution of one."""
    if _is_named(name):
        return {"allOf": [_ref(value)]}
    whole = is_whole(PHYSICS, name)
    return {"anyOf": [_ref(value), _ref("sample" if whole else "distribution")]}


def _axis(name: str, value: str) -> Schema:
    """A list of values, or a table that generates them."""
    values = _ref(f"list.{value}")
    if _is_named(name):
        return {"anyOf": [values, _table({"values": values, "round": _ROUND}, "values")]}
    keys = dict.fromkeys(("values", "linspace", "geomspace", "arange"), values)
    table = _table({**keys, "num": _COUNT, "round": _ROUND})
    return {"anyOf": [values, {"allOf": [_ref("generator"), table]}]}


def _range(name: str, value: str) -> Schema:
    """The values to draw from."""
    values = _ref(f"list.{value}")
    if _is_named(name):
        return values
    table = _table({"linspace": values, "geomspace": values, "round": _ROUND})
    return {"anyOf": [values, {"allOf": [_ref("ends"), table]}]}


def _together(refs: Mapping[str, str]) -> Schema:
    """Inputs that vary together along a named axis, or are drawn together."""
    texts = {**_LIST, "items": {"type": "string", "minLength": 1}}
    moved = {"labels": texts, **{name: _ref(f"axis.{value}") for name, value in refs.items()}}
    drawn: Schema = {"design": {"enum": list(DESIGNS)}, "num": _COUNT}
    drawn["seed"] = {"type": "integer", "minimum": 0}
    drawn |= {name: _ref(f"range.{value}") for name, value in refs.items()}
    return {
        "if": {"type": "object", "required": ["design"]},
        "then": _table(drawn, "design", "num"),
        "else": {**_table(moved), "minProperties": 1},
    }
