"""Inputs and quantities by role: other packages ask by role, and a test checks the names."""

from collections.abc import Callable, Mapping
from typing import Any

from .cost.roles import BESIDE_GPUS as BESIDE_GPUS
from .cost.roles import OF_SITE as OF_SITE
from .failures.roles import ALL_CAUSES as ALL_CAUSES
from .failures.roles import BESIDE_IT as BESIDE_IT
from .failures.roles import LEFT_OUT as _OF_FAILURES
from .failures.roles import LOST as LOST
from .failures.roles import MEASURED as MEASURED
from .failures.roles import PARTS_MTTF as PARTS_MTTF
from .failures.roles import SHARED_BY as SHARED_BY
from .failures.roles import UNPLAYED as UNPLAYED
from .layout.inputs import KEPT_PRODUCTS as KEPT_PRODUCTS
from .layout.inputs import MODULES as MODULES
from .layout.roles import RECOMPUTED as RECOMPUTED
from .learning.roles import FITTED as FITTED
from .learning.roles import UNCOUNTED as UNCOUNTED
from .memory.roles import ACCOUNT as ACCOUNT
from .memory.roles import PARTS as PARTS
from .memory.roles import RESERVED as RESERVED
from .memory.roles import TENSORS as TENSORS
from .memory.roles import WITHOUT_LATENTS as WITHOUT_LATENTS
from .model.roles import HEADS as HEADS
from .model.roles import LETTER_SETS as LETTER_SETS
from .model.roles import LETTERS as LETTERS
from .model.roles import MISSING_LETTER_SETS as MISSING_LETTER_SETS
from .model.roles import WHOLES as WHOLES
from .pipeline.roles import FOLDED_SCHEDULES as FOLDED_SCHEDULES
from .pipeline.roles import GROUP as GROUP
from .pipeline.roles import PAIRED_SCHEDULES as PAIRED_SCHEDULES
from .pipeline.roles import SPLIT as SPLIT
from .pipeline.roles import UNCHUNKED_SCHEDULES as UNCHUNKED_SCHEDULES
from .run.roles import BEFORE as BEFORE
from .run.roles import BEST_HIGH as BEST_HIGH
from .run.roles import BEST_LOW as BEST_LOW
from .run.roles import FACTORS as FACTORS
from .run.roles import FIRST as FIRST
from .run.roles import IN_STEPS as IN_STEPS
from .run.roles import LARGEST as LARGEST
from .run.roles import LEAST as LEAST
from .run.roles import LOSSES as LOSSES
from .run.roles import MEANS as MEANS
from .run.roles import OF_WHOLES as OF_WHOLES
from .run.roles import PHASED as PHASED
from .run.roles import REPAIR as REPAIR
from .run.roles import REPAIR_SPREAD as REPAIR_SPREAD
from .run.roles import SUMS as SUMS

# Quantities that judge a point
NEAR = "near_memory_limit"  # 1 where the error of the memory model decides it
LAYOUT_REASON = "arrangement_reason"  # why a neighbour cannot be laid out; 0 where it can
ROOM_REASONS: Mapping[str, str] = {  # why a cluster is too large, and what holds fewer
    "site_room_reason": 'the site holds, which "allocated_gpus <= powered_gpus" fills',
    "contract_reason": "the contract has; contract_limits = false rents others by the hour",
}
# Reasons that judge what reads an input and not the layout
ALSO_REASONS: Mapping[str, str] = {"serving_memory_reason": "serving_batch_size"}
# REASON judges all that depends on these: the layout, and the size of checkpoint tiers
LAYOUT = frozenset(
    {"data_parallel", "num_microbatches", "memory_tier_bytes", "drive_tier_bytes", "tiered_mtbf"}
    | {"longest_checkpoint_interval"}
)
# A quantity, the input that bounds it, and what it may not exceed where a point can be run
LIMITS: Mapping[str, tuple[str, str]] = {"memory_per_gpu": ("hbm_capacity", "memory_limit")}
MEMORY = ("memory_per_gpu", "memory_margin", "memory_per_gpu_high")  # a limit's line for people
LEADING = ("memory_per_gpu", "mfu", "expected_failures")  # what a page has next to time and cost
HEADROOM = "memory_headroom"  # the option by which what is recommended fits for sure

