"""Attention's products of heads whose rows do and do not fill multiples of 16 bytes."""

from typing import Any

from ... import formulas
from ...evaluated import value
from ..check import Pairs, check

SEQUENCE = 2048
A100: dict[str, Any] = {
    "gpu": "a100-sxm-80gb", "precision": "fp16", "attention_kernel": "standard",
    "compute_model": "roofline", "layers": 1, "sequence_length": SEQUENCE, "vocab_size": 250880,
    "attention_efficiency": 0.5, "memory_efficiency": 0.8, "n_gpus": 8,
}  # fmt: skip
# Width, layers, stages, tensor ranks, sequences of a micro-batch: heads and seconds of a step, of
# 2,048 sequences on 8 replicas, as printed. Rows of pairs are days on which the machine was one.
STEPS = [
    (13824, 78, 6, 8, 4, {64: 121.28, 96: 124.75, 128: 162.72}),
    (13824, 78, 6, 8, 4, {96: 118.12, 128: 156.84}),
    (13824, 78, 12, 4, 2, {64: 103.51, 96: 107.12, 128: 147.41}),
    (13824, 78, 12, 4, 4, {64: 106.72, 96: 110.31, 128: 153.90}),
    (14336, 72, 6, 8, 4, {64: 120.18, 128: 124.89}),
    (14336, 72, 6, 8, 4, {64: 113.95, 128: 116.06}),
    (14336, 72, 12, 4, 2, {64: 110.42, 128: 114.02}),
    (13312, 84, 6, 8, 4, {64: 122.93, 128: 129.17}),
    (12288, 96, 6, 8, 4, {64: 122.96, 128: 129.42}),
]


def layers_in_a_row(layers: int, stages: int, microbatches: int) -> int:
    """Layers of all micro-batches on the way that a step waits for: the fullest stage's for each
    but one, and of that one those of all stages."""
    return (microbatches - 1) * -(-layers // stages) + layers


@check(
    "standard_attention_core_time",
    by="table",
    source="BigScience, train/tr11-176B-ml/chronicles-prequel.md: seconds that more heads take, as "
    "a share of a step, by number of heads",
    tolerance=0.035,
    absolute=True,
)
def heads_of_one_width() -> Pairs:
    """nine layouts, 64 to 128 heads: 108 elements a head are slow, 96, 104, 112 and 144 are not"""
    for width, layers, stages, t, b, seconds in STEPS:
        passes = layers_in_a_row(layers, stages, SEQUENCE // (8 * b))
        layout = {**A100, "hidden_size": width, "tensor_parallel": t, "micro_batch_size": b}
        core = {a: value("attention_core_time", **layout, attention_heads=a) for a in seconds}
        fewest, *more = seconds
        for heads in more:  # forward, again, and twice backward
            ours = 4 * passes * (core[heads] - core[fewest])
            printed = seconds[heads] - seconds[fewest]
            yield ours / seconds[fewest], printed / seconds[fewest]


@check(
    "standard_attention_core_time",
    by="table",
    source="BigScience, train/tr11-176B-ml/chronicles-prequel.md: seconds that heads of 108 "
    "elements take, beyond those that as many more heads of 144 take",
    tolerance=0.06,
)
def slow_heads() -> Pairs:
    """13,824 wide, 64, 96 and 128 heads in three layouts: what more heads take of memory is out"""
    for width, layers, stages, t, b, seconds in STEPS:
        if {*seconds} == {64, 96, 128}:
            passes = layers_in_a_row(layers, stages, SEQUENCE // (8 * b))
            layout = {**A100, "hidden_size": width, "tensor_parallel": t, "micro_batch_size": b}
            core = {a: value("attention_core_time", **layout, attention_heads=a) for a in seconds}
            ours, printed = (row[128] - 2 * row[96] + row[64] for row in (core, seconds))
            yield 4 * passes * ours, printed


@check(
    "standard_attention_core_time",
    by="derivation",
    source="each head's two products, by the bytes of a row of its keys and of its values",
)
def rows_of_heads() -> Pairs:
    """11 widths in 16 and 32 bits, keys wider than values, no whole bytes or width, slower"""
    heads, peak, bandwidth = 16, 312e12, 2e12
    equal = [(width, width) for width in (64, 66, 68, 72, 100, 104, 108, 112, 128, 150, 225)]
    for key, width in [*equal, (192, 128), (136, 128), (68, 60), (72, 68), (127.5, 127.5)]:
        for size in (2, 4, 2.2):
            full = size == 2.2 or (key * size % 16 == 0 and width * size % 16 == 0)
            full = full or width == 127.5
            for share in (0.5, 0.02):
                rate = peak * (share if full else min(share, 0.035))
                seconds = 0.0
                for _ in range(heads):
                    seconds += 2 * SEQUENCE**2 * (key + width) / rate
                    seconds += 4 * size * SEQUENCE**2 / bandwidth
                operations = formulas.attention_score_flops(
                    SEQUENCE, SEQUENCE, 2 * heads, (key + width) / 2, 2
                )
                yield (
                    formulas.standard_attention_core_time(
                        operations, peak, share, (key + width) / 2, width, SEQUENCE, SEQUENCE,
                        2 * heads, 2, size, bandwidth,
                    ),
                    seconds,
                )  # fmt: skip
