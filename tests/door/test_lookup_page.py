"""docs/lookup.md and docs/command-line.md work."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable
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


@pytest.mark.parametrize("program", ["cc", "node", "sqlite3"])
def test_the_code_prints_what_the_page_says(
    scope: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    if not shutil.which(program):
        pytest.skip(f"no {program}")
    monkeypatch.chdir(folder)
    run(block for block in blocks("sh") if "lookup.zarr" in block)
    (folder / "main.c").write_text(blocks("c")[0], encoding="utf-8")
    head, told = blocks("console")[:2]
    assert (folder / "goodput.c").read_text(encoding="utf-8").startswith(head.partition("\n")[2])
    command, printed = re.findall(rf"^\$ ({program} .*?)\n([\d{{].*?)\n", told, re.M | re.S)[0]
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout == f"{printed}\n", done.stderr


def run(texts: Iterable[str]) -> None:
    """The commands of a page."""
    for line in "".join(texts).splitlines():
        words = [*shlex.split(line)[1:], *(["--overwrite"] if " -o goodput" in line else [])]
        cli.main(words, prog_name="fleetcube", standalone_mode=False)


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
    run(block for block in blocks("sh") if "lookup.zarr" not in block)
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
