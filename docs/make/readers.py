"""The table of docs/cube-format.md: what `python -m tests.readers` found readers to read."""

import json
from typing import Any

from tests.readers import PLACES, READERS, RESULTS

from .text import DOCS, between, table

PAGE = DOCS / "cube-format.md"


def page() -> str:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    rows = []
    for name in (name for name in READERS if name in results):
        one = results[name]
        places = {"lz4": one["places"].get("icechunk", []), **one["places"]}
        cells = [cell(places.get(place, [])) for place in PLACES]
        rows.append([one["what"], one["version"], *cells, one["day"]])
    return between(
        PAGE, "readers", table(["reader", "version", *PLACES.values(), "tried on"], rows)
    )


def cell(read: list[Any]) -> str:
    """What was read, in words: a line of `tests.readers.found`."""
    words = [word for word in read if isinstance(word, str)]
    if not words:
        return "-"
    if words[0] not in ("numbers", "texts"):
        return f"nothing ({words[0]})"
    damage = [", finds damage" if flag else ", misses damage" for flag in read if flag in (0, 1)]
    only = "" if "texts" in words else " alone"
    return " and ".join(words) + only + "".join(damage)
