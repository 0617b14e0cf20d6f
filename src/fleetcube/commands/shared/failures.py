"""`fleetcube calibrate` of a log of failures: mean times between them, and a record."""

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetcube.commands.shared.say import say, say_each
from fleetcube.commands.shared.table import print_table
from fleetcube.grid.errors import InputError, check_count

if TYPE_CHECKING:
    from fleetcube.calibration.failure_times import Failures
    from fleetcube.formats.event_log import Log

NAMES = ("gpus", "hours", "kind", "prior")  # options of logs of failures alone


def log_of(text: str, path: str, given: dict[str, Any]) -> "Log | None":
    """The log of failures in a file's text; None for measurements of other sorts."""
    from fleetcube.calibration.csv_columns import headings_of, named
    from fleetcube.calibration.steps import STEP
    from fleetcube.formats.event_log import parse_log, recognized

    if any(given.values()):
        return parse_log(text, path)
    return None if (STEP in {named(each)[0] for each in headings_of(text)}) else recognized(text)


def report(
    log: "Log",
    path: str,
    spec: str | None,
    output: str | None,
    as_json: bool,
    gpus: int | None,
    hours: str | None,
    kind: Sequence[str],
    prior: str | None,
) -> None:
    from fleetcube.calibration import failure_times
    from fleetcube.calibration.calibration_file import write
    from fleetcube.formats.read import read_spec

    scenario = read_spec(spec)["scenario"] if spec is not None else {}
    times = failure_times.failures(
        log, scenario, _watched(log, gpus, hours), failure_times.kinds_of(kind), prior
    )
    (_json if as_json else _show)(times, log)
    say_each(f"note: {note}" for note in times.notes)
    if output is not None:
        time = f"{times.gpu_seconds / 3600:.6g} GPU hours"
        about = {
            "title": f"Failures by {Path(path).name}",
            "source": f"fleetcube calibrate {path}",
            "date": datetime.date.today().isoformat(),
            "note": "; ".join(
                [f"{times.events:,} events in {time}, of {log.source}", *times.notes]
            ),
        }
        write(Path(output), failure_times.text(times, about, {"watched": time}))
        say(f"wrote {output}", err=as_json)


def _watched(log: "Log", gpus: int | None, hours: str | None) -> tuple[int, float] | None:
    from fleetcube.catalog.units import UnitError, parse

    if gpus is None and hours is None:
        return None
    if gpus is None or (hours is None and not log.seconds):
        raise InputError(
            '--gpus and --hours go together; give both, as --gpus 16384 --hours "54 d"'
        )
    try:
        seconds = log.seconds if hours is None else parse(hours, "s", "--hours")
    except UnitError as error:
        raise InputError(str(error)) from None
    return check_count("--gpus", gpus), seconds


def _show(times: "Failures", log: "Log") -> None:
    from fleetcube.calibration.failure_times import quantiles
    from fleetcube.kernels.declare import HOUR
    from fleetcube.tables.tables import INTERVAL, estimate, scale

    rows = []
    for rate in times.rates:
        ends = [end / HOUR for end in rate.quantiles]
        least, middle = map(_short, ends[:2])
        interval = estimate(middle, ends[1], ends[0], ends[2])
        if not rate.events:
            interval = f"{middle} (above {least}, 95 % sure)"
        rows.append([rate.name, f"{rate.events:g}", _short(rate.seconds / HOUR), interval])
    print_table(["", "events", "component hours", f"median [h] {INTERVAL}"], rows)
    say(f"{times.events:,} events in {_short(times.gpu_seconds / HOUR)} GPU hours, {log.source}")
    if times.gpus and times.events:
        low, _, high = (_short(end / HOUR / times.gpus) for end in times.whole.quantiles)
        mean = _short(times.gpu_seconds / times.gpus / times.events / HOUR)
        say(f"{times.gpus:,} GPUs were stopped every {mean} h (90 %: {low} to {high} h)")
    few, many = times.again
    say(f"as many GPU hours again: {few:,.0f} to {many:,.0f} events, 90 of 100 times")
    for name, seconds in times.lost.items():
        factor, unit = scale("s", seconds, name)
        low, median, high = (_short(each / factor) for each in quantiles(seconds))
        say(f"{name}: median {median} {unit}, 90 % {low} to {high} ({len(seconds)})")


def _short(number: float) -> str:
    return f"{float(f'{number:.4g}'):,.12g}"


def _json(times: "Failures", log: "Log") -> None:
    from fleetcube.calibration.failure_times import ENDS, quantiles

    fields: dict[str, Any] = {
        rate.name: {"events": rate.events, "seconds": rate.seconds, "quantiles": rate.quantiles}
        for rate in times.rates
    }
    fields |= {name: quantiles(seconds) for name, seconds in times.lost.items()}
    fields |= {"events": times.events, "gpu_seconds": times.gpu_seconds, "again": times.again}
    say(json.dumps({"shares": ENDS, **fields, "of": log.source, "notes": times.notes}, indent=2))
