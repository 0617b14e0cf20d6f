"""Infeasible points: each reason, the gravest of several, unknown ones."""

import math
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube.kernels.engines import numpy as numpy_engine
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

LAYOUT: dict[str, Any] = {
    "n_gpus": 64, "tensor_parallel": 4, "pipeline_parallel": 2, "global_batch_size": 64,
    "layers": 32, "hidden_size": 4096, "attention_heads": 32,
}  # fmt: skip
LATENT: dict[str, Any] = {"kv_elements_per_layer": 576, "attention_parameters_per_layer": 187e6}
MOE: dict[str, Any] = {"experts": 8}  # 8 replicas, 8 experts
BOTH_WAYS = {"pipeline_schedule": "dualpipe"}
HOST: dict[str, Any] = {"activation_offload": "layers", "pipeline_parallel": 1}
SHARED: dict[str, Any] = {**MOE, "shared_experts": 1, "shared_expert_overlap": True}
PAIRS: dict[str, Any] = {
    **MOE, "expert_parallel": 2, "virtual_stages": 2, "pipeline_schedule": "combined_1f1b",
}  # fmt: skip
NODES = {"expert_parallel": 8, "experts_per_token": 5, "expert_dispatch": "per_node"}
FOLDED = {"tensor_parallel": 2, "expert_tensor_parallel": 1, "sequence_parallel": True}
INNER = {"pipeline_parallel": 2, "rank_order": "tp-cp-ep-pp-dp"}
GROUPS = "replicas_not_divisible_into_sharding_groups"
LONGER = "stages_of_training_do_not_fit"
RAMP: dict[str, Any] = {"training_tokens": 1e12, "ramp_tokens": 1e11}
EIGHT: dict[str, Any] = {"pipeline_parallel": 8}
ULYSSES: dict[str, Any] = {
    "tensor_parallel": 2,
    "context_parallel": 4,
    "context_parallel_type": "a2a",
}
LATE = {"context_balance": "contiguous"}
TORCH: dict[str, Any] = {"virtual_stages": 2, "pipeline_scheduler": "pytorch"}
# Three quarters of the time in total
LOSSES: dict[str, Any] = {
    "checkpoint_overhead": 0.25, "rework_overhead": 0.25, "recovery_overhead": 0.25,
    "maintenance_budget": 0.0, "cluster_uptime": 1.0,
}  # fmt: skip
DRIVES: dict[str, Any] = {"memory_tier": "host", "drive_tier_survival": 0.6}
TIERS: dict[str, Any] = {**DRIVES, "memory_tier_survival": 0.5}
HELD: dict[str, Any] = {
    "checkpoint_mode": "in_memory",
    "inter_node_bandwidth": 5e10,
    "silent_corruption_mttf": 1e10,
    "fixed_checkpoint_interval": 600.0,
}
FLUSH: dict[str, Any] = {
    "checkpoint_mode": "async",
    "checkpoint_policy": "fixed",
    "fixed_checkpoint_interval": 60.0,
}


def reason(**scenario: Any) -> str:
    flag = fleetcube.evaluate("infeasible_reason", **scenario)
    meanings = dict(
        zip(flag.attrs["flag_values"], flag.attrs["flag_meanings"].split(), strict=True)
    )
    return str(meanings[int(flag)])


