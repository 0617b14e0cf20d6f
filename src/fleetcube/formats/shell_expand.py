"""Words of a shell's syntax tree: expansions of values that may be open."""

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fleetcube.grid.errors import InputError

from .shell_words import (
    Arithmetic,
    Undecided,
    blurred,
    braces,
    elements,
    emptied,
    has_text,
    is_list_open,
    is_open,
    is_unknown,
    literal,
    matches,
    maybe,
    merged,
    merged_words,
    open_,
    split_fields,
    unknown,
)

Value = str | dict[Any, str]  # an array by place or by key
Piece = tuple[str, bool, bool]  # a text, whether it is quoted, whether a word ends after it
UNCOUNTED = "?"  # the key of an array with unknown places
MOST_LETTERS = 1 << 16  # of a script, and of a value
MOST_STEPS = 50_000  # statements and words that are followed
MOST_DEPTH = 60  # of nested statements, expansions and calls
MOST_ROUNDS = 256  # of a loop
_MOST_FILLED = 1 << 20  # letters that values give: scripts that double themselves end here
# Set by a scheduler, a launcher or the machine: neither empty nor known
ELSEWHERE = re.compile(
    r"(SLURM|PBS|LSB|OMPI|PMI|CUDA|NCCL|CONDA|MLP|AZ|AWS|XDG|TORCHELASTIC)_\w*|(RANK|LOCAL_RANK|"
    r"WORLD_SIZE|NODE_RANK|MASTER_\w+|HOSTNAME|HOME|PWD|OLDPWD|USER|PATH|PYTHONPATH|SHELL|TMPDIR|"
    r"LD_LIBRARY_PATH|VIRTUAL_ENV|RANDOM|SECONDS|EPOCH\w*|UID|PPID|BASH\w*|LINENO|OSTYPE|HOSTTYPE|"
    r"KUBERNETES\w*|JOB_\w+|LANG|TERM|FUNCNAME|PIPESTATUS|GPU_NUM|NODE_NUM|[?$!0_-])"
)
_SET_IN_SUM = re.compile(
    r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|"
    r"(?:\+\+|--)\s*([A-Za-z_]\w*)"
)
_EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")
TOO_MUCH = (
    "{!r} computes more than a launch script does; give its launch line alone, or state its values "
    "in a spec"
)


@dataclass
class State:
    """State of a shell at one place of a script."""

    variables: dict[str, Value] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)  # letters of declare
    exported: set[str] = field(default_factory=set)
    functions: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # bodies it may have
    files: dict[str, str] = field(default_factory=dict)  # that the script writes
    places: list[str] = field(default_factory=list)  # $1, $2, ...
    output: list[str] | None = None  # of a command substitution
    lines: list[str] | None = None  # that a command may read
    exports: bool = False  # every variable that is set
    sourced: bool = False  # an unread file may have set the variables that no statement sets

    def copy(self) -> "State":
        return State(**{name: copy.copy(value) for name, value in vars(self).items()})

    def join(self, other: "State") -> None:
        """Merge the state after another branch into this one."""
        for name in {*self.variables, *other.variables}:
            value = merged(self.variables.get(name), other.variables.get(name), name)
            if value is not None:
                self.variables[name] = value
        self.exported |= other.exported
        self.sourced |= other.sourced
        for name in {*self.functions, *other.functions}:
            bodies = (*self.functions.get(name, (None,)), *other.functions.get(name, (None,)))
            self.functions[name] = tuple({id(body): body for body in bodies}.values())
        for name in {*self.kinds, *other.kinds}:
            if self.kinds.get(name, "") != other.kinds.get(name, ""):
                self.kinds[name] = "r"  # any value assigned to it is unknown
        self.files = {n: text for n, text in self.files.items() if other.files.get(n) == text}
        if self.places != other.places:
            self.places = merged_words(self.places, other.places)
        if self.output != other.output:
            self.output = [unknown()]
        if self.lines != other.lines:
            self.lines = None


def text_of(node: Any) -> str:
    return str(node.text.decode("utf-8", "replace"))


def spans(node: Any, first: int, last: int) -> Iterator[Any]:
    """Literal texts and expansions of a node between two places, in order."""

    def source(begin: int, end: int) -> str:
        text = node.text[begin - node.start_byte : end - node.start_byte]
        return str(text.decode("utf-8", "replace"))

    stack, position = [*reversed(node.children)], first
    while stack:
        child = stack.pop()
        if child.end_byte <= first or child.start_byte >= last:
            continue
        if child.type in (*_EXPANSIONS, "string", "raw_string"):
            text = text_of(child)
            begin = child.start_byte + len(text) - len(text.lstrip())  # a gap may be part of it
            yield source(position, begin)
            yield child
            position = child.end_byte
        else:
            stack += reversed(child.children)
    yield source(position, last)


