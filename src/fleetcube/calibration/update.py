"""Fit the coefficients of a user's steps, with the published steps as the prior.

The prior is the catalog's posterior at the software, layers, GPU and precision of the steps, with
the spreads of unmeasured groups: normal before the links. All steps of a job, one model on one
cluster, have a factor in common that no formula knows, Student's t of `FREEDOM` degrees, so that a
job far from published ones is believed. Noise is multiplicative and Student's t, too; its scale is
known from published steps as if from `WEIGHT` rows.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fleetcube.catalog import AUTO, pooled, record
from fleetcube.grid.errors import InputError, imported
from fleetcube.grid.spec.axis import Array
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.scenario import auto
from fleetcube.scenario.reading import stated_inputs

from .steps import STEP, StepFit, Table, _Model, check_rows, follows_the_step, with_notes

FREEDOM = 4.0  # degrees of freedom of the noise (Lange et al. 1989, robust regression)
WEIGHT = 5.0
LEAST_WEIGHT = 2.0  # for intervals: rows that scatter more widen them sooner
MOVED = 0.9  # of a deviation: above it, a coefficient is that of published steps
_ROUNDS = 100
_FAR = 1.5  # largest move in one round, in deviations
_ENDED = 1e-4  # of a deviation, or of the noise
# Inputs that bypass the posterior's way of computing
_OTHER = ("flops_efficiency", "compute_time", "step_time", "step_time_factor", "step_time_error")

Evaluated = tuple[Array, Array]  # errors [row], their derivatives [row, coefficient]


@dataclass(frozen=True)
class Job:
    """What a job's steps have in common besides the coefficients: measured over computed time, and
    the error factor of a new step. `of` has its cluster's labels and its model's shape."""

    of: Mapping[str, Any]
    factor: float
    error_factor: float


@dataclass(frozen=True)
class Update(StepFit):
    """Coefficients of the posterior, updated by measured steps. `published` are those that the rows
    hardly moved, `choices` the options for which all of them hold, and `carried` the inputs set by
    the scenario's network calibration. `error_factor` is that of other jobs. `kernels` multiply
    what the posterior gives, as the scenario's calibration to a probe says."""

    cell: pooled.Cell
    choices: Mapping[str, str]
    carried: Mapping[str, Any]
    published: tuple[str, ...]
    jobs: tuple[Job, ...]
    by_values: Array
    noise: float
    digest: str
    kernels: Mapping[str, float]

    @property
    def computed(self) -> Array:
        return self.by_values


def update_steps(table: Table, scenario: Mapping[str, Any], of: str = STEP) -> Update:
    """Update the posterior of all published steps with these. The scenario states what the table
    does not; a coefficient that either states keeps its value. Raises InputError, also if rows
    differ in software, GPU, precision or kind of layers."""
    try:
        check_rows(table)
        cell, network = _cell(table, scenario), network_of(scenario)
        jobs, job_of = _jobs(table, scenario)
    except InputError as error:
        raise with_notes(error, table) from None
    posterior = pooled.posterior()
    means, root = posterior.coefficients_of(cell)
    stated = {*scenario, *table.inputs, *network}
    settings = [one for one in posterior.settings(cell) if one.input not in stated]
    kernels = record("calibration", scenario.get("calibration", AUTO)).kernels
    kernels = {one.input: kernels[one.input] for one in settings if one.input in kernels}
    settings = at_rates(settings, kernels)
    scenario = without_own_steps(scenario)
    places = [one.place for one in settings]
    choices = {"compute_model": "roofline", "attention_kernel": posterior.kernel(cell)}
    steps = _Steps(table, scenario, choices, settings, means[places], of, job_of)
    expected, step_spread = posterior.noise(cell.software), posterior.step_spread(cell)
    start = np.append(means[places], np.zeros(len(jobs)))
    before = steps.evaluate(start)[0]
    x, spread, noise = most_likely(steps.evaluate, start, root[places], expected, step_spread)
    residuals, slopes = steps.evaluate(x)
    fit, count = [one.input for one in settings], len(settings)
    noise_width = half_of_noise(residuals, slopes @ spread, expected)
    by_inputs = np.zeros_like(slopes)
    by_inputs[:, :count] = steps.sign * slopes[:, :count]
    auto_width = posterior.width(cell, root, step_spread, expected)
    job_errors = [
        _error_factor(by_inputs, spread, noise_width, count + k) for k in range(len(jobs))
    ]
    factor = np.exp(x[count:])
    moved = np.linalg.norm(spread[:count], axis=1) / np.linalg.norm(root[places], axis=1)
    fitted = steps.model.measured * np.exp(residuals)
    return Update(
        **of_coefficients(settings, x[:count], spread[:count]),
        errors=np.abs(fitted / steps.model.measured - 1),
        rows=len(fitted),
        dropped={reason: count for reason, count in steps.model.dropped.items() if count},
        notes=(
            *table.notes,
            *_unexpected(before, auto_width * posterior.factor(cell)),
            *_odd(residuals, steps.model.lines, math.log(max(job_errors))),
        ),
        of=of,
        measured=steps.model.measured,
        fitted=fitted,
        lines=steps.model.lines,
        idle=tuple(n for n, column in zip(fit, slopes.T, strict=False) if not column.any()),
        error_factor=_error_factor(by_inputs, spread, noise_width, None, step_spread),
        cell=cell,
        choices=choices,
        carried={name: value for name, value in network.items() if name not in fit},
        published=tuple(name for name, share in zip(fit, moved, strict=True) if share > MOVED),
        jobs=tuple(map(Job, jobs, factor.tolist(), job_errors)),
        by_values=steps.model.predict(inputs_at(settings, x[:count])[0]),
        noise=noise,
        digest=posterior.digest,
        kernels=kernels,
    )


