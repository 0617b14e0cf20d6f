"""Power, energy and carbon emissions of the cluster."""

import numpy as np

from ...alternatives import alternative


def node_power(gpus_per_node, gpu_tdp, node_overhead_power):
    """Default power of one node, where the scenario does not state it.

    g x TDP + overhead; a label that states the total sets the overhead to the remainder

    Returns: [W] power of one node
    Source: Fleet Foundations, power and sustainability numbers (rule of thumb: GPUs x TDP)
    """
    return gpus_per_node * gpu_tdp + node_overhead_power


@alternative("allocated_gpus", reserves=True, off="n_gpus")
def reserved_allocated_gpus(
    n_gpus,
    backup_workers,
    tensor_parallel,
    pipeline_parallel,
    context_parallel,
    spare_nodes,
    gpus_per_node,
):
    """GPUs powered and paid for: the job's, backup replicas' and hot spares'.

    n + backups t p c + spare nodes g

    Returns: [1] GPUs
    Source: by definition; backups: Chen et al. 2016, arXiv:1604.00981
    """
    replica = tensor_parallel * pipeline_parallel * context_parallel
    return n_gpus + backup_workers * replica + spare_nodes * gpus_per_node


def allocated_nodes(allocated_gpus, gpus_per_node):
    """Nodes powered and paid for.

    n / g

    Returns: [1] nodes, not rounded
    Source: by definition
    """
    return allocated_gpus / gpus_per_node


def it_power(allocated_nodes, node_power):
    """Power of all nodes.

    nodes x power of a node

    Returns: [W] power of the equipment
    Source: Fleet Foundations, power and sustainability numbers (10,000 x 700 W = 7 MW)
    Example:
        >>> it_power(1250, 8 * 700) / 1e6
        7.0
    """
    return allocated_nodes * node_power


def facility_power(it_power, pue):
    """Power of the data centre, cooling and losses included.

    IT power x PUE

    Returns: [W] power of the facility
    Source: Avelar et al. 2012 (PUE); Fleet Foundations, the energy hierarchy at scale
    Example:
        >>> round((facility_power(10e6, 1.58) - facility_power(10e6, 1.06)) / 1e6, 1)
        5.2
    """
    return it_power * pue


def nodes_per_rack(rack_power, node_power):
    """Whole nodes per rack, by rack power.

    floor(rack / node)

    Returns: [1] nodes; 0 if one node needs more power than the rack has
    Source: Fleet Foundations, power density wall
    """
    return np.floor(rack_power / node_power * (1 + 1e-12))  # 71.4 kW are 7 of 10.2


def racks(allocated_nodes, nodes_per_rack, node_power, rack_power):
    """Racks for all nodes, each of which stays whole.

    ceil(nodes / nodes of a rack) x ceil(node / rack): what needs more than a rack has several

    Returns: [1] racks
    Range: by power alone; space, and racks of switches and storage, are not counted
    Source: Fleet Foundations, power density wall
    Example:
        >>> float(racks(10_000, 100, 700, 70e3)), float(racks(128, 0, 132e3, 70e3))
        (100.0, 256.0)
    """
    shared = np.ceil(allocated_nodes / np.maximum(nodes_per_rack, 1.0))
    return shared * np.ceil(node_power / rack_power * (1 - 1e-12))


def energy(facility_power, mean_power_share, job_time):
    """Electricity used by the run.

    facility power x share drawn x wall time

    Returns: [J] energy
    Range: the default share is the highest draw of a node of 8 H100 in training, 0.76 a typical
        one; emissions are often reported as GPU hours x TDP
    Source: Luccioni et al. 2022, arXiv:2211.02001; Latif et al. 2024, arXiv:2412.08602; Newkirk et
        al. 2025, arXiv:2506.14551
    """
    return facility_power * mean_power_share * job_time


def carbon_emissions(energy, grid_carbon_intensity):
    """Carbon dioxide emissions of the run's electricity.

    energy x intensity of the grid

    Returns: [kg] carbon dioxide
    Source: Luccioni et al. 2022, arXiv:2211.02001
    """
    return energy * grid_carbon_intensity
