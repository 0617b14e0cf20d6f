"""Why layers of several kinds cannot be laid out."""

import numpy as np

from ... import reasons
from ...alternatives import alternative
from ...ops import where
from ...reasons import REASONS as REASONS
from ...reasons import is_whole
from ..model.layer_kinds import KINDS


@alternative("layer_kinds_reason", linear_attention=False)
def plain_layer_kinds_reason(linear_layers):
    """Why layers of several kinds cannot be laid out; 0 if they can.

    no layer keeps a state: all are of one kind

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return where(linear_layers > 0, reasons.LAYERS_DO_NOT_ADD_UP, 0.0)


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
    """whole, non-negative numbers of layers, at most as many mixers, and feed-forward blocks, as
    layers; attention counted in attention layers alone; H / (t u) whole

    Source: Megatron-LM, megatron/core/ssm/mamba_mixer.py (heads over tensor ranks) and
        megatron/core/models/hybrid/hybrid_layer_allocation.py (one symbol for each layer)
    """
    adds_up = (attention_layers >= 0) & (attention_layers + linear_layers <= layers)
    adds_up = adds_up & (ffn_layers <= layers) & (attending_layers == attention_layers)
    adds_up = adds_up & is_whole(linear_layers) & is_whole(attention_layers) & is_whole(ffn_layers)
    reason = where(
        is_whole(linear_heads / (tensor_parallel * head_sharing_ranks)),
        0.0,
        reasons.HEADS_NOT_DIVISIBLE_OVER_CONTEXT,
    )
    reason = where(is_whole(linear_heads / tensor_parallel), reason, reasons.HEADS_NOT_DIVISIBLE)
    operands = attention_layers + linear_layers + ffn_layers + layers + linear_heads
    return where(operands == operands, where(adds_up, reason, reasons.LAYERS_DO_NOT_ADD_UP), np.nan)
