"""Whole runs: ledgers of time, energy and money, and published numbers."""

import math
from fractions import Fraction

import numpy as np

import fleetcube

from ... import formulas
from ...draws import generator
from ..check import Pairs, check


@check(
    "attempted_steps job_time useful_compute_share compute_inefficiency_overhead "
    "reliability_overhead reliability_to_communication_ratio",
    by="simulator",
    source="a ledger of 1,000 steps, checkpoints, failures and an outage, second by second",
)
def ledger() -> Pairs:
    """every share of the wall time of one run, and their sum"""
    parts = {"ideal": 2.0, "slow": 1.5, "traffic": 0.75, "bubble": 0.5, "straggler": 0.25}
    spent = dict.fromkeys([*parts, "checkpoint", "rework", "recovery", "outage"], 0.0)
    for step in range(1000):
        for name, seconds in parts.items():
            spent[name] += seconds
        if step % 100 == 99:
            spent["checkpoint"] += 30.0
        if step in (250, 777):
            spent["rework"] += 300.0
            spent["recovery"] += 600.0
    spent["outage"] = 2000.0
    wall, up = sum(spent.values()), sum(spent.values()) - spent["outage"]
    step = sum(parts.values())
    goodput, availability = 1000 * step / up, up / wall
    rate = goodput / step
    steps = formulas.attempted_steps(1000, goodput, availability)
    yield steps, wall / step
    yield formulas.job_time(steps, step), wall
    yield formulas.useful_compute_share(parts["ideal"], rate), spent["ideal"] / up
    slow = formulas.compute_inefficiency_overhead(3.0, 0.3, 0.2, parts["ideal"], rate)
    yield slow, spent["slow"] / up
    lost = [spent[name] / up for name in ("checkpoint", "rework", "recovery")]
    reliability = formulas.reliability_overhead(*lost)
    yield reliability, 1 - goodput
    ratio = formulas.reliability_to_communication_ratio(
        formulas.reliability_to_useful_ratio(reliability, goodput),
        formulas.communication_fraction(parts["traffic"], step),
    )
    yield ratio, (up - 1000 * step) / spent["traffic"]


@check(
    "communication_fraction_of_shifted "
    "scaling_efficiency_of_shifted compute_inefficiency_overhead_of_shifted "
    "bubble_overhead_of_shifted straggler_overhead_of_shifted ideal_job_time_of_shifted "
    "communication_overhead utilization_efficiency",
    by="simulator",
    source="a ledger of 1,000 steps whose every part takes as many times what was computed as was "
    "measured, or as its place in the interval says",
)
def slower_ledger() -> Pairs:
    """steps of 1.25, 0.8 and 1.25 x 1.44^0.5 times the computed ones, checkpoints between"""
    parts = {"compute_time": 4.0, "optimizer_time": 0.25, "serial_time_per_step": 0.125}
    parts |= {"exposed_communication_time": 0.75, "bubble_time": 0.5, "straggler_time": 0.375}
    for own, place, ticks in ((1.25, 0.0, 1.25), (0.8, 0.0, 0.8), (1.25, 0.5, 1.5)):
        spent = dict.fromkeys([*parts, "checkpoint", "hidden"], 0.0)
        for step in range(1000):
            for name, seconds in parts.items():
                spent[name] += seconds * ticks
            spent["hidden"] += 0.5 * ticks  # beside the computing: in no sum
            spent["checkpoint"] += 30.0 * (step % 100 == 99)
        wall = sum(spent.values()) - spent["hidden"]
        traffic = spent["exposed_communication_time"]
        steps = wall - spent["checkpoint"]
        given = parts | {"ideal_compute_time": 2.0, "communication_time": 1.25, "n_gpus": 8}
        given |= {"step_time_factor": own, "step_time_error": place, "error_factor": 1.44}
        given |= {"goodput": steps / wall, "training_steps": 1000.0, "job_time": wall}
        slow = sum(spent[n] for n in ("compute_time", "optimizer_time", "serial_time_per_step"))
        theirs = {
            "communication_fraction": traffic / steps,
            "scaling_efficiency": spent["compute_time"] / steps,
            "compute_inefficiency_overhead": (slow - 1000 * 2.0) / wall,
            "communication_overhead": traffic / wall,
            "bubble_overhead": spent["bubble_time"] / wall,
            "straggler_overhead": spent["straggler_time"] / wall,
            "ideal_job_time": spent["compute_time"],
            "utilization_efficiency": spent["compute_time"] / wall,
        }
        for name, share in theirs.items():
            yield fleetcube.evaluate(name, **given), share


