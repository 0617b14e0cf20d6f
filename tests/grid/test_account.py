"""The account of a GPU's memory."""

from pathlib import Path
from typing import Any

import pytest

from fleetcube import Sweep
from fleetcube.analysis import account

from ..door.command import fleetcube

MOE: dict[str, Any] = {
    "model": "deepseek-v3", "node": "gb300-nvl72", "fabric": "infiniband-ndr", "n_gpus": 256,
    "global_batch_size": 4096, "micro_batch_size": 2, "pipeline_parallel": 2, "virtual_stages": 8,
    "expert_parallel": 32, "precision": "mxfp8",
}  # fmt: skip
HYBRID = {"model": "nemotron-h-56b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 64}
JOBS: list[dict[str, Any]] = [
    MOE,
    {**MOE, "recompute": "mla_up_proj+moe_act"},
    {**MOE, "recompute": "full"},
    {**MOE, "offload_core_attn": 1, "offload_moe_act": 1},
    {**HYBRID, "tensor_parallel": 8},
    {**HYBRID, "recompute": False, "attention_kernel": "standard", "zero_stage": 3},
]


@pytest.mark.parametrize("job", JOBS)
def test_it_adds_up(job: dict[str, Any]) -> None:
    point = Sweep(job, {}, list(account.NEEDED)).evaluate()
    found = account.rows(point)
    whole = float(point.memory_per_gpu)
    assert sum(size for _, size, _ in found) == pytest.approx(whole, rel=1e-9)
    assert [size for _, size, _ in found] == sorted((s for _, s, _ in found), reverse=True)
    names = [name for name, _, _ in found]
    assert len(names) == len({*names})
    assert ("computed again" in names) == ("recompute" in job and job["recompute"] is not False)
    assert ("on the host" in names) == ("offload_core_attn" in job)
    reserved = next(size for name, size, _ in found if name.startswith("context"))
    assert reserved == pytest.approx(3.5e9, rel=1e-9)


def test_the_command_prints_it_at_one_point(tmp_path: Path) -> None:
    path = str(tmp_path / "a.toml")
    lines = [f"{name} = {value!r}".replace("'", '"') for name, value in MOE.items()]
    Path(path).write_text(
        "[scenario]\n" + "\n".join(lines) + "\n[axes]\nn_gpus = [256, 512]\n", "utf-8"
    )
    done = fleetcube("explain", "memory_per_gpu", path, "n_gpus=256")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("GB  made smaller by")
    assert "queries, keys, values" in done.stdout
    assert any(" GB, " in line for line in done.stdout.splitlines()[-2:])
    several = fleetcube("explain", "memory_per_gpu", path)
    assert several.returncode == 2  # after the remark that its value along the axis is not used
    assert several.stderr.splitlines()[-1].endswith("cut the axes: n_gpus=value")
