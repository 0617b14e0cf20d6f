"""Every option is an axis: along it stands what each choice gives alone."""

import itertools
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from click.testing import CliRunner

import fleetcube
from fleetcube import Settings, Sweep
from fleetcube.cli import cli
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.values import option
from fleetcube.kernels.declare import WORDS_FOR_OFF
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from .common import cases

ENGINES = ("numba", "jax")
OPTIONS = [name for name, row in INPUTS.items() if row.kind == "option"]
JOB: dict[str, Any] = {"n_gpus": 2048, "model": "mixtral-8x7b", "node": "dgx-b200"}
JOB |= {"fabric": "infiniband-ndr", "tensor_parallel": 4, "pipeline_parallel": 4}
JOB |= {"expert_parallel": 2, "all_reduce": "auto", "torus_x": 4, "torus_y": 2, "linear_heads": 64}
JOB |= {"data_parallel_shard": 8, "mfu": 0.4, "fixed_checkpoint_interval": 600}
JOB |= {"peak_flops_fp16": 1e15, "peak_flops_fp8": 2e15, "peak_flops_fp4": 4e15}
JOB |= {"site_bandwidth": 1e11, "repair_crews": 40, "slow_node_share": 0.005}
JOB |= {"slow_node_slowdown": 0.1, "slow_node_mttf": 1e8, "slow_node_detection_time": 86400}
JOB |= {"slow_node_check_interval": 86400, "gpu_hour_price": 2, "electricity_price": "0.08 USD/kWh"}
JOB |= {"node_price": 3e5, "switch_port_price": 5e2, "depreciation_time": "4 yr"}
JOB |= {"contract_nodes": 300, "contract_time": "90 d", "delivery_time": "30 d"}
JOB |= {"interruption_mttf": 2e8, "all_causes": False}
JOB |= {"document_length": 1000, "document_mask": False, "lora_rank": 16, "lora": False}
JOB |= {"latent_kv_elements": 576, "latent_weights": 187e6, "checkpoint_mode": "sync"}
JOB |= {"drive_tier_interval": 900, "storage_tier_interval": 3600, "checkpoint_steps": 20}
JOB |= {"drive_tier_steps": 100, "storage_tier_steps": 500, "tier_intervals": "tuned"}
JOB |= dict.fromkeys(("drive_timing", "drive_steps", "storage_steps"), False)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_an_axis(option: str) -> None:
    chosen = [name for name, quantity in PHYSICS.quantities.items() if quantity.option == option]
    assert chosen
    choices = list(INPUTS[option].choices)
    swept = Sweep(JOB, {option: choices}, chosen).evaluate(settings=Settings("numpy"))
    for k, choice in enumerate(choices):
        alone = Sweep({**JOB, option: choice}, {}, chosen).evaluate()
        for name in {*chosen} - {"infeasible_reason"}:
            got = swept[name].isel({option: k}) if option in swept[name].dims else swept[name]
            np.testing.assert_array_equal(got, alone[name], err_msg=name)


def test_off_is_false_in_every_option() -> None:
    words = [name for name in OPTIONS for word in WORDS_FOR_OFF if word in INPUTS[name].choices]
    assert not words
    assert INPUTS["recompute"].choices[0] is INPUTS["elastic"].default is False


def test_off_among_words_is_text_along_an_axis(tmp_path: Path) -> None:
    assert make_axes(PHYSICS, {"recompute": [False]})["recompute"].labels.tolist() == ["false"]
    path = tmp_path / "cube.zarr"
    Sweep(JOB, {"recompute": [False, "full"]}, ["memory_per_gpu"]).to_zarr(path)
    cube = fleetcube.open_cube(path)
    assert cube["recompute"].values.tolist() == ["false", "full"]
    alone = fleetcube.evaluate("memory_per_gpu", recompute=False, **JOB)
    assert cube["memory_per_gpu"].sel(recompute="false") == alone
    answer = CliRunner().invoke(cli, ["slice", str(path), "recompute=false", "-o", "-"])
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.splitlines()[1].startswith(f"false,{float(alone)},")