def reason_code(scenario: dict[str, Any]) -> float:
    """The reason by the formulas alone: the public interface refuses non-numeric inputs."""
    row = {name: scenario.get(name, row.default) for name, row in INPUTS.items()}
    options = {name: row.pop(name) for name in INPUTS if INPUTS[name].kind == "option"}
    given = {name: np.float64(value) for name, value in row.items() if value is not None}
    given |= {name: np.float64(value) for name, value in scenario.items() if name not in options}
    formulas = PHYSICS.select(["infeasible_reason"], options, given)
    return float(numpy_engine.evaluate(formulas, given)["infeasible_reason"])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "feasible"),
        ({"n_gpus": 63.5}, "not_a_whole_number"),
        ({"tensor_parallel": 1.5}, "not_a_whole_number"),
        ({"pipeline_parallel": 2.5}, "not_a_whole_number"),
        ({"context_parallel": 1.5}, "not_a_whole_number"),
        ({"virtual_stages": 1.5}, "not_a_whole_number"),
        ({"global_batch_size": 64.5}, "not_a_whole_number"),
        ({"micro_batch_size": 1.5}, "not_a_whole_number"),
        ({"n_gpus": 4}, "group_larger_than_cluster"),
        ({"n_gpus": 8, "global_batch_size": 1}, "feasible"),  # one replica fills the cluster
        ({"n_gpus": 60}, "gpus_not_divisible"),
        ({"context_parallel": 3}, "gpus_not_divisible"),
        ({"global_batch_size": 7}, "batch_smaller_than_data_parallel"),
        ({"micro_batch_size": 16}, "batch_smaller_than_data_parallel"),
        ({"global_batch_size": 8}, "feasible"),  # one micro-batch each
        ({"global_batch_size": 65}, "batch_not_divisible"),
        ({"virtual_stages": 3}, "feasible"),  # pieces of 5 and 6
        ({"virtual_stages": 3, "stage_split": False}, "layers_not_divisible"),
        ({"layers": 31}, "feasible"),
        ({"layers": 31, "stage_split": False}, "layers_not_divisible"),
        ({"layers": 2}, "feasible"),
        ({"layers": 1}, "feasible"),  # logits alone on the last stage
        ({"layers": 13, "virtual_stages": 8}, "stage_without_layers"),
        ({"layers": 31, "first_stage_layers": 14}, "feasible"),
        ({"layers": 31, "first_stage_layers": 14, "last_stage_layers": 16}, "layers_not_divisible"),
        ({"first_stage_layers": 33}, "layers_not_divisible"),
        ({**EIGHT, "middle_stage_layers": 6}, "feasible"),
        ({**EIGHT, "middle_stage_layers": 19}, "feasible"),  # 4, 19, 1 x 5, 4
        ({**EIGHT, "middle_stage_layers": 20}, "stage_without_layers"),
        ({**EIGHT, "middle_stage_layers": 24}, "stage_without_layers"),
        ({**EIGHT, "middle_stage_layers": 33}, "layers_not_divisible"),
        ({**EIGHT, "middle_stage_layers": 4.5}, "layers_not_divisible"),
        ({**EIGHT, "first_stage_layers": 24, "last_stage_layers": 2}, "feasible"),
        ({**EIGHT, "first_stage_layers": 25, "last_stage_layers": 2}, "stage_without_layers"),
        ({"pipeline_parallel": 4, "pipeline_layout": "Et*16||t*8|t*8L"}, "stage_without_layers"),
        ({"prediction_layers": 2.5}, "layers_not_divisible"),
        ({"linear_layers": 16, "linear_attention": False}, "layers_do_not_add_up"),
        ({"linear_layers": 16, "linear_heads": 32}, "feasible"),
        ({"linear_layers": 16.5, "linear_heads": 32}, "layers_do_not_add_up"),
        ({**ULYSSES, "linear_layers": 16, "linear_heads": 8}, "feasible"),
        ({**ULYSSES, "linear_layers": 16, "linear_heads": 4}, "heads_not_divisible_over_context"),
        ({"gpus_per_domain": 64}, "feasible"),
        ({"gpus_per_domain": 12}, "domain_not_whole_nodes"),
        ({"gpus_per_domain": 4}, "domain_not_whole_nodes"),
        # RampupBatchsize of Megatron-LM: 8 replicas
        ({**RAMP, "ramp_start_batch_size": 16}, "feasible"),
        ({**RAMP, "ramp_start_batch_size": 12}, "batch_not_divisible"),
        ({**RAMP, "ramp_start_batch_size": 4}, "batch_smaller_than_data_parallel"),
        ({**RAMP, "ramp_start_batch_size": 128}, LONGER),
        ({**RAMP, "ramp_start_batch_size": 16, "long_context_tokens": 9e11}, "feasible"),
        ({**RAMP, "ramp_start_batch_size": 16, "long_context_tokens": 9.1e11}, LONGER),
        ({"training_tokens": 1e12, "long_context_tokens": 1e13}, LONGER),
        ({"first_stage_layers": 15.5}, "layers_not_divisible"),
        ({"layers": 30, "virtual_stages": 8}, "feasible"),  # with embedding and output layer, 32
        ({"layers": 31, "pipeline_parallel": 1, "tensor_parallel": 8}, "feasible"),
        ({"pipeline_schedule": "zb_v", "layers": 32}, "feasible"),
        ({"pipeline_schedule": "zb_v", "layers": 36}, "feasible"),
        ({"pipeline_schedule": "zb_v", "layers": 33}, "feasible"),
        ({"pipeline_schedule": "zb_v", "pipeline_parallel": 16}, "feasible"),
        (
            {"pipeline_schedule": "zb_v", "pipeline_parallel": 16, "layers": 29},
            "stage_without_layers",
        ),
        # dualpipe.py asserts on these; 4 micro-batches are as few as run on 2 stages
        ({**BOTH_WAYS, "global_batch_size": 32}, "feasible"),
        ({**BOTH_WAYS, "global_batch_size": 40}, "dual_pipeline_does_not_fit"),
        ({**BOTH_WAYS, "global_batch_size": 16}, "dual_pipeline_does_not_fit"),
        ({**BOTH_WAYS, "pipeline_parallel": 1}, "dual_pipeline_does_not_fit"),
        ({**BOTH_WAYS, "layers": 33}, "feasible"),
        ({"pipeline_schedule": "dualpipev", "global_batch_size": 40}, "feasible"),
        ({"pipeline_schedule": "dualpipev", "global_batch_size": 24}, "dual_pipeline_does_not_fit"),
        ({"pipeline_schedule": "dualpipev", "layers": 36}, "feasible"),
        ({"pipeline_schedule": "dualpipev", "layers": 33}, "feasible"),
        ({"attention_heads": 30}, "heads_not_divisible"),
        # 8 micro-batches on 2 stages; megatron/core/pipeline_parallel/schedules.py raises on these
        ({"virtual_stages": 2}, "feasible"),
        ({"virtual_stages": 2, "global_batch_size": 8}, "fewer_microbatches_than_stages"),
        ({"virtual_stages": 2, "global_batch_size": 24}, "microbatch_group_does_not_fit"),
        ({"virtual_stages": 2, "global_batch_size": 24, "microbatch_group_size": 3}, "feasible"),
        ({"virtual_stages": 2, "microbatch_group_size": 1}, "microbatch_group_does_not_fit"),
        ({"virtual_stages": 2, "microbatch_group_size": 9}, "microbatch_group_does_not_fit"),
        ({"virtual_stages": 2, "microbatch_group_size": 6}, "feasible"),  # 6 and 2
        ({"virtual_stages": 2, "microbatch_group_size": 7}, "microbatch_group_does_not_fit"),
        ({"virtual_stages": 2, "microbatch_group_size": 2.5}, "microbatch_group_does_not_fit"),
        ({"virtual_stages": 2, "pipeline_schedule": "gpipe", "global_batch_size": 8}, "feasible"),
        # torch/distributed/pipelining/schedules.py: 1 on 2 stages runs, 10 on 4 in two rounds
        ({**TORCH, "global_batch_size": 8}, "feasible"),
        ({**TORCH, "pipeline_parallel": 4, "global_batch_size": 40}, "feasible"),
        (
            {**TORCH, "pipeline_parallel": 4, "global_batch_size": 52},
            "microbatch_group_does_not_fit",
        ),
        (
            {"virtual_stages": 2, "pipeline_parallel": 1, "tensor_parallel": 8},
            "interleaved_on_one_stage",
        ),
        ({"context_parallel": 2, "sequence_length": 4095}, "sequence_not_divisible"),
        ({"context_parallel": 2, "sequence_length": 4094}, "sequence_not_divisible"),  # four parts
        ({"context_parallel": 2, "sequence_length": 4094, **LATE}, "feasible"),
        ({"sequence_length": 4095}, "feasible"),  # a rank alone
        ({"expert_parallel": 2}, "experts_not_divisible"),  # a dense model has none
        ({**MOE, "expert_parallel": 8}, "feasible"),
        ({**MOE, "expert_parallel": 3}, "experts_not_divisible"),
        ({**MOE, "expert_parallel": 1.6}, "experts_not_divisible"),  # 8 / 1.6 = 5
        ({**MOE, "experts_per_token": 2.5}, "experts_not_divisible"),
        ({"experts": 16, "expert_parallel": 16}, "experts_not_divisible"),  # over 8 replicas
        ({"experts": 16, "expert_parallel": 16, "context_parallel": 2}, "experts_not_divisible"),
        ({"experts": 16, "expert_parallel": 16, **BOTH_WAYS}, "experts_not_divisible"),
        ({"experts": 8, "expert_parallel": 8, **BOTH_WAYS}, "feasible"),
        # transformer_config.py asserts on these
        (PAIRS, "feasible"),
        ({**PAIRS, "virtual_stages": 1}, "passes_do_not_overlap"),
        ({**PAIRS, "virtual_stages": 1, "pipeline_parallel": 1}, "feasible"),
        ({**PAIRS, "recompute": "full"}, "passes_do_not_overlap"),
        ({**PAIRS, "recompute_core_attn": 1}, "feasible"),
        ({**PAIRS, "recompute_moe": 1}, "passes_do_not_overlap"),
        ({**PAIRS, "expert_parallel": 1}, "passes_do_not_overlap"),
        ({**PAIRS, "global_batch_size": 24}, "microbatch_group_does_not_fit"),
        ({**PAIRS, "global_batch_size": 8}, "fewer_microbatches_than_stages"),
        ({**MOE, **NODES}, "feasible"),
        ({**MOE, **NODES, "routing_nodes": 2}, "routing_nodes_hold_too_few_experts"),  # 2 of 4
        ({**MOE, **NODES, "routing_nodes": 2, "experts_per_token": 4}, "feasible"),
        ({**MOE, **NODES, "routing_nodes": 1.5}, "expert_nodes_not_whole"),
        ({**MOE, **NODES, "routing_nodes": 9}, "feasible"),  # at most all nodes
        ({**MOE, **NODES, "gpus_per_node": 12}, "expert_nodes_not_whole"),  # 8 ranks by 3
        ({**MOE, **NODES, "gpus_per_node": 12, "expert_dispatch": "per_expert"}, "feasible"),
        ({"data_parallel_shard": 4}, "feasible"),
        ({"data_parallel_shard": 8, "context_parallel": 2}, GROUPS),  # 4 replicas of 2
        ({"data_parallel_shard": 3}, GROUPS),
        ({"data_parallel_shard": 1.6}, GROUPS),  # 8 / 1.6 = 5
        ({**MOE, "data_parallel_shard": 4, "expert_parallel": 4}, "feasible"),
        ({**MOE, "data_parallel_shard": 4, "expert_parallel": 8}, "experts_not_divisible"),
        ({"experts": 16, "expert_parallel": 16, **FOLDED}, "feasible"),  # over 16 x 2 ranks
        ({"experts": 64, "expert_parallel": 64, **FOLDED}, "experts_not_divisible"),
        ({**MOE, **FOLDED, "expert_parallel": 8}, "feasible"),
        ({**MOE, **FOLDED, "sequence_parallel": False}, "experts_do_not_fold_over_ranks"),
        ({**MOE, **FOLDED, **INNER, "expert_parallel": 2}, "feasible"),
        ({**MOE, **FOLDED, **INNER, "expert_parallel": 4}, "experts_do_not_fold_over_ranks"),
        ({"sites": 2, "data_parallel_shard": 4}, "feasible"),
        ({"sites": 2, "data_parallel_shard": 8}, GROUPS),  # 4 replicas on each site
        ({"sites": 2}, "feasible"),
        ({"sites": 7}, "replicas_not_divisible_over_sites"),
        ({"sites": 2, "inner_steps": 2, "model_fragments": 3}, "more_fragments_than_inner_steps"),
        ({"hbm_capacity": "1 GB"}, "out_of_memory"),
        ({**HOST, "offloaded_layers": 2}, "feasible"),
        (
            {**HOST, "offloaded_layers": 2, "pipeline_parallel": 2},
            "activation_offload_does_not_fit",
        ),
        ({**HOST, "offloaded_layers": 1e3}, "activation_offload_does_not_fit"),
        ({**HOST, "recompute_core_attn": 1}, "activation_offload_does_not_fit"),
        ({**HOST, "recompute": "full"}, "activation_offload_does_not_fit"),
        ({"offload_core_attn": 1, "recompute": "full"}, "activation_offload_does_not_fit"),
        ({"offload_core_attn": 1, "recompute": "products"}, "feasible"),
        (
            {"offload_core_attn": 1, "recompute": "alternate_products"},
            "activation_offload_does_not_fit",
        ),
        ({"offload_core_attn": 1, "recompute_mlp": 1}, "feasible"),
        ({**SHARED, "recompute_shared_experts": 1}, "recomputed_while_overlapped"),
        ({**SHARED, "recompute_moe_act": 1}, "feasible"),
        ({"recompute": "alternate_products"}, "feasible"),
        ({"recompute": "alternate_products", **MOE}, "feasible"),
        ({"recompute": "alternate_products", **LATENT}, "feasible"),
        (
            {"recompute": "alternate_products", "linear_layers": 16, "linear_heads": 32},
            "recomputed_products_unknown",
        ),
        ({**LATENT, "recompute": "full"}, "feasible"),
        ({**LATENT, "value_head_size": 255}, "widths_do_not_fit"),  # keys of 1, rotary of 64
        ({**LATENT, "value_head_size": 192}, "feasible"),
        ({**LATENT, "value_head_size": 300}, "widths_do_not_fit"),
        ({**LATENT, "rotary_key_size": 512}, "widths_do_not_fit"),
        ({**LATENT, "kv_heads": 7}, "feasible"),  # all heads read one latent vector
        ({**LATENT, "hidden_size": 4096.5, "head_size": 128}, "widths_do_not_fit"),
        ({"hidden_size": 4096.5, "head_size": 128}, "widths_do_not_fit"),
        ({"attention_heads": 28}, "widths_do_not_fit"),  # heads of 146.3
        ({"attention_heads": 28, "head_size": 128}, "feasible"),
        ({"attention_heads": 28, "head_size": 128, "kv_heads": 7}, "feasible"),
        ({"kv_heads": 7}, "widths_do_not_fit"),
        ({"kv_heads": 12.8}, "widths_do_not_fit"),  # 32 / 12.8 = 2.5
        ({"kv_heads": 6.4}, "widths_do_not_fit"),  # 32 / 6.4 = 5
        ({"kv_heads": 64}, "widths_do_not_fit"),
        ({"kv_heads": 7, "linear_layers": 32, "linear_heads": 32}, "feasible"),  # no attention
        ({"lora_rank": 4096}, "feasible"),
        ({"lora_rank": 4097}, "widths_do_not_fit"),
        ({**SHARED, "recompute_shared_experts": 1, "shared_expert_overlap": False}, "feasible"),
        ({**FLUSH, "checkpoint_flush_time": 61.0}, "interval_below_flush_time"),
        ({**FLUSH, "checkpoint_flush_time": 60.0}, "feasible"),
        ({**FLUSH, "checkpoint_flush_time": 61.0, "checkpoint_mode": "sync"}, "feasible"),
        (
            {**FLUSH, "checkpoint_flush_time": 61.0, "checkpoint_mode": "in_memory"},
            "interval_below_flush_time",
        ),
        (TIERS, "feasible"),
        ({**TIERS, "checkpoint_memory_capacity": "1 GB"}, "checkpoint_tier_too_small"),
        ({**TIERS, "checkpoint_drive_capacity": "1 GB"}, "checkpoint_tier_too_small"),
        ({**DRIVES, "checkpoint_memory_capacity": "1 GB"}, "feasible"),  # no such tier
        ({**LOSSES, "goodput_model": "first_order"}, "feasible"),
        ({**LOSSES, "goodput_model": "first_order", "rework_overhead": 0.5}, "makes_no_progress"),
        ({**LOSSES, "goodput_model": "exact", "rework_overhead": 0.5}, "feasible"),
        ({**LOSSES, "goodput_model": "additive", "bubble_budget": 0.125}, "feasible"),
        ({**LOSSES, "goodput_model": "additive", "bubble_budget": 0.25}, "makes_no_progress"),
        ({"elastic": "shrink", "elastic_capacity": 0.0}, "makes_no_progress"),
        ({"elastic": "shrink", "elastic_capacity": 0.5}, "feasible"),
        ({"site_racks": 8, "node_power": "10 kW", "rack_power": "10 kW"}, "feasible"),
        ({"site_racks": 7, "node_power": "10 kW", "rack_power": "10 kW"}, "larger_than_site"),
        ({"site_power": "96 kW", "node_power": "10 kW", "pue": 1.2}, "feasible"),
        ({"site_power": "95 kW", "node_power": "10 kW", "pue": 1.2}, "larger_than_site"),
        ({"site_racks": 9, "node_power": "10 kW", "cooling_power": "79 kW"}, "larger_than_site"),
        ({"contract_nodes": 8}, "feasible"),  # 64 GPUs are 8 nodes
        ({"contract_nodes": 7}, "larger_than_contract"),
        ({"contract_nodes": 7, "contract_limits": False}, "feasible"),
        ({"contract_nodes": 8, "spare_nodes": 1}, "larger_than_contract"),
        ({"contract_nodes": 9, "spare_nodes": 1}, "feasible"),
        ({**HELD, "corruption_latency": 3e3}, "no_checkpoint_before_corruption"),
        ({**HELD, "corruption_latency": 6e2}, "feasible"),
        ({**HELD, "corruption_latency": 3e3, "corruption_detection": "at_once"}, "feasible"),
        ({**HELD, "silent_corruption_mttf": math.inf, "corruption_latency": 3e3}, "feasible"),
    ],
)
def test_reasons(change: dict[str, Any], expected: str) -> None:
    assert reason(**{**LAYOUT, **change}) == expected


