"""Plain words: nouns for identifiers, and sentences that a colleague would say aloud."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from .table import each

ROOT = Path(__file__).parents[1]
ROOMS = ("kernels", "grid", "catalog", "src", "benchmarks")
# Word: what a name of it leaves open, and nouns to write instead
INSTEAD = {
    "apart": "the thing: distance, phase_axis",
    "own": "whose: user_records, axis_values",
    "found": "the thing: layout, matches, first_match",
    "known": "the thing: choices, labels, cached",
    "said": "the text: summary, note, stated",
    "told": "the text or value: notes, stated_values",
    "of": "of what: output, names, source",
    "at": "the place: position, point, index",
    "made": "the thing: cube, table, inputs",
    "kept": "the thing: dims_kept, rows, buffer",
    "there": "the thing at that place: contents, has_file",
    "beside": "the thing: overheads, shared_width",
    "here": "the thing at this place: package, stage_layers",
    "seen": "the things: visited, answers",
    "held": "the thing: dims_kept, state_bytes",
    "taken": "the thing: seconds, reserved",
    "meant": "the thing: spelling, choice",
    "gone": "the thing: missing",
    "put": "verb and object: write_lock",
}
# Options that users write, as parameters and fields
OPTIONS = {"of", "at"}
# Pattern: what to write instead. Strings, docstrings and comments of the product, and pages
SENTENCES = {
    r"\bbeside\b": "next to, in addition to, besides or compared with",
    r"\bwhat of\b": "a noun",
    r"\b(files?|formats?|scripts?|names?|words?) of the field\b": "the frameworks' name",
    r"\bNone where (it|there) is none\b": "None without one",
    r"\bWhether [^.]*, None where\b": "a noun: the answer, or None if ...",
    r"\b(is|are|was|were) (said|told) (in|by|of|with|where)\b": "a verb with its agent",
}

# Pages that `python -m docs.make` writes whole, and the folder of those that the build writes
GENERATED = ("claims.md", "frozen.md", "laws.md", "peers.md", "reference")


def files(*rooms: str) -> list[Path]:
    return [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]


def pages() -> list[Path]:
    """README and the pages that people write."""
    written = (p for p in sorted((ROOT / "docs").rglob("*.md")) if not {*p.parts} & {*GENERATED})
    return [ROOT / "README.md", *written]


def bound(tree: ast.AST, options: frozenset[str] = frozenset()) -> Iterator[tuple[int, str, bool]]:
    """Line and name of what a tree binds; whether it may be an option that users write: a parameter
    or a field, also where a function assigns its parameter anew."""
    for node in ast.iter_child_nodes(tree):
        inside, is_field = options, isinstance(tree, ast.AnnAssign | ast.ClassDef)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name, is_field
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = options | {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)}
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg, True
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id, is_field or node.id in options
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr, True
        elif isinstance(node, ast.alias) and node.asname:
            yield getattr(node, "lineno", 0), node.asname, False
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.lineno, node.name, False
        yield from bound(node, inside)


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def texts(path: Path) -> tuple[tuple[int, str], ...]:
    """Strings, docstrings and comments of a module, or a page without its tables, by line."""
    lines = [*enumerate(path.read_text("utf-8").splitlines(), 1)]
    if path.suffix == ".md":
        return tuple((number, line) for number, line in lines if not line.startswith("|"))
    comments = [(number, line.partition("# ")[2]) for number, line in lines if "# " in line]
    strings = [
        line
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for line in enumerate(node.value.splitlines(), node.lineno)
    ]
    return (*comments, *strings)


@each("room", ROOMS)
def test_identifiers_are_nouns_with_their_object(room: str) -> None:
    wrong = []
    for path in files(room):
        names = [*bound(parsed(path))]
        if room != "benchmarks":  # whose modules are named after their commands
            names.append((1, path.stem, False))
        wrong += [
            f"{path.relative_to(ROOT)}:{line}: {name}: name {INSTEAD[word]}"
            for line, name, written in names
            if (word := name.strip("_").lower()) in INSTEAD and not (written and word in OPTIONS)
        ]
    assert not wrong, "\n".join(["", *wrong])


@each("pattern", SENTENCES)
def test_sentences_are_plain(pattern: str) -> None:
    wrong = []
    for path in [*files(*ROOMS), *pages()]:
        wrong += [
            f"{path.relative_to(ROOT)}:{line}: {match[0]}: write {SENTENCES[pattern]}"
            for line, text in texts(path)
            if (match := re.search(pattern, text))
        ]
    assert not wrong, "\n".join(["", *wrong])
