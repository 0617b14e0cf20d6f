"""Sweeps as values: compared, hashed, copied, pickled, and shown in a notebook."""

import copy
import html.parser
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pint
import pytest
import xarray

from fleetcube import Settings, Sweep, catalog
from fleetcube.grid.spec.axes import coupled_axis
from fleetcube.kernels.physics.graph import PHYSICS

from ..table import each
from .common import on_h100, refused, written

SCENARIO: dict[str, Any] = {"n_gpus": 1024, "series_psus_per_node": 2, "repair_time": "5 h"}
AXES: dict[str, Any] = {"gpu_mttf": ["1 h", "2 h"], "psu_mttf": [3600.0, 7200.0]}
SWEEP = Sweep(SCENARIO, AXES, ["cluster_mtbf"])
TRAINING = on_h100(n_gpus=512)


def _over(entry: Any, name: str = "gpu_mttf") -> Sweep:
    return Sweep(SCENARIO, {name: entry}, ["cluster_mtbf"])


@each(
    "entry",
    [
        [3600, 7200],
        (3600.0, 7200.0),
        np.array([3600.0, 7200.0]),
        np.array([3600, 7200], np.int32),
        np.array([0.0, 3600.0, 1.0, 7200.0])[1::2],
        np.array([3600.0, 7200.0], ">f8"),
        ["1 h", "120 min"],
        {"values": ["1 h", "2 h"]},
        {"linspace": ["1 h", "2 h"], "num": 2},
        {"arange": [3600, 7201, 3600]},
        [1, 2] * pint.UnitRegistry().hour,
    ],
    ids=repr,
)
def test_axes_of_the_same_numbers_are_equal_however_written(entry: Any) -> None:
    sweep, other = _over(entry), _over(["1 h", "2 h"])
    assert (sweep, hash(sweep)) == (other, hash(other))
    assert len({sweep, other, copy.copy(sweep), copy.deepcopy(sweep)}) == 1
    values = (each.evaluate(settings=Settings("numpy"))["cluster_mtbf"] for each in (sweep, other))
    xarray.testing.assert_equal(*values)


@each(
    "other",
    [
        Sweep({**SCENARIO, "n_gpus": 1025}, AXES, ["cluster_mtbf"]),
        Sweep({**SCENARIO, "repair_time": np.nextafter(18000.0, 0)}, AXES, ["cluster_mtbf"]),
        Sweep({**SCENARIO, "spare_nodes": 0.0}, AXES, ["cluster_mtbf"]),
        Sweep(SCENARIO, dict(reversed(AXES.items())), ["cluster_mtbf"]),
        Sweep(SCENARIO, {**AXES, "gpu_mttf": ["2 h", "1 h"]}, ["cluster_mtbf"]),
        Sweep(SCENARIO, {**AXES, "gpu_mttf": [3600, np.nextafter(7200.0, 0)]}, ["cluster_mtbf"]),
        Sweep(SCENARIO, {"both": AXES}, ["cluster_mtbf"]),
        Sweep(SCENARIO, AXES, ["cluster_mtbf", "node_mttf"]),
        Sweep({**SCENARIO, "repair_time": {"uniform": ["4 h", "6 h"]}}, AXES, ["cluster_mtbf"]),
        "cluster_mtbf",
        None,
    ],
    ids=str,
)
def test_what_asks_for_anything_else_is_not_equal(other: Any) -> None:
    assert other != SWEEP
    assert not other == SWEEP  # noqa: SIM201  both operators


def test_order_counts_in_outputs_and_not_in_scenarios() -> None:
    assert Sweep(dict(reversed(SCENARIO.items())), AXES, ["cluster_mtbf"]) == SWEEP
    names = ["cluster_mtbf", "node_mttf"]
    assert Sweep(SCENARIO, AXES, names) != Sweep(SCENARIO, AXES, names[::-1])
    assert Sweep(SCENARIO, AXES, tuple(names)) == Sweep(SCENARIO, AXES, names)


