"""The basis of a result: remarks for people, and inputs left to their defaults."""

import functools
import math
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from fleetcube.catalog import CONFIGURED, is_path, kind
from fleetcube.grid.plan.dims import depending, option_of
from fleetcube.grid.plan.plan import Plan, Structure
from fleetcube.grid.spec.problem import Problem
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.declare import HOUR
from fleetcube.kernels.graph.bind import definitions
from fleetcube.kernels.physics.roles import (
    BESIDE_IT,
    DECIDED,
    EXCEEDED,
    FITTED,
    HEAD_WIDTHS,
    LEFT_OUT,
    OWNING,
    PRICES,
    UNALIGNED,
)

_REST, _NODES_PER_RACK = "node_overhead_power", "nodes_per_rack"
_OF_GPUS_ALONE = (
    f"power is of GPUs alone, without the rest of their nodes; give node_power or {_REST}"
)
_OVERLAP, _WAITING = "data_parallel_overlap", 0.1  # the share of a step from which it is named
_PRICED = ("node", "gpu")
_ROUND = 0.5  # of a round: the mean of rounded numbers from the rounded mean
_WIDTHS = 3  # named in a line
_SLOW_HEADS = (
    "no multiple of {} bytes: attention_kernel standard is several times as slow with them (known "
    "of A100); choose other attention_heads, or flash, which fills them up"
)
_TERM, _COMPLETION, _TIME = "contract_time", "completion_time", "job_time"
_FROM_PEERS = "checkpoint_restore_time_checkpoint_mode_in_memory"
_SURVIVED = (
    "checkpoint_mode in_memory: each failure is taken to leave a copy in a peer's memory; for the "
    "share that does, give memory_tier_survival with checkpoint_mode = tiered"
)
_OVERSIZED = (
    "nodes_per_rack is 0: a node needs more than rack_power, and takes several racks alone; "
    "give the rack_power that it has"
)
_OF_NODES = (
    "at the site, racks are filled by power alone, and power is of nodes: space in a rack, "
    "switches and storage are not counted"
)


def remarks(plan: Plan) -> tuple[str, ...]:
    """Remarks on calibrations, fits, labels and omissions of the formulas in use."""
    problem, used = plan.problem, _named(plan.structure)
    fitted = (entry.values for entry in problem.records if entry.kind == "calibration")
    lines = [*problem.remarks] if any(plan.structure.used & row.keys() for row in fitted) else []
    lines += _beyond_fits(plan)
    lines += [
        f"{name}: {omission}"
        for name, formulas, omission in LEFT_OUT
        if used & formulas and problem.most_together({name}) > 0
    ]
    lines += [*_added(plan, used), *_short_intervals(plan), *_waits(plan), *shared_prices(plan)]
    lines += _unaligned_heads(plan, used)
    lines += [*_after_contract(plan), *_fewer_replicas(plan), *_unpriced(plan)]
    lines += [_SURVIVED] * (_FROM_PEERS in used)
    lines += [note for name, note in problem.notes.items() if name in used]
    if _REST in used and not {_REST, "node_power"} & problem.numbers:
        lines.append(_OF_GPUS_ALONE)
    if _NODES_PER_RACK in used and plan.is_table(_NODES_PER_RACK):
        cases = (case for case in plan.cases if _NODES_PER_RACK in {*case.formulas, *case.leaves})
        tables = (plan.table(case, _NODES_PER_RACK) for case in cases)
        lines += [_OVERSIZED] * any((table < 1).any() for table in tables)
    if {"site_power", "site_racks"} & problem.numbers and {"it_power", _NODES_PER_RACK} & used:
        lines.append(_OF_NODES)
    lines += [
        f"{entry.kind} {entry.title}: {entry.note}"
        for entry in problem.records
        if entry.kind == CONFIGURED and is_path(entry.kind, entry.label)
        if used & entry.values.keys()
    ]
    return tuple(lines)


@functools.lru_cache(128)
def _named(structure: Structure) -> AbstractSet[str]:
    """Names in use, in any phase, and names of the formulas."""
    formulas = {formula.__name__ for row in structure.formulas for formula in row.values()}
    return formulas.union(map(without_phase, structure.used))


def _added(plan: Plan, used: AbstractSet[str]) -> Iterator[str]:
    """Default failure rates that add to a stated one, a line each."""
    numbers = plan.problem.numbers
    for name, others in ((name, BESIDE_IT[name]) for name in BESIDE_IT if name in numbers):
        added = [
            f"{other} = {plan.graph.inputs[other].default / HOUR:,g} h"
            for other, count in others.items()
            if other in used - numbers
            and any(np.any(case.leaves.get(count, 0) > 0) for case in plan.cases)
        ]
        if added:
            alone = " alone" * ({*others} - numbers == {*others})
            yield (
                f"{name} is given{alone}, and other parts fail, too, by default: "
                f"{', '.join(added)}; for a rate of all causes give interruption_mttf"
            )


