"""Fit the laws to measurements: coefficients with standard errors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError, imported
from fleetcube.grid.spec.axis import Array

from .nccl import Measured, factor

HUBER = 1.2  # standard deviations beyond which a residual counts linearly, not squared
CONFIDENCE = 0.9  # of the intervals
FEWEST_SIZES = 3  # the law has three coefficients
COEFFICIENTS = ("latency", "bandwidth", "sqrt_coefficient")
UNITS: Mapping[str, str] = {"latency": "s", "bandwidth": "B/s", "sqrt_coefficient": "s/B^0.5"}
_ROUNDS = 500
_LEAST = 1e-9  # relative spread below which there is none
_SINGULAR = 1e-7  # of the scaled columns: below it two coefficients have the same effect


@dataclass(frozen=True)
class Fit:
    """Fitted values in base units, with their uncertainty.

    Where the measurements do not bound a value, its `standard_errors` are NaN and its `intervals`
    (CONFIDENCE, low and high) unbounded. `at_bound` names the values at an end of their range, with
    one-sided intervals and standard errors of an unbounded fit. `errors`: |fitted / measured - 1|.
    """

    values: Mapping[str, float]
    standard_errors: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    correlations: Array
    at_bound: tuple[str, ...]
    errors: Array
    rows: int
    dropped: Mapping[str, int]
    notes: tuple[str, ...]

    @property
    def median_error(self) -> float:
        return float(np.median(self.errors))

    @property
    def max_error(self) -> float:
        return float(self.errors.max())


@dataclass(frozen=True)
class CollectiveFit(Fit):
    """The law of a collective: latency [s], bandwidth [B/s] and sqrt_coefficient [s/B^0.5]. `sizes`
    [B], `times` [s] and `in_place` are the measurements used."""

    collective: str
    ranks: int
    gpus_per_node: int | None
    sizes: Array
    times: Array
    in_place: Array

    def fitted(self, sizes: Any) -> Array:
        """Times [s] by the law for messages of some bytes."""
        return law(sizes, factor(self.collective, self.ranks), self.values)


def law(sizes: Any, share: float, values: Mapping[str, float]) -> Array:
    """t = a + c M / B + g sqrt(M): times [s] of messages M [B], with c = `share`."""
    message = np.asarray(sizes, dtype=float)
    wire = share * message / values["bandwidth"]
    return np.asarray(values["latency"] + wire + values["sqrt_coefficient"] * np.sqrt(message))


def fit_collective(measured: Measured) -> CollectiveFit:
    """Fit t = a + c M / B + g sqrt(M) to the rows of a log, with a, 1 / B and g not below 0.

    c is the factor between algorithm and bus bandwidth: 2 (n - 1) / n for an all-reduce. Noise is
    assumed multiplicative: logarithms are fitted, by least squares up to HUBER standard deviations
    and linearly beyond (Huber 1964), so that a few outliers matter little. Raises InputError if the
    sizes are too few to separate the coefficients.
    """
    sizes = np.array([row.size for row in measured.rows], dtype=float)
    times = np.array([row.seconds for row in measured.rows])
    distinct = len(np.unique(sizes))
    if distinct < FEWEST_SIZES or len(sizes) <= FEWEST_SIZES:
        raise InputError(
            f"the log has {len(sizes)} times of {distinct} sizes; the law has {FEWEST_SIZES} "
            "coefficients and needs more: measure from small to large (-b 8 -e 8G -f 2)"
        )
    share = factor(measured.collective, measured.ranks)
    columns = np.stack([np.ones_like(sizes), share * sizes, np.sqrt(sizes)], axis=1)
    coefficients = _fit_linear(columns, times)
    fitted = columns @ coefficients
    # A coefficient without effect at any size is at its bound 0, not solver noise
    coefficients[np.max(columns * coefficients / fitted[:, None], axis=0) < _LEAST] = 0.0
    relative = columns / fitted[:, None]  # of the logarithm, by coefficient
    if weakest(relative) is not None:
        raise InputError(
            f"the log's sizes from {sizes.min():,.0f} to {sizes.max():,.0f} bytes are too similar "
            "to separate latency and bandwidth; measure from small to large (-b 8 -e 8G -f 2)"
        )
    covariance = covariance_of(relative, np.log(times / fitted))
    values, errors, intervals = _of_law(coefficients, covariance, len(times))
    notes = list(measured.notes)
    at_bound = tuple(n for n, x in zip(COEFFICIENTS, coefficients, strict=True) if x == 0)
    # Bounds of a, 1 / B and g: an infinite bandwidth is 1 / B = 0
    open_ends = (intervals["latency"][0], 1 / intervals["bandwidth"][1])
    lowest = (*open_ends, intervals["sqrt_coefficient"][0])
    for name, low, x in zip(COEFFICIENTS, lowest, coefficients, strict=True):
        if x > 0 and low == 0:
            unbounded = "infinite" if name == "bandwidth" else 0
            notes.append(f"{name} cannot be distinguished from {unbounded}")
    deviations = np.sqrt(np.diag(covariance))
    return CollectiveFit(
        values=values,
        standard_errors=errors,
        intervals=intervals,
        correlations=covariance / np.outer(deviations, deviations),
        at_bound=at_bound,
        errors=np.abs(fitted / times - 1),
        rows=len(times),
        dropped=measured.dropped,
        notes=tuple(notes),
        collective=measured.collective,
        ranks=measured.ranks,
        gpus_per_node=measured.gpus_per_node,
        sizes=sizes,
        times=times,
        in_place=np.array([row.in_place for row in measured.rows]),
    )


def _fit_linear(columns: Array, times: Array) -> Array:
    """Coefficients x >= 0 of times = columns @ x (1 + noise), by Huber's loss on logarithms."""
    nnls = imported("scipy.optimize").nnls
    fitted, residuals = times, np.zeros_like(times)
    weights = np.ones_like(times)
    coefficients = np.zeros(columns.shape[1])
    for k in range(_ROUNDS):
        root = np.sqrt(weights)
        scaled = columns * (root / fitted)[:, None]
        # Normalised columns: seconds, bytes and their roots differ by many orders of magnitude
        lengths = np.linalg.norm(scaled, axis=0)
        solution = np.asarray(nnls(scaled / lengths, root * (1 + residuals))[0]) / lengths
        if k and np.min(columns @ solution / fitted) < 0.3:  # where the logarithm is not linear
            solution = (coefficients + solution) / 2
        coefficients = solution
        new = columns @ coefficients
        if np.max(np.abs(new / fitted - 1)) < 1e-12:
            break
        fitted, residuals = new, np.log(times / new)
        weights = weights_of(residuals, columns.shape[1])
    return coefficients


