"""Short forms of the attacks of `make attack` that no other test covers."""

import pytest

from docs.make.attacks import PAGE, page

from .attack import ATTACKS, attack


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flips", "fuzz"])
def test_nothing_is_wrong(name: str) -> None:
    tries, wrong, _ = attack(ATTACKS[name], quick=True)
    assert tries == ATTACKS[name].quick
    assert wrong == 0


def test_the_page_has_what_came_of_them() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.make docs/security.md`"
