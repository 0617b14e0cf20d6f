"""A plan as one HTML file that needs no network and runs no script.

Text comes from specs that nobody has vetted: all of it is escaped, and the page's own policy lets
it load nothing. Pictures are SVG in the page, in the colours of its scheme, light or dark.
"""

import json
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..show.tables import numbers, scale
from ..text import visible
from .best_layouts import (
    LOSSES,
    RANK,
    foot,
    is_known,
    layout_of,
    points_of,
    rows_of,
    summary,
    why_none,
)

if TYPE_CHECKING:
    import xarray

_MOST = 64  # points that are told one by one
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
# Okabe and Ito's colours, apart for colour-blind readers too; what is useful first
_COLOURS = ("#009e73", "#999999", "#0072b2", "#e69f00", "#cc79a7", "#d55e00")
_STYLE = """
:root { color-scheme: light dark; --line: #8886; --faint: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; margin: 0.5rem 0; } h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.25rem 1rem 0.25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; font-variant-numeric: tabular-nums; }
th { font-weight: 600; } .rows td, .rows th { white-space: nowrap; } svg.bar { height: 28px; } svg { display: block; width: 100%; height: auto; margin: 0.5rem 0; }
svg text { fill: currentColor; font: 13px system-ui, sans-serif; }
.keys { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; font-size: 0.85rem; padding: 0; }
.keys li { list-style: none; } .keys span { display: inline-block; width: 0.8rem; height: 0.8rem;
  margin-right: 0.35rem; border: 1px solid var(--line); }
pre { overflow-x: auto; background: var(--faint); padding: 0.6rem; font-size: 0.85rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 34rem) { body { padding: 0.6rem; } td, th { padding-right: 0.6rem; } }
@media print { body { max-width: none; font-size: 11pt; } section { break-inside: avoid; } }
"""


def report(found: "xarray.Dataset", spec: Mapping[str, Any], made: Sequence[str]) -> str:
    """A page of a plan: tables, pictures, the spec, and the command that makes it again."""
    points = list(points_of(found))
    parts = [f"<p>{_text(foot(found))}.</p>"]
    if len(points) > 1 or found.sizes[RANK] > 1:
        parts.append(_section("Best layouts", _table(*summary(points), "wide rows")))
    parts += _curves(found)
    for words, point in points[:_MOST]:
        title = ", ".join(f"{name} {text}" for name, text in words.items()) or "The job"
        parts.append(_section(title, _point(point.isel({RANK: 0}))))
    if len(points) > _MOST:
        parts.append(f"<p>The first {_MOST} of {len(points):,} points are told one by one.</p>")
    remarks = [found.attrs.get(f"fleetcube_{name}", "") for name in ("remarks", "uncounted")]
    lines = [line for text in remarks for line in text.splitlines()]
    if lines:
        parts.append(_section("Remarks", "".join(f"<p>{_text(line)}</p>" for line in lines)))
    records = json.loads(found.attrs.get("fleetcube_catalog", "[]"))
    cells = [[f"{r['kind']} {r['label']}", r["source"], str(r["date"])] for r in records]
    if cells:
        parts.append(_section("Sources", _table(["record", "source", "date"], cells)))
    stated = [[n, str(v)] for n, v in spec["scenario"].items()]
    stated += [[n, str(v)] for n, v in spec["axes"].items()]
    parts.append(_section("Spec", _table(["input", "value"], stated)))
    again = f"<pre>{_text(shlex.join(made))}</pre>"
    version = f"<p>fleetcube {_text(str(found.attrs.get('fleetcube_version', '')))}</p>"
    parts.append(_section("Made by", again + version))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Plan of a training job</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>Plan of a training job</h1>{''.join(parts)}</main></body></html>\n"
    )


def _text(text: str) -> str:
    return escape(visible(text))


