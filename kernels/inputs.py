"""The one table of inputs: name, unit, default, bounds, kind. Everything is in SI base units."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HOUR = 3600.0


@dataclass(frozen=True)
class Input:
    """One name that a scenario may set.

    `kind` is "real", "count" (whole in reality, continuous in the formulas) or "option" (one of
    `choices`). `default` is None where the value must be given or come from a label. An option
    that is not chosen takes `implied` instead of its default where one of `implied_by` is given.
    A `convention` is a way to report: results that depend on it state the choice.

    For messages: `labels` are the kinds of catalog labels that set it, `part_of` is the quantity to
    give in its place where it is needed for that, `idle` is a remark where nothing needs it.
    """

    name: str
    unit: str
    default: Any
    description: str
    kind: str = "real"
    low: float = 0.0
    high: float = math.inf
    positive: bool = True
    may_be_infinite: bool = False
    choices: tuple[Any, ...] = ()
    implied: Any = None
    implied_by: tuple[str, ...] = ()
    convention: bool = False
    labels: str = ""
    part_of: str = ""
    idle: str = ""

    def means_off(self, value: Any) -> bool:
        """Whether a value is a word for off, which is False in the choices."""
        return str(value).lower() in WORDS_FOR_OFF and any(c is False for c in self.choices)


OFF = "off is spelled false (False in Python)"
WORDS_FOR_OFF = ("none", "off", "one", "alike")


def written(choice: Any) -> str:
    """A choice as specs, commands and coordinates spell it."""
    return str(choice).lower() if isinstance(choice, bool) else str(choice)


_real = Input


def _count(
    name: str, default: float | None, description: str, *, low: float = 1.0, **columns: Any
) -> Input:
    return Input(name, "1", default, description, "count", low, positive=low > 0, **columns)


def _option(
    name: str, default: Any, choices: tuple[Any, ...], description: str, **columns: Any
) -> Input:
    return Input(name, "1", default, description, "option", choices=choices, **columns)


def _switch(name: str, description: str, *implied_by: str) -> Input:
    on = True if implied_by else None
    return _option(name, False, (False, True), description, implied=on, implied_by=implied_by)


def _budget(name: str, default: float, loss: str) -> Input:
    description = f"share of wall time lost to {loss} (goodput_model = additive)"
    return _real(name, "1", default, description, positive=False, high=1.0)


def _overlap(name: str, description: str) -> Input:
    return _real(name, "1", 0.0, description, positive=False, high=1.0)


def _share(name: str, end: str) -> Input:
    description = f"share of failures that end with {end}"
    return _real(name, "1", 0.0, description, positive=False, high=1.0)


def _mttf(name: str, default: float, component: str) -> Input:
    description = f"mean time to failure of one {component} (infinite: not counted)"
    return _real(name, "s", default, description, may_be_infinite=True)


_GPU = "gpu or node"
SWITCHED = (
    *("auto", "ring", "tree", "double_binary_tree", "recursive_halving_doubling"),
    *("hierarchical", "in_network", "fitted"),
)  # algorithms of all-reduces for nodes whose GPUs all reach each other over a switch
_PARTS_OF_FABRIC = (
    *("nic_price", "node_link_price", "switch_port_price", "leaf_link_price", "pod_link_price"),
)  # prices

_ROWS: list[str | Input] = [
    "Cluster",
    _count("n_gpus", None, "accelerators of the job"),
    _count("gpus_per_node", 8, "accelerators of one node"),
    _count("gpus_per_domain", 72, "accelerators of one scale-up domain (NVL72), whole nodes of it"),
    _switch(
        "scale_up_domain",
        "what joins GPUs inside a node joins those of several nodes, too, which fail one by one",
        "gpus_per_domain",
    ),
    _count("nics_per_node", 8, "network cards of one node, for failures", low=0),
    _count("series_psus_per_node", 0, "power supplies whose loss stops the node", low=0),
    _count("cables_per_node", 0, "network cables of one node", low=0),
    _count("gpus_per_switch", 32, "accelerators behind one leaf switch"),
    _real("peak_flops_fp16", "FLOP/s", None, "dense FP16 peak of one GPU", labels=_GPU),
    _real("peak_flops_bf16", "FLOP/s", None, "dense BF16 peak of one GPU", labels=_GPU),
    _real("peak_flops_fp8", "FLOP/s", None, "dense FP8 peak of one GPU", labels=_GPU),
    _real("peak_flops_fp4", "FLOP/s", None, "dense FP4 peak of one GPU", labels=_GPU),
    _real("hbm_bandwidth", "B/s", None, "memory bandwidth of one GPU", labels=_GPU),
    _real(
        "hbm_capacity",
        "B",
        math.inf,
        "memory of one GPU (infinite: not checked)",
        may_be_infinite=True,
    ),
    _real("intra_node_bandwidth", "B/s", None, "per GPU and direction, inside a node", labels=_GPU),
    _real("intra_node_latency", "s", 0.5e-6, "one hop inside a node", positive=False),
    _real(
        "inter_node_bandwidth",
        "B/s",
        None,
        "per GPU and direction, between nodes",
        labels="fabric",
    ),
    _real("inter_node_latency", "s", 5e-6, "one hop between nodes", positive=False),
    _real("oversubscription", "1", 1.0, "downlink over uplink bandwidth of leaf switches", low=1.0),
    _switch(
        "rail_optimized",
        "a leaf switch serves GPUs of one place in their nodes, not all GPUs of a few nodes",
    ),
    _real(
        "gpus_per_pod",
        "1",
        math.inf,
        "accelerators whose leaf switches one layer joins; between pods is another (infinite: all)",
        low=1.0,
        may_be_infinite=True,
    ),
    _real("pod_oversubscription", "1", 1.0, "bandwidth between leaves over that of pods", low=1.0),
    _switch(
        "network_tiers",
        "traffic is followed tier by tier: leaf switches, pods and between them",
        "gpus_per_pod",
        "rail_optimized",
    ),
    _switch("node_reduction", "switches inside a node add up (NVLink SHARP)"),
    _count(
        "torus_x", 1, "accelerators along the first dimension of a node, or domain, that is a torus"
    ),
    _count("torus_y", 1, "accelerators along the second dimension; the third is the rest"),
    _count("torus_dimensions", 3, "dimensions of the torus: an accelerator has two links in each"),
    _count(
        "torus_ring_multiple", 4, "sizes that close into rings are multiples of this (else lines)"
    ),
    _switch(
        "twisted_torus",
        (
            "rings of the short dimensions come back shifted along the long ones (n x n x 2n, "
            "n x 2n x 2n)"
        ),
    ),
    _real(
        "largest_slice",
        "1",
        math.inf,
        "accelerators of the largest torus that a pod gives to a job (infinite: not checked)",
        low=1.0,
        may_be_infinite=True,
    ),
    _switch("fabric_reduction", "switches of the fabric add up (SHARP)"),
    "Sites",
    _count("sites", 1, "places that train one model; each holds whole replicas"),
    _switch("multi_site", "the job runs on several sites, which a slow link joins", "sites"),
    _real("site_bandwidth", "B/s", None, "of all links that leave one site, per direction"),
    _real("site_latency", "s", 10e-3, "one message between sites", positive=False),
    _option(
        "site_sync",
        "every_step",
        ("every_step", "local_steps"),
        "when sites exchange: gradients at each step, or what weights have moved by in inner_steps "
        "steps of their own (DiLoCo)",
        implied="local_steps",
        implied_by=("inner_steps",),
    ),
    _count("inner_steps", 500, "steps of a site between exchanges of the same weights (H)"),
    _real(
        "outer_bytes_per_element",
        "B",
        4,
        "size of a weight's change on the wire between sites (0.5 for 4 bits)",
    ),
    _real(
        "tokens_factor",
        "1",
        1.0,
        "tokens for the same loss with inner steps over those without (published: about 1, either "
        "way; nothing for large models: measure it)",
    ),
    _count("model_fragments", 1, "parts of the model that sites exchange one after the other"),
    _real(
        "outer_state_bytes",
        "B",
        8,
        "kept for each parameter on each site: the weights last agreed on, and their momentum",
        positive=False,
    ),
    _overlap("site_overlap", "share of its window that hides traffic between sites"),
    _mttf("site_mttf", math.inf, "site, as a whole"),
    _mttf("site_link_mttf", math.inf, "site's link to the others"),
    _switch(
        "outages",
        "pods, sites and links between sites fail as a whole",
        "pod_mttf",
        "site_mttf",
        "site_link_mttf",
    ),
    _real("site_repair_time", "s", 4 * HOUR, "until a site, or its link, is back", positive=False),
    "Power and money",
    _real("gpu_tdp", "W", None, "power of one GPU, where node_power is not given"),
    _real("node_overhead_power", "W", 0.0, "power of a node besides its GPUs", positive=False),
    _real("rack_power", "W", 70e3, "power that one rack may draw"),
    _real("pue", "1", 1.2, "facility over IT power (1.06 to 1.58; 1.12 is good air cooling)"),
    _real("grid_carbon_intensity", "kg/J", None, "carbon dioxide of one unit of electricity"),
    _real("electricity_price", "USD/J", None, "price of one unit of electricity"),
    _real("gpu_hour_price", "USD/h", None, "price of one GPU for one hour"),
    _option(
        "pricing",
        "rented",
        ("rented", "owned"),
        "GPU-hours are paid for, or come to what owning the cluster does (needs node_price, "
        "depreciation_time and electricity_price)",
        implied="owned",
        implied_by=("node_price",),
    ),
    _real("node_price", "USD", None, "price of one node with its GPUs, without the network"),
    _real("fabric_price", "USD", 0.0, "price of the network for one GPU", positive=False),
    _option(
        "fabric_pricing",
        "per_gpu",
        ("per_gpu", "ports"),
        "the network comes to fabric_price a GPU, or to its cards, ports and links, as a fat tree "
        "has them",
        implied="ports",
        implied_by=_PARTS_OF_FABRIC,
    ),
    _real("nic_price", "USD", 0.0, "price of the network card of one GPU", positive=False),
    _real(
        "node_link_price",
        "USD",
        0.0,
        "price of a link from a card to its leaf switch, with optics at both ends",
        positive=False,
    ),
    _real("switch_port_price", "USD", 0.0, "price of one port of a switch", positive=False),
    _real(
        "leaf_link_price",
        "USD",
        0.0,
        "price of a link from a leaf switch up, with optics at both ends",
        positive=False,
    ),
    _real(
        "pod_link_price",
        "USD",
        0.0,
        "price of a link that leaves a pod, with optics at both ends",
        positive=False,
    ),
    _real("storage_price", "USD", 0.0, "price of the cluster's storage", positive=False),
    _real("building_price", "USD/W", 0.0, "price of the building for one watt", positive=False),
    _real("depreciation_time", "s", None, "life of nodes, network and storage"),
    _real("building_depreciation_time", "s", 20 * 31557600.0, "life of the building"),
    _real("interest_rate", "1", 0.0, "interest of one year (0: a straight line)", positive=False),
    _real(
        "resale_share", "1", 0.0, "price of machines left at their end", positive=False, high=1.0
    ),
    _real(
        "maintenance_share", "1", 0.0, "price of machines spent a year on repairs", positive=False
    ),
    _real("yearly_staff_cost", "USD", 0.0, "staff, space and whatever else a year", positive=False),
    _real(
        "cluster_utilization", "1", 1.0, "share of the time in which jobs have the GPUs", high=1.0
    ),
    _switch(
        "reserves",
        "backup workers and spare nodes are powered and paid for",
        "backup_workers",
        "spare_nodes",
    ),
    "Model",
    _count("layers", None, "transformer layers", labels="model", part_of="parameters"),
    _count(
        "hidden_size",
        None,
        "width of the residual stream",
        labels="model",
        part_of="parameters",
    ),
    _switch("gated_ffn", "feed-forward layers with a gate: three matrices"),
    _count("vocab_size", 51200, "tokens of the vocabulary"),
    _real(
        "attention_window",
        "1",
        math.inf,
        "tokens that a query of a windowed layer sees, its own counted (infinite: all before it)",
        low=1.0,
        may_be_infinite=True,
    ),
    _switch(
        "sliding_window",
        (
            "queries of some layers or all see the last attention_window tokens only, or none "
            "(linear_layers)"
        ),
        "attention_window",
        "linear_layers",
    ),
    _option(
        "linear_attention",
        False,
        (False, "mamba2", "gated_deltanet", "lightning", "kimi_delta"),
        "what the layers are that keep a state of fixed size in place of keys and values",
        implied="mamba2",
        implied_by=("linear_layers",),
    ),
    _count("linear_layers", 0, "layers that keep a state in place of keys and values", low=0),
    _count("linear_heads", None, "heads of a layer with a state", labels="model"),
    _count("linear_head_size", 64, "width of a head of a layer with a state"),
    _count("linear_key_heads", 8, "heads of keys of a layer with a state (groups of Mamba-2)"),
    _count("linear_state_size", 128, "width of a key of a layer with a state"),
    _count("linear_convolution_size", 4, "tokens of the short convolution before a state"),
    _count("linear_chunk_size", 128, "tokens that a layer with a state works on at a time"),
    _switch("mixture_of_experts", "feed-forward layers of routed experts", "experts"),
    _count("experts", 8, "routed experts of one layer"),
    _count("experts_per_token", 2, "routed experts that each token visits"),
    _count("shared_experts", 0, "experts of one layer that every token visits", low=0),
    _count("dense_layers", 0, "layers of a mixture of experts that are dense", low=0),
    _count(
        "prediction_layers",
        0,
        "modules of multi-token prediction: a layer, a projection and logits each, on the last "
        "stage, beside `parameters`",
        low=0,
    ),
    _switch(
        "multi_token_prediction",
        "modules behind the last layer predict further tokens",
        "prediction_layers",
    ),
    _real(
        "routing_nodes",
        "1",
        math.inf,
        "nodes whose experts a token may visit (infinite: those of all)",
        low=1.0,
        may_be_infinite=True,
    ),
    _option(
        "expert_dispatch",
        "per_expert",
        ("per_expert", "per_node"),
        "tokens travel once for each expert they visit, or once for each node, and spread there",
        implied="per_node",
        implied_by=("routing_nodes",),
    ),
    _real(
        "expert_load_imbalance",
        "1",
        1.0,
        "tokens of the busiest rank's experts over the mean (expert_capacity = unlimited, dropped)",
        low=1.0,
    ),
    _real(
        "capacity_factor",
        "1",
        1.25,
        "most tokens that an expert takes, over the mean (expert_capacity = padded, dropped)",
        low=1.0,
    ),
    _option(
        "expert_capacity",
        "unlimited",
        ("unlimited", "padded", "dropped"),
        "experts take all tokens; or buffers of capacity_factor, filled up; or no more tokens than "
        "that",
        implied="padded",
        implied_by=("capacity_factor",),
    ),
    _switch(
        "token_permutation",
        "copies of tokens are sorted by expert, and back, through memory (roofline)",
    ),
    _switch(
        "shared_expert_overlap", "shared experts compute beside traffic of routed ones, and hide it"
    ),
    "Workload",
    _count("sequence_length", 4096, "tokens of one sequence"),
    _count("global_batch_size", 1024, "sequences of one step"),
    _count("micro_batch_size", 1, "sequences of one micro-batch"),
    _option(
        "training_stages",
        False,
        (False, "several"),
        "whether job_time counts a ramp of the batch and a stage of long sequences",
        implied="several",
        implied_by=("ramp_tokens", "long_context_tokens"),
    ),
    _real(
        "transition_time",
        "s",
        0.0,
        "making a phase ready: starting the job, re-sharding a checkpoint; GPUs wait meanwhile",
        positive=False,
    ),
    _option(
        "transitions",
        False,
        (False, "counted"),
        "whether job_time counts the time that it takes to make a job, or a phase of it, ready",
        implied="counted",
        implied_by=("transition_time",),
    ),
    _option(
        "batch_ramp",
        "linear",
        ("linear", "step"),
        "whether the batch grows evenly over ramp_tokens, or at once after them",
    ),
    _real("ramp_tokens", "1", 0.0, "tokens seen with a smaller batch", positive=False),
    _count("ramp_start_batch_size", 1024, "sequences of the first step"),
    _real("long_context_tokens", "1", 0.0, "last tokens, in longer sequences", positive=False),
    _real(
        "long_context_length",
        "1",
        131072,
        "tokens of those sequences (of several stages, the mean over their tokens)",
        low=1.0,
    ),
    _option(
        "batch_quality",
        False,
        (False, "critical"),
        "whether a larger batch takes more tokens to the same loss, by the critical batch size",
        implied="critical",
        implied_by=("critical_batch_tokens", "reference_batch_tokens"),
    ),
    _real(
        "earlier_tokens",
        "1",
        0.0,
        "tokens that the model has seen before the job; phases count those of the ones before",
        positive=False,
    ),
    _option(
        "critical_batch_law",
        "bergsma",
        ("bergsma", "zhang", "kaplan"),
        "how the critical batch size grows: with tokens (Bergsma et al. 2025, Zhang et al. 2024), "
        "or as the loss falls (Kaplan et al. 2020)",
    ),
    _real(
        "reference_batch_tokens",
        "1",
        0.0,
        "batch, in tokens, that training_tokens are stated for (0: far below the critical one)",
        positive=False,
    ),
    _option(
        "loss_fit",
        "besiroglu",
        ("besiroglu", "hoffmann"),
        "fit of the loss to sizes and tokens: as corrected by Besiroglu et al. 2024, or as "
        "published by Hoffmann et al. 2022",
    ),
    _real(
        "lifetime_inference_tokens",
        "1",
        0.0,
        "tokens that the model reads and writes when it is used, over its life",
        positive=False,
    ),
    _real("bytes_per_element", "B", 2, "size of an activation or weight"),
    _real(
        "gradient_bytes_per_element",
        "B",
        2,
        "size of a gradient on the wire (4 where they are added in FP32)",
    ),
    _option(
        "precision",
        "bf16",
        ("bf16", "fp16", "fp8", "fp8_blockwise", "mxfp8", "fp4", "nvfp4"),
        "number formats of the layers' matrices (fp8: one scale a tensor); attention and logits "
        "stay in 16 bits",
    ),
    _real(
        "sixteen_bit_layers_share",
        "1",
        0.15,
        "share of the layers' products that stays in 16 bits (precision = nvfp4)",
        positive=False,
        high=1.0,
    ),
    "Layout",
    _count("tensor_parallel", 1, "GPUs that share each layer"),
    _count("pipeline_parallel", 1, "pipeline stages"),
    _count("context_parallel", 1, "GPUs that share each sequence"),
    _option(
        "context_parallel_type",
        "p2p",
        ("p2p", "all_gather", "a2a", "a2a+p2p"),
        "how they do: a ring of keys and values, all of them gathered, heads shared out "
        "(Ulysses), or that inside a node and a ring across",
    ),
    _option(
        "context_balance",
        "zigzag",
        ("zigzag", "contiguous"),
        "parts of a sequence that each holds: an early and a late one, or one (a causal mask then "
        "gives the last of them most to do)",
    ),
    _count("expert_parallel", 1, "data-parallel ranks that share the routed experts"),
    _count("virtual_stages", 1, "model chunks on each pipeline stage"),
    _option(
        "stage_split",
        False,
        (False, "whole_layers"),
        "what pipeline stages hold: equal shares of all, or whole layers, embedding and logits at "
        "the ends (false: smooth, for derivatives by layers and stages)",
        implied="whole_layers",
        implied_by=("pipeline_parallel", "prediction_layers"),
    ),
    _count(
        "embedding_split_layers",
        0,
        "layers that the embedding counts as in the split (Megatron's "
        "--account-for-embedding-in-pipeline-split: 1)",
        low=0,
    ),
    _count(
        "loss_split_layers",
        0,
        "layers that logits and loss count as in the split (Megatron's "
        "--account-for-loss-in-pipeline-split: 1)",
        low=0,
    ),
    _option(
        "rank_order",
        "tp-cp-ep-dp-pp",
        ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"),
        "which ranks are neighbours, those of the first group nearest: pipeline stages or replicas "
        "farthest apart",
    ),
    _option(
        "zero_stage",
        1,
        (0, 1, 2, 3),
        "what data-parallel ranks shard: optimizer states, gradients too, weights too (2 and 3 "
        "exchange at every micro-batch)",
    ),
    _count(
        "data_parallel_shard",
        8,
        "data-parallel ranks of one sharding group, with the context-parallel ranks of each",
    ),
    _switch(
        "hybrid_sharding",
        (
            "shard within groups of data_parallel_shard replicas, and replicate across them "
            "(HSDP, MiCS, instances of a distributed optimizer)"
        ),
        "data_parallel_shard",
    ),
    _option(
        "gradient_sync",
        "microbatch",
        ("microbatch", "two_hop", "step"),
        "when ZeRO-2 and 3 reduce gradients: at every micro-batch, between sharding groups once a "
        "step (two_hop), or all once a step, unsharded until then (no_sync)",
    ),
    _option(
        "reshard_after_forward",
        True,
        (True, False),
        "ZeRO-3 gathers weights again for the backward pass (else they stay until gradients are "
        "reduced)",
    ),
    _switch("sequence_parallel", "shard norms and residuals over tensor ranks"),
    _option(
        "recompute",
        "selective",
        (False, "selective", "core_attention", "full"),
        "activations computed twice: attention's scores (none under flash attention), its forward "
        "kernel, or whole layers",
    ),
    _switch(
        "distribute_saved_activations",
        (
            "tensor ranks share the layer inputs that full recompute keeps (as "
            "sequence_parallel does)"
        ),
    ),
    _option("attention_kernel", "flash", ("standard", "flash"), "how attention is computed"),
    _option(
        "pipeline_schedule",
        "1f1b",
        (
            "gpipe",
            "1f1b",
            "interleaved",
            "combined_1f1b",
            "zb_h1",
            "zb_v",
            "dualpipe",
            "dualpipev",
        ),
        "order of the micro-batches (1f1b is interleaved where stages hold several chunks)",
    ),
    _option(
        "pipeline_scheduler",
        "megatron",
        ("megatron", "pytorch"),
        "whose rules say which interleaved schedules run, and in groups of how many micro-batches",
    ),
    _option(
        "pipeline_flush",
        True,
        (True, False),
        "stages wait for each other between steps (zb_v can do without)",
    ),
    _option(
        "pipeline_sends",
        "auto",
        ("auto", "blocking", "asynchronous"),
        "whether stages wait for their sends or compute on (auto: asynchronous where they hold "
        "several pieces of the model, as in Megatron-Core)",
    ),
    _switch("scatter_gather", "stages send a part per tensor rank"),
    _option(
        "all_reduce",
        "auto",
        (*SWITCHED, "torus"),
        "algorithm of every all-reduce, and of its halves (torus: rings along all dimensions of a "
        "torus, whose links carry all that stays in a node)",
        implied="torus",
        implied_by=("torus_x",),
    ),
    _real(
        "sqrt_coefficient",
        "s/B^0.5",
        0.0,
        "square-root term of a fitted all-reduce",
        positive=False,
    ),
    _real(
        "bucket_bytes",
        "B",
        math.inf,
        "gradients sent at a time (infinite: all at once)",
        may_be_infinite=True,
    ),
    _real("gradient_compression", "1", 1.0, "bytes of the gradients over bytes sent"),
    _overlap("data_parallel_overlap", "share of its window that hides gradient traffic"),
    _overlap("tensor_parallel_overlap", "share of compute that hides tensor traffic"),
    _overlap("context_parallel_overlap", "share of compute that hides context traffic"),
    _overlap("expert_parallel_overlap", "share of compute that hides expert traffic"),
    _switch(
        "link_sharing",
        (
            "kinds of traffic hidden behind compute share a link's bandwidth (else each has "
            "all of it)"
        ),
        "data_parallel_overlap",
        "tensor_parallel_overlap",
        "context_parallel_overlap",
        "expert_parallel_overlap",
        "weight_gather_overlap",
    ),
    _switch("fsdp_prefetch", "gather ZeRO-3 weights ahead in both passes"),
    _option("offload", False, (False, "cpu", "nvme"), "where optimizer states live, if not here"),
    _real("offload_bandwidth", "B/s", 25e9, "per GPU and direction, to the host (PCIe 4 x16)"),
    _real("nvme_bandwidth", "B/s", 3e9, "per GPU, to its drives"),
    "Memory",
    _option(
        "gradient_storage",
        "bf16",
        (False, "bf16", "fp32", "bf16_and_fp32"),
        "gradients kept: 14, 16, 18 or 20 bytes of state a parameter",
    ),
    _real("optimizer_bytes_per_parameter", "B", 12, "FP32 master and two moments", positive=False),
    _real("reserved_memory", "B", 0.0, "per GPU, for the context and buffers", positive=False),
    _real(
        "memory_error_factor",
        "1",
        1.02,
        "factor by which predicted and measured memory of a GPU differ at most, in 90 of 100 cases "
        "(33 published, see docs/accuracy.md)",
        low=1.0,
    ),
    "Efficiency",
    _option("compute_model", "mfu", ("mfu", "roofline"), "how compute time is predicted"),
    _option(
        "flops_counting",
        "transformer_causal",
        ("parameters", "transformer", "transformer_causal"),
        "convention of mfu and other reports, never of times: 6 N D, or matrix by matrix with "
        "attention (whole, or without what a causal mask hides) and logits",
        convention=True,
    ),
    _real(
        "flops_efficiency",
        "1",
        0.45,
        "share of peak while computing: no bubble, no communication (compute_model = mfu)",
        high=1.0,
    ),
    _real(
        "gemm_efficiency",
        "1",
        0.8,
        "share of peak of a large matrix product (compute_model = roofline)",
        high=1.0,
    ),
    _real(
        "gemm_half_size",
        "1",
        128.0,
        "rows, columns or depth at which a matrix product loses half its rate (roofline)",
        positive=False,
    ),
    _real(
        "attention_efficiency",
        "1",
        0.5,
        "share of peak of the attention kernel (roofline)",
        high=1.0,
    ),
    _real("memory_efficiency", "1", 0.8, "share of memory bandwidth reached (roofline)", high=1.0),
    _real(
        "layer_overhead_time",
        "s",
        0.0,
        "launches and waits of all passes of a micro-batch through a layer (roofline)",
        positive=False,
    ),
    _real("network_efficiency", "1", 1.0, "share of the bandwidth between nodes reached", high=1.0),
    _real("straggler_slowdown", "1", 0.0, "extra compute time of the slowest rank", positive=False),
    _real(
        "step_time_jitter",
        "1",
        0.0,
        "standard deviation of a rank's compute time, over its mean",
        positive=False,
    ),
    _option(
        "jitter_model",
        False,
        (False, "normal", "gumbel"),
        "distribution of the jitter",
        implied="normal",
        implied_by=("step_time_jitter",),
    ),
    _option(
        "slow_nodes",
        False,
        (False, "share", "detected", "checked"),
        "nodes that are slow and stay so: a share of all; each until it is found and replaced; "
        "all that are slow replaced at regular checks",
        implied="share",
        implied_by=("slow_node_share",),
    ),
    _real("slow_node_share", "1", None, "share of nodes slow at a time", positive=False, high=1.0),
    _real(
        "slow_node_slowdown",
        "1",
        None,
        "extra compute time of a slow node, over the others' (exponential: the mean)",
        positive=False,
    ),
    _option(
        "slow_node_tail",
        "fixed",
        ("fixed", "exponential"),
        "slow nodes are alike, or their slowdowns have a tail",
    ),
    _real(
        "slow_node_mttf",
        "s",
        None,
        "mean time until a node becomes slow (infinite: never)",
        may_be_infinite=True,
    ),
    _real(
        "slow_node_detection_time",
        "s",
        None,
        "mean time until a slow node is found and replaced (infinite: never)",
        may_be_infinite=True,
    ),
    _real(
        "slow_node_check_interval",
        "s",
        None,
        "training between checks of all nodes (infinite: no checks)",
        may_be_infinite=True,
    ),
    _real("slow_node_check_time", "s", 0.0, "stop of the job for a check", positive=False),
    _real("slow_node_swap_time", "s", 0.0, "stop of the job to replace slow nodes", positive=False),
    _count("backup_workers", 0, "replicas more than needed; the slowest are not awaited", low=0),
    _real(
        "error_factor",
        "1",
        1.0,
        "factor by which predicted and measured times differ at most, in 90 of 100 (calibrations)",
        low=1.0,
    ),
    _real(
        "step_time_error",
        "1",
        0.0,
        "where in its interval the step's time is: -1 at step_time_low, 0 as predicted, 1 at "
        "step_time_high; the parts of a step stay as predicted",
        low=-4.0,
        high=4.0,
        positive=False,
    ),
    _switch(
        "shifted_step_time",
        "the step's time is not as predicted, but elsewhere in its interval",
        "step_time_error",
    ),
    _real(
        "serial_time_per_step", "s", 0.0, "data loading, logging: nothing overlaps", positive=False
    ),
    _real(
        "serial_fraction",
        "1",
        0.0,
        "part of the work that no GPU shares (speed-up laws, not step_time)",
        positive=False,
        high=1.0,
    ),
    _real("coherency", "1", 0.0, "cost of each pair of workers (usl_speedup)", positive=False),
    "Reliability",
    _mttf("gpu_mttf", 50_000 * HOUR, "GPU"),
    _mttf("nic_mttf", 150_000 * HOUR, "network card"),
    _mttf("psu_mttf", 100_000 * HOUR, "power supply"),
    _mttf("cable_mttf", math.inf, "network cable"),
    _mttf("switch_mttf", math.inf, "leaf switch"),
    _mttf("pod_mttf", math.inf, "pod, as a whole"),
    _mttf("host_mttf", math.inf, "host (CPU, board, memory)"),
    _mttf("software_mttf", math.inf, "node's software"),
    _mttf("silent_corruption_mttf", math.inf, "GPU, between silent corruptions of its data"),
    _real(
        "corruption_latency",
        "s",
        0.0,
        "silent corruption until it is found, on average; the work since then is lost",
        positive=False,
    ),
    _option(
        "corruption_detection",
        "at_once",
        ("at_once", "late"),
        "whether silent corruption is found as it happens, or corruption_latency later",
        implied="late",
        implied_by=("corruption_latency",),
    ),
    _real("fleet_age", "s", 0.0, "of the hardware at the start", positive=False),
    _real("aging_window", "s", 0.0, "from fleet_age on: rates are its mean", positive=False),
    _real(
        "burn_in_excess",
        "1",
        0.0,
        "failures of new hardware over those of grown, less 1",
        positive=False,
    ),
    _real("burn_in_time", "s", 90 * 24 * HOUR, "in which that excess falls to 1/e"),
    _real(
        "wear_out_age",
        "s",
        math.inf,
        "age at which wear adds as many failures as grown hardware has (infinite: none)",
        may_be_infinite=True,
    ),
    _real("wear_out_shape", "1", 3.0, "Weibull shape of wear-out", low=1.0),
    _option(
        "fleet_aging",
        False,
        (False, "on"),
        "whether parts fail by their age: burn-in and wear-out (mtbf_model = components)",
        implied="on",
        implied_by=("burn_in_excess", "wear_out_age"),
    ),
    _real(
        "failure_shape",
        "1",
        1.0,
        "Weibull shape of times between failures; goodput takes 1",
        idle="failures of many parts come at random, whatever the shape of each (Drenick 1960); "
        "fleetcube simulate plays what few do",
    ),
    _option(
        "failure_distribution",
        "exponential",
        ("exponential", "weibull"),
        "distribution of the time between failures in failure_probability",
        implied="weibull",
        implied_by=("failure_shape",),
    ),
    _real(
        "correlated_failure_fraction",
        "1",
        0.0,
        "share of node failures that take a failure domain down together",
        positive=False,
        high=1.0,
    ),
    _count("failure_domain_nodes", 4, "nodes that fail together"),
    _option(
        "mtbf_model",
        "components",
        ("components", "empirical"),
        "how the cluster's MTBF is found",
        implied="empirical",
        implied_by=("reference_mtbf",),
    ),
    _real("reference_mtbf", "s", 7.9 * HOUR, "measured MTBF of a reference job (empirical)"),
    _count("reference_gpus", 1024, "accelerators of the reference job (empirical)"),
    _real("mtbf_exponent", "1", 1.0, "MTBF falls with this power of n_gpus (empirical)", high=10.0),
    _count("spare_nodes", 0, "hot spares at hand", low=0),
    _option(
        "sparing",
        False,
        (False, "hot"),
        "whether hot spares replace failed nodes",
        implied="hot",
        implied_by=("spare_nodes",),
    ),
    _real(
        "repair_time",
        "s",
        24 * HOUR,
        "until a failed node is whole again (spares, elastic, node_pool)",
        positive=False,
        high=1e10,
    ),
    _option(
        "repair_shop",
        "unlimited",
        ("unlimited", "crews"),
        "whether failed nodes wait for one of repair_crews",
        implied="crews",
        implied_by=("repair_crews",),
    ),
    _count(
        *("repair_crews", None, "nodes repaired at a time; others wait (spares, node_pool)"),
        high=1e9,
    ),
    _option(
        "node_pool",
        "open",
        ("open", "closed", "closed_idle_safe"),
        "what a job without a spare waits for: a node from outside (open), or a repair, where idle "
        "nodes fail, too (closed), or do not (closed_idle_safe)",
    ),
    _option("elastic", False, (False, "shrink"), "go on with fewer replicas until repair"),
    _real("detection_time", "s", 30, "failure until it is noticed", positive=False),
    _real("drain_time", "s", 30, "stopping the other ranks", positive=False),
    _real("provision_time", "s", 300, "getting a healthy node, without a spare", positive=False),
    _real("reinit_time", "s", 30, "starting the job again", positive=False),
    _share("in_process_share", "an in-process restart: same processes, same nodes"),
    _share("in_job_share", "an in-job restart: new processes, same nodes"),
    _share("requeue_share", "the whole job back in the queue; the rest, with a node swap"),
    _real(
        "in_process_restart_time",
        "s",
        15,
        "ranks stop and start inside their processes",
        positive=False,
    ),
    _real(
        "requeue_time",
        "s",
        600,
        "the job stops, waits in the queue and has its nodes",
        positive=False,
    ),
    _option(
        "recovery_model",
        False,
        (False, "kinds"),
        "whether all failures cost a node and the same time, or each kind its own",
        implied="kinds",
        implied_by=("in_process_share", "in_job_share", "requeue_share"),
    ),
    _real(
        "maintenance_fraction",
        "1",
        0.0,
        "share of wall time lost to planned maintenance",
        positive=False,
        high=0.999,
    ),
    "Checkpoints and goodput",
    _real("checkpoint_bytes_per_parameter", "B", 14, "BF16 weights, FP32 master, two moments"),
    _real("checkpoint_write_bandwidth", "B/s", 100e9, "of the whole storage system"),
    _real("checkpoint_read_bandwidth", "B/s", 100e9, "of the whole storage system"),
    _real(
        "per_node_storage_bandwidth",
        "B/s",
        math.inf,
        "of one node, up to that of the whole system",
        may_be_infinite=True,
    ),
    _option(
        "storage_scaling",
        "total",
        ("total", "per_node"),
        "whether storage bandwidth grows with the nodes that write",
        implied="per_node",
        implied_by=("per_node_storage_bandwidth",),
    ),
    _real("snapshot_bandwidth", "B/s", 25e9, "per GPU, to host memory (PCIe 4 x16)"),
    _option(
        "checkpoint_mode",
        "sync",
        ("sync", "async", "in_memory", "tiered"),
        "training stops for the write, or only for a snapshot that is written or copied behind it; "
        "or several tiers hold checkpoints: memory, drives and storage",
        implied="tiered",
        implied_by=("memory_tier_survival", "drive_tier_survival"),
    ),
    _real(
        "memory_tier_survival",
        "1",
        0.0,
        "share of failures that checkpoints in memory survive (0: no such tier)",
        positive=False,
        high=1.0,
    ),
    _real(
        "drive_tier_survival",
        "1",
        0.0,
        "share of failures that checkpoints on local drives survive (0: no such tier)",
        positive=False,
        high=1.0,
    ),
    _option("memory_tier", "peer", ("peer", "host"), "whose memory holds checkpoints (tiered)"),
    _real(
        "tier_stall_share",
        "1",
        0.0,
        "share of a copy to a tier for which training waits (tiered)",
        positive=False,
        high=1.0,
    ),
    _real(
        "rail_busy_share",
        "1",
        0.0,
        "share of the time in which training's traffic holds the rail (tiered, peer)",
        positive=False,
        high=0.999,
    ),
    _real(
        "checkpoint_memory_capacity",
        "B",
        math.inf,
        "of one node's host, for checkpoints (tiered)",
        may_be_infinite=True,
    ),
    _real(
        "checkpoint_drive_capacity",
        "B",
        math.inf,
        "of one node's drives, for checkpoints (tiered)",
        may_be_infinite=True,
    ),
    _option(
        "checkpoint_policy",
        "exact",
        ("exact", "daly", "young", "fixed"),
        "how the interval is set",
        implied="fixed",
        implied_by=("fixed_checkpoint_interval",),
    ),
    _real("fixed_checkpoint_interval", "s", None, "interval under checkpoint_policy = fixed"),
    _real(
        "corruption_probability",
        "1",
        0.0,
        "chance that a checkpoint cannot be read",
        positive=False,
        high=0.999,
    ),
    _switch(
        "checkpoint_corruption",
        "whether unreadable checkpoints are counted",
        "corruption_probability",
    ),
    _option("goodput_model", "exact", ("exact", "first_order", "additive"), "how losses combine"),
    _budget("bubble_budget", 0.05, "pipeline bubbles; 0 where step_time counts them"),
    _budget("checkpoint_budget", 0.03, "checkpoints"),
    _budget("recovery_budget", 0.10, "failures, rework included"),
    _budget("maintenance_budget", 0.05, "maintenance windows"),
    _option(
        "mfu_scope",
        "step",
        ("step", "node"),
        "what mfu was measured on: whole steps, or one node without the fabric",
        implied="node",
        implied_by=("scaling_efficiency",),
    ),
    "Serving",
    _count("serving_batch_size", 1, "sequences that a replica decodes at once"),
    _count("prompt_tokens", 1024, "tokens of one prompt", low=0),
    _count("output_tokens", 256, "tokens of one answer"),
    _real("kv_bytes_per_element", "B", 2, "size of a key or value in the cache"),
    _switch(
        "latent_attention",
        "all heads read one latent vector of a token, of which every tensor rank keeps a copy",
        "kv_elements_per_layer",
    ),
    _switch(
        "data_parallel_attention",
        "each GPU of a replica holds all attention weights, and serves requests of its own",
    ),
    _real("request_rate", "1/s", 1.0, "requests of all users"),
]

INPUTS: dict[str, Input] = {row.name: row for row in _ROWS if isinstance(row, Input)}

# Who can change an input: who buys machines or the network, runs them, writes the software or asks
# for the job. "model" is what a plan takes as it is: what is trained, and how laws predict it.
# First those of headings, then inputs that another than their heading's can change
KINDS = ("hardware", "fabric", "operations", "software", "job", "model")
HEADING_KINDS = {
    "Cluster": "hardware",
    "Sites": "fabric",
    "Power and money": "operations",
    "Model": "model",
    "Workload": "job",
    "Layout": "software",
    "Memory": "software",
    "Efficiency": "software",
    "Reliability": "operations",
    "Checkpoints and goodput": "operations",
    "Serving": "job",
}
OTHER_KINDS: dict[str, tuple[str, ...]] = {
    "hardware": (
        *("gpu_tdp", "node_overhead_power", "node_price", "storage_price"),
        *("offload_bandwidth", "nvme_bandwidth", "slow_node_mttf", "slow_node_slowdown"),
        *("gpu_mttf", "psu_mttf", "host_mttf", "silent_corruption_mttf"),
        *("fleet_age", "burn_in_excess", "burn_in_time", "wear_out_age", "wear_out_shape"),
        *("fleet_aging", "correlated_failure_fraction", "failure_domain_nodes"),
        *("checkpoint_write_bandwidth", "checkpoint_read_bandwidth", "per_node_storage_bandwidth"),
        *("storage_scaling", "snapshot_bandwidth"),
        *("checkpoint_memory_capacity", "checkpoint_drive_capacity"),
    ),
    "fabric": (
        *("nics_per_node", "cables_per_node", "gpus_per_switch", "inter_node_bandwidth"),
        *("inter_node_latency", "oversubscription", "rail_optimized", "gpus_per_pod"),
        *("pod_oversubscription", "network_tiers", "fabric_reduction", "fabric_price"),
        *("fabric_pricing", *_PARTS_OF_FABRIC),
        *("network_efficiency", "nic_mttf", "cable_mttf", "switch_mttf", "pod_mttf"),
    ),
    "operations": (
        *("site_mttf", "outages", "site_repair_time", "transition_time", "transitions"),
        *("straggler_slowdown", "slow_nodes", "slow_node_share", "slow_node_detection_time"),
        *("slow_node_check_interval", "slow_node_check_time", "slow_node_swap_time"),
        "backup_workers",
    ),
    "software": (
        *("site_sync", "inner_steps", "outer_bytes_per_element", "model_fragments"),
        *("outer_state_bytes", "site_overlap", "linear_chunk_size", "expert_dispatch"),
        *("token_permutation", "shared_expert_overlap", "micro_batch_size", "bytes_per_element"),
        *("gradient_bytes_per_element", "precision", "sixteen_bit_layers_share", "software_mttf"),
        *("checkpoint_bytes_per_parameter", "tier_stall_share", "rail_busy_share"),
        *("kv_bytes_per_element", "data_parallel_attention"),
    ),
    "job": ("n_gpus", "sites", "multi_site"),
    "model": (
        *("tokens_factor", "batch_quality", "critical_batch_law", "reference_batch_tokens"),
        *("loss_fit", "sqrt_coefficient", "memory_error_factor", "compute_model"),
        *("flops_counting", "gemm_half_size", "jitter_model", "slow_node_tail", "error_factor"),
        *("step_time_error", "shifted_step_time", "aging_window", "failure_shape"),
        *("failure_distribution", "mtbf_model", "reference_mtbf", "reference_gpus"),
        *("mtbf_exponent", "goodput_model", "mfu_scope", "latent_attention"),
    ),
}


def headings() -> dict[str, str]:
    """The heading of each input."""
    return {row.name: heading for heading, rows in groups().items() for row in rows}


def groups() -> dict[str, list[Input]]:
    """The inputs under the headings of the table."""
    by_heading: dict[str, list[Input]] = {}
    heading = ""
    for row in _ROWS:
        if isinstance(row, Input):
            by_heading[heading].append(row)
        else:
            heading = row
            by_heading[heading] = []
    return by_heading


@functools.cache
def kinds_of_inputs() -> Mapping[str, str]:
    """The kind of each input: its own, or that of its heading."""
    found = {name: HEADING_KINDS[heading] for name, heading in headings().items()}
    return found | {name: kind for kind, names in OTHER_KINDS.items() for name in names}
