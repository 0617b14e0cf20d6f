"""Fields of a framework's file as inputs, by a table of its names, and back."""

import contextlib
import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from fleetcube.catalog import record
from fleetcube.catalog.files import parse_toml
from fleetcube.catalog.huggingface import COUNTS
from fleetcube.catalog.records import json_label, kind
from fleetcube.grid.errors import InputError, shown
from fleetcube.grid.spec import values
from fleetcube.kernels.physics.graph import PHYSICS

# A variable without a value, or a placeholder
_UNSET = re.compile(r"\$|<[^<>]*>|\?\?\?|\byour_")
_ALONE = re.compile(r"\$\{(\w+):-([^{}$]*)\}")  # a variable, and its value where nothing sets it
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "none": None, "null": None}
MOST_FIELDS = 10_000
REPLICA = ("tensor_parallel", "pipeline_parallel", "context_parallel")
NOTHING: Mapping[str, Any] = MappingProxyType({})
SWITCH = {"true": True, "false": False}


@dataclass(frozen=True)
class Table:
    """A framework's names. `inputs` and `model` map its numbers to our inputs and to fields of a
    config.json; `switches` and `words` set inputs; `absent` holds the framework's defaults for
    missing fields; `without` maps patterns of fields that no quantity depends on to the reason;
    `uncounted` maps patterns of fields, or of field=value, to an effect that is not modelled;
    `vocabularies` are sizes by a pattern of the tokenizer's name; `bare` is a pattern of fields
    without a value; `models` are labels of the catalog, by the framework's names;
    `overlaps` hide the traffic of gradients, and of weights.

    A framework with other names for the arguments of another one extends that table. `names`
    are its fields, by whole or last name, as an argument, or by words as the arguments that they
    set; `defaults` apply where a file has no such field."""

    framework: str
    software: str
    version: str
    source: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    model: Mapping[str, str] = field(default_factory=dict)
    switches: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    words: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    absent: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)
    uncounted: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    vocabularies: Mapping[str, int] = field(default_factory=dict)
    bare: str = ""
    overlaps: tuple[str, ...] = ()
    names: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)

    def why_ignored(self, name: str) -> str | None:
        """The reason why no quantity depends on a field; None if one may."""
        return _matched(self.without, name)

    def is_bare(self, name: str) -> bool:
        """Whether a field takes no value."""
        return name in self.switches or _matched({"": self.bare}, name) is not None

    def uncounted_effect(self, name: str, value: Any) -> str | None:
        """The effect of a field that fleetcube does not model; None if it has no known one."""
        effect = _matched(self.uncounted, f"{name}={_lower(value)}")
        return effect or (None if value is False else _matched(self.uncounted, name))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.VERBOSE)


def _matched(rows: Mapping[str, str], text: str) -> str | None:
    tried = rows.items()
    return next((why for why, row in tried if _pattern(row).fullmatch(text[:80])), None)


