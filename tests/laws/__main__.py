"""`python -m tests.laws` prints docs/laws.md as it should be; with --write it writes it."""

import sys

from .page import PATH, page

if sys.argv[1:] == ["--write"]:
    PATH.write_text(page(), encoding="utf-8")
elif sys.argv[1:]:
    sys.exit("usage: python -m tests.laws [--write]")
else:
    sys.stdout.write(page())
