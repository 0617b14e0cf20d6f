"""From steps to the job: its time, its losses, its utilization."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...ops import where
from ...reliability import failure_probability as probability_of_failure
from ...reliability import weibull_failure_probability as weibull


@alternative("working_time", multi_site=True, off="time_at_risk")
def several_site_working_time(time_at_risk, awaited_sites_uptime):
    """Time of a duration in which the job does not wait for a site.

    T x share in which all that it waits for are up

    Returns: [s] time; waits for repairs of nodes are part of it
    Range: the share is that of a long run
    Source: by definition
    """
    return time_at_risk * awaited_sites_uptime


row("slow_node_stop_time", 0.0, slow_nodes=(False, "share"))


@alternative("slow_node_stop_time", slow_nodes=("detected", "checked"))
def slow_node_stop_time(step_time, slow_node_stops):
    """Time of a step for which the job stops to check nodes and to replace slow ones, the mean.

    step time x u / (1 + u), u the stops over steps

    Returns: [s] time of one step
    Source: by definition
    """
    return step_time * (slow_node_stops / (1 + slow_node_stops))


def job_duration(job_time):
    """Time over which failures are counted, where the scenario does not state it: the whole job.

    T = job_time

    Returns: [s] duration
    Source: by definition
    """
    return 1.0 * job_time


def time_at_risk(job_duration, transition_wait, maintenance_fraction):
    """Time of a duration in which the job may fail: it is made ready, and no maintenance is on.

    (T - T_t) (1 - maintenance)

    Returns: [s] time; waits for repairs are part of it
    Range: nothing fails while the job is made ready, or its machines are maintained
    Source: by definition
    """
    return np.maximum(job_duration - transition_wait, 0.0) * (1 - maintenance_fraction)


def expected_failures(working_time, cluster_uptime, cluster_mtbf):
    """Failures of the job to expect over a duration.

    T u / M: none strikes a job that waits for a repair

    Returns: [1] number of failures
    Range: u is that of a long run; a short duration that begins with all nodes waits less. Jobs
        that go on with fewer nodes (elastic) fail as if all ran: too often by the share missing
    Source: renewal of exponential lifetimes (Barlow & Proschan 1975, ch. 3)
    Example:
        >>> round(expected_failures(720, 1.0, 33.482), 1)
        21.5
    """
    return working_time * cluster_uptime / cluster_mtbf


def failed_nodes(working_time, cluster_uptime, node_failure_rate):
    """Nodes to expect to fail under the job over a duration; groups count every node.

    T u x node failures per unit of time

    Returns: [1] number of node failures
    Range: spares, and nodes of a job that waits for a repair, are not counted. Jobs that go on with
        fewer nodes (elastic) fail as if all ran: too often by the share missing
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

    Range: shapes from 0.01 on; the time from one failure of the whole job to the next is Weibull.
        Of many parts it is exponential after all (Drenick 1960), and goodput is computed so
    Source: Weibull 1951, J. Appl. Mech. 18; Schroeder & Gibson 2006, DSN; Drenick 1960
    """


@alternative("training_steps", multi_site=False)
def one_site_training_steps(tokens_to_target, tokens_per_step):
    """Optimizer steps of the run, all with its whole batch; a ramp adds `extra_ramp_steps`.

    D / (B s)

    Returns: [1] steps
    Source: by definition
    """
    return tokens_to_target / tokens_per_step


row("availability", "steady_availability", "as it is once the job has begun", transitions=False)


@alternative("availability", transitions="counted")
def availability_after_transition(
    steady_availability, transition_time, training_steps, mean_step_time, goodput
):
    """Share of the cluster's time that is there for the job: it is made ready first.

    A U / (U + A T_t), U = steps x step time / goodput: the wall time is U / A + T_t

    Returns: [1] share of the wall time, weighted with the replicas that run
    Range: nothing fails while the job is made ready
    Source: by definition
    """
    up = training_steps * mean_step_time
    return steady_availability * up / (up + steady_availability * transition_time * goodput)


row(
    "transition_wait",
    0.0,
    summary="Time that GPUs wait for the job to be made ready.",
    returns="[s] time",
    transitions=False,
)
row("transition_wait", "transition_time", transitions="counted")


def transition_share(transition_wait, job_time):
    """Share of the wall time in which the job is made ready.

    T_t / T

    Returns: [1] share
    Source: by definition
    """
    return transition_wait / job_time


@alternative("mean_step_time", training_stages=False)
def mean_step_time(step_time):
    """Time of a step, on average over the run.

    that of each

    Returns: [s] time
    Source: by definition
    """
    return 1.0 * step_time


def attempted_steps(training_steps, goodput, availability):
    """Steps that would fit into the wall time of the run.

    steps / (goodput x availability)

    Returns: [1] step times until the run is done
    Source: by definition
    """
    return training_steps / (goodput * availability)


@alternative("job_time", training_stages=False)
def job_time(attempted_steps, step_time):
    """Wall time of the run.

    steps x step time / (goodput x availability)

    Returns: [s] wall time
    Source: Daly 2006, FGCS 22(3), eq. 13 (solve time over goodput)
    """
    return attempted_steps * step_time


def step_rate(step_time):
    """Steps per unit of time while nothing fails.

    1 / step time

    Returns: [1/s] steps per second
    Source: by definition
    """
    return 1 / step_time


def useful_step_rate(goodput, step_rate):
    """Steps that the run keeps per unit of wall time, while the whole cluster is available.

    goodput x steps per second

    Returns: [1/s] kept steps per second of wall time
    Source: by definition
    """
    return goodput * step_rate


def useful_compute_share(ideal_compute_time, useful_step_rate):
    """Share of the wall time that the model's operations would take at peak: MFU x goodput.

    F / (n P) x kept steps per second

    Returns: [1] share of the wall time; with the overheads it adds up to 1
    Source: Fleet Foundations, compound loss of fleet utilization
    """
    return ideal_compute_time * useful_step_rate


def compute_inefficiency_overhead(
    compute_time, optimizer_time, serial_time_per_step, ideal_compute_time, useful_step_rate
):
    """Share of the wall time lost because GPUs work below their peak, recompute included.

    (compute + optimizer + serial - ideal) x kept steps per second; the ideal by flops_counting

    Returns: [1] share of the wall time
    Range: too low, and may be negative, where flops_counting counts more than kernels do
    Source: by definition
    """
    spent = compute_time + optimizer_time + serial_time_per_step
    return (spent - ideal_compute_time) * useful_step_rate


def communication_overhead(exposed_communication_time, useful_step_rate):
    """Share of the wall time that waits for communication.

    exposed communication x kept steps per second

    Returns: [1] share of the wall time
    Source: by definition
    """
    return exposed_communication_time * useful_step_rate


def bubble_overhead(bubble_time, useful_step_rate):
    """Share of the wall time that pipeline stages idle.

    bubble x kept steps per second

    Returns: [1] share of the wall time
    Source: by definition
    """
    return bubble_time * useful_step_rate


def straggler_overhead(straggler_time, slow_node_stop_time, useful_step_rate):
    """Share of the wall time that waits for the slowest rank, and stops to replace slow nodes.

    (straggler wait + stops) x kept steps per second

    Returns: [1] share of the wall time
    Source: by definition
    """
    return (straggler_time + slow_node_stop_time) * useful_step_rate


def reliability_overhead(checkpoint_overhead, rework_overhead, recovery_overhead):
    """Share of the wall time lost to failures and to guarding against them.

    checkpoint + rework + recovery = 1 - goodput

    Returns: [1] share of the wall time
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart
    """
    return checkpoint_overhead + rework_overhead + recovery_overhead


def reliability_to_useful_ratio(reliability_overhead, goodput):
    """Time lost to failures and checkpoints over time kept.

    reliability share / goodput

    Returns: [1] time lost over time kept
    Source: by definition
    """
    return reliability_overhead / goodput


def step_to_communication_ratio(step_time, exposed_communication_time):
    """Step time over exposed communication: the inverse of the communication fraction.

    step time / exposed communication

    Returns: [1] ratio
    Source: by definition
    """
    return step_time / exposed_communication_time


def reliability_to_communication_ratio(reliability_to_useful_ratio, step_to_communication_ratio):
    """How many times more of the wall time reliability costs than communication.

    (reliability share / goodput) x (step time / exposed communication), which is reliability share
    / communication share: above 1 where reliability costs more

    Returns: [1] ratio of the two losses
    Source: the question of the mlsysim tutorial "reliability at scale"
    """
    return reliability_to_useful_ratio * step_to_communication_ratio


def dominant_overhead(
    compute_inefficiency_overhead,
    communication_overhead,
    bubble_overhead,
    straggler_overhead,
    checkpoint_overhead,
    rework_overhead,
    recovery_overhead,
):
    """Which loss takes the largest share of the wall time; the first of equals.

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
