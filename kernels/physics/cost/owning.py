"""Cost of owning a cluster: capital, yearly payments, operation, and owned GPU-hours."""

import numpy as np

from ...alternatives import alternative
from ...laws.ownership import capital_recovery_factor, discount_factor
from ...ops import where


@alternative("fabric_capital", fabric_pricing="per_gpu")
def whole_fabric_capital(allocated_gpus, fabric_price):
    """Capital cost of the network: NICs, switches, optics and cables.

    GPUs x price per GPU

    Returns: [USD] cost
    Source: by definition
    """
    return allocated_gpus * fabric_price


def fabric_tiers(
    allocated_gpus, sites, gpus_per_switch, oversubscription, gpus_per_pod, pod_oversubscription
):
    """Switch tiers of the fat tree that connects the GPUs of a site.

    1, and one more beyond each of L, P and k P GPUs, where k = max(L (1 + 1 / o), P / L). Without
    pods (P infinite), each tier ends when its switches run out of ports: beyond L, L k and k L k p
    / (1 + p). L GPUs are under a leaf switch with o downlinks per uplink, P in a pod whose leaf
    switches one layer connects, with p links up per link that leaves the pod

    Returns: [1] tiers, 1 to 4
    Range: fat trees with one port per GPU, no torus or dragonfly; upper switches have as many ports
        k as leaf switches, or as stated pods need; more than four tiers (without pods, 2 million
        GPUs with 64 ports) are counted as four
    Source: Al-Fares et al. 2008 (SIGCOMM), section 2.2
    """
    gpus = allocated_gpus / sites
    podded = gpus_per_pod < np.inf
    radix = gpus_per_switch * (1 + 1 / oversubscription)
    two = gpus_per_switch * radix
    three = two * pod_oversubscription / (1 + pod_oversubscription)
    pod = where(podded, gpus_per_pod, three)
    upper = where(podded, np.maximum(radix, pod / gpus_per_switch), radix)
    tiers = 1 + where(gpus > gpus_per_switch, 1.0, 0.0)
    tiers = tiers + where(gpus > where(podded, gpus_per_pod, two), 1.0, 0.0)
    return tiers + where(gpus > upper * pod, 1.0, 0.0)


def leaf_uplinks(allocated_gpus, oversubscription, fabric_tiers):
    """Uplinks of the leaf switches of a fat tree.

    GPUs / oversubscription, if there is a tier above

    Returns: [1] links
    Range: filled switches; others have ports to spare
    Source: Al-Fares et al. 2008 (SIGCOMM), section 2.2
    """
    return where(fabric_tiers > 1, allocated_gpus / oversubscription, 0.0)


def pod_uplinks(leaf_uplinks, pod_oversubscription, fabric_tiers):
    """Links out of the pods of a fat tree.

    leaf uplinks / oversubscription of pods, if there is a third tier

    Returns: [1] links
    Range: filled switches; others have ports to spare
    Source: Al-Fares et al. 2008 (SIGCOMM), section 2.2
    """
    return where(fabric_tiers > 2, leaf_uplinks / pod_oversubscription, 0.0)


def core_uplinks(pod_uplinks, fabric_tiers):
    """Links from the third tier of a fat tree to the fourth.

    as many as leave the pods, if there is a fourth tier

    Returns: [1] links
    Range: filled switches; others have ports to spare
    Source: Al-Fares et al. 2008 (SIGCOMM), section 2.2
    """
    return where(fabric_tiers > 3, pod_uplinks, 0.0)


def switch_ports(allocated_gpus, leaf_uplinks, pod_uplinks, core_uplinks):
    """Used ports of all switches of a fat tree.

    one per GPU, two per link between switches

    Returns: [1] ports; without oversubscription 3 per GPU in two tiers, 5 in three
    Range: filled switches; others have ports to spare
    Source: Al-Fares et al. 2008 (SIGCOMM), section 2.2
    """
    return allocated_gpus + 2 * (leaf_uplinks + pod_uplinks + core_uplinks)


