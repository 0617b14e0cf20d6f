"""Functions for other programs: sweeps' values and exact derivatives on every engine."""

import itertools
import math
import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pint
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fleetcube
from fleetcube import InputError, Settings, Sweep, function
from fleetcube.kernels.engines import scalar
from fleetcube.kernels.physics.inputs import INPUTS as INPUTS_OF_ALL

from ..draws import generator
from ..kernels import javascript as node
from ..table import each
from .common import Patch, on_h100, refused

ENGINES = ("numpy", "numba", "jax")
SCENARIO = on_h100("llama-3-70b", tensor_parallel=8, pipeline_parallel=4, global_batch_size=2048)
SCENARIO |= {"checkpoint_write_bandwidth": 1e11, "data_parallel_overlap": 0.5}
INPUTS = ["n_gpus", "gpu_mttf", "inter_node_bandwidth"]
POINT = {"n_gpus": 1024.0, "gpu_mttf": 1.8e8, "inter_node_bandwidth": 5e10}
OUTPUTS = ["job_time", "infeasible_reason", "d_goodput_d_n_gpus"]


def drawn(count: int) -> dict[str, Any]:
    """Points of the inputs: feasible and infeasible clusters, one of a single replica."""
    rng = generator(71)
    return {
        "n_gpus": rng.choice([32.0, 64.0, 100.0, 1024.0, 16384.0, 1e6], count),
        "gpu_mttf": rng.choice([1e4, 1.8e8, 1e12, math.inf], count),
        "inter_node_bandwidth": 10 ** rng.uniform(8, 12, count),
    }


def swept(outputs: list[str], points: dict[str, Any]) -> Any:
    names = [str(k) for k in range(len(points["n_gpus"]))]
    axes = {"point": {**{name: list(row) for name, row in points.items()}, "labels": names}}
    return Sweep(SCENARIO, axes, outputs).evaluate(settings=Settings("numpy"))


@pytest.mark.skipif(node.NODE is None, reason="node is not installed")
def test_a_module_of_javascript_computes_the_same(tmp_path: Path) -> None:
    points = drawn(60) | {"tensor_parallel": np.array([8.0, 4.0, 0.0] * 20)}  # 0 is out of bounds
    made = function(OUTPUTS, SCENARIO, [*points])
    source = made.javascript()
    source = source.replace("export function evaluate", "function named").replace("export ", "")
    source += "const evaluate = (row) => outputs.map("
    source += "(of) => named(Object.fromEntries(inputs.map((name, k) => [name, row[k]])))[of]);"
    found = node.run(source, np.stack([*points.values()], axis=1), len(OUTPUTS), tmp_path)
    for column, (name, values) in zip(found.T, made(points).items(), strict=True):
        assert_allclose(column, values, 1e-12, equal_nan=True, err_msg=name)
    assert np.isnan(found[2, 0])
    assert found[2, 1] == -1
    assert np.isfinite(found[:, 0]).any()


def test_a_function_may_take_more_inputs_than_numpy_has_dimensions() -> None:
    reals = (n for n, row in INPUTS_OF_ALL.items() if row.kind == "real" and row.default)
    names = [name for name in reals if name not in SCENARIO][:70]
    assert len(function("goodput", SCENARIO | {"n_gpus": 1024}, names).inputs) == 70


@pytest.mark.slow
@each("engine", ENGINES)
def test_values_are_those_of_a_sweep(engine: str) -> None:
    points = drawn(60)
    expected = swept(OUTPUTS, points)
    with jax.enable_x64(True):
        of = function(OUTPUTS, SCENARIO, INPUTS, engine=engine)
        over = of(points)
        assert all(over[name].dtype == expected[name].dtype for name in OUTPUTS)
        each_point = [of({name: row[k].item() for name, row in points.items()}) for k in range(60)]
        for name in OUTPUTS:
            one_by_one = np.array([np.asarray(at[name]) for at in each_point])
            for values in (np.asarray(over[name]), one_by_one):
                assert_allclose(values, expected[name].values, rtol=1e-12 if engine == "jax" else 0)


