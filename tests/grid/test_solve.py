"""Inverting outputs: against inversions by hand, at every point, and where there is no answer."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import fleetcube
from fleetcube import Settings
from fleetcube.analysis.solve.solve import SLACK, Solver
from fleetcube.analysis.targets import read_target
from fleetcube.kernels.physics.graph import PHYSICS

from ..draws import generator, scaled
from .common import Patch, cases, on_h100, refused, solve

LLAMA = on_h100("llama-3-70b", tensor_parallel=8)
DAY = 86400.0
MARKED = Settings(infeasible="mark")  # roots, whether they can run or not
COUNTED = Settings("numpy", "include")
UNEVEN: dict[str, Any] = {"n_gpus": 1024, "tensor_parallel": 8, "pipeline_parallel": 4}
UNEVEN |= {"global_batch_size": 1024, "calibration": "none"}


def reason(found: object, code: int) -> str:
    meanings = found["unsolved_reason"].attrs["flag_meanings"].split()  # type: ignore[index]
    return str(meanings[code])


def test_twice_the_reliability_carries_twice_the_cluster() -> None:
    """Seed 000, exercise 3: MTBF falls as 1 / n, so that doubled MTTFs allow doubled n."""
    parts = {"gpu_mttf": "50_000 h", "nic_mttf": "150_000 h", "psu_mttf": "100_000 h"}
    doubled = {"gpu_mttf": "100_000 h", "nic_mttf": "300_000 h", "psu_mttf": "200_000 h"}
    old = float(fleetcube.evaluate("cluster_mtbf", n_gpus=1024, **parts))
    found = solve("n_gpus", {"cluster_mtbf": old}, **doubled)
    assert float(found["n_gpus"]) == 2048
    assert float(found["cluster_mtbf"]) == pytest.approx(old, rel=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numpy", "numba", "jax"])
def test_a_grid_is_solved_point_by_point(engine: str) -> None:
    of, second, aim = "job_time", "inter_node_bandwidth", 90 * DAY
    policies = ["young", "exact"]
    if engine != "numpy":  # each policy is compiled for itself, and job_time for half a minute
        of, second, aim, policies = "goodput", "checkpoint_write_bandwidth", 0.975, ["young"]
    axes = {"checkpoint_policy": policies, "gpu_mttf": np.geomspace(5e7, 1e9, 5)}
    axes |= {second: np.geomspace(2e10, 1e11, 4)}
    sweep = fleetcube.Sweep({**LLAMA, "n_gpus": 1024}, axes, [of])
    found = sweep.solve("n_gpus", {of: aim}, whole=False, settings=Settings(engine))
    assert found["n_gpus"].dims == ("checkpoint_policy", "gpu_mttf", second)
    assert not found["unsolved_reason"].any()
    np.testing.assert_allclose(found[of], aim, rtol=1e-9)
    here = {"checkpoint_policy": "young", "gpu_mttf": axes["gpu_mttf"][3], second: axes[second][1]}

    def excess(n: float) -> float:
        return float(fleetcube.evaluate(of, **LLAMA, **here, n_gpus=n)) - aim

    root = scipy.optimize.brentq(excess, 64, 8192, xtol=1e-9, rtol=1e-14)
    assert float(found["n_gpus"].sel(here)) == pytest.approx(root, rel=1e-9)
    if of == "job_time":  # which depends on the layout
        meanings = found["infeasible_reason"].attrs["flag_meanings"].split()
        assert (found["infeasible_reason"] == meanings.index("not_a_whole_number")).all()


@cases(
    "axis",
    {"checkpoint_policy": ["young"]},
    {"how": {"labels": ["a", "b"], "checkpoint_policy": ["young"] * 2}},
)
def test_an_axis_along_which_nothing_changes_counts(axis: dict[str, object]) -> None:
    ask: tuple[str, str] = ("n_gpus", "job_time = 90 d")
    found = fleetcube.Sweep({**LLAMA, "n_gpus": 8}, axis, ["job_time"]).solve(*ask, whole=False)
    young = solve(*ask, whole=False, **LLAMA, checkpoint_policy="young")
    exact = solve(*ask, whole=False, **LLAMA, checkpoint_policy="exact")
    assert (found["n_gpus"] == float(young["n_gpus"])).all()
    assert float(young["n_gpus"]) != float(exact["n_gpus"])


def test_mttf_for_a_goodput_against_a_root_by_scipy() -> None:
    sizes = [1024.0, 16384.0]
    found = solve("gpu_mttf", "goodput = 95 %", **LLAMA, n_gpus=sizes)

    def excess(mttf: float, n: float) -> float:
        return float(fleetcube.evaluate("goodput", **LLAMA, n_gpus=n, gpu_mttf=mttf)) - 0.95

    for n in sizes:
        root = scipy.optimize.brentq(excess, 1e5, 1e10, (n,), xtol=1e-3, rtol=1e-13)
        assert float(found["gpu_mttf"].sel(n_gpus=n)) == pytest.approx(root, rel=1e-8)


def test_bandwidth_at_which_communication_takes_as_long_as_compute() -> None:
    found = solve(
        "inter_node_bandwidth",
        "exposed_communication_time = compute_time",
        **LLAMA,
        n_gpus=1024,
        settings=MARKED,
    )
    given = dict(n_gpus=1024, inter_node_bandwidth=float(found["inter_node_bandwidth"]))
    at = fleetcube.evaluate(["exposed_communication_time", "compute_time"], **LLAMA, **given)
    ratio = float(at["exposed_communication_time"]) / float(at["compute_time"])
    assert ratio == pytest.approx(1, rel=1e-9)


def test_a_quantity_that_is_computed_can_be_solved_for() -> None:
    """First order: waste = sqrt(2 d / M) + R / M at Young's interval."""
    given = dict(goodput_model="first_order", checkpoint_policy="young", checkpoint_stall_time=60.0)
    found = solve("cluster_mtbf", "goodput = 0.9", **given, recovery_time=0.0)
    assert float(found["cluster_mtbf"]) == pytest.approx(2 * 60.0 / 0.1**2, rel=1e-9)


