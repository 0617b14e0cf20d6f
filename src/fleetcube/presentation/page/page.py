"""Contents of the live page: a program for each set of formulas, its sliders and outputs."""

import base64
import hashlib
import html
import itertools
import json
import math
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from fleetcube.analysis.account_tree import tied
from fleetcube.analysis.interval import SHARE
from fleetcube.analysis.layouts import SPELLED
from fleetcube.analysis.levers import is_lever
from fleetcube.analysis.pareto import sign_of
from fleetcube.analysis.targets import Target
from fleetcube.analysis.uncertainty import errors
from fleetcube.catalog.files import expanded
from fleetcube.catalog.pooled import NORMAL
from fleetcube.functions import javascript
from fleetcube.grid.errors import InputError
from fleetcube.grid.plan.cases import choices, leaves
from fleetcube.grid.plan.labels import attributes, own_version, remarks
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.axis import Axis
from fleetcube.grid.spec.graphs import graph_of
from fleetcube.grid.store.places.durable import write_file
from fleetcube.kernels.calculus.derivatives import derivative
from fleetcube.kernels.engines.program import fold
from fleetcube.kernels.graph.formulas import Function, Graph, parameters
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics import roles
from fleetcube.kernels.physics.inputs import TOPIC_OF
from fleetcube.presentation.pictures.picture import labels_of, words
from fleetcube.scenario import auto, dates
from fleetcube.scenario.along_axes import values_at
from fleetcube.tables import theme
from fleetcube.tables.tables import as_read, check_new, counted, scale, words_of_codes

from .account_data import packed_account
from .static_html import parts

MOST_CHOICES = 128  # of labels, options and points of axes that set several inputs
MOST_BYTES = 1_000_000  # of a page: mail programs do not open more
MOST_STOPS = 500  # of a slider over an axis
FILES = ("pictures.js", "answers.js", "account.js", "charts.js", "map.js", "live.js")
FIRST = 5  # numbers of the first view; all others fold
_DRAWN = "inputs with distributions are at their medians; intervals are not shown"


@dataclass(frozen=True)
class Planned:
    """What a plan adds to a page: its goal and conditions, the sizes where it begins, and a
    summary of its search. `choices` has columns of the choices: their clusters, the names of their
    layouts, the commands that give a layout and the searches that find it anew, and the shortest
    sequences that `plan` tries."""

    goal: str
    sense: str
    where: Sequence[Target]
    start: Mapping[str, Any]
    choices: Mapping[str, Sequence[Any]]
    summary: str


