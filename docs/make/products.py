"""Published rates of matrix products, and the law of sizes that fits them best."""

import csv
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from fleetcube.catalog import record
from fleetcube.kernels.laws.layer import gemm_rate_share

from .text import table

# 16-bit products on an H100 at powers of two, from XLA's table for predicting kernels,
# xla/service/gpu/model/matmul_interpolator_data.h of github.com/openxla/xla (2025): 143 entries,
# TFLOP/s to four digits
PRODUCTS = Path(__file__).with_suffix(".csv")
# The same on a B200, 375 products in 16 and in 8 bits (sm_100 of the table of 2026)
_ON_B200 = PRODUCTS.with_stem("products_b200")
_PROCESSORS = 132  # of an H100 SXM
# Tiles of CUTLASS's kernels for this GPU, and shares of the rate, assumed for small ones
_TILES = ((128, 256, 1.0), (256, 128, 1.0), (128, 128, 0.9), (64, 256, 0.9), (128, 64, 0.75))
_SPLITS = (1, 2, 4)  # parts of the depth that are computed in parallel and summed
_LONG = 20e-6  # s

Array = np.ndarray[Any, Any]


class Products:
    """Measured products of inputs of `element` bytes: sizes, times [s], and laws with a few
    coefficients."""

    def __init__(self, path: Path = PRODUCTS, gpu: str = "h100-sxm", element: int = 2) -> None:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [[float(cell) for cell in row] for row in list(csv.reader(file))[1:]]
        self.batch, self.rows, self.columns, self.depth, *rates = np.array(rows).T
        sheet = record("gpu", gpu).values
        self.peak = float(sheet["peak_flops_bf16" if element == 2 else "peak_flops_fp8"])
        self.memory = float(sheet["hbm_bandwidth"])
        self.flops = 2 * self.batch * self.rows * self.columns * self.depth
        self.times = self.flops / (rates[2 - element] * 1e12)
        inputs = (self.rows + self.columns) * self.depth
        self.bytes = self.batch * (element * inputs + 2 * self.rows * self.columns)

    def by_law(self, largest: Any, half_depth: Any, launch: Any) -> Array:
        """The law of steps, a batch as one product of more rows, and a launch."""
        share = gemm_rate_share(
            self.batch * self.rows, self.columns, self.depth, largest, half_depth
        )
        return self._at(share) + launch

    def by_sides(self, largest: Any, half_size: Any, launch: Any) -> Array:
        """Each side loses half of the rate at one size."""
        sides = (self.rows, self.columns, self.depth)
        share = largest * np.prod([side / (side + half_size) for side in sides], axis=0)
        return self._at(share) + launch

    def by_area(self, largest: Any, half_area: Any, launch: Any, half_depth: Any) -> Array:
        """The result's area fills the GPU, whatever its sides."""
        area = self.batch * self.rows * self.columns
        share = largest * area / (area + half_area) * self.depth / (self.depth + half_depth)
        return self._at(share) + launch

    def by_waves(self, largest: Any, launch: Any, half_depth: Any) -> Array:
        """Tiles of 128 x 128, one per multiprocessor, in whole waves."""
        return self._in_waves(largest, half_depth, 128, 128, 1) + launch

    def by_choice(self, largest: Any, launch: Any, half_depth: Any) -> Array:
        """The best of several tiles in whole waves, the depth split or not, as libraries do."""
        every = [
            self._in_waves(largest * share, half_depth, rows, columns, split)
            for rows, columns, share in _TILES
            for split in _SPLITS
        ]
        return np.asarray(np.min(every, axis=0) + launch)

    def _in_waves(self, largest: Any, half_depth: Any, rows: int, columns: int, split: int) -> Any:
        waves = self.batch * np.ceil(self.rows / rows) * np.ceil(self.columns / columns) * split
        waves = waves / _PROCESSORS
        filled = waves / np.ceil(waves)
        depth = self.depth / split
        added = 4 * self.batch * self.rows * self.columns * (split if split > 1 else 0)  # in FP32
        return self._at(largest * filled * depth / (depth + half_depth)) + added / self.memory

    def _at(self, share: Any) -> Array:
        return np.asarray(np.maximum(self.flops / (share * self.peak), self.bytes / self.memory))

    def fit(self, law: Callable[..., Array], start: list[float]) -> Array:
        """Coefficients by least squares of the logarithms, with Huber's loss."""
        scale = np.array(start)

        def errors(x: Array) -> Array:
            return np.asarray(np.log(law(*(np.exp(x) * scale)) / self.times))

        found = least_squares(errors, np.zeros(len(start)), loss="huber", f_scale=0.1)
        return np.asarray(np.exp(found.x) * scale)


LAWS: dict[str, tuple[str, list[float]]] = {
    "the step's: a half depth, and its half area": ("by_law", [0.9, 150.0, 3e-6]),
    "a half size of the result's area, and of the depth": ("by_area", [0.9, 5e5, 3e-6, 150.0]),
    "half sizes of the sides": ("by_sides", [0.9, 150.0, 3e-6]),
    "waves of tiles of 128 x 128": ("by_waves", [0.9, 3e-6, 150.0]),
    "waves, the best of five tiles and three splits": ("by_choice", [0.9, 3e-6, 150.0]),
}


def results() -> Iterator[tuple[str, Array, Array]]:
    """Each law, its coefficients, and its errors, predicted over measured - 1."""
    products = Products()
    for name, (law, start) in LAWS.items():
        found = products.fit(getattr(products, law), start)
        yield name, found, getattr(products, law)(*found) / products.times - 1


def on_b200() -> str:
    """The step's law, fitted to products on another GPU than that by which it was chosen."""
    kinds = {"H100, 16 bits": Products()}
    kinds |= {f"B200, {8 * n} bits": Products(_ON_B200, "b200-sxm", n) for n in (2, 1)}
    rows = []
    for name, products in kinds.items():
        found = products.fit(products.by_law, [0.9, 150.0, 3e-6])
        errors = abs(products.by_law(*found) / products.times - 1)
        _, area, _, depth = products.fit(products.by_area, [0.9, 5e5, 3e-6, 150.0])
        sizes = (len(errors), round(found[1], -1), round(area / depth, -2))
        shares = (f"{found[0]:.2f}", f"{1e6 * found[2]:.1f} us")
        of_errors = (f"{100 * each:.1f} %" for each in (errors.mean(), float(np.median(errors))))
        rows.append((name, *(f"{size:,.0f}" for size in sizes), *shares, *of_errors))
    head = ("products", "number", "half depth", "half area over it, if fitted, too")
    return table((*head, "share of the peak", "start", "mean error", "median"), rows, " rrrrrrr")


def text() -> str:
    long = Products().times >= _LONG
    rows = [
        (
            name,
            str(len(found)),
            *(f"{100 * abs(errors[own]).mean():.1f} %" for own in (slice(None), long)),
            f"{100 * float(np.median(abs(errors))):.1f} %",
            f"{100 * abs(errors).max():.0f} %",
        )
        for name, found, errors in results()
    ]
    head = (
        "law",
        "coefficients",
        f"mean of {len(long)}",
        f"of the {long.sum()} above {math.floor(_LONG * 1e6)} us",
        "median",
        "largest",
    )
    return table(head, rows, " rrrrr")
