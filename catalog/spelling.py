"""Names that someone may have meant."""

import difflib
from collections.abc import Iterable

MOST = 3
_SLIP, _ALIKE = 0.9, 0.5  # shares of letters in common: of a slip of the pen, and of any hint


def near(name: str, known: Iterable[str], alike: float = _ALIKE) -> list[str]:
    """Known names like a word, the best first: at most three, none where none is near.

    The one that differs by its case only; else those that differ by a slip; else those that hold
    the word, where one of their own words begins with it first, and short ones before long; else
    the one spelled most alike.
    """
    word = name.lower()
    names = {one.lower(): one for one in known}
    if word in names:
        return [names[word]]
    slips = difflib.get_close_matches(word, names, n=MOST, cutoff=_SLIP)
    holding = [one for one in names if word in one] if len(word) >= 3 else []
    holding.sort(
        key=lambda one: (one.find(word) > 0 and one[one.find(word) - 1].isalnum(), len(one))
    )
    found = slips or holding[:MOST] or difflib.get_close_matches(word, names, n=1, cutoff=alike)
    return [names[one] for one in found]


def hint(names: list[str], otherwise: str) -> str:
    """What to do about a name: one of those near it, where there are any."""
    if not names:
        return otherwise
    *first, last = map(repr, names)
    return f"did you mean {' or '.join([', '.join(first), last] if first else [last])}?"
