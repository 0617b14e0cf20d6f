"""Hierarchical model of all measured steps: coefficients with group effects, and their spreads.

A coefficient of a row is ceiling x link(start + sum of effects): one effect for all rows, one that
multiplies each trend of the row (such as the logarithm of the GPU's peak), and one for each group
of the row (its GPU, its software, ...). A ceiling is the rate of kernels alone. Group effects are
normal around 0 with the expected spread of their kind: a group of two rows hardly moves, one
without rows has effect 0 and adds its spread to the variance. Links keep shares below 1 and times
above 0. Steps of one job, a model on a cluster, have a factor in common besides these: kernels,
clocks or a fabric that no input states. Noise is what is left between the steps of a job:
multiplicative, with Student's t distribution, and a scale per source.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fleetcube.calibration.row import Row
from fleetcube.calibration.steps import STEP, Table, _Model
from fleetcube.calibration.update import FREEDOM
from fleetcube.catalog.pooled import BY_POWER, NORMAL, STUDENT, linked
from fleetcube.grid.errors import InputError
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axis import Array
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import PAIRED_SCHEDULES

ROUNDS = 100
_INNER = 2  # steps per set of derivatives
_FAR = 1.5  # largest change of an effect in one round
_MOVED = 1e-3  # largest change of a row's logarithm that ends the search
_NOISE, _NOISE_WEIGHT = 0.04, 8.0  # expected noise, and its weight in rows
_EVERY = "all"  # the level of effects of all rows

# Kinds of groups, and expected deviations of their effects, in log odds or logarithms
SPREADS = {
    "layers": 0.3,
    "precision": 0.3,
    "generation": 0.2,
    "gpu": 0.1,
    # The slope of watts for each FLOP times their usual spread, 0.3 in the logarithm
    "unknown power": 0.8,
    "software": 0.3,
    "experts": 0.3,
    "table": 0.15,
    "cell": 0.15,
}
JOB = "job"
_JOB, _JOB_WEIGHT = 0.08, 8.0  # expected deviation of a job's factor, and its weight in jobs
# For times and sizes, which depend on software: launches one by one or as a graph, fused or not
CHOSEN = {"software": 0.75, "experts": 0.75}


@dataclass(frozen=True)
class Coefficient:
    """A fitted share of a data sheet, time or size.

    `input` is the input that it sets in rows where `where` holds; `start` and `deviation` are the
    prior, the latter in logarithms or log odds. A share `of` a value of the row, such as a
    bandwidth or the rate of kernels, sets the product. `trends` are means and deviations of trends'
    factors; `levels` its kinds of groups. Without an input, it is a factor of the step itself.
    """

    name: str
    input: str
    start: float
    deviation: float
    where: Callable[[Mapping[str, Any]], bool] = lambda inputs: True
    of: str = ""
    trends: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    levels: tuple[str, ...] = tuple(SPREADS)

    @property
    def is_share(self) -> bool:
        return bool(self.of) or (bool(self.input) and INPUTS[self.input].high == 1.0)

    def unlink(self, value: Any) -> Any:
        """Log odds of a share, logarithm of anything else."""
        return np.log(value / (1 - value)) if self.is_share else np.log(value)

    def link(self, x: Any) -> tuple[Any, Any]:
        """The value at log odds or a logarithm x, and its derivative."""
        return linked(x, self.is_share)


def _standard(inputs: Mapping[str, Any]) -> bool:
    return inputs.get("attention_kernel") == "standard"


def _splash(inputs: Mapping[str, Any]) -> bool:
    """The fused kernel of TPUs."""
    return not _standard(inputs) and str(inputs.get("gpu")).startswith("tpu")


def _flash(inputs: Mapping[str, Any]) -> bool:
    return not _standard(inputs) and not _splash(inputs)


def _graphs(inputs: Mapping[str, Any]) -> bool:
    return bool(inputs.get("cuda_graphs"))


def _pairs(inputs: Mapping[str, Any]) -> bool:
    """Whether the traffic of experts is hidden: behind another pass, or by XLA on TPUs."""
    on_tpu = str(inputs.get("gpu", "")).startswith("tpu")
    return on_tpu or inputs.get("pipeline_schedule") in PAIRED_SCHEDULES


# A long product runs at the clock that the power allows. Products alone, on the same chip at two
# limits, say 1.9 to 3.3: H100 SXM, NVL and PCIe, A100 SXM and PCIe (github.com/mag-/gpu_benchmark),
# GB300 at 500 and 1,400 W (facebookexperimental/triton#2023)
_SHARE, _SLOPE = BY_POWER
_ON_POWER = {"power": (_SLOPE, 0.4)}
COEFFICIENTS = (
    Coefficient("gemm_efficiency", "gemm_efficiency", _SHARE, 0.7, of="gemm", trends=_ON_POWER),
    Coefficient(
        "gemm_half_depth",
        "gemm_half_depth",
        200.0,
        1.0,
        trends={"rate": (0.0, 0.5)},
        levels=("layers", "precision", "generation", "software", "experts"),
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
    Coefficient(  # nothing shares a TPU's matrix units, so that steps reach the kernel's rate
        "splash_attention_efficiency",
        "attention_efficiency",
        0.95,
        0.8,
        _splash,
        of="attention",
        levels=(),
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
    # 0.1 to 0.4 in the first steps that were replayed whole; one pair of rows gained nothing
    Coefficient("graph_wait_share", "graph_wait_share", 0.25, 0.7, _graphs, levels=("software",)),
    # 3.4 to 3.5 ms in vTrain's table of one node, 3.25 ms of GPT-2 XL on an H100; few fitted steps
    # wait for their host, and these for another reason (decision 80)
    Coefficient("layer_host_time", "layer_host_time", 3.4e-3, 0.1, levels=()),
    # 5 us of a product alone on an H100, 13.5 us launched by PyTorch on a Xeon
    Coefficient("expert_launch_time", "expert_launch_time", 1e-5, 0.5, levels=("experts",)),
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
    # Every pass hid all of its traffic but the first and the last, for which the law has terms
    # (Team PyTorch at IBM and Meta 2024, Maximizing training throughput using PyTorch FSDP)
    Coefficient("data_parallel_overlap", "data_parallel_overlap", 0.9, 1.0, levels=("software",)),
    Coefficient(
        "expert_parallel_overlap",
        "expert_parallel_overlap",
        0.3,
        1.5,
        _pairs,
        levels=("software",),
    ),
    # 0.7 +- 0.2 % of a step for each doubling of the ranks, within runs
    Coefficient(
        "step_time_jitter", "step_time_jitter", 0.025, 0.7, levels=("generation", "software")
    ),
    Coefficient(STEP, "", 1.0, 0.0, levels=(JOB,)),
)
LAWS = tuple(c for c in COEFFICIENTS if c.input)


class Steps:
    """Step times of rows by their coefficients; `facts` [name][row] are ceilings and trends."""

    def __init__(
        self,
        rows: Sequence[Row],
        facts: Mapping[str, Array],
        coefficients: Sequence[Coefficient] = COEFFICIENTS,
    ) -> None:
        self.rows, self.coefficients, self.facts = rows, coefficients, facts
        inputs = tuple(dict.fromkeys(c.input for c in coefficients if c.input))
        scenario: dict[str, Any] = {"compute_model": "roofline"}
        own = {"calibration", *scenario, *inputs}
        names = dict.fromkeys(name for row in rows for name in row.inputs if name not in own)
        cells = {name: [row.inputs.get(name) for row in rows] for name in names}
        table = Table(cells, [row.measured for row in rows], list(range(len(rows))))
        laws = [c for c in coefficients if c.input]
        start = {c.input: c.start * (facts[c.of][0] if c.of else 1.0) for c in laws}
        self._model = _Model(table, scenario | start, inputs, "step_time")
        if len(self._model.measured) < len(rows):
            raise InputError("; ".join(self._model.dropped))
        self._copies = {1: self}
        # For each coefficient: its input, where it applies, its factor; 0 where stated
        self._input = [inputs.index(c.input) for c in laws]
        self._on = np.array([[c.where(row.inputs) for row in rows] for c in coefficients])
        ones = np.ones(len(rows))
        self._scale = np.array([facts[c.of] if c.of else ones for c in coefficients])
        self._stated = np.full((len(inputs), len(rows)), np.nan)
        for j, name in enumerate(inputs):  # where none of its coefficients applies: the default
            on = self._on[[k for k, c in enumerate(coefficients) if c.input == name]].any(axis=0)
            self._stated[j, ~on] = INPUTS[name].default
        scaled = {c.input for c in coefficients if c.of == "node_link"}
        for j, name in enumerate(inputs):
            for k, row in enumerate(rows):
                if name in row.inputs and name not in scaled:
                    self._stated[j, k] = values.number(PHYSICS, name, row.inputs[name])

    def times(self, count: int) -> "Steps":
        """The rows repeated `count` times, as most of an evaluation is overhead."""
        if count not in self._copies:
            facts = {name: np.tile(fact, count) for name, fact in self.facts.items()}
            self._copies[count] = Steps(list(self.rows) * count, facts, self.coefficients)
        return self._copies[count]

    def used(self, coefficient: int) -> Array:
        """Whether rows [row] depend on a coefficient: it applies and is not stated."""
        if not self.coefficients[coefficient].input:
            return self._on[coefficient]
        return np.asarray(self._on[coefficient] & np.isnan(self._stated[self._input[coefficient]]))

    def point(self, x: Array) -> tuple[Array, Array]:
        """Inputs [input, row] at coefficients x [coefficient, row], and their derivatives."""
        point = self._stated.copy()
        slopes = np.zeros(x.shape)
        for k, coefficient in enumerate(self.coefficients[: len(self._input)]):
            value, slope = coefficient.link(x[k])
            on = self.used(k)
            point[self._input[k], on] = (self._scale[k] * value)[on]
            slopes[k, on] = (self._scale[k] * slope)[on]
        return point, slopes

    def errors(self, x: Array) -> Array:
        """Logarithms [row] of computed over measured."""
        return self._model.residuals(self.point(x)[0]) + x[len(self._input) :].sum(axis=0)

    def derivatives(self, x: Array) -> tuple[Array, Array]:
        """Errors, and their derivatives by coefficients [coefficient, row]."""
        point, slopes = self.point(x)
        slopes[: len(self._input)] *= self._model.jacobian(point).T[self._input]
        slopes[len(self._input) :] = 1.0
        return self.errors(x), slopes


@dataclass(frozen=True)
class Effect:
    """A term of a coefficient in a group's rows, or all rows; at a trend's level, its factor."""

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
    coefficients: Sequence[Coefficient] = LAWS,
) -> tuple[Array, Array]:
    """Coefficients before their links, and their covariance, of a row in these groups.

    `groups` are by level. A group unseen by the fit has effect 0, and adds the spread of its level
    to the variance; None adds nothing. Missing levels count as unseen. Where software and its
    experts are both unseen, the spread is added once.
    """
    place = {effect: k for k, effect in enumerate(posterior.effects)}
    means = np.empty(len(coefficients))
    taken = np.zeros((len(coefficients), len(posterior.effects)))
    unseen = np.zeros(len(coefficients))
    for k, coefficient in enumerate(coefficients):
        for name, trend in {_EVERY: 1.0, **{n: trends[n] for n in coefficient.trends}}.items():
            taken[k, place[Effect(coefficient.name, name, "")]] = trend
        is_new = groups.get("layers") == "experts" and "experts" in coefficient.levels
        is_new &= Effect(coefficient.name, "experts", groups.get("experts") or "") not in place
        for level in coefficient.levels:
            group = groups.get(level, "")
            known = place.get(Effect(coefficient.name, level, group or ""))
            if known is not None:
                taken[k, known] = 1.0
            elif group is not None and not (is_new and level == "software"):
                unseen[k] += posterior.spreads[coefficient.name, level] ** 2
        means[k] = coefficient.unlink(coefficient.start) + taken[k] @ posterior.means
    return means, taken @ posterior.covariance @ taken.T + np.diag(unseen)


@dataclass(frozen=True)
class Predicted:
    """Logarithms of computed over measured [row], and deviations: of coefficients, of noise."""

    errors: Array
    deviations: Array
    noise: Array
    slopes: Array  # [coefficient, row], of errors by coefficients before their links

    def width(self) -> Array:
        """Half of the 90 % interval of a logarithm [row]: normal coefficients, Student's noise."""
        return np.hypot(NORMAL * self.deviations, STUDENT * self.noise)


