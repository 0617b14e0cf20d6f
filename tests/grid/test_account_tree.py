"""Accounts of quantities: they multiply out, and the Excel sheet computes them."""

import ast
import csv
import dataclasses
import functools
import json
import math
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from fleetcube import Sweep
from fleetcube.analysis.account_tree import Account, account, carrying
from fleetcube.analysis.spreadsheet import cell, value
from fleetcube.formats.read import read_spec
from fleetcube.grid.errors import InputError
from fleetcube.grid.spec.graphs import with_graph
from fleetcube.kernels.graph.trace import LIGHT, LOOPS
from fleetcube.presentation import account_writers as writers

from ..door.command import fleetcube
from ..engine import heat_pump
from .test_account import HYBRID, MOE

LLAMA = read_spec("examples/llama-3-405b.toml", {})["scenario"]
PLAN = {**MOE, "training_tokens": 1e12, "reliability": "llama-3-405b-run", "gpu_hour_price": 2.0}
PLAN |= {"checkpoint_write_bandwidth": 1e12, "checkpoint_read_bandwidth": 1e12}
ASKED = [
    (LLAMA, "job_time"),
    (PLAN, "job_cost"),
    ({**HYBRID, "tensor_parallel": 8, "global_batch_size": 256}, "step_time"),
    (MOE, "memory_per_gpu"),
    (with_graph({"outside_temperature": 275}, heat_pump), "yearly_cost"),
]
LLAMA_TOKENS = 15.6e12
CHANGES = {"training_tokens": 2e13, "n_gpus": 8192, "global_batch_size": 1024, "gpu_mttf": 1e8}
NAMESPACE = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


@functools.cache
def account_of(k: int) -> Account:
    scenario, name = ASKED[k]
    return account(scenario, name)


def test_formulas_with_their_operands_give_the_values() -> None:
    count: set[str] = set()
    scope = {name: getattr(np, name) for name in ("exp", "log", "log1p", "expm1", "log2", "cbrt")}
    scope |= {name: getattr(np, name) for name in ("abs", "ceil", "floor", "sqrt", "inf", "nan")}
    scope |= {"max": np.maximum, "min": np.minimum}
    for k, (_, asked) in enumerate(ASKED):
        whole = json.loads(writers.as_json(account_of(k)))
        assert whole["quantity"] == asked
        for name, row in whole["rows"].items():
            if "formula" not in row:
                assert row["from"]
                continue
            values = {n: np.float64(whole["rows"][n]["value"]) for n in row["operands"]}
            with np.errstate(all="ignore"):
                for step, text in row["steps"].items():
                    values[step] = eval(text, scope, values)
                result = float(eval(row["formula"], scope, values))
            expected = float(row["value"])
            assert result == pytest.approx(expected, rel=1e-12, abs=0, nan_ok=True), name
            count.add(name)
    assert len(count) > 400


def test_values_are_those_of_a_sweep() -> None:
    for k, (scenario, name) in enumerate(ASKED[:4]):
        assert account_of(k).rows[name].value == float(Sweep(scenario, {}, [name]).evaluate()[name])


def test_carrying_operands_carry_most() -> None:
    assert carrying({"a": 0.9, "b": -0.06, "c": 0.04}) == ["a", "b"]
    assert carrying({"a": 0.0, "b": 0.0}) == ["a", "b"]
    rows = account_of(0).rows
    assert rows["job_time"].carrying == ["attempted_steps", "step_time"] or (
        rows["job_time"].carrying == ["step_time", "attempted_steps"]
    )
    assert rows["training_tokens"].weight == pytest.approx(1, abs=1e-6)
    assert rows["gemm_efficiency"].origin.startswith("calibration auto")
    assert rows["layers"].origin == "model llama-3-405b"
    assert rows["n_gpus"].origin == "the spec"
    assert rows["micro_batch_size"].origin == "default"


def test_elasticities_are_the_derivatives() -> None:
    names = ("gemm_efficiency", "training_tokens", "gpu_mttf", "inter_node_bandwidth")
    slopes = Sweep(LLAMA, {}, [f"dln_job_time_dln_{name}" for name in names]).evaluate()
    for name in names:
        exact = float(slopes[f"dln_job_time_dln_{name}"])
        assert account_of(0).rows[name].weight == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("k", range(4))
def test_elasticities_by_inputs_are_those_of_a_ranking(k: int) -> None:
    scenario, name = ASKED[k]
    ranking = Sweep(scenario, {}, [name]).rank_inputs(name)
    counts = 0
    for row in (
        {n: ranking[n].values[j] for n in ("input", "kind", "elasticity")}
        for j in range(ranking.sizes["input"])
    ):
        counts += row["kind"] == "difference"
        expected = np.nan_to_num(row["elasticity"])
        assert account_of(k).rows[row["input"]].weight == pytest.approx(expected, abs=2e-4), row
    assert counts > 5


