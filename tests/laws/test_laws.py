"""Every law agrees with an independent derivation, simulation or publication."""

import re

import numpy as np
import pytest

from docs.make import laws
from docs.make.laws import CHECKS, PAGE, name_of, page
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import TEXTS

from ..table import each
from .check import Check
from .law import LAWS, OF_GRAPH, Function, Law, why_none

CHOICES = {str(choice) for row in INPUTS.values() for choice in row.choices}
REASONS = set(PHYSICS.quantities["infeasible_reason"].doc.flags.values())
KNOWN = {*INPUTS, *TEXTS, *CHOICES, *REASONS, *PHYSICS.quantities, *LAWS}


SAID = laws.said()
SLOW = {
    *("some_slow_and_all_jittering", "some_very_slow_and_all_jittering"),
    *("kinds_and_late_corruption", "slow_copies"),
    *("late_corruption_in_closed_pools", "microbatches_in_flight", "played"),
    *("what_jax_keeps", "drawn_jobs", "elastic_jobs", "states_allocated", "crews_and_pools"),
    *("drawn_servers", "clocks"),
}


def name(check: Check) -> str:
    return check.pairs.__qualname__


@pytest.mark.parametrize(
    "check",
    [pytest.param(check, marks=[pytest.mark.slow] * (name(check) in SLOW)) for check in CHECKS],
    ids=map(name, CHECKS),
)
def test_law_agrees_with_its_check(check: Check) -> None:
    names, now = ", ".join(check.laws), laws.difference(check)
    assert check.largest_difference <= check.tolerance, (
        f"{names}: {now} off, at most {check.tolerance:g} allowed; mend the formula, or the check"
    )
    stated = SAID.get(name_of(check))
    assert stated == now, (
        f"{names}, or what they need, gives other numbers: {now} off, docs/laws.md has {stated}; "
        "mend the formula, or if it is meant, run `python -m docs.make docs/laws.md`"
    )


@each("check", CHECKS, ids=name)
def test_a_check_names_laws_and_says_what_it_compares(check: Check) -> None:
    assert not set(check.laws) - set(LAWS)
    assert check.points
    assert not check.points.endswith(".")


@each("law", LAWS.values(), ids=LAWS)
def test_every_law_has_a_check(law: Law) -> None:
    checked = any(law.name in check.laws for check in CHECKS)
    assert checked or law.why_none, "write a check in tests/laws/, as check.py there says"


@each("law", [law for law in LAWS.values() if law.doc.range], ids=lambda law: law.name)
def test_a_range_names_what_exists(law: Law) -> None:
    named = set(re.findall(r"\b[a-z0-9]+_[a-z0-9_]+\b", law.doc.range))
    assert not named - KNOWN - set(law.doc.parameters)


def test_the_page_is_what_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    # reuse the differences computed by the checks above
    monkeypatch.setattr(laws, "difference", lambda check: SAID.get(name_of(check)))
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.make docs/laws.md`"


# What needs no check


def test_what_says_nothing_of_its_own_needs_no_check() -> None:
    reasons = {
        "job_cost": "passed on", "optimizer_offload_time_offload_false": "a constant",
        "tree_data_parallel_all_reduce_time": "is `tree_all_reduce_time`",
        "step_rate": "a definition", "lost_work_time": "a definition",
    }  # fmt: skip
    assert {name: LAWS[name].why_none for name in reasons} == reasons


@each("formula", OF_GRAPH, ids=lambda formula: formula.__name__)
def test_a_formula_that_is_a_law_is_registered(formula: Function) -> None:
    written = "" if hasattr(formula, "__law__") else why_none(formula)
    assert not written.startswith("is "), "write @same_as(law), and no body"


def test_what_says_more_is_a_law() -> None:
    for name in (
        "rented_gpu_cost",  # a product, but not by definition
        "plain_ffn_matrices",  # a constant that a source states
        "hierarchical_data_parallel_all_reduce_time",  # calls a law with more than its names
        "compute_inefficiency_overhead",  # by definition, but more than one product
        "capacity_reason",  # by definition, but a choice
    ):
        assert not LAWS[name].why_none, name


# The comparison


def compared(*pairs: tuple[object, object]) -> float:
    return Check((), "table", "", 0.0, lambda: pairs).largest_difference


def test_differences_are_relative_to_theirs() -> None:
    assert compared((1.5, 1.0), (2.0, 2.0)) == 0.5
    assert compared((0.25, 0.0)) == 0.25
    assert compared((np.array([1.0, 3.0]), 2.0)) == 0.5


def test_infinite_and_undefined_values_must_be_the_same() -> None:
    assert compared((np.inf, np.inf), (np.nan, np.nan)) == 0
    assert compared((np.nan, 1.0)) == compared((1.0, np.inf)) == np.inf
