"""`fleetcube compare`: its tables, its JSON, and bad usage."""

import json
from pathlib import Path

import pytest

from fleetcube import Sweep
from fleetcube.cli import cli
from fleetcube.grid.errors import InputError

SPEC = """
outputs = ["recovery_time", "cluster_mtbf"]
[scenario]
detection_time = "90 s"
provision_time = "{provision} s"
checkpoint_restore_time = 50
{more}
[axes]
n_gpus = [512, 1024]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    a = SPEC.format(provision=300, more='node = "dgx-h100"')
    b = SPEC.format(provision=100, more='node = "dgx-b200"\nreinit_time = "1 min"')
    (tmp_path / "a.toml").write_text(a, encoding="utf-8")
    (tmp_path / "b.toml").write_text(b, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    cli.main(["compare", "a.toml", "b.toml", *arguments], standalone_mode=False)
    return capsys.readouterr().out


def test_the_tables_say_what_changes_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "n_gpus=512").splitlines()
    assert lines[0] == "A: a.toml at n_gpus = 512"
    rows = {line.split()[0]: line.split()[1:] for line in lines if line}
    # 90 + 30 + 300 + 50 + 30 s, and 90 + 30 + 100 + 50 + 60 s
    assert rows["recovery_time"] == ["8.333", "min", "5.5", "min", "0.66"]
    assert rows["provision_time"][:6] == ["5", "min", "1.667", "min", "0.6", "0.6226"]
    # after the other: (500 - 200 + 30) / (500 + 30); half of the orders each way
    assert rows["provision_time"][6] == "0.6112"
    assert rows["node"] == ["dgx-h100", "dgx-b200", "1", "1", "1"]


def test_equal_values_have_no_chance_and_rounding_is_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = """
    outputs = ["job_time"]
    [scenario]
    model = "llama-3-70b"
    node = "dgx-h100"
    fabric = "infiniband-ndr"
    n_gpus = 1024
    tensor_parallel = 8
    pipeline_parallel = 4
    """
    (tmp_path / "job.toml").write_text(spec, encoding="utf-8")
    words = ["compare", "job.toml", "gpu_mttf=50000h,30000h"]
    cli.main(words, standalone_mode=False)
    printed = capsys.readouterr().out
    (step,) = (line.split() for line in printed.splitlines() if line.startswith("step_time  "))
    assert step[-2:] == ["1", "-"]
    assert "e-1" not in printed


def test_json_holds_the_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capsys, "--over", "n_gpus", "--of", "cluster_mtbf", "--json"))
    assert found["of"] == "cluster_mtbf"
    assert found["values"]["coords"]["n_gpus"]["data"] == [512, 1024]
    assert {change["name"] for change in found["changes"]} >= {"node", "provision_time"}


BAD = [
    (["n_gpus"], "write axis=value"),
    (["n_gpu=512"], "did you mean 'n_gpus'"),
    (["n_gpus=512", "--of", "mfu"], "is missing"),
    (["--over", "gpu_mttf"], "is not an axis of both"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD)
def test_bad_usage_is_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=words) as error:
        told(capsys, *arguments)
    assert "\n" not in str(error.value)


def one_spec(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    cli.main(["compare", "a.toml", *arguments], standalone_mode=False)
    return capsys.readouterr().out.splitlines()


def test_a_spec_without_outputs_is_compared_by_job_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bare = tmp_path / "bare.toml"
    labels = 'model = "llama-3-8b"\nnode = "dgx-h100"\nfabric = "infiniband-ndr"\n'
    bare.write_text(f"[scenario]\n{labels}n_gpus = 64\n", encoding="utf-8")
    cli.main(["compare", str(bare), "tensor_parallel=4,8"], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert "what differs, and the factor on job_time" in lines
    cli.main(["compare", str(bare), str(bare), "--of", "mfu"], standalone_mode=False)
    assert "mfu" in capsys.readouterr().out
    with pytest.raises(InputError, match="names no outputs; add to its top: outputs ="):
        cli.main(["run", str(bare)], standalone_mode=False)


def test_one_spec_is_compared_under_two_values(capsys: pytest.CaptureFixture[str]) -> None:
    lines = one_spec(capsys, "provision_time=300,100", "n_gpus=512")
    assert lines[0] == "A: a.toml provision_time=300 at n_gpus = 512"
    rows = {line.split()[0]: line.split()[1:] for line in lines if line}
    # 90 + 30 + 300 + 50 + 30 s, and 200 s less
    assert rows["recovery_time"] == ["8.333", "min", "5", "min", "0.6"]
    lines = one_spec(capsys, "node=dgx-h100,dgx-b200", "provision_time=100")
    assert lines[1].startswith("B: a.toml node=dgx-b200 at n_gpus = ")
    for wrong in (["n_gpus=512"], [], ["provision_time=1,2,3"], ["n_gpus=512,1024", "node=a,b"]):
        with pytest.raises(InputError):
            one_spec(capsys, *wrong)


def test_a_label_or_number_with_a_comma_is_one_value(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    axis = '[axes.pool]\nlabels = ["4,096", "4", "096"]\nprovision_time = [300, 100, 200]'
    spec = tmp_path / "pool.toml"
    spec.write_text(SPEC.format(provision=1, more="").replace("[axes]", axis + "\n[axes]"), "utf-8")
    for one in ("pool=4,096", "gpu_mttf=50,000 h"):
        with pytest.raises(InputError, match="two values of each name that differs"):
            one_spec_of(capsys, spec, one)
    rows = one_spec_of(capsys, spec, 'pool="4,096",4', "n_gpus=512").splitlines()
    assert "pool.toml pool=4,096 at n_gpus = 512 B:" in " ".join(" ".join(rows).split())
    # 90 + 30 + 300 + 50 + 30 s, and 200 s less
    assert any(row.split()[:5] == ["recovery_time", "8.333", "min", "5", "min"] for row in rows)


def test_a_layout_of_both_sides_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    line = "both run in TP8 PP4, which may be the best of neither: fleetcube plan compares each"
    for change, is_named in (("n_gpus=512,1024", 1), ("gpu_mttf=10000h,50000h", 0)):
        cli.main(["compare", "example:h100", change], standalone_mode=False)
        assert (line in " ".join(capsys.readouterr().err.split())) == is_named
    cli.main(["compare", "example:h100", "pipeline_parallel=2,4"], standalone_mode=False)
    assert "may be the best" not in capsys.readouterr().err


def test_sides_without_a_layout_are_planned_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = {"model": "llama-3-70b", "fabric": "infiniband-ndr", "n_gpus": 512}
    text = "\n".join(f"{name} = {json.dumps(value)}" for name, value in job.items())
    spec = tmp_path / "open.toml"
    spec.write_text(f"[scenario]\n{text}\n", encoding="utf-8")
    cli.main(["compare", str(spec), "node=dgx-h100,dgx-b200"], standalone_mode=False)
    head = " ".join(capsys.readouterr().out.split()).split(" output ")[0]
    assert "infeasible" not in head
    found = Sweep(job, {"node": ["dgx-h100", "dgx-b200"]}).best(search="layout")
    for node in ("dgx-h100", "dgx-b200"):
        best = found["whole_layout"].sel(node=node).item()
        assert f"node={node} (the best layout: {best})" in head
    lines = one_spec_of(capsys, spec, "node=dgx-h100,dgx-b200", "tensor_parallel=8")
    assert "the best layout" not in lines  # stated, as it may be


def one_spec_of(capsys: pytest.CaptureFixture[str], spec: Path, *arguments: str) -> str:
    cli.main(["compare", str(spec), *arguments], standalone_mode=False)
    return capsys.readouterr().out
