"""Unknown names are answered by suggestions."""

import pytest

from fleetcube.catalog import CatalogError, kind, record
from fleetcube.catalog.spelling import hint, near

KNOWN = ["h20", "b200-sxm", "gb200", "a10", "h100-pcie", "h100-sxm", "H100-NVL"]
KNOWN += ["llama-2-70b", "llama-3-70b"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("H20", ["h20"]),  # case only
        ("h100-nvl", ["H100-NVL"]),
        ("h100", ["h100-sxm", "H100-NVL", "h100-pcie"]),  # names that contain it, short ones first
        ("B200", ["b200-sxm", "gb200"]),  # a whole word before a part of one
        ("h100-smx", ["h100-sxm"]),  # similar spelling
        ("LLAMA-3-70B", ["llama-3-70b"]),
        ("llama-4-70b", ["llama-3-70b", "llama-2-70b"]),  # a slip
        ("sx", []),  # too short to be a part
        ("", []),
        ("xyz", []),
    ],
)
def test_what_may_have_been_meant(word: str, meant: list[str]) -> None:
    assert near(word, KNOWN) == meant


def test_at_most_three_are_named() -> None:
    assert near("abc", [f"abc-{k}" for k in range(9)]) == ["abc-0", "abc-1", "abc-2"]


def test_a_hint_lists_them_or_says_what_to_do() -> None:
    assert hint([], "choose one") == "choose one"
    assert hint(["a"], "") == "did you mean 'a'?"
    assert hint(["a", "b"], "") == "did you mean 'a' or 'b'?"
    assert hint(["a", "b", "c"], "") == "did you mean 'a', 'b' or 'c'?"


@pytest.mark.parametrize(
    ("name", "then"),
    [
        ("GPU", "did you mean 'gpu'?"),
        ("models", "did you mean 'model'?"),
        ("H100-SXM", "it is a gpu (fleetcube catalog gpu h100-sxm)"),
        ("b200", "did you mean 'gpu b200-sxm', 'node dgx-b200' or"),
        ("zzz", "choose one of gpu, node"),
    ],
)
def test_an_unknown_kind_says_of_what_kind_the_word_is(name: str, then: str) -> None:
    with pytest.raises(CatalogError) as told:
        kind(name)
    assert str(told.value).startswith(f"there is no catalog kind {name!r}; {then}")


@pytest.mark.parametrize(
    ("label", "then"),
    [
        ("H100-SXM", "did you mean 'h100-sxm'?"),
        ("dgx-h100", "it is a node (fleetcube catalog node dgx-h100)"),
        (["h100-sxm"], "did you mean"),
    ],
)
def test_an_unknown_label_says_of_what_kind_it_is(label: object, then: str) -> None:
    with pytest.raises(CatalogError) as told:
        record("gpu", label)
    assert str(told.value).startswith(f"gpu = {label!r} is not in the catalog; {then}")
