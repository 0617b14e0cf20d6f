"""Cost of owning a cluster: what it consists of, bought and written off."""

import numpy as np

from ...alternatives import alternative
from ...ops import where
from ...ownership import capital_recovery_factor, discount_factor


@alternative("fabric_capital", fabric_pricing="per_gpu")
def whole_fabric_capital(allocated_gpus, fabric_price):
    """Price of the network: cards, switches, optics and cables.

    GPUs x price a GPU

    Returns: [USD] price
    Source: by definition
    """
    return allocated_gpus * fabric_price


def fabric_tiers(
    allocated_gpus, sites, gpus_per_switch, oversubscription, gpus_per_pod, pod_oversubscription
):
    """Tiers of switches in the fat tree that joins the GPUs of a site.

    1, and one more beyond each of L, P and k P GPUs, where k = max(L (1 + 1 / o), P / L). Without
    pods (P infinite) each tier ends where its switches have no ports left: beyond L, L k and
    k L k p / (1 + p). L GPUs stand behind a leaf switch of o downlinks for an uplink, P in a pod
    whose leaf switches one layer joins, with p links up for one that leaves it

    Returns: [1] tiers, 1 to 4
    Range: fat trees, one port for a GPU, no torus or dragonfly; switches above have as many ports k
        as leaf switches, or as pods that are stated take; more than four tiers (without pods
        2 million GPUs with 64 ports) are counted as four
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
    """Links from leaf switches up, of a fat tree.

    GPUs / oversubscription, where there is a tier above

    Returns: [1] links
    Range: switches that are filled; those that are not have ports to spare
    Source: Al-Fares et al. 2008 (SIGCOMM), section 2.2
    """
    return where(fabric_tiers > 1, allocated_gpus / oversubscription, 0.0)


def pod_uplinks(leaf_uplinks, pod_oversubscription, fabric_tiers):
    """Links that leave pods, of a fat tree.

    links from leaf switches / oversubscription of pods, where there is a third tier

    Returns: [1] links
    Range: switches that are filled; those that are not have ports to spare
    Source: Al-Fares et al. 2008 (SIGCOMM), section 2.2
    """
    return where(fabric_tiers > 2, leaf_uplinks / pod_oversubscription, 0.0)


def core_uplinks(pod_uplinks, fabric_tiers):
    """Links from the third tier of a fat tree up to the fourth, as many as come from below.

    links that leave pods, where there is a fourth tier

    Returns: [1] links
    Range: switches that are filled; those that are not have ports to spare
    Source: Al-Fares et al. 2008 (SIGCOMM), section 2.2
    """
    return where(fabric_tiers > 3, pod_uplinks, 0.0)


def switch_ports(allocated_gpus, leaf_uplinks, pod_uplinks, core_uplinks):
    """Ports of all switches of a fat tree that are in use.

    one for each GPU, two for each link between switches

    Returns: [1] ports; 3 a GPU in two tiers without oversubscription, 5 in three
    Range: switches that are filled; those that are not have ports to spare
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
    """Price of a network that is counted: a card and a link for each GPU, ports, links by tier.

    GPUs x (fabric_price + card + link) + ports x price + uplinks x price of each tier

    Range: fat trees; `fabric_price` is what else one GPU's share comes to
    """
    gpu = fabric_price + nic_price + node_link_price
    switched = switch_ports * switch_port_price + leaf_uplinks * leaf_link_price
    return allocated_gpus * gpu + switched + (pod_uplinks + core_uplinks) * pod_link_price


def machine_capital(allocated_nodes, node_price, fabric_capital, storage_price):
    """Price of what is replaced together: nodes, network and storage.

    nodes x price + network + storage

    Returns: [USD] price
    Source: by definition
    """
    return allocated_nodes * node_price + fabric_capital + storage_price


def building_capital(facility_power, building_price):
    """Price of the building with its power and cooling.

    power of the facility x price of a watt

    Returns: [USD] price
    Source: by definition
    """
    return facility_power * building_price


def capital_cost(machine_capital, building_capital):
    """Price of the cluster: machines, network, storage, and its building.

    machines + building

    Returns: [USD] price
    Source: by definition
    """
    return machine_capital + building_capital


def machine_payments(machine_capital, resale_share, interest_rate, depreciation_time):
    """What the machines come to in a year: repaid with interest over their life, less their resale.

    price x (1 - resale x (1 + r)^-n) x r / (1 - (1 + r)^-n)

    Returns: [USD] a year
    Range: without interest (price - resale) / years, the straight line
    Source: Short et al. 1995, NREL/TP-462-5173, section 3 (capital recovery factor)
    """
    left = 1 - resale_share * discount_factor(interest_rate, depreciation_time)
    return machine_capital * left * capital_recovery_factor(interest_rate, depreciation_time)


def building_payments(building_capital, interest_rate, building_depreciation_time):
    """What the building comes to in a year: repaid with interest over its life.

    price x r / (1 - (1 + r)^-n)

    Returns: [USD] a year
    Source: Short et al. 1995, NREL/TP-462-5173, section 3 (capital recovery factor)
    """
    return building_capital * capital_recovery_factor(interest_rate, building_depreciation_time)


def operating_cost(
    machine_capital, maintenance_share, facility_power, electricity_price, yearly_staff_cost
):
    """What running the cluster comes to in a year: repairs, electricity, staff and rent of space.

    machines x maintenance + power x price of electricity x a year + staff

    Returns: [USD] a year
    Range: the power of `facility_power` is drawn all year, in use or not
    Source: by definition
    """
    electricity = facility_power * electricity_price * 31557600.0
    return machine_capital * maintenance_share + electricity + yearly_staff_cost


def ownership_cost(machine_payments, building_payments, operating_cost):
    """What the cluster comes to in a year, all told.

    machines + building + running

    Returns: [USD] a year
    Source: by definition
    """
    return machine_payments + building_payments + operating_cost


def owned_gpu_hour_cost(ownership_cost, allocated_gpus, cluster_utilization):
    """What an hour of one GPU comes to that one owns, of those hours in which a job has it.

    cost of a year / (GPUs x hours of a year x share in use)

    Returns: [USD/h] price
    Source: by definition
    """
    return ownership_cost / (allocated_gpus * 8766.0 * cluster_utilization)


def break_even_utilization(ownership_cost, allocated_gpus, gpu_hour_price):
    """Share of the time in use from which owning costs less than renting.

    cost of a year / (GPUs x hours of a year x price of a rented hour)

    Returns: [1] share; above 1 renting costs less at any use
    Source: by definition
    """
    return ownership_cost / (allocated_gpus * 8766.0 * gpu_hour_price)


@alternative("gpu_cost", pricing="owned")
def owned_gpu_cost(gpu_hours, owned_gpu_hour_cost):
    """Price of the run's GPU-hours on a cluster that one owns, electricity inside.

    GPU-hours x what an hour comes to

    Source: by definition
    """
    return gpu_hours * owned_gpu_hour_cost
