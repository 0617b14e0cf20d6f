"""`fleetcube calibrate`: fit the model to the user's own measurements."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fleetcube.commands.shared import complete, failures
from fleetcube.commands.shared.picture import drawing, look, looks
from fleetcube.commands.shared.routing import show_routing
from fleetcube.commands.shared.say import say, say_each
from fleetcube.commands.shared.table import print_table
from fleetcube.grid.errors import InputError

if TYPE_CHECKING:
    from fleetcube.calibration.fit import Fit
    from fleetcube.calibration.nccl import Log
    from fleetcube.calibration.probe import Timing

_COLLECTIVE = ("collective", "in_place", "gpus_per_node")
_REFUSED = {  # by module that reads a file: what it holds, and the options that it does not take
    "event_log": ("a log of failures", ("ranks", *_COLLECTIVE, "plot")),
    "routing": ("tokens counted by expert", (*_COLLECTIVE, "fit", "of", "output", "plot")),
    "training_log": ("a training log", ("ranks", *_COLLECTIVE, "of")),
    "probe": ("a probe's times", ("ranks", *_COLLECTIVE, "fit", "of", "plot")),
    "steps": ("a CSV of step times", ("ranks", *_COLLECTIVE)),
    "nccl": ("a log of nccl-tests", ("spec", "fit", "of")),
}
_LESS = "leave only its lines of measurements"


class _Fitted(NamedTuple):
    fit: Any
    title: str  # of the record
    values: dict[str, Any]  # of the record
    errors: dict[str, float]
    notes: list[str]


@click.command()
@click.argument("log", type=click.Path())
@click.option(
    "--ranks", type=int, help="Ranks of the test, or of the experts.  [as log or spec says]"
)
@click.option(
    "--collective",
    shell_complete=complete.collectives,
    help="Collective measured.  [as the log says, or all_reduce]",
)
@click.option("--in-place/--out-of-place", default=None, help="Rows to use.  [both]")
@click.option("--gpus-per-node", type=int, help="Ranks on one node.  [as the log says, or 8]")
@click.option("--spec", type=click.Path(), help="CSV: spec that gives the other inputs.")
@click.option(
    "--fit",
    multiple=True,
    shell_complete=complete.inputs,
    help="CSV: input to fit; may be repeated.  [all, starting from published steps]",
)
@click.option("--of", help="CSV: the measured column.  [step_time]")
@click.option("--gpus", type=int, help="Failures: GPUs watched.  [as Slurm's accounting says]")
@click.option("--hours", help='Failures: how long, as "54 d".  [as the log says]')
@click.option("--kind", multiple=True, help="Failures: NAME=PART of a kind, none to leave it out.")
@click.option("--prior", help="Failures: RECORD=N, a record as N events more of each rate.")
@click.option("-o", "--output", type=click.Path(), help="Calibration file to write (.toml).")
@click.option("--overwrite", is_flag=True, help="Replace an existing calibration file.")
@click.option("--plot", type=click.Path(), help="Draw fit and residuals: .png, .pdf or .svg.")
@look
@click.option("--json", "as_json", is_flag=True, help="Print JSON in base units.")
def calibrate(
    log: str, output: str | None, overwrite: bool, plot: str | None, as_json: bool, **options: Any
) -> None:
    """Fit the model to measurements: a log of collectives, of training or of failures, or a CSV.

    The output of nccl-tests or rccl-tests gives latency, bandwidth and square-root term of the
    collective. A CSV, with columns of inputs and step_time, updates the calibration to published
    steps, or fits only the inputs of --fit; so does the median step of a training log (Megatron,
    torchtitan, MaxText, NeMo, DeepSpeed; charts of W&B and TensorBoard as CSV). A spec uses the
    file that -o writes: calibration = "my-cluster.toml". Tokens counted by expert (CSV, NPZ) give
    expert_load_imbalance and capacity_factor.

    A log of failures (columns time, node and kind; sacct --parsable2; kernel logs with Xids; NVIDIA
    Resiliency Extension; ml-goodput-measurement) gives mean times between them, with what few
    events leave open: reliability = "mttf.toml".

    \b
    Example:
      all_reduce_perf -b 8 -e 8G -f 2 > all_reduce.log
      fleetcube calibrate all_reduce.log -o my-cluster.toml --plot residuals.png
      fleetcube calibrate steps.csv --spec job.toml -o my-steps.toml
      fleetcube calibrate train.log --spec job.toml -o my-training.toml
      fleetcube calibrate steps.csv --spec job.toml --fit flops_efficiency
      fleetcube calibrate events.csv --gpus 16384 --hours "54 d" -o mttf.toml
    """
    from fleetcube.calibration import calibration_file
    from fleetcube.calibration.nccl import Log
    from fleetcube.formats import event_log
    from fleetcube.formats.routing import Routing
    from fleetcube.presentation.pictures.fit_picture import plot_fit
    from fleetcube.presentation.pictures.picture import check_picture

    if output is not None:  # refuse before the fit
        calibration_file.check_target(Path(output), overwrite)
    if plot is not None:
        check_picture(Path(plot))
    style = looks({n: options.pop(n) for n in ("title", "size", "dpi")}, {"--plot": plot})
    about_failures = {name: options.pop(name) for name in failures.NAMES}
    spec, measured = options["spec"], _read(log, options["fit"], options["of"], about_failures)
    _check_options(measured, {**options, "output": output, "plot": plot})
    if isinstance(measured, event_log.Log):
        return failures.report(measured, log, spec, output, as_json, **about_failures)
    if isinstance(measured, Routing):
        return show_routing(measured, spec, options["ranks"], as_json)
    if isinstance(measured, Log):
        fitted = _fit_collective(measured, output is not None, **options)
    else:
        fitted = _fit_steps(measured, spec, options["fit"], options["of"])
        if fitted.fit.doubt is not None and output is not None:
            raise InputError(f"{fitted.fit.doubt} Nothing is written to {output!r}; fix {log!r}")
    if plot is not None:
        with drawing(style):
            plot_fit(fitted.fit, Path(plot))
    if output is not None:
        _write(fitted, log, Path(output))
    _show(fitted.fit, [*fitted.fit.notes, *fitted.notes], as_json)
    for path in filter(None, (plot, output)):
        say(f"wrote {path}", err=as_json)


def _check_options(measured: Any, options: dict[str, Any]) -> None:
    """Refuse options that what a file holds does not take."""

    kind, names = _REFUSED[type(measured).__module__.rpartition(".")[2]]
    for name in names:
        if options[name] not in (None, ()):
            option = "-o" if name == "output" else f"--{name.replace('_', '-')}"
            raise InputError(f"{option} is not for {kind}; leave it out")


def _read(
    path: str, fit: tuple[str, ...], column: str | None, about_failures: dict[str, Any]
) -> Any:
    """What a file holds: failures, a table of steps, a training log, tokens by expert, a probe's
    times, or the output of nccl-tests. Raises InputError."""
    from fleetcube.calibration import nccl, probe, steps
    from fleetcube.formats import routing, training_log
    from fleetcube.scenario.bounded import decoded, read_bytes

    content = read_bytes(path, training_log.LARGEST, "a log or a CSV", _LESS)
    is_archive = content[:4] == routing.ZIP
    text = "" if is_archive else decoded(content)
    if not (fit or column) and (events := failures.log_of(text, path, about_failures)):
        return events
    if probe.FORMAT.rpartition(" ")[0] in text[:200]:
        return probe.parse_probe(text, path)
    is_table = Path(path).suffix.lower() == ".csv"
    counts = routing.parse_routing(content, path) if is_table or is_archive else None
    if counts is not None:
        return counts
    if training_log.is_training_log(text):
        return training_log.parse_training_log(text, path)
    return steps.parse_table(path, text, column or steps.STEP) if is_table else nccl.parse_log(text)


def _fit_steps(
    measured: Any, spec: str | None, fit: tuple[str, ...], column: str | None
) -> _Fitted:
    """Fit the kernels of a probe, the step of a training log, or a table of steps."""
    from fleetcube.calibration.calibration_file import step_values
    from fleetcube.calibration.logged import step_of
    from fleetcube.calibration.probe import Probe, fit_probe, job_of
    from fleetcube.calibration.steps import STEP, Table, fit_steps
    from fleetcube.calibration.update import update_steps
    from fleetcube.formats.read import read_spec
    from fleetcube.formats.training_log import TrainingLog

    notes: list[str] = []
    step: Any
    if isinstance(measured, Probe):
        if spec is None:
            raise InputError("a probe's times are of a job; give its spec: --spec job.toml")
        step, title = fit_probe(measured, job_of(read_spec(spec))), "Kernels"
    else:
        scenario = read_spec(spec)["scenario"] if spec is not None else {}
        if isinstance(measured, TrainingLog):
            notes += measured.summary_lines()
            seconds, inputs = step_of(measured, scenario)
            measured = Table({name: [value] for name, value in inputs.items()}, [seconds], [1])
        if fit:
            step = fit_steps(measured, scenario, fit, column or STEP)
        else:
            step = update_steps(measured, scenario, column or STEP)
        title = ", ".join(step.values) if fit else "Training steps"
    errors = {name: error for name, error in step.standard_errors.items() if math.isfinite(error)}
    notes += [step.doubt] if step.doubt is not None else []
    return _Fitted(step, title, step_values(step), errors, notes)


def _fit_collective(
    log: "Log",
    to_file: bool,
    ranks: int | None,
    collective: str | None,
    in_place: bool | None,
    gpus_per_node: int | None,
    **_: Any,
) -> _Fitted:
    """Fit a collective; values of a record, which needs the GPUs of a node, are for a file."""
    from fleetcube.calibration.calibration_file import all_reduce_values
    from fleetcube.calibration.fit import fit_collective
    from fleetcube.calibration.nccl import measured

    fit = fit_collective(measured(log, ranks, collective, in_place))
    title, notes = f"All-reduce on {fit.ranks} ranks", list[str]()
    if not to_file:
        if gpus_per_node is not None:
            raise InputError("--gpus-per-node is for the file; add -o my-cluster.toml")
        return _Fitted(fit, title, {}, {}, notes)
    node = gpus_per_node or fit.gpus_per_node
    if node is None:
        node = min(8, fit.ranks)
        notes.append(f"the log names no hosts: {node} GPUs a node are assumed (--gpus-per-node)")
    if not 1 <= node <= fit.ranks:
        raise InputError(
            f"--gpus-per-node {node}: the test has {fit.ranks} ranks; give 1 to {fit.ranks}"
        )
    values, errors = all_reduce_values(fit, "intra" if node == fit.ranks else "inter", node)
    return _Fitted(fit, title, values, errors, notes)


def _write(fitted: _Fitted, log: str, path: Path) -> None:
    """Write the record of a fit."""
    from fleetcube.calibration import calibration_file
    from fleetcube.calibration.fit import CollectiveFit

    fit = fitted.fit
    about = calibration_file.about_file(fit, log, fitted.title)
    quality = calibration_file.about_fit(fit)
    jobs = [] if isinstance(fit, CollectiveFit) else calibration_file.jobs_of(fit)
    lines = calibration_file.text(about, fitted.values, fitted.errors, quality, jobs=jobs)
    calibration_file.write(path, lines)


def _show(fit: "Fit", notes: list[str], as_json: bool) -> None:
    from fleetcube.calibration.fit import CollectiveFit
    from fleetcube.calibration.probe import ProbeFit
    from fleetcube.calibration.steps import StepFit
    from fleetcube.calibration.update import Update
    from fleetcube.tables.tables import INTERVAL

    if as_json:
        say(json.dumps(_json(fit, notes), indent=2))
        return
    if isinstance(fit, ProbeFit):
        heads = ["", "measured", "expected", "measured rate / expected"]
        print_table(heads, [*map(_timed, fit.timings)])
        say()
    rows = [_coefficient(fit, name) for name in fit.values]
    print_table(["", f"value {INTERVAL}", "standard error", ""], rows)
    if isinstance(fit, CollectiveFit):
        say(f"{fit.collective} on {fit.ranks} ranks: t = a + c M / B + g sqrt(M)")
    if not isinstance(fit, ProbeFit):
        say(
            f"{fit.rows} measurements, median error {100 * fit.median_error:.2g} %, "
            f"largest {100 * fit.max_error:.2g} %"
        )
    jobs = fit.jobs if isinstance(fit, Update) else ()
    for job in jobs:
        words = (v if isinstance(v, str) else f"{n} {v:g}" for n, v in job.of.items())
        which = f" ({', '.join(words)})" if len(jobs) > 1 else ""
        say(
            f"steps of this job{which} take {job.factor:.3g} times what the coefficients give; "
            f"90 % interval of another one: x or / {job.error_factor:.3g}"
        )
    if isinstance(fit, StepFit) and fit.error_factor is not None:
        whose = "another job's step" if isinstance(fit, Update) else "a step"
        say(f"90 % interval of {whose}: x or / {fit.error_factor:.3g}")
    for reason, count in fit.dropped.items():
        say(f"dropped {count}: {reason}")
    say_each(f"note: {note}" for note in notes)


def _coefficient(fit: "Fit", name: str) -> list[str]:
    """A row: a coefficient with its interval, its standard error and where it comes from."""
    from fleetcube.calibration.calibration_file import units
    from fleetcube.calibration.update import Update
    from fleetcube.tables.tables import estimate, scale

    value, error = fit.values[name], fit.standard_errors[name]
    factor, unit = scale(units(name), value or error, name)
    ends = (end / factor for end in fit.intervals[name])
    remark = "at its bound" if name in fit.at_bound else ""
    if isinstance(fit, Update) and name in fit.published:
        remark = "from published steps"
    text = estimate(f"{value / factor:.5g}", value / factor, *ends)
    return [f"{name} [{unit}]" if unit else name, text, f"{error / factor:.2g}", remark]


def _timed(timing: "Timing") -> list[str]:
    from fleetcube.analysis.traffic import duration

    times = (duration(seconds, 4) for seconds in (timing.measured, timing.expected))
    return [timing.kernel, *times, f"{timing.factor:.3g}"]


def _json(fit: "Fit", notes: list[str]) -> dict[str, Any]:
    """The fit in base units, with null for unknown or infinite values."""
    from fleetcube.calibration.calibration_file import jobs_of
    from fleetcube.calibration.fit import CollectiveFit
    from fleetcube.calibration.steps import StepFit
    from fleetcube.calibration.update import Update

    def finite(value: float) -> float | None:
        return float(value) if math.isfinite(value) else None

    report: dict[str, Any] = {name: finite(value) for name, value in fit.values.items()}
    report["standard_errors"] = {n: finite(value) for n, value in fit.standard_errors.items()}
    report["intervals_90"] = {n: [*map(finite, ends)] for n, ends in fit.intervals.items()}
    report["correlations"] = [[finite(cell) for cell in row] for row in fit.correlations]
    report |= {"median_error": fit.median_error, "max_error": fit.max_error, "rows": fit.rows}
    report |= {"dropped": dict(fit.dropped), "at_bound": list(fit.at_bound), "notes": notes}
    if isinstance(fit, CollectiveFit):
        report |= {"collective": fit.collective, "ranks": fit.ranks}
    if isinstance(fit, StepFit):
        report |= {"error_factor": fit.error_factor}
    if isinstance(fit, Update):
        report |= {"jobs": jobs_of(fit), "kernels": dict(fit.kernels)}
    return report
