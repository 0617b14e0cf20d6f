"""docs/float32.md: its bounds hold, for NumPy's arithmetic and for JAX's."""

import re

import jax
import numpy as np

from docs.make import float32
from fleetcube import function
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from ..draws import generator

ROWS = re.findall(r"^\| `(\w+)` \| (\S+) \| (\S+) \|$", float32.PAGE.read_text(), re.MULTILINE)
WORST = {name: np.inf if worst == "infinite" else float(worst) for name, _, worst in ROWS}


def test_the_page_lists_what_loses_digits() -> None:
    """With every option at its default; `python -m docs.make` tries the choices."""
    defaults = {name: row.default for name, row in INPUTS.items() if row.kind == "option"}
    exact, short = (float32.evaluated(defaults, kind) for kind in (np.float64, np.float32))
    for name, right in exact.items():
        flag = PHYSICS.quantities[name].unit == "flag"
        _, worst = float32._errors(right, short[name].astype(float), flag)
        assert worst <= WORST.get(name, 2 * float32.FINE), name


def test_jax_in_float32_is_as_exact() -> None:
    scenario = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    layout = {"tensor_parallel": 8, "checkpoint_write_bandwidth": 1e11, "global_batch_size": 2048}
    rng = generator(9)
    points = {
        "n_gpus": rng.choice([64.0, 512.0, 4096.0], 100),
        "gpu_mttf": 10 ** rng.uniform(7, 9, 100),
        "inter_node_bandwidth": 10 ** rng.uniform(9, 11, 100),
    }
    of = function(["step_time", "goodput", "memory_per_gpu"], scenario | layout, list(points))
    right = of(points)
    with jax.enable_x64(False):
        traced = function(list(of.outputs), scenario | layout, list(points), engine="jax")
        found = traced({name: row.astype(np.float32) for name, row in points.items()})
    for name, values in found.items():
        assert values.dtype == np.float32
        error = np.max(np.abs(np.asarray(values, float) / right[name] - 1))
        assert error <= WORST.get(name, 2 * float32.FINE), name
        assert error > 1e-9  # really float32
