"""Inputs of pipeline parallelism."""

from ...declare import count, declared, option, switch

INPUTS = declared(
    "software",
    option(
        "stage_split",
        False,
        (False, "whole_layers"),
        "what pipeline stages hold: equal shares of all, or whole layers, embedding and logits at "
        "the ends (false: smooth, for derivatives by layers and stages)",
        implied="whole_layers",
        implied_by=("pipeline_parallel", "prediction_layers"),
    ),
    count(
        "embedding_split_layers",
        0,
        "layers that the embedding counts as in the split (Megatron's "
        "--account-for-embedding-in-pipeline-split: 1)",
        low=0,
    ),
    count(
        "loss_split_layers",
        0,
        "layers that logits and loss count as in the split (Megatron's "
        "--account-for-loss-in-pipeline-split: 1)",
        low=0,
    ),
    option(
        "pipeline_scheduler",
        "megatron",
        ("megatron", "pytorch"),
        "whose rules say which interleaved schedules run, and in groups of how many micro-batches",
    ),
    option(
        "pipeline_flush",
        True,
        (True, False),
        "stages wait for each other between steps (zb_v can do without)",
    ),
    option(
        "pipeline_sends",
        "auto",
        ("auto", "blocking", "asynchronous"),
        "whether stages wait for their sends or compute on (auto: asynchronous where they hold "
        "several pieces of the model, as in Megatron-Core)",
    ),
    switch("scatter_gather", "stages send a part per tensor rank"),
)
