"""Notes under each table, as a user sees them: once, in 80 columns."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fleetcube import Settings, Sweep, open_cube
from fleetcube.cli import cli
from fleetcube.tables.table_notes import remarks

LAYERS = """\
node = "dgx-h100"
fabric = "infiniband-ndr"
layers = 80
hidden_size = 8192
parameters = 70e9
global_batch_size = 1024
tensor_parallel = 8
checkpoint_write_bandwidth = "100 GB/s"
"""
TOKENS = "training_tokens by default: 20 a parameter = 1.4e+12"
EFFICIENCY = "efficiency by default, not calibrated: "
SHARES = "attention_efficiency 0.5, memory_efficiency 0.8"
SOBOL = ("global-sensitivity", "--of", "job_time", "--samples", "600")
LEFT = "layout by default: pipeline_parallel 1, context_parallel 1, micro_batch_size 1,"


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "job.toml"
    axes = "[axes]\nn_gpus = [256, 512]\n"
    path.write_text(f'outputs = ["job_time"]\n[scenario]\n{LAYERS}{axes}', encoding="utf-8")
    return str(path)


def run(*words: str) -> Result:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stderr.splitlines()), default=0) <= 80, done.stderr
    return done


def test_a_cube_and_its_files_name_what_nobody_stated_as_its_spec_does(
    spec: str, tmp_path: Path
) -> None:
    cube, table, code = (str(tmp_path / name) for name in ("cube.zarr", "job.json", "job.c"))
    run("run", spec, "-o", cube)
    pool = "node_pool open (default): job_time "
    asked = run("run", spec, "n_gpus=512").output.partition(pool)[2].partition(";")[0]
    assert asked in run("slice", cube, "n_gpus=512").output.partition(pool)[2]
    for words in (("slice", cube), ("run", spec)):
        for path in (table, code):
            run(*words, "-o", path, "--overwrite")
            assert pool + asked in Path(path).read_text(encoding="utf-8"), words


def test_every_verb_says_once_what_a_default_decided(spec: str, tmp_path: Path) -> None:
    cube = str(tmp_path / "cube.zarr")
    run("run", spec, "-o", cube)
    for words in (
        ("run", spec),
        ("show", cube),
        ("slice", cube, "n_gpus=256"),
        ("best", spec, "--of", "job_time", "--engine", "numpy"),
        ("compare", spec, "n_gpus=256,512"),
    ):
        said = run(*words).output
        for part in (TOKENS, LEFT, "calibration auto: the mean of all software"):
            assert said.count(part) == 1, (words, said)
    planned = run(
        "plan", spec, "n_gpus=256", "--search", "pipeline_parallel,context_parallel"
    ).output
    assert TOKENS in planned
    assert "layout by default: context_parallel 1, micro_batch_size 1, zero_stage 1," in planned
    assert "pipeline_parallel 1" not in planned, "it was searched"


def test_what_is_given_or_read_by_nothing_is_not_said(spec: str) -> None:
    said = run("run", spec, "training_tokens=1e12", "recompute=full", "pipeline_parallel=4").stderr
    assert "training_tokens by default" not in said
    assert "recompute" not in said
    assert "layout by default: virtual_stages 1, context_parallel 1" in said
    assert "by default" not in run("run", spec, "-v", "cluster_mtbf").stderr


def test_a_model_by_name_states_its_tokens_and_none_has_no_calibration(spec: str) -> None:
    said = run("run", spec, "model=llama-3-70b", "calibration=none").stderr
    assert "training_tokens by default" not in said
    assert "efficiency by default, not calibrated: flops_efficiency 0.45\n" in said


def test_tokens_that_differ_from_point_to_point_are_the_rule_alone() -> None:
    job = {"flops_efficiency": 0.4, "peak_flops_bf16": 1e15, "n_gpus": 64, "active_parameters": 7e9}
    axes = {"parameters": [7e9, 70e9]}
    found = Sweep(job, axes, ["training_tokens"]).evaluate(settings=Settings("numpy"))
    assert remarks(found.attrs) == ["training_tokens by default: 20 a parameter"]
    assert json.loads(found.attrs["fleetcube_defaults"]) == {"training_tokens": None}


def test_the_two_sides_of_a_comparison_share_what_is_alike(spec: str) -> None:
    said = run("compare", spec, "training_tokens=1e12,2e12").stderr
    assert said.count("calibration auto") == said.count("layout by default") == 1
    said = run("compare", spec, "node=dgx-h100,dgx-b200").stderr
    assert said.count(TOKENS) == 1
    assert "A: calibration auto: " in said
    assert "B: calibration auto: " in said


def test_a_cube_holds_what_was_decided(spec: str, tmp_path: Path) -> None:
    path = tmp_path / "cube.zarr"
    sweep = Sweep.from_file(spec)
    sweep.to_zarr(path, settings=Settings("numpy"))
    assert remarks(open_cube(path).attrs) == remarks(
        sweep.evaluate(settings=Settings("numpy")).attrs
    )


def test_run_writes_a_narrow_table_or_all_columns(spec: str, tmp_path: Path) -> None:
    for words, least in (((), 3), (("--all",), 4)):
        path = tmp_path / f"{least}.csv"
        said = run("run", spec, "fabric=infiniband-ndr,roce-400g", *words, "-o", str(path))
        heads = path.read_text(encoding="utf-8").splitlines()[0].split(",")
        assert {"n_gpus", "fabric"} <= {*heads}
        assert ("inter_node_bandwidth [B/s]" in heads) == bool(words)
        assert TOKENS in said.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--all", "-o", "cube.zarr"), "--all is for tables"),
        (("--overwrite", "-o", "-"), "--overwrite is for cubes"),
        (("-o", "no/such/x.csv"), "create it first"),
    ],
)
def test_tables_that_cannot_be_written_are_refused(
    spec: str, words: tuple[str, ...], line: str
) -> None:
    done = CliRunner().invoke(cli, ["run", spec, *words])
    assert line in str(done.exception)


def test_a_job_that_never_ends_is_said_to(spec: str) -> None:
    job = ["node_pool=closed", "spare_nodes=0", "repair_time=100d", "pipeline_parallel=4"]
    told = run("run", spec, "gpu_mttf=1000 h", *job)
    assert "job_time is over 300 years at 2 of 2 points" in " ".join(told.stderr.split())
    assert "300 years" not in run("run", spec, "pipeline_parallel=4").stderr
    words = ["plan", spec, "n_gpus=1024", "gpu_mttf=1000 h", *job]
    levers = CliRunner().invoke(cli, words)
    assert "spare_nodes 0 -> 1" in levers.stdout  # no share of nothing
    assert "job_time is over 300 years at 3 of 3 points" in levers.stderr
    dated = CliRunner().invoke(cli, [*words, "start_date=2027-01-01"])
    assert "it ends on never" not in dated.stdout
    assert "it never ends" in dated.stdout
    best = CliRunner().invoke(cli, ["best", *words[1:], "--of", "job_time"])
    assert [levers.exit_code, dated.exit_code, best.exit_code] == [2, 2, 2]  # no answer
    assert CliRunner().invoke(cli, [*words, "--of", "step_time"]).exit_code == 0


def test_steps_above_the_peak_and_copies_that_all_survive_are_named(spec: str) -> None:
    def shown(*words: str) -> str:
        return " ".join(run("run", spec, "n_gpus=256", "--no-interval", *words).stderr.split())

    # 6 x 70e9 x 1,024 x 4,096 operations take 256 GPUs of 989.4 TFLOP/s 7 s at least
    assert "and no GPU exceeds its peak" in shown("-v", "mfu", "step_time=5 s,9 s")
    assert "exceeds" not in shown("-v", "mfu", "step_time=9 s")
    # 256 GPUs, each stopped every 3 h: one of them every 42 s
    assert "rates are of one GPU or other part" in shown("interruption_mttf=3h", "step_time=60 s")
    assert "rates are" not in shown("interruption_mttf=3h", "step_time=30 s")
    copies = "each failure is taken to leave a copy in a peer's memory"
    assert copies in shown("checkpoint_mode=in_memory")
    assert copies not in shown("checkpoint_mode=tiered", "memory_tier_survival=0.9")


def test_an_owner_is_told_which_costs_are_left_out(spec: str) -> None:
    owned = ("node_price=300_000 USD", "electricity_price=0.1 USD/kWh", "depreciation_time=4 yr")

    def shown(*words: str) -> str:
        done = run("run", spec, "n_gpus=256", "-v", "job_cost", *owned, *words)
        return " ".join(done.stderr.split())

    rest = ("interest_rate=0.08", "maintenance_share=0", "building_price=0 USD/W")
    words = "owning is without what nobody stated: fabric_price, building_price, yearly_staff_cost,"
    assert f"{words} maintenance_share, interest_rate; give them, or 0" in shown()
    ports = shown(*rest, "nic_price=1_000 USD")
    assert "nobody stated: yearly_staff_cost; give them" in ports
    assert "owning" not in shown(*rest, "fabric_price=4_000 USD", "yearly_staff_cost=1M USD")


def test_a_default_of_one_label_or_phase_is_said_too(spec: str) -> None:
    said = run("run", spec, "model=mixtral-8x7b,llama-3-8b").stderr  # one states its tokens
    assert "training_tokens by default where not given: 20 a parameter\n" in said
    said = run("run", spec, "model=llama-3-8b", "calibration=auto,none").stderr
    assert "training_tokens by default" not in said
    assert EFFICIENCY + "flops_efficiency 0.45 where not given layout" in " ".join(said.split())
    job = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 64}
    job["calibration"] = "none"
    phases = [{"name": "a", "training_tokens": 1e12}, {"name": "b", "training_tokens": 1e12}]
    phases[1] |= {"flops_efficiency": 0.4, "recompute": "full", "pipeline_parallel": 2}
    said = str(
        remarks(
            Sweep(job, {}, ["job_time"], phases=phases).evaluate(settings=Settings("numpy")).attrs
        )
    )
    assert EFFICIENCY + "flops_efficiency 0.45 where not given'" in said
    for part in ("recompute selective where not given", "pipeline_parallel 1 where not given"):
        assert part in said
    assert "virtual_stages 1," in said


ODD: list[tuple[dict[str, Any], dict[str, Any], str | None, str | None]] = [
    # scenario and axes, noted default efficiencies and default tokens; None: no note
    ({"calibration": "aws-p5"}, {}, "flops_efficiency 0.45", "20 a parameter = 1.4e+12"),
    ({"calibration": "none"}, {"training_tokens": [1e12]}, "flops_efficiency 0.45", None),
    ({"flops_efficiency": 0.4}, {}, None, "20 a parameter = 1.4e+12"),
    ({}, {"flops_efficiency": [0.4, 0.5]}, None, "20 a parameter = 1.4e+12"),
    ({"step_time": 5.0}, {}, None, "20 a parameter = 1.4e+12"),
    ({"gemm_efficiency": 0.7, "compute_model": "roofline"}, {}, SHARES, "20 a parameter = 1.4e+12"),
    ({"experts": 8, "experts_per_token": 2}, {}, None, "20 a parameter = 1.4e+12"),
    ({"parameters": None}, {"parameters": [7e9, 70e9]}, None, "20 a parameter"),
]


@pytest.mark.parametrize(("more", "axes", "efficiency", "tokens"), ODD)
def test_feet_of_odd_jobs_are_true(
    more: dict[str, Any], axes: dict[str, Any], efficiency: str | None, tokens: str | None
) -> None:
    job = {**tomllib.loads(LAYERS), "n_gpus": 512, **more}
    job = {name: value for name, value in job.items() if value is not None}
    found = Sweep(job, axes, ["job_time", "step_time"]).evaluate(settings=Settings("numpy"))
    parts = [line.partition(": ") for line in remarks(found.attrs)]
    heads = {head: rest for head, _, rest in parts}
    assert heads.get(EFFICIENCY.strip(": ")) == efficiency
    assert heads.get("training_tokens by default") == tokens
    layout = heads.get("layout by default", "")
    assert ("expert_parallel 1" in layout) == ("experts" in more)
    assert ("micro_batch_size 1" in layout) == ("step_time" not in more)


def test_what_is_drawn_or_varied_is_not_at_its_median(spec: str) -> None:
    laws = "{lognormal = [70e9, 1.1]}"
    text = Path(spec).read_text(encoding="utf-8").replace("70e9", laws)
    Path(spec).write_text(text, encoding="utf-8")
    assert "at their medians: parameters" in run("run", spec).stderr
    for words in (("uncertainty", spec, "--samples", "16"), (*SOBOL[:1], spec, *SOBOL[1:])):
        said = run(*words).stderr
        assert "median" not in said, words
        assert "training_tokens by default: 20 a parameter\n" in said, words


def test_a_wall_stands_on_the_sizes_that_it_shows(spec: str) -> None:
    said = run("scaling-limit", spec, "pipeline_parallel=4", "--search", "none").stderr
    assert "1,048,576" not in said
    assert "layout by default: virtual_stages 1" in said


def test_simulations_say_what_they_stand_on(spec: str) -> None:
    words = ["simulate", spec, "n_gpus=512", "--trials", "2"]
    assert not run(*words).stderr  # no output depends on a default
    text = Path(spec).read_text(encoding="utf-8")
    text = text.replace("[axes]", "node_mttf = {lognormal = ['5000 h', 1.5]}\n[axes]")
    Path(spec).write_text(text, encoding="utf-8")
    assert run(*words).stderr == "uncertain inputs at their medians: node_mttf\n"


def test_notebooks_show_feet() -> None:
    sweep = Sweep({**tomllib.loads(LAYERS), "n_gpus": 512}, {}, ["job_time"])
    cube = sweep.evaluate(settings=Settings("numpy"))
    for page in (sweep._repr_html_(), cube.fleetcube._repr_html_()):
        assert f"<div>{TOKENS}</div>" in page
    assert "<th class='number'>job_time [d]</th>" in cube.fleetcube._repr_html_()
    whole = Sweep({"gpu_mttf": 1e6}, {"n_gpus": [*range(1, 202)]}, ["cluster_mtbf"]).evaluate()
    assert "201 points; cut them to 200" in whole.fleetcube._repr_html_()
