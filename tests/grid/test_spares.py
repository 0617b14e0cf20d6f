"""Spares of a closed cluster: their benefit, and the number needed."""

import math
import re
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube import Settings, Sweep, evaluate
from fleetcube.analysis.levers import levers

from .common import on_h100, refused

NODES, BUSY = 2048, 10.485760  # 16,384 GPUs; nodes in repair, by the defaults of the lifetimes
FLEET = on_h100("llama-3-70b", fabric="roce-400g", n_gpus=16384, repair_time="24 h")


def whole(spares: int) -> float:
    """P(at most `spares` nodes away), each being away for R / (R + L) of the time."""
    away, total = BUSY / (NODES + BUSY), NODES + spares

    def log_of(n: int) -> float:
        ways = math.lgamma(total + 1) - math.lgamma(n + 1) - math.lgamma(total - n + 1)
        return ways + n * math.log(away) + (total - n) * math.log1p(-away)

    return math.fsum(math.exp(log_of(n)) for n in range(spares + 1))


def carried(spares: int) -> float:
    """1 - Erlang's B of one server more."""
    terms = [BUSY**n / math.factorial(n) for n in range(spares + 2)]
    return math.fsum(terms[:-1]) / math.fsum(terms)


def found(output: str, **inputs: Any) -> Any:
    return fleetcube.evaluate(output, settings=Settings("numpy"), **{**FLEET, **inputs})


def test_five_spares_where_ten_nodes_are_in_repair() -> None:
    assert float(found("node_failure_rate")) * 86400 == pytest.approx(BUSY, rel=1e-6)
    pools = dict(node_pool=["closed", "closed_idle_safe"], spare_nodes=5)
    got = found("whole_cluster_probability", **pools)
    assert got.values == pytest.approx([0.05, 0.50], abs=0.005)
    assert got.values == pytest.approx([whole(5), carried(5)], abs=1e-3)
    # no node comes from outside: provision_time does not count, and failures stop during waits
    kept = found("goodput", **pools)
    open_ = float(found("goodput", provision_time=0))
    assert (kept / open_).values == pytest.approx(got.values, rel=1e-12)


@pytest.mark.parametrize("model", ["exact", "first_order", "additive"])
def test_shares_add_up_with_the_wait_in_recovery(model: str) -> None:
    shares = ["goodput", "checkpoint_overhead", "rework_overhead", "recovery_overhead"]
    for pool, chance in (("closed", whole(12)), ("closed_idle_safe", carried(12))):
        more = {"node_pool": pool, "spare_nodes": 12, "goodput_model": model}
        budgets = {"bubble_budget": 0, "maintenance_budget": 0}
        got = found([*shares, "expected_slowdown"], **more, **budgets)
        assert float(sum(got[name] for name in shares)) == pytest.approx(1, rel=1e-14)
        assert float(got.recovery_overhead) > 1 - chance - 1e-3
        if model == "exact":
            assert float(got.goodput * got.expected_slowdown) == pytest.approx(1, rel=1e-12)


def test_what_needs_no_spares_is_as_it_was() -> None:
    assert found("whole_cluster_probability").dims == ()
    assert float(found("whole_cluster_probability")) == 1
    # a job that shrinks does not wait: elastic_capacity counts its nodes
    assert float(found("cluster_uptime", node_pool="closed", elastic="shrink")) == 1
    # repair in no time; a pool far too small
    assert float(found("cluster_uptime", node_pool="closed", repair_time=0)) == 1
    never = found("goodput", node_pool=["closed", "closed_idle_safe"], repair_time="100_000 h")
    assert (never >= 0).all()
    assert (never < 1e-3).all()


def test_spares_are_found_by_solving() -> None:
    for pool, chance in (("closed", whole), ("closed_idle_safe", carried)):
        sweep = Sweep({**FLEET, "node_pool": pool}, {}, ["goodput"])
        need = next(n for n in range(100) if chance(n) >= 0.99)
        solved = sweep.solve("spare_nodes", "whole_cluster_probability >= 99 %")
        assert solved.spare_nodes.item() == need
        one = float(found("goodput", provision_time=0))
        need = next(n for n in range(100) if one * chance(n) >= 0.9)
        assert sweep.solve("spare_nodes", "goodput >= 90 %").spare_nodes.item() == need


