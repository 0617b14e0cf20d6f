"""Power, carbon and money against published runs and tables."""

from typing import Any

import pytest

import fleetcube

from ..evaluated import value

HOUR = 3600.0


H100: dict[str, Any] = {"n_gpus": 10_000, "gpu_tdp": 700}


def test_a_node_draws_more_than_its_gpus() -> None:
    # DGX H100 datasheet: 10.2 kW for 8 GPUs of 700 W.
    labelled = value("it_power", node="dgx-h100", n_gpus=1024)
    assert labelled == 128 * 10.2e3
    stated = value("it_power", n_gpus=1024, gpu_tdp=700, node_overhead_power=10.2e3 - 8 * 700)
    assert stated == labelled


def test_reserves_are_powered_and_paid_for() -> None:
    scenario: dict[str, Any] = {"n_gpus": 1024, "tensor_parallel": 8, "pipeline_parallel": 2}
    assert value("allocated_gpus", **scenario) == 1024
    assert value("allocated_gpus", **scenario, spare_nodes=3) == 1024 + 3 * 8
    both = value("allocated_gpus", **scenario, spare_nodes=3, backup_workers=2)
    assert both == 1024 + 3 * 8 + 2 * 16
    assert value("allocated_gpus", **scenario, spare_nodes=3, reserves=False) == 1024


def test_allocation_has_no_other_axes_unless_asked_for() -> None:
    got = fleetcube.evaluate(
        ["gpu_hours"], n_gpus=[512, 1024], tensor_parallel=[1, 8], gpus_per_node=[4, 8], job_time=1
    )
    assert got.gpu_hours.dims == ("n_gpus",)


@pytest.mark.parametrize(
    ("hours", "tdp", "tonnes"),
    [
        (184_320, 400, 31.22),
        (368_640, 400, 62.44),
        (1_038_336, 350, 153.90),
        (1_720_320, 400, 291.42),
    ],
)
def test_carbon_of_llama_2(hours: int, tdp: int, tonnes: float) -> None:
    # Touvron et al. 2023, arXiv:2307.09288, table 2: one intensity, here from the sum of its rows.
    kwh = (184_320 + 368_640 + 1_720_320) * 0.400 + 1_038_336 * 0.350
    intensity = f"{539.00 / kwh:.12f} t/kWh"
    given = {"n_gpus": 2000, "gpu_tdp": tdp, "pue": 1, "job_time": hours / 2000 * HOUR}
    given |= {"grid_carbon_intensity": intensity, "mean_power_share": 1}
    got = value("carbon_emissions", **given)
    assert got / 1000 == pytest.approx(tonnes, rel=5e-4)


def test_hours_of_llama_405b_at_its_published_rate() -> None:
    # arXiv:2407.21783: 15.6e12 tokens, 400 TFLOP/s a GPU on 16,384 (table 4), more than 90 % of the
    # time effective; the model card counts 30.84 million hours, later stages included.
    given = {"n_gpus": 16_384, "parameters": 405e9, "training_tokens": 15.6e12}
    given |= {"global_batch_size": 2048, "sequence_length": 8192}
    given |= {"step_time": 6 * 405e9 * 2048 * 8192 / (16_384 * 400e12), "goodput": 0.9}
    got = value("gpu_hours", **given)
    assert 0.9 * 30.84e6 < got < 30.84e6


def test_electricity_of_owned_gpus_is_not_added_to_rent() -> None:
    run: dict[str, Any] = {"n_gpus": 8, "gpu_tdp": 700, "job_time": HOUR, "gpu_hour_price": 2}
    run |= {"mean_power_share": 0.9}
    cost = value("electricity_cost", **run, pue=1.5, electricity_price="0.10 USD/kWh")
    assert cost == pytest.approx(0.9 * 8 * 0.7 * 1.5 * 0.10, rel=1e-12)
    assert value("job_cost", **run) == 16
