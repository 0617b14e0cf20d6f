"""Files that say Megatron-LM's arguments under names of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from fleetcube.catalog.files import parse_toml
from fleetcube.grid.errors import InputError, shown

from . import megatron_lm
from .table import NOTHING, Job, Table, is_open


@dataclass(frozen=True)
class Renamed(Table):
    """Megatron-LM's table with a framework's own. `names` are its fields, by whole or last name, as
    an argument, or by words as the arguments that they set; `defaults` hold where a file says
    nothing, `models` are its names of catalog records."""

    names: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)


@cache
def renamed(name: str) -> Renamed:
    """The table of a format; an empty row of it takes away Megatron-LM's."""
    own = parse_toml(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    made: dict[str, Any] = {**vars(megatron_lm.of())}
    for part, row in own.items():
        if isinstance(row, dict):
            row = {key: each for key, each in {**made.get(part, {}), **row}.items() if each}
        made[part] = row
    for part in ("without", "uncounted"):
        for why, row in own.get(part, {}).items():
            above = getattr(megatron_lm.of(), part).get(why)
            made[part][why] = " | ".join(filter(None, (row, above)))
    return Renamed(**made)


def job(said: Mapping[str, Any], path: str, of: Renamed, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of fields by dotted names. Raises InputError."""
    fields, source = arguments(said, path, of)
    off = {name for name, value in fields.items() if value in (False, 0, "", "none")}
    if fields.get("fp16"):
        fields.setdefault("bf16", False)
    if fields.get("num-query-groups"):
        fields.setdefault("group-query-attention", True)
    on = {name: value for name, value in {**of.defaults, **fields}.items() if value is not False}
    made = megatron_lm.made(on, path, given, names=of)
    made.unknown = {name: value for name, value in made.unknown.items() if name not in off}
    for name, why in made.asked.items():
        first, is_, value = why.partition(" is ")
        made.asked[name] = f"{source.get(first, first)}{is_}{value}"
    for row in (made.read, made.ignored, made.uncounted, made.unknown):
        told = {source.get(name, name): why for name, why in row.items() if name not in of.defaults}
        row.clear()
        row.update(told)
    return made


def arguments(
    said: Mapping[str, Any], path: str, of: Renamed
) -> tuple[dict[str, Any], dict[str, str]]:
    """Arguments by name, and the field that says each. Raises InputError."""
    made: dict[str, Any] = {}
    source: dict[str, str] = {}
    rows = [(name, value, _told(name, of)) for name, value in said.items() if value is not None]
    for name, value, told in sorted(rows, key=lambda row: isinstance(row[2], Mapping)):
        sets = _sets(name, value, told, path) if isinstance(told, Mapping) else {told: value}
        made |= {key: _plain(each, key) for key, each in sets.items()}
        source |= dict.fromkeys(sets, name)
    return made, source


def _told(name: str, of: Renamed) -> Any:
    """What a field is called: as it is where no quantity depends on it."""
    last = name.rpartition(".")[2]
    told = of.names.get(name)
    if told is None and name.count(".") < 2:  # deeper ones are of something else
        told = of.names.get(last, None if of.why_without(name) else last.replace("_", "-"))
    return told or name


def _sets(name: str, value: Any, told: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    if is_open(value):
        return {key: value for row in told.values() for key in row}
    word = str(value).strip().lower()
    row: Mapping[str, Any] | None = next(
        (row for words, row in told.items() if word in words.split() or words == "*"), None
    )
    if row is None:
        known = ", ".join(" ".join(told).split())
        raise InputError(f"{path!r}: {name} = {shown(value)} is not known; use one of {known}")
    return row


def _plain(value: Any, name: str) -> Any:
    """A value as an argument has it: words of a list in one text."""
    if isinstance(value, list) and name != "moe-layer-freq":
        return " ".join(str(each) for each in value[:1000])
    return value


def dotted(fields: Mapping[str, Any], of: Renamed, section: str) -> dict[str, Any]:
    """Nested fields that say arguments; `section` has those that the table does not name."""
    made: dict[str, Any] = {}
    left = dict(fields)
    for name, told in of.names.items():
        if isinstance(told, Mapping):
            rows = told.items()
            words = next((w for w, sets in rows if sets and sets.items() <= left.items()), None)
            if words is not None:
                word = words.split()[0]
                made[name] = {"true": True, "false": False}.get(word, word)
                left = {key: each for key, each in left.items() if key not in told[words]}
        elif told in left:
            made[name] = left.pop(told)
    made |= {name.replace("-", "_"): value for name, value in left.items()}
    tree: dict[str, Any] = {}
    for name, value in made.items():
        *above, last = (name if "." in name else f"{section}{name}").split(".")
        inner = tree
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return tree
