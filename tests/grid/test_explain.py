"""`explain` agrees with the functions and the table of inputs."""

import math
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from fleetcube import Sweep, explain
from fleetcube.catalog.units import parse
from fleetcube.cli import cli
from fleetcube.kernels.declare import Input
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.graph.formulas import parameters
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import BY_TOPIC, INPUTS
from fleetcube.presentation.explain import readable, unused

from ..table import each
from .common import cases, refused

GRAPH = PHYSICS.quantities
DEFAULTS = {name: row.default for name, row in INPUTS.items() if row.kind == "option"}


def section(text: str, heading: str) -> list[str]:
    return text.partition(f"{heading}")[2].partition("\n\n")[0].splitlines()[1:]


ROOT = Path(__file__).parents[2]


def field(text: str, title: str) -> list[str]:
    """Words of one of the first lines, which may be wrapped."""
    match = re.search(rf"^{title}:(.*(?:\n {{9}}.*)*)", text, re.MULTILINE)
    assert match is not None
    return [" ".join(word.split()) for word in match.group(1).split(",")]


def branches(name: str) -> list[tuple[int, str]]:
    """Depth and quantity of every line of a tree; a choice may have its own line."""
    lines = section(explain(name), "Computed from")
    named = [re.fullmatch(r"((?:  )+)(\w+)(?: \(.*)?", line) for line in lines]
    return [(len(match.group(1)) // 2 - 1, match.group(2)) for match in named if match]


@cache
def upstream(name: str) -> set[str]:
    """A quantity and all its dependencies under the default options, from the signatures."""
    if name not in GRAPH:
        return {name}
    quantity = GRAPH[name]
    formula = quantity.formulas[DEFAULTS[quantity.option] if quantity.option else None]
    found = {name} | ({quantity.option} if quantity.option else set())
    return found.union(*(upstream(needed) for needed in parameters(formula)))


@each("name", [*GRAPH, *INPUTS, None])
def test_it_fits_a_terminal(name: str | None) -> None:
    for line in explain(name).splitlines():
        assert len(line) <= 80
        assert line == line.rstrip()


@each("name", GRAPH)
def test_the_tree_and_the_inputs_are_all_that_a_quantity_needs(name: str) -> None:
    text = explain(name)
    tree = [quantity for _, quantity in branches(name)]
    inputs = [line.split()[0] for line in section(text, "Inputs of these")]
    assert (len(set(tree)), {name, *tree, *inputs}) == (len(tree), upstream(name))
    assert inputs == [row for row in INPUTS if row in inputs]


def test_a_tree_is_indented_below_what_needs_it_and_names_choices() -> None:
    lines = section(explain("goodput"), "Computed from")
    assert lines[:3] == [
        "  goodput (goodput_model = exact)",
        "    checkpoint_interval (checkpoint_policy = exact)",
        "      exact_interval (checkpoint_mode = sync)",
    ]


@each("name", GRAPH)
def test_what_stands_below_a_name_is_a_parameter_of_it(name: str) -> None:
    path: list[str] = []
    for depth, quantity in branches(name):
        path[depth:] = [quantity]
        if depth:
            formulas = GRAPH[path[depth - 1]].formulas.values()
            assert any(quantity in parameters(formula) for formula in formulas)


def test_every_alternative_is_shown_and_the_default_marked() -> None:
    text = explain("checkpoint_interval")
    policies = re.findall(r"^where checkpoint_policy = (.*):$", text, re.MULTILINE)
    assert policies == ["exact (default)", "daly", "young", "fixed", "steps"]
    assert "Source" not in text
    assert field(text, "source")[0] == "Daly 2006"


@each("name", GRAPH)
def test_maths_stands_as_it_is_written_and_what_is_too_wide_is_filled(name: str) -> None:
    text = explain(name)
    words = " ".join(text.split())
    for formula in GRAPH[name].formulas.values():
        for paragraph in read(formula).maths.split("\n\n"):
            assert " ".join(paragraph.split()) in words
            lines = paragraph.splitlines()
            if max(map(len, lines)) <= 76:
                assert "".join(f"\n    {line}".rstrip() for line in lines) + "\n" in text


def test_the_code_of_a_row_is_where_the_row_stands() -> None:
    for name, module in [("distributed_input_gathers", "tensor"), ("leaf_gpus", "network")]:
        file, place = field(explain(name), "code")
        assert file.startswith(f"kernels/physics/{module}/")
        assert place == f"a row of {name}"
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f'row("{name}", ' in text or re.search(rf'@alternative\("{name}",.* off=', text)


def test_a_flag_is_not_cut_from_its_meaning() -> None:
    flags = re.search(r"^flags:((?:.*,\n)*.*)$", explain("infeasible_reason"), re.MULTILINE)
    assert flags is not None
    words = re.split(r",\s+", flags.group(1).strip())
    named = GRAPH["infeasible_reason"].doc.flags.items()
    assert words == [f"{code} {name}" for code, name in named]


def test_the_list_says_what_a_name_means_by_default() -> None:
    words = " ".join(explain().split())
    for name, quantity in GRAPH.items():
        summary = read(quantity.formula(DEFAULTS)).summary
        assert re.search(rf"\b{name} \[[^]]+\] {re.escape(summary)}", words), name


@cache
def ancestors(name: str) -> set[str]:
    needed, left = set[str](), [name]
    while left:  # formulas that are never chosen together may need each other
        quantity = GRAPH.get(left.pop())
        formulas = quantity.formulas.values() if quantity else ()
        needs = {p for f in formulas for p in parameters(f)}
        needs |= {quantity.option} if quantity and quantity.option else set()
        left += needs - needed
        needed |= needs
    return needed


@cases("name", "node_mttf", "goodput", "n_gpus", "checkpoint_policy", "gpu_mttf", "job_duration")
def test_what_a_name_feeds_is_told_and_counted(name: str) -> None:
    told = field(explain(name), "chooses" if name in DEFAULTS else "feeds")
    more = [int(word) for line in told for word in re.findall(r"these (\d+) others", line)]
    direct = {word for word in told if not word.startswith("and through")}
    for quantity in GRAPH.values():
        needs = [parameters(f) for f in quantity.formulas.values()]
        needed = quantity.option == name or any(name in names for names in needs)
        assert (quantity.name in direct) == needed
    assert len(direct) + sum(more) == sum(name in ancestors(other) for other in GRAPH)


def test_an_input_tells_default_bounds_and_labels() -> None:
    text = explain("gpu_mttf")
    assert text.startswith("gpu_mttf [s]\n\nMean time to failure of one GPU")
    assert field(text, "default") == ["50", "000 h"]
    assert field(text, "bounds") == ["above 0", "may be infinite"]
    assert field(text, "set by") == ["reliability labels"]
    assert field(explain("n_gpus"), "default") == ["none: it is required"]
    assert field(explain("nics_per_node"), "bounds")[0].startswith("at least 0; whole")
    assert field(explain("flops_efficiency"), "bounds") == ["above 0", "at most 1"]


def test_options_tell_choices_default_and_what_implies_another_and_kinds_their_labels() -> None:
    text = explain("storage_scaling")
    assert field(text, "choices") == ["total", "per_node"]
    assert field(text, "default") == ["total"]
    assert field(text, "implied") == ["per_node where per_node_storage_bandwidth is given"]
    assert field(explain("checkpoint_policy"), "chooses")[0] == "checkpoint_interval"
    assert field(explain("gated_ffn"), "choices") == ["false", "true"]
    assert "h100-sxm" in field(explain("gpu"), "labels")
    assert "hbm_bandwidth" in field(explain("gpu"), "sets")


LISTED, _, LISTED_QUANTITIES = explain().partition("\nQUANTITIES")


@each("row", INPUTS.values(), ids=INPUTS)
def test_the_list_states_every_default_in_its_unit(row: Input) -> None:
    (line,) = re.findall(rf"^  {row.name}(?: \[.*\])?(?: = |, ).*$", LISTED, re.MULTILINE)
    unit = re.search(r" \[(.*)\]", line)
    assert (unit.group(1) if unit else "1") == row.unit
    shown = line.partition(" = ")[2].replace(",", "")
    if row.default is None:
        assert line.endswith(", required")
    elif row.kind == "option":
        assert shown == str(row.default).lower()
    elif math.isinf(row.default):
        assert shown == "infinite"
    else:
        value = float(shown) if row.unit == "1" else parse(shown, row.unit, row.name)
        assert value == pytest.approx(row.default, rel=1e-12)


def test_the_list_groups_inputs_as_the_table_does() -> None:
    names = [word for line in LISTED.splitlines() for word in re.findall(r"^  (\w+)", line)]
    assert names == list(INPUTS)
    headings = re.findall(r"\n\n(\w.*)\n  \w", LISTED)
    assert headings == list(BY_TOPIC)


def test_the_list_has_every_quantity_once_under_its_topic() -> None:
    found = re.findall(r"^  (\w+) \[(.*)\]$", LISTED_QUANTITIES, re.MULTILINE)
    assert sorted(name for name, _ in found) == sorted(GRAPH)
    for name, unit in found:
        assert unit == {"1": "-"}.get(GRAPH[name].unit, GRAPH[name].unit)
    below = LISTED_QUANTITIES.partition("\n\ncheckpoints\n")[2].partition("\n\n")[0]
    assert "  young_interval [s]\n      First-order optimal time between checkpoints." in below


def found(text: str) -> list[str]:
    """Names that a search lists; their meanings may be wrapped."""
    return re.findall(r"^  (\w+)  ", text, re.MULTILINE)


def test_a_word_lists_the_names_that_hold_it_before_the_meanings_that_do() -> None:
    names = found(explain("Cable"))
    assert names == ["cables_per_node", "cable_mttf", "fabric_capital"]
    rows = [(row.name, row.description) for row in INPUTS.values()]
    rows += [(made.name, made.doc.summary) for made in GRAPH.values()]
    assert set(names) == {name for name, said in rows if "cable" in f"{name} {said}".lower()}
    for line in explain("price").splitlines():
        assert len(line) <= 80
    assert "  cables_per_node  network cables of one node [-]" in explain("cable")


def test_several_words_must_all_be_there() -> None:
    first = ["checkpoint_write_bandwidth", "checkpoint_read_bandwidth"]
    assert found(explain("checkpoint bandwidth"))[:2] == first
    assert "straggler_slowdown" not in found(explain("low"))  # words match from their start
    assert "job_cost" in found(explain("TCO"))  # the cost of ownership


def test_a_long_list_is_cut_and_says_so() -> None:
    text = explain("time")
    assert len(found(text)) == 15
    match = re.search(r"^and (\d+) more: `fleetcube explain` lists all$", text, re.MULTILINE)
    assert match is not None
    assert int(match.group(1)) > 15


@cases(
    "said, name",
    ("tp", "tensor_parallel"),
    ("DP", "data_parallel"),
    ("gbs", "global_batch_size"),
    ("MFU", "mfu"),
    ("training_time", "job_time"),
    ("GPU", "gpu"),
)
def test_what_the_field_says_is_understood_in_any_case(said: str, name: str) -> None:
    assert explain(said) == explain(name)


def test_an_unused_result_says_how_to_reach_it() -> None:
    job = {"n_gpus": 64, "model": "llama-3-8b", "node": "dgx-h100", "fabric": "roce-100g"}
    idle = {"mfu": 0.4, "snapshot_bandwidth": "10 GB/s"}
    line = unused(Sweep({**job, **idle}, {}, ["job_time"]).evaluate().attrs)
    assert line == (
        "given, but not used here: mfu, snapshot_bandwidth; mfu is a result; to reach "
        "it, take it out of the spec and solve for an input: "
        "fleetcube solve SPEC --for flops_efficiency --target 'mfu = 0.4'"
    )
    solved = Sweep(job, {}, ["mfu"]).solve("flops_efficiency", "mfu = 0.4")
    assert solved["mfu"].item() == pytest.approx(0.4)


def test_a_shape_of_failures_that_goodput_does_not_read_says_why() -> None:
    line = unused(Sweep({"cluster_mtbf": 1e4, **SHAPED}, {}, ["goodput"]).evaluate().attrs)
    assert line.startswith("given, but not used here: failure_shape; ")
    assert "Drenick 1960" in line
    assert "\n" not in line


SHAPED = {"failure_shape": 0.7, "checkpoint_stall_time": 30, "recovery_time": 600}


@pytest.mark.parametrize("name", ["snapshot_bandwidth", "training_tokens"])
def test_an_unused_input_is_only_told(name: str) -> None:
    # training_tokens is computed where it is not stated, from no continuous input
    attrs = {"fleetcube_unused": name, "fleetcube_spec": '{"scenario": {}}'}
    assert unused(attrs) == f"given, but not used here: {name}"


@cases(
    "value, unit, said",
    (400e-3 / 3.6e6, "kg/J", "400 g/kWh"),
    (0.08 / 3.6e6, "USD/J", "0.08 USD/kWh"),
    (math.inf, "s", "infinite"),
    (50_000 * 3600.0, "s", "50,000 h"),
    (0.0, "kg/J", "0 g/kWh"),
    (8.0, "1", "8"),
)
def test_a_number_is_told_in_a_unit_that_people_use(value: float, unit: str, said: str) -> None:
    assert readable(value, unit, "gpu_mttf" if unit == "s" else "name") == said
    if said != "infinite":
        assert parse(said, unit, "name") == pytest.approx(value, rel=1e-12)


@cases(
    "name, words", ("goodputs", "did you mean 'goodput'?"), (3, "is not a name"), ("", "is neither")
)
def test_an_unknown_name_is_one_line(name: str, words: str) -> None:
    refused(re.escape(words), explain, name)


@pytest.mark.parametrize("name", ["goodput", None])
def test_the_command_prints_the_same_plain_text(name: str | None) -> None:
    command = [sys.executable, "-m", "fleetcube", "explain", *([name] if name else [])]
    given = dict(capture_output=True, text=True, env={**os.environ, "FORCE_COLOR": "1"})
    done = subprocess.run(command, **given, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout == explain(name) + "\n"


def test_options_choose_the_formulas_that_are_shown() -> None:
    plain, chosen = explain("goodput"), explain("goodput", goodput_model="additive")
    assert "where goodput_model = exact (default):" in plain
    assert "goodput_model = exact" not in chosen
    assert "goodput (goodput_model = additive)" in chosen
    assert "bubble_budget" in chosen
    told = CliRunner().invoke(cli, ["explain", "step_time", "recompute=full"]).stdout
    assert "(recompute = full)" in told
    refused("choose one of exact, first_order, additive", explain, "goodput", goodput_model="x")
    refused("'n_gpus' is not an option", explain, "goodput", n_gpus=8)
    refused("is not a quantity", explain, "gpu", recompute="full")
