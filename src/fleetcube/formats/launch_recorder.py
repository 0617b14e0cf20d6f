"""Run a launch script with stand-ins for launchers that only write down their arguments.

Everything else in the script runs, too: use it for your own scripts only."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fleetcube.grid.errors import InputError

from .megatron_lm import SBATCH, slurm, slurm_options

_PYTHONS = ("python", "python3")
LAUNCHERS = ("torchrun", "srun", "deepspeed", "mpirun", "mpiexec", "accelerate", *_PYTHONS)
_SLURM = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
}
_MOST = 1 << 20  # bytes of a launch
# Python without a script computes something for the script, which needs the answer
_STAND_IN = """#!/bin/sh
case "{name} $1" in python*" -c"|python*" -V"|python*" --version"|python*" -"|python*" ")
  exec {real} "$@";;
esac
file=$(mktemp {folder}/launch.XXXXXXXXXX)
printf '%s\\0' {name} "$@" > "$file"
printf '%s\\n' "$file" >> {folder}/order
"""


def record(command: Sequence[str], seconds: float) -> tuple[str, list[str]]:
    """The launches of a command as a script, and remarks. Raises InputError."""
    if not command or shutil.which(command[0]) is None:
        raise InputError(f"{' '.join(command)!r} is no program; give one, as: -- bash launch.sh")
    lines = [line for path in command if Path(path).is_file() for line in _batch_lines(path)]
    with tempfile.TemporaryDirectory() as folder:
        status = _run(command, _environment(Path(folder), lines), seconds)
        order = Path(folder, "order")  # times of files are too coarse to tell it
        files = order.read_text().splitlines() if order.exists() else []
        launched = [Path(file).read_bytes()[:_MOST].decode(errors="replace") for file in files]
    stopped = f"it was stopped after {seconds:g} s"
    ended = stopped if status is None else f"it ended with status {status}"
    launches = dict.fromkeys(shlex.join(row.split("\0")[:-1]) for row in launched)
    if not launches:
        raise InputError(f"{shlex.join(command)!r} starts none of {', '.join(LAUNCHERS)}; {ended}")
    for name in _SLURM.keys() - slurm_options("\n".join(lines)).keys():
        value = next((os.environ[each] for each in _SLURM[name] if each in os.environ), None)
        lines += [f"#SBATCH --{name}={value}"] if value else []
    head = f"# What {shlex.join(command)} starts, as fleetcube record saw it"
    text = "\n".join(["#!/bin/bash", *lines, head, *launches, ""])
    return text, [] if status == 0 else [f"note: {ended}"]


def _batch_lines(path: str) -> list[str]:
    """The lines of a script that Slurm reads."""
    with open(path, "rb") as file:
        text = file.read(_MOST).decode(errors="replace")
    return [f"#SBATCH {options}" for options in SBATCH.findall(text)]


def _environment(folder: Path, lines: Sequence[str]) -> dict[str, str]:
    """Variables that put stand-ins before programs, even where a script changes the path, and
    Slurm's variables where a job's lines determine them."""
    environment = {**slurm(slurm_options("\n".join(lines))), **os.environ}
    for name in LAUNCHERS:
        real = shutil.which(name) or sys.executable
        program = folder / name
        text = _STAND_IN.format(name=name, real=shlex.quote(real), folder=shlex.quote(str(folder)))
        program.write_text(text)
        program.chmod(0o700)
        environment[f"BASH_FUNC_{name}%%"] = f'() {{ {shlex.quote(str(program))} "$@"; }}'
    return environment | {"PATH": f"{folder}{os.pathsep}{environment.get('PATH', os.defpath)}"}


def _run(command: Sequence[str], variables: dict[str, str], seconds: float) -> int | None:
    """The exit status of a command and all that it starts; None if it took too long."""
    with subprocess.Popen(
        command,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=2,  # with its errors: standard output is for the launch
        start_new_session=True,
    ) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