def shared_prices(plan: Plan) -> list[str]:
    """Prices that do not follow the nodes or GPUs along an axis, a line each."""
    prices = [n for n in PRICES if n in plan.problem.numbers and n in plan.structure.used]
    return [
        f"{price} does not follow {entry} ({', '.join(labels)}): for a price each, write in a spec "
        f"[axes.offer] {entry} = [...], {price} = [...]"
        for axis in plan.problem.axes
        for entry in _PRICED
        if len(labels := dict.fromkeys(axis.records.get(entry, ()))) > 1
        for price in prices
        if price not in axis.numbers
    ]


def _beyond_fits(plan: Plan) -> list[str]:
    """Extrapolations of formulas in use beyond the runs they were fitted to, a line each."""
    lines: dict[str, None] = {}
    for number, name, choice in _fitted(plan.structure):
        case, option = plan.cases[number], option_of(plan.graph, name)
        quantity = without_phase(name)
        for operand, (low, high) in FITTED[quantity][choice].items():
            in_phase = operand + name.removeprefix(quantity)  # of the same phase, if it has one
            given = {*case.leaves, *case.formulas}
            read = in_phase if in_phase in given else operand
            if read not in given or not plan.is_table(read):
                continue
            table = plan.table(case, read)
            least, most = np.nanmin(table), np.nanmax(table)
            if least < low or most > high:
                far = most if most > high else least
                lines[
                    f"{option} = {choice} was fitted to {operand} from {low:g} to "
                    f"{high:g}: {far:.4g} is an extrapolation"
                ] = None
    return list(lines)


@functools.lru_cache(128)
def _fitted(structure: Structure) -> list[tuple[int, str, Any]]:
    """Formulas fitted to runs: the case, the quantity, and the choice of its option."""
    quantities = structure.graph.quantities
    return [
        (number, name, choice)
        for number, row in enumerate(structure.formulas)
        for name in sorted(name for name in row if without_phase(name) in FITTED)
        for choice in FITTED[without_phase(name)]
        if quantities[without_phase(name)].formulas[choice] in definitions(row[name])
    ]


def _short_intervals(plan: Plan) -> Iterator[str]:
    """Checkpoint intervals shorter than the time they should exceed, a line each."""
    for (interval, time), line in EXCEEDED.items():
        least = math.inf
        for name, other in _in_same_phase(plan.structure, interval, time):
            for case in (c for c in plan.cases if {name, other} <= c.formulas.keys() | c.leaves):
                if plan.is_table(name) and plan.is_table(other):
                    with np.errstate(all="ignore"):  # both may be infinite
                        share = plan.table(case, name) / plan.table(case, other)
                    least = float(np.fmin.reduce(share, axis=None, initial=least))
        if least <= 1:
            yield f"{interval} {line.format(least)}"


def _unaligned_heads(plan: Plan, used: AbstractSet[str]) -> list[str]:
    """Heads for which unfused attention is slow: nothing else in an answer shows why it is."""
    formula, row_bytes = UNALIGNED
    widths: set[float] = set()
    for case in plan.cases if formula in used else ():
        if {*HEAD_WIDTHS} <= {*case.leaves, *case.formulas} and all(
            map(plan.is_table, HEAD_WIDTHS)
        ):
            mean, value, size = np.broadcast_arrays(*(plan.table(case, n) for n in HEAD_WIDTHS))
            for width in (value, 2 * mean - value):
                whole = np.floor(width) == width  # parts of an element are refused elsewhere
                widths.update(width[whole & (width * size % row_bytes > 0)].tolist())
    heads = ", ".join(f"{width:g}" for width in sorted(widths)[:_WIDTHS])
    return [f"heads of {heads} elements are {_SLOW_HEADS.format(row_bytes)}"] if widths else []


def _after_contract(plan: Plan) -> Iterator[str]:
    """How long after the contract of its first nodes a job ends, at most."""
    late, constants = 0.0, plan.problem.constants
    for case in plan.cases:
        ends = _COMPLETION if _COMPLETION in case.formulas else _TIME
        if {_TERM, ends} <= {*case.leaves, *case.formulas, *constants} and plan.is_table(ends):
            term = plan.table(case, _TERM) if _TERM in case.leaves else constants[_TERM]
            after = plan.table(case, ends) - term
            late = float(np.fmax.reduce(after, axis=None, initial=late, where=after < np.inf))
    if late > 0:
        yield (
            f"{_TERM}: a job ends up to {late / 24 / HOUR:,.4g} d after the contract of its first "
            "nodes: such a contract has to be extended"
        )