def page(
    spec: Mapping[str, Any],
    title: str,
    file: str = "",
    planned: Planned | None = None,
    given: Sequence[str] = (),
    verb: str = "run",
    cube: Mapping[str, Any] | None = None,
) -> str:
    """A page that computes a spec in the browser; see `Sweep.to_html`. `verb` is the command that
    gives its numbers of the spec `file`, with arguments `given`, which a slider may replace. `cube`
    describes one of the spec, of which a server has the values (`View.described`)."""
    graph = graph_of(spec["scenario"])
    axes = list(make_axes(graph, spec["axes"]).values())
    sliders = {axis.name: axis for axis in axes if is_slider(graph, axis)}
    several = [axis for axis in axes if axis.name not in sliders]
    points = _points(several)
    wanted = [name for name in spec["outputs"] if not derivative(graph, name)]
    if not wanted:
        raise InputError("all outputs are derivatives, which a page finds itself; name another")
    begin = {axis.name: axis.size // 2 for axis in axes} | (cube["start"] if cube else {})
    moved_to = {name: axis.labels[begin[name]].item() for name, axis in sliders.items()}
    scenario = {**spec["scenario"], **moved_to, **(planned.start if planned else {})}
    stated = [{**scenario, **settings} for _, settings in points]
    rows = [
        _Choice(" ".join(words), settings, wanted)
        for (words, _), settings in zip(points, stated, strict=True)
    ]
    chosen = {name for axis in several for name in axis.inputs}  # `run` refuses them then
    moved = [n for n in graph.inputs if n not in chosen and all(row.may_move(n) for row in rows)]
    data, programs = _programs(rows, moved)
    columns = {"clusters": data["choices"], "commands": [shlex.join(words) for words, _ in points]}
    columns |= {"layouts": [], "searches": [], "shortest": []}
    data["command"] = f"fleetcube {verb} {shlex.quote(file) if file else 'SPEC.toml'}"
    data |= planned.choices if planned else columns
    data["given"] = [[word.split("=")[0], shlex.quote(word)] for word in given]
    data |= _goal(planned, rows[0], wanted)
    data |= {
        "caption": ", ".join([*labels_of(scenario), f"fleetcube {own_version()}"]),
        "inputs": _inputs(graph, data.pop("names"), moved, rows[0], sliders),
        "outputs": _outputs(rows[0], rows, wanted),
        "axes": [*sliders],
        "several": [
            {"name": a.name, "title": words(a.name), "labels": [*map(str, a.labels.tolist())]}
            for a in (() if planned else several)
        ],
        "begin": [begin[axis.name] for axis in several] if cube else [],
        "cube": cube,
        "about": _about(planned, rows),
        "sizes": roles.SIZES,
        "share": SHARE,
        "normal": NORMAL,
    }
    outputs, drawn = rows[0].plan.outputs, any(row.drawn for row in rows)
    data["losses"] = [outputs.index(name) for name in roles.LOSSES if name in outputs]
    data["account"] = packed_account([(row.plain, row.values) for row in rows], data, chosen)
    if planned:
        data["outputs"][data["goal"]]["sense"] = sign_of(planned.sense)
        names = zip(data["clusters"], data["layouts"], strict=True)
        data["choices"] = [" ".join(filter(None, each)) for each in names]
    return _filled(title, data, programs, parts(spec["scenario"], stated, data, drawn))


def page_of_cube(title: str, cube: Mapping[str, Any], why: str) -> str:
    """A page that draws what a server has of a cube, whose formulas it does not hold: `why`."""
    outputs = [{"hidden": False, **each} for each in cube["variables"]]
    data: dict[str, Any] = {"caption": f"fleetcube {own_version()}", "outputs": outputs}
    data |= {name: [""] for name in ("choices", "clusters", "commands")} | {"bases": [[]]}
    data |= {"cube": cube, "goal": 0, "degrees": {}, "about": [f"Nothing is computed here: {why}"]}
    lists = ("inputs", "axes", "several", "begin", "slips", "shares", "growing", "where", "losses")
    data |= {name: [] for name in (*lists, "sentence", "leading", "layouts", "given", "sizes")}
    return _filled(title, data, [], defaultdict(str))


def _about(planned: Planned | None, rows: Sequence["_Choice"]) -> list[str]:
    lines = [planned.summary] if planned else []
    lines += [_DRAWN] if any(row.drawn for row in rows) else []
    return [*lines, *dict.fromkeys(remark for row in rows for remark in remarks(row.plan))]


def _goal(planned: Planned | None, first: "_Choice", wanted: Sequence[str]) -> dict[str, Any]:
    """What the page answers first: outputs of its sentence, the goal, and conditions."""
    outputs = first.plan.outputs
    plain = [name for name in wanted if _unit(first, name) != "flag"]
    goal = planned.goal if planned else [*plain, *wanted][0]
    sentence = [name for name in dict.fromkeys([goal, roles.TIME, roles.MONEY]) if name in plain]
    named = dict.fromkeys([*roles.LEADING, *plain, *wanted])
    leading = [name for name in named if name in wanted and name not in sentence]
    return {
        "sentence": [outputs.index(name) for name in sentence],
        "leading": [outputs.index(name) for name in leading[: FIRST - len(sentence)]],
        "goal": outputs.index(goal),
        "where": [
            [outputs.index(target.of), target.relation, target.level]
            for target in (planned.where if planned else ())
            if target.of in outputs and not isinstance(target.level, str)
        ],
    }


def check_target(path: str | PathLike[str]) -> None:
    path = Path(path)
    if path.suffix.lower() != ".html":
        raise InputError(f"{str(path)!r} is not an .html file; change its ending")
    check_new(path)


def write(text: str, path: str | PathLike[str]) -> None:
    """Write a page atomically. Raises InputError."""
    check_target(path := expanded(path))
    try:
        write_file(Path(path).absolute().parent, Path(path).name, text.encode())
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r} ({error.strerror}); choose another") from None


