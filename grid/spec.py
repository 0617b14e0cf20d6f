"""Read a spec: a TOML file of outputs, a scenario and axes."""

import tomllib
from os import PathLike
from pathlib import Path
from typing import Any

from .errors import InputError, nearest
from .scenario import located

LARGEST = 1 << 24  # bytes of a spec


def read_spec(path: str | PathLike[str]) -> dict[str, Any]:
    """The tables of a TOML spec, empty where it lacks them. Raises InputError."""
    try:
        with Path(path).open("rb") as file:
            held = file.read(LARGEST + 1)
        text = held.decode("utf-8-sig") if len(held) <= LARGEST else ""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"cannot read {str(path)!r}: {reason}; give a TOML file") from None
    if len(held) > LARGEST:
        raise InputError(f"{str(path)!r} has more than {LARGEST:,} bytes; give axes by their ends")
    try:
        spec = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is not TOML: {error}; mend that line") from None
    keys = ("outputs", "scenario", "axes")
    for key in spec:
        if key not in keys:
            hint = nearest(key, keys, f"it may hold {', '.join(keys)}")
            raise InputError(f"{str(path)!r}: unknown table {key[:40]!r}; {hint}")
    found: dict[str, Any] = located(spec, Path(path).parent)
    return {"outputs": [], "scenario": {}, "axes": {}} | found
