"""The graph of quantities: needed, missing and refused names."""

import itertools
import logging
import re
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fleetcube
from fleetcube.catalog import KINDS
from fleetcube.kernels import physics
from fleetcube.kernels.alternatives import alternative
from fleetcube.kernels.declare import CHANGERS
from fleetcube.kernels.graph import formulas as graph
from fleetcube.kernels.graph.formulas import MissingInputError, UnknownNameError, parameters
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics import roles
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from .graph_checks import check

OPTIONS = {name: row.default for name, row in INPUTS.items() if row.kind == "option"}
DEFAULTS = {name for name, row in INPUTS.items() if row.default is not None}

_NUMBERS = itertools.count()

Build = Callable[..., dict[str, graph.Quantity]]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Build:
    """Load the graph with added functions, as if from one more module."""

    def load(*functions: Any) -> dict[str, graph.Quantity]:
        module = types.ModuleType(f"{physics.__name__}.added_{next(_NUMBERS)}")
        for number, function in enumerate(functions):
            function.__module__ = module.__name__
            setattr(module, f"added_{number}", function)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        more = replace(PHYSICS, modules=(*PHYSICS.modules, module.__name__))
        check(more)
        return dict(more.quantities)

    return load


def test_the_graph_is_complete() -> None:
    check(PHYSICS)


# What is needed


def test_formulas_come_after_what_they_need() -> None:
    given = {*DEFAULTS, "n_gpus", "parameters", "layers", "hidden_size", "peak_flops"}
    given |= {"intra_node_bandwidth", "inter_node_bandwidth"}
    seen = set(given)
    for name, formula in PHYSICS.select(["job_time"], OPTIONS, given).items():
        assert set(parameters(formula)) <= seen
        seen.add(name)
    assert "job_time" in seen


def test_a_given_quantity_cuts_the_graph() -> None:
    needed = PHYSICS.select(["expected_failures"], OPTIONS, {"cluster_mtbf", "time_at_risk"})
    assert {"cluster_mtbf", "time_at_risk", "job_duration"}.isdisjoint(needed)
    assert needed.keys() >= {"expected_failures", "cluster_uptime"}


def test_nothing_else_is_selected() -> None:
    needed = PHYSICS.select(["young_interval"], OPTIONS, {*DEFAULTS, "n_gpus", "checkpoint_size"})
    assert set(needed) == {
        "young_interval",
        "checkpoint_stall_time",
        "checkpoint_write_time",
        "write_bandwidth",
        "cluster_mtbf",
        "node_failure_rate",
        "nodes",
        "node_mttf",
        "parts_mttf",
        "switches",
        "outage_rate",  # a constant
    }


def test_an_option_chooses_the_formula() -> None:
    options = {**OPTIONS, "checkpoint_policy": "fixed"}
    needed = PHYSICS.select(["checkpoint_interval"], options, {"fixed_checkpoint_interval"})
    assert needed["checkpoint_interval"].__name__ == "checkpoint_interval_checkpoint_policy_fixed"


def test_a_tuple_of_choices_shares_one_formula() -> None:
    quantity = PHYSICS.quantities["gradient_window"]
    assert quantity.formulas[0] is quantity.formulas[1]
    assert quantity.formula({"zero_stage": 3}) is not quantity.formulas[0]


# What is missing


VIA = " (via cluster_mtbf -> node_failure_rate -> nodes)"


def test_a_missing_input_names_the_output_and_verbosely_the_path(caplog: Any) -> None:
    for level, path in ((logging.WARNING, ""), (logging.INFO, VIA)):
        with caplog.at_level(level, "fleetcube"), pytest.raises(MissingInputError) as error:
            PHYSICS.select(["expected_failures"], OPTIONS, {*DEFAULTS, "job_duration"})
        needed = f"n_gpus is missing: expected_failures needs it{path}; "
        assert str(error.value) == needed + "give n_gpus (accelerators of the job)"


