"""Explain a name: formula, unit, default, source, its inputs and the quantities it feeds."""

import functools
import json
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from fleetcube.analysis.traffic import TIMES, crossings, duration
from fleetcube.catalog import AUTO, KINDS, glossary, kind
from fleetcube.catalog.assumptions import assumptions
from fleetcube.grid.errors import InputError, nearest, shown
from fleetcube.grid.spec.graphs import ABOUT as ABOUT_PLUGINS
from fleetcube.grid.spec.graphs import NAME as PLUGINS
from fleetcube.grid.spec.graphs import graph_of, with_graph
from fleetcube.grid.spec.problem import choose
from fleetcube.kernels import physics
from fleetcube.kernels.alternatives import is_row, is_twin
from fleetcube.kernels.calculus.derivatives import derivative
from fleetcube.kernels.declare import Input
from fleetcube.kernels.graph.docstrings import Doc, read
from fleetcube.kernels.graph.formulas import Function, Graph, Quantity, parameters
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import BY_TOPIC, INPUTS, TOPIC_OF
from fleetcube.kernels.physics.roles import OTHER_NAMES
from fleetcube.scenario import dates, patterns, user_records
from fleetcube.tables.tables import cannot_run, label, memory_use, scale
from fleetcube.text import WIDTH

MOST_MATCHES = 15  # names listed by a word search
_PATTERNS = {
    patterns.NAME: (patterns.ABOUT, patterns.SETS),
    patterns.LAYOUT: (patterns.ABOUT_LAYOUT, patterns.LAYOUT_SETS),
}
_NAMED = {
    dates.NAME: f"{dates.ABOUT}, in [scenario], as 2027-06-01",
    user_records.NAME: f"{user_records.ABOUT}, as mylab.toml",
    PLUGINS: f"{ABOUT_PLUGINS}, as mylab_schedules",
}
_PER_KWH = {"kg/J": (1e-3 / 3.6e6, "g/kWh"), "USD/J": (1 / 3.6e6, "USD/kWh")}


