"""The wheel contains everything that runs, and nothing else."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

import fleetcube
from fleetcube.grid import errors
from fleetcube.scenario import citations

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOLDERS = {"src/fleetcube": ""} | {
    name: f"{name}/" for name in ("kernels", "grid", "catalog", "examples")
}
NO_BUILDER = re.compile(
    "No matching distribution|Could not find a version|ConnectionError|No module"
)


def new_setuptools() -> bool:
    held = next(iter(distributions(name="setuptools")), None)
    return held is not None and int(held.version.partition(".")[0]) >= 77


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from a copy of the sources, as `pip install .` builds it."""
    source, built = (tmp_path_factory.mktemp(name) for name in ("source", "wheel"))
    for folder in FOLDERS:
        leave = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, ignore=leave)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    here = ["--no-build-isolation"] if new_setuptools() else []
    pip = [sys.executable, "-m", "pip", "wheel", "--retries=0", "--timeout=10", "--no-deps", *here]
    done = subprocess.run(
        [*pip, "-w", built, source], capture_output=True, text=True, cwd=built, timeout=600
    )
    if done.returncode != 0 and NO_BUILDER.search(done.stderr):
        pytest.skip("setuptools >= 77 is neither installed nor to be had")
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(built.glob("*.whl")))


@pytest.mark.slow
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


