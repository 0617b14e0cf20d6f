"""The physics by topic: each topic depends only on those above it in this list.

A quantity is a function named after what it computes; its parameters are inputs and other
quantities. Formulas that an option chooses between are alternatives of one quantity
(`@alternative`). To add a quantity, write one function in a module of its topic.
"""

TOPICS: dict[str, tuple[str, ...]] = {  # their modules
    "model": ("adapters", "layer_kinds", "shape"),
    "precision": ("formats",),
    "layout": ("layout", "recompute"),
    "network": ("network_tiers", "reasons"),
    "failures": ("failures", "outages"),
    "learning": ("loss",),
    "context": ("context_links", "context_ring", "context_ways", "reasons"),
    "checkpoints": ("checkpointing", "elastic", "recovery", "tiers"),
    "experts": ("expert_links", "expert_traffic", "feed_forward", "reasons"),
    "compute": ("casts", "ends", "layer_time", "states", "work"),
    "tensor": ("tensor_all_reduce", "tensor_halves", "tensor_links", "tensor_traffic"),
    "pipeline": ("pipeline_links", "pipeline_traffic", "reasons", "schedules", "stage_layers"),
    "data": (
        "data_links",
        "gradient_all_reduce",
        "gradient_halves",
        "gradients",
        "reasons",
        "replicas",
    ),
    "memory": ("activations", "fullest_stage", "gpu_memory", "muon", "offload", "working_memory"),
    "torus": ("reasons", "torus_traffic"),
    "step": ("exposed", "link_sharing", "slow_nodes", "stage_imbalance", "step"),
    "sites": ("sites",),
    "run": (
        "checkpoint_storage",
        "goodput",
        "reasons",
        "scale_out",
        "training_stages",
        "whole_run",
    ),
    "cost": ("contract", "owning", "power", "prices", "site"),
    "serving": ("serving",),
    "feasibility": ("verdict",),
}

MODULES = tuple(f"{topic}.{module}" for topic, modules in TOPICS.items() for module in modules)
