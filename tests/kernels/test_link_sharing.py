"""Corner cases of traffic: single ranks, shared links, units, overlaps from none to all."""

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fleetcube
from fleetcube import Settings

from ..evaluated import value

KINDS = ("context", "tensor", "expert", "data")  # each hides behind waits for those before it
SHARED = ("tensor", "expert", "data")  # have a share that is hidden; attention hides rings
SIZES = st.sampled_from((1, 2, 4, 8, 16))
OVERLAPS = st.sampled_from((0.0, 0.3, 1.0))


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """A job of 1 to 4,096 GPUs; some expert groups are larger than the ranks they share."""
    tensor, context, stages = draw(SIZES), draw(SIZES), draw(SIZES)
    moe = draw(st.booleans())
    job: dict[str, Any] = {
        "n_gpus": tensor * context * stages * draw(st.sampled_from((1, 2, 8, 64))),
        "tensor_parallel": tensor, "context_parallel": context, "pipeline_parallel": stages,
        "expert_parallel": draw(SIZES) if moe else 1, "mixture_of_experts": moe, "experts": 16,
        "sequence_parallel": draw(st.booleans()), "zero_stage": draw(st.sampled_from((0, 1, 2, 3))),
        "fsdp_prefetch": draw(st.booleans()),
        "recompute": draw(st.sampled_from((False, "selective", "full"))),
        "all_reduce": draw(st.sampled_from(("auto", "ring", "tree", "hierarchical", "in_network"))),
        "node_reduction": draw(st.booleans()), "fabric_reduction": draw(st.booleans()),
        "layers": 32, "hidden_size": 4096, "sequence_length": 4096, "global_batch_size": 4096,
        "peak_flops": 989e12, "gradient_bytes_per_element": draw(st.sampled_from((2, 4))),
        "bucket_bytes": draw(st.sampled_from((25e6, math.inf))),
        "intra_node_bandwidth": draw(st.sampled_from((50e9, 450e9))),
        "inter_node_bandwidth": draw(st.sampled_from((1e9, 50e9))),
        "intra_node_latency": draw(st.sampled_from((0.0, 1e-6))),
        "inter_node_latency": draw(st.sampled_from((0.0, 5e-6))),
        "oversubscription": draw(st.sampled_from((1.0, 4.0))), "optimizer_time": 0.0,
    }  # fmt: skip
    job["context_balance"] = draw(st.sampled_from(("zigzag", "contiguous")))
    return job | {f"{kind}_parallel_overlap": draw(OVERLAPS) for kind in SHARED}


def values(outputs: list[str], job: dict[str, Any], **more: Any) -> dict[str, float]:
    found = fleetcube.evaluate(outputs, settings=Settings("numpy"), **{**job, **more})
    return {name: float(found[name]) for name in outputs}


TIMES = [f"{kind}_parallel_time" for kind in KINDS]
ENDS = ("embedding_exchange_time", "logits_exchange_time")
EXPOSED = [f"exposed_{name}" for name in TIMES]


@given(jobs())
def test_no_step_is_shorter_than_its_links_are_busy(job: dict[str, Any]) -> None:
    busy = ["fabric_busy_time", "node_network_busy_time"]
    got = values([*TIMES, *EXPOSED, *busy, "step_time", "contention_time", "compute_time"], job)
    for name in busy:
        assert got["step_time"] >= got[name] * (1 - 1e-12)
    for time, exposed in zip(TIMES, EXPOSED, strict=True):
        assert -1e-12 <= got[exposed] <= got[time] * (1 + 1e-12) + 1e-12
    assert got["contention_time"] >= 0


@given(jobs(), st.sampled_from(KINDS))
def test_a_kind_alone_waits_for_none(job: dict[str, Any], kind: str) -> None:
    alone: dict[str, Any] = {f"{other}_parallel_overlap": 0.0 for other in SHARED if other != kind}
    if kind != "context":
        alone["context_parallel_type"] = "all_gather"  # which nothing hides
    before = [f"exposed_{other}_parallel_time" for other in KINDS[: KINDS.index(kind)]]
    alone |= {"sequence_parallel": False, "link_sharing": True}
    got = values(["contention_time", "step_time", *before], job, **alone)
    # A kind also hides behind waits for earlier kinds, which may use the same links
    hidden = job.get(f"{kind}_parallel_overlap", 0.0) * sum(got[name] for name in before)
    assert got["contention_time"] <= hidden + 1e-12 * got["step_time"]


