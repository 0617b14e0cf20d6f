"""Memory of a GPU against published tables, simulated schedules and offload volumes."""

from typing import Any

import pytest

import fleetcube

from ..evaluated import value

GIB = 2**30
STAGES = (0, 1, 2, 3)
# Korthikanti et al. 2022, table 3: heads, width, layers, stages, chunks of each, micro-batch size.
MODELS = {
    "22B": (64, 6144, 48, 1, 1, 4),
    "175B": (96, 12288, 96, 8, 3, 1),
    "530B": (128, 20480, 105, 35, 3, 1),
    "1T": (160, 25600, 128, 64, 1, 1),
}


def model(name: str, **change: Any) -> dict[str, Any]:
    heads, h, layers, stages, chunks, sequences = MODELS[name]
    return {
        "attention_heads": heads,
        "hidden_size": h,
        "layers": layers,
        "pipeline_parallel": stages,
        "virtual_stages": chunks,
        "micro_batch_size": sequences,
        "sequence_length": 2048,
        "vocab_size": 51200,
        "tensor_parallel": 8,
        "num_microbatches": 10 * stages,
        "attention_kernel": "standard",
        **change,
    }


# States

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


def test_states_are_shared_by_every_kind_of_rank() -> None:
    # 2 tensor x 4 pipeline x 2 context x 8 data ranks: gradients are the same over context ranks
    layout = {"tensor_parallel": 2, "pipeline_parallel": 4, "context_parallel": 2, "n_gpus": 128}
    layout |= {"stage_split": False}
    for stage, bytes_each in zip(STAGES, (16, 4 + 12 / 16, 2 + 14 / 16, 16 / 16), strict=True):
        got = states(parameters=1e9, zero_stage=stage, **layout)
        assert got == pytest.approx(bytes_each * 1e9 / 8, rel=1e-12)


