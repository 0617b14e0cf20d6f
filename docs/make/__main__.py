"""`python -m docs.make [FILE ...]` writes generated content in these files, or on all pages.

catalog/data/calibration.toml is written only if named: a fit with other values makes the next
edition of a record. `--table FILE` adds a table of steps to fit, in the columns of
`fleetcube validate --records`; without it, earlier fits to such a table do not change.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from fleetcube.presentation.pictures.validation import plot_validation

from . import (
    accuracy,
    attacks,
    calibrate,
    float32,
    frozen,
    gallery,
    glossary,
    laws,
    outputs,
    readers,
    readme,
    simulated,
    training,
)
from .claims import page as claims

MAKERS: dict[Path, Callable[[], str]] = {
    training.CATALOG: training.catalog,
    calibrate.PAGE: calibrate.page,
    accuracy.PAGE: accuracy.page,
    claims.PAGE: claims.page,
    laws.PAGE: laws.page,
    attacks.PAGE: attacks.page,
    float32.PAGE: float32.page,
    frozen.PAGE: frozen.page,
    glossary.PAGE: glossary.page,
    readers.PAGE: readers.page,
    simulated.PAGE: simulated.page,
    readme.PAGE: readme.page,
}


def make(path: Path) -> None:
    if path in MAKERS:
        path.write_text(MAKERS[path](), encoding="utf-8")
    if path == accuracy.PAGE:
        plot_validation(accuracy.own(), accuracy.PICTURE)
        for picture in (accuracy.PICTURE, gallery.dark(accuracy.PICTURE)):
            gallery.few(picture, picture)
    if path in outputs.RUN:
        with tempfile.TemporaryDirectory() as scratch:
            path.write_text(outputs.rewritten(path, Path(scratch)), encoding="utf-8")
            if path in gallery.PAGES:
                gallery.keep(path, Path(scratch))


every = dict.fromkeys([*MAKERS, *outputs.RUN])
parser = argparse.ArgumentParser(prog="python -m docs.make", description=__doc__)
parser.add_argument("files", nargs="*", metavar="FILE", type=Path)
parser.add_argument("--table", action="append", default=[], type=Path, metavar="FILE")
options = parser.parse_args()
pages = [path for path in every if path != training.CATALOG]
files = [path.resolve() for path in options.files] or pages
if unknown := [str(path) for path in files if path not in every]:
    parser.error(f"nothing of {', '.join(unknown)} is generated")
training.FURTHER += options.table
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.pop("COLUMNS", None)  # tables in pipes have unlimited width
gallery.both_themes()
for path in files:
    make(path)