@dataclass
class Job:
    """A parsed framework config. `given` are the user's inputs: they override the file's, also
    where one input follows from several. `read` and `ignored` are fields with the inputs they set,
    and the reason why they change nothing; `uncounted` are fields with an effect that fleetcube
    does not model, `unknown` those it does not understand. `open_inputs` have a variable in the
    file for a value. `source` has the file's own names of fields, where these are others."""

    table: Table
    path: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    scenario: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)  # the model's, as in a config.json
    fields: dict[str, Any] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    uncounted: dict[str, str] = field(default_factory=dict)
    open_inputs: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    source: Mapping[str, str] = field(default_factory=dict)

    def add_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Take inputs that the user does not state."""
        self.scenario |= {name: inputs[name] for name in inputs if name not in self.given}

    def inputs_of(self, name: str) -> set[str]:
        """The inputs that a field that was read sets, alone or with others."""
        words = re.findall(r"\w+", self.read.get(name, ""))
        return {word for word in words if values.is_known(PHYSICS, word)}

    def with_likely(self, name: str) -> str:
        """A field that is not understood, with the one that it may be a misspelling of."""
        table = self.table
        choices = {*table.inputs, *table.model, *table.switches, *table.words} - {*self.read}
        likely = difflib.get_close_matches(name, sorted(choices), 1, 0.9)
        return f"{name} ({likely[0]}?)" if likely else name

    def set(self, name: str, inputs: Mapping[str, Any]) -> None:
        """Take inputs from a field."""
        self.add_inputs(inputs)
        text = ", ".join(f"{key} = {_short_text(self.scenario[key])}" for key in inputs)
        self._is_read(name, text or "as it is by default")

    def ask(self, why: str, *inputs: str) -> None:
        """Leave inputs open that the user does not state."""
        why = _ALONE.sub(r"$\1 (\2 in the script alone)", why)
        why = re.sub(
            r" is \$UNDECIDED_\S+", " depends on a value that the file does not state", why
        )
        for name in inputs:
            if name not in self.given:
                self.open_inputs.setdefault(name, why)

    def set_per_gpu(self, name: str, share: float) -> None:
        """Take an input that grows with the number of GPUs."""
        if (gpus := self.scenario.get("n_gpus")) is not None:
            self.add_inputs({name: whole(gpus * share)})
        else:
            self.ask(f"it is {share:g} times n_gpus", "n_gpus", name)

    @property
    def replica_gpus(self) -> float:
        """GPUs of a replica."""
        gpus: float = math.prod(self.scenario.get(name, 1) for name in REPLICA)
        return gpus

    @property
    def layers(self) -> int:
        """Layers of the model, the user's or the file's; 0 if unknown."""
        model = values_of(self.scenario.get("model")).get("layers")
        counts = (self.given.get("layers"), model, self.config.get("num_hidden_layers"))
        return next((int(count) for count in counts if isinstance(count, int | float)), 0)

    def set_batch(self, share: float, steps: str) -> None:
        """Take the sequences of each GPU and step, and the tokens of a field's steps."""
        number = max(0, self.number(steps, -1, "training_tokens") or 0)
        if "global_batch_size" in self.open_inputs:
            return
        self.set_per_gpu("global_batch_size", share)
        batch, length = self.scenario.get("global_batch_size"), self.scenario.get("sequence_length")
        if batch and (tokens := number * batch * (length or 0)):
            self.add_inputs({"training_tokens": tokens})

    def take(self, name: str, why: str = "read with others") -> Any:
        """The value of a field for the reader; None if absent or a placeholder. For a placeholder
        the inputs that `why` names are left open."""
        value = self.fields.get(name)
        if value is None:
            return None
        self._is_read(name, self.read.get(name, why))
        if is_open(value):
            self.ask(
                f"{name} is {value}",
                *(w for w in re.findall(r"\w+", why) if values.is_known(PHYSICS, w)),
            )
            return None
        return value

    def number(self, name: str, least: float = 1, why: str = "read with others") -> float | None:
        """A number for the reader; None if absent or a placeholder."""
        value = self.take(name, why)
        return None if value is None or value is False else _number(name, value, least)

    def word(self, rows: Mapping[str, Any], name: str, value: Any, *inputs: str) -> Any:
        """The entry for a word of a field; None for another word if the user states what it sets.
        Raises InputError."""
        stated = bool(inputs) and {*inputs} <= {*self.given} and _lower(value) not in rows
        return None if stated else one_of(rows, name, value, self.path, *inputs)

    def _is_read(self, name: str, why: str) -> None:
        self.read[name] = why
        for row in (self.ignored, self.uncounted, self.unknown):
            row.pop(name, None)


