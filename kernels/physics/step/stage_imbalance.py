"""Waits of pipeline stages for the slowest one."""

import numpy as np

from ...alternatives import alternative
from ...ops import where


def first_logits_share(logits_at_first, logits_at_last):
    """Share of the logits computed on the first of several stages.

    first / (first + last): 0, 1/2 or 1

    Returns: [1] share
    Source: by definition
    """
    return logits_at_first / (logits_at_first + logits_at_last)


@alternative("stage_imbalance_time", stage_split="whole_layers", off=0.0)
def slowest_stage_imbalance_time(
    compute_time,
    straggler_time,
    exposed_layer_communication_time,
    embedding_share,
    logits_share,
    embedding_exchange_time,
    logits_exchange_time,
    hidden_logits_exchange_time,
    layers,
    pipeline_parallel,
    first_stage_layers,
    middle_stage_layers,
    last_stage_layers,
    first_logits_share,
    parameter_copies,
):
    """Time per step by which the slowest stage works longer than the mean stage.

    max of first, middle and last, not below 0: layers (l_stage p / l - 1) + (embedding and logits
    of the stage - their mean), each with its exchanges, layers = C (1 - embedding - logits) + their
    traffic of the mean stage. Logits are on the first stage if a pipeline comes back to it; in
    dualpipe each end has half of both ends' layers, of the embedding and of the logits

    Returns: [s] time of one step
    Range: identical layers, or the same mix on every stage; modules of multi-token prediction that
        a layout puts on a middle stage count with the logits
    Source: Narayanan et al. 2021 (SC21), section 2.2 (a pipeline runs at its slowest stage)
    """
    computing = compute_time + straggler_time
    embedding = embedding_share * computing + embedding_exchange_time
    logits = logits_share * computing + logits_exchange_time - hidden_logits_exchange_time
    in_layers = computing + exposed_layer_communication_time - (embedding + logits)
    share = pipeline_parallel / layers
    other_way = (parameter_copies - 1) / 2
    less = other_way * (last_stage_layers - first_stage_layers)
    looked_up = pipeline_parallel * (1 - other_way)
    first = in_layers * ((first_stage_layers + less) * share - 1) + embedding * (looked_up - 1)
    first = first + logits * (first_logits_share * pipeline_parallel - 1)
    middle = in_layers * (middle_stage_layers * share - 1) - embedding - logits
    last = in_layers * ((last_stage_layers - less) * share - 1)
    last = last + embedding * (pipeline_parallel * other_way - 1)
    last = last + logits * ((1 - first_logits_share) * pipeline_parallel - 1)
    more = np.maximum(np.maximum(first, middle), np.maximum(last, 0.0))
    return where(pipeline_parallel > 1, more, 0.0)
