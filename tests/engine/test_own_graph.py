"""The engine on a graph of others: each way to evaluate it gives what plain Python gives."""

import importlib
import itertools
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import fleetcube
from fleetcube import InputError, Settings, Sweep
from fleetcube.graph import real
from fleetcube.grid.plan.fingerprint import fingerprint

sys.path.insert(0, str(Path(__file__).parent))  # as of a user, whose workers import it, too
heat_pump = importlib.import_module("heat_pump")

ENGINES = ("numpy", "numba", "jax")
SCENARIO = {"heat_loss": "250 W/K", "defrost": "reverse"}
AXES = {
    "outside_temperature": [255.0, 268.0, 283.0, 295.0],
    "supply_temperature": {"linspace": [300, 345], "num": 10},
    "heating_hours": [1000, 2000],
}
OUTPUTS = ["yearly_cost", "performance", "infeasible_reason"]


def pump(**changes: Any) -> Sweep:
    given = {"scenario": SCENARIO, "axes": AXES, "outputs": OUTPUTS} | changes
    return Sweep(**given, graph=heat_pump)


def by_hand(outside: float, supply: float, hours: float) -> tuple[float, float, int]:
    """Cost, performance and refusal, without the graph."""
    performance = 0.45 * supply / max(supply - outside, 1.0) / (1.1 if outside < 280 else 1.0)
    heat = 250.0 * max(294.0 - outside, 0.0)
    refusal = 1 if heat > 9000 else 2 if supply > 338 else 0
    return heat / performance * hours * 3600 * 1e-7, performance, refusal


def check(cube: xarray.Dataset) -> None:
    """Compare all points of a cube with those by hand."""
    along = [cube[name].values for name in AXES]
    wanted = np.array([by_hand(*point) for point in itertools.product(*along)])
    for name, column in zip(OUTPUTS, wanted.T, strict=True):
        dims = [dim for dim in AXES if dim in cube[name].dims]
        shape = [len(row) for row in along]
        first = tuple(slice(None) if dim in dims else 0 for dim in AXES)
        found = cube[name].transpose(*dims).values
        np.testing.assert_allclose(found, column.reshape(shape)[first], rtol=1e-13, err_msg=name)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_what_plain_python_gives(engine: Any) -> None:
    cube = pump().evaluate(settings=Settings(engine))
    check(cube)
    assert cube["yearly_cost"].attrs["units"] == "USD"
    assert cube["infeasible_reason"].attrs["flag_meanings"] == "runs too_small too_hot"


