"""`python -m tests.accuracy --write` writes the tables and the picture of docs/accuracy.md."""

import sys

from fleetcube.grid.plots.validation import plot_validation

from .page import PAGE, PICTURE, own, page

if sys.argv[1:] != ["--write"]:
    sys.exit("usage: python -m tests.accuracy --write")
PAGE.write_text(page(), encoding="utf-8")
plot_validation(own(), PICTURE)
