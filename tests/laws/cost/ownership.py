"""Cost of ownership: loans and machines simulated year by year."""

from typing import Any

from fleetcube.kernels.laws import ownership

from ...evaluated import values
from ..check import Pairs, check

YEAR = 31557600.0
CLUSTER: dict[str, Any] = {
    "n_gpus": 1024, "gpu_tdp": 700, "node_overhead_power": 4000, "pue": 1.3, "node_price": 3e5,
    "fabric_price": 4e3, "storage_price": 5e6, "building_price": 10, "depreciation_time": "4 yr",
    "building_depreciation_time": "15 yr", "interest_rate": 0.08, "resale_share": 0.2,
    "maintenance_share": 0.03, "electricity_price": "0.08 USD/kWh", "yearly_staff_cost": 2e6,
    "cluster_utilization": 0.8, "job_time": "30 d", "gpu_hour_price": 3,
}  # fmt: skip


def paid(loan: float, rate: float, years: int, left: float = 0.0) -> float:
    """The yearly payment that leaves a given rest of a loan, found by bisection."""
    low, high = 0.0, loan * (1 + rate)
    for _ in range(200):
        payment = (low + high) / 2
        owed = loan
        for _ in range(years):
            owed = owed * (1 + rate) - payment
        low, high = (payment, high) if owed > left else (low, payment)
    return payment


@check(
    "capital_recovery_factor discount_factor",
    by="simulator",
    source="loans played year by year, with interest and payments",
)
def loans() -> Pairs:
    """no interest, hardly any, 1 to 50 %; one year to forty"""
    for years in (1, 4, 15, 40):
        for rate in (0.0, 1e-10, 1e-9, 1e-7, 0.01, 0.1, 0.5):
            factor = ownership.capital_recovery_factor(rate, years * YEAR)
            yield factor, paid(1.0, rate, years)
            saved = 1.0
            for _ in range(years):
                saved /= 1 + rate
            yield ownership.discount_factor(rate, years * YEAR), saved


@check(
    "capital_recovery_factor",
    by="table",
    source="Short, Packey and Holt 1995, NREL/TP-462-5173: the uniform capital recovery factor, as "
    "tables of interest have it (10 %: 5 years 0.2638, 10 years 0.1627, 20 years 0.1175)",
    tolerance=4e-4,
)
def tables_of_interest() -> Pairs:
    """10 % over 5, 10 and 20 years"""
    for years, factor in ((5, 0.2638), (10, 0.1627), (20, 0.1175)):
        yield ownership.capital_recovery_factor(0.1, years * YEAR), factor


@check(
    "machine_capital machine_payments building_payments operating_cost ownership_cost "
    "owned_gpu_hour_cost break_even_utilization owned_gpu_cost",
    by="simulator",
    source="a cluster bought, run and sold, its books kept year by year",
)
def books() -> Pairs:
    """with and without interest, resale, a building; one year's life"""
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"interest_rate": 0},
        {"interest_rate": 0, "resale_share": 1.0},
        {"building_price": 0, "storage_price": 0, "fabric_price": 0, "maintenance_share": 0},
        {"depreciation_time": "1 yr", "building_depreciation_time": "1 yr"},
    )
    for changed in changes:
        said = {**CLUSTER, **changed}
        nodes, gpus = said["n_gpus"] // 8, said["n_gpus"]
        power = nodes * (8 * 700 + 4000) * 1.3
        machines = nodes * said["node_price"] + gpus * said["fabric_price"] + said["storage_price"]
        rate = said["interest_rate"]
        years, long = (
            int(said[name].split()[0])
            for name in ("depreciation_time", "building_depreciation_time")
        )
        year = paid(machines, rate, years, said["resale_share"] * machines)
        year += paid(power * said["building_price"], rate, long)
        year += machines * said["maintenance_share"] + said["yearly_staff_cost"]
        year += 0.82 * power / 1e3 * 365.25 * 24 * 0.08
        hour = year / gpus / (365.25 * 24) / 0.8
        names = [
            *("ownership_cost", "owned_gpu_hour_cost", "job_cost", "break_even_utilization"),
            *("capital_cost", "machine_capital"),
        ]
        found = values(names, **said)
        yield found["ownership_cost"], year
        yield found["owned_gpu_hour_cost"], hour
        yield found["job_cost"], hour * gpus * 30 * 24
        yield found["break_even_utilization"], hour * 0.8 / 3
        yield found["machine_capital"], machines
        yield found["capital_cost"], machines + power * said["building_price"]


@check(
    "machine_payments building_payments operating_cost ownership_cost owned_gpu_hour_cost",
    by="simulator",
    source="a fleet bought, replaced and sold, its building paid off: accounts month by month",
)
def accounts() -> Pairs:
    """twelve years of three generations; jobs pay by the hour, and leave the account at zero"""
    for rate, busy in ((0.0, 1.0), (0.08, 0.8), (0.2, 0.35)):
        said = {**CLUSTER, "building_depreciation_time": "12 yr", "interest_rate": rate}
        said |= {"cluster_utilization": busy, "mean_power_share": 0.7}
        nodes, gpus = 128, 1024
        rated = nodes * (8 * 700 + 4000) * 1.3
        machines = nodes * 3e5 + gpus * 4e3 + 5e6
        hour = float(values(["owned_gpu_hour_cost"], **said)["owned_gpu_hour_cost"])
        account, turnover, earned = -rated * 10.0, rated * 10.0, 0.0
        for month in range(144):
            if month % 48 == 0:
                account -= machines
                turnover += machines
            hours = 365.25 * 24 / 12
            earned += hours * busy * gpus * hour
            earned -= hours * 0.7 * rated / 1e3 * 0.08  # USD/kWh, whatever runs
            earned -= (machines * 0.03 + 2e6) / 12
            if month % 12 == 11:  # interest and income of a year are booked at its end
                account, earned = account * (1 + rate) + earned, 0.0
            if month % 48 == 47:
                account += 0.2 * machines
        yield 1 + account / turnover, 1.0


