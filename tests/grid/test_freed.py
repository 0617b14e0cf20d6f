"""Memory of freed results is used again, and never while anything still views it."""

import gc
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fleetcube import InputError, Settings, Sweep
from fleetcube.grid.plan import freed, memory
from fleetcube.grid.plan.freed import LINE, STEP, FreedMemory

SIZE = 1 << 20


def sweep(scale: float = 1.0) -> Sweep:
    axes = {
        "gpu_mttf": np.linspace(1e7, 2e7, 300) * scale,
        "n_gpus": np.arange(8, 8 * 401, 8),
    }
    return Sweep({"node": "dgx-h100"}, axes, ["cluster_mtbf"])


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    memory.freed_memory.cache_clear()
    gc.freeze()  # collections of the tests look at what these made
    yield
    memory.freed_memory.cache_clear()


def address(array: Any) -> int:
    return int(array.ctypes.data)


def test_a_loop_that_drops_its_results_computes_into_the_same_memory() -> None:
    case = sweep()
    seen = set()
    for _ in range(5):
        seen.add(address(case.evaluate(settings=Settings("numpy")).cluster_mtbf.data))
        gc.collect()
    assert len(seen) == 1


VIEWS = {
    "slice": lambda a: a[3:-3:2],
    "transposed": lambda a: a.T,
    "reshaped": lambda a: a.reshape(-1),
    "bytes": lambda a: a.view(np.uint8),
    "one element": lambda a: a[1:2, 1:2],
    "broadcast": lambda a: np.broadcast_to(a, (2, *a.shape)),
    "memoryview": memoryview,
    "frombuffer": lambda a: np.frombuffer(memoryview(a.reshape(-1)), np.float64),
    "subclass": lambda a: a.view(np.recarray),
    "interface": lambda a: np.asarray(Interface(a)),
    "strides": lambda a: np.lib.stride_tricks.as_strided(a, (2, 2), a.strides),
    "iterator": lambda a: np.nditer(a),
    "flat": lambda a: a.flat,
    "frame": lambda a: pandas().DataFrame(a, copy=False),
    "variable": lambda a: xarray().Variable(("x", "y"), a)[1:],
}


