"""Traffic of a step, simulated or counted independently."""

import itertools
import math
import random
from functools import cache
from typing import Any

import fleetcube
from fleetcube.kernels.laws import collectives, reduce_scatter

from ...evaluated import ENDS, value, values
from ..check import Pairs, check
from .collectives import nvlink_half


@check(
    "whole_layer_input_bytes distributed_layer_input_bytes "
    "full_activation_memory_per_layer expert_message",
    by="derivation",
    source="elements counted rank by rank; how stages send them (scatter_gather) changes nothing",
)
def what_tensor_ranks_hold_of_a_layer() -> Pairs:
    """1 to 8 tensor ranks, with and without sequence parallelism and distributed inputs"""
    tokens, hidden = 64, 32
    for ranks, sequence, distributed, scattered in itertools.product(
        (1, 2, 8), (False, True), (False, True), (False, True)
    ):
        elements = [(token, column) for token in range(tokens) for column in range(hidden)]
        residual = [token for token in range(tokens) if not sequence or token % ranks == 0]
        kept = elements[::ranks] if distributed else [e for e in elements if e[0] in residual]
        layout: dict[str, Any] = {
            "tensor_parallel": ranks, "sequence_parallel": sequence, "scatter_gather": scattered,
            "distribute_saved_activations": distributed, "recompute": "full",
            "sequence_length": tokens, "hidden_size": hidden, "bytes_per_element": 2,
            "layers": 1, "attention_heads": 8,
        }  # fmt: skip
        yield value("activation_memory_per_layer", **layout), 2 * len(kept)
        sent = sum(len([token] * 3) * hidden for token in residual)  # to 3 experts each
        yield value("expert_message", experts_per_token=3, **layout), 2 * sent


def _play_backward(
    microbatches: int,
    forward: float,
    backward: float,
    reduce: float,
    gather: float,
    zero_stage: int,
    sync: str,
    hides: tuple[bool, bool],
) -> float:
    """Time beyond compute of one step in a steady run of two in-order streams.

    A backward pass yields its gradients gradually; those of the last micro-batch (of every one
    under ZeRO-2) are sent meanwhile, and the sum needs both. A sharded update leaves weights to
    gather, which the first forward pass uses gradually.
    """
    compute, link = 0.0, 0.0
    for microbatch in range(microbatches):
        start = compute
        if microbatch == 0 and zero_stage > 0:
            link = start + gather
            compute = max(start + forward, link) if hides[1] else link + forward
        else:
            compute = start + forward
        every = zero_stage == 2 and sync == "microbatch"
        if every or microbatch == microbatches - 1:
            sent = compute + reduce if hides[0] else compute + backward + reduce
            compute = max(compute + backward, sent)
        else:
            compute += backward
    return compute - microbatches * (forward + backward)


@check(
    "replicated_exposed_data_parallel_time sharded_exposed_data_parallel_time "
    "last_backward_window every_backward_window first_forward_window weight_window_zero_stage_0",
    by="simulator",
    source="computing and sending played in order, micro-batch by micro-batch",
)
def traffic_behind_passes() -> Pairs:
    """ZeRO-0 to 2, 300 random cases of 1 to 9 micro-batches, traffic above and below its window"""
    rng = random.Random(1)
    for _ in range(300):
        stage, microbatches = rng.choice((0, 1, 2)), rng.randint(1, 9)
        sync, hides = rng.choice(("microbatch", "step")), (rng.random() < 0.7, rng.random() < 0.7)
        forward, again = rng.uniform(0.1, 2), rng.choice((0.0, rng.uniform(0, 2)))
        backward = 2 * forward + again
        reduce, gather = rng.uniform(0, 2) * backward, rng.uniform(0, 2) * forward
        reductions = microbatches if sync == "microbatch" else 1
        passes = {0: reduce, 1: reduce + gather, 2: reductions * reduce + gather}
        given = {"zero_stage": stage, "gradient_sync": sync}
        given |= {"data_parallel_overlap": float(hides[0])}
        given |= {"weight_gather_overlap": float(hides[1]), "data_parallel_time": passes[stage]}
        given |= {"weight_all_gather_time": gather, "num_microbatches": microbatches}
        given |= {"compute_time": microbatches * (forward + backward)}
        given |= {"exposed_layer_communication_time": 0.0}
        given |= {"recompute_flops_factor": (forward + backward) / (3 * forward)}
        ours = value("exposed_data_parallel_time", **given)
        theirs = _play_backward(microbatches, forward, backward, reduce, gather, stage, sync, hides)
        yield 1 + ours, 1 + theirs  # offset by 1: fully hidden traffic leaves only rounding


