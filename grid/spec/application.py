"""The interface to the module that knows the labels, texts and results of a graph.

    resolve(graph, scenario, axes, free)  the `Problem` of a scenario
    add_user_records(scenario, axes)      both, with the records of the files that they name
    result_scenario(spec)                 the scenario of a result, with the defaults of its time
    choice(name, value)                   a choice of an option as its table spells it
    read_spec(path, inputs)               the tables of a file that a sweep is read from
    record_names(kind, labels)            the full names of labels' records
    label_of(kind, entry)                 the label for a record's file or table; others unchanged
    spelled_axis(graph, name, points)     an axis of texts that set inputs, `Spelled`; else None
    spelled_rows(graph, rows)             rows of an axis with the inputs that their texts set
    inferring_columns(numbers, sizes)     columns of rows from which values are inferred
    check_inferred(count, names)          whether so many combinations of them may be
    unstated(problem, name)               where to find an input that is missing
    remarks(plan), defaults(plan, ...)    what a result stands on; inputs left to a default
    citation_keys(plan)                   keys of the works that its formulas name
    AFFECTING                             inputs that affect others where they are given
    INFERRED_FROM                         inputs read where values are inferred, if by no formula
    INTERVAL                              the input for an interval's width, which sizes decide
    CODE                                  names of its modules that determine values
    TEXT_AXES, TEXT_LISTS                 texts of a scenario that may be axes; that may be several

Functions raise InputError for what nothing can be read from.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...kernels.graph.formulas import Graph
from .axis import Array


class Spelled(NamedTuple):
    """An axis of texts, as the inputs that they set: what must differ, its coordinate, the rows."""

    distinct: Sequence[Any]
    labels: Array
    rows: Mapping[str, Any]


def application(graph: Graph) -> Any:
    """The module that a graph names; None if it names none."""
    return importlib.import_module(graph.application) if graph.application else None
