"""An account of a quantity as text, as a page, as JSON, and as an Excel sheet that computes it."""

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from fleetcube.analysis.account_tree import Account, Row, carrying
from fleetcube.analysis.spreadsheet import cell, finite, number, value
from fleetcube.grid.errors import InputError, imported
from fleetcube.grid.store.places.durable import write_file
from fleetcube.kernels.graph.roles import REASON
from fleetcube.tables.tables import check_new, scale

from .page.page import css

DEPTH = 3  # of the formulas in a terminal
_FEW = 6  # operands of a longer formula, shown with their values
_FOLDED = 0.005  # elasticity below which an operand is not followed further in a terminal
_BY_HAND = (
    "By hand, without windows of attention and states of linear ones; mfu and goodput are the "
    "account's:"
)
_SLOPE = "elasticity at the values as written"
_HEADS = {
    "Inputs": ["name", "value", "unit", "comes from", "meaning", "note", _SLOPE],
    "Formulas": ["name", "value", "unit", "formula", "meaning", "source", _SLOPE],
    "Steps": ["step", "value", "formula"],
}
_ABOUT = (
    "Change coloured cells of sheet Inputs, in base units; formulas follow. Options are fixed, and "
    "so is what a calibration or a label chose. 1E+100 stands for infinite."
)
# of an input in a sheet
_TIED = "changes more than its value, such as the calibration: change it in the spec"
_CELL = re.compile(r"[A-Za-z]{1,3}\d+|[RCrc]\d*([Cc]\d*)?")  # what Excel takes for a cell


def text(account: Account, depth: int = DEPTH) -> str:
    """The account for a terminal: why it cannot run, formulas down to a depth, each name once,
    then what carries it among the inputs, checks by hand, and the interval."""
    head = [account.cannot_run, ""] if account.cannot_run else []
    return "\n".join([*head, *_branch(account, account.name, depth), _summary(account)])


def _summary(account: Account) -> str:
    names = _inputs_of(account)
    wide = max(map(len, names), default=0)
    how = "elasticity, of counts between valid neighbours; value; where it comes from"
    lines = ["", f"The inputs that carry it ({how}):", ""]
    for name in names:
        row = account.rows[name]
        lines.append(f"  {name:<{wide}}  {row.weight:+.3f}  {_shown(row)}, {row.origin}")
    more = sum(bool(r.weight and not r.expression) for r in account.rows.values()) - len(names)
    lines += [f"  and {more} more"] if more else []
    lines += ["", _BY_HAND, ""] if account.checks else []
    for name, formula in account.checks.items():
        result = value(_parsed(formula), _values(account))
        row = account.rows[name]
        lines += [f"  {name} = {formula}", f"    = {_with_values(account, _parsed(formula))}"]
        off = result / row.value - 1 if row.value else math.nan
        lines.append(f"    = {result:.6g} {row.unit}; the account has {row.value:.6g} ({off:+.1%})")
    lines += _options(account)
    return "\n".join([*lines, "", interval_line(account)])


def _options(account: Account) -> list[str]:
    """The options that are no defaults, by name."""
    rows = account.options.items()
    chosen = [f"{n} = {choice} ({why})" for n, (choice, why) in rows if why != "default"]
    usual = len(account.options) - len(chosen)
    chosen += [f"{'and ' * bool(chosen)}{usual} at their defaults"] if usual else []
    return ["", f"Options: {'; '.join(chosen)}."] if chosen else []


def interval_line(account: Account) -> str:
    """Where the interval of a quantity comes from."""
    row, sources = account.rows[account.name], _sources(account)
    if account.interval is None:
        why = "no predicted time and no distribution moves it"
        return f"No interval: {f'{sources} does not move it' if sources else why}."
    low, high = (_shown(row, end) for end in account.interval)
    return f"90 % interval: {low} to {high}, from {sources or 'the bounds of its formula'}."


def _sources(account: Account) -> str:
    return ", ".join(f"{name} ({origin})" for name, origin in account.uncertain.items())


def _branch(account: Account, name: str, depth: int) -> Iterator[str]:
    """A formula with its values, then those of its operands, indented."""
    shown_names: set[str] = set()

    def lines(name: str, indent: str, left: int) -> Iterator[str]:
        row = account.rows[name]
        if row.expression is None:
            yield f"{indent}{name} = {_shown(row)}  [{row.origin}]"
            return
        yield f"{indent}{name} = {_shown(row)}{'  (above)' * (name in shown_names)}"
        if name in shown_names or left == 0:
            return
        shown_names.add(name)
        short = row.expression.is_short
        for part in filter(str.strip, (row.expression.text if short else row.maths).splitlines()):
            yield f"{indent}  : {part.strip()}"
        if short and row.operands:
            yield f"{indent}  = {_with_values(account, row.expression.result)}"
        elif row.operands and len(row.operands) <= _FEW:
            values = (f"{n} = {_shown(account.rows[n])}" for n in row.operands)
            yield f"{indent}  with {', '.join(values)}"
        shown = row.carrying
        for operand in shown:
            below = left - 1 if abs(account.rows[operand].weight) >= _FOLDED else 0
            yield from lines(operand, indent + "    ", below)
        if rest := len(row.operands or ()) - len(shown):
            yield f"{indent}    and {rest} more"

    return lines(name, "", depth)


