"""The JSON Schema of specs accepts what the program accepts, and refuses other shapes."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
from click.testing import CliRunner

from fleetcube import InputError, Sweep
from fleetcube.catalog import KINDS, kind
from fleetcube.cli import cli
from fleetcube.grid.spec.values import unit_of
from fleetcube.kernels.physics import roles
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.scenario.schema import schema

from ..catalog.test_units import GOOD as TEXTS
from ..table import each
from .common import cases
from .test_bad_input import CASES, GOOD

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft7Validator(schema())
BLOCK = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)
SPECS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.toml")}
for page in sorted((ROOT / "docs").rglob("*.md")):
    blocks = [] if "reference" in page.parts else BLOCK.findall(page.read_text(encoding="utf-8"))
    specs = {f"{page.name} {number}": block for number, block in enumerate(blocks)}
    SPECS |= {name: block for name, block in specs.items() if "outputs" in tomllib.loads(block)}
# Messages about what a schema cannot check: two values together, labels' contents, units
UNSEEN = (
    *("twice", "set by the axes", "is missing", "unknown unit", "is not in ", "equal"),
    *("at most 5,000,000", "at most 300,000", "hold 6,000,000 values", "is an axis", "is empty"),
    *("'h100-sxm@3'", '"1e-8 s/B^0.5"', "is not finite"),
    *("_survival = 0.6", "the label", "labels for", "64 axes are more than", "of answers"),
    *(
        "all causes, and gpu_mttf",
        "and reliability",
        "does not add up",
        "two kinds of states",
        "and by an axis",
        "sweep them apart",
        "contradicts n_gpus",
        "make it ",
        "is a share",
    ),
)


def wrong(spec: Any) -> str:
    return next((error.message[:200] for error in VALIDATOR.iter_errors(spec)), "")


def test_it_is_a_schema_that_a_command_prints() -> None:
    jsonschema.Draft7Validator.check_schema(schema())
    done = CliRunner().invoke(cli, ["schema"])
    assert json.loads(done.output) == schema()
    assert len(done.output) < 16 << 16  # editors reread it often
    known = schema()["properties"]["scenario"]["properties"].keys()
    results = {name for name, quantity in PHYSICS.quantities.items() if quantity.unit == "flag"}
    assert (
        known
        == {*INPUTS, *PHYSICS.quantities, *KINDS, *roles.TEXTS} - {"pipeline_layout"} - results
    )


@each("text", SPECS.values(), SPECS)
def test_specs_that_are_evaluated_are_valid(text: str) -> None:
    spec = tomllib.loads(text)
    assert wrong(spec) == ""
    given = spec.get("scenario", {}).items()
    scenario = {name: value for name, value in given if not str(value).startswith("my-")}  # files
    Sweep(scenario, spec.get("axes", {}), spec["outputs"], phases=spec.get("phase"))


def test_defaults_choices_and_labels_are_valid() -> None:
    given: dict[str, list[Any]] = {name: list(kind(name)) for name in {*KINDS} - {"calibration"}}
    given |= {name: list(row.choices or [row.default]) for name, row in INPUTS.items()}
    for name, values in given.items():
        for value in values:
            if value is not None:
                assert wrong({"scenario": {name: value}}) == "", (name, value)
                assert wrong({"axes": {name: [value]}}) == "", (name, value)
                assert wrong({"axes": {"of": {name: [value]}}}) == "", (name, value)


@each(("text", "unit", "value"), TEXTS)
def test_texts_that_are_numbers_are_valid(text: str, unit: str, value: float) -> None:
    del value
    names = [name for name in [*INPUTS, *PHYSICS.quantities] if unit_of(PHYSICS, name) == unit]
    numbers = [name for name in names if name not in INPUTS or INPUTS[name].kind != "option"]
    for name in numbers[:1]:
        assert wrong({"scenario": {name: text}}) == ""


@cases(
    "axes, valid",
    ({"gpu_mttf": {"lognormal": ["5 h", 2]}}, False),
    ({"gpu_mttf": {"linspace": ["5 h", "9 h"], "num": 3}}, True),
    ({"gpu_mttf": {"arange": [1, 9], "num": 3}}, False),
    ({"s": {"design": "sobol", "num": 4, "gpu_mttf": {"linspace": [1, 2]}}}, True),
    ({"s": {"design": "sobol", "num": 4, "gpu_mttf": {"linspace": [1, 2], "num": 2}}}, False),
    ({"s": {"design": "grid", "num": 4, "gpu_mttf": [1, 2]}}, False),
    ({"s": {"labels": ["a", "b"], "gpu_mttf": [1, 2], "all_reduce": ["ring", "auto"]}}, True),
    ({"s": {"labels": ["a", ""], "gpu_mttf": [1, 2]}}, False),
)
def test_axes_are_judged_as_the_program_judges_them(axes: dict[str, Any], valid: bool) -> None:
    assert (wrong({"axes": axes}) == "") == valid
    try:
        Sweep(GOOD, axes, ["goodput"])
    except InputError:
        assert not valid
    else:
        assert valid


def test_bad_specs_are_refused_but_for_what_no_schema_sees() -> None:
    """The table of bad specs, as far as TOML can express them."""
    unseen, refused = set(), 0
    for scenario, axes, outputs, words in CASES:
        spec = {"scenario": {**GOOD, **scenario}, "axes": axes, "outputs": outputs}
        try:
            spec = json.loads(json.dumps(spec))
        except (TypeError, ValueError):  # NumPy's, or more digits than JSON takes
            continue
        if wrong(spec):
            refused += 1
        else:
            unseen.add(next((part for part in UNSEEN if part in words), words))
    assert unseen == set(UNSEEN)
    assert refused > 35