def _play_units(
    microbatches: int,
    units: int,
    times: tuple[float, float, float, float],
    prefetch: bool,
    every: bool,
    reshard: bool,
) -> float:
    """Wall time of a step of ZeRO-3: one stream computes, one sends, each in order of issue.

    Passes go through units 1 to U and back. A unit's weights are gathered when the pass before it
    starts (without forward prefetch: when it ends, up to the first pass backward); its gradients
    are scattered when its backward pass ends, before which no later gather is issued: at `every`
    micro-batch or the last. Without `reshard` weights stay until then.
    """
    forward, backward, gather, scatter = times
    order = [("f", unit) for unit in range(units)] + [
        ("b", unit) for unit in reversed(range(units))
    ]
    clock = link = 0.0
    for microbatch in range(microbatches):
        reduces = every or microbatch == microbatches - 1
        gathered = not reshard and not every and microbatch > 0
        ready = clock = link = max(clock, link)  # gradients arrive before weights are sent
        ready = link = link + (0 if gathered else gather)
        for at, (kind, _) in enumerate(order):
            start = max(clock, ready)
            clock = start + (forward if kind == "f" else backward)
            if at + 1 < (len(order) if reshard else 0 if gathered else units):
                issued = start if kind == "b" or prefetch else clock
                ready = link = max(link, issued) + gather
            if kind == "b" and reduces:
                link = max(link, clock) + scatter
    return max(clock, link)


@check(
    "regathered_exposed_unit_time kept_exposed_unit_time repeated_gathers_per_reduction "
    "fsdp_backward_window prefetched_fsdp_forward_window fsdp_forward_window_fsdp_prefetch_false "
    "sharded_gradient_window",
    by="simulator",
    source="two streams in order of issue, one unit gathered ahead: the critical path",
)
def units_of_zero_3() -> Pairs:
    """400 random cases of 1 to 9 units and 1 to 5 micro-batches, prefetched, kept, reduced once"""
    rng = random.Random(2)
    for case in range(400):
        every, reshard = case % 4 < 3, case % 3 > 0
        units, microbatches, prefetch = rng.randint(1, 9), rng.randint(1, 5), rng.random() < 0.5
        forward, again = rng.uniform(0.1, 2), rng.choice((0.0, rng.uniform(0, 2)))
        backward = 2 * forward + again
        gather, scatter = rng.uniform(0, 4), rng.uniform(0, 4)
        compute = microbatches * units * (forward + backward)
        given = {"zero_stage": 3, "gradient_sync": "microbatch" if every else "step"}
        given |= {"reshard_after_forward": reshard, "fsdp_prefetch": prefetch}
        given |= {"data_parallel_overlap": 1.0, "weight_all_gather_time": units * gather}
        given |= {"gradient_reduce_scatter_time": units * scatter, "fsdp_units": units}
        given |= {"num_microbatches": microbatches, "compute_time": compute}
        given |= {"exposed_layer_communication_time": 0.0}
        given |= {"recompute_flops_factor": (forward + backward) / (3 * forward)}
        ours = value("exposed_data_parallel_time", **given)
        times = forward, backward, gather, scatter
        played = _play_units(microbatches, units, times, prefetch, every, reshard)
        yield compute + ours, played


@cache
def _halve(blocks: int, message: float, latency: float, bandwidth: float) -> float:
    """Simulated reduce-scatter by halving: partners differ in one bit and swap each other's
    blocks."""
    held = {rank: set(range(blocks)) for rank in range(blocks)}
    clock = 0.0
    bit = blocks // 2
    while bit:
        sent = {rank: {b for b in held[rank] if (b ^ rank) & bit} for rank in held}
        clock += latency + max(map(len, sent.values())) * message / blocks / bandwidth
        held = {rank: held[rank] - sent[rank] for rank in held}
        bit //= 2
    assert all(held[rank] == {rank} for rank in held)
    return clock


@cache
def _hops(ranks: int) -> int:
    """Simulated ring reduce-scatter: each block visits all ranks and ends at its own."""
    hops, added = 0, [{(block + 1) % ranks} for block in range(ranks)]
    while any(len(ranks_met) < ranks for ranks_met in added):
        hops += 1
        for block, met in enumerate(added):
            met.add((block + len(met) + 1) % ranks)
    return hops


