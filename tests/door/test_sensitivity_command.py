"""`fleetcube sensitivity` and `fleetcube uncertainty`, as a user types them; their pages."""

import csv
import re
from pathlib import Path

import pytest

from fleetcube.kernels.declare import CHANGERS

from .command import fleetcube

ROOT = Path(__file__).parents[2]
SPEC = """
outputs = ["recovery_time", "cluster_mtbf", "dominant_overhead", "job_time"]
[scenario]
model = "llama-3-8b"
node = "dgx-h100"
fabric = "roce-100g"
tensor_parallel = 8
detection_time = {uniform = [60, 120]}
checkpoint_restore_time = "50 s"
gpu_mttf = {lognormal = ["50_000 h", 1.5]}
nic_mttf = inf
psu_mttf = inf
[axes]
n_gpus = [64, 512]
provision_time = ["100 s", "200 s", "300 s"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    return tmp_path


def test_levers_are_a_table_with_units_and_a_picture(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    words = ("sensitivity", "spec.toml", "--of", "recovery_time", "provision_time=300")
    done = fleetcube(*words, "--top", "2", "--tornado", "t.png", folder=folder)
    assert done.returncode == 0, done.stderr
    head, headings, first, second, *_, more, wrote = done.stdout.splitlines()
    # 90 (the median) + 30 + 300 + 50 + 30
    assert head == "recovery_time = 8.333 min at n_gpus = 512, provision_time = 5 min"
    assert headings.split()[:4] == ["input", "kind", "value", "elasticity"]
    cells = ["provision_time", "operations", "5", "min", "0.6", "7.833", "min", "8.833", "min"]
    assert first.split() == cells
    assert second.split()[:5] == ["detection_time", "operations", "1.5", "min", "0.18"]
    assert "more inputs" in more
    assert wrote == "wrote t.png"
    assert (folder / "t.png").exists()


def test_the_cube_the_map_and_files(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    words = ("dominant-inputs", "spec.toml", "--of", "recovery_time")
    done = fleetcube(*words, "--without", "detection_time", folder=folder)
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[1].split()
    assert first[:4] == ["provision_time", "operations", "100.0", "%"]
    known = [wait / (wait + 200) for wait in (100, 200, 300)]
    assert [float(cell) for cell in first[4:7]] == pytest.approx(known, abs=1e-3)
    picture = ("--map", "m.png", "-x", "n_gpus", "-y", "provision_time")
    done = fleetcube("dominant-inputs", "spec.toml", "--of", "job_time", *picture, folder=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "m.png").exists()
    done = fleetcube(*words, *picture, folder=folder)
    assert "no elasticity of recovery_time varies along n_gpus" in done.stderr
    done = fleetcube("sensitivity", *words[1:], "-o", "levers.csv", folder=folder)
    assert done.returncode == 0, done.stderr
    lines = (folder / "levers.csv").read_text(encoding="utf-8").splitlines()
    assert "elasticity" in lines[0]
    assert lines[1].startswith("provision_time,")


def test_sobol_in_a_file(folder: Path) -> None:
    pytest.importorskip("SALib")
    words = ("global-sensitivity", "spec.toml", "--of", "recovery_time", "-o", "-")
    settings = ("--method", "sobol", "--samples", "4000", "--range", "10%")
    done = fleetcube(*words, *settings, "provision_time=300", folder=folder)
    assert done.returncode == 0, done.stderr
    rows = {row["input"]: row for row in csv.DictReader(done.stdout.splitlines())}
    ends = {name: (float(row["low"]), float(row["high"])) for name, row in rows.items()}
    assert (ends["provision_time"], ends["detection_time"]) == ((270, 330), (60, 120))
    # widths of the ranges: detection, provision, drain, reinit and restore
    known = 60**2 / (60**2 + 60**2 + 6**2 + 6**2 + 10**2)
    assert float(rows["detection_time"]["first_order"]) == pytest.approx(known, abs=0.01)


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("sensitivity", ["--of", "goodputt"], "did you mean 'goodput'"),
        ("sensitivity", ["--of", "job_time", "--without", "n_gpu"], "did you mean 'n_gpus'"),
        (
            "dominant-inputs",
            ["--of", "job_time", "--map", "m.png", "-x", "n_gpus"],
            "with two axes",
        ),
        ("global-sensitivity", ["--of", "job_time", "--range", "20"], "give one such as 20%"),
        ("sensitivity", ["--of", "job_time", "--top", "0"], "shows nothing"),
        ("sensitivity", ["--of", "job_time", "n_gpus"], "write axis=value"),
        ("sensitivity", ["--of", "job_time", "-o", "x.txt"], "change its ending"),
    ],
)
def test_bad_requests_are_one_line_and_exit_2(
    command: str, words: list[str], said: str, folder: Path
) -> None:
    done = fleetcube(command, "spec.toml", *words, folder=folder)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_quantiles_are_a_table_and_flags_are_noted(folder: Path) -> None:
    done = fleetcube("uncertainty", "spec.toml", "-q", "0.5,0.9", folder=folder)
    assert done.returncode == 0, done.stderr
    noted = done.stderr.splitlines()
    assert noted[0] == "dominant_overhead left out: flags have no quantiles"
    lines = done.stdout.splitlines()
    at = lines.index("cluster_mtbf [h]")
    assert re.split(r"  +", lines[at + 1]) == [
        "n_gpus",
        "50 %",
        "90 %",
        "mean",
        "std. dev.",
    ]
    cells = lines[at + 2].split()
    assert cells[0] == "64"
    assert float(cells[1]) == pytest.approx(50_000 / 64, rel=1e-3)
    assert float(cells[2].replace(",", "")) == pytest.approx(50_000 / 64 * 1.5**1.2816, rel=5e-3)


def test_show_says_what_is_at_its_median(folder: Path) -> None:
    done = fleetcube("run", "spec.toml", "-o", "cube.zarr", folder=folder)
    assert "uncertain inputs at their medians: detection_time, gpu_mttf" in done.stdout


def test_what_a_plan_may_change_is_ranked_by_default(folder: Path) -> None:
    words = ("sensitivity", "spec.toml", "--of", "job_time", "n_gpus=512", "--top", "99")

    def ranked(*more: str) -> tuple[set[str], str]:
        done = fleetcube(*words, *more, folder=folder)
        assert done.returncode == 0, done.stderr
        return {line.split()[0] for line in done.stdout.splitlines()[2:] if line}, done.stdout

    names, told = ranked()
    everything, whole = ranked("--kind", "all")
    fixed = {"hidden_size", "layers", "gpus_per_node", "bytes_per_element", "gemm_half_depth"}
    assert {"gpu_mttf", "n_gpus", "checkpoint_restore_time", "global_batch_size"} <= names
    assert "training_tokens" in names  # of the model's label
    assert not fixed & names
    assert fixed <= everything
    count = int(re.findall(r"(\d+) inputs of .* not shown: --kind all$", told.strip())[0])
    assert len(everything - names) == count
    assert "not shown" not in whole
    named, _ = ranked("--without", "layout", "--without", "gpu_mttf")
    assert "provision_time" in named
    assert not {"n_gpus", "gpu_mttf"} & named
    assert "job_cost" not in told  # no price is stated
    done = fleetcube(*words, "--without", "layouts", folder=folder)
    assert "did you mean 'layout'" in done.stderr
    assert "layers" in ranked("--wrt", "layers")[0]


def test_levers_are_told_in_money_where_a_price_is_stated(folder: Path) -> None:
    words = ("sensitivity", "spec.toml", "--of", "job_time", "n_gpus=512", "gpu_hour_price=2")
    written = fleetcube(*words, "-o", "-", folder=folder).stdout
    rows = list(csv.DictReader(written.splitlines()))
    run = ("run", "spec.toml", "n_gpus=512", "gpu_hour_price=2", "provision_time=200", "-o", "-")
    mttf = next(row for row in rows if row["input"] == "gpu_mttf")
    moved = fleetcube(*run, f"gpu_mttf={mttf['value_above']}", "-v", "job_cost", folder=folder)
    (row,) = csv.DictReader(moved.stdout.splitlines())
    cost = next(float(text) for name, text in row.items() if name.startswith("job_cost"))
    assert cost == pytest.approx(float(mttf["job_cost_above [USD]"]))
    told = fleetcube(*words, "--top", "99", folder=folder).stdout
    assert "the same as changes; job_cost = " in told
    line = next(line for line in told.split("the same")[1].splitlines() if "gpu_mttf" in line)
    assert re.findall(r"[-+](?=\d)", line) == ["+", "-", "+", "-"]


@pytest.mark.parametrize("mttf", ["50000h", "1s"])
def test_no_move_to_what_cannot_run_or_from_what_never_ends_has_a_price(
    folder: Path, mttf: str
) -> None:
    job = ("model=llama-3-70b", "fabric=infiniband-ndr", "n_gpus=1024", "global_batch_size=2048")
    job = (*job, "pipeline_parallel=4", "gpu_hour_price=2", f"gpu_mttf={mttf}")
    told = fleetcube("sensitivity", "spec.toml", "--of", "step_time", *job, folder=folder).stdout
    assert "cannot run" in told
    assert not re.search(r"\b(nan|inf)\b", told)


def test_nothing_is_ranked_where_a_result_is_not_finite(folder: Path) -> None:
    """The first never ends, and the second cannot run."""
    words = ("sensitivity", "spec.toml", "--of", "job_time", "n_gpus=512")
    for change in ("gpu_mttf=1s", "pipeline_parallel=1000000000"):
        done = fleetcube(*words, change, folder=folder)
        assert re.fullmatch("fleetcube: job_time is not finite .*; change .*", done.stderr.strip())
        assert (done.returncode, done.stdout) == (2, "")
    done = fleetcube("dominant-inputs", *words[1:], change, folder=folder)
    assert done.stderr.startswith("fleetcube: no point is left; left out: 1 of 1")
    assert (done.returncode, done.stdout) == (2, "")


# Counts that come as nodes and networks are sold
BOUGHT = {"gpus_per_node", "nics_per_node", "cables_per_node", "series_psus_per_node"}
BOUGHT |= {"failure_domain_nodes", "gpus_per_switch", "gpus_per_domain"}


def test_what_is_measured_is_ranked_after_what_is_chosen(folder: Path) -> None:
    words = ("sensitivity", "spec.toml", "--of", "job_time", "provision_time=300", "n_gpus=512")
    done = fleetcube(*words, folder=folder)
    chosen, measured = done.stdout.split("measured, for nobody to choose:\n")
    assert "gemm_efficiency" in measured
    assert "gemm_efficiency" not in chosen
    for name in ("n_gpus", "training_tokens", "peak_flops_bf16"):
        assert f"\n{name} " in chosen
    assert "assumed, what moves the answer most first:" in done.stderr
    assert "node_pool open (default)" in done.stderr


def test_kinds_say_who_can_change_an_input(folder: Path) -> None:
    words = ("sensitivity", "spec.toml", "--of", "job_time", "n_gpus=512", "--top", "99")

    def ranked(*more: str) -> dict[str, str]:
        lines = fleetcube(*words, *more, folder=folder).stdout.splitlines()[2:]
        kinds = (*CHANGERS, "given")
        return {cells[0]: cells[1] for cells in map(str.split, lines) if cells[1] in kinds}

    whole = ranked("--kind", "all")
    assert {"hardware", "fabric", "operations", "software", "job", "model"} <= {*whole.values()}
    kept = {name for name, kind in whole.items() if kind not in ("model", "given")}
    sold = {name for name in kept if name in BOUGHT}
    decided = {"checkpoint_restore_time", "training_tokens"}  # which the spec states, or any answer
    assert ranked().keys() == (kept - sold) | decided
    some = ranked("--kind", "hardware,operations")
    assert some == {n: k for n, k in whole.items() if k in ("hardware", "operations")}
    assert (some["gpu_mttf"], some["provision_time"]) == ("hardware", "operations")
    left = ranked("--without", "software", "--without", "reliability", "--without", "n_gpus")
    assert {*left.values()} <= {"hardware", "fabric", "operations", "job", "given"}
    assert not {"gpu_mttf", "n_gpus", "tensor_parallel"} & left.keys()


def test_kinds_are_topics_of_inputs(folder: Path) -> None:
    words = ("sensitivity", "spec.toml", "--of", "job_time", "n_gpus=512", "--top", "99", "--kind")
    told = fleetcube(*words, "failures,checkpoints", folder=folder).stdout
    names = {line.split()[0] for line in told.splitlines()[2:] if line}
    assert {"gpu_mttf", "provision_time"} <= names
    assert not {"hidden_size", "n_gpus", "gemm_efficiency"} & names
    for kind, said in (("failure", "did you mean 'failures'"), ("serving", "no input of")):
        done = fleetcube(*words, kind, folder=folder)
        assert done.returncode == 2
        assert said in done.stderr


@pytest.mark.parametrize(
    "asked",
    [
        ("solve", "--for", "n_gpus", "--target", "job_time <= 60 d"),
        ("scaling-limit", "--search", "none"),
        ("sensitivity", "--of", "job_time"),
    ],
)
def test_a_launch_script_is_asked_as_a_spec_is(asked: tuple[str, ...]) -> None:
    command, *words = asked
    script = "examples/pretrain-llama-3-70b.sh"
    told = fleetcube(command, script, "node=dgx-h100", "gpu_mttf=50000h", *words)
    assert (told.returncode, "n_gpus" in told.stdout) == (0, True), told.stderr
