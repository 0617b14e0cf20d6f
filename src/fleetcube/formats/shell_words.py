"""Words of a shell: values that may be open, arithmetic, patterns, and how branches join.

An open value is a mark around a name. A variable that nothing sets is `open_(name)`: empty in a
condition, as when the script runs alone, and left open as a value. A value that reading cannot give
is `unknown(name)`: no condition on it is decided. A word of only one of two branches is `maybe`.
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
    r"\s*(0[xX][0-9a-fA-F]+|\d+(?:#\w+)?|[A-Za-z_]\w*|<<=|>>=|[-+*/%&|^<>=!]=|"
    r"\+\+|--|&&|\|\||<<|>>|\*\*|.)"
)
_CLASSES = {"[:digit:]": "0-9", "[:alpha:]": "A-Za-z", "[:alnum:]": "A-Za-z0-9"}
_CLASSES |= {"[:space:]": " \t\n"}
_PROGRAM = re.compile(
    r"(.*/)?(torchrun|deepspeed|accelerate|srun|mpirun|bash|sh|python[\d.]*)|.*\.py"
)
_COUNTS = re.compile(
    "nnodes|num-nodes|nodes|N|nproc-per-node|num-gpus|ntasks-per-node|gpus-per-node|ntasks|np?|gres"
)
_STARTERS = re.compile(r"torch\.distributed|deepspeed\.launcher|accelerate")
_OPEN_FLAG = re.compile("--?\x02")
_BRACES = re.compile(
    r"""((?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|\$\{[^}]*\}|\$\([^)]*\)|\$(?![{(])|[^{\\'"$])*)"""
    r"\{([^{}'\"$\\\s]*)\}(.*)",
    re.DOTALL,
)
_MOST_BRACES = 256
_PLAIN_REGEX = re.compile(r"[\w\s^$.\[\]\-*+?|:/]{0,64}")
_DEPTH = 64  # of an expression


class Undecided(Exception):  # noqa: N818 - no error
    """An expression on unknown values."""


def open_(name: str) -> str:
    """A variable that the script does not set."""
    return f"\x02{name}\x03"


def unknown(name: str = "OUTPUT") -> str:
    """A value that reading cannot give."""
    return f"\x02?{name}\x03"


def is_open(text: str) -> bool:
    return "\x02" in text


def is_unknown(text: str) -> bool:
    """Whether a text is unknown, or whether a word may be missing."""
    return "\x02?" in text or _MAYBE in text


def is_list_open(words: Iterable[str]) -> bool:
    """Whether the number of these words is open."""
    return any(_OPEN.fullmatch(word) or word.startswith(_MAYBE) for word in words)


def stands_alone(word: str) -> bool:
    """Whether a word is an open value and nothing else, which may hold any arguments. The script's
    own are none."""
    return bool(re.fullmatch("(--?)?\x02(?!\\d+\x03)[^\x03]*\x03", word))


def blurred(text: str, name: str) -> str:
    """A text after a change that is not followed: its arguments may or may not remain."""
    words = text.split()
    return " ".join(map(maybe, words)) if any(map(is_flag, words)) else unknown(name)


def split_fields(text: str, between: str | None) -> list[str]:
    """A text cut where words end; `between` divides them, None if unknown."""
    if between is None:
        return [unknown()] if text else [text]
    if between == "":
        return [text]
    marks, spaces = (
        re.escape("".join(c for c in between if c.isspace() is k)) for k in (False, True)
    )
    row = f"[{spaces}]" if spaces else "(?!)"
    return re.split(f"{row}*[{marks}]{row}*|{row}+" if marks else f"{row}+", text)


def braces(text: str) -> list[str]:
    """Expand the braces of a word, as {a,b} and {1..4}."""
    match = _BRACES.fullmatch(text[:1000])
    if not match or len(text) > 1000:
        return [text]
    before, inner, after = match.groups()
    ends = re.fullmatch(r"(-?\d{1,6})\.\.(-?\d{1,6})", inner)
    if ends:
        first, last = map(int, ends.groups())
        step = 1 if last >= first else -1
        row = [str(k) for k in range(first, last + step, step)[: _MOST_BRACES + 1]]
    elif "," in inner:
        row = inner.split(",")
    else:
        return [text]
    others = braces(after)
    words = [f"{before}{each}{rest}" for each in row for rest in others]
    return words if len(words) <= _MOST_BRACES else [unknown("BRACES")]


def elements(value: Any, is_map: bool, name: str) -> list[str]:
    """All elements of an array in the order of their places, which a map does not have."""
    if not isinstance(value, dict):
        return [value]
    row = {key: text for key, text in value.items() if key != "?"}
    if is_map and len(row) > 1:
        return [unknown(name)]
    return [row[key] for key in sorted(row, key=lambda key: (isinstance(key, str), key))]


def emptied(text: str) -> str:
    """A text in which variables that nothing sets are empty. Raises Undecided for unknown ones."""
    if is_unknown(text):
        raise Undecided
    return _OPEN.sub("", text)


def has_text(text: str) -> bool | None:
    """Whether a text is not empty; None if an open value decides."""
    if re.sub("\x04\\S+|\x02[^\x03]*\x03|\\s", "", text):
        return True
    return None if is_unknown(text) else emptied(text) != ""


def shown(text: str) -> str:
    """A text for people: open values as $NAME."""
    return _OPEN.sub(lambda match: f"${match[2]}", text.replace(_MAYBE, ""))


def unmarked(text: str) -> str:
    """A text of a script without the characters of the marks."""
    return re.sub("[\x00\x02-\x04]", "", text)


def is_flag(word: str) -> bool:
    return bool(re.match(r"--?[A-Za-z]", word.removeprefix(_MAYBE)))


def is_program(word: str) -> bool:
    """Whether a word is a program that launches, or a script in Python."""
    return bool(_PROGRAM.fullmatch(word.removeprefix(_MAYBE)))


def maybe(word: str) -> str:
    """A word that may be missing, with all words that it may be divided into."""
    return re.sub(r"(?<!\S)(?=[^\s\x04])", _MAYBE, word) or _MAYBE


def options(words: Iterable[str]) -> dict[str, Any]:
    """Options of a command: a name without dashes, and its words as one text; True without any.

    The value of one that may be missing or changed is open. Open words after a value, and after
    one another, are arguments of their own, which the script leaves to its environment. Of the
    options of launchers in front of the program only those that count processes are arguments.
    """
    values: dict[str, list[str]] = {}
    name, sure, started = "", {}, False
    for word in words:
        plain = word.removeprefix(_MAYBE)
        module = name in ("m", "module") and not values[name]
        if not started and (module or is_program(plain)):
            started = plain.endswith(".py") or (module and not _STARTERS.match(plain))
            values, name = {each: values[each] for each in values if _COUNTS.fullmatch(each)}, ""
        elif _OPEN_FLAG.match(plain):
            name = ""
        elif is_flag(plain):
            name, equals, value = plain.lstrip("-").partition("=")
            name = name.replace("_", "-")
            values[name], sure[name] = [value] if equals else [], plain == word
        elif name and not (_OPEN.fullmatch(plain) and values[name]):
            values[name].append(plain)
            sure[name] = sure[name] and plain == word
    return {
        name: f"$UNDECIDED_{name}" if not sure[name] else shown(" ".join(row)) if row else True
        for name, row in values.items()
    }


def merged(first: Any, second: Any, name: str) -> Any:
    """The value of a variable after one of two branches: a text, a dict of an array, or None."""
    if first == second:
        return first
    if isinstance(first, dict) or isinstance(second, dict):
        rows = [[] if row is None else elements(row, False, name) for row in (first, second)]
        return dict(enumerate(merged_words(*rows))) | {"?": ""}
    texts = [[] if text is None else text.split() for text in (first, second)]
    if any(is_flag(word) for row in texts for word in row):
        return " ".join(merged_words(*texts))
    return unknown(name)


def merged_words(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Words of two branches in order; those of only one branch may be missing."""
    if len(first) + len(second) > _MOST_MERGED:
        return [maybe(word) for word in (*first, *second)]
    words: list[str] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, first, second, False).get_opcodes():
        same = kind == "equal"
        words += first[a:b] if same else [maybe(word) for word in (*first[a:b], *second[c:d])]
    return words


def matches(text: str, pattern: str) -> bool | None:
    """Whether a text matches a pattern of a shell, whose quoted parts `literal` escapes."""
    if is_unknown(text) or is_open(pattern) or re.search(r"[?*+@!]\(", pattern):
        return None
    for name, row in _CLASSES.items():
        pattern = pattern.replace(name, row)
    if len(text) > 1000 or len(pattern) > 1000 or "[:" in pattern:
        return None
    return fnmatch.fnmatchcase(emptied(text), pattern.replace("[^", "[!"))


def literal(text: str) -> str:
    """A text as a pattern that matches itself."""
    return re.sub(r"([*?\[])", r"[\1]", text)


def matches_regex(text: str, pattern: str) -> bool | None:
    """Whether a text matches a regular expression without groups; None for others."""
    for name, row in _CLASSES.items():
        pattern = pattern.replace(name, row)
    if is_open(pattern) or not _PLAIN_REGEX.fullmatch(pattern) or len(text) > 1000:
        return None
    try:
        return bool(re.search(pattern, emptied(text)))
    except (re.error, Undecided):
        return None


class Arithmetic:
    """A whole number of an expression, as a shell computes it: 64 bits, division towards zero.
    `get` gives the value of a variable, `assign` sets one. Raises Undecided."""

    def __init__(
        self, text: str, get: Callable[[str], str], assign: Callable[[str, str], None]
    ) -> None:
        if is_open(text) or len(text) > 1000:
            raise Undecided
        self.tokens: list[str] = [word for word in _TOKEN.findall(text) if word.strip()]
        self.get, self.assign, self.depth = get, assign, 0

    def value(self) -> int:
        number = self._ranked(0) if self.tokens else 0
        if self.tokens:
            raise Undecided
        return number

    def _take(self, *expected: str) -> str:
        if not self.tokens or (expected and self.tokens[0] not in expected):
            raise Undecided
        return self.tokens.pop(0)

    def _ranked(self, least: int) -> int:
        """An expression up to a sign that binds less than `least`."""
        self.depth += 1
        if self.depth > _DEPTH:
            raise Undecided
        number = self._operand(least)
        while self.tokens and _RANKS.get(self.tokens[0], -1) >= least:
            sign = self._take()
            if sign in ("&&", "||", "?") and any(map(_sets, self.tokens)):
                raise Undecided  # by a side that may not be taken
            if sign == ",":
                number = self._ranked(1)
            elif sign == "?":
                first, _, second = self._ranked(0), self._take(":"), self._ranked(2)
                number = first if number else second
            else:  # all but powers group to the left
                number = _computed(sign, number, self._ranked(_RANKS[sign] + (sign != "**")))
        self.depth -= 1
        return number

    def _operand(self, least: int) -> int:
        word = self._take()
        if word in ("-", "+", "!", "~"):
            number = self._operand(2)
            return {"-": -number, "+": number, "!": int(not number), "~": ~number}[word]
        if word == "(":
            number = self._ranked(0)
            self._take(")")
            return number
        steps = {"++": 1, "--": -1}
        if word in steps:
            name = self._take()
            return self._assign(name, self._number(name) + steps[word])
        if not word.isidentifier():
            return _whole(word)
        sign = self.tokens[0] if self.tokens else ""
        if sign in steps:
            self._take()
            return self._assign(word, self._number(word) + steps[sign]) - steps[sign]
        if not (least < 2 and _sets(sign)):
            return self._number(word)
        self._take()
        number = self._ranked(1)
        if sign != "=":
            number = _computed(sign[:-1], self._number(word), number)
        return self._assign(word, number)

    def _assign(self, name: str, number: int) -> int:
        self.assign(name, str(number))
        return number

    def _number(self, name: str) -> int:
        text = self.get(name)
        if is_open(text):
            raise Undecided
        return _whole(text.strip()) if text.strip() else 0


def _sets(sign: str) -> bool:
    return sign in ("++", "--", "=") or (sign[-1:] == "=" and sign not in _RANKS)


# How much a sign binds; assignments are of rank 1
_RANKS = {",": 0, "?": 2, "||": 3, "&&": 4, "|": 5, "^": 6, "&": 7, "==": 8, "!=": 8}
_RANKS |= {"<": 9, ">": 9, "<=": 9, ">=": 9, "<<": 10, ">>": 10, "+": 11, "-": 11}
_RANKS |= {"*": 12, "/": 12, "%": 12, "**": 13}


def _computed(sign: str, a: int, b: int) -> int:
    if (sign in ("/", "%") and not b) or (sign in ("<<", ">>", "**") and not 0 <= b < 64):
        raise Undecided
    if sign in ("/", "%"):
        ratio = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return ratio if sign == "/" else a - b * ratio
    return _bounded(int(_SIGNS[sign](a, b)))


def _bounded(number: int) -> int:
    if abs(number) > 1 << 62:
        raise Undecided  # near where a shell wraps around
    return number


_SIGNS: dict[str, Callable[[int, int], Any]] = {
    **{"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "|": int.__or__, "^": int.__xor__},
    **{"&": int.__and__, "<<": int.__lshift__, ">>": int.__rshift__, "==": int.__eq__},
    **{"**": lambda a, b: a**b if abs(a) < 1 << 62 else 1 << 63},
    **{"!=": int.__ne__, "<": int.__lt__, ">": int.__gt__, "<=": int.__le__, ">=": int.__ge__},
    **{"&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b)},
}


def _whole(text: str) -> int:
    """A number as a shell writes it: decimal, hexadecimal, octal, BASE#... Raises Undecided."""
    match = re.fullmatch(r"([+-]?)(?:([1-9]\d?)#)?(0[xX]|0(?=\d))?([0-9a-zA-Z]{1,20})", text)
    try:
        groups = match.groups("") if match else ("", "", "", "")
        number = int(groups[0] + groups[3], int(groups[1] or {"": 10, "0": 8}.get(groups[2], 16)))
    except ValueError:
        raise Undecided from None
    return _bounded(number)
