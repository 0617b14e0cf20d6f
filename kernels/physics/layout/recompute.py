"""Recomputation in the backward pass: whole layers, or modules of each."""

import numpy as np

from ...alternatives import alternative, row
from ...ops import where

ONCE = (False, "selective", "alternate_products")  # sums are kept with their products


def recomputed_piece_layers(recomputed_layers, layers, pipeline_parallel, stage_chunks):
    """Layers of a piece of the model that are recomputed whole.

    min(n, l / (p v))

    Returns: [1] layers
    Range: pieces of equal size
    Source: Megatron-LM, --recompute-method block (megatron/core/transformer/transformer_block.py)
    """
    return np.minimum(recomputed_layers, layers / (pipeline_parallel * stage_chunks))


def full_recompute_share(recomputed_piece_layers, layers, pipeline_parallel, stage_chunks):
    """Share of layers that are recomputed whole.

    n p v / l, n layers of a piece

    Returns: [1] share
    Source: Megatron-LM, --recompute-method block (megatron/core/transformer/transformer_block.py)
    """
    return recomputed_piece_layers / (layers / (pipeline_parallel * stage_chunks))


def recomputed_unit_layers(recompute_unit_layers, recomputed_piece_layers):
    """Layers that are recomputed together.

    min(N, layers of a piece that are recomputed)

    Returns: [1] layers
    Source: Megatron-LM, --recompute-method uniform (megatron/core/transformer/transformer_block.py)
    """
    return np.minimum(recompute_unit_layers, recomputed_piece_layers)


def saved_inputs_per_layer(recomputed_piece_layers, recomputed_unit_layers):
    """Inputs kept per layer that is recomputed: one for each unit of layers.

    ceil(n / N) / n, n layers of a piece; 1 where N = 1

    Returns: [1] inputs
    Source: Megatron-LM, --recompute-method uniform (megatron/core/transformer/transformer_block.py)
    """
    several = recomputed_unit_layers > 1
    units = np.ceil(recomputed_piece_layers / where(several, recomputed_unit_layers, 1.0) - 1e-9)
    return where(several, units / where(several, recomputed_piece_layers, 1.0), 1.0)


row(
    "matrix_recompute_passes",
    0.0,
    source="Korthikanti et al. 2022, arXiv:2205.05198, section 5",
    recompute=(False, "selective"),
)
row(
    "matrix_recompute_passes",
    "full_recompute_passes",
    recompute="full",
    source="Chen et al. 2016, arXiv:1604.06174, section 3",
)
row(
    "full_recompute_passes",
    "full_recompute_share",
    summary="Forward passes of a layer's matrices that run again with recompute = full.",
    returns="[1] passes",
    source="Chen et al. 2016, arXiv:1604.06174, section 3",
    whole_program=False,
)


@alternative("full_recompute_passes", whole_program=True)
def compiled_full_recompute_passes(
    full_recompute_share, unread_product_parameters, active_matrix_parameters
):
    """share x (1 - unread / N_matrices)

    Source: MaxText, src/maxtext/layers/decoders.py (nn.remat); JAX, jax.checkpoint, which leaves
        out what no gradient reads
    """
    return full_recompute_share * (1 - unread_product_parameters / active_matrix_parameters)


@alternative("unread_product_parameters", mixture_of_experts=False)
def dense_unread_product_parameters(ffn_layers, ffn_parameters_per_layer, ffn_matrices):
    """Weights of products whose results no gradient reads: last ones of feed-forward blocks.

    l_f block / (2 or 3)

    Returns: [1] parameters
    Source: MaxText, src/maxtext/layers/decoders.py (mlpwo is added to the residual)
    """
    return ffn_layers * ffn_parameters_per_layer / ffn_matrices


@alternative("unread_product_parameters", mixture_of_experts=True)
def expert_unread_product_parameters(
    dense_layers,
    ffn_parameters_per_layer,
    expert_layers,
    shared_experts,
    expert_parameters,
    ffn_matrices,
):
    """(dense x block + l_e E_shared x expert) / (2 or 3): scores multiply results of routed
    experts, so that gradients of scores read these

    Source: MaxText, src/maxtext/layers/moe.py (unpermute: weights multiply after wo)
    """
    shared = expert_layers * shared_experts * expert_parameters
    return (dense_layers * ffn_parameters_per_layer + shared) / ffn_matrices


