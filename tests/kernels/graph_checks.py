"""What the graph of quantities must hold to; each message says what to write instead."""

from collections.abc import Mapping

from fleetcube.kernels.declare import Input
from fleetcube.kernels.graph.formulas import Graph, Quantity, parameters


def check(graph: Graph) -> None:
    """Raise ValueError for names that nothing defines, missing choices and cycles."""
    inputs, quantities = graph.inputs, graph.quantities
    for quantity in quantities.values():
        if quantity.name in inputs:
            raise ValueError(f"{quantity.name} is both an input and a quantity: rename one")
        if quantity.option:
            _check_choices(quantity, inputs.get(quantity.option))
        for function in quantity.formulas.values():
            for parameter in parameters(function):
                if parameter not in quantities and parameter not in inputs:
                    raise ValueError(
                        f"{function.__name__} needs {parameter}, which nothing defines: "
                        "write its formula, or declare it in the inputs.py of its topic"
                    )
    circling = _circling(quantities)
    for name in circling:
        _find_cycle({n: quantities[n] for n in circling}, name, [], {})


def _check_choices(quantity: Quantity, row: Input | None) -> None:
    name, option = quantity.name, quantity.option
    if row is None or row.kind != "option":
        raise ValueError(
            f"{name} is chosen by {option}, which is not an option: declare it in inputs.py"
        )
    for choice in (*row.choices, *quantity.formulas):
        if choice not in quantity.formulas:
            raise ValueError(f"{name} has no formula where {option} = {choice}: write one")
        if choice not in row.choices:
            raise ValueError(
                f"{name} has a formula where {option} = {choice}, which is not a choice: "
                "add it to its option in inputs.py"
            )


def _circling(graph: Mapping[str, Quantity]) -> list[str]:
    """Quantities on a cycle, or between two, if every choice could be made with every other."""
    left = {
        name: {p for f in quantity.formulas.values() for p in parameters(f) if p in graph}
        for name, quantity in graph.items()
    }
    ends = [""]
    while ends:
        needed = set[str]().union(*left.values())
        ends = [name for name, needs in left.items() if not needs or name not in needed]
        left = {name: needs - {*ends} for name, needs in left.items() if name not in ends}
    return [*left]


def _find_cycle(
    graph: Mapping[str, Quantity], name: str, path: list[str], chosen: Mapping[str, object]
) -> None:
    """Refuse a cycle of formulas that are chosen together."""
    if name in path:
        cycle = " -> ".join([*path[path.index(name) :], name])
        raise ValueError(f"the quantities form a cycle: {cycle}")
    if name not in graph:
        return
    option = graph[name].option
    for choice, function in graph[name].formulas.items():
        if option in chosen and chosen[option] != choice:
            continue
        for parameter in parameters(function):
            _find_cycle(
                graph, parameter, [*path, name], {**chosen, **({option: choice} if option else {})}
            )
