"""Shared by all tests: random draws, tables of rows, and a folder for compiled kernels."""

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import draws, memory, table

draws.load()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--only", default="", metavar="NAME", help="rows of tables named so, no others"
    )


def pytest_configure(config: pytest.Config) -> None:
    table.only = config.getoption("--only")


def pytest_collectstart() -> None:
    gc.disable()  # until everything is imported


def pytest_collection_finish() -> None:
    # Cycles among millions of objects that stay took up to half the time of a test
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    yield
    memory.bound()


@pytest.fixture(scope="module", autouse=True)
def _released() -> Iterator[None]:
    """Release what JAX compiled for a module of tests: useless to others, gigabytes in total."""
    yield
    memory.release()


@pytest.fixture(scope="session", autouse=True)
def _kernel_cache() -> Iterator[None]:
    """Kernels are kept from one run of the tests to the next; `make clean` removes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)  # tables in pipes have no width
        patch.setenv("FLEETCUBE_CACHE", str(Path(__file__).parents[1] / "build" / "test-kernels"))
        yield


@pytest.fixture
def _sigint() -> Iterator[None]:
    """Children receive Ctrl-C even where the tests run in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
