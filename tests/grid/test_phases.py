"""A job in phases: each judged as a job of its own, and the whole by adding up."""

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import fleetcube
from fleetcube import InputError, Settings, Sweep
from fleetcube.analysis.gradient import uncounted
from fleetcube.grid.plan.labels import remarks
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.roles import FIRST, LARGEST, LEAST, MEANS, OF_WHOLES, SUMS
from fleetcube.scenario.phases import single_phase

from .common import on_h100, refused

JOB = on_h100(
    "llama-3-405b", calibration="none", n_gpus=8192, tensor_parallel=8, pipeline_parallel=16
)
JOB |= {"sequence_parallel": True}
PHASES: list[dict[str, Any]] = [
    {"name": "ramp", "training_tokens": "2.87T", "global_batch_size": 1024},
    dict(name="main", training_tokens="11.9T", global_batch_size=2048, pipeline_schedule="zb_h1"),
    {
        **{"name": "long", "training_tokens": "800B", "sequence_length": 131072},
        **{"global_batch_size": 128, "context_parallel": 16, "n_gpus": 16384},
        "fabric": "infiniband-xdr",
    },
]
AXES = {"gpu_mttf": ["5_000 h", "50_000 h"], "all_reduce": ["ring", "tree"]}
OUTPUTS = sorted((SUMS | MEANS.keys() | LARGEST | LEAST | OF_WHOLES) - {"job_duration"})
CONTRACT = {"contract_nodes": 2048, "contract_time": "90 d", "delivery_time": "30 d"}
PRICES = {
    "gpu_hour_price": 2.0,
    **CONTRACT,
    "kept_checkpoints": 3,
    "storage_rent": 7.6e-18,
    "electricity_price": "$0.1/kWh",
    "grid_carbon_intensity": 1e-7,
}


ENGINES = pytest.mark.parametrize(
    "engine",
    ["numpy", *(pytest.param(name, marks=pytest.mark.slow) for name in ("numba", "jax"))],
)


def alone(outputs: list[str], axes: Any = AXES, **more: Any) -> list[xarray.Dataset]:
    """Each phase as a job of its own."""
    owns = [{**JOB, **more, **{k: v for k, v in own.items() if k != "name"}} for own in PHASES]
    return [Sweep(own, axes, outputs).evaluate(settings=Settings("numpy")) for own in owns]


@ENGINES
def test_the_whole_is_what_jobs_of_their_own_add_up_to(engine: str) -> None:
    """Times, tokens and money are sums; shares are what is lost in all over the time of all."""
    outputs = ["job_time", "job_cost", "energy", "goodput", "mfu", "checkpoint_overhead"]
    outputs += ["memory_per_gpu", "training_tokens", "cost_per_million_tokens", "availability"]
    extra = {"gpu_hour_price": 2.0}
    whole = Sweep({**JOB, **extra}, AXES, outputs, phases=PHASES).evaluate(
        settings=Settings(engine)
    )
    parts = alone([*outputs, "step_time", "training_steps"], **extra)

    def total(f: Any) -> Any:
        return sum((f(p) for p in parts), start=xarray.DataArray(0.0))

    up = total(lambda p: p.job_time * p.availability)
    flops = total(lambda p: p.mfu * p.training_steps * p.step_time * gpus(p))
    time = total(lambda p: p.training_steps * p.step_time * gpus(p))
    want = {**{n: total(lambda p, n=n: p[n]) for n in outputs[:3]}}
    want |= {"training_tokens": xarray.DataArray(2.87e12 + 11.9e12 + 0.8e12)}
    want |= {"goodput": total(lambda p: p.training_steps * p.step_time) / up, "mfu": flops / time}
    want |= {"checkpoint_overhead": total(lambda p: p.checkpoint_overhead * p.job_time) / up}
    want |= {"memory_per_gpu": xarray.concat([p.memory_per_gpu for p in parts], "k").max("k")}
    want |= {"cost_per_million_tokens": total(lambda p: p.job_cost) / (15.57e12 / 1e6)}
    want |= {"availability": up / total(lambda p: p.job_time)}
    for name, value in want.items():
        one, other = xarray.broadcast(whole[name], value)
        np.testing.assert_allclose(one.values, other.values, rtol=1e-12, err_msg=name)