def place_of(row: dict[Any, str], key: Any = None) -> Any:
    """The key of an element: negative ones count from the end, None is after it."""
    if key is None or (isinstance(key, int) and key < 0):
        return (key or 0) + 1 + max((k for k in row if isinstance(k, int)), default=-1)
    return key


class Words:
    """Expands parts of a tree in a state."""

    def __init__(self, path: str) -> None:
        self.path, self.state = path, State()
        self.steps = self.filled = self.depth = 0
        self.alone: dict[str, str] = {}  # values for unknown variables where nothing sets them
        self.any_case = False  # whether a pattern may match letters of the other case

    def inside(self, way: Callable[[], Any]) -> Any:
        """A result, in bounded time and depth. Raises InputError."""
        self.steps += 1
        if self.steps > MOST_STEPS or self.depth > MOST_DEPTH:
            raise InputError(TOO_MUCH.format(self.path))
        self.depth += 1
        try:
            return way()
        finally:
            self.depth -= 1

    def body(self, node: Any) -> bool | None:
        raise NotImplementedError

    def in_subshell(self, way: Callable[[], bool | None]) -> bool | None:
        raise NotImplementedError

    def parsed(self, text: str) -> Any:
        """The tree of a text."""
        import tree_sitter
        import tree_sitter_bash

        parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
        return parser.parse(text.encode("utf-8", "replace")).root_node

    # Variables

    def assign(self, name: str, value: Value) -> None:
        self.filled += len(value) if isinstance(value, str) else sum(map(len, value.values()))
        if self.filled > _MOST_FILLED:
            raise InputError(TOO_MUCH.format(self.path))
        kind = self.state.kinds.get(name, "")
        if "n" in kind and isinstance(target := self.state.variables.get(name), str):
            name, kind = target, ""
        if isinstance(value, str):
            if "i" in kind:
                value = self.counted(value) or unknown(name)
            elif set(kind) & set("rluc"):  # a text changed, or an assignment that fails
                value = unknown(name)
        elif set(kind) & set("rluci"):
            value = {key: unknown(name) for key in value}
        self.state.variables[name] = value
        if self.state.exports:
            self.state.exported.add(name)

    def counted(self, text: str) -> str | None:
        """The number of an expression as a text; None if unknown."""
        try:
            return str(Arithmetic(text, self.scalar, self.assign).value())
        except Undecided:
            return None

    def scalar(self, name: str) -> str:
        value = self.state.variables.get(name)
        value = value.get(0, "") if isinstance(value, dict) else value
        return open_(name) if value is None else value

    def forget(self, names: set[str]) -> None:
        """Make variables open; words of arguments stay, but may be missing."""
        for name in names:
            before = self.state.variables.get(name)
            self.state.variables[name] = merged(before, unknown(name), name)

    def sum_of(self, text: str) -> str:
        """The number of an expression, with its assignments done; open if unknown."""
        number = self.counted(text)
        if number is None:
            self.forget({name for row in _SET_IN_SUM.findall(text) for name in row if name})
        return unknown("SUM") if number is None else number

    def number(self, text: str) -> bool | None:
        """Whether an expression is not 0."""
        value = self.sum_of(text) if text.strip() else "1"
        return None if is_open(value) else value != "0"

    def key_of(self, name: str, text: str) -> Any:
        """The key of an array's element: a text, a number, or an open text."""
        if text in ("@", "*") or is_open(text) or "A" in self.state.kinds.get(name, ""):
            return text
        number = self.counted(text)
        return unknown(name) if number is None else int(number)

    def name_and_key(self, node: Any) -> tuple[str, Any]:
        """A variable's name, and the key of an array's element."""
        if node.type != "subscript":
            return text_of(node), None
        first, *keys = node.named_children
        name = text_of(first)
        return name, self.key_of(name, self.joined(keys[0]) if keys else unknown())

    def values(self, name: str, key: Any) -> list[str] | None:
        """The values of a variable: one, or those of all elements; None if it is not set."""
        state = self.state
        if name in ("@", "*"):
            return state.places
        if name == "#" or (name.isdigit() and name != "0"):
            if is_list_open(state.places):
                return [unknown(name)]
            position = int(name) - 1 if name != "#" else 0
            rows = (
                [str(len(state.places))] if name == "#" else state.places[position : position + 1]
            )
            return rows or None
        value = state.variables.get(name)
        if "n" in state.kinds.get(name, "") and isinstance(value, str) and value != name:
            return self.values(value, key) if self.depth < MOST_DEPTH else [unknown(name)]
        if value is None:
            return [unknown(name)] if state.sourced or ELSEWHERE.fullmatch(name) else None
        if key in ("@", "*"):
            return elements(value, "A" in state.kinds.get(name, ""), name)
        row = value if isinstance(value, dict) else {0: value}
        if is_open(str(key)) or UNCOUNTED in row or is_unknown(row.get(0, "")):
            return [unknown(name)] if isinstance(value, dict) or key is not None else [value]
        key = place_of(row, key or 0)
        return [row[key]] if key in row else None

    def is_set(self, name: str, key: Any, with_text: bool) -> bool | None:
        """Whether a variable is set (and not empty); None if unknown."""
        rows = self.values(name, key)
        if not rows:
            return False
        if len(rows) > 1 or not with_text:
            return None if is_list_open(rows) else True
        return has_text(rows[0])

    def matched(self, text: str, pattern: str) -> bool | None:
        """Whether a text matches a pattern; None if unknown."""
        exact = matches(text, pattern)
        loosely = (
            self.any_case and not exact and matches(text.lower(), pattern.lower()) is not False
        )
        return None if loosely else exact

    # Words

    def listed(self, node: Any) -> list[str]:
        """The words that a part of a list gives."""
        return self.with_files(node, self.words(node))

    def with_files(self, node: Any, words: list[str]) -> list[str]:
        """The words of a part; an open number of them where they are a pattern of files' names."""
        quoted = node.type in ("string", "raw_string", "ansi_c_string")
        plain = (re.sub("\x02[^\x03]*\x03", "", word) for word in words)
        files = not quoted and any(re.search(r"[*?]|\[.+\]", word) for word in plain)
        return [unknown("FILES")] if files else words

    def words(self, node: Any) -> list[str]:
        """The words that a part of a command gives."""
        source = text_of(node)
        if "{" in source and node.type not in ("string", "raw_string", "expansion"):
            rows = braces(source)
            if rows != [source]:
                self.filled += sum(map(len, rows))
                command = self.parsed(f": {' '.join(rows)}").named_children[0]
                return [word for each in command.named_children[1:] for word in self.words(each)]
        fields: list[tuple[str, bool]] = [("", False)]
        for text, quoted, ends in self.parts(node):
            pieces = [text] if quoted else split_fields(text, self.separators())
            fields[-1] = (fields[-1][0] + pieces[0], fields[-1][1] or quoted)
            fields += [(piece, False) for piece in pieces[1:]]
            if ends:
                fields.append(("", False))
        return [text for text, in_quotes in fields if text or in_quotes]

    def separators(self) -> str | None:
        """The characters that divide words; None if unknown."""
        text = self.state.variables.get("IFS", " \t\n")
        return text if isinstance(text, str) and not is_open(text) else None

    def joined(self, node: Any) -> str:
        """A part as one text, as an assignment or a condition takes it."""
        return _glued(self.parts(node))

    def parts(self, node: Any, quoted: bool = False) -> list[Piece]:
        """Pieces of a part of a command."""
        pieces: list[Piece] = self.inside(lambda: self._parts(node, node.type, quoted))
        return pieces

    def _parts(self, node: Any, kind: str, quoted: bool) -> list[Piece]:
        if kind in ("command_name", "concatenation", "variable_assignment"):
            return [row for child in node.children for row in self.parts(child)]
        if kind == "raw_string":
            return [(text_of(node)[1:-1], True, False)]
        if kind == "ansi_c_string":
            return [(_ansi(text_of(node)[2:-1]), True, False)]
        if kind in ("string", "translated_string"):
            return self._quoted(node)
        if kind == "simple_expansion":
            return self._value(text_of(node.named_children[0]), None, quoted)
        if kind == "expansion":
            return self._expansion(node, quoted)
        source = text_of(node).strip()  # with a gap in front, by the grammar
        if kind == "arithmetic_expansion" or re.fullmatch(r"\$\(\(.*\)\)", source, re.DOTALL):
            marks = 3 if source.startswith("$((") else 2
            begin = node.end_byte - len(source.encode()) + marks
            return [(self.sum_of(self.raw(node, begin, node.end_byte - marks + 1)), True, False)]
        if kind.endswith("_expression") and kind != "brace_expression":
            return [(self.raw(node), True, False)]
        if kind == "command_substitution":
            return [(self._output(node), False, False)]
        if node.is_named and kind not in (
            *("word", "number", "extglob_pattern", "regex", "test_operator"),
            *("variable_name", "special_variable_name", "brace_expression"),
        ):
            return [(unknown(kind.upper()), True, False)]
        return [(_plain(text_of(node)), True, False)]

    def _quoted(self, node: Any) -> list[Piece]:
        first = node.start_byte + len(text_of(node.children[0]))
        pieces = self._spanned(node, first, node.end_byte - 1, _in_quotes, True)
        alone = node.named_child_count == 1 and re.fullmatch(
            r'"\$(@|\{@\}|\{\w+\[@\][^}]*\})"', text_of(node)
        )
        return pieces if pieces or alone else [("", True, False)]

    def raw(self, node: Any, *ends: int, plain: Callable[[str], str] = str) -> str:
        """The source of a part, or between two places of it, with values for expansions."""
        first, last = ends or (node.start_byte, node.end_byte)
        return _glued(self._spanned(node, first, last, plain, False))

    def _spanned(
        self, node: Any, first: int, last: int, plain: Callable[[str], str], quoted: bool
    ) -> list[Piece]:
        """Pieces between two places; `plain` gives the meaning of texts without expansions."""
        pieces: list[Piece] = []
        for part in spans(node, first, last):
            if isinstance(part, str):
                pieces += [(plain(part), quoted, False)] if plain(part) else []
            else:
                pieces += [(text, quoted or q, ends) for text, q, ends in self.parts(part, quoted)]
        return pieces

    def _output(self, node: Any) -> str:
        """The output of the commands in a substitution."""
        outer = self.state.output
        self.state.output = []
        try:
            self.in_subshell(lambda: self.body(node))
            lines = self.state.output or []
        finally:
            self.state.output = outer
        return "\n".join(lines).rstrip("\n")

    def _value(self, name: str, key: Any, quoted: bool) -> list[Piece]:
        rows = self.values(name, key)
        if rows is None:
            bare = key is None or name not in self.state.variables
            return [(open_(name), True, False) if bare else ("", quoted, False)]
        listed = key in ("@", "*") or name in ("@", "*")
        if listed and quoted and "*" in (key, name):
            between = self.separators()
            return [((" " if between is None else between[:1]).join(rows), True, False)]
        return [(text, quoted, listed and k + 1 < len(rows)) for k, text in enumerate(rows)]

    def _expansion(self, node: Any, quoted: bool) -> list[Piece]:
        """${NAME...}: with a default, a part cut off or replaced, its length, another name's."""
        parts = [*node.children[1:-1]]
        sign = parts.pop(0).type if parts and not parts[0].is_named else ""
        if not parts:
            return self._value(sign, None, quoted) if sign else [(unknown(), True, False)]
        name, key = self.name_and_key(parts.pop(0))
        rows = self.values(name, key)
        if sign == "!":
            target = "".join(rows or [])
            if target.isidentifier() and not parts:
                return self._value(target, None, quoted)
            return [(unknown(name), quoted, False)]
        if sign == "#":
            listed = name in ("@", "*") or key in ("@", "*")
            if is_list_open(rows or []) or (rows is None and not listed):
                return [(unknown(name), True, False)]
            return [(str(len(rows or []) if listed else len((rows or [""])[0])), True, False)]
        if not parts:
            return self._value(name, key, quoted)
        rule, *operands = parts
        bare = rule.type.strip(":")
        if bare in ("-", "=", "+"):
            return self._or_other(name, key, quoted, rule.type, (node, rule.end_byte))
        if bare == "?" or rows is None:
            return self._value(name, key, quoted)
        if rule.type == ":" and (key or name) in ("@", "*"):
            numbers, rows = self._numbers(operands), rows if key else ["", *rows]
            if numbers is None or is_list_open(rows) or min(numbers) < 0:
                return [(unknown(name), quoted, False)]
            rows = rows[numbers[0] :][: numbers[1] if len(numbers) > 1 else None]
        else:
            rows = [self._cut(text, rule.type, operands, name) for text in rows]
        return [(text, quoted, k + 1 < len(rows)) for k, text in enumerate(rows)]

    def _or_other(
        self, name: str, key: Any, quoted: bool, rule: str, operand: tuple[Any, int]
    ) -> list[Piece]:
        """A value by a rule such as :- if it is not set."""
        set_already = self.is_set(name, key, ":" in rule)
        if rule.strip(":") == "+":
            if set_already is False:
                return [("", True, False)] if quoted else []
            other = self._operand(*operand, quoted)
            if set_already is None:
                return [(" ".join(map(maybe, text.split())), q, ends) for text, q, ends in other]
            return other
        if set_already is None:
            usual = "".join(text for text, _, _ in self._operand(*operand, quoted))
            self.alone[name] = usual if self.alone.get(name, usual) == usual else ""
            return [(unknown(name), True, False)]
        if set_already:
            return self._value(name, key, quoted)
        other = self._operand(*operand, quoted)
        if rule.strip(":") == "=":
            self.assign(name, "".join(text for text, _, _ in other))
        return other

    def _operand(self, node: Any, first: int, quoted: bool) -> list[Piece]:
        pieces = self._spanned(node, first, node.end_byte - 1, _plain, quoted)
        return pieces or ([("", True, False)] if quoted else [])

    def _numbers(self, operands: Sequence[Any]) -> list[int] | None:
        text = "".join(map(self.joined, operands))
        numbers = [self.counted(each) for each in text.split(":")]
        return None if None in numbers else [int(each or 0) for each in numbers]

    def _cut(self, text: str, rule: str, operands: Sequence[Any], name: str) -> str:
        try:
            if is_open(text) or is_unknown(text):
                raise Undecided
            if rule in ("#", "##", "%", "%%"):
                return _without(text, rule, "".join(map(self.pattern, operands)))
            if rule in ("^^", ",,") and not operands:
                return text.upper() if rule == "^^" else text.lower()
            if rule in ("/", "//"):
                named = [part for part in operands if part.is_named]
                pattern, new = self.pattern(named[0]), "".join(map(self.joined, named[1:]))
                if re.search(r"[*?\[\\]", pattern) or pattern[:1] in ("#", "%", "") or is_open(new):
                    raise Undecided
                return text.replace(pattern, new, -1 if rule == "//" else 1)
            numbers = self._numbers(operands) if rule == ":" else None
            if numbers is None:
                raise Undecided
            cut = text[numbers[0] :] if numbers[0] >= -len(text) else ""
            return cut if len(numbers) < 2 else cut[: numbers[1]]
        except Undecided:
            return blurred(text, name)

    def pattern(self, node: Any) -> str:
        """A pattern, its quoted parts as they are. Raises Undecided."""
        if node.type in ("string", "raw_string", "ansi_c_string"):
            return literal(emptied(self.joined(node)))
        if node.type == "concatenation":
            return "".join(map(self.pattern, node.children))
        if node.type in ("extglob_pattern", "word", "regex", "number"):
            text = self.raw(node)
            if re.search(r"['\"]", text):
                raise Undecided
            return re.sub(r"\\(.)", lambda match: literal(match[1]), emptied(text))
        return emptied(self.joined(node))


