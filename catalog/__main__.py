"""`python -m fleetcube.catalog`: add new records to the ledger of editions."""

import sys

from .ledger import complaints, existing, publish, published


def main() -> int:
    """Publish what is new; 1 where something published has changed."""
    for line in publish():
        print(f"published {line.rsplit(' ', 1)[0]}")
    wrong = complaints(published(), existing())
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
