"""Casts of a layer to few bits, and sums of its gradients: its time outside of products."""

import numpy as np

from ...alternatives import alternative, row
from ...ops import where
from ..model.layer_kinds import KINDS


@alternative("attention_cast_width", latent_attention=False)
def grouped_attention_cast_width(
    attention_parameters_per_layer, hidden_size, tensor_parallel, attention_layers, layers
):
    """Elements per token and layer that are cast inside attention, for both passes.

    W / (h t) l_a / l: its output, which the last projection reads, and the gradients of queries,
    keys and values

    Returns: [1] elements of one token, on one GPU
    Source: TransformerEngine, transformer_engine/pytorch/module/linear.py (forward casts the input,
        backward the output's gradient)
    """
    width = attention_parameters_per_layer / hidden_size
    return width / tensor_parallel * attention_layers / layers


@alternative("attention_cast_width", latent_attention=True)
def latent_attention_cast_width(
    query_latent_size,
    kv_latent_size,
    rotary_key_size,
    residual_ranks,
    attention_heads,
    head_size,
    value_head_size,
    tensor_parallel,
    attention_layers,
    layers,
):
    """((2 (r_q + r_kv) + d_r) / t_s + a (2 (d + d_v) - d_r) / t) l_a / l: latents read and their
    gradients, output of attention, gradients of queries, of keys without d_r and of values

    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.1; TransformerEngine,
        transformer_engine/pytorch/module/linear.py
    """
    latents = (2 * (query_latent_size + kv_latent_size) + rotary_key_size) / residual_ranks
    head = 2 * (head_size + value_head_size) - rotary_key_size
    heads = attention_heads * head / tensor_parallel
    return (latents + heads) * attention_layers / layers


@alternative("state_cast_width", linear_attention=KINDS, off=0.0)
def mixed_state_cast_width(
    linear_parameters_per_layer, hidden_size, tensor_parallel, linear_layers, layers
):
    """Elements per token and layer that are cast inside mixers with a state, for both passes.

    W / (h t) l_s / l

    Returns: [1] elements of one token, on one GPU
    Source: TransformerEngine, transformer_engine/pytorch/module/linear.py
    """
    return linear_parameters_per_layer / hidden_size / tensor_parallel * linear_layers / layers


@alternative("routed_cast_width", mixture_of_experts=True, off=0.0)
def expert_routed_cast_width(
    routed_visits_per_token,
    expert_input_width,
    expert_token_ranks,
    shared_experts,
    hidden_size,
    residual_ranks,
    expert_layers,
    layers,
):
    """Elements per token and layer that routed experts add to those cast for a block.

    2 (k w t_e - h) / t_s l_e / l: copies that they read and gradients of what they return, in place
    of the token itself, which only shared experts read: 2 k w t_e / t_s l_e / l with them

    Returns: [1] elements of one token, on one GPU
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.3; TransformerEngine,
        transformer_engine/pytorch/module/grouped_linear.py
    """
    copies = routed_visits_per_token * expert_token_ranks * expert_input_width
    token = where(shared_experts > 0, 0.0, hidden_size)
    return 2 * (copies - token) / residual_ranks * expert_layers / layers


def cast_width(
    hidden_size,
    mixer_and_ffn_blocks,
    layers,
    residual_ranks,
    attention_cast_width,
    state_cast_width,
    routed_cast_width,
    ffn_matrices,
    separate_ffn_width,
    tensor_parallel,
):
    """Elements per token and layer that are cast for products of both passes.

    2 h blocks / (l t_s) + inside attention and states + copies for experts + (2 or 3) f / t: inputs
    of each block and gradients of its results; output of the activation function, and gradients of
    its inputs

    Returns: [1] elements of one token, on one GPU
    Source: TransformerEngine, transformer_engine/pytorch/module/linear.py (forward casts the input,
        backward the output's gradient)
    """
    residual = 2 * hidden_size * mixer_and_ffn_blocks / layers / residual_ranks
    inside = attention_cast_width + state_cast_width + routed_cast_width
    return residual + inside + ffn_matrices * separate_ffn_width / tensor_parallel


def two_copy_cast_bytes(bytes_per_element, quantised_weight_bytes):
    """Bytes that a cast of one element to few bits moves, where it is read once.

    e + w: read, and written along rows and along columns

    Returns: [B] bytes of one element
    Range: a tensor's largest value is found by what wrote it, otherwise it is read once more; a
        cast that is part of what writes the tensor moves less
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.5.2 (activations are read, cast, written);
        TransformerEngine, transformer_engine/pytorch/module/linear.py
    """
    return bytes_per_element + quantised_weight_bytes


