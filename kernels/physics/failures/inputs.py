"""Inputs of failures and repairs."""

import math

from ...declare import HOUR, Input, count, declared, option, real, switch


def _share(name: str, end: str) -> Input:
    description = f"share of failures that end with {end}"
    return real(name, "1", 0.0, description, positive=False, high=1.0)


def _mttf(name: str, default: float, component: str) -> Input:
    description = f"mean time to failure of one {component} (infinite: not counted)"
    return real(name, "s", default, description, may_be_infinite=True)


INPUTS = declared(
    "hardware",
    count("series_psus_per_node", 0, "power supplies whose loss stops the node", low=0),
    _mttf("gpu_mttf", 50_000 * HOUR, "GPU"),
    _mttf("psu_mttf", 100_000 * HOUR, "power supply"),
    _mttf("host_mttf", math.inf, "host (CPU, board, memory)"),
    _mttf("silent_corruption_mttf", math.inf, "GPU, between silent corruptions of its data"),
    real("fleet_age", "s", 0.0, "of the hardware at the start", positive=False),
    real(
        "burn_in_excess",
        "1",
        0.0,
        "failures of new hardware over those of grown, less 1",
        positive=False,
    ),
    real("burn_in_time", "s", 90 * 24 * HOUR, "in which that excess falls to 1/e"),
    real(
        "wear_out_age",
        "s",
        math.inf,
        "age at which wear adds as many failures as grown hardware has (infinite: none)",
        may_be_infinite=True,
    ),
    real("wear_out_shape", "1", 3.0, "Weibull shape of wear-out", low=1.0),
    option(
        "fleet_aging",
        False,
        (False, "on"),
        "whether parts fail by their age: burn-in and wear-out (mtbf_model = components)",
        implied="on",
        implied_by=("burn_in_excess", "wear_out_age"),
    ),
    real(
        "correlated_failure_fraction",
        "1",
        0.0,
        "share of node failures that take a failure domain down together",
        positive=False,
        high=1.0,
    ),
    count("failure_domain_nodes", 4, "nodes that fail together"),
    "fabric",
    count("nics_per_node", 8, "network cards of one node, for failures", low=0),
    count("cables_per_node", 0, "network cables of one node", low=0),
    _mttf("site_link_mttf", math.inf, "site's link to the others"),
    _mttf("nic_mttf", 150_000 * HOUR, "network card"),
    _mttf("cable_mttf", math.inf, "network cable"),
    _mttf("switch_mttf", math.inf, "leaf switch"),
    _mttf("pod_mttf", math.inf, "pod, as a whole"),
    "operations",
    _mttf("site_mttf", math.inf, "site, as a whole"),
    switch(
        "outages",
        "pods, sites and links between sites fail as a whole",
        "pod_mttf",
        "site_mttf",
        "site_link_mttf",
    ),
    real("site_repair_time", "s", 4 * HOUR, "until a site, or its link, is back", positive=False),
    real(
        "corruption_latency",
        "s",
        0.0,
        "silent corruption until it is found, on average; the work since then is lost",
        positive=False,
    ),
    option(
        "corruption_detection",
        "at_once",
        ("at_once", "late"),
        "whether silent corruption is found as it happens, or corruption_latency later",
        implied="late",
        implied_by=("corruption_latency",),
    ),
    count("spare_nodes", 0, "hot spares at hand", low=0),
    option(
        "sparing",
        False,
        (False, "hot"),
        "whether hot spares replace failed nodes",
        implied="hot",
        implied_by=("spare_nodes",),
    ),
    real(
        "repair_time",
        "s",
        24 * HOUR,
        "until a failed node is whole again (spares, elastic, node_pool)",
        positive=False,
        high=1e10,
    ),
    real(
        "repair_spread",
        "1",
        0.0,
        "standard deviation of the logarithm of repair times; closed forms take their mean",
        positive=False,
        high=4.0,
        idle="with a place for each failed node the mean of repair times decides, not their spread "
        "(Palm's theorem); fleetcube simulate draws them",
    ),
    option(
        "repair_shop",
        "unlimited",
        ("unlimited", "crews"),
        "whether failed nodes wait for one of repair_crews",
        implied="crews",
        implied_by=("repair_crews",),
    ),
    count(
        "repair_crews",
        None,
        "nodes repaired at a time; others wait (spares, node_pool)",
        high=1e9,
    ),
    option(
        "node_pool",
        "open",
        ("open", "closed", "closed_idle_safe"),
        "what a job without a spare waits for: a node from outside (open), or a repair, where idle "
        "nodes fail, too (closed), or do not (closed_idle_safe)",
    ),
    option("elastic", False, (False, "shrink"), "go on with fewer replicas until repair"),
    _share("in_process_share", "an in-process restart: same processes, same nodes"),
    _share("in_job_share", "an in-job restart: new processes, same nodes"),
    _share("requeue_share", "the whole job back in the queue; the rest, with a node swap"),
    option(
        "recovery_model",
        False,
        (False, "kinds"),
        "whether all failures cost a node and the same time, or each kind its own",
        implied="kinds",
        implied_by=("in_process_share", "in_job_share", "requeue_share"),
    ),
    real(
        "maintenance_fraction",
        "1",
        0.0,
        "share of wall time lost to planned maintenance",
        positive=False,
        high=0.999,
    ),
    "software",
    _mttf("software_mttf", math.inf, "node's software"),
    "model",
    real("aging_window", "s", 0.0, "from fleet_age on: rates are its mean", positive=False),
    real(
        "failure_shape",
        "1",
        1.0,
        "Weibull shape of times between failures; goodput takes 1",
        idle="failures of many parts come at random, whatever the shape of each (Drenick 1960); "
        "fleetcube simulate plays what few do",
    ),
    real(
        "interruption_mttf",
        "s",
        None,
        "GPU hours between interruptions of all causes, as measured; instead of the MTTFs of parts",
        may_be_infinite=True,
    ),
    switch("all_causes", "interruption_mttf stands for the MTTFs of parts", "interruption_mttf"),
    option(
        "failure_distribution",
        "exponential",
        ("exponential", "weibull"),
        "distribution of the time between failures in failure_probability",
        implied="weibull",
        implied_by=("failure_shape",),
    ),
    option(
        "mtbf_model",
        "components",
        ("components", "empirical"),
        "how the cluster's MTBF is found",
        implied="empirical",
        implied_by=("reference_mtbf",),
    ),
    real("reference_mtbf", "s", 7.9 * HOUR, "measured MTBF of a reference job (empirical)"),
    count("reference_gpus", 1024, "accelerators of the reference job (empirical)"),
    real("mtbf_exponent", "1", 1.0, "MTBF falls with this power of n_gpus (empirical)", high=10.0),
)
