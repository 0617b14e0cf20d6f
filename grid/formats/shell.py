"""The words of a launch script, read and never executed.

Variables that the script sets are filled in, conditions on them are decided, arrays are joined.
What depends on anything else stays as it is written: "$NNODES".
"""

import ast
import fnmatch
import itertools
import operator
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError

_MOST_LETTERS = 1 << 16  # of a script, and of a variable filled in
_MOST_FILLED = 1 << 18  # letters that variables give: scripts that double themselves end here
_MOST_WORDS = 256  # of a condition
_MOST_ROUNDS = 16
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_COMMENT = re.compile(r"(?:(?<=\s)|^)#[^\n]*", re.MULTILINE)
_SUMS = re.compile(r"\$\(\(([^()$]*+(?:(?:\$\{?\w++\}?+|\([^()]*+\))[^()$]*+)*+)\)\)")
_HIDDEN_SUM = re.compile(r"\$\x03([^\x03\x04$]*)\x04")
_CALL = re.compile(r"\$\([^()]*\)|`[^`\n]*`")
_VARIABLE = re.compile(
    r"\$(?:(?P<name>\w+)|\{(?P<long>\w+)(?P<array>\[[@*]\])?(?P<rule>:?[-=+?])?(?P<other>[^{}]*)\})"
)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
}
_DECLARING = ("export", "local", "declare", "readonly", "typeset")
_ENDS = ("\n", ";", "&", "|", ";;", "&&", "||")


@dataclass
class Script:
    """Variables of a script as it leaves them, and its commands with all of these filled in."""

    variables: dict[str, str] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)
    sourced: list[str] = field(default_factory=list)
    filled: int = 0  # letters that variables gave
    _branches: list["_Branch"] = field(default_factory=list)

    @property
    def runs(self) -> bool | None:
        """Whether the line is run; None where it depends on what the script does not know."""
        states = [branch.state for branch in self._branches]
        return False if False in states else None if None in states else True


@dataclass
class _Branch:
    kind: str  # if, case or loop
    state: bool | None = True  # of the branch that is read
    taken: bool | None = False  # whether an earlier branch is
    subject: str | None = None
    patterns: list[str] | None = None  # of a case that is about to be decided


def read(text: str, path: str) -> Script:
    """Read a script. Raises InputError."""
    if len(text) > _MOST_LETTERS:
        raise InputError(
            f"{path!r} has more than {_MOST_LETTERS:,} letters, as no launch script has; give one"
        )
    script = Script()
    for statement in _statements(text, path):
        _step(script, statement)
    return script


def options(words: Iterable[str]) -> dict[str, Any]:
    """Options of a command: a name without dashes, and its words as one text; True without any."""
    made: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if re.match(r"--?[A-Za-z]", word):
            name, equals, value = word.lstrip("-").partition("=")
            name = name.replace("_", "-")
            made[name] = [value] if equals else []
        elif name and not word.endswith(".py"):  # the program, after its launcher's options
            made[name].append(word)
        else:
            name = ""
    return {name: " ".join(values) if values else True for name, values in made.items()}


def _statements(text: str, path: str) -> Iterator[list[str]]:
    """Words of each statement, quotes removed; an array is a word NAME=( and those up to )."""
    text = text.rstrip().removesuffix("\\").replace("\\\r\n", " ").replace("\\\n", " ")
    text, _ = heredocs(text)
    text = _COMMENT.sub("", text).replace("\r", "")
    # spaces within an expression or a call would cut it
    text = _SUMS.sub(_hidden, text)
    for _ in range(_MOST_ROUNDS):
        text, changed = _CALL.subn("$UNKNOWN_OUTPUT", text)
        if not changed:
            break
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();&|\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    words: list[str] = []
    inside = False  # an array
    try:
        for word, mark in ((token, mark) for token in lexer for mark in _parts(token)):
            condition = words and words[0] in ("if", "elif", "while", "until")
            if mark == "(" and words and words[-1].endswith("=") and not inside:
                inside, words[-1] = True, f"{words[-1]}("
            elif inside:
                inside = mark != ")"
                words += [] if mark else [word]
            elif mark in _ENDS and not (condition and mark in ("&&", "||")):
                yield words
                words = [";;"] if mark == ";;" else []
            else:
                words.append(mark or word)
    except ValueError as error:
        raise InputError(f"{path!r} is no script: {error}; give a launch script") from None
    yield words