row("cast_bytes", 0.0, "nothing is cast", precision=("bf16", "fp16"))
row("cast_bytes", "scaled_cast_bytes", precision="fp8")
row(
    "cast_bytes",
    "two_copy_cast_bytes",
    summary="Bytes that a cast of one element to few bits moves.",
    returns="[B] bytes of one element",
    source="TransformerEngine, transformer_engine/pytorch/module/linear.py",
    precision=("fp8_blockwise", "mxfp8", "mxfp4"),
)
row(
    "scaled_cast_bytes",
    "two_copy_cast_bytes",
    summary="Bytes that a cast of one element to FP8 moves, by what its scales are of.",
    returns="[B] bytes of one element",
    source="TransformerEngine, transformer_engine/pytorch/module/linear.py",
    fp8_scaling="tensor",
)


@alternative("scaled_cast_bytes", fp8_scaling="row")
def row_scaled_cast_bytes(bytes_per_element, quantised_weight_bytes):
    """2 e + w: what writes the tensor casts its rows, and writes it along columns, where it is read
    to be cast

    Range: both copies are written, also where other products need one (fp8_weight_bytes = 1)
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511, section 2.2; torchao,
        torchao/testing/training/roofline_utils.py (get_tensor_memory_traffic_ovhd_s)
    """
    return 2 * bytes_per_element + quantised_weight_bytes


@alternative("cast_bytes", precision="nvfp4")
def nvfp4_cast_bytes(bytes_per_element, quantised_weight_bytes, sixteen_bit_layers_share):
    """2 e + w - 3 k e: read once for the largest values of rows and of rotated columns, which no
    norm or activation function finds, then again; k of the layers stay in e bytes

    Range: before its release 2.14 TransformerEngine reads for rows and for columns, 3 e in all
    Source: NVIDIA 2025 (NVFP4), arXiv:2509.25149; TransformerEngine,
        transformer_engine/pytorch/csrc/quantizer.cpp (NVFP4Quantizer::quantize_impl)
    """
    sixteen_bit_bytes = 3 * sixteen_bit_layers_share * bytes_per_element
    return 2 * bytes_per_element + quantised_weight_bytes - sixteen_bit_bytes


row("weight_cast_bytes", 0.0, "cast once a step, not counted", zero_stage=(0, 1, 2))


row(
    "weight_cast_bytes",
    "gathered_weight_cast_bytes",
    summary="Bytes that casts of a layer's weights move for a micro-batch.",
    returns="[B] bytes moved",
    zero_stage=3,
)
row(
    "gathered_weight_cast_bytes",
    0.0,
    "frozen in few bits, and gathered so",
    frozen_weights=("fp8", "nf4"),
)


@alternative("gathered_weight_cast_bytes", frozen_weights=False)
def whole_gathered_weight_cast_bytes(
    layer_matrix_parameters,
    cast_bytes,
    quantised_weight_bytes,
    operand_bytes_per_element,
    weight_bytes_on_wire,
    bytes_per_element,
):
    """Bytes that casts of a layer's gathered weights move for a micro-batch.

    2 N (c - w + q): each pass casts anew, to the one copy of q of w bytes that it reads; with
    weights gathered in few bits 2 N (w - q), to make the other copy

    Returns: [B] bytes moved
    Range: torchao reads weights once more for the largest value of a tensor, e, and makes the other
        copy also where products need one only; TransformerEngine casts for both passes at once
        where it keeps the copies; passes that recomputation repeats are not counted
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511, section 2.2; torchao,
        torchao/testing/training/roofline_utils.py (get_tensor_memory_traffic_ovhd_s)
    """
    anew = cast_bytes - quantised_weight_bytes + operand_bytes_per_element
    other = quantised_weight_bytes - operand_bytes_per_element
    in_few_bits = weight_bytes_on_wire < bytes_per_element
    return layer_matrix_parameters * 2 * where(in_few_bits, other, anew)


@alternative("layer_matrix_parameters", mixture_of_experts=False)
def dense_layer_matrix_parameters(active_matrix_parameters, layers, tensor_parallel):
    """Weights of a layer's matrices that one GPU computes with, mean over layers.

    N_matrices / (l t), routers among them

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2 (12 h^2)
    """
    return active_matrix_parameters / (layers * tensor_parallel)


