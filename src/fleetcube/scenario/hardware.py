"""Units of hardware: slices of a torus, a node's own network cards, whole nodes and racks."""

import bisect
import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fleetcube.catalog import AUTO, NONE, record
from fleetcube.catalog import kind as catalog_kind
from fleetcube.grid.errors import InputError
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.scenario import auto
from fleetcube.scenario.along_axes import values_along

CHIPS, NODE, DOMAIN = "n_gpus", "gpus_per_node", "gpus_per_domain"
_X, _Y = "torus_x", "torus_y"
_LINK, _INSIDE, NETWORK = "inter_node_bandwidth", "intra_node_bandwidth", "fabric"
_STARTUP = "inter_node_latency"  # read wherever the link is
_CALIBRATION, EXPONENT = "calibration", "fabric_error_exponent"
WIDER = "fabric_error_factor"  # where a job needs such a fabric
COUNTED = frozenset({CHIPS, NODE, DOMAIN})
_LARGEST_NODE = 16  # GPUs of a server
_TRAY = "-tray"  # ending of records of racks by the tray
_KINDS = ("gpu", "node")
_SHAPES, _LARGEST = "slice_shapes", "largest_slice"
_ANY = "4ix4jx4k"  # in slice_shapes: all sizes are multiples of 4
_HOST = 4  # chips of a host in a slice
_MOST = 1 << 16  # points along axes
_MOST_CHIPS = 1 << 14  # of a slice


@dataclass(frozen=True)
class Derived:
    """Inputs over the axes named next to them, and remarks shown if their input is read."""

    rows: Mapping[str, tuple[tuple[str, ...], Array]] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


@functools.lru_cache(_MOST)
def slices(shapes: str, largest: float, chips: float) -> tuple[int, int, int, int] | None:
    """The most cubic published shape of as few equal slices as hold the chips, and their number.

    Source: Google Cloud TPU documentation, TPU types and topologies (the default is that most like
    a cube); several slices where no pod holds the chips
    """
    fewest = math.ceil(chips / min(largest, _MOST_CHIPS))
    every = _sizes(shapes) if fewest > 1 else [int(chips)]
    for each in reversed(every[: bisect.bisect_right(every, chips / fewest)]):
        number, rest = divmod(chips, each)
        if number >= 4 * fewest:
            break
        if not rest and (matches := _published_shapes(shapes, each)):
            return (*min(matches, key=sum), int(number))
    return None


@functools.cache
def _sizes(shapes: str) -> list[int]:
    """Chips of all published slices up to a size."""
    fixed = {math.prod(map(int, word.split("x"))) for word in shapes.split() if word != _ANY}
    return sorted({*fixed, *(range(64, _MOST_CHIPS + 1, 64) if _ANY in shapes else ())})