def test_a_missing_input_of_the_output_itself_needs_no_path() -> None:
    with pytest.raises(MissingInputError, match="n_gpus is missing: nodes needs it; give"):
        PHYSICS.select(["nodes"], OPTIONS, DEFAULTS)


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        ("ridge_point", "peak of one GPU), or a gpu or node (fleetcube catalog gpu)"),
        (
            "rail_bandwidth",
            "or a fabric: infiniband-ndr, roce-400g, ... (fleetcube catalog fabric)",
        ),
        ("checkpoint_size", "give parameters, or a model (fleetcube catalog model)"),
    ],
)
def test_a_missing_input_names_the_labels_that_set_it(output: str, advice: str) -> None:
    with pytest.raises(MissingInputError, match=f"{re.escape(advice)}$"):
        PHYSICS.select([output], OPTIONS, DEFAULTS)


def test_all_that_is_missing_is_asked_for_at_once() -> None:
    """Once for those of one record, and not again for the record that the first has."""
    with pytest.raises(MissingInputError) as error:
        PHYSICS.select(["step_time"], OPTIONS, DEFAULTS)
    assert str(error.value).endswith("; also give n_gpus, a gpu or node, a fabric")
    assert str(error.value).count("model") == 2  # of its record alone


def test_a_missing_input_is_told_through_the_door() -> None:
    with pytest.raises(fleetcube.InputError, match=r"n_gpus is missing: .*; give n_gpus \("):
        fleetcube.evaluate("expected_failures", job_duration="30 d")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'speed' is neither an input nor a quantity"):
        PHYSICS.select(["speed"], OPTIONS, DEFAULTS)


# What is refused


def test_a_quantity_is_added_by_writing_one_function(build: Build) -> None:
    def half_the_mtbf(cluster_mtbf: Any) -> Any:
        return cluster_mtbf / 2

    assert build(half_the_mtbf)["half_the_mtbf"].formula({}) is half_the_mtbf


def test_a_cycle_is_refused_with_its_path(build: Build) -> None:
    def hen(egg: Any) -> Any:
        return egg

    def egg(chick: Any) -> Any:
        return chick

    def chick(hen: Any) -> Any:
        return hen

    with pytest.raises(ValueError, match="form a cycle: hen -> egg -> chick -> hen"):
        build(hen, egg, chick)


def test_a_cycle_through_an_alternative_is_refused(build: Build) -> None:
    @alternative("hen", recompute=INPUTS["recompute"].choices[:-1])
    def hen(layers: Any) -> Any:
        return layers

    @alternative("hen", recompute="full")
    def other_hen(egg: Any) -> Any:
        return egg

    def egg(hen: Any) -> Any:
        return hen

    with pytest.raises(ValueError, match="form a cycle: hen -> egg -> hen"):
        build(hen, other_hen, egg)


def test_a_second_definition_is_refused(build: Build) -> None:
    def cluster_mtbf(node_mttf: Any) -> Any:
        return node_mttf

    with pytest.raises(ValueError, match="cluster_mtbf is defined twice: rename cluster_mtbf"):
        build(cluster_mtbf)


def test_a_second_formula_for_a_choice_is_refused(build: Build) -> None:
    @alternative("peak_flops", precision="fp8")
    def faster_peak(peak_flops_fp8: Any) -> Any:
        return peak_flops_fp8

    with pytest.raises(ValueError, match="peak_flops is defined twice: rename faster_peak"):
        build(faster_peak)


def test_a_quantity_that_two_options_choose_is_refused(build: Build) -> None:
    @alternative("twofold", recompute=(False, "selective", "full"))
    def by_recompute(layers: Any) -> Any:
        return layers

    @alternative("twofold", sequence_parallel=(False, True))
    def by_sequence(layers: Any) -> Any:
        return layers

    with pytest.raises(ValueError, match="twofold is defined twice"):
        build(by_recompute, by_sequence)


def test_a_choice_without_a_formula_is_refused(build: Build) -> None:
    @alternative("partial", recompute=(False, "full"))
    def partial(layers: Any) -> Any:
        return layers

    with pytest.raises(
        ValueError, match="partial has no formula where recompute = selective: write one"
    ):
        build(partial)


