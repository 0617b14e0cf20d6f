"""Every benchmark runs, at a size too small to measure, and gives the promised rows."""

import importlib
import importlib.util
import json
import mmap
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetcube import Settings

ROOT = Path(__file__).parents[2]
TINY = (3, 2, 4, 3, 2)
SHORT = ("cluster_mtbf",)  # a chain that compiles at once


@pytest.fixture(scope="module")
def load() -> Iterator[Any]:
    """Import a module of the benchmarks from the root, as they are not installed."""
    folder = ROOT / "benchmarks"
    spec = importlib.util.spec_from_file_location(
        "benchmarks", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    with pytest.MonkeyPatch.context() as patch:
        package = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "benchmarks", package)
        spec.loader.exec_module(package)
        yield lambda name: importlib.import_module(f"benchmarks.{name}")
    for name in [name for name in sys.modules if name.startswith("benchmarks.")]:
        del sys.modules[name]


def check(rows: Any, columns: Any, *optional: str) -> None:
    """Rows have a value under every heading, and positive numbers."""
    assert rows
    for row in rows:
        assert set(columns) <= set(row)
        for key in columns:
            if key not in optional:
                assert row[key] is not None, key
            if isinstance(row[key], float):
                assert row[key] > 0, key


@pytest.fixture
def short(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is asked for a short chain."""
    monkeypatch.setattr(load("question"), "OUTPUTS", SHORT)


@pytest.mark.usefixtures("short")
def test_speed(load: Any) -> None:
    speed = load("speed")
    rows = speed.compare("tiny", TINY, "float32", tries=2, rounds=2)
    check(rows, speed.COLUMNS)
    assert [(row["order"], row["arrays"]) for row in rows] == [
        ("best", "fresh"),
        ("best", "reused"),
        ("worst", "fresh"),
        ("worst", "reused"),
    ]
    assert all(row["met"] == (row["ratio"] >= row["target"]) for row in rows)
    assert "tiny" in speed.table(rows).text()


def test_peers_in_this_process_give_the_same_numbers(
    load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers, contenders, question = load("peers"), load("peers.contenders"), load("question")
    with monkeypatch.context() as patch:
        patch.setattr(question, "PEER_OUTPUTS", SHORT)
        rows = peers.compare((2, 3), (3, 2), rounds=1)
    check(rows, peers.COLUMNS, "target", "met")
    assert rows[0]["tool"] == "fleetcube"
    assert rows[0]["slower"] == 1
    sweep = question.fleet(2, 3)
    ours = sweep.evaluate(settings=Settings("numpy"))
    labelled = contenders.broadcast_xarray(sweep)()
    dense = contenders.dense_numpy(sweep)()
    order = tuple(sweep._plan("numpy").sizes)
    for name in question.PEER_OUTPUTS:
        assert set(labelled[name].dims) == set(ours[name].dims)
        exact = ours[name].broadcast_like(ours["job_time"]).transpose(*order).values
        assert dense[name].shape == exact.shape
        assert abs(dense[name] / exact - 1).max() < 1e-13
        assert abs(labelled[name] / ours[name] - 1).max() < 1e-13


@pytest.mark.skipif(
    shutil.which("cc") is None or platform.machine() not in ("x86_64", "AMD64"),
    reason="needs a compiler for AVX2",
)
def test_c_written_by_hand_gives_the_same_bits(load: Any) -> None:
    by_hand = load("by_hand")
    rows = by_hand.compare((512, 10), rounds=1)  # which compares them
    check(rows, by_hand.COLUMNS)
    assert len(rows) == 12
    with pytest.raises(RuntimeError, match="written for axes"):
        load("peers.by_hand").program(load("question").fleet(3, 2), "float64", 1)


def test_a_peer_that_cannot_be_made_is_skipped(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    peers = load("peers")

    def fail(*_: object) -> None:
        raise RuntimeError("no network")

    monkeypatch.setattr(peers.environments, "ready", fail)
    row = peers.compare_peer("mlsysim", load("question").fleet(2, 2), 10)
    assert row["tool"] == "mlsysim: skipped, no network"
    table = peers.Table("t", peers.COLUMNS, [row])
    assert "skipped, no network" in table.markdown()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromedriver") is None, reason="there is no chromedriver")
def test_plan_page(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_page = load("plan_page")
    monkeypatch.delenv(plan_page.AXE, raising=False)
    rows = {row["what"]: row for row in plan_page.run(quick=True).rows}
    assert rows["size of the file, kB"]["met"]
    assert rows["other than printed, of 3 positions"]["met"]
    assert {f"clicks: {task}" for task in plan_page.TASKS} <= rows.keys()
    assert plan_page._agree([6006000.0], "job_time [d] (90 %)\n  69.51 (56 to 86)\n")
    assert not plan_page._agree([6007000.0], "job_time [d] (90 %)\n  69.51 (56 to 86)\n")


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_startup(load: Any, tmp_path: Path) -> None:
    startup = load("startup")
    spec = tmp_path / "small.toml"
    spec.write_text('outputs = ["cluster_mtbf"]\n[axes]\nn_gpus = [8, 16]\n')
    rows = [startup.imports(1), startup.shell(1, spec), *startup.compiling(TINY, rounds=1)]
    for row in rows:
        assert set(startup.COLUMNS) <= set(row)
        assert isinstance(row["met"], bool)
    assert not set(rows[0]["loaded"]) & set(startup.LATE)
    assert rows[1]["detail"].startswith("2 points")


def test_kernels_are_compiled_in_an_empty_folder_and_read_from_it_after(
    load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    startup, folders = load("startup"), []

    def python(*_: str, **environment: str) -> str:
        folders.append(Path(environment["FLEETCUBE_CACHE"]))
        files = len(list(folders[-1].iterdir()))
        (folders[-1] / "kernel").touch()
        return str(2.0 - files)  # seconds: 2 in an empty folder, 1 where a kernel is

    monkeypatch.setattr(startup, "python", python)
    cold, cached = startup.compiling(TINY, rounds=3)
    assert (cold["seconds"], cached["seconds"]) == (2, 1)
    assert len(set(folders)) == 3


def test_what_is_measured_is_printed_as_it_begins(
    load: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also by processes whose standard error is captured."""
    main, measure, tables = load("__main__"), load("measure"), load("tables")

    def run(quick: bool) -> Any:
        measure.say("features: one output")
        say = "from benchmarks.measure import python, say; say('features: a file')"
        measure.python("-c", f'{say}; python("-c", """{say}""")')
        with pytest.raises(RuntimeError, match=r"^ValueError: no$"):
            measure.python("-c", f"{say}; raise ValueError('no')")
        return tables.Table("Title", {}, [])

    monkeypatch.setitem(main.BENCHMARKS, "features", run)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "features"])
    assert main.main() == 0
    out, err = capfd.readouterr()
    assert out.strip() == "Title"
    first, *said, last = err.splitlines()
    assert first == "features"
    assert said == ["features: one output", *["features: a file"] * 3]
    assert re.fullmatch(r"features: took \d+ s", last)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reduce", "store"])
