"""Inputs of compute."""

import math

from ...declare import declared, option, real, switch

INPUTS = declared(
    "software",
    real(
        "flops_efficiency",
        "1",
        0.45,
        "share of peak while computing: no bubble, no communication (compute_model = mfu)",
        high=1.0,
    ),
    real(
        "attention_efficiency",
        "1",
        0.5,
        "share of peak of the attention kernel over long sequences (roofline)",
        high=1.0,
    ),
    real(
        "layer_overhead_time",
        "s",
        0.0,
        "waits between kernels, and small ones that no formula counts, of all passes of a "
        "micro-batch through a layer (roofline)",
        positive=False,
    ),
    real(
        "layer_host_time",
        "s",
        0.0,
        "launches by the host, of all passes of a micro-batch through a layer: the GPU waits where "
        "it is faster (roofline; eager Megatron: 3.3 to 3.5 ms)",
        positive=False,
    ),
    switch("cuda_graphs", "layers are replayed as graphs, which the host launches at once"),
    real(
        "graph_wait_share",
        "1",
        0.25,
        "share of layer_overhead_time that is left where layers are replayed as graphs (roofline; "
        "NeMo: 0.1, Megatron-Bridge: 0.25 to 0.4)",
        positive=False,
        high=1.0,
    ),
    "model",
    real(
        "attention_window",
        "1",
        math.inf,
        "tokens that a query of a windowed layer sees, its own counted (infinite: all before it)",
        low=1.0,
        may_be_infinite=True,
    ),
    option("compute_model", "mfu", ("mfu", "roofline"), "how compute time is predicted"),
    option(
        "flops_counting",
        "transformer_causal",
        ("parameters", "transformer", "transformer_causal"),
        "convention of mfu and other reports, never of times: 6 N D, or matrix by matrix with "
        "attention (whole, or without what a causal mask hides) and logits",
        convention=True,
    ),
)
