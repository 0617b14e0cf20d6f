"""Formulas of docstrings, set as formulas: signs, powers and indices. They are words, too."""

import html
import re
import unicodedata

_SIGNS = (
    (" x ", " \N{MULTIPLICATION SIGN} "),
    (" - ", " \N{MINUS SIGN} "),
    ("<=", "≤"),
    (">=", "≥"),
    ("->", "→"),
    (" +/- ", " ± "),
)
_ROOT = re.compile(r"\bsqrt\(")
_GREEK = {
    name: unicodedata.lookup(f"GREEK SMALL LETTER {name.replace('mbd', 'md').upper()}")
    for name in ("alpha", "beta", "delta", "eta", "lambda", "rho", "sigma", "tau")
}
_LETTER = re.compile(rf"\b({'|'.join(_GREEK)})(?=_|\b)")
_INDEX = re.compile(r"\b([^\W\d_])_(\w+)")  # longer ones are names of quantities
_POWER = re.compile(r"\^(-?[\w.]+|\([^()]*\))")


def typeset(text: str) -> str:
    """A formula as HTML."""
    written = html.escape(" ".join(text.split()), quote=False)
    for sign, set_as in ((html.escape(s, quote=False), t) for s, t in _SIGNS):
        written = written.replace(sign, set_as)
    written = _ROOT.sub("√(", written)
    written = _POWER.sub(lambda m: f"<sup>{m[1].strip('()')}</sup>", written)
    written = symbol(written)
    return f'<p class="formula">{written}</p>'


def symbol(text: str) -> str:
    """Symbols as HTML: Greek letters, and indices below the line."""
    return _INDEX.sub(r"\1<sub>\2</sub>", _LETTER.sub(lambda m: _GREEK[m[1]], text))