@alternative("layer_matrix_parameters", mixture_of_experts=True)
def expert_layer_matrix_parameters(
    active_matrix_parameters,
    layers,
    tensor_parallel,
    expert_layers,
    experts_per_token,
    experts,
    expert_parallel,
    expert_tensor_parallel,
    expert_parameters,
):
    """((N_matrices - l_e k x expert) / t + l_e E / (e t_e) x expert) / l: all experts of a rank in
    place of those that a token visits

    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1
    """
    others = active_matrix_parameters - expert_layers * experts_per_token * expert_parameters
    routed = experts / expert_parallel / expert_tensor_parallel * expert_parameters
    return (others / tensor_parallel + expert_layers * routed) / layers


row("cast_time", 0.0, "nothing is cast", precision=("bf16", "fp16"))


@alternative("cast_time", precision=("fp8", "fp8_blockwise", "mxfp8", "mxfp4", "nvfp4"))
def few_bit_cast_time(
    microbatch_tokens, cast_width, cast_bytes, weight_cast_bytes, reached_hbm_bandwidth
):
    """Memory-bound time of a layer's casts to few bits, forward and backward.

    (T elements x bytes + those of weights) / BW

    Returns: [s] time for one micro-batch
    Range: casts that recomputation repeats are not counted
    Source: Williams et al. 2009, CACM 52(4); DeepSeek-AI 2024, arXiv:2412.19437, section 3.5.2
        (activations are read, cast, written)
    """
    activations = microbatch_tokens * cast_width * cast_bytes
    return (activations + weight_cast_bytes) / reached_hbm_bandwidth


@alternative("gradient_sum_time", mixture_of_experts=False)
def dense_gradient_sum_time(
    layer_matrix_parameters,
    gradient_storage_bytes,
    reached_hbm_bandwidth,
    layer_matrix_time,
    elementwise_time,
):
    """Time by which sums of a layer's gradients take longer than the products that yield them.

    max(0, N x 2 g / BW - products): sums of g bytes are read and written

    Returns: [s] time for one micro-batch
    Range: a layer's matrices together, a lower bound where only some of them wait
    Source: Williams et al. 2009, CACM 52(4); Megatron-LM, gradient_accumulation_fusion
        (megatron/core/tensor_parallel/layers.py: the product adds to main_grad)
    """
    summing = layer_matrix_parameters * 2 * gradient_storage_bytes / reached_hbm_bandwidth
    return np.maximum(summing - (layer_matrix_time - elementwise_time), 0.0)


@alternative("gradient_sum_time", mixture_of_experts=True)
def expert_gradient_sum_time(
    active_matrix_parameters,
    layers,
    tensor_parallel,
    gradient_storage_bytes,
    reached_hbm_bandwidth,
    layer_matrix_time,
    elementwise_time,
    routed_ffn_time,
    routed_gradient_sum_time,
    expert_layers,
    experts_per_token,
    expert_parameters,
):
    """max(0, (N_matrices - l_e k x expert) / (l t) x 2 g / BW - products of these) + that of routed
    experts"""
    routed = expert_layers * experts_per_token * expert_parameters
    unrouted = np.maximum(active_matrix_parameters - routed, 0.0)
    others = dense_gradient_sum_time(
        dense_layer_matrix_parameters(unrouted, layers, tensor_parallel),
        gradient_storage_bytes,
        reached_hbm_bandwidth,
        layer_matrix_time - expert_layers / layers * routed_ffn_time,
        elementwise_time,
    )
    return others + routed_gradient_sum_time


def routed_gradient_sum_time(
    expert_tensor_parallel,
    gradient_storage_bytes,
    reached_hbm_bandwidth,
    routed_ffn_time,
    expert_layers,
    layers,
    experts,
    expert_parallel,
    expert_parameters,
):
    """Time by which sums of routed experts' gradients take longer than their products, in a layer.

    l_e / l max(0, E / e x expert / t_e x 2 g / BW - products)

    Returns: [s] time for one micro-batch
    Range: a layer's experts together, with starts of their products and latent projections: a lower
        bound where a sum waits for its own product
    Source: Williams et al. 2009, CACM 52(4); Gale et al. 2023 (MegaBlocks), arXiv:2211.15841,
        section 3 (tokens of each expert)
    """
    weights = experts / expert_parallel * expert_parameters / expert_tensor_parallel
    summing = weights * 2 * gradient_storage_bytes / reached_hbm_bandwidth
    return expert_layers / layers * np.maximum(summing - routed_ffn_time, 0.0)
