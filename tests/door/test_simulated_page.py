"""docs/simulated.md: its tables count every scenario, and name existing laws."""

import re

from docs.make import simulated
from fleetcube.kernels.physics.graph import PHYSICS

PAGE = simulated.PAGE.read_text(encoding="utf-8")


def test_every_scenario_has_one_reason() -> None:
    drawn = int(re.search(r"^([\d,]+) scenarios are drawn", PAGE, re.MULTILINE)[1].replace(",", ""))
    given_up = int(re.search(r"^(\d+) scenarios were given up", PAGE, re.MULTILINE)[1])
    rows = [re.search(rf"^\| {name} \| (\d+) ", PAGE, re.MULTILINE) for name in simulated.REASONS]
    assert sum(int(row[1]) for row in rows if row) == drawn - given_up
    assert drawn == len(simulated.HALVES) * simulated.HALF >= 1000


def test_ranges_are_of_laws_and_state_the_gap() -> None:
    for said in simulated.REASONS.values():
        law = re.match(r"`(\w+)`", said)
        assert law is None or law[1] in PHYSICS.quantities


def test_reasons_are_what_a_scenario_sets() -> None:
    plain = {"silent_corruption_mttf": 1e30, "corruption_latency": 3600.0, "node_pool": "open"}
    plain |= {"spare_nodes": 0, "checkpoint_mode": "sync"}
    assert simulated.reason(plain) == "none of these"
    assert simulated.reason({**plain, "spare_nodes": 1}) == "spares of an open pool"
    assert simulated.reason({**plain, "node_pool": "closed"}) == "a closed pool"
