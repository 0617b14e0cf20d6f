"""Logs of failures, the mean times that they leave open, and records of reliability."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

import fleetcube
from fleetcube import InputError, Settings, Sweep
from fleetcube.calibration.failure_times import failures, kinds_of, text
from fleetcube.catalog import CatalogError, record
from fleetcube.catalog.files import parse_toml
from fleetcube.cli import cli
from fleetcube.formats.event_log import Log, part_of, recognized, time_of
from fleetcube.grid.spec.distributions import distribution
from fleetcube.kernels.physics.graph import PHYSICS

from ..draws import generator, scaled
from .common import cases, on_h100, refused, written

HOUR = 3600.0
# Llama 3 (arXiv:2407.21783), table 5
LLAMA = {
    "Faulty GPU": 148,
    "GPU HBM3 Memory": 72,
    "Software Bug": 54,
    "Network Switch/Cable": 35,
    "Host Maintenance (Unplanned)": 32,
    "GPU SRAM Memory": 19,
    "GPU System Processor": 17,
    "NIC": 7,
    "NCCL Watchdog Timeouts": 7,
    "Silent Data Corruption": 6,
    "GPU Thermal Interface + Sensor": 6,
    **{"SSD": 3, "Power Supply": 3, "Server Chassis": 2, "IO Expansion Board": 2},
    **{"Dependency": 2, "CPU": 2, "System Memory": 2},
}
TABLE = """time,node,kind,minutes lost,detection [s]
2024-05-01T00:00:00Z,n1,GPU HBM3 Memory,12,30
2024-05-01 00:03:00,n1,Xid 48,14,
2024-05-01 09:00:00,n1,gremlins,1 h,-5
2024-05-02,n2,planned maintenance,90,
"""
JSONL = "\n".join(
    json.dumps(
        dict(zip(("timestamp", "hostName", "cause", "downtime", "detected"), row, strict=True))
    )
    for row in [
        ("2024-05-01T00:00:00Z", "n1", "GPU HBM3 Memory", "12 min", 1),
        (1714521780000, "n1", "Xid 48", 14, 1),
        (1714554000, "n1", "gremlins", "1:00:00", None),
        ("2024-05-02", "n2", "planned maintenance", 90, []),
    ]
)
SLURM = """JobID|State|Elapsed|NNodes|AllocTRES|End|NodeList
1|COMPLETED|2-00:00:00|4|billing=4,gres/gpu:h100=32,gres/gpu=32,node=4|2024-01-03T00:00:00|n[1-4]
1.batch|COMPLETED|2-00:00:00|1|cpu=4|2024-01-03T00:00:00|n1
2|NODE_FAIL|10:00:00|4|gres/gpu:h100=32|2024-01-04T00:00:00|n[1-4]
2|FAILED|02:00:00|4|gres/gpu=32|2024-01-04T02:10:00|n[1-4]
3|CANCELLED by 1000|00:10:00|4|cpu=3|2024-01-04T00:20:00|n[1-4]
"""
XIDS = """node01: [Fri Aug 30 11:43:09 2024] NVRM: Xid (PCI:0000:cb:00): 79, GPU has fallen off
node01: [Fri Aug 30 11:44:09 2024] NVRM: Xid (PCI:0000:cb:00): 154, GPU recovery action changed
node01: [Fri Aug 30 11:44:10 2024] NVRM: Xid (PCI:0000:cc:00): 48, pid=1, DBE
Oct 01 13:00:00 node3 kernel: NVRM: Xid (PCI:0000:06:00): 31, pid=7, MMU Fault
[171167.620236] NVRM: Xid (PCI:0009:01:00): 999, something new
"""
CYCLES = """  - Cycle: 1 Event: failure_detected Node: n1 Rank: 0 Time: 2025-11-01 10:00:00.123 UTC
  - Cycle: 1 Event: failure_detected Node: n2 Rank: 1 Time: 2025-11-01 10:00:01.123 UTC
  - Cycle: 1 Event: worker_terminated Node: n2 Rank: 1 Time: 2025-11-01 10:00:02.123 UTC
