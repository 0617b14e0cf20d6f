"""Rows as Arrow streams and as partitioned Parquet, read by DuckDB and Polars."""

import tracemalloc
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.parquet
import pytest

from fleetcube import Settings, Sweep, open_cube
from fleetcube.tables.tables import arrow_table, stream

from .common import refused
from .test_exports import AXES, OUTPUTS, SCENARIO

GROWN = {**AXES, "fabric": [*AXES["fabric"], "infiniband-hdr"]}


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    return Sweep(SCENARIO, AXES, OUTPUTS)


@pytest.mark.parametrize("rows", [1, 3, 4, 100])
def test_a_stream_has_the_rows_of_a_parquet_file(sweep: Sweep, rows: int) -> None:
    """And their order, types, units and attributes, however it is cut."""
    table = arrow_table(sweep.virtual(), False)
    assert stream(sweep.virtual(), rows).read_all().combine_chunks().equals(table)
    assert stream(sweep.virtual(), rows).schema.equals(table.schema, check_metadata=True)
    assert table.schema.field("n_gpus").type == "int64"
    assert table.schema.field("gpu_mttf").metadata[b"units"] == b"s"


def test_libraries_take_the_sweep_itself(sweep: Sweep) -> None:
    expected = sweep.evaluate()
    frame = polars.DataFrame(sweep)
    assert frame["job_time"].to_list() == expected["job_time"].values.reshape(-1).tolist()
    found = duckdb.sql("SELECT fabric, min(job_time) FROM sweep GROUP BY fabric ORDER BY fabric")
    best = expected["job_time"].min(["gpu_mttf", "n_gpus"])
    assert found.fetchall() == [(name, float(best.sel(fabric=name))) for name in AXES["fabric"]]
    assert pyarrow.table(sweep).num_rows == 8


def test_a_stream_of_points_that_cannot_run_leaves_their_rows_out() -> None:
    some = {"n_gpus": [60, 8], "micro_batch_size": [1, 2]}  # 60 GPUs are no multiple of 8
    job = {**SCENARIO, "global_batch_size": 64, "fabric": "infiniband-ndr"}
    sweep = Sweep(job, some, ["job_time"], settings=Settings("numpy", "exclude"))
    assert stream(sweep.virtual(), 2).read_all().column("n_gpus").to_pylist() == [8, 8]


def test_types_do_not_depend_on_whether_a_block_has_rows(tmp_path: Path) -> None:
    """Of texts, in streams and partitions; a stream that began without rows ended in an error."""
    axes = {"n_gpus": [60, 8], "fabric": ["roce-100g", "infiniband-ndr"]}
    job = {**SCENARIO, "global_batch_size": 64}
    sweep = Sweep(job, axes, ["job_time"], settings=Settings("numpy", "exclude"))
    table = stream(sweep.virtual(), 1).read_all()
    assert table.column("fabric").to_pylist() == axes["fabric"]
    assert table.schema == stream(sweep.virtual()).schema
    for path in open_cube(sweep.to_zarr(tmp_path / "a.zarr")).fleetcube.to_parquet(
        tmp_path / "b", "n_gpus"
    ):
        assert pyarrow.parquet.read_schema(path).field("fabric").type == table["fabric"].type


def test_a_grid_larger_than_memory_streams() -> None:
    axes: dict[str, Any] = {"gpu_mttf": {"linspace": [1e7, 1e9], "num": 100_000}}
    axes["checkpoint_write_bandwidth"] = {"linspace": [1e9, 1e12], "num": 100_000}
    sweep = Sweep({**SCENARIO, "n_gpus": 64}, axes, ["goodput"], settings=Settings("numpy"))
    reader = stream(sweep.virtual(), 10_000)
    reader.read_next_batch()  # after which everything is loaded
    tracemalloc.start()
    for _ in range(3):
        assert reader.read_next_batch().num_rows == 10_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6, f"{peak:,} bytes for 10,000 of 10 billion rows"


def test_partitions_are_added_as_a_cube_grows(tmp_path: Path) -> None:
    """What is there stays, ours or not; and queries open no other partition than they ask for."""
    cube, folder = tmp_path / "a.zarr", tmp_path / "rows"
    sweep = Sweep(SCENARIO, AXES, OUTPUTS)
    first = open_cube(sweep.to_zarr(cube)).fleetcube.to_parquet(folder, ["fabric", "n_gpus"])
    assert str(first[0].relative_to(folder)) == "fabric=infiniband-ndr/n_gpus=8/fleetcube.parquet"
    assert len(first) == 4
    notes = [folder / "README.md", folder / "fabric=infiniband-ndr" / "notes.txt"]
    for note in notes:
        note.write_text("mine")
    before = {path: (path.stat().st_ino, path.read_bytes()) for path in first}
    Sweep(SCENARIO, GROWN, OUTPUTS).to_zarr(cube, append=True)
    added = open_cube(cube).fleetcube.to_parquet(folder, ["fabric", "n_gpus"])
    assert {path.parts[-3] for path in added} == {"fabric=infiniband-hdr"}
    assert before == {path: (path.stat().st_ino, path.read_bytes()) for path in first}
    assert [note.read_text() for note in notes] == ["mine", "mine"]
    files = sorted(folder.rglob("*"))
    assert open_cube(cube).fleetcube.to_parquet(folder, ["fabric", "n_gpus"]) == []
    assert sorted(folder.rglob("*")) == files

    values = open_cube(cube)
    every, (broken, *_) = str(folder / "*" / "*" / "*.parquet"), first[2:]
    query = (
        f"FROM read_parquet('{every}', hive_partitioning = true) WHERE fabric = 'infiniband-ndr'"
    )
    whole = duckdb.sql(f"SELECT count(*), sum(job_time) {query[: query.index(' WHERE')]}")
    assert whole.fetchall() == [(12, pytest.approx(float(values["job_time"].sum())))]
    broken.write_bytes(b"no Parquet")
    least = float(values["job_time"].sel(fabric="infiniband-ndr", n_gpus=60).min())
    found = duckdb.sql(f"SELECT min(job_time) {query} AND n_gpus = 60").fetchall()
    assert found == [(least,)]
    lazy = polars.scan_parquet(every, hive_partitioning=True)
    cut = lazy.filter(polars.col("fabric") == "infiniband-ndr", polars.col("n_gpus") == 60)
    assert cut.select(polars.col("job_time").min()).collect().item() == least


