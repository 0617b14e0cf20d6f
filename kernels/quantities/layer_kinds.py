"""Layers of several kinds: some keep a state of fixed size in place of keys and values.

A layer holds a mixer (attention or a state), a feed-forward block, or both.
"""

import numpy as np

from ..alternatives import alternative
from ..ops import where
from .feasibility import REASONS as REASONS
from .feasibility import _whole

KINDS = ("mamba2", "gated_deltanet", "lightning", "kimi_delta")

# How many of each


def attention_layers(layers, linear_layers):
    """Layers that attend to keys and values: those without a state, unless some have no mixer.

    l - l_s

    Returns: [1] layers
    Source: by definition (Waleffe et al. 2024, arXiv:2406.07887: hybrids of Mamba-2 and attention)
    """
    return layers - linear_layers


def ffn_layers(layers):
    """Layers with a feed-forward block: all, unless a layer holds a single block.

    l

    Returns: [1] layers
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1
    """
    return 1.0 * layers


def mixer_and_ffn_blocks(attention_layers, linear_layers, ffn_layers):
    """Blocks of the model, each with a norm and a residual: mixers and feed-forward blocks.

    l_a + l_s + l_f: two in each layer of a usual transformer

    Returns: [1] blocks
    Source: by definition (NVIDIA 2025, Nemotron-H, arXiv:2504.03624: one block in each layer)
    """
    return attention_layers + linear_layers + ffn_layers


@alternative("expert_layers", linear_attention=KINDS)
def mixed_expert_layers(ffn_layers, dense_layers):
    """l_f - dense layers

    Source: by definition (DeepSeek-AI 2024, arXiv:2412.19437, section 4.2)
    """
    return ffn_layers - dense_layers


# Weights


def linear_inner_width(linear_heads, linear_head_size):
    """Width of what a layer with a state puts out, all heads together.

    H P

    Returns: [1] width
    Source: by definition (Dao & Gu 2024, arXiv:2405.21060, section 7.2)
    """
    return linear_heads * linear_head_size


def linear_key_width(linear_key_heads, linear_state_size):
    """Width of the keys of a layer with a state, all heads together; of its queries, too.

    G N

    Returns: [1] width
    Source: by definition (Dao & Gu 2024, arXiv:2405.21060, section 7.2: groups of heads share them)
    """
    return linear_key_heads * linear_state_size


@alternative("linear_parameters_per_layer", linear_attention="none")
def no_linear_parameters_per_layer():
    """Weights of the matrices of a mixer with a state: there is none.

    0

    Returns: [1] parameters
    Source: by definition
    """
    return 0.0


@alternative("linear_parameters_per_layer", linear_attention="mamba2")
def mamba2_parameters_per_layer(hidden_size, linear_inner_width, linear_key_width, linear_heads):
    """Weights of the matrices of a mixer with a state.

    h (3 H P + 2 G N + H): gate, input and output; B and C; step sizes

    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 7.1 (parallel projections)
    """
    return hidden_size * (3 * linear_inner_width + 2 * linear_key_width + linear_heads)


@alternative("linear_parameters_per_layer", linear_attention="gated_deltanet")
def gated_deltanet_parameters_per_layer(
    hidden_size, linear_inner_width, linear_key_width, linear_heads
):
    """Weights of the matrices of a mixer with a state.

    h (3 H P + 2 G N + 2 H): values, gate and output; queries and keys; strength and decay

    Source: Yang et al. 2024 (Gated DeltaNet), arXiv:2412.06464, section 3.4
    """
    return hidden_size * (3 * linear_inner_width + 2 * linear_key_width + 2 * linear_heads)


@alternative("linear_parameters_per_layer", linear_attention="lightning")
def lightning_parameters_per_layer(hidden_size, linear_inner_width, linear_key_width):
    """Weights of the matrices of a mixer with a state.

    h (3 H P + 2 G N): values, gate and output; queries and keys

    Source: MiniMax 2025 (MiniMax-01), arXiv:2501.08313, section 2.2
    """
    return hidden_size * (3 * linear_inner_width + 2 * linear_key_width)


@alternative("linear_parameters_per_layer", linear_attention="kimi_delta")
def kimi_delta_parameters_per_layer(
    hidden_size,
    linear_inner_width,
    linear_key_width,
    linear_heads,
    linear_head_size,
    linear_state_size,
):
    """Weights of the matrices of a mixer with a state.

    h (2 H P + 2 G N + H + 2 P) + P H (N + P): values and output; queries and keys; strength; decay
    of each channel and gate, both of rank P

    Source: Kimi Team 2025 (Kimi Linear), arXiv:2510.26692, section 4
    """
    width = 2 * linear_inner_width + 2 * linear_key_width + linear_heads + 2 * linear_head_size
    low_rank = linear_inner_width * (linear_state_size + linear_head_size)
    return hidden_size * width + low_rank


@alternative("linear_convolution_width", linear_attention=("none", "lightning"))
def no_linear_convolution_width():
    """Channels of a mixer's short convolution: it has none.

    0

    Returns: [1] channels
    Source: MiniMax 2025 (MiniMax-01), arXiv:2501.08313, section 2.2
    """
    return 0.0