def gpus(cube: xarray.Dataset) -> float:
    """GPUs of a phase, known by its tokens: the last has twice as many."""
    return 16384.0 if float(cube.training_tokens.max()) == 0.8e12 else 8192.0


def test_every_quantity_of_a_whole_is_one_and_has_one_rule() -> None:
    rules = [SUMS, MEANS.keys(), LARGEST, LEAST, FIRST, OF_WHOLES]
    named = [name for rule in rules for name in rule]
    assert len({*named}) == len(named)
    assert {*named, *(w for row in MEANS.values() for w in row)} - {
        "n_gpus"
    } <= PHYSICS.quantities.keys()


def test_one_phase_that_changes_nothing_is_the_job() -> None:
    job = {**JOB, **PRICES, "global_batch_size": 1024}
    outputs = [n for n in OUTPUTS if n not in ("dominant_overhead",)]
    plain = Sweep({**job, "training_tokens": "5T"}, AXES, outputs).evaluate(
        settings=Settings("numpy")
    )
    whole = Sweep(job, AXES, outputs, phases=[{"training_tokens": "5T"}]).evaluate(
        settings=Settings("numpy")
    )
    for name in outputs:
        one, other = xarray.broadcast(whole[name], plain[name])
        np.testing.assert_allclose(one.values, other.values, rtol=1e-12, err_msg=name)


def test_a_contract_of_a_job_in_phases_is_paid_for_once() -> None:
    """It starts once all nodes of its largest phase are there."""
    job = {**JOB, **CONTRACT, "gpu_hour_price": 2.0, "pricing": "take_or_pay"}
    outputs = ["job_time", "gpu_cost", "job_cost", "completion_time", "cost_per_million_tokens"]
    for days in (90, 1):
        sweep = Sweep({**job, "contract_time": f"{days} d"}, {}, outputs, phases=PHASES)
        whole = sweep.evaluate(settings=Settings("numpy"))
        price = max(2048 * 8 * days * 24 * 2.0, float(whole.gpu_cost))
        assert float(whole.job_cost) == pytest.approx(price, rel=1e-12)
        million = price / (15.57e12 / 1e6)
        assert float(whole.cost_per_million_tokens) == pytest.approx(million, rel=1e-12)
        done = 30 * 86400 + float(whole.job_time)
        assert float(whole.completion_time) == pytest.approx(done, rel=1e-12)


def test_phases_are_a_dimension_where_it_is_asked_for() -> None:
    names = [own["name"] for own in PHASES]
    sweep = Sweep({**JOB, "phase": PHASES}, {**AXES, "phase": names}, ["job_time", "step_time"])
    each = sweep.evaluate(settings=Settings("numpy"))
    for k, own in enumerate(alone(["job_time", "step_time"])):
        for name in ("job_time", "step_time"):
            one, other = xarray.broadcast(each[name].isel(phase=k, drop=True), own[name])
            np.testing.assert_allclose(one.values, other.values, rtol=1e-13)
    assert each["phase"].values.tolist() == names
    two = Sweep({**JOB, "phase": PHASES}, {"phase": ["long", "main"]}, ["job_time"]).evaluate()
    assert two["phase"].values.tolist() == ["long", "main"]


