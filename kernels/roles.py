"""Which quantity plays which role, for the rooms above: they ask by role and write no names.

Constants are names of inputs and quantities; a test holds each against the graph.
"""

from collections.abc import Callable, Mapping
from typing import Any

# What judges a point
REASON = "infeasible_reason"  # why it cannot be run; 0 where it can
NEAR = "near_memory_limit"  # 1 where the error of the limits' model decides over that
LAYOUT_REASON = "arrangement_reason"  # why a neighbour cannot be laid out; 0 where it can
# What they reach is judged by REASON: the layout, and tiers of checkpoints, which must hold them
LAYOUT = frozenset(
    {"data_parallel", "num_microbatches", "memory_tier_bytes", "drive_tier_bytes", "tiered_mtbf"}
)
# A quantity, and the inputs whose product it may not exceed where a point can be run
LIMITS: Mapping[str, tuple[str, ...]] = {"memory_per_gpu": ("hbm_capacity", "memory_error_factor")}

# A predicted quantity, the input that says where in its 90 % interval it is (-1 and 1 are the ends,
# 0 the prediction), and the factor that is the interval's half; 1 where no interval is known
ERRORS: Mapping[str, tuple[str, str]] = {"step_time": ("step_time_error", "error_factor")}
# Ratios of parts to the whole, of which an interval of the whole says nothing
RATIOS_OF_PARTS = frozenset(
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
    "drive_copy_every": 1,
    "storage_copy_every": 1,
    "torus_dimensions": 1,
    "torus_z": 1,
}

# Quantities that are above 0 where they are given
POSITIVE = frozenset(
    {
        "critical_batch_tokens",
        "parameter_loss_scale",
        "parameter_loss_exponent",
        "token_loss_scale",
        "token_loss_exponent",
    }
)
# An input that is 0 or at least as large as another
GROWING: Mapping[str, str] = {"drive_tier_survival": "memory_tier_survival"}
# Inputs that are shares of one whole, with the rest: together at most 1
SHARES = (frozenset({"in_process_share", "in_job_share", "requeue_share"}),)

# What the wall time is lost to, in the order of the flags of dominant_overhead
LOSSES = (
    "compute_inefficiency_overhead",
    "communication_overhead",
    "bubble_overhead",
    "straggler_overhead",
    "checkpoint_overhead",
    "rework_overhead",
    "recovery_overhead",
)

TIME = "job_time"  # after the day of a start: when a job ends
MONEY = "job_cost"  # what levers are worth, where a price is stated
# A total that a label states is void where one of its parts is given otherwise
HEADS = frozenset({"hidden_size", "attention_heads", "kv_heads", "head_size"})
_SHAPE = HEADS | frozenset(
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
    "attention_parameters_per_layer": HEADS,
    "kv_elements_per_layer": HEADS,
}
# A total that a node's label states: what it sets is the rest beside so many GPUs of so much each,
# so that the total follows where these are others
BESIDE_GPUS: Mapping[str, tuple[str, str, str]] = {
    "node_power": ("node_overhead_power", "gpus_per_node", "gpu_tdp")
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
    "start_date": "say it there; phases begin as those before them end",
}
FOLDED_SCHEDULES = ("zb_v", "dualpipev")  # schedules whose pieces come back to the first stage
UNCHUNKED_SCHEDULES = ("gpipe", "zb_h1", "dualpipe")  # those with one piece on each stage
SCHEDULES_AHEAD = ("combined_1f1b",)  # those that run further ahead than interleaved passes
GROUP = "microbatch_group_size"

# A pattern of layers: the letters of layers, what each counts for, and what it says of the kind
LETTERS: Mapping[str, tuple[str, ...]] = {
    "M": ("layers", "linear_layers"),
    "G": ("layers", "linear_layers"),
    "*": ("layers", "attention_layers"),
    "-": ("layers", "ffn_layers", "dense_layers"),
    "E": ("layers", "ffn_layers"),
}
LETTER_SETS: Mapping[str, Mapping[str, Any]] = {
    "M": {"linear_attention": "mamba2"},
    "G": {"linear_attention": "gated_deltanet"},
    "": {"mixture_of_experts": True},  # feed-forward blocks are counted
}
MISSING_LETTER_SETS: Mapping[str, Mapping[str, Any]] = {  # said where a letter is missing
    "E": {"experts": 1, "experts_per_token": 1},
    "MG": {"linear_attention": "mamba2"},
}

# An input with an effect that only one formula counts, and what is said where this is not in use
UNCOUNTED: Mapping[str, tuple[str, str]] = {
    "global_batch_size": (
        "critical_tokens_to_target",
        "quality is not counted: each token is taken to teach as much in a batch of any size; "
        "batch_quality = critical counts the tokens that larger ones take",
    ),
}
# Quantities whose formulas are fitted to runs: by choice, the values that others had in these
_RUNS = {"active_parameters": (7e7, 1.6e10), "trained_tokens": (5e9, 5e11)}
FITTED: Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "token_loss_exponent": {"besiroglu": _RUNS, "hoffmann": _RUNS},
    "critical_batch_tokens": {
        "bergsma": {"trained_tokens": (2.2e9, 1.4e11)},
        "zhang": {"trained_tokens": (1.7e9, 2.4e10)},
        "kaplan": {"loss": (3.0, 10.0)},
    },
}
# Inputs that quantities leave out, and what is said where one is above 0 and these are in use
LEFT_OUT: Mapping[str, tuple[frozenset[str], str]] = {
    "correlated_failure_fraction": (
        frozenset(
            {
                "spare_left_probability",
                "whole_pool_probability",
                "whole_safe_pool_probability",
                "nodes_beyond_spares",
            }
        ),
        "spares are counted as if nodes failed one by one, in groups they run out otherwise: "
        "fleetcube simulate plays it",
    ),
}