def test_partitions_of_other_rows_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    cube = Sweep(SCENARIO, AXES, OUTPUTS).evaluate()
    assert len(cube.fleetcube.to_parquet(folder, "n_gpus")) == 2
    names = sorted(folder.rglob("*"))
    grown = Sweep(SCENARIO, GROWN, OUTPUTS).evaluate()
    refused("holds other rows; .* partition by it", grown.fleetcube.to_parquet, folder, "n_gpus")
    other = Sweep({**SCENARIO, "training_tokens": 1e12}, GROWN, OUTPUTS).evaluate()
    refused("holds other rows", other.fleetcube.to_parquet, folder, "n_gpus")
    first = folder / "n_gpus=8" / "fleetcube.parquet"
    before = first.read_bytes()
    first.write_bytes(b"notes")
    refused("holds other rows", cube.fleetcube.to_parquet, folder, "n_gpus")
    assert first.read_bytes() == b"notes"
    first.write_bytes(before)
    assert sorted(folder.rglob("*")) == names
    refused(
        "by: 'fabrc' is no axis; did you mean 'fabric'", cube.fleetcube.to_parquet, folder, "fabrc"
    )


def test_folders_of_two_units_or_orders_are_not_mixed(tmp_path: Path) -> None:
    """50000 of hours and 180000000 of seconds were folders of one column."""
    axes = {"gpu_mttf": ["50_000 h", "100_000 h"], "n_gpus": [8, 60]}
    cube, folder = Sweep(SCENARIO, axes, ["job_time"]).evaluate(), tmp_path / "rows"
    assert len(cube.fleetcube.to_parquet(folder, "gpu_mttf")) == 2
    names = sorted(folder.rglob("*"))
    hours = cube.fleetcube.to_units({"gpu_mttf": "h"})
    told = r"holds rows by gpu_mttf \[s\], not by gpu_mttf \[h\]; choose another folder"
    refused(told, hours.fleetcube.to_parquet, folder, "gpu_mttf")
    refused("not by n_gpus, gpu_mttf", cube.fleetcube.to_parquet, folder, ["n_gpus", "gpu_mttf"])
    assert sorted(folder.rglob("*")) == names
    assert cube.fleetcube.to_parquet(folder, "gpu_mttf") == []
    assert len(hours.fleetcube.to_parquet(tmp_path / "hours", "gpu_mttf")) == 2


def test_a_partition_is_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    cube = Sweep(SCENARIO, AXES, OUTPUTS).evaluate()
    with monkeypatch.context() as patch:
        patch.setattr(pyarrow.parquet.ParquetWriter, "write_batch", full)
        with pytest.raises(OSError, match="No space"):
            cube.fleetcube.to_parquet(tmp_path / "rows", "fabric")
    assert not [path for path in (tmp_path / "rows").rglob("*") if path.is_file()]
    assert len(cube.fleetcube.to_parquet(tmp_path / "rows", "fabric")) == 2


def test_labels_of_every_kind_name_folders(tmp_path: Path) -> None:
    """As hive names them: quoted, whole numbers without a point."""
    axes = {"sequence_parallel": [True, False], "gpu_mttf": ["10_000 h", "0.5 s"]}
    axes["where"] = {"labels": ["a/b = 50 %", "c"], "n_gpus": [8, 64]}  # type: ignore[assignment]
    cube = Sweep({**SCENARIO, "fabric": "infiniband-ndr"}, axes, ["job_time"]).evaluate()
    files = cube.fleetcube.to_parquet(tmp_path, ["where", "gpu_mttf", "sequence_parallel"])
    names = [path.relative_to(tmp_path).parts[:-1] for path in files]
    assert names[0] == (
        "where=a%2Fb%20%3D%2050%20%25",
        "gpu_mttf=36000000",
        "sequence_parallel=true",
    )
    assert names[-1] == ("where=c", "gpu_mttf=0.5", "sequence_parallel=false")
    found = duckdb.sql(f"SELECT DISTINCT \"where\" FROM '{tmp_path}/*/*/*/*.parquet' ORDER BY 1")
    assert found.fetchall() == [("a/b = 50 %",), ("c",)]


def test_a_partition_in_other_units_has_other_rows(sweep: Sweep, tmp_path: Path) -> None:
    cube = sweep.evaluate()
    cube.fleetcube.to_parquet(tmp_path, "fabric")
    cube["job_time"].attrs["units"] = "h"
    refused("holds other rows", cube.fleetcube.to_parquet, tmp_path, "fabric")
