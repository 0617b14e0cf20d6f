"""Muon's own matrix products: each update of a matrix is made orthogonal."""

from ...alternatives import alternative, row
from ...laws.layer import newton_schulz_flops


def attention_orthogonalisation_flops(
    attention_layers, hidden_size, attention_heads, kv_heads, head_size
):
    """Operations of Newton-Schulz on all queries', keys', values' and output projections.

    l_a (2 NS(h, a d) + 2 NS(h, a_kv d))

    Returns: [FLOP] operations
    Range: whole projections, all heads together; projections through a narrow vector (MLA) need
        fewer; mixers with a state are not counted
    Source: Liu et al. 2025 (Moonlight), arXiv:2502.16982, section 2.1
    """
    queries = newton_schulz_flops(hidden_size, attention_heads * head_size)
    keys = newton_schulz_flops(hidden_size, kv_heads * head_size)
    return attention_layers * (2 * queries + 2 * keys)


@alternative("ffn_orthogonalisation_flops", mixture_of_experts=False)
def dense_ffn_orthogonalisation_flops(ffn_layers, ffn_matrices, hidden_size, ffn_hidden_size):
    """Operations of Newton-Schulz on all feed-forward matrices.

    l_f (2 or 3) NS(h, f)

    Returns: [FLOP] operations
    Source: Liu et al. 2025 (Moonlight), arXiv:2502.16982, section 2.1
    """
    return ffn_layers * ffn_matrices * newton_schulz_flops(hidden_size, ffn_hidden_size)


@alternative("ffn_orthogonalisation_flops", mixture_of_experts=True)
def expert_ffn_orthogonalisation_flops(
    dense_layers,
    expert_layers,
    experts,
    shared_experts,
    ffn_matrices,
    hidden_size,
    ffn_hidden_size,
    expert_ffn_hidden_size,
):
    """(2 or 3) (dense layers x NS(h, f) + l_e (E + E_shared) NS(h, f_e)): each expert by itself

    Source: Liu et al. 2025 (Moonlight), arXiv:2502.16982, section 2.1, of each expert
    """
    dense = dense_layers * newton_schulz_flops(hidden_size, ffn_hidden_size)
    expert = newton_schulz_flops(hidden_size, expert_ffn_hidden_size)
    return ffn_matrices * (dense + expert_layers * (experts + shared_experts) * expert)


row("orthogonalisation_time", 0.0, optimizer=("adam", "adafactor"))


@alternative("orthogonalisation_time", optimizer="muon")
def muon_orthogonalisation_time(
    attention_orthogonalisation_flops,
    ffn_orthogonalisation_flops,
    optimizer_parameters,
    parameters,
    peak_flops_bf16,
    gemm_efficiency,
):
    """Time of Muon's products in one step, in BF16.

    operations x N_o / N / (efficiency x peak): shared as the optimizer's states are

    Returns: [s] time of one step
    Range: ranks that have equal shares of whole matrices, as under ZeRO-1; matrices gathered from
        other ranks are not counted as traffic; all weights trained
    Source: Liu et al. 2025 (Moonlight), arXiv:2502.16982, section 2.3 (Distributed Muon); Jordan
        et al. 2024 (Muon), https://kellerjordan.github.io/posts/muon/ (in BF16)
    """
    flops = attention_orthogonalisation_flops + ffn_orthogonalisation_flops
    return flops * (optimizer_parameters / parameters) / (gemm_efficiency * peak_flops_bf16)