def test_an_account_of_what_cannot_run_says_so_first() -> None:
    scenario = read_spec("examples/plan.toml", {})["scenario"]
    wrong = account(scenario, "job_time")
    assert wrong.cannot_run.startswith("cannot run: batch_smaller_than_data_parallel (")
    assert "with the layout TP" in wrong.cannot_run
    assert "fleetcube plan" in wrong.cannot_run
    assert writers.text(wrong).startswith(f"{wrong.cannot_run}\n\njob_time = ")
    assert json.loads(writers.as_json(wrong))["cannot_run"] == wrong.cannot_run
    page = writers.as_html(wrong)
    assert page.index("cannot run: batch_smaller") < page.index("<pre>")
    assert ("text", f"as the spec is: {wrong.cannot_run}") in Sheet(
        writers.as_workbook(wrong)
    ).cells.values()
    assert not account_of(0).cannot_run
    assert writers.text(account_of(0)).startswith("job_time = ")


def test_of_phases_that_cannot_run_the_reason_is_given() -> None:
    phases = read_spec("examples/llama-3-405b-in-phases.toml", {})["scenario"]
    assert "gpus_not_divisible" in account({**phases, "n_gpus": 1500}, "job_time").cannot_run


def test_the_sheet_says_whether_changed_inputs_can_run() -> None:
    data = writers.as_workbook(account_of(0))
    words = {}
    for gpus in (16384, 1500):
        sheet = Sheet(data)
        sheet.cells[sheet.column("Inputs", "B")["n_gpus"]] = gpus
        assert sheet.cells["Account!B3"].startswith("=INDEX(Reasons!$A$1:$A$")
        assert sheet.cells["Account!B3"].endswith(",infeasible_reason+1)")
        code = sheet.result(sheet.names["infeasible_reason"])
        words[gpus] = sheet.cells[f"Reasons!A{code + 1:.0f}"][1]
    assert words == {16384: "feasible", 1500: "cannot run: gpus_not_divisible"}


def test_the_interval_in_the_sheet_follows_a_changed_input() -> None:
    whole = account_of(0)
    assert whole.interval
    sheet = Sheet(writers.as_workbook(whole))
    sheet.cells[sheet.column("Inputs", "B")["training_tokens"]] = 2e13
    places = sheet.column("Account", "B")
    for side, end in zip(("low", "high"), whole.interval, strict=True):
        expected = end * 2e13 / LLAMA_TOKENS
        assert sheet.result(places[f"job_time_{side}"]) == pytest.approx(expected, rel=1e-3)
    assert not any("90 % interval: 6" in each for each in sheet.texts)


class Sheet:
    """A reader of Excel's formulas that shares nothing with what wrote them."""

    def __init__(self, data: bytes) -> None:
        with zipfile.ZipFile(BytesIO(data)) as book:
            parts = {n: ElementTree.fromstring(book.read(n)) for n in book.namelist() if "xl/" in n}
        shared = parts["xl/sharedStrings.xml"]
        self.texts = ["".join(each.itertext()) for each in shared]
        self.cells: dict[str, Any] = {}
        titles = [
            each.attrib["name"] for each in parts["xl/workbook.xml"].iter(f"{NAMESPACE}sheet")
        ]
        for place, title in enumerate(titles, 1):
            for each in parts[f"xl/worksheets/sheet{place}.xml"].iter(f"{NAMESPACE}c"):
                formula, value = each.find(f"{NAMESPACE}f"), each.find(f"{NAMESPACE}v")
                content: Any = value.text if value is not None else ""
                if formula is not None:
                    content = f"={formula.text}"
                elif each.get("t") == "s":
                    content = ("text", self.texts[int(content)])
                else:
                    content = float(content)
                self.cells[f"{title}!{each.attrib['r']}"] = content
        self.names = {
            each.attrib["name"]: str(each.text).replace("$", "")
            for each in parts["xl/workbook.xml"].iter(f"{NAMESPACE}definedName")
        }
        self.results: dict[str, Any] = {}

    def column(self, sheet: str, letter: str) -> dict[str, str]:
        """The cell of each name in a sheet's first column."""
        rows = (key for key in self.cells if re.fullmatch(rf"{sheet}!A\d+", key))
        return {self.cells[key][1]: key.replace("!A", f"!{letter}") for key in rows}

    def result(self, key: str) -> Any:
        """A cell's value; NaN for any of Excel's errors."""
        if key not in self.results:
            content = self.cells[key]
            formula = isinstance(content, str)
            self.results[key] = Formula(content[1:], self).value() if formula else content
        return self.results[key]


