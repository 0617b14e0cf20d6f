"""Why sharding groups cannot be laid out."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, row
from ...ops import where
from ...reasons import REASONS as REASONS
from ...reasons import is_whole

row("sharding_reason", 0.0, "all of them are one", hybrid_sharding=False)


@alternative("sharding_reason", hybrid_sharding=True)
def hybrid_sharding_reason(shard_replicas, data_parallel_shard):
    """Why replicas cannot form sharding groups; 0 if they can.

    d_s and d / d_s whole, d the replicas of a site

    Returns: [flag] reason
    Flags: REASONS
    Source: Liang et al. 2024 (TorchTitan), arXiv:2410.06511 (parallel_dims.py: dp_replicate x
        dp_shard x cp x tp x pp = world size); Megatron-LM, megatron/core/parallel_state.py
        (num_distributed_optimizer_instances divides the data-parallel size)
    """
    reason = where(
        is_whole(shard_replicas) & is_whole(data_parallel_shard),
        0.0,
        reasons.REPLICAS_NOT_DIVISIBLE_INTO_SHARDING_GROUPS,
    )
    return where(shard_replicas == shard_replicas, reason, np.nan)
