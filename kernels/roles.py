"""Which quantity plays which role, for the rooms above: they ask by role and write no names.

Constants are names of inputs and quantities; a test holds each against the graph.
"""

from collections.abc import Callable, Mapping
from typing import Any

# What judges a point
REASON = "infeasible_reason"  # why it cannot be run; 0 where it can
NEAR = "near_memory_limit"  # 1 where the error of the limits' model decides over that
LAYOUT_REASON = "arrangement_reason"  # why a neighbour cannot be laid out; 0 where it can
LAYOUT = frozenset({"data_parallel", "num_microbatches"})  # what they reach depends on the layout
# A quantity, and the inputs whose product it may not exceed where a point can be run
LIMITS: Mapping[str, tuple[str, ...]] = {"memory_per_gpu": ("hbm_capacity", "memory_error_factor")}

# A predicted quantity, the input that says where in its 90 % interval it is (-1 and 1 are the ends,
# 0 the prediction), and the factor that is the interval's half; 1 where no interval is known
ERRORS: Mapping[str, tuple[str, str]] = {"step_time": ("step_time_error", "error_factor")}
# What sets parts beside the whole, which an interval of the whole says nothing of
PARTED = frozenset(
    {
        "bubble_overhead",
        "communication_fraction",
        "communication_overhead",
        "compute_inefficiency_overhead",
        "raw_communication_fraction",
        "reliability_to_communication_ratio",
        "scaling_efficiency",
        "step_time_high",
        "step_time_low",
        "step_to_communication_ratio",
        "straggler_overhead",
        "sync_wall_gpus",
        "utilization_efficiency",
    }
)
# Intervals that are quantities: no others follow from them
ENDS: Mapping[str, tuple[str, str]] = {
    "memory_per_gpu": ("memory_per_gpu_low", "memory_per_gpu_high"),
}


def replica(tensor_parallel: Any, pipeline_parallel: Any, context_parallel: Any) -> Any:
    """GPUs of one replica: the step from one valid cluster to the next.

    t p c

    Parameters: tensor_parallel [1], pipeline_parallel [1], context_parallel [1]
    Returns: [1] GPUs
    Source: Narayanan et al. 2021 (SC21), section 3.1
    """
    return tensor_parallel * pipeline_parallel * context_parallel


# Inputs that are valid at multiples of a step: its formula, and the quantity that counts the steps
STEPS: Mapping[str, tuple[Callable[..., Any], str]] = {"n_gpus": (replica, "data_parallel")}

# Quantities that count whole things where they are given, and the least of each
COUNTS: Mapping[str, float] = {
    "first_stage_layers": 0,
    "middle_stage_layers": 0,
    "last_stage_layers": 0,
    "pipeline_stage": 1,
    "attention_layers": 0,
    "ffn_layers": 0,
    "expert_tensor_parallel": 1,
    "microbatch_group_size": 1,
    "torus_dimensions": 1,
    "torus_z": 1,
}

# Inputs that are shares of one whole, with the rest: together at most 1
SHARES = (frozenset({"in_process_share", "in_job_share", "requeue_share"}),)

# A total that a label states is void where one of its parts is given otherwise
_HEADS = frozenset({"hidden_size", "attention_heads", "kv_heads", "head_size"})
_SHAPE = _HEADS | frozenset(
    {
        "layers",
        "ffn_hidden_size",
        "gated_ffn",
        "vocab_size",
        "embedding_tables",
        "mixture_of_experts",
        "experts",
        "expert_ffn_hidden_size",
        "shared_experts",
        "dense_layers",
        "expert_input_width",
        "attention_layers",
        "ffn_layers",
        "linear_attention",
        "linear_layers",
        "linear_heads",
        "linear_head_size",
        "linear_key_heads",
        "linear_state_size",
    }
)
_COUNTED = _SHAPE | {"parameters", "experts_per_token"}
WHOLES: Mapping[str, frozenset[str]] = {
    "parameters": _SHAPE,
    "active_parameters": _COUNTED,
    "looked_up_parameters": _COUNTED | {"active_parameters"},
    "attention_parameters_per_layer": _HEADS,
    "kv_elements_per_layer": _HEADS,
    "node_power": frozenset({"gpu", "gpu_tdp", "node_overhead_power", "gpus_per_node"}),
}

# A pipeline's layout, written out: what it sets
SPLIT: Mapping[str, str] = {
    "all": "layers",
    "stages": "pipeline_parallel",
    "chunks": "virtual_stages",
    "schedule": "pipeline_schedule",
    "first": "first_stage_layers",
    "middle": "middle_stage_layers",
    "last": "last_stage_layers",
    "predicting": "prediction_layers",
    "first kept": "first_stage_kept_ratio",
    "middle kept": "middle_stage_kept_ratio",
    "last kept": "last_stage_kept_ratio",
}

# What a scenario spells out in letters: where else it may stand
TEXTS: Mapping[str, str] = {
    "layer_pattern": "or an axis of its own",
    "pipeline_layout": "move its inputs along axes instead",
}
FOLDED = ("zb_v", "dualpipev")  # schedules whose pieces come back to the first stage
UNCHUNKED = ("gpipe", "zb_h1", "dualpipe")  # those with one piece on each stage
AHEAD = ("combined_1f1b",)  # those that run further ahead than interleaved passes
GROUP = "microbatch_group_size"

# A pattern of layers: the letters of layers, what each counts for, and what it says of the kind
LETTERS: Mapping[str, tuple[str, ...]] = {
    "M": ("layers", "linear_layers"),
    "G": ("layers", "linear_layers"),
    "*": ("layers", "attention_layers"),
    "-": ("layers", "ffn_layers", "dense_layers"),
    "E": ("layers", "ffn_layers"),
}
SAID: Mapping[str, Mapping[str, Any]] = {
    "M": {"linear_attention": "mamba2"},
    "G": {"linear_attention": "gated_deltanet"},
    "": {"mixture_of_experts": True},  # feed-forward blocks are counted
}
UNSAID: Mapping[str, Mapping[str, Any]] = {  # said where a letter is missing
    "E": {"experts": 1, "experts_per_token": 1},
    "MG": {"linear_attention": "mamba2"},
}

# How results are read
IN_HOURS = ("_mttf", "_mtbf")  # endings of lifetimes, which nobody reads in days
CROSSING = "reliability_to_communication_ratio"  # where it is 1, a line crosses maps of flags

# Other words of the field: a name, or words to search for
MEANT: Mapping[str, str] = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "dp": "data_parallel",
    "cp": "context_parallel",
    "ep": "expert_parallel",
    "gbs": "global_batch_size",
    "mbs": "micro_batch_size",
    "tco": "cost",
    "training_time": "job_time",
    "memory_by_stage": "pipeline_stage",
    "hsdp": "hybrid_sharding",
    "mtp": "prediction_layers",
}
# Of choices: the option's own word
CHOSEN: Mapping[str, Mapping[str, str]] = {
    "context_parallel_type": {
        "ring": "p2p",
        "ulysses": "a2a",
        "usp": "a2a+p2p",
        "hybrid": "a2a+p2p",
    }
}