def test_the_size_at_which_a_job_is_fastest_is_where_its_slope_is_0() -> None:
    found = solve("n_gpus", "d_job_time_d_n_gpus = 0", **LLAMA, whole=False)
    best = scipy.optimize.minimize_scalar(
        lambda x: float(fleetcube.evaluate("job_time", **LLAMA, n_gpus=math.exp(x))),
        bracket=(math.log(1e3), math.log(5e4)),
        options={"xtol": 1e-10},
    )
    assert float(found["n_gpus"]) == pytest.approx(math.exp(best.x), rel=1e-5)


def test_a_target_between_two_values_of_the_scan_is_found_where_the_output_turns() -> None:
    """Just above the least job time, both crossings lie between two values of the scan."""
    job = {**LLAMA, "calibration": "none"}  # whose curve has no corner there
    at = solve("n_gpus", "d_job_time_d_n_gpus = 0", **job, whole=False)
    wall = float(at["n_gpus"])
    least = float(fleetcube.evaluate("job_time", **job, n_gpus=wall))
    for share in (1e-2, 1e-4):
        aim = {"job_time": least * (1 + share)}
        found = solve("n_gpus", aim, **job, whole=False)
        assert float(found["n_gpus"]) < wall, "the smaller one of two solutions"
        assert float(found["job_time"]) == pytest.approx(aim["job_time"], rel=1e-9)
    beyond = solve("n_gpus", {"job_time": least * (1 - 1e-3)}, **job)
    assert np.isnan(beyond["n_gpus"])
    assert reason(beyond, int(beyond["unsolved_reason"])) == "always_above_target"


