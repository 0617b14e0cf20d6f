"""`fleetcube validate`: predictions compared with measurements."""

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands.shared.progress import progress
from fleetcube.commands.shared.say import say, say_each, say_wrapped
from fleetcube.commands.shared.table import print_table, with_unit
from fleetcube.grid.errors import InputError, nearest
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import NEAR

if TYPE_CHECKING:
    from fleetcube.calibration.predict import Compared
    from fleetcube.calibration.row import Row
    from fleetcube.calibration.validate import Accuracy, Validation
    from fleetcube.formats.training_log import TrainingLog

_HEADINGS = ["group", "n", "mean", "median", "max", "bias", "rank", "dummy", "covered"]
_MEMORY = ("memory_per_gpu", "memory_margin")
_EACH = ["record", "output", "measured", "predicted", "ratio (90 %)"]


@click.command()
@click.option(
    "--records",
    multiple=True,
    type=click.Path(),
    help="CSV, JSON or training log; repeat.  [published tables]",
)
@click.option("--spec", type=click.Path(), help="Spec that gives inputs missing in records.")
@click.option("--group", multiple=True, help="Group of records to predict; may be repeated.  [all]")
@click.option("--rows", "each", is_flag=True, help="Print each measurement with its prediction.")
@click.option("--left-out", "listed", is_flag=True, help="List the records left out.")
@click.option("--plot", type=click.Path(), help="Draw measured over predicted: .png, .pdf, .svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, rows in base units.")
def validate(
    records: tuple[str, ...],
    spec: str | None,
    group: tuple[str, ...],
    each: bool,
    listed: bool,
    plot: str | None,
    as_json: bool,
) -> None:
    """Predict measurements from their inputs, and report the errors.

    Your own file is a CSV with a column for each input and each measured output, such as
    step_time [ms]; id, group, source and note are optional. JSON holds the same as a list of
    objects.

    A training log is compared by its median step, at the inputs of --spec.

    Errors are in per cent of the measured value: mean, median and maximum of their sizes, and
    their signed mean (bias). rank is Spearman's correlation of predicted and measured throughput.
    dummy is the mean error of predicting one MFU, the best, for the whole group; covered is the
    percentage of measured values inside the predicted interval. --rows shows measured and predicted
    values, their ratio and its 90 % interval, rows that cannot run by this model, and the sources.

    \b
    Example:
      fleetcube validate
      fleetcube validate --records mine.json --group my-cluster --plot a.png
      fleetcube validate --records train.log --spec job.toml
    """
    from fleetcube.calibration import validate as grid
    from fleetcube.calibration.logged import training_logs
    from fleetcube.calibration.measurements import read_records
    from fleetcube.formats.read import read_spec
    from fleetcube.presentation.pictures.picture import check_picture

    if plot is not None:
        check_picture(Path(plot))
    if spec is not None and not records:
        raise InputError("--spec is for records of your own; add --records mine.csv")
    scenario = read_spec(spec)["scenario"] if spec is not None else {}
    logs = training_logs(records)
    logged = [_row(path, log, scenario) for path, log in logs.items()]
    others = [path for path in records if path not in logs]
    rows, left_out = read_records(others or None) if others or not logged else ([], [])
    rows = [dataclasses.replace(row, inputs={**scenario, **row.inputs}) for row in rows] + logged
    groups = {row.group for row in rows} | {record.group for record in left_out}
    for name in group:
        if name not in groups:
            raise InputError(f"--group {name} has no records; {nearest(name, groups, 'omit it')}")
    if group:
        rows = [row for row in rows if row.group in group]
        left_out = [record for record in left_out if record.group in group]
    with progress("predicting"):
        validation = grid.validate(rows, left_out)
    if as_json:
        say(json.dumps(as_dict(validation), indent=2))
    else:
        _print_rows(validation.rows, rows) if (
            each or logged
        ) and validation.rows else _print_groups(validation)
        _print_left_out(validation, listed)
    if plot is not None:
        from fleetcube.presentation.pictures.validation import plot_validation

        plot_validation(validation, Path(plot))
        say(f"wrote {plot}", err=as_json)


def _row(path: str, log: "TrainingLog", scenario: dict[str, Any]) -> "Row":
    """The median step of a training log."""
    from fleetcube.calibration.logged import step_of
    from fleetcube.calibration.predict import STEP
    from fleetcube.calibration.row import Row

    seconds, inputs = step_of(log, scenario)
    name, group = Path(path).name, Path(path).stem
    return Row(name, group, "", {**scenario, **inputs}, STEP, seconds, tuple(log.summary_lines()))


