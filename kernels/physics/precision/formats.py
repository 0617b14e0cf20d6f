"""Number formats: peak rates and bytes per element."""

import numpy as np

from ...alternatives import alternative, row
from ...ops import where
from ..model.layer_kinds import KINDS

row("peak_flops", "peak_flops_bf16", precision="bf16")
row("peak_flops", "peak_flops_fp16", precision="fp16")
row("peak_flops", "scaled_peak_flops", precision="fp8")
row(
    "peak_flops",
    "peak_flops_fp8",
    "peak_flops_fp8, for blocks (1 x 128 activations, 128 x 128 weights) or 32 elements",
    source="DeepSeek-AI 2024, arXiv:2412.19437, section 3.3; Mishra et al. 2025 (MXFP8), "
    "arXiv:2506.08027",
    precision=("fp8_blockwise", "mxfp8"),
)
row("scaled_peak_flops", "peak_flops_fp8", fp8_scaling="tensor")


@alternative("scaled_peak_flops", fp8_scaling="row")
def row_scaled_peak_flops(peak_flops_fp8):
    """Dense FP8 peak of one GPU, as products with these scales reach it.

    0.93 P_8: kernels that scale each row and column

    Returns: [FLOP/s] peak
    Range: from three pairs of steps of Llama 3 8B, without the time of their casts (cast_time):
        0.82 on B200, 0.92 on H100, 1.19 on MI300X
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511, section 2.2; torchao,
        docs/source/workflows/training.md (2210df8: rowwise and tensorwise scaling in torchtitan)
    """
    return 0.93 * peak_flops_fp8


row(
    "peak_flops",
    "peak_flops_fp4",
    source="Rouhani et al. 2023 (MX), arXiv:2310.10537; Primus-Turbo, "
    "primus_turbo/pytorch/ops/gemm_fp4.py (no layer stays in 16 bits)",
    precision="mxfp4",
)


@alternative("peak_flops", precision="nvfp4")
def nvfp4_peak_flops(peak_flops_fp4, peak_flops_bf16, sixteen_bit_layers_share):
    """Dense peak of one GPU in the layers' matrix products, with some layers in 16 bits.

    1 / ((1 - k) / P_4 + k / P_16), k the share of operations in 16 bits

    Returns: [FLOP/s] peak
    Source: NVIDIA 2025 (NVFP4), arXiv:2509.25149; Megatron-LM, megatron/core/fp4_utils.py
    """
    few = (1 - sixteen_bit_layers_share) / peak_flops_fp4
    return 1 / (few + sixteen_bit_layers_share / peak_flops_bf16)


row(
    "logits_peak_flops",
    "peak_flops",
    summary="Dense peak of one GPU in the product that yields the logits.",
    returns="[FLOP/s] peak",
    precision=("bf16", "fp16"),
)
row(
    "logits_peak_flops",
    "peak_flops_bf16",
    source=(
        "DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.1 (output head); NVIDIA 2025 "
        "(NVFP4), arXiv:2509.25149; Mishra et al. 2025 (MXFP8), arXiv:2506.08027"
    ),
    precision=("fp8", "fp8_blockwise", "mxfp8", "mxfp4", "nvfp4"),
)


def attention_peak_flops(logits_peak_flops, head_size, matrix_unit_size):
    """Dense peak of one GPU in attention's products, which stay in 16 bits.

    P_logits min(d / u, 1): d = elements of a head, which fill as many of a matrix unit's u rows

    Returns: [FLOP/s] peak
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.1 (attention operators); MaxText,
        docs/guides/optimization/custom_model.md (head dimensions of 128 halve the rate of units of
        256 x 256)
    """
    return logits_peak_flops * np.minimum(head_size / matrix_unit_size, 1.0)


