"""Records of a user's own: of every kind, from files and packages, as data alone."""

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube import InputError, Settings, Sweep
from fleetcube.analysis.compare import compare
from fleetcube.catalog import (
    KINDS,
    CatalogError,
    kind,
    opened,
    own_labels,
    record,
    records,
    user_records,
)
from fleetcube.catalog.entry import unit

from ..door.command import fleetcube as run

ABOUT = 'title = "A lab\'s"\nsource = "a lab"\ndate = "2026-11"\nnote = "planned"\n'
GPU = f"""[gpu.lab-1]
{ABOUT}peak_flops_bf16 = "2 PFLOP/s"
hbm_bandwidth = "8 TB/s"
hbm_capacity = "192 GB"
intra_node_bandwidth = "900 GB/s"
intra_node_latency = "1 us"
"""
NODE = f"""[node.lab-8]
{ABOUT}gpu = "lab-1"
fabric = "lab-net"
gpus_per_node = 8
"""
FABRIC = f"""[fabric.lab-net]
{ABOUT}inter_node_bandwidth = "800 Gbit/s"
inter_node_latency = "3 us"
"""
LOG = f'[reliability.lab-log]\n{ABOUT}gpu_mttf = "30_000 h"\n'
ALL = "\n".join([GPU, NODE, FABRIC, LOG])
JOB = {"model": "llama-3-8b", "global_batch_size": 512, "n_gpus": 512}


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., str]:
    def write(text: str = ALL, name: str = "lab.toml") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def test_labels_of_a_file_set_what_its_records_say(file: Callable[..., str]) -> None:
    job = {**JOB, "catalog": file(), "node": "lab-8", "reliability": "lab-log"}
    names = ["step_time", "cluster_mtbf"]
    spelled = {
        **JOB,
        "gpus_per_node": 8,
        "peak_flops_bf16": 2e15,
        "hbm_bandwidth": 8e12,
        "hbm_capacity": 192e9,
        "intra_node_bandwidth": 9e11,
        "intra_node_latency": 1e-6,
        "inter_node_bandwidth": 1e11,
        "inter_node_latency": 3e-6,
        "gpu_mttf": 30_000 * 3600.0,
        "calibration": "none",
    }
    named = Sweep({**job, "calibration": "none"}, {}, names).evaluate()
    for name, value in Sweep(spelled, {}, names).evaluate().data_vars.items():
        np.testing.assert_allclose(named[name], value, rtol=1e-15)
    assert Sweep(job, {}, names).spec["scenario"]["node"] == "lab-8"


def test_they_stand_beside_ours_on_an_axis(file: Callable[..., str]) -> None:
    job = {**JOB, "catalog": file(), "fabric": "lab-net"}
    gpus = ["h100-sxm", "lab-1"]
    found = Sweep(job, {"gpu": gpus}, ["step_time"]).evaluate()
    assert found["gpu"].values.tolist() == gpus
    for gpu in gpus:
        alone = Sweep({**job, "gpu": gpu}, {}, ["step_time"]).evaluate()["step_time"]
        np.testing.assert_allclose(found["step_time"].sel(gpu=gpu), alone, rtol=1e-12)
    at = fleetcube.evaluate("step_time", **{**job, "gpu": "lab-1"})
    np.testing.assert_allclose(at, alone, rtol=1e-12)
    with pytest.raises(InputError, match="'lab-1' is not in the catalog"):
        Sweep({**job, "catalog": []}, {"gpu": gpus}, ["step_time"])
    table = fleetcube.evaluate_table(
        {"n_gpus": [512]}, "step_time", scenario={**job, "gpu": "lab-1"}
    )
    np.testing.assert_allclose(table["step_time"], alone, rtol=1e-12)


def _as_toml(name: str, value: Any) -> str:
    base = unit(name)
    if isinstance(value, bool | str):
        return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
    if isinstance(value, dict):
        inside = (f"{key} = {_as_toml(key, each)}" for key, each in value.items())
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_as_toml(name, each) for each in value) + "]"
    plain = base in ("1", object) or not isinstance(base, str)
    return repr(value) if plain else f'"{value!r} {base}"'