SWITCHED = {"gpus_per_switch": 32, "sites": 1, "node_price": 4e5}
TIERS = ("fabric_tiers", "leaf_uplinks", "pod_uplinks", "core_uplinks", "switch_ports")


@check(
    *TIERS,
    by="table",
    source="NVIDIA, DGX SuperPOD reference architecture for DGX B200, table of larger component "
    "counts: GPUs; leaf, spine and core switches of 64 ports; cables node-leaf, leaf-spine and "
    "spine-core",
)
def superpods() -> Pairs:
    """512 to 16,384 GPUs: two and three tiers"""
    for gpus, leaves, spines, cores, *cables in (
        (512, 16, 8, 0, 512, 512, 0),
        (1024, 32, 16, 0, 1024, 1024, 0),
        (2048, 64, 32, 0, 2048, 2048, 0),
        (4096, 128, 128, 64, 4096, 4096, 4096),
        (8192, 256, 256, 128, 8192, 8192, 8192),
        (16384, 512, 512, 256, 16384, 16384, 16384),
    ):
        found = values(TIERS, n_gpus=gpus, **SWITCHED)
        yield found["fabric_tiers"], 3 if cores else 2
        yield found["leaf_uplinks"], cables[1]
        yield found["pod_uplinks"], cables[2]
        yield found["switch_ports"], 64 * (leaves + spines + cores)


@check(
    "fabric_tiers pod_uplinks",
    by="table",
    source="Llama 3 report (arXiv:2407.21783), section 3.3.1: 24,576 GPUs, 16 to a rack switch, "
    "pods of 3,072 that one layer joins, 1:7 between pods, in three tiers",
)
def clusters_of_pods() -> Pairs:
    """two GPUs more than a pod; eight pods; a pod; a rack"""
    pods = {"gpus_per_switch": 16, "gpus_per_pod": 3072, "pod_oversubscription": 7}
    for gpus, tiers, leaving in (
        (24576, 3, 24576 / 7),
        (3074, 3, 3074 / 7),
        (3072, 2, 0),
        (16, 1, 0),
    ):
        found = values(("fabric_tiers", "pod_uplinks"), n_gpus=gpus, node_price=4e5, **pods)
        yield found["fabric_tiers"], tiers
        yield found["pod_uplinks"], leaving


@check(
    *TIERS,
    "counted_fabric_capital",
    by="simulator",
    source="fat trees built switch by switch (k-ary n-trees), with and without oversubscription, "
    "their ports and links counted one by one",
)
def built() -> Pairs:
    """one to four tiers; leaf switches and pods oversubscribed; two sites; one GPU"""
    prices = {"nic_price": 7.0, "node_link_price": 11.0, "switch_port_price": 13.0}
    prices |= {"leaf_link_price": 17.0, "pod_link_price": 19.0, "fabric_price": 23.0}
    for down, up, pod, out, tiers in (
        (4, 4, 1, 1, 1),  # a single leaf switch
        (4, 4, 8, 1, 2),  # 8 leaf switches and 4 spines: 32 GPUs
        (6, 2, 8, 1, 2),  # 3 : 1
        (4, 4, 4, 1, 3),  # 4 leaf switches a pod, 8 pods: 128 GPUs
        (4, 4, 4, 2, 3),  # half of the links leave pods
        (4, 4, 4, 1, 4),  # 4 such trees: 512 GPUs
    ):
        links, gpus = _tree(down, up, pod, out, tiers)
        said = {"gpus_per_switch": down, "oversubscription": down / up, "node_price": 4e5}
        if tiers > 2:
            said |= {"gpus_per_pod": down * pod, "pod_oversubscription": out}
        for sites in (1, 2):
            given = {"n_gpus": gpus * sites, "sites": sites, "site_bandwidth": 1e11, **said}
            given |= {**prices}
            found = values((*TIERS, "fabric_capital"), **given)
            yield found["fabric_tiers"], tiers
            for name, count in zip(TIERS[1:4], links, strict=True):
                yield found[name], count * sites
            yield found["switch_ports"], sites * (gpus + 2 * sum(links))
            whole = gpus * (7 + 11 + 23) + 13 * (gpus + 2 * sum(links))
            whole += 17 * links[0] + 19 * (links[1] + links[2])
            yield found["fabric_capital"], sites * whole


def _tree(down: int, up: int, pod: int, out: int, tiers: int) -> tuple[list[int], int]:
    """Links between switches by tier, and GPUs, of a fat tree whose switches are all filled."""
    radix = down + up
    if tiers == 1:
        return [0, 0, 0], down
    if tiers == 2:  # each of `up` spines has a port for every leaf switch
        leaves = [(leaf, spine) for leaf in range(radix) for spine in range(up)]
        return [len(leaves), 0, 0], radix * down
    trees = radix // 2 if tiers == 4 else 1
    pods = [(tree, each) for tree in range(trees) for each in range(radix)]
    leaf = [(*own, low, spine) for own in pods for low in range(pod) for spine in range(up)]
    leaving = len(leaf) // out
    return [len(leaf), leaving, leaving if tiers == 4 else 0], len(pods) * pod * down
