"""A table of rows fails if a row does, and names it."""

import pytest

from . import table
from .table import each


def test_rows_that_fail_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    @each("a, b", [(1, 1), (1, 2), pytest.param(3, 4, id="other"), (5, 5)])
    def equal(a: int, b: int) -> None:
        tried.append(a)
        assert a == b

    with pytest.raises(AssertionError, match=r"2 of 4 rows fail\n1-2: .*\n(.*\n)*other: ") as found:
        equal()
    assert tried == [1, 1, 3, 5]
    assert "5-5" not in str(found.value)
    monkeypatch.setattr(table, "only", "5-")
    equal()
    assert tried[4:] == [5]


def test_rows_and_fixtures_are_given_together() -> None:
    @each("word", ["a", "b"], ids=str.upper)
    def in_folder(word: str, folder: str) -> None:
        assert word + folder != "bc"

    with pytest.raises(AssertionError, match="1 of 2 rows fail\nB: "):
        in_folder(folder="c")


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(ValueError, match="the table is empty"):
        each("word", [word for word in "ab" if word == "c"])