@pytest.mark.parametrize("name", [name for name in KINDS if name != "calibration"])
def test_every_kind_is_read_as_in_the_catalog(name: str, file: Callable[..., str]) -> None:
    ours = next(iter(kind(name).values()))
    lines = "".join(f"{key} = {_as_toml(key, value)}\n" for key, value in ours.values.items())
    labels = own_labels([file(f"[{name}.lab-own]\n{ABOUT}{lines}")])
    assert labels[name, "lab-own"].record.digest == ours.digest
    assert record(name, labels[name, "lab-own"]).values == ours.values


def test_a_calibration_is_one_too(file: Callable[..., str]) -> None:
    text = f'[calibration.lab-fit]\n{ABOUT}compute_model = "roofline"\ngemm_efficiency = 0.5\n'
    text += "[calibration.lab-fit.standard_errors]\ngemm_efficiency = 0.02\n"
    job = {**JOB, "node": "dgx-h100", "fabric": "infiniband-ndr", "catalog": file(text)}
    fitted = Sweep({**job, "calibration": "lab-fit"}, {}, ["step_time"]).evaluate()
    plain = {**job, "calibration": "none", "compute_model": "roofline", "gemm_efficiency": 0.5}
    np.testing.assert_allclose(
        fitted["step_time"], Sweep(plain, {}, ["step_time"]).evaluate()["step_time"]
    )


def test_ours_are_replaced_only_where_the_record_says_so(file: Callable[..., str]) -> None:
    same = GPU.replace("lab-1", "h100-sxm")
    with pytest.raises(InputError, match=r"also of the catalog .NVIDIA H100 SXM.*replaces = true"):
        Sweep({**JOB, "catalog": file(same)}, {}, ["nodes"])
    replacing = file(same.replace("[gpu.h100-sxm]\n", "[gpu.h100-sxm]\nreplaces = true\n"))
    held = Sweep({**JOB, "catalog": replacing, "gpu": "h100-sxm"}, {}, ["memory_margin"])
    assert held._problem.constants["hbm_capacity"] == 192e9
    ours = Sweep({**JOB, "gpu": "h100-sxm"}, {}, ["memory_margin"])
    assert ours._problem.constants["hbm_capacity"] < 86e9
    nothing = file(GPU.replace("[gpu.lab-1]\n", "[gpu.lab-1]\nreplaces = true\n"))
    with pytest.raises(InputError, match=r"'lab-1' of .* is not of the catalog; leave out"):
        Sweep({**JOB, "catalog": nothing}, {}, ["nodes"])
    with pytest.raises(InputError, match=r"gpu 'lab-1' is in .*one.toml and in .*two.toml; rename"):
        Sweep({**JOB, "catalog": [file(GPU, "one.toml"), file(GPU, "two.toml")]}, {}, ["nodes"])
    for name in ("auto", "none"):
        with pytest.raises(InputError, match=rf"'{name}' of .* is fleetcube's; rename it"):
            Sweep({**JOB, "catalog": file(f"[calibration.{name}]\n{ABOUT}")}, {}, ["nodes"])


def test_our_nodes_have_the_parts_that_replace_ours(file: Callable[..., str]) -> None:
    mine = GPU.replace("[gpu.lab-1]\n", "[gpu.h100-sxm]\nreplaces = true\n")
    net = FABRIC.replace("[fabric.lab-net]\n", "[fabric.infiniband-ndr]\nreplaces = true\n")
    job = {**JOB, "catalog": file(mine + net), "node": "dgx-h100"}
    sweeps = [
        Sweep(job, {}, ["step_time"]),
        Sweep({**job, "gpu": "h100-sxm", "fabric": "infiniband-ndr"}, {}, ["step_time"]),
        Sweep({**JOB, "catalog": job["catalog"]}, {"node": ["dgx-h100"]}, ["step_time"]),
    ]
    times = [float(each.evaluate()["step_time"].squeeze()) for each in sweeps]
    assert {*times} == {times[0]}
    older = Sweep({**job, "node": "dgx-h100@1"}, {}, ["memory_margin"])
    for each in (sweeps[0], older):
        assert each._problem.constants["hbm_capacity"] == 192e9
    assert times[0] < float(Sweep({**job, "catalog": []}, {}, ["step_time"]).evaluate().step_time)
    assert "node_overhead_power" not in sweeps[0]._problem.constants  # of no known GPU's power