def test_tiers_out_of_order_along_an_axis_have_a_reason() -> None:
    """Constants are refused; where memory varies, drives may survive fewer failures at a point."""
    survival = [0.0, 0.6, 0.9]
    flag = fleetcube.evaluate(
        "infeasible_reason", **LAYOUT, **DRIVES, memory_tier_survival=survival
    )
    assert (flag == 33).values.tolist() == [False, False, True]
    assert flag.attrs["flag_meanings"].split()[33] == "tiers_out_of_order"


def test_storage_keeps_its_interval_where_drives_would_be_written_more_often_than_memory() -> None:
    job = {"checkpoint_interval": "7 min", "storage_tier_interval": "42 min", "step_time": 10.0}
    job |= {"memory_tier_survival": 0.9, "drive_tier_survival": 0.96, "cluster_mtbf": "8 h"}
    job |= {"nodes": 128, "n_gpus": 1024, "checkpoint_size": 1e12, "fabric": "infiniband-ndr"}
    outputs = ["drive_write_interval", "storage_write_interval", "least_stated_interval"]
    made = fleetcube.evaluate(outputs, checkpoint_write_bandwidth=2e9, **job)
    assert [float(made[name]) for name in outputs] == [420.0, 2520.0, 2520.0]


def test_goodput_by_itself_says_that_a_tier_holds_no_checkpoint() -> None:
    sizes = ["1 GB", "1 TB"]
    found = fleetcube.evaluate(["goodput"], **LAYOUT, **TIERS, checkpoint_memory_capacity=sizes)
    assert found["infeasible_reason"].values.tolist() == [32, 0]
    plain = fleetcube.evaluate(["goodput"], **LAYOUT)
    assert "infeasible_reason" not in plain


