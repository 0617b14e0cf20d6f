"""Steps of a job predicted from some of its own: errors, and shares inside intervals.

The posterior has seen nothing of the job: its cell is left out, or the job alone. Predictions are
linear around the posterior's, with the update that `fleetcube calibrate` makes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fleetcube.calibration.update import half_of_noise, most_likely
from fleetcube.catalog.pooled import NORMAL, STEP, STUDENT, STUDENTS

from .hierarchy import JOB, LAWS, Pooled, Posterior, Predicted

Array = np.ndarray[Any, Any]
Pair = tuple[str, tuple[int, ...], int]  # group, rows given, row predicted
HEADING = ("given", "left out", "jobs", "error", "auto", "ratio", "inside", "half the interval")
_DRAWS, _OTHERS = 4, 6  # of rows given in a job, and of rows predicted from each


@dataclass(frozen=True)
class Fold:
    """A posterior without some rows, and its predictions of all."""

    pooled: Pooled
    posterior: Posterior
    predicted: Predicted

    @cached_property
    def laws(self) -> Array:
        """Whether an effect is of a coefficient, and not of a job."""
        return np.array([effect.coefficient != STEP for effect in self.posterior.effects])

    @cached_property
    def errors(self) -> Array:
        """Logarithms of computed over measured, without the factors of jobs."""
        own = np.where(self.laws, 0.0, self.posterior.means)
        return self.predicted.errors - own @ self.pooled.members

    @property
    def slopes(self) -> Array:
        return self.predicted.slopes[: len(LAWS)]

    @cached_property
    def covariance(self) -> Array:
        """Of the effects of coefficients."""
        return self.posterior.covariance[np.ix_(self.laws, self.laws)]

    def taken(self, row: int) -> Array:
        """The effects in a row's coefficients."""
        found = np.zeros((len(LAWS), self.laws.sum()))
        place = self.pooled.coefficient[self.laws]
        found[place, np.arange(len(place))] = self.pooled.members[self.laws, row]
        return found

    def root(self, row: int) -> Array:
        """A root of the covariance of a row's coefficients."""
        taken = self.taken(row)
        sizes, axes = np.linalg.eigh(taken @ self.covariance @ taken.T)
        return np.asarray(axes * np.sqrt(np.maximum(sizes, 0)))

    def halves(self, a: int, b: int, is_job: bool) -> tuple[float, float]:
        """Half the interval of the ratio of two rows, and of the second alone."""
        own = [self.slopes[:, row] @ self.taken(row) for row in (a, b)]
        spread = self.posterior.spreads[STEP, JOB] ** 2
        noise = float(self.predicted.noise[b])
        found = []
        for of, jobs, of_noise in (
            (own[0] - own[1], 0.0 if is_job else 2 * spread, STUDENTS),
            (own[1], spread, STUDENT),
        ):
            variance = of @ self.covariance @ of + jobs
            found.append(np.hypot(NORMAL * np.sqrt(variance), of_noise * noise))
        return found[0], found[1]

    def update(self, given: Sequence[int]) -> tuple[Array, Array, float]:
        """Changes of the coefficients and the logarithm of the job's factor, a root of their
        covariance, and half the interval of noise."""
        rows = np.array(given)
        slopes = np.vstack([self.slopes[:, rows], np.ones(len(rows))]).T
        expected = float(self.predicted.noise[rows[0]])
        x, spread, _ = most_likely(
            lambda x: (self.errors[rows] + slopes @ x, slopes),
            np.zeros(len(LAWS) + 1),
            self.root(rows[0]),
            expected,
            self.posterior.spreads[STEP, JOB],
        )
        return x, spread, half_of_noise(self.errors[rows] + slopes @ x, slopes @ spread, expected)


