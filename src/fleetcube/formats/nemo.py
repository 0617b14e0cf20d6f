"""NeMo's YAML of Megatron models: a model and a trainer, or a dump of NeMo 2."""

import operator
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from .field_table import NOTHING, Job, table
from .megatron_aliases import renamed_job
from .trees import flat, parsed

NAME = "nemo"
format_table = partial(table, "nemo")
_OTHER = re.compile(r"\$\{[\w.]*?\.?(\w+)\}")  # another field's value
_SUM = re.compile(r"\$\{(multiply|divide|sum):\s*(-?\d{1,9}),\s*(-?\d{1,9})\}")
_SUMS = {"multiply": operator.mul, "divide": operator.floordiv, "sum": operator.add}
_NONE = (-1, "-1", "auto")  # all


def recognizes(text: str) -> bool:
    """Whether a text has a model of Megatron's, and a trainer or NeMo's classes."""
    whole = re.search(r"^(trainer|_target_: nemo\.):?", text, re.M)
    return bool(whole) and bool(re.search(r"^ +(pipeline_model_parallel|hidden)_size:", text, re.M))


def read(text: str, path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of a YAML. Raises InputError."""
    values = {
        re.sub(r"^(config|model\.config)\.", "model.", name).replace("model.optim.", "optim."): each
        for name, each in flat(parsed(text, path, "yaml")).items()
    }
    for name in ("trainer.max_steps", "trainer.devices", "trainer.num_nodes"):
        if values.get(name) in _NONE:
            del values[name]
    filled = {name: _filled(value, values) for name, value in values.items()}
    job = renamed_job(filled, path, format_table(), given)
    if job.scenario.get("zero_stage") == 3 and values.get("model.fsdp_sharding_strategy") != "full":
        job.ask("model.fsdp_sharding_strategy is not full", "zero_stage")
    return job


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A value with those of other fields of the model, and their products, filled in."""

    def other(match: re.Match[str]) -> str:
        text = values.get(f"model.{match[1]}", values.get(f"trainer.{match[1]}"))
        return match[0] if text is None or "${" in str(text) else str(text)[:100]

    def summed(match: re.Match[str]) -> str:
        numbers = int(match[2]), int(match[3])
        zero = match[1] == "divide" and not numbers[1]
        return match[0] if zero else str(_SUMS[match[1]](*numbers))

    if not isinstance(value, str) or "${" not in value:
        return value
    return _SUM.sub(summed, _OTHER.sub(other, value[:1000]))
