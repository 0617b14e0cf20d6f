"""Write a scenario as a framework config, or as a diff of the config it came from."""

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fleetcube.catalog import KINDS, record
from fleetcube.grid.errors import InputError, nearest
from fleetcube.grid.spec import values
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import TEXTS

from . import deepspeed, maxtext, megatron_bridge, megatron_lm, torchtitan
from .field_table import Job, values_of
from .read import read_job, spec_of

_WRITTEN = (megatron_lm, megatron_bridge, torchtitan, maxtext, deepspeed)
WRITERS: Mapping[str, Any] = {each.NAME: each for each in _WRITTEN}


def export(scenario: Mapping[str, Any], framework: str) -> str:
    """Write a scenario as a framework's config.

    Args:
        scenario: a spec's, with all of the layout, as `Sweep.spec` has it.
        framework: "megatron-lm" and so on.

    Returns the text of its arguments or of its file. Raises InputError.
    """
    writer = writer_of(framework)
    usual = {name: row.default for name, row in INPUTS.items() if row.kind == "option"}
    framework_inputs = record("software", writer.NAME).values.get("own", {})
    stated = _in_base_units(scenario)
    whole = {**usual, **framework_inputs, **stated}
    if whole["pipeline_schedule"] == "1f1b" and whole.get("virtual_stages", 1) > 1:
        whole["pipeline_schedule"] = "interleaved"
    return str(writer.as_text(writer.to_fields(whole, shape_of(stated))))


def writer_of(framework: str) -> Any:
    """The format of a framework that is written. Raises InputError."""
    fits = [name for name in WRITERS if framework in (name, name.rpartition("-")[2])]
    if len(fits) != 1:
        some = f"choose one of {', '.join(WRITERS)}"
        raise InputError(f"{framework!r} is not written; {nearest(framework, WRITERS, some)}")
    return WRITERS[fits[0]]


def _in_base_units(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario whose numbers are plain."""
    texts = {*KINDS, *TEXTS}
    return {
        name: values.number(PHYSICS, name, value)
        if isinstance(value, str) and name not in texts and not values.is_option(PHYSICS, name)
        else value
        for name, value in scenario.items()
    }


def shape_of(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Model shape from a scenario and the record of its model."""
    return {**values_of(scenario.get("model")), **scenario}


def changed(job: Job, scenario: Mapping[str, Any]) -> list[str]:
    """Diff of a file for a scenario: "- old" and "+ new" fields, in the file's order.

    The changed fields are read again: a field of any name that still sets another value goes, and
    an input that no field sets is named. Raises InputError.
    """
    writer = writer_of(job.table.software)
    stated = {name: scenario[name] for name in job.open_inputs if name in scenario}
    stated = {**job.given, **stated}
    job = read_job(job.path, stated) if stated else job
    current = _in_base_units(spec_of(replace(job, open_inputs={}))["scenario"] | stated)
    new = current | _in_base_units(scenario)
    now, before = writer.to_fields(new, shape_of(new)), dict[str, Any]()
    with contextlib.suppress(InputError):  # a layout that the framework has not
        before = writer.to_fields(current, shape_of(current))
    differ = {name for name in now | before if before.get(name) != now.get(name)}
    wrong = {name for name in new if new[name] != current.get(name)} - {*KINDS}
    given = {name: current[name] for name in {*stated, "model"} & {*current} if name not in wrong}
    read = partial(writer.job_from, path=job.path, given=given)
    file, written = (read(fields) for fields in (job.fields, now))
    while True:
        added = {n: v for n, v in now.items() if n in differ or written.inputs_of(n) & wrong}
        dropped = {n for n in file.fields if n in differ or file.inputs_of(n) & wrong} - {*now}
        others = {name: value for name, value in job.fields.items() if name not in dropped}
        again = read(others | added).scenario
        left = {name for name in _judged(file, written, new, wrong) if again.get(name) != new[name]}
        if left <= wrong:
            break
        wrong |= left
    lines = _diff(job, {**dict.fromkeys(dropped), **added}, writer.as_text)
    unset = [f"{name}={new[name]}" for name in new if name in left]
    return lines + [f"+ {each} (no field that fleetcube writes sets it)" for each in unset]


def _judged(file: Job, written: Job, new: Mapping[str, Any], wrong: Collection[str]) -> set[str]:
    """Inputs that fields set: those that change, and others that the writer's fields keep."""
    by_fields = {*file.scenario, *written.scenario} & {*new}
    keeps = {name for name in by_fields if written.scenario.get(name) == new[name]}
    judged = (by_fields & {*wrong}) | (keeps & {*file.scenario})
    pieces = new.get("pipeline_schedule") in (None, "1f1b", "interleaved")  # by virtual_stages
    return judged - {*KINDS} - ({"pipeline_schedule"} if pieces else set())


def _diff(job: Job, fields: Mapping[str, Any], as_text: Callable[..., str]) -> list[str]:
    """Lines of fields that change, in the file's order; None is a field that goes."""
    lines = []
    for name in dict.fromkeys([*job.fields, *fields]):
        old, value = job.fields.get(name), fields.get(name)
        if name not in fields or str(old) == str(value):
            continue
        is_off = old is None or (old is False and job.table.is_bare(name))
        lines += [] if is_off else [f"- {as_text({name: old})}"]
        lines += [] if value is None else [f"+ {as_text({name: value})}"]
    return lines