def test_derivatives_of_the_whole_are_those_of_finite_differences() -> None:
    def days(**changed: float) -> float:
        job = {**JOB, "gpu_mttf": 1.8e7, **changed}
        return float(
            Sweep(job, {}, ["job_time"], phases=PHASES)
            .evaluate(settings=Settings("numpy"))
            .job_time
        )

    sweep = Sweep({**JOB, "gpu_mttf": 1.8e7}, {}, ["job_time"], phases=PHASES)
    slope = float(sweep.derivatives("job_time", ["gpu_mttf"]).squeeze())
    step = 1.8e7 * 1e-4
    want = (days(gpu_mttf=1.8e7 + step) - days(gpu_mttf=1.8e7 - step)) / (2 * step)
    assert slope == pytest.approx(want, rel=1e-5)


def test_searches_stores_and_functions_know_the_whole(tmp_path: Path) -> None:
    sweep = Sweep(JOB, AXES, ["job_time", "goodput"], phases=PHASES)
    values = sweep.evaluate(settings=Settings("numpy"))
    stored = fleetcube.open_cube(sweep.to_zarr(tmp_path / "a.zarr"))
    np.testing.assert_array_equal(stored.job_time.values, values.job_time.values)
    np.testing.assert_allclose(sweep.virtual().job_time.values, values.job_time.values, rtol=1e-15)
    assert pickle.loads(pickle.dumps(sweep)) == sweep
    assert sweep != Sweep(JOB, AXES, ["job_time", "goodput"], phases=PHASES[:2])
    want = float(values.job_time.isel(gpu_mttf=0, all_reduce=0)) * 0.99
    found = Sweep({**JOB, "all_reduce": "ring"}, {}, ["job_time"], phases=PHASES).solve(
        "gpu_mttf", f"job_time = {want!r} s"
    )
    assert float(found.job_time) == pytest.approx(want, rel=1e-9)
    law = fleetcube.function("job_time", {**JOB, "phase": PHASES}, ["gpu_mttf"])
    again = Sweep({**JOB, "gpu_mttf": 1e8}, {}, ["job_time"], phases=PHASES).evaluate(
        settings=Settings("numpy")
    )
    assert float(law(gpu_mttf=1e8)) == pytest.approx(float(again.job_time), rel=1e-12)
    same = fleetcube.evaluate(["job_time"], **{**JOB, "gpu_mttf": 1e8}, phase=PHASES)
    assert float(same.job_time) == pytest.approx(float(again.job_time), rel=1e-12)


def test_a_phase_that_cannot_run_spoils_the_whole() -> None:
    bad = [*PHASES[:1], {**PHASES[1], "global_batch_size": 8}]
    whole = Sweep(JOB, {}, ["job_time"], phases=bad).evaluate()
    one = Sweep({**JOB, **{k: v for k, v in bad[1].items() if k != "name"}}, {}, ["job_time"])
    reason = int(one.evaluate().infeasible_reason)
    assert reason != 0
    assert int(whole.infeasible_reason) == reason


def with_gpus(number: float) -> float:
    """Time of the job where its last phase has so many GPUs."""
    sweep = Sweep(JOB, {}, ["job_time"], phases=[*PHASES[:2], {**PHASES[2], "n_gpus": number}])
    return float(sweep.evaluate(settings=Settings("numpy")).job_time)


@ENGINES
def test_an_input_of_one_phase_is_swept_and_overridden(engine: str) -> None:
    sizes = [8192.0, 16384.0, 32768.0]
    axes = {"n_gpus__long": sizes, "gpu_mttf__main": ["5_000 h", "50_000 h"]}
    job = {**JOB, "gpu_mttf": "50_000 h"}
    cube = Sweep(job, axes, ["job_time"], phases=PHASES).evaluate(settings=Settings(engine))
    for k, size in enumerate(sizes):
        for mttf in ("5_000 h", "50_000 h"):
            tables = [PHASES[0], {**PHASES[1], "gpu_mttf": mttf}, {**PHASES[2], "n_gpus": size}]
            want = (
                Sweep(job, {}, ["job_time"], phases=tables)
                .evaluate(settings=Settings("numpy"))
                .job_time
            )
            got = cube.job_time.isel(n_gpus__long=k, gpu_mttf__main=int(mttf[1] == "0"))
            assert float(got) == pytest.approx(float(want), rel=1e-12)
    assert cube.n_gpus__long.attrs["units"] == "1"
    stated = Sweep({**JOB, "n_gpus__long": 8192}, {}, ["job_time"], phases=PHASES)
    assert float(stated.evaluate(settings=Settings("numpy")).job_time) == with_gpus(8192)