def test_points_that_cannot_run_are_left_out() -> None:
    cube = pump(outputs=["yearly_cost"]).evaluate(settings=Settings(infeasible="exclude"))
    assert set(cube.coords) >= {"infeasible_reason"}
    np.testing.assert_array_equal(
        np.isnan(cube["yearly_cost"]).any("heating_hours"), cube.infeasible_reason != 0
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_derivatives_are_exact(engine: Any) -> None:
    names = ["d_yearly_cost_d_supply_temperature", "dln_yearly_cost_dln_electricity_price"]
    axes = {"outside_temperature": [268.0, 283.0]}
    cube = pump(axes=axes, outputs=names).evaluate(settings=Settings(engine))
    for outside, slope in zip(axes["outside_temperature"], cube[names[0]].values, strict=True):
        cost = by_hand(outside, 308.0, 2000)[0]  # cost ~ (T_s - T_o) / T_s
        assert slope == pytest.approx(cost * outside / (308.0 * (308.0 - outside)), rel=1e-12)
    np.testing.assert_allclose(cube[names[1]], 1.0, rtol=1e-12)
    assert cube[names[0]].attrs["units"] == "USD/K"


def test_a_cube_is_written_resumed_opened_and_extended(tmp_path: Path) -> None:
    place = tmp_path / "cube.zarr"
    pump().to_zarr(place)
    check(fleetcube.open_cube(place))
    before = sorted((path.name, path.stat().st_mtime_ns) for path in place.rglob("*"))
    pump().to_zarr(place, resume=True)
    assert before == sorted((path.name, path.stat().st_mtime_ns) for path in place.rglob("*"))
    check(pump().lazy(chunks={"heating_hours": 1}).compute())
    check(pump().virtual())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_function_has_values_and_gradients(engine: Any) -> None:
    given = {**SCENARIO, "graph": "heat_pump", "outside_temperature": 268.0}
    cost = fleetcube.function("yearly_cost", given, ["heating_hours", "heat_loss"], engine=engine)
    wanted, single = by_hand(268.0, 308.0, 1500.0)[0], 1e-6 if engine == "jax" else 1e-13
    assert float(cost(1500.0, 250.0)) == pytest.approx(wanted, rel=single)
    slopes = cost.gradient()(1500.0, 250.0)
    assert float(slopes["heat_loss"]) == pytest.approx(wanted / 250.0, rel=single)


def test_questions_have_answers() -> None:
    sweep = pump(axes={"outside_temperature": [268.0, 283.0]}, outputs=["performance"])
    found = sweep.solve("supply_temperature", "performance >= 4", between=(296, 340))
    for outside, supply in zip((268.0, 283.0), found["supply_temperature"].values, strict=True):
        assert by_hand(outside, float(supply), 1.0)[1] == pytest.approx(4.0, rel=1e-9)
    asked = pump(axes={"outside_temperature": [268.0, 283.0]}, outputs=["electric_power"])
    found = asked.solve("supply_temperature", "electric_power = 2 kW", between=(290, 345))
    for outside, supply, reason in zip(
        (268.0, 283.0),
        found["supply_temperature"].values,
        found["infeasible_reason"].values,
        strict=True,
    ):
        heat = 250.0 * (294.0 - outside) * (1.1 if outside < 280 else 1.0)
        # 2 kW = heat (T - outside) / (0.45 T)
        wanted = heat * outside / (heat - 900.0)
        within = 290 <= wanted <= 345
        assert within == np.isfinite(supply) == (reason == 0)
        assert not within or float(supply) == pytest.approx(wanted, rel=1e-9)
    point = {"outside_temperature": 268.0, "supply_temperature": 310.0, "heating_hours": 1000}
    ranked = pump().rank_inputs("yearly_cost", at=point)
    slopes = dict(zip(ranked["input"].values, ranked["elasticity"].values, strict=True))
    assert slopes["electricity_price"] == pytest.approx(1.0)
    assert slopes["supply_temperature"] == pytest.approx(268.0 / (310.0 - 268.0))
    best = pump().best("yearly_cost", where="performance <= 3")
    points = itertools.product(*(pump().evaluate()[name].values for name in AXES))
    made = [(by_hand(*point), point) for point in points]
    least = min(row[0] for row, _ in made if row[1] <= 3 and row[2] == 0)
    assert float(best["yearly_cost"]) == pytest.approx(least, rel=1e-12)
    dearest = pump().best("yearly_cost", sense="max")  # of those that can run
    most = max(row[0] for row, _ in made if row[2] == 0)
    assert float(dearest["yearly_cost"]) == pytest.approx(most, rel=1e-12)
    slopes = pump().derivatives("yearly_cost", ["heat_loss", "heating_hours"])
    assert slopes["units"].values.tolist() == ["USD/(W/K)", "USD"]
    mean = pump().reduce("mean", of="yearly_cost", settings=Settings(infeasible="include"))
    assert float(mean["yearly_cost"]) == pytest.approx(np.mean([row[0] for row, _ in made]))
    spread = pump(
        scenario={"heat_loss": {"normal": [250, 10]}}, axes={"outside_temperature": [268.0]}
    )
    ends = spread.uncertainty("yearly_cost")["yearly_cost"].values.ravel()
    assert ends[0] < by_hand(268.0, 308.0, 2000)[0] / 1.1 < ends[-1]
    table = fleetcube.evaluate_table(
        {"outside_temperature": [268.0, 283.0]},
        "performance",
        scenario={**SCENARIO, "graph": heat_pump},
    )
    np.testing.assert_allclose(
        table["performance"], [by_hand(t, 308.0, 1)[1] for t in (268.0, 283.0)]
    )


def test_what_people_see(tmp_path: Path) -> None:
    cube = pump().evaluate()
    cube.fleetcube.plot(
        "outside_temperature", "supply_temperature", of="performance", path=tmp_path / "a.png"
    )
    assert (tmp_path / "a.png").stat().st_size > 1000
    assert "Heat over work of an ideal pump" in cube.fleetcube.explain("carnot_limit")
    assert "hours of heating in a year" in str(cube.fleetcube.explain("heating_hours")).lower()
    page = pump(axes={"outside_temperature": AXES["outside_temperature"]}).to_html()
    assert "yearly_cost" in page
    assert "GPU" not in pump()._repr_html_()


def test_a_graph_has_its_own_names_alone() -> None:
    for bad, words in (
        ({"heat_los": 1}, "did you mean 'heat_loss'"),
        ({"gpu": "h100-sxm"}, "'gpu' is not an input"),
        ({"n_gpus": 8}, "'n_gpus' is not an input"),
        ({"heat_loss": "5 J"}, "is not in W/K"),
        ({"defrost": "salt"}, "is not one of none, reverse"),
        ({"infeasible_reason": 1}, "is a result"),
        ({"heating_days": 0}, "heating_days = 0 must be greater than 0"),
    ):
        with pytest.raises(InputError, match=words):
            pump(scenario={**SCENARIO, **bad}, outputs=["heating_days", "yearly_cost"])
    for question in (pump().scaling_limit, lambda: pump().best("yearly_cost", search="layout")):
        with pytest.raises(InputError, match="is for training jobs, not for heat_pump; "):
            question()
    with pytest.raises(InputError, match="is no module and no name of one; write its formulas"):
        Sweep({}, {}, ["performance"], graph=heat_pump.performance)
    with pytest.raises(InputError, match="outside_temperature is missing"):
        pump(axes={})


def test_two_graphs_live_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Sweep({"n_gpus": 1024, "gpu_mttf": "50_000 h"}, {}, ["cluster_mtbf"])
    before = training.evaluate()
    check(pump().evaluate())
    xarray.testing.assert_identical(training.evaluate(), before)
    assert pump().graph != training.graph
    again = pickle.loads(pickle.dumps(pump()))
    assert again == pump()
    assert again.graph == pump().graph
    assert hash(again.graph) == hash(pump().graph)
    other = types.ModuleType("lab_inputs")
    other.INPUTS = (real("mass", "kg", 1.0, "mass"),)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lab_inputs", other)
    with pytest.raises(InputError, match="'lab_inputs' has no formulas; write some with def"):
        Sweep({}, {}, ["mass"], graph="lab_inputs")


def test_a_cube_depends_on_the_application_of_its_graph_alone() -> None:
    training = Sweep({"n_gpus": 8}, {}, ["cluster_mtbf"])
    both = (
        fingerprint(sweep._plan("numpy"), sweep.spec, "float64", {}) for sweep in (training, pump())
    )
    theirs, ours = (
        {name for name in facts if name.startswith(("code.kernels.physics", "code.scenario"))}
        for facts in both
    )
    assert {"code.kernels.physics.roles", "code.scenario.remarks"} <= theirs
    assert not ours


@pytest.mark.slow
def test_workers_have_both_graphs(tmp_path: Path) -> None:
    settings = Settings("numba", dask=1)
    pump().to_zarr(tmp_path / "pump.zarr", settings=settings)
    check(fleetcube.open_cube(tmp_path / "pump.zarr"))
    training = Sweep({"gpu_mttf": "50_000 h"}, {"n_gpus": [512, 1024]}, ["cluster_mtbf"])
    training.to_zarr(tmp_path / "training.zarr", settings=settings)
    stored = fleetcube.open_cube(tmp_path / "training.zarr")
    np.testing.assert_array_equal(stored.cluster_mtbf, training.evaluate().cluster_mtbf)
