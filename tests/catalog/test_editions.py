"""Published records are not edited: corrections are new editions, which the ledger enforces."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import fleetcube
from fleetcube.catalog import CatalogError, editions, ledger, record, records
from fleetcube.catalog import __main__ as command
from fleetcube.catalog.records import read

ABOUT = 'title = "A link"\nsource = "A datasheet"\ndate = "2026-03-06"\nnote = "per direction"\n'


def link(key: str, speed: str, edition: str = "") -> str:
    return f'["{key}"]\n{ABOUT}{edition}\ninter_node_bandwidth = "{speed}"\n'


TWO = link("link@1", "100 Gbit/s") + link("link", "200 Gbit/s", "edition = 2")


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A catalog whose only fabric has two editions."""
    entries = read("fabric", TWO)
    real = records._load
    monkeypatch.setattr(records, "_load", lambda name: entries if name == "fabric" else real(name))
    records._current.cache_clear()
    yield entries
    records._current.cache_clear()


def test_the_plain_label_is_the_current_edition(two: Any) -> None:
    assert record("fabric", "link").edition == 2
    assert record("fabric", "link").values["inter_node_bandwidth"] == 25e9
    assert record("fabric", "link@2") is record("fabric", "link")
    assert record("fabric", "link@1").values["inter_node_bandwidth"] == 12.5e9


def test_lists_show_current_editions_only(two: Any) -> None:
    assert list(records.kind("fabric")) == ["link"]
    assert list(editions("fabric")) == ["link@1", "link@2"]


@pytest.mark.parametrize(
    ("label", "near"), [("link@3", "link@1|link@2"), ("lnik@1", "link@1"), ("linj", "link")]
)
def test_a_bad_edition_names_the_nearest(two: Any, label: str, near: str) -> None:
    with pytest.raises(CatalogError, match=f"did you mean '({near})'") as error:
        record("fabric", label)
    assert "\n" not in str(error.value)


SCENARIO = {
    "model": "llama-3-8b",
    "node": "dgx-h100",
    "n_gpus": 64,
    "global_batch_size": 64,
    "all_reduce": "ring",
}


def test_a_scenario_may_name_an_edition(two: Any) -> None:
    old, new = (
        float(fleetcube.evaluate("data_parallel_time", **SCENARIO, fabric=fabric))
        for fabric in ("link@1", "link")
    )
    assert old > 1.5 * new


def test_editions_may_be_an_axis(two: Any) -> None:
    cube = fleetcube.evaluate("data_parallel_time", **SCENARIO, fabric=["link@1", "link"])
    assert list(cube["fabric"].values) == ["link@1", "link"]
    assert cube[0] > 1.5 * cube[1]


def test_the_same_edition_twice_is_refused(two: Any) -> None:
    with pytest.raises(fleetcube.InputError, match="twice"):
        fleetcube.evaluate("data_parallel_time", **SCENARIO, fabric=["link", "link@2"])


def test_a_dataset_carries_edition_and_digest() -> None:
    sweep = fleetcube.Sweep({"gpu": "h100-sxm@1"}, {}, ["ridge_point"])
    (used,) = json.loads(sweep.evaluate().attrs["fleetcube_catalog"])
    assert (used["label"], used["edition"]) == ("h100-sxm", 1)
    assert used["digest"] == record("gpu", "h100-sxm@1").digest
    assert used["digest"] != record("gpu", "h100-sxm").digest
    assert len(used["digest"]) == 64


# Digests


def test_a_digest_sees_values_and_nothing_else() -> None:
    base = read("fabric", link("link", "100 Gbit/s"))["link@1"].digest
    assert read("fabric", link("link", "12.5 GB/s"))["link@1"].digest == base
    reworded = link("link", "100 Gbit/s").replace("A datasheet", "Another datasheet")
    assert read("fabric", reworded)["link@1"].digest == base
    assert read("fabric", link("link", "101 Gbit/s"))["link@1"].digest != base


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    lines = ['inter_node_bandwidth = "1 GB/s"', 'inter_node_latency = "1 us"']
    one, other = (
        read("fabric", f"[link]\n{ABOUT}" + "\n".join(order))["link@1"].digest
        for order in (lines, lines[::-1])
    )
    assert one == other


