"""The single-file page: its JavaScript gives what `run` prints, in node and a browser."""

import base64
import csv
import html
import json
import math
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fleetcube import InputError, Settings, Sweep
from fleetcube.analysis.interval import chances
from fleetcube.analysis.targets import Target
from fleetcube.cli import cli
from fleetcube.kernels.physics.roles import CROSSING, LOSSES
from fleetcube.presentation.page.page import page
from fleetcube.presentation.page.report import Question, report
from fleetcube.scenario import dates
from fleetcube.scenario.spec_file import read_spec

from ..draws import generator
from ..kernels import javascript as node
from ..table import each
from .wait import until

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTILE = "</script><img src=x onerror=alert(1)>{{script}}"
JOB: dict[str, Any] = {
    "model": "llama-3-70b",
    "node": "dgx-h100",
    "fabric": "infiniband-ndr",
    "software": "megatron-lm",
    "n_gpus": 1024,
    "tensor_parallel": 8,
    "pipeline_parallel": 4,
    "global_batch_size": 2048,
    "checkpoint_write_bandwidth": "100 GB/s",
    "gpu_hour_price": 2.5,
}
TIMES = "\N{MULTIPLICATION SIGN}"
OUTPUTS = ["job_time", "mfu", "goodput", "memory_per_gpu", "job_cost", "dominant_overhead"]
OUTPUTS.append("expected_failures")  # a count: its interval is wider than that of its mean


def spec(axes: Mapping[str, Any], outputs: Sequence[str] = OUTPUTS, **changed: Any) -> Any:
    return {"scenario": {**JOB, **changed}, "axes": dict(axes), "outputs": list(outputs)}


def script(text: str) -> str:
    found = re.search(r"<script>(.*)</script>", text, re.DOTALL)
    assert found
    return found[1]


def answers(text: str, asked: Sequence[tuple[int, Mapping[str, float]]], folder: Path) -> Any:
    """The page's results with changed inputs: value, low and high by output, and reasons."""
    rows = [[choice, list(moved.items())] for choice, moved in asked]
    program = folder / "page.js"
    program.write_text(
        script(text)
        + f"""
const place = Object.fromEntries(INPUTS.map((own, k) => [own.name, k]));
const rows = {json.dumps(rows)}.map(([choice, moved]) => {{
  const found = answer(choice, new Map(moved.map(([name, v]) => [place[name], v])));
  const named = OUTPUTS.map((of, k) => [of.name, [found.values[k], found.low[k], found.high[k]]]);
  return [Object.fromEntries(named), found.why];
}});
const finite = (_, v) => typeof v === "number" && !Number.isFinite(v) ? null : v;
console.log(JSON.stringify(rows, finite));
"""
    )
    assert node.NODE
    ran = subprocess.run([node.NODE, program], check=True, timeout=60, capture_output=True)
    return json.loads(ran.stdout)


def check(scenario: Mapping[str, Any], outputs: Sequence[str], found: Any) -> None:
    """Compare a result of the page with a one-point sweep and its interval."""
    named, why = found
    values = Sweep(scenario, {}, outputs).prediction_interval(settings=Settings("numpy"))
    assert (why is None) == (values.get("infeasible_reason", 0) == 0)
    for name in outputs:
        value, low, high = named[name]
        np.testing.assert_allclose(value, values[name].item(), 1e-12, err_msg=name)
        for end, side in ((low, "low"), (high, "high")):
            expected = values.get(f"{name}_{side}")
            known = expected is not None and np.isfinite(expected.item())
            assert (end is not None) == known, (name, side)
            if known:
                np.testing.assert_allclose(end, expected.item(), 1e-12, err_msg=name)


needs_node = pytest.mark.skipif(node.NODE is None, reason="node is not installed")
MOVED: list[dict[str, float]] = [
    {},
    {"n_gpus": 2048},
    {"n_gpus": 4096, "gpu_mttf": 1e7, "pipeline_parallel": 8},
    {"gpu_hour_price": 4.0, "checkpoint_write_bandwidth": 5e9},
    {"gpu_mttf": 1e5},
    {"tensor_parallel": 1},
]


@needs_node
def test_a_page_answers_as_a_sweep_does(tmp_path: Path) -> None:
    text = page(spec({}), "job")
    found = answers(text, [(0, moved) for moved in MOVED], tmp_path)
    for moved, own in zip(MOVED, found, strict=True):
        check({**JOB, **moved}, OUTPUTS, own)
    assert found[-1][1] == "out_of_memory"