@alternative("matrix_recompute_passes", recompute="modules")
def module_matrix_recompute_passes(
    layers, recomputed_mixer_parameters, recomputed_ffn_parameters, active_matrix_parameters
):
    """Forward passes of a layer's matrices that its backward pass repeats.

    l (recomputed weights of a layer) / N_matrices

    Returns: [1] passes
    Source: Megatron-LM, --recompute-modules (megatron/core/transformer/transformer_config.py)
    """
    again = recomputed_mixer_parameters + recomputed_ffn_parameters
    some = active_matrix_parameters > 0
    return where(some, layers * again / where(some, active_matrix_parameters, 1.0), 0.0)


@alternative("matrix_recompute_passes", recompute="alternate_products")
def alternate_matrix_recompute_passes(
    layers, alternate_attention_parameters, alternate_ffn_parameters, active_matrix_parameters
):
    """l (attention's + feed-forward's every second product) / N_matrices

    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (parallelize_llama.py:
        _apply_ac_to_transformer_block)
    """
    again = alternate_attention_parameters + alternate_ffn_parameters
    return layers * again / active_matrix_parameters


@alternative("alternate_attention_parameters", latent_attention=False)
def alternate_attention_parameters(attention_parameters_per_layer):
    """Weights per layer of attention's projections that run again, every second one.

    attention / 2: keys and output, of queries, keys, values and output

    Returns: [1] parameters
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (parallelize_llama.py:
        _apply_ac_to_transformer_block)
    """
    return attention_parameters_per_layer / 2


@alternative("alternate_attention_parameters", latent_attention=True)
def latent_alternate_attention_parameters(
    hidden_size,
    attention_heads,
    head_size,
    value_head_size,
    query_latent_size,
    kv_latent_size,
    rotary_key_size,
):
    """h (r_kv + d_r + a d_v): keys down, and output; where queries are projected down,
    a (r_q (2 d - d_v) + r_kv (2 d - d_r)): queries and keys up

    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (models/deepseek_v3/model/model.py at
        82a9530: wq, wkv_a, wkv_b, wo in this order, or wq_a, wq_b, wkv_a, wkv_b, wo)
    """
    down = kv_latent_size + rotary_key_size + attention_heads * value_head_size
    queries = query_latent_size * (2 * head_size - value_head_size)
    up = queries + kv_latent_size * (2 * head_size - rotary_key_size)
    return where(query_latent_size > 0, attention_heads * up, hidden_size * down)


@alternative("alternate_ffn_parameters", mixture_of_experts=False)
def alternate_ffn_parameters(ffn_parameters_per_layer, ffn_matrices):
    """Weights per layer of feed-forward products that run again, per token and mean over layers.

    feed-forward / (2 or 3): one of gate, up and down

    Returns: [1] parameters
    Range: op by op, behind queries that are projected down, also down's, which is not counted
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (parallelize_llama.py:
        _apply_ac_to_transformer_block)
    """
    return ffn_parameters_per_layer / ffn_matrices


@alternative("alternate_ffn_parameters", mixture_of_experts=True)
def expert_alternate_ffn_parameters(
    dense_layers,
    ffn_parameters_per_layer,
    ffn_matrices,
    expert_layers,
    experts_per_token,
    shared_experts,
    expert_parameters,
    hidden_size,
    experts,
    layers,
):
    """(dense x block / (2 or 3) + l_e ((k + E_shared / (2 or 3)) x expert + h E)) / l: router and
    grouped products are none that are kept

    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511
        (distributed/activation_checkpoint.py at b5bcd76: the router's shape is named
        to run again, and grouped products are not among save_ops)
    """
    visited = (experts_per_token + shared_experts / ffn_matrices) * expert_parameters
    dense = dense_layers * ffn_parameters_per_layer / ffn_matrices
    return (dense + expert_layers * (visited + hidden_size * experts)) / layers


@alternative("matrix_recompute_passes", recompute="products")
def tensor_matrix_recompute_passes(
    layers,
    attention_parameters_per_layer,
    attention_layers,
    hidden_size,
    attention_heads,
    value_head_size,
    unread_product_parameters,
    active_matrix_parameters,
    keep_qkv_proj,
    keep_out_proj,
    keep_mlpwi,
):
    """(l_a (W_qkv + W_o) + feed-forward - unread) / N_matrices, of those not kept

    Range: a state's projections, and latents that are kept, count with those next to them; results
        of routed experts count as kept where inputs of their activation functions are
    Source: MaxText, src/maxtext/layers/decoders.py (get_remat_policy); JAX, jax.checkpoint, which
        leaves out what no gradient reads
    """
    output = hidden_size * attention_heads * value_head_size
    entering = (1 - keep_qkv_proj) * (attention_parameters_per_layer - output)
    mixers = attention_layers * (entering + (1 - keep_out_proj) * output)
    blocks = active_matrix_parameters - attention_layers * attention_parameters_per_layer
    again = mixers + (1 - keep_mlpwi) * (blocks - unread_product_parameters)
    return again / active_matrix_parameters