@check("dominant_overhead", by="derivation", source="the losses sorted, the first of equals taken")
def largest_loss() -> Pairs:
    """each of seven as the largest, ties, all 0, and an undefined one"""
    cases = [[float(k == j) for k in range(7)] for j in range(7)]
    cases += [[0.1, 0.3, 0.3, 0.0, 0.3, 0.2, 0.1], [0.0] * 7]
    for losses in cases:
        theirs = sorted(range(7), key=lambda k, losses=losses: (-losses[k], k))[0]
        yield formulas.dominant_overhead(*losses), theirs
    yield formulas.dominant_overhead(0.1, math.nan, 0.0, 0.0, 0.0, 0.0, 0.0), math.nan


@check(
    "node_power it_power facility_power racks",
    by="table",
    source="Fleet Foundations: 10,000 GPUs of 700 W need 7 MW; PUE 1.58 and 1.06",
)
def power_of_a_cluster() -> Pairs:
    """four printed numbers, and nodes added up one by one"""
    node = formulas.node_power(8, 700, 0)
    yield formulas.it_power(1250, node), 7e6
    yield formulas.racks(10_000, formulas.nodes_per_rack(70e3, 700), 700, 70e3), 100
    saved = formulas.facility_power(10e6, 1.58) - formulas.facility_power(10e6, 1.06)
    yield saved, 5.2e6
    yield formulas.node_power(8, 700, 4600), sum(700 for _ in range(8)) + 4600
    yield formulas.it_power(3, 10200), 10200 + 10200 + 10200


@check(
    "nodes_per_rack racks",
    by="simulator",
    source="nodes put into racks one by one, each whole; one that no rack feeds into several",
)
def nodes_in_racks() -> Pairs:
    """2,000 drawn clusters, racks of 5 to 142 kW and nodes of 0.7 to 142 kW; 9,216 GB300 in racks
    of 132 and of 70 kW"""
    draw = generator(58)
    drawn = np.stack([draw.uniform(5e3, 142e3, 2000), draw.uniform(700, 142e3, 2000)], axis=1)
    cases = [
        (rack, node, int(n))
        for (rack, node), n in zip(drawn, draw.integers(1, 300, 2000), strict=True)
    ]
    # 7 nodes of 10.2 kW in 0.0714 MW, and others whose ratio rounds to below a whole number
    cases += [
        (float(f"{k * node / 1e6:.7f}") * 1e6, node, 50)
        for k in range(1, 30)
        for node in (10.2e3, 12.3e3)
    ]
    for watts, power, nodes in (*cases, (132e3, 132e3, 128), (70e3, 132e3, 128)):
        rack, node = Fraction(f"{watts:.6f}"), Fraction(f"{power:.6f}")
        fed = 0
        while (fed + 1) * node <= rack:
            fed += 1
        yield formulas.nodes_per_rack(watts, power), fed
        filled, free = 0, Fraction(0)
        for _ in range(nodes):
            if free < node:
                filled, free = filled + 1, rack
            need = node
            while need > free:  # only one that no rack feeds
                need, filled, free = need - free, filled + 1, rack
            free = free - need if fed else Fraction(0)
        yield formulas.racks(nodes, fed, power, watts), filled


@check(
    "powered_gpus",
    by="simulator",
    source="rows of full racks built one by one, while the power, the cooling and the room last",
)
def rows_of_racks() -> Pairs:
    """500 drawn sites of 1 to 30 MW, rows of 1 to 20 racks of 5 to 142 kW, nodes of 4 to 142 kW"""
    draw = generator(62)
    for _ in range(500):
        watts, cooling = draw.uniform(1e6, 30e6), draw.choice([draw.uniform(1e6, 30e6), math.inf])
        rack, node = draw.uniform(5e3, 142e3), draw.uniform(4e3, 142e3)
        room, row = draw.choice([float(draw.integers(1, 500)), math.inf]), int(draw.integers(1, 21))
        fed = formulas.nodes_per_rack(rack, node)
        nodes, racks = 0, 0  # of a row, filled rack by rack; a node may need several
        while racks == 0 or racks + math.ceil(node / rack) <= row:
            nodes, racks = nodes + max(int(fed), 1), racks + math.ceil(node / rack)
        built, left, free = 0, min(watts / 1.2, cooling), room
        while left >= nodes * node and free >= max(row, racks):
            built, left, free = built + nodes * 8, left - nodes * node, free - max(row, racks)
        ours = formulas.powered_gpus(watts, 1.2, cooling, room, rack, row, fed, node, 8)
        yield ours, built


