"""The attacks of `make attack` that no other test makes, in their short form."""

import pytest

from .attack import ATTACKS, attack


@pytest.mark.parametrize("name", ["flips", "fuzz"])
def test_nothing_is_wrong(name: str) -> None:
    tries, wrong, _ = attack(ATTACKS[name], quick=True)
    assert tries == ATTACKS[name].quick
    assert wrong == 0