row(
    "kernel_attention_peak_flops",
    "attention_peak_flops",
    "kernels in FP8 are fused",
    summary="Dense peak of one GPU in the attention kernel's products, of a forward pass.",
    returns="[FLOP/s] peak",
    source="TransformerEngine, transformer_engine/pytorch/attention/dot_product_attention/"
    "backends.py (FusedAttnFunc)",
    attention_kernel="standard",
)
row("kernel_attention_peak_flops", "flash_attention_peak_flops", attention_kernel="flash")
row(
    "flash_attention_peak_flops",
    "attention_peak_flops",
    summary="Dense peak of one GPU in a fused attention kernel's products, of a forward pass.",
    returns="[FLOP/s] peak",
    attention_precision=False,
)
row("flash_attention_peak_flops", "fp8_attention_peak_flops", attention_precision="fp8")


@alternative("fp8_attention_peak_flops", sliding_window=True)
def windowed_fp8_attention_peak_flops(attention_peak_flops, peak_flops_fp8):
    """min(P_attention, P_8): windowed layers in FP8 are several times slower in the backward pass,
    so that no layer gains

    Range: full layers of such a model gain as in others, which is not counted
    Source: cudnn-frontend, benchmark/sdpa_benchmark_training/results (cuDNN 9.22)
    """
    return np.minimum(attention_peak_flops, peak_flops_fp8)


@alternative("fp8_attention_peak_flops", sliding_window=False)
def fp8_attention_peak_flops(
    attention_peak_flops, peak_flops_fp8, head_size, value_head_size, matrix_unit_size
):
    """Peak of one GPU in the attention kernel's products in FP8, of a forward pass.

    1.45 P_attention, 1.6 with keys wider than values (MLA): softmax stays in FP32, so that less is
    left of the 2 of the matrix units; at most P_8 min(d / u, 1)

    Returns: [FLOP/s] peak
    Range: means of 1.30 on GB200, 1.50 on H200, 1.56 on GB300 (causal, heads of 128, 8,192 tokens),
        and of 1.51 on GB200, 1.71 on GB300 (keys of 192, values of 128); in MXFP8 1.2 to 1.5
    Source: cudnn-frontend, benchmark/sdpa_benchmark_training/results (cuDNN 9.22;
        H200: 9.19), time in BF16 over that in FP8
    """
    most = peak_flops_fp8 * np.minimum(head_size / matrix_unit_size, 1.0)
    gain = where(value_head_size < head_size, 1.6, 1.45)
    return np.minimum(gain * attention_peak_flops, most)


row(
    "attention_operand_bytes",
    "bytes_per_element",
    summary="Bytes per element of what attention's products read, as it is kept.",
    returns="[B] size",
    attention_kernel="standard",
)
row("attention_operand_bytes", "flash_operand_bytes", attention_kernel="flash")
row("flash_operand_bytes", "bytes_per_element", attention_precision=False)
row(
    "flash_operand_bytes",
    1.0,
    "queries, keys and values as the kernel read them",
    summary="Bytes per element of what a fused attention kernel reads, as it is kept.",
    returns="[B] size",
    holds="the output is kept in 16 bits for the projection",
    source="TransformerEngine, transformer_engine/pytorch/attention/dot_product_attention/"
    "backends.py (FusedAttnFunc saves the FP8 tensors; NVTE_FP8_DPA_BWD)",
    attention_precision="fp8",
)
row("operand_bytes_per_element", "bytes_per_element", precision=("bf16", "fp16"))
row(
    "operand_bytes_per_element",
    1.0,
    precision="fp8",
    source="Micikevicius et al. 2022, arXiv:2209.05433, section 3",
)
row(
    "operand_bytes_per_element",
    1.03125,
    "1 + 1 / 32: an FP32 scale per 128 elements, or one of a byte per 32",
    source="DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.2; Mishra et al. 2025 (MXFP8), "
    "arXiv:2506.08027",
    precision=("fp8_blockwise", "mxfp8"),
)
row(
    "operand_bytes_per_element",
    0.53125,
    "1 / 2 + 1 / 32: a scale of a byte per 32",
    source="Rouhani et al. 2023 (MX), arXiv:2310.10537, section 2",
    precision="mxfp4",
)