def _deliveries(contract: int, first: int, time: float) -> list[float]:
    """When each node of a contract comes."""
    return [0.0] * first + [time * (k + 1) / (contract - first) for k in range(contract - first)]


@check(
    "delivery_wait completion_time committed_cost take_or_pay_job_cost limited_contract_reason",
    by="simulator",
    source="nodes delivered one by one to a job that waits for all of its own; a bill kept day by "
    "day, of node-days drawn from those paid at delivery, and then of more",
)
def contracts() -> Pairs:
    """200 drawn contracts of 1 to 600 nodes over 0 to 90 days, jobs of 1 to 650 nodes"""
    draw = generator(63)
    for _ in range(200):
        contract, job = int(draw.integers(1, 601)), int(draw.integers(1, 651))
        first, time = int(draw.integers(0, contract + 1)), int(draw.integers(0, 91)) * 86400.0
        days, term, price = int(draw.integers(1, 121)), int(draw.integers(1, 121)), 2.0
        came = _deliveries(contract, first, time)
        start = came[job - 1] if job <= contract else math.inf
        wait = formulas.delivery_wait(job, contract, first, time)
        yield wait, start
        yield formulas.limited_contract_reason(job, contract), 0 if came[job - 1 : job] else 40
        yield formulas.completion_time(wait, days * 86400.0), start + days * 86400.0
        paid, left = 0.0, 0
        for _ in came:
            paid, left = paid + term * 24 * 8 * price, left + term
        committed = formulas.committed_cost(contract, 8, term * 86400.0, price)
        yield committed, paid
        for _ in range(days):
            paid, left = paid + max(job - left, 0) * 24 * 8 * price, max(left - job, 0)
        cost = formulas.rented_gpu_cost(formulas.gpu_hours(job * 8, days * 86400.0), price)
        yield formulas.take_or_pay_job_cost(cost, committed), paid


@check(
    "elastic_completion_time",
    by="simulator",
    source="nodes delivered one by one, each at work from then on, until the node-days of the job "
    "are done",
    tolerance=2e-3,
)
def ramp_of_deliveries() -> Pairs:
    """200 drawn contracts of 2,000 to 4,000 nodes: jobs done during deliveries and long after"""
    draw = generator(64)
    for k in range(200):
        contract = int(draw.integers(2000, 4001))
        job = int(draw.integers(1000, contract + 1))
        first, days = int(draw.integers(0, contract)) * (k % 3 > 0), float(draw.uniform(5, 120))
        time = float(draw.uniform(0, 90)) * 86400.0 * (k % 7 > 0)
        left, now, there = job * days * 86400.0, 0.0, 0
        for moment in _deliveries(contract, first, time):
            if there == job or left <= there * (moment - now):
                break
            left, now, there = left - there * (moment - now), moment, there + 1
        wait = formulas.delivery_wait(job, contract, first, time)
        yield (
            formulas.elastic_completion_time(wait, days * 86400.0, first, job),
            now + left / there,
        )
    yield formulas.elastic_completion_time(math.inf, 5.0, 7, 8), math.inf


@check(
    "elastic_completion_time",
    by="simulator",
    source="nodes delivered one by one, at work once they make up a whole replica: about half a "
    "replica less at any time, as its range says",
    tolerance=4e-3,
)
def ramp_of_replicas() -> Pairs:
    """100 drawn jobs of 8 to 64 replicas of 4 to 32 nodes that outlast the deliveries"""
    draw = generator(66)
    for _ in range(100):
        replicas, size = int(draw.integers(8, 65)), int(draw.integers(4, 33))
        job, time = replicas * size, float(draw.uniform(1, 60)) * 86400.0
        first, days = int(draw.integers(0, job)), float(draw.uniform(60, 120))
        left, now = job * days * 86400.0, 0.0
        for there, moment in enumerate(_deliveries(job, first, time)):
            left, now = left - there // size * size * (moment - now), moment
        longer = time / (2 * replicas)
        ours = formulas.elastic_completion_time(time, days * 86400.0, first, job)
        yield ours + longer, now + left / job


