"""LoRA: adapters of low rank next to frozen matrices, the only weights that are trained."""

import numpy as np

from ... import reasons
from ...alternatives import alternative
from ...ops import where
from ...reasons import REASONS as REASONS


def attention_adapter_width(hidden_size, attention_heads, kv_heads, head_size):
    """Inputs and outputs of a layer's query, key, value and output projections.

    4 h + (2 a + 2 a_kv) (h / a)

    Returns: [1] width
    Range: projections through a narrow vector (MLA) have others
    Source: Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.1 (A takes the inputs, B gives the
        outputs of a matrix)
    """
    return 4 * hidden_size + head_size * (2 * attention_heads + 2 * kv_heads)


@alternative("ffn_adapter_width", mixture_of_experts=False)
def dense_ffn_adapter_width(ffn_layers, ffn_matrices, hidden_size, ffn_hidden_size):
    """Inputs and outputs of the model's feed-forward matrices.

    l_f (2 or 3) (h + f)

    Returns: [1] width
    Source: Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.1
    """
    return ffn_layers * ffn_matrices * (hidden_size + ffn_hidden_size)


@alternative("ffn_adapter_width", mixture_of_experts=True)
def expert_ffn_adapter_width(
    dense_layers,
    expert_layers,
    experts,
    shared_experts,
    ffn_matrices,
    hidden_size,
    ffn_hidden_size,
    expert_ffn_hidden_size,
):
    """(2 or 3) (dense layers x (h + f) + l_e (E + E_shared) (h + f_e)): adapters of each expert

    Source: Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.1, of each expert
    """
    dense = dense_layers * (hidden_size + ffn_hidden_size)
    width = hidden_size + expert_ffn_hidden_size
    return ffn_matrices * (dense + expert_layers * (experts + shared_experts) * width)


@alternative("lora_parameters", lora_matrices="all")
def all_lora_parameters(lora_rank, attention_layers, attention_adapter_width, ffn_adapter_width):
    """Parameters of all adapters, which are trained in place of the model's own.

    r x inputs and outputs of the matrices

    Returns: [1] parameters
    Range: matrices of attention and feed-forward blocks; mixers with a state have none
    Source: Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.2; Dettmers et al. 2023 (QLoRA),
        arXiv:2305.14314, section 4 (adapters at all linear layers)
    """
    return lora_rank * (attention_layers * attention_adapter_width + ffn_adapter_width)


@alternative("lora_parameters", lora_matrices="attention")
def attention_lora_parameters(lora_rank, attention_layers, attention_adapter_width):
    """r l_a x inputs and outputs of attention's projections

    Range: activations as with query_value. One product for queries, keys and values (Megatron-LM)
        has one adapter, whose input counts once: 2 r h fewer
    Source: MLPerf Training, training_results_v5.1, NVIDIA/benchmarks/llama2_70b_lora (train.py:
        target_modules)
    """
    return lora_rank * attention_layers * attention_adapter_width


@alternative("lora_parameters", lora_matrices="query_value")
def query_value_lora_parameters(
    lora_rank, attention_layers, hidden_size, attention_heads, kv_heads, head_size
):
    """r l_a (2 h + (a + a_kv) (h / a))

    Range: activations are counted as if all matrices had adapters: inputs of feed-forward matrices
        without them need not be kept, 26 % of Llama 3 8B's without recomputation
    Source: Hu et al. 2022 (LoRA), arXiv:2106.09685, section 5.5 (GPT-3)
    """
    width = 2 * hidden_size + (attention_heads + kv_heads) * head_size
    return lora_rank * attention_layers * width


def trained_share(lora_parameters, parameters):
    """Parameters of adapters over those of the model.

    N_lora / N

    Returns: [1] share
    Range: for states of one GPU, alike on all: embeddings have no adapters, so stages with them
        hold fewer
    Source: by definition
    """
    return lora_parameters / parameters


@alternative("width_reason", lora=True, off="attention_width_reason")
def lora_width_reason(lora_rank, hidden_size, attention_width_reason):
    """Why widths of the model, and the rank of its adapters, do not fit together; 0 if they do.

    r <= h; reason of attention's widths

    Returns: [flag] reason
    Flags: REASONS
    Source: Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.1 (r is at most a matrix's width)
    """
    reason = where(lora_rank > hidden_size, reasons.WIDTHS_DO_NOT_FIT, attention_width_reason)
    operands = lora_rank + hidden_size
    return where(operands == operands, reason, np.nan)
