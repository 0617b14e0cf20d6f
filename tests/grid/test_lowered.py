"""What XLA makes of a sweep, by the text of its program: what a GPU would launch, hold and send."""

import re
from typing import Any

import numpy as np
import pytest

import fleetcube
from benchmarks import question
from benchmarks.gpu import launches, programs
from fleetcube import Settings, Sweep
from fleetcube.grid.plan import tiles
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


JAX = Settings("jax")
AT_MOST = 8  # launches: at 2 to 4 us each they take a tenth of the time of 28 million results


def _readme() -> Sweep:
    """The question of the README, on as many points as a sweep has."""
    job = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    job |= {"tensor_parallel": 8, "sequence_parallel": True, "global_batch_size": 2048}
    axes: dict[str, Any] = {
        "n_gpus": {"geomspace": [512, 4096], "num": 300, "round": True},
        "gpu_mttf": {"linspace": ["5_000 h", "50_000 h"], "num": 1000},
    }
    return Sweep(job, axes, ["job_time", "goodput", "step_time"])


@pytest.mark.parametrize("asked", [_readme(), question.fleet(128, 128)], ids=["readme", "peers"])
def test_all_outputs_take_few_launches(asked: Sweep) -> None:
    (text,) = programs(lambda: asked.evaluate(settings=JAX))
    assert 1 < launches(text) <= AT_MOST
    assert len(re.findall(r"= f64\S* parameter", text.split("ENTRY")[1])) <= 2 * AT_MOST


def test_launches_are_counted_in_the_outermost_computation() -> None:
    text = """HloModule a
%fused (p: f64[2]) -> f64[2] {
  ROOT %x = f64[2]{0} add(%p, %p)
}

ENTRY %main (a: f64[2]) -> (f64[2]) {
  %a = f64[2]{0} parameter(0)
  %f = (f64[2]{0}, s64[]) fusion(%a), kind=kLoop, calls=%fused
  %g = f64[2]{0} get-tuple-element(%f), index=0
  %c = f64[2]{0} copy(%g)
  ROOT %tuple = (f64[2]{0}) tuple(%c)
}
"""
    assert launches(text) == 2


@pytest.mark.parametrize("how", ["mean", "sum", "count", "max"])
def test_a_reduction_is_one_program_without_an_array_of_its_points(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "BLOCK", 1 << 16)
    monkeypatch.setattr("fleetcube.grid.reduce.fold._extremes", lambda *_: {})  # by a scan
    asked = question.fleet(64, 64).with_outputs(["job_time"])
    texts = programs(lambda: asked.reduce(how, settings=JAX))
    assert len(texts) == asked.points // (3 * 4 * 64 * 64)  # a block for each size of a cluster
    (text,) = set(texts)
    assert launches(text) <= 4
    for line in text.split("ENTRY")[1].splitlines():  # in memory; inside a fusion they are not
        shape = re.match(r"\s+(?:ROOT )?\S+ = \S*?\[([\d,]*)\]", line)
        sizes = [int(size) for size in shape[1].split(",") if size] if shape else []
        assert np.prod(sizes) <= 64 * 64


def test_no_operand_is_sent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[Any, bytes]] = []
    resident = engine.resident

    def noted(array: Any, single: bool) -> Any:
        sent.append((array.shape, array.tobytes()))
        return resident(array, single)

    monkeypatch.setattr(engine, "resident", noted)
    monkeypatch.setattr(tiles, "BLOCK", 1 << 12)
    asked = question.fleet(32, 32).with_outputs(["job_time"])
    texts = programs(lambda: asked.reduce("mean", settings=JAX))
    assert len(texts) == 27
    parameters = texts[0].split("ENTRY")[1].count(" parameter(")
    first = len(sent)
    assert first < 27 * parameters / 2  # most serve all blocks
    asked.reduce("sum", settings=JAX)
    assert len(sent) == first
