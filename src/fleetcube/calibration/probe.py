"""Kernels and links timed alone on a user's GPUs: choose them for a job, and fit to the times.

In the posterior of published steps a coefficient is a share of what kernels reach alone on a GPU,
or of its data sheet. So each is multiplied by the measured over the expected rate of its kernels.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np

from fleetcube.catalog import pooled
from fleetcube.grid.errors import InputError
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.kernels.laws.layer import gemm_rate_share, gemm_time
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.scenario import auto
from fleetcube.scenario.reading import stated_inputs

from .fabric import unmeasured
from .update import Update, at_rates, network_of, of_coefficients, without_own_steps

FORMAT = "fleetcube probe 1"
# Of 143 products alone on an H100 (decision 51): the depth at which half of the rate is lost.
# Ceilings are the best of any shape, with sides of about 8,192 (stas00/ml-engineering, MAMF finder)
_HALF, _LARGE = 198.0, 8192.0
_COPIED = 0.9  # share of the data sheet's bandwidth that a sum of two arrays reaches; assumed
_LONG, _MEMORY, _MESSAGES = 16384, 2**30, (2**26, 2**30)
_MOST_ROWS, _FAR, _UNLIKE = 1000, 3.0, 1.05
_OVER = 1.1  # of a data sheet, as clocks may be above it
_SIDES = ("m", "n", "k")
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "product": (*_SIDES, "count"),
    "attention": ("heads", "length", "width"),
    "memory": ("bytes",),
    "all_reduce": ("bytes", "ranks"),
    "all_to_all": ("bytes", "ranks"),
    "layer": ("sequences", "length"),
}
_DATA_TERMS = (
    *("microbatch_tokens", "attention_parameters_per_layer", "ffn_matrices", "layer_time"),
    *("attention_heads", "kv_heads", "head_size", "ffn_hidden_size", "expert_ffn_hidden_size"),
    "expert_tensor_parallel",
)

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Probe:
    """Measurements of a script: `rows` have the kernel, its size and its seconds."""

    framework: str
    gpu: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Timing:
    """One kind of kernel: seconds measured and expected, and the input that it sets, if any."""

    kernel: str
    measured: float
    expected: float
    sets: str = ""
    most: float = 3.0  # of the factor: above, it would be beyond the data sheet

    @property
    def factor(self) -> float:
        """Measured over expected rate."""
        return self.expected / self.measured


@dataclass(frozen=True)
class ProbeFit(Update):
    """Coefficients of the posterior at the rates of a probe."""

    timings: tuple[Timing, ...] = ()

    @property
    def doubt(self) -> str | None:
        for one in self.timings:
            if one.sets and not 1 / _FAR < one.factor < one.most:
                return (
                    f"{one.kernel}: {one.factor:.2g} times the rate of the scenario's GPU; was the "
                    "probe run on that GPU, idle, without --small?"
                )
        return None


def job_of(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scenario of a spec of one job. Raises InputError if it has axes."""
    for name in spec["axes"]:
        raise InputError(f"a probe is of one job; state {name} in [scenario]")
    scenario: Mapping[str, Any] = spec["scenario"]
    return scenario


