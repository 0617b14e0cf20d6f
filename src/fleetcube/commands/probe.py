"""`fleetcube probe`: write the script that times a job's kernels on one GPU or node."""

from pathlib import Path

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.say import say


@click.command()
@complete.spec()
@click.option("-o", "--output", type=click.Path(), default="probe.py", help="Script.  [probe.py]")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def probe(spec: str, output: str, overwrite: bool) -> None:
    """Write a script that times a job's kernels and links on one node, in some minutes.

    It needs PyTorch or JAX and nothing else, trains and reads nothing, and writes probe.json, from
    which `calibrate probe.json --spec SPEC` makes a calibration: rates of your own GPUs in
    place of published ones.

    \b
    Example:
      fleetcube probe job.toml -o probe.py
      torchrun --nproc-per-node 8 probe.py
    """
    from fleetcube.calibration.calibration_file import check_target, write
    from fleetcube.calibration.probe import job_of, script
    from fleetcube.formats.read import read_spec

    check_target(Path(output), overwrite, (".py",))
    write(Path(output), script(job_of(read_spec(spec))))
    say(f"wrote {output}: run it on an idle node, with torchrun --nproc-per-node and its GPUs")
