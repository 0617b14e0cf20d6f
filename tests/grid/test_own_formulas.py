"""Formulas of others are quantities like ours, where a sweep names them and nowhere else."""

import importlib
import json
import multiprocessing
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube import InputError, Settings, Sweep
from fleetcube.kernels.graph import modules
from fleetcube.kernels.physics.graph import PHYSICS

CODE = '''
from fleetcube.graph import np, quantity, where

SHARE = 0.5


def _idle(stages):
    return SHARE * (stages - 1)


@quantity(replaces="bubble_ratio")
def half_bubble(pipeline_parallel, num_microbatches, stage_chunks):
    """Half of 1F1B's bubble.

    Returns: [1] bubble over ideal time
    Source: a lab, note 7
    """
    return _idle(pipeline_parallel) / (stage_chunks * num_microbatches)


@quantity(replaces="microbatches_in_flight")
def more_in_flight(pipeline_parallel, num_microbatches):
    """Micro-batches that a stage holds.

    Returns: [1] micro-batches
    Source: a lab, note 7
    """
    return np.minimum(num_microbatches, 2 * pipeline_parallel)


@quantity(replaces="schedule_depth")
def schedule_depth(pipeline_parallel):
    """Micro-batches that a stage may hold.

    Returns: [1] micro-batches
    Source: a lab, note 7
    """
    return 2 * pipeline_parallel


@quantity
def idle_hours(bubble_fraction, step_time, n_gpus):
    """GPU time lost to the bubble in a step.

    Returns: [s] time
    Source: by definition
    """
    return where(n_gpus > 1, bubble_fraction * step_time * n_gpus, 0.0)


@quantity
def lab_share():
    """A number of the lab's own, which a scenario may give.

    Returns: [1] share
    Source: by definition
    """
    return 0.25


@quantity
def lab_cost(idle_hours, lab_share):
    """Part of the lost time.

    Returns: [s] time
    Source: by definition
    """
    return lab_share * idle_hours
'''
JOB = {
    "model": "llama-3-70b",
    "node": "dgx-h100",
    "fabric": "infiniband-ndr",
    "tensor_parallel": 8,
    "pipeline_parallel": 4,
    "sequence_parallel": True,
    "global_batch_size": 2048,
}
AXES = {"n_gpus": [512, 1024, 4096], "straggler_slowdown": [1.0, 1.2]}
NEW = ["idle_hours", "lab_cost"]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Writes a module that can be imported, and gives its name; all is forgotten at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    # Python takes bytecode for that of a file of the same size and second
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = {*sys.modules}

    def write(code: str = CODE, name: str = "lab_formulas") -> str:
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        return name

    yield write
    for name in {*sys.modules} - before:
        if name.startswith("lab_"):
            del sys.modules[name]
    modules._module.cache_clear()


def with_it(outputs: list[str], name: str, **more: Any) -> Sweep:
    return Sweep({**JOB, **more}, AXES, outputs, graph=name)


def test_a_formula_of_others_takes_the_place_of_ours_and_new_ones_are_added(
    written: Callable[..., str],
) -> None:
    found = with_it(["bubble_ratio", "bubble_fraction", *NEW], written()).evaluate()
    batches = 2048 / (np.array(AXES["n_gpus"]) / 32)
    ratio = 0.5 * 3 / batches
    np.testing.assert_allclose(found["bubble_ratio"], ratio)
    np.testing.assert_allclose(found["bubble_fraction"], ratio / (1 + ratio))
    np.testing.assert_allclose(found["lab_cost"], 0.25 * found["idle_hours"])
    assert found["idle_hours"].attrs["units"] == "s"
    assert "a lab, note 7" in found["bubble_ratio"].attrs["references"]
    told = found.attrs["fleetcube_remarks"]
    assert "has its own bubble_ratio, microbatches_in_flight, schedule_depth, idle_hours" in told


def test_memory_and_step_follow_the_schedule(written: Callable[..., str]) -> None:
    names = ["step_time", "memory_per_gpu"]
    ours, theirs = Sweep(JOB, AXES, names).evaluate(), with_it(names, written()).evaluate()
    assert (theirs["step_time"] < ours["step_time"]).all()
    assert (theirs["memory_per_gpu"] > ours["memory_per_gpu"]).any()


