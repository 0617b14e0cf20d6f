"""Memory of activations kept for the backward pass."""

import numpy as np

from ...alternatives import alternative, family, row, same_as
from ...ops import where
from ...stages import kept_microbatches, microbatches_of_stage
from ..model.layer_kinds import KINDS
from ..pipeline.schedules import LEVEL
from .working_memory import ffn_gradients_memory

row(
    "ffn_input_width",
    "hidden_size",
    source="Korthikanti et al. 2022, arXiv:2205.05198, section 4.1",
    mixture_of_experts=False,
)


@alternative("ffn_input_width", mixture_of_experts=True)
def expert_ffn_input_width(
    hidden_size, routed_visits_per_token, expert_token_ranks, expert_layers, layers
):
    """Width of all feed-forward inputs kept per token and layer, mean over layers.

    h (1 + k w l_e / l): router and shared experts read the token, each routed expert a copy of it
    on each of its w GPUs, with sequence parallelism k h t_e / t per token

    Returns: [1] width
    Source: Gale et al. 2023 (MegaBlocks), arXiv:2211.15841 (tokens are permuted into copies, one
        for each expert visited); Korthikanti et al. 2022, arXiv:2205.05198, section 4.1
    """
    copies = routed_visits_per_token * expert_token_ranks
    return hidden_size * (1 + copies * expert_layers / layers)


row(
    "dropout_mask_bytes",
    1.0,
    summary="Bytes of one element's dropout mask: a GPT is trained with dropout.",
    returns="[B] mask of one element",
    source=("Korthikanti et al. 2022, arXiv:2205.05198, section 4.1 (masks of one byte)"),
    gated_ffn=False,
)
row(
    "dropout_mask_bytes",
    0.0,
    "models with gates are pre-trained without dropout",
    source="Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, section 5",
    gated_ffn=True,
)


row(
    "norm_output_bytes",
    "operand_bytes_per_element",
    precision=("bf16", "fp16", "fp8", "fp8_blockwise", "mxfp8"),
)


@alternative("norm_output_bytes", precision="nvfp4")
def nvfp4_norm_output_bytes(operand_bytes_per_element, two_way_bytes_per_element, residual_ranks):
    """Bytes per element of a norm's output, kept for the next product's gradient of weights.

    q; w, along rows too, if it is to be gathered again: sequence parallelism

    Returns: [B] size
    Source: TransformerEngine, transformer_engine/pytorch/module/layernorm_linear.py (update_usage)
    """
    return where(residual_ranks > 1, two_way_bytes_per_element, operand_bytes_per_element)


@alternative("router_input_bytes", mixture_of_experts=True, off=0.0)
def expert_router_input_bytes(bytes_per_element, norm_output_bytes, expert_layers, layers):
    """Bytes per element by which an input that a router reads exceeds that of a product, mean.

    (e - n) l_e / l: 16 bits

    Returns: [B] size
    Source: Megatron-LM, megatron/core/transformer/moe/router.py (no quantised gating)
    """
    return (bytes_per_element - norm_output_bytes) * expert_layers / layers


@alternative("residual_activations_per_token", linear_attention=False)
def residual_activations_per_token(
    hidden_size,
    ffn_input_width,
    bytes_per_element,
    norm_output_bytes,
    router_input_bytes,
    operand_bytes_per_element,
    dropout_mask_bytes,
    residual_ranks,
):
    """Activation bytes per token and layer that only sequence parallelism shards.

    ((2 e + 2 n + r + 2 m) h + q (w - h)) / t_s, 10 h / t_s in a GPT in BF16: inputs of two norms,
    their outputs of n bytes, r more for routers, copies for experts, and two dropout masks of m
    bytes an element

    Returns: [B] activations of one token in one layer
    Range: shared experts in 8 or 4 bits keep another n h
    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.2; TransformerEngine,
        transformer_engine/pytorch/module/layernorm_linear.py (what forward saves)
    """
    block = bytes_per_element + norm_output_bytes + dropout_mask_bytes
    copies = operand_bytes_per_element * (ffn_input_width - hidden_size)
    return ((2 * block + router_input_bytes) * hidden_size + copies) / residual_ranks


