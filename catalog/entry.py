"""One record: its kind's keys, and how a table of a TOML file becomes values in base units.

Strict about unit, source and date, whoever wrote the file.
"""

import datetime
import functools
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ..kernels.declare import OFF, written
from ..kernels.physics.inputs import INPUTS
from .spelling import hint, near
from .units import UnitError, parse

# Quantities that a label may set: the graph is cut there
_COUNTS = (
    *("parameters", "active_parameters", "training_tokens", "attention_heads", "kv_heads"),
    *("head_size", "ffn_hidden_size", "expert_ffn_hidden_size", "embedding_tables"),
    *("looked_up_parameters", "windowed_layers", "attention_layers", "ffn_layers"),
    *("expert_input_width", "attention_parameters_per_layer", "kv_elements_per_layer"),
    *("kv_latent_size", "value_head_size"),
)
# Catalog facts that are not inputs: name -> unit, or the type of those without one
_FACTS: dict[str, str | type] = {
    "gpu": str,
    "steps_as": str,  # the group of published steps it belongs to
    "layer_pattern": str,  # counts of layers, read from it by grid
    **dict.fromkeys(_COUNTS, "1"),
    "node_power": "W",
    "recovery_time": "s",
    "slice_shapes": str,  # 2x2x1 and so on; 4ix4jx4k are all multiples of 4
    "fabric": str,  # that of a node's own network cards
    "version": str,
    # Of software: what it has, also with pipeline stages, which counts its inputs divide,
    # what it does by default
    **dict.fromkeys(("has", "pipelined", "divides", "own"), dict),
    "jobs": list,  # of a calibration's steps: models and clusters, and the factors of each
}

KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gpu": (
            *("peak_flops_fp16", "peak_flops_bf16", "peak_flops_fp8", "peak_flops_fp4"),
            *("hbm_bandwidth", "hbm_capacity", "reserved_memory", "fp8_weight_bytes", "gpu_tdp"),
            "matrix_unit_size",
            *("intra_node_bandwidth", "intra_node_latency"),
            *("torus_dimensions", "torus_ring_multiple", "largest_slice", "slice_shapes"),
            "all_reduce",
        ),
        "node": (
            *("gpu", "gpus_per_node", "gpus_per_domain", "nics_per_node", "fabric"),
            *("series_psus_per_node", "cables_per_node"),
            *("intra_node_bandwidth", "intra_node_latency", "node_reduction"),
            *("node_overhead_power", "node_power", "rack_power", "offload_bandwidth"),
            *("host_memory_bandwidth", "host_memory_efficiency"),
        ),
        "fabric": (
            *("inter_node_bandwidth", "inter_node_latency", "gpus_per_switch"),
            *("oversubscription", "rail_optimized", "gpus_per_pod", "pod_oversubscription"),
            "fabric_reduction",
        ),
        "model": (
            *("parameters", "active_parameters", "layers", "hidden_size"),
            *("attention_heads", "kv_heads", "head_size"),
            *("attention_parameters_per_layer", "kv_elements_per_layer"),
            *("query_latent_size", "kv_latent_size", "value_head_size"),
            *("ffn_hidden_size", "gated_ffn", "vocab_size"),
            *("embedding_tables", "looked_up_parameters"),
            *("sliding_window", "attention_window", "windowed_layers"),
            *("mixture_of_experts", "experts", "experts_per_token", "shared_experts"),
            "expert_biases",
            *("dense_layers", "expert_ffn_hidden_size", "expert_input_width"),
            *("layer_pattern", "attention_layers", "ffn_layers"),
            *("linear_attention", "linear_layers", "linear_heads", "linear_head_size"),
            *("linear_key_heads", "linear_state_size", "linear_convolution_size"),
            *("linear_chunk_size", "sequence_length", "training_tokens"),
        ),
        "storage": (
            *("checkpoint_write_bandwidth", "checkpoint_read_bandwidth"),
            "per_node_storage_bandwidth",
        ),
        "reliability": (
            *("gpu_mttf", "nic_mttf", "psu_mttf", "cable_mttf", "switch_mttf", "host_mttf"),
            *("software_mttf", "silent_corruption_mttf", "mtbf_model"),
            *("reference_mtbf", "reference_gpus", "mtbf_exponent"),
            *("interruption_mttf", "detection_time", "reinit_time", "recovery_time"),
        ),
        "software": ("steps_as", "version", "has", "pipelined", "divides", "own"),
        "site": (
            *("pue", "grid_carbon_intensity", "electricity_price", "rack_power", "racks_per_row"),
            *("site_power", "cooling_power", "site_racks"),
        ),
        "contract": (
            *("contract_nodes", "contract_time", "first_delivery_nodes", "delivery_time"),
            *("gpu_hour_price", "pricing"),
        ),
        "calibration": (
            *("compute_model", "attention_kernel", "all_reduce", "intra_node_latency"),
            *("intra_node_bandwidth", "inter_node_latency", "inter_node_bandwidth"),
            *("network_efficiency", "sqrt_coefficient", "data_parallel_overlap"),
            "tensor_parallel_overlap",
            *("expert_parallel_overlap", "offload_bandwidth", "nvme_bandwidth"),
            "host_memory_efficiency",
            *("flops_efficiency", "gemm_efficiency", "gemm_half_depth"),
            *("attention_efficiency", "memory_efficiency", "layer_overhead_time"),
            *("graph_wait_share", "layer_host_time", "expert_launch_time", "step_time_jitter"),
            *("straggler_slowdown", "serial_time_per_step", "error_factor"),
            *("serial_fraction", "jobs"),
        ),
    }
)
FITTED = "calibration"
# Keys of the cluster and the model of a calibration's jobs, and of each job
CLUSTER, SHAPE = ("node", "gpu", "fabric"), ("layers", "hidden_size", "vocab_size", "experts")
_FACTORS = ("step_time_factor", "error_factor")
_MOST_JOBS = 100
FROM_FILES = (FITTED, "reliability")  # kinds whose records users may also keep in files
_TABLES = ("standard_errors", "fit")  # tables about the values of its records
ABOUT = ("title", "source", "date", "note")
LABEL = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)(?:@([1-9][0-9]*))?")
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?")