@pytest.mark.slow
def test_a_kernel_compiled_meanwhile_gives_the_same_bits(monkeypatch: Patch) -> None:
    monkeypatch.setattr(scalar, "CALLS", 20)
    of, numpy = (
        function(OUTPUTS, SCENARIO, INPUTS),
        function(OUTPUTS, SCENARIO, INPUTS, engine="numpy"),
    )
    points = [{name: float(row[k]) for name, row in drawn(60).items()} for k in range(60)]
    points += [{**POINT, "n_gpus": -1.0}, {**POINT, "gpu_mttf": math.nan}]
    expected = [numpy(point) for point in points]

    def same(k: int) -> bool:
        pairs = [(of(points[k])[name], value) for name, value in expected[k].items()]
        return all(type(a) is type(b) and a.tobytes() == b.tobytes() for a, b in pairs)

    end = time.monotonic() + 120
    while of._point._compiled is None and time.monotonic() < end:
        assert all(map(same, range(len(points))))
    assert of._point._compiled is not None
    assert all(map(same, range(len(points))))
    with ThreadPoolExecutor(4) as pool:  # one has the kernel, the others are interpreted
        assert all(pool.map(same, [*range(len(points))] * 20))


@pytest.mark.slow
@each("engine", ENGINES)
def test_arrays_broadcast_as_in_numpy(engine: str) -> None:
    with jax.enable_x64(True):
        outputs = ["data_parallel_time", "layout_reason", "cluster_mtbf"]
        of = function(outputs, SCENARIO, INPUTS, engine=engine)
        n, mttf = np.array([[512], [1024]]), np.array([1e8, 1.8e8, 1e9])
        found = of(n, mttf, np.float32(2**35))
        assert {np.shape(value) for value in found.values()} == {(2, 3)}
        for (i, k), value in np.ndenumerate(np.asarray(found["cluster_mtbf"])):
            point = of(n_gpus=int(n[i, 0]), gpu_mttf=mttf[k], inter_node_bandwidth=2**35)
            assert_allclose(value, point["cluster_mtbf"], rtol=1e-14)
        assert np.shape(of(np.ones((0, 2)), 1e8, 1e9)["cluster_mtbf"]) == (0, 2)
        assert np.shape(of(np.array(1024), 1e8, 1e9)["cluster_mtbf"]) == ()
        one = function("cluster_mtbf", {"gpu_mttf": 1e8}, "n_gpus", engine=engine)
        assert np.shape(one([512, 1024])) == (2,)
        assert float(one(1024)) == float(one(n_gpus=1024)) == float(one({"n_gpus": 1024}))


@pytest.mark.slow
@each("engine", ENGINES)
def test_gradients_are_those_of_a_sweep(engine: str) -> None:
    points = drawn(40)
    for name in INPUTS:
        points[name] = np.where(np.isinf(points[name]), 1e12, points[name])
    names = [f"d_{of}_d_{wrt}" for of in ("cluster_mtbf", "goodput") for wrt in INPUTS]
    expected = swept(names, points)
    with jax.enable_x64(True):
        slopes = function(["cluster_mtbf", "goodput"], SCENARIO, INPUTS, engine=engine).gradient()
        found = slopes(points)
        for of, wrt in itertools.product(found, INPUTS):
            assert_allclose(found[of][wrt], expected[f"d_{of}_d_{wrt}"], rtol=2e-12, atol=1e-300)
        one = function("goodput", SCENARIO, INPUTS, engine=engine).gradient("gpu_mttf")
        assert (list(one(POINT)), one.units["d_goodput_d_gpu_mttf"]) == (["gpu_mttf"], "1/s")


