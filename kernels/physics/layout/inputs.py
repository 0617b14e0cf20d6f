"""Inputs of the job's layout."""

import math

from ...declare import count, declared, option, share, switch

_MODULES = "core_attn layernorm mla_up_proj mlp moe moe_act shared_experts"  # Megatron-LM's names
MODULES = tuple(f"recompute_{module}" for module in _MODULES.split())
KEPT_PRODUCTS = tuple(
    f"keep_{tensor}" for tensor in ("qkv_proj", "context", "out_proj", "mlpwi")
)  # MaxText's

INPUTS = declared(
    "hardware",
    count("gpus_per_node", 8, "accelerators of one node"),
    "software",
    count("micro_batch_size", 1, "sequences of one micro-batch"),
    count("tensor_parallel", 1, "GPUs that share each layer"),
    count("pipeline_parallel", 1, "pipeline stages"),
    count("virtual_stages", 1, "model chunks on each pipeline stage"),
    count("context_parallel", 1, "GPUs that share each sequence"),
    count("expert_parallel", 1, "data-parallel ranks that share the routed experts"),
    option(
        "rank_order",
        "tp-cp-ep-dp-pp",
        ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"),
        "which ranks are neighbours, those of the first group nearest: pipeline stages or replicas "
        "farthest apart",
    ),
    count(
        "data_parallel_shard",
        8,
        "data-parallel ranks of one sharding group, with the context-parallel ranks of each",
    ),
    switch("sequence_parallel", "shard norms and residuals over tensor ranks"),
    option("attention_kernel", "flash", ("standard", "flash"), "how attention is computed"),
    option(
        "attention_precision",
        False,
        (False, "fp8"),
        "precision of attention's products, if not 16 bits (Megatron: fp8-dot-product-attention)",
    ),
    option(
        "recompute",
        "selective",
        (False, "selective", "modules", "alternate_products", "products", "full"),
        "activations computed twice: attention's scores (none under flash attention), the modules "
        "named by recompute_layernorm and its like, all but every other product and attention "
        "(torchtitan's selective_ac_option op), all but products (MaxText's remat_policy minimal, "
        "or others by keep_qkv_proj and its like), or whole layers",
        implied="modules",
        implied_by=MODULES,
    ),
    share("recompute_core_attn", "share of layers whose attention kernel runs again"),
    share(
        "recompute_layernorm",
        "share of layers whose norms run again, where no matrix is fused to them",
    ),
    share("recompute_mla_up_proj", "share of layers whose latents are projected up again"),
    share("recompute_mlp", "share of dense feed-forward blocks that run again"),
    share("recompute_moe", "share of layers whose routed and shared experts run again"),
    share("recompute_moe_act", "share of layers whose routed experts' activation runs again"),
    share("recompute_shared_experts", "share of layers whose shared experts run again"),
    switch(
        "whole_program",
        "a step is one compiled program (XLA): only what gradients read runs again, tensors never "
        "there together share memory, weights are gathered matrix by matrix",
    ),
    share("keep_qkv_proj", "share of layers that keep queries, keys and values (products)", 1.0),
    share("keep_context", "share of layers that keep attention's output (recompute = products)"),
    share("keep_out_proj", "share of layers that keep what its projection adds (products)", 1.0),
    share("keep_mlpwi", "share of layers that keep activations' inputs (products)", 1.0),
    count(
        "recomputed_layers",
        math.inf,
        "layers of each model chunk that are recomputed (recompute = full; infinite: all; "
        "Megatron's --recompute-method block)",
        low=0,
        may_be_infinite=True,
    ),
    count(
        "recompute_unit_layers",
        1,
        "layers recomputed together, from the input of the first (recompute = full; Megatron's "
        "--recompute-method uniform)",
    ),
    option(
        "pipeline_schedule",
        "1f1b",
        (
            "gpipe",
            "1f1b",
            "interleaved",
            "combined_1f1b",
            "zb_h1",
            "zb_v",
            "dualpipe",
            "dualpipev",
        ),
        "order of the micro-batches (1f1b is interleaved where stages hold several chunks)",
    ),
    "job",
    switch("multi_site", "the job runs on several sites, which a slow link joins", "sites"),
    count("n_gpus", None, "accelerators of the job"),
    count("sites", 1, "places that train one model; each holds whole replicas"),
    count("global_batch_size", 1024, "sequences of one step"),
)