class _Choice:
    """One combination of labels and options: a one-point scenario and its formulas."""

    def __init__(self, name: str, scenario: Mapping[str, Any], outputs: Sequence[str]) -> None:
        ends = [end for output in outputs if output in roles.ENDS for end in roles.ENDS[output]]
        losses = roles.LOSSES if is_known(scenario, {}, roles.LOSSES) else ()
        alone = (roles.NEAR, roles.MEMORY[1], roles.CROSSING)
        limits = [name for name in alone if is_known(scenario, {}, [name])]
        outputs = [*dict.fromkeys([*outputs, *ends, *losses, *limits])]
        self.plain: Plan = Evaluation(scenario, {}, outputs)._plan("numpy")
        self.drawn = bool(self.plain.problem.distributions)  # intervals would lack what these add
        self.errors = {
            output: [] if self.drawn else [*errors(self.plain, output)]
            for output in self.plain.outputs
        }
        slips = dict.fromkeys((e for names in self.errors.values() for e in names), 0.0)
        self.name, self.scenario, self.slips = name, {**scenario, **slips}, [*slips]
        self.plan: Plan = Evaluation(self.scenario, {}, outputs)._plan("numpy")
        problem = self.plan.problem
        (self.chosen,) = choices(problem, ())
        (values,) = leaves(problem, [self.chosen], (), ())
        self.values = {name: row.item() for name, row in values.items()}
        self.formulas: Mapping[str, Function] = self.plan.cases[0].formulas
        self.read = {p for formula in self.formulas.values() for p in parameters(formula)}
        self.layout = {**self.scenario, **self.chosen.options, **self.values}
        self.fixed = {*slips, *tied(problem, self.chosen.options)}

    def may_move(self, name: str) -> bool:
        """Whether a number may change without changing anything else that `run` would derive."""
        return name in self.read and name in self.values and name not in self.fixed


def is_slider(graph: Graph, axis: Axis) -> bool:
    row = axis.numbers.get(axis.name)
    return row is not None and axis.inputs == (axis.name,) and axis.name in graph.inputs


def _points(axes: Sequence[Axis]) -> list[tuple[list[str], dict[str, Any]]]:
    """All combinations of the points of axes: the arguments of each, and what it sets."""
    count = math.prod(axis.size for axis in axes)
    if count > MOST_CHOICES:
        names = " and ".join(axis.name for axis in axes)
        raise InputError(f"{names} make {count:,} choices; a page holds {MOST_CHOICES}: name fewer")
    words = [[f"{axis.name}={label}" for label in axis.labels.tolist()] for axis in axes]
    settings = [[values_at(axis, k) for k in range(axis.size)] for axis in axes]
    return [
        ([*point], {name: value for each in sets for name, value in each.items()})
        for point, sets in zip(itertools.product(*words), itertools.product(*settings), strict=True)
    ]