def test_an_input_of_one_phase_has_derivatives_and_is_sought() -> None:
    sweep = Sweep(JOB, {}, ["job_time"], phases=PHASES)
    now = with_gpus(16384)
    slopes = sweep.derivatives("job_time", ["n_gpus__long", "training_tokens__main"])
    # 7 and 9 replicas do not divide the batch: the neighbours are half and twice as many
    want = (with_gpus(32768) - with_gpus(8192)) / (32768 - 8192)
    assert float(slopes[0]) == pytest.approx(want, rel=1e-9)
    more = [PHASES[0], {**PHASES[1], "training_tokens": 11.9e12 * 1.001}, PHASES[2]]
    longer = float(
        Sweep(JOB, {}, ["job_time"], phases=more).evaluate(settings=Settings("numpy")).job_time
    )
    assert float(slopes[1]) == pytest.approx((longer - now) / (11.9e12 * 0.001), rel=1e-9)
    listed = sweep.rank_inputs("job_time")
    assert {"n_gpus__long", "global_batch_size__ramp"} <= {*listed["input"].values.tolist()}
    found = sweep.solve(
        "n_gpus__long",
        f"job_time = {now * 1.01!r} s",
        between=[4096, 65536],
        settings=Settings(infeasible="mark"),
    )
    at = int(found.n_gpus__long)
    assert 8192 < at < 16384
    assert float(found.job_time) == pytest.approx(with_gpus(at), rel=1e-12)
    risky = Sweep(JOB | {"memory_headroom": False}, {}, ["job_time"], phases=PHASES)
    best = risky.best("job_time", search={"n_gpus__long": [8192, 16384]})
    assert float(best["n_gpus__long"]) == 16384
    law = fleetcube.function("job_time", {**JOB, "phase": PHASES}, ["n_gpus__long"])
    assert float(law(n_gpus__long=8192)) == pytest.approx(with_gpus(8192), rel=1e-12)


@ENGINES
def test_making_a_phase_ready_takes_time_money_and_nothing_else(engine: str) -> None:
    """The job is longer by the times stated; shares of the time in which it runs stay."""
    job = {**JOB, **PRICES, "maintenance_fraction": 0.1}
    outputs = ["job_time", "gpu_hours", "job_cost", "energy", "goodput", "rework_overhead"]
    outputs += ["transition_share", "availability", "mfu", "useful_compute_share"]
    counted = ["expected_failures", "failed_nodes", "checkpoints_written", "time_at_risk"]
    outputs += counted
    plain = Sweep(job, {}, outputs, phases=PHASES).evaluate(settings=Settings(engine))
    tables = [PHASES[0], *({**own, "transition_time": "2 h"} for own in PHASES[1:])]
    ready = Sweep(job, {}, outputs, phases=tables).evaluate(settings=Settings(engine))
    assert float(ready.job_time - plain.job_time) == pytest.approx(4 * 3600, rel=1e-6)
    hours = 2 * 8192 + 2 * 16384
    assert float(ready.gpu_hours - plain.gpu_hours) == pytest.approx(hours, rel=1e-6)
    assert float(ready.job_cost - plain.job_cost) == pytest.approx(2 * hours, rel=1e-6)
    for name in ["goodput", "rework_overhead", "mfu", "useful_compute_share", *counted]:
        assert float(ready[name]) == pytest.approx(float(plain[name]), rel=1e-12)
    assert float(ready.energy) > float(plain.energy)
    share = float(ready.transition_share)
    assert share == pytest.approx(4 * 3600 / float(ready.job_time), rel=1e-12)
    assert float(ready.availability) == pytest.approx(float(plain.availability) * (1 - share))
    assert float(plain.transition_share) == 0
    none = Sweep({**job, "transition_time": 0}, {}, outputs, phases=PHASES).evaluate(
        settings=Settings(engine)
    )
    assert float(none.job_time) == pytest.approx(float(plain.job_time), rel=1e-14)


