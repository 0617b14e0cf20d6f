"""Every claim of five documents is checked, and its verdict follows from the numbers."""

import math
import re

import numpy as np
import pytest

import fleetcube
from docs.make.claims import cluster, question, tutorial
from docs.make.claims.claim import MARGIN, Claim, Figure, Reading, Verdict, off_by
from docs.make.claims.conflicts import CONFLICTS, DOCUMENTS, Stand
from docs.make.claims.numbers import NUMBERS, Number, computed
from docs.make.claims.page import PAGE, page
from fleetcube import Settings
from fleetcube.kernels.declare import written
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from ..table import each

CLAIMS = {claim.number: claim for document in DOCUMENTS for claim in document.claims}
FIGURES = [
    pytest.param(figure, id=f"{claim.number} {figure.reading.name} {figure.label or figure.unit}")
    for claim in CLAIMS.values()
    for figure in claim.figures
]
STANDS = [
    pytest.param(stand, id=f"{conflict.title}: {stand.names}")
    for conflict in CONFLICTS
    for stand in conflict.stands
]


def test_every_claim_is_there() -> None:
    counts = (16, 33, 17, 24, 5)
    wanted = [f"{k}.{number + 1}" for k, count in enumerate(counts) for number in range(count)]
    assert list(CLAIMS) == wanted
    assert len(CLAIMS) == 95


@each("claim", CLAIMS.values(), ids=CLAIMS)
def test_the_verdict_follows_from_the_numbers(claim: Claim) -> None:
    assert claim.judged() is claim.verdict
    if claim.verdict is not Verdict.REPRODUCES:
        assert claim.why.endswith("."), "say why in a sentence"


@each("figure", FIGURES)
def test_our_value_is_the_right_one(figure: Figure) -> None:
    assert figure.is_right(), f"{figure.ours} is not {figure.expected}"


@each("figure", FIGURES)
def test_a_figure_holds_or_is_clearly_off(figure: Figure) -> None:
    if figure.reading in (Reading.CONVENTION, Reading.ORIGIN):
        assert figure.holds
    elif not figure.holds:
        assert figure.right
        assert figure.deviation > MARGIN


@each("figure", FIGURES)
def test_a_choice_named_in_a_label_exists(figure: Figure) -> None:
    named = re.fullmatch(r"([a-z]+(?:_[a-z]+)+)(?: = (\w+))?", figure.label)
    if named is not None:
        check_name(*named.groups())


def check_name(name: str, value: str | None) -> None:
    assert name in INPUTS or name in PHYSICS.quantities
    if value is not None and INPUTS[name].kind == "option":
        assert value in map(written, INPUTS[name].choices)


@pytest.mark.parametrize(
    ("printed", "ours", "agrees"),
    [
        ("67.0", 66.964, True),
        ("67.0", 66.94, False),
        ("31.2", 31.25, True),  # documents round a half either way
        ("11,718.8", 11718.75, True),
        ("4-6", 5.07, True),
        ("4-6", 6.1, False),
        ("~20", 19.64, True),
        ("~20", 19.5, False),
        (">1", 1.01, True),
        (">1", 1.0, True),
        (">1", 0.99, False),
        ("<1", 1.01, False),
        ("compute_bound", "compute_bound", True),
        ("feasible", "out_of_memory", False),
        ("1.10", "1.9", False),
    ],
)
def test_agreement_is_to_the_printed_digit(printed: str, ours: float | str, agrees: bool) -> None:
    assert (off_by(printed, ours) == 0) is agrees


def test_a_deviation_is_relative_to_the_right_value() -> None:
    assert off_by("1.5", 1.0) == pytest.approx(0.5)
    assert off_by("12-48", 6.0) == pytest.approx(1.0)
    assert math.isinf(off_by("3", 0.0))


# The layout of the 100,000-GPU design (2.8)


