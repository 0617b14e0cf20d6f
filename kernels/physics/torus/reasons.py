"""Why a layout does not fit a torus."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, row
from ...ops import where
from ...reasons import REASONS as REASONS
from ..network.inputs import SWITCHED

row("torus_reason", 0.0, "switches connect all", all_reduce=SWITCHED)


@alternative("torus_order_reason", rank_order="tp-cp-ep-dp-pp")
def outer_torus_order_reason(expert_tensor_parallel, tensor_parallel):
    """Why the rank order does not map onto a torus; 0 if it does.

    t_e = t: experts folded over other ranks do not fill a box

    Returns: [flag] reason
    Flags: REASONS
    Source: Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2 (slices of a pod); JAX,
        jax.experimental.mesh_utils.create_device_mesh (axes of a mesh along those of a torus)
    """
    return where(
        expert_tensor_parallel == tensor_parallel, 0.0, reasons.TORUS_DOES_NOT_HOLD_THE_GROUPS
    )


@alternative("torus_order_reason", rank_order="tp-cp-ep-pp-dp")
def inner_torus_order_reason(expert_tensor_parallel, tensor_parallel, pipeline_parallel):
    """t_e = t and p = 1: replicas on both sides of pipeline stages are not modelled on a torus"""
    alike = (expert_tensor_parallel == tensor_parallel) & (pipeline_parallel == 1)
    return where(alike, 0.0, reasons.TORUS_DOES_NOT_HOLD_THE_GROUPS)


def torus_shape_reason(
    n_gpus,
    scale_up_gpus,
    largest_slice,
    torus_x,
    torus_y,
    torus_z,
    torus_dimensions,
    torus_twist,
):
    """Why the shape of a torus is invalid; 0 if it is valid.

    the job is whole tori, each within a pod; 1 to 3 dimensions, and one chip along dimensions
    without links; in two dimensions, no side longer than a square pod's; twisted tori are n x n x
    2n or n x 2n x 2n, n from 4

    Returns: [flag] reason
    Flags: REASONS
    Source: Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2 (slices of a pod); Google Cloud
        TPU documentation, v5e and v6e (slices of a pod of 16 x 16)
    """
    tori = n_gpus / scale_up_gpus
    whole = (np.floor(torus_x) == torus_x) & (np.floor(torus_y) == torus_y)
    whole = whole & (np.floor(torus_z) == torus_z) & (np.floor(tori) == tori)
    linked = (torus_dimensions == 3) | ((torus_dimensions == 2) & (torus_z == 1))
    whole = whole & (linked | ((torus_dimensions == 1) & (torus_y == 1) & (torus_z == 1)))
    short = np.minimum(np.minimum(torus_x, torus_y), torus_z)
    twice = (_once_or_twice(torus_x, short) & _once_or_twice(torus_y, short)) & (short >= 4)
    twice = twice & _once_or_twice(torus_z, short) & (scale_up_gpus > short * short * short)
    twice = twice & (scale_up_gpus < 8 * short * short * short)
    shaped = whole & ((torus_twist == 0) | twice)
    side = np.maximum(torus_x, torus_y)
    beyond = (torus_dimensions == 2) & (side * side > largest_slice)
    reason = where(
        (scale_up_gpus > largest_slice) | beyond,
        reasons.SLICE_LARGER_THAN_POD,
        where(shaped, 0.0, reasons.TORUS_DOES_NOT_HOLD_THE_GROUPS),
    )
    operands = n_gpus + scale_up_gpus + torus_x + torus_y
    return where(operands == operands, reason, np.nan)


@alternative("torus_reason", all_reduce="torus")
def ring_torus_reason(
    torus_shape_reason,
    scale_up_gpus,
    torus_x,
    torus_y,
    tensor_parallel,
    context_parallel,
    expert_parallel,
    gradient_ranks,
    site_gradient_ranks,
    torus_order_reason,
):
    """Why a job does not fit on a torus; 0 if it does.

    reason of the shape; t, t c, t e and t c d chips, and those of a sharding group, fill a box:
    each divides x, x y and the torus, or is a multiple; reason of the rank order

    Returns: [flag] reason
    Flags: REASONS
    Source: Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2 (slices of a pod); JAX,
        jax.experimental.mesh_utils.create_device_mesh (axes of a mesh along those of a torus)
    """
    sequence = tensor_parallel * context_parallel
    group, replicas = tensor_parallel * gradient_ranks, tensor_parallel * site_gradient_ranks
    boxes = _fills(tensor_parallel, torus_x, torus_y, scale_up_gpus)
    boxes = boxes & _fills(sequence, torus_x, torus_y, scale_up_gpus)
    boxes = boxes & _fills(tensor_parallel * expert_parallel, torus_x, torus_y, scale_up_gpus)
    boxes = boxes & _fills(group, torus_x, torus_y, scale_up_gpus)
    boxes = boxes & _fills(replicas, torus_x, torus_y, scale_up_gpus)
    holds = boxes & (torus_order_reason == 0)
    groups = where(holds, 0.0, reasons.TORUS_DOES_NOT_HOLD_THE_GROUPS)
    reason = where(torus_shape_reason == 0, groups, torus_shape_reason)
    operands = torus_shape_reason + sequence + expert_parallel
    return where(operands == operands, reason, np.nan)


def _once_or_twice(size, short):
    """Whether a size is another, or twice it."""
    return (size == short) | (size == 2 * short)


def _fills(chips, x, y, torus):
    """Whether groups of neighbouring chips are boxes of a torus."""
    return _divides(chips, x) & _divides(chips, x * y) & _divides(chips, torus)


def _divides(one, other):
    """Whether one of two numbers divides the other."""
    up, down = one / other, other / one
    return (np.floor(up) == up) | (np.floor(down) == down)
