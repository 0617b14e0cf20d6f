"""Readers accept any input, or refuse it in one line."""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fleetcube
from fleetcube import InputError, Settings, Sweep
from fleetcube.analysis.targets import read_target
from fleetcube.calibration.measurements import read_records
from fleetcube.calibration.nccl import parse_log
from fleetcube.calibration.steps import parse_table
from fleetcube.catalog import CatalogError, record
from fleetcube.catalog.files import parse_toml
from fleetcube.catalog.units import UnitError, parse
from fleetcube.formats import event_log
from fleetcube.formats.routing import parse_routing
from fleetcube.formats.training_log import LARGEST, parse_training_log
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.scenario.bounded import read_text
from fleetcube.scenario.spec_file import read_spec
from fleetcube.tables.selectors import narrow, select

from ..grid.test_routing import COUNTS, csv, npz
from ..grid.test_training_log import EXPORTS, PRINTS
from .test_calibrate_command import STEPS, TRAIN, log

FUZZ = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
SPEC = """\
outputs = ["job_time", "goodput", "d_goodput_d_gpu_mttf"]
[scenario]
model = "llama-3-8b"
node = "dgx-h100"
tensor_parallel = 8
detection_time = {uniform = [10, "2 min"]}
[axes]
n_gpus = {geomspace = [8, 512], num = 3, round = true}
gpu_mttf = ["10_000 h", "50_000 h"]
fabric = ["infiniband-ndr", "roce-100g"]
zero_stage = [0, 1]
[axes.layout]
tensor_parallel = [1, 2]
pipeline_parallel = [2, 1]
[axes.sample]
design = "sobol"
num = 4
drain_time = {linspace = ["1 s", "1 min"]}
"""
CALIBRATION = """\
title = "ours"
source = "a log"
date = "2026-11-21"
note = "44 times"
all_reduce = "fitted"
inter_node_latency = "163.998 us"
inter_node_bandwidth = "12.4217 GB/s"
[standard_errors]
inter_node_latency = "2.51 us"
[fit]
ranks = 16
"""
RECORDS = """[{"id": "a/1", "group": "g", "source": "s", "inputs": {"model": "llama-3-8b",
"gpu": "h100-sxm", "n_gpus": 64, "global_batch_size": 128}, "measured": {"step_time": 2.0}}]"""
ROWS = """group, model, gpu, n_gpus, inter_node_bandwidth [Gbit/s], step_time [ms], mfu
g, llama-3-8b, h100-sxm, 64, 400, 1980, 41 %
, llama-3-8b, h100-sxm, 64, 50 GB/s, , 0.4
"""
PIECES = st.sampled_from(
    [
        *("1e999", "-1", "0", "nan", "inf", "1e-99999999", "9" * 5000, "0." + "0" * 5000 + "1"),
        *("GB/s", "h", "%", "400 Gbit/s", "1/s", "B^0.5", "s**9999999", "1 s/s/s", "µs", "^", "*"),
        *("=", ":", ",", "[", "]", "{", "}", '"', "'", "\n", "\x00", "\\", "#", "<=", "\ud7ff"),
        *("[[axes]]", "num = 10**9", "true", "1979-05-27", "n_gpus", "layout", "sample", "fabric"),
        *("{values = []}", "{linspace = [1, 2], num = 999999999999}", "[" * 2000, "a." * 2000),
    ]
)
TEXT = st.lists(PIECES | st.text(max_size=8), max_size=6).map("".join)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats()
    | TEXT
    | st.sampled_from(
        [10**400, 1j, b"x", np.timedelta64(3, "s"), np.array([[1.0]]), object(), set()]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["values", "linspace", "geomspace", "arange", "num", "round", "design"])
            | st.sampled_from(["n_gpus", "uniform", "normal", "lognormal", "empirical", "labels"])
            | TEXT,
            inner,
            max_size=3,
        )
    ),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["n_gpus", "gpu_mttf", "fabric", "model", "calibration", "zero_stage", "goodput", "layout"]
)


