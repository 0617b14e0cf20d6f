"""Static HTML of a page, shown before or without its script: tables and pictures of the spec."""

import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fleetcube.analysis.assumptions import lines, source_of
from fleetcube.analysis.interval import interval
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import MEMORY
from fleetcube.presentation.pictures.picture import words
from fleetcube.tables.tables import label, numbers

_ONE = Settings("numpy", threads=1)


def parts(
    scenario: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    data: Mapping[str, Any],
    drawn: bool,
) -> dict[str, str]:
    """The initial content of each section, as HTML. `scenario` is the spec's, `rows` the scenario
    of each choice, `data` the script's input; no interval is shown if inputs are `drawn` from
    distributions."""
    outputs = data["outputs"]
    names = [output["name"] for output in outputs]
    visible = [k for k, output in enumerate(outputs) if not output["hidden"]]
    values = []
    for row in rows:
        evaluated = Evaluation(row, {}, names).evaluate(settings=Settings("numpy"))
        values.append([evaluated[name].item() for name in names])
    reason = names.index(REASON) if REASON in names else None
    bad = [0.0 if reason is None else point[reason] for point in values]
    why = [_word(outputs[reason], code) if reason is not None and code else "" for code in bad]
    shown = [
        [_cell(outputs[k], point[k], bad) for k in visible]
        for point, bad in zip(values, why, strict=True)
    ]
    numeric = [k for k in visible if "words" not in outputs[k]]
    given = [word for _, word in data["given"]]
    ends = {} if drawn or not numeric else _ends(rows[0], [names[k] for k in numeric])
    goal = names[data["goal"]]
    heading, *assumed = lines(rows[0], [goal, *(n for n in MEMORY[:1] if n in names)]) or [""]
    short = ", ".join(line.partition(" (")[0].partition(":")[0].strip() for line in assumed)
    return {
        "heading": html.escape(f"A{heading[1:]}".rstrip(":")),
        "short": html.escape(_plainly(short)),
        "assumed": "".join(map(_assumed, assumed)),
        "sentence": _sentence(data, dict(zip(visible, shown[0], strict=True)), ends),
        "status": html.escape(f"Cannot run: {why[0]}" if why[0] else ""),
        "layout": html.escape(data["choices"][0]),
        "answers": _answers(outputs, visible, shown[0], ends),
        "shares": _shares(data, values[0], why[0]),
        "choices": _choices(data["choices"], outputs, visible, shown, why),
        "stated": _stated(scenario, data),
        "command": html.escape(
            " ".join(filter(None, [data["command"], data["commands"][0], *given]))
        ),
    }


def _assumed(line: str) -> str:
    """A line on an input that nobody stated, with the source of its other values."""
    source = f" <small>Source: {html.escape(text)}</small>" if (text := source_of(line)) else ""
    return f"<li>{html.escape(_plainly(line.strip()))}{source}</li>"


def _cell(row: Mapping[str, Any], value: float, why: str) -> str:
    if why and row["masked"]:
        return "—"
    return _word(row, value) if "words" in row else _number(value, row["factor"], row["unit"])


def _word(output: Mapping[str, Any], code: float) -> str:
    return str(output["words"].get(int(code), "undefined")).replace("_", " ")


def _number(value: float, factor: float, unit: str) -> str:
    if math.isnan(value):
        return "—"
    text = "∞" if math.isinf(value) else numbers([value / factor])[0]
    return f"{text} {unit}".rstrip()


def _ends(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, tuple[float, float]]:
    intervals = interval(Evaluation(row, {}, names), None, _ONE)
    bounded = [name for name in names if f"{name}_low" in intervals]
    return {n: (intervals[f"{n}_low"].item(), intervals[f"{n}_high"].item()) for n in bounded}


def _answers(
    outputs: Sequence[Mapping[str, Any]],
    visible: Sequence[int],
    cells: Sequence[str],
    ends: Mapping[str, tuple[float, float]],
) -> str:
    return "".join(
        f'<div title="{html.escape(output["about"])}"><dt>{html.escape(output["title"])}</dt>'
        f'<dd data-name="{output["name"]}">{html.escape(cell)}</dd>'
        f'<dd class="ends">{_span(output, cell, ends)}</dd></div>'
        for output, cell in zip((outputs[k] for k in visible), cells, strict=True)
    )


def _span(output: Mapping[str, Any], cell: str, ends: Mapping[str, tuple[float, float]]) -> str:
    low, high = ends.get(output["name"], (math.nan, math.nan))
    if not low < high or cell == "—":
        return ""
    texts = [_number(end, output["factor"], "") for end in (low, high)]
    return " to ".join(texts) if texts[0] != texts[1] else ""


def _sentence(
    data: Mapping[str, Any], cells: Mapping[int, str], ends: Mapping[str, tuple[float, float]]
) -> str:
    """The first numbers with their intervals."""
    parts = []
    for k in data["sentence"]:
        span = _span(data["outputs"][k], cells[k], ends)
        parts.append(f"{data['outputs'][k]['title']} {cells[k]}" + f" ({span})" * bool(span))
    return html.escape("; ".join(parts))


def _plainly(text: str) -> str:
    """Names of inputs and outputs in words."""
    return re.sub(r"[a-z0-9]+(_[a-z0-9]+)+", lambda name: words(name[0]), text)


def _shares(data: Mapping[str, Any], values: Sequence[float], why: str) -> str:
    """The losses in words; the script draws their bar."""
    titles = [data["outputs"][k]["title"].replace(" overhead", "") for k in data["losses"]]
    shares = [values[k] for k in data["losses"]] if not why else []
    rows = [
        *zip(titles, shares, range(7), strict=False),
        ("model operations at peak", 1 - sum(shares), 7),
    ]
    keys = "".join(
        f'<span><i class="c{k}"></i>{title} {100 * share:.3g} %</span>'
        for title, share, k in rows
        if share > 0.0005 and shares
    )
    return f'<svg id="bar" role="img" aria-label=""></svg><p id="shares">{keys}</p>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>" for row in rows
    )
    return f"<thead><tr>{cells}</tr></thead><tbody>{body}</tbody>"


def _choices(
    names: Sequence[str],
    outputs: Sequence[Mapping[str, Any]],
    visible: Sequence[int],
    shown: Sequence[Sequence[str]],
    why: Sequence[str],
) -> str:
    if len(names) < 2:
        return ""
    head = ["choice", *(outputs[k]["title"] for k in visible), *(["why not"] if any(why) else [])]
    rows = [
        [name, *cells, *([bad] if any(why) else [])]
        for name, cells, bad in zip(names, shown, why, strict=True)
    ]
    return _table(head, rows)


def _stated(scenario: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    inputs = zip(data["inputs"], data["bases"][0], strict=True)
    inputs_by_name = {entry["name"]: (entry, value) for entry, value in inputs if "title" in entry}
    rows = []
    for name, value in scenario.items():
        if isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value):
            for entry in value:  # phases
                parts = [
                    f"{words(key)} {_text(part)}" for key, part in entry.items() if key != "name"
                ]
                rows.append([f"{name} {entry.get('name', '')}".rstrip(), ", ".join(parts)])
        elif name in inputs_by_name and not isinstance(value, Mapping):
            about, base = inputs_by_name[name]
            rows.append([words(name), _number(base, about["factor"], about["unit"])])
        else:
            rows.append([words(name), _text(value)])
    return _table(["input", "value"], rows)


def _text(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    plain = isinstance(value, str | float | bool)
    return label(value) if plain else json.dumps(value, default=str)