[INFO]   Cycle: 1 total_restart_time: 91.250s
"""
STARTS = "\n".join(
    json.dumps({"job_name": "x", name: 1e9 + time})
    for name, time in [
        ("job_start_time", 0),
        *(("step_start_time", time) for time in (60, 70)),
        *(("job_start_time", time) for time in (4000, 4050)),
        ("step_start_time", 4100),
    ]
)


def read(log: str) -> Log:
    found = recognized(log)
    assert found is not None
    return found


def of(log: str, *, gpus: int = 16, hours: float = 1000.0, prior: Any = None, **parts: str) -> Any:
    return failures(read(log), {}, (gpus, hours * HOUR), parts, prior)


def counts(found: Any) -> dict[str, float]:
    return {rate.name: rate.events for rate in found.rates}


def test_the_published_interruptions_of_llama_3_give_its_mtbf() -> None:
    found = of(
        "cause,count\n" + "\n".join(f"{kind},{n}" for kind, n in LLAMA.items()),
        gpus=16384,
        hours=54 * 24,
    )
    assert found.events == 419
    assert found.gpu_seconds / found.gpus / found.events == pytest.approx(3.09 * HOUR, rel=1e-3)
    published = record("reliability", "llama-3-405b-kinds").values
    assert counts(found) == {
        "gpu_mttf": 262,
        "software_mttf": 63,
        "nic_mttf": 42,
        "host_mttf": 46,
        "silent_corruption_mttf": 6,
    }
    for rate in found.rates:
        assert rate.seconds / rate.events == pytest.approx(published[rate.name], rel=1e-4)
        assert rate.quantiles[0] < published[rate.name] < rate.quantiles[2]


@cases(
    "log, expected, lost",
    (
        TABLE,
        {"gpu_mttf": 1, "host_mttf": 1},
        {"recovery_time": [840, 3600], "detection_time": [30]},
    ),
    (JSONL, {"gpu_mttf": 1, "host_mttf": 1}, {"recovery_time": [840, 3600]}),
    (SLURM, {"host_mttf": 1, "software_mttf": 1}, {}),
    (XIDS, {"gpu_mttf": 1, "software_mttf": 1, "host_mttf": 1}, {}),
    (CYCLES, {"interruption_mttf": 1}, {"reinit_time": [91.25]}),
    (STARTS, {"interruption_mttf": 2}, {"recovery_time": [4030]}),
    ids=["table", "json", "slurm", "xids", "resiliency", "goodput"],
)
def test_logs_are_read_as_by_hand(log: str, expected: Any, lost: Any) -> None:
    found = of(log)
    assert counts(found) == expected
    assert found.lost == lost


def test_what_is_not_counted_is_said() -> None:
    found = of(TABLE)
    assert [note for note in found.notes if "gremlins" in note and "host" in note]
    assert [note for note in found.notes if note.startswith("1 lines repeat an event")]
    assert [note for note in found.notes if "detection times that cannot be read" in note]
    assert counts(of(TABLE, gremlins="nic")) == {"gpu_mttf": 1, "nic_mttf": 1}
    assert kinds_of(["Gremlins = x=none"]) == {"gremlins = x": "-"}
    refused("write NAME=PART", kinds_of, ["gremlins"])


def test_the_accounting_of_slurm_states_the_time_watched() -> None:
    log = read(SLURM)
    found = failures(log, {}, None, {}, None)
    assert found.gpu_seconds == 32 * 60 * HOUR
    assert {rate.name: rate.seconds / HOUR for rate in found.rates} == {
        "host_mttf": 240,
        "software_mttf": 240,
    }
    refused("--gpus 16384 --hours", failures, read(TABLE), {}, None, {}, None)


def test_the_spec_says_how_many_parts_there_are() -> None:
    log = "kind\nPower Supply\nSwitch"
    scenario = {"series_psus_per_node": 4, "gpus_per_node": 8, "gpus_per_switch": 64}
    found = failures(read(log), scenario, (1024, HOUR), {}, None)
    per = {rate.name: rate.seconds / HOUR for rate in found.rates}
    assert per == {"psu_mttf": 512, "switch_mttf": 16}
    assert counts(of(log)) == {"host_mttf": 1, "switch_mttf": 1}


def test_a_record_counts_as_some_events_more() -> None:
    (rate,) = of("kind,count\ngpu,5", prior="llama-3-405b-run=10").rates
    assert (rate.events, rate.seconds) == (15, pytest.approx(HOUR * (16_000 + 10 * 50_677)))
    (whole,) = of("time,node\n", prior="mlsysim-reference=2").rates
    # 8 GPUs and 8 cards of a node, whose supplies do not stop it
    assert whole.seconds == pytest.approx(HOUR * (16_000 + 2 / (1 / 50_000 + 1 / 150_000)))
    refused("has no MTTF", of, TABLE, prior="rsc-1-empirical=1")


def test_the_mean_time_is_of_the_inverse_gamma_distribution() -> None:
    shares = np.array([0.01, 0.05, 0.5, 0.95])
    for events in (0, 1, 40, 419):
        law = distribution(PHYSICS, "gpu_mttf", {"events": events, "hours": "2.1e7 h"})
        known = stats.invgamma(events + 0.5, scale=2.1e7 * HOUR)
        np.testing.assert_allclose(law.quantile(shares), known.ppf(shares), rtol=1e-9)
        assert law.median == pytest.approx(known.median(), rel=1e-9)
    # no event: by hand, the least mean time at 95 % is T / 1.92, and T / 3.0 by the rule of three
    zero = of("time,node\n", gpus=1)
    assert zero.rates[0].quantiles[0] == pytest.approx(1000 * HOUR / 1.9207, rel=1e-4)
    assert f"above {1000 / 2.9957:,.4g} GPU hours (rule of three)" in " ".join(zero.notes)
    edge = distribution(PHYSICS, "gpu_mttf", {"events": 0, "hours": "1 h"}).quantile(
        np.array([0.0, 1.0])
    )
    assert edge[0] > 0
    assert edge[1] == math.inf


@cases("events", 0.3, 1, 3, 10, 40)
def test_nine_of_ten_intervals_hold_the_true_rate(events: float) -> None:
    """Counts about `events`, at rates spread by a factor of 3: 4,000 of each."""
    draws = np.random.default_rng(7)
    rates = events * 3 ** draws.uniform(-0.5, 0.5, 4000)
    seen, which = np.unique(draws.poisson(rates), return_inverse=True)
    laws = [distribution(PHYSICS, "gpu_mttf", {"events": int(k), "hours": "1 s"}) for k in seen]
    ends = np.array([law.quantile(np.array([0.05, 0.95])) for law in laws])[which]
    inside = ((ends[:, 0] <= 1 / rates) & (1 / rates <= ends[:, 1])).mean()
    # 3 binomial deviations are 0.014. Few events are coarse counts, and then more are inside
    assert -0.014 < inside - 0.9 < (0.014 if events > 3 else 0.07)


def test_so_many_events_come_again() -> None:
    draws = np.random.default_rng(3)
    again = draws.poisson(draws.gamma(40.5, 1.0, 40_000))
    low, high = of("kind,count\ngpu,40").again
    assert (again < low).mean() <= 0.05 + 0.004 <= (again <= low).mean() + 0.008
    assert ((low <= again) & (again <= high)).mean() == pytest.approx(0.91, abs=0.015)


def test_a_spec_uses_the_file_with_its_width(tmp_path: Path) -> None:
    about = dict(title="ours", source="a log", date="2026-11-27", note="44 times")
    path = written(tmp_path / "reliability.toml", text(of("kind,count\ngpu,40"), about, {}))
    only = {"node": "dgx-h100", "n_gpus": 64, "reliability": str(path)}
    sweep = Sweep(only, {}, ["cluster_mtbf"])
    known = stats.invgamma(40.5, scale=16_000 / 64 * HOUR)
    assert sweep.evaluate()["cluster_mtbf"].item() == pytest.approx(known.median(), rel=1e-9)
    q = [0.05, 0.5, 0.95]
    found = sweep.uncertainty(q=q)
    np.testing.assert_allclose(found["cluster_mtbf"], known.ppf(q), rtol=2e-3)
    assert found["cluster_mtbf_mean"].item() == pytest.approx(known.mean(), rel=2e-3)
    first = sweep.uncertainty(q=q, method="first_order")  # as lognormal: a little off at the ends
    np.testing.assert_allclose(first["cluster_mtbf"], known.ppf(q), rtol=0.02)
    stated = Sweep({**only, "gpu_mttf": "5e4 h"}, {}, ["cluster_mtbf"])
    refused("no distribution", stated.uncertainty)
    whole = text(of("time,node\n"), about, {})
    path.write_text(whole, encoding="utf-8")
    none = Sweep({"node": "dgx-h100", "n_gpus": 16, "reliability": str(path)}, {}, ["cluster_mtbf"])
    np.testing.assert_allclose(
        none.uncertainty(q=q)["cluster_mtbf"],
        stats.invgamma(0.5, scale=1000 * HOUR).ppf(q),
        rtol=0.01,
    )


@cases("events", 1, 3, 40)
def test_the_mean_slowdown_is_that_of_the_closed_form(events: int) -> None:
    """Of e^(L R) (e^(L z) - 1) / (L tau) over L of Gamma(a, T), by hand: T^a ((T - R - z)^(1 - a) -
    (T - R)^(1 - a)) / ((a - 1) tau); at one event in 100 h, tau 2 h and d 0.02 h it is 1.026, and
    1.020 at the plain rate."""
    a, t, tau, d, r = events + 0.5, 100.0, 2.0, 0.02, 0.25
    known = t**a * ((t - r - tau - d) ** (1 - a) - (t - r) ** (1 - a)) / ((a - 1) * tau)
    given = {"interruption_mttf": {"events": events, "hours": "800 h"}, "n_gpus": 8}
    times = {"recovery_time": r, "checkpoint_stall_time": d, "fixed_checkpoint_interval": tau}
    given |= {name: f"{hours} h" for name, hours in times.items()}
    found = Sweep(given, {}, ["expected_slowdown"]).uncertainty(samples=1 << 15)
    assert found["expected_slowdown_mean"].item() - 1 == pytest.approx(known - 1, rel=2e-3)


@cases(
    "name, spec, said",
    ("gpu_mttf", {"events": 4}, "is not one of"),
    ("gpu_mttf", {"hours": "4 h"}, "is not one of"),
    ("gpu_mttf", {"events": -1, "hours": "4 h"}, "is not a number from 0"),
    ("gpu_mttf", {"events": math.nan, "hours": "4 h"}, "is not a number from 0"),
    ("gpu_mttf", {"events": "4", "hours": "4 h"}, "is not a number from 0"),
    ("gpu_mttf", {"events": 4, "hours": 4}, "has no unit"),
    ("gpu_mttf", {"events": 4, "hours": "0 h"}, "greater than 0"),
    ("gpu_mttf", {"events": 4, "hours": "inf h"}, "not finite"),
    ("gpu_mttf", {"events": 4, "hours": "4 B"}, "4 B"),
    ("detection_time", {"events": 4, "hours": "4 h"}, "no mean time between failures"),
    ("n_gpus", {"events": 4, "hours": "4 h"}, "no mean time between failures"),
)
def test_other_events_are_refused(name: str, spec: Any, said: str, tmp_path: Path) -> None:
    refused(said, Sweep, {**on_h100(), name: spec}, {}, ["cluster_mtbf"])
    if name == "gpu_mttf" and "nan" not in str(spec):
        head = 'title = "a"\nsource = "b"\ndate = "2026-11"\nnote = "c"\ngpu_mttf = '
        path = written(tmp_path / "r.toml", head + json.dumps(spec).replace(":", " ="))
        scenario = {"node": "dgx-h100", "n_gpus": 8, "reliability": str(path)}
        refused(said, Sweep, scenario, {}, ["cluster_mtbf"])
        path.write_text(head + "{ events = 1979-05-27 }", encoding="utf-8")
        with pytest.raises(CatalogError, match="no distribution"):
            record("reliability", str(path))


def test_a_script_gives_the_counts_of_parts(tmp_path: Path) -> None:
    log = written(tmp_path / "events.csv", "cause,count\nGPU,9\n")
    words = ["calibrate", str(log), "--gpus", "64", "--hours", "9 d", "--spec"]
    done = CliRunner().invoke(cli, [*words, "example:pretrain-llama-3-70b"])
    assert "64 GPUs were stopped every 24 h" in done.stdout, done.output


PIECES = ["1e999", "-1", "nan", "9" * 5000, "|", ",", ";", "\n", "\0", '"', "{", "]", "[" * 2000]
PIECES += [
    '{"a":' * 1500,
    "NODE_FAIL",
    "gres/gpu=",
    "\ud7ff",
    "\x1b[2J",
    "\t",
    "lost [h]",
    " " * 3000,
]
PIECES += [":" * 500, "true", "null", "count", "1e30", "NVRM: Xid (PCI:0): 79", "1979-05-27"]


@pytest.mark.slow
@cases("log", TABLE, JSONL, SLURM, XIDS, CYCLES, STARTS)
def test_damaged_logs_are_read_or_refused_in_one_line(log: str) -> None:
    draws = generator(5)
    for _ in range(scaled(200, 200)):
        damaged = log
        for _ in range(draws.integers(1, 6)):
            at, length = draws.integers(len(damaged) + 1), draws.choice([0, 1, 3, 12, 60])
            piece = PIECES[draws.integers(len(PIECES))]
            damaged = damaged[:at] + piece + damaged[at + length :]
        try:
            found = recognized(damaged)
            if found is not None:
                made = failures(found, {}, (8, HOUR), {}, None)
                assert all(rate.quantiles[0] > 0 for rate in made.rates)
                parse_toml(text(made, {"title": "x", "note": "; ".join(made.notes)}, {}))
        except InputError as error:
            told = str(error)
            assert "\n" not in told


def test_words_name_parts_and_dates_times() -> None:
    said = {"NVLink error": "gpu", "psu-2 failed": "psu", "QSFP cable": "cable", "what": ""}
    said |= {"xid 63": "-", "Xid: 119": "gpu", "Xid 9999": "", "leaf switch": "switch"}
    assert {kind: part_of(kind) for kind in said} == said
    assert time_of("Fri Aug 30 11:43:09 2024") == time_of("2024-08-30T13:43:09+02:00") == 1725018189
    assert time_of("08/30/2024 11:43") == 1725018180
    assert time_of("soon") is time_of("") is time_of(10**5000) is time_of(math.nan) is None


def test_many_rows_are_refused_and_other_files_are_no_logs() -> None:
    refused("more than 200,000 rows", recognized, "kind\n" + "gpu\n" * 200_001)
    refused("is not a whole number", recognized, "kind,count\ngpu,-1")
    for other in ("", "n_gpus,step_time\n8,2", "{}", "[[1]]", "#  size count\n8 2"):
        assert recognized(other) is None


def test_an_interval_within_a_step_or_within_a_write_is_remarked_on() -> None:
    """Drawn: the remark has the interval in steps, and the law stays as it is without a step."""
    draw = generator(58)
    for _ in range(scaled(30)):
        stall, mtbf, step, flush = np.exp(draw.uniform(np.log(1e-3), np.log(1e3), 4))
        mode = str(draw.choice(["sync", "async"]))
        times = {"checkpoint_mode": mode, "checkpoint_stall_time": stall, "cluster_mtbf": mtbf}
        times |= {"minimum_checkpoint_interval": flush} if mode == "async" else {}
        outputs = ["checkpoint_interval", "step_time", "minimum_checkpoint_interval"]
        found = Sweep({**times, "step_time": step}, {}, outputs).evaluate()
        interval = found["checkpoint_interval"].item()
        assert interval == fleetcube.evaluate("checkpoint_interval", **times).item()
        lines = str(found.attrs.get("fleetcube_remarks", "")).splitlines()
        assert (f"{interval / step:.3g} steps" in " ".join(lines)) == (interval <= step)
        assert any("never pauses" in line for line in lines) == (
            mode == "async" and interval == flush
        )


@cases("times", {}, {"step_time": 0.0}, {"step_time": math.inf})
def test_an_interval_that_is_infinite_is_no_remark(times: dict[str, float]) -> None:
    given = {"checkpoint_stall_time": 1.0, "cluster_mtbf": math.inf, **times}
    with np.errstate(all="raise"):
        found = Sweep(given, {}, ["checkpoint_interval", *times]).evaluate(
            settings=Settings("numpy")
        )
    assert "checkpoint_interval is" not in str(found.attrs.get("fleetcube_remarks", ""))


def test_a_step_longer_than_the_interval_costs_what_the_range_says() -> None:
    """To first order in the interval over the mean time between failures."""
    for ratio, stall, mtbf in ((1.5, 1e-3, 1e6), (2.16, 1e-2, 1e6), (6.0, 1e-3, 1e7)):
        times = {"checkpoint_stall_time": stall, "interruption_mttf": mtbf, "n_gpus": 1}
        times |= {"recovery_time": 0.0}
        smooth = Sweep(times, {}, ["goodput", "checkpoint_interval"]).evaluate()
        tau = smooth["checkpoint_interval"].item()
        stepped = fleetcube.evaluate(
            "goodput", **times, fixed_checkpoint_interval=ratio * tau
        ).item()
        loss = (ratio + 1 / ratio - 2) * tau / (2 * mtbf)
        assert smooth["goodput"].item() - stepped == pytest.approx(loss, rel=0.01)
