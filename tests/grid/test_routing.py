"""Tokens counted by expert: imbalance of ranks, and capacity."""

import io
import warnings
import zipfile
from collections.abc import Callable

import numpy as np
import pytest

from fleetcube.formats.routing import LARGEST, Routing, parse_routing

from ..draws import generator, scaled
from .common import refused

COUNTS = np.array([[10, 20, 30, 40], [40, 20, 20, 20]])


def npz(*arrays: np.ndarray, **named: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, *arrays, **named)
    return file.getvalue()


def csv(heading: str = "", label: bool = False) -> bytes:
    rows = [
        ",".join(map(str, ([k] if label else []) + row)) for k, row in enumerate(COUNTS.tolist())
    ]
    return ("\n".join([heading, *rows] if heading else rows) + "\n").encode()


@pytest.mark.parametrize(
    "content",
    [
        csv(),
        csv("0,1,2,3"),
        csv("expert_1,Expert-2,expert 3,expert4"),
        csv("layer,0,1,2,3", label=True),
        b"layer,3,1,2,0\n0,40,20,30,10\n\n1,20,20,20,40\n",
        npz(COUNTS),
        npz(load=np.asfortranarray(COUNTS.astype(np.float32))[:, None, :]),
    ],
)
def test_counts_are_read(content: bytes) -> None:
    routing = parse_routing(content, "counts")
    assert routing is not None
    np.testing.assert_array_equal(routing.counts, COUNTS)
    # by hand: two ranks have 30 and 70, 60 and 40 of 100; four the busiest expert
    assert routing.imbalance(2) == pytest.approx((70 + 60) / 100)
    assert routing.imbalance(4) == pytest.approx(80 / 50)
    assert routing.imbalance(1) == 1.0
    refused("do not divide among 3 ranks", lambda: routing.imbalance(3))


def test_capacity_drops_the_share_and_no_more() -> None:
    random = generator(4)
    for _ in range(scaled(50)):
        counts = random.integers(0, 50, (random.integers(1, 6), random.integers(2, 9)))
        counts[0, 0] += 1
        counts = counts.astype(float)
        means = counts.mean(axis=1, keepdims=True)

        def dropped(factor: float, counts: np.ndarray = counts, means: np.ndarray = means) -> float:
            return float(np.maximum(counts - factor * means, 0).sum() / counts.sum())

        for share in (0.0, 0.01, 0.2):
            factor = Routing(counts).capacity(share)
            assert dropped(factor) <= share + 1e-12
            assert factor == 1 or dropped(factor * (1 - 1e-6)) > share


def test_other_files_are_left_to_others() -> None:
    for text in ("", "n_gpus,step_time\n1,2\n", "# size count\n", "0,1,2,3\n", "x,1,2\n1,2,3\n"):
        assert parse_routing(text.encode(), "x") is None


def bomb() -> bytes:
    """64 MiB and more of zeros in 64 kB, under a name of NumPy."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("arr_0.npy", bytes(LARGEST + 1))
    return file.getvalue()


def claimed(shape: str) -> bytes:
    """An array whose header promises another shape than it holds."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        array = io.BytesIO()
        np.save(array, COUNTS)
        packed.writestr("arr_0.npy", array.getvalue().replace(b"(2, 4)", shape.encode()))
    return file.getvalue()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (bomb, "one above 67,108,864 bytes"),
        (lambda: npz(COUNTS, COUNTS), "holds 2 arrays"),
        (lambda: npz(np.array([[{}, {}]], dtype=object)), "no array"),
        (lambda: claimed("(9, 9)"), "no array"),
        (lambda: claimed("(-2,-4)"), "no "),
        (lambda: npz(COUNTS)[:-9], "is no NPZ"),
        (lambda: npz(-COUNTS), "counts below 0"),
        (lambda: b"0,1,2\n1,2\n", "row 2: not 3 counts"),
        (lambda: b"0,1,2\n1,2,nan\n", "no numbers"),
    ],
)
def test_hostile_files_are_refused(make: Callable[[], bytes], words: str) -> None:
    content = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused(words, lambda: parse_routing(content, "counts.npz"))
