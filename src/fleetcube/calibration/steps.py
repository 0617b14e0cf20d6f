"""Fit inputs of the model to a table of measured values, such as step times."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fleetcube.catalog import KINDS, NONE, CatalogError, pooled, record
from fleetcube.grid.errors import InputError, imported, nearest, shown
from fleetcube.grid.plan.execute import evaluate_block
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axis import Array
from fleetcube.grid.spec.problem import resolve
from fleetcube.kernels.calculus.derivatives import name_of
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from .csv_columns import check_measured, check_once, checked, named, rows_of, written
from .fit import Fit, covariance_of, quantile, variance_of, weakest, weights_of

FITTED = tuple(
    name
    for name in KINDS["calibration"]
    if name in INPUTS
    and INPUTS[name].kind == "real"
    and name not in ("sqrt_coefficient", "error_factor", "step_time_factor")
)
STEP = "step_time"
_LEAST = 1e-9  # for inputs that must be above 0
FAR = 2.0  # median ratio to the measured values from which a fit is questioned
LEAST = 0.01  # efficiency of GPUs below which a fit is questioned
MOST = 0.5  # of an input's range: a wider interval leaves it undetermined
_ROUNDS = 20
_NOISE = 0.03  # relative; assumed for measured values when weighed against priors


@dataclass
class Table:
    """Usable rows: inputs by name (None if not stated) and measured values; notes on the others."""

    inputs: dict[str, list[Any]]
    measured: list[float] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class StepFit(Fit):
    """Inputs fitted to measured values of an output; `measured` and `fitted` in its base unit.
    `idle` inputs matter in no row and keep their prior values. 90 of 100 new step times are within
    `error_factor`; None if the output depends on more than the step time."""

    of: str
    measured: Array
    fitted: Array
    lines: tuple[int, ...]
    idle: tuple[str, ...]
    error_factor: float | None

    @property
    def computed(self) -> Array:
        """What the values alone give at the rows."""
        return self.fitted

    @property
    def doubt(self) -> str | None:
        """Signs of a wrong unit: efficiency below LEAST, or half of the rows off by FAR or more."""
        for name in ("flops_efficiency", "gemm_efficiency"):
            if self.values.get(name, 1.0) < LEAST:
                return f"{name} = {self.values[name]:.2g}: is the measured unit right?"
        ratios = np.maximum(self.computed / self.measured, self.measured / self.computed)
        if np.median(ratios) < FAR:
            return None
        row = int(np.argsort(ratios)[len(ratios) // 2])
        unit = PHYSICS.quantities[self.of].unit
        shown_values = [
            f"{x[row]:.3g} {'' if unit == '1' else unit}".strip()
            for x in (self.computed, self.measured)
        ]
        return f"predicted {shown_values[0]}, measured {shown_values[1]}: is the unit right?"


def parse_table(path: str, text: str, of: str = "step_time") -> Table:
    """The table in the text of a CSV whose columns are inputs or catalog kinds, and one the
    measured output. A heading may name a unit ("step_time [ms]"), and so may a cell ("400 Gbit/s");
    plain numbers are in the base unit. Unreadable rows are counted by reason. Raises InputError."""
    if of not in PHYSICS.quantities or PHYSICS.quantities[of].unit == "flag":
        raise InputError(
            f"{shown(of)} is not a measured quantity; {nearest(of, PHYSICS.quantities)}"
        )
    return _read_rows(rows_of(path, text), of)


def _read_rows(rows: list[list[str]], of: str) -> Table:
    columns: dict[int, tuple[str, str]] = {}
    table = Table({})
    for k, heading in enumerate(map(str.strip, rows[0])):
        name, unit = named(heading)
        if name in values.known_names(PHYSICS) and (
            name not in PHYSICS.quantities or PHYSICS.quantities[name].unit != "flag"
        ):
            columns[k] = name, unit
        elif heading:
            hint = nearest(name, values.known_names(PHYSICS), "it is not an input")
            table.notes.append(f"the column {shown(heading)} is not used: {hint}")
    names = [name for name, _ in columns.values()]
    check_once(names)
    if of not in names:
        headings = ", ".join(heading.strip() for heading in rows[0])
        raise InputError(f"the table has no column {of!r} (but {headings[:200]}); name it, or --of")
    table.inputs = {name: [] for name in names if name != of}
    for number, row in enumerate(rows[1:], 2):
        try:
            read = {
                name: _cell(name, unit, row[k] if k < len(row) else "")
                for k, (name, unit) in columns.items()
            }
        except InputError as error:
            table.dropped[f"{error} cannot be read"] += 1
            continue
        try:
            check_measured(of, read[of])
        except InputError as error:
            share = 1 < read[of] < math.inf
            table.dropped[str(error) if share else f"{of} cannot be read"] += 1
            continue
        table.measured.append(read.pop(of))
        table.lines.append(number)
        for name, value in read.items():
            table.inputs[name].append(value)
    return table


def _cell(name: str, unit: str, text: str) -> Any:
    """The value of a cell. Raises InputError with only the column's name."""
    try:
        return checked(name, written(name, unit, text))
    except (InputError, CatalogError):
        raise InputError(name) from None  # rows are counted by this text


