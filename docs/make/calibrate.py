"""docs/calibrate.md, with the errors of both laws of all-reduces."""

from . import all_reduces, fabrics
from .text import between

PAGE = all_reduces.PAGE


def page() -> str:
    fitted = between(PAGE.read_text(encoding="utf-8"), "published curves", all_reduces.section())
    return between(fitted, "fabrics left out", fabrics.section())