def test_why_there_is_no_answer() -> None:
    cases = {"always_above_target": ("n_gpus", "job_time = 1 s", LLAMA)}
    cases |= {"always_below_target": ("gpu_mttf", "goodput = 2", {**LLAMA, "n_gpus": 1024})}
    cases |= {"undefined": ("flops_efficiency", "job_time = 9 d", {**LLAMA, "n_gpus": 4})}
    for told, (name, target, scenario) in cases.items():
        found = solve(name, target, **scenario)
        assert np.isnan(found[name])
        assert reason(found, int(found["unsolved_reason"])) == told


def test_an_output_that_jumps_over_the_target_is_said() -> None:
    """Buckets are whole: 10.5 of them never are."""
    found = solve("bucket_bytes", "gradient_buckets = 10.5", **LLAMA, n_gpus=1024)
    assert reason(found, int(found["unsolved_reason"])) == "jumps_over_target"
    assert float(found["gradient_buckets"]) in (10, 11)


@cases(
    "for_, target, most",
    ("flops_efficiency", "job_time = 90 d", 6),
    ("n_gpus", "job_time = 60 d", 9),  # and a third of the points near the turning point
    ("gpu_mttf", "goodput = 0.95", 9),
    ("bucket_bytes", "gradient_buckets = 10.5", 53 + SLACK + 1 + 1),  # bisection, and the answer
)
def test_a_few_evaluations_find_what_is_smooth_and_bisection_bounds_the_rest(
    for_: str, target: str, most: float, monkeypatch: Patch
) -> None:
    seen: list[int] = []
    evaluate = Solver.evaluate

    def counted(self: Solver, tile: object, at: np.ndarray, names: list[str], *more: int) -> object:
        seen.append(at.size * len([name for name in names if name not in self.judged]))
        return evaluate(self, tile, at, names, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Solver, "evaluate", counted)
    axes: dict[str, object] = {"gpu_mttf": np.geomspace(2e7, 1e9, 20), "n_gpus": [4096.0]}
    if "job_time" in target:
        axes["inter_node_bandwidth"] = np.geomspace(2e10, 1e11, 20)
    axes.pop(for_, None)
    found = solve(for_, target, whole=False, settings=Settings("numpy"), **LLAMA, **axes)
    assert 3 < sum(seen) / found[for_].size <= most


def test_what_is_nearest_is_told_only_where_there_is_no_solution() -> None:
    """Formulas need not answer an input of NaN with NaN."""
    given = {**LLAMA, "n_gpus": [512, 4096, 32768]}
    found = solve("checkpoint_write_bandwidth", "goodput = 0.97", **given)
    assert found["unsolved_reason"].values.tolist() == [0, 0, 2]
    for name in ("goodput", "checkpoint_write_bandwidth"):
        assert np.isnan(found[f"nearest_{name}"]).values.tolist() == [True, True, False]


def test_whole_numbers_keep_to_the_target() -> None:
    for relation, keeps in (("<=", np.less_equal), (">=", np.greater_equal)):
        found = solve(
            "n_gpus", f"job_time {relation} 60 d", **LLAMA, pipeline_parallel=4, settings=MARKED
        )
        n = float(found["n_gpus"])
        assert n % 32 == 0, "whole replicas of 8 x 4 GPUs"
        assert keeps(float(found["job_time"]), 60 * DAY)
        other = n - 32 if relation == "<=" else n + 32
        beside = fleetcube.evaluate("job_time", **LLAMA, pipeline_parallel=4, n_gpus=other)
        assert not keeps(float(beside), 60 * DAY)