def _section(title: str, body: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{body}</section>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "wide") -> str:
    top = "".join(f'<th scope="col">{_text(head)}</th>' for head in heads)
    cells = ("".join(f"<td>{_text(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return (
        f'<div class="{kind}" tabindex="0" role="region" aria-label="table"><table>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _point(point: "xarray.Dataset") -> str:
    """What is told of one point: where its time and memory go, the layout, the numbers."""
    if not is_known(point):
        return f"<p>{_text(why_none(point))}</p>"
    pictures = ""
    if "lost" in point and "useful_compute_share" in point:
        lost = [float(value) for value in point["lost"].values]
        shares = [("useful", float(point["useful_compute_share"]))]
        shares += [
            ("below peak" if name == "compute" else name, share)
            for name, share in zip(LOSSES, lost, strict=True)
        ]
        pictures += _bar("Where the wall time goes", shares)
    if "memory_margin" in point and math.isfinite(float(point["memory_margin"])):
        taken = 1 - float(point["memory_margin"])
        pictures += _bar("Memory of a GPU", [("taken", taken), ("free", max(0.0, 1 - taken))])
    rows = [*layout_of(point).items(), *rows_of(point)]
    return pictures + _table(["", ""], rows)


def _bar(title: str, shares: Sequence[tuple[str, float]]) -> str:
    """Shares of one whole, side by side, with a key below."""
    known = [(name, share if math.isfinite(share) else 0.0) for name, share in shares]
    total = max(1.0, sum(share for _, share in known))
    x, parts, keys = 0.0, [], []
    for (name, share), colour in zip(known, _COLOURS, strict=False):
        width = 640 * share / total
        parts.append(f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="28" fill="{colour}"/>')
        keys.append(f'<li><span style="background:{colour}"></span>{_text(name)} {share:.1%}</li>')
        x += width
    said = ", ".join(f"{name} {share:.1%}" for name, share in known)
    return (
        f"<p>{_text(title)}</p>"
        '<svg class="bar" viewBox="0 0 640 28" preserveAspectRatio="none" role="img" '
        f'aria-label="{_text(f"{title}: {said}")}">'
        f'{"".join(parts)}</svg><ul class="keys">{"".join(keys)}</ul>'
    )


def _curves(found: "xarray.Dataset") -> list[str]:
    """The output against the GPUs, a line for each point of the other axes."""
    of = found.attrs["fleetcube_of"]
    size = "n_gpus"
    if size not in found.dims or found.sizes[size] < 2 or found[size].dtype.kind not in "if":
        return []
    others = [str(d) for d in found["feasible_layouts"].dims if d != size]
    lines = found[of].isel({RANK: 0}).transpose(*others, size)
    rows = lines.values.reshape(-1, found.sizes[size])[: len(_COLOURS)]
    sizes = found[size].values.astype(float)
    good = rows[np.isfinite(rows) & (rows > 0)]
    if not good.size or sizes.min() <= 0:
        return []
    factor, unit = scale(str(found[of].attrs.get("units", "1")), good, of)
    left, right, top, bottom = 70.0, 620.0, 12.0, 250.0
    span_x = math.log(sizes.max() / sizes.min()) or 1.0
    low, high = good.min() / 1.15, good.max() * 1.15

    def place(n: float, value: float) -> tuple[float, float]:
        across = math.log(n / sizes.min()) / span_x
        up = math.log(value / low) / math.log(high / low)
        return left + (right - left) * across, bottom - (bottom - top) * up

    parts = [
        f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="currentColor"/>',
        f'<text x="{(left + right) / 2}" y="{bottom + 42}" text-anchor="middle">{size}</text>',
    ]
    step = max(1, math.ceil(len(sizes) / 8))
    for n in np.unique(sizes)[::step]:
        x, _ = place(n, low)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{n:,.0f}</text>')
    marks = np.geomspace(good.min(), good.max(), 4) if good.max() > good.min() else good[:1]
    for mark, text in zip(marks, numbers(marks / factor), strict=True):
        _, y = place(sizes.min(), mark)
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        parts.append(
            f'<path d="M{left} {y:.1f}H{right}" stroke="currentColor" stroke-opacity="0.15"/>'
        )
    keys = []
    names = [np.asarray(found[d].values).astype(str) for d in others]
    for k, (row, colour) in enumerate(zip(rows, (*_COLOURS[2:], *_COLOURS[:2]), strict=False)):
        pairs = zip(sizes, row, strict=True)
        dots = [place(n, v) for n, v in pairs if math.isfinite(v) and v > 0]
        if len(dots) > 1:
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in sorted(dots))
            parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in dots]
        if others:
            where = np.unravel_index(k, tuple(map(len, names)))
            label = ", ".join(str(each[i]) for each, i in zip(names, where, strict=True))
            keys.append(f'<li><span style="background:{colour}"></span>{_text(label)}</li>')
    left_out = lines.size // found.sizes[size] - len(rows)
    more = f"<p>{left_out} more lines are left out.</p>" if left_out > 0 else ""
    title = f"{of} [{unit}] of the best layout" if unit else f"{of} of the best layout"
    picture = (
        f'<svg viewBox="0 0 640 300" role="img" aria-label="{_text(f"{title} against {size}")}">'
        f'{"".join(parts)}</svg><ul class="keys">{"".join(keys)}</ul>{more}'
    )
    return [_section(title, picture)]
