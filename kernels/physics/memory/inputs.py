"""Inputs of memory."""

import math

from ...declare import declared, option, real

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
    "software",
    option("offload", False, (False, "cpu", "nvme"), "where optimizer states live, if not here"),
    option(
        "gradient_storage",
        "bf16",
        (False, "bf16", "fp32", "bf16_and_fp32"),
        "gradients kept: 14, 16, 18 or 20 bytes of state a parameter",
    ),
    real("optimizer_bytes_per_parameter", "B", 12, "FP32 master and two moments", positive=False),
    real("reserved_memory", "B", 0.0, "per GPU, for the context and buffers", positive=False),
    "model",
    real(
        "memory_error_factor",
        "1",
        1.02,
        "factor by which predicted and measured memory of a GPU differ at most, in 90 of 100 cases "
        "(33 published, see docs/accuracy.md)",
        low=1.0,
    ),
)