def test_the_range_can_be_given_if_it_is_one() -> None:
    aim = {"cluster_mtbf": float(fleetcube.evaluate("cluster_mtbf", n_gpus=4096))}
    assert float(solve("n_gpus", aim, between=[8, 1e5])["n_gpus"]) == 4096
    assert np.isnan(solve("n_gpus", aim, between=[8, 1024])["n_gpus"])
    for between in ([8, 8], "8:16", [1, 2, 3], [8, math.inf]):
        refused(r"between|finite", solve, "n_gpus", "cluster_mtbf = 1 h", between=between)  # type: ignore[arg-type]


FRAIL = on_h100("llama-3-405b", tensor_parallel=8, pipeline_parallel=16, n_gpus=16384)
FRAIL |= {"checkpoint_mode": "sync", "gpu_mttf": "50_000 h"}


def checkpoint_overhead(bandwidth: object) -> np.ndarray:
    given = {**FRAIL, "checkpoint_write_bandwidth": np.asarray(bandwidth)}
    return np.asarray(fleetcube.evaluate("checkpoint_overhead", **given), dtype=float)


def test_a_second_solution_is_told_and_found_above() -> None:
    """Storage so slow that rework leaves nothing to wait for keeps to the target, too."""
    found = solve("checkpoint_write_bandwidth", "checkpoint_overhead <= 2 %", **FRAIL)
    low, high = 1e6, 1e15
    over = checkpoint_overhead(np.geomspace(low, high, 2000)) > 0.02
    assert int(found["crossings"]) == np.count_nonzero(np.diff(over)) == 2
    above = float(found["next_above"])
    assert checkpoint_overhead([above])[0] > 0.02
    assert float(found["checkpoint_write_bandwidth"]) < above
    again = solve(
        "checkpoint_write_bandwidth", "checkpoint_overhead <= 2 %", between=[above, high], **FRAIL
    )
    root = scipy.optimize.brentq(
        lambda b: checkpoint_overhead([b])[0] - 0.02, above, high, rtol=1e-13
    )
    assert float(again["checkpoint_write_bandwidth"]) == pytest.approx(root, rel=1e-9)
    assert int(again["crossings"]) == 1
    assert np.isnan(again["next_above"])


def test_the_far_end_of_what_meets_a_bound_is_no_second_solution() -> None:
    """Job time falls and rises: "<=" is met between its crossings, "=" at both."""
    wall = float(solve("n_gpus", "d_job_time_d_n_gpus = 0", **LLAMA, settings=MARKED)["n_gpus"])
    least = float(fleetcube.evaluate("job_time", **LLAMA, n_gpus=wall))
    for share in (0.5, 1e-2):  # the second time, both lie between two values of the scan
        bound = f"{least * (1 + share)!r} s"
        between = solve("n_gpus", f"job_time <= {bound}", **LLAMA, settings=MARKED)
        assert int(between["crossings"]) == 2
        assert np.isnan(between["next_above"])
        both = solve("n_gpus", f"job_time = {bound}", **LLAMA, settings=MARKED)
        assert int(both["crossings"]) == 2
        above = float(both["next_above"])
        far = solve("n_gpus", f"job_time = {bound}", between=[above, 1e9], **LLAMA, settings=MARKED)
        assert float(far["n_gpus"]) > wall > float(both["n_gpus"])
        assert float(far["job_time"]) == pytest.approx(least * (1 + share), rel=1e-2)


def test_a_bound_that_always_holds_is_met_everywhere() -> None:
    for target in ("checkpoint_overhead <= 90 %", "checkpoint_overhead >= 0"):
        found = solve("checkpoint_write_bandwidth", target, **FRAIL)
        assert reason(found, int(found["unsolved_reason"])) == "met_everywhere"
        assert np.isnan(found["checkpoint_write_bandwidth"])
        assert np.isnan(found["checkpoint_overhead"])
    found = solve("checkpoint_write_bandwidth", "checkpoint_overhead = 90 %", **FRAIL)
    assert reason(found, int(found["unsolved_reason"])) == "always_below_target"


