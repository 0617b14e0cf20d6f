"""Suggestions for misspelt names."""

import difflib
from collections.abc import Iterable

MOST = 3
_SLIP, _ALIKE = 0.9, 0.5  # shares of common letters: for a typo, and for any hint


def near(name: str, spellings: Iterable[str], alike: float = _ALIKE) -> list[str]:
    """Known names similar to a word, the best first: at most three, or none.

    The one that differs only in case; else those with a typo; else those that contain the word, at
    the start of a word and short ones first; else the most similar one.
    """
    word = name.lower()
    names = {name.lower(): name for name in spellings}
    if word in names:
        return [names[word]]
    slips = difflib.get_close_matches(word, names, n=MOST, cutoff=_SLIP)
    longer = [low for low in names if word in low] if len(word) >= 3 else []
    longer.sort(
        key=lambda low: (low.find(word) > 0 and low[low.find(word) - 1].isalnum(), len(low))
    )
    likely = slips or longer[:MOST] or difflib.get_close_matches(word, names, n=1, cutoff=alike)
    return [names[low] for low in likely]


def hint(names: list[str], otherwise: str) -> str:
    """Advice on a name: try a similar one, if there are any, else `otherwise`."""
    if not names:
        return otherwise
    *first, last = map(repr, names)
    return f"did you mean {' or '.join([', '.join(first), last] if first else [last])}?"
