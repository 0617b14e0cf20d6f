"""docs/gradients.md works, and names every formula with a kink."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fleetcube import Sweep
from fleetcube.kernels.graph.bind import dependencies
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.physics.graph import PHYSICS

PAGE = (Path(__file__).parents[2] / "docs" / "gradients.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.machine
KINKS = {"maximum", "minimum", "floor", "ceil", "abs", "where"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_python_runs() -> None:
    scope: dict[str, object] = {}
    for code in blocks("python"):
        exec(compile(code, "gradients.md", "exec"), scope)
    slopes, shares, both, least = (scope[n] for n in ("slopes", "shares", "both", "least"))
    assert slopes.dims == ("input", "n_gpus", "gpu_mttf")  # type: ignore[attr-defined]
    assert both.dims[:2] == ("output", "input")  # type: ignore[attr-defined]
    assert shares.kind.values.tolist() == ["derivative", "difference"]  # type: ignore[attr-defined]
    slope = both.sel(output="job_time", input="gpu_mttf")  # type: ignore[attr-defined]
    mttf = 3600 * np.array([1e4, 5e4])
    time = scope["sweep"].evaluate().job_time  # type: ignore[attr-defined]
    np.testing.assert_allclose(shares.sel(input="gpu_mttf"), mttf * slope / time)  # type: ignore[attr-defined]
    found = least["d_job_time_d_gpu_mttf"]  # type: ignore[index]
    np.testing.assert_allclose(found, slope.min("gpu_mttf"), rtol=1e-12)


def test_the_spec_is_valid() -> None:
    (text,) = blocks("toml")
    spec = tomllib.loads(text)
    found = Sweep(spec["scenario"], spec["axes"], spec["outputs"]).evaluate()
    assert set(spec["outputs"]) <= set(found.data_vars)


def kinked() -> set[str]:
    """Functions that formulas run whose code names a function with a kink."""
    formulas = [f for q in PHYSICS.quantities.values() for f in q.formulas.values()]
    used = {g for f in formulas if read(f).unit != "flag" for g in dependencies(f)}
    return {
        getattr(g, "__law__", g).__name__.lstrip("_")
        for g in used
        if KINKS & set(g.__code__.co_names) and g.__name__ != "where"
    }


def test_the_table_names_every_formula_with_a_kink_and_no_other() -> None:
    rows = [line.split(" | ")[0] for line in PAGE.partition("| law |")[2].splitlines()[2:]]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(kinked())


@pytest.mark.parametrize("name", ["gemm_time", "racks"])
def test_the_search_for_kinks_finds_them(name: str) -> None:
    assert name in kinked()
