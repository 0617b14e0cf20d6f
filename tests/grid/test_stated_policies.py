"""Policies as people state them: counted failures, intervals in steps, percentiles of repairs."""

import heapq
import math
import re
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import chi2

import fleetcube
from fleetcube.analysis.layouts import LAYOUT
from fleetcube.analysis.nearest import nearest
from fleetcube.analysis.simulate import simulate_spec
from fleetcube.cli import cli
from fleetcube.grid.errors import InputError
from fleetcube.scenario import policies
from fleetcube.scenario.schema import _text
from tests.draws import generator
from tests.laws.checkpoints.stated_policies import drawn, scenario

JOB: dict[str, Any] = {"model": "llama-3-70b", "node": "dgx-h100", "n_gpus": 2048}
DAY = 86400.0
ALL = fleetcube.Settings(infeasible="include")


@pytest.mark.parametrize(
    ("name", "text", "seconds"),
    [
        ("node_mttf", "1 of 256 nodes a day", 256 * DAY),
        ("node_mttf", "3 failures of 1,000 hosts per week", 7 * 1000 * DAY / 3),
        ("interruption_mttf", "419 in 54 days on 16,384 GPUs", 16384 * 54 * DAY / 419),
        ("gpu_mttf", "148 interruptions in 54 d on 16384 GPUs", 16384 * 54 * DAY / 148),
        ("node_mttf", "1 of 128 nodes every 2 days", 128 * 2 * DAY),
        ("node_mttf", "3 failures of 128 nodes every 2 weeks", 128 * 14 * DAY / 3),
        ("node_mttf", "1 of 128 nodes every 36 h", 128 * 1.5 * DAY),
        ("node_mttf", "1 of 128 nodes every hour", 128 * DAY / 24),
        ("psu_mttf", "1 of 400 power supplies a year", 400 * 31557600.0),
        ("switch_mttf", "0.5 of 1 switch a year", 2 * 31557600.0),
    ],
)
def test_counted_failures(name: str, text: str, seconds: float) -> None:
    given = fleetcube.evaluate(["cluster_mtbf", "goodput"], **JOB, **{name: text})
    same = fleetcube.evaluate(["cluster_mtbf", "goodput"], **JOB, **{name: seconds})
    assert float(given.cluster_mtbf) == float(same.cluster_mtbf)
    if name != "switch_mttf":
        assert f"{name} {text!r}: {seconds / 3600:,.6g} h" in given.attrs["fleetcube_remarks"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("node_mttf", "0 of 256 nodes a day", "has no time of failures"),
        ("node_mttf", "419 in 54 days on 16,384 GPUs", "is of a node"),
        ("interruption_mttf", "1 of 256 nodes a day", "is of a GPU"),
        ("node_mttf", "0 of 256 nodes a day", "no time of failures"),
        ("node_mttf", "1 of 256 nodes a fortnite", "no time of failures"),
        ("node_mttf", "some of 256 nodes a day", "is no count of failures"),
        (
            "node_mttf",
            "1 of 8 nodes each day",
            'write "1 of 256 nodes a day", "1 of 128 nodes every',
        ),
        ("node_mttf", "1 of 8 nodes every 0 days", "no time of failures"),
        ("node_mttf", "1 of 0 nodes a day", "of 0 nodes, not of a whole number"),
        ("node_mttf", "1 of 16.384 nodes a day", "of 16.384 nodes, not of a whole number"),
        ("node_mttf", f"1 of {'9' * 400} nodes a day", "no time of failures"),
        ("node_mttf", f"{'9' * 400} of 1 node a day", "no time of failures"),
        ("repair_time", "median 6 h, p99.99999999999999999 3 d", "and p100 is needed"),
        ("repair_time", "median 6 h, p50 7 h", "has p50 where one between p50, the median, and"),
        ("repair_time", "median 6 h, p40 5 h", "has p40 where one between p50"),
        ("repair_time", "median 0 h, p95 3 d", "has a median of 0"),
        ("repair_time", "median 6 h, p95 6 h", "has a p95 that is not above its median"),
        ("job_duration", "1 of 256 nodes a day", "unknown unit|known unit"),
        ("repair_time", "median 3 d, p95 6 h", "p95 that is not above its median"),
        ("repair_time", "6 h median, 3 d p95", "write 'median 6 h, p95 3 d'"),
        ("checkpoint_interval", "0 steps", "must be greater than 0"),
    ],
)
def test_refusals(name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        fleetcube.evaluate("goodput", **JOB, **{name: text})
    assert "\n" not in str(refused.value)


def test_a_cost_names_the_prices_that_it_is_without() -> None:
    job = {**JOB, "gpu_hour_price": 2.0, "kept_checkpoints": 3}
    owned = {"pricing": "owned", "node_price": 3e5, "depreciation_time": "4 yr"}
    owned |= {"electricity_price": "0.1 USD/kWh"}
    for more, named in (
        ({}, ()),
        ({"storage_rent": "20 USD/TB/month"}, ("storage_rent",)),
        ({"storage_price": "2M USD"}, ("storage_price",)),
        ({"storage_price": "2M USD", **owned}, ()),
    ):
        found = fleetcube.evaluate(["job_cost"], **{**job, **more})
        lines = found.attrs.get("fleetcube_remarks", "").splitlines()
        assert [each.split(":")[0] for each in lines if "job_cost" in each] == [*named]
    priced = fleetcube.evaluate(["goodput"], **JOB, storage_rent="20 USD/TB/month")
    assert "storage_rent" not in priced.attrs.get("fleetcube_remarks", "")


def test_steps_are_times_of_steps() -> None:
    tiers = {"memory_tier_survival": 0.9, "drive_tier_survival": 0.95}
    names = ["checkpoint_interval", "drive_write_interval", "storage_write_interval"]
    steps = {"checkpoint_interval": 10, "drive_tier_interval": 60, "storage_tier_interval": 500}
    stated = {name: f"{number} steps" for name, number in steps.items()}
    answer = fleetcube.evaluate(["step_time", "goodput", *names], **JOB, **tiers, **stated)
    times = {name: number * float(answer.step_time) for name, number in steps.items()}
    assert [float(answer[name]) for name in names] == pytest.approx([*times.values()], 1e-12)
    timed = fleetcube.evaluate("goodput", **JOB, **tiers, **times)
    assert float(timed) == pytest.approx(float(answer.goodput), 1e-12)


def test_tiers_in_order() -> None:
    tiers = {"memory_tier_survival": 0.9, "checkpoint_interval": "10 min"}
    tiers |= {"tensor_parallel": 8, "pipeline_parallel": 2, "global_batch_size": 2048}
    for interval, reason in (("1 h", 0), ("10 min", 0), ("5 min", 33)):
        asked = {**JOB, **tiers, "storage_tier_interval": interval}
        assert fleetcube.evaluate("infeasible_reason", **asked) == reason
    with pytest.raises(InputError, match="give storage_tier_interval"):
        fleetcube.evaluate("goodput", **JOB, drive_tier_survival=0.9, drive_tier_interval="1 h")


def test_commands(tmp_path: Any) -> None:
    spec = tmp_path / "job.toml"
    spec.write_text('outputs = ["goodput"]\n[scenario]\nmodel = "llama-3-70b"\nnode = "dgx-h100"\n')
    chosen = ["n_gpus=2048", "node_mttf=1 of 1,024 nodes a day", "repair_time=median 6 h, p95 3 d"]
    chosen += ["spare_nodes=4", "memory_tier_survival=0.9", "storage_tier_interval=500 steps"]
    ran = CliRunner().invoke(cli, ["run", str(spec), *chosen, "elastic=shrink"])
    assert ran.exit_code == 0, ran.output
    assert "elastic_capacity" in ran.stdout
    assert "24,576 h" in ran.stderr
    assert "18.78 h on average" in " ".join(ran.stderr.split())


@pytest.mark.slow
def test_closed_forms_of_drawn_policies_are_what_is_played() -> None:
    rng = generator(64)
    policies = [scenario(drawn(rng)) for _ in range(24)]
    for each in policies:  # memory and storage alone: drives serve nothing, and are not written
        if "drive_tier_interval" not in each:
            each |= {"drive_tier_survival": 0.0, "drive_tier_stall_time": 0.0}
            each |= {"drive_tier_interval": each["storage_tier_interval"]}
    varied = {name for name in policies[0] if len({each[name] for each in policies}) > 1}
    shared = {name: value for name, value in policies[0].items() if name not in varied}
    axes = {"policy": {name: [each[name] for each in policies] for name in sorted(varied)}}
    played = simulate_spec(shared, axes, trials=60)
    closed = fleetcube.Sweep(shared, axes, ["goodput"]).evaluate(settings=ALL).goodput
    off = np.abs(played.goodput.values - closed.values)
    assert (off < 5 * played.goodput_error.values + 0.003).all(), (off, played.goodput_error)


@pytest.mark.slow
def test_a_batch_in_tokens_keeps_its_tokens_where_sequences_grow() -> None:
    """2^22 tokens are 1,024 sequences of 4,096 and 512 of 8,192, by division."""
    outputs, lengths = ["tokens_per_step", "step_time"], [4096, 8192]
    found = fleetcube.Sweep(
        {**JOB, "global_batch_size": "4,194,304 tokens"}, {"sequence_length": lengths}, outputs
    ).evaluate()
    assert found["tokens_per_step"].values.tolist() == [4194304.0] * 2
    for k, sequences in enumerate((1024, 512)):
        job = {**JOB, "global_batch_size": sequences, "sequence_length": lengths[k]}
        alone = fleetcube.evaluate("step_time", **job)
        assert float(found["step_time"][k]) == pytest.approx(float(alone), rel=1e-12)
    remark = "global_batch_size '4,194,304 tokens': 1,024 sequences of 4,096 to 512 sequences of"
    assert remark in found.attrs["fleetcube_remarks"]
    plain = fleetcube.Sweep(JOB, {"sequence_length": lengths}, outputs).evaluate()
    assert "the sequences of global_batch_size are kept along" in plain.attrs["fleetcube_remarks"]
    # of a model's own length, of an axis of models, and of the batch along an axis
    tokens = {**JOB, "global_batch_size": "4194304 tokens"}
    models = {"model": ["gpt-3-175b", "llama-3-70b"]}  # of 2,048 and 8,192
    by_model = fleetcube.Sweep(tokens, models, ["num_microbatches"]).evaluate()
    assert by_model["global_batch_size"].values.tolist() == [2048.0, 512.0]
    swept = fleetcube.Sweep(tokens, {"global_batch_size": [64]}, ["tokens_per_step"]).evaluate()
    assert swept["tokens_per_step"].item() == 64 * 8192
    refusal = 'is 488.281 sequences of 8,192, .* "4,194,304 tokens", which is 512'
    with pytest.raises(InputError, match=refusal):
        fleetcube.evaluate("step_time", **{**JOB, "global_batch_size": "4M tokens"})
    sought = fleetcube.Sweep(tokens, {}, ["step_time"])
    with pytest.raises(InputError, match="needs a sequence_length, which is sought"):
        sought.solve(unknown="sequence_length", target="step_time = 60 s")


def test_phases_of_other_lengths_keep_the_tokens_of_a_batch() -> None:
    job = {**JOB, "global_batch_size": "4194304 tokens"}
    phases = [{"name": "main", "training_tokens": 1e12, "sequence_length": 4096}]
    phases += [{"name": "long", "training_tokens": 1e10, "sequence_length": 8192}]
    found = fleetcube.Sweep(
        {**job, "phase": phases}, {"phase": ["main", "long"]}, ["tokens_per_step"]
    ).evaluate()
    assert found["tokens_per_step"].values.tolist() == [4194304.0] * 2


def test_spread_of_repairs_moves_no_mean() -> None:
    job = {"cluster_mtbf": "4 h", "checkpoint_interval": "20 min", "checkpoint_stall_time": 20}
    job |= {"nodes": 32, "node_failure_rate": 1 / 14400, "checkpoint_restore_time": 60}
    job |= {"spare_nodes": 3, "repair_time": "10 h", "node_pool": ["open", "closed"]}
    alike = fleetcube.simulate(trials=150, **job, repair_spread=0.0)
    spread = fleetcube.simulate(trials=150, **job, repair_spread=1.2)
    for name in ("goodput", "whole_cluster_probability", "spare_shortage"):
        error = np.hypot(alike[f"{name}_error"], spread[f"{name}_error"]).values
        assert (np.abs(alike[name] - spread[name]).values < 5 * error + 0.003).all(), name
    with pytest.raises(InputError, match="repair_spread cannot be simulated"):
        fleetcube.simulate(trials=5, **JOB, elastic="shrink", repair_spread=1.0, spare_nodes=3)


def queue(nodes: int, spares: int, crews: int, load: float, spread: float, is_safe: bool) -> float:
    """Share of the time in which at most the spares are in repair: each failure takes the crew that
    is free first; lives of n nodes last 1 on average, or of all n + S while waiting ones fail."""
    rng = generator(50)
    returns, free, clock, whole = list[float](), [0.0] * crews, 0.0, 0.0
    while clock < 100_000 / nodes:
        away = len(returns)
        failing = nodes * (away <= spares) if is_safe else nodes + spares - away
        fails = clock + rng.exponential(1 / failing) if failing else math.inf
        now = min(fails, returns[0] if returns else math.inf)
        whole += (now - clock) * (away <= spares)
        clock = now
        if now < fails:
            heapq.heappop(returns)
            continue
        begun = max(now, heapq.heappop(free))
        time = load / nodes * math.exp(spread * rng.standard_normal() - spread * spread / 2)
        for row in (returns, free):
            heapq.heappush(row, begun + time)
    return whole / clock


@pytest.mark.parametrize(
    ("spares", "crews", "spread", "pool"),
    [(2, 1, 1.5, "closed"), (2, 1, 1.5, "closed_idle_safe"), (8, 4, 0.5, "closed")],
)
def test_crews_play_log_normal_repairs(spares: int, crews: int, spread: float, pool: str) -> None:
    job: dict[str, Any] = {"cluster_mtbf": "4 h", "checkpoint_interval": 60.0, "nodes": 32}
    job |= {"node_failure_rate": 1 / 14400, "node_pool": pool, "spare_nodes": spares}
    job |= {"repair_crews": crews, "repair_time": 0.7 * crews * 14400, "repair_spread": spread}
    none = ("detection_time", "drain_time", "reinit_time", "checkpoint_stall_time")
    job |= dict.fromkeys((*none, "checkpoint_restore_time"), 0.01)
    played = fleetcube.simulate(trials=40, **job)
    right = queue(32, spares, crews, 0.7 * crews, spread, pool != "closed")
    error = 5 * float(played.whole_cluster_probability_error) + 0.012
    assert float(played.whole_cluster_probability) == pytest.approx(right, abs=error)
    assert error < 0.04
    exponential = float(fleetcube.evaluate("whole_cluster_probability", **job))
    assert abs(exponential - right) > 0.035, "another tail has other waits"


def test_editors_take_the_texts() -> None:
    counts = ("1 of 1,024 nodes a day", "419 in 54 days on 16,384 GPUs")
    for text in (*counts, "500 steps", "median 6 h, p95 3 d"):
        assert re.search(_text("s"), text)
    assert not any(re.search(_text("B"), text) for text in counts)
    assert not re.search(_text("s"), "soon")


def phased(first: dict[str, Any], second: dict[str, Any], **shared: Any) -> fleetcube.Sweep:
    """A job in two phases of 10 s and 20 s a step, with a tier in memory and one in storage."""
    job = {**JOB, "fabric": "infiniband-ndr", "memory_tier_survival": 0.9, "step_time": 10.0}
    job |= {"checkpoint_interval": 60.0, "cluster_mtbf": DAY, **shared}
    names = ("first", "second")
    phases = [
        {"name": name, "training_tokens": 1e12, **entries}
        for name, entries in zip(names, (first, second), strict=True)
    ]
    outputs = ["storage_write_interval", "goodput"]
    return fleetcube.Sweep({**job, "phase": phases}, {"phase": ["first", "second"]}, outputs)


def test_phases_take_steps_each() -> None:
    steps = ({"storage_tier_interval": "360 steps"}, {"storage_tier_interval": "180 steps"})
    found = phased(*steps).evaluate(settings=ALL)
    assert found.storage_write_interval.values.tolist() == [3600.0, 1800.0]


def test_phases_state_intervals_in_one_way() -> None:
    """A time in one phase took the steps of the scenario, or of the other phase, away unseen."""
    with pytest.raises(InputError, match="in one way in each"):
        phased({}, {"storage_tier_interval": "1 h"}, storage_tier_interval="360 steps")
    with pytest.raises(InputError, match="in one way in each"):
        phased({"storage_tier_interval": "90 steps"}, {"storage_tier_interval": "1 h"})


def test_counts_are_listed_in_the_shell_with_their_thousands() -> None:
    ran = CliRunner(catch_exceptions=False)
    words = ["run", "example:h100", "-v", "cluster_mtbf", "n_gpus=4096", "--no-interval"]
    texts = "1 of 2,560 nodes a day,1 of 256 nodes a day,50_000 h"
    found = ran.invoke(cli, [*words, f"node_mttf={texts}"])
    rows = [line.split()[1] for line in found.output.splitlines()[1:4]]
    assert rows == ["61,440", "6,144", "50,000"]
    wrong = {
        "node_mttf=1 in 256 nodes a day": "is no count of failures",
        "checkpoint_interval=10 steps,20 steps": "write checkpoint_steps=10,20 checkpoint_policy",
    }
    for text, rule in wrong.items():
        with pytest.raises(InputError, match=rule):
            ran.invoke(cli, [*words, text])


def test_several_counts_are_parted_by_their_commas() -> None:
    """On the command line they ended in the engine's error."""
    assert policies.is_spelled("interruption_mttf", "419 in 54 days on 16,384 GPUs")
    assert not policies.is_spelled("node_mttf", "1 of 256 nodes a day,2 of 256 nodes a day")


CONTRACT: dict[str, Any] = {"model": "llama-3-70b", "node": "dgx-h100", "contract_nodes": 512}
CONTRACT |= {"pricing": "take_or_pay", "contract_time": "120 d", "gpu_hour_price": "2.5 USD/h"}


def test_a_job_larger_than_its_contract_cannot_run() -> None:
    """512 nodes of 8 GPUs are 4,096; four times as many say how many can. Others may be rented."""
    cluster = {"tensor_parallel": 8, "global_batch_size": 2048, "sequence_parallel": True}
    job = {**CONTRACT, **cluster, "zero_stage": 3}
    sweep = fleetcube.Sweep(job, {"n_gpus": [4096, 8192, 16384]}, ["job_cost"])
    assert int(sweep.best("job_cost", over="n_gpus").n_gpus) == 4096
    flags = sweep.with_outputs(["infeasible_reason"]).evaluate()
    assert flags.infeasible_reason.values.tolist() == [0, 40, 40]
    others = {**job, "contract_limits": False, "n_gpus": 8192}
    assert fleetcube.evaluate("infeasible_reason", **others).item() == 0
    line = nearest({**job, "n_gpus": 16384}, "job_time", LAYOUT)
    assert line.startswith("16,384 GPUs: more than the contract has; 4,096 GPUs can")


@pytest.mark.parametrize(
    ("output", "delivery", "days"),
    [("job_cost", {}, 124), ("completion_time", {"delivery_time": "32 d"}, 132)],
)
def test_a_job_that_outlasts_its_contract_is_named(
    output: str, delivery: dict[str, str], days: int
) -> None:
    """A job of 124 d; a quarter of the nodes is there after a quarter of the deliveries, 8 d."""
    job = {**CONTRACT, "job_time": "124 d", "n_gpus": 1024, **delivery}
    lines = []
    for term in (days, days - 1):
        sweep = fleetcube.Sweep({**job, "contract_time": f"{term} d"}, {}, [output])
        lines.append(sweep.evaluate().attrs.get("fleetcube_remarks", ""))
    assert "contract_time" not in lines[0]
    assert "ends up to 1 d after the contract of its first nodes" in lines[1]


@pytest.mark.parametrize(("count", "off"), [(1, 0.25), (3, 0.01), (40, 1e-3), (419, 1e-4)])
def test_a_count_of_failures_has_the_interval_of_its_mean(count: int, off: float) -> None:
    """Garwood's: quantiles of chi-squared."""
    exact = chi2.ppf(0.05, 2 * count) / 2, chi2.ppf(0.95, 2 * count + 2) / 2
    assert policies.poisson_means(count) == pytest.approx(exact, rel=off)
    line = policies.conversions({"node_mttf": f"{count} failures in 54 days on 2,048 nodes"})
    hours = [
        float(n.replace(",", "")) for n in re.findall(r"([\d,.]+) to ([\d,.]+) h", str(line))[0]
    ]
    time = 2048 * 54 * 24
    assert hours == pytest.approx([time / end for end in reversed(exact)], rel=2 * off)
    assert f'events = {count}, hours = "2.65421e+06 h"' in str(line)
    assert "90 %" not in str(policies.conversions({"node_mttf": "1 of 256 nodes a day"}))
