"""Sampling designs: points drawn from ranges of several inputs, along one axis."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...kernels import elementary
from ...kernels.graph.formulas import Graph
from ..errors import InputError, check_count, imported, nearest
from . import values
from .application import application
from .axis import LONGEST, MOST_SPELLED, Array, Axis, check_length

DESIGNS = ("random", "latin_hypercube", "sobol")
_SETTINGS = ("design", "num", "seed")
_RANGES = ("linspace", "geomspace")


def design_axis(graph: Graph, name: str, spec: Mapping[str, Any]) -> Axis:
    """Read an axis of drawn points.

    `spec` has `design` (random, latin_hypercube or sobol), `num`, optionally `seed` (0), and for
    each input {linspace = [a, b]} (uniform), {geomspace = [a, b]} (uniform in the logarithm), with
    round = true for whole numbers, or a list of equally likely entries. The same spec draws the
    same points, sorted by labels and options so that equal formulas run together, and numbered.
    """
    if not isinstance(name, str) or not name.isidentifier() or name in values.known_names(graph):
        raise InputError(f"axis {name!r} holds drawn points; give it a name that is not an input's")
    design, num, seed = spec["design"], spec.get("num"), spec.get("seed", 0)
    if design not in DESIGNS:
        hint = nearest(design, DESIGNS) if isinstance(design, str) else "choose one of these"
        raise InputError(
            f"axis {name!r}: design = {design!r} is not one of {', '.join(DESIGNS)}; {hint}"
        )
    num = check_count(f"axis {name!r}: num", num)
    drawn = [key for key in spec if key not in _SETTINGS]
    named = any(key in graph.roles.labels or values.is_option(graph, key) for key in drawn)
    check_length(name, num, MOST_SPELLED if named else LONGEST // max(1, len(drawn)))
    if design == "sobol" and num & (num - 1):
        raise InputError(
            f"axis {name!r}: num = {num} is not a power of 2, which a Sobol design needs; "
            f"give {1 << round(math.log2(num))}"
        )
    check_count(f"axis {name!r}: seed", seed, 0)
    if not drawn:
        raise InputError(f"axis {name!r} draws nothing; give the range of at least one input")
    for key in drawn:
        if not values.is_known(graph, key):
            hint = nearest(key, [*values.known_names(graph), *_SETTINGS])
            raise InputError(f"axis {name!r}: {str(key)[:40]!r} is not an input; {hint}")
        values.check_name(graph, key)
    pick = {key: _range(graph, name, key, spec[key]) for key in drawn}
    unit = _unit_cube(design, num, len(drawn), seed)
    numbers: dict[str, Array] = {}
    options: dict[str, tuple[Any, ...]] = {}
    records: dict[str, tuple[str, ...]] = {}
    for column, key in zip(unit.T, drawn, strict=True):
        points = pick[key](column)
        if key in graph.roles.labels:
            records[key] = tuple(points)
        elif values.is_option(graph, key):
            options[key] = tuple(points)
        else:
            numbers[key] = np.asarray(points, float)
    chosen = [*records.values(), *options.values()]
    order: Any = slice(None)
    if chosen:
        order = sorted(range(num), key=lambda k: [str(row[k]) for row in chosen])
    return Axis(
        name,
        np.arange(num),
        {key: row[order] for key, row in numbers.items()},
        {key: tuple(row[k] for k in order) for key, row in options.items()},
        {key: tuple(row[k] for k in order) for key, row in records.items()},
    )


def _unit_cube(design: str, num: int, inputs: int, seed: int) -> Array:
    """Points between 0 and 1, one per row."""
    if design == "random":
        return np.random.default_rng(seed).random((num, inputs))
    qmc = imported("scipy.stats.qmc")  # slow to import: only for designs
    sampler = {"latin_hypercube": qmc.LatinHypercube, "sobol": qmc.Sobol}[design]
    return np.asarray(sampler(inputs, rng=np.random.default_rng(seed)).random(num))


def _range(graph: Graph, axis: str, key: str, spec: Any) -> Any:
    """A function from numbers between 0 and 1 to values of an input."""
    if isinstance(spec, Mapping):
        return _continuous(graph, axis, key, spec)
    if isinstance(spec, str) or not isinstance(spec, Sequence) or not len(spec):
        raise InputError(
            f"axis {axis!r}: {key} = {str(spec)[:40]!r} is not a range; "
            "give {linspace = [a, b]}, {geomspace = [a, b]} or a list"
        )
    if key in graph.roles.labels:
        application(graph).record_names(key, spec)
        choices = list(spec)
    elif values.is_option(graph, key):
        choices = [values.option(graph, key, choice) for choice in spec]
    else:
        choices = [values.number(graph, key, choice) for choice in spec]
    return lambda u: [
        choices[k] for k in np.minimum(u * len(choices), len(choices) - 1).astype(int)
    ]


def _continuous(graph: Graph, axis: str, key: str, spec: Mapping[str, Any]) -> Any:
    chosen = [kind for kind in _RANGES if kind in spec]
    ends = spec[chosen[0]] if len(chosen) == 1 else None
    if (
        set(spec) - {*_RANGES, "round"}
        or not isinstance(ends, Sequence)
        or isinstance(ends, str)
        or len(ends) != 2
        or not isinstance(spec.get("round", False), bool)
        or key in graph.roles.labels
        or values.is_option(graph, key)
    ):
        raise InputError(
            f"axis {axis!r}: {key} = {str(dict(spec))[:60]} is not a range; "
            "give {linspace = [a, b]} or {geomspace = [a, b]}, or a list of choices"
        )
    low, high = (values.number(graph, key, end) for end in ends)
    if not (math.isfinite(low) and math.isfinite(high)) or low >= high:
        raise InputError(
            f"axis {axis!r}: {key} from {low:g} to {high:g} is not a range; give a < b"
        )
    if chosen[0] == "geomspace" and low <= 0:
        raise InputError(f"axis {axis!r}: {key}: geomspace starts at 0; use linspace")

    def draw(u: Array) -> Array:
        if chosen[0] == "linspace":
            points = low + u * (high - low)
        else:
            points = elementary.exp(
                elementary.log(low) + u * (elementary.log(high) - elementary.log(low))
            )
        points = np.clip(points, low, high)  # e^log may round to above it
        return np.rint(points) if spec.get("round", False) else points

    return draw
