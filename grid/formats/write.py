"""Write a scenario as a framework's file, or as what changes of the one that was read."""

from collections.abc import Mapping
from typing import Any

from ...catalog import record
from ..errors import InputError, nearest
from . import megatron_lm
from .table import Job

WRITERS: Mapping[str, Any] = {megatron_lm.NAME: megatron_lm}


def export(scenario: Mapping[str, Any], framework: str) -> str:
    """A scenario in a framework's own words.

    Args:
        scenario: a spec's, with all of the layout, as `Sweep.spec` has it.
        framework: "megatron-lm" and so on.

    Returns the text of its arguments or of its file. Raises InputError.
    """
    writer = writer_of(framework)
    return str(writer.as_text(writer.written(scenario, shape_of(scenario))))


def writer_of(framework: str) -> Any:
    """The format of a framework that is written. Raises InputError."""
    if framework not in WRITERS:
        some = f"choose one of {', '.join(WRITERS)}"
        raise InputError(f"{framework!r} is not written; {nearest(framework, WRITERS, some)}")
    return WRITERS[framework]


def shape_of(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """What a scenario and the record of its model say of the model."""
    model = scenario.get("model")
    return {**(record("model", model).values if model is not None else {}), **scenario}


def changed(job: Job, scenario: Mapping[str, Any]) -> list[str]:
    """What of a file changes for a scenario: "- old" and "+ new" fields, in the file's order."""
    writer = writer_of(job.table.software)
    now = writer.written(scenario, shape_of(scenario))
    before = writer.written({**job.scenario}, shape_of({"model": job.config, **job.scenario}))
    names = [name for name in [*job.fields, *now] if before.get(name) != now.get(name)]
    lines = []
    for name in dict.fromkeys(names):
        for sign, fields in (("-", before), ("+", now)):
            if name in fields:
                lines.append(f"{sign} {writer.as_text({name: fields[name]})}")
    return lines
