"""Memory of a GPU: tensors placed rank by rank, and published tables."""

import itertools
import math

from fleetcube.grid.measured.records import read_records
from fleetcube.grid.measured.validate import validate

from ... import formulas
from ..check import Pairs, check


@check(
    "one_site_memory_per_gpu staged_activation_memory even_activation_memory "
    "activation_memory_per_layer_recompute_full",
    by="table",
    source="Korthikanti et al. 2022, arXiv:2205.05198, figures 1 and 7; SimuMax's B200 table "
    "(Megatron-LM, most allocated on any rank)",
    tolerance=0.025,
)
def published_memories() -> Pairs:
    """61 published memories: 22B to 1T, Llama-3, DeepSeek-V2 and V3, 4k to 128k tokens"""
    asked = ("memory_per_gpu", "activation_memory", "activation_memory_per_layer")
    for row in validate([row for row in read_records()[0] if row.of in asked]).rows:
        yield row.predicted, row.measured


@check(
    "replicated_weights_memory sharded_weights_memory replicated_gradients_memory "
    "sharded_gradients_memory optimizer_parameters_zero_stage_1 optimizer_memory "
    "even_sharded_parameters even_held_parameters",
    by="table",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, table 1: 7.5B, 128B and 1T, GB of "
    "states on 1 to 1024 ranks",
    tolerance=5e-3,
)
def zero_states() -> Pairs:
    """table 1: three models, stages 1 to 3, groups of 1, 4, 16, 64, 256 and 1024"""
    table = {  # parameters: ranks: stages 1, 2, 3
        7.5e9: {
            1: (120, 120, 120),
            4: (52.5, 41.3, 30),
            16: (35.6, 21.6, 7.5),
            64: (31.4, 16.6, 1.88),
        },
        128e9: {
            1: (2048, 2048, 2048),
            16: (608, 368, 128),
            256: (518, 263, 8),
            1024: (513, 257, 2),
        },
        1e12: {4: (7000, 5500, 4000), 64: (4187, 2218, 250), 1024: (4011, 2013, 15.6)},
    }
    for parameters, rows in table.items():
        for ranks, printed in rows.items():
            share = formulas.even_sharded_parameters(parameters, 1, 1, ranks, 1)
            held = formulas.even_held_parameters(parameters, 1)
            states = formulas.optimizer_memory(
                formulas.optimizer_parameters_zero_stage_1(share), 12
            )
            whole = formulas.replicated_weights_memory(held, 2)
            grads = formulas.replicated_gradients_memory(held, 2)
            parted = formulas.sharded_gradients_memory(share, 2)
            stages = (
                whole + grads,
                whole + parted,
                formulas.sharded_weights_memory(share, 2) + parted,
            )
            for state, theirs in zip(stages, printed, strict=True):
                yield (state + states) / 1e9, theirs


@check(
    "kept_activation_memory_per_layer selective_activation_memory_per_layer "
    "residual_activations_per_token matrix_activations_per_token "
    "standard_score_activations_per_token",
    by="derivation",
    source="the tensors of a GPT layer, listed one by one: Korthikanti et al. 2022, "
    "arXiv:2205.05198, section 4.1",
)
def tensors_of_a_layer() -> Pairs:
    """heads 1 to 96, 1 to 8 ranks, with and without sequence parallelism"""
    for heads, ranks, apart in itertools.product((8, 96), (1, 2, 8), (False, True)):
        tokens, length, width, ffn = 2 * 2048, 2048, heads * 128, 4 * heads * 128
        shared = ranks if apart else 1
        residual = 2 * (4 * width) / shared + 2 * width / shared  # 2 norms, 2 inputs; 2 masks
        matrix = 2 * (3 * width + width + 2 * ffn) / ranks  # q, k, v; context; MLP inside
        scores = (2 + 1 + 2) * heads * length / ranks  # softmax, mask, dropped
        a = formulas.residual_activations_per_token(width, width, 2, 1, shared)
        b = formulas.matrix_activations_per_token(heads, heads, 128, 2, ffn, ranks, 2)
        c = formulas.standard_score_activations_per_token(heads, length, ranks, 2, 1)
        every = formulas.kept_activation_memory_per_layer(tokens, a, b, c)
        yield every, tokens * (residual + matrix + scores)
        some = formulas.selective_activation_memory_per_layer(tokens, a, b)
        yield some, tokens * (residual + matrix)


@check(
    "matrix_activations_per_token",
    by="simulator",
    source="heads of keys and values placed where the query heads of each tensor rank read them",
)
def copied_keys_and_values() -> Pairs:
    """1 to 64 ranks, 1 to 8 heads of keys and values under 64 query heads"""
    for ranks, heads in itertools.product((1, 4, 8, 16, 64), (1, 2, 8)):
        mine, group = 64 // ranks, 64 // heads
        held = len({query // group for query in range(mine)})
        ours = formulas.matrix_activations_per_token(64, heads, 128, 3, 1024, ranks, 2)
        yield ours, 2 * (128 * (2 * mine + 2 * held) + 3 * 1024 / ranks)


@check(
    "near_memory_limit memory_margin memory_per_gpu_low memory_per_gpu_high capacity_reason",
    by="derivation",
    source="the ratio of what is needed to what is there, against the factor and its inverse",
)
def sides_of_the_limit() -> Pairs:
    """needs of 0.5 to 2 capacities, factors of 1 to 1.1"""
    for need, factor in itertools.product(
        (0.5, 0.95, 0.99, 1.0, 1.01, 1.05, 2.0), (1.0, 1.02, 1.1)
    ):
        yield formulas.memory_margin(need * 80e9, 80e9), (80 - need * 80) / 80
        refused, safe = need > factor, need * factor <= 1
        # half the interval, in logarithms, is the factor
        for end, sign in ((formulas.memory_per_gpu_low, -1), (formulas.memory_per_gpu_high, 1)):
            yield end(need, factor), math.exp(math.log(need) + sign * math.log(factor))
        yield formulas.near_memory_limit(need * 80e9, factor, 80e9), float(not refused and not safe)
        yield formulas.capacity_reason(0.0, need * 80e9, factor, 80e9), 10.0 * refused


@check(
    "working_memory sharded_layer_state_memory dense_layer_parameters ffn_gradients_memory "
    "layer_activation_memory_recompute_false",
    by="derivation",
    source="the tensors alive in the backward pass of a gated block, listed one by one",
)
def tensors_at_work() -> Pairs:
    """Llama-3-70B's layer on 1 and 8 ranks, ZeRO-3"""
    for ranks in (1, 8):
        attention, ffn = 2 * 8192 * 128 * (64 + 8), 3 * 8192 * 28672
        held = formulas.dense_layer_parameters(attention, ffn, ranks)
        states = formulas.sharded_layer_state_memory(held, held, 2)
        gathered = sum(2 * 2 * count / ranks for count in (attention, ffn))
        yield states, gathered
        grads = formulas.ffn_gradients_memory(4096, 8192, ranks, 3, 28672, ranks, 2)
        alive = sum(4096 * 2 * width / ranks for width in (8192, 28672, 28672, 28672))
        yield grads, alive
        kept = formulas.layer_activation_memory_recompute_false(grads)
        yield formulas.working_memory(states, kept), gathered + alive