@dataclass(frozen=True)
class Given:
    """Errors of logarithms by pair: of the update, auto, and auto times measured over predicted;
    and half the update's interval."""

    groups: tuple[str, ...]
    update: Array
    auto: Array
    ratio: Array
    half: Array

    def _mean(self, values: Array) -> float:
        """The mean over groups, each counting once."""
        groups = np.array(self.groups)
        return float(np.mean([values[groups == one].mean() for one in dict.fromkeys(groups)]))

    def cells(self) -> Iterator[str]:
        """Cells of the table: groups, mean errors, share inside, half the interval."""
        yield str(len({*self.groups}))
        for errors in (self.update, self.auto, self.ratio):
            yield f"{100 * self._mean(np.abs(np.expm1(errors))):.1f} %"
        yield f"{100 * self._mean(np.abs(self.update) <= self.half):.0f} %"
        yield f"x {np.exp(self._mean(self.half)):.2f}"


def given(pairs: Sequence[Pair], fold_of: Callable[[int], Fold], is_job: bool) -> Given:
    """Errors of rows predicted from others, which are of the same job or not."""
    made: dict[tuple[int, ...], tuple[Array, Array, float]] = {}
    found = []
    for _, rows, other in pairs:
        fold = fold_of(other)
        if rows not in made:
            made[rows] = fold.update(rows)
        x, spread, of_noise = made[rows]
        here = np.append(fold.slopes[:, other], float(is_job))
        there = np.vstack([fold.slopes[:, list(rows)], np.full(len(rows), float(is_job))])
        variance = np.square(there.T @ spread).sum(axis=1).mean()
        variance += 0.0 if is_job else fold.posterior.spreads[STEP, JOB] ** 2
        auto = fold.errors[other]
        ratio = auto - float(np.median(fold.errors[list(rows)]))
        half = np.hypot(NORMAL * np.sqrt(variance), of_noise)
        found.append((auto + here @ x, auto, ratio, half))
    return Given(tuple(group for group, _, _ in pairs), *np.array(found).T)


RATIOS = ("two steps of", "pairs of", "error of B / A", "of B", "inside", "half of B / A", "of B")


def ratios(pairs: Sequence[Pair], fold_of: Callable[[int], Fold], is_job: bool) -> Iterator[str]:
    """Cells of the table of ratios: groups, errors, share inside, halves of intervals."""
    found = []
    for _, (a,), b in pairs:
        fold = fold_of(b)
        errors = fold.errors[[a, b]]
        found.append((errors[1] - errors[0], errors[1], *fold.halves(a, b, is_job)))
    error, own, half, alone = np.array(found).T
    made = Given(tuple(group for group, _, _ in pairs), error, own, own, half)
    count, of_ratio, of_one, _, inside, width = made.cells()
    yield from (count, of_ratio, of_one, inside, width)
    yield f"x {np.exp(made._mean(alone)):.2f}"


def pairs_of(groups: Mapping[str, Sequence[int]], count: int) -> list[Pair]:
    """Rows given and predicted: every pair for one row, draws of more."""
    if count == 1:
        return [(g, (r,), o) for g, rows in groups.items() for r in rows for o in rows if r != o]
    random = np.random.default_rng(count)
    found: list[Pair] = []
    for name, rows in groups.items():
        for _ in range(_DRAWS if len(rows) > count else 0):
            order = random.permutation(np.array(rows)).tolist()
            chosen = tuple(sorted(order[:count]))
            found += [(name, chosen, other) for other in order[count : count + _OTHERS]]
    return found


def smallest(groups: Mapping[str, Sequence[int]], sizes: Array) -> list[Pair]:
    """The smallest cluster of each job given, larger ones predicted."""
    return [
        (name, (first,), other)
        for name, rows in groups.items()
        for first in [min(rows, key=lambda row: sizes[row])]
        for other in rows
        if sizes[other] > sizes[first]
    ]


def elsewhere(rows: Sequence[int], alike: Callable[[int, int], bool]) -> list[Pair]:
    """Each row given, and some of those that are alike predicted."""
    random = np.random.default_rng(1)
    found: list[Pair] = []
    for row in rows:
        others = [other for other in rows if alike(row, other)]
        chosen = random.permutation(np.array(others, int))[:_DRAWS].tolist()
        found += [(f"{row}", (row,), other) for other in chosen]
    return found


def grouped(labels: Sequence[str], rows: Sequence[int]) -> dict[str, list[int]]:
    found = defaultdict(list)
    for row in rows:
        found[labels[row]].append(row)
    return dict(found)