class Formula:
    """One formula, by recursive descent; what Excel calls an error is NaN."""

    def __init__(self, text: str, sheet: Sheet) -> None:
        pattern = r"\w+!\$?[A-Z]+\$?\d+|\d+\.?\d*(?:E[+-]?\d+)?|\w+|<=|>=|<>|[-+*/^()=<>,]"
        self.words = re.findall(pattern, text)
        assert "".join(self.words) == text
        self.sheet, self.place = sheet, 0

    def value(self) -> Any:
        tree = self.comparison()
        assert self.place == len(self.words), self.words[self.place :]
        return tree()

    def next(self, *signs: str) -> str:
        word = self.words[self.place] if self.place < len(self.words) else ""
        if signs and word not in signs:
            return ""
        self.place += 1
        return word

    def chain(self, below: Callable[[], Any], *signs: str) -> Any:
        tree = below()
        while sign := self.next(*signs):
            tree = functools.partial(applied, sign, tree, below())
        return tree

    def comparison(self) -> Any:
        return self.chain(self.sum, "<=", ">=", "<>", "=", "<", ">")

    def sum(self) -> Any:
        return self.chain(self.product, "+", "-")

    def product(self) -> Any:
        return self.chain(self.power, "*", "/")

    def power(self) -> Any:
        return self.chain(self.one, "^")

    def one(self) -> Any:
        word = self.next()
        if word == "-":
            tree = self.one()
            return lambda: -tree()
        if word == "(":
            tree = self.comparison()
            assert self.next() == ")"
            return tree
        if word[0].isdigit():
            return lambda: float(word)
        if self.next("("):
            arguments = []
            while not self.next(")"):
                arguments.append(self.comparison())
                self.next(",")
            return lambda: called(word, arguments)
        key = word.replace("$", "") if "!" in word else self.sheet.names[word]
        return lambda: self.sheet.result(key)


def applied(sign: str, left: Any, right: Any) -> Any:
    x, y = left(), right()
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if sign in "+-*/^":
        try:
            return (
                {"+": x + y, "-": x - y, "*": x * y}[sign]
                if sign in "+-*"
                else (x / y if sign == "/" else x**y)
            )
        except (ZeroDivisionError, OverflowError):
            return math.nan
    signs = {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "=": x == y, "<>": x != y}
    return signs[sign]


def called(name: str, arguments: list[Callable[[], Any]]) -> Any:
    if name == "IF":
        test = arguments[0]()
        return math.nan if math.isnan(test) else arguments[1 if test else 2]()
    values = [argument() for argument in arguments[: 1 if name == "IFERROR" else None]]
    if name == "IFERROR":
        return arguments[1]() if math.isnan(values[0]) else values[0]
    if name == "ISERROR":
        return math.isnan(values[0])
    if any(map(math.isnan, values)) or name == "NA":
        return math.nan
    functions: Mapping[str, Callable[..., Any]] = {
        **{"AND": lambda *x: all(x), "OR": lambda *x: any(x), "NOT": lambda x: not x},
        **{"MAX": max, "MIN": min, "ABS": abs, "INT": math.floor, "SIGN": np.sign},
        **{"EXP": math.exp, "LN": math.log, "SQRT": math.sqrt},
    }
    try:
        return float(functions[name](*values))
    except (ValueError, OverflowError):
        return math.nan


def agrees(result: Any, expected: float) -> bool:
    if math.isinf(expected):
        return abs(result) > 1e90 and (result > 0) == (expected > 0)
    close = math.isclose(result, expected, rel_tol=1e-9, abs_tol=0)
    return close or (math.isnan(result) and math.isnan(expected))


def differing(sheet: Sheet, values: Account) -> list[str]:
    places = sheet.column("Formulas", "B")
    rows = {n: row.value for n, row in values.rows.items() if row.expression}
    assert rows.keys() == places.keys() - {"name"}
    return [name for name, value in rows.items() if not agrees(sheet.result(places[name]), value)]


@pytest.mark.parametrize("k", range(len(ASKED)))
def test_the_sheet_computes_every_quantity(k: int) -> None:
    sheet = Sheet(writers.as_workbook(account_of(k)))
    assert not differing(sheet, account_of(k))
    assert agrees(sheet.result("Account!B1"), account_of(k).rows[account_of(k).name].value)
    longest = max(len(each) for each in sheet.cells.values() if isinstance(each, str))
    assert longest < 8192  # Excel's limit


