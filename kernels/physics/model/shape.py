"""Sizes and parameter counts of the model."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, row
from ...ops import where
from ...reasons import REASONS as REASONS
from ...reasons import is_whole
from .layer_kinds import KINDS


def attention_heads(hidden_size):
    """Default attention heads, where the scenario does not state them: heads of width 128.

    a = h / 128

    Returns: [1] heads
    Source: Brown et al. 2020, arXiv:2005.14165, table 2.1 (d_head = 128 for 13B and 175B)
    Example:
        >>> attention_heads(12288)
        96.0
    """
    return hidden_size / 128


def head_size(hidden_size, attention_heads):
    """Width of one attention head.

    h / a

    Returns: [1] width
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2
    """
    return hidden_size / attention_heads


def kv_heads(attention_heads):
    """Key-value heads: as many as query heads, unless the model groups them.

    a_kv = a

    Returns: [1] key-value heads
    Source: Ainslie et al. 2023, arXiv:2305.13245, section 2.2 (multi-head attention)
    """
    return 1.0 * attention_heads


@alternative("ffn_hidden_size", gated_ffn=False)
def plain_ffn_hidden_size(hidden_size):
    """Width of the feed-forward layers.

    f = 4 h

    Returns: [1] width
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.3
    """
    return 4 * hidden_size


@alternative("ffn_hidden_size", gated_ffn=True)
def gated_ffn_hidden_size(hidden_size):
    """f = 8 h / 3: three matrices with as many parameters as two of width 4 h

    Source: Shazeer 2020, arXiv:2002.05202, section 3.1 (width reduced by 2/3)
    """
    return 8 * hidden_size / 3


@alternative("ffn_matrices", gated_ffn=False)
def plain_ffn_matrices():
    """Matrices of one feed-forward block: up and down.

    2

    Returns: [1] matrices
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.3
    """
    return 2.0


@alternative("ffn_matrices", gated_ffn=True)
def gated_ffn_matrices():
    """3: gate, up and down

    Source: Shazeer 2020, arXiv:2002.05202, section 2
    """
    return 3.0


def expert_ffn_hidden_size(ffn_hidden_size):
    """Width of one expert: that of a dense block, unless the model states it.

    f_e = f

    Returns: [1] width
    Source: Fedus et al. 2022, arXiv:2101.03961, section 2.1 (each expert is a feed-forward layer)
    """
    return 1.0 * ffn_hidden_size


@alternative("attention_parameters_per_layer", latent_attention=False)
def attention_parameters_per_layer(hidden_size, attention_heads, kv_heads, head_size):
    """Weights of one layer's query, key, value and output projections.

    h (2 a + 2 a_kv) (h / a)

    Returns: [1] parameters
    Source: Ainslie et al. 2023, arXiv:2305.13245, section 2.2; Narayanan et al. 2021 (SC21), eq. 2
        (4 h^2 where every head has its own keys and values)
    Example:
        >>> attention_parameters_per_layer(8192, 64, 8, 128)
        150994944
    """
    return hidden_size * head_size * (2 * attention_heads + 2 * kv_heads)


@alternative("kv_elements_per_layer", latent_attention=False)
def kv_elements_per_layer(kv_heads, head_size):
    """KV-cache elements per token and layer.

    2 a_kv h / a; models with latent attention state their own

    Returns: [1] elements
    Source: Ainslie et al. 2023, arXiv:2305.13245, section 2.2; latent attention: DeepSeek-AI 2024,
        arXiv:2405.04434, section 2.1
    Example:
        >>> kv_elements_per_layer(8, 128)
        2048
    """
    return 2 * kv_heads * head_size


row("kv_elements_per_layer", "latent_kv_elements", latent_attention=True)
row("attention_parameters_per_layer", "latent_weights", latent_attention=True)


def value_head_size(head_size):
    """Width of a head's value: that of its query and key, unless the model states it.

    d

    Returns: [1] width
    Range: used with latent attention, whose head_size is the mean of keys and values
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 4.2 (192 for queries and keys, 128 for
        values)
    """
    return 1.0 * head_size


def kv_latent_size(kv_elements_per_layer, rotary_key_size):
    """Width of the latent vector of keys and values, from which all heads are projected.

    numbers cached of a token - rotary key

    Returns: [1] width
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.1 (576 = 512 + 64)
    """
    return kv_elements_per_layer - rotary_key_size


@alternative("attention_width_reason", latent_attention=False)
def grouped_attention_width_reason(
    hidden_size, attention_heads, kv_heads, head_size, attention_layers
):
    """Why widths of attention do not fit together; 0 if they do.

    with attention layers: h, d, a_kv and a / a_kv are whole numbers

    Returns: [flag] reason
    Flags: REASONS
    Source: Ainslie et al. 2023, arXiv:2305.13245, section 2.2 (query heads in groups of one size)
    """
    fits = is_whole(hidden_size) & is_whole(head_size) & is_whole(kv_heads)
    fits = (fits & is_whole(attention_heads / kv_heads)) | (attention_layers == 0)
    operands = hidden_size + head_size + attention_heads + kv_heads + attention_layers
    return where(operands == operands, where(fits, 0.0, reasons.WIDTHS_DO_NOT_FIT), np.nan)


@alternative("attention_width_reason", latent_attention=True)
def latent_attention_width_reason(
    hidden_size, head_size, value_head_size, rotary_key_size, kv_elements_per_layer
):
    """h is whole; a key has a width, 2 d - d_v > 0, of which the rotary key is a part, as of what
    is cached: d_r <= 2 d - d_v, d_r < numbers cached of a token

    Source: DeepSeek-AI 2024, arXiv:2405.04434, section 2.1.3 (a key: from the latent, and rotary)
    """
    key = 2 * head_size - value_head_size
    fits = (key > 0) & (rotary_key_size <= key) & (rotary_key_size < kv_elements_per_layer)
    fits = fits & is_whole(hidden_size)
    operands = hidden_size + key + rotary_key_size + kv_elements_per_layer
    return where(operands == operands, where(fits, 0.0, reasons.WIDTHS_DO_NOT_FIT), np.nan)


def ffn_parameters_per_layer(hidden_size, ffn_hidden_size, ffn_matrices):
    """Weights of one dense feed-forward block.

    2 h f, 3 h f with a gate

    Returns: [1] parameters
    Source: Shazeer 2020, arXiv:2002.05202, section 2
    """
    return ffn_matrices * hidden_size * ffn_hidden_size


@alternative("expert_parameters", linear_attention=False)
def expert_parameters(hidden_size, expert_ffn_hidden_size, ffn_matrices):
    """Weights of one expert.

    2 h f_e, 3 h f_e with a gate

    Returns: [1] parameters
    Source: Fedus et al. 2022, arXiv:2101.03961, section 2.1
    """
    return ffn_matrices * hidden_size * expert_ffn_hidden_size


def expert_layers(ffn_layers, dense_layers):
    """Layers whose feed-forward block is a mixture of experts.

    l_f - dense layers

    Returns: [1] layers
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 4.2 (all but the first three layers)
    """
    return ffn_layers - dense_layers


@alternative("routed_parameters", mixture_of_experts=True, off=0.0)
def routed_parameters(expert_layers, experts, expert_parameters):
    """Weights of all routed experts of the model, which expert parallelism shards.

    l_e E x parameters of an expert

    Returns: [1] parameters
    Source: Fedus et al. 2022, arXiv:2101.03961, section 2.1
    """
    return expert_layers * experts * expert_parameters


@alternative("ffn_parameters", mixture_of_experts=False)
def dense_ffn_parameters(layers, ffn_parameters_per_layer):
    """Feed-forward weights of the model.

    l x parameters of a block

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2 (8 l h^2)
    """
    return layers * ffn_parameters_per_layer


@alternative("ffn_parameters", mixture_of_experts=True)
def expert_ffn_parameters(
    dense_layers,
    ffn_parameters_per_layer,
    routed_parameters,
    expert_layers,
    shared_experts,
    expert_parameters,
    hidden_size,
    experts,
):
    """dense x block + l_e ((E + E_shared) x expert + h E): dense layers, experts and routers

    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2
    """
    shared_and_router = shared_experts * expert_parameters + hidden_size * experts
    return (
        dense_layers * ffn_parameters_per_layer
        + routed_parameters
        + expert_layers * shared_and_router
    )


row(
    "embedding_tables",
    1.0,
    gated_ffn=False,
    source="Press & Wolf 2017, arXiv:1608.05859, section 2; Narayanan et al. 2021 (SC21), eq. 2",
)


@alternative("embedding_tables", gated_ffn=True)
def untied_embedding_tables():
    """Embedding tables: one for tokens, one for logits, unless the model states it.

    2

    Returns: [1] tables
    Source: Touvron et al. 2023, arXiv:2302.13971, section 2.2
    """
    return 2.0


@alternative("non_matmul_parameters", gated_ffn=False)
def gpt_non_matmul_parameters(
    layers,
    hidden_size,
    ffn_hidden_size,
    attention_heads,
    kv_heads,
    head_size,
    embedding_tables,
    vocab_size,
    sequence_length,
):
    """Parameters outside matrix products: biases, norms, look-up tables.

    13 l h (where f = 4 h) + (tables - 1) V h + s h: biases and norms of the layers, an untied token
    embedding, learned positions

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2
    """
    biases = head_size * (attention_heads + 2 * kv_heads) + ffn_hidden_size + 2 * hidden_size
    norms = 4 * hidden_size
    looked_up = ((embedding_tables - 1) * vocab_size + sequence_length) * hidden_size
    return layers * (biases + norms) + looked_up


@alternative("non_matmul_parameters", gated_ffn=True)
def llama_non_matmul_parameters(layers, hidden_size, embedding_tables, vocab_size):
    """(2 l + 1) h + (tables - 1) V h: norms and look-up tables; no biases, no learned positions

    Source: Touvron et al. 2023, arXiv:2302.13971, section 2.2
    """
    return (2 * layers + 1 + (embedding_tables - 1) * vocab_size) * hidden_size


@alternative("parameters", linear_attention=False)
def parameters(
    layers,
    hidden_size,
    attention_parameters_per_layer,
    ffn_parameters,
    vocab_size,
    non_matmul_parameters,
):
    """Parameters of the model, where the scenario does not state them.

    l x attention + feed-forward + V h + non-matmul; GPT: 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12
    l h))

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2; Touvron et al. 2023, arXiv:2302.13971, section 2.2
    """
    matrices = layers * attention_parameters_per_layer + ffn_parameters
    return matrices + vocab_size * hidden_size + non_matmul_parameters


row(
    "active_parameters",
    "parameters",
    source="Kaplan et al. 2020, arXiv:2001.08361, section 2.1",
    mixture_of_experts=False,
)


@alternative("skipped_parameters", mixture_of_experts=True, off=0.0)
def skipped_parameters(expert_layers, experts, experts_per_token, expert_parameters):
    """Weights of the experts that a token is not routed to.

    l_e (E - k) x parameters of an expert

    Returns: [1] parameters
    Source: Jiang et al. 2024 (Mixtral), arXiv:2401.04088, section 2.1
    """
    return expert_layers * (experts - experts_per_token) * expert_parameters


@alternative("active_parameters", mixture_of_experts=True)
def expert_active_parameters(parameters, skipped_parameters):
    """Parameters that each token uses: all but those of experts that it is not routed to.

    N - N_skipped

    Returns: [1] active parameters
    Source: Jiang et al. 2024 (Mixtral), arXiv:2401.04088, section 2.1
    """
    return parameters - skipped_parameters


@alternative("looked_up_parameters", linear_attention=False)
def looked_up_parameters(non_matmul_parameters):
    """Active parameters outside matrix products: look-up tables, biases, norms.

    N_non_matmul; 0 for models whose published active parameters exclude the embedding

    Returns: [1] parameters
    Source: stated by the scenario
    """
    return 1.0 * non_matmul_parameters


def active_matrix_parameters(active_parameters, looked_up_parameters, vocab_size, hidden_size):
    """Active weights of the layers' matrices.

    N_active - non-matmul - V h of the logits; not below 0

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), eq. 2 and appendix (12 l h^2 for a GPT)
    """
    multiplied = active_parameters - looked_up_parameters
    return np.maximum(multiplied - vocab_size * hidden_size, 0.0)


def expert_input_width(hidden_size):
    """Input width of routed experts: that of the residual stream, unless stated.

    h

    Returns: [1] width
    Source: Fedus et al. 2022, arXiv:2101.03961, section 2.1
    """
    return 1.0 * hidden_size


@alternative("expert_parameters", linear_attention=KINDS)
def latent_expert_parameters(expert_input_width, expert_ffn_hidden_size, ffn_matrices):
    """Weights of one routed expert.

    2 w f_e, 3 w f_e with a gate

    Source: Megatron-LM, --moe-latent-size (megatron/training/training.py, moe_layer_flops)
    """
    return expert_parameters(expert_input_width, expert_ffn_hidden_size, ffn_matrices)


@alternative("latent_parameters", mixture_of_experts=True, off=0.0)
def expert_latent_parameters(
    expert_layers,
    shared_experts,
    ffn_matrices,
    expert_ffn_hidden_size,
    hidden_size,
    expert_input_width,
):
    """Extra weights where routed experts have an input width other than the model's.

    l_e (E_shared (2 or 3) f_e (h - w) + 2 h w where w < h): shared experts see full-width tokens;
    for the routed ones, each layer projects tokens down and the results back up

    Returns: [1] parameters
    Source: Megatron-LM, --moe-latent-size (megatron/training/training.py, moe_layer_flops)
    """
    wider = shared_experts * ffn_matrices * expert_ffn_hidden_size
    wider = wider * (hidden_size - expert_input_width)
    narrower = expert_input_width < hidden_size
    both_ways = where(narrower, 2 * hidden_size * expert_input_width, 0.0)
    return expert_layers * (wider + both_ways)
