"""Graph, calculus and engines on another graph: they know nothing of this physics."""

import sys
import types
from typing import Any

import numpy as np
import pytest

from fleetcube.kernels.alternatives import alternative
from fleetcube.kernels.calculus.derivatives import Differentiator, derivative, is_quantity, unit_of
from fleetcube.kernels.declare import declared, option, real
from fleetcube.kernels.engines.job import Job
from fleetcube.kernels.graph.formulas import Graph

from .test_engines import RUN

INPUTS = declared(
    "job",
    real("mass", "kg", None, "mass of a body"),
    real("speed", "m/s", None, "speed of a body"),
    option("mechanics", "newton", ("newton", "at_rest"), "whose laws hold"),
)


def momentum(mass: Any, speed: Any) -> Any:
    """Momentum of a body.

    m v

    Returns: [kg m/s] momentum
    Source: Newton 1687
    """
    return mass * speed


@alternative("kinetic_energy", mechanics="newton")
def newton_kinetic_energy(momentum: Any, speed: Any) -> Any:
    """Energy of a body that moves.

    p v / 2

    Returns: [J] energy
    Source: Leibniz 1686
    """
    return momentum * speed / 2


@alternative("kinetic_energy", mechanics="at_rest")
def at_rest_kinetic_energy() -> Any:
    """0"""
    return 0.0


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch) -> Graph:
    module = types.ModuleType("bodies")
    for formula in (momentum, newton_kinetic_energy, at_rest_kinetic_energy):
        setattr(module, formula.__name__, formula)
        monkeypatch.setattr(formula, "__module__", module.__name__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return Graph("bodies", {row.name: row for row in INPUTS}, (module.__name__,))


@pytest.mark.parametrize("engine", RUN)
def test_engines_evaluate_another_graph(bodies: Graph, engine: str) -> None:
    leaves = {"mass": np.array([1.0, 2.0, 8.0]), "speed": np.array([3.0, 0.5, 4.0])}
    formulas = bodies.select(["kinetic_energy"], {"mechanics": "newton"}, leaves)
    slope = derivative(bodies, "d_kinetic_energy_d_speed")
    assert slope is not None
    along = {key: {"point"} for key in [*leaves, *formulas]}
    formulas |= Differentiator(bodies, formulas, along).add([slope])
    outs = {name: np.empty(3) for name in ("kinetic_energy", slope.name)}
    RUN[engine](Job(formulas, leaves, outs), 1)
    np.testing.assert_allclose(outs["kinetic_energy"], [4.5, 0.25, 64.0], rtol=1e-15)
    np.testing.assert_allclose(outs[slope.name], leaves["mass"] * leaves["speed"], rtol=1e-15)


def test_units_and_names_are_those_of_the_graph(bodies: Graph) -> None:
    assert unit_of(bodies, "speed") == "m/s"
    assert unit_of(bodies, "kinetic_energy") == "J"
    assert is_quantity(bodies, "momentum")
    assert not is_quantity(bodies, "step_time")
    assert bodies.select(["kinetic_energy"], {"mechanics": "at_rest"}, ()) == {
        "kinetic_energy": at_rest_kinetic_energy
    }
