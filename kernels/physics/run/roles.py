"""Roles of a run: losses of time, and how phases add up to the whole job."""

from collections.abc import Mapping

# losses of wall time, in the order of the flags of dominant_overhead
LOSSES = (
    "compute_inefficiency_overhead",
    "communication_overhead",
    "bubble_overhead",
    "straggler_overhead",
    "checkpoint_overhead",
    "rework_overhead",
    "recovery_overhead",
)
# outputs of which more is better, and how names of those end of which less is; else it depends
BEST_HIGH = frozenset(
    {
        *("amdahl_speedup", "attainable_flops", "availability", "cluster_mtbf"),
        *("decode_tokens_per_second", "effective_flops", "ettr", "goodput", "gustafson_speedup"),
        *("hfu", "job_goodput", "memory_margin", "mfu", "model_flops_per_gpu"),
        *("output_tokens_per_second", "scaling_efficiency", "spare_availability"),
        *("steady_availability", "step_rate", "tokens_per_second", "useful_step_rate"),
        "utilization_efficiency",
    }
)
BEST_LOW = ("_cost", "_duration", "_overhead", "_time", "carbon_emissions", "energy", "gpu_hours")
# a job in phases: the input that each must state, and how values of the phases combine for the
# job; other quantities have a value per phase but none for the job
PHASED = "training_tokens"
BEFORE = ("earlier_tokens", "tokens_before")  # before the job; a phase adds those of earlier phases
_WALL = ("job_time", "availability")
_STEPS = ("training_steps", "step_time")
_GPU_STEPS = (*_STEPS, "n_gpus")
SUMS = frozenset(
    {
        "attempted_steps",
        "carbon_emissions",
        "checkpoint_storage_cost",
        "checkpoints_written",
        "electricity_cost",
        "energy",
        "expected_failures",
        "failed_nodes",
        "gpu_cost",
        "gpu_hours",
        "ideal_job_time",
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
MEANS: Mapping[str, tuple[str, ...]] = {  # weighted by the product of these
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
    "job_goodput": _WALL,
    "hfu": (*_GPU_STEPS, "peak_flops"),
    "mfu": (*_GPU_STEPS, "peak_flops"),
    "model_flops_per_gpu": _GPU_STEPS,
    "recovery_overhead": _WALL,
    "reliability_overhead": _WALL,
    "rework_overhead": _WALL,
    "storage_duty": _WALL,
    "straggler_overhead": _WALL,
    "tokens_per_second": _STEPS,
    "transition_share": ("job_time",),
    "useful_compute_share": _WALL,
    **{f"{tier}_tier_rework": _WALL for tier in ("memory", "drive", "storage")},
}
LARGEST = frozenset(
    {
        "allocated_gpus",
        "allocated_nodes",
        "committed_cost",
        "delivery_wait",
        "facility_power",
        "it_power",
        "memory_per_gpu",
        "memory_per_gpu_high",
        "memory_per_gpu_low",
        "near_memory_limit",
        "racks",
        "storage_bytes",
        "compute_optimal_parameters",
        "overtraining",
        "trained_tokens",
    }
)
LEAST = frozenset({"compute_optimal_loss", "feasible", "loss", "memory_margin", "tokens_before"})
FIRST = frozenset({"infeasible_reason"})  # the first that is not 0
OF_WHOLES = frozenset(  # computed by their formula from whole-job values
    {
        "completion_time",
        "cost_per_million_tokens",
        "dominant_overhead",
        "job_cost",
        "lifetime_flops",
        "reliability_to_communication_ratio",
        "reliability_to_useful_ratio",
    }
)
# quantities that say half without another, where an option is in use
FACTORS = {"goodput": ("elastic", "elastic_capacity")}
# intervals that may be stated in steps, and what sets them then; repairs by percentiles
IN_STEPS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "checkpoint_interval": ("checkpoint_steps", {"checkpoint_policy": "steps"}),
    "drive_tier_interval": ("drive_tier_steps", {}),
    "storage_tier_interval": ("storage_tier_steps", {}),
}
REPAIR, REPAIR_SPREAD = "repair_time", "repair_spread"
