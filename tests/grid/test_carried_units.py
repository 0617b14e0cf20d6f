"""Quantities of units libraries are converted at every interface, or refused in one line."""

from typing import Any

import numpy as np
import pint
import pytest
import xarray

import fleetcube
from fleetcube import InputError, Settings, Sweep

from .common import cases, refused, solve

HOUR = 3600.0
u: Any = pint.UnitRegistry()


class Astropy(np.ndarray):
    """Stands in for astropy's Quantity: an array with `value` and `unit`."""

    unit: str

    def __new__(cls, values: Any, unit: str) -> "Astropy":
        made = np.asarray(values, float).view(cls)
        made.unit = unit
        return made

    @property
    def value(self) -> Any:
        return self.view(np.ndarray)[()]


def _mtbf(**inputs: Any) -> Any:
    return fleetcube.evaluate(
        "cluster_mtbf", settings=Settings("numpy"), **{"n_gpus": 1024, **inputs}
    )


@cases(
    "given, plain",
    (50_000 * u.hour, "50_000 h"),
    (u.Quantity(2.5, "kilominute"), "2_500 min"),
    (Astropy(50_000, "h"), "50_000 h"),
    ([50_000 * u.hour, Astropy(3, "yr")], ["50_000 h", "3 yr"]),
    ([5, 7] * u.day, ["5 d", "7 d"]),
    (Astropy([5, 7], "d"), ["5 d", "7 d"]),
    ({"geomspace": [1 * u.hour, 1 * u.day], "num": 2}, ["1 h", "1 d"]),
    ({"values": [1 * u.hour, 1 * u.day]}, ["1 h", "1 d"]),
    ({"lognormal": [2 * u.hour, 1.5]}, "2 h"),
    ({"empirical": [2 * u.hour, 2 * u.hour]}, "2 h"),
    ({"uniform": [1, 3] * u.hour}, "2 h"),
    (xarray.DataArray([5.0, 7.0] * u.day, dims="gpu_mttf"), ["5 d", "7 d"]),
    (xarray.DataArray([5.0, 7.0], dims="gpu_mttf", attrs={"units": "d"}), ["5 d", "7 d"]),
    ids=str,
)
def test_evaluate_converts(given: Any, plain: Any) -> None:
    np.testing.assert_allclose(_mtbf(gpu_mttf=given), _mtbf(gpu_mttf=plain), rtol=1e-15)


def test_plain_numbers_may_be_dimensionless_or_in_per_cent() -> None:
    assert _mtbf(n_gpus=1024 * u.dimensionless) == _mtbf()
    given = {"gpu": "h100-sxm", "inter_node_bandwidth": 400 * u.gigabit / u.second}
    found = fleetcube.evaluate("rail_bandwidth", **given, network_efficiency=50 * u.percent)
    assert found == 25e9


def test_scenarios_and_axes_convert_and_can_be_stored() -> None:
    axes = {"gpu_mttf": {"linspace": [1 * u.hour, 2 * u.hour], "num": 2}}
    axes |= {"both": {"nic_mttf": [1 * u.hour, 2 * u.hour], "psu_mttf": [3, 4] * u.hour}}
    sweep = Sweep({"n_gpus": 8, "repair_time": 5 * u.hour}, axes, ["cluster_mtbf"])
    assert sweep.spec["scenario"]["repair_time"] == 5 * HOUR
    found = sweep.evaluate(settings=Settings("numpy"))
    assert found.gpu_mttf.values.tolist() == [HOUR, 2 * HOUR]
    assert found.psu_mttf.values.tolist() == [3 * HOUR, 4 * HOUR]
    assert '"repair_time": 18000.0' in found.attrs["fleetcube_spec"]
    spec = Sweep({"n_gpus": 8, "reinit_time": 5 * u.microsecond}, {}, ["cluster_mtbf"]).spec
    assert spec["scenario"]["reinit_time"] == 5e-6  # as exactly as text


def test_solve_and_optimize_convert_targets_and_ranges() -> None:
    found = solve("n_gpus", {"cluster_mtbf": 10 * u.hour}, gpu_mttf=100_000 * u.hour)
    assert int(found["n_gpus"]) == 6000  # 0.1 / h over 8 / 100,000 h + 8 / 150,000 h a node
    for between in ([1 * u.hour, 1e6 * u.hour], [1, 1e6] * u.hour):
        found = solve("gpu_mttf", "cluster_mtbf = 10 h", between=between, n_gpus=10)
        given = dict(between=["1 h", "1e6 h"], n_gpus=10)
        text = solve("gpu_mttf", "cluster_mtbf = 10 h", **given)
        assert found["gpu_mttf"] == text["gpu_mttf"]
    with pytest.raises(InputError, match="is not a range"):
        solve("gpu_mttf", "cluster_mtbf = 10 h", between=3 * u.hour, n_gpus=10)
    sweep = Sweep({"n_gpus": 1024}, {}, ["cluster_mtbf"])
    found = sweep.best("cluster_mtbf", search={"gpu_mttf": [1 * u.hour, 4 * u.hour]}, sense="max")
    assert float(found["gpu_mttf"]) == 4 * HOUR


def test_lookups_and_levers_convert_places() -> None:
    sweep = Sweep({"n_gpus": 8}, {"gpu_mttf": ["1 h", "2 h", "4 h"]}, ["cluster_mtbf"])
    cube = sweep.evaluate(settings=Settings("numpy"))
    for at in (2 * u.hour, [2 * u.hour], [2] * u.hour, Astropy([2], "h")):
        found = fleetcube.interp(cube, {"gpu_mttf": at})["cluster_mtbf"]
        assert found.values.reshape(-1) == [cube["cluster_mtbf"].values[1]]
    told = sweep.rank_inputs("cluster_mtbf", at={"gpu_mttf": 2 * u.hour}).attrs["fleetcube_point"]
    assert told == "gpu_mttf = 2 h"


@cases(
    "inputs, rule",
    ({"gpu_mttf": 5 * u.meter}, "is not in s; give it in s"),
    ({"gpu_mttf": 5 * u.byte}, "is not in s; give it in s"),
    ({"gpu_mttf": 5 * u.dimensionless}, "is not in s"),
    ({"gpu_mttf": u.Quantity(5, "degC")}, "unknown unit 'degree_Celsius'"),
    ({"gpu_mttf": [1 * u.hour, 2 * u.meter]}, "is not in s"),
    ({"gpu_mttf": Astropy([1, 2], "m")}, "is not in s"),
    ({"gpu_mttf": u.Quantity(1j, "hour")}, "is not a plain number of hour; give one"),
    ({"gpu_mttf": {"normal": [5 * u.byte, 1 * u.byte]}}, "is not in s"),
    ({"gpu_mttf": -5 * u.hour}, "must be greater than 0"),
    ({"n_gpus": 8 * u.hour}, "is not in 1; give a plain number"),
    ({"zero_stage": 1 * u.hour}, "takes names"),
    ({"gpu": 1 * u.hour}, "takes names"),
    ({"n_gpus": np.timedelta64(3, "h")}, "is a duration; give it in 1"),
)
def test_what_cannot_be_converted_is_refused_in_one_line(inputs: dict[str, Any], rule: str) -> None:
    assert next(iter(inputs)) in refused(rule, _mtbf, **inputs)
