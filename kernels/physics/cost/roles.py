"""Roles of power: totals that a node's label states."""

from collections.abc import Mapping

# total stated by a node's label: (remainder that it sets, number of GPUs, power of each), so that
# the total follows when the GPUs change
BESIDE_GPUS: Mapping[str, tuple[str, str, str]] = {
    "node_power": ("node_overhead_power", "gpus_per_node", "gpu_tdp")
}
# what a job draws of a site, and what the site has of it
OF_SITE: Mapping[str, str] = {
    "facility_power": "site_power",
    "racks": "site_racks",
    "allocated_gpus": "powered_gpus",
}
