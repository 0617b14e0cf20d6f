"""`python -m tests.calibrations --write [TABLE ...]` writes the fits to published figures.

Further tables, as vTrain's of one node, are read by path; what was fitted to them before stays
where they are not given.
"""

import sys
from pathlib import Path

from . import training
from .curves import CATALOG, PAGE, page, records

if sys.argv[1:2] != ["--write"]:
    sys.exit("usage: python -m tests.calibrations --write [TABLE ...]")
training.FURTHER += [Path(path) for path in sys.argv[2:]]
held = CATALOG.read_text(encoding="utf-8")
CATALOG.write_text(f"{records()}\n{training.records(held)}", encoding="utf-8")
PAGE.write_text(page(), encoding="utf-8")