@check(
    "carbon_emissions",
    by="simulator",
    source="emissions added up hour by hour, the grid's by the hour of the day; hours that differ "
    "from the day's mean by d on average change a job of T hours by at most 12 d / T",
)
def carbon_by_hour() -> Pairs:
    """300 drawn days, d up to 0.9, jobs of a day to 90 days: beyond the bound by 0"""
    draw = generator(65)
    for k in range(300):
        day = draw.uniform(0, 1, 24) ** draw.uniform(0.5, 4)
        day = np.sort(day) if k % 2 else day  # all clean hours in a row
        day = day / day.mean()
        hours, start = int(draw.integers(24, 2160)), int(draw.integers(0, 24))
        theirs = sum(day[(start + hour) % 24] for hour in range(hours))
        bound = 12 * np.abs(day - 1).mean() / hours
        ours = formulas.carbon_emissions(float(hours), 1.0)
        yield max(abs(ours - theirs) / hours - bound, 0.0), 0.0


@check(
    "limited_site_room_reason",
    by="simulator",
    source="nodes set up one by one, while the power, the cooling and the racks last",
)
def nodes_at_a_site() -> Pairs:
    """500 drawn sites of 1 to 30 MW and up to 500 racks of 5 to 142 kW, jobs of 1 to 1,000 nodes"""
    draw = generator(63)
    for _ in range(500):
        watts, cooling = draw.uniform(1e6, 30e6), draw.choice([draw.uniform(1e6, 30e6), math.inf])
        rack, node = draw.uniform(5e3, 142e3), draw.uniform(4e3, 142e3)
        room, job = (
            draw.choice([float(draw.integers(1, 500)), math.inf]),
            int(draw.integers(1, 999)),
        )
        seated = used = free = 0
        while seated < job:
            new = max(math.ceil(node / rack), 1) if free == 0 else 0
            if (seated + 1) * node > min(watts / 1.2, cooling) or used + new > room:
                break
            free = (max(int(rack // node), 1) if new else free) - 1
            seated, used = seated + 1, used + new
        racks = formulas.racks(job, formulas.nodes_per_rack(rack, node), node, rack)
        needs = (job * node * 1.2, watts, job * node, cooling, racks, room)
        yield formulas.limited_site_room_reason(*needs), 39 if seated < job else 0


@check("reserved_allocated_gpus", by="derivation", source="every GPU counted by its place")
def reserved() -> Pairs:
    """a job of 64 GPUs, two backup replicas of 8, three spare nodes of 8"""
    places = {("job", k) for k in range(64)}
    places |= {
        ("backup", b, t, p, c) for b in range(2) for t in range(2) for p in range(2) for c in (0, 1)
    }
    places |= {("spare", node, gpu) for node in range(3) for gpu in range(8)}
    yield formulas.reserved_allocated_gpus(64, 2, 2, 2, 2, 3, 8), len(places)


@check(
    "energy carbon_emissions gpu_hours",
    by="table",
    source="Luccioni et al. 2022 (BLOOM): 1,082,990 h of 400 W, 433,196 kWh, 24.69 t at 57 g/kWh",
    tolerance=1e-3,
)
def bloom() -> Pairs:
    """hours, energy and carbon dioxide as printed"""
    seconds = 1_082_990 / 384 * 3600
    used = formulas.energy(384 * 400, 1.0, seconds)
    yield formulas.gpu_hours(384, seconds), 1_082_990
    yield used / 3.6e6, 433_196
    yield formulas.carbon_emissions(used, 57e-3 / 3.6e6), 24_690


@check(
    "gpu_hours rented_gpu_cost cost_per_million_tokens",
    by="table",
    source="DeepSeek-AI 2024, arXiv:2412.19437, table 1: 2.788 million hours, 5.576 million USD",
    tolerance=1.1e-2,
)
def deepseek() -> Pairs:
    """hours of a trillion tokens (3.7 days on 2,048 GPUs: 180,000), price of hours and of tokens"""
    yield formulas.gpu_hours(2048, 3.7 * 86400), 180e3
    yield formulas.rented_gpu_cost(2.788e6, 2.0), 5.576e6
    yield formulas.rented_gpu_cost(2.664e6, 2.0), 5.328e6
    yield (
        formulas.cost_per_million_tokens(formulas.rented_gpu_cost(2.664e6, 2.0), 14.8e12),
        180e3 * 2 / 1e6,
    )