def _with_values(account: Account, tree: ast.expr) -> str:
    """A formula with the values of its names, in base units."""
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} & account.rows.keys()
    numbers = {name: f"{account.rows[name].value:.6g}" for name in names}
    return re.sub(r"\w+", lambda word: numbers.get(word[0], word[0]), ast.unparse(tree))


def _inputs_of(account: Account) -> list[str]:
    """The inputs that together carry most of the value."""
    rows = account.rows.values()
    return carrying({r.name: r.weight for r in rows if not r.expression and r.weight})


def _shown(row: Row, number: float | None = None) -> str:
    number = row.value if number is None else number
    factor, unit = scale(row.unit, number, row.name) if row.unit != "flag" else (1.0, "")
    return f"{number / factor:,.6g} {unit}".strip()


def _values(account: Account) -> dict[str, float]:
    return {name: row.value for name, row in account.rows.items()}


def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def as_json(account: Account) -> str:
    """Everything: formulas over names, to be evaluated step by step, and their operands' values.
    Numbers that JSON lacks are text: inf, nan."""
    rows = {}
    for name, row in account.rows.items():
        facts: dict[str, Any] = {"value": _plain(row.value), "unit": row.unit}
        facts |= {"meaning": row.meaning, "from": row.origin, "elasticity": row.weight}
        if row.expression:
            facts |= {"formula": row.expression.text, "steps": row.expression.texts}
            facts |= {"written": row.maths, "operands": row.operands, "carrying": row.carrying}
        rows[name] = facts
    whole = {
        "quantity": account.name,
        "value": _plain(account.rows[account.name].value),
        "cannot_run": account.cannot_run,
        "interval": account.interval,
        "interval_from": interval_line(account),
        "inputs_carrying": _inputs_of(account),
        "checks": account.checks,
        "options": {n: {"choice": c, "from": why} for n, (c, why) in account.options.items()},
        "rows": rows,
    }
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def _plain(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)


def as_html(account: Account) -> str:
    """A page without scripts: each formula opens to its operands, those that carry it first."""
    shown_names: set[str] = set()

    def opened(name: str, depth: int) -> str:
        row = account.rows[name]
        head = f"<b>{escape(name)}</b> = {escape(_shown(row))}"
        about = f"<small>{escape(row.meaning)} [{escape(row.origin)}]</small>"
        if row.expression is None:
            return f"<p>{head} {about}</p>"
        if name in shown_names:
            return f'<p><a href="#{escape(name)}">{head}</a></p>'
        shown_names.add(name)
        steps = [f"{n} = {t}" for n, t in row.expression.texts.items()]
        body = "\n".join([row.maths, "", *steps, row.expression.text, "="])
        body += f" {_with_values(account, row.expression.result)}"
        first = row.carrying
        rest = [n for n in row.operands or () if n not in first]
        inner = "".join(opened(n, depth + 1) for n in first)
        if rest:
            inner += f"<details><summary>and {len(rest)} more</summary>"
            inner += "".join(opened(n, 9) for n in rest) + "</details>"
        state = " open" if depth < DEPTH - 1 else ""
        return (
            f'<details id="{escape(name)}"{state}><summary>{head} {about}</summary>'
            f"<pre>{escape(body)}</pre>{inner}</details>"
        )

    title = escape(f"{account.name} = {_shown(account.rows[account.name])}")
    style = f"{css()}details{{margin-left:1.2em}}pre{{white-space:pre-wrap}}"
    tree = opened(account.name, 0)
    why = f"<p><b>{escape(account.cannot_run)}</b></p>" if account.cannot_run else ""
    after = escape(_summary(account))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{style}</style><main><h1>{title}</h1>{why}<pre>{after}</pre>{tree}</main></html>\n"
    )


def as_workbook(account: Account) -> bytes:
    """An Excel file whose cells compute the quantity from cells of inputs, all in base units."""
    data = BytesIO()
    book = imported("xlsxwriter").Workbook(data, {"in_memory": True})
    sheets = {name: book.add_worksheet(name) for name in ("Account", *_HEADS, "Reasons")}
    coloured = book.add_format({"bg_color": "#fff6d5"})
    for sheet, words in _HEADS.items():
        _texts(sheets[sheet], 0, words)
    places: dict[str, str] = {}
    lines = dict.fromkeys(_HEADS, 1)
    for name, row in account.rows.items():
        title = "Formulas" if row.expression else "Inputs"
        sheet, line = sheets[title], lines[title]
        lines[title] += 1
        note = _TIED * (name in account.tied)
        more = (row.expression.text, row.origin) if row.expression else (row.origin, note)
        _texts(sheet, line, [name, "", row.unit, more[0], row.meaning, more[1]])
        sheet.write_number(line, 6, row.weight)
        if row.expression:
            _write_formula(sheets, lines, row, places, account)
        else:
            sheet.write_number(line, 1, finite(row.value), None if note else coloured)
        places[name] = f"{title}!$B${line + 1}"
        if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and not _CELL.fullmatch(name):
            book.define_name(name, f"={places[name]}")
            places[name] = name
    _front(sheets["Account"], account, places)
    _judge(sheets, account, places)
    for sheet in sheets.values():
        sheet.set_column(0, 1, 26)
        sheet.set_column(2, 6, 18)
    book.close()
    return data.getvalue()


