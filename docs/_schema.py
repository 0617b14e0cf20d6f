"""A Sphinx extension: publish the JSON Schema of specs, which `fleetcube schema` prints."""

import json
from pathlib import Path
from typing import Any

from fleetcube.scenario.schema import schema

FILE = Path(__file__).parent / "reference" / "fleetcube.schema.json"


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", lambda _: write())
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write() -> None:
    """Write the file, beside the pages that are generated, if it is not there as it should be."""
    FILE.parent.mkdir(exist_ok=True)
    text = json.dumps(schema(), indent=1) + "\n"
    if not FILE.exists() or FILE.read_text(encoding="utf-8") != text:
        FILE.write_text(text, encoding="utf-8")