def _error_factor(
    slopes: Array, spread: Array, noise_width: float, job: int | None, job_spread: float = 0.0
) -> float:
    """That of a new step of a job, by its column, or of another one, by derivatives at the rows."""
    slopes = slopes.copy()
    if job is not None:
        slopes[:, job] = 1.0
    variance = np.square(slopes @ spread).sum(axis=1).mean() + job_spread**2
    return math.exp(math.hypot(pooled.NORMAL * math.sqrt(variance), noise_width))


def inputs_at(settings: Sequence[pooled.Setting], x: Array) -> tuple[Array, Array]:
    """The inputs [coefficient] at coefficients x before their links, and their derivatives."""
    pairs = [one.value(value) for one, value in zip(settings, x, strict=True)]
    return np.array([value for value, _ in pairs]), np.array([slope for _, slope in pairs])


def of_coefficients(settings: Sequence[pooled.Setting], x: Array, root: Array) -> dict[str, Any]:
    """What a fit says of its inputs: at coefficients x, with a root of their covariance."""
    fit = [one.input for one in settings]
    point, slopes = inputs_at(settings, x)
    covariance = root @ root.T
    deviations = np.sqrt(np.diag(covariance))
    places = pooled.NORMAL * np.array([-1, 1])[:, None] * deviations
    ends = [inputs_at(settings, x + place)[0].tolist() for place in places]
    return {
        "values": dict(zip(fit, point.tolist(), strict=True)),
        "standard_errors": dict(zip(fit, (slopes * deviations).tolist(), strict=True)),
        "intervals": dict(zip(fit, zip(*ends, strict=True), strict=True)),
        "correlations": covariance / np.outer(deviations, deviations),
        "at_bound": (),
    }


class _Steps:
    """An output at the rows of a table, as a function of coefficients before their links, and of
    the logarithms of the jobs' factors. `job_of` is each row's job."""

    def __init__(
        self,
        table: Table,
        scenario: Mapping[str, Any],
        choices: Mapping[str, str],
        settings: Sequence[pooled.Setting],
        means: Array,
        of: str,
        job_of: Sequence[int],
    ) -> None:
        self._settings = settings
        fit = [one.input for one in settings]
        none = f"{of} depends on no coefficient that is open; name what to fit to it: --fit INPUT"
        if not fit:
            raise InputError(none)
        stated = dict(scenario)
        stated |= {**choices, **dict(zip(fit, inputs_at(settings, means)[0].tolist(), strict=True))}
        try:
            self.model = _Model(table, stated, fit, of)
        except InputError as error:
            raise with_notes(error, table) from None
        if not self.model.jacobian(inputs_at(settings, means)[0]).any():
            raise InputError(none)
        self.sign = 1 if of == STEP else follows_the_step(self.model, table, stated, fit)
        if not self.sign:
            raise InputError(
                f"{of} does not follow from the step's time alone; name what to fit: --fit INPUT"
            )
        jobs = dict(zip(table.lines, job_of, strict=True))
        place = np.array([jobs[line] for line in self.model.lines])
        self._of_job = self.sign * (place[:, None] == np.arange(max(job_of) + 1))

    def evaluate(self, x: Array) -> Evaluated:
        """Logarithms of computed over measured, and their derivatives."""
        count = len(self._settings)
        point, slopes = inputs_at(self._settings, x[:count])
        errors = self.model.residuals(point) + self._of_job @ x[count:]
        return errors, np.hstack([self.model.jacobian(point) * slopes, self._of_job])


