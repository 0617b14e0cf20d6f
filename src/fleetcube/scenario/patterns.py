"""Layer patterns, one letter per layer, as counts: by kind, and on pipeline stages."""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from fleetcube.catalog import CatalogError, record
from fleetcube.grid.errors import InputError, shown
from fleetcube.grid.spec import values
from fleetcube.grid.spec.application import Spelled
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import (
    FOLDED_SCHEDULES,
    GROUP,
    IN_STEPS,
    KEPT_PRODUCTS,
    LETTER_SETS,
    LETTERS,
    MISSING_LETTER_SETS,
    MODULES,
    REPAIR,
    SPLIT,
    UNCHUNKED_SCHEDULES,
)
from fleetcube.kernels.physics.roles import RECOMPUTED as RECOMPUTED
from fleetcube.scenario import policies

NAME = "layer_pattern"
_LETTERS = "M Mamba-2, G gated DeltaNet, * attention, - feed-forward, E experts"
_RULE = f"write one letter for each layer: {_LETTERS}"
ABOUT = f"layers of one block each, a letter for each, in place of their counts: {_LETTERS}"

SETS = (*dict.fromkeys(name for names in LETTERS.values() for name in names), *LETTER_SETS[""])

LAYOUT = "pipeline_layout"
_LAYOUT_RULE = (
    "write E, t for each layer, m for each module of multi-token prediction and L, with | between "
    "stages, as in Et*3|(tt|)*29m|L"
)
ABOUT_LAYOUT = (
    "layers of each piece of a pipeline, as in Megatron-LM's --pipeline-model-parallel-layout: "
    + _LAYOUT_RULE.removeprefix("write ")
)
LAYOUT_SETS = tuple(name for part, name in SPLIT.items() if part not in ("chunks", "schedule"))

# Words of `recompute` and their inputs: modules that run again, products that are kept
_NOTHING_KEPT = "keep_none"
RECOMPUTE_WORDS = {
    "modules": {name.removeprefix("recompute_"): {name: 1.0} for name in MODULES},
    "products": {_NOTHING_KEPT: {}, **{name: {name: 1.0} for name in KEPT_PRODUCTS}},
}

_REPEATED = re.compile(r"(\([^()]*\)|[EtmL])\*(\d{1,4})")
_MOST_LETTERS = 100_000


def counts(pattern: Any) -> dict[str, Any]:
    """The inputs set by a pattern of Megatron-LM or Nemotron-H. Raises InputError. Each letter is a
    layer of one block; | marks the ends of stages and has no effect."""
    if not isinstance(pattern, str):
        raise InputError(f"{NAME} = {shown(pattern)} is not a pattern; {_RULE}")
    letters, slash, _ = pattern.replace("|", "").partition("/")
    if slash:
        raise InputError(
            f"{NAME} = {shown(pattern)} has layers that predict further tokens after /; end it "
            "before"
        )
    wrong = next((letter for letter in letters if letter not in LETTERS), None)
    if wrong is not None or not letters:
        fault = f"has {wrong!r}" if letters else "is empty"
        raise InputError(f"{NAME} = {shown(pattern)} {fault}; {_RULE}")
    inputs: dict[str, Any] = {name: 0 for names in LETTERS.values() for name in names}
    for letter in letters:
        for name in LETTERS[letter]:
            inputs[name] += 1
    for some, settings in MISSING_LETTER_SETS.items():
        inputs |= {} if {*some} & {*letters} else settings
    for letter, settings in LETTER_SETS.items():
        if letter in letters:
            if any(inputs.get(name, value) != value for name, value in settings.items()):
                raise InputError(
                    f"{NAME} = {shown(pattern)} has two kinds of states; give M or G alone"
                )
            inputs |= settings
    return inputs


def modules(text: Any) -> dict[str, Any]:
    """The inputs set by modules that run again, as in "moe_act+layernorm", or by products that are
    kept, as in "keep_qkv_proj+keep_context"; none for other texts."""
    named = [name.strip() for name in text.split("+")] if isinstance(text, str) else []
    products = RECOMPUTE_WORDS["products"]
    choice = "products" if any(name in products for name in named) else "modules"
    words, inputs = (
        RECOMPUTE_WORDS[choice],
        dict.fromkeys(KEPT_PRODUCTS if choice == "products" else (), 0.0),
    )
    if len(named) < 2 and not {*named} & {*words}:
        return {}
    for name in named:
        if name not in words:
            raise InputError(
                f"{RECOMPUTED} = {shown(text)} has {shown(name)}, which is not one of its "
                f"{choice}; join some of {', '.join(words)} by +"
            )
        inputs |= words[name]
    return {RECOMPUTED: choice, **inputs}


