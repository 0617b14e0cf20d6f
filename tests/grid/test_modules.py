"""Modules to recompute, written as one choice."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube import InputError, Sweep

from ..door.command import fleetcube as command

JOB: dict[str, Any] = {
    "model": "deepseek-v3", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 2048,
    "tensor_parallel": 2, "pipeline_parallel": 8, "expert_parallel": 32,
    "global_batch_size": 15360,
}  # fmt: skip
BOTH = {"recompute": "modules", "recompute_moe_act": 1, "recompute_layernorm": 1}


def memory(**more: Any) -> float:
    return float(fleetcube.evaluate("memory_per_gpu", **JOB, **more))


def test_words_are_the_inputs_that_they_name() -> None:
    assert memory(recompute="moe_act+layernorm") == memory(**BOTH)
    some = {name: value for name, value in BOTH.items() if name != "recompute"}
    assert memory(**some) == memory(**BOTH)  # naming a module is asking for it
    assert memory(recompute="core_attn") < memory(recompute=False) * (1 + 1e-12)


def test_words_are_points_of_an_axis() -> None:
    points = [False, "full", "moe_act", "moe_act+layernorm"]
    swept = Sweep(JOB, {"recompute": points}, ["memory_per_gpu"]).evaluate().memory_per_gpu
    assert swept.recompute.values.tolist() == ["false", *points[1:]]
    assert swept.values.tolist() == [memory(recompute=point) for point in points]
    stated = Sweep({**JOB, "recompute": "mlp"}, {"recompute": points}, ["memory_per_gpu"])
    assert stated.evaluate().memory_per_gpu.values.tolist() == swept.values.tolist()


def test_words_in_another_order_are_no_other_point() -> None:
    points = ["mlp+moe_act", "full", "moe_act+mlp"]
    with pytest.raises(InputError, match=r"'recompute' holds mlp\+moe_act twice; remove"):
        Sweep(JOB, {"recompute": points}, ["memory_per_gpu"])


def test_words_hold_in_one_phase() -> None:
    phases = [{"name": "a", "training_tokens": 1e12, "recompute": "mla_up_proj"}]
    phases.append({"name": "b", "training_tokens": 1e12})
    roofline = {"compute_model": "roofline", "calibration": "none"}
    whole = fleetcube.evaluate("job_time", **JOB, **roofline, phase=phases)
    each = [
        float(
            fleetcube.evaluate("job_time", **JOB, **roofline, training_tokens=1e12, recompute=one)
        )
        for one in ("mla_up_proj", "selective")
    ]
    assert each[0] > each[1] * (1 + 1e-6)
    assert float(whole) == pytest.approx(sum(each), rel=1e-9)


@pytest.mark.parametrize("wrong", ["moe_act+layernor", "mlp+", "full+mlp", "a+b"])
def test_a_wrong_word_is_named(wrong: str) -> None:
    with pytest.raises(
        InputError, match=r"recompute = .* is not one of its modules; join some of .* by "
    ) as told:
        memory(recompute=wrong)
    assert "\n" not in str(told.value)


def test_contradictions_are_refused() -> None:
    with pytest.raises(InputError, match="recompute_moe_act"):
        memory(recompute="moe_act", recompute_moe_act=0.5)
    with pytest.raises(InputError, match="recompute"):
        Sweep({**JOB, "recompute": "mlp"}, {"recompute_mlp": [0, 1]}, ["memory_per_gpu"])


def test_what_is_best_can_be_given_back() -> None:
    tight = {name: JOB[name] for name in ("model", "node", "fabric", "n_gpus", "global_batch_size")}
    tight |= {"expert_parallel": 64, "hbm_capacity": "72 GB"}
    sweep = Sweep(tight, {}, ["job_time"])
    best = sweep.best("job_time", 1, search="layout")
    open_ = [str(name) for name in best.attrs["fleetcube_open"].split()]
    layout = {name: best[name].item() for name in open_}
    again = fleetcube.evaluate("job_time", **sweep.spec["scenario"], **layout)
    assert float(again) == pytest.approx(best["job_time"].item(), rel=1e-12)
    chosen = str(np.asarray(best["recompute"]).item())
    assert "mla_up_proj" in chosen  # layers recomputed whole are slower by 12 %


def test_words_are_read_in_tables_and_plans(tmp_path: Path) -> None:
    words = [None, "moe_act+layernorm", "full"]
    table = {"recompute": words, "n_gpus": [2048] * 3}
    free = {name: value for name, value in JOB.items() if name != "n_gpus"}
    found = fleetcube.evaluate_table(table, ["memory_per_gpu"], scenario=free)
    alone = [memory(**({} if word is None else {"recompute": word})) for word in words]
    assert list(found["memory_per_gpu"]) == alone
    path = tmp_path / "a.toml"
    lines = [f"{name} = {JOB[name]!r}".replace("'", '"') for name in JOB if "parallel" not in name]
    path.write_text("\n".join(['outputs = ["job_time"]', "[scenario]", *lines]), "utf-8")
    done = command("plan", str(path), "hbm_capacity=72 GB", "expert_parallel=64", "-k", "1")
    assert done.returncode == 0, done.stderr
    assert re.search(r"recompute=\S*mla_up_proj", done.stdout)
    assert "what would improve job_time in this layout:" in done.stdout
