"""Every Source line names works of references.bib, and every entry there is one that is named."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest

from fleetcube import kernels
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.scenario.citations import SELF_EVIDENT, cited, references

from ..table import each

MODULES = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(kernels.__path__, "fleetcube.kernels.")
]
assert PHYSICS.quantities  # alternatives take what they do not say from the first
SOURCED = {
    f"{module.__name__.removeprefix('fleetcube.kernels.')}.{name}": function
    for module in MODULES
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__
    and not name.startswith("_")
    and re.search(r"^Source:", inspect.getdoc(function) or "", re.MULTILINE)
}


def test_laws_and_quantities_are_found() -> None:
    assert {"laws.checkpoint.young_interval", "physics.run.whole_run.job_time"} <= set(SOURCED)


@each("function", SOURCED.values(), ids=SOURCED)
def test_a_source_names_works_of_the_bibliography(function: Callable[..., Any]) -> None:
    source = read(function).source
    assert not re.search(r"arXiv\s+\d", source), "write its number as in arXiv:2204.02311"
    keys, unknown = cited(source)
    assert not unknown, f"{', '.join(unknown)}: add it to kernels/references.bib, or say which"
    begin = " or ".join(SELF_EVIDENT)
    assert keys or source.startswith(SELF_EVIDENT), f"cite a work, or begin with {begin}"


def test_every_entry_is_cited() -> None:
    used = {key for function in SOURCED.values() for key in cited(read(function).source)[0]}
    assert set(references()) - used == set()


def test_the_whole_file_is_read() -> None:
    text = resources.files(kernels).joinpath("references.bib").read_text(encoding="utf-8")
    assert text.count("\n@") == len(references())
    assert list(references()) == sorted(references()), "put entries in the order of their keys"


REQUIRED = {
    "article": {"author", "title", "journal", "volume", "pages", "year"},
    "book": {"author", "title", "publisher", "year"},
    "incollection": {"author", "title", "booktitle", "year", "url"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "techreport": {"author", "title", "institution", "year"},
}


@each("key", references())
def test_an_entry_is_complete(key: str) -> None:
    entry = references()[key]
    kind = entry["bibtex"][1:].partition("{")[0]
    assert REQUIRED.get(kind, {"author", "title"}) <= set(entry)
    assert kind != "misc" or {"eprint", "url"} & set(entry)
    assert entry["bibtex"].count("{") == entry["bibtex"].count("}")
    assert entry["bibtex"].count("\n") == len(entry), "one field a line: `  name = {value},`"
    assert re.fullmatch(r"10\.\d{4,}/\S+", entry.get("doi", "10.1000/none"))
    assert re.fullmatch(r"\d{4}\.\d{4,5}", entry.get("eprint", "1234.5678"))
    assert ("eprint" in entry) == (entry.get("archiveprefix") == "arXiv"), (
        "below an eprint stands the line `  archiveprefix = {arXiv},`, and nowhere else"
    )


@each("key", [key for key in references() if re.search(r"\d{4}", key)])
def test_a_key_is_the_first_author_and_the_year(key: str) -> None:
    entry = references()[key]
    first = entry["author"].partition(" and ")[0].strip("{}").partition(",")[0]
    assert key.startswith(re.sub(r"[^a-z]", "", first.lower()) + entry["year"])


def test_an_arxiv_number_stands_once() -> None:
    numbers = [entry["eprint"] for entry in references().values() if "eprint" in entry]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        ("Daly 2006, FGCS 22(3), eq. 13", "daly2006"),
        ("Patarasuk & Yuan 2009, JPDC 69(2), theorem 1", "patarasuk2009"),
        ("Sanders, Speck & Traeff 2009, Parallel Computing 35(12)", "sanders2009"),
        ("Sanders, Speck & Träff 2009", "sanders2009"),
        ("Al-Fares et al. 2008, SIGCOMM, section 2.1", "alfares2008"),
        ("DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2", "deepseekai2024v3"),
        ("Jiang et al. 2024 (MegaScale), section 5", "jiang2024megascale"),
        ("Jiang et al. 2024, arXiv:2401.04088", "jiang2024mixtral"),
        ("Wang et al. 2023 (Gemini), section 3", "wang2023gemini"),
        ("the parts add up; Wang et al. 2023 (ASPLOS), section 2", "wang2023overlap"),
        ("uneven stages as in Llama 3 (arXiv:2407.21783, table 4)", "grattafiori2024"),
        ("Kokolis et al. 2025, HPCA 2025, eq. 1", "kokolis2025"),
        ("NCCL 2.30 src/graph/tuning.cc", "nccl"),
        ("nccl-tests, doc/PERFORMANCE.md", "nccltests"),
        ("constraints of Megatron-LM's layout", "megatronlm"),
        ("Golub & Van Loan 2013, section 1.1", "golub2013"),
        ("Rajbhandari 2020; Rajbhandari 2021", "rajbhandari2020 rajbhandari2021"),
        (
            "Shoeybi et al. 2019 (Megatron-LM), section 3; Fleet Foundations table 7",
            "shoeybi2019 fleetfoundations",
        ),
    ],
)
def test_source_lines_are_read(source: str, keys: str) -> None:

    assert cited(source) == (tuple(keys.split()), ())


@pytest.mark.parametrize(
    ("source", "unknown"),
    [
        ("Dally 2006, FGCS 22(3)", "Dally 2006"),
        ("Daly 2007, FGCS 22(3)", "Daly 2007"),
        ("Jiang et al. 2024, section 5", "Jiang 2024"),
        ("Jiang et al. 2024, section 5; arXiv:2401.04088", "Jiang 2024"),
        ("Kaplan et al. 2020, arXiv:2001.99999", "arXiv:2001.99999"),
    ],
)
def test_what_is_unknown_or_means_two_works_is_said(source: str, unknown: str) -> None:
    assert cited(source)[1] == (unknown,)


def test_the_common_words_of_a_source_name_no_work() -> None:
    assert cited("by definition of goodput, in Parallel Computing 35(12)") == ((), ())
