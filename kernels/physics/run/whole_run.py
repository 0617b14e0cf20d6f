"""Job level: wall time, breakdown of losses, utilization."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...laws.checkpoint import ending_share
from ...laws.reliability import failure_probability as probability_of_failure
from ...laws.reliability import weibull_failure_probability as weibull
from ...ops import where


@alternative("working_time", multi_site=True, off="time_at_risk")
def several_site_working_time(time_at_risk, awaited_sites_uptime):
    """Part of a duration in which the job does not wait for a site.

    T x share in which all awaited sites are up

    Returns: [s] time, waits for node repairs included
    Range: long-run share
    Source: by definition
    """
    return time_at_risk * awaited_sites_uptime


row("slow_node_stop_time", 0.0, slow_nodes=(False, "share"))


@alternative("slow_node_stop_time", slow_nodes=("detected", "checked"))
def slow_node_stop_time(step_time, slow_node_stops):
    """Mean time per step for which the job stops to check nodes and replace slow ones.

    step time x u / (1 + u), u = time of stops over time of steps

    Returns: [s] time of one step
    Source: by definition
    """
    return step_time * (slow_node_stops / (1 + slow_node_stops))


def job_duration(job_time):
    """Default duration over which failures are counted: the whole job.

    T = job_time

    Returns: [s] duration
    Source: by definition
    """
    return 1.0 * job_time


def time_at_risk(job_duration, transition_wait, maintenance_fraction):
    """Part of a duration in which the job can fail: without transition and maintenance.

    (T - T_t) (1 - maintenance)

    Returns: [s] time, waits for repairs included
    Range: nothing fails during transition or maintenance
    Source: by definition
    """
    return np.maximum(job_duration - transition_wait, 0.0) * (1 - maintenance_fraction)


def expected_failures(working_time, cluster_uptime, cluster_mtbf):
    """Expected failures of the job over a duration.

    T u / M: no failures while the job waits for a repair

    Returns: [1] number of failures
    Range: long-run u; a short duration that starts with all nodes waits less. Elastic jobs fail as
        if all nodes ran: too often by the missing share
    Source: renewal of exponential lifetimes (Barlow & Proschan 1975, ch. 3)
    Example:
        >>> round(expected_failures(720, 1.0, 33.482), 1)
        21.5
    """
    return working_time * cluster_uptime / cluster_mtbf


def failed_nodes(working_time, cluster_uptime, node_failure_rate):
    """Expected node failures of the job over a duration; correlated failures count every node.

    T u x node failures per unit of time

    Returns: [1] number of node failures
    Range: spares, and nodes of a job that waits for a repair, are not counted. Elastic jobs fail as
        if all nodes ran: too often by the missing share
    Source: renewal of exponential lifetimes (Barlow & Proschan 1975, ch. 3)
    """
    return working_time * cluster_uptime * node_failure_rate


@alternative("failure_probability", failure_distribution="exponential")
@same_as(probability_of_failure)
def exponential_failure_probability(time_at_risk, cluster_mtbf):
    """Probability of at least one failure over a duration.

    1 - exp(-T / M)

    Returns: [1] probability
    Source: exponential lifetimes; Fleet Foundations table 6
    """


@alternative("failure_probability", failure_distribution="weibull")
@same_as(weibull)
def weibull_failure_probability(time_at_risk, cluster_mtbf, failure_shape):
    """1 - exp(-(T Gamma(1 + 1/k) / M)^k)

    Range: shapes of at least 0.01; times between failures of the whole job are Weibull. With many
        components they tend to exponential (Drenick 1960), which goodput assumes
    Source: Weibull 1951, J. Appl. Mech. 18; Schroeder & Gibson 2006, DSN; Drenick 1960
    """


@alternative("training_steps", multi_site=False)
def one_site_training_steps(tokens_to_target, tokens_per_step):
    """Optimizer steps of the run at its full batch size; a ramp adds `extra_ramp_steps`.

    D / (B s)

    Returns: [1] steps
    Source: by definition
    """
    return tokens_to_target / tokens_per_step


row("availability", "steady_availability", "as it is once the job has begun", transitions=False)


@alternative("availability", transitions="counted")
def availability_after_transition(
    steady_availability, transition_time, training_steps, mean_step_time, job_goodput
):
    """Share of the wall time in which the cluster is available to the job, transition counted.

    A U / (U + A T_t), U = steps x step time / goodput: the wall time is U / A + T_t

    Returns: [1] share of the wall time, weighted by running replicas
    Range: nothing fails during transition
    Source: by definition
    """
    up = training_steps * mean_step_time
    return steady_availability * up / (up + steady_availability * transition_time * job_goodput)


row(
    "transition_wait",
    0.0,
    summary="Time that GPUs wait for the job to be made ready.",
    returns="[s] time",
    transitions=False,
)
row("transition_wait", "transition_time", transitions="counted")


def transition_share(transition_wait, job_time):
    """Share of the wall time spent in transition, before the job starts.

    T_t / T

    Returns: [1] share
    Source: by definition
    """
    return transition_wait / job_time


row("job_goodput", "goodput", "that of a job that never ends", job_end=False)


@alternative("job_goodput", job_end=("saved", "unsaved"))
def ending_job_goodput(
    goodput,
    training_steps,
    mean_step_time,
    checkpoint_interval,
    checkpoint_stall_time,
    last_stall_time,
    cluster_mtbf,
):
    """Useful share of the wall time of the job from its start to its end.

    goodput of a long job x ending_share of W = steps x step time

    Returns: [1] useful time over wall time
    Range: exact where training waits for readable checkpoints; else lost_work_time is that of a
        long job. Long jobs differ by about d / W: with writes of 5 min and an MTBF of 54 h, by 0.1
        for half an hour of work, 0.03 for an hour, 0.002 for a day
    Source: Daly 2006, FGCS 22(3), eq. 13, of each segment
    """
    useful, stalls = training_steps * mean_step_time, (checkpoint_stall_time, last_stall_time)
    return goodput * ending_share(useful, checkpoint_interval, *stalls, cluster_mtbf)


row("last_stall_time", "checkpoint_stall_time", job_end=(False, "saved"))
row("last_stall_time", 0.0, summary="Last save.", returns="[s] stall", job_end="unsaved")


@alternative("mean_step_time", training_stages=False)
def mean_step_time(step_time):
    """Mean step time over the run.

    step time: all steps are alike

    Returns: [s] time
    Source: by definition
    """
    return 1.0 * step_time


def attempted_steps(training_steps, job_goodput, availability):
    """Steps that would fit into the wall time of the run without losses.

    steps / (goodput of the job x availability)

    Returns: [1] step times until the run is done
    Source: by definition
    """
    return training_steps / (job_goodput * availability)


@alternative("job_time", training_stages=False)
def job_time(attempted_steps, step_time):
    """Wall time of the run.

    steps x step time / (goodput x availability)

    Returns: [s] wall time
    Source: Daly 2006, FGCS 22(3), eq. 13 (solve time over goodput)
    """
    return attempted_steps * step_time


def step_rate(step_time):
    """Failure-free steps per unit of time.

    1 / step time

    Returns: [1/s] steps per second
    Source: by definition
    """
    return 1 / step_time


def useful_step_rate(goodput, step_rate):
    """Useful steps per unit of wall time, while the whole cluster is available.

    goodput x steps per second

    Returns: [1/s] useful steps per second of wall time
    Source: by definition
    """
    return goodput * step_rate


def useful_compute_share(ideal_compute_time, useful_step_rate):
    """Share of the wall time that the model's operations would take at peak: MFU x goodput.

    F / (n P) x useful steps per second

    Returns: [1] share of the wall time; with the overheads it adds up to 1
    Source: Fleet Foundations, compound loss of fleet utilization
    """
    return ideal_compute_time * useful_step_rate


@alternative("compute_inefficiency_overhead", shifted_step_time=False)
def compute_inefficiency_overhead(
    compute_time, optimizer_time, serial_time_per_step, ideal_compute_time, useful_step_rate
):
    """Share of the wall time lost because GPUs run below peak, recomputation included.

    (compute + optimizer + serial - ideal) x useful steps per second; ideal as per flops_counting

    Returns: [1] share of the wall time
    Range: too low, and may be negative, where flops_counting counts more than kernels do
    Source: by definition
    """
    spent = compute_time + optimizer_time + serial_time_per_step
    return (spent - ideal_compute_time) * useful_step_rate


@alternative("compute_inefficiency_overhead", shifted_step_time=True)
def compute_inefficiency_overhead_of_shifted(
    compute_time,
    optimizer_time,
    serial_time_per_step,
    ideal_compute_time,
    useful_step_rate,
    step_time_ratio,
):
    """(c f^e x (compute + optimizer + serial) - ideal) x useful steps per second: all but the ideal
    scale alike
    """
    spent = compute_time + optimizer_time + serial_time_per_step
    return (spent * step_time_ratio - ideal_compute_time) * useful_step_rate


def communication_overhead(communication_fraction, goodput):
    """Share of the wall time spent waiting for communication.

    exposed communication / step x goodput

    Returns: [1] share of the wall time
    Source: by definition
    """
    return communication_fraction * goodput


@alternative("bubble_overhead", shifted_step_time=False)
def bubble_overhead(bubble_time, useful_step_rate):
    """Share of the wall time that pipeline stages idle.

    bubble x useful steps per second

    Returns: [1] share of the wall time
    Source: by definition
    """
    return bubble_time * useful_step_rate


@alternative("bubble_overhead", shifted_step_time=True)
def bubble_overhead_of_shifted(bubble_time, useful_step_rate, step_time_ratio):
    """c f^e x bubble x useful steps per second: all parts scale alike"""
    return bubble_time * step_time_ratio * useful_step_rate


@alternative("straggler_overhead", shifted_step_time=False)
def straggler_overhead(straggler_time, slow_node_stop_time, useful_step_rate):
    """Share of the wall time spent waiting for the slowest rank and replacing slow nodes.

    (straggler wait + stops) x useful steps per second

    Returns: [1] share of the wall time
    Source: by definition
    """
    return (straggler_time + slow_node_stop_time) * useful_step_rate


@alternative("straggler_overhead", shifted_step_time=True)
def straggler_overhead_of_shifted(
    straggler_time, slow_node_stop_time, useful_step_rate, step_time_ratio
):
    """(c f^e x straggler wait + stops) x useful steps per second: stops are of the shifted step"""
    return (straggler_time * step_time_ratio + slow_node_stop_time) * useful_step_rate


def reliability_overhead(checkpoint_overhead, rework_overhead, recovery_overhead):
    """Share of the wall time lost to failures and checkpoints.

    checkpoint + rework + recovery = 1 - goodput

    Returns: [1] share of the wall time
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart
    """
    return checkpoint_overhead + rework_overhead + recovery_overhead


def reliability_to_useful_ratio(reliability_overhead, goodput):
    """Time lost to failures and checkpoints over useful time.

    reliability share / goodput

    Returns: [1] time lost over useful time
    Source: by definition
    """
    return reliability_overhead / goodput


def reliability_to_communication_ratio(reliability_to_useful_ratio, communication_fraction):
    """Reliability overhead over communication overhead.

    (reliability share / goodput) / (exposed communication / step): above 1 where reliability costs
    more

    Returns: [1] ratio of the two losses
    Source: the question of the mlsysim tutorial "reliability at scale"
    """
    return reliability_to_useful_ratio / communication_fraction


def dominant_overhead(
    compute_inefficiency_overhead,
    communication_overhead,
    bubble_overhead,
    straggler_overhead,
    checkpoint_overhead,
    rework_overhead,
    recovery_overhead,
):
    """Largest overhead by share of the wall time; the first on ties.

    argmax of the seven overheads

    Returns: [flag] the largest loss
    Flags: 0 compute_inefficiency, 1 communication, 2 bubble, 3 straggler, 4 checkpoint, 5 rework,
        6 recovery
    Source: by definition
    """
    worst = compute_inefficiency_overhead
    flag = where(worst == worst, 0.0, np.nan)
    flag = where(communication_overhead > worst, 1.0, flag)
    worst = np.maximum(worst, communication_overhead)
    flag = where(bubble_overhead > worst, 2.0, flag)
    worst = np.maximum(worst, bubble_overhead)
    flag = where(straggler_overhead > worst, 3.0, flag)
    worst = np.maximum(worst, straggler_overhead)
    flag = where(checkpoint_overhead > worst, 4.0, flag)
    worst = np.maximum(worst, checkpoint_overhead)
    flag = where(rework_overhead > worst, 5.0, flag)
    worst = np.maximum(worst, rework_overhead)
    flag = where(recovery_overhead > worst, 6.0, flag)
    worst = np.maximum(worst, recovery_overhead)
    return where(worst == worst, flag, np.nan)