class Pooled:
    """The hierarchical model of some rows, whose groups [level][row] and sources are given.

    A group of None has no effect. The posterior is Laplace's approximation at the mode (Tierney and
    Kadane 1986); the noise scale and the spread of jobs' factors are fitted by expectation
    maximisation (Dempster et al. 1977). Spreads of coefficients are fixed: fitted with the rest,
    they diverge where a share is near its ceiling, depend on the start, and predict no better.
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
            every = {_EVERY: np.ones(len(sources)), **trends} if coefficient.input else {}
            for name, trend in every.items():
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
        self.coefficient = np.array(coefficients)
        self.members = np.array(members, dtype=float)
        self._start = np.array([c.unlink(c.start) for c in steps.coefficients])
        own = {(c.name, _EVERY): c.deviation for c in steps.coefficients}
        trends = {(c.name, name): of for c in steps.coefficients for name, of in c.trends.items()}
        own |= {key: deviation for key, (_, deviation) in trends.items()}
        keys = [(effect.coefficient, effect.level) for effect in effects]
        for c in steps.coefficients:
            expected = spreads if c.is_share else {**spreads, **CHOSEN, JOB: _JOB}
            own |= {(c.name, level): expected[level] for level in c.levels}
        self.spreads = {key: own[key] for key in keys}
        self._variances = np.array([self.spreads[key] for key in keys]) ** 2
        self.expected = np.array([trends.get(key, (0.0, 0.0))[0] for key in keys])
        self._of_jobs = np.array([effect.level == JOB for effect in effects])

    def values(self, effects: Array) -> Array:
        """Coefficients [coefficient, row] before their links."""
        x = np.repeat(self._start[:, None], len(self.sources), axis=1)
        np.add.at(x, self.coefficient, effects[:, None] * self.members)
        return x

    def fit(self, train: Array) -> Posterior:
        """The posterior of the rows where `train` [row] holds."""
        return self.fits(train[None])[0]

    def fits(self, trains: Array) -> list[Posterior]:
        """The posteriors of sets of rows [set, row], evaluated together."""
        count = len(trains)
        steps = self.steps.times(count)
        names = list(dict.fromkeys(self.sources))
        source = np.array([names.index(name) for name in self.sources])
        z = np.tile(self.expected, (count, 1))
        noise = np.full((count, len(names)), 1.5 * _NOISE)
        variances = np.repeat(self._variances[None], count, axis=0)
        errors = self._errors(steps, z)
        # Each ends by itself, so that a posterior does not depend on the others
        moving = np.ones(count, dtype=bool)
        first = np.full(count, np.inf)
        for _ in range(ROUNDS):
            slopes = self._derivatives(steps, z)
            owns = [self._own(one, train) for one, train in zip(slopes, trains, strict=True)]
            for inner in range(_INNER):
                scales = noise[:, source]
                step = np.zeros_like(z)
                for k in np.flatnonzero(moving):
                    train = trains[k]
                    own = errors[k][train], owns[k], scales[k][train], variances[k]
                    step[k] = self._step(z[k], *own)
                before = errors
                z, errors = self._along(steps, z, step, errors, (scales, variances, trains))
                if not inner:
                    first = np.where(trains, np.abs(errors - before), 0.0).max(axis=1)
                for k in np.flatnonzero(moving):
                    train = trains[k]
                    own = errors[k][train], owns[k]
                    noise[k], variances[k] = self._scales(
                        z[k], *own, noise[k], variances[k], source[train]
                    )
            moving &= first >= _MOVED
            if not moving.any():
                break
        else:
            raise InputError(f"the fit has not settled: a row still moves by {first.max():.1%}")
        found = []
        for k, train in enumerate(trains):
            scale = noise[k][source[train]]
            covariance = self._covariance(owns[k], errors[k][train], scale, variances[k])
            sizes = dict(zip(names, noise[k].tolist(), strict=True))
            spreads = dict(self.spreads)
            if self._of_jobs.any():
                spreads[STEP, JOB] = float(variances[k][self._of_jobs][0] ** 0.5)
            found.append(Posterior(self.effects, z[k], covariance, spreads, sizes))
        return found

    def predict(self, posterior: Posterior) -> Predicted:
        """Errors of all rows, and their deviations by the posterior."""
        return self.predictions([posterior])[0]

    def predictions(self, posteriors: Sequence[Posterior]) -> list[Predicted]:
        """The same for several posteriors, evaluated together."""
        steps = self.steps.times(len(posteriors))
        z = np.array([posterior.means for posterior in posteriors])
        found = []
        both = zip(posteriors, self._errors(steps, z), self._derivatives(steps, z), strict=True)
        for posterior, errors, slopes in both:
            own = self.members * slopes[self.coefficient]
            variance = np.einsum("er,er->r", own, posterior.covariance @ own)
            noise = np.array([posterior.noise[name] for name in self.sources])
            found.append(Predicted(errors, np.sqrt(variance), noise, slopes))
        return found

    def _errors(self, steps: Steps, z: Array) -> Array:
        """Errors [set, row] of effects [set, effect]."""
        return steps.errors(np.hstack([self.values(own) for own in z])).reshape(len(z), -1)

    def _derivatives(self, steps: Steps, z: Array) -> Array:
        """Their derivatives [set, coefficient, row]."""
        slopes = steps.derivatives(np.hstack([self.values(own) for own in z]))[1]
        return np.swapaxes(slopes.reshape(len(slopes), len(z), -1), 0, 1)

    def _own(self, slopes: Array, train: Array) -> Array:
        """Derivatives [effect, row] of rows that are fitted."""
        return np.asarray(self.members[:, train] * slopes[self.coefficient][:, train])

    def _step(self, z: Array, errors: Array, own: Array, noise: Array, variances: Array) -> Array:
        precision, weights = self._precision(own, errors, noise, variances)
        return -np.linalg.solve(
            precision, own @ (weights * errors) + (z - self.expected) / variances
        )

    def _covariance(self, slopes: Array, errors: Array, noise: Array, variances: Array) -> Array:
        return np.linalg.inv(self._precision(slopes, errors, noise, variances)[0])

    def _precision(
        self, slopes: Array, errors: Array, noise: Array, variances: Array
    ) -> tuple[Array, Array]:
        weights = (FREEDOM + 1) / (FREEDOM + (errors / noise) ** 2) / noise**2
        return (slopes * weights) @ slopes.T + np.diag(1 / variances), weights

    def _along(
        self,
        steps: Steps,
        z: Array,
        step: Array,
        errors: Array,
        about: tuple[Array, Array, Array],
    ) -> tuple[Array, Array]:
        """The effects and the rows' errors after a line search that lowers each loss. `about` are
        noise [set, row], variances [set, effect] and the sets [set, row]."""
        noise, variances, trains = about

        def loss(errors: Array, z: Array) -> Array:
            squares = np.log1p((errors / noise) ** 2 / FREEDOM) * trains
            of_effects = ((z - self.expected) ** 2 / variances).sum(axis=1)
            own = ((FREEDOM + 1) * squares.sum(axis=1) + of_effects) / 2
            return np.where(np.isfinite(own), own, np.inf)

        before = loss(errors, z)
        share = np.minimum(1.0, _FAR / np.maximum(np.abs(step).max(axis=1), 1e-300))
        for last in range(6):
            there = z + share[:, None] * step
            tried = self._errors(steps, there)
            worse = loss(tried, there) > before + 1e-4
            if not worse.any():
                break
            share = np.where(worse, share / 3 if last < 4 else 0.0, share)
        return there, tried

    def _scales(
        self,
        z: Array,
        errors: Array,
        slopes: Array,
        noise: Array,
        variances: Array,
        source: Array,
    ) -> tuple[Array, Array]:
        """Scale of each source's noise (of a source without rows, the mean of the others), and
        variances of effects, with that of jobs' factors as the rows have it."""
        own = noise[source]
        covariance = self._covariance(slopes, errors, own, variances)
        squares = errors**2 * (FREEDOM + 1) / (FREEDOM + (errors / own) ** 2)
        squares = squares + np.einsum("er,er->r", slopes, covariance @ slopes)
        rows = np.bincount(source, minlength=len(noise))
        total = np.bincount(source, squares, len(noise)) + _NOISE_WEIGHT * _NOISE**2
        scales = total / (rows + _NOISE_WEIGHT)
        scales = np.sqrt(np.where(rows > 0, scales, scales[rows > 0].mean()))
        seen = self._of_jobs & slopes.any(axis=1)
        total = (z**2 + np.diag(covariance))[seen].sum() + _JOB_WEIGHT * _JOB**2
        of_jobs = total / (seen.sum() + _JOB_WEIGHT)
        return scales, np.where(self._of_jobs, of_jobs, variances)
