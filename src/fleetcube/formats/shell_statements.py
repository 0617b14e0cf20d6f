"""Statements of a shell's syntax tree: branches, loops, functions, redirections, assignments.

If a condition is unknown both branches are followed, and values that differ after them are open. A
way that ends early (`break`, `return`, `exit`) leaves its state in the region that it ends.
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .shell_conditions import Conditions, Status
from .shell_expand import MOST_ROUNDS, UNCOUNTED, State, Value, place_of, text_of, unescaped
from .shell_words import (
    Undecided,
    emptied,
    is_flag,
    is_list_open,
    is_open,
    maybe,
    merged,
    shown,
    unknown,
)

_SETS = re.compile(r"read|mapfile|readarray|let|getopts|printf|eval|source|\.|export")
_SETTING = (  # nodes whose first part is a name that they set
    *("variable_assignment", "subscript", "for_statement", "postfix_expression"),
    *("unary_expression", "binary_expression"),
)
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Script:
    """A script after reading: commands with values filled in, also those of branches that it may
    not take; texts that it writes in place; files that it sources; lines that are not understood;
    lines that begin with an option, which no command takes, with the reason; values that it gives
    to variables of the environment where these are not set; variables at its end."""

    commands: list[list[str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    sourced: list[str] = field(default_factory=list)
    not_understood: list[int] = field(default_factory=list)
    stray: dict[int, str] = field(default_factory=dict)
    alone: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


class _Ended(Exception):  # noqa: N818 - no error
    """No way goes on from here."""


def name_of(node: Any) -> str:
    return re.split(r"[\[+=]", text_of(node), maxsplit=1)[0]


_in_document = partial(unescaped, escaped=r"[$`\\\n]")


class Statements(Conditions):
    """Follows statements; each returns whether it succeeds, None if unknown."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.script = Script()
        self.undecided = 0  # branches around that may not be taken
        self.locals: list[dict[str, tuple[Value | None, int]]] = []  # variables that functions hide
        # Loops, rounds, functions, shells around, with the states in which they have ended
        self.regions: list[tuple[str, list[tuple[State, Status]]]] = []

    def body(self, node: Any) -> Status:
        return self.all(node.named_children)

    on_do_group = on_variable_assignments = body

    def all(self, statements: Sequence[Any]) -> Status:
        """Follow statements in order; those around a syntax error may or may not run."""
        status: Status = True
        statements = [each for each in statements if each.type != "comment"]
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
        way = getattr(self, f"on_{node.type}", self._not_understood)
        after = node.next_sibling
        if after is not None and after.type == "&":
            return self.in_subshell(lambda: bool(self.inside(lambda: way(node))) or True)
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
        self.all([child for child in node.named_children if hasattr(self, f"on_{child.type}")])
        return self._not_understood(node)

    def set_within(self, node: Any, followed: frozenset[str] = frozenset()) -> set[str]:
        """Names that a part of a script could set, by functions that it calls as well."""
        names: set[str] = set()
        stack = [node]
        while stack:
            part = stack.pop()
            parts = part.named_children
            stack += parts
            if part.type in _SETTING and parts:
                if part.type != "binary_expression" or "=" in text_of(part):
                    names.add(name_of(parts[0]))
            elif part.type in ("declaration_command", "unset_command"):
                names |= {text_of(each) for each in parts if each.type == "variable_name"}
            elif part.type == "command":
                name = next((text_of(c) for c in parts if c.type == "command_name"), "")
                names |= {*_NAME.findall(text_of(part))} if _SETS.fullmatch(name) else set()
                for each in self.state.functions.get(name, ()) if name not in followed else ():
                    names |= self.set_within(each, followed | {name}) if each else set()
        return {name for name in names if name.isidentifier()}

    # Branches and regions

    def either(self, *ways: Callable[[], Status]) -> Status:
        """Follow several ways of which one is taken, each from the same state."""
        start = self.state
        rows: list[tuple[State, Status]] = []
        self.undecided += 1
        for way in ways:
            self.state = start.copy()
            self._follow(way, rows)
        self.undecided -= 1
        return self._join(rows)

    def region(self, kind: str, way: Callable[[], Status]) -> Status:
        """Follow a way, and go on after it in all states in which it ends or is left."""
        rows: list[tuple[State, Status]] = []
        self.regions.append((kind, rows))
        self._follow(way, rows)
        self.regions.pop()
        return self._join(rows)

    def _follow(self, way: Callable[[], Status], rows: list[tuple[State, Status]]) -> None:
        with contextlib.suppress(_Ended):
            status = way()
            rows.append((self.state, status))

    def leave(self, kind: str, count: int = 1, status: Status = True) -> Status:
        """End the count-th region of a kind around, if there is one."""
        around = [rows for each, rows in self.regions if each == kind][-count:]
        if not around:
            return False
        around[0].append((self.state, status))
        raise _Ended

    def _join(self, rows: list[tuple[State, Status]]) -> Status:
        if not rows:
            raise _Ended
        self.state = rows[0][0]
        for other, _ in rows[1:]:
            self.state.join(other)
        statuses = {status for _, status in rows}
        return statuses.pop() if len(statuses) == 1 else None

    def in_subshell(self, way: Callable[[], Status]) -> Status:
        """Follow a part that runs in its own shell: the variables it sets stay there."""
        before, regions = self.state, self.regions
        self.state, self.regions = before.copy(), []
        try:
            return self.region("script", way)
        finally:
            before.output, before.files = self.state.output, self.state.files
            self.state, self.regions = before, regions

    def on_subshell(self, node: Any) -> Status:
        return self.in_subshell(lambda: self.body(node))

    def on_compound_statement(self, node: Any) -> Status:
        if node.children[0].type != "((":
            return self.body(node)
        return self.number(self.raw(node).strip()[2:-2])

    def on_if_statement(self, node: Any, others: Sequence[Any] = ()) -> Status:
        """Follow an if, or its part from an `elif` or `else` on; `others` are parts after that."""
        if node.type == "else_clause":
            return self.body(node)
        parts = node.children
        others = [c for c in parts if c.type in ("elif_clause", "else_clause")] or others
        then = next((k for k, part in enumerate(parts) if part.type == "then"), len(parts))
        statements = [c for c in parts[then:] if c.is_named and c not in others]
        status = self.all([part for part in parts[:then] if part.is_named])
        ways: list[Callable[[], Status]] = [
            lambda: self.all(statements),
            lambda: self.on_if_statement(others[0], others[1:]) if others else True,
        ]
        return self.either(*ways) if status is None else ways[not status]()

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
        end = next((k for k, c in enumerate(item.children) if c.type == ")"), len(item.children))
        patterns = [child for child in item.children[:end] if child.is_named]
        ends = next((c.type for c in item.children if c.type in (";;", ";&", ";;&")), ";;")
        statements = [child for child in item.children[end + 1 :] if child.is_named]

        def follow_item() -> Status:
            status = self.all(statements)
            return status if ends == ";;" else self._items(subject, others, falls=ends == ";&")

        try:
            states = {self.matched(emptied(subject), self.pattern(each)) for each in patterns}
        except Undecided:
            states = {None}
        if falls or True in states:
            return follow_item()
        if None in states:
            return self.either(follow_item, lambda: self._items(subject, others))
        return self._items(subject, others)

    def on_pipeline(self, node: Any) -> Status:
        outer, lines = self.state.output, self.state.lines
        status: Status = None
        for part in node.named_children:
            status = self.in_subshell(lambda part=part: self.run(part))  # type: ignore[misc]
            self.state.output, self.state.lines = outer, None
        self.state.lines = lines
        if outer is not None:
            self.state.output = [*outer, unknown()]
        return None if node.named_children[0].type == "negated_command" else status

    def on_negated_command(self, node: Any) -> Status:
        status = self.run(node.named_children[0])
        return status if status is None else not status

    # Loops and functions

    def _loop(self, node: Any, more: Callable[[], Status]) -> Status:
        """Follow a loop: `more` returns whether another round begins. If that is unknown, all that
        the loop sets is open from then on."""
        body = node.named_children[-1]

        def rounds() -> Status:
            again: Status = None
            for _ in range(MOST_ROUNDS):
                if not (again := more()):
                    break
                self.region("round", lambda: self.run(body))
            if again is not False:
                names = {n for n in self.set_within(node) if not self._holds_arguments(n)}
                self.forget(names)
                self.either(lambda: self.region("round", lambda: self.run(body)), lambda: None)
                self.forget(names)
            return None

        return self.region("loop", rounds)

    def _holds_arguments(self, name: str) -> bool:
        value = self.state.variables.get(name)
        return isinstance(value, dict) or any(map(is_flag, (value or "").split()))

    def on_for_statement(self, node: Any) -> Status:
        name, *parts, _ = node.named_children
        target = text_of(name)
        words = [word for part in parts for word in self.listed(part)]
        if not any(child.type == "in" for child in node.children):
            words = [*self.state.places]
        queue = iter(words)
        sure = not is_list_open(words) and node.children[0].type == "for"

        def more() -> Status:
            if not sure or len(words) > MOST_ROUNDS:
                self.assign(target, unknown(target))
                return None
            word = next(queue, None)
            if word is not None:
                self.assign(target, word)
            return word is not None

        return self._loop(node, more)

    def on_c_style_for_statement(self, node: Any) -> Status:
        def part(name: str) -> Status:
            rows = node.children_by_field_name(name)
            return not rows or self.number(self.raw(node, rows[0].start_byte, rows[-1].end_byte))

        part("initializer")
        rounds = itertools.count()

        def more() -> Status:
            if next(rounds):
                part("update")
            return part("condition")

        return self._loop(node, more)

    def on_while_statement(self, node: Any) -> Status:
        until = node.children[0].type == "until"

        def more() -> Status:
            status = self.all(node.named_children[:-1])
            return status if status is None else status is not until

        return self._loop(node, more)

    def on_function_definition(self, node: Any) -> Status:
        self.state.functions[text_of(node.named_children[0])] = (node.named_children[-1],)
        return True

    def called(self, name: str, words: list[str]) -> Status:
        bodies = self.state.functions[name]
        ways = [lambda body=body: self._body_called(body, words) for body in bodies]
        return self.either(*ways) if len(ways) > 1 else ways[0]()

    def _body_called(self, body: Any, words: list[str]) -> Status:
        if body is None:
            return False
        places, regions, hidden = self.state.places, self.regions, {}  # type: ignore[var-annotated]
        self.locals.append(hidden)
        self.regions = [each for each in regions if each[0] == "script"]
        self.state.places = [*words]
        try:
            status = self.region("function", lambda: self.run(body))
        finally:
            self.regions = regions
            self.locals.pop()
        self.state.places = places
        for name, (value, undecided) in hidden.items():
            if undecided != self.undecided:
                value = merged(value, self.state.variables.get(name), name)
            self.set_back(name, value)
        return status

    def set_back(self, name: str, value: Value | None) -> None:
        if value is None:
            self.state.variables.pop(name, None)
        else:
            self.state.variables[name] = value

    # Redirections

    def on_redirected_statement(self, node: Any) -> Status:
        first, outer, lines = node.named_children[0], self.state.output, self.state.lines
        within = [c for c in node.named_children if c.type == "heredoc_redirect"]
        rest = [part for child in within for part in child.named_children]
        target, fed = "", None
        for child in [*node.named_children, *rest]:
            if child.type == "file_redirect":
                if any(c.type == "<" for c in child.children):
                    fed = unknown()
                elif child.named_children and child.children[0].type != "file_descriptor":
                    target = self.joined(child.named_children[-1])
            elif child.type == "heredoc_body":
                fed = self._fed(child)
            elif child.type == "herestring_redirect":
                fed = self.joined(child.named_children[0])
        if fed is not None:
            self.script.texts += [shown(fed)]
            self.state.lines = None if fed == unknown() else fed.removesuffix("\n").split("\n")
        words = text_of(first).split()
        status: Status = True
        if fed is not None and target and words[:1] in (["cat"], ["tee"]):
            self.state.files[shown(target)] = fed
        elif not ("redirect" in first.type or (words == ["tee"] and fed is not None)):
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
            text = self.raw(body, plain=_in_document)
        return re.sub(r"^\t+", "", text, flags=re.M) if "<<-" in marks else text

    # Assignments

    def on_variable_assignment(self, node: Any) -> Status:
        first, *value = node.named_children
        grows = any(child.type == "+=" for child in node.children)
        name, key = self.name_and_key(first)
        before = self.state.variables.get(name)
        if value and value[0].type == "array":
            self._assign_array(name, value[0], before if grows else None)
            return True
        text = "".join(map(self.joined, value))
        if key is not None or isinstance(before, dict):
            self._assign_element(name, 0 if key is None else key, text, grows)
        elif grows and "i" in self.state.kinds.get(name, ""):
            self.assign(name, unknown(name))
        else:
            self.assign(name, (str(before or "") if grows else "") + text)
        return None if any("substitution" in part.type for part in value) else True

    def _assign_element(self, name: str, key: Any, text: str, grows: bool) -> None:
        before = self.state.variables.get(name)
        row = dict(before) if isinstance(before, dict) else {0: before} if before else {}
        key = place_of(row, key)
        if is_open(str(key)):
            self.assign(name, {k: unknown(name) for k in row} | {UNCOUNTED: ""})
        else:
            self.assign(name, {**row, key: (row.get(key, "") if grows else "") + text})

    def _assign_array(self, name: str, node: Any, before: Value | None) -> None:
        """Set an array to its elements before, and more."""
        row: dict[Any, str] = (
            dict(before) if isinstance(before, dict) else {} if before is None else {0: before}
        )
        position = place_of(row)
        for part in node.named_children:
            if re.match(r"\[[^\]]*\]=", text_of(part)):
                element = re.fullmatch(r"\[([^\]]*)\]=(.*)", self.joined(part), re.DOTALL)
                key = self.key_of(name, element[1]) if element else unknown()
                if element and not is_open(str(key)):
                    row[key], position = element[2], key + 1 if isinstance(key, int) else position
                else:
                    row[UNCOUNTED] = ""
                continue
            for word in self.listed(part) if part.type != "comment" else ():
                row[position] = word
                position += 1
                if is_list_open([word]):  # none, or several words
                    row[UNCOUNTED] = ""
        self.assign(name, row)

    def on_declaration_command(self, node: Any) -> Status:
        word, rest = node.children[0].type, node.named_children
        flags = "".join(text_of(c)[1:] for c in rest if re.match(r"-[A-Za-z]", text_of(c)))
        flags += {"readonly": "r", "export": "x"}.get(word, "")
        if word == "local" and not self.locals:
            return False
        hides = bool(self.locals) and word in ("local", "declare", "typeset") and "g" not in flags
        for child in rest:
            if child.type == "variable_assignment":
                self._declare(name_of(child), flags, hides, lambda child=child: self.run(child))  # type: ignore[misc]
                continue
            for text in [text_of(child)] if child.type == "variable_name" else self.words(child):
                name, equals, value = text.partition("=")
                if name.isidentifier():
                    way = (lambda n=name, v=value: self.assign(n, v)) if equals else None
                    self._declare(name, flags, hides, way)
                elif is_open(name):  # it may hold NAME=VALUE, and several of them
                    self.forget({*self.state.variables})
                    self.state.sourced = True
        return True

    def _declare(
        self, name: str, flags: str, hides: bool, assign: Callable[[], object] | None
    ) -> None:
        state = self.state
        if hides and name not in self.locals[-1]:
            self.locals[-1][name] = (state.variables.pop(name, None), self.undecided)
            state.kinds.pop(name, None)
        kinds, more = state.kinds.get(name, ""), re.sub("[^Ailnur]", "", flags)
        state.kinds[name] = kinds + re.sub("[rn]", "", more)
        if assign:
            assign()
        self.state.kinds[name] = kinds + more
        if "x" in flags:
            self.state.exported.add(name)

    def on_unset_command(self, node: Any) -> Status:
        state = self.state
        for word in (word for word in text_of(node).split()[1:] if word[0] != "-"):
            name, _, key = word.strip("'\"").partition("[")
            if not name.isidentifier():
                self.forget({*state.variables})
            elif not key:
                (state.variables if name in state.variables else state.functions).pop(name, None)
                state.kinds.pop(name, None)
            else:
                self.forget({name})
        return True
