"""Predictions before measurements: `python -m docs.make.frozen --date 2026-11-23` appends them.

frozen.csv has the configurations, as own records without a measured value. Their predictions are
appended to frozen.jsonl. A value published later is a row of frozen_measured.csv: id, an output
such as tokens_per_second_per_gpu, source, and the date of its publication.
"""

import argparse
import datetime
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fleetcube
from fleetcube import Settings
from fleetcube.calibration import measured_rows
from fleetcube.calibration.csv_columns import checked
from fleetcube.catalog import AUTO, pooled
from fleetcube.grid.errors import InputError
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.kernels.physics.inputs import INPUTS

from .text import DOCS, between, table

CONFIGURATIONS = Path(__file__).with_name("frozen.csv")
PREDICTIONS = CONFIGURATIONS.with_suffix(".jsonl")
MEASURED = CONFIGURATIONS.with_name("frozen_measured.csv")
PAGE = DOCS / "frozen.md"
_OUTPUTS = {
    "step_time": "step_time",
    "low": "step_time_low",
    "high": "step_time_high",
    "tokens_per_second": "tokens_per_second",
}
_TEXTS = ("id", "group", "source", "note")


def configurations(path: Path = CONFIGURATIONS) -> list[dict[str, Any]]:
    """Configurations to predict: id, source and inputs in base units. Raises InputError."""
    found = []
    for entry in measured_rows.from_csv(str(path), path.read_text(encoding="utf-8")):
        stated = {k: v for k, v in entry.items() if k not in _TEXTS and v is not None}
        inputs = {name: checked(name, value) for name, value in stated.items()}
        found.append({"id": entry["id"], "source": entry["source"], "inputs": inputs})
    return found


def predicted(configuration: Mapping[str, Any], date: str) -> dict[str, Any]:
    """A configuration with its predictions under auto [s, 1/s]. Raises InputError."""
    scenario = {**configuration["inputs"], "calibration": AUTO}
    cube = Evaluation(scenario, {}, list(_OUTPUTS.values())).evaluate(settings=Settings("numpy"))
    numbers = {name: float(cube[output]) for name, output in _OUTPUTS.items()}
    return {
        **configuration,
        "date": date,
        **numbers,
        "posterior": pooled.posterior().digest,
        "version": fleetcube.__version__,
    }


def sealed(entry: Mapping[str, Any], before: str) -> str:
    """A line: the entry, and a hash of it with the previous hash."""
    content = {name: value for name, value in entry.items() if name != "sha256"}
    text = before + json.dumps(content, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}, sort_keys=True)


def predictions(path: Path = PREDICTIONS) -> list[dict[str, Any]]:
    """Predictions, oldest first. Raises InputError if a line was changed."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            whole = sealed(entry, found[-1]["sha256"] if found else "") + "\n" == line
        except (ValueError, AttributeError):
            whole = False
        if not whole:
            raise InputError(
                f"{path.name}: line {number} is not as it was written (its hash, or that of the "
                "line before, differs); restore the file from its history"
            )
        entry["inputs"] = {name: _spelled(name, value) for name, value in entry["inputs"].items()}
        found.append(entry)
    return found


def _spelled(name: str, value: Any) -> Any:
    """An input of a line in today's spelling: lines of version 0.2 use none for off."""
    return False if name in INPUTS and INPUTS[name].means_off(value) else value


def freeze(
    date: str,
    path: Path = PREDICTIONS,
    of: Path = CONFIGURATIONS,
    values: Path = MEASURED,
) -> int:
    """Append predictions neither measured nor made by this posterior before; count them."""
    try:
        datetime.date.fromisoformat(date)
    except ValueError:
        raise InputError(f"--date {date} is not a date; write one such as 2026-11-23") from None
    held = predictions(path)
    if held and date < held[-1]["date"]:
        raise InputError(f"--date {date} is before {held[-1]['date']} of {path.name}; give today's")
    compared = {str(row["id"]) for row in _published(values)}
    done = {(e["id"], e["posterior"], json.dumps(e["inputs"], sort_keys=True)) for e in held}
    last, lines = held[-1]["sha256"] if held else "", []
    for configuration in configurations(of):
        entry = predicted(configuration, date)
        key = entry["id"], entry["posterior"], json.dumps(entry["inputs"], sort_keys=True)
        if entry["id"] not in compared and key not in done:
            lines.append(sealed(entry, last))
            last = json.loads(lines[-1])["sha256"]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return len(lines)


