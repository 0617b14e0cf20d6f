"""The pooled fit recovers planted effects, stays below data sheets, and shrinks small groups."""

from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from docs.make import pooled as made
from docs.make.hierarchy import COEFFICIENTS, JOB, Pooled, Posterior, Steps, at
from docs.make.text import DOCS
from fleetcube.calibration.row import Row
from fleetcube.catalog.pooled import STEP

from ..draws import generator

NAMES = ("layers", "hidden_size", "attention_heads")
SHAPES = [(24, 2048, 16), (32, 4096, 32), (40, 5120, 40), (48, 8192, 64)]
GPUS = {"a100-sxm-80gb": 312e12, "h100-sxm": 989e12}


def rows() -> list[Row]:
    """Dense models of four sizes and three sequences, by two programs on two GPUs."""
    found: list[Row] = []
    runs = ((2048, 1), (2048, 8), (16384, 1))
    for software, gpu, shape, (sequence, batch) in product(("one", "other"), GPUS, SHAPES, runs):
        inputs: dict[str, Any] = dict(zip(NAMES, shape, strict=True))
        inputs |= {"sequence_length": sequence, "gpu": gpu, "fabric": "infiniband-ndr"}
        inputs |= {"precision": "bf16", "attention_kernel": "flash", "n_gpus": 64, "zero_stage": 1}
        inputs |= {"tensor_parallel": 8 if shape[1] > 4096 else 2}
        inputs |= {"micro_batch_size": batch, "global_batch_size": 64 * batch}
        found.append(Row(f"{len(found)}", software, "", inputs, "step_time", 1.0))
    return found


def pooled_of(measured: list[Row]) -> Pooled:
    coefficients = [replace(c, levels=("software",)) for c in COEFFICIENTS if c.name in FITTED]
    peaks = np.log([GPUS[row.inputs["gpu"]] / 989e12 for row in measured])
    one = np.ones(len(measured))
    sheets = np.array([300e9 if "a100" in row.inputs["gpu"] else 450e9 for row in measured])
    facts = {"gemm": 0.9 * one, "attention": 0.7 * one, "node_link": sheets}
    facts |= {"rate": peaks, "power": -peaks}
    groups = {"software": [row.group for row in measured]}
    return Pooled(Steps(measured, facts, coefficients), groups, [row.group for row in measured])


FITTED = (
    *("gemm_efficiency", "gemm_half_depth", "flash_attention_efficiency", "memory_efficiency"),
    *("layer_overhead_time", "intra_node_efficiency"),
)


