"""Megatron-LM's arguments in YAML, as its own functional tests have them."""

import re
from collections.abc import Mapping
from typing import Any

from . import megatron_lm
from .megatron_lm import of
from .table import NOTHING, Job
from .trees import parsed

NAME = megatron_lm.NAME
__all__ = ["NAME", "is_own", "of", "read"]


def is_own(text: str, path: str) -> bool:
    """Whether a text has a table of arguments."""
    del path
    return bool(re.search(r"^MODEL_ARGS:", text, re.M))


def read(text: str, path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of a YAML. Raises InputError."""
    said = parsed(text, path, "yaml").get("MODEL_ARGS")
    fields: dict[str, Any] = {}
    for name, value in said.items() if isinstance(said, dict) else ():
        told = " ".join(map(str, value)) if isinstance(value, list) else value
        if told is not False:
            listed = isinstance(told, str) and told.startswith("[")
            name = str(name).lstrip("-").replace("_", "-")
            fields[name] = str(told).strip("[]") if listed else told
    return megatron_lm.made(fields, path, given)
