"""Rows of scenarios: the same as alone, in any frame and order; refusals and their places."""

import decimal
import sys
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
import xarray

import fleetcube
from fleetcube import InputError, Settings
from fleetcube.grid.spec import values
from fleetcube.rows import columns, groups
from fleetcube.rows import evaluate_table as module

from ..draws import generator, scaled
from ..table import each
from .common import Patch, on_h100

SCENARIO = on_h100("llama-3-70b", gpu_hour_price=2.5, global_batch_size=1024, training_tokens="15T")
SCENARIO |= {"pipeline_parallel": 8, "tensor_parallel": 4}
# Cells to draw from, and the share of missing ones
DRAWN: dict[str, tuple[list[Any], float]] = {
    "n_gpus": ([512, 1000, "4k"], 0.0),
    "gpu_mttf": (["50_000 h", 3e8, "20000h"], 0.3),  # missing: the default
    "tensor_parallel": ([1, 4, 8], 0.3),  # the scenario
    "mfu": ([0.3, "35 %"], 0.7),  # computed
    "step_time": ([5.0, 12.0], 0.9),  # a quantity, computed
    "zero_stage": ([0, 1, 2, 3], 0.3),
    "sequence_parallel": ([True, False], 0.5),
    "precision": (["bf16", "fp16"], 0.3),
    "model": (["llama-3-70b", "llama-3-405b", "llama-3-8b"], 0.3),
    "node": (["dgx-h100", "dgx-b200"], 0.3),
    "gpu": (["h200-sxm", "a100-sxm-80gb"], 0.7),  # replaces the node's
    "layers": ([80, 32], 0.8),  # voids the model's count of parameters
    "vocab_size": ([32000, 51200], 0.7),  # and this, though it has a default
    "spare_nodes": ([0, 4, 8], 0.6),  # implies an option
    "failure_shape": ([0.8, 1.0, 1.2], 0.6),
}
OUTPUTS = ["job_time", "memory_per_gpu", "dominant_overhead", "d_goodput_d_gpu_mttf"]