@alternative("operand_bytes_per_element", precision="nvfp4")
def nvfp4_operand_bytes_per_element(sixteen_bit_layers_share, bytes_per_element):
    """Bytes per element read by the layers' matrix products, scales included, mean over layers.

    (1 - k) (1 / 2 + 1 / 16) + k e: a 1-byte scale per 16 elements, k of the layers in e bytes

    Returns: [B] size
    Source: NVIDIA 2025 (NVFP4), arXiv:2509.25149
    """
    return 0.5625 + sixteen_bit_layers_share * (bytes_per_element - 0.5625)


row(
    "served_matrix_bytes",
    "operand_bytes_per_element",
    precision=("bf16", "fp16", "fp8", "mxfp8", "mxfp4", "nvfp4"),
)
row(
    "served_matrix_bytes",
    1.000244140625,
    "1 + 4 / 128^2: an FP32 scale per 128 x 128 weights",
    summary="Bytes of a weight of the layers' matrices as inference keeps it, scales included.",
    returns="[B] size",
    source="DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.2; vLLM, "
    "vllm/model_executor/layers/quantization/fp8.py (weight_scale_inv)",
    precision="fp8_blockwise",
)
row("two_way_bytes_per_element", "operand_bytes_per_element", precision=("bf16", "fp16", "fp8"))


@alternative("two_way_bytes_per_element", precision=("fp8_blockwise", "mxfp8", "mxfp4"))
def block_two_way_bytes_per_element(operand_bytes_per_element):
    """Bytes per element of a tensor for products that sum along its rows, and along its columns.

    w = 2 q: blocks lie along the sums

    Returns: [B] size
    Source: Mishra et al. 2025 (MXFP8), arXiv:2506.08027; TransformerEngine,
        transformer_engine/pytorch/distributed.py (rowwise and columnwise data)
    """
    return 2 * operand_bytes_per_element


@alternative("two_way_bytes_per_element", precision="nvfp4")
def nvfp4_two_way_bytes_per_element(
    operand_bytes_per_element, sixteen_bit_layers_share, bytes_per_element
):
    """2 q - k e: layers in 16 bits need one copy

    Source: NVIDIA 2025 (NVFP4), arXiv:2509.25149
    """
    return 2 * operand_bytes_per_element - sixteen_bit_layers_share * bytes_per_element


@alternative("layer_matrix_share", linear_attention=False)
def layer_matrix_share(parameters, vocab_size, hidden_size, non_matmul_parameters):
    """Share of parameters in the layers' matrices, without embedding, head and norms.

    1 - (V h + non-matmul) / N

    Returns: [1] share
    Source: Narayanan et al. 2021 (SC21), eq. 2
    """
    return np.maximum(1 - (vocab_size * hidden_size + non_matmul_parameters) / parameters, 0.0)


@alternative("layer_matrix_share", linear_attention=KINDS)
def mixed_layer_matrix_share(parameters, vocab_size, hidden_size, mixed_non_matmul_parameters):
    """1 - (V h + non-matmul) / N: vectors of mixers with a state are no matrices

    Source: NVIDIA 2025 (Nemotron-H), arXiv:2504.03624, section 2.1
    """
    return layer_matrix_share(parameters, vocab_size, hidden_size, mixed_non_matmul_parameters)


