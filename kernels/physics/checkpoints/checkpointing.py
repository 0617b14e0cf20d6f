"""Checkpoint size, write and stall times, and checkpoint interval."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...laws.checkpoint import daly_interval as daly
from ...laws.checkpoint import exact_interval as exact
from ...laws.checkpoint import young_interval as young


@alternative("checkpoint_size", lora=False)
def checkpoint_size(parameters, checkpoint_bytes_per_parameter):
    """Size of one checkpoint.

    N x bytes per parameter

    Returns: [B] size of one checkpoint
    Range: without modules of multi-token prediction, 1.7 % of DeepSeek-V3
    Source: Fleet Foundations table 7 (14 B: BF16 weights, FP32 master, momentum, variance)
    Example:
        >>> checkpoint_size(70e9, 14) / 1e9
        980.0
    """
    return parameters * checkpoint_bytes_per_parameter


@alternative("checkpoint_size", lora=True)
def lora_checkpoint_size(lora_parameters, checkpoint_bytes_per_parameter):
    """N_lora x bytes per parameter: adapters alone

    Range: a restart also reads the frozen weights, which is not counted
    Source: Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.2 (35 MB in place of 350 GB)
    """
    return lora_parameters * checkpoint_bytes_per_parameter


row(
    "write_bandwidth",
    "checkpoint_write_bandwidth",
    source="Fleet Foundations table 7",
    storage_scaling="total",
)


@alternative("write_bandwidth", storage_scaling="per_node")
def per_node_write_bandwidth(nodes, per_node_storage_bandwidth, checkpoint_write_bandwidth):
    """Write bandwidth of checkpoints.

    min(nodes x bandwidth of a node, bandwidth of the whole system)

    Returns: [B/s] write bandwidth of the job
    Source: by definition; the narrower of two stages in series
    """
    return np.minimum(nodes * per_node_storage_bandwidth, checkpoint_write_bandwidth)


row(
    "read_bandwidth",
    "checkpoint_read_bandwidth",
    source="Fleet Foundations table 7, for reading",
    storage_scaling="total",
)


@alternative("read_bandwidth", storage_scaling="per_node")
def per_node_read_bandwidth(nodes, per_node_storage_bandwidth, checkpoint_read_bandwidth):
    """Read bandwidth of checkpoints.

    min(nodes x bandwidth of a node, bandwidth of the whole system)

    Returns: [B/s] read bandwidth of the job
    Source: by definition; the narrower of two stages in series
    """
    return np.minimum(nodes * per_node_storage_bandwidth, checkpoint_read_bandwidth)


def checkpoint_write_time(checkpoint_size, write_bandwidth):
    """Time to write one checkpoint.

    size / bandwidth

    Returns: [s] write time
    Source: Fleet Foundations table 7
    Example:
        >>> checkpoint_write_time(980e9, 100e9)
        9.8
    """
    return checkpoint_size / write_bandwidth


def snapshot_time(checkpoint_size, n_gpus, snapshot_bandwidth):
    """Time to copy a checkpoint from all GPUs in parallel to the memory of their hosts.

    size / n / (bandwidth of one GPU)

    Returns: [s] snapshot time
    Source: two-phase checkpoints (Mohan et al. 2021, CheckFreq, FAST; Jiang et al. 2024,
        MegaScale, arXiv:2402.15627)
    Example:
        >>> round(snapshot_time(1024e9, 1024, 25e9), 6)
        0.04
    """
    return checkpoint_size / n_gpus / snapshot_bandwidth


def peer_copy_time(checkpoint_size, n_gpus, rail_bandwidth):
    """Time to copy a checkpoint from all GPUs in parallel to, or from, the memory of peers.

    size / n / (bandwidth of one rail)

    Returns: [s] copy time
    Source: Wang et al. 2023, Gemini, SOSP
    """
    return checkpoint_size / n_gpus / rail_bandwidth


row(
    "checkpoint_stall_time",
    "checkpoint_write_time",
    source="Young 1974, CACM 17(9)",
    checkpoint_mode="sync",
)
row(
    "checkpoint_stall_time",
    "snapshot_time",
    ("the snapshot; what follows runs behind training and bounds the interval, not the stall"),
    source="Mohan et al. 2021, CheckFreq, FAST",
    checkpoint_mode=("async", "in_memory"),
)
row(
    "checkpoint_flush_time",
    "checkpoint_write_time",
    "the write to storage",
    source="Mohan et al. 2021, CheckFreq, FAST",
    checkpoint_mode=("sync", "async"),
)
row(
    "checkpoint_flush_time",
    "peer_copy_time",
    "the copy to a peer's memory",
    source="Wang et al. 2023, Gemini, SOSP",
    checkpoint_mode="in_memory",
)
row(
    "minimum_checkpoint_interval",
    0.0,
    summary="Shortest time between checkpoints.",
    returns="[s] shortest interval",
    checkpoint_mode="sync",
)
row(
    "minimum_checkpoint_interval",
    "checkpoint_flush_time",
    "the flush of the one before",
    source="Mohan et al. 2021, CheckFreq, FAST",
    checkpoint_mode=("async", "in_memory"),
)


@alternative("young_interval", checkpoint_mode=("sync", "async", "in_memory"))
@same_as(young)
def young_interval(checkpoint_stall_time, cluster_mtbf):
    """First-order optimal time between checkpoints.

    sqrt(2 d M)

    Returns: [s] interval
    Range: d well below M: goodput loss relative to `exact_interval` is 0.0001 at d = M / 200, 0.02
        at M / 3, 0.29 at 2 M
    Source: Young 1974, CACM 17(9)
    """


@alternative("daly_interval", checkpoint_mode=("sync", "async", "in_memory"))
@same_as(daly)
def daly_interval(checkpoint_stall_time, cluster_mtbf):
    """Higher-order optimal time between checkpoints.

    sqrt(2 d M) [1 + sqrt(d / 2M) / 3 + d / (18 M)] - d for d < 2 M, else M

    Returns: [s] interval
    Range: all d: relative goodput loss against `exact_interval` is at most 0.002, at d = 2 M, where
        the interval jumps by an eighth
    Source: Daly 2006, FGCS 22(3), eq. 37
    """


@alternative("exact_interval", checkpoint_mode=("sync", "async", "in_memory"))
@same_as(exact)
def exact_interval(checkpoint_stall_time, cluster_mtbf):
    """Time between checkpoints that minimises the expected wall time exactly.

    M [1 + W0(-exp(-d/M - 1))]

    Returns: [s] interval
    Range: Poisson failures, all checkpoints readable; recovery and flush have no effect
    Source: Daly 2006, FGCS 22(3), eq. 20 set to zero
    """


@alternative("checkpoint_interval", checkpoint_policy="young")
def young_checkpoint_interval(young_interval, minimum_checkpoint_interval):
    """max(Young's interval, minimum interval)

    Source: Young 1974, CACM 17(9)
    """
    return np.maximum(young_interval, minimum_checkpoint_interval)


@alternative("checkpoint_interval", checkpoint_policy="daly")
def daly_checkpoint_interval(daly_interval, minimum_checkpoint_interval):
    """max(Daly's interval, minimum interval)

    Source: Daly 2006, FGCS 22(3), eq. 37
    """
    return np.maximum(daly_interval, minimum_checkpoint_interval)


@alternative("checkpoint_interval", checkpoint_policy="exact")
def exact_checkpoint_interval(exact_interval, minimum_checkpoint_interval):
    """Time between checkpoints used by the run.

    max(exact optimum, minimum interval)

    Returns: [s] interval in use
    Range: smooth, though a run writes after whole steps of s. Below s it writes after each, which
        costs (r + 1 / r - 2) tau / (2 M) of goodput where tau, s = r tau and the stall are far
        below M: 0.0015 for tau = 2.8 s, s = 6.06 s and M = 580 s; above s, at most 0.061 tau / M
    Source: Daly 2006, FGCS 22(3), eq. 20 set to zero
    """
    return np.maximum(exact_interval, minimum_checkpoint_interval)


row("checkpoint_interval", "fixed_checkpoint_interval", checkpoint_policy="fixed")
