"""The account of a number on a page: values, operands and sources are those of `explain`."""

import base64
import json
import re
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetcube import Settings, Sweep
from fleetcube.analysis.account_tree import account
from fleetcube.formats.read import read_spec
from fleetcube.presentation.page.page import page

from ..kernels import javascript as node
from ..table import each
from .test_live import JOB, OUTPUTS, needs_node, script, spec
from .wait import until

EXAMPLES = Path(__file__).parents[2] / "examples"
MOVED: list[dict[str, float]] = [
    {},
    {"n_gpus": 2048},
    {"n_gpus": 4096, "gpu_mttf": 1e7, "pipeline_parallel": 8},
    {"gpu_hour_price": 4.0, "checkpoint_write_bandwidth": 5e9},
    {"tensor_parallel": 1},
]


def evaluated(text: str, program: str, folder: Path) -> Any:
    """What the page's script prints as JSON after `program`, which may wait."""
    path = folder / "page.js"
    finite = "(_, v) => typeof v === 'number' && !Number.isFinite(v) ? String(v) : v"
    show = f"const show = (found) => console.log(JSON.stringify(found, {finite}));"
    path.write_text(f"{script(text)}\n{show}\n(async () => {{ await unpack(); {program} }})();")
    assert node.NODE
    ran = subprocess.run([node.NODE, path], check=True, timeout=60, capture_output=True)
    return json.loads(ran.stdout)


def accounts(text: str, asked: list[dict[str, float]], folder: Path) -> Any:
    """All numbers of the account at each position, those of the program, and what carries each."""
    return evaluated(
        text,
        f"""
const first = (one) => operands(one).filter((row) => row.first).map((row) => row.name);
const named = OUTPUTS.map((of) => of.name).filter(accountable);
show({json.dumps(asked)}.map((row) => {{
  state.moved = new Map(Object.entries(row).map(([name, v]) => [input(name), v]));
  book.numbers = numbersHere();
  const {{ values }} = answer(0), rows = [...formulasHere().values()];
  return {{ numbers: book.numbers, found: named.map((name) => [name, values[output(name)]]),
    carrying: rows.map((one) => [one.name, first(one)]) }};
}}));""",
        folder,
    )


@needs_node
def test_a_formula_is_read_as_python_reads_it(tmp_path: Path) -> None:
    scope = {"a": 2.0, "b": 0.5, "c": float("nan"), "inf": float("inf"), "max": max, "min": min}
    texts = [
        "a + b * 3 - 1 - 1",
        "-a * b / 4",
        "-(a - b) / (a - b / 2)",
        "1e-05 * a + 2.5e+3",
        "1 if a < b else 2 if a != 2 else 3",
        "(a if a >= 2 and b < 0.4 or b == 0.5 else 7) / 2",
        "max(a, min(b, 1) + a) * (1 if c != c else 2)",
        "b if (a < inf if True else False) else 9",
    ]
    found = evaluated(
        page(spec({}), "job"),
        f"""show({json.dumps(texts)}.map((text) => parsed(text)({{ a: 2, b: 0.5, c: NaN }})));""",
        tmp_path,
    )
    assert found == [eval(text, dict(scope)) for text in texts]


@needs_node
def test_an_account_has_the_numbers_of_explain(tmp_path: Path) -> None:
    """Each name at each position; what carries a value is listed first."""
    rows = accounts(page(spec({}), "job"), MOVED, tmp_path)
    for moved, row in zip(MOVED, rows, strict=True):
        assert len(row["found"]) > 10
        for name, value in row["found"]:  # the page's program, compiled from another trace
            assert float(row["numbers"][name]) == pytest.approx(float(value), rel=1e-12), name
        told = {name: account({**JOB, **moved}, name) for name in ("job_time", "memory_per_gpu")}
        carrying = dict(row["carrying"])
        for whole in told.values():
            for name, one in whole.rows.items():
                if name != "infeasible_reason" and name in row["numbers"]:
                    value = float(row["numbers"][name])
                    np.testing.assert_allclose(value, one.value, 1e-12, err_msg=f"{moved} {name}")
                    if one.expression:
                        assert {*carrying[name]} == {*one.carrying}, (moved, name)


