"""Unequal pipeline stages: layers assigned one by one, counted; schedules simulated."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from fleetcube import simulate_schedule
from fleetcube.kernels.laws import stages as laws

from ... import formulas
from ...evaluated import ENDS, computed
from ..check import Pairs, check
from ..model.models import MIXTRAL
from .pipeline import PLAYED, played

SLOWEST_STAGE = (  # its time, added up
    *("compute_time", "straggler_time", "exposed_layer_communication_time"),
    "stage_imbalance_time",
)
SIZES = [(n, p) for n, p in product((1, 2, 7, 12, 31, 32, 61, 126), (1, 2, 3, 4, 8, 16)) if n >= p]


def split(layers: int, stages: int) -> list[int]:
    """Layers of each stage: one each in turn; the remainder goes to middle stages."""
    each = [layers // stages] * stages
    for stage in [*range(1, stages - 1), 0][: layers % stages]:
        each[stage] += 1
    return each


@check(
    "first_stage_layers last_stage_layers middle_stage_layers layers_of_stage first_sparse_stage "
    "layers_before_stage",
    by="simulator",
    source="layers handed out one by one, the ends last; Llama 3 405B: 7, 14 x 8, 7 on 16 stages",
)
def layers_on_stages() -> Pairs:
    """1 to 126 layers on 1 to 16 stages; Megatron's embedding and loss as layers of the split"""
    assert split(126, 16) == [7, *[8] * 14, 7]  # Grattafiori et al. 2024, section 3.3.2
    for layers, p in SIZES:
        each = split(layers, p)
        first = formulas.first_stage_layers(layers, p, 0, 0)
        last = formulas.last_stage_layers(layers, p, first, 0)
        middle = formulas.middle_stage_layers(layers, p, first, last)
        yield first, each[0]
        yield last, each[-1]
        yield middle, max(each[1:-1], default=0)
        for stage in range(1, p + 1):
            size = (stage, p, layers, first, middle, last)
            yield laws.layers_of_stage(*size), each[stage - 1]
            yield laws.layers_before_stage(*size), sum(each[: stage - 1])
    # megatron/core/transformer/transformer_block.py: (l + 1 + 1) / p, one layer less on the ends
    for layers, p in ((30, 4), (62, 16), (14, 8)):
        first = formulas.first_stage_layers(layers, p, 1, 1)
        yield first, (layers + 2) // p - 1
        yield formulas.last_stage_layers(layers, p, first, 1), (layers + 2) // p - 1
    # 61 layers, 1 stated on the first of 16 stages: the rest is split evenly
    last = formulas.last_stage_layers(61, 16, 1, 0)
    yield (last, formulas.middle_stage_layers(61, 16, 1, last)), (4, 4)


TABLE = 32000 * 4096


def counted(sizes: list[int], dense: int) -> list[tuple[float, float]]:
    """Shared and routed parameters of each stage of a Mixtral with other depths."""
    layers, p = sum(sizes), len(sizes)
    one = 3 * 4096 * 14336
    attention, norms, router = 4096 * 128 * (2 * 32 + 2 * 8), 2 * 4096, 4096 * 8
    kinds = iter(range(layers))
    found = []
    for stage, size in enumerate(sizes):
        shared = routed = 0.0
        for _ in range(size):
            shared += attention + norms + 4096 / layers  # the last norm counts with the layers
            if next(kinds) < dense:
                shared += one
            else:
                shared, routed = shared + router, routed + 8 * one
        shared += TABLE * ((stage == 0) + (stage == p - 1))
        found.append((shared, routed))
    return found


def points() -> Iterator[tuple[dict[str, Any], list[tuple[float, float]]]]:
    for layers, p, dense in ((32, 4, 0), (31, 4, 3), (30, 8, 4), (13, 3, 1), (8, 2, 8), (5, 1, 2)):
        point = {**MIXTRAL, "layers": layers, "pipeline_parallel": p, "dense_layers": dense}
        point |= {"n_gpus": 256 * p, "tensor_parallel": 2, "expert_parallel": 4}
        yield point, counted(split(layers, p), dense)


