"""Nodes that are slow for a while: how many, found when, at what cost."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...ops import where
from ...statistics import expected_maximum, expected_maximum_gumbel
from ...stragglers import (
    later_than_jitter,
    longest_between_checks,
    longest_of_some,
    no_slow_node,
    share_slow,
    share_slow_between_checks,
    slowest_of_some_exponential,
    slowest_of_some_slow,
)

COUNTED = ("share", "detected", "checked")  # choices of slow_nodes by which there are some


row("slow_node_fraction", 0.0, slow_nodes=False)
row("slow_node_fraction", "slow_node_share", slow_nodes="share")


@alternative("slow_node_fraction", slow_nodes="detected")
@same_as(share_slow)
def detected_slow_node_fraction(slow_node_mttf, slow_node_detection_time):
    """Share of the nodes that are slow at a time, each until it is found and replaced.

    T / (M + T): in the steady state, (rate of becoming slow) x T of the sound ones

    Returns: [1] share; 1 where slow nodes are never found
    Range: a bound from above for jobs that begin with sound nodes and are not much longer than T
    """


@alternative("slow_node_fraction", slow_nodes="checked")
@same_as(share_slow_between_checks)
def checked_slow_node_fraction(slow_node_mttf, slow_node_check_interval):
    """Share of the nodes that are slow at a time: regular checks replace those that are.

    1 - (1 - e^-x) / x, x = interval / M

    Returns: [1] share, the mean over an interval
    Source: Barlow & Proschan 1975, Statistical Theory of Reliability, chapter 7
    """


def awaited_nodes(nodes):
    """Nodes that a step waits for: all of the job, of which a small one takes a part of one.

    max(nodes, 1)

    Returns: [1] nodes
    Source: by definition
    """
    return np.maximum(nodes, 1.0)


@alternative("no_slow_node_probability", slow_nodes=(False, "share", "detected"))
@same_as(no_slow_node)
def independent_no_slow_node_probability(slow_node_fraction, awaited_nodes):
    """Chance that none of the job's nodes is slow at a time.

    (1 - p)^N

    Returns: [1] probability
    Source: Dean & Barroso 2013, CACM 56(2)
    """


@alternative("no_slow_node_probability", slow_nodes="checked")
def checked_no_slow_node_probability(slow_node_mttf, awaited_nodes, slow_node_check_interval):
    """Chance that none of the job's nodes is slow at a time, where regular checks replace them.

    (1 - e^-a) / a, a = N c / M: slow nodes gather after a check, which replaces all

    Returns: [1] probability, the mean over an interval
    Source: Barlow & Proschan 1975, Statistical Theory of Reliability, chapter 7 (inspections)
    """
    first = slow_node_mttf / awaited_nodes
    return 1 - share_slow_between_checks(first, slow_node_check_interval)


def slow_nodes_at_a_time(slow_node_fraction, nodes):
    """Nodes of the job that are slow at a time, the mean.

    p N

    Returns: [1] nodes
    Source: by definition
    """
    return slow_node_fraction * nodes


@alternative("slow_ranks", slow_node_tail="fixed")
def ranks_of_slow_nodes(slow_node_fraction, no_slow_node_probability, awaited_nodes, n_gpus):
    """Ranks that may be the slowest of the slow: those of all slow nodes, where there are any.

    n p / (1 - P), P that none is: (1 - p)^N where they are independent

    Returns: [1] ranks
    Source: by definition (mean of a binomial count that is not 0)
    """
    some = 1 - no_slow_node_probability
    share = where(some > 0, slow_node_fraction / where(some > 0, some, 1.0), 1 / awaited_nodes)
    return n_gpus * share


@alternative("slow_ranks", slow_node_tail="exponential")
def ranks_of_slowest_node(n_gpus, awaited_nodes):
    """n / N: those of the slowest node, others far behind

    Source: by definition
    """
    return n_gpus / awaited_nodes


@alternative("slow_rank_deviation", jitter_model="normal", off=0.0)
def normal_slow_rank_deviation(slow_ranks):
    """How many standard deviations the slowest rank of slow nodes lies above their mean, normal.

    the largest of their ranks

    Source: Blom 1958 (expected order statistics)
    """
    return expected_maximum(slow_ranks, slow_ranks, 0.0)


@alternative("slow_rank_deviation", jitter_model="gumbel")
def gumbel_slow_rank_deviation(slow_ranks):
    """How many standard deviations the slowest rank of slow nodes lies above their mean: Gumbel.

    the largest of their ranks

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
    """Expected extra compute time of the slowest rank over the mean sound one's, slow nodes alike.

    s (1 - P) without jitter, P that none is slow; with it, the larger of the slowest sound and
    slow ranks

    Returns: [1] share of the compute time
    Range: nodes slow independently, or until the next check; within 0.2 jitters of draws, and 0.25
        between checks; a bound from above with backup workers, which may be slow nodes, too
    Source: Gumbel 1958, Statistics of Extremes; Dean & Barroso 2013, CACM 56(2)
    """