def test_a_shop_of_crews_that_barely_keep_up_needs_more_spares() -> None:
    closed = {**FLEET, "node_pool": "closed"}
    names = ["whole_cluster_probability", "spare_availability", "missing_nodes"]
    # as many crews as nodes: no queue; repair in no time; an overloaded shop
    given = {**closed, "sparing": "hot", "spare_nodes": 20}
    usual = fleetcube.evaluate(names, settings=Settings("numpy"), **given)
    many = fleetcube.evaluate(names, repair_crews=2068, settings=Settings("numpy"), **given)
    for name in names[:2]:
        assert float(many[name]) == pytest.approx(float(usual[name]), abs=1e-3)
    # here spares fail while they are idle: 1 % more nodes
    expected = pytest.approx(float(usual.missing_nodes), rel=0.03, abs=1e-3)
    assert float(many.missing_nodes) == expected
    none = fleetcube.evaluate(
        names, repair_crews=1, settings=Settings("numpy"), **{**given, "repair_time": 0}
    )
    assert [float(none[name]) for name in names] == [1, 1, 0]
    few = fleetcube.evaluate(names, repair_crews=5, settings=Settings("numpy"), **given)
    assert float(few.whole_cluster_probability) < 1e-9
    assert float(few.spare_availability) == 0
    # five crews repair 5 a day of the 10.5 that would fail, had they as many nodes
    assert float(few.missing_nodes) == pytest.approx(NODES - (5 / (BUSY / NODES)), rel=1e-3)
    # the spares of a queue M/M/c/S+1, counted state by state
    sweep = Sweep({**FLEET, "node_pool": "closed_idle_safe", "repair_crews": 12}, {}, ["goodput"])
    solved = sweep.solve("spare_nodes", "whole_cluster_probability >= 99 %")

    def whole_by(spares: int) -> float:
        terms = [1.0]
        for k in range(spares + 1):
            terms.append(terms[-1] * BUSY / min(k + 1, 12))
        return 1 - terms[-1] / math.fsum(terms)

    assert solved.spare_nodes.item() == next(n for n in range(200) if whole_by(n) >= 0.99) > 20


def test_crews_are_at_least_one() -> None:
    refused("repair_crews", found, "goodput", node_pool="closed", repair_crews=0)
    refused("repair_crews is missing", found, "goodput", node_pool="closed", repair_shop="crews")


def test_spares_are_found_by_optimizing() -> None:
    # Spares are paid for: (n + S) / P(whole) is least where the job costs least
    sweep = Sweep({**FLEET, "node_pool": "closed", "gpu_hour_price": 2.0}, {}, ["job_cost"])
    best = sweep.best(
        "job_cost", search={"spare_nodes": [0, 64]}, settings=Settings(infeasible="include")
    )
    assert best.spare_nodes.item() == min(range(65), key=lambda n: (NODES + n) / whole(n))


def test_more_spares_never_hurt_and_slopes_are_those_of_the_sum() -> None:
    spares = np.arange(0.0, 40.0, 0.5)
    for pool in ("closed", "closed_idle_safe"):
        got = found("goodput", node_pool=pool, spare_nodes=spares.tolist()).values
        assert (np.diff(got) > -1e-12).all()
        given = dict(node_pool=pool, spare_nodes=5)
        slope = float(found("d_whole_cluster_probability_d_repair_time", **given))
        step = 1e-3 * 86400
        times = (86400 - step, 86400 + step)
        ends = [float(found("whole_cluster_probability", **given, repair_time=x)) for x in times]
        assert slope == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-4)


def test_a_plan_says_how_many_of_its_nodes_to_keep_as_spares() -> None:
    """Against each split of 64 nodes that lose one in four days, of which 1 to 31 wait: whole
    replicas of two nodes, the batch nearest to 512 that divides over them."""
    job = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    job |= {"tensor_parallel": 8, "pipeline_parallel": 2, "training_tokens": "15T"}
    job |= {"node_pool": "closed", "repair_time": "3 d", "node_mttf": "1 in 4 days on 64 nodes"}
    total: dict[str, Any] = {**job, "n_gpus": 512, "global_batch_size": 512}
    rows, _ = levers(Sweep(total, {}, ["job_time"]), {}, "job_time", "min")
    elastic, split_line = rows[:2]
    run, kept, batch = re.findall(
        r"run on (\d+) of the 64 nodes, (\d+) as spares, with a batch of (\d+): ", split_line
    )[0]
    now = float(evaluate("job_time", **total))
    by_split = {}
    for nodes in range(32, 64, 2):
        split = {"n_gpus": 8 * nodes, "spare_nodes": 64 - nodes}
        split["global_batch_size"] = round(512 / (nodes // 2)) * (nodes // 2)
        by_split[nodes] = (float(evaluate("job_time", **{**total, **split})), split)
    time, split = by_split[min(by_split, key=lambda nodes: by_split[nodes][0])]
    assert [8 * int(run), int(kept), int(batch)] == [*split.values()]
    shrunk = float(evaluate("job_time", **total, elastic="shrink"))
    assert elastic.startswith("elastic shrink: ")
    for line, other in ((elastic, shrunk), (split_line, time)):
        saved = float(re.findall(r"job_time -([\d.]+) d", line)[0])
        assert saved == pytest.approx((now - other) / 86400, rel=1e-3)
    # neither where a node from outside comes in minutes
    open_ = {**total, "node_pool": "open"}
    rows, _ = levers(Sweep(open_, {}, ["job_time"]), {}, "job_time", "min")
    assert not any("elastic" in row or "spares" in row for row in rows)
