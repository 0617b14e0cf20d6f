"""Formulas of others: a module of plain functions that is a graph of its own, or that adds to one.

A module with a table `INPUTS` is a graph: each of its public functions is a formula. One without
adds the functions that `@quantity` marks to another graph, or puts them in place of its formulas.
"""

import functools
import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from types import ModuleType
from typing import Any

from ..declare import Input
from .docstrings import read
from .formulas import Function, Graph, Quantity, gathered, parameters
from .readable import PLAIN, frozen, sources
from .roles import REASON, Roles
from .trace import Trace, Value, written

GROUP = "fleetcube.graphs"  # entry points: NAME = "MODULE"
_LONG = 16  # hexadecimal digits of a hash that are stated
_MARK = "__replaces__"  # of a marked formula: what it replaces, or an empty text
# Units in which inputs are declared; money is in dollars
SI = frozenset({"A", "B", "FLOP", "J", "K", "USD", "V", "W", "kg", "m", "mol", "s"})


class GraphError(ValueError):
    """A module that is missing, another than asked for, or unusable; the message is one line."""


@dataclass(frozen=True)
class FormulaModule:
    """The quantities of a module, the inputs that it declares, and a hash of its code."""

    name: str
    digest: str
    quantities: Mapping[str, Quantity] = field(repr=False, compare=False)
    replaced: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    inputs: Mapping[str, Input] = field(default_factory=dict, repr=False, compare=False)
    roles: Roles = field(default_factory=Roles, repr=False, compare=False)

    @property
    def pinned(self) -> str:
        """Name and hash, which always name these exact formulas."""
        return f"{self.name}@{self.digest}"

    def __reduce__(self) -> tuple[Any, ...]:
        return imported, (self.pinned,)


def quantity(function: Any = None, *, replaces: str = "") -> Any:
    """Mark a formula for another graph: of a new quantity, its own name, or in place of a formula.

    It is a plain function as those of fleetcube: parameters are the names that it needs, the
    docstring has the sections Returns, with the unit, and Source. Only sweeps use it whose `graph`
    names the module.
    """

    def mark(formula: Function) -> Function:
        setattr(formula, _MARK, replaces)
        return formula

    return mark(function) if function else mark


def imported(name: str) -> FormulaModule:
    """A module by its name or that of an entry point; its code is imported. Raises GraphError, also
    where `name@hash` is of other code."""
    plain = name.partition("@")[0]
    module = _module(plain)
    try:
        importlib.import_module(module)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(
            f"{error.name}."
        )
        advice = "install it, or put its folder on PYTHONPATH" if missing else "mend it"
        reason = f"{type(error).__name__}: {error}; {advice}"
        raise GraphError(f"the graph {plain!r} cannot be imported: {reason}") from None
    return loaded(name)


def loaded(name: str) -> FormulaModule:
    """A module that was imported already. Raises GraphError."""
    plain, _, digest = name.partition("@")
    module = _module(plain)
    which = f"the graph {plain!r}{f' with hash {digest}' if digest else ''}"
    if module not in sys.modules:
        raise GraphError(
            f"{which} is missing; it is code, which only you may name: --graph {plain}, "
            f"graph={plain!r} or import it"
        )
    plugin = _read(plain, sys.modules[module])
    if digest and plugin.digest != digest:
        raise GraphError(
            f"{which} is missing: here it has {plugin.digest}, other formulas; install that version"
        )
    return plugin


@functools.cache
def _module(name: str) -> str:
    """The module of a graph: that of an entry point, else of this name."""
    from importlib.metadata import entry_points

    points = {point.value for point in entry_points(group=GROUP, name=name)} or {name}
    if len(points) > 1 or not all(part.isidentifier() for part in min(points).split(".")):
        raise GraphError(f"{name!r} is no module and no graph of one package; name one of them")
    return points.pop()


_modules_read: dict[tuple[str, str], FormulaModule] = {}


