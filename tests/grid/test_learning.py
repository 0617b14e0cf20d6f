"""Batch and loss in sweeps: costs, notes and refusals."""

import re
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube import Sweep

from .common import cases, on_h100, refused

JOB = on_h100("llama-3-70b", calibration="none", mfu=0.4, tensor_parallel=8, pipeline_parallel=4)
JOB |= {"n_gpus": 1024, "gpu_hour_price": 2.5}
BATCHES = {"global_batch_size": [512, 1024, 65536]}
OF_RUN = ["job_time", "job_cost", "energy", "training_steps", "tokens_to_target"]


def test_a_run_takes_more_of_everything_with_a_larger_batch() -> None:
    stated = Sweep(JOB, BATCHES, OF_RUN).evaluate()
    swept = Sweep({**JOB, "critical_batch_tokens": 2e7}, BATCHES, OF_RUN).evaluate()
    more = 1 + np.array(BATCHES["global_batch_size"]) * 8192 / 2e7
    for name in OF_RUN:
        np.testing.assert_allclose(swept[name] / stated[name] / more, 1, 1e-12, err_msg=name)
    assert (stated["tokens_to_target"] == 15e12).all()


def test_without_an_end_to_useful_batches_nothing_is_added() -> None:
    stated = Sweep(JOB, BATCHES, OF_RUN).evaluate()
    endless = Sweep({**JOB, "critical_batch_tokens": np.inf}, BATCHES, OF_RUN).evaluate()
    for name in OF_RUN:
        np.testing.assert_array_equal(endless[name], stated[name])


def test_the_batch_that_tokens_were_stated_for_takes_these() -> None:
    given = {**JOB, "global_batch_size": 2048, "reference_batch_tokens": 2048 * 8192}
    found = fleetcube.evaluate("tokens_to_target", **given)
    assert float(found) == pytest.approx(15e12, rel=1e-15)


def test_the_largest_batch_is_no_longer_the_best() -> None:
    of = {"of": "job_time", "search": {"global_batch_size": [256, 65536]}}
    free = Sweep(JOB, {}, ["job_time"]).best(**of)
    counted = Sweep({**JOB, "batch_quality": "critical"}, {}, ["job_time"]).best(**of)
    assert free["global_batch_size"] == 65536
    assert 256 < counted["global_batch_size"] < 8192
    assert "quality is not counted" in free.attrs["fleetcube_uncounted"]
    assert "fleetcube_uncounted" not in counted.attrs


def test_levers_say_in_one_line_that_quality_is_not_counted() -> None:
    sweep = Sweep(JOB, {"n_gpus": [1024, 2048]}, ["job_time"])
    counted = sweep.replace(scenario={**JOB, "batch_quality": "critical"})
    for ask in (Sweep.rank_inputs, Sweep.dominant_inputs):
        line = ask(sweep, "job_time").attrs["fleetcube_uncounted"]
        assert line.startswith("global_batch_size: quality is not counted")
        assert "\n" not in line
        assert "fleetcube_uncounted" not in ask(sweep, "job_time", ["mfu"]).attrs
        assert "fleetcube_uncounted" not in ask(counted, "job_time").attrs


def test_the_batch_matters_less_where_quality_is_counted() -> None:
    sweep = Sweep({**JOB, "global_batch_size": 4096}, {}, ["job_time"])
    counted = sweep.replace(scenario={**sweep.spec["scenario"], "batch_quality": "critical"})
    both = (own.rank_inputs("job_time", ["global_batch_size"]) for own in (sweep, counted))
    falls, rises = (found["elasticity"].item() for found in both)
    assert falls < 0 < rises


@cases(
    "given, beyond",
    ({"parameters": 7e9, "training_tokens": 1e11}, []),
    ({"parameters": 7e10, "training_tokens": 1e11}, ["active_parameters"]),
    ({"parameters": 7e10, "training_tokens": 1e9}, ["active_parameters", "trained_tokens"]),
    ({"parameters": 7e9, "training_tokens": [1e11, 1.5e13]}, ["trained_tokens"]),
)
def test_beyond_the_runs_of_a_fit_is_a_remark(given: dict[str, Any], beyond: list[str]) -> None:
    lines = fleetcube.evaluate(["loss"], **given).attrs.get("fleetcube_remarks", "").splitlines()
    assert [line.split(" to ")[1].split()[0] for line in lines] == beyond
    assert all(line.startswith("loss_fit = besiroglu was fitted") for line in lines)


def test_each_law_of_the_critical_batch_has_its_own_runs() -> None:
    for law in ("bergsma", "zhang"):
        given = {"outputs": ["critical_batch_tokens"], "critical_batch_law": law}
        few, many = (fleetcube.evaluate(**given, training_tokens=n) for n in (1e10, 1e13))
        assert "fleetcube_remarks" not in few.attrs
        (line,) = many.attrs["fleetcube_remarks"].splitlines()
        assert line.startswith(f"critical_batch_law = {law} was fitted to trained_tokens")
    # A stated value depends on no fit
    given = {"training_tokens": 1e13, "critical_batch_tokens": 2e7, "global_batch_size": 4096}
    assert "fleetcube_remarks" not in fleetcube.evaluate(["tokens_to_target"], **given).attrs


def test_a_run_that_ends_within_its_ramp_is_infeasible() -> None:
    given = {**JOB, "critical_batch_tokens": 1e6, "ramp_tokens": 14.9e12, "batch_ramp": "step"}
    # Stated for large batches: the ramp's small ones learn as much from fewer tokens
    given |= {"reference_batch_tokens": 1e8, "ramp_start_batch_size": 64}
    found = fleetcube.evaluate(["tokens_to_target", "infeasible_reason"], **given)
    names = str(found.infeasible_reason.attrs["flag_meanings"]).split()
    assert found.tokens_to_target < given["ramp_tokens"]
    assert names[int(found.infeasible_reason)] == "stages_of_training_do_not_fit"


@cases(
    "given, said",
    ({"critical_batch_tokens": 0}, "critical_batch_tokens = 0 must be greater than 0"),
    ({"reference_batch_tokens": -1}, "reference_batch_tokens = -1"),
    ({"batch_quality": "critic"}, "batch_quality = 'critic'"),
    ({"critical_batch_law": "hoffmann"}, "critical_batch_law = 'hoffmann'"),
    ({"loss_fit": "kaplan"}, "is not one of besiroglu, hoffmann"),
    ({"lifetime_inference_tokens": "2 h"}, "lifetime_inference_tokens"),
)
def test_bad_values_are_one_line(given: dict[str, Any], said: str) -> None:
    refused(re.escape(said), fleetcube.evaluate, ["job_time", "loss"], **{**JOB, **given})