def test_states_of_experts_counted_gpu_by_gpu() -> None:
    # 16 data ranks, experts over groups of 4: an expert lives on 4 ranks, the rest on all 16.
    shape = {
        "layers": 10, "hidden_size": 1024, "ffn_hidden_size": 4096, "gated_ffn": True, "experts": 8,
        "experts_per_token": 2, "dense_layers": 2, "vocab_size": 32000,
    }  # fmt: skip
    expert = 3 * 1024 * 4096
    rest = 10 * (4 * 1024 * 1024 + 2 * 1024) + 2 * expert + 8 * 1024 * 8 + (2 * 32000 + 1) * 1024
    here = [expert for _ in range(8) for _ in range(8 // 4)]  # expert layers, experts of a rank
    local = rest + sum(here)
    shard = rest / 16 + sum(part / 4 for part in here)
    for stage, expected in (
        (0, 16 * local),
        (1, 4 * local + 12 * shard),
        (2, 2 * local + 14 * shard),
        (3, 16 * shard),
    ):
        got = states(n_gpus=16, expert_parallel=4, zero_stage=stage, **shape)
        assert got == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_states_of_megatron_models_are_those_of_figure_1(name: str) -> None:
    # Korthikanti et al. 2022, figure 1, as calculon's validation lists it: 18 bytes a parameter
    # of the layers' matrices.
    _, h, layers, stages, _, _ = MODELS[name]
    published = {"22B": 45.5625, "175B": 45.5625, "530B": 31.640625, "1T": 32.958984375}
    matrices = 12 * layers * h * h
    shape = model(name, n_gpus=8 * stages, gradient_storage="fp32", zero_stage=0)
    shape |= {"stage_split": False}  # the mean of all stages
    assert states(**shape, parameters=matrices) / GIB == pytest.approx(published[name], rel=1e-9)
    assert states(**shape) / GIB == pytest.approx(published[name], rel=0.02)


# Activations


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("row", "factor"),
    [
        # Korthikanti et al. 2022, table 2, in s b h; x is the scores' 5 a s / h
        ((False, False, 1), lambda t, x: 34 + x),
        ((False, False, 8), lambda t, x: 10 + 24 / t + x / t),
        ((False, True, 8), lambda t, x: 34 / t + x / t),
        (("selective", False, 8), lambda t, x: 10 + 24 / t),
        (("selective", True, 8), lambda t, x: 34 / t),
        (("full", False, 8), lambda t, x: 2),
        (("full", True, 8), lambda t, x: 2 / t),  # Megatron-LM shares the input as well
    ],
)
def test_activations_of_a_layer_are_those_of_table_2(
    name: str, row: tuple[str, bool, int], factor: Any
) -> None:
    recompute, sequence_parallel, tensor = row
    heads, h, _, _, _, sequences = MODELS[name]
    expected = 2048 * sequences * h * factor(tensor, 5 * heads * 2048 / h)
    for context in (1, 2):
        got = value(
            "activation_memory_per_layer",
            **model(
                name,
                recompute=recompute,
                sequence_parallel=sequence_parallel,
                tensor_parallel=tensor,
                context_parallel=context,
            ),
        )
        assert got * context == pytest.approx(expected, rel=1e-12)


def test_flash_attention_keeps_no_scores() -> None:
    kept = {
        recompute: value(
            "activation_memory_per_layer",
            **model("22B", attention_kernel="flash", recompute=recompute),
        )
        for recompute in (False, "selective")
    }
    assert kept[False] == kept["selective"]


@pytest.mark.parametrize("name", MODELS)
def test_activations_of_megatron_models_are_those_of_figure_1(name: str) -> None:
    # GiB of the first stage, from calculon's validation, with tensor parallelism alone and with
    # both techniques. With one stage we also count logits.
    published = {
        "22B": (59.25, 9.5625),
        "175B": (66.84375, 12.3515625),
        "530B": (114.0234375, 23.076171875),
        "1T": (131.25, 26.5625),
    }
    baseline = model(name, recompute=False, pipeline_stage=1)
    both = model(name, recompute="selective", sequence_parallel=True, pipeline_stage=1)
    for scenario, expected in zip((baseline, both), published[name], strict=True):
        got = fleetcube.evaluate(["activation_memory", "logits_memory"], **scenario)
        layers = float(got.activation_memory - got.logits_memory)
        assert layers / GIB == pytest.approx(expected, rel=1e-9)
        assert float(got.logits_memory) == (4 * 4 * 2048 * 51200 / 8 if name == "22B" else 0)


@pytest.mark.parametrize(
    ("name", "sequence", "selective", "both", "full"),
    [
        ("22B", 66.84, 49.42, 16.18, 7.64),
        ("175B", 62.04, 56.53, 18.49, 8.71),
        ("530B", 58.31, 62.04, 20.27, 9.42),
        ("1T", 58.31, 62.04, 20.27, 9.42),
    ],
)
def test_techniques_save_the_shares_of_figure_7(
    name: str, sequence: float, selective: float, both: float, full: float
) -> None:
    # per cent of the memory of tensor parallelism alone (as read off by calculon)
    def layer(**change: Any) -> float:
        return value("activation_memory_per_layer", **model(name, **change))

    alone = layer(recompute=False)
    for expected, part in (
        (sequence, layer(recompute=False, sequence_parallel=True)),
        (selective, layer(recompute="selective")),
        (both, layer(recompute="selective", sequence_parallel=True)),
        (full, layer(recompute="full")),
    ):
        assert 100 * part / alone == pytest.approx(expected, abs=0.15)


@pytest.mark.parametrize(("sequence_parallel", "ranks"), [(False, 1), (True, 2)])
@pytest.mark.parametrize(("gated", "wide"), [(False, 2), (True, 3)])
def test_activations_of_a_mixture_counted_tensor_by_tensor(
    gated: bool, wide: int, sequence_parallel: bool, ranks: int
) -> None:
    # grouped-query attention and experts in every second layer, two bytes an element
    h, f, visits, shared, tensor = 1024, 512, 3, 1, 2
    queries, keys = 16 * 64, 4 * 64
    total = 0.0
    for layer in range(8):
        whole = [h, h, h, h]  # inputs of both norms, of attention, of feed-forward (and its router)
        split = [queries, keys, keys, queries]  # queries, keys, values; input of the projection
        if layer < 4:
            split += [4096] * wide  # gate and up, their product; without a gate in and out
        else:
            for _ in range(visits):
                split += [h] * tensor  # the copy that is sent to the expert, to both its GPUs
                split += [f] * wide
            for _ in range(shared):
                split += [f] * wide
        masks = 0 if gated else 2 * h  # of dropout, which gated models lack
        total += (2 * sum(whole) + masks) / ranks + 2 * sum(split) / tensor
    given = {"layers": 8, "dense_layers": 4, "hidden_size": h, "attention_heads": 16, "kv_heads": 4}
    given |= {"ffn_hidden_size": 4096, "expert_ffn_hidden_size": f, "gated_ffn": gated}
    given |= {"experts": 16, "experts_per_token": visits, "shared_experts": shared}
    given |= {"tensor_parallel": tensor, "sequence_parallel": sequence_parallel}
    given |= {"sequence_length": 100}
    got = value("activation_memory_per_layer", **given)
    assert got == pytest.approx(100 * total / 8, rel=1e-12)


def test_scores_without_dropout_are_those_of_softmax_alone() -> None:
    # 2 a s of a Llama, 5 a s of a GPT (Korthikanti et al. 2022, section 4.1), two bytes an element
    given = {"attention_heads": 64, "sequence_length": 2048, "attention_kernel": "standard"}
    for gated, each in ((False, 5), (True, 2)):
        got = value("score_activations_per_token", gated_ffn=gated, **given)
        assert got == each * 64 * 2048


# Schedules


# The layer at work

DENSE = {
    "layers": 4, "hidden_size": 1024, "attention_heads": 8, "ffn_hidden_size": 4096,
    "tensor_parallel": 2, "sequence_length": 100,
}  # fmt: skip
MIXTURE = {
    **DENSE, "gated_ffn": True, "expert_ffn_hidden_size": 512, "experts": 16, "expert_parallel": 4,
    "n_gpus": 8, "experts_per_token": 3, "shared_experts": 1,
}  # fmt: skip
GPT_LAYER = 4 * 1024 * 1024 + 2 * 1024 * 4096
EXPERT = 3 * 1024 * 512


@pytest.mark.parametrize(
    ("shape", "layer", "shapes"),
    [
        (DENSE, GPT_LAYER, GPT_LAYER),
        # four experts here and the shared one; matrices of one expert have the shapes of all
        (MIXTURE, 4 * 1024 * 1024 + 5 * EXPERT, 4 * 1024 * 1024 + 2 * EXPERT),
    ],
    ids=["dense", "experts"],
)
def test_weights_and_gradients_of_the_layer_at_work(
    shape: dict[str, Any], layer: int, shapes: int
) -> None:
    # two bytes a number, two tensor ranks: stages 0 and 1 hold whole states and need buffers only
    # where gradients are summed in FP32; 2 has whole gradients of one layer, 3 weights as well
    for storage, held in (("fp32", shapes), ("bf16", 0), ("bf16_and_fp32", 0), (False, 0)):
        for stage, expected in zip(STAGES, (held, held, layer, 2 * layer), strict=True):
            got = value("layer_state_memory", zero_stage=stage, gradient_storage=storage, **shape)
            assert got == expected * 2 / 2


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_activations_of_the_layer_at_work(sequence_parallel: bool) -> None:
    # a GPT of 100 tokens, two bytes a number, two tensor ranks, by hand
    ranks = 2 if sequence_parallel else 1
    gradients = 100 * 2 * (1024 / ranks + (4096 + 4096) / 2)  # block input; in and out of GeLU
    scores = 100 * 5 * 8 * 100 / 2
    layer = 100 * 1024 * (10 / ranks + 24 / 2) + scores  # Korthikanti et al. 2022, eq. 2 and 4
    for sequence, recompute, expected in (
        (1, False, gradients),
        (1, "selective", max(gradients, scores)),
        (40, "selective", 1600 * scores),  # of 4000 tokens: larger than 40 times the gradients
        (1, "full", layer + gradients),
    ):
        shape = {**DENSE, "sequence_length": 100 * sequence, "recompute": recompute}
        got = value(
            "layer_activation_memory",
            attention_kernel="standard",
            sequence_parallel=sequence_parallel,
            **shape,
        )
        assert got == pytest.approx(expected, rel=1e-12)


# Stages


# The whole


def test_memory_of_a_gpu_is_the_sum_of_its_parts() -> None:
    parts = {
        "weights_memory": 1.0, "gradients_memory": 2.0, "optimizer_memory": 4.0,
        "activation_memory": 8.0, "reserved_memory": 16.0, "working_memory": 32.0,
    }  # fmt: skip
    assert value("memory_per_gpu", **parts) == 63


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


# Offload

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


def test_offloading_to_drives_moves_the_states_twice() -> None:
    # Rajbhandari et al. 2021 (ZeRO-Infinity): 16 bytes of FP32 state are read and written
    job = {**SHARD, "gradient_storage": "bf16_and_fp32"}
    host = value("offload_time", offload="cpu", **job)
    time = value("offload_time", offload="nvme", **job)
    assert time == pytest.approx(host + 1e9 * 2 * 16 / 4e9, rel=1e-12)
    assert value("optimizer_memory", offload="nvme", **SHARD) == 0
    fast = {**job, "nvme_bandwidth": 1e40}
    assert value("offload_time", offload="nvme", **fast) == host


def test_each_replica_offloads_its_shard() -> None:
    times = [value("offload_time", offload="cpu", zero_stage=stage, **SHARD) for stage in STAGES]
    assert times[0] == pytest.approx(8 * times[1])
    assert times[1] == times[2] == times[3]
    assert value("offload_time", **SHARD) == 0
