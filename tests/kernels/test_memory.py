"""Memory of a GPU: a published run that fits, and steps that wait for a host.

`tests/laws/memory` lists the tensors of layers, states and offload one by one."""

from typing import Any

import pytest

import fleetcube

from ..evaluated import value

STAGES = (0, 1, 2, 3)
STATES = ["weights_memory", "gradients_memory", "optimizer_memory"]


def states(**scenario: Any) -> float:
    got = fleetcube.evaluate(STATES, **scenario)
    return sum(float(got[name]) for name in STATES)


@pytest.mark.parametrize(
    ("storage", "each"),
    [
        # bytes of a parameter with stages 0 to 3, over d ranks
        (False, lambda d: (14, 2 + 12 / d, 2 + 12 / d, 14 / d)),
        # Rajbhandari et al. 2020, section 5: 16, 4 + 12 / d, 2 + 14 / d, 16 / d
        ("bf16", lambda d: (16, 4 + 12 / d, 2 + 14 / d, 16 / d)),
        # Megatron-LM, docs of the distributed optimizer: 18 and 6 + 12 / d, 20 and 4 + 16 / d
        ("fp32", lambda d: (18, 6 + 12 / d, 2 + 16 / d, 18 / d)),
        ("bf16_and_fp32", lambda d: (20, 4 + 16 / d, 2 + 18 / d, 20 / d)),
    ],
)
@pytest.mark.parametrize("ranks", [1, 8, 64])
def test_bytes_of_a_parameter(storage: str, each: Any, ranks: int) -> None:
    for stage, expected in zip(STAGES, each(ranks), strict=True):
        got = states(parameters=1e9, n_gpus=ranks, zero_stage=stage, gradient_storage=storage)
        assert got == pytest.approx(expected * 1e9, rel=1e-12)
    whole = value("state_bytes_per_parameter", gradient_storage=storage)
    assert whole == each(1)[0]


SHARD = {"parameters": 8e9, "n_gpus": 8, "offload_bandwidth": 25e9, "nvme_bandwidth": 4e9}
SHARD |= {"host_memory_bandwidth": 400e9, "host_memory_efficiency": 0.5}


def test_offloading_to_the_host_moves_six_bytes_of_a_parameter_and_updates_there() -> None:
    # 4 bytes of gradient out, 2 of weight back; 8 shards read and write 30 of the host
    time = value("offload_time", offload="cpu", **SHARD)
    assert time == pytest.approx(1e9 * (4 + 2) / 25e9 + 8e9 * 30 / 200e9)
    both = value("offload_time", offload="cpu", optimizer_offload_overlap=1, **SHARD)
    assert both == pytest.approx(8e9 * 30 / 200e9)
    slow = {**SHARD, "offload_bandwidth": 1e9, "optimizer_offload_overlap": 1}
    assert value("offload_time", offload="cpu", **slow) == pytest.approx(4.0)
    assert value("optimizer_memory", offload="cpu", **SHARD) == 0
    assert value("optimizer_memory", **SHARD) == 12e9


def test_bloom_fits_its_gpus() -> None:
    # Scao et al. 2022 trained BLOOM on 384 A100 of 80 GB: 4 tensor ranks, 12 stages, 8 replicas,
    # ZeRO-1, full recompute, micro-batches of 2; a quarter of the GPUs does not hold it unsharded.
    run = {
        "model": "bloom-176b", "gpu": "a100-sxm-80gb", "tensor_parallel": 4,
        "pipeline_parallel": 12, "micro_batch_size": 2, "global_batch_size": 2048,
        "recompute": "full", "attention_kernel": "standard",
    }  # fmt: skip
    assert 20e9 < value("memory_per_gpu", n_gpus=384, zero_stage=1, **run) < 80e9
    few = {**run, "tensor_parallel": 2, "pipeline_parallel": 12}
    assert value("memory_per_gpu", n_gpus=96, zero_stage=0, **few) > 80e9


def test_a_step_waits_for_the_host_in_both_models_of_compute() -> None:
    job = {"model": "llama-3-8b", "node": "dgx-h100", "n_gpus": 64, "global_batch_size": 512}
    for model in ("mfu", "roofline"):
        step, wait, update = (
            value(name, **job, zero_stage=1, compute_model=model, offload="cpu")
            for name in ("step_time", "offload_time", "optimizer_time")
        )
        assert wait > 8 * 8.03e9 / 64 * 28 / 614.4e9  # at the whole rate of the host's memory
        parts = [value(n, **job, zero_stage=1, compute_model=model) for n in ("step_time",)]
        assert step - parts[0] == pytest.approx(
            wait + update - value("optimizer_time", **job, zero_stage=1, compute_model=model)
        )


def test_a_host_of_unknown_memory_is_asked_for() -> None:
    with pytest.raises(fleetcube.InputError, match="host_memory_bandwidth is missing"):
        value("offload_time", offload="cpu", parameters=8e9, n_gpus=8)


def test_layers_split_evenly_fill_the_first_stage() -> None:
    # 12 of 48 layers, four micro-batches in flight
    layout = {"layers": 48, "pipeline_parallel": 4, "tensor_parallel": 2, "stage_split": False}
    each = {"microbatches_in_flight": 4, "resident_activations_per_layer": 1e9}
    assert value("activation_memory", **layout, **each, logits_memory=5e8) == 12 * 4e9 + 5e8
