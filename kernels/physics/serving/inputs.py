"""Inputs of serving."""

from ...declare import count, declared, option, real, switch

INPUTS = declared(
    "software",
    option("kv_cache_precision", "bf16", ("bf16", "fp8"), "format of the KV cache (bf16: 16 bits)"),
    switch(
        "data_parallel_attention",
        "each GPU of a replica holds all attention weights, and serves requests of its own",
    ),
    switch("serving_traffic", "all-reduces of a replica's GPUs take time", "tensor_parallel"),
    switch("serving_fabric", "a replica may lie on several nodes", "inter_node_bandwidth"),
    real(
        "direct_exchange_start",
        "s",
        5e-6,
        "launch and barrier of a small all-reduce (2 to 8 H100: 3.7 to 5.9 us, SGLang pull 2904)",
        positive=False,
    ),
    switch(
        "disaggregated_prefill",
        "replicas of their own read prompts and send the KV cache on (else each does both)",
    ),
    "job",
    count("serving_batch_size", 1, "sequences that a replica decodes at once"),
    count("prompt_tokens", 1024, "tokens of one prompt", low=0),
    count("output_tokens", 256, "tokens of one answer"),
    real("request_rate", "1/s", 1.0, "requests of all users"),
    "model",
    real(
        "serving_error_factor",
        "1",
        2.3,
        "factor by which predicted and measured rates of serving differ at most, in 90 of 100 "
        "published rows (docs/accuracy.md)",
        low=1.0,
    ),
    real(
        "serving_time_error",
        "1",
        0.0,
        "where in its interval the time of serving is: -1 at its lower end, 0 as predicted, 1 at "
        "its upper end",
        low=-4.0,
        high=4.0,
        positive=False,
    ),
    switch(
        "shifted_serving_time",
        "the time of serving is not as predicted, but elsewhere in its interval",
        "serving_time_error",
    ),
)
