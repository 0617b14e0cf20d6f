"""Reasons why a point cannot be run, by number; formulas of `physics` say when each holds."""

from typing import Any

import numpy as np

# Published cubes hold the numbers: add new reasons at the end
REASONS = """
    0 feasible, 1 not_a_whole_number, 2 group_larger_than_cluster, 3 gpus_not_divisible,
    4 batch_smaller_than_data_parallel, 5 batch_not_divisible, 6 layers_not_divisible,
    7 heads_not_divisible, 8 sequence_not_divisible, 9 experts_not_divisible,
    10 out_of_memory, 11 interval_below_flush_time, 12 fewer_microbatches_than_stages,
    13 microbatch_group_does_not_fit, 14 interleaved_on_one_stage, 15 makes_no_progress,
    16 dual_pipeline_does_not_fit, 17 passes_do_not_overlap,
    18 replicas_not_divisible_into_sharding_groups, 19 experts_do_not_fold_over_ranks,
    20 routing_nodes_hold_too_few_experts, 21 expert_nodes_not_whole,
    22 replicas_not_divisible_over_sites, 23 more_fragments_than_inner_steps,
    24 torus_does_not_hold_the_groups, 25 slice_larger_than_pod,
    26 layers_do_not_add_up, 27 heads_not_divisible_over_context,
    28 stage_without_layers, 29 stages_of_training_do_not_fit, 30 domain_not_whole_nodes,
    31 pod_smaller_than_what_it_holds, 32 checkpoint_tier_too_small, 33 tiers_out_of_order
"""


def is_whole(value: Any) -> Any:
    """Whether a value is a whole number."""
    return np.floor(value) == value