def _read(name: str, module: ModuleType) -> FormulaModule:
    """The quantities of a module, with the numbers that its functions read now."""
    inputs, roles = _declared(name, module)
    formulas = [each for home in _homes(module) for each in _formulas(home, marked=not inputs)]
    if not formulas:
        action = "write some with def" if inputs else "declare INPUTS, or mark them by @quantity"
        raise GraphError(f"the module {module.__name__!r} has no formulas; {action}")
    texts = [*map(repr, inputs.values()), *_role_texts(name, roles)]
    for formula in sorted(formulas, key=lambda each: each.__name__):
        texts += [formula.__name__, *_texts(name, formula)]
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_LONG]
    key = name, digest  # a module that is imported again has other functions of the same code
    if key not in _modules_read:
        copies: dict[Any, Any] = {}
        now = [frozen(formula, copies) for formula in formulas]
        if inputs:
            usual = {n: row.default for n, row in inputs.items() if row.kind == "option"}
            try:
                plugin = FormulaModule(
                    name, digest, gathered(now, usual), frozenset(), inputs, roles
                )
            except ValueError as error:
                raise GraphError(f"graph {name}: {error}") from None
        else:
            names = [getattr(formula, _MARK) or formula.__name__ for formula in formulas]
            if len({*names}) < len(names):
                raise GraphError(f"the graph {name!r} has two formulas of one quantity; drop one")
            added = {n: Quantity(n, None, {None: f}) for n, f in zip(names, now, strict=True)}
            replaced = frozenset(getattr(formula, _MARK) for formula in formulas)
            plugin = FormulaModule(name, digest, added, replaced)
        _modules_read[key] = plugin
    return _modules_read[key]


def _homes(module: ModuleType) -> list[ModuleType]:
    """A module and, of a package, those of its modules that are imported."""
    name = f"{module.__name__}."
    return [each for home, each in [*sys.modules.items()] if f"{home}.".startswith(name)]


def _formulas(module: ModuleType, marked: bool) -> Iterator[Function]:
    for name, function in [*vars(module).items()]:
        if getattr(function, "__module__", None) == module.__name__:
            public = inspect.isfunction(function) and not name.startswith("_")
            if hasattr(function, _MARK) if marked else public:
                yield function


def _declared(name: str, module: ModuleType) -> tuple[dict[str, Input], Roles]:
    """The inputs and roles that a module declares."""
    rows, roles = getattr(module, "INPUTS", ()), getattr(module, "ROLES", Roles())
    if not isinstance(rows, tuple) or not all(isinstance(row, Input) for row in rows):
        raise GraphError(
            f"graph {name}: INPUTS is not a tuple of real(...), count(...) and the like"
        )
    if len({row.name for row in rows}) < len(rows):
        raise GraphError(f"graph {name}: INPUTS declares a name twice; drop one")
    if not isinstance(roles, Roles):
        raise GraphError(f"graph {name}: ROLES is not Roles(...)")
    for row in rows:
        if foreign := [part for part in re.findall(r"[^\W\d]+", row.unit) if part not in SI]:
            raise GraphError(
                f"graph {name}: {row.name} is in {row.unit!r}, and {foreign[0]} is not of SI, in "
                f"which formulas compute; declare it in {', '.join(sorted(SI))} or 1, and state "
                "values in any unit"
            )
    return {row.name: row for row in rows}, roles


def _texts(name: str, formula: Function) -> Iterator[str]:
    """A formula as text: its source, and the numbers that it reads."""
    try:
        for text, read_now in sources(formula):
            yield text
            yield from (f"{n} = {v!r}" for n, v in read_now.items() if type(v) in PLAIN)
    except ValueError as error:
        raise GraphError(f"graph {name}: {formula.__name__} {error}") from None


def _role_texts(name: str, roles: Roles) -> Iterator[str]:
    for row in fields(roles):
        value = getattr(roles, row.name)
        if row.name == "steps":
            for formula, _ in value.values():
                yield from _texts(name, formula)
            value = {key: count for key, (_, count) in value.items()}
        yield f"{row.name} = {sorted(value) if isinstance(value, frozenset) else value!r}"


