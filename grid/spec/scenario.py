"""From a scenario and axes to numbers: labels become inputs, inputs become constants or axes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...catalog import KINDS, CatalogError, Record, is_path, record
from ...kernels.graph.formulas import load
from ...kernels.inputs import INPUTS
from ...kernels.roles import WHOLES
from ..errors import InputError
from . import values
from .axes import Axis, make_axes
from .distributions import Distribution, distribution

# Which kind's value stands where two labels set the same input: what was measured over data
# sheets, gpu over node.
_PRECEDENCE = (
    "calibration",
    "gpu",
    "node",
    "fabric",
    "model",
    "storage",
    "reliability",
    "site",
)


@dataclass(frozen=True)
class Problem:
    """A sweep in numbers: constants in SI, options chosen, axes, catalog records used."""

    constants: Mapping[str, float]
    options: Mapping[str, Any]
    axes: tuple[Axis, ...]
    records: tuple[Record, ...]
    stated: frozenset[str] = frozenset()  # inputs that the scenario itself sets
    distributions: Mapping[str, Distribution] = field(default_factory=dict)  # medians: constants


def resolve(scenario: Mapping[str, Any], axes: Mapping[str, Any]) -> Problem:
    """Read a scenario and its axes.

    Precedence: axis over scenario, explicit over label, calibration over gpu over node. Raises
    InputError.
    """
    for what, given in (("scenario", scenario), ("axes", axes)):
        if not isinstance(given, Mapping):
            raise InputError(f"{what} = {given!r} is not a table; write [{what}]")
    made = list(make_axes(axes).values())
    owner: dict[str, str] = {}
    for axis in made:
        for name in axis.inputs:
            if name in owner:
                raise InputError(
                    f"{name} is set by the axes {owner[name]!r} and {axis.name!r}; keep one"
                )
            owner[name] = axis.name
    constants, options, labels, distributions = _constants(scenario, owner)
    stated = frozenset({*constants, *options})
    explicit = {*stated, *owner}
    used: dict[tuple[str, str], Record] = {}
    made = _set_by_labels(made, labels, constants, options, explicit, used)
    return Problem(
        constants=constants,
        options=options,
        axes=tuple(made),
        records=tuple(used.values()),
        stated=stated,
        distributions=distributions,
    )


def located(spec: Any, folder: Path, key: str = "") -> Any:
    """A spec, or a part of one, whose calibration files are found from a folder."""
    if isinstance(spec, Mapping):
        inside = key == "calibration"  # calibration = {values = [...]}
        return {n: located(part, folder, key if inside else n) for n, part in spec.items()}
    if isinstance(spec, list):
        return [located(part, folder, key) for part in spec]
    return str(folder.absolute() / spec) if key == "calibration" and is_path(spec) else spec


def _constants(
    scenario: Mapping[str, Any], swept: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, Any], dict[str, str], dict[str, Distribution]]:
    constants: dict[str, float] = {}
    options: dict[str, Any] = {}
    labels: dict[str, str] = {}
    distributions: dict[str, Distribution] = {}
    for name, value in scenario.items():
        values.check_name(name)
        if isinstance(value, Mapping):
            found = distribution(name, value)
            if name not in swept:
                distributions[name], constants[name] = found, found.median
        elif name in KINDS:
            try:
                record(name, value)
            except CatalogError as error:
                raise InputError(str(error)) from None
            if name not in swept:
                labels[name] = value
        elif values.is_option(name):
            if name not in swept:
                options[name] = values.option(name, value)
            else:
                values.option(name, value)
        else:
            number = values.number(name, value)
            if name not in swept:
                constants[name] = number
    return constants, options, labels, distributions


def _set_by_labels(
    axes: list[Axis],
    labels: Mapping[str, str],
    constants: dict[str, float],
    options: dict[str, Any],
    explicit: set[str],
    used: dict[tuple[str, str], Record],
) -> list[Axis]:
    """Fill in what labels say, kinds of higher precedence first."""
    stated = explicit | labels.keys()
    taken = explicit | {whole for whole, parts in WHOLES.items() if parts & stated}
    own = "gpu" in labels or any("gpu" in axis.records for axis in axes)
    chosen: list[dict[str, tuple[Any, ...]]] = [{} for _ in axes]
    open_on: dict[str, int] = {}  # what some calibrations of an axis say: the axis
    for kind in _PRECEDENCE:
        if kind in labels:
            said = _said(kind, labels[kind], used, own)
            for name in said.keys() & open_on.keys():
                k = open_on.pop(name)
                row = axes[k].numbers[name]
                filled = np.where(np.isnan(row), said[name], row)
                axes[k] = replace(axes[k], numbers={**axes[k].numbers, name: filled})
            for name in said.keys() - taken:
                (options if values.is_option(name) else constants)[name] = said[name]
            taken |= set(said)
        for k, axis in enumerate(axes):
            if kind not in axis.records:
                continue
            said_each = [_said(kind, label, used, own) for label in axis.records[kind]]
            names = {name for said in said_each for name in said} - taken
            chosen[k] |= {
                name: tuple(said.get(name) for said in said_each)
                for name in sorted(names)
                if values.is_option(name)
            }
            numbers = {
                name: np.array([said.get(name, np.nan) for said in said_each])
                for name in sorted(names - chosen[k].keys())
            }
            axes[k] = replace(axis, numbers={**axis.numbers, **numbers})
            taken |= names
            if kind == "calibration":  # it leaves to other labels what it does not say
                open_on = {name: k for name, row in numbers.items() if np.isnan(row).any()}
    axes = [_with_defaults(axis) for axis in axes]
    return [
        replace(axis, options={**axis.options, **_closed(axis, said, axes, constants)})
        for axis, said in zip(axes, chosen, strict=True)
    ]


def _with_defaults(axis: Axis) -> Axis:
    """An axis on which defaults stand where labels say nothing, unless saying it implies more."""
    implying = {name for row in INPUTS.values() for name in row.implied_by}
    numbers = dict(axis.numbers)
    for name, row in axis.numbers.items():
        default = INPUTS[name].default if name in INPUTS else None
        if default is not None and name not in implying and np.isnan(row).any():
            numbers[name] = np.where(np.isnan(row), default, row)
    return replace(axis, numbers=numbers)


def _closed(
    axis: Axis,
    said: Mapping[str, tuple[Any, ...]],
    axes: Iterable[Axis],
    constants: Mapping[str, float],
) -> dict[str, tuple[Any, ...]]:
    """Options along an axis: what a label leaves open is implied, or the default."""
    if not said:
        return {}
    elsewhere = {*constants, *(n for other in axes if other is not axis for n in other.numbers)}
    given = [
        elsewhere | {name for name, row in axis.numbers.items() if not np.isnan(row[k])}
        for k in range(axis.size)
    ]
    return {
        option: tuple(
            choose({}, names)[option] if choice is None else choice
            for choice, names in zip(row, given, strict=True)
        )
        for option, row in said.items()
    }


def _said(
    kind: str, label: str, used: dict[tuple[str, str], Record], own_gpu: bool
) -> dict[str, Any]:
    """Inputs and quantities that a label sets.

    A node says what its gpu says, unless the scenario has a gpu of its own.
    """
    entry = used.setdefault((kind, label), record(kind, label))
    said = {name: value for name, value in entry.values.items() if name in INPUTS or name in load()}
    if isinstance(entry.values.get("gpu"), str) and not own_gpu:
        said = {**_said("gpu", entry.values["gpu"], used, own_gpu), **said}
    return said


def choose(given_options: Mapping[str, Any], given: Iterable[str]) -> dict[str, Any]:
    """The choice of every option: as given, else implied by what is given, else the default."""
    names = frozenset(given)
    return {
        name: given_options.get(
            name, row.implied if names.intersection(row.implied_by) else row.default
        )
        for name, row in INPUTS.items()
        if row.kind == "option"
    }
