"""Hybrid models: attention layers, linear-attention layers and feed-forward blocks."""

from ...alternatives import alternative, row

KINDS = ("mamba2", "gated_deltanet", "lightning", "kimi_delta")


def attention_layers(layers, linear_layers):
    """Layers with attention: all without a state, unless some have no mixer.

    l - l_s

    Returns: [1] layers
    Source: by definition (Waleffe et al. 2024, arXiv:2406.07887: hybrids of Mamba-2 and attention)
    """
    return layers - linear_layers


def ffn_layers(layers):
    """Layers with a feed-forward block: all, unless layers hold a single block.

    l

    Returns: [1] layers
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1
    """
    return 1.0 * layers


def mixer_and_ffn_blocks(attention_layers, linear_layers, ffn_layers):
    """Mixer and feed-forward blocks of the model, each with a norm and a residual.

    l_a + l_s + l_f: two per layer of a standard transformer

    Returns: [1] blocks
    Source: by definition (NVIDIA 2025, Nemotron-H, arXiv:2504.03624: one block in each layer)
    """
    return attention_layers + linear_layers + ffn_layers


def linear_inner_width(linear_heads, linear_head_size):
    """Output width of a layer with a state, over all heads.

    H P

    Returns: [1] width
    Source: by definition (Dao & Gu 2024, arXiv:2405.21060, section 7.2)
    """
    return linear_heads * linear_head_size


def linear_key_width(linear_key_heads, linear_state_size):
    """Width of the keys of a layer with a state, over all heads; same for queries.

    G N

    Returns: [1] width
    Source: by definition (Dao & Gu 2024, arXiv:2405.21060, section 7.2: groups of heads share them)
    """
    return linear_key_heads * linear_state_size


@alternative("linear_parameters_per_layer", linear_attention="mamba2", off=0.0)
def mamba2_parameters_per_layer(hidden_size, linear_inner_width, linear_key_width, linear_heads):
    """h (3 H P + 2 G N + H): gate, input and output; B and C; step sizes

    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 7.1 (parallel projections)
    """
    return hidden_size * (3 * linear_inner_width + 2 * linear_key_width + linear_heads)


@alternative("linear_parameters_per_layer", linear_attention="gated_deltanet")
def gated_deltanet_parameters_per_layer(
    hidden_size, linear_inner_width, linear_key_width, linear_heads
):
    """Weights of the matrices of a mixer with a state.

    h (3 H P + 2 G N + 2 H): values, gate and output; queries and keys; strength and decay

    Returns: [1] parameters
    Source: Yang et al. 2024 (Gated DeltaNet), arXiv:2412.06464, section 3.4
    """
    return hidden_size * (3 * linear_inner_width + 2 * linear_key_width + 2 * linear_heads)


