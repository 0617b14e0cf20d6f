"""One model of all measured steps: coefficients with deviations of groups, and their spreads.

A coefficient of a row is ceiling x link(start + sum of effects): one effect for all rows, one that
multiplies each trend of the row (such as the logarithm of the GPU's peak), and one for each group
that the row is in (its GPU, its software, ...). A ceiling is what kernels alone reach. Effects of
groups are normal around 0 with a spread for each coefficient and kind of group, fitted with them:
a group of two rows hardly moves, one without rows has effect 0 and adds its spread to the variance.
Links keep shares below 1 and times above 0. Noise multiplies; it has Student's t distribution, and
a size for each source.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...catalog.pooled import NORMAL, STUDENT
from ...kernels.inputs import INPUTS
from ..errors import InputError
from ..spec import values
from ..spec.axes import Array
from .records import Row
from .steps import Table, _Model

FREEDOM = 4.0  # degrees of freedom of the noise (Lange et al. 1989, robust regression)
ROUNDS = 30
_INNER = 2  # rounds of expectation and maximisation with one set of derivatives
_FAR = 1.5  # of an effect, in one round
_MOVED = 3e-3  # largest change of a row's logarithm that ends the search
_SPREAD_MOVED = 0.03  # relative change of a spread that ends it
_WEIGHT = 2.0  # groups that the expectation of a spread counts as
_NOISE, _NOISE_WEIGHT = 0.04, 8.0  # expectation of the noise, and the rows that it counts as
_EVERY = "all"  # the level of the effects that every row has

# Kinds of groups, and the spread expected of their effects
SPREADS = {
    "layers": 0.3,
    "precision": 0.3,
    "generation": 0.2,
    "gpu": 0.1,
    "software": 0.3,
    "experts": 0.3,
    "release": 0.2,
    "table": 0.15,
    "cell": 0.15,
}


@dataclass(frozen=True)
class Coefficient:
    """A share of a data sheet, a time or a size that rows are fitted with.

    `input` is what it sets, in the rows where `where` holds; `start` and `deviation` are what is
    known beforehand, the latter in logarithms or log odds. A share `of` a value of the row, such as
    a bandwidth or what kernels reach, sets the product. `trends` are the deviations of what
    multiplies a trend; its groups are those of `levels`.
    """

    name: str
    input: str
    start: float
    deviation: float
    where: Callable[[Mapping[str, Any]], bool] = lambda inputs: True
    of: str = ""
    trends: Mapping[str, float] = field(default_factory=dict)
    levels: tuple[str, ...] = tuple(SPREADS)

    @property
    def is_share(self) -> bool:
        """Whether it lies between 0 and 1."""
        return bool(self.of) or INPUTS[self.input].high == 1.0

    def unlink(self, value: Any) -> Any:
        """Log odds of a share, logarithm of anything else."""
        return np.log(value / (1 - value)) if self.is_share else np.log(value)

    def link(self, x: Any) -> tuple[Any, Any]:
        """The value at log odds or a logarithm x, and its derivative."""
        if not self.is_share:
            return np.exp(x), np.exp(x)
        share = 1 / (1 + np.exp(-x))
        return share, share * (1 - share)


def _standard(inputs: Mapping[str, Any]) -> bool:
    return inputs.get("attention_kernel") == "standard"


def _flash(inputs: Mapping[str, Any]) -> bool:
    return not _standard(inputs)


_ON_PEAK = {"peak_16": 0.5}  # deviation of what multiplies a trend
COEFFICIENTS = (
    Coefficient("gemm_efficiency", "gemm_efficiency", 0.8, 0.7, of="gemm", trends=_ON_PEAK),
    Coefficient(
        "gemm_half_size",
        "gemm_half_size",
        120.0,
        1.0,
        trends={"peak": 0.5},
        levels=("layers", "precision", "generation", "software", "experts", "release"),
    ),
    Coefficient(
        "standard_attention_efficiency",
        "attention_efficiency",
        0.2,
        0.8,
        _standard,
        levels=("software",),
    ),
    Coefficient(
        "flash_attention_efficiency",
        "attention_efficiency",
        0.4,
        0.8,
        _flash,
        of="attention",
        levels=("generation", "software"),
    ),
    Coefficient(
        "memory_efficiency",
        "memory_efficiency",
        0.8,
        0.7,
        levels=("layers", "precision", "generation", "software", "experts"),
    ),
    Coefficient(
        "layer_overhead_time",
        "layer_overhead_time",
        4e-4,
        1.0,
        levels=("layers", "precision", "generation", "software", "experts"),
    ),
    Coefficient(
        "intra_node_efficiency",
        "intra_node_bandwidth",
        0.8,
        0.7,
        of="node_link",
        levels=("software",),
    ),
    Coefficient(
        "network_efficiency", "network_efficiency", 0.8, 0.7, levels=("precision", "software")
    ),
    Coefficient("data_parallel_overlap", "data_parallel_overlap", 0.5, 1.5, levels=("software",)),
    Coefficient(
        "expert_parallel_overlap", "expert_parallel_overlap", 0.3, 1.5, levels=("software",)
    ),
)


class Steps:
    """Step times of rows as a function of the coefficients at each row.

    `facts` [name][row] are the ceilings and trends that coefficients name.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        facts: Mapping[str, Array],
        coefficients: Sequence[Coefficient] = COEFFICIENTS,
    ) -> None:
        self.rows, self.coefficients, self.facts = rows, coefficients, facts
        inputs = tuple(dict.fromkeys(c.input for c in coefficients))
        scenario: dict[str, Any] = {"compute_model": "roofline"}
        own = {"calibration", *scenario, *inputs}
        names = dict.fromkeys(name for row in rows for name in row.inputs if name not in own)
        cells = {name: [row.inputs.get(name) for row in rows] for name in names}
        table = Table(cells, [row.measured for row in rows], list(range(len(rows))))
        start = {c.input: c.start * (facts[c.of][0] if c.of else 1.0) for c in coefficients}
        self._model = _Model(table, scenario | start, inputs, "step_time")
        if len(self._model.measured) < len(rows):
            raise InputError("; ".join(self._model.dropped))
        # For each coefficient: its input, where it applies, what it multiplies; 0 where stated
        self._input = [inputs.index(c.input) for c in coefficients]
        self._on = np.array([[c.where(row.inputs) for row in rows] for c in coefficients])
        ones = np.ones(len(rows))
        self._scale = np.array([facts[c.of] if c.of else ones for c in coefficients])
        self._stated = np.full((len(inputs), len(rows)), np.nan)
        scaled = {c.input for c in coefficients if c.of == "node_link"}
        for j, name in enumerate(inputs):
            for k, row in enumerate(rows):
                if name in row.inputs and name not in scaled:
                    self._stated[j, k] = values.number(name, row.inputs[name])

    def used(self, coefficient: int) -> Array:
        """Whether rows [row] depend on a coefficient: it applies and is not stated."""
        return np.asarray(self._on[coefficient] & np.isnan(self._stated[self._input[coefficient]]))

    def point(self, x: Array) -> tuple[Array, Array]:
        """Inputs [input, row] at coefficients x [coefficient, row], and their derivatives."""
        point = self._stated.copy()
        slopes = np.zeros(x.shape)
        for k, coefficient in enumerate(self.coefficients):
            value, slope = coefficient.link(x[k])
            on = self.used(k)
            point[self._input[k], on] = (self._scale[k] * value)[on]
            slopes[k, on] = (self._scale[k] * slope)[on]
        return point, slopes

    def errors(self, x: Array) -> Array:
        """Logarithms [row] of computed over measured."""
        return self._model.residuals(self.point(x)[0])

    def derivatives(self, x: Array) -> tuple[Array, Array]:
        """Those, and how they change with each coefficient [coefficient, row]."""
        point, slopes = self.point(x)
        jacobian = self._model.jacobian(point).T
        return self.errors(x), jacobian[self._input] * slopes


