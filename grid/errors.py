"""The error of bad input: one line with the value, the rule and the next action."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """A spec, scenario, axis or request that cannot be used as it stands."""


def nearest(
    name: str, known: Iterable[str], otherwise: str = "see `fleetcube explain` for all names"
) -> str:
    """A hint that names the nearest known spelling, or says what to do where none is near."""
    near = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else otherwise
