"""JAX on a GPU, if there is one."""

import importlib
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any
from unittest import mock

from fleetcube import catalog
from fleetcube.analysis.gradient import continuous
from fleetcube.grid.run.settings import Settings
from fleetcube.kernels.engines import jax as jax_engine
from fleetcube.kernels.graph.bind import Binding
from fleetcube.sweep import Sweep

from . import question
from .measure import interleave, say
from .peers.contenders import bound, chain
from .tables import Row, Table

COLUMNS = {
    "what": "what",
    "points": "grid points",
    "seconds": "seconds",
    "points_per_s": "grid points/s",
    "gb_per_s": "GB/s written",
    "of_fill": "of a fill",
    "of_peak": "of the memory's bandwidth",
    "launches": "launches",
}
# Instructions of a compiled program that start nothing on a device
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}
# What a GPU's name says, and its record, whose bandwidth is the datasheet's; the first that fits
RECORDS = {
    "h200": "h200-sxm",
    "h100 nvl": "h100-nvl",
    "h100 pcie": "h100-pcie",
    "h100": "h100-sxm",
    "b200": "b200-sxm",
    "a100-sxm4-40gb": "a100-sxm-40gb",
    "a100-sxm4-80gb": "a100-sxm-80gb",
    "a100 80gb pcie": "a100-pcie-80gb",
    "l40s": "l40s",
    "l4": "l4",
    "a10": "a10",
    "t4": "t4",
}
NOTE = (
    "Bytes written over seconds, compared with a fill of the same arrays in the same rounds "
    "and with the bandwidth of the GPU's datasheet (its record in the catalog). Results on the "
    "host cross its bus as well; of float32 half as many bytes do. Launches are the fusions, "
    "reductions and copies in the text of the programs that XLA compiled for the device."
)


def run(quick: bool = False) -> Table:
    """The benchmark: three full outputs, left on the device and copied to the host."""
    jax: Any = importlib.import_module("jax")
    title = "JAX on a GPU"
    try:
        device = jax.devices("gpu")[0]
    except (RuntimeError, IndexError) as error:
        return Table(title, COLUMNS, [], (f"Skipped: {str(error).splitlines()[0]}",))
    sizes = (16, 32, 32, 16, 8) if quick else question.UNEVEN
    rows = compare(sizes, device, rounds=5 if quick else 15)
    return Table(f"{title}: {device.device_kind}", COLUMNS, rows, (NOTE,))


def peak(kind: str) -> float | None:
    """Bytes a second of the memory of a device that calls itself so; None if it has no record."""
    labels = [label for words, label in RECORDS.items() if words in kind.lower()]
    return float(catalog.record("gpu", labels[0]).values["hbm_bandwidth"]) if labels else None


def programs(call: Callable[[], object]) -> list[str]:
    """The text of each program of the engine that a call runs, as XLA compiled it, in order."""
    jax: Any = importlib.import_module("jax")
    texts: list[str] = []
    make = jax_engine._program

    def recorded(*key: Any, **more: Any) -> Any:
        program = make(*key, **more)

        def run(*operands: Any) -> Any:
            texts.append(program.lower(*operands).compile().as_text())
            return program(*operands)

        return run

    with mock.patch.object(jax_engine, "_program", recorded):
        jax.block_until_ready(call())
    return texts


def launches(text: str) -> int:
    """What a compiled program starts on its device: fusions, reductions, copies and the like."""
    (entry,) = re.findall(r"^ENTRY .*?\{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE)
    operations = re.findall(r"^ *(?:ROOT )?\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", entry, re.MULTILINE)
    return sum(operation not in FREE for operation in operations)


def compare(sizes: Sequence[int], device: Any, rounds: int) -> list[Row]:
    """Rows for a fill, the formulas on the device, `Sweep.evaluate` on the host, and gradients.

    Gradients are of the first output with respect to every continuous input, on a smaller grid.
    `Sweep.reduce` keeps its blocks on the device and transfers only results.
    """
    rows = _rows(question.full(sizes), device, rounds, "formulas")
    smaller = [max(2, size // 2) for size in sizes]
    output = question.OUTPUTS[0]
    plain = question.full(smaller, outputs=[output])
    sloped = plain.with_outputs(
        [f"d_{output}_d_{name}" for name in continuous(plain._plan(), [output])]
    )
    return rows + _rows(sloped, device, rounds, "gradients")


def _rows(sweep: Sweep, device: Any, rounds: int, what: str) -> list[Row]:
    say(f"gpu: {what}")
    plan = sweep._plan("jax")
    names = [name for name in plan.outputs if name != "infeasible_reason"]
    shapes = [plan.shape(plan.out_dims[name]) for name in names]
    contenders: dict[str, Callable[[], object]] = {
        f"fill for {what} on the device": _fill(shapes, device),
        f"{what} on the device": _formulas(sweep, device, names),
        f"Sweep.evaluate of {what}, results on the host": partial(
            sweep.evaluate, settings=Settings("jax")
        ),
        f"Sweep.evaluate of {what} in float32, results on the host": partial(
            sweep.evaluate, dtype="float32", settings=Settings("jax-float32")
        ),
        f"Sweep.reduce of {what}, minima on the host": partial(
            sweep.reduce, "min", settings=Settings("jax")
        ),
    }
    started = {  # compiles
        name: sum(map(launches, programs(contender))) for name, contender in contenders.items()
    }
    times = interleave(contenders, rounds)
    size = 8 * sum(map(math.prod, shapes))
    filled = median(times[f"fill for {what} on the device"])
    most = peak(device.device_kind)

    def rate(name: str) -> float:
        return (size / 2 if "float32" in name else size) / median(times[name])

    return [
        {
            "what": name,
            "points": sweep.points,
            "seconds": median(seconds),
            "points_per_s": sweep.points / median(seconds),
            "gb_per_s": rate(name) / 1e9,
            "of_fill": filled / median(seconds),
            "of_peak": rate(name) / most if most else None,
            "launches": started[name] or None,
        }
        for name, seconds in times.items()
    ]


def _fill(shapes: Sequence[tuple[int, ...]], device: Any) -> Callable[[], object]:
    import jax
    import jax.numpy as jnp

    def program(value: Any) -> list[Any]:
        return [jnp.full(shape, value + k) for k, shape in enumerate(shapes)]

    with jax.enable_x64(True):
        value = jax.device_put(1.5, device)
    compiled = jax.jit(program)
    return lambda: _ready(compiled, value)


def _formulas(sweep: Sweep, device: Any, names: Sequence[str]) -> Callable[[], object]:
    import jax
    import jax.numpy as jnp

    plan = sweep._plan("jax")
    (case,) = plan.cases
    formulas = bound(Binding(jnp, jnp.where), case.formulas)
    with jax.enable_x64(True):
        inputs = {name: jax.device_put(leaf, device) for name, leaf in case.leaves.items()}

    def program(inputs: dict[str, Any]) -> list[Any]:
        values = chain(formulas, inputs)
        return [values[name] for name in names]

    compiled = jax.jit(program)
    return lambda: _ready(compiled, inputs)


def _ready(compiled: Any, arguments: Any) -> object:
    jax: Any = importlib.import_module("jax")
    with jax.enable_x64(True):
        return jax.block_until_ready(compiled(arguments))
