"""The command `fleetcube solve`."""

from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import changed_spec
from fleetcube.commands.shared.points import check_answered
from fleetcube.commands.shared.progress import progress
from fleetcube.commands.shared.say import say, say_each, say_wrapped
from fleetcube.commands.shared.table import print_foot, print_table, to_file, with_unit, write_table
from fleetcube.grid.errors import InputError
from fleetcube.kernels.physics.roles import ALSO_REASONS

if TYPE_CHECKING:
    from fleetcube.grid.run.settings import Engine, Infeasible


@click.command()
@complete.spec_and_selectors
@click.option("--for", "unknown", required=True, shell_complete=complete.both, help="The input.")
@click.option("--target", required=True, help='Condition: "job_time <= 30 d", "a = b" of outputs.')
@click.option("--between", help="Range to search, first:last.  [around its value]")
@click.option("--relaxed", is_flag=True, help="Do not round counts to whole numbers.")
@click.option(
    "--adjust-batch", is_flag=True, help="Take the nearest batch at which GPUs come closer."
)
@complete.infeasible("exclude")
@complete.engine
@to_file
def solve(
    spec: str,
    selectors: tuple[str, ...],
    unknown: str,
    target: str,
    between: str | None,
    relaxed: bool,
    adjust_batch: bool,
    infeasible: "Infeasible",
    engine: "Engine",
    output: str | None,
) -> None:
    """Find the value of an input at which an output meets a target, at every point of a spec.

    An axis of that input, and its value in the spec, are ignored. SELECTORS choose values of
    the other axes: axis=value, axis=first:last or axis=value,value. --target "finish <= 2027-06-01"
    counts from start_date=2026-12-01, of the spec or of SELECTORS; "... with 90 %" asks for that
    probability, by the error of the prediction. A line says where the batch keeps GPUs from the
    target.

    \b
    Example:
      fleetcube solve examples/scaling-and-reliability.toml --for n_gpus \\
          --target "job_time <= 30 d" gpu_mttf=50000h \\
          checkpoint_write_bandwidth=100GB/s
    """
    from fleetcube.analysis.solve.bound import basis, solve_and_adjust
    from fleetcube.analysis.targets import read_target
    from fleetcube.grid.run.settings import Settings
    from fleetcube.grid.spec.graphs import graph_of
    from fleetcube.scenario.dates import as_time, start_of
    from fleetcube.tables.tables import table

    ends = None if between is None else between.split(":")
    if ends is not None and len(ends) != 2:
        raise InputError(f"--between {between!r} is not a range; write first:last")
    problem = changed_spec(spec, selectors, [unknown])
    since = start_of(problem["scenario"])
    aim = read_target(graph_of(problem["scenario"]), condition := as_time(target, since))
    problem["outputs"] = aim.outputs
    with progress("solving"):
        settings = Settings(engine, infeasible)
        whole = False if relaxed else None
        solutions, adjusted = solve_and_adjust(
            problem, unknown, aim, ends, whole, settings, adjust_batch
        )
    if output is not None:
        write_table(solutions, output)
        _check_solved(solutions, unknown)
        return
    columns = ("next_above", f"nearest_{unknown}", f"nearest_{aim.of}")
    marked = [name for name in ALSO_REASONS if name in solutions and (solutions[name] > 0).any()]
    solutions = solutions.reset_coords(marked)
    empty = [name for name in columns if not solutions[name].notnull().any()]
    solutions = solutions.drop_vars([*empty, *(["crossings"] if "next_above" in empty else [])])
    if solutions[unknown].size > 1 or f"nearest_{aim.of}" not in solutions:
        print_table(*table(solutions))
    say_each(_remarks(solutions, unknown, condition, aim.of), err=False)
    runs = infeasible == "exclude" and not relaxed and not adjusted
    binding, assumed = basis(problem, unknown, aim, ends, solutions[unknown], runs)
    say_wrapped(adjusted, *binding)
    if aim.chance == aim.chance:
        side = "most" if aim.relation == "<=" else "least"
        say(f"{aim.of} is what it is at {side} in {100 * aim.chance:.4g} % of the cases")
    if condition != target:
        say(f"{target.strip()}, started on {since}: {condition}")
    say_wrapped(*assumed, err=True)
    print_foot(solutions, [unknown])
    _check_solved(solutions, unknown)


def _check_solved(solutions: Any, unknown: str) -> None:
    """Exit with status 2 if no point is solved and none meets the target everywhere."""
    reason = solutions["unsolved_reason"]
    everywhere = str(reason.attrs["flag_meanings"]).split().index("met_everywhere")
    check_answered(solutions[unknown].notnull() | (reason == everywhere))


def _remarks(solutions: Any, unknown: str, aim: str, output: str) -> list[str]:
    """Remarks on unsolved and infeasible points."""
    from fleetcube.tables.tables import scale

    reason, remarks = solutions["unsolved_reason"], []
    names = str(reason.attrs["flag_meanings"]).split()
    everywhere = int((reason == names.index("met_everywhere")).sum())
    stuck = int((reason == names.index("none_can_run")).sum())
    unsolved = int((~solutions[unknown].notnull()).sum()) - everywhere
    if stuck:
        remarks.append(f"{stuck} of {reason.size} points: no {unknown} that meets {aim} can run")
    unsolved -= stuck
    if reason.size == 1 and not everywhere and f"nearest_{output}" in solutions:
        near = [(solutions[f"nearest_{name}"], name) for name in (unknown, output)]
        nearest, value = (
            with_unit(point.item(), str(point.attrs["units"]), name) for point, name in near
        )
        remarks.append(f"no {unknown} meets {aim}: the nearest, {nearest}, gives {value}")
    elif unsolved:
        remarks.append(f"{unsolved} of {reason.size} points: no {unknown} meets the target")
    if everywhere:
        remarks.append(
            f"{everywhere} of {reason.size} points meet the target at every {unknown} searched"
        )
    if "infeasible_reason" in solutions.coords:
        wrong = int(((solutions["infeasible_reason"] > 0) & (reason == 0)).sum())
        text = f"{wrong} of {reason.size} points: this {unknown} meets the target and cannot run; "
        remarks += [text + "--infeasible exclude finds one that can"] * (wrong > 0)
    if "next_above" in solutions:
        above = solutions["next_above"]
        least = float(above.min())
        factor, unit = scale(str(above.attrs["units"]), least, unknown)
        remarks.append(
            f"{int(above.notnull().sum())} of {reason.size} points meet the target again higher "
            f"up, and the smallest {unknown} is given; for the next one search above next_above: "
            f"--between {least / factor:.6g}{unit}:LAST"
        )
    return remarks