def _write_formula(
    sheets: Mapping[str, Any],
    lines: dict[str, int],
    row: Row,
    places: Mapping[str, str],
    account: Account,
) -> None:
    """Write the steps of a formula, each below the last, then its cell."""
    assert row.expression
    values = row.expression.values({n: account.rows[n].value for n in row.operands or ()})
    inside = dict(places)
    for step, tree in row.expression.steps.items():
        line = lines["Steps"]
        lines["Steps"] += 1
        inside[step] = f"Steps!$B${line + 1}"
        _texts(sheets["Steps"], line, [f"{row.name}.{step}", "", ast.unparse(tree)])
        _compute(sheets["Steps"], line, cell(tree, inside, values), values[step])
    written = cell(row.expression.result, inside, values)
    _compute(sheets["Formulas"], lines["Formulas"] - 1, written, row.value)


def _front(sheet: Any, account: Account, places: Mapping[str, str]) -> None:
    """The answer, whether it can run, its interval, checks by hand, and the options that fix the
    formulas. What the formulas give is computed, so it follows a changed input."""
    row, values = account.rows[account.name], _values(account)
    _texts(sheet, 0, [account.name, "", row.unit, row.meaning])
    _compute(sheet, 0, places[account.name], row.value)
    factor, unit = scale(row.unit, row.value, row.name) if row.unit != "flag" else (1.0, "")
    _texts(sheet, 1, ["", "", unit])
    _compute(sheet, 1, f"B1/{factor!r}", row.value / factor)
    _texts(sheet, 3, [_ABOUT])
    sources = _sources(account) or "the bounds of its formula"
    ends = account.interval if account.interval and row.value else ()
    for line, end in enumerate(ends, 4):
        factor = end / row.value
        about = f"90 % interval: {factor:.4g} times the value, from {sources}"
        _texts(sheet, line, [f"{row.name}_{('low', 'high')[line - 4]}", "", row.unit, about])
        _compute(sheet, line, f"{places[row.name]}*{factor!r}", end)
    _texts(sheet, 4, [] if ends else [interval_line(account)])
    line = 6
    for name, formula in account.checks.items():
        tree = _parsed(formula)
        _texts(sheet, line, [f"{name} by hand", "", account.rows[name].unit, formula])
        _compute(sheet, line, cell(tree, places, values), value(tree, values))
        line += 1
    for name, (choice, why) in account.options.items():
        _texts(sheet, line, [name, choice, "", why])
        line += 1


def _judge(sheets: Mapping[str, Any], account: Account, places: Mapping[str, str]) -> None:
    """A cell that says whether the inputs of the sheets can run."""
    for code, word in account.reasons.items():
        _texts(sheets["Reasons"], code, [f"cannot run: {word}" if code else word])
    if account.reasons:  # Calc's CHOOSE takes 30 words at most
        formula = f"=INDEX(Reasons!$A$1:$A${1 + max(account.reasons)},{places[REASON]}+1)"
        stored = account.cannot_run.partition(" (")[0] or account.reasons[0]
        sheets["Account"].write_formula(2, 1, formula, None, stored)
        note = f"as the spec is: {account.cannot_run}" if account.cannot_run else ""
        _texts(sheets["Account"], 2, ["can it run", "", note])


def _texts(sheet: Any, row: int, words: list[str]) -> None:
    """Words as text alone: none is taken for a formula or an address."""
    for column, word in enumerate(words):
        if word:
            sheet.write_string(row, column, word)


def _compute(sheet: Any, row: int, formula: str, result: float) -> None:
    stored = result if math.isfinite(result) else "#N/A" if result != result else number(result)
    sheet.write_formula(row, 1, f"={formula}", None, stored)


def write(account: Account, path: str) -> None:
    """Write an account as its file's ending says. Raises InputError."""
    writers = {".html": as_html, ".json": as_json, ".xlsx": as_workbook}
    target = Path(path)
    if target.suffix.lower() not in writers:
        raise InputError(f"{path!r} is no file of an account; name .html, .json or .xlsx")
    check_new(target)
    content = writers[target.suffix.lower()](account)
    data = content.encode() if isinstance(content, str) else content
    try:
        write_file(target.absolute().parent, target.name, data)
    except OSError as error:
        raise InputError(f"cannot write {path!r} ({error.strerror}); choose another") from None