class Explanation(str):
    """A text that shows its lines in a shell and in a notebook."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def explain(name: str | None = None, graph: Any = (), **options: Any) -> Explanation:
    """Explain an input, option, quantity or catalog kind; without a name, list all.

    A quantity: its formulas, the option that selects among them, sources, and its inputs with
    defaults, under the default options or those given (goodput_model="additive"). An input:
    default, bounds, the quantities it feeds. Other words: the names that contain them, or whose
    meanings do; terms of the catalog's glossary and catalog labels lead to names. Formulas of
    `graph`, whose modules are imported, count, too. Raises InputError, with the nearest names, if
    none.
    """
    if name is None:
        return Explanation(_list_all())
    if not isinstance(name, str):
        raise InputError(f"{name!r} is not a name; write it as text")
    graph = graph_of(with_graph({}, graph))
    if options and name not in graph.quantities:
        raise InputError(f"{shown(name)} is not a quantity, whose formulas options choose")
    written, name = name, OTHER_NAMES.get(name.lower(), name.lower())
    if name in graph.inputs:
        lines = _explain_input(graph, graph.inputs[name])
    elif name in graph.quantities:
        lines = _explain_quantity(graph, graph.quantities[name], _chosen(graph, options))
    elif slope := derivative(graph, name):
        lines = [f"{name} [{_unit(slope.unit)}]", "", *_wrapped(slope.doc.summary)]
        lines += ["", *_wrapped("Exact, by the chain rule; docs/gradients.md lists the kinks.")]
        lines += [
            "",
            f"See `fleetcube explain {slope.output}` and `fleetcube explain {slope.wrt}`.",
        ]
    elif not graph.roles.labels:
        near = nearest(written, [*graph.inputs, *graph.quantities])
        raise InputError(f"{shown(written)} is neither an input nor a quantity; {near}")
    elif name in KINDS:
        lines = [f"{name}: a catalog kind", ""]
        lines += _field("labels", kind(name)) + _field("sets", KINDS[name])
    elif name in _PATTERNS:
        about, sets = _PATTERNS[name]
        lines = [*_wrapped(f"{name}: {about}"), "", *_wrapped("Sets " + ", ".join(sets))]
    elif name in _NAMED:
        lines = _wrapped(f"{name}: {_NAMED[name]}")
    elif entry := glossary.word(written):
        lines = _explain_word(entry, written)
    elif labels := [(k, kind(k)[written]) for k in KINDS if written in kind(k)]:
        lines = [f"{written}: a {k} of the catalog, {record.title}" for k, record in labels]
        lines += ["", *(f"See `fleetcube catalog {k} {written}`." for k, _ in labels)]
    elif not (lines := _search(name)):
        words = [each for row in glossary.glossary() for each in row.words]
        near = nearest(written, [*INPUTS, *PHYSICS.quantities, *KINDS, *words])
        raise InputError(f"{shown(written)} is neither an input nor a quantity; {near}")
    if name in assumptions():
        row = assumptions()[name]
        texts = [text or label(table[name]) for text, table in row.values]
        texts += [f"{factor:g} times as much" for factor in row.factors]
        lines += ["", *_wrapped(f"If nobody states it, answers give others: {'; '.join(texts)}")]
        lines += _wrapped(f"source: {row.source}")
    return Explanation("\n".join(lines))


def _explain_word(entry: glossary.Word, written: str) -> list[str]:
    """A glossary term: meaning, the names it leads to, and others that contain it."""
    lines = [*_wrapped(", ".join(entry.words)), "", *_wrapped(entry.means), ""]
    rows = {row[0]: row for row in _rows()}
    for name in entry.names:
        lines += _name_lines(*rows[name]) if name in rows else [f"  {name}  a label"]
    lines += ["", *_wrapped(f"source: {entry.source}")] if entry.source else []
    others = [row[0] for row in _holding(written) if row[0] not in entry.names]
    more = f", and {len(others) - MOST_MATCHES} more" if len(others) > MOST_MATCHES else ""
    see_also = f"see also: {', '.join(others[:MOST_MATCHES])}{more}"
    return [*lines, *(["", *_wrapped(see_also)] if others else [])]


def _rows() -> list[tuple[str, str, str]]:
    """Name, meaning and unit of every input and quantity."""
    rows = [(row.name, row.description, row.unit) for row in INPUTS.values()]
    return rows + [(each.name, each.doc.summary, each.unit) for each in PHYSICS.quantities.values()]


def _name_lines(name: str, meaning: str, unit: str) -> list[str]:
    return _wrapped(f"  {name}  {meaning.rstrip('.')} {_whole(f'[{_unit(unit)}]')}", " " * 6)


def _holding(text: str) -> list[tuple[str, str, str]]:
    """Names with words that begin like those of a text, then names explained by such words."""
    words = re.findall("[a-z0-9]+", text.lower())
    begins = [re.compile(rf"(?<![a-z0-9]){word}") for word in words]
    rows = _rows()
    named = [row for row in rows if all(begin.search(row[0]) for begin in begins)]
    explained = [
        row
        for row in rows
        if row not in named and all(begin.search(f"{row[0]} {row[1]}".lower()) for begin in begins)
    ]
    return [*named, *explained] if words else []


def _search(text: str) -> list[str]:
    """The names that contain a text, with their meanings."""
    matches = _holding(text)
    if not matches:
        return []
    lines = [f"Names and meanings with {text!r}; `fleetcube explain NAME` shows more:", ""]
    for row in matches[:MOST_MATCHES]:
        lines += _name_lines(*row)
    more = len(matches) - MOST_MATCHES
    return [*lines, *([f"and {more} more: `fleetcube explain` lists all"] if more > 0 else [])]


def explain_traffic(point: Any) -> str:
    """Text on the traffic of a job that crosses each tier of its network. `point` has the
    values of `traffic.names_of`; if it also has TIMES, a line gives the interval."""
    tiers, traffic = crossings(point)
    rows = [("tier", "GPUs", "GB/s a GPU", "traffic that goes no further")]
    for place, tier in enumerate(tiers):
        kinds = [
            each.kind if math.isnan(each.seconds) else f"{each.kind} {duration(each.seconds, 3)}"
            for each in traffic
            if each.tier == place
        ]
        numbers = (f"{tier.gpus:,.6g}", f"{tier.bandwidth / 1e9:.4g}")
        rows.append((tier.name, *numbers, ", ".join(kinds) or "-"))
    wide = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{name:<{wide[0]}}  {gpus:>{wide[1]}}  {rate:>{wide[2]}}  {kinds}"
        for name, gpus, rate, kinds in rows
    ]
    none = [each.kind for each in traffic if each.tier < 0]
    lines += ["", f"no traffic: {', '.join(none)}"] if none else []
    lines += ["", "Times per step, before any overlap."]
    lines += [why] if (why := cannot_run(point)) else []
    lines += [f"Memory of a GPU: {used}."] if (used := memory_use(point)) else []
    if all(name in point for name in TIMES):
        middle, low, high = (float(point[name]) for name in TIMES)
        if low < high:
            ends = f"{duration(low, 4)} to {duration(high, 4)}"
            lines.append(f"The step takes {duration(middle, 4)}; 90 % interval {ends}.")
    return "\n".join(lines)


def origins(attrs: Mapping[str, Any]) -> list[str]:
    """Origins of the inputs of a result: the spec, each record, defaults of the software."""
    spec = json.loads(attrs["fleetcube_spec"])
    stated = {n for n, v in {**spec["scenario"], **spec["axes"]}.items() if v != AUTO}
    lines = _wrapped(f"stated: {', '.join(sorted(stated))}", "  ")
    for entry in json.loads(attrs["fleetcube_catalog"]):
        software_values = entry["values"].get("own", {})
        values = {
            **dict.fromkeys(entry["values"], ""),
            **{n: f" {label(v)}" for n, v in software_values.items()},
        }
        names = [f"{n}{value}" for n, value in values.items() if n in INPUTS and n not in stated]
        stated |= values.keys()
        if names:
            lines += _wrapped(f"{entry['kind']} {entry['label']}: {', '.join(names)}", "  ")
    return lines


def unused(attrs: Mapping[str, Any]) -> str:
    """A line on inputs that a cube sets although nothing depends on them. For a result, the line
    shows how to reach it: by solving for the nearest continuous input."""
    names = str(attrs["fleetcube_unused"]).split()
    idle = [INPUTS[name].idle for name in names if name in INPUTS and INPUTS[name].idle]
    line = "; ".join([f"given, but not used here: {', '.join(names)}", *idle])
    for name in names:
        if name in PHYSICS.quantities and (by := _lever(name)):
            value = json.loads(attrs["fleetcube_spec"]).get("scenario", {}).get(name)
            target = f"{name} = {value if isinstance(value, int | float | str) else 'VALUE'}"
            return (
                f"{line}; {name} is a result; to reach it, take it out of the spec and solve for "
                f"an input: fleetcube solve SPEC --for {by} --target {target!r}"
            )
    return line


def _lever(name: str) -> str | None:
    """The nearest continuous input of a quantity with a default that is not 0 or infinite."""
    formulas = PHYSICS.select([name], choose(PHYSICS, {}, ()), INPUTS)
    level = [name]
    for current in level:
        level += [p for p in parameters(formulas[current]) if p in formulas and p not in level]
    for current in level:
        for row in filter(None, map(INPUTS.get, parameters(formulas[current]))):
            if row.kind == "real" and row.default and row.default < float("inf"):
                return row.name
    return None


def _chosen(graph: Graph, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the table of inputs spells them."""
    chosen = {}
    for name, value in options.items():
        row = graph.inputs.get(name)
        if row is None or row.kind != "option":
            option_names = [name for name, row in graph.inputs.items() if row.kind == "option"]
            raise InputError(f"{name!r} is not an option; {nearest(name, option_names)}")
        fits = [each for each in row.choices if label(each) == label(value)]
        if not fits:
            some = ", ".join(map(label, row.choices))
            raise InputError(f"{name} = {shown(value)} is unknown; choose one of {some}")
        chosen[name] = fits[0]
    return chosen