@pytest.mark.parametrize("written", [False, np.bool_(False), "false", np.array([False, "full"])[0]])
def test_off_is_read_as_files_tables_and_arrays_spell_it(written: Any) -> None:
    assert option(PHYSICS, "recompute", written) is False


# Cases are cut in the same way whatever the option: one will do for `make test`
@cases(
    "option",
    *(pytest.param(name, marks=[pytest.mark.slow] * (name != "all_reduce")) for name in OPTIONS),
)
def test_an_option_is_an_axis_of_compiled_sweeps(option: str) -> None:
    chosen = [name for name, quantity in PHYSICS.quantities.items() if quantity.option == option]
    axis = {option: list(INPUTS[option].choices)}
    swept = Sweep(JOB, axis, chosen).evaluate(settings=Settings("numpy"))
    moved = [name for name in chosen if option in swept[name].dims]

    def formulas(name: str) -> int:
        return sum(len(case.formulas) for case in Sweep(JOB, axis, [name])._plan("numpy").cases)

    # test_engines has each formula on each engine: here the choice is tried, on the shortest
    # chain whose values tell the choices apart
    told = [name for name in moved if (swept[name] != swept[name].isel({option: 0})).any()]
    name = min(told or moved, key=formulas)
    with jax.disable_jit():
        for engine in ENGINES:
            other = Sweep(JOB, axis, [name]).evaluate(settings=Settings(engine))
            np.testing.assert_allclose(other[name], swept[name], 1e-12, 0, err_msg=engine)


def pairs(name: str, choice: Any, row: dict[str, Any]) -> set[Any]:
    """A choice of an option with each of a row, in either order."""
    return {at for one in row.items() for at in ((*one, name, choice), (name, choice, *one))}


def covering_rows() -> list[dict[str, Any]]:
    """Choices of all options, so that every two choices of two options stand in one row."""
    rng = np.random.default_rng(17)
    left = {
        (a, x, b, y)
        for a, b in itertools.combinations(OPTIONS, 2)
        for x, y in itertools.product(INPUTS[a].choices, INPUTS[b].choices)
    }
    rows = []
    while left:
        a, x, b, y = min(left, key=str)
        row = {a: x, b: y}
        for name in rng.permutation([name for name in OPTIONS if name not in row]).tolist():
            gains = [len(left & pairs(name, choice, row)) for choice in INPUTS[name].choices]
            row[name] = INPUTS[name].choices[int(np.argmax(gains))]
        ordered = [(name, row[name]) for name in OPTIONS]
        left -= {(*one, *other) for one, other in itertools.combinations(ordered, 2)}
        rows.append(row)
    return rows


@pytest.mark.slow
def test_every_two_choices_evaluate_and_have_a_reason_or_none() -> None:
    names = ["step_time", "job_time", "memory_per_gpu", "infeasible_reason"]
    wrong = []
    for row in covering_rows():
        given = {**JOB, **row, "expert_parallel": 1, "hbm_capacity": float("inf")}
        found = fleetcube.evaluate(names, settings=Settings("numpy"), **given)
        numbers = np.array([float(found[name]) for name in names[:3]])
        reason = int(found.infeasible_reason)
        # formulas stay defined where a layout cannot be run
        if reason < 0 or not (np.isfinite(numbers) & (numbers > 0)).all():
            wrong.append((reason, numbers.tolist(), row))
    assert not wrong


def test_off_is_found_on_an_axis_of_words() -> None:
    """As `False`, as in scenarios, and as the word that the axis has."""
    found = fleetcube.Sweep(JOB, {"recompute": [False, "full"]}, ["step_time"]).evaluate(
        settings=Settings("numpy")
    )
    for off in (False, np.False_, "false"):
        assert found.fleetcube.sel(recompute=off).identical(found.isel(recompute=0))
    assert found.fleetcube.sel(recompute=["full", False])["recompute"].values.tolist() == [
        *("full", "false")
    ]