def test_a_label_means_what_its_own_file_says_whatever_another_said(
    file: Callable[..., str],
) -> None:
    """Whether a calibration is found by itself depends on what a label sets."""
    sizes = "layers = 32\nhidden_size = 4096\nattention_heads = 32\nkv_heads = 8\n"
    whole = f"{sizes}ffn_hidden_size = 14336\nvocab_size = 128256\nsequence_length = 8192\n"
    job = {**JOB, "gpu": "h100-sxm", "gpus_per_node": 8, "fabric": "infiniband-ndr"}
    some = file(f"[model.lab-m]\n{ABOUT}parameters = 8e9\n", "some.toml")
    with pytest.raises(InputError, match="layers is missing"):
        Sweep({**job, "model": "lab-m", "catalog": some}, {}, ["step_time"])
    job |= {"model": "lab-m", "catalog": file(f"[model.lab-m]\n{ABOUT}{whole}")}
    named = Sweep({**job, "calibration": "auto"}, {}, ["step_time"]).evaluate()
    assert float(Sweep(job, {}, ["step_time"]).evaluate().step_time) == float(named.step_time)


def test_a_comparison_tells_records_of_one_label_apart(file: Callable[..., str]) -> None:
    mine = GPU.replace("[gpu.lab-1]\n", "[gpu.h100-sxm]\nreplaces = true\n")
    job = {**JOB, "node": "dgx-h100"}
    ours = Sweep(job, {}, ["step_time"])
    replaced = Sweep({**job, "catalog": file(mine)}, {}, ["step_time"])
    edited = Sweep({**job, "catalog": file(mine.replace("2 P", "4 P"))}, {}, ["step_time"])
    for a, b in ((ours, replaced), (replaced, edited)):
        (change,) = compare(a, b).changes
        ratio = float(b.evaluate().step_time) / float(a.evaluate().step_time)
        assert change.name == "node"
        assert float(change.factor) == pytest.approx(ratio)
        assert ratio < 0.95
    other = FABRIC.replace("lab-net", "lab-net-2")
    beside = Sweep({**job, "catalog": file(other)}, {}, ["step_time"])
    assert not compare(ours, beside).changes


def test_a_node_of_an_unknown_part_is_refused(file: Callable[..., str]) -> None:
    with pytest.raises(InputError, match="node 'lab-8': gpu = 'lab-1' is not in the catalog"):
        Sweep({**JOB, "catalog": file(NODE + FABRIC), "node": "lab-8"}, {}, ["step_time"])


DEEP = "[gpu.a]\nb = " + "[" * 5000 + "]" * 5000
REFUSED = {
    "[gpus.a]\nx = 1": r"\[gpus\] is no kind with records; did you mean 'gpu'",
    "gpu = 1": r"\[gpu\] is no kind with records",
    "[gpu.a]\nx = 1": "gpu 'a' has no title",
    f'[gpu.a]\n{ABOUT}speed = "1 GB/s"': "gpu 'a' has an unknown key 'speed'",
    f"[gpu.a]\n{ABOUT}hbm_bandwidth = 5e9": "hbm_bandwidth = 5000000000.0 has no unit",
    f'[gpu.a]\n{ABOUT}hbm_bandwidth = "5 W"': "is not in B/s",
    f'[gpu.a]\n{ABOUT}hbm_bandwidth = "nan B/s"': "hbm_bandwidth",
    f"[node.a]\n{ABOUT}gpus_per_node = nan": "gpus_per_node = nan is not",
    f"[node.a]\n{ABOUT}gpus_per_node = inf": "gpus_per_node = inf is not finite",
    f"[node.a]\n{ABOUT}gpus_per_node = \"__import__('os')\"": "is not a plain number",
    f"[gpu.A]\n{ABOUT}": "labels are lower case words",
    f'[gpu."../a"]\n{ABOUT}': "labels are lower case words",
    f'[gpu."a@1"]\n{ABOUT}': "is an edition; leave out @",
    "[gpu.a\n": "is not TOML",
    DEEP: "nested too deeply",
    "#" * (user_records.LARGEST_FILE + 1): "has more than 1,048,576 bytes",
    "\ud800": "it is not UTF-8 text",
}


@pytest.mark.parametrize(("text", "rule"), REFUSED.items(), ids=list(REFUSED.values()))
def test_a_bad_file_is_refused_in_one_line(text: str, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match=rule) as error:
        Sweep({**JOB, "catalog": str(path)}, {}, ["nodes"])
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value) or len(str(error.value)) > 500