def _explain_quantity(graph: Graph, quantity: Quantity, options: Mapping[str, Any]) -> list[str]:
    doc = quantity.doc
    lines = [f"{quantity.name} [{'flag' if doc.flags else _unit(doc.unit)}]"]
    for each in graph.extensions:
        if not each.inputs and quantity.name in each.quantities:
            done = (
                f"replaces {quantity.name} of"
                if quantity.name in PHYSICS.quantities
                else "is added to"
            )
            lines += ["", *_wrapped(f"{done} fleetcube by the graph {each.pinned}")]
    choices: dict[Function, list[Any]] = {}
    considered: Sequence[Any] = (
        graph.inputs[quantity.option].choices if quantity.option else (None,)
    )
    if quantity.option and quantity.option in options:
        considered = (options[quantity.option],)
    for choice in considered:
        choices.setdefault(quantity.formulas[choice], []).append(choice)
    for formula, values in choices.items():
        lines.append("")
        if quantity.option:
            usual = graph.inputs[quantity.option].default
            chosen = [label(v) + (" (default)" if v == usual else "") for v in values]
            lines += _wrapped(f"where {quantity.option} = {' or '.join(chosen)}:")
        lines += _explain_formula(graph, quantity.name, formula)
    lines += ["", *_feeds(quantity.name, "nothing: it is a result", graph=graph)]
    formulas = graph.select([quantity.name], choose(graph, options, ()), graph.inputs)
    if len(formulas) > 1:
        how = "these options" if options else "default options"
        lines += ["", f"Computed from, with {how} (each name once, where first needed):"]
        lines += _tree(graph, quantity.name, formulas, options)
    names = {p for formula in formulas.values() for p in parameters(formula)}
    names |= {option for needed in formulas if (option := graph.quantities[needed].option)}
    rows = [row for row in graph.inputs.values() if row.name in names]
    return [*lines, *(["", "Inputs of these, with defaults:", *_defaults(rows)] if rows else [])]


