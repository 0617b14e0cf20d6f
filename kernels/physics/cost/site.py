"""GPUs that a site powers, cools and has room for, in whole rows of racks, and what is left."""

import numpy as np


def nodes_per_row(nodes_per_rack, node_power, rack_power, racks_per_row):
    """Nodes per row of racks, each of which stays whole.

    max(floor(racks / ceil(node / rack)), 1) x nodes of a rack: what needs more than a rack has
    several

    Returns: [1] nodes
    Range: by power alone, as `nodes_per_rack`
    Source: by definition
    """
    shared = np.maximum(np.floor(racks_per_row / np.ceil(node_power / rack_power)), 1.0)
    return shared * np.maximum(nodes_per_rack, 1.0)


def powered_gpus(
    site_power,
    pue,
    cooling_power,
    nodes_per_row,
    node_power,
    site_racks,
    racks_per_row,
    rack_power,
    gpus_per_node,
):
    """GPUs in whole rows of full racks that a site's power, cooling and room allow.

    floor(min(min(power / PUE, cooling) / (nodes of a row x power of a node), racks / racks of a
    row)) x nodes of a row x GPUs of a node

    Returns: [1] GPUs
    Range: one site, or the sums of several; nodes at full power; switches and storage, and their
        racks, are not counted
    Source: Avelar et al. 2012 (PUE); Fleet Foundations, power density wall
    """
    powered = np.minimum(site_power / pue, cooling_power) / (nodes_per_row * node_power)
    row = np.maximum(racks_per_row, np.ceil(node_power / rack_power))
    return np.floor(np.minimum(powered, site_racks / row)) * nodes_per_row * gpus_per_node


def unused_gpus(powered_gpus, allocated_gpus):
    """GPUs of a site's rows that the job leaves: spares, or other jobs.

    GPUs of the site - GPUs of the job; below 0 where the job does not fit

    Returns: [1] GPUs
    Source: by definition
    """
    return powered_gpus - allocated_gpus


def unused_power(site_power, facility_power):
    """Power of a site that the job leaves.

    power of the site - facility power of the job; below 0 where it is not enough

    Returns: [W] power
    Source: by definition
    """
    return site_power - facility_power


def unused_racks(site_racks, racks):
    """Racks of a site that the job leaves empty.

    racks of the site - racks of the job; infinite where the room is no limit

    Returns: [1] racks
    Source: by definition
    """
    return site_racks - racks
