"""Inputs of data parallelism."""

import math

from ...declare import declared, option, real, share, switch

INPUTS = declared(
    "software",
    real(
        "gradient_bytes_per_element",
        "B",
        2,
        "size of a gradient on the wire (4 where they are added in FP32)",
    ),
    option(
        "zero_stage",
        1,
        (0, 1, 2, 3),
        "what data-parallel ranks shard: optimizer states, gradients too, weights too (2 and 3 "
        "exchange at every micro-batch)",
    ),
    switch(
        "hybrid_sharding",
        (
            "shard within groups of data_parallel_shard replicas, and replicate across them "
            "(HSDP, MiCS, instances of a distributed optimizer)"
        ),
        "data_parallel_shard",
    ),
    option(
        "gradient_sync",
        "microbatch",
        ("microbatch", "two_hop", "step"),
        "when ZeRO-2 and 3 reduce gradients: at every micro-batch, between sharding groups once a "
        "step (two_hop), or all once a step, unsharded until then (no_sync)",
    ),
    option(
        "reshard_after_forward",
        True,
        (True, False),
        "ZeRO-3 gathers weights again for the backward pass (else they stay until gradients are "
        "reduced)",
    ),
    real(
        "bucket_bytes",
        "B",
        math.inf,
        "gradients sent at a time (infinite: all at once)",
        may_be_infinite=True,
    ),
    real("gradient_compression", "1", 1.0, "bytes of the gradients over bytes sent"),
    share("data_parallel_overlap", "share of its window that hides gradient traffic"),
    switch("fsdp_prefetch", "gather ZeRO-3 weights ahead in both passes"),
)
