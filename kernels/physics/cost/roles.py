"""What others ask of power: totals that a node's label states."""

from collections.abc import Mapping

# A total that a node's label states: what it sets is the rest beside so many GPUs of so much each,
# so that the total follows where these are others
BESIDE_GPUS: Mapping[str, tuple[str, str, str]] = {
    "node_power": ("node_overhead_power", "gpus_per_node", "gpu_tdp")
}
