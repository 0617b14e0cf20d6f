"""Pictures on pages, as written by the pages' commands."""

import re
from pathlib import Path

from .text import DOCS

PAGES = (DOCS / "gallery.md", DOCS / "plots.md")
_COLOURS = 128  # reduces bytes to a third


def keep(page: Path, written: Path) -> None:
    """Copy a page's pictures from a folder into the one of the page's name, in fewer colours."""
    from PIL import Image

    folder = DOCS / page.stem
    folder.mkdir(exist_ok=True)
    for name in re.findall(rf"\]\({page.stem}/(.+?\.png)\)", page.read_text(encoding="utf-8")):
        with Image.open(written / name) as image:
            few = image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
        few.save(folder / name, optimize=True)