def test_pipes_folders_and_loops_of_links_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "loop.toml").symlink_to(tmp_path / "loop.toml")
    for name in ("pipe.toml", "loop.toml", "nothing.toml", "."):
        with pytest.raises(InputError, match="cannot be read"):
            Sweep({**JOB, "catalog": str(tmp_path / name)}, {}, ["nodes"])
    for value in (3, [3]):
        with pytest.raises(InputError, match=r"catalog = .* is not a list of texts"):
            Sweep({**JOB, "catalog": value}, {}, ["nodes"])
    with pytest.raises(InputError, match="catalog is one text of the scenario"):
        Sweep(JOB, {"catalog": ["a.toml", "b.toml"]}, ["nodes"])


def test_a_spec_names_files_beside_it(file: Callable[..., str], tmp_path: Path) -> None:
    file()
    spec = tmp_path / "spec.toml"
    spec.write_text(
        'outputs = ["step_time"]\n[scenario]\nmodel = "llama-3-8b"\nn_gpus = 512\n'
        'global_batch_size = 512\ncatalog = "lab.toml"\nfabric = "lab-net"\n'
        '[axes]\ngpu = ["h100-sxm", "lab-1"]\n'
    )
    found = Sweep.from_file(spec).evaluate()
    job = {**JOB, "catalog": str(tmp_path / "lab.toml"), "fabric": "lab-net"}
    expected = Sweep(job, {"gpu": ["h100-sxm", "lab-1"]}, ["step_time"]).evaluate()
    np.testing.assert_array_equal(found["step_time"], expected["step_time"])
    printed = run("run", str(spec), "gpu=lab-1").stdout
    assert "lab-1" in printed
    words = f"catalog={tmp_path / 'lab.toml'} gpu=lab-1 n_gpus=512 gpu_mttf=50000h -v nodes"
    stated = run("run", "example:h100", *words.split(), "pipeline_parallel=1").stdout
    assert stated.split() == ["n_gpus", "nodes", "512", "64"]


def test_a_cube_and_a_pickle_carry_them(file: Callable[..., str], tmp_path: Path) -> None:
    job = {**JOB, "catalog": file(), "fabric": "lab-net"}
    sweep = Sweep(job, {"gpu": ["h100-sxm", "lab-1"]}, ["step_time"])
    sweep.to_zarr(tmp_path / "cube.zarr")
    kept = pickle.dumps((sweep, sweep.virtual()))
    cube = fleetcube.open_cube(tmp_path / "cube.zarr")
    ends = cube.fleetcube.prediction_interval()
    assert (ends["step_time_low"] < ends["step_time"]).all()
    assert "of lab.toml" in fleetcube.citations(cube).replace("\\_", "_")
    os.remove(job["catalog"])
    again, lazy = pickle.loads(kept)
    for found in (again.evaluate(), lazy, again.evaluate(settings=Settings("numba"))):
        np.testing.assert_allclose(found["step_time"], cube["step_time"], rtol=1e-12)
    with pytest.raises(InputError, match=r"lab.toml' cannot be read"):
        fleetcube.open_cube(tmp_path / "cube.zarr").fleetcube.prediction_interval()


