"""`fleetcube calibrate`: fit the model to the user's own measurements."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands import complete, failures
from fleetcube.commands.picture import drawing, look, looks
from fleetcube.commands.routing import show_routing
from fleetcube.commands.say import say, say_each
from fleetcube.commands.table import print_table

if TYPE_CHECKING:
    from fleetcube.calibration.fit import Fit
    from fleetcube.calibration.probe import Timing

_MEASURED = {"TrainingLog": "a training log", "Probe": "a probe's times"}
_LESS = "leave only its lines of measurements"


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
@click.option("--scope", type=complete.OneOf(["inter", "intra"]), help="Its network.  [by ranks]")
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
    log: str,
    ranks: int | None,
    collective: str | None,
    in_place: bool | None,
    gpus_per_node: int | None,
    scope: str | None,
    spec: str | None,
    fit: tuple[str, ...],
    of: str | None,
    output: str | None,
    overwrite: bool,
    plot: str | None,
    as_json: bool,
    **given: Any,
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
    from fleetcube.calibration.fit import fit_collective
    from fleetcube.calibration.nccl import Log, measured
    from fleetcube.calibration.probe import Probe
    from fleetcube.formats import routing, training_log
    from fleetcube.formats.routing import Routing
    from fleetcube.formats.training_log import TrainingLog
    from fleetcube.grid.errors import InputError
    from fleetcube.grid.spec.bounded import decoded, read_bytes
    from fleetcube.presentation.pictures.fit_picture import plot_fit
    from fleetcube.presentation.pictures.picture import check_picture

    if output is not None:  # refuse before the fit
        calibration_file.check_target(Path(output), overwrite)
    if plot is not None:
        check_picture(Path(plot))
    about_failures = {name: given.pop(name) for name in failures.NAMES}
    said = looks(given, {"--plot": plot})
    nccl: dict[str, Any] = {"--ranks": ranks, "--collective": collective, "--in-place": in_place}
    nccl |= {"--gpus-per-node": gpus_per_node, "--scope": scope}
    content = read_bytes(log, training_log.LARGEST, "a log or a CSV", _LESS)
    text = "" if content[:4] == routing.ZIP else decoded(content)
    if not (fit or of) and (events := failures.log_of(text, log, about_failures)):
        _refuse({**nccl, "--plot": plot}, "a log of failures")
        return failures.report(events, log, spec, output, as_json, **about_failures)
    notes: list[str] = []
    read = _read(content, text, log, of)
    options: dict[str, Any] = {name: value for name, value in nccl.items() if name != "--ranks"}
    if isinstance(read, Routing):
        options |= {"--fit": fit or None, "--of": of, "-o": output, "--plot": plot}
        _refuse(options, "tokens counted by expert")
        show_routing(read, spec, ranks, as_json)
        return
    if not isinstance(read, Log):
        options |= {"--ranks": ranks}
        if isinstance(read, TrainingLog):
            options |= {"--of": of}
            notes += read.said()
        if isinstance(read, Probe):
            options |= {"--fit": fit or None, "--of": of, "--plot": plot}
        _refuse(options, _MEASURED.get(type(read).__name__, "a CSV of step times"))
        result: Any = _steps(read, spec, fit, of)
        values = calibration_file.step_values(result)
        errors = {n: error for n, error in result.standard_errors.items() if math.isfinite(error)}
        what = ", ".join(result.values) if fit else "Training steps"
        what = "Kernels" if isinstance(read, Probe) else what
        if result.doubt is not None and output is not None:
            raise InputError(f"{result.doubt} Nothing is written to {output!r}; fix {log!r}")
        notes += [result.doubt] if result.doubt is not None else []
    else:
        _refuse({"--spec": spec, "--fit": fit or None, "--of": of}, "a log of nccl-tests")
        result = fit_collective(measured(read, ranks, collective, in_place))
        values, errors = {}, {}
        what = f"All-reduce on {result.ranks} ranks"
        if output is not None:
            share, scope = _network(result, gpus_per_node, scope, notes)
            values, errors = calibration_file.all_reduce_values(result, scope, share)
        elif gpus_per_node is not None or scope is not None:
            raise InputError("--gpus-per-node and --scope are for the file; add -o my-cluster.toml")
    if plot is not None:
        with drawing(said):
            plot_fit(result, Path(plot))
    if output is not None:
        about = calibration_file.about_file(result, log, what)
        quality = calibration_file.about_fit(result)
        jobs = calibration_file.jobs_of(result) if not isinstance(read, Log) else []
        lines = calibration_file.text(about, values, errors, quality, jobs=jobs)
        calibration_file.write(Path(output), lines)
    _show(result, [*result.notes, *notes], as_json)
    for path in (plot, output):
        if path is not None:
            say(f"wrote {path}", err=as_json)


def _refuse(options: dict[str, Any], what: str) -> None:
    from fleetcube.grid.errors import InputError

    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} is not for {what}; leave it out")


def _read(content: bytes, text: str, path: str, of: str | None) -> Any:
    """What a file's content and text are: a table of steps, a training log, tokens by expert, a
    probe's times, or the output of nccl-tests. Raises InputError."""
    from fleetcube.calibration import nccl, probe, steps
    from fleetcube.formats import routing, training_log

    if probe.FORMAT.rpartition(" ")[0] in text[:200]:
        return probe.parse_probe(text, path)

    table = Path(path).suffix.lower() == ".csv"
    counts = routing.parse_routing(content, path) if table or content[:4] == routing.ZIP else None
    if counts is not None:
        return counts
    if training_log.is_training_log(text):
        return training_log.parse_training_log(text, path)
    return steps.parse_table(path, text, of or steps.STEP) if table else nccl.parse_log(text)


