"""Tables for other tools: content and units of each format, and refusals."""

import csv
import io
import json
import zipfile
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet
import pytest
import xarray

from fleetcube import Settings, Sweep, open_cube
from fleetcube.catalog import units
from fleetcube.grid.errors import InputError
from fleetcube.scenario import dates
from fleetcube.tables import tables as slicing

from .common import Patch, cases, refused

SCENARIO: dict[str, Any] = {"model": "llama-3-8b", "node": "dgx-h100", "tensor_parallel": 8}
AXES: dict[str, Any] = dict(
    fabric=["infiniband-ndr", "roce-100g"], gpu_mttf=["10_000 h", "50_000 h"], n_gpus=[8, 60]
)
OUTPUTS = ["job_time", "dominant_overhead", "goodput"]
AXES_SAID = ["fabric", "gpu_mttf [s]", "n_gpus"]


@pytest.fixture(scope="module")
def cube() -> xarray.Dataset:
    return Sweep(SCENARIO, AXES, OUTPUTS).evaluate()


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_tables_say_when_jobs_end_that_start_on_a_day(tmp_path: Path) -> None:
    job = {**SCENARIO, "n_gpus": 8, "fabric": "infiniband-ndr", "start_date": "2027-01-31"}
    found = Sweep(job, {}, ["job_time"]).prediction_interval()
    slicing.export(found, tmp_path / "x.csv")
    (row,) = rows((tmp_path / "x.csv").read_text())
    assert row["ends on"] == dates.end(date(2027, 1, 31), found["job_time"].item())
    names = ("job_time_low", "job_time_high")
    ends = [dates.end(date(2027, 1, 31), found[name].item()) for name in names]
    assert row["ends on: 90 %"] == " to ".join(ends)


def test_rows_that_cannot_run_are_left_out_with_their_values(tmp_path: Path) -> None:
    some = {"n_gpus": [8, 60], "micro_batch_size": [1, 2]}  # 60 GPUs are no multiple of 8
    job = {**SCENARIO, "global_batch_size": 64, "fabric": "infiniband-ndr"}
    for outputs, left in ((["job_time"], 2), (["job_time", "it_power"], 0)):
        sweep = Sweep(job, some, outputs)
        for how, out in (("exclude", left), ("mark", 0)):
            found = sweep.evaluate(settings=Settings("numpy", how))
            slicing.export(found, tmp_path / "x.csv", overwrite=True)
            slicing.export(found, tmp_path / "x.parquet", overwrite=True)
            assert len(rows((tmp_path / "x.csv").read_text())) == 4 - out
            assert pyarrow.parquet.read_table(tmp_path / "x.parquet").num_rows == 4 - out
            assert slicing.left_out(found, tmp_path / "x.csv") == out