def _scale(residuals: Array, coefficients: int) -> float:
    """Standard deviation of residuals after a fit, robust to a few outliers."""
    free = max(len(residuals) - coefficients, 1)
    # 0.6745: the median of |x| of a normal distribution with standard deviation 1
    spread = float(np.median(np.abs(residuals))) / 0.6745 * math.sqrt(len(residuals) / free)
    return max(spread, _LEAST)


def weights_of(residuals: Array, coefficients: int) -> Array:
    """Weights that turn least squares into Huber's loss."""
    limit = HUBER * _scale(residuals, coefficients)
    return limit / np.maximum(np.abs(residuals), limit)


def covariance_of(jacobian: Array, residuals: Array, precisions: Array | None = None) -> Array:
    """Covariance of a fit by Huber's loss (Huber 1973, with his correction for few rows).
    `precisions` are 1 over the prior standard deviation of each coefficient, 0 without one."""
    variance = variance_of(residuals, jacobian.shape[1])
    if precisions is not None:
        jacobian = np.vstack([jacobian, math.sqrt(variance) * np.diag(precisions)])
    lengths = np.linalg.norm(jacobian, axis=0)
    # Not inv(J'J): its condition number is the square of that of J
    _, sizes, rows_of = np.linalg.svd(jacobian / lengths, full_matrices=False)
    inverse = rows_of.T / sizes / lengths[:, None]
    return np.asarray(variance * inverse @ inverse.T)


def variance_of(residuals: Array, coefficients: int) -> float:
    """Variance of the noise, robust to a few outliers, consistent with `covariance_of`."""
    rows = len(residuals)
    limit = HUBER * _scale(residuals, coefficients)
    within = max(float((np.abs(residuals) <= limit).mean()), 1.0 / rows)
    correction = 1 + coefficients / rows * (1 - within) / within
    squares = float(np.sum(np.clip(residuals, -limit, limit) ** 2))
    variance = correction**2 * squares / max(rows - coefficients, 1) / within**2
    return max(variance, _LEAST**2)  # an exact fit still has rounding errors


def weakest(jacobian: Array) -> Array | None:
    """A direction of the parameters without effect, for columns of length 1; None if none."""
    lengths = np.linalg.norm(jacobian, axis=0)
    if not lengths.all():
        return np.asarray((lengths == 0).astype(float))
    _, sizes, rows = np.linalg.svd(jacobian / lengths, full_matrices=False)
    return np.asarray(rows[-1]) if sizes[-1] < _SINGULAR * sizes[0] else None


def quantile(rows: int, coefficients: int) -> float:
    """Half the width of an interval in standard errors: Student's t."""
    stdtrit = imported("scipy.special").stdtrit
    return float(stdtrit(max(rows - coefficients, 1), 0.5 + CONFIDENCE / 2))


def _of_law(
    coefficients: Array, covariance: Array, rows: int
) -> tuple[dict[str, float], dict[str, float], dict[str, tuple[float, float]]]:
    """Values, standard errors and intervals of the law, from those of a, 1 / B and g."""
    latency, inverse, climb = map(float, coefficients)
    deviations = np.sqrt(np.diag(covariance))
    width = quantile(rows, len(coefficients)) * deviations
    low, high = np.maximum(coefficients - width, 0.0), coefficients + width
    values = {
        "latency": latency,
        "bandwidth": 1 / inverse if inverse else math.inf,
        "sqrt_coefficient": climb,
    }
    errors = {
        "latency": float(deviations[0]),
        "bandwidth": float(deviations[1]) / inverse**2 if inverse else math.nan,
        "sqrt_coefficient": float(deviations[2]),
    }
    intervals = {
        "latency": (float(low[0]), float(high[0])),
        "bandwidth": (1 / float(high[1]), 1 / float(low[1]) if low[1] else math.inf),
        "sqrt_coefficient": (float(low[2]), float(high[2])),
    }
    return values, errors, intervals