def _fewer_replicas(plan: Plan) -> Iterator[str]:
    """How far the speed of a job that shrinks is from jobs played, which its rounds decide."""
    off = 0.0
    for name, rounds in _in_same_phase(plan.structure, "elastic_capacity", "num_microbatches"):
        for case in (c for c in plan.cases if rounds in c.formulas.keys() | c.leaves):
            formula = getattr(case.formulas.get(name), "__name__", "")
            if formula == "shrinking_elastic_capacity" and plan.is_table(rounds):
                off = max(off, 0.01, _ROUND / float(np.nanmin(plan.table(case, rounds))))
    if off:
        yield (
            f"elastic_capacity: within {off:.2g} of jobs played: rounds of micro-batches are those "
            "of the mean replicas; fleetcube simulate plays them"
        )


def _unpriced(plan: Plan) -> Iterator[str]:
    """The parts of what owning costs that nobody stated, and that are 0 so."""
    used, numbers = plan.structure.used, plan.problem.numbers
    by_ports = {"nic_price", "switch_port_price"} & numbers
    left = [n for n in OWNING if n in used - numbers and not (n == "fabric_price" and by_ports)]
    if left and "ownership_cost" in used and "node_price" in numbers:
        yield f"owning is without what nobody stated: {', '.join(left)}; give them, or 0"


def _waits(plan: Plan) -> Iterator[str]:
    """The share of a step that waits for traffic whose overlap is inferred, from few steps."""
    if _OVERLAP not in plan.problem.inferred:
        return
    most = 0.0
    for name, other in _in_same_phase(plan.structure, "step_time", "exposed_data_parallel_time"):
        for case in (c for c in plan.cases if {name, other} <= c.formulas.keys()):
            if plan.is_table(name) and plan.is_table(other):
                with np.errstate(all="ignore"):
                    share = plan.table(case, other) / plan.table(case, name)
                most = float(np.fmax.reduce(share, axis=None, initial=most))
    if most > _WAITING:
        yield (
            f"{most:.0%} of a step waits for data-parallel traffic: {_OVERLAP} is inferred, from "
            "few steps that depend on it; give it if you know it"
        )


@functools.lru_cache(256)
def _in_same_phase(structure: Structure, one: str, other: str) -> list[tuple[str, str]]:
    """The names of two quantities, in each phase that has the first."""
    names = [name for name in structure.dims if without_phase(name) == one]
    return [(name, other + name.removeprefix(one)) for name in names]


def defaults(plan: Plan, varied: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Inputs of `DECIDED` left to a default, with values; and those so at some points only.
    Formulas in use read them, and nothing sets them; those in `varied` are set point by point."""
    numbers = plan.problem.numbers | plan.problem.choices
    open_ = plan.problem.defaulted
    decided: dict[str, Any] = {}
    partly = []
    for name, condition in DECIDED.items():
        stated = name in numbers and name not in open_
        if stated or name in varied or name not in plan.structure.used:
            continue
        axis, array = open_.get(name, ("", np.array([True])))
        row = array.tolist()
        points = [
            row[case.runs.get(axis, slice(None))] if name in read else row[:0]
            for case, read in zip(plan.cases, plan.structure.read, strict=True)
        ]
        if any(map(any, points)) and (not condition or condition in numbers | plan.moving):
            declared = plan.graph.inputs.get(name)
            decided[name] = declared.default if declared else _same(plan, name, varied)
            partly += [] if all(part and all(part) for part in points) else [name]
    return decided, partly


def unstated(problem: Problem, name: str) -> str:
    """Hint that the catalog's GPU records lack a missing input."""
    gpus = (entry for entry in problem.records if entry.kind == "gpu")
    silent = [entry.label for entry in gpus if name not in entry.values]
    in_others = any(name in entry.values for entry in kind("gpu").values())
    return f"; the catalog has none of {', '.join(silent)}" if in_others and silent else ""


def _same(plan: Plan, name: str, varied: Collection[str]) -> float | None:
    """A quantity's value, if it is a table and the same at all points."""
    if name in depending(plan.structure.formulas, on=varied):
        return None
    if not all(name in case.formulas and plan.is_table(name) for case in plan.cases):
        return None
    values = {float(value) for case in plan.cases for value in plan.table(case, name).flat}
    return values.pop() if len(values) == 1 else None