def test_how_near_an_output_comes_to_what_it_does_not_reach() -> None:
    mttf = ["10_000 h", "1_000_000 h"]
    given = {**LLAMA, "gpu_mttf": mttf, "between": [64, 65536], "whole": False}
    found = solve("n_gpus", "job_time <= 6 d", **given)
    sizes = np.geomspace(64, 65536, 17)
    times = fleetcube.evaluate("job_time", **LLAMA, gpu_mttf=mttf, n_gpus=sizes)
    assert (times <= 6 * DAY).any("n_gpus").values.tolist() == [False, False]
    np.testing.assert_allclose(found["nearest_job_time"], times.min("n_gpus"), rtol=1e-12)
    np.testing.assert_allclose(found["nearest_n_gpus"], times.idxmin("n_gpus"), rtol=1e-12)
    solved = solve("n_gpus", "job_time <= 60 d", **LLAMA)
    assert np.isnan(solved["nearest_n_gpus"])
    assert np.isnan(solved["nearest_job_time"])


def test_whether_the_point_found_can_run_is_told() -> None:
    given = {**LLAMA, "pipeline_parallel": [1, 4], "global_batch_size": 8191}  # a prime
    found = solve("n_gpus", "job_time <= 60 d", **given, settings=MARKED)
    told = found["infeasible_reason"]
    for stages, n in zip(told["pipeline_parallel"].values, found["n_gpus"].values, strict=True):
        at = {**given, "pipeline_parallel": float(stages), "n_gpus": float(n)}
        right = int(fleetcube.evaluate("infeasible_reason", **at))
        assert int(told.sel(pipeline_parallel=stages)) == right
        assert right > 0
    missing = solve("n_gpus", "job_time <= 1 s", **given)
    assert (missing["infeasible_reason"] == -1).all()
    room = solve(
        "n_gpus", "job_time <= 60 d", **LLAMA, hbm_capacity=["1 GB", "80 GB"], settings=MARKED
    )
    assert room["n_gpus"].dims == (), "not over what job time does not depend on"
    assert "infeasible_reason" not in room.coords, "which differs over it"


def test_a_bundle_that_is_cut_to_one_point_states_the_rest() -> None:
    bundle = {"n_gpus": [1024, 512], "tensor_parallel": [8, 4], "pipeline_parallel": [4, 2]}
    spec = {**{k: v for k, v in LLAMA.items() if k != "tensor_parallel"}}
    both = fleetcube.Sweep(spec, {"offer": {**bundle, "labels": ["a", "b"]}}, ["job_time"])
    refused("choose one point of it", both.solve, "n_gpus", "job_time <= 60 d")
    one = {name: row[1:] for name, row in bundle.items()}
    cut = fleetcube.Sweep(spec, {"offer": {**one, "labels": ["b"]}}, ["job_time"])
    own = {**spec, "tensor_parallel": 4, "pipeline_parallel": 2}
    alone = solve("n_gpus", "job_time <= 60 d", **own)
    assert cut.solve("n_gpus", "job_time <= 60 d")["n_gpus"].values.item() == float(alone["n_gpus"])


@cases(
    "for_, target, told",
    ("n_gpus", "job_tim <= 30 d", "did you mean 'job_time'"),
    ("n_gpus", "30 d", "is not a condition"),
    ("n_gpus", "job_time <= 30", "no unit"),
    ("n_gpus", "job_time = step_tokens", "does not start with a number"),
    ("n_gpus", "job_time = goodput", "compare like with like"),
    ("n_gpus", {"job_time": float("inf")}, "not finite"),
    ("fabric", "job_time = 30 d", "takes names"),
    ("all_reduce", "job_time = 30 d", "takes names"),
    ("pue", "job_time = 30 d", "does not depend on pue"),
    ("gpu_tdp", "step_time = 3 s", "efficiencies of calibration auto alone"),
    ("n_gps", "job_time = 30 d", "did you mean 'n_gpus'"),
)
def test_bad_questions(for_: str, target: object, told: str) -> None:
    refused(told, solve, for_, target, **LLAMA, n_gpus=64)


