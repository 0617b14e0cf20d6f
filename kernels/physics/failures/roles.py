"""Roles of failures: inputs that quantities or the simulation ignore."""

from collections.abc import Mapping

# inputs that these quantities, or formulas, ignore, and the remark if one is above 0 and they are
# in use
LEFT_OUT: tuple[tuple[str, frozenset[str], str], ...] = (
    (
        "correlated_failure_fraction",
        frozenset(
            {
                "spare_left_probability",
                "whole_pool_probability",
                "whole_safe_pool_probability",
                "nodes_beyond_spares",
            }
        ),
        "spares are counted as if nodes failed one by one, in groups they run out otherwise: "
        "fleetcube simulate plays it",
    ),
    (
        "correlated_failure_fraction",
        frozenset({"running_replica_share"}),
        "replicas are counted as if nodes failed one by one, in groups fewer of them break: "
        "fleetcube simulate plays it",
    ),
    (
        "correlated_failure_fraction",
        frozenset({"checkpoint_restore_time_checkpoint_mode_in_memory"}),
        "nodes that fail together may hold both copies of a checkpoint, and in_memory has no "
        "other: checkpoint_mode = tiered falls back to storage",
    ),
    (
        "repair_spread",
        frozenset({"repair_crews"}),
        "repairs by crews are counted as exponential, of the mean: shares of the time with all "
        "nodes are off by up to 0.1, and 0.2 for spares of an open pool; fleetcube simulate draws "
        "them",
    ),
    (
        "step_time_jitter",
        frozenset({"sync_wall_gpus"}),
        "sync_wall_gpus, a closed form, has stragglers as late as at this size, and among more "
        "GPUs the slowest is later: about 1 % off; the fastest size of fleetcube scaling-limit "
        "counts it",
    ),
)
# inputs that the simulation ignores, and its remark if they are above 0
UNPLAYED: Mapping[str, str] = {
    "maintenance_fraction": "maintenance is not played: the job is there all the time",
    "site_mttf": "an outage of a site is played as a failure, the wait for the site is not",
}
# an input that is a whole, and those that are parts of it, which may not be given with it
MEASURED: Mapping[str, frozenset[str]] = {
    "interruption_mttf": frozenset(
        f"{part}_mttf" for part in ("gpu", "nic", "psu", "cable", "switch", "host", "software")
    )
    | {"reliability", "reference_mtbf"},
}
# of an input given alone: what counts in addition by default, and the input that counts it
BESIDE_IT: Mapping[str, Mapping[str, str]] = {
    "gpu_mttf": {"nic_mttf": "nics_per_node", "psu_mttf": "series_psus_per_node"},
}
# parts that fail: their mean time to failure, the input that counts them on a node ("": one of
# them), and the part that takes their failures where none is counted
PARTS_MTTF: Mapping[str, tuple[str, str, str]] = {
    "gpu": ("gpu_mttf", "gpus_per_node", ""),
    "silent_corruption": ("silent_corruption_mttf", "gpus_per_node", ""),
    "host": ("host_mttf", "", ""),
    "software": ("software_mttf", "", ""),
    "nic": ("nic_mttf", "nics_per_node", "host"),
    "cable": ("cable_mttf", "cables_per_node", "nic"),
    "psu": ("psu_mttf", "series_psus_per_node", "host"),
    "switch": ("switch_mttf", "", ""),
}
# the GPUs that share one of a part, if it is not a node's
SHARED_BY: Mapping[str, str] = {"switch": "gpus_per_switch"}
ALL_CAUSES = ("interruption_mttf", "gpus_per_node")  # the same of all parts together, per GPU
# times of an interruption in a log: until it was noticed, to start again, or all in all
LOST = {"detection": "detection_time", "restart": "reinit_time", "lost": "recovery_time"}