def test_the_sheet_follows_a_changed_input() -> None:
    data = writers.as_workbook(account_of(0))
    for name, new in CHANGES.items():
        sheet = Sheet(data)
        sheet.cells[sheet.column("Inputs", "B")[name]] = new
        assert name not in account_of(0).tied
        assert not differing(sheet, account({**LLAMA, name: new}, "job_time"))
    assert {"layers", "peak_flops_bf16"} <= account_of(0).tied
    sheet = Sheet(writers.as_workbook(account_of(4)))
    sheet.cells[sheet.column("Inputs", "B")["outside_temperature"]] = 268.0
    assert not differing(sheet, account({**ASKED[4][0], "outside_temperature": 268}, "yearly_cost"))


def test_cells_have_every_function() -> None:
    for name in (*LOOPS, *LIGHT):
        text = "maximum(x, y) + minimum(x, y)" if name.endswith("imum") else f"{name}(x)"
        short = text.replace("imum", "")
        for x in (1e-9, 3e-5, 0.3, 1.0, 7.5):
            values = {"x": x, "y": 2.0}
            tree = ast.parse(short, mode="eval").body
            sheet = Sheet(writers.as_workbook(account_of(4)))
            sheet.names, sheet.cells = {"x": "X", "y": "Y"}, {"X": x, "Y": 2.0}
            result = Formula(cell(tree, {"x": "x", "y": "y"}, values), sheet).value()
            assert result == pytest.approx(value(tree, values), rel=1e-11), (name, x)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("soffice"), reason="needs LibreOffice")