def test_sweeps_that_do_not_name_it_are_as_before(written: Callable[..., str]) -> None:
    names, known = ["step_time", "bubble_ratio"], [*PHYSICS.quantities]
    before = Sweep(JOB, AXES, names).evaluate()
    with_it(names, written()).evaluate()
    after = Sweep(JOB, AXES, names)
    assert before.identical(after.evaluate())
    assert [*PHYSICS.quantities] == known
    for refused in (
        lambda: Sweep(JOB, AXES, ["idle_hours"]),
        lambda: Sweep({**JOB, "lab_share": 0.5}, AXES, names),
        lambda: Sweep(JOB, AXES, ["d_idle_hours_d_straggler_slowdown"]),
    ):
        with pytest.raises(InputError, match=r"is not a(n input| quantity); "):
            refused()


@pytest.mark.parametrize("engine", ["numba", pytest.param("jax", marks=pytest.mark.slow)])
def test_every_engine_has_the_same_values(written: Callable[..., str], engine: Any) -> None:
    sweep = with_it(["step_time", "bubble_ratio", *NEW], written())
    one, other = (sweep.evaluate(settings=Settings(each)) for each in ("numpy", engine))
    for name in one.data_vars:
        np.testing.assert_allclose(other[name], one[name], rtol=1e-12)


def test_derivatives_are_the_slopes_of_the_values(written: Callable[..., str]) -> None:
    name = written()
    scenario = {**JOB, "n_gpus": 1024}
    slope = f"d_{NEW[1]}_d_"
    for wrt, at in (("straggler_slowdown", 1.1), ("lab_share", 0.3)):
        exact = Sweep({**scenario, wrt: at}, {}, [slope + wrt], graph=name).evaluate()
        step = 1e-6 * at
        ends = [at - step, at + step]
        low, high = Sweep(scenario, {wrt: ends}, [NEW[1]], graph=name).evaluate()[NEW[1]].values
        np.testing.assert_allclose(float(exact[slope + wrt]), (high - low) / (2 * step), rtol=1e-6)


def test_answers_use_it(written: Callable[..., str]) -> None:
    name = written()
    sweep = Sweep({**JOB, "n_gpus": 1024}, {}, ["step_time", "idle_hours"], graph=name)
    ranked = sweep.rank_inputs("idle_hours")
    assert "straggler_slowdown" in map(str, ranked["input"].values)
    half = float(sweep.evaluate()["idle_hours"]) / 2
    solved = sweep.with_outputs(["lab_cost"]).solve("lab_share", f"lab_cost = {half} s")
    np.testing.assert_allclose(float(solved["lab_share"]), 0.5, rtol=1e-6)
    free = {key: JOB[key] for key in ("model", "node", "fabric", "global_batch_size")}
    free |= {"recompute": "full", "zero_stage": 1}
    best = Sweep({**free, "n_gpus": 2048}, {}, ["step_time"], graph=name).best(
        "step_time", 1, search=["pipeline_parallel", "tensor_parallel"]
    )
    at = {n: best[n].values.ravel()[0].item() for n in ("pipeline_parallel", "tensor_parallel")}
    again = Sweep({**free, "n_gpus": 2048, **at}, {}, ["step_time"], graph=name).evaluate()
    np.testing.assert_allclose(best["step_time"].values.ravel()[0], again["step_time"], rtol=1e-12)


def test_a_function_and_its_javascript_have_the_formula(written: Callable[..., str]) -> None:
    name = written()
    modules.imported(name)
    job = {**JOB, "graph": name}
    made = fleetcube.function("lab_cost", job, ["n_gpus", "lab_share"])
    whole = Sweep({**JOB, "n_gpus": 512.0, "lab_share": 0.5}, {}, ["lab_cost"], graph=name)
    np.testing.assert_allclose(made(512.0, 0.5), whole.evaluate()["lab_cost"], rtol=1e-12)
    assert made.sources["lab_cost"] == "by definition"
    assert "lab_share" in made.javascript()
    assert pickle.loads(pickle.dumps(made)) == made


