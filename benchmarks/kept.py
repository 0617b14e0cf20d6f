"""Memory while compiling ever new formulas; `python -m benchmarks.kept HOW COUNT` prints JSON."""

import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fleetcube
from fleetcube import Settings
from fleetcube.grid.errors import InputError
from fleetcube.kernels.physics.graph import PHYSICS

from .measure import python
from .tables import Row, Table

LIMIT_MB = 700
PARTS = 4  # parts of the count, after each of which memory is read
SCENARIO = {
    "model": "llama-3-70b",
    "node": "dgx-h100",
    "fabric": "infiniband-ndr",
    "tensor_parallel": 8,
    "n_gpus": 1024,
}
AXES = {"gpu_mttf": [1e8, 2e8, 3e8], "nic_mttf": [1e8, 2e8]}
COLUMNS = {
    "what": "compiled one after the other",
    "count": "of them",
    "compiled": "kernels",
    **{f"mb_{k}": f"after {k}/{PARTS}, MB" for k in range(1, PARTS)},
    f"mb_{PARTS}": "after all, MB",
    "target": "at most",
    "met": "met",
}
WHAT = {
    "sweeps": 'sweeps of two quantities, evaluate("numba")',
    "numba": "functions of two quantities, numba, none of them dropped",
    "jax": "functions of two quantities, JAX, none of them dropped",
}
COUNTS = {"sweeps": 300, "numba": 120, "jax": 120}  # about a minute each


def run(quick: bool = False) -> Table:
    rows = [measure(how, 40 if quick else count) for how, count in COUNTS.items()]
    note = (
        "Memory of a process of its own above that after the import, with an empty kernel cache. "
        "Quantities are drawn of all that the scenario gives, and called or evaluated once. "
        "`python -m benchmarks.kept sweeps 1000` goes on to a thousand."
    )
    return Table("Memory kept by what was compiled", COLUMNS, rows, (note,))


def measure(how: str, count: int) -> Row:
    """Memory as more and more is compiled in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        given = ("-m", "benchmarks.kept", how, str(count))
        memory = json.loads(python(*given, timeout=3 * 3600, FLEETCUBE_CACHE=folder))
        compiled = len(list(Path(folder).rglob("*.kernel"))) or count
    parts = {f"mb_{k}": value for k, value in enumerate(memory, 1)}
    met = max(memory) <= LIMIT_MB
    row = {"what": WHAT[how], "count": count, "compiled": compiled, **parts}
    return {**row, "target": LIMIT_MB, "met": met}


def compile_many(how: str, count: int) -> list[float]:
    """Growth of memory after each part of the count, in MB."""
    start, memory, held_bytes = resident(), [], []
    step = _sweep if how == "sweeps" else _function
    step_results = _steps(how, step)
    for number in range(1, count + 1):
        held_bytes.append(next(step_results))
        if number * PARTS % count < PARTS:
            memory.append(resident() - start)
    return memory


def _steps(how: str, step: Callable[[str, list[str]], Any]) -> Iterator[Any]:
    """Steps with different quantities each time, of those that the scenario determines."""
    names, drawn, combinations = sorted(PHYSICS.quantities), random.Random(35), set()
    while True:
        outputs = drawn.sample(names, 2)
        if (pair := frozenset(outputs)) not in combinations:
            combinations.add(pair)
            try:
                yield step(how, outputs)
            except (InputError, ValueError):
                names = [name for name in names if _given(name)]


def _given(name: str) -> bool:
    try:
        _function("numpy", [name])
    except (InputError, ValueError):
        return False
    return True


def _sweep(how: str, outputs: list[str]) -> None:
    scenario: dict[str, Any] = SCENARIO
    fleetcube.Sweep(scenario, AXES, outputs).evaluate(settings=Settings("numba"))


def _function(how: str, outputs: list[str]) -> Any:
    function = fleetcube.function(outputs, SCENARIO, list(AXES), engine=how)
    function(1e8, 2e8)
    return function


def resident() -> float:
    """Resident memory of this process in MB; Linux only."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    print(json.dumps(compile_many(sys.argv[1], int(sys.argv[2]))))