@needs_node
def test_every_number_of_a_page_moves_as_a_run_with_it_does(tmp_path: Path) -> None:
    text = page(spec({}), "job")
    data = json.loads(re.search(r"const DATA = (.*);\n", text)[1])  # type: ignore[index]
    base = dict(zip([own["name"] for own in data["inputs"]], data["bases"][0], strict=True))
    moved = [
        {own["name"]: base[own["name"]] * (2 if own["count"] else 1.1 if own["high"] > 1 else 0.9)}
        for own in data["inputs"]
        if own.get("title") and np.isfinite(base[own["name"]])
    ]
    assert len(moved) > 40
    for own, answer in zip(moved, answers(text, [(0, m) for m in moved], tmp_path), strict=True):
        values = Sweep({**JOB, **own}, {}, OUTPUTS).evaluate(settings=Settings("numpy"))
        for name in OUTPUTS:
            expected = values[name].item()
            np.testing.assert_allclose(answer[0][name][0], expected, 1e-12, err_msg=f"{own} {name}")


@needs_node
@pytest.mark.fuzz
def test_numbers_that_move_together_answer_as_runs_with_them_do(tmp_path: Path) -> None:
    job = {**JOB, "memory_tier_survival": 0.6, "drive_tier_survival": 0.9}
    text = page({"scenario": job, "axes": {}, "outputs": OUTPUTS}, "job")
    data = json.loads(re.search(r"const DATA = (.*);\n", text)[1])  # type: ignore[index]
    base = dict(zip([own["name"] for own in data["inputs"]], data["bases"][0], strict=True))
    rng = generator(8)
    asked: list[tuple[int, dict[str, float]]] = []
    for _ in range(40):
        moved = {}
        for own in rng.choice([own for own in data["inputs"] if own.get("title")], 3):
            at, low, high = base[own["name"]], own["low"], own["high"]
            at = at if np.isfinite(at) else 1e9
            value = float(rng.choice([0, 1, 2, 3, 1e6, at / 2, 2 * at, low, min(high, 1e12)]))
            inside = (value > 0 if own["above"] else value >= low) and value <= high
            if inside and (value.is_integer() or not own["count"]):
                moved[own["name"]] = value
        asked.append((0, moved))
    for (_, moved), (named, why) in zip(asked, answers(text, asked, tmp_path), strict=True):
        try:
            values = Sweep({**job, **moved}, {}, OUTPUTS).evaluate(settings=Settings("numpy"))
        except InputError:
            assert why, moved
            continue
        assert (why is None) == (values["infeasible_reason"] == 0), moved
        for name in OUTPUTS:
            found = np.nan if named[name][0] is None else float(named[name][0])
            expected = np.nan if np.isinf(values[name]) else values[name].item()
            np.testing.assert_allclose(found, expected, 1e-9, err_msg=f"{moved} {name}")