@alternative("fabric_capital", fabric_pricing="ports")
def counted_fabric_capital(
    allocated_gpus,
    fabric_price,
    nic_price,
    node_link_price,
    switch_ports,
    switch_port_price,
    leaf_uplinks,
    leaf_link_price,
    pod_uplinks,
    core_uplinks,
    pod_link_price,
):
    """Capital cost of the network by parts: NIC and link per GPU, switch ports, links by tier.

    GPUs x (fabric_price + NIC + link) + ports x price + uplinks x price of each tier

    Range: fat trees; `fabric_price` covers the remaining cost per GPU
    """
    gpu = fabric_price + nic_price + node_link_price
    switched = switch_ports * switch_port_price + leaf_uplinks * leaf_link_price
    return allocated_gpus * gpu + switched + (pod_uplinks + core_uplinks) * pod_link_price


def machine_capital(allocated_nodes, node_price, fabric_capital, storage_price):
    """Capital cost of what is replaced together: nodes, network and storage.

    nodes x price + network + storage

    Returns: [USD] cost
    Source: by definition
    """
    return allocated_nodes * node_price + fabric_capital + storage_price


def building_capital(facility_power, building_price):
    """Capital cost of the building with its power and cooling.

    facility power x price per watt

    Returns: [USD] cost
    Source: by definition
    """
    return facility_power * building_price


def capital_cost(machine_capital, building_capital):
    """Capital cost of the cluster: machines, network, storage and building.

    machines + building

    Returns: [USD] cost
    Source: by definition
    """
    return machine_capital + building_capital


def machine_payments(machine_capital, resale_share, interest_rate, depreciation_time):
    """Yearly payments for the machines over their life, with interest, less resale.

    price x (1 - resale x (1 + r)^-n) x r / (1 - (1 + r)^-n)

    Returns: [USD] per year
    Range: without interest, straight-line depreciation: (price - resale) / years
    Source: Short et al. 1995, NREL/TP-462-5173, section 3 (capital recovery factor)
    """
    left = 1 - resale_share * discount_factor(interest_rate, depreciation_time)
    return machine_capital * left * capital_recovery_factor(interest_rate, depreciation_time)


def building_payments(building_capital, interest_rate, building_depreciation_time):
    """Yearly payments for the building over its life, with interest.

    price x r / (1 - (1 + r)^-n)

    Returns: [USD] per year
    Source: Short et al. 1995, NREL/TP-462-5173, section 3 (capital recovery factor)
    """
    return building_capital * capital_recovery_factor(interest_rate, building_depreciation_time)


def operating_cost(
    machine_capital,
    maintenance_share,
    facility_power,
    mean_power_share,
    electricity_price,
    yearly_staff_cost,
):
    """Yearly operating cost: repairs, electricity, staff and rent of space.

    machines x maintenance + power x share drawn x price of electricity x a year + staff

    Returns: [USD] per year
    Range: the same share all year; idle nodes draw less, so that it is the mean of both
    Source: by definition
    """
    electricity = facility_power * mean_power_share * electricity_price * 31557600.0
    return machine_capital * maintenance_share + electricity + yearly_staff_cost


def ownership_cost(machine_payments, building_payments, operating_cost):
    """Total yearly cost of ownership of the cluster.

    machines + building + operation

    Returns: [USD] per year
    Source: by definition
    """
    return machine_payments + building_payments + operating_cost


def owned_gpu_hour_cost(ownership_cost, allocated_gpus, cluster_utilization):
    """Cost of one hour of an owned GPU in use by a job.

    yearly cost / (GPUs x hours of a year x share in use)

    Returns: [USD/h] cost
    Source: by definition
    """
    return ownership_cost / (allocated_gpus * 8766.0 * cluster_utilization)


def break_even_utilization(ownership_cost, allocated_gpus, gpu_hour_price):
    """Utilization above which owning costs less than renting.

    yearly cost / (GPUs x hours of a year x price of a rented hour)

    Returns: [1] share of time in use; above 1, renting costs less at any utilization
    Source: by definition
    """
    return ownership_cost / (allocated_gpus * 8766.0 * gpu_hour_price)


@alternative("gpu_cost", pricing="owned")
def owned_gpu_cost(gpu_hours, owned_gpu_hour_cost):
    """Cost of the run's GPU-hours on an owned cluster, electricity included.

    GPU-hours x cost per hour

    Source: by definition
    """
    return gpu_hours * owned_gpu_hour_cost
