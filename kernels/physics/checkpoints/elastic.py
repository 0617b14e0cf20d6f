"""Jobs that go on with fewer replicas until nodes are repaired, and what it takes to grow again."""

import numpy as np

from ...alternatives import alternative, row
from ...ops import where


def node_return_rate(node_repair_rate, spare_availability):
    """Repaired nodes that an elastic job takes back because it lacks some, per unit of time.

    rate of repaired nodes x (1 - P(spare left)): a node that comes back leaves as many in repair
    behind as one that fails finds there

    Returns: [1/s] nodes per second
    Source: Palm's theorem (Feeney & Sherbrooke 1966, Management Science 12(5))
    """
    return node_repair_rate * (1 - spare_availability)


@alternative("waiting_nodes", elastic_growth="next_failure")
def late_waiting_nodes(node_return_rate, cluster_mtbf):
    """Nodes that are whole and wait to be taken back, on average, while the job lacks some.

    rate of returning nodes x M: until the next failure

    Returns: [1] nodes
    Source: Little's law (Little 1961, Operations Research 9(3))
    """
    return where(cluster_mtbf < np.inf, node_return_rate * cluster_mtbf, 0.0)


row(
    "waiting_nodes",
    0.0,
    "they are taken back at once",
    elastic_growth=("free", "stop", "restart"),
)


def absent_nodes(missing_nodes, waiting_nodes, nodes):
    """Nodes that an elastic job lacks, on average.

    (in repair beyond the spares + waiting) / (1 + in repair / N): those that are absent do not fail

    Returns: [1] nodes
    Range: exact without spares; with them up to 4 % more for a tenth of the nodes absent
    Source: renewal of exponential lifetimes (Barlow & Proschan 1975, ch. 3): r / (1 + r) of the
        nodes are in repair, r = repair over lifetime
    """
    away = np.minimum(missing_nodes, 1e15)
    return (away + waiting_nodes) / (1 + away / nodes)


@alternative("none_in_repair_share", sparing=False)
def unspared_none_in_repair_share(missing_nodes):
    """Share of the time in which no node is in repair beyond the spares.

    e^-missing: their number is Poisson

    Returns: [1] share of the wall time
    Source: Palm's theorem (Feeney & Sherbrooke 1966, Management Science 12(5))
    """
    return np.exp(-np.minimum(missing_nodes, 500.0))  # beyond, slopes leave floating point


row("none_in_repair_share", "whole_pool_probability", sparing="hot")


def whole_job_share(none_in_repair_share, spare_availability, waiting_nodes):
    """Share of the time in which an elastic job has all of its nodes.

    P(N <= S) - w P(N = S) / P(N >= S), at least 0: of N nodes in repair and S spares, the last node
    that came back, w of the time in which no spare is left, waits for the next failure

    Returns: [1] share of the wall time
    Source: Palm's theorem (Feeney & Sherbrooke 1966, Management Science 12(5))
    """
    full = np.maximum(none_in_repair_share - spare_availability, 0.0)
    waiting = waiting_nodes * full / np.maximum(1 - spare_availability, 1e-12)
    return np.maximum(none_in_repair_share - waiting, 0.0)


def _nodes_of_replica(gpus_per_node, tensor_parallel, pipeline_parallel, context_parallel):
    """Nodes that a replica needs, at least 1."""
    gpus = tensor_parallel * pipeline_parallel * context_parallel
    return np.maximum(gpus / gpus_per_node, 1.0)


@alternative("running_replica_share", elastic_packing=False)
def fixed_running_replica_share(
    absent_nodes, nodes, gpus_per_node, tensor_parallel, pipeline_parallel, context_parallel
):
    """Mean share of replicas that run.

    (1 - a / N)^r of N nodes, r of them to a replica (at least 1): a replica lacking one stops

    Returns: [1] running replicas over all
    Range: nodes are absent independently of each other; where they fail in groups of 4, a job of
        replicas of 8 nodes is faster, by up to 0.04
    Source: series system of independent parts (Barlow & Proschan 1975, ch. 2)
    """
    needed = _nodes_of_replica(gpus_per_node, tensor_parallel, pipeline_parallel, context_parallel)
    away = np.minimum(absent_nodes / nodes, 1.0)
    missing = where(away < 1, away, 0.0)
    return where(away < 1, np.exp(needed * np.log1p(-missing)), 0.0)


