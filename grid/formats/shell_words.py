"""Words of a shell: values that may be open, arithmetic, patterns, and how branches join.

An open value is a mark around a name. A variable that nothing sets is `open_(name)`: empty in a
condition, as when the script runs alone, and asked for as a value. What no reading decides is
`unknown(name)`: no condition on it is decided. A word that only one of two branches has is `maybe`.
"""

import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_OPEN = re.compile("\x02(\\??)([^\x02\x03]*)\x03")
_MAYBE = "\x04"
_MOST_MERGED = 2000  # words of which two branches are compared
_TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*|<<=|>>=|[-+*/%&|^<>=!]=|\+\+|--|&&|\|\||<<|>>|.)"
)
_CLASSES = {"[:digit:]": "0-9", "[:alpha:]": "A-Za-z", "[:alnum:]": "A-Za-z0-9", "[:space:]": r"\s"}
_PLAIN_REGEX = re.compile(r"[\w\s^$.\[\]\-*+?|:/]{0,64}")
_PROGRAM = re.compile(r".*\.py|(.*/)?(python[\d.]*|torchrun|deepspeed|bash|singularity|apptainer)")
_DEPTH = 64  # of an expression


class Undecided(Exception):  # noqa: N818 - no error
    """An expression on what is not known."""


def open_(name: str) -> str:
    """A variable that the script does not set."""
    return f"\x02{name}\x03"


def unknown(name: str = "OUTPUT") -> str:
    """A value that reading does not give."""
    return f"\x02?{name}\x03"


def is_open(text: str) -> bool:
    return "\x02" in text


def is_unknown(text: str) -> bool:
    return "\x02?" in text


def emptied(text: str) -> str:
    """A text in which variables that nothing sets are empty. Raises Undecided for unknown ones."""
    if is_unknown(text):
        raise Undecided
    return _OPEN.sub("", text)


def shown(text: str) -> str:
    """A text for people: open values as $NAME."""
    return _OPEN.sub(lambda found: f"${found[2]}", text.replace(_MAYBE, ""))


def unmarked(text: str) -> str:
    """A text of a script without the characters of the marks."""
    return re.sub("[\x00\x02-\x04]", "", text)


def is_flag(word: str) -> bool:
    return bool(re.match(r"--?[A-Za-z]", word.removeprefix(_MAYBE)))


def maybe(word: str) -> str:
    """A word that may not be there."""
    return word if word.startswith(_MAYBE) else _MAYBE + word


def options(words: Iterable[str]) -> dict[str, Any]:
    """Options of a command: a name without dashes, and its words as one text; True without any.

    The value of one that may be missing or changed is open. Open words after a value, and after
    one another, are arguments of their own, which the script leaves to its environment.
    """
    made: dict[str, list[str]] = {}
    name, sure = "", {}
    for word in words:
        plain = word.removeprefix(_MAYBE)
        if is_flag(plain):
            name, equals, value = plain.lstrip("-").partition("=")
            name = name.replace("_", "-")
            made[name], sure[name] = [value] if equals else [], plain == word
        elif name and not _PROGRAM.fullmatch(plain):  # which ends its launcher's options
            if not (is_open(plain) and _OPEN.fullmatch(plain) and made[name]):
                made[name].append(plain)
                sure[name] = sure[name] and plain == word
        else:
            name = ""
    return {
        name: f"$UNDECIDED_{name}" if not sure[name] else shown(" ".join(row)) if row else True
        for name, row in made.items()
    }


def merged(first: Any, second: Any, name: str) -> Any:
    """The value of a variable after one of two branches: a text, a dict of an array, or None."""
    if first == second:
        return first
    if isinstance(first, dict) or isinstance(second, dict):
        values = [row if isinstance(row, dict) else {0: row} for row in (first, second)]
        rows = [[w for key, w in row.items() if key != "?" and w is not None] for row in values]
        return dict(enumerate(merged_words(*rows))) | {"?": ""}
    texts = [[] if text is None else text.split() for text in (first, second)]
    if any(is_flag(word) for row in texts for word in row):
        return " ".join(merged_words(*texts))
    return unknown(name)


