"""`fleetcube simulate` shows what its spec requests."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from fleetcube.cli import cli

SPEC = (
    'outputs = ["goodput"]\n[scenario]\nnode = "dgx-h100"\nmodel = "llama-3-70b"\nn_gpus = 1024\n'
)
SHARES = ["goodput", "checkpoint_overhead", "rework_overhead", "recovery_overhead"]
MAIN = [SHARES[0], "goodput_error", *SHARES[1:]]
OF_A_JOB = ["failures", "wall_time", "wall_time_p95"]


@pytest.mark.parametrize(
    ("more", "columns"),
    [
        ("", []),
        ('job_duration = "10 d"\n', OF_A_JOB),
        ("spare_nodes = 2\n", ["spare_shortage"]),
        ('node_pool = "closed"\n', ["whole_cluster_probability"]),
        ('[axes]\nplan = {spare_nodes = [2], job_duration = ["10 d"]}\n', None),
    ],
    ids=["neither", "a job", "spares", "a closed pool", "both in a bundle"],
)
def test_columns_are_of_what_the_spec_gives(
    tmp_path: Path, more: str, columns: list[str] | None
) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(SPEC + more, encoding="utf-8")
    told = (
        CliRunner()
        .invoke(cli, ["simulate", str(path), "--trials", "20"], catch_exceptions=False)
        .stdout
    )
    heading, row = (line.split("  ") for line in told.splitlines())
    names, cells = ([cell.strip() for cell in line if cell.strip()] for line in (heading, row))
    names = [name.split(" [")[0] for name in names]
    if columns is None:
        names, cells, columns = names[1:], cells[1:], [*OF_A_JOB, "spare_shortage"]
    assert names == [*MAIN, *columns, "outcome"]
    held = dict(zip(names, cells, strict=True))
    assert sum(float(held[name]) for name in SHARES) == pytest.approx(1, abs=1e-3)


def test_kinds_and_tiers_have_tables_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    more = 'fabric = "infiniband-ndr"\nin_process_share = 0.3\nmemory_tier_survival = 0.8\n'
    path.write_text(SPEC + 'checkpoint_mode = "tiered"\n' + more, encoding="utf-8")
    simulate = ["simulate", str(path), "--trials", "20"]
    told = CliRunner().invoke(cli, simulate, catch_exceptions=False).stdout
    _, kinds, tiers = told.split("\n\n")
    assert [line.split()[0] for line in kinds.splitlines()] == [
        *("kind", "in_process", "in_job", "node_swap", "requeue")
    ]
    assert [line.split()[0] for line in tiers.splitlines()] == [
        "tier",
        "memory",
        "drive",
        "storage",
    ]
    assert max(map(len, told.splitlines()[2:])) <= 80
    heading, *rows = (line.split() for line in kinds.splitlines())
    assert heading[1:] == [
        *("failures", "failures_error", "time_lost", "time_lost_error", "closed_form")
    ]
    assert float(rows[0][3]) == pytest.approx(float(rows[0][5]), abs=5 * float(rows[0][4]))
    asked = CliRunner().invoke(cli, [*simulate, "-v", "goodput"], catch_exceptions=False).stdout
    assert asked.splitlines()[0] == "goodput"
    assert len(asked.splitlines()) == 2


def test_a_layout_that_cannot_run_is_named() -> None:
    args = ["simulate", "examples/plan.toml", "--trials", "2"]
    done = CliRunner().invoke(cli, args, catch_exceptions=False)
    assert "1 of 1 cannot run (1 batch_smaller_than_data_parallel)" in done.stderr
    assert "fleetcube plan" in done.stderr
