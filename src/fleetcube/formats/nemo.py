"""NeMo's YAML of Megatron models: a model and a trainer, or a dump of NeMo 2."""

import operator
import re
from collections.abc import Mapping
from typing import Any

from .renamed import Renamed, job, renamed
from .table import NOTHING, Job
from .trees import flat, parsed

NAME = "nemo"
_OTHER = re.compile(r"\$\{[\w.]*?\.?(\w+)\}")  # another field's value
_SUM = re.compile(r"\$\{(multiply|divide|sum):\s*(-?\d{1,9}),\s*(-?\d{1,9})\}")
_SUMS = {"multiply": operator.mul, "divide": operator.floordiv, "sum": operator.add}
_NONE = (-1, "-1", "auto")  # as many as there are


def of() -> Renamed:
    return renamed("nemo")


def is_own(text: str, path: str) -> bool:
    """Whether a text has a model of Megatron's, and a trainer or NeMo's classes."""
    del path
    whole = re.search(r"^(trainer|_target_: nemo\.):?", text, re.M)
    return bool(whole) and bool(re.search(r"^ +(pipeline_model_parallel|hidden)_size:", text, re.M))


def read(text: str, path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of a YAML. Raises InputError."""
    said = {
        re.sub(r"^(config|model\.config)\.", "model.", name).replace("model.optim.", "optim."): each
        for name, each in flat(parsed(text, path, "yaml")).items()
    }
    for name in ("trainer.max_steps", "trainer.devices", "trainer.num_nodes"):
        if said.get(name) in _NONE:
            del said[name]
    made = job({name: _filled(value, said) for name, value in said.items()}, path, of(), given)
    if made.scenario.get("zero_stage") == 3 and said.get("model.fsdp_sharding_strategy") != "full":
        made.ask("model.fsdp_sharding_strategy is not full", "zero_stage")
    return made


def _filled(value: Any, said: Mapping[str, Any]) -> Any:
    """A value with those of other fields of the model, and their products, filled in."""

    def other(found: re.Match[str]) -> str:
        known = said.get(f"model.{found[1]}", said.get(f"trainer.{found[1]}"))
        return found[0] if known is None or "${" in str(known) else str(known)[:100]

    def summed(found: re.Match[str]) -> str:
        numbers = int(found[2]), int(found[3])
        zero = found[1] == "divide" and not numbers[1]
        return found[0] if zero else str(_SUMS[found[1]](*numbers))

    if not isinstance(value, str) or "${" not in value:
        return value
    return _SUM.sub(summed, _OTHER.sub(other, value[:1000]))