ONE: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"n_gpus__lang": [8, 16]}, "did you mean 'n_gpus__long'"),
    ({}, {"n_gpus": [8192, 16384]}, "as n_gpus__ramp"),
    ({}, {"pipeline_schedule__main": ["1f1b", "zb_h1"]}, "takes one name"),
    ({}, {"phase": ["ramp", "long"], "n_gpus__long": [8192]}, "of a phase of a whole job"),
    ({"training_tokens": 15.57e12}, {"training_tokens__main": [1e12]}, "leave it out"),
]


@pytest.mark.parametrize(("more", "axes", "rule"), ONE)
def test_what_cannot_vary_is_refused(more: dict[str, Any], axes: dict[str, Any], rule: str) -> None:
    refused(re.escape(rule), Sweep, {**JOB, **more}, axes, ["job_time"], phases=PHASES)
    refused("there is none", Sweep, {"n_gpus__long": 8, **JOB}, {}, ["job_time"])
    with pytest.raises(InputError, match="no phase sets gpu_mttf__main"):
        Sweep(JOB, {}, ["job_time"], phases=PHASES).derivatives("job_time", ["gpu_mttf__main"])


TOKENS = {"training_tokens": "1T"}
BAD: list[tuple[Any, dict[str, Any], str]] = [
    ([], {}, "phase = [] is not a list of tables"),
    ("ramp", {}, "not a list of tables"),
    ([3], {}, "phase 1 = 3 is not a table"),
    ([{"name": "a"}], {}, "phase 'a' has no training_tokens"),
    ([{**TOKENS, "name": "a"}] * 2, {}, "two phases are called 'a'"),
    ([{**TOKENS, "tensor_paralel": 8}], {}, "tensor_paralel"),
    ([{**TOKENS, "name": "a,b"}], {}, "is not a printable text without commas"),
    ([{**TOKENS, "gpu_mttf": "3 h"}], {}, "set by the axes"),
    ([{**TOKENS, "n_gpus": {"lognormal": [8, 2]}}], {}, "distributions"),
    ([TOKENS, TOKENS], {"training_tokens": "3T"}, "add up to 2e+12"),
    ([TOKENS, TOKENS], {"job_duration": "3 d"}, "job_duration adds up over phases"),
    ([TOKENS, {**TOKENS, "reliability": "llama-3-405b-run"}], {}, "names no reliability"),
    ([{**TOKENS, "name": "all"}], {}, "phase = all selects every phase"),
    ([{**TOKENS, "name": "to 8K"}, {**TOKENS, "name": "to-8K"}], {}, "both 'to_8K'"),
    ([{**TOKENS, "name": "a"}], {"n_gpus__b": 8}, "n_gpus__b is of no phase"),
    ([{**TOKENS, "earlier_tokens": 1e9}], {}, "give those before the first in [scenario]"),
    ([{**TOKENS, "recompute": None}], {"recompute": "full"}, "None is no value; leave it out; off"),
    ([{**TOKENS, "gpu_mttf": None}], {}, "gpu_mttf = None is no value; leave it out"),
    ([TOKENS] * 65, {}, "65 phases are more than 64"),
]


@pytest.mark.parametrize(("phases", "more", "rule"), BAD)
def test_contradictory_phases_are_refused(phases: Any, more: dict[str, Any], rule: str) -> None:
    refused(re.escape(rule), Sweep, {**JOB, **more}, AXES, ["job_time"], phases=phases)