@check(
    "stage_parameters stage_of_one_way most_stage_parameters common_layer_parameters "
    "end_table_parameters first_stage_table_parameters stage_table_parameters "
    "dense_layers_of_stage leading_held_dense_layers reduced_stage_parameters "
    "stage_shared_parameters stage_routed_parameters staged_held_parameters "
    "first_stage_held_layers last_stage_held_layers staged_sharded_parameters "
    "dense_layer_parameters_mixture_of_experts_true mixed_expert_layer_parameters "
    "mixed_routed_layer_parameters staged_reduced_parameters staged_reduced_expert_parameters "
    "ring_routed_reduction_share first_stage_tables plain_last_stage_tables "
    "last_stage_table_parameters",
    by="simulator",
    source="a Mixtral's layers, dense ones first, put on stages one by one, weights added up",
)
def parameters_on_stages() -> Pairs:
    """six splits of 5 to 32 layers over 1 to 8 stages, 0 to 8 of them dense; t 2, e 4"""
    folded = []  # zb_v: the model folds back to the first stage; dualpipe: it also runs backwards
    for point, found in points():
        p = len(found)
        if p > 1:
            moved = [(a + TABLE * ((s == 0) - (s == p - 1)), b) for s, (a, b) in enumerate(found)]
            folded.append(({**point, "pipeline_schedule": "zb_v"}, moved))
    names = ("held_parameters", "sharded_parameters", "stage_layers")
    for sizes, dense in (([8] * 4, 0), ([6, 8, 8, 10], 0), ([10, 8, 8, 6], 3), ([2, 12, 12, 6], 1)):
        mirrored = next(points())[0] | {"pipeline_schedule": "dualpipe", "dense_layers": dense}
        mirrored |= {"first_stage_layers": sizes[0], "last_stage_layers": sizes[-1]}
        found = counted(sizes, dense)
        both = [(a + c, b + d) for (a, b), (c, d) in zip(found, found[::-1], strict=True)]
        for stage, (shared, routed) in enumerate(both, 1):
            yield laws.stage_of_one_way(stage, 4, 2), min(stage, [4, 3, 2, 1][stage - 1])
            yield laws.stage_of_one_way(stage, 4, 1), stage
            of_rank = ((shared + routed / 4) / 2, (shared + routed) / 2 / 256)
            layers = (sizes[stage - 1] + sizes[-stage]) / 2  # of both directions
            yield computed({**mirrored, "pipeline_stage": stage}, *names), (*of_rank, layers)
    for point, found in (*points(), *folded):
        rings = 128 - 4, 128 - 1  # hops of a ring of n / e ranks, e of them; of all n = 128
        for stage, (shared, routed) in enumerate(found, 1):
            names = ("stage_shared_parameters", "stage_routed_parameters", "held_parameters")
            ours = computed({**point, "pipeline_stage": stage}, *names, "sharded_parameters")
            yield ours, (shared, routed, (shared + routed / 4) / 2, (shared + routed) / 2 / 128)
        moved = [(a / 2, b / 4 / 2 * rings[0] / rings[1]) for a, b in found]
        yield computed(point, "reduced_parameters")[0], max(map(sum, moved))
        yield computed(point, "reduced_expert_parameters")[0], max(b for _, b in moved)


@check(
    "fullest_stage stage_memory microbatches_of_stage one_forward_one_backward_schedule_depth "
    "one_forward_one_backward_schedule_slope staged_activation_memory "
    "staged_logits_memory plain_microbatch_logits shared_state_bytes routed_state_bytes "
    "replicated_held_state_bytes gradients_held_state_bytes",
    "sharded_state_bytes",
    by="simulator",
    source="memory of every stage added up, passes in flight counted in the schedule played",
)
def memory_of_stages() -> Pairs:
    """Llama 3 8B, Mixtral: 1 to 8 stages, 1 or 2 chunks, ZeRO-0, 1 and 3, every stage's memory"""
    llama = {"model": "llama-3-8b", "n_gpus": 128, "global_batch_size": 512}
    mixture = {**MIXTRAL, "n_gpus": 128, "expert_parallel": 2, "global_batch_size": 512}
    for base, p, chunks, zero in product((llama, mixture), (1, 2, 4, 8), (1, 2), (0, 1, 3)):
        if chunks > 1 and p == 1:
            continue
        point = {**base, "pipeline_parallel": p, "virtual_stages": chunks, "zero_stage": zero}
        point["reserved_memory"] = 0  # tensors alone
        layers, vocabulary = (32, 128256) if base is llama else (32, 32000)
        tokens, m = computed(point, "microbatch_tokens", "num_microbatches")
        names = ("activation_memory_per_layer", "working_memory")
        activation, working = computed(point, *names)
        flight = played(
            pipeline_parallel=p, num_microbatches=int(m), virtual_stages=chunks
        ).microbatches_in_flight
        each, needed = split(int(layers), p), []
        for stage in range(1, p + 1):
            there = {**point, "pipeline_stage": stage}
            held, sharded = computed(there, "held_parameters", "sharded_parameters")
            bytes_held = {0: 16 * held, 1: 4 * held + 12 * sharded, 3: 16 * sharded}[zero]
            kept = each[stage - 1] * flight[stage - 1] * activation
            logits = 4 * tokens * vocabulary if stage == p else 0
            needed.append(bytes_held + kept + logits + working)
            yield computed(there, "memory_per_gpu")[0], needed[-1]
            yield computed(there, "logits_memory")[0], logits
        yield computed(point, "memory_per_gpu")[0], max(needed)
        fullest = int(computed(point, "fullest_stage")[0])
        yield needed[fullest - 1], max(needed)
    alone = formulas.one_forward_one_backward_microbatches_in_flight
    for p, m, v in ((4, 8, 1), (4, 2, 1), (4, 8, 2), (8, 16, 3), (2, 8, -2), (8, 16, -3)):
        layout = {"pipeline_parallel": p, "num_microbatches": m, "virtual_stages": abs(v)}
        layout["pipeline_schedule"] = "1f1b" if v > 0 else "combined_1f1b"
        seen = played(**layout).microbatches_in_flight
        first = alone(p, m, abs(v), p)
        depth = formulas.one_forward_one_backward_schedule_depth(p, abs(v), p)
        slope = formulas.one_forward_one_backward_schedule_slope(abs(v))
        for stage in range(1, p + 1):
            ours = laws.microbatches_of_stage(first, depth, slope, stage)
            yield ours, seen[stage - 1] - (v < 0) / abs(v)  # overlapping passes count as one


