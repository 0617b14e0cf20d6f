"""GPUs that a site powers, cools and has room for."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, row
from ...ops import where
from ...reasons import REASONS as REASONS


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
    node = np.ceil(node_power / rack_power * (1 - 1e-12))
    row = np.maximum(racks_per_row, node)
    nodes = np.floor(row / node) * np.maximum(nodes_per_rack, 1.0)
    powered = np.minimum(site_power / pue, cooling_power) / (nodes * node_power)
    rows = np.minimum(powered, site_racks / row) * (1 + 1e-12)  # power / PUE rounds
    return np.floor(rows) * nodes * gpus_per_node


row("site_room_reason", 0.0, "no limit of a site is stated", site_limits=False)


@alternative("site_room_reason", site_limits=True)
def limited_site_room_reason(
    facility_power, site_power, it_power, cooling_power, racks, site_racks
):
    """Why a job does not fit its site; 0 if it does.

    power and racks at most the site's, and power of nodes at most what its cooling takes away

    Returns: [flag] reason
    Flags: REASONS
    Range: nodes at full power; room in a rack, and switches and storage, are not counted
    Source: Avelar et al. 2012 (PUE); Fleet Foundations, power density wall
    """
    most = 1 + 1e-12  # powers are products, which round
    over = (facility_power > site_power * most) | (it_power > cooling_power * most)
    over = over | (racks > site_racks)
    operands = facility_power - it_power + racks
    return where(operands == operands, where(over, reasons.LARGER_THAN_SITE, 0.0), np.nan)