@dataclass(frozen=True)
class Effect:
    """What is added to a coefficient of the rows in a group; in all rows at the level "all".

    At the level of a trend it is what multiplies the row's trend.
    """

    coefficient: str
    level: str
    group: str


@dataclass(frozen=True)
class Posterior:
    """Effects with their covariance, their spreads by (coefficient, level), noise by source."""

    effects: tuple[Effect, ...]
    means: Array
    covariance: Array
    spreads: Mapping[tuple[str, str], float]
    noise: Mapping[str, float]


def at(
    posterior: Posterior,
    groups: Mapping[str, str | None],
    trends: Mapping[str, float],
    coefficients: Sequence[Coefficient] = COEFFICIENTS,
) -> tuple[Array, Array]:
    """Coefficients before their links, and their covariance, of a row in these groups.

    `groups` are by level. A group that no fit has seen has effect 0, and adds the spread of its
    level to the variance; None adds nothing. Levels that are not named are groups not seen.
    """
    place = {effect: k for k, effect in enumerate(posterior.effects)}
    means = np.empty(len(coefficients))
    taken = np.zeros((len(coefficients), len(posterior.effects)))
    unseen = np.zeros(len(coefficients))
    for k, coefficient in enumerate(coefficients):
        for name, trend in {_EVERY: 1.0, **{n: trends[n] for n in coefficient.trends}}.items():
            taken[k, place[Effect(coefficient.name, name, "")]] = trend
        for level in coefficient.levels:
            group = groups.get(level, "")
            known = place.get(Effect(coefficient.name, level, group or ""))
            if known is not None:
                taken[k, known] = 1.0
            elif group is not None:
                unseen[k] += posterior.spreads[coefficient.name, level] ** 2
        means[k] = coefficient.unlink(coefficient.start) + taken[k] @ posterior.means
    return means, taken @ posterior.covariance @ taken.T + np.diag(unseen)


