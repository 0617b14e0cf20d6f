"""Why sharding groups cannot be laid out so."""

import numpy as np

from ...alternatives import alternative
from ...ops import where
from ...reasons import REASONS as REASONS
from ...reasons import is_whole


@alternative("sharding_reason", hybrid_sharding=False)
def whole_sharding_reason():
    """Why replicas cannot form sharding groups; 0 where they can.

    0: all of them are one

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return 0.0


@alternative("sharding_reason", hybrid_sharding=True)
def hybrid_sharding_reason(shard_replicas, data_parallel_shard):
    """d_s whole, and d / d_s, the replicas of a site

    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (parallel_dims.py: dp_replicate x
        dp_shard x cp x tp x pp = world size); Megatron-LM, megatron/core/parallel_state.py
        (num_distributed_optimizer_instances divides the data-parallel size)
    """
    reason = where(is_whole(shard_replicas) & is_whole(data_parallel_shard), 0.0, 18.0)
    return where(shard_replicas == shard_replicas, reason, np.nan)