def most_likely(
    evaluate: Callable[[Array], Evaluated],
    means: Array,
    root: Array,
    expected: float,
    job_spread: float = 0.0,
) -> tuple[Array, Array, float]:
    """The most likely coefficients, a root of their Laplace covariance, and the noise. `root` is
    one of the prior's covariance; each further coefficient has a Student's prior of `job_spread`.
    Student's noise is a normal one of weighted rows, and so is that prior (Lange et al. 1989,
    eq. 5); the noise's scale maximises the expected likelihood."""
    left, sizes, _ = np.linalg.svd(root, full_matrices=False)
    jobs = len(means) - len(root)
    prior = np.zeros((len(means), len(sizes) + jobs))  # means + prior u, u of variance 1
    prior[: len(root), : len(sizes)] = left * sizes
    prior[len(root) :, len(sizes) :] = job_spread * np.eye(jobs)
    of_jobs = np.arange(prior.shape[1]) >= len(sizes)
    noise = expected
    u: Array = np.zeros(prior.shape[1])

    def tied(u: Array) -> tuple[float, Array]:
        """The loss of the prior, and the weights of its squares."""
        squares = (FREEDOM + 1) * np.log1p(u**2 / FREEDOM)
        weights = (FREEDOM + 1) / (FREEDOM + u**2)
        return float(np.where(of_jobs, squares, u**2).sum() / 2), np.where(of_jobs, weights, 1.0)

    def loss(errors: Array, u: Array) -> float:
        squares = np.log1p((errors / noise) ** 2 / FREEDOM).sum()
        misfit = float((FREEDOM + 1) / 2 * squares + tied(u)[0])
        return misfit if math.isfinite(misfit) else math.inf

    def laplace() -> tuple[Array, Array, Array]:
        along = slopes @ prior
        weights = (FREEDOM + 1) / (FREEDOM + (errors / noise) ** 2)
        precision = (along.T * weights) @ along / noise**2 + np.diag(tied(u)[1])
        return along, weights, np.linalg.inv(precision)

    errors, slopes = evaluate(means)
    # All of a gap may be of the job: near 0 there is another, lesser maximum if it is wide
    far = -np.linalg.pinv((slopes @ prior) * of_jobs) @ errors
    if loss(evaluate(means + prior @ far)[0], far) < loss(errors, u):
        u, (errors, slopes) = far, evaluate(means + prior @ far)
    for _ in range(_ROUNDS):
        along, weights, covariance = laplace()
        step = -covariance @ (along.T @ (weights * errors) / noise**2 + tied(u)[1] * u)
        share = min(1.0, _FAR / max(float(np.abs(step).max()), 1e-300))
        moved, now = 0.0, loss(errors, u)
        while share > 1e-3:
            tried = evaluate(means + prior @ (u + share * step))
            if loss(tried[0], u + share * step) <= now + 1e-9:
                (errors, slopes), u = tried, u + share * step
                moved = float(np.abs(share * step).max())
                break
            share /= 3
        along, weights, covariance = laplace()
        squares = float((weights * errors**2).sum() + np.sum(along @ covariance * along))
        before = noise
        noise = math.sqrt((squares + WEIGHT * expected**2) / (len(errors) + WEIGHT))
        if max(moved, abs(math.log(noise / before))) < _ENDED:
            break
    return means + prior @ u, prior @ np.linalg.cholesky(laplace()[2]), noise


def half_of_noise(errors: Array, spread: Array, expected: float) -> float:
    """Half the 90 % interval of the noise of a new step. Its scale is as uncertain as that of
    LEAST_WEIGHT rows and these; variances of Student's t add up nearly as 1 / degrees do.
    `spread` [row, :] is a root of the errors' covariance by the fit."""
    stdtrit = imported("scipy.special").stdtrit
    rows = LEAST_WEIGHT + len(errors)
    of_fit, scale = np.square(spread).sum(), expected
    for _ in range(_ROUNDS):
        weights = (FREEDOM + 1) / (FREEDOM + (errors / scale) ** 2)
        squares = (weights * errors**2).sum() + of_fit + LEAST_WEIGHT * expected**2
        scale = math.sqrt(squares / rows)
    return scale * float(stdtrit(1 / (1 / FREEDOM + 1 / rows), 0.95))