@alternative("recomputed_mixer_parameters", latent_attention=True, off=0.0)
def latent_recomputed_mixer_parameters(
    recompute_mla_up_proj,
    attention_heads,
    head_size,
    value_head_size,
    query_latent_size,
    kv_latent_size,
    rotary_key_size,
    attention_layers,
    layers,
):
    """Weights per layer of attention's projections that run again, mean over layers.

    a (r_q (2 d - d_v) + r_kv (2 d - d_r)): 2 d - d_v is the width of a query and of a key

    Returns: [1] parameters
    Range: queries that are not projected down are projected again, too, which is not counted
    Source: Megatron-LM, megatron/core/transformer/multi_latent_attention.py
        (qkv_up_proj_and_rope_apply)
    """
    queries = query_latent_size * (2 * head_size - value_head_size)
    keys = kv_latent_size * (2 * head_size - rotary_key_size)
    again = recompute_mla_up_proj * attention_heads * (queries + keys)
    return again * attention_layers / layers


@alternative("recomputed_ffn_parameters", mixture_of_experts=False)
def dense_recomputed_ffn_parameters(recompute_mlp, ffn_parameters_per_layer, ffn_layers, layers):
    """Weights per layer of feed-forward blocks that run again, per token and mean over layers.

    those of a block

    Returns: [1] parameters
    Source: Megatron-LM, megatron/core/transformer/transformer_layer.py (recompute_mlp)
    """
    return recompute_mlp * ffn_parameters_per_layer * ffn_layers / layers


@alternative("recomputed_ffn_parameters", mixture_of_experts=True)
def expert_recomputed_ffn_parameters(
    recompute_mlp,
    dense_layers,
    ffn_parameters_per_layer,
    recompute_moe,
    expert_layers,
    experts_per_token,
    shared_experts,
    expert_parameters,
    hidden_size,
    experts,
    shared_recompute_passes,
    layers,
):
    """(dense x block + l_e (k + E_shared) x expert + l_e h E) / l, of what runs again

    Source: Megatron-LM, megatron/core/transformer/moe/moe_layer.py (moe_layer_recompute,
        shared_experts_recompute)
    """
    routed = recompute_moe * (experts_per_token * expert_parameters + hidden_size * experts)
    shared = shared_recompute_passes * shared_experts * expert_parameters
    dense = recompute_mlp * dense_layers * ffn_parameters_per_layer
    return (dense + expert_layers * (routed + shared)) / layers


def shared_recompute_passes(recompute_moe, recompute_shared_experts):
    """Share of layers whose shared experts run again: with all experts, or alone.

    moe + (1 - moe) shared_experts

    Returns: [1] share
    Source: Megatron-LM, megatron/core/transformer/moe/moe_layer.py (shared_experts_recompute)
    """
    return recompute_moe + (1 - recompute_moe) * recompute_shared_experts


row("expert_recompute_passes", 0.0, recompute=ONCE)
row("expert_recompute_passes", "full_recompute_share", recompute="full")


@alternative("expert_recompute_passes", recompute="products")
def tensor_expert_recompute_passes(keep_mlpwi):
    """1 - k: where the inputs of activation functions are kept, so are copies of tokens

    Source: MaxText, src/maxtext/layers/moe.py (moe_mlpwi_0; unpermute reads what comes back)
    """
    return 1 - keep_mlpwi


row(
    "expert_recompute_passes",
    "recompute_moe",
    summary="Forward passes of routed experts, and of their traffic, that a backward pass repeats.",
    returns="[1] passes",
    source="Megatron-LM, megatron/core/transformer/moe/moe_layer.py (moe_layer_recompute)",
    recompute="modules",
)
row("recomputed_exchanges_per_layer", 0.0, recompute=ONCE)


@alternative("recomputed_exchanges_per_layer", recompute="full")
def full_recomputed_exchanges_per_layer(full_recompute_share, read_exchanges_per_layer):
    """those of a layer recomputed whose results are read"""
    return full_recompute_share * read_exchanges_per_layer


row(
    "read_exchanges_per_layer",
    2.0,
    "attention's and feed-forward's",
    source="Shoeybi et al. 2019, section 3",
    whole_program=False,
)


