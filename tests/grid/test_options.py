"""Every option is an axis: along it stands what each choice gives alone."""

from typing import Any

import numpy as np
import pytest

from fleetcube import Sweep
from fleetcube.kernels.graph.formulas import load
from fleetcube.kernels.inputs import INPUTS

OPTIONS = [name for name, row in INPUTS.items() if row.kind == "option"]
JOB: dict[str, Any] = {
    "n_gpus": 2048,
    "model": "mixtral-8x7b",
    "node": "dgx-b200",
    "fabric": "infiniband-ndr",
    "tensor_parallel": 4,
    "pipeline_parallel": 4,
    "expert_parallel": 2,
    "all_reduce": "auto",
    "torus_x": 4,
    "torus_y": 2,
    "linear_heads": 64,
    "data_parallel_shard": 8,
    "mfu": 0.4,
    "fixed_checkpoint_interval": 600,
    "peak_flops_fp16": 1e15,
    "peak_flops_fp8": 2e15,
    "peak_flops_fp4": 4e15,
    "site_bandwidth": 1e11,
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_an_axis(option: str) -> None:
    chosen = [name for name, quantity in load().items() if quantity.option == option]
    assert chosen
    choices = list(INPUTS[option].choices)
    swept = Sweep(JOB, {option: choices}, chosen).evaluate()
    for choice in choices:
        alone = Sweep({**JOB, option: choice}, {}, chosen).evaluate()
        for name in {*chosen} - {"infeasible_reason"}:
            got = swept[name].sel({option: choice}) if option in swept[name].dims else swept[name]
            np.testing.assert_array_equal(got, alone[name], err_msg=name)
    assert any(option in swept[name].dims for name in chosen)