class Interface:
    """What another library makes of an array: its address, and a reference."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


def pandas() -> Any:
    return pytest.importorskip("pandas")


def xarray() -> Any:
    return pytest.importorskip("xarray")


@pytest.mark.parametrize("view", VIEWS)
def test_whatever_views_a_result_keeps_its_memory(view: str) -> None:
    array = memory.allocate((64, SIZE // 64), np.float64, 1)
    array[...] = 7.0
    place = address(array)
    held = VIEWS[view](array)
    del array
    gc.collect()
    others = [memory.allocate((64, SIZE // 64), np.float64, 1) for _ in range(3)]
    assert place not in map(address, others)
    for other in others:
        other[...] = 3.0
    if view == "bytes":
        held = held.view(np.float64)
    values = [float(value) for value in held] if view == "iterator" else np.asarray(held)
    assert (np.asarray(values) == 7.0).all()
    del held, values
    gc.collect()
    assert address(memory.allocate((64, SIZE // 64), np.float64, 1)) == place


def test_results_that_are_held_keep_their_numbers() -> None:
    rng = random.Random(1)
    held: list[tuple[Any, Any]] = []
    for _ in range(200):
        result = sweep(rng.uniform(1, 2)).evaluate(settings=Settings("numpy")).cluster_mtbf
        view = rng.choice((result, result[2:5], result.T, result.isel(n_gpus=3)))
        held.append((view, view.to_numpy().copy()))
        del result, view
        if len(held) > 5:
            held.pop(rng.randrange(len(held)))
        for kept, values in held:
            np.testing.assert_array_equal(kept.to_numpy(), values)


def test_pickled_results_are_apart() -> None:
    result = sweep().evaluate(settings=Settings("numpy"))
    copy = pickle.loads(pickle.dumps(result))
    values = result.cluster_mtbf.to_numpy().copy()
    del result
    sweep(3.0).evaluate(settings=Settings("numpy"))
    np.testing.assert_array_equal(copy.cluster_mtbf.to_numpy(), values)


def test_threads_never_share_memory() -> None:
    pool, errors = FreedMemory(32 * SIZE), []

    def work(number: int) -> None:
        rng = random.Random(number)
        held = []
        for turn in range(300):
            array = pool.array(rng.choice((SIZE, SIZE, 2 * SIZE)))
            array[...] = number
            held.append((array, turn))
            if len(held) > rng.randrange(4):
                held.pop(rng.randrange(len(held)))
            if not all((array[:: 1 << 16] == number).all() for array, _ in held):
                errors.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert pool.nbytes <= pool.most


def test_memory_freed_by_a_collection_waits_for_nothing() -> None:
    """Cycles are freed wherever an allocation starts a collection, also within the pool."""
    pool = FreedMemory(64 * SIZE)
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(300):
            cycle: list[Any] = [pool.array(SIZE)]
            cycle.append(cycle)
    finally:
        gc.set_threshold(*threshold)


def test_an_exception_frees_what_its_frames_held() -> None:
    pool = FreedMemory(64 * SIZE)

    def fail() -> None:
        array = pool.array(SIZE)
        raise ValueError(array.size)

    for _ in range(5):
        with pytest.raises(ValueError, match=str(SIZE)):
            fail()
        gc.collect()
        assert SIZE <= pool.nbytes < SIZE + 2 * STEP


def test_no_more_is_kept_than_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.REUSED, str(3 * SIZE))
    arrays = [memory.allocate((k * SIZE // 8,), np.float64, 1) for k in (1, 2, 1, 4)]
    arrays.clear()
    kept = memory.freed_memory()
    assert 0 < kept.nbytes <= 3 * SIZE
    latest = memory.allocate((SIZE // 8,), np.float64, 1)
    latest = memory.allocate((2 * SIZE // 8,), np.float64, 1)
    del latest
    assert 0 < kept.nbytes <= 3 * SIZE


def test_nothing_is_kept_where_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.REUSED, "0")
    memory.allocate((SIZE,), np.float64, 1)
    assert memory.freed_memory().nbytes == 0


@pytest.mark.parametrize("text", ["", "much", "-1", "nan"])
def test_a_setting_that_is_no_number_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.REUSED, text)
    with pytest.raises(InputError, match=f"{memory.REUSED} = '{text}' is no number of bytes"):
        memory.allocate((SIZE,), np.float64, 1)


def test_kept_memory_goes_before_a_result_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    memory.allocate((SIZE,), np.float64, 1)
    kept = memory.freed_memory()
    assert kept.nbytes > 0
    monkeypatch.setattr(memory, "available", lambda: 1e9 - kept.nbytes)
    memory.check(0.9 * 1e9)
    assert kept.nbytes == 0


def test_arrays_start_on_a_line_of_the_cache() -> None:
    for size in (0, 1, 63, 64, STEP - 1, STEP, STEP + 1, SIZE):
        for _ in range(3):
            array = memory.allocate((size,), np.uint8, 1)
            assert address(array) % LINE == 0 or not size
            assert array.size == size
            array[...] = 1


def test_pages_that_the_system_took_are_written_anew() -> None:
    """MADV_FREE lets the system zero pages; an advice that drops them at once stands in for it."""
    advise = freed.madvise()
    if advise is None:
        pytest.skip("the system takes no advice on memory")
    array = memory.allocate((memory.WORTH // 8 + 5,), np.float64, 2)
    array[...] = 1.0
    place, size = address(array), array.nbytes
    del array
    page = freed.PAGE
    advise(-(-place // page) * page, (place + size) // page * page, 4)  # MADV_DONTNEED
    again = memory.allocate((memory.WORTH // 8 + 5,), np.float64, 2)
    assert address(again) == place
    again[...] = 2.0
    assert (again == 2.0).all()


def _child(connection: Any) -> None:
    connection.send(memory.freed_memory().nbytes)
    array = memory.allocate((SIZE,), np.float64, 1)
    array[...] = 5.0
    del array
    connection.send(memory.freed_memory().nbytes > 0)
    connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_forked_child_keeps_nothing_from_before() -> None:
    array = memory.allocate((SIZE,), np.float64, 1)
    array[...] = 1.0
    held = memory.allocate((SIZE,), np.float64, 1)
    held[...] = 2.0
    del array
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender,))
    process.start()
    assert receiver.recv() == 0
    assert receiver.recv()
    process.join()
    assert process.exitcode == 0
    assert memory.freed_memory().nbytes > 0
    assert (held == 2.0).all()


def test_nothing_is_printed_at_the_end_of_a_process() -> None:
    code = (
        "import numpy as np, fleetcube; from fleetcube.grid.plan import memory\n"
        "a = memory.allocate((1 << 20,), np.float64, 1)\n"
        "b = memory.allocate((1 << 20,), np.float64, 1)\n"
        "cycle = [b]; cycle.append(cycle); del b\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert process.stdout + process.stderr == b""
