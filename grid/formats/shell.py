"""A launch script, read and never executed: what it launches, with which arguments.

A grammar of bash gives the tree, which is followed over values that may be open (`shell_words`).
Where a condition is not known both branches are followed, and what differs after them is open;
what is not understood makes open all that it could set. A shell is the judge (the tests ask one).
"""

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from .shell_expand import (
    ELSEWHERE,
    MOST_DEPTH,
    MOST_LETTERS,
    MOST_ROUNDS,
    TOO_MUCH,
    UNCOUNTED,
    State,
    Value,
    Words,
    spans,
    text_of,
)
from .shell_words import (
    Undecided,
    is_flag,
    is_list_open,
    is_program,
    is_open,
    is_unknown,
    matches,
    matches_regex,
    maybe,
    merged,
    merged_words,
    options,
    shown,
    split_fields,
    stands_alone,
    unknown,
    unmarked,
)

__all__ = ["Script", "options", "plain", "read", "shown", "split", "stands_alone"]
_QUIET = (
    "ulimit",
    "umask",
    "trap",
    "wait",
    "shopt",
    "alias",
    "unalias",
    "export",
    "cd",
    "popd",
    "pushd",
)
_WRAPPERS = (
    *("env", "nohup", "exec", "time", "command", "builtin", "sudo", "setsid", "stdbuf", "numactl"),
    *("timeout", "taskset", "nice", "unbuffer"),
)
_SHELLS = re.compile(r"(/usr)?(/bin/)?(ba|da|z)?sh")
_SETS = (
    "read",
    "mapfile",
    "readarray",
    "let",
    "getopts",
    "printf",
    "eval",
    "source",
    ".",
    "export",
)
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    **{"-eq": int.__eq__, "-ne": int.__ne__, "-gt": int.__gt__},
    **{"-ge": int.__ge__, "-lt": int.__lt__, "-le": int.__le__},
}
# Files and outputs that prepare an environment, and set nothing that a launch depends on
_PREPARES = re.compile(r"activate|conda|bashrc|profile|modul|lmod|spack|setvars|set_env|ssh-agent")
_NAME = re.compile(r"[A-Za-z_]\w*")
Status = bool | None  # whether a command succeeds; None: not known


