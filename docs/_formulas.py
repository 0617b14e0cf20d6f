"""Formulas of docstrings, set as formulas: signs, powers and indices. They are words, too."""

import html
import re

_SIGNS = (
    (" x ", " \N{MULTIPLICATION SIGN} "),
    (" - ", " \N{MINUS SIGN} "),
    ("<=", "≤"),
    (">=", "≥"),
    ("->", "→"),
    (" +/- ", " ± "),
)
_ROOT = re.compile(r"\bsqrt\(")
_INDEX = re.compile(r"\b([A-Za-z])_(\w+)")  # of one letter; longer ones are names of quantities
_POWER = re.compile(r"\^(-?[\w.]+|\([^()]*\))")


def typeset(text: str) -> str:
    """A formula as HTML."""
    written = html.escape(" ".join(text.split()), quote=False)
    for sign, set_as in ((html.escape(s, quote=False), t) for s, t in _SIGNS):
        written = written.replace(sign, set_as)
    written = _ROOT.sub("√(", written)
    written = _POWER.sub(lambda m: f"<sup>{m[1].strip('()')}</sup>", written)
    written = _INDEX.sub(r"\1<sub>\2</sub>", written)
    return f'<p class="formula">{written}</p>'
