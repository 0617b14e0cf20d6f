"""Slow nodes (stragglers): their number, detection and cost."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...laws.statistics import expected_maximum, expected_maximum_gumbel
from ...laws.stragglers import (
    later_than_jitter,
    longest_between_checks,
    longest_of_some,
    no_slow_node,
    share_slow,
    share_slow_between_checks,
    slowest_of_some_exponential,
    slowest_of_some_slow,
)
from ...ops import where

COUNTED = ("share", "detected", "checked")  # choices of slow_nodes that have slow nodes


row("slow_node_fraction", 0.0, slow_nodes=False)
row("slow_node_fraction", "slow_node_share", slow_nodes="share")


@alternative("slow_node_fraction", slow_nodes="detected")
@same_as(share_slow)
def detected_slow_node_fraction(slow_node_mttf, slow_node_detection_time):
    """Share of nodes that are slow, each until it is detected and replaced.

    T / (M + T): steady state of nodes that turn slow at a rate 1 / M and are replaced after T

    Returns: [1] share; 1 if slow nodes are never detected
    Range: an upper bound for jobs that start with healthy nodes and are not much longer than T
    """


@alternative("slow_node_fraction", slow_nodes="checked")
@same_as(share_slow_between_checks)
def checked_slow_node_fraction(slow_node_mttf, slow_node_check_interval):
    """Share of nodes that are slow, where regular checks replace slow nodes.

    1 - (1 - e^-x) / x, x = interval / M

    Returns: [1] share, mean over an interval
    Source: Barlow & Proschan 1975, Statistical Theory of Reliability, chapter 7
    """


def awaited_nodes(nodes):
    """Nodes that a step waits for: all nodes of the job, at least one.

    max(nodes, 1)

    Returns: [1] nodes
    Source: by definition
    """
    return np.maximum(nodes, 1.0)


@alternative("no_slow_node_probability", slow_nodes=(False, "share", "detected"))
@same_as(no_slow_node)
def independent_no_slow_node_probability(slow_node_fraction, awaited_nodes):
    """Probability that no node of the job is slow.

    (1 - p)^N

    Returns: [1] probability
    Source: Dean & Barroso 2013, CACM 56(2)
    """


@alternative("no_slow_node_probability", slow_nodes="checked")
def checked_no_slow_node_probability(slow_node_mttf, awaited_nodes, slow_node_check_interval):
    """Probability that no node of the job is slow, where regular checks replace slow nodes.

    (1 - e^-a) / a, a = N c / M: slow nodes accumulate until a check replaces all of them

    Returns: [1] probability, mean over an interval
    Source: Barlow & Proschan 1975, Statistical Theory of Reliability, chapter 7 (inspections)
    """
    first = slow_node_mttf / awaited_nodes
    return 1 - share_slow_between_checks(first, slow_node_check_interval)


@alternative("slow_ranks", slow_node_tail="fixed")
def ranks_of_slow_nodes(slow_node_fraction, no_slow_node_probability, awaited_nodes, n_gpus):
    """Mean number of ranks on slow nodes, given that there are any.

    n p / (1 - P), P = probability of none: (1 - p)^N if independent

    Returns: [1] ranks
    Source: by definition (mean of a binomial count that is not 0)
    """
    some = 1 - no_slow_node_probability
    share = where(some > 0, slow_node_fraction / where(some > 0, some, 1.0), 1 / awaited_nodes)
    return n_gpus * share


@alternative("slow_ranks", slow_node_tail="exponential")
def ranks_of_slowest_node(n_gpus, awaited_nodes):
    """n / N: ranks of the slowest node, well behind all others

    Source: by definition
    """
    return n_gpus / awaited_nodes


@alternative("slow_rank_deviation", jitter_model="normal", off=0.0)
def normal_slow_rank_deviation(slow_ranks):
    """Standard deviations of the slowest rank on slow nodes above their mean, normal jitter.

    expected maximum over their ranks

    Source: Blom 1958 (expected order statistics)
    """
    return expected_maximum(slow_ranks, slow_ranks, 0.0)


@alternative("slow_rank_deviation", jitter_model="gumbel")
def gumbel_slow_rank_deviation(slow_ranks):
    """Standard deviations of the slowest rank on slow nodes above their mean: Gumbel jitter.

    expected maximum over their ranks

    Returns: [1] deviations
    Source: Gumbel 1958, Statistics of Extremes
    """
    return expected_maximum_gumbel(slow_ranks, slow_ranks, 0.0)


@alternative("slow_node_wait", slow_node_tail="fixed")
@same_as(slowest_of_some_slow)
def fixed_slow_node_wait(
    slow_node_fraction,
    no_slow_node_probability,
    slow_node_slowdown,
    step_time_jitter,
    slowest_rank_deviation,
    slow_rank_deviation,
):
    """Expected extra compute time of the slowest rank over the mean healthy rank, equal slowdowns.

    s (1 - P) without jitter, P = probability of no slow node; with jitter, the maximum of the
    slowest healthy and slow ranks

    Returns: [1] share of the compute time
    Range: nodes slow independently, or until the next check; within 0.2 jitters of simulation, and
        0.25 between checks; an upper bound with backup workers, which may replace slow nodes
    Source: Gumbel 1958, Statistics of Extremes; Dean & Barroso 2013, CACM 56(2)
    """


@same_as(later_than_jitter)
def late_slow_node_probability(
    slow_node_slowdown, step_time_jitter, slowest_rank_deviation, slow_rank_deviation
):
    """Probability that a slow node, of exponential slowdown, lags the slowest healthy rank.

    e^-x, x = jitter (e_all - e_node) / s, at least 0

    Returns: [1] probability; 1 without jitter
    Range: a node's ranks are taken at their expected maximum, which makes the wait a lower bound
    Source: Renyi 1953, Acta Math. Hung. 4 (exponential variables have no memory)
    """


@alternative("longest_slowdown", slow_nodes=(False, "share", "detected"))
def longest_slowdown_of_some(slow_node_fraction, late_slow_node_probability, awaited_nodes):
    """Expected largest exponential slowdown, in units of the mean and beyond jitter.

    sum over j to N of (1 - (1 - k p)^j) / j, k = probability that it is beyond jitter

    Returns: [1] in mean slowdowns
    Range: nodes slow independently
    Source: Renyi 1953, Acta Math. Hung. 4
    """
    return longest_of_some(slow_node_fraction * late_slow_node_probability, awaited_nodes)


@alternative("longest_slowdown", slow_nodes="checked")
@same_as(longest_between_checks)
def longest_slowdown_between_checks(
    late_slow_node_probability, awaited_nodes, slow_node_mttf, slow_node_check_interval
):
    """formula for independent nodes at the share of each time since a check, mean over an interval

    Range: within 2e-6 relative for 1e5 nodes
    Source: Renyi 1953, Acta Math. Hung. 4; Barlow & Proschan 1975, chapter 7 (inspections)
    """


@alternative("slow_node_wait", slow_node_tail="exponential")
@same_as(slowest_of_some_exponential)
def exponential_slow_node_wait(
    longest_slowdown, slow_node_slowdown, step_time_jitter, slowest_rank_deviation
):
    """Expected extra compute time of the slowest rank over the mean healthy rank, exponential tail.

    jitter x deviations + s x largest slowdown beyond jitter, in means

    Range: exact without jitter; with it a lower bound, within 0.35 jitters for shares up to 0.05;
        ignores that backup workers may replace slow nodes
    Source: Renyi 1953, Acta Math. Hung. 4
    """


@alternative("slowest_rank_slowdown", slow_nodes=False)
def slowest_rank_slowdown(straggler_slowdown, step_time_jitter, slowest_rank_deviation):
    """Extra compute time of the slowest awaited rank, relative to the mean rank.

    slowdown + jitter x deviations

    Returns: [1] share of the compute time
    Source: Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 5 (steps at the slowest rank)
    """
    return straggler_slowdown + step_time_jitter * slowest_rank_deviation


@alternative("slowest_rank_slowdown", slow_nodes=COUNTED)
def slowest_rank_slowdown_of_some(straggler_slowdown, slow_node_wait):
    """Extra compute time of the slowest awaited rank, relative to the mean healthy rank.

    slowdown of every step + expected wait for slow nodes and jitter

    Range: an upper bound for pipelines, whose first and last passes do not all wait
    Source: Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 6.3 (stragglers)
    """
    return straggler_slowdown + slow_node_wait


row("slow_node_stops", 0.0, slow_nodes=(False, "share"))


@alternative("slow_node_stops", slow_nodes="detected")
def detected_slow_node_stops(
    slow_node_swap_time, slow_node_fraction, awaited_nodes, slow_node_mttf
):
    """Time of stops to replace slow nodes, over time of steps.

    R N (1 - p) / M: each node that becomes slow stops the job once

    Returns: [1] stops over steps
    Source: Barlow & Proschan 1975, Statistical Theory of Reliability, chapter 7 (rate of failures
        in the steady state)
    """
    return slow_node_swap_time * awaited_nodes * (1 - slow_node_fraction) / slow_node_mttf


@alternative("slow_node_stops", slow_nodes="checked")
def checked_slow_node_stops(
    slow_node_check_time,
    slow_node_swap_time,
    awaited_nodes,
    slow_node_mttf,
    slow_node_check_interval,
):
    """Time of stops to check nodes and replace slow ones, over time of steps.

    (K + R (1 - e^(-N c / M))) / c: every check, plus one swap of all nodes that it finds slow

    Returns: [1] stops over steps; 0 without checks
    Source: Barlow & Proschan 1975, Statistical Theory of Reliability, chapter 7 (inspections)
    """
    unchecked = slow_node_check_interval == np.inf
    interval = where(unchecked, 1.0, slow_node_check_interval)
    slow_share = -np.expm1(-awaited_nodes * (interval / slow_node_mttf))
    stop = slow_node_check_time + slow_node_swap_time * slow_share
    return where(unchecked, 0.0, stop / interval)


def best_slow_node_check_interval(
    slow_node_check_time, slow_node_mttf, awaited_nodes, slow_node_slowdown
):
    """Optimal interval between checks for slow nodes, trading checks against slow steps.

    sqrt(2 K M / (N s)): checks cost K / c, slow nodes s N c / (2 M)

    Returns: [s] training time between checks; infinite if no node is slow
    Range: compute-only steps and rare slow nodes, N c / M far below 1; a lower bound elsewhere
    Source: Young 1974, CACM 17(9), with slow steps for lost work
    """
    never = (slow_node_slowdown <= 0) | (slow_node_mttf == np.inf)
    turns = awaited_nodes / where(never, 1.0, slow_node_mttf)
    cost = turns * where(never, 1.0, slow_node_slowdown)
    return where(never, np.inf, np.sqrt(2 * slow_node_check_time / cost))
