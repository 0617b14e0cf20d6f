"""Latency before anything is computed: imports, the shell, the compiler."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from . import question
from .measure import ROOT, interleave, python, say
from .tables import Row, Table

HEAVY = ("jax", "numba", "dask", "matplotlib", "xarray", "zarr", "pint", "pydantic", "numpy")
LATE = ("jax", "numba", "dask", "matplotlib")  # what `import fleetcube` must not load
COLUMNS = {
    "what": "what",
    "seconds": "seconds",
    "target": "at most",
    "met": "met",
    "detail": "detail",
}

_IMPORT = f"""
import json, sys, time
start = time.perf_counter()
import fleetcube
seconds = time.perf_counter() - start
loaded = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps({{"seconds": seconds, "modules": len(sys.modules), "loaded": loaded}}))
"""

# Everything but the kernel is warm: the libraries, the plan and its tables.
_COMPILE = """
import json, sys, time
from benchmarks import question
from fleetcube import Settings
sizes, outputs = json.loads(sys.argv[1])
question.full(sizes, outputs=outputs).evaluate(settings=Settings("numpy"))
sweep = question.full(sizes, outputs=outputs)
plan = sweep._plan("numba")
times = []
for _ in range(4):
    start = time.perf_counter()
    sweep.evaluate(settings=Settings("numba"))
    times.append(time.perf_counter() - start)
print(json.dumps(times[0] - sorted(times[1:])[1]))
"""


def run(quick: bool = False) -> Table:
    rounds = 3 if quick else 7
    rows = [imports(rounds), shell(rounds), *compiling(rounds=rounds if quick else 5)]
    return Table("Start-up", COLUMNS, rows, ("Medians of fresh processes.",))


def imports(rounds: int) -> Row:
    """`import fleetcube` in a fresh interpreter, and the heavy modules that it loads."""
    say("startup: import fleetcube")
    runs = [json.loads(python("-c", _IMPORT)) for _ in range(rounds)]
    seconds, loaded = median(run["seconds"] for run in runs), runs[0]["loaded"]
    late = [name for name in LATE if name in loaded]
    return {
        "what": "import fleetcube",
        "seconds": seconds,
        "target": 0.3,
        "met": seconds <= 0.3 and not late,
        "detail": f"{runs[0]['modules']} modules, of the heavy ones {', '.join(loaded) or 'none'}",
        "loaded": loaded,
    }


def shell(rounds: int, spec: Path = ROOT / "examples" / "scaling-and-reliability.toml") -> Row:
    """`fleetcube run` of a spec from the shell, process start included."""
    say("startup: fleetcube run")
    with tempfile.TemporaryDirectory() as folder:
        cube = str(Path(folder, "cube.zarr"))

        def run() -> str:
            return python("-m", "fleetcube", "run", str(spec), "-o", cube, "--overwrite")

        printed = run()
        seconds = median(interleave({"run": run}, rounds)["run"])
    return {
        "what": f"fleetcube run {spec.name}",
        "seconds": seconds,
        "target": 2.0,
        "met": seconds <= 2.0,
        "detail": printed.splitlines()[0].partition(" over")[0] + ", from the shell to the cube",
    }


def compiling(sizes: tuple[int, ...] = (16, 32, 32, 16, 8), rounds: int = 5) -> list[Row]:
    """First use of a kernel, with an empty and a full cache."""
    say("startup: cold and cached compile")
    cold, cached = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            once = _compiler(sizes, folder)
            cold.append(once())
            cached.append(once())
    rows: list[Row] = []
    for what, seconds, target in (("cold", cold, 3.0), ("cached", cached, 0.3)):
        middle = median(seconds)
        rows.append(
            {
                "what": f"{what} compile",
                "seconds": middle,
                "target": target,
                "met": middle <= target,
                "detail": "beyond a warm evaluation; three outputs",
            }
        )
    return rows


def _compiler(sizes: tuple[int, ...], cache: str) -> Callable[[], float]:
    def once() -> float:
        asked = json.dumps([sizes, question.OUTPUTS])
        return float(python("-c", _COMPILE, asked, FLEETCUBE_CACHE=cache))

    return once