class CatalogError(ValueError):
    """An invalid record or unknown label; the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def one_line(message: str) -> str:
    """A message as one printable line; a long one is cut in the middle."""
    flat = " ".join(message.splitlines())
    cut = f"{flat[:300]} ... {flat[-200:]}" if len(flat) > 600 else flat
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in cut
    )


@dataclass(frozen=True)
class Record:
    """One entry: its source, and its values in SI base units; distributions are as written.

    `standard_errors` belong to fitted values, in the same units; `steps_of` is the cell of
    published steps from which a user's fit started, "" for others, with `noise` of its steps,
    `correlations` of the fitted values, below the diagonal, and by which factors a probe's
    `kernels` differ from published ones.
    """

    kind: str
    label: str
    edition: int
    title: str
    source: str
    date: str
    note: str
    values: Mapping[str, Any]
    standard_errors: Mapping[str, float] = field(default_factory=dict)
    steps_of: str = ""
    noise: float = 0.0
    correlations: tuple[tuple[float, ...], ...] = ()
    kernels: Mapping[str, float] = field(default_factory=dict)
    origin: str = ""  # the file or package of a record that is not of the catalog

    @property
    def name(self) -> str:
        """Label and edition, which always name this exact record."""
        return f"{self.label}@{self.edition}"

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the values in base units, independent of order and notation in the file."""
        text = json.dumps(dict(self.values), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        plain = {"values": dict(self.values), "standard_errors": dict(self.standard_errors)}
        return {**self.__dict__, **plain}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in ("values", "standard_errors"):  # read-only, which cannot be pickled
            state = {**state, name: MappingProxyType(state[name])}
        self.__dict__.update(state)

    @functools.cached_property
    def json(self) -> str:
        """The record as JSON, for results that used it."""
        return json.dumps(
            {
                "kind": self.kind,
                "label": self.label,
                "edition": self.edition,
                "digest": self.digest,
                "source": self.source,
                "date": self.date,
                "title": self.title,
                "values": dict(self.values),
                **({"origin": self.origin} if self.origin else {}),
            }
        )

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}: {self.title}>"

    def _repr_html_(self) -> str:
        from html import escape  # here: it loads a table of all characters

        shown = ((n, f"{v:,.10g}" if type(v) is float else f"{v}") for n, v in self.values.items())
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td style='text-align: right'>{escape(value)}</td>"
            f"<td>{escape(self.unit(name))}</td></tr>"
            for name, value in shown
        )
        foot = escape(f"{self.source}, {self.date}" if self.date else self.source)
        title = escape(f"{self.kind} {self.name}: {self.title}")
        return f"<b>{title}</b><table>{rows}</table><small>{foot}</small>"

    def unit(self, name: str) -> str:
        """Unit of one of the values; empty for text."""
        unit_given = unit(name)
        return unit_given if isinstance(unit_given, str) else ""


def unit(name: str) -> str | type:
    """Unit of a catalog value, or its type if it is text, true/false or a choice."""
    if name in INPUTS:
        row = INPUTS[name]
        return object if row.kind == "option" else row.unit
    return _FACTS[name]


