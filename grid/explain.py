"""Say what a name means: formula, unit, source, what it needs and what it feeds."""

import inspect
from typing import Any

from ..catalog import KINDS, kind
from ..kernels.docstrings import read
from ..kernels.graph import Function, load, parameters
from ..kernels.inputs import INPUTS, Input
from .errors import InputError, nearest


def explain(name: str) -> str:
    """Text about an input or quantity: what it is, its formula, unit and source, its neighbours.

    Raises InputError for an unknown name, with the nearest known one.
    """
    if not isinstance(name, str):
        raise InputError(f"{name!r} is not a name; write it as text")
    if name in KINDS:
        labels = ", ".join(kind(name))
        sets = ", ".join(KINDS[name])
        return f"{name}: a catalog kind\n\nlabels: {labels}\nsays:   {sets}"
    if name in INPUTS:
        return _explain_input(INPUTS[name])
    if name not in load():
        raise InputError(f"{name!r} is neither an input nor a quantity; {_near(name)}")
    quantity = load()[name]
    choices: dict[Function, list[Any]] = {}
    for choice, formula in quantity.formulas.items():
        choices.setdefault(formula, []).append(choice)
    doc = quantity.doc
    unit = "flag" if doc.flags else _unit(doc.unit)
    lines = [f"{name} [{unit}]"]
    for formula, values in choices.items():
        said = read(formula)
        lines.append("")
        if quantity.option:
            chosen = " or ".join(_written(value) for value in values)
            default = " (default)" if INPUTS[quantity.option].default in values else ""
            lines.append(f"where {quantity.option} = {chosen}{default}")
        lines.append(said.summary)
        lines.append("")
        lines += [f"    {line}" for line in said.maths.splitlines() if line.strip()]
        lines.append("")
        if said.flags:
            lines.append("flags:   " + ", ".join(f"{k} {v}" for k, v in said.flags.items()))
        needs = ", ".join(f"{p} [{_unit(u)}]" for p, u in said.parameters.items()) or "nothing"
        lines.append(f"needs:   {needs}")
        lines.append(f"source:  {said.source}")
        file = inspect.getsourcefile(formula) or ""
        lines.append(f"code:    {'/'.join(file.split('/')[-3:])}, {formula.__name__}")
    lines += ["", f"feeds:   {', '.join(feeds(name)) or 'nothing: it is a result'}"]
    return "\n".join(lines)


def feeds(name: str) -> list[str]:
    """Quantities whose formula, or choice of formula, uses a name."""
    return [
        quantity.name
        for quantity in load().values()
        if quantity.option == name
        or any(name in parameters(formula) for formula in quantity.formulas.values())
    ]


def names() -> list[tuple[str, str, str, str]]:
    """Every name with its kind, unit and meaning: quantities, then inputs."""
    rows = [(q.name, "quantity", _unit(q.unit), q.doc.summary) for q in load().values()]
    rows += [(i.name, "input", _unit(i.unit), i.description) for i in INPUTS.values()]
    return rows


def _explain_input(row: Input) -> str:
    lines = [
        f"{row.name} [{_unit(row.unit)}]",
        "",
        f"{row.description[0].upper()}{row.description[1:]}.",
        "",
    ]
    if row.kind == "option":
        lines.append(f"choices: {', '.join(map(_written, row.choices))}")
    if row.default is None:
        lines.append("default: none; give it, or a label that sets it")
    else:
        lines.append(f"default: {_written(row.default)}{'' if row.unit == '1' else ' ' + row.unit}")
    if row.kind != "option":
        low = "above 0" if row.positive and row.low == 0 else f"at least {row.low:g}"
        high = f", at most {row.high:g}" if row.high < float("inf") else ""
        whole = "; whole in reality, continuous in the formulas" if row.kind == "count" else ""
        lines.append(f"bounds:  {low}{high}{', may be infinite' * row.may_be_infinite}{whole}")
    lines += ["", f"feeds:   {', '.join(feeds(row.name))}"]
    return "\n".join(lines)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, int | float) else str(value)


def _unit(unit: str) -> str:
    return "-" if unit == "1" else unit


def _near(name: str) -> str:
    return nearest(name, [*INPUTS, *load()])