def uneven(p: int, v: int) -> Iterator[list[float]]:
    """Times of a pipeline's chunks: one more layer in the middle, embedding, logits on the last."""
    for longer, embedding, logits in product((0, 1), (0.0, 0.1), (0.0, 0.4, 1.5)):
        each = [2.0] * (p * v)
        for piece in range(1, 1 + longer * (p * v - 2)):
            each[piece] += 1
        each[0] += embedding
        each[-1] += logits
        yield each


@check("paced_bubble_time", by="simulator", source=PLAYED + ", its stages of unequal lengths")
def uneven_stages() -> Pairs:
    """GPipe, and 1F1B whose last stage is the slowest: 2 to 8 stages, 1 to 24 micro-batches"""
    for p, m, schedule in product((2, 3, 4, 8), (1, 2, 4, 9, 24), ("gpipe", "1f1b")):
        for each in uneven(p, 1):
            if schedule == "1f1b" and each[-1] < max(each):
                continue
            times = played(
                (1.0, 1.0, 1.0, 0.0),
                pipeline_schedule=schedule,
                pipeline_parallel=p,
                num_microbatches=m,
                piece_times=tuple(each),
            )
            mean = sum(each) / p * 3 * m
            excess = max(each) * 3 * m - mean
            ratio = formulas.flushed_bubble_ratio(p, m, 1)
            ours = formulas.paced_bubble_time(ratio, mean, 0.0, 0.0, excess, m)
            yield mean + ours, times.step_time


@check("paced_bubble_time", by="simulator", source=PLAYED, tolerance=0.17)
def uneven_chunks() -> Pairs:
    """1F1B whose middle is the slowest, interleaved 1F1B, ZB-H1: 2 to 8 stages, 4 to 32 m"""
    for p, m, (schedule, v) in product(
        (2, 4, 8), (8, 16, 32), (("1f1b", 1), ("1f1b", 2), ("1f1b", 4), ("zb_h1", 1))
    ):
        for each in uneven(p, v):
            size = {"pipeline_parallel": p, "num_microbatches": m, "virtual_stages": v}
            times = played(
                (1.0, 1.0, 1.0, 0.0),
                pipeline_schedule=schedule,
                pipeline_sends="asynchronous",
                piece_times=tuple(each),
                **size,
            )
            of_stages = [sum(each[stage::p]) / v * 3 * m for stage in range(p)]
            mean = sum(of_stages) / p
            excess = max(of_stages) - mean
            ratio = (
                formulas.zb_h1_bubble_ratio(p, m, 1.0)
                if schedule == "zb_h1"
                else formulas.flushed_bubble_ratio(p, m, v)
            )
            yield (
                mean + formulas.paced_bubble_time(ratio, mean, 0.0, 0.0, excess, m),
                times.step_time,
            )