def test_a_formula_for_what_is_no_choice_is_refused(build: Build) -> None:
    @alternative("partial", sequence_parallel=(False, True, "maybe"))
    def partial(layers: Any) -> Any:
        return layers

    message = (
        "where sequence_parallel = maybe, which is not a choice: add it to its option in inputs.py"
    )
    with pytest.raises(ValueError, match=message):
        build(partial)


@pytest.mark.parametrize("name", ["recomputing", "layers"])
def test_an_alternative_of_what_is_no_option_is_refused(build: Build, name: str) -> None:
    @alternative("partial", **{name: "full"})
    def partial(layers: Any) -> Any:
        return layers

    message = f"partial is chosen by {name}, which is not an option: declare it in inputs.py"
    with pytest.raises(ValueError, match=message):
        build(partial)


def test_every_module_of_quantities_is_read() -> None:
    folder = Path(physics.__path__[0])
    found = {f"{path.parent.name}.{path.stem}" for path in folder.glob("*/[a-z]*.py")}
    found -= {f"{topic}.{table}" for topic in physics.TOPICS for table in ("inputs", "roles")}
    assert found == set(physics.MODULES), "add it to TOPICS in kernels/physics/__init__.py"


def test_a_quantity_named_as_an_input_is_refused(build: Build) -> None:
    def n_gpus(layers: Any) -> Any:
        return layers

    with pytest.raises(ValueError, match="n_gpus is both an input and a quantity: rename one"):
        build(n_gpus)


def test_a_parameter_that_nothing_defines_is_refused(build: Build) -> None:
    def ratio(layers: Any, speed: Any) -> Any:
        return layers / speed

    with pytest.raises(ValueError, match="ratio needs speed, which nothing defines: write its"):
        build(ratio)


# Roles that other packages ask for


def test_roles_are_played_by_names_of_the_graph() -> None:
    known = PHYSICS.quantities
    for flag in (REASON, roles.NEAR, roles.LAYOUT_REASON):
        assert known[flag].unit == "flag"
    assert known.keys() >= {roles.CROSSING, *roles.LAYOUT, *roles.LIMITS, *roles.WHOLES}
    assert known.keys() >= roles.POSITIVE | roles.COUNTS.keys() - INPUTS.keys()
    bounds, limits = zip(*roles.LIMITS.values(), strict=True)
    assert {*bounds, roles.HEADROOM} <= INPUTS.keys()
    assert known.keys() >= {*limits}
    parts = {part for whole in roles.WHOLES.values() for part in whole}
    assert parts <= INPUTS.keys() | known.keys() | KINDS.keys()
    assert {*roles.UNITS, *roles.UNITS.values(), *roles.ALSO_REASONS.values()} <= INPUTS.keys()
    assert known.keys() >= roles.ALSO_REASONS.keys()
    for name, (step, count) in roles.STEPS.items():
        assert {name, *parameters(step)} == set(parameters(known[count].formula({})))
    formulas = {f.__name__ for quantity in known.values() for f in quantity.formulas.values()}
    assert roles.UNCOUNTED.keys() <= INPUTS.keys()
    assert {roles.MONEY, roles.TIME} <= known.keys()
    assert {counting for counting, _ in roles.UNCOUNTED.values()} <= formulas
    for name, choices in roles.FITTED.items():
        assert choices.keys() == known[name].formulas.keys()
        assert {operand for runs in choices.values() for operand in runs} <= known.keys()


def test_every_input_has_one_kind() -> None:
    assert {row.changed_by for row in INPUTS.values()} == {*CHANGERS}
    known = {"gpu_mttf": "hardware", "oversubscription": "fabric", "repair_time": "operations"}
    known |= {"tensor_parallel": "software", "n_gpus": "job", "layers": "model"}
    assert known.items() <= {name: row.changed_by for name, row in INPUTS.items()}.items()


def test_an_input_names_what_sets_it_and_what_it_is_a_part_of() -> None:
    for name, row in INPUTS.items():
        if row.labels:
            assert any(name in KINDS[kind] for kind in row.labels.partition(":")[0].split(" or "))
        if row.part_of:
            assert name in roles.WHOLES[row.part_of]
