"""Conditions of a shell's syntax tree, over values that may be open: None if unknown."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from .shell_expand import Words, text_of
from .shell_words import Undecided, emptied, has_text, is_open, is_unknown, matches_regex

Status = bool | None  # whether a command succeeds; None if unknown
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    **{"-eq": int.__eq__, "-ne": int.__ne__, "-gt": int.__gt__},
    **{"-ge": int.__ge__, "-lt": int.__lt__, "-le": int.__le__},
}


def _mark(token: Any) -> str:
    """A sign such as && or -eq; "" for an operand."""
    if isinstance(token, str):
        return token
    return text_of(token) if not token.is_named or token.type == "test_operator" else ""


class Conditions(Words):
    """Decides `[[ ]]`, `[ ]` and `test`; their parts are nodes, those of `test` words."""

    def on_test_command(self, node: Any) -> Status:
        sign = node.children[0].type
        if sign == "((":
            return self.number(self.raw(node).strip()[2:-2])
        parts, stack = [], [*reversed(node.children[1:-1])]
        while stack:
            part = stack.pop()
            if part.type.endswith("_expression"):
                stack += reversed(part.children)
            else:
                parts.append(part)
        double = sign == "[["
        return self.condition(parts if double else self.test_words(parts), double)

    def test_words(self, nodes: Sequence[Any]) -> list[str]:
        """Words of `test`, without variables that no statement sets."""
        texts = []
        for node in nodes:
            for word in self.words(node):
                bare = node.type in ("simple_expansion", "expansion") and is_open(word)
                if not bare or is_unknown(word) or emptied(word):
                    texts.append(word)
        return texts

    def condition(self, row: list[Any], double: bool) -> Status:
        """Whether a condition holds, by the ranks of or, and, not."""
        holds: Status = self.inside(lambda: self._any_or_all(row, double))
        return None if row else holds

    def _any_or_all(self, row: list[Any], double: bool, either: bool = True) -> Status:
        sign = ("||" if either else "&&") if double else ("-o" if either else "-a")
        states = set()
        while True:
            states.add(self._any_or_all(row, double, False) if either else self._not(row, double))
            if not row or _mark(row[0]) != sign:
                return either if either in states else None if None in states else not either
            row.pop(0)

    def _not(self, row: list[Any], double: bool) -> Status:
        if not row:
            return False
        mark = _mark(row[0])
        if mark == "!" and len(row) > 1:
            row.pop(0)
            holds: Status = self.inside(lambda: self._not(row, double))
            return holds if holds is None else not holds
        if mark in ("(", "\\(") and double:
            row.pop(0)
            holds = self.inside(lambda: self._any_or_all(row, double))
            del row[:1]
            return holds
        ends = ("&&", "||", ")") if double else ("-a", "-o")
        end = next((k for k, each in enumerate(row) if k and _mark(each) in ends), len(row))
        parts, row[:] = row[:end], row[end:]
        try:
            return self._one(parts, double)
        except Undecided:
            return None

    def _word(self, part: Any) -> str:
        return part if isinstance(part, str) else self.joined(part)

    def _one(self, parts: list[Any], double: bool) -> Status:
        """A condition of one to three words. Raises Undecided."""
        if len(parts) == 1:
            return has_text(self._word(parts[0]))
        if len(parts) == 2:
            return self._unary(_mark(parts[0]), parts[1])
        if len(parts) > 3:
            return None
        first, sign, second = emptied(self._word(parts[0])), _mark(parts[1]), parts[2]
        sign = sign or text_of(parts[1])
        if sign == "=~" and double:
            pattern = self.raw(second) if second.type == "regex" else self.joined(second)
            return matches_regex(first, emptied(pattern))
        if sign in ("=", "==", "!="):
            pattern = self.pattern(second) if double else ""
            holds = self.matched(first, pattern) if double else first == emptied(second)
            return holds if holds is None else holds is (sign != "!=")
        other = emptied(self._word(second))
        return self._compared(sign, (first, other), double) if sign in _COMPARED else None

    def _compared(self, sign: str, texts: tuple[str, str], double: bool) -> Status:
        numbers = []
        for text in texts:
            if not double and not re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text):
                return None if len(text) > 18 else False  # no number: an error
            if double and text.isidentifier():  # a variable's name
                text = emptied((self.values(text, None) or [""])[0])
            numbers.append(self.counted(text) if double else text)
        return None if None in numbers else _COMPARED[sign](*(int(each or 0) for each in numbers))

    def _unary(self, sign: str, part: Any) -> Status:
        if sign in ("-n", "-z"):
            filled = has_text(self._word(part))
            return filled if filled is None else filled is (sign == "-n")
        if sign == "-v":
            text = part if isinstance(part, str) else text_of(part)
            name, bracket, _ = text.strip("\"'").partition("[")
            return None if bracket else self.is_set(name, None, False)
        self._word(part)
        return None if sign.startswith("-") else False  # tests of files; an error