def test_memory(load: Any, how: str) -> None:
    memory = load("memory")
    row = memory.measure(how, TINY)
    check([row], memory.COLUMNS, "disk_gb")
    assert row["points"] == 144
    assert 0.02 < row["peak_gb"] < 2
    assert (row["disk_gb"] is not None) == (how == "store")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["sweeps", "numba", "jax"])
def test_kept(load: Any, how: str) -> None:
    kept = load("kept")
    row = kept.measure(how, 4)
    check([row], kept.COLUMNS)
    assert row["compiled"] >= 4


def test_simulate(load: Any) -> None:
    simulate = load("simulate")
    check([simulate.measure(what, 2, 1, 1, trials=20) for what in simulate.CASES], simulate.COLUMNS)


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_gpu(load: Any) -> None:
    jax = pytest.importorskip("jax")
    gpu = load("gpu")
    check(gpu.compare(TINY, jax.devices("cpu")[0], rounds=1), gpu.COLUMNS, "of_peak", "launches")
    try:
        jax.devices("gpu")
    except RuntimeError:
        assert gpu.run(quick=True).notes[0].startswith("Skipped: ")
    named = {"NVIDIA H100 80GB HBM3": 3.35e12, "NVIDIA H200": 4.8e12, "NVIDIA A10G": 6e11}
    assert {kind: gpu.peak(kind) for kind in named} == named  # of their datasheets
    assert gpu.peak("cpu") is None