@pytest.mark.slow
def test_jax_differentiates_by_the_projects_own_derivatives() -> None:
    points = drawn(12)
    points["gpu_mttf"] = np.where(np.isinf(points["gpu_mttf"]), 1e12, points["gpu_mttf"])
    with jax.enable_x64(True):
        of = function("goodput", SCENARIO, INPUTS, engine="jax")
        exact = function("goodput", SCENARIO, INPUTS).gradient()(points)
        arrays = {name: jnp.asarray(row) for name, row in points.items()}
        reverse = jax.jit(jax.vmap(jax.grad(lambda at: of(at))))(arrays)
        forward = jax.jit(jax.vmap(jax.jacfwd(lambda at: of(at))))(arrays)
        total = jax.grad(lambda at: of(at).sum())(arrays)  # through arrays, and not jitted
        for name in INPUTS:
            for found in (reverse, forward, total):
                assert_allclose(found[name], exact[name], rtol=2e-12)
        # Of one input only, where it is an array and the others are not
        slopes = jax.jacrev(lambda n: of(n, 1.8e8, 5e10))(arrays["n_gpus"])
        at = function("goodput", SCENARIO, INPUTS).gradient()(points["n_gpus"], 1.8e8, 5e10)
        assert_allclose(slopes, np.diag(at["n_gpus"]), rtol=2e-12)


@pytest.mark.slow
def test_second_derivatives_are_exact() -> None:
    with jax.enable_x64(True):
        # Young: t = sqrt(2 C M), so that t'' = -t / (4 M^2)
        scenario = {"checkpoint_stall_time": 60.0}
        of = function("young_interval", scenario, ["cluster_mtbf"], engine="jax")
        expected = -math.sqrt(2 * 60.0 * 1e5) / (4 * 1e10)
        assert math.isclose(float(jax.grad(jax.grad(of))(1e5)), expected, rel_tol=1e-13)
        assert math.isclose(float(jax.hessian(of)(1e5)), expected, rel_tol=1e-13)
        job = function("goodput", SCENARIO, ["n_gpus", "gpu_mttf"], engine="jax")
        curved = jax.jit(jax.hessian(job, argnums=(0, 1)))(1024.0, 1.8e8)
        # A first derivative of 0 still has a slope: no cards, M = 1 / (n / m + n c / (8 k))
        cards = {"n_gpus": 1024, "gpu_mttf": 1e8}
        of = function("cluster_mtbf", cards, ["nics_per_node", "nic_mttf"], engine="jax")
        at_none = jax.hessian(of, argnums=(0, 1))(0.0, 2e8)
        mtbf, nodes = 1e8 / 1024, 1024 / 8
        assert float(at_none[1][1]) == 0
        assert math.isclose(float(at_none[0][0]), 2 * mtbf**3 * (nodes / 2e8) ** 2, rel_tol=1e-12)
        for mixed in (at_none[0][1], at_none[1][0]):
            assert math.isclose(float(mixed), mtbf**2 * nodes / 2e8**2, rel_tol=1e-12)
        # A constant slope: GPU hours grow as 1 / (peak), with second derivative 2 / peak^2
        of = function("gpu_hours", SCENARIO | POINT, ["training_tokens"], engine="jax")
        assert abs(float(jax.grad(jax.grad(of))(1e12))) <= 1e-12 * float(of(1e12)) / 1e24
    slopes = function("goodput", SCENARIO, ["n_gpus", "gpu_mttf"]).gradient()
    for k, (name, at) in enumerate((("n_gpus", 1024.0), ("gpu_mttf", 1.8e8))):
        step = 1e-4 * at
        here = {"n_gpus": 1024.0, "gpu_mttf": 1.8e8}
        up, down = slopes({**here, name: at + step}), slopes({**here, name: at - step})
        for j, other in enumerate(here):
            between = (up[other] - down[other]) / (2 * step)
            assert math.isclose(float(curved[k][j]), between, rel_tol=1e-6), (name, other)
    assert math.isclose(float(curved[0][1]), float(curved[1][0]), rel_tol=1e-12)


