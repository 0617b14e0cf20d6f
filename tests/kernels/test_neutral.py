"""What a job has one of changes nothing: its options, and the fabric around a single node."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetcube import InputError, Settings, Sweep
from fleetcube.kernels.physics.inputs import BY_TOPIC

OUTPUTS = (
    *("step_time", "memory_per_gpu", "job_time", "tensor_parallel_time", "context_parallel_time"),
    *("expert_parallel_time", "data_parallel_time", "pipeline_parallel_time"),
)
TOPICS = {"tensor_parallel": "tensor", "context_parallel": "context"}
TOPICS |= {"expert_parallel": "experts", "pipeline_parallel": "pipeline"}
# Of experts on one rank, too: the copies of tokens are put in order, and padded to a capacity
FELT = {"expert_dispatch", "routing_nodes", "expert_capacity", "expert_biases"}
JOB = {"node": "dgx-h100", "fabric": "infiniband-ndr", "calibration": "none"}
JOB |= {"gpu_mttf": "50_000 h", "checkpoint_write_bandwidth": "10 GB/s", "flops_efficiency": 0.5}
RANKS = {"tensor_parallel": [1, 2, 8], "context_parallel": [1, 2], "pipeline_parallel": [1, 4]}
JOBS = st.fixed_dictionaries(
    {name: st.sampled_from(ranks) for name, ranks in RANKS.items()}
    | {"expert_parallel": st.sampled_from([1, 4]), "copies": st.sampled_from([4, 8])}
    | {"model": st.sampled_from(["llama-3-8b", "mixtral-8x7b", "deepseek-v3"])}
    | {"compute_model": st.sampled_from(["roofline", "mfu"])}
)


def values(job: dict[str, Any]) -> dict[str, float]:
    found = Sweep(job, {}, OUTPUTS).evaluate(settings=Settings("numpy"))
    return {name: float(found[name]) for name in OUTPUTS}


def job_of(drawn: dict[str, Any]) -> dict[str, Any]:
    job = {**JOB, **drawn}
    gpus = job.pop("copies")
    for name in RANKS:
        gpus *= drawn[name]
    if drawn["model"] == "llama-3-8b":
        job["expert_parallel"] = 1
    return job | {"n_gpus": gpus, "global_batch_size": 4 * gpus}


@pytest.mark.slow
@given(JOBS, st.sampled_from([*TOPICS]))
def test_options_of_one_rank_change_no_bit(drawn: dict[str, Any], one: str) -> None:
    job = job_of(drawn | {one: 1})
    plain = values(job)
    for row in BY_TOPIC[TOPICS[one]]:
        if row.name in FELT:
            continue
        for choice in row.choices if row.kind == "option" else [0.5] * (row.high == 1.0):
            try:
                again = values(job | {row.name: choice})
            except InputError:  # an option that needs another input
                continue
            assert again == plain, f"{row.name} = {choice}"


@given(JOBS, st.floats(1e6, 1e12), st.floats(1e-7, 1e-2))
def test_one_node_sends_nothing_to_the_fabric(
    drawn: dict[str, Any], bandwidth: float, latency: float
) -> None:
    job = job_of(drawn)
    job |= {"gpus_per_node": job["n_gpus"], "nics_per_node": 8}
    fabric = {"inter_node_bandwidth": bandwidth, "inter_node_latency": latency}
    assert values(job | fabric) == values(job)
