"""The page of a plan in Chromium: its size, paints, accessibility, numbers, and clicks of tasks."""

import contextlib
import math
import os
import random
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any

from click.testing import CliRunner

from fleetcube.catalog.units import parse
from fleetcube.cli import cli
from fleetcube.kernels.physics.graph import PHYSICS

from .measure import ROOT, say
from .tables import Row, Table

AXE = "FLEETCUBE_AXE"  # axe.min.js of the npm package axe-core
COLUMNS = {"what": "what", "value": "value", "target": "at most", "met": "met", "detail": "detail"}
# Widths in pixels, and what is emulated; 720 pixels are 1,440 at 200 %
SETTINGS: dict[str, tuple[int, dict[str, str]]] = {
    "1,440 pixels": (1440, {}),
    "1,024 pixels": (1024, {}),
    "390 pixels": (390, {}),
    "200 %": (720, {}),
    "dark": (1440, {"prefers-color-scheme": "dark"}),
    "forced colours": (1440, {"forced-colors": "active"}),
    "print": (1440, {"media": "print"}),
}
# What people ask: what is pressed (and typed), and when the page shows the answer
TASKS: dict[str, tuple[Sequence[tuple[str, str]], str]] = {
    "the cheapest by a date": (
        (("//*[@id='limit']", ""), ("//option[@value='time']", ""), ("//*[@id='typed']", "120\n")),
        "at('front-read').textContent.startsWith('Cheapest within a deadline of 120 days')",
    ),
    "where failures overtake": ((), "document.body.textContent.includes('cost the same at')"),
    "the better of two nodes": ((), "/node=dgx-\\w+/.test(at('front-read').textContent)"),
    "what if a GPU's MTTF halves": (
        (("//label[.='GPU MTTF']/..//input[@type='text']", "25338\n"),),
        "location.hash.includes('gpu_mttf=')",
    ),
    "give it to a colleague": ((("", "the address"),), "location.hash.length"),
    "where a number comes from": (
        (("//*[@id='sentence']/button", ""),),
        "at('formula')?.textContent.includes('Source: ')",
    ),
}
NOTES = (
    "Medians; the detail of a time is its fastest tenth, as others work on the machine: CPU is the "
    "page's own. axe-core judges "
    "WCAG 2.2 A and AA and its best practices with all parts open; in print without target sizes.",
)
MOVED, PRINTED = 3, ("job_time", "step_time", "mfu", "memory_per_gpu", "job_cost")
_AXE = """const done = arguments[0], print = matchMedia("print").matches;
axe.run(document, { resultTypes: ["violations"], rules: { "target-size": { enabled: !print } },
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }).then(
  ({ violations }) => done(violations.map(({ id, nodes }) => `${id} ${nodes[0].target}`)));"""
_PAINTS = """const [count, wait, done] = arguments, { range } = controls.get(input("n_gpus"));
const times = []; let begun, k = 0;
const painted = () => {
  times.push(performance.now() - begun);
  if (++k < count) next(); else done(times);
};
const press = () => {
  begun = performance.now();
  range.value = k % Number(range.max); range.dispatchEvent(new Event("input"));
  requestAnimationFrame(() => {
    const after = new MessageChannel();  // answers once the frame is painted
    after.port1.onmessage = painted;
    after.port2.postMessage(0);
  });
};
const next = () => wait ? setTimeout(press, wait) : requestAnimationFrame(press);
next();"""
_MOVE = """const [places, names] = arguments;
state.moved.clear();
settle();
for (const [one, stop] of places) {
  const k = movable[Math.floor(one * movable.length)], row = stops(INPUTS[k], value(k));
  state.moved.set(k, row[Math.floor(stop * row.length)]);
}
settle();
const found = answer(state.pick);
return [commands()[0], found.why, names.map((name) => found.values[output(name)])];"""


def run(quick: bool = False) -> Table:
    """All measures of the example's page. Without Chromium, its size alone."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(ROOT):
        path = Path(folder) / "plan.html"
        _command(["plan", "examples/plan.toml", "-o", str(path)])
        rows = [_row("size of the file, kB", path.stat().st_size / 1e3, 220)]
        both = Path(folder) / "both.html"
        with _window(folder) as window:
            if window is None:
                return Table("The page of a plan", COLUMNS, rows, ("There is no Chromium here.",))
            address = path.as_uri()
            rows += [*_paints(window, address, 3 if quick else 15)]
            rows += [_judged(window, address, name) for name in SETTINGS if AXE in os.environ]
            rows.append(_compared(window, address, 3 if quick else 200))
            _command(["plan", "examples/plan.toml", "node=dgx-h100,dgx-b200", "-o", str(both)])
            rows += [*_clicks(window, both.as_uri())]
    return Table("The page of a plan", COLUMNS, rows, NOTES)


def _row(what: str, value: float, most: float, detail: str = "") -> Row:
    return {"what": what, "value": value, "target": most, "met": value <= most, "detail": detail}


def _command(words: Sequence[str]) -> str:
    return CliRunner().invoke(cli, [*words], catch_exceptions=False).stdout


@contextlib.contextmanager
def _window(folder: str) -> Iterator[Any]:
    """A browser without a window; None without Chromium."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        binary = None
    if binary is None or driver is None:
        yield None
        return
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for word in ("--headless=new", "--no-sandbox", f"--user-data-dir={folder}/profile"):
        options.add_argument(word)
    window = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        window.set_script_timeout(120)
        yield window
    finally:
        window.quit()