def _steps(read: Any, spec: str | None, fit: tuple[str, ...], of: str | None) -> Any:
    from fleetcube.calibration.logged import step_of
    from fleetcube.calibration.probe import Probe, fit_probe, job_of
    from fleetcube.calibration.steps import STEP, Table, fit_steps
    from fleetcube.calibration.update import update_steps
    from fleetcube.formats.read import read_spec
    from fleetcube.formats.training_log import TrainingLog
    from fleetcube.grid.errors import InputError

    of = of or STEP
    if isinstance(read, Probe):
        if spec is None:
            raise InputError("a probe's times are of a job; give its spec: --spec job.toml")
        return fit_probe(read, job_of(read_spec(spec)))
    scenario = read_spec(spec)["scenario"] if spec is not None else {}
    if isinstance(read, TrainingLog):
        seconds, inputs = step_of(read, scenario)
        read = Table({name: [value] for name, value in inputs.items()}, [seconds], [1])
    return fit_steps(read, scenario, fit, of) if fit else update_steps(read, scenario, of)


def _network(
    fit: Any, gpus_per_node: int | None, scope: str | None, notes: list[str]
) -> tuple[int, str]:
    """Ranks on a node, and whether the test ran between nodes or inside one."""
    from fleetcube.grid.errors import InputError

    share = gpus_per_node or fit.gpus_per_node
    if share is None:
        share = min(8, fit.ranks)
        notes.append(f"the log names no hosts: {share} GPUs a node are assumed (--gpus-per-node)")
    if not 1 <= share <= fit.ranks:
        raise InputError(
            f"--gpus-per-node {share}: the test has {fit.ranks} ranks; give 1 to {fit.ranks}"
        )
    return share, scope or ("intra" if share == fit.ranks else "inter")


def _show(fit: "Fit", notes: list[str], as_json: bool) -> None:
    from fleetcube.calibration.calibration_file import units
    from fleetcube.calibration.fit import CollectiveFit
    from fleetcube.calibration.probe import ProbeFit
    from fleetcube.calibration.steps import StepFit
    from fleetcube.calibration.update import Update

    if as_json:
        say(json.dumps(_json(fit, notes), indent=2))
        return
    from fleetcube.tables.tables import INTERVAL, estimate, scale

    if isinstance(fit, ProbeFit):
        heads = ["", "measured", "expected", "measured rate / expected"]
        print_table(heads, [*map(_timed, fit.timings)])
        say()
    rows = []
    for name, value in fit.values.items():
        factor, unit = scale(units(name), value or fit.standard_errors[name], name)
        ends = (end / factor for end in fit.intervals[name])
        bound = "at its bound" if name in fit.at_bound else ""
        if isinstance(fit, Update) and name in fit.published:
            bound = "from published steps"
        error = fit.standard_errors[name] / factor
        told = estimate(f"{value / factor:.5g}", value / factor, *ends)
        rows.append([f"{name} [{unit}]" if unit else name, told, f"{error:.2g}", bound])
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


def _timed(one: "Timing") -> list[str]:
    from fleetcube.analysis.traffic import duration

    times = (duration(seconds, 4) for seconds in (one.measured, one.expected))
    return [one.kernel, *times, f"{one.factor:.3g}"]


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