@alternative("linear_parameters_per_layer", linear_attention="lightning")
def lightning_parameters_per_layer(hidden_size, linear_inner_width, linear_key_width):
    """h (3 H P + 2 G N): values, gate and output; queries and keys

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
    """h (2 H P + 2 G N + H + 2 P) + P H (N + P): values and output; queries and keys; strength;
    decay per channel and gate, both of rank P

    Source: Kimi Team 2025 (Kimi Linear), arXiv:2510.26692, section 4
    """
    width = 2 * linear_inner_width + 2 * linear_key_width + linear_heads + 2 * linear_head_size
    low_rank = linear_inner_width * (linear_state_size + linear_head_size)
    return hidden_size * width + low_rank


row(
    "linear_convolution_width",
    0.0,
    "it has none",
    source="MiniMax 2025 (MiniMax-01), arXiv:2501.08313, section 2.2",
    linear_attention=(False, "lightning"),
)


@alternative(
    "linear_convolution_width", linear_attention=("mamba2", "gated_deltanet", "kimi_delta")
)
def short_linear_convolution_width(linear_inner_width, linear_key_width):
    """Channels of a mixer's short convolution: values, queries and keys.

    H P + 2 G N

    Returns: [1] channels
    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 7.1; Yang et al. 2024 (Gated
        DeltaNet), arXiv:2412.06464, section 3.4
    """
    return linear_inner_width + 2 * linear_key_width


row("linear_vector_parameters", 0.0, linear_attention=False)


@alternative("linear_vector_parameters", linear_attention="mamba2")
def mamba2_vector_parameters(
    linear_convolution_width, linear_convolution_size, linear_heads, linear_inner_width
):
    """channels (k + 1) + 3 H + H P: convolution with bias; decay, skip and step size per head; norm

    Source: Dao & Gu 2024 (Mamba-2), arXiv:2405.21060, section 7.1
    """
    convolution = linear_convolution_width * (linear_convolution_size + 1)
    return convolution + 3 * linear_heads + linear_inner_width


@alternative("linear_vector_parameters", linear_attention="gated_deltanet")
def gated_deltanet_vector_parameters(
    linear_convolution_width, linear_convolution_size, linear_heads, linear_head_size
):
    """Non-matrix parameters of a mixer with a state.

    channels k + 2 H + P: convolution; decay and step size per head; norm of a head

    Returns: [1] parameters
    Source: Yang et al. 2024 (Gated DeltaNet), arXiv:2412.06464, section 3.4
    """
    convolution = linear_convolution_width * linear_convolution_size
    return convolution + 2 * linear_heads + linear_head_size


row(
    "linear_vector_parameters",
    "linear_inner_width",
    "H P",
    source="MiniMax 2025 (MiniMax-01), arXiv:2501.08313, section 2.2",
    linear_attention="lightning",
)


@alternative("linear_vector_parameters", linear_attention="kimi_delta")
def kimi_delta_vector_parameters(
    linear_convolution_width,
    linear_convolution_size,
    linear_heads,
    linear_head_size,
    linear_state_size,
):
    """channels k + H (N + 1) + P: convolution; decay per head and channel; norm of a head

    Source: Kimi Team 2025 (Kimi Linear), arXiv:2510.26692, section 4
    """
    convolution = linear_convolution_width * linear_convolution_size
    return convolution + linear_heads * (linear_state_size + 1) + linear_head_size


def mixed_non_matmul_parameters(
    mixer_and_ffn_blocks,
    hidden_size,
    linear_layers,
    linear_vector_parameters,
    embedding_tables,
    vocab_size,
):
    """Parameters outside matrix products in a model with layers of several kinds.

    (blocks + 1 + (tables - 1) V) h + l_s x those of a mixer with a state: no biases or positions

    Returns: [1] parameters
    Source: NVIDIA 2025 (Nemotron-H), arXiv:2504.03624, section 2.1 (RMSNorm, no biases, no
        position embeddings)
    """
    rows = mixer_and_ffn_blocks + 1 + (embedding_tables - 1) * vocab_size
    return rows * hidden_size + linear_layers * linear_vector_parameters


row(
    "looked_up_parameters",
    "mixed_non_matmul_parameters",
    "N_non_matmul",
    linear_attention=KINDS,
)


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
    mixed_non_matmul_parameters,
):
    """l_a x attention + l_s x mixer with a state + feed-forward + V h + non-matmul

    Source: NVIDIA 2025 (Nemotron-H), arXiv:2504.03624, section 2.1
    """
    attention = attention_layers * attention_parameters_per_layer
    mixers = attention + linear_layers * linear_parameters_per_layer
    matrices = mixers + (ffn_parameters + latent_parameters)
    return matrices + vocab_size * hidden_size + mixed_non_matmul_parameters


row(
    "attending_layers",
    "attention_layers",
    source="Waleffe et al. 2024, arXiv:2406.07887, section 3.3",
    sliding_window=True,
)
row(
    "attending_layers",
    "layers",
    summary="Layers whose queries see keys, by what is counted of attention: all.",
    returns="[1] layers",
    source="Narayanan et al. 2021 (SC21), appendix",
    sliding_window=False,
)