def test_an_input_names_its_origin_in_each_choice() -> None:
    layouts = {"labels": ["a", "b"], "pipeline_parallel": [4, 8]}
    text = page(spec({"gpu": ["h100-sxm", "b200-sxm"], "layout": layouts}), "job")
    data = json.loads(re.search(r"const DATA = (.*);\n", text)[1])  # type: ignore[index]
    account = json.loads(zlib.decompress(base64.b64decode(data["account"])))
    inputs = account["inputs"]
    assert inputs["hbm_bandwidth"]["from"] == ["gpu h100-sxm"] * 2 + ["gpu b200-sxm"] * 2
    assert "nvidia" in account["records"]["gpu h100-sxm"].lower()
    assert inputs["pipeline_parallel"]["from"] == ["this choice"]
    assert inputs["n_gpus"]["from"] == ["the spec"]
    assert inputs["gpus_per_node"]["from"] == ["node dgx-h100"]


@pytest.mark.slow
@needs_node
@each("name", ("h100.toml", "llama-3-405b-in-phases.toml"))
def test_accounts_of_examples_have_the_numbers_of_their_pages(name: str, tmp_path: Path) -> None:
    ((found, numbers),) = [
        (row["found"], row["numbers"])
        for row in accounts(page(read_spec(EXAMPLES / name, {}), name), [{}], tmp_path)
    ]
    for of, value in found:
        assert float(numbers[of]) == pytest.approx(float(value), rel=1e-12), of


@pytest.mark.slow
def test_a_number_opens_its_account(browser: Any, tmp_path: Path) -> None:
    """Down to an input and its source; numbers follow; Escape goes back to the number."""
    Sweep(JOB, {"zero_stage": [1, 3]}, OUTPUTS).to_html(tmp_path / "page.html", "A page")
    browser.get((tmp_path / "page.html").as_uri())

    def told() -> str:
        return str(browser.find_element("id", "account").text)

    def steps(n_gpus: int) -> float:
        sweep = Sweep({**JOB, "zero_stage": 1, "n_gpus": n_gpus}, {}, ["step_time"])
        return sweep.evaluate(settings=Settings("numpy"))["step_time"].item()

    number = browser.find_element("css selector", "#sentence [data-account=job_time]")
    number.send_keys("\n")
    until(lambda: "job_time = attempted_steps" in told(), told)
    assert browser.switch_to.active_element.get_attribute("id") == "account-of"
    assert "from error_factor (" in told()
    assert "By hand: training_tokens" in told()
    assert f"step_time = {steps(1024):.4g} s" in told()
    for name in ("step_time", "compute_time"):
        path = f"//section[@id='account']//summary[b='{name}']"
        browser.find_element("xpath", path).send_keys("\n")
        until(lambda name=name: f"\n{name} = (" in told() or f"\n{name} = num" in told(), told)
    assert re.search(r"\nlayers = 80 transformer layers From model llama-3-70b: .*https://", told())
    browser.execute_script("move(input('n_gpus'), 2048)")
    until(lambda: f"step_time = {steps(2048):.4g} s" in told(), told)
    until(lambda: "account=job_time&n_gpus=2048" in browser.current_url, told)
    shared = browser.current_url
    browser.find_element("id", "close").send_keys("\ue00c")  # Escape
    until(lambda: not told(), told)
    focused = browser.switch_to.active_element
    assert focused.get_attribute("data-account") == "job_time"
    browser.get("about:blank")
    browser.get(shared)  # a link opens the account
    until(lambda: f"step_time = {steps(2048):.4g} s" in told(), told)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"]))) == 2
    assert browser.get_log("browser") == []