@alternative("read_exchanges_per_layer", whole_program=True)
def compiled_read_exchanges_per_layer(read_result_share):
    """All-reduces of a layer's forward pass that run again where the whole layer does.

    (3 + r) / 2: of the last, the scatter of what is added to the residual is read by no gradient

    Returns: [1] all-reduces
    Source: MaxText, src/maxtext/layers/decoders.py (nn.remat); JAX, jax.checkpoint, which leaves
        out what no gradient reads
    """
    return (3 + read_result_share) / 2


@alternative("read_result_share", mixture_of_experts=True, off=0.0)
def expert_read_result_share(expert_layers, layers):
    """Share of layers whose feed-forward results a gradient reads: those of routed experts.

    l_e / l

    Returns: [1] share
    Source: MaxText, src/maxtext/layers/moe.py (unpermute: weights multiply after wo)
    """
    return expert_layers / layers


@alternative("recomputed_exchanges_per_layer", recompute="products")
def tensor_recomputed_exchanges_per_layer(
    keep_qkv_proj, keep_out_proj, keep_mlpwi, read_result_share
):
    """half for each product that runs again: gathers before attention and feed-forward, and the
    scatters of attention's projection and of routed experts

    Range: sequence parallelism, as MaxText shards what enters a layer
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2
    """
    blocks = (1 - keep_mlpwi) * (1 + read_result_share)
    return (2 - keep_qkv_proj - keep_out_proj + blocks) / 2


row(
    "recomputed_exchanges_per_layer",
    "recomputed_ffn_blocks",
    "one per feed-forward block that runs again: a gather and a scatter with sequence parallelism",
    summary="All-reduces of tensor ranks that a layer's backward pass repeats, mean over layers.",
    returns="[1] all-reduces",
    source="Shoeybi et al. 2019, section 3; Korthikanti et al. 2022, arXiv:2205.05198, section "
    "4.2.2",
    holds="without the gather of latents that are projected up again",
    recompute="modules",
)
row("recomputed_ffn_blocks", "recompute_mlp", mixture_of_experts=False)


@alternative("recomputed_ffn_blocks", mixture_of_experts=True)
def expert_recomputed_ffn_blocks(
    recompute_mlp,
    dense_layers,
    recompute_moe,
    shared_recompute_passes,
    shared_experts,
    expert_layers,
    layers,
):
    """Feed-forward blocks of a layer that tensor ranks run again, mean over layers.

    (dense + l_e) / l, of what runs again; experts that are shared, or all

    Returns: [1] blocks
    Source: Megatron-LM, megatron/core/transformer/moe/moe_layer.py
    """
    experts = where(shared_experts > 0, shared_recompute_passes, recompute_moe)
    return (recompute_mlp * dense_layers + experts * expert_layers) / layers


row(
    "score_recompute_passes",
    1.0,
    attention_kernel="standard",
    source="Korthikanti et al. 2022, arXiv:2205.05198, section 5",
)
row(
    "score_recompute_passes",
    0.0,
    ("the backward kernel computes them again in any case, which attention_backward_ratio counts"),
    summary=("Forward passes of attention repeated where its scores are not kept: they never are."),
    returns="[1] passes",
    source="Dao et al. 2022 (FlashAttention), arXiv:2205.14135, section 3.1",
    attention_kernel="flash",
)
row("attention_recompute_passes", 0.0, recompute=False)


@alternative("attention_recompute_passes", recompute="products")
def tensor_attention_recompute_passes(keep_context, score_recompute_passes):
    """1 - k (1 - scores / 2), k of layers that keep its output and sums: its scores, half of its
    products, are not kept

    Source: MaxText, src/maxtext/layers/attention_op.py (residual_checkpoint_name)
    """
    return 1 - keep_context * (1 - score_recompute_passes / 2)


row(
    "attention_recompute_passes",
    "score_recompute_passes",
    ("1 where scores would be kept; 0 under flash attention, which keeps none"),
    summary=(
        "Forward passes of attention that a layer's backward pass repeats: where it has scores."
    ),
    returns="[1] passes",
    source=(
        "Korthikanti et al. 2022, arXiv:2205.05198, section 5; Dao et al. 2022 "
        "(FlashAttention), arXiv:2205.14135, section 3.1"
    ),
    recompute=("selective", "alternate_products"),
)
row(
    "attention_recompute_passes",
    "recompute_core_attn",
    recompute="modules",
    source="Megatron-LM, megatron/core/transformer/attention.py (core attention is checkpointed)",
)
row("attention_recompute_passes", "full_recompute_share", recompute="full")