@check(
    "slowest_stage_imbalance_time first_logits_share mfu_logits_share roofline_logits_share",
    "roofline_embedding_share",
    by="derivation",
    source="layers, embedding and logits of every stage added up, by roofline and by operations",
)
def slowest_stages() -> Pairs:
    """Llama 3 8B on 1, 2, 3, 8 and 16 stages; with traffic of layers and stragglers"""
    for schedule, ends in (("1f1b", "last"), ("zb_v", "first"), ("dualpipe", "first and last")):
        point = {"model": "llama-3-8b", "n_gpus": 64, "pipeline_parallel": 4}
        share = computed({**point, "pipeline_schedule": schedule}, "first_logits_share")[0]
        yield share, ("first" in ends) / len(ends.split(" and "))
    for p, extra in product((1, 2, 3, 8, 16), (0.0, 0.25)):
        point = {"model": "llama-3-8b", "gpu": "h100-sxm", "n_gpus": 48 * p}
        point |= {"global_batch_size": 48 * 16, "pipeline_parallel": p, "straggler_slowdown": extra}
        point |= {"exposed_layer_communication_time": extra, "calibration": "none"}
        point |= {"embedding_exchange_time": extra / 10, "logits_exchange_time": extra / 2}
        point |= {"hidden_logits_exchange_time": extra / 4}
        roofline = {**point, "compute_model": "roofline"}
        layer, logits = computed(roofline, "layer_time", "logits_time")
        lookup = 8192 * 4 * 4096 * 2 / (0.8 * 3.35e12)
        compute, peak = computed(point, "compute_time", "kernel_peak_flops")
        by_operations = 6 * 128256 * 4096 * 8192 / (0.45 * peak)
        for at, one, head, embedding in (
            (roofline, layer, logits - lookup, lookup),
            (point, (compute * p / 16 - by_operations) / 32, by_operations, 0.0),
        ):
            work = []
            for stage, size in enumerate(split(32, p)):
                own = size * one
                own += embedding * (stage == 0) + head * (stage == p - 1)
                waits = 0.65 * extra * size / (32 / p)  # traffic in layers, then that of the ends
                waits += extra * p * ((stage == 0) / 10 + (stage == p - 1) / 4)
                work.append(16 * own * (1 + extra) + waits)
            yield sum(computed(at, *SLOWEST_STAGE)), max(work)


@check(
    "some_prediction_flops_per_token some_prediction_time mfu_logits_share roofline_logits_share "
    "predicting_last_stage_tables some_projection_parameters predicting_microbatch_logits",
    by="derivation",
    source="a model one layer deeper; the layer, a projection and logits on the last stage",
)
def predicted_tokens() -> Pairs:
    """Llama 3 8B with one module of multi-token prediction on 1 and 4 stages: parts of a step"""
    llama = {"gated_ffn": True, "hidden_size": 4096, "kv_heads": 8, "ffn_hidden_size": 14336}
    llama |= {"vocab_size": 128256, "sequence_length": 4096, "gpu": "h100-sxm", "n_gpus": 64}
    for p, model in product((1, 4), ("mfu", "roofline")):
        point = {**llama, "pipeline_parallel": p, "compute_model": model, "layers": 32}
        names = ("compute_time", "kernel_flops_per_token", "held_parameters")
        (held,) = computed({**point, "pipeline_stage": p}, "held_parameters")
        deeper = computed({**point, "layers": 33}, *names)
        predicting = {**point, "prediction_layers": 1}
        ours = computed({**predicting, "pipeline_stage": p}, *names)
        projection, logits = 6 * 2 * 4096 * 4096, 6 * 4096 * 128256
        yield ours[1], deeper[1] + projection + logits
        layer = 4096 * 4096 * 2.5 + 3 * 4096 * 14336 + 2 * 4096 + 4096 / 32
        # the projection, and behind the first stage the table that the module reads
        yield ours[2], held + layer + 2 * 4096 * 4096 + (128256 * 4096 if p > 1 else 0)
        kept = computed({**predicting, "pipeline_stage": p}, "logits_memory")[0]
        yield kept, 2 * computed({**point, "pipeline_stage": p}, "logits_memory")[0]
        if model == "roofline":
            m = 1024 / (64 / p)
            one, peak = computed(point, "logits_time", "peak_flops")
            product_time = 0.0
            for results, sums in ((4096, 8192), (8192, 4096), (8192, 4096)):  # and its gradients
                elements = (4096 * results + 2500 * 200) * (sums + 200)
                product_time += 2 * elements / (0.8 * peak)
            yield ours[0], deeper[0] + m * (one + product_time) / p
            layers = 32 / p * computed(point, "layer_time")[0]
            more = ours[0] * p / m - 32 * layers * p / 32  # of the ends; the embedding is first
            lookup = 4096 * 4 * 4096 * 2 / (0.8 * 3.35e12)
            if p > 1:
                yield (
                    sum(
                        computed(
                            {**predicting, **ENDS, "exposed_layer_communication_time": 0.0},
                            *SLOWEST_STAGE,
                        )
                    ),
                    m * (layers + more - lookup),
                )