def heredocs(text: str) -> tuple[str, list[str]]:
    """A script without the texts that it writes in place, and these."""
    lines = text.split("\n")
    last = {line.strip(): at for at, line in enumerate(lines)}
    kept: list[str] = []
    inside: list[list[str]] = []
    word = ""
    for at, line in enumerate(lines):
        if word:
            word = word if line.strip() != word else ""
            inside[-1] += [line] if word else []
            continue
        found = _HEREDOC.search(line)
        if found and last.get(found[2], 0) > at:
            word, line = found[2], line[: found.start()]
            inside.append([])
        kept.append(line)
    return "\n".join(kept), ["\n".join(each) for each in inside]


def _hidden(found: re.Match[str]) -> str:
    """$((...)) without what the lexer would cut."""
    inner = re.sub(r"\s+", "", found[1]).translate(str.maketrans("()", "\x01\x02"))
    return f"$\x03{inner}\x04"


def _parts(token: str) -> list[str]:
    """The marks of a token that is of marks alone; "" for a word."""
    words = bool(token.strip("();&|\n")) or not token
    return [""] if words else re.findall(r";;|&&|\|\||[;&|()\n]", token)


def _step(script: Script, words: list[str]) -> None:
    """Follow one statement."""
    if words[:1] == [";;"]:
        words = words[1:]
        if script._branches and script._branches[-1].kind == "case":
            script._branches[-1].state, script._branches[-1].patterns = False, []
    while words and (rest := _control(script, words)) is not None:
        words = rest
    if not words or script.runs is False:
        return
    if words[0] in ("source", "."):
        script.sourced += words[1:2]
        return
    if words[0] in _DECLARING:
        words = [word for word in words[1:] if not word.startswith("-")]
    if all(map(_ASSIGNED.fullmatch, words)) or (words and words[0].endswith("(")):
        _assign(script, words)
        return
    while words and _ASSIGNED.fullmatch(words[0]):
        words = words[1:]  # for one command alone
    if script.runs:
        text = " ".join(filled(word, script) for word in words)
        script.commands.append([*itertools.takewhile(_not_sent, split(text))])


def _not_sent(word: str) -> bool:
    """Whether a word is the command's own, and not where its output goes."""
    return re.match(r"\d*[<>]", word) is None


def _control(script: Script, words: list[str]) -> list[str] | None:
    """Follow a word that opens, changes or closes a branch; the rest of the statement, or None."""
    first, rest, branches = words[0], words[1:], script._branches
    if first in ("if", "while", "until"):
        state = _decided(rest, script)
        loop = first != "if"
        state = None if loop and state else state
        branches.append(_Branch("loop" if loop else "if", state, state))
    elif first in ("for", "select"):
        branches.append(_Branch("loop", None))
    elif first == "case":
        subject = filled(rest[0], script) if rest else ""
        known = None if "$" in subject else subject
        branches.append(_Branch("case", False, False, known, []))
        rest = rest[rest.index("in") + 1 :] if "in" in rest else []
        return rest
    elif first in ("elif", "else") and branches:
        branch = branches[-1]
        state = _decided(rest, script) if first == "elif" else True
        branch.state = False if branch.taken else None if branch.taken is None else state
        branch.taken = branch.taken or state
        return rest if first == "else" else []
    elif first in ("fi", "done", "esac"):
        branches[-1:] = []
        return rest
    elif first in ("then", "do", "{", "}"):
        return rest
    elif branches and branches[-1].patterns is not None:  # one or several, then )
        at = words.index(")") if ")" in words else len(words)
        branches[-1].patterns += [word for word in words[:at] if word != "("]
        if at < len(words):
            _match(branches[-1])
        return words[at + 1 :]
    elif words[1:3] in (["(", ")"], ["()"]) or first == "function":
        return [word for word in rest if word == "{"] or []
    else:
        return None
    return []


def _match(branch: _Branch) -> None:
    """Decide a case by its patterns."""
    patterns, branch.patterns = branch.patterns or [], None
    if branch.subject is None:
        branch.state = None
        return
    hit = any(fnmatch.fnmatchcase(branch.subject, each) for each in patterns)
    branch.state = hit and not branch.taken
    branch.taken = branch.taken or hit


