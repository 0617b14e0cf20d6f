"""The functions the graph reads: name = quantity, parameters = inputs and quantities it needs.

Where an option chooses between formulas, the alternatives stand under one quantity
(`@alternative`). To add a quantity, write one function in one of these modules.
"""

MODULES = (
    "model",
    "compute",
    "layer",
    "communication",
    "tensor_traffic",
    "pipeline_traffic",
    "context_traffic",
    "expert_traffic",
    "data_traffic",
    "memory",
    "offload",
    "step",
    "reliability",
    "checkpoint",
    "job",
    "feasibility",
    "scaling",
    "serving",
    "power",
    "cost",
)