def test_what_has_no_whole_is_asked_of_a_phase() -> None:
    refused("step_time has a value in each phase", Sweep, JOB, {}, ["step_time"], phases=PHASES)
    sweep = Sweep(JOB, {}, ["job_time"], phases=PHASES)
    refused("phases set global_batch_size", sweep.derivatives, "job_time", ["global_batch_size"])
    refused("set by phases", sweep.solve, "global_batch_size", "job_time = 30 d")
    refused("none of this job", Sweep, {**JOB, "phase": PHASES}, {"phase": ["nap"]}, ["job_time"])
    refused("the scenario has none", Sweep, JOB, {"phase": ["ramp"]}, ["job_time"])


def test_what_is_said_of_formulas_is_said_in_phases() -> None:
    """Phases hide no formula: a fit that is left, and a batch whose quality is counted."""
    job = {**JOB, "batch_quality": "critical", "critical_batch_law": "zhang"}
    (there,) = remarks(Sweep(job, {"phase": ["main"]}, ["job_time"], phases=PHASES)._plan())
    assert "was fitted to" in there
    whole = Sweep(job, {}, ["job_time"], phases=PHASES)
    assert there in remarks(whole._plan())
    assert uncounted(whole._plan(), ["global_batch_size"]) == {}
    plain = Sweep(JOB, {}, ["job_time"], phases=PHASES)
    assert "quality is not counted" in str(uncounted(plain._plan(), ["global_batch_size"]))


SPLIT = {"a": 1e12, "b": 9e12, "c": 5e12}


@pytest.mark.parametrize("law", ["bergsma", "zhang", "kaplan"])
def test_laws_of_the_batch_see_the_tokens_of_phases_before(law: str) -> None:
    """A run cut into phases that are alike takes what it takes uncut, and learns as much."""
    job = {**JOB, "global_batch_size": 2048, "batch_quality": "critical", "critical_batch_law": law}
    outputs = ["tokens_to_target", "job_time", "loss", "overtraining", "trained_tokens"]
    outputs += ["compute_optimal_loss", "lifetime_flops", "tokens_before"]
    parts = [{"name": name, "training_tokens": d} for name, d in SPLIT.items()]
    earlier = {**job, "earlier_tokens": 2e12}
    uncut = Sweep({**earlier, "training_tokens": 15e12}, {}, outputs).evaluate(
        settings=Settings("numpy")
    )
    whole = Sweep(earlier, {}, outputs, phases=parts)
    found = whole.evaluate(settings=Settings("numpy"))
    for name in outputs:
        last = law == "kaplan" and name in ("tokens_to_target", "job_time", "lifetime_flops")
        assert float(found[name]) == pytest.approx(float(uncut[name]), rel=0.5 if last else 1e-12)
    each = Sweep(earlier, {"phase": ["c", "a"]}, outputs, phases=parts).evaluate(
        settings=Settings("numpy")
    )
    assert each["trained_tokens"].values.tolist() == [17e12, 3e12]
    own = Sweep(single_phase({**earlier, "phase": parts}, "c"), {}, outputs).evaluate(
        settings=Settings("numpy")
    )
    for name in outputs:
        assert float(own[name]) == float(each[name][0])
    one_by_one = Sweep(earlier, {"phase": [*SPLIT]}, ["job_time"], phases=parts)
    total = one_by_one.evaluate(settings=Settings("numpy"))["job_time"].sum()
    assert float(total) == pytest.approx(float(found["job_time"]), rel=1e-12)
    # tokens of the first phase matter to those after it
    slope = whole.derivatives("job_time", ["training_tokens__a"]).values.item()

    def total_of(d: float) -> float:
        changed = whole.replace(scenario={**whole.spec["scenario"], "training_tokens__a": d})
        return float(changed.evaluate(settings=Settings("numpy")).job_time)

    step = [total_of(d) for d in (1e12 - 1e9, 1e12 + 1e9)]
    assert slope == pytest.approx((step[1] - step[0]) / 2e9, rel=1e-4)


