"""Memory of a GPU: a published run that fits, and steps that wait for a host.

`tests/laws/memory` lists the tensors of layers, states and offload one by one."""

import pytest

import fleetcube

from ..evaluated import value


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