@same_as(later_than_jitter)
def late_slow_node_probability(
    slow_node_slowdown, step_time_jitter, slowest_rank_deviation, slow_rank_deviation
):
    """Chance that a slow node, of an exponential tail, is later than the slowest sound rank.

    e^-x, x = jitter (e_all - e_node) / s, at least 0

    Returns: [1] probability; 1 without jitter
    Range: the node's ranks are taken at their expected largest, which bounds the wait from below
    Source: Renyi 1953, Acta Math. Hung. 4 (exponential variables have no memory)
    """


@alternative("longest_slowdown", slow_nodes=(False, "share", "detected"))
def longest_slowdown_of_some(slow_node_fraction, late_slow_node_probability, awaited_nodes):
    """Expected largest slowdown of an exponential tail, over the mean one and beyond jitter.

    sum over j to N of (1 - (1 - k p)^j) / j, k the chance that it is beyond jitter

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
    """that of independent nodes at the share of each time since a check, the mean over an interval

    Range: within 2e-6 relative for 1e5 nodes
    Source: Renyi 1953, Acta Math. Hung. 4; Barlow & Proschan 1975, chapter 7 (inspections)
    """


@alternative("slow_node_wait", slow_node_tail="exponential")
@same_as(slowest_of_some_exponential)
def exponential_slow_node_wait(
    longest_slowdown, slow_node_slowdown, step_time_jitter, slowest_rank_deviation
):
    """Expected extra compute time of the slowest rank over the mean sound one's, a tail of them.

    jitter x deviations + s x the largest slowdown beyond jitter, in means

    Range: exact without jitter; a bound from below with it, within 0.35 jitters for shares up to
        0.05; not counted: backup workers, which may be slow nodes, too
    Source: Renyi 1953, Acta Math. Hung. 4
    """


@alternative("slowest_rank_slowdown", slow_nodes=False)
def slowest_rank_slowdown(straggler_slowdown, step_time_jitter, slowest_rank_deviation):
    """Extra compute time of the slowest awaited rank, over the mean rank's.

    slowdown + jitter x deviations

    Returns: [1] share of the compute time
    Source: Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 5 (steps at the slowest rank)
    """
    return straggler_slowdown + step_time_jitter * slowest_rank_deviation


@alternative("slowest_rank_slowdown", slow_nodes=COUNTED)
def slowest_rank_slowdown_of_some(straggler_slowdown, slow_node_wait):
    """Extra compute time of the slowest awaited rank, over the mean sound rank's.

    slowdown of every step + expected one by slow nodes and jitter

    Range: a bound from above in pipelines, whose first and last passes do not all wait
    Source: Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 6.3 (stragglers)
    """
    return straggler_slowdown + slow_node_wait


row("slow_node_stops", 0.0, slow_nodes=(False, "share"))


@alternative("slow_node_stops", slow_nodes="detected")
def detected_slow_node_stops(
    slow_node_swap_time, slow_node_fraction, awaited_nodes, slow_node_mttf
):
    """Time for which the job stops to replace slow nodes, over that of steps.

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
    """Time for which the job stops to check nodes and to replace slow ones, over that of steps.

    (K + R (1 - e^(-N c / M))) / c: every check, and one swap of all nodes it finds slow

    Returns: [1] stops over steps; 0 without checks
    Source: Barlow & Proschan 1975, Statistical Theory of Reliability, chapter 7 (inspections)
    """
    unchecked = slow_node_check_interval == np.inf
    interval = where(unchecked, 1.0, slow_node_check_interval)
    found = -np.expm1(-awaited_nodes * (interval / slow_node_mttf))
    stop = slow_node_check_time + slow_node_swap_time * found
    return where(unchecked, 0.0, stop / interval)


def best_slow_node_check_interval(
    slow_node_check_time, slow_node_mttf, awaited_nodes, slow_node_slowdown
):
    """Time between checks for slow nodes at which checks and slow steps together cost least.

    sqrt(2 K M / (N s)): checks cost K / c, slow nodes s N c / (2 M)

    Returns: [s] time of training between checks; infinite where nothing is slow
    Range: of steps that compute alone, and rare slow nodes: N c / M far below 1; a bound from below
        elsewhere
    Source: Young 1974, CACM 17(9), with slow steps for lost work
    """
    never = (slow_node_slowdown <= 0) | (slow_node_mttf == np.inf)
    turns = awaited_nodes / where(never, 1.0, slow_node_mttf)
    cost = turns * where(never, 1.0, slow_node_slowdown)
    return where(never, np.inf, np.sqrt(2 * slow_node_check_time / cost))
