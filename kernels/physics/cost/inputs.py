"""Inputs of power and cost."""

import math

from ...declare import count, declared, option, real, switch

_PARTS_OF_FABRIC = (
    *("nic_price", "node_link_price", "switch_port_price", "leaf_link_price", "pod_link_price"),
)  # prices

INPUTS = declared(
    "hardware",
    real(
        "gpu_tdp",
        "W",
        None,
        "most power of one GPU: of its node, where node_power is not given, and by it the share of "
        "the peak that products reach (calibration = auto)",
    ),
    real("node_overhead_power", "W", 0.0, "power of a node besides its GPUs", positive=False),
    real("node_price", "USD", None, "price of one node with its GPUs, without the network"),
    real("storage_price", "USD", 0.0, "price of the cluster's storage", positive=False),
    "fabric",
    real("fabric_price", "USD", 0.0, "price of the network for one GPU", positive=False),
    option(
        "fabric_pricing",
        "per_gpu",
        ("per_gpu", "ports"),
        "the network comes to fabric_price a GPU, or to its cards, ports and links, as a fat tree "
        "has them",
        implied="ports",
        implied_by=_PARTS_OF_FABRIC,
    ),
    real("nic_price", "USD", 0.0, "price of the network card of one GPU", positive=False),
    real(
        "node_link_price",
        "USD",
        0.0,
        "price of a link from a card to its leaf switch, with optics at both ends",
        positive=False,
    ),
    real("switch_port_price", "USD", 0.0, "price of one port of a switch", positive=False),
    real(
        "leaf_link_price",
        "USD",
        0.0,
        "price of a link from a leaf switch up, with optics at both ends",
        positive=False,
    ),
    real(
        "pod_link_price",
        "USD",
        0.0,
        "price of a link that leaves a pod, with optics at both ends",
        positive=False,
    ),
    "operations",
    real("rack_power", "W", 70e3, "power that one rack may draw"),
    count("racks_per_row", 1, "racks that are built together (1: rows do not matter)"),
    switch("site_limits", "whether a job must fit its site", "site_power", "site_racks"),
    real("site_power", "W", math.inf, "power a site may draw, with cooling and losses (inf: any)"),
    real("cooling_power", "W", math.inf, "heat that a site's cooling takes away (infinite: all)"),
    real("site_racks", "1", math.inf, "racks that a site has room for (infinite: any)"),
    real(
        "mean_power_share",
        "1",
        0.82,
        "mean over rated power of nodes that train (a DGX H100 draws 8.4 of 10.2 kW)",
        high=1.0,
    ),
    real("pue", "1", 1.2, "facility over IT power (1.06 to 1.58; 1.12 is good air cooling)"),
    real("grid_carbon_intensity", "kg/J", None, "carbon dioxide of one unit of electricity"),
    real("electricity_price", "USD/J", None, "price of one unit of electricity"),
    real("gpu_hour_price", "USD/h", None, "price of one GPU for one hour (a month has 730.5)"),
    switch("contract_limits", "whether a job must fit its contract", "contract_nodes"),
    count("contract_nodes", None, "nodes of a contract"),
    real("contract_time", "s", None, "for which a contract has each node, from its delivery on"),
    count("first_delivery_nodes", 0, "nodes of a contract that come at once", low=0),
    real(
        "delivery_time",
        "s",
        None,
        "until a contract's last node comes, evenly after the first",
        positive=False,
    ),
    option(
        "pricing",
        "rented",
        ("rented", "take_or_pay", "owned"),
        "GPU-hours are paid for, those of a contract also where not used (needs contract_nodes and "
        "contract_time), or come to what owning the cluster does (needs node_price, "
        "depreciation_time and electricity_price)",
        implied="owned",
        implied_by=("node_price",),
    ),
    real("building_price", "USD/W", 0.0, "price of the building for one watt", positive=False),
    real("depreciation_time", "s", None, "life of nodes, network and storage"),
    real("building_depreciation_time", "s", 20 * 31557600.0, "life of the building"),
    real("interest_rate", "1", 0.0, "interest of one year (0: a straight line)", positive=False),
    real(
        "resale_share",
        "1",
        0.0,
        "price of machines left at their end",
        positive=False,
        high=1.0,
    ),
    real(
        "maintenance_share",
        "1",
        0.0,
        "price of machines spent a year on repairs",
        positive=False,
    ),
    real("yearly_staff_cost", "USD", 0.0, "staff, space and whatever else a year", positive=False),
    real(
        "cluster_utilization",
        "1",
        1.0,
        "share of the time in which jobs have the GPUs",
        high=1.0,
    ),
    switch(
        "reserves",
        "backup workers and spare nodes are powered and paid for",
        "backup_workers",
        "spare_nodes",
    ),
)
