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
    done: set[str] = set()
    for name in quantities:
        _find_cycle(quantities, name, [], done)


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


def _find_cycle(graph: Mapping[str, Quantity], name: str, path: list[str], done: set[str]) -> None:
    if name in path:
        cycle = " -> ".join([*path[path.index(name) :], name])
        raise ValueError(f"the quantities form a cycle: {cycle}")
    if name in done or name not in graph:
        return
    for function in graph[name].formulas.values():
        for parameter in parameters(function):
            _find_cycle(graph, parameter, [*path, name], done)
    done.add(name)