def _explain_formula(graph: Graph, quantity: str, formula: Function) -> list[str]:
    doc = read(formula)
    lines = [*_wrapped(doc.summary), "", *_maths(doc), ""]
    if doc.flags:
        lines += _field("flags", (f"{code} {name}" for code, name in doc.flags.items()))
    needs = [f"{name} [{_unit(unit)}]" for name, unit in graph.units(formula).items()]
    lines += _field("needs", needs or ["nothing"])
    if doc.range:
        lines += _wrapped(f"holds:   {doc.range}", "         ")
    lines += _wrapped(f"source:  {doc.source}", "         ")
    place = [_file(formula.__globals__["__name__"]), formula.__code__.co_name]
    if is_row(formula):  # its file has no such function
        place = [_file(formula.__module__), f"a row of {quantity}"]
    elif is_twin(formula):  # a shared formula, or that of another group
        place += [f"named in {_file(formula.__module__)}", formula.__name__]
    return [*lines, *_field("code", place)]


def _file(module: str) -> str:
    return f"{module.removeprefix('fleetcube.').replace('.', '/')}.py"


def _maths(doc: Doc) -> list[str]:
    """Lines as written; a paragraph that is too wide is prose, and is rewrapped."""
    lines = []
    for paragraph in filter(None, doc.maths.split("\n\n")):
        if max(map(len, paragraph.splitlines())) > (most := WIDTH.get() - 4):
            paragraph = "\n".join(textwrap.wrap(paragraph, most, break_on_hyphens=False))
        lines += ["", *textwrap.indent(paragraph, "    ").splitlines()]
    return lines[1:]


def _tree(
    graph: Graph, name: str, formulas: Mapping[str, Function], options: Mapping[str, Any]
) -> list[str]:
    """The tree of quantities below `name`, each once, at its least depth."""
    below: dict[str, list[str]] = {}
    reached, level = {name}, [name]
    for current in level:
        new = [p for p in parameters(formulas[current]) if p in formulas and p not in reached]
        below[current] = new
        reached.update(new)
        level += new

    def written(current: str, depth: int) -> Iterable[str]:
        option = graph.quantities[current].option
        chosen = label(options.get(option, graph.inputs[option].default)) if option else ""
        choice = f" {_whole(f'({option} = {chosen})')}" if option else ""
        yield from _wrapped(f"{'  ' * depth}{current}{choice}", "  " * (depth + 2))
        for needed in below[current]:
            yield from written(needed, depth + 1)

    return list(written(name, 1))


def _explain_input(graph: Graph, row: Input) -> list[str]:
    lines = [_named(row), ""]
    lines += [*_wrapped(f"{row.description[0].upper()}{row.description[1:]}."), ""]
    lines += _field("choices", map(label, row.choices)) if row.choices else []
    lines.append(f"default: {default_of(row) or 'none: it is required'}")
    if row.implied_by:
        implying = " or ".join(row.implied_by)
        lines += _wrapped(f"implied: {label(row.implied)} where {implying} is given", " " * 9)
    if row.kind != "option":
        lines.append(f"bounds:  {bounds(row)}")
    topic = f", of {TOPIC_OF[row.name]}" if row.name in TOPIC_OF else ""
    lines += [f"kind:    {row.changed_by}{topic}"] if row.changed_by else []
    labels = [f"{kind_name} labels" for kind_name, names in KINDS.items() if row.name in names]
    lines += _field("set by", labels) if labels else []
    return [
        *lines,
        *_feeds(row.name, "nothing", "chooses" if row.kind == "option" else "feeds", graph),
    ]