def test_the_layout_needs_a_sequence_for_each_replica() -> None:
    batches = {"global_batch_size": [512, 781, 64 * 781]}
    result = fleetcube.evaluate(
        ["bubble_fraction"],
        sequence_parallel=True,
        recompute="full",
        **{**cluster.LAYOUT, **batches},
    )
    reasons = result.infeasible_reason.attrs["flag_meanings"].split()
    found = [reasons[code] for code in result.infeasible_reason.values]
    assert found == ["batch_smaller_than_data_parallel", "feasible", "feasible"]
    assert result.bubble_fraction[1] == 15 / 16
    assert float(result.bubble_fraction[2]) == pytest.approx(15 / 79)


def test_masking_hides_the_layout() -> None:
    assert math.isnan(
        fleetcube.evaluate(
            "bubble_fraction", settings=Settings(infeasible="exclude"), **cluster.LAYOUT
        )
    )


# The numbers printed in tables


def test_every_printed_number_is_there() -> None:
    assert len(NUMBERS) == 68
    assert [number.what for number in NUMBERS if not number.agrees] == ["all-reduce of 350M, ms"]
    assert len({(number.document, number.what) for number in NUMBERS}) == 68


@pytest.mark.parametrize("number", NUMBERS, ids=[f"{n.document}: {n.what}" for n in NUMBERS])
def test_a_printed_number_reproduces(number: Number) -> None:
    ours = computed(number)
    assert ours == pytest.approx(number.by_hand, rel=1e-12)
    assert (off_by(number.printed, ours) == 0) is number.agrees


# Where the documents disagree


def test_ten_conflicts_are_settled() -> None:
    assert len(CONFLICTS) == 10
    assert all(conflict.settled.endswith(".") for conflict in CONFLICTS)


@pytest.mark.parametrize("stand", STANDS)
def test_every_reading_has_its_name_and_its_value(stand: Stand) -> None:
    for name in stand.names.split():
        name, _, value = name.partition("=")
        check_name(name, value or None)
    assert stand.figure.is_right(), f"{stand.figure.ours} is not {stand.figure.expected}"


# Communication or reliability


def test_communication_costs_more_on_the_usual_cluster() -> None:
    usual = {"gpu_mttf": 1, "checkpoint_write_bandwidth": 1, "layout": 0}
    ratios = question.swept()[question.SHARES[-1]].isel(usual)
    assert (ratios < 1).all()
    assert math.isinf(question.crossovers().isel(usual))


def test_the_order_turns_where_clusters_are_frail_slow_or_deep() -> None:
    beyond = question.crossovers()
    assert (beyond.diff("gpu_mttf") > 0)[..., 1].all()
    assert (beyond.isel(gpu_mttf=0).diff("checkpoint_write_bandwidth") > 0).all()
    shallow, deep = beyond.isel(layout=0), beyond.isel(layout=1)
    assert ((deep < shallow) | np.isinf(deep)).all()
    assert np.isinf(shallow).where(np.isinf(deep), True).all()
    assert float(beyond.min()) > 900  # and not from 512 GPUs on, not even there


def test_a_crossover_is_where_the_ratio_is_one() -> None:
    sizes = np.geomspace(10, 1000, 41)
    assert question.crossover(sizes, (sizes / 300) ** 0.5) == pytest.approx(300)
    assert math.isinf(question.crossover(sizes, sizes / 2000))
    assert question.crossover(sizes, sizes) == pytest.approx(10)


def test_the_tutorials_table_contradicts_its_headline() -> None:
    rows = question.tutorial_rows()
    assert [row["mixed"] > row["packed"] for row in rows] == [True, False, False, False]
    assert not any(row["with restarts"] > row["placed"] for row in rows)
    assert question.tutorial_crossover("7 GB/s") > max(tutorial.COMPARED)


# The page


def test_the_page_is_what_is_generated() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.make docs/claims.md`"


def test_tables_have_as_many_cells_in_every_row() -> None:
    tables = re.findall(r"(?:^\|.*\n)+", page(), re.MULTILINE)
    assert len(tables) == 1 + 2 + len(CONFLICTS) + len(DOCUMENTS) + 1
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1, table