def fit_steps(
    table: Table,
    scenario: Mapping[str, Any],
    fit: Sequence[str] = ("flops_efficiency",),
    of: str = "step_time",
    priors: Mapping[str, float] | None = None,
    most: Mapping[str, float] | None = None,
) -> StepFit:
    """Fit inputs so that an output agrees with the measured values.

    Noise is multiplicative: logarithms are fitted, with Huber's loss, within the inputs' bounds and
    `most`. The scenario states what the table does not. `priors` are standard deviations of inputs,
    relative to the scenario's values, and settle what the rows leave open. Raises InputError if the
    rows do not determine the inputs, or are too few.
    """
    _check_fit(fit, table)
    _check_calibration(scenario.get("calibration", NONE))
    try:
        model = _Model(table, scenario, fit, of, most)
    except InputError as error:
        raise with_notes(error, table) from None
    precisions = _precisions(fit, scenario, priors or {})
    if len(model.measured) <= len(fit) - int((precisions > 0).sum()):
        message = f"{len(model.measured)} rows can be used to fit {len(fit)} inputs; measure more"
        dropped = [f"dropped {count}: {why}" for why, count in model.dropped.most_common(3)]
        raise InputError("; ".join([message, *dropped, *table.notes])[:500])
    start = np.array([_start(name, scenario) for name in fit])
    x = _search(model, start, precisions)
    low, high = model.bounds
    residuals = model.residuals(x)
    jacobian = model.jacobian(x)
    _check_distinguishable(np.vstack([jacobian, _NOISE * np.diag(precisions)]), fit, of)
    covariance = covariance_of(jacobian, residuals, precisions)
    deviations = np.sqrt(np.diag(covariance))
    width = quantile(len(residuals), len(fit)) * deviations
    at_bound = tuple(
        name
        for name, value, a, b in zip(fit, x, low, high, strict=True)
        if min(value - a, b - value) < 1e-6 * max(abs(value), 1e-6)
    )
    fitted = model.predict(x)
    first, last = np.maximum(x - width, low), np.minimum(x + width, high)
    intervals = dict(zip(fit, zip(first.tolist(), last.tolist(), strict=True), strict=True))
    few = len(model.measured) < 2 * (len(fit) - int((precisions > 0).sum()))
    return StepFit(
        values=dict(zip(fit, x.tolist(), strict=True)),
        standard_errors=dict(zip(fit, deviations.tolist(), strict=True)),
        intervals=intervals,
        correlations=covariance / np.outer(deviations, deviations),
        at_bound=at_bound,
        errors=np.abs(fitted / model.measured - 1),
        rows=len(model.measured),
        dropped={reason: count for reason, count in model.dropped.items() if count},
        notes=(*table.notes, *_left_open(intervals, model.bounds, at_bound, few)),
        of=of,
        measured=model.measured,
        fitted=fitted,
        lines=model.lines,
        idle=tuple(name for name, column in zip(fit, jacobian.T, strict=True) if not column.any()),
        error_factor=_error_factor(residuals, jacobian, covariance)
        if of == STEP or follows_the_step(model, table, scenario, fit)
        else None,
    )


def _check_calibration(label: Any) -> None:
    if "jobs" in record("calibration", label).values:
        raise InputError(
            f"calibration = {str(label)!r} has factors of jobs, which the fit would not pass on; "
            "leave it out of the spec"
        )


def _error_factor(residuals: Array, jacobian: Array, covariance: Array) -> float:
    """The factor within which 90 of 100 new steps like these rows fall, by Student's t. The
    variance is that of noise and fit; since few rows can agree by chance, it is at least that of
    published steps under their own coefficients."""
    rows, coefficients = jacobian.shape
    fitted = float(np.einsum("re,ef,rf->", jacobian, covariance, jacobian)) / rows
    variance = variance_of(residuals, coefficients) + fitted
    width = quantile(rows, coefficients) * math.sqrt(variance)
    return math.exp(max(width, pooled.STUDENT * pooled.posterior().noise()))


