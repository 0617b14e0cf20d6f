"""What XLA makes of a sweep, by the text of its program: what a GPU would launch, hold and send."""

import re
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube.grid.plan.execute import Piece
from fleetcube.kernels.engines import jax as engine
from tests.engine import heat_pump

pytest.importorskip("jax")
AXES: dict[str, Any] = {
    "outside_temperature": {"linspace": [250, 290], "num": 300},
    "supply_temperature": {"linspace": [300, 340], "num": 100},
    "heating_hours": [1000, 2000],
}
OUTPUTS = ["yearly_cost", "performance", "heat_demand"]


def _program(single: bool) -> Any:
    """The compiled program of all outputs, which writes them into memory of earlier ones."""
    import jax

    sweep = fleetcube.Sweep({"heat_loss": "250 W/K"}, AXES, OUTPUTS, graph=heat_pump)
    plan = sweep._plan("jax-float32" if single else "jax")
    piece, jobs, kinds = Piece(plan, plan.cases[0], 1), [], []
    for dims, names in plan.groups().items():
        shape = plan.shape(dims)
        outs = {name: np.broadcast_to(0.0, shape) for name in names}
        jobs.append(piece.last(dims, plan.whole(dims), names).job(outs))
        kinds += [(shape, "float32" if single else "float64")] * len(names)
    steps, operands = engine.program_of(jobs, single)
    leaves, tree = jax.tree.flatten(operands)
    shapes = tuple((leaf.shape, leaf.dtype.name) for leaf in leaves)
    with jax.enable_x64(not single):
        return engine._in_place(steps, tuple(kinds), tree, shapes)


def test_results_go_where_earlier_ones_were_and_nothing_as_large_lies_between() -> None:
    program = _program(single=False)
    memory = program.memory_analysis()
    assert "input_output_alias={ {0}" in program.as_text()
    assert memory.alias_size_in_bytes >= memory.output_size_in_bytes - 1024
    assert memory.temp_size_in_bytes < 8 * 300 * 100 * 2  # of one full result


def test_float32_is_asked_for_in_float32_throughout() -> None:
    text = _program(single=True).as_text()
    assert re.search(r"\bf32\[", text)
    assert not re.search(r"\bf64\[", text)