@alternative(
    "linear_convolution_width", linear_attention=("mamba2", "gated_deltanet", "kimi_delta")
)
def short_linear_convolution_width(linear_inner_width, linear_key_width):
    """Channels of a mixer's short convolution: values, queries and keys.

    H P + 2 G N

    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 7.1; Yang et al. 2024 (Gated
        DeltaNet), arXiv:2412.06464, section 3.4
    """
    return linear_inner_width + 2 * linear_key_width


@alternative("linear_vector_parameters", linear_attention="none")
def no_linear_vector_parameters():
    """Parameters of a mixer with a state that are in no matrix: there is none.

    0

    Returns: [1] parameters
    Source: by definition
    """
    return 0.0


@alternative("linear_vector_parameters", linear_attention="mamba2")
def mamba2_vector_parameters(
    linear_convolution_width, linear_convolution_size, linear_heads, linear_inner_width
):
    """Parameters of a mixer with a state that are in no matrix.

    channels (k + 1) + 3 H + H P: convolution and its bias; decay, skip and step size of each head;
    norm

    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 7.1
    """
    convolution = linear_convolution_width * (linear_convolution_size + 1)
    return convolution + 3 * linear_heads + linear_inner_width


@alternative("linear_vector_parameters", linear_attention="gated_deltanet")
def gated_deltanet_vector_parameters(
    linear_convolution_width, linear_convolution_size, linear_heads, linear_head_size
):
    """Parameters of a mixer with a state that are in no matrix.

    channels k + 2 H + P: convolution; decay and step size of each head; norm of a head

    Source: Yang et al. 2024 (Gated DeltaNet), arXiv:2412.06464, section 3.4
    """
    convolution = linear_convolution_width * linear_convolution_size
    return convolution + 2 * linear_heads + linear_head_size


@alternative("linear_vector_parameters", linear_attention="lightning")
def lightning_vector_parameters(linear_inner_width):
    """Parameters of a mixer with a state that are in no matrix: a norm.

    H P

    Source: MiniMax 2025 (MiniMax-01), arXiv:2501.08313, section 2.2
    """
    return 1.0 * linear_inner_width


@alternative("linear_vector_parameters", linear_attention="kimi_delta")
def kimi_delta_vector_parameters(
    linear_convolution_width,
    linear_convolution_size,
    linear_heads,
    linear_head_size,
    linear_state_size,
):
    """Parameters of a mixer with a state that are in no matrix.

    channels k + H (N + 1) + P: convolution; decay of each head and channel; norm of a head

    Source: Kimi Team 2025 (Kimi Linear), arXiv:2510.26692, section 4
    """
    convolution = linear_convolution_width * linear_convolution_size
    return convolution + linear_heads * (linear_state_size + 1) + linear_head_size


def mixed_unmultiplied_parameters(
    mixer_and_ffn_blocks,
    hidden_size,
    linear_layers,
    linear_vector_parameters,
    embedding_tables,
    vocab_size,
):
    """Parameters in no matrix product of a model with layers of several kinds.

    (blocks + 1 + (tables - 1) V) h + l_s x those of a mixer with a state: no biases, no positions

    Returns: [1] parameters
    Source: NVIDIA 2025 (Nemotron-H), arXiv:2504.03624, section 2.1 (RMSNorm, no biases, no
        position embeddings)
    """
    rows = mixer_and_ffn_blocks + 1 + (embedding_tables - 1) * vocab_size
    return rows * hidden_size + linear_layers * linear_vector_parameters


@alternative("looked_up_parameters", linear_attention=KINDS)
def mixed_looked_up_parameters(mixed_unmultiplied_parameters):
    """Active parameters that no product reads: look-ups, convolutions, norms.

    N_unmultiplied
    """
    return 1.0 * mixed_unmultiplied_parameters


@alternative("parameters", linear_attention=KINDS)
def mixed_parameters(
    attention_layers,
    attention_parameters_per_layer,
    linear_layers,
    linear_parameters_per_layer,
    ffn_parameters,
    latent_parameters,
    vocab_size,
    hidden_size,
    mixed_unmultiplied_parameters,
):
    """l_a x attention + l_s x mixer with a state + feed-forward + V h + those in no product

    Source: NVIDIA 2025 (Nemotron-H), arXiv:2504.03624, section 2.1
    """
    attention = attention_layers * attention_parameters_per_layer
    mixers = attention + linear_layers * linear_parameters_per_layer
    matrices = mixers + (ffn_parameters + latent_parameters)
    return matrices + vocab_size * hidden_size + mixed_unmultiplied_parameters


# Operations


@alternative("linear_state_flops_per_token", linear_attention="none")
def no_linear_state_flops_per_token():
    """Operations of one token around a layer's state, forward: there is none.

    0

    Returns: [FLOP] operations of one token
    Source: by definition
    """
    return 0.0