def with_notes(error: InputError, table: Table) -> InputError:
    """The error, with the unused columns added."""
    message = "; ".join([str(error), *table.notes])
    return InputError(message if len(message) <= 500 else f"{message[:500]} ...")


def check_rows(table: Table) -> None:
    if not table.measured:
        reasons = ", ".join(f"{count} x {reason}" for reason, count in table.dropped.items())
        raise InputError(f"no row of the table can be used ({reasons}); fix the cells")


def follows_the_step(
    model: "_Model", table: Table, scenario: Mapping[str, Any], fit: Sequence[str]
) -> int:
    """1 or -1 if, in every row, an output is proportional to the step time or its inverse."""
    start = np.array([_start(name, scenario) for name in fit])
    try:
        step = _Model(table, scenario, fit, STEP)
    except InputError:  # the step time needs more inputs
        return 0
    slopes, other = model.jacobian(start), step.jacobian(start)
    if step.lines != model.lines:
        return 0
    return next((sign for sign in (1, -1) if np.allclose(slopes, sign * other, rtol=1e-6)), 0)


def _left_open(
    intervals: Mapping[str, tuple[float, float]],
    bounds: tuple[Array, Array],
    at_bound: Sequence[str],
    few: bool,
) -> list[str]:
    """What the rows leave open: every input if they are few."""
    notes = []
    for (name, (first, last)), low, high in zip(intervals.items(), *bounds, strict=True):
        if few or last - first > MOST * (high - low):
            notes.append(f"{name} is not determined by these rows; add rows that differ")
        elif math.isinf(high) and first <= low and name not in at_bound:
            notes.append(f"{name} cannot be distinguished from {low:.0f} by these rows")
    return notes


def _precisions(
    fit: Sequence[str], scenario: Mapping[str, Any], priors: Mapping[str, float]
) -> Array:
    """1 over the prior standard deviation of each input; 0 without a prior."""
    return np.array(
        [1 / (priors[name] * _start(name, scenario)) if name in priors else 0.0 for name in fit]
    )


def _search(model: "_Model", start: Array, precisions: Array) -> Array:
    low, high = model.bounds
    x = start
    residuals = model.residuals(x)
    weights, tie = np.ones_like(residuals), precisions * _NOISE
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)
        solution = imported("scipy.optimize").least_squares(
            lambda p, root=root: np.concatenate([root * model.residuals(p), tie * (p - start)]),
            x,
            jac=lambda p, root=root: np.vstack([root[:, None] * model.jacobian(p), np.diag(tie)]),
            bounds=(low, high),
            x_scale=np.maximum(np.abs(x), 1e-12),
            xtol=1e-8,
            ftol=1e-10,
            gtol=1e-10,
        )
        done = np.allclose(solution.x, x, rtol=1e-4, atol=0)
        x = solution.x
        residuals = model.residuals(x)
        weights = weights_of(residuals, len(x))
        if done:
            break
    return x


def _check_fit(fit: Sequence[str], table: Table) -> None:
    if not fit:
        raise InputError("nothing to fit; name an input with --fit")
    for name in fit:
        if name not in FITTED:
            raise InputError(f"{shown(name)} cannot be fitted; {nearest(name, FITTED, _CHOICES)}")
        if name in table.inputs:
            raise InputError(f"{name} is both a column and fitted; remove one")
        if list(fit).count(name) > 1:
            raise InputError(f"--fit names {name} twice; remove one")


_CHOICES = f"choose from {', '.join(FITTED)}"


def _start(name: str, scenario: Mapping[str, Any]) -> float:
    """The search's start: the scenario's value or the default, within the bounds."""
    row = INPUTS[name]
    value = scenario.get(name, row.default)
    value = values.number(PHYSICS, name, value) if value is not None else 1e10
    if row.high < math.inf:
        return value if 0.01 * row.high < value < 0.99 * row.high else 0.5 * row.high
    return value if value > 0 else {"s": 1e-3}.get(row.unit, 0.1)