def _go_round(ranks: int, message: float, latency: float, bandwidth: float) -> float:
    """Time of a ring reduce-scatter whose ranks all send a block at every hop."""
    return _hops(ranks) * (latency + message / ranks / bandwidth)


@check(
    "reduce_scatter_time all_gather_time logarithmic_reduce_scatter_time "
    "hierarchical_reduce_scatter_time hierarchical_logarithmic_reduce_scatter_time "
    "auto_reduce_scatter_time",
    by="simulator",
    source="blocks passed round rings and halved between partners, message by message",
)
def halves_of_all_reduces() -> Pairs:
    """1 to 512 ranks with 1 to 8 on a node, 1 kB to 1 GB"""
    near, far = (1e-6, 450e9), (5e-6, 50e9)
    for nodes, ranks_per_node, message in itertools.product(
        (1, 2, 4, 64), (1, 2, 8), (1e3, 1e6, 1e9)
    ):
        ranks, share = nodes * ranks_per_node, message / ranks_per_node
        flat = near if nodes == 1 else (far[0], min(near[1], ranks_per_node * far[1]))
        ring = _go_round(ranks, message, *flat)
        inside = _go_round(ranks_per_node, message, *near), _halve(ranks_per_node, message, *near)
        levels = inside[0] + _go_round(nodes, share, *far)
        trees = _halve(nodes, share, *far)
        yield collectives.reduce_scatter_time(message, ranks, *flat), ring
        yield collectives.all_gather_time(message, ranks, *flat), ring
        yield reduce_scatter.logarithmic_reduce_scatter_time(share, nodes, *far), trees
        links = (ranks_per_node, *near, *far)
        yield reduce_scatter.hierarchical_reduce_scatter_time(message, nodes, *links), levels
        yield (
            reduce_scatter.hierarchical_logarithmic_reduce_scatter_time(message, nodes, *links),
            inside[1] + trees,
        )
        library = _library_half(nodes, ranks_per_node, message, near[0], *far[:1], flat[1])
        law = reduce_scatter.auto_reduce_scatter_time
        yield law(message, ranks, ranks_per_node, flat[1], near[0], far[0]), library


