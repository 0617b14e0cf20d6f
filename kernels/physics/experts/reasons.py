"""Why a layout of experts is invalid."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, row
from ...ops import where
from ...reasons import REASONS as REASONS
from ...reasons import is_whole
from ..network.inputs import SWITCHED


@alternative("dispatch_reason", all_reduce=SWITCHED)
def switched_dispatch_reason(expert_dispatch_reason):
    """Why tokens cannot be sent to their experts; 0 if they can.

    reason of the dispatch through switches

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition
    """
    return 1.0 * expert_dispatch_reason


@alternative("dispatch_reason", all_reduce="torus")
def torus_dispatch_reason():
    """0: dispatch on a torus is per expert, without node limits

    Source: Austin et al. 2025 (How to Scale Your Model), part 3 (AllToAll)
    """
    return 0.0


row(
    "expert_dispatch_reason",
    0.0,
    "a copy for each expert, or for each rank, goes anywhere",
    source="Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1",
    expert_dispatch=("per_expert", "all_gather"),
)


@alternative("expert_dispatch_reason", expert_dispatch="per_node")
def per_node_dispatch_reason(experts, experts_per_token, expert_nodes, open_nodes):
    """Why tokens cannot be sent to their experts; 0 if they can.

    whole numbers of nodes in the group and open to a token; the latter hold k experts: E M / N >= k

    Returns: [flag] reason
    Flags: REASONS
    Source: DeepEP, deep_ep/buffer.py (ranks in whole nodes); DeepSeek-AI 2024, arXiv:2412.19437,
        section 2.1.2 (k experts on at most M nodes)
    """
    holds = experts * open_nodes >= experts_per_token * expert_nodes
    whole = is_whole(expert_nodes) & is_whole(open_nodes)
    return where(
        whole,
        where(holds, 0.0, reasons.ROUTING_NODES_HOLD_TOO_FEW_EXPERTS),
        reasons.EXPERT_NODES_NOT_WHOLE,
    )


@alternative("expert_fold_reason", rank_order="tp-cp-ep-dp-pp")
def outer_expert_fold_reason(expert_tensor_parallel, tensor_parallel, residual_ranks):
    """Why experts cannot be folded over tensor-parallel ranks; 0 if they can.

    t_e = t, or sequence parallelism, which gives tensor ranks distinct tokens

    Returns: [flag] reason
    Flags: REASONS
    Source: Megatron-LM, megatron/training/arguments.py (experts with tensor parallelism need
        sequence parallelism)
    """
    does_not_fold = (expert_tensor_parallel != tensor_parallel) & (residual_ranks < tensor_parallel)
    return where(does_not_fold, reasons.EXPERTS_DO_NOT_FOLD_OVER_RANKS, 0.0)


@alternative("expert_fold_reason", rank_order="tp-cp-ep-pp-dp")
def inner_expert_fold_reason(
    expert_tensor_parallel,
    tensor_parallel,
    residual_ranks,
    context_parallel,
    expert_parallel,
    pipeline_parallel,
):
    """same as with outermost stages; with several stages also t_e e = t c: as many expert replicas

    Source: Megatron-LM, megatron/core/parallel_state.py (initialize_model_parallel: unless stages
        are outermost, replicas of experts and of attention are as many)
    """
    folded = expert_tensor_parallel * expert_parallel != tensor_parallel * context_parallel
    reason = outer_expert_fold_reason(expert_tensor_parallel, tensor_parallel, residual_ranks)
    return where((pipeline_parallel > 1) & folded, reasons.EXPERTS_DO_NOT_FOLD_OVER_RANKS, reason)


@alternative("shared_recompute_reason", shared_expert_overlap=True)
def overlapped_shared_recompute_reason(recompute_shared_experts, shared_experts):
    """Why shared experts cannot run again: they run during the traffic of others.

    0 unless they overlap, and run again

    Returns: [flag] reason
    Flags: REASONS
    Source: Megatron-LM, megatron/core/transformer/transformer_config.py (shared_experts recompute
        cannot work with --moe-shared-expert-overlap)
    """
    again = (recompute_shared_experts > 0) & (shared_experts > 0)
    operands = recompute_shared_experts + shared_experts
    return where(
        operands == operands, where(again, reasons.RECOMPUTED_WHILE_OVERLAPPED, 0.0), np.nan
    )


row("shared_recompute_reason", 0.0, shared_expert_overlap=False)