@pytest.mark.slow
@given(jobs(), st.sampled_from(SHARED))
def test_more_overlap_or_bandwidth_is_never_slower(job: dict[str, Any], kind: str) -> None:
    ladder = [{f"{kind}_parallel_overlap": overlap} for overlap in (0.0, 0.2, 0.5, 0.9, 1.0)]
    rails = [{"inter_node_bandwidth": rate} for rate in (1e9, 5e9, 50e9, 1e12)]
    nvlink = [{"intra_node_bandwidth": rate} for rate in (1e9, 50e9, 450e9, 1e13)]
    leaves = [{"oversubscription": ratio} for ratio in (4.0, 2.0, 1.0)]
    for steps in (ladder, rails, nvlink, leaves):
        rows = [values(["step_time", *ENDS], job, **step) for step in steps]
        for slower, faster in itertools.pairwise(rows):
            # Later kinds of traffic hide behind waits at the ends of a model, too, which are short
            room = sum(slower[name] for name in ENDS)
            assert faster["step_time"] <= slower["step_time"] * (1 + 1e-12) + room


@pytest.mark.parametrize("balance", ["zigzag", "contiguous"])
@pytest.mark.parametrize(
    ("compute_model", "name"), [("mfu", "flops_efficiency"), ("roofline", "attention_efficiency")]
)
def test_faster_compute_is_never_slower_behind_a_ring(
    balance: str, compute_model: str, name: str
) -> None:
    # attention that hides a ring is in the share of compute that hides traffic of tensor ranks, too
    job = {
        "model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 512,
        "sequence_length": 131072, "global_batch_size": 512, "sequence_parallel": True,
        "context_balance": balance, "compute_model": compute_model, "stage_split": False,
    }  # fmt: skip
    axes = {
        "tensor_parallel": [8, 16], "context_parallel": [4, 16],
        "tensor_parallel_overlap": [0.5, 1],
        "inter_node_bandwidth": [5e9, 25e9, 50e9], name: [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
    }  # fmt: skip
    steps = fleetcube.Sweep(job, axes, ["step_time"]).evaluate(settings=Settings("numpy"))
    times = steps["step_time"].transpose(..., name).values
    assert (times[..., 1:] <= times[..., :-1] * (1 + 1e-12)).all()


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
@pytest.mark.parametrize("all_reduce", ["auto", "ring", "tree", "hierarchical", "fitted"])
def test_one_rank_sends_nothing(zero_stage: int, all_reduce: str) -> None:
    given = {"settings": Settings("numpy"), "model": "llama-3-8b", "node": "dgx-h100"}
    given |= {"fabric": "infiniband-ndr", "n_gpus": 1, "zero_stage": zero_stage}
    given |= {"all_reduce": all_reduce, "sequence_parallel": True, "data_parallel_overlap": 0.5}
    got = fleetcube.evaluate(
        ["communication_time", "exposed_communication_time", "fabric_busy_time"], **given
    )
    assert [float(got[name]) for name in got.data_vars] == [0, 0, 0]


def test_fractions_of_units_lie_between_whole_numbers() -> None:
    times = [
        value(
            "exposed_data_parallel_time",
            settings=Settings("numpy"),
            zero_stage=3,
            fsdp_units=units / 4,
            weight_all_gather_time=1.0,
            gradient_reduce_scatter_time=2.0,
            exposed_layer_communication_time=0.0,
            num_microbatches=3,
            compute_time=12.0,
            recompute_flops_factor=1.0,
            data_parallel_overlap=overlap,
        )
        for overlap in (0.0, 1.0)
        for units in range(1, 40)
    ]
    assert times[:39] == pytest.approx([3 * (2 * 1.0 + 2.0)] * 39)  # nothing hidden: all traffic
    assert all(0 < time <= 12 for time in times)


def test_large_experts_groups_share_a_rail_with_gathers() -> None:
    # Mixtral 8x22B, 512 GPUs, all overlaps whole: tokens and weights go through one rail.
    waits = ["contention_time", "processor_contention_time"]
    outputs = ["step_time", "bubble_time", "fabric_busy_time", *waits]
    job = {
        "model": "mixtral-8x22b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 512,
        "tensor_parallel": 8, "expert_parallel": 8, "pipeline_parallel": 4, "zero_stage": 3,
        "fsdp_prefetch": True, "sequence_length": 4096,
        **{f"{kind}_parallel_overlap": 1.0 for kind in SHARED},
    }  # fmt: skip
    shared, alone = values(outputs, job), values(outputs, job, link_sharing=False)
    assert shared["step_time"] >= shared["fabric_busy_time"] > alone["step_time"] * 0.9
    late, held = (shared[name] - alone[name] for name in waits)
    assert late > 0 > held  # what waits hides nothing
    assert shared["step_time"] - alone["step_time"] == pytest.approx(late + held)
