"""Inputs of tensor parallelism."""

from ...declare import declared, share, switch

INPUTS = declared(
    "software",
    switch(
        "distribute_saved_activations",
        (
            "tensor ranks share the layer inputs that full recompute keeps (as "
            "sequence_parallel does)"
        ),
    ),
    share(
        "tensor_parallel_overlap", "share of tensor traffic sent while part of its products runs"
    ),
)