def _programs(rows: Sequence[_Choice], moved: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """A program for each set of formulas; numbers that differ between choices are inputs of all."""
    slips = dict.fromkeys(e for row in rows for e in row.slips)
    differing = [
        name
        for name in dict.fromkeys(n for row in rows for n in sorted(row.read))
        if name not in slips
        and name not in moved
        and len({repr(row.values.get(name)) for row in rows}) > 1
        and any(name in row.values for row in rows)
    ]
    names = [*moved, *slips, *differing]
    outputs = rows[0].plan.outputs
    positions: dict[Any, int] = {}
    sources: list[str] = []
    bases, which = [], []
    for row in rows:
        inputs = [n for n in names if n in row.values]
        key = (tuple(row.formulas.items()), tuple(inputs))
        if key not in positions:
            positions[key] = len(sources)
            given = {n: value for n, value in row.values.items() if n not in inputs}
            flags = [output for output in outputs if _unit(row, output) == "flag"]
            program = fold(outputs, row.formulas, given, inputs, (), flags)
            places = [names.index(n) for n in inputs]
            text = javascript.source(program, "compute")
            sources.append(f"(all) => {{\n{text}return compute({places}.map((k) => all[k]));\n}}")
        which.append(positions[key])
        bases.append([row.values.get(n, math.nan) for n in names])
    # of all choices but the first what differs from it
    differences = [
        {k: value for k, value in enumerate(base) if repr(value) != repr(bases[0][k])}
        for base in bases[1:]
    ]
    data = {
        "names": names,
        "choices": [row.name for row in rows],
        "degrees": {n: [row.layout.get(n) for row in rows] for n in (roles.SIZES[0], *SPELLED)},
        "programs": which,
        "bases": [bases[0], *differences],
        "slips": [names.index(n) for n in slips],
        "shares": [[names.index(n) for n in s if n in names] for s in roles.SHARES],
        "growing": [
            [names.index(low), names.index(high)]
            for high, low in roles.GROWING.items()
            if low in names and high in names
        ],
    }
    return data, sources


def _unit(row: _Choice, name: str) -> str:
    about = attributes(row.plan, name)
    return "flag" if "flag_values" in about else str(about["units"])


def _inputs(
    graph: Graph,
    names: Iterable[str],
    moved: Sequence[str],
    first: _Choice,
    sliders: Mapping[str, Axis],
) -> list[dict[str, Any]]:
    measured = auto.measured() if first.plan.problem.inferred else {}
    described: list[dict[str, Any]] = []
    for name in names:
        if name not in moved:
            described.append({"name": name})
            continue
        row, value = graph.inputs[name], first.values[name]
        factor, unit = scale(row.unit, [value], name)
        facts = {
            "name": name,
            "title": words(name),
            "about": row.description,
            "topic": TOPIC_OF.get(name, graph.name).capitalize(),
            "factor": factor,
            "unit": unit,
            "count": row.kind == "count",
            "low": row.low,
            "high": row.high,
            "above": row.positive and row.low <= 0,
            "infinite": row.may_be_infinite,
            "stated": name in first.plan.problem.stated or name in sliders,
            "leads": is_lever(graph, name) or name in roles.RUN_STEPS,
        }
        if name in sliders and sliders[name].size <= MOST_STOPS:
            facts["stops"] = sorted({*sliders[name].numbers[name].tolist()})
        if name in measured:
            facts["measured"] = measured[name]
        described.append(facts)
    return described


def _outputs(
    first: _Choice, rows: Sequence[_Choice], wanted: Sequence[str]
) -> list[dict[str, Any]]:
    outputs = first.plan.outputs
    values = Evaluation(first.scenario, {}, outputs).evaluate(settings=Settings("numpy"))
    masked = {output for row in rows for output in row.plan.layout_dependent}
    described = []
    for name in outputs:
        about = attributes(first.plan, name)
        facts = {"name": name, "title": words(name), "about": about["long_name"]}
        facts["sense"] = -1 if name in roles.BEST_HIGH else 1
        facts["title"] += counted(about)
        facts |= {"masked": name in masked, "hidden": name not in wanted or name == REASON}
        if "flag_values" in about:
            facts["words"] = words_of_codes(about)
        else:
            factor, unit = as_read(about, [values[name].item()], name)
            facts |= {"factor": factor, "unit": unit}
            facts["slips"] = any(row.errors[name] for row in rows)
            facts["counted"] = name == roles.FAILURES
            if name == roles.TIME and (since := dates.start_of(first.scenario)):
                facts["start"] = since.isoformat()
            if name in roles.ENDS and not first.drawn:
                facts["ends"] = [outputs.index(end) for end in roles.ENDS[name]]
        described.append(facts)
    return described


def _filled(
    title: str, data: Mapping[str, Any], programs: Sequence[str], still: Mapping[str, str]
) -> str:
    """One file with style and script, allowed by their hashes, and nothing from elsewhere."""
    facts = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # with NaN: JavaScript
    head = f'"use strict";\nconst DATA = {facts};\n{javascript.HEAD}'
    formulas = f"const PROGRAMS = [{', '.join(programs)}];"
    lines = re.sub(r"(?m)^ *(//.*\n)?", "", "\n".join(map(asset, FILES)))  # as comments weigh
    script = f"{head}\n{formulas}\n{lines}"
    style, served = css() + asset("live.css"), data["cube"] is not None
    filled = defaultdict(str, still) | {
        "connect": "connect-src 'self'; " if served else "",
        "sends": "asks this machine alone, for a cube's values" if served else "sends nothing",
        "title": html.escape(title),
        "caption": html.escape(data["caption"]),
        "about": "".join(f"<li>{html.escape(line)}</li>" for line in data["about"]),
        "style": style,
        "script": script,
        "style_hash": _hash(style),
        "script_hash": _hash(script),
    }
    text = re.sub(r"{{(\w+)}}", lambda mark: filled[mark[1]], asset("live.html"))
    if len(text) > MOST_BYTES:
        raise InputError(
            f"the page would have {len(text) / 1e6:.2g} MB, and {MOST_BYTES / 1e6:.0f} MB is the "
            "most; name fewer choices or outputs"
        )
    return text


def policy_of(text: str) -> str:
    """The content security policy that a page states, for a server's header."""
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    return policy[1] if policy else "default-src 'none'"


def asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def css() -> str:
    """What the pages share."""
    return theme.css() + asset("base.css")


def _hash(text: str) -> str:
    """Hash in the syntax of a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
