"""Inputs of mixtures of experts."""

import math

from ...declare import declared, option, real, share, switch

INPUTS = declared(
    "software",
    option(
        "expert_dispatch",
        "per_expert",
        ("per_expert", "per_node", "all_gather"),
        "tokens travel once for each expert they visit; for each node, and spread there; or to "
        "all ranks (Megatron-LM: alltoall, flex, allgather)",
        implied="per_node",
        implied_by=("routing_nodes",),
    ),
    option(
        "grouped_products",
        "separate",
        ("separate", "fused"),
        "products of routed experts, and what is between them: kernels of their own, or parts of "
        "one kernel for all experts of a GPU (TransformerEngine's grouped MLP; precision = mxfp8)",
    ),
    switch(
        "shared_expert_overlap",
        "shared experts compute during the traffic of routed ones, and hide it",
    ),
    share("expert_parallel_overlap", "share of compute that hides expert traffic"),
    real(
        "expert_launch_time",
        "s",
        1e-5,
        "start of one matrix product of a routed expert, where each is a kernel of its own "
        "(grouped_products = separate; roofline; 0: one kernel for all)",
        positive=False,
    ),
    "model",
    switch("expert_biases", "results of routed experts have biases (Megatron-LM: add_bias_linear)"),
    real(
        "routing_nodes",
        "1",
        math.inf,
        "nodes whose experts a token may visit (infinite: those of all)",
        low=1.0,
        may_be_infinite=True,
    ),
    real(
        "expert_load_imbalance",
        "1",
        1.0,
        "tokens of the busiest rank's experts over the mean (expert_capacity = unlimited, dropped)",
        low=1.0,
    ),
    real(
        "capacity_factor",
        "1",
        1.25,
        "most tokens that an expert takes, over the mean (expert_capacity = padded, dropped)",
        low=1.0,
    ),
    option(
        "expert_capacity",
        "unlimited",
        ("unlimited", "padded", "dropped"),
        "experts take all tokens; or buffers of capacity_factor, filled up; or no more tokens than "
        "that",
        implied="padded",
        implied_by=("capacity_factor",),
    ),
)
