"""Pictures: what their artists show, and what is refused. Pixels are looked at by people."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetcube.grid.errors import InputError
from fleetcube.grid.plot import PALETTE, plot
from fleetcube.grid.plot_kinds import LOSSES, losses, pareto, roofline
from fleetcube.grid.sweep import Sweep

pytest.importorskip("matplotlib")

JOB = {
    "model": "llama-3-70b",
    "node": "dgx-h100",
    "fabric": "infiniband-ndr",
    "gpu_hour_price": 2.0,
    "n_gpus": 2048,
    "tensor_parallel": 8,
    "pipeline_parallel": 4,
    "global_batch_size": 2048,
    "straggler_slowdown": 0.02,
}
ROOFLINE = ["arithmetic_intensity", "ridge_point", "peak_flops", "mfu", "network_attainable_flops"]


def cube(axes: dict[str, Any], outputs: list[str], **entries: Any) -> Any:
    return Sweep({**JOB, **entries}, axes, outputs).evaluate("numpy")


@pytest.fixture
def png(tmp_path: Path) -> Path:
    return tmp_path / "picture.png"


def spans(axes: Any) -> list[tuple[float, float]]:
    """Where stretches along x are grey."""
    from matplotlib.patches import Rectangle

    grey = [p for p in axes.patches if isinstance(p, Rectangle) and p.get_y() == 0]
    return [(p.get_x(), p.get_x() + p.get_width()) for p in grey]


def test_losses_stack_to_the_whole_and_infeasible_points_are_grey(png: Path) -> None:
    from matplotlib.colors import to_hex

    counts = [512, 1024, 2048, 200_000]  # of the last replicas some have no batch
    held = cube({"n_gpus": counts}, [*LOSSES, "job_time"])
    figure = losses(held, "n_gpus", png)
    top, below = figure.axes
    job = held["job_time"].values[:3] / 86400
    line, ideal = top.lines
    np.testing.assert_allclose(line.get_ydata(), [*job, np.nan])
    np.testing.assert_allclose(ideal.get_ydata()[:3], job[0] * 512 / np.array(counts[:3]))
    assert top.get_ylabel() == "job time [d]"
    bands = [area.get_paths()[0].vertices for area in below.collections]
    assert len(bands) == 8
    useful = Sweep({**JOB, "n_gpus": 1024}, {}, ["useful_compute_share"]).evaluate()
    at = [band[band[:, 0] == 1024, 1] for band in bands]
    for band, name in zip(at, LOSSES, strict=False):
        assert np.ptp(band) == pytest.approx(float(held[name].broadcast_like(held["n_gpus"])[1]))
    assert np.ptp(at[-1]) == pytest.approx(float(useful["useful_compute_share"]), rel=1e-9)
    colours = [to_hex(area.get_facecolor()[0]) for area in below.collections]
    assert colours[:7] == [colour.lower() for colour in PALETTE[:7]]  # those of dominant_overhead
    assert at[0].min() == 0
    assert at[-1].max() == 1
    (grey,) = spans(below)
    assert grey[0] < 200_000 < grey[1]
    assert grey[0] > 2048
    assert png.stat().st_size > 10_000


def test_losses_along_labels_are_bars(png: Path) -> None:
    held = cube({"fabric": ["infiniband-hdr", "infiniband-ndr"]}, list(LOSSES))
    (axes,) = losses(held, "fabric", png).axes
    heights = np.array([[bar.get_height() for bar in row] for row in axes.containers])
    np.testing.assert_allclose(heights.sum(axis=0), 1)
    np.testing.assert_allclose(heights[1], held["communication_overhead"])


def test_maps_have_contours_at_round_numbers(png: Path) -> None:
    axes = {"n_gpus": [1024, 2048, 4096, 8192], "gpu_mttf": {"linspace": [2e7, 2e8], "num": 5}}
    figure = plot(cube(axes, ["goodput"]), "goodput", "n_gpus", "gpu_mttf", png)
    levels = [c.levels for c in figure.axes[0].collections if hasattr(c, "levels")]
    assert len(levels) == 1
    steps = np.diff(levels[0])
    np.testing.assert_allclose(steps, steps[0])
    assert any(np.isclose(steps[0], step) for step in (0.01, 0.02, 0.05, 0.1))
    assert figure.axes[0].get_xlabel() == "n gpus"
    assert figure.axes[0].get_ylabel() == "gpu mttf [h]"


def test_flags_have_their_colours_and_the_line_of_equal_costs(png: Path) -> None:
    axes = {"n_gpus": [512, 2048, 8192], "gpu_mttf": ["2000 h", "10_000 h", "100_000 h"]}
    outputs = ["dominant_overhead", "reliability_to_communication_ratio"]
    held = cube(axes, outputs, flops_efficiency=0.99)
    figure = plot(held, "dominant_overhead", "n_gpus", "gpu_mttf", png)
    from matplotlib.colors import to_hex

    mesh, line = figure.axes[0].collections[:2]
    np.testing.assert_array_equal(mesh.get_array(), held["dominant_overhead"].values.T)
    found = sorted(set(held["dominant_overhead"].values.ravel().tolist()))
    (legend,) = figure.legends
    assert len(found) > 1
    colours = [to_hex(patch.get_facecolor()) for patch in legend.get_patches()]
    assert colours == [PALETTE[k].lower() for k in found]
    np.testing.assert_array_equal(line.levels, [1.0])


def test_curves_are_told_apart_and_labelled_in_units(png: Path) -> None:
    axes = {"n_gpus": [512, 1024], "gpu_mttf": ["10_000 h", "20_000 h"]}
    figure = plot(cube(axes, ["goodput"]), "goodput", "n_gpus", None, png)
    (drawn,) = figure.axes
    assert [text.get_text() for text in drawn.get_legend().get_texts()] == ["10,000", "20,000"]
    assert drawn.get_legend().get_title().get_text() == "gpu mttf [h]"


def test_points_of_a_roofline_stand_at_mfu_times_peak(png: Path) -> None:
    held = cube({"gpu": ["a100-sxm-80gb", "h100-sxm"]}, ROOFLINE)
    (axes,) = roofline(held, png, by="gpu").axes
    # data sheets: 312 and 989 TFLOP/s, 2.039 and 3.35 TB/s
    roofs = [line.get_xydata() for line in axes.lines]
    np.testing.assert_allclose([roof[1] for roof in roofs], [(312 / 2.039, 312), (989 / 3.35, 989)])
    for roof, bandwidth in zip(roofs, (2.039, 3.35), strict=True):
        assert roof[0, 1] / roof[0, 0] == pytest.approx(bandwidth)
        assert roof[2, 1] == roof[1, 1]
    dots = [dot.get_offsets().data for dot in axes.collections]
    reached = np.concatenate(dots[:4:2])
    np.testing.assert_allclose(reached[:, 0], 8192)  # 2 T / 2 bytes for T = 8192 tokens
    np.testing.assert_allclose(reached[:, 1], held["mfu"].values * [312, 989])
    assert axes.get_ylabel() == "rate of one GPU [TFLOP/s]"


def test_the_front_is_what_nothing_beats(png: Path) -> None:
    axes = {"n_gpus": [256, 1024, 4096], "pipeline_parallel": [1, 2, 4], "micro_batch_size": [1, 8]}
    held = cube(axes, ["job_time", "job_cost"])
    figure = pareto(held, "job_time", "job_cost", png, by="n_gpus")
    rows = np.stack([held["job_time"].values / 86400, held["job_cost"].values / 1e6]).reshape(2, -1)
    rows = rows[:, held["infeasible_reason"].broadcast_like(held["job_time"]).values.ravel() == 0]
    best = [
        row
        for row in rows.T
        if not any((other <= row).all() and (other < row).any() for other in rows.T)
    ]
    drawn = figure.axes[0].lines[0].get_xydata()
    np.testing.assert_allclose(drawn, sorted(map(tuple, best)))
    assert figure.axes[0].get_xlabel() == "job time [d]"
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["256", "1,024", "4,096"]
    job = Sweep(JOB, axes, ["job_time", "job_cost"])
    streamed = job.pareto(["job_time", "job_cost"], ["min", "min"], mask_infeasible=True)
    again = pareto(streamed, "job_time", "job_cost", png, by="n_gpus")
    np.testing.assert_allclose(again.axes[0].lines[0].get_xydata(), drawn)
    assert [text.get_text() for text in again.legends[0].get_texts()] == labels[::-1]
    upward = pareto(held, "job_time", "job_cost", png, best=("max", "max"))
    assert len(upward.axes[0].lines[0].get_xydata()) < len(rows.T)
    assert upward.axes[0].lines[0].get_xdata()[0] == rows[0].max()


BAD: list[tuple[Callable[[Any, Path], Any], str]] = [
    (lambda c, p: losses(c, "n_gpus", p), 'the cube has no compute_.*"recovery_overhead"$'),
    (lambda c, p: roofline(c, p), 'add to the outputs of its spec: "arithmetic_intensity"'),
    (lambda c, p: plot(c, "mfu", "n_gpus", None, p), 'the cube has no mfu; .* spec: "mfu"'),
    (lambda c, p: pareto(c, "job_time", "mfu", p), "the cube has no mfu"),
    (lambda c, p: pareto(c, "job_time", "job_time", p), "choose two outputs"),
    (lambda c, p: pareto(c, "job_time", "goodput", p, best=("min", "most")), "'min' or 'max'"),
    (lambda c, p: pareto(c, "job_time", "goodput", p, by="gpu"), "'gpu' is not an axis"),
    (lambda c, p: plot(c, "job_time", "gpu_mttf", None, p.with_suffix(".gif")), "change its end"),
]


@pytest.mark.parametrize(("draw", "words"), BAD)
def test_what_cannot_be_drawn_is_refused_in_one_line(draw: Any, words: str, png: Path) -> None:
    held = cube({"n_gpus": [512, 1024], "gpu_mttf": [1e8, 2e8]}, ["job_time", "goodput"])
    with pytest.raises(InputError, match=words) as error:
        draw(held, png)
    assert "\n" not in str(error.value)
    assert not png.exists()


def test_axes_that_are_not_cut_are_named(png: Path) -> None:
    held = cube({"n_gpus": [512, 1024], "gpu_mttf": [1e8, 2e8]}, [*LOSSES, *ROOFLINE])
    with pytest.raises(InputError, match="the cube still varies over gpu_mttf; cut them"):
        losses(held, "n_gpus", png)
    with pytest.raises(InputError, match="the cube still varies over n_gpus; cut them"):
        roofline(held, png)
    with pytest.raises(InputError, match="'fabric' is not an axis of the losses"):
        losses(held, "fabric", png)