@alternative("matrix_activations_per_token", linear_attention=False)
def matrix_activations_per_token(
    attention_heads,
    kv_heads,
    head_size,
    ffn_matrices,
    active_ffn_width,
    tensor_parallel,
    bytes_per_element,
    operand_bytes_per_element,
):
    """Activation bytes per token and layer around its matrices, sharded over tensor ranks.

    e ((2 a / t + 2 max(a_kv / t, 1)) (h / a) + (1 or 2) f / t) + q f / t: queries, keys, values,
    output of attention, input of the activation function; its output as the next product reads it;
    24 h / t for a GPT in BF16; ranks beyond the number of KV heads hold copies

    Returns: [B] activations of one token in one layer
    Range: delayed scaling (fp8) keeps attention's output once more, q a (h / a) / t
    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.1 (24 / t); Megatron-LM,
        megatron/core/transformer/attention.py (set_save_original_input)
    """
    kv_here = np.maximum(kv_heads / tensor_parallel, 1.0)
    attention = head_size * (2 * attention_heads / tensor_parallel + 2 * kv_here)
    each = bytes_per_element * (ffn_matrices - 1) + operand_bytes_per_element
    return bytes_per_element * attention + each * active_ffn_width / tensor_parallel


@alternative("score_activations_per_token", attention_kernel="standard")
def standard_score_activations_per_token(
    attention_heads, sequence_length, tensor_parallel, bytes_per_element, dropout_mask_bytes
):
    """Attention-score bytes per token and layer.

    (e + m (e + 1)) a s / t: softmax output and, with dropout, a mask of m = 1 byte and the masked
    output; 5 a s / t for a GPT in BF16

    Returns: [B] activations of one token in one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.1 (5 a s / h)
    """
    scores = attention_heads * sequence_length / tensor_parallel
    return (bytes_per_element + dropout_mask_bytes * (bytes_per_element + 1)) * scores


row(
    "score_activations_per_token",
    0.0,
    "they never reach memory",
    source="Dao et al. 2022 (FlashAttention), arXiv:2205.14135, section 3.1",
    attention_kernel="flash",
)


@alternative("activation_memory_per_layer", recompute=False)
def kept_activation_memory_per_layer(
    microbatch_tokens,
    residual_activations_per_token,
    matrix_activations_per_token,
    score_activations_per_token,
):
    """T (10 h + 24 h / t + 5 a s / t) for a GPT; T (34 h + 5 a s) / t with sequence parallelism

    Source: Korthikanti et al. 2022, arXiv:2205.05198, eq. 1, 2 and 4
    """
    kept = residual_activations_per_token + matrix_activations_per_token
    return microbatch_tokens * (kept + score_activations_per_token)


@alternative("activation_memory_per_layer", recompute=("selective", "core_attention"))
def selective_activation_memory_per_layer(
    microbatch_tokens, residual_activations_per_token, matrix_activations_per_token
):
    """Activation memory of one layer and micro-batch: scores are recomputed.

    T (10 h + 24 h / t) for a GPT; 34 T h / t with sequence parallelism

    Returns: [B] activations of one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, eq. 6 and table 2
    """
    return microbatch_tokens * (residual_activations_per_token + matrix_activations_per_token)


@alternative("layer_input_bytes", distribute_saved_activations=False)
def whole_layer_input_bytes(activation_message, residual_ranks):
    """Bytes of a layer's input for one micro-batch, as kept on one GPU.

    T h e; sharded over tensor ranks with sequence parallelism

    Returns: [B] input of one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, table 2 (2 s b h) and section 4.2.2
    """
    return activation_message / residual_ranks


@alternative("layer_input_bytes", distribute_saved_activations=True)
def distributed_layer_input_bytes(activation_message, tensor_parallel):
    """T h e / t: each tensor rank keeps one part of the replicated input

    Source: Megatron-LM, --distribute-saved-activations (megatron/core/tensor_parallel/random.py)
    """
    return activation_message / tensor_parallel


row(
    "activation_memory_per_layer",
    "layer_input_bytes",
    "2 T h; shared by tensor ranks with sequence parallelism",
    source="Korthikanti et al. 2022, arXiv:2205.05198, table 2 (2 s b h)",
    recompute="full",
)
row(
    "schedule_slope",
    0.0,
    "every stage holds as many",
    source=(
        "Huang et al. 2019 (GPipe), arXiv:1811.06965, section 2.3; Qi et al. 2023 (zero "
        "bubble), arXiv:2401.10241, section 2.2"
    ),
    holds="zb_h1: a bound from above for later stages",
    pipeline_schedule=LEVEL,
)