def test_equal_labels_of_other_files_are_other_sweeps(file: Callable[..., str]) -> None:
    job = {**JOB, "fabric": "lab-net", "gpu": "lab-1"}
    one = Sweep({**job, "catalog": file(ALL, "one.toml")}, {}, ["step_time"])
    faster = ALL.replace("2 PFLOP/s", "4 PFLOP/s")
    other = Sweep({**job, "catalog": file(faster, "two.toml")}, {}, ["step_time"])
    assert one != other
    assert float(other.evaluate()["step_time"]) < float(one.evaluate()["step_time"])


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs a package that names a file of records; its code must not run."""
    monkeypatch.syspath_prepend(tmp_path)
    records._packaged.cache_clear()

    def install(text: str = GPU, value: str = "lab_records:chips.toml", name: str = "lab") -> None:
        home = tmp_path / "lab_records"
        home.mkdir(exist_ok=True)
        (home / "__init__.py").write_text("raise SystemExit('imported')")
        (home / "chips.toml").write_text(text, encoding="utf-8")
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[fleetcube.records]\n{name} = {value}\n")
        records._packaged.cache_clear()

    yield install
    records._packaged.cache_clear()


def test_records_of_a_package_are_found_by_label(package: Callable[..., None]) -> None:
    with pytest.raises(CatalogError, match="'lab-1' is not in the catalog"):
        record("gpu", "lab-1")
    package()
    assert record("gpu", "lab-1").values["hbm_capacity"] == 192e9
    job = {**JOB, "fabric": "infiniband-ndr"}
    gpus = ["h100-sxm", "lab-1"]
    found = Sweep(job, {"gpu": gpus}, ["step_time"]).evaluate()["step_time"]
    assert float(found[1]) < float(found[0])
    listed = run("catalog", "gpu").stdout
    assert listed.splitlines()[0].split() == ["from", "label", "title", "date"]
    assert "package lab  lab-1" in listed
    assert "from:    package lab" in run("catalog", "gpu", "lab-1").stdout
    assert "lab_records" not in sys.modules


def test_a_bad_package_is_named(
    package: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(GPU.replace("lab-1", "h100-sxm"))
    assert record("gpu", "h100-sxm").origin == ""
    with pytest.raises(CatalogError, match="'h100-sxm' of package lab is also of the catalog"):
        record("gpu", "lab-1")
    package(GPU, name="other")
    (tmp_path / "lab-1.0.dist-info" / "entry_points.txt").write_text("")
    secret = tmp_path / "secret.toml"
    secret.write_text(GPU)
    (tmp_path / "lab_records" / "linked.toml").symlink_to(secret)
    for value, rule in (
        ("lab_records:..", "is no PACKAGE:FILE.toml in its folder"),
        ("lab_records:secret", "is no PACKAGE:FILE.toml in its folder"),
        ("lab_records.inner:chips.toml", "is no PACKAGE:FILE.toml in its folder"),
        ("lab_nothing:chips.toml", "is no PACKAGE:FILE.toml in its folder"),
        ("lab_records:none.toml", "is no PACKAGE:FILE.toml in its folder"),
        ("lab_records:linked.toml", "is no PACKAGE:FILE.toml in its folder"),
    ):
        points = tmp_path / "other-1.0.dist-info" / "entry_points.txt"
        points.write_text(f"[fleetcube.records]\nother = {value}\n")
        records._packaged.cache_clear()
        with pytest.raises(CatalogError, match=rule):
            record("gpu", "lab-1")
    assert record("gpu", "h100-sxm").origin == ""  # ours do not need them
    assert "lab_records" not in sys.modules


def test_two_packages_may_not_have_one_label(package: Callable[..., None]) -> None:
    package()
    package(name="other")
    with pytest.raises(CatalogError, match=r"is in package .* and in package .*; rename one"):
        record("gpu", "lab-1")


def test_opened_once(file: Callable[..., str]) -> None:
    path = file()
    once = opened(path)
    os.remove(path)
    assert opened(once) is once


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"8 TB/s"', '"9 TB/s"', r"gpu\.lab-1\.hbm_bandwidth: 8\S+ -> 9"),
        ('"900 GB/s"', '"800 GB/s"', r"gpu\.lab-1\.intra_node_bandwidth: 9\S+ -> 8"),
        ("_per_node = 8", "_per_node = 4", r"node\.lab-8\.gpus_per_node: 8\S* -> 4"),
        ('"30_000 h"', '"40_000 h"', r"reliability\.lab-log\.gpu_mttf: 1\S+ -> 1"),
    ],
)
def test_what_an_edit_changed_is_named_where_a_cube_is_continued(
    file: Callable[..., str], tmp_path: Path, old: str, new: str, told: str
) -> None:
    """Also where the calibration, inferred from the accelerator, changes with it."""
    job = {**JOB, "catalog": file(), "node": "lab-8", "reliability": "lab-log"}
    cube = tmp_path / "cube.zarr"
    outputs = ["step_time", "cluster_mtbf"]
    Sweep(job, {"n_gpus": [256, 512]}, outputs).to_zarr(cube)
    assert old in ALL
    file(ALL.replace(old, new))
    with pytest.raises(InputError, match=rf"because this changed: catalog\.{told}") as error:
        Sweep(job, {"n_gpus": [256, 512]}, outputs).to_zarr(cube, resume=True)
    assert "calibration" not in str(error.value)
