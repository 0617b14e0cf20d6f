"""Layouts that a framework supports: searches obey it, other scenarios get a remark."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from fleetcube.catalog import Record
from fleetcube.grid.spec.axis import Axis
from fleetcube.kernels.physics.roles import RECOMPUTED
from fleetcube.scenario import patterns

KIND, _STAGES = "software", "pipeline_parallel"


def set_by(record: Record) -> Mapping[str, Any]:
    """The inputs that a record sets, with those of a framework where nobody states them."""
    return {**record.values, **record.values.get("own", {})}


def supported_values(
    records: Iterable[Record], name: str, row: Sequence[Any], divides: Callable[[str, Any], bool]
) -> list[Any]:
    """The candidates of an input that all frameworks of a sweep support."""
    for record in (each for each in records if each.kind == KIND):
        has = record.values.get("has", {}).get(name)
        if has is not None:
            more = [each for each in has if name == RECOMPUTED and each not in (*row, "modules")]
            words = [("modules" if patterns.modules(each) else each, each) for each in row]
            row = [*more, *(each for choice, each in words if choice in has)]
        if whole := record.values.get("divides", {}).get(name):
            row = [each for each in row if divides(whole, each)]
    return list(row)


def with_stages(
    records: Iterable[Record], candidates: dict[str, list[Any]], stated: Mapping[str, Any]
) -> None:
    """Drop candidates that cannot run with pipeline stages, if these are searched or stated."""
    for record in (each for each in records if each.kind == KIND):
        for name, row in record.values.get("pipelined", {}).items():
            if _STAGES in candidates and stated.get(name, row[0]) not in row:
                del candidates[_STAGES]
            elif name in candidates and (_STAGES in candidates or stated.get(_STAGES, 1) > 1):
                candidates[name] = [each for each in candidates[name] if each in row]


def notes(
    records: Iterable[Record], stated: Mapping[str, Any], axes: Sequence[Axis]
) -> dict[str, str]:
    """Remarks on stated inputs that a framework does not support, by input."""
    return {
        name: f"{record.label} ({record.values['version']}) has {name} {had}, not {_shown(wrong)}"
        for record in records
        if record.kind == KIND
        for name, had, wrong in _unsupported_inputs(record, stated, axes)
    }


def _unsupported_inputs(
    record: Record, stated: Mapping[str, Any], axes: Sequence[Axis]
) -> Iterator[tuple[str, str, Any]]:
    """Unsupported inputs: name, supported values, stated value."""
    values = record.values
    of_stages = values.get("pipelined", {}) if stated.get(_STAGES, 1) > 1 else {}
    for name, row in [*values.get("has", {}).items(), *of_stages.items()]:
        wrong = [each for each in _stated(name, stated, axes) if each not in row]
        yield from ((name, ", ".join(map(_shown, row)), each) for each in wrong[:1])
    for name, whole in values.get("divides", {}).items():
        for total, each in product(_stated(whole, stated, axes), _stated(name, stated, axes)):
            if total % each:
                yield name, f"that divides {whole} {_shown(total)}", each


def _stated(name: str, stated: Mapping[str, Any], axes: Sequence[Axis]) -> list[Any]:
    rows = [axis.options.get(name, axis.numbers.get(name, ())) for axis in axes]
    swept = [each for row in rows for each in row if each is not None and each == each]
    return [stated[name], *swept] if name in stated else swept


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