row("quantised_share", 0.0, precision=("bf16", "fp16"))
row(
    "quantised_share",
    "layer_matrix_share",
    "those of the layers' matrices: embedding, head and norms stay in 16 bits",
    summary="Share of parameters in few bits.",
    returns="[1] share",
    source="DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.1 (embedding, head and norms stay)",
    precision=("fp8", "fp8_blockwise", "mxfp8", "mxfp4", "nvfp4"),
)
row(
    "packed_weight_bytes",
    "bytes_per_element",
    ("e; scales along rows and along columns differ, so that blocks of 32 are cast after it"),
    source=(
        "Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 7; Mishra et al. "
        "2025 (MXFP8), arXiv:2506.08027 (blocks along the sums of each product)"
    ),
    precision=("bf16", "fp16", "mxfp8", "mxfp4"),
)
row(
    "packed_weight_bytes",
    1.0,
    source="Liang et al. 2024 (TorchTitan), arXiv:2410.06511, section 2.2 (float8 all-gather)",
    precision="fp8_blockwise",
)
row("packed_weight_bytes", "scaled_weight_bytes", precision="fp8")
row("scaled_weight_bytes", 1.0, fp8_scaling="tensor")
row(
    "scaled_weight_bytes",
    "bytes_per_element",
    "e: the gather in FP8 knows scales of tensors only",
    summary="Bytes of one weight in FP8 as data-parallel ranks gather it.",
    returns="[B] bytes of one weight",
    source="Liang et al. 2024 (TorchTitan), arXiv:2410.06511, section 2.2; torchao, "
    "torchao/float8/config.py (enable_fsdp_float8_all_gather: tensorwise scaling only)",
    fp8_scaling="row",
)


@alternative("packed_weight_bytes", precision="nvfp4")
def nvfp4_packed_weight_bytes(operand_bytes_per_element, two_way_bytes_per_element):
    """Bytes of one weight in few bits as data-parallel ranks gather it.

    1 / 2 where a layer is in four bits: without its scales, a ninth of a copy

    Returns: [B] bytes of one weight
    Source: Megatron-LM, megatron/core/distributed/param_and_grad_buffer.py (nvfp4_packed_numel)
    """
    scales = (two_way_bytes_per_element - operand_bytes_per_element) / 9
    return operand_bytes_per_element - scales


@alternative("weight_bytes_on_wire", quantised_parameters=True)
def quantised_weight_bytes_on_wire(bytes_per_element, packed_weight_bytes, quantised_share):
    """Bytes per weight gathered by data-parallel ranks: the layers' matrices in few bits.

    e - (e - b) x share of parameters in the layers' matrices: embeddings and norms in e

    Returns: [B] bytes of one weight
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511, section 2.2; Megatron-LM,
        --fp8-param-gather (megatron/core/distributed/distributed_data_parallel_config.py)
    """
    return bytes_per_element - (bytes_per_element - packed_weight_bytes) * quantised_share


row("weight_bytes_on_wire", "bytes_per_element", quantised_parameters=False)


def serving_weight_bytes(bytes_per_element, served_matrix_bytes, quantised_share):
    """Bytes per weight kept for inference: the layers' matrices as products read them.

    e - (e - q) x share of parameters in the layers' matrices

    Returns: [B] bytes of one weight
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.1 (embedding, head and norms stay)
    """
    return bytes_per_element - (bytes_per_element - served_matrix_bytes) * quantised_share


row("quantised_weight_bytes", "bytes_per_element", precision=("bf16", "fp16"))
row(
    "quantised_weight_bytes",
    "fp8_weight_bytes",
    "2, with its transpose; 1 on GPUs whose products need none",
    summary="Bytes of a weight as the products of both passes read it, all its copies together.",
    returns="[B] bytes of one weight",
    source="TransformerEngine, transformer_engine/pytorch/csrc/quantizer.cpp "
    "(is_non_tn_fp8_gemm_supported); Primus-Turbo, primus_turbo/pytorch/ops/gemm_fp8.py "
    "(transposed on gfx950, not on gfx942)",
    precision="fp8",
)
row(
    "quantised_weight_bytes",
    2.0,
    "two copies of one byte",
    holds="scales of blocks of 128 x 128 are not counted",
    source="DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.2",
    precision="fp8_blockwise",
)


