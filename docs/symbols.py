"""Which need of a formula each symbol stands for: `u` is `cluster_uptime`, `M` is `cluster_mtbf`.

Formulas are written in the symbols of their sources. One symbol means several things in the field,
but rarely two in one formula: it is the first of the names listed for it that the formula needs.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.physics.graph import PHYSICS

_GREEK = "alpha|beta|delta|eta|lambda|rho|sigma|tau"
# Not the article, Euler's number or an expected value
_SYMBOL = re.compile(
    rf"(?<![\w.'/])(?!a [a-z]{{2}}|e\^|E\[)(?:[A-Za-z]|{_GREEK})(?:_\w+)?'?(?![\w(.'])"
    rf"|(?<=/)(?!a [a-z]{{2}}|e\^|M/)(?:[A-Za-z]|{_GREEK})(?:_\w+)?'?(?![\w(.'])"
)
# Names, or patterns of names, the more special ones first
_MEANT: Mapping[str, str] = {
    "A": "parameter_loss_scale steady_availability spare_availability "
    "weight_all_gather_time attention_parameters_per_layer",
    "B": "token_loss_scale tokens_per_step global_batch_size *_message_bandwidth "
    "data_parallel_bandwidth expert_parallel_bandwidth tensor_parallel_bandwidth "
    "*_rail_bandwidth torus_bandwidth *_torus_bandwidth inter_node_bandwidth "
    "nic_bandwidth offload_bandwidth hbm_bandwidth reached_hbm_bandwidth "
    "intra_node_bandwidth",
    "B_0": "ramp_start_batch_size",
    "B_crit": "critical_batch_tokens",
    "B_e": "*_rail_bandwidth inter_node_bandwidth",
    "B_host": "host_memory_bandwidth",
    "B_i": "*_node_bandwidth intra_node_bandwidth",
    "B_net": "data_parallel_bandwidth",
    "B_nvme": "nvme_bandwidth",
    "B_ref": "reference_batch_tokens",
    "C": "linear_chunk_size compute_time linear_convolution_width",
    "D": "gpus_per_domain corruption_latency trained_tokens training_tokens "
    "tokens_to_target tokens_before scale_up_gpus prediction_layers",
    "D_long": "long_context_tokens",
    "D_opt": "compute_optimal_tokens",
    "D_use": "lifetime_inference_tokens",
    "E": "irreducible_loss experts node_repair_rate",
    "E_shared": "shared_experts",
    "F": "ideal_compute_time *_tier_flush_time model_flops_per_step "
    "kernel_flops_per_step recompute_flops_factor checkpoint_flush_time",
    "F_1": "memory_tier_flush_time",
    "F_2": "drive_tier_flush_time",
    "F_3": "storage_tier_flush_time",
    "G": "linear_key_width",
    "H": "inner_steps steps_per_site_exchange local_steps linear_heads",
    "I": "arithmetic_intensity",
    "I_net": "network_intensity",
    "K": "slow_node_check_time whole_cluster_probability",
    "L": "concurrent_requests gpus_per_switch loss",
    "M": "tiered_mtbf cluster_mtbf slow_node_mttf head_message bucket_message "
    "replica_message gathered_message gradient_message outer_site_message "
    "site_message activation_message context_message expert_message *_message",
    "M_gradients": "gradient_message",
    "M_ref": "reference_mtbf",
    "M_ring": "head_ring_message",
    "M_weights": "weight_message",
    "N": "weights_bytes parameters linear_state_size awaited_nodes nodes expert_nodes "
    "active_parameters microbatch_group_size",
    "N_active": "active_parameters",
    "N_matrices": "active_matrix_parameters",
    "N_non_matmul": "non_matmul_parameters",
    "N_o": "optimizer_parameters",
    "N_opt": "compute_optimal_parameters",
    "N_lora": "lora_parameters",
    "N_routed": "routed_parameters stage_routed_parameters",
    "N_shard": "replica_parameters",
    "N_skipped": "skipped_parameters",
    "N_stage": "held_parameters largest_stage_parameters stage_shared_parameters",
    "P": "model_fragments linear_inner_width peak_flops gpus_per_pod sites pod_gpus",
    "P_16": "peak_flops_bf16",
    "P_4": "peak_flops_fp4",
    "P_attention": "attention_peak_flops",
    "P_logits": "logits_peak_flops",
    "Q": "linear_chunk_size",
    "R": "recovery_overhead counted_recovery_time *_recovery_time restart_time "
    "ramp_tokens recovery_time gradient_reduce_scatter_time",
    "S": "spare_nodes sites",
    "T": "time_at_risk job_duration microbatch_tokens working_time job_time run_time",
    "T_compute": "compute_time",
    "T_e": "tokens_per_expert",
    "T_t": "transition_wait transition_time",
    "U": "lost_work_time restart_overhead unsafe_time hidden_wait_time",
    "U_c": "late_corruption_time",
    "V": "vocab_size",
    "W": "request_latency site_bandwidth attention_window linear_convolution_size",
    "a": "attention_heads *_parallel_latency intra_node_latency",
    "a_e": "inter_node_latency",
    "a_i": "intra_node_latency",
    "a_kv": "kv_heads",
    "alpha": "parameter_loss_exponent",
    "b": "serving_batch_size micro_batch_size",
    "beta": "token_loss_exponent",
    "c": "context_parallel repair_crews",
    "d": "checkpoint_stall_time document_length data_parallel parameter_copies gradient_ranks "
    "dense_layers",
    "d_1": "memory_tier_stall_time",
    "d_2": "drive_tier_stall_time",
    "d_3": "storage_tier_stall_time",
    "d_s": "data_parallel_shard",
    "e": "expert_bytes_share mtbf_exponent step_time_error expert_parallel bytes_per_element",
    "eta": "flops_efficiency",
    "eta_scaling": "scaling_efficiency",
    "f": "error_factor ffn_hidden_size active_ffn_width recompute_flops_factor step_time_ratio",
    "f_e": "expert_ffn_hidden_size",
    "g": "*_ranks_per_node gpus_per_node",
    "g_e": "expert_gradient_ranks_per_node",
    "h": "hidden_size",
    "k": "routed_visits_per_token expert_nodes sixteen_bit_layers_share "
    "experts_per_token failure_shape linear_key_heads",
    "k_2": "drive_copy_every",
    "k_3": "storage_copy_every",
    "l": "layers",
    "l_a": "attention_layers",
    "l_e": "expert_layers",
    "l_f": "ffn_layers",
    "l_first": "first_stage_held_layers first_stage_layers",
    "l_last": "last_stage_held_layers last_stage_layers",
    "l_middle": "middle_stage_layers",
    "l_s": "linear_layers",
    "l_w": "windowed_layers",
    "lambda": "request_rate request_rate",
    "m": "num_microbatches ffn_matrices",
    "n": "building_depreciation_time depreciation_time n_gpus gradient_ranks output_tokens nodes",
    "n_e": "expert_gradient_ranks",
    "n_ref": "reference_gpus",
    "o": "oversubscription data_parallel_overlap",
    "p": "*_tier_share in_process_share in_job_share node_swap_share requeue_share "
    "pipeline_parallel slow_node_fraction fabric_error_exponent",
    "q": "corruption_probability",
    "r": "lora_rank attention_backward_ratio interest_rate torus_ring_multiple",
    "s": "gradient_reductions serial_fraction sequence_length sites",
    "s_long": "long_context_length",
    "sigma": "serial_fraction",
    "t": "context_send_time context_gather_step_time head_exchange_time "
    "head_ring_send_time expert_all_to_all_time tensor_parallel step_time",
    "t_e": "expert_tensor_parallel",
    "t_s": "residual_ranks",
    "tau": "*_tier_interval checkpoint_interval",
    "u": "cluster_uptime head_sharing_ranks matrix_unit_size",
    "v": "stage_chunks virtual_stages",
    "w": "attention_window expert_input_width",
    "w_e": "expert_input_width",
    "x": "torus_x",
    "y": "torus_y",
    "z": "torus_z",
}
# Of a symbol that no need of the formula stands for: a name or words, in general and by topic
_ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "": {
        "B": "global_batch_size",
        "BW": "reached_hbm_bandwidth",
        "M": "cluster_mtbf",
        "N": "parameters",
        "N_non_matmul": "non_matmul_parameters",
        "N_stage": "stage_parameters",
        "P": "peak_flops",
        "R'": "recovery, and the work lost beyond the last checkpoint",
        "U": "work lost beyond the last checkpoint",
        "V": "vocab_size",
        "a": "attention_heads",
        "b": "micro_batch_size",
        "c": "context_parallel",
        "d": "data_parallel",
        "e": "bytes_per_element",
        "h": "hidden_size",
        "k": "experts_per_token",
        "l": "layers",
        "m": "num_microbatches",
        "n": "n_gpus",
        "p": "pipeline_parallel",
        "s": "sequence_length",
        "t": "tensor_parallel",
        "u": "cluster_uptime",
        "v": "virtual_stages",
    },
    "model": {
        "B": "keys",
        "C": "queries",
        "G": "linear_key_heads",
        "H": "linear_heads",
        "N": "linear_state_size",
        "P": "linear_head_size",
        "k": "linear_convolution_size",
    },
    "network": {"S": "sites"},
    "failures": {
        "L": "wear_out_age",
        "T": "burn_in_time",
        "a": "fleet_age",
        "b": "burn_in_excess",
        "f": "correlated_failure_fraction",
        "k": "failure_domain_nodes, or wear_out_shape",
        "H": "hidden_wait_time",
        "n": "nodes",
        "n_i": "parts of a node of kind i",
        "u": "whole_cluster_probability, or site_uptime",
        "w": "aging_window",
    },
    "learning": {
        "B": "tokens_per_step / sequence_length",
        "D": "tokens",
        "N": "active_parameters",
        "a": "tokens_before",
        "b": "trained_tokens",
    },
    "context": {"H": "linear_heads", "k": "ranks of the group on a node, or nodes that it is on"},
    "checkpoints": {
        "d_l": "stall of tier l",
        "k_l": "checkpoints of tier l for one of the tier after it",
        "l": "a tier: 1 memory, 2 drives, 3 storage",
        "lambda_l": "rate of failures that tier l serves",
        "p_1": "memory_tier_share",
        "p_2": "drive_tier_share",
        "p_3": "storage_tier_share",
        "p_i": "share of the failures of kind i",
        "R_i": "recovery time of kind i",
        "tau": "checkpoint_interval",
    },
    "experts": {
        "M": "open_nodes",
        "N": "expert_nodes",
        "k": "experts_per_token, or ranks of the group on a node",
        "n": "expert_parallel",
    },
    "compute": {
        "B": "linear_chunk_size",
        "C": "linear_chunk_size",
        "H": "linear_heads",
        "N": "linear_state_size",
        "P": "linear_head_size, or a peak",
        "T": "microbatch_tokens",
        "d": "head_size",
    },
    "data": {"k": "nodes of the group, or ranks on a node", "n": "gradient_ranks"},
    "tensor": {"k": "ranks of the group on a node, or nodes that it is on"},
    "torus": {
        "b": "torus_link_bandwidth",
        "d": "ranks along a dimension",
        "h": "hops",
        "k": "tori that the group is on",
        "s": "distance of neighbours along it",
    },
    "memory": {
        "E": "experts",
        "d": "gradient_ranks / context_parallel",
        "f": "memory_error_factor",
        "m": "dropout_mask_bytes",
        "s": "pipeline_stage",
        "w": "ffn_input_width",
        "w_e": "expert_input_width",
    },
    "step": {
        "A_b": "expert traffic of a backward pass",
        "A_f": "expert traffic of a forward pass",
        "B": "a backward pass",
        "R": "slow_node_swap_time",
        "T": "slow_node_detection_time",
        "U": "fsdp_units",
        "b": "fsdp_backward_window",
        "c": "slow_node_check_interval",
        "e": "step_time_error",
        "f": "fsdp_forward_window",
        "s": "slow_node_slowdown",
        "l_stage": "layers of a stage",
    },
    "sites": {"W": "site_link_bandwidth", "a": "site_latency"},
    "run": {
        "F_l": "flush time of tier l",
        "d": "checkpoint_stall_time",
        "e": "step_time_error",
        "p_l": "share of tier l",
        "tau": "checkpoint_interval",
        "tau_l": "interval of tier l",
    },
    "cost": {"p": "ports over GPUs of a pod", "n": "years of depreciation"},
    "serving": {"H": "linear_heads", "k": "linear_convolution_size"},
}


def symbols(formula: Callable[..., Any]) -> dict[str, str]:
    """The symbols in the first paragraph of a formula's maths, by the name that each stands for."""
    needed = [*PHYSICS.units(formula)]
    found: dict[str, str] = {}
    for symbol in written(formula):
        name = _first(_MEANT.get(symbol, "").split(), needed)
        if name and name not in found:
            found[name] = symbol
    return found


def elsewhere(formula: Callable[..., Any]) -> dict[str, str]:
    """What other symbols of a formula mean, where it does not say so itself: a name or words."""
    maths = " ".join(read(formula).maths.partition("\n\n")[0].split())
    topic = formula.__module__.split(".")[-2]
    known = {**_ELSEWHERE[""], **_ELSEWHERE.get(topic, {})}
    return {
        symbol: known[symbol]
        for symbol in written(formula)
        if symbol in known
        and symbol not in symbols(formula).values()
        and not re.search(rf"(^|[ ,;:]){re.escape(symbol)} (=|of |the |is )", maths)
    }


def written(formula: Callable[..., Any]) -> list[str]:
    """Every symbol of a formula, in the order in which they appear."""
    maths = read(formula).maths.partition("\n\n")[0]
    return [*dict.fromkeys(symbol for symbol in _SYMBOL.findall(maths) if symbol != "x")]


def _first(patterns: Iterable[str], names: list[str]) -> str | None:
    for pattern in patterns:
        for name in names:
            if fnmatch.fnmatchcase(name, pattern):
                return name
    return None
