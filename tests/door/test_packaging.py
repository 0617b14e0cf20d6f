"""The wheel: everything that runs is in it, nothing else is."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"src/fleetcube": "", "kernels": "kernels/", "grid": "grid/", "catalog": "catalog/"}
NO_BUILDER = re.compile(
    "No matching distribution|Could not find a version|ConnectionError|No module"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from a copy of the sources, as `pip install .` builds it."""
    source, built = (tmp_path_factory.mktemp(name) for name in ("source", "wheel"))
    for folder in FOLDERS:
        leave = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, ignore=leave)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    held = next(iter(distributions(name="setuptools")), None)
    new = held is not None and int(held.version.partition(".")[0]) >= 77
    here = ["--no-build-isolation"] if new else []
    pip = [sys.executable, "-m", "pip", "wheel", "--retries=0", "--timeout=10", "--no-deps", *here]
    done = subprocess.run(
        [*pip, "-w", built, source], capture_output=True, text=True, cwd=built, timeout=600
    )
    if done.returncode != 0 and NO_BUILDER.search(done.stderr):
        pytest.skip("setuptools >= 77 is neither installed nor to be had")
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(built.glob("*.whl")))


def test_every_module_and_every_data_file_is_in_it(wheel: zipfile.ZipFile) -> None:
    expected = {
        f"fleetcube/{prefix}{path.relative_to(ROOT / folder)}"
        for folder, prefix in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == expected
    for name in ("py.typed", "kernels/references.bib", "catalog/data/measured/mosaic.csv"):
        assert f"fleetcube/{name}" in found


def test_it_says_what_it_needs_and_offers(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    about = wheel.read(name).decode()
    needed = re.findall(r"^Requires-Dist: ([\w.-]+)[^;\n]*$", about, re.MULTILINE)
    for extra in ("distributed", "icechunk", "matplotlib", "obstore", "pyarrow", "pytest", "SALib"):
        assert extra not in needed
        assert re.search(rf"^Requires-Dist: {extra}\b.*; extra ==", about, re.MULTILINE)
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    points = wheel.read(name).decode()
    assert "fleetcube = fleetcube.__main__:main" in points
    assert "[xarray.backends]" in points


def test_what_is_in_it_runs(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    script = (
        "import fleetcube, sys\n"
        "from fleetcube.grid.measured.records import read_records\n"
        "assert fleetcube.__file__.startswith(sys.argv[1]), fleetcube.__file__\n"
        "cube = fleetcube.evaluate(['step_time'], model='llama-3-8b', node='dgx-h100',\n"
        "    fabric='roce-100g', n_gpus=[64, 128])\n"
        "assert '@article' in fleetcube.citations(cube)\n"
        "assert len(read_records()[0]) > 500\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