def _assign(script: Script, words: list[str]) -> None:
    """Set the variables of a statement, or one array."""
    if words and words[0].endswith("("):
        found = _ASSIGNED.fullmatch(words[0].removesuffix("("))
        pairs = [(found, " ".join(words[1:]))] if found else []
    else:
        pairs = [(found, found[3]) for word in words if (found := _ASSIGNED.fullmatch(word))]
    for found, text in pairs:
        name, grows = found[1], bool(found[2])
        if script.runs is None:  # in a branch that may be read or not
            if not grows and not re.search(rf"\$\{{?{name}\b", text):
                script.variables[name] = f"${name}"
            continue
        value = filled(text, script)
        before = script.variables.get(name, "") if grows else ""
        script.variables[name] = f"{before} {value}".strip()[:_MOST_LETTERS]


def filled(text: str, script: Script) -> str:
    """A text with the variables that are known."""

    def value(found: re.Match[str]) -> str:
        known = of_name(found)
        script.filled += len(known)
        if script.filled > _MOST_FILLED:
            raise InputError(
                f"a script's variables give more than {_MOST_FILLED:,} letters; state its values"
            )
        return known

    def of_name(found: re.Match[str]) -> str:
        name = found["name"] or found["long"]
        rule, other = found["rule"], (found["other"] or "").strip("\"'")
        known = script.variables.get(name)
        if other and not rule:
            return found[0]  # an operation on the text
        if known is not None and not (known == "" and (rule or "").startswith(":")):
            return other if rule and rule.endswith("+") else known
        if rule is not None and rule[-1] in "-=":
            return other
        return "" if rule and rule.endswith("+") else found[0]

    text = text.replace("$#", "0").replace("$@", "").replace("$*", "")  # run without arguments
    for _ in range(_MOST_ROUNDS):
        before = text
        text = _VARIABLE.sub(value, text)
        text = _HIDDEN_SUM.sub(lambda found: _sum(found[1], script), text)
        if text == before or len(text) > _MOST_LETTERS:
            break
    return text[:_MOST_LETTERS]


def _sum(hidden: str, script: Script) -> str:
    """The value of an expression in whole numbers; left open where it has none."""
    text = hidden.replace("\x01", "(").replace("\x02", ")").replace("/", "//")[:200]
    try:
        if re.search(r"\d[A-Za-z_.]", text):
            raise ValueError("not whole numbers")
        return str(_whole(ast.parse(text, mode="eval").body, script))
    except (ValueError, SyntaxError, ZeroDivisionError, RecursionError, KeyError, MemoryError):
        return f"$UNKNOWN_SUM[{text}]"


def _whole(node: ast.AST, script: Script) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        value = int(node.value)
    elif isinstance(node, ast.Name):
        value = int(filled(script.variables[node.id], script))
    elif isinstance(node, ast.BinOp):
        ends = (_whole(part, script) for part in (node.left, node.right))
        value = int(_OPERATIONS[type(node.op)](*ends))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = -_whole(node.operand, script)
    else:
        raise ValueError("not a sum of whole numbers")
    if abs(value) > 1 << 62:
        raise ValueError("beyond a shell's numbers")
    return value


def _decided(words: list[str], script: Script) -> bool | None:
    """Whether a condition holds; None where it is not known."""
    if len(words) > _MOST_WORDS:
        return None
    for mark, whole in (("||", True), ("&&", False)):
        if mark in words:
            at = words.index(mark)
            states = {_decided(words[:at], script), _decided(words[at + 1 :], script)}
            return whole if whole in states else None if None in states else not whole
    if not words or words[0] not in ("[", "[["):
        return None
    inner = [word for word in words[1:] if word not in ("]", "]]")]
    if inner[:1] == ["!"]:
        held = _compared(inner[1:], script)
        return held if held is None else not held
    return _compared(inner, script)


def _compared(words: list[str], script: Script) -> bool | None:
    """A comparison of texts or numbers; a variable that nothing sets is empty, as in a shell."""
    texts = [_VARIABLE.sub(_emptied, filled(word, script)) for word in words]
    if any("UNKNOWN_" in filled(word, script) for word in words):
        return None
    if len(texts) in (1, 2) and texts[0] in ("-n", "-z"):
        return (texts[1:] not in ([], [""])) == (texts[0] == "-n")
    if len(texts) == 3 and texts[1] in ("=", "==", "!="):
        return (texts[0] == texts[2]) == (texts[1] != "!=")
    if len(texts) == 3 and texts[1] in _COMPARED and all(text.isdigit() for text in texts[::2]):
        return _COMPARED[texts[1]](int(texts[0]), int(texts[2]))
    return None


def _emptied(found: re.Match[str]) -> str:
    return "" if found["name"] or found["long"] else found[0]


def split(text: str) -> list[str]:
    """Words of a text that may hold quotes of its own."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
