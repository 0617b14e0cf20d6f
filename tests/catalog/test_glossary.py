"""Words of the field lead to names that exist."""

import pytest

from docs.make import glossary as page
from fleetcube import InputError, explain
from fleetcube.catalog import KINDS
from fleetcube.catalog.glossary import glossary, word
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS


def test_words_lead_to_names_and_are_none() -> None:
    names = {*INPUTS, *PHYSICS.quantities, *KINDS}
    words = [each for entry in glossary() for each in entry.words]
    assert len(words) == len(set(words))
    assert not names.intersection(each.replace(" ", "_").replace("-", "_") for each in words)
    assert {name for entry in glossary() for name in entry.names} <= names


def test_a_word_is_found_however_it_is_written() -> None:
    for text in ("TFLOPS", "zero_3", "ZeRO-3", "interruptions", "Stragglers", "capex"):
        assert word(text), text
    assert word("nonsense") is None


def test_the_page_is_written_from_the_words() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run python -m docs.make"


def test_meanings_are_sentences_of_one_line() -> None:
    for entry in glossary():
        assert entry.means[0].isupper(), entry
        assert entry.means.endswith("."), entry
        assert "\n" not in entry.means
        assert not entry.source.endswith("."), entry


def test_explain_reads_words_and_labels() -> None:
    text = explain("capex")
    assert "capital_cost" in text
    assert "arXiv:1910.02054" in explain("FSDP")
    assert "fleetcube catalog gpu h100-sxm" in explain("h100-sxm")
    assert all(
        len(line) <= 80 for entry in glossary() for line in explain(entry.words[0]).split("\n")
    )
    with pytest.raises(InputError, match="did you mean"):
        explain("tflopz")