@pytest.mark.slow
def test_a_branch_not_taken_does_no_harm() -> None:
    """One replica: nothing to reduce, and the divisor is 0 on the other branch."""
    ways: dict[str, Any] = {
        "one replica": {"n_gpus": 32.0, "gpu_mttf": 1.8e8, "inter_node_bandwidth": 5e10},
        "no failures": {"n_gpus": 1024.0, "gpu_mttf": math.inf, "inter_node_bandwidth": 5e10},
    }
    with jax.enable_x64(True):
        of = function("step_time", SCENARIO, INPUTS, engine="jax")
        for way, point in ways.items():
            first = jax.grad(lambda at: of(at))(point)
            second = jax.jacrev(jax.grad(lambda at: of(at)))(point)
            assert np.isfinite([float(value) for value in first.values()]).all(), way
            rows = [float(v) for row in second.values() for v in row.values()]
            assert np.isfinite(rows).all(), way
            for name in INPUTS:
                exact = fleetcube.evaluate(f"d_step_time_d_{name}", **SCENARIO, **point)
                assert math.isclose(first[name], exact, rel_tol=1e-12), (way, name)


@pytest.mark.slow
@each("engine", ENGINES)
def test_beyond_the_bounds_there_is_no_number(engine: str) -> None:
    with jax.enable_x64(True):
        of = function(["goodput", "infeasible_reason"], SCENARIO, INPUTS, engine=engine)
        slopes = function("goodput", SCENARIO, INPUTS, engine=engine).gradient()
        wrongs = [("n_gpus", 0.5), ("n_gpus", -1024.0), ("gpu_mttf", 0.0)]
        wrongs += [("inter_node_bandwidth", wrong) for wrong in (math.inf, math.nan)]
        for name, wrong in wrongs:
            point = {**POINT, name: wrong}
            with pytest.raises(InputError):
                fleetcube.evaluate("goodput", **SCENARIO, **point)
            found = of(point)
            assert math.isnan(found["goodput"])
            assert int(found["infeasible_reason"]) == -1
            assert all(math.isnan(value) for value in slopes(point).values())
            over = of({k: np.array([v, POINT[k]]) for k, v in point.items()})
            assert np.isnan(np.asarray(over["goodput"])).tolist() == [True, False]
        given = function("goodput", SCENARIO, ["cluster_mtbf", "n_gpus"], engine=engine)
        assert math.isnan(given(-5.0, 1024.0))
        assert math.isnan(given(math.nan, 1024.0))
        assert math.isfinite(of({**POINT, "gpu_mttf": math.inf})["goodput"])
        assert math.isfinite(of({**POINT, "n_gpus": 32.0})["goodput"])


def test_what_a_function_gives_is_as_if_the_scenario_gave_it() -> None:
    """Options implied by an input, a label's totals voided by it, a given quantity."""
    for inputs, point, outputs in (
        (["fixed_checkpoint_interval"], {"fixed_checkpoint_interval": 600.0}, ["goodput"]),
        (["layers"], {"layers": 40.0}, ["step_time"]),
        (["cluster_mtbf"], {"cluster_mtbf": 1e5}, ["goodput"]),
        (["step_time", "n_gpus"], {"step_time": 3.0, "n_gpus": 512.0}, ["job_time"]),
    ):
        rest = {"n_gpus": 1024, **SCENARIO}
        given = {**{name: value for name, value in rest.items() if name not in point}, **point}
        expected = fleetcube.evaluate(outputs, **given)
        found = function(outputs, rest, inputs)(point)
        for name in outputs:
            assert found[name] == expected[name].item()


