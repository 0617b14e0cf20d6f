"""Collectives, played or derived anew."""

from fleetcube.kernels import collectives

from .check import Pairs, check


@check(
    "ring_all_reduce_time",
    by="simulator",
    source="a ring played hop by hop: n - 1 hops to add up, n - 1 to copy, of an n-th each",
)
def ring_all_reduce() -> Pairs:
    """2 to 64 ranks, 1 B to 10 GB"""
    for ranks in (1, 2, 3, 8, 64):
        for message in (1.0, 1e6, 1e10):
            clock = 0.0
            for _ in range(2 * (ranks - 1)):
                clock += 5e-6 + message / ranks / 50e9
            yield collectives.ring_all_reduce_time(message, ranks, 5e-6, 50e9), clock
