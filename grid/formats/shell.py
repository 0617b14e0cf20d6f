"""A launch script, read and never executed: what it launches, with which arguments.

A grammar of bash gives the tree, which is followed over values that may be open (`shell_words`).
Where a condition is not known both branches are followed, and what differs after them is open;
what is not understood makes open all that it could set. A shell is the judge (the tests ask one).
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..spec.bounded import read_bytes
from .shell_words import (
    Arithmetic,
    Undecided,
    emptied,
    is_flag,
    is_open,
    is_unknown,
    literal,
    matches,
    matches_regex,
    maybe,
    merged,
    merged_words,
    open_,
    options,
    shown,
    unknown,
    unmarked,
)

__all__ = ["Script", "options", "plain", "read", "shown", "split", "unknown"]
_MOST_LETTERS = 1 << 16  # of a script, and of a value
_MOST_STEPS = 50_000  # statements and words that are followed
_MOST_FILLED = 1 << 20  # letters that values give: scripts that double themselves end here
_MOST_ROUNDS = 256  # of a loop
_NOT_A_NAME = re.compile(r"\W")
_UNCOUNTED = "?"  # the key of an array whose places are not known
_MOST_DEPTH = 60  # of nested statements, expansions and calls
# Set by a scheduler, a launcher or the machine: neither empty nor known
_ELSEWHERE = re.compile(
    r"(SLURM|PBS|LSB|OMPI|PMI|CUDA|NCCL|CONDA|MLP|AZ|AWS|XDG|TORCHELASTIC)_\w*|(RANK|LOCAL_RANK|"
    r"WORLD_SIZE|NODE_RANK|MASTER_\w+|HOSTNAME|HOME|PWD|OLDPWD|USER|PATH|PYTHONPATH|SHELL|TMPDIR|"
    r"LD_LIBRARY_PATH|VIRTUAL_ENV|RANDOM|SECONDS|EPOCH\w*|UID|PPID|BASH\w*|LINENO|OSTYPE|HOSTTYPE|"
    r"KUBERNETES\w*|JOB_\w+|LANG|TERM|FUNCNAME|PIPESTATUS|GPU_NUM|NODE_NUM|[?$!0_-])"
)
# Files that set variables of programs and none of a job
_PROGRAMS = re.compile(r"(activate|conda\.sh|bashrc|profile|setvars\.sh|modules?(\.sh)?)$")
_QUIET = ("mkdir", "export", "ulimit", "umask", "trap", "sleep", "wait", "shopt", "alias", "cd")
_WRAPPERS = (
    *("env", "nohup", "exec", "time", "command", "builtin", "sudo", "setsid", "stdbuf", "numactl"),
)
_SETTERS = ("read", "mapfile", "readarray", "let", "getopts", "printf", "eval", "source", ".")
_STEPPED = ("for_statement", "postfix_expression", "unary_expression", "binary_expression")
_PLAIN = ("word", "number", "extglob_pattern", "regex", "variable_name", "special_variable_name")
_CLAUSES = ("elif_clause", "else_clause")
_FILLED = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")
_GIVES = ("-e", "--env")  # a variable to a container
_SHELLS = ("bash", "sh", "/bin/bash", "/bin/sh")
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    **{"-eq": int.__eq__, "-ne": int.__ne__, "-gt": int.__gt__},
    **{"-ge": int.__ge__, "-lt": int.__lt__, "-le": int.__le__},
}
_TOO_MUCH = (
    "{!r} computes more than a launch script does; give its launch line alone, or state its values "
    "in a spec"
)
Value = str | dict[Any, str]  # an array by place or by key


@dataclass
class Script:
    """What a script launches: commands with values filled in, those of branches that may not be
    taken among them; texts that it writes in place; files that it sources; variables at its end."""

    commands: list[list[str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    sourced: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


@dataclass
class _State:
    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    functions: dict[str, Any] = field(default_factory=dict)
    places: list[str] = field(default_factory=list)  # $1, $2, ...
    output: list[str] | None = None  # of a command substitution
    exports: bool = False  # all that is set

    def copy(self) -> "_State":
        return _State(**{name: copy(value) for name, value in vars(self).items()})


class _End(Exception):  # noqa: N818 - no error
    """The end of a loop's round, a loop, a function or the script."""

    def __init__(self, of: str, count: int = 1, status: bool | None = True) -> None:
        self.of, self.count, self.status = of, count, status


def read(text: str, path: str, known: dict[str, str] | None = None) -> Script:
    """Read a script; `known` are variables of its environment. Raises InputError."""
    if len(text) > _MOST_LETTERS:
        raise InputError(
            f"{path!r} has more than {_MOST_LETTERS:,} letters, as no launch script has; give one"
        )
    reader = _Reader(path)
    reader.state.variables |= known or {}
    reader.state.exported |= {*(known or ())}
    try:
        reader.source(unmarked(text.replace("\r\n", "\n").replace("\r", "\n")))
    except RecursionError:
        raise InputError(_TOO_MUCH.format(path)) from None
    made = reader.script
    made.variables = {
        name: " ".join(filter(None, value.values())) if isinstance(value, dict) else value
        for name, value in reader.state.variables.items()
    }
    return made


def plain(word: str) -> str:
    """A word NAME=VALUE for a reader: open where it may not be there, or its value is not known."""
    name, equals, _ = word.partition("=")
    if word.startswith("\x04") and equals:
        return f"{name[1:]}=$UNDECIDED_{name[1:]}"
    return shown(word)


def stands_alone(word: str) -> bool:
    """Whether a word is an open value and nothing else, which may hold any arguments. The script's
    own are none."""
    return bool(re.fullmatch("\x02(?!\\d+\x03)[^\x03]*\x03", word))


def split(text: str) -> list[str]:
    """Words of a text that may hold quotes of its own."""
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