@cache
def table(name: str) -> Table:
    """The table of a format, from the TOML file of its reader.

    `words` take several words with one meaning as "word | word". Names of models that the catalog
    has with the same letters and digits stand in `same_models`, and all set `model_field`. A row
    that is empty takes away that of the table which a format `extends`.
    """
    rows = parse_toml(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    base = vars(table(rows.pop("extends"))) if "extends" in rows else {}
    same = {model: str(catalog_label(model)) for model in rows.pop("same_models", ())}
    rows["models"] = {**same, **rows.get("models", {})}
    words: dict[str, Any] = rows.setdefault("words", {})
    if model_field := rows.pop("model_field", None):
        named = {model: {"model": label} for model, label in rows["models"].items()}
        words[model_field] = named | words.get(model_field, {})
    for name, sets in words.items():
        words[name] = {word: sets[several] for several in sets for word in several.split(" | ")}
    for part in ("without", "uncounted"):
        for why in rows.get(part, {}).keys() & base.get(part, {}).keys():
            rows[part][why] += f" | {base[part][why]}"
    joined = {
        part: {**base.get(part, {}), **row} for part, row in rows.items() if isinstance(row, dict)
    }
    filled = {
        part: {key: each for key, each in row.items() if each} for part, row in joined.items()
    }
    return Table(**{**base, **rows, **(filled if base else joined)})


@cache
def _labels() -> dict[str, str]:
    return {_letters(label): label for label in kind("model")}


def catalog_label(model: str) -> str | None:
    """The catalog's label with the same letters and digits as a name of a model."""
    return _labels().get(_letters(model))


def _letters(name: str) -> str:
    return re.sub(r"_v0\.1$|\W|_", "", name.lower())


def job_of(
    format_table: Table,
    fields: Mapping[str, Any],
    path: str = "",
    given: Mapping[str, Any] = NOTHING,
) -> Job:
    """Read all fields in the table, below the user's inputs. Raises InputError."""
    if len(fields) > MOST_FIELDS:
        raise InputError(f"{path!r} has more than {MOST_FIELDS:,} fields; give one job's")
    job = Job(format_table, path, given, {**given})
    for name, text in fields.items():
        value = _WORDS.get(text.strip().lower(), text) if isinstance(text, str) else text
        if value is not None:
            job.fields[name] = value
            _take(job, name, value)
    for name, inputs in format_table.absent.items():
        if name not in job.fields:
            job.scenario = {**inputs, **job.scenario}
    join_model(job)
    return job


def join_model(job: Job) -> None:
    """Add the user's counts of the model under the names of a config.json."""
    for name, fields in COUNTS.items():
        if name in job.given:
            words, names = fields.split(), {*job.config, *job.table.model.values()}
            first = next((word for word in words if word in names), words[0])
            job.config[first] = _written(job.given[name])


def counted_by(field: str) -> str:
    """The input for a field of a config.json; "model" if the field is no input alone."""
    return next((name for name, row in COUNTS.items() if field in row.split()), "model")


def _take(job: Job, name: str, value: Any) -> None:
    format_table = job.table
    if name in format_table.refused and value is not False:
        raise InputError(f"{job.path!r}: {name} {format_table.refused[name]}")
    if is_open(value) and (sets := _sets(format_table, name)):
        job.ask(f"{name} is {value}", *sets)
    elif name in format_table.inputs:
        is_option = values.is_option(PHYSICS, format_table.inputs[name])
        job.set(name, {format_table.inputs[name]: value if is_option else _number(name, value, 0)})
    elif name in format_table.model:
        job.config[format_table.model[name]] = _plain(value)
        job.read[name] = f"{format_table.model[name]} of the model = {_short_text(_plain(value))}"
    elif name in format_table.switches:
        is_on = value if isinstance(value, int) else job.word(SWITCH, name, value)
        if is_on:
            job.set(name, format_table.switches[name])
        else:
            job.read[name] = "off"
    elif name in format_table.words:
        sets = _sets(format_table, name)
        row = job.word(format_table.words[name], name, value, *sets)
        job._is_read(name, "as stated") if row is None else job.set(name, row)
    elif (effect := format_table.uncounted_effect(name, value)) is not None:
        job.uncounted[name] = effect
    elif (why := format_table.why_ignored(name)) is not None:
        job.ignored[name] = why
    else:
        job.unknown[name] = _short_text(value)


def one_of(rows: Mapping[str, Any], name: str, value: Any, path: str, *inputs: str) -> Any:
    """The entry of `rows` for a word of a field that sets `inputs`; * is any other word. Raises
    InputError."""
    word = _lower(value)
    if word not in rows and "*" not in rows:
        instead = f", or give {' '.join(f'{n}=...' for n in inputs)}" if inputs else ""
        raise InputError(
            f"{path!r}: {name} = {shown(value)} is not known; use one of {', '.join(rows)}{instead}"
        )
    return rows.get(word, rows.get("*"))


def _sets(format_table: Table, name: str) -> list[str]:
    """Inputs that a field of a table may set."""
    rows = [*format_table.words.get(name, {}).values(), format_table.switches.get(name, {})]
    input_names = [key for row in rows for key in row] + [format_table.inputs.get(name, "")]
    input_names += [counted_by(format_table.model[name])] if name in format_table.model else []
    return [*dict.fromkeys(filter(None, input_names))]


def fields_of(format_table: Table, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that set a scenario's inputs; switches are True. The framework's defaults are
    left out."""
    fields: dict[str, Any] = {}
    default = {key: value for row in format_table.absent.values() for key, value in row.items()}
    for input_name, name in _first_names(format_table.inputs).items():
        value = scenario.get(input_name)
        if value is not None and value != default.get(input_name):
            fields[name] = _written(value)
    for name, inputs in format_table.switches.items():
        if _holds(inputs, scenario) and not _holds(inputs, default):
            fields[name] = True
    for name, row in format_table.words.items():
        word = next((word for word, inputs in row.items() if _holds(inputs, scenario)), None)
        if word is not None and not _holds(row[word], default):
            fields[name] = word
    return fields


def model_fields(format_table: Table, shape: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that set the counts of a model's record."""
    first_names = _first_names(format_table.model)
    counts: dict[str, Any] = {}
    for key, fields in COUNTS.items():
        name = next((first_names[each] for each in fields.split() if each in first_names), None)
        if key in shape and name is not None:
            counts[name] = _written(shape[key])
    return counts


def _first_names(names: Mapping[str, str]) -> dict[str, str]:
    """Field name for each input (the first if several)."""
    first_names: dict[str, str] = {}
    for name, meaning in names.items():
        first_names.setdefault(meaning, name)
    return first_names


def whole_counts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields to write whose numbers are whole. Raises InputError."""
    numbers = {n: whole(v) if isinstance(v, float) else v for n, v in fields.items()}
    for name, value in numbers.items():
        if isinstance(value, float):
            raise InputError(f"{name} = {value:g} is no whole number; choose n_gpus that fit")
    return numbers


def with_open_words(format_table: Table, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields, in which words that the table lacks become placeholders: their inputs stay open."""
    opened = {**fields}
    for name in fields.keys() & format_table.words.keys():
        if opened[name] is not None and _lower(opened[name]) not in format_table.words[name]:
            opened[name] = f"<{opened[name]}>"
    return opened


def _lower(value: Any) -> str:
    return str(value).strip().lower()


def _holds(inputs: Mapping[str, Any], scenario: Mapping[str, Any]) -> bool:
    return bool(inputs) and all(scenario.get(key) == value for key, value in inputs.items())


def is_open(value: Any) -> bool:
    """Whether a value is a variable or a placeholder."""
    return isinstance(value, str) and bool(_UNSET.search(value))


def whole(number: float) -> float:
    """A number without the error of a product, and as a whole one where it is."""
    near = round(number) if math.isfinite(number) else number
    return near if abs(number - near) < 1e-9 * abs(number) else number


def _number(name: str, value: Any, least: float) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError):
        number = None
    if number is None or not least <= number < 1e30:
        raise InputError(f"{name} = {shown(value)} is not a number from {least:g}; correct it")
    plain: float = _written(number)
    return plain


def _plain(value: Any) -> Any:
    """A value of a model's configuration: a number where the text is one."""
    with contextlib.suppress(ValueError):
        return _written(float(value)) if isinstance(value, str) else value
    return value


def _written(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _short_text(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def values_of(model: Any) -> Mapping[str, Any]:
    """Model shape from a catalog label or from config fields."""
    if model is None:
        return {}
    return record("model", json_label(model) if isinstance(model, Mapping) else model).values


def listed(names: Iterable[str], most: int = 8) -> str:
    """Some names, and how many more there are."""
    row = [name[:80] for name in names]
    more = f" and {len(row) - most} more" if len(row) > most else ""
    return f"{', '.join(row[:most])}{more}"
