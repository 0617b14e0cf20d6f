"""The version of a cube's layout, specified in docs/cube-format.md, and the root that states it."""

import json
import re
from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..plan.labels import own_version
from .names import GROUP, ROOT
from .places.place import Place

KEY = "fleetcube_layout"  # attribute of the root
LAYOUT = 1


def known_layout(place: Place, attributes: Mapping[str, Any]) -> int:
    """The layout stated by a root, ours where xarray copied a cube without it; one newer than ours
    is refused. Raises InputError."""
    layout = attributes.get(KEY, LAYOUT)
    if isinstance(layout, bool) or not isinstance(layout, int) or layout < 1:
        raise InputError(f"{str(place)!r} is damaged: {KEY} is not a whole number; write it again")
    if layout > LAYOUT:
        version = attributes.get("fleetcube_version")
        numbered = isinstance(version, str) and re.fullmatch(r"[0-9]+(\.[0-9]+){1,3}", version)
        newer = f"fleetcube >= {version}" if numbered else "a newer fleetcube"
        raise InputError(
            f"{str(place)!r} has layout {str(layout)[:20]}, and fleetcube {own_version()} reads up "
            f"to {LAYOUT}; install {newer}"
        )
    return layout


def consolidated(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of arrays in zarr-python's root format: over http no folder can be listed."""
    return {"kind": "inline", "must_understand": False, "metadata": arrays}


def repeats(files: Mapping[str, bytes]) -> bool:
    """Whether the root repeats the metadata of all arrays except our record's."""
    arrays = {
        array: json.loads(data)
        for name, data in files.items()
        if (array := name.removesuffix(f"/{ROOT}")) != name and not array.startswith(GROUP)
    }
    return bool(json.loads(files[ROOT]).get("consolidated_metadata") == consolidated(arrays))
