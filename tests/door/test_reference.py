"""The generated reference is complete, and its links resolve. Sphinx is not needed."""

import inspect
import re
from pathlib import Path
from unittest.mock import Mock

import pytest

import fleetcube
from docs import _docstrings, _reference
from docs._formulas import typeset
from docs.checks import CHECKS
from docs.symbols import elsewhere, symbols
from fleetcube.catalog import KINDS, kind
from fleetcube.cli import cli
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.laws import checkpoint
from fleetcube.kernels.physics import TOPICS
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.presentation.explain import topics
from fleetcube.scenario.citations import references

KERNELS = Path(__file__).parents[2] / "kernels"
INVENTORIES = Path(__file__).parents[2] / "docs" / "inventories"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("site") / "reference"
    folder.mkdir()
    (folder / "python.md").touch()  # as an older build left it
    _reference.write(folder)
    assert not (folder / "python.md").exists()
    return {path.stem: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_every_name_has_one_entry(pages: dict[str, str]) -> None:
    entries = {page: re.findall(r"^### (\w+) \[", pages[page], re.MULTILINE) for page in pages}
    assert sorted(entries["inputs"]) == sorted(INPUTS)
    assert {topic: entries[topic] for topic in TOPICS} == {
        topic: [quantity.name for quantity in made] for topic, made in topics().items()
    }
    rows = set(re.findall(r"^\| `([\w-]+)` \|", pages["catalog"], re.MULTILINE))
    assert rows == {label for name in KINDS for label in kind(name)}
    assert set(re.findall(r"^## fleetcube ([\w-]+)$", pages["commands"], re.MULTILINE)) == set(
        cli.commands
    )
    made = re.findall(r"^\.\. auto\w+:: fleetcube\.(\w+)$", pages["python"], re.MULTILINE)
    assert sorted(made) == sorted(set(fleetcube.__all__) - {"catalog", "laws"})
    methods = re.findall(r"auto\w+:: fleetcube\.Sweep\.(\w+)$", pages["python"], re.MULTILINE)
    assert sorted(methods) == sorted(name for name in dir(fleetcube.Sweep) if name[0] != "_")
    text = "\n".join(pages[topic] for topic in TOPICS)
    laws = re.findall(r"autofunction:: fleetcube\.laws\.(\S+)$", text, re.MULTILINE)
    defined = re.compile(r"^def ([a-z]\w+)", re.MULTILINE)
    texts = {
        path.stem: path.read_text(encoding="utf-8") for path in (KERNELS / "laws").glob("[a-z]*.py")
    }
    assert sorted(laws) == sorted(
        f"{name}.{law}" for name, text in texts.items() for law in defined.findall(text)
    )
    checks = re.findall(r"^\(check-(\S+)\)=$", text, re.MULTILINE)
    assert len(set(checks)) == len(checks) == len(CHECKS)
    works = re.findall(r"^## (\w+)$", pages["bibliography"], re.MULTILINE)
    assert works == list(references())


def test_every_link_leads_to_an_entry(pages: dict[str, str]) -> None:
    targets = set(re.findall(r"^\(([\w-]+)\)=$", "\n".join(pages.values()), re.MULTILINE))
    linked = set(re.findall(r"\]\(#([\w-]+)\)", "\n".join(pages.values())))
    assert len(linked) > 200
    assert linked <= targets


def test_the_search_knows_names_and_choices(pages: dict[str, str]) -> None:
    found = {}
    for page in (*TOPICS, "inputs", "catalog"):
        app = Mock()
        app.env.docname = f"reference/{page}"
        _reference._found(app, None)
        for call in app.env.get_domain("std").note_object.call_args_list:
            _, name, target = call.args
            assert f"({target})=" in pages[page]
            found[name] = target
    assert {*PHYSICS.quantities, *INPUTS} <= set(found)
    where = "data_parallel_all_reduce_time where all_reduce is ring"
    assert found[where] == "name-data-parallel-all-reduce-time"


def test_an_entry_says_what_the_formula_and_the_table_say(pages: dict[str, str]) -> None:
    _, _, entry = pages["checkpoints"].partition("### young_interval [s]")
    entry = entry.partition("### ")[0]
    assert "Young 1974" in entry
    assert "([young1974](#ref-young1974))" in entry
    assert "| [`cluster_mtbf`](#name-cluster-mtbf) | <i>M</i> | s | computed |" in entry
    assert "[reliability.reference_table]" in entry.partition("- checked by: ")[2]
    _, _, entry = pages["run"].partition("### job_time [s]")
    entry = entry.partition("### ")[0]
    assert "```python\nreturn attempted_steps * step_time\n```" in entry
    _, _, entry = pages["failures"].partition("### parts_mttf [s]")
    entry = entry.partition("### ")[0]
    assert "| [`gpu_mttf`](#name-gpu-mttf) |  | s | 50,000 h |" in entry
    assert "| [`gpus_per_node`](#name-gpus-per-node) |  | - | 8 |" in entry
    _, _, entry = pages["inputs"].partition("### gpu_mttf [s]")
    entry = entry.partition("### ")[0]
    assert "- default: 50,000 h" in entry
    assert "may be infinite" in entry
    _, _, entry = pages["inputs"].partition("### checkpoint_policy [option]")
    assert "- choices: `exact`, `daly`, `young`, `fixed`" in entry.partition("### ")[0]


def test_formulas_have_signs_powers_and_indices() -> None:
    written = {
        "sqrt(2 d M) - d, for d < 2 M": "√(2 d M) \N{MINUS SIGN} d, for d &lt; 2 M",
        "2 (k - 1) x\n  M / B_i": "2 (k \N{MINUS SIGN} 1) \N{MULTIPLICATION SIGN} M "
        "/ B<sub>i</sub>",
        "x^2 <= e^(-a t)": "x<sup>2</sup> ≤ e<sup>-a t</sup>",
        "tau_l / 2": "\N{GREEK SMALL LETTER TAU}<sub>l</sub> / 2",
        "peak_flops_fp8 x 2": "peak_flops_fp8 \N{MULTIPLICATION SIGN} 2",
    }
    for text, html in written.items():
        assert typeset(text) == f'<p class="formula">{html}</p>'


def test_symbols_stand_for_what_a_formula_needs() -> None:
    goodput = PHYSICS.quantities["goodput"].formulas["exact"]
    assert symbols(goodput) == {
        "cluster_uptime": "u", "checkpoint_interval": "tau", "cluster_mtbf": "M",
        "checkpoint_stall_time": "d",
    }  # fmt: skip
    assert list(elsewhere(goodput)) == ["R'"]


def test_a_law_becomes_a_table_with_units_and_links() -> None:
    text = "\n".join(_docstrings.law(checkpoint.young_interval))
    row = "   * - ``write_time``\n     - s\n     - time d for which one checkpoint stops training"
    assert row in text
    assert ":Source: Young 1974, CACM 17(9) [:ref:`young1974 <ref-young1974>`]" in text
    assert ">>> round(float(young_interval(30.0, 86400.0)))\n2277" in text
    share = "\n".join(_docstrings.law(checkpoint.useful_share))
    assert "   * - returns\n     - \\-\n" in share  # a bare dash would begin a list
    for name in ("write_time", "mtbf"):
        assert read(checkpoint.young_interval).meanings[name]


def test_prose_comes_first_and_promises_become_fields() -> None:
    docstring = """Do it; see `goodput`, `Sweep.evaluate` and `d_<of>`.

    Args:
        of: the output, by
            its name.

    More. Returns a Dataset
    of it. Raises OSError for what fails.
    """
    lines = _docstrings.public(docstring.replace("\n    ", "\n").splitlines())
    assert [line for line in lines if line] == [
        "Do it; see :name:`goodput`, :py:obj:`Sweep.evaluate` and ``d_<of>``.",
        "More.",
        "Args:",
        "    of: the output, by",
        "        its name.",
        ":returns: A Dataset of it.",
        ":raises OSError: for what fails.",
    ]


def test_types_in_the_reference_lead_to_the_pages_of_others() -> None:
    listed = {
        line.split()[0]
        for path in INVENTORIES.iterdir()
        for line in path.read_text(encoding="utf-8").splitlines()[3:]
    }
    public = {getattr(fleetcube, name) for name in fleetcube.__all__} - {fleetcube.catalog}
    made = [f for f in (*public, *vars(fleetcube.Sweep).values()) if inspect.isfunction(f)]
    types = " ".join(str(hint) for f in made for hint in f.__annotations__.values())
    types = types.replace("pathlib._local", "pathlib")  # where Python 3.13 defines it
    for name in set(re.findall(r"\b(?:collections\.abc|os|pathlib|xarray)\.\w+", types)):
        assert name in listed