class _Reader:
    def __init__(self, path: str) -> None:
        self.path, self.script, self.state = path, Script(), _State()
        self.steps = self.filled = self.depth = 0
        self.undecided = 0  # branches around that may not be taken
        self.elsewhere = False  # whether a file that is not read may have set variables
        self.locals: list[dict[str, Value | None]] = []  # what functions hide, to be set back
        self.left: list[list[_State]] = []  # states in which a loop or a function may have ended

    # Trees

    def source(self, text: str) -> None:
        """Follow a whole text; an `exit` ends it."""
        import tree_sitter
        import tree_sitter_bash

        parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
        root = parser.parse(text.encode("utf-8", "replace")).root_node
        with contextlib.suppress(_End):
            self.body(root)

    def body(self, node: Any) -> bool | None:
        status: bool | None = True
        for child in node.named_children:
            status = self.run(child)
        return status

    def run(self, node: Any) -> bool | None:
        """Follow a statement; whether it succeeds, None where that is not known."""
        self.steps += 1
        if self.steps > _MOST_STEPS or self.depth > _MOST_DEPTH:
            raise InputError(_TOO_MUCH.format(self.path))
        self.depth += 1
        try:
            way = getattr(self, f"on_{node.type}", None)
            return way(node) if way else self._not_understood(node)
        finally:
            self.depth -= 1

    def _not_understood(self, node: Any) -> bool | None:
        if node.type in ("comment", "heredoc_body", "word", "file_redirect"):
            return True
        self._forget(self._set_within(node))
        words = _text(node).split()
        if node.type == "ERROR" and any(word.startswith("--") for word in words):
            self.script.commands.append([maybe(word) for word in words])
        return None

    def _set_within(self, node: Any, seen: frozenset[str] = frozenset()) -> set[str]:
        """Names that a part of a script could set, by functions that it calls as well."""
        made: set[str] = set()
        stack = [node]
        while stack:
            here = stack.pop()
            stack += here.named_children
            if here.type == "variable_assignment":
                made.add(re.split(r"[\[+=]", _text(here), maxsplit=1)[0])
            elif here.type in _STEPPED:
                first = here.named_children[:1]
                made |= {_text(each) for each in first if each.type in ("variable_name", "word")}
            elif here.type in ("declaration_command", "unset_command"):
                every = here.named_children
                made |= {_text(each) for each in every if each.type == "variable_name"}
            elif here.type == "command" and here.named_children:
                name, *words = map(_text, here.named_children)
                if name in _SETTERS:
                    made |= {found for word in words for found in re.findall(r"[A-Za-z_]\w*", word)}
                if name in self.state.functions and name not in seen:
                    made |= self._set_within(self.state.functions[name], seen | {name})
        return {name for name in made if name.isidentifier()}

    def _forget(self, names: set[str]) -> None:
        """Make variables open; words of arguments stay, and may not be there."""
        for name in names:
            before = self.state.variables.get(name)
            self.state.variables[name] = merged(before, unknown(name), name)

    # Branches

    def _either(self, *ways: Callable[[], bool | None]) -> bool | None:
        """Follow several ways of which one is taken, each from the same state."""
        start, after, statuses = self.state, [], set()
        self.undecided += 1
        for way in ways:
            self.state = start.copy()
            try:
                statuses.add(way())
                after.append(self.state)
            except _End as end:
                if end.of != "script" and self.left:
                    self.left[-1].append(self.state)
        self.undecided -= 1
        if not after:
            self.state = start
            raise _End("script") if not (self.left and self.left[-1]) else _End("function")
        self.state = after[0]
        for other in after[1:]:
            self._join(other)
        return statuses.pop() if len(statuses) == 1 else None

    def _join(self, other: _State) -> None:
        here = self.state
        for name in {*here.variables, *other.variables}:
            value = merged(here.variables.get(name), other.variables.get(name), name)
            if value is None:
                here.variables.pop(name, None)
            else:
                here.variables[name] = value
        here.exported |= other.exported
        here.functions = {**other.functions, **here.functions}
        if here.places != other.places:
            here.places = merged_words(here.places, other.places)
        if here.output != other.output:
            here.output = [unknown()]

    def on_if_statement(self, node: Any) -> bool | None:
        others = (child for child in node.children if child.type in _CLAUSES)
        return self._first_of([_clause(each) for each in (node, *others)])

    def _first_of(self, rows: Sequence[tuple[list[Any], list[Any]]]) -> bool | None:
        if not rows:
            return True
        (condition, statements), *others = rows
        status = self._all(condition) if condition else True
        if status is None:
            return self._either(lambda: self._all(statements), lambda: self._first_of(others))
        return self._all(statements) if status else self._first_of(others)

    def _all(self, statements: Sequence[Any]) -> bool | None:
        status: bool | None = True
        for statement in statements:
            status = self.run(statement)
        return status

    def on_list(self, node: Any) -> bool | None:
        first, second = node.named_children[0], node.named_children[-1]
        both = any(child.type == "&&" for child in node.children)
        status = self.run(first)
        if status is None:
            other = self._either(lambda: self.run(second), lambda: not both)
            return other if other is (not both) else None
        return self.run(second) if status is both else status

    def on_case_statement(self, node: Any) -> bool | None:
        subject = self.joined(node.named_children[0])
        items = [child for child in node.named_children if child.type == "case_item"]
        return self._items(subject, items)

    def _items(self, subject: str, items: Sequence[Any], falls: bool = False) -> bool | None:
        """Follow the items of a case from one on; `falls`: into its statements."""
        if not items:
            return True
        item, *others = items
        at = next((k for k, c in enumerate(item.children) if c.type == ")"), len(item.children))
        patterns = [child for child in item.children[:at] if child.is_named]
        ends = next((c.type for c in item.children if c.type in (";;", ";&", ";;&")), ";;")
        statements = [child for child in item.children[at + 1 :] if child.is_named]

        def taken() -> bool | None:
            status = self._all(statements)
            if ends == ";;":
                return status
            return self._items(subject, others, falls=ends == ";&")

        try:
            states = {matches(subject, self.pattern(each)) for each in patterns}
        except Undecided:
            states = {None}
        if falls or True in states:
            return taken()
        if None in states:
            return self._either(taken, lambda: self._items(subject, others))
        return self._items(subject, others)

    # Loops and functions

    def _rounds(
        self, node: Any, once: Callable[[], bool | None], more: Callable[[], bool | None]
    ) -> None:
        """Follow a loop: `more` says whether another round begins. Where it is not known, all that
        the loop sets is open from its first round on."""
        self.left.append([])
        for _ in range(_MOST_ROUNDS):
            again = more()
            if again is None:
                break
            if not again:
                return self._left()
            try:
                once()
            except _End as end:
                if end.of not in ("loop", "round"):
                    self.left.pop()
                    raise
                if end.count > 1:
                    self._left()
                    raise _End(end.of, end.count - 1) from None
                if end.of == "loop":
                    return self._left()
        names = self._set_within(node)
        arguments = {n for n in names if _is_arguments(self.state.variables.get(n))}
        self._forget(names - arguments)
        self._either(once, lambda: True)
        self._forget(names - arguments)
        return self._left()

    def _left(self) -> None:
        """Join the states in which a loop or a function may have ended."""
        for other in self.left.pop():
            self._join(other)

    def on_for_statement(self, node: Any) -> bool | None:
        name, *parts = node.named_children
        body = parts.pop()
        words = [word for part in parts for word in self.words(part)]
        if not any(child.type == "in" for child in node.children):
            words = [*self.state.places]
        queue = iter(words)
        sure = not any(is_open(word) or word != word.removeprefix("\x04") for word in words)

        def more() -> bool | None:
            if not sure or len(words) > _MOST_ROUNDS:
                self.state.variables[_text(name)] = unknown(_text(name))
                return None
            word = next(queue, None)
            if word is not None:
                self.state.variables[_text(name)] = word
            return word is not None

        self._rounds(node, lambda: self.run(body), more)
        return None

    def on_c_style_for_statement(self, node: Any) -> bool | None:
        inner = _text(node).split("((", 1)[1].split("))", 1)[0]
        first, condition, step = (*inner.split(";"), "", "")[:3]
        body = node.named_children[-1]
        self.number(first)

        def once() -> bool | None:
            try:
                self.run(body)
            except _End as end:
                if end.of != "round" or end.count > 1:
                    raise
            self.number(step)
            return True

        self._rounds(node, once, lambda: self.number(condition or "1"))
        return None

    def on_while_statement(self, node: Any) -> bool | None:
        condition, body = node.named_children[:-1], node.named_children[-1]
        until = node.children[0].type == "until"

        def more() -> bool | None:
            status = self._all(condition)
            return status if status is None else status is not until

        self._rounds(node, lambda: self.run(body), more)
        return None

    def on_function_definition(self, node: Any) -> bool | None:
        name = _text(node.named_children[0])
        self.state.functions[name] = node.named_children[-1]
        return True

    def _called(self, name: str, words: list[str]) -> bool | None:
        before, places = self.state, self.state.places
        shadowed: dict[str, Value | None] = {}
        self.locals.append(shadowed)
        self.left.append([])
        self.state.places = words
        status: bool | None = None
        try:
            status = self.run(before.functions[name])
        except _End as end:
            if end.of != "function":
                self.left.pop()
                self.locals.pop()
                raise
            status = end.status
        if self.left[-1]:
            status = None
        self._left()
        self.locals.pop()
        self.state.places = places
        for each, value in shadowed.items():
            if value is None:
                self.state.variables.pop(each, None)
            else:
                self.state.variables[each] = value
        return status

    def on_do_group(self, node: Any) -> bool | None:
        return self.body(node)

    def on_compound_statement(self, node: Any) -> bool | None:
        if node.children[0].type != "((":
            return self.body(node)
        return self.number(self.raw(node)[2:-2])

    def on_subshell(self, node: Any) -> bool | None:
        return self.apart(lambda: self.body(node))

    def apart(self, way: Callable[[], bool | None]) -> bool | None:
        """Follow what runs in a shell of its own: what it sets stays there."""
        before, left = self.state, self.left
        self.state, self.left = before.copy(), []
        try:
            return way()
        except _End as end:
            return end.status
        finally:
            output = self.state.output
            self.state, self.left = before, left
            self.state.output = output

    def on_pipeline(self, node: Any) -> bool | None:
        parts = node.named_children
        outer = self.state.output
        status: bool | None = None
        for part in parts:
            status = self.apart(lambda part=part: self.run(part))  # type: ignore[misc]
            if part is not parts[-1] or len(parts) > 1:
                self.state.output = outer
        if outer is not None:
            self.state.output = [*outer, unknown()]
        return status

    def on_negated_command(self, node: Any) -> bool | None:
        status = self.run(node.named_children[0])
        return status if status is None else not status

    def on_redirected_statement(self, node: Any) -> bool | None:
        status: bool | None = True
        outer = self.state.output
        to_file = False
        here: list[str] = []
        for child in node.named_children[1:]:
            to_file = to_file or any(
                part.type == "file_redirect" for part in (child, *child.named_children)
            )
            if child.type == "heredoc_redirect":
                quoted = any(
                    part.type == "heredoc_start" and _text(part)[:1] in "'\"\\"
                    for part in child.children
                )
                for part in child.named_children:
                    if part.type == "heredoc_body":
                        text = _text(part) if quoted else self.raw(part)
                        tabs = any(mark.type == "<<-" for mark in child.children)
                        here.append(re.sub(r"^\t+", "", text, flags=re.M) if tabs else text)
            elif child.type == "herestring_redirect":
                here.append(self.joined(child.named_children[0]))
        self.script.texts += [shown(text) for text in here]
        first = node.named_children[0]
        self.input = here[-1] if here else None
        if "redirect" not in first.type:
            status = self.run(first)
        for child in node.named_children[1:]:
            if child.type == "heredoc_redirect":  # cat <<EOF | ..., && ...
                for part in child.named_children:
                    if part.type in ("command", "pipeline", "list"):
                        self.run(part)
        self.input = None
        if outer is not None and to_file:
            self.state.output = outer
        return status

    input: str | None = None

    # Commands

    def on_variable_assignment(self, node: Any) -> bool | None:
        name, value = node.named_children[0], node.named_children[1:]
        grows = any(child.type == "+=" for child in node.children)
        key: Any = None
        if name.type == "subscript":
            key = self.joined(name.named_children[1]) if len(name.named_children) > 1 else "?"
            name = name.named_children[0]
        name = _text(name)
        if value and value[0].type == "array":
            self.put_array(name, value[0], grows)
            return True
        outputs = any("substitution" in part.type for part in value)
        text = "".join(map(self.joined, value))
        before = self.state.variables.get(name)
        if key is not None:
            self._put_key(name, key, text, grows)
        elif grows and isinstance(before, dict):
            first = next(iter(before), 0)
            self.put(name, {**before, first: before.get(first, "") + text})
        else:
            self.put(name, (str(before or "") if grows else "") + text)
        return None if outputs else True

    def _put_key(self, name: str, key: Any, text: str, grows: bool) -> None:
        before = self.state.variables.get(name)
        row = dict(before) if isinstance(before, dict) else {0: before} if before else {}
        if is_open(str(key)) or key == "?":
            self.put(name, {k: unknown(name) for k in row} | {_UNCOUNTED: ""})
            return
        key = int(key) if re.fullmatch(r"\d{1,9}", str(key)) else key
        self.put(name, {**row, key: (row.get(key, "") if grows else "") + text})

    def put_array(self, name: str, node: Any, grows: bool) -> None:
        before = self.state.variables.get(name)
        row: dict[Any, str] = {}
        if grows and before is not None:
            row = dict(before) if isinstance(before, dict) else {0: before}
        at = max((k for k in row if isinstance(k, int)), default=-1) + 1
        for part in node.named_children:
            found = re.fullmatch(r"\[([^\]]*)\]=(.*)", _text(part), re.DOTALL)
            if part.type == "comment":
                continue
            if found:
                joined = self.joined(part)
                inner = re.fullmatch(r"\[([^\]]*)\]=(.*)", joined, re.DOTALL)
                key = inner[1].strip("\"'") if inner else "?"
                row[int(key) if key.isdigit() else key] = inner[2] if inner else unknown(name)
                continue
            for word in self.words(part):
                row[at] = word
                at += 1
                if stands_alone(word) or word.startswith("\x04"):  # none, or several words
                    row[_UNCOUNTED] = ""
        self.put(name, row)

    def put(self, name: str, value: Value) -> None:
        self.filled += len(value) if isinstance(value, str) else sum(map(len, value.values()))
        if self.filled > _MOST_FILLED:
            raise InputError(
                f"the variables of {self.path!r} give more than {_MOST_FILLED:,} letters; "
                "state its values"
            )
        self.state.variables[name] = value[:_MOST_LETTERS] if isinstance(value, str) else value
        if self.state.exports:
            self.state.exported.add(name)

    def on_variable_assignments(self, node: Any) -> bool | None:
        return self.body(node)

    def on_declaration_command(self, node: Any) -> bool | None:
        word = node.children[0].type
        for child in node.named_children:
            text = _text(child)
            name = re.split(r"[\[+=]", text, maxsplit=1)[0]
            if child.type not in ("variable_assignment", "variable_name"):
                continue
            if word == "local" and self.locals:
                self.locals[-1].setdefault(name, self.state.variables.get(name))
                if child.type == "variable_name":
                    self.state.variables.pop(name, None)
            if word in ("declare", "typeset") and self.locals and "-g" not in _text(node).split():
                self.locals[-1].setdefault(name, self.state.variables.get(name))
            if child.type == "variable_assignment":
                self.run(child)
            if word == "export" or "-x" in _text(node).split():
                self.state.exported.add(name)
        return True

    def on_unset_command(self, node: Any) -> bool | None:
        for child in node.named_children:
            name = _text(child)
            if re.search(r"[\[$]", name):
                self._forget({re.split(r"[\[$]", name)[0]} & {*self.state.variables})
            else:
                self.state.variables.pop(name, None)
                self.state.functions.pop(name, None)
        return True

    def on_test_command(self, node: Any) -> bool | None:
        try:
            marks = ("[", "]", "[[", "]]", "((", "))")
            inner = [child for child in node.children if child.type not in marks]
            if node.children[0].type == "((":
                return self.number(self.raw(node)[2:-2])
            if node.children[0].type == "[" and re.search(r"\s-[ao]\s", _text(node)):
                return self._tested([word for child in inner for word in self._flat(child)])
            return self.holds(inner[0], node.children[0].type == "[[") if inner else False
        except Undecided:
            return None

    def _flat(self, node: Any) -> list[str]:
        """The words of a condition, whose grammar does not know the ranks of -a and -o."""
        if node.type.endswith("_expression"):
            return [word for child in node.children for word in self._flat(child)]
        return [self.joined(node)]

    def number(self, text: str) -> bool | None:
        """Whether an expression is not 0; what it sets is set."""
        if not text.strip():
            return True
        try:
            return Arithmetic(text, self.text_of, self.put).value() != 0
        except Undecided:
            self._forget({*re.findall(r"([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)", text)})
            self._forget({*re.findall(r"([A-Za-z_]\w*)\s*(?:\+\+|--)", text)})
            self._forget({*re.findall(r"(?:\+\+|--)\s*([A-Za-z_]\w*)", text)})
            return None

    def text_of(self, name: str) -> str:
        value = self.state.variables.get(name)
        if isinstance(value, dict):
            return value.get(0, "")
        return self.unset(name) if value is None else value

    def unset(self, name: str) -> str:
        """A variable that nothing here sets."""
        outside = (self.elsewhere and name.isidentifier()) or _ELSEWHERE.fullmatch(name)
        return unknown(name) if outside else open_(name)

    def holds(self, node: Any, double: bool) -> bool | None:
        """Whether a condition holds. Raises Undecided."""
        kind, named = node.type, node.named_children
        if kind == "parenthesized_expression":
            return self.holds(named[0], double)
        if kind == "unary_expression":
            sign = node.children[0]
            if sign.type == "!":
                held = self.holds(named[-1], double)
                return held if held is None else not held
            return self.unary(_text(sign), self.joined(named[-1]), _text(named[-1]))
        if kind == "negation_expression":
            held = self.holds(named[-1], double)
            return held if held is None else not held
        if kind != "binary_expression":
            return emptied(self.joined(node)) != ""
        first, second = node.children[0], node.children[-1]
        sign = _text(node.children[1])
        if sign in ("&&", "||", "-a", "-o"):
            stops = sign in ("||", "-o")
            held = self._held(first, double)
            if held is stops:
                return stops
            other = self._held(second, double)
            return other if held is (not stops) or other is stops else None
        return self.binary(sign, first, second, double)

    def _held(self, node: Any, double: bool) -> bool | None:
        try:
            return self.holds(node, double)
        except Undecided:
            return None

    def unary(self, sign: str, text: str, source: str) -> bool | None:
        if sign in ("-n", "-z"):
            return (emptied(text) != "") is (sign == "-n")
        if sign == "-v":
            name = source.strip("\"'")
            return name in self.state.variables or (None if is_unknown(self.unset(name)) else False)
        return None  # of files

    def binary(self, sign: str, first: Any, second: Any, double: bool) -> bool | None:
        a = self.joined(first)
        if sign in ("=", "==", "!="):
            if double:
                held = matches(a, self.pattern(second))
            else:
                held = emptied(a) == emptied(self.joined(second))
            return held if held is None else held is (sign != "!=")
        if sign == "=~":
            return matches_regex(
                a, self.joined(second) if second.type != "regex" else self.raw(second)
            )
        if sign in _COMPARED:
            return compared(sign, a, self.joined(second))
        if sign in ("<", ">"):
            return (emptied(a) < emptied(self.joined(second))) is (sign == "<") if double else None
        return None

    def pattern(self, node: Any) -> str:
        """A pattern, its quoted parts as they are."""
        if node.type in ("string", "raw_string", "ansi_c_string"):
            return literal(emptied(self.joined(node)))
        if node.type == "concatenation":
            return "".join(map(self.pattern, node.children))
        if node.type in ("extglob_pattern", "word", "regex"):
            text = self.raw(node)
            if re.search(r"['\"]", text):
                raise Undecided
            return re.sub(r"\\(.)", lambda found: literal(found[1]), text)
        return emptied(self.joined(node))

    def on_command(self, node: Any) -> bool | None:
        assigned = [child for child in node.named_children if child.type == "variable_assignment"]
        others = ("variable_assignment", "file_redirect", "heredoc_redirect")
        parts = [child for child in node.named_children if child.type not in others]
        here = [child for child in parts if child.type == "herestring_redirect"]
        if here:
            self.input = self.joined(here[0].named_children[0])
            parts = [child for child in parts if child not in here]
        words = [word for part in parts for word in self.words(part)]
        if not words:
            return None
        if assigned:

            def way() -> bool | None:
                for child in assigned:
                    self.run(child)
                    self.state.exported.add(_text(child.named_children[0]))
                return self.command(words)

            return self.apart(way)
        status = self.command(words)
        if here:
            self.input = None
        return status

    def command(self, words: list[str]) -> bool | None:
        """Follow a command by its words."""
        name, rest = words[0], words[1:]
        if name in _WRAPPERS and rest:
            inner = [w for w in rest if not re.match(r"-|[A-Za-z_]\w*=", w)]
            status = self.command(rest[rest.index(inner[0]) :]) if inner else None
            if inner and name == "exec" and not self.undecided:
                raise _End("script")
            return status
        if name in self.state.functions:
            return self._called(name, rest)
        way = getattr(self, f"do_{name}", None) if re.fullmatch(r"[a-z]+", name) else None
        if way is not None:
            done: bool | None = way(rest)
            return done
        if name in (":", "true"):
            return True
        if name == "false":
            return False
        if name in ("[", "test"):
            return self._tested([w for w in rest if w != "]"])
        if name in ("source", "."):
            return self._sourced(rest)
        if name == "ssh" and any(" " in word for word in rest):
            return self._inner(["ssh"], next(word for word in rest if " " in word))
        if name in _QUIET:
            return True if name in ("export", "trap", "ulimit", "wait") else None
        if self.state.output is not None:
            self.state.output.append(unknown())
        if (at := next((k for k, word in enumerate(words) if word in _SHELLS), None)) is not None:
            after = words[at + 1 :]
            found = (k for k, word in enumerate(after[:-1]) if re.fullmatch(r"-[a-z]*c", word))
            flag = next(found, None)
            if flag is not None and all(word.startswith("-") for word in after[:flag]):
                return self._inner(words[:at], after[flag + 1])
        self.script.commands.append(words)
        return None

    def _sourced(self, rest: Sequence[str]) -> bool | None:
        """Follow a file of variables beside the script; any other may set what nothing sets here,
        but for those of an environment of programs."""
        for name in map(shown, rest[:1]):
            text = self._beside(name)
            if text is None:
                self.script.sourced.append(name)
                self.elsewhere = self.elsewhere or not _PROGRAMS.search(name)
            else:
                self.text(unmarked(text))
        return None

    def _beside(self, name: str) -> str | None:
        """The text of a file in the script's folder; no others are opened."""
        place = Path(self.path).parent / name.removeprefix("./")
        if "/" in name.removeprefix("./") or not place.is_file():
            return None
        data = read_bytes(str(place), _MOST_LETTERS, "a file of variables", "state its values")
        return data.decode(errors="replace")

    def _inner(self, before: list[str], text: str) -> bool | None:
        """Follow the text of another shell, which has what is exported; `before` launched it."""

        def way() -> bool | None:
            state = self.state
            state.variables = self._passed(before)
            state.functions, state.places, start = {}, [], len(self.script.commands)
            self.text(text)
            for k in range(start, len(self.script.commands)):
                self.script.commands[k] = [*before, *self.script.commands[k]]
            return None

        return self.apart(way)

    def _passed(self, before: Sequence[str]) -> dict[str, Value]:
        """Variables of another shell: those exported, of which a container and another machine have
        none, and those of options; a file of them is not read."""
        exported = {n: v for n, v in self.state.variables.items() if n in self.state.exported}
        made = {} if {"docker", "podman", "ssh"} & {*before} else {**exported}
        for word, after in itertools.pairwise((*before, "")):
            flag, equals, value = word.partition("=")
            text = value if equals else after
            if flag == "--env-file":
                self.script.sourced.append(shown(text))
                self.elsewhere = True
            for each in text.split(",") if flag == "--export" else [text] * (flag in _GIVES):
                name, equals, value = each.partition("=")
                made |= {name: value} if equals else {n: exported[n] for n in {name} & {*exported}}
        return made

    def text(self, text: str) -> None:
        """Follow a text that a value gives; what is open in it stays so."""
        for mark, name in set(re.findall("(\x02\\??([^\x03]*)\x03)", text)):
            held = f"_{'unknown' if is_unknown(mark) else 'open'}_{_NOT_A_NAME.sub('_', name)}"
            self.state.variables[held] = mark
            text = text.replace(mark, f"${{{held}}}")
        if self.depth > _MOST_DEPTH // 2:
            raise InputError(f"{self.path!r} nests its shells too deeply; state its values")
        self.depth += 10
        try:
            self.source(text)
        finally:
            self.depth -= 10

    def do_eval(self, rest: list[str]) -> bool | None:
        self.text(" ".join(rest))
        return None

    def do_echo(self, rest: list[str]) -> bool | None:
        if self.state.output is not None:
            plain = rest[1:] if rest[:1] == ["-n"] else rest
            flags = plain[:1] and re.fullmatch(r"-[neE]+", plain[0])
            self.state.output.append(unknown() if flags else " ".join(plain))
        return True

    def do_cat(self, rest: list[str]) -> bool | None:
        if self.state.output is not None:
            self.state.output.append(unknown() if rest or self.input is None else self.input)
        return None

    def do_exit(self, rest: list[str]) -> bool | None:
        raise _End("script")

    def do_return(self, rest: list[str]) -> bool | None:
        raise _End("function", status=None if not rest or is_open(rest[0]) else rest[0] == "0")

    def do_break(self, rest: list[str]) -> bool | None:
        raise _End("loop", int(rest[0]) if rest[:1] and rest[0].isdigit() else 1)

    def do_continue(self, rest: list[str]) -> bool | None:
        raise _End("round", int(rest[0]) if rest[:1] and rest[0].isdigit() else 1)

    def do_shift(self, rest: list[str]) -> bool | None:
        count = int(rest[0]) if rest[:1] and rest[0].isdigit() else 1
        if count > len(self.state.places):
            return False
        del self.state.places[:count]
        return True

    def do_set(self, rest: list[str]) -> bool | None:
        flags = [word for word in rest if re.fullmatch(r"[-+][a-z]+", word) and word != "--"]
        for flag in flags[: rest.index("--") if "--" in rest else None]:
            if "a" in flag[1:] and flag != "-o":
                self.state.exports = flag[0] == "-"
        if "--" in rest:
            self.state.places = rest[rest.index("--") + 1 :]
        elif rest and not rest[0].startswith(("-", "+")):
            self.state.places = rest
        return True

    def do_let(self, rest: list[str]) -> bool | None:
        return [self.number(word) for word in rest][-1] if rest else None

    def do_read(self, rest: list[str]) -> bool | None:
        names = [word for word in rest if word.isidentifier()]
        array = any(re.fullmatch(r"-[a-z]*a", word) for word in rest)
        given = self.input
        if given is None or array or "IFS" in self.state.variables or is_open(given):
            self._forget({*names})
            return None
        words = given.split("\n")[0].split(None, max(len(names) - 1, 0))
        for k, name in enumerate(names):
            self.put(name, words[k].strip() if k < len(words) else "")
        return True

    def do_mapfile(self, rest: list[str]) -> bool | None:
        self._forget({word for word in rest if word.isidentifier()})
        return None

    do_readarray = do_mapfile

    def do_getopts(self, rest: list[str]) -> bool | None:
        if not self.state.places:
            return False
        self._forget({word for word in rest[1:2] if word.isidentifier()} | {"OPTARG", "OPTIND"})
        return None

    def do_printf(self, rest: list[str]) -> bool | None:
        if self.state.output is not None:
            self.state.output.append(unknown())
        if rest[:1] == ["-v"]:
            self._forget({*rest[1:2]})
        return True

    def _tested(self, words: list[str]) -> bool | None:
        """A condition of words, as `test` takes it."""
        try:
            for mark, stops in (("-o", True), ("-a", False)):
                if mark in words[1:-1]:
                    at = words.index(mark, 1)
                    states = {self._tested(words[:at]), self._tested(words[at + 1 :])}
                    return stops if stops in states else None if None in states else not stops
            if words[:1] == ["!"]:
                held = self._tested(words[1:])
                return held if held is None else not held
            if len(words) == 2:
                return self.unary(words[0], words[1], words[1])
            if len(words) == 3 and words[1] in ("=", "==", "!="):
                return (emptied(words[0]) == emptied(words[2])) is (words[1] != "!=")
            if len(words) == 3:
                return compared(words[1], words[0], words[2])
            return emptied(words[0]) != "" if len(words) == 1 else None
        except Undecided:
            return None

    # Words

    def words(self, node: Any) -> list[str]:
        """The words that a part of a command gives."""
        fields: list[tuple[str, bool]] = [("", False)]
        for text, quoted, ends in self.parts(node, False):
            last, kept = fields[-1]
            if quoted:
                fields[-1] = (last + text, True)
            else:
                pieces = re.split(r"[ \t\n]+", text)
                fields[-1] = (last + pieces[0], kept)
                fields += [(piece, False) for piece in pieces[1:]]
            if ends:
                fields.append(("", False))
        return [text for text, kept in fields if text or kept]

    def joined(self, node: Any) -> str:
        """A part as one text, as an assignment or a condition takes it."""
        rows = [*self.parts(node, True)]
        return "".join(
            text + (" " if ends and k + 1 < len(rows) else "")
            for k, (text, _, ends) in enumerate(rows)
        )

    def parts(self, node: Any, whole: bool) -> list[tuple[str, bool, bool]]:
        """Texts of a part, whether each is quoted, and whether a word ends after it."""
        self.steps += 1
        kind = node.type
        if kind in ("command_name", "concatenation", "variable_assignment"):
            return [row for child in node.children for row in self.parts(child, whole)]
        if kind in _PLAIN:
            text = _text(node)
            if kind == "word" and text.startswith("~"):
                text = unknown("HOME")
            if not whole and re.search(r"(?<!\\)\{[^{}$]*(,|\.\.)[^{}]*\}", text):
                return [(unknown("BRACES"), True, False)]
            text = re.sub(r"\\(\n?)(.?)", lambda f: "" if f[1] else f[2], text, flags=re.DOTALL)
            return [(text, True, False)]
        if kind == "raw_string":
            return [(_text(node)[1:-1], True, False)]
        if kind == "ansi_c_string":
            return [(_ansi(_text(node)[2:-1]), True, False)]
        if kind in ("string", "translated_string"):
            return self._quoted(node)
        if kind in _FILLED:
            return self._filled(node, False)
        if kind == "brace_expression":
            first, last = (int(_text(child)) for child in node.named_children[:2])
            if abs(last - first) > _MOST_ROUNDS:
                return [(unknown("BRACES"), True, False)]
            row = range(first, last + (1 if last >= first else -1), 1 if last >= first else -1)
            return [(str(number), True, number != last) for number in row]
        if not node.is_named:
            return [(_text(node), True, False)]
        return [(unknown(kind.upper()), True, False)]

    def _quoted(self, node: Any) -> list[tuple[str, bool, bool]]:
        made: list[tuple[str, bool, bool]] = [("", True, False)]
        at = node.start_byte + len(_text(node.children[0]))
        for child in node.children[1:-1]:
            gap = _between(node, at, child.start_byte)
            made += [(gap, True, False)] if gap else []
            at = child.end_byte
            if child.is_named and child.type != "string_content":  # spaces are of its first mark
                text = _text(child)
                made.append((text[: len(text) - len(text.lstrip())], True, False))
            if child.type in _FILLED:
                made += self._filled(child, True)
            else:
                text = re.sub(
                    r"\\([$`\"\\\n])", lambda f: "" if f[1] == "\n" else f[1], _text(child)
                )
                made.append((text, True, False))
        return [*made, (_between(node, at, node.end_byte - 1), True, False)]

    def _filled(self, node: Any, quoted: bool) -> list[tuple[str, bool, bool]]:
        if node.type == "simple_expansion":
            return self._value(_text(node.named_children[0]), quoted)
        if node.type == "expansion":
            return self._expansion(node, quoted)
        if node.type == "arithmetic_expansion":
            return [(self._sum(node), True, False)]
        return [(self._output(node), quoted, False)]

    def raw(self, node: Any) -> str:
        """The source of a part with values in place of expansions."""
        made, at = "", node.start_byte
        for child in node.children:
            made, at = made + _between(node, at, child.start_byte), child.end_byte
            if child.type in (*_FILLED, "string"):
                inner = _text(child)
                made += inner[: len(inner) - len(inner.lstrip())] + self.joined(child)
            elif child.child_count:
                made += self.raw(child)
            else:
                made += _text(child)
        return made + _between(node, at, node.end_byte)

    def _sum(self, node: Any) -> str:
        text = self.raw(node).strip()
        inner = text[3:-2] if text.startswith("$((") else text[2:-1]
        try:
            return str(Arithmetic(inner, self.text_of, self.put).value())
        except Undecided:
            self.number(inner)
            return unknown("SUM")

    def _output(self, node: Any) -> str:
        """What the commands of a substitution print."""
        outer = self.state.output
        self.state.output = []
        try:
            self.apart(lambda: self.body(node))
            lines = self.state.output or []
        finally:
            self.state.output = outer
        return "\n".join(lines).rstrip("\n")

    def _value(
        self,
        name: str,
        quoted: bool,
        rule: str = "",
        other: Callable[[], list[tuple[str, bool, bool]]] = list,
        key: Any = None,
    ) -> list[tuple[str, bool, bool]]:
        """The value of a variable, of one element, or of all; by a rule such as :- if unset."""
        state = self.state
        value: Value | None
        if name in ("@", "*"):
            value, key = dict(enumerate(state.places)), name
        elif name == "#":
            value = str(len(state.places))
        elif name.isdigit() and name != "0":
            value = state.places[int(name) - 1] if int(name) <= len(state.places) else None
        else:
            value = state.variables.get(name)
        if key is not None and key not in ("@", "*"):
            row = value if isinstance(value, dict) else {0: value} if value is not None else {}
            place = int(key) if re.fullmatch(r"\d{1,9}", str(key)) else key
            value = unknown(name) if is_open(str(key)) or _UNCOUNTED in row else row.get(place)
            if value is None and name in state.variables:
                value = ""
        elif isinstance(value, dict) and key is None:
            value = value.get(0, "") if _UNCOUNTED not in value else unknown(name)
        is_set = value is not None and value != {}
        here: str | None = "".join(value.values()) if isinstance(value, dict) else value
        if value is None and is_unknown(self.unset(name)):
            here, is_set = unknown(name), True
        if rule:
            bare = rule.strip(":")
            bare_value = here is not None and not is_unknown(here) and emptied(here) == ""
            empty = not is_set or (":" in rule and bare_value)
            undecided = here is not None and is_unknown(here) and not isinstance(value, dict)
            if undecided and bare == "+":
                return [(" ".join(map(maybe, text.split())), q, ends) for text, q, ends in other()]
            if undecided and bare in "-=":
                return [(unknown(name), True, False)]
            if bare == "+":
                return [] if empty else other()
            if empty and bare in "-=":
                made = other()
                if bare == "=":
                    self.put(name, "".join(text for text, _, _ in made))
                return made
        if isinstance(value, dict):
            rows = [text for place, text in value.items() if place != _UNCOUNTED]
            if key == "*" and quoted:
                return [(" ".join(rows), True, False)]
            return [(text, quoted, k + 1 < len(rows)) for k, text in enumerate(rows)]
        if value is None and not is_set:
            return [(open_(name), True, False)]
        return [(here or "", quoted, False)]

    def _expansion(self, node: Any, quoted: bool) -> list[tuple[str, bool, bool]]:
        """${NAME...}: with a default, a part cut off or replaced, its length, another name's."""
        parts = [*node.children[1:-1]]
        sign = parts.pop(0).type if parts and not parts[0].is_named else ""
        if not parts:
            return self._value(sign, quoted) if sign else [(unknown(), True, False)]
        name, key = parts.pop(0), None
        if name.type == "subscript":
            inner = name.named_children
            key = self.joined(inner[1]) if len(inner) > 1 else "?"
            if key not in ("@", "*") and not re.fullmatch(r"\d+", key):
                row = self.state.variables.get(_text(inner[0]))
                is_map = isinstance(row, dict) and key in row
                if not is_map and not is_open(key):
                    try:
                        key = str(Arithmetic(key, self.text_of, self.put).value())
                    except Undecided:
                        key = unknown()
            name = inner[0]
        called = _text(name)
        rows = self._value(called, quoted, key=key)
        if sign == "!":
            target = "".join(text for text, _, _ in rows)
            if target.isidentifier() and not parts:
                return self._value(target, quoted)
            return [(unknown(called), quoted, False)]
        if sign == "#":
            value = self.state.variables.get(called)
            if key in ("@", "*"):
                if isinstance(value, dict) and _UNCOUNTED in value:
                    return [(unknown(called), True, False)]
                every = self.state.places if called in "@*" else [] if value is None else [value]
                return [(str(len(value if isinstance(value, dict) else every)), True, False)]
            text = "".join(text for text, _, _ in rows)
            sure = not is_open(text) and "\x04" not in text
            return [(str(len(text)) if sure else unknown(called), True, False)]
        if not parts:
            return rows
        rule, *operands = parts
        if rule.type in (":-", "-", ":=", "=", ":+", "+", ":?", "?"):
            if rule.type.strip(":") == "?":
                return rows

            def other() -> list[tuple[str, bool, bool]]:
                made = [row for part in operands for row in self.parts(part, True)]
                if any(part.type in ("string", "raw_string") for part in operands):
                    return made
                return [(text, quoted, ends) for text, _, ends in made]

            return self._value(called, quoted, rule.type, other, key)
        return [(self._cut(text, rule.type, operands, called), q, ends) for text, q, ends in rows]

    def _cut(self, text: str, rule: str, operands: Sequence[Any], name: str) -> str:
        if is_open(text):
            return unknown(name)
        try:
            if rule in ("#", "##", "%", "%%"):
                return _without(text, rule, "".join(map(self.pattern, operands)))
            if rule in ("^^", ",,") and not operands:
                return text.upper() if rule == "^^" else text.lower()
            if rule in ("^", ",") and not operands:
                return (text[:1].upper() if rule == "^" else text[:1].lower()) + text[1:]
            if rule in ("/", "//"):
                named = [part for part in operands if part.is_named]
                pattern = self.pattern(named[0])
                new = "".join(map(self.joined, named[1:]))
                if re.search(r"[*?\[\\]", pattern) or pattern[:1] in ("#", "%", "") or is_open(new):
                    return unknown(name)
                return text.replace(pattern, new, -1 if rule == "//" else 1)
            if rule == ":":
                numbers = "".join(self.raw(p) if p.child_count else _text(p) for p in operands)
                first, _, length = numbers.partition(":")
                start = Arithmetic(first, self.text_of, self.put).value()
                cut = text[start:] if start >= 0 else text[max(len(text) + start, 0) :]
                if not length:
                    return cut
                most = Arithmetic(length, self.text_of, self.put).value()
                return cut[:most]
        except Undecided:
            pass
        return unknown(name)


