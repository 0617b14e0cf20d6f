"""The loader refuses invalid records; every entry of the catalog loads."""

import datetime
from typing import Any

import pytest

import fleetcube
from fleetcube.catalog import KINDS, CatalogError, editions, kind, record
from fleetcube.catalog.records import file_of, read
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from ..table import each

ABOUT = {
    "title": '"A link"',
    "source": '"A datasheet"',
    "date": '"2026-03-06"',
    "note": '"per direction"',
}
FABRIC = {**ABOUT, "inter_node_bandwidth": '"400 Gbit/s"', "inter_node_latency": '"5 us"'}


def toml(label: str, table: dict[str, str]) -> str:
    return "\n".join([f"[{label}]", *(f"{key} = {value}" for key, value in table.items())])


def without(key: str) -> dict[str, str]:
    return {name: value for name, value in FABRIC.items() if name != key}


def test_a_record_is_read_in_base_units_with_where_it_comes_from() -> None:
    entry = read("fabric", toml("link", FABRIC))["link@1"]
    assert (entry.kind, entry.label, entry.edition) == ("fabric", "link", 1)
    assert (entry.source, entry.date) == ("A datasheet", "2026-03-06")
    assert dict(entry.values) == {"inter_node_bandwidth": 50e9, "inter_node_latency": 5e-6}
    assert entry.unit("inter_node_bandwidth") == "B/s"


def test_a_record_cannot_be_changed() -> None:
    entry = read("fabric", toml("link", FABRIC))["link@1"]
    with pytest.raises(TypeError):
        entry.values["inter_node_bandwidth"] = 1.0  # type: ignore[index]


REFUSED = [
    ("link", without("title"), "has no title"),
    ("link", without("source"), "has no source"),
    ("link", without("date"), "has no date"),
    ("link", without("note"), "has no note"),
    ("link", {**FABRIC, "source": '" "'}, "has no source"),
    ("link", {**FABRIC, "date": '"March"'}, "is not YYYY-MM or YYYY-MM-DD"),
    ("link", {**FABRIC, "date": "2026-03-06"}, "has no date"),  # a TOML date is not text
    ("link", {**FABRIC, "speed": '"1 GB/s"'}, "has an unknown key 'speed'"),
    ("link", {**FABRIC, "gpu_mttf": '"1 h"'}, "has an unknown key 'gpu_mttf'"),  # of another kind
    ("link", {**FABRIC, "inter_node_bandwidth": "50e9"}, "has no unit"),
    ("link", {**FABRIC, "inter_node_bandwidth": '"50"'}, "has no unit"),
    ("link", {**FABRIC, "inter_node_bandwidth": '"700 W"'}, "is not in B/s"),
    ("link", {**FABRIC, "inter_node_bandwidth": '"-50 GB/s"'}, "is not positive"),
    ("link", {**FABRIC, "inter_node_bandwidth": '"0 GB/s"'}, "is not positive"),
    ("link", {**FABRIC, "inter_node_bandwidth": "true"}, "has no unit"),
    ("Link", FABRIC, "labels are lower case words joined by hyphens"),
    ("a_link", FABRIC, "labels are lower case words joined by hyphens"),
    ("link-", FABRIC, "labels are lower case words joined by hyphens"),
]


@pytest.mark.parametrize(("label", "table", "rule"), REFUSED, ids=[rule for *_, rule in REFUSED])
def test_a_bad_record_is_refused(label: str, table: dict[str, str], rule: str) -> None:
    with pytest.raises(CatalogError) as error:
        read("fabric", toml(label, table))
    assert str(error.value).startswith(f"fabric {label!r}")
    assert rule in str(error.value)


def bad(kind_name: str, value: str) -> Any:
    return pytest.param(kind_name, value, id=value)


@pytest.mark.parametrize(
    ("kind_name", "value"),
    [
        bad("model", "parameters = -1"),
        bad("model", "parameters = true"),
        bad("model", 'parameters = "7e9"'),
        bad("model", "gated_ffn = 1"),
        bad("model", "parameters = nan"),
        bad("model", "layers = inf"),
        bad("gpu", 'hbm_bandwidth = "inf TB/s"'),
        bad("node", "gpus_per_node = 0"),
        bad("node", "gpu = true"),
        bad("model", 'gated_ffn = "yes"'),
        bad("model", 'linear_attention = "none"'),
        bad("model", "linear_attention = 0"),
        bad("model", "linear_attention = true"),
    ],
)
def test_a_bad_value_is_refused(kind_name: str, value: str) -> None:
    with pytest.raises(CatalogError):
        read(kind_name, toml("entry", ABOUT) + "\n" + value)


