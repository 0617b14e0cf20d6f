"""Tokens counted by expert, as lines of a spec."""

import json
from typing import TYPE_CHECKING, Any

from fleetcube.commands.shared.say import say
from fleetcube.grid.errors import InputError

if TYPE_CHECKING:
    from fleetcube.formats.routing import Routing

_DROPPED = (0.0, 0.01)  # shares of tokens


def show_routing(routing: "Routing", spec: str | None, ranks: int | None, as_json: bool) -> None:
    """Print the imbalance of ranks, and the capacity that drops few tokens."""
    from fleetcube.catalog import record
    from fleetcube.formats.read import read_spec
    from fleetcube.scenario.reading import stated_inputs

    stated: dict[str, Any] = stated_inputs(read_spec(spec)["scenario"]) if spec is not None else {}
    stated = {**(record("model", stated["model"]).values if "model" in stated else {}), **stated}
    rows, experts = routing.counts.shape
    if stated.get("experts", experts) != experts:
        raise InputError(
            f"the file has {experts} experts, the spec {stated['experts']:.0f}; give its spec"
        )
    ranks = ranks or int(stated.get("expert_parallel", experts))
    name, imbalance = "expert_load_imbalance", routing.imbalance(ranks)
    factors = {share: routing.capacity(share) for share in _DROPPED}
    if as_json:
        counted = {"ranks": ranks, "experts": experts, "rows": rows}
        say(json.dumps({name: imbalance, "capacity_factor": factors, **counted}))
        return
    say(f"{name} = {imbalance:.4g}  # busiest of {ranks} ranks, {experts} experts, {rows} rows")
    for share, factor in factors.items():
        say(f"# capacity_factor = {factor:.4g}  # drops {100 * share:g} % of tokens, at most")
