"""Counts far beyond any job: each command answers, or refuses in one line, in bounded memory."""

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

from fleetcube.cli import cli
from fleetcube.kernels.physics.inputs import INPUTS

from ..draws import generator, scaled

SPEC = """
outputs = ["job_time", "job_cost", "step_time", "mfu", "goodput", "memory_per_gpu"]
[scenario]
model = "MODEL"
node = "dgx-h100"
fabric = "infiniband-ndr"
gpu_hour_price = 2.5
n_gpus = 1024
gpu_mttf = MTTF
checkpoint_write_bandwidth = "100 GB/s"
"""
MODELS = {  # and what is stated of their layout
    "llama-3-8b": "tensor_parallel = 4",
    "llama-3-70b": "",
    "deepseek-v3": "pipeline_parallel = 16\nexpert_parallel = 8",
}
COMMANDS = {
    "run": ["run {spec}", "run {spec} --interval", "run {spec} n_gpus={first},{last}"],
    "plan": ["plan {spec}"],
    "best": ["best {spec} --of step_time --search n_gpus={first}:{last}"],
    "solve": ["solve {spec} --for n_gpus --target job_time<=30d"],
    "diagnose": ["diagnose {spec} step_time=20s"],
    "sensitivity": ["sensitivity {spec} --of job_time"],
    "dominant-inputs": ["dominant-inputs {spec} --of step_time"],
    "global-sensitivity": ["global-sensitivity {spec} --of step_time --samples 64"],
    "explain": ["explain {spec}", "explain memory_per_gpu {spec}"],
    "compare": ["compare {spec} best", "compare {spec} gpu=h100-sxm,b200-sxm"],
    "scaling-limit": ["scaling-limit {spec}"],
    "uncertainty": ["uncertainty {drawn} --samples 64"],
    "reduce": ["reduce {spec} max --of step_time n_gpus={first},{last}"],
    "simulate": ["simulate {spec} --trials 2"],
    "calibrations": ["calibrations {spec}"],
    "init": ["init {out} {spec} --overwrite"],
    "probe": ["probe {spec} -o {out} --overwrite"],
    "explore": ["explore {spec} -o {out}"],
}
USUAL = ("global_batch_size", "n_gpus", "layers", "sequence_length", "training_tokens")
LARGE = ("1000000000", str(2**53 - 1), str(2**53))


def _values(draw: np.random.Generator) -> list[tuple[str, str]]:
    """Inputs, and values for them: those that most jobs state, and some of all others."""
    counts = [name for name, row in INPUTS.items() if row.kind == "count" and name not in USUAL]
    names = [*draw.choice(USUAL, 2, replace=False), *draw.choice(counts, scaled(3))]
    return [(str(name), str(draw.choice(LARGE))) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_counts_beyond_any_job_end_in_an_answer_or_one_line(command: str, tmp_path: Path) -> None:
    draw = generator([44, *command.encode()])
    cases = []
    for name, value in _values(draw):
        model = str(draw.choice(list(MODELS)))
        spec, drawn = tmp_path / f"{model}.toml", tmp_path / f"{model}-drawn.toml"
        text = SPEC.replace("MODEL", model) + MODELS[model]
        spec.write_text(text.replace("MTTF", '"50_000 h"'))
        drawn.write_text(text.replace("MTTF", '{ lognormal = ["50_000 h", 1.5] }'))
        at = {"first": "64", "last": value, "spec": spec, "drawn": drawn, "out": tmp_path / "out"}
        words = draw.choice(COMMANDS[command]).format(**at).split()
        cases.append([*words, f"{name}={value}"])
    ran = subprocess.run(
        [sys.executable, "-m", "tests.door.large_counts", json.dumps(cases)],
        capture_output=True,
        text=True,
        timeout=60 * len(cases),
    )
    assert ran.returncode == 0, ran.stderr
    for words, (status, out, err) in zip(cases, json.loads(ran.stdout), strict=True):
        told = f"{' '.join(words)}: {status}\n{out}\n{err}"
        assert status in (0, 2), told
        assert "Traceback" not in err, told
        refusals = [line for line in err.splitlines() if line.startswith("fleetcube: ")]
        if refusals:
            assert status == 2, told
            assert len(err.splitlines()) == 1, told
            assert not out, told
        else:
            assert out, told
            assert not re.search(r"\bnan\b", out), told
            assert "never ends" in err or not re.search(r"\binf\b", out), told


def test_each_command_that_takes_a_spec_is_tried() -> None:
    """Those that are not: they read cubes, logs and records, or list what there is."""
    assert not COMMANDS.keys() - cli.commands.keys()
    taking = {
        name
        for name, command in cli.commands.items()
        if {"spec", "a"} & {own.name for own in command.params if isinstance(own, click.Argument)}
    }
    assert taking <= COMMANDS.keys()
