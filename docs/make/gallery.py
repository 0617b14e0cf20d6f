"""The pictures of the gallery: what its commands write."""

from pathlib import Path

from .text import DOCS

PAGE = DOCS / "gallery.md"
FOLDER = DOCS / "gallery"
_COLOURS = 128  # a third of the bytes


def keep(written: Path) -> None:
    """Take the pictures that the page's commands wrote into a folder, in fewer colours."""
    from PIL import Image

    FOLDER.mkdir(exist_ok=True)
    for path in sorted(written.glob("*.png")):
        with Image.open(path) as image:
            few = image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
        few.save(FOLDER / path.name, optimize=True)
