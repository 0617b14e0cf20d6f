"""GPUs that a site powers, cools and has room for."""

import numpy as np


def powered_gpus(
    site_power,
    pue,
    cooling_power,
    site_racks,
    rack_power,
    racks_per_row,
    nodes_per_rack,
    node_power,
    gpus_per_node,
):
    """GPUs in whole rows of full racks that a site's power, cooling and room allow.

    floor(min(min(power / PUE, cooling) / (nodes of a row x power of a node), racks / racks of a
    row)) x nodes of a row x GPUs of a node, where a node that needs more than a rack has several

    Returns: [1] GPUs
    Range: one site, or the sums of several; nodes at full power; switches and storage, and their
        racks, are not counted
    Source: Avelar et al. 2012 (PUE); Fleet Foundations, power density wall
    Example:
        >>> float(powered_gpus(20e6, 1.2, np.inf, np.inf, 45e3, 16, 4, 10.2e3, 8))
        12800.0
    """
    node = np.ceil(node_power / rack_power)
    row = np.maximum(racks_per_row, node)
    nodes = np.floor(row / node) * np.maximum(nodes_per_rack, 1.0)
    powered = np.minimum(site_power / pue, cooling_power) / (nodes * node_power)
    rows = np.minimum(powered, site_racks / row) * (1 + 1e-12)  # power / PUE rounds
    return np.floor(rows) * nodes * gpus_per_node