# A predicted quantity, the input that places it in its 90 % interval (-1 and 1: the ends, 0: the
# prediction), and the factor that is the interval's half; 1 where no interval is known
ERRORS: Mapping[str, tuple[str, str]] = {
    "step_time": ("step_time_error", "error_factor"),
    "decode_step_time": ("serving_time_error", "serving_error_factor"),
    "prefill_time": ("serving_time_error", "serving_error_factor"),
    "time_to_first_token": ("serving_time_error", "serving_error_factor"),
}
# as LEFT_OUT of failures: prices that a cost is without
LEFT_OUT: tuple[tuple[str, frozenset[str], str], ...] = (
    *_OF_FAILURES,
    (
        "storage_rent",
        frozenset({"job_cost"}),
        "not in job_cost; checkpoint_storage_cost is the rent of the space of checkpoints",
    ),
    (
        "storage_price",
        frozenset({"rented_gpu_cost"}),
        "not in the job_cost of rented GPUs; pricing = owned counts it",
    ),
)
# A batch that may be stated in tokens, the length of its sequences, an input that takes as many
BATCH = ("global_batch_size", "sequence_length", "training_tokens")
# What a person can multiply out, by the choice of COUNTING: a token's operations are those of its
# parameters and of its scores, so that a wrong count shows
COUNTING = "flops_counting"
_MATRICES = "6 * (active_parameters - looked_up_parameters)"
_ATTENTION = "attention_layers * sequence_length * attention_heads * head_size"
_BY_HAND = {
    "parameters": "6 * active_parameters",
    "transformer": f"({_MATRICES} + 12 * {_ATTENTION})",
    "transformer_causal": f"({_MATRICES} + 6 * {_ATTENTION})",
}
CHECKS: Mapping[str, Mapping[str, str]] = {
    counting: {
        "model_flops_per_token": flops,
        "step_time": f"global_batch_size * sequence_length * {flops} / (n_gpus * peak_flops * mfu)",
        "job_time": f"training_tokens * {flops} / (n_gpus * peak_flops * mfu)"
        " / (job_goodput * availability)",
    }
    for counting, flops in _BY_HAND.items()
}
# A predicted quantity, and the factor by which its measured values are off for all of a job
OF_JOB: Mapping[str, str] = {"step_time": "step_time_factor"}
# Parts and their ratios to the whole, for which an interval of the whole implies none
RATIOS_OF_PARTS = frozenset(
    {
        "bubble_overhead",
        "communication_fraction",
        "communication_overhead",
        "compute_inefficiency_overhead",
        "reliability_to_communication_ratio",
        "scaling_efficiency",
        "shared_step_time",
        "step_time_high",
        "step_time_low",
        "straggler_overhead",
        "sync_wall_gpus",
        "utilization_efficiency",
    }
)
# Intervals that are quantities themselves; they imply no others
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


# Inputs valid at multiples of a step: its formula, and the quantity that counts the steps
STEPS: Mapping[str, tuple[Callable[..., Any], str]] = {"n_gpus": (replica, "data_parallel")}

ORDERED_BY: Mapping[str, str] = {"model": "parameters"}  # records of a kind, the smallest first
# Sizes of a job that change which layout is best
SIZES = ("n_gpus", "sequence_length", "global_batch_size")

# Counts in whole units, whose size the scenario states
UNITS: Mapping[str, str] = {"n_gpus": "gpus_per_node"}

# How the ports of a cluster are joined: clusters that differ in this alone are one to a posterior
CABLING = frozenset(
    {
        *("gpus_per_switch", "gpus_per_pod", "nics_per_node", "cables_per_node"),
        *("oversubscription", "pod_oversubscription", "rail_optimized", "network_tiers"),
        *("inter_node_latency", "intra_node_latency", "site_latency"),
    }
)

# Inputs that run at multiples of a step alone, and the quantity that counts these
RUN_STEPS: Mapping[str, str] = {"global_batch_size": "num_microbatches"}