@alternative("updated_weight_bytes", lora=True, off="bytes_per_element")
def lora_updated_weight_bytes(trained_share, bytes_per_element):
    """Bytes of trained weights for each parameter of the model.

    share of adapters x bytes

    Returns: [B] bytes of one parameter
    Source: Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.2 (frozen weights have no gradients
        and optimizer states)
    """
    return trained_share * bytes_per_element


row("quantised_weight_bytes", "two_way_bytes_per_element", precision=("mxfp8", "mxfp4", "nvfp4"))


@alternative("primary_weight_bytes", quantised_parameters=True)
def quantised_primary_weight_bytes(bytes_per_element, quantised_weight_bytes, quantised_share):
    """Bytes per weight that the optimizer writes: the layers' matrices in few bits alone.

    e - (e - w) x share of parameters in the layers' matrices

    Returns: [B] bytes of one weight
    Source: Megatron-LM, --fp8-param-gather and --fp4-param-gather; Megatron-Bridge,
        src/megatron/bridge/training/mixed_precision.py (on but for blocks of 128)
    """
    return bytes_per_element - (bytes_per_element - quantised_weight_bytes) * quantised_share


row("primary_weight_bytes", "bytes_per_element", quantised_parameters=False)
row("cached_weight_bytes", 0.0, "there is no other", quantised_parameters=True)


row(
    "copied_weight_bytes",
    "quantised_weight_bytes",
    summary="Bytes of the copies that products read of a weight in 16 bits.",
    returns="[B] bytes of one weight",
    source="TransformerEngine, transformer_engine/pytorch/module/base.py (quantize_weight)",
    precision=("bf16", "fp16", "fp8", "fp8_blockwise", "mxfp8", "mxfp4"),
)


@alternative("copied_weight_bytes", precision="nvfp4")
def nvfp4_copied_weight_bytes(quantised_weight_bytes, sixteen_bit_layers_share, bytes_per_element):
    """w - k e: layers in 16 bits have no copy

    Source: NVIDIA 2025 (NVFP4), arXiv:2509.25149
    """
    return quantised_weight_bytes - sixteen_bit_layers_share * bytes_per_element


@alternative("cached_weight_bytes", quantised_parameters=False)
def quantised_cached_weight_bytes(copied_weight_bytes, quantised_share):
    """Bytes per weight of quantised copies, kept from one micro-batch to the next.

    copies x share of parameters in the layers' matrices

    Returns: [B] bytes of one weight
    Source: TransformerEngine, transformer_engine/pytorch/module/base.py (quantize_weight: the
        workspace of the first micro-batch is kept)
    """
    return copied_weight_bytes * quantised_share


def whole_weight_bytes(primary_weight_bytes, cached_weight_bytes):
    """Bytes of a weight where a GPU computes with it, with its quantised copies.

    written by the optimizer + copies

    Returns: [B] bytes of one weight
    Source: Megatron-LM, docs of the distributed optimizer; TransformerEngine,
        transformer_engine/pytorch/module/base.py; torchao, float8/fsdp_utils.py (gathered in FP8)
    """
    return primary_weight_bytes + cached_weight_bytes


row("frozen_weight_bytes", "whole_weight_bytes", frozen_weights=False)


@alternative("frozen_weight_bytes", frozen_weights=("fp8", "nf4"))
def quantised_frozen_weight_bytes(bytes_per_element, frozen_matrix_bytes, layer_matrix_share):
    """Bytes of a frozen weight, mean over the model.

    e - (e - bytes in matrices) x share of parameters in the layers' matrices

    Returns: [B] bytes of one weight
    Source: TransformerEngine, transformer_engine/pytorch/quantization.py (quantized_model_init);
        MLPerf Training, training_results_v5.1, NVIDIA/benchmarks/llama2_70b_lora (custom_llama.py)
    """
    return bytes_per_element - (bytes_per_element - frozen_matrix_bytes) * layer_matrix_share


