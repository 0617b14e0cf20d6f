"""Static content of a page, shown before or without its script: tables and pictures of the spec."""

import html
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...kernels.calculus.phases import without_phase
from ...kernels.inputs import TOPIC_OF
from ...kernels.roles import LAYOUT_TOPICS, REASON, STEPS
from ..ask.interval import interval
from ..ask.sensitivity import among, check_levers, kind_of, rank_inputs
from ..errors import InputError
from ..plots.picture import words
from ..run.evaluation import Evaluation
from ..run.settings import Settings
from ..show.tables import label, numbers, scale
from ..spec import dates
from ..spec.axes import make_axis

_TOP = 12  # levers
_SPREAD = np.geomspace(1 / 8, 8, 25)  # around a number without an axis
_BAR = (
    '<svg id="bar" role="img" viewBox="0 0 640 26" preserveAspectRatio="none" aria-label="{}">{}'
    '</svg><p id="shares">{}</p>'
)
_CHART = '<svg id="chart" role="img" viewBox="0 0 640 320" aria-label="{}">{}</svg>'
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
    names = [of["name"] for of in outputs]
    seen = [k for k, of in enumerate(outputs) if not of["hidden"]]
    values = []
    for row in rows:
        found = Evaluation(row, {}, names).evaluate(settings=Settings("numpy"))
        values.append([found[name].item() for name in names])
    reason = names.index(REASON) if REASON in names else None
    bad = [0.0 if reason is None else own[reason] for own in values]
    why = [_word(outputs[reason], code) if reason is not None and code else "" for code in bad]
    shown = [
        [_cell(outputs[k], own[k], bad) for k in seen] for own, bad in zip(values, why, strict=True)
    ]
    numeric = [k for k in seen if "words" not in outputs[k]]
    ends = {} if drawn else _ends(rows[0], [names[k] for k in numeric])
    made = {
        "sentence": _sentence(
            data["choices"][0], outputs, dict(zip(seen, shown[0], strict=True)), ends
        ),
        "status": html.escape(f"cannot run: {why[0]}" if why[0] else "runs"),
        "answers": _answers(outputs, seen, shown[0], ends, values[0]),
        "shares": _shares(data, values[0], why[0]),
        "choices": _choices(data["choices"], outputs, seen, shown, why),
        "stated": _stated(scenario, data),
        "about": "".join(f"<li>{html.escape(line)}</li>" for line in data["about"]),
        "command": html.escape(
            " ".join(part for part in ("fleetcube run", data["file"], data["commands"][0]) if part)
        ),
        "chart": _CHART.format("", ""),
        "levers": "",
    }
    if numeric and not why[0]:
        of = outputs[numeric[0]]
        made["chart"] = _chart(rows[0], of, data["inputs"], data["axes"])
        made["levers"] = _levers(rows[0], of)
    return made


def _cell(of: Mapping[str, Any], value: float, why: str) -> str:
    if why and of["masked"]:
        return "—"
    return _word(of, value) if "words" in of else _number(value, of["factor"], of["unit"])


def _word(of: Mapping[str, Any], code: float) -> str:
    return str(of["words"].get(str(int(code)), "undefined")).replace("_", " ")


def _number(value: float, factor: float, unit: str) -> str:
    if math.isnan(value):
        return "—"
    told = "∞" if math.isinf(value) else numbers([value / factor])[0]
    return f"{told} {unit}".rstrip()


def _ends(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, tuple[float, float]]:
    found = interval(Evaluation(row, {}, names), None, _ONE)
    known = [name for name in names if f"{name}_low" in found]
    return {n: (found[f"{n}_low"].item(), found[f"{n}_high"].item()) for n in known}


def _answers(
    outputs: Sequence[Mapping[str, Any]],
    seen: Sequence[int],
    cells: Sequence[str],
    ends: Mapping[str, tuple[float, float]],
    seconds: Sequence[float],
) -> str:
    cards = []
    for k, cell in zip(seen, cells, strict=True):
        of = outputs[k]
        low, high = ends.get(of["name"], (math.nan, math.nan))
        told = _span(of, cell, ends)
        day = _day(of, seconds[k], low, high) if cell != "—" else ""
        cards.append(
            f'<div title="{html.escape(of["about"])}"><dt>{html.escape(of["title"])}</dt>'
            f'<dd data-name="{of["name"]}">{html.escape(cell)}</dd>'
            f'<dd class="ends">{told}</dd>{day}</div>'
        )
    return "".join(cards)


