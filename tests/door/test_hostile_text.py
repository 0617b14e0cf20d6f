"""Cubes, specs and records whose strings contain terminal controls: none reaches a terminal."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any, TextIO

import pytest

from fleetcube import Settings, Sweep
from fleetcube.calibration.steps import parse_table
from fleetcube.tables.tables import export
from fleetcube.text import guarded, unguarded, visible

from ..grid.test_tampered import seal_anew
from . import command
from .terminal import sent_inside

# Titles, colours, the clipboard, C1 controls, marks of direction, line separators
EVIL = "\x1b]0;pwned\x07\x1b[31mred\x1b]52;c;cHduZWQ=\x07\x9b2J\u202egnp.exe\u2028end\r\x00"
SPEC = """
outputs = ["job_time", "goodput"]
[scenario]
model = "llama-3-8b"
node = "dgx-h100"
fabric = "roce-100g"
[axes]
n_gpus = [8, 64]
how = {labels = ["whole", "cut"], tensor_parallel = [1, 8]}
"""


def told(folder: Path, commands: list[list[str]]) -> str:

    def each(terminal: TextIO) -> None:
        for words in commands:  # without progress bars, which use terminal controls
            command.run(*words, folder=folder, out=terminal, err=terminal, TERM="dumb")

    return sent_inside(each).replace("\r\n", "\n")


def steering(text: str) -> list[str]:
    """Control characters except line ends."""
    return [char for char in text if not char.isprintable() and char != "\n"]


def poisoned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: poisoned(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [poisoned(entry) for entry in value]
    return value + EVIL if isinstance(value, str) else value


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    Sweep.from_file(folder / "spec.toml").to_zarr(folder / "a.zarr", settings=Settings("numpy"))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "hostile"))


COMMANDS = [
    ["show", "a.zarr"],
    ["show", "a.zarr", "--bibtex"],
    ["slice", "a.zarr"],
    ["slice", "a.zarr", "how=whole", "-v", "goodput"],
    ["slice", "a.zarr", "-o", "-"],
    ["verify", "a.zarr"],
    ["plot", "a.zarr", "-v", "goodput", "-x", "n_gpus", "-o", "a.png"],
    ["compare", "a.zarr", "spec.toml"],
    ["run", "spec.toml", "-o", "a.zarr", "--resume"],
    ["run", "spec.toml", "-o", "a.zarr", "--append"],
]
WHERE = ["long_name", "spec", "all"]


@pytest.mark.parametrize("where", WHERE)
def test_no_string_of_a_cube_steers_the_terminal(folder: Path, where: str) -> None:
    for path in sorted((folder / "a.zarr").rglob("zarr.json")):
        held = json.loads(path.read_text(encoding="utf-8"))
        attrs = held.get("attributes", {})
        for name, value in attrs.items():
            if where in (name, "all") and name != "coordinates":
                nested = isinstance(value, str) and value[:1] in "[{"
                attrs[name] = json.dumps(poisoned(json.loads(value))) if nested else poisoned(value)
            elif where == "spec" and name == "fleetcube_spec":
                spec = json.loads(value)
                spec["axes"]["how"]["labels"] = poisoned(spec["axes"]["how"]["labels"])
                spec["scenario"] = poisoned(spec["scenario"])
                attrs[name] = json.dumps(spec)
        path.write_text(json.dumps(held), encoding="utf-8")
    seal_anew(folder / "a.zarr")
    shown = told(folder, COMMANDS)
    assert steering(shown) == []
    assert "Traceback" not in shown


def test_no_string_of_a_spec_or_of_records_steers_the_terminal(folder: Path) -> None:
    text = json.dumps(EVIL)  # also a TOML string, except for what TOML forbids
    (folder / "evil.toml").write_text(
        SPEC.replace('"whole"', text.replace("\\u0000", "")), encoding="utf-8"
    )
    (folder / "word.toml").write_text(SPEC.replace("llama-3-8b", EVIL[1:9]), encoding="utf-8")
    head = "id,source,quantity,unit,value\n"
    (folder / "evil.csv").write_text(f'{head}"{EVIL[:-2]}","{EVIL[:-2]}",step_time,s,1\n')
    shown = told(
        folder,
        [
            ["run", "evil.toml"],
            ["run", "word.toml"],
            ["run", "spec.toml", f"how={EVIL[:-1]}"],
            ["validate", "--records", "evil.csv", "--left-out"],
            ["calibrate", "evil.csv", "-o", "b.toml"],
            ["show", EVIL[:20]],
            ["explain", EVIL[:20]],
            ["catalog", "gpu", EVIL[:20]],
        ],
    )
    assert steering(shown) == []
    assert "Traceback" not in shown


def test_text_is_shown_with_its_codes() -> None:
    assert visible("plain\ntext, naïve\n") == "plain\ntext, naïve\n"
    assert visible("a\x1b[31m\u202eb\r") == "a\\u001b[31m\\u202eb\\u000d"


FORMULAS = [
    "=cmd|' /C calc'!A0",
    "+1",
    "-2+3",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "'quoted",
    "\uff1d1",
    " =1+1",
]


def test_no_cell_of_csv_is_a_formula(tmp_path: Path) -> None:
    labels = [text for text in FORMULAS if text.isprintable()]
    axes = {"n_gpus": [8], "how": {"labels": labels, "tensor_parallel": [1] * len(labels)}}
    cube = Sweep({"model": "llama-3-8b"}, axes, ["data_parallel"]).evaluate()
    export(cube, tmp_path / "a.csv")
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["how"][0] for row in rows] == ["'"] * len(labels)
    assert [unguarded(row["how"]) for row in rows] == labels


@pytest.mark.parametrize("text", [*FORMULAS, "plain", "'", "''", "", "8 GPUs"])
def test_guarding_is_undone(text: str) -> None:
    assert unguarded(guarded(text)) == text
    assert guarded(text).lstrip(" ")[:1] not in tuple("=+-@\t\r")


def test_our_reader_takes_the_quote_away(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("n_gpus,step_time [s]\n'+8,1\n16,2\n", encoding="utf-8")
    assert parse_table(str(path), path.read_text(encoding="utf-8")).inputs["n_gpus"] == [8, 16]