@dataclass(frozen=True)
class Predicted:
    """Logarithms of computed over measured [row], and deviations: of coefficients, of noise."""

    errors: Array
    deviations: Array
    noise: Array

    def width(self) -> Array:
        """Half of the 90 % interval of a logarithm [row]: normal coefficients, Student's noise."""
        return np.hypot(NORMAL * self.deviations, STUDENT * self.noise)


class Pooled:
    """The hierarchical model of some rows, whose groups [level][row] and sources are given.

    A group of None takes no effect. Spreads and noise maximise the marginal likelihood, by
    expectation and maximisation around Laplace's approximation (Dempster et al. 1977; Tierney and
    Kadane 1986), with the weight of _WEIGHT groups on what is expected of a spread.
    """

    def __init__(
        self,
        steps: Steps,
        groups: Mapping[str, Sequence[str | None]],
        sources: Sequence[str],
        spreads: Mapping[str, float] = SPREADS,
    ) -> None:
        self.steps, self.sources = steps, np.array(sources)
        effects, coefficients, members = [], [], []
        for k, coefficient in enumerate(steps.coefficients):
            used = steps.used(k)
            trends = {name: steps.facts[name] for name in coefficient.trends}
            for name, trend in {_EVERY: np.ones(len(sources)), **trends}.items():
                effects.append(Effect(coefficient.name, name, ""))
                coefficients.append(k)
                members.append(used * trend)
            for level in coefficient.levels:
                labels = groups[level]
                for group in dict.fromkeys(labels):
                    inside = used & np.array([label == group for label in labels])
                    if group is not None and inside.any():
                        effects.append(Effect(coefficient.name, level, group))
                        coefficients.append(k)
                        members.append(inside)
        self.effects = tuple(effects)
        self._coefficient = np.array(coefficients)
        self.members = np.array(members, dtype=float)
        self._start = np.array([c.unlink(c.start) for c in steps.coefficients])
        self._keys = list(dict.fromkeys((e.coefficient, e.level) for e in effects))
        self._key = np.array([self._keys.index((e.coefficient, e.level)) for e in effects])
        own = {(c.name, _EVERY): c.deviation for c in steps.coefficients}
        own |= {(c.name, name): sd for c in steps.coefficients for name, sd in c.trends.items()}
        self._expected = np.array([own.get(key, spreads.get(key[1], 0.0)) for key in self._keys])
        self._free = np.array([key not in own for key in self._keys])

    def values(self, effects: Array) -> Array:
        """Coefficients [coefficient, row] before their links."""
        x = np.repeat(self._start[:, None], len(self.sources), axis=1)
        np.add.at(x, self._coefficient, effects[:, None] * self.members)
        return x

    def fit(
        self,
        train: Array,
        begin: Posterior | None = None,
        rounds: int = ROUNDS,
        slopes: Array | None = None,
    ) -> Posterior:
        """The posterior of the rows where `train` [row] holds; others do not matter.

        `begin` is where the search starts: effects of groups without such rows start at 0. `slopes`
        [coefficient, row] take the place of the derivatives of the first round.
        """
        names = list(dict.fromkeys(self.sources))
        source = np.array([names.index(name) for name in self.sources])[train]
        known = np.asarray(self.members[:, train].any(axis=1))
        z, variances = np.zeros(len(self.effects)), self._expected**2
        noise = np.full(len(names), 1.5 * _NOISE)
        if begin is not None:
            z = np.where(known, begin.means, 0.0)
            variances = np.array([begin.spreads[key] for key in self._keys]) ** 2
            noise = np.array([begin.noise[name] for name in names])
        errors = self.steps.errors(self.values(z))[train]
        for number in range(rounds):
            if slopes is None or number:
                slopes = self.steps.derivatives(self.values(z))[1]
            own = (self.members * slopes[self._coefficient])[:, train]
            moved = changed = 0.0
            for _ in range(_INNER):
                covariance, weights = self._covariance(own, errors, variances, noise[source])
                step = -covariance @ (own @ (weights * errors) + z / variances[self._key])
                before = errors
                z, errors = self._along(z, step, errors, variances, noise[source], train)
                moved = max(moved, float(np.abs(errors - before).max()))
                old = variances
                for _ in range(_INNER):
                    covariance, _ = self._covariance(own, errors, variances, noise[source])
                    variances = self._spread(z, covariance, known, variances)
                    noise = self._noise(errors, own, covariance, noise, source)
                changed = float(np.abs(np.log(variances / old)).max()) / 2
            if moved < _MOVED and changed < _SPREAD_MOVED:
                break
        covariance, _ = self._covariance(own, errors, variances, noise[source])
        return Posterior(
            self.effects,
            z,
            covariance,
            dict(zip(self._keys, np.sqrt(variances).tolist(), strict=True)),
            dict(zip(names, noise.tolist(), strict=True)),
        )

    def predict(self, posterior: Posterior) -> Predicted:
        """Errors of all rows, and the deviations that the posterior expects of them."""
        errors, slopes = self.steps.derivatives(self.values(posterior.means))
        slopes = self.members * slopes[self._coefficient]
        variance = np.einsum("er,er->r", slopes, posterior.covariance @ slopes)
        noise = np.array([posterior.noise[name] for name in self.sources])
        return Predicted(errors, np.sqrt(variance), noise)

    def _covariance(
        self, slopes: Array, errors: Array, variances: Array, noise: Array
    ) -> tuple[Array, Array]:
        """Laplace's covariance of the effects, and the weights of rows."""
        weights = (FREEDOM + 1) / (FREEDOM + (errors / noise) ** 2) / noise**2
        precision = (slopes * weights) @ slopes.T + np.diag(1 / variances[self._key])
        return np.linalg.inv(precision), weights

    def _along(
        self, z: Array, step: Array, errors: Array, variances: Array, noise: Array, train: Array
    ) -> tuple[Array, Array]:
        """The effects, and the rows' errors, after as much of a step as lowers the loss."""

        def loss(errors: Array, z: Array) -> float:
            squares = np.log1p((errors / noise) ** 2 / FREEDOM)
            own = (FREEDOM + 1) / 2 * squares.sum() + (z**2 / variances[self._key]).sum() / 2
            return float(own) if np.isfinite(own) else np.inf

        before = loss(errors, z)
        share = min(1.0, _FAR / max(float(np.abs(step).max()), 1e-300))
        for _ in range(6):
            tried = self.steps.errors(self.values(z + share * step))[train]
            if loss(tried, z + share * step) <= before + 1e-9:
                return z + share * step, tried
            share /= 3
        return z, errors

    def _spread(self, z: Array, covariance: Array, known: Array, variances: Array) -> Array:
        """Variances of the effects at each key, from those of groups with rows."""
        squares = (z**2 + np.diag(covariance)) * known
        total = np.bincount(self._key, squares, len(self._keys)) + _WEIGHT * self._expected**2
        fitted = total / (np.bincount(self._key, known, len(self._keys)) + _WEIGHT)
        return np.where(self._free, fitted, variances)

    def _noise(
        self, errors: Array, slopes: Array, covariance: Array, noise: Array, source: Array
    ) -> Array:
        """Scale of each source's noise; of a source without rows, the mean of the others."""
        own = noise[source]
        squares = errors**2 * (FREEDOM + 1) / (FREEDOM + (errors / own) ** 2)
        squares = squares + np.einsum("er,er->r", slopes, covariance @ slopes)
        rows = np.bincount(source, minlength=len(noise))
        total = np.bincount(source, squares, len(noise)) + _NOISE_WEIGHT * _NOISE**2
        variances = total / (rows + _NOISE_WEIGHT)
        return np.sqrt(np.where(rows > 0, variances, variances[rows > 0].mean()))