def labelled(kind_name: str, key: str, table: Any, home: str = "", origin: str = "") -> Record:
    """The record of a table [key]; messages begin with `home`, the file that has it."""
    where = f"{home}{kind_name} {key!r}"
    if not isinstance(table, dict):
        raise CatalogError(f"{where} is not a record; write it as a table [{key}]")
    match = LABEL.fullmatch(key)
    if not match:
        raise CatalogError(
            f"{where}: labels are lower case words joined by hyphens, "
            "with @1, @2, ... where superseded"
        )
    edition = _edition(where, match.group(2), table)
    table = {name: value for name, value in table.items() if name != "edition"}
    return replace(of_table(kind_name, where, match.group(1), edition, table), origin=origin)


def of_table(
    kind_name: str, where: str, label: str, edition: int, table: Mapping[str, Any]
) -> Record:
    for about in ABOUT:
        if not isinstance(table.get(about), str) or not table[about].strip():
            raise CatalogError(f"{where} has no {about}; every record states {', '.join(ABOUT)}")
    if not _is_date(table["date"]):
        raise CatalogError(f"{where}: date = {table['date']!r} is not YYYY-MM or YYYY-MM-DD")
    values = {}
    for name, value in table.items():
        if name in ABOUT or (name in _TABLES and kind_name in FROM_FILES):
            continue
        if name not in KINDS[kind_name]:
            keys = KINDS[kind_name]
            advice = hint(near(name, keys), f"known: {', '.join(keys)}")
            raise CatalogError(f"{where} has an unknown key {name!r}; {advice}")
        spread = isinstance(value, dict) and unit(name) == "s"
        values[name] = _distribution(where, name, value) if spread else checked(where, name, value)
    errors = _standard_errors(where, table, values)
    if "jobs" in values and "error_factor" not in values:
        raise CatalogError(f"{where} has jobs and no error_factor of others; give it")
    fit = table.get("fit", {})
    noise = fit.get("noise", 0.0)
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not 0 <= noise < 10:
        raise CatalogError(f"{where}: [fit] noise = {noise!r} is not a number from 0 to 10")
    return Record(
        kind_name,
        label,
        edition,
        **{about: table[about] for about in ABOUT},
        values=MappingProxyType(values),
        standard_errors=MappingProxyType(errors),
        steps_of=str(fit.get("steps_of", "")),
        noise=float(noise),
        correlations=_correlations(where, fit.get("correlations", []), len(errors)),
        kernels=_kernels(where, fit.get("kernels", {}), values),
    )


def _kernels(where: str, factors: Any, values: Mapping[str, Any]) -> dict[str, float]:
    """Factors of some of the values, from 0.1 to 10."""
    is_table = isinstance(factors, dict) and {*factors} <= {*values}
    if not is_table or not all(
        type(f) in (int, float) and 0.1 <= f <= 10 for f in factors.values()
    ):
        raise CatalogError(f"{where}: [fit] kernels are not factors of its values; leave them out")
    return {name: float(factor) for name, factor in factors.items()}


def _correlations(where: str, rows: Any, count: int) -> tuple[tuple[float, ...], ...]:
    """Correlations of `count` values, below the diagonal, or none."""
    matrix = rows if isinstance(rows, list) else None
    if matrix == []:
        return ()
    if matrix is None or [len(row) if isinstance(row, list) else -1 for row in matrix] != [
        *range(count)
    ]:
        raise CatalogError(
            f"{where}: [fit] correlations are not the {count} rows below a diagonal; leave them out"
        )
    cells = [cell for row in matrix for cell in row]
    if not all(isinstance(cell, int | float) and -1 <= cell <= 1 for cell in cells):
        raise CatalogError(f"{where}: [fit] correlations are not between -1 and 1")
    return tuple(tuple(map(float, row)) for row in matrix)


def _standard_errors(
    where: str, table: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, float]:
    for name in _TABLES:
        if not isinstance(table.get(name, {}), dict):
            raise CatalogError(f"{where}: {name} is not a table; write [{name}]")
    errors = {}
    for name, error in table.get("standard_errors", {}).items():
        if not isinstance(values.get(name), float):
            raise CatalogError(f"{where}: [standard_errors] {name!r} is not one of its numbers")
        errors[name] = _number(f"{where}: [standard_errors]", name, error)
        if not 0 <= errors[name] < math.inf:
            raise CatalogError(f"{where}: [standard_errors] {name} = {error!r} is not 0 or more")
    return errors


def _edition(where: str, suffix: str | None, table: Mapping[str, Any]) -> int:
    """Edition number: from the key of a superseded record, else from the record."""
    number = table.get("edition", int(suffix) if suffix else 1)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise CatalogError(f"{where}: edition = {number!r} is not 1, 2, 3, ...")
    if suffix and number != int(suffix):
        raise CatalogError(f"{where}: edition = {number} is not that of its label")
    return number