def as_dict(validation: "Validation") -> dict[str, Any]:
    """A validation for JSON, with null for unknown values."""
    from fleetcube.tables.tables import finite

    names = ("id", "group", "of", "measured", "predicted", "low", "high")
    rows: list[dict[str, Any]] = [
        {**{name: getattr(row, name) for name in names}, "error_percent": 100 * row.error}
        for row in validation.rows
    ]
    groups = [dataclasses.asdict(group) for group in validation.groups]
    left_out = [dataclasses.asdict(record) for record in validation.left_out]
    plain: dict[str, Any] = finite({"groups": groups, "rows": rows, "left_out": left_out})
    return plain


def _print_groups(validation: "Validation") -> None:
    for output in dict.fromkeys(group.of for group in validation.groups):
        say(f"{output}: errors in % of the measured value")
        print_table(_HEADINGS, [_cells(group) for group in validation.groups if group.of == output])
        say()


def _print_rows(compared: Sequence["Compared"], rows: Sequence["Row"]) -> None:
    """Print measured and predicted values, reasons why rows cannot run here, and the sources."""
    from fleetcube.calibration.predict import evaluate
    from fleetcube.kernels.physics.graph import PHYSICS
    from fleetcube.tables.tables import estimate

    named = {(row.id, row.of): row for row in rows}
    stated = [named[row.id, row.of] for row in compared]
    answers = evaluate([((REASON, NEAR, *_MEMORY), row.inputs) for row in stated])
    meanings = PHYSICS.quantities[REASON].doc.flags
    cells: list[list[str]] = []
    verdicts: dict[str, dict[str, None]] = {}
    sources: dict[str, dict[str, None]] = {}
    for row, measurement, answer in zip(compared, stated, answers, strict=True):
        unit = PHYSICS.quantities[row.of].unit if row.of in PHYSICS.quantities else "s"
        values = [with_unit(value, unit, row.of) for value in (row.measured, row.predicted)]
        ends = (end / row.measured for end in _ends(row, measurement))
        ratio = estimate(f"{1 + row.error:.2f}", 1 + row.error, *ends)
        cells.append([row.id, row.of, *values, ratio])
        if not isinstance(answer, str):  # a text: an all-reduce is not a job
            verdict, sizes = _verdict(answer, meanings)
            verdicts.setdefault(verdict, {})[row.id + sizes] = None
        source = "; ".join(filter(None, (measurement.source, *measurement.notes))) or "no source"
        sources.setdefault(source, {})[row.id] = None
    print_table(_EACH, cells)
    say()
    lines = [f"{verdict}: {', '.join(ids)}" for verdict, ids in verdicts.items() if verdict]
    lines += [f"{', '.join(ids)}: {source}" for source, ids in sources.items()]
    say_wrapped(*lines)


def _verdict(answer: Sequence[Any], meanings: Mapping[int, str]) -> tuple[str, str]:
    """Whether a row can run here, empty if surely, and the memory that decides it. The answer is
    the reason, `near_memory_limit`, memory needed and free share."""
    reason, near, need, margin = map(float, answer)
    why = meanings[int(reason)] if reason else ""
    sizes = f" ({need / 1e9:.1f} of {need / (1 - margin) / 1e9:.1f} GB)"
    if near == 1 and not reason:
        return "may not fit here, within the error of the memory model", sizes
    return why and f"cannot run here, {why}", sizes * (why == "out_of_memory")


def _ends(row: "Compared", measurement: "Row") -> tuple[float, float]:
    """The ends of a prediction's interval, NaN if unknown."""
    from fleetcube.analysis.interval import interval
    from fleetcube.grid.run.evaluation import Evaluation
    from fleetcube.grid.run.settings import Settings
    from fleetcube.kernels.physics.graph import PHYSICS

    if not math.isnan(row.low) or row.of not in PHYSICS.quantities:
        return row.low, row.high
    ends = interval(Evaluation(measurement.inputs, {}, [row.of]), None, Settings("numpy"))
    sides = (f"{row.of}_{side}" for side in ("low", "high"))
    low, high = (ends[side].item() if side in ends else math.nan for side in sides)
    return low, high


def _print_left_out(validation: "Validation", listed: bool) -> None:
    say(
        f"{len(validation.rows)} measurements compared, {len(validation.left_out)} records left out"
    )
    reasons = Counter(record.reason for record in validation.left_out)
    for reason, count in reasons.most_common():
        say_wrapped(f"{count:5}  {reason}")
        ids = [f"       {each.id}" for each in validation.left_out if each.reason == reason]
        say_each(ids if listed else [], err=False)


def _cells(group: "Accuracy") -> list[str]:
    def shown(value: float | None, form: str = "z.1f") -> str:
        return "-" if value is None or math.isnan(value) else format(value, form)

    covered = None if group.coverage is None else 100 * group.coverage
    errors = (group.mean_percent, group.median_percent, group.max_percent, group.bias_percent)
    return [
        group.group,
        str(group.n),
        *map(shown, errors),
        shown(group.rank_correlation, ".3f"),
        shown(group.dummy_mean_percent),
        shown(covered, ".0f"),
    ]
