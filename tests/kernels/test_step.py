"""One step and the run, replayed in plain Python; published shares and volumes."""

import math
from typing import Any

import pytest

import fleetcube

from ..evaluated import value
from ..table import each

# A dense model on nodes of 8 GPUs; every case changes something.
BASE: dict[str, Any] = {
    "n_gpus": 512, "gpus_per_node": 8, "peak_flops": 989e12, "intra_node_bandwidth": 450e9,
    "intra_node_latency": 1e-6, "inter_node_bandwidth": 50e9, "inter_node_latency": 5e-6,
    "oversubscription": 2.0, "parameters": 70e9, "layers": 80, "hidden_size": 8192,
    "sequence_length": 4096, "global_batch_size": 1024, "micro_batch_size": 2, "tensor_parallel": 4,
    "pipeline_parallel": 4, "stage_split": False,  # whole layers: tests/laws/pipeline/stages.py
    "context_parallel": 1, "virtual_stages": 1, "training_tokens": 1e12, "flops_efficiency": 0.5,
    "straggler_slowdown": 0.02, "bytes_per_element": 2, "gradient_bytes_per_element": 4,
    "tensor_parallel_overlap": 0.1, "data_parallel_overlap": 0.4,
    "kv_heads": 8, "vocab_size": 32000, "non_matmul_parameters": 0, "attention_kernel": "flash",
    "expert_parallel_overlap": 0.0, "serial_time_per_step": 0.0, "optimizer_time": 0.0,
    "step_time_jitter": 0.0, "slowest_rank_deviation": 0.0, "mixture_of_experts": False,
    "experts": 8, "experts_per_token": 2, "expert_ffn_hidden_size": 2048, "shared_experts": 0,
    "dense_layers": 0, "expert_parallel": 1, "offload": False, "offload_bandwidth": 25e9,
    "host_memory_bandwidth": 400e9, "host_memory_efficiency": 0.5,
    "nvme_bandwidth": 3e9, "bucket_bytes": math.inf, "gradient_compression": 1.0,
    "fsdp_prefetch": False, "pipeline_schedule": "1f1b", "all_reduce": "ring",
    "recompute": "selective", "sequence_parallel": False, "zero_stage": 1,
    "link_sharing": False,  # tests/laws/network/link_sharing.py
    "goodput": 0.9, "checkpoint_overhead": 0.04, "rework_overhead": 0.04, "recovery_overhead": 0.02,
}  # fmt: skip
# Free hops: the graph counts those of one ring, but experts and dense weights have two.
EXPERTS: dict[str, Any] = {
    "mixture_of_experts": True, "expert_parallel": 8, "intra_node_latency": 0.0,
    "inter_node_latency": 0.0,
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "base": {},
    "one GPU": {"n_gpus": 1, "tensor_parallel": 1, "pipeline_parallel": 1},
    "one node": {"n_gpus": 8, "tensor_parallel": 2, "pipeline_parallel": 2},
    "tensor groups over nodes": {"tensor_parallel": 16, "tensor_parallel_overlap": 0.0},
    "no recompute": {"recompute": False},
    "full recompute": {"recompute": "full"},
    "attention recomputed": {
        "recompute": "modules",
        "recompute_core_attn": 1,
        "context_parallel": 2,
    },
    "scores recomputed": {"attention_kernel": "standard"},
    "scores kept": {"attention_kernel": "standard", "recompute": False},
    "sequence parallel": {"sequence_parallel": True, "virtual_stages": 5},
    "context parallel": {"context_parallel": 2},
    "context groups over nodes": {"context_parallel": 4, "recompute": "full"},
    "context awaited forward": {"context_parallel": 4, "inter_node_bandwidth": 140e9},
    "context awaited with gradients": {"context_parallel": 4, "inter_node_bandwidth": 100e9},
    "serial work": {"serial_time_per_step": 0.3, "optimizer_time": 0.05},
    "jitter": {"step_time_jitter": 0.02, "slowest_rank_deviation": 3.1},
    "buckets": {"bucket_bytes": 25e6},
    "buckets of shards": {"bucket_bytes": 25e6, "zero_stage": 2, "gradient_compression": 8.0},
    "compressed gradients": {"gradient_compression": 16.0},
    "offloaded to the host": {"offload": "cpu"},
    "offloaded to drives": {"offload": "nvme", "zero_stage": 0, "optimizer_time": 0.05},
    "zero bubble": {"pipeline_schedule": "zb_h1", "recompute": False},
    "folded pipeline": {"pipeline_schedule": "zb_v", "sequence_parallel": True, "recompute": False},
    "experts": {**EXPERTS, "expert_parallel_overlap": 0.001},
    "experts of every rank": {**EXPERTS, "expert_parallel": 1, "recompute": False},
    "experts over nodes": {
        **EXPERTS,
        "n_gpus": 1024,
        "tensor_parallel": 2,
        "expert_parallel": 16,
        "experts": 16,
        "dense_layers": 4,
        "recompute": "full",
        "sequence_parallel": True,
        "zero_stage": 3,
    },
    "gradients sharded": {"zero_stage": 2},
    "weights sharded": {"zero_stage": 3, "pipeline_parallel": 1},
    "weights gathered ahead": {"zero_stage": 3, "fsdp_prefetch": True},
    "nothing hidden": {"data_parallel_overlap": 0.0, "tensor_parallel_overlap": 0.0},
    "all hidden": {"data_parallel_overlap": 1.0, "inter_node_bandwidth": 5e12},
}


