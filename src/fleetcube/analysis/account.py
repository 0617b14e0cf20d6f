"""Split the memory of a GPU into components and tensors."""

import json
from collections.abc import Mapping
from typing import Any

from fleetcube.grid.errors import InputError
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import (
    ACCOUNT,
    MEMORY,
    PARTS,
    RESERVED,
    TENSORS,
    WITHOUT_LATENTS,
)
from fleetcube.scenario import framework
from fleetcube.tables.tables import label

WHOLE, ACTIVATIONS, LOGITS, STAYS, MOVED, TOKENS, LATENTS = ACCOUNT
NEEDED = (REASON, *MEMORY, *dict.fromkeys((*ACCOUNT[1:], *PARTS, *TENSORS)))

Row = tuple[str, float, str]


def rows(point: Any) -> list[Row]:
    """Lines of the account at one point with NEEDED: name, bytes and inputs that reduce it,
    largest first. They add up to `memory_per_gpu`."""
    if several := [str(dim) for dim in point[WHOLE].dims]:
        raise InputError(f"an account is of one point; cut the axes: {', '.join(several)}=value")
    values = {name: float(point[name]) for name in NEEDED if name in point}
    stored = values[ACTIVATIONS] - values[LOGITS]
    lines = [(part, values[name], how) for name, (part, how) in PARTS.items()]
    reserved = values[WHOLE] - stored - sum(size for _, size, _ in lines)
    lines.append((RESERVED[0], reserved, RESERVED[1]))
    layers = stored / values[STAYS] if values[STAYS] > 0 else 0.0  # times micro-batches in flight
    tokens, plain = layers * values[TOKENS], {} if values[LATENTS] else WITHOUT_LATENTS
    tensors = [
        (part, tokens * values[name], plain.get(name, how)) for name, (part, how) in TENSORS.items()
    ]
    moved = layers * values[MOVED]
    rest = stored + moved - sum(size for _, size, _ in tensors)
    lines += tensors
    lines.append(("computed again" if rest < 0 else "states of linear attention", rest, ""))
    lines.append(("on the host", -moved, ""))
    some = [line for line in lines if abs(line[1]) > 1e-9 * values[WHOLE]]
    return sorted(some, key=lambda line: -line[1])


def _had(how: str, attrs: Mapping[Any, Any]) -> str:
    """The inputs that reduce a line and that the software of a point supports."""
    entries = json.loads(attrs.get("fleetcube_catalog", "[]"))
    rows = [entry["values"].get("has", {}) for entry in entries if entry["kind"] == framework.KIND]
    parts = []
    for part in how.split(", "):
        name, _, choice = part.partition(" = ")
        words = [{*map(label, row[name])} for row in rows if name in row]
        if not choice or all(choices & {choice, "modules"} for choices in words):
            parts.append(part)
    return ", ".join(parts)


def table(point: Any) -> tuple[list[str], list[list[str]]]:
    """The account as text: headings, and a row for each line and for their sum."""
    lines = [[part, f"{size / 1e9:.2f}", _had(how, point.attrs)] for part, size, how in rows(point)]
    whole = ["all", f"{float(point[WHOLE]) / 1e9:.2f}", ""]
    return ["memory of a GPU", "GB", "made smaller by"], [*lines, whole]
