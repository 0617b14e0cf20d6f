"""Published times of all-reduces, and of failures and checkpoints, as public inputs."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from ....catalog import kind
from ...errors import shown
from ..nccl import factor
from .facts import Facts, Reading, UnreadableError

# Pattern of a system's name -> calibrations for one node, for several nodes: the first existing one
_CALIBRATIONS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (r"p4de", (), ("aws-p4de",)),
    (r"p5en", ("h200-nvlink-node",), ("aws-p5en",)),
    (r"p5\b", (), ("aws-p5",)),
    (r"p6-?b200", ("b200-nvlink-node",), ("aws-p6-b200",)),
    (r"gb200 2 racks", (), ("coreweave-gb200-2-racks",)),
    (r"gb200", ("gb200-nvl72-rack",), ("coreweave-gb200",)),
    (r"coreweave.*h100", (), ("coreweave-h100-sharp",)),
    (r"8x ?a100", ("a100-nvlink-node",), ()),
    (r"8x ?h100", ("h100-nvlink-node",), ()),
    (r"8x ?h200", ("h200-nvlink-node",), ()),
    (r"8x ?b200", ("b200-nvlink-node",), ()),
)
_COUNT = re.compile(r"(\d{1,5}) ?x |(\d{1,5}) racks?")
_RACK = 72  # GPUs of one NVLink domain of GB200 and GB300
_FEWEST_DIGITS = 0.1  # GB/s: below it two decimals leave one digit
_MINUTE, _HOUR = 60.0, 3600.0
_RESTART = 5 * _MINUTE  # the shortest of the 5 to 20 minutes of Kokolis et al. 2025


def _all_reduce(facts: Facts) -> list[Reading]:
    inputs = _message(facts)
    micros, bandwidth = facts.raw("measured.time_us_oop"), facts.raw("measured.busbw_GBps")
    busbw = facts.number("measured.busbw_GBps", None) if bandwidth else None
    derived = "derived from busbw" in facts.text("notes", "")
    if derived and busbw is not None and busbw < _FEWEST_DIGITS:
        raise UnreadableError(
            f"measured.busbw_GBps = {busbw:g} has one digit, and no time beside it"
        )
    if micros is not None:
        return [Reading(inputs, facts.number("measured.time_us_oop") * 1e-6, "all_reduce_time")]
    return [_of_bandwidth(inputs, facts.number("measured.busbw_GBps"))]


def _by_algorithm(facts: Facts) -> list[Reading]:
    inputs = _message(facts)
    ring = _message(facts, calibrated=False) | {"all_reduce": "ring"}
    times = []
    for keys, run, variant in (
        (("busbw_default_GBps", "allreduce_nvls_busbw"), inputs, "default"),
        (("busbw_ring_GBps", "allreduce_ring_busbw", "ring_busbw"), ring, "ring"),
    ):
        for key in keys:
            rate = facts.number(f"measured.{key}", None)
            if rate is not None:
                times.append(_of_bandwidth(run, rate, variant))
    if not times:
        raise UnreadableError("measured has no bus bandwidth of an all-reduce")
    return times


def _worked(facts: Facts) -> list[Reading]:
    inputs = _message(facts)
    times = [Reading(inputs, facts.number("measured.measured_ms") * 1e-3, "all_reduce_time")]
    single = facts.number("measured.single_node_ms", None)
    if single is not None:
        ranks = inputs["ranks"] / inputs["nodes"]
        single_node = {name: x for name, x in inputs.items() if name != "calibration"}
        single_node |= {"ranks": ranks, "nodes": 1} | _calibration(facts.text("system.name"), 1)
        times.append(Reading(single_node, single * 1e-3, "all_reduce_time", variant="one node"))
    return times


def _message(facts: Facts, calibrated: bool = True) -> dict[str, Any]:
    """Bytes, ranks, nodes and network of an all-reduce; the network calibrated or as specified."""
    name, ranks = facts.text("system.name"), facts.whole("system.ranks", least=2)
    nodes = facts.whole("system.nodes", None)
    if nodes is None:
        match = _COUNT.search(name)
        rack = _RACK if "rack" in name else 8
        nodes = max(int(match[1] or match[2]) if match else round(ranks / rack), 1)
    inputs = {"message_bytes": facts.whole("measured.bytes"), "ranks": ranks, "nodes": nodes}
    known = _calibration(name, nodes) if calibrated else {}
    measured = kind("calibration")[known["calibration"]].values if known else {}
    for key, to in (
        ("system.scaleup_GBps", "intra_node_bandwidth"),
        ("system.nic_GBps_per_gpu", "inter_node_bandwidth"),
    ):
        rate = facts.number(key, None)
        inputs |= {to: rate * 1e9} if rate is not None and to not in measured else {}
    inputs |= known
    if "calibration" not in inputs and "intra_node_bandwidth" not in inputs:
        inputs |= _network(name)
    return inputs


def _calibration(name: str, nodes: int) -> dict[str, Any]:
    """The first calibration of a named system in the catalog, if any."""
    for pattern, one, several in _CALIBRATIONS:
        if re.search(pattern, name.lower()):
            labels = several if nodes > 1 else one
            return next(({"calibration": x} for x in labels if x in kind("calibration")), {})
    return {}


def _network(name: str) -> dict[str, Any]:
    """Node and fabric of a system without calibration or stated bandwidths."""
    from .hardware import bandwidth_of, system_of

    node, fabric = system_of(name.replace("xH", "x H").replace("xA", "x A").replace("xB", "x B"))
    bandwidth = bandwidth_of(name)
    own = {"inter_node_bandwidth": bandwidth} if bandwidth else {}
    return {"node": node, "fabric": fabric, **own}


def _of_bandwidth(inputs: Mapping[str, Any], rate: float, variant: str = "") -> Reading:
    """A time from a bus bandwidth [GB/s]: 2 (n - 1) / n M / B."""
    seconds = factor("all_reduce", inputs["ranks"]) * inputs["message_bytes"] / (rate * 1e9)
    return Reading(inputs, seconds, "all_reduce_time", ("time is that of the bandwidth",), variant)


def _daly(facts: Facts) -> list[Reading]:
    inputs = {
        "checkpoint_stall_time": facts.number("inputs.delta_min") * _MINUTE,
        "cluster_mtbf": facts.number("inputs.M_min") * _MINUTE,
    }
    seconds = facts.number("measured.tau_opt_min") * _MINUTE
    return [Reading(inputs, seconds, "exact_interval")]


def _meta(facts: Facts) -> list[Reading]:
    """Projections of Kokolis et al. 2025 from the node failures that they fitted."""
    measured = facts.raw("measured")
    if measured is None and facts.raw("derived") is not None:
        raise UnreadableError("its figures follow from the source's formula: none is measured")
    if not isinstance(measured, Mapping) or len(measured) != 1:
        raise UnreadableError("measured has no single figure")
    name = str(next(iter(measured)))
    value = facts.number(f"measured.{name}") if name.startswith(("mttf", "ettr")) else 0.0
    projected = re.fullmatch(r"mttf_(\d+(?:e\d)?)gpu_(min|h|days)(?:_projected|_rsc1)?", name)
    if projected:
        gpus, unit = float(projected[1]), projected[2]
        if gpus < 10_000:
            raise UnreadableError(
                f"{name}: the source says its failure rate does not apply at this size"
            )
        seconds = value * {"min": _MINUTE, "h": _HOUR, "days": 24 * _HOUR}[unit]
        return [Reading({"n_gpus": gpus, "reliability": "rsc-1"}, seconds, "cluster_mtbf")]
    share = re.fullmatch(r"ettr_(\d+)gpu_(\d+)min_ckpt", name)
    if share:
        inputs = {
            "n_gpus": float(share[1]),
            "reliability": "rsc-1",
            "fixed_checkpoint_interval": float(share[2]) * _MINUTE,
            "checkpoint_stall_time": 0.0,
            "restart_time": _RESTART,
        }
        notes = ("restart of 5 min, the least of those published; checkpoints cost nothing",)
        return [Reading(inputs, value, "ettr", notes)]
    raise UnreadableError(f"measured.{shown(name)[1:-1]} is an input, not a prediction")


READERS: Mapping[str, Callable[[Facts], list[Reading]]] = {
    "nccl_allreduce": _all_reduce,
    "nccl_algo_by_ranks": _by_algorithm,
    "nccl_worked_example": _worked,
    "daly2006": _daly,
    "meta_rsc": _meta,
}
