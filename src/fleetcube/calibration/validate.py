"""How well predictions agree with measurements, compared with a constant."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .predict import STEP, Compared, predict
from .row import LeftOut, Row

Array = np.ndarray[Any, Any]
_FEWEST = 3  # values needed for a ranking


@dataclass(frozen=True)
class Accuracy:
    """The errors of one output over a group of measurements; NaN or None where unknown.

    Errors are predicted over measured, minus one: mean, median and maximum of their absolute
    values, and their mean, the bias. `rank_correlation` is Spearman's; for steps, of tokens per
    second and GPU. `coverage` is the share of values inside the predicted intervals. The dummy
    predicts that GPUs reach the same share of their peak at every step: the group's median.
    """

    group: str
    of: str
    n: int
    mean_percent: float
    median_percent: float
    max_percent: float
    bias_percent: float
    rank_correlation: float
    coverage: float | None
    dummy_mean_percent: float
    dummy_median_percent: float


@dataclass(frozen=True)
class Validation:
    """Predictions and measurements: accuracies by group, rows, and left-out records."""

    groups: tuple[Accuracy, ...]
    rows: tuple[Compared, ...]
    left_out: tuple[LeftOut, ...]


def validate(rows: Sequence[Row], left_out: Iterable[LeftOut] = ()) -> Validation:
    """Predict measured values and compare; rows not compared join `left_out` with a reason."""
    compared, without = predict(rows)
    groups = dict.fromkeys((row.group, row.of) for row in compared)
    accuracies = [
        accuracy([row for row in compared if (row.group, row.of) == key]) for key in groups
    ]
    return Validation(tuple(accuracies), tuple(compared), (*left_out, *without))


def accuracy(rows: Sequence[Compared]) -> Accuracy:
    measured, predicted, low, high, ideal, tokens = np.array(
        [(r.measured, r.predicted, r.low, r.high, r.ideal_time, r.tokens_per_gpu) for r in rows]
    ).T
    errors = 100 * (predicted / measured - 1)
    dummy = np.array([math.nan])
    if np.isfinite(ideal).all():
        dummy = 100 * (ideal / np.median(ideal / measured) / measured - 1)
    work = tokens if rows[0].of == STEP else np.ones_like(measured)
    bounded = np.isfinite(low) & np.isfinite(high)
    inside = (low <= measured) & (measured <= high)
    return Accuracy(
        group=rows[0].group,
        of=rows[0].of,
        n=len(rows),
        mean_percent=float(np.abs(errors).mean()),
        median_percent=float(np.median(np.abs(errors))),
        max_percent=float(np.abs(errors).max()),
        bias_percent=float(errors.mean()),
        rank_correlation=_rank_correlation(work / predicted, work / measured),
        coverage=float(inside[bounded].mean()) if bounded.any() else None,
        dummy_mean_percent=float(np.abs(dummy).mean()),
        dummy_median_percent=float(np.median(np.abs(dummy))),
    )


def _rank_correlation(first: Array, second: Array) -> float:
    """Spearman's correlation, or NaN if there is nothing to rank."""
    finite = np.isfinite(first) & np.isfinite(second)
    first, second = first[finite], second[finite]
    if len(first) < _FEWEST or not np.ptp(first) or not np.ptp(second):
        return math.nan
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1])


def _ranks(numbers: Array) -> Array:
    """Ranks from 1; equal numbers share their mean rank. scipy.stats takes longer to load."""
    _, place, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks
