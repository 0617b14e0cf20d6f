"""Roles of the model's shape: totals and their parts, and letters of layer patterns."""

from collections.abc import Mapping
from typing import Any

# a total stated by a label is discarded if one of its parts is given another value
HEADS = frozenset({"hidden_size", "attention_heads", "kv_heads", "head_size"})
_SHAPE = HEADS | frozenset(
    {
        "layers",
        "ffn_hidden_size",
        "gated_ffn",
        "vocab_size",
        "embedding_tables",
        "mixture_of_experts",
        "experts",
        "expert_ffn_hidden_size",
        "shared_experts",
        "dense_layers",
        "expert_input_width",
        "attention_layers",
        "ffn_layers",
        "linear_attention",
        "linear_layers",
        "linear_heads",
        "linear_head_size",
        "linear_key_heads",
        "linear_state_size",
    }
)
_COUNTED = _SHAPE | {"parameters", "experts_per_token"}
WHOLES: Mapping[str, frozenset[str]] = {
    "parameters": _SHAPE,
    "active_parameters": _COUNTED,
    "looked_up_parameters": _COUNTED | {"active_parameters"},
    "attention_parameters_per_layer": HEADS | {"latent_weights"},
    "kv_elements_per_layer": HEADS | {"latent_kv_elements"},
    "value_head_size": HEADS,
}
# letters of a layer pattern: the inputs that each counts in, and the choices that it implies
LETTERS: Mapping[str, tuple[str, ...]] = {
    "M": ("layers", "linear_layers"),
    "G": ("layers", "linear_layers"),
    "*": ("layers", "attention_layers"),
    "-": ("layers", "ffn_layers", "dense_layers"),
    "E": ("layers", "ffn_layers"),
}
LETTER_SETS: Mapping[str, Mapping[str, Any]] = {
    "M": {"linear_attention": "mamba2"},
    "G": {"linear_attention": "gated_deltanet"},
    "": {"mixture_of_experts": True},  # feed-forward blocks are counted
}
MISSING_LETTER_SETS: Mapping[str, Mapping[str, Any]] = {  # set if none of the letters occurs
    "E": {"experts": 1, "experts_per_token": 1},
    "MG": {"linear_attention": "mamba2"},
}
