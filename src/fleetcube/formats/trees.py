"""Files of nested tables: TOML, YAML and JSON, of bounded size and depth, and nothing executed."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from fleetcube.catalog.files import parse_toml
from fleetcube.grid.errors import InputError

LARGEST = 1 << 18  # letters of a file
_MOST_DEEP = 32
_MOST_WHOLE = 1 << 63
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parsed(text: str, path: str, kind: str) -> dict[str, Any]:
    """The tables of a text: `kind` is toml, yaml or json. Raises InputError."""
    if len(text) > LARGEST:
        raise InputError(f"{path!r} has more than {LARGEST:,} letters; give one job's file")
    try:
        tree = _PARSERS[kind](text)
        checked = _check(tree)
    except yaml.MarkedYAMLError as error:
        position = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        why = f"{error.problem}{position}"[:200]
    except (ValueError, TypeError, RecursionError, OverflowError, yaml.YAMLError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
    else:
        return checked
    raise InputError(f"{path!r} is not read as {kind.upper()}: {why}; correct it")


def flat(tree: Mapping[Any, Any]) -> dict[str, Any]:
    """Values by dotted names; lists and empty tables are values."""
    values: dict[str, Any] = {}
    for key, value in tree.items():
        inner = flat(value) if isinstance(value, Mapping) and value else {"": value}
        values |= {f"{key}.{name}".rstrip("."): each for name, each in inner.items()}
    return values


def _yaml(text: str) -> Any:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None) not in (None, "!"):
            raise ValueError(f"it has an alias or a tag in line {event.start_mark.line + 1}")
        if depth > _MOST_DEEP:
            raise RecursionError
    return yaml.load(text, Loader=_LOADER)


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "toml": parse_toml,
    "yaml": _yaml,
    "json": json.loads,
}


def _check(tree: Any) -> dict[str, Any]:
    """Refuse a file that is no table, nests too deeply, or holds integers beyond 64 bits."""
    if not isinstance(tree, dict):
        raise ValueError("it is no table")
    level: list[Any] = [tree]
    for _ in range(_MOST_DEEP):
        level = [part for whole in level for part in _parts(whole)]
        if any(isinstance(part, int) and abs(part) > _MOST_WHOLE for part in level):
            raise ValueError("it holds a whole number beyond 64 bits")
    if level:
        raise RecursionError
    return tree


def _parts(whole: Any) -> Iterator[Any]:
    if isinstance(whole, dict):
        yield from whole.keys()
        yield from whole.values()
    elif isinstance(whole, list | tuple):
        yield from whole


def as_toml(fields: Mapping[str, Any]) -> str:
    """Dotted names as tables; one name alone in one line."""
    if len(fields) == 1:
        return "\n".join(f"{name} = {toml_value(value)}" for name, value in fields.items())
    tables: dict[str, list[str]] = {}
    for name, value in fields.items():
        table, _, key = name.rpartition(".")
        tables.setdefault(table, []).append(f"{key} = {toml_value(value)}")
    return "\n\n".join("\n".join([f"[{table}]", *rows]) for table, rows in tables.items())


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value) if not isinstance(value, float) else repr(value)
