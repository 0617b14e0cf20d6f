"""JAX evaluates a plan by one program, into memory that NumPy reads and a later call writes."""

import gc
from typing import Any

import numpy as np
import pytest
import xarray

from fleetcube import Settings, Sweep
from fleetcube.grid.run import evaluation
from fleetcube.kernels.engines import jax as engine

AXES = {"n_gpus": [256, 1024], "gpu_mttf": np.geomspace(1e7, 1e9, 60).tolist()}
AXES |= {"nic_mttf": np.geomspace(1e8, 1e10, 50).tolist()}
OUTPUTS = ["cluster_mtbf", "young_interval", "node_mttf", "nodes"]
JAX, HERE = Settings("jax"), Settings("numpy")


def sweep(**other: Any) -> Sweep:
    return Sweep({"checkpoint_stall_time": 60, **other}, AXES, OUTPUTS)


def addresses(values: xarray.Dataset) -> list[int]:
    return [values[name].values.ctypes.data for name in OUTPUTS]


def test_outputs_of_several_dimensions_are_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    engine._program.cache_clear()
    values = sweep().evaluate(settings=JAX)
    assert engine._program.cache_info().misses == 1
    assert len({values[name].dims for name in OUTPUTS}) == 3
    assert all(values[name].values.flags.writeable for name in OUTPUTS)
    monkeypatch.setattr(evaluation, "together", lambda plan: False)  # a program a group
    apart, exact = sweep().evaluate(settings=JAX), sweep().evaluate(settings=HERE)
    assert engine._program.cache_info().misses == 3  # `nodes` is a table: NumPy copies it
    for name in OUTPUTS:
        np.testing.assert_array_equal(values[name], apart[name])
        np.testing.assert_allclose(values[name], exact[name], rtol=1e-12)


@pytest.mark.parametrize("aliased", [True, False])
def test_results_are_written_where_earlier_ones_were(
    monkeypatch: pytest.MonkeyPatch, aliased: bool
) -> None:
    monkeypatch.setattr(engine, "WORTH", 1)
    if not aliased:  # as if XLA took other memory
        monkeypatch.setattr(engine, "_in_place", lambda *_: None)
    first = sweep().evaluate(settings=JAX)
    places, right = addresses(first), first.copy(deep=True)
    kept = first["cluster_mtbf"].values[0]  # a view, which stays valid
    dims = sweep()._plan("jax").out_dims["cluster_mtbf"]  # in the order of memory
    memory = engine._memory_of(first["cluster_mtbf"].transpose(*dims).values)
    assert memory is not None
    owner = memory.value
    again = sweep(checkpoint_stall_time=240).evaluate(out=first, settings=JAX)
    assert addresses(again) == places
    assert owner.is_deleted() == aliased  # given up to the program
    del first, owner, memory
    gc.collect()
    np.testing.assert_array_equal(kept, right["cluster_mtbf"].values[0])  # stalls do not move it
    np.testing.assert_allclose(again["young_interval"], 2 * right["young_interval"], rtol=1e-12)


def test_other_arrays_are_filled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "WORTH", 1)
    right = sweep().evaluate(settings=JAX)
    for out in (right.copy(deep=True), sweep().evaluate(settings=HERE)):
        places = addresses(out)
        found = sweep().evaluate(out=out, settings=JAX)
        assert addresses(found) == places
        xarray.testing.assert_equal(found, right)
    halves = sweep().evaluate(dtype="float32", settings=JAX)
    xarray.testing.assert_equal(halves, right.astype(np.float32))
    here = sweep().evaluate(out=right, settings=Settings("numba"))  # JAX's memory, another engine
    xarray.testing.assert_equal(here, sweep().evaluate(settings=HERE))


def test_flags_and_masked_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "WORTH", 1)
    scenario = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    given = {"memory_per_gpu": "60 GB", "tensor_parallel": 8}
    asked = Sweep(
        scenario | given,
        {"n_gpus": [8, 12, 64], "gpu_mttf": [1e7, 1e9]},
        ["data_parallel_time", "cluster_mtbf", "infeasible_reason"],
    )
    exact = asked.evaluate(settings=Settings("numpy", "exclude"))
    found = asked.evaluate(settings=Settings("jax", "exclude"))
    found = asked.evaluate(out=found, settings=Settings("jax", "exclude"))
    assert np.isnan(exact["data_parallel_time"]).any()
    for name in exact.data_vars:
        assert found[name].dtype == exact[name].dtype
        np.testing.assert_allclose(found[name], exact[name], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_float32_where_asked(dtype: Any) -> None:
    """These lose no digits (docs/float32.md): errors are those of rounding, and above 1e-10."""
    single = Settings("jax-float32")
    exact, found = sweep().evaluate(settings=HERE), sweep().evaluate(dtype=dtype, settings=single)
    found = sweep().evaluate(out=found, dtype=dtype, settings=single)
    assert found.attrs["fleetcube_engine"] == "jax-float32"
    for name in ("cluster_mtbf", "young_interval", "node_mttf"):
        assert found[name].dtype == dtype
        error = np.abs(found[name].values.astype(float) / exact[name].values - 1).max()
        assert 1e-10 < error < 1e-5
    least = sweep().reduce("min", settings=single)["cluster_mtbf"]
    np.testing.assert_allclose(least, exact["cluster_mtbf"].min(), rtol=1e-5)
    assert float(least) == found["cluster_mtbf"].min()