@alternative("schedule_slope", pipeline_schedule=("1f1b", "interleaved", "combined_1f1b"))
def one_forward_one_backward_schedule_slope(virtual_stages):
    """Decrease from stage to stage of the micro-batches that may be in flight.

    1; 2 / v with v > 1 chunks on a stage

    Returns: [1] micro-batches
    Source: Narayanan et al. 2021 (SC21), section 2.2; Megatron-LM,
        megatron/core/pipeline_parallel/schedules.py (warm-up)
    """
    return where(virtual_stages > 1, 2 / virtual_stages, 1.0)


@same_as(microbatches_of_stage)
def stage_microbatches_in_flight(
    microbatches_in_flight, schedule_depth, schedule_slope, pipeline_stage
):
    """Micro-batches in flight on a stage, in units of the whole stage's activations.

    min(micro-batches of the first stage, depth - slope (s - 1))

    Returns: [1] micro-batches
    Source: Narayanan et al. 2021 (SC21), section 2.2; Korthikanti et al. 2022, section 4.2.3
    """


def microbatch_logits(microbatch_tokens, vocab_size, tensor_parallel):
    """Memory of one micro-batch's logits on a GPU of the stage that computes them.

    4 T V / t, in FP32

    Returns: [B] logits
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.3 (4 s b v / t in FP32)
    """
    return 4 * microbatch_tokens * vocab_size / tensor_parallel


@alternative("logits_memory", stage_split=False)
def even_logits_memory(microbatch_logits, pipeline_parallel, logits_at_first):
    """Memory of one micro-batch's logits on a GPU of the first stage.

    4 T V / t with one stage, or if the model's last piece is also there; else 0: they are on the
    last stage, which holds fewer micro-batches

    Returns: [B] logits
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.3 (4 s b v / t in FP32)
    """
    first = logits_at_first * microbatch_logits
    return where(pipeline_parallel > 1, first, microbatch_logits)


@alternative("logits_memory", stage_split="whole_layers")
def staged_logits_memory(
    microbatch_logits, pipeline_parallel, pipeline_stage, logits_at_first, logits_at_last
):
    """Memory of one micro-batch's logits on a GPU of a stage.

    4 T V / t on the stage of the model's last piece; 0 elsewhere
    """
    last = where(pipeline_stage < pipeline_parallel, 0.0, logits_at_last)
    there = where(pipeline_stage > 1, last, logits_at_first)
    return where(pipeline_parallel > 1, there, 1.0) * microbatch_logits


@alternative("activation_memory", stage_split=False)
def even_activation_memory(
    layers, pipeline_parallel, microbatches_in_flight, activation_memory_per_layer, logits_memory
):
    """Activation memory of the first stage, which holds the most.

    l / p x micro-batches in flight x activations of a layer + logits

    Returns: [B] activations
    Range: l / p layers on every stage; if the first holds one layer fewer, at most one chunk's less
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.3
    """
    kept_layers = layers / pipeline_parallel * microbatches_in_flight
    return kept_layers * activation_memory_per_layer + logits_memory


@alternative("activation_memory", stage_split="whole_layers")
def staged_activation_memory(
    stage_layers,
    stage_microbatches_in_flight,
    schedule_depth,
    schedule_slope,
    pipeline_stage,
    nearer_stage,
    pipeline_parallel,
    first_stage_kept_ratio,
    middle_stage_kept_ratio,
    last_stage_kept_ratio,
    activation_memory_per_layer,
    logits_memory,
):
    """Activation memory of a stage.

    layers of the stage x micro-batches in flight x kept ratio x activations of a layer + logits

    Range: for a pipeline_layout of unequal pieces, exact on the end stages of interleaved schedules
        with groups of as many micro-batches as stages; else an upper bound for the fullest stage
    """
    later = where(nearer_stage < pipeline_parallel, middle_stage_kept_ratio, last_stage_kept_ratio)
    ratio = where(nearer_stage > 1, later, first_stage_kept_ratio)
    may_fly = schedule_depth - schedule_slope * (pipeline_stage - 1)
    kept_layers = stage_layers * kept_microbatches(stage_microbatches_in_flight, may_fly, ratio)
    return kept_layers * activation_memory_per_layer + logits_memory