def ring(message: float, ranks: int, latency: float, bandwidth: float, trips: int) -> float:
    """Ring collectives hop by hop: 2 trips for an all-reduce, 1 for either half of it."""
    total = 0.0
    for _ in range(trips):
        for _ in range(ranks - 1):
            total += latency + message / ranks / bandwidth
    return total


def awaited_sends(c: dict[str, Any], microbatches: int) -> float:
    """Simulated exposed sends: blocking with one chunk per stage, a bound with zero bubbles."""
    schedule, stages = c["pipeline_schedule"], c["pipeline_parallel"]
    if schedule == "zb_h1":
        return 2.0 * (microbatches + stages - 2)
    if schedule == "zb_v":
        return 6.0 * (stages - 1)
    layout = {"pipeline_parallel": stages, "num_microbatches": microbatches}
    layout["virtual_stages"] = c["virtual_stages"]
    alone, longer = (
        fleetcube.simulate_schedule(schedule, send_time=send, **layout).step_time
        for send in (0.0, 2.0**-20)
    )
    return (longer - alone) * 2.0**20


def replay(c: dict[str, Any]) -> dict[str, float]:
    """The parts of one step, summed over micro-batches, layers and passes."""
    tensor, stages, context = c["tensor_parallel"], c["pipeline_parallel"], c["context_parallel"]
    replicas = c["n_gpus"] // (tensor * stages * context)
    microbatches = c["global_batch_size"] // (replicas * c["micro_batch_size"])
    intra = (c["intra_node_latency"], c["intra_node_bandwidth"])

    def rail(span: int) -> float:
        """Inter-node bandwidth of a group that spans this many GPUs; 32 are under a leaf switch."""
        return c["inter_node_bandwidth"] / (c["oversubscription"] if span > 32 else 1)

    def link(ranks: int, stride: int) -> tuple[float, float]:
        """Latency and bandwidth of a group with neighbours `stride` GPUs apart."""
        together = sum(rank * stride < c["gpus_per_node"] for rank in range(ranks))
        if together == ranks:
            return intra
        return c["inter_node_latency"], min(intra[1], max(together, 1) * rail(ranks * stride))

    # Operations: 2 per parameter and token forward, 4 backward; attention's two products, 2 B s^2 h
    # each per layer (Narayanan 2021), half under a causal flash kernel, whose backward pass
    # recomputes the first (Dao 2023: five products). Again: attention or whole layers. Only visited
    # routed experts count.
    tokens = c["global_batch_size"] * c["sequence_length"]
    experts, visited, group = c["experts"], c["experts_per_token"], c["expert_parallel"]
    expert_layers = c["layers"] - c["dense_layers"] if c["mixture_of_experts"] else 0
    expert_size = 2 * c["hidden_size"] * c["expert_ffn_hidden_size"]
    routed = expert_layers * experts * expert_size
    active = c["parameters"] - expert_layers * (experts - visited) * expert_size
    flash = c["attention_kernel"] == "flash"
    product = 2 * c["sequence_length"] * c["hidden_size"] * c["layers"] * tokens
    product /= 2 if flash else 1
    layers = 2 * (active - c["vocab_size"] * c["hidden_size"]) * tokens + 2 * product
    forward, backward = 2 * active * tokens + 2 * product, 4 * active * tokens + 4 * product
    again = {
        False: 0.0,
        "selective": 0.0 if flash else 2 * product,
        "modules": 2 * product,
        "full": layers,
    }[c["recompute"]] + (product if flash else 0.0)
    counted = 6 * active * tokens + (6 if flash else 3) * product  # causal, whatever is done
    ideal = counted / c["n_gpus"] / c["peak_flops"]
    rate = c["n_gpus"] * c["peak_flops"] * c["flops_efficiency"]
    compute = (forward + backward + again) / rate
    slowest = c["straggler_slowdown"] + c["step_time_jitter"] * c["slowest_rank_deviation"]
    straggler = slowest * compute

    tokens_here = c["micro_batch_size"] * c["sequence_length"] // context
    activation = tokens_here * c["hidden_size"] * c["bytes_per_element"]
    passes = ["forward", "backward"] + ["forward"] * (c["recompute"] == "full")
    one_all_reduce = ring(activation, tensor, *link(tensor, 1), trips=2)
    tensor_time = 0.0
    for _ in range(microbatches):
        for layer in range(c["layers"] // stages):
            for _ in passes:  # attention ends in one; feed-forward, too, or
                tensor_time += one_all_reduce
                if c["sequence_parallel"] and layer < expert_layers // stages:
                    # an expert's GPUs gather copies of tokens, and reduce them
                    copies = activation * visited / tensor
                    tensor_time += 2 * ring(copies * tensor, tensor, *link(tensor, 1), trips=1)
                else:
                    tensor_time += one_all_reduce

    # Rows of the embedding are summed; so are the gradients of the logits' inputs, beside the
    # product for the weights' gradient, a third of the logits'; few bytes of the loss, thrice
    losses = microbatches / stages
    ends = losses * (one_all_reduce + 3 * 2 * math.log2(tensor) * link(tensor, 1)[0])
    late, third = losses * one_all_reduce, 2 * c["vocab_size"] * c["hidden_size"] * tokens / rate
    if c["sequence_parallel"]:  # halves: gathered forward, and again beside the inputs' gradient
        half = losses * ring(activation, tensor, *link(tensor, 1), trips=1)
        ends, late, all_late = ends + half, 2 * max(0.0, half - third), 2 * half
    else:
        late, all_late = max(0.0, late - third), late
    tensor_time += ends + all_late

    exposed_regather = hidden_regather = 0.0
    if c["sequence_parallel"]:  # both inputs are gathered again during the input's gradient
        gather = ring(activation, tensor, *link(tensor, 1), trips=1)
        qkv = (c["hidden_size"] + 2 * c["kv_heads"] * 128) * c["hidden_size"]
        blocks = [(c["layers"], qkv)]
        dense = c["dense_layers"] if expert_layers else c["layers"]
        blocks += [(dense, 4 * c["hidden_size"] * c["hidden_size"])]
        for count, weights in blocks:
            speed = c["peak_flops"] * c["flops_efficiency"]
            product = 2 * tokens_here * weights / tensor / speed
            times = microbatches * count / stages
            tensor_time += times * gather
            exposed_regather += times * max(0.0, gather - product)
            hidden_regather += times * min(gather, product)

    pipeline_time = waits = 0.0
    if stages > 1:
        whole_cluster_in_a_node = c["n_gpus"] <= c["gpus_per_node"]
        latency, bandwidth = (
            intra if whole_cluster_in_a_node else (c["inter_node_latency"], rail(c["n_gpus"]))
        )
        message = activation / (tensor if c["sequence_parallel"] else 1)
        chunks = 2 if c["pipeline_schedule"] == "zb_v" else c["virtual_stages"]
        sends = microbatches * chunks * 2  # activations and gradients of a middle stage
        sends -= microbatches * (stages == 2)  # of two stages, each end sends one way
        for _ in range(sends):
            pipeline_time += latency + message / bandwidth
        waits = (latency + message / bandwidth) * awaited_sends(c, microbatches)

    expert_time = 0.0
    if expert_layers:
        message = activation * visited / (tensor if c["sequence_parallel"] else 1)
        pairs = [rank * tensor * context < c["gpus_per_node"] for rank in range(1, group)]
        near = sum(message / group / intra[1] for inside in pairs if inside)
        far = sum(
            message / group / rail(group * tensor * context) for inside in pairs if not inside
        )
        for _ in range(microbatches * expert_layers // stages):
            for _ in passes:  # to the experts and back
                expert_time += 2 * max(near, far)

    context_time = context_waits = 0.0
    if context > 1:  # keys and values of grouped heads go round; their gradients too
        hop = link(context, tensor)
        together = sum(rank * tensor < c["gpus_per_node"] for rank in range(context))
        hop = hop if together == context else (c["inter_node_latency"], rail(context * tensor))
        keys_and_values = 2 * tokens_here * c["kv_heads"] * 128 // tensor * c["bytes_per_element"]
        repeated = c["recompute"] in ("modules", "full")
        rounds = ["forward", "keys again", "gradients"] + ["repeated"] * repeated
        for _ in range(microbatches * (c["layers"] // stages)):
            for _ in rounds:
                for _ in range(context - 1):
                    context_time += hop[0] + keys_and_values / hop[1]
            # block by block: what passes behind each, keys and values, then their gradients
            send, block = hop[0] + keys_and_values / hop[1], 2 * product / rate / context
            block /= microbatches * (c["layers"] // stages)
            for step in range(context):
                more, before = step < context - 1, step > 0
                context_waits += (1 + repeated) * max(0.0, more * send - block)
                back = (2.5 if flash else 2.0) * block
                context_waits += max(0.0, (more + before) * send - back)

    copies = replicas * context
    gradient_bytes = c["gradient_bytes_per_element"] / c["gradient_compression"]
    rings = [((c["parameters"] - routed) / (tensor * stages), copies, tensor)]
    if expert_layers:
        rings += [(routed / group / (tensor * stages), copies // group, tensor * group)]

    dense = rings[0][0] * gradient_bytes
    buckets = max(1, math.ceil(dense / c["bucket_bytes"]))

    def data_ring(bytes_each: float, pieces: int) -> float:
        """Half an all-reduce: dense weights, and routed experts in their smaller groups."""
        return sum(
            ring(size * bytes_each / pieces, n, *link(n, stride), trips=1)
            for size, n, stride in rings
            for _ in range(pieces)
        )

    units = c["layers"] // stages
    if c["zero_stage"] == 3:
        buckets = units * max(1, math.ceil(dense / units / c["bucket_bytes"]))
    reduce_scatter = data_ring(gradient_bytes, buckets)
    all_gather = data_ring(c["bytes_per_element"], buckets)
    data_time = {
        0: 2 * data_ring(gradient_bytes, buckets),
        1: reduce_scatter + all_gather,
        2: microbatches * reduce_scatter + all_gather,
        3: microbatches * (all_gather + all_gather + reduce_scatter),
    }[c["zero_stage"]]
    # each kind hides behind compute and earlier waits of the step
    first = tensor_time - exposed_regather - hidden_regather - ends - all_late
    in_layer = compute - 6 * c["vocab_size"] * c["hidden_size"] * tokens / rate  # not the logits
    window_of_tensors = in_layer + context_waits - hidden_regather
    cut = c["tensor_parallel_overlap"]
    exposed_tensor = (1 - cut) * first + cut * max(0.0, first - window_of_tensors)
    exposed_tensor += exposed_regather + ends + late
    in_layers = exposed_tensor
    in_layers += context_waits
    in_layers += max(0.0, expert_time - c["expert_parallel_overlap"] * (in_layer + in_layers))
    forward_pass = forward / rate * (1 + in_layers / compute)  # waits are spread over all passes
    behind = compute + in_layers - forward_pass  # backward and what is computed again
    window = behind if c["zero_stage"] >= 2 else behind / microbatches
    if c["zero_stage"] == 3 and c["fsdp_prefetch"]:
        window = compute + in_layers

    def uncovered(traffic: float, behind: float) -> float:
        return max(0.0, traffic - c["data_parallel_overlap"] * behind)

    if c["zero_stage"] == 0:
        exposed_data = uncovered(data_time, window)
    elif c["zero_stage"] < 3:
        exposed_data = uncovered(data_time - all_gather, window)
        exposed_data += uncovered(all_gather, forward_pass / microbatches)
    else:  # unit by unit: which pass overlaps which traffic
        gather, scatter, passes_of_units = all_gather / units, reduce_scatter / units, units
        ahead = forward_pass / microbatches / units if c["fsdp_prefetch"] else 0.0
        back = behind / microbatches / units
        exposed_data = gather + scatter  # of the first unit forward, of the last backward
        for unit in range(passes_of_units):
            exposed_data += uncovered(gather, ahead)
            last, first = unit == passes_of_units - 1, unit == 0
            if passes_of_units > 1:
                exposed_data += uncovered((not last) * gather + (not first) * scatter, back)
        exposed_data *= microbatches

    owned = c["parameters"] / (tensor * stages) / (copies if c["zero_stage"] else 1)
    drives = owned * (12 + 12)  # read and written
    seated = min(c["n_gpus"], c["gpus_per_node"])
    update = seated * (drives + owned * (4 + c["bytes_per_element"]))
    update = update / (c["host_memory_bandwidth"] * c["host_memory_efficiency"])
    host = owned * (4 + c["bytes_per_element"]) / c["offload_bandwidth"] + update
    offload_time = {
        False: 0.0,
        "cpu": host,
        "nvme": host + drives / c["nvme_bandwidth"],
    }[c["offload"]]

    # 1F1B's stages wait for p - 1 micro-batches; splitting off weight gradients leaves each input's
    # gradient and recomputation, a folded pipeline half of that (Qi et al. 2023)
    left = (backward / 2 + again) / (forward + backward + again)
    left = {"zb_h1": left, "zb_v": left / 2}.get(c["pipeline_schedule"], 1 / c["virtual_stages"])
    bubble = (compute + straggler + in_layers) / microbatches * (stages - 1) * left
    exposed = in_layers + waits + exposed_data + offload_time
    alone = c["serial_time_per_step"] + c["optimizer_time"]
    step = compute + straggler + bubble + exposed + alone
    traffic = tensor_time + context_time + expert_time + pipeline_time + data_time + offload_time
    steps = c["training_tokens"] / tokens
    return {
        "data_parallel": replicas,
        "num_microbatches": microbatches,
        "ideal_compute_time": ideal,
        "compute_time": compute,
        "straggler_time": straggler,
        "tensor_parallel_time": tensor_time,
        "pipeline_parallel_time": pipeline_time,
        "exposed_pipeline_parallel_time": waits,
        "data_parallel_time": data_time,
        "gradient_window": window,
        "context_parallel_time": context_time,
        "expert_parallel_time": expert_time,
        "offload_time": offload_time,
        "communication_time": traffic,
        "exposed_communication_time": exposed,
        "bubble_time": bubble,
        "step_time": step,
        "tokens_per_second": tokens / step,
        "mfu": ideal / step,
        "hfu": (forward + backward + again) / c["n_gpus"] / c["peak_flops"] / step,
        "model_flops_per_gpu": counted / c["n_gpus"] / step,
        "scaling_efficiency": compute / step,
        "communication_fraction": exposed / step,
        "training_steps": steps,
        "job_time": steps * step / c["goodput"],
        "useful_compute_share": ideal / step * c["goodput"],
        "compute_inefficiency_overhead": (compute + alone - ideal) / step * c["goodput"],
        "communication_overhead": exposed / step * c["goodput"],
        "bubble_overhead": bubble / step * c["goodput"],
        "straggler_overhead": straggler / step * c["goodput"],
        "reliability_overhead": 0.1,
    }


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Any, dict[str, float]]:
    inputs = {**BASE, **CASES[request.param]}
    expected = replay(inputs)
    return fleetcube.evaluate(list(expected), **inputs), expected


@each("name", replay(BASE))
def test_a_step_is_the_sum_of_its_pieces(case: tuple[Any, dict[str, float]], name: str) -> None:
    got, expected = case
    assert float(got[name]) == pytest.approx(expected[name], rel=1e-10)


def test_all_shares_of_the_wall_time_add_up_to_one(case: tuple[Any, dict[str, float]]) -> None:
    got, _ = case
    parts = ["compute_inefficiency", "communication", "bubble", "straggler", "reliability"]
    shares = [float(got[f"{part}_overhead"]) for part in parts]
    assert math.fsum([*shares, float(got.useful_compute_share)]) == pytest.approx(1, rel=1e-12)


# Which loss is largest


def test_the_dominant_overhead_is_named_as_the_largest() -> None:
    losses = ["compute_inefficiency", "communication", "bubble", "straggler"]
    losses += ["checkpoint", "rework", "recovery"]
    for largest in losses:
        shares = {f"{name}_overhead": 0.2 if name == largest else 0.1 for name in losses}
        flag = fleetcube.evaluate("dominant_overhead", **shares)
        assert flag.attrs["flag_meanings"].split()[int(flag)] == largest


def test_an_undefined_loss_leaves_the_question_open() -> None:
    # First-order goodput is undefined at an MTBF of 15 min and a recovery of 20 min: no shares.
    given = {"goodput_model": "first_order", "cluster_mtbf": "15 min", "recovery_time": "20 min"}
    given |= {"checkpoint_stall_time": 30, "compute_time": 2.0, "ideal_compute_time": 1.0}
    given |= {"exposed_communication_time": 0.0, "bubble_time": 0.0, "straggler_time": 0.0}
    given |= {"step_time": 2.0}
    flag = fleetcube.evaluate("dominant_overhead", **given)
    assert flag == -1


# Stragglers


def test_a_slow_gpu_slows_the_step() -> None:
    # One GPU 15 % slow makes every step 15 % longer, bubbles included.
    given = {"straggler_slowdown": [0.0, 0.15], "compute_time": 4.0, "bubble_ratio": 0.25}
    given |= {"exposed_communication_time": 0.0, "exposed_layer_communication_time": 0.0}
    times = fleetcube.evaluate("step_time", **given)
    assert list(times) == [5.0, pytest.approx(5.75)]


def test_stating_a_jitter_counts_it() -> None:
    scenario = {"n_gpus": 512, "compute_time": 1.0}
    none, implied, normal, off = (
        value("straggler_time", **scenario, **more)
        for more in (
            {},
            {"step_time_jitter": 0.05},
            {"step_time_jitter": 0.05, "jitter_model": "normal"},
            {"step_time_jitter": 0.05, "jitter_model": False},
        )
    )
    assert none == off == 0 < implied == normal


def test_without_jitter_a_straggler_does_not_depend_on_the_cluster() -> None:
    sizes = {"n_gpus": [8, 64], "compute_time": 1.0}
    assert fleetcube.evaluate("straggler_time", **sizes).dims == ()
    assert fleetcube.evaluate("straggler_time", step_time_jitter=0.1, **sizes).dims == ("n_gpus",)


# Reliability


def test_every_part_of_a_node_counts() -> None:
    # A series system: rates add. 8/8 + 4/8 + 2/8 + 8/16 + 1/4 = 2.5 failures per unit time.
    given = {"gpus_per_node": 8, "gpu_mttf": 8, "nics_per_node": 4, "nic_mttf": 8}
    given |= {"series_psus_per_node": 2, "psu_mttf": 8, "cables_per_node": 8, "cable_mttf": 16}
    given |= {"host_mttf": 4}
    mttf = fleetcube.evaluate("node_mttf", **given)
    assert mttf == 1 / 2.5
