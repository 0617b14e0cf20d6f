"""The functions the graph reads: name = quantity, parameters = inputs and quantities it needs.

Where an option chooses between formulas, these are alternatives of one quantity (`@alternative`).
To add a quantity, write one function in one of these modules.
"""

MODULES = (
    "model",
    "precision",
    "compute",
    "layer_compute",
    "feed_forward",
    "communication",
    "tensor_traffic",
    "tensor_all_reduce",
    "tensor_halves",
    "pipeline_traffic",
    "context_traffic",
    "expert_traffic",
    "data_traffic",
    "gradient_links",
    "gradient_all_reduce",
    "gradient_halves",
    "sharding_groups",
    "activations",
    "working_memory",
    "stages",
    "memory",
    "offload",
    "link_sharing",
    "step",
    "failures",
    "checkpointing",
    "recovery",
    "goodput",
    "whole_run",
    "feasibility",
    "scale_out",
    "serving",
    "power",
    "cost",
)