def test_targets_are_read() -> None:
    assert read_target(PHYSICS, "job_time<=30 d").level == 30 * DAY
    assert read_target(PHYSICS, "goodput >= 95 %").level == 0.95
    assert read_target(PHYSICS, "step_time = compute_time").outputs == ["step_time", "compute_time"]
    assert read_target(PHYSICS, {"goodput": 0.5}).relation == "="


@cases(
    "target, between, answer",
    ("job_time <= {}", [1, 2111], None),  # 2,112 meets it, of 2,048 and it
    ("job_time <= {}", [1, 2112], 2112),
    ("job_time >= {}", [2050, 4096], None),  # 2,048 would
    ("job_time >= {}", [2048, 4096], 2048),
    ("job_time = {}", [2050, 2111], None),  # no whole replica at all
    ("job_time = {}", [2050, 4096], 2112),
)
def test_whole_numbers_are_sought_within_the_range(target: str, between: Any, answer: Any) -> None:
    job = {**LLAMA, "pipeline_parallel": 8, "gpu_mttf": "50_000 h"}  # 64 GPUs to a replica
    aim = float(fleetcube.evaluate("job_time", **job, n_gpus=[2048, 2112]).mean())
    sweep = fleetcube.Sweep({**job, "n_gpus": 64}, {}, ["job_time"])
    found = sweep.solve("n_gpus", target.format(f"{aim!r} s"), between=between, settings=MARKED)
    if answer is None:
        assert math.isnan(found["n_gpus"])
        assert reason(found, int(found["unsolved_reason"])) == "jumps_over_target"
    else:
        assert float(found["n_gpus"]) == answer
        assert not found["unsolved_reason"]


@pytest.mark.slow  # some 120 questions
def test_a_drawn_bound_holds_at_what_is_solved_for() -> None:
    """By evaluating the output there: layers divide unevenly over most numbers of stages."""
    draw = generator(58)
    counts = {"pipeline_parallel": 40, "micro_batch_size": 8, "tensor_parallel": 16}
    reals = {"inter_node_bandwidth": (1e9, 1e12), "flops_efficiency": (0.1, 0.9)}
    asked: dict[tuple[str, str], int] = {}
    for _ in range(scaled(60, 40)):
        job = on_h100(str(draw.choice(["llama-3-405b", "llama-3-70b", "llama-2-13b"])), **UNEVEN)
        unknown = str(draw.choice([*["pipeline_parallel"] * 4, *counts, *reals]))
        job.pop(unknown, None)
        if unknown in counts:  # a level between those of two counts
            first = int(draw.integers(1, counts[unknown]))
            ends = [first, first + 1]
        else:
            ends = sorted(draw.uniform(*reals[unknown], 2).tolist())
        steps = fleetcube.evaluate("step_time", **job, **{unknown: ends}, settings=COUNTED).values
        level = float(np.broadcast_to(steps, 2) @ (share := draw.uniform(), 1 - share))
        relation = str(draw.choice(["<=", ">="]))
        mode = ("exclude", "mark", "include")[draw.integers(3)]
        sweep = fleetcube.Sweep(job, {}, ["step_time"], settings=Settings("numpy", mode))
        found = sweep.solve(unknown, f"step_time {relation} {level!r} s")
        if found["unsolved_reason"].item() == 0:
            there = {**job, unknown: found[unknown].item()}
            step = fleetcube.evaluate("step_time", **there, settings=COUNTED).item()
            assert step == pytest.approx(found["step_time"].item(), rel=1e-9)
            over = step / level - 1 if relation == "<=" else level / step - 1
            assert over <= 1e-9, f"step_time {relation} {level}: {step} at {there}"
            asked[relation, mode] = asked.get((relation, mode), 0) + 1
    assert len(asked) == 6, asked