def test_a_table_is_replaced_once_the_new_one_is_complete(
    cube: xarray.Dataset, tmp_path: Path, monkeypatch: Patch
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("mine", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr("pandas.DataFrame.to_csv", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            slicing.export(cube, path, overwrite=True)
    assert [own.read_text(encoding="utf-8") for own in tmp_path.iterdir()] == ["mine"]
    slicing.export(cube, path, overwrite=True)
    assert len(rows(path.read_text(encoding="utf-8"))) == 8
    refused("exists; choose another name", slicing.export, cube, path)


def test_errors_of_netcdf(cube: xarray.Dataset, tmp_path: Path, monkeypatch: Patch) -> None:
    def write(_: Any, path: Path) -> None:
        raise RuntimeError("NetCDF: HDF error")  # of a full disk

    monkeypatch.setattr("xarray.Dataset.to_netcdf", write)
    told = r"cannot write '.*' \(NetCDF: HDF error; is the disk full"
    refused(told, slicing.export, cube, tmp_path / "x.nc")


def test_csv_has_axes_and_variables_with_units(cube: xarray.Dataset, tmp_path: Path) -> None:
    slicing.export(cube, tmp_path / "a.csv")
    found = rows((tmp_path / "a.csv").read_text(encoding="utf-8"))
    heads = ["job_time [s]", "dominant_overhead", "goodput", "infeasible_reason"]
    assert (list(found[0]), len(found)) == ([*AXES_SAID, *heads], 8)
    for row in found:
        at = {"fabric": row["fabric"], "gpu_mttf": float(row["gpu_mttf [s]"])}
        point = cube.sel(at | {"n_gpus": float(row["n_gpus"])})
        assert float(row["job_time [s]"]) == point.job_time
        divides = float(row["n_gpus"]) % 8 == 0
        assert row["infeasible_reason"] == ("feasible" if divides else "gpus_not_divisible")
        words = cube.dominant_overhead.attrs["flag_meanings"].split()
        assert row["dominant_overhead"] == words[int(point.dominant_overhead)]


def test_an_axis_cut_to_one_value_stays_in_the_csv(cube: xarray.Dataset, tmp_path: Path) -> None:
    slicing.export(cube.isel(fabric=1, n_gpus=0)[["goodput"]], tmp_path / "a.csv")
    found = rows((tmp_path / "a.csv").read_text(encoding="utf-8"))
    assert [(row["fabric"], row["n_gpus"]) for row in found] == [("roce-100g", "8")] * 2
    slicing.export(cube.isel(fabric=1, n_gpus=0, gpu_mttf=1), tmp_path / "b.csv")
    (row,) = rows((tmp_path / "b.csv").read_text(encoding="utf-8"))
    assert float(row["gpu_mttf [s]"]) == 50_000 * 3600


def test_csv_keeps_what_says_the_meaning_of_a_row(tmp_path: Path) -> None:
    levers = Sweep(SCENARIO | {"n_gpus": 64}, {}, ["goodput"]).rank_inputs("goodput")
    slicing.export(levers, tmp_path / "a.csv")
    found = rows((tmp_path / "a.csv").read_text(encoding="utf-8"))
    told = {row["input"]: (row["units"], float(row["value"])) for row in found}
    assert told["gpu_mttf"] == ("s", float(levers["value"].sel(input="gpu_mttf")))


def test_parquet_holds_codes_units_and_meanings(cube: xarray.Dataset, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "a.parquet"
    slicing.export(cube, path)
    schema = parquet.read_schema(path)
    assert schema.names[:6] == [*AXES, *OUTPUTS]
    assert schema.names[6:] == ["infeasible_reason"], "narrow"
    assert schema.field("job_time").metadata[b"units"] == b"s"
    slicing.export(cube, tmp_path / "b.parquet", whole=True)
    wide = parquet.read_schema(tmp_path / "b.parquet")
    assert wide.field("inter_node_bandwidth").metadata[b"units"] == b"B/s"
    about = schema.field("infeasible_reason").metadata
    codes, words = (about[name].decode().split() for name in (b"flag_values", b"flag_meanings"))
    assert dict(zip(codes, words, strict=True))["0"] == "feasible"
    assert json.loads(schema.metadata[b"fleetcube_spec"])["outputs"] == OUTPUTS
    frame = pandas.read_parquet(path)
    assert frame["infeasible_reason"].dtype == np.int8
    held = frame.set_index([*AXES])["job_time"].to_xarray()
    np.testing.assert_array_equal(held.sel({name: cube[name] for name in AXES}), cube.job_time)
    duckdb = pytest.importorskip("duckdb")
    query = f"SELECT count(*) FROM '{path}' WHERE infeasible_reason = 0"
    assert duckdb.sql(query).fetchall() == [(4,)]


def sheet(path: Path, number: int = 1) -> list[dict[str, tuple[str, str]]]:
    """Rows of an Excel sheet: the type and value of each cell, formulas marked."""
    space = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
    with zipfile.ZipFile(path) as parts:
        inside = {name: ElementTree.fromstring(parts.read(name)) for name in parts.namelist()}
    texts = ["".join(own.itertext()) for own in inside["xl/sharedStrings.xml"]]
    found = []
    for row in inside[f"xl/worksheets/sheet{number}.xml"].iter(f"{space}row"):
        cells: dict[str, tuple[str, str]] = {}
        for cell in row:
            column = "".join(char for char in cell.get("r", "") if char.isalpha())
            kind = "formula" if cell.find(f"{space}f") is not None else cell.get("t", "n")
            held = cell.findtext(f"{space}v", "")
            cells[column] = (kind, texts[int(held)] if kind == "s" else held)
        found.append(cells)
    heads = {column: text for column, (_, text) in found[0].items()}
    return [{heads[column]: cell for column, cell in row.items()} for row in found[1:]]


def test_excel_holds_numbers_as_numbers_and_no_formula(tmp_path: Path) -> None:
    pytest.importorskip("xlsxwriter")
    labels = ["=1+1", "+2", "@x", "http://a.b", "007"]
    axes = {"how": {"labels": labels, "n_gpus": [8, 16, 32, 64, 128]}}
    job = {**SCENARIO, "fabric": "infiniband-ndr"}
    small = Sweep(job, axes, ["goodput", "dominant_overhead"]).evaluate()
    small["goodput"][1] = np.nan
    slicing.export(small, tmp_path / "a.xlsx", whole=True)
    found = sheet(tmp_path / "a.xlsx")
    assert [row["how"] for row in found] == [("s", text) for text in labels]
    assert [row["n_gpus"] for row in found] == [("n", str(n)) for n in (8, 16, 32, 64, 128)]
    assert float(found[0]["goodput"][1]) == pytest.approx(float(small["goodput"][0]), rel=1e-12)
    assert "goodput" not in found[1], "NaN is an empty cell"
    assert found[0]["infeasible_reason"] == ("s", "feasible")


def test_excel_has_units_of_a_planner_and_si_on_its_second_sheet(tmp_path: Path) -> None:
    """Ends of an interval in the unit of their middle; lifetimes in hours, as on the screen."""
    pytest.importorskip("xlsxwriter")
    job = {"model": "llama-3-8b", "node": "dgx-h100", "n_gpus": 64, "gpu_mttf": "50000 h"}
    small = Sweep(job, {"n_gpus": [64, 128]}, ["job_time", "memory_per_gpu"]).prediction_interval()
    slicing.export(small, tmp_path / "a.xlsx")
    for si, day, giga in ((False, 86400.0, 1e9), (True, 1.0, 1.0)):
        for k, row in enumerate(sheet(tmp_path / "a.xlsx", si + 1)):
            for name, factor, unit in (
                *((f"job_time{end}", day, "s" if si else "d") for end in ("", "_low", "_high")),
                ("memory_per_gpu", giga, "B" if si else "GB"),
            ):
                cell = float(row[f"{name} [{unit}]"][1])
                assert cell * factor == pytest.approx(small[name].values[k], rel=1e-12)


def test_counts_are_whole_numbers_and_missing_ones_empty(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    sweep = Sweep(SCENARIO, {"n_gpus": [8, 64]}, ["goodput"])
    made = sweep.solve("n_gpus", "cluster_mtbf = 1 h", between=[8, 64])
    half = xarray.Dataset({"n_gpus": ("row", [8.0, np.nan]), "goodput": ("row", [0.5, 1.0])})
    assert made["n_gpus"].isnull().all(), "no answer is a missing count"
    for ending in (".csv", ".parquet"):
        slicing.export(half, tmp_path / f"a{ending}")
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == "n_gpus,goodput\n8,0.5\n,1.0\n"
    assert pandas.read_parquet(tmp_path / "a.parquet")["n_gpus"].tolist() == [8, pandas.NA]
    slicing.export(Sweep(SCENARIO, AXES, ["goodput"]).evaluate(), tmp_path / "a.json")
    told = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["coords"]["n_gpus"]["data"]
    assert [type(n) for n in told] == [int, int]


@pytest.mark.parametrize("ending", [".parquet", ".xlsx"])
def test_extras_are_missed_first(ending: str, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(slicing, "find_spec", lambda name: None)
    told = r"needs an extra; run: pip install 'fleetcube\[table\]'"
    refused(told, slicing.check_target, tmp_path / f"a{ending}")


def test_a_sheet_that_would_be_too_long_is_refused() -> None:
    slicing.check_sheet(Path("a.xlsx"), {"n": 1_048_575})
    slicing.check_sheet(Path("a.parquet"), {"n": 1_048_576})
    with pytest.raises(InputError, match="1,048,576 rows, and a sheet holds 1,048,575; cut axes"):
        slicing.check_sheet(Path("a.xlsx"), {"n": 1024, "m": 1024})


def test_parquet_of_one_point_is_one_row(cube: xarray.Dataset, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    slicing.export(cube.isel(fabric=0, n_gpus=0, gpu_mttf=0), tmp_path / "a.parquet")
    (row,) = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert row["fabric"] == "infiniband-ndr"
    assert "point" not in row


def test_a_dash_is_standard_output(cube: xarray.Dataset, tmp_path: Path, capsys: Any) -> None:
    slicing.check_target(Path("-"))
    slicing.export(cube, Path("-"))
    printed = capsys.readouterr().out
    slicing.export(cube, tmp_path / "a.csv")
    assert printed == (tmp_path / "a.csv").read_text(encoding="utf-8")


def test_a_file_that_is_there_is_refused_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="exists; choose another name or --overwrite"):
        slicing.check_target(tmp_path / "a.csv")
    with pytest.raises(InputError, match="or write - for CSV to standard output"):
        slicing.check_target(Path("/dev/stdout"))


@cases(
    "unit, value, shown",
    ("USD", 83.09e6, "83.09 M USD"),
    ("USD", 250_000.0, "250,000 USD"),
    ("W", 6_266_880.0, "6.267 MW"),
    ("W", 10_200.0, "10.2 kW"),
    ("J", 1.546e14, "42.94 GWh"),  # 1 GWh = 3.6e12 J
    ("kg", 1.718e7, "17,180 t"),
    ("USD/J", 0.08 / 3.6e6, "0.08 USD/kWh"),
    ("kg/J", 0.4 / 3.6e6, "400 g/kWh"),
)
def test_amounts_are_told_in_units_of_a_planner(unit: str, value: float, shown: str) -> None:
    factor, said = slicing.scale(unit, [value])
    assert f"{slicing.numbers([value / factor])[0]} {said}" == shown


def test_only_times_are_told_in_hours() -> None:
    assert slicing.scale("s", [86400.0], "gpu_mttf") == (3600.0, "h")
    assert slicing.scale("1/s", [1e-9], "d_goodput_d_gpu_mttf") == (1.0, "1/s")
    assert slicing.scale("h", [50_000.0], "gpu_mttf") == (1.0, "h")


@cases(
    "base, factor, unit", *((base, *row) for base, held in slicing.SCALES.items() for row in held)
)
def test_what_is_printed_can_be_read_back(base: str, factor: float, unit: str) -> None:
    assert units.parse(f"1 {unit}", base, "x") == pytest.approx(factor, rel=1e-12)


@cases(
    "column, told",
    ([1024, 4096], ["1,024", "4,096"]),
    ([6_266_880, 12_533_760], ["6,266,880", "12,533,760"]),
    ([620.3, 90.99, 32.6], ["620.3", "90.99", "32.60"]),
    ([0.5, 1, 2], ["0.5", "1", "2"]),
    ([2, 2.25, 0], ["2.00", "2.25", "0"]),
    ([9.99996, 12345.67], ["10.00", "12,346"]),
    ([1e-5, 0.5], ["1e-05", "0.5"]),
    ([22.24, 30.15, 1e61], ["22.24", "30.15", "1.000e+61"]),
    ([1024, 4096, 1e61], ["1,024", "4,096", "1.000e+61"]),
    ([1e-6, 2e-6, 0.5], ["1e-06", "2e-06", "5e-01"]),
    ([70_553_706_496, 0], ["7.055e+10", "0"]),
    ([1.5e13, 3e13], ["1.5e+13", "3.0e+13"]),
    ([-1.5, np.nan, np.inf, 2], ["-1.5", "nan", "inf", "2.0"]),
    ([], []),
)
def test_the_numbers_of_a_column_have_one_format(column: list[float], told: list[str]) -> None:
    assert slicing.numbers(column) == told


def test_a_table_has_its_axes_in_their_order(cube: xarray.Dataset) -> None:
    late = cube[["goodput", "job_time"]]  # goodput has no fabric
    assert "fabric" not in late.goodput.dims
    assert slicing.table(late)[0][:4] == ["fabric", "gpu_mttf [h]", "n_gpus", "goodput"]
    heads, body = slicing.table(cube)
    assert heads[-1] == "feasible"
    at = dict(zip(heads, body[5], strict=True))  # the last axis is fastest
    assert (at["fabric"], at["gpu_mttf [h]"], at["n_gpus"]) == ("roce-100g", "10,000", "60")
    assert at["feasible"] == "no: gpus_not_divisible"


@pytest.mark.parametrize("origin", ["evaluate", "virtual", "lazy", "stored", "feasible", "slice"])
def test_flags_in_netcdf_have_codes_of_their_type_and_mark_what_is_missing(
    origin: str, tmp_path: Path
) -> None:
    netcdf = pytest.importorskip("netCDF4")
    job = {**SCENARIO, "fabric": "roce-100g"}
    axes = {"n_gpus": [8, 60, 64]}
    sweep = Sweep(job, axes, ["dominant_overhead"], settings=Settings(infeasible="exclude"))
    if origin in ("stored", "slice"):
        given = open_cube(sweep.to_zarr(tmp_path / "a.zarr"))
    elif origin == "feasible":
        whole = Sweep(job, axes, ["dominant_overhead"]).evaluate(
            settings=Settings(infeasible="mark")
        )
        given = whole.fleetcube.feasible()
    else:
        given = getattr(sweep, origin)()
    if origin == "slice":
        slicing.export(given, tmp_path / "a.nc")
    else:
        given.to_netcdf(tmp_path / "a.nc")
    given.to_zarr(tmp_path / "copy.zarr", zarr_format=3, consolidated=False)
    with netcdf.Dataset(tmp_path / "a.nc") as file:
        flags = file["dominant_overhead"]
        assert flags.dtype == flags.flag_values.dtype == np.int8
        assert flags[:].mask.tolist() == [False, True, False]
        if "infeasible_reason" in file.variables:
            assert "_FillValue" not in file["infeasible_reason"].ncattrs()
            assert file["infeasible_reason"].flag_values.dtype == np.int8
    assert np.isnan(xarray.load_dataset(tmp_path / "a.nc")["dominant_overhead"][1])
    for copy in ("a.nc", "copy.zarr"):
        back = open_cube(tmp_path / copy, verify=False)["dominant_overhead"]
        assert (back.dtype, back.attrs["flag_values"].dtype) == (np.int8, np.int8)
        np.testing.assert_array_equal(back, given["dominant_overhead"])
