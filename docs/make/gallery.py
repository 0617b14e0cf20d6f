"""Pictures on pages, as written by the pages' commands, and again for the site's dark theme."""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba, to_rgba_array
from matplotlib.patheffects import withStroke
from PIL import Image

from fleetcube.presentation.pictures.figure import Picture

from .text import DOCS

PAGES = (DOCS / "gallery.md", DOCS / "plots.md")
PAPER, INK = to_rgba("#131416"), to_rgba("#ced3da")  # of the site's dark theme
_COLOURS = 128  # reduces bytes to a third
_PARTS = ("facecolor", "edgecolor", "color", "markerfacecolor", "markeredgecolor")


def keep(page: Path, written: Path) -> None:
    """Copy a page's pictures from a folder into the one of the page's name, in fewer colours."""
    folder = DOCS / page.stem
    folder.mkdir(exist_ok=True)
    for name in re.findall(rf"\]\({page.stem}/(.+?\.png)\)", page.read_text(encoding="utf-8")):
        for own in (Path(name), dark(Path(name))):
            few(written / own, folder / own)


def few(path: Path, target: Path) -> None:
    """Write a picture in fewer colours."""
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    how: dict[str, Any] = {"lossless": True, "quality": 100, "method": 6}
    small.save(target, **({"optimize": True} if target.suffix == ".png" else how))


def dark(path: Path) -> Path:
    """The picture that the site shows instead on a dark page, where there is one."""
    return path.with_name(f"{path.stem}.dark.webp")


def both_themes() -> None:
    """From now on, figures that are written as PNG are written for dark pages, too."""
    light = Picture.savefig

    def savefig(figure: Picture, path: Any, **how: Any) -> None:
        light(figure, path, **how)
        if isinstance(path, Path) and path.suffix == ".png":
            _darken(figure)
            file = io.BytesIO()
            light(figure, file, format="png", dpi=how.get("dpi", "figure"), facecolor=PAPER)
            with Image.open(file) as image:
                image.save(dark(path), lossless=True)

    Picture.savefig = savefig  # type: ignore[method-assign,assignment]


def _darken(figure: Picture) -> None:
    """Turn greys, black and white into the dark theme's; words on areas into what is readable."""
    for artist in figure.findobj():
        mapped = getattr(artist, "get_array", lambda: None)() is not None
        if isinstance(artist, Axes | Picture) or mapped:
            continue  # their patches follow; its colours are values
        for part in _PARTS:
            now = getattr(artist, f"get_{part}", lambda: None)()
            own = to_rgba_array("none" if now is None else now)
            if len(own):
                getattr(artist, f"set_{part}")(_turned(own) if len(own) > 1 else _turned(own)[0])
        if artist.get_path_effects():
            artist.set_path_effects([withStroke(linewidth=3, foreground=PAPER)])
    words = [text for axes in figure.axes for text in axes.texts]
    for text in words:
        text.set_visible(False)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3] / 255
    for text in words:
        text.set_visible(True)
        (left, low), (right, high) = text.get_window_extent().get_points().round().astype(int)
        under = pixels[max(low, 0) : high, max(left, 0) : right].reshape(-1, 3)
        bright = under.size and np.median(under @ (0.2126, 0.7152, 0.0722)) > 0.4
        text.set_color("black" if bright else INK)


def _turned(colours: Any) -> Any:
    """Greys between paper and ink; other colours as they are."""
    grey = np.ptp(colours[:, :3], axis=1) < 0.02
    share = colours[:, :1]
    turned = np.array(INK) + (np.array(PAPER) - np.array(INK)) * share
    turned[:, 3] = colours[:, 3]
    return np.where(grey[:, None], turned, colours)
