"""Inputs of number formats and the rates of GPUs in them."""

from ...declare import declared, option, real

INPUTS = declared(
    "hardware",
    real("peak_flops_fp16", "FLOP/s", None, "dense FP16 peak of one GPU", labels="gpu or node"),
    real("peak_flops_bf16", "FLOP/s", None, "dense BF16 peak of one GPU", labels="gpu or node"),
    real("peak_flops_fp8", "FLOP/s", None, "dense FP8 peak of one GPU", labels="gpu or node"),
    real("peak_flops_fp4", "FLOP/s", None, "dense FP4 peak of one GPU", labels="gpu or node"),
    real("hbm_bandwidth", "B/s", None, "memory bandwidth of one GPU", labels="gpu or node"),
    real(
        "fp8_weight_bytes",
        "B",
        2,
        "of a weight in FP8 with a scale a tensor, for the products of both passes: with its "
        "transpose (1 where products need none: Blackwell, MI300X, TPUs)",
    ),
    real(
        "matrix_unit_size",
        "1",
        1.0,
        "side of a matrix unit, which smaller products leave in part idle (256 on TPUs since v6e; "
        "1: smaller than any product)",
        labels="gpu or node",
    ),
    "software",
    option(
        "precision",
        "bf16",
        ("bf16", "fp16", "fp8", "fp8_blockwise", "mxfp8", "mxfp4", "nvfp4"),
        "number formats of the layers' matrices (fp8: one scale a tensor); attention and logits "
        "stay in 16 bits",
    ),
    option(
        "fp8_scaling",
        "tensor",
        ("tensor", "row"),
        "what shares a scale with precision = fp8: a tensor, or a row of it (torchao's rowwise)",
    ),
    option(
        "gradient_storage",
        "bf16",
        (False, "bf16", "fp32", "bf16_and_fp32"),
        "gradients kept: 14, 16, 18 or 20 bytes of state a parameter",
    ),
    option(
        "quantised_parameters",
        True,
        (True, False),
        "weights of layers in few bits are kept and gathered so alone (Megatron-Core: "
        "--fp8-param-gather, --fp4-param-gather; else in 16 bits, with quantised copies, too)",
    ),
    real(
        "sixteen_bit_layers_share",
        "1",
        0.0,
        "share of the layers' products in 16 bits (precision = nvfp4; Megatron-LM's default: none, "
        "NVIDIA's recipe for long runs: 0.15)",
        positive=False,
        high=1.0,
    ),
    real(
        "gemm_efficiency",
        "1",
        0.8,
        "share of peak of a large matrix product (compute_model = roofline, and serving)",
        high=1.0,
    ),
    real(
        "memory_efficiency",
        "1",
        0.8,
        "share of memory bandwidth reached (roofline, serving)",
        high=1.0,
    ),
    "model",
    real("bytes_per_element", "B", 2, "size of an activation or weight"),
    real(
        "gemm_half_depth",
        "1",
        200.0,
        "depth at which a matrix product loses half its rate, as of a result of 2,500 times that "
        "(roofline)",
        positive=False,
    ),
)
