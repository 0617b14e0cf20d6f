"""What it costs to own the cluster: its price, what it comes to in a year, and in a GPU-hour.

Every price is stated; one of 0 is not counted. The cluster is what is allocated: the job's GPUs,
and its reserves where they are paid for.
"""

from typing import Any

from ..alternatives import alternative
from ..ownership import capital_recovery_factor, discount_factor


def fabric_capital(allocated_gpus: Any, fabric_price: Any) -> Any:
    """Price of the network: cards, switches, optics and cables.

    GPUs x price a GPU

    Parameters: allocated_gpus [1], fabric_price [USD]
    Returns: [USD] price
    Source: by definition
    """
    return allocated_gpus * fabric_price


def machine_capital(
    allocated_nodes: Any, node_price: Any, fabric_capital: Any, storage_price: Any
) -> Any:
    """Price of what is replaced together: nodes, network and storage.

    nodes x price + network + storage

    Parameters: allocated_nodes [1], node_price [USD], fabric_capital [USD], storage_price [USD]
    Returns: [USD] price
    Source: by definition
    """
    return allocated_nodes * node_price + fabric_capital + storage_price


def building_capital(facility_power: Any, building_price: Any) -> Any:
    """Price of the building with its power and cooling.

    power of the facility x price of a watt

    Parameters: facility_power [W], building_price [USD/W]
    Returns: [USD] price
    Source: by definition
    """
    return facility_power * building_price


def capital_cost(machine_capital: Any, building_capital: Any) -> Any:
    """Price of the cluster: machines, network, storage, and its building.

    machines + building

    Parameters: machine_capital [USD], building_capital [USD]
    Returns: [USD] price
    Source: by definition
    """
    return machine_capital + building_capital


def machine_payments(
    machine_capital: Any, resale_share: Any, interest_rate: Any, depreciation_time: Any
) -> Any:
    """What the machines come to in a year: repaid with interest over their life, less their resale.

    price x (1 - resale x (1 + r)^-n) x r / (1 - (1 + r)^-n)

    Parameters: machine_capital [USD], resale_share [1], interest_rate [1], depreciation_time [s]
    Returns: [USD] a year
    Range: without interest (price - resale) / years, the straight line
    Source: Short et al. 1995, NREL/TP-462-5173, section 3 (capital recovery factor)
    """
    left = 1 - resale_share * discount_factor(interest_rate, depreciation_time)
    return machine_capital * left * capital_recovery_factor(interest_rate, depreciation_time)


def building_payments(
    building_capital: Any, interest_rate: Any, building_depreciation_time: Any
) -> Any:
    """What the building comes to in a year: repaid with interest over its life.

    price x r / (1 - (1 + r)^-n)

    Parameters: building_capital [USD], interest_rate [1], building_depreciation_time [s]
    Returns: [USD] a year
    Source: Short et al. 1995, NREL/TP-462-5173, section 3 (capital recovery factor)
    """
    return building_capital * capital_recovery_factor(interest_rate, building_depreciation_time)


def operating_cost(
    machine_capital: Any,
    maintenance_share: Any,
    facility_power: Any,
    electricity_price: Any,
    yearly_staff_cost: Any,
) -> Any:
    """What running the cluster comes to in a year: repairs, electricity, staff and rent of space.

    machines x maintenance + power x price of electricity x a year + staff

    Parameters:
        machine_capital [USD], maintenance_share [1], facility_power [W]
        electricity_price [USD/J], yearly_staff_cost [USD]
    Returns: [USD] a year
    Range: the power of `facility_power` is drawn all year, in use or not
    Source: by definition
    """
    electricity = facility_power * electricity_price * 31557600.0
    return machine_capital * maintenance_share + electricity + yearly_staff_cost


def ownership_cost(machine_payments: Any, building_payments: Any, operating_cost: Any) -> Any:
    """What the cluster comes to in a year, all told.

    machines + building + running

    Parameters: machine_payments [USD], building_payments [USD], operating_cost [USD]
    Returns: [USD] a year
    Source: by definition
    """
    return machine_payments + building_payments + operating_cost


def owned_gpu_hour_cost(ownership_cost: Any, allocated_gpus: Any, cluster_utilization: Any) -> Any:
    """What an hour of one GPU comes to that one owns, of those hours in which a job has it.

    cost of a year / (GPUs x hours of a year x share in use)

    Parameters: ownership_cost [USD], allocated_gpus [1], cluster_utilization [1]
    Returns: [USD/h] price
    Source: by definition
    """
    return ownership_cost / (allocated_gpus * 8766.0 * cluster_utilization)


def break_even_utilization(ownership_cost: Any, allocated_gpus: Any, gpu_hour_price: Any) -> Any:
    """Share of the time in use from which owning costs less than renting.

    cost of a year / (GPUs x hours of a year x price of a rented hour)

    Parameters: ownership_cost [USD], allocated_gpus [1], gpu_hour_price [USD/h]
    Returns: [1] share; above 1 renting costs less at any use
    Source: by definition
    """
    return ownership_cost / (allocated_gpus * 8766.0 * gpu_hour_price)


@alternative("gpu_cost", pricing="owned")
def owned_gpu_cost(gpu_hours: Any, owned_gpu_hour_cost: Any) -> Any:
    """Price of the run's GPU-hours on a cluster that one owns, electricity inside.

    GPU-hours x what an hour comes to

    Parameters: gpu_hours [h], owned_gpu_hour_cost [USD/h]
    Returns: [USD] price
    Source: by definition
    """
    return gpu_hours * owned_gpu_hour_cost
