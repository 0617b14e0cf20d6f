"""Fields of a framework's file as inputs, by a table of its names, and back."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from ...catalog import record
from ...catalog.files import parse_toml
from ...catalog.huggingface import COUNTS
from ...catalog.records import json_label
from ...kernels.physics.inputs import INPUTS
from ..errors import InputError, shown

# A variable that nobody set, or a place to fill in
_UNSET = re.compile(r"\$|<[^<>]*>|\?\?\?|\byour_")
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "none": None, "null": None}
MOST_FIELDS = 10_000


@dataclass(frozen=True)
class Table:
    """A framework's names. `inputs` and `model` are numbers under another name, of ours and of a
    config.json; `switches` and `words` set inputs; `absent` says what the framework does where a
    field is missing; `without` are patterns of fields that no quantity depends on, by why;
    `vocabularies` are sizes by a pattern of the tokenizer's name; `bare` fields take no value and
    are read by a reader's code."""

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
    refused: Mapping[str, str] = field(default_factory=dict)
    vocabularies: Mapping[str, int] = field(default_factory=dict)
    bare: tuple[str, ...] = ()

    def why_without(self, name: str) -> str | None:
        """Why no quantity depends on a field; None where one may."""
        tried = self.without.items()
        return next((why for why, row in tried if re.fullmatch(row, name[:80], re.VERBOSE)), None)


@dataclass
class Job:
    """What a file of the field says. `read` and `ignored` are its fields with what they became, and
    why they change nothing; `unknown` are those not understood, `asked` inputs that a field
    leaves to a variable, `of_gpus` those that are so many times the number of GPUs."""

    table: Table
    path: str = ""
    scenario: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)  # the model's, as in a config.json
    fields: dict[str, Any] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    of_gpus: dict[str, float] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def set(self, name: str, inputs: Mapping[str, Any]) -> None:
        """Take inputs from a field."""
        self.scenario |= inputs
        self.ignored.pop(name, None)
        self.read[name] = ", ".join(f"{key} = {_told(value)}" for key, value in inputs.items())

    def set_per_gpu(self, name: str, share: float) -> None:
        """Take an input that grows with the number of GPUs, which may be stated elsewhere."""
        self.of_gpus[name] = share
        if (gpus := self.scenario.get("n_gpus")) is not None:
            self.scenario[name] = whole(gpus * share)

    def set_batch(self, share: float, steps: str) -> None:
        """Take the sequences of each GPU and step, and the tokens of a field's steps."""
        number = max(0, self.number(steps, -1) or 0)
        if "global_batch_size" not in self.asked:
            self.set_per_gpu("global_batch_size", share)
            if tokens := number * self.scenario.get("sequence_length", 0):
                self.set_per_gpu("training_tokens", share * tokens)

    def take(self, name: str, why: str = "read with others") -> Any:
        """The value of a field that a reader's own code reads; None where it is not given."""
        value = self.fields.get(name)
        if value is not None:
            self.read.setdefault(name, why)
            self.unknown.pop(name, None)
            self.ignored.pop(name, None)
        return value

    def number(self, name: str, least: float = 1) -> float | None:
        """A number that a reader's own code reads; None where it is not given or left open."""
        value = self.take(name)
        if value is None or value is False or is_open(value):
            return None
        return _number(name, value, least)


@cache
def table(name: str) -> Table:
    """The table of a format, beside its reader."""
    text = files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return Table(**parse_toml(text))


def job_of(of: Table, fields: Mapping[str, Any], path: str = "") -> Job:
    """Read all fields that the table knows. Raises InputError."""
    if len(fields) > MOST_FIELDS:
        raise InputError(f"{path!r} has more than {MOST_FIELDS:,} fields; give one job's")
    job = Job(of, path)
    for name, text in fields.items():
        value = _WORDS.get(text.strip().lower(), text) if isinstance(text, str) else text
        if value is not None:
            job.fields[name] = value
            _take(job, name, value)
    for name, inputs in of.absent.items():
        if name not in job.fields:
            job.scenario = {**inputs, **job.scenario}
    return job


