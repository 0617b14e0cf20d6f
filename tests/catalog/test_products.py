"""Separately measured matrix products test the law that steps are fitted with."""

import numpy as np
import pytest

from docs.make import products
from fleetcube import Sweep


def test_the_law_of_steps_fits_products_measured_alone() -> None:
    found = {name: (values, errors) for name, values, errors in products.results()}
    (largest, half_depth, launch), errors = found["the step's: a half depth, and its half area"]
    assert np.abs(errors).mean() < 0.034
    assert abs(float(np.median(errors))) < 0.02
    assert 0.8 < largest <= 1.0  # of the data sheet
    assert 2e-6 < launch < 8e-6  # as launches on an H100 take (XLA's smallest product: 2.9 us)
    one_tile = np.abs(found["waves of tiles of 128 x 128"][1]).mean()
    sides = np.abs(found["half sizes of the sides"][1]).mean()
    assert one_tile > sides > 1.9 * np.abs(errors).mean()

    (_, area, _, depth), errors_of_four = found[
        "a half size of the result's area, and of the depth"
    ]
    assert area / depth == pytest.approx(2500, rel=0.01)  # the constant of the step's law
    assert np.abs(errors_of_four).mean() == pytest.approx(np.abs(errors).mean(), rel=0.01)

    scenario = {"model": "llama-3-70b", "gpu": "h100-sxm", "software": "megatron-lm"}
    step = {"fabric": "infiniband-ndr", "n_gpus": 64, "tensor_parallel": 8, "global_batch_size": 64}
    plan = Sweep({**scenario, **step}, {}, ["step_time"])._plan("numpy")
    posterior = plan.problem.constants["gemm_half_depth"]
    assert 0.5 < posterior / half_depth < 2.0  # fitted to whole steps, without single kernels


def test_the_law_holds_on_a_gpu_that_did_not_choose_it() -> None:
    rows = [line.split("|")[1:-1] for line in products.on_b200().splitlines()[2:]]
    found = {
        cells[0].strip(): [cell.strip(" %us").replace(",", "") for cell in cells] for cells in rows
    }
    for name, most in {"H100, 16 bits": 3.5, "B200, 16 bits": 4.5, "B200, 8 bits": 5.5}.items():
        ratio, share, start, mean = map(float, found[name][3:7])
        assert mean < most
        assert 1600 < ratio < 2700  # 2,500 by the H100
        assert 0.7 < share < 1.0
        assert 4 < start < 6
    depths = [float(found[name][2]) for name in found]
    assert depths == sorted(depths)
    assert depths[0] < depths[-1]