def _library_half(
    nodes: int, per_node: int, message: float, near: float, far: float, bandwidth: float
) -> float:
    """NCCL's faster algorithm: a ring through the nodes, or halving with one rank per node."""
    ranks = nodes * per_node
    seats = [rank // per_node for rank in range(ranks)]
    clock = 0.0
    for here, there in itertools.pairwise(seats):
        clock += (near if here == there else far) + message / ranks / bandwidth
    return min(clock, _halve(nodes, message, far, bandwidth)) if per_node == 1 else clock


@check(
    "ring_tensor_parallel_gather_time logarithmic_tensor_parallel_gather_time "
    "hierarchical_tensor_parallel_gather_time fitted_tensor_parallel_gather_time "
    "auto_tensor_parallel_gather_time nvls_tensor_parallel_switch_gather_time "
    "tensor_parallel_exchange_time_sequence_parallel_false sequence_tensor_parallel_exchange_time",
    by="simulator",
    source="blocks passed round rings, halved between partners and copied by switches",
)
def halves_of_activations() -> Pairs:
    """1 to 8 ranks on each of 1 to 16 nodes, 1 kB to 1 GB, with and without reducing switches"""
    near, far = (1e-6, 450e9), (5e-6, 50e9)
    for nodes, here, message, switches in itertools.product(
        (1, 2, 16), (1, 2, 8), (1e3, 1e6, 1e9), (False, True)
    ):
        ranks, share = nodes * here, message / here
        flat = near if nodes == 1 else (far[0], min(near[1], here * far[1]))
        ring, rails = _go_round(ranks, message, *flat), _go_round(nodes, share, *far)
        inside = _go_round(here, message, *near)
        trees = _halve(nodes, share, *far)
        library = _library_half(nodes, here, message, near[0], far[0], flat[1])
        if switches and nodes == 1:
            library = min(library, nvlink_half(here, message, *near))
        climb = 3e-9 * math.sqrt(message)
        moved = message * (ranks - 1) / ranks / flat[1]
        gathers = {
            "ring": ring, "tree": _halve(here, message, *near) + trees,
            "hierarchical": inside + rails, "in_network": inside + rails,
            "fitted": (flat[0] + climb) / 2 + moved if ranks > 1 else 0.0, "auto": library,
        }  # fmt: skip
        given = {"all_reduce": list(gathers), "sequence_parallel": [False, True]}
        given |= {"node_reduction": switches, "fabric_reduction": switches}
        given |= {"tensor_parallel": ranks, "gpus_per_node": here, "activation_message": message}
        given |= {"tensor_parallel_all_reduce_time": 3.0, "intra_node_latency": near[0]}
        given |= {"intra_node_bandwidth": near[1], "inter_node_latency": far[0]}
        given |= {"tensor_rail_bandwidth": far[1], "sqrt_coefficient": 3e-9}
        got = fleetcube.evaluate("tensor_parallel_exchange_time", **given)
        for name, gather in gathers.items():
            both = got.sel(all_reduce=name)
            yield float(both.sel(sequence_parallel=False)), 3.0
            yield float(both.sel(sequence_parallel=True)), 2 * gather


def _quantised(rows: int, columns: int, form: str) -> tuple[int, int]:
    """Bytes of a tensor quantised along its rows, and of its second copy along its columns."""
    n = rows * columns
    if form == "bf16":
        return 2 * n, 0
    if form == "fp8":  # one scale: transposed where it arrives
        return n, 0
    blocks = {"fp8_blockwise": (n, 4, 128), "mxfp8": (n, 1, 32), "mxfp4": (n // 2, 1, 32)}
    data, scale, block = blocks.get(form, (n // 2, 1, 16))
    return data + scale * rows * (columns // block), data + scale * columns * (rows // block)


def _layer_exchanged(ranks: int, tokens: int, width: int, form: str, again: bool) -> int:
    """Bytes that a rank sends for a layer: what Transformer Engine's modules gather and reduce."""
    along, across = _quantised(tokens // ranks, width, form)
    whole = 2 * tokens // ranks * width
    sent = 0
    for _ in range(ranks - 1):  # hops of a ring: one rank's share in each
        for module in ("queries, keys and values", "projection", "up", "down"):
            enters = module in ("queries, keys and values", "up")
            for _ in ["forward"] + ["again"] * again:
                sent += along if enters else whole  # input gathered, or output reduced
            if enters:  # input gathered for the gradient of weights; that of the input reduced
                sent += (across or along) + whole
            else:  # gradient of the output gathered for both products
                sent += along + across
    return sent


@check(
    "sequence_tensor_message sequence_regather_time tensor_node_time",
    by="simulator",
    source="every gather and reduction of a layer's modules, as in TransformerEngine, "
    "transformer_engine/pytorch/module/layernorm_linear.py, linear.py and base.py, by rank",
)
def formats_of_activations() -> Pairs:
    """1 to 8 tensor ranks, BF16, three kinds of FP8 and NVFP4, with and without recomputation"""
    for ranks, form, again in itertools.product(
        (1, 2, 8), ("bf16", "fp8", "fp8_blockwise", "mxfp8", "mxfp4", "nvfp4"), (False, True)
    ):
        point: dict[str, Any] = {"n_gpus": 8, "layers": 4, "hidden_size": 4096, "precision": form}
        point |= {"sequence_length": 4096, "tensor_parallel": ranks, "sequence_parallel": True}
        point |= {"global_batch_size": 8 // ranks, "sixteen_bit_layers_share": 0.25}
        point |= {"recompute": "full" if again else False, "all_reduce": "hierarchical"}
        point |= {"intra_node_latency": 0.0, "intra_node_bandwidth": 1.0, "inter_node_latency": 0.0}
        point |= {"inter_node_bandwidth": 1.0, **ENDS}
        forms = ["bf16" if form == "nvfp4" else form] + [form] * 3  # of four layers
        sent = sum(_layer_exchanged(ranks, 4096, 4096, one, again) for one in forms)
        for name in ("tensor_parallel_time", "tensor_node_time"):
            yield value(name, **point), sent


@check(
    "ring_gradient_reduce_scatter_time logarithmic_gradient_reduce_scatter_time "
    "hierarchical_gradient_reduce_scatter_time fitted_gradient_reduce_scatter_time "
    "auto_gradient_reduce_scatter_time ring_weight_all_gather_time "
    "logarithmic_weight_all_gather_time hierarchical_weight_all_gather_time "
    "fitted_weight_all_gather_time auto_weight_all_gather_time "
    "sharded_optimizer_data_parallel_time sharded_gradient_data_parallel_time "
    "sharded_weight_data_parallel_time unit_gradient_buckets whole_gradient_buckets "
    "gathered_message",
    by="simulator",
    source="every bucket of a step sent by itself, by rings and halving played out",
)
def buckets_of_a_step() -> Pairs:
    """ZeRO-1 to 3 on 16 nodes of 8, FP32 gradients, five algorithms, 1 to 40 buckets"""
    near, far, ranks, here = (1e-6, 450e9), (5e-6, 50e9), 128, 8
    flat = (5e-6, 400e9)

    def levels(message: float) -> float:
        return _go_round(here, message, *near) + _go_round(16, message / here, *far)

    def fitted(message: float) -> float:
        climb = 3e-9 * math.sqrt(message)
        return (flat[0] + climb) / 2 + message * (ranks - 1) / ranks / flat[1]

    def tree(message: float) -> float:
        return _halve(here, message, *near) + _halve(16, message / here, *far)

    def auto(message: float) -> float:
        return _library_half(16, here, message, near[0], far[0], flat[1])

    algorithms = {
        "ring": lambda message: _go_round(ranks, message, *flat),
        "tree": tree,
        "in_network": levels,
        "fitted": fitted,
        "auto": auto,
    }
    for (name, half), stage, bucket in itertools.product(
        algorithms.items(), (1, 2, 3), (25e6, 1e12)
    ):
        units = [1e9 / 20] * 20 if stage == 3 else [1e9]  # bytes of gradients
        pieces = []
        for unit in units:
            count = 0
            while count * bucket < unit:
                count += 1
            pieces += [unit / count] * count
        scatter = sum(half(piece) for piece in pieces)
        gather = sum(half(piece / 2) for piece in pieces)  # BF16 for FP32
        passes = {1: scatter + gather, 2: 3 * scatter + gather, 3: 3 * (scatter + 2 * gather)}
        given = {"n_gpus": ranks, "all_reduce": name, "zero_stage": stage, "bucket_bytes": bucket}
        given |= {"sqrt_coefficient": 3e-9, "reduced_parameters": 0.25e9}
        given |= {"gradient_bytes_per_element": 4, "bytes_per_element": 2, "fsdp_units": 20}
        given |= {"num_microbatches": 3, "intra_node_latency": near[0]}
        given |= {"intra_node_bandwidth": near[1], "inter_node_latency": far[0]}
        given |= {"inter_node_bandwidth": far[1]}
        yield (value("data_parallel_time", **given), passes[stage])


@check(
    "tensor_parallel_all_reduces_per_layer "
    "sequence_regather_time "
    "sequence_hidden_regather_time sequence_regather_window "
    "tensor_parallel_time_mixture_of_experts_false "
    "shared_layer_exchange_time exposed_tensor_parallel_time mfu_qkv_input_gradient_time "
    "mfu_ffn_input_gradient_time roofline_qkv_input_gradient_time "
    "roofline_ffn_input_gradient_time ffn_regathers_per_layer_mixture_of_experts_false",
    by="simulator",
    source="a layer's passes played: every gather, reduce-scatter and product of its backward pass",
)
def passes_of_sequence_parallel_layers() -> Pairs:
    """Recompute none and full, mfu and roofline, 2 to 64 tensor ranks, links of 1 to 400 GB/s"""
    tokens, hidden, ffn = 4096, 4096, 14336
    for recompute, model, tensor, link in itertools.product(
        (False, "full"), ("mfu", "roofline"), (2, 8, 64), (1e9, 50e9, 400e9)
    ):
        half = (tensor - 1) / tensor * tokens * hidden * 2 / link
        width = {"attention": (4096 + 2 * 1024) / tensor, "ffn": 2 * ffn / tensor}

        def product(columns: float, model: str = model) -> float:
            flops = 2 * tokens * hidden * columns
            if model == "mfu":
                return flops / (0.5 * 989e12)
            # the gradient of the input: tokens x hidden sums over the weights' columns
            elements = (tokens * hidden + 2500 * 200) * (columns + 200)
            moved = 2 * (tokens * hidden + hidden * columns + tokens * columns)
            return max(2 * elements / (0.8 * 989e12), moved / (0.8 * 3.35e12))

        sent = waits = 0.0
        for block in ("attention", "ffn"):
            for _ in ["forward"] + ["again"] * (recompute == "full"):
                for _ in ("gather the input", "scatter the output"):
                    sent, waits = sent + half, waits + half
            clock = half  # gather the gradient of the output
            link_free = clock + half  # gather the input again, during the input's gradient
            clock += product(width[block])
            clock = max(clock, link_free)  # the weights' gradient needs both
            waits += clock - product(width[block]) + half  # scatter the input's gradient
            sent += 3 * half
        layers, microbatches, stages = 12, 5, 3
        passes = layers * microbatches / stages
        given = {"all_reduce": "ring", "n_gpus": tensor * stages}
        given |= {"tensor_parallel": tensor, "pipeline_parallel": stages, "sequence_parallel": True}
        given |= {"recompute": recompute, "compute_model": model, "sequence_length": tokens}
        given |= {"hidden_size": hidden, "ffn_hidden_size": ffn, "gated_ffn": True, "kv_heads": 8}
        given |= {"layers": layers, "num_microbatches": microbatches, "compute_time": 1e3}
        given |= {"peak_flops": 989e12, "flops_efficiency": 0.5, "hbm_bandwidth": 3.35e12}
        given |= {"gpus_per_node": 64, "intra_node_bandwidth": link, "inter_node_bandwidth": link}
        given |= {"intra_node_latency": 0.0, "inter_node_latency": 0.0, **ENDS}
        got = values(["tensor_parallel_time", "exposed_tensor_parallel_time"], **given)
        yield got["tensor_parallel_time"], passes * sent
        yield got["exposed_tensor_parallel_time"], passes * waits


@check(
    "rail_bandwidth switched_tensor_rail_bandwidth switched_context_rail_bandwidth "
    "switched_expert_rail_bandwidth switched_data_rail_bandwidth switched_replica_rail_bandwidth "
    "switched_pipeline_rail_bandwidth data_spread_rank_order_tp_cp_ep_dp_pp outer_data_spread "
    "inner_replica_stride outer_replica_stride pipeline_span_rank_order_tp_cp_ep_dp_pp "
    "inner_pipeline_span rail_under_switches",
    by="derivation",
    source="ranks seated in Megatron-LM's order: does any group of a kind meet two leaf switches?",
)
def groups_under_leaf_switches() -> Pairs:
    """All layouts of 64 GPUs in powers of two, leaf switches of 8 to 64 GPUs, both orders"""
    sizes = (1, 2, 4, 8, 16)
    orders = ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp")
    for tensor, context, stages, expert, leaf, order in itertools.product(
        sizes, (1, 2, 4), (2, 4), (1, 2, 4), (8, 16, 32, 64), orders
    ):
        data = 64 // (tensor * context * stages)
        if data < expert or (order == orders[1] and expert > 1):
            continue
        shard = max(expert, data // 2)
        inner = [(c, t) for c in range(context) for t in range(tensor)]
        if order == orders[0]:
            outer = [(p, d) for p in range(stages) for d in range(data)]
        else:
            outer = [(p, d) for d in range(data) for p in range(stages)]
        places = ((*far, *near) for far in outer for near in inner)
        groups: dict[tuple[Any, ...], set[int]] = {}
        for gpu, (p, d, c, t) in enumerate(places):
            for group in (
                ("tensor", p, d, c),
                ("context", p, d, t),
                ("expert", p, (d * context + c) // expert, t),
                ("data", p, d // shard, t),
                ("replica", p, d % shard, c, t),
                ("pipeline", d, c, t),
            ):
                groups.setdefault(group, set()).add(gpu // leaf)
        counts = {"tensor": tensor, "context": context, "expert": expert}
        counts |= {"data": shard * context, "replica": data // shard, "pipeline": stages}
        sending = [kind for kind, members in counts.items() if members > 1]
        given = {"n_gpus": 64, "tensor_parallel": tensor}
        given |= {"context_parallel": context, "pipeline_parallel": stages}
        given |= {"expert_parallel": expert, "data_parallel_shard": shard, "rank_order": order}
        given |= {"gpus_per_switch": leaf, "inter_node_bandwidth": 50e9, "oversubscription": 4}
        got = values([f"{kind}_rail_bandwidth" for kind in sending], **given)
        for kind in sending:
            crosses = any(len(leaves) > 1 for key, leaves in groups.items() if key[0] == kind)
            yield got[f"{kind}_rail_bandwidth"], 12.5e9 if crosses else 50e9