@cache
def planted() -> tuple[Pooled, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A model of rows generated from known coefficients with 1 % of noise, and those."""
    empty = pooled_of(rows())
    truth = empty.expected.copy()
    for k, effect in enumerate(empty.effects):
        if effect.level == "software" and effect.coefficient != "intra_node_efficiency":
            truth[k] = 0.4 if effect.group == "one" else -0.4
    x = empty.values(truth)
    noise = 0.01 * generator(18).standard_normal(len(rows()))
    times = np.exp(empty.steps.errors(x) + noise)  # the rows' measured time is 1 s
    full = pooled_of([replace(r, measured=float(t)) for r, t in zip(rows(), times, strict=True)])
    return full, truth, x


def posterior(train: np.ndarray[Any, Any]) -> Posterior:
    return planted()[0].fit(train)


def test_coefficients_of_synthetic_rows_are_recovered() -> None:
    full, _, truth = planted()
    found = posterior(np.ones(len(rows()), dtype=bool))
    assert np.abs(full.predict(found).errors).max() < 0.04
    x = full.values(found.means)
    for k, coefficient in enumerate(full.steps.coefficients):
        members = np.array([[e.coefficient == coefficient.name for e in full.effects]])
        own = np.where(members, full.members.T, 0.0)  # [row, effect]
        deviation = np.sqrt(np.einsum("re,ef,rf->r", own, found.covariance, own))
        assert (np.abs(x[k] - truth[k]) < 4 * deviation).all(), coefficient.name
    assert np.abs(x[0] - truth[0]).max() < 0.35  # the share of products is known well


def test_no_coefficient_is_above_its_data_sheet() -> None:
    full, _, x = planted()
    names = [c.input for c in full.steps.coefficients]
    for far in (-60.0, 60.0):
        point, slopes = full.steps.point(np.full_like(x, far))
        assert np.isfinite(point).all()
        assert np.isfinite(slopes).all()
        assert (point[names.index("gemm_efficiency")] <= 0.9).all()
        assert (point[names.index("attention_efficiency")] <= 0.7).all()
        assert (point[names.index("memory_efficiency")] <= 1.0).all()
        assert (point[names.index("intra_node_bandwidth")] <= full.steps.facts["node_link"]).all()
    facts = made.facts(made.rows()[0])
    assert (facts["gemm"] < 1).all()
    assert (facts["attention"] < 1).all()


def test_a_row_by_its_groups_is_the_row_of_the_fit() -> None:
    full = planted()[0]
    found = posterior(np.array([row.group == "one" for row in rows()]))
    trends = {name: full.steps.facts[name][0] for name in ("rate", "power")}
    chosen = full.steps.coefficients
    means, covariance = at(found, {"software": "one"}, trends, chosen)
    assert np.allclose(means, full.values(found.means)[:, 0], atol=1e-12)
    new, wider = at(found, {"software": "third"}, trends, chosen)
    _, none = at(found, {"software": None}, trends, chosen)
    assert not np.allclose(new, means)
    spreads = [found.spreads[c.name, "software"] ** 2 for c in chosen]
    assert np.allclose(wider - none, np.diag(spreads))
    assert np.linalg.eigvalsh(covariance).min() > 0


def test_two_rows_move_little_and_a_new_group_is_uncertain() -> None:
    full = planted()[0]
    other = np.array([row.group == "other" for row in rows()])
    steps = {}
    for count in (0, 2, 24):
        train = ~other
        train[np.flatnonzero(other)[[2, 9][:count] if count < 24 else slice(None)]] = True
        found = posterior(train)
        predicted = full.predict(found)
        pairs = zip(found.effects, found.means, strict=True)
        moved = [abs(m) for e, m in pairs if (e.level, e.group) == ("software", "other")]
        steps[count] = (sum(moved), predicted.deviations[other].mean())
    assert steps[0][0] == 0
    assert steps[2][0] < 0.8 * steps[24][0]
    assert steps[0][1] > 1.1 * steps[2][1] > 1.1 * 1.2 * steps[24][1]


@pytest.mark.slow
def test_the_catalog_has_the_posterior_of_the_carried_rows() -> None:
    of, fitted = made.rows()
    model = made.model(of)
    found = made.in_catalog(model)
    assert np.linalg.eigvalsh(found.covariance).min() > 0
    errors = np.expm1(np.abs(model.steps.errors(model.values(found.means))))
    # without the factors of their jobs, of a spread of 0.074
    assert np.median(errors[fitted]) < 0.055
    assert errors[fitted].mean() < 0.085
    page = (DOCS / "accuracy.md").read_text(encoding="utf-8")
    assert f"| nothing, in sample | {fitted.sum()} |" in page, "run python -m docs.make.pooled"


def test_what_all_steps_of_a_job_share_is_told_from_noise() -> None:
    """Factors planted in six jobs of four steps: they are found, and with them their spread."""
    planted_in = generator(7).normal(0, 0.15, 6)
    jobs = [f"{k % 6}" for k in range(len(rows()))]
    noise = 0.01 * generator(8).standard_normal(len(rows()))
    fitted = [c for c in COEFFICIENTS if c.name in FITTED or c.name == STEP]
    chosen = [replace(c, levels=c.levels if c.name == STEP else ("software",)) for c in fitted]
    peaks = np.log([GPUS[row.inputs["gpu"]] / 989e12 for row in rows()])
    one = np.ones(len(rows()))
    facts = {"gemm": 0.9 * one, "attention": 0.7 * one, "rate": peaks, "power": -peaks}
    facts["node_link"] = np.where(peaks < -0.5, 300e9, 450e9)

    def model(measured: list[Row]) -> Pooled:
        groups = {"software": [row.group for row in rows()], JOB: jobs}
        return Pooled(Steps(measured, facts, chosen), groups, [row.group for row in rows()])

    empty = model(rows())
    own = planted_in[[int(job) for job in jobs]]
    times = np.exp(empty.steps.errors(empty.values(empty.expected)) + own + noise)
    made = [replace(r, measured=float(t)) for r, t in zip(rows(), times, strict=True)]
    full = model(made)
    found = full.fit(np.ones(len(jobs), dtype=bool))
    of_jobs = {
        e.group: m for e, m in zip(found.effects, found.means, strict=True) if e.level == JOB
    }
    middle = np.mean(planted_in)  # which coefficients take
    factors = np.array([of_jobs[f"{k}"] for k in range(6)])
    assert np.abs(factors - factors.mean() - (planted_in - middle)).max() < 0.04
    assert 0.06 < found.spreads[STEP, JOB] < 0.2
    assert max(found.noise.values()) < 0.04


def test_experts_are_inside_as_often_as_dense_layers_although_they_are_fewer() -> None:
    """Planted errors: those of experts three times as large as the deviations say."""
    random = generator(61)
    kinds = np.array(["dense"] * 900 + ["experts"] * 100 + ["hybrid"] * 10)
    sizes = np.where(kinds == "experts", 3.0, 1.0)
    one, rows = np.ones(len(kinds)), np.arange(len(kinds))
    errors = sizes * random.standard_normal(len(kinds)) / made.NORMAL
    found = made.Unseen(rows, rows % 10, errors, one, one, one)
    auto = found.as_auto(kinds)
    experts, dense = kinds == "experts", kinds == "dense"
    assert np.mean(np.abs(errors[experts]) <= 1.3) < 0.6  # 90 % of all rows widen less than that
    assert 0.85 < np.mean(auto.ratios[experts] <= 1) < 0.97
    assert (auto.deviations[~experts] < 1.3).all()  # ten hybrids widen nothing by themselves
    assert 0.9 < np.mean(auto.ratios[dense] <= 1) < 0.97
    splits = made.with_layers({"a GPU": found}, kinds)
    assert [*splits] == ["a GPU", "a GPU, experts"]
    assert splits["a GPU, experts"].factor == pytest.approx(3, rel=0.25)
