"""Traffic of a step, played out or counted again."""

import itertools
from typing import Any

import fleetcube

from .check import Pairs, check


def _value(output: str, **scenario: Any) -> float:
    return float(fleetcube.evaluate(output, engine="numpy", **scenario))


@check(
    "whole_layer_input_bytes",
    "distributed_layer_input_bytes",
    "full_activation_memory_per_layer",
    "expert_message",
    by="derivation",
    source="elements counted rank by rank; how stages send them (scatter_gather) changes nothing",
)
def what_tensor_ranks_hold_of_a_layer() -> Pairs:
    """1 to 8 tensor ranks, with and without sequence parallelism and distributed inputs"""
    tokens, hidden = 64, 32
    for ranks, sequence, distributed, scattered in itertools.product(
        (1, 2, 8), (False, True), (False, True), (False, True)
    ):
        elements = [(token, column) for token in range(tokens) for column in range(hidden)]
        residual = [token for token in range(tokens) if not sequence or token % ranks == 0]
        kept = elements[::ranks] if distributed else [e for e in elements if e[0] in residual]
        layout: dict[str, Any] = {
            "tensor_parallel": ranks,
            "sequence_parallel": sequence,
            "scatter_gather": scattered,
            "distribute_saved_activations": distributed,
            "recompute": "full",
            "sequence_length": tokens,
            "hidden_size": hidden,
            "bytes_per_element": 2,
        }
        yield _value("activation_memory_per_layer", **layout), 2 * len(kept)
        sent = sum(len([token] * 3) * hidden for token in residual)  # to 3 experts each
        yield _value("expert_message", experts_per_token=3, **layout), 2 * sent
