"""Terms of the field that are not names here: their meaning, and the names they lead to."""

import functools
from dataclasses import dataclass
from importlib.resources import files

from .files import parse_toml

PATH = files(__package__).joinpath("data", "glossary.toml")


@dataclass(frozen=True)
class Word:
    """A term with its synonyms."""

    words: tuple[str, ...]
    means: str
    names: tuple[str, ...]
    source: str = ""


@functools.cache
def glossary() -> tuple[Word, ...]:
    rows = parse_toml(PATH.read_text(encoding="utf-8"))["word"]
    return tuple(
        Word(tuple(row["words"]), row["means"], tuple(row["names"]), row.get("source", ""))
        for row in rows
    )


def word(text: str) -> Word | None:
    """The entry of a term, ignoring case, hyphens and plural; None if there is none."""
    wanted = _plain(text)
    by_name = {_plain(each): entry for entry in glossary() for each in entry.words}
    return by_name.get(wanted) or by_name.get(wanted.removesuffix("s")) or by_name.get(f"{wanted}s")


def _plain(text: str) -> str:
    return text.lower().replace("-", " ").replace("_", " ").strip()