def edited(text: str) -> st.SearchStrategy[bytes]:
    def cut(edits: list[tuple[float, int, str]]) -> bytes:
        held = text
        for share, length, piece in edits:
            place = int(share * len(held))
            held = held[:place] + piece + held[place + length :]
        return held.encode("utf-8", errors="surrogatepass")

    edit = st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES | st.text(max_size=4))
    return st.lists(edit, min_size=1, max_size=4).map(cut)


def answered(of: Callable[[], Any]) -> None:
    """Call it: any error must be ours, in one line."""
    try:
        of()
    except (InputError, CatalogError, UnitError) as error:
        told = str(error)
        assert told
        assert "\n" not in told
        assert len(told) < 1000


@FUZZ
@given(TEXT, st.sampled_from(["1", "s", "B/s", "s/B^0.5", "1/s", "USD/J"]))
def test_units(text: str, base: str) -> None:
    answered(lambda: parse(text, base, "x"))


@pytest.mark.parametrize("text", ["1e-999999999 %", "0." + "1" * 6000 + " s", "1e999999999 h"])
def test_numbers_of_any_length_are_read_at_once_or_refused(text: str) -> None:
    answered(lambda: parse(text, "1" if "%" in text else "s", "x"))


def plan_of(path: Path) -> None:
    sweep = Sweep.from_file(path)
    if sweep.points < 10_000:
        sweep._plan("numpy")


def text_of(path: Path) -> str:
    return read_text(path, LARGEST, "a log", "less")


READERS: Mapping[str, tuple[str, Callable[[Path], Any]]] = {
    "spec.toml": (SPEC, plan_of),
    "ours.toml": (CALIBRATION, lambda path: record("calibration", str(path))),
    "all_reduce.log": (log(), lambda path: parse_log(text_of(path))),
    "train.log": (TRAIN, lambda path: parse_training_log(text_of(path))),
    "steps.csv": (STEPS, lambda path: parse_table(str(path), text_of(path))),
    "mine.json": (RECORDS, read_records),
    "mine.csv": (ROWS, read_records),
    "failures.csv": (
        "time,node,kind,lost [h]\n2024-05-01,n1,gpu,2\n",
        lambda path: event_log.parse_log(text_of(path), str(path)),
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_files(name: str, tmp_path: Path) -> None:
    text, read = READERS[name]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    read(path)  # a valid one

    @FUZZ
    @given(edited(text) | st.binary(max_size=80))
    def fuzz(held: bytes) -> None:
        path.write_bytes(held)
        answered(lambda: read(path))

    fuzz()


LOGS = ["\n".join(show(k, 2.0) for k in range(3)) for show in PRINTS.values()]


@FUZZ
@given(st.sampled_from([*LOGS, *EXPORTS.values()]).flatmap(edited))
def test_training_logs(held: bytes) -> None:
    answered(lambda: parse_training_log(held.decode("utf-8", "replace")).summary_lines())


@FUZZ
@given(
    st.sampled_from([npz(COUNTS), npz(COUNTS / 7, x=COUNTS), csv("layer,0,1,2,3", label=True)]),
    st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=6)), min_size=1, max_size=3),
)
def test_tokens_by_expert(held: bytes, edits: list[tuple[float, bytes]]) -> None:
    for share, piece in edits:
        place = int(share * len(held))
        held = held[:place] + piece + held[place + len(piece) :]
    answered(lambda: parse_routing(held, "counts"))


@pytest.mark.parametrize("name", READERS)
def test_endless_files_and_none_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, read = READERS[name]
    for wrong in ("/dev/null/x", ".", "a\x00b"):
        path = Path(wrong if name != "ours.toml" else f"{wrong}.toml")
        with pytest.raises((InputError, CatalogError)):
            read(path)


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_read_and_not_waited_for_where_nothing_writes(name: str, tmp_path: Path) -> None:
    text, read = READERS[name]
    pipe = tmp_path / name
    os.mkfifo(pipe)
    with pytest.raises((InputError, CatalogError), match="nothing writes to this pipe"):
        read(pipe)
    writer = threading.Timer(0.2, pipe.write_text, (text,))
    held = os.open(pipe, os.O_RDWR)  # as a shell holds the pipe of <(command)
    try:
        writer.start()
        closing = threading.Timer(0.6, os.close, (held,))
        closing.start()
        read(pipe)
    finally:
        writer.join()
        closing.join()


