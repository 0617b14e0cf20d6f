"""docs/accuracy.md agrees with computation."""

import re

import pytest

from docs.make.accuracy import PAGE, PEERS, PICTURE, own, page, tables
from fleetcube.calibration.measurements import read_records
from fleetcube.calibration.predict import Compared
from fleetcube.calibration.row import LeftOut
from fleetcube.calibration.validate import Validation, accuracy


@pytest.mark.slow
def test_the_page_is_what_is_generated() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.make docs/accuracy.md`"
    assert PICTURE.exists()


@pytest.mark.slow
def test_every_record_is_on_the_page() -> None:
    found, (rows, left_out) = own(), read_records()
    assert sum(group.n for group in found.groups) == len(found.rows)
    assert len(found.rows) + len(found.left_out) == len(rows) + len(left_out)
    printed = page().partition("### Left out")[2]
    counts = re.findall(r"^\| \S+ \| (\d+) \|", printed, re.MULTILINE)
    assert sum(map(int, counts)) == len(found.left_out)


def test_a_table_stands_beside_the_dummy_and_the_peers() -> None:
    rows = [
        Compared(f"{k}", "korthikanti_table5", "step_time", *pair, 3.0, 6.0, 1.0, 1.0)
        for k, pair in enumerate([(4.0, 5.0), (2.0, 2.0), (8.0, 4.0)])
    ]
    left = (LeftOut("x", "opt", "no a|b"), LeftOut("y", "opt", "no a|b"))
    text = tables(
        Validation((accuracy(rows),), tuple(rows), left), [("korthikanti_table5", "arXiv")]
    )
    # errors 25 %, 0, -50 %; shares 1/4, 1/2, 1/8: dummy times 4, errors 0, 100 %, -50 %
    cells = ["korthikanti_table5", "3", "25.0 %", "25.0 %", "50.0 %", "-8.3 %", "0.500", "33%"]
    cells += ["50.0 %", "50.0 %", "calculon 3.65 %"]
    assert f"| {' | '.join(cells)} |" in text
    assert "| opt | 2 | no a\\|b |" in text
    assert "- calculon on korthikanti_table5: 3.65 %: 8 points" in text
    assert "- korthikanti_table5: arXiv" in text
    assert "SimuMax" not in text


def test_peers_name_their_source() -> None:
    for peer in PEERS:
        assert re.search(r"arXiv:\d{4}\.\d{5}|https://", peer.about), peer.tool
