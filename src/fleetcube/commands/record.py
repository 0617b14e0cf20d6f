"""`fleetcube record`: run a launch script with stand-ins for launchers; write its launches."""

from pathlib import Path

import click

from fleetcube.commands.shared.say import say, say_each


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-o", "--output", type=click.Path(), help="Script to write.  [printed]")
@click.option("--timeout", default=60.0, help="Seconds after which it is stopped.  [60]")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def record(command: tuple[str, ...], output: str | None, timeout: float, overwrite: bool) -> None:
    """Run your own launch script and write its launches, which all commands read.

    torchrun, srun, deepspeed, mpirun, mpiexec, accelerate and python are replaced by programs that
    only write down their arguments; all else in the script IS RUN, and so are launchers that it
    names by their path. Never record a script that somebody else sent: reading it runs nothing.

    \b
    Example:
      fleetcube record -o job.sh -- bash launch.sh
    """
    from fleetcube.calibration.calibration_file import check_target, write
    from fleetcube.formats.launch_recorder import record as record_launch
    from fleetcube.formats.read import job_at, layout_of

    if output is not None:
        check_target(Path(output), overwrite, (".sh",))
    say(f"runs {' '.join(command)}; of launchers only the arguments are taken", err=True)
    text, remarks = record_launch(command, timeout)
    say_each(remarks)
    if output is None:
        say(text.rstrip())
        return
    write(Path(output), text)
    say(f"wrote {output}")
    if (job := job_at(output)) is not None:
        say(layout_of(job), err=True)
