"""Inputs of context parallelism."""

from ...declare import declared, option

INPUTS = declared(
    "software",
    option(
        "context_parallel_type",
        "p2p",
        ("p2p", "all_gather", "a2a", "a2a+p2p"),
        "how they do: a ring of keys and values, all of them gathered, heads shared out "
        "(Ulysses), or that inside a node and a ring across",
    ),
    option(
        "context_balance",
        "zigzag",
        ("zigzag", "contiguous", "documents"),
        "parts of a sequence that each holds: an early and a late one, one (a causal mask then "
        "gives the last of them most to do), or an early and a late one of each document",
    ),
)