# The file


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (link("link", "1 GB/s", "edition = 2"), r'keep edition 1 as \["link@1"\]'),
        (link("link@1", "1 GB/s"), r"write the latest edition as \[link\] with edition = 1"),
        (link("link@2", "1 GB/s") + link("link", "2 GB/s"), "with edition = 2"),
        (link("link@1", "1 GB/s") + link("link", "2 GB/s"), "edition 1 appears twice"),
        (link("link", "1 GB/s", "edition = 0"), "edition = 0 is not 1, 2, 3"),
        (link("link", "1 GB/s", "edition = true"), "edition = True is not 1, 2, 3"),
        (link("link", "1 GB/s", 'edition = "2"'), "edition = '2' is not 1, 2, 3"),
        (link("link@1", "1 GB/s", "edition = 2"), "edition = 2 is not that of its label"),
        (link("link@0", "1 GB/s"), "labels are lower case words"),
        (link("link@one", "1 GB/s"), "labels are lower case words"),
    ],
)
def test_editions_are_numbered_without_gaps(text: str, rule: str) -> None:
    with pytest.raises(CatalogError, match=rule):
        read("fabric", text)


# The ledger

LINE = b"gpu a@1 " + b"0" * 64 + b"\n"


def test_what_is_published_has_not_changed() -> None:
    wrong = ledger.complaints(ledger.published(), ledger.existing())
    assert not wrong, "\n".join(wrong)


def test_every_record_is_published() -> None:
    new = ledger.unpublished(ledger.published(), ledger.existing())
    assert not new, "new records: run `python -m fleetcube.catalog` once their values are final"


def test_a_changed_record_is_told_what_to_do() -> None:
    (wrong,) = ledger.complaints({"fabric link@1": "0" * 64}, _named(link("link", "1 GB/s")))
    assert "fabric link@1 is published and its values changed" in wrong
    assert 'as ["link@1"] and write the new ones as [link] with edition = 2' in wrong


def test_a_superseded_record_that_is_intact_is_fine() -> None:
    before = _named(link("link", "100 Gbit/s"))
    lines = {name: entry.digest for name, entry in before.items()}
    assert ledger.complaints(lines, _named(TWO)) == []
    assert len(ledger.unpublished(lines, _named(TWO))) == 1


def test_a_record_that_is_gone_is_missed() -> None:
    (wrong,) = ledger.complaints({"fabric link@1": "0" * 64}, {})
    assert "put the record back" in wrong


def test_publishing_only_appends(tmp_path: Path) -> None:
    path = tmp_path / "editions.txt"
    shutil.copy(ledger.LEDGER, path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("gpu h100-sxm@1 ")]
    path.write_text("".join(kept), encoding="utf-8")
    assert [line.split()[:2] for line in ledger.publish(path)] == [["gpu", "h100-sxm@1"]]
    after = path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert after[:-1] == kept
    assert sorted(after) == sorted(lines)
    assert ledger.publish(path) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"gpu a@1\n", "line 1: 'gpu a@1' is not kind label@edition digest"),
        (b"# said\n" + LINE + LINE, "line 3: .* is published twice"),
        (LINE[:-1], "ends within a line"),
        (b"\xff\n", "not UTF-8"),
    ],
)
def test_a_damaged_ledger_is_refused_and_left_alone(tmp_path: Path, text: bytes, rule: str) -> None:
    path = tmp_path / "editions.txt"
    path.write_bytes(text)
    with pytest.raises(CatalogError, match=rule) as refused:
        ledger.publish(path)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == text


def test_nothing_is_published_beside_what_has_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "published", lambda: {"gpu h100-sxm@1": "0" * 64})
    monkeypatch.setattr(command, "publish", lambda: pytest.fail("published all the same"))
    assert command.main() == 1
    assert "gpu h100-sxm@1 is published and its values changed" in capsys.readouterr().err


def test_a_file_that_is_not_toml_is_refused() -> None:
    with pytest.raises(CatalogError, match=r"gpu.toml is not TOML.*line 2"):
        read("gpu", "[a]\n= 1")


def _named(text: str) -> dict[str, Any]:
    return {f"fabric {name}": entry for name, entry in read("fabric", text).items()}