def _defaults(rows: Sequence[Input]) -> list[str]:
    names = [_named(row) for row in rows]
    width = max(map(len, names))
    return [
        f"  {name:<{width}}  {default_of(row) or 'required'}"
        for name, row in zip(names, rows, strict=True)
    ]


@functools.cache
def feeds(name: str, graph: Graph = PHYSICS) -> tuple[str, ...]:
    """Quantities whose formula, or choice of formula, uses a name."""
    return tuple(
        quantity.name
        for quantity in graph.quantities.values()
        if quantity.option == name
        or any(name in parameters(formula) for formula in quantity.formulas.values())
    )


def downstream(name: str, graph: Graph = PHYSICS) -> set[str]:
    """Every quantity that a name affects, directly or through others."""
    reached: set[str] = set()
    level = [name]
    for current in level:
        new = [fed for fed in feeds(current, graph) if fed not in reached]
        reached.update(new)
        level += new
    return reached


def _feeds(name: str, nothing: str, title: str = "feeds", graph: Graph = PHYSICS) -> list[str]:
    direct, count = feeds(name, graph), len(downstream(name, graph))
    more = [f"and through these {count - len(direct)} others"] if count > len(direct) else []
    return _field(title, [*direct, *more] or [nothing])


def _list_all() -> str:
    lines = ["INPUTS: name [unit of plain numbers] = default", ""]
    lines += _wrapped(
        'Text carries a unit ("400 Gbit/s"). Catalog labels set several inputs at once: see '
        "fleetcube catalog. Quantities, below, may be given as inputs too. To search names and "
        "meanings by a word: fleetcube explain price."
    )
    for topic, rows in BY_TOPIC.items():
        lines += ["", topic]
        for row in rows:
            default = f" = {default_of(row)}" if default_of(row) else ", required"
            choices = f" ({', '.join(map(label, row.choices))})" if row.choices else ""
            lines.append(f"  {_named(row)}{default}")
            lines += _wrapped(f"      {row.description}{choices}", " " * 6)
    lines += ["", "", "QUANTITIES: name [unit]"]
    for topic, members in topics().items():
        lines += ["", topic]
        for quantity in members:
            option = f" (by {quantity.option})" if quantity.option else ""
            lines.append(f"  {quantity.name} [{_unit(quantity.unit)}]")
            lines += _wrapped(f"      {quantity.doc.summary}{option}", " " * 6)
    return "\n".join(lines)


def topics() -> dict[str, list[Quantity]]:
    """Quantities by topic, in the order of the topics, then alphabetical."""
    members: dict[str, list[Quantity]] = {topic: [] for topic in physics.TOPICS}
    for _, quantity in sorted(PHYSICS.quantities.items()):
        members[quantity.default.__module__.split(".")[-2]].append(quantity)
    return members


def default_of(row: Input) -> str:
    """A readable default: 50,000 h, 100 GB/s; empty if there is none."""
    if row.default is None:
        return ""
    if row.kind == "option":
        return label(row.default)
    return readable(row.default, row.unit, row.name)


def readable(value: float, unit: str, name: str) -> str:
    """A number as text in a customary unit: 50,000 h, 400 g/kWh, infinite."""
    if value == float("inf"):
        return "infinite"
    factor, shown_unit = _PER_KWH.get(unit) or scale(unit, value, name)
    return f"{value / factor:,.12g} {shown_unit}".strip()


def bounds(row: Input) -> str:
    """The bounds of a number in words, in its unit."""
    low = "above 0" if row.positive and row.low == 0 else f"at least {row.low:g}"
    high = f", at most {row.high:g}" if row.high < float("inf") else ""
    whole = "; whole, continuous in the formulas" if row.kind == "count" else ""
    return f"{low}{high}{', may be infinite' * row.may_be_infinite}{whole}"


def _named(row: Input) -> str:
    return row.name if row.unit == "1" else f"{row.name} [{row.unit}]"


def _unit(unit: str) -> str:
    return "-" if unit == "1" else unit


def _field(title: str, words: Iterable[str]) -> list[str]:
    """A title followed by words that are not broken across lines."""
    return _wrapped(f"{title + ':':<9}{', '.join(map(_whole, words))}", " " * 9)


def _whole(text: str) -> str:
    """Text without line breaks inside."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _wrapped(text: str, indent: str = "") -> list[str]:
    how: Any = {"subsequent_indent": indent, "break_long_words": False, "break_on_hyphens": False}
    lines = textwrap.wrap(text, WIDTH.get(), **how)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