def _clause(node: Any) -> tuple[list[Any], list[Any]]:
    """The conditions and the statements of an if, elif or else."""
    rows: tuple[list[Any], list[Any]] = [], []
    at = int(node.type == "else_clause")
    for child in node.children:
        at = 1 if child.type == "then" else at
        if child.is_named and child.type not in (*_CLAUSES, "comment"):
            rows[at].append(child)
    return rows


def compared(sign: str, first: str, second: str) -> bool | None:
    """A comparison of whole numbers; None for texts that are none."""
    texts = [first.strip(), second.strip()]
    if sign not in _COMPARED or not all(re.fullmatch(r"-?\d{1,18}", text) for text in texts):
        return None
    return _COMPARED[sign](int(texts[0]), int(texts[1]))


def _without(text: str, rule: str, pattern: str) -> str:
    """A text without what matches at its beginning (#) or end (%); the most of it if twice."""
    cuts = range(len(text) + 1) if len(text) <= 1000 else range(0)
    order = cuts if (rule in ("#", "%%")) else reversed(cuts)
    for at in order:
        piece = text[:at] if rule[0] == "#" else text[at:]
        if matches(piece, pattern):
            return text[at:] if rule[0] == "#" else text[:at]
    return text


def _is_arguments(value: Value | None) -> bool:
    row = value.values() if isinstance(value, dict) else (value or "").split()
    return isinstance(value, dict) or any(map(is_flag, row))


def _ansi(text: str) -> str:
    marks = {"n": "\n", "t": "\t", "'": "'", '"': '"', "\\": "\\"}
    return re.sub(r"\\(.)", lambda found: marks.get(found[1], found[0]), text)


def _between(node: Any, first: int, last: int) -> str:
    """The source of a node from one byte of the script to another."""
    start = node.start_byte
    return str(node.text[first - start : last - start].decode("utf-8", "replace"))


def _text(node: Any) -> str:
    return str(node.text.decode("utf-8", "replace"))
