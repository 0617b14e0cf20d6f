"""Pictures that pages show: what their commands write."""

import re
from pathlib import Path

from .text import DOCS

PAGES = (DOCS / "gallery.md", DOCS / "plots.md")
_COLOURS = 128  # a third of the bytes


def keep(page: Path, written: Path) -> None:
    """Take the pictures that a page shows from a folder of its name, in fewer colours."""
    from PIL import Image

    folder = DOCS / page.stem
    folder.mkdir(exist_ok=True)
    for name in re.findall(rf"\]\({page.stem}/(.+?\.png)\)", page.read_text(encoding="utf-8")):
        with Image.open(written / name) as image:
            few = image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
        few.save(folder / name, optimize=True)
