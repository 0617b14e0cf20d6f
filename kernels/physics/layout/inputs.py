"""Inputs of the job's layout."""

from ...declare import count, declared, option, switch

INPUTS = declared(
    "hardware",
    count("gpus_per_node", 8, "accelerators of one node"),
    "software",
    count("micro_batch_size", 1, "sequences of one micro-batch"),
    count("tensor_parallel", 1, "GPUs that share each layer"),
    count("pipeline_parallel", 1, "pipeline stages"),
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
    option(
        "recompute",
        "selective",
        (False, "selective", "core_attention", "full"),
        "activations computed twice: attention's scores (none under flash attention), its forward "
        "kernel, or whole layers",
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