def _published_shapes(shapes: str, chips: int) -> list[tuple[int, int, int]]:
    """Published shapes of a slice."""
    words = [word for word in shapes.split() if word != _ANY]
    fixed = [(*map(int, word.split("x")), 1)[:3] for word in words]
    matches: list[Any] = [shape for shape in fixed if math.prod(shape) == chips]
    cubes, rest = divmod(chips, 64)
    if _ANY in shapes and not rest:
        for x in (x for x in range(1, cubes + 1) if x**3 <= cubes and cubes % x == 0):
            layer = cubes // x
            matches += [
                (4 * x, 4 * y, 4 * layer // y)
                for y in range(x, math.isqrt(layer) + 1)
                if layer % y == 0
            ]
    return matches


def _unpublished(shapes: str, largest: float, chips: float) -> str:
    """Message for a number of chips without a slice, with the nearest numbers that have one."""
    below = range(math.ceil(chips) - 1, 0, -1)
    above = range(math.floor(chips) + 1, 4 * math.ceil(chips) + 1)
    each = [
        next((n for n in way if slices(shapes, largest, float(n))), 0) for way in (below, above)
    ]
    nearest = " or ".join(f"{n:,}" for n in each if n)
    return f"{chips:,.12g} chips are no published slice: {nearest} are"


def in_slices(
    axes: Sequence[Axis],
    labels: Mapping[str, str],
    constants: Mapping[str, float],
    explicit: Collection[str],
    free: Collection[str],
) -> Derived:
    """The torus of chips sold in slices, if the scenario does not state it."""
    varying = [axis for axis in axes if {*axis.inputs} & {*_KINDS, CHIPS, DOMAIN}]
    names = {(kind, label) for kind, label in labels.items() if kind in _KINDS}
    names |= {
        (kind, label) for axis in varying for kind in _KINDS for label in axis.records.get(kind, ())
    }
    if {_X, _Y} & {*explicit} or not any(_SHAPES in _sheets(dict([each]))[0] for each in names):
        return Derived()
    if CHIPS in free:
        advice = f"give {_X}, {_Y} and {DOMAIN}, or several {CHIPS} as an axis"
        raise InputError(f"chips come in slices, and an open {CHIPS} names none; {advice}")
    sizes = [axis.size for axis in varying]
    if math.prod(sizes) > _MOST:
        raise InputError(f"slices of more than {_MOST:,} points; give fewer, or {_X} and {_Y}")
    columns = np.full((4, *sizes), np.nan)
    remarks: dict[Any, None] = {}
    for place in np.ndindex(*sizes):
        point = {**labels, **constants, **values_along(varying, place)}
        sheet, host = _sheets(point)
        chips = point.get(DOMAIN, point.get(CHIPS))
        columns[2:, *place] = host.get(DOMAIN, np.nan), host.get(NODE, INPUTS[NODE].default)
        if _SHAPES not in sheet or chips is None:
            continue
        kind = sheet[_SHAPES], sheet[_LARGEST], float(chips)
        x, y, z, number = slices(*kind) or (0.5, 0.5, 4 * chips, 1)  # no box: cannot run
        columns[:, *place] = x, y, x * y * z, host.get(NODE, min(_HOST, x * y * z))
        shape = f"torus by default: {f'{number} of ' * (number > 1)}{x} x {y} x {z}, the published "
        shape += "slice most like a cube"
        remarks[shape if x >= 1 else kind] = None
    if not remarks:
        return Derived()
    rows = {}
    for name, row in zip((_X, _Y, DOMAIN, NODE), columns, strict=True):
        over, array = auto.compressed([axis.name for axis in varying], row)
        if len(over) > 1:  # a table has no gaps: others are nodes without links to each other
            alone = columns[3] if name == DOMAIN else 1.0
            array = np.where(np.isnan(row), alone, row)
            over = tuple(axis.name for axis in varying)
        rows[name] = over, array
    more = f"; and {len(remarks) - 2} more" * (len(remarks) > 2)
    texts = (each if isinstance(each, str) else _unpublished(*each) for each in [*remarks][:2])
    return Derived(rows, {_X: "; ".join(texts) + more})


def _sheets(point: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Values of the GPU's and of the node's record at a point."""
    host = record("node", point["node"]).values if "node" in point else {}
    label = point.get("gpu", host.get("gpu"))
    return (record("gpu", label).values if label else {}), host


def node_networks(
    axes: list[Axis], labels: Mapping[str, str], explicit: Collection[str]
) -> tuple[list[Axis], dict[str, str], dict[str, str]]:
    """Axes and labels of the nodes' own network cards if no fabric is stated, and a remark."""
    fitted = record(_CALIBRATION, labels.get(_CALIBRATION, NONE)).values
    if {_LINK, NETWORK} & {*explicit, *labels, *fitted}:
        return axes, {}, {}

    def cards(nodes: Iterable[str]) -> tuple[str, ...]:
        fabrics: list[Any] = [record("node", node).values.get(NETWORK) for node in nodes]
        return () if None in fabrics else tuple(fabrics)

    if networks := cards([labels["node"]] if "node" in labels else []):
        note = f"no fabric is given: {networks[0]}, as the network cards of {labels['node']} are"
        return axes, {NETWORK: networks[0]}, {_LINK: note}
    rows = [cards(axis.records.get("node", ())) for axis in axes]
    if not any(rows):
        return axes, {}, {}
    with_networks = [
        replace(axis, records={**axis.records, NETWORK: row}) if row else axis
        for axis, row in zip(axes, rows, strict=True)
    ]
    return with_networks, {}, {_LINK: "no fabric is given: each node has its own network cards"}


def new_networks(
    axes: Sequence[Axis],
    labels: Mapping[str, str],
    stated: Collection[str],
    options: Mapping[str, Any],
) -> Derived:
    """How much wider the interval of calibration "auto" is between nodes whose fabric no published
    step ran on, unless its width is `stated` or an option leaves it, and a remark."""
    varying = [axis for axis in axes if {_CALIBRATION, NETWORK} & {*axis.records}]
    new: dict[str, None] = {}

    def row(kind: str, of: Callable[[str], Any]) -> Array:
        position = next((k for k, axis in enumerate(varying) if kind in axis.records), None)
        if position is None:
            return np.array(of(labels.get(kind, "")))
        shape = [-1 if k == position else 1 for k in range(len(varying))]
        return np.array([of(label) for label in varying[position].records[kind]]).reshape(shape)

    def exponent(label: str) -> float:
        if (power := auto.fabric_exponent(label)) > 1:
            new[label.partition("@")[0]] = None
        return power

    powers = np.where(row(_CALIBRATION, AUTO.__eq__), row(NETWORK, exponent), 1.0)
    if not (powers > 1).any():
        return Derived()
    text = f"calibration auto: no step on {', '.join(sorted(new))} is fitted"
    if {auto.FACTOR, EXPONENT} & {*stated} or options.get("unmeasured_fabric") is False:
        return Derived(notes={_STARTUP: text})
    wider = f"{text}: between nodes the interval is {powers.max():g} times as wide"
    over = auto.compressed([axis.name for axis in varying], powers)
    return Derived({EXPONENT: over}, {_STARTUP: wider})


def whole_units(
    axes: Sequence[Axis],
    constants: Mapping[str, float],
    free: Collection[str],
    new: Mapping[str, str],
) -> Derived:
    """The network of a job in one node, which needs none; remarks on partly used nodes, and those
    on `new` fabrics of one in several."""
    given = {*constants, *(name for axis in axes for name in axis.numbers)}
    varying = [axis for axis in axes if {*axis.numbers} & {CHIPS, NODE, DOMAIN}]
    if CHIPS in free or CHIPS not in given or math.prod(axis.size for axis in varying) > 16 * _MOST:
        return Derived(notes=new)

    def row(name: str, otherwise: Any) -> Array:
        position = next((k for k, axis in enumerate(varying) if name in axis.numbers), None)
        values = np.asarray(constants.get(name, otherwise))
        if position is not None:
            shape = [varying[position].size if k == position else 1 for k in range(len(varying))]
            values = varying[position].numbers[name].reshape(shape)
            values = np.where(np.isnan(values), constants.get(name, otherwise), values)
        return values

    chips, node = row(CHIPS, np.nan), row(NODE, INPUTS[NODE].default)
    joined = np.maximum(node, np.nan_to_num(row(DOMAIN, 0.0)))
    one = _LINK not in given and _INSIDE in given and bool((chips <= joined).all())
    link = constants.get(_INSIDE, 1.0)
    rows: dict[str, Any] = {_LINK: ((), np.asarray(link))} if one else {}
    notes = {_LINK: "no fabric is given: the job fits in one node, rack or slice"} if one else {}
    notes |= new if (chips > joined).any() else {}
    chips, joined = np.broadcast_arrays(chips, joined)
    partly = (chips % joined > 0) & (chips % 1 == 0)
    if partly.any() and {NODE, DOMAIN} & given:
        n, size = chips[partly][0], joined[partly][0]
        whole = math.ceil(n / size)
        unit = "nodes" if size == row(NODE, 8.0).max() else "racks or slices"
        least, more = ("at least ", " (idle_domain_gpus)") if DOMAIN in given else ("", "")
        notes[CHIPS] = (
            f"{n:,.0f} GPUs take {least}{whole:,} {unit} of {size:g}: {least}"
            f"{whole * size - n:,.0f} are idle{more}, which power and cost leave out"
        )
    return Derived(rows, notes)


def nodes(
    axes: Sequence[Axis], constants: Mapping[str, float], stated: Collection[str]
) -> dict[str, str]:
    """A remark on a node that is `stated` so large that it is a rack."""
    given = {*constants}.union(*(axis.numbers for axis in axes))
    rows: list[Any] = [
        [constants.get(NODE, 0.0)],
        *(a.numbers[NODE] for a in axes if NODE in a.numbers),
    ]
    size = float(np.nanmax(np.concatenate(rows)))
    if NODE not in stated or DOMAIN in given or size <= _LARGEST_NODE:
        return {}
    text = f"{NODE} = {size:g} is taken as one domain of fast links, which fails as a whole"
    return {NODE: f"{text}; for smaller nodes in one domain give {DOMAIN}, too"}


def trays(axes: Sequence[Axis], labels: Mapping[str, str]) -> dict[str, str]:
    """Remarks on racks counted as nodes if another record counts their trays."""
    racks = [labels.get("node", ""), *(n for a in axes for n in a.records.get("node", ()))]
    some = [name for name in racks if f"{name}{_TRAY}" in catalog_kind("node")]
    notes = [f"a node of {n} is a whole rack; for parts of racks give {n}{_TRAY}" for n in some[:1]]
    return dict.fromkeys([NODE] if notes else [], "".join(notes))


def shared(kinds: Iterable[tuple[str, str]], stated: Collection[str]) -> dict[str, str]:
    """Remarks on values that a scenario states once for several GPUs or nodes."""
    sheets = {label: _sheets({kind: label}) for kind, label in kinds if kind in _KINDS}
    sheet_inputs = {name for pair in sheets.values() for sheet in pair for name in sheet}
    every = ", ".join(sheets)
    return {
        name: f"{name} is stated once, and the same for {every}, instead of each one's own"
        for name in sorted(sheet_inputs & {*stated})
        if len(sheets) > 1
    }