def test_phases_are_stated_once(tmp_path: Path) -> None:
    spec = tmp_path / "twice.toml"
    one = 'outputs = ["job_time"]\n[scenario]\n[[scenario.phase]]\ntraining_tokens = "1T"\n'
    spec.write_text(one + '[[phase]]\ntraining_tokens = "2T"\n')
    refused("give them once", Sweep.from_file, spec)
    refused("give them once", Sweep, {**JOB, "phase": PHASES}, {}, ["job_time"], phases=PHASES)


LIVED: dict[str, Any] = {"critical_batch_tokens": 50e6, "in_process_share": 0.3}
LIVED |= {"in_job_share": 0.3, "corruption_latency": "1 h", "silent_corruption_mttf": "1_000_000 h"}
LIVED |= {"memory_tier_survival": 0.8, "drive_tier_survival": 0.9, "slow_node_share": 0.001}
LIVED |= {"slow_node_slowdown": 0.1, "checkpoint_write_bandwidth": "1 TB/s", "fleet_age": 1e7}
LIVED |= {"wear_out_age": 1.6e8}


@ENGINES
def test_phases_batch_kinds_tiers_and_slow_nodes_at_once(engine: str) -> None:
    """Shares of the wall time add up to one, in each phase and in the whole job."""
    losses = ["compute_inefficiency_overhead", "communication_overhead", "bubble_overhead"]
    losses += ["straggler_overhead", "checkpoint_overhead", "rework_overhead", "recovery_overhead"]
    outputs = [*losses, "useful_compute_share", "job_time", "tokens_to_target"]
    whole = Sweep({**JOB, **LIVED}, {}, outputs, phases=PHASES).evaluate(settings=Settings(engine))
    assert sum(float(whole[name]) for name in outputs[:8]) == pytest.approx(1, rel=1e-12)
    assert int(whole.infeasible_reason) == 0
    parts = alone(outputs, {}, **LIVED)
    for part in parts:
        assert sum(float(part[name]) for name in outputs[:8]) == pytest.approx(1, rel=1e-12)
    for name in ("job_time", "tokens_to_target"):
        total = sum(float(part[name]) for part in parts)
        assert float(whole[name]) == pytest.approx(total, rel=1e-12)
    tokens = [2.87e12, 11.9e12, 0.8e12]
    batches = [1024 * 8192, 2048 * 8192, 128 * 131072]
    want = [d * (1 + b / 50e6) for d, b in zip(tokens, batches, strict=True)]
    assert float(whole.tokens_to_target) == pytest.approx(sum(want), rel=1e-9)


def test_an_input_of_one_phase_is_sought_around_its_values() -> None:
    phases = [{"name": "first", "training_tokens": 1e12}, {"name": "last", "training_tokens": 3e12}]
    job = {name: value for name, value in JOB.items() if name != "training_tokens"}
    sweep = Sweep(job, {}, ["job_time"], phases=phases)
    now = sweep.evaluate(settings=Settings("numpy"))["job_time"].item()
    found = sweep.solve(
        "training_tokens__first", f"job_time <= {1.5 * now!r} s", settings=Settings("numpy")
    )
    # Steady phases alike but for their tokens: half as long again is 2e12 tokens more
    np.testing.assert_allclose(found["training_tokens__first"].item(), 3e12, rtol=1e-6)


