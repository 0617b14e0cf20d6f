"""Shared by all tests: what they draw, and a folder of the session for compiled kernels."""

import os
from collections.abc import Iterator

import pytest

from . import draws, table

draws.load()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--only", default="", metavar="NAME", help="rows of tables named so, no others"
    )


def pytest_configure(config: pytest.Config) -> None:
    table.only = config.getoption("--only")


@pytest.fixture(scope="session", autouse=True)
def _kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        base = tmp_path_factory.getbasetemp()
        shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
        patch.setenv("FLEETCUBE_CACHE", str(shared / "fleetcube-cache"))
        yield
