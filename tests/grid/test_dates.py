"""Dates of jobs: the last day of one counts whole."""

import json
import math
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from fleetcube import InputError, Settings, Sweep
from fleetcube.cli import cli
from fleetcube.scenario.dates import as_time, begin, day, end

from .common import refused, written

PLAN = Path(__file__).parents[2] / "examples" / "plan.toml"
START = date(2026, 12, 1)


def test_a_job_ends_on_the_day_in_which_its_time_is_up() -> None:
    assert (end(START, 0.0), end(START, 3600.0)) == ("2026-12-01", "2026-12-01")
    assert end(START, 86400.0) == "2026-12-01"  # at its midnight
    assert end(START, 86401.0) == "2026-12-02"
    assert end(START, 90 * 86400.0) == "2027-02-28"  # 31 + 31 + 28 days
    assert end(date(2027, 12, 1), 91 * 86400.0) == "2028-02-29"
    century = 100 * 365.25 * 86400.0
    endless = (math.nan, math.inf, 1e12, 3 * century + 86401.0)
    assert [end(START, t) for t in endless] == ["-", "never", "never", "never"]
    assert end(START, 3 * century).startswith("2326-")
    assert end(date(9950, 1, 1), century) == "after 9999"
    assert [begin(START, t) for t in (0.0, 86399.0)] == ["2026-12-01"] * 2
    assert begin(START, 86400.0) == "2026-12-02"
    assert [begin(START, t) for t in (math.nan, math.inf, 1e12)] == ["-", "never", "never"]


def test_a_date_is_written_in_one_way() -> None:
    assert day("2027-06-01") == date(2027, 6, 1)
    for text in ("20270601", "2027-W22-2", "2027-W22", "2027-6-1", "2027-06-01T00", "June", ""):
        refused("is not a date; write it as 2027-06-01", day, text)


def test_a_date_to_finish_by_is_a_time() -> None:
    assert as_time("finish <= 2026-12-01", START) == "job_time <= 1 d"
    assert as_time(" finish<=2027-02-28 ", START) == "job_time <= 90 d"
    assert as_time("job_time <= 30 d", None) == "job_time <= 30 d"
    for wrong in ("<= 2026-11-30", ">= 2027-01-01", "<= June", "<= 2027-02-29"):
        refused(".", as_time, f"finish {wrong}", START)
    refused(".", as_time, "finish <= 2027-01-01", None)
    refused("is not a date", day, "01.12.2026")


def test_the_commands_know_dates() -> None:
    words = ["plan", str(PLAN), "start_date=2026-12-01", "-k", "1"]
    told = CliRunner().invoke(cli, words).output
    (line,) = [row for row in told.splitlines() if row.startswith("started on")]
    (days,) = [float(row.split()[2]) for row in told.splitlines() if row.startswith("job_time")]
    assert line.split()[6] == end(START, days * 86400)
    job = ["model=llama-3-8b", "tensor_parallel=8", "training_tokens=1e12"]
    words = ["solve", str(PLAN), "--for", "n_gpus", "start_date=2026-12-01", *job]
    told = CliRunner().invoke(cli, [*words, "--target", "finish <= 2027-02-28"]).output
    assert "finish <= 2027-02-28, started on 2026-12-01: job_time <= 90 d" in told


RAMP = """
outputs = ["job_time"]
phase = [
  { name = "half", n_gpus = 128, training_tokens = "100B" },
  { name = "whole", n_gpus = 256, training_tokens = "700B" },
]
scenario = { start_date = 2026-12-01, model = "llama-3-8b", node = "dgx-h100", \
fabric = "infiniband-ndr", tensor_parallel = 8, calibration = "none" }
"""


def test_a_spec_says_when_its_job_starts(tmp_path: Path) -> None:
    spec = written(tmp_path / "ramp.toml", RAMP)

    def told(*words: str) -> list[list[str]]:
        done = CliRunner().invoke(cli, [words[0], str(spec), *words[1:]])
        assert done.exit_code == 0, done.output
        return [line.split() for line in done.stdout.splitlines()]

    sweep = Sweep.from_file(spec)
    each = (
        sweep.replace(axes={"phase": ["half", "whole"]})
        .evaluate(settings=Settings("numpy"))["job_time"]
        .values
    )
    ends = [datetime(2026, 12, 1) + timedelta(seconds=t) for t in each.cumsum().tolist()]
    first, last = (str(moment.date()) for moment in ends)
    heading, one, two = told("run", "phase=all")
    assert heading[-4:] == ["starts", "on", "ends", "on"]
    assert (one[-2:], two[-2:]) == (["2026-12-01", first], [first, last])
    assert told("run")[1][-1] == last
    assert told("run", "start_date=2027-12-01")[1][-1] > "2027-12-01"
    assert told("run", "phase=half")[1][-1] == first
    # a later phase by itself has unknown predecessors and start
    assert "ends" not in told("run", "phase=whole")[0]
    assert "ends" not in told("run", "phase=whole,half")[0]
    assert "ends" not in told("reduce", "sum", "phase=all", "--of", "job_time")[0]
    found = told("solve", "--for", "n_gpus__whole", "--target", f"finish <= {last}", "--relaxed")
    assert found[-1][:3] == ["finish", "<=", f"{last},"]
    later = written(tmp_path / "later.toml", RAMP.replace("2026-12-01", '"2030-01-01"'))
    assert ["the", "specs", "do", "not", "differ", "here"] in told("compare", str(later))


def test_a_date_next_to_completion_time_says_what_each_counts_from(tmp_path: Path) -> None:
    job = {"n_gpus": 64, "job_time": "10 d", "contract_nodes": 16, "delivery_time": "20 d"}
    job |= {"start_date": "2026-12-01", "gpus_per_node": 8}
    text = "\n".join(f"{name} = {json.dumps(value)}" for name, value in job.items())
    spec = written(tmp_path / "contract.toml", f"[scenario]\n{text}\n")
    words = ["run", str(spec), "-v", "job_time"]
    line = (
        "ends on: job_time after start_date, on which the job has its nodes; completion_time counts"
    )
    for more, is_there in (["-v", "completion_time"], True), ([], False):
        done = CliRunner().invoke(cli, [*words, *more])
        assert "2026-12-10" in done.stdout
        assert (line in " ".join(done.stderr.split())) == is_there


def test_a_start_that_is_no_date_is_refused(tmp_path: Path) -> None:
    job = {"n_gpus": 1024}
    for wrong in ("2027-1-4", 20270104, datetime(2027, 1, 4), ["2027-01-04"], None):
        with pytest.raises(InputError, match=r"start_date = .* is not a date; write it as"):
            Sweep({**job, "start_date": wrong}, {}, ["cluster_mtbf"])
    with pytest.raises(InputError, match="start_date is one text of the scenario"):
        Sweep(job, {"start_date": ["2027-01-04"]}, ["cluster_mtbf"])
    phase = {"start_date": "2027-01-04", "training_tokens": 1e12}
    with pytest.raises(InputError, match="phases begin as those before them end"):
        Sweep(job, {}, ["cluster_mtbf"], phases=[phase])