# Quantities that must be whole numbers where they are given, and the least value of each
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
# Counts that follow exactly from others, which formulas read as well
EXACT = ("data_parallel", "num_microbatches", "tokens_per_step", "microbatch_tokens", "nodes")
# Inputs that are shares of one whole: at most 1 in total
SHARES = (frozenset({"in_process_share", "in_job_share", "requeue_share"}),)

TIME = "job_time"  # added to the start date: when a job ends
DONE = "completion_time"  # counts from a contract's first delivery
ENDING = "job_end"  # whether its time counts that a job ends
FAILURES = "expected_failures"  # a count; far below 1 it is a probability
PRICES = ("gpu_hour_price", "node_price")  # of one kind of GPU or node
# Costs of an owner beyond its nodes, 0 by default
OWNING = (
    *("fabric_price", "building_price", "yearly_staff_cost"),
    *("maintenance_share", "interest_rate"),
)
UTILIZATION = "mfu"  # a share: above 1, steps are shorter than their operations take at peak
CUTS = frozenset({"tensor_parallel", "pipeline_parallel"})  # how a model is cut over GPUs
MONEY = "job_cost"  # measures the worth of levers, where a price is given

# Kinds of records of the catalog
LABELS = (
    *("calibration", "contract", "fabric", "gpu", "model", "node", "reliability", "site"),
    *("software", "storage"),
)

# Inputs spelled out in letters, and other places to give them
TEXTS: Mapping[str, str] = {
    "catalog": "name all files of a sweep there",
    "layer_pattern": "or an axis of its own",
    "pipeline_layout": "move its inputs along axes instead",
    "graph": "make a sweep with it and one without",
    "start_date": "say it there; phases begin as those before them end",
}

# How results are read
IN_HOURS = ("_mttf", "_mtbf")  # suffixes of lifetimes, which are never read in days
CROSSING = "reliability_to_communication_ratio"  # maps of flags draw a line where it is 1

# Defaults that are noted under tables. Where a second input is named, only if that is given, too:
# without pipelining there are no virtual stages
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
    "global_batch_size": "",
    "micro_batch_size": "",
    "zero_stage": "",
    "recompute": "",
    "sequence_parallel": "tensor_parallel",
}

# Of DECIDED: rules of defaults that are no numbers, and calibrated inputs; the rest are layout
RULES: Mapping[str, str] = {"training_tokens": "20 a parameter"}
# Inputs that decide an answer, which say so if nobody stated them
DECIDING = ("training_tokens", "sequence_length", *RUN_STEPS, "checkpoint_write_bandwidth")
# Times, and those that they should exceed, with the remark where one is a share of it, up to 1
EXCEEDED = {
    ("cluster_mtbf", "step_time"): "is down to {:.2g} steps: rates are of one GPU or other part; a "
    "job's own is cluster_mtbf",
    ("checkpoint_interval", "step_time"): "is down to {:.3g} steps: a run writes after whole ones",
    ("checkpoint_interval", "minimum_checkpoint_interval"): "lasts a write: storage never pauses",
    ("layer_gpu_time", "layer_launch_time"): "is {:.2g} of layer_launch_time: bound by launches of "
    "the host; cuda_graphs or fewer and larger micro-batches help",
}
# A formula of kernels that are slow where rows of a head are no multiple of so many bytes, and the
# widths of keys and values, whose mean is the first, of values, and of an element
UNALIGNED = ("standard_attention_core_time", 16)
HEAD_WIDTHS = ("head_size", "value_head_size", "bytes_per_element")
EFFICIENCIES = ("flops_efficiency", "gemm_efficiency", "attention_efficiency", "memory_efficiency")

# Other words for quantities: a name, or words to search for
OTHER_NAMES: Mapping[str, str] = {
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
# Other words for the choices of an option
SYNONYMS: Mapping[str, Mapping[str, str]] = {
    "context_parallel_type": {
        "ring": "p2p",
        "ulysses": "a2a",
        "usp": "a2a+p2p",
        "hybrid": "a2a+p2p",
    }
}