@alternative("running_replica_share", elastic_packing=True)
def packed_running_replica_share(
    absent_nodes,
    whole_job_share,
    nodes,
    gpus_per_node,
    tensor_parallel,
    pipeline_parallel,
    context_parallel,
):
    """1 - (a + (r - 1) (1 - P_whole)) / N: nodes of broken replicas form others, the last with gaps

    Range: a lower bound, by at most half a replica where several nodes are absent
    Source: Jang et al. 2023 (Oobleck), arXiv:2309.08125, section 4; Athlur et al. 2022 (Varuna),
        arXiv:2111.04007, section 4 (pipelines are formed anew from the nodes that are there)
    """
    needed = _nodes_of_replica(gpus_per_node, tensor_parallel, pipeline_parallel, context_parallel)
    gaps = (needed - 1) * (1 - whole_job_share)
    return 1 - np.minimum((absent_nodes + gaps) / nodes, 1.0)


row(
    "growth_stop_time",
    0.0,
    "a node joins while the replicas run, or at the next failure",
    summary="Time that the job loses whenever a repaired node is taken back.",
    returns="[s] stop",
    source="TorchFT, torchft/manager.py (state comes from a peer)",
    elastic_growth=("free", "next_failure"),
)


@alternative("growth_stop_time", elastic_growth="stop")
def saved_growth_stop_time(checkpoint_write_time, drain_time, checkpoint_restore_time, reinit_time):
    """save + drain + restore + start

    Source: by definition
    """
    return checkpoint_write_time + drain_time + checkpoint_restore_time + reinit_time


@alternative("growth_stop_time", elastic_growth="restart")
def unsaved_growth_stop_time(checkpoint_interval, drain_time, checkpoint_restore_time, reinit_time):
    """interval / 2 + drain + restore + start: nothing is saved, and the work since is done again

    Source: PyTorch elastic, torch/distributed/elastic/agent/server/api.py (a node waits: restart)
    """
    return checkpoint_interval / 2 + drain_time + checkpoint_restore_time + reinit_time


row("elastic_capacity", 1.0, "the job waits until it is whole again", elastic=False)


@alternative("elastic_capacity", elastic="shrink")
def shrinking_elastic_capacity(
    running_replica_share, whole_job_share, num_microbatches, growth_stop_time, node_return_rate
):
    """Mean speed of the job over that of the whole one, batch fixed.

    (P + (1 - P) m / ceil(m / c)) (1 - growth stop x rate of returning nodes): with a share c of
    replicas while not whole, each runs more micro-batches, in whole numbers

    Returns: [1] speed over speed
    Range: c and the rounds are means: where nodes come back to their replicas within 0.01 of jobs
        played from 64 rounds on, 0.03 with 16. Replicas of k nodes that are filled one after the
        other are faster, by up to 0.02, 0.08, 0.14 and 0.24 where k x repair over lifetime is 0.03,
        0.1, 0.16 and 0.3; stops do not overlap
    Source: by definition
    """
    partial = np.maximum(1 - whole_job_share, 1e-12)
    share = 1 - np.minimum((1 - running_replica_share) / partial, 1.0)
    some = share > 0
    rounds = np.ceil(num_microbatches / where(some, share, 1.0) * (1 - 1e-9))
    fewer = where(some, num_microbatches / rounds, 0.0)
    grows = node_return_rate > 0  # without failures, checkpoints are infinitely far apart
    stopped = np.minimum(where(grows, growth_stop_time, 0.0) * node_return_rate, 1.0)
    return (whole_job_share + (1 - whole_job_share) * fewer) * (1 - stopped)


@alternative("steady_availability", multi_site=False)
def one_site_availability(maintenance_fraction, elastic_capacity):
    """Share of the wall time in which the cluster is available to the job, once it has started.

    (1 - maintenance) x speed with fewer replicas

    Returns: [1] share of the wall time, weighted by speed
    Source: by definition
    """
    return (1 - maintenance_fraction) * elastic_capacity
