"""Which points cannot be run as they stand."""

from typing import Any

import numpy as np

from ..ops import where


def infeasible_reason(
    n_gpus: Any,
    tensor_parallel: Any,
    pipeline_parallel: Any,
    context_parallel: Any,
    virtual_stages: Any,
    global_batch_size: Any,
    micro_batch_size: Any,
    layers: Any,
    attention_heads: Any,
) -> Any:
    """Why a layout cannot be run, the gravest reason first; 0 where it can.

    Formulas stay defined at such points (a continuous relaxation); this flag marks them. Layers
    may also divide when the embedding and the output layer count as one each: the first and the
    last stage then hold one layer less.

    Parameters: n_gpus [1], tensor_parallel [1], pipeline_parallel [1], context_parallel [1],
        virtual_stages [1], global_batch_size [1], micro_batch_size [1], layers [1],
        attention_heads [1]
    Returns: [flag] reason
    Flags: 0 feasible, 1 not_a_whole_number, 2 group_larger_than_cluster, 3 gpus_not_divisible,
        4 batch_smaller_than_data_parallel, 5 batch_not_divisible, 6 layers_not_divisible,
        7 heads_not_divisible
    Source: constraints of Megatron-LM's layout (Narayanan et al. 2021, section 3); uneven end
        stages as in Llama 3 (arXiv:2407.21783, section 3.3.2: 126 layers on 16 stages)
    """
    group = tensor_parallel * pipeline_parallel * context_parallel
    replicas = n_gpus / group
    slices = replicas * micro_batch_size
    reason = where(_whole(attention_heads / tensor_parallel), 0.0, 7.0)
    chunks = pipeline_parallel * virtual_stages
    divides = _whole(layers / chunks) | _whole((layers + 2) / chunks)
    reason = where(divides, reason, 6.0)
    reason = where(_whole(global_batch_size / slices), reason, 5.0)
    reason = where(global_batch_size < slices, 4.0, reason)
    reason = where(_whole(replicas), reason, 3.0)
    reason = where(group > n_gpus, 2.0, reason)
    counts = _whole(n_gpus) & _whole(tensor_parallel) & _whole(pipeline_parallel)
    counts = counts & _whole(context_parallel) & _whole(virtual_stages)
    counts = counts & _whole(global_batch_size) & _whole(micro_batch_size)
    reason = where(counts, reason, 1.0)
    known = n_gpus + group + virtual_stages + global_batch_size + layers + attention_heads
    return where(known + micro_batch_size == known + micro_batch_size, reason, np.nan)


def _whole(value: Any) -> Any:
    """Whether a value is a whole number.

    floor(x) = x

    Parameters:
        value [1]: any number
    Returns: [1] true or false
    Source: by definition
    """
    return np.floor(value) == value