def test_repeated(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    repeated, question = load("repeated"), load("question")
    monkeypatch.setattr(question, "PEER_OUTPUTS", SHORT)
    rows = [repeated.compare(2, mttf, rounds=2) for mttf in (2, 3)]
    check(rows, repeated.COLUMNS)
    repeated.draw(rows, tmp_path / "rates.png")
    assert (tmp_path / "rates.png").stat().st_size > 10_000


class Clock:
    """A release whose answers take the seconds that are given, over and over."""

    def __init__(self, *seconds: float | str) -> None:
        self.seconds_of, self.asked = seconds, 0

    def seconds(self, _: object) -> float | str:
        self.asked += 1
        return self.seconds_of[self.asked % len(self.seconds_of)]


@pytest.mark.parametrize(
    ("before", "now", "met"),
    [
        ((1.0,), (1.05,), True),
        ((1.0,), (1.2,), False),
        ((1.0,), (0.5,), True),
        ((1.0,), (3.0, 0.9, 2.0), True),  # slower in two thirds of the rounds: noise
        (("AttributeError",), (1.0,), None),
    ],
)
def test_what_became_a_tenth_slower_is_found(load: Any, before: Any, now: Any, met: Any) -> None:
    check = load("check")
    releases = Clock(*before), Clock(*now)
    row = check.compare("a question", releases, ("", ""))
    assert row["met"] is met
    assert set(check.COLUMNS) == set(row)
    assert releases[0].asked == {None: 1, False: 28}.get(met, releases[1].asked)


def test_a_question_that_fails_now_ends_the_check(load: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^a question: ValueError"):
        load("check").compare("a question", (Clock(1.0), Clock("ValueError")), ("", ""))


def test_questions_are_asked_of_a_release_in_its_own_files(load: Any) -> None:
    check = load("check")
    release = check.Release("test", ROOT)
    try:
        where = "import fleetcube; assert 'check/test/path' in fleetcube.__file__"
        assert release.seconds((where, "assert folder")) > 0
        assert release.seconds(("", "1 / 0")).startswith("ZeroDivisionError")
        assert release.seconds(check.QUESTIONS["200 calls of a function"]) > 0
        assert release.process(["-c", where]) > 0
        assert release.process(["-c", "1 / 0"]) == "ZeroDivisionError: division by zero"
    finally:
        release.close()


def test_without_a_release_nothing_is_compared(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check = load("check")
    monkeypatch.delenv("FLEETCUBE_RELEASE", raising=False)
    monkeypatch.setattr(check, "command", load("measure").command)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    table = check.run()
    assert table.rows == []
    assert not table.failed


def test_tables_go_between_the_markers_and_nowhere_else(load: Any, tmp_path: Path) -> None:
    tables, measure = load("tables"), load("measure")
    readme, results = tmp_path / "README.md", tmp_path / "results.json"
    assert not tables.has_markers(readme)
    readme.write_text(f"above\n{tables.BEGIN}\nold\n{tables.END}\nbelow\n")
    assert tables.has_markers(readme)
    rows = [{"a": 1234567.0, "b": True}, {"a": 0.12345, "b": None}]
    table = tables.Table("Title", {"a": "A", "b": "B"}, rows, ("A note.",))
    preamble = measure.preamble(measure.machine(), "python -m benchmarks", quick=True)
    for _ in range(2):
        tables.write(readme, preamble, [table])
    text = readme.read_text()
    assert text.startswith("above\n")
    assert text.endswith("\nbelow\n")
    assert "old" not in text
    assert text.count("| A | B |\n| --- | --- |\n| 1,230,000 | yes |\n| 0.123 | - |") == 1
    assert "medians of interleaved runs" in text
    for name in ("t", "u"):  # those not run again stay
        tables.write_json(results, measure.machine(), {name: table})
    held = json.loads(results.read_text())
    assert list(held) == ["t", "u"]
    assert held["t"]["rows"] == rows
    assert held["t"]["machine"]["cpu"]


def test_storing(load: Any) -> None:
    storage = load("storage")
    row = storage.compare_writing("tiny", storage.six_axes(3), "float32", rounds=2)
    check([row], storage.WRITE_COLUMNS)
    assert row["held_gb"] == pytest.approx(4e-9 * 3**6)
    with storage.workplace() as folder:
        path = storage.six_axes(3).to_zarr(folder / "six.zarr")
        assert sum(chunk.size for chunk in storage.stored_chunks(path)) == 3**6
        cube = storage.open_cube(path)["job_time"]
        rows = [storage.slice_times(cube, pair, 2) for pair in storage.pairs(cube)]
    assert len(rows) == 15
    check(rows, storage.SLICE_COLUMNS)
    assert not folder.exists()
    values = storage.np.random.default_rng(0).normal(size=(20, 30, 40))
    rows = [storage.chunk_times(values, codec, 0.05, 2) for codec in storage.CODECS]
    check(rows, storage.CHUNK_COLUMNS)
    assert rows[0]["smaller"] == pytest.approx(1, abs=0.1)


def test_best_layouts(load: Any) -> None:
    layouts = load("layouts")
    check(layouts.main(quick=True), layouts.COLUMNS)


def test_unknown_names_and_a_readme_without_markers_are_refused(
    load: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    main = load("__main__")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "sped"])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert stopped.value.code == 2
    assert "'sped' is not a benchmark" in capsys.readouterr().err
    monkeypatch.setattr(main, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--write"])
    assert main.main() == 2
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setattr(sys, "argv", ["benchmarks", "slices", "--write"])
    with pytest.raises(SystemExit):
        main.main()
    assert (
        "all tables of docs/benchmarks.md#cubes; add chunks, virtual, writing"
        in capsys.readouterr().err
    )


@pytest.mark.slow
def test_gradients(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = load("gradients")
    monkeypatch.setattr(gradients, "OUTPUT", *SHORT)
    for sweep in (gradients.factored(27), gradients.drawn(16)):
        rows = gradients.compare("tiny", sweep, rounds=1)
        assert {row["contender"] for row in rows} >= {"JAX's own reverse mode", "fleetcube, jax"}
        (differences,) = (row for row in rows if row["contender"] == "central differences")
        assert differences["error"] < 1e-6
    row = gradients.solving(27, "n_gpus", "job_time = 90 d", rounds=1)
    check([row], gradients.SOLVE_COLUMNS)
    assert row["residual"] <= 1e-9


def test_calculon_is_judged_line_by_line(load: Any) -> None:
    calculon, peer = load("calculon"), load("peers.calculon")
    cases = [peer.Case(peer.Point(chunks=k), {"x": 100.0}, {"x": 100.0 + k}) for k in (1, 2, 3)]
    chunks = peer.Difference("chunks", "neither", "why", lambda c: float(c.point.chunks))
    absent = peer.Difference("absent", "neither", "why", lambda c: 0.0)
    ours, theirs = (lambda c: c.ours["x"]), (lambda c: c.theirs["x"])
    row, *rest = calculon.judge(peer.Line("x", ours, theirs, (absent, chunks)), cases)
    assert not rest
    assert row["quantity"] == "x"
    assert (row["exact"], row["close"], row["unexplained"]) == (0, 1, 0)
    assert (row["median"], row["largest"]) == (1.02, 1.03)
    assert (row["difference"], row["points"]) == ("chunks", 3)
    assert row["share"] == pytest.approx(3 / 103)
    (row,) = calculon.judge(peer.Line("x", ours, theirs, (absent,)), cases)
    assert row["unexplained"] == 3
    (row,) = calculon.judge(peer.Line("x", ours, theirs, (chunks.times(lambda c: 0.5),)), cases)
    assert row["unexplained"] == 3


def test_calculon_is_asked_what_both_can_answer(load: Any) -> None:
    peer = load("peers.calculon")
    points = peer.draw(30)
    assert points == peer.draw(40)[:30]
    for point, ours in zip(points, peer.ours(points), strict=True):
        assert set(ours) == {*peer.STEP, *peer.LAYER}
        assert ours["infeasible_reason"] in (0, 12, 13)  # few micro-batches, or a group left over
        application, execution = point.theirs()
        assert application["num_blocks"] % (point.pipeline * point.chunks) == 0
        assert application["feedforward"] % point.tensor == 0
        assert not (execution["seq_par_ag_redo"] and execution["tensor_par_comm_type"] != "rs_ag")
        assert not (execution["optimizer_sharding"] and execution["data_par"] == 1)


def test_calculon_without_a_checkout(
    load: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calculon, peer, main = load("calculon"), load("peers.calculon"), load("__main__")

    def fail(*_: object) -> None:
        raise RuntimeError("no network")

    monkeypatch.delenv(calculon.CHECKOUT, raising=False)
    for run in (calculon.run, calculon.published):
        table = run(True)
        assert table.notes[0].startswith("Skipped: CALCULON")
        assert table.failed
    monkeypatch.setenv(calculon.CHECKOUT, "nowhere")
    monkeypatch.setattr(peer.environments, "ready", fail)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "calculon"])
    assert main.main() == 1
    assert "Skipped: no network" in capsys.readouterr().out


@pytest.mark.skipif("CALCULON" not in os.environ, reason="no checkout of calculon")
def test_calculon_differs_only_where_it_is_told(load: Any) -> None:
    calculon, peer = load("calculon"), load("peers.calculon")
    table = calculon.run(quick=True)
    assert sum("quantity" in row for row in table.rows) == len(peer.LINES)
    assert not table.failed, [row for row in table.rows if row.get("unexplained")]
    check(calculon.published(quick=True).rows, ("measured", "theirs", "ours"))


def test_what_a_call_on_threads_counts(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks, waits and touched pages of a call, as the model of 64 cores has them."""
    from fleetcube.grid.plan import memory
    from fleetcube.kernels.engines import job, numba

    threads, question = load("threads"), load("question")
    tasks, waits, pieces = [], [], []
    cut, wait = numba._tasks, job.wait
    monkeypatch.setattr(numba, "_tasks", lambda *a: tasks.append(cut(*a)) or tasks[-1])
    monkeypatch.setattr(job, "wait", lambda others: waits.append(len(others)) or wait(others))
    monkeypatch.setattr(memory, "madvise", lambda: lambda *ends: pieces.append(ends[:2]))
    sweep = question.full((8, 16, 16, 32, 32), outputs=["reliability_to_communication_ratio"])
    result = sweep.evaluate(settings=Settings("numba", threads=2))
    (size,) = (values.nbytes for values in result.data_vars.values())
    lengths = [stop - start for start, stop in pieces]
    assert lengths == pytest.approx([size / 2] * 2, abs=2 * mmap.PAGESIZE), "whole pages, by thread"
    assert max(map(len, tasks)) == 2 * threads.TASKS
    tasks.clear(), waits.clear()  # type: ignore[func-returns-value]
    sweep.evaluate(out=result, settings=Settings("numba", threads=2))
    assert len(waits) == len(tasks)  # one barrier at the end of each walk, and none in it
    assert all(others < 2 for others in waits)


def test_the_model_of_threads(load: Any) -> None:
    """Arithmetic by hand: 0.1 + 63 x 0.01 / 2 + 512 x 0.001 + the slower of two."""
    threads = load("threads")
    costs = threads.Costs(serial=0.1, start=0.01, lock=0.001, work=64.0, size=1e11)
    fast = threads.seconds(costs, 64, lambda _: 1e12)
    assert fast == (pytest.approx(0.1 + 0.315 + 0.512 + 1.0 * (1 + 1 / 16)), "arithmetic")
    assert threads.seconds(costs, 64, lambda _: 1e10)[1] == "memory"
    assert threads.seconds(costs, 1, lambda _: 1e12)[0] == pytest.approx(0.1 + 0.008 + 64)
    by = {pages: threads.two_sockets(1e10, pages)(64) for pages in threads.PLACES}
    assert by["the writer's"] == pytest.approx(64 * 1e10)  # less than two sockets give
    assert by["any thread's"] == pytest.approx(2 * 100e9 / 0.5)  # half crosses, both ways
    assert by["one thread's"] == pytest.approx(100e9 / 0.5)  # half crosses, one way
    fake = threads.rows("work", costs, {1: 64.0, 2: 32.0}, (1e10, 1e10))
    check(fake, threads.COLUMNS, "real", "error")


@pytest.mark.slow
def test_messages_of_a_run(load: Any) -> None:
    """Each run is four messages to the scheduler, a block more is bytes and no message."""
    cluster = load("cluster")
    told, first, more = cluster.traffic(20)
    each = [name for name, count in told.items() if count >= 20]
    assert len(each) == cluster.MESSAGES, told
    assert all(told[name] == 20 for name in each)
    assert 0 < more < first < 10_000


@pytest.mark.slow
def test_simulated_workers_are_lost_late_and_slow(load: Any) -> None:
    workers = load("workers")
    with workers.Simulation() as simulation:
        for line in ("pace 0.02", "join 10 1", "join 1 10"):
            simulation.order(line)
        for what in workers.WORK:  # which compare their results
            row = workers.disturbed(simulation, what, 10, 1, 0.02)
            assert row["blocks"] == 10 * workers.EACH
            assert row["messages"] < 40
            assert row["block_bytes"] < 6000


@pytest.mark.parametrize(
    ("work", "threads", "run", "seconds", "busy"),
    [
        ({}, 10, 0.0, 100.0, 0.0),
        ({}, 1, 0.5, 1000.5, 0.5),  # sent and received while the thread works, except the first
        ({}, 100, 0.1, 100.0, 1.0),  # client and scheduler have 100 s of work, workers 10
        ({"shared": 0.5}, 100, 0.0, 500.0, 0.0),
        ({"lost": 1e-2}, 1, 0.0, 1000 + 10 * 180.0, 0.0),  # ten losses of three minutes
    ],
)
def test_simulated_clusters_are_bound_by_what_is_slowest(
    load: Any, work: dict[str, float], threads: int, run: float, seconds: float, busy: float
) -> None:
    cluster = load("cluster")
    tasks = cluster.Work(tasks=1000, seconds=1.0, **work)
    outcomes = [cluster.simulate(tasks, threads, cluster.Costs(run, 0.0), k) for k in range(20)]
    found = sum(outcome.seconds for outcome in outcomes) / len(outcomes)
    assert found == pytest.approx(seconds, rel=0.1 if "lost" in work else 0.02)
    assert outcomes[0].busy == pytest.approx(busy, abs=0.02)
    assert outcomes[0].runs == 1000  # of a second each


def test_an_object_store_on_paper(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = load("cluster")
    monkeypatch.setattr(cluster, "chunk", lambda quick, most: (0.1, 2.0 * most))
    row = cluster.run_objects().rows[0]
    assert row["objects"] == 10**6
    assert [row[key] for key in ("terabytes", "seconds", "requests", "month")] == pytest.approx(
        [2.0, 363.64, 5.8, 46.0], rel=1e-4
    )


@pytest.mark.slow
def test_waits_of_the_shell_and_of_python(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = load("waits")
    few = {what: waits.COMMANDS[what] for what in (waits.NUMPY, "--help", "slice of a cube")}
    monkeypatch.setattr(waits, "COMMANDS", few)
    table = waits.run(quick=True)
    check(table.rows, waits.COLUMNS, "target", "met")
    assert [row["what"] for row in table.rows] == [*few]
    check(waits.run_calls(quick=True).rows, waits.CALL_COLUMNS)