def test_graver_reasons_go_first() -> None:
    # All faults at once, then without the gravest, and so on.
    faults: list[tuple[str, dict[str, Any]]] = [
        ("not_a_whole_number", {"virtual_stages": 1.5}),
        ("group_larger_than_cluster", {"n_gpus": 4.0}),
        ("gpus_not_divisible", {"n_gpus": 60.0}),
        ("batch_smaller_than_data_parallel", {"global_batch_size": 1}),
        ("batch_not_divisible", {"global_batch_size": 65}),
        ("layers_not_divisible", {"layers": 31.5}),
        ("heads_not_divisible", {"attention_heads": 30}),
        ("sequence_not_divisible", {"sequence_length": 4095, "context_parallel": 2}),
        ("microbatch_group_does_not_fit", {"virtual_stages": 2, "microbatch_group_size": 1}),
        ("experts_not_divisible", {"expert_parallel": 3}),
        ("out_of_memory", {"hbm_capacity": 1e6}),
        ("interval_below_flush_time", {**FLUSH, "checkpoint_flush_time": 61.0}),
        ("makes_no_progress", {"elastic": "shrink", "elastic_capacity": 0.0}),
    ]
    while faults:
        scenario: dict[str, Any] = {**LAYOUT, "micro_batch_size": 1}
        for _, change in reversed(faults):
            scenario |= change
        assert reason(**scenario) == faults[0][0]
        faults.pop(0)