def _span(of: Mapping[str, Any], cell: str, ends: Mapping[str, tuple[float, float]]) -> str:
    low, high = ends.get(of["name"], (math.nan, math.nan))
    if not low < high or cell == "—":
        return ""
    return " to ".join(_number(end, of["factor"], "") for end in (low, high))


def _sentence(
    name: str,
    outputs: Sequence[Mapping[str, Any]],
    cells: Mapping[int, str],
    ends: Mapping[str, tuple[float, float]],
) -> str:
    """The choice, its first number and its cost, or its second, with their intervals."""
    told, numeric = [], [k for k in cells if "words" not in outputs[k]]
    costs = [k for k in numeric[1:] if "USD" in outputs[k]["unit"]]
    for k in [*numeric[:1], *(costs or numeric[1:])[:1]]:
        span = _span(outputs[k], cells[k], ends)
        told.append(f"{outputs[k]['title']} {cells[k]}{f' ({span})' if span else ''}")
    return html.escape(f"{name.removeprefix('layout=')}: " * bool(name) + ", ".join(told))


def _day(of: Mapping[str, Any], *seconds: float) -> str:
    """The job's end date, if it has a start date."""
    if "start" not in of:
        return ""
    start = dates.day(of["start"])
    until, low, high = (dates.end(start, each) for each in seconds)
    told = f", 90 %: {low} to {high}" if low < high else ""
    return f'<dd class="ends">ends on {until}{told}</dd>'


def _shares(data: Mapping[str, Any], values: Sequence[float], why: str) -> str:
    """The losses: a bar, and its parts in words."""
    if not data["losses"] or why:
        return _BAR.format("", "", "")
    told = [
        (data["outputs"][k]["title"].replace(" overhead", ""), values[k], f"c{j}")
        for j, k in enumerate(data["losses"])
    ]
    told.append(("model operations at peak", 1 - sum(share for _, share, _ in told), "c7"))
    bar, start, listed = [], 0.0, []
    for name, share, colour in told:
        bar.append(
            f'<rect class="{colour}" x="{640 * start:.2f}" y="0" width="{max(0, 640 * share):.2f}" '
            'height="26"/>'
        )
        start += share
        if share > 0.0005:
            listed.append((f"{name} {100 * share:.3g} %", colour))
    said = ", ".join(text for text, _ in listed)
    keys = "".join(f'<span><i class="{colour}"></i>{text}</span>' for text, colour in listed)
    return _BAR.format(said, "".join(bar), keys)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>" for row in rows
    )
    return f"<thead><tr>{cells}</tr></thead><tbody>{body}</tbody>"


def _choices(
    names: Sequence[str],
    outputs: Sequence[Mapping[str, Any]],
    seen: Sequence[int],
    shown: Sequence[Sequence[str]],
    why: Sequence[str],
) -> str:
    if len(names) < 2:
        return ""
    head = ["choice", *(outputs[k]["title"] for k in seen), *(["why not"] if any(why) else [])]
    rows = [
        [name, *cells, *([bad] if any(why) else [])]
        for name, cells, bad in zip(names, shown, why, strict=True)
    ]
    return _table(head, rows)