def test_explain_says_whose_formula_it_is(written: Callable[..., str]) -> None:
    name = written()
    text = " ".join(fleetcube.explain("bubble_ratio", graph=name).split())
    assert f"replaces bubble_ratio of fleetcube by the graph {name}@" in text
    assert "source: a lab, note 7" in text
    assert "code: lab_formulas.py, half_bubble" in text
    text = " ".join(fleetcube.explain("lab_cost", graph=name).split())
    assert "is added to fleetcube by the graph" in text
    assert "Narayanan" in fleetcube.explain("bubble_ratio")
    with pytest.raises(InputError, match="neither an input nor a quantity"):
        fleetcube.explain("lab_cost")


def _facts(cube: Path) -> dict[str, Any]:
    text = (cube / ".fleetcube/record/plan").read_text(encoding="utf-8")
    return dict(json.loads(text.partition(" ")[2]))


def test_the_hash_is_that_of_the_code_and_its_constants(
    written: Callable[..., str], tmp_path: Path
) -> None:
    digests = []
    for k, code in enumerate((CODE, CODE, CODE.replace("SHARE = 0.5", "SHARE = 0.6"))):
        name = written(code)
        sys.modules.pop(name, None)
        with_it(["bubble_ratio"], name).to_zarr(tmp_path / f"{k}.zarr")
        digests.append(_facts(tmp_path / f"{k}.zarr")[f"graph.{name}"])
    assert digests[0] == digests[1] != digests[2]
    changed = CODE.replace("SHARE * (stages - 1)", "SHARE * (stages - 1.0)")
    name = written(changed)
    sys.modules.pop(name)
    assert modules.imported(name).digest not in digests


@pytest.mark.parametrize("engine", ["numpy", "numba", "jax"])
def test_a_constant_changed_in_the_process_is_another_graph(
    written: Callable[..., str], engine: Any
) -> None:
    name = written()
    sweep = with_it(["bubble_ratio"], name)
    before = with_it(["bubble_ratio"], name).evaluate(settings=Settings(engine))
    sys.modules[name].SHARE = 0.25  # type: ignore[attr-defined]
    np.testing.assert_array_equal(
        sweep.evaluate(settings=Settings(engine)).bubble_ratio, before.bubble_ratio
    )
    after = with_it(["bubble_ratio"], name)
    np.testing.assert_allclose(
        after.evaluate(settings=Settings(engine)).bubble_ratio, before.bubble_ratio / 2
    )
    assert sweep.spec["scenario"]["graph"] != after.spec["scenario"]["graph"]


def test_a_file_changed_since_it_was_imported_is_refused(
    written: Callable[..., str],
) -> None:
    name = written()
    importlib.import_module(name)
    written(CODE.replace("SHARE * (stages - 1)", "SHARE * (stages - 2)"))
    with pytest.raises(InputError, match="half_bubble is other code than its source; start"):
        with_it(["bubble_ratio"], name)