def test_numbers_count_by_their_bits() -> None:
    zero, minus = (Sweep({**SCENARIO, "spare_nodes": n}, {}, ["cluster_mtbf"]) for n in (0.0, -0.0))
    assert zero != minus
    assert _over([0.0, 1.0], "repair_time") != _over([-0.0, 1.0], "repair_time")
    # calibrations that leave an input open hold NaN there, which is itself
    axis = {"calibration": ["aws-p4de", "bridge-gb200-nvfp4"]}
    twice = [Sweep(TRAINING, axis, ["job_time"]) for _ in range(2)]
    held = [row for axis in twice[0]._problem.axes for row in axis.numbers.values()]
    assert any(np.isnan(row).any() for row in held)
    assert (twice[0], hash(twice[0])) == (twice[1], hash(twice[1]))


def test_arrays_changed_afterwards_change_no_sweep() -> None:
    hours, outputs = np.array([3600.0, 7200.0]), ["cluster_mtbf"]
    sweep = Sweep({"n_gpus": 8}, {"both": {"gpu_mttf": hours, "psu_mttf": hours}}, outputs)
    before = sweep.derivatives("cluster_mtbf", "gpu_mttf").values
    number = hash(sweep)
    hours[:] = 1.0
    outputs.append("nothing")
    assert (pickle.loads(pickle.dumps(sweep)), hash(sweep)) == (sweep, number)
    np.testing.assert_array_equal(sweep.derivatives("cluster_mtbf", "gpu_mttf"), before)
    assert sweep.evaluate(settings=Settings("numba")).attrs["fleetcube_spec"].count("7200.0") == 2


def test_pickles_are_small_and_mean_the_same() -> None:
    axis = {"geomspace": ["5_000 h", "500_000 h"], "num": 100_000}
    for sweep in (
        _over(axis),
        Sweep(TRAINING, {"k": {"tensor_parallel": [1, 2], "zero_stage": [1, 3]}}, ["job_time"]),
        Sweep(TRAINING, {"model": ["llama-3-8b", "llama-3-70b"]}, ["job_time"]),
        Sweep(
            {"n_gpus": 8, "gpu_mttf": {"lognormal": ["50_000 h", 1.5]}},
            {"k": coupled_axis(PHYSICS, "k", np.arange(2), {"psu_mttf": np.array([3e6, 4e6])})},
            ["cluster_mtbf"],
        ),
    ):
        sweep.evaluate(settings=Settings("numpy"))  # its tables are not kept
        data = pickle.dumps(sweep)
        again = pickle.loads(data)
        assert type(again) is Sweep
        assert (again, hash(again)) == (sweep, hash(sweep))
        assert len(data) < 1000
        assert again.spec["outputs"] == sweep.spec["outputs"]
        xarray.testing.assert_identical(
            again.evaluate(settings=Settings("numpy")), sweep.evaluate(settings=Settings("numpy"))
        )