def test_the_codes_are_the_same_in_every_formula() -> None:
    names = ["layout_reason", "expert_layout_reason", "capacity_reason", "infeasible_reason"]
    names += ["stage_reason", "arrangement_reason", "torus_reason", "head_reason"]
    names += ["layer_kinds_reason", "site_reason", "domain_reason", "training_stages_reason"]
    names += ["tier_reason", "dispatch_reason", "expert_dispatch_reason", "torus_order_reason"]
    names += ["torus_shape_reason", "activation_offload_reason", "shared_recompute_reason"]
    names += ["module_offload_reason", "product_recompute_reason", "width_reason"]
    names += ["attention_width_reason", "site_room_reason", "contract_reason"]
    names += ["interleaving_reason", "schedule_reason", "goodput_reason", "progress_reason"]
    formulas = [formula for name in names for formula in PHYSICS.quantities[name].formulas.values()]
    assert {tuple(read(formula).flags.items()) for formula in set(formulas)} == {
        tuple(read(formulas[0]).flags.items())
    }
    flags = list(read(formulas[0]).flags)
    assert flags == list(range(len(flags)))


def test_memory_may_be_full_to_the_last_byte() -> None:
    capacity = [math.nextafter(80e9, 0), 80e9]
    got = fleetcube.evaluate(
        "infeasible_reason",
        memory_per_gpu=80e9,
        memory_error_factor=1,  # a model that is never wrong
        hbm_capacity=capacity,
        **LAYOUT,
    )
    assert list(got) == [10, 0]


