"""Every law agrees with what was derived, played or published without it."""

import importlib
import pkgutil
from pathlib import Path

import pytest

from .check import CHECKS, Check

for _module in pkgutil.iter_modules([str(Path(__file__).parent)]):
    if not _module.name.startswith("test_"):
        importlib.import_module(f"{__package__}.{_module.name}")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.pairs.__qualname__)
def test_law_agrees_with_its_check(check: Check) -> None:
    assert check.largest_difference() <= check.tolerance