# Inputs that a simulation leaves out, and what it says of them where they are above 0
UNPLAYED: Mapping[str, str] = {
    "maintenance_fraction": "maintenance is not played: the job is there all the time",
    "site_mttf": "an outage of a site is played as a failure, the wait for the site is not",
}

# How results are read
IN_HOURS = ("_mttf", "_mtbf")  # endings of lifetimes, which nobody reads in days
CROSSING = "reliability_to_communication_ratio"  # where it is 1, a line crosses maps of flags

# What a default decides is said under tables. A part of the layout counts where another input is
# given, too: what is not pipelined has no virtual stages
DECIDED: Mapping[str, str] = {
    "training_tokens": "",
    "flops_efficiency": "",
    "gemm_efficiency": "",
    "attention_efficiency": "",
    "memory_efficiency": "",
    "tensor_parallel": "",
    "pipeline_parallel": "",
    "virtual_stages": "pipeline_parallel",
    "context_parallel": "",
    "expert_parallel": "experts",
    "micro_batch_size": "",
    "zero_stage": "",
    "recompute": "",
    "sequence_parallel": "tensor_parallel",
}

# Of these, the rule of what is no number, and what a calibration gives; others are of the layout
RULES: Mapping[str, str] = {"training_tokens": "20 a parameter"}
EFFICIENCIES = ("flops_efficiency", "gemm_efficiency", "attention_efficiency", "memory_efficiency")

# A job in phases: what each must state of itself, and what the whole is of what they are. Other
# quantities have a value in each phase and none of the job
PHASED = "training_tokens"
BEFORE = ("earlier_tokens", "tokens_before")  # those before the job; a phase adds those before it
_WALL = ("job_time", "availability")
_STEPS = ("training_steps", "step_time")
_GPU_STEPS = (*_STEPS, "n_gpus")
SUMS = frozenset(
    {
        "attempted_steps",
        "carbon_emissions",
        "checkpoints_written",
        "electricity_cost",
        "energy",
        "expected_failures",
        "failed_nodes",
        "gpu_cost",
        "gpu_hours",
        "ideal_job_time",
        "job_cost",
        "job_duration",
        "job_time",
        "time_at_risk",
        "tokens_to_target",
        "training_steps",
        "training_tokens",
        "transition_wait",
        "working_time",
    }
)
MEANS: Mapping[str, tuple[str, ...]] = {  # over the product of these
    "availability": ("job_time",),
    "bubble_fraction": _STEPS,
    "bubble_overhead": _WALL,
    "checkpoint_overhead": _WALL,
    "communication_fraction": _STEPS,
    "communication_overhead": _WALL,
    "compute_inefficiency_overhead": _WALL,
    "effective_flops": _WALL,
    "ettr": _WALL,
    "goodput": _WALL,
    "hfu": (*_GPU_STEPS, "peak_flops"),
    "mfu": (*_GPU_STEPS, "peak_flops"),
    "model_flops_per_gpu": _GPU_STEPS,
    "recovery_overhead": _WALL,
    "reliability_overhead": _WALL,
    "rework_overhead": _WALL,
    "step_to_communication_ratio": ("training_steps", "exposed_communication_time"),
    "straggler_overhead": _WALL,
    "tokens_per_second": _STEPS,
    "transition_share": ("job_time",),
    "useful_compute_share": _WALL,
    **{
        f"{tier}_tier_{loss}": _WALL
        for tier in ("memory", "drive", "storage")
        for loss in ("overhead", "rework")
    },
}
LARGEST = frozenset(
    {
        "allocated_gpus",
        "allocated_nodes",
        "facility_power",
        "it_power",
        "memory_per_gpu",
        "memory_per_gpu_high",
        "memory_per_gpu_low",
        "near_memory_limit",
        "racks",
        "compute_optimal_parameters",
        "overtraining",
        "trained_tokens",
    }
)
LEAST = frozenset({"compute_optimal_loss", "feasible", "loss", "memory_margin", "tokens_before"})
FIRST = frozenset({REASON})  # that is not 0
OF_WHOLES = frozenset(  # whose formula holds for the wholes of what it reads
    {
        "cost_per_million_tokens",
        "dominant_overhead",
        "energy_per_token",
        "lifetime_flops",
        "reliability_to_communication_ratio",
        "reliability_to_useful_ratio",
    }
)

# Other words of the field: a name, or words to search for
MEANT: Mapping[str, str] = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "dp": "data_parallel",
    "cp": "context_parallel",
    "ep": "expert_parallel",
    "gbs": "global_batch_size",
    "mbs": "micro_batch_size",
    "critical_batch_size": "critical_batch_tokens",
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
