"""Evaluate quantities in every row of a frame."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from fleetcube.catalog import spelling
from fleetcube.grid.errors import InputError, nearest, shown
from fleetcube.grid.plan import memory, tiles
from fleetcube.grid.plan.execute import evaluate_block
from fleetcube.grid.plan.labels import dtype_of
from fleetcube.grid.plan.plan import Plan, check_outputs
from fleetcube.grid.progress import expected
from fleetcube.grid.run.settings import Settings, check_settings
from fleetcube.grid.spec import values
from fleetcube.grid.spec.application import application
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.graphs import graph_of
from fleetcube.grid.spec.problem import Problem, resolve
from fleetcube.kernels.engines.cache_tiles import cuts
from fleetcube.kernels.graph.formulas import Graph, parameters

from . import columns
from .frames import Frame, frame_of
from .groups import Cells, Class, classes

MOST_SAID = 20  # limit on calibration remarks, as there may be thousands of rows
Given = TypeVar("Given")
ROW = "row"  # the only dimension of a plan of rows


@overload
def evaluate_table(
    frame: dict[str, Any],
    outputs: str | Sequence[str],
    *,
    scenario: Mapping[str, Any] | None = ...,
    keep: str | Sequence[str] = ...,
    settings: Settings | None = ...,
) -> dict[str, Array]: ...


@overload
def evaluate_table(
    frame: Given,
    outputs: str | Sequence[str],
    *,
    scenario: Mapping[str, Any] | None = ...,
    keep: str | Sequence[str] = ...,
    settings: Settings | None = ...,
) -> Given: ...


def evaluate_table(
    frame: Any,
    outputs: str | Sequence[str],
    *,
    scenario: Mapping[str, Any] | None = None,
    keep: str | Sequence[str] = (),
    settings: Settings | None = None,
) -> Any:
    """Evaluate quantities in every row of a frame, one scenario per row.

    Args:
        frame: a pandas or Polars DataFrame, a Polars LazyFrame (which is collected), an Arrow
            table, anything with an Arrow stream (a DuckDB relation), or a dict of columns. Columns
            are inputs: numbers in SI base units, or in the unit stated by `attrs["units"][column]`
            of a pandas frame or `units` in the metadata of an Arrow field; texts with units ("400
            Gbit/s"); choices of options; labels of the catalog. A missing cell (NaN, null) is not
            given in its row.
        outputs: one name, or a list of names; see `fleetcube explain`.
        scenario: what the rows share; a cell overrides it.
        keep: columns that are no inputs, such as an identifier or a note, and pass through unread.
        settings: the engine, and whether points that cannot run have values.

    Returns a frame of the same kind, with the rows in their order and a column for each output:
    float64 in base units, which are in pandas' `attrs["units"]` and the metadata of Arrow fields,
    or the words of a flag, as categories in the order of its codes. `infeasible_reason` is included
    where the layout matters. `attrs["fleetcube_remarks"]` of a pandas frame, or the metadata of an
    Arrow table, states the basis of calibrations, and which are from other steps. A DuckDB relation
    gives an Arrow table; a dict NumPy arrays, flags as int8 codes (-1: missing). Every row has the
    value that `evaluate` gives for it alone.

    Raises InputError, before anything is computed, for the first unusable cell, with its row, and
    for columns that are neither inputs nor kept.

    Example:
        >>> import fleetcube
        >>> rows = {"n_gpus": [1024, 4096], "gpu_mttf": ["50_000 h", None]}
        >>> shared = {"series_psus_per_node": 2}
        >>> result = fleetcube.evaluate_table(rows, "cluster_mtbf", scenario=shared)
        >>> (result["cluster_mtbf"] / 3600).round(1).tolist()
        [33.5, 8.4]
    """
    source = frame_of(frame)
    wanted = [outputs] if isinstance(outputs, str) else outputs
    asked = check_settings(settings, Settings())
    if not isinstance(scenario, Mapping | None):
        raise InputError(f"scenario = {shown(scenario)} is not a table of inputs; give one")
    graph = graph_of(scenario or {})
    shared = values.without_unit(graph, "", scenario or {})
    check_outputs(wanted, resolve(shared, {}))  # errors here concern no row
    inputs = _inputs(graph, source, keep)
    named = {name for name in inputs if name in graph.roles.labels or values.is_option(graph, name)}
    cells = Cells(
        {name: columns.numbers(graph, source, name) for name in inputs if name not in named},
        {name: columns.choices(graph, source, name) for name in inputs if name in named},
    )
    for sizes in (False, True):
        work = []
        for each in classes(source, shared, cells, sizes):
            given = each.given
            free = [n for n in given if n in cells.numbers or isinstance(given[n], np.ndarray)]
            try:
                plan = _plan(graph, each, free, wanted, asked.engine, asked._mask)
            except InputError as error:
                raise InputError(f"{source.place(each.first)}: {error}") from None
            work.append((each, _read(plan, free), plan))
        if not any(each.inferred and _has_interval(plan) for each, _, plan in work):
            break  # no interval is requested, and only its width depends on sizes
    added = list(dict.fromkeys([*wanted, *(name for *_, plan in work for name in plan.outputs)]))
    for name in added:
        if name in source.names:
            raise InputError(f"the frame has a column {name!r} already; drop or rename it")
    dtypes = {name: dtype_of(graph, name, float) for name in added}
    memory.check(source.rows * sum(d.itemsize for d in dtypes.values()), "give fewer rows at once")
    threads = asked._cores
    outs = {n: memory.allocate((source.rows,), d, threads) for n, d in dtypes.items()}
    with asked._watched():
        done = expected(source.rows, "rows")
        for each, reads, plan in work:
            for name in set(added) - set(plan.outputs):
                outs[name][each.rows] = -1  # a reason, where the layout is unknown
            _fill(each, reads, plan, cells, outs, threads)
            done(each.size)
    return source.with_columns(graph, outs, "\n".join(_remarks(work)))


def _remarks(work: Iterable[tuple[Class, Any, Plan]]) -> list[str]:
    """Remarks on calibrations, and on omitted totals, that formulas in use read."""
    work = [*work]
    read = [each.remarks for each, _, plan in work if each.fitted & plan.structure.used]
    read += [
        tuple(remark for name, remark in each.notes.items() if name in plan.structure.used)
        for each, _, plan in work
    ]
    lines = list(dict.fromkeys(itertools.chain(*read)))
    more = len(lines) - MOST_SAID
    return lines[:MOST_SAID] + [f"and {more} more remarks"] * (more > 0)


def _inputs(graph: Graph, source: Frame, keep: str | Sequence[str]) -> list[str]:
    """The columns to read. One that is neither an input nor kept may be a misspelt input."""
    if isinstance(keep, Mapping) or not hasattr(keep, "__iter__"):
        raise InputError(
            f"keep = {shown(keep)} is not a list of columns; name those to pass through"
        )
    columns = [keep] if isinstance(keep, str) else list(keep)
    repeated = [name for name in source.names if source.names.count(name) > 1]
    if repeated:
        raise InputError(f"the frame has two columns {repeated[0]!r}; rename one")
    for name in columns:
        if name not in source.names:
            hint = nearest(name, map(str, source.names), "choose one of its columns")
            raise InputError(f"keep: the frame has no column {name!r}; {hint}")
    inputs = [name for name in source.names if name not in columns]
    names = values.known_names(graph)
    if unknown := [name for name in inputs if name not in names]:
        near_names = [(name, spelling.near(str(name), names, alike=0.8)) for name in unknown]
        listed = ", ".join(
            f"{n!r}" + (f" ({spelling.hint(m, '')})" if m else "") for n, m in near_names
        )
        raise InputError(
            f"columns that are not inputs: {listed}; rename them, or pass them through: "
            f"keep={[*columns, *unknown]}"
        )
    for name in inputs:
        try:
            values.check_name(graph, name)
        except InputError:
            raise InputError(
                f"column {name!r} is a result and cannot be given; drop or rename it"
            ) from None
    return inputs


def _has_interval(plan: Plan) -> bool:
    return application(plan.graph).INTERVAL in plan.structure.used


def _plan(
    graph: Graph,
    rows_class: Class,
    free: list[str],
    outputs: Sequence[str],
    engine: str,
    mask: bool,
) -> Plan:
    constants = {name: float(value) for name, value in rows_class.given.items() if name not in free}
    rows = Axis(ROW, np.broadcast_to(np.int8(0), rows_class.size))  # only its length matters
    return Plan(
        Problem(graph, constants, rows_class.options, (rows,), ()), outputs, engine, mask, free
    )


def _read(plan: Plan, free: list[str]) -> list[str]:
    """The free inputs that the plan reads."""
    used = {*plan.outputs}
    for case in plan.cases:
        used |= {name for formula in case.formulas.values() for name in parameters(formula)}
    return [name for name in free if name in used]


def _fill(
    rows_class: Class,
    reads: list[str],
    plan: Plan,
    cells: Cells,
    outs: Mapping[str, Array],
    threads: int,
) -> None:
    for part in cuts(0, rows_class.size, tiles.BLOCK):
        free = {name: rows_class.values(name, cells, part) for name in reads}
        for dims, names in plan.groups().items():
            direct = bool(dims) and isinstance(rows_class.rows, slice)
            shape = (part.stop - part.start,) if dims else ()
            views = {
                name: outs[name][part] if direct else np.empty(shape, outs[name].dtype)
                for name in names
            }
            region = {ROW: part} if dims else {}
            evaluate_block(plan, dims, region, views, threads, free if dims else None)
            if not direct:
                for name, view in views.items():
                    outs[name][rows_class.part(part)] = view