@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" * 200_000) + " = 1",
        " . ".join(['"a"'] * 100_000) + " = 1",
        f"[{'.'.join('a' * 100_000)}]",
        "x = " + "[" * 100_000,
        "x = " + "{a = " * 10_000,
        f"x = 0x{'f' * 1_000_000}",
        "[axes]\nn_gpus = {arange = [1, 1e300, 1e-300]}",
        "[axes]\nn_gpus = {arange = [1e308, -1e308, 1e-308]}",
        f"x = '{'x' * 1_000_000}'",
        "x = 1." + "9" * 1_000_000,
        "x" + " " * 1_000_000,
    ],
    ids=lambda text: text[:12],
)
def test_specs_that_take_a_parser_long_are_refused_at_once(text: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    for head in ("", 'outputs = ["goodput"]\n'):
        path.write_text(head + text, encoding="utf-8")
        with pytest.raises(InputError) as refused:
            Sweep.from_file(path)
        assert "\n" not in str(refused.value)


def test_errors_do_not_steer_the_terminal() -> None:
    for error in (InputError, CatalogError):
        assert (
            str(error("a\x1b[2J\x07\ud800\u202e b\nc, µs"))
            == "a\ufffd[2J\ufffd\ufffd\ufffd b c, µs"
        )


def test_keys_and_numbers_of_a_usual_kind_are_read() -> None:
    text = "a.b.'c'.\"d\" = 1\nx = [" + "1.5, " * 200 + "]\ny = 0xff"
    assert parse_toml(text)["a"]["b"]["c"]["d"] == 1


def test_an_endless_spec_is_refused() -> None:
    with pytest.raises(InputError, match="more than 16,777,216 bytes"):
        read_spec("/dev/zero")


@FUZZ
@given(
    st.dictionaries(NAMES | TEXT, VALUES, max_size=3),
    st.dictionaries(NAMES | TEXT, VALUES, max_size=2),
    st.sampled_from([["goodput"], ["job_time", "x"], [], "goodput", [3], [None]]),
)
def test_scenarios_and_axes(scenario: Any, axes: Any, outputs: Any) -> None:
    answered(lambda: Sweep(scenario, axes, outputs)._plan("numpy"))


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> xarray.Dataset:
    path = tmp_path_factory.mktemp("fuzz") / "spec.toml"
    path.write_text(SPEC, encoding="utf-8")
    return Sweep.from_file(path).evaluate(settings=Settings("numpy"))


AXIS = st.sampled_from(["n_gpus", "gpu_mttf", "fabric", "zero_stage", "layout", "sample"])


@FUZZ
@given(st.lists(TEXT | st.builds("{}={}".format, AXIS, TEXT), max_size=3))
def test_selectors(cube: xarray.Dataset, selectors: list[str]) -> None:
    answered(lambda: select(cube, selectors))
    answered(
        lambda: narrow(
            {"scenario": {}, "axes": {"n_gpus": [8, 16], "zero_stage": [0, 1]}}, selectors
        )
    )


@FUZZ
@given(st.dictionaries(AXIS | TEXT, VALUES, max_size=3))
def test_lookups(cube: xarray.Dataset, at: Any) -> None:
    answered(lambda: fleetcube.interp(cube[["goodput"]], at))


@FUZZ
@given(TEXT | st.builds("goodput {} {}".format, st.sampled_from(["<=", "=", ">"]), TEXT))
def test_targets(text: str) -> None:
    answered(lambda: read_target(PHYSICS, text))