@pytest.mark.slow
@pytest.mark.fuzz
def test_every_row_is_to_the_bit_what_it_is_alone(monkeypatch: Patch) -> None:
    monkeypatch.setattr("fleetcube.grid.plan.tiles.BLOCK", 3)  # classes of several blocks
    rng, rows = generator(16), scaled(10, 80)

    def cell(cells: list[Any], gaps: float) -> Any:
        return None if rng.random() < gaps else cells[rng.integers(len(cells))]

    drawn = {name: [cell(*how) for _ in range(rows)] for name, how in DRAWN.items()}
    for row in range(rows // 2):  # many rows of one set of formulas, of several nodes and models
        for name in drawn.keys() - {"n_gpus", "gpu_mttf", "model", "node"}:
            drawn[name][row] = drawn[name][0]
    for mask in (False, True):
        found = fleetcube.evaluate_table(
            drawn,
            OUTPUTS,
            scenario=SCENARIO,
            settings=Settings(infeasible="exclude" if mask else "include"),
        )
        for row in range(rows):
            given = {name: cells[row] for name, cells in drawn.items() if cells[row] is not None}
            alone = fleetcube.evaluate(
                OUTPUTS,
                settings=Settings(infeasible="exclude" if mask else "include"),
                **SCENARIO | given,
            )
            for name in [*OUTPUTS, "infeasible_reason"]:
                one, other = found[name][row], alone[name].values
                assert one.tobytes() == other.tobytes() or np.isnan([one, other]).all(), given
        assert np.isnan(found["job_time"]).any() == mask  # some points are masked


@pytest.mark.machine
@pytest.mark.parametrize("engine", ["numba", "jax"])
def test_the_bits_of_an_engine_do_not_depend_on_the_other_rows(engine: str) -> None:
    mttf = generator(3).uniform(1e8, 4e8, 5)
    mttf[2] = np.nan
    rows = {"n_gpus": [512, 1024, 999, 8, 4096], "gpu_mttf": mttf}
    scenario = {"node": "dgx-h100", "series_psus_per_node": 2}
    found = fleetcube.evaluate_table(
        rows, "cluster_mtbf", scenario=scenario, settings=Settings(engine)
    )
    for row, result in enumerate(found["cluster_mtbf"]):
        given = {name: column[row] for name, column in rows.items() if column[row] == column[row]}
        alone = fleetcube.evaluate("cluster_mtbf", settings=Settings(engine), **scenario | given)
        assert result.tobytes() == alone.values.tobytes()


def test_rows_keep_their_order_and_index_and_may_repeat() -> None:
    frame = pandas.DataFrame(
        {"n_gpus": [512, 1024, 2048, 4096], "precision": ["bf16", None, "fp16", "fp16"]},
        index=["a", "b", "b", "c"],
    )
    before = frame.copy()
    once = fleetcube.evaluate_table(frame, ["job_time"], scenario=SCENARIO)
    picked = [3, 0, 3, 2, 1, 0, 0]
    again = fleetcube.evaluate_table(frame.iloc[picked], ["job_time"], scenario=SCENARIO)
    pandas.testing.assert_frame_equal(again, once.iloc[picked], check_exact=True)
    pandas.testing.assert_frame_equal(frame, before)
    assert list(once) == ["n_gpus", "precision", "job_time", "infeasible_reason"]


def _duckdb(frame: pandas.DataFrame) -> Any:
    return pytest.importorskip("duckdb").connect().from_df(frame)


def _polars(frame: pandas.DataFrame) -> Any:
    cells = frame.astype(object).where(frame.notna(), None)
    polars = pytest.importorskip("polars")
    columns = cells.to_dict("list")
    kept = polars.Series("id", columns.pop("id"), polars.Object)  # no type of Arrow
    return polars.DataFrame(columns, strict=False).with_columns(kept)


KINDS: dict[str, tuple[Any, Any]] = {  # from pandas, and back
    "pandas": (lambda frame: frame, lambda result: result),
    "categories": (lambda frame: frame.astype({"gpu_mttf": "category"}), lambda result: result),
    "objects": (lambda frame: frame.astype(object), lambda result: result),
    "dict": (lambda frame: frame.to_dict("list"), pandas.DataFrame),
    "arrow": (
        lambda frame: pyarrow.Table.from_pandas(frame.astype({"gpu_mttf": "category"})),
        lambda result: result.to_pandas(),
    ),
    "duckdb": (_duckdb, lambda result: result.to_pandas()),
    "polars": (_polars, lambda result: pandas.DataFrame(result.to_dict(as_series=False))),
}


@each("kind", KINDS)
def test_frames_of_every_kind_have_the_same_numbers_and_words(kind: str) -> None:
    to, back = KINDS[kind]
    rows: Any = {"n_gpus": [2048, 1000, 4096], "gpu_mttf": ["50_000 h", None, "50_000 h"]}
    rows = pandas.DataFrame(rows | {"zero_stage": [2, None, 3], "id": ["x", "y", None]})
    frame = to(rows)
    result = fleetcube.evaluate_table(
        frame, "job_time", scenario=SCENARIO, keep="id", settings=Settings(infeasible="exclude")
    )
    assert isinstance(result, pyarrow.Table if kind == "duckdb" else type(frame))
    table = back(result)
    given = ((2048, 2), (4096, 3))
    mine = SCENARIO | {"gpu_mttf": "50_000 h"}
    expected = [
        float(fleetcube.evaluate("job_time", **(mine | dict(n_gpus=n, zero_stage=z))))
        for n, z in given
    ]
    assert table["job_time"][[0, 2]].tolist() == expected
    assert np.isnan(table["job_time"][1])
    words = ["feasible", "gpus_not_divisible", "feasible"]
    assert table["infeasible_reason"].tolist() == ([0, 3, 0] if kind == "dict" else words)
    assert [table["id"].tolist()[:2], list(table)[:4]] == [["x", "y"], list(rows)]


def test_flags_are_categories_of_their_codes_and_missing_where_nobody_can_judge() -> None:
    polars = pytest.importorskip("polars")
    rows: dict[str, Any] = {"n_gpus": [100, 64, 64], "node": ["dgx-h100", None, "dgx-h100"]}
    rows |= {"model": ["llama-3-8b", None, "llama-3-8b"]}  # a layout of what?
    alone = fleetcube.evaluate("data_parallel", n_gpus=100, model="llama-3-8b", node="dgx-h100")
    reason = alone["infeasible_reason"]
    meanings = reason.attrs["flag_meanings"].split()
    codes = [int(reason), -1, 0]
    assert codes[0] > 0
    words = [meanings[codes[0]], None, "feasible"]
    assert fleetcube.evaluate_table(rows, "data_parallel")["infeasible_reason"].tolist() == codes
    flags = fleetcube.evaluate_table(pandas.DataFrame(rows), "data_parallel")["infeasible_reason"]
    assert (flags.cat.categories.tolist(), flags.cat.codes.tolist()) == (meanings, codes)
    arrow = fleetcube.evaluate_table(pyarrow.table(rows), "data_parallel")["infeasible_reason"]
    assert arrow.to_pylist() == words
    enum = fleetcube.evaluate_table(polars.DataFrame(rows), "data_parallel")["infeasible_reason"]
    assert (enum.dtype, enum.to_list()) == (polars.Enum(meanings), words)


def test_units_are_named_and_read() -> None:
    hours = pandas.DataFrame({"gpu_mttf": [50_000.0, np.nan]})
    hours.attrs = {"units": {"gpu_mttf": "h"}, "mine": 1}
    scenario = {"n_gpus": 1024, "series_psus_per_node": 2}
    result = fleetcube.evaluate_table(hours, "cluster_mtbf", scenario=scenario)
    text = fleetcube.evaluate_table(
        {"gpu_mttf": ["50_000 h", None]}, "cluster_mtbf", scenario=scenario
    )
    assert result["cluster_mtbf"].tolist() == text["cluster_mtbf"].tolist()
    assert result.attrs == {"units": {"gpu_mttf": "h", "cluster_mtbf": "s"}, "mine": 1}
    field = pyarrow.field("gpu_mttf", pyarrow.decimal128(9, 1), metadata={"units": "h"})
    column = pyarrow.array([decimal.Decimal("50000.0"), None], field.type)
    arrow = pyarrow.Table.from_arrays([column], schema=pyarrow.schema([field]))
    found = fleetcube.evaluate_table(arrow, "cluster_mtbf", scenario=scenario)
    assert found["cluster_mtbf"].to_pylist() == text["cluster_mtbf"].tolist()
    assert found.schema.field("cluster_mtbf").metadata == {b"units": b"s"}
    for column in (hours["gpu_mttf"], xarray.DataArray([5e4, np.nan], attrs={"units": "h"})):
        series = fleetcube.evaluate_table({"gpu_mttf": column}, "cluster_mtbf", scenario=scenario)
        assert series["cluster_mtbf"].tolist() == text["cluster_mtbf"].tolist()
    hours.attrs = {"units": {"gpu_mttf": "kg"}}
    with pytest.raises(InputError, match="column 'gpu_mttf' is not in s; state its unit, s"):
        fleetcube.evaluate_table(hours, "cluster_mtbf", scenario=scenario)


def test_columns_of_pint_are_read_in_their_unit() -> None:
    pytest.importorskip("pint_pandas")
    scenario = {"n_gpus": 1024, "series_psus_per_node": 2}
    hours = pandas.DataFrame({"gpu_mttf": pandas.array([50_000.0, None], dtype="pint[hour]")})
    found = fleetcube.evaluate_table(hours, "cluster_mtbf", scenario=scenario)["cluster_mtbf"]
    text = fleetcube.evaluate_table(
        {"gpu_mttf": ["50_000 h", None]}, "cluster_mtbf", scenario=scenario
    )
    assert found.tolist() == text["cluster_mtbf"].tolist()


def test_dictionaries_may_repeat_words_and_hold_gaps_and_words_of_no_row() -> None:
    codes = pyarrow.array([0, 1, 2, 3, None], pyarrow.int8())
    words = pyarrow.array(["1e8 s", None, "1e8 s", "2e8 s"])
    arrow = pyarrow.table({"gpu_mttf": pyarrow.DictionaryArray.from_arrays(codes, words)})
    scenario = {"n_gpus": 1024, "series_psus_per_node": 2}
    found = fleetcube.evaluate_table(arrow, "cluster_mtbf", scenario=scenario)[
        "cluster_mtbf"
    ].to_pylist()
    plain = {"gpu_mttf": [1e8, None, 1e8, 2e8, None]}
    expected = fleetcube.evaluate_table(plain, "cluster_mtbf", scenario=scenario)["cluster_mtbf"]
    assert found == expected.tolist()
    unused = pandas.DataFrame({"precision": pandas.Categorical.from_codes([1, -1], ["no", "bf16"])})
    fleetcube.evaluate_table(unused, "cluster_mtbf", scenario=scenario)


def test_work_is_done_by_distinct_cells_and_not_by_rows(monkeypatch: Patch) -> None:
    calls = {"number": 0, "resolve": 0}

    def counted(name: str, function: Any) -> Any:
        def call(*args: Any) -> Any:
            calls[name] += 1
            return function(*args)

        return call

    monkeypatch.setattr(columns.values, "number", counted("number", values.number))
    monkeypatch.setattr(groups, "resolve", counted("resolve", groups.resolve))
    rng, rows = np.random.default_rng(1), 3000
    drawn = {"gpu_mttf": rng.choice(["30_000 h", "50_000 h", None], rows)}
    drawn |= {"straggler_slowdown": np.where(rng.random(rows) < 0.5, np.nan, 0.1)}  # has a default
    drawn |= {"n_gpus": rng.integers(1, 999, rows), "precision": rng.choice(["bf16", "fp16"], rows)}
    fleetcube.evaluate_table(
        pandas.DataFrame(drawn), "cluster_mtbf", scenario={"series_psus_per_node": 2}
    )
    assert calls["number"] < 20
    assert calls["resolve"] == 2  # for each precision


def test_a_frame_may_be_empty_or_without_inputs() -> None:
    empty = fleetcube.evaluate_table(pandas.DataFrame({"n_gpus": []}), "cluster_mtbf")
    assert (list(empty), len(empty)) == (["n_gpus", "cluster_mtbf"], 0)
    scenario = {"n_gpus": 1024, "series_psus_per_node": 2}
    ids = pandas.DataFrame({"id": [1, 2]})
    same = fleetcube.evaluate_table(ids, "cluster_mtbf", scenario=scenario, keep="id")[
        "cluster_mtbf"
    ]
    assert same.tolist() == [float(fleetcube.evaluate("cluster_mtbf", **scenario))] * 2


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ({"n_gpus": [8, -5]}, {}, "row 1, counted from 0: n_gpus = -5.0 must be greater than 0"),
    ({"n_gpus": np.array([8, np.inf])}, {}, "row 1, counted from 0: n_gpus = inf is not finite"),
    ({"n_gpus": ["8", None, "x"]}, {}, 'row 2, counted from 0: n_gpus = "x" does not start'),
    ({"n_gpus": [1, True]}, {}, "row 1, counted from 0: n_gpus = True is not a plain number"),
    ({"n_gpus": [8, [8]]}, {}, "row 1, counted from 0: n_gpus = [8] is not one value"),
    ({"n_gpus": [8, 8j]}, {}, "is not a plain number"),
    (pandas.DataFrame({"n_gpus": [8, 0]}, index=[7, 9]), {}, "from 0 (index 9): n_gpus = 0.0"),
    ({"node": ["dgx-h100", "dgx-h1"]}, {}, "row 1, counted from 0: node = 'dgx-h1' is not in the"),
    ({"zero_stage": [1.5, np.nan]}, {}, "row 0, counted from 0: zero_stage = 1.5 is not one of"),
    ({"gpu_mttf": [1e8, None], "n_gpus": [8, None]}, {}, "1, counted from 0: n_gpus is missing"),
    ({"n_gpus": [8], "id": [1], "gpu_mtft": [1]}, {}, "'id', 'gpu_mtft' (did you mean 'gpu_mttf'"),
    ({"n_gpus": [8], "id": [1]}, {}, "pass them through: keep=['id']"),
    ({"n_gpus": [8], "id": [1]}, {"keep": ["idd"]}, "keep: the frame has no column 'idd'; did you"),
    ({"n_gpus": [8]}, {"keep": 5}, "keep = 5 is not a list of columns"),
    ({"n_gpus": [8], "cluster_mtbf": [1]}, {}, "has a column 'cluster_mtbf' already; drop or"),
    ({"infeasible_reason": [0]}, {}, "column 'infeasible_reason' is a result and cannot be given"),
    ({"n_gpus": [8, 9], "mfu": [1]}, {}, "n_gpus has 2, mfu has 1; give one cell a row"),
    ({"n_gpus": 8}, {}, "column 'n_gpus' = 8 is not a column; give a list"),
    ({"n_gpus": np.ones((2, 2))}, {}, "column 'n_gpus' has 2 dimensions"),
    (pandas.DataFrame([[1, 2]], columns=["mfu", "mfu"]), {}, "two columns 'mfu'; rename one"),
    (pyarrow.table({"n_gpus": [[1]]}), {}, "column 'n_gpus' holds list<item: int64>; give numbers"),
    ([8], {}, "a list is not a frame of rows; give a pandas or Polars DataFrame"),
    ({"n_gpus": [8]}, {"scenario": {"mfu": [3]}}, "mfu = [3] is not a plain number"),
    ({"n_gpus": [8]}, {"scenario": [3]}, "scenario = [3] is not a table of inputs"),
    ({"n_gpus": [8]}, {"settings": "numpy"}, "settings = 'numpy' is not a Settings"),
    ({"n_gpus": [8]}, {"outputs": []}, "name at least one quantity"),
]