@needs_node
def test_choices_have_the_values_of_their_labels_and_options(tmp_path: Path) -> None:
    axes = {
        "gpu": ["h100-sxm", "b200-sxm"],
        "layout": {"labels": ["a", "b"], "pipeline_parallel": [4, 8], "virtual_stages": [1, 2]},
        "zero_stage": [1, 3],
        "n_gpus": [512, 1024, 2048],
    }
    text = page(spec(axes), "job")
    asked = [(k, {"n_gpus": 2048.0}) for k in range(8)]
    for k, own in enumerate(answers(text, asked, tmp_path)):
        layout = {"pipeline_parallel": [4, 8][k // 2 % 2], "virtual_stages": [1, 2][k // 2 % 2]}
        said = {"gpu": axes["gpu"][k // 4], "zero_stage": [1, 3][k % 2], "n_gpus": 2048}
        check({**JOB, **said, **layout}, OUTPUTS, own)


@needs_node
def test_intervals_end_with_the_sizes_that_were_measured(tmp_path: Path) -> None:
    text = page(spec({}), "job")
    (inside, _), (beyond, _) = answers(
        text, [(0, {"n_gpus": 16384}), (0, {"n_gpus": 65536})], tmp_path
    )
    assert inside["job_time"][1] < inside["job_time"][0] < inside["job_time"][2]
    assert beyond["job_time"][0] > 0
    assert beyond["job_time"][1] is None


@needs_node
def test_distributions_stand_at_their_medians_without_an_interval(tmp_path: Path) -> None:
    drawn = {"gpu_mttf": {"lognormal": ["50_000 h", 1.5]}}
    text = page(spec({}, **drawn), "job")
    ((named, _),) = answers(text, [(0, {})], tmp_path)
    values = Sweep({**JOB, "gpu_mttf": "50_000 h"}, {}, OUTPUTS).evaluate(
        settings=Settings("numpy")
    )
    np.testing.assert_allclose(named["job_time"][0], values["job_time"].item(), 1e-12)
    assert named["job_time"][1] is None
    assert named["memory_per_gpu"][1] is None
    assert "are at their medians" in text


@pytest.mark.slow
@needs_node
@each("name", ("h100.toml", "llama-3-405b-in-phases.toml"))
def test_examples_answer_as_they_are_run(name: str, tmp_path: Path) -> None:
    read = read_spec(EXAMPLES / name)
    ((named, _),) = answers(page(read, name), [(0, {})], tmp_path)
    sweep = Sweep.from_file(EXAMPLES / name)
    values = sweep.evaluate(settings=Settings("numpy"))
    middle = {axis: size // 2 for axis, size in sweep._sizes.items()}
    for of in read["outputs"]:
        at = {axis: k for axis, k in middle.items() if axis in values[of].dims}
        np.testing.assert_allclose(named[of][0], values[of].isel(at).item(), 1e-12, err_msg=of)


def test_a_page_loads_nothing_and_shows_names_as_text(tmp_path: Path) -> None:
    axes = {"layout": {"labels": [HOSTILE, "b"], "tensor_parallel": [4, 8]}}
    text = page(spec(axes), HOSTILE)
    assert text.count("<script>") == text.count("</script>") == 1
    assert "<img" not in text
    assert "default-src 'none'" in text
    assert len(text) < 1_000_000


class Still(HTMLParser):
    """The rows of each section's tables, its text and its pictures, without running anything."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: dict[str, list[list[str]]] = {}
        self.text: dict[str, str] = {}
        self.paths: dict[str, int] = {}
        self.hidden: list[str] = []
        self.section, self.cell, self.skipped = "", False, False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        about = dict(attrs)
        if tag == "section":
            self.section = about["id"]
            self.rows[self.section], self.paths[self.section] = [], 0
        if tag == "tr":
            self.rows[self.section].append([])
        if tag in ("td", "th"):
            self.rows[self.section][-1].append("")
        self.paths[self.section] = self.paths.get(self.section, 0) + (tag in ("path", "rect"))
        if "hidden" in about:
            self.hidden.append(about.get("id", tag))
        self.cell, self.skipped = tag in ("td", "th"), tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self.cell = self.skipped = False

    def handle_data(self, text: str) -> None:
        if self.cell:
            self.rows[self.section][-1][-1] += text
        if not self.skipped:
            self.text[self.section] = self.text.get(self.section, "") + text + " "


@needs_node
def test_a_page_says_when_the_job_ends(tmp_path: Path) -> None:
    text = page(spec({}, start_date="2027-01-31"), "job")
    sweep = Sweep(JOB, {}, ["job_time"]).prediction_interval(settings=Settings("numpy"))
    ends = [
        dates.end(date(2027, 1, 31), sweep[f"job_time{side}"].item())
        for side in ("", "_low", "_high")
    ]
    times = [0.0, 1.0, 86400.0, 86400.5, 1e7, 3e9, 1e12, 1e300, math.inf, math.nan]
    program = tmp_path / "day.js"
    asked = f"[{', '.join('Infinity' if t == math.inf else str(t) for t in times)}]"
    asked = asked.replace("nan", "NaN")
    program.write_text(
        f"{script(text)}\nsettle(); console.log(until(answer(0)));"
        f'for (const t of {asked}) console.log(day("2027-01-31", t));'
    )
    assert node.NODE
    ran = subprocess.run([node.NODE, program], check=True, timeout=60, capture_output=True)
    said, *days = ran.stdout.decode().split("\n")[:-1]
    assert said == f"ends on {ends[0]}, 90 %: {ends[1]} to {ends[2]}"
    assert days == [dates.end(date(2027, 1, 31), t) for t in times]


@needs_node
def test_the_first_view_says_time_cost_chance_limit_and_layout(tmp_path: Path) -> None:
    """As a sweep, its interval and `chances` have them, in three digits."""
    job = {**JOB, "zero_stage": 1, "context_parallel": 2}
    text = page({"scenario": job, "axes": {}, "outputs": OUTPUTS}, "job")
    program = tmp_path / "page.js"
    days = [150, 190, 210, 240, 300]
    program.write_text(
        f"""{script(text)}
settle();
const found = answer(0), told = {{ layout: spelled(), limits: limits(found) }};
told.first = DATA.sentence.map((k) => brief(found, k));
told.leading = DATA.leading.map((k) => [OUTPUTS[k].name, brief(found, k)]);
told.verdicts = {days}.map((at) => {{
  state.target = {{ by: "time", at: at * 86400 }};
  return verdicts(found)[0];
}});
console.log(JSON.stringify(told));
"""
    )
    assert node.NODE
    ran = subprocess.run([node.NODE, program], check=True, timeout=60, capture_output=True)
    told = json.loads(ran.stdout)
    sweep = Sweep(job, {}, [*OUTPUTS, *LOSSES])
    values = sweep.prediction_interval(settings=Settings("numpy"))

    def rounded(name: str, factor: float) -> list[str]:
        ends = (values[f"{name}{side}"].item() / factor for side in ("", "_low", "_high"))
        return [f"{float(f'{end:.3g}'):g}" for end in ends]

    time, low, high = rounded("job_time", 86400)
    assert told["first"][0] == {"text": f"{time} days", "span": f"{low} to {high}"}
    cost, low, high = rounded("job_cost", 1e6)
    assert told["first"][1] == {"text": f"{cost} M USD", "span": f"{low} to {high}"}
    assert told["layout"] == (
        f"1,024 GPUs: 8 tensor {TIMES} 4 pipeline {TIMES} 2 context {TIMES} 16 data, "
        "micro-batches of 1, ZeRO stage 1"
    )
    losses = sorted(LOSSES, key=lambda name: -values[name].item())[:2]
    shares = [f"{100 * values[name].item():.3g} %" for name in losses]
    names = [name.removesuffix("_overhead").replace("_", " ") for name in losses]
    assert told["limits"] == (
        f"limited by {names[0]} ({shares[0]} of the wall time), then {names[1]} ({shares[1]})"
    )
    assert len(told["first"]) + len(told["leading"]) == 5
    leading = dict(told["leading"])
    assert leading["mfu"]["text"] == f"{100 * values['mfu'].item():.3g} %"
    assert re.fullmatch(r"[\d.]+ of [\d.]+ GB", leading["memory_per_gpu"]["text"])
    targets = [Target("job_time", "<=", float(day * 86400), "s") for day in days]
    exact = [100 * chances(job, [target])["job_time_chance"][1] for target in targets]
    for verdict, day, percent in zip(told["verdicts"], days, exact, strict=True):
        found = re.fullmatch(rf"a deadline of {day} days is (.*) % likely to hold", verdict)
        assert found
        least = float(re.sub(r"[a-z ]", "", found[1]))
        assert least == pytest.approx(percent, abs=3), (verdict, percent)


def told(text: str, program: str, folder: Path) -> Any:
    """What a program in the page prints as JSON."""
    path = folder / "page.js"
    path.write_text(f"{script(text)}\nglobalThis.requestAnimationFrame = setTimeout;\n{program}")
    assert node.NODE
    ran = subprocess.run([node.NODE, path], check=True, timeout=60, capture_output=True)
    return json.loads(ran.stdout)


@needs_node
def test_a_map_and_a_curve_are_those_of_a_sweep(tmp_path: Path) -> None:
    """Over inputs, whether axes of the spec or not, and over axes of options, with intervals."""
    axes = {"n_gpus": [256, 512, 1024, 2048, 4096, 8192], "zero_stage": [1, 3]}
    text = page(spec(axes), "job")
    maps = [("n_gpus", "gpu_mttf"), ("zero_stage", "checkpoint_write_bandwidth"), ("n_gpus", "")]
    program = f"""
    settle();
    const run = async ([x, y]) => {{
      const axes = [axisOf(x, 40), y && axisOf(y, 40)];
      const [own] = sidesOf(), of = named("job_time");
      return [axes.map(({{ row }}) => row), await computed(own, ...axes, of, filling)];
    }};
    Promise.all({json.dumps(maps)}.map(run)).then((found) => console.log(JSON.stringify(found)));
    """
    for names, ((x, y), grid) in zip(maps, told(text, program, tmp_path), strict=True):
        over = {names[0]: axes.get(names[0], x), **({names[1]: y} if y else {})}
        job = {**JOB, "n_gpus": 2048, "zero_stage": 1}  # the middle of the axis
        job = {name: value for name, value in job.items() if name not in over}
        sweep = Sweep(job, over, ["job_time"]).prediction_interval(settings=Settings("numpy"))
        bad = sweep["infeasible_reason"].transpose(*reversed(over), missing_dims="ignore") != 0
        expected = sweep["job_time"].transpose(*reversed(over)).values.ravel()
        hatched = np.broadcast_to(bad, [len(row) for row in (y, x) if row]).ravel()
        assert [why is not None for why in grid["why"]] == hatched.tolist()
        found = np.array([np.nan if value is None else value for value in grid["values"]])
        assert len(found) >= (6 if not y else 80)
        np.testing.assert_allclose(found[~hatched], expected[~hatched], 1e-12)
        if not y:
            ends = [np.array(grid[end], float) for end in ("low", "high")]
            for end, own in zip(("low", "high"), ends, strict=True):
                np.testing.assert_allclose(own[~hatched], sweep[f"job_time_{end}"][~hatched], 1e-12)


@needs_node
def test_contours_cross_where_a_plane_has_their_level(tmp_path: Path) -> None:
    """x + 2 y = 5, also beside a point that cannot run."""
    program = """
    const px = [0, 1, 2.5, 4], py = [0, 1, 2, 3];
    const values = py.flatMap((y) => px.map((x) => x + 2 * y));
    const whole = contour(px, py, values, 5);
    values[0] = NaN;
    console.log(JSON.stringify([whole, contour(px, py, values, 5), contour(px, py, values, 99)]));
    """
    whole, part, none = told(page(spec({}), "job"), program, tmp_path)
    ends = np.array(whole).reshape(-1, 2)
    np.testing.assert_allclose(ends @ [1, 2], 5, 1e-12)
    lengths = [math.dist(*segment) for segment in whole]
    assert sum(lengths) == pytest.approx(math.hypot(4, 2))  # from (0, 2.5) to (4, 0.5)
    assert (part, none) == (whole, [])  # the first cell has no crossing


@needs_node
def test_a_front_of_a_million_sizes_has_a_dozen(tmp_path: Path) -> None:
    for sizes, least in ((32 * np.arange(1, 501), 4), (32 * np.arange(1, 1_000_001), 0)):
        text = page(spec({"n_gpus": sizes}), "job")
        program = tmp_path / "page.js"
        program.write_text(f"{script(text)}\nsettle(); console.log(frontPoints().length);")
        assert node.NODE
        ran = subprocess.run([node.NODE, program], check=True, timeout=60, capture_output=True)
        assert least <= int(ran.stdout) <= 12  # those that run, and few of them


@pytest.mark.slow
def test_points_that_cannot_pay_do_not_stretch_the_axes(browser: Any, tmp_path: Path) -> None:
    """Each is drawn and named, and has its interval where one is known."""
    sizes = [2**k for k in range(7, 18)]
    Sweep({**JOB, "gpu_mttf": "2_000 h"}, {"n_gpus": sizes}, OUTPUTS).to_html(
        tmp_path / "page.html"
    )
    browser.get((tmp_path / "page.html").as_uri())
    until(lambda: browser.execute_script("return at('said').textContent"), lambda: "no answer")
    points, ends, spans, names, hollow, solid = browser.execute_script(
        """const all = (kind) => [...at("front-picture").querySelectorAll(kind)];
        return [front.points.map(({ x, y, size, beaten }) => ({ x, y, size, beaten })),
          [front.across, front.up], all(".span")[0].getAttribute("d").split("M").length - 1,
          all(".name").map((one) => [one.textContent, one.classList.contains("dim")]),
          all(".beaten").length, all(".dot").length];"""
    )
    beaten = [point for point in points if point["beaten"]]
    paying = [point for point in points if not point["beaten"]]
    time, cost = ends
    for axis in (time, cost):  # margins of 1.1 around more than a decade
        assert axis["log"] == (axis["high"] > 12.1 * axis["low"] > 0)
    assert max(point["y"] for point in paying) < cost["high"] < beaten[-1]["y"]
    assert (hollow, solid) == (len(beaten), len(paying))
    labels = [(f"{point['size']:,.0f}", False) for point in paying]
    dim = [(text, is_dim) for text, is_dim in names if is_dim]
    assert {*labels} == {(text, is_dim) for text, is_dim in names if not is_dim}
    assert len(dim) == len(beaten)
    assert dim[-1][0].startswith(f"{beaten[-1]['size']:,.0f} ↑ ")
    assert spans == len([point for point in paying if point["size"] <= 16384])  # as measured


def test_what_choices_set_does_not_move() -> None:
    layouts = {"labels": ["a", "b"], "pipeline_parallel": [4, 8], "micro_batch_size": [1, 2]}
    text = page(spec({"layout": layouts}), "job")
    data = json.loads(re.search(r"const DATA = (.*);\n", text)[1])  # type: ignore[index]
    movable = {own["name"] for own in data["inputs"] if own.get("title")}
    assert "gpu_mttf" in movable
    assert movable.isdisjoint({"pipeline_parallel", "micro_batch_size"})  # `run` refuses them


def test_a_page_reads_without_its_script() -> None:
    axes = {"layout": {"labels": ["short", "long"], "pipeline_parallel": [4, 8]}}
    outputs = ["job_time", "memory_per_gpu", "job_cost"]
    still = Still(page(spec(axes, outputs, zero_stage=1), "A page"))
    sweep = Sweep({**JOB, "zero_stage": 1}, axes, outputs)
    told = sweep.prediction_interval(settings=Settings("numpy"))
    days = told["job_time"].values / 86400
    rows = still.rows["choices"]
    assert [row[0] for row in rows] == ["choice", "layout=short", "layout=long"]
    assert [row[1] for row in rows[1:]] == [f"{day:.4g} d" for day in days]
    ends = [told[f"job_time_{side}"].values[0] / 86400 for side in ("low", "high")]
    assert f"{days[0]:.4g} d" in still.text["answers"]
    assert " to ".join(f"{end:.4g}" for end in ends) in still.text["answers"]
    start = f"job time {days[0]:.4g} d ({' to '.join(f'{end:.4g}' for end in ends)}); job cost "
    assert still.text["answers"].lstrip().startswith(start)
    assert "compute inefficiency" in still.text["losses"]
    assert ["GPU hour price", "2.5 USD/h"] in still.rows["stated"]
    assert {"inputs", "front", "map"} <= {*still.hidden}  # only usable with scripts
    assert "fleetcube run SPEC.toml layout=short" in still.text["foot"]


def test_a_page_of_flags_alone_says_them() -> None:
    still = Still(page(spec({}, ["dominant_overhead"]), ""))
    assert " ".join(still.text["answers"].split()) == (
        "All answers, to four digits dominant overhead compute inefficiency"
    )


def test_what_a_page_cannot_hold_is_refused(tmp_path: Path) -> None:
    sizes = np.arange(1, 130)
    with pytest.raises(InputError, match=r"make 129 choices; a page holds 128"):
        page(spec({"layout": {"n_gpus": sizes, "global_batch_size": sizes}}), "")
    with pytest.raises(InputError, match=r"all outputs are derivatives"):
        page(spec({}, ["d_job_time_d_n_gpus"]), "")
    sweep = Sweep(JOB, {}, ["job_time"])
    with pytest.raises(InputError, match=r"not an \.html file"):
        sweep.to_html(tmp_path / "page.pdf")
    sweep.to_html(tmp_path / "page.html")
    with pytest.raises(InputError, match="exists"):
        sweep.to_html(tmp_path / "page.html")


PLANNED: dict[str, Any] = {
    **{n: v for n, v in JOB.items() if n not in ("tensor_parallel", "pipeline_parallel")},
    "sequence_length": 8192,
    "training_tokens": "2T",
}


@pytest.mark.slow
@needs_node
def test_a_report_plans_again_as_plan_does(tmp_path: Path) -> None:
    """The best layout in the page as sizes move is the one that a search finds."""
    sweep = Sweep(PLANNED, {"gpu": ["h100-sxm", "h200-sxm"]}, ["job_time"])
    found = sweep.best("job_time", 2, search="layout")
    text = report(Question(sweep, "job_time"), found, "job.toml")
    moved: list[dict[str, float]] = [
        {name: base * 2.0**k}
        for name, base in (("n_gpus", 1024), ("sequence_length", 8192), ("global_batch_size", 2048))
        for k in (-3, -1, 0, 1, 4)
    ]
    moved += [
        {"n_gpus": 4096, "sequence_length": 16384},
        {"n_gpus": 4096, "sequence_length": 32768, "global_batch_size": 512},
    ]
    program = tmp_path / "page.js"
    program.write_text(
        script(text)
        + f"""
const asked = {json.dumps(moved)}.map((row) => new Map(Object.entries(row).map(([name, v]) =>
  [INPUTS.findIndex((own) => own.name === name), v])));
console.log(JSON.stringify(CLUSTERS.map((name, k) => [name, asked.map((own) => {{
  const {{ choice, found, rank }} = plan(k, own);
  return [rank, DATA.layouts[choice], found.values[GOAL]];
}})])));
state.layout = DATA.choices.length - 1;  // the turn is that of the layout on the page
settle();
console.log(JSON.stringify([flipText(answer(state.pick)), DATA.commands[state.pick]]));
"""
    )
    assert node.NODE
    ran = subprocess.run([node.NODE, program], check=True, timeout=60, capture_output=True)
    told, (flip, command) = map(json.loads, ran.stdout.splitlines())
    turn = re.search(r"both cost the same at ([\d,]+) h", flip)
    assert turn
    pinned = dict(word.split("=") for word in shlex.split(command))
    at = {
        n: float(v) if v.isdigit() else v == "true" if v in ("true", "false") else v
        for n, v in pinned.items()
    }
    ratio = Sweep({**PLANNED, **at, "gpu_mttf": f"{turn[1].replace(',', '')} h"}, {}, [CROSSING])
    assert ratio.evaluate()[CROSSING].item() == pytest.approx(1, abs=0.02)
    told = dict(told)
    assert told.keys() == {"gpu=h100-sxm", "gpu=h200-sxm"}
    for cluster, rows in told.items():
        for own, (rank, layout, value) in zip(moved, rows, strict=True):
            at = {**PLANNED, "gpu": cluster.removeprefix("gpu="), **own}
            best = Sweep(at, {}, ["job_time"]).best("job_time", 1, search="layout")
            assert (rank == 2) == (best["infeasible_reason"].item() == 0), (cluster, own)
            if rank == 2:
                np.testing.assert_allclose(value, best["job_time"].item(), 1e-12, err_msg=f"{own}")
                assert layout == best["whole_layout"].item()


@pytest.mark.slow
def test_a_report_prints_the_question_that_it_answers(tmp_path: Path) -> None:
    words = ["n_gpus=8192", "gpu_hour_price=3", "--of", "min job_cost", "--where", "mfu >= 0.1"]
    path = tmp_path / "page.html"
    plan = [str(EXAMPLES / "plan.toml"), *words, "-o", str(path)]
    assert CliRunner().invoke(cli, ["plan", *plan], catch_exceptions=False).exit_code == 0
    found = re.search(r"const DATA = (.*);\n", path.read_text("utf-8"))
    assert found
    data = json.loads(found[1])
    assert ["gpu_hour_price", "gpu_hour_price=3"] in data["given"]
    assert shlex.split(data["searches"][0]) == ["--of", "min job_cost", "--where", "mfu >= 0.1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["plan.toml", "n_gpus=8192", "start_date=2027-01-31", "--as", "torchtitan"],
        ["plan.toml", "--search", "layout,precision"],
        ["llama-3-405b-in-phases.toml", "gpu_hour_price=3"],
    ],
    ids=lambda words: words[-1],
)
def test_the_commands_of_a_report_give_its_numbers(words: list[str], tmp_path: Path) -> None:
    plan = ["plan", str(EXAMPLES / words[0]), *words[1:], "-o", str(tmp_path / "page.html")]
    assert CliRunner().invoke(cli, plan, catch_exceptions=False).exit_code == 0
    text = (tmp_path / "page.html").read_text("utf-8")
    told = re.search(r'"job_time">([\d.]+) d<.*id="command">fleetcube ([^<]*)<', text, re.DOTALL)
    assert told
    said = CliRunner().invoke(cli, shlex.split(html.unescape(told[2]))).output
    assert re.search(rf"(?<![\d.]){told[1]} ", said)
    assert [day for day in re.findall(r"ends on (20[\d-]+)", text) if day not in said] == []


@pytest.mark.slow
def test_a_page_says_what_runs_instead(browser: Any, tmp_path: Path) -> None:
    """Where a choice cannot run and another can, one click takes that."""
    axes = {"layout": {"labels": ["short", "long"], "pipeline_parallel": [2, 8]}}
    Sweep({**JOB, "n_gpus": 512}, axes, OUTPUTS).to_html(tmp_path / "page.html", "A page")
    address = (tmp_path / "page.html").as_uri()

    def status() -> str:
        return str(browser.execute_script("return document.getElementById('status').textContent"))

    browser.get(address)
    until(lambda: status() == "This can: layout=long", status)
    assert browser.find_element("id", "sentence").text == "Cannot run: out of memory"
    browser.find_element("css selector", "#status button").click()
    until(lambda: status().startswith("Limited by "), status)
    job = {**JOB, "n_gpus": 512, "pipeline_parallel": 8}
    time = Sweep(job, {}, ["job_time"]).evaluate(settings=Settings("numpy"))["job_time"].item()
    told = browser.find_element("id", "sentence").text
    assert told.startswith(f"Takes {time / 86400:.3g} days (9 times in 10: ")
    told = browser.find_element("id", "layout").text
    layout = f"8 tensor {TIMES} 8 pipeline {TIMES} 8 data, micro-batches of 1, ZeRO stage 1"
    assert told == f"512 GPUs: {layout} (layout=long)"
    browser.get("about:blank")
    browser.get(f"{address}#n_gpus=262144")
    until(lambda: status().startswith("No other here can"), status)


@pytest.mark.slow
def test_a_page_in_a_browser(browser: Any, tmp_path: Path) -> None:
    sweep = Sweep(JOB, {"n_gpus": [512, 1024, 2048], "zero_stage": [1, 3]}, OUTPUTS)
    sweep.to_html(tmp_path / "page.html", HOSTILE)
    browser.get((tmp_path / "page.html").as_uri())
    assert browser.find_element("css selector", "h1").text == HOSTILE

    def card() -> str:
        script = "return document.querySelector('#cards dd[data-name=job_cost]').textContent"
        return str(browser.execute_script(script))  # at once: the cards are rebuilt

    def expected(n_gpus: int, price: float) -> str:
        job = {**JOB, "n_gpus": n_gpus, "gpu_hour_price": price, "zero_stage": 1}
        cost = Sweep(job, {}, ["job_cost"]).evaluate(settings=Settings("numpy"))["job_cost"].item()
        return f"{cost / 1e6:.4g} M USD"

    browser.find_element("css selector", "#more summary").click()
    until(lambda: browser.find_elements("css selector", "#cards dd"), lambda: "no card")
    assert card() == expected(1024, 2.5)
    browser.execute_script(
        """const slide = (name, place) => {
          const {range} = controls.get(INPUTS.findIndex((own) => own.name === name));
          range.value = place; range.dispatchEvent(new Event("input"));
        };
        slide("n_gpus", 2);"""
    )
    until(lambda: card() == expected(2048, 2.5), card)
    until(lambda: not browser.find_elements("css selector", ".stale"), card)  # tables follow
    until(lambda: browser.find_elements("css selector", "#choices tr.picked"), card)
    told = browser.find_element("css selector", "#choices tr.picked").text
    assert expected(2048, 2.5) in told
    find = "return controls.get(INPUTS.findIndex((own) => own.name === 'gpu_hour_price')).typed"
    typed = browser.execute_script(find)
    typed.clear()
    typed.send_keys("-1\n")
    until(lambda: "wrong" in typed.get_attribute("class"), card)
    said = browser.find_element("id", typed.get_attribute("aria-describedby")).text
    assert said == "-1 is not a number above 0; the answer is of 2.5"
    assert "stale" in browser.find_element("id", "answers").get_attribute("class")
    assert card() == expected(2048, 2.5)
    typed.clear()
    typed.send_keys("4\n")
    until(lambda: card() == expected(2048, 4.0), card)
    until(lambda: 'gpu_hour_price="4 USD/h"' in browser.find_element("id", "command").text, card)
    assert "n_gpus=2048" in browser.find_element("id", "command").text
    assert browser.find_element("id", "status").text.startswith("Limited by ")
    said = browser.find_element("id", "layout").text
    layout = f"8 tensor {TIMES} 4 pipeline {TIMES} 64 data, micro-batches of 1, ZeRO stage 1"
    assert said == f"2,048 GPUs: {layout} (zero_stage=1)"
    said = browser.find_element("id", "sentence").text
    job = {**JOB, "n_gpus": 2048, "gpu_hour_price": 4.0, "zero_stage": 1}
    cost = Sweep(job, {}, ["job_cost"]).evaluate(settings=Settings("numpy"))["job_cost"].item()
    assert f" and costs {cost / 1e6:.3g} M USD (" in said
    until(lambda: "gpu_hour_price=" in browser.current_url, card)
    shared = browser.current_url  # a link opens what is seen
    browser.get("about:blank")
    browser.get(shared)
    browser.find_element("css selector", "#more summary").click()
    until(lambda: browser.find_elements("css selector", "#cards dd"), lambda: "no card")
    until(lambda: card() == expected(2048, 4.0), card)
    # a budget is dragged up the picture: more money, not an error
    browser.execute_script(
        """at("limit").value = "cost"; at("limit").dispatchEvent(new Event("change"));
        const svg = at("front-picture"), box = svg.getBoundingClientRect();
        svg.setPointerCapture = () => {}; svg.hasPointerCapture = () => true;
        const at_ = (type, part) => svg.dispatchEvent(new PointerEvent(type, {
          clientX: box.left + box.width / 2, clientY: box.top + part * box.height }));
        window.budgets = [];
        for (const part of [0.5, 0.2]) {
          at_("pointermove", part);
          budgets.push(state.target.at);
        }"""
    )
    low, high = browser.execute_script("return budgets")
    assert 0 < low < high
    saved = browser.execute_async_script(
        """const done = arguments[0];
        window.save = (name, blob) => blob.text().then(done);
        saveTable(at("choices").querySelector("table"), "choices");"""
    )
    rows = [*csv.reader(saved.splitlines())]
    assert {len(row) for row in rows} == {len(rows[0])}
    assert rows[1][0].startswith("zero_stage=")
    assert rows[0][:2] == ["choice", "job time"]
    for odd in ("time=Infinity", "cost=Infinity", "checkpoint_write_bandwidth=1e-300"):
        browser.get("about:blank")
        browser.get(shared.split("#")[0] + "#" + odd)
        until(lambda: browser.execute_script("return at('said').textContent"), card)
    assert browser.find_element("id", "status").text.endswith("It never ends")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True},
    )
    browser.get("about:blank")
    browser.get(shared.split("#")[0])
    until(lambda: browser.execute_script("return at('said').textContent"), card)
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390
    box = "return at('front-picture').getBoundingClientRect().bottom"
    assert browser.execute_script(box) < 844  # on the first screen, below the decision
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"]))) == 1
    assert browser.get_log("browser") == []
