"""Inputs of the step time."""

from ...declare import count, declared, option, real, switch

INPUTS = declared(
    "hardware",
    real(
        "slow_node_slowdown",
        "1",
        None,
        "extra compute time of a slow node, over the others' (exponential: the mean)",
        positive=False,
    ),
    real(
        "slow_node_mttf",
        "s",
        None,
        "mean time until a node becomes slow (infinite: never)",
        may_be_infinite=True,
    ),
    "operations",
    real(
        "straggler_slowdown",
        "1",
        0.0,
        "extra compute time of the slowest rank (0.1: a tenth more)",
        positive=False,
    ),
    option(
        "slow_nodes",
        False,
        (False, "share", "detected", "checked"),
        "nodes that are slow and stay so: a share of all; each until it is found and replaced; "
        "all that are slow replaced at regular checks",
        implied="share",
        implied_by=("slow_node_share",),
    ),
    real("slow_node_share", "1", None, "share of nodes slow at a time", positive=False, high=1.0),
    real(
        "slow_node_detection_time",
        "s",
        None,
        "mean time until a slow node is found and replaced (infinite: never)",
        may_be_infinite=True,
    ),
    real(
        "slow_node_check_interval",
        "s",
        None,
        "training between checks of all nodes (infinite: no checks)",
        may_be_infinite=True,
    ),
    real("slow_node_check_time", "s", 0.0, "stop of the job for a check", positive=False),
    real("slow_node_swap_time", "s", 0.0, "stop of the job to replace slow nodes", positive=False),
    "software",
    count("backup_workers", 0, "replicas more than needed; the slowest are not awaited", low=0),
    real(
        "communication_processor_share",
        "1",
        0.12,
        "of a GPU's processors, held by collectives while it computes (roofline; NCCL: about 16 of "
        "132)",
        positive=False,
        high=1.0,
    ),
    real(
        "step_time_jitter",
        "1",
        0.0,
        "standard deviation of a rank's compute time, over its mean",
        positive=False,
    ),
    real(
        "serial_time_per_step",
        "s",
        0.0,
        "data loading, logging: nothing overlaps",
        positive=False,
    ),
    "model",
    option(
        "jitter_model",
        False,
        (False, "normal", "gumbel"),
        "distribution of the jitter",
        implied="normal",
        implied_by=("step_time_jitter",),
    ),
    option(
        "slow_node_tail",
        "fixed",
        ("fixed", "exponential"),
        "slow nodes are alike, or their slowdowns have a tail",
    ),
    real(
        "error_factor",
        "1",
        1.0,
        "factor by which predicted and measured times differ at most, in 90 of 100 (calibrations)",
        low=1.0,
    ),
    real(
        "fabric_error_exponent",
        "1",
        1.0,
        "power of error_factor for a job in several nodes; calibration auto raises it for a fabric "
        "that no published step ran on",
        low=1.0,
    ),
    switch(
        "unmeasured_fabric",
        "no published step ran on a fabric between nodes: the step's interval is wider",
        "fabric_error_exponent",
    ),
    real(
        "step_time_error",
        "1",
        0.0,
        "where in its interval the step's time is: -1 at step_time_low, 0 as predicted, 1 at "
        "step_time_high; the parts of a step stay as predicted",
        low=-4.0,
        high=4.0,
        positive=False,
    ),
    real(
        "step_time_factor",
        "1",
        1.0,
        "measured over computed step time; calibrations to own steps set it for their jobs",
        low=1e-3,
        high=1e3,
    ),
    switch(
        "shifted_step_time",
        "the step's time is not as computed: its own cluster's, or elsewhere in its interval",
        "step_time_error",
        "step_time_factor",
    ),
)