def test_a_choice_may_be_off() -> None:
    entry = read("model", toml("entry", ABOUT) + "\nlinear_attention = false")["entry@1"]
    assert entry.values["linear_attention"] is False


def test_a_date_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CatalogError):
        read("fabric", toml("link", {**FABRIC, "date": '"2026-13-45"'}))


def test_a_value_outside_a_record_is_refused() -> None:
    with pytest.raises(CatalogError, match="fabric 'speed' is not a record; write it as a table"):
        read("fabric", "speed = 5")


# What is in the catalog

ENTRIES = [pytest.param(name, label, id=label) for name in KINDS for label in kind(name)]


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_has_entries(name: str) -> None:
    assert len(kind(name)) >= (1 if name == "contract" else 3)  # terms are seldom published


@each(("name", "label"), ENTRIES)
def test_every_entry_loads(name: str, label: str) -> None:
    entry = record(name, label)
    assert entry.values
    assert len(entry.source) > 15
    assert (
        "http" in entry.source or "Fleet Foundations" in entry.source or "registry" in entry.source
    )
    day = entry.date if len(entry.date) == 10 else f"{entry.date}-01"
    assert datetime.date.fromisoformat(day).year >= 2015


@each(("name", "label"), ENTRIES)
def test_every_value_is_within_the_bounds_of_its_input(name: str, label: str) -> None:
    for key, value in record(name, label).values.items():
        if key in INPUTS:
            row = INPUTS[key]
            if row.kind == "option":
                assert value in row.choices
                continue
            assert row.low <= value <= row.high
            assert value > 0 or not row.positive
            assert value < float("inf") or row.may_be_infinite


@each("label", kind("node"))
def test_every_node_holds_a_gpu_of_the_catalog(label: str) -> None:
    assert record("node", label).values["gpu"] in kind("gpu")


def test_a_catalog_value_has_the_unit_of_the_quantity_of_that_name() -> None:
    for name in KINDS:
        for label, entry in kind(name).items():
            for key in entry.values:
                if key in PHYSICS.quantities:
                    assert entry.unit(key) == PHYSICS.quantities[key].unit, (label, key)


# Entries without a value that a default sweep needs: no bf16 tensor cores, or no published link.
INCOMPLETE = {"v100-sxm2-32gb", "v100-pcie-32gb", "t4", "trainium-1", "dgx-1-v100", "aws-trn1"}


@pytest.mark.parametrize("name", sorted(KINDS.keys() - {"contract", "site"}))
def test_every_label_can_be_swept(name: str) -> None:
    scenario = {
        "model": "llama-3-8b",
        "node": "dgx-h100",
        "fabric": "infiniband-ndr",
        "n_gpus": 1024,
        "training_tokens": 1e12,
    }
    scenario.pop("node" if name == "gpu" else name, None)
    if name == "software":  # which nothing else reads
        scenario["calibration"] = "auto"
    labels = [label for label in kind(name) if label not in INCOMPLETE]
    cube = fleetcube.evaluate("job_time", **scenario, **{name: labels})
    assert cube.sizes[name] == len(labels)
    assert ((cube > 0) & (cube < float("inf"))).all()


# Looking up


def test_an_unknown_label_names_the_nearest() -> None:
    with pytest.raises(
        CatalogError, match="gpu = 'h100-smx' is not in the catalog; did you mean 'h100-sxm'"
    ):
        record("gpu", "h100-smx")


def test_a_label_like_no_other_lists_some() -> None:
    with pytest.raises(
        CatalogError,
        match=r"choose one of reference-100gbs, .*, \.\.\. \(`fleetcube catalog storage`",
    ) as error:
        record("storage", "zzz")
    assert len(str(error.value)) < 250


def test_an_unknown_kind_names_the_kinds() -> None:
    with pytest.raises(CatalogError, match="no catalog kind 'thing'; choose one of gpu, node"):
        kind("thing")


@pytest.mark.parametrize("label", [5, None, ["h100-sxm"]], ids=str)
def test_a_label_is_text(label: Any) -> None:
    with pytest.raises(CatalogError, match="is not in the catalog"):
        record("gpu", label)


@pytest.mark.parametrize("name", KINDS)
def test_a_record_alone_is_that_of_the_whole_file(name: str) -> None:
    whole = read(name, file_of(name).read_text(encoding="utf-8"))
    alone = editions(name)
    assert list(alone) == list(whole)
    assert dict(alone) == dict(whole)
    latest = {
        entry.label: max(e.edition for e in whole.values() if e.label == entry.label)
        for entry in whole.values()
    }
    assert {label: entry.edition for label, entry in kind(name).items()} == latest