class _Model:
    """An output at the rows of a table, as a function of the inputs fitted."""

    def __init__(
        self,
        table: Table,
        scenario: Mapping[str, Any],
        fit: Sequence[str],
        of: str,
        most: Mapping[str, float] | None = None,
    ) -> None:
        self.fit, self.of, self._most = fit, of, most or {}
        self.dropped = Counter(table.dropped)
        self._scenario = {
            name: value
            for name, value in scenario.items()
            if name not in table.inputs and name not in fit
        }
        check_rows(table)
        start = np.array([_start(name, scenario) for name in fit])
        self._scenario |= dict(zip(fit, start.tolist(), strict=True))
        self._use(table, list(range(len(table.measured))))
        start = self.predict(start)
        good = np.flatnonzero(np.isfinite(start) & (start > 0))
        if not len(good):
            raise InputError(f"{of} is not a positive number in any row; change the scenario")
        if len(good) < len(start):
            self.dropped[f"{of} is not defined"] += len(start) - len(good)
            self._use(table, good.tolist())

    def _use(self, table: Table, rows: list[int]) -> None:
        """Evaluate these rows, with one plan for each set of inputs that rows state."""
        self.measured = np.array([table.measured[k] for k in rows])
        self.lines = tuple(table.lines[k] for k in rows)
        self._slopes = [name_of("d", self.of, name) for name in self.fit]
        alike: dict[tuple[str, ...], list[int]] = {}
        for place, k in enumerate(rows):
            stated = tuple(name for name, cells in table.inputs.items() if cells[k] is not None)
            alike.setdefault(stated, []).append(place)
        self._parts = []
        for stated, places in alike.items():
            named = [name for name in stated if name in KINDS or values.is_option(PHYSICS, name)]
            cells = {name: [table.inputs[name][rows[k]] for k in places] for name in stated}
            order = sorted(
                range(len(places)), key=lambda k: [str(cells[name][k]) for name in named]
            )  # sorted: each run of equal choices is one set of formulas
            axes: dict[str, Any] = {}
            if stated:
                moving = {name: [column[k] for k in order] for name, column in cells.items()}
                axes = {"row": {**moving, "labels": [f"row {places[k]}" for k in order]}}
            problem = resolve({"calibration": NONE, **self._scenario}, axes)
            given = {n: value for n, value in problem.constants.items() if n not in self.fit}
            outputs = [self.of, *self._slopes]
            # `free`: values are given at each evaluation, so the plan is built once
            plan = Plan(replace(problem, constants=given), outputs, "numpy", free=self.fit)
            self._parts.append((plan, np.array([places[k] for k in order])))

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Smallest and largest value of every fitted input."""
        rows = [INPUTS[name] for name in self.fit]
        low = [max(row.low, _LEAST if row.positive else 0.0) for row in rows]
        high = [min(row.high, self._most.get(row.name, math.inf)) for row in rows]
        return np.array(low), np.array(high)

    def _evaluate(self, point: Array, outputs: Sequence[str]) -> list[Array]:
        """Outputs [row] in base units, at a point of the fitted inputs: [input] or [input, row]."""
        columns = {name: np.empty(len(self.measured)) for name in outputs}
        for plan, places in self._parts:
            dims = tuple(plan.sizes)
            shape = plan.shape(dims)
            free = {
                name: np.broadcast_to(value[places] if np.ndim(value) else value, shape).copy()
                for name, value in zip(self.fit, point, strict=True)
            }
            outs = {name: np.empty(shape) for name in outputs}
            region = {dim: slice(0, plan.sizes[dim]) for dim in dims}
            with np.errstate(all="ignore"):
                evaluate_block(plan, dims, region, outs, 1, free)
            for name, out in outs.items():
                columns[name][places] = out
        return list(columns.values())

    def predict(self, point: Array) -> Array:
        """The output [row] in the base unit, at a point [input] of the fitted inputs."""
        return self._evaluate(point, [self.of])[0]

    def residuals(self, point: Array) -> Array:
        """Logarithms [row] of computed over measured."""
        with np.errstate(all="ignore"):
            return np.asarray(np.log(self.predict(point) / self.measured))

    def jacobian(self, point: Array) -> Array:
        """Exact derivatives [row, input] of the residuals at a point [input]."""
        value, *slopes = self._evaluate(point, [self.of, *self._slopes])
        return np.stack([slope / value for slope in slopes], axis=1)  # d ln y = dy / y


def _check_distinguishable(jacobian: Array, fit: Sequence[str], of: str) -> None:
    """Refuse inputs that do not matter, or whose effects cannot be separated."""
    direction = weakest(jacobian)
    if direction is None:
        return
    alike = [name for name, share in zip(fit, direction, strict=True) if abs(share) > 0.05]
    if len(alike) == 1 or not np.linalg.norm(jacobian, axis=0).all():
        raise InputError(
            f"{of} does not depend on {', '.join(alike)} in these rows; leave it out of --fit"
        )
    raise InputError(
        f"these rows cannot separate {' and '.join(alike)}; fit fewer, or add rows that differ"
    )