def spelled_axis(graph: Graph, name: str, points: Any) -> Spelled | None:
    """An axis of patterns, or of `recompute` with modules by name; None for other axes."""
    if name == NAME:
        rows = [counts(point) for point in points]
        if any(row.keys() != rows[0].keys() for row in rows):
            raise InputError(f"axis {name!r} has patterns with E and without; sweep them apart")
        return Spelled(points, np.array(points), {key: [r[key] for r in rows] for key in rows[0]})
    if name != RECOMPUTED or not any(map(modules, points)):
        return None
    spelled = spelled_rows(graph, {name: points})
    policies = [
        policy(dict(zip(spelled, row, strict=True))) for row in zip(*spelled.values(), strict=True)
    ]
    labels = values.choice_labels(graph, name, list(points))
    return Spelled(policies, labels, spelled)  # in any order of words


def spelled_rows(graph: Graph, rows: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rows of an axis, with the inputs set by modules that run again or products that are kept."""
    points = rows.get(RECOMPUTED, ())
    if not any(map(modules, points)):
        return rows
    settings = [modules(p) or {RECOMPUTED: values.option(graph, RECOMPUTED, p)} for p in points]
    named = dict.fromkeys(key for row in settings for key in row)
    defaults = {key: INPUTS[key].default for key in named}
    return {**rows, **{key: [row.get(key, defaults[key]) for row in settings] for key in named}}


def choice(name: str, value: Any) -> Any:
    """A choice as spelled in the table of inputs, or names of modules that run again."""
    words = without_phase(name) == RECOMPUTED and bool(modules(value))
    return value if words else values.option(PHYSICS, name, value)


def policy(inputs: Mapping[str, Any]) -> Any:
    """The choice of `recompute`; if it names modules or products, these joined by +."""
    choice = inputs.get(RECOMPUTED)
    if choice == "products" and not any(inputs.get(name, 1.0) for name in KEPT_PRODUCTS):
        return _NOTHING_KEPT
    words = RECOMPUTE_WORDS.get(choice, {}) if isinstance(choice, str) else {}
    named = [word for word, sets in words.items() if any(inputs.get(name) == 1.0 for name in sets)]
    return "+".join(named) or choice


def pieces_of(layout: str) -> list[str]:
    """The letters of each piece of a pipeline layout, without its shorthand."""
    text = layout
    while match := _REPEATED.search(text):
        again = match[1].strip("()") * int(match[2])
        text = text[: match.start()] + again + text[match.end() :]
        if len(text) > _MOST_LETTERS:
            break
    return text.replace(",", "").replace(" ", "").removesuffix("|").split("|")


def stages(layout: Any, chunks: int = 1, folded: bool = False, even: bool = True) -> dict[str, Any]:
    """The inputs set by a pipeline layout in Megatron-LM's notation. Raises InputError.

    `chunks` are the pieces of the model on each stage; `folded` ones return up the stages, the last
    on the first stage; in an `even` order, groups of as many micro-batches as stages run through
    one piece after the other. Of the stages between the ends the fullest is used: an upper bound
    for memory and waits. Multi-token prediction counts on the last stage, as a layer if earlier.
    """
    if not isinstance(layout, str):
        raise InputError(f"{LAYOUT} = {shown(layout)} is not one text; {_LAYOUT_RULE}")
    pieces = pieces_of(layout)
    if not layout or (len(pieces) > 1 and not re.fullmatch("Et*", pieces[0])):
        raise InputError(f"{LAYOUT} = {shown(layout)} does not begin with E; {_LAYOUT_RULE}")
    if not re.fullmatch("E?t*m*L", pieces[-1]) or "".join(pieces).count("E") != 1:
        raise InputError(f"{LAYOUT} = {shown(layout)} does not end with L; {_LAYOUT_RULE}")
    wrong = next((piece for piece in pieces[1:-1] if not re.fullmatch("t*m*", piece)), None)
    order = "".join(pieces)
    if wrong is not None or "mt" in order or sum("m" in piece for piece in pieces) > 1:
        raise InputError(
            f"{LAYOUT} = {shown(layout)} has {shown(wrong or 'm')} between the ends, where only "
            f"layers stand, and modules m in one piece behind all of them; {_LAYOUT_RULE}"
        )
    if len(pieces) % chunks:
        raise InputError(
            f"{LAYOUT} = {shown(layout)} has {len(pieces)} pieces, not a multiple of "
            f"{SPLIT['chunks']} = {chunks}; change one of them"
        )
    p = len(pieces) // chunks
    ways = [range(p), range(p)[::-1] if folded else range(p)]  # of alternate rows of pieces
    rows: list[list[int]] = [[] for _ in range(p)]
    for place, piece in enumerate(pieces):
        stage = ways[place // p % 2][place % p]
        rows[stage].append(piece.count("t") + (piece.count("m") if 0 < stage < p - 1 else 0))
    stage_layers = [sum(row) for row in rows]
    parts: dict[str, Any] = {"all": order.count("t"), "stages": p}
    if p > 1:
        parts |= {"first": stage_layers[0], "last": stage_layers[-1]}
    if p > 2:
        parts["middle"] = max(stage_layers[1:-1])
    if "m" in order:
        parts["predicting"] = order.count("m")
    if any(len({*row}) > 1 for row in rows):
        ratios = [_activation_ratio(stage, row, p, even) for stage, row in enumerate(rows)]
        parts |= {"first kept": ratios[0], "last kept": ratios[-1]}
        if p > 2:
            activations = [ratio * n for ratio, n in zip(ratios, stage_layers, strict=True)]
            parts["middle kept"] = max(activations[1:-1]) / max(max(stage_layers[1:-1]), 1)
    return {SPLIT[part]: value for part, value in parts.items()}


def _activation_ratio(stage: int, layers: Sequence[int], p: int, even: bool) -> float:
    """A stage's peak activations relative to equal pieces, pieces interleaved.

    Forward passes run p micro-batches of one piece after the other, backward passes too, from the
    last piece, starting (v - 1) p + 2 (p - stage - 1) forward passes later (Megatron-LM,
    forward_backward_pipelining_with_interleaving). In orders other than this `even` one the largest
    piece counts for all: an upper bound.
    """
    v, whole = len(layers), sum(layers)
    if not whole:
        return 1.0
    if not even:
        return v * max(layers) / whole
    ahead = (v - 1) * p + 2 * (p - stage - 1)
    forward, backward = [0, *accumulate(layers)], [0, *accumulate(layers[::-1])]

    def run(sums: list[int], passes: int) -> int:
        """Layers of the first `passes` passes."""
        rounds, left = divmod(max(passes, 0), p * v)
        piece, begun = divmod(left, p)
        more = begun * (sums[piece + 1] - sums[piece])
        return p * (rounds * sums[v] + sums[piece]) + more

    # Between changes of pieces, stored activations grow or shrink linearly
    changes = {p * k for k in range(4 * v)} | {ahead + 1 + p * k for k in range(2 * v)}
    most = max(run(forward, passes) - run(backward, passes - 1 - ahead) for passes in changes)
    return most * v / (whole * (ahead + 1))


def spelled_out(
    scenario: Mapping[str, Any], swept: Mapping[str, Any], models: Sequence[Any] = ()
) -> Mapping[str, Any]:
    """A scenario with counts in place of its patterns; `models` are the labels of an axis."""
    for key in (NAME, LAYOUT, RECOMPUTED, REPAIR, *IN_STEPS):
        if key not in scenario:
            continue
        if key == NAME:
            inputs = counts(scenario[key])
        elif key == LAYOUT:
            inputs = _layout_inputs(scenario, swept, models)
        elif not (
            inputs := modules(scenario[key])
            if key == RECOMPUTED
            else policies.spelled(key, scenario[key])
        ):
            continue  # a plain choice, or number
        inputs = {} if key in swept else inputs  # an axis has the last word
        for name, value in inputs.items():
            if name in swept:
                raise InputError(f"{name} is set by {key} and by an axis; keep one")
            if name in scenario and name != key and scenario[name] != value:
                raise InputError(
                    f"{name} = {shown(scenario[name])} does not add up with {key}, which makes it "
                    f"{value}; leave one of them out"
                )
        scenario = {**{name: v for name, v in scenario.items() if name != key}, **inputs}
    return scenario


def _layout_inputs(
    scenario: Mapping[str, Any], swept: Mapping[str, Any], models: Sequence[Any]
) -> dict[str, Any]:
    """Inputs set by a scenario's layout, whose number of layers is that of the models."""
    schedule, chunks = scenario.get(SPLIT["schedule"]), scenario.get(SPLIT["chunks"], 1)
    for name in (SPLIT["schedule"], SPLIT["chunks"]):
        if name in swept:
            raise InputError(f"{LAYOUT} holds for one {name}; take its axis away")
    folded = schedule in FOLDED_SCHEDULES
    number = 2.0 if folded else values.number(PHYSICS, SPLIT["chunks"], chunks)
    if schedule in UNCHUNKED_SCHEDULES:
        number = 1.0
    if not number.is_integer():
        raise InputError(f"{LAYOUT} needs {SPLIT['chunks']} as a whole number, not {shown(chunks)}")
    even = not folded and GROUP not in {*scenario, *swept}
    inputs = stages(scenario[LAYOUT], int(number), folded, even)
    layers = SPLIT["all"]
    labels = [scenario["model"]] if "model" in scenario and "model" not in swept else models
    for label in labels:
        try:
            model_layers = record("model", label).values.get(layers)
        except CatalogError as error:
            raise InputError(str(error)) from None
        if model_layers not in (None, inputs[layers]) and layers not in scenario:
            raise InputError(
                f"{LAYOUT} has {inputs[layers]} layers t, {label} has {model_layers:g}; change one"
            )
    return inputs