def test_pickles_bring_calibration_files_along(tmp_path: Path) -> None:
    about = 'title = "t"\nsource = "s"\ndate = "2026-01"\nnote = "n"\n'
    for name, efficiency in (("a.toml", 0.5), ("b.toml", 0.25)):
        (tmp_path / name).write_text(f"{about}flops_efficiency = {efficiency}\n", encoding="utf-8")
    text = 'outputs = ["job_time"]\n[scenario]\nn_gpus = 512\nmodel = "llama-3-8b"\n'
    text += 'node = "dgx-h100"\nfabric = "infiniband-ndr"\ncalibration = "a.toml"\n'
    written(tmp_path / "spec.toml", text)
    paths = [str(tmp_path / name) for name in ("a.toml", "b.toml")]
    moving = coupled_axis(PHYSICS, "k", np.arange(2), {"calibration": paths})
    sweeps = [
        Sweep.from_file(tmp_path / "spec.toml"),
        Sweep(TRAINING, {"calibration": paths}, ["job_time"]),
        Sweep(TRAINING, {"calibration": {"values": paths}}, ["job_time"]),
        Sweep(TRAINING, {"k": {"calibration": paths, "n_gpus": [64, 512]}}, ["job_time"]),
        Sweep({**TRAINING, "calibration": paths[1]}, {"calibration": paths[:1]}, ["job_time"]),
        Sweep(TRAINING, {"k": moving}, ["job_time"]),
    ]
    found = [sweep.evaluate(settings=Settings("numpy")) for sweep in sweeps]
    whole = sweeps[1].derivatives("job_time", "n_gpus")
    assert float(found[1]["job_time"][1]) > 1.5 * float(found[1]["job_time"][0])
    pickles = [pickle.dumps(sweep) for sweep in sweeps]
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).unlink()
    assert sweeps[1].with_outputs(["mfu"]).evaluate()["mfu"].size == 2  # what it read is kept
    refused("cannot be read", lambda: Sweep(TRAINING, {"calibration": paths}, ["mfu"]))
    for sweep, cube, data in zip(sweeps, found, pickles, strict=True):
        again = pickle.loads(data)
        assert again == sweep
        xarray.testing.assert_identical(again.evaluate(settings=Settings("numpy")), cube)
        assert pickle.loads(pickle.dumps(again)) == sweep
    np.testing.assert_array_equal(pickle.loads(pickles[1]).derivatives("job_time", "n_gpus"), whole)
    record = catalog.record("gpu", "h100-sxm")
    assert pickle.loads(pickle.dumps(record)) == record
    with pytest.raises(TypeError):
        pickle.loads(pickle.dumps(record)).values["gpu_tdp"] = 1.0


_TABLE = ("table", "thead", "tbody", "tr", "th", "td")


class _Page(html.parser.HTMLParser):
    """The elements of a page, and the text of the cells of its tables, by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.used: set[str] = set()
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == [], "an element is not closed"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.used.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open[-1:] in (["td"], ["th"]):
            self.rows[-1][-1] += data


def test_a_notebook_shows_axes_outputs_scenario_and_plan() -> None:
    axes = {"gpu_mttf": ["10_000 h", "20_000 h", "50_000 h"], "n_gpus": [8, 4096]}
    sweep = Sweep({**TRAINING, "repair_time": 7200.0, "pue": 1.3}, axes, ["job_time", "mfu"])
    page = _Page(sweep._repr_html_())
    assert "6 points, 66 B as float64" in page.text  # 6 + 2 float64, and 2 int8
    starts = [row[:5] for row in page.rows]
    assert ["gpu_mttf", "3", "10,000", "50,000", "h"] in starts
    assert ["n_gpus", "2", "8", "4,096", ""] in starts
    assert ["job_time", "(gpu_mttf, n_gpus)", "6", "48 B", "s"] in starts
    assert ["mfu", "(n_gpus)", "2", "16 B", ""] in starts
    assert ["infeasible_reason", "(n_gpus)", "2", "2 B", "flag"] in starts
    assert ["repair_time", "7,200", "s"] in page.rows
    assert ["model", "llama-3-8b", ""] in page.rows
    assert ["engine", "numpy"] in page.rows
    assert ["set but not used", "pue, repair_time"] in page.rows
    assert "script" not in page.used
    for one in (Sweep({"n_gpus": 8}, {}, ["cluster_mtbf"]), SWEEP):
        _Page(one._repr_html_())


def test_labels_of_strangers_stay_text() -> None:
    hostile = ["<script>alert(1)</script>", "</td></table><img src=x onerror='1'>&amp;"]
    layout = {"tensor_parallel": [1, 2], "labels": hostile}
    page = _Page(Sweep({"n_gpus": 8}, {"layout": layout}, ["data_parallel"])._repr_html_())
    assert page.used <= {"style", "div", "span", "details", "summary", *_TABLE}
    assert ["layout", "2", *hostile] in [row[:4] for row in page.rows]
    long = {"tensor_parallel": [1, 2], "labels": ["a" * 5000, "b"]}
    assert len(Sweep({"n_gpus": 8}, {"layout": long}, ["data_parallel"])._repr_html_()) < 5000
