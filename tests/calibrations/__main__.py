"""`python -m tests.calibrations --write` writes the fits of published curves where they stand."""

import sys

from .curves import CATALOG, PAGE, page, records

if sys.argv[1:] != ["--write"]:
    sys.exit("usage: python -m tests.calibrations --write")
CATALOG.write_text(records(), encoding="utf-8")
PAGE.write_text(page(), encoding="utf-8")