def _published(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    return measured_rows.from_csv(str(path), text) if len(text.splitlines()) > 1 else []


@dataclass(frozen=True)
class Outcome:
    """A prediction and the measured step time [s]."""

    entry: Mapping[str, Any]
    measured: float
    published: str
    source: str

    @property
    def error(self) -> float:
        return float(self.entry["step_time"]) / self.measured - 1

    @property
    def inside(self) -> bool:
        return bool(self.entry["low"] <= self.measured <= self.entry["high"])


def outcomes(held: Sequence[Mapping[str, Any]], path: Path = MEASURED) -> list[Outcome]:
    """Outcomes of predictions whose value was published. Raises InputError."""
    found = []
    for row in _published(path):
        of = [entry for entry in held if entry["id"] == row.get("id")]
        if not of:
            raise InputError(f"{path.name}: {row.get('id')} was not predicted; name an id that was")
        if not {"source", "date"} <= {*row}:
            raise InputError(f"{path.name}: {row['id']} has no source or date; give both")
        for entry in of:
            measured = {k: v for k, v in row.items() if k not in (*_TEXTS, "date")}
            (reading, *_), reasons = measured_rows.readings(
                {"inputs": entry["inputs"], "measured": measured}
            )
            if reasons:
                raise InputError(f"{path.name}: {row['id']}: {reasons[0]}")
            seconds = reading.measured
            if reading.of != "step_time":  # tokens of a step over tokens a second
                seconds = entry["step_time"] * entry["tokens_per_second"] / seconds
            found.append(Outcome(entry, seconds, str(row["date"]), str(row["source"])))
    return found


def page() -> str:
    held = predictions()
    return between(PAGE, "frozen", text(held, outcomes(held)))


def text(held: Sequence[Mapping[str, Any]], compared: Sequence[Outcome]) -> str:
    parts = ["## How they did", _compared(compared), "## Open"]
    known = {outcome.entry["id"] for outcome in compared}
    last = {entry["id"]: entry for entry in held if entry["id"] not in known}
    heads = ("configuration", "step time", "90 % interval", "tokens/s and GPU", "predicted")
    rows = [
        (
            f"`{entry['id']}`",
            f"{entry['step_time']:.4g} s",
            f"{entry['low']:.4g} to {entry['high']:.4g} s",
            f"{entry['tokens_per_second'] / entry['inputs']['n_gpus']:,.0f}",
            entry["date"],
        )
        for entry in last.values()
    ]
    parts.append(table(heads, rows, " rrr") if rows else "None is open.")
    return "\n\n".join(parts)


def _compared(compared: Sequence[Outcome]) -> str:
    if not compared:
        return "None has been compared with a measured value yet."
    heads = ("configuration", "predicted", "step time", "measured", "published", "error", "inside")
    rows = [
        (
            f"`{outcome.entry['id']}`",
            outcome.entry["date"],
            f"{outcome.entry['step_time']:.4g} s",
            f"{outcome.measured:.4g} s",
            outcome.published,
            f"{100 * outcome.error:+.1f} %",
            "yes" if outcome.inside else "no",
        )
        for outcome in compared
    ]
    mean = math.fsum(abs(outcome.error) for outcome in compared) / len(compared)
    inside = sum(outcome.inside for outcome in compared)
    sources = dict.fromkeys(outcome.source for outcome in compared)
    said = f"{len(compared)} compared: {100 * mean:.1f} % mean error, {inside} inside the interval."
    return "\n\n".join([said, table(heads, rows, "  rr rr"), f"Sources: {'; '.join(sources)}."])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.make.frozen", description=__doc__)
    parser.add_argument("--date", required=True, help="the day on which they are made, 2026-11-23")
    try:
        count = freeze(parser.parse_args().date)
        PAGE.write_text(page(), encoding="utf-8")
    except InputError as error:
        parser.error(str(error))
    print(f"{count} predictions added to {PREDICTIONS}")


if __name__ == "__main__":
    main()
