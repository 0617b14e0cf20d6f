"""Write the source of a compiled kernel: rows, tiles, loops that vectorise, streamed outputs."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from .bind import dependencies
from .graph import Function, parameters

TILE = 512  # points of one tile
_LIBRARY_CALLS = {"exp", "expm1", "log", "log1p", "log2", "log10", "power", "ceil"}


@functools.cache
def is_heavy(function: Function) -> bool:
    """Whether a formula calls the mathematics library, so that its loop cannot vectorise."""
    return any(
        name in _LIBRARY_CALLS for used in dependencies(function) for name in used.__code__.co_names
    )


def kernel_source(
    formulas: Mapping[str, Function],
    operands: tuple[tuple[str, bool], ...],
    outs: Mapping[str, np.dtype[Any]],
    outer: int,
) -> str:
    """Python source of a kernel: rows of the outer axes, tiles of a row, outputs streamed."""
    along = dict(operands)
    for name, formula in formulas.items():
        along[name] = any(along[p] for p in parameters(formula))
    level = _levels(formulas, along)
    arguments = [f"t_{name}" for name, _ in operands] + [f"o_{name}" for name in outs]
    lines = [
        "def kernel(start, stop, first, last, shape, steps,",
        f"           {', '.join(arguments)}):",
    ]
    lines += [f"    b_{name} = np.empty({TILE}, np.{dtype.name})" for name, dtype in outs.items()]
    buffered = _buffered(formulas, along, level)
    lines += [f"    v_{name} = np.empty({TILE})" for name in buffered]
    if outer:
        lines.append("    rest = start")
    for axis in reversed(range(outer)):
        lines += [f"    i{axis} = rest % shape[{axis}]", f"    rest //= shape[{axis}]"]
    lines.append("    for row in range(start, stop):")
    addresses = [f"p_{name}" for name, _ in operands] + [f"d_{name}" for name in outs]
    for k, address in enumerate(addresses):
        offset = " + ".join(f"i{axis} * steps[{k}, {axis}]" for axis in range(outer)) or "0"
        lines.append(f"        {address} = {offset}")
    for name, varies in operands:
        if not varies:
            lines.append(f"        {name} = t_{name}[p_{name}]")
    for name, formula in formulas.items():
        if not along[name]:
            lines.append(f"        {name} = f_{name}({', '.join(parameters(formula))})")
    lines.append(f"        for tile in range(first, last, {TILE}):")
    lines.append(f"            size = min({TILE}, last - tile)")
    for name, varies in operands:
        if varies:
            lines.append(
                f"            r_{name} = t_{name}[p_{name} + tile : p_{name} + tile + size]"
            )
    for depth in sorted({*level.values(), 0}):
        lines += _loop(formulas, along, level, depth, dict(operands), buffered, outs)
    for name in outs:
        lines.append(f"            stream(o_{name}, d_{name} + tile, b_{name}, size)")
    for axis in reversed(range(outer)):
        pad = "        " + "    " * (outer - 1 - axis)
        lines.append(f"{pad}i{axis} += 1")
        if axis:
            lines += [f"{pad}if i{axis} == shape[{axis}]:", f"{pad}    i{axis} = 0"]
    return "\n".join(lines) + "\n"


def _levels(formulas: Mapping[str, Function], along: Mapping[str, bool]) -> dict[str, int]:
    """The loop each formula along the row belongs to: heavy ones stand apart from light ones."""
    level: dict[str, int] = {}
    heavy = {name: is_heavy(formula) for name, formula in formulas.items()}
    for name, formula in formulas.items():
        if not along[name]:
            continue
        needed = [p for p in parameters(formula) if p in level]
        same = [level[p] + (1 if heavy[p] != heavy[name] else 0) for p in needed]
        base = max(same, default=0)
        # even loops are light, odd ones heavy
        level[name] = base + (base % 2 != heavy[name])
    return level


def _buffered(
    formulas: Mapping[str, Function], along: Mapping[str, bool], level: Mapping[str, int]
) -> list[str]:
    """Quantities that a later loop reads, and that must therefore be kept for the tile."""
    return [
        name
        for name in formulas
        if along[name]
        and any(
            name in parameters(other) and level.get(user, -1) > level[name]
            for user, other in formulas.items()
            if along[user]
        )
    ]


def _loop(
    formulas: Mapping[str, Function],
    along: Mapping[str, bool],
    level: Mapping[str, int],
    depth: int,
    operands: Mapping[str, bool],
    buffered: list[str],
    outs: Mapping[str, np.dtype[Any]],
) -> list[str]:
    """One loop over a tile: the formulas of one level, and the outputs they give."""
    here = [name for name in formulas if along[name] and level[name] == depth]
    plain = [name for name in outs if name not in level] if depth == 0 else []
    if not here and not plain:
        return []
    body: list[str] = []
    seen: set[str] = set(here)
    for name in here:
        formula = formulas[name]
        for p in parameters(formula):
            if along[p] and p not in seen:
                seen.add(p)
                body.append(f"{p} = {'r' if p in operands else 'v'}_{p}[j]")
        body.append(f"{name} = f_{name}({', '.join(parameters(formula))})")
        if name in buffered:
            body.append(f"v_{name}[j] = {name}")
    for name in [*plain, *(name for name in here if name in outs)]:
        value = f"r_{name}[j]" if name in plain and along[name] else name
        if outs[name].name == "int8":
            value = f"np.int8(-1 if {value} != {value} else {value})"
        elif outs[name].name == "float32":
            value = f"np.float32({value})"
        body.append(f"b_{name}[j] = {value}")
    return ["            for j in range(size):", *(f"                {line}" for line in body)]