def _take(job: Job, name: str, value: Any) -> None:
    of = job.table
    told = of.inputs.get(name) or of.model.get(name)
    if name in of.refused and value is not False:
        raise InputError(f"{job.path!r}: {name} {of.refused[name]}")
    if is_open(value) and (told or name in of.words or name in of.switches):
        rows = of.words[name].values() if name in of.words else [of.switches.get(name, {})]
        inputs = [told] if told else [key for row in rows for key in row]
        job.asked |= dict.fromkeys(filter(None, inputs), f"{name} is {value}")
    elif name in of.inputs:
        job.set(name, {of.inputs[name]: _fitting(name, value, of.inputs[name])})
    elif name in of.model:
        job.config[of.model[name]] = _plain(value)
        job.read[name] = f"{of.model[name]} of the model = {_told(_plain(value))}"
    elif name in of.switches:
        if value is not False:
            job.set(name, of.switches[name])
        else:
            job.read[name] = "off"
    elif name in of.words:
        row = of.words[name]
        word = _lower(value)
        if word not in row:
            raise InputError(
                f"{job.path!r}: {name} = {shown(value)} is not known; use one of {', '.join(row)}, "
                "or state the inputs that it sets"
            )
        job.set(name, row[word])
    elif (why := of.why_without(name)) is not None:
        job.ignored[name] = why
    else:
        job.unknown[name] = _told(value)


def fields_of(of: Table, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that say a scenario's inputs; switches are True. What the framework does where
    nothing is said is left out."""
    made: dict[str, Any] = {}
    default = {key: value for row in of.absent.values() for key, value in row.items()}
    for told, name in _first_names(of.inputs).items():
        value = scenario.get(told)
        if value is not None and value != default.get(told):
            made[name] = _written(value)
    for name, inputs in of.switches.items():
        if _holds(inputs, scenario) and not _holds(inputs, default):
            made[name] = True
    for name, row in of.words.items():
        word = next((word for word, inputs in row.items() if _holds(inputs, scenario)), None)
        if word is not None and not _holds(row[word], default):
            made[name] = word
    return made


def model_fields(of: Table, shape: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that say the counts of a model's record."""
    known = _first_names(of.model)
    made: dict[str, Any] = {}
    for told, fields in COUNTS.items():
        name = next((known[each] for each in fields.split() if each in known), None)
        if told in shape and name is not None:
            made[name] = _written(shape[told])
    return made


def _first_names(names: Mapping[str, str]) -> dict[str, str]:
    """What fields are called, by what they say: the first of several."""
    made: dict[str, str] = {}
    for name, told in names.items():
        made.setdefault(told, name)
    return made


def counted(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields to write whose numbers are whole. Raises InputError."""
    made = {n: whole(v) if isinstance(v, float) else v for n, v in fields.items()}
    for name, value in made.items():
        if isinstance(value, float):
            raise InputError(f"{name} = {value:g} is no whole number; choose n_gpus that fit")
    return made


def with_open_words(of: Table, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields, with words that the table lacks left open: what they set is asked for."""
    return {
        name: f"<{value}>"
        if name in of.words and value is not None and _lower(value) not in of.words[name]
        else value
        for name, value in fields.items()
    }


def _lower(value: Any) -> str:
    return str(value).strip().lower()


def _holds(inputs: Mapping[str, Any], scenario: Mapping[str, Any]) -> bool:
    return bool(inputs) and all(scenario.get(key) == value for key, value in inputs.items())


def is_open(value: Any) -> bool:
    """Whether a value is left to a variable or to the reader of an example."""
    return isinstance(value, str) and bool(_UNSET.search(value))


def _fitting(name: str, value: Any, told: str) -> Any:
    """A field's value as its input takes it."""
    row = INPUTS.get(told)
    if row is not None and row.kind == "option":
        return value
    return _number(name, value, 0)


def whole(number: float) -> float:
    """A number without the error of a product, and as a whole one where it is."""
    return round(number) if abs(number - round(number)) < 1e-9 * abs(number) else number


def _number(name: str, value: Any, least: float) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError):
        number = None
    if number is None or not least <= number < 1e30:
        raise InputError(f"{name} = {shown(value)} is not a number from {least:g}; correct it")
    return int(number) if number.is_integer() else number


def _plain(value: Any) -> Any:
    """A value of a model's configuration: a number where the text is one."""
    if not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else number


def _written(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _told(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def values_of(model: Any) -> Mapping[str, Any]:
    """What the record of a model says: of a label, or of a configuration's fields."""
    if model is None:
        return {}
    return record("model", json_label(model) if isinstance(model, Mapping) else model).values


def listed(names: Iterable[str], most: int = 8) -> str:
    """Some names, and how many more there are."""
    row = [name[:40] for name in names]
    more = f" and {len(row) - most} more" if len(row) > most else ""
    return f"{', '.join(row[:most])}{more}"