def test_outputs_that_no_input_moves_are_constants() -> None:
    for engine in ENGINES:
        of = function(
            ["step_time", "goodput"], {**SCENARIO, "n_gpus": 1024}, "gpu_mttf", engine=engine
        )
        found = of(np.array([1e8, 2e8, -1.0]))
        assert np.isnan(np.asarray(found["step_time"])).tolist() == [False, False, True]
        assert found["step_time"][0] == found["step_time"][1]
        assert of.unused == ()
    assert function("step_time", {**SCENARIO, "n_gpus": 8}, "gpu_mttf").unused == ("gpu_mttf",)


@pytest.mark.slow
def test_compiled_code_calls_it() -> None:
    names = ["n_gpus", "gpu_mttf"]
    one = function("cluster_mtbf", SCENARIO, names, engine="numba")
    several = function(["cluster_mtbf", "layout_reason"], SCENARIO, names, engine="numba")
    slopes = one.gradient(["n_gpus"])

    @numba.njit
    def simulation(law: Any, n: float, mttf: Any) -> Any:
        both = several(n, mttf)
        slope = slopes(gpu_mttf=mttf, n_gpus=n)
        return law(n, mttf), both.cluster_mtbf, both.layout_reason, slope

    for mttf in (1.8e8, np.array([[1e8], [math.inf]])):
        given, again, reason, change = simulation(one, 1024, mttf)
        expected = several(1024, mttf)
        assert_array_equal(given, expected["cluster_mtbf"])
        assert_array_equal(again, expected["cluster_mtbf"])
        assert_array_equal(reason, expected["layout_reason"])
        assert_array_equal(change, slopes(1024, mttf)["n_gpus"])
    # numba caches by file name: it would call an earlier scenario's function
    kept = numba.njit(cache=True)(lambda n: one(n, 1e8))
    with pytest.warns(numba.NumbaWarning, match="Cannot cache compiled function"):
        assert kept(1024.0) == one(1024.0, 1e8)
    plain = function("cluster_mtbf", SCENARIO, names)
    with pytest.raises(Exception, match="make it with engine = 'numba'"):
        simulation(plain, 1024.0, 1e8)


@pytest.mark.slow
def test_machine_code_is_kept(tmp_path: Path) -> None:
    script = (
        "from fleetcube import function; from fleetcube.kernels.engines import point_code\n"
        "made, compiled = [], point_code.compiled\n"
        "point_code.compiled = lambda *given: (made.append(1), compiled(*given))[1]\n"
        "of = function('cluster_mtbf', {'n_gpus': 8}, 'gpu_mttf', engine='numba')\n"
        "assert of(1e8) > 0; print(len(made))\n"
    )
    environment = {**os.environ, "FLEETCUBE_CACHE": str(tmp_path)}
    given = dict(capture_output=True, text=True, env=environment)
    found = [subprocess.run([sys.executable, "-c", script], **given) for _ in range(2)]
    assert [(done.stdout, done.stderr) for done in found] == [("1\n", ""), ("0\n", "")]


@pytest.mark.slow
@each("engine", ENGINES)
def test_functions_are_values(engine: str) -> None:
    both = ["young_interval", "cluster_mtbf"]
    of = function(both, SCENARIO, INPUTS, engine=engine)
    same = function(both, dict(SCENARIO), tuple(INPUTS), engine=engine)
    asked: list[Any] = [(both, {**SCENARIO, "nic_mttf": 1e9}, INPUTS)]
    asked += [(both[::-1], SCENARIO, INPUTS)]
    asked += [(both, SCENARIO, INPUTS[::-1]), (both[1:], SCENARIO, INPUTS)]
    asked += [(both[1], SCENARIO, INPUTS)]
    others = [*(function(*given, engine=engine) for given in asked), of.gradient()]
    assert len({of, same, *others}) == 1 + len(others)
    for one in (of, *others):
        copy = pickle.loads(pickle.dumps(one))
        assert (copy, hash(copy), str(copy(POINT))) == (one, hash(one), str(one(POINT)))
    with ThreadPoolExecutor(8) as threads:
        at = [{**POINT, "n_gpus": 64.0 * k} for k in range(1, 65)]
        assert list(map(str, threads.map(of, at))) == [str(of(point)) for point in at]
    assert (of.units["inter_node_bandwidth"], of.units["cluster_mtbf"]) == ("B/s", "s")
    assert of.sources["young_interval"].startswith("Young 1974")
    assert "gpu_mttf [s]: mean time to failure of one GPU" in str(of.__doc__)


