"""Contracts for nodes: their delivery, and hours paid for whether used or not."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, row
from ...ops import where
from ...reasons import REASONS as REASONS

row("contract_reason", 0.0, "no contract is stated", contract_limits=False)


@alternative("contract_reason", contract_limits=True)
def limited_contract_reason(allocated_nodes, contract_nodes):
    """Why a job does not fit its contract; 0 if it does.

    nodes of the job at most the contract's

    Returns: [flag] reason
    Flags: REASONS
    Range: spare nodes and backup workers count where `reserves` does; how long is not judged
    Source: by definition
    """
    operands = allocated_nodes + contract_nodes
    over = where(allocated_nodes > contract_nodes, reasons.LARGER_THAN_CONTRACT, 0.0)
    return where(operands == operands, over, np.nan)


def delivery_wait(allocated_nodes, contract_nodes, first_delivery_nodes, delivery_time):
    """Time from the first delivery until all nodes of the job are there.

    R max(n - f, 0) / (N - f): f nodes at once, the rest of N one by one over R

    Returns: [s] time; infinite if the contract has fewer nodes than the job
    Range: even deliveries, for others state it; spare nodes and backup workers are waited for
        where `reserves` counts them
    Source: by definition
    Example:
        >>> float(delivery_wait(256, 512, 0, 60.0))
        30.0
    """
    due = np.maximum(allocated_nodes - first_delivery_nodes, 0.0)
    late = np.maximum(contract_nodes - first_delivery_nodes, due)
    wait = delivery_time * due / where(late > 0, late, 1.0)
    return where(allocated_nodes > contract_nodes, np.inf, wait)


@alternative("completion_time", elastic=False)
def completion_time(delivery_wait, job_time):
    """Time from the first delivery of a contract's nodes until the job is done.

    wait + job time: a job starts when its nodes are there

    Returns: [s] time
    Range: a job of one layout for all of its time; infinite if the contract has too few nodes
    Source: by definition
    """
    return delivery_wait + job_time


@alternative("completion_time", elastic="shrink")
def elastic_completion_time(delivery_wait, job_time, first_delivery_nodes, allocated_nodes):
    """T + R (1 - s) / 2 beyond the wait R, s = share there at first; 2 T / (s + sqrt(s^2 +
    2 (1 - s) T / R)) within: a job works with the nodes that are there

    Range: even deliveries; work in proportion to nodes, at the goodput of all; r replicas, which
        are whole, take about R / (2 r) longer
    Source: by definition: nodes added up over time
    Example:
        >>> float(elastic_completion_time(60.0, 90.0, 0, 256))
        120.0
    """
    late = delivery_wait > 0
    first = where(late, first_delivery_nodes / allocated_nodes, 1.0)
    wait = where(late, delivery_wait, 1.0)
    early = np.minimum(job_time, delivery_wait * (1 + first) / 2)  # work done during deliveries
    ramp = 2 * early / (first + np.sqrt(first * first + 2 * (1 - first) * early / wait))
    return where(delivery_wait < np.inf, job_time - early + ramp, np.inf)


def committed_cost(contract_nodes, gpus_per_node, contract_time, gpu_hour_price):
    """Price of all hours of a contract.

    nodes x GPUs of a node x hours x price

    Returns: [USD] cost
    Range: each node for the same time, from its delivery on
    Source: by definition
    """
    return contract_nodes * gpus_per_node * contract_time / 3600 * gpu_hour_price


@alternative("job_cost", pricing="take_or_pay")
def take_or_pay_job_cost(gpu_cost, committed_cost):
    """max(GPU-hours x price, price of the contract): hours not taken are paid for

    Range: no other job takes them; hours beyond the contract have its price; each phase by itself
        pays for the contract, all together once
    Source: Masten & Crocker 1985, AER 75(5) (take-or-pay clauses)
    """
    return np.maximum(gpu_cost, committed_cost)