row("frozen_matrix_bytes", "whole_weight_bytes", frozen_weights=False)
row(
    "frozen_matrix_bytes",
    1.0,
    source="TransformerEngine, transformer_engine/pytorch/quantization.py (quantized_model_init)",
    holds="without a scale for each tensor or block, and a transposed copy, which products on "
    "Hopper read",
    frozen_weights="fp8",
)
row(
    "frozen_matrix_bytes",
    0.515869140625,
    "4 bits, a scale of 8 bits for 64 weights, and one of 32 bits for 256 of those",
    summary="Bytes of a frozen weight in the layers' matrices.",
    returns="[B] bytes of one weight",
    source="Dettmers et al. 2023 (QLoRA), arXiv:2305.14314, section 3 (4 + 0.127 bits)",
    holds="time to turn them into 16 bits for each pass is not counted: LitGPT's steps of a few "
    "hundred tokens take 1.6 (7B) and 2 (13B) times as long",
    frozen_weights="nf4",
)
for of_weights, of_frozen, where_ in (
    ("layer_weight_bytes", "frozen_matrix_bytes", "the layers' matrices"),
    ("model_weight_bytes", "frozen_weight_bytes", "the model, mean"),
):
    row(
        of_weights,
        "whole_weight_bytes",
        summary=f"Bytes of a weight where a GPU computes with it, in {where_}.",
        returns="[B] bytes of one weight",
        source="Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.1",
        lora=False,
    )
    row(
        of_weights,
        of_frozen,
        source="Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.2",
        holds="without adapters, about 1 % of the weights",
        lora=True,
    )


row(
    "dispatch_bytes_per_element",
    "bytes_per_element",
    source="Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1",
    precision=("bf16", "fp16", "fp8", "mxfp8", "mxfp4", "nvfp4"),
)
row(
    "dispatch_bytes_per_element",
    1.03125,
    "1 + 4 / 128: an FP32 scale per 128 elements",
    summary="Bytes per element dispatched to experts, quantised before the all-to-all.",
    returns="[B] size",
    source="DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.3 (forward and backward)",
    precision="fp8_blockwise",
)


def combine_bytes_per_element(bytes_per_element):
    """Bytes per element combined from experts, unquantised.

    e, unless the scenario states it

    Returns: [B] size
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.3 (combine in BF16)
    """
    return 1.0 * bytes_per_element


def expert_bytes_share(dispatch_bytes_per_element, combine_bytes_per_element, bytes_per_element):
    """Bytes dispatched and combined over bytes of activations, mean of both directions.

    (dispatch + combine) / (2 e)

    Returns: [1] bytes over bytes
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.3
    """
    back = combine_bytes_per_element / bytes_per_element
    return (dispatch_bytes_per_element / bytes_per_element + back) / 2


def reached_hbm_bandwidth(hbm_bandwidth, memory_efficiency):
    """Memory bandwidth that kernels achieve.

    efficiency x BW

    Returns: [B/s] bandwidth
    Source: McCalpin 1995 (STREAM), the measure of sustained bandwidth
    """
    return hbm_bandwidth * memory_efficiency


row(
    "gradient_storage_bytes",
    0.0,
    ("what a checkpoint holds, 14 bytes a parameter with weights and optimizer states"),
    source="Fleet Foundations table 7",
    gradient_storage=False,
)
row(
    "gradient_storage_bytes",
    2.0,
    "16 bytes a parameter with weights and optimizer states, which count an FP32 copy: then 20",
    summary="Gradient storage per parameter.",
    returns="[B] bytes of one parameter's gradients",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1; Megatron-LM, docs of "
    "the distributed optimizer (FP16: 20 bytes, 4 + 16 / d if sharded)",
    gradient_storage=("bf16", "bf16_and_fp32"),
)
row(
    "gradient_storage_bytes",
    4.0,
    "18 bytes a parameter with weights and optimizer states",
    source="Megatron-LM, docs of the distributed optimizer (BF16 weights, FP32 gradients)",
    gradient_storage="fp32",
)