@each(("frame", "changed", "told"), REFUSED, ids=[told for *_, told in REFUSED])
def test_refusals_come_before_computing(frame: Any, changed: dict[str, Any], told: str) -> None:
    def computed(*_: Any) -> None:
        raise AssertionError("something was computed")

    arguments = {"outputs": "cluster_mtbf", "scenario": {"series_psus_per_node": 2}, **changed}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "evaluate_block", computed)
        with pytest.raises(InputError) as error:
            fleetcube.evaluate_table(frame, **arguments)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_too_many_sets_of_formulas_are_refused(monkeypatch: Patch) -> None:
    monkeypatch.setattr(groups, "MOST_CASES", 2)
    rows = {"n_gpus": [8, 8, 8], "precision": ["bf16", "fp16", "fp8"]}
    with pytest.raises(InputError, match="the rows need more than 2 sets of formulas"):
        fleetcube.evaluate_table(rows, "cluster_mtbf", scenario={"series_psus_per_node": 2})


def test_frames_but_those_of_pandas_need_arrow(monkeypatch: Patch) -> None:
    arrow = pyarrow.table({"n_gpus": [8]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"not installed; run: pip install 'fleetcube\[table\]'"):
        fleetcube.evaluate_table(arrow, "cluster_mtbf", scenario={"series_psus_per_node": 2})
