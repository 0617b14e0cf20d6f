"""Registered formulas: laws under a quantity's names, and twins of other formulas."""

import pickle
import sys
from typing import Any

import pytest

from fleetcube.kernels.alternatives import alternative, family, row, same_as, source_of
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.graph.formulas import parameters
from fleetcube.kernels.laws.topology import flat_latency
from fleetcube.kernels.physics.graph import PHYSICS

from .. import formulas


def test_a_law_is_registered_by_a_docstring() -> None:
    formula = PHYSICS.quantities["data_parallel_latency"].formula({})
    operands = ("gradient_ranks", "data_parallel_ranks_per_node", "intra_node_latency")
    assert parameters(formula) == (*operands, "inter_node_latency")
    assert formula(8, 8, 5e-7, 5e-6) == flat_latency(8, 8, 5e-7, 5e-6) == 5e-7
    assert formula(8, 4, 5e-7, 5e-6) == 5e-6
    assert read(formula).summary.startswith("Hop latency of a data-parallel group")


def test_a_twin_has_names_of_its_own() -> None:
    twin = formulas.switch_data_parallel_between_nodes_time
    assert twin.__name__ == "switch_data_parallel_between_nodes_time"
    assert PHYSICS.quantities["data_parallel_between_nodes_time"].formulas[True] is twin
    assert parameters(twin)[:2] == ("bucket_message", "gradient_ranks")
    assert PHYSICS.units(twin)["bucket_message"] == "B"


@pytest.mark.parametrize(
    ("formula", "lines"),
    [
        (
            formulas.data_parallel_latency,
            (
                "    return flat_latency(gradient_ranks, data_par",
                "    return where(ranks_per_node >= r",
            ),
        ),
        (
            formulas.switch_data_parallel_between_nodes_time,
            ("(bucket_message, gradient_ranks, ", "def switch_tensor_parallel_between_nodes_time("),
        ),
    ],
)
def test_the_source_has_the_names_of_the_formula_and_what_it_is(
    formula: Any, lines: tuple[str, ...]
) -> None:
    text = source_of(formula)
    assert text.startswith(f"def {formula.__name__}(")
    for line in lines:
        assert line in text


def test_registered_formulas_are_pickled_by_name() -> None:
    for quantity in PHYSICS.quantities.values():
        for formula in quantity.formulas.values():
            assert pickle.loads(pickle.dumps(formula)) is formula


def test_what_a_law_does_not_take_is_refused() -> None:
    def short(gradient_ranks: Any, intra_node_latency: Any) -> Any:
        """Latency."""

    with pytest.raises(ValueError, match="short has 2 parameters, and flat_latency takes 4: ra"):
        same_as(flat_latency)(short)


def test_names_that_become_one_are_refused() -> None:
    @alternative("cost", pricing="owned")
    def owned_cost(price: Any, gpus: Any) -> Any:
        return price * gpus

    with pytest.raises(ValueError, match="two names of owned_cost become one: gpus, gpus"):
        family({"price": "gpus"}, owned_cost)


@pytest.mark.parametrize("value", [2.0, 3.0])
def test_the_twin_of_a_row_has_its_value_in_its_source(value: float) -> None:
    home = vars(sys.modules[__name__])
    row("of_switches", value, network_tiers=True)
    family({"of_switches": "of_leaves"}, home["of_switches_network_tiers_true"])
    twin = home["of_leaves_network_tiers_true"]
    assert twin() == value
    assert source_of(twin) == f"def {twin.__name__}():\n    return {value!r}\n"