def test_libreoffice_computes_the_same(tmp_path: Path) -> None:
    after = account({**LLAMA, "training_tokens": 2e13}, "job_time")
    data = BytesIO()
    row = [n for n, each in account_of(0).rows.items() if not each.expression].index(
        "training_tokens"
    ) + 2
    with (
        zipfile.ZipFile(BytesIO(writers.as_workbook(account_of(0)))) as book,
        zipfile.ZipFile(data, "w") as other,
    ):
        for part in book.namelist():
            text = book.read(part).decode()
            if "worksheets/sheet" in part:  # without the stored results
                text = re.sub(r"(</f>)<v>[^<]*</v>", r"\1", text)
            if part.endswith("sheet2.xml"):
                text = re.sub(rf'(<c r="B{row}"[^>]*><v>)[^<]*', r"\g<1>20000000000000", text)
            other.writestr(part, text)
    (tmp_path / "a.xlsx").write_bytes(data.getvalue())
    each_sheet = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false,false,false,false,-1"
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    command = ["soffice", profile, "--headless", "--convert-to", each_sheet, "a.xlsx"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    lines = list(csv.reader((tmp_path / "a-Formulas.csv").read_text("utf-8").splitlines()))[1:]
    assert len(lines) > 300
    for name, result, *_ in lines:
        number = float(result) if re.match(r"[-\d]", result) else math.nan
        assert agrees(number, after.rows[name].value), name


def test_texts_of_others_are_no_formulas_and_no_markup() -> None:
    bad = '=HYPERLINK("https://example.org")<script>'
    rows = {
        name: dataclasses.replace(row, meaning=bad, origin=bad, maths=bad)
        for name, row in account_of(4).rows.items()
    }
    options = {"defrost": (bad, bad)}
    hostile = dataclasses.replace(account_of(4), rows=rows, options=options)
    sheet = Sheet(writers.as_workbook(hostile))
    formulas = [each for each in sheet.cells.values() if isinstance(each, str)]
    assert formulas
    assert not any("HYPERLINK" in each for each in formulas)
    assert ("text", bad) in sheet.cells.values()
    page = writers.as_html(hostile)
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_the_command_accounts_for_any_quantity(tmp_path: Path) -> None:
    spec = Path("examples/llama-3-405b.toml").resolve()
    done = fleetcube("explain", "job_time", str(spec), "--depth", "1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"job_time = \d\d\.\d+ d", lines[0])
    assert lines[1] == "  : attempted_steps * step_time"
    assert any(line.startswith("  training_tokens ") and "the spec" in line for line in lines)
    assert lines[-1].startswith("90 % interval: ")
    assert "error_factor" in lines[-1]
    assert any(line.startswith("By hand, ") for line in lines)
    for ending in ("html", "json", "xlsx"):
        path = str(tmp_path / f"a.{ending}")
        assert fleetcube("explain", "step_time", str(spec), "-o", path).returncode == 0
        assert Path(path).stat().st_size > 1000
        assert "exists" in fleetcube("explain", "step_time", str(spec), "-o", path).stderr
    assert ".xlsx" in fleetcube("explain", "step_time", str(spec), "-o", "a.pdf").stderr
    assert "SPEC.toml" in fleetcube("explain", "step_time", "-o", "a.json").stderr
    stated = fleetcube("explain", "training_tokens", str(spec))
    assert "stated by the spec" in stated.stderr


DOUBLED = '''
from fleetcube.graph import quantity


@quantity(replaces="model_flops_per_token")
def doubled_flops(layer_matrix_flops_per_token):
    """A wrong count.

    Returns: [FLOP] operations
    Source: by definition
    """
    return 4 * layer_matrix_flops_per_token
'''


def test_a_check_by_hand_is_of_published_numbers_and_fails_where_a_count_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """405e9 parameters, of which 128256 x 16384 are looked up, 126 layers of 128 heads of 128 over
    8,192 tokens, 16,384 GPUs of 989 TFLOP/s (Llama 3 Herd of Models, tables 3 and 4)."""
    whole = account_of(0)
    values = {name: row.value for name, row in whole.rows.items()}
    flops = 6 * (405e9 - 128256 * 16384) + 6 * 126 * 8192 * 128 * 128
    seconds = 15.6e12 * flops / (16384 * 989e12 * values["mfu"]) / values["goodput"]
    hand = value(ast.parse(whole.checks["job_time"], mode="eval").body, values)
    assert hand == pytest.approx(seconds, rel=1e-3)
    assert hand == pytest.approx(whole.rows["job_time"].value, rel=2e-3)
    by_parameters = account({**LLAMA, "flops_counting": "parameters"}, "job_time")
    text = by_parameters.checks["job_time"].partition(" / ")[0]
    operations = value(ast.parse(text, mode="eval").body, values)
    assert operations == pytest.approx(3.8e25, rel=5e-3)  # as published, section 3.2

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "doubled_flops.py").write_text(DOUBLED, encoding="utf-8")
    wrong = account(with_graph(LLAMA, "doubled_flops"), "job_time")
    has = f"has {whole.rows['job_time'].value:.6g}"
    (line,) = (line for line in writers.text(wrong).splitlines() if has in line)
    off = float(re.findall(r"\(([+-].*)%\)", line)[0]) / 100
    # the matrices of all layers, four times for once, and so MFU; a token by hand is as before
    matrices = 4 * 6 * (405e9 - 2 * 128256 * 16384)
    assert off == pytest.approx(flops / matrices - 1, abs=1e-3)


def test_a_spec_without_a_layout_is_accounted_for_in_that_of_its_plan(tmp_path: Path) -> None:
    spec = Path("examples/plan.toml").resolve()
    scenario = read_spec(str(spec), {})["scenario"]
    best = Sweep(scenario, {}, ["job_time"]).best(search="layout", also="memory_per_gpu")
    path = tmp_path / "a.json"
    done = fleetcube("explain", "job_time", str(spec), "-o", str(path))
    whole = json.loads(path.read_text())
    assert whole["value"] == pytest.approx(float(best["job_time"]), rel=1e-12)
    assert not whole["cannot_run"]
    origin = "the best layout of fleetcube plan"
    assert whole["rows"]["pipeline_parallel"]["from"] == origin
    assert whole["options"]["recompute"]["from"] == origin
    assert done.stderr.startswith(f"{origin}, {best['whole_layout'].item()}: tensor_parallel=8 ")
    stated = done.stderr.splitlines()[0].partition(": ")[2].split()
    again = fleetcube("explain", "job_time", str(spec), *stated)
    assert "the best layout" not in again.stdout + again.stderr
    memory = fleetcube("explain", "memory_per_gpu", str(spec)).stdout
    assert f"{float(best['memory_per_gpu']) / 1e9:.2f}" in memory


def test_an_axis_is_cut(tmp_path: Path) -> None:
    text = Path("examples/llama-3-405b.toml").read_text("utf-8")
    path = tmp_path / "a.toml"
    path.write_text(f"{text}\n[axes]\ngpu_mttf = ['1e4 h', '1e5 h']\n", "utf-8")
    assert "gpu_mttf=value" in fleetcube("explain", "job_time", str(path)).stderr
    done = fleetcube("explain", "goodput", str(path), "gpu_mttf=1e4 h", "--depth", "0")
    expected = Sweep({**LLAMA, "gpu_mttf": "1e4 h"}, {}, ["goodput"]).evaluate().goodput.item()
    assert done.stdout.startswith(f"goodput = {expected:.6g}\n")
    with pytest.raises(InputError, match="n_gpuz"):
        account({**LLAMA, "n_gpuz": 1}, "job_time")
