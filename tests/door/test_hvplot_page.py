"""What a page says of hvPlot and Panel runs, and draws what the cube holds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs.make.outputs import DOCS, blocks

pytestmark = pytest.mark.filterwarnings("ignore")  # of Bokeh and HoloViews, whatever they are


@pytest.fixture(scope="module")
def scope() -> dict[str, Any]:
    for extra in ("hvplot", "panel"):
        pytest.importorskip(extra, reason="pip install 'fleetcube[hvplot]'")
    scope: dict[str, Any] = {"__name__": "__page__"}
    for block in blocks((DOCS / "plots.md").read_text(encoding="utf-8")):
        if block.language == "python hvplot":
            exec(compile(block.text, "plots.md", "exec"), scope)
    return scope


def test_a_map_has_a_slider_for_the_axis_left_and_shows_its_slice(scope: dict[str, Any]) -> None:
    (slider,) = scope["map_"].kdims
    assert slider.name == "checkpoint_write_bandwidth"
    cube = scope["cube"]
    at = float(cube[slider.name][2])
    drawn = scope["map_"][at].dimension_values("goodput", flat=False)
    expected = cube.goodput.sel({slider.name: at}).transpose("gpu_mttf", "n_gpus")
    np.testing.assert_array_equal(drawn, expected)


def test_the_dashboard_is_a_page(scope: dict[str, Any], tmp_path: Path) -> None:
    scope["page"].save(tmp_path / "page.html")
    assert "GPU reliability" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_cut_of_the_virtual_grid_is_drawn_and_no_more_is_computed(scope: dict[str, Any]) -> None:
    virtual = scope["virtual"].goodput
    assert virtual.size == 3_628_800_000
    drawn = scope["cut"](1500, 300).dimension_values(1)
    expected = virtual.isel(gpu_mttf=1500, checkpoint_write_bandwidth=300).values
    np.testing.assert_array_equal(drawn, expected)