def _stated(scenario: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    inputs = zip(data["inputs"], data["bases"][0], strict=True)
    known = {own["name"]: (own, value) for own, value in inputs if "title" in own}
    rows = []
    for name, value in scenario.items():
        if isinstance(value, list) and all(isinstance(own, Mapping) for own in value):
            for own in value:  # phases
                parts = [
                    f"{words(key)} {_told(part)}" for key, part in own.items() if key != "name"
                ]
                rows.append([f"{name} {own.get('name', '')}".rstrip(), ", ".join(parts)])
        elif name in known and not isinstance(value, Mapping):
            about, base = known[name]
            rows.append([words(name), _number(base, about["factor"], about["unit"])])
        else:
            rows.append([words(name), _told(value)])
    return _table(["input", "value"], rows)


def _told(value: Any) -> str:
    plain = isinstance(value, str | int | float | bool)
    return label(value) if plain else json.dumps(value, default=str)


def _levers(row: Mapping[str, Any], of: Mapping[str, Any]) -> str:
    """The plan's inputs, apart from layout, that matter most to the first answer."""
    name = of["name"]
    sweep = Evaluation(row, {}, [name])
    plan = sweep._plan("numpy")
    try:
        chosen = [
            lever
            for lever in among(plan, check_levers(plan, name, None), None)
            if kind_of(lever) != "software" or TOPIC_OF[without_phase(lever)] not in LAYOUT_TOPICS
        ]
        found = rank_inputs(sweep, name, chosen, None)
    except InputError:  # nothing matters
        return ""
    rows = []
    for k in range(min(_TOP, found.sizes["input"])):
        own = found.isel(input=k)
        factor, unit = scale(str(own["units"].item()), [own["value"].item()], own["input"].item())
        cells = [words(own["input"].item()), own["topic"].item()]
        cells.append(_number(own["value"].item(), factor, unit))
        for side in ("below", "above"):
            at, value = own[f"value_{side}"].item(), own[f"{name}_{side}"].item()
            moved = _number(at, factor, unit)
            told = _number(value, of["factor"], of["unit"])
            cells.append("—" if at == own["value"].item() else f"{told} (at {moved})")
        rows.append(cells)
    said = f"{of['title']} when an input changes; whole numbers move to the nearest that divide"
    return f"<caption>{html.escape(said)}</caption>" + _table(
        ["input", "kind", "now", "smaller by 10 %", "larger by 10 %"], rows
    )


def _chart(
    row: Mapping[str, Any],
    of: Mapping[str, Any],
    inputs: Sequence[Mapping[str, Any]],
    axes: Sequence[str],
) -> str:
    """A curve of the first answer over the first input that has a range."""
    movable = {own["name"]: own for own in inputs if "title" in own}
    order = [*axes, *STEPS, *(n for n, own in movable.items() if own["stated"]), *movable]
    for name in (name for name in order if name in movable):
        own = movable[name]
        points = np.asarray(own.get("stops") or [], float)
        here = float(make_axis(name, [row[name]]).numbers[name][0]) if name in row else math.nan
        if not points.size and math.isfinite(here) and here > 0:
            points = here * (2.0 ** np.arange(-3, 4) if own["count"] else _SPREAD)
            points = points[(points >= own["low"]) & (points <= own["high"])]
        points = np.unique(points[points == points.round()] if own["count"] else points)
        if points.size < 2:
            continue
        sweep = Evaluation(row, {name: points.tolist()}, [of["name"]])
        values = sweep.evaluate(
            settings=Settings("numpy", infeasible="exclude" if of["masked"] else "include")
        )[of["name"]].values
        if np.isfinite(np.broadcast_to(values, points.shape)).sum() > 1:
            return _drawn(points, np.broadcast_to(values, points.shape), here, own, of)
    return _CHART.format("", "")


def _drawn(xs: Any, ys: Any, here: float, own: Mapping[str, Any], of: Mapping[str, Any]) -> str:
    known = np.isfinite(ys)
    low, high = ys[known].min(), ys[known].max()
    logs = [xs[0] > 0 and xs[-1] / xs[0] > 4, low > 0 and high / low > 8]
    ends = [(xs[0], xs[-1]), (low, high if high > low else low + abs(low) + 1)]

    def place(k: int, values: Any) -> Any:
        start, end = ends[k]
        if logs[k]:
            return np.log(values / start) / math.log(end / start)
        return (values - start) / (end - start)

    across, up = 62 + 560 * place(0, xs), 270 - 250 * place(1, np.where(known, ys, low))
    path, pen = "", "M"
    for x, y, good in zip(across, up, known, strict=True):
        path += f"{pen}{x:.1f} {y:.1f}" if good else ""
        pen = "L" if good else "M"
    marks = ['<path class="axis" d="M62 20V270H622" fill="none"/>']
    for k in dict.fromkeys([0, xs.size // 2, xs.size - 1]):
        anchor = "start" if k == 0 else "end" if k == xs.size - 1 else "middle"
        text = _number(xs[k], own["factor"], "")
        marks.append(f'<text x="{across[k]:.1f}" y="288" text-anchor="{anchor}">{text}</text>')
    for value in (low, high):
        y = 274 - 250 * place(1, value)
        text = _number(value, of["factor"], "")
        marks.append(f'<text x="56" y="{y:.1f}" text-anchor="end">{text}</text>')
    heads = [f"{a['title']}{' (' + a['unit'] + ')' if a['unit'] else ''}" for a in (own, of)]
    heads = [html.escape(text) for text in heads]
    marks.append(f'<text x="342" y="310" text-anchor="middle">{heads[0]}</text>')
    marks.append(f'<text x="62" y="12">{heads[1]}</text>')
    marks.append(f'<path class="line picked" d="{path}"/>')
    same = np.flatnonzero(xs == here)
    if same.size and known[same[0]]:
        marks.append(
            f'<circle class="here" r="5" cx="{across[same[0]]:.1f}" cy="{up[same[0]]:.1f}"/>'
        )
    return _CHART.format(f"{heads[1]} over {heads[0]}", "".join(marks))