@dataclass
class Script:
    """What a script launches: commands with values filled in, those of branches that may not be
    taken among them; texts that it writes in place; files that it sources; what it takes as not
    set; lines that are not understood; variables at its end."""

    commands: list[list[str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    sourced: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    not_understood: list[int] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


class _End(Exception):  # noqa: N818 - no error
    """The end of a loop's round, a loop, a function or the script; of none: no way goes on."""

    def __init__(self, of: str, count: int = 1, status: Status = True) -> None:
        self.of, self.count, self.status = of, count, status


def read(text: str, path: str, known: dict[str, str] | None = None) -> Script:
    """Read a script; `known` are variables of its environment. Raises InputError."""
    if len(text) > MOST_LETTERS:
        raise InputError(
            f"{path!r} has more than {MOST_LETTERS:,} letters, as no launch script has; give one"
        )
    reader = _Reader(path)
    reader.state.variables |= known or {}
    reader.state.exported |= {*(known or ())}
    try:
        reader.source(unmarked(text.replace("\r\n", "\n").replace("\r", "\n")))
    except RecursionError:
        raise InputError(TOO_MUCH.format(path)) from None
    made = reader.script
    made.assumed = [*reader.assumed]
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


def split(text: str) -> list[str]:
    """Words of a text that may hold quotes of its own."""
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


class _Reader(Words):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.script = Script()
        self.undecided = 0  # branches around that may not be taken
        self.locals: list[dict[str, tuple[Value | None, int]]] = []  # what functions hide
        # States in which a round, a loop or a function may have ended, by which of them
        self.frames: list[dict[str, list[State]]] = []

    # Trees

    def source(self, text: str) -> None:
        """Follow a whole text; an `exit` ends it."""
        text = re.sub(r"`[ \t]*#[^`\n$]*`", lambda found: " " * len(found[0].encode()), text)
        with contextlib.suppress(_End):
            self.body(self.parsed(text))

    def body(self, node: Any) -> Status:
        return self.all(node.named_children)

    def all(self, statements: Sequence[Any]) -> Status:
        """Follow statements in order; those around what the grammar does not know may be none."""
        status: Status = True
        wrong = [k for k, each in enumerate(statements) if each.has_error]
        for k, each in enumerate(statements):
            if wrong and wrong[0] <= k <= wrong[-1]:
                self.script.not_understood.append(each.start_point[0] + 1)
                status = self.either(lambda each=each: self.run(each), lambda: None)  # type: ignore[misc]
                self.forget(self.set_within(each))
            else:
                status = self.run(each)
        return status

    def run(self, node: Any) -> Status:
        """Follow a statement; whether it succeeds, None where that is not known."""
        way = getattr(self, f"on_{node.type}", self._not_understood)
        after = node.next_sibling
        if after is not None and after.type == "&":
            return self.apart(lambda: bool(self.inside(lambda: way(node))) or True)
        status: Status = self.inside(lambda: way(node))
        return status

    def _not_understood(self, node: Any) -> Status:
        if node.type in ("comment", "heredoc_body", "word", "file_redirect"):
            return True
        self.forget(self.set_within(node))
        words = text_of(node).split()
        if node.type == "ERROR" and any(word.startswith("--") for word in words):
            self.script.commands.append([maybe(word) for word in words])
        return None

    def on_ERROR(self, node: Any) -> Status:  # noqa: N802 - the grammar's name
        known = [child for child in node.named_children if hasattr(self, f"on_{child.type}")]
        self.all(known)
        return self._not_understood(node)

    def set_within(self, node: Any, seen: frozenset[str] = frozenset()) -> set[str]:
        """Names that a part of a script could set, by functions that it calls as well."""
        made: set[str] = set()
        stack = [node]
        while stack:
            here = stack.pop()
            stack += here.named_children
            parts = here.named_children
            if here.type in ("variable_assignment", "subscript"):
                made.add(re.split(r"[\[+=]", text_of(here), maxsplit=1)[0])
            elif here.type in ("for_statement", "postfix_expression", "unary_expression"):
                made |= {text_of(each) for each in parts[:1]}
            elif here.type == "binary_expression":
                made |= {text_of(each) for each in parts[:1]} if "=" in text_of(here) else set()
            elif here.type in ("declaration_command", "unset_command"):
                made |= {text_of(each) for each in parts if each.type == "variable_name"}
            elif here.type == "command" and parts:
                name = next((text_of(c) for c in parts if c.type == "command_name"), "")
                if name in _SETS:
                    made |= {n for each in parts[1:] for n in _NAME.findall(text_of(each))}
                if name in self.state.functions and name not in seen:
                    for each in filter(None, self.state.functions[name]):
                        made |= self.set_within(each, seen | {name})
        return {name for name in made if name.isidentifier()}

    def forget(self, names: set[str]) -> None:
        """Make variables open; words of arguments stay, and may not be there."""
        for name in names:
            before = self.state.variables.get(name)
            self.state.variables[name] = merged(before, unknown(name), name)

    # Branches

    def either(self, *ways: Callable[[], Status]) -> Status:
        """Follow several ways of which one is taken, each from the same state."""
        start, after, statuses = self.state, [], set()
        self.undecided += 1
        for way in ways:
            self.state = start.copy()
            try:
                statuses.add(way())
                after.append(self.state)
            except _End as end:
                self._park(end)
        self.undecided -= 1
        if not after:
            raise _End("none")
        self.state = after[0]
        for other in after[1:]:
            self._join(other)
        return statuses.pop() if len(statuses) == 1 else None

    def _park(self, end: _End) -> None:
        """Keep a state for the place where it goes on; an exit has none."""
        count = end.count
        for frame in reversed(self.frames):
            if end.of in frame:
                count -= 1
                if not count:
                    frame[end.of].append(self.state)
                    return
            elif "function" in frame:
                return

    def _join(self, other: State) -> None:
        here = self.state
        for name in {*here.variables, *other.variables}:
            value = merged(here.variables.get(name), other.variables.get(name), name)
            if value is None:
                here.variables.pop(name, None)
            else:
                here.variables[name] = value
        here.exported |= other.exported
        here.sourced |= other.sourced
        for name in {*here.functions, *other.functions}:
            rows = (here.functions.get(name, (None,)), other.functions.get(name, (None,)))
            here.functions[name] = tuple({id(each): each for row in rows for each in row}.values())
        for name in {*here.kinds, *other.kinds}:
            if here.kinds.get(name) != other.kinds.get(name):
                here.kinds[name] = "r"  # whatever is put into it is not known
        here.files = {n: text for n, text in here.files.items() if other.files.get(n) == text}
        if here.places != other.places:
            here.places = merged_words(here.places, other.places)
        if here.output != other.output:
            here.output = [unknown()]
        if here.lines != other.lines:
            here.lines = None

    def _joined_with(self, parked: list[State], alive: bool) -> bool:
        """Join parked states with this one, if a way leads here; whether any does."""
        states = [self.state] * alive + parked
        if states:
            self.state = states[0]
            for other in states[1:]:
                self._join(other)
        parked.clear()
        return bool(states)

    def on_if_statement(self, node: Any) -> Status:
        rows: list[tuple[list[Any], list[Any]]] = [([], [])]  # conditions, statements
        target = rows[-1][0]
        stack = [*reversed(node.children)]
        while stack:
            part = stack.pop()
            if part.type in ("elif_clause", "else_clause"):
                rows.append(([], []))
                stack += reversed(part.children)
            elif part.type in ("then", "else"):
                target = rows[-1][1]
            elif part.type == "elif":
                target = rows[-1][0]
            elif part.is_named and part.type != "comment":
                target.append(part)
        return self._first_of(rows)

    def _first_of(self, rows: Sequence[tuple[list[Any], list[Any]]]) -> Status:
        if not rows:
            return True
        (condition, statements), *others = rows
        status = self.all(condition) if condition else True
        if status is None:
            return self.either(lambda: self.all(statements), lambda: self._first_of(others))
        return self.all(statements) if status else self._first_of(others)

    def on_list(self, node: Any) -> Status:
        first, second = node.named_children[0], node.named_children[-1]
        both = any(child.type == "&&" for child in node.children)
        status = self.run(first)
        if status is None:
            other = self.either(lambda: self.run(second), lambda: not both)
            return other if other is (not both) else None
        return self.run(second) if status is both else status

    def on_case_statement(self, node: Any) -> Status:
        subject = self.joined(node.named_children[0])
        return self._items(subject, [c for c in node.named_children if c.type == "case_item"])

    def _items(self, subject: str, items: Sequence[Any], falls: bool = False) -> Status:
        """Follow the items of a case from one on; `falls`: into its statements."""
        if not items:
            return True
        item, *others = items
        at = next((k for k, c in enumerate(item.children) if c.type == ")"), len(item.children))
        patterns = [child for child in item.children[:at] if child.is_named]
        ends = next((c.type for c in item.children if c.type in (";;", ";&", ";;&")), ";;")
        statements = [child for child in item.children[at + 1 :] if child.is_named]

        def taken() -> Status:
            status = self.all(statements)
            return status if ends == ";;" else self._items(subject, others, falls=ends == ";&")

        try:
            states = {matches(self.known(subject), self.pattern(each)) for each in patterns}
        except Undecided:
            states = {None}
        if falls or True in states:
            return taken()
        if None in states:
            return self.either(taken, lambda: self._items(subject, others))
        return self._items(subject, others)

    # Loops and functions

    def _rounds(self, node: Any, once: Callable[[], Status], more: Callable[[], Status]) -> None:
        """Follow a loop: `more` says whether another round begins. Where it is not known, all that
        the loop sets is open from its first round on."""
        frame: dict[str, list[State]] = {"round": [], "loop": []}
        self.frames.append(frame)
        try:
            alive = self._known_rounds(frame, once, more)
            if alive is None:
                names = self.set_within(node)
                rows = {n for n in names if _is_arguments(self.state.variables.get(n))}
                self.forget(names - rows)
                more_of = self.state.copy()
                try:
                    alive = self._once(frame, once)
                except _End as end:
                    if end.of != "loop":
                        self._park(end)
                    else:
                        frame["loop"].append(self.state)
                    alive = False
                self.forget(names - rows)
                alive = self._joined_with([more_of, *frame["loop"]], alive)
                frame["loop"] = []
        finally:
            self.frames.pop()
        if not self._joined_with(frame["loop"], bool(alive)):
            raise _End("none")

    def _known_rounds(
        self, frame: dict[str, list[State]], once: Callable[[], Status], more: Callable[[], Status]
    ) -> bool | None:
        """Follow rounds that are known; whether a way leads out, None where more are not known."""
        for _ in range(MOST_ROUNDS):
            again = more()
            if again is None:
                return None
            if not again:
                return True
            try:
                if not self._once(frame, once):
                    return False
            except _End as end:
                if end.of != "loop":
                    raise
                return True
        return None

    def _once(self, frame: dict[str, list[State]], once: Callable[[], Status]) -> bool:
        """Follow a round; whether a way leads to the next. Raises _End of the loop or beyond."""
        alive = True
        try:
            once()
        except _End as end:
            if end.of in ("loop", "round") and end.count > 1:
                raise _End(end.of, end.count - 1) from None
            if end.of not in ("round", "none"):
                raise
            alive = end.of == "round"
        return self._joined_with(frame["round"], alive)

    def on_for_statement(self, node: Any) -> Status:
        name, *parts = node.named_children
        body, target = parts.pop(), text_of(name)
        words = [word for part in parts for word in self.words(part)]
        if not any(child.type == "in" for child in node.children):
            words = [*self.state.places]
        queue = iter(words)
        sure = not is_list_open(words) and node.children[0].type == "for"

        def more() -> Status:
            if not sure or len(words) > MOST_ROUNDS:
                self.put(target, unknown(target))
                return None
            word = next(queue, None)
            if word is not None:
                self.put(target, word)
            return word is not None

        self._rounds(node, lambda: self.run(body), more)
        return None

    def on_c_style_for_statement(self, node: Any) -> Status:
        marks = {"((": [0], ";": [], "))": []}
        for child in node.children:
            if child.type in marks:
                marks[child.type].append(child.start_byte)
        begin = marks["(("][-1] + 2
        ends = [begin, *(at + 1 for at in marks[";"][:2]), marks["))"][0] + 1]

        def part(k: int) -> Status:
            text = self.raw(node, ends[k], ends[k + 1] - 1).strip()
            return self.number(text) if text else True

        if len(ends) != 4:
            return self._not_understood(node)
        part(0)
        first = True

        def more() -> Status:
            nonlocal first
            if not first:
                part(2)
            first = False
            return part(1)

        self._rounds(node, lambda: self.run(node.named_children[-1]), more)
        return None

    def on_while_statement(self, node: Any) -> Status:
        condition, body = node.named_children[:-1], node.named_children[-1]
        until = node.children[0].type == "until"

        def more() -> Status:
            status = self.all(condition)
            return status if status is None else status is not until

        self._rounds(node, lambda: self.run(body), more)
        return None

    def on_function_definition(self, node: Any) -> Status:
        self.state.functions[text_of(node.named_children[0])] = (node.named_children[-1],)
        return True

    def _called(self, name: str, words: list[str]) -> Status:
        bodies = self.state.functions[name]
        if len(bodies) > 1:
            return self.either(*(lambda b=b: self._body_called(b, words) for b in bodies))
        return self._body_called(bodies[0], words)

    def _body_called(self, body: Any, words: list[str]) -> Status:
        if body is None:
            return False
        places, frame = self.state.places, {"function": []}  # type: ignore[var-annotated]
        shadowed: dict[str, tuple[Value | None, int]] = {}
        self.locals.append(shadowed)
        self.frames.append(frame)
        self.state.places = [*words]
        status, alive = None, True
        try:
            status = self.run(body)
        except _End as end:
            if end.of not in ("function", "none"):
                raise
            status, alive = end.status, end.of == "function"
        finally:
            self.frames.pop()
            self.locals.pop()
        if frame["function"]:
            status = None
        if not self._joined_with(frame["function"], alive):
            raise _End("none")
        self.state.places = places
        for each, (value, undecided) in shadowed.items():
            if undecided != self.undecided:
                value = merged(value, self.state.variables.get(each), each)
            self._set_back(each, value)
        return status

    def _set_back(self, name: str, value: Value | None) -> None:
        if value is None:
            self.state.variables.pop(name, None)
        else:
            self.state.variables[name] = value

    def on_do_group(self, node: Any) -> Status:
        return self.body(node)

    def on_compound_statement(self, node: Any) -> Status:
        if node.children[0].type != "((":
            return self.body(node)
        return self.number(self.raw(node).strip()[2:-2])

    def on_subshell(self, node: Any) -> Status:
        return self.apart(lambda: self.body(node))

    def apart(self, way: Callable[[], Status]) -> Status:
        """Follow what runs in a shell of its own: what it sets stays there."""
        before, frames = self.state, self.frames
        self.state, self.frames = before.copy(), []
        try:
            return way()
        except _End as end:
            return end.status if end.of == "script" else None
        finally:
            before.output, before.files = self.state.output, self.state.files
            self.state, self.frames = before, frames

    def on_pipeline(self, node: Any) -> Status:
        outer = self.state.output
        status: Status = None
        lines = self.state.lines
        for part in node.named_children:
            status = self.apart(lambda part=part: self.run(part))  # type: ignore[misc]
            self.state.output, self.state.lines = outer, None
        self.state.lines = lines
        if outer is not None:
            self.state.output = [*outer, unknown()]
        return None if node.named_children[0].type == "negated_command" else status

    def on_negated_command(self, node: Any) -> Status:
        status = self.run(node.named_children[0])
        return status if status is None else not status

    def on_redirected_statement(self, node: Any) -> Status:
        first, outer, lines = node.named_children[0], self.state.output, self.state.lines
        target, here = "", None
        within = [c for c in node.named_children if c.type == "heredoc_redirect"]
        rest = [part for child in within for part in child.named_children]
        for child in [*node.named_children, *rest]:
            if child.type == "file_redirect":
                mark = next((c.type for c in child.children if ">" in c.type or "<" in c.type), "")
                if mark == "<":
                    here = unknown()
                elif child.named_children and child.children[0].type != "file_descriptor":
                    target = self.joined(child.named_children[-1])
            elif child.type == "heredoc_body":
                here = self._fed(child)
            elif child.type == "herestring_redirect":
                here = self.joined(child.named_children[0])
        if here is not None:
            self.script.texts += [shown(here)]
            self.state.lines = (
                None if is_open(here) and here.count("\x02") * 3 > len(here) else here.split("\n")
            )
            self.state.lines = here.removesuffix("\n").split("\n") if here != unknown() else None
        status: Status = True
        words = text_of(first).split()
        if here is not None and target and words[:1] in (["cat"], ["tee"]):
            self.state.files[shown(target)] = here
        elif words == ["tee"] and here is not None:
            pass
        elif "redirect" not in first.type:
            status = self.run(first)
        self.state.lines = lines
        for part in rest:  # cat <<EOF | ..., && ...
            if part.type in ("command", "pipeline", "list"):
                self.run(part)
        if outer is not None and target:
            self.state.output = outer
        return status

    def _fed(self, body: Any) -> str:
        """The text of a here-document."""
        marks = {child.type: text_of(child) for child in body.parent.children}
        text = text_of(body)
        if marks.get("heredoc_start", "")[:1] not in ("'", '"', "\\"):
            parts = spans(body, body.start_byte, body.end_byte)
            text = "".join(
                re.sub(r"\\([$`\\\n])", lambda f: f[1].replace("\n", ""), part)
                if isinstance(part, str)
                else text_of(part)
                if part.type in ("string", "raw_string")
                else self.joined(part)
                for part in parts
            )
        return re.sub(r"^\t+", "", text, flags=re.M) if "<<-" in marks else text

    # Assignments

    def on_variable_assignment(self, node: Any) -> Status:
        name, value = node.named_children[0], node.named_children[1:]
        grows = any(child.type == "+=" for child in node.children)
        key: Any = None
        if name.type == "subscript":
            name, *at = name.named_children
            key = self.key_at(text_of(name), at)
        name = text_of(name)
        if value and value[0].type == "array":
            self._put_array(name, value[0], grows)
            return True
        text = "".join(map(self.joined, value))
        before = self.state.variables.get(name)
        if key is not None:
            self._put_key(name, key, text, grows)
        elif isinstance(before, dict):
            self._put_key(name, 0, text, grows)
        elif grows and "i" in self.state.kinds.get(name, ""):
            self.put(name, unknown(name))
        else:
            self.put(name, (str(before or "") if grows else "") + text)
        return None if any("substitution" in part.type for part in value) else True

    def _put_key(self, name: str, key: Any, text: str, grows: bool) -> None:
        before = self.state.variables.get(name)
        row = dict(before) if isinstance(before, dict) else {0: before} if before else {}
        if isinstance(key, int) and key < 0:
            key += 1 + max((k for k in row if isinstance(k, int)), default=-1)
        if is_open(str(key)):
            self.put(name, {k: unknown(name) for k in row} | {UNCOUNTED: ""})
        else:
            self.put(name, {**row, key: (row.get(key, "") if grows else "") + text})

    def _put_array(self, name: str, node: Any, grows: bool) -> None:
        before = self.state.variables.get(name)
        row: dict[Any, str] = {}
        if grows and before is not None:
            row = dict(before) if isinstance(before, dict) else {0: before}
        at = 1 + max((k for k in row if isinstance(k, int)), default=-1)
        for part in node.named_children:
            if part.type == "comment":
                continue
            if re.match(r"\[[^\]]*\]=", text_of(part)):
                inner = re.fullmatch(r"\[([^\]]*)\]=(.*)", self.joined(part), re.DOTALL)
                key = self.key_of(name, inner[1]) if inner else unknown()
                if inner and not is_open(str(key)):
                    row[key], at = inner[2], key + 1 if isinstance(key, int) else at
                else:
                    row[UNCOUNTED] = ""
                continue
            for word in self.words(part):
                row[at] = word
                at += 1
                if is_list_open([word]):  # none, or several words
                    row[UNCOUNTED] = ""
        self.put(name, row)

    def on_variable_assignments(self, node: Any) -> Status:
        return self.body(node)

    def on_declaration_command(self, node: Any) -> Status:
        word = node.children[0].type
        rest = node.named_children
        flags = "".join(text_of(c)[1:] for c in rest if re.match(r"-[A-Za-z]", text_of(c)))
        kinds = "".join(sorted({*flags} & {*"Ailnur"})) + ("r" if word == "readonly" else "")
        if word == "local" and not self.locals:
            return False
        for child in rest:
            if child.type in ("variable_assignment", "variable_name"):
                name = re.split(r"[\[+=]", text_of(child), maxsplit=1)[0]
                self._declared(word, name, flags)
                first = kinds.replace("r", "")
                if first:
                    self.state.kinds[name] = first.replace("n", "")
                if child.type == "variable_assignment":
                    self.run(child)
                if kinds:
                    self.state.kinds[name] = kinds
                if word == "export" or "x" in flags:
                    self.state.exported.add(name)
            else:
                for each in self.words(child):
                    self._assigned(word, each, flags)
        return True

    def _declared(self, word: str, name: str, flags: str) -> None:
        hides = word == "local" or (word in ("declare", "typeset") and "g" not in flags)
        if not (hides and self.locals):
            return
        if name not in self.locals[-1]:
            self.locals[-1][name] = (self.state.variables.get(name), self.undecided)
            self.state.variables.pop(name, None)
            self.state.kinds.pop(name, None)

    def _assigned(self, word: str, text: str, flags: str) -> None:
        """Follow a declaration whose name a value gives."""
        name, equals, value = text.partition("=")
        if text.startswith("-"):
            return
        if name.isidentifier():
            self._declared(word, name, flags)
            if equals:
                self.put(name, value)
            if word == "export" or "x" in flags:
                self.state.exported.add(name)
        elif is_open(name) and equals:
            self.forget({*self.state.variables})
            self.state.sourced = True

    def on_unset_command(self, node: Any) -> Status:
        source = [word for word in text_of(node).split()[1:] if not word.startswith("-")]
        for word in source:
            name, _, key = word.strip("'\"").partition("[")
            row = self.state.variables.get(name)
            if not name.isidentifier():
                self.forget({*self.state.variables})
            elif not key:
                self.state.variables.pop(name, None)
                self.state.kinds.pop(name, None)
                if name not in self.state.kinds:
                    self.state.functions.pop(name, None)
            elif isinstance(row, dict):
                at = self.key_of(name, key.rstrip("]").strip("'\""))
                if at in row:
                    self.put(name, {k: text for k, text in row.items() if k != at})
                elif is_open(str(at)) or UNCOUNTED in row or re.search(r"[$*@]", key):
                    self.forget({name})
        return True

    # Conditions

    def on_test_command(self, node: Any) -> Status:
        inner = node.children[1:-1]
        if node.children[0].type == "((":
            return self.number(self.raw(node).strip()[2:-2])
        double = node.children[0].type == "[["
        row = self._leaves(inner)
        return self._condition(row if double else self._test_words(row), double)

    def _leaves(self, nodes: Sequence[Any]) -> list[Any]:
        made = []
        stack = [*reversed(nodes)]
        while stack:
            node = stack.pop()
            if node.type.endswith("_expression"):
                stack += reversed(node.children)
            else:
                made.append(node)
        return made

    def _test_words(self, nodes: Sequence[Any]) -> list[Any]:
        """Words of `test`, without those of variables that nothing sets."""
        rows = [(node, word) for node in nodes for word in self.words(node)]
        made = []
        for node, word in rows:
            bare = node.type in ("simple_expansion", "expansion") and is_open(word)
            if bare and not is_unknown(word) and not self.known(word):
                continue
            made.append(word)
        return made

    def _condition(self, row: list[Any], double: bool) -> Status:
        """Whether a condition holds, by the ranks of or, and, not."""
        try:
            held = self.inside(lambda: self._either_of(row, double))
        except Undecided:
            return None
        return None if row else held

    def _either_of(self, row: list[Any], double: bool, stops: bool = True) -> Status:
        marks = ("||", "-o") if stops else ("&&", "-a")
        rows = set()
        while True:
            rows.add(self._either_of(row, double, False) if stops else self._not(row, double))
            if not row or self._mark(row[0]) not in marks[double is False :][:1]:
                break
            row.pop(0)
        return stops if stops in rows else None if None in rows else not stops

    def _mark(self, token: Any) -> str:
        if isinstance(token, str):
            return token
        return text_of(token) if not token.is_named or token.type == "test_operator" else ""

    def _not(self, row: list[Any], double: bool) -> Status:
        if not row:
            return False
        mark = self._mark(row[0])
        if mark == "!" and len(row) > 1:
            row.pop(0)
            held = self.inside(lambda: self._not(row, double))
            return held if held is None else not held
        if mark in ("(", "\\(") and double:
            row.pop(0)
            held = self.inside(lambda: self._either_of(row, double))
            if row:
                row.pop(0)
            return held
        ends = ("&&", "||", ")") if double else ("-a", "-o")
        at = next((k for k, each in enumerate(row) if k and self._mark(each) in ends), len(row))
        chunk = row[:at]
        del row[:at]
        try:
            return self._simple(chunk, double)
        except Undecided:
            return None

    def _simple(self, chunk: list[Any], double: bool) -> Status:
        """A condition of one to three words. Raises Undecided."""
        first, *others = chunk
        if not others:
            text = first if isinstance(first, str) else self.joined(first)
            return self._has_text(text)
        if len(others) == 1:
            text = others[0] if isinstance(others[0], str) else self.joined(others[0])
            return self._unary(self._mark(first), text, others[0])
        if len(others) > 2:
            return None
        sign, second = self._mark(others[0]) or text_of(others[0]), others[1]
        a = self.known(first if isinstance(first, str) else self.joined(first))
        if sign == "=~" and double:
            pattern = self.raw(second) if second.type == "regex" else self.joined(second)
            return matches_regex(a, self.known(pattern))
        if sign in ("=", "==", "!=") and double:
            held = matches(a, self.pattern(second))
            return held if held is None else held is (sign != "!=")
        b = self.known(second if isinstance(second, str) else self.joined(second))
        if sign in ("=", "==", "!="):
            return (a == b) is (sign != "!=")
        if sign in ("<", ">") and double and re.fullmatch(r"\d+", a) and re.fullmatch(r"\d+", b):
            return (a < b) is (sign == "<")
        return self._compared(sign, a, b, double) if sign in _COMPARED else None

    def _has_text(self, text: str) -> Status:
        try:
            return self.known(text) != ""
        except Undecided:
            # what is surely there decides
            return True if re.sub("\x04\\S+|\x02[^\x03]*\x03|\\s", "", text) else None

    def _compared(self, sign: str, a: str, b: str, double: bool) -> Status:
        if double:
            numbers = [self.counted(each) for each in (a, b)]
            return None if None in numbers else _COMPARED[sign](*(int(n or 0) for n in numbers))
        if all(re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text) for text in (a, b)):
            return _COMPARED[sign](int(a), int(b))
        return None if len(a) + len(b) > 18 else False  # no number: an error

    def _unary(self, sign: str, text: str, operand: Any) -> Status:
        if sign in ("-n", "-z"):
            held = self._has_text(text)
            return held if held is None else held is (sign == "-n")
        if sign == "-v":
            name, _, key = (
                (text if isinstance(operand, str) else text_of(operand)).strip("\"'").partition("[")
            )
            return None if key else self.is_set(name, None, False)
        return None if sign.startswith("-") else False  # of files; an error

    def number(self, text: str) -> Status:
        """Whether an expression is not 0; what it sets is set."""
        if not text.strip():
            return True
        made = self.counted(text)
        if made is None:
            found = re.findall(
                r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|"
                r"(?:\+\+|--)\s*([A-Za-z_]\w*)",
                text,
            )
            self.forget({name for row in found for name in row if name})
            return None
        return made != "0"

    # Commands

    def on_command(self, node: Any) -> Status:
        assigned, parts, lines = [], [], self.state.lines
        for child in node.named_children:
            if child.type == "variable_assignment":
                assigned.append(child)
            elif child.type == "herestring_redirect":
                text = self.joined(child.named_children[0])
                self.state.lines = text.split("\n")
            elif child.type not in ("file_redirect", "heredoc_redirect", "comment"):
                parts.append(child)
        tests = [
            child
            for child in parts
            if child.type == "command_name" and text_of(child) in ("test", "[")
        ]
        words = (
            self._test_words(parts) if tests else [w for part in parts for w in self.words(part)]
        )
        before = {}
        for child in assigned:
            name = re.split(r"[\[+=]", text_of(child), maxsplit=1)[0]
            before.setdefault(name, (self.state.variables.get(name), name in self.state.exported))
            self.run(child)
            self.state.exported.add(name)
        status: Status = None
        try:
            status = self.command(words) if words else None
        finally:
            for name, (value, out) in before.items():
                self._set_back(name, value)
                if not out:
                    self.state.exported.discard(name)
            self.state.lines = (
                lines
                if parts
                and any(
                    "string" in c.type
                    for c in node.named_children
                    if c.type == "herestring_redirect"
                )
                else self.state.lines
            )
        return status

    def command(self, words: list[str]) -> Status:
        """Follow a command by its words."""
        name, rest = words[0], words[1:]
        if name in _WRAPPERS:
            at = next(
                (k for k, w in enumerate(rest) if not re.match(r"-|\w+=|[\d.]+[smhd]?$", w)), None
            )
            if at is None:
                self.forget({n for n in (w.partition("=")[0] for w in rest) if n.isidentifier()})
                return True
            status: Status = self.inside(lambda: self.command(rest[at:]))
            if name == "exec":
                raise _End("script")
            return status
        if name in self.state.functions:
            return self._called(name, rest)
        way = getattr(self, f"do_{name}", None) if re.fullmatch(r"[a-z]+", name) else None
        if way is not None:
            done: Status = way(rest)
            return done
        if name in (":", "true", "false"):
            return name != "false"
        if name == "[":
            return self._condition(rest[:-1] if rest[-1:] == ["]"] else rest, False)
        if name == ".":
            return self.do_source(rest)
        if name in _QUIET:
            return True if name in ("export", "trap", "ulimit", "wait") else None
        if self.state.output is not None:
            self.state.output.append(unknown())
        at = next((k for k, word in enumerate(words) if _SHELLS.fullmatch(word)), None)
        if at is not None and (done := self._shell(words[:at], words[at + 1 :])) is not False:
            return None
        if (text := self.state.files.get(shown(name).removeprefix("./"))) is not None:
            return self._inner([], text, rest)
        if not is_flag(name):
            self.script.commands.append(words)
        return None

    def _shell(self, before: list[str], rest: list[str]) -> Status:
        """Follow what a shell runs: a text, a file that the script wrote, or what it is fed."""
        at = next((k for k, word in enumerate(rest) if not word.startswith("-")), len(rest))
        flags, (name, *others) = rest[:at], rest[at:] or [""]
        if any(re.fullmatch(r"-[a-z]*c", word) for word in flags):
            return self._inner(before, name, others[1:])
        lines = self.state.lines
        if not name and lines is not None:
            return self._inner(before, "\n".join(lines), [])
        key = shown(name).removeprefix("./")
        if key in self.state.files:
            return self._inner(before, self.state.files[key], others)
        if key.endswith(".sh") or name and not others:
            self.script.sourced.append(key)
        return False

    def _inner(self, before: list[str], text: str, places: list[str]) -> Status:
        """Follow the text of another shell, which has what is exported; `before` launched it."""

        def way() -> Status:
            state = self.state
            state.variables = {n: v for n, v in state.variables.items() if n in state.exported}
            state.functions, state.places, start = {}, places, len(self.script.commands)
            self.text(text)
            for k in range(start, len(self.script.commands)):
                self.script.commands[k] = [*before, *self.script.commands[k]]
            return None

        return self.apart(way)

    def text(self, text: str) -> None:
        """Follow a text that a value gives; what is open in it stays so."""
        for mark, name in set(re.findall("(\x02\\??([^\x03]*)\x03)", text)):
            held = re.sub(r"\W", "_", f"_{'unknown' if is_unknown(mark) else 'open'}_{name}")
            self.state.variables[held] = mark
            self.state.exported.add(held)
            text = text.replace(mark, f"${{{held}}}")
        if self.depth > MOST_DEPTH // 2:
            raise InputError(f"{self.path!r} nests its shells too deeply; state its values")
        self.depth += 10
        try:
            self.source(text)
        finally:
            self.depth -= 10

    def do_eval(self, rest: list[str]) -> Status:
        text = " ".join(rest)
        if re.match(r"\s*\x02[^\x03]*\x03\w*=", text):
            self.forget({*self.state.variables})
            self.state.sourced = True
        elif re.fullmatch("\\s*\x02\\?[^\x03]*\x03\\s*", text):
            self._not_read(text)
        else:
            self.text(text)
        return None

    def do_source(self, rest: list[str]) -> Status:
        name = shown(rest[0]).removeprefix("./") if rest else ""
        if name in self.state.files:
            self.text(self.state.files[name])
        else:
            self._not_read(name)
        return None

    def _not_read(self, name: str) -> None:
        """Note a text that sets what is not known; what it may set is what nothing else sets."""
        self.script.sourced.append(shown(name)[:60])
        self.state.sourced |= not _PREPARES.search(name)

    def do_ssh(self, rest: list[str]) -> Status:
        """Follow what another machine runs: it is the last words, of a shell there."""
        at = next((k for k, word in enumerate(rest) if " " in word or is_program(word)), len(rest))
        return self._inner([], " ".join(rest[at:]), [])

    do_pdsh = do_ssh

    def do_sbatch(self, rest: list[str]) -> Status:
        at = next((k for k, word in enumerate(rest) if not word.startswith("-")), len(rest))
        rows = [
            k for k, word in enumerate(rest) if shown(word).removeprefix("./") in self.state.files
        ]
        return self._shell([], rest[rows[0] if rows else at :])

    def do_test(self, rest: list[str]) -> Status:
        return self._condition(rest, False)

    def do_echo(self, rest: list[str]) -> Status:
        if self.state.output is not None:
            flags = rest[:1] and re.fullmatch(r"-[neE]+", rest[0])
            row = rest[1:] if rest[:1] == ["-n"] else rest
            self.state.output.append(unknown() if flags and rest[:1] != ["-n"] else " ".join(row))
        return True

    def do_printf(self, rest: list[str]) -> Status:
        if rest[:1] == ["-v"]:
            self._assigned("printf", f"{rest[1]}={unknown()}" if rest[1:] else "", "")
        elif self.state.output is not None:
            self.state.output.append(unknown())
        return True

    def do_cat(self, rest: list[str]) -> Status:
        if self.state.output is not None:
            lines = self.state.lines
            self.state.output += [unknown()] if rest or lines is None else lines
        return None

    def do_exit(self, rest: list[str]) -> Status:
        raise _End("script", status=None if not rest or is_open(rest[0]) else rest[0] == "0")

    def do_return(self, rest: list[str]) -> Status:
        raise _End("function", status=None if not rest or is_open(rest[0]) else rest[0] == "0")

    def do_break(self, rest: list[str]) -> Status:
        raise _End("loop", int(rest[0]) if rest[:1] and rest[0].isdigit() else 1)

    def do_continue(self, rest: list[str]) -> Status:
        raise _End("round", int(rest[0]) if rest[:1] and rest[0].isdigit() else 1)

    def do_shift(self, rest: list[str]) -> Status:
        count = int(rest[0]) if rest[:1] and rest[0].isdigit() else 1
        if is_list_open(self.state.places) or (rest and not rest[0].isdigit()):
            self.state.places = [unknown("@")]
            return None
        if count > len(self.state.places):
            return False
        del self.state.places[:count]
        return True

    def do_set(self, rest: list[str]) -> Status:
        at = next((k for k, word in enumerate(rest) if not re.match(r"[-+][a-z]", word)), len(rest))
        for flag in rest[:at]:
            if "a" in flag[1:] and flag[1:2] != "o":
                self.state.exports = flag[0] == "-"
        words = [word for word in rest[:at] if word in ("-o", "+o")]
        rest = rest[at + len(words) :]
        if rest:
            self.state.places = rest[1:] if rest[0] == "--" else rest
        return True

    def do_let(self, rest: list[str]) -> Status:
        return [self.number(word) for word in rest][-1] if rest else None

    def do_read(self, rest: list[str]) -> Status:
        names = [word for word in rest if word.isidentifier()]
        array = any(re.fullmatch(r"-[a-z]*a", word) for word in rest)
        others = any(re.match(r"-[a-z]*[dnNtu]", word) for word in rest)
        lines, between = self.state.lines, self.separators()
        if lines is None or others or between is None or any(map(is_unknown, lines[:1])):
            self.forget({*names})
            self.state.lines = None
            return None
        self.state.lines = lines[1:]
        text = (lines or [""])[0].strip(re.sub(r"\S", "", between))
        words = [word for word in split_fields(text, between) if word or text] if text else []
        if array:
            self.put(names[0], dict(enumerate(words)))
            return bool(lines)
        for k, name in enumerate(names):
            last = k == len(names) - 1 and len(words) > len(names)
            if last and between == " \t\n":
                self.put(name, text.split(None, k)[k])
            else:
                self.put(name, unknown(name) if last else words[k] if k < len(words) else "")
        return bool(lines)

    def do_mapfile(self, rest: list[str]) -> Status:
        self.forget({word for word in rest if word.isidentifier()})
        return None

    do_readarray = do_mapfile

    def do_getopts(self, rest: list[str]) -> Status:
        if not self.state.places:
            return False
        self.forget({word for word in rest[1:2] if word.isidentifier()} | {"OPTARG", "OPTIND"})
        return None


def _is_arguments(value: Value | None) -> bool:
    row = value.values() if isinstance(value, dict) else (value or "").split()
    return isinstance(value, dict) or any(map(is_flag, row))


_ = ELSEWHERE
