"""What refactoring must not change: `python -m tests.oracle FILE`, and later `OLD NEW`.

FILE gets every formula (parameters, operations, unit, meaning and source), its values at the points
of tests/kernels/test_engines.py, and hashes of the examples' arrays on every engine, reductions,
gradients, virtual slices and chunks on disk. Comparing two files names differences by kind, with
exit 1.
"""

import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fleetcube import Settings, Sweep
from fleetcube.grid.errors import InputError
from fleetcube.kernels.engines import numpy as numpy_engine
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.graph.formulas import parameters
from fleetcube.kernels.graph.trace import Trace, Value, written
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from .grid.bits import AXES, EXAMPLES, JOB, hashed
from .kernels.test_engines import operands

Found = Iterator[tuple[str, Any]]
OPTIONS = {name: row.choices for name, row in INPUTS.items() if row.kind == "option"}
SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "others": {
        "all_reduce": "hierarchical",
        "checkpoint_policy": "young",
        "precision": "fp8",
        "recompute": "full",
        "zero_stage": 3,
    },
    "more": {
        "checkpoint_mode": "async",
        "pipeline_schedule": "1f1b",
        "precision": "fp8_blockwise",
        "batch_quality": "critical",
    },
}
ENGINES = ("numpy", "numba", "jax")


def formulas() -> Found:
    """Each formula of each quantity: its docstring, and its operations."""
    values = operands()
    for quantity in PHYSICS.quantities.values():
        for choice, formula in quantity.formulas.items():
            needed = parameters(formula)
            trace = Trace()
            result = trace.run(formula, [Value(trace, name) for name in needed])
            doc = asdict(read(formula))
            lines = [f"{name} = {op.loop or op.text}" for name, op in trace.operations.items()]
            facts = {
                "needs": list(needed),
                "operations": digest([*lines, written(result)]),
                "count": len(lines),
                "value": hashed(
                    numpy_engine.evaluate({"it": formula}, {n: values[n] for n in needed})["it"]
                ),
                "name": formula.__name__,
                **{
                    key: doc[key]
                    for key in ("unit", "flags", "summary", "returns", "range", "source")
                },
                "maths": " ".join(doc["maths"].split()),
                "units": PHYSICS.units(formula),
            }
            yield from ((f"{quantity.name}[{choice}] {key}", fact) for key, fact in facts.items())


def quantities() -> Found:
    """Every quantity at the drawn points, under every choice of every option in turn."""
    given = {name: value for name, value in operands().items() if name in INPUTS}
    for turn in range(max(map(len, OPTIONS.values()))):
        chosen = {name: choices[turn % len(choices)] for name, choices in OPTIONS.items()}
        selected = PHYSICS.select(PHYSICS.quantities, chosen, given)
        for name, value in numpy_engine.evaluate(selected, given).items():
            yield f"turn {turn} {name}", hashed(value)


def sweeps() -> dict[str, Sweep]:
    """The examples under three sets of options, and one of drawn points."""
    made = {"drawn": Sweep(JOB, AXES, ["job_time", "goodput", "exact_interval"])}
    for path in sorted(EXAMPLES.glob("*.toml")):
        for name, options in SETS.items():
            sweep = Sweep.from_file(path)
            scenario = {k: v for k, v in sweep.spec["scenario"].items() if k not in options}
            kept = {k: v for k, v in sweep.spec["axes"].items() if k not in options}
            made[f"{path.stem} {name}"] = Sweep(
                {**scenario, **options}, kept, sweep.spec["outputs"]
            )
    return made


def arrays() -> Found:
    """All arrays of the sweeps on every engine, with their derivatives, reductions and slices."""
    for name, sweep in sweeps().items():
        for engine in ENGINES:
            yield from of_dataset(
                f"{name} {engine}", lambda s=sweep, e=engine: s.evaluate(settings=Settings(e))
            )
        for how in ("min", "mean"):
            yield from of_dataset(f"{name} {how}", lambda s=sweep, h=how: s.reduce(h))
        of = sweep.spec["outputs"][0]
        yield from of_dataset(
            f"{name} gradient", lambda s=sweep, o=of: s.derivatives(o).to_dataset()
        )
        yield from of_dataset(f"{name} virtual", lambda s=sweep: corner(s.virtual()))


def corner(dataset: Any) -> Any:
    return dataset.isel({axis: slice(0, 3) for axis in dataset.dims}).load()


def of_dataset(name: str, made: Callable[[], Any]) -> Found:
    try:
        dataset = made()
    except (InputError, ValueError) as error:
        yield name, f"{type(error).__name__}: {error}"
        return
    for key in dataset.variables:
        yield f"{name} {key}", hashed(dataset[key])


def chunks() -> Found:
    for name, sweep in sweeps().items():
        if name.endswith("defaults"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(sweep.to_zarr(Path(folder) / "a.zarr", settings=Settings("numba")))
                for file in sorted(path.rglob("*")):
                    if file.is_file() and "c" in file.relative_to(path).parts:
                        yield f"{name} {file.relative_to(path)}", digest(file.read_bytes())


def digest(what: Any) -> str:
    data = what if isinstance(what, bytes) else json.dumps(what).encode()
    return hashlib.sha256(data).hexdigest()[:16]


PARTS = (formulas, quantities, arrays, chunks)


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Entries in only one of the files, and entries that differ."""
    said = []
    for part in old.keys() | new.keys():
        one, other = old.get(part, {}), new.get(part, {})
        said += [f"{part}: gone: {name}" for name in one.keys() - other.keys()]
        said += [f"{part}: new: {name}" for name in other.keys() - one.keys()]
        both = one.keys() & other.keys()
        said += [
            f"{part}: {name}: {one[name]!r} -> {other[name]!r}"
            for name in both
            if one[name] != other[name]
        ]
    return sorted(said)


def main(words: list[str]) -> int:
    if len(words) == 1:
        found = {part.__name__: dict(part()) for part in PARTS}
        Path(words[0]).write_text(json.dumps(found, indent=0), encoding="utf-8")
        print(dict(Counter({part: len(values) for part, values in found.items()})))
        return 0
    old, new = (json.loads(Path(word).read_text(encoding="utf-8")) for word in words)
    said = differences(old, new)
    print("\n".join(said) or "no difference")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
