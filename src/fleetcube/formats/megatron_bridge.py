"""Megatron-Bridge's YAML: a ConfigContainer, or changes to a recipe's."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import yaml

from . import megatron_lm
from .field_table import NOTHING, Job, table
from .megatron_aliases import dotted, renamed_job
from .trees import flat, parsed

NAME = "megatron-bridge"
format_table = partial(table, "megatron_bridge")
_FIRST, _LAST = ("tokenizer",), ("mixed_precision", "comm_overlap")  # the last one counts
_LETTERS = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
_SPLIT = "model.pipeline_model_parallel_layout"


def recognizes(text: str) -> bool:
    """Whether a text has sections of a ConfigContainer."""
    sections = {*re.findall(r"^(model|train|optimizer|mixed_precision|ddp|dataset):", text, re.M)}
    field = re.search(r"^ +(global_batch_size|train_iters|tensor_model_parallel_size):", text, re.M)
    return "train" in sections and len(sections) > 1 and field is not None


def read(text: str, path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of a YAML. Raises InputError."""
    values = flat(parsed(text, path, "yaml"))
    if isinstance(values.get("mixed_precision"), str):
        values["mixed_precision"] = values["mixed_precision"].replace("-", "_")
    if isinstance(values.get(_SPLIT), list):
        values[_SPLIT] = _split(values[_SPLIT])
    order = sorted(values, key=lambda name: name.startswith(_LAST) - name.startswith(_FIRST))
    job = renamed_job({name: values[name] for name in order}, path, format_table(), given)
    if "model" in job.open_inputs:
        job.open_inputs["model"] = "the recipe that the file changes has it"
        job.remarks.append("fields missing from the file are the recipe's: state them")
    return job


def job_from(fields: Mapping[str, Any], path: str, given: Mapping[str, Any]) -> Job:
    """The job of arguments by Megatron-LM's names. Raises InputError."""
    on = {name: value for name, value in fields.items() if value is not False}
    return megatron_lm.job_from(on, path, given, format_table())


def _split(stages: list[Any]) -> str:
    """A pipeline layout of lists, in Megatron-LM's letters."""
    rows = ([str(each) for each in stage] if isinstance(stage, list) else [] for stage in stages)
    return "|".join("".join(_LETTERS.get(each, "?") for each in row) for row in rows)


def to_fields(scenario: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """Scenario arguments, renamed to the YAML's keys."""
    fields = megatron_lm.to_fields(scenario, shape, format_table())
    fields["use-distributed-optimizer"] = scenario.get("zero_stage", 1) == 1
    if scenario.get("gradient_bytes_per_element") == 4:
        fields |= {"accumulate-allreduce-grads-in-fp32": True, "grad-reduce-in-bf16": False}
    for name in ("group-query-attention", "max-position-embeddings"):
        fields.pop(name, None)  # by the number of groups, and by the sequence
    if modules := fields.get("recompute-modules"):
        fields["recompute-modules"] = str(modules).split()
    if window := fields.get("window-size"):
        fields["window-size"] = [int(tokens) for tokens in str(window).split(",")]
    return fields


def as_text(fields: Mapping[str, Any]) -> str:
    """A YAML; of one field, in one line."""
    flow = None if len(fields) == 1 else False
    tree = dotted(fields, format_table(), "model.")
    return str(yaml.safe_dump(tree, sort_keys=False, default_flow_style=flow)).rstrip()