@check(
    "staged_held_parameters",
    by="peer",
    source="Megatron-LM, megatron/training/theoretical_memory_usage.py "
    "(compute_weight_and_optimizer_memory: the most loaded shard, the other shards)",
    tolerance=1e-3,
)
def megatrons_shards() -> Pairs:
    """Llama 3 8B on 8 stages, GPT-3 175B on 8 stages of 8 ranks"""
    llama: dict[str, Any] = {"model": "llama-3-8b", "pipeline_parallel": 8, "n_gpus": 8}
    gpt: dict[str, Any] = {"layers": 96, "hidden_size": 12288, "attention_heads": 96}
    gpt |= {"vocab_size": 51200, "embedding_tables": 1, "tensor_parallel": 8}
    gpt |= {"pipeline_parallel": 8, "n_gpus": 64}
    sizes = ((llama, 32, 4096, 1 / 4, 3.5 * 1.5, 128256, 1), (gpt, 96, 12288, 1, 4, 51200, 8))
    for job, layers, width, groups, ffn, words, ranks in sizes:
        each = 1 + groups + ffn + 2 / width + 1 / (layers * width)
        blocks = 2 * layers * width * width * each / 8
        for stage, tables in ((1, 1), (4, 0)):
            ours = computed({**job, "pipeline_stage": stage}, "held_parameters")[0]
            yield ours, (blocks + tables * words * width) / ranks


def kept(layers: list[int], p: int, m: int, **schedule: Any) -> list[float]:
    """Peak number of layers whose activations each rank keeps, in a simulated schedule."""
    peaks = []
    for rank in simulate_schedule(pipeline_parallel=p, num_microbatches=m, **schedule).stages:
        done = [(t.end, 0, t.piece, -1) for t in rank if t.kind == "B"]
        done += [(t.start, 1, t.piece, 1) for t in rank if t.kind == "F"]
        have = most = 0
        for _, _, piece, way in sorted(done):
            have += way * layers[piece]
            most = max(most, have)
        peaks.append(float(most))
    return peaks


@check(
    "staged_activation_memory kept_microbatches mirrored_first_stage_kept_ratio "
    "first_stage_kept_ratio_pipeline_schedule_gpipe middle_stage_kept_ratio last_stage_kept_ratio",
    by="simulator",
    source=PLAYED,
)
def pieces_kept() -> Pairs:
    """unequal ends in dualpipe on 4 and 8 stages; interleaved layouts on 4 and 8, 1F1B on 4"""
    job = {"hidden_size": 1024, "attention_heads": 8, "activation_memory_per_layer": 1.0}
    job |= {"logits_memory": 0.0}

    def ours(p: int, m: int, stage: int, **more: Any) -> float:
        size = {"n_gpus": p, "global_batch_size": m, "pipeline_stage": stage}
        return float(computed({**job, **size, **more}, "activation_memory")[0])

    for sizes in ([2, 4, 4, 6], [6, 4, 4, 2], [5, *[4] * 6, 3], [2, *[4] * 6, 6]):
        p = len(sizes)
        layout = "E" + "|".join("t" * size for size in sizes) + "L"
        played = kept(sizes, p, 4 * p, pipeline_schedule="dualpipe")
        for stage in range(1, p + 1):
            given = {"pipeline_schedule": "dualpipe", "pipeline_layout": layout}
            yield ours(p, 4 * p, stage, **given), played[stage - 1]
    for layout, p, v, alike in (
        ("Etttt|" + "tt|" * 14 + "L", 8, 2, range(1, 9)),
        ("Ettt|" + "tt|" * 13 + "ttt|L", 8, 2, (1, 8)),
        ("E|" + "tt|" * 14 + "ttttL", 8, 2, range(1, 9)),
        ("Ettt|t|t|t|t|t|t|t|t|t|t|tL", 4, 3, range(1, 5)),
        ("Ettt|tt|tt|tttL", 4, 1, range(1, 5)),
    ):
        sizes = [piece.count("t") for piece in layout.split("|")]
        played = kept(sizes, p, 4 * p, virtual_stages=v)
        for stage in alike:
            given = {"pipeline_layout": layout, "virtual_stages": v}
            yield ours(p, 4 * p, stage, **given), played[stage - 1]
    few = {"pipeline_layout": "E|ttt|t|tttttL", "virtual_stages": 2}  # 2 micro-batches: all kept
    yield ours(2, 2, 1, **few), 2.0
    yield laws.kept_microbatches(2, 2.5, 0.8), 2.0
