"""The generated reference names everything, and its links lead somewhere. Sphinx is not needed."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import pytest

import fleetcube
from fleetcube.catalog import KINDS, kind
from fleetcube.cli import cli
from fleetcube.kernels.graph.formulas import load
from fleetcube.kernels.inputs import INPUTS

SCRIPT = Path(__file__).parents[2] / "docs" / "_reference.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.fixture(scope="module")
def pages(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("site") / "reference"
    script.write(folder)
    return {path.stem: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_every_name_has_one_entry(pages: dict[str, str]) -> None:
    for page, names in (("quantities", load()), ("inputs", INPUTS)):
        found = re.findall(r"^### (\w+) \[", pages[page], re.MULTILINE)
        assert sorted(found) == sorted(names)
    rows = set(re.findall(r"^\| `([\w-]+)` \|", pages["catalog"], re.MULTILINE))
    assert rows == {label for name in KINDS for label in kind(name)}
    assert set(re.findall(r"^## fleetcube (\w+)$", pages["commands"], re.MULTILINE)) == set(
        cli.commands
    )
    made = re.findall(r"^## fleetcube\.(\w+)$", pages["python"], re.MULTILINE)
    assert set(made) == set(fleetcube.__all__) - {"catalog", "kernels"}


def test_every_link_leads_to_an_entry(pages: dict[str, str]) -> None:
    targets = set(re.findall(r"^\(([\w-]+)\)=$", "\n".join(pages.values()), re.MULTILINE))
    linked = set(re.findall(r"\]\(#([\w-]+)\)", "\n".join(pages.values())))
    assert len(linked) > 200
    assert linked <= targets


def test_the_search_knows_names_and_choices(script: ModuleType, pages: dict[str, str]) -> None:
    found = {}
    for page in ("quantities", "inputs", "catalog"):
        app = Mock()
        app.env.docname = f"reference/{page}"
        script._found(app, None)
        for call in app.env.get_domain("std").note_object.call_args_list:
            _, name, target = call.args
            assert f"({target})=" in pages[page]
            found[name] = target
    assert {*load(), *INPUTS} <= set(found)
    where = "data_parallel_all_reduce_time where all_reduce is ring"
    assert found[where] == "name-data-parallel-all-reduce-time"


def test_an_entry_says_what_the_formula_and_the_table_say(pages: dict[str, str]) -> None:
    _, _, entry = pages["quantities"].partition("### young_interval [s]")
    entry = entry.partition("### ")[0]
    assert "Young 1974" in entry
    assert "[`cluster_mtbf`](#name-cluster-mtbf) [s]" in entry
    _, _, entry = pages["quantities"].partition("### job_time [s]")
    entry = entry.partition("### ")[0]
    assert "```python\nreturn attempted_steps * step_time\n```" in entry
    _, _, entry = pages["quantities"].partition("### node_mttf [s]")
    entry = entry.partition("### ")[0]
    assert "[`gpu_mttf`](#name-gpu-mttf) [s] (default 50,000 h)" in entry
    assert "[`gpus_per_node`](#name-gpus-per-node) [-] (default 8)" in entry
    _, _, entry = pages["inputs"].partition("### gpu_mttf [s]")
    entry = entry.partition("### ")[0]
    assert "- default: 50,000 h" in entry
    assert "may be infinite" in entry
    _, _, entry = pages["inputs"].partition("### checkpoint_policy [option]")
    assert "- choices: `exact`, `daly`, `young`, `fixed`" in entry.partition("### ")[0]
