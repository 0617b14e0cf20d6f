"""Changes that are printed for a framework's file, made in that file: it is read as was wanted."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetcube.analysis.layouts import OPEN
from fleetcube.catalog.files import parse_toml
from fleetcube.formats import field_table, shell
from fleetcube.formats.read import read_job
from fleetcube.formats.trees import as_toml, flat
from fleetcube.formats.write import WRITERS, changed, export
from fleetcube.grid.errors import InputError

BASE = {
    **{"model": "llama-3-8b", "n_gpus": 256, "tensor_parallel": 2, "pipeline_parallel": 4},
    **{"global_batch_size": 1024, "micro_batch_size": 1, "sequence_length": 8192},
    **{"zero_stage": 1, "recompute": False, "sequence_parallel": True},
}
OF_FRAMEWORK: Mapping[str, Mapping[str, Any]] = {
    "torchtitan": {"zero_stage": 2, "recompute": False},
    "maxtext": {"pipeline_parallel": 1, "zero_stage": 3, "recompute": "full"},
}
# Stands for what a flag may be given, where no table has its words
TRIED = (True, 1, 2, 4, "full", "selective", "uniform", "block", "op", "optim_grads_params", "mlp")


def _flags(text: str) -> dict[str, Any]:
    return {**shell.options(shell.split(text.replace("\\\n", " ")))}


def _script(fields: Mapping[str, Any]) -> str:
    words = (f"--{n}" + ("" if v is True else f" {shlex.quote(str(v))}") for n, v in fields.items())
    return "torchrun --nproc-per-node 8 --nnodes 32 pretrain_gpt.py " + " \\\n".join(words)


def _tree(fields: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in fields.items():
        *above, last = name.split(".")
        inner = tree
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return tree


def _from_yaml(text: str) -> dict[str, Any]:
    return flat(yaml.safe_load(text))


def _to_yaml(fields: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(_tree(fields)))


# The name of a file, and how its text becomes fields and fields become its text
FORMS: Mapping[str, tuple[str, Callable[[str], dict[str, Any]], Callable[..., str]]] = {
    "megatron-lm": ("a.sh", _flags, _script),
    "megatron-bridge": ("a.yaml", _from_yaml, _to_yaml),
    "torchtitan": ("a.toml", lambda text: flat(parse_toml(text)), as_toml),
    "maxtext": ("a.yml", _from_yaml, _to_yaml),
    "deepspeed": ("a.sh", _flags, _script),
}


def candidates(
    software: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Any]]:
    """Fields of a framework's table, and those that its reader asks for, each with values."""
    asked: set[str] = set()
    take = field_table.Job.take

    def recorded(job: field_table.Job, name: str, *why: str) -> Any:
        asked.add(name)
        return take(job, name, *why)

    with monkeypatch.context() as patched:
        patched.setattr(field_table.Job, "take", recorded)
        read_job(str(path))
    table = WRITERS[software].format_table()
    spelled = {str(argument): name for name, argument in table.names.items()}
    for name in sorted({*table.inputs, *table.switches, *table.words, *table.absent, *asked}):
        field = name
        if software == "megatron-bridge":
            field = spelled.get(name, name.replace("-", "_"))
            field = field if "." in field else f"model.{field}"
        words = [*table.words.get(name, {})] or ([True] if table.is_bare(name) else TRIED)
        yield from ((field, word) for word in words)


def layout(path: Path) -> dict[str, Any] | None:
    """Inputs of the layout that a file sets; None if it is refused or leaves one open."""
    try:
        job = read_job(str(path))
    except InputError:
        return None
    names = [name for name in OPEN if name in job.scenario]
    return None if {*job.open_inputs} & {*OPEN} else {name: job.scenario[name] for name in names}


def applied(
    fields: Mapping[str, Any], lines: list[str], parse: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """Fields after the printed changes: a line that goes must stand there."""
    result = {**fields}
    for line in lines:
        for name, value in parse(line[2:]).items():
            if line.startswith("-"):
                assert str(result.pop(name)) == str(value)
            else:
                result[name] = value
    return result


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("software", FORMS)
def test_a_file_that_is_changed_as_printed_has_the_wanted_layout(
    software: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each field that sets an input of the layout: no other name of it may keep its value."""
    name, parse, write = FORMS[software]
    path = tmp_path / name
    if software == "deepspeed":  # a script without a JSON
        base = parse(export(BASE, "megatron-lm")) | {"deepspeed": True, "zero-stage": 1}
        del base["use-distributed-optimizer"]
    else:
        base = parse(export({**BASE, **OF_FRAMEWORK.get(software, {})}, software))
    path.write_text(write(base))
    wanted = layout(path)
    assert wanted is not None
    reached: dict[str, Any] = {}
    for field, value in candidates(software, path, monkeypatch):
        path.write_text(write({**base, field: value}))
        there = layout(path)
        if there in (None, wanted, reached.get(field)):
            continue
        reached[field] = there
        lines = changed(read_job(str(path)), wanted)
        named = {line[2:].split("=")[0] for line in lines if line.endswith("sets it)")}
        lines = [line for line in lines if not line.endswith("sets it)")]
        path.write_text(write(applied({**base, field: value}, lines, parse)))
        back = layout(path) or {}
        assert {n for n in wanted if back.get(n) != wanted[n]} == named, (field, value, lines)
    assert len(reached) > 5