def test_a_cube_without_its_graph_is_read_and_never_computed_by_another(
    written: Callable[..., str], tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    name = written()
    sweep = with_it(["step_time", "bubble_ratio"], name)
    sweep.to_zarr(tmp_path / "cube.zarr")
    held = sweep.evaluate()["bubble_ratio"].values
    fleetcube.open_cube(tmp_path / "cube.zarr")
    assert not recwarn.list
    pinned = sweep.spec["scenario"]["graph"][0]

    del sys.modules[name]
    missing = f"the graph '{name}' with hash {pinned.partition('@')[2]} is missing"
    with pytest.warns(UserWarning, match=missing) as told:
        cube = fleetcube.open_cube(tmp_path / "cube.zarr")
    assert len(told) == 1
    np.testing.assert_array_equal(cube["bubble_ratio"], held)
    with pytest.raises(InputError, match=missing):
        cube.fleetcube.prediction_interval()
    assert name not in sys.modules  # nothing of a cube is imported

    modules.imported(written(CODE.replace("SHARE = 0.5", "SHARE = 0.75")))
    with pytest.warns(UserWarning, match=f"{missing}: here it has"):
        cube = fleetcube.open_cube(tmp_path / "cube.zarr")
    with pytest.raises(InputError, match="other formulas; install that version"):
        cube.fleetcube.prediction_interval()
    with pytest.raises(InputError, match="other formulas"):
        Sweep(JOB, AXES, ["bubble_ratio"], graph=pinned)


def test_a_file_does_not_have_code_imported(written: Callable[..., str], tmp_path: Path) -> None:
    name = written("raise SystemExit('imported')")
    spec = tmp_path / "spec.toml"
    spec.write_text(f'outputs = ["nodes"]\n[scenario]\nn_gpus = 64\ngraph = "{name}"\n')
    with pytest.raises(InputError, match=f"{name}' is missing; it is code, which only you may"):
        Sweep.from_file(spec)
    with pytest.raises(InputError, match="only you may name"):
        Sweep({"n_gpus": 64, "graph": [name]}, {}, ["nodes"])
    assert name not in sys.modules
    good = written(name="lab_good")
    spec.write_text(f'outputs = ["nodes"]\n[scenario]\nn_gpus = 64\ngraph = "{good}"\n')
    assert Sweep.from_file(spec, graph=good).spec == Sweep.from_file(spec).spec


def _in_a_process(data: bytes, folder: str) -> Any:
    sys.path.insert(0, folder)
    sweep, lazy = pickle.loads(data)
    return sweep.evaluate()["lab_cost"].values, lazy["lab_cost"].values


def test_a_spawned_process_has_it(written: Callable[..., str], tmp_path: Path) -> None:
    sweep = with_it(["lab_cost"], written())
    data = pickle.dumps((sweep, sweep.virtual()))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for values in pool.apply(_in_a_process, (data, str(tmp_path))):
            np.testing.assert_array_equal(values, sweep.evaluate()["lab_cost"])
    written(CODE.replace("SHARE = 0.5", "SHARE = 0.75"))
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # noqa: SIM117
        with pytest.raises(InputError, match="other formulas; install that version"):
            pool.apply(_in_a_process, (data, str(tmp_path)))


@pytest.mark.slow
def test_dask_workers_have_it(written: Callable[..., str], tmp_path: Path) -> None:
    sweep = with_it(["lab_cost"], written())
    sweep.to_zarr(tmp_path / "cube.zarr", settings=Settings("numba", dask=1))
    cube = fleetcube.open_cube(tmp_path / "cube.zarr")
    np.testing.assert_array_equal(cube["lab_cost"], sweep.evaluate()["lab_cost"])


def formula(body: str, name: str = "mine", mark: str = "@quantity", needs: str = "n_gpus") -> str:
    return (
        "from fleetcube.graph import np, quantity, where\nimport json\n"
        f'{mark}\ndef {name}({needs}):\n    """A formula.\n\n    Returns: [1] number\n'
        f'    Source: by definition\n    """\n    return {body}\n'
    )


def whole(row: str, roles: str = "") -> str:
    """A graph of one input, `n`, and a quantity, `mine`."""
    head = f"from fleetcube.graph import Roles, option, real\nINPUTS = ({row},)\n{roles}\n"
    return head + formula("1.0", mark="", needs="")


REFUSED = [
    (whole("real('n', '1', '2', 'number')"), "INPUTS: n = '2' is a text; write a number in 1"),
    (whole("real('n', '1', -2.0, 'number')"), "INPUTS: n = -2.0 must be greater than 0"),
    (whole("option('n', 'c', ('a', 'b'), 'x')"), "INPUTS: n = 'c' is not one of a, b"),
    (whole("real('n', '1', 2.0, 'number')", "ROLES = Roles(positive={'mime'})"), "names 'mime' in"),
    (formula("1.0 * n_gpus", name="bubble_ratio"), "is a name of fleetcube; rename it, or write"),
    (formula("1.0 * n_gpus", name="n_gpus"), "is a name of fleetcube"),
    (formula("1.0 * n_gpus", name="gpu"), "gpu is no name here"),
    (formula("n_gpus", mark='@quantity(replaces="bubbles")'), "replaces 'bubbles', which is no"),
    (formula("n_gpus", mark='@quantity(replaces="step_time")'), "is in 1, and step_time in s"),
    (formula("n_gps", needs="n_gps"), "needs 'n_gps', which is neither an input nor a quantity"),
    (formula("1.0", needs="pipeline_schedule"), "needs 'pipeline_schedule', which is an option"),
    (formula("n_gpus if n_gpus > 1 else 0.0"), "cannot be traced"),
    (formula("n_gpus**2"), "cannot be traced"),
    (formula("json.dumps(1) + n_gpus"), "reads json, whose code no hash would cover"),
    (formula("len(json.__name__) + 0 * n_gpus"), "reads json, whose code no hash would cover"),
    (formula("n_gpus\n    import random"), "has 'import random'; write assignments"),
    (formula("n_gpus * __import__('random').random()"), "uses .random of a value"),
    (formula("n_gpus * np.random.random()"), "uses .random of a value; use functions of np alone"),
    (
        formula("n_gpus * np.load('a.npy')"),
        r"uses np.load; use np's abs, .*, sqrt, exp, .* and numbers",
    ),
    (formula("n_gpus * hash('a')"), "uses hash, which its module does not define"),
    (formula("n_gpus * len(type(n_gpus).__name__)"), "uses .__name__ of a value"),
    (formula("1.0 if n_gpus is None else 2.0"), "has 'Is'"),
    (formula("(lambda x: x)(n_gpus)"), "has 'lambda x: x'"),
    (formula("n_gpus\n    n_gpus += 1"), r"has 'n_gpus \+= 1'"),
    (formula("n_gpus\n    global json"), "has 'global json'"),
    (formula("n_gpus", needs="n_gpus, nodes=2.0"), "has parameters with defaults or stars"),
    (formula("n_gpus", needs="n_gpus, *nodes"), "has parameters with defaults or stars"),
    (formula("(n_gpus, 1.0)"), "cannot be traced"),
    (formula("None"), "cannot be traced"),
    (formula("10**400"), "cannot be traced"),
    (formula("n_gpus", name="d_step_time_d_n_gpus"), "is no name here; rename it"),
    (formula("n_gpus", mark="@quantity\nclass Own:\n    pass\n#"), "is no plain function"),
    (
        formula("n_gpus", mark="def mine(n):\n    return n\n@quantity\n@wraps(mine)").replace(
            "import json", "from functools import wraps"
        ),
        "is no plain function",
    ),
    (formula("n_gpus").replace("Source: by definition", ""), "has no section 'Source'"),
    (formula("n_gpus").replace("[1]", "[furlong]"), "furlong"),
    (formula("n_gpus").replace("Returns: [1] number", ""), "has no section 'Returns'"),
    (
        formula("n_gpus", mark='@quantity(replaces="nodes")').replace("Source: by definition", ""),
        "has no section 'Source'",
    ),
    (formula("mine + n_gpus", needs="mine, n_gpus"), "'mine' needs itself, via mine"),
    (
        "from fleetcube.graph import Roles, real\n"
        'INPUTS = (real("n", "1", 2.0, "number"),)\n'
        'ROLES = Roles(layout=frozenset({"mine"}))\n' + formula("n", mark="", needs="n"),
        "has a layout, which nothing judges; define infeasible_reason",
    ),
    (
        'from fleetcube.graph import real\nINPUTS = (real("n", "1", 2.0, "number"),)\n'
        + formula("n", mark="", needs="n")
        + formula("0.0 * n", name="infeasible_reason", mark="", needs="n").replace(
            "Returns: [1] number", "Returns: [flag] code\n    Flags: 0 runs"
        ),
        "infeasible_reason judges nothing; name what it judges in ROLES",
    ),
    (
        'from fleetcube.graph import real\nINPUTS = (real("rate", "1/h", 2.0, "arrivals"),)\n'
        + formula("rate", mark="", needs="rate"),
        "rate is in '1/h', and h is not of SI, in which formulas compute; declare it in A, B",
    ),
    (formula("np.where(n_gpus > 1, 2.0, 1.0)"), r"uses np.where; write where\(...\) alone"),
    (formula("where(1 < n_gpus < 3, 2.0, 1.0)"), "use where, and & or | of conditions"),
    (formula("n_gpus", mark="own = quantity(lambda: 1.0)\n@quantity"), "<lambda> is no plain func"),
    (formula("n_gpus").replace("[1] number", "[flag] code"), "is a flag without names; add Flags"),
    ("x = 1", "has no formulas; declare INPUTS, or mark them by @quantity"),
    ("x = 1 / 0", "ZeroDivisionError: division by zero; mend it"),
]


@pytest.mark.parametrize(("code", "rule"), REFUSED, ids=[rule for _, rule in REFUSED])
def test_a_bad_graph_is_refused_in_one_line(
    written: Callable[..., str], code: str, rule: str
) -> None:
    name = written(code, "lab_bad")
    with pytest.raises(InputError, match=rule) as error:
        Sweep({"n_gpus": 64, "gpus_per_node": 8}, {}, ["mine"], graph=name)
    assert "\n" not in str(error.value)


HELPERS = {  # docstrings of a function that a formula calls, and the keys that they cite
    "": [],
    "Twice as many.": [],
    "Twice as many.\n\n    Returns: twice\n    ": [],
    "Twice as many.\n\n    Parameters: n: a number\n    Range:\n    Source:\n    ": [],
    "Source: Daly 2006, FGCS 22(3), eq. 13": ["daly2006"],
    "Twice.\n\n    Flags: np\n    Source: Daly 2006, FGCS 22(3), eq. 13\n    ": ["daly2006"],
}


@pytest.mark.parametrize("docstring", HELPERS)
def test_a_function_that_a_formula_calls_needs_no_sections(
    written: Callable[..., str], docstring: str
) -> None:
    helper = f'def twice(n):\n    """{docstring}"""\n    return 2 * n\n\n'
    code = formula("twice(n_gpus)").replace("@quantity", f"{helper}\n@quantity")
    found = Sweep({"n_gpus": 64}, {}, ["mine"], graph=written(code, "lab_helped")).evaluate()
    assert float(found["mine"]) == 128
    cited = found.attrs["fleetcube_citations"].split()
    assert cited == sorted({"fleetcube", *HELPERS[docstring]}, key=lambda key: key != "fleetcube")


def test_two_graphs_live_side_by_side(written: Callable[..., str]) -> None:
    one = written(formula("1.0 * n_gpus"), "lab_one")
    other = written(formula("2.0 * n_gpus"), "lab_other")
    sweeps = [Sweep({"n_gpus": 64}, {}, ["mine"], graph=name) for name in (one, other)]
    assert [float(sweep.evaluate()["mine"]) for sweep in sweeps] == [64.0, 128.0]
    with pytest.raises(InputError, match="mine is of the graphs lab_one and lab_other; name one"):
        Sweep({"n_gpus": 64}, {}, ["mine"], graph=[one, other])


def test_a_package_has_one_formula_of_a_quantity(
    written: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "lab_package").mkdir()
    name = written("from . import one, two", "lab_package/__init__").partition("/")[0]
    written(formula("1.0 * n_gpus"), "lab_package/one")
    written(formula("2.0 * n_gpus", name="other"), "lab_package/two")
    found = Sweep({"n_gpus": 64}, {}, ["mine", "other"], graph=name).evaluate()
    assert (float(found["mine"]), float(found["other"])) == (64.0, 128.0)
    written(formula("2.0 * n_gpus"), "lab_package/two")
    importlib.reload(sys.modules["lab_package.two"])
    with pytest.raises(InputError, match="has two formulas of one quantity"):
        Sweep({"n_gpus": 64}, {}, ["mine"], graph=name)


def test_an_entry_point_is_imported_where_it_is_named(
    written: Callable[..., str], tmp_path: Path
) -> None:
    module = written()
    info = tmp_path / "lab-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[fleetcube.graphs]\nlab-schedules = {module}\n")
    Sweep(JOB, AXES, ["step_time"]).evaluate()
    assert module not in sys.modules
    sweep = Sweep(JOB, AXES, ["lab_cost"], graph="lab-schedules")
    assert sweep.spec["scenario"]["graph"][0].startswith("lab-schedules@")
    assert sweep.replace(axes={}, scenario={**sweep.spec["scenario"], "n_gpus": 64})._plan()
    with pytest.raises(InputError, match="'lab-other' is no module and no graph"):
        Sweep(JOB, AXES, ["step_time"], graph="lab-other")