@pytest.mark.parametrize(
    "ran",
    [
        {"node": "gb300-nvl72", "precision": "nvfp4", "attention_precision": "fp8"},
        {"node": "dgx-b200", "precision": "fp8", "activation_input_bytes": 1},
        {"node": "dgx-b200", "precision": "nvfp4", "activation_input_bytes": 1},
        {"node": "dgx-h200", "precision": "fp8", "context_parallel": 2},
    ],
    ids=["gb300", "b200", "b200 nvfp4", "h200"],
)
def test_adapters_of_mlperf_fit_where_they_ran(ran: dict[str, Any]) -> None:
    # MLPerf Training 5.1, llama2_70b_lora, on eight GPUs
    job = {"model": "llama-2-70b", "n_gpus": 8, "sequence_length": 8192, "global_batch_size": 8}
    job |= {"recompute": False, "lora_rank": 16, "lora_matrices": "attention", **ran}
    in_few_bits = fleetcube.evaluate("infeasible_reason", **job, frozen_weights="fp8")
    assert int(in_few_bits) == 0


def test_a_flagship_layout_has_more_replicas_than_sequences() -> None:
    # 100,000 GPUs as TP 8, PP 16: 781 replicas on 99,968 GPUs, and 512 sequences.
    flagship = {
        **LAYOUT, "tensor_parallel": 8, "pipeline_parallel": 16, "global_batch_size": 512,
        "layers": 128, "hidden_size": 25600, "attention_heads": 160,
    }  # fmt: skip
    assert reason(**{**flagship, "n_gpus": 99_968}) == "batch_smaller_than_data_parallel"
    assert reason(**{**flagship, "n_gpus": 100_000}) == "gpus_not_divisible"
    assert reason(**{**flagship, "n_gpus": 99_968, "global_batch_size": 781}) == "feasible"


