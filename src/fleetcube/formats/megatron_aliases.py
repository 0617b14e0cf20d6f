"""Config files whose fields are Megatron-LM's arguments under other names."""

from collections.abc import Mapping
from typing import Any

from . import megatron_lm
from .field_table import NOTHING, Job, Table, is_open, one_of


def renamed_job(
    values: Mapping[str, Any], path: str, table: Table, given: Mapping[str, Any] = NOTHING
) -> Job:
    """The job of fields by dotted names. Raises InputError."""
    fields, source = arguments(values, path, table)
    off = {name for name, value in fields.items() if value in (False, 0, "", "none")}
    if fields.get("fp16"):
        fields.setdefault("bf16", False)
    if fields.get("num-query-groups"):
        fields.setdefault("group-query-attention", True)
    on = {name: value for name, value in {**table.defaults, **fields}.items() if value is not False}
    job = megatron_lm.job_from(on, path, given, table)
    job.source = source
    job.unknown = {name: value for name, value in job.unknown.items() if name not in off}
    for name, why in job.open_inputs.items():
        first, is_, value = why.partition(" is ")
        job.open_inputs[name] = f"{source.get(first, first)}{is_}{value}"
    for row in (job.read, job.ignored, job.uncounted, job.unknown):
        shown = {source.get(name, name): row[name] for name in row if name not in table.defaults}
        row.clear()
        row.update(shown)
    return job


def arguments(
    values: Mapping[str, Any], path: str, table: Table
) -> tuple[dict[str, Any], dict[str, str]]:
    """Arguments by name, with the field each came from. Raises InputError."""
    fields: dict[str, Any] = {}
    source: dict[str, str] = {}
    rows = [(n, value, _argument(n, table)) for n, value in values.items() if value is not None]
    for name, value, argument in sorted(rows, key=lambda row: isinstance(row[2], Mapping)):
        by_word = isinstance(argument, Mapping)
        sets = _sets(name, value, argument, path) if by_word else {argument: value}
        fields |= {key: _plain(each, key) for key, each in sets.items()}
        source |= dict.fromkeys(sets, name)
    return fields, source


def _argument(name: str, table: Table) -> Any:
    """The argument of a field; the field's own name if no quantity depends on it."""
    last = name.rpartition(".")[2]
    argument = table.names.get(name)
    if argument is None and name.count(".") < 2:  # deeper ones are of something else
        plain = None if table.why_ignored(name) else last.replace("_", "-")
        argument = table.names.get(last, plain)
    return argument or name


def _sets(name: str, value: Any, by_words: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The arguments that a word of a field sets."""
    if is_open(value):
        return {key: value for row in by_words.values() for key in row}
    rows = {word: row for words, row in by_words.items() for word in words.split()}
    arguments: Mapping[str, Any] = one_of(rows, name, value, path)
    return arguments


def _plain(value: Any, name: str) -> Any:
    """A value as an argument spells it: a list becomes one text of words."""
    if isinstance(value, list) and name != "moe-layer-freq":
        return " ".join(str(each) for each in value[:1000])
    return value


def dotted(fields: Mapping[str, Any], table: Table, section: str) -> dict[str, Any]:
    """Arguments as nested fields; those that the table does not name go into `section`."""
    values: dict[str, Any] = {}
    left = dict(fields)
    for name, argument in table.names.items():
        if isinstance(argument, Mapping):
            rows = argument.items()
            words = next((w for w, sets in rows if sets and sets.items() <= left.items()), None)
            if words is not None:
                word = words.split()[0]
                values[name] = {"true": True, "false": False}.get(word, word)
                left = {key: each for key, each in left.items() if key not in argument[words]}
        elif argument in left:
            values[name] = left.pop(argument)
    values |= {name.replace("-", "_"): value for name, value in left.items()}
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *above, last = (name if "." in name else f"{section}{name}").split(".")
        inner = tree
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return tree
