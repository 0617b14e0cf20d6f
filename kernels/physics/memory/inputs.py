"""Inputs of memory."""

import math

from ...declare import count, declared, option, real, share, switch

_MODULES = "attn_norm qkv_linear core_attn attn_proj mlp_norm expert_fc1 moe_act"  # Megatron-LM's
MODULES = tuple(f"offload_{module}" for module in _MODULES.split())

INPUTS = declared(
    "hardware",
    real(
        "hbm_capacity",
        "B",
        math.inf,
        "memory of one GPU (infinite: not checked)",
        may_be_infinite=True,
    ),
    real("offload_bandwidth", "B/s", 25e9, "per GPU and direction, to the host (PCIe 4 x16)"),
    real("host_memory_bandwidth", "B/s", None, "of a node's CPUs (2 x 8 DDR5-4800: 614 GB/s)"),
    real("host_memory_efficiency", "1", 0.46, "share that an update reaches (CPU-Adam)", high=1.0),
    "software",
    option(
        "activation_offload",
        False,
        (False, "layers", "modules"),
        "which activations wait in the host's memory: those of some layers, or of modules "
        "(offload_core_attn and its like)",
        implied="modules",
        implied_by=MODULES,
    ),
    count(
        "offloaded_layers",
        0,
        "layers whose activations go to the host (activation_offload = layers; Megatron's "
        "--cpu-offloading-num-layers)",
        low=0,
    ),
    share("offload_attn_norm", "share of layers whose first norm's input goes to the host"),
    share("offload_qkv_linear", "share of layers whose projections' inputs go to the host"),
    share("offload_core_attn", "share of layers whose queries, keys and values go to the host"),
    share("offload_attn_proj", "share of layers whose attention's output goes to the host"),
    share("offload_mlp_norm", "share of layers whose second norm's input goes to the host"),
    share("offload_expert_fc1", "share of layers whose copies of tokens go to the host"),
    share("offload_moe_act", "share of layers whose inner activations go to the host"),
    option(
        "compile",
        True,
        (True, False),
        "norms, gates and loss are kernels that keep no copies: torch.compile, XLA, or fused by "
        "hand (false: op by op, and autograd keeps what each reads)",
    ),
    count(
        "gathered_tables",
        0,
        "of embedding and head, those that ZeRO-3 keeps gathered besides the layer at work (2 in "
        "the outermost unit of PyTorch's FSDP; 1: torchtitan since 2025-07)",
        low=0,
        high=2,
    ),
    real(
        "expert_output_bytes",
        "B",
        0.0,
        "kept of an element of routed experts' outputs, which scores multiply (4: torchtitan; 2: "
        "transformers; 0: Megatron-Core, whose scores multiply inside)",
        positive=False,
    ),
    option("offload", False, (False, "cpu", "nvme"), "where optimizer states live, if not here"),
    share("optimizer_offload_overlap", "of transfers and update on the host, the largest hides"),
    option(
        "optimizer",
        "adam",
        ("adam", "muon", "adafactor"),
        "states of each parameter: two moments, one momentum, or sums of rows and columns",
    ),
    real(
        "master_weight_bytes",
        "B",
        4,
        "of the optimizer's copy of a weight (2 with BF16 weights: Megatron-Core's "
        "store_param_remainders; 0 where weights are in FP32)",
        positive=False,
    ),
    real(
        "moment_bytes",
        "B",
        4,
        "of one moment of a parameter (2 in BF16: exp_avg_dtype; 1.02 in 8 bits, with scales)",
        positive=False,
    ),
    real(
        "reserved_memory",
        "B",
        3.5e9,
        "per GPU, for what is no tensor: CUDA's context (0.3 to 0.5 GB), NCCL's buffers (0.5 to "
        "0.7 GB a group at first) and gaps between tensors",
        positive=False,
    ),
    switch(
        "memory_headroom",
        "refuse what fits only within the error of the memory model (on while searching for the "
        "best, unless stated)",
    ),
    "model",
    real(
        "memory_error_factor",
        "1",
        1.07,
        "factor by which predicted and measured memory of a GPU differ at most, in 90 of 100 cases "
        "of a published table that no formula was written by (docs/accuracy.md; 1.02 in others)",
        low=1.0,
    ),
)
