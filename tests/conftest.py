"""Shared by all tests: compiled kernels are cached in a folder of the session."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLEETCUBE_CACHE", str(tmp_path_factory.mktemp("fleetcube-cache")))
        yield