@pytest.mark.slow
def test_it_says_what_it_needs_and_offers(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    about = wheel.read(name).decode()
    needed = re.findall(r"^Requires-Dist: ([\w.-]+)[^;\n]*$", about, re.MULTILINE)
    for extra in (
        "distributed",
        "icechunk",
        "jax",
        "matplotlib",
        "obstore",
        "pyarrow",
        "pytest",
        "SALib",
    ):
        assert extra not in needed
        assert re.search(rf"^Requires-Dist: {extra}\b.*; extra ==", about, re.MULTILINE)
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    points = wheel.read(name).decode()
    assert "fleetcube = fleetcube.__main__:main" in points
    assert "[xarray.backends]" in points


@pytest.mark.slow
def test_what_is_in_it_runs(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    script = (
        "import fleetcube, sys\n"
        "from fleetcube.calibration.measurements import read_records\n"
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


@pytest.mark.slow
def test_it_runs_from_the_archive_itself(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Without files of its own: so does an installation that nobody can write to."""
    archive = str(wheel.filename)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import fleetcube\n"
        "assert fleetcube.__file__.startswith(sys.argv[1]), fleetcube.__file__\n"
        "cube = fleetcube.evaluate(['job_time'], model='llama-3-8b', node='dgx-h100',\n"
        "    n_gpus=[64, 128], settings=fleetcube.Settings('numba'))\n"
        "assert '@article' in fleetcube.citations(cube)\n"
        "assert 'goodput' in str(fleetcube.explain('goodput'))\n"
    )
    words = [sys.executable, "-c", script, archive]
    fresh = {**os.environ, "FLEETCUBE_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=tmp_path, env=fresh, timeout=600
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_source_archive_has_what_tests_and_pages_read(tmp_path: Path) -> None:
    pytest.importorskip("build")
    if not (ROOT / ".git").exists():
        pytest.skip("this is an unpacked archive: what belongs into one is not known here")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    here = ["--no-isolation"] if new_setuptools() else []
    build = [sys.executable, "-m", "build", "--sdist", *here, "-o", tmp_path / "dist"]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    if done.returncode != 0 and NO_BUILDER.search(done.stdout + done.stderr):
        pytest.skip("setuptools >= 77 is neither installed nor to be had")
    assert done.returncode == 0, done.stderr
    with tarfile.open(next((tmp_path / "dist").glob("*.tar.gz"))) as archive:
        found = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert files - found == {".gitignore"}
    made = {"PKG-INFO", "setup.cfg"}
    assert {name for name in found - files if ".egg-info/" not in name} == made


def test_the_citation_file_is_of_this_version_and_title() -> None:
    yaml = pytest.importorskip("yaml")
    stated = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert stated["version"] == PROJECT["version"] == fleetcube.__version__
    assert stated["license"] == PROJECT["license"]
    own = citations._program_entry(PROJECT["version"])
    assert stated["title"] == re.sub("[{}]", "", re.search("title = {(.*)},", own)[1])  # type: ignore[index]


def test_the_changelog_begins_with_this_version() -> None:
    """`.ci/release` refuses a tag whose version has no date, or another than the citation file."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = text.split("\n## ")[1]
    found = re.match(r"([\d.]+) \((unreleased|20\d\d-\d\d-\d\d)\)\n", newest)
    assert found
    assert found[1] == PROJECT["version"]
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert found[2] == "unreleased" or f"\ndate-released: {found[2]}\n" in cited
    assert "\n### Results changed\n" in newest


def test_the_conda_recipe_asks_for_the_same() -> None:
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["package"] == {"name": "fleetcube", "version": PROJECT["version"]}
    assert recipe["about"]["summary"] == PROJECT["description"]
    named = {
        "SALib": "salib",
        "dask": "dask-core",
        "matplotlib": "matplotlib-base",
    }  # at conda-forge

    def asked(requirements: list[str]) -> set[str]:
        parts = [re.fullmatch(r"([\w-]+)(>=[\d.]+)", each) for each in requirements]
        return {f"{named.get(part[1], part[1])} {part[2]}" for part in parts if part}

    python = f"python {PROJECT['requires-python']}"
    assert set(recipe["requirements"]["run"]) == {python, *asked(PROJECT["dependencies"])}
    extras = PROJECT["optional-dependencies"].values()
    offered = asked([requirement for extra in extras for requirement in extra])
    assert set(recipe["requirements"]["run_constraints"]) <= offered
    named_there = {each.partition(" ")[0] for each in recipe["requirements"]["run_constraints"]}
    assert named_there >= {named.get(each, each) for each in errors._EXTRAS}
    (script,) = recipe["build"]["python"]["entry_points"]
    assert script == f"fleetcube = {PROJECT['scripts']['fleetcube']}"


ADDRESS = "https://git.example/someone/fleetcube"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of all that holds addresses or links, outside of this checkout."""
    if not (ROOT / ".github").exists():
        pytest.skip("this is an installed package")
    for name in (".ci", ".github", "recipe"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("pyproject.toml", "CITATION.cff", "SECURITY.md", "MAINTAINERS.md", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def called(checkout: Path, script: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, checkout / ".ci" / script, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_one_command_fills_in_every_address(checkout: Path) -> None:
    yaml = pytest.importorskip("yaml")
    assert "no address of a repository" in called(checkout, "addresses", "fleetcube").stderr
    assert called(checkout, "addresses", ADDRESS).returncode == 0
    for path in (each for each in checkout.rglob("*") if each.is_file()):
        text = path.read_text(encoding="utf-8")
        waiting = re.search("https://ADDRESS|@OWNER", text)
        assert not waiting or path.name == "addresses", f"{path} is not in WAITING"
    urls = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    assert urls["Repository"] == ADDRESS
    assert set(urls) > {"Documentation", "Issues", "Changelog"}
    cited, recipe, issues = (
        yaml.safe_load((checkout / name).read_text("utf-8"))
        for name in ("CITATION.cff", "recipe/recipe.yaml", ".github/ISSUE_TEMPLATE/config.yml")
    )
    assert cited["repository-code"] == recipe["about"]["repository"] == ADDRESS
    assert issues["contact_links"][0]["url"].startswith(ADDRESS)
    assert f"**Contact:** <{ADDRESS}/" in (checkout / "SECURITY.md").read_text("utf-8")
    assert "\n* @someone\n" in (checkout / ".github" / "CODEOWNERS").read_text("utf-8")


def test_an_index_gets_a_readme_whose_links_are_absolute(checkout: Path) -> None:
    before = (checkout / "README.md").read_text("utf-8")
    assert "run .ci/addresses first" in called(checkout, "links").stderr
    assert (checkout / "README.md").read_text("utf-8") == before
    called(checkout, "addresses", ADDRESS)
    assert called(checkout, "links").returncode == 0
    told = (checkout / "README.md").read_text("utf-8")
    at = f"/v{PROJECT['version']}/"
    ours, links = (re.findall(r"\]\(([^)\s]+)\)", text) for text in (before, told))
    assert len(links) == len(ours) > 10
    for own, link in zip(ours, links, strict=True):
        kind = "raw" if own.endswith(".png") else "blob"
        assert link == f"{ADDRESS}/{kind}{at}{own}"
        assert (ROOT / own.partition("#")[0]).exists()


def test_workflows_call_what_is_there() -> None:
    yaml = pytest.importorskip("yaml")
    rules = (ROOT / "Makefile").read_text("utf-8")
    paths = [*ROOT.glob(".github/workflows/*.yml")]
    assert {path.stem for path in paths} >= {"benchmarks", "docs", "release", "test"}
    for path in paths:
        flow = yaml.safe_load(path.read_text("utf-8"))
        assert flow["permissions"] == {"contents": "read"}  # jobs that need more say so
        steps = [step for job in flow["jobs"].values() for step in job["steps"]]
        for step in steps:
            assert re.fullmatch(r"[\w./-]+@(v\d+|release/v\d+)", step.get("uses", "a@v1"))
            for script in re.findall(r"\.ci/\w+", step.get("run", "")):
                assert os.access(ROOT / script, os.X_OK), script
            for target in re.findall(r"\bmake (\S+)", step.get("run", "")):
                target = target.replace(".venv/", "$(VENV)/")
                assert re.search(rf"^{re.escape(target)}:", rules, re.MULTILINE), target
    held = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text("utf-8"))
    (install,) = held["python"]["install"]
    assert set(install["extra_requirements"]) <= set(PROJECT["optional-dependencies"])
    assert (ROOT / held["sphinx"]["configuration"]).exists()
    for name in ("dependabot.yml", "ISSUE_TEMPLATE/bug.yml", "ISSUE_TEMPLATE/number.yml"):
        assert yaml.safe_load((ROOT / ".github" / name).read_text("utf-8"))


def test_extras_that_messages_name_are_there() -> None:
    extras = PROJECT["optional-dependencies"]
    for package, (_, extra) in errors._EXTRAS.items():
        assert any(re.match(rf"{package}\b", line) for line in extras[extra]), package
    assert {extra for _, extra in errors._EXTRAS.values()} < set(
        re.findall(r"\w+", extras["all"][0])
    )
