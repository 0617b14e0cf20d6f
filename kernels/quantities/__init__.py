"""The functions the graph reads: name = quantity, parameters = inputs and quantities it needs.

Where an option chooses between formulas, the alternatives stand under one quantity
(`@alternative`). To add a quantity, write one function in one of these modules.
"""

MODULES = (
    "model",
    "compute",
    "communication",
    "tensor_traffic",
    "pipeline_traffic",
    "data_traffic",
    "step",
    "reliability",
    "checkpoint",
    "recovery",
    "goodput",
    "job",
    "feasibility",
)