def _open(window: Any, address: str, setting: str = "1,440 pixels") -> None:
    width, features = SETTINGS[setting]
    media = {"media": features.get("media", "")}
    named = [{"name": n, "value": v} for n, v in features.items() if n != "media"]
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    window.execute_cdp_cmd("Emulation.setEmulatedMedia", {**media, "features": named})
    window.get("about:blank")
    window.get(address)
    _until(window, "return at('said').textContent && performance.getEntriesByType('paint').length")


def _until(window: Any, script: str) -> None:
    end = time.monotonic() + 60
    while not window.execute_script(script):
        if time.monotonic() > end:
            raise RuntimeError(f"never true: {script}")
        time.sleep(0.02)


def _paints(window: Any, address: str, rounds: int) -> Iterator[Row]:
    say("page: paints")
    first = "return performance.getEntriesByType('paint')[0].startTime"
    times = []
    for _ in range(rounds):
        _open(window, address)
        times.append(window.execute_script(first))
    yield _timed("first paint, ms", times, 120)
    for what, where in (("", address), (" with an account open", f"{address}#account=job_time")):
        _open(window, where)
        times = window.execute_async_script(_PAINTS, 4 * rounds, 200)
        yield _timed(f"input to paint{what}, ms", times, 16)
        before = _cpu(window)
        times = window.execute_async_script(_PAINTS, 8 * rounds, 0)
        cpu = (_cpu(window) - before) / len(times)
        yield _timed(f"input to paint while dragging{what}, ms", times, 1000 / 60)
        yield _row(f"CPU of an input while dragging{what}, ms", 1e3 * cpu, 16)


def _cpu(window: Any) -> float:
    """Seconds of the page's thread: script, layout and paint."""
    window.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    rows = window.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(row["value"] for row in rows if row["name"] == "TaskDuration")


def _timed(what: str, times: Sequence[float], most: float) -> Row:
    tenths = quantiles(times, n=10)
    return _row(what, tenths[4], most, f"{tenths[0]:.3g}")


def _judged(window: Any, address: str, setting: str) -> Row:
    """What axe finds with all parts open, the account's too."""
    say(f"page: axe, {setting}")
    _open(window, f"{address}#account=job_time", setting)
    for _ in range(2):  # parts, and parts of these
        opened = "for (const one of document.querySelectorAll('details')) one.open = true"
        window.execute_script(opened)
        time.sleep(0.3)
    window.execute_script(Path(os.environ[AXE]).read_text("utf-8"))
    violations = window.execute_async_script(_AXE)
    return _row(f"axe, {setting}", len(violations), 0, "; ".join(violations))


def _compared(window: Any, address: str, positions: int) -> Row:
    """Random positions at which a number differs from what the page's command prints."""
    say(f"page: {positions} positions")
    _open(window, address)
    rng, wrong = random.Random(5), []
    for _ in range(positions):
        parts = [[rng.random(), rng.random()] for _ in range(MOVED)]
        command, why, values = window.execute_script(_MOVE, parts, list(PRINTED))
        more = [word for name in PRINTED for word in ("-v", name)]
        printed = _command([*shlex.split(command)[1:], *more])
        same = f"no: {why}" in printed or not printed if why else _agree(values, printed)
        wrong += [] if same else [f"{command}: {why or values}, printed {printed}"]
    what = f"other than printed, of {positions} positions"
    return _row(what, len(wrong), 0, "; ".join(wrong[:1]))


def _agree(values: Sequence[float], printed: str) -> bool:
    """Whether the numbers of a printed table are these to its four digits. A command has its own
    numbers to six digits."""
    head, line = (re.split(r"  +", row.strip()) for row in printed.splitlines()[:2])
    for name, value, title, text in zip(PRINTED, values, head, line, strict=False):
        unit = re.search(r"\[(.*)\]", title)
        base = PHYSICS.quantities[name].unit
        factor = parse(f"1 {unit[1]}", base, name) if unit else 1.0
        number = float(text.split()[0].replace(",", ""))
        half = 0.5 * 10.0 ** (math.floor(math.log10(number)) - 3)
        if abs(value / factor - number) > half + 1e-5 * number:
            return False
    return True


def _clicks(window: Any, address: str) -> Iterator[Row]:
    """Presses until the page tells what a person asks."""
    say("page: tasks")
    for what, (steps, condition) in TASKS.items():
        if steps[:1] != (("", "the address"),):  # the last state is given away
            _open(window, address)
        for place, keys in steps:
            pressed = window.find_elements("xpath", place) if place else []
            for each in pressed[:1]:
                each.click()
                if keys:
                    window.execute_script("arguments[0].select()", each)
                    each.send_keys(keys)
        _until(window, f"return {condition}")
        yield _row(f"clicks: {what}", len(steps), 3)
