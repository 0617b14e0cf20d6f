"""Failure rates, cluster MTBF, and cluster uptime with spares and repairs."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...laws.reliability import bathtub_factor, interruptions_per_failure, mean_time, power_law_mtbf
from ...laws.repair import missing_of_pool, settled_time, spare_left, whole_of_pool, whole_of_safe
from ...laws.statistics import erlang_carried, poisson_at_most, poisson_below, poisson_excess
from ...ops import where


def switches(n_gpus, gpus_per_switch):
    """Leaf switches that the job depends on.

    n / (GPUs behind one switch)

    Returns: [1] leaf switches
    Range: jobs that fill their switches; a smaller job fails more often, as it needs a whole switch
    Source: by definition
    """
    return n_gpus / gpus_per_switch


@alternative("parts_mttf", fleet_aging=False)
def parts_mttf(
    gpus_per_node,
    gpu_mttf,
    nics_per_node,
    nic_mttf,
    series_psus_per_node,
    psu_mttf,
    cables_per_node,
    cable_mttf,
    host_mttf,
    software_mttf,
    silent_corruption_mttf,
):
    """Mean time to failure (MTTF) of one node, which any failed component stops, from its parts.

    1 / sum(n_i / MTTF_i); the rate of silent corruptions is per GPU

    Returns: [s] mean time to failure of one node; infinite if no component fails
    Source: series system of exponential parts (Barlow & Proschan 1975, ch. 3)
    Example:
        >>> never = float("inf")
        >>> hours = parts_mttf(8, 5e4, 8, 1.5e5, 2, 1e5, 0, never, never, never, never)
        >>> round(float(hours), 1)
        4285.7
    """
    rate = gpus_per_node / gpu_mttf + nics_per_node / nic_mttf + series_psus_per_node / psu_mttf
    rate = rate + cables_per_node / cable_mttf + 1 / host_mttf
    return mean_time(rate + 1 / software_mttf + gpus_per_node / silent_corruption_mttf)


@alternative("parts_mttf", fleet_aging="on")
def aging_parts_mttf(
    gpus_per_node,
    gpu_mttf,
    nics_per_node,
    nic_mttf,
    series_psus_per_node,
    psu_mttf,
    cables_per_node,
    cable_mttf,
    host_mttf,
    software_mttf,
    silent_corruption_mttf,
    aging_factor,
):
    """1 / (a sum(n_i / MTTF_i) + software + silent corruptions): only hardware ages

    Range: all components have one age, even repaired ones (minimal repair); switches do not age
    """
    rate = gpus_per_node / gpu_mttf + nics_per_node / nic_mttf + series_psus_per_node / psu_mttf
    rate = aging_factor * (rate + cables_per_node / cable_mttf + 1 / host_mttf)
    return mean_time(rate + 1 / software_mttf + gpus_per_node / silent_corruption_mttf)


@alternative("node_mttf", all_causes=True, off="parts_mttf")
def measured_node_mttf(interruption_mttf, gpus_per_node):
    """Mean time to failure (MTTF) of one node.

    GPU hours between interruptions / GPUs of a node: all causes, as counted on a fleet

    Returns: [s] mean time to failure of one node
    Range: sizes near those measured. Waits for nodes, spares and repairs take each for a lost node
    Source: Grattafiori et al. 2024, arXiv:2407.21783, section 3.3.4 (419 interruptions of 16,384
        GPUs in 54 days)
    """
    return interruption_mttf / gpus_per_node


def slow_repair_time(repair_time, repair_spread):
    """Time within which 95 % of repairs are done, log-normal ones.

    mean e^(s (1.645 - s / 2)), s the spread

    Returns: [s] time
    Source: Kline 1984, Reliability Engineering 9(2)
    """
    return repair_time * np.exp(repair_spread * (1.6448536269514722 - repair_spread / 2))


@same_as(bathtub_factor)
def aging_factor(
    fleet_age, aging_window, burn_in_excess, burn_in_time, wear_out_age, wear_out_shape
):
    """Hardware failure rate at the fleet's age over the rate past burn-in and before wear-out.

    1 + b T (e^(-a/T) - e^(-(a + w)/T)) / w + ((a + w)^k - a^k) / (k w L^(k-1)): the mean over
    ages a to a + w of 1 + b e^(-a/T) + (a / L)^(k-1)

    Returns: [1] ratio of failure rates
    Range: the window is wall time, and goodput that of the mean rate: if the rate falls from 3 to
        1.1 within it, goodput is 0.0001 too low at losses of 0.08, 0.001 at 0.18, 0.003 at 0.28
    Source: Weibull 1951, J. Appl. Mech. 18, and Barlow & Proschan 1975, ch. 3 (bathtub)
    """


@alternative("node_failure_rate", mtbf_model="components")
def component_node_failure_rate(nodes, node_mttf):
    """Node failures of the job per unit of time.

    nodes / MTTF_node

    Returns: [1/s] node failures per second
    Source: superposition of independent renewals (Barlow & Proschan 1975, ch. 3)
    """
    return nodes / node_mttf


@alternative("node_failure_rate", mtbf_model="empirical")
def empirical_node_failure_rate(reference_mtbf, reference_gpus, n_gpus, mtbf_exponent):
    """(n / n_ref)^e / M_ref: one failed node per interruption

    Source: power-law reading of field data (Kokolis et al. 2025, HPCA, arXiv:2410.21680)
    """
    return 1 / power_law_mtbf(reference_mtbf, reference_gpus, n_gpus, mtbf_exponent)


@alternative("node_repair_rate", recovery_model="kinds", off="node_failure_rate")
def kinds_node_repair_rate(node_failure_rate, node_swap_share, requeue_share):
    """Nodes that leave the job for repair, per unit of time.

    node failure rate x (swap share + requeue share): restarts keep their nodes

    Returns: [1/s] nodes per second
    Source: thinning of a Poisson process (Feller 1968, An Introduction to Probability Theory)
    """
    return node_failure_rate * (node_swap_share + requeue_share)


@alternative("cluster_mtbf", mtbf_model="components")
def component_cluster_mtbf(
    node_failure_rate,
    correlated_failure_fraction,
    failure_domain_nodes,
    nodes,
    switches,
    switch_mttf,
    outage_rate,
):
    """Mean time between failures (MTBF) of the cluster.

    M = 1 / (nodes / MTTF_node x (1 - f (1 - 1/k)) + switches / MTTF_switch + outages)

    A share f of node failures hits k nodes (at most those of the job) at once, in one interruption.

    Returns: [s] mean time between failures of the cluster; infinite if nothing fails
    Range: a fleet past its first failures (see goodput for the error of a new one)
    Source: Fleet Foundations eq. 1; beta-factor of common-cause failures (Fleming 1975)
    Example:
        >>> never = float("inf")
        >>> round(float(component_cluster_mtbf(128 / 4285.714, 0, 4, 128, 32, never, 0)), 1)
        33.5
    """
    hit = np.minimum(failure_domain_nodes, np.maximum(nodes, 1.0))
    together = interruptions_per_failure(correlated_failure_fraction, hit)
    rate = node_failure_rate * together + switches / switch_mttf
    return mean_time(rate + outage_rate)


@alternative("cluster_mtbf", mtbf_model="empirical")
@same_as(power_law_mtbf)
def empirical_cluster_mtbf(reference_mtbf, reference_gpus, n_gpus, mtbf_exponent):
    """M = M_ref (n_ref / n)^e

    Returns: [s] mean time between failures of the cluster
    Range: sizes near those measured; failure assumptions of goodput
    Source: power-law reading of field data (Kokolis et al. 2025, HPCA, arXiv:2410.21680: 7.9 h
        measured at 1,024 GPUs, where 1/n from the rate per node gives 28.8 h)
    """


row(
    "spare_availability",
    0.0,
    summary="Probability that a failed node finds a hot spare.",
    returns="[1] probability",
    sparing=False,
)
row("spare_availability", "spare_left_probability", "that one is left", sparing="hot")


@alternative("spare_left_probability", repair_shop="unlimited")
def hot_spare_availability(spare_nodes, repair_time, node_repair_rate):
    """Probability that a failed node finds a hot spare.

    P(nodes in repair < spares), Poisson of mean repair time x failure rate for any repair times

    Returns: [1] probability
    Range: nodes fail one by one; if they fail in groups of 4 (correlated_failure_fraction), spares
        for all of them are missing up to 0.22 more often. Idle spares do not fail. Unused with
        node_pool = closed, where whole_cluster_probability gives the waits
    Source: Palm's theorem (Feeney & Sherbrooke 1966, Management Science 12(5))
    """
    return poisson_below(spare_nodes, repair_time * node_repair_rate)


@alternative("spare_left_probability", repair_shop="crews")
def crews_spare_left_probability(spare_nodes, repair_crews, repair_time, node_repair_rate):
    """P(nodes in repair < spares) in an M/M/c queue, c = repair crews

    Returns: [1] probability; 0 if crews cannot keep up
    Range: repair times are exponential; constant ones leave a spare more often, by up to 0.1. Nodes
        fail one by one; idle spares do not fail
    Source: Gross et al. 2008, Fundamentals of Queueing Theory, section 2.3 (M/M/c)
    """
    return spare_left(spare_nodes, repair_crews, repair_time * node_repair_rate)


row(
    "whole_cluster_probability",
    1.0,
    "nodes come from outside, and provision_time is the wait for one",
    summary=("Share of the time in which the job has all of its nodes, between waits for repairs."),
    returns="[1] share of the wall time",
    node_pool="open",
)
row("whole_cluster_probability", "whole_pool_probability", node_pool="closed")


@alternative("whole_pool_probability", repair_shop="unlimited")
def closed_whole_cluster_probability(spare_nodes, repair_time, node_repair_rate, nodes):
    """Share of the time in which the job has all of its nodes, between waits for repairs.

    P(N <= S), N of n + S nodes in repair, binomial, by a Poisson variable of mean (n + S / 2) r /
    (1 + r / 2), r = repair time over a node's lifetime, n at least 1: idle spares and waiting nodes
    fail at the rate of working ones

    Returns: [1] share of the wall time
    Range: any distribution of repair times and lifetimes; within 0.13 r^2 of the binomial share,
        and without spares within n r^3 / 12 of it relative to it. Nodes fail one by one: in groups
        of k (correlated_failure_fraction) the share is larger for few spares and smaller for many,
        by up to 0.21 for k = 4 and 10 nodes in repair.
        All of spare_nodes count, for any `sparing`
    Source: Palm's theorem (Feeney & Sherbrooke 1966, Management Science 12(5)); the mean of the
        Poisson variable: Wise 1950, Biometrika 37(3/4)
    """
    ratio = repair_time * node_repair_rate / nodes
    pool = np.maximum(nodes, 1.0) + spare_nodes / 2
    return poisson_at_most(spare_nodes, pool * ratio / (1 + ratio / 2))


@alternative("whole_pool_probability", repair_shop="crews")
def crews_whole_pool_probability(spare_nodes, repair_crews, repair_time, node_repair_rate, nodes):
    """P(N <= S), N nodes in repair: birth-death process of n + S nodes (n at least 1) and the crews

    Range: repair times are exponential; constant ones give up to 0.13 more (one crew, two spares).
        Within 0.18 r, r = repair time over a node's lifetime, up to 1; not usable beyond. Below
        1e-11 derivatives lose all digits. Nodes fail one by one
    Source: Gross et al. 2008, Fundamentals of Queueing Theory, section 2.8 (finite sources)
    """
    ratio = repair_time * node_repair_rate / nodes
    return whole_of_pool(spare_nodes, repair_crews, np.maximum(nodes, 1.0), ratio)


row("whole_cluster_probability", "whole_safe_pool_probability", node_pool="closed_idle_safe")


@alternative("whole_safe_pool_probability", repair_shop="unlimited")
def closed_idle_safe_whole_cluster_probability(spare_nodes, repair_time, node_repair_rate):
    """Share of the time in which the job has all of its nodes, between waits for repairs.

    1 - B(S + 1, rho), Erlang's loss, rho = repair time x failure rate: idle and waiting nodes do
    not fail

    Returns: [1] share of the wall time
    Range: any distribution of repair times and lifetimes; nodes fail one by one
    Source: Erlang 1917, Elektroteknikeren 13, and Sevastyanov 1957, Theory Probab. Appl. 2(1) (any
        distribution of repair times): S + 1 losses in repair stop the arrivals
    """
    return erlang_carried(spare_nodes + 1, repair_time * node_repair_rate)


@alternative("whole_safe_pool_probability", repair_shop="crews")
def crews_whole_safe_pool_probability(spare_nodes, repair_crews, repair_time, node_repair_rate):
    """1 - P(S + 1 nodes in repair) in an M/M/c/S+1 queue, c = repair crews

    Range: repair times are exponential; constant ones give up to 0.07 more; nodes fail one by one
    Source: Gross et al. 2008, Fundamentals of Queueing Theory, section 2.5 (M/M/c/K)
    """
    return whole_of_safe(spare_nodes, repair_crews, repair_time * node_repair_rate)


@alternative("cluster_uptime", elastic=False)
def rigid_cluster_uptime(whole_cluster_probability, latency_uptime_factor):
    """Share of the time in which the job is not waiting for a node in repair.

    share with a whole cluster x factor for waits hidden by undetected corruption

    Returns: [1] share of the wall time
    Source: by definition
    """
    return whole_cluster_probability * latency_uptime_factor


row(
    "cluster_uptime",
    1.0,
    "the job continues with fewer replicas, which elastic_capacity counts",
    elastic="shrink",
)
row("latency_uptime_factor", 1.0, corruption_detection="at_once")


@alternative("latency_uptime_factor", corruption_detection="late")
def late_latency_uptime_factor(
    corruption_latency, silent_corruption_mttf, n_gpus, hidden_wait_time
):
    """Time not spent waiting for repairs over time with a whole cluster.

    (1 + D n / MTTF) / (1 + (D - H) n / MTTF): within a corruption's latency D the cluster is not
    whole for a time H, while the job runs on in vain

    Returns: [1] factor
    Source: renewal of exponential lifetimes (Barlow & Proschan 1975, ch. 3): a time W with W n /
        MTTF corruptions takes T, in which the cluster is whole for u T = W + (D - H) W n / MTTF
    """
    rate = n_gpus / silent_corruption_mttf
    whole = corruption_latency - hidden_wait_time
    return (1 + corruption_latency * rate) / (1 + whole * rate)


row("hidden_wait_time", 0.0, "nodes come from outside", node_pool="open")


@alternative("hidden_wait_time", node_pool="closed")
def pool_hidden_wait_time(
    whole_cluster_probability, corruption_latency, spare_nodes, repair_time, node_repair_rate, nodes
):
    """Time within a corruption's latency in which the cluster is not whole, yet the job runs on.

    (1 - u) K: of the latency, K is left once the pool has forgotten that it was whole at the start;
    in K it is not whole for the share 1 - u

    Returns: [s] time
    Range: constant latencies and repair times, corruptions few among the failures: goodput is
        within 0.004 for 95 of 100 scenarios (docs/simulated.md), 0.009 for all. With repair_crews,
        K is that of unlimited repair, which forgets sooner: 0.04
    Source: Palm's theorem (Feeney & Sherbrooke 1966, Management Science 12(5)); M/G/infinity
    """
    ratio = repair_time * node_repair_rate / nodes
    load = (np.maximum(nodes, 1.0) + spare_nodes) * ratio / (1 + ratio)
    return (1 - whole_cluster_probability) * settled_time(
        corruption_latency, spare_nodes, repair_time, load
    )


@alternative("hidden_wait_time", node_pool="closed_idle_safe")
def safe_pool_hidden_wait_time(
    whole_cluster_probability, corruption_latency, spare_nodes, repair_time, node_repair_rate
):
    """(1 - u) K, less the longer wait after it: nodes fail within the latency, not while waiting

    Returns: [s] time, for a pool that is whole for the share u within the latency, too
    Range: same as node_pool = closed
    Source: Erlang 1917, Elektroteknikeren 13; Palm's theorem (Feeney & Sherbrooke 1966, Management
        Science 12(5)): the nodes in repair go over from the first's to the second's, as a mixture
    """
    load = repair_time * node_repair_rate
    return (1 - whole_cluster_probability) * settled_time(
        corruption_latency, spare_nodes, repair_time, load
    )


row(
    "missing_nodes",
    "nodes_in_repair",
    summary="Nodes that the job lacks while others are repaired, on average.",
    returns="[1] nodes in repair",
    sparing=False,
)
row("missing_nodes", "nodes_beyond_spares", "those in repair beyond the spares", sparing="hot")


@alternative("nodes_in_repair", repair_shop="unlimited")
def unspared_missing_nodes(repair_time, node_repair_rate):
    """Mean number of nodes that the job lacks because they are in repair.

    repair time x rate of nodes sent to repair

    Returns: [1] nodes in repair
    Range: repair times much shorter than a node's lifetime L: at most n / (1 + L / repair time)
    Source: Little's law (Little 1961, Operations Research 9(3))
    """
    return repair_time * node_repair_rate


@alternative("nodes_in_repair", repair_shop="crews")
def crews_nodes_in_repair(repair_crews, repair_time, node_repair_rate, nodes):
    """E[N], N nodes in repair: birth-death process of n nodes (n at least 1) and the crews

    Range: repair times are exponential; within 0.17 r n, r = repair time over a node's lifetime
    Source: Gross et al. 2008, Fundamentals of Queueing Theory, section 2.8 (finite sources)
    """
    ratio = repair_time * node_repair_rate / nodes
    return missing_of_pool(0.0, repair_crews, np.maximum(nodes, 1.0), ratio)


@alternative("nodes_beyond_spares", repair_shop="unlimited")
def hot_spare_missing_nodes(spare_nodes, repair_time, node_repair_rate):
    """Mean number of nodes that the job lacks because they are in repair.

    E[max(0, nodes in repair - spares)], nodes in repair being Poisson

    Returns: [1] nodes in repair beyond the spares
    Source: Palm's theorem (Feeney & Sherbrooke 1966, Management Science 12(5))
    """
    return poisson_excess(spare_nodes, repair_time * node_repair_rate)


@alternative("nodes_beyond_spares", repair_shop="crews")
def crews_nodes_beyond_spares(spare_nodes, repair_crews, repair_time, node_repair_rate, nodes):
    """E[max(0, N - S)], N nodes in repair: birth-death process of n + S nodes and the crews

    Range: exponential repair times; spares fail at the rate of working nodes; within 0.17 r n
    Source: Gross et al. 2008, Fundamentals of Queueing Theory, section 2.8 (finite sources)
    """
    ratio = repair_time * node_repair_rate / nodes
    return missing_of_pool(spare_nodes, repair_crews, np.maximum(nodes, 1.0), ratio)


def node_swap_share(in_process_share, in_job_share, requeue_share):
    """Share of failures recovered by a node swap, with a spare or after a wait for a node.

    1 - in-process restarts - in-job restarts - requeues

    Returns: [1] share; NaN if the others exceed 1
    Source: by definition
    """
    others = in_process_share + in_job_share + requeue_share
    return where(others <= 1 + 1e-9, np.maximum(1 - others, 0.0), np.nan)
