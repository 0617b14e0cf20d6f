"""Inputs of checkpoints and recoveries."""

import math

from ...declare import declared, option, real, switch

_INTERVALS = (  # as people state them
    *("drive_tier_interval", "storage_tier_interval", "drive_tier_steps", "storage_tier_steps"),
)

INPUTS = declared(
    "hardware",
    real("nvme_bandwidth", "B/s", 3e9, "per GPU, to its drives"),
    real("checkpoint_write_bandwidth", "B/s", 100e9, "of the whole storage system"),
    real("checkpoint_read_bandwidth", "B/s", 100e9, "of the whole storage system"),
    real(
        "per_node_storage_bandwidth",
        "B/s",
        math.inf,
        "of one node, up to that of the whole system",
        may_be_infinite=True,
    ),
    option(
        "storage_scaling",
        "total",
        ("total", "per_node"),
        "whether storage bandwidth grows with the nodes that write",
        implied="per_node",
        implied_by=("per_node_storage_bandwidth",),
    ),
    real("snapshot_bandwidth", "B/s", 25e9, "per GPU, to host memory (PCIe 4 x16)"),
    real(
        "checkpoint_memory_capacity",
        "B",
        math.inf,
        "of one node's host, for checkpoints (tiered)",
        may_be_infinite=True,
    ),
    real(
        "checkpoint_drive_capacity",
        "B",
        math.inf,
        "of one node's drives, for checkpoints (tiered)",
        may_be_infinite=True,
    ),
    "operations",
    real("detection_time", "s", 30, "failure until it is noticed", positive=False),
    real("drain_time", "s", 30, "stopping the other ranks", positive=False),
    real("provision_time", "s", 300, "getting a healthy node, without a spare", positive=False),
    real("reinit_time", "s", 30, "starting the job again", positive=False),
    real(
        "in_process_restart_time",
        "s",
        15,
        "ranks stop and start inside their processes",
        positive=False,
    ),
    real(
        "requeue_time",
        "s",
        600,
        "the job stops, waits in the queue and has its nodes",
        positive=False,
    ),
    option(
        "checkpoint_mode",
        "sync",
        ("sync", "async", "in_memory", "tiered"),
        "training stops for the write, or only for a snapshot that is written or copied behind it; "
        "or several tiers hold checkpoints: memory, drives and storage",
        implied="tiered",
        implied_by=("memory_tier_survival", "drive_tier_survival", *_INTERVALS),
    ),
    real(
        "memory_tier_survival",
        "1",
        0.0,
        "share of failures that checkpoints in memory survive (0: no such tier)",
        positive=False,
        high=1.0,
    ),
    real(
        "drive_tier_survival",
        "1",
        0.0,
        "share of failures that checkpoints on local drives survive (0: no such tier)",
        positive=False,
        high=1.0,
    ),
    option("memory_tier", "peer", ("peer", "host"), "whose memory holds checkpoints (tiered)"),
    option(
        "tier_intervals",
        "tuned",
        ("tuned", "stated"),
        "whether drives and storage get every so many checkpoints, or one at a stated interval",
        implied="stated",
        implied_by=_INTERVALS,
    ),
    real("drive_tier_interval", "s", None, "between checkpoints on local drives (tiered)"),
    real("storage_tier_interval", "s", None, "between checkpoints on storage (tiered)"),
    switch("drive_timing", "whether drives have an interval stated for them", *_INTERVALS[::2]),
    switch("drive_steps", "whether that is stated in steps", "drive_tier_steps"),
    switch("storage_steps", "whether storage's interval is in steps", "storage_tier_steps"),
    option(
        "checkpoint_policy",
        "exact",
        ("exact", "daly", "young", "fixed", "steps"),
        "how the interval is set",
        implied="fixed",
        implied_by=("fixed_checkpoint_interval",),
    ),
    real("fixed_checkpoint_interval", "s", None, "interval under checkpoint_policy = fixed"),
    real(
        "corruption_probability",
        "1",
        0.0,
        "chance that a checkpoint cannot be read",
        positive=False,
        high=0.999,
    ),
    switch(
        "checkpoint_corruption",
        "whether unreadable checkpoints are counted",
        "corruption_probability",
    ),
    "software",
    option(
        "elastic_growth",
        "free",
        ("free", "stop", "next_failure", "restart"),
        "how repaired nodes come back: while the job runs (TorchFT), after it has saved, at the "
        "next failure, or at once and without saving (torchrun)",
    ),
    switch("elastic_packing", "whether nodes of broken replicas form others (Oobleck, Varuna)"),
    real("checkpoint_bytes_per_parameter", "B", 14, "BF16 weights, FP32 master, two moments"),
    real(
        "tier_stall_share",
        "1",
        0.0,
        "share of a copy to a tier for which training waits (tiered)",
        positive=False,
        high=1.0,
    ),
    option(
        "tier_copies",
        "kept",
        ("kept", "repeated"),
        "whether copies to drives and storage go on through failures that faster tiers serve, as "
        "of savers outside the job's processes, or are begun again",
    ),
    real(
        "rail_busy_share",
        "1",
        0.0,
        "share of the time in which training's traffic holds the rail (tiered, peer)",
        positive=False,
        high=0.999,
    ),
)
