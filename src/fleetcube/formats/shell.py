"""Read a launch script without running it: the programs it launches, with their arguments.

A grammar of bash gives the tree, which is followed over values that may be open (`shell_words`).
If a condition is unknown both branches are followed, and values that differ after them are open;
a statement that is not understood makes open all that it could set. The tests compare with bash.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fleetcube.grid.errors import InputError
from fleetcube.scenario.bounded import read_bytes

from .shell_conditions import Status
from .shell_expand import MOST_LETTERS, TOO_MUCH, Value, text_of
from .shell_statements import Script, Statements, name_of
from .shell_words import (
    is_flag,
    is_list_open,
    is_open,
    is_program,
    is_unknown,
    options,
    shown,
    split_fields,
    stands_alone,
    unknown,
    unmarked,
)

__all__ = ["Script", "options", "plain", "read", "shown", "split", "stands_alone", "unknown"]
_WRAPPERS = re.compile(
    "env|nohup|exec|time|command|builtin|sudo|setsid|stdbuf|numactl|timeout|taskset|nice|unbuffer"
)
_SHELLS = re.compile(r"(/usr)?(/bin/)?(ba|da|z)?sh")
# Commands that set no variable, and whether they succeed
_QUIET: dict[str, Status] = {
    **dict.fromkeys((":", "true", "export", "trap", "ulimit", "wait"), True),
    **dict.fromkeys(["umask", "alias", "unalias", "cd", "popd", "pushd"]),
    "false": False,
}
_GIVES = ("-e", "--env")  # a variable to a container
_LEAVES = {"break": "loop", "continue": "round", "return": "function", "exit": "script"}
# Files and outputs that prepare an environment, and set no argument of a launch
_PREPARES = re.compile(r"activate|conda|bashrc|profile|module|lmod|spack|setvars|set_env|ssh.agent")


def read(text: str, path: str, environment: dict[str, str] | None = None) -> Script:
    """Read a script; `known` are variables of its environment. Raises InputError."""
    if len(text) > MOST_LETTERS:
        raise InputError(
            f"{path!r} has more than {MOST_LETTERS:,} letters, as no launch script has; give one"
        )
    reader = _Reader(path)
    reader.state.variables |= environment or {}
    reader.state.exported |= {*(environment or ())}
    text = unmarked(text.replace("\r\n", "\n").replace("\r", "\n"))
    try:
        reader.region("script", lambda: reader.follow(text))
    except RecursionError:
        raise InputError(TOO_MUCH.format(path)) from None
    if not reader.script.commands:
        reader.script.commands, reader.script.stray = reader.flags, {}
    reader.script.alone = {n: v for n, v in reader.alone.items() if v and not is_open(v)}
    reader.script.not_understood = sorted({*reader.script.not_understood})
    reader.script.variables = {
        name: " ".join(filter(None, value.values())) if isinstance(value, dict) else value
        for name, value in reader.state.variables.items()
    }
    return reader.script


def plain(word: str) -> str:
    """A word NAME=VALUE for a reader: open if the word may be missing or its value is unknown."""
    name, equals, _ = word.partition("=")
    if word.startswith("\x04") and equals:
        return f"{name[1:]}=$UNDECIDED_{name[1:]}"
    return shown(word)


def split(text: str) -> list[str]:
    """Split a text into words, respecting quotes."""
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _as_name(words: Sequence[str]) -> str:
    """A name for the output of a command."""
    return re.sub(r"\W+", "_", shown(" ".join(words)))[:40].strip("_") or "OUTPUT"


class _Reader(Statements):
    """Follows commands by their words: builtins, shells, and launched programs."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.flags: list[list[str]] = []  # without a program: a list of flags alone, or a slip

    def follow(self, text: str) -> Status:
        """Follow a text, without comments in backticks; NAME=<placeholder> is an open value."""
        text = re.sub(r"^(\s*(?:export\s+)?(\w+)=)<[^<>\n]*>", r"\1$\2", text, flags=re.MULTILINE)
        text = re.sub(r"`[ \t]*#[^`\n$]*`", lambda comment: " " * len(comment[0].encode()), text)
        return self.body(self.parsed(text))

    def on_command(self, node: Any) -> Status:
        lines, parts = self.state.lines, []
        before: dict[str, Any] = {}
        for child in node.named_children:
            if child.type == "herestring_redirect":
                self.state.lines = self.joined(child.named_children[0]).split("\n")
            elif child.type == "variable_assignment":
                name = name_of(child)
                before.setdefault(name, self.state.variables.get(name))
            elif child.type not in ("file_redirect", "heredoc_redirect", "comment"):
                parts.append(child)
        tests = any(c.type == "command_name" and text_of(c) in ("test", "[") for c in parts)
        words = self.test_words(parts) if tests else self._words_of(parts)
        self.all([child for child in node.named_children if child.type == "variable_assignment"])
        if words and is_flag(words[0]):
            self._note_stray(node, words)
        exported = before.keys() - self.state.exported
        self.state.exported |= exported
        status = self.command(words) if words else None
        for name, value in before.items():
            self.set_back(name, value)
        self.state.exported -= exported
        if lines is not self.state.lines and any("string" in c.type for c in node.named_children):
            self.state.lines = lines
        return status

    def _note_stray(self, node: Any, words: list[str]) -> None:
        """Note a line of options that bash runs as a command of its own."""
        line, above = node.start_point[0] + 1, node.prev_named_sibling
        is_comment = above is not None and above.type == "comment"
        ends = ": the comment above ends it" * (is_comment and above.end_point[0] + 2 == line)
        lost = ", ".join(shown(word) for word in words if is_flag(word))
        self.script.stray[line] = (
            f"begins with an option and belongs to no command{ends} (lost: {lost})"
        )

    def _words_of(self, parts: list[Any]) -> list[str]:
        """The words of a command; where they are counted, a pattern of files is an open number."""
        rows = [self.words(part) for part in parts]
        first = next((word for row in rows for word in row), "")
        if first == "set" or first in self.state.functions:
            rows = [self.with_files(*each) for each in zip(parts, rows, strict=True)]
        return [word for row in rows for word in row]

    def command(self, words: list[str]) -> Status:
        """Follow a command by its words."""
        name, rest = words[0], words[1:]
        if _WRAPPERS.fullmatch(name):
            return self._wrapped(name, rest)
        if name in self.state.functions:
            return self.called(name, rest)
        if name in _QUIET:
            return _QUIET[name]
        if name in _LEAVES:
            return self._left(_LEAVES[name], rest)
        if name in _BUILTINS:
            return _BUILTINS[name](self, rest)
        if self.state.output is not None:
            self.state.output.append(unknown(_as_name(words)))
        position = next((k for k, word in enumerate(words) if _SHELLS.fullmatch(word)), None)
        if position is not None and self._shell(words[:position], words[position + 1 :]):
            return None
        if (text := self._file(name)) is not None:
            self._inner([], text, rest)
        else:
            (self.flags if is_flag(name) else self.script.commands).append(words)
        return None

    def _wrapped(self, name: str, rest: list[str]) -> Status:
        """Follow a command behind another that starts it, as `env` and `nohup` do."""
        options_of = re.compile(r"-|\w+=|[\d.]+[smhd]?$")
        start = next((k for k, word in enumerate(rest) if not options_of.match(word)), None)
        if start is None:
            self._unknown([word.partition("=")[0] for word in rest])
            return True
        status: Status = self.inside(lambda: self.command(rest[start:]))
        return self.leave("script") if name == "exec" else status

    def _file(self, word: str) -> str | None:
        """The text of a file that the script wrote."""
        return self.state.files.get(shown(word).removeprefix("./"))

    def _shell(self, before: list[str], rest: list[str]) -> bool:
        """Follow the text that a shell runs, if known: an argument, a file that the script wrote,
        or its input."""
        start = next((k for k, word in enumerate(rest) if not word.startswith("-")), len(rest))
        flags, (name, *others) = rest[:start], rest[start:] or [""]
        lines, text = self.state.lines, self._file(name)
        if any(re.fullmatch(r"-[a-z]*c", word) for word in flags):
            self._inner(before, name, others[1:])
        elif not name and lines is not None:
            self._inner(before, "\n".join(lines), [])
        elif text is not None:
            self._inner(before, text, others)
        else:
            if name.endswith(".sh") or (name and not others):
                self.script.sourced.append(shown(name).removeprefix("./"))
            return False
        return True

    def _inner(self, before: list[str], text: str, places: list[str]) -> None:
        """Follow the text of another shell, with the exported variables; `before` launched it."""

        def way() -> Status:
            state = self.state
            state.variables = self._passed(before)
            state.functions, state.places, start = {}, places, len(self.script.commands)
            self.text(text)
            for k in range(start, len(self.script.commands)):
                self.script.commands[k] = [*before, *self.script.commands[k]]
            return None

        self.in_subshell(way)

    def _passed(self, before: Sequence[str]) -> dict[str, Value]:
        """Variables of another shell: exported ones (none in a container or on another machine),
        and those of options; a file of variables is not read."""
        state = self.state
        exported = {n: v for n, v in state.variables.items() if n in state.exported}
        environment = {} if {"docker", "podman", "ssh"} & {*before} else {**exported}
        for word, after in itertools.pairwise((*before, "")):
            flag, equals, value = word.partition("=")
            text = value if equals else after
            if flag == "--env-file":
                self._not_read(text)
            for each in text.split(",") if flag == "--export" else [text] * (flag in _GIVES):
                name, equals, value = each.partition("=")
                environment |= (
                    {name: value} if equals else {n: exported[n] for n in {name} & {*exported}}
                )
        return environment

    def text(self, text: str) -> Status:
        """Follow a text from a value; its open parts stay open."""
        for mark, name in set(re.findall("(\x02\\??([^\x03]*)\x03)", text)):
            variable = re.sub(r"\W", "_", f"_{'unknown' if is_unknown(mark) else 'open'}_{name}")
            self.state.variables[variable] = mark
            self.state.exported.add(variable)
            text = text.replace(mark, f"${{{variable}}}")
        self.depth += 10
        try:
            return self.follow(text)
        finally:
            self.depth -= 10

    def _not_read(self, name: str) -> Status:
        """Note a text that sets unknown variables: those that no statement sets become unknown."""
        self.script.sourced.append(shown(name).removeprefix("./")[:60])
        if not _PREPARES.search(name):
            self.forget({*self.state.variables})
            self.state.sourced = True
        return None

    def _eval(self, rest: list[str]) -> Status:
        text = " ".join(rest)
        if re.match(r"\s*\x02[^\x03]*\x03\w*=", text):
            self.forget({*self.state.variables})
            self.state.sourced = True
        elif re.fullmatch("\\s*\x02\\?[^\x03]*\x03\\s*", text):
            self._not_read(text)
        else:
            self.text(text)
        return None

    def _source(self, rest: list[str]) -> Status:
        name = rest[0] if rest else ""
        text = self._file_in_folder(name) if (text := self._file(name)) is None else text
        if text is None:
            return self._not_read(name)
        return self.region("function", lambda: self.text(text))

    def _file_in_folder(self, word: str) -> str | None:
        """The text of a file in the script's folder; no others are opened."""
        name = shown(word).removeprefix("./")
        place = Path(self.path).parent / name
        if "/" in name or not place.is_file():
            return None
        data = read_bytes(str(place), MOST_LETTERS, "a file of variables", "state its values")
        return unmarked(data.decode(errors="replace"))

    def _remote(self, rest: list[str]) -> Status:
        """Follow the command that another machine runs: the last words, in a shell there."""
        start = next(
            (k for k, word in enumerate(rest) if " " in word or is_program(word)), len(rest)
        )
        self._inner(["ssh"], " ".join(rest[start:]), [])
        return None

    def _sbatch(self, rest: list[str]) -> Status:
        start = next((k for k, word in enumerate(rest) if self._file(word) is not None), None)
        if start is None:
            start = next((k for k, word in enumerate(rest) if not word.startswith("-")), len(rest))
        self._shell([], rest[start:])
        return None

    def _test(self, rest: list[str]) -> Status:
        return self.condition(rest[:-1] if rest[-1:] == ["]"] else rest, False)

    def _echo(self, rest: list[str]) -> Status:
        if self.state.output is not None:
            is_plain = not rest or rest[0] == "-n" or not re.fullmatch(r"-[neE]+", rest[0])
            row = rest[1:] if rest[:1] == ["-n"] else rest
            self.state.output.append(" ".join(row) if is_plain else unknown())
        return True

    def _printf(self, rest: list[str]) -> Status:
        if rest[:1] == ["-v"]:
            self._unknown(rest[:2])
        elif self.state.output is not None:
            self.state.output.append(unknown())
        return True

    def _cat(self, rest: list[str]) -> Status:
        if self.state.output is not None:
            lines = self.state.lines
            self.state.output += [unknown()] if rest or lines is None else lines
        return None

    def _left(self, kind: str, rest: list[str]) -> Status:
        number = int(rest[0]) if rest and re.fullmatch(r"\d{1,9}", rest[0]) else None
        if kind in ("loop", "round"):
            return self.leave(kind, number or 1)
        return self.leave(kind, status=None if number is None else number == 0)

    def _shift(self, rest: list[str]) -> Status:
        count = rest[0] if rest else "1"
        if is_list_open(self.state.places) or not count.isdigit():
            self.state.places = [unknown("@")]
            return None
        enough = int(count) <= len(self.state.places)
        self.state.places = self.state.places[int(count) :] if enough else self.state.places
        return enough

    def _set(self, rest: list[str]) -> Status:
        end = next(
            (k for k, word in enumerate(rest) if not re.match(r"[-+][a-z]", word)), len(rest)
        )
        for flag in rest[:end]:
            if "a" in flag[1:] and flag[1:2] != "o":
                self.state.exports = flag[0] == "-"
        rest = rest[end + sum(word in ("-o", "+o") for word in rest[:end]) :]
        if rest:
            self.state.places = rest[1:] if rest[0] == "--" else rest
        return True

    def _shopt(self, rest: list[str]) -> Status:
        self.any_case |= "-s" in rest and any(w == "nocasematch" or is_open(w) for w in rest)
        return None

    def _let(self, rest: list[str]) -> Status:
        return [self.number(word) for word in rest][-1] if rest else None

    def _read(self, rest: list[str]) -> Status:
        names = [word for word in rest if word.isidentifier()]
        array = any(re.fullmatch(r"-[a-z]*a", word) for word in rest)
        others = any(re.match(r"-[a-z]*[dnNtu]", word) for word in rest)
        lines, between = self.state.lines, self.separators()
        if lines is None or others or between is None or any(map(is_unknown, lines[:1])):
            self.state.lines = None
            return self._unknown(names)
        self.state.lines = lines[1:]
        text = (lines or [""])[0].strip(re.sub(r"\S", "", between))
        words = split_fields(text, between) if text else []
        if array:
            self.assign(names[0], dict(enumerate(words)))
            return bool(lines)
        for k, name in enumerate(names):
            last = k == len(names) - 1 and len(words) > len(names)
            if last and between == " \t\n":
                self.assign(name, text.split(None, k)[k])
            else:
                self.assign(name, unknown(name) if last else words[k] if k < len(words) else "")
        return bool(lines)

    def _unknown(self, rest: list[str]) -> Status:
        """Set the variables that a command names to unknown values."""
        self.forget({word for word in rest if word.isidentifier()})
        return None

    def _getopts(self, rest: list[str]) -> Status:
        if not self.state.places:
            return False
        return self._unknown([*rest[1:2], "OPTARG", "OPTIND"])


_BUILTINS: dict[str, Callable[[_Reader, list[str]], Status]] = {
    **dict.fromkeys(("source", "."), _Reader._source),
    **dict.fromkeys(("test", "["), _Reader._test),
    **dict.fromkeys(("ssh", "pdsh"), _Reader._remote),
    **dict.fromkeys(("mapfile", "readarray"), _Reader._unknown),
    **{"echo": _Reader._echo, "printf": _Reader._printf, "cat": _Reader._cat},
    **{"eval": _Reader._eval, "let": _Reader._let, "sbatch": _Reader._sbatch},
    **{
        "shopt": _Reader._shopt,
        "set": _Reader._set,
        "shift": _Reader._shift,
        "read": _Reader._read,
    },
    "getopts": _Reader._getopts,
}
