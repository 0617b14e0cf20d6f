"""Inputs of serving."""

from ...declare import count, declared, real, switch

INPUTS = declared(
    "software",
    real("kv_bytes_per_element", "B", 2, "size of a key or value in the cache"),
    switch(
        "data_parallel_attention",
        "each GPU of a replica holds all attention weights, and serves requests of its own",
    ),
    "job",
    count("serving_batch_size", 1, "sequences that a replica decodes at once"),
    count("prompt_tokens", 1024, "tokens of one prompt", low=0),
    count("output_tokens", 256, "tokens of one answer"),
    real("request_rate", "1/s", 1.0, "requests of all users"),
)
