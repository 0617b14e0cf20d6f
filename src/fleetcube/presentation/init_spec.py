"""Write a starter spec; comments mark what is assumed."""

from collections.abc import Iterator, Mapping
from typing import Any

from fleetcube.analysis.layouts import OPEN, layout_at
from fleetcube.formats.trees import toml_value
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.spec import values
from fleetcube.grid.spec.problem import resolve
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import DECIDING
from fleetcube.presentation.explain import readable

_OUTPUTS = ("step_time", "mfu", "memory_per_gpu", "goodput", "job_time")
_ABOUT = {
    "The job": ("sequence_length", "global_batch_size", "training_tokens", "precision"),
    "The layout: `fleetcube plan` searches the values that you do not state": OPEN,
    "The cluster": ("gpu_mttf", "checkpoint_write_bandwidth", "gpu_hour_price", "gpus_per_node"),
}
_LABELS = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}


def starter_spec(spec: Mapping[str, Any], name: str) -> str:
    """The text of a commented spec with the values of `spec`. Raises InputError."""
    scenario = dict(spec["scenario"])
    resolve(scenario, spec["axes"])  # refuse bad input as commands do
    complete = is_known(scenario, {}, ["step_time"])
    names = dict.fromkeys([*(name for row in _ABOUT.values() for name in row), *DECIDING])
    inputs = [name for name in names if name in INPUTS]
    now = layout_at(Evaluation(scenario, {}, ["step_time"]), inputs) if complete else {}
    return "\n".join([*_lines(spec, scenario, now, name), ""])


def _lines(
    spec: Mapping[str, Any], scenario: Mapping[str, Any], now: Mapping[str, Any], name: str
) -> Iterator[str]:
    yield f"# fleetcube run {name} | plan {name} | explain {name}"
    yield f"outputs = {toml_value(list(spec['outputs'] or _OUTPUTS))}"
    yield ""
    yield "[scenario]"
    yield "# Values after a # are assumed or unknown: remove the # to state one"
    for key, value in scenario.items():
        yield f"{key} = {toml_value(value)}"
    for key, example in _LABELS.items():
        if key not in scenario:
            yield f'# {key} = "{example}"  # fleetcube catalog {key}'
    for title, row in _ABOUT.items():
        left = [key for key in row if key not in scenario]
        if left:
            yield ""
            yield f"# {title}"
        yield from (_comment(key, now) for key in left)
    yield ""
    yield "[axes]"
    for key, value in spec["axes"].items():
        yield f"{key} = {toml_value(value)}"
    if not spec["axes"]:
        yield "# n_gpus = [512, 1024, 2048]"


def _comment(key: str, now: Mapping[str, Any]) -> str:
    if key not in INPUTS:
        return f"# {key} = "
    row = INPUTS[key]
    value = now.get(key, row.default)
    about = row.description.split(".")[0].split(":")[0].split("(")[0].strip()
    if value is None:
        about = f"{about} [{row.unit}]" if row.unit != "1" else about
        text = ""
    elif row.kind == "option" or row.unit == "1":
        text = toml_value(value)
    else:
        text = f'"{readable(float(value), values.unit_of(PHYSICS, key), key)}"'
    return f"# {key} = {text}  # {about}"