@pytest.mark.slow
def test_jax_exports_shards_and_keeps_the_type() -> None:
    of = function("job_time", SCENARIO, INPUTS, engine="jax")
    narrow = of(*[jnp.float32(value) for value in POINT.values()])
    assert narrow.dtype == jnp.float32
    with jax.enable_x64(True):
        exact = of(POINT)
        assert exact.dtype == jnp.float64
        assert math.isclose(float(narrow), float(exact), rel_tol=1e-5)
        kinds = [jax.ShapeDtypeStruct((4,), jnp.float64)] * 3
        (size,) = jax.export.symbolic_shape("b")
        row = jax.ShapeDtypeStruct((size,), jnp.float64)
        any_size = jax.export.export(jax.jit(of))(row, row, row)
        exported = jax.export.export(jax.jit(of))(*kinds)
        rows = [jnp.full(4, value) for value in POINT.values()]
        assert_array_equal(exported.call(*rows), jax.jit(of)(*rows))
        assert_array_equal(any_size.call(*rows), exported.call(*rows))
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("points",))
        spec = jax.sharding.PartitionSpec("points")
        sharded = jax.shard_map(of, mesh=mesh, in_specs=(spec,) * 3, out_specs=spec)
        assert_allclose(jax.jit(sharded)(*rows), exact, rtol=1e-14)
        assert float(of(jnp.int32(1024), 1.8e8, 5e10)) == float(exact)


@each("engine", ENGINES)
def test_whatever_holds_numbers_is_taken(engine: str) -> None:
    """Also in JAX's 32 bits, where integers above 2^31 would be truncated."""
    of = function("cluster_mtbf", {}, ["n_gpus", "gpu_mttf"], engine=engine)
    right = function("cluster_mtbf", {}, ["n_gpus", "gpu_mttf"])(1024.0, 1e11)
    for n, mttf in (
        (1024, 10**11),
        (np.int64(1024), np.array([10**11])),
        (np.ma.array([1024]), [10**11]),
        (range(1024, 1025), np.array([1e11], ">f8")),
        (np.float32(1024), np.longdouble(1e11)),
    ):
        assert np.allclose(np.asarray(of(n, mttf)), right, rtol=1e-6)


BAD_CALLS: dict[str, tuple[Any, str]] = {
    "missing": (((), {"n_gpus": 8}), "gpu_mttf is missing; give n_gpus, gpu_mttf"),
    "misspelt": (((), {**POINT, "n_gpu": 8}), "'n_gpu' is not an input .* did you mean 'n_gpus'"),
    "twice": (((8.0,), POINT), "n_gpus is given by place and by name"),
    "too many": (((1, 2, 3, 4), {}), "4 values are given to a function of 3"),
    "text": (((8, "50_000 h", 1e9), {}), "gpu_mttf = '50_000 h' .*; give numbers in s"),
    "true": (((True, 1e8, 1e9), {}), "n_gpus = True is not a real number"),
    "complex": (((8, 1e8, np.array([1j])), {}), "is not a real number; give numbers in B/s"),
    "shapes": ((([1, 2], [1, 2, 3], 1e9), {}), r"do not broadcast: n_gpus \(2,\), gpu_mttf \(3,\)"),
    "masked": (((np.ma.array([8.0, 9.0], mask=[0, 1]), 1e8, 1e9), {}), "n_gpus is a masked array"),
    "huge": (((10**400, 1e8, 1e9), {}), "is not a real number"),
    "ragged": ((([[1], [1, 2]], 1e8, 1e9), {}), "is not a real number"),
    "deep": (((8, np.ones((1,) * 33), 1e9), {}), "gpu_mttf has 33 dimensions; give at most 32"),
    "with a unit": (((8, 50_000 * pint.UnitRegistry().hour, 1e9), {}), "gpu_mttf = .* has a unit"),
    "short": ((jnp.ones((3, 2), "bfloat16"), {}), "bfloat16, too short for these laws"),
    "labelled": (
        ((fleetcube.evaluate("cluster_mtbf", n_gpus=[8, 16], gpu_mttf=1e8), 1e8, 1e9), {}),
        "n_gpus is a DataArray",
    ),
}