@alternative("linear_state_flops_per_token", linear_attention="mamba2")
def mamba2_state_flops_per_token(
    linear_inner_width, linear_key_width, linear_state_size, linear_chunk_size
):
    """Operations of one token around a layer's state, forward, in chunks of Q tokens.

    2 Q (G N + H P / 2) + 4 N H P: C by B in a chunk, whole; that by the inputs, masked; the state
    that a chunk leaves, and what earlier ones left for its outputs

    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 6 (block decomposition; the mask
        leaves half of the diagonal blocks)
    """
    inside = linear_chunk_size * (2 * linear_key_width + linear_inner_width)
    return inside + 4 * linear_state_size * linear_inner_width


@alternative("linear_state_flops_per_token", linear_attention=("gated_deltanet", "kimi_delta"))
def delta_state_flops_per_token(
    linear_heads, linear_head_size, linear_state_size, linear_chunk_size
):
    """Operations of one token around a layer's state, forward, in chunks of C tokens.

    H (C (6 N + 4 P + C / 3) + 6 N P): keys by keys, their triangular inverse by keys and by
    values, queries by keys, those by values; what the state holds of keys and of queries, and its
    update

    Range: blocks under a mask are multiplied whole, as kernels for short chunks do
    Source: Yang et al. 2024 (Gated DeltaNet), arXiv:2412.06464, section 3.3; Yang et al. 2024
        (DeltaNet), arXiv:2406.06484, section 3.2 (WY representation in chunks)
    """
    products = 6 * linear_state_size + 4 * linear_head_size + linear_chunk_size / 3
    state = 6 * linear_state_size * linear_head_size
    return linear_heads * (linear_chunk_size * products + state)


@alternative("linear_state_flops_per_token", linear_attention="lightning")
def lightning_state_flops_per_token(
    linear_heads, linear_head_size, linear_state_size, linear_chunk_size
):
    """Operations of one token around a layer's state, forward, in blocks of B tokens.

    H (2 B (N + P) + 4 N P): queries by keys in a block and those by values; the state's share of
    the output, and its update

    Range: blocks under a mask are multiplied whole
    Source: Qin et al. 2024 (Lightning Attention-2), arXiv:2401.04658, algorithm 1; MiniMax 2025
        (MiniMax-01), arXiv:2501.08313, section 2.2.1
    """
    inside = 2 * linear_chunk_size * (linear_state_size + linear_head_size)
    return linear_heads * (inside + 4 * linear_state_size * linear_head_size)


@alternative("layer_matrix_flops_per_token", linear_attention=KINDS)
def mixed_layer_matrix_flops_per_token(
    active_matrix_parameters, linear_layers, linear_state_flops_per_token
):
    """Operations of one token in the layers' matrices and states, forward and backward.

    6 N_matrices + 3 l_s x those around a state: backward takes two products for one

    Range: with a precision of 8 bits and less, states are counted at the rate of the matrices
        (compute_model = mfu); they are some 1 to 4 % of the operations
    Source: Kaplan et al. 2020, arXiv:2001.08361, section 2.1; Dao & Gu 2024 (Mamba-2),
        arXiv:2405.21060, section 6
    """
    return 6 * active_matrix_parameters + 3 * linear_layers * linear_state_flops_per_token


# What runs


@alternative("attending_layers", sliding_window=True)
def some_attending_layers(attention_layers):
    """Layers whose queries see keys, by what is counted of attention: those that attend.

    l_a

    Source: Waleffe et al. 2024, arXiv:2406.07887, section 3.3
    """
    return 1.0 * attention_layers


@alternative("attending_layers", sliding_window=False)
def all_attending_layers(layers):
    """Layers whose queries see keys, by what is counted of attention: all.

    l

    Returns: [1] layers
    Source: Narayanan et al. 2021 (SC21), appendix
    """
    return 1.0 * layers


@alternative("layer_kinds_reason", linear_attention="none")
def plain_layer_kinds_reason(linear_layers):
    """Why layers of several kinds cannot be laid out; 0 where they can.

    they are of one kind: none keeps a state

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return where(linear_layers > 0, 26.0, 0.0)


@alternative("layer_kinds_reason", linear_attention=KINDS)
def mixed_layer_kinds_reason(
    attention_layers,
    attending_layers,
    linear_layers,
    ffn_layers,
    layers,
    linear_heads,
    tensor_parallel,
    head_sharing_ranks,
):
    """whole layers, no more mixers than layers, no more feed-forward blocks, none below 0;
    attention counted in those that attend alone; H / (t u) whole

    Source: Megatron-LM, megatron/core/ssm/mamba_mixer.py (heads over tensor ranks) and
        megatron/core/models/hybrid/hybrid_layer_allocation.py (one symbol for each layer)
    """
    adds_up = (attention_layers >= 0) & (attention_layers + linear_layers <= layers)
    adds_up = adds_up & (ffn_layers <= layers) & (attending_layers == attention_layers)
    adds_up = adds_up & _whole(linear_layers) & _whole(attention_layers) & _whole(ffn_layers)
    reason = where(_whole(linear_heads / (tensor_parallel * head_sharing_ranks)), 0.0, 27.0)
    reason = where(_whole(linear_heads / tensor_parallel), reason, 7.0)
    known = attention_layers + linear_layers + ffn_layers + layers + linear_heads
    return where(known == known, where(adds_up, reason, 26.0), np.nan)