def _is_date(text: str) -> bool:
    """Whether text is an existing month or day: 2026-03 or 2026-03-06."""
    if not _DATE.fullmatch(text):
        return False
    try:
        datetime.date.fromisoformat(text if len(text) > 7 else f"{text}-01")
    except ValueError:
        return False
    return True


def checked(where: str, key: str, value: Any) -> Any:
    base, row = unit(key), INPUTS.get(key)
    if row is not None and row.kind == "option":
        if row.means_off(value):
            raise CatalogError(f"{where}: {key} = {value!r}: {OFF}")
        if not any(type(choice) is type(value) and choice == value for choice in row.choices):
            choices = ", ".join(map(written, row.choices))
            raise CatalogError(f"{where}: {key} = {value!r} is not one of {choices}")
        return value
    if key == "jobs" and isinstance(value, list):
        if len(value) > _MOST_JOBS:
            raise CatalogError(f"{where}: jobs has more than {_MOST_JOBS}; give fewer")
        jobs = tuple(_job(where, one) for one in value)
        jobs_stated = [{n: v for n, v in job.items() if n not in _FACTORS} for job in jobs]
        if twice := next(
            (job for k, job in enumerate(jobs_stated) if job in jobs_stated[:k]), None
        ):
            raise CatalogError(f"{where}: jobs has {twice} twice; take one out")
        return jobs
    if base is dict and isinstance(value, dict):
        if wrong := [name for name in value if name not in INPUTS]:
            raise CatalogError(f"{where}: {key}.{wrong[0]} is not an input")
        if key == "divides":
            if wrong := [name for name, count in value.items() if count not in _COUNTS]:
                raise CatalogError(f"{where}: {key}.{wrong[0]} is not one of {', '.join(_COUNTS)}")
            return value
        return {
            name: tuple(checked(where, name, each) for each in count)
            if isinstance(count, list)
            else checked(where, name, count)
            for name, count in value.items()
        }
    if isinstance(base, type):
        if not isinstance(value, base):
            raise CatalogError(f"{where}: {key} = {value!r} is not {_KINDS_OF_VALUE[base]}")
        return value
    number = _number(where, key, value)
    lowest = max(row.low, 0.0) if row else 0.0
    may_be_zero = base == "1" if row is None else not row.positive
    if number < lowest or (number == 0 and not may_be_zero) or math.isnan(number):
        rule = "positive" if lowest == 0 else f"at least {lowest:g}"
        raise CatalogError(f"{where}: {key} = {value!r} is not {rule}")
    if row is not None and number > row.high:
        raise CatalogError(f"{where}: {key} = {value!r} is not at most {row.high:g}")
    if math.isinf(number) and not key.endswith("_mttf"):
        raise CatalogError(
            f"{where}: {key} = {value!r} is not finite; only lifetimes may be infinite"
        )
    return number


def _job(where: str, table: Any) -> dict[str, Any]:
    """A job of a calibration's steps: its cluster's labels, its model's shape, and factors."""
    if not isinstance(table, dict):
        raise CatalogError(f"{where}: jobs has {table!r}, which is not a table")
    for name, value in table.items():
        if name not in (*CLUSTER, *SHAPE, *_FACTORS):
            raise CatalogError(f"{where}: one of jobs has an unknown key {name!r}")
        if name in CLUSTER and not isinstance(value, str):
            raise CatalogError(f"{where}: {name} = {value!r} of a job is not text")
    read = {n: v if n in CLUSTER else checked(where, n, v) for n, v in table.items()}
    for name in (*SHAPE[:2], *_FACTORS):
        if name not in table:
            raise CatalogError(f"{where}: one of jobs has no {name}; give it, or take the job out")
    if not {"node", "gpu"} & table.keys():
        raise CatalogError(f"{where}: one of jobs has no node or gpu; give it, or take the job out")
    return read


def _distribution(where: str, key: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table for grid, which knows distributions and refuses what is none."""
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        raise CatalogError(f"{where}: {key} is no distribution; write numbers and text") from None
    return value


def _number(where: str, key: str, value: Any) -> float:
    """A record's number, written with its unit, in the base unit."""
    base = unit(key)
    assert isinstance(base, str)
    if base == "1":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CatalogError(f"{where}: {key} = {value!r} is not a plain number")
        try:
            return float(value)
        except OverflowError:
            raise CatalogError(f"{where}: {key} is too large for a floating-point number") from None
    if not isinstance(value, str):
        raise CatalogError(f"{where}: {key} = {value!r} has no unit; write it as text with one")
    try:
        return parse(value, base, key)
    except UnitError as error:
        raise CatalogError(f"{where}: {error}") from None


_KINDS_OF_VALUE = {str: "text", bool: "true or false", dict: "a table", list: "a list"}
