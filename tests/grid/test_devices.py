"""JAX on several simulated host devices, in a separate process."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from fleetcube import Settings, Sweep
from fleetcube.grid.plan import tiles
from fleetcube.kernels.engines import jax as jax_engine

SCENARIO = {"checkpoint_stall_time": 60.0, "restart_time": 300.0}
AXES = {"n_gpus": [256.0, 1024.0, 4096.0], "gpu_mttf": np.geomspace(1e7, 1e9, 181)}
AXES |= {"nic_mttf": np.geomspace(1e8, 1e10, 131)}
OUTPUTS = ["cluster_mtbf", "young_interval"]

SCRIPT = """
import jax, numpy as np
from fleetcube import Settings, Sweep
from fleetcube.kernels.engines import jax as engine
from tests.grid.test_devices import AXES, OUTPUTS, SCENARIO
assert len(jax.devices()) == 8
sweep = Sweep(SCENARIO, AXES, OUTPUTS)
shared = sweep.evaluate(settings=Settings("jax"))
folded = {how: sweep.reduce(how, ["gpu_mttf", "nic_mttf"], settings=Settings("jax")) for how in HOW}
steps, operands = sweep._plan("jax").notes["program"]
with jax.enable_x64(True):
    spread = engine._program(steps)((), operands)
assert all(len(value.sharding.device_set) == 8 and value.is_fully_addressable for value in spread)
engine.SHARED = 1 << 40
alone = Sweep(SCENARIO, AXES, OUTPUTS).evaluate(settings=Settings("jax"))
for name in OUTPUTS:
    np.testing.assert_array_equal(shared[name], alone[name])
    np.testing.assert_allclose(shared[name],
        sweep.evaluate(settings=Settings("numpy"))[name], rtol=1e-12)
    for how, found in folded.items():
        expected = sweep.reduce(how, ["gpu_mttf", "nic_mttf"], settings=Settings("jax"))
        np.testing.assert_array_equal(found[name], expected[name])
single = sweep.evaluate(settings=Settings("jax-float32"))
for name in OUTPUTS:
    np.testing.assert_allclose(single[name], alone[name], rtol=1e-5)
again = sweep.evaluate(out=alone, settings=Settings("jax"))
np.testing.assert_array_equal(again["young_interval"], shared["young_interval"])
print("same", len(shared["cluster_mtbf"].values.reshape(-1)))
"""


@pytest.mark.slow
def test_devices_share_a_block() -> None:
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    given = dict(capture_output=True, text=True, env=environment)
    done = subprocess.run([sys.executable, "-c", f"HOW = ('min', 'count')\n{SCRIPT}"], **given)
    assert (done.stdout, done.stderr) == (f"same {3 * 181 * 131}\n", "")


@pytest.mark.parametrize("devices", [2, 3, 4, 7])
def test_the_axis_that_wastes_least_is_shared(devices: int) -> None:
    for shape in ((1, 300, 300), (3, 181, 131), (4, 300, 250), (2, 2, 40_000), (65_536,)):
        axis = jax_engine._shared_axis(shape, devices)
        assert axis is not None
        padded = [-(-size // devices) * devices / size for size in shape]
        padded = [2.0 if size == 1 else more for size, more in zip(shape, padded, strict=True)]
        assert padded[axis] == min(padded)
    assert jax_engine._shared_axis((1, 1, 1), devices) is None
    assert jax_engine._shared_axis((100, 100), devices) is None  # too small


@pytest.mark.slow
def test_blocks_grow_with_the_memory_of_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reductions stay the same; masked points are left out on the device."""
    scenario = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    axes = {"n_gpus": [8, 12, 64], "gpu_mttf": np.geomspace(1e7, 1e9, 24).tolist()}
    sweep = Sweep(scenario, axes, ["data_parallel_time", "cluster_mtbf", "infeasible_reason"])

    def asked(how: Any) -> Any:
        yield sweep.best("data_parallel_time", also=["cluster_mtbf"], settings=how)
        yield sweep.best("cluster_mtbf", sense="max", over="gpu_mttf", settings=how)
        yield sweep.reduce("quantile", q=0.3, settings=how)

    here = Settings("numpy", "exclude")
    expected = {how: sweep.reduce(how, settings=here) for how in ("max", "count", "mean")}
    wanted = [*asked(here)]
    monkeypatch.setattr(tiles, "BLOCK", 7)
    monkeypatch.setattr(tiles, "SORTED", 20)
    masked = Settings("jax", "exclude")
    for most in (None, 40):
        monkeypatch.setattr(jax_engine, "most_points", lambda outputs, most=most: most)
        for how, known in expected.items() if most else ():
            found = sweep.reduce(how, settings=masked)
            for name, values in known.items():
                np.testing.assert_allclose(found[name], values, rtol=1e-12)
        for found, known in zip(asked(masked), wanted, strict=True):
            assert list(found.variables) == list(known.variables)
            for name, values in known.variables.items():
                np.testing.assert_allclose(found[name], values, rtol=1e-12)
