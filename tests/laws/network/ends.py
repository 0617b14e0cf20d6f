"""Exchanges of tensor ranks around the embedding, the logits and the loss, rank by rank."""

import itertools
from typing import Any

import numpy as np

from ...evaluated import values
from ..check import Pairs, check

TOKENS, HIDDEN, WORDS = 32, 16, 64
LINK, HOP = 1e9, 1e-7


class Ranks:
    """Tensor ranks with a part of the vocabulary each: what they send takes time on one clock."""

    def __init__(self, ranks: int, sequence: bool, product: float) -> None:
        self.ranks, self.sequence, self.product = ranks, sequence, product
        self.clock = self.sent = 0.0  # waits, and all that is sent

    def half(self, elements: int) -> float:
        """Time of a reduce-scatter or an all-gather round a ring, in two bytes an element."""
        return sum(HOP + 2 * elements / self.ranks / LINK for _ in range(self.ranks - 1))

    def send(self, time: float, hidden: bool = False) -> None:
        self.sent += time
        self.clock += max(0.0, time - self.product) if hidden else time

    def summed(self, parts: list[Any], hidden: bool = False) -> Any:
        """The parts' sum: on every rank, or scattered by tokens with sequence parallelism."""
        self.send((1 if self.sequence else 2) * self.half(parts[0].size), hidden)
        return np.sum(parts, axis=0)

    def gathered(self, whole: Any, hidden: bool = False) -> Any:
        if self.sequence:
            self.send(self.half(whole.size), hidden)
        return whole

    def all_reduced(self, rows: list[Any], fold: Any) -> Any:
        """One number a token, halving and doubling: few bytes, so that hops alone count."""
        distance = 1
        while distance < self.ranks:
            rows = [fold(rows[at], rows[at ^ distance]) for at in range(self.ranks)]
            self.send(2 * HOP)
            distance *= 2
        return rows[0]


def looked_up(of: Ranks, table: Any, words: Any) -> Any:
    parts = []
    for first in range(0, WORDS, WORDS // of.ranks):
        here = (words >= first) & (words < first + WORDS // of.ranks)
        parts.append(np.where(here[:, None], table[words], 0.0))
    found = of.summed(parts)
    of.gathered(found)  # of its gradient, backward
    return found


def loss_and_gradient(of: Ranks, table: Any, x: Any, words: Any) -> tuple[Any, Any, Any]:
    shards = [
        slice(first, first + WORDS // of.ranks) for first in range(0, WORDS, WORDS // of.ranks)
    ]
    x = of.gathered(x)
    logits = [x @ table[shard].T for shard in shards]
    top = of.all_reduced([part.max(axis=1) for part in logits], np.maximum)
    right = []
    for shard, part in zip(shards, logits, strict=True):
        here = (words >= shard.start) & (words < shard.stop)
        column = np.clip(words - shard.start, 0, part.shape[1] - 1)
        right.append(np.where(here, part[np.arange(TOKENS), column], 0.0))
    correct = of.all_reduced(right, np.add)
    total = of.all_reduced([np.exp(part - top[:, None]).sum(axis=1) for part in logits], np.add)
    losses = np.log(total) + top - correct
    changes = [np.exp(part - top[:, None]) / total[:, None] for part in logits]
    for shard, part in zip(shards, changes, strict=True):
        here = np.flatnonzero((words >= shard.start) & (words < shard.stop))
        part[here, words[here] - shard.start] -= 1
    of.gathered(x, hidden=True)  # for the weights' gradient, behind the product of the inputs'
    parts = [part @ table[shard] for shard, part in zip(shards, changes, strict=True)]
    gradient = of.summed(parts, hidden=True)  # behind the product of the weights'
    return losses, gradient, np.concatenate([part.T @ x for part in changes])


@check(
    "embedding_exchange_time logits_exchange_time hidden_logits_exchange_time",
    by="simulator",
    source="look-up, logits, loss and their gradients rank by rank, which agree with one rank's; "
    "their exchanges on one clock, beside the products that Megatron-LM starts first",
)
def ends_rank_by_rank() -> Pairs:
    """1 to 16 ranks, with and without sequence parallelism, 0 to 2 further tokens, 3 stages"""
    draw = np.random.default_rng(3)
    words, after = draw.integers(0, WORDS, size=(2, TOKENS))
    table = draw.normal(size=(WORDS, HIDDEN))
    for ranks, sequence, further, product in itertools.product(
        (1, 2, 8, 16), (False, True), (0, 1, 2), (0.0, 6e-7, 1.0)
    ):
        of, alone = Ranks(ranks, sequence, product), Ranks(1, False, 0.0)
        np.testing.assert_allclose(looked_up(of, table, words), table[words])
        first, of.clock, of.sent = of.clock, 0.0, 0.0
        for depth in range(1 + further):
            if depth:
                looked_up(of, table, words)
            for ours, one in zip(
                loss_and_gradient(of, table, table[words], after),
                loss_and_gradient(alone, table, table[words], after),
                strict=True,
            ):
                np.testing.assert_allclose(ours, one, atol=1e-12)
        stages, batches = 3, 5
        given = {"tensor_parallel": ranks, "sequence_parallel": sequence, "gpus_per_node": 16}
        given |= {"n_gpus": ranks * stages, "pipeline_parallel": stages, "all_reduce": "ring"}
        given |= {"sequence_length": TOKENS, "hidden_size": HIDDEN, "num_microbatches": batches}
        given |= {"intra_node_bandwidth": LINK, "intra_node_latency": HOP, "layers": stages}
        given |= {"inter_node_bandwidth": LINK}
        given |= {"prediction_layers": further} if further else {}
        passes = batches / stages
        given |= {"compute_time": 1e3, "attention_heads": 16}
        given |= {"logits_share": passes * (1 + further) * 3 * product / 1e3}
        names = ["embedding_exchange_time", "logits_exchange_time", "hidden_logits_exchange_time"]
        got = values(names, **given)
        yield got[names[0]], passes * first
        yield got[names[1]], passes * of.sent
        yield got[names[2]], passes * (of.sent - of.clock)
