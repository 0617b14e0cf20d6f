"""The pipeline bubble against a schedule played out slot by slot."""

import pytest

import fleetcube
from fleetcube.kernels.pipeline import bubble_fraction, bubble_ratio


def idle_and_busy(stages: int, microbatches: int) -> tuple[int, int]:
    """Slots in which the first stage waits and works, forward and backward one slot each."""
    done = [[0] * microbatches for _ in range(stages)]
    for stage in range(stages):  # all forward passes, then all backward ones (GPipe)
        for i in range(microbatches):
            before = done[stage - 1][i] if stage else 0
            free = done[stage][i - 1] if i else 0
            done[stage][i] = max(before, free) + 1
    back = [[0] * microbatches for _ in range(stages)]
    for stage in reversed(range(stages)):
        for i in range(microbatches):
            after = back[stage + 1][i] if stage + 1 < stages else done[stage][-1]
            free = back[stage][i - 1] if i else done[stage][-1]
            back[stage][i] = max(after, free) + 1
    busy = 2 * microbatches
    return back[0][-1] - busy, busy


@pytest.mark.parametrize("stages", [1, 2, 4, 7, 16])
@pytest.mark.parametrize("microbatches", [1, 2, 8, 31])
def test_bubble_is_what_the_schedule_leaves_idle(stages: int, microbatches: int) -> None:
    idle, busy = idle_and_busy(stages, microbatches)
    assert bubble_ratio(stages, microbatches, 1) == pytest.approx(idle / busy, rel=1e-15)
    assert bubble_fraction(stages, microbatches, 1) == pytest.approx(
        idle / (idle + busy), rel=1e-15
    )


def test_interleaving_divides_the_ratio() -> None:
    # Narayanan et al. 2021, section 2.2: (p - 1) / (v m).
    assert bubble_ratio(8, 16, 4) == bubble_ratio(8, 16, 1) / 4


def test_two_conventions_tell_the_same_bubble() -> None:
    # Of total time b / (1 + b), where b is of useful time; both names are used for either.
    ratio = bubble_ratio(16, 64, 2)
    assert bubble_fraction(16, 64, 2) == pytest.approx(ratio / (1 + ratio), rel=1e-15)


def test_bubble_grows_with_stages() -> None:
    # A tutorial says "proportional to 1/PP stages"; the bubble is (p - 1) / (m + p - 1).
    fractions = fleetcube.evaluate(
        "bubble_fraction", num_microbatches=32, pipeline_parallel=[1, 2, 4, 8, 16]
    )
    assert list(fractions) == sorted(fractions)
    assert fractions[0] == 0


def test_bubble_recurs_every_step() -> None:
    # "500 steps, 16 stages: 3 %": it needs 500 micro-batches in each step, not 500 steps.
    assert bubble_ratio(16, 500, 1) == pytest.approx(0.03)
