"""The schedule of a job: its step simulated with the times that its scenario predicts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fleetcube.catalog import KINDS
from fleetcube.grid.errors import InputError
from fleetcube.grid.plan.written import result_scenario
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.problem import choose
from fleetcube.grid.spec.values import is_known
from fleetcube.grid.store.cube import spec_of
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import PAIRED_SCHEDULES

from .schedule import PlayedSchedule, simulate_schedule

if TYPE_CHECKING:
    import xarray

_TIMES = (
    *("num_microbatches", "compute_time", "straggler_time", "recompute_flops_factor"),
    *("exposed_tensor_parallel_time", "exposed_context_parallel_time"),
    *("expert_parallel_time", "expert_all_to_alls_per_layer"),
    *("pipeline_send_time", "pipeline_gather_time"),
)
_STATED = (
    *("pipeline_schedule", "pipeline_parallel", "virtual_stages"),
    *("pipeline_scheduler", "pipeline_sends", "pipeline_flush", "expert_parallel_overlap"),
)


def job_schedule(scenario: Mapping[str, Any]) -> PlayedSchedule:
    """Play one step of a job, every GPU as late as the slowest. A forward pass, an input gradient
    and a weight gradient are a third each of the operations that are not recomputed. They include
    waits for the slowest GPU, for tensor and context traffic, and for expert traffic that is not
    overlapped."""
    given = Evaluation(scenario, {}, ["num_microbatches"])._plan("numpy").problem
    chosen = {**choose(PHYSICS, given.options, given.constants), **given.constants}
    stated = {name: chosen.get(name, INPUTS[name].default) for name in _STATED}
    several = stated["virtual_stages"] > 1
    names = [*_TIMES, *(["microbatch_group_size"] if several else [])]
    step_values = _values(scenario, names)
    microbatches = step_values.pop("num_microbatches")
    layers = ("compute_time", "exposed_tensor_parallel_time", "exposed_context_parallel_time")
    passes = sum(step_values[name] for name in layers) / microbatches
    traffic = step_values["expert_parallel_time"] / microbatches
    late = max(0.0, traffic - stated.pop("expert_parallel_overlap") * passes)
    passes += step_values["straggler_time"] / microbatches  # hide no traffic
    third = passes / (3 * step_values["recompute_flops_factor"])
    overlapping = traffic if stated["pipeline_schedule"] in PAIRED_SCHEDULES else late
    all_to_all = overlapping * 2 / step_values["expert_all_to_alls_per_layer"]
    whole = chosen["stage_split"] == "whole_layers" and stated["pipeline_parallel"] > 1
    return simulate_schedule(
        **stated,
        num_microbatches=microbatches,
        microbatch_group_size=step_values.get("microbatch_group_size"),
        forward_time=third + all_to_all,
        input_gradient_time=third + overlapping - all_to_all,
        weight_gradient_time=third,
        recompute_time=passes - 3 * third,
        overlapped_time=passes + late,
        send_time=step_values["pipeline_send_time"] + step_values["pipeline_gather_time"],
        piece_times=_piece_times(scenario, stated, step_values) if whole else None,
    )


def _values(scenario: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    values = Evaluation(scenario, {}, names).evaluate(settings=Settings("numpy"))
    return {name: float(values[name]) for name in names}


def _piece_times(
    scenario: Mapping[str, Any], stated: Mapping[str, Any], step_values: Mapping[str, float]
) -> list[float]:
    """Time of each piece relative to the mean, from its layers and its end of the model."""
    p = int(stated["pipeline_parallel"])
    schedule = stated["pipeline_schedule"]
    folded = schedule in ("zb_v", "dualpipev")
    interleaves = schedule in ("1f1b", "interleaved", "combined_1f1b")
    v = 2 if folded else int(stated["virtual_stages"]) if interleaves else 1
    ends = ["first_stage_layers", "last_stage_layers"]
    job = _values(scenario, ["embedding_share", "logits_share", *ends])
    stages = {"pipeline_stage": list(range(1, p + 1))}
    layers = (
        Evaluation(scenario, stages, ["stage_layers"])
        .evaluate(settings=Settings("numpy"))["stage_layers"]
        .values
    )
    # logits_share has those of multi-token prediction
    layers[0 if folded else -1] = job["first_stage_layers" if folded else "last_stage_layers"]
    traffic = (
        step_values["exposed_tensor_parallel_time"] + step_values["exposed_context_parallel_time"]
    )
    computing = step_values["compute_time"] + step_values["straggler_time"]
    computing /= computing + traffic
    embedding, logits = (job[f"{end}_share"] * computing for end in ("embedding", "logits"))
    layer = p * (1 - embedding - logits) / layers.sum()
    times = []
    for piece in range(p * v):
        stage = min(piece, 2 * p - 1 - piece) if folded else piece % p
        alone = p * v * (piece == 0) * embedding
        alone += p * v * (piece == p * v - 1) * logits
        times.append(float(layers[stage] * layer + alone))
    return times


def schedule_at(point: "xarray.Dataset") -> PlayedSchedule:
    """Play one step at a point of a cube, from its scenario and its axes' values there."""
    several = [str(name) for name, size in point.sizes.items() if size > 1]
    if several:
        raise InputError(
            f"a picture of a schedule is of one point; give axis=value for {', '.join(several)}"
        )
    spec = spec_of(point.attrs)
    along = {
        *INPUTS,
        *KINDS,
        *(n for n in spec["axes"] if is_known(PHYSICS, n)),
    }  # neither flags nor names of points
    place = {str(name): point[name].values.item() for name in point.coords if name in along}
    return job_schedule({**result_scenario(spec), **place})
