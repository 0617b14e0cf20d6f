"""Roles of failures: inputs that quantities or the simulation ignore."""

from collections.abc import Mapping

# inputs that these quantities ignore, and the remark if one is above 0 and they are in use
LEFT_OUT: Mapping[str, tuple[frozenset[str], str]] = {
    "correlated_failure_fraction": (
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
}
# inputs that the simulation ignores, and its remark if they are above 0
UNPLAYED: Mapping[str, str] = {
    "maintenance_fraction": "maintenance is not played: the job is there all the time",
    "site_mttf": "an outage of a site is played as a failure, the wait for the site is not",
}
