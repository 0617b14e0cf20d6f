"""Plots: contents of their artists, and refusals. Pixels are checked by eye."""

import io
import itertools
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from fleetcube import Settings
from fleetcube.analysis.step_parts import Part, step_parts, values_of
from fleetcube.analysis.traffic import names_of
from fleetcube.grid.errors import InputError
from fleetcube.presentation.pictures.kinds import LOSSES, flips, losses, pareto, roofline
from fleetcube.presentation.pictures.picture import caption as caption_of
from fleetcube.presentation.pictures.picture import described, number, picture_options, words
from fleetcube.presentation.pictures.plot import plot, spread
from fleetcube.presentation.pictures.step_picture import step_picture
from fleetcube.presentation.pictures.timeline import NAMES, timeline
from fleetcube.presentation.pictures.topology_picture import topology
from fleetcube.sweep import Sweep
from fleetcube.tables.theme import LINES, PARTS

from .common import cases, on_h100, refused

colors = pytest.importorskip("matplotlib.colors")
Text = pytest.importorskip("matplotlib.text").Text  # without the line to a name

JOB = on_h100(
    "llama-3-70b", gpu_hour_price=2.0, n_gpus=2048, tensor_parallel=8, pipeline_parallel=4
)
JOB |= {"global_batch_size": 2048, "straggler_slowdown": 0.02}
ROOFLINE = ["arithmetic_intensity", "ridge_point", "peak_flops", "mfu", "network_attainable_flops"]


def cube(axes: dict[str, Any], outputs: list[str], **entries: Any) -> Any:
    return Sweep({**JOB, **entries}, axes, outputs).evaluate(settings=Settings("numpy"))


@pytest.fixture
def png(tmp_path: Path) -> Path:
    return tmp_path / "picture.png"


def spans(axes: Any) -> list[tuple[float, float]]:
    from matplotlib.patches import Rectangle

    grey = [p for p in axes.patches if isinstance(p, Rectangle) and p.get_y() == 0]
    return [(p.get_x(), p.get_x() + p.get_width()) for p in grey]


def test_losses_stack_to_the_whole_and_infeasible_points_are_grey(png: Path) -> None:
    counts = [512, 1024, 2048, 200_000]  # at the last, some replicas have no batch
    held = cube({"n_gpus": counts}, [*LOSSES, "job_time"])
    top, below = losses(held, "n_gpus", png).axes
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
    colours = [colors.to_hex(area.get_facecolor()[0]) for area in below.collections]
    assert colours == list(PARTS)  # those of dominant_overhead
    assert (at[0].min(), at[-1].max()) == (0, 1)
    (grey,) = spans(below)
    assert grey[0] < 200_000 < grey[1]
    assert grey[0] > 2048
    assert below.get_xlim() == (pytest.approx(512 / 2**0.5), pytest.approx(grey[1]))
    assert png.stat().st_size > 10_000


def test_losses_of_one_feasible_point_fill_its_cell(png: Path) -> None:
    (axes,) = losses(cube({"n_gpus": [32, 1024, 200_000]}, list(LOSSES)), "n_gpus", png).axes
    first, second = spans(axes)
    for area in axes.collections:
        assert area.get_paths()[0].vertices[:, 0].min() == pytest.approx(first[1])
        assert area.get_paths()[0].vertices[:, 0].max() == pytest.approx(second[0])
    assert first[1] == pytest.approx(np.sqrt(32 * 1024))  # half way on the log axis


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
    assert figure.axes[0].get_xlabel() == "GPUs"
    assert figure.axes[0].get_ylabel() == "GPU MTTF [h]"


def test_each_contour_has_one_label_inside_the_map(png: Path) -> None:
    write = {"geomspace": ["5 GB/s", "2 TB/s"], "num": 400}
    axes = {"gpu_mttf": {"geomspace": ["5_000 h", "500_000 h"], "num": 400}}
    axes |= {"checkpoint_write_bandwidth": write}
    held = cube(axes, ["goodput"])
    figure = plot(held, "goodput", "gpu_mttf", "checkpoint_write_bandwidth", png)
    (drawn,) = [c for c in figure.axes[0].collections if hasattr(c, "levels")]
    texts = figure.axes[0].texts
    assert [text.get_text() for text in texts] == [number(level) for level in drawn.levels]
    inside = figure.axes[0].get_window_extent()
    for text in texts:
        box = text.get_window_extent()
        assert inside.contains(box.x0, box.y0)
        assert inside.contains(box.x1, box.y1)