def sizes_of(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes on one GPU of the kernels that a script times for a job. Raises InputError."""
    problem, computed = _problem(scenario)

    def value(name: str) -> int:
        number = computed.get(name, problem.constants.get(name))
        return round(float(INPUTS[name].default or 0 if number is None else number))

    t, hidden = value("tensor_parallel"), value("hidden_size")
    heads, tokens = value("attention_heads"), max(round(computed["microbatch_tokens"]), 1)
    width = value("head_size")
    inner, ffn = heads * width, value("ffn_hidden_size")
    into = round(computed["attention_parameters_per_layer"] / hidden) - inner
    wide = round(computed["ffn_matrices"]) - 1
    forward: list[tuple[float, float, float, int]] = [
        (tokens, into / t, hidden, 1),
        (tokens, hidden, inner / t, 1),
    ]
    cell = auto.posterior_cell(stated_inputs(scenario))
    has_experts, experts = cell.layers != "dense", value("experts")
    if has_experts:
        group, expert_ffn = value("expert_parallel"), value("expert_ffn_hidden_size")
        expert_t = max(value("expert_tensor_parallel"), 1)
        rows = tokens * value("experts_per_token") * group / experts * expert_t / t
        count = max(experts // group, 1)
        forward += [
            (rows, wide * expert_ffn / expert_t, hidden, count),
            (rows, hidden, expert_ffn / expert_t, count),
        ]
    else:
        forward += [(tokens, wide * ffn / t, hidden, 1), (tokens, hidden, ffn / t, 1)]
    products = [
        dict(zip((*_SIDES, "count"), (*map(_side, sides), count), strict=True))
        for m, n, k, count in forward
        for sides in ((m, n, k), (m, k, n), (k, n, m))  # forward; gradients of inputs, of weights
    ]
    kv = max(value("kv_heads") // t, 1)
    sequences = value("micro_batch_size")
    is_plain = cell.precision == "16 bits" and value("context_parallel") == 1
    is_plain &= (
        not (has_experts or problem.options.get("lora"))
        and into == inner + 2 * value("kv_heads") * width
    )
    layer = {"hidden": hidden, "heads": heads // t, "kv_heads": kv, "width": width}
    layer |= {"ffn": ffn // t, "gated": wide > 1}
    return {
        "products": products,
        "precision": "bf16" if cell.precision == "16 bits" else "fp8",
        "attention": {"heads": max(heads // t, 1), "length": _LONG, "width": width},
        "memory": _MEMORY,
        "messages": list(_MESSAGES),
        "layer": {"sequences": sequences, "length": tokens // sequences, **layer}
        if is_plain
        else None,
    }


def _side(length: float) -> int:
    """A side as a multiple of 64, which kernels do not pad."""
    return max(round(length / 64) * 64, 64)


def script(scenario: Mapping[str, Any]) -> str:
    """The script that times a job's kernels, with their sizes. Raises InputError."""
    text = files(__package__ or "").joinpath("probe_script.py").read_text(encoding="utf-8")
    head = "SIZES: dict[str, Any] = "
    return text.replace(f"{head}{{}}", f"{head}{sizes_of(scenario)!r}")


def parse_probe(text: str, path: str) -> Probe:
    """Read the output of a script. Raises InputError."""
    where = f"{path!r} is no probe that can be read"
    try:
        content = json.loads(text)
        rows = content["rows"]
        if content["format"] != FORMAT or not 1 <= len(rows) <= _MOST_ROWS:
            raise InputError(f"{where}: it needs format {FORMAT!r} and 1 to {_MOST_ROWS:,} rows")
        for row in rows:
            sizes = [row[name] for name in _NUMBERS[row["what"]]]
            times = [row["seconds"], row["slowest"]]
            whole = all(type(n) is int and 1 <= n < 1e15 for n in sizes)
            if not whole or not all(type(n) in (int, float) and 1e-9 < n < 1e6 for n in times):
                raise InputError(f"{where}: {str(row)[:200]} has a size or a time that cannot be")
        framework, gpu = (" ".join(str(content[n]).split())[:100] for n in ("framework", "gpu"))
        return Probe(framework, gpu, tuple(rows))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: run the script of `fleetcube probe` again") from None


def fit_probe(probe: Probe, scenario: Mapping[str, Any]) -> ProbeFit:
    """Coefficients of a scenario at the measured rates of its kernels. Raises InputError."""
    posterior = pooled.posterior()
    cell = auto.posterior_cell(stated_inputs(scenario))
    network = network_of(scenario)
    plain = without_own_steps(scenario)
    timings = [*_timings(probe, plain, cell)]
    factors = {one.sets: one.factor for one in timings if one.sets}
    means, root = posterior.coefficients_of(cell)
    settings = [one for one in posterior.settings(cell) if one.input not in {*plain, *network}]
    stated = sorted({*factors} - {one.input for one in settings})
    factors = {name: factor for name, factor in factors.items() if name not in stated}
    settings = at_rates(settings, factors)
    places = [one.place for one in settings]
    fitted = of_coefficients(settings, means[places], root[places])
    values = fitted["values"]
    choices = {"compute_model": "roofline", "attention_kernel": posterior.kernel(cell)}
    layer = [
        Timing("one layer, forward and backward", row["seconds"], _layer(plain | values | choices))
        for row in probe.rows
        if row["what"] == "layer"
    ]
    errors = np.array([abs(math.log(one.factor)) for one in timings])
    seconds = np.array([one.measured for one in timings])
    return ProbeFit(
        **fitted,
        errors=errors,
        rows=len(probe.rows),
        dropped={},
        notes=tuple(_notes(probe, timings, cell, stated)),
        of="step_time",
        measured=seconds,
        fitted=seconds,
        lines=(),
        idle=(),
        error_factor=float(posterior.values(cell)["error_factor"]),
        cell=cell,
        choices=choices,
        carried={name: value for name, value in network.items() if name not in values},
        published=tuple(name for name in values if name not in factors),
        jobs=(),
        by_values=seconds,
        noise=posterior.noise(cell.software),
        digest=posterior.digest,
        kernels=factors,
        timings=(*timings, *layer),
    )


def _problem(scenario: Mapping[str, Any]) -> tuple[Any, dict[str, float]]:
    sweep = Evaluation(scenario, {}, list(_DATA_TERMS))
    cube = sweep.evaluate(settings=Settings("numpy", infeasible="include"))
    computed = {name: float(cube[name]) for name in _DATA_TERMS if name in cube}
    if not all(math.isfinite(value) for value in computed.values()):
        raise InputError("the scenario's layer cannot be computed; `fleetcube run` shows why")
    return sweep._plan("numpy").problem, computed


def _layer(scenario: Mapping[str, Any]) -> float:
    """Time of a layer without recomputation."""
    return _problem({**scenario, "recompute": False})[1]["layer_time"]


def _timings(probe: Probe, scenario: Mapping[str, Any], cell: pooled.Cell) -> Sequence[Timing]:
    """Measured and expected time of each kind of kernel on the GPU."""
    posterior, timings = pooled.posterior(), []
    problem, _ = _problem(scenario)
    bits = {"16 bits": "bf16", "8 bits": "fp8"}.get(cell.precision)
    ceilings = posterior.ceilings(cell)
    memory = float(problem.constants["hbm_bandwidth"]) * _COPIED

    def rows(kind: str) -> list[Row]:
        return [row for row in probe.rows if row["what"] == kind]

    def product(row: Row) -> float:
        is_16 = row.get("precision") != "fp8"
        product_cell = replace(cell, precision="16 bits") if is_16 else cell
        best = posterior.ceilings(product_cell)["gemm"]
        largest = best / gemm_rate_share(_LARGE, _LARGE, _LARGE, 1.0, _HALF)
        size, peak = (1.0, cell.peak) if not is_16 else (2.0, cell.peak_16)
        m, n, k = (float(row[side]) for side in _SIDES)
        return float(gemm_time(m, n, k, size, 2.0, peak, largest, _HALF, memory))

    products = rows("product")
    if products:
        measured = sum(row["count"] * row["seconds"] for row in products)
        expected = sum(row["count"] * product(row) for row in products)
        formats = {str(row.get("precision")) for row in products}
        shown = f"{len(products)} matrix products ({', '.join(sorted(formats))[:20]})"
        sets = "gemm_efficiency" if formats == {bits} else ""
        timings.append(Timing(shown, measured, expected, sets, _OVER / ceilings["gemm"]))
    older = cell.software in posterior.content["flash_attention_2"]
    fused = ("flash",) if older else ("flash", "cudnn")
    attention = [row for row in rows("attention") if row.get("kernel") in fused]
    if attention and posterior.kernel(cell) == "flash":
        best = min(attention, key=lambda row: row["seconds"])
        operations = 4.0 * best["heads"] * best["length"] ** 2 * best["width"]
        expected = operations / (ceilings["attention"] * cell.peak_16)
        title = f"attention ({best['kernel']})"
        most = _OVER / ceilings["attention"]
        timings.append(Timing(title, best["seconds"], expected, "attention_efficiency", most))
    for row in rows("memory")[:1]:
        expected, most = row["bytes"] / memory, _OVER / _COPIED
        timing = Timing("sums in memory", row["seconds"], expected, "memory_efficiency", most)
        timings.append(timing)
    node = scenario.get("node")
    for link, sets in (("all_reduce", "intra_node_bandwidth"), ("all_to_all", "")):
        links = rows(link)
        if not links or node is None:
            continue
        largest_row = max(links, key=lambda row: row["bytes"])
        ranks, message = int(largest_row["ranks"]), float(largest_row["bytes"])
        if not 2 <= ranks <= int(problem.constants.get("gpus_per_node", ranks)):
            raise InputError(f"the probe has {ranks} ranks, not 2 to a node's; run it on one node")
        if link == "all_reduce":
            group = unmeasured(str(node), str(scenario.get("fabric", "infiniband-ndr")), ranks)
            expected = float(group.times(message))
        else:
            expected = message * (ranks - 1) / ranks / cell.node_link
        timings.append(Timing(f"{link} on {ranks} GPUs", largest_row["seconds"], expected, sets))
    if not any(one.sets for one in timings):
        raise InputError("the probe has no kernel that a coefficient follows; run the script again")
    return timings


def _notes(
    probe: Probe, timings: Sequence[Timing], cell: pooled.Cell, stated: Sequence[str]
) -> list[str]:
    """Remarks on a GPU slower than the others of its node, and on kernels not timed."""
    notes = [f"timed by {probe.framework} on {probe.gpu}"]
    if cell.gpu and not cell.gpu.startswith("tpu") and cell.gpu not in probe.gpu.lower():
        notes.append(f"the scenario's GPU is {cell.gpu}: are the times of the same GPU?")
    if stated:
        notes.append(f"stated by the spec, and left so: {', '.join(stated)}")
    late = [row["slowest"] / row["seconds"] for row in probe.rows if row["what"] == "product"]
    if late and float(np.median(late)) > _UNLIKE:
        notes.append(
            f"one GPU takes {np.median(late):.3g} times as long as the others: a step waits for it "
            "(straggler_slowdown)"
        )
    timed = {one.sets for one in timings}
    missing = [
        n
        for n in ("gemm_efficiency", "attention_efficiency", "intra_node_bandwidth")
        if n not in timed
    ]
    if missing:
        notes.append(
            f"not timed in {cell.precision} or nothing to compare with, and as published: "
            f"{', '.join(missing)}"
        )
    return notes
