"""Tables on terminals: no number is broken, and fitting text is not cut."""

import math
import os
import subprocess
import sys

import pytest

from fleetcube.tables.tables import estimate

from .terminal import sent

HEADS = ["n_gpus", "job_time [d]", "electricity_cost [M USD]", "facility_power [MW]"]
HEADS += ["carbon_emissions [t]", "memory_per_gpu [GB]", "feasible"]
ROW = ["1,024", "325.6", "20.00", "1.567", "4,897", "61.25", "no: out_of_memory"]
OTHER = ["8,192", "181.9", "89.42", "12.53", "21,891", "48.02", "yes"]


def printed(heads: list[str], rows: list[list[str]], width: int) -> list[str]:
    code = f"from fleetcube.commands.shared.table import print_table; print_table({heads}, {rows})"
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-c", code]
    status, told = sent(command, width, env=environment)
    assert status == 0
    return told.splitlines()


def test_a_pipe_has_no_width_but_that_of_columns() -> None:
    heads, rows = [*HEADS, "checkpoint_overhead"], [[*ROW, "0.01235"], [*OTHER, "0.1034"]]
    code = f"from fleetcube.commands.shared.table import print_table; print_table({heads}, {rows})"
    for columns, most in (("80", 80), ("60", 60), ("", 200), ("wide", 200)):
        own = {**os.environ, "COLUMNS": columns}
        told = subprocess.run([sys.executable, "-c", code], env=own, capture_output=True, text=True)
        lines = told.stdout.splitlines()
        assert max(map(len, lines)) <= most, columns
        assert (len(lines) == 3) == (most == 200), "a row is a line"


def words(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


def test_a_wide_terminal_has_one_line_for_a_row() -> None:
    lines = printed(HEADS, [ROW, OTHER], 200)
    assert words(lines) == [" ".join(row).split() for row in (HEADS, ROW, OTHER)]
    assert lines[1].index("325.6") + 5 == lines[0].index("job_time [d]") + 12  # to the right


def test_headings_break_at_underscores_only() -> None:
    lines = printed(HEADS, [ROW, OTHER], 95)
    assert max(map(len, lines)) <= 95
    assert words(lines[-2:]) == [" ".join(row).split() for row in (ROW, OTHER)]
    parts = {part for line in lines[:-2] for part in line.split()}
    assert {"carbon_", "emissions"} <= parts
    assert all(part in " ".join(HEADS) for part in parts)


@pytest.mark.parametrize("width", [60, 80])
def test_a_table_that_does_not_fit_is_turned(width: int) -> None:
    heads = [*HEADS, "checkpoint_overhead", "reliability_overhead", "communication_overhead"]
    rows = [[*row, "0.01235", "0.1034", "0.3017"] for row in (ROW, OTHER)]
    lines = printed(heads, rows, width)
    assert max(map(len, lines)) <= width
    assert words(lines)[0] == ["n_gpus", "1,024", "8,192"]
    for heading, *cells in zip(heads, *rows, strict=True):
        line = next(line for line in lines if line.startswith(heading))
        assert line.removeprefix(heading).split() == " ".join(cells).split()


def test_what_fits_in_no_way_comes_in_blocks() -> None:
    """Each block has the columns that tell rows apart; a column of one value is a line."""
    rows = [[str(k // 5), str(k % 5), *(str(1000 * k + n) for n in range(18))] for k in range(20)]
    heads = ["a", "b", *(f"n{k}" for k in range(18))]
    alike = [[*row[:9], "one value", *row[10:]] for row in rows]
    lines = printed(heads, alike, 80)
    assert max(map(len, lines)) <= 80
    told, *blocks = "\n".join(lines).split("\n\n")
    assert told == "n7: one value"
    found: list[list[str]] = [[] for _ in range(21)]
    for block in blocks:
        split = [line.split() for line in block.splitlines()]
        assert [row[:2] for row in split[1:]] == [row[:2] for row in rows]
        for own, row in zip(found, split, strict=True):
            own += row[2:]
    assert found == [[*row[2:9], *row[10:]] for row in (heads, *rows)]


@pytest.mark.parametrize("width", [40, 60])
def test_a_word_is_broken_once_and_a_short_one_never(width: int) -> None:
    rows = [["exposed_tensor_parallel_time", "always_above", *(["12.345"] * 2)] for _ in range(9)]
    rows = [[f"{row[0]}_{k}", *row[1:3], str(k)] for k, row in enumerate(rows)]
    lines = printed(["term", "unsolved_reason", "A", "B"], rows, width)
    assert max(map(len, lines)) <= width
    assert all(line.strip() for line in lines if line not in ("", lines[1]))
    text = "\n".join(lines)
    assert "above" not in text.replace("always_above", "")
    assert "exposed_\n" not in text


# Half of the width to two digits, by hand; 0.07 has no third decimal, as 0.95 has none
@pytest.mark.parametrize(
    ("shown", "low", "high", "told"),
    [
        ("75.48", 61.78, 92.20, "75.48 (62 to 92)"),
        ("69.4", 57.4, 81.4, "69.4 +- 12"),
        ("0.95", 0.88, 1.02, "0.95 +- 0.07"),
        ("50", 49.7, 50.4, "50 (49.7 to 50.4)"),
        ("29,739,823", 24343920.0, 36331744.0, "29,739,823 (24,300,000 to 36,300,000)"),
        ("3", 0.0, 7.0, "3 (0 to 7)"),
        ("0.5", -0.04, 2.0, "0.5 (0.0 to 2.0)"),
        ("1", 0.5, math.inf, "1 (0.5 to inf)"),
        ("3.4e-08", 2.2e-8, 4.7e-8, "3.4e-08 (2.2e-08 to 4.7e-08)"),
        ("0.9437", math.nan, math.nan, "0.9437"),
        ("0.9437", 0.9437, 0.9437, "0.9437"),
        ("0.9437", 0.94370, 0.943701, "0.9437"),
    ],
)
def test_an_interval_is_one_cell_with_its_number(
    shown: str, low: float, high: float, told: str
) -> None:
    assert estimate(shown, float(shown.replace(",", "")), low, high) == told


def test_prose_breaks_between_words() -> None:
    labels = ", ".join(f"label-{k}" for k in range(40))
    lines = printed(["kind", "labels"], [["gpu", labels], ["node", "one"]], 80)
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines[1:-1]).split()) == f"gpu {labels}"


def test_a_number_and_its_unit_stay_together() -> None:
    lines = printed(["input", "value"], [["gpu_mttf", "50,000 h"]], 14)  # 13 with a broken value
    assert any("50,000 h" in line for line in lines)


def test_a_cell_is_one_line_whatever_is_in_it() -> None:
    lines = printed(["group", "n"], [["my\ncluster\r\x0bof\u2028ours", "3"], ["other", "12"]], 80)
    assert words(lines) == [["group", "n"], ["my", "cluster", "of", "ours", "3"], ["other", "12"]]
