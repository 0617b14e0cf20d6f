"""Citations of results as BibTeX: for datasets, cubes, cuts and files."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xarray

import fleetcube
from fleetcube import Sweep, catalog, citations, evaluate, open_cube
from fleetcube.scenario.citations import references

from .common import on_h100, refused

SCENARIO = on_h100(tensor_parallel=8)


def keys(text: str) -> list[str]:
    return re.findall(r"^@\w+\{(.+),$", text, re.MULTILINE)


def test_the_works_behind_every_formula_on_the_way_are_named() -> None:
    # MTBF from Fleet Foundations eq. 1, with Fleming's common causes; nodes as a series system.
    result = evaluate(["cluster_mtbf"], n_gpus=1024)
    expected = {"fleetcube", "barlow1975", "fleetfoundations", "fleming1975"}
    assert set(keys(citations(result))) == expected
    assert f"Version {fleetcube.__version__}" in citations(result).partition("\n}")[0]


def test_a_formula_that_is_a_law_cites_what_the_law_cites() -> None:
    # the interval is `kernels.checkpoint.exact_interval`, whose Lambert W is Corless et al. 1996
    given = dict(checkpoint_stall_time=60, cluster_mtbf=1e4, recovery_time=0)
    assert "corless1996" in keys(citations(evaluate(["checkpoint_interval"], **given)))
    # The quantity cites Daly only; the law's branch point is in Corless et al.
    result = evaluate(["checkpoint_interval"], checkpoint_stall_time=30, cluster_mtbf=86400)
    assert keys(citations(result)) == ["fleetcube", "corless1996", "daly2006"]


def test_what_is_given_is_not_cited() -> None:
    given = evaluate(["job_time"], training_steps=1e5, step_time=2.0, goodput=[0.5, 0.9])
    assert keys(citations(given)) == ["fleetcube", "daly2006"]


def test_every_alternative_in_use_is_cited_and_no_other() -> None:
    inputs: dict[str, Any] = {"checkpoint_stall_time": 30, "cluster_mtbf": 86400}
    young = evaluate(["checkpoint_interval"], checkpoint_policy="young", **inputs)
    assert keys(citations(young)) == ["fleetcube", "young1974"]
    both = evaluate(["checkpoint_interval"], checkpoint_policy=["young", "daly"], **inputs)
    assert keys(citations(both)) == ["fleetcube", "daly2006", "young1974"]


def test_catalog_records_are_entries() -> None:
    text = citations(evaluate(["mfu"], n_gpus=64, **SCENARIO))
    labels = {"node_dgx-h100", "gpu_h100-sxm", "fabric_infiniband-ndr", "model_llama-3-8b"}
    assert labels <= set(keys(text))
    record = catalog.record("gpu", "h100-sxm")
    entry = text[text.index("@misc{gpu_h100-sxm") :].partition("\n}")[0]
    assert record.title in entry
    assert f"dated {record.date}" in entry
    assert "\\url{https://developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth/}" in entry


def test_what_tex_reserves_is_escaped() -> None:
    record: dict[str, Any] = {"kind": "gpu", "label": "a&b@2", "title": "50% of A&B_c #1"}
    record |= {"date": "2026-03", "edition": 2}
    record |= {"source": "paper & data, https://example.org/a_b%20c; p. 3"}
    attrs = {"fleetcube_citations": "fleetcube", "fleetcube_catalog": json.dumps([record])}
    text = citations(xarray.Dataset(attrs=attrs))
    assert keys(text) == ["fleetcube", "gpu_a_b_2"]
    assert r"title = {50\% of A\&B\_c \#1}," in text
    assert r"howpublished = {paper \& data, \url{https://example.org/a_b%20c}; p. 3}," in text
    assert r"note = {Record gpu a\&b@2, edition 2, of the" in text
    assert "year = {2026}," in text


@pytest.mark.parametrize("name", ["kind", "label", "title", "source", "date"])
def test_no_text_of_a_record_ends_its_entry(name: str) -> None:
    evil = "https://a.b/}\n@book{evil,\n title={\\input{x}"
    said = {"kind": "gpu", "label": "a", "title": "t", "source": "s", "date": "2026-01"}
    attrs = {"fleetcube_citations": "fleetcube @book{evil, @book{evil,"}
    attrs |= {"fleetcube_catalog": json.dumps([{**said, name: evil}]), "fleetcube_version": evil}
    text = citations(xarray.Dataset(attrs=attrs))
    depth = [text[:k].count("{") - text[:k].count("}") for k in range(len(text) + 1)]
    assert min(depth) == depth[-1] == 0
    outside = "".join(c for c, d in zip(text, depth, strict=False) if d == 0)
    assert outside.count("@") == 2  # fleetcube and the record
    assert text.count("no longer among the references") == 1
    assert r"\input" not in text


def test_the_text_is_bibtex() -> None:
    text = citations(evaluate(["job_time"], n_gpus=[64, 512], **SCENARIO))
    found = keys(text)
    assert len(set(found)) == len(found) == text.count("\n}")
    assert text.count("{") == text.count("}")
    assert "daly2006" in found
    assert references()["daly2006"]["bibtex"] in text


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    return Sweep(SCENARIO, {"n_gpus": [64, 512], "gpu_mttf": [3e7, 9e7]}, ["goodput"])


def test_reductions_cubes_cuts_and_files_carry_it(sweep: Sweep, tmp_path: Path) -> None:
    pytest.importorskip("netCDF4")
    wanted = citations(sweep.evaluate())
    assert "daly2006" in wanted
    assert sweep.evaluate().attrs["fleetcube_citations"].split()[0] == "fleetcube"
    assert citations(sweep.reduce("max")) == wanted
    cube = open_cube(sweep.to_zarr(tmp_path / "a.zarr"))
    assert citations(cube) == wanted
    cut = cube.isel(n_gpus=1)[["goodput"]]
    assert citations(cut) == wanted
    cut.to_netcdf(tmp_path / "cut.nc")
    with xarray.open_dataset(tmp_path / "cut.nc") as read:
        assert citations(read) == wanted


@pytest.mark.slow
def test_show_prints_it(sweep: Sweep, tmp_path: Path) -> None:
    sweep.to_zarr(tmp_path / "a.zarr")
    command = [sys.executable, "-m", "fleetcube", "show", "a.zarr", "--bibtex"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout == citations(open_cube(tmp_path / "a.zarr")) + "\n"


@pytest.mark.parametrize("other", [xarray.Dataset({"a": 1}), xarray.DataArray(1.0), {}, None, 3.0])
def test_what_fleetcube_did_not_make_is_refused(other: Any) -> None:
    refused("give a Dataset that fleetcube made", citations, other)


def test_a_damaged_record_is_refused_and_a_work_that_is_not_listed_said() -> None:
    odd = '[{"kind": "gpu", "label": "a", "source": "s", "date": 5}]'
    for text in ("[", "[1]", "{}}", "5", "[" * 100_000, '[{"kind": "gpu"}]', odd):
        made = xarray.Dataset(attrs={"fleetcube_citations": "x", "fleetcube_catalog": text})
        refused("fleetcube_catalog is damaged", citations, made)
    made = xarray.Dataset(attrs={"fleetcube_citations": "fleetcube nobody1900"})
    assert citations(made).endswith("\n\n% nobody1900: no longer among the references")
