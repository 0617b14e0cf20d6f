"""Inputs of the model."""

from ...declare import count, declared, option, switch

INPUTS = declared(
    "software",
    count("linear_chunk_size", 128, "tokens that a layer with a state works on at a time"),
    option(
        "frozen_weights",
        False,
        (False, "fp8", "nf4"),
        "their format, if not that of others: FP8 without a copy in 16 bits, or NF4 (QLoRA)",
    ),
    "job",
    switch("lora", "adapters of low rank are trained, all other weights frozen", "lora_rank"),
    count("lora_rank", 16, "rank of an adapter"),
    option(
        "lora_matrices",
        "all",
        ("all", "attention", "query_value"),
        "matrices that have an adapter: all, or attention's four, or two of them",
    ),
    count("sequence_length", 4096, "tokens of one sequence"),
    switch(
        "document_mask",
        "queries see the tokens of their own document only, of several packed into a sequence",
        "document_length",
    ),
    count("document_length", None, "tokens of a document, mean (exponential)"),
    "model",
    count("layers", None, "transformer layers", labels="model", part_of="parameters"),
    count(
        "hidden_size",
        None,
        "width of the residual stream",
        labels="model",
        part_of="parameters",
    ),
    switch("gated_ffn", "feed-forward layers with a gate: three matrices"),
    count("vocab_size", 51200, "tokens of the vocabulary"),
    switch(
        "sliding_window",
        (
            "queries of some layers or all see the last attention_window tokens only, or none "
            "(linear_layers)"
        ),
        "attention_window",
        "linear_layers",
    ),
    option(
        "linear_attention",
        False,
        (False, "mamba2", "gated_deltanet", "lightning", "kimi_delta"),
        "what the layers are that keep a state of fixed size in place of keys and values",
        implied="mamba2",
        implied_by=("linear_layers",),
    ),
    count("linear_layers", 0, "layers that keep a state in place of keys and values", low=0),
    count("linear_heads", None, "heads of a layer with a state", labels="model"),
    count("linear_head_size", 64, "width of a head of a layer with a state"),
    count("linear_key_heads", 8, "heads of keys of a layer with a state (groups of Mamba-2)"),
    count("linear_state_size", 128, "width of a key of a layer with a state"),
    count("linear_convolution_size", 4, "tokens of the short convolution before a state"),
    switch(
        "latent_attention",
        "all heads read one latent vector of a token, of which every tensor rank keeps a copy",
        "kv_elements_per_layer",
    ),
    count(
        "query_latent_size",
        0,
        "width that queries are projected down to before their heads (0: they are not)",
        low=0,
    ),
    count("rotary_key_size", 64, "width of the rotary key that heads of latent attention share"),
    count("latent_kv_elements", None, "numbers cached of a token", part_of="kv_elements_per_layer"),
    count("latent_weights", None, "of all projections", part_of="attention_parameters_per_layer"),
    switch("mixture_of_experts", "feed-forward layers of routed experts", "experts"),
    count("experts", 8, "routed experts of one layer"),
    count("experts_per_token", 2, "routed experts that each token visits"),
    count("shared_experts", 0, "experts of one layer that every token visits", low=0),
    count("dense_layers", 0, "layers of a mixture of experts that are dense", low=0),
    count(
        "prediction_layers",
        0,
        "modules of multi-token prediction: a layer, a projection and logits each, on the last "
        "stage, not in `parameters`",
        low=0,
    ),
    switch(
        "multi_token_prediction",
        "modules behind the last layer predict further tokens",
        "prediction_layers",
    ),
)