def merged_words(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Words of two branches in order; those that only one has may not be there."""
    if len(first) + len(second) > _MOST_MERGED:
        return [maybe(word) for word in (*first, *second)]
    made: list[str] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, first, second, False).get_opcodes():
        same = kind == "equal"
        made += first[a:b] if same else [maybe(word) for word in (*first[a:b], *second[c:d])]
    return made


def matches(text: str, pattern: str) -> bool | None:
    """Whether a text matches a pattern of a shell, whose quoted parts `literal` escapes."""
    if is_unknown(text) or is_open(pattern) or re.search(r"[?*+@!]\(", pattern):
        return None
    return fnmatch.fnmatchcase(emptied(text)[:1000], pattern[:1000].replace("[^", "[!"))


def literal(text: str) -> str:
    """A text as a pattern that matches itself."""
    return re.sub(r"([*?\[])", r"[\1]", text)


def matches_regex(text: str, pattern: str) -> bool | None:
    """Whether a text matches a regular expression without groups; None for others."""
    if is_open(pattern) or not _PLAIN_REGEX.fullmatch(pattern):
        return None
    for name, row in _CLASSES.items():
        pattern = pattern.replace(name, row)
    try:
        return bool(re.search(pattern, emptied(text)[:1000]))
    except (re.error, Undecided):
        return None


class Arithmetic:
    """A whole number of an expression, as a shell computes it: 64 bits, division towards zero.
    `get` gives the value of a variable, `put` sets one. Raises Undecided."""

    def __init__(
        self, text: str, get: Callable[[str], str], put: Callable[[str, str], None]
    ) -> None:
        if is_open(text) or len(text) > 1000:
            raise Undecided
        self.tokens: list[str] = [word for word in _TOKEN.findall(text) if word.strip()]
        self.get, self.put, self.depth = get, put, 0

    def value(self) -> int:
        if not self.tokens:
            return 0
        made = self._comma()
        if self.tokens:
            raise Undecided
        return made

    def _next(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def _take(self) -> str:
        if not self.tokens:
            raise Undecided
        return self.tokens.pop(0)

    def _comma(self) -> int:
        made = self._assigned()
        while self._next() == ",":
            self._take()
            made = self._assigned()
        return made

    def _assigned(self) -> int:
        if len(self.tokens) > 1 and self.tokens[0].isidentifier():
            name, sign = self.tokens[:2]
            if sign == "=" or (sign[-1] == "=" and sign[:-1] in _LEVELS and sign not in _COMPARED):
                del self.tokens[:2]
                made = self._assigned()
                made = made if sign == "=" else _computed(sign[:-1], self._number(name), made)
                self.put(name, str(made))
                return made
        return self._choice()

    def _choice(self) -> int:
        made = self._binary(0)
        if self._next() != "?":
            return made
        # either side may assign, which is not followed
        if "=" in self.tokens or "++" in self.tokens:
            raise Undecided
        self._take()
        first = self._comma()
        if self._take() != ":":
            raise Undecided
        second = self._choice()
        return first if made else second

    def _binary(self, least: int) -> int:
        self.depth += 1
        if self.depth > _DEPTH:
            raise Undecided
        made = self._unary()
        while (sign := self._next()) in _LEVELS and _LEVELS[sign] >= least:
            self._take()
            # powers are not read, all others group to the left
            made = _computed(sign, made, self._binary(_LEVELS[sign] + 1))
        self.depth -= 1
        return made

    def _unary(self) -> int:
        word = self._take()
        if word in ("-", "+", "!", "~"):
            made = self._unary()
            return {"-": -made, "+": made, "!": int(not made), "~": ~made}[word]
        if word in ("++", "--"):
            return self._stepped(self._take(), 1 if word == "++" else -1)
        if word == "(":
            made = self._comma()
            if self._take() != ")":
                raise Undecided
            return made
        if word.isidentifier():
            made = self._number(word)
            if self._next() in ("++", "--"):
                self._stepped(word, 1 if self._take() == "++" else -1)
            return made
        return _whole(word)

    def _stepped(self, name: str, by: int) -> int:
        made = self._number(name) + by
        self.put(name, str(made))
        return made

    def _number(self, name: str) -> int:
        text = self.get(name)
        if is_open(text):
            raise Undecided
        return _whole(text.strip()) if text.strip() else 0


_LEVELS = {"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6}
_LEVELS |= {"<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8}
_LEVELS |= {"+": 9, "-": 9, "*": 10, "/": 10, "%": 10}
_COMPARED = ("==", "!=", "<=", ">=")


def _computed(sign: str, a: int, b: int) -> int:
    if sign in ("/", "%"):
        if not b:
            raise Undecided
        ratio = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        made = ratio if sign == "/" else a - b * ratio
    elif sign in ("<<", ">>") and not 0 <= b < 64:
        raise Undecided
    else:
        made = int(_SIGNS[sign](a, b))
    if abs(made) > 1 << 62:
        raise Undecided  # near where a shell wraps around
    return made


_SIGNS: dict[str, Callable[[int, int], Any]] = {
    **{"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "|": int.__or__, "^": int.__xor__},
    **{"&": int.__and__, "<<": int.__lshift__, ">>": int.__rshift__, "==": int.__eq__},
    **{"!=": int.__ne__, "<": int.__lt__, ">": int.__gt__, "<=": int.__le__, ">=": int.__ge__},
    **{"&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b)},
}


def _whole(text: str) -> int:
    """A number as a shell writes it: decimal, hexadecimal, octal. Raises Undecided."""
    found = re.fullmatch(r"([+-]?)(0[xX][0-9a-fA-F]{1,15}|0[0-7]{1,20}|[1-9]\d{0,17}|0)", text)
    if not found:
        raise Undecided
    digits = found[2]
    base = 16 if digits[:2] in ("0x", "0X") else 8 if len(digits) > 1 and digits[0] == "0" else 10
    return int(digits, base) * (-1 if found[1] == "-" else 1)