@each("name", BAD_CALLS)
def test_a_bad_call_is_refused_in_one_line(name: str) -> None:
    (values, named), message = BAD_CALLS[name]
    for engine in ENGINES:
        of = function("job_time", SCENARIO, INPUTS, engine=engine)
        refused(message, of, *values, **named)
        if engine == "jax":  # also where it is traced, before any kernel
            with pytest.raises(InputError, match=message):
                jax.jit(lambda k: of(*values, **named) + k)(1.0)  # noqa: B023


BAD_FUNCTIONS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "an option": (("job_time", SCENARIO, ["precision"]), {}, "takes names, not numbers"),
    "a label": (("job_time", SCENARIO, ["fabric"]), {}, "'fabric' takes names, not numbers"),
    "unknown": (("job_time", SCENARIO, ["n_gpu"]), {}, "did you mean 'n_gpus'"),
    "no inputs": (("job_time", SCENARIO, []), {}, "name at least one"),
    "twice": (("job_time", SCENARIO, ["n_gpus", "n_gpus"]), {}, "appears twice"),
    "no output": (([], SCENARIO, INPUTS), {}, "name at least one quantity"),
    "an input": (("tensor_parallel", SCENARIO, INPUTS), {}, "is an input"),
    "missing": (("job_time", {}, INPUTS), {}, "layers is missing"),
    "both": (("step_time", SCENARIO, ["step_time"]), {}, "both an output and an input"),
    **{
        repr(what): ((what, SCENARIO, INPUTS), {}, "is not a (list of names|name)")
        for what in (None, 5, math.nan, b"job_time")
    },
    "engine": (("job_time", SCENARIO, INPUTS), {"engine": "torch"}, "choose one of auto, numpy"),
    "whole": (("delta_job_time_delta_n_gpus", SCENARIO, INPUTS), {}, "d_job_time_d_n_gpus, or see"),
    "computed": (("d_job_time_d_step_time", SCENARIO, INPUTS), {}, "needs a given step_time"),
}


@each("name", BAD_FUNCTIONS)
def test_a_bad_function_is_refused_when_it_is_made(name: str) -> None:
    values, named, message = BAD_FUNCTIONS[name]
    refused(message, function, *values, **named)


def test_a_traced_value_is_named_where_a_number_is_needed() -> None:
    for traced in (
        lambda n: fleetcube.evaluate("job_time", **SCENARIO, gpu_mttf=1e8, n_gpus=n),
        lambda n: Sweep(SCENARIO, {"n_gpus": [n, 2 * n]}, ["job_time"]),
        lambda n: function("job_time", {**SCENARIO, "n_gpus": n}, ["gpu_mttf"], engine="jax")(1e8),
    ):
        with pytest.raises(InputError, match=r"n_gpus is traced by JAX.*fleetcube\.function"):
            jax.jit(traced)(1024.0)
    of = function("job_time", SCENARIO, INPUTS)
    with pytest.raises(InputError, match=r"n_gpus is traced .* make it with engine = 'jax'"):
        jax.grad(of)(1024.0, 1e8, 1e9)
