"""Sampling designs: samples cover the ranges as the design promises."""

from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube import InputError, Sweep

from .common import cases, refused

RANGES: dict[str, Any] = {"gpu_mttf": {"geomspace": ["5_000 h", "500_000 h"]}}
RANGES |= {"checkpoint_stall_time": {"linspace": [10, 50]}}
SCENARIO = {"n_gpus": 1024, "recovery_time": 600}


def drawn(design: str, num: int = 256, **more: Any) -> Any:
    spec = {"design": design, "num": num, **RANGES, **more}
    return Sweep(SCENARIO, {"sample": spec}, ["goodput"]).evaluate()


def places(found: Any) -> np.ndarray[Any, Any]:
    """Positions of the points in their ranges, between 0 and 1."""
    mttf = np.log(found.gpu_mttf / 3600 / 5_000) / np.log(100)
    return np.stack([mttf.values, (found.checkpoint_stall_time.values - 10) / 40])


@pytest.mark.parametrize("design", ["random", "latin_hypercube", "sobol"])
def test_points_lie_in_their_ranges_and_are_drawn_again_alike(design: str) -> None:
    found = drawn(design)
    assert found.goodput.dims == ("sample",)
    assert found["sample"].values.tolist() == list(range(256))
    spots = places(found)
    assert spots.min() >= 0
    assert spots.max() <= 1
    assert found.identical(drawn(design))
    assert not np.array_equal(spots, places(drawn(design, seed=1)))


def test_a_latin_hypercube_has_one_point_in_each_slice() -> None:
    for row in places(drawn("latin_hypercube")):
        assert sorted(np.floor(row * 256).astype(int)) == list(range(256))


def test_sobol_points_fill_every_box_alike() -> None:
    # A net in base 2: 256 points, 16 in each of the 4 x 4 boxes, 1 in each of the 16 x 16.
    for boxes, each in ((4, 16), (16, 1)):
        cell = np.floor(places(drawn("sobol")) * boxes).astype(int)
        assert (np.bincount(cell[0] * boxes + cell[1], minlength=boxes * boxes) == each).all()


def test_values_are_those_of_the_points() -> None:
    found = drawn("random", num=8, checkpoint_policy=["young", "exact"])
    for k in range(8):
        at = found.isel(sample=k)
        own = {name: float(at[name]) for name in ("gpu_mttf", "checkpoint_stall_time")}
        own |= {"checkpoint_policy": str(at.checkpoint_policy.values)}
        assert float(at.goodput) == float(fleetcube.evaluate("goodput", **own, **SCENARIO))


def test_labels_and_options_are_drawn_alike_often_and_stand_together() -> None:
    spec = {"design": "sobol", "num": 64, "model": ["llama-3-8b", "llama-3-70b"]}
    spec |= {"recompute": [False, "selective", "full"]}
    spec |= {"n_gpus": {"geomspace": [8, 1024], "round": True}}
    sweep = Sweep({}, {"sample": spec}, ["checkpoint_size", "recompute_flops_factor"])
    assert (sweep.evaluate().model.values == "llama-3-8b").sum() == 32
    assert len(sweep._plan().cases) <= 6
    whole = Sweep({"gpu_mttf": 1e8}, {"sample": spec}, ["cluster_mtbf"]).evaluate()
    assert (whole.n_gpus.values == np.rint(whole.n_gpus.values)).all()


def test_a_design_stands_beside_other_axes() -> None:
    axes = {"sample": {"design": "sobol", "num": 4, **RANGES}, "provision_time": [0, 300]}
    found = Sweep(SCENARIO, axes, ["goodput", "node_mttf"]).evaluate()
    assert found.goodput.dims == ("sample",)  # recovery_time is given
    assert found.node_mttf.dims == ("sample",)


@cases(
    "spec, words",
    ({"design": "sobols", "num": 4}, "did you mean 'sobol'"),
    ({"design": "sobol", "num": 100}, "not a power of 2"),
    ({"design": "random", "num": 0}, "num = 0 is not a whole number above 0"),
    ({"design": "random", "num": 4, "seed": -1}, "seed = -1"),
    ({"design": "random", "num": 4}, "draws nothing"),
    ({"design": "random", "num": 4, "gpu_mtf": [1]}, "did you mean 'gpu_mttf'"),
    ({"design": "random", "num": 4, "gpu_mttf": "1 h"}, "is not a range"),
    ({"design": "random", "num": 4, "gpu_mttf": {"linspace": ["2 h", "1 h"]}}, "give a < b"),
    ({"design": "random", "num": 4, "gpu_mttf": {"geomspace": [1, 2], "n": 3}}, "not a range"),
    ({"design": "random", "num": 4, "model": ["gpt-5"]}, "is not in the catalog"),
    ({"design": "random", "num": 10**9, "gpu_mttf": [1, 2]}, "at most 5,000,000"),
)
def test_a_bad_design_is_refused_in_one_line(spec: dict[str, Any], words: str) -> None:
    refused(words, Sweep, SCENARIO, {"sample": spec}, ["goodput"])


def test_a_design_needs_a_name_of_its_own() -> None:
    with pytest.raises(InputError, match="give it a name that is not an input's"):
        Sweep(SCENARIO, {"gpu_mttf": {"design": "sobol", "num": 4, **RANGES}}, ["goodput"])
