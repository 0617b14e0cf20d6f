"""docs/lookup.md and docs/command-line.md work."""

import contextlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetcube import open_cube
from fleetcube.cli import cli

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "lookup.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lookup")


@pytest.fixture(scope="module")
def scope(folder: Path) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for code in blocks("python"):
            exec(compile(code, "lookup.md", "exec"), scope)
    return scope


def test_the_lookups_are_those_of_the_formulas(scope: dict[str, Any]) -> None:
    one, many = scope["one"], scope["many"]
    inputs = scope["sweep"].spec["scenario"] | {"n_gpus": 3000, "gpu_mttf": "40_000 h"}
    exact = scope["fleetcube"].evaluate("job_time", **inputs)
    assert abs(one["job_time"] - exact) <= one["job_time_error"] < 0.01 * exact
    assert many["goodput"].dims == ("point", "gpu_mttf")


def test_the_reader_reads_what_zarr_reads(scope: dict[str, Any], folder: Path) -> None:
    held = open_cube(folder / "lookup.zarr")["job_time"]
    assert tuple(scope["axes"]) == held.dims
    np.testing.assert_array_equal(scope["job_time"], held)
    chunked = scope["sweep"].to_zarr(folder / "b.zarr", chunks={"n_gpus": 7, "gpu_mttf": 10})
    read, _ = scope["read"](Path(chunked) / "job_time")
    np.testing.assert_array_equal(read, held)


