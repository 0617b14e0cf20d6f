"""Tokens counted by expert, as lines of a spec."""

import json
from typing import TYPE_CHECKING, Any

from fleetcube.commands.say import say_each

if TYPE_CHECKING:
    from fleetcube.grid.formats.routing import Routing

_DROPPED = {"no token": 0.0, "1 % of tokens": 0.01}


def show_routing(routing: "Routing", spec: str | None, ranks: int | None, as_json: bool) -> None:
    """Print the imbalance of ranks, and the capacity that drops few tokens."""
    from fleetcube.catalog import record
    from fleetcube.grid.errors import InputError
    from fleetcube.grid.formats.read import read_spec
    from fleetcube.grid.spec.scenario import said_by

    said: dict[str, Any] = said_by(read_spec(spec)["scenario"]) if spec is not None else {}
    said = {**(record("model", said["model"]).values if "model" in said else {}), **said}
    rows, experts = routing.counts.shape
    if said.get("experts", experts) != experts:
        raise InputError(
            f"the file has {experts} experts, the spec {said['experts']:.0f}; give the spec of it"
        )
    ranks = ranks or int(said.get("expert_parallel", experts))
    imbalance = routing.imbalance(ranks)
    capacities = {told: routing.capacity(share) for told, share in _DROPPED.items()}
    if as_json:
        factors = dict(zip(map(str, _DROPPED.values()), capacities.values(), strict=True))
        found = {"expert_load_imbalance": imbalance, "capacity_factor": factors}
        say_each([json.dumps({**found, "ranks": ranks, "experts": experts, "rows": rows})], False)
        return
    say_each(
        [
            f"expert_load_imbalance = {imbalance:.4g}  # busiest of {ranks} ranks over the mean: "
            f"{experts} experts, {rows} rows",
            *(
                f"# capacity_factor = {factor:.4g}  # drops {'' if not share else 'at most '}{told}"
                for (told, factor), share in zip(capacities.items(), _DROPPED.values(), strict=True)
            ),
        ],
        err=False,
    )
