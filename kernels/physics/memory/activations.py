"""Memory of activations kept for the backward pass."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, family, row, same_as
from ...laws.stages import kept_microbatches, microbatches_of_stage
from ...ops import where
from ...reasons import REASONS as REASONS
from ..model.layer_kinds import KINDS
from ..pipeline.schedules import LEVEL

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
    precision=("bf16", "fp16", "fp8", "fp8_blockwise", "mxfp8", "mxfp4"),
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


row("autograd_copies", 0.0, "a step is one program", whole_program=True)
row(
    "autograd_copies",
    "eager_copies",
    summary="Whether autograd keeps copies in norms, gates and loss.",
    returns="[1] 1 or 0",
    source="Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (train.py at e846b69)",
    whole_program=False,
)
row("eager_copies", 0.0, "kernels are fused", compile=True)
row(
    "eager_copies",
    1.0,
    summary="Whether autograd keeps a copy of what each operation reads: norms, gates and loss.",
    returns="[1] 1 or 0",
    source="Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (train.py at e846b69); PyTorch, "
    "tools/autograd/derivatives.yaml",
    compile=False,
)


def norm_inputs_per_token(
    bytes_per_element,
    dropout_mask_bytes,
    mixer_and_ffn_blocks,
    layers,
    hidden_size,
    residual_ranks,
):
    """Bytes per token and layer of the inputs of a layer's norms, with masks of dropout.

    (e + m) h blocks / (l t_s), 6 h / t_s in a GPT in BF16: one of each block

    Returns: [B] activations of one token in one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.2
    """
    blocks = mixer_and_ffn_blocks / layers
    return (bytes_per_element + dropout_mask_bytes) * blocks * hidden_size / residual_ranks


def norm_copy_bytes(autograd_copies, ffn_matrices):
    """Bytes per element that RMSNorm, op by op, keeps beyond its input and output.

    4 with gates: its input in FP32, twice that of 16 bits, and what it scales by its weights

    Returns: [B] size
    Range: models without gates have LayerNorm, one operation, as PyTorch's RMSNorm is since 2.9
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (models/norms.py at e846b69);
        torchtune, torchtune/modules/rms_norm.py; transformers, modeling_llama.py (LlamaRMSNorm)
    """
    return 4 * autograd_copies * (ffn_matrices - 2)


def mixer_norm_output_per_token(
    norm_output_bytes,
    norm_copy_bytes,
    mixer_and_ffn_blocks,
    ffn_layers,
    layers,
    hidden_size,
    residual_ranks,
):
    """Bytes per token and layer of the norm's output that attention's projections read.

    (n + copies) h / t_s, mean over layers, some of which have no attention and no state

    Returns: [B] activations of one token in one layer
    Range: latent attention's two projections down are one product, which keeps one copy
    Source: TransformerEngine, transformer_engine/pytorch/module/layernorm_linear.py (what forward
        saves); Korthikanti et al. 2022, arXiv:2205.05198, section 4.1
    """
    mixers = (mixer_and_ffn_blocks - ffn_layers) / layers
    return (norm_output_bytes + norm_copy_bytes) * mixers * hidden_size / residual_ranks


def ffn_norm_output_per_token(
    norm_output_bytes,
    norm_copy_bytes,
    router_input_bytes,
    ffn_layers,
    layers,
    hidden_size,
    residual_ranks,
):
    """Bytes per token and layer of the norm's output that feed-forward blocks read.

    ((n + copies) l_f / l + r) h / t_s, r more for routers: shared experts keep the router's

    Returns: [B] activations of one token in one layer
    Source: TransformerEngine, transformer_engine/pytorch/module/layernorm_linear.py; Megatron-LM,
        megatron/core/transformer/moe/shared_experts.py (set_save_original_input)
    """
    bytes_ = (norm_output_bytes + norm_copy_bytes) * ffn_layers / layers + router_input_bytes
    return bytes_ * hidden_size / residual_ranks


@alternative("attention_inputs_per_token", latent_attention=False)
def grouped_attention_inputs_per_token(
    attention_operand_bytes,
    head_size,
    attention_heads,
    kv_heads,
    tensor_parallel,
    attention_layers,
    layers,
):
    """Bytes per token and layer of queries, keys and values, on one tensor rank.

    e d (a / t + 2 max(a_kv / t, 1)), mean over layers; ranks beyond the number of KV heads hold
    copies

    Returns: [B] activations of one token in one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.1
    """
    kv_here = np.maximum(kv_heads / tensor_parallel, 1.0)
    heads = attention_heads / tensor_parallel + 2 * kv_here
    return attention_operand_bytes * head_size * heads * attention_layers / layers


@alternative("attention_inputs_per_token", latent_attention=True)
def latent_attention_inputs_per_token(
    attention_operand_bytes,
    head_size,
    value_head_size,
    attention_heads,
    tensor_parallel,
    norm_output_bytes,
    query_latent_size,
    kv_latent_size,
    residual_ranks,
    attention_layers,
    layers,
):
    """e a (4 d - d_v) / t + n (r_q + r_kv) / t_s: queries and keys of 2 d - d_v, values of d_v, and
    the norms' outputs that they are projected from

    Source: Megatron-LM, megatron/core/transformer/multi_latent_attention.py (the norm of a latent
        is fused to its projection)
    """
    heads = attention_operand_bytes * (4 * head_size - value_head_size) * attention_heads
    latents = norm_output_bytes * (query_latent_size + kv_latent_size)
    return (heads / tensor_parallel + latents / residual_ranks) * attention_layers / layers


def attention_output_per_token(
    bytes_per_element,
    value_head_size,
    attention_heads,
    tensor_parallel,
    attention_layers,
    layers,
):
    """Bytes per token and layer of attention's output, which its kernel and the projection keep.

    e d_v a / t, mean over layers

    Returns: [B] activations of one token in one layer
    Range: delayed scaling (fp8) keeps it once more, in 8 bits
    Source: Megatron-LM, megatron/core/transformer/attention.py (set_save_original_input);
        Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.1
    """
    heads = attention_heads / tensor_parallel * attention_layers / layers
    return bytes_per_element * value_head_size * heads


@alternative("latents_per_token", latent_attention=True, off=0.0)
def latent_latents_per_token(
    bytes_per_element,
    query_latent_size,
    kv_elements_per_layer,
    residual_ranks,
    attention_layers,
    layers,
):
    """Bytes per token and layer of latent vectors, with the rotary key: inputs of their norms.

    e (r_q + r_kv + d_r) / t_s

    Returns: [B] activations of one token in one layer
    Source: Megatron-LM, megatron/core/transformer/multi_latent_attention.py (get_query_key_value)
    """
    width = query_latent_size + kv_elements_per_layer
    return bytes_per_element * width / residual_ranks * attention_layers / layers


def mixer_activations_per_token(
    mixer_norm_output_per_token,
    attention_inputs_per_token,
    attention_output_per_token,
    latents_per_token,
    linear_layers,
    linear_activations_per_token,
    layers,
):
    """Bytes per token and layer that mixers keep for the backward pass, without scores.

    output of the norm + latents + queries, keys, values + output of attention + l_s / l x state; n
    h / t_s + 8 h / t in a GPT in BF16

    Returns: [B] activations of one token in one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.1; Dao & Gu 2024
        (Mamba-2), arXiv:2405.21060, section 8.1
    """
    heads = attention_inputs_per_token + attention_output_per_token
    states = linear_layers * linear_activations_per_token / layers
    return mixer_norm_output_per_token + latents_per_token + heads + states


def activation_input_bytes(bytes_per_element):
    """Bytes per element of the activation function's input, as it is kept.

    e, unless stated: 1 where it is kept in FP8

    Returns: [B] size
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.3 (inputs of SwiGLU in FP8);
        Megatron-LM, --activation-func-fp8-input-store
    """
    return 1.0 * bytes_per_element


def activation_output_bytes(
    operand_bytes_per_element, autograd_copies, bytes_per_element, ffn_matrices
):
    """Bytes per element that is kept of an activation function's output.

    q as the next product reads it; op by op e more with gates: silu(w1(x)), which w3(x) multiplies

    Returns: [B] size
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (torchtitan/models/llama/model.py at
        e846b69: FeedForward); torchtune, torchtune/modules/feed_forward.py; transformers, LlamaMLP
    """
    return operand_bytes_per_element + autograd_copies * bytes_per_element * (ffn_matrices - 2)


def ffn_bytes_per_width(
    activation_input_bytes, ffn_matrices, activation_output_bytes, tensor_parallel
):
    """Bytes per token and unit of width inside a feed-forward block, on one tensor rank.

    (u (1 or 2) + o) / t: inputs and output of the activation function

    Returns: [B] size
    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.1; Shazeer 2020 (gates)
    """
    inputs = activation_input_bytes * (ffn_matrices - 1)
    return (inputs + activation_output_bytes) / tensor_parallel


@alternative("dense_ffn_activations_per_token", mixture_of_experts=False)
def dense_ffn_activations_per_token(ffn_bytes_per_width, ffn_hidden_size):
    """Bytes per token and layer inside dense feed-forward blocks, mean over layers.

    b f

    Returns: [B] activations of one token in one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.1
    """
    return ffn_bytes_per_width * ffn_hidden_size


@alternative("dense_ffn_activations_per_token", mixture_of_experts=True)
def few_dense_ffn_activations_per_token(ffn_bytes_per_width, ffn_hidden_size, dense_layers, layers):
    """b f dense / l

    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 4.2 (dense layers come first)
    """
    return ffn_bytes_per_width * ffn_hidden_size * dense_layers / layers


def expert_copies_per_token(
    operand_bytes_per_element,
    expert_token_ranks,
    residual_ranks,
    expert_input_width,
    routed_visits_per_token,
    expert_layers,
    layers,
):
    """Bytes per token and layer of the copies of tokens that routed experts read, mean over layers.

    q k w t_e / t_s l_e / l, w the experts' input width

    Returns: [B] activations of one token in one layer
    Source: Gale et al. 2023 (MegaBlocks), arXiv:2211.15841 (tokens are permuted into copies, one
        for each expert visited)
    """
    copy = operand_bytes_per_element * expert_token_ranks / residual_ranks * expert_input_width
    return routed_visits_per_token * copy * expert_layers / layers


@alternative("routed_ffn_activations_per_token", mixture_of_experts=True, off=0.0)
def expert_routed_ffn_activations_per_token(
    expert_copies_per_token,
    expert_output_bytes,
    operand_bytes_per_element,
    ffn_bytes_per_width,
    expert_ffn_hidden_size,
    routed_visits_per_token,
    expert_layers,
    layers,
):
    """Bytes per token and layer of routed experts: copies of tokens, inside, outputs; mean.

    copies (1 + o / q) + k b f_e l_e / l: of o bytes outputs that scores multiply, as wide as copies

    Returns: [B] activations of one token in one layer
    Range: each expert's tokens filled up to a multiple of 8 (BF16) to 32 (MXFP8): below 1 %
    Source: Megatron-LM, megatron/core/transformer/moe/experts.py; torchtitan,
        torchtitan/models/moe/moe.py (bb308da, MoE.forward: outputs in FP32 times scores)
    """
    copies = expert_copies_per_token * (1 + expert_output_bytes / operand_bytes_per_element)
    inside = routed_visits_per_token * ffn_bytes_per_width * expert_ffn_hidden_size
    return copies + inside * expert_layers / layers


@alternative("shared_ffn_activations_per_token", mixture_of_experts=True, off=0.0)
def expert_shared_ffn_activations_per_token(
    ffn_bytes_per_width, expert_ffn_hidden_size, shared_experts, expert_layers, layers
):
    """Bytes per token and layer inside shared experts, mean over layers.

    b E_shared f_e l_e / l

    Returns: [B] activations of one token in one layer
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2
    """
    inside = ffn_bytes_per_width * expert_ffn_hidden_size * shared_experts
    return inside * expert_layers / layers


def ffn_activations_per_token(
    ffn_norm_output_per_token,
    dense_ffn_activations_per_token,
    routed_ffn_activations_per_token,
    shared_ffn_activations_per_token,
):
    """Bytes per token and layer that feed-forward blocks keep for the backward pass.

    output of the norm + dense + routed experts + shared experts; n h / t_s + 16 h / t in a GPT in
    BF16

    Returns: [B] activations of one token in one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.1
    """
    experts = routed_ffn_activations_per_token + shared_ffn_activations_per_token
    return ffn_norm_output_per_token + (dense_ffn_activations_per_token + experts)


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


def whole_layer_activation_memory(
    microbatch_tokens,
    norm_inputs_per_token,
    mixer_activations_per_token,
    ffn_activations_per_token,
    score_activations_per_token,
):
    """Activation memory of one layer and micro-batch, if nothing is recomputed.

    T (10 h + 24 h / t + 5 a s / t) for a GPT; T (34 h + 5 a s) / t with sequence parallelism

    Returns: [B] activations of one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, eq. 1, 2 and 4
    """
    per_token = norm_inputs_per_token + mixer_activations_per_token + ffn_activations_per_token
    return microbatch_tokens * (per_token + score_activations_per_token)


row(
    "activation_memory_per_layer",
    "whole_layer_activation_memory",
    "all of them",
    source="Korthikanti et al. 2022, arXiv:2205.05198, eq. 1",
    recompute=False,
)


@alternative("activation_memory_per_layer", recompute="selective")
def selective_activation_memory_per_layer(
    whole_layer_activation_memory, microbatch_tokens, score_activations_per_token
):
    """Activation memory of one layer and micro-batch: scores are recomputed.

    all but scores: T (10 h + 24 h / t) for a GPT; 34 T h / t with sequence parallelism

    Returns: [B] activations of one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, eq. 6 and table 2
    """
    return whole_layer_activation_memory - microbatch_tokens * score_activations_per_token


@alternative("activation_memory_per_layer", recompute="modules")
def module_activation_memory_per_layer(
    whole_layer_activation_memory,
    microbatch_tokens,
    freed_mixer_activations_per_token,
    freed_ffn_activations_per_token,
    recompute_core_attn,
    score_activations_per_token,
):
    """all but what modules free that run again

    Source: Megatron-LM, --recompute-modules (megatron/core/transformer/transformer_config.py)
    """
    scores = recompute_core_attn * score_activations_per_token
    freed = freed_mixer_activations_per_token + freed_ffn_activations_per_token + scores
    return whole_layer_activation_memory - microbatch_tokens * freed


@alternative("activation_memory_per_layer", recompute="products")
def tensor_activation_memory_per_layer(
    whole_layer_activation_memory,
    microbatch_tokens,
    mixer_norm_output_per_token,
    ffn_norm_output_per_token,
    ffn_activation_output_per_token,
    score_activations_per_token,
    keep_qkv_proj,
    attention_inputs_per_token,
    latents_per_token,
    keep_context,
    attention_output_per_token,
    keep_out_proj,
    ffn_block_input_per_token,
    keep_mlpwi,
    activation_inputs_per_token,
):
    """all but outputs of norms and activation functions, and scores; and queries, keys and values,
    attention's output, the sum after it and inputs of activation functions, unless they are kept

    Range: a state's output counts as kept
    Source: MaxText, src/maxtext/layers/decoders.py (get_remat_policy)
    """
    always = mixer_norm_output_per_token + ffn_norm_output_per_token
    always = always + ffn_activation_output_per_token + score_activations_per_token
    heads = (1 - keep_qkv_proj) * (attention_inputs_per_token + latents_per_token)
    heads = heads + (1 - keep_context) * attention_output_per_token
    sums = (1 - keep_out_proj) * ffn_block_input_per_token
    again = always + heads + sums + (1 - keep_mlpwi) * activation_inputs_per_token
    return whole_layer_activation_memory - microbatch_tokens * again


def ffn_activation_output_per_token(activation_output_bytes, active_ffn_width, tensor_parallel):
    """Bytes per token and layer of outputs of activation functions, mean over layers.

    o f / t

    Returns: [B] activations of one token in one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.1
    """
    return activation_output_bytes * active_ffn_width / tensor_parallel


def activation_inputs_per_token(
    ffn_activations_per_token, ffn_norm_output_per_token, ffn_activation_output_per_token
):
    """Bytes per token and layer inside feed-forward blocks without outputs of activation functions.

    blocks - norm - outputs: inputs of the functions, and experts' copies of tokens

    Returns: [B] activations of one token in one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.1
    """
    return ffn_activations_per_token - ffn_norm_output_per_token - ffn_activation_output_per_token


def ffn_block_input_per_token(norm_inputs_per_token, ffn_layers, mixer_and_ffn_blocks):
    """Bytes per token and layer of the inputs of norms before feed-forward blocks.

    inputs of all norms x l_f / blocks

    Returns: [B] activations of one token in one layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2.2
    """
    return norm_inputs_per_token * ffn_layers / mixer_and_ffn_blocks


@alternative("activation_memory_per_layer", recompute="alternate_products")
def alternate_activation_memory_per_layer(
    microbatch_tokens,
    bytes_per_element,
    hidden_size,
    residual_ranks,
    ffn_matrices,
    kept_projections_per_token,
    attention_output_per_token,
    activation_input_bytes,
    unrouted_ffn_width,
    tensor_parallel,
    exchanged_copies_per_token,
    kept_wide_products,
):
    """T (e h ((1 or 3) / t_s + wide) + projections + output of attention + u f / t + copies):
    input, sums of reduce-scatters, products as wide as the layer, and one of gate and up

    Range: a wide product is whole, before its reduce-scatter; op by op, layers of routed experts
        alone keep none
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (parallelize_llama.py: _save_list)
    """
    wide = kept_wide_products * (ffn_matrices - 2)
    shares = where(residual_ranks > 1, 3 / residual_ranks, 1.0) + wide
    heads = kept_projections_per_token + attention_output_per_token
    inside = activation_input_bytes * unrouted_ffn_width / tensor_parallel
    sums = bytes_per_element * hidden_size * shares
    return microbatch_tokens * (sums + heads + inside + exchanged_copies_per_token)


@alternative("kept_projections_per_token", latent_attention=False)
def kept_projections_per_token(
    attention_inputs_per_token,
    bytes_per_element,
    head_size,
    kv_heads,
    tensor_parallel,
    attention_layers,
    layers,
):
    """Bytes per token and layer of every second one of attention's projections, mean over layers.

    queries and values: all that its kernel reads but keys, e d max(a_kv / t, 1)

    Returns: [B] activations of one token in one layer
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (parallelize_llama.py: _save_list)
    """
    keys = bytes_per_element * head_size * np.maximum(kv_heads / tensor_parallel, 1.0)
    return attention_inputs_per_token - keys * attention_layers / layers


@alternative("kept_projections_per_token", latent_attention=True)
def latent_kept_projections_per_token(
    bytes_per_element,
    attention_heads,
    head_size,
    value_head_size,
    tensor_parallel,
    query_latent_size,
    kv_latent_size,
    rotary_key_size,
    attention_layers,
    layers,
):
    """e a (4 d - d_v - d_r) / t: queries, and keys and values as one product; where queries are
    projected down, e (r_q + r_kv + d_r): both latents, of which every tensor rank has its own

    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (models/deepseek_v3/model/model.py at
        82a9530: wq, wkv_a, wkv_b, wo in this order, or wq_a, wq_b, wkv_a, wkv_b, wo)
    """
    heads = attention_heads * (4 * head_size - value_head_size - rotary_key_size)
    latents = query_latent_size + kv_latent_size + rotary_key_size
    width = where(query_latent_size > 0, latents, heads / tensor_parallel)
    return bytes_per_element * width * attention_layers / layers


@alternative("exchanged_copies_per_token", mixture_of_experts=True, off=0.0)
def expert_exchanged_copies_per_token(
    expert_copies_per_token, operand_bytes_per_element, bytes_per_element, expert_parallel
):
    """Bytes per token and layer of what all-to-alls of experts return, there and back; mean.

    2 e / q copies of tokens in 16 bits; 0 on one rank of experts, which exchanges nothing

    Returns: [B] activations of one token in one layer
    Range: where scores multiply tokens before experts, as in Llama 4, a compiled backward pass
        reads one of both: an upper bound
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511
        (distributed/activation_checkpoint.py at b5bcd76: save_ops has all_to_all_single, which
        dispatches and combines)
    """
    copies = 2 * bytes_per_element / operand_bytes_per_element * expert_copies_per_token
    return where(expert_parallel > 1, copies, 0.0)


row(
    "kept_wide_products",
    "autograd_copies",
    "op by op, down's, the seventh product of a layer with gates: a saved operation keeps its "
    "result, of which a compiled backward pass reads none",
    summary="Outputs as wide as the layer that a policy keeps besides sums of tensor ranks.",
    returns="[1] outputs",
    source="Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (parallelize_llama.py at e846b69: "
    "_save_list); PyTorch, torch/utils/checkpoint.py (CheckpointPolicy.MUST_SAVE)",
    latent_attention=False,
)


@alternative("kept_wide_products", latent_attention=True)
def latent_kept_wide_products(query_latent_size, residual_ranks, autograd_copies):
    """1 where queries are projected down: attention's fifth product, its output, which the norm
    after it reads, unless a reduce-scatter keeps its sum

    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (models/deepseek_v3/model/model.py at
        82a9530: wq_a, wq_b, wkv_a, wkv_b, wo)
    """
    read = (query_latent_size > 0) & (residual_ranks == 1)
    return where(read, 1.0, autograd_copies)


row(
    "product_recompute_reason",
    "shared_recompute_reason",
    recompute=(False, "selective", "modules", "products", "full"),
)


@alternative("product_recompute_reason", recompute="alternate_products")
def alternate_product_recompute_reason(linear_layers, shared_recompute_reason):
    """Why modules or products cannot run again; 0 if they can.

    every second product is not known of layers with a state; reason of shared experts

    Returns: [flag] reason
    Flags: REASONS
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (parallelize_llama.py: matrix products
        are counted in their order)
    """
    reason = where(linear_layers > 0, reasons.RECOMPUTED_PRODUCTS_UNKNOWN, shared_recompute_reason)
    return where(linear_layers == linear_layers, reason, np.nan)


@alternative("freed_mixer_activations_per_token", latent_attention=True, off=0.0)
def latent_freed_mixer_activations_per_token(
    recompute_layernorm,
    mixer_norm_output_per_token,
    recompute_mla_up_proj,
    attention_inputs_per_token,
):
    """Bytes per token and layer of attention that are freed, as their modules run again.

    layernorm: output of the norm; mla_up_proj: queries, keys, values, and normed latents

    Returns: [B] activations of one token in one layer
    Range: the norm is fused to a matrix, and not recomputed, but with latent attention
    Source: Megatron-LM, megatron/core/transformer/multi_latent_attention.py (recompute_up_proj) and
        transformer_layer.py (recompute_input_layernorm)
    """
    norm = recompute_layernorm * mixer_norm_output_per_token
    return norm + recompute_mla_up_proj * attention_inputs_per_token


@alternative("freed_ffn_activations_per_token", mixture_of_experts=False)
def dense_freed_ffn_activations_per_token(recompute_mlp, ffn_activations_per_token):
    """mlp: all of the block but its input

    Source: Megatron-LM, megatron/core/transformer/transformer_layer.py (recompute_mlp)
    """
    return recompute_mlp * ffn_activations_per_token


@alternative("freed_ffn_activations_per_token", mixture_of_experts=True)
def expert_freed_ffn_activations_per_token(
    recompute_mlp,
    dense_ffn_activations_per_token,
    freed_ffn_norm_output_per_token,
    recompute_moe,
    routed_ffn_activations_per_token,
    recompute_moe_act,
    expert_activation_output_per_token,
    shared_recompute_passes,
    shared_ffn_activations_per_token,
):
    """Bytes per token and layer of feed-forward blocks that are freed, as they run again.

    mlp: dense blocks; moe: routed and shared experts; moe_act: outputs of routed experts'
    activation functions; shared_experts; layernorm: outputs of norms, which moe keeps

    Returns: [B] activations of one token in one layer
    Source: Megatron-LM, megatron/core/transformer/moe/moe_layer.py and experts.py
    """
    act = (1 - recompute_moe) * recompute_moe_act * expert_activation_output_per_token
    experts = recompute_moe * routed_ffn_activations_per_token + act
    experts = experts + shared_recompute_passes * shared_ffn_activations_per_token
    dense = recompute_mlp * dense_ffn_activations_per_token
    return freed_ffn_norm_output_per_token + dense + experts


def freed_ffn_norm_output_per_token(
    recompute_mlp,
    norm_output_bytes,
    norm_copy_bytes,
    dense_layers,
    recompute_layernorm,
    bytes_per_element,
    expert_layers,
    layers,
    hidden_size,
    residual_ranks,
):
    """Bytes per token and layer of norms' outputs before feed-forward blocks that are freed.

    (mlp (n + copies) dense + layernorm (e + copies) l_e) h / (l t_s)

    Returns: [B] activations of one token in one layer
    Source: Megatron-LM, megatron/core/transformer/transformer_layer.py
        (recompute_pre_mlp_layernorm)
    """
    dense = recompute_mlp * (norm_output_bytes + norm_copy_bytes) * dense_layers
    sparse = recompute_layernorm * (bytes_per_element + norm_copy_bytes) * expert_layers
    return (dense + sparse) * hidden_size / (layers * residual_ranks)


def expert_activation_output_per_token(
    activation_output_bytes,
    routed_visits_per_token,
    expert_ffn_hidden_size,
    expert_layers,
    layers,
    tensor_parallel,
):
    """Bytes per token and layer of outputs of routed experts' activation functions.

    o k f_e l_e / (l t)

    Returns: [B] activations of one token in one layer
    Source: Megatron-LM, megatron/core/transformer/moe/experts.py (bias_act_output)
    """
    width = routed_visits_per_token * expert_ffn_hidden_size * expert_layers / layers
    return activation_output_bytes * width / tensor_parallel


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


@alternative("activation_memory_per_layer", recompute="full")
def full_activation_memory_per_layer(
    full_recompute_share,
    saved_inputs_per_layer,
    layer_input_bytes,
    whole_layer_activation_memory,
):
    """2 T h, shared by tensor ranks with sequence parallelism; all, in layers not recomputed

    Source: Korthikanti et al. 2022, arXiv:2205.05198, table 2 (2 s b h); Megatron-LM,
        --recompute-method (megatron/core/transformer/transformer_block.py)
    """
    inputs = full_recompute_share * saved_inputs_per_layer * layer_input_bytes
    return inputs + (1 - full_recompute_share) * whole_layer_activation_memory


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


def logit_bytes(autograd_copies):
    """Bytes that a loss keeps of a logit, with its gradient.

    4: logits and gradients of 16 bits, from one kernel, or FP32 in one buffer; op by op 12, FP32:
    log-probabilities, gradients of these and of logits, as copies in 16 bits are gone

    Returns: [B] size
    Range: 16 where tensor ranks share the loss in PyTorch; near 0 in a loss by chunks
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.3 (4 s b v / t in FP32); Liang et
        al. 2024 (TorchTitan), arXiv:2410.06511 (train.py at e846b69: pred.float(), cross_entropy,
        del pred); PyTorch, tools/autograd/derivatives.yaml (_log_softmax, nll_loss)
    """
    return 4 + 8 * autograd_copies


@alternative("microbatch_logits", multi_token_prediction=False)
def plain_microbatch_logits(logit_bytes, microbatch_tokens, vocab_size, tensor_parallel):
    """Memory of one micro-batch's logits on a GPU of the stage that computes them.

    b T V / t, 4 T V / t in FP32

    Returns: [B] logits
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.3 (4 s b v / t in FP32)
    """
    return logit_bytes * microbatch_tokens * vocab_size / tensor_parallel


@alternative("microbatch_logits", multi_token_prediction=True)
def predicting_microbatch_logits(
    logit_bytes, microbatch_tokens, vocab_size, tensor_parallel, prediction_layers
):
    """(1 + D) b T V / t: those of all modules are kept until the backward pass begins

    Range: an upper bound in dualpipe, whose modules may run one after another
    Source: Megatron-LM, megatron/core/models/gpt/gpt_model.py (process_mtp_loss runs before the
        output layer of the last token)
    """
    logits = logit_bytes * microbatch_tokens * vocab_size / tensor_parallel
    return (1 + prediction_layers) * logits


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
    share = where(pipeline_stage > 1, last, logits_at_first)
    return where(pipeline_parallel > 1, share, 1.0) * microbatch_logits


@alternative("activation_memory", stage_split=False)
def even_activation_memory(
    layers, pipeline_parallel, microbatches_in_flight, resident_activations_per_layer, logits_memory
):
    """Activation memory of the first stage, which holds the most.

    l / p x micro-batches in flight x activations of a layer + logits

    Returns: [B] activations
    Range: l / p layers on every stage; if the first holds one layer fewer, at most one chunk's less
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.3
    """
    kept_layers = layers / pipeline_parallel * microbatches_in_flight
    return kept_layers * resident_activations_per_layer + logits_memory


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
    resident_activations_per_layer,
    logits_memory,
):
    """Activation memory of a stage.

    layers of the stage x micro-batches in flight x kept ratio x activations of a layer + logits

    Range: for a pipeline_layout of unequal pieces, exact on the end stages of interleaved schedules
        with groups of as many micro-batches as stages; else an upper bound for the fullest stage.
        Layers of multi-token prediction count as spread over the pieces of their stage, an upper
        bound; inputs of its norms, projection and head, 6 T h e a module, are not counted, at most
        4 % of its stage
    """
    later = where(nearer_stage < pipeline_parallel, middle_stage_kept_ratio, last_stage_kept_ratio)
    ratio = where(nearer_stage > 1, later, first_stage_kept_ratio)
    may_fly = schedule_depth - schedule_slope * (pipeline_stage - 1)
    kept_layers = stage_layers * kept_microbatches(stage_microbatches_in_flight, may_fly, ratio)
    return kept_layers * resident_activations_per_layer + logits_memory


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


@alternative("linear_activations_per_token", linear_attention=KINDS, off=0.0)
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