def test_arrow_and_partitions_print_what_the_page_says(
    scope: dict[str, Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("pyarrow", "duckdb", "polars"):
        pytest.importorskip(name)
    monkeypatch.chdir(folder)
    pairs = re.findall(r"```python arrow\n(.*?)```\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(pairs) == len(blocks("python arrow")) == 3
    for code, printed in pairs:
        exec(compile(code, "lookup.md", "exec"), scope)
        assert capsys.readouterr().out == printed


@pytest.fixture(scope="module")
def points(scope: dict[str, Any], folder: Path) -> tuple[Any, Any, Any]:
    """Points within the table, with the values of `interp` and of the formulas."""
    draw = np.random.default_rng(0).uniform
    n_gpus, gpu_mttf = np.exp(draw(np.log([[64], [1.8e7]]), np.log([[16384], [1.8e9]]), (2, 20)))
    at = {"n_gpus": np.rint(n_gpus), "gpu_mttf": gpu_mttf}
    with contextlib.chdir(folder):
        table = scope["fleetcube"].interp(scope["cube"][["goodput"]].load(), at)
    formulas = scope["fleetcube"].function("goodput", scope["sweep"].spec["scenario"], [*at])
    return list(zip(*at.values(), strict=True)), table["goodput"].values, formulas(**at)


def check_readings(found: Any, points: tuple[Any, Any, Any]) -> None:
    """Values as `interp` has them, and errors that hold those of the formulas."""
    values, errors = np.array(found, float).T
    np.testing.assert_allclose(values, points[1], rtol=1e-12)
    assert (abs(values - points[2]) <= errors * 1.01).all()  # of which C prints two digits
    assert errors.max() < 0.0085


def test_c_reads_the_lookup_table(scope: dict[str, Any], folder: Path, points: Any) -> None:
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    (folder / "lookup.c").write_text(blocks("c")[0], encoding="utf-8")
    build = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", "lookup", "lookup.c", "-lm"]
    subprocess.run(build, cwd=folder, check=True)
    rows = [printed(folder, "./lookup", point).split(" +- ") for point in points[0]]
    check_readings(rows, points)
    assert printed(folder, "./lookup", (3000, 144000000)) + "\n" in PAGE
    assert printed(folder, "./lookup", (3, 144000000)) == "nan +- nan"
    ends = (64, 1.8e7), (16384, 1.8e9)
    corners = [printed(folder, "./lookup", point).split()[0] for point in ends]
    held = scope["table"]["goodput"].values
    np.testing.assert_allclose(np.array(corners, float), [held[0], held[-1]], rtol=1e-12)


def test_javascript_reads_the_lookup_table(scope: Any, folder: Path, points: Any) -> None:
    if not shutil.which("node"):
        pytest.skip("no Node")
    (folder / "lookup.mjs").write_text(blocks("js")[0], encoding="utf-8")
    rows = [printed(folder, "node lookup.mjs", point) for point in points[0][:5]]
    pairs = [re.findall(r": ([\d.e-]+)", row) for row in rows]
    check_readings(pairs, tuple(part[:5] for part in points))
    assert printed(folder, "node lookup.mjs", (3000, 144000000)) in PAGE
    assert "NaN" in printed(folder, "node lookup.mjs", (3, 144000000))


@pytest.mark.parametrize("program", ["sqlite3", "duckdb"])
def test_sql_reads_the_lookup_table(scope: Any, folder: Path, points: Any, program: str) -> None:
    asked = ", ".join(f"({float(n)!r}, {float(m)!r})" for n, m in points[0])
    query = blocks("sql")[0].replace("(3000.0, 144000000.0)", asked)
    if program == "duckdb":
        table = pytest.importorskip("duckdb").connect()
        table.execute(f"CREATE TABLE goodput AS FROM '{folder / 'goodput.csv'}'")
        rows = table.execute(query).fetchall()
    else:
        if not shutil.which("sqlite3"):
            pytest.skip("no SQLite")
        (folder / "lookup.sql").write_text(query, encoding="utf-8")
        command = re.findall(
            r"^\$ (sqlite3 .*?\.read lookup.sql\")", PAGE, re.DOTALL | re.MULTILINE
        )
        done = subprocess.run(command[0], shell=True, cwd=folder, capture_output=True, text=True)
        assert not done.stderr
        rows = [line.split("|") for line in done.stdout.splitlines()]
    found = {f"{float(row[1]):.12g}": row[2:] for row in rows}
    check_readings([found[f"{m:.12g}"] for _, m in points[0]], points)


def printed(folder: Path, command: str, point: Any) -> str:
    words = [*command.split(), "goodput.csv", *(f"{number:.17g}" for number in point)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True).stdout.strip()


def test_the_indices_of_salib_are_found(scope: dict[str, Any]) -> None:
    pytest.importorskip("SALib")
    (code,) = blocks("python salib")
    exec(compile(code, "lookup.md", "exec"), scope)
    assert len(scope["indices"]) == 2
    values, order = scope["goodput"](scope["points"]), np.argsort(scope["points"][:, 0])
    bins = values[order].reshape(32, 32).mean(axis=1)  # the variance that n_gpus explains
    np.testing.assert_allclose(scope["indices"][0], bins.var() / values.var(), atol=0.1)


def test_the_tables_are_written_and_duckdb_reads_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(folder)
    (folder / "examples").symlink_to(ROOT / "examples")
    for line in "".join(blocks("sh")).splitlines():
        cli.main(shlex.split(line)[1:], prog_name="fleetcube", standalone_mode=False)
    assert (folder / "jobs.csv").stat().st_size > 1000
    pytest.importorskip("duckdb")
    scope: dict[str, Any] = {}
    for code in blocks("python duckdb"):
        exec(compile(code, "lookup.md", "exec"), scope)
    cube = open_cube("scaling.zarr").sel(gpu_mttf=5e4 * 3600, method="nearest")
    there = cube.job_time.where(cube.infeasible_reason == 0)
    there = there.where(cube.checkpoint_write_bandwidth > 50e9)
    n, fabric, days, layout = scope["best"][-1]
    there = there.sel(n_gpus=n, fabric=fabric).min("checkpoint_write_bandwidth")
    np.testing.assert_allclose(days, there.min() / 86400, rtol=1e-12)
    assert there.layout.values[int(there.argmin("layout"))] == layout


def test_the_page_on_the_command_line_has_its_completion() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for shell in ("bash", "zsh", "fish"):
        assert f"_FLEETCUBE_COMPLETE={shell}_source fleetcube" in text