def _jobs(table: Table, scenario: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[int]]:
    """The jobs in a table, and each row's."""
    telling = [name for name in auto.JOB_INPUTS if name in table.inputs]
    cells = [tuple(table.inputs[name][k] for name in telling) for k in range(len(table.measured))]
    jobs = {}
    for cell in dict.fromkeys(cells):
        stated = {n: v for n, v in zip(telling, cell, strict=True) if v is not None}
        jobs[cell] = auto.job_of(stated_inputs({**scenario, **stated}))
    distinct = [job for k, job in enumerate(jobs.values()) if job not in [*jobs.values()][:k]]
    return distinct, [distinct.index(jobs[cell]) for cell in cells]


def _cell(table: Table, scenario: Mapping[str, Any]) -> pooled.Cell:
    """The software, layers, GPU and precision common to all rows. Raises InputError."""
    if "calibration" in table.inputs:
        raise InputError("calibration is a column; state it in the spec, for all rows")
    other = [name for name in _OTHER if name in scenario or name in table.inputs]
    if other:
        raise InputError(f"{other[0]} is stated, which no published step needs; leave it out")
    if scenario.get("compute_model", "roofline") != "roofline" or "compute_model" in table.inputs:
        raise InputError("published steps are of compute_model = roofline; leave compute_model out")
    telling = [name for name in auto.CELL_INPUTS if name in table.inputs]
    cells: dict[pooled.Cell, None] = {}
    for row in dict.fromkeys(zip(*(table.inputs[name] for name in telling), strict=True)) or [()]:
        stated = {n: v for n, v in zip(telling, row, strict=True) if v is not None}
        cells[auto.posterior_cell(stated_inputs({**scenario, **stated}))] = None
    first, *others = cells
    for another in others:
        name, a, b = next(
            (name, a, b)
            for (name, a), b in zip(asdict(first).items(), asdict(another).values(), strict=True)
            if a != b
        )
        raise InputError(
            f"rows differ in {name} ({_shown(a)}, {_shown(b)}) and a calibration is of one; "
            "give each a table of its own"
        )
    return first


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value) or "unknown"


def without_own_steps(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario without a calibration of steps, which a new one replaces; that of a network
    stays."""
    has_network = bool(network_of(scenario))
    return {n: v for n, v in scenario.items() if has_network or n != "calibration"}


def at_rates(
    settings: Sequence[pooled.Setting], kernels: Mapping[str, float]
) -> list[pooled.Setting]:
    """Settings times what a probe's kernels reach of published rates; no share is above 1."""
    return [
        replace(
            one,
            scale=one.scale * kernels[one.input],
            most=1.0 if INPUTS[one.input].unit == "1" else math.inf,
        )
        if one.input in kernels
        else one
        for one in settings
    ]


def network_of(scenario: Mapping[str, Any]) -> Mapping[str, Any]:
    """The inputs of a scenario's calibration, if it is of the network alone."""
    label = scenario.get("calibration", AUTO)
    coefficients = (
        record("calibration", label).values if label != AUTO else {"compute_model": "roofline"}
    )
    return {} if "compute_model" in coefficients else coefficients


def _unexpected(errors: Array, width: float) -> list[str]:
    """A note if the rows as a whole lie outside the range expected from published ones."""
    middle = float(np.median(errors))
    if abs(middle) <= width:
        return []
    return [
        f"measured is {math.exp(-middle):.3g} times what published steps lead to expect (9 of 10 "
        f"are within a factor of {math.exp(width):.2g}), and is believed: are kernels, clocks and "
        "the fabric as stated, and is no column missing, such as recompute or micro_batch_size?"
    ]


def _odd(residuals: Array, lines: Sequence[int], width: float) -> list[str]:
    """A note on the row that is farthest off, if noise does not explain it."""
    worst = int(np.argmax(np.abs(residuals)))
    if abs(residuals[worst]) <= 2 * width:
        return []
    ratio = math.exp(-residuals[worst])
    return [f"line {lines[worst]}: measured is {ratio:.2g} times fitted; it counts little"]