@functools.cache
def graph_from(base: Graph, modules: tuple[FormulaModule, ...]) -> Graph:
    """The graph of modules: of the one that declares inputs, else `base`, with the formulas of the
    others added or in place of its own. Raises GraphError for formulas that do not fit."""
    alone = [each for each in modules if each.inputs]
    others = tuple(each for each in modules if not each.inputs)
    if len(alone) > 1:
        raise GraphError(f"{alone[0].name} and {alone[1].name} are each a whole graph; name one")
    for each in alone:
        base = Graph(each.name, each.inputs, (), each.roles, (each,))
    graph = replace(base, extensions=(*base.extensions, *others))
    if graph.roles.layout and REASON not in graph.quantities:
        raise GraphError(f"graph {graph.name} has a layout, which nothing judges; define {REASON}")
    if REASON in graph.quantities and not graph.roles.layout:
        raise GraphError(
            f"graph {graph.name}: {REASON} judges nothing; name what it judges in "
            "ROLES = Roles(layout=frozenset({'QUANTITY'}))"
        )
    for each in alone:
        _check_roles(graph, each)
    owner: dict[str, str] = {}
    for module in (*alone, *others):
        for name, quantity in module.quantities.items():
            if not module.inputs and owner.setdefault(name, module.name) != module.name:
                both = f"the graphs {owner[name]} and {module.name}"
                raise GraphError(f"{name} is of {both}; name one of them")
            for formula in dict.fromkeys(quantity.formulas.values()):
                _check(graph, base, module, name, formula)
            _check_choices(graph, module, quantity)
    return graph


def _check(
    graph: Graph, base: Graph, module: FormulaModule, quantity: str, formula: Function
) -> None:
    """Refuse a formula that does not fit into a graph; `base` is what it adds to."""
    where = f"graph {module.name}: {formula.__name__}"
    other = None if module.inputs else base.get(quantity)
    replaces = quantity in module.replaced
    if quantity in graph.inputs or (other and not replaces):
        named = f"an input of {graph.name}" if module.inputs else f"a name of {graph.name}"
        mend = "" if module.inputs else f", or write @quantity(replaces={quantity!r})"
        raise GraphError(f"{where} is {named}; rename it{mend}")
    if replaces and other is None:
        raise GraphError(f"{where} replaces {quantity!r}, which is no quantity; name one")
    for name in parameters(formula):
        row = graph.inputs.get(name)
        if (row is None and name not in graph.quantities) or (row and row.kind == "option"):
            rule = (
                "is an option; write a formula for each choice, marked @alternative"
                if row
                else "is neither an input nor a quantity; name one, or begin a helper's name with _"
            )
            raise GraphError(f"{where} needs {name!r}, which {rule}")
    try:
        doc = read(formula)
    except ValueError as error:
        raise GraphError(f"{where}: {error}; add it") from None
    if doc.unit == "flag" and not doc.flags:
        raise GraphError(f"{where} is a flag without names; add Flags: 0 WORD, 1 WORD")
    if other is not None and doc.unit != other.unit:
        raise GraphError(f"{where} is in {doc.unit}, and {quantity} in {other.unit}; convert it")
    trace = Trace()
    try:
        written(trace.run(formula, [Value(trace, name) for name in parameters(formula)]))
    except Exception as error:
        raise GraphError(
            f"{where} cannot be traced ({error}); use + - * /, and np and where of fleetcube.graph"
        ) from None


def _check_roles(graph: Graph, module: FormulaModule) -> None:
    """Refuse roles of names that the graph lacks, which would play none."""
    for row in fields(module.roles):
        if row.name in ("labels", "texts", "synonyms"):
            continue
        value = getattr(module.roles, row.name)
        players = {value} if isinstance(value, str) else {*value}
        possible = {*graph.quantities, *(() if row.name == "layout" else graph.inputs)}
        if strangers := sorted(players - possible - {""}):
            raise GraphError(
                f"graph {module.name}: ROLES names {strangers[0]!r} in {row.name}, which is no "
                f"quantity; name one of {', '.join(sorted(graph.quantities))[:60]}"
            )


def _check_choices(graph: Graph, module: FormulaModule, quantity: Quantity) -> None:
    """Refuse alternatives that are not the choices of an option."""
    row = graph.inputs.get(quantity.option) if quantity.option else None
    if quantity.option and (row is None or {*row.choices} != {*quantity.formulas}):
        choices = ", ".join(map(str, row.choices)) if row else "none, as it is no option"
        raise GraphError(
            f"graph {module.name}: {quantity.name} has formulas where {quantity.option} is "
            f"{', '.join(map(str, quantity.formulas))}, and its choices are {choices}; match them"
        )
