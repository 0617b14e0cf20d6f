"""Documents packed into sequences: drawn, cut, and their pairs of query and key counted by rank."""

from itertools import product
from typing import Any

import numpy as np

from ... import formulas
from ...evaluated import value, values
from ..check import Pairs, check

TOKENS = 2048  # of a sequence
Drawn = np.ndarray[Any, Any]
MODEL = {
    "layers": 6, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "peak_flops": 1e15,
    "attention_peak_flops": 1e15, "sequence_length": TOKENS, "n_gpus": 16, "hbm_bandwidth": 3e12,
    "context_parallel_type": "all_gather",
}  # fmt: skip


def first_tokens(documents: Drawn, sequences: int) -> Drawn:
    """Of each token, the first of its document in its sequence: document after document, cut."""
    first = []
    for length in documents.tolist():
        first += [len(first)] * length
        if len(first) > sequences * TOKENS:
            break
    begin = np.array(first[: sequences * TOKENS]).reshape(sequences, TOKENS)
    return np.maximum(begin - TOKENS * np.arange(sequences)[:, None], 0)


def drawn(mean: float, sequences: int) -> Drawn:
    """Documents that may end after each token alike, as many as fill the sequences."""
    rng = np.random.default_rng(28)
    many = int(sequences * TOKENS / mean * 1.5) + 200
    lengths = np.diff(np.flatnonzero(rng.random(int(many * mean)) < 1 / mean))
    return first_tokens(lengths, sequences)


@check(
    "document_full_layer_span document_windowed_layer_span windowed_causal_attention_span",
    by="derivation",
    source="chance that no document ends between a query and a key, summed over pairs under the "
    "mask",
    tolerance=1e-3,
)
def keys_of_a_document() -> Pairs:
    """sequences of 2,048 and 8,192 tokens, documents of 50 to 1e6, windows of 100 to 10,000"""
    for sequence in (2048, 8192):
        apart = np.arange(sequence)
        for mean in (50, 500, 5000, 1_000_000):
            chance = np.exp(-apart / mean) * (sequence - apart)  # of all pairs so far apart
            shape = {"sequence_length": sequence, "document_length": mean}
            full = chance.sum() / sequence - 0.5  # own key half
            yield value("causal_attention_span", **shape), full
            yield formulas.document_full_layer_span(sequence, mean), full
            for window in (100, 1000, 10_000):
                edge = chance[window] / 2 if window < sequence else 0.0  # half of this pair, too
                band = (chance[:window].sum() + edge) / sequence - 0.5
                ours = formulas.document_windowed_layer_span(sequence, window, mean)
                yield ours, band
                some = {**shape, "attention_window": window, "windowed_layers": 1, "layers": 4}
                some |= {"attention_layers": 4}
                yield value("causal_attention_span", **some), 0.75 * full + 0.25 * band


@check(
    "document_full_layer_span attention_flops_per_token causal_model_flops_per_token",
    by="simulator",
    source="documents drawn with seed 28, one after the other, cut into sequences",
    tolerance=0.03,
)
def pairs_of_packed_documents() -> Pairs:
    """1,500 sequences of 2,048 tokens, documents of 30, 200, 1,000 and 5,000"""
    for mean in (30, 200, 1000, 5000):
        begin = drawn(mean, 1500)
        seen = float(np.mean(np.arange(TOKENS) - begin)) + 0.5
        run = {**MODEL, "document_length": mean, "vocab_size": 51200}
        got = values(["attention_flops_per_token", "model_flops_per_token"], **run)
        without = values(["attention_flops_per_token", "model_flops_per_token"], **MODEL)
        pair = 3 * 4 * 6 * 1024  # forward and backward, two products in six layers
        yield got["attention_flops_per_token"], pair * seen
        fewer = pair * (TOKENS / 2 - seen)
        yield got["model_flops_per_token"], without["model_flops_per_token"] - fewer


def slowest_over_mean(begin: Drawn, parts: list[list[Drawn]], edges: int) -> float:
    """Pairs of the rank with most in a sequence, over the mean: each rank has all keys, and each
    query costs as many more as edges of blocks do."""
    seen = np.arange(TOKENS) - begin + 0.5 + edges
    work = np.array([[seen[:, part].sum(axis=1) for part in rank] for rank in parts])
    ranks = work.sum(axis=1)
    return float(ranks.max(axis=0).mean() / ranks.mean())


@check(
    "packed_wait_time straggler_time unbalanced_straggler_time "
    "windowed_layer_span full_layer_span sequence_parts_context_balance_documents",
    by="simulator",
    source="documents drawn with seed 28, cut into sequences, their pairs counted on each rank; "
    "each document dealt out in 2 c pieces",
    tolerance=0.15,
)
def ranks_with_documents() -> Pairs:
    """2 to 16 ranks, documents of 20 to 7,000 tokens in sequences of 2,048, in three ways of cut"""
    for mean in (20, 70, 200, 700, 2000, 7000):
        begin = drawn(mean, 250)
        for ranks in (2, 4, 8, 16):
            chunks = np.arange(TOKENS).reshape(2 * ranks, -1)
            cuts = {
                "zigzag": [[chunks[r], chunks[-1 - r]] for r in range(ranks)],
                "contiguous": [[chunks[2 * r], chunks[2 * r + 1]] for r in range(ranks)],
            }
            run = {**MODEL, "document_length": mean, "context_parallel": ranks}
            models = (("mfu", 0), ("roofline", 560))
            for (balance, parts), (model, edges) in product(cuts.items(), models):
                times = ["attention_time", "straggler_time"]
                ours = values(times, **run, context_balance=balance, compute_model=model)
                slowest = slowest_over_mean(begin, parts, edges)
                yield 1 + ours["straggler_time"] / ours["attention_time"], slowest
            even = values(
                ["document_wait_time", "straggler_time"], **run, context_balance="documents"
            )
            yield even["straggler_time"] + even["document_wait_time"], 0
            for length in (2 * ranks, 6 * ranks, 40 * ranks):  # one padded document, dealt out
                piece = np.arange(length).reshape(2 * ranks, -1)
                dealt = [piece[r].sum() + piece[-1 - r].sum() + 2 * piece.shape[1] * 0.5
                         for r in range(ranks)]  # fmt: skip
                yield max(dealt) / np.mean(dealt), 1