def test_levers_know_what_a_phase_alone_implies() -> None:
    job = JOB | dict(n_gpus=1024, tensor_parallel=8, pipeline_parallel=1, model="llama-3-8b")
    tables: list[dict[str, Any]] = [
        {"name": "a", "training_tokens": "100T", "global_batch_size": 512}
    ]
    tables += [{"name": "b", "training_tokens": "50T", "global_batch_size": 1024}]
    tables[1] |= {"transition_time": "100 d", "slow_node_share": 0.01, "slow_node_slowdown": 0.2}
    tables[1] |= {"repair_time": "4 h", "spare_nodes": 3, "node_pool": "closed", "repair_crews": 8}
    sweep = Sweep(job, {}, ["job_time"], phases=tables)
    listed = sweep.rank_inputs("job_time")
    np.testing.assert_allclose(
        listed.job_time, sweep.evaluate(settings=Settings("numpy")).job_time, 1e-12
    )
    ready = listed.isel(input=list(listed.input.values).index("transition_time__b"))
    day = 86400.0
    np.testing.assert_allclose(ready.job_time_above - ready.job_time, 10 * day, 1e-6)
    np.testing.assert_allclose(ready.job_time - ready.job_time_below, 10 * day, 1e-6)


def test_intervals_widen_with_the_sizes_tried_in_a_phase() -> None:
    job = {name: value for name, value in JOB.items() if name != "calibration"}
    beyond = 131072.0  # GPUs: published steps have 16,384 at most
    along = {"n_gpus__main": [8192, beyond]}
    swept = Sweep(job, along, ["job_time"], phases=PHASES).prediction_interval(
        settings=Settings("numpy")
    )
    tables = [{**own, **({"n_gpus": beyond} if own["name"] == "main" else {})} for own in PHASES]
    stated = Sweep(job, {}, ["job_time"], phases=tables).prediction_interval(
        settings=Settings("numpy")
    )
    np.testing.assert_allclose(swept.job_time_high[1], stated.job_time_high, 1e-9)
    plain = Sweep(job, {}, ["job_time"], phases=PHASES).prediction_interval(
        settings=Settings("numpy")
    )
    assert plain.job_time_low < plain.job_time < plain.job_time_high
    assert swept.job_time_high[0] > plain.job_time_high
    assert "n_gpus = 131,072 is outside" in swept.attrs["fleetcube_remarks"]


# Pipeline stages imply whole layers, and jitter a law of its own
@pytest.mark.parametrize("said", [{"pipeline_parallel": 8}, {"step_time_jitter": 0.5}])
@pytest.mark.parametrize("at", [0, 1])
def test_an_input_that_implies_an_option_may_be_of_one_phase_alone(said: Any, at: int) -> None:
    shared = on_h100(calibration="none", n_gpus=64)
    job = {**shared, "training_tokens": "1T"}
    tables: list[dict[str, Any]] = [{"name": name, "training_tokens": "1T"} for name in "ab"]
    tables[at] |= said
    whole = Sweep({**shared, "phase": tables}, {}, ["job_time"])
    parts = [Sweep({**job, **own}, {}, ["job_time"]) for own in ({}, said)]
    times = [own.evaluate(settings=Settings("numpy"))["job_time"].item() for own in parts]
    assert whole.evaluate(settings=Settings("numpy"))["job_time"].item() == sum(times)
    each = Sweep({**shared, "phase": tables}, {"phase": ["a", "b"]}, ["job_time"])
    assert sorted(each.evaluate(settings=Settings("numpy"))["job_time"].values) == sorted(times)


def test_a_cube_of_phases_is_known_by_any_process(tmp_path: Path) -> None:
    # names of laws and their code, no address of memory: else none is verified or resumed
    code = (
        "import sys, json, fleetcube.grid.plan.fingerprint as made; from fleetcube import Sweep\n"
        "job = Sweep(json.loads(sys.argv[1]), {}, ['energy'], phases=json.loads(sys.argv[2]))\n"
        "print(json.dumps(made.fingerprint(job._plan('numpy'), job.spec, 'float64', {})))"
    )
    called = [sys.executable, "-c", code, json.dumps(JOB), json.dumps(PHASES[:2])]
    first, second = (
        json.loads(subprocess.run(called, capture_output=True, check=True).stdout) for _ in "12"
    )
    assert first == second