@pytest.mark.parametrize(
    "unknown",
    ["n_gpus", "tensor_parallel", "pipeline_parallel", "context_parallel", "virtual_stages",
     "global_batch_size", "micro_batch_size", "layers", "attention_heads", "sequence_length",
     "hbm_capacity", "memory_per_gpu", "expert_parallel", "experts", "checkpoint_interval",
     "checkpoint_flush_time"],
)  # fmt: skip
@pytest.mark.parametrize("mixture_of_experts", [False, True])
def test_what_is_undefined_is_neither_feasible_nor_not(
    unknown: str, mixture_of_experts: bool
) -> None:
    known = {
        **LAYOUT, "mixture_of_experts": mixture_of_experts,
        "expert_parallel": 2 if mixture_of_experts else 1, "memory_per_gpu": 1e9,
        "hbm_capacity": math.inf, "checkpoint_mode": "async", "checkpoint_interval": math.inf,
        "checkpoint_flush_time": 1.0,
    }  # fmt: skip
    assert reason_code(known) == 0
    undefined = reason_code({**known, unknown: math.nan})
    assert math.isnan(undefined) or (unknown == "experts" and not mixture_of_experts)


def test_reasons_depend_on_failures_only_where_intervals_do() -> None:
    axes = {"gpu_mttf": [1e8, 2e8], "hbm_capacity": [8e10, 9e10]}
    scenario = {**LAYOUT, "n_gpus": [64, 128], "inter_node_bandwidth": 50e9, **axes}
    dims = {
        mode: fleetcube.evaluate("infeasible_reason", checkpoint_mode=mode, **scenario).dims
        for mode in ("sync", "async", "in_memory")
    }
    assert set(dims["sync"]) == {"n_gpus", "hbm_capacity"}
    assert set(dims["async"]) == set(dims["in_memory"]) == {"n_gpus", "hbm_capacity", "gpu_mttf"}
    fixed = fleetcube.evaluate("infeasible_reason", **{**scenario, **FLUSH})
    assert set(fixed.dims) == {"n_gpus", "hbm_capacity"}