def middle_stage_kept_ratio():
    """Activations that a middle stage keeps, relative to equal pieces.

    1; set by a pipeline_layout with unequal pieces

    Returns: [1] ratio
    Range: same as `first_stage_kept_ratio`; dualpipe: middle stages are identical
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    return 1.0


family(
    {"middle_stage_kept_ratio": "last_stage_kept_ratio", "a middle stage": "the last stage"},
    middle_stage_kept_ratio,
)


@alternative("residual_activations_per_token", linear_attention=KINDS)
def mixed_residual_activations_per_token(
    hidden_size,
    ffn_input_width,
    bytes_per_element,
    norm_output_bytes,
    router_input_bytes,
    operand_bytes_per_element,
    dropout_mask_bytes,
    residual_ranks,
    mixer_and_ffn_blocks,
    layers,
    expert_input_width,
):
    """Activation bytes per token and layer that only sequence parallelism shards, mean over layers.

    (((e + n + m) blocks / l + r) h + q (w - h) w_e / h) / t_s: inputs of each block and of its
    norm, r more for routers, and copies of tokens for experts
    """
    block = bytes_per_element + norm_output_bytes + dropout_mask_bytes
    once = (block * mixer_and_ffn_blocks / layers + router_input_bytes) * hidden_size
    copies = operand_bytes_per_element * (ffn_input_width / hidden_size - 1) * expert_input_width
    return (once + copies) / residual_ranks


def linear_activations_per_token(
    linear_parameters_per_layer, hidden_size, linear_inner_width, tensor_parallel, bytes_per_element
):
    """Activation bytes per token of a mixer with a state, sharded over tensor ranks.

    e (W + H P) / t, W = weights / h - H P: inputs of the convolution and its gate, output of the
    state and input of the output projection; states are recomputed in the backward pass

    Returns: [B] activations of one token in one layer
    Range: a fused kernel such as Mamba-2's; without one, outputs of the convolution come on top
    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 6, and its kernel in
        mamba_ssm/ops/triton/ssd_combined.py (MambaSplitConv1dScanCombinedFn: what forward saves)
    """
    projected = linear_parameters_per_layer / hidden_size - linear_inner_width
    return bytes_per_element * (projected + 2 * linear_inner_width) / tensor_parallel


@alternative("matrix_activations_per_token", linear_attention=KINDS)
def mixed_matrix_activations_per_token(
    attention_layers,
    linear_layers,
    layers,
    linear_activations_per_token,
    attention_heads,
    kv_heads,
    head_size,
    ffn_matrices,
    active_ffn_width,
    tensor_parallel,
    bytes_per_element,
    operand_bytes_per_element,
):
    """Activation bytes per token and layer around its matrices, mean over layers.

    l_a / l x attention + l_s / l x state + (e (1 or 2) + q) f / t

    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.1; Dao & Gu 2024
        (Mamba-2), arXiv:2405.21060, section 8.1
    """
    shared = (tensor_parallel, bytes_per_element, operand_bytes_per_element)
    heads = (attention_heads, kv_heads, head_size)
    attention = matrix_activations_per_token(*heads, 1.0, 0.0, *shared)
    mixers = attention_layers * attention + linear_layers * linear_activations_per_token
    ffn = matrix_activations_per_token(0.0, 0.0, 0.0, ffn_matrices, active_ffn_width, *shared)
    return mixers / layers + ffn


@alternative("ffn_gradients_memory", linear_attention=KINDS)
def mixed_ffn_gradients_memory(
    microbatch_tokens,
    ffn_input_width,
    residual_ranks,
    ffn_matrices,
    active_ffn_width,
    tensor_parallel,
    bytes_per_element,
    ffn_layers,
    layers,
    linear_activations_per_token,
):
    """Memory of the gradients of a layer's widest activations: feed-forward or state.

    T max(e (w / t_s + (2 or 3) f l / (l_f t)), those of a state); f is the mean over layers
    """
    ffn = ffn_gradients_memory(
        microbatch_tokens,
        ffn_input_width,
        residual_ranks,
        ffn_matrices,
        active_ffn_width * where(ffn_layers > 0, layers / ffn_layers, 0.0),
        tensor_parallel,
        bytes_per_element,
    )
    return np.maximum(ffn, microbatch_tokens * linear_activations_per_token)