def _without(text: str, rule: str, pattern: str) -> str:
    """A text without its match at the beginning (#) or end (%); the longest match if doubled."""
    if len(text) > 1000:
        raise Undecided
    cuts = range(len(text) + 1)
    for position in cuts if rule in ("#", "%%") else reversed(cuts):
        matched = matches(text[:position] if rule[0] == "#" else text[position:], pattern)
        if matched is None:
            raise Undecided
        if matched:
            return text[position:] if rule[0] == "#" else text[:position]
    return text


def unescaped(text: str, escaped: str = ".") -> str:
    """A text without the backslashes before some characters; a line that ends in one goes on."""
    return re.sub(rf"(?s)\\({escaped})", lambda match: match[1].replace("\n", ""), text)


_in_quotes = partial(unescaped, escaped=r'[$`"\\\n]')


def _plain(text: str) -> str:
    return unescaped(re.sub(r"^~\w*", lambda _: unknown("HOME"), text))


def _glued(pieces: Sequence[Piece]) -> str:
    last = len(pieces) - 1
    return "".join(text + " " * (ends and k < last) for k, (text, _, ends) in enumerate(pieces))


def _ansi(text: str) -> str:
    marks = {"n": "\n", "t": "\t", "'": "'", '"': '"', "\\": "\\"}
    return re.sub(r"\\(.)", lambda match: marks.get(match[1]) or unknown("ESCAPE"), text)
