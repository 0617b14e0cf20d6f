"""Published memory figures against the model: error of each group, and exclusions."""

import math
from pathlib import Path

import numpy as np

from fleetcube.calibration.measurements import read_records
from fleetcube.calibration.validate import validate
from fleetcube.kernels.physics.inputs import INPUTS

from .common import cases

GIB = 2**30
TABLE = Path(__file__).parents[1] / "data" / "memory.csv"


@cases(
    "group, count, mean, worst",
    # per cent; figures 1 and 7 are the paper's equations, SimuMax's are PyTorch's peaks
    ("korthikanti_fig1_memory", 12, 0.3, 2.0),
    ("korthikanti_fig7_memory", 16, 0.5, 1.5),
    ("simumax_b200", 17, 1.5, 3.0),
)
def test_published_memory_is_met(group: str, count: int, mean: float, worst: float) -> None:
    rows = [row for row in read_records(TABLE)[0] if row.group == group]
    errors = [100 * abs(row.error) for row in validate(rows).rows]
    assert len(errors) == count
    assert sum(errors) / count < mean
    assert max(errors) < worst


def test_memory_of_torchtitan_is_what_its_allocator_reserved() -> None:
    rows = [row for row in read_records()[0] if row.group == "torchtitan"]
    rows = [row for row in rows if row.of == "memory_per_gpu"]
    errors = {row.id: row.predicted / row.measured - 1 for row in validate(rows).rows}
    assert len(errors) == 15
    # 1F1B alone: its authors measured 10 GiB more than interleaved, which keeps more micro-batches
    plain = {name: abs(error) for name, error in errors.items() if name[-3:] not in ("015", "016")}
    assert max(plain.values()) < 0.085
    assert sum(plain.values()) < 0.031 * len(plain)
    interleaved = next(row.inputs for row in rows if row.inputs.get("virtual_stages") == 2)
    # outputs of 8 micro-batches, and joined; FP32: logits, log-probabilities, targets, their sum
    assert interleaved["logit_bytes"] == 8 * (2 + 2) + 4 * 4
    assert interleaved["gradient_sync"] == "step"
    assert interleaved["reshard_after_forward"] is False


def test_the_error_factor_is_that_of_a_table_held_out() -> None:
    # the formulas were compared with the other two tables while they were written
    errors: dict[str, list[float]] = {}
    rows = [row for row in read_records()[0] if row.of == "memory_per_gpu"]
    for row in validate([row for row in rows if row.group != "torchtitan"]).rows:
        errors.setdefault(row.group, []).append(abs(math.log(row.predicted / row.measured)))
    assert {group: len(own) for group, own in errors.items()} == {
        "korthikanti_fig1_memory": 4,
        "megatron_llama2": 4,
        "simumax_b200": 29,
    }
    held_out = math.exp(np.quantile(errors["megatron_llama2"], 0.9, method="higher"))
    assert held_out <= INPUTS["memory_error_factor"].default < held_out + 0.02
    for own in errors.values():
        assert math.exp(max(own)) <= INPUTS["memory_error_factor"].default
