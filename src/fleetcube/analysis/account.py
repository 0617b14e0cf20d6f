"""The memory of a GPU as an account, component by component and tensor by tensor."""

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
    """Lines of the account at one point with NEEDED: name, bytes and what makes it smaller, the
    largest first. They add up to `memory_per_gpu`."""
    if several := [str(dim) for dim in point[WHOLE].dims]:
        raise InputError(f"an account is of one point; cut the axes: {', '.join(several)}=value")
    found = {name: float(point[name]) for name in NEEDED if name in point}
    kept = found[ACTIVATIONS] - found[LOGITS]
    lines = [(what, found[name], how) for name, (what, how) in PARTS.items()]
    beside = found[WHOLE] - kept - sum(size for _, size, _ in lines)
    lines.append((RESERVED[0], beside, RESERVED[1]))
    layers = kept / found[STAYS] if found[STAYS] > 0 else 0.0  # times micro-batches in flight
    tokens, plain = layers * found[TOKENS], {} if found[LATENTS] else WITHOUT_LATENTS
    tensors = [
        (what, tokens * found[name], plain.get(name, how)) for name, (what, how) in TENSORS.items()
    ]
    moved = layers * found[MOVED]
    rest = kept + moved - sum(size for _, size, _ in tensors)
    lines += tensors
    lines.append(("computed again" if rest < 0 else "states of linear attention", rest, ""))
    lines.append(("on the host", -moved, ""))
    some = [line for line in lines if abs(line[1]) > 1e-9 * found[WHOLE]]
    return sorted(some, key=lambda line: -line[1])


def _had(how: str, attrs: Mapping[Any, Any]) -> str:
    """Of what makes a line smaller, what the software of a point has."""
    entries = json.loads(attrs.get("fleetcube_catalog", "[]"))
    rows = [entry["values"].get("has", {}) for entry in entries if entry["kind"] == framework.KIND]
    kept = []
    for part in how.split(", "):
        name, _, choice = part.partition(" = ")
        words = [{*map(label, row[name])} for row in rows if name in row]
        if not choice or all(own & {choice, "modules"} for own in words):
            kept.append(part)
    return ", ".join(kept)


def table(point: Any) -> tuple[list[str], list[list[str]]]:
    """The account as text: headings, and a row for each line and for their sum."""
    told = [[what, f"{size / 1e9:.2f}", _had(how, point.attrs)] for what, size, how in rows(point)]
    whole = ["all", f"{float(point[WHOLE]) / 1e9:.2f}", ""]
    return ["memory of a GPU", "GB", "made smaller by"], [*told, whole]
