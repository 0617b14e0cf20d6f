"""Sweeps that differ in numbers take over what these do not reach, and no bit differs for it."""

from typing import Any

import pytest

import fleetcube
from fleetcube.grid.plan import plan

JOB: dict[str, Any] = {"model": "llama-3-70b", "gpu": "h100-sxm", "fabric": "infiniband-ndr"}
JOB |= {"tensor_parallel": 8, "global_batch_size": 1024, "training_tokens": 1e12}
AXES: dict[str, Any] = {"n_gpus": [256, 1024], "gpu_mttf": ["10_000 h", "50_000 h", "90_000 h"]}
OUTPUTS = ["job_time", "goodput", "infeasible_reason"]
PHASES = [{"training_tokens": 1e11}, {"training_tokens": 9e11, "global_batch_size": 2048}]
SWEEPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "grid": (JOB, AXES),
    "point": ({**JOB, "n_gpus": 512}, {}),
    "cases": (JOB, {**AXES, "sequence_parallel": [False, True]}),
    "labels": (JOB, {"n_gpus": [256], "fabric": ["infiniband-hdr", "infiniband-xdr"]}),
    "phases": ({**JOB, "n_gpus": 512, "phase": PHASES}, {}),
}
CHANGES: list[dict[str, Any]] = [
    *({}, {"training_tokens": 2e12}, {"training_tokens": 2e12}, {"tensor_parallel": 4}, {}),
    *({"checkpoint_restore_time": "60 s"}, {"checkpoint_restore_time": 0.0}),
    *({"checkpoint_restore_time": -0.0}, {"global_batch_size": 512, "training_tokens": 3e12}),
]


def _evaluated(scenario: dict[str, Any], axes: dict[str, Any]) -> dict[str, bytes]:
    result = fleetcube.Sweep(scenario, axes, OUTPUTS).evaluate()
    return {str(name): row.values.tobytes() for name, row in result.variables.items()} | {
        "attributes": repr(result.attrs).encode()
    }


@pytest.mark.parametrize("kind", SWEEPS)
def test_no_value_depends_on_the_sweep_before(kind: str) -> None:
    scenario, axes = SWEEPS[kind]
    moved = [{**axes, "gpu_mttf": ["20_000 h", "50_000 h", "90_000 h"]}, axes]
    fixed = {"training_tokens"} if "phase" in scenario else set[str]()  # the sum of its phases
    changes = [{n: v for n, v in change.items() if n not in fixed} for change in CHANGES]
    ways = [({**scenario, **change}, axes) for change in changes]
    ways += [(scenario, other) for other in moved if "gpu_mttf" in axes]
    alone = []
    for way in ways:
        plan._latest._values.clear()
        alone.append(_evaluated(*way))
    order = range(len(ways))
    for k in (*order, *order[::2], *order[::-1]):
        assert _evaluated(*ways[k]) == alone[k], ways[k]


def test_only_what_a_number_reaches_is_computed_again() -> None:
    first = fleetcube.Sweep({**JOB, "checkpoint_restore_time": 60.0}, AXES, OUTPUTS)._plan()
    (case,) = first.cases
    for name in case.formulas:
        first.table(case, name)
    second = fleetcube.Sweep({**JOB, "checkpoint_restore_time": 90.0}, AXES, OUTPUTS)._plan()
    (case,) = second.cases
    assert second.table(case, "step_time") is first._tables["step_time", ()]
    assert second.table(case, "job_time").tobytes() != first._tables["job_time", ()].tobytes()


def test_large_tables_are_not_kept() -> None:
    axes = {"n_gpus": [256, 1024], "gpu_mttf": {"linspace": [1e7, 2e8], "num": 1 << 16}}
    sweep = fleetcube.Sweep(JOB, axes, OUTPUTS)
    sweep.evaluate()
    assert plan._latest.get(sweep._plan().structure) is None