def test_crowded_contours_keep_labels_that_fit_and_the_scale_names_all(png: Path) -> None:
    mttf = {"geomspace": ["5_000 h", "500_000 h"], "num": 33}
    sizes = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
    held = cube({"n_gpus": sizes, "gpu_mttf": mttf}, ["goodput"], provision_time="2 h")
    figure = plot(held, "goodput", "n_gpus", "gpu_mttf", png)
    axes, scale = figure.axes
    (drawn,) = [c for c in axes.collections if hasattr(c, "levels")]
    assert 3 <= len(axes.texts) < len(drawn.levels)  # those in the corner have no room
    middles = []
    figure.draw_without_rendering()  # as large as on the screen, not as in the file
    for text in axes.texts:
        box = text.get_window_extent()
        text.set_rotation(0)
        own = text.get_window_extent().width
        middles.append(((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2, own))
    for one, other in itertools.combinations(middles, 2):
        assert np.hypot(one[0] - other[0], one[1] - other[1]) > (one[2] + other[2]) / 2
    marks = scale.collections[-1]
    assert [line[0, 1] for line in marks.get_segments()] == pytest.approx(
        list(drawn.levels), rel=1e-3
    )


def test_flags_have_their_colours_and_the_line_of_equal_costs(png: Path) -> None:
    axes = {"n_gpus": [512, 2048, 8192], "gpu_mttf": ["2000 h", "10_000 h", "100_000 h"]}
    outputs = ["dominant_overhead", "reliability_to_communication_ratio"]
    held = cube(axes, outputs, flops_efficiency=0.99)
    figure = plot(held, "dominant_overhead", "n_gpus", "gpu_mttf", png)
    line, _, mesh = figure.axes[0].collections
    np.testing.assert_array_equal(mesh.get_array(), held["dominant_overhead"].values.T)
    found = sorted(set(held["dominant_overhead"].values.ravel().tolist()))
    (legend,) = figure.legends
    assert len(found) > 1
    colours = [colors.to_hex(patch.get_facecolor()) for patch in legend.get_patches()]
    assert colours == [PARTS[k] for k in found]
    assert legend.get_texts()[-1].get_text() == "reliability =\ncommunication"
    np.testing.assert_array_equal(line.levels, [1.0])


def test_the_reasons_of_infeasible_points_have_a_map(png: Path) -> None:
    held = cube({"n_gpus": [8, 128, 200_000], "pipeline_parallel": [4, 8]}, ["job_time"])
    meanings = held["infeasible_reason"].attrs["flag_meanings"].split()
    reasons = {meanings[k].replace("_", " ") for k in held["infeasible_reason"].values.ravel()}
    assert {"feasible", "group larger than cluster"} < reasons
    figure = plot(held, "infeasible_reason", "n_gpus", "pipeline_parallel", png)
    assert {text.get_text() for text in figure.legends[0].get_texts()} == reasons


def test_more_reasons_than_colours_differ_in_hatches(png: Path) -> None:
    held = cube({"n_gpus": list(range(8, 28)), "pipeline_parallel": [1, 2]}, ["job_time"])
    reason = held["infeasible_reason"].broadcast_like(held["job_time"]).copy()
    codes = reason.attrs["flag_values"][:20]
    reason.values[:] = np.array(codes)[:, None]
    held = held.assign_coords(infeasible_reason=reason)
    figure = plot(held, "infeasible_reason", "n_gpus", "pipeline_parallel", png)
    patches = figure.legends[0].get_patches()
    looks = [(colors.to_hex(patch.get_facecolor()), patch.get_hatch()) for patch in patches]
    assert len(set(looks)) == len(looks) == len(codes)
    assert looks[0] == (PARTS[-1], None)  # feasible
    hatched = {c.get_hatch() for c in figure.axes[0].collections if c.get_hatch()}
    assert hatched == {hatch for _, hatch in looks if hatch}


@cases("names", LOSSES[1:], ("reliability_overhead", "communication_overhead", "bubble_overhead"))
def test_flips_colours_the_largest_loss_compared(names: tuple[str, ...], png: Path) -> None:
    axes = {"n_gpus": [512, 2048, 8192], "gpu_mttf": ["1000 h", "5000 h", "100_000 h"]}
    held = cube(axes, [*LOSSES, "reliability_overhead"])
    held["bubble_overhead"].values[0] = np.nan  # of 512 GPUs: then no loss is the largest
    figure = flips(held, "n_gpus", "gpu_mttf", png, *(() if names == LOSSES[1:] else (names,)))
    mesh = figure.axes[0].collections[-1]
    assert mesh.get_array().mask[:, 0].all()
    colour_of = dict(zip([*LOSSES, "reliability_overhead"], PARTS, strict=True))
    expected = [
        [max(names, key=lambda name: float(held[name].broadcast_like(point)[i, j])) for i in (1, 2)]
        for point in [held["rework_overhead"]]
        for j in range(3)
    ]
    assert len({name for row in expected for name in row}) > 1
    shown = [
        [colors.to_hex(mesh.cmap(mesh.norm(code))) for code in row[1:]] for row in mesh.get_array()
    ]
    assert shown == [[colour_of[name] for name in row] for row in expected]
    assert "compute" not in figure.legends[0].get_texts()[0].get_text()


def test_curves_are_told_apart_and_labelled_in_units(png: Path) -> None:
    axes = {"n_gpus": [512, 1024], "gpu_mttf": ["10_000 h", "20_000 h"]}
    figure = plot(cube(axes, ["goodput"]), "goodput", "n_gpus", None, png)
    (drawn,) = figure.axes
    assert [text.get_text() for text in drawn.texts] == ["10,000", "20,000", "GPU MTTF [h]"]
    assert "GPU MTTF [h]: 10,000, 20,000" in described(figure)
    assert len({line.get_marker() for line in drawn.lines}) == 2  # for prints without colours


def test_names_of_curves_that_coincide_stand_apart_and_all_curves_are_seen(png: Path) -> None:
    fabrics = ["roce-100g", "infiniband-hdr", "infiniband-ndr", "infiniband-xdr", "infiniband-gxdr"]
    held = cube({"n_gpus": [128, 512, 1024], "fabric": fabrics}, ["job_time"])
    figure = plot(held, "job_time", "n_gpus", None, png)
    (drawn,) = figure.axes
    figure.draw_without_rendering()
    boxes = {text.get_text(): Text.get_window_extent(text) for text in drawn.texts}
    assert {*boxes} == {*fabrics, "fabric"}
    for one, other in itertools.combinations(boxes.values(), 2):
        assert not one.overlaps(other)
    assert all(box.x0 > drawn.bbox.x1 and box.x1 < figure.bbox.x1 for box in boxes.values())
    above = sorted(fabrics, key=lambda name: boxes[name].y0)  # in the order of the curves
    assert above == fabrics[::-1]
    widths = [line.get_linewidth() for line in drawn.lines[:10:2]]
    assert widths == sorted(widths, reverse=True)
    assert len({*widths}) == 5


@pytest.mark.parametrize("heights", [[0.5] * 5, [-0.2, 0.0, 0.97, 1.3], [0.1, 0.4, 0.8]])
def test_heights_are_spread_in_order_within_the_picture(heights: list[float]) -> None:
    found = spread(heights, 0.1, 0.9)
    assert min(b - a for a, b in itertools.pairwise(found)) >= 0.1 - 1e-6
    assert -1e-6 <= found[0] <= found[-1] <= 0.9 + 1e-6


def test_infeasible_points_of_a_curve_stand_hollow_beside_it_or_far_off(png: Path) -> None:
    held = cube({"n_gpus": [32, 128, 256]}, ["job_time"])
    held["job_time"].values[2] = np.nan
    assert held["infeasible_reason"].values.tolist()[1:] == [0, 0]
    assert held["infeasible_reason"][0] > 0
    (axes,) = plot(held, "job_time", "n_gpus", None, png).axes
    feasible, hollow, _ = axes.lines
    days = held["job_time"].values / 86400
    np.testing.assert_array_equal(feasible.get_ydata(), [np.nan, days[1], np.nan])
    np.testing.assert_array_equal(hollow.get_ydata(), [days[0], np.nan, np.nan])
    assert hollow.get_fillstyle() == "none"
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["cannot run", "computed, but cannot run"]
    ((low, high),) = spans(axes)  # no curve can run there
    assert (low < 32 < high, high) == (True, (32 + 128) / 2)
    assert axes.get_xlim()[0] == pytest.approx(low)
    held["job_time"].values[0] *= 100  # an outlier does not set the range
    (axes,) = plot(held, "job_time", "n_gpus", None, png).axes
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["cannot run", "computed, but cannot run (1 far off)"]
    assert axes.get_ylim()[1] < 2 * held["job_time"].values[1] / 86400


def test_a_curve_that_stops_has_crosses_and_many_curves_have_bars_for_bands(png: Path) -> None:
    axes = {"n_gpus": [64, 128, 256], "pipeline_parallel": [1, 2, 4], "step_time_error": [-1, 0, 1]}
    held = cube(axes, ["job_time"], model="llama-3-8b")
    bad = np.zeros((3, 3), np.int8)
    bad[2, 1] = 1
    held = held.assign_coords(infeasible_reason=(("n_gpus", "pipeline_parallel"), bad))
    times = held["job_time"].values.copy()
    times[2, 1] = np.nan
    held["job_time"].values[:] = times
    figure = plot(held, "job_time", "n_gpus", None, png)
    (drawn,) = figure.axes
    crosses = [line for line in drawn.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert [line.get_xdata().tolist() for line in crosses] == [[256.0]]
    assert crosses[0].get_color() == LINES[1]
    assert crosses[0].get_transform() == drawn.get_xaxis_transform()
    assert not spans(drawn)
    texts = [text.get_text() for text in drawn.get_legend().get_texts()]
    assert texts == ["90 % interval", "this curve cannot run"]
    bars = [c.get_segments() for c in drawn.collections if len(c.get_segments())]
    assert len(bars) == 3
    low, high = (held["job_time"].isel(step_time_error=k).values / 86400 for k in (0, 2))
    for k, segments in enumerate(bars):
        there = [segment[:, 1].tolist() for segment in segments if segment.shape == (2, 2)]
        known = [n for n in range(3) if not bad[n, k]]
        assert np.sort(there) == pytest.approx(np.sort([[low[n, k], high[n, k]] for n in known]))


@pytest.mark.parametrize("best", ["min", "max"])
def test_curves_that_hide_each_other_as_ratios_to_the_best(best: str, png: Path) -> None:
    axes = {"n_gpus": [32, 512, 1024], "pipeline_parallel": [1, 2, 4]}
    held = cube(axes, ["job_time"], model="llama-3-8b")
    bad = held["infeasible_reason"].broadcast_like(held["job_time"]).values != 0
    bad[0, 1] = True
    held = held.assign_coords(infeasible_reason=(held["job_time"].dims, bad.astype(np.int8)))
    (drawn,) = plot(held, "job_time", "n_gpus", None, png, best).axes
    able = np.where(bad, np.nan, held["job_time"].values)
    reference = (np.nanmin if best == "min" else np.nanmax)(able, axis=1)
    lines = np.array([line.get_ydata() for line in drawn.lines[:6:2]])
    np.testing.assert_allclose(lines.T, able / reference[:, None])
    assert drawn.get_ylabel() == f"job time / {'lowest' if best == 'min' else 'highest'}"


def test_curves_of_a_flag_stand_at_its_meanings(png: Path) -> None:
    held = cube({"n_gpus": [128, 256]}, ["job_time"])
    held["job_time"].values[:] = [2, -1]
    held["job_time"].attrs["flag_meanings"] = "not_here nor_here here"
    (axes,) = plot(held, "job_time", "n_gpus", None, png).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["here"]
    assert np.isnan(axes.lines[0].get_ydata()[1])


def test_a_map_tells_infeasible_cells_from_cells_without_a_value(png: Path) -> None:
    held = cube({"n_gpus": [32, 128, 256], "gpu_mttf": ["10_000 h", "20_000 h"]}, ["job_time"])
    held["job_time"].values[2, 0] = np.nan
    figure = plot(held, "job_time", "n_gpus", "gpu_mttf", png)
    assert figure.axes[0].patch.get_hatch()
    white, mesh = figure.axes[0].collections
    np.testing.assert_array_equal(mesh.get_array().mask, [[1, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(white.get_array().mask, [[1, 1, 0], [1, 1, 1]])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["cannot run", "no value"]


def test_points_of_a_roofline_stand_at_mfu_times_peak(png: Path) -> None:
    held = cube({"gpu": ["a100-sxm-80gb", "h100-sxm"]}, ROOFLINE)
    (axes,) = roofline(held, png, by="gpu").axes
    # data sheets: 312 and 989 TFLOP/s, 2.039 and 3.35 TB/s
    roofs = [line.get_xydata() for line in axes.lines]
    np.testing.assert_allclose([roof[1] for roof in roofs], [(312 / 2.039, 312), (989 / 3.35, 989)])
    for roof, bandwidth in zip(roofs, (2.039, 3.35), strict=True):
        assert (roof[0, 1] / roof[0, 0], roof[2, 1]) == (pytest.approx(bandwidth), roof[1, 1])
    reached = np.concatenate([dot.get_offsets().data for dot in axes.collections][:2])
    np.testing.assert_allclose(reached[:, 0], 8192)  # 2 T / 2 bytes for T = 8192 tokens
    np.testing.assert_allclose(reached[:, 1], held["mfu"].values * [312, 989])
    assert axes.get_ylabel() == "rate of one GPU [TFLOP/s]"


def test_dots_that_would_hide_each_other_stand_side_by_side(png: Path) -> None:
    held = cube({"n_gpus": [512, 1024, 2048]}, ROOFLINE)
    held["mfu"].values[:] = [0.4, 0.4, 0.1]
    (axes,) = roofline(held, png, by="n_gpus").axes
    dots = [dot for dot in axes.collections if len(dot.get_offsets())]
    at = [dot.get_offset_transform().transform(dot.get_offsets())[0] for dot in dots]
    assert all(np.hypot(*(one - two)) > 8 for one, two in itertools.combinations(at, 2))
    assert (at[0][0], at[0][1]) == (pytest.approx(at[2][0]), pytest.approx(at[1][1]))
    assert at[1][0] > at[0][0]
    assert axes.get_xlabel().endswith("dots side by side have that of the leftmost")


def test_names_stand_inside_areas_with_room(png: Path) -> None:
    figure = losses(cube({"n_gpus": [512, 1024, 2048, 4096]}, list(LOSSES)), "n_gpus", png)
    (axes,) = figure.axes
    areas = {p.get_label(): p for p in figure.legends[0].get_patches()}
    names = [text for text in axes.texts if text.get_text() in areas]
    assert "compute inefficiency" in [text.get_text() for text in names]
    drawn = dict(zip(areas, axes.collections, strict=True))
    for text in names:
        box = text.get_window_extent()
        (path,) = drawn[text.get_text()].get_paths()
        corners = [(x, y) for x in (box.x0, box.x1) for y in (box.y0, box.y1)]
        assert path.contains_points(axes.transData.inverted().transform(corners)).all()


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
    job = Sweep(JOB | {"memory_headroom": False}, axes, ["job_time", "job_cost"])
    streamed = job.best(
        ["job_time", "job_cost"], sense=["min", "min"], settings=Settings(infeasible="exclude")
    )
    again = pareto(streamed, "job_time", "job_cost", png, by="n_gpus")
    np.testing.assert_allclose(again.axes[0].lines[0].get_xydata(), drawn)
    assert [text.get_text() for text in again.legends[0].get_texts()] == labels[::-1]
    upward = pareto(held, "job_time", "job_cost", png, best=("max", "max"))
    assert len(upward.axes[0].lines[0].get_xydata()) < len(rows.T)
    assert upward.axes[0].lines[0].get_xdata()[0] == rows[0].max()


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_pictures_have_the_same_bytes_under_any_matplotlibrc(ending: str, tmp_path: Path) -> None:
    import matplotlib as mpl
    import matplotlib.style

    held = cube({"n_gpus": [512, 1024], "gpu_mttf": ["10_000 h", "20_000 h"]}, ["goodput"])
    paths = [tmp_path / f"{name}.{ending}" for name in ("light", "dark")]
    plot(held, "goodput", "n_gpus", "gpu_mttf", paths[0])
    with mpl.style.context("dark_background"):
        plot(held, "goodput", "n_gpus", "gpu_mttf", paths[1])
        assert mpl.rcParams["text.color"] == "white"
    assert paths[0].read_bytes() == paths[1].read_bytes()
    if ending == "svg":
        text = paths[0].read_text(encoding="utf-8")
        assert "GPU MTTF [h]</text>" in text
        assert "<dc:date>" not in text
    if ending == "pdf":
        assert b"CreationDate" not in paths[0].read_bytes()


def test_a_picture_says_what_it_is_of_beside_all_else(png: Path) -> None:
    """Labels, layout and release below the panels, which a legend below them does not cover."""
    said = "llama-3-70b, dgx-h100, infiniband-ndr, TP8 PP4, fleetcube "
    held = cube({"n_gpus": [512, 1024, 2048]}, [*LOSSES, "job_time"])
    for figure in (plot(held, "job_time", "n_gpus", None, png), losses(held, "n_gpus", png)):
        texts = [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]
        (caption,) = [text for text in texts if text.get_text().startswith(said)]
        box = caption.get_window_extent()
        others = [legend.get_window_extent() for legend in figure.legends]
        others += [axes.xaxis.label.get_window_extent() for axes in figure.axes]
        assert not any(box.overlaps(other) for other in others)
        assert 0 <= box.y0 < box.y1 <= figure.bbox.y1
    assert caption_of(held.drop_attrs()) == ""
    shallow = cube({"n_gpus": [512, 1024], "pipeline_parallel": [2, 4]}, ["job_time"])
    assert ", TP8 PP2, fleetcube " in caption_of(shallow.isel(pipeline_parallel=0))


def test_title_size_and_dpi_are_the_users(tmp_path: Path) -> None:
    from PIL import Image

    held = cube({"n_gpus": [512, 1024], "gpu_mttf": ["10_000 h", "20_000 h"]}, ["goodput"])
    with picture_options("At $2 & $3 an hour", "5x4", 100):
        figure = plot(held, "goodput", "n_gpus", None, tmp_path / "a.png")
        plot(held, "goodput", "n_gpus", None, tmp_path / "a.svg")
    assert figure.get_suptitle() == "At $2 & $3 an hour"
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (500, 400)
        assert image.info["Title"] == "At $2 & $3 an hour"
    root = ET.parse(tmp_path / "a.svg").getroot()
    name = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert [root.findtext(f"{name}{part}") for part in ("title", "desc")] == [
        "At $2 & $3 an hour",
        "across: GPUs, 512 to 1,024; up: goodput, "
        + " to ".join(text.get_text() for text in ends(figure.axes[0]))
        + "; GPU MTTF [h]: 10,000, 20,000",
    ]


def ends(axes: Any) -> list[Any]:
    low, high = axes.get_ylim()
    shown = zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
    texts = [text for at, text in shown if low <= at <= high]
    return [texts[0], texts[-1]]


def test_a_notebook_shows_what_a_picture_returns() -> None:
    from PIL import Image

    held = cube({"n_gpus": [512, 1024]}, ["goodput"])
    shown, size = held.fleetcube.plot("n_gpus", of="goodput", size="4x3")._repr_png_()
    assert size == {"width": 400, "height": 300}
    with Image.open(io.BytesIO(shown)) as image:
        assert image.size == (800, 600)


@cases(
    "size, dpi, words",
    ("8", 150, "size = '8': give inches across and up, such as 8x5"),
    ("8x1", 150, "each from 2 to 40"),
    ((8, np.nan), 150, "each from 2 to 40"),
    ("axb", 150, "such as 8x5"),
    ("8x5", 10, "dpi = 10: give a whole number from 30 to 1,200"),
    ("40x40", 1200, "2,304 million pixels, more than 100; give a smaller"),
)
def test_sizes_that_no_picture_has_are_refused(size: Any, dpi: int, words: str) -> None:
    with pytest.raises(InputError, match=words), picture_options(None, size, dpi):
        pass


# Machado, Oliveira & Fernandes 2009, IEEE TVCG 15(6), table 1 at severity 1: vision without the
# cones for long, middle and short waves, on linear RGB
BLIND = {
    "protan": (0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116),
    "deutan": (0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940),
    "tritan": (1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367),
}  # by rows, which add up to 1


@pytest.mark.parametrize("seen", BLIND.values(), ids=BLIND)
@pytest.mark.parametrize("palette", [PARTS, LINES])
def test_colour_blind_readers_tell_colours_apart(palette: tuple[str, ...], seen: Any) -> None:
    matrix = np.append(seen, 1 - seen[6] - seen[7]).reshape(3, 3)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=2e-6)
    to_xyz = np.array(  # of sRGB, over the white point D65
        [(0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0177, 0.1095, 0.8728)]
    )

    def lab(colour: str) -> Any:
        rgb = np.array(colors.to_rgb(colour))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        x, y, z = np.cbrt(to_xyz @ np.clip(matrix @ linear, 0, 1))
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    apart = [np.linalg.norm(lab(one) - lab(two)) for one, two in itertools.combinations(palette, 2)]
    assert min(apart) > 15  # of CIE76, where 2.3 is just noticeable


def test_ticks_are_at_few_round_points_and_otherwise_at_round_numbers(png: Path) -> None:
    def ticks(spec: Any) -> list[str]:
        (axes,) = plot(cube({"n_gpus": spec}, ["goodput"]), "goodput", "n_gpus", None, png).axes
        low, high = axes.get_xlim()
        pairs = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        return [label.get_text() for at, label in pairs if low <= at <= high]

    assert (ticks([1024]), ticks([64, 512, 4096])) == (["1,024"], ["64", "512", "4,096"])
    between = ["100", "200", "500", "1,000", "2,000", "5,000", "10,000"]
    assert ticks([64, 65, 66, 8192]) == between
    assert ticks(list(range(1000, 1200, 8)))[:2] == ["1,000", "1,050"]
    assert ticks([39.8, 213, 1140]) == ["50", "100", "200", "500", "1,000"]


def test_labels_below_an_axis_do_not_overlap(png: Path) -> None:
    labels = [f"tp8-pp{k}-interleaved-with-many-virtual-stages" for k in range(6)]
    layout = {"labels": labels, "micro_batch_size": [1, 2, 4, 8, 16, 32]}
    (axes,) = plot(cube({"layout": layout}, ["step_time"]), "step_time", "layout", None, png).axes
    texts = axes.get_xticklabels()
    assert all("\n" in text.get_text() for text in texts)
    assert {text.get_rotation() for text in texts} == {25.0}
    short = {"labels": ["a", "b"], "micro_batch_size": [1, 2]}
    (axes,) = plot(cube({"layout": short}, ["step_time"]), "step_time", "layout", None, png).axes
    boxes = [text.get_window_extent() for text in axes.get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
    assert {text.get_rotation() for text in axes.get_xticklabels()} == {0.0}


def test_names_and_numbers_read_as_people_write_them() -> None:
    names = {"n_gpus": "GPUs", "gpus_per_node": "GPUs per node", "gpu_mttf": "GPU MTTF"}
    names |= {"mfu": "MFU", "peak_flops_bf16": "peak FLOPs BF16"}
    assert {name: words(name) for name in names} == names
    numbers = {4096: "4,096", 0.05: "0.05", 1.5e13: "15 T", 24e6: "24 M", 0: "0", -2e9: "-2 G"}
    assert {value: number(value) for value in numbers} == numbers


BAD: list[tuple[Callable[[Any, Path], Any], str]] = [
    (lambda c, p: losses(c, "n_gpus", p), 'the cube has no compute_.*"recovery_overhead"$'),
    (lambda c, p: roofline(c, p), 'add to the outputs of its spec: "arithmetic_intensity"'),
    (lambda c, p: plot(c, "mfu", "n_gpus", None, p), 'the cube has no mfu; .* spec: "mfu"'),
    (lambda c, p: pareto(c, "job_time", "mfu", p), "the cube has no mfu"),
    (lambda c, p: pareto(c, "job_time", "job_time", p), "choose two outputs"),
    (lambda c, p: pareto(c, "job_time", "goodput", p, best=("min", "most")), "'min' or 'max'"),
    (lambda c, p: pareto(c, "job_time", "goodput", p, by="gpu"), "'gpu' is not an axis"),
    (lambda c, p: flips(c, "n_gpus", "gpu_mttf", p), 'no communication_.*"recovery_overhead"$'),
    (lambda c, p: flips(c, "n_gpus", "gpu_mttf", p, ["mfu"]), "'mfu' is not one of them; compare"),
    (lambda c, p: flips(c, "n_gpus", "gpu_mttf", p, LOSSES[:1]), "one loss has no rival; compare"),
    (lambda c, p: plot(c * np.nan, "job_time", "n_gpus", None, p), "no point has job_time; cut"),
    (lambda c, p: plot(c, "job_time", "n_gpus", "gpu_mttf", p, "min"), "'min' or 'max', for cu"),
    (lambda c, p: plot(c.isel(gpu_mttf=0), "job_time", "n_gpus", None, p, "min"), "axis uncut"),
    (lambda c, p: plot(-c, "job_time", "n_gpus", None, p, "min"), "is not positive everywhere"),
    (lambda c, p: plot(c, "job_time", "gpu_mttf", None, p.with_suffix(".gif")), "change its end"),
]


@pytest.mark.parametrize(("draw", "words"), BAD)
def test_what_cannot_be_drawn_is_refused_in_one_line(draw: Any, words: str, png: Path) -> None:
    held = cube({"n_gpus": [512, 1024], "gpu_mttf": [1e8, 2e8]}, ["job_time", "goodput"])
    refused(words, draw, held, png)
    assert not png.exists()


def test_axes_that_are_not_cut_are_named(png: Path) -> None:
    held = cube({"n_gpus": [512, 1024], "gpu_mttf": [1e8, 2e8]}, [*LOSSES, *ROOFLINE])
    refused("the cube still varies over gpu_mttf; cut them", losses, held, "n_gpus", png)
    refused("the cube still varies over n_gpus; cut them", roofline, held, png)
    refused("'fabric' is not an axis of the losses", losses, held, "fabric", png)


def test_topology_draws_how_far_up_each_kind_of_traffic_goes() -> None:
    job: dict[str, Any] = {"model": "llama-3-405b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    job |= {"n_gpus": 24576, "gpus_per_switch": 16, "gpus_per_pod": 3072, "tensor_parallel": 8}
    job |= {"pipeline_parallel": 16, "global_batch_size": 3072, "sites": 2, "site_bandwidth": 1e11}
    point = Sweep(job, {}, names_of({"scenario": job})).evaluate(settings=Settings("numpy"))
    left, right = topology(point, None).axes
    names = [tick.get_text().split("\n")[0] for tick in left.get_yticklabels()]
    assert names == ["node", "leaf switch", "pod", "between pods", "between sites"]
    kinds = [tick.get_text() for tick in right.get_yticklabels()]
    tops = [round(text.xy[1] - 0.42) for text in left.texts if getattr(text, "arrow_patch", None)]
    assert dict(zip(kinds, tops, strict=True)) == {
        "tensor": 0,
        "data": 2,
        "pipeline": 3,
        "sites": 4,
    }
    times = [float(point[f"{kind.removesuffix('s')}_parallel_time"]) for kind in kinds]
    assert [bar.get_width() for bar in right.patches] == times


SLOW = {"slow_node_slowdown": 0.2, "slow_node_check_interval": "6 h", "slow_node_check_time": 30.0}
STEPS: dict[str, dict[str, Any]] = {
    "exposed_tensor_parallel_time": {"sequence_parallel": True, "context_parallel": 2},
    "serial_time_per_step": {"serial_time_per_step": 0.5, "n_gpus": 1, "tensor_parallel": 1}
    | {"pipeline_parallel": 1},
    "exposed_site_parallel_time": {"sites": 2, "site_bandwidth": 1e10},
    "slow_node_stop_time": {"slow_nodes": "checked", "slow_node_mttf": "9_000 h"} | SLOW,
    "exposed_expert_parallel_time": {"model": "deepseek-v3", "expert_parallel": 64}
    | {"expert_parallel_overlap": 0.3},
}


@pytest.mark.parametrize("part", STEPS)
def test_the_parts_of_a_step_add_up_and_are_the_bars_of_its_picture(part: str) -> None:
    point = values_of({**JOB, **STEPS[part]}, {})
    whole = step_parts(point)

    def leaves(of: Part) -> list[Part]:
        if not of.parts:
            return [of]
        assert sum(each.seconds for each in of.parts) == pytest.approx(of.seconds, rel=1e-12)
        return [leaf for each in of.parts for leaf in leaves(each)]

    ends = leaves(whole)
    assert sum(leaf.seconds for leaf in ends) == pytest.approx(float(point["step_time"]), rel=1e-12)
    assert part in {leaf.name for leaf in ends}
    figure = step_picture(point.to_xarray(), None)
    rows: dict[float, float] = {}
    for bar in figure.axes[0].patches:
        rows[bar.get_y()] = rows.get(bar.get_y(), 0.0) + bar.get_width()
    top, second = [rows[key] for key in sorted(rows)][:2]
    assert (second, len(figure.legends[0].get_texts())) == (pytest.approx(top), len(ends))


def test_a_step_that_is_given_has_no_parts() -> None:
    with pytest.raises(InputError, match="is not the sum of its parts there: it is given"):
        step_parts(values_of({**JOB, "step_time": 10.0}, {}))
    with pytest.raises(InputError, match=r"several values; cut micro_batch_size to one point"):
        step_parts(values_of(JOB, {"micro_batch_size": [1, 2]}))


def test_names_of_short_phases_do_not_overlap() -> None:
    lengths = [100.0, 3e6, 5e6, 1e4, 1e4, 2e4, 1e4, 5e4]
    names = [f"phase {k} with a name" for k in range(len(lengths))]
    shares = {name: ("phase", np.full(len(lengths), 0.1)) for name in NAMES if name != "job_time"}
    times = xarray.Variable("phase", lengths, {"units": "s"})
    held = xarray.Dataset({"job_time": times, **shares}, {"phase": names})
    left, right = timeline(held, None).axes
    assert left.get_xlabel() == "time since the start [d]"
    texts = left.get_yticklabels()
    assert [text.get_text().split("\n")[0] for text in texts] == names
    assert texts[0].get_text() == "phase 0 with a name\n1.67 min"
    assert {text.get_rotation() for text in texts} == {0.0}
    boxes = [text.get_window_extent() for text in texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert [bar.get_x() * 86400 for bar in left.patches] == pytest.approx(
        [sum(lengths[:k]) for k in range(len(lengths))]
    )
    ends = np.zeros(len(lengths))
    for bars in right.containers:
        assert [bar.get_x() for bar in bars] == pytest.approx(ends)
        ends += [bar.get_width() for bar in bars]
    assert ends == pytest.approx(np.ones(len(lengths)))
