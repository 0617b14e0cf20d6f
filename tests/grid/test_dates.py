"""Dates of jobs: the last day of one counts whole."""

import math
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from fleetcube import InputError
from fleetcube.cli import cli
from fleetcube.grid.show.dates import as_time, day, end

PLAN = Path(__file__).parents[2] / "examples" / "plan.toml"
START = date(2026, 12, 1)


def test_a_job_ends_on_the_day_in_which_its_time_is_up() -> None:
    assert end(START, 0.0) == "2026-12-01"
    assert end(START, 3600.0) == "2026-12-01"
    assert end(START, 86400.0) == "2026-12-01"  # at its midnight
    assert end(START, 86401.0) == "2026-12-02"
    assert end(START, 90 * 86400.0) == "2027-02-28"  # 31 + 31 + 28 days
    assert end(date(2027, 12, 1), 91 * 86400.0) == "2028-02-29"
    assert [end(START, t) for t in (math.nan, math.inf, 1e12)] == ["-", "never", "after 9999"]


def test_a_date_is_written_in_one_way() -> None:
    assert day("2027-06-01") == date(2027, 6, 1)
    for text in ("20270601", "2027-W22-2", "2027-W22", "2027-6-1", "2027-06-01T00", "June", ""):
        with pytest.raises(InputError, match="is not a date; write it as 2027-06-01"):
            day(text)


def test_a_date_to_finish_by_is_a_time() -> None:
    assert as_time("finish <= 2026-12-01", START) == "job_time <= 1 d"
    assert as_time(" finish<=2027-02-28 ", START) == "job_time <= 90 d"
    assert as_time("job_time <= 30 d", None) == "job_time <= 30 d"
    for wrong, start in (
        ("finish <= 2026-11-30", START),
        ("finish >= 2027-01-01", START),
        ("finish <= June", START),
        ("finish <= 2027-02-29", START),
        ("finish <= 2027-01-01", None),
    ):
        with pytest.raises(InputError):
            as_time(wrong, start)
    with pytest.raises(InputError, match="is not a date"):
        day("01.12.2026")


def test_the_commands_know_dates() -> None:
    words = ["plan", str(PLAN), "--start", "2026-12-01", "--top", "1"]
    told = CliRunner().invoke(cli, words).output
    (line,) = [row for row in told.splitlines() if row.startswith("started on")]
    (days,) = [float(row.split()[2]) for row in told.splitlines() if row.startswith("job_time")]
    assert line.split()[6] == end(START, days * 86400)
    job = ["model=llama-3-8b", "tensor_parallel=8", "training_tokens=1e12"]
    words = ["solve", str(PLAN), "--for", "n_gpus", "--start", "2026-12-01", *job]
    told = CliRunner().invoke(cli, [*words, "--target", "finish <= 2027-02-28"]).output
    assert "finish <= 2027-02-28, started on 2026-12-01: job_time <= 90 d" in told
