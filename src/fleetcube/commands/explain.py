"""`fleetcube explain`: what a name means, or what a spec's network and memory hold."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import point_of, traffic
from fleetcube.commands.shared.say import say, say_each
from fleetcube.commands.shared.table import print_foot, print_table
from fleetcube.grid.errors import InputError, OpenError

_PLANNED = "the best layout of fleetcube plan"


@click.command()
@click.argument("name", required=False, shell_complete=complete.any_name)
@click.argument("selectors", nargs=-1)
@click.option("-o", "--output", help="Write an account: .html, .json, or .xlsx, which computes.")
@click.option("--depth", type=click.IntRange(0), help="Formulas below each other.  [3]")
def explain(
    name: str | None, selectors: tuple[str, ...], output: str | None, depth: int | None
) -> None:
    """Explain a name: formula, unit, default, source, what it is computed from and what it feeds.

    Any other word lists the names that have it in their name or meaning. Without NAME, list all
    inputs with their defaults, and all quantities. For a spec
    (SPEC.toml axis=value ...), show the tiers of its network, the traffic on each, and where its
    inputs come from. For a quantity of a spec, account for its value: its formula with the values
    put in, and those of its operands, down to the inputs that carry it; for memory_per_gpu, what a
    GPU's memory holds. OPTION=CHOICE after a quantity shows its formulas under these options.

    \b
    Example:
      fleetcube explain goodput
      fleetcube explain goodput goodput_model=additive
      fleetcube explain price
      fleetcube explain examples/h100.toml n_gpus=1024 pipeline_parallel=4
      fleetcube explain memory_per_gpu examples/plan.toml
      fleetcube explain job_time examples/llama-3-405b.toml
      fleetcube explain job_time examples/llama-3-405b.toml -o job_time.xlsx
    """
    from fleetcube.formats.read import is_file
    from fleetcube.presentation.explain import explain as text
    from fleetcube.tables.selectors import pairs

    if (output is not None or depth is not None) and not (selectors and is_file(selectors[0])):
        raise InputError("an account is of a quantity of a spec; write NAME SPEC.toml before -o")
    if name is not None and is_file(name):
        _explain_network(name, selectors)
    elif selectors and is_file(selectors[0]):
        if name == "memory_per_gpu" and output is None and depth is None:
            _explain_memory(selectors[0], selectors[1:])
        else:
            _account(str(name), selectors[0], selectors[1:], output, depth)
    else:
        say(text(name, **((click.get_current_context().obj or {}) | pairs(selectors))))


def _explain_network(path: str, selectors: tuple[str, ...]) -> None:
    """Print what a framework's file states, the network of a spec, and where inputs come from."""
    from fleetcube.formats.read import field_report, job_at
    from fleetcube.presentation.explain import explain_traffic, origins
    from fleetcube.tables.selectors import narrow, pairs

    if (job := job_at(path, pairs(selectors))) is not None:
        say_each([*field_report(job), ""], err=False)
    try:
        point = traffic(path, selectors)
    except OpenError as error:
        if job is None:
            raise
        narrow({"scenario": {}, "axes": {}}, selectors)  # which refuses other names
        say(f"note: of its network and step: {error}", err=True)
        return
    say(explain_traffic(point))
    say_each(["", *origins(point.attrs)], err=False)
    print_foot(point, err=False)


def _explain_memory(path: str, selectors: tuple[str, ...]) -> None:
    """Print what a GPU's memory holds at one point of a spec."""
    from fleetcube.analysis import account
    from fleetcube.grid.run.settings import Settings
    from fleetcube.sweep import Printed
    from fleetcube.tables.tables import cannot_run, memory_use

    scenario = point_of(path, selectors)
    sweep = Printed({**scenario, **_best_layout(scenario)}, {}, account.NEEDED)
    point = sweep.evaluate(settings=Settings("numpy"))
    print_table(*account.table(point))
    if use := memory_use(point):
        say_each(["", f"{use}."], err=False)
    if reason := cannot_run(point):
        say_each([reason], err=False)


def _account(
    name: str, path: str, selectors: tuple[str, ...], output: str | None, depth: int | None
) -> None:
    """Print or write the account of a quantity at one point of a spec."""
    from fleetcube.analysis.account_tree import account
    from fleetcube.presentation import account_writers as writers

    scenario = point_of(path, selectors)
    layout = _best_layout(scenario)
    result = account({**scenario, **layout}, name)
    rows = {n: replace(result.rows[n], origin=_PLANNED) for n in layout if n in result.rows}
    options = {n: (result.options[n][0], _PLANNED) for n in layout if n in result.options}
    result = replace(result, rows={**result.rows, **rows}, options={**result.options, **options})
    if output is None:
        say(writers.text(result, writers.DEPTH if depth is None else depth))
    else:
        writers.write(result, output)
        say(f"wrote {output}", err=True)


def _best_layout(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """What the layout that `plan` would choose adds to a scenario, which a note names, where it
    states none and cannot run by default; else nothing."""
    from fleetcube.analysis import layouts
    from fleetcube.grid.run.evaluation import Evaluation, is_known
    from fleetcube.grid.run.settings import Settings
    from fleetcube.kernels.graph.roles import REASON
    from fleetcube.scenario import phases

    goal = next((n for n in ("job_time", "step_time") if is_known(scenario, {}, [n, REASON])), "")
    if not goal or phases.names(scenario) or {*layouts.OPEN} & {*scenario}:
        return {}
    sweep, settings = Evaluation(scenario, {}, [goal, REASON]), Settings("numpy")
    if sweep._result()[REASON].item() == 0:
        return {}
    try:
        if not layouts.candidates(sweep, goal, layouts.LAYOUT):
            return {}
        answers = layouts.best_layouts(sweep, goal, "min", layouts.LAYOUT, (), (), 1, settings)
    except InputError:  # chips that are no slice: the account says why it cannot run
        return {}
    if not answers[goal].notnull().any():
        return {}
    best = answers.isel(rank=0)
    chosen = layouts.inputs_of(best)
    inputs = " ".join(f"{name}={layouts.in_command(value)}" for name, value in chosen.items())
    say(f"{_PLANNED}, {best[layouts.WHOLE].item()}: {inputs}", err=True)
    return chosen
