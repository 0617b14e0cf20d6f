"""Catalog records: one TOML file a kind, one table a label; strict about unit, source and date."""

import datetime
import difflib
import functools
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..kernels.inputs import INPUTS
from .units import UnitError, parse

# Facts of the catalog that are not inputs: name -> unit, or the type of what has none.
_FACTS: dict[str, str | type] = {
    "gpu": str,
    # quantities that a label may state: the graph is cut there
    "parameters": "1",
    "active_parameters": "1",
    "training_tokens": "1",
    "attention_heads": "1",
    "kv_heads": "1",
    "head_size": "1",
    "ffn_hidden_size": "1",
    "expert_ffn_hidden_size": "1",
    "attention_parameters_per_layer": "1",
    "kv_elements_per_layer": "1",
    "node_power": "W",
}

KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gpu": (
            "peak_flops_fp16",
            "peak_flops_bf16",
            "peak_flops_fp8",
            "peak_flops_fp4",
            "hbm_bandwidth",
            "hbm_capacity",
            "gpu_tdp",
            "intra_node_bandwidth",
            "intra_node_latency",
        ),
        "node": (
            "gpu",
            "gpus_per_node",
            "nics_per_node",
            "series_psus_per_node",
            "cables_per_node",
            "intra_node_bandwidth",
            "intra_node_latency",
            "node_reduction",
            "node_overhead_power",
            "node_power",
        ),
        "fabric": ("inter_node_bandwidth", "inter_node_latency", "fabric_reduction"),
        "model": (
            "parameters",
            "active_parameters",
            "layers",
            "hidden_size",
            "attention_heads",
            "kv_heads",
            "head_size",
            "attention_parameters_per_layer",
            "kv_elements_per_layer",
            "ffn_hidden_size",
            "gated_ffn",
            "vocab_size",
            "mixture_of_experts",
            "experts",
            "experts_per_token",
            "shared_experts",
            "dense_layers",
            "expert_ffn_hidden_size",
            "sequence_length",
            "training_tokens",
        ),
        "storage": (
            "checkpoint_write_bandwidth",
            "checkpoint_read_bandwidth",
            "per_node_storage_bandwidth",
        ),
        "reliability": (
            "gpu_mttf",
            "nic_mttf",
            "psu_mttf",
            "cable_mttf",
            "switch_mttf",
            "host_mttf",
            "software_mttf",
            "mtbf_model",
            "reference_mtbf",
            "reference_gpus",
            "mtbf_exponent",
        ),
        "site": ("pue", "grid_carbon_intensity", "electricity_price"),
    }
)
_ABOUT = ("title", "source", "date", "note")
_LABEL = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?")


class CatalogError(ValueError):
    """A record that breaks the rules, or a label that does not exist."""


@dataclass(frozen=True)
class Record:
    """One entry: where it comes from, and its values in SI base units."""

    kind: str
    label: str
    title: str
    source: str
    date: str
    note: str
    values: Mapping[str, Any]

    def unit(self, name: str) -> str:
        """Unit of one of the values; empty for text."""
        known = unit(name)
        return known if isinstance(known, str) else ""


def unit(name: str) -> str | type:
    """Unit of a catalog value, or its type where it is text or true/false."""
    if name in INPUTS:
        row = INPUTS[name]
        return type(row.default) if row.kind == "option" else row.unit
    return _FACTS[name]


def kind(name: str) -> Mapping[str, Record]:
    """All records of a kind, by label. Raises CatalogError for an unknown kind."""
    if name not in KINDS:
        raise CatalogError(f"there is no catalog kind {name!r}; choose one of {', '.join(KINDS)}")
    return _load(name)


def record(kind_name: str, label: Any) -> Record:
    """The record of a label. Raises CatalogError, with the nearest label, for an unknown one."""
    records = kind(kind_name)
    if not isinstance(label, str) or label not in records:
        near = difflib.get_close_matches(str(label), records, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(records)}"
        raise CatalogError(f"{kind_name} = {label!r} is not in the catalog; {hint}")
    return records[label]


@functools.cache
def _load(kind_name: str) -> Mapping[str, Record]:
    path = Path(__file__).with_name("data") / f"{kind_name}.toml"
    return read(kind_name, path.read_text(encoding="utf-8"))


def read(kind_name: str, text: str) -> Mapping[str, Record]:
    """Parse the records of one kind.

    Raises CatalogError where a record lacks a unit, source or date, or has an unknown key.
    """
    tables = tomllib.loads(text)
    return MappingProxyType(
        {label: _record(kind_name, label, table) for label, table in tables.items()}
    )


def _record(kind_name: str, label: str, table: Any) -> Record:
    where = f"{kind_name} {label!r}"
    if not isinstance(table, dict):
        raise CatalogError(f"{where} is not a record; write it as a table [{label}]")
    if not _LABEL.fullmatch(label):
        raise CatalogError(f"{where}: labels are lower case words joined by hyphens")
    for key in _ABOUT:
        if not isinstance(table.get(key), str) or not table[key].strip():
            raise CatalogError(f"{where} has no {key}; every record states {', '.join(_ABOUT)}")
    if not _is_date(table["date"]):
        raise CatalogError(f"{where}: date = {table['date']!r} is not YYYY-MM or YYYY-MM-DD")
    values = {}
    for key, value in table.items():
        if key in _ABOUT:
            continue
        if key not in KINDS[kind_name]:
            raise CatalogError(f"{where} has an unknown key {key!r}; known: {KINDS[kind_name]}")
        values[key] = _value(where, key, value)
    return Record(
        kind_name,
        label,
        **{key: table[key] for key in _ABOUT},
        values=MappingProxyType(values),
    )


def _is_date(text: str) -> bool:
    """Whether text is a month or day that exists: 2026-03 or 2026-03-06."""
    if not _DATE.fullmatch(text):
        return False
    try:
        datetime.date.fromisoformat(text if len(text) > 7 else f"{text}-01")
    except ValueError:
        return False
    return True


def _value(where: str, key: str, value: Any) -> Any:
    base = unit(key)
    if isinstance(base, type):
        if not isinstance(value, base):
            raise CatalogError(f"{where}: {key} = {value!r} is not {_KINDS_OF_VALUE[base]}")
        if key in INPUTS and value not in INPUTS[key].choices:
            raise CatalogError(f"{where}: {key} = {value!r} is not one of {INPUTS[key].choices}")
        return value
    if base == "1":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CatalogError(f"{where}: {key} = {value!r} is not a plain number")
        number = float(value)
    elif not isinstance(value, str):
        raise CatalogError(f"{where}: {key} = {value!r} has no unit; write it as text with one")
    else:
        try:
            number = parse(value, base, key)
        except UnitError as error:
            raise CatalogError(f"{where}: {error}") from None
    row = INPUTS.get(key)
    lowest = row.low if row and row.kind == "count" else 0.0
    if number < lowest or (number == 0 and base != "1") or math.isnan(number):
        rule = "positive" if lowest == 0 else f"at least {lowest:g}"
        raise CatalogError(f"{where}: {key} = {value!r} is not {rule}")
    if math.isinf(number) and not key.endswith("_mttf"):
        raise CatalogError(
            f"{where}: {key} = {value!r} is not finite; only lifetimes may be infinite"
        )
    return number


_KINDS_OF_VALUE = {str: "text", bool: "true or false"}
