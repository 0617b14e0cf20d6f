"""Questions drawn over plan, solve, best, scaling-limit and compare. Each answer is checked rank by
rank by rules of frameworks, written out here; more: `python -m tests.grid.test_drawn_answers 500`.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube import Settings, Sweep
from fleetcube.analysis.compare import compare
from fleetcube.grid.errors import InputError

from ..draws import generator, scaled

# config.json of each: layers, heads, heads of keys and values, experts
MODELS = {
    "llama-3-8b": (32, 32, 8, 1),
    "llama-3-70b": (80, 64, 8, 1),
    "llama-2-13b": (40, 40, 40, 1),
    "mixtral-8x7b": (32, 32, 8, 8),
}
# GPUs of a node, and what nvidia-smi says of the memory of one, in MiB
NODES = {"dgx-h100": (8, 81559), "dgx-a100": (8, 81920), "dgx-b200": (8, 183359)}
NODES["gb200-nvl72-tray"] = (4, 189471)
# ZeRO stages: of Megatron-LM (--use-distributed-optimizer), of FSDP (SHARD_GRAD_OP, FULL_SHARD)
ZERO: dict[str, set[float]] = {"megatron-lm": {0, 1}, "fsdp": {2, 3}, "": {0, 1, 2, 3}}
SHORT = {"TP": "tensor_parallel", "PP": "pipeline_parallel", "VPP": "virtual_stages"}
SHORT |= {"CP": "context_parallel", "EP": "expert_parallel", "MBS": "micro_batch_size"}
SHORT |= {"ZeRO-": "zero_stage"}
CLUSTERS = (
    8,
    40,
    64,
    96,
    128,
    250,
    256,
    480,
    512,
    1000,
    1024,
    2048,
)  # stated: some have a node in part
HOW = Settings("numpy")


def inputs(words: str) -> dict[str, Any]:
    """A layout in words as inputs."""
    found: dict[str, Any] = dict.fromkeys(SHORT.values(), 1)
    found |= {"sequence_parallel": False, "recompute": False}
    for word in words.split():
        name, equals, value = word.partition("=")
        if equals:
            found[name] = value
        elif word == "SP":
            found["sequence_parallel"] = True
        elif match := re.fullmatch(r"(TP|PP|VPP|CP|EP|MBS|ZeRO-)([0-9]+)", word):
            found[SHORT[match[1]]] = int(match[2])
        else:
            raise AssertionError(f"unknown word {word!r} in {words!r}")
    return found


def broken(job: dict[str, Any], memory: float) -> Iterator[str]:
    """Rules that a job with its whole layout breaks."""
    layers, heads, kv_heads, experts = MODELS[job["model"]]
    size, most = NODES[job["node"]]
    n, batch, length = (job[k] for k in ("n_gpus", "global_batch_size", "sequence_length"))
    t, p, v, c, e, b, zero = (job[name] for name in SHORT.values())
    rules = {
        "whole nodes": n % size == 0 or n in CLUSTERS,
        "whole replicas": n % (t * p * c) == 0,
        "batch": batch % (n // (t * p * c) * b or 1) == 0,
        "heads": heads % t == 0,
        "heads of keys": job.get("software") != "megatron-lm" or kv_heads % t == 0,
        "tensor parallelism in a domain": t <= max(size, 72 if "nvl72" in job["node"] else 0),
        "pieces": p * v <= layers + 2,  # embedding and head may stand alone (Llama 3, 3.3.2)
        "chunks": v == 1 or p > 1,
        "micro-batches": v == 1 or batch // (n // (t * p * c) * b) >= p,
        "sequence": length % (2 * c if c > 1 else 1) == 0,
        "sequence over ranks": not job["sequence_parallel"] or (length / c) % t == 0,
        "experts": experts % e == 0 and n // p % e == 0,
        "ZeRO": zero in ZERO[job.get("software", "")],
        "memory": memory <= most * 2**20,
    }
    return (rule for rule, kept in rules.items() if not kept)


def memory(job: dict[str, Any]) -> float:
    return float(fleetcube.evaluate("memory_per_gpu", settings=HOW, **job))


def drawn(draw: np.random.Generator) -> dict[str, Any]:
    """A job without layout and cluster size."""
    job = {"model": str(draw.choice([*MODELS])), "node": str(draw.choice([*NODES]))}
    sizes = {"global_batch_size": [96, 480, 512, 1000, 1024, 2048], "sequence_length": [4096, 8192]}
    more: dict[str, Any] = {name: int(draw.choice(row)) for name, row in sizes.items()}
    more |= {"training_tokens": "1T", "fabric": "infiniband-ndr", "calibration": "none"}
    more |= {"checkpoint_write_bandwidth": "100 GB/s", "gpu_hour_price": 2.5, "gpu_tdp": "1 kW"}
    software = str(draw.choice([*ZERO]))
    return {**job, **more, **({"software": software} if software else {})}


def laid_out(draw: np.random.Generator, job: dict[str, Any]) -> dict[str, Any]:
    """With a layout, which may not run."""
    degrees = {"tensor_parallel": [1, 2, 4, 8], "pipeline_parallel": [1, 2, 4, 5, 8]}
    degrees |= {"virtual_stages": [1, 1, 2], "context_parallel": [1, 1, 2]}
    degrees |= {"micro_batch_size": [1, 2], "expert_parallel": [1, 1, 8]}
    found: dict[str, Any] = {name: int(draw.choice(row)) for name, row in degrees.items()}
    found["zero_stage"] = int(draw.choice(sorted(ZERO[job.get("software", "")])))
    return {**job, **found, "sequence_parallel": bool(draw.integers(2)), "recompute": "full"}


def size(draw: np.random.Generator) -> int:
    return int(draw.choice(CLUSTERS))


def said_to_run(line: str) -> list[int]:
    return [int(n.replace(",", "")) for n in re.findall(r"([0-9,]+) GPUs can", line)]


def plan(draw: np.random.Generator) -> Iterator[tuple[dict[str, Any], float]]:
    few = {"tensor_parallel": int(draw.choice([1, 4, 8])), "virtual_stages": 1}
    job = {**drawn(draw), "n_gpus": size(draw), **few, "micro_batch_size": 1}
    bound = float(np.exp(draw.uniform(0, 8))) * 86400
    where = f"job_time <= {bound!r} s" if draw.integers(2) else ()
    found = Sweep(job).best("job_time", 3, search="layout", where=where)
    times = found["job_time"].values[: int(found["job_time"].notnull().sum())]
    assert (np.diff(times) > 0).all(), "ranks"
    assert not where or (times <= bound).all(), "condition"
    for k in range(len(times)):
        one = found.isel(rank=k)
        yield {**job, **inputs(str(one["whole_layout"].item()))}, float(one["memory_per_gpu"])
    if not times.size and not where:
        line = found.attrs["fleetcube_nearest"]
        assert line, "nearest"
        for n in said_to_run(line):
            near = Sweep({**job, "n_gpus": n}).best("job_time", search="layout")
            yield (
                {**job, "n_gpus": n, **inputs(str(near["whole_layout"].item()))},
                float(near["memory_per_gpu"]),
            )


def solve(draw: np.random.Generator) -> Iterator[tuple[dict[str, Any], float]]:
    job = laid_out(draw, drawn(draw))
    of, most = [("job_time", 3e7), ("facility_power", 3e6), ("gpu_hours", 3e9)][draw.integers(3)]
    level = float(most * np.exp(draw.uniform(-2, 3)))
    found = Sweep(job).solve("n_gpus", f"{of} <= {level!r} {'W' if 'power' in of else 's'}")
    if found["n_gpus"].notnull():
        answer = {**job, "n_gpus": round(float(found["n_gpus"]))}
        assert fleetcube.evaluate(of, settings=HOW, **answer) <= level, "target"
        yield answer, 0.0 if found["near_memory_limit"] == 1 else memory(answer)  # which is said


def best(draw: np.random.Generator) -> Iterator[tuple[dict[str, Any], float]]:
    job = laid_out(draw, drawn(draw))
    axes = {"n_gpus": sorted({size(draw) for _ in range(4)}), "pipeline_parallel": [1, 2, 4]}
    axes |= {"tensor_parallel": [2, 4, 8], "micro_batch_size": [1, 2]}
    found = Sweep(job, axes, ["job_time"], settings=HOW).best("job_time", 5)
    for k in range(int(found["job_time"].notnull().sum())):
        answer = {**job, **{name: int(found[name].values[k]) for name in axes}}
        yield answer, memory(answer)
    if found["job_time"].isnull().all():
        assert found.attrs["fleetcube_nearest"], "nearest"


def limit(draw: np.random.Generator) -> Iterator[tuple[dict[str, Any], float]]:
    job, power = laid_out(draw, drawn(draw)), float(draw.choice([1e6, 1e7, 1e8]))
    try:
        found = Sweep(job).scaling_limit(where=f"facility_power <= {power!r} W")
    except InputError as error:
        if re.search("can be run|keeps to|takes more than", str(error)):
            return
        raise
    runs = found["n_gpus"].values[(found["infeasible_reason"] == 0).values]
    near = found["n_gpus"].values[(found["near_memory_limit"] == 1).values]
    for n in {*runs.tolist(), float(found["fastest_gpus"])}:
        answer = {**job, "n_gpus": round(n)}
        yield answer, 0.0 if n in near else memory(answer)  # which is said
    at = {**job, "n_gpus": float(found["fastest_gpus"])}
    spent = fleetcube.evaluate("facility_power", settings=HOW, **at)
    assert spent <= power, "condition"


def compared(draw: np.random.Generator) -> Iterator[tuple[dict[str, Any], float]]:
    a = {**drawn(draw), "n_gpus": size(draw), "micro_batch_size": 1, "virtual_stages": 1}
    b = {**a, "node": str(draw.choice([*NODES]))}
    found = compare(*(Sweep(side, outputs=["job_time"]) for side in (a, b)))
    for side, words, reason in zip((a, b), found.layouts, found.infeasible, strict=True):
        assert bool(words) != bool(reason), "a side has a layout or a reason"
        if words:
            answer = {**side, **inputs(words)}
            yield answer, memory(answer)


VERBS = {"plan": plan, "solve": solve, "best": best, "scaling-limit": limit, "compare": compared}


def ask(questions: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Answers checked by verb, and those that break a rule."""
    checked, wrong = Counter(dict.fromkeys(VERBS, 0)), []
    for k in range(questions):
        verb = [*VERBS][k % len(VERBS)]
        try:
            for job, held in VERBS[verb](generator(1000 * seed + k)):
                checked[verb] += 1
                wrong += [f"{verb} {k}: {rule}: {job}" for rule in broken(job, held)]
        except (AssertionError, InputError) as error:
            wrong.append(f"{verb} {k}: {error}")
    return checked, wrong


def test_answers_keep_to_the_rules_of_frameworks() -> None:
    checked, wrong = ask(scaled(10), 57)
    assert not wrong
    assert all(checked.values()), checked


@pytest.mark.slow
def test_more_answers_keep_to_the_rules_of_frameworks() -> None:
    checked, wrong = ask(scaled(50), 58)
    assert not wrong
    assert min(checked.values()) > 5, checked


def test_the_rules_refuse_what_cannot_run() -> None:
    job = {"model": "llama-3-8b", "node": "dgx-h100", "n_gpus": 64, "sequence_length": 8192}
    job |= {"global_batch_size": 64, **inputs("TP8 PP2 VPP2 MBS1 ZeRO-1 SP")}
    assert not [*broken(job, 8e10)]
    assert [*broken({**job, "n_gpus": 60}, 8e10)] == ["whole nodes", "whole replicas", "batch"]
    assert [*broken({**job, "tensor_parallel": 3}, math.inf)][-1] == "memory"


if __name__ == "__main__":
    counts, failures = ask(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(dict(counts), f"{len(failures)} rejected", *failures, sep="\n")
    sys.exit(bool(failures))
