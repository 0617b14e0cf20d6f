"""What a framework can run, by its record: searches keep to it, scenarios outside are told."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from fleetcube.catalog import Record
from fleetcube.grid.spec.axis import Axis
from fleetcube.kernels.physics.roles import RECOMPUTED
from fleetcube.scenario import patterns

KIND, _STAGES = "software", "pipeline_parallel"


def kept(
    records: Iterable[Record], name: str, row: Sequence[Any], divides: Callable[[str, Any], bool]
) -> list[Any]:
    """The candidates of an input that all frameworks of a sweep have."""
    for record in (each for each in records if each.kind == KIND):
        has = record.values.get("has", {}).get(name)
        if has is not None:
            more = [each for each in has if name == RECOMPUTED and each not in (*row, "modules")]
            words = [("modules" if patterns.modules(each) else each, each) for each in row]
            row = [*more, *(each for choice, each in words if choice in has)]
        if of := record.values.get("divides", {}).get(name):
            row = [each for each in row if divides(of, each)]
    return list(row)


def with_stages(
    records: Iterable[Record], found: dict[str, list[Any]], stated: Mapping[str, Any]
) -> None:
    """Keep candidates to what runs with pipeline stages, where these are searched or stated."""
    for record in (each for each in records if each.kind == KIND):
        for name, row in record.values.get("pipelined", {}).items():
            if _STAGES in found and stated.get(name, row[0]) not in row:
                del found[_STAGES]
            elif name in found and (_STAGES in found or stated.get(_STAGES, 1) > 1):
                found[name] = [each for each in found[name] if each in row]


def notes(
    records: Iterable[Record], stated: Mapping[str, Any], axes: Sequence[Axis]
) -> dict[str, str]:
    """Remarks on stated inputs that a framework lacks, by input."""
    return {
        name: f"{record.label} ({record.values['version']}) has {name} {had}, not {_shown(wrong)}"
        for record in records
        if record.kind == KIND
        for name, had, wrong in _lacking(record, stated, axes)
    }


def _lacking(
    record: Record, stated: Mapping[str, Any], axes: Sequence[Axis]
) -> Iterator[tuple[str, str, Any]]:
    """Inputs told outside of what a framework has: the input, what it has, and what is told."""
    values = record.values
    of_stages = values.get("pipelined", {}) if stated.get(_STAGES, 1) > 1 else {}
    for name, row in [*values.get("has", {}).items(), *of_stages.items()]:
        wrong = [each for each in _told(name, stated, axes) if each not in row]
        yield from ((name, ", ".join(map(_shown, row)), each) for each in wrong[:1])
    for name, of in values.get("divides", {}).items():
        for total, each in product(_told(of, stated, axes), _told(name, stated, axes)):
            if total % each:
                yield name, f"that divides {of} {_shown(total)}", each


def _told(name: str, stated: Mapping[str, Any], axes: Sequence[Axis]) -> list[Any]:
    rows = [axis.options.get(name, axis.numbers.get(name, ())) for axis in axes]
    found = [each for row in rows for each in row if each is not None and each == each]
    return [stated[name], *found] if name in stated else found


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
