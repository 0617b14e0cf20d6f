"""`python -m tests.grid.bits OPERANDS`: hashes of results on a file's operands, as JSON."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fleetcube import Settings, Sweep
from fleetcube.kernels.engines import numpy as numpy_engine
from fleetcube.kernels.graph.formulas import parameters

from ..kernels.test_engines import FORMULAS
from .common import on_h100

EXAMPLES = Path(__file__).parents[2] / "examples"
JOB = on_h100(n_gpus=1024, software="nemo", restart_time={"lognormal": ["10 min", 1.5]})
AXES: dict[str, Any] = {  # computed from other numbers before there is a grid
    "repair_time": {"geomspace": ["1 h", "7 d"], "num": 200},
    "sample": {
        "design": "sobol",
        "num": 256,
        "gpu_mttf": {"geomspace": ["5_000 h", "500_000 h"]},
        "checkpoint_write_bandwidth": {"linspace": ["10 GB/s", "1 TB/s"]},
    },
}


def hashed(array: Any) -> str:
    array = np.asarray(array)
    data = array.tobytes() if array.dtype.kind in "biuf" else repr(array.tolist()).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def found(operands: dict[str, Any]) -> dict[str, str]:
    values = {}
    for name, formula in FORMULAS.items():
        given = {p: operands[p] for p in parameters(formula)}
        values[name] = hashed(numpy_engine.evaluate({name: formula}, given)[name])
    sweeps = {path.name: Sweep.from_file(path) for path in sorted(EXAMPLES.glob("*.toml"))}
    sweeps["drawn"] = Sweep(JOB, AXES, ["job_time", "goodput", "exact_interval"])
    for name, sweep in sweeps.items():
        for engine in ("numpy", "numba") if name == "drawn" else ("numpy",):
            cube = sweep.evaluate(settings=Settings(engine))
            values |= {f"{name} {engine} {key}": hashed(cube[key]) for key in cube.variables}
    return values


if __name__ == "__main__":
    print(json.dumps(found(dict(np.load(sys.argv[1])))))
